//! Bits that alignment cuts off and no result shows: the output's rounding takes them in the same direction, or the
//! sticky bit stands for them.

use super::super::bench::top;
use super::super::black_box::Interface;
use super::{Range, Reach, keeps_values_in_f16, to_nearest};
use crate::accumulate::{CPosition, GenericDot, SubnormalC};
use crate::format::{F16, FormatSpec};
use crate::round::Rounding;

/// Fraction bits below which the output's rounding turns: to nearest, halfway between two results.
fn rounded(x: &GenericDot, i: &Interface) -> i32 {
    let halves = x.sticky && x.alignment == Rounding::TowardZero && to_nearest(x.output_rounding);
    x.output_bits.unwrap_or(i.d.fraction_bits) as i32 + i32::from(halves)
}

/// Whether a term alone, or one of two, is cut in the direction in which the output is rounded, or a sticky bit stands
/// for what is cut.
fn follows_rounding(x: &GenericDot, alone: bool) -> bool {
    use Rounding::{AwayFromZero, Down, TowardZero, Up};
    // Toward zero or away from it, another term's sign would count.
    let directed: &[Rounding] = if alone { &[TowardZero, Down, Up, AwayFromZero] } else { &[Down, Up] };
    let one_way = x.alignment == x.output_rounding && directed.contains(&x.alignment);
    // Of a negative sum cut to nothing no sign is left.
    let vanishes = matches!(x.alignment, TowardZero | Up);
    (one_way && !x.sticky && !(x.negative_zero && vanishes)) || (x.sticky && x.alignment == TowardZero)
}

