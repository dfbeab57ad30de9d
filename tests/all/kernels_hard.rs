//! Hard data of whole products: what kernels do where the ordinary step does not hold, with states that have a past.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::vectors::KINDS;

fn code(spec: &FormatSpec, x: f64) -> u64 {
    spec.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap()
}

/// A product of operands and C by place, as numbers: `a(row, k)`, `b(k, column)`, `c(row, column)`.
fn problem(
    unit: &Unit,
    [m, n, k]: [usize; 3],
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
    c: impl Fn(usize, usize) -> f64,
) -> Problem {
    Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a: (0..m * k).map(|at| code(&unit.a, a(at / k, at % k))).collect(),
        b: (0..k * n).map(|at| code(&unit.b, b(at / n, at % n))).collect(),
        c: (0..m * n).map(|at| code(&unit.c, c(at / n, at % n))).collect(),
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    }
}

/// Every sum is at a tie, or near one, or has cancelled, and a product that f64 has no place for decides.
#[test]
fn exact_sums_hold_where_a_lost_product_decides() {
    for (name, group, tiny) in [
        ("cdna1/v_mfma_f32_32x32x8f16", 4, -24),
        ("cdna1/v_mfma_f32_32x32x4bf16", 2, -60),
        ("custom/m8n8k8.f32.f16.f16.f32/dot:block=8:exact=yes:out=rne:e_zero=none:negative-zero=yes:nan=quiet", 8, -24),
    ] {
        let (unit, mut random) = (Unit::find(name).unwrap(), Rng(9));
        for round in 0..24 {
            let [m, n, k] = [11, 19, 160];
            // Each group has a place for half of c's last place, and one for the product that decides.
            let places: Vec<[usize; 2]> = (0..k / group)
                .map(|_| {
                    let half = random.below(group);
                    [half, (half + 1 + random.below(group - 1)) % group]
                })
                .collect();
            let mut signs = |count: usize| -> Vec<f64> { (0..count).map(|_| random.pick(&[-1.0, 1.0])).collect() };
            let (of_a, of_b, of_c) = (signs(m * k), signs(k * n), signs(m * n));
            let cancels = round % 3 == 0;
            let half = 2f64.powi(round % 4 + if cancels { 7 } else { -2 });
            let tiny = 2f64.powi(tiny) * f64::from(1 + 2 * (round % 3));
            // The last group meets zeros; its size gives the panels their scales.
            let element = |k_at: usize, side: usize| match places[k_at / group] {
                _ if k_at == k - 1 - side => 8192.0,
                _ if k_at >= k - group => 0.0,
                [p, _] if p == k_at % group => half,
                // Without it the tie is one.
                [_, p] if p == k_at % group && k_at / group % 4 != 3 => tiny,
                _ => 0.0,
            };
            let integers: Vec<u64> = (0..m * n).map(|_| (1 << 23) + random.below(1u64 << 23)).collect();
            let c = |i: usize, j: usize| {
                let (unit, at) = (2.0 * half * half, i * n + j);
                of_c[at] * if cancels { unit / 2.0 } else { integers[at] as f64 * unit }
            };
            let a = |i: usize, p: usize| of_a[i * k + p] * element(p, 0);
            let b = |p: usize, j: usize| of_b[p * n + j] * element(p, 1);
            problem(&unit, [m, n, k], a, b, c).check(&isas());
        }
    }
}

/// Sums of more products than f64 has room for beside operands of half its bits: 40 of the largest are a tie, of which
/// two others, of one unit in all, decide.
#[test]
fn exact_sums_of_many_products_hold_at_a_tie() {
    let unit = Unit::find("custom/m8n8k64.f32.f16.f16.f32/dot:block=64:exact=yes:out=rne:negative-zero=yes").unwrap();
    let number = |p: usize, [plus, minus]: [f64; 2]| match p {
        0..40 => 2047.0 * 2f64.powi(3),
        40 => plus / 1024.0,
        41 => minus / 1024.0,
        _ => 0.0,
    };
    for [m, n] in [[1, 1], [9, 17]] {
        let a = |_: usize, p: usize| number(p, [1025.0, -1024.0]);
        let b = |p: usize, _: usize| number(p, [1025.0, 1026.0]);
        problem(&unit, [m, n, 64], a, b, |_, _| 0.0).check(&isas());
    }
}

