//! Chains beside subnormal operands, at the pace of others.
//!
//! An FMA with a subnormal operand takes some hundred cycles. But its product hardly ever counts: where the sum is not
//! zero, it is far below half of the sum's last place. So each subnormal number is replaced by the smallest normal one
//! of its sign, operands are scaled by powers of two to magnitudes below 1, and the chains run as always:
//!
//! - Products of all other operands are multiples of a number q, and so is every sum of them, rounded or not. `Scales`
//!   sees to it that q is so large that a sum of at least q absorbs the replaced products as it does the true ones, and
//!   that neither sum is ever subnormal or overflows.
//! - A sum that is zero when such a product comes becomes subnormal itself, since all magnitudes are below 1: the
//!   processor's sticky flags say that this happened. Then the tile is done again, with the operands as they are.
//! - Chains start at zero. Their first steps are done one by one, without those products, until no sum is zero:
//!   `begin`. A product that never came may have decided a tie among the first of the others; that is done again too.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::MR;
use crate::simd::buffer::{Buffer, Plain};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// Steps within which no sum must be zero any more.
const START: usize = 32;

/// f32 or f64.
pub(super) trait Real: Plain + Default + PartialEq + PartialOrd {
    /// The exponents of normal numbers begin here.
    const EMIN: i32;
    /// Bits of a significand.
    const PRECISION: i32;
    /// The largest magnitude and the smallest normal one, by exponent: none where there are infinities or NaN.
    fn exponents(of: &[Self]) -> Option<[i32; 2]>;
    /// Times `2^by`, or of the smallest normal magnitude if it was subnormal.
    fn replaced(self, by: i32) -> Self;
    fn power(e: i32) -> Self;
    fn is_subnormal(self) -> bool;
    /// Neither zero nor replaced.
    fn counts(self) -> bool;
    fn magnitude(self) -> Self;
    fn times(self, by: Self) -> Self;
    fn fma(self, by: Self, plus: Self) -> Self;
    /// Whether `self = a b` was rounded at a tie, for products whose last place is a normal number.
    fn is_tie(self, a: Self, b: Self) -> bool;
}

macro_rules! real {
    ($ty:ident, $bits:ident) => {
        impl Real for $ty {
            const EMIN: i32 = <$ty>::MIN_EXP - 1;
            const PRECISION: i32 = <$ty>::MANTISSA_DIGITS as i32;

            #[inline(always)]
            fn exponents(of: &[Self]) -> Option<[i32; 2]> {
                // By codes: comparing numbers would set the flags. Of them the upper 32 bits, which all sets can
                // compare.
                const FIELD: u32 = (<$ty>::INFINITY.to_bits() >> (<$bits>::BITS - 32)) as u32;
                const ONE: u32 = (<$ty>::MIN_POSITIVE.to_bits() >> (<$bits>::BITS - 32)) as u32;
                let (mut high, mut low) = (0, u32::MAX);
                for x in of {
                    let field = (x.to_bits() >> (<$bits>::BITS - 32)) as u32 & FIELD;
                    high = high.max(field);
                    // Zeros and subnormal numbers become the largest.
                    low = low.min(field.wrapping_sub(ONE));
                }
                let low = low.wrapping_add(ONE);
                let exponent = |field: u32| (field / ONE) as i32 - 1 + Self::EMIN;
                (ONE <= low && low <= high && high < FIELD).then(|| [exponent(high), exponent(low)])
            }

            #[inline(always)]
            fn replaced(self, by: i32) -> Self {
                let (code, least) = (self.to_bits() & <$bits>::MAX >> 1, Self::MIN_POSITIVE.to_bits());
                let sign = self.to_bits() ^ code;
                let small = if code == 0 { 0 } else { least };
                // By the code: a subnormal number must not even be multiplied, where compilers may choose afterwards.
                let shifted = self.to_bits().wrapping_add((by as $bits) << (Self::PRECISION - 1));
                Self::from_bits(if code < least { sign | small } else { shifted })
            }

            #[inline(always)]
            fn power(e: i32) -> Self {
                Self::from_bits(((e + 1 - Self::EMIN) as $bits) << (Self::PRECISION - 1))
            }

            #[inline(always)]
            fn is_subnormal(self) -> bool {
                // By codes, as above; zero becomes the largest.
                (self.to_bits() & <$bits>::MAX >> 1).wrapping_sub(1) < Self::MIN_POSITIVE.to_bits() - 1
            }

            #[inline(always)]
            fn counts(self) -> bool {
                self.abs() > Self::MIN_POSITIVE
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn times(self, by: Self) -> Self {
                self * by
            }

            #[inline(always)]
            fn fma(self, by: Self, plus: Self) -> Self {
                self.mul_add(by, plus)
            }

            #[inline(always)]
            fn is_tie(self, a: Self, b: Self) -> bool {
                // What rounding left is exact; twice that leads from a tie to the other neighbour, else between two.
                let rest = a.mul_add(b, -self);
                let other = self + (rest + rest);
                rest != 0.0 && other - self == rest + rest
            }
        }
    };
}
real!(f32, u32);
real!(f64, u64);

/// Operands scaled below 1, subnormal ones replaced.
#[derive(Debug)]
pub(super) struct Tame {
    pub(super) values: Buffer,
    reach: Reach,
}

/// What [`Tame`] operands were multiplied by, 2^-scale, and the exponent of the smallest normal one, scaled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    scale: i32,
    low: i32,
}

