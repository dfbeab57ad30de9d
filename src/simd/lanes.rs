//! Arithmetic on a row of columns, as plain loops over arrays that compilers turn into vectors.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use crate::format::FormatSpec;
use crate::round::Rounding;

/// Rounding to an integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ToInt {
    NearestEven,
    NearestOdd,
    TowardZero,
    Down,
    Up,
    /// Toward zero, but away from it where what that cuts off is above a bound: of positive and of negative numbers.
    Above([f64; 2]),
}

/// Everything that is cut off is above it.
const NOTHING: f64 = 0.0;
/// The largest number below a half.
const LESS: f64 = 0.5 - f64::EPSILON / 4.0;
const HALF: f64 = 0.5;

impl ToInt {
    /// All but stochastic rounding.
    pub(super) const fn new(rounding: Rounding) -> Option<Self> {
        Some(match rounding {
            Rounding::NearestEven => Self::NearestEven,
            Rounding::NearestOdd => Self::NearestOdd,
            Rounding::TowardZero => Self::TowardZero,
            Rounding::Down => Self::Down,
            Rounding::Up => Self::Up,
            Rounding::AwayFromZero => Self::Above([NOTHING; 2]),
            Rounding::NearestAway => Self::Above([LESS; 2]),
            Rounding::NearestZero => Self::Above([HALF; 2]),
            Rounding::NearestUp => Self::Above([LESS, HALF]),
            Rounding::NearestDown => Self::Above([HALF, LESS]),
            Rounding::Stochastic { .. } => return None,
        })
    }
}

/// `2^e`, for exponents of normal f32.
#[inline(always)]
pub(super) fn narrow_power(e: i16) -> f32 {
    f32::from_bits(u32::from((127 + e) as u16) << 23)
}

/// `2^e`, for exponents of normal f64.
#[inline(always)]
pub(super) fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// The exponent of an f64, -1023 for zero.
#[inline(always)]
pub(super) fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7FF) as i32 - 1023
}

/// A number whose last place is 1.
pub(super) const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// The largest integer that is not above x, `|x| < 2^51`. Without an instruction, zero is +0.
#[inline(always)]
pub(super) fn floor<const NATIVE: bool>(x: f64) -> f64 {
    if NATIVE {
        return x.floor();
    }
    let t = (x + MAGIC) - MAGIC;
    t - f64::from(u8::from(t > x))
}

/// The integer next to x, `|x| < 2^51`, toward zero: with the machine's instruction, or by adding a number whose last
/// place is 1.
#[inline(always)]
fn cut<const NATIVE: bool>(x: f64) -> f64 {
    if NATIVE {
        return x.trunc();
    }
    let magnitude = x.abs();
    let t = (magnitude + MAGIC) - MAGIC;
    (t - f64::from(u8::from(t > magnitude))).copysign(x)
}

/// The nearest integer, or of two the even one.
#[inline(always)]
fn nearest<const NATIVE: bool>(x: f64) -> f64 {
    if NATIVE { x.round_ties_even() } else { ((x.abs() + MAGIC) - MAGIC).copysign(x) }
}

/// x rounded to an integer, `|x| < 2^51`.
#[inline(always)]
pub(super) fn to_int<const NATIVE: bool>(x: f64, how: ToInt) -> f64 {
    match how {
        ToInt::NearestEven => nearest::<NATIVE>(x),
        ToInt::NearestOdd => {
            let cut = cut::<NATIVE>(x);
            away(x, cut, if nearest::<NATIVE>(x) == cut { LESS } else { HALF })
        }
        ToInt::TowardZero => cut::<NATIVE>(x),
        ToInt::Down if NATIVE => x.floor(),
        ToInt::Down => floor::<NATIVE>(x).copysign(x),
        ToInt::Up if NATIVE => x.ceil(),
        ToInt::Up => {
            let t = (x + MAGIC) - MAGIC;
            (t + f64::from(u8::from(t < x))).copysign(x)
        }
        ToInt::Above([positive, negative]) => away(x, cut::<NATIVE>(x), if x < 0.0 { negative } else { positive }),
    }
}

/// One more than x cut toward zero, where that left more than the bound.
#[inline(always)]
fn away(x: f64, cut: f64, bound: f64) -> f64 {
    (cut.abs() + f64::from(u8::from((x - cut).abs() > bound))).copysign(x)
}

/// How a sum is rounded to the output: docs/numerics.md, 4.12, step 7.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encode {
    pub(super) rounding: ToInt,
    /// Fraction bits kept.
    pub(super) bits: i32,
    /// The output's smallest exponent.
    pub(super) emin: i32,
    /// What takes the place of positive and negative overflow.
    pub(super) over: [f64; 2],
    /// The magnitude from which that is.
    pub(super) limit: f64,
    /// Added to every result: +0, or -0 where a negative value that rounds to zero is -0.
    pub(super) zero: f64,
    /// Results below are +0, but for zeros: 0, or the smallest normal number.
    pub(super) least: f64,
}

