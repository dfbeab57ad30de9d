//! Whole inputs among the smallest results: where the alignment floor counts, sums vanish and results are flushed.

use super::super::bench::{around, normal};
use super::super::black_box::{Input, Interface};
use super::super::generate::negative_zero;
use super::{Edges, Rest, last_bit};
use crate::format::{FormatSpec, Overflow};
use crate::round::Rounding;

impl Edges {
    /// A product too small for a result, alone or one in every step, beside a zero c: what its sign makes of zero.
    pub(super) fn vanishing(&mut self, input: &mut Input) {
        let Interface { c, d, k, .. } = self.bench.interface;
        let negative = self.random.one_in(2);
        if !self.floors.is_empty() && self.random.one_in(4) {
            if self.random.one_in(2) {
                return self.together_a_result(input, negative);
            }
            return self.nearly_a_result(input, negative);
        }
        let places: Vec<usize> = if self.random.one_in(2) {
            vec![self.random.below(k as u64) as usize]
        } else {
            self.blocks.iter().map(|block| block[self.random.below(block.len() as u64) as usize]).collect()
        };
        // Results may have fewer bits than their format.
        let above = if self.random.one_in(2) { d.fraction_bits as i32 } else { 0 };
        // Or where alignment begins to leave nothing of it.
        let (e, rest) = if !self.floors.is_empty() && self.random.one_in(2) {
            let rest = if self.random.one_in(2) { Rest::Nothing } else { Rest::Anything };
            (self.pick(|s| &s.floors) + self.random.range(-2, 1), rest)
        } else {
            (last_bit(&d) + self.random.range(-4, above), Rest::Nothing)
        };
        for place in places {
            self.put_at(input, place, negative, e, rest);
        }
        if c.has_negative_zero() && self.random.one_in(2) {
            input.c = negative_zero(&c);
        }
    }

    /// A product that is less than the smallest result, or half of it, by hardly more than is cut at the floor, or
    /// greater by less than that, or by no more than products can be; alone, or beside one that is cut to nothing.
    fn nearly_a_result(&mut self, input: &mut Input, negative: bool) {
        let Interface { d, k, .. } = self.bench.interface;
        let mut place = self.random.below(k as u64) as usize;
        if self.normal_operands && self.random.one_in(2) {
            // A step after it would read its result as zero.
            place = self.blocks.last().map_or(place, |step| step[place % step.len()]);
        }
        let last = self.result_bit(d.emin()) - self.random.range(0, 1);
        let end = self.pick(|s| &s.floors) - self.random.range(0, 2);
        let n = last - end;
        let found = if self.random.one_in(2) {
            // By as little as there are products of: the floor may be another, further down.
            self.hardly_beside(negative, last)
        } else if (3..64).contains(&n) {
            let sign = if self.random.one_in(3) { 1 } else { -1 };
            let products = [1, 2, 3, 5, 7].into_iter().map(|by| ((1i128 << n) + sign * by).unsigned_abs());
            products.into_iter().find_map(|product| self.bench.split(negative, product, end))
        } else {
            return;
        };
        if let Some(operands) = found {
            (input.a[place], input.b[place]) = operands;
        }
        let step = self.blocks.iter().find(|step| step.contains(&place)).filter(|step| step.len() > 1);
        if let Some(step) = step.cloned().filter(|_| self.random.one_in(2)) {
            // Two sticky bits may be what is missing.
            let (other, negative) = (step[self.random.below(step.len() as u64) as usize], self.random.one_in(2));
            let end = end + self.random.range(-4, 1);
            if other != place {
                self.put_at(input, other, negative, end, Rest::Nothing);
            }
        }
    }

