//! Steps of few products on AVX-512, for F up to 25: what `aligned` does in passes, here in registers; of four
//! products, whose results are rounded toward zero to all bits of f32, in two passes.
//!
//! Where a step has eight products or more, or four and other results, f64 accumulators (`stream`) take fewer
//! operations.

use super::super::avx512::{RZ, is_cut, max_exponents, powers};
use super::super::finish::{finish, overflowed, start};
use super::super::micro::Advance;
use super::super::step::{Consts, Step};
use super::super::{MR, NR, out};
use super::each_step;
use super::fused::most_for_shifts;
use core::mem::MaybeUninit;
use std::arch::x86_64::*;

/// Rows of a piece.
const ROWS: usize = 4;
/// The first row's bit, and those of the others, in masks of pieces.
const PIECES: u32 = 0x1111;

/// `Micro::steps_fast`.
///
/// # Safety
/// As there, of panels whose values are f32; blocks have at most 16 products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in crate::simd::fda) unsafe fn steps_few<const OUT: u8>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // SAFETY: each takes all of the caller's steps and groups; `four`'s have four products.
    unsafe {
        match q.block {
            _ if is_cut::<OUT>(q) => steps_few::<{ out::F32_CUT }>(p, q, skip, steps),
            4 if OUT == out::F32_RZ => four(p, q, skip, steps),
            _ => run::<OUT>(p, q, skip, steps),
        }
    }
}

/// Blocks of four, rounded toward zero: all that begins first, then products and ends.
///
/// # Safety
/// As `steps_few`; blocks have four products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn four(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    // SAFETY: states are those of every group of `skip`.
    if unsafe { shifts_suffice(p, q, skip.len(), steps) } {
        each_step(
            p,
            q,
            skip,
            steps,
            #[inline(always)]
            |p, q, skip| {
                // SAFETY: one of the caller's steps, of four products, of one of the groups.
                unsafe { group_of_four::<true>(p, q, skip) }
            },
        )
    } else {
        each_step(
            p,
            q,
            skip,
            steps,
            #[inline(always)]
            |p, q, skip| {
                // SAFETY: as above.
                unsafe { group_of_four::<false>(p, q, skip) }
            },
        )
    }
}

/// Whether products and states can be scaled by adding to their exponent fields.
///
/// # Safety
/// As `steps_few`; states are of so many row groups.
#[target_feature(enable = "avx512f")]
unsafe fn shifts_suffice(p: &Step, q: &Consts, groups: usize, steps: usize) -> bool {
    let Some(most) = most_for_shifts(q, steps) else { return false };
    let mut large = [_mm512_setzero_si512(); 4];
    for at in (0..groups * MR * NR).step_by(64) {
        for (i, large) in large.iter_mut().enumerate() {
            // SAFETY: 16 of the next 64 states: a group has `MR * NR` of them, aligned, right after the one before.
            let c = unsafe { _mm512_load_si512(p.c.add(at + 16 * i).cast()) };
            *large = _mm512_max_epu32(*large, _mm512_add_epi32(c, c));
        }
    }
    let large = _mm512_max_epu32(_mm512_max_epu32(large[0], large[1]), _mm512_max_epu32(large[2], large[3]));
    _mm512_cmpgt_epu32_mask(large, _mm512_set1_epi32((2 * most.to_bits()) as i32)) == 0
}

