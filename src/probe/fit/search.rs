//! The search for generic models: the middle of the range first, then its edges.

use super::super::black_box::Interface;
use super::cases::{Case, Compact, Jury, sees_zeros};
use super::options::{self, WIDTHS};
use super::structure::{LastKept, Structure};
use crate::accumulate::{CPosition, Floor, GenericDot, Recipe, SubnormalC, ZeroProducts};
use crate::round::Rounding;
use crate::special::NanRule;
use std::collections::HashMap;
use std::time::Instant;

/// Models kept per structure, and of these with one ending: more only differ in what the middle of the range cannot
/// show.
const KEPT: (usize, usize) = (400, 60);

/// Roundings of known designs, or all there are.
fn roundings(known: bool) -> impl Iterator<Item = Rounding> {
    options::roundings().take(if known { 4 } else { usize::MAX })
}

/// The alignments tried: exact, or every width, rounding and sticky bit. With floors that keep bits down to `last`,
/// every width has its own; or none, where it keeps no more of the smallest products anyway.
fn alignments(base: GenericDot, known: bool, last: Option<LastKept>) -> impl Iterator<Item = GenericDot> {
    let exact = last.is_none().then_some(GenericDot { exact: true, ..base });
    let wide = move |frac_bits: u32, sticky: bool| {
        let wide = GenericDot { frac_bits, sticky, ..base };
        // A sticky bit alone shows as one bit more.
        let below_emin = |last: LastKept| last.bit - frac_bits as i32 - i32::from(sticky);
        let floor = last.map(|last| GenericDot { floor: Floor::BelowEmin(below_emin(last)), ..wide });
        let none = last.is_none_or(|last| below_emin(last) >= last.harmless).then_some(wide);
        none.into_iter().chain(floor)
    };
    let aligned = [false, true].into_iter().flat_map(move |sticky| {
        let rounded = move |alignment| {
            let of_width = move |w| wide(w, sticky).map(move |wide| GenericDot { alignment, ..wide });
            WIDTHS.flat_map(of_width)
        };
        roundings(known).flat_map(rounded)
    });
    exact.into_iter().chain(aligned)
}

/// Formats whose smallest numbers are at least 2^HIGH meet the rules for them among ordinary numbers.
const HIGH: i32 = -24;

/// The rules that ordinary numbers can meet in these formats: how zero products count, whether
/// subnormal inputs (sums of earlier blocks among them) and results are flushed.
fn low_rules(interface: &Interface) -> Vec<(ZeroProducts, bool, bool)> {
    let zeros = [ZeroProducts::Ignored, ZeroProducts::OwnExponent];
    let zeros = &zeros[..if interface.a.emin() + interface.b.emin() >= HIGH { 2 } else { 1 }];
    let inputs = &[false, true][..if interface.d.emin() >= HIGH { 2 } else { 1 }];
    let pairs = |zero| inputs.iter().flat_map(move |&i| [(zero, i, false), (zero, i, true)]);
    zeros.iter().flat_map(|&zero| pairs(zero)).collect()
}

/// What a block does with its sum: rounding, c, normalisation, flushing.
pub(crate) fn endings(
    bits: &[Option<u32>],
    places: &[CPosition],
    known: bool,
    interface: &Interface,
) -> Vec<GenericDot> {
    let mut all = Vec::new();
    for (zero_products, flush_inputs, flush_results) in low_rules(interface) {
        for normalise_products in [false, true] {
            for &c in places {
                for output_rounding in roundings(known) {
                    all.extend(bits.iter().map(|&output_bits| GenericDot {
                        zero_products,
                        flush_inputs,
                        flush_results,
                        normalise_products,
                        c,
                        output_rounding,
                        output_bits,
                        ..GenericDot::default()
                    }));
                }
            }
        }
    }
    all
}

