//! Rows of A, for AVX-512.

use super::super::{Fda, GROUPS, MR, Packed, RISK};
use super::quick::Quick;
use super::{Decoder, Items, NAN_SHIFT, Values, first, first_bytes, lanes_of, narrowed};
use core::arch::x86_64::*;
use core::ops::Range;

/// A's panel on its way: `[row group][step][row][product]`.
pub(super) struct Rows<'a> {
    pub(super) fda: &'a Fda,
    pub(super) decoder: Decoder,
    pub(super) quick: Option<Quick>,
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
        if let Some(quick) = self.quick_for(to) {
            let mut done = 0;
            while done < k {
                done = match l {
                    4 => self.quickly::<4>(quick, row, done, codes, to),
                    8 => self.quickly::<8>(quick, row, done, codes, to),
                    16 => self.quickly::<16>(quick, row, done, codes, to),
                    _ => self.quickly::<32>(quick, row, done, codes, to),
                };
                let end = k.min(done + l.max(16));
                self.parts(row, done..end, codes, to);
                done = end;
            }
            return;
        }
        let done = match l {
            4 => self.whole_apart::<4>(row, codes, to),
            8 => self.whole_apart::<8>(row, codes, to),
            16 => self.whole::<16>(row, codes, to),
            32 => self.whole::<32>(row, codes, to),
            _ => 0,
        };
        self.parts(row, done..k, codes, to);
    }

    /// The quick way, where this panel can go it: where vectors hold whole FDAs with one block scale, or are parts of
    /// one, and those whose significands might be a risk are told by how many are small.
    #[inline]
    fn quick_for(&self, to: &Packed) -> Option<&Quick> {
        let (l, risk) = (self.fda.block, self.fda.may_risk());
        let long = l == 16 || l == 32;
        let short = (l == 4 || l == 8) && to.shifts.is_empty() && !risk;
        let fits = short || (long && (!risk || self.half_small > 0));
        self.quick.as_ref().filter(|_| fits)
    }

    /// FDAs of L products from code `from` on, which 16 lanes hold whole, or half of one, as long as all is ordinary.
    /// Returns from which code on that is not so; what is there in the panels is to be written anew.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn quickly<const L: usize>(
        &self,
        quick: &Quick,
        row: usize,
        mut from: usize,
        codes: &[u32],
        to: &mut Packed,
    ) -> usize {
        let (first, apart) = (to.at_a(row / MR, 0) * MR + row % MR, GROUPS * MR);
        let lines = first + (to.steps - 1) * apart + 1;
        let exponents = to.exponents.view_mut::<u32>()[..lines * L].as_mut_ptr();
        let signs = &mut to.signs.view_mut::<u32>()[..lines];
        let shifts = to.shifts.get(row * to.steps..).unwrap_or_default();
        let risk = self.fda.may_risk();
        for codes in codes[from..].chunks_exact(L.max(16)) {
            let s = from / L;
            let line = first + s * apart;
            let shift = shifts.get(s).copied();
            if shift == Some(NAN_SHIFT) {
                return from;
            }
            let (mut odd, mut small) = (0, 0);
            for (half, codes) in codes.as_chunks::<16>().0.iter().enumerate() {
                // SAFETY: 16 codes.
                let x = quick.numbers(unsafe { _mm512_loadu_epi32(codes.as_ptr().cast()) });
                let (bytes, [negative, not_ordinary]) = quick.row(x, shift);
                odd |= not_ordinary;
                if risk {
                    small += quick.small(x, self.half_small, self.decoder.frac_bits).count_ones();
                }
                for part in 0..16 / L.min(16) {
                    let bits = u32::from(negative) >> (part * L) & first_bits(L);
                    let sign = &mut signs[line + part * apart];
                    *sign = if half == 0 { bits } else { *sign | bits << 16 };
                }
                let at = line * L + half * 16;
                // SAFETY: the panels have room for these FDAs of this row.
                unsafe {
                    quick.store_row::<L>(x, shift, self.values, at, apart * L);
                    put_words::<L>(_mm512_shuffle_epi8(bytes, first_bytes()), exponents.add(at), apart * L);
                }
            }
            if odd != 0 || (risk && 2 * small < L as u32) {
                return from;
            }
            from += L.max(16);
        }
        from
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

/// The lower bits that 16 lanes fill with FDAs of so many.
const fn first_bits(l: usize) -> u32 {
    if l < 16 { (1 << l) - 1 } else { 0xFFFF }
}

/// Stores 16 words to where they are together: L, or all, `apart` words from the next ones.
///
/// # Safety
/// There is room.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn put_words<const L: usize>(x: __m512i, to: *mut u32, apart: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match L {
            4 => {
                _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(x));
                _mm_storeu_si128(to.add(apart).cast(), _mm512_extracti32x4_epi32::<1>(x));
                _mm_storeu_si128(to.add(2 * apart).cast(), _mm512_extracti32x4_epi32::<2>(x));
                _mm_storeu_si128(to.add(3 * apart).cast(), _mm512_extracti32x4_epi32::<3>(x));
            }
            8 => {
                _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(x));
                _mm256_storeu_si256(to.add(apart).cast(), _mm512_extracti64x4_epi64::<1>(x));
            }
            _ => _mm512_storeu_si512(to.cast(), x),
        }
    }
}

/// The same of 16 f64 numbers.
///
/// # Safety
/// There is room.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn put_wide<const L: usize>([low, high]: [__m512d; 2], to: *mut f64, apart: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match L {
            4 => {
                _mm256_storeu_pd(to, _mm512_castpd512_pd256(low));
                _mm256_storeu_pd(to.add(apart), _mm512_extractf64x4_pd::<1>(low));
                _mm256_storeu_pd(to.add(2 * apart), _mm512_castpd512_pd256(high));
                _mm256_storeu_pd(to.add(3 * apart), _mm512_extractf64x4_pd::<1>(high));
            }
            _ => {
                _mm512_storeu_pd(to, low);
                _mm512_storeu_pd(to.add(if L == 8 { apart } else { 8 }), high);
            }
        }
    }
}
