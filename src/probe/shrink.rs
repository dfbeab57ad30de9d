//! Making an input on which two boxes differ as small as it can be.

use super::bench::{Bench, exact, is_zero, one};
use super::black_box::{BlackBox, Input, Interface};
use super::fit::cases::Case;
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::vectors::Evaluator;

/// How large an input is: non-zero terms, then significand bits, then the span of exponents, then
/// how far its exponents and signs are from those of +1. The scales of non-zero products count in
/// both; a scale of one bit is none.
pub(crate) fn size(input: &Input, interface: &Interface) -> (usize, u32, i32, i32) {
    let Interface { a, b, c, scale, .. } = interface;
    let live: Vec<usize> = (0..interface.k).filter(|&k| !is_zero(a, input.a[k]) && !is_zero(b, input.b[k])).collect();
    let width_of = |f: &FormatSpec, code: u64| width(f.decode(code).significand);
    let mut bits: u32 = live.iter().map(|&k| width_of(a, input.a[k]) + width_of(b, input.b[k])).sum();
    if let Some(rule) = scale {
        let mut blocks: Vec<usize> = live.iter().map(|k| k / rule.block.max(1)).collect();
        blocks.dedup();
        let scales = blocks.into_iter().flat_map(|n| [input.scale_a.get(n), input.scale_b.get(n)]).flatten();
        bits += scales.map(|&code| width_of(&rule.format, code).saturating_sub(1)).sum::<u32>();
    }
    let bench = Bench::new(*interface);
    let mut exponents: Vec<i32> = live.iter().map(|&k| bench.product_exponent(input, k)).collect();
    let terms = exponents.len() + usize::from(!is_zero(c, input.c));
    if !is_zero(c, input.c) {
        let x = c.decode(input.c);
        bits += width(x.significand);
        exponents.push(x.exponent);
    }
    let span = exponents.iter().max().unwrap_or(&0) - exponents.iter().min().unwrap_or(&0);
    (terms, bits, span, clutter(input, interface))
}

/// Everything that could be plainer: codes of zero terms, distances from +1, special values.
fn clutter(input: &Input, interface: &Interface) -> i32 {
    let weigh = |f: &FormatSpec, code: u64| {
        let x = f.decode(code);
        let special = if x.is_finite() { 0 } else { 1000 };
        let exponent = if x.is_finite() && !x.is_zero() { x.exponent.abs() + 1 } else { 0 };
        special + exponent + i32::from(x.negative && !x.is_nan())
    };
    let operands = |codes: &[u64], f: &FormatSpec| codes.iter().map(|&x| weigh(f, x)).sum::<i32>();
    let scale =
        interface.scale.map_or(0, |s| operands(&input.scale_a, &s.format) + operands(&input.scale_b, &s.format));
    let places: usize = (0..interface.k).filter(|&k| input.a[k] != 0 || input.b[k] != 0).sum();
    let codes = operands(&input.a, &interface.a) + operands(&input.b, &interface.b) + weigh(&interface.c, input.c);
    (codes + scale) * 64 + places as i32
}

/// Significant bits of an integer.
const fn width(x: u64) -> u32 {
    if x == 0 { 0 } else { 64 - x.leading_zeros() - x.trailing_zeros() }
}

/// Every input one step smaller than this one.
fn smaller(input: &Input, interface: &Interface) -> Vec<Input> {
    let mut all = Vec::new();
    for k in 0..interface.k {
        if input.a[k] != 0 || input.b[k] != 0 {
            let mut x = input.clone();
            (x.a[k], x.b[k]) = (0, 0);
            all.push(x);
        }
        for code in plainer(&interface.a, input.a[k]) {
            let mut x = input.clone();
            x.a[k] = code;
            all.push(x);
        }
        for code in plainer(&interface.b, input.b[k]) {
            let mut x = input.clone();
            x.b[k] = code;
            all.push(x);
        }
        for by in [-8, -1, 1, 8] {
            all.extend(balanced(input, interface, k, by));
        }
        all.extend(moved(input, interface, k));
    }
    for code in plainer(&interface.c, input.c) {
        all.push(Input { c: code, ..input.clone() });
    }
    if input.c != 0 {
        all.push(Input { c: 0, ..input.clone() });
    }
    all.extend(scales(input, interface));
    all.extend([-1, 1].into_iter().filter_map(|by| shifted(input, interface, by)));
    all.extend(opposite(input, interface));
    let now = size(input, interface);
    let sized = all.into_iter().map(|x| (size(&x, interface), x));
    let mut all: Vec<_> = sized.filter(|(size, _)| *size < now).collect();
    all.sort_by_key(|(size, _)| *size);
    all.dedup();
    all.into_iter().map(|(_, x)| x).collect()
}

