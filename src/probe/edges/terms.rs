//! Terms where they are wanted, for any formats and scales.

use super::super::bench::{around, top};
use super::super::black_box::{Input, Interface};
use super::super::generate::fraction;
use super::{Edges, Rest, last_bit};
use crate::format::FormatSpec;

impl Edges {
    /// A place of a step, or K for c.
    pub(super) fn place(&mut self, step: usize) -> usize {
        let members = &self.blocks[step];
        let n = self.random.below(members.len() as u64 + 1) as usize;
        if n == members.len() || self.random.one_in(8) { self.bench.interface.k } else { members[n] }
    }

    pub(super) fn put(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) {
        let k = self.place(step);
        self.put_at(input, k, negative, e, rest);
    }

    /// Sets a product of stored exponent e, or c.
    pub(super) fn put_at(&mut self, input: &mut Input, k: usize, negative: bool, e: i32, rest: Rest) {
        let i = self.bench.interface;
        let mut bits = |f: &FormatSpec| match rest {
            Rest::Nothing => 0,
            Rest::Ones => u64::MAX,
            Rest::Anything => fraction(&mut self.random, f.fraction_bits),
            Rest::Bit(at) if at < e => 1u64.checked_shl((f.fraction_bits as i32 - (e - at)) as u32).unwrap_or(0),
            Rest::From(at) if at < e => {
                u64::MAX.checked_shr((63 - f.fraction_bits as i32 + (e - at)) as u32).unwrap_or(0)
            }
            Rest::DownTo(at) if at < e => {
                u64::MAX.checked_shl((f.fraction_bits as i32 - (e - at)).max(0) as u32).unwrap_or(0)
            }
            Rest::Bit(_) | Rest::From(_) | Rest::DownTo(_) => 0,
        };
        if k == i.k {
            input.c = around(&i.c, negative, e, bits(&i.c));
            return;
        }
        let x = bits(&i.a);
        let y = if matches!(rest, Rest::Anything | Rest::Ones) { bits(&i.b) } else { 0 };
        let e = e - self.scaled(input, k, e);
        let ea = self.exponent_of_a(e);
        input.a[k] = around(&i.a, negative, ea, x);
        input.b[k] = around(&i.b, false, e - ea, y);
    }

    /// The exponent of the scales of product k: in a block without products, those that a product of
    /// exponent e wants.
    pub(super) fn scaled(&mut self, input: &mut Input, k: usize, e: i32) -> i32 {
        let (Some(rule), true) = (self.bench.interface.scale, self.aims_scales) else { return 0 };
        let n = k / rule.block.max(1);
        let Input { a, b, scale_a, scale_b, .. } = input;
        let (Some(of_a), Some(of_b)) = (scale_a.get_mut(n), scale_b.get_mut(n)) else { return 0 };
        if (0..a.len()).filter(|k| k / rule.block.max(1) == n).all(|k| a[k] == 0 && b[k] == 0) {
            let (low, high) = self.bench.product_range();
            let both = e - self.random.range(low, high);
            let (bottom, top) = (last_bit(&rule.format), top(&rule.format));
            let first = (both / 2 + self.random.range(-3, 3)).clamp(bottom, top);
            *of_a = around(&rule.format, false, first, 0);
            *of_b = around(&rule.format, false, (both - first).clamp(bottom, top), 0);
        }
        rule.format.decode(*of_a).exponent + rule.format.decode(*of_b).exponent
    }

    /// How a product's exponent is shared: evenly, or as unevenly as the formats allow.
    pub(super) fn exponent_of_a(&mut self, e: i32) -> i32 {
        let Interface { a, b, .. } = self.bench.interface;
        let normal = (a.emin().max(e - top(&b)), top(&a).min(e - b.emin()));
        let (low, high) = if self.normal_operands && normal.0 <= normal.1 && !self.random.one_in(8) {
            normal
        } else {
            (last_bit(&a).max(e - top(&b)), top(&a).min(e - last_bit(&b)))
        };
        match self.random.below(4) {
            0 => self.random.range(low, high.max(low)),
            1 => low,
            2 => high,
            _ => (e / 2).clamp(a.emin().max(e - top(&b)).min(top(&a)), top(&a)),
        }
    }

