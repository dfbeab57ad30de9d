//! Packing of the FDA's panels: 16 codes at a time become values, exponent bytes, signs and flags.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

mod avx2;
mod columns;
mod in_f32;
mod quick;
mod rows;
#[cfg(test)]
mod tests;

use self::columns::Columns;
use self::quick::Quick;
use self::rows::Rows;
use super::step::{ENLARGED, ENLARGED_F32};
use super::{Fda, GROUPS, MR, NR, Packed, SPECIAL, TINY};
use crate::format::{FormatSpec, Specials};
use crate::gemm::kernel::Panel;
use crate::simd::buffer::{Buffer, Plain};
use core::arch::x86_64::*;
use core::ops::Range;

/// Exponents a window spans: bytes 96..=127.
pub(super) const WINDOW: i32 = 32;

/// The shift that stands for a NaN scale.
pub(super) const NAN_SHIFT: i32 = i32::MIN;

/// The exponent of what stands for zeros where values are f32.
const STAND_IN: i32 = -100;

/// Ternary logic: `a | (b & c)`.
pub(super) const OR_AND: i32 = 0xF8;

/// A format unrolled into the constants of the decoder.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    ignored: u32,
    frac_bits: u32,
    width: u32,
    /// Smallest magnitude code that is Inf or NaN.
    special: u32,
    fnuz: bool,
    /// Scales the subnormal significand.
    subnormal: f64,
    /// Added to the shifted code of a normal number.
    rebias: i64,
    /// Part of every value: the enlargement of B.
    enlarge: i64,
    /// What stands for zeros and specials.
    tiny: i64,
    /// Field that byte 127 stands for.
    top: i32,
    /// With conversion to f16: the field of its lowest exponent.
    f16_low: Option<i32>,
}

/// 16 decoded elements.
struct Items {
    /// f64: the first and the second half, or the even and the odd elements.
    values: [__m512d; 2],
    /// Windowed exponents.
    exponents: __m512i,
    significands: __m512i,
    negative: __mmask16,
    special: __mmask16,
    tiny: __mmask16,
}

impl Items {
    fn flags(&self, lanes: __mmask16) -> u8 {
        let flag = |mask: __mmask16, flag: u8| if mask & lanes != 0 { flag } else { 0 };
        flag(self.special, SPECIAL) | flag(self.tiny, TINY)
    }
}

impl Decoder {
    fn new(spec: &FormatSpec, scale: i32, fda: &Fda, enlarge: bool, top: i32) -> Self {
        let pow = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
        // Products that are truncated one by one need neither that nor stand-ins of zeros.
        let enlarge = match () {
            () if !enlarge || fda.aligned => 0,
            () if fda.narrow => ENLARGED_F32,
            () => ENLARGED,
        };
        let quantum = spec.emin() - spec.fraction_bits as i32;
        let tiny = match () {
            () if fda.aligned => 0.0,
            () if fda.narrow => pow(STAND_IN),
            () => pow(-1000),
        };
        Self {
            ignored: spec.ignored_low_bits,
            frac_bits: spec.fraction_bits,
            width: spec.exponent_bits + spec.fraction_bits,
            special: spec.first_special() as u32,
            fnuz: spec.specials == Specials::NanNegativeZero,
            // Numbers below the normal f32s are far below where any bit of such products counts.
            subnormal: if fda.aligned && spec.emin() <= -126 { 0.0 } else { pow(quantum + scale) },
            rebias: i64::from(1023 - spec.bias + scale) << 52 | enlarge,
            enlarge,
            tiny: tiny.to_bits() as i64 | enlarge,
            top: top + spec.bias,
            f16_low: fda.via_f16.then_some(spec.bias - 14),
        }
    }

