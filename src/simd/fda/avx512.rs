//! The FDA micro-kernels for AVX-512: 8 rows by 64 columns, one step of operands within the exponent
//! window and states of ordinary size. With f64 accumulators, whole tiles of these are `stream`'s.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]

use super::finish::{accumulators, finish, finish_narrow, low_halves, negatives, overflowed, start, truncated};
use super::micro::Advance;
use super::step::{Consts, Step};
use super::{MR, NR, aligned, out, stream};
use core::arch::asm;
use core::ops::Range;
use std::arch::x86_64::*;

pub(super) const RZ: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
pub(super) const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
pub(super) const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
/// Odd 32-bit lanes.
pub(super) const ODD: __mmask16 = 0xAAAA;
/// The pieces of a vector of columns.
pub(super) const ROWS: u32 = 0x1111_1111;
/// Where A's panel has row `r` of product `k`: row by row, or with `TILES` four products of two columns of B after
/// another; of exponents, four columns after another.
#[inline(always)]
pub(super) const fn at<const TILES: bool>(r: usize, k: usize, l: usize) -> [usize; 2] {
    if !TILES {
        return [r * l + k; 2];
    }
    let (four, i) = (k / 4 * 4 * MR, k % 4);
    [four + r / 2 * 8 + 2 * i + r % 2, four + r / 4 * 16 + 4 * i + r % 4]
}

/// Exponent fields of the largest exponents among `products` of R rows, byte `4 j + t` that of column `16 t + j`, and a
/// mask of the pieces in which a tiny operand might matter.
///
/// # Safety
/// `p` points to exponents of this step: of R rows of A, and of `NR` columns of B, which are aligned to 64 bytes;
/// `products` are some of its.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn max_exponents<const L: usize, const R: usize, const TILES: bool>(
    p: &Step,
    q: &Consts,
    products: Range<usize>,
) -> ([__m512i; R], u32) {
    let (mut best, l) = ([_mm512_setzero_si512(); R], q.length::<L>());
    for k in products {
        // SAFETY: product `k` of the step's, whose bytes of B are a row of `NR` after another.
        let e = unsafe { _mm512_load_si512(p.b_exp.add(k * NR).cast()) };
        for (r, m) in best.iter_mut().enumerate() {
            // SAFETY: one of A's R rows by `l` words, in either order: `at` is below their product.
            let a = _mm512_set1_epi32(unsafe { *p.a_exp.add(at::<TILES>(r, k, l)[1]) } as i32);
            *m = _mm512_max_epu8(*m, _mm512_add_epi8(e, a));
        }
    }
    let mut doubt = 0;
    if q.tiny & 1 != 0 {
        let mut least = best[0];
        best.iter().for_each(|m| least = _mm512_min_epu8(least, *m));
        // Where all lanes have columns, hardly ever one of any row.
        if below_safe(least) != 0 {
            best.iter().enumerate().for_each(|(r, m)| doubt |= doubts(*m) << (4 * r));
        }
    }
    for m in &mut best {
        *m = exponent_fields(*m, q);
    }
    (best, doubt)
}

/// f32 exponent fields of the largest exponents of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn exponent_fields(largest: __m512i, q: &Consts) -> __m512i {
    let (sub, floor) = (_mm512_set1_epi8(q.bias_sub as i8), _mm512_set1_epi8(q.floor_field as i8));
    _mm512_max_epu8(_mm512_subs_epu8(largest, sub), floor)
}

/// Bytes of largest exponents, a bit each, beside which a product of an operand below the window might be as large.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn below_safe(largest: __m512i) -> u64 {
    _mm512_cmplt_epu8_mask(largest, safe())
}

/// The least exponents beside which it is not.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn safe() -> __m512i {
    _mm512_set1_epi8((95 + 127 + 1) as u8 as i8)
}

/// The pieces of a row in which a tiny operand might matter. Not inline: it is hardly ever called.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn doubts(largest: __m512i) -> u32 {
    let bits = below_safe(largest);
    (0..4).fold(0, |m, t| m | u32::from(bits >> t & 0x1111_1111_1111_1111 != 0) << t)
}

