//! What the kernel of aligned products asks of an instruction set: vectors of 32-bit words, as integers or f32.

use super::REST;
use crate::simd::fda::step::EXP32;
use crate::simd::fda::{MR, out, round_to_zero};
use crate::simd::{Avx2, Sse2};
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// The bits of an f64's significand that f32 has no place for.
const BELOW: i64 = (1 << 29) - 1;

/// An instruction set, whose value is the proof that it is there. f32 arithmetic rounds to nearest even.
pub(in crate::simd::fda) trait Vectors: Copy {
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

    /// Differences and products of f32.
    fn sub_f32(self, x: Self::V, y: Self::V) -> Self::V;
    fn mul(self, x: Self::V, y: Self::V) -> Self::V;
    /// f32 truncated to integers.
    fn truncated(self, x: Self::V) -> Self::V;
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

    /// Whether the set has `products_and_ends` and `products_of_rows`.
    const FUSES: bool = false;

    /// The rounding mode, and what stands beside it.
    ///
    /// # Safety
    /// The set's instructions are enabled.
    #[inline(always)]
    unsafe fn mode(self) -> u32 {
        0
    }

    /// From what products and states are multiplied by, `by`, or to `shift` them what is added to their codes, to results
    /// rounded toward zero: a step of `L` products, 4, 8 or 16, of so many rows, but not 0, by 64 columns. `mode` is
    /// `Self::mode`'s.
    ///
    /// # Safety
    /// There are as many of each, `by` and `states` aligned to 32 bytes; results are normal numbers, or 0.
    #[inline(always)]
    unsafe fn products_and_ends<const L: usize>(
        self,
        _shift: bool,
        _rows: usize,
        _panels: [*const f32; 2],
        _by: *const u32,
        _states: *mut f32,
        _mode: u32,
    ) {
    }

    /// The same of 8 rows, as far as sums, in units of `2^(e_max - F)`.
    ///
    /// # Safety
    /// As above, and as many sums, aligned to 32 bytes.
    #[inline(always)]
    unsafe fn products_of_rows<const L: usize>(
        self,
        _shift: bool,
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

    /// Integers `sums`, rounded toward zero to f32, times the f32 whose code is `down` less `by`, for 8 rows by 64 columns:
    /// where the set has a way that is worth its while for so many at once. Returns whether it has.
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

impl Vectors for Avx2 {
    type V = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_load_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32, x: __m256i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_store_si256(to.cast(), x) }
    }

