//! Whole inputs made for one rule: what shows it, and nothing that hides it.

use super::super::bench::{around, normal, top};
use super::super::black_box::{Input, Interface};
use super::super::generate::negative_zero;
use super::{Edges, Rest, Spot, last_bit};
use crate::format::FormatSpec;

impl Edges {
    /// Two small terms of different signs where alignment cuts, beside a power of two, an earlier one or none.
    pub(super) fn two_small(&mut self, input: &mut Input, step: usize, lead: i32) {
        let k = self.bench.interface.k;
        let mut places = self.blocks[step].clone();
        if places.len() < 2 || self.random.one_in(3) {
            places.push(k);
        }
        let mut take = |places: &mut Vec<usize>| places.swap_remove(self.random.below(places.len() as u64) as usize);
        let small = [take(&mut places), take(&mut places)];
        let earlier: Vec<usize> = self.blocks[..step].concat();
        let large = match self.random.below(4) {
            0 => None,
            1 if !places.is_empty() => Some(places[0]),
            _ => earlier.get(self.random.below(earlier.len().max(1) as u64) as usize).or(places.first()).copied(),
        };
        let at_floor = !self.floors.is_empty() && self.random.one_in(2);
        let (lead, end) = if at_floor {
            let emin = self.bench.interface.d.emin();
            (self.result_bit(emin) + self.random.range(-1, self.kept), self.pick(|s| &s.floors))
        } else {
            (lead, lead - self.pick(|s| &s.gaps))
        };
        if let Some(place) = large {
            let negative = self.random.one_in(2);
            self.put_at(input, place, negative, lead, Rest::Nothing);
        }
        let (negative, by) = (self.random.one_in(2), self.random.range(-1, 1));
        let apart = self.random.range(0, 1);
        self.put_at(input, small[0], negative, end + by, Rest::Nothing);
        self.put_at(input, small[1], !negative, end + by - apart, Rest::Nothing);
        let c = self.bench.interface.c;
        if input.c == 0 && c.has_negative_zero() && self.random.one_in(2) {
            input.c = negative_zero(&c);
        }
    }

    /// A large product, and ones from about the last bit of its result down to where it cuts: c, or what two earlier
    /// products left. Rounded up, or with a sticky bit, they are a power of two and more.
    pub(super) fn cut_ones(&mut self, input: &mut Input, step: usize, lead: i32) {
        let end = lead - self.pick(|s| &s.gaps) + self.random.range(-2, 0);
        let power = (self.result_bit(lead) + self.random.range(-1, 2)).max(end + 1);
        let members = &self.blocks[step];
        let place = members[self.random.below(members.len() as u64) as usize];
        let [negative, opposite] = [(); 2].map(|()| self.random.one_in(2));
        self.put_at(input, place, negative, lead, Rest::Nothing);
        let mut earlier = self.blocks[..step].concat();
        if earlier.len() > 1 && self.random.one_in(2) {
            for (negative, e) in [(opposite, power), (!opposite, end)] {
                let place = earlier.swap_remove(self.random.below(earlier.len() as u64) as usize);
                self.put_at(input, place, negative, e, Rest::Nothing);
            }
        } else {
            self.put_at(input, self.bench.interface.k, opposite, power - 1, Rest::DownTo(end));
        }
    }

    /// A sum halfway between two results, or nearly so: by a bit about the last one that a sum keeps.
    pub(super) fn tie(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let i = self.bench.interface;
        let mut places = self.blocks[step].clone();
        if self.random.one_in(2) {
            places.insert(0, i.k);
        }
        // Just below a power of two the results lie twice as close.
        let under = self.random.one_in(2);
        let half = self.result_bit(lead - i32::from(under)) - 1;
        let rest = lead - self.pick(|s| &s.sums) + self.random.range(-2, 1);
        let mut terms = vec![(negative, lead), (negative != under, half), (self.random.one_in(2), rest)];
        if self.random.one_in(2) {
            terms.insert(1, (negative != under, half + 1));
        }
        for ((negative, e), k) in terms.into_iter().zip(places) {
            self.put_at(input, k, negative, e, Rest::Nothing);
        }
    }

