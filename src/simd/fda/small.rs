//! Small products: tiles of 16 x 8, up to four side by side (AVX-512).
//!
//! The operands change roles: a tile's 16 rows of A are the lanes of a vector, its 8 columns of B the
//! rows of the micro-kernel, so that a tile is one vector and D comes out transposed. The search for
//! e_max takes four tiles at once, a byte of each lane for each. Codes are words of 16 bits, moved up
//! so that the sign is the highest bit; a lane of 64 bits holds those of four tiles, so that every
//! shift and comparison counts four times. Tiles in which anything is special, far or too large are left
//! to the ordinary kernel.
//!
//! A's f64 values are made while products are summed: of the words, where all are usual (normal and within the window), or
//! of the highest words of values, which take the words' place then (`rows`). Else they have a panel, as f32 values and all of B's do.
//!
//! Which row is which lane is left to the shuffles that are cheapest: rows 0, 2, 1, 3 and so on are the even lanes,
//! rows 8, 10, 9, 11 and so on the odd ones. A's panel keeps columns as they come, four positions of K side by side
//! (`avx512::at`).

#![allow(clippy::needless_range_loop, reason = "vectors and positions index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each function says once why its loads and stores are sound")]

mod from;
mod turn;
mod value;
mod words;

use super::avx512::{Columns, FromPanel, step_tiles};
use super::fixed::Lines;
use super::micro::is_ordinary;
use super::step::{Consts, ENLARGED, ENLARGED_F32, Step};
use super::{Buffer, Fda, MR, NR, Set, Small, out};
use crate::gemm::small::{COLUMNS, DEPTH, ROWS, Results, SmallKernel, TILES, TILES_OF_PRODUCT, TileCodes, Tiles};
use core::arch::x86_64::*;
use core::cell::RefCell;
use from::{FromHighest, FromWords};
use turn::{Number, columns_of, lanes, put, put_columns, side_by_side, two_rows};
use value::Value;
pub(super) use words::Decoder;
use words::{Bounds, OR_AND, Seen};

/// Exponents that a window spans.
const WINDOW: i32 = 32;
/// Positions of K come in slabs of this many, the last one possibly half of it.
const SLAB: usize = 16;
/// Positions of K that stand side by side in a vector of B's words.
const SIDE: usize = 4;
/// Slabs, at most.
const SLABS: usize = DEPTH / SLAB;

/// Where the micro-kernel has A's values from.
mod rows {
    /// Words, all of them usual.
    pub(super) const WORDS: u8 = 0;
    /// Highest words of values.
    pub(super) const HIGHEST: u8 = 1;
    /// The panel.
    pub(super) const PANEL: u8 = 2;
}

/// A vector's lanes of 64 bits: a word for each tile.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Words([u64; 8]);

/// The words of a group: those of each position of A, the rows of the even lanes and of the odd ones (or highest words of
/// values in their place, `rows`); and of each four positions of B, two columns after two.
#[derive(Debug)]
struct Read {
    rows: [[Words; 2]; DEPTH],
    columns: [[Words; COLUMNS / 2]; DEPTH / SIDE],
}

/// The panels of a group, and its states: 8 rows of 64.
#[derive(Debug)]
struct Panels {
    read: Read,
    a_values: Buffer,
    b_values: Buffer,
    a_exponents: Buffer,
    b_exponents: Buffer,
    a_signs: Buffer,
    b_signs: Buffer,
    states: Buffer,
}

