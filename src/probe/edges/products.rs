//! Products of many bits that meet: as large as their exponent allows, or alike but for bits that alignment cuts.

use super::super::bench::{normal, top};
use super::super::black_box::{Input, Interface};
use super::{Edges, Rest};
use crate::format::FormatSpec;

impl Edges {
    /// Operands of a product of nearly 2 times 2^e, but no more: the largest ones that have this exponent normalised.
    pub(super) fn nearly_two(&mut self, negative: bool, e: i32) -> (u64, u64) {
        let Interface { a, b, .. } = self.bench.interface;
        let (ea, eb) = self.bench.shared(e);
        let one = |bits: u32| 1u64 << bits;
        let limit = (2u128 << (a.fraction_bits + b.fraction_bits)) - 1;
        let mut pair = || {
            let x = one(a.fraction_bits) + self.random.below(one(a.fraction_bits));
            (x, (limit / u128::from(x)).min(u128::from(2 * one(b.fraction_bits) - 1)) as u64)
        };
        let most = if a.fraction_bits < 5 { 12 } else { 1 };
        let drawn = (0..most).map(|_| pair()).max_by_key(|&(x, y)| u128::from(x) * u128::from(y));
        let (x, y) = drawn.unwrap_or_default();
        (normal(&a, negative, ea, x), normal(&b, false, eb, y))
    }

    /// Beside large earlier sums, or a large term: two products p and one of -2p, of which alignment cuts a bit off
    /// the first two; or two products of different signs that differ in the bits that are cut. Either sum is nothing,
    /// or hardly anything, and shows in whatever is rounded in one direction.
    pub(super) fn alike(&mut self, input: &mut Input, step: usize, lead: i32) {
        let Interface { a, b, k, .. } = self.bench.interface;
        let mut places = self.blocks[step].clone();
        while places.len() > 4 {
            places.swap_remove(self.random.below(places.len() as u64) as usize);
        }
        let earlier: Vec<usize> = self.blocks[..step].concat();
        let mut lead = lead;
        if !earlier.is_empty() && self.random.one_in(2) {
            // All or some of the largest products.
            let count = 1 + self.random.below(earlier.len() as u64) as usize;
            let negative = self.random.one_in(2);
            for &place in &earlier[..count] {
                (input.a[place], input.b[place]) = (a.max_code(negative), b.max_code(false));
            }
            let significand = |f: &FormatSpec| f.max().significand as f64 / f64::from(f.fraction_bits).exp2();
            let sum = count as f64 * significand(&a) * significand(&b);
            lead = top(&a) + top(&b) + sum.log2() as i32;
        } else {
            let place = if places.len() > 3 && self.random.one_in(2) { places.pop().unwrap_or(k) } else { k };
            let negative = self.random.one_in(2);
            self.put_at(input, place, negative, lead, Rest::Nothing);
        }
        let doubled = places.len() > 2 && self.random.one_in(2);
        // Mostly the first bit that is cut, or the first two.
        let by = if self.random.one_in(3) { self.random.range(-2, 1) } else { i32::from(doubled) - 2 };
        let end = lead - self.pick(|s| &s.gaps) + by;
        let negative = self.random.one_in(2);
        // Few bits, or as many as a product has: there may be no smaller ones.
        let bits = if self.random.one_in(2) { 5 } else { (a.fraction_bits + b.fraction_bits + 1).min(40) };
        let terms = (0..8).find_map(|_| {
            let one = u128::from(2 * self.random.below(1 << bits) + 1);
            let first = (self.bench.split(negative, one, end)?, places[0]);
            if doubled {
                let twice = self.bench.split(!negative, one, end + 1)?;
                return Some(vec![first, (first.0, places[1]), (twice, places[2])]);
            }
            let other = self.bench.split(!negative, one + 1 + u128::from(self.random.below(3)), end)?;
            Some(vec![first, (other, *places.get(1)?)])
        });
        for (operands, place) in terms.into_iter().flatten() {
            (input.a[place], input.b[place]) = operands;
        }
    }
}
