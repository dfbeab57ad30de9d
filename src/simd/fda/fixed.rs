//! Steps in which nothing is cut off: integer dot products (AVX-512 VNNI).
//!
//! Numbers of at most 8 bits are small multiples of one power of two, unless large ones and small ones meet in a line
//! (a row of A or a column of B in one step): a line's integers count in units of its lowest last place. Where every
//! product's last place is `2^(e_max - F)` or above, and c's, truncation takes nothing, the step's sum is c plus an
//! integer dot product, 16 bits by 16, two products an instruction instead of half of one, and e_max does not matter.
//! Nor need it be known: the product of both lines' largest numbers bounds it, and the lowest places of groups of
//! products bound theirs. Where these bounds do not prove it, rows of 16 columns are done again by FMAs. Of block
//! scales a line has one, which is part of its unit. Sums that round down are the same wherever no floor takes a bit.

#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

mod pack;

pub(super) use pack::{Integers, Lines, Numbers, Room, Tables};

use super::avx512::{DOWN, RZ, UP, powers, step_pieces};
use super::finish::{narrow_widen, overflowed, to_odd};
use super::round_down::avx512::steps_fast as steps_round_down;
use super::step::{Consts, EXP32, LEAST_F16, Step};
use super::{MR, NR, out};
use std::arch::x86_64::*;

/// Products whose lowest last places are taken together.
const GROUP: usize = 4;

/// Groups in steps of `l` products.
const fn groups(l: usize) -> usize {
    l.div_ceil(GROUP)
}

/// A step of `steps_fast` where it need not truncate, and how many pieces it had to do again because some lane might.
///
/// # Safety
/// As `steps_fast`, for one row group; VNNI is there, and the integers of both panels are.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
pub(super) unsafe fn step_fixed<const OUT: u8>(p: &Step, q: &Consts, skip: u32) -> (u32, u32) {
    // SAFETY: the caller's promise, handed on; L is the block where it is not 0, and blocks with integers are even.
    unsafe {
        let left = match q.block {
            16 => step::<OUT, 16>(p, q, skip),
            32 => step::<OUT, 32>(p, q, skip),
            _ => step::<OUT, 0>(p, q, skip),
        };
        let redo = if left == 0 {
            0
        } else if OUT == out::ROUND_DOWN {
            let mut skip = [!left];
            _ = steps_round_down(p, q, &mut skip, 1);
            skip[0] & left
        } else {
            step_pieces::<OUT>(p, q, left)
        };
        (skip | redo, left.count_ones())
    }
}

/// Returns the pieces that it left, those of `skip` not among them.
///
/// # Safety
/// As `step_fixed`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
unsafe fn step<const OUT: u8, const L: usize>(p: &Step, q: &Consts, skip: u32) -> u32 {
    // SAFETY: the caller's promise, handed on; `t` is one of its vectors.
    unsafe {
        let (lows, mut left) = (lowest_places::<L>(p, q), 0);
        for t in 0..p.vectors {
            left |= quarter_fixed::<OUT, L>(p, q, t, skip, &lows);
        }
        left
    }
}

/// Bounds of the products' last places plus F, in units of both lines: bytes in the order of `max_exponents`.
///
/// # Safety
/// As `step_fixed`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn lowest_places<const L: usize>(p: &Step, q: &Consts) -> [__m512i; MR] {
    let (mut lowest, groups) = ([_mm512_set1_epi8(-1); MR], groups(q.length::<L>()));
    for i in 0..groups {
        // SAFETY: B's step has a line of places for each group of products, a byte for each of `NR` columns.
        let b = unsafe { _mm512_load_si512(p.b_fixed.lows.add(i * NR).cast()) };
        for (r, low) in lowest.iter_mut().enumerate() {
            // SAFETY: each of A's 8 rows has a word for each group, four equal bytes.
            let a = _mm512_set1_epi32(unsafe { *p.a_fixed.lows.cast::<i32>().add(r * groups + i) });
            *low = _mm512_min_epu8(*low, _mm512_add_epi8(a, b));
        }
    }
    lowest
}

