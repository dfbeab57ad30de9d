//! Fresh vectors of the ten kinds, for any unit, with the oracle's d.

use super::formats::{Overflow, Val, decode, encode, format};
use super::names::{Desc, describe};
use super::numbers::{Exact, Round};
use super::oracle::dot_add;
use crate::rng::Rng;

/// One dot-add and what the oracle says of it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: u64,
    pub(crate) scale_a: Vec<u64>,
    pub(crate) scale_b: Vec<u64>,
    pub(crate) d: u64,
}

pub(crate) const KINDS: [&str; 10] = [
    "random bits",
    "near one",
    "wide exponents",
    "cancellation",
    "specials",
    "sparse with zeros",
    "tiny",
    "huge",
    "very wide",
    "ties",
];

/// `count` lines for a unit; line i is of kind i mod 10. The same seed gives the same lines, other units other ones.
pub(crate) fn fresh(unit_name: &str, seed: u64, count: usize) -> Vec<Line> {
    let unit = describe(unit_name).expect("a canonical unit");
    // FNV-1a, so that units of one seed do not share their lines.
    let hash =
        unit_name.bytes().fold(0xCBF2_9CE4_8422_2325, |h: u64, x| (h ^ u64::from(x)).wrapping_mul(0x100_0000_01B3));
    let mut rng = Rng(seed ^ hash);
    (0..count).map(|i| line(&mut rng, unit_name, &unit, i % 10)).collect()
}

fn line(rng: &mut Rng, name: &str, unit: &Desc, kind: usize) -> Line {
    let mut l = Line { a: vec![], b: vec![], c: 0, scale_a: vec![], scale_b: vec![], d: 0 };
    for _ in 0..unit.k {
        l.a.push(operand(rng, unit.a, kind));
        l.b.push(operand(rng, unit.b, kind));
    }
    l.c = operand(rng, unit.c, kind);
    match kind {
        3 => cancel(rng, unit, &mut l),
        4 => specials(rng, unit, &mut l),
        9 => tie(rng, unit, &mut l),
        _ if rng.one_in(2) => l.c = matching_c(rng, unit, &l),
        _ => {}
    }
    for _ in 0..unit.scales {
        l.scale_a.push(scale(rng, unit.scale.expect("scaled"), kind));
        l.scale_b.push(scale(rng, unit.scale.expect("scaled"), kind));
    }
    if unit.scales > 0 && kind == 3 && rng.one_in(2) {
        l.scale_b = l.scale_a.clone();
    }
    l.d = dot_add(name, &l.a, &l.b, l.c, &l.scale_a, &l.scale_b).expect("well-formed");
    l
}

/// Exponents of a format: smallest normal, largest.
fn exponents(name: &str) -> (i64, i64) {
    let f = format(name).expect("known");
    (f.emin, decode(name, f.max).expect("known").value().log2())
}

/// The value nearest toward zero to `±(1 + fraction) * 2^e`, never beyond the largest.
fn number(rng: &mut Rng, name: &str, e: i64, fraction: u64) -> u64 {
    let f = format(name).expect("known");
    let m = i64::from(f.m);
    let fraction = i64::try_from(fraction & ((1 << f.m) - 1)).expect("fraction");
    let s = &Exact::new(1, 0) + &Exact::new(fraction, -m);
    let s = if f.signed && rng.one_in(2) { -&s } else { s };
    let e = if name == "ue8m0" { e.max(-127) } else { e };
    let bits = encode(name, &Val::of(&s.times_pow2(e)), Round::Rz, Overflow::Saturate).expect("in range");
    // The ignored bits of tf32 are noise half of the time.
    let noise = (1 << f.ignored) - 1;
    if rng.one_in(2) { bits | (rng.next() & noise) } else { bits }
}

fn random_number(rng: &mut Rng, name: &str, low: i64, high: i64) -> u64 {
    let (e, fraction) = (rng.range(low, high), rng.next());
    // Every fourth significand is short, so that exact sums and ties happen.
    let fraction = if rng.one_in(4) { fraction & (0b111 << rng.range(0, 49)) } else { fraction };
    number(rng, name, e, fraction)
}

fn operand(rng: &mut Rng, name: &str, kind: usize) -> u64 {
    let (low, high) = exponents(name);
    let f = format(name).expect("known");
    match kind {
        0 => rng.next() & (u64::MAX >> (64 - f.width)),
        1 | 3 => random_number(rng, name, (-2).max(low), 2.min(high)),
        2 => random_number(rng, name, (-14).max(low), 14.min(high)),
        4 => random_number(rng, name, (-8).max(low), 8.min(high)),
        5 if !rng.one_in(3) => zero(rng, name),
        5 => random_number(rng, name, low.max(-30), high.min(30)),
        6 => random_number(rng, name, low - i64::from(f.m), low + 3),
        7 => random_number(rng, name, high - 3, high),
        8 => random_number(rng, name, low - i64::from(f.m), high),
        _ => number(rng, name, 0, 0),
    }
}

fn zero(rng: &mut Rng, name: &str) -> u64 {
    let f = format(name).expect("known");
    if f.neg_zero && rng.one_in(2) { 1 << (f.width - 1) } else { 0 }
}