/// Whether operands that go by way of f16 keep their values, with exponents that are as near to these as before or
/// nearer.
fn keeps_values(x: &GenericDot, i: &Interface) -> bool {
    !x.via_f16 || [&i.a, &i.b].iter().all(|f| keeps_values_in_f16(f) && f.emin() >= F16.emin())
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

    /// Whether a block has two terms at most, of the values that were stored.
    fn two_terms(&self, x: &GenericDot, i: &Interface) -> bool {
        // A zero product leaves its block's other term.
        let other = self.addend.map_or(self.products.last, |c| c.last);
        let zeros_cut = self.zeros.is_some() && !self.alone && self.zero_top() - x.frac_bits as i32 > other;
        let two = self.alone || x.block + usize::from(self.addend.is_some()) == 2;
        two && !self.scaled && keeps_values(x, i) && !zeros_cut
    }

    /// Whether what is cut off below the largest term, no floor being above that, changes no rounding: a product alone,
    /// or one of two terms, is cut in the direction in which it is rounded, or the sticky bit stands for what is cut.
    fn terms_hide_cut(&self, x: &GenericDot, i: &Interface) -> bool {
        if !self.two_terms(x, i) || !follows_rounding(x, self.alone) {
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
        let nearest = to_nearest(x.output_rounding);
        // A large term, its last bit `width` below its exponent, and a small one that is less than 2^bits of its last
        // bit, cut or not.
        let hides = |large: Range, width: i32, small: Range, bits: i32| {
            // Twice the largest result, and what is beside it is too small to change that.
            let overflow = top(&i.d) + 1;
            let capped = self.depth(x, i, overflow) == 0 && f > bits;
            let highest = if capped { large.top.min(overflow) } else { large.top };
            if highest - f <= small.last {
                return true;
            }
            // Nearer to the large term than the next number of its width, and than where results turn, which just
            // below a power of two lie twice as close.
            let depth = self.depth(x, i, small.last + f);
            let far = f >= bits - 1 + width.max(depth + self.kept + 1 + i32::from(nearest));
            let keeps_sign = x.sticky || small.smallest >= highest - f;
            let is_result = large.width <= self.kept && large.last >= self.last_result;
            far && (keeps_sign || (nearest && is_result))
        };
        let width = self.products.width + i32::from(x.normalise_products);
        // All ones times all ones leaves room to be rounded up; c does not.
        let bits = self.products.width + 2 + i32::from(i.a.fraction_bits.min(i.b.fraction_bits) == 0);
        let products = Range { width: self.products.width + 1, ..self.products };
        let cuts_itself = width > f || self.addend.is_some_and(|c| c.width > f);
        self.two_terms(x, i)
            && !cuts_itself
            && match self.addend {
                Some(c) => {
                    let bits_of_c = c.width + 1 + i32::from(x.alignment != Rounding::TowardZero);
                    hides(products, width, c, bits_of_c) && hides(c, c.width, products, bits)
                }
                None => !self.alone && hides(products, width, products, bits),
            }
    }

    /// Whether a floor at `e` cuts nothing that a result shows: the terms that may all be below it are one, or a
    /// product and an addend, and what of them has bits that it cuts is rounded in one way or is too small to show but
    /// its sign.
    pub(in super::super) fn hides_floor(&self, x: &GenericDot, i: &Interface, e: i32) -> bool {
        use Rounding::{AwayFromZero, Down, TowardZero, Up};
        if self.sticky_hides_floor(x, i, e) {
            return true;
        }
        let product = self.products.low < e;
        let addend = self.addend.filter(|c| c.low < e);
        if product && (x.block != 1 || self.scaled || x.via_f16) {
            return false;
        }
        let cut = e.saturating_sub(x.frac_bits as i32);
        let one = !product || addend.is_none();
        if one && cut <= i.d.emin() - rounded(x, i) && follows_rounding(x, true) {
            return true;
        }
        let width = self.products.width + i32::from(x.normalise_products);
        if product && one && x.flush_results && !x.negative_zero && cut <= e - 1 - width {
            // Smaller products are flushed, and those of the exponent below are cut nowhere.
            return self.is_flushed_below(x, i, e - 1, e);
        }
        // What has a bit below 2^cut is smaller than 2^most, cut or not.
        let (most, smallest) = match addend {
            // Rounded up, and with a sticky bit, all ones are that power and more.
            Some(c) if !product => (cut + c.width + i32::from(x.alignment != TowardZero), c.smallest),
            // All ones times all ones leaves room for both.
            _ => (
                cut + self.products.width + 1 + i32::from(i.a.fraction_bits.min(i.b.fraction_bits) == 0),
                self.products.smallest,
            ),
        };
        let nearest = to_nearest(x.output_rounding);
        // Results turn at multiples of this power, and so, with the other term, do sums.
        let turn = self.last_result - i32::from(nearest);
        let beside = addend.filter(|_| product);
        let keeps_sign = x.sticky || x.alignment == AwayFromZero || smallest >= cut;
        let on_results = beside.is_none_or(|c| c.width <= self.kept && c.last >= self.last_result);
        let one_way = x.alignment == x.output_rounding && [Down, Up].contains(&x.alignment);
        let no_sign = nearest || one_way || (one && x.output_rounding == TowardZero);
        most <= beside.map_or(turn, |c| turn.min(c.last)) && (keeps_sign || (on_results && no_sign && !x.negative_zero))
    }

    /// Whether of two terms at most one is cut at a floor at `e` where a result shows, a sticky bit standing for what
    /// is cut: two terms that both have bits below that place are so small that their sum is flushed.
    fn sticky_hides_floor(&self, x: &GenericDot, i: &Interface, e: i32) -> bool {
        let cut = e.saturating_sub(x.frac_bits as i32);
        let stands = x.sticky && x.alignment == Rounding::TowardZero && cut <= i.d.emin() - rounded(x, i);
        // Rounded up, a small sum must still be subnormal.
        if !stands || !x.flush_results || x.negative_zero || self.scaled || self.kept == 0 {
            return false;
        }
        // What has a bit below 2^cut is smaller than 2 to this power; cut, it is not larger.
        let product = cut + self.products.width + 1;
        let most = match (x.block, self.addend) {
            (1 | 2, None) => product,
            (1, Some(c)) => product.max(cut + c.width),
            _ => return false,
        };
        most + 1 < i.d.emin()
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
    pub(in super::super) fn depth(&self, x: &GenericDot, i: &Interface, e: i32) -> i32 {
        if x.flush_inputs {
            return 0;
        }
        let [a, b] = [&i.a, &i.b];
        let subnormal = |x: &FormatSpec, y: i32| if x.emin() + y > e { x.fraction_bits as i32 } else { 0 };
        let both = if a.emin() + b.emin() > e { (a.fraction_bits + b.fraction_bits) as i32 } else { 0 };
        let product = both.max(subnormal(a, top(b))).max(subnormal(b, top(a)));
        let stored = self.addend.is_some() && x.subnormal_c == SubnormalC::Stored;
        let c = if stored && x.c == CPosition::With { subnormal(&i.c, 0) } else { 0 };
        let previous = if stored && !x.flush_results { subnormal(&i.d, 0) } else { 0 };
        c.max(previous).max(if x.normalise_products { 0 } else { product })
    }
}