    /// A sum just beside a tie, or beside a result: by the last bit of a product, or by one bit beside a product that
    /// is a tie itself.
    pub(super) fn beside_tie(&mut self, input: &mut Input, lead: i32) {
        // Just below a power of two the results lie twice as close.
        let Interface { a, b, .. } = self.bench.interface;
        let under = i32::from(self.random.one_in(2));
        let tie = self.result_bit(lead - under) - 1;
        let subnormal = lead < self.bench.interface.d.emin();
        let lead = lead.max(tie + 1);
        // Where the model begins to cut, or anywhere that a product about the tie has bits: it may be another width.
        let end = if subnormal && !self.floors.is_empty() && self.random.one_in(2) {
            self.pick(|s| &s.floors) - self.random.range(0, 1)
        } else if self.random.one_in(2) {
            let gap = (0..3).map(|_| self.pick(|s| &s.gaps)).find(|gap| lead - gap < tie).unwrap_or(0);
            lead - gap - self.random.range(0, 1)
        } else {
            tie - self.random.range(1, (a.fraction_bits + b.fraction_bits + 1) as i32)
        };
        // Anywhere, or in one step: a c that is added to the step's sum leaves the tie to its products.
        let step = self.random.below(2 * self.blocks.len() as u64) as usize;
        let mut places =
            self.blocks.get(step).filter(|step| step.len() > 1).cloned().unwrap_or_else(|| self.blocks.concat());
        while places.len() > 3 {
            places.remove(self.random.below(places.len() as u64) as usize);
        }
        let Some(product) = places.pop().filter(|_| (1..64).contains(&(tie - end))) else { return };
        if self.random.one_in(3)
            && let Some(operands) = self.tied(tie)
        {
            (input.a[product], input.b[product]) = operands;
            let (beside_c, negative) = (self.random.one_in(2), self.random.one_in(2));
            let other = places.first().copied().filter(|_| !beside_c).unwrap_or(input.a.len());
            return self.put_at(input, other, negative, end, Rest::Nothing);
        }
        let c = self.bench.interface.c;
        if (c.fraction_bits as i32) > self.kept && self.random.one_in(3) {
            // Or c is a tie of results that have fewer bits, in the step that it enters.
            let step = &self.blocks[0];
            let place = step[self.random.below(step.len() as u64) as usize];
            let half = 1u64 << (c.fraction_bits as i32 - self.kept - 1);
            let fraction = (self.random.below(1 << c.fraction_bits) & !(2 * half - 1)) | half;
            let (negative, opposite) = (self.random.one_in(2), self.random.one_in(2));
            input.c = around(&c, negative, lead, fraction);
            return self.put_at(input, place, opposite, end, Rest::Nothing);
        }
        if self.random.one_in(3) {
            // Or the product is the power of two, and c the tie and the rest.
            let rest = self.one_or_all(end);
            let (negative, opposite) = (self.random.one_in(2), self.random.one_in(2));
            self.put_at(input, product, negative, lead, Rest::Nothing);
            return self.put_at(input, input.a.len(), opposite, tie, rest);
        }
        self.power_of_two(input, &places, lead);
        let negative = self.random.one_in(2);
        // Rounded in one direction a sum shows on which side of a result it is.
        let of_result = self.random.one_in(if self.directed { 2 } else { 8 });
        self.product_beside(input, product, negative, tie + i32::from(of_result), end);
    }

