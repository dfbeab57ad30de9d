//! Pieces that somebody has to look at, among pieces that go by: round-down sums beside states far above the products,
//! f16 that overflow, row groups left out.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::accumulate::Recipe;
use gemmulate::format::{FormatSpec, Specials};
use gemmulate::prelude::*;

/// States of `2^28` to `2^38` units of a step's last place, in some problems to `2^60`, often next to a power of two,
/// beside sums of all sizes and signs: totals that do and do not leave c's binary order, from where sums leave 31 bits
/// to where places are dropped. In some pieces only, or in all.
#[test]
fn states_far_above_the_products_are_the_references() {
    let mut rng = Rng(41);
    for (group, problems) in [(4, 20), (8, 20), (16, 4)] {
        for frac_bits in [23, 24, 25] {
            for (sum, total) in [(32, 31), (33, 31), (33, 32), (31, 31), (36, 34), (32, 0)] {
                let total = if total == 0 { "full".into() } else { total.to_string() };
                let operands = rng.pick(&["f16.f16", "bf16.bf16", "e5m2.e5m2"]);
                let name = format!(
                    "custom/m8n8k{group}.f32.{operands}.f32/round-down:G={group}:F={frac_bits}:sum={sum}:total={total}"
                );
                let unit = Unit::find(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
                for _ in 0..problems {
                    far(&unit, frac_bits, &mut rng).check(&isas());
                }
            }
        }
    }
    for name in ["cdna3/v_mfma_f32_32x32x8_f16", "cdna3/v_mfma_f32_32x32x8_bf16", "cdna3/v_mfma_f32_16x16x8_xf32"] {
        for _ in 0..100 {
            far(&Unit::find(name).unwrap(), 24, &mut rng).check(&isas());
        }
    }
}

/// Each line's first number is 1 to 2, and no other is larger: then `2^-F` is a step's last place. Some lines have
/// numbers near 2 of one sign, but for a step's last one.
fn far(unit: &Unit, frac_bits: i32, rng: &mut Rng) -> Problem {
    let [m, n, steps] = [rng.pick(&[8, 8, 16, 40, 72]), 64, 1 + rng.below(4)];
    let (k, step) = (unit.shape.k * steps, unit.shape.k);
    let number = |p: usize, small: bool, full: bool, rng: &mut Rng| {
        let full = full && p % step + 1 < step;
        let (exponent, sign) = match () {
            () if full || p.is_multiple_of(step) => (0, 1.0),
            () => (-(rng.below(13u64) as i32) - if small { 8 } else { 0 }, rng.pick(&[1.0, -1.0])),
        };
        let fraction = rng.below(1024u64) as f64 / 1024.0;
        let x = sign * (1.0 + if full { 0.75 + fraction / 4.0 } else { fraction }) * f64::from(exponent).exp2();
        unit.a.encode_f64(x, Default::default(), Default::default()).unwrap()
    };
    let mut a: Vec<u64> = (0..m * k).map(|t| number(t % k, t / k % 5 == 0, t / k % 3 == 1, rng)).collect();
    if unit.a.exponent_bits == 8 && rng.one_in(2) {
        // A row at one step far below the others.
        let from = rng.pick(&[0, 3, m - 1]) * k + rng.below(steps) * step;
        a[from..from + step].iter_mut().for_each(|a| *a -= 45 << unit.a.fraction_bits);
    }
    let b = (0..k * n).map(|t| number(t / n, t % n % 3 == 0, t % n % 4 == 1, rng)).collect();
    // Pieces of which no state is far above; or all but 16 columns of one row. Those that are may all be negative.
    let near: Vec<bool> = (0..m.div_ceil(4) * 2).map(|_| rng.one_in(2)).collect();
    let (one, signs) = (rng.one_in(3).then(|| (rng.pick(&[0, 3, m - 1]), rng.below(4u64) as usize)), rng.below(3u64));
    let most = rng.pick(&[11_u64, 11, 11, 33]);
    let c = |t: usize, rng: &mut Rng| {
        let (i, j) = (t / n, t % n);
        let is_near = one.map_or(near[i / 4 * 2 + j / 32], |one| one != (i, j / 16));
        let e = if is_near { rng.below(28u64) } else { 28 + rng.below(most) } as i32 - frac_bits;
        let any = rng.below(1i64 << 23);
        let beside = rng.pick(&[0, 0, 1, 2, 3, 1 << 20, any]) * rng.pick(&[1, -1]);
        let bits = (i64::from(127 + e) << 23) + beside;
        let negative = if is_near || signs == 0 { rng.below(2u64) } else { signs - 1 };
        bits as u64 | negative << 31
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

/// A product of numbers: of A by row, step and place, of B by column, step and place, and of C.
fn of_numbers(
    unit: &Unit,
    [m, n, steps]: [usize; 3],
    [a, b]: [&dyn Fn([usize; 3]) -> f64; 2],
    c: impl Fn([usize; 2]) -> f64,
) -> Problem {
    let (step, k) = (unit.shape.k, unit.shape.k * steps);
    let code = |spec: &FormatSpec, x| spec.encode_f64(x, Default::default(), Default::default()).unwrap();
    let at = |line: usize, p: usize| [line, p / step, p % step];
    Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a: (0..m * k).map(|t| code(&unit.a, a(at(t / k, t % k)))).collect(),
        b: (0..k * n).map(|t| code(&unit.b, b(at(t % n, t / n)))).collect(),
        c: (0..m * n).map(|t| code(&unit.c, c([t / n, t % n]))).collect(),
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    }
}

/// Numbers of a few sizes and both signs.
const SOME: [&dyn Fn([usize; 3]) -> f64; 2] =
    [&|[i, s, p]| ((i * 7 + s * 3 + p) % 13) as f64 - 5.5, &|[j, s, p]| ((j * 5 + s + p * 3) % 11) as f64 - 4.5];

/// Totals next to a power of two, from `2^29` to `2^36` units of a step's last place: within a few of f32's last
/// places, on both sides, where an exponent that was rounded is wrong. Sums of all sizes, with all of their places,
/// that c makes such totals of.
#[test]
fn totals_next_to_powers_of_two_are_the_references() {
    let mut rng = Rng(53);
    for name in [
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "custom/m8n8k4.f32.f16.f16.f32/round-down:G=4:F=24:sum=33:total=32",
        "custom/m8n8k4.f32.f16.f16.f32/round-down:G=4:F=25:sum=32:total=31",
        "custom/m8n8k16.f32.f16.f16.f32/round-down:G=16:F=24",
    ] {
        let unit = Unit::find(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(Recipe::RoundDown(rule)) = &unit.recipe else { panic!("{name} is another unit") };
        let (m, n, k, group) = (16, 64, unit.shape.k, rule.group.min(unit.shape.k));
        let q = (-f64::from(rule.frac_bits)).exp2();
        for _ in 0..150 {
            // The first product is 1 to 4, the other ones of its step are of any size, and of later steps zeros.
            let mut number = |p: usize| match () {
                () if p >= group => 0.0,
                () => {
                    let exponent = if p == 0 { 0 } else { -(rng.below(13u64) as i32) };
                    let sign = if p == 0 { 1.0 } else { rng.pick(&[1.0, -1.0]) };
                    sign * (1.0 + rng.below(1024u64) as f64 / 1024.0) * f64::from(exponent).exp2()
                }
            };
            let a: Vec<f64> = (0..m * k).map(|t| number(t % k)).collect();
            let b: Vec<f64> = (0..k * n).map(|t| number(t / n)).collect();
            let c: Vec<f64> = (0..m * n)
                .map(|t| {
                    let (i, j) = (t / n, t % n);
                    let products: Vec<f64> = (0..group).map(|p| a[i * k + p] * b[p * n + j]).collect();
                    // Exponents of operands are added.
                    let exponent = |p: usize| a[i * k + p].abs().log2().floor() + b[p * n + j].abs().log2().floor();
                    let unit = q * (0..group).map(exponent).fold(f64::NEG_INFINITY, f64::max).exp2();
                    let sum: f64 = products.iter().map(|p| (p / unit).trunc()).sum();
                    let power = f64::from(29 + rng.below(8u64) as i32).exp2();
                    let beside =
                        rng.pick(&[0.0, 33.0, 39.0, 63.0, 64.0, 65.0, 128.0, 129.0, 191.0]) * power * (-30_f64).exp2();
                    let total = power - rng.pick(&[1.0, 1.0, -1.0]) * (beside + rng.below(3u64) as f64);
                    (rng.pick(&[1.0, -1.0]) * total - sum) * unit
                })
                .collect();
            let code = |spec: &FormatSpec, x: f64| spec.encode_f64(x, Default::default(), Default::default()).unwrap();
            let codes = |spec: &FormatSpec, x: &[f64]| x.iter().map(|x| code(spec, *x)).collect();
            let p = Problem {
                unit: unit.clone(),
                size: [m, n, k],
                a: codes(&unit.a, &a),
                b: codes(&unit.b, &b),
                c: codes(&unit.c, &c),
                scale_a: Vec::new(),
                scale_b: Vec::new(),
            };
            p.check(&isas());
        }
    }
}

/// States so far above the products that they are no f32 in units of a step's last place, or none but themselves are
/// left of a sum.
#[test]
fn states_beyond_f32_in_units_are_the_references() {
    for name in [
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "cdna3/v_mfma_f32_32x32x8_bf16",
        "custom/m8n8k16.f32.bf16.bf16.f32/round-down-grouped:G=16",
        "custom/m8n8k4.f32.bf16.bf16.f32/round-down:G=4:F=23:total=full",
    ] {
        let unit = Unit::find(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Some rows far below the others.
        for apart in [15, 19] {
            let a = |[i, s, p]: [usize; 3]| (SOME[0])([i, s, p]) * f64::from(-apart * (i % 4) as i32).exp2();
            let b = SOME[1];
            let c = |[i, j]: [usize; 2]| {
                let x = (((i * 5 + j * 3) % 127) as f64).exp2() * (1.0 + (i * j % 3) as f64 / 4.0);
                if (i + j) % 2 == 0 { x } else { -x }
            };
            of_numbers(&unit, [24, 64, 3], [&a, &b], c).check(&isas());
        }
    }
}

/// A total just above the middle between two f32, its sum of products above `2^28 q`, its c `2^30 q`.
#[test]
fn all_places_of_a_large_sum_count() {
    let unit = Unit::find("cdna3/v_mfma_f32_32x32x8_f16").unwrap();
    let (x, low) = (2047.0 / 1024.0, (-10.0_f64).exp2());
    let a = |[_, _, p]: [usize; 3]| [x, x, x, x, x, x, 14.0 * low, low / 4.0][p];
    let b = |[_, _, p]: [usize; 3]| [x, x, x, x, x, x, low, low / 4.0][p];
    of_numbers(&unit, [8, 64, 1], [&a, &b], |_| 64.0).check(&isas());
}

/// Totals next to the middle between two f32, whose sums of products have places that are dropped, or are not: c just
/// above or below a power of two, and a sum that takes the total across it or does not.
#[test]
fn places_dropped_next_to_a_tie_are_the_references() {
    let q = (-24.0_f64).exp2();
    for (sum, total) in
        [(31, "31"), (32, "31"), (33, "31"), (33, "32"), (34, "33"), (32, "32"), (36, "34"), (32, "full")]
    {
        let unit = format!("custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:F=24:sum={sum}:total={total}");
        let unit = Unit::find(&unit).unwrap();
        // Half of a last place, and a little: -2^24 q or 2^24 q besides.
        let a = |[i, _, p]: [usize; 3]| match p {
            0 => 1.0,
            1 => f64::from(64 << (i / 16)) * q * 32.0,
            2 => (i % 16) as f64 * q * 32.0,
            3 => -4.0 * q * 32.0,
            _ => 0.0,
        };
        let b = |[j, _, p]: [usize; 3]| match p {
            0 if j % 2 == 0 => -1.0,
            0 => 1.0,
            _ => 1.0 / 32.0,
        };
        let c = |[_, j]: [usize; 2]| {
            let (power, sign) = (f64::from(29 + (j / 4 % 8) as i32).exp2() * q, if j % 4 < 2 { 1.0 } else { -1.0 });
            sign * power * (1.0 + [-0.5, 0.0, 1.0, 2.0, 3.0][j / 7 % 5] * (-23.0_f64).exp2())
        };
        of_numbers(&unit, [96, 64, 1], [&a, &b], c).check(&isas());
    }
}

/// States of `2^40 q` or minus that in a single vector, whose totals are ties once places are dropped; before it may be
/// a row group with a row below the window.
#[test]
fn a_single_vector_far_above_the_products_is_the_references() {
    for (unit, below, negative) in
        [("f16", false, false), ("f16", false, true), ("bf16", false, true), ("bf16", true, false)]
    {
        let unit = Unit::find(&format!("cdna3/v_mfma_f32_32x32x8_{unit}")).unwrap();
        for (row, vector, steps) in (0..8).flat_map(|r| (0..4).flat_map(move |v| [(r, v, 1), (r, v, 2)])) {
            // 2^24 q, a last place for a negative c, half of one, and what is dropped: 2^6 q above, or above minus
            // that.
            let a = |[i, _, p]: [usize; 3]| match p {
                0 if below && i == 5 => (-45.0_f64).exp2(),
                _ if below && i == 5 => 0.0,
                0 => 1.0,
                1 => (-8.0_f64).exp2(),
                2 => (-9.0_f64).exp2(),
                3 if negative => (-7.0_f64).exp2(),
                _ => 0.0,
            };
            let b = |[_, _, p]: [usize; 3]| match p {
                2 => (-9.0_f64).exp2(),
                _ if negative => -1.0,
                _ => 1.0,
            };
            let here = row + if below { 8 } else { 0 };
            let c = |[i, j]: [usize; 2]| match () {
                () if i != here || j / 16 != vector => 1.0,
                () if negative => -65536.0,
                () => 65536.0,
            };
            of_numbers(&unit, [16, 64, steps], [&a, &b], c).check(&isas());
        }
    }
}

/// A whole row group of infinite states between others.
#[test]
fn row_groups_around_one_without_a_finite_state_are_the_references() {
    let units = [
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
        "volta/mma.m8n8k4.f32.f16.f16.f32",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25",
    ];
    for unit in units.map(|name| Unit::find(name).unwrap()) {
        for (m, gap) in [(24, 1), (40, 2), (32, 1)] {
            for steps in [1, 2, 5] {
                let c = |[i, j]: [usize; 2]| if i / 8 == gap { f64::INFINITY } else { (i + j) as f64 / 4.0 };
                of_numbers(&unit, [m, 64, steps], SOME, c).check(&isas());
            }
        }
    }
}

/// What is before the first piece is no number where F = 0: nobody may mark it.
#[test]
fn what_is_before_the_first_piece_is_no_infinity() {
    let unit = Unit::find("custom/m8n8k8.f16.bf16.bf16.f16/dot:block=8:F=0:out=rne").unwrap();
    for (m, steps) in [(8, 1), (8, 2), (24, 3)] {
        of_numbers(&unit, [m, 64, steps], SOME, |[i, j]| (i + j) as f64 / 4.0).check(&isas());
    }
}

/// An f16 overflows in a row group's last piece; the next group has operands below the window, and another one follows.
#[test]
fn an_f16_that_overflows_before_a_row_below_the_window_is_marked_once() {
    for l in [4, 8, 16, 32] {
        let unit = Unit::find(&format!("custom/m8n8k{l}.f16.bf16.bf16.f16/dot:block={l}:F=20:out=rne")).unwrap();
        for (row, steps) in [8, 9, 15].into_iter().flat_map(|row| [1, 2, 3].map(|steps| (row, steps))) {
            let below = |i: usize, s: usize| i == row && s + 1 == steps;
            let a = |[i, s, _]: [usize; 3]| {
                if below(i, s) { 1.25 * (-45.0_f64).exp2() } else { 1.0 + (i % 5) as f64 / 8.0 }
            };
            let b = |[j, _, p]: [usize; 3]| 1.0 + ((j + p) % 7) as f64 / 8.0;
            let c = |[i, j]: [usize; 2]| if [i, j] == [7, 60] { 65504.0 } else { (i + j) as f64 };
            of_numbers(&unit, [32, 64, steps], [&a, &b], c).check(&isas());
        }
    }
}

/// The same, and at the next step an infinite operand of the other sign: the f16 is NaN then.
#[test]
fn an_f16_that_overflows_before_a_row_below_the_window_meets_an_infinity() {
    for l in [4, 8, 16, 32] {
        let unit = Unit::find(&format!("custom/m8n8k{l}.f16.bf16.bf16.f16/dot:block={l}:F=20:out=rne")).unwrap();
        for (row, column) in (0..8).flat_map(|row| [0, 16, 32, 48].map(|vector| (row, vector + row))) {
            let a = |[i, s, p]: [usize; 3]| match (i, s) {
                (8, 1) => 1.25 * (-45.0_f64).exp2(),
                (_, 2) if i == row && p == 0 => f64::NEG_INFINITY,
                _ => 1.0 + (i % 5) as f64 / 8.0,
            };
            let b = |[j, _, p]: [usize; 3]| 1.0 + ((j + p) % 7) as f64 / 8.0;
            // It overflows at the second step, not yet at the first.
            let first: f64 = (0..l).map(|p| a([row, 0, p]) * b([column, 0, p])).sum();
            let c = |[i, j]: [usize; 2]| if [i, j] == [row, column] { 65504.0 - first } else { (i + j) as f64 };
            // Row 8's group is the last one, or others follow.
            of_numbers(&unit, [16, 64, 4], [&a, &b], c).check(&isas());
            of_numbers(&unit, [32, 64, 4], [&a, &b], c).check(&isas());
        }
    }
}

/// The same at a step's end: the next step begins with a row group below the window.
#[test]
fn an_f16_that_overflows_at_the_end_of_a_step_before_a_row_below_the_window_is_marked_once() {
    for l in [4, 8, 16, 32] {
        let unit = Unit::find(&format!("custom/m8n8k{l}.f16.bf16.bf16.f16/dot:block={l}:F=20:out=rne")).unwrap();
        for (m, sign) in [8, 16, 64].into_iter().flat_map(|m| [1.0, -1.0].map(|sign| (m, sign))) {
            let a = |[i, s, _]: [usize; 3]| match (i, s) {
                (0, 1) => 1.25 * (-45.0_f64).exp2(),
                (i, 0) if i + 1 == m => 1.0,
                (i, _) if i + 1 == m => 0.0,
                _ => 1.0 + (i % 5) as f64 / 8.0,
            };
            let b = |[j, _, p]: [usize; 3]| sign * (8.0 + ((j + p) % 7) as f64 / 8.0);
            let c = |[i, j]: [usize; 2]| if [i, j] == [m - 1, 60] { sign * 65504.0 } else { (i + j) as f64 };
            of_numbers(&unit, [m, 64, 3], [&a, &b], c).check(&isas());
        }
    }
}

/// One row at one step has what somebody has to look at: an f16 that overflows there, products that leave 31 bits,
/// operands below the window, states far above the products. Before and after that steps go by; at a step's ends the
/// row is in its first piece or its last.
#[test]
fn any_row_of_any_step_may_need_a_look() {
    let mut rng = Rng(42);
    let units = [
        "custom/m8n8k4.f16.f16.f16.f16/dot:block=4:F=23:out=rne",
        "hopper/mma.m16n8k16.f16.f16.f16.f16",
        "custom/m8n8k32.f16.bf16.bf16.f16/dot:block=32:F=25:out=rne",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25",
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
        "cdna3/v_mfma_f32_32x32x8_f16",
    ];
    for unit in units.map(|name| Unit::find(name).unwrap_or_else(|e| panic!("{name}: {e}"))) {
        for m in [8, 16, 32, 64] {
            for steps in [1, 2, 3, 7] {
                let (row, at) = (rng.pick(&[0, 3, m - 8, m - 5, m - 4, m - 1]), rng.below(steps as u64) as usize);
                let column = rng.pick(&[0, 31, 32, 63]);
                let (narrow, below) = (unit.d.name == "f16", rng.one_in(2));
                // Nothing but what is looked at: what goes beyond the largest f16, or numbers that no others hide.
                let lonely = narrow || below && unit.a.exponent_bits == 8;
                let a = |[i, s, p]: [usize; 3]| match ((i * 7 + s * 3 + p) % 13) as f64 - 5.5 {
                    plain if i != row => plain,
                    _ if s != at && lonely => 0.0,
                    plain if s != at => plain,
                    _ if narrow => 64.0,
                    plain if below => plain * f64::from(if lonely { -75 } else { -14 }).exp2(),
                    _ => 63.5,
                };
                let b = |[j, s, p]: [usize; 3]| match ((j * 5 + s + p * 3) % 11) as f64 - 4.5 {
                    _ if j == column => 63.5,
                    x => x,
                };
                let c = |[i, j]: [usize; 2]| match () {
                    () if i == row && lonely && !narrow => 0.0,
                    () if i == row && j == column => {
                        if narrow {
                            65504.0
                        } else {
                            4096.0
                        }
                    }
                    () => (i + j) as f64 / 4.0,
                };
                of_numbers(&unit, [m, 64, steps], [&a, &b], c).check(&isas());
            }
        }
    }
}

/// Beside ordinary rows one with nothing but products below the window, at one step.
#[test]
fn a_row_below_the_window_alone_is_the_references() {
    let units = [
        "custom/m8n8k4.f32.bf16.bf16.f32/dot:block=4:F=24",
        "custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=24",
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25",
        "cdna3/v_mfma_f32_32x32x8_bf16",
    ];
    for unit in units.map(|name| Unit::find(name).unwrap()) {
        for (m, steps, at) in [(8, 1, 0), (8, 3, 2), (24, 1, 0), (24, 2, 0), (24, 3, 1), (64, 1, 0), (64, 2, 1)] {
            for row in [0, 1, m / 2, m / 2 + 1, m - 8, m - 2, m - 1] {
                let number = |t: usize| (1.0 + (t % 7) as f64 / 8.0) * if t.is_multiple_of(3) { -1.0 } else { 1.0 };
                let a = |[i, s, p]: [usize; 3]| match number(7 * i + 5 * s + p) {
                    x if i != row => x,
                    x if s == at => x * (-45.0_f64).exp2(),
                    _ => 0.0,
                };
                let b = |[j, s, p]: [usize; 3]| number(j + s + 5 * p);
                of_numbers(&unit, [m, 64, steps], [&a, &b], |_| 0.0).check(&isas());
            }
        }
    }
}

/// A single f16 that overflows, in any vector of a row group's pieces, at a step after which others or none may follow
/// in the same run.
#[test]
fn a_single_f16_that_overflows_stays_infinite() {
    for unit in ["custom/m8n8k4.f16.f16.f16.f16/dot:block=4:F=23:out=rne", "hopper/mma.m16n8k16.f16.f16.f16.f16"] {
        let unit = Unit::find(unit).unwrap();
        for (row, column, steps) in (0..8).flat_map(|r| (0..4).flat_map(move |v| [1, 2, 3].map(|s| (r, 16 * v + r, s))))
        {
            // An infinity of another row at the second step ends a run after the first.
            let special = if (row + column / 16 + steps) % 2 == 0 { (row + 4) % 8 } else { 8 };
            let a = |[i, s, p]: [usize; 3]| match (i, s) {
                (i, 1) if i == special => f64::INFINITY,
                (i, 0) if i == row => 64.0,
                (i, _) if i == row => 0.0,
                _ => ((i * 7 + s * 3 + p) % 13) as f64 - 5.5,
            };
            let b = |[j, s, p]: [usize; 3]| match j {
                j if j == column => 63.0,
                _ => ((j * 5 + s + p * 3) % 11) as f64 - 4.5,
            };
            let c = |[i, j]: [usize; 2]| if [i, j] == [row, column] { 65504.0 } else { (i + j) as f64 / 4.0 };
            of_numbers(&unit, [8, 64, steps], [&a, &b], c).check(&isas());
        }
    }
}

/// Rows of zeros and of small numbers beside zeros as states: where a step's exponent is bounded below, and where zeros
/// count.
#[test]
fn rows_of_zeros_beside_zeros_are_the_references() {
    for l in [4, 8, 16, 32] {
        for (formats, rest) in [
            ("f16.f16.f16.f16", "F=7:out=rne:e_zero=zero-c"),
            ("f16.f16.f16.f16", "F=23:out=rne"),
            ("f32.bf16.bf16.f32", "F=24"),
            ("f32.f16.f16.f32", "F=25:e_zero=emin-6"),
        ] {
            let unit = Unit::find(&format!("custom/m8n8k{l}.{formats}/dot:block={l}:{rest}")).unwrap();
            let a = |[i, s, p]: [usize; 3]| match i % 4 {
                0 => 1.5,
                1 => 0.0,
                _ => ((i * 7 + s * 3 + p) % 13 + 1) as f64 * (-13.0_f64).exp2(),
            };
            let b = |[j, s, p]: [usize; 3]| -(((j * 5 + s + p * 3) % 11 + 1) as f64) * (-9.0_f64).exp2();
            of_numbers(&unit, [16, 64, 2], [&a, &b], |_| 0.0).check(&isas());
        }
    }
}

/// F16 that overflow at any step, to both sides, and what they meet later: products of the other sign, infinite
/// operands (NaN then or not), rows below the window or of zeros, sums that leave 31 bits.
#[test]
fn infinite_f16_meet_everything() {
    let mut rng = Rng(43);
    let mut units = vec![
        "rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16".into(),
        "hopper/mma.m16n8k16.f16.f16.f16.f16".into(),
        "hopper/mma.m16n8k32.f16.e5m2.e5m2.f16".into(),
        "custom/m8n8k8.f16.f16.f16.f16/dot:block=8:F=24:out=rne:c=last".into(),
        "custom/m8n8k16.f16.bf16.f16.f16/dot:block=16:F=25:out=rne:e_zero=zero-c".into(),
        "custom/m8n8k16.f16.f16.e4m3.f16/dot:block=16:F=25:out=rne:e_zero=none".into(),
        "custom/m8n8k8.f16.bf16.bf16.f16/dot:block=8:F=0:out=rne".into(),
        "custom/m8n8k16.f16.f16.f16.f16/dot:block=8:F=25:out=rne".into(),
        "custom/m8n8k64.f16.e4m3.e5m2.f16/dot:block=32:F=25:out=rne:pattern=pairs".into(),
    ];
    for l in [4, 8, 16, 32] {
        for (operands, f) in
            [("bf16.bf16", 25), ("f16.f16", 24), ("e5m2.e4m3", 13), ("tf32.f16", 25), ("bf16.e5m2", 2), ("f16.f16", 1)]
        {
            units.push(format!("custom/m8n8k{l}.f16.{operands}.f16/dot:block={l}:F={f}:out=rne"));
        }
    }
    for name in units {
        let unit = Unit::find(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        (0..6).for_each(|turn| everything(&unit, turn, &mut rng).check(&isas()));
    }
}

/// A c that comes last: unit steps of one sum or several, one after another without anything to look at, and among them
/// rows with such. And an f16 whose last place an addition to c decides.
#[test]
fn a_c_that_comes_last_meets_everything() {
    let mut rng = Rng(47);
    for name in [
        "hopper/mma.m16n8k16.f32.e5m2.e4m3.f32",
        "hopper/mma.m16n8k16.f16.e4m3.e5m2.f16",
        "hopper/mma.m16n8k32.f32.e5m2.e5m2.f32",
        "hopper/mma.m16n8k32.f16.e5m2.e5m2.f16",
        "custom/m8n8k8.f32.f16.f16.f32/dot:block=8:F=24:c=last",
        "custom/m8n8k24.f32.f16.bf16.f32/dot:block=8:F=25:c=last:e_zero=emin-6",
        "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=8:F=13:c=last",
        "custom/m8n8k16.f32.tf32.f16.f32/dot:block=16:F=25:c=last:e_zero=none",
        "custom/m8n8k64.f32.e5m2.e5m2.f32/dot:block=16:F=25:c=last:pattern=pairs",
        "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=0:c=last",
        "custom/m8n8k8.f16.f16.f16.f16/dot:block=8:F=25:out=rne:c=last:e_zero=zero-c",
        "custom/m8n8k24.f16.bf16.f16.f16/dot:block=8:F=24:out=rne:c=last",
        "custom/m8n8k16.f16.f16.f16.f16/dot:block=16:F=2:out=rne:c=last",
        "custom/m8n8k64.f16.f16.bf16.f16/dot:block=16:F=20:out=rne:c=last:e_zero=emin-6",
        "custom/m8n8k16.f16.f16.f16.f16/dot:block=8:F=1:out=rne:c=last",
        "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=25:out=rne:c=last",
        "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=25:out-bits=13:c=last",
        "custom/m8n8k8.f32.f16.f16.f32/dot:block=4:F=24:c=last",
    ] {
        let unit = Unit::find(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        for turn in 0..8 {
            everything(&unit, turn, &mut rng).check(&isas());
            // Sums of all sizes beside c.
            let (m, n, steps) = (rng.pick(&[8, 21, 64]), rng.pick(&[64, 90]), 1 + rng.below(9));
            let scale = [0.0_f64, -9.0, -13.0, 3.0][turn % 4].exp2();
            let a = |[i, s, p]: [usize; 3]| scale * (((i * 7 + s * 3 + p) % 13) as f64 - 5.5);
            let b = |[j, s, p]: [usize; 3]| (((j * 5 + s + p * 3) % 11) as f64 - 4.5) / [1.0, 512.0][turn / 4];
            let c = |[i, j]: [usize; 2]| ((i * 5 + j * 3) % 97) as f64 - 48.25;
            let mut p = of_numbers(&unit, [m, n, steps], [&a, &b], c);
            if turn % 2 == 1 {
                // A NaN of some other kind, and infinities.
                let code = |x| unit.c.encode_f64(x, Default::default(), Default::default()).unwrap();
                p.c[turn] = code(f64::NAN) ^ 0x55;
                (p.c[17], p.c[n + 3]) = (code(f64::INFINITY), code(f64::NEG_INFINITY));
            }
            p.check(&isas());
        }
    }
}

/// Rows that have anything at some steps, or nothing but ordinary numbers.
fn everything(unit: &Unit, turn: usize, rng: &mut Rng) -> Problem {
    let (m, n, steps) = (rng.pick(&[8, 13, 24, 40, 64]), rng.pick(&[64, 64, 100, 128]), 2 + rng.below(18));
    // What a row has at a step.
    let (rare, special) = (rng.pick(&[1, 4, 30, 200]), turn % 3 == 2);
    let kinds: Vec<u64> =
        (0..m * steps).map(|_| if rng.one_in(rare) { rng.below(if special { 7 } else { 6 }) } else { 0 }).collect();
    let signs: Vec<f64> = (0..n).map(|_| rng.pick(&[1.0, 1.0, -1.0, 0.5])).collect();
    let a = |[i, s, p]: [usize; 3]| match kinds[i * steps + s] {
        1 => 250.0,
        2 => -250.0,
        3 => (-45.0_f64).exp2(),
        4 => 0.0,
        // Few at once, that overflow sooner or later.
        5 if p == 0 => 96.0,
        6 if p == s % 4 => {
            if i % 2 == 0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
        _ => ((i * 7 + s * 3 + p) % 13) as f64 - 5.5,
    };
    let b = |[j, s, p]: [usize; 3]| signs[j] * (200.0 + ((j * 5 + s + p * 3) % 11) as f64);
    let c = |[i, j]: [usize; 2]| match (i * 5 + j * 3) % 97 {
        3 if turn == 4 => f64::NAN,
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => 65504.0,
        x => x as f64 - 48.0,
    };
    let mut p = of_numbers(unit, [m, n, steps], [&a, &b], c);
    if unit.a.specials != Specials::Ieee && turn.is_multiple_of(2) {
        // Without infinities these were NaN: now the largest numbers.
        p.a.iter_mut().filter(|a| **a & 0x7F == 0x7F).for_each(|a| *a -= 1);
    }
    if turn == 4 {
        // NaNs of all kinds.
        let (nan, payload) =
            (unit.c.encode_f64(f64::NAN, Default::default(), Default::default()).unwrap(), rng.below(99));
        p.c.iter_mut().enumerate().filter(|(_, c)| **c == nan).for_each(|(t, c)| *c ^= ((t + payload) % 256) as u64);
    }
    p
}
