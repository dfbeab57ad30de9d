//! Vectors as text, generated ones, decimal values, and drawings.

use crate::oracle::formats::decode;
use crate::oracle::numbers::Exact;
use crate::oracle::oracle::dot_add;
use crate::problem::isas;
use gemmulate::Unit;
use gemmulate::format::{E4M3, F16, F32, F64, FormatSpec, Overflow, Value};
use gemmulate::num::{Class, LongAccumulator, Term};
use gemmulate::round::Rounding;
use gemmulate::vectors::{Evaluator, Expected, Generator, Input, KINDS, Kind, Vector, draw};

fn unit(name: &str) -> Unit {
    Unit::find(name).unwrap()
}

fn of_kind(unit: &Unit, kind: Kind, count: usize) -> Vec<Vector> {
    Generator::new(unit, 3).kinds(&[kind]).take(count).collect()
}

#[test]
fn generated_vectors_agree_with_the_oracle() {
    let count = std::env::var("GEMMULATE_FRESH").map_or(40, |n| n.parse().unwrap());
    for unit in Unit::all() {
        for v in Generator::new(&unit, 11).take(count) {
            let d = dot_add(&unit.name, &v.input.a, &v.input.b, v.input.c, &v.input.scale_a, &v.input.scale_b).unwrap();
            assert!(v.d.unwrap().accepts(d, &unit), "{unit}: {v}: the oracle says {d:x}");
        }
    }
}

#[test]
fn evaluators_agree_with_the_reference() {
    let count = std::env::var("GEMMULATE_FRESH").map_or(20, |n| n.parse().unwrap());
    let custom = [
        "custom/m8n8k24.f32.tf32.tf32.f32/dot:block=12:F=33",
        "custom/m8n8k32.f32.bf16.e4m3.f32/dot:block=32:F=25:e_zero=none",
        "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:e_zero=zero-c:out=ru",
        "custom/m8n8k16.f32.f32.f32.f32/dot:block=16:F=50:out=rne",
        "custom/m8n8k16.f64.f16.f16.f64/dot:block=16:F=54:out=rd",
        "custom/m8n8k18.f32.f16.f16.f32/dot:block=7:F=20:pattern=even-odd:out-bits=10:nan=quiet",
        "custom/m8n8k32.f32.e4m3.e5m2fnuz.f32/dot:block=16:F=5:c=last:via-f16=yes",
        "custom/m8n8k5.f32.f16.f16.f32/dot:block=3:exact=yes:out=rne:negative-zero=yes",
        "custom/m8n8k63.f32.e4m3.e4m3.f32/dot:block=20:pattern=pairs:F=13:align=rd",
        "custom/m8n8k72.f32.bf16.bf16.f32/dot:block=24:F=25:zero-products=count",
        "custom/m8n8k16.f16.f16.f16.f16/dot:block=8:F=20:out=rna:flush-out=yes:negative-zero=yes",
    ];
    let named = custom.iter().map(|name| unit(name));
    for unit in Unit::all().chain(named) {
        let mut evaluator = Evaluator::new(&unit);
        let mut sets: Vec<Evaluator> = isas().into_iter().map(|isa| Evaluator::on(&unit, isa)).collect();
        for &kind in KINDS {
            let vectors = of_kind(&unit, kind, count);
            for v in &vectors {
                let d = v.eval(&unit).unwrap();
                assert_eq!(evaluator.eval(&v.input).unwrap(), d, "{unit}, {kind}: {v}");
                for evaluator in &mut sets {
                    assert_eq!(evaluator.eval(&v.input).unwrap(), d, "{unit}, {kind}, {evaluator:?}: {v}");
                }
            }
            agree_together(&mut sets, &unit, &vectors);
        }
        // Kinds side by side, in any number.
        let mut mixed = Generator::new(&unit, 7);
        for count in (1..20).chain([32, 50]) {
            agree_together(&mut sets, &unit, &mixed.by_ref().take(count).collect::<Vec<_>>());
        }
        let short = Input { a: vec![0; unit.shape.k - 1], ..Generator::new(&unit, 5).next().unwrap().input };
        assert!(evaluator.eval(&short).is_err());
    }
}

