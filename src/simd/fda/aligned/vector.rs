//! What the kernel of aligned products asks of an instruction set: vectors of 32-bit words, as integers or f32.

use crate::simd::fda::micro::Micro;
use crate::simd::fda::step::EXP32;
use core::mem::MaybeUninit;

/// The bits of an f64's significand that f32 has no place for.
const BELOW: i64 = (1 << 29) - 1;

/// An instruction set, whose value is the proof that it is there. f32 arithmetic rounds to nearest even.
pub(in crate::simd::fda) trait Vectors: Micro {
    /// A vector of words.
    type V: Copy;
    /// Words in a vector.
    const LANES: usize;

    /// A vector from memory.
    ///
    /// # Safety
    /// `from` leads to `LANES` words, aligned to as many.
    unsafe fn load(self, from: *const u32) -> Self::V;
    /// # Safety
    /// As `load`.
    unsafe fn store(self, to: *mut u32, x: Self::V);
    /// `load` and `store` without the alignment.
    ///
    /// # Safety
    /// `from` leads to `LANES` words.
    unsafe fn load_unaligned(self, from: *const u32) -> Self::V;
    /// # Safety
    /// As `load_unaligned`.
    unsafe fn store_unaligned(self, to: *mut u32, x: Self::V);
    /// Each half of a vector, without the alignment.
    ///
    /// # Safety
    /// Both lead to half of `LANES` words.
    #[inline(always)]
    unsafe fn store_halves(self, to: [*mut u32; 2], x: Self::V) {
        let mut words = MaybeUninit::<[u32; 16]>::uninit();
        let from = words.as_mut_ptr().cast::<u32>();
        // SAFETY: the caller's promise; `words` has room.
        unsafe {
            self.store_unaligned(from, x);
            to[0].copy_from_nonoverlapping(from, Self::LANES / 2);
            to[1].copy_from_nonoverlapping(from.add(Self::LANES / 2), Self::LANES / 2);
        }
    }
    /// A word in every lane.
    fn splat(self, x: u32) -> Self::V;

    /// Bytes: sums modulo 256, the larger, the smaller, differences that stop at 0.
    fn add_bytes(self, x: Self::V, y: Self::V) -> Self::V;
    fn max_bytes(self, x: Self::V, y: Self::V) -> Self::V;
    fn min_bytes(self, x: Self::V, y: Self::V) -> Self::V;
    fn sub_bytes(self, x: Self::V, y: Self::V) -> Self::V;
    /// All ones in a byte, or none.
    fn equal_bytes(self, x: Self::V, y: Self::V) -> Self::V;
    /// Each word's first byte, the only one that is not 0, in all four of them.
    #[inline(always)]
    fn first_bytes(self, x: Self::V) -> Self::V {
        let twice = self.or(x, self.left::<8>(x));
        self.or(twice, self.left::<16>(twice))
    }
    /// A bit of every byte that is below `y`'s.
    fn below_bytes(self, x: Self::V, y: Self::V) -> u32;

    fn and(self, x: Self::V, y: Self::V) -> Self::V;
    fn or(self, x: Self::V, y: Self::V) -> Self::V;
    /// `y` without `x`'s bits.
    fn without(self, x: Self::V, y: Self::V) -> Self::V;
    fn left<const N: i32>(self, x: Self::V) -> Self::V;
    fn right<const N: i32>(self, x: Self::V) -> Self::V;
    fn left_by(self, x: Self::V, n: u32) -> Self::V;
    fn right_by(self, x: Self::V, n: u32) -> Self::V;
    /// The same of signed integers.
    fn right_signed_by(self, x: Self::V, n: u32) -> Self::V;
    /// `x` in the lanes of a condition, `y` in others.
    fn choose(self, condition: Self::V, x: Self::V, y: Self::V) -> Self::V;

    fn add(self, x: Self::V, y: Self::V) -> Self::V;
    fn sub(self, x: Self::V, y: Self::V) -> Self::V;
    /// Conditions: all ones in a lane, or none.
    fn equal(self, x: Self::V, y: Self::V) -> Self::V;
    fn greater(self, x: Self::V, y: Self::V) -> Self::V;
    /// Of f32.
    fn greater_f32(self, x: Self::V, y: Self::V) -> Self::V;
    /// Half of an integer, rounded down.
    fn half(self, x: Self::V) -> Self::V;
    /// `x * 2^-n` rounded down, for magnitudes below 2^30.
    fn floored(self, x: Self::V, n: Self::V) -> Self::V;
    fn abs(self, x: Self::V) -> Self::V;
    /// A magnitude with the sign of `of`; anything where that is 0.
    fn with_sign(self, x: Self::V, of: Self::V) -> Self::V;
    /// The larger of two words that are not negative, and not NaN as f32.
    fn max_positive(self, x: Self::V, y: Self::V) -> Self::V;