/// Eight times the same number. What compilers make of it costs Zen 4 two thirds of a multiplication, the same
/// instruction for integers nothing.
///
/// # Safety
/// `p` points to a number.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn broadcast(p: *const f64) -> __m512d {
    let to: __m512d;
    // SAFETY: the instruction is there, and reads what the caller promises.
    unsafe {
        asm!(
            "vpbroadcastq {0}, [{1}]",
            out(zmm_reg) to,
            in(reg) p,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    to
}

/// The bytes of vector `t` as powers of two: moved to the exponent field, with harmless bits around them.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn powers(bytes: __m512i, t: usize) -> __m512 {
    _mm512_castsi512_ps(_mm512_rolv_epi32(bytes, _mm512_set1_epi32((23 - 8 * t as i32) & 31)))
}

/// Whether results are to be cut further than `OUT` says.
#[inline(always)]
pub(super) const fn is_cut<const OUT: u8>(q: &Consts) -> bool {
    OUT == out::F32_RZ && q.keep != -1
}

/// FDA steps of row groups of 8 by 64 columns for operands within the window and states within range, as `Micro` says.
///
/// # Safety
/// As `Micro::steps_fast`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn steps_fast<const OUT: u8>(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    // Steps of more than 16 products look at their sums.
    // SAFETY: the caller's promise, handed on; L is the block where it is not 0.
    unsafe {
        match (q.narrow, q.block) {
            (true, 16) => narrow::<OUT, 16>(p, q, skip),
            (true, 32) => narrow::<OUT, 32>(p, q, skip),
            (true, _) => narrow::<OUT, 0>(p, q, skip),
            _ if q.aligned => aligned::steps_few::<OUT>(p, q, skip, steps),
            _ if is_cut::<OUT>(q) => steps_fast::<{ out::F32_CUT }>(p, q, skip, steps),
            (_, 4) => stream::broad::steps::<OUT, false, 4>(p, q, skip, steps),
            (_, 8) => stream::broad::steps::<OUT, false, 8>(p, q, skip, steps),
            (_, 16) => stream::broad::steps::<OUT, false, 16>(p, q, skip, steps),
            (_, 32) => stream::broad::steps::<OUT, true, 32>(p, q, skip, steps),
            (_, 0..=15) => stream::steps::<OUT, false, 0>(p, q, skip, steps),
            _ => stream::steps::<OUT, true, 0>(p, q, skip, steps),
        }
    }
}

/// Unit steps whose c comes last, as `Micro` says.
///
/// # Safety
/// As `Micro::unit_steps_fast`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn unit_steps_fast<const OUT: u8>(
    p: &Step,
    q: &Consts,
    groups: usize,
    steps: usize,
    per: usize,
    c: *mut f32,
) {
    // SAFETY: the caller's promise, handed on; steps are as long as that.
    unsafe {
        match q.block {
            8 => stream::broad::unit_steps::<OUT, 8>(p, q, groups, steps, per, c),
            _ => stream::broad::unit_steps::<OUT, 16>(p, q, groups, steps, per, c),
        }
    }
}

/// One step of `steps_fast` with f32 accumulators, of `L` products, or with 0 of any number.
///
/// # Safety
/// As `steps_fast`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn narrow<const OUT: u8, const L: usize>(p: &Step, q: &Consts, skip: &mut [u32]) -> Advance {
    for (g, skip) in skip.iter_mut().enumerate().filter(|(_, skip)| **skip != !0) {
        let (p, q) = (p.group(g, q), q.group(g));
        // SAFETY: the caller's promise, handed on for one of its groups and for vectors of columns that it has.
        unsafe {
            let (largest, doubt) = max_exponents::<L, MR, false>(&p, &q, 0..q.length::<L>());
            *skip |= doubt;
            for t in 0..p.vectors {
                if !*skip >> t & ROWS != 0 {
                    *skip |= quarter_narrow::<OUT, L, false>(&p, &q, t, *skip, &largest);
                }
            }
        }
    }
    Advance::by(1)
}