    /// Earlier sums of large products just below a power of two, with the last bit there: one more makes a tie of them,
    /// which a small product beside it decides.
    pub(super) fn carried_tie(&mut self, input: &mut Input, step: usize, negative: bool) {
        let Interface { a, b, d, .. } = self.bench.interface;
        let (earlier, members) = (self.blocks[..step].concat(), self.blocks[step].clone());
        if earlier.len() < 2 {
            return;
        }
        // As large as there are, or as results hold of so many.
        let highest = (top(&a) + top(&b)).min(top(&d) - (earlier.len() as f64).log2() as i32 - 2);
        let lead = if self.random.one_in(2) { highest } else { highest - self.random.range(0, 6) };
        let (ea, eb) = self.bench.shared(lead);
        let large = (normal(&a, negative, ea, u64::MAX), normal(&b, false, eb, u64::MAX));
        let product = (a.to_f64(large.0) * b.to_f64(large.1)).abs();
        let next = |count: usize| ((count + 1) as f64 * product).log2().floor() as i32;
        let crossed = |&count: &usize| (count as f64 * product) < f64::from(next(count)).exp2();
        let counts: Vec<usize> = (1..earlier.len()).filter(crossed).collect();
        let (Some(&small), false) = (members.get(1), counts.is_empty()) else { return };
        let count = counts[self.random.below(counts.len() as u64) as usize];
        for &place in earlier[..count].iter().chain(&members[..1]) {
            (input.a[place], input.b[place]) = large;
        }
        let (tie, opposite) = (self.result_bit(next(count) - 1), self.random.one_in(2));
        self.put_at(input, earlier[count], negative != opposite, tie, Rest::Nothing);
        let end = if self.random.one_in(2) {
            last_bit(&a) + last_bit(&b)
        } else {
            next(count) - self.pick(|s| &s.gaps) + self.random.range(-2, 1)
        };
        let opposite = self.random.one_in(2);
        self.put_at(input, small, opposite, end, Rest::Nothing);
    }

    /// A product just beside an odd multiple of 2^e: by one bit of exponent `end`, or a few.
    fn product_beside(&mut self, input: &mut Input, place: usize, negative: bool, e: i32, end: i32) {
        // Of narrow formats few of these are products.
        let found = (0..if self.is_narrow() { 12 } else { 4 }).find_map(|_| {
            let whole = u128::from(2 * self.random.below(8) + 1) << (e - end);
            let magnitude = if self.random.one_in(2) { whole + 1 } else { whole - 1 };
            self.bench.split(negative, magnitude, end)
        });
        // Of as many bits as products have, few are one beside it.
        let found = found.or_else(|| self.hardly_beside(negative, e));
        if let Some(operands) = found {
            (input.a[place], input.b[place]) = operands;
        }
    }

    /// The last bit that is kept or the first that is not; with all bits behind it, it is rounded to nearest, too.
    const fn one_or_all(&mut self, end: i32) -> Rest {
        if self.random.one_in(2) { Rest::Bit(end) } else { Rest::From(end) }
    }

