//! Number formats: a format is a handful of constants, and everything else follows from them.
//!
//! [`FormatSpec`] is one row of the table in `docs/numerics.md`; [`Format`] ties a Rust type to a
//! row, so that user-defined types take part everywhere the built-in ones do.

use crate::error::Error;
use crate::num::{Class, Fixed, Num};
use crate::round::{self, Rounding};
use crate::special::NanRule;
use core::fmt;

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

/// What to do with magnitudes above a format's largest finite number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
        let code = bits >> self.ignored_low_bits;
        let magnitude = code & self.magnitude_mask();
        let negative = self.signed && (code >> (self.exponent_bits + self.fraction_bits)) & 1 == 1;
        match self.specials {
            Specials::Ieee if magnitude > self.max_magnitude() => {
                let fraction = magnitude & self.fraction_mask();
                if fraction == 0 { Num::infinity(negative) } else { Num::nan(fraction) }
            }
            Specials::NanAllOnes if magnitude == self.magnitude_mask() => Num::nan(self.fraction_mask()),
            Specials::NanNegativeZero if negative && magnitude == 0 => Num::nan(0),
            _ => self.unpack(magnitude, negative),
        }
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

    /// Infinity's code, if there is one.
    pub const fn infinity_code(&self, negative: bool) -> Option<u64> {
        if !self.has_infinity() {
            return None;
        }
        Some(self.place(negative as u64, (1 << self.exponent_bits) - 1, 0))
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

    /// The largest finite number's code with a sign.
    pub const fn max_code(&self, negative: bool) -> u64 {
        let magnitude = self.max_magnitude();
        self.place((negative && self.signed) as u64, magnitude >> self.fraction_bits, magnitude & self.fraction_mask())
    }

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
    /// accumulator can hand one over) is rounded to nearest even and saturated.
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
            Class::Finite => self
                .encode(Value::Finite(x.fixed()), Rounding::NearestEven, Overflow::Ieee)
                .unwrap_or(self.max_code(x.negative)),
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

macro_rules! formats {
    ($($(#[$doc:meta])* $konst:ident = $name:literal, $bits:literal bits, $signed:literal, E $e:literal, M $m:literal,
        bias $bias:literal, subnormals $sub:literal, $specials:ident, ignored $low:literal;)*) => {
        $($(#[$doc])* pub const $konst: FormatSpec = checked(FormatSpec {
            name: $name, storage_bits: $bits, signed: $signed, exponent_bits: $e, fraction_bits: $m, bias: $bias,
            subnormals: $sub, specials: Specials::$specials, ignored_low_bits: $low });)*
        /// Every built-in format.
        pub const ALL_FORMATS: [FormatSpec; [$($name),*].len()] = [$($konst),*];
    };
}

formats! {
    /// IEEE binary64.
    F64 = "f64", 64 bits, true, E 11, M 52, bias 1023, subnormals true, Ieee, ignored 0;
    /// IEEE binary32.
    F32 = "f32", 32 bits, true, E 8, M 23, bias 127, subnormals true, Ieee, ignored 0;
    /// TensorFloat-32 (AMD: xf32) in 32-bit storage; the low 13 bits are read as zero.
    TF32 = "tf32", 32 bits, true, E 8, M 10, bias 127, subnormals true, Ieee, ignored 13;
    /// IEEE binary16.
    F16 = "f16", 16 bits, true, E 5, M 10, bias 15, subnormals true, Ieee, ignored 0;
    /// bfloat16.
    BF16 = "bf16", 16 bits, true, E 8, M 7, bias 127, subnormals true, Ieee, ignored 0;
    /// OCP OFP8 E5M2.
    E5M2 = "e5m2", 8 bits, true, E 5, M 2, bias 15, subnormals true, Ieee, ignored 0;
    /// OCP OFP8 E4M3 (E4M3FN): no infinity, maximum 448.
    E4M3 = "e4m3", 8 bits, true, E 4, M 3, bias 7, subnormals true, NanAllOnes, ignored 0;
    /// E5M2 FNUZ, AMD CDNA3's bf8.
    E5M2FNUZ = "e5m2fnuz", 8 bits, true, E 5, M 2, bias 16, subnormals true, NanNegativeZero, ignored 0;
    /// E4M3 FNUZ, AMD CDNA3's fp8.
    E4M3FNUZ = "e4m3fnuz", 8 bits, true, E 4, M 3, bias 8, subnormals true, NanNegativeZero, ignored 0;
    /// OCP MX FP6 E3M2.
    E3M2 = "e3m2", 6 bits, true, E 3, M 2, bias 3, subnormals true, None, ignored 0;
    /// OCP MX FP6 E2M3.
    E2M3 = "e2m3", 6 bits, true, E 2, M 3, bias 1, subnormals true, None, ignored 0;
    /// OCP MX FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
    E2M1 = "e2m1", 4 bits, true, E 2, M 1, bias 1, subnormals true, None, ignored 0;
    /// OCP MX scale E8M0: 2^(x-127), no sign, no zero, NaN 0xFF.
    UE8M0 = "ue8m0", 8 bits, false, E 8, M 0, bias 127, subnormals false, NanAllOnes, ignored 0;
    /// NVFP4 scale: E4M3 without a sign; bit 7 is ignored, NaN 0x7F.
    UE4M3 = "ue4m3", 8 bits, false, E 4, M 3, bias 7, subnormals true, NanAllOnes, ignored 0;
}

/// The canonical names of the built-in formats, for messages.
pub(crate) fn known_names() -> String {
    format!("one of {}", ALL_FORMATS.map(|f| f.name).join(", "))
}

/// The built-in format of that name, in any case. AMD's `xf32`, `fp4`, `f32`
/// spelled `fp32` and the like are understood too.
pub fn format_named(name: &str) -> Option<&'static FormatSpec> {
    static FORMATS: [FormatSpec; ALL_FORMATS.len()] = ALL_FORMATS;
    let lower = name.to_ascii_lowercase();
    let canonical = match lower.as_str() {
        "xf32" => "tf32",
        "fp64" | "double" | "binary64" => "f64",
        "fp32" | "float" | "binary32" => "f32",
        "fp16" | "half" | "binary16" => "f16",
        "bfloat16" => "bf16",
        "e4m3fn" => "e4m3",
        "fp4" | "e2m1fn" => "e2m1",
        "e8m0" => "ue8m0",
        other => other,
    };
    FORMATS.iter().find(|f| f.name == canonical)
}

#[cfg(test)]
mod tests {
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
