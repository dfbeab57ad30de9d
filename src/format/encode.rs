//! From numbers to codes, and to `f64`.

use super::{F64, FormatSpec};
use crate::num::{Class, Fixed, Num};
use crate::round::{self, Rounding};
use crate::special::NanRule;

/// What to do with magnitudes above a format's largest finite number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// What the rounding mode says: directed roundings toward zero give the largest finite number;
    /// else infinity if the format has it, else NaN if it has one, else an error.
    #[default]
    Ieee,
    /// The largest finite number of the same sign, infinities included.
    Saturate,
}

/// A value to be encoded: an exact number, or a special one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// A finite number; an exact zero keeps its sign.
    Finite(Fixed),
}

impl From<Num> for Value {
    fn from(x: Num) -> Self {
        match x.class {
            Class::Nan => Self::Nan,
            Class::Infinite => Self::Infinite { negative: x.negative },
            Class::Zero | Class::Finite => Self::Finite(x.fixed()),
        }
    }
}

/// Why a value has no code in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// NaN, and the format has none.
    #[error("NaN has no code in {format}")]
    Nan {
        /// The format's name.
        format: &'static str,
    },
    /// Too large, and the format has neither infinity nor NaN.
    #[error("the value is above {format}'s largest number and {format} has no infinity or NaN; saturate instead")]
    Overflow {
        /// The format's name.
        format: &'static str,
    },
    /// A negative value, and the format has no sign.
    #[error("{format} has no negative numbers")]
    Negative {
        /// The format's name.
        format: &'static str,
    },
    /// Zero, or a value that rounds to it, and the format has none.
    #[error("{format} has no zero")]
    Zero {
        /// The format's name.
        format: &'static str,
    },
}

impl FormatSpec {
    /// Encodes a value: rounds with an unbounded exponent first, then applies `overflow`.
    ///
    /// # Errors
    /// When the format has no code for the result; see [`EncodeError`].
    pub fn encode(&self, value: Value, rounding: Rounding, overflow: Overflow) -> Result<u64, EncodeError> {
        let format = self.name;
        match value {
            Value::Nan => self.nan_code(NanRule::Quiet).ok_or(EncodeError::Nan { format }),
            Value::Infinite { negative: true } if !self.signed => Err(EncodeError::Negative { format }),
            Value::Infinite { negative } if overflow == Overflow::Saturate => Ok(self.max_code(negative)),
            Value::Infinite { negative } => self.overflow_code(negative),
            Value::Finite(x) if x.is_zero() => self.zero_code(x.negative),
            Value::Finite(x) if x.negative && !self.signed => Err(EncodeError::Negative { format }),
            Value::Finite(x) => self.encode_finite(x, rounding, overflow),
        }
    }

    fn encode_finite(&self, x: Fixed, rounding: Rounding, overflow: Overflow) -> Result<u64, EncodeError> {
        let rounded = round::round(x, self.fraction_bits, self.emin(), rounding);
        if rounded.magnitude == 0 {
            return self.zero_code(x.negative);
        }
        if self.fits(rounded.magnitude, rounded.exponent) {
            return Ok(self.pack(x.negative, rounded.magnitude, rounded.exponent));
        }
        if overflow == Overflow::Saturate || rounding.stops_at_max(x.negative) {
            return Ok(self.max_code(x.negative));
        }
        self.overflow_code(x.negative)
    }

    /// Whether `magnitude * 2^quantum`, a number on the unbounded grid, is not above the maximum.
    fn fits(&self, magnitude: u128, quantum: i32) -> bool {
        let max = self.max();
        let max_quantum = max.exponent - max.frac_bits as i32;
        match quantum.cmp(&max_quantum) {
            // A smaller quantum: the magnitude is at most a carry away from 2 * 2^fraction_bits.
            core::cmp::Ordering::Less => (magnitude >> (max_quantum - quantum).min(127)) <= u128::from(max.significand),
            core::cmp::Ordering::Equal => magnitude <= u128::from(max.significand),
            core::cmp::Ordering::Greater => false,
        }
    }

    fn overflow_code(&self, negative: bool) -> Result<u64, EncodeError> {
        self.infinity_code(negative)
            .or_else(|| self.nan_code(NanRule::Quiet))
            .ok_or(EncodeError::Overflow { format: self.name })
    }

    fn zero_code(&self, negative: bool) -> Result<u64, EncodeError> {
        if !self.subnormals {
            return Err(EncodeError::Zero { format: self.name });
        }
        Ok(self.place(u64::from(negative && self.has_negative_zero()), 0, 0))
    }