/// Vectors evaluated together have the reference's d, each in its place.
fn agree_together(evaluators: &mut [Evaluator], unit: &Unit, vectors: &[Vector]) {
    let expected: Vec<u64> = vectors.iter().map(|v| v.eval(unit).unwrap()).collect();
    for evaluator in evaluators {
        let mut d = vec![7];
        evaluator.eval_all(vectors.iter().map(|v| &v.input), &mut d).unwrap();
        assert_eq!(d.len(), vectors.len() + 1, "{unit}");
        for ((v, d), expected) in vectors.iter().zip(&d[1..]).zip(&expected) {
            assert_eq!(d, expected, "{unit}, {evaluator:?}: {v}, among {}", vectors.len());
        }
    }
}

/// A single NaN scale, in any lane, of A or B, is its vector's alone.
#[test]
fn evaluators_keep_nan_scales_apart() {
    for name in [
        "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
        "custom/m8n8k64.block16.f32.bf16.e5m2.f32.ue8m0/dot:block=16:F=25",
    ] {
        let unit = unit(name);
        let mut sets: Vec<Evaluator> = isas().into_iter().map(|isa| Evaluator::on(&unit, isa)).collect();
        let ordinary = of_kind(&unit, KINDS[0], 16);
        for (lane, slot) in (0..16).flat_map(|lane| (0..unit.scales()).map(move |slot| (lane, slot))) {
            for spoil in [|v: &mut Input, slot| v.scale_a[slot] = 0xFF, |v: &mut Input, slot| v.scale_b[slot] = 0xFF] {
                let mut vectors = ordinary.clone();
                spoil(&mut vectors[lane].input, slot);
                agree_together(&mut sets, &unit, &vectors);
            }
        }
    }
}

/// What came before a vector that is not the unit's is there.
#[test]
fn evaluators_stop_at_a_wrong_length() {
    for name in ["hopper/mma.m16n8k16.f32.f16.f16.f32", "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3"] {
        let unit = unit(name);
        let good: Vec<Input> = Generator::new(&unit, 5).take(40).map(|v| v.input).collect();
        for at in [0, 3, 15, 16, 20, 39] {
            for spoil in
                [|v: &mut Input| v.a.push(0), |v: &mut Input| v.b.truncate(3), |v: &mut Input| v.scale_b.push(0)]
            {
                let mut inputs = good.clone();
                spoil(&mut inputs[at]);
                let mut d = Vec::new();
                let expected = inputs[at].eval(&unit).unwrap_err();
                assert_eq!(Evaluator::new(&unit).eval_all(&inputs, &mut d), Err(expected));
                assert_eq!(d, good[..at].iter().map(|v| v.eval(&unit).unwrap()).collect::<Vec<_>>());
            }
        }
    }
}

/// 1.5 * 2^-142 where nothing below 2^(e_zero - F) = 2^(-132 - 10) is kept.
#[test]
fn evaluators_know_the_floor_of_alignment() {
    let (unit, mut v) = (unit("custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=10:e_zero=emin-6"), Vector::default());
    (v.input.a, v.input.b) = (vec![0; 8], vec![0; 8]);
    (v.input.a[3], v.input.b[3]) = (0x1C40, 0x1C00);
    assert_eq!(v.eval(&unit).unwrap(), 1 << 7);
    assert_eq!(Evaluator::new(&unit).eval(&v.input).unwrap(), 1 << 7);
}

