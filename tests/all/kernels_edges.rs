//! FDA kernels at the edges of their windows and of their states: zeros and infinities among them.

use crate::problem::{Problem, isas};
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::vectors::Kind;

/// Units of FDA kernels, every length of step and kind of result among them.
pub(crate) const FDA: [&str; 50] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e5m2.e5m2.f32",
    "hopper/wgmma.m64n8k32.f32.e4m3.e5m2",
    "hopper/wgmma.m64n8k32.f16.e5m2.e5m2",
    "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25",
    "custom/m8n8k32.f16.f16.f16.f16/dot:block=32:F=24:out=rne",
    "custom/m8n8k16.f16.bf16.bf16.f16/dot:block=16:F=10:e_zero=zero-c:out=rne",
    "custom/m8n8k15.f32.f16.f16.f32/dot:block=3:F=25",
    "custom/m8n8k10.f32.bf16.bf16.f32/dot:block=5:F=22:out=rne",
    "custom/m8n8k24.f32.tf32.tf32.f32/dot:block=12:F=25",
    "custom/m8n8k21.f32.f16.bf16.f32/dot:block=21:F=25:pattern=even-odd",
    "custom/m8n8k28.f32.e4m3.e4m3.f32/dot:block=28:F=9:out-bits=13",
    "custom/m8n8k7.f32.e5m2.e4m3.f32/dot:block=7:F=12",
    "custom/m8n8k2.f32.f16.f16.f32/dot:block=1:F=25",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=40",
    "custom/m8n8k32.f32.f16.f16.f32/dot:block=32:F=26:out=rne",
    "custom/m8n8k8.f16.f16.f16.f16/dot:block=8:F=33:out=rne",
    "custom/m8n8k12.f32.tf32.tf32.f32/dot:block=6:F=37:out-bits=13",
    "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25:out=rd",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:out=ru:e_zero=none",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=24:out=rd",
    "custom/m8n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:out=rd",
    "custom/m8n8k32.f32.e5m2.e4m3.f32/dot:block=32:F=25:out=ru",
    "custom/m8n8k10.f32.bf16.bf16.f32/dot:block=5:F=22:out=ru",
    "custom/m8n8k8.f32.f16.bf16.f32/dot:block=4:F=25:out=rd",
    "custom/m8n8k12.f32.tf32.tf32.f32/dot:block=6:F=37:out=rd",
    "custom/m8n8k32.f32.f16.f16.f32/dot:block=16:F=30:out=ru",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:flush-in=yes:flush-out=yes:e_zero=none",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:flush-in=yes:out=rd:flush-out=yes",
    "custom/m8n8k32.f32.f16.e5m2.f32/dot:block=8:F=25:flush-in=yes",
    "custom/m8n8k16.f32.tf32.bf16.f32/dot:block=16:F=33:flush-in=yes:out=rne:flush-out=yes",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=24:flush-out=yes:e_zero=none",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:align=rne",
    "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25:align=rne:out=rne",
    "custom/m8n8k16.f16.f16.f16.f16/dot:block=8:F=22:align=rne:out=rne",
    "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=35:align=rne",
    "custom/m8n8k16.f32.bf16.e5m2.f32/dot:block=4:F=20:align=rne:out-bits=12:e_zero=none",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:align=rd:out=rd",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:align=rd:out=ru",
    "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=30:align=ru",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:c=late",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=8:F=24:out=rne:c=late",
    "custom/m8n8k24.f16.f16.f16.f16/dot:block=8:F=23:out=rne:c=late",
    "custom/m8n8k12.f32.e5m2.e4m3.f32/dot:block=6:F=13:align=rd:c=last",
    "custom/m8n8k16.f32.f16.e4m3.f32/dot:block=16:F=33:align=ru",
    "custom/m8n8k15.f32.f16.f16.f32/dot:block=3:F=10:align=rd:flush-in=yes",
];

