//! The unpacked number, where formats and accumulators meet, and exact integer arithmetic on it.
//!
//! Nothing in this module rounds: what does not fit into the 128 bits of a [`Fixed`] is kept as a
//! sticky bit, which is all that any rounding in [`crate::round`] needs to know of it.

use num_bigint::{BigInt, Sign};

/// What kind of number a bit pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A zero, of either sign.
    Zero,
    /// A non-zero finite number, normal or subnormal.
    Finite,
    /// An infinity.
    Infinite,
    /// Not a number.
    Nan,
}

/// An unpacked floating-point number: `(-1)^negative * significand * 2^(exponent - frac_bits)`.
///
/// Unpacked numbers are never renormalised (MMA-Sim IV-C, step 2): a normal number has
/// `1 <= s < 2` for `s = significand / 2^frac_bits`; a subnormal one has its format's smallest
/// exponent and `s < 1`. A zero carries the smallest exponent too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Num {
    /// Zero, finite, infinite or NaN.
    pub class: Class,
    /// The sign bit.
    pub negative: bool,
    /// The exponent of the leading significand bit's position.
    pub exponent: i32,
    /// Integer significand; for a NaN, the fraction field its bits should have.
    pub significand: u64,
    /// How many bits of the significand stand behind the binary point.
    pub frac_bits: u32,
}

impl Num {
    /// A zero with the given sign, carrying the exponent and width of its format.
    pub const fn zero(negative: bool, exponent: i32, frac_bits: u32) -> Self {
        Self { class: Class::Zero, negative, exponent, significand: 0, frac_bits }
    }

    /// An infinity.
    pub const fn infinity(negative: bool) -> Self {
        Self { class: Class::Infinite, negative, exponent: 0, significand: 0, frac_bits: 0 }
    }

    /// A positive NaN whose fraction field is `payload`.
    pub const fn nan(payload: u64) -> Self {
        Self { class: Class::Nan, negative: false, exponent: 0, significand: payload, frac_bits: 0 }
    }

    /// True for either zero.
    pub const fn is_zero(&self) -> bool {
        matches!(self.class, Class::Zero)
    }

    /// True for any NaN.
    pub const fn is_nan(&self) -> bool {
        matches!(self.class, Class::Nan)
    }

    /// True for either infinity.
    pub const fn is_infinite(&self) -> bool {
        matches!(self.class, Class::Infinite)
    }

    /// True for zeros and finite numbers.
    pub const fn is_finite(&self) -> bool {
        matches!(self.class, Class::Zero | Class::Finite)
    }

    /// True for a non-zero number below its format's smallest normal one.
    pub const fn is_subnormal(&self) -> bool {
        matches!(self.class, Class::Finite) && (self.significand >> self.frac_bits) == 0
    }

    /// The same number with its sign flipped (a NaN keeps its bits).
    #[must_use]
    pub const fn negate(mut self) -> Self {
        if !self.is_nan() {
            self.negative = !self.negative;
        }
        self
    }

    /// The finite value as a [`Term`]; zero for a zero. Infinities and NaN have no value: zero.
    pub const fn term(&self) -> Term {
        Term {
            negative: self.negative,
            exponent: self.exponent,
            significand: if self.is_finite() { self.significand as u128 } else { 0 },
            frac_bits: self.frac_bits,
        }
    }

    /// The finite value as an exact fixed-point number.
    pub const fn fixed(&self) -> Fixed {
        self.term().fixed()
    }
}

/// One addend of a sum: `(-1)^negative * significand * 2^(exponent - frac_bits)`, not normalised.
///
/// A product of two [`Num`]s has the sum of their exponents and the product of their
/// significands, so 1.5 x 1.5 is 2.25 * 2^0 and not 1.125 * 2^1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The sign.
    pub negative: bool,
    /// The exponent that alignment sees.
    pub exponent: i32,
    /// Integer significand; zero only for a zero term.
    pub significand: u128,
    /// How many bits of the significand stand behind the binary point.
    pub frac_bits: u32,
}

