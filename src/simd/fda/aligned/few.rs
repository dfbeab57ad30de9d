//! Steps of few products on AVX-512, for F up to 25: what `aligned` does in passes, here all in registers.
//!
//! Where a step has eight products or more, f64 accumulators (`stream`) take fewer operations.

use super::super::avx512::{is_cut, max_exponents, powers};
use super::super::finish::{finish, overflowed, start};
use super::super::micro::Advance;
use super::super::step::{Consts, Step};
use super::super::{MR, NR, out};
use super::each_step;
use std::arch::x86_64::*;

/// Rows of a piece.
const ROWS: usize = 4;
/// The first row's bit, and those of the others, in masks of pieces.
const PIECES: u32 = 0x1111;

/// `Micro::steps_fast`.
///
/// # Safety
/// As there; values are f32, and blocks have at most 16 products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in crate::simd::fda) unsafe fn steps_few<const OUT: u8>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // SAFETY (whole function): the caller's promise, handed on.
    unsafe {
        match q.block {
            _ if is_cut::<OUT>(q) => steps_few::<{ out::F32_CUT }>(p, q, skip, steps),
            4 => run::<OUT, 4>(p, q, skip, steps),
            _ => run::<OUT, 0>(p, q, skip, steps),
        }
    }
}

/// # Safety
/// As `steps_few`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<const OUT: u8, const L: usize>(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    each_step(
        p,
        q,
        skip,
        steps,
        #[inline(always)]
        |p, q, skip| {
            // SAFETY: the caller's promise, handed on.
            unsafe { group::<OUT, L>(p, q, skip) }
        },
    )
}

/// A step of 8 rows by 64 columns. Returns the pieces left as they were, and those with an infinite f16.
///
/// # Safety
/// As `steps_few`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn group<const OUT: u8, const L: usize>(p: &Step, q: &Consts, mut skip: u32) -> u32 {
    let (l, zero) = (q.length::<L>(), _mm512_setzero_si512());
    // What a product is multiplied by is this less `1.5 * 2^e_max`, as codes.
    let up = _mm512_set1_epi32(((254 + q.frac_bits) << 23) + (1 << 22));
    // The piece before ends while the next one begins: its sums, where they began, and the rows that stay as they were. At
    // first there is none.
    let (mut before, mut sums, mut tops, mut leave, mut bit) = (p.c, [zero; ROWS], [zero; ROWS], !0, 0);
    let mut infinite = 0;
    // SAFETY (whole function): panels and states are as large as the step; B's and states are aligned to 64 bytes.
    for row in (0..MR).step_by(ROWS) {
        let here = p.row(row, l);
        let (largest, doubt) = unsafe { max_exponents::<L, ROWS, false>(&here, q, 0..l) };
        skip |= doubt << (4 * row);
        for t in 0..p.vectors {
            let leaves = skip >> (4 * row + t);
            if leaves & PIECES == PIECES {
                continue;
            }
            let (c, b) = (here.c.wrapping_add(16 * t), here.b_val32.wrapping_add(t * l * 16));
            let (mut x, mut by) = ([_mm512_setzero_ps(); ROWS], [_mm512_setzero_ps(); ROWS]);
            let (mut sum, mut top) = ([zero; ROWS], [zero; ROWS]);
            let first = unsafe { _mm512_load_ps(b) };
            for r in 0..ROWS {
                x[r] = _mm512_mul_ps(first, _mm512_set1_ps(unsafe { *here.a_val32.add(r * l) }));
            }
            for r in 0..ROWS {
                let c = unsafe { _mm512_load_ps(c.add(r * NR)) };
                top[r] = start::<OUT>(powers(largest[r], t), c, q);
                by[r] = _mm512_castsi512_ps(_mm512_sub_epi32(up, top[r]));
                sum[r] = _mm512_cvttps_epi32(_mm512_mul_ps(c, by[r]));
            }
            infinite |= unsafe { end::<OUT>(before, &sums, &tops, leave, q) } << bit;
            for r in 0..ROWS {
                sum[r] = _mm512_add_epi32(sum[r], _mm512_cvttps_epi32(_mm512_mul_ps(x[r], by[r])));
            }
            for k in 1..l {
                let b = unsafe { _mm512_load_ps(b.add(k * 16)) };
                for r in 0..ROWS {
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
    infinite |= unsafe { end::<OUT>(before, &sums, &tops, leave, q) } << bit;
    skip | infinite
}

/// Writes a piece's results but for rows to `leave`, every fourth bit. Returns those with an infinite f16.
///
/// # Safety
/// The states are there, aligned to 64 bytes.
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
            // SAFETY: the caller's promise.
            unsafe { _mm512_store_ps(to.add(r * NR), d[r]) }
            infinite |= u32::from(overflowed::<OUT>(d[r])) << (4 * r);
        }
    }
    infinite
}