/// Codes of a format at its edges: `kind` 0, significands as large as can be; 1, the window's border below the largest;
/// 2, small and large ones and zeros; 3, these and what is not finite.
fn edge(spec: &FormatSpec, kind: usize, negative: u64, draw: u64) -> u64 {
    let (fraction, exponent) = (1u64 << spec.fraction_bits, 1u64 << spec.exponent_bits);
    let low = draw >> 8 & (fraction - 1);
    let field = |below: u64| (exponent - 2).saturating_sub(below);
    let magnitude = match (kind, draw % 8) {
        (0, _) => ((exponent / 2) * fraction) | (fraction - 1),
        (1, n @ 0..=5) => (field([0, 30, 31, 32, 33, 34][n as usize] / 2 * (1 + (draw >> 40 & 1))) * fraction) | low,
        (1, _) | (_, 0) => 0,
        (_, 1) => low,
        (_, 2) => fraction | low,
        (3, 3) if draw >> 50 & 7 == 0 => ((exponent - 1) * fraction) | (draw >> 53 & 1),
        (_, n) => ((exponent / 2 + n - 4) * fraction) | low,
    };
    (magnitude | negative << (spec.exponent_bits + spec.fraction_bits)) << spec.ignored_low_bits
}

/// States at the edges of f32 and of the kernels' ranges, and in the middle; their top halves for f16.
fn edge_state(spec: &FormatSpec, draw: u64) -> u64 {
    let fields = [0, 0, 0, 1, 30, 31, 32, 82, 83, 84, 100, 126, 127, 140, 148, 150, 179, 180, 181, 254, 255];
    let field = fields[(draw >> 8) as usize % fields.len()];
    let fraction = [0, 1, 0x7F_FFFF, draw >> 16 & 0x7F_FFFF][(draw >> 4 & 3) as usize];
    let code = (draw & 1) << 31 | field << 23 | fraction;
    if spec.storage_bits == 16 { (code >> 8 ^ code >> 16) & 0xFFFF } else { code }
}

#[test]
fn edges_of_fda_kernels_are_the_references() {
    let mut state = 9_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for name in FDA {
        let unit = Unit::find(name).unwrap();
        for isa in isas().into_iter().filter(|isa| *isa != Isa::Neon && cfg!(target_arch = "x86_64")) {
            let kernel = Gemm::on(&unit).isa(isa).kernel();
            assert!(kernel.isa == isa && kernel.name.starts_with("fda"), "{name}: {kernel}");
        }
        for turn in 0..24 {
            let (kind, signs) = (turn % 4, turn / 4 % 3);
            let (m, n, steps) = ([9, 1, 17][turn % 3], [70, 23, 1][turn / 2 % 3], 3);
            let k = unit.shape.k * steps;
            // All products positive, all negative, or either.
            let mut codes = |spec: &FormatSpec, count: usize, sign: Option<u64>| -> Vec<u64> {
                (0..count).map(|_| edge(spec, kind, sign.unwrap_or_else(|| draw() >> 33 & 1), draw())).collect()
            };
            let sign = |negative| if signs == 2 { None } else { Some(negative) };
            let (a, b) = (codes(&unit.a, m * k, sign(0)), codes(&unit.b, k * n, sign(signs as u64)));
            let c = (0..m * n).map(|_| if turn % 5 == 0 { 0 } else { edge_state(&unit.c, draw()) }).collect();
            let (scale_a, scale_b) = (vec![], vec![]);
            Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
        }
    }
}