/// A step of `steps_fast` for some pieces of one row group, with f64 accumulators.
///
/// # Safety
/// As `steps_fast`; the block is even.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn step_pieces<const OUT: u8>(p: &Step, q: &Consts, pieces: u32) -> u32 {
    // SAFETY: the caller's promise, handed on; L is the block where it is not 0.
    unsafe {
        match q.block {
            _ if is_cut::<OUT>(q) => step_pieces::<{ out::F32_CUT }>(p, q, pieces),
            16 => some::<OUT, false, 16>(p, q, pieces),
            32 => some::<OUT, true, 32>(p, q, pieces),
            0..=15 => some::<OUT, false, 0>(p, q, pieces),
            _ => some::<OUT, true, 0>(p, q, pieces),
        }
    }
}

/// Vectors of columns of which most rows are wanted, and the other pieces one by one.
///
/// # Safety
/// As `step_pieces`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn some<const OUT: u8, const CHECK: bool, const L: usize>(p: &Step, q: &Consts, pieces: u32) -> u32 {
    let (l, mut dense) = (q.length::<L>(), 0);
    for t in 0..p.vectors {
        let rows = pieces & ROWS << t;
        dense |= if rows.count_ones() > 4 { rows } else { 0 };
    }
    let mut left = [!dense];
    if dense != 0 {
        // SAFETY: the caller's promise, handed on: `left` has the one row group, and there is one step.
        unsafe { _ = stream::steps::<OUT, CHECK, L>(p, q, &mut left, 1) }
    }
    let mut left = left[0] & dense;
    for r in 0..MR {
        let here = (pieces & !dense) >> (4 * r) & 0xF;
        if here == 0 {
            continue;
        }
        let p = p.row(r, l);
        // SAFETY: `p` is the step from row `r` on, of which this takes one.
        let (largest, doubt) = unsafe { max_exponents::<L, 1, false>(&p, q, 0..l) };
        let mut again = here & doubt;
        for t in 0..p.vectors {
            // What is done does not hang on how the pieces before ended, so that these overlap.
            if (here & !doubt) >> t & 1 != 0 {
                // Two sums, for the processor would wait for one.
                // SAFETY: the same row by a vector that is there; 2 divides the block, which is even.
                again |= unsafe { quarter::<OUT, CHECK, L, 1, 2>(&p, q, t, 0, &largest) };
            }
        }
        left |= again << (4 * r);
    }
    left
}

/// R rows by the 16 columns of vector `t`, every `P`-th product in a sum of its own. Returns pieces as `steps_fast`.
///
/// # Safety
/// As `steps_fast`, but for R rows, and for the columns of the vector; P divides the block.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn quarter<const OUT: u8, const CHECK: bool, const L: usize, const R: usize, const P: usize>(
    p: &Step,
    q: &Consts,
    t: usize,
    skip: u32,
    largest: &[__m512i; R],
) -> u32 {
    // Sums that are watched begin at `offset`, so that bits above show when one leaves its share of 31 bits.
    let (offset, l) = (1 << 30 >> P.ilog2(), q.length::<L>());
    let mut top = [_mm512_setzero_si512(); R];
    let mut even = [[_mm512_setzero_pd(); P]; R];
    let mut odd = [[_mm512_setzero_pd(); P]; R];
    for r in 0..R {
        // SAFETY: vector `t` of row `r` of the states, a line: rows have four.
        let c = unsafe { _mm512_load_ps(p.c.add(r * NR + t * 16)) };
        top[r] = start::<OUT>(powers(largest[r], t), c);
        let begin = accumulators(top[r], if CHECK { offset } else { 0 });
        (even[r], odd[r]) = ([begin[0]; P], [begin[1]; P]);
    }
    // SAFETY: B's step has `l` products of each vector of 16 columns, one vector's after another's.
    let b = unsafe { p.b_val.add(t * l * 16) };
    for first in (0..l).step_by(P) {
        for i in 0..P {
            // SAFETY: `first + i` is below `l`, for P divides that: 16 of this vector's f64, two lines.
            let [b0, b1] = unsafe {
                let b = b.add((first + i) * 16);
                [_mm512_load_pd(b), _mm512_load_pd(b.add(8))]
            };
            for r in 0..R {
                // SAFETY: the same product in row `r` of A's, `l` from one to the next.
                let a = unsafe { broadcast(p.a_val.add(r * l + first + i)) };
                even[r][i] = _mm512_fmadd_round_pd::<RZ>(a, b0, even[r][i]);
                odd[r][i] = _mm512_fmadd_round_pd::<RZ>(a, b1, odd[r][i]);
            }
        }
    }
    let over = _mm512_set1_epi64((1 << 51) - 2 * offset);
    let mut redo = 0;
    for r in 0..R {
        // SAFETY: where c was read.
        let at = unsafe { p.c.add(r * NR + t * 16) };
        // Floors become truncations by the negative count.
        // SAFETY: row `r`'s word of signs, and the vector's 16, which begin with a line as all of B's do.
        let mut sum = unsafe { negatives(p.a_sign.add(r), p.b_sign.add(t * 16)) };
        if CHECK {
            sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(1 << 30));
        }
        for i in 0..P {
            let (even, odd) = (even[r][i], odd[r][i]);
            if CHECK {
                let wrong = _mm512_test_epi64_mask(_mm512_castpd_si512(even), over)
                    | _mm512_test_epi64_mask(_mm512_castpd_si512(odd), over);
                redo |= u32::from(wrong != 0) << (4 * r + t);
            }
            sum = _mm512_add_epi32(sum, low_halves(even, odd));
        }
        // SAFETY: c again.
        sum = _mm512_add_epi32(sum, truncated(top[r], unsafe { _mm512_load_ps(at) }, q));
        let d = finish::<OUT, false>(sum, top[r], q);
        if (skip | redo) >> (4 * r + t) & 1 == 0 {
            // SAFETY: to where c is.
            unsafe { _mm512_store_ps(at, d) };
        }
        redo |= u32::from(overflowed::<OUT>(d)) << (4 * r + t);
    }
    redo
}

