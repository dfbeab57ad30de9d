//! Chains of FMA, exact and aligned sums in every rounding, of operands, results and scales in many formats: each set
//! gives the reference's bits.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::prelude::*;
use gemmulate::round::ROUNDINGS;
use gemmulate::simd::Isa;
use gemmulate::vectors::{KINDS, Kind};

const OPERANDS: [&str; 10] = ["f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e2m1", "e3m2", "e5m2fnuz", "e4m3fnuz"];
const RESULTS: [&str; 6] = ["f32", "f32", "f16", "bf16", "e5m2", "tf32"];

fn named(name: &str) -> FormatSpec {
    *format_named(name).unwrap()
}

fn all_kinds(unit: &Unit, seed: u64) {
    for &kind in KINDS {
        // Fewer rows and columns than a register tile has, and more.
        let rows = if seed.is_multiple_of(2) { 3 } else { 8 };
        Problem::new(unit, &[kind], seed, [rows, 19, 3]).check(&isas());
    }
    Problem::new(unit, KINDS, seed, [13, 66, 3]).check(&isas());
    for size in [[65, 1, 3], [1, 40, 3], [2, 17, 3]] {
        Problem::new(unit, KINDS, seed, size).check_from(Start::Zero, &isas());
    }
}

/// The same dot-add in every place of some sizes, from c or from zero.
fn check(unit: &Unit, a: &[f64], b: &[f64], c: f64) {
    let code = |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
    let scales: &[u64] = if unit.scales() > 0 { &[254, 0] } else { &[0] };
    for ([m, n], scale) in
        [[1, 1], [1, 40], [2, 1], [9, 33]].into_iter().flat_map(|size| scales.iter().map(move |s| (size, *s)))
    {
        let problem = Problem {
            unit: unit.clone(),
            size: [m, n, a.len()],
            a: (0..m).flat_map(|_| a.iter().map(|x| code(&unit.a, *x))).collect(),
            b: b.iter().flat_map(|x| vec![code(&unit.b, *x); n]).collect(),
            c: vec![code(&unit.c, c); m * n],
            scale_a: vec![scale; m * unit.scales()],
            scale_b: vec![scale; n * unit.scales()],
        };
        problem.check(&isas());
        problem.check_from(Start::Zero, &isas());
    }
}

/// Dot-adds on which a parameter, or a format, decides.
#[test]
fn what_decides_is_seen() {
    let p = |e: i32| 2f64.powi(e);
    let cases: &[(&str, &[f64], &[f64], f64)] = &[
        // Just below half of the least result.
        ("m1n1k2.f32.bf16.bf16.f32/dot:block=2:exact=yes:out=rna", &[p(-75), -p(-100)], &[p(-75), p(-120)], 0.0),
        // A zero that is negative only where it may be, overflow of a product, a result to flush, a bit less.
        ("m1n1k2.f32.f32.f32.f32/dot:block=2:exact=yes:out=rne", &[-p(-100), 0.0], &[p(-100), 0.0], 0.0),
        (
            "m1n1k2.f32.f32.f32.f32/dot:block=2:exact=yes:out=rne:negative-zero=yes:limit=yes",
            &[p(100), -p(100)],
            &[p(100); 2],
            0.0,
        ),
        (
            "m1n1k1.f32.f32.f32.f32/dot:block=1:exact=yes:out=rne:negative-zero=yes:flush-out=yes",
            &[p(-149)],
            &[1.0],
            0.0,
        ),
        (
            "m1n1k1.f32.f32.f32.f32/dot:block=1:exact=yes:out=rne:negative-zero=yes:out-bits=22",
            &[1.0 + 3.0 * p(-23)],
            &[1.0],
            0.0,
        ),
        // Directed roundings of a row; narrow operands beside wide ones in memory; c narrower than d.
        ("m1n1k2.f32.f32.f32.f32/fma:round=rd", &[1.0, p(-60)], &[1.0, -1.0], 0.0),
        ("m1n1k2.f32.f32.f32.f32/fma:round=ru", &[1.0, p(-60)], &[1.0, 1.0], 0.0),
        ("m1n1k1.f32.f32.tf32.f32/fma", &[1.0], &[1.0 + p(-10)], 0.0),
        ("m1n1k1.f32.f32.f32.f16/fma", &[1.0], &[1.0], 1.0),
        ("m1n1k1.f32.f16.f16.bf16/fma:round=rz", &[1.0], &[1.0 + p(-10)], p(-30)),
        ("m1n1k1.f64.f32.f32.f32/fma", &[1.0], &[1.0], 1.0),
        // Subnormal operands that count, rounded up.
        ("m1n1k1.f32.f32.f32.f32/fma:round=ru", &[p(-10), p(-140)].repeat(150), &[1.0; 300], 1.0),
    ];
    for (name, a, b, c) in cases {
        check(&Unit::find(&format!("custom/{name}")).unwrap(), a, b, *c);
    }
}