/// A step of 8 rows by 64 columns. Returns the pieces left as they were. `SHIFT`, which is wrong where `shifts_suffice`
/// said no: products and states are scaled by adding to their exponent fields.
///
/// # Safety
/// As `four`, for this step of a group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn group_of_four<const SHIFT: bool>(p: &Step, q: &Consts, mut skip: u32) -> u32 {
    const L: usize = 4;
    // From `1.5 * 2^e_max`, as codes, to what products are scaled by, and from that to what results are.
    let (one, half) = (if SHIFT { 127 } else { 254 }, 1 << 22);
    let up = _mm512_set1_epi32(((one + q.frac_bits) << 23) + half);
    let down = _mm512_set1_epi32(one << 23);
    let mut buffer = MaybeUninit::<[[__m512i; 4]; MR]>::uninit();
    let by = buffer.as_mut_ptr().cast::<__m512i>();
    for row in (0..MR).step_by(ROWS) {
        let here = p.row(row, L);
        // SAFETY: of all products, the first or the last four of the group's 8 rows.
        let (largest, doubt) = unsafe { max_exponents::<L, ROWS, false>(&here, q, 0..L) };
        skip |= doubt << (4 * row);
        for r in 0..ROWS {
            for t in 0..4 {
                // SAFETY: 16 of the row's 64 states, aligned to as many.
                let c = unsafe { _mm512_load_ps(here.c.add(r * NR + 16 * t)) };
                let top = start::<{ out::F32_RZ }>(powers(largest[r], t), c);
                // SAFETY: the row's `t`-th vector of four in the buffer, which has `MR` rows.
                unsafe { by.add(4 * (row + r) + t).write(_mm512_sub_epi32(up, top)) }
            }
        }
    }
    let scaled = |x: __m512, by: __m512i| {
        if SHIFT {
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), by))
        } else {
            _mm512_mul_ps(x, _mm512_castsi512_ps(by))
        }
    };
    for t in 0..p.vectors {
        let b = p.b_val32.wrapping_add(t * L * 16);
        for row in (0..MR).step_by(ROWS) {
            let leaves = skip >> (4 * row + t);
            let here = p.row(row, L);
            let (mut sum, mut scale) = ([down; ROWS], [down; ROWS]);
            for r in 0..ROWS {
                // SAFETY: in the buffer what has been written above, for all rows and vectors.
                scale[r] = unsafe { by.add(4 * (row + r) + t).read() };
                // SAFETY: 16 of the row's 64 states, as above.
                let c = unsafe { _mm512_load_ps(here.c.add(r * NR + 16 * t)) };
                sum[r] = _mm512_cvttps_epi32(scaled(c, scale[r]));
            }
            for k in 0..L {
                // SAFETY: B's panel has 16 values of each of `L` products for vector `t`, aligned.
                let b = unsafe { _mm512_load_ps(b.add(k * 16)) };
                for r in 0..ROWS {
                    // SAFETY: A's panel has `L` values of each row.
                    let x = _mm512_mul_ps(b, _mm512_set1_ps(unsafe { *here.a_val32.add(r * L + k) }));
                    sum[r] = _mm512_add_epi32(sum[r], _mm512_cvttps_epi32(scaled(x, scale[r])));
                }
            }
            for r in 0..ROWS {
                let scale = _mm512_castsi512_ps(_mm512_sub_epi32(down, scale[r]));
                let d = _mm512_mul_ps(_mm512_cvt_roundepi32_ps::<RZ>(sum[r]), scale);
                if leaves >> (4 * r) & 1 == 0 {
                    // SAFETY: where c was loaded from.
                    unsafe { _mm512_store_ps(here.c.add(r * NR + 16 * t), d) }
                }
            }
        }
    }
    skip
}

/// Steps in registers.
///
/// # Safety
/// As `steps_few`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<const OUT: u8>(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    each_step(
        p,
        q,
        skip,
        steps,
        #[inline(always)]
        |p, q, skip| {
            // SAFETY: one of the caller's steps, of one of the groups.
            unsafe { group::<OUT>(p, q, skip) }
        },
    )
}

