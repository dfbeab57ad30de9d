//! The search for generic models: the middle of the range first, then its edges.

use super::super::black_box::Interface;
use super::cases::{Case, Compact, Jury};
use super::options::{self, WIDTHS};
use super::structure::Structure;
use crate::accumulate::{CPosition, GenericDot, Recipe, SubnormalC, ZeroProducts};
use crate::round::Rounding;
use crate::special::NanRule;

/// Models kept per structure: more only differ in what the middle of the range cannot show.
const KEPT: usize = 400;

/// Roundings of known designs, or all there are.
fn roundings(known: bool) -> impl Iterator<Item = Rounding> {
    options::roundings().take(if known { 4 } else { usize::MAX })
}

/// The alignments tried: exact, or every width, rounding and sticky bit.
fn alignments(base: GenericDot, known: bool) -> impl Iterator<Item = GenericDot> {
    let exact = GenericDot { exact: true, ..base };
    let sticky = [false, true];
    let aligned = sticky.into_iter().flat_map(move |sticky| {
        roundings(known)
            .flat_map(move |alignment| WIDTHS.map(move |frac_bits| GenericDot { frac_bits, alignment, sticky, ..base }))
    });
    core::iter::once(exact).chain(aligned)
}

/// What a block does with its sum: rounding, c, normalisation, flushing.
pub(crate) fn endings(bits: &[Option<u32>], places: &[CPosition], known: bool) -> Vec<GenericDot> {
    let mut all = Vec::new();
    for flush_results in [false, true] {
        for normalise_products in [false, true] {
            for &c in places {
                for output_rounding in roundings(known) {
                    all.extend(bits.iter().map(|&output_bits| GenericDot {
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

/// Generic models of one structure that at most `allowed` of the middle-range cases refute.
pub(crate) fn middle(
    structure: &Structure,
    cases: &[Case],
    endings: &[GenericDot],
    known: bool,
    interface: &Interface,
    allowed: usize,
) -> Vec<GenericDot> {
    let compact = |(at, case)| Compact::new(case, at, &structure.partition, interface);
    let mut jury = Jury { cases: cases.iter().enumerate().map(compact).collect() };
    let mut found = Vec::new();
    let widest = interface.a.fraction_bits + interface.b.fraction_bits + 2;
    for ending in endings {
        let base = GenericDot { pattern: structure.pattern, block: structure.block, ..*ending };
        for model in alignments(base, known) {
            // Wider sums than the arithmetic holds are refused by the accumulator, too.
            if widest > 120 || found.len() >= KEPT {
                return found;
            }
            if jury.refutations(allowed + 1, |case| case.agrees(&model, cases, interface)) <= allowed {
                found.push(model);
            }
        }
    }
    found
}

/// The rules at the ends of the range: subnormals, zeros, overflow, NaN; one bit each.
fn with_rules(base: GenericDot, bits: u32) -> GenericDot {
    let on = |i: u32| bits >> i & 1 == 1;
    GenericDot {
        negative_zero: on(0),
        nan: if on(1) { NanRule::Quiet } else { NanRule::AllOnes },
        flush_inputs: on(2),
        product_limit: on(3),
        subnormal_c: if on(4) { SubnormalC::Normalised } else { SubnormalC::Stored },
        zero_products: if on(5) { ZeroProducts::OwnExponent } else { ZeroProducts::Ignored },
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

/// Output widths to try first, from the most significant bits seen where c is zero.
pub(crate) fn likely_output_bits(cases: &[Case], interface: &Interface) -> Vec<Option<u32>> {
    let zero_c = cases.iter().filter(|c| c.input.c == 0 && c.is_ordinary());
    let seen = zero_c.map(Case::answer_bits).max().unwrap_or(0);
    if seen >= interface.d.fraction_bits { vec![None] } else { vec![Some(seen), None] }
}

/// A rank for models that fit equally well: fewer and better known properties first.
pub(crate) fn rank(model: &GenericDot) -> (usize, u32) {
    let d = GenericDot::default();
    let known = [Rounding::TowardZero, Rounding::NearestEven];
    let odd = [
        model.exact,
        model.alignment != d.alignment,
        model.sticky,
        model.normalise_products,
        model.c != d.c,
        !known.contains(&model.output_rounding),
        model.output_bits.is_some(),
        model.flush_results,
        model.pattern != d.pattern,
    ];
    (odd.iter().filter(|x| **x).count(), model.frac_bits)
}
