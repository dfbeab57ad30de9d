//! Small products: tiles of 16 x 8, up to four side by side (AVX-512).
//!
//! The operands change roles: a tile's 16 rows of A are the lanes of a vector, its 8 columns of B the
//! rows of the micro-kernel, so that a tile is one vector and D comes out transposed. The search for
//! e_max takes four tiles at once, a byte of each lane for each. Codes are words of 16 bits, moved up
//! so that the sign is the highest bit; a lane of 64 bits holds those of four tiles, so that every
//! shift and comparison counts four times. Tiles in which anything is special, far or too large are left
//! to the ordinary kernel.
//!
//! A's f64 values are made while products are summed: of the words, where all are usual (normal and within the window),
//! or of the highest words of values, which take the words' place then (`rows`). Else they have a panel, as f32 values
//! and all of B's do.
//!
//! Which row is which lane is left to the shuffles that are cheapest: rows 0, 2, 1, 3 and so on are the even lanes,
//! rows 8, 10, 9, 11 and so on the odd ones. A's panel keeps columns as they come, four positions of K side by side
//! (`avx512::at`).

#![allow(clippy::needless_range_loop, reason = "vectors and positions index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

mod from;
mod pack;
mod read;
mod step;
mod turn;
mod value;
mod whole;
mod words;

use super::fixed::Lines;
use super::micro::is_ordinary;
use super::step::{Consts, ENLARGED, ENLARGED_F32, Step};
use super::{Buffer, Fda, MR, NR, Set, Small, out};
use crate::gemm::small::{COLUMNS, DEPTH, ROWS, Results, SmallKernel, TILES, TILES_OF_PRODUCT, Tiles};
use core::arch::x86_64::*;
use core::cell::RefCell;
use from::{FromHighest, FromWords};
use step::{Columns, FromPanel, step_tiles};
use turn::{Number, columns_of, put_columns};
pub(super) use whole::Whole;
use words::Bounds;
pub(super) use words::Decoder;

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

/// The words of a group: those of each position of A, the rows of the even lanes and of the odd ones (or highest words
/// of values in their place, `rows`); and of each four positions of B, two columns after two.
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
    decoders: &'a [Decoder; 2],
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
        TILES_OF_PRODUCT
    }

    fn run(&self, tiles: &mut Tiles<'_>) -> u32 {
        if self.whole.is_some_and(|whole| whole.run(tiles)) {
            return 0;
        }
        let decoders = match &self.small {
            Some(Small::Avx512(decoders)) => decoders,
            Some(Small::Avx2(readers)) => return readers.run(self, tiles),
            Some(Small::Lower(fda)) => return fda.run(tiles),
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
        let (mut q, fast) = self.fda.consts_of(tops[0] - biases[0] + tops[1] - biases[1], false);
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
        q.tiny = self.far.into();
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
                out::F32_RD => step_tiles::<{ out::F32_RD }>(p, q, self.tiles.count, columns),
                out::F32_RU => step_tiles::<{ out::F32_RU }>(p, q, self.tiles.count, columns),
                _ => step_tiles::<{ out::F16_RNE }>(p, q, self.tiles.count, columns),
            }
        }
    }

    /// Looks for Inf and NaN in the largest words of A and of B; returns the fields of the exponents that byte 127
    /// stands for.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn weigh(&mut self, rows: __m512i, columns: __m512i) -> [i32; 2] {
        let [a, b] = self.decoders;
        self.hard |= tiles_of(_mm512_cmpge_epu16_mask(rows, _mm512_set1_epi16(a.special as i16)));
        self.hard |= tiles_of(_mm512_cmpge_epu16_mask(columns, _mm512_set1_epi16(b.special as i16)));
        [a.top_of(rows), b.top_of(columns)]
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

/// The field of the lowest exponent in the window that ends at `top`.
const fn window(top: i32) -> i16 {
    (top - WINDOW + 1) as i16
}
