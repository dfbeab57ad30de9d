//! Small products: tiles of 16 x 8, up to four side by side (AVX-512).
//!
//! The operands change roles: a tile's 16 rows of A are the lanes of a vector, its 8 columns of B the
//! rows of the micro-kernel, so that a tile is one vector and D comes out transposed. The search for
//! e_max takes four tiles at once, a byte of each lane for each. Codes are words of 16 bits, moved up
//! so that the sign is the highest bit; a lane of 32 bits holds those of two tiles, so that every
//! shift and comparison counts twice. Tiles in which anything is special, far or too large are left
//! to the ordinary kernel.

#![allow(clippy::needless_range_loop, reason = "pairs and positions index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each function says once why its loads and stores are sound")]

mod words;

use super::avx512::{Step, step_tiles};
use super::fixed::Lines;
use super::micro::is_ordinary;
use super::{Buffer, Fda, MR, NR, Set, out};
use crate::gemm::small::{COLUMNS, Group, ROWS, SLAB, SmallKernel, TILES};
use core::arch::x86_64::*;
use core::cell::RefCell;
use words::{Decoder, OR_AND, Seen, Value};

/// Exponents that a window spans.
const WINDOW: i32 = 32;

/// A vector's lanes.
type Lanes = [u32; 16];

/// The panels of a group, and its states: 8 rows of 64.
#[derive(Debug, Default)]
struct Panels {
    /// Words: a vector for each slab, pair of tiles, and position of A or column of B.
    rows: Buffer,
    columns: Buffer,
    /// Signs of columns, a bit for each position of a slab, in the words of four tiles.
    negative: Buffer,
    /// A square on its way to being transposed, and after.
    square: Buffer,
    turned: Buffer,
    a_values: Buffer,
    b_values: Buffer,
    a_exponents: Buffer,
    b_exponents: Buffer,
    a_signs: Buffer,
    b_signs: Buffer,
    states: Buffer,
}

thread_local! {
    static PANELS: RefCell<Box<Panels>> = RefCell::default();
}

/// Bits of the first pieces of tile `t`, bit `4 row + tile`.
const fn pieces(t: usize) -> u32 {
    0x1111_1111 << t
}

/// Tiles that have a piece in a mask.
fn tiles_of(redo: u32) -> u32 {
    (0..TILES).fold(0, |mask, t| mask | u32::from(redo & pieces(t) != 0) << t)
}

/// Where the words of a tile stand in a pair's: the tile's place among the pairs, and in its pair.
const fn pair_of(t: usize) -> (usize, usize) {
    (t % 2, t / 2)
}

