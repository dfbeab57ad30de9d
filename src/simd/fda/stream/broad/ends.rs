//! What pieces do at their ends, in plain code: the first piece's beginning, the last one's end, and what they leave to
//! others.

use super::super::super::finish::{finish, negatives, overflowed, start, truncated};
use super::super::super::round_down::FAR_IN_F32;
use super::super::super::round_down::avx512::{in_units, rounded_down};
use super::super::super::step::{Consts, Step};
use super::super::super::{MR, NR, out};
use super::super::rows::{place, power};
use super::super::{OFFSET, OVER};
use super::{BEYOND_F16, Pending, Start, VECTORS, VECTORS_OF_PIECE, Work};
use std::arch::x86_64::*;

/// Begins a row group's first piece, as pieces do; the caller knows that no f16 is infinite there. Whether some c is
/// far above the products, where that matters.
///
/// # Safety
/// `p` is as in `steps`, and has row group `g`; `largest` points to its largest exponents, and `work` to a `Work` that
/// is initialised and that nothing else refers to.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn begin<const OUT: u8, const CHECK: bool>(
    p: &Step,
    g: usize,
    largest: *const __m512i,
    q: &Consts,
    work: *mut Work,
) -> bool {
    let (a_sign, c) = (p.a_sign.wrapping_add(g * MR), p.c.wrapping_add(g * MR * NR));
    // SAFETY: the caller's `Work`: two parts of it that do not overlap.
    let (to, to_c, mut far) = unsafe { (&mut (*work).starts[0], &mut (*work).c_in_q[0], false) };
    // SAFETY: of the group's 8 rows of states, e_max and signs the first 4, by the first 2 of 4 vectors of columns.
    each_row!([0, 1, 2, 3], R => each_row!([0, 1], V => unsafe {
        let (c, unit) = (_mm512_load_ps(c.add(R * NR + 16 * V)), VECTORS * R + V);
        let (power, count) = (power(*largest.add(R), place(V)), negatives(a_sign.add(R), p.b_sign.add(16 * V)));
        if OUT == out::ROUND_DOWN {
            // c has no part in e_max.
            let top = start::<OUT>(power, _mm512_setzero_ps());
            let c = in_units(c, top, q);
            (to.tops[unit], to.rests[unit], to_c.0[unit]) = (top, count, c);
            far |= is_far(c);
        } else {
            let top = start::<OUT>(power, c);
            let rest = _mm512_add_epi32(truncated(top, c, q), count);
            let rest = if CHECK { _mm512_sub_epi32(rest, _mm512_set1_epi32(OFFSET)) } else { rest };
            (to.tops[unit], to.rests[unit]) = (top, rest);
        }
    }));
    far
}

/// Ends a row group's last piece, as pieces do. Which of its vectors have an infinite f16.
///
/// # Safety
/// `to` has those of its states that are not to be left, aligned to 64 bytes, and `work` points to a `Work` that is
/// initialised.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn end<const OUT: u8>(
    sums: &[__m512i; VECTORS_OF_PIECE],
    to: Pending,
    q: &Consts,
    work: *const Work,
) -> u32 {
    // SAFETY: the caller's `Work`, which nobody writes meanwhile.
    let (from, mut infinite) = (unsafe { &(*work).starts[1] }, 0);
    each_row!([0, 1, 2, 3], R => each_row!([0, 1], V => {
        let unit = VECTORS * R + V;
        if to.leave >> (4 * R + V) & 1 == 0 {
            let (sum, top) = (_mm512_add_epi32(sums[unit], from.rests[unit]), from.tops[unit]);
            let at = to.c.wrapping_add(R * NR + 16 * V);
            let d = if OUT == out::ROUND_DOWN {
                // SAFETY: a vector of states that is not to be left, one of 4 rows by 2.
                rounded_down(sum, top, unsafe { _mm512_load_ps(at) }, q)
            } else {
                finish::<OUT, false>(sum, top, q)
            };
            // SAFETY: the same vector, for any kind of results.
            unsafe { _mm512_store_ps(at, d) }
            infinite |= u32::from(overflowed::<OUT>(d)) << (4 * R + V);
        }
    }));
    infinite
}