/// Panels whose largest numbers lie anywhere in a format, subnormal numbers and zeros among them: values are f32 on
/// some sets, which have no room below a format's own exponents, and none for those of block scales.
#[test]
fn panels_of_any_magnitude_are_the_references() {
    let mut state = 3_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for name in [
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25:out=rne",
        "custom/m8n8k16.f16.bf16.bf16.f16/dot:block=16:F=10:e_zero=zero-c:out=rne",
        "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=40",
        "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
        "custom/m8n8k6.f16.bf16.f16.f16/dot:block=3:F=24:out=rne",
        "custom/m8n8k12.block6.f32.e5m2.bf16.f32.ue8m0/dot:block=3:F=25",
        "custom/m8n8k32.block32.f32.bf16.e5m2.f32.ue8m0/dot:block=32:F=25",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e4m3.f32.ue8m0",
        "cdna3/v_mfma_f32_32x32x8_bf16",
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "custom/m8n8k12.f32.e5m2.bf16.f32/round-down-grouped:G=12:c-reach=3",
    ] {
        let unit = Unit::find(name).unwrap();
        let (m, n, steps) = (9, 20, 3);
        let (k, slots) = (unit.shape.k * steps, unit.scales() * steps);
        // Exponent fields that most numbers have, of elements or of scales.
        let tops = [3, 40, 66, 67, 68, 100, 127, 150, 186, 187, 188, 230, 254];
        for (top_a, top_b) in tops.iter().flat_map(|a| tops.map(|b| (*a, b))) {
            let mut codes = |spec: &FormatSpec, count: usize, top: u64| -> Vec<u64> {
                let width = spec.exponent_bits + spec.fraction_bits;
                let own = spec.exponent_bits == 8;
                let mut code = || {
                    let below = [0, 1, 2, 3, 5, 30, 36, 300][draw() as usize >> 20 & 7];
                    let field =
                        if own { top.saturating_sub(below) } else { draw() >> 30 & ((1 << spec.exponent_bits) - 2) };
                    let fraction = draw() >> 24 & ((1 << spec.fraction_bits) - 1);
                    let magnitude = if draw() >> 40 & 15 == 0 { 0 } else { field << spec.fraction_bits | fraction };
                    (magnitude | (draw() >> 50 & 1) << width) << spec.ignored_low_bits
                };
                (0..count).map(|_| code()).collect()
            };
            let (a, b) = (codes(&unit.a, m * k, top_a), codes(&unit.b, k * n, top_b));
            let c = (0..m * n).map(|t| if t % 3 == 0 { 0 } else { edge_state(&unit.c, draw()) }).collect();
            let mut scales = |count: usize, top: u64| (0..count).map(|_| top - (draw() >> 20) % 4 % top).collect();
            let (scale_a, scale_b) = (scales(m * slots, top_a), scales(n * slots, top_b));
            Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
        }
    }
}

/// Numbers below f32's normal ones, beside such of the other operand that their product just counts, or just does not,
/// where all others of the step cancel: on panels of f32 they are zeros.
#[test]
fn numbers_below_normal_f32_count_where_they_can() {
    let code = |e: i32| u64::from(if e < -126 { 1u32 << (7 + 126 + e) } else { ((e + 127) as u32) << 7 });
    for (block, f) in [(4, 23), (4, 25), (7, 10), (16, 25), (16, 33), (16, 36), (8, 38), (16, 40)] {
        let name = format!("custom/m8n8k{block}.f32.bf16.bf16.f32/dot:block={block}:F={f}:out=rne");
        let unit = Unit::find(&name).unwrap();
        let (m, n, k) = (9, 70, 2 * block);
        for (top, far) in (-80..-40).flat_map(|top| [20, 30, 31].map(|far| (top, far))) {
            let other = -20 - top;
            for swapped in [false, true] {
                // The first step has the largest number, the second two that cancel and the small one.
                let mut small = vec![0; k];
                small[0] = code(top);
                (small[block], small[block + 1]) = (code(top - far), code(top - far) | 0x8000);
                small[block + 2] = if far == 30 { 0x40 } else { 0x7F };
                let mut large = vec![code(other) | 0x7F; k];
                large[0] = 0;
                let rows = |line: &[u64], count: usize| line.repeat(count);
                let columns = |line: &[u64], count: usize| line.iter().flat_map(|x| vec![*x; count]).collect();
                let (a, b): (_, Vec<u64>) =
                    if swapped { (rows(&large, m), columns(&small, n)) } else { (rows(&small, m), columns(&large, n)) };
                let (c, scale_a, scale_b) = (vec![0; m * n], vec![], vec![]);
                Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
            }
        }
    }
}