    /// The code of an accumulator's result. Total: a number the format cannot hold (only a user's
    /// accumulator can hand one over) is rounded to nearest even, and overflows as in IEEE arithmetic or, where the
    /// format has no infinity, to its largest number.
    pub fn encode_result(&self, x: &Num) -> u64 {
        match x.class {
            Class::Nan if self.has_infinity() => {
                let fraction = x.significand & self.fraction_mask();
                let fraction = if fraction == 0 { self.nan_fraction(NanRule::Quiet) } else { fraction };
                self.place(0, (1 << self.exponent_bits) - 1, fraction)
            }
            Class::Nan => self.nan_code(NanRule::Quiet).unwrap_or(self.max_code(false)),
            Class::Infinite => self.overflow_code(x.negative).unwrap_or(self.max_code(x.negative)),
            Class::Zero => self.zero_code(x.negative).unwrap_or(0),
            Class::Finite => {
                // Farther than any format reaches, and no overflow of this arithmetic.
                let (most, x) = (1 << 20, Num { frac_bits: x.frac_bits.min(1 << 20), ..*x });
                let exact = Num { exponent: x.exponent.clamp(-most, most), ..x }.fixed();
                self.encode(Value::Finite(exact), Rounding::NearestEven, Overflow::Ieee)
                    .unwrap_or(self.max_code(x.negative))
            }
        }
    }

    /// Encodes an `f64` (so also any `f32`, `f16` or narrower value) with a named rounding.
    ///
    /// # Errors
    /// When the format has no code for the result; see [`EncodeError`].
    pub fn encode_f64(&self, x: f64, rounding: Rounding, overflow: Overflow) -> Result<u64, EncodeError> {
        if let (Rounding::NearestEven, Some(code)) = (rounding, self.encode_nearest(x)) {
            return Ok(code);
        }
        self.encode(F64.decode(x.to_bits()).into(), rounding, overflow)
    }

    /// [`FormatSpec::encode_f64`] to nearest even where nothing is special: ordinary numbers that
    /// round to normal numbers well inside the range. For everything else `None`.
    #[inline]
    fn encode_nearest(&self, x: f64) -> Option<u64> {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7FF) as i32 - 1023;
        let highest = (1 << self.exponent_bits) - 3 - self.bias;
        let negative = bits >> 63 == 1;
        let ordinary = (self.emin().max(-1022)..=highest).contains(&exponent);
        if !ordinary || self.fraction_bits == 0 || (negative && !self.signed) {
            return None;
        }
        // The field of f64, cut to this format's width; a carry moves into the exponent as it should.
        let cut = 52 - self.fraction_bits;
        let magnitude = bits & (u64::MAX >> 1);
        let half = (1u64 << cut) >> 1;
        let odd = magnitude >> cut & 1;
        let rounded = if cut == 0 { magnitude } else { (magnitude + half - 1 + odd) >> cut };
        let rebias = ((1023 - self.bias) as u64) << self.fraction_bits;
        let sign = u64::from(negative) << (self.exponent_bits + self.fraction_bits);
        Some((rounded.wrapping_sub(rebias) | sign) << self.ignored_low_bits)
    }

    /// The `f64` equal to a code; exact for every format of at most 64 bits.
    pub fn to_f64(&self, bits: u64) -> f64 {
        let mut x = self.decode(bits);
        if x.is_finite() && self.exponent_bits <= 8 && self.bias.unsigned_abs() <= 512 && self.fraction_bits <= 52 {
            // Far from f64's ends: a power of two is a field, and the product is exact.
            let power = f64::from_bits(((1023 + x.exponent - x.frac_bits as i32) as u64) << 52);
            let magnitude = x.significand as f64 * power;
            return if x.negative { -magnitude } else { magnitude };
        }
        if x.is_nan() {
            x.significand = F64.nan_fraction(NanRule::Quiet);
        }
        f64::from_bits(F64.encode_result(&x))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL_FORMATS;
    use super::*;

    #[test]
    fn the_short_way_to_nearest_is_the_long_way() {
        let mut state = 1u64;
        for spec in ALL_FORMATS {
            for round in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let mut bits = state.rotate_left(17);
                if round % 2 == 0 {
                    // Near this format's range, and often near a tie.
                    let field = (1023 - spec.bias) as u64 + (bits >> 52 & 0x7FF) % (2 << spec.exponent_bits);
                    let cut = (52 - spec.fraction_bits).saturating_sub((bits >> 40 & 3) as u32);
                    bits = bits & 1 << 63 | field.min(2047) << 52 | (bits & ((1 << 52) - 1)) >> cut << cut;
                }
                let x = f64::from_bits(bits);
                if let Some(code) = spec.encode_nearest(x) {
                    let long = spec.encode(F64.decode(bits).into(), Rounding::NearestEven, Overflow::Ieee);
                    assert_eq!(Ok(code), long, "{spec} {x:e}");
                    let mut back = spec.decode(code);
                    back.negative &= !back.is_nan();
                    assert_eq!(spec.to_f64(code).to_bits(), F64.encode_result(&back), "{spec} {code:x}");
                }
            }
        }
    }

    #[test]
    fn every_short_code_widens_exactly() {
        for spec in ALL_FORMATS.iter().filter(|f| f.storage_bits <= 16) {
            for code in 0..=spec.code_mask() {
                let mut x = spec.decode(code);
                if x.is_nan() {
                    x.significand = F64.nan_fraction(NanRule::Quiet);
                }
                assert_eq!(spec.to_f64(code).to_bits(), F64.encode_result(&x), "{spec} {code:x}");
            }
        }
    }
}