/// 8 rows by the 16 columns of vector `t`. Returns the pieces that it left because some lane might truncate.
///
/// # Safety
/// As `step_fixed`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
unsafe fn quarter_fixed<const OUT: u8, const L: usize>(
    p: &Step,
    q: &Consts,
    t: usize,
    skip: u32,
    lows: &[__m512i; MR],
) -> u32 {
    let (a, b, pairs) = (&p.a_fixed, &p.b_fixed, q.length::<L>() / 2);
    let mut sums = [_mm512_setzero_si512(); MR];
    // SAFETY: B's step has `pairs` words of each column, those of 16 columns after another.
    let columns = unsafe { b.pairs.add(t * pairs * 16) };
    for i in 0..pairs {
        // SAFETY: pair `i` of this vector's columns, a line: steps of B begin with one.
        let y = unsafe { _mm512_load_si512(columns.add(i * 16).cast()) };
        for (r, sum) in sums.iter_mut().enumerate() {
            // SAFETY: pair `i` of row `r` of A's 8, `pairs` words from one to the next.
            let x = _mm512_set1_epi32(unsafe { *a.pairs.add(r * pairs + i) });
            *sum = _mm512_dpwssd_epi32(*sum, x, y);
        }
    }
    // SAFETY: a word for each of B's `NR` columns, of which 16 are a line.
    let (b_top, b_unit) =
        unsafe { (_mm512_load_si512(b.tops.add(t * 16).cast()), _mm512_load_si512(b.units.add(t * 16).cast())) };
    let mut left = 0;
    for r in 0..MR {
        // SAFETY: vector `t` of row `r` of the states.
        let at = unsafe { p.c.add(r * NR + t * 16) };
        // SAFETY: its 16 floats, a line: rows have four.
        let c = unsafe { _mm512_load_ps(at) };
        // SAFETY: a word for each of A's 8 rows.
        let (top, unit) = unsafe { (*a.tops.add(r), *a.units.add(r)) };
        let top = _mm512_add_epi32(b_top, _mm512_set1_epi32(top));
        let unit = _mm512_add_epi32(b_unit, _mm512_set1_epi32(unit));
        let sum = _mm512_cvtepi32_ps(sums[r]);
        let exact = _mm512_cmpeq_epi32_mask(_mm512_cvtps_epi32(sum), sums[r]);
        let exact = exact & whole::<OUT>(top, c, _mm512_add_epi32(unit, exponents(powers(lows[r], t))), q);
        let (d, inf) = add::<OUT>(sum, _mm512_castsi512_ps(unit), c, q);
        let (wanted, done) = (skip >> (4 * r + t) & 1 == 0, exact == !0 && !inf);
        left |= u32::from(wanted && !done) << (4 * r + t);
        // SAFETY: to where c was read, all of it or nothing.
        unsafe { _mm512_mask_store_ps(at, if wanted && done { !0 } else { 0 }, d) }
    }
    left
}

/// The exponent fields of f32s.
#[inline]
#[target_feature(enable = "avx512f")]
fn exponents(x: __m512) -> __m512i {
    _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(EXP32))
}

/// Whether nothing of c or of products up to exponent `top` is cut off, all given by exponent fields: `lowest` is the
/// products' lowest last place times 2^F.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn whole<const OUT: u8>(top: __m512i, c: __m512, lowest: __m512i, q: &Consts) -> __mmask16 {
    let floor = if OUT == out::F16_RNE { q.floor_field.max(LEAST_F16) } else { q.floor_field };
    let top = _mm512_max_epi32(top, _mm512_set1_epi32(i32::from(floor) << 23));
    let e_c = exponents(c);
    let e_max = _mm512_max_epi32(top, e_c);
    // Rounding down, products are cut off below their own exponents, and their sum far below c's.
    let most = if OUT == out::ROUND_DOWN {
        _mm512_max_epi32(top, _mm512_sub_epi32(e_c, _mm512_set1_epi32(q.floors.below_c << 23)))
    } else {
        e_max
    };
    // 2^(F - e_max).
    let up = _mm512_sub_epi32(_mm512_set1_epi32((254 + q.frac_bits) << 23), e_max);
    let units = _mm512_mul_ps(c, _mm512_castsi512_ps(up));
    let integer = _mm512_cvtepi32_ps(_mm512_cvttps_epi32(units));
    _mm512_cmpge_epi32_mask(lowest, most) & _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(integer, units)
}

/// `c + sum * unit`, rounded once; and whether an f16 overflowed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn add<const OUT: u8>(sum: __m512, unit: __m512, c: __m512, q: &Consts) -> (__m512, bool) {
    // Rounded down, numbers that cancel leave a negative zero.
    let plus_zero = |d| _mm512_add_ps(d, _mm512_setzero_ps());
    match OUT {
        out::F32_RZ => {
            let d = _mm512_castps_si512(_mm512_fmadd_round_ps::<RZ>(sum, unit, c));
            (_mm512_castsi512_ps(_mm512_and_si512(d, _mm512_set1_epi32(q.keep))), false)
        }
        out::F16_RNE => {
            let cut = _mm512_fmadd_round_ps::<RZ>(sum, unit, c);
            let (down, up) = (_mm512_fmadd_round_ps::<DOWN>(sum, unit, c), _mm512_fmadd_round_ps::<UP>(sum, unit, c));
            let d = narrow_widen(to_odd(cut, down, up));
            (d, overflowed::<OUT>(d))
        }
        out::F32_RD => (plus_zero(_mm512_fmadd_round_ps::<DOWN>(sum, unit, c)), false),
        out::F32_RU => (_mm512_fmadd_round_ps::<UP>(sum, unit, c), false),
        _ => (_mm512_fmadd_ps(sum, unit, c), false),
    }
}
