//! Steps in which nothing is cut off: integer dot products (AVX-512 VNNI).
//!
//! Numbers of at most 8 bits are small multiples of one power of two, unless large ones and small ones meet. Where
//! `2^(e_max - F)` is no larger than the product of both operands' units, truncation leaves every product whole, so that
//! a step's sum is an integer dot product: 16 bits by 16, two products an instruction instead of half of one.

#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each function says once why its loads and stores are sound")]

use super::avx512::{Consts, Step, max_exponents, powers, quarter};
use super::finish::{finish, start};
use super::{Fda, MR, NR, Packed};
use crate::format::FormatSpec;
use crate::unit::Unit;
use std::arch::x86_64::*;

/// Stands in a table for numbers too large.
const TOO_LARGE: i32 = i32::MIN;

/// A format's numbers as integers.
#[derive(Debug)]
pub(super) struct Table {
    /// The exponent of 1: that of the format's smallest number.
    grid: i32,
    /// By code; 0 for infinities and NaN, of which rule (S) takes care.
    values: Vec<i32>,
}

/// Both operands'.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) a: Table,
    pub(super) b: Table,
}

impl Table {
    fn new(spec: &FormatSpec) -> Self {
        let grid = spec.emin() - spec.fraction_bits as i32;
        let value = |code: u64| {
            let x = spec.decode(code);
            if x.is_zero() || !x.is_finite() {
                return 0;
            }
            let shift = x.exponent - x.frac_bits as i32 - grid;
            let magnitude = if (0..16).contains(&shift) { x.significand << shift } else { u64::MAX };
            match i16::try_from(magnitude) {
                Ok(m) if x.negative => -i32::from(m),
                Ok(m) => m.into(),
                Err(_) => TOO_LARGE,
            }
        };
        Self { grid, values: (0..1 << spec.storage_bits).map(value).collect() }
    }
}

impl Tables {
    /// For formats of at most 8 bits without block scales, with pairs of products in every step.
    pub(super) fn new(unit: &Unit, block: usize) -> Option<Self> {
        let small = unit.a.storage_bits <= 8 && unit.b.storage_bits <= 8;
        let there = std::arch::is_x86_feature_detected!("avx512vnni");
        (small && unit.scale.is_none() && block.is_multiple_of(2) && there)
            .then(|| Self { a: Table::new(&unit.a), b: Table::new(&unit.b) })
    }

    /// The exponent of the product of both units.
    pub(super) const fn grid(&self) -> i32 {
        self.a.grid + self.b.grid
    }
}

/// Whether 32 bits hold every sum of a step of these panels.
pub(super) fn fits(a: &Packed, b: &Packed, block: usize) -> bool {
    let peak = |p: &Packed| p.peak.map_or(u64::MAX, u64::from);
    peak(a).saturating_mul(peak(b)).saturating_mul(block as u64) < 1 << 31
}

/// The largest magnitude of all, `None` where one is too large.
#[target_feature(enable = "avx512f")]
fn peak(magnitudes: __m512i) -> Option<u32> {
    let most = _mm512_reduce_max_epu32(magnitudes);
    (most < 1 << 15).then_some(most)
}

/// 16 codes as integers.
///
/// # Safety
/// Lanes of the mask hold codes of the table's.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn look_up(table: &Table, lanes: __mmask16, codes: __m512i) -> __m512i {
    // A format's codes fill its storage bits; what lies above them is not looked at.
    let codes = _mm512_and_si512(codes, _mm512_set1_epi32(table.values.len() as i32 - 1));
    // SAFETY: an index below the table's length, a power of two.
    unsafe { _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), lanes, codes, table.values.as_ptr()) }
}

