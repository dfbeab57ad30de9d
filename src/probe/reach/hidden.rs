//! Bits that alignment cuts off and no result shows: the output's rounding takes them in the same direction, or the
//! sticky bit stands for them.

use super::super::bench::top;
use super::super::black_box::Interface;
use super::{Range, Reach};
use crate::accumulate::GenericDot;
use crate::format::FormatSpec;
use crate::round::Rounding;

/// Fraction bits below which the output's rounding turns: to nearest, halfway between two results.
fn rounded(x: &GenericDot, i: &Interface) -> i32 {
    let directed = [Rounding::TowardZero, Rounding::AwayFromZero, Rounding::Down, Rounding::Up];
    let halves = x.sticky && x.alignment == Rounding::TowardZero && !directed.contains(&x.output_rounding);
    x.output_bits.unwrap_or(i.d.fraction_bits) as i32 + i32::from(halves)
}

impl Reach {
    /// Whether what alignment cuts off never changes what the output's rounding makes of the sum, the floor's cut
    /// included: where the output's rounding turns there is no finer bit than alignment keeps.
    pub(in super::super) fn cut_is_rounding(&self, x: &GenericDot, i: &Interface) -> bool {
        let cut = self.floor.map(|e| e - x.frac_bits as i32);
        let finest = i.d.emin() - rounded(x, i);
        let other = self.addend.map_or(self.products.last, |c| c.last);
        let one_cut_at_floor = cut.is_none_or(|cut| cut <= finest && (self.alone || cut <= other));
        let no_cut_at_floor = cut.is_none_or(|cut| cut <= self.last);
        (self.terms_hide_cut(x, i) && (one_cut_at_floor || no_cut_at_floor))
            || (self.far_terms_hide_cut(x, i) && no_cut_at_floor)
    }

    /// Whether a block has two terms at most, which are as they were stored.
    fn two_terms(&self, x: &GenericDot) -> bool {
        // A zero product leaves its block's other term.
        let other = self.addend.map_or(self.products.last, |c| c.last);
        let zeros_cut = self.zeros.is_some() && !self.alone && self.zero_top() - x.frac_bits as i32 > other;
        let two = self.alone || x.block + usize::from(self.addend.is_some()) == 2;
        two && !self.scaled && !x.via_f16 && !zeros_cut
    }

    /// Whether what is cut off below the largest term, no floor being above that, changes no rounding: a product alone,
    /// or one of two terms, is cut in the direction in which it is rounded, or the sticky bit stands for what is cut.
    fn terms_hide_cut(&self, x: &GenericDot, i: &Interface) -> bool {
        // Toward zero or away from it, another term's sign would count.
        let directed: &[Rounding] = match self.alone {
            true => &[Rounding::TowardZero, Rounding::Down, Rounding::Up, Rounding::AwayFromZero],
            false => &[Rounding::Down, Rounding::Up],
        };
        let one_way = x.alignment == x.output_rounding && directed.contains(&x.alignment);
        // Of a negative sum cut to nothing no sign is left.
        let vanishes = matches!(x.alignment, Rounding::TowardZero | Rounding::Up);
        let same_direction = one_way && !x.sticky && !(x.negative_zero && vanishes);
        let sticky = x.sticky && x.alignment == Rounding::TowardZero;
        if !self.two_terms(x) || !(same_direction || sticky) {
            return false;
        }
        let (f, rounded) = (x.frac_bits as i32, rounded(x, i));
        // Bits are cut above this exponent.
        let depth = self.depth(x, i, self.last.max(i.d.emin() - rounded) + f);
        let width = self.products.width + i32::from(x.normalise_products);
        if self.alone {
            return f >= width || f >= depth + rounded;
        }
        // A term that loses bits is at most half of the other one.
        let width = (width + 2).max(self.addend.map_or(0, |c| c.width + 1));
        f >= depth + width && f > depth + rounded
    }

    /// Whether of two terms one is only cut where it is so far below the other that no more than its sign shows, or
    /// nothing of it.
    fn far_terms_hide_cut(&self, x: &GenericDot, i: &Interface) -> bool {
        let f = x.frac_bits as i32;
        let carry = i32::from(!x.normalise_products);
        let products = Range { width: self.products.width + 1 - carry, ..self.products };
        // A large term whose number has `bits` fraction bits, and a small one.
        let hides = |large: Range, bits: i32, small: Range| {
            // Twice the largest result, and what is beside it is too small to change that.
            let overflow = top(&i.d) + 1;
            let capped = self.depth(x, i, overflow) == 0 && f >= small.width + 2;
            let highest = if capped { large.top.min(overflow) } else { large.top };
            if highest - f <= small.last {
                return true;
            }
            // Nearer to the large term than the next number of its width, and than half a result.
            let depth = self.depth(x, i, small.last + f);
            let far = f >= small.width + (large.width + 2).max(depth + self.kept + 4);
            let nearest = [Rounding::NearestEven, Rounding::NearestAway].contains(&x.output_rounding);
            let is_result = bits <= self.kept && large.last >= self.last_result;
            far && (x.sticky || (nearest && is_result))
        };
        self.two_terms(x)
            && match self.addend {
                Some(c) => hides(products, products.width + carry, c) && hides(c, c.width, products),
                None => !self.alone && hides(products, products.width + carry, products),
            }
    }

    /// The least F of which the floor's cut, at the same place, is all that shows: below the largest term nothing is
    /// cut, or no rounding changed. None where F shows otherwise.
    pub(in super::super) fn least_width(&self, x: &GenericDot, i: &Interface) -> Option<u32> {
        let width = (self.products.width + i32::from(x.normalise_products)) as u32;
        let holds = |f: u32| {
            let whole = self.alone && !x.via_f16 && f >= width;
            let narrower = GenericDot { frac_bits: f, ..*x };
            whole || self.terms_hide_cut(&narrower, i) || self.far_terms_hide_cut(&narrower, i)
        };
        (0..=x.frac_bits).rev().take_while(|&f| holds(f)).last()
    }

    /// How far below its exponent the leading bit of a term can be, if that exponent is above `e`.
    fn depth(&self, x: &GenericDot, i: &Interface, e: i32) -> i32 {
        if x.flush_inputs {
            return 0;
        }
        let [a, b] = [&i.a, &i.b];
        let subnormal = |x: &FormatSpec, y: i32| if x.emin() + y > e { x.fraction_bits as i32 } else { 0 };
        let both = if a.emin() + b.emin() > e { (a.fraction_bits + b.fraction_bits) as i32 } else { 0 };
        let product = both.max(subnormal(a, top(b))).max(subnormal(b, top(a)));
        let addend = if self.addend.is_some() { subnormal(&i.c, 0).max(subnormal(&i.d, 0)) } else { 0 };
        addend.max(if x.normalise_products { 0 } else { product })
    }
}
