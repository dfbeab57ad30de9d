//! Chains of FMA and exact sums in every rounding, of operands and results in many formats: each set gives the
//! reference's bits.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::prelude::*;
use gemmulate::round::ROUNDINGS;
use gemmulate::simd::Isa;
use gemmulate::special::NanRule;
use gemmulate::vectors::KINDS;

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
    Problem::new(unit, KINDS, seed, [65, 1, 3]).check_from(Start::Zero, &isas());
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
                let kernel = Gemm::on(&unit).isa(isa).kernel_for(16);
                let own = ["rne", "rz", "rd", "ru"].contains(&name) && [Isa::Avx512, Isa::Avx2].contains(&isa);
                // The machine's own FMA where it can be; f64 has nothing else.
                let expected = if d == "f64" { own } else { true };
                let all_f64 = a == "f64" && b == "f64" && name == "rne";
                assert!(all_f64 || (kernel.isa == isa) == expected, "{unit} on {isa}: {kernel}");
                assert!(
                    !own || ["sfma-f32", "sfma-f64"].contains(&kernel.name) || !["f32", "f64"].contains(&d),
                    "{unit}"
                );
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
            let g = GenericDot { block, exact: true, output_rounding, ..GenericDot::default() };
            let [a, b, d] = [formats[0], formats[1], "f32"].map(named);
            let unit = Unit::custom(g, Shape::new(1, 1, block), [a, b, d, d], None).unwrap();
            let [m, n, k] = [5, 17, 2 * block];
            let code =
                |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
            for _ in 0..8 {
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