/// Lines of zeros beside operands as large as fast kernels take: a zero has no exponent, so small states stay whole.
#[test]
fn small_states_beside_zeros_stay_whole() {
    for name in [
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
        "ampere/mma.m16n8k8.f32.bf16.bf16.f32",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e4m3.f32.ue8m0",
        "custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=12:e_zero=none",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25:out=rne:e_zero=none",
        "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=40:e_zero=none",
        "cdna3/v_mfma_f32_32x32x8_bf16",
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "custom/m8n8k8.f32.bf16.bf16.f32/round-down:G=8:F=23",
        "custom/m8n8k8.f32.bf16.bf16.f32/round-down-grouped:G=8:c-reach=0",
    ] {
        let unit = Unit::find(name).unwrap();
        let (m, n, k) = (9, 20, 2 * unit.shape.k);
        let slots = 2 * unit.scales();
        let scaled = slots > 0;
        let power = |spec: &FormatSpec, e: i32| {
            spec.encode_f64(2f64.powi(if scaled { 0 } else { e }), Rounding::default(), Overflow::default()).unwrap()
        };
        for (e_a, e_b) in [(8, 8), (10, 20), (15, 16), (20, 20), (25, 25), (26, 25), (-10, -20)] {
            // Rows or columns that are not the first hold zeros.
            for by_rows in [false, true] {
                let a = (0..m * k).map(|t| if by_rows && t >= k { 0 } else { power(&unit.a, e_a) }).collect();
                let b = (0..k * n).map(|t| if !by_rows && t % n > 0 { 0 } else { power(&unit.b, e_b) }).collect();
                let state = |t: usize| {
                    let (field, fraction) = (28 + t as u64 % 24, [0x7F_FFFF, 1, 0, 0x2A_AAAB, 0x40_0000][t % 5]);
                    (t as u64 / 24 % 2) << 31 | field << 23 | fraction
                };
                let scales = |count: usize, e: i32| vec![(127 + e) as u64; count * slots];
                Problem {
                    unit: unit.clone(),
                    size: [m, n, k],
                    a,
                    b,
                    c: (0..m * n).map(state).collect(),
                    scale_a: scales(m, e_a),
                    scale_b: scales(n, e_b),
                }
                .check(&isas());
            }
        }
    }
}

/// Products at the lower end of both windows cancel, and a step of zeros follows: where no product is there, c is in
/// reach.
#[test]
fn what_cancelled_is_in_reach_of_zeros() {
    for reach in [0, 7, 12, 13, 14, 25] {
        let name = format!("custom/m8n8k8.f32.bf16.bf16.f32/round-down-grouped:G=8:c-reach={reach}");
        let unit = Unit::find(&name).unwrap();
        let (m, n, k) = (8, 16, 16);
        let bf16 = |x: f64| u64::from((x as f32).to_bits() >> 16);
        let (mut a, mut b) = (vec![0; m * k], vec![0; k * n]);
        (1..m).for_each(|i| a[i * k] = bf16(2f64.powi(-17)));
        (1..n).for_each(|j| b[j] = bf16(2f64.powi(-17)));
        let (small, one) = (2f64.powi(-48), 1.0 + 2f64.powi(-7));
        (a[0], a[2]) = (bf16(small * one), bf16(-small * (1.0 + 2f64.powi(-6))));
        (b[0], b[2 * n]) = (bf16(small * one), bf16(small));
        let (scale_a, scale_b) = (Vec::new(), Vec::new());
        Problem { unit, size: [m, n, k], a, b, c: vec![0; m * n], scale_a, scale_b }.check(&isas());
    }
}

