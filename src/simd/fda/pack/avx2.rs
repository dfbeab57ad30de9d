//! Packing for AVX2's wide kernel: panels in f64, 8 codes at a time.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::{Decoder, NAN_SHIFT, WINDOW, top_exponent};
use crate::simd::fda::{Fda, GROUPS, MR, NR, Packed, SPECIAL, TINY};
use core::arch::x86_64::*;

/// Lanes.
const N: usize = 8;

/// 8 decoded elements; conditions are all ones in a lane, or none.
struct Items {
    /// The first and the second half, or the even and the odd elements.
    values: [__m256d; 2],
    /// Windowed exponents.
    exponents: __m256i,
    negative: __m256i,
    special: __m256i,
    tiny: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
fn word(x: u32) -> __m256i {
    _mm256_set1_epi32(x as i32)
}

#[inline]
#[target_feature(enable = "avx2")]
fn is_zero(x: __m256i) -> __m256i {
    _mm256_cmpeq_epi32(x, _mm256_setzero_si256())
}

/// One bit a lane.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(mask: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(mask)) as u32
}

/// The first `n` lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n.min(N) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// A part's 32-bit lanes as 64-bit ones: halves, or with `PAIRS` even and odd lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn split<const PAIRS: bool>(part: usize, x: __m256i) -> __m256i {
    match (PAIRS, part) {
        (true, 0) => _mm256_and_si256(x, _mm256_set1_epi64x(0xFFFF_FFFF)),
        (true, _) => _mm256_srli_epi64::<32>(x),
        (false, 0) => _mm256_cvtepu32_epi64(_mm256_castsi256_si128(x)),
        (false, _) => _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(x)),
    }
}

/// `split` for conditions.
#[inline]
#[target_feature(enable = "avx2")]
fn split_mask<const PAIRS: bool>(part: usize, x: __m256i) -> __m256i {
    match (PAIRS, part) {
        (true, 0) => _mm256_shuffle_epi32::<0xA0>(x),
        (true, _) => _mm256_shuffle_epi32::<0xF5>(x),
        (false, 0) => _mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)),
        (false, _) => _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(x)),
    }
}

impl Decoder {
    /// 8 codes and the exponents of their block scales.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn items_avx2<const PAIRS: bool>(&self, raw: __m256i, shifts: Option<__m256i>) -> Items {
        let bits = _mm256_srlv_epi32(raw, word(self.ignored));
        let mag = _mm256_and_si256(bits, word((1 << self.width) - 1));
        let negative = _mm256_srai_epi32::<31>(_mm256_sllv_epi32(bits, word(31 - self.width)));
        let zero = is_zero(mag);
        let mut special = _mm256_cmpeq_epi32(_mm256_max_epu32(mag, word(self.special)), mag);
        if self.fnuz {
            special = _mm256_or_si256(special, _mm256_and_si256(negative, zero));
        }
        if let Some(shifts) = shifts {
            special = _mm256_or_si256(special, _mm256_cmpeq_epi32(shifts, _mm256_set1_epi32(NAN_SHIFT)));
        }
        let none = _mm256_or_si256(special, zero);
        let mut field = _mm256_srlv_epi32(mag, word(self.frac_bits));
        let subnormal = is_zero(field);
        if let Some(low) = self.f16_low {
            // A subnormal's exponent once it is f16: that of its leading bit.
            let lead = _mm256_srli_epi32::<23>(_mm256_castps_si256(_mm256_cvtepi32_ps(mag)));
            let lead = _mm256_sub_epi32(lead, word(126 + self.frac_bits));
            field = _mm256_max_epi32(_mm256_blendv_epi8(field, lead, subnormal), _mm256_set1_epi32(low));
        } else {
            field = _mm256_max_epi32(field, word(1));
        }
        // How far below the top.
        let mut below = _mm256_sub_epi32(_mm256_set1_epi32(self.top), field);
        let mut shift = None;
        if let Some(shifts) = shifts {
            let s = _mm256_andnot_si256(none, shifts);
            below = _mm256_sub_epi32(below, s);
            shift = Some(s);
        }
        let tiny = _mm256_andnot_si256(none, _mm256_cmpgt_epi32(below, _mm256_set1_epi32(WINDOW - 1)));
        let exponents = _mm256_andnot_si256(_mm256_or_si256(none, tiny), _mm256_sub_epi32(word(127), below));
        let masks = [negative, subnormal, none];
        Items {
            values: [self.values_avx2::<PAIRS>(0, mag, shift, masks), self.values_avx2::<PAIRS>(1, mag, shift, masks)],
            exponents,
            negative,
            special,
            tiny,
        }
    }

    /// One part's values, from magnitudes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn values_avx2<const PAIRS: bool>(
        &self,
        part: usize,
        mag: __m256i,
        shift: Option<__m256i>,
        [negative, subnormal, none]: [__m256i; 3],
    ) -> __m256d {
        let x = split::<PAIRS>(part, mag);
        let up = _mm256_set1_epi64x(52 - i64::from(self.frac_bits));
        let mut v = _mm256_add_epi64(_mm256_sllv_epi64(x, up), _mm256_set1_epi64x(self.rebias));
        // Zeros are subnormal.
        if lanes(_mm256_or_si256(subnormal, none)) != 0 {
            let m = split_mask::<PAIRS>(part, subnormal);
            // As a number: 2^52 + x without 2^52.
            let two_52 = _mm256_set1_pd(4_503_599_627_370_496.0);
            let s = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, _mm256_castpd_si256(two_52))), two_52);
            let s = _mm256_castpd_si256(_mm256_mul_pd(s, _mm256_set1_pd(self.subnormal)));
            v = _mm256_blendv_epi8(v, _mm256_or_si256(s, _mm256_set1_epi64x(self.enlarge)), m);
            v = _mm256_blendv_epi8(v, _mm256_set1_epi64x(self.tiny), split_mask::<PAIRS>(part, none));
        }
        if let Some(shift) = shift {
            v = _mm256_add_epi64(v, _mm256_slli_epi64::<52>(split::<PAIRS>(part, shift)));
        }
        let sign = _mm256_and_si256(split_mask::<PAIRS>(part, negative), _mm256_set1_epi64x(i64::MIN));
        _mm256_castsi256_pd(_mm256_or_si256(v, sign))
    }
}

