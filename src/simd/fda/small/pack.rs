//! Panels of words: values, exponents and signs.

#![allow(clippy::needless_range_loop, reason = "vectors and positions index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::turn::{lanes, put};
use super::value::Value;
use super::words::{OR_AND, Seen};
use super::{MR, Run, SIDE, SLAB, SLABS, load, rows, store, window};
use crate::gemm::small::{COLUMNS, ROWS, TILES};
use core::arch::x86_64::*;

impl Run<'_, '_> {
    /// Fills the panels for steps of `L` products, A's values where `from` says; A's words and B's may be `usual`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack<V: Value, const L: usize>(&mut self, tops: [i32; 2], usual: [bool; 2], from: u8) {
        let [a, b] = tops.map(window);
        // What `all` never asks for need not be compiled: f32 values are always in the panel, f64 ones only if unusual.
        for slab in 0..self.tiles.k.div_ceil(SLAB).min(SLABS) {
            match from {
                rows::WORDS if !V::NARROW => self.pack_rows::<V, L, false, { rows::WORDS }>(slab, a),
                rows::HIGHEST if !V::NARROW => self.pack_rows::<V, L, false, { rows::HIGHEST }>(slab, a),
                _ if V::NARROW && usual[0] => self.pack_rows::<V, L, false, { rows::PANEL }>(slab, a),
                _ => self.pack_rows::<V, L, true, { rows::PANEL }>(slab, a),
            }
            if usual[1] {
                self.pack_columns::<V, L, false>(slab, b);
            } else {
                self.pack_columns::<V, L, true>(slab, b);
            }
        }
    }

    /// A's words as the micro-kernel's B: values for where they are `FROM`, exponents of four tiles in the bytes of a
    /// lane, signs. With `ALL`, words may be unusual.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_rows<V: Value, const L: usize, const ALL: bool, const FROM: u8>(&mut self, slab: usize, low: i16) {
        let (decoder, tiles) = (&self.decoders[0], self.tiles.count);
        let fields = decoder.fields.lanes();
        let there = self.tiles.k - slab * SLAB;
        let words = &mut self.to.read.rows.as_chunks_mut::<SLAB>().0[slab];
        let values = self.to.b_values.view_mut::<V>().as_chunks_mut::<ROWS>().0;
        let values = &mut values[slab * SLAB / L * TILES * L..];
        let exponents = &mut self.to.b_exponents.view_mut::<u32>()[slab * SLAB * ROWS..][..SLAB * ROWS];
        let mut negative = [_mm512_setzero_si512(); 2];
        for n in 0..SLAB {
            // In the order of the bits of B's signs.
            let k = n % SIDE * SIDE + n / SIDE;
            let x = [load(&words[k][0]), load(&words[k][1])];
            negative = [with_signs(negative[0], x[0]), with_signs(negative[1], x[1])];
            if k >= there {
                continue;
            }
            let mut seen = Seen::default();
            let bytes = decoder.exponents::<ALL>(x, low, &mut seen);
            self.far |= seen.far;
            // From two and two lanes to those that alternate.
            put(&mut exponents[k * ROWS..], _mm512_shuffle_epi32::<0b11_01_10_00>(bytes));
            let position = slab * SLAB % L + k;
            let at = position / L * TILES * L + position % L;
            match FROM {
                rows::WORDS => (),
                rows::HIGHEST => {
                    let [even, odd] = decoder.highest(x).unwrap_or(x);
                    store(&mut words[k][0], even);
                    store(&mut words[k][1], odd);
                }
                _ if seen.small => decoder.put_small::<V, true>(x, tiles, &mut values[at..], L),
                _ => decoder.put::<V, true>(&fields, x, tiles, &mut values[at..], L),
            }
        }
        let signs = self.to.b_signs.view_mut::<u32>().as_chunks_mut().0;
        for t in 0..tiles {
            put_signs::<L, ROWS>(signs, slab, t, lanes(negative, t));
        }
    }

    /// B's words as the micro-kernel's A: values and signs tile by tile, exponents of four tiles together.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_columns<V: Value, const L: usize, const ALL: bool>(&mut self, slab: usize, low: i16) {
        let (decoder, tiles) = (&self.decoders[1], self.tiles.count);
        let fields = decoder.fields.lanes();
        let there = self.tiles.k - slab * SLAB;
        let words = &self.to.read.columns.as_chunks::<{ SLAB / SIDE }>().0[slab];
        let values = self.to.a_values.view_mut::<V>().as_chunks_mut::<16>().0;
        let values = &mut values[slab * SLAB / L * TILES * L * MR / 16..];
        let exponents = &mut self.to.a_exponents.view_mut::<u32>()[slab * SLAB * MR..][..SLAB * MR];
        let mut negative = [_mm512_setzero_si512(); COLUMNS / 2];
        for (g, words) in words.iter().enumerate() {
            let position = slab * SLAB % L + g * SIDE;
            let values = &mut values[(position / L * TILES * L + position % L) * MR / 16..];
            for h in [0, 1] {
                let x = [load(&words[2 * h]), load(&words[2 * h + 1])];
                negative[2 * h] = with_signs(negative[2 * h], x[0]);
                negative[2 * h + 1] = with_signs(negative[2 * h + 1], x[1]);
                if g * SIDE >= there {
                    continue;
                }
                let mut seen = Seen::default();
                let bytes = decoder.exponents::<ALL>(x, low, &mut seen);
                self.far |= seen.far;
                put(&mut exponents[g * SIDE * MR + h * 16..], bytes);
                let to = &mut values[h..];
                if seen.small {
                    decoder.put_small::<V, false>(x, tiles, to, L * MR / 16);
                } else {
                    decoder.put::<V, false>(&fields, x, tiles, to, L * MR / 16);
                }
            }
        }
        // The four signs of each 128 bits, to their place among 16; then all of a column together.
        let places = _mm512_setr_epi64(
            0x000C_000C_000C_000C,
            0x000C_000C_000C_000C,
            0x0008_0008_0008_0008,
            0x0008_0008_0008_0008,
            0x0004_0004_0004_0004,
            0x0004_0004_0004_0004,
            0,
            0,
        );
        let mut two = [_mm512_setzero_si512(); 2];
        for (two, negative) in two.iter_mut().zip(negative.as_chunks::<2>().0) {
            let [x, y] = negative.map(|x| _mm512_srlv_epi16(x, places));
            *two = _mm512_or_si512(_mm512_shuffle_i32x4::<0x44>(x, y), _mm512_shuffle_i32x4::<0xEE>(x, y));
        }
        let [x, y] = two;
        let signs_of = _mm512_or_si512(_mm512_shuffle_i32x4::<0x88>(x, y), _mm512_shuffle_i32x4::<0xDD>(x, y));
        let signs = self.to.a_signs.view_mut::<u32>().as_chunks_mut().0;
        for t in 0..tiles {
            let words = _mm512_srlv_epi64(signs_of, _mm512_set1_epi64(16 * t as i64));
            let words = _mm512_cvtepi64_epi32(_mm512_and_si512(words, _mm512_set1_epi64(0xFFFF)));
            let mut lanes = [0; MR];
            // SAFETY: 8 words.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), words) }
            put_signs::<L, MR>(signs, slab, t, lanes);
        }
    }
}

/// Signs of words join those of the positions before, which move down.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn with_signs(before: __m512i, words: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<OR_AND>(_mm512_srli_epi16::<1>(before), words, _mm512_set1_epi16(i16::MIN))
}

/// Signs of a slab's 16 products to the steps of `L` that they belong to, of which `signs` has those of one tile after
/// another. Bit `4 i + g` is that of position `4 g + i`.
#[inline(always)]
fn put_signs<const L: usize, const N: usize>(signs: &mut [[u32; N]], slab: usize, t: usize, words: [u32; N]) {
    let to = &mut signs[slab * SLAB / L * TILES + t..];
    match L {
        8 => {
            to[0] = words.map(|x| x & 0x3333);
            to[TILES] = words.map(|x| x & 0xCCCC);
        }
        16 => to[0] = words,
        _ if slab.is_multiple_of(2) => to[0] = words,
        _ => to[0].iter_mut().zip(words).for_each(|(to, x)| *to |= x << 16),
    }
}
