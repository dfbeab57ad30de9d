//! Round-down sums for AVX-512: the accumulators of the FDA, begun without c.

#![allow(unsafe_code, reason = "functions for one instruction set, loads and stores through the panels' pointers")]

use super::{FAR, LARGE, halves};
use crate::simd::fda::avx512::{DOWN, ROWS, RZ, broadcast, exponent_fields, max_exponents, powers};
use crate::simd::fda::finish::{accumulators, low_halves, negatives};
use crate::simd::fda::step::{Consts, EXP32, Step};
use crate::simd::fda::stream::broad;
use crate::simd::fda::{MR, NR, out};
use crate::simd::ops::array_of;
use core::arch::x86_64::*;

/// Toward minus infinity.
/// Ternary logic: `(a & b) | c`.
const AND_OR: i32 = 0xEA;
/// Ternary logic: `(a & c) | b`.
const LAST_OR: i32 = 0xEC;

/// `steps_fast` for these sums.
///
/// # Safety
/// As `steps_fast`; VNNI and BITALG are there, too.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(in crate::simd::fda) unsafe fn steps_fast(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> usize {
    // SAFETY: the caller's promise, handed on; VNNI and BITALG, which `halves` wants, are part of it. L is the block
    // where it is not 0.
    unsafe {
        match (q.floors.halves, q.block) {
            (false, 4) if q.floors.totals_in_f32 => {
                broad::steps::<{ out::ROUND_DOWN }, false, 4>(p, q, skip, steps).steps
            }
            (false, 8) if q.floors.totals_in_f32 => {
                broad::steps::<{ out::ROUND_DOWN }, false, 8>(p, q, skip, steps).steps
            }
            (false, _) => steps_apart(p, q, skip, steps),
            (true, 8) => halves::steps::<8>(p, q, skip, steps),
            (true, 16) => halves::steps::<16>(p, q, skip, steps),
            _ => halves::steps::<0>(p, q, skip, steps),
        }
    }
}

/// `steps_fast` for sums of all products, 16 columns after another, where states may be far above the products.
///
/// # Safety
/// As `steps_fast`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(in crate::simd::fda) unsafe fn steps_apart(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> usize {
    // Only tiny operands leave anything to others.
    let steps = if q.tiny == 0 { steps } else { 1 };
    let (mut now, mut largest, mut known) = (*p, [_mm512_setzero_si512(); MR], false);
    for s in 0..steps {
        let following = now.skip(1, q);
        for g in 0..skip.len() {
            let (here, q) = (now.group(g, q), q.group(g));
            if skip[g] == !0 {
                known = false;
                continue;
            }
            if !known {
                // SAFETY: one of the caller's row groups at step `s` of its.
                let (found, doubt) = unsafe { max_exponents::<0, MR, false>(&here, &q, 0..q.block) };
                (largest, skip[g]) = (found, skip[g] | doubt);
            }
            // While all columns of a group go by, each quarter finds e_max of two rows of the next.
            let after = match () {
                () if g + 1 < skip.len() => Some(now.group(g + 1, &q)),
                () if s + 1 < steps => Some(following),
                () => None,
            };
            let mut next = largest;
            known = after.is_some() && q.tiny == 0 && p.vectors == 4;
            for t in 0..p.vectors {
                if !skip[g] >> t & ROWS != 0 {
                    // SAFETY: the same group by a vector that is there; `after` is a group at a step that is to be
                    // done, or this one.
                    unsafe { quarter(&here, &q, t, skip[g], &largest, &after.unwrap_or(here), &mut next) }
                } else {
                    known = false;
                }
            }
            largest = next;
        }
        now = following;
    }
    steps
}

