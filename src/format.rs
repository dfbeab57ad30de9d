//! Number formats: a format is a handful of constants, and everything else follows from them.
//!
//! [`FormatSpec`] is one row of the table in `docs/numerics.md`; [`Format`] ties a Rust type to a
//! row, so that user-defined types take part everywhere the built-in ones do.

mod encode;
mod known;

use crate::error::Error;
use crate::num::{Class, Num};
use crate::round::Rounding;
use crate::special::NanRule;
use core::fmt;
pub use encode::{EncodeError, Overflow, Value};
pub use known::*;

/// Which codes of a format are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// The largest exponent field holds infinities and NaNs, as in IEEE 754.
    Ieee,
    /// Only the code with all exponent and fraction bits set is special: NaN (OCP E4M3, UE8M0).
    NanAllOnes,
    /// Only the code of the negative zero is special: NaN (the FNUZ formats).
    NanNegativeZero,
    /// Every code is a finite number (OCP FP6, FP4).
    None,
}

/// A number format as plain data.
///
/// The layout from the top is: unused bits, sign (if `signed`), exponent field, fraction field,
/// `ignored_low_bits`. Sources: IEEE 754-2019; OCP OFP8 and MX v1.0; MMA-Sim Appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormatSpec {
    /// The canonical lower-case name, as used in unit names.
    pub name: &'static str,
    /// Bits a stored code takes (a power of two for array elements, or 6 or 4).
    pub storage_bits: u32,
    /// Whether there is a sign bit. Codes of unsigned formats ignore the bits above the exponent.
    pub signed: bool,
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the fraction field, M.
    pub fraction_bits: u32,
    /// The exponent field's bias.
    pub bias: i32,
    /// Whether exponent field 0 holds zero and the subnormals. Without it every code is a power of two, as in
    /// UE8M0: such formats have no fraction bits.
    pub subnormals: bool,
    /// Which codes are infinities or NaN.
    pub specials: Specials,
    /// Stored bits below the fraction that are read as zero (13 for tf32).
    pub ignored_low_bits: u32,
}