/// States grow until f64 has no place for the last places of products, of which one decides a tie.
#[test]
fn exact_sums_hold_where_states_leave_the_range() {
    let (unit, mut random) = (Unit::find("cdna1/v_mfma_f32_32x32x8f16").unwrap(), Rng(31));
    let most = 2.0 - 2f64.powi(-10);
    for _ in 0..6 {
        let [m, n, k] = [9, 18, 512];
        let mut signs = |count: usize| -> Vec<f64> { (0..count).map(|_| random.pick(&[-1.0, 1.0])).collect() };
        let (of_row, of_column, of_tie, of_last) = (signs(m), signs(n), signs(k), signs(k));
        // Half of the groups let states grow; products of the others are half of a state's last place and, of the next
        // two, a multiple of f64's smallest place beside a state below 8 and what takes the rest of it away.
        let groups: Vec<Option<i32>> =
            (0..k / 4).map(|_| if random.below(2) == 0 { None } else { Some(6 + random.below(4)) }).collect();
        let a = |i: usize, p: usize| match (groups[p / 4], p % 4) {
            (None, _) => most * of_row[i],
            (Some(_), 0) => 2f64.powi(-8) * of_tie[p],
            (Some(_), 3) => 0.0,
            (Some(_), at) => 2f64.powi(-24) * of_last[p / 4] * if at == 1 { 1.0 } else { -1.0 },
        };
        let b = |p: usize, j: usize| match (groups[p / 4], p % 4) {
            (None, _) => most * of_column[j],
            (Some(half), 0) => 2f64.powi(-half),
            (Some(_), 3) => 0.0,
            (Some(_), at) => 2f64.powi(-11) + if at == 1 { 2f64.powi(-21) } else { 0.0 },
        };
        problem(&unit, [m, n, k], a, b, |_, _| 0.0).check(&isas());
    }
}

/// A negative sum below f32's numbers is -0, which products of -0 then leave +0; or it is the last.
#[test]
fn exact_sums_that_vanish_keep_no_sign() {
    for name in ["cdna1/v_mfma_f32_32x32x4bf16", "cdna1/v_mfma_f32_16x16x8bf16"] {
        let unit = Unit::find(name).unwrap();
        let tiny = 2f64.powi(-100);
        for k in [8, 16, 64, 160, 512] {
            for vanishes in [0, 2, k - 2] {
                // Another column brings scales into range: its products are ordinary.
                let a = |i: usize, p: usize| match (i, p) {
                    (0, p) if p == vanishes => -tiny,
                    (0, p) if p != vanishes + 1 => -1.0,
                    _ => 0.0,
                };
                let b = |p: usize, j: usize| match (p, j) {
                    (p, 0) if p == vanishes => tiny,
                    (p, 1) if p / 2 != vanishes / 2 => 1.0,
                    _ => 0.0,
                };
                problem(&unit, [8, 16, k], a, b, |_, _| 0.0).check(&isas());
            }
        }
    }
}

/// Sums that are subnormal are rounded there, though the panels' scales are those of larger operands.
#[test]
fn exact_sums_round_where_they_are_subnormal() {
    let (unit, mut random) = (Unit::find("cdna1/v_mfma_f32_32x32x4bf16").unwrap(), Rng(4));
    for _ in 0..10 {
        let [m, n, k] = [9, 17, 64];
        let mut numbers = |count: usize| -> Vec<f64> {
            let mut number = || (128.0 + f64::from(random.below(128u32))) * random.pick(&[-1.0, 1.0]);
            (0..count).map(|_| number()).collect()
        };
        let (of_a, of_b) = (numbers(m * k), numbers(k * n));
        let size = |p: usize, side: usize| match k - 1 - p {
            last if last == side => 2f64.powi(-17),
            0 | 1 => 0.0,
            _ => 2f64.powi(-76),
        };
        let a = |i: usize, p: usize| of_a[i * k + p] * size(p, 0);
        let b = |p: usize, j: usize| of_b[p * n + j] * size(p, 1);
        problem(&unit, [m, n, k], a, b, |_, _| 0.0).check(&isas());
    }
}