impl Encode {
    /// Results in a format, of so many fraction bits if fewer than its own; of `ieee` ones those toward zero stop at
    /// the largest number, and zeros keep their signs. None for stochastic rounding.
    pub(super) fn new(d: &FormatSpec, rounding: Rounding, bits: Option<u32>, ieee: bool) -> Option<Self> {
        let bits = bits.map_or(d.fraction_bits, |bits| bits.min(d.fraction_bits)) as i32;
        let top = power(d.max().exponent);
        let over = |negative: bool| {
            let stops = (ieee || rounding != Rounding::TowardZero) && rounding.stops_at_max(negative);
            let magnitude = if stops { top * (2.0 - power(-bits)) } else { f64::INFINITY };
            if negative { -magnitude } else { magnitude }
        };
        Some(Self {
            rounding: ToInt::new(rounding)?,
            bits,
            emin: d.emin(),
            over: [over(false), over(true)],
            limit: 2.0 * top,
            zero: if ieee { -0.0 } else { 0.0 },
            least: 0.0,
        })
    }

    /// Rounds one exact value of a magnitude well inside f64's range; it then fits into f32.
    #[inline(always)]
    pub(super) fn apply<const NATIVE: bool>(&self, v: f64, how: ToInt) -> f64 {
        let quantum = exponent(v).max(self.emin) - self.bits;
        let z = to_int::<NATIVE>(v * power(-quantum), how) * power(quantum);
        // A rounded zero keeps its sign, or is +0.
        let z = z + self.zero;
        let z = if z != 0.0 && z.abs() < self.least { 0.0 } else { z };
        let [above, below] = self.over;
        let over = if v < 0.0 { below } else { above };
        if z.abs() >= self.limit { over } else { z }
    }

    /// `apply` on a row.
    #[inline(always)]
    pub(super) fn row<const NATIVE: bool, const N: usize>(&self, v: [f64; N]) -> [f32; N] {
        let (mut d, encode) = ([0.0; N], *self);
        macro_rules! each {
            ($how:expr) => {
                for j in 0..N {
                    d[j] = encode.apply::<NATIVE>(v[j], $how) as f32;
                }
            };
        }
        match self.rounding {
            ToInt::NearestEven => each!(ToInt::NearestEven),
            ToInt::NearestOdd => each!(ToInt::NearestOdd),
            ToInt::TowardZero => each!(ToInt::TowardZero),
            ToInt::Down => each!(ToInt::Down),
            ToInt::Up => each!(ToInt::Up),
            ToInt::Above(bounds) => each!(ToInt::Above(bounds)),
        }
        d
    }
}

/// A number for every lane: one for all of them, or each its own.
pub(super) trait Lane<T, const N: usize>: Copy {
    fn at(&self, j: usize) -> T;
}

macro_rules! lane {
    ($($T:ty),+) => {$(
        impl<const N: usize> Lane<$T, N> for $T {
            #[inline(always)]
            fn at(&self, _: usize) -> $T {
                *self
            }
        }

        impl<const N: usize> Lane<$T, N> for [$T; N] {
            #[inline(always)]
            fn at(&self, j: usize) -> $T {
                self[j]
            }
        }
    )+};
}
lane!(f32, f64, i16);

/// A function of every lane. (The standard library's `map` stays a call in functions for one instruction set.)
#[inline(always)]
pub(super) fn each<T: Copy, U: Copy + Default, const N: usize>(lanes: [T; N], f: impl Fn(T) -> U) -> [U; N] {
    let mut to = [U::default(); N];
    for j in 0..N {
        to[j] = f(lanes[j]);
    }
    to
}

/// Whether some lane is infinite or NaN.
#[inline(always)]
pub(super) fn any_endless<const N: usize>(lanes: [f32; N]) -> bool {
    any(each(lanes, |x| !x.is_finite()))
}

/// Whether a condition holds in any lane.
#[inline(always)]
pub(super) fn any<const N: usize>(lanes: [bool; N]) -> bool {
    lanes.iter().fold(false, |x, y| x | y)
}

/// x + y, rounded, and what that leaves.
#[inline(always)]
pub(super) fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let other = sum - x;
    (sum, (x - (sum - other)) + (y - other))
}

/// An exact sum in one or two parts, rounded to odd: where nothing is lost, and else with a last bit of 1, so that a
/// rounding to 51 bits or fewer is that of the sum.
#[inline(always)]
pub(super) fn odd(sum: f64, rest: f64) -> f64 {
    let (bits, inexact) = (sum.to_bits(), u64::from(rest != 0.0));
    // One less where the rest points toward zero, then odd.
    let toward = (bits ^ rest.to_bits()) >> 63 & inexact;
    f64::from_bits(bits.wrapping_sub(toward) | inexact)
}
