//! The vectors of each type and set, by the same five operations: loads and stores of the first `lanes` alone, the
//! rest zero.

use core::arch::x86_64::*;

macro_rules! vectors {
    ($($name:ident: [$ty:ty; $lanes:literal] as $vector:ty, $features:literal, {
        $splat:ident, $fma:ident,
        load($from:ident, $n:ident) $load:block
        store($to:ident, $m:ident, $x:ident) $store:block
        one_nan($y:ident, $nan:ident) $one_nan:block
    })*) => { $(
        pub(super) mod $name {
            use super::*;

            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) fn splat(x: $ty) -> $vector {
                $splat(x)
            }

            /// `x * y + z`, rounded once.
            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) fn fma(x: $vector, y: $vector, z: $vector) -> $vector {
                $fma(x, y, z)
            }

            /// # Safety
            /// So many numbers are there, at most as many as lanes and at least one.
            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn load($from: *const $ty, $n: usize) -> $vector {
                debug_assert!((1..=$lanes).contains(&$n));
                // SAFETY: the caller's promise.
                unsafe { $load }
            }

            /// # Safety
            /// As for `load`.
            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn store($to: *mut $ty, $m: usize, $x: $vector) {
                debug_assert!((1..=$lanes).contains(&$m));
                // SAFETY: the caller's promise.
                unsafe { $store }
            }

            /// `nan` in the place of every NaN.
            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) fn one_nan($y: $vector, $nan: $vector) -> $vector {
                $one_nan
            }
        }
    )* };
}

vectors! {
    f32x16: [f32; 16] as __m512, "avx512f", {
        _mm512_set1_ps, _mm512_fmadd_ps,
        load(from, n) { _mm512_maskz_loadu_ps(!0 >> (16 - n), from) }
        store(to, n, x) { _mm512_mask_storeu_ps(to, !0 >> (16 - n), x) }
        one_nan(x, nan) { _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), nan) }
    }
    f64x8: [f64; 8] as __m512d, "avx512f", {
        _mm512_set1_pd, _mm512_fmadd_pd,
        load(from, n) { _mm512_maskz_loadu_pd(!0 >> (8 - n), from) }
        store(to, n, x) { _mm512_mask_storeu_pd(to, !0 >> (8 - n), x) }
        one_nan(x, nan) { _mm512_mask_mov_pd(x, _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x), nan) }
    }
    f32x8: [f32; 8] as __m256, "avx2,fma", {
        _mm256_set1_ps, _mm256_fmadd_ps,
        load(from, n) { if n == 8 { _mm256_loadu_ps(from) } else { _mm256_maskload_ps(from, first(n)) } }
        store(to, n, x) { if n == 8 { _mm256_storeu_ps(to, x) } else { _mm256_maskstore_ps(to, first(n), x) } }
        one_nan(x, nan) { _mm256_blendv_ps(x, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)) }
    }
    f64x4: [f64; 4] as __m256d, "avx2,fma", {
        _mm256_set1_pd, _mm256_fmadd_pd,
        load(from, n) { if n == 4 { _mm256_loadu_pd(from) } else { _mm256_maskload_pd(from, first(2 * n)) } }
        store(to, n, x) { if n == 4 { _mm256_storeu_pd(to, x) } else { _mm256_maskstore_pd(to, first(2 * n), x) } }
        one_nan(x, nan) { _mm256_blendv_pd(x, nan, _mm256_cmp_pd::<_CMP_UNORD_Q>(x, x)) }
    }
}

/// The mask of the first `n` of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn first(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}