/// Beside subnormal operands, whose products are lost in f64, sums are ties, or small, or nothing at all.
#[test]
fn exact_sums_hold_beside_subnormal_operands() {
    let mut random = Rng(12);
    for round in 0..72 {
        let name = ["cdna1/v_mfma_f32_32x32x4bf16", "cdna1/v_mfma_f32_16x16x2bf16"][round % 2];
        let unit = Unit::find(name).unwrap();
        let [m, n, k] = [17, 37, [64, 160, 192, 320][round % 4]];
        // How rare subnormal operands and zeros are, how far exponents are apart, and how many fractions there are:
        // with few of them sums meet zero again.
        let (rare, zeros) = (random.pick(&[100, 30, 5, 2]), random.pick(&[0, 40, 6]));
        let (apart, fractions) = (random.pick(&[3, 9, 14, 17]), random.pick(&[1, 4, 128]));
        // With these, panels are multiplied by 2^-1, 2^16, 2^17, 2^26 and 2^-14.
        let largest = random.pick(&[127, 127, 110, 109, 100, 140]);
        // In half of the rounds each line has a size of its own, so that sums stay small on some.
        let alone = round % 8 < 4;
        let sizes: Vec<u64> = (0..m + n).map(|_| if alone { random.below(apart) } else { 0 }).collect();
        let mut operand = |line: usize, of_b: bool| {
            let further = if alone { random.below(2u64) } else { random.below(apart) };
            let field = largest - 2 * u64::from(of_b) - (sizes[line] + further).min(apart - 1);
            let normal = (field << 7) | (random.below(fractions) * (128 / fractions));
            let (subnormal, zero) = (random.one_in(rare), random.one_in(zeros));
            let magnitude = if subnormal { 1 + random.below(127u64) } else { normal * u64::from(!zero) };
            magnitude | random.below(2u64) << 15
        };
        let a = (0..m * k).map(|at| operand(at / k, false)).collect();
        let b = (0..k * n).map(|at| operand(m + at % n, true)).collect();
        // Sums of two products are of about this size; other states are small, or nothing.
        let like = |exponent: u64, random: &mut Rng| {
            (exponent << 23) | random.below(1u64 << 23) >> random.below(20u32) | random.below(2u64) << 31
        };
        let sum = 2 * largest - 127;
        let c = (0..m * n).map(|at| match (round % 3, at % 4) {
            (0, _) | (1, 0) => 0,
            (_, 1) => like(sum - 20 - random.below(20u64), &mut random),
            _ => like(sum - random.below(8u64), &mut random),
        });
        let c = c.collect();
        let none = Vec::new;
        Problem { unit, size: [m, n, k], a, b, c, scale_a: none(), scale_b: none() }.check(&isas());
    }
}

/// Bit patterns of all kinds, infinities and NaN rare or not there: states overflow one by one, as time goes by.
#[test]
fn states_overflow_one_by_one() {
    for name in [
        "rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16",
        "hopper/mma.m16n8k32.f16.e4m3.e4m3.f16",
        "hopper/wgmma.m64n8k32.f16.e4m3.e4m3",
        "ampere/mma.m16n8k16.f16.f16.f16.f16",
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "cdna1/v_mfma_f32_32x32x8f16",
        "cdna1/v_mfma_f32_32x32x4bf16",
        "cdna2/v_mfma_f32_32x32x8bf16_1k",
        "cdna3/v_mfma_f32_32x32x8_bf16",
        "cdna3/v_mfma_f32_32x32x4_xf32",
        "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
        "cdna3/v_mfma_f32_32x32x2_f32",
    ] {
        let (unit, mut random) = (Unit::find(name).unwrap(), Rng(name.len() as u64));
        for special in [0, 3000, 20] {
            let [m, n, k] = [18, 66, 20 * unit.shape.k.max(8)];
            let mut codes = |spec: &FormatSpec, count: usize| -> Vec<u64> {
                let mut draw = || loop {
                    let code = random.next() >> (64 - spec.storage_bits);
                    if spec.decode(code).is_finite() || random.one_in(special) {
                        return code;
                    }
                };
                (0..count).map(|_| draw()).collect()
            };
            let (a, b, c) = (codes(&unit.a, m * k), codes(&unit.b, k * n), vec![0; m * n]);
            let none = Vec::new;
            Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a: none(), scale_b: none() }.check(&isas());
        }
    }
}