/// `quarter` with f32 accumulators: `1.5 * 2^e_max` itself is where they start. With `TILES` rows and signs of A are
/// tile `t`'s, 8 for each.
///
/// # Safety
/// As `steps_fast`; with `TILES` as `step_tiles`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn quarter_narrow<const OUT: u8, const L: usize, const TILES: bool>(
    p: &Step,
    q: &Consts,
    t: usize,
    skip: u32,
    largest: &[__m512i; MR],
) -> u32 {
    let l = q.length::<L>();
    let (mut top, mut acc) = ([_mm512_setzero_ps(); MR], [_mm512_setzero_ps(); MR]);
    for r in 0..MR {
        // SAFETY: vector `t` of row `r` of the states, as in `quarter`.
        let c = unsafe { _mm512_load_ps(p.c.add(r * NR + t * 16)) };
        top[r] = _mm512_castsi512_ps(start::<OUT>(powers(largest[r], t), c));
        acc[r] = top[r];
    }
    // Each tile has rows of its own.
    let first = if TILES { t * MR } else { 0 };
    // SAFETY: A's panel has 8 rows, or 8 for each tile, and B's the vectors of 16 columns, of `l` products.
    let (a, b) = unsafe { (p.a_val32.add(first * l), p.b_val32.add(t * l * 16)) };
    for k in 0..l {
        // SAFETY: 16 of this vector's f32, a line.
        let b = unsafe { _mm512_load_ps(b.add(k * 16)) };
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: `at` is below `MR * l` in either order.
            let a = _mm512_set1_ps(unsafe { *a.add(at::<TILES>(r, k, l)[0]) });
            *acc = _mm512_fmadd_round_ps::<RZ>(a, b, *acc);
        }
    }
    let mut redo = 0;
    for r in 0..MR {
        // SAFETY: where c was read.
        let at = unsafe { p.c.add(r * NR + t * 16) };
        // SAFETY: the signs of the rows whose values were read, and of the vector's columns, a line.
        let negative = unsafe { negatives(p.a_sign.add(first + r), p.b_sign.add(t * 16)) };
        // SAFETY: c again.
        let d = finish_narrow::<OUT>(acc[r], negative, top[r], unsafe { _mm512_load_ps(at) }, q);
        if TILES || (skip | redo) >> (4 * r + t) & 1 == 0 {
            // SAFETY: to where c is.
            unsafe { _mm512_store_ps(at, d) };
        }
        redo |= u32::from(overflowed::<OUT>(d)) << (4 * r + t);
    }
    redo
}
