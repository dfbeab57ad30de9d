//! Structured data on every unit and kernel: rows and columns with exponents of their own or of zeros, pairs that
//! cancel, c near the products and far away. Data of one distribution do not meet what kernels do between such lines.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use std::collections::HashSet;

/// Problems of each unit; more, to look for rare ones, by this environment variable.
const TURNS: u64 = 40;
const MORE_TURNS: &str = "GEMMULATE_TURNS";

/// Units off the catalogue: odd steps, windows and widths.
const CUSTOM: [&str; 23] = [
    "custom/m8n8k8.f32.bf16.bf16.f32/dot:block=8:F=12:e_zero=none",
    "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25:out=rne:e_zero=none",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:out=rd",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:out=rd:e_zero=none",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=8:F=25:align=rne:e_zero=none",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=24:align=rd",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:align=rd:e_zero=none",
    "custom/m8n8k8.f32.tf32.bf16.f32/dot:block=8:F=33:align=ru",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=8:F=25:c=late",
    "custom/m8n8k16.f32.e5m2.f16.f32/dot:block=16:F=32:align=ru:out=ru",
    "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=33:out=ru:flush-out=yes",
    "custom/m8n8k16.f32.bf16.f16.f32/dot:block=8:F=24:out=ru:e_zero=none",
    "custom/m8n8k16.f32.bf16.f16.f32/dot:block=8:F=24:flush-in=yes:flush-out=yes:e_zero=none",
    "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=40:e_zero=none",
    "custom/m8n8k8.f32.tf32.tf32.f32/dot:block=8:F=30",
    "custom/m8n8k12.f32.bf16.tf32.f32/dot:block=3:F=25",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:exact=yes:out=rne:e_zero=none:negative-zero=yes:nan=quiet",
    "custom/m8n8k8.f32.bf16.bf16.f32/round-down:G=8:F=23",
    "custom/m8n8k16.f32.bf16.bf16.f32/round-down:G=4:F=23:sum=31:total=31",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=25:sum=33",
    "custom/m8n8k8.f32.bf16.bf16.f32/round-down-grouped:G=8:c-reach=0",
    "custom/m8n8k8.f32.bf16.bf16.f32/round-down-grouped:G=8:c-reach=7",
    "custom/m8n8k16.f32.f16.f16.f32/pairwise:G=8",
];

/// The finite code with this exponent field, or the nearest there is, a random sign, and a fraction of many ones, few,
/// or any.
fn code(draw: &mut Rng, spec: &FormatSpec, field: i64) -> u64 {
    let place = spec.fraction_bits + spec.ignored_low_bits;
    let max = spec.max_code(false);
    let field = field.clamp(0, (max >> place) as i64) as u64;
    let ones = (1 << spec.fraction_bits) - 1;
    let fraction = match draw.below(4) {
        0 => 0,
        1 => ones,
        2 => draw.next() & ones,
        _ => (1 << draw.below(spec.fraction_bits + 1)) & ones,
    };
    let magnitude = (field << place | fraction << spec.ignored_low_bits).min(max);
    let negative = if magnitude == 0 { spec.has_negative_zero() } else { spec.signed } && draw.one_in(2);
    if negative { magnitude | sign_bit(spec) } else { magnitude }
}

const fn sign_bit(spec: &FormatSpec) -> u64 {
    1 << (spec.exponent_bits + spec.fraction_bits + spec.ignored_low_bits)
}

/// The exponent field that a matrix's lines are about: that of one, any, within a third of all of it, or somewhat
/// above.
fn middle(draw: &mut Rng, spec: &FormatSpec) -> i64 {
    let (one, all) = (i64::from(spec.bias), 1 << spec.exponent_bits);
    match draw.below(4) {
        0 => one + draw.range(-2, 2),
        1 => draw.below(all),
        2 => one + draw.range(10, 25) * all / 256,
        _ => one + draw.range(-40, 40) * all / 256,
    }
}

/// How lines' exponents lie to each other, and how many of their elements are zeros.
struct Style {
    /// 0, all one; 1, each its own; 2, every second one lower; 3, a few apart.
    exponents: u8,
    /// Elements in ten.
    zeros: u64,
    /// One line in so many has nothing else.
    zero_lines: u64,
    /// Elements lie at most 2 below their line's exponent.
    narrow: bool,
}

impl Style {
    fn draw(draw: &mut Rng) -> Self {
        Self {
            exponents: draw.below(4),
            zeros: draw.pick(&[0, 0, 1, 5, 9]),
            zero_lines: draw.pick(&[2, 4]),
            narrow: draw.one_in(2),
        }
    }

