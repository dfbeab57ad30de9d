//! Accumulators: how a unit turns `c + a_0 b_0 + ... + a_{K-1} b_{K-1}` into one number.
//!
//! Every accumulator is a plain value with public fields, one per property that differs between
//! units or that sources dispute, and one total reference method, [`Accumulator::dot_add`], in exact
//! integers. What it computes can also be stated as data, a [`Recipe`].

mod exact;
mod fused;
mod generic;
mod group_scaled;
pub(crate) mod ieee;
mod narrow;
mod pairwise;
mod recipe;
mod round_down;
mod sequential;
mod software;

pub use exact::{ExactSum, Intermediate};
pub use fused::{Chain, Floor, FusedDotAdd, Interleave, Output, SubnormalC, ZeroProducts};
pub use generic::{CPosition, GenericDot, Pattern};
pub use group_scaled::GroupScaledDot;
pub use narrow::{Adder, LastTerm, NarrowSum};
pub use pairwise::PairwiseSum;
pub use recipe::Recipe;
pub(crate) use round_down::MAX_REACH;
pub use round_down::{BlockedC, GroupedRoundDown, OverflowBesideC, RoundDown};
pub use sequential::SequentialFma;
pub use software::SoftwareDot;

use crate::format::FormatSpec;
use crate::num::{Fixed, Num, Term};
use crate::round::{self, Rounding};
use crate::trace::{Event, Trace};
use core::fmt::Debug;
use std::sync::Arc;

/// The operands of one dot-add, unpacked: numbers as formats decode them. Products are those that all operands, and
/// all scales there are, have a number for.
#[derive(Clone, Copy, Debug)]
pub struct Dot<'a> {
    /// The row of A: K numbers.
    pub a: &'a [Num],
    /// The column of B: K numbers.
    pub b: &'a [Num],
    /// The addend.
    pub c: Num,
    /// The scales of A's elements, one per element (repeated within a scale block); empty when the
    /// unit is not block-scaled.
    pub scale_a: &'a [Num],
    /// The scales of B's elements, likewise.
    pub scale_b: &'a [Num],
    /// The format of the result, and of results passed from step to step.
    pub out: &'a FormatSpec,
}

impl<'a> Dot<'a> {
    /// How many products there are.
    pub fn len(&self) -> usize {
        let scaled = |n: usize, scales: &[Num]| if scales.is_empty() { n } else { n.min(scales.len()) };
        scaled(scaled(self.a.len().min(self.b.len()), self.scale_a), self.scale_b)
    }

    /// True for K = 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same operands restricted to products `from..to`, as far as there are such, with another c.
    #[must_use]
    pub fn part(&self, from: usize, to: usize, c: Num) -> Dot<'a> {
        let to = to.min(self.len());
        let from = from.min(to);
        let scales = |s: &'a [Num]| if s.is_empty() { s } else { &s[from..to] };
        Dot {
            a: &self.a[from..to],
            b: &self.b[from..to],
            c,
            scale_a: scales(self.scale_a),
            scale_b: scales(self.scale_b),
            out: self.out,
        }
    }

    /// The exact product k, with its block scales if there are any.
    ///
    /// # Panics
    /// When a or b has no number k; [`Dot::len`] says how many all operands have.
    pub fn product(&self, k: usize) -> Term {
        let mut p = Term::product(&self.a[k], &self.b[k]);
        for scale in [self.scale_a.get(k), self.scale_b.get(k)].into_iter().flatten() {
            p.exponent += scale.exponent;
            p.significand = p.significand.wrapping_mul(scale.significand.into());
            p.frac_bits += scale.frac_bits;
        }
        p
    }
}

/// Why an accumulator cannot be that of a unit, in words: what [`Error::Unit`](crate::Error::Unit) then says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self(why.into())
    }
}

/// What an accumulator may assume of the unit that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Signature {
    /// Products per dot-add.
    pub k: usize,
    /// Format of A.
    pub a: FormatSpec,
    /// Format of B.
    pub b: FormatSpec,
    /// Format of C.
    pub c: FormatSpec,
    /// Format of D.
    pub d: FormatSpec,
    /// Format of the block scales.
    pub scale: Option<FormatSpec>,
}