impl Panels {
    /// Room for the largest group.
    fn new() -> Self {
        let mut panels = Self {
            read: Read { rows: [[Words([0; 8]); 2]; DEPTH], columns: [[Words([0; 8]); COLUMNS / 2]; DEPTH / SIDE] },
            a_values: Buffer::default(),
            b_values: Buffer::default(),
            a_exponents: Buffer::default(),
            b_exponents: Buffer::default(),
            a_signs: Buffer::default(),
            b_signs: Buffer::default(),
            states: Buffer::default(),
        };
        panels.a_values.room::<f64>(DEPTH * TILES * MR);
        panels.b_values.room::<f64>(DEPTH * TILES * ROWS);
        panels.a_exponents.room::<u32>(DEPTH * MR);
        panels.b_exponents.room::<u32>(DEPTH * ROWS);
        // Steps of 8, the shortest ones, are the most.
        panels.a_signs.room::<u32>(DEPTH / 8 * TILES * MR);
        panels.b_signs.room::<u32>(DEPTH / 8 * NR);
        panels.states.room::<f32>(MR * NR);
        panels
    }
}

thread_local! {
    static PANELS: RefCell<Box<Panels>> = RefCell::new(Box::new(Panels::new()));
}

/// Bits of the first pieces of tile `t`, bit `4 row + tile`; and its words among those of a vector.
const fn pieces(t: usize) -> u32 {
    0x1111_1111 << t
}

/// Tiles that have a piece in a mask.
pub(super) fn tiles_of(mask: u32) -> u32 {
    (0..TILES).fold(0, |tiles, t| tiles | u32::from(mask & pieces(t) != 0) << t)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &Words) -> __m512i {
    // SAFETY: a vector's lanes.
    unsafe { _mm512_load_si512(words.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut Words, x: __m512i) {
    // SAFETY: a vector's lanes.
    unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), x) }
}

/// One group on its way.
struct Run<'a, 'b> {
    fda: &'a Fda,
    tiles: &'a mut Tiles<'b>,
    to: &'a mut Panels,
    /// A's format and B's.
    decoders: [Decoder; 2],
    /// Numbers below an exponent window.
    far: bool,
    /// Tiles that are left to the ordinary kernel.
    hard: u32,
}

impl Fda {
    /// How A and B are read, if tiles of this unit can be computed side by side.
    pub(super) fn small_decoders(&self) -> Option<[Decoder; 2]> {
        let unit = &self.unit;
        let plain = matches!(self.set, Set::Avx512(_)) && self.round_down.is_none() && !self.c_last && !self.via_f16;
        let read = Decoder::reads(&unit.a) && Decoder::reads(&unit.b) && unit.scale.is_none();
        let fits = [8, 16, 32].contains(&self.block) && self.is_in_order() && self.frac_bits <= 25;
        if !plain || !read || !fits {
            return None;
        }
        let enlarge = if self.narrow { ENLARGED_F32 } else { ENLARGED };
        let (a_scale, b_scale) = self.scales();
        let rows = Decoder::new(&unit.a, b_scale, enlarge, self.narrow);
        Some([rows, Decoder::new(&unit.b, a_scale, 0, self.narrow)])
    }
}

impl SmallKernel for Fda {
    fn most_tiles(&self) -> usize {
        if matches!(self.small, Some(Small::Avx512(_))) { TILES_OF_PRODUCT } else { TILES_OF_PRODUCT / 2 }
    }

    fn run(&self, tiles: &mut Tiles<'_>) -> u32 {
        let decoders = match &self.small {
            Some(Small::Avx512(decoders)) => *decoders,
            Some(Small::Avx2(readers)) => return readers.run(self, tiles),
            None => return !0,
        };
        PANELS.with_borrow_mut(|to| {
            let mut run = Run { fda: self, tiles, to, decoders, far: false, hard: 0 };
            // SAFETY: `small_decoders` has seen the proof that the instructions are there.
            unsafe { run.all() }
            run.hard
        })
    }
}