/// Whether some c in units of q is far above the products.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn is_far(c: __m512) -> bool {
    _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(c), _mm512_set1_ps(FAR_IN_F32)) != 0
}

/// Whether some f16 that was rounded as `piece` does is infinite.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn is_beyond(peak: __m512) -> bool {
    _mm512_cmp_ps_mask::<_CMP_GE_OQ>(peak, _mm512_set1_ps(BEYOND_F16)) != 0
}

/// Makes infinities of such results of a piece, but for vectors to leave.
///
/// # Safety
/// The others are there, aligned to 64 bytes.
#[cold]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn to_infinity(results: Pending) {
    for unit in 0..VECTORS_OF_PIECE {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        if results.leave >> (4 * r + v) & 1 == 0 {
            let at = results.c.wrapping_add(r * NR + 16 * v);
            // SAFETY: vector `v` of 2 in row `r` of 4, which is not to be left.
            let d = unsafe { _mm512_load_ps(at) };
            let beyond = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(_mm512_abs_ps(d), _mm512_set1_ps(BEYOND_F16));
            let infinite = _mm512_or_ps(_mm512_and_ps(d, _mm512_set1_ps(-0.0)), _mm512_set1_ps(f32::INFINITY));
            // SAFETY: the same vector.
            unsafe { _mm512_mask_store_ps(at, beyond, infinite) }
        }
    }
}

/// Results of the vectors in which some c is far above the products. Which these are.
///
/// # Safety
/// All of the piece's states are there, aligned to 64 bytes.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn far_sums(sums: &[__m512i; VECTORS_OF_PIECE], from: &Start, to: *mut f32, q: &Consts) -> u32 {
    (0..VECTORS_OF_PIECE).fold(0, |found, unit| {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        // SAFETY: of states that are there, vector `v` of 2 in row `r` of 4.
        let (at, c) = unsafe { (to.add(r * NR + 16 * v), _mm512_load_ps(to.add(r * NR + 16 * v))) };
        let (sum, top) = (_mm512_add_epi32(sums[unit], from.rests[unit]), from.tops[unit]);
        if !is_far(in_units(c, top, q)) {
            return found;
        }
        // SAFETY: the vector that was read.
        unsafe { _mm512_store_ps(at, rounded_down(sum, top, c, q)) }
        found | 1 << (4 * r + v)
    })
}

/// Copies the vectors that are not to be left.
///
/// # Safety
/// Both have them, a row of `NR` after another, aligned to 64 bytes.
#[cold]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn copy(from: *const f32, to: Pending) {
    for unit in 0..VECTORS_OF_PIECE {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        if to.leave >> (4 * r + v) & 1 == 0 {
            let at = r * NR + 16 * v;
            // SAFETY: one of these vectors, in row `r` of 4.
            unsafe { _mm512_store_ps(to.c.add(at), _mm512_load_ps(from.add(at))) }
        }
    }
}

/// The pieces of a row group, of 16 columns each, with an infinite f16.
///
/// # Safety
/// The group's states are there, aligned to 64 bytes.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn infinite<const OUT: u8>(from: *const f32) -> u32 {
    (0..4 * MR).fold(0, |found, piece| {
        // SAFETY: one of the group's 8 rows of 4 vectors.
        let d = unsafe { _mm512_load_ps(from.add(16 * piece)) };
        found | u32::from(overflowed::<OUT>(d)) << piece
    })
}

/// Vectors in which a sum has left its 31 bits.
#[cold]
#[target_feature(enable = "avx512f")]
pub(super) fn beyond(watched: &[__m512i; VECTORS_OF_PIECE]) -> u32 {
    watched.iter().enumerate().fold(0, |found, (unit, bits)| {
        let over = _mm512_test_epi64_mask(*bits, _mm512_set1_epi64(OVER)) != 0;
        found | u32::from(over) << (4 * (unit / VECTORS) + unit % VECTORS)
    })
}