    /// Products of one step that together are a small result, or half of one, but for about what is cut of them at the
    /// floor: where subnormal operands are read as zero, or one product is no result, no fewer need show it.
    pub(super) fn together_a_result(&mut self, input: &mut Input, negative: bool) {
        let Interface { a, b, d, .. } = self.bench.interface;
        let wide: Vec<usize> = (0..self.blocks.len()).filter(|&n| self.blocks[n].len() > 1).collect();
        if wide.is_empty() || a.fraction_bits + b.fraction_bits > 50 {
            return;
        }
        let mut places = self.blocks[wide[self.random.below(wide.len() as u64) as usize]].clone();
        let last = places.swap_remove(self.random.below(places.len() as u64) as usize);
        let lead = self.result_bit(d.emin()) - self.random.range(0, 1);
        let e = match self.floor.filter(|_| self.random.one_in(2)) {
            Some(floor) => floor - self.random.range(1, 2),
            None => lead - self.random.range(1, 3),
        };
        let power = |e: i32| f64::from(e).exp2();
        // Few, or as many as it takes that one more is enough.
        let (mut sum, mut few) = (0.0, self.random.range(1, 2));
        let missing = |sum: f64| (sum / power(lead)).ceil() * power(lead) - sum;
        while !places.is_empty() && (few > 0 || missing(sum) > power(e + 1)) {
            let place = places.swap_remove(self.random.below(places.len() as u64) as usize);
            self.put_at(input, place, negative, e, Rest::Anything);
            sum += (a.to_f64(input.a[place]) * b.to_f64(input.b[place])).abs();
            few -= 1;
        }
        let end = self.pick(|s| &s.floors) + self.random.range(-2, 1);
        let more = f64::from(self.random.range(-3, 3)) * power(end);
        let missing = if negative { -missing(sum) - more } else { missing(sum) + more };
        if missing == 0.0 {
            return;
        }
        // Any operand of b that leaves one of a's range, and of a's the nearest.
        let eb = self.bench.shared(missing.abs().log2() as i32).1;
        let y = normal(&b, false, eb, self.random.next());
        if let Ok(x) = a.encode_f64(missing / b.to_f64(y), Rounding::NearestEven, Overflow::Saturate) {
            (input.a[last], input.b[last]) = (x, y);
        }
    }

    /// Products of one step, all of exponents below the floor, and what the floor and a lower one leave of them is a
    /// small result, or half of one, and one last bit more or less.
    pub(super) fn tied_at_floor(&mut self, input: &mut Input, negative: bool) {
        let Interface { a, b, d, .. } = self.bench.interface;
        let wide: Vec<usize> = (0..self.blocks.len()).filter(|&n| self.blocks[n].len() > 1).collect();
        let (Some(floor), false) = (self.floor, wide.is_empty() || a.fraction_bits + b.fraction_bits > 50) else {
            return;
        };
        let mut places = self.blocks[wide[self.random.below(wide.len() as u64) as usize]].clone();
        let last = places.swap_remove(self.random.below(places.len() as u64) as usize);
        let power = |e: i32| f64::from(e).exp2();
        let unit = power(self.pick(|s| &s.floors) - self.random.range(0, 2));
        let result = power(self.result_bit(d.emin()) - self.random.range(0, 1));
        let e = floor - self.random.range(1, 2);
        let (ea, eb) = self.bench.shared(e.max(a.emin() + b.emin()));
        let mut operand = |f: &FormatSpec, negative: bool, e: i32| {
            let (rest, subnormal) =
                (self.random.next(), e <= f.emin() && !self.normal_operands && self.random.one_in(2));
            around(f, negative, e - i32::from(subnormal), rest)
        };
        let (mut sum, mut missing) = (0.0, result);
        while missing > power(e + 1)
            && let Some(place) = places.pop()
        {
            (input.a[place], input.b[place]) = (operand(&a, negative, ea), operand(&b, false, eb));
            let product = (a.to_f64(input.a[place]) * b.to_f64(input.b[place])).abs();
            sum += (product / unit).floor() * unit;
            missing = (sum / result).ceil() * result - sum;
        }
        let by = if self.random.one_in(2) { [1.0, -1.0, 2.0] } else { [-1.0, 1.0, -2.0] };
        let units = by.into_iter().map(|by| missing / unit + by).filter(|&units| units > 0.0);
        let found = units.filter_map(|units| self.bench.split(negative, units as u128, unit.log2() as i32)).next();
        (input.a[last], input.b[last]) = found.unwrap_or((input.a[last], input.b[last]));
    }

