//! Rust types for formats that have no common crate, and [`Format`] for those that have.

use crate::error::Error;
use crate::format::{self, EncodeError, Format, FormatSpec, Overflow};
use crate::round::Rounding;
use core::cmp::Ordering;
use core::fmt;
use core::ops;
use core::str::FromStr;
use num_traits::{AsPrimitive, Bounded, FromPrimitive, One, ToPrimitive, Zero};

macro_rules! foreign {
    ($($ty:ty, $spec:ident, $bits:ty;)*) => { $(
        impl Format for $ty {
            const SPEC: FormatSpec = format::$spec;
            #[inline]
            fn to_bits(self) -> u64 { <$ty>::to_bits(self).into() }
            #[inline]
            fn from_bits(bits: u64) -> Self { <$ty>::from_bits(bits as $bits) }
        }
    )* };
}

foreign! { f64, F64, u64; f32, F32, u32; }
#[cfg(feature = "half")]
foreign! { half::f16, F16, u16; half::bf16, BF16, u16; }
#[cfg(feature = "microfloat")]
foreign! {
    microfloat::f8e5m2, E5M2, u8; microfloat::f8e4m3fn, E4M3, u8;
    microfloat::f8e5m2fnuz, E5M2FNUZ, u8; microfloat::f8e4m3fnuz, E4M3FNUZ, u8;
    microfloat::f6e3m2fn, E3M2, u8; microfloat::f6e2m3fn, E2M3, u8;
    microfloat::f4e2m1fn, E2M1, u8; microfloat::f8e8m0fnu, UE8M0, u8;
}

#[cfg(feature = "float8")]
mod float8_types {
    use super::{Format, FormatSpec, format};

    impl Format for float8::F8E5M2 {
        const SPEC: FormatSpec = format::E5M2;
        fn to_bits(self) -> u64 {
            Self::to_bits(&self).into()
        }
        fn from_bits(bits: u64) -> Self {
            Self::from_bits(bits as u8)
        }
    }

    impl Format for float8::F8E4M3 {
        const SPEC: FormatSpec = format::E4M3;
        fn to_bits(self) -> u64 {
            Self::to_bits(&self).into()
        }
        fn from_bits(bits: u64) -> Self {
            Self::from_bits(bits as u8)
        }
    }
}