/// Ties, and what lies beside them, where terms are aligned and where sums are rounded.
#[test]
fn ties_of_every_rounding_are_the_references() {
    for (_, rounding) in ROUNDINGS {
        for rest in [0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.5, 0.5 + 2f64.powi(-10), 0.5 - 2f64.powi(-10)] {
            for sign in [1.0, -1.0] {
                for recipe in ["F=3:align=", "F=3:sticky=yes:align=", "F=60:align=", "exact=yes:out=", "F=20:out="] {
                    let f = if recipe.starts_with("F=60") { 60 } else { 3 };
                    let name = format!("custom/m1n1k2.f32.f32.f32.f32/dot:block=2:{recipe}{rounding}");
                    // In units of the last place of alignment, or of the result.
                    let unit = if recipe.ends_with("out=") { 8.0 * 2f64.powi(-23) } else { 8.0 * 2f64.powi(-f) };
                    check(&Unit::find(&name).unwrap(), &[8.0, sign * rest], &[1.0, unit], 0.0);
                }
                // Half precision has kernels that align products one by one, in integers or pairs of them.
                for f in [3, 12, 30] {
                    let name = format!("custom/m1n1k2.f32.f16.f16.f32/dot:block=2:F={f}:align={rounding}");
                    let (a, unit) = (sign * rest * 2f64.powi(-12), 8.0 * 2f64.powi(12 - f));
                    check(&Unit::find(&name).unwrap(), &[8.0, a], &[1.0, unit], 0.0);
                    check(&Unit::find(&name).unwrap(), &[0.0, a], &[1.0, unit], 8.0);
                    check(&Unit::find(&name).unwrap(), &[8.0, 0.0], &[1.0, 1.0], sign * rest * 8.0 * 2f64.powi(-f));
                }
                let name = format!("custom/m1n1k1.f32.f32.f32.f32/fma:round={rounding}");
                check(&Unit::find(&name).unwrap(), &[sign * rest], &[8.0 * 2f64.powi(-23)], 8.0);
            }
        }
    }
}

/// Formats that f32 does not hold: exponents of 8 bits, none of them for infinities and NaN.
#[test]
fn wide_formats_of_ones_own_are_the_references() {
    for (fraction_bits, bias) in [(7, 127), (9, 127), (7, 120), (3, 134)] {
        let mine = FormatSpec {
            name: "mine",
            storage_bits: 9 + fraction_bits,
            exponent_bits: 8,
            fraction_bits,
            bias,
            specials: gemmulate::format::Specials::None,
            ..named("bf16")
        };
        for d in ["f32", "f64", "bf16"].map(named) {
            for rounding in [Rounding::NearestEven, Rounding::TowardZero, Rounding::NearestAway] {
                for formats in [[mine, mine, d, d], [named("bf16"), mine, d, d]] {
                    let fma = SequentialFma { rounding, nan: NanRule::Quiet };
                    all_kinds(&Unit::custom(fma, Shape::new(1, 1, 3), formats, None).unwrap(), 3);
                    if d.name != "f64" {
                        let dot =
                            GenericDot { output_rounding: rounding, exact: true, block: 3, ..GenericDot::default() };
                        all_kinds(&Unit::custom(dot, Shape::new(1, 1, 3), formats, None).unwrap(), 4);
                    }
                }
            }
        }
    }
}

