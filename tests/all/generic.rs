//! The parametrised accumulator against the independent oracle, over its whole parameter space.

use crate::oracle::generic::{Params, Pattern as OraclePattern, generic};
use crate::oracle::numbers::Round;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::prelude::*;
use proptest::prelude::*;

const FORMATS: [&str; 5] = ["f16", "bf16", "e4m3", "e5m2", "tf32"];
const ALIGN: [(Rounding, Round); 3] =
    [(Rounding::TowardZero, Round::Rz), (Rounding::Down, Round::Rd), (Rounding::NearestEven, Round::Rne)];
const OUT: [(Rounding, Round); 4] = [
    (Rounding::NearestEven, Round::Rne),
    (Rounding::TowardZero, Round::Rz),
    (Rounding::Down, Round::Rd),
    (Rounding::Up, Round::Ru),
];
const PATTERNS: [(Pattern, OraclePattern); 3] = [
    (Pattern::Runs, OraclePattern::Runs),
    (Pattern::EvenOdd, OraclePattern::EvenOdd),
    (Pattern::InterleavedPairs, OraclePattern::Pairs),
];

/// A unit of both implementations.
#[derive(Debug, Clone)]
struct Pair {
    ours: GenericDot,
    theirs: Params,
}

prop_compose! {
    fn pair()(
        formats in (0..5usize, 0..5usize, any::<bool>()),
        shape in (1..20usize, 0..3usize, 8..41u32),
        rounding in (0..3usize, 0..4usize, 1..24u32),
        floor in proptest::option::of(-20..20i32),
        flags: [bool; 8],
    ) -> Pair {
        let d: &'static str = if formats.2 { "f16" } else { "f32" };
        let emin = if formats.2 { -14 } else { -126 };
        let p = rounding.2.min(if formats.2 { 10 } else { 23 });
        let [sticky, normalise, late, flush_inputs, flush_results, limit, exact, negative_zero] = flags;
        let ours = GenericDot {
            block: shape.0,
            pattern: PATTERNS[shape.1].0,
            frac_bits: shape.2,
            alignment: ALIGN[rounding.0].0,
            sticky,
            normalise_products: normalise,
            floor: floor.map_or(Floor::None, Floor::BelowEmin),
            c: if late { CPosition::Late } else { CPosition::With },
            output_rounding: OUT[rounding.1].0,
            output_bits: Some(p),
            flush_inputs,
            flush_results,
            product_limit: limit,
            exact,
            negative_zero,
            ..GenericDot::default()
        };
        let theirs = Params {
            a: FORMATS[formats.0],
            b: FORMATS[formats.1],
            c: d,
            d,
            block: shape.0,
            pattern: PATTERNS[shape.1].1,
            f: shape.2.into(),
            align: ALIGN[rounding.0].1,
            sticky,
            normalise,
            e_zero: floor.map(|n| i64::from(emin - n)),
            c_late: late,
            round: OUT[rounding.1].1,
            p: p.into(),
            flush_inputs,
            flush_results,
            limit,
            exact,
            negative_zero,
            nan: if formats.2 { 0x7fff } else { 0x7fff_ffff },
        };
        Pair { ours, theirs }
    }
}

fn spec(name: &str) -> FormatSpec {
    *format_named(name).unwrap()
}

/// Codes of moderate numbers mostly, so that sums interact, and of anything sometimes.
fn code(spec: &FormatSpec, raw: u64) -> u64 {
    let exponent = (raw >> 60) as i32 - 8;
    let value = 2f64.powi(exponent) * (1.0 + (raw & 0xffff_ffff) as f64 / 4_294_967_296.0);
    let signed = if raw >> 40 & 1 == 1 { -value } else { value };
    if raw >> 41 & 15 == 0 {
        return raw & spec.code_mask();
    }
    spec.encode_f64(signed, Rounding::NearestEven, Overflow::Saturate).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn generic_is_the_oracles(pair in pair(), raw in proptest::collection::vec(any::<(u64, u64)>(), 1..24), c: u64) {
        let (a, b, d) = (spec(pair.theirs.a), spec(pair.theirs.b), spec(pair.theirs.d));
        let unit = Unit::custom(pair.ours, Shape::new(1, 1, raw.len()), [a, b, d, d], None).unwrap();
        let xs: Vec<u64> = raw.iter().map(|r| code(&a, r.0)).collect();
        let ys: Vec<u64> = raw.iter().map(|r| code(&b, r.1)).collect();
        let c = code(&d, c);
        let ours = unit.dot_add_bits(&xs, &ys, c).unwrap();
        let theirs = generic(&pair.theirs, &xs, &ys, c).unwrap();
        prop_assert_eq!(ours, theirs, "{} {:x?} {:x?} {:x}", unit, xs, ys, c);
        // A unit's text is the unit.
        prop_assert_eq!(&Unit::find(&unit.name).unwrap(), &unit);
    }

    #[test]
    fn arithmetic_is_total(block in 0..70usize, frac_bits: u32, bits: u64, n in -5000..5000i32, k in 1..40usize) {
        // Parameters out of range: refused by `custom`, meaningless but no panic by `with`.
        let wild = GenericDot { block, frac_bits, floor: Floor::BelowEmin(n), ..GenericDot::default() };
        let unit = MmaUnit::custom::<f64, f64, f32, f32>(FusedDotAdd::HOPPER, Shape::new(1, 1, k)).unwrap();
        let unit = unit.with(|_| wild);
        let row: Vec<f64> = (0..k).map(|i| f64::from_bits(bits.rotate_left(i as u32 * 7))).collect();
        let _ = unit.try_dot_add(&row, &row, f32::from_bits(bits as u32)).unwrap();
    }
}