/// Zeros of both signs, beside a product that is zero, vanishes, or is none of the two: whose sum is -0 depends on
/// nothing but the unit's rules.
#[test]
fn evaluators_know_the_signs_of_zero() {
    let rules = [
        "e_zero=none",
        "align=rd",
        "align=rd:sticky=yes:out=rd",
        "c=late",
        "c=last:flush-in=yes",
        "exact=yes",
        "F=39:out=rne:flush-in=yes",
    ];
    for (rules, kept) in rules.into_iter().flat_map(|r| [(r, "no"), (r, "yes")]) {
        for formats in ["f32.bf16.bf16.f32", "f32.tf32.tf32.f32", "f32.f16.f16.f32", "f16.e4m3.e4m3.f16"] {
            let unit = unit(&format!("custom/m8n8k2.{formats}/dot:block=2:{rules}:negative-zero={kept}"));
            let mut evaluator = Evaluator::new(&unit);
            let mut sets: Vec<Evaluator> = isas().into_iter().map(|isa| Evaluator::on(&unit, isa)).collect();
            let sign = |f: &FormatSpec, negative: u64| negative << (f.storage_bits - 1);
            let magnitudes = |f: &FormatSpec| {
                let small = 2f64.powi((-75).max(f.emin() - f.fraction_bits as i32));
                [0.0, small, 1.0].map(|x| f.encode_f64(x, Rounding::Up, Overflow::Ieee).unwrap())
            };
            for (x, y) in magnitudes(&unit.a).into_iter().zip(magnitudes(&unit.b)) {
                let mut all = Vec::new();
                for signs in 0..32u64 {
                    let bit = |i: u32| signs >> i & 1;
                    let v = Input {
                        a: vec![sign(&unit.a, bit(0)), sign(&unit.a, bit(1)) | x],
                        b: vec![sign(&unit.b, bit(2)), sign(&unit.b, bit(3)) | y],
                        c: sign(&unit.c, bit(4)),
                        ..Input::default()
                    };
                    assert_eq!(evaluator.eval(&v).unwrap(), v.eval(&unit).unwrap(), "{unit} {v}");
                    all.push(Vector { input: v, ..Vector::default() });
                }
                agree_together(&mut sets, &unit, &all);
            }
        }
    }
}

#[test]
fn the_sequence_is_stable() {
    let lines: Vec<String> =
        Generator::new(&unit("volta/mma.m8n8k4.f32.f16.f16.f32"), 42).take(2).map(|v| v.to_string()).collect();
    assert_eq!(lines, PINNED);
}

#[test]
fn every_line_reads_back() {
    for unit in Unit::all() {
        let mut read = Vector::default();
        for v in Generator::new(&unit, 1).take(10) {
            assert_eq!(read.read_line(&unit, v.to_string().as_bytes()), Ok(true));
            assert_eq!(read, v);
            let without_d = Vector { d: None, ..v };
            let line = format!("  {}\t\r\n", without_d.to_string().to_uppercase().replace('\t', " \t "));
            assert_eq!(read.read_line(&unit, line.as_bytes()), Ok(true), "{line:?}");
            assert_eq!(read, without_d);
        }
    }
}

#[test]
fn kinds_are_known_by_name() {
    for &kind in KINDS {
        assert_eq!(kind.name().to_uppercase().parse::<Kind>().unwrap(), kind);
    }
    assert_eq!("sparse with zeros".parse::<Kind>().unwrap(), Kind::SparseWithZeros);
    assert!("".parse::<Kind>().is_err() && "widest".parse::<Kind>().is_err());
    // `ties` or `tiny`?
    assert!("ti".parse::<Kind>().is_err() && "tie".parse::<Kind>().is_ok());
}

/// How many of a kind's vectors have a property, in percent.
fn percent(unit: &Unit, kind: Kind, property: impl Fn(&Vector) -> bool) -> usize {
    of_kind(unit, kind, 500).into_iter().filter(property).count() / 5
}