    /// Lines of `k` codes each, and the exponent they are about.
    fn lines(&self, draw: &mut Rng, spec: &FormatSpec, count: usize, k: usize) -> (Vec<Vec<u64>>, i64) {
        let middle_of_all = middle(draw, spec);
        let line = |i: usize| {
            let exponent = match self.exponents {
                0 => middle_of_all,
                1 => middle(draw, spec),
                2 => middle_of_all - (i as i64 % 2) * draw.pick(&[10, 33, 60, 100]),
                _ => middle_of_all - draw.range(0, 5),
            };
            let all_zeros = draw.one_in(self.zero_lines);
            let element = |_| {
                if all_zeros || draw.below(10_u64) < self.zeros {
                    return if spec.has_negative_zero() && draw.one_in(8) { sign_bit(spec) } else { 0 };
                }
                let below = [0, 0, 0, 1, 1, 2, 2, 2, 3, 5, 8, 15, 24, 30, 31, 32, 33, 36, 60, 300];
                let below = draw.pick(&below[..if self.narrow { 8 } else { below.len() }]);
                code(draw, spec, exponent - below)
            };
            (0..k).map(element).collect()
        };
        ((0..count).map(line).collect(), middle_of_all - i64::from(spec.bias))
    }
}

/// Every second product the negative of the one before it, in two of three columns.
fn cancel(draw: &mut Rng, spec: &FormatSpec, a: &mut [Vec<u64>], b: &mut [Vec<u64>]) {
    let negated = |code: u64| if code & !sign_bit(spec) == 0 { code } else { code ^ sign_bit(spec) };
    for p in (1..a[0].len()).step_by(2) {
        a.iter_mut().for_each(|line| line[p] = negated(line[p - 1]));
        b.iter_mut().filter(|_| !draw.one_in(3)).for_each(|line| line[p] = line[p - 1]);
    }
}

/// Block scales near one, of any magnitude, or up to half of their exponents above 2^-20; none of them NaN.
fn scales(draw: &mut Rng, spec: &FormatSpec, count: usize) -> Vec<u64> {
    let style = draw.below(3);
    let (one, last) = (spec.bias as u64, (1 << spec.exponent_bits) - 1);
    let mut scale = || {
        let field = match style {
            0 => one + draw.below(3_u64),
            1 => draw.below(last + 1),
            _ => (one + draw.below(last / 2 + 1)).saturating_sub(20),
        };
        let fraction = draw.below(1_u64 << spec.fraction_bits);
        field.min(last - 1) << spec.fraction_bits | fraction
    };
    (0..count).map(|_| scale()).collect()
}

fn problem(draw: &mut Rng, unit: &Unit) -> Problem {
    let (m, n) = (draw.pick(&[1, 2, 3, 8, 9, 17]), draw.pick(&[1, 7, 16, 20, 64, 70]));
    let steps = if unit.c == unit.d { draw.pick(&[1, 2, 3, 6]) } else { 1 };
    let (k, slots) = (unit.shape.k * steps, unit.scales() * steps);
    let style = Style::draw(draw);
    let (mut a, of_a) = style.lines(draw, &unit.a, m, k);
    let (mut b, of_b) = style.lines(draw, &unit.b, n, k);
    if unit.a.signed && draw.one_in(3) {
        cancel(draw, &unit.a, &mut a, &mut b);
    }
    // Zeros, any magnitude, small ones, or 50 below the products to 40 above.
    let c = |_| match draw.below(6) {
        0 => 0,
        n @ (1 | 4) => {
            let field = draw.below(((1_i64 << unit.c.exponent_bits) - 1) / n);
            code(draw, &unit.c, field)
        }
        _ => {
            let near = of_a + of_b + i64::from(unit.c.bias) + draw.range(-50, 40);
            code(draw, &unit.c, near)
        }
    };
    let c = (0..m * n).map(c).collect();
    let [scale_a, scale_b] =
        [m, n].map(|lines| unit.scale.map_or(Vec::new(), |rule| scales(draw, &rule.format, lines * slots)));
    Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a: a.concat(),
        b: (0..k * n).map(|t| b[t % n][t / n]).collect(),
        c,
        scale_a,
        scale_b,
    }
}

/// One unit of each kind that computes something else, and the custom ones.
fn units() -> Vec<Unit> {
    let mut seen = HashSet::new();
    let kind = |u: &Unit| format!("{:?} {:?} {:?} {:?} {} {:?} {:?}", u.a, u.b, u.c, u.d, u.shape.k, u.recipe, u.scale);
    let catalogue = Unit::all().filter(|unit| seen.insert(kind(unit)));
    catalogue.chain(CUSTOM.iter().map(|name| Unit::find(name).unwrap())).collect()
}

#[test]
fn lines_with_exponents_of_their_own_are_the_references() {
    let turns = std::env::var(MORE_TURNS).map_or(TURNS, |turns| turns.parse().expect(MORE_TURNS));
    let (units, isas) = (units(), isas());
    let mut draw = Rng(34);
    for _ in 0..turns {
        for unit in &units {
            problem(&mut draw, unit).check(&isas);
        }
    }
}