impl Reach {
    #[inline(always)]
    fn of<T: Real>(exponents: impl IntoIterator<Item = Option<[i32; 2]>>) -> Option<Self> {
        let [mut high, mut low] = [i32::MIN, i32::MAX];
        for of in exponents {
            let [h, l] = of?;
            (high, low) = (high.max(h), low.min(l));
        }
        let scale = high + 1;
        let inside = scale.abs() < -T::EMIN / 2 && low - scale > T::EMIN;
        inside.then_some(Self { scale, low: low - scale })
    }
}

/// Columns of B, and what is known and made of them on the way.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) plain: Buffer,
    /// Whether subnormal numbers were met in a product of them.
    pub(super) slow: AtomicBool,
    tame: OnceLock<Option<Tame>>,
    /// Room for the next tame columns.
    spare: Mutex<Buffer>,
}

impl Columns {
    /// Room for other columns.
    pub(super) fn room<T: Plain>(&mut self, n: usize) -> &mut [T] {
        *self.slow.get_mut() = false;
        if let Some(Some(old)) = self.tame.take() {
            self.spare = Mutex::new(old.values);
        }
        self.plain.room(n)
    }

    /// Whether [`Columns::slow`] was told.
    pub(super) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// The same, tame, if they can be.
    #[inline(always)]
    pub(super) fn tame<T: Real>(&self) -> Option<&Tame> {
        if self.tame.get().is_none() {
            // Not in a closure, which would be compiled for no instruction set. Two threads may do it, to the same end.
            let tame = self.make_tame::<T>();
            self.tame.get_or_init(|| tame);
        }
        self.tame.get()?.as_ref()
    }

    #[inline(always)]
    fn make_tame<T: Real>(&self) -> Option<Tame> {
        let plain = self.plain.view::<T>();
        let reach = Reach::of::<T>([T::exponents(plain)])?;
        let mut values = self.spare.lock().map(|mut spare| core::mem::take(&mut *spare)).unwrap_or_default();
        for (to, x) in values.room(plain.len()).iter_mut().zip(plain) {
            *to = x.replaced(-reach.scale);
        }
        Some(Tame { values, reach })
    }
}

