//! Rows of A, for AVX-512.

use super::super::{Fda, MR, Packed, RISK};
use super::{Decoder, Items, Values, first, first_bytes, lanes_of, narrowed};
use core::arch::x86_64::*;
use core::ops::Range;

/// A's panel on its way: `[row group][step][row][product]`.
pub(super) struct Rows<'a> {
    pub(super) fda: &'a Fda,
    pub(super) decoder: Decoder,
    pub(super) values: Values,
    /// Sums of a step's significands up to this are no risk,
    pub(super) limit: u32,
    /// nor are those in which half of the significands are no larger than this.
    pub(super) half_small: i32,
}

impl Rows<'_> {
    /// A row's codes in the FDAs' order.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn row(&self, row: usize, codes: &[u32], to: &mut Packed) {
        let (l, k) = (self.fda.block, to.steps * self.fda.block);
        let done = match l {
            4 => self.whole_apart::<4>(row, codes, to),
            8 => self.whole_apart::<8>(row, codes, to),
            16 => self.whole::<16>(row, codes, to),
            32 => self.whole::<32>(row, codes, to),
            _ => 0,
        };
        self.parts(row, done..k, codes, to);
    }

    /// `whole` as a function of its own: many short parts want all registers.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn whole_apart<const L: usize>(&self, row: usize, codes: &[u32], to: &mut Packed) -> usize {
        self.whole::<L>(row, codes, to)
    }

    /// The same for FDAs of L products, which 16 lanes hold whole, or half of one, as far as there are 16 codes; how
    /// many codes that are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn whole<const L: usize>(&self, row: usize, codes: &[u32], to: &mut Packed) -> usize {
        let (part, r) = (L.min(16), row % MR);
        let (whole, rest) = codes.as_chunks::<16>();
        for (i, codes) in whole.iter().enumerate() {
            // SAFETY: 16 codes.
            let raw = unsafe { _mm512_loadu_epi32(codes.as_ptr().cast()) };
            let shifts = if to.shifts.is_empty() { None } else { self.shifts(row, i * 16 / L, to) };
            let it = self.decoder.items::<false>(raw, shifts);
            let exponents: [i32; 16] = lanes_of([_mm512_shuffle_epi8(it.exponents, first_bytes())]);
            for done in (0..16).step_by(part) {
                let (place, offset) = (to.at_a(row / MR, (i * 16 + done) / L), (i * 16 + done) % L);
                let at = (place * MR + r) * L + offset;
                // SAFETY: the panel has room for this FDA of this row.
                unsafe {
                    match self.values {
                        Values::Wide(to) => {
                            let values: [f64; 16] = lanes_of(it.values.map(|v| _mm512_castpd_si512(v)));
                            to.add(at).copy_from_nonoverlapping(values[done..done + part].as_ptr(), part);
                        }
                        Values::Narrow(to) => {
                            let values: [f32; 16] = lanes_of([_mm512_castps_si512(narrowed(it.values))]);
                            to.add(at).copy_from_nonoverlapping(values[done..done + part].as_ptr(), part);
                        }
                    }
                }
                to.exponents.view_mut::<i32>()[at..at + part].copy_from_slice(&exponents[done..done + part]);
                self.note(&it, first(part) << done, [place * MR + r, done, offset], to);
            }
        }
        codes.len() - rest.len()
    }

    /// The same for codes `range`, which begin with an FDA: in 16 lanes whole FDAs, or parts of a long one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn parts(&self, row: usize, range: Range<usize>, codes: &[u32], to: &mut Packed) {
        let l = self.fda.block;
        let span = if 16usize.is_multiple_of(l) { 16 } else { l };
        for base in range.clone().step_by(span) {
            let end = (base + span).min(range.end);
            let (mut s, mut offset) = (base / l, 0);
            for from in (base..end).step_by(16) {
                let lanes = first(end - from);
                // SAFETY: the lanes of the mask lie in the row.
                let raw = unsafe { _mm512_maskz_loadu_epi32(lanes, codes.as_ptr().wrapping_add(from).cast()) };
                let mut it = self.decoder.items::<false>(raw, self.shifts(row, s, to));
                it.exponents = _mm512_shuffle_epi8(it.exponents, first_bytes());
                let mut done = 0;
                while done < 16.min(end - from) {
                    let n = (l - offset).min(16 - done);
                    self.put(&it, [s, row], [done, n, offset], to);
                    (offset, done) = (offset + n, done + n);
                    if offset == l {
                        (s, offset) = (s + 1, 0);
                    }
                }
            }
        }
    }

    /// Block scales of 16 lanes from FDA `s` on: blocks of scales are whole FDAs of 16 lanes or more, or all lanes'
    /// own.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn shifts(&self, row: usize, s: usize, to: &Packed) -> Option<__m512i> {
        if to.shifts.is_empty() {
            return None;
        }
        let (l, line) = (self.fda.block, to.shifts.get(row * to.steps..).unwrap_or_default());
        let lanes: [i32; 16] = core::array::from_fn(|i| {
            let step = if l < 16 { s + i / l } else { s };
            if step < to.steps { line.get(step).copied().unwrap_or(0) } else { 0 }
        });
        // SAFETY: 16 integers.
        Some(unsafe { _mm512_loadu_epi32(lanes.as_ptr()) })
    }

    /// Lanes `done..done + n` are products `offset..` of FDA `s`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn put(&self, it: &Items, [s, row]: [usize; 2], [done, n, offset]: [usize; 3], to: &mut Packed) {
        let (l, place, r) = (self.fda.block, to.at_a(row / MR, s), row % MR);
        let lanes = first(n) << done;
        let at = ((place * MR + r) * l + offset) as isize - done as isize;
        // SAFETY: the panels have room for this FDA of this row.
        unsafe {
            self.values.store(at, lanes, it.values);
            let exponents = to.exponents.view_mut::<i32>().as_mut_ptr();
            _mm512_mask_storeu_epi32(exponents.wrapping_offset(at), lanes, it.exponents);
        }
        self.note(it, lanes, [place * MR + r, done, offset], to);
    }

    /// Signs and flags of products `offset..` of FDA `at`, the lanes from `done` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn note(&self, it: &Items, lanes: __mmask16, [at, done, offset]: [usize; 3], to: &mut Packed) {
        let l = self.fda.block;
        to.signs.view_mut::<u32>()[at] |= u32::from(it.negative & lanes) >> done << offset;
        let mut flags = it.flags(lanes);
        if l <= 16 && l as u32 * ((2 << self.decoder.frac_bits) - 1) > self.limit {
            let half_small = _mm512_set1_epi32(self.half_small);
            let small = _mm512_mask_cmple_epi32_mask(lanes, it.significands, half_small).count_ones();
            if 2 * small < l as u32 && _mm512_mask_reduce_add_epi32(lanes, it.significands) as u32 > self.limit {
                flags |= RISK;
            }
        }
        if flags != 0 {
            to.flags[at] |= flags;
            to.any[at / MR] |= flags;
        }
    }
}