impl Term {
    /// The exact product of two finite numbers: at most 106 significant bits, for binary64.
    pub const fn product(a: &Num, b: &Num) -> Self {
        Self {
            negative: a.negative != b.negative,
            exponent: a.exponent + b.exponent,
            significand: a.significand as u128 * b.significand as u128,
            frac_bits: a.frac_bits + b.frac_bits,
        }
    }

    /// True when the term contributes nothing.
    pub const fn is_zero(&self) -> bool {
        self.significand == 0
    }

    /// The exponent this value would have with `1 <= s < 2`. Meaningless for zero.
    pub const fn normalised_exponent(&self) -> i32 {
        self.exponent - self.frac_bits as i32 + 127 - self.significand.leading_zeros() as i32
    }

    /// The same value written with `1 <= s < 2` (by moving the binary point, so exactly).
    #[must_use]
    pub const fn normalised(mut self) -> Self {
        if self.significand != 0 {
            self.exponent = self.normalised_exponent();
            self.frac_bits = 127 - self.significand.leading_zeros();
        }
        self
    }

    /// The value as an exact fixed-point number.
    pub const fn fixed(&self) -> Fixed {
        Fixed {
            negative: self.negative,
            magnitude: self.significand,
            exponent: self.exponent - self.frac_bits as i32,
            sticky: false,
        }
    }

    /// The magnitude in units of `2^unit`, cut toward zero, and whether anything was cut off.
    ///
    /// A left shift fits: widths are bounded when a unit is made. (Of parameters that nobody checked bits above are
    /// lost.)
    pub const fn magnitude_in(&self, unit: i32) -> (u128, bool) {
        shift(self.significand, self.exponent - self.frac_bits as i32 - unit)
    }
}

/// `x * 2^by` cut toward zero, and whether anything was cut off (shift right with jam); its lowest 128 bits.
pub(crate) const fn shift(x: u128, by: i32) -> (u128, bool) {
    if by >= 0 {
        return (if by > 127 { 0 } else { x << by }, false);
    }
    let right = by.unsigned_abs();
    if right > 127 {
        return (0, x != 0);
    }
    let kept = x >> right;
    (kept, kept << right != x)
}

/// An exact finite number in fixed point: `(-1)^negative * (magnitude + t) * 2^exponent`, where
/// `t` is 0, or with `sticky` some unknown `0 < t < 1`.
///
/// A sticky bit is only ever set far below the bits a rounding looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The sign.
    pub negative: bool,
    /// The integer magnitude.
    pub magnitude: u128,
    /// The weight of the magnitude's last bit.
    pub exponent: i32,
    /// Whether a non-zero rest below the last bit was left out.
    pub sticky: bool,
}

impl Fixed {
    /// An integer number of units of `2^exponent`.
    pub const fn from_units(units: i128, exponent: i32) -> Self {
        Self { negative: units < 0, magnitude: units.unsigned_abs(), exponent, sticky: false }
    }

    /// True for an exact zero.
    pub const fn is_zero(&self) -> bool {
        self.magnitude == 0 && !self.sticky
    }

    /// floor(log2 |x|); meaningless when the magnitude is zero.
    pub const fn leading_exponent(&self) -> i32 {
        self.exponent + 127 - self.magnitude.leading_zeros() as i32
    }

    /// The same number with the magnitude's leading bit at bit 125.
    const fn spread(self) -> Self {
        let up = self.magnitude.leading_zeros() as i32 - 2;
        if up < 0 {
            let (magnitude, cut) = shift(self.magnitude, up);
            return Self { magnitude, exponent: self.exponent - up, sticky: self.sticky | cut, ..self };
        }
        Self { magnitude: self.magnitude << up, exponent: self.exponent - up, ..self }
    }