    /// 16 codes and the exponents of their block scales. The values are split into halves, or with
    /// `PAIRS` into even and odd ones.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn items<const PAIRS: bool>(&self, raw: __m512i, shifts: Option<__m512i>) -> Items {
        let word = |x: u32| _mm512_set1_epi32(x as i32);
        let bits = _mm512_srlv_epi32(raw, word(self.ignored));
        let mag = _mm512_and_si512(bits, word((1 << self.width) - 1));
        let negative = _mm512_test_epi32_mask(bits, word(1 << self.width));
        let zero = _mm512_testn_epi32_mask(mag, mag);
        let mut special = _mm512_cmpge_epu32_mask(mag, word(self.special));
        if self.fnuz {
            special |= negative & zero;
        }
        if let Some(shifts) = shifts {
            special |= _mm512_cmpeq_epi32_mask(shifts, _mm512_set1_epi32(NAN_SHIFT));
        }
        let none = special | zero;
        let shift = shifts.map(|s| _mm512_maskz_mov_epi32(!none, s));

        let mut field = _mm512_srlv_epi32(mag, word(self.frac_bits));
        let subnormal = _mm512_testn_epi32_mask(field, field);
        let (mut fraction, mut normal) = (mag, !subnormal);
        if let Some(low) = self.f16_low {
            // A subnormal's exponent once it is f16: that of its leading bit, which its significand begins with.
            let number = _mm512_castps_si512(_mm512_cvtepi32_ps(mag));
            fraction = _mm512_mask_srlv_epi32(mag, subnormal, number, word(23 - self.frac_bits));
            let lead = _mm512_sub_epi32(_mm512_srli_epi32::<23>(number), word(126 + self.frac_bits));
            field = _mm512_max_epi32(_mm512_mask_mov_epi32(field, subnormal, lead), _mm512_set1_epi32(low));
            normal = !0;
        } else {
            field = _mm512_max_epi32(field, word(1));
        }
        // How far below the top.
        let mut below = _mm512_sub_epi32(_mm512_set1_epi32(self.top), field);
        if let Some(shift) = shift {
            below = _mm512_sub_epi32(below, shift);
        }
        let tiny = _mm512_cmpge_epi32_mask(below, _mm512_set1_epi32(WINDOW)) & !none;
        Items {
            values: [
                self.values::<PAIRS>(0, [mag, bits], shift, [subnormal, none]),
                self.values::<PAIRS>(1, [mag, bits], shift, [subnormal, none]),
            ],
            exponents: _mm512_maskz_sub_epi32(!(none | tiny), word(127), below),
            significands: {
                let fraction = _mm512_and_si512(fraction, word((1 << self.frac_bits) - 1));
                _mm512_mask_or_epi32(fraction, normal, fraction, word(1 << self.frac_bits))
            },
            negative,
            special,
            tiny,
        }
    }

    /// One part's values, from magnitudes and codes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn values<const PAIRS: bool>(
        &self,
        part: usize,
        codes: [__m512i; 2],
        shift: Option<__m512i>,
        [subnormal, none]: [__mmask16; 2],
    ) -> __m512d {
        let split = |x: __m512i| match (PAIRS, part) {
            (true, 0) => _mm512_and_si512(x, _mm512_set1_epi64(0xFFFF_FFFF)),
            (true, _) => _mm512_srli_epi64::<32>(x),
            (false, 0) => _mm512_cvtepu32_epi64(_mm512_castsi512_si256(x)),
            (false, _) => _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(x)),
        };
        let [x, bits] = codes.map(split);
        let mut v = _mm512_add_epi64(
            _mm512_sllv_epi64(x, _mm512_set1_epi64(52 - i64::from(self.frac_bits))),
            _mm512_set1_epi64(self.rebias),
        );
        if subnormal != 0 {
            let m = _mm512_cmplt_epu64_mask(x, _mm512_set1_epi64(1 << self.frac_bits));
            let s = _mm512_castpd_si512(_mm512_mul_pd(_mm512_cvtepi64_pd(x), _mm512_set1_pd(self.subnormal)));
            v = _mm512_mask_or_epi64(v, m, s, _mm512_set1_epi64(self.enlarge));
        }
        if none != 0 {
            let lanes = split(_mm512_maskz_set1_epi32(none, -1));
            v = _mm512_mask_mov_epi64(v, _mm512_test_epi64_mask(lanes, lanes), _mm512_set1_epi64(self.tiny));
        }
        if let Some(shift) = shift {
            v = _mm512_add_epi64(v, _mm512_slli_epi64::<52>(split(shift)));
        }
        let sign = _mm512_sllv_epi64(bits, _mm512_set1_epi64(63 - i64::from(self.width)));
        _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<OR_AND>(v, sign, _mm512_set1_epi64(i64::MIN)))
    }
}

