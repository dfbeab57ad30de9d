//! The FDA micro-kernel for AVX2 where f32 accumulators do: 8 rows by 64 columns in three passes over a few KiB. Other
//! units are `aligned`'s.
//!
//! First e_max and where accumulators begin, and what to add to their sums: c, and a unit for each negative product.
//! Then the products, rounded toward zero (`round_to_zero`). Last, sums become results.
//!
//! No closures here: the library's functions that would call them lack the instructions, so they would not be inlined.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]

use super::micro::Advance;
use super::round_to_zero::{Buffers, HALF, sums_f32};
use super::step::{Consts, EXP32, LEAST_F16, Step};
use super::{MR, NR, aligned, out};
use crate::simd::Avx2;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// Rows whose exponents are found together.
const ROWS: usize = 4;

/// `COUNTS[a][b]`: ones in `a ^ b`.
#[repr(align(64))]
struct Counts([[u8; 16]; 16]);

static COUNTS: Counts = {
    let mut counts = [[0; 16]; 16];
    let mut i = 0;
    while i < 256 {
        counts[i / 16][i % 16] = ((i / 16) ^ (i % 16)).count_ones() as u8;
        i += 1;
    }
    Counts(counts)
};

/// Steps of row groups of 8 by 64 columns for operands within the window and states within range, as `Micro` says: one.
///
/// # Safety
/// As there; values are f32, and there are signs.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn steps_fast<const OUT: u8>(set: Avx2, p: &Step, q: &Consts, skip: &mut [u32]) -> Advance {
    for (g, skip) in skip.iter_mut().enumerate().filter(|(_, skip)| **skip != !0) {
        // SAFETY: the step of one of the caller's groups.
        *skip = unsafe { step::<OUT>(set, &p.group(g, q), &q.group(g), *skip) };
    }
    Advance::by(1)
}

/// One FDA step of 8 rows by 64 columns for operands within the window and a state within range.
/// Returns a mask, bit `4 row + vector`, of the pieces left as they were for the wide kernel: those of `skip` and more.
///
/// # Safety
/// As `steps_fast`, for one group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn step<const OUT: u8>(set: Avx2, p: &Step, q: &Consts, mut skip: u32) -> u32 {
    let mut buffers = MaybeUninit::<Buffers>::uninit();
    let to = buffers.as_mut_ptr();
    // SAFETY: `top` and `more` are filled for all rows of the columns there are, then `sums`, and `end` reads no
    // others. Vectors are 1 to 4, and a step has a product at least.
    unsafe {
        for row in (0..MR).step_by(ROWS) {
            skip |= begin::<OUT>(set, p, q, row, to);
        }
        let sums = if q.block.is_multiple_of(4) { sums_f32::<4> } else { sums_f32::<1> };
        sums(to, p.a_val32, p.b_val32, q.block, p.vectors);
        end::<OUT>(p, q, skip, to)
    }
}

/// 64 bytes.
///
/// # Safety
/// They are there, aligned to 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pair(from: *const u8) -> [__m256i; 2] {
    // SAFETY: two halves of the caller's 64 bytes.
    unsafe { [_mm256_load_si256(from.cast()), _mm256_load_si256(from.add(32).cast())] }
}

/// The signs of the `n`-th four of a step's products in 64 columns, a byte each.
///
/// # Safety
/// `planes` points to a step's four, of `NR` bytes each, aligned to 32; `n` is below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn nibbles(planes: *const u8, n: usize) -> [__m256i; 2] {
    // SAFETY: a plane has the signs of two fours: this is one of the four.
    let mut b = unsafe { pair(planes.add(n / 2 * NR)) };
    for b in &mut b {
        *b = _mm256_and_si256(if n % 2 == 1 { _mm256_srli_epi16::<4>(*b) } else { *b }, _mm256_set1_epi8(0x0F));
    }
    b
}

/// Ones in the exclusive or of four signs of A and each four of `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn ones(a: usize, b: [__m256i; 2]) -> [__m256i; 2] {
    // SAFETY: a table's 16 bytes, aligned to as many, for all tables are of this size and the first is aligned to 64.
    let table = unsafe { _mm256_broadcastsi128_si256(_mm_load_si128(COUNTS.0[a & 15].as_ptr().cast())) };
    [_mm256_shuffle_epi8(table, b[0]), _mm256_shuffle_epi8(table, b[1])]
}

