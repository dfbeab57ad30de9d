//! The FDA step for all finite operands and states, and F up to 40.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]

use super::avx512::{DOWN, ODD, RZ, UP};
use super::finish::narrow_widen;
use super::micro::is_ordinary;
use super::step::{Consts, EXP32, LEAST_F16, Step};
use super::{NR, out};
use std::arch::x86_64::*;

/// FDA steps of R rows (from row `row` of the tile) by vectors `2 half` and `2 half + 1`, of those that are wanted, for
/// all finite operands and states and F up to 40. Returns which pieces, bit `4 row + vector`, have states out of the
/// fast kernel's range, and which have some that are not finite.
///
/// # Safety
/// As `Micro::step_wide`, for one group; `R` rows from `row` on are of its 8, and `half` is 0 or 1.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn step_wide<const R: usize, const OUT: u8>(
    p: &Step,
    q: &Consts,
    row: usize,
    half: usize,
    wanted: [bool; 2],
) -> [u32; 2] {
    let (mut best, l) = ([_mm512_set1_epi16(i16::MIN); R], q.block);
    for k in 0..l {
        // SAFETY: B's wide exponents are `NR` words of 16 bits a product, aligned to 64 bytes: this is a half of them.
        let e = unsafe { _mm512_load_si512(p.b_wide.add(k * NR + half * 32).cast()) };
        for (r, m) in best.iter_mut().enumerate() {
            // SAFETY: A's are `l` words for each of 8 rows.
            let a = _mm512_set1_epi32(unsafe { *p.a_wide.add((row + r) * l + k) } as i32);
            *m = _mm512_max_epi16(*m, _mm512_add_epi16(e, a));
        }
    }
    // SAFETY: the same rows, by vectors 0 to 3.
    unsafe {
        let mut found = [0; 2];
        if wanted[0] {
            found = vector::<R, OUT>(p, q, row, 2 * half, best.map(|e| _mm512_castsi512_si256(e)));
        }
        if wanted[1] {
            let more = vector::<R, OUT>(p, q, row, 2 * half + 1, best.map(|e| _mm512_extracti64x4_epi64::<1>(e)));
            found = [found[0] | more[0], found[1] | more[1]];
        }
        found
    }
}

/// The 16 columns of vector `t`.
///
/// # Safety
/// As `step_wide`; `t` is below 4.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn vector<const R: usize, const OUT: u8>(
    p: &Step,
    q: &Consts,
    row: usize,
    t: usize,
    best: [__m256i; R],
) -> [u32; 2] {
    let (l, mut found) = (q.block, [0; 2]);
    let mut acc = [[_mm512_setzero_pd(); 2]; R];
    let mut magic = [[_mm512_setzero_si512(); 2]; R];
    let mut e_max = [_mm512_setzero_si512(); R];
    for r in 0..R {
        // SAFETY: 16 of the row's 64 states, aligned to as many.
        let c = flushed(unsafe { _mm512_load_ps(p.c.add((row + r) * NR + t * 16)) }, q.least_c);
        let c = _mm512_castps_si512(c);
        let mag = _mm512_and_si512(c, _mm512_set1_epi32(0x7FFF_FFFF));
        // f16 states are held as f32: their subnormals keep the format's lowest exponent.
        let low = _mm512_set1_epi32(if OUT == out::F16_RNE { LEAST_F16.into() } else { 1 });
        let e_c = _mm512_sub_epi32(_mm512_max_epi32(_mm512_srli_epi32::<23>(mag), low), _mm512_set1_epi32(127));
        let best = _mm512_max_epi32(_mm512_cvtepi16_epi32(best[r]), _mm512_set1_epi32(q.e_zero));
        e_max[r] = _mm512_mask_max_epi32(best, _mm512_test_epi32_mask(mag, mag) | q.zero_c as __mmask16, best, e_c);
        // The accumulator's exponent is e_max - 896 + 128; column 2 j is in lane j of the even vector.
        let field = _mm512_add_epi32(e_max[r], _mm512_set1_epi32(1023 - 896 + 128));
        let half = _mm512_set1_epi64(1 << 51);
        magic[r][0] = _mm512_or_si512(_mm512_slli_epi64::<52>(field), half);
        magic[r][1] = _mm512_or_si512(_mm512_slli_epi64::<52>(_mm512_srli_epi64::<32>(field)), half);
        acc[r] = [_mm512_castsi512_pd(magic[r][0]), _mm512_castsi512_pd(magic[r][1])];
    }
    // SAFETY: B's values are 16 of each product for one vector after another, four in all.
    let b = unsafe { p.b_val.add(t * l * 16) };
    let lift = _mm512_set1_pd(f64::from_bits((1023 + 128) << 52));
    for k in 0..l {
        // Lifted, for the lowest accumulators would be subnormal.
        // SAFETY: the vector's 16 values of product `k`, each 8 aligned to 64 bytes, as the panel is.
        let b = unsafe { [_mm512_load_pd(b.add(k * 16)), _mm512_load_pd(b.add(k * 16 + 8))] }
            .map(|b| _mm512_mul_pd(b, lift));
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: A's values are `l` for each of 8 rows.
            let a = _mm512_set1_pd(unsafe { *p.a_val.add((row + r) * l + k) });
            acc[0] = _mm512_fmadd_round_pd::<RZ>(a, b[0], acc[0]);
            acc[1] = _mm512_fmadd_round_pd::<RZ>(a, b[1], acc[1]);
        }
    }
    // SAFETY: B's signs, which this set always packs, are `NR` words a step, aligned to 64 bytes.
    let b_sign = unsafe { _mm512_load_si512(p.b_sign.add(t * 16).cast()) };
    for r in 0..R {
        // SAFETY: where the row's c was loaded from.
        let at = unsafe { p.c.add((row + r) * NR + t * 16) };
        // SAFETY: A's signs, which this set always packs, are a word for each of 8 rows.
        let a_sign = _mm512_set1_epi32(unsafe { *p.a_sign.add(row + r) } as i32);
        let negative = _mm512_popcnt_epi32(_mm512_xor_si512(a_sign, b_sign));
        // SAFETY: the same 16 states.
        let c = flushed(unsafe { _mm512_load_ps(at) }, q.least_c);
        let mut parts = [_mm256_setzero_ps(); 2];
        for (i, part) in parts.iter_mut().enumerate() {
            let pick = |v: __m512i| if i == 0 { v } else { _mm512_srli_epi64::<32>(v) };
            let n = _mm512_and_si512(pick(negative), _mm512_set1_epi64(0xFFFF_FFFF));
            let e = _mm512_srai_epi64::<32>(_mm512_slli_epi64::<32>(pick(e_max[r])));
            let c = widen(pick(_mm512_castps_si512(c)));
            let sum = _mm512_add_epi64(_mm512_sub_epi64(_mm512_castpd_si512(acc[r][i]), magic[r][i]), n);
            *part = finish_wide::<OUT>(sum, e, c, q);
        }
        // Even lanes from the first part, odd ones from the second.
        let [even, odd] = parts.map(|part| _mm512_castsi512_ps(_mm512_cvtepu32_epi64(_mm256_castps_si256(part))));
        let d = _mm512_mask_moveldup_ps(even, ODD, odd);
        let d = if OUT == out::F16_RNE {
            narrow_widen(d)
        } else {
            let kept = _mm512_and_si512(_mm512_castps_si512(d), _mm512_set1_epi32(q.keep));
            // Minus zero is plus zero.
            flushed(_mm512_add_ps(_mm512_castsi512_ps(kept), _mm512_setzero_ps()), q.least_d)
        };
        // SAFETY: as above.
        unsafe { _mm512_store_ps(at, d) };
        if !is_ordinary(_mm512_castps_si512(d), q.lowest()) {
            let exponent = _mm512_set1_epi32(EXP32);
            let special = _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(d), exponent), exponent) != 0;
            found[0] |= 1 << (4 * (row + r) + t);
            found[1] |= u32::from(special) << (4 * (row + r) + t);
        }
    }
    found
}

