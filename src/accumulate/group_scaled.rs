//! GDFS, the block-scaled fp4 units of Blackwell: exact group sums, scaled, then aligned.

use super::fused::{self, check_floor, check_rounding, check_width};
use super::{Accumulator, Dot, Finish, Floor, Recipe, Refusal, Signature, ZeroProducts};
use crate::format::FormatSpec;
use crate::num::{Fixed, Num, Term};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::trace::{Event, Label, Observer, Trace};

/// GDFS: per group of 16 products the exact sum, times its two scales, is one term; the terms and
/// c are then cut off and summed as in FDA. A group's exponent is that of its scales alone, so it
/// is not normalised, and a group that cancels keeps it.
///
/// Source: MMA-Sim IV-E and mmasim 2.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupScaledDot {
    /// Products per group.
    pub group: usize,
    /// F: fraction bits kept below the largest exponent.
    pub frac_bits: u32,
    /// The exponent that alignment never goes below.
    pub floor: Floor,
    /// The rounding of the result.
    pub output_rounding: Rounding,
    /// The NaN returned.
    pub nan: NanRule,
}

impl GroupScaledDot {
    /// mxf4 and mxf4nvf4 on Blackwell: groups of 16, F = 35.
    pub const BLACKWELL: Self = Self {
        group: 16,
        frac_bits: 35,
        floor: Floor::BelowEmin(13),
        output_rounding: Rounding::TowardZero,
        nan: NanRule::AllOnes,
    };

    /// A group's term, or None if it has no non-zero product or a zero scale.
    fn term(dot: &Dot<'_>, from: usize, to: usize) -> Option<Term> {
        let plain = Dot { scale_a: &[], scale_b: &[], ..*dot };
        let products = || (from..to).map(|k| plain.product(k)).filter(|p| !p.is_zero());
        let unit = products().map(|p| p.exponent - p.frac_bits as i32).min()?.min(0);
        let sum: i128 = products()
            .map(|p| {
                let (magnitude, _) = p.magnitude_in(unit);
                let magnitude = magnitude as i128;
                // Of formats that no such unit has, 2^127 is itself.
                if p.negative { magnitude.wrapping_neg() } else { magnitude }
            })
            .fold(0, i128::wrapping_add);
        let mut term =
            Term { negative: sum < 0, exponent: 0, significand: sum.unsigned_abs(), frac_bits: unit.unsigned_abs() };
        for scale in [dot.scale_a.get(from), dot.scale_b.get(from)].into_iter().flatten() {
            if scale.is_zero() {
                return None;
            }
            term.exponent += scale.exponent;
            term.significand = term.significand.wrapping_mul(scale.significand.into());
            term.frac_bits += scale.frac_bits;
        }
        Some(term)
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        if let Some(d) = fused::special_verdict(dot, Some(&dot.c), self.nan, seen) {
            return d;
        }
        let starts = (0..dot.len()).step_by(self.group.max(1));
        let terms: Vec<_> =
            starts.map(|from| Self::term(dot, from, (from + self.group.max(1)).min(dot.len()))).collect();
        let c = dot.c.term();
        // A cancelled group is a zero term that still counts: every term listed here does.
        let present = terms.iter().flatten().copied();
        let Some(e_max) = fused::largest_exponent(dot, self.floor, ZeroProducts::OwnExponent, present, Some(&c)) else {
            return dot.out.zero();
        };
        let unit = e_max - self.frac_bits.min(fused::MAX_FRAC_BITS) as i32;
        seen.see(|| Event::Align { e_max, unit });
        let mut sum: i128 = 0;
        for (g, term) in terms.iter().enumerate() {
            if let Some(term) = term {
                let label = || Label::Text(format!("group {g}"));
                sum = sum.wrapping_add(fused::align(term, unit, Rounding::TowardZero, seen, label));
            }
        }
        sum = sum.wrapping_add(fused::align(&c, unit, Rounding::TowardZero, seen, || Label::Addend));
        let finish =
            Finish { rounding: self.output_rounding, frac_bits: None, ieee_overflow: false, negative_zero: false };
        fused::finished(Fixed::from_units(sum, unit), &finish, dot.out, seen)
    }
}

impl Accumulator for GroupScaledDot {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::GroupScaled(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.group == 0 {
            return Err("a group needs at least one product".into());
        }
        check_width(self.frac_bits, signature)?;
        check_floor(self.floor)?;
        check_rounding(self.output_rounding)?;
        let span = |f: &FormatSpec| f.max().exponent - f.emin() + f.fraction_bits as i32 + 1;
        let bits =
            span(&signature.a) + span(&signature.b) + 8 + signature.scale.map_or(0, |s| 2 * s.fraction_bits as i32 + 2);
        if bits + self.frac_bits as i32 > 120 {
            return Err(format!("exact groups of {} x {} are wider than supported", signature.a, signature.b).into());
        }
        Ok(())
    }
}