/// Rows of A, tame, one after another.
#[inline(always)]
pub(super) fn tame_rows<T: Real>(rows: &[&[T]; MR], to: &mut Vec<T>) -> Option<Reach> {
    // Plain loops: closures in iterators may be compiled for no instruction set.
    let mut exponents = [None; MR];
    for (to, row) in exponents.iter_mut().zip(rows) {
        *to = T::exponents(row);
    }
    let reach = Reach::of::<T>(exponents)?;
    let k = rows[0].len();
    to.resize(MR * k, T::default());
    for (to, row) in to.chunks_exact_mut(k.max(1)).zip(rows) {
        for (to, x) in to.iter_mut().zip(*row) {
            *to = x.replaced(-reach.scale);
        }
    }
    Some(reach)
}

/// What holds for the sums of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scales<T> {
    /// To tame sums, and back.
    down: T,
    up: T,
    /// The smallest sum that is known to be a multiple of q, and one that is too large.
    least: T,
    most: T,
}

impl<T: Real> Scales<T> {
    /// None where products of tame operands are not known to be what the module says.
    #[inline(always)]
    pub(super) fn new(a: Reach, b: &Tame, k: usize) -> Option<Self> {
        let b = b.reach;
        let scale = a.scale + b.scale;
        // q's exponent.
        let last = a.low + b.low - 2 * (T::PRECISION - 1);
        // True products of subnormal numbers, scaled, are below this, replaced ones too.
        let tiny = T::EMIN - a.scale.min(b.scale).min(0);
        let most = (-T::EMIN - scale).min(-T::EMIN / 2);
        let room = k.next_power_of_two().ilog2() as i32 <= most;
        let holds = room && scale.abs() <= -T::EMIN && last >= tiny + T::PRECISION + 2 && last + scale >= T::EMIN;
        holds.then(|| Self {
            down: T::power(-scale),
            up: T::power(scale),
            least: T::power(last + T::PRECISION),
            most: T::power(most - 1),
        })
    }

    /// The sum, scaled; `bad` where it may be no multiple of q.
    #[inline(always)]
    pub(super) fn load(&self, c: T, bad: &mut bool) -> T {
        let x = c.times(self.down);
        let inside = x.magnitude() >= self.least && x.magnitude() < self.most;
        *bad |= !(inside || c == T::default());
        x
    }

    /// The true sum; `bad` where it is not a normal number or zero.
    #[inline(always)]
    pub(super) fn store(&self, x: T, bad: &mut bool) -> T {
        *bad |= !(x.counts() || x == T::default());
        x.times(self.up)
    }
}

/// First steps of chains, without products of subnormal numbers, until no sum is zero: how many, or none where that
/// does not come about soon or a product that is left out may have counted. All sums are zero where `start` says so.
#[inline(always)]
pub(super) fn begin<T: Real, const N: usize>(
    a: &[&[T]; MR],
    b: &[[T; N]],
    c: &mut [[T; N]; MR],
    start: bool,
) -> Option<usize> {
    let or_zero = |x: T| if x.counts() { x } else { T::default() };
    let mut zeros = u32::from(start);
    if !start {
        c.as_flattened().iter().for_each(|c| zeros |= u32::from(*c == T::default()));
    }
    for (k, b) in b.iter().enumerate().take(START) {
        if zeros == 0 {
            return Some(k);
        }
        let (b, mut tie) = (b.map(or_zero), 0u32);
        zeros = 0;
        for r in 0..MR {
            let a = or_zero(a[r][k]);
            for j in 0..N {
                let (before, sum) = (c[r][j], a.fma(b[j], c[r][j]));
                // Before the first step nothing was left out.
                if k > 0 {
                    tie |= u32::from(before == T::default()) & u32::from(sum.is_tie(a, b[j]));
                }
                zeros |= u32::from(sum == T::default());
                c[r][j] = sum;
            }
        }
        if tie != 0 {
            return None;
        }
    }
    (zeros == 0).then_some(b.len().min(START))
}

/// Whether there are subnormal numbers.
#[inline(always)]
pub(super) fn any_subnormal<T: Real>(of: &[T]) -> bool {
    of.iter().fold(0, |any, x| any | u32::from(x.is_subnormal())) != 0
}