    /// Sums, differences and products of f32.
    fn add_f32(self, x: Self::V, y: Self::V) -> Self::V;
    fn sub_f32(self, x: Self::V, y: Self::V) -> Self::V;
    fn mul(self, x: Self::V, y: Self::V) -> Self::V;
    /// f32 truncated to integers.
    fn truncated(self, x: Self::V) -> Self::V;
    /// f32 rounded to integers, to nearest even.
    fn nearest(self, x: Self::V) -> Self::V;
    /// f32 rounded down to integers.
    #[inline(always)]
    fn floor(self, x: Self::V) -> Self::V {
        let cut = self.truncated(x);
        // All ones are -1.
        self.add(cut, self.greater_f32(self.float(cut), x))
    }
    /// And up.
    #[inline(always)]
    fn ceiling(self, x: Self::V) -> Self::V {
        let cut = self.truncated(x);
        self.sub(cut, self.greater_f32(x, self.float(cut)))
    }
    /// So many ones from the lowest bit on, 30 at most; anything for more.
    #[inline(always)]
    fn ones(self, n: Self::V) -> Self::V {
        let power = self.truncated(self.left::<23>(self.add(n, self.splat(127))));
        self.sub(power, self.splat(1))
    }
    /// Integers rounded to f32.
    fn float(self, x: Self::V) -> Self::V;
    /// f32 rounded to f16; -0 becomes +0.
    fn via_f16(self, x: Self::V) -> Self::V;
    /// `high * 2^REST + low` as f32, rounded as `OUT` says: to nearest, to odd where f16 follows, or toward zero.
    fn joined<const OUT: u8>(self, high: Self::V, low: Self::V) -> Self::V;
    /// A bit of every lane's sign.
    fn signs(self, x: Self::V) -> u32;
    /// Whether any lane is not 0.
    fn any(self, x: Self::V) -> bool;

    /// Whether the set has `products_and_ends` and `products`.
    const FUSES: bool = false;

    /// The rounding mode, and what stands beside it.
    ///
    /// # Safety
    /// The set's instructions are enabled.
    #[inline(always)]
    unsafe fn mode(self) -> u32 {
        0
    }

    /// From what products and states are multiplied by, `by`, or to `shift` them what is added to their codes, to
    /// results rounded toward zero: a step of `L` products, 4, 8 or 16, of so many rows, but not 0, by so many times 32
    /// columns, 1 or 2, of 64. Of `TILES` 16 columns have rows of their own, `round_to_zero::APART`. `mode` is
    /// `Self::mode`'s.
    ///
    /// # Safety
    /// There are as many of each, `by` and `states` aligned to 32 bytes; results are normal numbers, or 0.
    #[inline(always)]
    unsafe fn products_and_ends<const L: usize, const TILES: bool>(
        self,
        _shift: bool,
        _size: [usize; 2],
        _panels: [*const f32; 2],
        _by: *const u32,
        _states: *mut f32,
        _mode: u32,
    ) {
    }

    /// The same as far as sums, in units of `2^(e_max - F)`.
    ///
    /// # Safety
    /// As above, and as many sums, aligned to 32 bytes.
    #[inline(always)]
    unsafe fn products<const L: usize, const TILES: bool>(
        self,
        _shift: bool,
        _size: [usize; 2],
        _panels: [*const f32; 2],
        _by: *const u32,
        _states: *const f32,
        _sums: *mut u32,
    ) {
    }

    /// `up` less the larger exponent field, in place: of word `c[t]`, or byte `t` of `bytes`, for each `t`.
    #[inline(always)]
    fn less_fields(self, up: Self::V, bytes: Self::V, c: [Self::V; 4]) -> [Self::V; 4] {
        let (fields, field) = (fields(self, bytes), self.splat(EXP32 as u32));
        let mut less = c;
        for t in 0..4 {
            less[t] = self.max_positive(fields[t], self.and(c[t], field));
        }
        for t in 0..4 {
            less[t] = self.sub(up, less[t]);
        }
        less
    }

    /// Integers `sums`, rounded toward zero to f32, times the f32 whose code is `down` less `by`, for 8 rows by 64
    /// columns: where the set has a way that is worth its while for so many at once. Returns whether it has.
    ///
    /// # Safety
    /// There are as many of each, aligned to 32 bytes; products are normal numbers, or 0.
    #[inline(always)]
    unsafe fn end_all(self, _sums: *const u32, _by: *const u32, _down: u32, _to: *mut f32) -> bool {
        false
    }
}

/// The exponent fields of bytes `4 j + t`, for each `t`, in place.
#[inline(always)]
fn fields<S: Vectors>(set: S, bytes: S::V) -> [S::V; 4] {
    let field = set.splat(EXP32 as u32);
    // Other bits stand around them.
    [
        set.and(set.left::<23>(bytes), field),
        set.and(set.left::<15>(bytes), field),
        set.and(set.left::<7>(bytes), field),
        set.and(set.right::<1>(bytes), field),
    ]
}

/// Operations of one instruction each, or few.
macro_rules! operations {
    ($($name:ident($($x:ident),*) $body:expr;)*) => { $(
        #[inline(always)]
        fn $name(self, $($x: Self::V),*) -> Self::V {
            // SAFETY: `self` is the proof that the instructions are there.
            unsafe { $body }
        }
    )* };
}

mod avx2;
mod sse2;