/// Scales whose exponents are not a byte's: products near or beyond the ends of f64's range.
#[test]
fn scales_of_ones_own_are_the_references() {
    for bias in [-279, -242, -100, 60, 180, 300] {
        let format = FormatSpec { name: "mine", bias, ..named("ue8m0") };
        let f32 = named("f32");
        for (_, rounding) in ROUNDINGS {
            for floor in [Floor::BelowEmin(7), Floor::BelowEmin(-526), Floor::None] {
                for exact in [false, true] {
                    let alignment = rounding.parse().unwrap();
                    let dot = GenericDot { block: 1, frac_bits: 3, alignment, floor, exact, ..GenericDot::default() };
                    let rule = Some(ScaleRule { format, block: 1 });
                    let unit = Unit::custom(dot, Shape::new(1, 1, 1), [f32; 4], rule).unwrap();
                    check(&unit, &[-1.0], &[1.0], 0.0);
                    check(&unit, &[2f64.powi(-120)], &[2f64.powi(-120)], 0.0);
                }
            }
        }
        let groups = GroupScaledDot { floor: Floor::None, ..GroupScaledDot::BLACKWELL };
        let e2m1 = named("e2m1");
        let rule = Some(ScaleRule { format, block: 16 });
        let unit = Unit::custom(groups, Shape::new(1, 1, 16), [e2m1, e2m1, f32, f32], rule).unwrap();
        check(&unit, &[1.0; 16], &[1.5; 16], 0.0);
    }
}

#[test]
fn chains_in_every_rounding_are_the_references() {
    let mut rng = Rng(71);
    for (i, &(rounding, name)) in ROUNDINGS.iter().enumerate() {
        for round in 0..6 {
            let d = if round == 5 { "f64" } else { RESULTS[(i + round) % RESULTS.len()] };
            let [a, b] = if round == 0 { ["f32"; 2] } else { [(); 2].map(|()| rng.pick(&OPERANDS)) };
            let a = if d == "f64" && i % 2 == 0 { "f64" } else { a };
            let nan = rng.pick(&[NanRule::Quiet, NanRule::AllOnes]);
            let formats = [a, b, d, d].map(named);
            let k = 1 + rng.below(9) as usize;
            let unit = Unit::custom(SequentialFma { rounding, nan }, Shape::new(1, 1, k), formats, None).unwrap();
            for isa in isas() {
                let kernel = Gemm::on(&unit).isa(isa).kernel_for([16, 4096, 4096]);
                let own = ["rne", "rz", "rd", "ru"].contains(&name) && [Isa::Avx512, Isa::Avx2].contains(&isa);
                // The machine's own FMA where it can be; f64 has nothing else.
                let sfma = match d {
                    "f32" | "f64" => own,
                    "f16" | "bf16" => own && isa == Isa::Avx512,
                    _ => false,
                };
                let plain = name == "rne" && a == d && b == d;
                assert!(
                    plain || kernel.isa == if sfma || d != "f64" { isa } else { Isa::Reference },
                    "{unit} on {isa}: {kernel}"
                );
                assert!(plain || kernel.name.starts_with("sfma") == sfma, "{unit} on {isa}: {kernel}");
            }
            all_kinds(&unit, i as u64 * 7 + round as u64);
        }
    }
}