#[test]
fn kinds_do_what_they_say() {
    let u = unit("hopper/mma.m16n8k16.f32.f16.f16.f32");
    let exponent = |code: u64| F16.decode(code).exponent;
    let finite = |code: u64| F16.decode(code).class == Class::Finite;
    assert!(percent(&u, Kind::RandomBits, |v| v.input.a.iter().any(|&a| !F16.decode(a).is_finite())) > 20);
    assert_eq!(percent(&u, Kind::NearOne, |v| v.input.a.iter().all(|&a| (-2..=2).contains(&exponent(a)))), 100);
    assert!(percent(&u, Kind::WideExponents, |v| v.input.a.iter().any(|&a| exponent(a).abs() > 10)) > 90);
    assert!(percent(&u, Kind::Specials, |v| v.d == Some(Expected::Bits(0x7fff_ffff))) > 20, "NaN");
    assert!(percent(&u, Kind::Specials, |v| v.d == Some(Expected::Bits(0x7f80_0000))) > 5, "infinities");
    assert!(
        percent(&u, Kind::SparseWithZeros, |v| v.input.a.iter().filter(|&&a| F16.decode(a).is_zero()).count() > 6) > 80
    );
    assert_eq!(percent(&u, Kind::Tiny, |v| v.input.a.iter().all(|&a| finite(a) && exponent(a) <= -11)), 100);
    assert!(percent(&u, Kind::Tiny, |v| v.input.a.iter().any(|&a| F16.decode(a).is_subnormal())) > 90);
    assert_eq!(percent(&u, Kind::Huge, |v| v.input.a.iter().all(|&a| finite(a) && exponent(a) >= 12)), 100);
    assert!(percent(&u, Kind::VeryWide, |v| v.input.a.iter().any(|&a| exponent(a) > 10)) > 75);
    let cancels = |v: &Vector| {
        let left = sum(&u, v);
        left.is_zero() || left.log2() <= i64::from(F32.decode(v.input.c).exponent) - 20
    };
    assert!(percent(&u, Kind::Cancellation, cancels) > 40);
}

/// c and all products, exactly.
fn sum(unit: &Unit, v: &Vector) -> Exact {
    let value = |format: &str, code: u64| decode(format, code).unwrap().value();
    let products = v.input.a.iter().zip(&v.input.b).map(|(&a, &b)| &value(unit.a.name, a) * &value(unit.b.name, b));
    products.fold(value(unit.c.name, v.input.c), |s, p| &s + &p)
}

/// Whether the exact sum lies halfway between two numbers of D.
fn is_tie(unit: &Unit, v: &Vector) -> bool {
    let x = sum(unit, v).abs();
    if x.is_zero() {
        return false;
    }
    let quantum = x.log2().max(unit.d.emin().into()) - i64::from(unit.d.fraction_bits);
    let halves = x.times_pow2(1 - quantum);
    let whole = halves.floor_int();
    (&halves - &Exact { n: whole.clone(), e: 0 }).is_zero() && whole.bit(0)
}

#[test]
fn ties_are_ties() {
    for name in [
        "hopper/mma.m16n8k16.f16.f16.f16.f16",
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "ampere/mma.m8n8k4.f64.f64.f64.f64",
        "cdna3/v_mfma_f32_4x4x1_16b_f32",
        "cdna1/v_mfma_f32_16x16x16f16",
        "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
        "rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32",
        "blackwell/tcgen05.mma.m64n8k32.f16.e3m2.e2m3",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    ] {
        let u = unit(name);
        let ties = percent(&u, Kind::Ties, |v| is_tie(&u, v));
        assert!(ties >= 40, "{name}: {ties} % are ties");
    }
}

#[test]
fn custom_units_are_generated_and_drawn() {
    for name in [
        "custom/m1n1k3.f16.e4m3.ue8m0.bf16/dot:block=2:F=9",
        "custom/m1n1k8.block4.f32.e2m1.e5m2.f32.ue4m3/dot:block=8:F=30",
        "custom/m1n1k5.tf32.f64.f64.f64/fma",
        "custom/m1n1k7.bf16.ue4m3.e3m2.e2m1/pairwise:G=3",
        "custom/m1n1k300.f32.bf16.bf16.f32/dot:exact=yes",
    ] {
        let u = unit(name);
        for v in Generator::new(&u, 0).take(50) {
            let drawing = draw(&u, &v).unwrap();
            assert!(drawing.ends_with("as expected\n"), "{name}: {v}\n{drawing}");
        }
    }
}

#[test]
fn drawings_end_with_the_units_d() {
    for u in Unit::all().step_by(3) {
        for v in Generator::new(&u, 5).take(10) {
            let drawing = draw(&u, &v).unwrap();
            assert!(drawing.ends_with("as expected\n"), "{u}: {v}\n{drawing}");
        }
    }
}