/// Codes with a bit less in the significand, or an exponent nearer to 0, or no sign.
fn plainer(f: &FormatSpec, code: u64) -> Vec<u64> {
    let x = f.decode(code);
    let mut all = Vec::new();
    if !x.is_finite() || x.is_zero() {
        if code != 0 {
            all.push(0);
            all.push(one(f));
        }
        // NaN with a bit less in it; NaN and infinity without the sign.
        let same = |other: u64| (f.decode(other).is_nan(), f.decode(other).is_zero()) == (x.is_nan(), x.is_zero());
        let set = (0..f.storage_bits).map(|bit| 1 << bit).filter(|bit| code & bit != 0);
        all.extend(set.map(|bit| code & !bit).filter(|&other| !f.decode(other).is_finite() && same(other)));
        return all;
    }
    let q = x.exponent - x.frac_bits as i32;
    let s = u128::from(x.significand);
    let low = s & (s - 1);
    let lead = 1 << s.ilog2();
    all.extend([low, s & !lead, lead].into_iter().filter(|m| *m != 0).filter_map(|m| exact(f, x.negative, m, q)));
    // Every shorter one that ends in a bit of its own, or is nothing but the first and one other bit.
    for last in s.trailing_zeros() + 1..s.ilog2() {
        let one = 1 << last;
        all.extend([s & !(one - 1) | one, lead | one].into_iter().filter_map(|m| exact(f, x.negative, m, q)));
    }
    for by in [-16, -4, -1, 1, 4, 16] {
        all.extend(exact(f, x.negative, s, q + by));
    }
    all.extend(exact(f, x.negative, 1, 0));
    all.extend(exact(f, false, s, q));
    // A product of zero may count by its other factor.
    all.push(0);
    all.retain(|&other| other != code);
    all
}

/// The same product with its exponent moved from a to b.
fn balanced(input: &Input, interface: &Interface, k: usize, by: i32) -> Option<Input> {
    let (x, y) = (interface.a.decode(input.a[k]), interface.b.decode(input.b[k]));
    if !x.is_finite() || !y.is_finite() || x.is_zero() || y.is_zero() {
        return None;
    }
    let mut moved = input.clone();
    moved.a[k] = exact(&interface.a, x.negative, x.significand.into(), x.exponent - x.frac_bits as i32 + by)?;
    moved.b[k] = exact(&interface.b, y.negative, y.significand.into(), y.exponent - y.frac_bits as i32 - by)?;
    Some(moved)
}

/// Product k without its two minus signs, and at every earlier empty place of the same scales (the first of very many).
fn moved(input: &Input, interface: &Interface, k: usize) -> Vec<Input> {
    if input.a[k] == 0 && input.b[k] == 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let (a, b) = (negated(&interface.a, input.a[k]), negated(&interface.b, input.b[k]));
    if let (Some(a), Some(b)) = (a, b) {
        let mut x = input.clone();
        (x.a[k], x.b[k]) = (a, b);
        all.push(x);
    }
    let block = interface.scale.map_or(interface.k, |s| s.block.max(1));
    let from = k / block * block;
    for to in (from..k).filter(|&to| input.a[to] == 0 && input.b[to] == 0).take(MANY) {
        let mut x = input.clone();
        x.a.swap(k, to);
        x.b.swap(k, to);
        all.push(x);
    }
    all
}

/// -x, for a number with a sign.
fn negated(f: &FormatSpec, code: u64) -> Option<u64> {
    let x = f.decode(code);
    let q = x.exponent - x.frac_bits as i32;
    if x.is_finite() && !x.is_zero() { exact(f, !x.negative, x.significand.into(), q) } else { None }
}

/// Every term with the other sign.
fn opposite(input: &Input, interface: &Interface) -> Option<Input> {
    let flip = |f: &FormatSpec, code: u64| if code == 0 { Some(0) } else { negated(f, code) };
    let a = input.a.iter().map(|&x| flip(&interface.a, x)).collect::<Option<Vec<_>>>()?;
    Some(Input { a, c: flip(&interface.c, input.c)?, ..input.clone() })
}

