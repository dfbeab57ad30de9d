//! Columns of B, for AVX-512.

use super::super::{Fda, NR, Packed, SPECIAL, TINY};
use super::{Decoder, Values, first};
use crate::simd::ops::array_of;
use core::arch::x86_64::*;

/// B's panel on its way: `[column group][step][vector of 16 columns][product][column]`.
pub(super) struct Columns<'a> {
    pub(super) fda: &'a Fda,
    pub(super) decoder: Decoder,
    pub(super) values: Values,
    pub(super) codes: &'a [u32],
    pub(super) columns: usize,
}

impl Columns<'_> {
    /// FDA `s` of 64 columns; values in f64 with the even columns first, where `PAIRS`, else in f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn step<const PAIRS: bool>(&self, g: usize, s: usize, to: &mut Packed) {
        let (l, place, n) = (self.fda.block, to.at_b(g, s), NR.min(self.columns - g * NR));
        // What becomes of vectors without a column goes nowhere.
        let vectors = n.div_ceil(16);
        let shifts: [_; 4] = array_of(|t| self.shifts(g, t, s, to));
        let exponents = to.exponents.view_mut::<u8>()[place * NR * l..][..NR * l].as_mut_ptr();
        let (mut signs, mut special, mut tiny) = ([_mm512_setzero_si512(); 4], [0; 4], [0; 4]);
        for (i, p) in self.fda.positions(s).enumerate() {
            let row = &self.codes[p * self.columns + g * NR..][..n];
            let mut bytes = _mm512_setzero_si512();
            for t in 0..vectors {
                let lanes = first(n.saturating_sub(t * 16));
                // SAFETY: the lanes of the mask lie in the row.
                let raw = unsafe { _mm512_maskz_loadu_epi32(lanes, row.as_ptr().wrapping_add(t * 16).cast()) };
                let it = self.decoder.items::<PAIRS>(raw, shifts[t]);
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