    /// Products below the smallest normal result whose sum is one, or a product of 2 or more times its exponent's
    /// power, and bits where their exponent cuts: bits that a floor at that result cuts too, or not.
    pub(super) fn barely_normal(&mut self, input: &mut Input, step: usize, negative: bool) {
        let emin = self.bench.interface.d.emin();
        let mut places = self.blocks[step].clone();
        let mut beside = Vec::new();
        if self.random.one_in(4) {
            // Or one product just below it, or c, which rounds to it where enough bits are cut.
            let n = (self.pick(|s| &s.gaps) + self.random.range(-1, 1)).clamp(1, 100);
            if self.random.one_in(2) {
                let c = self.bench.interface.c;
                let zeros = (c.fraction_bits as i32 + 1 - n).max(0) as u32;
                input.c = around(&c, negative, emin - 1, u64::MAX.checked_shl(zeros).unwrap_or(0));
                if self.random.one_in(2) {
                    let (negative, by) = (self.random.one_in(2), self.random.range(-2, 1));
                    self.put_at(input, places[0], negative, emin - n + by, Rest::Nothing);
                }
            } else if let Some(operands) = self.bench.split(negative, (1 << n) - 1, emin - n) {
                (input.a[places[0]], input.b[places[0]]) = operands;
            }
            return;
        }
        // Two bits of either sign may leave a sticky bit, or none.
        for _ in 0..self.random.below(3) {
            if places.len() > 2 {
                beside.push(places.swap_remove(self.random.below(places.len() as u64) as usize));
            }
        }
        // Up to twice each term's power, and c may be one of them.
        let mut below = self.random.range(1, (places.len() + 1).ilog2().max(1) as i32);
        let rest = match self.random.below(3) {
            0 => Rest::Anything,
            1 => Rest::Bit(emin - below - self.pick(|s| &s.gaps)),
            _ => Rest::Nothing,
        };
        if self.random.one_in(2) {
            below = 1;
            let place = places[0];
            (input.a[place], input.b[place]) = self.carrying(negative, emin - below);
            beside.extend(places.get(1).filter(|_| beside.is_empty()));
        } else {
            for place in places {
                self.put_at(input, place, negative, emin - below, rest);
            }
        }
        let end = emin - below - self.pick(|s| &s.gaps);
        for place in beside {
            let (negative, by) = (self.random.one_in(2), self.random.range(-2, 1));
            self.put_at(input, place, negative, end + by, Rest::Nothing);
        }
        if self.random.one_in(3) {
            // A subnormal c has the exponent of normal ones, or its own.
            let (c, rest) = (input.a.len(), if self.random.one_in(2) { Rest::Ones } else { Rest::Anything });
            let below = if self.random.one_in(2) { below } else { 1 };
            self.put_at(input, c, negative, emin - below, rest);
        }
    }