impl FormatSpec {
    /// What makes this no format that the library can compute with, if anything: fields that do not fit into the code,
    /// numbers that f64 does not hold, or special values that have no code of their own.
    ///
    /// Units of such formats are refused, so only who makes a format need ask.
    ///
    /// ```
    /// use gemmulate::format::{F16, FormatSpec};
    /// assert_eq!(F16.problem(), None);
    /// assert!(FormatSpec { exponent_bits: 12, ..F16 }.problem().is_some());
    /// ```
    pub const fn problem(&self) -> Option<&'static str> {
        let (e, m) = (self.exponent_bits, self.fraction_bits);
        if e == 0 || e > 11 || m > 52 {
            return Some("a format has 1 to 11 exponent bits and at most 52 fraction bits");
        }
        if self.storage_bits > 64 || self.ignored_low_bits > 64 {
            return Some("codes are at most 64 bits wide");
        }
        if self.signed as u32 + e + m + self.ignored_low_bits > self.storage_bits {
            return Some("sign, exponent, fraction and ignored bits are more than the storage has");
        }
        if self.bias < -2000 || self.bias > 2000 || self.emin() - (m as i32) < -1074 || self.max().exponent > 1023 {
            return Some("the bias makes numbers that f64 does not hold");
        }
        match self.specials {
            Specials::Ieee if m == 0 => Some("IEEE special values need a fraction bit: NaN would be infinity"),
            Specials::Ieee if e == 1 => Some("IEEE special values need two exponent bits: no number would be normal"),
            Specials::NanNegativeZero if !self.signed => Some("NaN as the negative zero needs a sign"),
            Specials::NanNegativeZero if !self.subnormals => Some("NaN as the negative zero needs a zero"),
            _ if !self.subnormals && m > 0 => Some("a format with fraction bits has a zero and subnormal numbers"),
            _ => None,
        }
    }

    /// Refuses what is no format.
    pub(crate) fn check(&self, operand: &str) -> Result<(), Error> {
        let error = |problem| Error::InvalidFormat { operand: operand.into(), format: self.name, problem };
        self.problem().map_or(Ok(()), |problem| Err(error(problem)))
    }

    /// The stored position of the fraction field's last bit and everything above, as a mask.
    const fn magnitude_mask(&self) -> u64 {
        (1 << (self.exponent_bits + self.fraction_bits)) - 1
    }

    const fn fraction_mask(&self) -> u64 {
        (1 << self.fraction_bits) - 1
    }

    /// All bits a code may have.
    pub const fn code_mask(&self) -> u64 {
        if self.storage_bits >= 64 { u64::MAX } else { (1 << self.storage_bits) - 1 }
    }

    /// The smallest exponent of a normal number; the exponent of every subnormal.
    pub const fn emin(&self) -> i32 {
        if self.subnormals { 1 - self.bias } else { -self.bias }
    }

    /// The largest finite number's code, without sign and ignored bits.
    const fn max_magnitude(&self) -> u64 {
        match self.specials {
            Specials::Ieee => self.magnitude_mask() - self.fraction_mask() - 1,
            Specials::NanAllOnes => self.magnitude_mask() - 1,
            Specials::NanNegativeZero | Specials::None => self.magnitude_mask(),
        }
    }

    /// The largest finite number.
    pub const fn max(&self) -> Num {
        self.unpack(self.max_magnitude(), false)
    }

    /// Whether the format has a code for all that another one has: its numbers (a zero is one, whatever its sign),
    /// infinities and NaN.
    ///
    /// ```
    /// use gemmulate::format::{BF16, E5M2, F16, F32};
    /// assert!(F32.holds(&BF16) && F16.holds(&E5M2) && !F16.holds(&BF16));
    /// ```
    pub fn holds(&self, other: &Self) -> bool {
        let lowest = |f: &Self| f.emin() - f.fraction_bits as i32;
        self.fraction_bits >= other.fraction_bits
            && self.max().exponent >= other.max().exponent
            && lowest(self) <= lowest(other)
            && (self.signed || !other.signed)
            && (self.has_nan() || !other.has_nan())
            && (self.has_infinity() || !other.has_infinity())
            && self.subnormals >= other.subnormals
    }

    /// Whether the format has infinities.
    pub const fn has_infinity(&self) -> bool {
        matches!(self.specials, Specials::Ieee)
    }

    /// Whether the format has a NaN.
    pub const fn has_nan(&self) -> bool {
        !matches!(self.specials, Specials::None)
    }

    /// Whether the format has a negative zero.
    pub const fn has_negative_zero(&self) -> bool {
        self.signed && self.subnormals && !matches!(self.specials, Specials::NanNegativeZero)
    }

    /// +0 as an unpacked number of this format (for UE8M0, which has none, a zero all the same).
    pub const fn zero(&self) -> Num {
        Num::zero(false, self.emin(), self.fraction_bits)
    }

    /// Decodes a code; bits the format does not use are ignored.
    pub const fn decode(&self, bits: u64) -> Num {
        let (class, negative) = self.class(bits);
        let magnitude = bits >> self.ignored_low_bits & self.magnitude_mask();
        match class {
            Class::Infinite => Num::infinity(negative),
            Class::Nan => Num::nan(magnitude & self.fraction_mask()),
            _ => self.unpack(magnitude, negative),
        }
    }

    /// The class of the number that a code decodes to, and its sign.
    #[inline(always)]
    pub(crate) const fn class(&self, bits: u64) -> (Class, bool) {
        let code = bits >> self.ignored_low_bits;
        let magnitude = code & self.magnitude_mask();
        let negative = self.signed && (code >> (self.exponent_bits + self.fraction_bits)) & 1 == 1;
        let class = match self.specials {
            Specials::Ieee if magnitude > self.max_magnitude() => {
                if magnitude & self.fraction_mask() == 0 {
                    Class::Infinite
                } else {
                    Class::Nan
                }
            }
            Specials::NanAllOnes if magnitude == self.magnitude_mask() => Class::Nan,
            Specials::NanNegativeZero if negative && magnitude == 0 => Class::Nan,
            _ if magnitude == 0 && self.subnormals => Class::Zero,
            _ => Class::Finite,
        };
        (class, negative)
    }

    /// A finite code's parts.
    const fn unpack(&self, magnitude: u64, negative: bool) -> Num {
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = magnitude & self.fraction_mask();
        let hidden = 1 << self.fraction_bits;
        let (class, exponent, significand) = if field == 0 && self.subnormals {
            let class = if fraction == 0 { Class::Zero } else { Class::Finite };
            (class, self.emin(), fraction)
        } else {
            (Class::Finite, field - self.bias, fraction | hidden)
        };
        Num { class, negative, exponent, significand, frac_bits: self.fraction_bits }
    }

    /// The code of a finite number `magnitude * 2^quantum` that lies on this format's grid.
    const fn pack(&self, negative: bool, magnitude: u128, quantum: i32) -> u64 {
        let sign = (negative && self.signed) as u64;
        let hidden = 1u128 << self.fraction_bits;
        let mut exponent = quantum + self.fraction_bits as i32;
        let mut significand = magnitude;
        if significand >= hidden << 1 {
            // A carry out of rounding: the magnitude is a power of two.
            significand >>= 1;
            exponent += 1;
        }
        let field = if significand < hidden { 0 } else { (exponent + self.bias) as u64 };
        let fraction = significand as u64 & self.fraction_mask();
        self.place(sign, field, fraction)
    }

    const fn place(&self, sign: u64, field: u64, fraction: u64) -> u64 {
        ((((sign << self.exponent_bits) | field) << self.fraction_bits) | fraction) << self.ignored_low_bits
    }

    /// Infinity's code, if there is one; without signs the same for both.
    pub const fn infinity_code(&self, negative: bool) -> Option<u64> {
        if !self.has_infinity() {
            return None;
        }
        Some(self.place((negative && self.signed) as u64, (1 << self.exponent_bits) - 1, 0))
    }

    /// The code of the NaN that `rule` asks for; formats with a single NaN have no choice.
    pub const fn nan_code(&self, rule: NanRule) -> Option<u64> {
        match self.specials {
            Specials::Ieee => {
                let fraction = self.nan_fraction(rule);
                Some(self.place(0, (1 << self.exponent_bits) - 1, fraction))
            }
            Specials::NanAllOnes => Some(self.magnitude_mask() << self.ignored_low_bits),
            Specials::NanNegativeZero => Some(self.place(1, 0, 0)),
            Specials::None => None,
        }
    }

    /// The fraction field of the NaN that `rule` asks for.
    pub const fn nan_fraction(&self, rule: NanRule) -> u64 {
        match rule {
            NanRule::AllOnes => self.fraction_mask(),
            NanRule::Quiet => 1 << (self.fraction_bits.saturating_sub(1)),
        }
    }

    /// What comes after the largest finite number's magnitude, without ignored bits: infinities and NaN begin there, or
    /// there is no such magnitude.
    pub(crate) const fn first_special(&self) -> u64 {
        self.max_magnitude() + 1
    }

    /// The largest finite number's code with a sign.
    pub const fn max_code(&self, negative: bool) -> u64 {
        let magnitude = self.max_magnitude();
        self.place((negative && self.signed) as u64, magnitude >> self.fraction_bits, magnitude & self.fraction_mask())
    }
}

