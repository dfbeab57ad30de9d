//! A step of up to four tiles of 8 rows by 16 columns, one for each vector.

#![allow(clippy::needless_range_loop, reason = "rows index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads and stores through the panels' pointers")]

use super::super::avx512::{RZ, at, broadcast, is_cut, max_exponents, powers, quarter_narrow};
use super::super::finish::{accumulators, finish, low_halves, negatives, overflowed, start, truncated};
use super::super::step::{Consts, Step};
use super::super::{MR, NR, out};
use core::arch::x86_64::*;

/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;
/// Products of two columns of B after another in A's panel for tiles.
const FOUR: usize = 4;

/// Where `tile` has the f64 values of 16 columns of B from.
pub(super) trait Columns: Copy {
    /// What is the same for all products of a step.
    type Step: Copy;

    /// That of vector `t` in a step of `l` products.
    ///
    /// # Safety
    /// AVX-512F is there.
    unsafe fn step(self, t: usize, l: usize) -> Self::Step;

    /// The even columns and the odd ones of product `k`.
    ///
    /// # Safety
    /// As for `step`; the step is there, has product `k`, and has vector `t`, which `step` was asked for.
    unsafe fn values(self, step: Self::Step, k: usize) -> [__m512d; 2];
}

/// B's panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromPanel(pub(super) *const f64);

impl Columns for FromPanel {
    type Step = *const f64;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn step(self, t: usize, l: usize) -> *const f64 {
        self.0.wrapping_add(t * l * 16)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn values(self, step: *const f64, k: usize) -> [__m512d; 2] {
        // SAFETY: product `k` of vector `t` of a step that is there, by the caller's promise: two lines of a panel that
        // begins with one.
        unsafe { [_mm512_load_pd(step.add(k * 16)), _mm512_load_pd(step.add(k * 16 + 8))] }
    }
}

/// The step: A's panel is the one for tiles, its exponents have a byte for each, its values and signs stand tile after
/// tile, from the first's on in `p`. B's f64 values are those of `columns`. Returns pieces that are to be done again as
/// `steps_fast`, of which one stands for a tile.
///
/// # Safety
/// `p` points to this step's exponents of 8 rows and 64 columns, and to values and signs of 8 rows for each of up to
/// four tiles, signs of 64 columns and 8 rows of 64 states, B's and these aligned to 64 bytes. Steps have 8, 16 or 32
/// products. `columns` have this step for all tiles, or where panels are f32 `p` has B's values.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn step_tiles<const OUT: u8>(p: &Step, q: &Consts, tiles: usize, columns: impl Columns) -> u32 {
    // SAFETY: the caller's promise, handed on; L is the block.
    unsafe {
        // With c, sums stay below 2^31 where these are shorter.
        match (q.block, q.frac_bits) {
            _ if is_cut::<OUT>(q) => step_tiles::<{ out::F32_CUT }>(p, q, tiles, columns),
            (16, 25..) => each_tile::<OUT, true, 16>(p, q, tiles, columns),
            (16, _) => each_tile::<OUT, false, 16>(p, q, tiles, columns),
            (32, _) => each_tile::<OUT, true, 32>(p, q, tiles, columns),
            _ => each_tile::<OUT, false, 8>(p, q, tiles, columns),
        }
    }
}

/// `step_tiles` for steps of `L` products, whose sums are looked at if need be.
///
/// # Safety
/// As `step_tiles`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn each_tile<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    tiles: usize,
    columns: impl Columns,
) -> u32 {
    // SAFETY: the caller's promise, handed on; `t` is one of the tiles.
    unsafe {
        let (largest, mut skip) = max_exponents::<L, MR, true>(p, q, 0..L);
        for t in 0..tiles {
            skip |= if q.narrow {
                quarter_narrow::<OUT, L, true>(p, q, t, skip, &largest)
            } else {
                tile::<OUT, CHECK, L>(p, q, t, &largest, columns)
            };
        }
        skip
    }
}

/// Tile `t` with f64 accumulators. Its states are changed, also where it is to be done again.
///
/// # Safety
/// As `step_tiles`, for one of the tiles.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn tile<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    t: usize,
    largest: &[__m512i; MR],
    columns: impl Columns,
) -> u32 {
    // Sums that are watched begin at `offset`, so that bits above show when one leaves 31 bits.
    let offset = 1 << 30;
    let mut top = [_mm512_setzero_si512(); MR];
    let (mut even, mut odd) = ([_mm512_setzero_pd(); MR], [_mm512_setzero_pd(); MR]);
    for r in 0..MR {
        // SAFETY: vector `t` of row `r` of the states, a line: rows have four.
        let c = unsafe { _mm512_load_ps(p.c.add(r * NR + t * 16)) };
        top[r] = start::<OUT>(powers(largest[r], t), c);
        [even[r], odd[r]] = accumulators(top[r], if CHECK { offset } else { 0 });
    }
    let a = p.a_val.wrapping_add(t * MR * L);
    // SAFETY: AVX-512F is this function's, too.
    let b = unsafe { columns.step(t, L) };
    for first in (0..L).step_by(FOUR) {
        // SAFETY: tile `t`'s 8 rows by L products of A, four products after another: `at` is below `MR * L`.
        let of_a = unsafe { a.add(at::<true>(0, first, L)[0]) };
        for i in 0..FOUR {
            // SAFETY: product `first + i` of L, a multiple of four.
            let [b0, b1] = unsafe { columns.values(b, first + i) };
            for r in 0..MR {
                // SAFETY: of the same four products, row `r`'s.
                let a = unsafe { broadcast(of_a.add(at::<true>(r, i, L)[0])) };
                even[r] = _mm512_fmadd_round_pd::<RZ>(a, b0, even[r]);
                odd[r] = _mm512_fmadd_round_pd::<RZ>(a, b1, odd[r]);
            }
        }
    }
    let (mut infinite, mut watched) = (false, _mm512_setzero_si512());
    for r in 0..MR {
        // SAFETY: where c was read.
        let at = unsafe { p.c.add(r * NR + t * 16) };
        // Floors become truncations by the negative count.
        // SAFETY: tile `t` has 8 words of A's signs, and a line of B's.
        let mut sum = unsafe { negatives(p.a_sign.add(t * MR + r), p.b_sign.add(t * 16)) };
        if CHECK {
            let [even, odd] = [even[r], odd[r]].map(|x| _mm512_castpd_si512(x));
            watched = _mm512_ternarylogic_epi64::<OR>(watched, even, odd);
            sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(1 << 30));
        }
        sum = _mm512_add_epi32(sum, low_halves(even[r], odd[r]));
        // SAFETY: c again.
        sum = _mm512_add_epi32(sum, truncated(top[r], unsafe { _mm512_load_ps(at) }, q));
        let d = finish::<OUT, false>(sum, top[r], q);
        // SAFETY: to where c is.
        unsafe { _mm512_store_ps(at, d) };
        infinite |= overflowed::<OUT>(d);
    }
    let over = _mm512_set1_epi64((1 << 51) - 2 * offset);
    u32::from(infinite || CHECK && _mm512_test_epi64_mask(watched, over) != 0) << t
}