    /// Two products that cancel, a small term where their exponent cuts bits off, and one beside it that makes the
    /// result normal.
    pub(super) fn left_over(&mut self, input: &mut Input, at: Spot) {
        let i = self.bench.interface;
        let Spot { step, negative, mut lead, rest } = at;
        let mut places = self.blocks[step].clone();
        let products = top(&i.a) + top(&i.b);
        // The smallest product there is, or the smallest c, with products that begin to cut it; or any that these cut.
        let (of_c, end) = match self.random.below(4) {
            0 => (true, last_bit(&i.c)),
            1 => (false, last_bit(&i.a) + last_bit(&i.b)),
            _ => (false, lead - self.pick(|s| &s.gaps) + self.random.range(-3, 1)),
        };
        // Or one that an earlier step's result can be.
        let earlier = self.blocks.len() > 1 && self.random.one_in(2);
        let mut end = if earlier { end.max(if self.flushes { i.d.emin() } else { last_bit(&i.d) }) } else { end };
        if (of_c || end < lead) && self.random.one_in(2) {
            lead = products.min(end + self.pick(|s| &s.gaps) + self.random.range(0, 4));
        }
        // Or the last bit of a larger one, where subnormal operands are read as zero and none is so small: beside the
        // largest products, which may be the only ones that cut it.
        let narrow = self.is_narrow();
        let of_larger = !of_c && !earlier && self.random.one_in(if narrow { 2 } else { 4 });
        let rest = if of_larger && self.random.one_in(3) { Rest::Ones } else { rest };
        if of_larger && (narrow || self.random.one_in(2)) {
            lead = products;
            end = lead - self.pick(|s| &s.gaps) + self.random.range(-1, 1);
        }
        if places.len() < 2 {
            return self.cancelling(input, step, negative, lead, rest);
        }
        if self.random.one_in(4) {
            // Or a c of which they cut the last bits.
            let (gap, e) = (self.pick(|s| &s.gaps), self.random.range(0, i.c.fraction_bits as i32));
            let lead = products.min(lead.max(i.c.emin() + gap - e));
            let cut = lead - gap + self.random.range(-1, 1);
            let bits = if self.random.one_in(3) { Rest::Anything } else { self.one_or_all(cut) };
            let [k, l] = [(); 2].map(|()| places.remove(self.random.below(places.len() as u64) as usize));
            self.cancel(input, [k, l], negative, lead, rest);
            let negative = self.random.one_in(2);
            return self.put_at(input, i.k, negative, cut + e, bits);
        }
        let beside = (end + self.random.range(1, self.kept)).max(i.d.emin());
        let [k, l] = [(); 2].map(|()| places.remove(self.random.below(places.len() as u64) as usize));
        self.cancel(input, [k, l], negative, lead, rest);
        if of_c {
            let negative = self.random.one_in(2);
            self.put_at(input, i.k, negative, end, Rest::Nothing);
        } else {
            places.push(i.k);
        }
        if earlier {
            let other = self.random.below(self.blocks.len() as u64) as usize;
            let members = &self.blocks[other];
            places = vec![members[self.random.below(members.len() as u64) as usize]];
            places.retain(|place| ![k, l].contains(place));
        }
        for (e, is_end) in [(end, true), (beside, false)].into_iter().skip(usize::from(of_c)) {
            if !places.is_empty() {
                let (n, negative) = (self.random.below(places.len() as u64) as usize, self.random.one_in(2));
                let place = places.swap_remove(n);
                if is_end && of_larger && place < i.k && self.random.one_in(2) {
                    // Of as many bits as operands have: few of those numbers are products.
                    let (ea, eb) = self.bench.shared(e + (i.a.fraction_bits + i.b.fraction_bits) as i32);
                    let [x, y] = [self.random.next(), self.random.next()].map(|bits| bits | 1);
                    (input.a[place], input.b[place]) = (normal(&i.a, negative, ea, x), normal(&i.b, false, eb, y));
                    continue;
                }
                if is_end && of_larger {
                    let bits = self.random.range(0, (i.a.fraction_bits + i.b.fraction_bits).min(20) as i32);
                    let one = u128::from(2 * self.random.below(1 << bits) + 1);
                    if let Some(operands) = self.bench.split(negative, one, e).filter(|_| place < i.k) {
                        (input.a[place], input.b[place]) = operands;
                        continue;
                    }
                }
                self.put_at(input, place, negative, e, Rest::Nothing);
            }
        }
    }

    /// A lone product of a result's bits, or a tie's, and one more about the last that alignment keeps: there may be no
    /// product small enough to be that bit, where subnormal operands are read as zero. Or one whose other bits cancel.
    pub(super) fn alone(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let Interface { a, b, d, .. } = self.bench.interface;
        let widest = (a.fraction_bits + b.fraction_bits + 1) as i32;
        let (last, end) = if !self.floors.is_empty() && self.random.one_in(2) {
            (self.result_bit(d.emin()), self.pick(|s| &s.floors) + self.random.range(-1, 0))
        } else {
            let last = self.result_bit(lead);
            (last, lead - self.pick(|s| &s.gaps) + self.random.range(-1, 0))
        };
        let apart = last - self.random.range(0, 1) - end;
        let mut members = self.blocks[step].clone();
        let place = members.swap_remove(self.random.below(members.len() as u64) as usize);
        if self.random.one_in(3) {
            // Or all of it but that bit is taken away again.
            let most = a.fraction_bits.max(b.fraction_bits).max(1) as i32;
            let power = if self.random.one_in(2) { most } else { self.random.range(1, most) };
            let magnitude = if self.random.one_in(2) { (1u128 << power) + 1 } else { (1 << power) - 1 };
            if let Some(operands) = self.bench.split(negative, magnitude, end) {
                (input.a[place], input.b[place]) = operands;
                members.push(self.bench.interface.k);
                let other = members[self.random.below(members.len() as u64) as usize];
                return self.put_at(input, other, !negative, end + power, Rest::Nothing);
            }
        }
        if !(1..=widest).contains(&apart) {
            return self.put_at(input, place, negative, lead, Rest::Anything);
        }
        let found = (0..8).find_map(|_| {
            let whole = u128::from(1 + self.random.below(1 << (widest - apart).min(self.kept + 1))) << apart;
            let magnitude = if self.random.one_in(2) { whole + 1 } else { whole - 1 };
            self.bench.split(negative, magnitude, end)
        });
        if let Some(operands) = found {
            (input.a[place], input.b[place]) = operands;
        }
    }

