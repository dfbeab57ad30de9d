//! Chains of FMA whose sums lie in the middle of two numbers, or next to it: where kernels that put an FMA together
//! from products and sums must look closely.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::prelude::*;

/// f32 or f64 as chains need it, in f64.
struct Real {
    unit: &'static str,
    /// Fraction bits, and exponents of states to start from: everyday ones, and those at the ends of the range.
    fraction_bits: i32,
    exponents: [i32; 6],
    /// Exponents of operands whose products are everyday ones, the smallest, and beyond the largest.
    halves: [i32; 3],
    fma: fn(f64, f64, f64) -> f64,
    round: fn(f64) -> f64,
    code: fn(f64) -> u64,
}

const REALS: [Real; 2] = [
    Real {
        unit: "cdna3/v_mfma_f32_32x32x2_f32",
        fraction_bits: 23,
        exponents: [0, 0, -104, -126, -149, 126],
        halves: [0, -75, 64],
        fma: |a, b, d| f64::from((a as f32).mul_add(b as f32, d as f32)),
        round: |x| f64::from(x as f32),
        code: |x| (x as f32).to_bits().into(),
    },
    Real {
        unit: "ampere/mma.m8n8k4.f64.f64.f64.f64",
        fraction_bits: 52,
        exponents: [0, 0, -970, -1022, -1074, 1022],
        halves: [0, -537, 512],
        fma: f64::mul_add,
        round: |x| x,
        code: f64::to_bits,
    },
];

impl Real {
    fn number(&self, rng: &mut Rng) -> f64 {
        let (magnitude, sign) = (1.0 + rng.below(1 << 30) as f64 / (1u64 << 30) as f64, rng.pick(&[-1.0, 1.0]));
        (self.round)(sign * (magnitude + rng.below(1 << 30) as f64 / (1u64 << 60) as f64))
    }

    /// An a that many columns share.
    fn left(&self, rng: &mut Rng) -> f64 {
        match rng.below(4) {
            // One and a few last places.
            0 => 1.0 + rng.below(4) as f64 * 2f64.powi(-self.fraction_bits),
            1 => rng.pick(&[1.0, -0.5, 0.0]),
            _ => self.number(rng),
        }
    }

    /// A b whose product with a brings d to the middle of two numbers, or to zero, or next to that.
    fn right(&self, a: f64, d: f64, kinds: u64, rng: &mut Rng) -> f64 {
        let half = d.abs() * 2f64.powi(-self.fraction_bits - 1);
        let half = f64::from_bits(half.to_bits() & !0 << 52) * rng.pick(&[-1.0, 1.0]);
        // Halves of d's last place: one, or as many as make the product as large as d.
        let bits = rng.pick(&[8, self.fraction_bits]);
        let odd = (2 * rng.below(1u64 << bits) + 1) as f64;
        (self.round)(match rng.below(kinds) {
            // (1 + i u) (1 - i u) is 1 but for i^2 u^2.
            0 | 1 => half * (2.0 - a),
            2 => half / a,
            3 | 4 => half * odd / a,
            5 => -d / a,
            6 => self.number(rng) * d.abs(),
            7 => rng.pick(&[0.0, -0.0, d]),
            _ => self.number(rng),
        })
    }

    fn problem(&self, rng: &mut Rng) -> Problem {
        let unit = Unit::find(self.unit).unwrap();
        let (n, k) = (rng.pick(&[1, 8, 19]), unit.shape.k * rng.pick(&[1, 5, 40, 200]));
        let scale = 2f64.powi(rng.pick(&self.exponents));
        let mut states: Vec<f64> = (0..n).map(|_| (self.round)(self.number(rng) * scale)).collect();
        let c = states.iter().map(|d| (self.code)(*d)).collect();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        // Rarely an operand that is not finite, or beyond what is proved of ordinary ones.
        let rare = rng.pick(&[1 << 30, 600]);
        // Products far below the states, up to the states', or of any size.
        let kinds = rng.pick(&[3, 8, 9]);
        for _ in 0..k {
            let a = self.left(rng);
            left.push((self.code)(a));
            for d in &mut states {
                let far = rng.pick(&[f64::NAN, f64::INFINITY, 1e-37, 1e37]);
                let b = if rng.below(rare) == 0 { (self.round)(far) } else { self.right(a, *d, kinds, rng) };
                *d = (self.fma)(a, b, *d);
                right.push((self.code)(b));
            }
        }
        let (scale_a, scale_b) = (Vec::new(), Vec::new());
        Problem { unit, size: [1, n, k], a: left, b: right, c, scale_a, scale_b }
    }
}

impl Real {
    /// Operands of few bits: about as many together as a product may have that needs no rounding.
    fn narrow_problem(&self, rng: &mut Rng) -> Problem {
        let unit = Unit::find(self.unit).unwrap();
        let (m, n, k) = (3, 9, unit.shape.k * rng.pick(&[1, 3, 70]));
        let (bits, half) = ((self.fraction_bits + 1) / 2, rng.pick(&self.halves));
        let others = self.fraction_bits + 2 - bits;
        let (spread, few) = (rng.pick(&[1, 4]), rng.pick(&[0, 1, bits - 3]));
        let mut draw = |count: usize, bits: i32, exponent: i32| -> Vec<u64> {
            let number = |rng: &mut Rng| {
                let odd = 2 * rng.below(1u64 << (bits - 1)) + 1;
                let power = exponent - (bits - 1) + rng.below(spread);
                rng.pick(&[-1.0, 1.0]) * odd as f64 * 2f64.powi(power)
            };
            (0..count).map(|_| (self.code)((self.round)(number(rng)))).collect()
        };
        let a = draw(m * k, bits - few, half);
        let b = draw(k * n, others - few, half);
        let c = draw(m * n, self.fraction_bits, (2 * half).min(self.exponents[5]));
        Problem { unit, size: [m, n, k], a, b, c, scale_a: Vec::new(), scale_b: Vec::new() }
    }
}

#[test]
fn chains_of_fma_hold_next_to_the_middle() {
    let rounds = std::env::var("GEMMULATE_FRESH").map_or(400, |n| n.parse().unwrap());
    for real in REALS {
        let mut rng = Rng(real.fraction_bits as u64);
        for _ in 0..rounds {
            real.problem(&mut rng).check(&isas());
            real.narrow_problem(&mut rng).check(&isas());
        }
    }
}
