//! What `canonical` calls one function is one: formats of a few bits, where every input can be asked, and every
//! parameter at any value.

use crate::custom::{Random, variable};
use gemmulate::accumulate::{
    Accumulator, BlockedC, CPosition, Dot, Floor, GenericDot, GroupedRoundDown, OverflowBesideC, PairwiseSum, Pattern,
    Recipe, RoundDown, SoftwareDot, SubnormalC, ZeroProducts,
};
use gemmulate::format::{F16, F32, FormatSpec, Specials};
use gemmulate::instr::ScaleRule;
use gemmulate::num::Num;
use gemmulate::probe::{Interface, canonical};
use gemmulate::round::{ROUNDINGS, Rounding};
use gemmulate::special::NanRule;
use std::collections::HashMap;

fn between(r: &mut Random, low: i32, high: i32) -> i32 {
    low + r.below((high - low + 1) as u64) as i32
}

/// A format of at most 10 bits, for operands or for results.
fn format(r: &mut Random, result: bool) -> FormatSpec {
    loop {
        let (exponent_bits, fraction_bits) = match result {
            true => (2 + r.below(3) as u32, u32::from(!r.one_in(6)) + r.below(4) as u32),
            false => (1 + r.below(3) as u32, r.pick(&[0, 0, 1, 1, 1, 2, 2, 2, 3])),
        };
        let emin = match result {
            true => between(r, -3, 3),
            // About f16's subnormals.
            false if r.one_in(8) => between(r, -18, -10),
            false => between(r, -4, 3),
        };
        let subnormals = result || fraction_bits > 0 || !r.one_in(6);
        let format = FormatSpec {
            name: "small",
            storage_bits: 16,
            signed: result || !r.one_in(10),
            exponent_bits,
            fraction_bits,
            bias: i32::from(subnormals) - emin,
            subnormals,
            specials: r.pick(&[
                Specials::Ieee,
                Specials::Ieee,
                Specials::NanAllOnes,
                Specials::NanNegativeZero,
                Specials::None,
            ]),
            ignored_low_bits: 0,
        };
        if format.problem().is_none() {
            return format;
        }
    }
}

fn rounding(r: &mut Random) -> Rounding {
    use Rounding::{AwayFromZero, Down, NearestEven, TowardZero, Up};
    if r.one_in(3) { r.pick(ROUNDINGS).0 } else { r.pick(&[TowardZero, Down, Up, NearestEven, AwayFromZero]) }
}

fn interface(r: &mut Random) -> Interface {
    let k = if r.one_in(4) { 3 + r.below(6) } else { r.pick(&[1, 1, 2]) } as usize;
    let a = format(r, false);
    let b = if r.one_in(3) { a } else { format(r, false) };
    // A result of any size costs no inputs.
    let d = match r.below(6) {
        0 => {
            FormatSpec { exponent_bits: 5 + r.below(3) as u32, fraction_bits: 4 + r.below(9) as u32, ..format(r, true) }
        }
        1 => r.pick(&[F16, F32]),
        _ => format(r, true),
    };
    let c = if r.one_in(2) && d.storage_bits == 16 && d != F16 { d } else { format(r, true) };
    let scale = r.one_in(10).then(|| ScaleRule { format: FormatSpec { signed: false, ..format(r, false) }, block: k });
    Interface { k, a, b, c, d, scale }
}

