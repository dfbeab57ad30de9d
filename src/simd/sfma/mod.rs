//! SFMA: `d = fma(a_k, b_k, d)` for k in order, rounded as IEEE has it (AVX-512, AVX2).
//!
//! The hardware's own FMA is the unit's, so this is a native product whose K order is never changed;
//! only NaN payloads need care. Operands of formats that f32 holds become f32 or f64 as they are packed.
//! Subnormals are kept, for nothing here sets the flags that flush them; where they are met and slow, the
//! way around that is `subnormal`. What is not rounded to nearest even in f32 or f64 goes by `directed`.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole rows")]

mod directed;
mod subnormal;
mod vectors;

use super::buffer::Buffer;
use super::decode::{Decoder, Reader, Reading, in_f32};
use super::flags;
use super::prefetch;
use super::processor;
use super::values::State as Results;
use super::wide::{self, Work};
use super::{Avx2, Avx512, Isa};
use crate::accumulate::{Recipe, SequentialFma};
use crate::format::{F32, F64, FormatSpec};
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::unit::Unit;
use crate::view::{Rows, View, words, words_mut};
use core::arch::x86_64::_MM_HINT_ET0;
use core::ops::Range;
use core::sync::atomic::Ordering;
use directed::{Directed, Narrow, Rounds};
use std::sync::Arc;
use subnormal::{Columns, Reach, Scales, any_subnormal, begin, tame_rows};
use vectors::{f32x8, f32x16, f64x4, f64x8};

/// Rows of a micro-tile.
const MR: usize = 6;
/// Rows of a tile: few, so that A's part of it stays in the second-level cache beside B's.
const MC: usize = 96;

/// The kernel, where it is exact: results in f32 or f64, on AVX-512 also in f16 or bf16, and operands in the same or in
/// formats that f32 holds.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Sequential(SequentialFma { rounding, nan })) = unit.recipe else { return None };
    let is = |format: &FormatSpec, spec: FormatSpec| FormatSpec { name: spec.name, ..*format } == spec;
    let directed = Directed::new(rounding);
    let known = directed.is_some() || rounding == Rounding::NearestEven;
    if !known || !is(&unit.c, unit.d) || unit.scale.is_some() {
        return None;
    }
    let (wide, narrow) = (is(&unit.d, F64), Narrow::new(&unit.d));
    if !wide && !is(&unit.d, F32) && narrow.is_none() {
        return None;
    }
    let rounds = match narrow {
        Some(narrow) => Some(Rounds::Narrow(narrow, directed)),
        None => directed.map(Rounds::Directed),
    };
    let results = narrow.and_then(|_| Results::new(unit.c, unit.d, nan));
    // How an operand is read; none where it is of that type itself.
    let read = |format: FormatSpec| -> Option<Option<Decoder>> {
        if is(&format, if wide { F64 } else { F32 }) {
            return Some(None);
        }
        let known = in_f32(&format) && format.storage_bits <= 32;
        known.then(|| Some(Decoder::new(format, Reading::default())))
    };
    let (k, read) = (unit.shape.k, [read(unit.a)?, read(unit.b)?]);
    let assists = |proof: Avx2| rounds.is_none() && processor::is_slow(proof);
    if let Some(proof) = Avx512::new(isa) {
        let assists = assists(proof.avx2());
        return Some(if wide {
            Arc::new(Sfma64Avx512 { nan, k, rounds, results, read, isa, assists, _proof: proof })
        } else {
            Arc::new(Sfma32Avx512 { nan, k, rounds, results, read, isa, assists, _proof: proof })
        });
    }
    let proof = Avx2::new(isa).filter(|_| narrow.is_none())?;
    let assists = assists(proof);
    Some(if wide {
        Arc::new(Sfma64Avx2 { nan, k, rounds, results, read, isa, assists, _proof: proof })
    } else {
        Arc::new(Sfma32Avx2 { nan, k, rounds, results, read, isa, assists, _proof: proof })
    })
}

/// Codes of a format to be read.
struct Read<'a, T> {
    decoder: &'a Decoder,
    codes: &'a [u32],
    to: &'a mut Vec<T>,
}

impl<T: From<f32> + Copy> Work for Read<'_, T> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        match self.decoder.fields {
            Some(fields) => self.by(&fields),
            None => {
                let decoder = self.decoder;
                self.by(decoder);
            }
        }
    }
}

