//! Rows of a piece: where their steps begin and end, and their states.

use super::super::finish::{finish, negatives, overflowed, start, truncated};
use super::super::step::Consts;
use super::super::{NR, out};
use super::{OFFSET, OR, OVER, ROWS};
use crate::simd::ops::array_of;
use std::arch::x86_64::*;

/// What takes a column's exponent field from its byte to its place, for vector `t` of columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in super::super) fn place(t: usize) -> __m512i {
    // SAFETY: a vector each.
    unsafe { _mm512_load_si512(PLACES.0[t % 4].as_ptr().cast()) }
}

/// `place`s from that of vector `t` on.
pub(super) fn places_from(t: usize) -> *const __m512i {
    PLACES.0[t..].as_ptr().cast()
}

/// The byte of vector `t` of columns in every lane's highest byte, for `vpshufb`.
static PLACES: Places = {
    let mut places = [[0x80; 64]; 4];
    let mut at = 0;
    while at < 64 {
        let (t, lane) = (at / 16, at % 16);
        places[t][4 * lane + 3] = (4 * (lane % 4) + t) as u8;
        at += 1;
    }
    Places(places)
};

#[repr(align(64))]
struct Places([[u8; 64]; 4]);

/// The power of two of a row's largest exponents at `place`: a rotation would be one operation, but one of multipliers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn power(largest: __m512i, place: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_srli_epi32::<1>(_mm512_shuffle_epi8(largest, place)))
}

/// Where a row of a piece begins: `1.5 * 2^e_max`, and c in units of q.
///
/// # Safety
/// `largest` points to the row's largest exponents.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn begin<const OUT: u8>(
    c: __m512,
    largest: *const __m512i,
    place: __m512i,
    q: &Consts,
) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    let top = start::<OUT>(power(unsafe { *largest }, place), c);
    (top, truncated(top, c, q))
}

/// Reads a piece's states.
///
/// # Safety
/// They are there, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn get(from: *const f32) -> [__m512; ROWS] {
    // SAFETY: the caller's promise.
    array_of(|r| unsafe { _mm512_load_ps(from.add(r * NR)) })
}

/// Writes a piece's states but for rows to `leave`, every fourth bit.
///
/// # Safety
/// As `get`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn put(to: *mut f32, states: &[__m512; ROWS], leave: u32) {
    each_row!([0, 1, 2, 3], R => if leave >> (4 * R) & 1 == 0 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_store_ps(to.add(R * NR), states[R]) }
    });
}

/// Marks rows in which a sum has left its 31 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn beyond(group: usize, bit: usize, even: &[__m512d; ROWS], odd: &[__m512d; ROWS], skip: &mut [u32]) {
    let over = _mm512_set1_epi64(OVER);
    let (even, odd) = (even.map(|x| _mm512_castpd_si512(x)), odd.map(|x| _mm512_castpd_si512(x)));
    let mut all = _mm512_setzero_si512();
    each_row!([0, 1, 2, 3], R => all = _mm512_ternarylogic_epi64::<OR>(all, even[R], odd[R]));
    if _mm512_test_epi64_mask(all, over) != 0 {
        each_row!([0, 1, 2, 3], R => {
            let wrong = _mm512_test_epi64_mask(_mm512_or_si512(even[R], odd[R]), over);
            skip[group] |= u32::from(wrong != 0) << (bit + 4 * R);
        });
    }
}

/// Rows with an infinite f16, every fourth bit. An infinity stays one in the steps that follow, so that a run can look
/// at its end: as c it is `-2^31` units (an invalid conversion) of `2^(128 - F)` each, and products are less than one
/// unit, for F is 25 at most and their exponents are 50 at most. Its sign is lost, and only that it is infinite is
/// used.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn infinite<const OUT: u8>(states: &[__m512; ROWS]) -> u32 {
    if OUT != out::F16_RNE {
        return 0;
    }
    let mut peak = _mm512_setzero_ps();
    each_row!([0, 1, 2, 3], R => peak = _mm512_range_ps::<0b1011>(peak, states[R]));
    if !overflowed::<OUT>(peak) {
        return 0;
    }
    (0..ROWS).fold(0, |m, r| m | u32::from(overflowed::<OUT>(states[r])) << (4 * r))
}

/// Row `r`'s state after its sum, which has begun at `top` with c's `units` yet to come.
///
/// # Safety
/// The piece's signs are there, B's aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn end<const OUT: u8, const CHECK: bool, const L: usize>(
    [a_sign, b_sign]: [*const u32; 2],
    r: usize,
    sum: __m512i,
    units: __m512i,
    top: __m512i,
    q: &Consts,
) -> __m512 {
    // SAFETY: the caller's promise.
    let rest = _mm512_add_epi32(units, unsafe { negatives(a_sign.add(r), b_sign) });
    let rest = if CHECK { _mm512_sub_epi32(rest, _mm512_set1_epi32(OFFSET)) } else { rest };
    let sum = _mm512_add_epi32(sum, rest);
    // An infinite f16 must stay one, which NaN, its exponent as a number, would not.
    if OUT != out::F16_RNE && L >= 16 { finish::<OUT, true>(sum, top, q) } else { finish::<OUT, false>(sum, top, q) }
}