macro_rules! newtypes {
    ($($(#[$doc:meta])* $name:ident($bits:ty) = $spec:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        #[repr(transparent)]
        pub struct $name($bits);

        impl $name {
            /// The value with this code.
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// The code.
            pub const fn to_bits(self) -> $bits {
                self.0
            }

            /// The nearest value, ties to even; magnitudes beyond the largest follow IEEE.
            ///
            /// # Errors
            /// When the format has no code for the result; see [`EncodeError`].
            pub fn from_f64(x: f64) -> Result<Self, EncodeError> {
                Self::from_f64_rounded(x, Rounding::NearestEven, Overflow::Ieee)
            }

            /// The value that a named rounding and overflow policy give.
            ///
            /// # Errors
            /// When the format has no code for the result; see [`EncodeError`].
            pub fn from_f64_rounded(x: f64, rounding: Rounding, overflow: Overflow) -> Result<Self, EncodeError> {
                format::$spec.encode_f64(x, rounding, overflow).map(|bits| Self(bits as $bits))
            }

            /// The same value as an `f64`, exactly.
            pub fn to_f64(self) -> f64 {
                format::$spec.to_f64(self.0.into())
            }

            /// The same value as an `f32`, exactly: every format here fits.
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }
        }

        impl Format for $name {
            const SPEC: FormatSpec = format::$spec;
            #[inline]
            fn to_bits(self) -> u64 { self.0.into() }
            #[inline]
            fn from_bits(bits: u64) -> Self { Self(bits as $bits) }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&(*self).to_f64(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&(*self).to_f64(), f)
            }
        }

        /// Reads a decimal number and rounds it to nearest even.
        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                let x: f64 = text.parse().map_err(|_| Error::parse("number", text, "a decimal number"))?;
                Self::from_f64(x).map_err(|source| Error::Encode { operand: text.into(), source })
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                (*self).to_f64() == (*other).to_f64()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                (*self).to_f64().partial_cmp(&(*other).to_f64())
            }
        }

        impl Bounded for $name {
            fn min_value() -> Self {
                // Without a sign the smallest code is the smallest number.
                Self(if format::$spec.signed { format::$spec.max_code(true) as $bits } else { 0 })
            }
            fn max_value() -> Self { Self(format::$spec.max_code(false) as $bits) }
        }

        /// None for what the type has no code for: a NaN in formats without one, a negative number without a sign.
        impl FromPrimitive for $name {
            fn from_i64(n: i64) -> Option<Self> { Self::from_f64(n as f64).ok() }
            fn from_u64(n: u64) -> Option<Self> { Self::from_f64(n as f64).ok() }
            fn from_f64(x: f64) -> Option<Self> { Self::from_f64(x).ok() }
        }

        impl ToPrimitive for $name {
            fn to_i64(&self) -> Option<i64> { (*self).to_f64().to_i64() }
            fn to_u64(&self) -> Option<u64> { (*self).to_f64().to_u64() }
            fn to_f64(&self) -> Option<f64> { Some((*self).to_f64()) }
        }

        impl AsPrimitive<f32> for $name {
            fn as_(self) -> f32 { self.to_f32() }
        }

        impl AsPrimitive<f64> for $name {
            fn as_(self) -> f64 { self.to_f64() }
        }

        impl From<$name> for f64 {
            fn from(x: $name) -> f64 { x.to_f64() }
        }

        impl From<$name> for f32 {
            fn from(x: $name) -> f32 { x.to_f32() }
        }

        newtypes!(@arithmetic $name, Mul mul *, Add add +, Sub sub -, Div div /);

        impl One for $name {
            fn one() -> Self { Self::saturated(1.0) }
        }

        impl $name {
            /// The nearest value there is: saturating, never an error. Below all numbers, as without a sign, it is the
            /// smallest one; NaN without a code is the largest one, as PTX converts it.
            fn saturated(x: f64) -> Self {
                let bits = format::$spec.encode_f64(x, Rounding::NearestEven, Overflow::Saturate);
                bits.map_or_else(|_| if x <= 0.0 { Self::min_value() } else { Self::max_value() }, |b| Self(b as $bits))
            }
        }
    )* };
    // Arithmetic as other small-float crates have it: through f64, which is exact for sums and
    // products of these formats' values up to one rounding, then rounded to nearest even.
    (@arithmetic $name:ident, $($trait:ident $method:ident $op:tt),*) => { $(
        impl ops::$trait for $name {
            type Output = Self;
            fn $method(self, other: Self) -> Self { Self::saturated(self.to_f64() $op other.to_f64()) }
        }
    )* };
}

newtypes! {
    /// TensorFloat-32 (AMD: xf32) in the 32 bits of an `f32`; the low 13 bits are ignored.
    Tf32(u32) = TF32;
    /// E5M2 FNUZ, CDNA3's bf8.
    E5M2Fnuz(u8) = E5M2FNUZ;
    /// E4M3 FNUZ, CDNA3's fp8.
    E4M3Fnuz(u8) = E4M3FNUZ;
    /// OCP FP6 E3M2, in the low 6 bits.
    E3M2(u8) = E3M2;
    /// OCP FP6 E2M3, in the low 6 bits.
    E2M3(u8) = E2M3;
    /// OCP FP4 E2M1, in the low 4 bits.
    E2M1(u8) = E2M1;
    /// OCP MX scale E8M0: a power of two.
    Ue8m0(u8) = UE8M0;
    /// NVFP4 scale: E4M3 without a sign.
    Ue4m3(u8) = UE4M3;
}

macro_rules! zero {
    ($($name:ident),*) => { $(impl Zero for $name {
        fn zero() -> Self { Self::from_bits(0) }
        fn is_zero(&self) -> bool { Self::SPEC.decode((*self).to_bits().into()).is_zero() }
    })* };
}
// UE8M0 has no zero.
zero!(Tf32, E5M2Fnuz, E4M3Fnuz, E3M2, E2M3, E2M1, Ue4m3);
