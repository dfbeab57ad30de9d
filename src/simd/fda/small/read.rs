//! Codes of tiles, four tiles' side by side in lanes of 64 bits.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::turn::{four_rows, side_by_side, two_rows};
use super::words::Bounds;
use super::{Run, SIDE, SLAB, store};
use crate::gemm::small::{COLUMNS, ROWS, TILES, TileCodes};
use core::arch::x86_64::*;

impl Run<'_, '_> {
    /// A slab of A: of each position 8 rows in a vector. Two rows are read at once, or four halves of rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn read_rows(&mut self, slab: usize, bounds: &mut Bounds) {
        let (decoder, ld) = (&self.decoders[0], self.tiles.k);
        let to = &mut self.to.read.rows.as_chunks_mut::<SLAB>().0[slab];
        let tiles = self.tiles.a.map(|a| halves(a)[..ROWS * ld][slab * SLAB..].as_ptr());
        if ld < (slab + 1) * SLAB {
            for half in 0..2 {
                // Rows 0, 1, 4 and 5 of the half, and the others.
                let [x, y] = [0, 2].map(|first| {
                    let mut words = [_mm512_setzero_si512(); TILES];
                    for (words, a) in words.iter_mut().zip(tiles) {
                        // SAFETY: 16 rows of `ld` words, of which the slab has 8.
                        *words = unsafe { four_rows(a.add((8 * half + first) * ld), ld) };
                    }
                    side_by_side(words)
                });
                for i in 0..4 {
                    let words = [_mm512_unpacklo_epi64(x[i], y[i]), _mm512_unpackhi_epi64(x[i], y[i])];
                    for (to, words) in to[2 * i..].iter_mut().zip(words) {
                        store(&mut to[half], decoder.take(words, bounds));
                    }
                }
            }
            return;
        }
        for half in 0..2 {
            let mut pairs = [[_mm512_setzero_si512(); 4]; 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let mut words = [_mm512_setzero_si512(); TILES];
                for (words, a) in words.iter_mut().zip(tiles) {
                    // SAFETY: 16 rows of `ld` words, of which the slab has 16.
                    *words = unsafe { two_rows(a.add((8 * half + 2 * n) * ld), ld) };
                }
                *pair = side_by_side(words);
            }
            let [x, y, z, w] = pairs;
            for i in 0..4 {
                // Positions 2 i and 8 + 2 i of the even words, and those that follow.
                let even = [_mm512_unpacklo_epi64(x[i], y[i]), _mm512_unpacklo_epi64(z[i], w[i])];
                let odd = [_mm512_unpackhi_epi64(x[i], y[i]), _mm512_unpackhi_epi64(z[i], w[i])];
                for (k, [x, y]) in [(2 * i, even), (2 * i + 1, odd)] {
                    store(&mut to[k][half], decoder.take(_mm512_shuffle_i32x4::<0x88>(x, y), bounds));
                    store(&mut to[k + 8][half], decoder.take(_mm512_shuffle_i32x4::<0xDD>(x, y), bounds));
                }
            }
        }
    }

    /// A slab of B: of each four positions two columns in a vector.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn read_columns(&mut self, slab: usize, bounds: &mut Bounds) {
        let decoder = &self.decoders[1];
        let whole = self.tiles.k >= (slab + 1) * SLAB;
        let to = &mut self.to.read.columns.as_chunks_mut::<{ SLAB / SIDE }>().0[slab];
        let groups = if whole { SLAB } else { SLAB / 2 } / SIDE;
        for (g, to) in to[..groups].iter_mut().enumerate() {
            let first = slab * SLAB + g * SIDE;
            let mut words = [_mm512_setzero_si512(); TILES];
            for (words, b) in words.iter_mut().zip(self.tiles.b) {
                let from = &halves(b)[first * COLUMNS..][..SIDE * COLUMNS];
                // SAFETY: 32 words.
                *words = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
            }
            for (to, words) in to.iter_mut().zip(side_by_side(words)) {
                store(to, decoder.take(words, bounds));
            }
        }
    }
}

/// Codes of a format that `Decoder` reads, none of which has more than 16 bits.
fn halves(codes: TileCodes<'_>) -> &[u16] {
    let TileCodes::Halves(codes) = codes else { unreachable!("a format of at most 16 bits") };
    codes
}