#[test]
fn recipes_are_the_units_they_describe() {
    use crate::oracle::kinds;
    for unit in Unit::all() {
        let recipe = unit.recipe.unwrap_or_else(|| panic!("{unit} has no recipe"));
        let text = recipe.to_string();
        assert_eq!(text.parse::<Recipe>().unwrap(), recipe, "{text}");
        let same = unit.with_accumulator(recipe).unwrap();
        assert_eq!(same, unit);
        for line in kinds::fresh(&unit.name, 11, 20) {
            let signature = [unit.a, unit.b, unit.c, unit.d];
            let custom = Unit::custom(recipe, unit.shape, signature, unit.scale).unwrap();
            let d = custom.dot_add_scaled_bits(&line.a, &line.b, line.c, &line.scale_a, &line.scale_b).unwrap();
            assert_eq!(d, line.d, "{unit} as {custom}: {line:x?}");
        }
    }
}

#[test]
fn impossible_parameters_are_refused() {
    let f32s = [spec("f32"); 4];
    let make = |g: GenericDot| Unit::custom(g, Shape::new(1, 1, 4), f32s, None);
    assert!(make(GenericDot { block: 0, ..Default::default() }).is_err());
    assert!(make(GenericDot { frac_bits: 101, ..Default::default() }).is_err());
    assert!(make(GenericDot { output_bits: Some(0), ..Default::default() }).is_err());
    assert!(Unit::custom(GenericDot::default(), Shape::new(0, 1, 4), f32s, None).is_err());
    for (text, why) in [
        ("dot:F=x", "F to be a whole number from 0 to 4294967295, not `x`"),
        ("dot:F=99999999999", "F to be a whole number"),
        ("dot:G=1", "one of the parameters block, pattern, exact, F"),
        ("dot:F=1:F=2", "F once"),
        ("dot:F", "`name=value` pairs"),
        ("nonsense", "one of the families dot, fma"),
        ("", "one of the families"),
        ("dot:e_zero=7", "e_zero to be none or zero-c or emin, emin-N or emin+N with N up to 4096, not `7`"),
        ("dot:out=up", "out to be rne or rna or rnz"),
        ("dot:out-bits=all", "out-bits to be full or a whole number"),
        ("dot:c=first", "c to be with or late or last, not `first`"),
        ("dot:sticky=maybe", "sticky to be yes or no"),
        ("pairwise:block=3", "one of the parameters G, flush-in, flush-out, nan, not `block`"),
    ] {
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(error.contains(&format!("expected {why}")), "{text}: {error}");
    }
    assert_eq!("DOT:f=30".parse::<Recipe>().unwrap().to_string(), "dot:block=16:F=30");
}

#[test]
fn operands_by_way_of_f16_are_f16_numbers() {
    // The shortcut for narrow formats gives what a conversion gives: a product with 1 shows it.
    let f16 = spec("f16");
    for name in ["e4m3", "e5m2", "e2m1", "e3m2", "f16", "bf16", "e4m3fnuz", "e5m2fnuz"] {
        let narrow = spec(name);
        let via = GenericDot { via_f16: true, frac_bits: 40, ..GenericDot::default() };
        let plain = GenericDot { via_f16: false, ..via };
        let unit = Unit::custom(via, Shape::new(1, 1, 2), [narrow, f16, spec("f32"), spec("f32")], None).unwrap();
        let halves = Unit::custom(plain, Shape::new(1, 1, 2), [f16, f16, spec("f32"), spec("f32")], None).unwrap();
        for code in (0..1u64 << narrow.storage_bits).step_by(if narrow.storage_bits > 8 { 7 } else { 1 }) {
            let half = f16.encode(narrow.decode(code).into(), Rounding::NearestEven, Overflow::Ieee).unwrap();
            let b = [0x3c00, 0x0400];
            let d = unit.dot_add_bits(&[code, code], &b, 0).unwrap();
            assert_eq!(d, halves.dot_add_bits(&[half, half], &b, 0).unwrap(), "{name} {code:x}");
        }
    }
}
