//! GDFS kernels at the edges of their conditions: what is cut off and what is not, within one tile.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::accumulate::Floor;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::instr::ScaleRule;
use gemmulate::prelude::*;

/// What a case is made of; 0 stands for never.
struct Mix {
    /// Codes that scales spread over, around the one whose value is 2^centre.
    spread: u64,
    centre: i64,
    /// One scale in so many is any code at all, or an extreme one.
    wild: u64,
    /// One element in so many is zero, one group of zeros in so many.
    zero: u64,
    /// Elements as large as can be, mostly of one sign.
    large: bool,
    /// One state in so many is special, subnormal or huge; the others reach so many powers of two around 1.
    hard: u64,
    reach: u64,
    cleared: bool,
}

impl Mix {
    fn new(rng: &mut Rng) -> Self {
        Self {
            spread: rng.pick(&[1, 2, 3, 5, 6, 7, 9, 12, 16, 24, 40, 120]),
            centre: rng.pick(&[0, 0, 0, 0, 5, -5, 20, -20, 60, -60, 63, -64, 100, -100]),
            wild: rng.pick(&[0, 0, 0, 500, 20]),
            zero: rng.pick(&[0, 50, 4, 2]),
            large: rng.one_in(4),
            hard: rng.pick(&[0, 0, 0, 300, 5]),
            reach: rng.pick(&[4, 12, 20, 30, 40, 60]),
            cleared: rng.one_in(3),
        }
    }

    fn scale(&self, format: &FormatSpec, rng: &mut Rng) -> u64 {
        if rng.one_in(self.wild) {
            return if rng.one_in(2) { rng.below(256) } else { rng.pick(&[0, 1, 7, 8, 0x7E, 0x7F, 0x80, 0xFE, 0xFF]) };
        }
        let one = i64::from(format.bias) << format.fraction_bits;
        let centre = one + (self.centre.clamp(-7, 7) << format.fraction_bits);
        let centre = if format.fraction_bits == 0 { one + self.centre } else { centre };
        (centre + rng.below(self.spread) as i64 - self.spread as i64 / 2).clamp(0, 254) as u64
    }

    fn element(&self, format: &FormatSpec, rng: &mut Rng) -> u64 {
        let sign = 1 << (format.storage_bits - 1);
        if rng.one_in(self.zero) {
            return rng.pick(&[0, sign]);
        }
        if self.large { sign - 1 + if rng.one_in(100) { sign } else { 0 } } else { rng.below(2 * sign) }
    }

    fn state(&self, format: &FormatSpec, rng: &mut Rng) -> u64 {
        if rng.one_in(self.hard) {
            return rng.next()
                & format.code_mask()
                & rng.pick(&[u64::MAX, u64::MAX << format.fraction_bits, 0x807F_FFFF]);
        }
        if self.cleared {
            return rng.pick(&[0, 0, 1]) << (format.storage_bits - 1);
        }
        let field = i64::from(format.bias) + rng.below(self.reach) as i64 - self.reach as i64 / 2;
        let top = (1 << format.exponent_bits) - 2;
        let fraction = rng.next() & rng.pick(&[u64::MAX, 0, u64::MAX << (format.fraction_bits / 2)]);
        (rng.below(2) << (format.storage_bits - 1))
            | ((field.clamp(0, top) as u64) << format.fraction_bits)
            | (fraction & ((1 << format.fraction_bits) - 1))
    }

    fn problem(&self, unit: &Unit, [m, n, steps]: [usize; 3], rng: &mut Rng) -> Problem {
        let (k, slots, rule) = (unit.shape.k * steps, unit.scales() * steps, unit.scale.unwrap());
        let steps = if unit.c == unit.d { steps } else { 1 };
        let (k, slots) = (k.min(unit.shape.k * steps), slots.min(unit.scales() * steps));
        let mut fill = |size: usize, f: &mut dyn FnMut(&mut Rng) -> u64| (0..size).map(|_| f(rng)).collect::<Vec<_>>();
        let mut problem = Problem {
            unit: unit.clone(),
            size: [m, n, k],
            a: fill(m * k, &mut |rng| self.element(&unit.a, rng)),
            b: fill(k * n, &mut |rng| self.element(&unit.b, rng)),
            c: fill(m * n, &mut |rng| self.state(&unit.c, rng)),
            scale_a: fill(m * slots, &mut |rng| self.scale(&rule.format, rng)),
            scale_b: fill(n * slots, &mut |rng| self.scale(&rule.format, rng)),
        };
        if self.zero > 0 {
            // Blocks of zeros, beside scales that must then not matter, unless they are NaN.
            for line in 0..m {
                for slot in 0..slots {
                    if !rng.one_in(5) {
                        continue;
                    }
                    problem.a[line * k + slot * rule.block..][..rule.block].fill(0);
                    problem.scale_a[line * slots + slot] = rng.below(255);
                }
            }
            for line in 0..n {
                for slot in 0..slots {
                    if !rng.one_in(5) {
                        continue;
                    }
                    (0..rule.block).for_each(|p| problem.b[(slot * rule.block + p) * n + line] = 0);
                    problem.scale_b[line * slots + slot] = rng.below(255);
                }
            }
        }
        problem
    }
}