/// Zeros of either sign, and numbers that cancel.
#[test]
fn zeros_of_chains_have_ieees_signs() {
    for &(rounding, _) in ROUNDINGS {
        for d in ["f32", "f64", "f16"] {
            let formats = ["f16", "f16", d, d].map(named);
            let fma = SequentialFma { rounding, nan: NanRule::Quiet };
            let unit = Unit::custom(fma, Shape::new(1, 1, 1), formats, None).unwrap();
            let numbers = [0.0, -0.0, 1.0, -1.0];
            let code =
                |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
            let (m, n) = (16, 4);
            let problem = Problem {
                unit: unit.clone(),
                size: [m, n, 1],
                a: (0..m).map(|i| code(&unit.a, numbers[i % 4])).collect(),
                b: (0..n).map(|j| code(&unit.b, numbers[j])).collect(),
                c: (0..m * n).map(|t| code(&unit.c, numbers[t / n / 4])).collect(),
                scale_a: Vec::new(),
                scale_b: Vec::new(),
            };
            problem.check(&isas());
        }
    }
}

#[test]
fn exact_sums_in_every_rounding_are_the_references() {
    let mut rng = Rng(5);
    for (i, &(output_rounding, _)) in ROUNDINGS.iter().enumerate() {
        for round in 0..6 {
            let d = named(RESULTS[(i + round) % RESULTS.len()]);
            let [a, b] = [(); 2].map(|()| rng.pick(&OPERANDS)).map(named);
            let block = rng.pick(&[1, 2, 3, 8, 16, 33, 64]);
            let g = GenericDot {
                block,
                exact: true,
                output_rounding,
                pattern: rng.pick(&[Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs]),
                output_bits: rng.pick(&[None, None, Some(7), Some(23), Some(40)]),
                negative_zero: rng.below(2) == 0,
                c: rng.pick(&[CPosition::With, CPosition::With, CPosition::Late, CPosition::Last]),
                flush_inputs: rng.below(4) == 0,
                flush_results: rng.below(4) == 0,
                product_limit: rng.below(4) == 0,
                via_f16: rng.below(6) == 0,
                nan: rng.pick(&[NanRule::Quiet, NanRule::AllOnes]),
                ..GenericDot::default()
            };
            let k = block * (1 + rng.below(2) as usize) + rng.below(2) as usize;
            let unit = Unit::custom(g, Shape::new(1, 1, k), [a, b, d, d], None).unwrap();
            for isa in isas() {
                assert_eq!(Gemm::on(&unit).isa(isa).kernel().isa, isa, "{unit}");
            }
            all_kinds(&unit, i as u64 * 7 + round as u64);
        }
    }
}

#[test]
fn exact_sums_of_scaled_blocks_are_the_references() {
    let mut rng = Rng(15);
    for (i, &(output_rounding, _)) in ROUNDINGS.iter().enumerate() {
        for block in [16, 32] {
            let rule = ScaleRule { format: named("ue8m0"), block: 32 };
            let g = GenericDot { block, exact: true, output_rounding, ..GenericDot::default() };
            let [a, b] = [(); 2].map(|()| rng.pick(&["e4m3", "e5m2", "e2m1"])).map(named);
            let d = named(RESULTS[i % RESULTS.len()]);
            let unit = Unit::custom(g, Shape::new(1, 1, 64), [a, b, d, d], Some(rule)).unwrap();
            for isa in isas() {
                assert_eq!(Gemm::on(&unit).isa(isa).kernel().isa, isa, "{unit}");
            }
            all_kinds(&unit, i as u64);
        }
    }
}