    /// Two terms that cancel, or almost.
    pub(super) fn cancelling(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) {
        let (k, l, products) = (self.place(step), self.place(step), self.bench.interface.k);
        if k < products && l < products && k != l && self.random.one_in(2) {
            self.cancel(input, [k, l], negative, e, rest);
        } else {
            self.put_at(input, k, negative, e, rest);
            let off = if self.random.one_in(2) { 0 } else { self.random.range(-3, 0) };
            self.put_at(input, l, !negative, e + off, Rest::Nothing);
        }
    }

    /// Two products of the same operands but for a sign.
    pub(super) fn cancel(&mut self, input: &mut Input, [k, l]: [usize; 2], negative: bool, e: i32, rest: Rest) {
        self.put_at(input, k, negative, e, rest);
        (input.a[l], input.b[l]) = (input.a[k], input.b[k]);
        let Interface { a, b, .. } = self.bench.interface;
        let (f, code) = if b.signed { (b, &mut input.b[l]) } else { (a, &mut input.a[l]) };
        let sign = 1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits);
        *code ^= if f.signed && *code != 0 { sign } else { 0 };
    }

    /// Large products of one sign at two places of a step, at all of them, or everywhere: sums above
    /// their terms' exponent, which is returned. Perhaps the largest ones.
    pub(super) fn fill(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) -> i32 {
        let i = self.bench.interface;
        let members = &self.blocks[step];
        let mut places: Vec<usize> = match self.random.below(4) {
            0 | 1 => members.iter().copied().take(2).collect(),
            2 => members.clone(),
            _ => (0..i.k).collect(),
        };
        let rest = if self.random.one_in(3) { Rest::Ones } else { rest };
        let largest = self.random.one_in(3);
        let under = !largest && self.random.one_in(3);
        if self.random.one_in(if under { 1 } else { 3 }) {
            places.push(i.k);
        }
        let lead = if largest { top(&i.a) + top(&i.b) } else { e };
        let sum = lead + self.random.range(0, places.len().ilog2() as i32 + 1);
        for &k in &places {
            if largest && k < i.k {
                (input.a[k], input.b[k]) = (i.a.max_code(negative), i.b.max_code(false));
            } else if under && k < i.k && !self.aims_scales {
                (input.a[k], input.b[k]) = self.nearly_two(negative, lead);
            } else {
                // c's last bit that is kept may be the sum's that is not.
                let bit = k == i.k && (under || self.random.one_in(2));
                let rest = if bit { Rest::Bit(lead - self.pick(|s| &s.gaps)) } else { rest };
                self.put_at(input, k, negative, lead, rest);
            }
        }
        if largest && self.random.one_in(2) {
            // And one of any size and bits: what a sum of narrow products has behind its last bits comes from few of
            // them.
            let (low, high) = self.bench.product_range();
            let (k, e, negative) = (self.random.below(i.k as u64), self.random.range(low, high), self.random.one_in(2));
            self.put_at(input, k as usize, negative, e, Rest::Anything);
        }
        sum
    }

    /// Zero times a large number, or one of any size, from either side: does it count in the largest exponent?
    pub(super) fn zero_product(&mut self, input: &mut Input) {
        let i = self.bench.interface;
        let mut any = || self.random.below(i.k as u64) as usize;
        let is_product = |input: &Input, k: usize| input.a[k] != 0 && input.b[k] != 0;
        let other = (0..8).map(|_| any()).find(|&k| is_product(input, k));
        // In a product's step where there is none.
        let step = self.blocks.iter().find(|step| other.is_some_and(|k| step.contains(&k)));
        let free: Vec<usize> = step.into_iter().flatten().copied().filter(|&k| !is_product(input, k)).collect();
        let k = if free.is_empty() { any() } else { free[any() % free.len()] };
        let (of_a, small, large) = if self.random.one_in(2) { (true, i.a, i.b) } else { (false, i.b, i.a) };
        let e = match (self.random.below(4), other) {
            (0, _) => self.random.range(top(&large) - 3, top(&large)),
            (1, _) | (_, None) => self.random.range(large.emin(), top(&large)),
            // Of an exponent that cuts that product.
            (_, Some(other)) => {
                let cut = self.bench.product_exponent(input, other) + self.random.range(-2, 3);
                cut + self.pick(|s| &s.gaps) - small.emin()
            }
        };
        let code = around(&large, false, e.clamp(large.emin(), top(&large)), 0);
        (input.a[k], input.b[k]) = if of_a { (0, code) } else { (code, 0) };
    }
}