fn generic(r: &mut Random, k: usize) -> GenericDot {
    let alignment = rounding(r);
    let bits = if r.one_in(4) { 5 } else { 17 };
    GenericDot {
        block: 1 + r.below(k as u64) as usize,
        pattern: r.pick(&[Pattern::Runs, Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs]),
        frac_bits: r.below(bits) as u32,
        alignment,
        sticky: r.one_in(3),
        normalise_products: r.one_in(3),
        floor: match r.below(5) {
            0 => Floor::None,
            1 => Floor::ZeroC,
            _ => Floor::BelowEmin(between(r, -9, 14)),
        },
        zero_products: if r.one_in(4) { ZeroProducts::OwnExponent } else { ZeroProducts::Ignored },
        subnormal_c: if r.one_in(3) { SubnormalC::Normalised } else { SubnormalC::Stored },
        c: r.pick(&[CPosition::With, CPosition::With, CPosition::Late, CPosition::Last]),
        output_rounding: if r.one_in(2) { alignment } else { rounding(r) },
        output_bits: r.one_in(3).then(|| 1 + r.below(4) as u32),
        via_f16: r.one_in(7),
        flush_inputs: r.one_in(3),
        flush_results: r.one_in(3),
        product_limit: r.one_in(5),
        exact: r.one_in(8),
        negative_zero: r.one_in(6),
        nan: r.pick(&[NanRule::AllOnes, NanRule::Quiet]),
    }
}

fn recipe(r: &mut Random, k: usize) -> Recipe {
    let group = 1 + r.below(k as u64 + 2) as usize;
    let nan = r.pick(&[NanRule::AllOnes, NanRule::Quiet]);
    let round_down = RoundDown {
        group,
        frac_bits: r.below(9) as u32,
        sum_bits: r.below(17) as u32,
        total_bits: r.one_in(2).then(|| r.below(17) as u32),
        overflow_beside_c: r.pick(&[OverflowBesideC::Infinity, OverflowBesideC::CWins]),
        nan,
    };
    match r.below(24) {
        0 => Recipe::Pairwise(PairwiseSum { group, flush_inputs: !r.one_in(3), flush_results: r.one_in(2), nan }),
        1 => Recipe::Software(SoftwareDot { nan }),
        2 => Recipe::RoundDown(round_down),
        3 => Recipe::GroupedRoundDown(GroupedRoundDown {
            base: round_down,
            c_reach: between(r, -3, 40),
            special_c: r.pick(&[BlockedC::Propagates, BlockedC::Dropped]),
        }),
        _ => Recipe::Generic(generic(r, k)),
    }
}

/// Everything that a format's codes stand for.
fn numbers(f: &FormatSpec) -> Vec<Num> {
    (0..1 << (u32::from(f.signed) + f.exponent_bits + f.fraction_bits)).map(|code| f.decode(code)).collect()
}

/// Two recipes, and all that their operands can be.
struct Pair<'a> {
    recipes: [&'a Recipe; 2],
    interface: &'a Interface,
    operands: [Vec<Num>; 3],
    scales: Vec<Num>,
}