/// What the middle of the range is searched with.
#[derive(Debug)]
pub(crate) struct Middle<'a> {
    pub(crate) cases: &'a [Case],
    pub(crate) interface: &'a Interface,
    /// How many cases may refute a model.
    pub(crate) allowed: usize,
    pub(crate) deadline: Instant,
}

/// Every alignment with each of these endings, and with floors that keep bits down to `last`.
pub(crate) fn candidates(
    endings: &[GenericDot],
    known: bool,
    last: Option<LastKept>,
) -> impl Iterator<Item = GenericDot> {
    endings.iter().flat_map(move |ending| alignments(*ending, known, last))
}

/// The models, cut as `structure` says, that few of the middle-range cases refute.
pub(crate) fn middle(
    structure: &Structure,
    models: impl Iterator<Item = GenericDot>,
    &Middle { cases, interface, allowed, deadline }: &Middle<'_>,
) -> Vec<GenericDot> {
    // Wider sums than the arithmetic holds are refused by the accumulator, too.
    if interface.a.fraction_bits + interface.b.fraction_bits + 2 > 120 {
        return Vec::new();
    }
    let jury = |merge| {
        let compact = |(at, case)| Compact::new(case, at, &structure.partition, interface, merge);
        Jury { cases: cases.iter().enumerate().map(compact).collect() }
    };
    let (mut merged, mut whole) = (jury(true), jury(false));
    let cut = |model| GenericDot { pattern: structure.pattern, block: structure.block, ..model };
    let mut few_refute = |model: &GenericDot| {
        let jury = if sees_zeros(model) { &mut whole } else { &mut merged };
        jury.refutations(allowed + 1, |case| case.agrees(model, cases, interface)) <= allowed
    };
    let mut found: Vec<GenericDot> = Vec::new();
    for model in models.map(cut).take_while(|_| Instant::now() <= deadline) {
        // Those of one ending follow each other.
        let full = found.len().checked_sub(KEPT.1).is_some_and(|n| ending(&found[n]) == ending(&model));
        if !full && few_refute(&model) {
            found.push(model);
        }
        if found.len() == KEPT.0 {
            break;
        }
    }
    found
}

/// What a model does with its sums, however it aligns.
fn ending(x: &GenericDot) -> GenericDot {
    let GenericDot { frac_bits, alignment, sticky, exact, .. } = GenericDot::default();
    GenericDot { frac_bits, alignment, sticky, exact, ..*x }
}

/// The rules at the ends of the range: subnormals, zeros, overflow, NaN; one bit each, 0 for the
/// base's own or the plain one.
fn with_rules(base: GenericDot, bits: u32) -> GenericDot {
    let on = |i: u32| bits >> i & 1 == 1;
    GenericDot {
        negative_zero: on(0),
        nan: if on(1) { NanRule::Quiet } else { NanRule::AllOnes },
        flush_inputs: on(2) != base.flush_inputs,
        product_limit: on(3),
        subnormal_c: if on(4) { SubnormalC::Normalised } else { SubnormalC::Stored },
        zero_products: if on(5) == (base.zero_products == ZeroProducts::OwnExponent) {
            ZeroProducts::Ignored
        } else {
            ZeroProducts::OwnExponent
        },
        via_f16: on(6),
        ..base
    }
}

const RULES: u32 = 7;

/// The model with the rules and floor that the fewest cases refute: each for itself while that
/// helps, then all combinations of rules.
pub(crate) fn with_edges(base: GenericDot, jury: &mut Jury<Case>, interface: &Interface) -> GenericDot {
    let mut count = |model: &GenericDot, limit: usize| {
        let recipe = Recipe::Generic(*model);
        jury.refutations(limit, |case| case.agrees(&recipe, interface, true))
    };
    let mut rules = 0;
    let mut best = (with_rules(base, 0), count(&with_rules(base, 0), usize::MAX));
    loop {
        let before = best.1;
        let (from, floor) = (rules, best.0.floor);
        let flips = (0..RULES).map(|i| (from ^ (1 << i), floor));
        let floors = options::floors().filter(|_| !base.exact).map(|floor| (from, floor));
        for (bits, floor) in flips.chain(floors) {
            let model = GenericDot { floor, ..with_rules(base, bits) };
            let refuted = if best.1 == 0 { 1 } else { count(&model, best.1) };
            if refuted < best.1 {
                best = (model, refuted);
                rules = bits;
            }
        }
        if best.1 == before || best.1 == 0 {
            break;
        }
    }
    let floor = best.0.floor;
    for model in (0..1 << RULES).map(|bits| GenericDot { floor, ..with_rules(base, bits) }) {
        let refuted = if best.1 == 0 { 1 } else { count(&model, best.1) };
        if refuted < best.1 {
            best = (model, refuted);
        }
    }
    best.0
}