/// Rounds of random mixes; `GEMMULATE_FRESH` asks for more.
fn check(unit: &Unit, rounds: usize, rng: &mut Rng) {
    let more = std::env::var("GEMMULATE_FRESH").map_or(1, |n| (n.parse::<usize>().unwrap() / 600).max(1));
    for _ in 0..rounds * more {
        let size = [1 + rng.below(21) as usize, 1 + rng.below(70) as usize, 1 + rng.below(4) as usize];
        Mix::new(rng).problem(unit, size, rng).check(&isas());
    }
}

#[test]
fn fp4_units_are_the_references_at_the_edges() {
    let mut rng = Rng(1);
    for name in
        ["block32.f32.e2m1.e2m1.f32.ue8m0", "block16.f32.e2m1.e2m1.f32.ue8m0", "block16.f32.e2m1.e2m1.f32.ue4m3"]
    {
        let unit = Unit::find(&format!("rtx-blackwell/mma.m16n8k64.{name}")).unwrap();
        check(&unit, 400, &mut rng);
    }
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    gemmulate::simd::Isa::Avx512.is_available() && std::arch::is_x86_feature_detected!("avx512vnni")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vnni() -> bool {
    false
}

#[test]
fn custom_group_scaled_units_are_the_references() {
    let named = |name: &str| -> FormatSpec { *format_named(name).unwrap() };
    let e1m2 = FormatSpec { name: "e1m2", exponent_bits: 1, fraction_bits: 2, bias: 1, ..named("e2m1") };
    let small = [named("e2m1"), named("e2m3"), named("e3m2"), e1m2];
    let mut rng = Rng(2);
    let mut names = Vec::new();
    for _ in 0..150 {
        let (group, block, k) = rng.pick(&[
            (16, 16, 64),
            (16, 32, 64),
            (8, 32, 32),
            (4, 16, 16),
            (12, 24, 48),
            (2, 16, 32),
            (16, 16, 16),
            (8, 8, 24),
        ]);
        let d = named(rng.pick(&["f32", "f32", "f32", "f16"]));
        let dot = GroupScaledDot {
            group,
            frac_bits: rng.pick(&[35, 35, 10, 20, 25, 30, 38]),
            floor: rng.pick(&[Floor::BelowEmin(13), Floor::None, Floor::BelowEmin(-100), Floor::BelowEmin(-130)]),
            output_rounding: rng.pick(&[Rounding::TowardZero, Rounding::NearestEven, Rounding::Down]),
            ..GroupScaledDot::BLACKWELL
        };
        let rule = ScaleRule { format: named(rng.pick(&["ue8m0", "ue4m3"])), block };
        let unit =
            Unit::custom(dot, Shape::new(1, 1, k), [rng.pick(&small), rng.pick(&small), d, d], Some(rule)).unwrap();
        names.extend(isas().iter().map(|&isa| Gemm::on(&unit).isa(isa).kernel().name));
        check(&unit, 6, &mut rng);
    }
    names.sort_unstable();
    names.dedup();
    println!("kernels run: {names:?}");
    // Elements beyond a byte, and results in f16, have the kernel of all sets.
    assert!(names.contains(&"groups"));
    assert!(!has_vnni() || names.contains(&"groups-vnni"));
    assert!(!isas().contains(&gemmulate::simd::Isa::Avx2) || names.contains(&"groups-i16"));
}

/// Sums of the largest products, which 16 bits hold or not.
#[test]
fn largest_products_are_the_references() {
    let named = |name: &str| -> FormatSpec { *format_named(name).unwrap() };
    let (mut rng, mut names) = (Rng(3), Vec::new());
    for (a, b, group) in [("e2m3", "e2m3", 16), ("e2m3", "e2m3", 8), ("e2m3", "e2m1", 16), ("e2m1", "e2m1", 16)] {
        let (a, b, f32) = (named(a), named(b), named("f32"));
        let rule = ScaleRule { format: named("ue8m0"), block: 16 };
        let dot = GroupScaledDot { group, ..GroupScaledDot::BLACKWELL };
        let unit = Unit::custom(dot, Shape::new(1, 1, 64), [a, b, f32, f32], Some(rule)).unwrap();
        names.extend(isas().iter().map(|&isa| Gemm::on(&unit).isa(isa).kernel().name));
        let [m, n, k] = [5, 37, 128];
        // A sign for each row and column; the largest number's code is that before the sign bit.
        let mut line = |format: &FormatSpec| {
            let sign = 1u64 << (format.storage_bits - 1);
            sign - 1 + rng.pick(&[0, sign])
        };
        let (rows, columns): (Vec<_>, Vec<_>) =
            ((0..m).map(|_| line(&a)).collect(), (0..n).map(|_| line(&b)).collect());
        let problem = Problem {
            unit: unit.clone(),
            size: [m, n, k],
            a: (0..m * k).map(|at| rows[at / k]).collect(),
            b: (0..k * n).map(|at| columns[at % n]).collect(),
            c: vec![0; m * n],
            scale_a: vec![127; m * k / 16],
            scale_b: vec![127; n * k / 16],
        };
        problem.check(&isas());
    }
    assert!(!isas().contains(&gemmulate::simd::Isa::Avx2) || names.contains(&"groups-i16"));
}