/// The numbers of negative products, laid out likewise: for four products at once the counts of ones in a's nibble and
/// any of b's are a table of 16 bytes.
///
/// # Safety
/// As `step`; `row` is 0 or `ROWS`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn negatives(p: &Step, q: &Consts, row: usize) -> [[__m256i; 2]; ROWS] {
    let mut count = [[_mm256_setzero_si256(); 2]; ROWS];
    for nibble in 0..q.block.div_ceil(4) {
        // SAFETY: B's signs are four planes a step, and blocks have at most 32 products.
        let b = unsafe { nibbles(p.b_sign.cast(), nibble) };
        for (r, count) in count.iter_mut().enumerate() {
            // SAFETY: A's signs are a word for each of 8 rows.
            let a = unsafe { *p.a_sign.add(row + r) } >> (4 * nibble) & 15;
            let ones = ones(a as usize, b);
            for h in 0..2 {
                count[h] = _mm256_add_epi8(count[h], ones[h]);
            }
        }
    }
    count
}

/// Bytes `4 j + T` in the exponent field, other bits around them.
#[inline]
#[target_feature(enable = "avx2")]
fn place<const T: usize>(bytes: __m256i) -> __m256i {
    match T {
        0 => _mm256_slli_epi32::<23>(bytes),
        1 => _mm256_slli_epi32::<15>(bytes),
        2 => _mm256_slli_epi32::<7>(bytes),
        _ => _mm256_srli_epi32::<1>(bytes),
    }
}

/// Bytes `4 j + T` as words.
#[inline]
#[target_feature(enable = "avx2")]
fn word<const T: i32>(bytes: __m256i) -> __m256i {
    let pick = |j: i32| 0x8080_8000_u32 as i32 | (4 * j + T);
    let lane = _mm_set_epi32(pick(3), pick(2), pick(1), pick(0));
    _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(lane))
}

/// Four rows from `row` on: `top` and `more`.
///
/// # Safety
/// As `step`; `row` is 0 or `ROWS`, `to` points to the buffers.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn begin<const OUT: u8>(set: Avx2, p: &Step, q: &Consts, row: usize, to: *mut Buffers) -> u32 {
    // SAFETY: four of 8 rows; of 8 lanes, two vectors of exponents are all 16 words. `at` is a multiple of 8 within 8
    // rows by 64 columns, of `top` and `more` as of states.
    unsafe {
        let (best, doubt) = if q.tiny & 1 == 0 {
            aligned::largest::<_, 0, { aligned::look::NOT }>(set, p, q, row, 0..q.block, 0)
        } else {
            aligned::largest::<_, 0, { aligned::look::EACH }>(set, p, q, row, 0..q.block, 0)
        };
        let count = negatives(p, q, row);
        for r in 0..ROWS {
            for h in 0..2 {
                let (at, best, count) = ((row + r) * NR + 8 * h, best[r][h], count[r][h]);
                let begin = |at: usize, power, negative| {
                    let to = [(&raw mut (*to).top[at]).cast(), (&raw mut (*to).more[at]).cast()];
                    begin_8::<OUT>(p.c.add(at), q, power, negative, to);
                };
                begin(at, place::<0>(best), word::<0>(count));
                if p.vectors > 1 {
                    begin(at + 16, place::<1>(best), word::<1>(count));
                }
                if p.vectors > 2 {
                    begin(at + 32, place::<2>(best), word::<2>(count));
                }
                if p.vectors > 3 {
                    begin(at + 48, place::<3>(best), word::<3>(count));
                }
            }
        }
        doubt
    }
}