/// Output widths to try first: the most bits seen in answers, in those without c (late c adds bits
/// to what the blocks gave), and all of d's.
pub(crate) fn likely_output_bits(cases: &[Case], interface: &Interface) -> Vec<Option<u32>> {
    let seen = |among: &dyn Fn(&&Case) -> bool| cases.iter().filter(among).map(Case::answer_bits).max();
    let seen = [seen(&|_| true), seen(&|c| c.input.c == 0)].into_iter().flatten();
    let mut likely: Vec<Option<u32>> = seen.map(Some).chain([None]).collect();
    likely.retain(|bits| bits.is_none_or(|p| p < interface.d.fraction_bits));
    likely.dedup();
    likely
}

/// Output widths to try next: a bit or two more.
pub(crate) fn wider(likely: &[Option<u32>], interface: &Interface) -> Vec<Option<u32>> {
    let more = likely.iter().flatten().flat_map(|&seen| [seen + 1, seen + 2]);
    let mut wider: Vec<Option<u32>> = more.map(Some).filter(|bits| !likely.contains(bits)).collect();
    wider.retain(|bits| bits.is_none_or(|p| p < interface.d.fraction_bits));
    wider.dedup();
    wider
}

/// One model of each kind found, differing in more than F: the exact one or that of middling F;
/// one of each ending first, and of these those with fewer and better known properties.
pub(crate) fn representatives(mut found: Vec<GenericDot>) -> Vec<GenericDot> {
    let kind = |x: &GenericDot| GenericDot { frac_bits: 0, exact: false, ..*x };
    found.sort_by_key(|x| (!x.exact, x.frac_bits));
    let mut kinds: Vec<Vec<GenericDot>> = Vec::new();
    for model in found {
        match kinds.iter_mut().find(|k| kind(&k[0]) == kind(&model)) {
            Some(members) => members.push(model),
            None => kinds.push(vec![model]),
        }
    }
    let middling = |members: Vec<GenericDot>| if members[0].exact { members[0] } else { members[members.len() / 2] };
    let mut all: Vec<GenericDot> = kinds.into_iter().map(middling).collect();
    all.sort_by_key(oddness);
    let mut seen: HashMap<GenericDot, usize> = HashMap::new();
    let mut nth = |x: &GenericDot| {
        let n = seen.entry(ending(x)).or_default();
        *n += 1;
        *n
    };
    let mut ranked: Vec<(usize, GenericDot)> = all.into_iter().map(|x| (nth(&x), x)).collect();
    ranked.sort_by_key(|(n, _)| *n);
    ranked.into_iter().map(|(_, x)| x).collect()
}

/// How many properties differ from those of the best known designs.
fn oddness(model: &GenericDot) -> usize {
    let d = GenericDot::default();
    let known = [Rounding::TowardZero, Rounding::NearestEven];
    let odd = [
        model.alignment != d.alignment,
        model.sticky,
        model.normalise_products,
        model.c != d.c,
        !known.contains(&model.output_rounding),
        model.output_bits.is_some(),
        model.flush_results,
        model.floor != d.floor,
        model.pattern != d.pattern,
        model.zero_products != d.zero_products,
    ];
    odd.into_iter().filter(|x| *x).count()
}