    #[inline(always)]
    unsafe fn load_unaligned(self, from: *const u32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_unaligned(self, to: *mut u32, x: __m256i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), x) }
    }

    #[inline(always)]
    unsafe fn store_halves(self, to: [*mut u32; 2], x: __m256i) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_si128(to[0].cast(), _mm256_castsi256_si128(x));
            _mm_storeu_si128(to[1].cast(), _mm256_extracti128_si256::<1>(x));
        }
    }

    #[inline(always)]
    fn splat(self, x: u32) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_set1_epi32(x as i32) }
    }

    operations! {
        add_bytes(x, y) _mm256_add_epi8(x, y);
        max_bytes(x, y) _mm256_max_epu8(x, y);
        min_bytes(x, y) _mm256_min_epu8(x, y);
        sub_bytes(x, y) _mm256_subs_epu8(x, y);
        equal_bytes(x, y) _mm256_cmpeq_epi8(x, y);
        first_bytes(x) {
            let each = _mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0C0C_0C0C);
            _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(each))
        };
        and(x, y) _mm256_and_si256(x, y);
        or(x, y) _mm256_or_si256(x, y);
        without(x, y) _mm256_andnot_si256(x, y);
        add(x, y) _mm256_add_epi32(x, y);
        sub(x, y) _mm256_sub_epi32(x, y);
        equal(x, y) _mm256_cmpeq_epi32(x, y);
        greater(x, y) _mm256_cmpgt_epi32(x, y);
        choose(condition, x, y) _mm256_blendv_epi8(y, x, condition);
        greater_f32(x, y) {
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)))
        };
        half(x) _mm256_srai_epi32::<1>(x);
        floored(x, n) _mm256_srav_epi32(x, n);
        abs(x) _mm256_abs_epi32(x);
        with_sign(x, of) _mm256_sign_epi32(x, of);
        max_positive(x, y) _mm256_max_epi32(x, y);
        sub_f32(x, y) _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)));
        mul(x, y) _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)));
        truncated(x) _mm256_cvttps_epi32(_mm256_castsi256_ps(x));
        float(x) _mm256_castps_si256(_mm256_cvtepi32_ps(x));
        via_f16(x) {
            let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castsi256_ps(x));
            _mm256_castps_si256(_mm256_add_ps(_mm256_cvtph_ps(half), _mm256_setzero_ps()))
        };
    }

    #[inline(always)]
    fn joined<const OUT: u8>(self, high: __m256i, low: __m256i) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe {
            let lower = self.joined_half::<OUT>(_mm256_castsi256_si128(high), _mm256_castsi256_si128(low));
            let [high, low] = [_mm256_extracti128_si256::<1>(high), _mm256_extracti128_si256::<1>(low)];
            _mm256_set_m128i(self.joined_half::<OUT>(high, low), lower)
        }
    }

    #[inline(always)]
    fn left<const N: i32>(self, x: __m256i) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_slli_epi32::<N>(x) }
    }

    #[inline(always)]
    fn right<const N: i32>(self, x: __m256i) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_srli_epi32::<N>(x) }
    }

    #[inline(always)]
    fn left_by(self, x: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_sll_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn right_by(self, x: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_srl_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn right_signed_by(self, x: __m256i, n: u32) -> __m256i {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_sra_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn below_bytes(self, x: __m256i, y: __m256i) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { !_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(x, y), x)) as u32 }
    }

    #[inline(always)]
    fn signs(self, x: __m256i) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(x)) as u32 }
    }

    #[inline(always)]
    fn any(self, x: __m256i) -> bool {
        // SAFETY: `self` is the proof.
        unsafe { _mm256_testz_si256(x, x) == 0 }
    }

    #[inline(always)]
    unsafe fn end_all(self, sums: *const u32, by: *const u32, down: u32, to: *mut f32) -> bool {
        // SAFETY: the caller's promise; `self` is the proof that AVX2 is there.
        unsafe { round_to_zero::scaled(sums, by, down, to) }
        true
    }

    const FUSES: bool = true;

    #[inline(always)]
    unsafe fn mode(self) -> u32 {
        // SAFETY: `self` is the proof that AVX2 is there.
        unsafe { round_to_zero::mode() }
    }

    #[inline(always)]
    unsafe fn products_and_ends<const L: usize>(
        self,
        shift: bool,
        rows: usize,
        panels: [*const f32; 2],
        by: *const u32,
        states: *mut f32,
        mode: u32,
    ) {
        // SAFETY: the caller's promise; `self` is the proof that AVX2 is there.
        unsafe {
            if shift {
                round_to_zero::products_and_ends::<L, true>(rows, panels, by, states, mode);
            } else {
                round_to_zero::products_and_ends::<L, false>(rows, panels, by, states, mode);
            }
        }
    }

    #[inline(always)]
    unsafe fn products_of_rows<const L: usize>(
        self,
        shift: bool,
        panels: [*const f32; 2],
        by: *const u32,
        states: *const f32,
        sums: *mut u32,
    ) {
        // SAFETY: the caller's promise; `self` is the proof that AVX2 is there.
        unsafe {
            if shift {
                round_to_zero::products::<L, true>(MR, panels, by, states, sums);
            } else {
                round_to_zero::products::<L, false>(MR, panels, by, states, sums);
            }
        }
    }

    /// The larger byte is found where `c`'s field has been shifted to it; times -128 it is minus the field in place.
    #[inline(always)]
    fn less_fields(self, up: __m256i, bytes: __m256i, c: [__m256i; 4]) -> [__m256i; 4] {
        let lower = self.left::<16>(bytes);
        let (third, fourth) = (self.splat(0x80 << 16), self.splat(0x80 << 24));
        let parts = [
            (lower, self.right::<7>(c[0]), third),
            (lower, self.left::<1>(c[1]), fourth),
            (bytes, self.right::<7>(c[2]), third),
            (bytes, self.left::<1>(c[3]), fourth),
        ];
        let mut d = c;
        // SAFETY: `self` is the proof.
        unsafe {
            for (t, (bytes, c, place)) in parts.into_iter().enumerate() {
                d[t] = _mm256_maddubs_epi16(_mm256_max_epu8(c, bytes), place);
            }
        }
        for d in &mut d {
            *d = self.add(up, *d);
        }
        d
    }
}

