//! Columns of B, for AVX-512.

use super::super::fixed::{Numbers, Room};
use super::super::{Fda, NR, Packed, SPECIAL, TINY};
use super::quick::Quick;
use super::{Decoder, Values, first};
use crate::simd::ops::array_of;
use core::arch::x86_64::*;

/// B's panel on its way: `[column group][step][vector of 16 columns][product][column]`.
pub(super) struct Columns<'a> {
    pub(super) fda: &'a Fda,
    pub(super) decoder: Decoder,
    pub(super) quick: Option<Quick>,
    pub(super) values: Values,
    /// Codes position after position.
    pub(super) codes: &'a [u32],
    pub(super) columns: usize,
    /// Where integers go, for kernels that have tables of them.
    pub(super) integers: Option<Room>,
}

impl Columns<'_> {
    /// FDA `s` of 64 columns: values in f64 with the even columns first, or in f32, and integers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn step(&self, g: usize, s: usize, numbers: &mut Numbers, to: &mut Packed) {
        let done = match &self.quick {
            Some(quick) => self.quickly(quick, g, s, numbers, to),
            None => false,
        };
        if !done {
            if self.fda.in_f32() { self.slowly::<false>(g, s, to) } else { self.slowly::<true>(g, s, to) }
        }
        if let Some(room) = self.integers.filter(|_| !to.integers.are_few()) {
            let numbers = self.quick.as_ref().filter(|_| done).map(|quick| (&*numbers, quick.exponent()));
            // SAFETY: the panel has room for this FDA of these columns.
            unsafe { self.fda.columns_fixed(room, self.codes, numbers, self.columns, [g, s], to) }
        }
    }

    /// The columns of group `g`.
    #[inline]
    fn width(&self, g: usize) -> usize {
        NR.min(self.columns - g * NR)
    }

    /// 16 codes of the row at `p`, of which some lanes are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn load(&self, p: usize, g: usize, t: usize) -> __m512i {
        let row = &self.codes[p * self.columns + g * NR..][..self.width(g)];
        let lanes = first(row.len().saturating_sub(t * 16));
        // SAFETY: the lanes of the mask lie in the row.
        unsafe { _mm512_maskz_loadu_epi32(lanes, row.as_ptr().wrapping_add(t * 16).cast()) }
    }

    /// `step` where all is ordinary; `false`, and anything in the panel, where it is not.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn quickly(&self, quick: &Quick, g: usize, s: usize, numbers: &mut Numbers, to: &mut Packed) -> bool {
        let (l, place, vectors) = (self.fda.block, to.at_b(g, s), self.width(g).div_ceil(16));
        let scales = if to.shifts.is_empty() {
            None
        } else {
            let shifts = array_of(|t| self.shifts(g, t, s, to).unwrap_or(_mm512_setzero_si512()));
            let Some(scales) = quick.scales(&shifts) else { return false };
            Some(scales)
        };
        let scales = scales.as_ref();
        let exponents = to.exponents.view_mut::<u8>()[place * NR * l..][..NR * l].as_mut_ptr();
        let (mut signs, mut tiny, mut odd) = ([_mm512_setzero_si512(); NR / 16], 0, 0);
        for (i, p) in self.fda.positions(s).enumerate() {
            let (mut fields, bit) = (_mm512_setzero_si512(), _mm512_set1_epi32(1 << i));
            for t in 0..vectors {
                let x = quick.numbers(self.load(p, g, t));
                let (joined, [negative, not_ordinary]) = quick.look(x, t, fields);
                (fields, odd) = (joined, odd | not_ordinary);
                signs[t] = _mm512_mask_or_epi32(signs[t], negative, signs[t], bit);
                // SAFETY: the panel has room for this FDA of these columns.
                unsafe { quick.store(x, scales.map(|s| &s.factors[t]), self.values, ((place * 4 + t) * l + i) * 16) }
                if self.integers.is_some() {
                    numbers[i][t] = x;
                }
            }
            let (bytes, below) = quick.exponents(fields, scales);
            // SAFETY: NR bytes of the FDA's.
            unsafe { _mm512_storeu_epi32(exponents.add(i * NR).cast(), bytes) }
            tiny |= below;
        }
        if odd != 0 {
            return false;
        }
        let tiny = array_of(|t| (0..16).fold(0, |m, j| m | ((tiny >> (4 * j + t) & 1) as __mmask16) << j));
        self.end((signs, [0; 4], tiny), place, vectors, to);
        true
    }

    /// `step` in the general way: values in f64 with the even columns first, where `PAIRS`, else in f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn slowly<const PAIRS: bool>(&self, g: usize, s: usize, to: &mut Packed) {
        // What becomes of vectors without a column goes nowhere.
        let (l, place, vectors) = (self.fda.block, to.at_b(g, s), self.width(g).div_ceil(16));
        let shifts: [_; 4] = array_of(|t| self.shifts(g, t, s, to));
        let exponents = to.exponents.view_mut::<u8>()[place * NR * l..][..NR * l].as_mut_ptr();
        let (mut signs, mut special, mut tiny) = ([_mm512_setzero_si512(); 4], [0; 4], [0; 4]);
        for (i, p) in self.fda.positions(s).enumerate() {
            let mut bytes = _mm512_setzero_si512();
            for t in 0..vectors {
                let it = self.decoder.items::<PAIRS>(self.load(p, g, t), shifts[t]);
                // SAFETY: the panel has room for this FDA of these columns.
                unsafe { self.values.store((((place * 4 + t) * l + i) * 16) as isize, !0, it.values) }
                let negative = _mm512_maskz_set1_epi32(it.negative, 1 << i);
                signs[t] = _mm512_or_si512(signs[t], negative);
                (special[t], tiny[t]) = (special[t] | it.special, tiny[t] | it.tiny);
                // Byte 4 j + t is column 16 t + j.
                let shifted = _mm512_sllv_epi32(it.exponents, _mm512_set1_epi32(8 * t as i32));
                bytes = _mm512_or_si512(bytes, shifted);
            }
            // SAFETY: NR bytes of the FDA's.
            unsafe { _mm512_storeu_epi32(exponents.add(i * NR).cast(), bytes) }
        }
        self.end((signs, special, tiny), place, vectors, to);
    }

    /// Signs and flags.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn end(
        &self,
        (signs, special, tiny): ([__m512i; 4], [__mmask16; 4], [__mmask16; 4]),
        place: usize,
        vectors: usize,
        to: &mut Packed,
    ) {
        for t in 0..vectors {
            let (at, low) = (place * NR + t * 16, to.signs.view_mut::<i32>());
            // SAFETY: 16 words of the step's.
            unsafe { _mm512_storeu_epi32(low[at..at + 16].as_mut_ptr(), signs[t]) }
            let flag = |j: usize, mask: __mmask16, flag: u8| if mask >> j & 1 == 1 { flag } else { 0 };
            if special[t] | tiny[t] != 0 {
                for (j, to) in to.flags[at..at + 16].iter_mut().enumerate() {
                    *to = flag(j, special[t], SPECIAL) | flag(j, tiny[t], TINY);
                }
                let any = to.flags[at..at + 16].iter().fold(0, |x, y| x | y);
                to.any[place * 4 + t] = any;
            }
        }
    }

    /// Block scales of 16 columns at FDA `s`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn shifts(&self, g: usize, t: usize, s: usize, to: &Packed) -> Option<__m512i> {
        if to.shifts.is_empty() {
            return None;
        }
        let lanes: [i32; 16] = core::array::from_fn(|j| {
            let column = g * NR + t * 16 + j;
            if column < self.columns { to.shifts[column * to.steps + s] } else { 0 }
        });
        // SAFETY: 16 integers.
        Some(unsafe { _mm512_loadu_epi32(lanes.as_ptr()) })
    }
}
