//! Units no one has listed, at random: every parameter of the generic accumulator.

use gemmulate::Unit;
use gemmulate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, SubnormalC, ZeroProducts};
use gemmulate::format::{self, FormatSpec};
use gemmulate::instr::Shape;
use gemmulate::probe::{BlackBox, Fit, canonical};
use gemmulate::round::Rounding;
use gemmulate::special::NanRule;

#[path = "rng.rs"]
pub(crate) mod rng;

/// Random numbers whose type needs no telling.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let mut rng = rng::Rng(self.0);
        let drawn = rng.below(n);
        self.0 = rng.0;
        drawn
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A number from the environment, for studies longer than a test.
#[allow(dead_code, reason = "not every test binary uses it")]
pub(crate) fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

fn formats(r: &mut Random) -> [FormatSpec; 4] {
    use format::{BF16, E2M1, E3M2, E4M3, E5M2, F16, F32, TF32};
    let a = r.pick(&[F16, F16, BF16, BF16, TF32, E4M3, E5M2, E4M3, E3M2, E2M1]);
    let b = if a.storage_bits < 16 && r.one_in(3) { r.pick(&[E4M3, E5M2]) } else { a };
    let d = if a.storage_bits <= 16 && a.name != "bf16" && r.one_in(4) { F16 } else { F32 };
    [a, b, d, d]
}

/// A custom unit.
pub(crate) fn unit(r: &mut Random) -> Unit {
    let formats = formats(r);
    let k = r.pick(&[1, 2, 4, 8, 8, 16, 16, 16, 32, 32, 64, 12]);
    Unit::custom(accumulator(r, &formats, k), Shape { m: 1, n: 1, k: k as usize }, formats, None).unwrap()
}

/// Any accumulator of the family, for sums of `k` products.
pub(crate) fn accumulator(r: &mut Random, formats: &[FormatSpec; 4], k: u64) -> GenericDot {
    let block = 1 + r.below(k) as usize;
    let block = if r.one_in(2) { 1 << r.below(u64::from(1 + k.ilog2())) } else { block };
    let exact = r.one_in(12);
    let below = r.below(16) as i32;
    let full = formats[3].fraction_bits;
    GenericDot {
        block: if r.one_in(6) { k as usize } else { block },
        pattern: r.pick(&[Pattern::Runs, Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs]),
        frac_bits: 8 + r.below(33) as u32,
        alignment: r.pick(&[Rounding::TowardZero, Rounding::TowardZero, Rounding::Down, Rounding::NearestEven]),
        sticky: r.one_in(4),
        normalise_products: r.one_in(4),
        floor: r.pick(&[
            Floor::BelowEmin(5),
            Floor::BelowEmin(6),
            Floor::BelowEmin(7),
            Floor::BelowEmin(below),
            Floor::ZeroC,
            Floor::None,
        ]),
        zero_products: if r.one_in(5) { ZeroProducts::OwnExponent } else { ZeroProducts::Ignored },
        subnormal_c: if r.one_in(5) { SubnormalC::Normalised } else { SubnormalC::Stored },
        c: r.pick(&[CPosition::With, CPosition::With, CPosition::Late, CPosition::Last]),
        output_rounding: r.pick(&[Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up]),
        output_bits: if r.one_in(5) { Some(full / 2 + r.below((full / 2).max(1).into()) as u32) } else { None },
        via_f16: formats[0].storage_bits <= 8 && formats[1].storage_bits <= 8 && r.one_in(4),
        flush_inputs: r.one_in(5),
        flush_results: r.one_in(5),
        product_limit: r.one_in(5),
        exact,
        negative_zero: r.one_in(4),
        nan: r.pick(&[NanRule::AllOnes, NanRule::Quiet]),
    }
}

/// The parameters in which a fit's model differs from the unit it was made from although neither a
/// reason nor an alternative says that they could: there must be none.
#[allow(dead_code, reason = "not every test binary uses it")]
pub(crate) fn unsaid(unit: &Unit, found: &Fit) -> Vec<String> {
    let recipe = unit.recipe.expect("custom units have one");
    let pairs = |r: &Recipe| -> Vec<String> {
        let text = r.to_string();
        let (family, rest) = text.split_once(':').unwrap_or((&text, ""));
        rest.split(':').map(str::to_owned).chain([format!("family={family}")]).collect()
    };
    let (drawn, fitted) = (pairs(&recipe), pairs(&found.recipe));
    let differing = drawn.iter().filter(|p| !fitted.contains(p)).chain(fitted.iter().filter(|p| !drawn.contains(p)));
    let mut names: Vec<&str> = differing.map(|p| p.split('=').next().unwrap_or("")).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&"family") {
        names = vec!["family"];
    }
    let interface = unit.interface();
    let [(_, mine), (_, theirs)] = [recipe, found.recipe].map(|r| canonical(&r, &interface));
    let said = |name: &str| {
        // The cut of K into blocks is one parameter, and so is a width that may be without end.
        let one = |n: &str| match n {
            "pattern" => "block".to_owned(),
            "exact" => "F".to_owned(),
            _ => n.to_owned(),
        };
        let reasons = mine.iter().chain(&theirs).map(|(n, _)| *n);
        reasons.chain(found.alternatives.iter().map(|a| a.parameter)).any(|n| one(n) == one(name))
    };
    names.into_iter().filter(|n| !said(n)).map(str::to_owned).collect()
}