    /// The exact sum of two numbers of at most 120 significant bits without sticky bits, as far as
    /// a rounding to 64 bits or fewer can tell.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        if self.magnitude == 0 {
            return other;
        }
        if other.magnitude == 0 {
            return self;
        }
        let (big, small) = if self.leading_exponent() >= other.leading_exponent() {
            (self.spread(), other.spread())
        } else {
            (other.spread(), self.spread())
        };
        let (low, cut) = shift(small.magnitude, small.exponent - big.exponent);
        if big.negative == small.negative {
            return Self { magnitude: big.magnitude + low, sticky: cut, ..big };
        }
        // |big| - (low + t): with a rest t the next smaller integer and a rest of 1 - t.
        let low = low + cut as u128;
        let (magnitude, flipped) =
            if big.magnitude >= low { (big.magnitude - low, false) } else { (low - big.magnitude, true) };
        Self { negative: big.negative != flipped, magnitude, exponent: big.exponent, sticky: cut }
    }
}

/// The exact sum of any number of terms of any exponents: a long accumulator, as Kulisch has it.
///
/// Terms of similar exponents, which is most of them, are summed in 128 bits; what would not fit
/// moves to an integer without bounds.
#[derive(Clone, Debug, Default)]
pub struct LongAccumulator {
    units: i128,
    unit: i32,
    moved: BigInt,
    moved_unit: i32,
}

/// Bits of a 128-bit sum in use, so that another addition cannot overflow.
const NARROW: u32 = 118;

impl LongAccumulator {
    /// Adds one term exactly.
    pub fn add(&mut self, term: &Term) {
        if term.is_zero() {
            return;
        }
        if self.add_narrow(term).is_none() {
            self.move_units();
            if self.add_narrow(term).is_none() {
                let sign = if term.negative { Sign::Minus } else { Sign::Plus };
                let value = BigInt::from_biguint(sign, term.significand.into());
                self.add_moved(value, term.exponent - term.frac_bits as i32);
            }
        }
    }

    /// Adds within 128 bits, if that is possible.
    fn add_narrow(&mut self, term: &Term) -> Option<()> {
        let (low, width) = (term.exponent - term.frac_bits as i32, 128 - term.significand.leading_zeros());
        if self.units == 0 {
            self.unit = low;
        }
        let unit = low.min(self.unit);
        let (up, term_up) = (self.unit.abs_diff(unit), low.abs_diff(unit));
        let used = 128 - self.units.unsigned_abs().leading_zeros();
        if used.saturating_add(up) > NARROW || width.saturating_add(term_up) > NARROW {
            return None;
        }
        let addend = (term.significand << term_up) as i128;
        self.units = (self.units << up) + if term.negative { -addend } else { addend };
        self.unit = unit;
        Some(())
    }

    fn move_units(&mut self) {
        let units = core::mem::take(&mut self.units);
        self.add_moved(units.into(), self.unit);
    }

    fn add_moved(&mut self, mut value: BigInt, unit: i32) {
        if self.moved.sign() == Sign::NoSign {
            self.moved_unit = unit;
        } else if unit < self.moved_unit {
            self.moved <<= self.moved_unit.abs_diff(unit);
            self.moved_unit = unit;
        } else {
            value <<= unit.abs_diff(self.moved_unit);
        }
        self.moved += value;
    }

    /// The sum; bits below the leading 120 become the sticky bit.
    pub fn fixed(&self) -> Fixed {
        if self.moved.sign() == Sign::NoSign {
            return Fixed::from_units(self.units, self.unit);
        }
        let mut all = self.clone();
        all.move_units();
        let magnitude = all.moved.magnitude();
        let extra = u32::try_from(magnitude.bits()).unwrap_or(u32::MAX).saturating_sub(120);
        let kept = magnitude >> extra;
        let sticky = extra > 0 && magnitude.trailing_zeros().is_some_and(|z| z < u64::from(extra));
        Fixed {
            negative: all.moved.sign() == Sign::Minus,
            magnitude: u128::try_from(kept).unwrap_or(u128::MAX),
            exponent: all.moved_unit + extra as i32,
            sticky,
        }
    }
}