/// Scales with a significand, zeros and subnormal ones among them.
#[test]
fn scales_that_are_no_powers_of_two_are_the_references() {
    let mut rng = Rng(61);
    for (i, &(rounding, _)) in ROUNDINGS.iter().enumerate() {
        for (j, exact) in [false, false, true].into_iter().enumerate() {
            let like = named(["ue4m3", "ue4m3", "e3m2", "e2m3"][(i + j) % 4]);
            let scale = FormatSpec { name: "mine", storage_bits: 8, signed: false, ..like };
            let [a, b] = [(); 2].map(|()| rng.pick(&["e2m1", "e4m3", "e3m2", "e2m1", "e4m3fnuz"])).map(named);
            let d = named(RESULTS[i % RESULTS.len()]);
            let g = GenericDot {
                block: rng.pick(&[4, 16]),
                exact,
                frac_bits: rng.pick(&[13, 25, 35, 60]),
                alignment: if j == 0 { Rounding::TowardZero } else { rounding },
                output_rounding: rng.pick(ROUNDINGS).0,
                product_limit: rng.below(3) == 0,
                sticky: rng.below(3) == 0,
                c: rng.pick(&[CPosition::With, CPosition::Late, CPosition::Last]),
                ..GenericDot::default()
            };
            let rule = ScaleRule { format: scale, block: 16 };
            let unit = Unit::custom(g, Shape::new(1, 1, 64), [a, b, d, d], Some(rule)).unwrap();
            for isa in isas() {
                assert_eq!(Gemm::on(&unit).isa(isa).kernel().isa, isa, "{unit}");
            }
            all_kinds(&unit, i as u64 * 3 + j as u64);
        }
    }
}

/// Alignments to more bits than f64 has: integers in two parts.
#[test]
fn alignments_of_many_bits_are_the_references() {
    let mut rng = Rng(44);
    for (i, &(alignment, _)) in ROUNDINGS.iter().enumerate() {
        for frac_bits in [44, 52, 60, 81] {
            let block = rng.pick(&[1, 4, 16, 30]);
            let [a, b] = [(); 2].map(|()| rng.pick(&OPERANDS)).map(named);
            let d = named(RESULTS[(i + frac_bits as usize) % RESULTS.len()]);
            let g = GenericDot {
                block,
                frac_bits,
                alignment,
                sticky: rng.below(2) == 0,
                floor: rng.pick(&[Floor::None, Floor::ZeroC, Floor::BelowEmin(7)]),
                output_rounding: rng.pick(ROUNDINGS).0,
                ..GenericDot::default()
            };
            let unit = Unit::custom(g, Shape::new(1, 1, block), [a, b, d, d], None).unwrap();
            for isa in isas() {
                assert_eq!(Gemm::on(&unit).isa(isa).kernel().isa, isa, "{unit}");
            }
            all_kinds(&unit, i as u64 * 3 + u64::from(frac_bits));
        }
    }
}

/// Terms far apart: sums of a few large ones that cancel or come to a tie, on which much smaller ones decide.
#[test]
fn exact_sums_of_terms_far_apart_are_the_references() {
    let mut rng = Rng(29);
    for (formats, block) in [(["bf16", "bf16"], 16), (["f32", "f32"], 8), (["tf32", "bf16"], 5), (["f32", "e5m2"], 64)]
    {
        for &(output_rounding, _) in ROUNDINGS {
            // Register tiles, which must not take these, ask that zeros keep their signs.
            let g = GenericDot { block, exact: true, output_rounding, negative_zero: true, ..GenericDot::default() };
            let [a, b, d] = [formats[0], formats[1], "f32"].map(named);
            let unit = Unit::custom(g, Shape::new(1, 1, block), [a, b, d, d], None).unwrap();
            let [m, n, k] = [5, 17, 2 * block];
            let code =
                |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
            let rounds = if output_rounding == Rounding::NearestEven { 80 } else { 8 };
            for _ in 0..rounds {
                // Few exponents, so that terms meet; b is a power of two, so that a place of K has one exponent.
                let places: Vec<i32> = (0..k).map(|_| rng.pick(&[0, 0, 1, -24, -25, -48, -60, -100, -120])).collect();
                let mut term = |p: usize| {
                    let significand = rng.pick(&[1.0, 1.0, 1.5, 1.0078125]);
                    rng.pick(&[0.0, 1.0, -1.0, 1.0, -1.0]) * significand * 2f64.powi(places[p])
                };
                let a = (0..m * k).map(|t| code(&unit.a, term(t % k))).collect();
                let b = (0..k * n).map(|_| code(&unit.b, 1.0)).collect();
                let c = (0..m * n).map(|_| code(&unit.c, rng.pick(&[0.0, 1.0, -1.0, 3.0 * 2f64.powi(-25)]))).collect();
                let (scale_a, scale_b) = (Vec::new(), Vec::new());
                Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
            }
        }
    }
}

