//! NaN, infinity and zero policies of the vendors, as values.

use crate::format::FormatSpec;
use crate::num::Num;

/// Which NaN a unit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NanRule {
    /// Every fraction bit set: 0x7FFFFFFF, 0x7FFF (NVIDIA tensor cores; MMA-Sim, D6's default).
    #[default]
    AllOnes,
    /// Only the top fraction bit set: 0x7FC00000, 0x7E00, 0x7FF8000000000000. What this library
    /// returns where the hardware's payload is unspecified (AMD, DMMA); D6's other reading.
    Quiet,
}

impl NanRule {
    /// This NaN as an unpacked number that `out` encodes to the right bits.
    pub const fn nan(self, out: &FormatSpec) -> Num {
        Num::nan(out.nan_fraction(self))
    }
}

/// The rule (S) of the specification: what special values among the operands decide.
///
/// Feed it every pair and every lone operand; [`SpecialCases::verdict`] then says NaN, an infinity, or
/// that the sum is finite.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecialCases {
    nan: bool,
    positive_infinity: bool,
    negative_infinity: bool,
}

impl SpecialCases {
    /// Takes one product into account: NaN operands and 0 x Inf give NaN, Inf x finite gives Inf.
    pub const fn product(&mut self, a: &Num, b: &Num) {
        if a.is_finite() && b.is_finite() {
            return;
        }
        if a.is_nan() || b.is_nan() || a.is_zero() || b.is_zero() {
            self.nan = true;
        } else {
            self.infinity(a.negative != b.negative);
        }
    }

    /// Takes a lone addend, such as c, into account.
    pub const fn addend(&mut self, c: &Num) {
        if c.is_nan() {
            self.nan = true;
        } else if c.is_infinite() {
            self.infinity(c.negative);
        }
    }

    /// Takes a scale into account: only its NaN matters.
    pub const fn scale(&mut self, s: &Num) {
        self.nan |= s.is_nan();
    }

    /// Takes an infinity among the addends into account.
    pub const fn infinity(&mut self, negative: bool) {
        if negative {
            self.negative_infinity = true;
        } else {
            self.positive_infinity = true;
        }
    }

    /// The result that the special values force, if any.
    pub const fn verdict(&self, nan: NanRule, out: &FormatSpec) -> Option<Num> {
        if self.nan || (self.positive_infinity && self.negative_infinity) {
            return Some(nan.nan(out));
        }
        if self.positive_infinity || self.negative_infinity {
            return Some(Num::infinity(self.negative_infinity));
        }
        None
    }
}
