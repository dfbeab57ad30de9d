//! FDA with an adder of limited width: units that do not exist, to ask whether one could tell.

use super::fused::{self, FusedDotAdd};
use super::{Accumulator, Dot, Finish, Refusal, Signature};
use crate::num::{Fixed, Num, Term, shift};
use crate::round::Rounding;
use crate::trace::Label;

/// How an adder deals with sums that outgrow its terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Adder {
    /// It is as wide as the sum ever gets.
    #[default]
    Wide,
    /// It has this many carry bits above a term's integer bits, and wraps around beyond them (in
    /// two's complement, its sign bit apart).
    Wraps {
        /// The carry bits.
        carry_bits: u32,
    },
    /// It has this many carry bits, and the sum of all terms but one is normalised to `1 <= s < 2`
    /// before the last one is added, if it has reached 2: the bits shifted out are lost.
    Normalises {
        /// The carry bits.
        carry_bits: u32,
        /// The term added last.
        last: LastTerm,
    },
}

/// Which of an adder's terms comes last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LastTerm {
    /// c.
    #[default]
    C,
    /// The last product.
    Product,
}

/// [`FusedDotAdd`] with an adder of limited width.
///
/// ```
/// use gemmulate::prelude::*;
/// use gemmulate::accumulate::{Adder, NarrowSum};
/// let wraps = NarrowSum { adder: Adder::Wraps { carry_bits: 2 }, ..NarrowSum::new(FusedDotAdd::VOLTA) };
/// let narrow = MmaUnit::custom::<f32, f32, f32, f32>(wraps, Shape::new(1, 1, 4))?;
/// let ones = [1.875f32; 4];
/// assert_eq!(narrow.try_dot_add(&ones, &ones, 1.0)?, 15.0625);
/// assert_eq!(narrow.try_dot_add(&ones, &ones, 1.9375)?, -16.0);
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NarrowSum {
    /// Widths and rules other than the adder's.
    pub base: FusedDotAdd,
    /// Whether products are normalised to `1 <= s < 2` before alignment.
    pub normalise_products: bool,
    /// The adder.
    pub adder: Adder,
}

impl NarrowSum {
    /// `base` with an adder that is wide enough.
    pub const fn new(base: FusedDotAdd) -> Self {
        Self { base, normalise_products: false, adder: Adder::Wide }
    }

    fn product(&self, dot: &Dot<'_>, k: usize) -> Term {
        let p = dot.product(k);
        if self.normalise_products { p.normalised() } else { p }
    }

    /// `units`, modulo the adder's width.
    fn wrapped(&self, units: i128, carry_bits: u32) -> i128 {
        let integer_bits = if self.normalise_products { 1 } else { 2 };
        let width = carry_bits.saturating_add(self.base.frac_bits).saturating_add(integer_bits);
        let above = 127u32.saturating_sub(width);
        units << above >> above
    }

    /// The sum in units of `2^(e_max - F)`, and e_max, which normalisation may have raised.
    fn sum(&self, mut terms: Vec<Term>, e_max: i32) -> (i128, i32) {
        let f = self.base.frac_bits.min(fused::MAX_FRAC_BITS) as i32;
        let align =
            |term: &Term, e_max: i32| fused::align(term, e_max - f, Rounding::TowardZero, &mut (), || Label::Addend);
        let total = |terms: &[Term]| terms.iter().map(|t| align(t, e_max)).sum::<i128>();
        match self.adder {
            Adder::Wide => (total(&terms), e_max),
            Adder::Wraps { carry_bits } => (self.wrapped(total(&terms), carry_bits), e_max),
            Adder::Normalises { carry_bits, last } => {
                if last == LastTerm::Product {
                    terms.rotate_right(1);
                }
                let Some((last, others)) = terms.split_last() else { return (0, e_max) };
                let partial = Fixed::from_units(self.wrapped(total(others), carry_bits), e_max - f);
                let grown = if partial.is_zero() { 0 } else { (partial.leading_exponent() - e_max).max(0) };
                let (magnitude, _) = shift(partial.magnitude, -grown);
                let partial = if partial.negative { -(magnitude as i128) } else { magnitude as i128 };
                let e_max = e_max + grown;
                (self.wrapped(partial + align(last, e_max), carry_bits), e_max)
            }
        }
    }
}

impl Accumulator for NarrowSum {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        let base = &self.base;
        if let Some(d) = fused::special_verdict(dot, Some(&dot.c), base.nan, &mut ()) {
            return d;
        }
        let products: Vec<Term> = (0..dot.len()).map(|k| self.product(dot, k)).collect();
        let c = FusedDotAdd::addend(&dot.c, base.subnormal_c);
        let largest = fused::largest_exponent(dot, base.floor, base.zero_products, products.iter().copied(), Some(&c));
        let Some(e_max) = largest else { return dot.out.zero() };
        let (units, e_max) = self.sum([products, vec![c]].concat(), e_max);
        let finish = Finish {
            rounding: base.output.rounding(dot.out),
            frac_bits: base.output.frac_bits,
            ieee_overflow: false,
            negative_zero: false,
        };
        let unit = e_max - base.frac_bits.min(fused::MAX_FRAC_BITS) as i32;
        finish.apply(Fixed::from_units(units, unit), dot.out)
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        self.base.check(signature)
    }
}