/// Scales nearer to 1.
fn scales(input: &Input, interface: &Interface) -> Vec<Input> {
    let Some(rule) = interface.scale else { return Vec::new() };
    let mut all = Vec::new();
    for n in 0..input.scale_a.len() {
        for code in plainer(&rule.format, input.scale_a[n]).into_iter().chain([one(&rule.format)]) {
            let mut x = input.clone();
            x.scale_a[n] = code;
            all.push(x);
        }
        for code in plainer(&rule.format, input.scale_b[n]).into_iter().chain([one(&rule.format)]) {
            let mut x = input.clone();
            x.scale_b[n] = code;
            all.push(x);
        }
    }
    all
}

/// Every term times 2^by.
fn shifted(input: &Input, interface: &Interface, by: i32) -> Option<Input> {
    let scaled = |f: &FormatSpec, code: u64| {
        let x = f.decode(code);
        if !x.is_finite() || x.is_zero() {
            return Some(code);
        }
        exact(f, x.negative, x.significand.into(), x.exponent - x.frac_bits as i32 + by)
    };
    let a = input.a.iter().map(|&x| scaled(&interface.a, x)).collect::<Option<Vec<_>>>()?;
    Some(Input { a, c: scaled(&interface.c, input.c)?, ..input.clone() })
}

/// Products that are many: instructions have no more.
const MANY: usize = 128;

/// Steps asked for in one batch.
const AT_ONCE: usize = 512;

/// Shrinks an input on which two boxes differ until no single step keeps the difference, or a box's
/// time is up; returns it with both answers.
///
/// # Errors
/// When a box fails to answer.
pub(crate) fn shrink(
    input: &Input,
    one: &mut dyn BlackBox,
    other: &mut dyn BlackBox,
) -> Result<(Input, u64, u64), Error> {
    let interface = one.interface();
    let first = one.dot_adds(std::slice::from_ref(input))?;
    let second = other.dot_adds(std::slice::from_ref(input))?;
    let mut best = (input.clone(), first[0], second[0]);
    // Of very many products most can be left out together: one by one takes time by the square of their number.
    let mut width = if interface.k > MANY { interface.k / 2 } else { 0 };
    while width > 0 {
        for from in (0..interface.k).step_by(width) {
            let places = from..interface.k.min(from + width);
            if places.clone().all(|k| best.0.a[k] == 0 && best.0.b[k] == 0) {
                continue;
            }
            let mut without = best.0.clone();
            without.a[places.clone()].fill(0);
            without.b[places].fill(0);
            let inputs = std::slice::from_ref(&without);
            let first = match one.dot_adds(inputs) {
                Err(Error::OutOfTime { .. }) => return Ok(best),
                first => first?,
            };
            let second = other.dot_adds(inputs)?;
            if first != second {
                best = (without, first[0], second[0]);
            }
        }
        width /= 2;
    }
    'smaller: loop {
        for steps in smaller(&best.0, &interface).chunks(AT_ONCE) {
            let first = match one.dot_adds(steps) {
                Err(Error::OutOfTime { .. }) => return Ok(best),
                first => first?,
            };
            let second = other.dot_adds(steps)?;
            let differs = first.iter().zip(&second).position(|(x, y)| x != y);
            if let Some(at) = differs {
                best = (steps[at].clone(), first[at], second[at]);
                continue 'smaller;
            }
        }
        return Ok(best);
    }
}

/// Inputs with one model's answers, to find some on which another model differs.
#[derive(Debug)]
pub(crate) struct Pool {
    cases: Vec<Case>,
}

impl Pool {
    pub(crate) fn new(interface: &Interface, recipe: &Recipe, inputs: Vec<Input>) -> Self {
        let Ok(unit) = interface.unit(*recipe) else { return Self { cases: Vec::new() } };
        let mut evaluator = Evaluator::new(&unit);
        let mut answer = |x: &Input| evaluator.eval(x);
        let cases = inputs.into_iter().filter_map(|x| {
            let d = answer(&x).ok()?;
            Some(Case::new(interface, x, d))
        });
        Self { cases: cases.collect() }
    }

    /// An input on which `other` gives another answer.
    pub(crate) fn separating(&self, other: &Recipe, interface: &Interface) -> Option<&Input> {
        self.cases.iter().find(|c| !c.agrees(other, interface, true)).map(|c| &c.input)
    }
}
