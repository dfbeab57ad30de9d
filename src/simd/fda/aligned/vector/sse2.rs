//! `Vectors` of SSE2.

use super::{BELOW, Vectors};
use crate::simd::Sse2;
use crate::simd::fda::aligned::REST;
use crate::simd::fda::out;
use core::arch::x86_64::*;

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
        add_f32(x, y) _mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        sub_f32(x, y) _mm_castps_si128(_mm_sub_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        mul(x, y) _mm_castps_si128(_mm_mul_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y)));
        nearest(x) _mm_cvtps_epi32(_mm_castsi128_ps(x));
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
                    out::F32_RD | out::F32_RU => {
                        // Magnitudes of one sign become larger.
                        let negative = _mm_shuffle_epi32::<0b11_11_01_01>(_mm_srai_epi32::<31>(bits));
                        let more = match OUT {
                            out::F32_RD => _mm_and_si128(negative, below),
                            _ => _mm_andnot_si128(negative, below),
                        };
                        _mm_andnot_si128(below, _mm_add_epi64(bits, more))
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