/// Of few bits, aligned to one side, sums double from step to step until they are infinite: each product counts as a
/// unit of the largest term.
#[test]
fn sums_that_alignment_makes_grow_are_the_references() {
    for (frac_bits, steps) in [(0, 120), (3, 120), (8, 240), (9, 240), (12, 240)] {
        for align in ["rd", "ru"] {
            for (formats, block) in [("f32.e5m2.e4m3.f32", 8), ("f32.f16.bf16.f32", 4)] {
                let name = format!("custom/m8n8k8.{formats}/dot:block={block}:F={frac_bits}:align={align}:out={align}");
                let unit = Unit::find(&name).unwrap();
                Problem::new(&unit, &[Kind::WideExponents], frac_bits, [9, 33, steps]).check(&isas());
                Problem::new(&unit, &[Kind::WideExponents], frac_bits, [9, 33, steps]).check_from(Start::Zero, &isas());
            }
        }
    }
}

/// A product of these numbers: of A by row and position, of B by position and column; from zero and c = 0.
fn check_numbers(unit: &Unit, [m, n, k]: [usize; 3], a: impl Fn(usize, usize) -> f64, b: impl Fn(usize, usize) -> f64) {
    let code = |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
    let problem = Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a: (0..m * k).map(|t| code(&unit.a, a(t / k, t % k))).collect(),
        b: (0..k * n).map(|t| code(&unit.b, b(t / n, t % n))).collect(),
        c: vec![0; m * n],
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    };
    problem.check(&isas());
    problem.check_from(Start::Zero, &isas());
}

/// A subnormal operand, which f32 panels have no number for, in any one of several steps, and a product that f32 has no
/// number for: aligned to one side, it is a unit.
#[test]
fn operands_below_f32_count_where_alignment_is_to_one_side() {
    for (name, step) in [
        ("custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=25:align=rd", 8),
        ("custom/m8n8k8.f32.bf16.f16.f32/dot:block=4:F=20:align=ru", 8),
        ("custom/m8n8k4.f32.tf32.bf16.f32/dot:block=4:F=30:align=rd:out=rd", 4),
    ] {
        let (unit, steps) = (Unit::find(name).unwrap(), 6);
        let a = |i: usize, p: usize| match (p / step == i % steps, p % step) {
            (true, 1) => 2f64.powi(-133) * if i % 4 < 2 { 1.0 } else { -1.0 },
            _ => 1.0 + (i + p) as f64 % 4.0 / 4.0,
        };
        for (size, small) in [([24, 70], 1.0), ([16, 8], 1.0), ([16, 8], 2f64.powi(-20)), ([24, 70], 2f64.powi(-20))] {
            let b = |p: usize, j: usize| {
                let sign = if (p + j).is_multiple_of(3) { -1.0 } else { 1.25 };
                if p % step == 1 { sign * small } else { sign }
            };
            check_numbers(&unit, [size[0], size[1], steps * step], a, b);
        }
    }
}

/// Sums far below the least number of f32 are that number, or minus it, or zero.
#[test]
fn sums_too_small_to_see_are_rounded_to_one_side() {
    for (out, align) in [("rd", "rz"), ("ru", "rz"), ("rd", "rd"), ("ru", "rne")] {
        for floor in ["none", "zero-c", "emin-120", "emin-7"] {
            let name =
                format!("custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=25:out={out}:align={align}:e_zero={floor}");
            let a = |i: usize, p: usize| if p == i % 8 { -2f64.powi(-126) } else { 2f64.powi(-130) };
            let b = |p: usize, j: usize| {
                2f64.powi(-120 + (p + j) as i32 % 3) * if j.is_multiple_of(2) { 1.0 } else { -1.0 }
            };
            check_numbers(&Unit::find(&name).unwrap(), [20, 70, 16], a, |p, j| b(p % 8, j));
        }
    }
}