impl fmt::Display for FormatSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A Rust type whose values are codes of a number format.
///
/// Implement it for a type of your own by naming its [`FormatSpec`] and its bits; it then works in
/// every unit, at the speed of the built-in ones.
///
/// ```
/// use gemmulate::format::{Format, FormatSpec, Specials};
/// #[derive(Clone, Copy, Debug)]
/// struct E3M4(u8);
/// impl Format for E3M4 {
///     const SPEC: FormatSpec = FormatSpec { name: "e3m4", storage_bits: 8, signed: true,
///         exponent_bits: 3, fraction_bits: 4, bias: 3, subnormals: true,
///         specials: Specials::Ieee, ignored_low_bits: 0 };
///     fn to_bits(self) -> u64 { self.0.into() }
///     fn from_bits(bits: u64) -> Self { Self(bits as u8) }
/// }
/// assert_eq!(E3M4::SPEC.to_f64(E3M4(0x30).to_bits()), 1.0);
/// ```
pub trait Format: Copy + Send + Sync + 'static {
    /// The format's constants. Where [`FormatSpec::problem`] finds one, units and products of this type do not build
    /// (`cargo build` says why; `cargo check` does not look):
    ///
    /// ```compile_fail
    /// # use gemmulate::{format::{BF16, Format, FormatSpec}, prelude::*};
    /// #[derive(Clone, Copy)]
    /// struct Wrong(u16);
    /// impl Format for Wrong {
    ///     const SPEC: FormatSpec = FormatSpec { exponent_bits: 12, ..BF16 };
    ///     fn to_bits(self) -> u64 { self.0.into() }
    ///     fn from_bits(bits: u64) -> Self { Self(bits as u16) }
    /// }
    /// let a = ndarray::Array2::from_elem((2, 2), Wrong(0));
    /// let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    /// let d = Gemm::on(&unit).run(&a, &a);
    /// ```
    const SPEC: FormatSpec;

    /// The code, in the low bits.
    fn to_bits(self) -> u64;

    /// The value with this code; bits above [`FormatSpec::storage_bits`] are ignored.
    fn from_bits(bits: u64) -> Self;

    /// The nearest value, ties to even: rounded once, as [`Gemm`](crate::Gemm) rounds operands. What is too large is
    /// infinite or NaN, in formats without either the largest number, as a NaN without a code is; without a sign what
    /// is below all numbers is the smallest one. ([`FormatSpec::encode_f64`] has other roundings. Conversions of other
    /// crates round twice or saturate: half 2.7's `from_f64` is wrong for about one of 16,000 random numbers.)
    ///
    #[cfg_attr(all(feature = "half", feature = "float8"), doc = "```")]
    #[cfg_attr(not(all(feature = "half", feature = "float8")), doc = "```ignore")]
    /// use gemmulate::prelude::*;
    /// let x = ndarray::arr1(&[1.0, 0.1, 1e9]);
    /// assert_eq!(x.mapv(bf16::nearest).mapv(f32::from), ndarray::arr1(&[1.0, 0.100097656, 998244352.0]));
    /// assert!(F8E4M3::nearest(1e9).is_nan());
    /// assert_eq!(E2M1::nearest(1e9).to_f64(), 6.0);
    /// ```
    fn nearest(x: f64) -> Self {
        let (spec, even) = (spec_of::<Self>(), Rounding::NearestEven);
        let ieee = spec.encode_f64(x, even, Overflow::Ieee).or_else(|_| spec.encode_f64(x, even, Overflow::Saturate));
        Self::from_bits(ieee.unwrap_or(if x <= 0.0 { 0 } else { spec.max_code(false) }))
    }
}

/// Checks, at compile time, that a row is one the arithmetic supports.
const fn checked(spec: FormatSpec) -> FormatSpec {
    match spec.problem() {
        Some(problem) => panic!("{}", problem),
        None => spec,
    }
}

/// A type's format; a program whose type has none that the library can compute with does not compile.
pub(crate) const fn spec_of<T: Format>() -> FormatSpec {
    const { checked(T::SPEC) }
}