/// The exponent that byte 127 stands for, where it is the format's own top: its exponents all fit the window.
pub(super) fn own_top(fda: &Fda, spec: &FormatSpec) -> Option<i32> {
    (fits(fda, spec) && !fda.aligned).then_some(spec.max().exponent)
}

/// Whether a format's exponents fit the window.
#[inline(always)]
fn fits(fda: &Fda, spec: &FormatSpec) -> bool {
    let (emax, emin) = (spec.max().exponent, spec.emin() - if fda.via_f16 { spec.fraction_bits as i32 } else { 0 });
    // Block scales want a part of the window.
    let room = if fda.unit.scale.is_some() { WINDOW / 4 } else { 0 };
    emax - emin + room < WINDOW
}

/// The exponent that byte 127 stands for: the format's own top, or, where its exponents do not fit the window or
/// products are aligned one by one, the data's.
#[inline(always)]
fn top_exponent(fda: &Fda, spec: &FormatSpec, codes: &[u32]) -> i32 {
    if let Some(top) = own_top(fda, spec) {
        return top;
    }
    let mask = (1u32 << (spec.exponent_bits + spec.fraction_bits)) - 1;
    let (ignored, special) = (spec.ignored_low_bits, spec.first_special() as u32);
    let magnitude = |x: u32| {
        let mag = x >> ignored & mask;
        if mag >= special { 0 } else { mag }
    };
    // Side by side, or compilers take one at a time.
    let (whole, rest) = codes.as_chunks::<16>();
    let mut largest = [0; 16];
    for codes in whole {
        largest.iter_mut().zip(codes).for_each(|(to, &code)| *to = magnitude(code).max(*to));
    }
    let best = rest.iter().map(|&code| magnitude(code)).chain(largest).fold(0, u32::max);
    let top = (best >> spec.fraction_bits).max(1) as i32 - spec.bias;
    // How products aligned one by one are scaled depends on how large they can be. That they are small helps nothing,
    // and far below 1 the fast kernel would not take them.
    if fits(fda, spec) { top.max(spec.max().exponent.min(0)) } else { top }
}

/// Exponents of a panel's block scales, line by line and FDA by FDA; the largest.
pub(super) fn shifts_of(fda: &Fda, panel: &Panel, to: &mut Vec<i32>) -> i32 {
    to.clear();
    let Some(rule) = fda.unit.scale else { return 0 };
    let per_slot = rule.block / fda.block;
    for line in 0..panel.lines {
        for s in 0..panel.k / fda.block {
            let scale = rule.format.decode(panel.scale(line, s / per_slot));
            to.push(if scale.is_nan() { NAN_SHIFT } else { scale.exponent });
        }
    }
    to.iter().copied().filter(|s| *s != NAN_SHIFT).max().unwrap_or(0)
}

/// The first `n` lanes.
pub(super) const fn first(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1 << n) - 1 }
}

/// A shuffle that repeats the first byte of each word four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_bytes() -> __m512i {
    _mm512_set4_epi32(0x0C0C_0C0C, 0x0808_0808, 0x0404_0404, 0)
}

/// 16 values in f32.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn narrowed([low, high]: [__m512d; 2]) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high))
}

/// The lanes of vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_of<T: Plain, const V: usize, const N: usize>(vectors: [__m512i; V]) -> [T; N] {
    const { assert!(size_of::<[T; N]>() == 64 * V, "whole vectors") };
    // SAFETY: as many bytes, and every pattern of them is a number.
    unsafe { core::mem::transmute_copy(&vectors) }
}

/// The value panel, f64 or f32.
#[derive(Clone, Copy)]
enum Values {
    Wide(*mut f64),
    Narrow(*mut f32),
}

impl Values {
    fn new(buffer: &mut Buffer, narrow: bool, n: usize) -> Self {
        if narrow { Self::Narrow(buffer.room(n).as_mut_ptr()) } else { Self::Wide(buffer.room(n).as_mut_ptr()) }
    }