/// Rows become columns.
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn transpose(from: &[Lanes; 16], to: &mut [Lanes; 16]) {
    let mut x = [_mm512_setzero_si512(); 16];
    let mut y = x;
    for i in 0..16 {
        x[i] = load(&from[i]);
    }
    for i in 0..8 {
        y[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    // x[4 i + j]: column j of each four, of rows 4 i to 4 i + 3.
    for i in 0..4 {
        for j in 0..2 {
            x[4 * i + 2 * j] = _mm512_unpacklo_epi64(y[4 * i + j], y[4 * i + 2 + j]);
            x[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(y[4 * i + j], y[4 * i + 2 + j]);
        }
    }
    for j in 0..4 {
        let even = _mm512_shuffle_i32x4::<0x88>(x[j], x[4 + j]);
        let more = _mm512_shuffle_i32x4::<0x88>(x[8 + j], x[12 + j]);
        store(&mut to[j], _mm512_shuffle_i32x4::<0x88>(even, more));
        store(&mut to[8 + j], _mm512_shuffle_i32x4::<0xDD>(even, more));
        let odd = _mm512_shuffle_i32x4::<0xDD>(x[j], x[4 + j]);
        let more = _mm512_shuffle_i32x4::<0xDD>(x[8 + j], x[12 + j]);
        store(&mut to[4 + j], _mm512_shuffle_i32x4::<0x88>(odd, more));
        store(&mut to[12 + j], _mm512_shuffle_i32x4::<0xDD>(odd, more));
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &Lanes) -> __m512i {
    // SAFETY: a vector's lanes.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut Lanes, x: __m512i) {
    // SAFETY: a vector's lanes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
}

/// A buffer as squares of 16 by 16.
fn squares(buffer: &mut Buffer) -> &mut [[Lanes; 16]] {
    buffer.view_mut::<u32>().as_chunks_mut().0.as_chunks_mut().0
}

/// One group on its way.
struct Run<'a> {
    fda: &'a Fda,
    group: &'a mut Group,
    to: &'a mut Panels,
    /// A's format and B's.
    decoders: [Decoder; 2],
    /// Pairs of tiles.
    pairs: usize,
    /// Numbers below an exponent window.
    far: bool,
    /// Tiles that are left to the ordinary kernel.
    hard: u32,
}

impl Fda {
    /// Whether tiles of this unit can be computed side by side.
    pub(super) fn takes_small(&self) -> bool {
        let unit = &self.unit;
        let plain = matches!(self.set, Set::Avx512(_)) && self.round_down.is_none() && !self.c_last && !self.via_f16;
        let read = Decoder::reads(&unit.a) && Decoder::reads(&unit.b) && unit.scale.is_none();
        plain && read && [8, 16, 32].contains(&self.block) && self.is_in_order() && self.frac_bits <= 25
    }
}

impl SmallKernel for Fda {
    fn run(&self, group: &mut Group) -> u32 {
        let enlarge = if self.narrow { 1 << 32 } else { 1 << 5 };
        let (a_scale, b_scale) = self.scales();
        PANELS.with_borrow_mut(|to| {
            let rows = Decoder::new(&self.unit.a, b_scale, enlarge, self.narrow);
            let columns = Decoder::new(&self.unit.b, a_scale, 0, self.narrow);
            let pairs = group.tiles.min(2);
            let mut run = Run { fda: self, group, to, decoders: [rows, columns], pairs, far: false, hard: 0 };
            // SAFETY: `takes_small` has seen the proof that the instructions are there.
            unsafe { run.all() }
            run.hard
        })
    }
}

impl Run<'_> {
    /// Packs, computes, and leaves D's codes in the group.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    fn all(&mut self) {
        let slabs = self.group.k.div_ceil(SLAB);
        self.to.rows.room::<u32>(slabs * 2 * SLAB * 16);
        self.to.columns.room::<u32>(slabs * 2 * COLUMNS * 16);
        self.to.negative.room::<u32>(slabs * 16);
        self.to.square.room::<u32>(16 * 16);
        self.to.turned.room::<u32>(16 * 16);
        let (mut rows, mut columns) = ([_mm512_setzero_si512(); 2], _mm512_setzero_si512());
        for slab in 0..slabs {
            self.read_rows(slab, &mut rows);
            self.read_columns(slab, &mut columns);
        }
        let tops = self.weigh(rows, columns);
        let biases = [self.fda.unit.a.bias, self.fda.unit.b.bias];
        let (q, fast) = self.fda.consts_of(tops[0] - biases[0] + tops[1] - biases[1], false);
        if !fast {
            self.hard = !0;
            return;
        }
        if self.fda.narrow {
            self.pack_rows::<f32>(tops[0]);
            self.pack_columns::<f32>(tops[1]);
        } else {
            self.pack_rows::<f64>(tops[0]);
            self.pack_columns::<f64>(tops[1]);
        }
        self.begin(q.lowest());
        let q = super::avx512::Consts { tiny: self.far, ..q };
        for s in 0..self.group.k >> self.fda.block.trailing_zeros() {
            let p = self.step(s);
            // SAFETY: the panels hold this step for all tiles, and states are 8 rows of 64.
            let redo = unsafe {
                match self.fda.out {
                    out::F32_RZ => step_tiles::<{ out::F32_RZ }>(&p, &q, self.group.tiles),
                    out::F32_RNE => step_tiles::<{ out::F32_RNE }>(&p, &q, self.group.tiles),
                    _ => step_tiles::<{ out::F16_RNE }>(&p, &q, self.group.tiles),
                }
            };
            self.hard |= tiles_of(redo);
        }
        self.end();
    }

    /// A tile's place in the group; the first's for tiles that are not there.
    const fn tile(&self, t: usize) -> usize {
        if t < self.group.tiles { t } else { 0 }
    }

    /// A slab of A: vector k has position k of the 16 rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn read_rows(&mut self, slab: usize, peaks: &mut [__m512i; 2]) {
        let ld = self.group.k.next_multiple_of(SLAB);
        for pair in 0..self.pairs {
            let [low, high] = [self.tile(pair), self.tile(pair + 2)];
            let [low, high] = [&self.group.a[low][slab * SLAB..], &self.group.a[high][slab * SLAB..]];
            let square = squares(&mut self.to.square);
            for (i, to) in square[0].iter_mut().enumerate() {
                // SAFETY: 16 words each.
                let [x, y] = unsafe {
                    [
                        _mm256_loadu_si256(low[i * ld..][..SLAB].as_ptr().cast()),
                        _mm256_loadu_si256(high[i * ld..][..SLAB].as_ptr().cast()),
                    ]
                };
                store(to, self.decoders[0].take(x, y, &mut peaks[pair]));
            }
            transpose(&square[0], &mut squares(&mut self.to.rows)[slab * 2 + pair]);
        }
    }

    /// A slab of B: vector j has column j, positions i and 8 + i in lanes 2 i and 2 i + 1, whose values go to
    /// different vectors. Pairs of tiles follow one another.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn read_columns(&mut self, slab: usize, peaks: &mut __m512i) {
        let tiles = [0, self.tile(1), self.tile(2), self.tile(3)];
        let (square, b) = (squares(&mut self.to.square), &self.group.b);
        let mut negative = _mm512_setzero_si512();
        for k in 0..SLAB {
            let at = (slab * SLAB + k) * COLUMNS;
            // SAFETY: 8 words each.
            let [x, y, z, w] = unsafe {
                [
                    _mm_loadu_si128(b[tiles[0]][at..][..COLUMNS].as_ptr().cast()),
                    _mm_loadu_si128(b[tiles[1]][at..][..COLUMNS].as_ptr().cast()),
                    _mm_loadu_si128(b[tiles[2]][at..][..COLUMNS].as_ptr().cast()),
                    _mm_loadu_si128(b[tiles[3]][at..][..COLUMNS].as_ptr().cast()),
                ]
            };
            let words = self.decoders[1].take(_mm256_set_m128i(y, x), _mm256_set_m128i(w, z), peaks);
            negative = with_signs(negative, words);
            store(&mut square[0][k % 8 * 2 + k / 8], words);
        }
        store(&mut self.to.negative.view_mut::<u32>().as_chunks_mut().0[slab], negative);
        transpose(&square[0], &mut squares(&mut self.to.columns)[slab]);
    }

    /// Notes tiles with Inf or NaN.
    fn leave_out(&mut self, special: __mmask32, pair: usize) {
        self.hard |= u32::from(special & 0x5555_5555 != 0) << pair;
        self.hard |= u32::from(special & 0xAAAA_AAAA != 0) << (pair + 2);
    }

    /// Looks for Inf and NaN; returns the fields of the exponents that byte 127 stands for. The peaks are those of A's
    /// pairs of tiles, and of B's: the first pair's in the first half of the lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn weigh(&mut self, rows: [__m512i; 2], columns: __m512i) -> [i32; 2] {
        let [a, b] = self.decoders;
        for pair in 0..self.pairs {
            let special = _mm512_cmpge_epu16_mask(rows[pair], _mm512_set1_epi16(a.special as i16));
            self.leave_out(special, pair);
        }
        let special = _mm512_cmpge_epu16_mask(columns, _mm512_set1_epi16(b.special as i16));
        self.leave_out(special & 0xFFFF, 0);
        self.leave_out(special >> 16, 1);
        [a.top_of(_mm512_max_epu16(rows[0], rows[1])), b.top_of(columns)]
    }

    /// A's words as the micro-kernel's B: values, exponents of four tiles in the bytes of a lane, signs.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_rows<V: Value>(&mut self, top: i32) {
        let (decoder, l, tiles) = (self.decoders[0], self.fda.block, self.group.tiles);
        let place = |position: usize| (position >> l.trailing_zeros(), position & (l - 1));
        let size = self.group.k.next_multiple_of(SLAB);
        let low = _mm512_set1_epi16((top - WINDOW + 1) as i16);
        let to = &mut *self.to;
        let values = to.b_values.room::<V>(size * NR);
        let exponents = to.b_exponents.room::<u32>(size * 16).as_chunks_mut().0;
        let signs = to.b_signs.room::<u32>((size >> l.min(SLAB).trailing_zeros()) * NR).as_chunks_mut().0;
        let words = to.rows.view::<u32>().as_chunks::<16>().0;
        for (slab, words) in words.chunks_exact(2 * SLAB).enumerate().take(size / SLAB) {
            let mut negative = [_mm512_setzero_si512(); 2];
            for k in 0..SLAB {
                let (s, i) = place(slab * SLAB + k);
                let mut seen = Seen::default();
                let x = [load(&words[k]), load(&words[SLAB + k])];
                let mut bytes = decoder.exponents(x[0], low, &mut seen);
                if tiles > 1 {
                    let more = decoder.exponents(x[1], low, &mut seen);
                    bytes = _mm512_or_si512(bytes, _mm512_slli_epi16::<8>(more));
                }
                store(&mut exponents[slab * SLAB + k], bytes);
                self.far |= seen.far;
                negative = [with_signs(negative[0], x[0]), with_signs(negative[1], x[1])];
                let values = &mut values[(s * TILES * l + i) * ROWS..];
                if seen.small {
                    decoder.put_small_lanes(x, tiles, values, l * ROWS);
                } else {
                    decoder.put_lanes::<V, false>(x, tiles, values, l * ROWS);
                }
                if (k + 1) & (l.min(SLAB) - 1) == 0 {
                    for t in 0..tiles {
                        let (pair, half) = pair_of(t);
                        put_signs(&mut signs[s * TILES + t], negative[pair], half, i >= SLAB);
                    }
                    negative = [_mm512_setzero_si512(); 2];
                }
            }
        }
    }

    /// B's words as the micro-kernel's A: values and signs tile by tile, exponents of four tiles together.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack_columns<V: Value>(&mut self, top: i32) {
        let (decoder, l, tiles) = (self.decoders[1], self.fda.block, self.group.tiles);
        let place = |position: usize| (position >> l.trailing_zeros(), position & (l - 1));
        let size = self.group.k.next_multiple_of(SLAB);
        let low = _mm512_set1_epi16((top - WINDOW + 1) as i16);
        let to = &mut *self.to;
        let values = to.a_values.room::<V>(size * TILES * MR);
        let exponents = to.a_exponents.room::<u32>(size * MR);
        let signs = to.a_signs.room::<u32>((size >> l.min(SLAB).trailing_zeros()) * TILES * MR).as_chunks_mut::<MR>().0;
        let words = to.columns.view::<u32>().as_chunks::<16>().0;
        let negative = to.negative.view::<u32>().as_chunks::<16>().0;
        // From lanes in which positions i and 8 + i alternate to their order.
        let in_order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        for (slab, words) in words.chunks_exact(2 * COLUMNS).enumerate().take(size / SLAB) {
            // Step and place in it of the two halves of a slab.
            let places = [place(slab * SLAB), place(slab * SLAB + 8)];
            for j in 0..COLUMNS {
                let mut seen = Seen::default();
                let x = [load(&words[j]), load(&words[COLUMNS + j])];
                let mut bytes = decoder.exponents(x[0], low, &mut seen);
                if tiles > 1 {
                    let more = decoder.exponents(x[1], low, &mut seen);
                    bytes = _mm512_or_si512(bytes, _mm512_slli_epi16::<8>(more));
                }
                self.far |= seen.far;
                let bytes = _mm512_permutexvar_epi32(in_order, bytes);
                let bytes = [_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes)];
                for (h, (s, i)) in places.into_iter().enumerate() {
                    let to = &mut exponents[(s * MR + j) * l + i..][..8];
                    // SAFETY: 8 words.
                    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes[h]) }
                    let values = &mut values[(s * TILES * MR + j) * l + i..];
                    if seen.small {
                        decoder.put_small_part(x, h == 1, tiles, values, MR * l);
                    } else {
                        decoder.put_part::<V, false>(x, h == 1, tiles, values, MR * l);
                    }
                }
            }
            let negative = load(&negative[slab]);
            let pairs = [_mm512_castsi512_si256(negative), _mm512_extracti64x4_epi64::<1>(negative)];
            for t in 0..tiles {
                let (pair, half) = pair_of(t);
                let words = if half == 0 { _mm256_slli_epi32::<16>(pairs[pair]) } else { pairs[pair] };
                let ([(s, i), (next, _)], at) = (places, |s: usize| s * TILES + t);
                if l == 8 {
                    let high = _mm256_set1_epi32(0xFF00);
                    let first = _mm256_and_si256(_mm256_srli_epi32::<8>(words), high);
                    put_words(&mut signs[at(s)], first);
                    put_words(&mut signs[at(next)], _mm256_and_si256(_mm256_srli_epi32::<16>(words), high));
                } else if i == 0 {
                    put_words(&mut signs[at(s)], _mm256_srli_epi32::<16>(words));
                } else {
                    add_words(&mut signs[at(s)], _mm256_and_si256(words, _mm256_set1_epi32(-1 << 16)));
                }
            }
        }
    }

    /// States: +0, or C, whose tiles are left out where something in it is not of ordinary size.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn begin(&mut self, lowest: u32) {
        let states = self.to.states.room::<f32>(MR * NR).as_chunks_mut::<ROWS>().0;
        if !self.group.from_c {
            for states in states.chunks_exact_mut(TILES) {
                states[..self.group.tiles].fill([0.0; ROWS]);
            }
            return;
        }
        for first in (0..self.group.tiles).step_by(2) {
            let d = &self.group.d;
            let (square, turned) = (squares(&mut self.to.square), squares(&mut self.to.turned));
            for (i, to) in square[0].iter_mut().enumerate() {
                to[..COLUMNS].copy_from_slice(&d[first][i * COLUMNS..][..COLUMNS]);
                to[COLUMNS..].copy_from_slice(&d[first + 1][i * COLUMNS..][..COLUMNS]);
            }
            transpose(&square[0], &mut turned[0]);
            for (i, codes) in turned[0].iter().enumerate() {
                let codes = load(codes);
                let (t, row) = (first + i / MR, i % MR);
                let c = if self.fda.out == out::F16_RNE {
                    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(codes))
                } else {
                    _mm512_castsi512_ps(codes)
                };
                // Minus zero is plus zero.
                let c = _mm512_add_ps(c, _mm512_setzero_ps());
                self.hard |= u32::from(!is_ordinary(_mm512_castps_si512(c), lowest)) << t;
                // SAFETY: 16 floats.
                unsafe { _mm512_storeu_ps(states[row * TILES + t].as_mut_ptr(), c) }
            }
        }
    }

    /// D's codes, row by row.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn end(&mut self) {
        let states = self.to.states.view::<f32>().as_chunks::<ROWS>().0;
        for first in (0..self.group.tiles).step_by(2) {
            let (square, turned) = (squares(&mut self.to.square), squares(&mut self.to.turned));
            for (i, to) in square[0].iter_mut().enumerate() {
                // SAFETY: 16 floats.
                let d = unsafe { _mm512_loadu_ps(states[i % MR * TILES + first + i / MR].as_ptr()) };
                let codes = if self.fda.out == out::F16_RNE {
                    _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(d))
                } else {
                    _mm512_castps_si512(d)
                };
                store(to, codes);
            }
            transpose(&square[0], &mut turned[0]);
            for (i, codes) in turned[0].iter().enumerate() {
                self.group.d[first][i * COLUMNS..][..COLUMNS].copy_from_slice(&codes[..COLUMNS]);
                self.group.d[first + 1][i * COLUMNS..][..COLUMNS].copy_from_slice(&codes[COLUMNS..]);
            }
        }
    }

    /// Step `s`: of A, the first tile's.
    fn step(&mut self, s: usize) -> Step {
        let (l, narrow, to) = (self.fda.block, self.fda.narrow, &mut *self.to);
        let (a, b) = (s * TILES * MR, s * NR);
        Step {
            a_val: if narrow { core::ptr::null() } else { to.a_values.view::<f64>()[a * l..].as_ptr() },
            b_val: if narrow { core::ptr::null() } else { to.b_values.view::<f64>()[b * l..].as_ptr() },
            a_val32: if narrow { to.a_values.view::<f32>()[a * l..].as_ptr() } else { core::ptr::null() },
            b_val32: if narrow { to.b_values.view::<f32>()[b * l..].as_ptr() } else { core::ptr::null() },
            a_exp: to.a_exponents.view::<u32>()[s * MR * l..].as_ptr(),
            b_exp: to.b_exponents.view::<u8>()[b * l..].as_ptr(),
            a_sign: to.a_signs.view::<u32>()[a..].as_ptr(),
            b_sign: to.b_signs.view::<u32>()[b..].as_ptr(),
            a_wide: core::ptr::null(),
            b_wide: core::ptr::null(),
            a_fixed: Lines::NONE,
            b_fixed: Lines::NONE,
            c: to.states.view_mut::<f32>().as_mut_ptr(),
            vectors: self.group.tiles,
        }
    }
}