/// 8 rows by the 16 columns of vector `t`. On the way, what is largest in two rows of the step `after`.
///
/// # Safety
/// As `steps_fast`, for one row group at one step; `after` points to exponents of a row group and of `NR` columns.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn quarter(
    p: &Step,
    q: &Consts,
    t: usize,
    skip: u32,
    largest: &[__m512i; MR],
    after: &Step,
    next: &mut [__m512i; MR],
) {
    let tops = largest.map(|bytes| {
        let power = _mm512_castps_si512(powers(bytes, t));
        _mm512_ternarylogic_epi32::<AND_OR>(power, _mm512_set1_epi32(EXP32), _mm512_set1_epi32(1 << 22))
    });
    // SAFETY: the caller's promise, handed on.
    let sums = unsafe { products(p, q, t, &tops, after, next) };
    // 16 lanes of four rows each.
    let mut far = [0u64; MR / 4];
    for r in 0..MR {
        // SAFETY: vector `t` of row `r` of the states.
        let at = unsafe { p.c.add(r * NR + t * 16) };
        // SAFETY: its 16 floats, a line: rows have four.
        let (d, beyond) = finish(sums[r], tops[r], unsafe { _mm512_load_ps(at) }, q);
        let lanes = ((skip >> (4 * r + t) & 1) as __mmask16).wrapping_sub(1);
        far[r / 4] |= u64::from(beyond & lanes) << (16 * (r % 4));
        // SAFETY: to where c was read, some lanes of it.
        unsafe { _mm512_mask_store_ps(at, lanes & !beyond, d) }
    }
    for (part, far) in far.iter_mut().enumerate() {
        while *far != 0 {
            let shift = far.trailing_zeros() & 48;
            let r = part * 4 + shift as usize / 16;
            // SAFETY: where row `r`'s c was read: 16 bits of `far` for each of 8 rows.
            let (lanes, at) = ((*far >> shift) as __mmask16, unsafe { p.c.add(r * NR + t * 16) });
            // SAFETY: the same vector, whose lanes beyond still hold c.
            unsafe { _mm512_mask_store_ps(at, lanes, finish_far(sums[r], tops[r], _mm512_load_ps(at), q)) }
            *far &= !(0xFFFF << shift);
        }
    }
}

/// (3) and (4) Sums of the products, in units of q: accumulators that begin at `1.5 * 2^e_dot`, moved to where q is
/// their last place; floors become truncations by the negative count.
///
/// # Safety
/// As `quarter`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn products(
    p: &Step,
    q: &Consts,
    t: usize,
    tops: &[__m512i; MR],
    after: &Step,
    next: &mut [__m512i; MR],
) -> [__m512i; MR] {
    let l = q.block;
    let begin = tops.map(|top| accumulators(top, 0));
    let (mut even, mut odd) = (begin.map(|x| x[0]), begin.map(|x| x[1]));
    // SAFETY: B's step has `l` products of each vector of 16 columns, one vector's after another's.
    let b = unsafe { p.b_val.add(t * l * 16) };
    let mut best = [_mm512_setzero_si512(); 2];
    for k in 0..l {
        // SAFETY: product `k` of the vector's columns: 16 f64, two lines.
        let (b0, b1) = unsafe { (_mm512_load_pd(b.add(k * 16)), _mm512_load_pd(b.add(k * 16 + 8))) };
        for r in 0..MR {
            // SAFETY: the same of row `r` of A's 8, `l` from one to the next.
            let a = unsafe { broadcast(p.a_val.add(r * l + k)) };
            even[r] = _mm512_fmadd_round_pd::<RZ>(a, b0, even[r]);
            odd[r] = _mm512_fmadd_round_pd::<RZ>(a, b1, odd[r]);
        }
        // SAFETY: a line of `NR` exponents for each product of the step to come.
        let e = unsafe { _mm512_load_si512(after.b_exp.add(k * NR).cast()) };
        for (i, best) in best.iter_mut().enumerate() {
            // SAFETY: row `2 t + i` of A's 8 there, for `t` is 3 at most.
            let a = _mm512_set1_epi32(unsafe { *after.a_exp.add((2 * t + i) * l + k) } as i32);
            *best = _mm512_max_epu8(*best, _mm512_add_epi8(e, a));
        }
    }
    for (i, best) in best.into_iter().enumerate() {
        next[2 * t + i] = exponent_fields(best, q);
    }
    array_of(|r| {
        // SAFETY: row `r`'s word of signs, and the vector's 16, which begin with a line as all of B's do.
        let negative = unsafe { negatives(p.a_sign.add(r), p.b_sign.add(t * 16)) };
        _mm512_add_epi32(low_halves(even[r], odd[r]), negative)
    })
}