    /// Stores lanes of 16 values, the first of which would go to `at`.
    ///
    /// # Safety
    /// The panel has room for the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store(self, at: isize, lanes: __mmask16, [low, high]: [__m512d; 2]) {
        // SAFETY: the caller's promise; lanes outside of the mask are not touched.
        unsafe {
            match self {
                Self::Wide(to) => {
                    _mm512_mask_storeu_pd(to.wrapping_offset(at), lanes as u8, low);
                    _mm512_mask_storeu_pd(to.wrapping_offset(at + 8), (lanes >> 8) as u8, high);
                }
                Self::Narrow(to) => _mm512_mask_storeu_ps(to.wrapping_offset(at), lanes, narrowed([low, high])),
            }
        }
    }
}

impl Packed {
    /// Room for `groups` groups of `lines` lines with `parts` flag unions each.
    fn begin(&mut self, steps: usize, groups: usize, lines: usize, parts: usize) {
        self.steps = steps;
        for (flags, size) in [(&mut self.flags, lines), (&mut self.any, parts)] {
            flags.clear();
            flags.resize(steps * groups * size, 0);
        }
    }
}

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_a_avx512(&self, codes: &[u32], shift: i32, size: [usize; 2], to: &mut Packed) {
        to.top = top_exponent(self, &self.unit.a, codes) + shift;
        let quick = Quick::new(self, &self.unit.a, (self.scales().0, false), [to.top, shift]);
        self.pack_a_by(quick, codes, size, to);
    }

    /// `pack_a_avx512`, as far as possible in the quick way, if there is one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_a_by(&self, quick: Option<Quick>, codes: &[u32], [rows, k]: [usize; 2], to: &mut Packed) {
        let (steps, groups) = (k / self.block, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        let scale = self.scales().0;
        let panel = Rows {
            fda: self,
            decoder: Decoder::new(&self.unit.a, scale, self, false, to.top),
            quick,
            values: Values::new(&mut to.values, self.in_f32(), groups * MR * k),
            limit: self.risk_limit(),
            half_small: self.half_small(),
        };
        to.exponents.room::<u32>(groups * MR * k);
        to.signs.room::<u32>(groups * MR * steps).fill(0);
        let (mut ordered, mut numbers) = (Vec::new(), Vec::new());
        let in_order = self.is_in_order();
        // Integers are made of numbers row by row as long as all are ordinary, else of all codes.
        let mut integers = quick.and_then(|quick| Some((self.begin_rows_fixed(rows, to)?, quick)));
        for row in 0..rows {
            let codes = &codes[row * k..][..k];
            let codes = if in_order {
                codes
            } else {
                self.gather(codes, &mut ordered);
                &ordered
            };
            panel.row(row, codes, to);
            // One row alone says little of the others.
            let fixed = integers.filter(|_| row < 16 || !to.integers.are_few());
            if let Some((room, quick)) = fixed {
                let scaled = to.shifts.is_empty() || !to.shifts[row * steps..][..steps].contains(&NAN_SHIFT);
                if scaled && quick.all(codes, &mut numbers) {
                    // SAFETY: there is room for these rows.
                    unsafe { self.row_fixed(room, &numbers, quick.exponent(), row, to) }
                } else {
                    integers = None;
                }
            }
        }
        if integers.is_none() {
            self.pack_a_fixed(codes, [rows, k], to);
        }
        for row in rows..rows.next_multiple_of(MR) {
            self.clear_row(row, to);
            self.clear_row_fixed(row, to);
        }
    }

    /// Zeros for a row that is not there. Nobody wants its results, but they must not be slow. (On f64 accumulators
    /// their sign does not follow B's, so that states gain a unit for every negative number of B. That these become
    /// large costs time only where F is tiny.)
    fn clear_row(&self, row: usize, to: &mut Packed) {
        let l = self.block;
        for s in 0..to.steps {
            let at = (to.at_a(row / MR, s) * MR + row % MR) * l;
            if self.in_f32() {
                to.values.view_mut::<f32>()[at..at + l].fill(0.0);
            } else {
                to.values.view_mut::<f64>()[at..at + l].fill(0.0);
            }
            to.exponents.view_mut::<u32>()[at..at + l].fill(0);
        }
    }

    /// A row's codes, FDA by FDA.
    pub(super) fn gather(&self, row: &[u32], to: &mut Vec<u32>) {
        let k = self.unit.shape.k;
        to.resize(row.len(), 0);
        for (to, step) in to.chunks_exact_mut(k).zip(row.chunks_exact(k)) {
            to.iter_mut().zip(&self.order).for_each(|(to, &o)| *to = step[o]);
        }
    }

    /// Whether FDAs take products as they come.
    pub(super) fn is_in_order(&self) -> bool {
        self.order.is_sorted()
    }

    /// Packs columns of B, `codes[p * columns + column]`, of which `stage` makes those of a unit step right before they
    /// are wanted, if they are not there: then `top` is known.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_b_avx512(
        &self,
        codes: &mut [u32],
        stage: impl Fn(Range<usize>, &mut [u32]),
        (shift, top): (i32, Option<i32>),
        size: [usize; 2],
        to: &mut Packed,
    ) {
        to.top = shift
            + match top {
                Some(top) => top,
                None => top_exponent(self, &self.unit.b, codes),
            };
        let quick = Quick::new(self, &self.unit.b, (self.scales().1, true), [to.top, shift]);
        self.pack_b_by(quick, codes, stage, size, to);
    }

    /// `pack_b_avx512`, as far as possible in the quick way, if there is one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_b_by(
        &self,
        quick: Option<Quick>,
        codes: &mut [u32],
        stage: impl Fn(Range<usize>, &mut [u32]),
        [columns, k]: [usize; 2],
        to: &mut Packed,
    ) {
        let (steps, groups, scale) = (k / self.block, columns.div_ceil(NR), self.scales().1);
        to.begin(steps, groups, NR, 4);
        let decoder = Decoder::new(&self.unit.b, scale, self, true, to.top);
        let values = Values::new(&mut to.values, self.in_f32(), groups * NR * k);
        to.exponents.room::<u8>(groups * NR * k);
        to.signs.room::<u32>(groups * NR * steps);
        let integers = self.begin_columns_fixed(columns, to);
        let mut numbers = [[_mm512_setzero_ps(); NR / 16]; 32];
        let (unit, per) = (self.unit.shape.k, self.per_step());
        for u in 0..k / unit {
            let positions = u * unit..(u + 1) * unit;
            stage(positions.clone(), &mut codes[positions.start * columns..positions.end * columns]);
            let panel = Columns { fda: self, decoder, quick, values, codes, columns, integers };
            for (s, g) in (u * per..(u + 1) * per).flat_map(|s| (0..groups).map(move |g| (s, g))) {
                panel.step(g, s, &mut numbers, to);
            }
        }
    }

    /// Whether sums of A's significands can be above `risk_limit`, and are looked at for that.
    pub(super) fn may_risk(&self) -> bool {
        self.block <= 16 && self.block as u32 * ((2 << self.unit.a.fraction_bits) - 1) > self.risk_limit()
    }

    /// Largest sum of A's significands (as integers) for which 32-bit sums of a step cannot overflow:
    /// every product is below `2 s_a 2^F q`, c below `2 2^F q`, and the negative count adds at most 32.
    pub(super) fn risk_limit(&self) -> u32 {
        // Of pairs of integers, the upper ones'.
        let pairs = self.aligned && self.frac_bits > 25;
        let f = self.frac_bits - if pairs { super::aligned::REST as u32 } else { 0 };
        if f > 28 { 0 } else { (((1u32 << (30 - f)) - 1) << self.unit.a.fraction_bits) - 1 }
    }

    /// The largest bound on half of a step's significands that keeps their sum within `risk_limit`; -1 without one.
    fn half_small(&self) -> i32 {
        let (half, largest) = (self.block.div_ceil(2) as i64, (2i64 << self.unit.a.fraction_bits) - 1);
        let rest = i64::from(self.risk_limit()) - (self.block as i64 - half) * largest;
        (rest.div_euclid(half)).clamp(-1, largest) as i32
    }
}