/// 8 columns of a row: where `c` leads to, whose `top` and `more` go to where `to` leads.
///
/// # Safety
/// All three lead to 8 words, aligned to as many.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn begin_8<const OUT: u8>(c: *const f32, q: &Consts, power: __m256i, negative: __m256i, to: [*mut u32; 2]) {
    let (half, exponent) = (_mm256_set1_epi32(HALF as i32), _mm256_set1_epi32(EXP32));
    // SAFETY: 8 states, aligned: the caller's promise.
    let c = unsafe { _mm256_load_ps(c) };
    let c_power = _mm256_and_si256(_mm256_castps_si256(c), exponent);
    let mut power = _mm256_max_epi32(_mm256_and_si256(power, exponent), c_power);
    if OUT == out::F16_RNE {
        // A subnormal f16 c counts with the format's lowest exponent. (Where a zero does, too, the
        // products' is at least that.)
        let low = _mm256_set1_epi32(i32::from(LEAST_F16) << 23);
        let zero = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_EQ_OQ>(c, _mm256_setzero_ps()));
        power = _mm256_max_epi32(power, _mm256_andnot_si256(zero, low));
    }
    let top = _mm256_or_si256(power, half);
    // 2^(F - e_max).
    let up = _mm256_sub_epi32(_mm256_add_epi32(_mm256_set1_epi32((254 + q.frac_bits) << 23), half), top);
    let c = _mm256_cvttps_epi32(_mm256_mul_ps(c, _mm256_castsi256_ps(up)));
    let more = _mm256_add_epi32(c, negative);
    for (to, words) in to.into_iter().zip([top, more]) {
        // SAFETY: 8 words of `top` or `more`, aligned: the caller's promise.
        unsafe { _mm256_store_si256(to.cast(), words) }
    }
}

/// The results of all rows.
///
/// # Safety
/// As `step`; `from` points to the buffers, filled for the columns there are.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn end<const OUT: u8>(p: &Step, q: &Consts, mut skip: u32, from: *const Buffers) -> u32 {
    for r in 0..MR {
        for t in 0..p.vectors {
            let (at, piece) = (r * NR + 16 * t, 4 * r + t);
            // SAFETY: 8 columns, and 8 more, of the `t`-th 16 of a row, which are there.
            let d = unsafe { [end_8::<OUT>(q, at, from), end_8::<OUT>(q, at + 8, from)] };
            if skip >> piece & 1 == 0 {
                // SAFETY: the same columns' states, aligned.
                unsafe {
                    _mm256_store_ps(p.c.add(at), d[0]);
                    _mm256_store_ps(p.c.add(at + 8), d[1]);
                }
            }
            if OUT == out::F16_RNE {
                // A result that overflowed is infinite, so the largest magnitude is.
                let sign = _mm256_set1_ps(-0.0);
                let largest = _mm256_max_ps(_mm256_andnot_ps(sign, d[0]), _mm256_andnot_ps(sign, d[1]));
                let infinity = _mm256_set1_ps(f32::INFINITY);
                skip |= u32::from(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(largest, infinity)) != 0) << piece;
            }
        }
    }
    skip
}

/// 8 columns' sums times `2^(e_max - F)`, encoded.
///
/// # Safety
/// `from` points to buffers that are filled for 8 columns from `at` on, a multiple of 8.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn end_8<const OUT: u8>(q: &Consts, at: usize, from: *const Buffers) -> __m256 {
    // SAFETY: 8 words of each array, filled; arrays are whole lines of an aligned struct, so that `at` decides.
    let (top, more, sum) = unsafe {
        let top = _mm256_load_ps((&raw const (*from).top[at]).cast());
        let more = _mm256_load_si256((&raw const (*from).more[at]).cast());
        (top, more, _mm256_load_si256((&raw const (*from).sums[at]).cast()))
    };
    // The accumulator began at `top`: the difference is exact, and so is its way back from place 2^-23 to F.
    let sum = _mm256_castsi256_ps(_mm256_add_epi32(sum, more));
    let back = _mm256_castsi256_ps(_mm256_set1_epi32((127 + 23 - q.frac_bits) << 23));
    let d = _mm256_mul_ps(_mm256_sub_ps(sum, top), back);
    let keep = _mm256_castsi256_ps(_mm256_set1_epi32(q.keep));
    if OUT == out::F16_RNE { narrow_widen(d) } else { _mm256_and_ps(d, keep) }
}

/// Rounds to f16 (to nearest even) and back; minus zero becomes plus zero.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn narrow_widen(x: __m256) -> __m256 {
    let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    _mm256_add_ps(_mm256_cvtph_ps(h), _mm256_setzero_ps())
}