/// Zeros of both signs, products that vanish and a subnormal number, in two steps: whether a sum of them is -0
/// depends on nothing but the unit's rules.
#[test]
fn signs_of_zero_are_the_references() {
    let rules = [
        "F=25",
        "F=25:e_zero=none",
        "F=25:align=rd:out=rd",
        "F=25:align=rd:sticky=yes",
        "F=25:c=late",
        "F=25:c=last",
        "F=36:c=last:flush-in=yes",
        "F=36:flush-in=yes:out=rne",
        "F=36:c=late:flush-in=yes:flush-out=yes",
        "F=25:flush-out=yes",
        "F=25:out=rna",
        "F=13:out=rne",
        "exact=yes",
        "exact=yes:flush-in=yes:flush-out=yes:c=last",
    ];
    let isas = isas();
    for (rules, negative_zero) in rules.into_iter().flat_map(|r| [(r, "no"), (r, "yes")]) {
        for formats in ["f32.bf16.bf16.f32", "f32.tf32.tf32.f32", "f32.f16.f16.f32", "f16.e4m3.e4m3.f16"] {
            let name = format!("custom/m8n8k2.{formats}/dot:block=2:{rules}:negative-zero={negative_zero}");
            let unit = Unit::find(&name).unwrap();
            let numbers = |spec: &FormatSpec| {
                let [zero, tiny] = [0, 1].map(|code| code << spec.ignored_low_bits);
                let small = spec.encode_f64(2f64.powi((-75).max(spec.emin())), Rounding::NearestEven, Overflow::Ieee);
                let sign = 1 << (spec.storage_bits - 1);
                [zero, tiny, small.unwrap()].into_iter().flat_map(|x| [x, x | sign]).collect::<Vec<u64>>()
            };
            let [a, b, c] = [unit.a, unit.b, unit.c].map(|spec| numbers(&spec));
            // Rows and columns are all pairs of a number and a zero of either sign, in the first step or in the second.
            let line = |x: &[u64], t: usize| {
                let (number, zero) = (x[t % 6], x[t / 6 % 2]);
                if t < 12 { [number, zero, zero, zero] } else { [zero, zero, number, zero] }
            };
            let (m, n) = (24, 24);
            let (rows, columns): (Vec<_>, Vec<_>) =
                ((0..m).map(|i| line(&a, i)).collect(), (0..n).map(|j| line(&b, j)).collect());
            for shift in 0..c.len() {
                let problem = Problem {
                    unit: unit.clone(),
                    size: [m, n, 4],
                    a: rows.concat(),
                    b: (0..4 * n).map(|at| columns[at % n][at / n]).collect(),
                    c: (0..m * n).map(|at| c[(at + shift) % c.len()]).collect(),
                    scale_a: Vec::new(),
                    scale_b: Vec::new(),
                };
                problem.check(&isas);
            }
        }
    }
}

/// Pieces in which every state is infinite: finite operands leave them alone, infinite ones of the other sign do not.
#[test]
fn states_that_are_all_infinite_are_the_references() {
    for name in [
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "ampere/mma.m16n8k16.f16.f16.f16.f16",
        "hopper/mma.m16n8k32.f32.e5m2.e4m3.f32",
        "hopper/wgmma.m64n8k32.f32.e5m2.e5m2",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e4m3.f32.ue8m0",
        "cdna3/v_mfma_f32_32x32x8_f16",
    ] {
        let unit = Unit::find(name).unwrap();
        for seed in 0..4 {
            let mut problem = Problem::new(&unit, &[Kind::NearOne], seed, [17, 70, 6]);
            let [m, n, k] = problem.size;
            let infinite = |spec: &FormatSpec, negative: bool| spec.infinity_code(negative).unwrap_or_default();
            for (t, c) in problem.c.iter_mut().enumerate() {
                // Rows of one sign, of both, and one with a finite state here and there.
                let (i, j) = (t / n, t % n);
                if i % 5 != 4 || j % 23 != 7 {
                    *c = infinite(&unit.c, i % 3 == 1 || (i % 3 == 2 && j % 2 == 1));
                }
            }
            for i in (seed as usize..m).step_by(3) {
                // In the fourth step, for rows of either sign.
                problem.a[i * k + 3 * unit.shape.k + 1] = infinite(&unit.a, i % 2 == 0);
            }
            problem.check(&isas());
        }
    }
}
