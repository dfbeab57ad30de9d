//! Round-down sums beside states far above the products.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::prelude::*;

/// States of `2^28` to `2^38` units of a step's last place, often next to a power of two, beside sums of all sizes and
/// signs: totals that do and do not leave c's binary order, from where sums leave 31 bits to where places are dropped. In
/// some pieces only, or in all.
#[test]
fn states_far_above_the_products_are_the_references() {
    let mut rng = Rng(41);
    for group in [4, 8, 16] {
        for frac_bits in [23, 24, 25] {
            for (sum, total) in [(32, 31), (33, 31), (33, 32), (31, 31), (36, 34), (32, 0)] {
                let total = if total == 0 { "full".into() } else { total.to_string() };
                let name = format!(
                    "custom/m8n8k{group}.f32.f16.f16.f32/round-down:G={group}:F={frac_bits}:sum={sum}:total={total}"
                );
                let unit = Unit::find(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
                for _ in 0..4 {
                    far(&unit, frac_bits, &mut rng).check(&isas());
                }
            }
        }
    }
    for name in ["cdna3/v_mfma_f32_32x32x8_f16", "cdna3/v_mfma_f32_32x32x8_bf16"] {
        for _ in 0..60 {
            far(&Unit::find(name).unwrap(), 24, &mut rng).check(&isas());
        }
    }
}

/// Each line's first number is 1 to 2, and no other is larger: then `2^-F` is a step's last place.
fn far(unit: &Unit, frac_bits: i32, rng: &mut Rng) -> Problem {
    let [m, n, steps] = [rng.pick(&[8, 8, 16, 40, 72]), 64, 1 + rng.below(4)];
    let (k, step) = (unit.shape.k * steps, unit.shape.k);
    let number = |p: usize, small: bool, rng: &mut Rng| {
        let (exponent, sign) =
            if p.is_multiple_of(step) { (0, 1.0) } else { (-(rng.below(13u64) as i32), rng.pick(&[1.0, -1.0])) };
        let by = if small && !p.is_multiple_of(step) { -8 } else { 0 };
        let x = sign * (1.0 + rng.below(1024u64) as f64 / 1024.0) * f64::from(exponent + by).exp2();
        unit.a.encode_f64(x, Default::default(), Default::default()).unwrap()
    };
    let a = (0..m * k).map(|t| number(t % k, t / k % 5 == 0, rng)).collect();
    let b = (0..k * n).map(|t| number(t / n, t % n % 3 == 0, rng)).collect();
    // Pieces of which no state is far above.
    let near: Vec<bool> = (0..m.div_ceil(4) * 2).map(|_| rng.one_in(2)).collect();
    let c = |t: usize, rng: &mut Rng| {
        let (i, j) = (t / n, t % n);
        let e = if near[i / 4 * 2 + j / 32] { rng.below(28u64) } else { 28 + rng.below(11u64) } as i32 - frac_bits;
        let any = rng.below(1i64 << 23);
        let beside = rng.pick(&[0, 0, 1, 2, 3, 1 << 20, any]) * rng.pick(&[1, -1]);
        let bits = (i64::from(127 + e) << 23) + beside;
        bits as u64 | rng.below(2u64) << 31
    };
    Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a,
        b,
        c: (0..m * n).map(|t| c(t, rng)).collect(),
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    }
}