impl<T: From<f32> + Copy> Read<'_, T> {
    #[inline(always)]
    fn by(self, reader: &impl Reader) {
        const LANES: usize = 16;
        let (sixteens, rest) = self.codes.as_chunks::<LANES>();
        self.to.clear();
        self.to.reserve(self.codes.len());
        for codes in sixteens {
            self.to.extend_from_slice(&reader.lanes(codes).0.map(T::from));
        }
        let mut codes = [0; LANES];
        codes[..rest.len()].copy_from_slice(rest);
        self.to.extend_from_slice(&reader.lanes(&codes).0.map(T::from)[..rest.len()]);
    }
}

/// Positions of K that are worth a look at the first operands.
const LOOK: usize = 256;

/// States of a tile.
struct State<'a, T> {
    /// Rows and columns.
    size: [usize; 2],
    /// At the start they are +0, whatever stands there.
    start: bool,
    /// Elements from row to row.
    ld: usize,
    at: &'a mut [T],
}

/// Positions of a block of B's panel.
struct Right<'a> {
    columns: &'a Columns,
    /// Where the block begins, and how many positions it has.
    at: usize,
    depth: usize,
    /// Those that are meant.
    ks: Range<usize>,
}

impl Right<'_> {
    /// The columns from `j` on, of `width` together, in a panel of this form.
    fn group<'p, T>(&self, panel: &'p [T], j: usize, width: usize) -> &'p [T] {
        &panel[self.at + j * self.depth + self.ks.start * width..][..self.ks.len() * width]
    }
}