/// A step of 8 rows by 64 columns. Returns the pieces left as they were, and those with an infinite f16.
///
/// # Safety
/// As `steps_few`, for this step of a group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn group<const OUT: u8>(p: &Step, q: &Consts, mut skip: u32) -> u32 {
    let (l, zero) = (q.block, _mm512_setzero_si512());
    // What a product is multiplied by is this less `1.5 * 2^e_max`, as codes.
    let up = _mm512_set1_epi32(((254 + q.frac_bits) << 23) + (1 << 22));
    // The piece before ends while the next one begins: its sums, where they began, and the rows that stay as they were.
    // At first there is none.
    let (mut before, mut sums, mut tops, mut leave, mut bit) = (p.c, [zero; ROWS], [zero; ROWS], !0, 0);
    let mut infinite = 0;
    for row in (0..MR).step_by(ROWS) {
        let here = p.row(row, l);
        // SAFETY: of all products, the first or the last four of the group's 8 rows.
        let (largest, doubt) = unsafe { max_exponents::<0, ROWS, false>(&here, q, 0..l) };
        skip |= doubt << (4 * row);
        for t in 0..p.vectors {
            let leaves = skip >> (4 * row + t);
            if leaves & PIECES == PIECES {
                continue;
            }
            let (c, b) = (here.c.wrapping_add(16 * t), here.b_val32.wrapping_add(t * l * 16));
            let (mut x, mut by) = ([_mm512_setzero_ps(); ROWS], [_mm512_setzero_ps(); ROWS]);
            let (mut sum, mut top) = ([zero; ROWS], [zero; ROWS]);
            // SAFETY: the first product's 16 values for vector `t`, aligned as B's panel is.
            let first = unsafe { _mm512_load_ps(b) };
            for r in 0..ROWS {
                // SAFETY: the first of the row's `l` values in A's panel.
                x[r] = _mm512_mul_ps(first, _mm512_set1_ps(unsafe { *here.a_val32.add(r * l) }));
            }
            for r in 0..ROWS {
                // SAFETY: 16 of the row's 64 states, aligned to as many.
                let c = unsafe { _mm512_load_ps(c.add(r * NR)) };
                top[r] = start::<OUT>(powers(largest[r], t), c);
                by[r] = _mm512_castsi512_ps(_mm512_sub_epi32(up, top[r]));
                sum[r] = _mm512_cvttps_epi32(_mm512_mul_ps(c, by[r]));
            }
            // SAFETY: `before` is an earlier piece of this group, or `leave` has all rows: then nothing is written.
            infinite |= unsafe { end::<OUT>(before, &sums, &tops, leave, q) } << bit;
            for r in 0..ROWS {
                sum[r] = _mm512_add_epi32(sum[r], _mm512_cvttps_epi32(_mm512_mul_ps(x[r], by[r])));
            }
            for k in 1..l {
                // SAFETY: the `k`-th product's 16 values, as the first one's.
                let b = unsafe { _mm512_load_ps(b.add(k * 16)) };
                for r in 0..ROWS {
                    // SAFETY: the `k`-th of the row's `l` values.
                    x[r] = _mm512_mul_ps(b, _mm512_set1_ps(unsafe { *here.a_val32.add(r * l + k) }));
                }
                for r in 0..ROWS {
                    x[r] = _mm512_mul_ps(x[r], by[r]);
                }
                for r in 0..ROWS {
                    sum[r] = _mm512_add_epi32(sum[r], _mm512_cvttps_epi32(x[r]));
                }
            }
            (before, sums, tops, leave, bit) = (c, sum, top, leaves, 4 * row + t);
        }
    }
    // SAFETY: as for the pieces before it.
    infinite |= unsafe { end::<OUT>(before, &sums, &tops, leave, q) } << bit;
    skip | infinite
}

/// Writes a piece's results but for rows to `leave`, every fourth bit. Returns those with an infinite f16.
///
/// # Safety
/// `to` leads to 16 states of each row that is not to be left, aligned to 64 bytes, a row's `NR` after the one's
/// before.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn end<const OUT: u8>(
    to: *mut f32,
    sums: &[__m512i; ROWS],
    tops: &[__m512i; ROWS],
    leave: u32,
    q: &Consts,
) -> u32 {
    let (mut d, mut infinite) = ([_mm512_setzero_ps(); ROWS], 0);
    for r in 0..ROWS {
        d[r] = finish::<OUT, false>(sums[r], tops[r], q);
    }
    for r in 0..ROWS {
        if leave >> (4 * r) & 1 == 0 {
            // SAFETY: 16 states of a row that is written: the caller's promise.
            unsafe { _mm512_store_ps(to.add(r * NR), d[r]) }
            infinite |= u32::from(overflowed::<OUT>(d[r])) << (4 * r);
        }
    }
    infinite
}