impl Avx2 {
    /// Four lanes of `joined`. (No closure there: only what is always inlined is sure of its instruction set.)
    #[inline(always)]
    fn joined_half<const OUT: u8>(self, high: __m128i, low: __m128i) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe {
            let factor = _mm256_set1_pd((1 << REST).into());
            let sum = _mm256_fmadd_pd(_mm256_cvtepi32_pd(high), factor, _mm256_cvtepi32_pd(low));
            let (bits, below) = (_mm256_castpd_si256(sum), _mm256_set1_epi64x(BELOW));
            let cut = match OUT {
                out::F32_RNE => bits,
                out::F16_RNE => {
                    let sticky = _mm256_add_epi64(_mm256_and_si256(bits, below), below);
                    _mm256_andnot_si256(below, _mm256_or_si256(bits, sticky))
                }
                _ => _mm256_andnot_si256(below, bits),
            };
            _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(cut)))
        }
    }
}

impl Vectors for Sse2 {
    type V = __m128i;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe { _mm_load_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32, x: __m128i) {
        // SAFETY: the caller's promise.
        unsafe { _mm_store_si128(to.cast(), x) }
    }

    #[inline(always)]
    unsafe fn load_unaligned(self, from: *const u32) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_unaligned(self, to: *mut u32, x: __m128i) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), x) }
    }

    #[inline(always)]
    fn splat(self, x: u32) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_set1_epi32(x as i32) }
    }

    operations! {
        add_bytes(x, y) _mm_add_epi8(x, y);
        max_bytes(x, y) _mm_max_epu8(x, y);
        min_bytes(x, y) _mm_min_epu8(x, y);
        sub_bytes(x, y) _mm_subs_epu8(x, y);
        equal_bytes(x, y) _mm_cmpeq_epi8(x, y);
        and(x, y) _mm_and_si128(x, y);
        or(x, y) _mm_or_si128(x, y);
        without(x, y) _mm_andnot_si128(x, y);
        add(x, y) _mm_add_epi32(x, y);
        sub(x, y) _mm_sub_epi32(x, y);
        equal(x, y) _mm_cmpeq_epi32(x, y);
        greater(x, y) _mm_cmpgt_epi32(x, y);
        greater_f32(x, y) _mm_castps_si128(_mm_cmpgt_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        half(x) _mm_srai_epi32::<1>(x);
        choose(condition, x, y) _mm_or_si128(_mm_and_si128(condition, x), _mm_andnot_si128(condition, y));
        // The bits of positive numbers are in their order.
        max_positive(x, y) _mm_castps_si128(_mm_max_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        sub_f32(x, y) _mm_castps_si128(_mm_sub_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        mul(x, y) _mm_castps_si128(_mm_mul_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        truncated(x) _mm_cvttps_epi32(_mm_castsi128_ps(x));
        float(x) _mm_castps_si128(_mm_cvtepi32_ps(x));
    }

    #[inline(always)]
    fn floored(self, x: __m128i, n: __m128i) -> __m128i {
        // Positive numbers are truncated: `x + 2^30`, whose 2^30 is taken away again. From 2^-30 on 0 or -1 is left.
        let most = self.splat(30);
        let n = self.choose(self.greater(n, most), most, n);
        let offset = self.truncated(self.left::<23>(self.sub(self.splat(127 + 30), n)));
        let up = self.add(x, self.splat(1 << 30));
        // SAFETY: `self` is the proof.
        unsafe {
            // `2^-n`: the upper halves of f64.
            let (low, high) = (_mm_setzero_si128(), self.left::<20>(self.sub(self.splat(1023), n)));
            let half = |x: __m128i, factor: __m128i| {
                _mm_cvttpd_epi32(_mm_mul_pd(_mm_cvtepi32_pd(x), _mm_castsi128_pd(factor)))
            };
            let lower = half(up, _mm_unpacklo_epi32(low, high));
            let upper = half(_mm_shuffle_epi32::<0b1110>(up), _mm_unpackhi_epi32(low, high));
            self.sub(_mm_unpacklo_epi64(lower, upper), offset)
        }
    }

    #[inline(always)]
    fn abs(self, x: __m128i) -> __m128i {
        self.with_sign(x, x)
    }

    #[inline(always)]
    fn with_sign(self, x: __m128i, of: __m128i) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe {
            let mask = _mm_srai_epi32::<31>(of);
            _mm_sub_epi32(_mm_xor_si128(x, mask), mask)
        }
    }

    #[inline(always)]
    fn via_f16(self, x: __m128i) -> __m128i {
        let magnitude = self.without(self.splat(1 << 31), x);
        // Ties to even: less than half of the last place that stays is added to an even one, half to an odd one.
        let odd = self.and(self.right::<13>(magnitude), self.splat(1));
        let up = self.add(self.add(magnitude, self.splat(0xFFF)), odd);
        let normal = self.without(self.splat(0x1FFF), up);
        let normal = self.choose(self.greater(self.splat(143 << 23), normal), normal, self.splat(255 << 23));
        // SAFETY: `self` is the proof.
        let small = unsafe {
            // The last place of a half is that of f16's subnormal numbers.
            let half = _mm_set1_ps(0.5);
            _mm_castps_si128(_mm_sub_ps(_mm_add_ps(_mm_castsi128_ps(magnitude), half), half))
        };
        let rounded = self.choose(self.greater(self.splat(113 << 23), magnitude), small, normal);
        let sign = self.without(self.equal(rounded, self.splat(0)), self.and(x, self.splat(1 << 31)));
        self.or(rounded, sign)
    }

    #[inline(always)]
    fn joined<const OUT: u8>(self, high: __m128i, low: __m128i) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe {
            let half = |high: __m128i, low: __m128i| {
                let factor = _mm_set1_pd((1 << REST).into());
                let sum = _mm_add_pd(_mm_mul_pd(_mm_cvtepi32_pd(high), factor), _mm_cvtepi32_pd(low));
                let (bits, below) = (_mm_castpd_si128(sum), _mm_set1_epi64x(BELOW));
                let cut = match OUT {
                    out::F32_RNE => bits,
                    out::F16_RNE => {
                        let sticky = _mm_add_epi64(_mm_and_si128(bits, below), below);
                        _mm_andnot_si128(below, _mm_or_si128(bits, sticky))
                    }
                    _ => _mm_andnot_si128(below, bits),
                };
                _mm_cvtpd_ps(_mm_castsi128_pd(cut))
            };
            let upper = |x: __m128i| _mm_shuffle_epi32::<0b1110>(x);
            _mm_castps_si128(_mm_movelh_ps(half(high, low), half(upper(high), upper(low))))
        }
    }

    #[inline(always)]
    fn left<const N: i32>(self, x: __m128i) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_slli_epi32::<N>(x) }
    }

    #[inline(always)]
    fn right<const N: i32>(self, x: __m128i) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_srli_epi32::<N>(x) }
    }

    #[inline(always)]
    fn left_by(self, x: __m128i, n: u32) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_sll_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn right_by(self, x: __m128i, n: u32) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_srl_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn right_signed_by(self, x: __m128i, n: u32) -> __m128i {
        // SAFETY: `self` is the proof.
        unsafe { _mm_sra_epi32(x, _mm_cvtsi32_si128(n as i32)) }
    }

    #[inline(always)]
    fn below_bytes(self, x: __m128i, y: __m128i) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { !_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(x, y), x)) as u32 & 0xFFFF }
    }

    #[inline(always)]
    fn signs(self, x: __m128i) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { _mm_movemask_ps(_mm_castsi128_ps(x)) as u32 }
    }

    #[inline(always)]
    fn any(self, x: __m128i) -> bool {
        // SAFETY: `self` is the proof.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi32(x, _mm_setzero_si128())) != 0xFFFF }
    }
}
