//! How many bits a block's sum has, and how large it is.

use super::super::black_box::Interface;
use super::{Range, Reach, above, power, to_nearest};
use crate::accumulate::GenericDot;
use crate::format::FormatSpec;
use crate::round::Rounding;

impl Reach {
    /// Whether every block's sum, unless too large for `d`, is a number that `kept` fraction bits hold.
    pub(in super::super) fn rounds_nothing(&self, x: &GenericDot, kept: i32, d: &FormatSpec) -> bool {
        let quantum = self.quantum(x);
        let mut bits = self.largest_sum.saturating_sub(quantum);
        if self.alone {
            bits = bits.min(self.products.width + 2);
        }
        if !self.scaled {
            bits = bits.min(self.sum_bits(x));
        }
        // A number below the smallest normal one by its last bit is still not rounded to that.
        let flushed = x.flush_results && !x.negative_zero && bits <= kept;
        bits <= kept + 1 && (flushed || quantum >= d.emin() - kept)
    }

    /// The bits of a block's sum, at most, from its leading one to the last that is kept.
    fn sum_bits(&self, x: &GenericDot) -> i32 {
        let floor = self.floor.unwrap_or(i32::MIN);
        let products_top = if x.normalise_products { self.products.largest - 1 } else { self.products.top };
        let addend_top = self.addend.map_or(i32::MIN, |c| c.top);
        let highest = floor.max(self.zero_top()).max(products_top).max(addend_top);
        if x.exact {
            return self.whole_bits(x, highest);
        }
        // Alignment starts at one of these.
        let lowest = self.lowest_without_addend().max(self.lowest_term()).min(highest);
        let first_cut = self.last.saturating_add(x.frac_bits as i32 + 1);
        let whole = (lowest < first_cut).then(|| self.whole_bits(x, highest.min(first_cut - 1)));
        let cut = (lowest.max(first_cut)..=highest).map(|e| self.cut_bits(x, e)).max();
        whole.max(cut).unwrap_or(i32::MAX)
    }

    /// The largest product whose exponent is `e` or less, and the largest addend, in units of 2^e.
    fn largest_at(&self, x: &GenericDot, e: i32) -> [f64; 2] {
        let at = |exponent: i32| self.peak as f64 * power(exponent - self.products.width);
        let above = self.high.saturating_sub(e);
        let product =
            if x.normalise_products { at(above).min(2.0 - power(-self.products.width - 1)) } else { at(above.min(0)) };
        let addend = |c: Range| (2.0 - power(-c.width)) * power(c.top.saturating_sub(e).min(0));
        [product, self.addend.map_or(0.0, addend)]
    }

    /// The bits where alignment starts at `e` or below and cuts nothing.
    fn whole_bits(&self, x: &GenericDot, e: i32) -> i32 {
        let [product, addend] = self.largest_at(x, e);
        // A term that has the last bit is not larger than its width allows; a later last bit leaves no more bits.
        let last = power(self.last.saturating_sub(e));
        let n = x.block as f64;
        let of_product = (n - 1.0) * product + product.min(self.peak as f64 * last) + addend;
        let of_addend = self.addend.map_or(0.0, |c| n * product + addend.min(power(c.width + 1) * last));
        above(of_product.max(of_addend)).saturating_sub(self.last.saturating_sub(e))
    }

    /// The bits where alignment starts at `e` and cuts.
    fn cut_bits(&self, x: &GenericDot, e: i32) -> i32 {
        let f = x.frac_bits as i32;
        let more = f64::from(u8::from(x.alignment != Rounding::TowardZero)) + 0.5 * f64::from(u8::from(x.sticky));
        let cut = |most: f64| ((most * power(f)).floor() + more) * power(-f);
        // The largest term may have no bit that is cut; others are at most half of it.
        let aligned = |most: f64, top: i32, width: i32| {
            if e.saturating_sub(top).max(0).saturating_add(width) <= f { most.max(cut(most / 2.0)) } else { cut(most) }
        };
        let [product, addend] = self.largest_at(x, e);
        let carry = i32::from(x.normalise_products);
        let products = aligned(product, self.products.top, self.products.width + carry) * x.block as f64;
        let addend = self.addend.map_or(0.0, |c| aligned(addend, c.top, c.width));
        above(products + addend).saturating_sub(self.unit(x, e).saturating_sub(e))
    }

    /// Whether terms whose exponents are all below `e` have a sum that is a subnormal result, aligned to the largest of
    /// them or to a floor.
    pub(in super::super) fn is_flushed_below(&self, x: &GenericDot, i: &Interface, e: i32, floor: i32) -> bool {
        if !x.flush_results || self.scaled || e > i.d.emin() {
            return false;
        }
        // In units of 2^(e - 1), aligned there or at the floor, the largest term.
        let aligned = |most: f64| {
            let at = |grid: f64| {
                let cut = match x.alignment {
                    Rounding::TowardZero => (most / grid).floor(),
                    r if to_nearest(r) => (most / grid + 0.5).floor(),
                    _ => (most / grid).ceil(),
                };
                (cut + if x.sticky { 0.5 } else { 0.0 }) * grid
            };
            let fine = -(x.frac_bits as i32);
            most.max(at(power(fine))).max(at(power(fine + floor - (e - 1))))
        };
        let width = -self.products.width;
        let product = if x.normalise_products { 2.0 - power(width) } else { self.peak as f64 * power(width) };
        let addend = self.addend.filter(|c| c.low < e).map_or(0.0, |c| aligned(2.0 - power(-c.width)));
        let most = (x.block as f64 * aligned(product) + addend) * power(e - 1 - i.d.emin());
        most < 1.0 - power(-self.kept)
    }
}
