//! The FDA step for all finite operands and states, and F up to 40, on AVX2: SPEC section 3, steps 3 to 6, by the
//! letter on 16 columns at once.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]

use super::avx2::narrow_widen;
use super::step::{A_SCALE, B_SCALE, Consts, EXP32, Step};
use super::{NR, align, out};
use core::arch::x86_64::*;

/// Integers, rounded as one of `align` says.
#[inline]
#[target_feature(enable = "avx2")]
fn rounded(x: __m256d, how: u8) -> __m256d {
    match how {
        align::NEAREST_EVEN => _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x),
        align::DOWN => _mm256_floor_pd(x),
        align::UP => _mm256_ceil_pd(x),
        _ => _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x),
    }
}

/// The step of row `row` of the tile by the 16 columns of vector `t`.
///
/// # Safety
/// As `Micro::step_wide`, for one group; `row` is below 8, and `t` below 4.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn step_wide<const OUT: u8>(p: &Step, q: &Consts, row: usize, t: usize) {
    let l = q.block;
    // SAFETY: the row's `t`-th 16 of 64 states, of 8 rows.
    let state = unsafe { p.c.add(row * NR + t * 16) };
    // SAFETY: 8 of them, and the other 8, aligned to as many.
    let c = unsafe { [_mm256_load_ps(state), _mm256_load_ps(state.add(8))] };
    let c = [flushed(c[0], q.least_c), flushed(c[1], q.least_c)];
    // SAFETY: the same step, row and vector.
    let e_max = unsafe { e_max::<OUT>(p, q, row, t, c) };
    // Vectors of 4: the even columns of 0..8, the odd ones, and likewise of 8..16.
    let ([e0, e1], [e2, e3]) = (apart(e_max[0]), apart(e_max[1]));
    let e = [e0, e1, e2, e3];
    let mut scale = [_mm256_setzero_pd(); 4];
    for i in 0..4 {
        scale[i] = power(_mm_sub_epi32(_mm_setzero_si128(), e[i]));
    }
    let mut sum = [_mm256_setzero_pd(); 4];
    // SAFETY: B's values are 16 of each product for one vector after another, four in all.
    let b = unsafe { p.b_val.add(t * l * 16) };
    for k in 0..l {
        // With this a, products are 2^F times what they are; truncated, B's enlargement and zeros' stand-ins are gone.
        // SAFETY: A's values are `l` for each of 8 rows.
        let a = unsafe { *p.a_val.add(row * l + k) } * f64::from_bits(((1023 - A_SCALE - B_SCALE) as u64) << 52);
        let a = _mm256_set1_pd(a);
        for i in 0..4 {
            // SAFETY: four of the vector's 16 values of product `k`, aligned to as many.
            let b = unsafe { _mm256_load_pd(b.add(k * 16 + [0, 8, 4, 12][i])) };
            let product = _mm256_mul_pd(_mm256_mul_pd(a, b), scale[i]);
            sum[i] = _mm256_add_pd(sum[i], rounded(product, q.align));
        }
    }
    for h in 0..2 {
        let c = apart(_mm256_castps_si256(c[h]));
        let mut d = [_mm_setzero_si128(); 2];
        for i in 0..2 {
            let (sum, e, scale) = (sum[2 * h + i], e[2 * h + i], scale[2 * h + i]);
            d[i] = finish::<OUT>(sum, _mm_castsi128_ps(c[i]), e, scale, q);
        }
        let d = _mm256_castsi256_ps(together(d));
        let d = match OUT {
            out::F16_RNE => narrow_widen(d),
            _ => flushed(_mm256_add_ps(d, _mm256_setzero_ps()), q.least_d),
        };
        // SAFETY: one 8 of the 16 states, or the other.
        unsafe { _mm256_store_ps(state.add(8 * h), d) };
    }
}