/// Signs of words join those of the positions before, which move down.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn with_signs(before: __m512i, words: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<OR_AND>(_mm512_srli_epi16::<1>(before), words, _mm512_set1_epi16(i16::MIN))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn put_words(to: &mut [u32; MR], words: __m256i) {
    // SAFETY: 8 words.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn add_words(to: &mut [u32; MR], words: __m256i) {
    // SAFETY: 8 words.
    let before = unsafe { _mm256_loadu_si256(to.as_ptr().cast()) };
    put_words(to, _mm256_or_si256(before, words));
}

/// Signs of one tile's lanes out of a pair's words; those of a step's second slab join the first's.
#[inline]
#[target_feature(enable = "avx512f")]
fn put_signs(to: &mut [u32; ROWS], words: __m512i, half: usize, second: bool) {
    let own = if half == 0 { _mm512_slli_epi32::<16>(words) } else { words };
    let at = to.as_mut_ptr().cast();
    // SAFETY: 16 words.
    unsafe {
        if second {
            let high = _mm512_and_si512(own, _mm512_set1_epi32(-1 << 16));
            _mm512_storeu_epi32(at, _mm512_or_si512(_mm512_loadu_epi32(at), high));
        } else {
            _mm512_storeu_epi32(at, _mm512_srli_epi32::<16>(own));
        }
    }
}
