//! Every value each parameter of a model can take: the neighbourhood that hypotheses come from.

use super::super::black_box::Interface;
use super::super::same::farthest_c;
use super::structure::Structure;
use crate::accumulate::{
    BlockedC, CPosition, Floor, GenericDot, GroupScaledDot, GroupedRoundDown, MAX_REACH, OverflowBesideC, PairwiseSum,
    Recipe, RoundDown, SequentialFma, SoftwareDot, SubnormalC, ZeroProducts,
};
use crate::round::{ROUNDINGS, Rounding};
use crate::special::NanRule;

/// Widths of alignment tried.
pub(crate) const WIDTHS: core::ops::RangeInclusive<u32> = 1..=72;

/// The roundings, those of known designs first.
pub(crate) fn roundings() -> impl Iterator<Item = Rounding> {
    use Rounding::{Down, NearestEven, TowardZero, Up};
    let known = [TowardZero, NearestEven, Down, Up];
    known.into_iter().chain(ROUNDINGS.iter().map(|(r, _)| *r).filter(move |r| !known.contains(r)))
}

/// How far c may reach, among ordinary numbers or everywhere.
fn reaches() -> impl Iterator<Item = i32> {
    (0..=80).chain([MAX_REACH])
}

/// Alignment floors tried, those of known designs first.
pub(crate) fn floors() -> impl Iterator<Item = Floor> {
    floors_about(Floor::None)
}

/// The same, those near the present one before others.
fn floors_about(now: Floor) -> impl Iterator<Item = Floor> {
    let known = [7, 6, 5, 13].map(Floor::BelowEmin);
    let mut more: Vec<i32> = (-20..=90).collect();
    if let Floor::BelowEmin(now) = now {
        // Or further up, where it is.
        more.extend((now.saturating_sub(20)..=now.saturating_add(20)).filter(|n| !(-20..=90).contains(n)));
        more.sort_by_key(|n| n.abs_diff(now));
    }
    let more = more.into_iter().map(Floor::BelowEmin).filter(move |f| !known.contains(f));
    known.into_iter().chain([Floor::None, Floor::ZeroC]).chain(more)
}

/// The values of a range, those near the present one first.
fn nearest(range: core::ops::RangeInclusive<u32>, now: u32) -> Vec<u32> {
    let mut values: Vec<u32> = range.collect();
    values.sort_by_key(|v| v.abs_diff(now));
    values
}

/// Output widths tried: full, then from wide to narrow.
pub(crate) fn output_bits(interface: &Interface) -> impl Iterator<Item = Option<u32>> {
    core::iter::once(None).chain((1..interface.d.fraction_bits).rev().map(Some))
}

const NANS: [NanRule; 2] = [NanRule::AllOnes, NanRule::Quiet];

