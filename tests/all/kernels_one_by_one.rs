//! Products aligned one by one, where what scales them is added to their codes: at the edges of what allows that, and
//! with row groups that are left to others among those that are not.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::accumulate::Recipe;
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;

/// Blocks of 4, 8 and 16 with several F; on AVX-512 those of 4, on AVX2 all.
const UNITS: [&str; 12] = [
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "custom/m8n8k4.f32.bf16.bf16.f32/dot:block=4:F=25",
    "custom/m8n8k4.f32.bf16.bf16.f32/dot:block=4:F=7",
    "custom/m8n8k8.f32.bf16.f16.f32/dot:block=4:F=24:e_zero=none",
    "custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=21",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=23:e_zero=none",
    // e_zero at F and above.
    "custom/m8n8k4.f32.bf16.bf16.f32/dot:block=4:F=7:e_zero=emin+133",
    "custom/m8n8k4.f32.bf16.bf16.f32/dot:block=4:F=7:e_zero=emin+134",
    "custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=21:e_zero=emin+150",
];

/// More unit steps than a look at all states asks for.
const STEPS: usize = 24;

fn unit(name: &str) -> Unit {
    Unit::find(name).unwrap()
}

fn frac_bits(unit: &Unit) -> i32 {
    let Some(Recipe::Generic(g)) = &unit.recipe else { panic!("{unit}") };
    g.frac_bits as i32
}

/// `±1.x * 2^e`, or what of that the format has.
fn code(spec: &FormatSpec, rng: &mut Rng, e: i32) -> u64 {
    let fraction = rng.next() & ((1 << spec.fraction_bits) - 1);
    let (least, most) = (1, (1 << spec.exponent_bits) - 2);
    let field = (e + spec.bias).clamp(least, most) as u64;
    let sign = rng.next() & 1;
    (sign << spec.exponent_bits | field) << spec.fraction_bits | fraction
}

struct Case {
    /// Exponents of the largest products and of states.
    top: i32,
    state: i32,
    /// How far below them others are.
    spread: u64,
    /// One operand of so many is a zero; 0 for none.
    zeros: u64,
    same_sign: bool,
}

fn problem(unit: &Unit, [m, n]: [usize; 2], rng: &mut Rng, case: &Case) -> Problem {
    let k = STEPS * unit.shape.k;
    let (top_a, low) = (case.top / 2, case.spread + 1);
    let top_b = case.top - top_a;
    let mut operand = |spec: &FormatSpec, top: i32, at: usize| {
        if rng.one_in(case.zeros) {
            return 0;
        }
        // The first has the largest exponent, or a panel's would be lower.
        let e = if at == 0 { top } else { top - (rng.next() % low) as i32 };
        let code = code(spec, rng, e);
        // A format's bits below those that count.
        let code = if case.same_sign { code & !(1 << (spec.exponent_bits + spec.fraction_bits)) } else { code };
        code << spec.ignored_low_bits
    };
    let a = (0..m * k).map(|at| operand(&unit.a, top_a, at)).collect();
    let b = (0..k * n).map(|at| operand(&unit.b, top_b, at)).collect();
    let c = (0..m * n)
        .map(|at| if at % 5 == 4 { 0 } else { code(&unit.c, rng, case.state - (at % 7) as i32) })
        .map(|c| if case.same_sign { c & 0x7FFF_FFFF } else { c })
        .collect();
    Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a: vec![], scale_b: vec![] }
}

/// The largest products' exponent, and that of states, below, at and above F, beside zeros.
#[test]
fn exponents_near_f() {
    let mut rng = Rng(1);
    for name in UNITS {
        let unit = unit(name);
        let f = frac_bits(&unit);
        for top in [f - 12, f - 9, f - 6, f - 3, f - 1, f, f + 1, f + 4] {
            for state in [top - 3, f - 2, f - 1, f, f + 1, f + 6] {
                for zeros in [0, 3] {
                    let case = Case { top, state, spread: 6, zeros, same_sign: false };
                    // All vectors of columns matter, or one in part.
                    let n = if zeros == 0 { 64 } else { 53 };
                    problem(&unit, [16, n], &mut rng, &case).check(&isas());
                }
            }
        }
    }
}

/// States that grow past `2^F` while steps are under way, and then meet zeros.
#[test]
fn states_grow_past_f() {
    let mut rng = Rng(2);
    for name in UNITS {
        let unit = unit(name);
        let f = frac_bits(&unit);
        for top in f - 10..f - 1 {
            let case = Case { top, state: 0, spread: 2, zeros: 9, same_sign: true };
            let mut p = problem(&unit, [8, 64], &mut rng, &case);
            let [m, _, k] = p.size;
            for row in 0..m {
                // Whole rows of zeros from somewhere on.
                let from = k / 2 + row * k / 16;
                p.a[row * k + from.min(k)..(row + 1) * k].fill(0);
            }
            p.check(&isas());
            // The rounding mode is the program's again.
            let more_than_half = std::hint::black_box(f32::EPSILON * 0.75);
            assert_eq!(std::hint::black_box(1.0) + more_than_half, 1.0 + f32::EPSILON);
        }
    }
}