/// Products on both sides of f32's smallest normal number, which are flushed or not.
#[test]
fn pairwise_products_are_flushed_where_they_are_subnormal() {
    for name in [
        "cdna2/v_mfma_f32_32x32x8bf16_1k",
        "cdna2/v_mfma_f32_32x32x4bf16",
        "custom/m8n8k4.f32.tf32.tf32.f32/pairwise:G=4",
    ] {
        let (unit, mut random) = (Unit::find(name).unwrap(), Rng(3));
        for _ in 0..40 {
            let [m, n, k] = [9, 17, 4 * unit.shape.k];
            let mut numbers = |count: usize| -> Vec<f64> {
                let mut number = || {
                    let significand = 1.0 + f64::from(random.pick(&[0, 8, 1016, 424, 472])) / 1024.0;
                    significand * random.pick(&[-1.0, 1.0]) * 2f64.powi(random.pick(&[-64, -63, -62, 0, 1]))
                };
                (0..count).map(|_| number()).collect()
            };
            let (a, b) = (numbers(m * k), numbers(k * n));
            problem(&unit, [m, n, k], |i, p| a[i * k + p], |p, j| b[p * n + j], |_, _| 0.0).check(&isas());
        }
    }
}

/// A state that has become -0 is read as +0 by the next step, whose groups are -0.
#[test]
fn pairwise_steps_read_a_flushed_state_as_zero() {
    for (name, want) in [
        ("cdna2/v_mfma_f32_32x32x8bf16_1k", 0),
        ("cdna2/v_mfma_f32_32x32x4bf16", 0),
        ("custom/m8n8k2.f32.bf16.bf16.f32/pairwise:G=2", 0),
        ("custom/m8n8k1.f32.bf16.bf16.f32/pairwise:G=1", 0),
        ("custom/m8n8k8.f32.bf16.bf16.f32/pairwise:G=8", 0),
        ("custom/m8n8k2.f32.bf16.bf16.f32/pairwise:G=2:flush-in=no", 1 << 31),
    ] {
        let unit = Unit::find(name).unwrap();
        let (step, small) = (unit.shape.k, 2f64.powi(-100));
        // In one row 2^-126, then three quarters of that below zero, which is flushed; others have operands like these.
        let a = |i: usize, p: usize| match (i, p) {
            (0, 0) => small,
            (0, p) if p == 2 * step => -1.5 * small,
            (0, _) => 0.0,
            _ => small,
        };
        let b = |p: usize, _: usize| if p == 0 || p == 2 * step { 2f64.powi(-26) } else { -1.0 };
        for (m, n) in [(9, 17), (1, 17), (2, 3), (70, 1)] {
            let problem = problem(&unit, [m, n, 4 * step], a, b, |_, _| 0.0);
            assert_eq!(problem.run(Isa::Reference, Start::Zero, false)[0], want, "{name}");
            problem.check_from(Start::Zero, &isas());
        }
    }
}

/// Block-scaled operands far apart, as far as subnormal numbers and scales go.
#[test]
fn scaled_subnormals_are_within_the_window() {
    let unit = Unit::find("rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e5m2.f32.ue8m0").unwrap();
    let mut random = Rng(5);
    for spread in [1, 3, 9, 40] {
        let [m, n, k] = [9, 65, 128];
        let mut codes = |count: usize| -> Vec<u64> {
            (0..count)
                .map(|_| if random.one_in(4) { 1 + random.below(3u64) } else { 0x30 + random.below(30u64) })
                .collect()
        };
        let (a, b) = (codes(m * k), codes(k * n));
        let mut scales =
            |lines: usize| -> Vec<u64> { (0..lines * k / 32).map(|_| 127 + random.below(spread)).collect() };
        let (scale_a, scale_b) = (scales(m), scales(n));
        Problem { unit: unit.clone(), size: [m, n, k], a, b, c: vec![0; m * n], scale_a, scale_b }.check(&isas());
    }
}

/// Few rows and single columns have kernels of their own.
#[test]
fn few_rows_and_single_columns_of_exact_sums() {
    for name in ["cdna1/v_mfma_f32_32x32x8f16", "cdna1/v_mfma_f32_32x32x4bf16", "cdna1/v_mfma_f32_16x16x16f16"] {
        let unit = Unit::find(name).unwrap();
        for (i, [m, n]) in
            [[1, 37], [2, 16], [3, 18], [4, 33], [5, 17], [64, 1], [71, 1], [63, 1]].into_iter().enumerate()
        {
            for seed in 0..4 {
                Problem::new(&unit, KINDS, 8 * seed + i as u64, [m, n, 5]).check(&isas());
            }
        }
    }
}