macro_rules! sfma {
    ($name:ident, $proof:ident, $features:literal, $ty:ty, $bits:ty, $lanes:literal, [$($fewer:literal)*] $vectors:literal, $nc:literal,
     $codes:ident, $width:ident, $spec:ident, $text:literal, $v:ident) => {
        /// The kernel for one type and set.
        #[derive(Debug)]
        struct $name {
            nan: NanRule,
            /// Products per unit step.
            k: usize,
            /// How FMAs are rounded, if not to nearest even in this type.
            rounds: Option<Rounds>,
            /// How states are read and written, if they are not of this type.
            results: Option<Results>,
            /// How A and B are read, if they are not of this type.
            read: [Option<Decoder>; 2],
            isa: Isa,
            /// Whether subnormal numbers are slow here.
            assists: bool,
            _proof: $proof,
        }

        impl $name {
            /// Columns of a micro-tile.
            const NR: usize = $vectors * $lanes;
            /// Positions of K in a block of a panel.
            const DEPTH: usize = 1024;
            /// Elements from row to row of A's panel: a cache line more, lest all rows fall into the same sets.
            const ROW: usize = Self::DEPTH + $lanes;

            /// Positions `ks` of K, a block after another, on a tile of `m` rows and `n` columns.
            #[target_feature(enable = $features)]
            fn steps(
                &self,
                a: &[$ty],
                b: &Columns,
                ks: Range<usize>,
                k: usize,
                [m, n]: [usize; 2],
                state: &mut [$ty],
            ) {
                let mut from = ks.start;
                while from < ks.end {
                    let start = from / Self::DEPTH * Self::DEPTH;
                    let (depth, to) = (Self::DEPTH.min(k - start), ks.end.min(start + Self::DEPTH));
                    let a = &a[start / Self::DEPTH * m * Self::ROW..];
                    let ks = from - start..to - start;
                    let row = |i: usize| &a[i * Self::ROW..][ks.clone()];
                    let right = Right { columns: b, at: start * n.next_multiple_of(Self::NR), depth, ks: ks.clone() };
                    self.block(row, &right, State { size: [m, n], start: false, ld: n, at: &mut *state });
                    from = to;
                }
            }

            /// Positions of a block of B's panel, on rows of A.
            #[inline]
            #[target_feature(enable = $features)]
            fn block<'a>(&self, row: impl Fn(usize) -> &'a [$ty], b: &Right<'_>, state: State<'_, $ty>) {
                let (State { size: [m, n], start, ld, at: state }, columns) = (state, b.columns);
                if self.assists {
                    flags::clear(flags::SUBNORMAL, state);
                }
                // A look at the first operands often saves a slow tile.
                let first = || b.group(columns.plain.view::<$ty>(), 0, Self::NR);
                let look = self.assists && b.ks.len() >= LOOK && m > 0;
                if look && (any_subnormal(row(0)) || any_subnormal(&first()[..LOOK])) {
                    columns.slow.store(true, Ordering::Relaxed);
                }
                let mut tame = Vec::new();
                for i in (0..m).step_by(MR) {
                    let rows = MR.min(m - i);
                    let a: [&[$ty]; MR] = core::array::from_fn(|r| row(i + r.min(rows - 1)));
                    let mut reach = None;
                    for j in (0..n).step_by(Self::NR) {
                        let (size, at) = ([rows, Self::NR.min(n - j)], &mut state[i * ld + j..]);
                        if columns.is_slow() && reach.is_none() {
                            reach = Some(tame_rows(&a, &mut tame));
                        }
                        if let Some(Some(reach)) = reach {
                            let state = State { size, start, ld, at: &mut *at };
                            if self.tame_tile(&tame, reach, b, j, state) {
                                continue;
                            }
                        }
                        let state = State { size, start, ld, at: &mut *at };
                        self.tile_of(a, b.group(columns.plain.view(), j, Self::NR), state);
                        if self.assists && !columns.is_slow() && flags::raised(flags::SUBNORMAL, at) {
                            columns.slow.store(true, Ordering::Relaxed);
                        }
                    }
                }
            }

            /// A tile of tame rows and columns from `j` on; `false`, and nothing done, where that is not the plain
            /// chain.
            #[target_feature(enable = $features)]
            fn tame_tile(&self, a: &[$ty], reach: Reach, b: &Right<'_>, j: usize, state: State<'_, $ty>) -> bool {
                let Some(columns) = b.columns.tame::<$ty>() else { return false };
                let (right, k) = (b.group(columns.values.view::<$ty>(), j, Self::NR), b.ks.len());
                let Some(scales) = Scales::new(reach, columns, k) else { return false };
                let (State { size: [rows, columns], start, ld, at }, mut bad) = (state, false);
                for row in at.chunks(ld).take(rows) {
                    row[..columns].chunks($lanes).for_each(|states| prefetch::<_MM_HINT_ET0, _>(states.as_ptr()));
                }
                // Columns that are not there are at 1 and stay there; rows that are not there do what the last one
                // does, from 1.
                let mut sums = [[1.0; Self::NR]; MR];
                for (sums, at) in sums.iter_mut().zip(at.chunks(ld)).take(rows) {
                    for (sum, c) in sums[..columns].iter_mut().zip(at) {
                        *sum = if start { 0.0 } else { scales.load(*c, &mut bad) };
                    }
                }
                let rows_from = |k| core::array::from_fn(|r| &a[r * b.ks.len()..][k..b.ks.len()]);
                let begun = if bad { None } else { begin(&rows_from(0), right.as_chunks().0, &mut sums, start) };
                let Some(begun) = begun else { return false };
                flags::clear(flags::SUBNORMAL, sums.as_flattened_mut());
                let tile = State { size: [MR, Self::NR], start: false, ld: Self::NR, at: sums.as_flattened_mut() };
                self.tile::<MR, $vectors>(rows_from(begun), &right[begun * Self::NR..], tile);
                bad |= flags::raised(flags::SUBNORMAL, sums.as_flattened_mut());
                for sum in sums.as_flattened_mut() {
                    *sum = scales.store(*sum, &mut bad);
                }
                if !bad {
                    for (sums, at) in sums.iter().zip(at.chunks_mut(ld)).take(rows) {
                        at[..columns].copy_from_slice(&sums[..columns]);
                    }
                }
                !bad
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn tile_of(&self, a: [&[$ty]; MR], b: &[$ty], state: State<'_, $ty>) {
                if let Some(how) = self.rounds {
                    return self.whole_tile(how, a, b, state);
                }
                match state.size[1].div_ceil($lanes) {
                    $($fewer => self.rows_of::<$fewer>(a, b, state),)*
                    _ => self.rows_of::<$vectors>(a, b, state),
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn rows_of<const V: usize>(&self, a: [&[$ty]; MR], b: &[$ty], state: State<'_, $ty>) {
                match state.size[0] {
                    1 => self.tile::<1, V>(a, b, state),
                    2 => self.tile::<2, V>(a, b, state),
                    3 => self.tile::<3, V>(a, b, state),
                    4 => self.tile::<4, V>(a, b, state),
                    5 => self.tile::<5, V>(a, b, state),
                    _ => self.tile::<6, V>(a, b, state),
                }
            }

            /// R rows by V vectors, of the last of which the state may leave some lanes out.
            #[target_feature(enable = $features)]
            fn tile<const R: usize, const V: usize>(&self, a: [&[$ty]; MR], b: &[$ty], state: State<'_, $ty>) {
                let State { size: [_, columns], start, ld, at: c } = state;
                let b = b.as_chunks::<{ $vectors * $lanes }>().0;
                assert!(columns.div_ceil($lanes) == V && columns <= ld && c.len() >= (R - 1) * ld + columns);
                assert!(a.iter().all(|row| row.len() == b.len()));
                let lanes = |v: usize| if v + 1 < V { $lanes } else { columns - v * $lanes };
                let (a, c) = (a.map(<[$ty]>::as_ptr), c.as_mut_ptr());
                let mut d = [[$v::splat(0.0); V]; R];
                for r in 0..R {
                    for v in 0..V {
                        let (here, next) = (r * ld + v * $lanes, r * ld + (V + v) * $lanes);
                        // States may be in memory far away: of the next tile they are asked for early, and before they
                        // are only written at once.
                        prefetch::<_MM_HINT_ET0, _>(c.wrapping_add(if start { here } else { next }));
                        if !start {
                            // SAFETY: so many lanes are in row `r` of `c`, as asserted above.
                            d[r][v] = unsafe { $v::load(c.add(here), lanes(v)) };
                        }
                    }
                }
                for (k, b) in b.iter().enumerate() {
                    let mut bv = [$v::splat(0.0); V];
                    // SAFETY: `b` has at least so many vectors.
                    (0..V).for_each(|v| bv[v] = unsafe { $v::load(b.as_ptr().add(v * $lanes), $lanes) });
                    for r in 0..R {
                        // SAFETY: rows of A are as long as the panel of B is deep, as asserted above.
                        let x = $v::splat(unsafe { *a[r].add(k) });
                        for v in 0..V {
                            d[r][v] = $v::fma(x, bv[v], d[r][v]);
                        }
                    }
                }
                let nan = $v::splat(self.nan());
                for r in 0..R {
                    for v in 0..V {
                        let x = $v::one_nan(d[r][v], nan);
                        // SAFETY: as for the loads.
                        unsafe { $v::store(c.add(r * ld + v * $lanes), lanes(v), x) }
                    }
                }
            }

            /// A tile whose FMAs do not round to nearest even in this type.
            #[target_feature(enable = $features)]
            fn whole_tile(&self, how: Rounds, a: [&[$ty]; MR], b: &[$ty], state: State<'_, $ty>) {
                let State { size: [rows, columns], start, ld, at } = state;
                let (b, mut sums) = (b.as_chunks().0, [[0.0; Self::NR]; MR]);
                if !start {
                    for (sums, at) in sums.iter_mut().zip(at.chunks(ld)).take(rows) {
                        for (sum, at) in sums.iter_mut().zip(&at[..columns]) {
                            *sum = match &self.results {
                                Some(results) => results.load(at.to_bits() as u32).into(),
                                None => *at,
                            };
                        }
                    }
                }
                assert!(a.iter().all(|row| row.len() == b.len()));
                // SAFETY: rows of A are as long as the panel of B is deep, as asserted above.
                unsafe { directed::$v(how, a.map(<[$ty]>::as_ptr), b, &mut sums) }
                for (sums, at) in sums.iter().zip(at.chunks_mut(ld)).take(rows) {
                    for (sum, at) in sums.iter().zip(&mut at[..columns]) {
                        *at = match &self.results {
                            Some(results) => <$ty>::from_bits(results.store(*sum as f32).into()),
                            None if sum.is_nan() => self.nan(),
                            None => *sum,
                        };
                    }
                }
            }

            /// A row of A by B where that lies. `false` once a subnormal number is met, where those are slow.
            #[target_feature(enable = $features)]
            fn one_row(&self, a: &[$ty], b: &Rows<'_, $ty>, d: &mut [$ty]) -> bool {
                d.fill(0.0);
                if self.assists {
                    flags::clear(flags::SUBNORMAL, d);
                }
                let (fours, rest) = a.as_chunks::<4>();
                for (i, x) in fours.iter().enumerate() {
                    Self::chain(x, core::array::from_fn(|r| b.row(4 * i + r)), d);
                    if self.assists && i % (LOOK / 4) == 0 && flags::raised(flags::SUBNORMAL, d) {
                        return false;
                    }
                }
                for (i, x) in rest.iter().enumerate() {
                    Self::chain(&[*x], [b.row(a.len() - rest.len() + i)], d);
                }
                d.iter_mut().filter(|d| d.is_nan()).for_each(|d| *d = self.nan());
                true
            }

            /// Some products of each chain.
            #[inline]
            #[target_feature(enable = $features)]
            fn chain<const N: usize>(x: &[$ty; N], b: [&[$ty]; N], d: &mut [$ty]) {
                let b = b.map(|b| &b[..d.len()]);
                for (j, d) in d.iter_mut().enumerate() {
                    *d = (0..N).fold(*d, |sum, i| x[i].mul_add(b[i][j], sum));
                }
            }

            /// The one NaN.
            fn nan(&self) -> $ty {
                <$ty>::from_bits($spec.nan_code(self.nan).unwrap_or_default() as $bits)
            }

            /// `[block][row][k in block]`.
            fn pack_rows(panel: &mut Panel, codes: &View<'_, $bits>) {
                let mut packed = panel.take_packed::<Buffer>();
                let (m, k) = (panel.lines, panel.k);
                let to = packed.room::<$ty>(k.div_ceil(Self::DEPTH) * m * Self::ROW);
                for (i, p) in (0..m).flat_map(|i| (0..k).step_by(Self::DEPTH).map(move |p| (i, p))) {
                    let to = &mut to[(p / Self::DEPTH * m + i) * Self::ROW..];
                    codes.read_block([i..i + 1, p..k.min(p + Self::DEPTH)], to, Self::ROW, <$ty>::from_bits);
                }
                panel.put_packed(packed);
            }

            /// `[block][group][k in block][column in group]`, zero beyond.
            fn pack_columns(panel: &mut Panel, codes: &View<'_, $bits>) {
                let mut packed = panel.take_packed::<Columns>();
                let (k, n) = (panel.k, panel.lines);
                let wide = n.next_multiple_of(Self::NR);
                let to = packed.room::<$ty>(wide * k);
                for start in (0..k).step_by(Self::DEPTH) {
                    let depth = Self::DEPTH.min(k - start);
                    let to = &mut to[start * wide..][..depth * wide];
                    // A few whole rows at a time, for memory is fastest in long runs.
                    for p in (0..depth).step_by(8) {
                        let rows = start + p..start + depth.min(p + 8);
                        for j in (0..n).step_by(Self::NR) {
                            let to = &mut to[j * depth + p * Self::NR..][..rows.len() * Self::NR];
                            if n - j < Self::NR {
                                to.fill(0.0);
                            }
                            codes.read_block([rows.clone(), j..n.min(j + Self::NR)], to, Self::NR, <$ty>::from_bits);
                        }
                    }
                }
                panel.put_packed(packed);
            }

            /// The staged codes of side A or B, read if they must be, as a matrix of `shape`.
            fn staged<R>(
                &self,
                side: usize,
                panel: &mut Panel,
                shape: [usize; 2],
                f: impl FnOnce(&mut Panel, &View<'_, $bits>) -> R,
            ) {
                let codes = core::mem::take(&mut panel.codes);
                let mut numbers = Vec::<$ty>::new();
                let view = match (&self.read[side], &codes) {
                    (Some(decoder), codes) => {
                        let codes = codes.narrow();
                        wide::on(self.isa, Read { decoder, codes, to: &mut numbers });
                        View::from_slice(words(&numbers).unwrap_or_default(), shape, [shape[1] as isize, 1], 0)
                    }
                    (None, Staged::$codes(codes)) => View::from_slice(codes, shape, [shape[1] as isize, 1], 0),
                    _ => unreachable!("operands of this width"),
                };
                f(panel, &view.expect("as many codes as elements"));
                panel.codes = codes;
            }

            /// Whether the operand of side A or B is of this type.
            const fn is_own(&self, side: usize) -> bool {
                self.read[side].is_none()
            }
        }

        impl Kernel for $name {
            fn name(&self) -> &'static str {
                if self.results.is_some() { "sfma-narrow" } else { concat!("sfma-", $text) }
            }

            fn why(&self) -> String {
                let (directed, format) = match self.rounds {
                    None => (None, $text),
                    Some(Rounds::Directed(how)) => (Some(how), $text),
                    Some(Rounds::Narrow(Narrow::F16, how)) => (how, "f16"),
                    Some(Rounds::Narrow(Narrow::Bf16, how)) => (how, "bf16"),
                };
                let rounding = match directed {
                    None => "to nearest even",
                    Some(Directed::Down) => "rounded down",
                    Some(Directed::Up) => "rounded up",
                    Some(Directed::TowardZero) => "rounded toward zero",
                };
                let how = if self.results.is_some() { "two of the processor's own each" } else { "the processor's own" };
                format!("a chain of {format} fused multiply-adds {rounding}: {how}")
            }

            fn tile(&self) -> [usize; 2] {
                [MC, $nc]
            }

            fn panel_bytes(&self) -> usize {
                // Where operands are read first, there are two of each.
                let copies = if self.is_own(0) && self.is_own(1) { 1 } else { 2 };
                copies * size_of::<$ty>()
            }

            fn depth(&self) -> usize {
                Self::DEPTH
            }

            fn pack_a(&self, panel: &mut Panel) {
                self.staged(0, panel, [panel.lines, panel.k], Self::pack_rows);
            }

            fn pack_b(&self, panel: &mut Panel) {
                self.staged(1, panel, [panel.k, panel.lines], Self::pack_columns);
            }

            fn pack_a_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
                let Codes::$width(view) = codes else { return false };
                if !self.is_own(0) {
                    return false;
                }
                Self::pack_rows(panel, view);
                true
            }

            fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
                let Codes::$width(view) = codes else { return false };
                if !self.is_own(1) {
                    return false;
                }
                Self::pack_columns(panel, view);
                true
            }

            fn is_direct(&self, a: &Codes<'_>) -> bool {
                // One step of a unit, at least, is a chunk of K.
                let rows = matches!(a, Codes::$width(view) if view.row(0).is_some());
                rows && self.is_own(0) && self.results.is_none() && self.k <= Self::DEPTH
            }

            fn direct(&self, a: &Codes<'_>, b: &Panel, start: bool, d: Lanes<'_>, ld: usize) {
                let (Codes::$width(a), Lanes::$codes(d)) = (a, d) else { return };
                let (Some(a), Some(d)) = (a.words::<$ty>(), words_mut(d)) else { return };
                let right = Right { columns: b.packed(), at: 0, depth: b.k, ks: 0..b.k };
                let state = State { size: [a.shape()[0], b.lines], start, ld, at: d };
                // SAFETY: `select` has the proof that the instructions are there.
                unsafe { self.block(|i| a.row(i).unwrap_or_default(), &right, state) }
            }

            fn row_in_place(&self, a: &Codes<'_>, b: &Codes<'_>, d: Lanes<'_>) -> bool {
                if !self.is_own(0) || !self.is_own(1) || self.rounds.is_some() {
                    return false;
                }
                let (Codes::$width(a), Codes::$width(b), Lanes::$codes(d)) = (a, b, d) else { return false };
                let (Some(a), Some(b), Some(d)) = (a.words::<$ty>(), b.words::<$ty>(), words_mut(d)) else {
                    return false;
                };
                let (Some(a), Some(b)) = (a.row(0), b.rows()) else { return false };
                // SAFETY: `select` has the proof that the instructions are there.
                unsafe { self.one_row(a, &b, d) }
            }

            fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
                let Lanes::$codes(state) = state else { unreachable!("states of this width") };
                let Some(state) = words_mut(state) else { return };
                let ks = steps.start * self.k..steps.end * self.k;
                let (left, right) = (a.packed::<Buffer>().view(), b.packed());
                // SAFETY: `select` has the proof that the instructions are there.
                unsafe { self.steps(left, right, ks, a.k, [a.lines, b.lines], state) }
            }
        }
    };
}

// Name, proof, set; types of numbers and codes; lanes, vectors across a micro-tile, columns of a tile; variants of
// `Lanes` and of `Codes`; format and name; vectors.
#[rustfmt::skip]
sfma!(Sfma32Avx512, Avx512, "avx512f", f32, u32, 16, [1 2 3] 4, 256, Narrow, U32, F32, "f32", f32x16);
#[rustfmt::skip]
sfma!(Sfma64Avx512, Avx512, "avx512f", f64, u64, 8, [1 2 3] 4, 128, Wide, U64, F64, "f64", f64x8);
#[rustfmt::skip]
sfma!(Sfma32Avx2, Avx2, "avx2,fma", f32, u32, 8, [1] 2, 256, Narrow, U32, F32, "f32", f32x8);
#[rustfmt::skip]
sfma!(Sfma64Avx2, Avx2, "avx2,fma", f64, u64, 4, [1] 2, 128, Wide, U64, F64, "f64", f64x4);