#[test]
fn a_drawing_shows_every_term() {
    // Two halves of K = 16: the second one's products keep their own numbers.
    let u = unit("ampere/mma.m16n8k16.f32.f16.f16.f32");
    let v = of_kind(&u, Kind::NearOne, 1).remove(0);
    let drawing = draw(&u, &v).unwrap();
    assert!((0..16).all(|k| drawing.contains(&format!(" a{k}*b{k} "))), "{drawing}");
    assert_eq!(drawing.matches("e_max").count(), 2);
    // Interleaved: group 1 starts with k = 2.
    let u = unit("hopper/mma.m16n8k16.f16.e4m3.e4m3.f16");
    let drawing = draw(&u, &of_kind(&u, Kind::NearOne, 1).remove(0)).unwrap();
    let second = drawing.split("group 1").nth(1).unwrap();
    assert!(second.contains(" a2*b2 ") && !second.contains(" a0*b0 "), "{drawing}");
}

#[test]
fn decimals_are_rounded_once() {
    let encode = |text: &str, format: &FormatSpec, rounding| {
        format.encode(text.parse::<Value>().unwrap(), rounding, Overflow::Ieee).unwrap()
    };
    let rne = |text: &str, format| encode(text, format, Rounding::NearestEven);
    assert_eq!(rne("65519.99999999999999999999999999", &F16), 0x7bff, "an f64 would make it a tie");
    assert_eq!(rne("65520", &F16), 0x7c00);
    assert_eq!(rne("1.00048828125000000000000000000000001", &F16), 0x3c01, "just above a tie");
    assert_eq!(encode("1e-99999999999", &F16, Rounding::Up), 1);
    assert_eq!(encode("-1e-400", &F64, Rounding::AwayFromZero), 1 << 63 | 1);
    assert_eq!(rne("1e99999999999999999999", &F32), 0x7f80_0000);
    assert_eq!(rne("-0.0e5", &F32), 0x8000_0000);
    assert_eq!(rne("+.5", &E4M3), 0x30);
    for text in
        ["3.1415926535", "1e22", "5e-324", "1.7976931348623157e308", "123456789.000000001", "2.5e-310", "8.", "inf"]
    {
        assert_eq!(rne(text, &F64), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
    for text in ["", ".", "-", "1e", "1e+", "1..2", "0x1p3", "1_000", "nan0", "é", "1e5.0"] {
        assert!(text.parse::<Value>().is_err(), "{text}");
    }
}

#[test]
fn exact_sums_hold_any_exponents() {
    let term = |negative, significand, exponent| Term { negative, exponent, significand, frac_bits: 0 };
    let sum_of = |terms: &[Term]| {
        let mut sum = LongAccumulator::default();
        terms.iter().for_each(|t| sum.add(t));
        sum.fixed()
    };
    // A huge number comes and goes; what is left is exact, whatever the order.
    let (huge, small, wide) = (term(false, 3, 900), term(true, 5, -1000), term(false, u128::MAX >> 2, -40));
    let minus = |t: Term| Term { negative: !t.negative, ..t };
    for terms in [[huge, small, minus(huge)], [small, huge, minus(huge)], [huge, minus(huge), small]] {
        let left = sum_of(&terms);
        assert!(left.negative && !left.sticky);
        assert_eq!(left.magnitude >> left.magnitude.trailing_zeros(), 5);
        assert_eq!(left.exponent + left.magnitude.trailing_zeros() as i32, -1000);
    }
    assert!(sum_of(&[wide, huge, minus(wide), minus(huge)]).is_zero());
    assert!(sum_of(&[huge, small]).sticky);
}

/// Seed 42 of `volta/mma.m8n8k4.f32.f16.f16.f32`: changing it is a breaking change.
const PINNED: [&str; 2] = [
    "c9,e5ed,d8fe,1ff5\t7bd6,8086,3b0c,685c\t67521a9e\t67521a9e",
    "c300,bb00,4480,37e6\t3774,3e80,c0a3,c3be\tbfac441c\tc185eeee",
];