/// Numbers of at least this magnitude, and NaN; 0 for others.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn flushed(x: __m512, least: f32) -> __m512 {
    let kept = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(x), _mm512_set1_ps(least));
    _mm512_maskz_mov_ps(kept, x)
}

/// The f32 in the low half of each 64-bit lane as f64, exactly (subnormals included).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn widen(v: __m512i) -> __m512d {
    _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_cvtepi64_epi32(v)))
}

/// `(sum + trunc(c)) 2^(e - F)` in f32: rounded to nearest even, or cut off, or to odd where a narrower format follows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn finish_wide<const OUT: u8>(sum: __m512i, e: __m512i, c: __m512d, q: &Consts) -> __m256 {
    let f = _mm512_set1_epi64(i64::from(q.frac_bits));
    let pow = |e| _mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_add_epi64(e, _mm512_set1_epi64(1023))));
    let c_int = _mm512_cvttpd_epi64(_mm512_mul_pd(c, pow(_mm512_sub_epi64(f, e))));
    let v = _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_add_epi64(sum, c_int)), pow(_mm512_sub_epi64(e, f)));
    // What is too large becomes the largest number, or infinite, as these roundings go.
    match OUT {
        out::F32_RNE => return _mm512_cvtpd_ps(v),
        out::F32_RD => return _mm512_cvt_roundpd_ps::<DOWN>(v),
        out::F32_RU => return _mm512_cvt_roundpd_ps::<UP>(v),
        _ => (),
    }
    let rz = _mm512_cvt_roundpd_ps::<RZ>(v);
    let bits = _mm256_castps_si256(rz);
    if OUT == out::F16_RNE {
        let inexact = _mm512_cmpneq_pd_mask(_mm512_cvtps_pd(rz), v);
        return _mm256_castsi256_ps(_mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1)));
    }
    // Cut off, what is too large would be the largest number.
    let big = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(_mm512_abs_pd(v), _mm512_set1_pd(f64::from_bits((1023 + 128) << 52)));
    if big == 0 {
        return rz;
    }
    let sign = _mm256_and_si256(bits, _mm256_set1_epi32(i32::MIN));
    _mm256_castsi256_ps(_mm256_mask_or_epi32(bits, big, sign, _mm256_set1_epi32(EXP32)))
}