    /// A product that is not written as 1 <= s < 2, and one bit of another term where its exponent, or the one it has
    /// normalised, begins to cut: the result has all of the product's bits, so a directed rounding shows the bit, and a
    /// tie any other.
    pub(super) fn beside_unnormalised(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let i = self.bench.interface;
        let gap = self.pick(|s| &s.widths);
        // An earlier step leaves no bit below its result's last one, and there may be few products small enough.
        let (least, above) =
            (last_bit(&i.d).max(last_bit(&i.a) + last_bit(&i.b)), if self.is_narrow() { 8 } else { 2 });
        let e = if self.random.one_in(2) { least + gap + self.random.range(-1, above) } else { lead };
        let mut members = self.blocks[step].clone();
        let product = members.swap_remove(self.random.below(members.len() as u64) as usize);
        let above = if !self.normal_operands && self.random.one_in(2) {
            // Of a subnormal operand, or of two.
            let mut below = |f: &FormatSpec| self.random.range(1, f.fraction_bits as i32);
            let (of_a, of_b) = (below(&i.a), below(&i.b));
            let (of_a, of_b) = [(of_a, 0), (0, of_b), (of_a, of_b)][self.random.below(3) as usize];
            let ea = if of_a > 0 { i.a.emin() - of_a } else { i.a.emin().max(e - i.b.emin()) };
            let eb = if of_b > 0 { i.b.emin() - of_b } else { i.b.emin().max(e - i.a.emin()) };
            input.a[product] = around(&i.a, negative, ea, 0);
            input.b[product] = around(&i.b, false, eb, 0);
            -of_a - of_b
        } else {
            (input.a[product], input.b[product]) = self.carrying(negative, e);
            1
        };
        let e = self.bench.product_exponent(input, product);
        let end = e - gap + above * i32::from(self.random.one_in(2)) + self.random.range(-1, 0);
        let other = self.other(step, members);
        // Just below a power of two the results lie twice as close.
        let under = i32::from(self.random.one_in(2));
        let half = self.result_bit(e + above - under) - 1;
        let opposite = self.random.one_in(2);
        match self.random.one_in(if self.directed { 2 } else { 4 }) {
            // Half of the result's last bit, and the one in question.
            false if (1..64).contains(&(half - end)) => {
                if other < i.k && self.random.one_in(2) {
                    self.product_beside(input, other, opposite, half, end);
                } else if self.random.one_in(4) {
                    // Less than that, of ones only: rounded up at the one exponent or the other it is the half.
                    self.put_at(input, other, opposite, half - 1, Rest::DownTo(end));
                } else {
                    let rest = self.one_or_all(end);
                    self.put_at(input, other, opposite, half, rest);
                }
            }
            _ => self.put_at(input, other, opposite, end, Rest::Nothing),
        }
    }

    /// The place of a term beside one of a step's: c, one of the step's others or of an earlier step's products.
    fn other(&mut self, step: usize, others: Vec<usize>) -> usize {
        let mut places: Vec<usize> = self.blocks[..step].iter().flatten().copied().chain(others).collect();
        if self.aligns_c || places.is_empty() {
            places.push(self.bench.interface.k);
        }
        places[self.random.below(places.len() as u64) as usize]
    }