/// Loads 8 codes, or the lanes of a mask.
///
/// # Safety
/// They are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(from: *const u32, lanes: Option<__m256i>) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        match lanes {
            None => _mm256_loadu_si256(from.cast()),
            Some(lanes) => _mm256_maskload_epi32(from.cast(), lanes),
        }
    }
}

/// Stores two vectors.
///
/// # Safety
/// The panel has room for the lanes of the mask, all with `None`, from `to`, and from `to + apart` for the second.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut f64, apart: usize, lanes: Option<__m256i>, [low, high]: [__m256d; 2]) {
    // SAFETY: the caller's promise; lanes outside of the mask are not touched.
    unsafe {
        match lanes {
            None => {
                _mm256_storeu_pd(to, low);
                _mm256_storeu_pd(to.add(apart), high);
            }
            Some(lanes) => {
                _mm256_maskstore_pd(to, split_mask::<false>(0, lanes), low);
                _mm256_maskstore_pd(to.wrapping_add(apart), split_mask::<false>(1, lanes), high);
            }
        }
    }
}

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx2")]
    pub(in crate::simd::fda) fn pack_a_avx2(&self, codes: &[u32], shift: i32, size: [usize; 2], to: &mut Packed) {
        let ([rows, k], l) = (size, self.block);
        let (steps, groups) = (k / l, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        to.top = top_exponent(self, &self.unit.a, codes) + shift;
        let values = to.values.room(groups * MR * k).as_mut_ptr();
        to.exponents.room::<u32>(groups * MR * k);
        to.signs.room::<u32>(groups * MR * steps);
        let decoder = Decoder::new(&self.unit.a, self.scales().0, self, false, to.top);
        let (mut ordered, zeros) = (Vec::new(), vec![0; k]);
        let in_order = self.is_in_order();
        for row in 0..rows.next_multiple_of(MR) {
            let mut codes = codes.get(row * k..).and_then(|c| c.get(..k)).unwrap_or(&zeros);
            if !in_order {
                self.gather(codes, &mut ordered);
                codes = &ordered;
            }
            for (s, codes) in codes.chunks_exact(l).enumerate() {
                self.pack_fda(&decoder, values, [row, s], codes, to);
            }
        }
    }

    /// FDA `s` of a row.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pack_fda(&self, decoder: &Decoder, values: *mut f64, [row, s]: [usize; 2], codes: &[u32], to: &mut Packed) {
        let (l, place) = (codes.len(), to.at_a(row / MR, s));
        let line = place * MR + row % MR;
        let mut shift = None;
        if !to.shifts.is_empty() {
            shift = Some(_mm256_set1_epi32(to.shifts.get(row * to.steps + s).copied().unwrap_or(0)));
        }
        let (mut signs, mut special, mut tiny) = (0, 0, 0);
        let exponents = to.exponents.view_mut::<i32>()[line * l..][..l].as_mut_ptr();
        for from in (0..l).step_by(N) {
            let part = if from + N > l { Some(first(l - from)) } else { None };
            // SAFETY: the lanes of the mask lie in the FDA.
            let raw = unsafe { load(codes.as_ptr().add(from), part) };
            let it = decoder.items_avx2::<false>(raw, shift);
            let replicated = _mm256_mullo_epi32(it.exponents, word(0x0101_0101));
            // SAFETY: the panels have room for the FDA.
            unsafe {
                store(values.add(line * l + from), 4, part, it.values);
                match part {
                    None => _mm256_storeu_si256(exponents.add(from).cast(), replicated),
                    Some(part) => _mm256_maskstore_epi32(exponents.add(from), part, replicated),
                }
            }
            signs |= lanes(it.negative) << from;
            (special, tiny) = (special | lanes(it.special), tiny | lanes(it.tiny));
        }
        to.signs.view_mut::<u32>()[line] = signs;
        // Steps are wide ones, whose sums are 64 bits: there is no risk.
        let flags = (if special != 0 { SPECIAL } else { 0 }) | if tiny != 0 { TINY } else { 0 };
        to.flags[line] = flags;
        to.any[place] |= flags;
    }

    /// Packs columns of B, `codes[p * columns + column]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx2")]
    pub(in crate::simd::fda) fn pack_b_avx2(&self, codes: &[u32], shift: i32, size: [usize; 2], to: &mut Packed) {
        let [columns, k] = size;
        let (steps, groups) = (k / self.block, columns.div_ceil(NR));
        to.begin(steps, groups, NR, 4);
        to.top = top_exponent(self, &self.unit.b, codes) + shift;
        let values = to.values.room(groups * NR * k).as_mut_ptr();
        to.exponents.room::<u8>(groups * NR * k);
        to.signs.room::<u32>(groups * NR * steps);
        let decoder = Decoder::new(&self.unit.b, self.scales().1, self, true, to.top);
        for s in 0..steps {
            for g in 0..groups {
                let at = to.at_b(g, s) * NR;
                to.exponents.view_mut::<u8>()[at * self.block..][..NR * self.block].fill(0);
                to.signs.view_mut::<u32>()[at..at + NR].fill(0);
                for part in 0..NR / N {
                    self.pack_columns(&decoder, values, [g, s, part], codes, columns, to);
                }
            }
        }
    }

    /// FDA `s` of 8 columns, the eighth `part` of 64: 16 t + 8 h and on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pack_columns(
        &self,
        decoder: &Decoder,
        values: *mut f64,
        [g, s, part]: [usize; 3],
        codes: &[u32],
        columns: usize,
        to: &mut Packed,
    ) {
        let (l, place, column, [t, h]) = (self.block, to.at_b(g, s), g * NR + part * N, [part / 2, part % 2]);
        let n = N.min(columns.saturating_sub(column));
        let there = if n < N { Some(first(n)) } else { None };
        let shift = self.column_shifts(column, s, to);
        let byte = _mm256_set1_epi32(8 * t as i32);
        let none = _mm256_setzero_si256();
        let (mut signs, mut special, mut tiny) = (none, none, none);
        let exponents = to.exponents.view_mut::<u8>()[place * NR * l..][..NR * l].as_mut_ptr();
        for (i, p) in self.positions(s).enumerate() {
            let from = &codes[p * columns..][..columns];
            // SAFETY: the lanes of the mask lie in the row.
            let raw = unsafe { load(from.as_ptr().wrapping_add(column), there) };
            let it = decoder.items_avx2::<true>(raw, shift);
            let at = ((place * 4 + t) * l + i) * 16 + 4 * h;
            // SAFETY: the panels have room for the FDA. Byte 4 j + t of vector h is column 16 t + 8 h + j.
            unsafe {
                store(values.add(at), 8, None, it.values);
                add_bits(exponents.add(i * NR + 32 * h), _mm256_sllv_epi32(it.exponents, byte));
            }
            signs = _mm256_or_si256(signs, _mm256_and_si256(it.negative, word(1 << i)));
            special = _mm256_or_si256(special, it.special);
            tiny = _mm256_or_si256(tiny, it.tiny);
        }
        let planes = to.signs.view_mut::<u8>()[place * NR * 4..][..NR * 4].as_mut_ptr();
        for plane in 0..4 {
            let bits = _mm256_and_si256(_mm256_srlv_epi32(signs, word(8 * plane)), word(0xFF));
            // SAFETY: 4 planes of NR bytes a step.
            unsafe { add_bits(planes.add(plane as usize * NR + 32 * h), _mm256_sllv_epi32(bits, byte)) }
        }
        let (special, tiny) = (lanes(special), lanes(tiny));
        if special | tiny != 0 {
            let flag = |mask: u32, j: usize, flag: u8| if mask >> j & 1 == 1 { flag } else { 0 };
            for j in 0..N {
                let flags = flag(special, j, SPECIAL) | flag(tiny, j, TINY);
                to.flags[place * NR + part * N + j] = flags;
                to.any[place * 4 + t] |= flags;
            }
        }
    }

    /// Block scales of 8 columns at FDA `s`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn column_shifts(&self, column: usize, s: usize, to: &Packed) -> Option<__m256i> {
        if to.shifts.is_empty() {
            return None;
        }
        let mut lanes = [0; N];
        for (j, lane) in lanes.iter_mut().enumerate() {
            *lane = to.shifts.get((column + j) * to.steps + s).copied().unwrap_or(0);
        }
        // SAFETY: 8 integers.
        Some(unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) })
    }
}

/// ORs 32 bytes.
///
/// # Safety
/// They are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_bits(to: *mut u8, bits: __m256i) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_storeu_si256(to.cast(), _mm256_or_si256(_mm256_loadu_si256(to.cast()), bits)) }
}