/// e_max of the 16 columns.
///
/// # Safety
/// As `step_wide`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn e_max<const OUT: u8>(p: &Step, q: &Consts, row: usize, t: usize, c: [__m256; 2]) -> [__m256i; 2] {
    let mut best = _mm256_set1_epi16(i16::MIN);
    for k in 0..q.block {
        // SAFETY: A's wide exponents are a word of each product for each of 8 rows, B's `NR` words of 16 bits a
        // product: of these 16, aligned to as many.
        let (a, b) = unsafe {
            let a = _mm256_set1_epi32(*p.a_wide.add(row * q.block + k) as i32);
            (a, _mm256_load_si256(p.b_wide.add(k * NR + t * 16).cast()))
        };
        best = _mm256_max_epi16(best, _mm256_add_epi16(a, b));
    }
    let best = [_mm256_castsi256_si128(best), _mm256_extracti128_si256::<1>(best)];
    // f16 states are held as f32: their subnormals keep the format's lowest exponent.
    let low = _mm256_set1_epi32(if OUT == out::F16_RNE { -14 } else { -126 });
    let mut e_max = [_mm256_setzero_si256(); 2];
    for h in 0..2 {
        let mag = _mm256_and_si256(_mm256_castps_si256(c[h]), _mm256_set1_epi32(i32::MAX));
        let e_c = _mm256_sub_epi32(_mm256_srli_epi32::<23>(mag), _mm256_set1_epi32(127));
        let e_c = _mm256_max_epi32(e_c, low);
        let zero = _mm256_cmpeq_epi32(mag, _mm256_setzero_si256());
        let none = if q.zero_c == 0 { zero } else { _mm256_setzero_si256() };
        let best = _mm256_max_epi32(_mm256_cvtepi16_epi32(best[h]), _mm256_set1_epi32(q.e_zero));
        e_max[h] = _mm256_max_epi32(best, _mm256_blendv_epi8(e_c, best, none));
    }
    e_max
}

/// Numbers of at least this magnitude, and NaN; 0 for others.
#[inline]
#[target_feature(enable = "avx2")]
fn flushed(x: __m256, least: f32) -> __m256 {
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    _mm256_and_ps(x, _mm256_cmp_ps::<_CMP_NLT_UQ>(magnitude, _mm256_set1_ps(least)))
}

/// Even and odd lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn apart(x: __m256i) -> [__m128i; 2] {
    let x = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    [_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x)]
}

/// The inverse.
#[inline]
#[target_feature(enable = "avx2")]
fn together([even, odd]: [__m128i; 2]) -> __m256i {
    _mm256_permutevar8x32_epi32(_mm256_set_m128i(odd, even), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// `2^e`.
#[inline]
#[target_feature(enable = "avx2")]
fn power(e: __m128i) -> __m256d {
    let field = _mm256_add_epi64(_mm256_cvtepi32_epi64(e), _mm256_set1_epi64x(1023));
    _mm256_castsi256_pd(_mm256_slli_epi64::<52>(field))
}

/// A condition on 64-bit lanes for 32-bit ones.
#[inline]
#[target_feature(enable = "avx2")]
fn halved(mask: __m256d) -> __m128i {
    apart(_mm256_castpd_si256(mask))[0]
}

/// `(sum + c, aligned) 2^(e - F)` in f32, rounded to odd for f16; `scale` is `2^-e`.
#[inline]
#[target_feature(enable = "avx2")]
fn finish<const OUT: u8>(sum: __m256d, c: __m128, e: __m128i, scale: __m256d, q: &Consts) -> __m128i {
    let f = _mm_set1_epi32(q.frac_bits);
    let c = _mm256_mul_pd(_mm256_mul_pd(_mm256_cvtps_pd(c), power(f)), scale);
    let sum = _mm256_add_pd(sum, rounded(c, q.align));
    let v = _mm256_mul_pd(sum, power(_mm_sub_epi32(e, f)));
    let abs = |x| _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
    let nearest = _mm256_cvtpd_ps(v);
    // A step back where rounding to nearest went up: the magnitude's bits are in order.
    let up = halved(_mm256_cmp_pd::<_CMP_GT_OQ>(abs(_mm256_cvtps_pd(nearest)), abs(v)));
    let down = _mm_add_epi32(_mm_castps_si128(nearest), up);
    if OUT == out::F16_RNE {
        let inexact = halved(_mm256_cmp_pd::<_CMP_NEQ_UQ>(_mm256_cvtps_pd(_mm_castsi128_ps(down)), v));
        return _mm_or_si128(down, _mm_srli_epi32::<31>(inexact));
    }
    if OUT == out::F32_RD || OUT == out::F32_RU {
        // A step on where that was to the other side: beyond the largest number to infinity.
        let cut = _mm256_cvtps_pd(_mm_castsi128_ps(down));
        let short =
            if OUT == out::F32_RD { _mm256_cmp_pd::<_CMP_GT_OQ>(cut, v) } else { _mm256_cmp_pd::<_CMP_LT_OQ>(cut, v) };
        return _mm_sub_epi32(down, halved(short));
    }
    let x = if OUT == out::F32_RNE { _mm_castps_si128(nearest) } else { down };
    let kept = _mm_and_si128(x, _mm_set1_epi32(q.keep));
    // Beyond every exponent, whatever the rounding.
    let big = halved(_mm256_cmp_pd::<_CMP_GE_OQ>(abs(v), power(_mm_set1_epi32(128))));
    let infinity = _mm_or_si128(_mm_and_si128(kept, _mm_set1_epi32(i32::MIN)), _mm_set1_epi32(EXP32));
    _mm_blendv_epi8(kept, infinity, big)
}
