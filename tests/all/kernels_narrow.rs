//! Kernels that multiply integers: narrow operands, magnitudes and scales on both sides of their bounds.

use crate::problem::{Problem, isas};
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use proptest::prelude::*;

/// Units whose operands are at most 8 bits wide, as the kernels that multiply integers want them, and others beside.
const NARROW: [&str; 18] = [
    "rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e5m2.e4m3.f32",
    "rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=8:F=20",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=8:F=20:out-bits=13",
    "custom/m1n1k6.f32.e3m2.e2m3.f32/dot:block=6:F=25:out=rne",
    "custom/m1n1k20.f32.e2m3.e4m3.f32/dot:block=20:F=9",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:e_zero=emin+130",
    "custom/m1n1k16.f16.e5m2.e5m2.f16/dot:block=16:F=16:out=rne:e_zero=none",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e2m1.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e3m2.e2m3.f32.ue8m0",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
    "custom/m8n8k12.f32.e4m3.e4m3.f32/round-down-grouped:G=12:c-reach=3",
    "custom/m8n8k16.f32.e4m3.e5m2.f32/round-down:G=8:F=25:sum=33",
    "custom/m8n8k20.f32.e4m3.e4m3.f32/round-down:G=10:F=23:sum=31:total=31",
];

/// Magnitudes of an operand: codes from `most - width` to `most`, one in `rare` of them `most - depth` instead.
#[derive(Clone, Copy, Debug)]
struct Magnitudes {
    most: u64,
    width: u64,
    depth: u64,
    rare: u64,
}

fn magnitudes() -> impl Strategy<Value = Magnitudes> {
    let widths = prop::sample::select([0, 1, 4, 8, 16, 24, 40, 128].as_slice());
    (1..128u64, widths, 0..128u64, 8..200u64).prop_map(|(most, width, depth, rare)| Magnitudes {
        most,
        width,
        depth,
        rare,
    })
}

/// Block scales around a power of two: one for all, or one for each line, or for each step of it too; or now and then
/// any.
#[derive(Clone, Copy, Debug)]
struct Scales {
    manner: u64,
    centre: i64,
    spread: u64,
}

impl Scales {
    fn code(self, line: usize, step: usize, random: u64) -> u64 {
        let place = [0, line, line + 7 * step, line + 7 * step][self.manner as usize] as u64;
        if self.manner == 3 && random.is_multiple_of(40) {
            return random >> 6 & 0xFF;
        }
        (127 + self.centre + (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as i64 % (self.spread as i64 + 1)) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(5), ..ProptestConfig::default() })]
    /// Numbers of such magnitudes that a step's products are whole in units of the truncation step, or just not, with
    /// c of any size, alike or not, of one sign or not, and now and then a number that is larger or none.
    #[test]
    fn steps_that_hardly_truncate_are_the_references(
        name in prop::sample::select(NARROW.as_slice()),
        sizes in (magnitudes(), magnitudes()),
        signs in prop::sample::select([(0, 0), (0, 0), (0x55, 0), (0, 0xFE), (0x0F, 0x3C)].as_slice()),
        c_exponents in -40..60i32,
        spread in 1..30i32,
        odd in 0..4u64,
        scales in (0..4u64, prop_oneof![-4..5i64, -100..100i64], 0..9u64),
        seed: u64,
    ) {
        let unit = Unit::find(name).unwrap();
        let (m, n, steps) = (9, 35, 3);
        let k = steps * unit.shape.k;
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let scales = Scales { manner: scales.0, centre: scales.1, spread: scales.2 };
        let per = unit.scales();
        let mut scale = |lines: usize, of: Scales| -> Vec<u64> {
            (0..lines * steps * per).map(|i| of.code(i / (steps * per), i % (steps * per), random())).collect()
        };
        let (scale_a, scale_b) = (scale(m, scales), scale(n, Scales { centre: -scales.centre, ..scales }));
        let mut operand = |count: usize, spec: &FormatSpec, size: Magnitudes, signs: u8| -> Vec<u64> {
            let end = 1 << (spec.storage_bits - 1);
            let code = |i: usize, r: u64| {
                let most = size.most.min(end - 1);
                let magnitude = match r % size.rare {
                    _ if odd > 0 && i % 977 == 3 => r % end,
                    0 => most.saturating_sub(size.depth),
                    _ => most - (r >> 8) % (size.width.min(most) + 1),
                };
                magnitude | if signs >> (r >> 20 & 7) & 1 == 1 { end } else { 0 }
            };
            (0..count).map(|i| code(i, random())).collect()
        };
        let (a, b) = (operand(m * k, &unit.a, sizes.0, signs.0), operand(k * n, &unit.b, sizes.1, signs.1));
        let all = Magnitudes { most: u64::MAX, width: u64::MAX - 1, depth: 0, rare: u64::MAX };
        let mut c = operand(m * n, &unit.c, all, 0x55);
        let (bias, fraction) = (unit.c.bias, unit.c.fraction_bits);
        for (i, code) in c.iter_mut().enumerate() {
            let e = (c_exponents + *code as i32 % spread + bias).clamp(0, (2 << (unit.c.exponent_bits - 1)) - 2) as u64;
            *code = if i % 11 == 0 { 0 } else { *code & !((bias as u64 * 2 + 1) << fraction) | e << fraction };
        }
        Problem { unit, size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
    }
}

/// Sums of as large integers as there are: one number so much smaller than all others that these are large beside it.
#[test]
fn large_numbers_beside_a_small_one_are_the_references() {
    for name in ["rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32", "cdna3/v_mfma_f32_16x16x32_fp8_fp8"] {
        let unit = Unit::find(name).unwrap();
        let ([m, n], k) = ([8, 16], unit.shape.k);
        for most in [0x77, 0x79, 0x7E] {
            for depth in 0..most {
                let code =
                    |line: usize, p: usize, small: usize| if p == (line + small) % k { most - depth } else { most };
                let a = (0..m * k).map(|at| code(at / k, at % k, 0)).collect();
                let b = (0..k * n).map(|at| code(at % n, at / n, k / 2)).collect();
                let (scale_a, scale_b) = (Vec::new(), Vec::new());
                Problem { unit: unit.clone(), size: [m, n, k], a, b, c: vec![0; m * n], scale_a, scale_b }
                    .check(&isas());
            }
        }
    }
}
