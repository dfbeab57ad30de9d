//! The kind of input that lands halfway between two numbers of D.

use super::Input;
use super::generate::{Generator, Random, exponents};
use crate::format::FormatSpec;
use crate::unit::Unit;

/// Depths at which units cut off, besides half of D's last place.
const DEPTHS: [i32; 18] = [1, 2, 8, 10, 11, 13, 14, 22, 23, 24, 25, 26, 31, 32, 33, 35, 36, 53];

/// A range of exponents.
#[derive(Clone, Copy)]
struct Range {
    low: i32,
    high: i32,
}

impl Range {
    fn of(format: &FormatSpec) -> Self {
        let (low, high) = exponents(format);
        Self { low, high }
    }

    fn has(self, e: i32) -> bool {
        (self.low..=self.high).contains(&e)
    }
}

impl Generator {
    /// Makes the operands a tie, as [`super::Kind::Ties`] says.
    pub(super) fn ties(&mut self, unit: &Unit, v: &mut Input) {
        let random = self.random();
        for k in 0..v.a.len() {
            v.a[k] = random.zero(&unit.a);
            v.b[k] = random.zero(&unit.b);
        }
        v.c = random.zero(&unit.c);
        let half = unit.d.fraction_bits as i32 + 1;
        let depth = if random.one_in(4) { random.pick(&DEPTHS) } else { half };
        let top = lead_and_half(random, unit, v, depth);
        if random.one_in(2) {
            others(random, unit, v, top, depth);
        }
        let shift = random.below(v.a.len() as u64) as usize;
        v.a.rotate_right(shift);
        v.b.rotate_right(shift);
    }
}

/// Places the two addends of a tie and says the exponent of the larger one.
///
/// Of the ways to place them (c over a product, a product over c, a product over another) one that
/// the formats' exponents allow is drawn.
fn lead_and_half(random: &mut Random, unit: &Unit, v: &mut Input, depth: i32) -> i32 {
    let (a, b, c) = (Range::of(&unit.a), Range::of(&unit.b), Range::of(&unit.c));
    let products = Range { low: a.low + b.low, high: a.high + b.high };
    let leads_in = |lead: Range, rest: Range| Range {
        low: lead.low.max(rest.low + depth),
        high: lead.high.min(rest.high + depth),
    };
    let ways = [(true, leads_in(c, products)), (false, leads_in(products, c)), (false, leads_in(products, products))];
    let first = random.below(3) as usize;
    let possible = |way: &usize| ways[*way].1.low <= ways[*way].1.high && (*way != 2 || v.a.len() > 1);
    let way = (0..3).map(|i| (first + i) % 3).find(possible).unwrap_or(0);
    let range = ways[way].1;
    let top = random.range(-3, 3).max(range.low).min(range.high);
    let last = unit.d.fraction_bits;
    if ways[way].0 {
        let fraction = fraction(random, last.min(unit.c.fraction_bits));
        v.c = random.exactly(&unit.c, top, fraction);
        place(random, unit, v, 0, top - depth, 0);
        return top;
    }
    let fraction = fraction(random, last.min(unit.a.fraction_bits));
    place(random, unit, v, 0, top, fraction);
    if way == 1 {
        v.c = random.exactly(&unit.c, top - depth, 0);
    } else {
        place(random, unit, v, 1, top - depth, 0);
    }
    top
}

/// 52 fraction bits of which only the top `bits` may be set; half of the time only the last three
/// of those.
fn fraction(random: &mut Random, bits: u32) -> u64 {
    let fraction = random.bits() & ((1 << bits) - 1);
    let fraction = if random.one_in(2) { fraction & 0b111 } else { fraction };
    fraction << (52 - bits)
}

/// Makes product k plus or minus (1 + fraction / 2^52) * 2^e, if a has such a fraction.
fn place(random: &mut Random, unit: &Unit, v: &mut Input, k: usize, e: i32, fraction: u64) {
    let (a, b) = (Range::of(&unit.a), Range::of(&unit.b));
    let x = e.div_euclid(2).max(a.low).max(e - b.high).min(a.high).min(e - b.low);
    v.a[k] = random.exactly(&unit.a, x, fraction);
    v.b[k] = random.exactly(&unit.b, e - x, 0);
}

/// Other products: powers of two above the half, or one time in four some below it.
fn others(random: &mut Random, unit: &Unit, v: &mut Input, top: i32, depth: i32) {
    let (a, b) = (Range::of(&unit.a), Range::of(&unit.b));
    let products = Range { low: a.low + b.low, high: a.high + b.high };
    let below = random.one_in(4);
    for k in 2..v.a.len() {
        let down = if below { random.range(depth, depth + 12) } else { random.range(1, depth - 1) };
        if products.has(top - down) && random.one_in(2) {
            place(random, unit, v, k, top - down, 0);
        }
    }
}