/// A few special operands, never many: a long row of them would always be NaN.
fn specials(rng: &mut Rng, unit: &Desc, l: &mut Line) {
    for _ in 0..rng.range(1, 4) {
        let k = usize::try_from(rng.next() % unit.k as u64).expect("small");
        match rng.range(0, 4) {
            0 | 1 => l.a[k] = special(rng, unit.a),
            2 | 3 => l.b[k] = special(rng, unit.b),
            _ => l.c = special(rng, unit.c),
        }
    }
}

/// Zeros, infinities, NaNs of several payloads, extremes and one.
fn special(rng: &mut Rng, name: &str) -> u64 {
    let f = format(name).expect("known");
    let step = 1u64 << f.ignored;
    let mut list = vec![0, step, (1 << f.m) - step, 1 << f.m, f.max];
    list.push(number(rng, name, 0, 0));
    if let Some(inf) = f.inf {
        list.extend([inf, inf, inf + 1, inf + step]);
    }
    list.extend(f.nan);
    let sign = if rng.one_in(2) { 1 << (f.width - 1) } else { 0 };
    rng.pick(&list) ^ sign
}

fn scale(rng: &mut Rng, name: &str, kind: usize) -> u64 {
    let (low, high) = exponents(name);
    match kind {
        0 => rng.next() & 0xFF,
        4 if rng.one_in(12) => rng.pick(&[0, 1, 0x7E, 0x7F, 0x80, 0xFE, 0xFF]),
        6 => random_number(rng, name, low - 3, low + 70.min(high - low)),
        7 => random_number(rng, name, (high - 70).max(0), high),
        2 => random_number(rng, name, (-20).max(low), 20.min(high)),
        8 => random_number(rng, name, low, high),
        _ => random_number(rng, name, -2, 2),
    }
}

/// The exact products' sum, scales and special values left out.
fn exact_sum(unit: &Desc, l: &Line) -> Exact {
    let value = |name: &str, bits: u64| decode(name, bits).expect("known").value();
    l.a.iter().zip(&l.b).fold(Exact::zero(), |s, (a, b)| &s + &(&value(unit.a, *a) * &value(unit.b, *b)))
}

/// A c of about the products' size, so that neither drowns the other.
fn matching_c(rng: &mut Rng, unit: &Desc, l: &Line) -> u64 {
    let sum = exact_sum(unit, l);
    if sum.is_zero() {
        return l.c;
    }
    let (low, high) = exponents(unit.c);
    let e = (sum.log2() + rng.range(-30, 6)).clamp(low - 3, high);
    random_number(rng, unit.c, e, e)
}

/// Products in pairs that cancel, all or nearly, in any order, and often a c that cancels the rest.
fn cancel(rng: &mut Rng, unit: &Desc, l: &mut Line) {
    let flip = |name: &str| 1u64 << (format(name).expect("known").width - 1);
    for k in 1..unit.k {
        let from = usize::try_from(rng.range(0, i64::try_from(k).expect("small") - 1)).expect("small");
        if rng.one_in(2) {
            (l.a[k], l.b[k]) = (l.a[from] ^ flip(unit.a), l.b[from]);
            if rng.one_in(4) {
                l.b[k] ^= 1 << format(unit.b).expect("known").ignored;
            }
        }
    }
    if rng.one_in(2) {
        let rest = -&exact_sum(unit, l);
        let rest = if rng.one_in(3) { &rest + &Exact::new(rng.range(-4, 4), -24) } else { rest };
        l.c = encode(unit.c, &Val::of(&rest), Round::Rne, Overflow::Saturate).expect("a wide format");
    }
}

/// A leading one, small powers of two around the widths of the units, and a c on or beside a last place.
fn tie(rng: &mut Rng, unit: &Desc, l: &mut Line) {
    const DEPTHS: [i64; 24] =
        [1, 2, 8, 9, 10, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25, 26, 27, 31, 32, 33, 35, 36, 52, 53];
    let top = rng.range(-3, 3);
    for k in 0..unit.k {
        let depth = if k == 0 { 0 } else { rng.pick(&DEPTHS) };
        let e = top - depth;
        let ((low, _), m) = (exponents(unit.a), i64::from(format(unit.a).expect("known").m));
        let x = e.div_euclid(2).clamp(low - m, exponents(unit.a).1);
        let fraction = if rng.one_in(3) { rng.next() & (1 << (m - 1)) } else { 0 };
        l.a[k] = number(rng, unit.a, x, fraction);
        l.b[k] = number(rng, unit.b, e - x, 0);
    }
    let shift = usize::try_from(rng.next() % unit.k as u64).expect("small");
    l.a.rotate_right(shift);
    l.b.rotate_right(shift);
    let m = i64::from(format(unit.c).expect("known").m);
    let low_bits = rng.next() & 7;
    let fraction = if rng.one_in(2) { low_bits } else { low_bits << (m - 3) };
    let e = top + rng.pick(&[0, 0, 0, 1, -1, 2, -23, -24, -25]);
    l.c = number(rng, unit.c, e, fraction);
}
