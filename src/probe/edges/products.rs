//! Products of many bits that meet: as large as their exponent allows, or alike but for bits that alignment cuts.

use super::super::bench::{around, normal, top};
use super::super::black_box::{Input, Interface};
use super::{Edges, Rest, Spot, last_bit};
use crate::accumulate::Pattern;
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

    /// Operands of all their bits whose product is an odd multiple of 2^e, and as little more or less as a few tries
    /// find.
    pub(super) fn hardly_beside(&mut self, negative: bool, e: i32) -> Option<(u64, u64)> {
        let Interface { a, b, .. } = self.bench.interface;
        let few = if self.random.one_in(2) { 1 } else { 4 };
        let odd = 2 * self.random.below(few) + 1;
        let bits = a.fraction_bits + b.fraction_bits + self.random.below(2) as u32;
        let zeros = bits.checked_sub(odd.ilog2()).filter(|_| bits < 64)?;
        let whole = u128::from(odd) << zeros;
        let more = self.random.one_in(2);
        let tries = if self.is_narrow() { 8 } else { 32 };
        let pairs = (0..tries).filter_map(|_| {
            let x = u128::from((1 << a.fraction_bits) + self.random.below(1 << a.fraction_bits));
            let y = whole / x + u128::from(more);
            let fits = y >> b.fraction_bits == 1 && x * y != whole;
            fits.then(|| (x as u64, y as u64, (x * y).abs_diff(whole)))
        });
        let (x, y, _) = pairs.min_by_key(|&(_, _, apart)| apart)?;
        let (ea, eb) = self.bench.shared(e - zeros as i32 + (a.fraction_bits + b.fraction_bits) as i32);
        Some((normal(&a, negative, ea, x), normal(&b, false, eb, y)))
    }

    /// A sum, and a product just beside its results or ties by less than a zero product's exponent leaves of it.
    pub(super) fn beside_zero(&mut self, input: &mut Input, at: Spot) {
        let Interface { a, b, d, k, .. } = self.bench.interface;
        let mut places = self.blocks[at.step].clone();
        if places.len() < 2 {
            return;
        }
        let [product, zero] = [(); 2].map(|()| places.swap_remove(self.random.below(places.len() as u64) as usize));
        let (of_a, small, large) = if self.random.one_in(2) { (true, a, b) } else { (false, b, a) };
        let e = (top(&large) - self.random.range(0, 3)).max(large.emin());
        let code = around(&large, false, e, 0);
        // The sum's last bit is one that is kept, and of the product's bits some are not.
        let cut = e + small.emin() - self.pick(|s| &s.widths);
        let last = cut + self.random.range(0, (a.fraction_bits + b.fraction_bits) as i32);
        let lead = (last + self.kept).max(d.emin());
        let tie = self.result_bit(lead) - i32::from(!self.directed || self.random.one_in(4));
        let Some(operands) = self.hardly_beside(at.negative, tie) else { return };
        (input.a[product], input.b[product]) = operands;
        (input.a[zero], input.b[zero]) = if of_a { (0, code) } else { (code, 0) };
        let (negative, place) = (self.random.one_in(2), places.first().copied().filter(|_| self.random.one_in(3)));
        self.put_at(input, place.unwrap_or(k), negative, lead, Rest::Nothing);
    }

    /// The largest sum of a step: products just below four times their exponent, beside c or an earlier sum of that
    /// size with a bit where alignment begins to cut. Narrow ones round nothing else.
    pub(super) fn brimming(&mut self, input: &mut Input, at: Spot) {
        let Spot { step, negative, lead, rest } = at;
        let end = lead - self.pick(|s| &s.gaps) + self.random.range(-1, 1);
        let (earlier, mut members) = (self.blocks[..step].concat(), self.blocks[step].clone());
        match self.random.below(3) {
            0 if earlier.len() > 1 => {
                let less = self.random.range(0, 1);
                self.put_at(input, earlier[0], negative, lead - less, rest);
                self.put_at(input, earlier[earlier.len() - 1], negative, end, Rest::Nothing);
            }
            1 => {
                // Or c is a tie of the sum's results and a bit, which the total may not keep.
                members.truncate(1 + self.random.below(members.len() as u64) as usize);
                let carry = self.random.range(0, 2 + members.len().ilog2() as i32);
                let (tie, negative) = (self.result_bit(lead + carry) - 1, self.random.one_in(2));
                self.put_at(input, self.bench.interface.k, negative, tie, Rest::Bit(end));
            }
            _ => self.put_at(input, self.bench.interface.k, negative, lead, Rest::From(end)),
        }
        for place in members {
            self.put_at(input, place, negative, lead, Rest::Ones);
        }
    }

    /// c, and products of the other sign that leave little of it: that total is cut further down than the sum of
    /// products beside c is, which a small product shows.
    pub(super) fn c_undone(&mut self, input: &mut Input, at: Spot) {
        let Spot { step, negative, lead, .. } = at;
        let mut places = self.blocks[step].clone();
        let small = places.swap_remove(self.random.below(places.len() as u64) as usize);
        let some = self.random.one_in(4);
        while some && places.len() > 1 && self.random.one_in(2) {
            places.pop();
        }
        // Each is of less than four times its exponent.
        let together = 2 + places.len().next_power_of_two().ilog2() as i32;
        let e = lead - together + self.random.range(0, 1);
        self.put_at(input, self.bench.interface.k, negative, lead, Rest::Nothing);
        for &place in &places {
            let rest = if self.random.one_in(3) { Rest::Anything } else { Rest::Ones };
            self.put_at(input, place, !negative, e, rest);
        }
        let end = lead - self.pick(|s| &s.sums) + self.random.range(-2, 1);
        let (above, negative) = (self.random.range(0, 3), self.random.one_in(2));
        // What is left may be half of c or less, and a tie of its results the top of a product that has bits below.
        let left = lead - self.random.range(0, 4);
        let tie = self.result_bit(left) - 1;
        let (e, rest) = match self.random.below(3) {
            0 => (end + above, Rest::Bit(end)),
            1 => (end, Rest::Nothing),
            _ => (tie + self.random.range(-1, 1), Rest::Anything),
        };
        self.put_at(input, small, negative, e, rest);
        if places.len() > 1 && self.random.one_in(2) {
            let negative = self.random.one_in(2);
            self.put_at(input, places[0], negative, tie, Rest::Nothing);
        }
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
            let some = 1 + self.random.below(earlier.len() as u64) as usize;
            let count = if self.random.one_in(2) { earlier.len() } else { some };
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
        // Of narrow formats the last bit of all may be the only one that is cut.
        let last = last_bit(&a) + last_bit(&b);
        let end = lead - self.pick(|s| &s.gaps) + by;
        let end = if self.random.one_in(2) { end.max(last.min(lead)) } else { end };
        let negative = self.random.one_in(2);
        if doubled {
            // Few bits, or as many as a product has: there may be no smaller ones.
            let bits = if self.random.one_in(2) { 5 } else { (a.fraction_bits + b.fraction_bits + 1).min(40) };
            let found = (0..8).find_map(|_| {
                let one = u128::from(2 * self.random.below(1 << bits) + 1);
                Some((self.bench.split(negative, one, end)?, self.bench.split(!negative, one, end + 1)?))
            });
            if let Some((one, twice)) = found {
                for (operands, &place) in [one, one, twice].into_iter().zip(&places) {
                    (input.a[place], input.b[place]) = operands;
                }
            }
        } else if let [first, second, ..] = places[..]
            && let Some([one, other]) = self.nearly_alike(negative, end)
        {
            (input.a[first], input.b[first]) = one;
            (input.a[second], input.b[second]) = other;
        }
    }

    /// Operands of two products of different signs that differ in their last bit or two, of this exponent.
    fn nearly_alike(&mut self, negative: bool, end: i32) -> Option<[(u64, u64); 2]> {
        let Interface { a, b, .. } = self.bench.interface;
        (0..if self.is_narrow() { 24 } else { 8 }).find_map(|_| {
            let mut significand = |f: &FormatSpec| (1u64 << f.fraction_bits) + self.random.below(1 << f.fraction_bits);
            let product = u128::from(significand(&a)) * u128::from(significand(&b));
            // A product of as many bits as there are, perhaps of the other's exponent; or of few.
            let one = match self.random.below(4) {
                0 | 1 => product,
                2 => product << 1,
                _ => u128::from(2 * self.random.below(1 << 5) + 1),
            };
            let apart = if self.random.one_in(2) { 1 } else { 1 + u128::from(self.random.below(3)) };
            Some([self.bench.split(negative, one, end)?, self.bench.split(!negative, one + apart, end)?])
        })
    }

    /// Products as large as can be of one sign, then of the other, and an odd one or two among them: sums of few bits
    /// have as many as they can about the middle, and fewer at the end, where it shows what became of the last ones.
    pub(super) fn up_and_down(&mut self, input: &mut Input) {
        let Interface { a, b, k, .. } = self.bench.interface;
        // K may be cut otherwise than the model says.
        let order = match self.random.below(4) {
            0 => Pattern::Runs.blocks(k, k).concat(),
            1 => Pattern::EvenOdd.blocks(k, k).concat(),
            2 => Pattern::InterleavedPairs.blocks(k, k).concat(),
            _ => self.blocks.concat(),
        };
        let up = 1 + self.random.below(k as u64) as usize;
        let down = if self.random.one_in(2) { k - up } else { self.random.below((k - up) as u64 + 1) as usize };
        let negative = self.random.one_in(2);
        for (n, &place) in order[..up + down].iter().enumerate() {
            (input.a[place], input.b[place]) = (a.max_code(negative != (n >= up)), b.max_code(false));
        }
        let (low, high) = (last_bit(&a) + last_bit(&b), top(&a) + top(&b));
        // The smallest product, or of normal numbers one with its last bit.
        let odd = if self.normal_operands || self.random.one_in(2) {
            (a.emin() + b.emin(), Rest::Ones)
        } else {
            (low, Rest::Nothing)
        };
        let other = (self.random.range(low, high), Rest::Anything);
        let count = 1 + self.random.below(2) as usize;
        for (e, rest) in [odd, other].into_iter().take(count) {
            let (place, negative) = (order[self.random.below(up as u64) as usize], self.random.one_in(2));
            self.put_at(input, place, negative, e, rest);
        }
    }

    /// A step full of the largest significands, beside a c or earlier sums with bits where it cuts: sums of as many
    /// bits as there are.
    pub(super) fn full(&mut self, input: &mut Input, step: usize, negative: bool, e: i32) {
        let Interface { a, b, k, .. } = self.bench.interface;
        let mut put = |this: &mut Self, place: usize, e: i32| {
            let (ea, eb) = this.bench.shared(e);
            (input.a[place], input.b[place]) = (normal(&a, negative, ea, u64::MAX), normal(&b, false, eb, u64::MAX));
        };
        let members = self.blocks[step].clone();
        let fewer = if self.random.one_in(2) { 0 } else { self.random.below(3).min(members.len() as u64 - 1) as usize };
        for &place in &members[fewer..] {
            put(self, place, e);
        }
        let mut earlier = self.blocks[..step].concat();
        let below = if self.random.one_in(2) { Rest::Anything } else { Rest::Ones };
        if earlier.is_empty() || self.random.one_in(2) {
            return self.put_at(input, k, negative, e, below);
        }
        // One of nearly twice its power of two, or more.
        let (count, lower) = if self.random.one_in(2) {
            (1, self.random.range(0, 2))
        } else {
            (1 + self.random.below(earlier.len().min(12) as u64), self.random.range(0, 5))
        };
        for _ in 0..count {
            let place = earlier.swap_remove(self.random.below(earlier.len() as u64) as usize);
            put(self, place, e - lower);
        }
        if !earlier.is_empty() {
            let (place, opposite) = (earlier[self.random.below(earlier.len() as u64) as usize], self.random.one_in(2));
            let gap = self.random.range(0, self.kept + 2);
            self.put_at(input, place, opposite, e - gap, Rest::Anything);
        }
    }
}