impl Run<'_, '_> {
    /// Packs, computes, and leaves D's codes in the group.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    fn all(&mut self) {
        let (mut rows, mut columns) = (Bounds::new(), Bounds::new());
        for slab in 0..self.tiles.k.div_ceil(SLAB).min(SLABS) {
            self.read_rows(slab, &mut rows);
            self.read_columns(slab, &mut columns);
        }
        let tops = self.weigh(rows.largest, columns.largest);
        let ([a, b], [a_low, b_low]) = (self.decoders, tops.map(window));
        let usual = [a.is_usual(rows.least, a_low), b.is_usual(columns.least, b_low)];
        let biases = [self.fda.unit.a.bias, self.fda.unit.b.bias];
        let (q, fast) = self.fda.consts_of(tops[0] - biases[0] + tops[1] - biases[1], false);
        if !fast {
            self.hard = !0;
            return;
        }
        let from = if self.fda.narrow {
            rows::PANEL
        } else if a.has_highest() {
            rows::HIGHEST
        } else if usual[0] {
            rows::WORDS
        } else {
            rows::PANEL
        };
        match (self.fda.narrow, self.fda.block) {
            (true, 8) => self.pack::<f32, 8>(tops, usual, from),
            (true, 16) => self.pack::<f32, 16>(tops, usual, from),
            (true, _) => self.pack::<f32, 32>(tops, usual, from),
            (false, 8) => self.pack::<f64, 8>(tops, usual, from),
            (false, 16) => self.pack::<f64, 16>(tops, usual, from),
            (false, _) => self.pack::<f64, 32>(tops, usual, from),
        }
        self.begin(q.lowest());
        let q = Consts { tiny: self.far.into(), ..q };
        for s in 0..self.tiles.k >> self.fda.block.trailing_zeros() {
            let p = self.step(s);
            let words = self.to.read.rows[s * self.fda.block..].as_ptr();
            // SAFETY: the panels and words hold this step for all tiles, and states are 8 rows of 64.
            let redo = unsafe {
                match from {
                    rows::WORDS => self.on(&p, &q, FromWords { words, fields: a.fields }),
                    rows::HIGHEST => self.on(&p, &q, FromHighest { words, enlarge: a.enlarge }),
                    _ => self.on(&p, &q, FromPanel(p.b_val)),
                }
            };
            self.hard |= tiles_of(redo);
        }
        self.end();
    }

    /// One step of all tiles, with A's f64 values from there.
    ///
    /// # Safety
    /// As `step_tiles`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn on(&self, p: &Step, q: &Consts, columns: impl Columns) -> u32 {
        // SAFETY: the caller's promise, handed on.
        unsafe {
            match self.fda.out {
                out::F32_RZ => step_tiles::<{ out::F32_RZ }>(p, q, self.tiles.count, columns),
                out::F32_RNE => step_tiles::<{ out::F32_RNE }>(p, q, self.tiles.count, columns),
                _ => step_tiles::<{ out::F16_RNE }>(p, q, self.tiles.count, columns),
            }
        }
    }

    /// A slab of A: of each position 8 rows in a vector. Two rows are read at once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn read_rows(&mut self, slab: usize, bounds: &mut Bounds) {
        let (decoder, ld) = (self.decoders[0], self.tiles.k);
        let whole = ld >= (slab + 1) * SLAB;
        let to = &mut self.to.read.rows.as_chunks_mut::<SLAB>().0[slab];
        let tiles = self.tiles.a.map(|a| halves(a)[..ROWS * ld][slab * SLAB..].as_ptr());
        for half in 0..2 {
            let mut pairs = [[_mm512_setzero_si512(); 4]; 4];
            for (n, pair) in pairs.iter_mut().enumerate() {
                let mut words = [_mm512_setzero_si512(); TILES];
                for (words, a) in words.iter_mut().zip(tiles) {
                    // SAFETY: 16 rows of `ld` words, of which the slab has 16, or 8 where it is not whole.
                    *words = unsafe { two_rows(a.add((8 * half + 2 * n) * ld), ld, whole) };
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
                    if whole {
                        store(&mut to[k + 8][half], decoder.take(_mm512_shuffle_i32x4::<0xDD>(x, y), bounds));
                    }
                }
            }
        }
    }

    /// A slab of B: of each four positions two columns in a vector.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn read_columns(&mut self, slab: usize, bounds: &mut Bounds) {
        let decoder = self.decoders[1];
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

    /// Looks for Inf and NaN in the largest words of A and of B; returns the fields of the exponents that byte 127 stands
    /// for.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn weigh(&mut self, rows: __m512i, columns: __m512i) -> [i32; 2] {
        let [a, b] = self.decoders;
        self.hard |= tiles_of(_mm512_cmpge_epu16_mask(rows, _mm512_set1_epi16(a.special as i16)));
        self.hard |= tiles_of(_mm512_cmpge_epu16_mask(columns, _mm512_set1_epi16(b.special as i16)));
        [a.top_of(rows), b.top_of(columns)]
    }

    /// Fills the panels for steps of `L` products, A's values where `from` says; A's words and B's may be `usual`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn pack<V: Value, const L: usize>(&mut self, tops: [i32; 2], usual: [bool; 2], from: u8) {
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
        let (decoder, tiles) = (self.decoders[0], self.tiles.count);
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
        let (decoder, tiles) = (self.decoders[1], self.tiles.count);
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

    /// States: +0, or C, whose tiles are left out where something in it is not of ordinary size.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn begin(&mut self, lowest: u32) {
        let states = self.to.states.view_mut::<f32>().as_chunks_mut::<ROWS>().0;
        if !self.tiles.from_c {
            states.fill([0.0; ROWS]);
            return;
        }
        let Results::Words(d) = &self.tiles.d else {
            // C is in words, always.
            self.hard = !0;
            return;
        };
        for (t, d) in d.iter().enumerate().take(self.tiles.count) {
            for (j, codes) in columns_of(d).into_iter().enumerate() {
                let c = if self.fda.out == out::F16_RNE {
                    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(codes))
                } else {
                    _mm512_castsi512_ps(codes)
                };
                // Minus zero is plus zero.
                let c = _mm512_add_ps(c, _mm512_setzero_ps());
                self.hard |= u32::from(!is_ordinary(_mm512_castps_si512(c), lowest)) << t;
                // SAFETY: 16 floats.
                unsafe { _mm512_storeu_ps(states[j * TILES + t].as_mut_ptr(), c) }
            }
        }
    }

    /// D's codes, row by row.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn end(&mut self) {
        let (states, half) = (self.to.states.view::<f32>().as_chunks::<ROWS>().0, self.fda.out == out::F16_RNE);
        match &mut self.tiles.d {
            Results::Words(d) if half => write::<_, true>(states, &mut d[..self.tiles.count]),
            Results::Words(d) => write::<_, false>(states, &mut d[..self.tiles.count]),
            Results::Halves(d) => write::<_, true>(states, &mut d[..self.tiles.count]),
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
            vectors: self.tiles.count,
            apart: [MR * l, 16 * l],
        }
    }
}

/// Tiles' codes, row by row, from their states: f32 as they are, or f16 (`HALF`).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn write<T: Number, const HALF: bool>(states: &[[f32; ROWS]], d: &mut [[T; ROWS * COLUMNS]]) {
    for (t, d) in d.iter_mut().enumerate() {
        let mut columns = [_mm512_setzero_si512(); COLUMNS];
        for (j, to) in columns.iter_mut().enumerate() {
            // SAFETY: 16 floats.
            let d = unsafe { _mm512_loadu_ps(states[j * TILES + t].as_ptr()) };
            *to = if HALF {
                _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(d))
            } else {
                _mm512_castps_si512(d)
            };
        }
        put_columns(&columns, d);
    }
}

/// Codes of a format that `Decoder` reads, none of which has more than 16 bits.
fn halves(codes: TileCodes<'_>) -> &[u16] {
    let TileCodes::Halves(codes) = codes else { unreachable!("a format of at most 16 bits") };
    codes
}

/// The field of the lowest exponent in the window that ends at `top`.
const fn window(top: i32) -> i16 {
    (top - WINDOW + 1) as i16
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
