//! `Vectors` of AVX2.

use super::{BELOW, Vectors};
use crate::simd::Avx2;
use crate::simd::fda::aligned::REST;
use crate::simd::fda::out;
use crate::simd::fda::round_to_zero;
use core::arch::x86_64::*;

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
        add_f32(x, y) _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)));
        sub_f32(x, y) _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)));
        mul(x, y) _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)));
        floor(x) _mm256_cvttps_epi32(_mm256_floor_ps(_mm256_castsi256_ps(x)));
        ones(n) _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), n), _mm256_set1_epi32(1));
        ceiling(x) _mm256_cvttps_epi32(_mm256_ceil_ps(_mm256_castsi256_ps(x)));
        nearest(x) _mm256_cvtps_epi32(_mm256_castsi256_ps(x));
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
    unsafe fn products_and_ends<const L: usize, const TILES: bool>(
        self,
        shift: bool,
        size: [usize; 2],
        panels: [*const f32; 2],
        by: *const u32,
        states: *mut f32,
        mode: u32,
    ) {
        // SAFETY: the caller's promise; `self` is the proof that AVX2 is there.
        unsafe {
            if shift {
                round_to_zero::products_and_ends::<L, true, TILES>(size, panels, by, states, mode);
            } else {
                round_to_zero::products_and_ends::<L, false, TILES>(size, panels, by, states, mode);
            }
        }
    }

    #[inline(always)]
    unsafe fn products<const L: usize, const TILES: bool>(
        self,
        shift: bool,
        size: [usize; 2],
        panels: [*const f32; 2],
        by: *const u32,
        states: *const f32,
        sums: *mut u32,
    ) {
        // SAFETY: the caller's promise; `self` is the proof that AVX2 is there.
        unsafe {
            if shift {
                round_to_zero::products::<L, true, TILES>(size, panels, by, states, sums);
            } else {
                round_to_zero::products::<L, false, TILES>(size, panels, by, states, sums);
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
                out::F32_RD | out::F32_RU => {
                    // Magnitudes of one sign become larger.
                    let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
                    let more = match OUT {
                        out::F32_RD => _mm256_and_si256(negative, below),
                        _ => _mm256_andnot_si256(negative, below),
                    };
                    _mm256_andnot_si256(below, _mm256_add_epi64(bits, more))
                }
                _ => _mm256_andnot_si256(below, bits),
            };
            _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(cut)))
        }
    }
}