impl Fda {
    /// Rows of A as pairs of integers, `[row group][step][row][pair]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_a_fixed(&self, codes: &[u32], [rows, k]: [usize; 2], to: &mut Packed) {
        let Some(Tables { a: table, .. }) = &self.fixed else { return };
        let (l, groups) = (self.block, rows.div_ceil(MR).next_multiple_of(super::GROUPS));
        let mut words = core::mem::take(&mut to.fixed);
        let out = words.room::<i16>(groups * MR * k);
        let (mut most, mut ordered) = (_mm512_setzero_si512(), Vec::new());
        let in_order = self.is_in_order();
        for row in 0..rows.next_multiple_of(MR) {
            let mut codes = codes.get(row * k..).and_then(|c| c.get(..k)).unwrap_or_default();
            if !in_order {
                self.gather(codes, &mut ordered);
                codes = &ordered;
            }
            for s in 0..to.steps {
                let place = (to.at_a(row / MR, s) * MR + row % MR) * l;
                for from in (0..l).step_by(16) {
                    let lanes = super::pack::first(l - from);
                    let real = if codes.is_empty() { 0 } else { lanes };
                    // SAFETY: the lanes of the mask lie in the row and in the panel.
                    unsafe {
                        let raw = _mm512_maskz_loadu_epi32(real, codes.as_ptr().wrapping_add(s * l + from).cast());
                        let x = look_up(table, real, raw);
                        most = _mm512_max_epu32(most, _mm512_abs_epi32(x));
                        let at = out[place + from..].as_mut_ptr();
                        _mm256_mask_storeu_epi16(at, lanes, _mm512_cvtepi32_epi16(x));
                    }
                }
            }
        }
        (to.fixed, to.peak) = (words, peak(most));
    }

    /// Columns of B as pairs of integers, `[column group][step][vector of 16 columns][pair][column]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_b_fixed(&self, codes: &[u32], [columns, k]: [usize; 2], to: &mut Packed) {
        let Some(Tables { b: table, .. }) = &self.fixed else { return };
        let (l, groups, unit_k) = (self.block, columns.div_ceil(NR), self.unit.shape.k);
        let mut words = core::mem::take(&mut to.fixed);
        let out = words.room::<i32>(groups * NR * k / 2);
        let mut most = _mm512_setzero_si512();
        for (s, pair) in (0..to.steps).flat_map(|s| (0..l / 2).map(move |pair| (s, pair))) {
            let rows = [0, 1].map(|i| {
                let at = s * l + 2 * pair + i;
                &codes[(at / unit_k * unit_k + self.order[at % unit_k]) * columns..][..columns]
            });
            for (g, t) in (0..groups).flat_map(|g| (0..4).map(move |t| (g, t))) {
                let from = g * NR + t * 16;
                let lanes = super::pack::first(columns.saturating_sub(from));
                // SAFETY: the lanes of the mask lie in the row.
                let [x, y] = rows.map(|row| unsafe {
                    let raw = _mm512_maskz_loadu_epi32(lanes, row.as_ptr().wrapping_add(from).cast());
                    look_up(table, lanes, raw)
                });
                most = _mm512_max_epu32(most, _mm512_max_epu32(_mm512_abs_epi32(x), _mm512_abs_epi32(y)));
                let both = _mm512_mask_blend_epi16(0xAAAA_AAAA, x, _mm512_slli_epi32::<16>(y));
                let place = ((to.at_b(g, s) * 4 + t) * (l / 2) + pair) * 16;
                // SAFETY: 16 words.
                unsafe { _mm512_storeu_epi32(out[place..place + 16].as_mut_ptr(), both) }
            }
        }
        (to.fixed, to.peak) = (words, peak(most));
    }
}

/// `step_fast` where it need not truncate, and how many vectors of columns it had to do again because some lane must.
///
/// # Safety
/// As `step_fast`; VNNI is there, and the integers of both panels are.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
pub(super) unsafe fn step_fixed<const OUT: u8>(p: &Step, q: &Consts, skip: u32) -> (u32, u32) {
    // SAFETY: the caller's promise, handed on. Steps of more than 16 products look at their sums.
    unsafe {
        match q.block {
            16 => step::<OUT, false, 16>(p, q, skip),
            32 => step::<OUT, true, 32>(p, q, skip),
            0..=15 => step::<OUT, false, 0>(p, q, skip),
            _ => step::<OUT, true, 0>(p, q, skip),
        }
    }
}

/// # Safety
/// As `step_fixed`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
unsafe fn step<const OUT: u8, const CHECK: bool, const L: usize>(p: &Step, q: &Consts, skip: u32) -> (u32, u32) {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        let (largest, doubt) = max_exponents::<L>(p, q, 0..q.length::<L>());
        let (mut skip, mut again) = (skip | doubt, 0);
        for t in 0..p.vectors {
            let truncates = quarter_fixed::<OUT, CHECK, L>(p, q, t, skip, &largest);
            if truncates != 0 {
                skip |= quarter::<OUT, CHECK, L>(p, q, t, skip | !truncates, &largest) & truncates;
                again += 1;
            }
        }
        (skip, again)
    }
}

/// 8 rows by the 16 columns of vector `t`. Returns the pieces that it could not do.
///
/// # Safety
/// As `step_fixed`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")]
unsafe fn quarter_fixed<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    t: usize,
    skip: u32,
    largest: &[__m512i; MR],
) -> u32 {
    let pairs = q.length::<L>() / 2;
    let mut sums = [_mm512_setzero_si512(); MR];
    // SAFETY (whole function): panels and state are as large as the step, B and the state are 64-byte aligned.
    let b = unsafe { p.b_fixed.add(t * pairs * 16) };
    for i in 0..pairs {
        let b = unsafe { _mm512_load_si512(b.add(i * 16).cast()) };
        for (r, sum) in sums.iter_mut().enumerate() {
            let a = _mm512_set1_epi32(unsafe { *p.a_fixed.add(r * pairs + i) });
            *sum = _mm512_dpwssd_epi32(*sum, a, b);
        }
    }
    let mut truncates = 0;
    for r in 0..MR {
        let at = unsafe { p.c.add(r * NR + t * 16) };
        let c = unsafe { _mm512_load_ps(at) };
        let top = start::<OUT>(powers(largest[r], t), c, q);
        // From units of both grids to units of 2^(e_max - F).
        let finer = _mm512_srai_epi32::<23>(_mm512_sub_epi32(_mm512_set1_epi32(q.whole), top));
        let mut wrong = _mm512_movepi32_mask(finer);
        let sum = _mm512_sllv_epi32(sums[r], finer);
        if CHECK {
            // One bit more than the sum, so that c may be added.
            let room = _mm512_slli_epi32::<1>(sum);
            let back = _mm512_srav_epi32(_mm512_srai_epi32::<1>(room), finer);
            wrong |= _mm512_cmpneq_epi32_mask(back, sums[r]);
        }
        let (d, inf) = finish::<OUT>(sum, top, c, q);
        let piece = 1 << (4 * r + t);
        if skip & piece == 0 {
            if wrong != 0 || inf {
                truncates |= piece;
            } else {
                unsafe { _mm512_store_ps(at, d) };
            }
        }
    }
    truncates
}