/// A way to compute a dot-add.
///
/// The method must be total: any operands give a number, without panic. Implement the trait for a
/// type of your own to run a unit nobody has listed; without a [`Recipe`] it runs at the rate of
/// its own method.
///
/// ```
/// use gemmulate::prelude::*;
/// use gemmulate::accumulate::Dot;
/// use gemmulate::num::Num;
/// /// Forgets the products.
/// #[derive(Clone, Debug)]
/// struct OnlyC;
/// impl Accumulator for OnlyC {
///     fn dot_add(&self, dot: &Dot<'_>) -> Num { dot.c }
/// }
/// let unit = MmaUnit::custom::<f32, f32, f32, f32>(OnlyC, Shape::new(1, 1, 2))?;
/// assert_eq!(unit.try_dot_add(&[1.0, 2.0], &[3.0, 4.0], 5.0)?, 5.0);
/// # Ok::<(), gemmulate::Error>(())
/// ```
pub trait Accumulator: Debug + Send + Sync + 'static {
    /// `d = c + sum of a_k b_k`, as this accumulator rounds it; a number of the format `dot.out`.
    fn dot_add(&self, dot: &Dot<'_>) -> Num;

    /// The same, telling `trace` what happens on the way.
    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        let d = self.dot_add(dot);
        trace.push(Event::Note("this accumulator does not say how it gets there".into()));
        d
    }

    /// A closed description of the function computed for `k` products and results in `out`, if the
    /// library's own vocabulary has one. Two equal recipes are the same function; the converse
    /// need not hold.
    fn recipe(&self, k: usize, out: &FormatSpec) -> Option<Recipe> {
        let _ = (k, out);
        None
    }

    /// Refuses parameters that make no sense for these formats, with the reason.
    ///
    /// # Errors
    /// What is out of range: `Err("a group needs at least one product".into())`.
    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        let _ = signature;
        Ok(())
    }
}

impl<A: Accumulator + ?Sized> Accumulator for Arc<A> {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        (**self).dot_add(dot)
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        (**self).trace(dot, trace)
    }

    fn recipe(&self, k: usize, out: &FormatSpec) -> Option<Recipe> {
        (**self).recipe(k, out)
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        (**self).check(signature)
    }
}

/// How a final exact sum becomes a number of the output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) rounding: Rounding,
    /// Fraction bits kept, if fewer than the format has.
    pub(crate) frac_bits: Option<u32>,
    /// IEEE overflow: directed roundings toward zero stop at the largest finite number. Without
    /// it RZ gives infinity, as tensor cores do.
    pub(crate) ieee_overflow: bool,
    /// Whether a negative value that rounds to zero keeps its sign.
    pub(crate) negative_zero: bool,
}

impl Finish {
    /// Rounds `x` to a number of `out`. An exact zero becomes +0.
    pub(crate) fn apply(&self, x: Fixed, out: &FormatSpec) -> Num {
        let frac_bits = self.frac_bits.map_or(out.fraction_bits, |p| p.min(out.fraction_bits));
        let rounded = round::round(x, frac_bits, out.emin(), self.rounding);
        let zero = Num::zero(x.negative && self.negative_zero && !x.is_zero(), out.emin(), out.fraction_bits);
        if rounded.magnitude == 0 {
            return zero;
        }
        let lead = rounded.exponent + rounded.magnitude.ilog2() as i32;
        let exponent = lead.max(out.emin());
        let quantum = exponent - out.fraction_bits as i32;
        let max = out.max();
        let (magnitude, _) = crate::num::shift(rounded.magnitude, rounded.exponent - quantum);
        let significand = magnitude as u64;
        if exponent > max.exponent || (exponent == max.exponent && significand > max.significand) {
            let stops = match self.rounding {
                Rounding::TowardZero => self.ieee_overflow,
                r => r.stops_at_max(x.negative),
            };
            // The largest number of that many fraction bits.
            let significand = max.significand >> (out.fraction_bits - frac_bits) << (out.fraction_bits - frac_bits);
            return if stops { Num { negative: x.negative, significand, ..max } } else { Num::infinity(x.negative) };
        }
        Num {
            exponent,
            significand,
            negative: x.negative,
            class: crate::num::Class::Finite,
            frac_bits: out.fraction_bits,
        }
    }
}

/// Copies chosen products into one contiguous dot-add and hands it to `f`.
pub(crate) fn gather<R>(
    dot: &Dot<'_>,
    ks: impl Iterator<Item = usize> + Clone,
    c: Num,
    f: impl FnOnce(&Dot<'_>) -> R,
) -> R {
    let pick =
        |from: &[Num]| -> Vec<Num> { if from.is_empty() { Vec::new() } else { ks.clone().map(|k| from[k]).collect() } };
    let (a, b) = (pick(dot.a), pick(dot.b));
    let (scale_a, scale_b) = (pick(dot.scale_a), pick(dot.scale_b));
    f(&Dot { a: &a, b: &b, c, scale_a: &scale_a, scale_b: &scale_b, out: dot.out })
}