/// A parameter's name, and the model with each of its values.
pub(crate) type Options = Vec<(&'static str, Vec<Recipe>)>;

macro_rules! options {
    ($wrap:expr, $base:expr; $($name:literal => $field:ident: $values:expr),* $(,)?) => {
        vec![$(($name, $values.into_iter().map(|v| { let mut x = $base; x.$field = v; $wrap(x) }).collect()),)*]
    };
}

const BOTH: [bool; 2] = [false, true];

fn generic(x: GenericDot, interface: &Interface, structures: &[Structure]) -> Options {
    let cuts =
        structures.iter().map(|s| Recipe::Generic(GenericDot { pattern: s.pattern, block: s.block, ..x })).collect();
    let mut all: Options = vec![("block", cuts)];
    all.extend(options![Recipe::Generic, x; "exact" => exact: BOTH]);
    let narrowed = GenericDot { exact: false, ..x };
    all.extend(options![Recipe::Generic, narrowed; "F" => frac_bits: nearest(WIDTHS, x.frac_bits)]);
    if !x.exact {
        all.extend(along_floor(x.frac_bits, x.floor, |frac_bits, floor| {
            Recipe::Generic(GenericDot { frac_bits, floor, ..x })
        }));
    }
    if x.exact {
        all.push(("e_zero", low_floors(x, interface).map(Recipe::Generic).filter(|r| interface.accepts(r)).collect()));
    }
    // A sticky bit is one more place: with it or without it, sums keep as many.
    let frac_bits = if x.sticky { x.frac_bits.saturating_add(1) } else { x.frac_bits.saturating_sub(1) };
    if !x.exact && WIDTHS.contains(&frac_bits) {
        let other = GenericDot { frac_bits, sticky: !x.sticky, ..x };
        all.extend(options![Recipe::Generic, other; "sticky" => alignment: roundings()]);
    }
    all.extend(options![Recipe::Generic, x;
        "align" => alignment: roundings(),
        "sticky" => sticky: BOTH,
        "normalise" => normalise_products: BOTH,
        "e_zero" => floor: floors_about(x.floor),
        "zero-products" => zero_products: [ZeroProducts::Ignored, ZeroProducts::OwnExponent],
        "subnormal-c" => subnormal_c: [SubnormalC::Stored, SubnormalC::Normalised],
        "c" => c: [CPosition::With, CPosition::Last, CPosition::Late],
        "out" => output_rounding: roundings(),
        "out-bits" => output_bits: output_bits(interface),
        "via-f16" => via_f16: BOTH,
        "flush-in" => flush_inputs: BOTH,
        "flush-out" => flush_results: BOTH,
        "limit" => product_limit: BOTH,
        "negative-zero" => negative_zero: BOTH,
        "nan" => nan: NANS,
    ]);
    all
}

/// The last bit kept at the floor shows both together: another width with that bit is as near as one without.
fn along_floor(
    frac_bits: u32,
    floor: Floor,
    model: impl Fn(u32, Floor) -> Recipe,
) -> Option<(&'static str, Vec<Recipe>)> {
    let Floor::BelowEmin(n) = floor else { return None };
    let last = n + frac_bits as i32;
    let along = |w: u32| model(w, Floor::BelowEmin(last - w as i32));
    Some(("F", nearest(WIDTHS, frac_bits).into_iter().map(along).collect()))
}

/// Sums that are exact but for bits below a floor, and those a product's bits below the smallest result at most; the
/// least of them first.
fn low_floors(x: GenericDot, interface: &Interface) -> impl Iterator<Item = GenericDot> {
    let Interface { a, b, d, .. } = *interface;
    let bits = (a.fraction_bits + b.fraction_bits + 2) as i32;
    // Subnormal operands' leading bits are lower than their exponents by as many.
    let frac_bits = (2 * bits as u32).min(*WIDTHS.end());
    let last = d.fraction_bits as i32;
    (last - 2..=last + 1 + bits).rev().flat_map(move |last| {
        let floor = Floor::BelowEmin(last - frac_bits as i32);
        roundings().take(4).map(move |alignment| GenericDot { exact: false, frac_bits, alignment, floor, ..x })
    })
}

fn totals() -> impl Iterator<Item = Option<u32>> {
    core::iter::once(None).chain(WIDTHS.map(Some))
}

const OVERFLOWS: [OverflowBesideC; 2] = [OverflowBesideC::Infinity, OverflowBesideC::CWins];

fn round_down(x: RoundDown, k: usize, wrap: impl Fn(RoundDown) -> Recipe) -> Options {
    options![wrap, x;
        "G" => group: 1..=k,
        "F" => frac_bits: WIDTHS,
        "sum" => sum_bits: WIDTHS,
        "total" => total_bits: totals(),
        "overflow-beside-c" => overflow_beside_c: OVERFLOWS,
        "nan" => nan: NANS,
    ]
}

/// Every parameter of a model with every value it can take.
pub(crate) fn options(recipe: &Recipe, interface: &Interface, structures: &[Structure]) -> Options {
    let k = interface.k;
    let mut all = match *recipe {
        Recipe::Generic(x) => generic(x, interface, structures),
        Recipe::Sequential(x) => options![Recipe::Sequential, x; "round" => rounding: roundings(), "nan" => nan: NANS],
        Recipe::Pairwise(x) => options![Recipe::Pairwise, x;
            "G" => group: 1..=k, "flush-in" => flush_inputs: BOTH, "flush-out" => flush_results: BOTH, "nan" => nan: NANS],
        Recipe::RoundDown(x) => round_down(x, k, Recipe::RoundDown),
        Recipe::GroupedRoundDown(x) => {
            let mut all = round_down(x.base, k, |base| Recipe::GroupedRoundDown(GroupedRoundDown { base, ..x }));
            all.extend(options![Recipe::GroupedRoundDown, x;
                "c-reach" => c_reach: (0..farthest_c(interface)).chain([MAX_REACH]),
                "special-c" => special_c: [BlockedC::Propagates, BlockedC::Dropped]]);
            all
        }
        Recipe::GroupScaled(x) => {
            let mut all = options![Recipe::GroupScaled, x;
                "G" => group: 1..=k, "F" => frac_bits: WIDTHS, "e_zero" => floor: floors_about(x.floor),
                "out" => output_rounding: roundings(), "nan" => nan: NANS];
            all.extend(along_floor(x.frac_bits, x.floor, |frac_bits, floor| {
                Recipe::GroupScaled(GroupScaledDot { frac_bits, floor, ..x })
            }));
            all
        }
        Recipe::Software(x) => options![Recipe::Software, x; "nan" => nan: NANS],
    };
    all.iter_mut().for_each(|(_, values)| values.retain(|r| interface.accepts(r)));
    all
}

/// Where the search of each family other than the generic one starts.
pub(crate) fn families(interface: &Interface) -> Vec<Recipe> {
    let groups = || (1..=interface.k).rev();
    let mut starts: Vec<Recipe> =
        roundings().map(|rounding| Recipe::Sequential(SequentialFma { rounding, ..SequentialFma::IEEE })).collect();
    starts.push(Recipe::Software(SoftwareDot::NVIDIA));
    for flush in [true, false] {
        starts.extend(groups().map(|group| {
            Recipe::Pairwise(PairwiseSum { group, flush_inputs: flush, flush_results: flush, ..PairwiseSum::CDNA2 })
        }));
    }
    starts.extend(groups().map(|group| Recipe::RoundDown(RoundDown { group, ..RoundDown::CDNA3 })));
    starts.extend(groups().map(|group| {
        let base = RoundDown { group, ..GroupedRoundDown::CDNA3.base };
        Recipe::GroupedRoundDown(GroupedRoundDown { base, ..GroupedRoundDown::CDNA3 })
    }));
    if interface.scale.is_some() {
        starts.extend(roundings().flat_map(|output_rounding| {
            groups().map(move |group| {
                Recipe::GroupScaled(GroupScaledDot { group, output_rounding, ..GroupScaledDot::BLACKWELL })
            })
        }));
    }
    starts.retain(|r| interface.accepts(r));
    starts
}

/// The families that align, with groups of any size and any one width (or reach of c).
pub(crate) fn families_of_any_width(interface: &Interface) -> Vec<Recipe> {
    let one_width = |x: RoundDown, width: u32| {
        let of_sum = RoundDown { sum_bits: width, ..x };
        [RoundDown { frac_bits: width, ..x }, of_sum, RoundDown { total_bits: Some(width), ..x }]
    };
    let wide = |recipe: Recipe| {
        WIDTHS.flat_map(move |width| match recipe {
            Recipe::RoundDown(x) => one_width(x, width).map(Recipe::RoundDown).to_vec(),
            Recipe::GroupedRoundDown(x) => one_width(x.base, width)
                .map(|base| GroupedRoundDown { base, ..x })
                .into_iter()
                .chain([GroupedRoundDown { c_reach: width as i32, ..x }])
                .map(Recipe::GroupedRoundDown)
                .collect(),
            Recipe::GroupScaled(x) => vec![Recipe::GroupScaled(GroupScaledDot { frac_bits: width, ..x })],
            other => vec![other],
        })
    };
    let aligns = |r: &Recipe| matches!(r, Recipe::RoundDown(_) | Recipe::GroupedRoundDown(_) | Recipe::GroupScaled(_));
    let everywhere = |recipe: &Recipe| match *recipe {
        Recipe::GroupedRoundDown(x) => Some(Recipe::GroupedRoundDown(GroupedRoundDown { c_reach: MAX_REACH, ..x })),
        _ => None,
    };
    let known: Vec<Recipe> = families(interface).into_iter().filter(aligns).collect();
    let reaching: Vec<Recipe> = known.iter().filter_map(everywhere).collect();
    let all = known.into_iter().flat_map(wide).chain(reaching);
    all.filter(|r| interface.accepts(r)).collect()
}

/// Widths tried in all combinations.
const COMBINED: core::ops::RangeInclusive<u32> = 4..=48;

/// CDNA3's two families with these widths.
fn both_families(base: RoundDown) -> [Recipe; 2] {
    [Recipe::RoundDown(base), Recipe::GroupedRoundDown(GroupedRoundDown { base, ..GroupedRoundDown::CDNA3 })]
}

/// CDNA3's families with groups of this size and all their widths, its own and those near them first.
/// `possible` judges F first: it is given the models that [`any_widths`] lists for each F.
pub(crate) fn of_every_width(
    interface: &Interface,
    group: usize,
    mut possible: impl FnMut(&[Recipe]) -> bool,
) -> impl Iterator<Item = Recipe> {
    let known = RoundDown { group, ..RoundDown::CDNA3 };
    let [fracs, sums] = [known.frac_bits, known.sum_bits].map(|now| nearest(COMBINED, now));
    let totals: Vec<Option<u32>> =
        nearest(COMBINED, known.total_bits.unwrap_or(0)).into_iter().map(Some).chain([None]).collect();
    let accepted = |r: &Recipe| interface.accepts(r);
    fracs.into_iter().flat_map(move |frac_bits| {
        let base = RoundDown { frac_bits, ..known };
        let families = [0, 1].map(|family| possible(&any_widths(base).map(|r| r[family]).collect::<Vec<_>>()));
        let widths: Vec<RoundDown> = sums
            .iter()
            .flat_map(|&sum_bits| totals.iter().map(move |&total_bits| RoundDown { sum_bits, total_bits, ..base }))
            .collect();
        let of_both = widths.into_iter().flat_map(move |x| both_families(x).into_iter().zip(families));
        of_both.filter(|(_, possible)| *possible).map(|(r, _)| r).filter(accepted)
    })
}

/// What any widths of the sum and of the total beside this F make of a step without c: the sum is rounded down twice,
/// which is what the coarser of the two does alone. So every answer to such a step, and nothing after it, that a model
/// with that F gives is one that a model with one of these widths gives (of each family).
fn any_widths(base: RoundDown) -> impl Iterator<Item = [Recipe; 2]> {
    let of_sum = COMBINED.map(move |sum_bits| RoundDown { sum_bits, total_bits: None, ..base });
    let of_total = COMBINED.map(move |bits| RoundDown { sum_bits: *COMBINED.end(), total_bits: Some(bits), ..base });
    of_sum.chain(of_total).map(both_families)
}

/// The model with every reach of c, CDNA3's and those near it first, where that is one of its parameters.
pub(crate) fn of_every_reach(model: Recipe) -> Vec<Recipe> {
    let mut all: Vec<i32> = reaches().collect();
    all.sort_by_key(|reach| reach.abs_diff(GroupedRoundDown::CDNA3.c_reach));
    reaching(model, all)
}

/// The same with none and with the longest: one step's c is dropped or counts.
pub(crate) fn of_either_reach(model: Recipe) -> Vec<Recipe> {
    reaching(model, [0, MAX_REACH])
}

fn reaching(model: Recipe, reaches: impl IntoIterator<Item = i32>) -> Vec<Recipe> {
    match model {
        Recipe::GroupedRoundDown(x) => {
            let reach = |c_reach| Recipe::GroupedRoundDown(GroupedRoundDown { c_reach, ..x });
            reaches.into_iter().map(reach).collect()
        }
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::bench::Bench;
    use super::super::super::black_box::BlackBox;
    use super::super::super::generate::{ENDS, Generator, Kind};
    use super::super::cases::Case;
    use super::*;
    use crate::Unit;
    use crate::accumulate::Accumulator;
    use crate::random::Random;

    /// No width that explains an answer is left out because no model of its F with any widths seems to.
    #[test]
    fn any_widths_have_the_answers_of_all() {
        let mut random = Random::new(3);
        let mut judged = 0;
        for (unit, group) in [
            ("m1n1k8.f32.f16.f16.f32", 8),
            ("m1n1k12.f32.bf16.bf16.f32", 3),
            ("m1n1k5.f32.e5m2.e4m3.f32", 5),
            ("m1n1k6.f16.e4m3.e4m3.f16", 4),
        ] {
            let interface = Unit::find(&format!("custom/{unit}/dot")).expect("a unit").interface();
            let mut generator = Generator::new(Bench::new(interface), 1);
            let mut inputs = generator.of_kinds(&[Kind::FewTerms], 60);
            inputs.extend(generator.of_kinds(&ENDS, 60));
            inputs.iter_mut().for_each(|x| x.c = 0);
            let mut cases: Vec<Case> = inputs.into_iter().map(|x| Case::new(&interface, x, 0)).collect();
            cases.retain(|c| c.ends_in_one_sum(group, interface.k));
            for _ in 0..60 {
                let mut width = || random.range(*COMBINED.start() as i32, *COMBINED.end() as i32) as u32;
                let base = RoundDown { group, frac_bits: width(), ..RoundDown::CDNA3 };
                let model = RoundDown { sum_bits: width(), total_bits: Some(width()), ..base };
                let models = [model, RoundDown { total_bits: None, ..model }].map(both_families);
                for case in &cases {
                    let answer = |r: &Recipe| interface.d.encode_result(&r.dot_add(&case.dot(&interface)));
                    for (of_family, model) in models.iter().flat_map(|m| m.iter().enumerate()) {
                        let own = answer(model);
                        assert!(any_widths(base).any(|r| answer(&r[of_family]) == own), "{model} {}", case.input);
                        judged += 1;
                    }
                }
            }
        }
        assert!(judged > 10_000, "{judged}");
    }
}
