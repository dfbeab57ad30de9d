//! One input of each kind.

use super::super::bench::{normal, one, top};
use super::super::black_box::Input;
use super::{Generator, fraction, negative_zero};
use crate::format::FormatSpec;
use crate::random::Random;

impl Generator {
    pub(super) fn random_bits(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        for k in 0..i.k {
            (input.a[k], input.b[k]) = (self.bits(&i.a), self.bits(&i.b));
        }
        input.c = self.bits(&i.c);
        input
    }

    /// Pairs of products that cancel, or almost.
    pub(super) fn cancellation(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.between((-6, 6), (-10, 10));
        let flip = |f: &FormatSpec, x: u64| {
            let sign = 1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits);
            if f.signed { x ^ sign } else { x }
        };
        for k in 0..i.k {
            if k > 0 && !self.random.one_in(3) {
                let from = self.random.below(k as u64) as usize;
                input.a[k] = flip(&i.a, input.a[from]);
                input.b[k] = input.b[from];
                if self.random.one_in(4) {
                    input.b[k] ^= 1 << i.b.ignored_low_bits;
                }
            }
        }
        input
    }

    pub(super) fn specials(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.between((-3, 3), (-3, 3));
        for _ in 0..=self.random.below(3) {
            let k = self.random.below(i.k as u64 + 1) as usize;
            let special = |random: &mut Random, f: &FormatSpec| {
                let infinity = f.infinity_code(random.one_in(2)).unwrap_or(f.max_code(random.one_in(2)));
                match random.below(5) {
                    0 => f.nan_code(crate::special::NanRule::Quiet).unwrap_or(0),
                    1 | 2 => infinity,
                    3 => f.max_code(random.one_in(2)),
                    _ => 0,
                }
            };
            if k == i.k {
                input.c = special(&mut self.random, &i.c);
            } else {
                input.a[k] = special(&mut self.random, &i.a);
                if self.random.one_in(3) {
                    input.b[k] = special(&mut self.random, &i.b);
                }
            }
        }
        input
    }

    pub(super) fn sparse(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.between((-8, 8), (-16, 16));
        for k in 0..i.k {
            if !self.random.one_in(4) {
                input.a[k] = 0;
                if self.random.one_in(2) {
                    input.b[k] = 0;
                }
            }
        }
        if self.random.one_in(2) {
            input.c = 0;
        }
        input
    }

    pub(super) fn tiny(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.between((i.a.emin().min(i.b.emin()), i.a.emin().max(i.b.emin()) + 8), (0, 0));
        for k in 0..i.k {
            if self.random.one_in(3) {
                input.a[k] = self.subnormal(&i.a);
            }
            if self.random.one_in(3) {
                input.b[k] = self.subnormal(&i.b);
            }
        }
        input.c = if self.random.one_in(2) {
            self.subnormal(&i.c)
        } else {
            let low = i.c.emin();
            self.number(&i.c, low, low + 30)
        };
        input
    }

    /// A subnormal number or zero.
    fn subnormal(&mut self, f: &FormatSpec) -> u64 {
        if !f.subnormals {
            return one(f);
        }
        let fraction = fraction(&mut self.random, f.fraction_bits) & ((1 << f.fraction_bits) - 1);
        let sign = u64::from(f.signed && self.random.one_in(2)) << (f.exponent_bits + f.fraction_bits);
        (sign | fraction) << f.ignored_low_bits
    }

    /// Short significands whose exponents are about an output's width apart.
    pub(super) fn ties(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let (low, high) = self.bench.common_range();
        let p = i.d.fraction_bits as i32;
        let lead = self.random.range((low + p).min(high), high.min(20 + p / 2));
        for k in 0..=i.k {
            if self.random.one_in(3) {
                continue;
            }
            let gap = match self.random.below(3) {
                0 => self.random.range(0, 3),
                1 => self.random.range(p - 3, p + 5),
                _ => self.random.range(0, p + 12),
            };
            let magnitude = self.random.below(3) + 1;
            let negative = self.random.one_in(2);
            let _ = self.bench.set_value(&mut input, k, negative, magnitude.into(), lead - gap);
        }
        input
    }

    /// A product of a subnormal and a large number, whose exponent is far above its value, beside
    /// others and c of about that value.
    pub(super) fn unnormalised(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let k = self.random.below(i.k as u64) as usize;
        let in_a = self.random.one_in(2);
        let (small, large) = if in_a { (i.a, i.b) } else { (i.b, i.a) };
        let (x, y) = (self.subnormal(&small), self.number(&large, 0, top(&large)));
        (input.a[k], input.b[k]) = if in_a { (x, y) } else { (y, x) };
        let (s, l) = (small.decode(x), large.decode(y));
        let lead = s.exponent + l.exponent + (s.significand.max(1).ilog2() as i32) - s.frac_bits as i32;
        for _ in 0..self.random.below(3) {
            let k = self.random.below(i.k as u64) as usize;
            let (sign, magnitude) = (self.random.one_in(2), 1 + u128::from(self.random.below(6)));
            let e = lead - self.random.range(-2, 40);
            if input.a[k] == 0 {
                let _ = self.bench.set_value(&mut input, k, sign, magnitude, e);
            }
        }
        if self.random.one_in(2) {
            let e = (lead - self.random.range(-2, 40)).max(i.c.emin());
            input.c = self.number(&i.c, e, e);
        }
        input
    }

    /// One or two of the largest terms, which may cancel, and one or two of the smallest, subnormal
    /// ones included: the widest alignments show only here.
    pub(super) fn extremes(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let last = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
        let (product_top, c_top) = (top(&i.a) + top(&i.b), top(&i.c).min(top(&i.d)));
        let (product_bottom, c_bottom) = (last(&i.a) + last(&i.b), last(&i.c));
        let cap = (top(&i.d) - 1).min(product_top);
        let below = if self.random.one_in(3) { self.random.range(0, 5) } else { 0 };
        let lead = cap.min(if self.random.one_in(2) { c_top } else { cap }) - below;
        let negative = self.random.one_in(2);
        let place = |random: &mut Random| random.below(i.k as u64 + 1) as usize;
        for n in 0..1 + self.random.below(4) {
            let k = place(&mut self.random);
            let magnitude = if self.random.one_in(2) { 1 } else { 1 + u128::from(self.random.below(3)) };
            // They cancel, or add up to more than one alone can be.
            let flip = n % 2 == 1 && self.random.one_in(2);
            let _ = self.bench.set_value(&mut input, k, negative != flip, magnitude, lead);
        }
        for _ in 0..1 + self.random.below(2) {
            let k = place(&mut self.random);
            let bottom = if k == i.k { c_bottom } else { product_bottom };
            // Within reach of the widest alignments, or at the very bottom.
            let bottom = bottom.max(lead - if self.random.one_in(2) { 30 } else { 80 });
            let plain = self.random.one_in(2);
            let magnitude = if plain { 1 } else { 1 + u128::from(self.random.below(4)) };
            let sign = self.random.one_in(2);
            let e = bottom + if plain { 0 } else { self.random.range(0, 6) };
            let _ = self.bench.set_value(&mut input, k, sign, magnitude, e);
        }
        input
    }

    /// One to four terms, c among them or not.
    pub(super) fn few_terms(&mut self) -> Input {
        let k = self.bench.interface.k;
        let places: Vec<usize> = (0..=self.random.below(3)).map(|_| self.random.below(k as u64) as usize).collect();
        let with_c = !self.random.one_in(3);
        self.terms_at(&places, with_c)
    }

    /// Products of one sign at all places, none much smaller than others, and no c: normal numbers, sums of as many
    /// bits as such sums have.
    pub(crate) fn one_sign(&mut self) -> Input {
        let (low, high) = self.bench.common_range();
        let k = self.bench.interface.k;
        let middle = low.max(-40) + (high - low).min(24) / 2;
        let lead = (high.min(40) - k.ilog2() as i32 - 2).max(middle) - self.random.range(0, 2);
        let (reach, everywhere) = (self.random.range(0, 2), Vec::from_iter(0..k));
        let mut input = self.products(&everywhere, lead, reach);
        let a = self.bench.interface.a;
        let sign = a.max_code(true) ^ a.max_code(false);
        let flip = if self.random.one_in(2) { sign } else { 0 };
        input.a.iter_mut().for_each(|code| *code = *code & !sign | flip);
        input
    }

    /// Non-zero products at these places, and c or not: normal numbers, sums in the middle range.
    pub(crate) fn terms_at(&mut self, places: &[usize], with_c: bool) -> Input {
        let i = self.bench.interface;
        let (low, high) = self.bench.common_range();
        let reach = self.random.range(0, 50);
        let lead = self.random.range(low.max(-40) + (high - low).min(24) / 2, high.min(40) - 2);
        let mut input = self.products(places, lead, reach);
        if with_c {
            let e = lead + if self.random.one_in(3) { self.random.range(0, 30) } else { -self.random.range(0, reach) };
            input.c = self.number(&i.c, e.max(i.c.emin()), e.max(i.c.emin()));
        }
        input
    }

    /// Products of normal numbers, their exponents up to `reach` below `lead`.
    fn products(&mut self, places: &[usize], lead: i32, reach: i32) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        for &k in places {
            let e = (lead - self.random.range(0, reach)).max(self.bench.product_range().0);
            let (negative, f) = (self.random.one_in(2), fraction(&mut self.random, i.a.fraction_bits));
            let half = self.random.range(-2, 2) + e.div_euclid(2);
            let (low, high) = (i.a.emin().max(e - top(&i.b)), top(&i.a).min(e - i.b.emin()));
            let half = half.clamp(low, high.max(low));
            input.a[k] = normal(&i.a, negative, half, f);
            let f = fraction(&mut self.random, i.b.fraction_bits);
            input.b[k] = normal(&i.b, false, e - half, f);
        }
        input
    }

    /// Products around the output's smallest numbers, c zero or as small.
    pub(super) fn floor(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let (low, _) = self.bench.product_range();
        let low = low - (i.a.fraction_bits + i.b.fraction_bits) as i32;
        let base = (i.d.emin() - i.d.fraction_bits as i32).max(low);
        let above = if self.random.one_in(2) { 6 } else { i.d.fraction_bits as i32 + 4 };
        for _ in 0..=self.random.below(4) {
            let k = self.random.below(i.k as u64) as usize;
            let e = base + self.random.range(-24, above);
            let (negative, magnitude) = (self.random.one_in(2), self.random.below(3) + 1);
            let _ = self.bench.set_value(&mut input, k, negative, magnitude.into(), e.max(low));
        }
        input.c = match self.random.below(3) {
            0 => self.subnormal(&i.c),
            1 => self.number(&i.c, i.d.emin(), i.d.emin() + 3),
            _ => 0,
        };
        if self.random.one_in(2) {
            // A zero product with a large operand: does it count in the largest exponent?
            let k = self.random.below(i.k as u64) as usize;
            if input.a[k] == 0 {
                input.b[k] = self.number(&i.b, -20, top(&i.b));
            }
        }
        input
    }

    /// Sums and products near the largest numbers, of the output and of f32.
    pub(super) fn overflow(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let limit = if self.random.one_in(2) { top(&i.d) } else { 127 };
        for _ in 0..=self.random.below(4) {
            let k = self.random.below(i.k as u64) as usize;
            let e = limit + self.random.range(-2, 1);
            let ea = (e / 2 + self.random.range(-3, 3)).max(e - top(&i.b)).min(top(&i.a));
            input.a[k] = self.number(&i.a, ea, ea);
            input.b[k] = self.number(&i.b, e - ea, e - ea);
        }
        let p = i.d.fraction_bits as i32;
        let gap = match self.random.below(3) {
            0 => 0,
            1 => self.random.range(p, p + 3),
            _ => 200,
        };
        if gap < 100 {
            input.c = self.number(&i.c, top(&i.c) - gap, top(&i.c) - gap);
        }
        input
    }

    pub(super) fn zeros(&mut self) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        let signed = |random: &mut Random, f: &FormatSpec| {
            let sign = u64::from(f.has_negative_zero() && random.one_in(2));
            sign << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits)
        };
        let mostly_negative = self.random.one_in(2);
        for k in 0..i.k {
            input.a[k] = if mostly_negative && i.a.has_negative_zero() {
                negative_zero(&i.a)
            } else {
                signed(&mut self.random, &i.a)
            };
            if self.random.one_in(2) {
                input.b[k] = self.number(&i.b, -6, 6);
                if mostly_negative {
                    input.b[k] = normal(&i.b, false, 0, 0);
                }
            }
        }
        input.c = if mostly_negative && i.c.has_negative_zero() {
            negative_zero(&i.c)
        } else {
            signed(&mut self.random, &i.c)
        };
        if self.random.one_in(3) {
            let k = self.random.below(i.k as u64) as usize;
            input.a[k] = normal(&i.a, true, i.a.emin(), 0);
            input.b[k] = normal(&i.b, false, i.b.emin(), 0);
        }
        input
    }
}