impl<'a> Pair<'a> {
    fn new(recipes: [&'a Recipe; 2], interface: &'a Interface) -> Self {
        let operands = [interface.a, interface.b, interface.c].map(|f| numbers(&f));
        Self { recipes, interface, operands, scales: interface.scale.map_or(Vec::new(), |s| numbers(&s.format)) }
    }

    /// How many inputs there are.
    fn inputs(&self) -> usize {
        let [a, b, c] = self.operands.each_ref().map(Vec::len);
        let products = (a * b).saturating_pow(self.interface.k as u32);
        products.saturating_mul(c).saturating_mul(self.scales.len().pow(2).max(1))
    }

    /// Both results of one input, each of whose numbers is the one that `below` picks of as many.
    fn results(&self, input: &mut [Vec<Num>; 4], mut below: impl FnMut(usize) -> usize) -> [u64; 2] {
        let mut pick = |numbers: &[Num]| numbers[below(numbers.len())];
        let ([a, b, c], k) = (&self.operands, self.interface.k);
        let c = pick(c);
        for (list, from) in input.iter_mut().zip([a, b]) {
            list.clear();
            list.resize_with(k, || pick(from));
        }
        // One scale for all of K.
        for list in input.iter_mut().skip(2).filter(|_| !self.scales.is_empty()) {
            *list = vec![pick(&self.scales); k];
        }
        let [a, b, scale_a, scale_b] = input;
        let out = &self.interface.d;
        let dot = Dot { a, b, c, scale_a, scale_b, out };
        self.recipes.map(|recipe| out.encode_result(&recipe.dot_add(&dot)))
    }

    /// Panics at an input that tells the two apart: of all inputs, if those are at most `most`, or of as many at
    /// random.
    fn assert_same(&self, r: &mut Random, most: usize) {
        let mut input = [const { Vec::new() }; 4];
        let inputs = self.inputs();
        for n in 0..inputs.min(most) {
            let mut digits = n;
            let mut in_turn = |base: usize| {
                let digit = digits % base;
                digits /= base;
                digit
            };
            let [one, other] = match inputs <= most {
                true => self.results(&mut input, &mut in_turn),
                // Zeros more often than one of many.
                false => self.results(&mut input, |n| if r.one_in(6) { 0 } else { r.below(n as u64) as usize }),
            };
            let [own, plain] = self.recipes;
            let why = || canonical(own, self.interface).1;
            assert_eq!(one, other, "{own}\n{plain}\n{:?}\n{:?}\n{input:?}", why(), self.interface);
        }
    }
}

/// Every rule gets its share: a pair is asked about if one of its reasons is among the least asked so far.
#[derive(Default)]
struct Shares(HashMap<String, u64>);

impl Shares {
    fn want(&mut self, reasons: &[(&str, String)], most: u64) -> bool {
        let names =
            reasons.iter().map(|(name, why)| format!("{name} {}", why.replace(|c: char| c.is_ascii_digit(), "")));
        let names: Vec<String> = names.collect();
        let want = names.iter().any(|name| self.0.get(name).is_none_or(|asked| *asked < most));
        names.into_iter().filter(|_| want).for_each(|name| *self.0.entry(name).or_default() += 1);
        want
    }
}

/// `STUDY_COUNT` units drawn from `STUDY_SEED` make it a study.
#[test]
fn canonical_forms_for_small_formats_are_the_same() {
    // More units of fewer inputs each find more of the faults that were put in on purpose.
    const MOST: usize = 300;
    let mut r = Random(variable("STUDY_SEED", 21));
    let (mut shares, units) = (Shares::default(), variable("STUDY_COUNT", 100_000));
    for _ in 0..units {
        let interface = interface(&mut r);
        let own = recipe(&mut r, interface.k);
        if interface.unit(own).is_err() {
            continue;
        }
        let (plain, why) = canonical(&own, &interface);
        if plain != own && shares.want(&why, units / 100) {
            Pair::new([&own, &plain], &interface).assert_same(&mut r, MOST);
        }
    }
    assert!(shares.0.len() > 35, "{:?}", shares.0);
}

/// A c may be above the largest result: rounded down that gives the result, toward zero an overflow.
#[test]
fn a_c_above_the_largest_result_may_overflow() {
    let small = |exponent_bits, fraction_bits, bias, specials| FormatSpec {
        name: "small",
        storage_bits: 16,
        signed: true,
        exponent_bits,
        fraction_bits,
        bias,
        subnormals: true,
        specials,
        ignored_low_bits: 0,
    };
    let interface = Interface {
        k: 5,
        a: small(1, 1, 0, Specials::NanAllOnes),
        b: small(1, 3, 0, Specials::NanAllOnes),
        // Up to 1.5 and up to 1.0 times 2^8.
        c: small(3, 1, -2, Specials::Ieee),
        d: small(3, 1, -1, Specials::NanAllOnes),
        scale: None,
    };
    let down = GenericDot {
        block: 4,
        frac_bits: 1,
        floor: Floor::BelowEmin(-6),
        output_rounding: Rounding::Down,
        ..GenericDot::default()
    };
    let down: Recipe = down.into();
    let (plain, why) = canonical(&down, &interface);
    Pair::new([&down, &plain], &interface).assert_same(&mut Random(1), 3000);
    assert!(why.iter().all(|(name, _)| *name != "out"), "{why:?}");
}