    /// A product of all the bits there are, one of its last bits short of a tie, and a term that lacks a last bit or
    /// has one too many to make the tie: alignment by the product's exponent, or by that it has normalised, decides.
    pub(super) fn nearly_tied(&mut self, input: &mut Input, at: Spot) {
        let Interface { a, b, .. } = self.bench.interface;
        let half = self.result_bit(at.lead) - 1;
        let apart = (a.fraction_bits + b.fraction_bits) as i32 - self.kept - self.random.range(0, 2);
        let last = half - apart.max(1);
        let mut members = self.blocks[at.step].clone();
        let place = members.swap_remove(self.random.below(members.len() as u64) as usize);
        let short = self.random.one_in(2);
        let found = (0..8).find_map(|_| {
            let lead = 1u128 << (self.kept + 1);
            let tie = (lead + 2 * u128::from(self.random.below(lead as u64 / 2)) + 1) << (half - last);
            self.bench.split(at.negative, if short { tie - 1 } else { tie + 1 }, last)
        });
        let Some(operands) = found else { return };
        (input.a[place], input.b[place]) = operands;
        let gap = self.pick(|s| &s.widths);
        let end = self.bench.product_exponent(input, place) - gap + self.random.range(-1, 1);
        let other = self.other(at.step, members);
        // What makes the tie, but for one bit where the other's exponent begins to cut.
        let (negative, whole) = (at.negative == short, 1u128 << (last - end).clamp(1, 100));
        let magnitude = if self.random.one_in(2) { whole - 1 } else { whole + 1 };
        if self.bench.set_value(input, other, negative, magnitude, end).is_none() {
            self.put_at(input, other, negative, last - 1, Rest::Ones);
        }
    }

    /// Operands of a product of 2 or more times 2^e, of no more bits than a result has, or of one more: a tie.
    pub(super) fn carrying(&mut self, negative: bool, e: i32) -> (u64, u64) {
        let Interface { a, b, .. } = self.bench.interface;
        let (ea, eb) = self.bench.shared(e);
        // The carry is one of the result's bits.
        let bits = if self.random.one_in(2) { self.kept } else { self.random.range(2, self.kept - 1) };
        let of_a = self.random.range(1.max(bits - b.fraction_bits as i32), (bits - 1).min(a.fraction_bits as i32));
        // 1.5 and more, odd in this many fraction bits.
        let mut significand = |f: &FormatSpec, bits: i32| {
            let last = 1u64 << (f.fraction_bits as i32 - bits).clamp(0, f.fraction_bits as i32);
            (self.random.next() & last.wrapping_neg()) | last | (1 << f.fraction_bits >> 1)
        };
        let (x, y) = (significand(&a, of_a), significand(&b, bits - of_a));
        (normal(&a, negative, ea, x), normal(&b, false, eb, y))
    }

    /// Operands of a product halfway between two results.
    fn tied(&mut self, half: i32) -> Option<(u64, u64)> {
        let (lead, negative) = (1u64 << (self.kept + 1), self.random.one_in(2));
        (0..8).find_map(|_| {
            let odd = lead + 2 * self.random.below(lead / 2) + 1;
            self.bench.split(negative, odd.into(), half)
        })
    }

    /// A power of two, perhaps with a result's last bit set, as c or as products at these places.
    fn power_of_two(&mut self, input: &mut Input, places: &[usize], lead: i32) {
        let i = self.bench.interface;
        let (bit, negative) = (self.result_bit(lead), self.random.one_in(2));
        let last_bit = Some(bit).filter(|&bit| bit < lead && self.random.one_in(2));
        match *places {
            [first, ref others @ ..] if self.random.one_in(2) => {
                self.put_at(input, first, negative, lead, Rest::Nothing);
                if let (Some(last_bit), Some(&second)) = (last_bit, others.first()) {
                    self.put_at(input, second, negative, last_bit, Rest::Nothing);
                }
            }
            _ => self.put_at(input, i.k, negative, lead, last_bit.map_or(Rest::Nothing, Rest::Bit)),
        }
    }
}