    /// Products as large as the floor leaves room for, one small bit where it cuts, and perhaps half of the smallest
    /// result: many of them make a normal sum.
    pub(super) fn below_floor(&mut self, input: &mut Input, step: usize, negative: bool) {
        let Interface { a, b, d, k, .. } = self.bench.interface;
        let Some(floor) = self.floor else { return };
        let (end, e) = (self.pick(|s| &s.floors) + self.random.range(-2, 1), floor - self.random.range(1, 2));
        let mut places = self.blocks[step].clone();
        if self.random.one_in(4) {
            places.push(k);
        }
        let half = self.result_bit(d.emin()) - self.random.range(0, 1);
        let small = [Some(end), Some(half).filter(|_| self.random.one_in(3))];
        for e in small.into_iter().flatten() {
            let place = places.swap_remove(self.random.below(places.len() as u64) as usize);
            let negative = self.random.one_in(2);
            self.put_at(input, place, negative, e, Rest::Nothing);
            if places.is_empty() {
                return;
            }
        }
        // 1.5, 1.75 and so on leave bits of the result free; others make any sum.
        let few = self.random.one_in(2);
        let (ea, eb) = self.bench.shared(e);
        for place in places {
            if place == k {
                self.put_at(input, place, negative, e, Rest::Bit(e - 1));
                continue;
            }
            let mut significand = |f: &FormatSpec| {
                let (one, ones) = (1u64 << f.fraction_bits, self.random.range(1, 3).min(f.fraction_bits as i32));
                if few { 2 * one - (one >> ones) } else { one + one / 2 + self.random.below(one.div_ceil(2)) }
            };
            let (x, y) = (significand(&a), significand(&b));
            (input.a[place], input.b[place]) = (normal(&a, negative, ea, x), normal(&b, false, eb, y));
        }
    }

    /// A product of which c leaves a subnormal result, of either's sign.
    pub(super) fn barely_subnormal(&mut self, input: &mut Input, step: usize, negative: bool) {
        let Interface { a, b, c, d, .. } = self.bench.interface;
        let product = self.blocks[step][0];
        let (lowest, highest) = self.bench.product_range();
        let lowest = if self.normal_operands { a.emin() + b.emin() } else { lowest };
        let reach = c.fraction_bits as i32;
        let e = self.random.range(d.emin().max(lowest), (d.emin() + reach).max(lowest)).min(highest);
        // c is just above the product, or just below it.
        let under = i32::from(self.random.one_in(2));
        let last = (e - under - reach).max(last_bit(&c)).max(last_bit(&d)).min(d.emin() - 1);
        let left = self.random.range(last, d.emin() - 1);
        self.put_at(input, product, negative, e, Rest::Nothing);
        if under > 0 {
            let zeros = (reach - (e - 1 - left)).max(0) as u32;
            input.c = around(&c, !negative, e - 1, u64::MAX.checked_shl(zeros).unwrap_or(0));
        } else {
            self.put_at(input, input.a.len(), !negative, e, Rest::Bit(left));
        }
    }

    /// A subnormal c, a product that with it is the smallest normal result and hardly more or less, and one about as
    /// small as what is more or less.
    pub(super) fn up_to_normal(&mut self, input: &mut Input, step: usize, negative: bool) {
        let Interface { c, d, .. } = self.bench.interface;
        let mut places = self.blocks[step].clone();
        let product = places.swap_remove(self.random.below(places.len() as u64) as usize);
        let missing = 1 + self.random.below(8);
        let from = if self.random.one_in(2) && !self.floors.is_empty() {
            self.pick(|s| &s.floors)
        } else {
            d.emin() - self.pick(|s| &s.gaps)
        };
        let end = from + self.random.range(-3, 1);
        let apart = last_bit(&c) - end;
        if 2 * missing > 1 << c.fraction_bits || !(1..64).contains(&apart) {
            return;
        }
        input.c = around(&c, negative, c.emin() - 1, ((1 << c.fraction_bits) - missing) << 1);
        let found = (0..8).find_map(|_| {
            let (whole, by) = (u128::from(missing) << apart, u128::from(1 + self.random.below(4)));
            self.bench.split(negative, if self.random.one_in(3) { whole.abs_diff(by) } else { whole + by }, end)
        });
        if let Some(operands) = found {
            (input.a[product], input.b[product]) = operands;
        }
        if let Some(&other) = places.get(self.random.below(places.len().max(1) as u64) as usize) {
            let (negative, e) = (self.random.one_in(2), end + self.random.range(-2, 2));
            self.put_at(input, other, negative, e, Rest::Nothing);
        }
    }
}