/// The largest significands of one sign, from states as large as allows adding to codes or none: what is reached at the
/// end, beside zeros.
#[test]
fn the_largest_states_in_so_many_steps() {
    for name in UNITS {
        let unit = unit(name);
        let (f, block) = (frac_bits(&unit), unit.shape.k);
        let largest = |spec: &FormatSpec, e: i32| {
            let field = (e + spec.bias).clamp(1, (1 << spec.exponent_bits) - 2) as u64;
            (((field + 1) << spec.fraction_bits) - 1) << spec.ignored_low_bits
        };
        for top in f - 10..f - 2 {
            for (steps, zeros, start) in [(16, 2, 0), (24, 6, 1), (64, 4, 0), (64, 16, 1)] {
                let (m, n, k) = (8, 64, steps * block);
                // Nearly only zeros in the last steps.
                let last = |i: usize| i % k >= k - zeros * block && i % block != 1;
                let most = 2f32.powi(f) - k as f32 * 2f32.powi(top + 2);
                let c = if start == 0 { 0.0 } else { most.max(0.0) };
                let a = (0..m * k).map(|i| if last(i) { 0 } else { largest(&unit.a, top / 2) }).collect();
                let (b, c) = (vec![largest(&unit.b, top - top / 2); k * n], vec![c.to_bits().into(); m * n]);
                Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a: vec![], scale_b: vec![] }
                    .check(&isas());
            }
        }
    }
}

/// A single state above `2^F`, wherever it is, beside zeros and small products.
#[test]
fn a_single_large_state() {
    let mut rng = Rng(5);
    for name in UNITS {
        let unit = unit(name);
        let f = frac_bits(&unit);
        for column in [0, 15, 16, 40, 48, 63] {
            for (row, e) in [(0, f), (7, f + 1), (8, f + 30), (15, f + 2)] {
                let case = Case { top: -14, state: 0, spread: 2, zeros: 4, same_sign: false };
                let mut p = problem(&unit, [16, 64], &mut rng, &case);
                p.c.fill(0);
                p.c[row * 64 + column] = (1.5 * 2f32.powi(e)).to_bits().into();
                p.check(&isas());
            }
        }
    }
}

/// Products so small that the least field counts, and states as small or zero.
#[test]
fn exponents_near_the_least() {
    let mut rng = Rng(3);
    for name in UNITS {
        let unit = unit(name);
        for top in [-34, -30, -28, -20, -10] {
            for (state, zeros) in [(-126, 0), (-100, 2), (top, 2), (top - 25, 0), (top + 20, 3)] {
                let case = Case { top, state, spread: 20, zeros, same_sign: false };
                problem(&unit, [8, 64], &mut rng, &case).check(&isas());
            }
        }
    }
}

/// Row groups with an infinity, a NaN, an operand far below all others, or states out of range, among ordinary ones.
#[test]
fn row_groups_left_out() {
    let mut rng = Rng(4);
    for name in UNITS {
        let unit = unit(name);
        let (bits, fraction) = (unit.a.exponent_bits, unit.a.fraction_bits);
        let infinity = (((1u64 << bits) - 1) << fraction) << unit.a.ignored_low_bits;
        for mask in [0b0000_0001, 0b1000_0000, 0b0001_1000, 0b0101_0101, 0b1011_1101, 0b1111_1110_u32] {
            for kind in 0..4 {
                let case = Case { top: 2, state: 3, spread: 9, zeros: 11, same_sign: false };
                let mut p = problem(&unit, [if kind == 3 { 67 } else { 64 }, 64], &mut rng, &case);
                let [_, n, k] = p.size;
                for group in (0..8).filter(|g| mask >> g & 1 == 1) {
                    let (row, at) = (8 * group + rng.below(8_usize), rng.below(k));
                    match kind {
                        0 => p.a[row * k + at] = infinity,
                        1 => p.a[row * k + at] = infinity | 1 << (fraction + unit.a.ignored_low_bits - 1),
                        // Alone in its row, so that its products count.
                        2 => {
                            p.a[row * k..][..k].fill(0);
                            p.c[row * n..][..n].fill(0);
                            p.a[row * k + at] = code(&unit.a, &mut rng, -40) << unit.a.ignored_low_bits;
                        }
                        _ => p.c[row * n + at % n] = f32::MAX.to_bits().into(),
                    }
                }
                p.check(&isas());
            }
        }
    }
}