/// (5) to (7) from a sum in units of q, as `rounded` does.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn finish(sum: __m512i, top: __m512i, c: __m512, q: &Consts) -> (__m512, __mmask16) {
    let units = in_units(c, top, q);
    rounded(sum, units, _mm512_abs_ps(units), !0, unit(top, q))
}

/// `d = RNE(sum + floor(c / q)) q`, of c in units of q, which is 0 where it is not `reached`. Where c is large, in
/// units of 2q with what that cuts off in the last place, and where it is too large for that too: a mask of lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn rounded(
    sum: __m512i,
    units: __m512,
    magnitude: __m512,
    reached: __mmask16,
    unit: __m512,
) -> (__m512, __mmask16) {
    let from = |x: f32| _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(magnitude, _mm512_set1_ps(x));
    let (large, far) = (from(LARGE), from(FAR));
    let sum = _mm512_mask_ternarylogic_epi32::<LAST_OR>(sum, large, _mm512_srai_epi32::<1>(sum), _mm512_set1_epi32(1));
    let units = _mm512_mask_mul_ps(units, large, units, _mm512_set1_ps(0.5));
    let total = _mm512_add_epi32(sum, _mm512_maskz_cvt_roundps_epi32::<DOWN>(reached, units));
    let d = _mm512_mul_ps(_mm512_cvtepi32_ps(total), unit);
    (_mm512_mask_add_ps(d, large, d, d), far)
}

/// (5) to (7) from a sum in units of q, wherever c is.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in crate::simd::fda) fn rounded_down(sum: __m512i, top: __m512i, c: __m512, q: &Consts) -> __m512 {
    let (d, far) = finish(sum, top, c, q);
    if far == 0 { d } else { _mm512_mask_mov_ps(d, far, finish_far(sum, top, c, q)) }
}

/// c in units of q.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::simd::fda) fn in_units(c: __m512, top: __m512i, q: &Consts) -> __m512 {
    // 1 / q.
    let up = _mm512_sub_epi32(_mm512_set1_epi32(((254 + q.frac_bits) << 23) + (1 << 22)), top);
    _mm512_mul_ps(c, _mm512_castsi512_ps(up))
}

/// q.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn unit(top: __m512i, q: &Consts) -> __m512 {
    _mm512_castsi512_ps(_mm512_sub_epi32(top, _mm512_set1_epi32((q.frac_bits << 23) + (1 << 22))))
}

/// (5) to (7) where c is at least `2^30 q`: e_max is its exponent, and its last place at or above what is kept of it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn finish_far(sum: __m512i, top: __m512i, c: __m512, q: &Consts) -> __m512 {
    let unit = _mm512_castps_si512(unit(top, q));
    let c = _mm512_castps_si512(c);
    let low = far_half(_mm512_castsi512_si256(sum), _mm512_castsi512_si256(unit), _mm512_castsi512_si256(c), q);
    let high = far_half(
        _mm512_extracti64x4_epi64::<1>(sum),
        _mm512_extracti64x4_epi64::<1>(unit),
        _mm512_extracti64x4_epi64::<1>(c),
        q,
    );
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
}

/// `finish_far` in f64: adding `1.5 * 2^52 u`, rounded down, floors at `u`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn far_half(sum: __m256i, unit: __m256i, c: __m256i, q: &Consts) -> __m256 {
    let power = |x| _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY));
    let c = _mm512_cvtps_pd(_mm256_castsi256_ps(c));
    let products = _mm512_mul_pd(_mm512_cvtepi32_pd(sum), _mm512_cvtps_pd(_mm256_castsi256_ps(unit)));
    let floor = |x, power, magic| {
        let magic = _mm512_set1_pd(magic);
        _mm512_fnmadd_pd(power, magic, _mm512_fmadd_round_pd::<DOWN>(power, magic, x))
    };
    let total = _mm512_add_pd(c, floor(products, power(c), q.floors.sum));
    _mm512_cvtpd_ps(floor(total, power(total), q.floors.total))
}
