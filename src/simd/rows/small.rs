//! Small products by array code: one tile of 16 x 8 after another, with the rows of A in the lanes and the columns of B
//! as the rows that are gone through, so that every lane has work.

use super::{Body, PackRows, Rows};
use crate::gemm::kernel::{Kernel, Lanes, Panel, Staged};
use crate::gemm::small::{COLUMNS, ROWS, Results, SmallKernel, TileCodes, Tiles};
use crate::simd::values::NR;
use crate::simd::wide;
use crate::view::{self, Word};
use std::cell::RefCell;

/// Rows that are transposed together.
const SIDE: usize = 8;

const _: () = assert!(ROWS == NR && COLUMNS == SIDE);

/// What a tile is computed in.
#[derive(Debug, Default)]
struct Panels {
    /// Columns of B, as rows, and rows of A, side by side.
    rows: Panel,
    columns: Panel,
    /// Of D, transposed.
    states: [[u32; ROWS]; COLUMNS],
}

thread_local! {
    static PANELS: RefCell<Box<Panels>> = RefCell::default();
}

/// Rows of `width` codes transposed.
fn transpose(from: TileCodes<'_>, width: usize, to: &mut Staged) {
    let Staged::Narrow(to) = to else { unreachable!("panels begin with narrow codes") };
    match from {
        TileCodes::Halves(from) => transpose_codes(from, width, to),
        TileCodes::Words(from) => transpose_codes(from, width, to),
    }
}

fn transpose_codes<T: Word>(from: &[T], width: usize, to: &mut Vec<u32>) {
    let height = from.len() / width;
    to.resize(from.len(), 0);
    for (i, lines) in from.chunks_exact(SIDE * width).enumerate() {
        let lines: [&[T]; SIDE] = core::array::from_fn(|j| &lines[j * width..][..width]);
        let to = &mut to[i * SIDE..];
        #[cfg(target_arch = "x86_64")]
        let whole = crate::simd::squares::turn(lines, [&[]; SIDE], to, height);
        #[cfg(not(target_arch = "x86_64"))]
        let whole = 0;
        for p in whole..width {
            (0..SIDE).for_each(|j| to[p * height + j] = lines[j][p].word());
        }
    }
    for (i, line) in from.chunks_exact(width).enumerate().skip(height / SIDE * SIDE) {
        line.iter().enumerate().for_each(|(p, code)| to[p * height + i] = code.word());
    }
}

impl<B: Body + 'static> Rows<B> {
    /// Whether tiles are computed so.
    pub(super) fn takes_tiles(&self) -> bool {
        self.body.takes_tiles() && self.unit.scale.is_none() && self.unit.c == self.unit.d
    }
}

impl<B: Body + 'static> SmallKernel for Rows<B> {
    fn run(&self, tiles: &mut Tiles<'_>) -> u32 {
        PANELS.with_borrow_mut(|panels| {
            let Panels { rows, columns, states } = &mut **panels;
            let k = tiles.k;
            (rows.lines, rows.k, columns.lines, columns.k) = (COLUMNS, k, ROWS, k);
            for t in 0..tiles.count {
                transpose(tiles.b[t].first(k * COLUMNS), COLUMNS, &mut rows.codes);
                transpose(tiles.a[t].first(ROWS * k), k, &mut columns.codes);
                wide::on(self.narrower, PackRows { panel: rows, decoder: &self.b.decoder, layout: &self.layout });
                let staged = core::mem::take(&mut columns.codes);
                self.pack_columns(columns, view::Rows::of(staged.narrow(), ROWS), &self.a);
                columns.codes = staged;
                match &tiles.d {
                    Results::Words(d) if tiles.from_c => {
                        let d = d[t].as_chunks::<COLUMNS>().0;
                        for (j, states) in states.iter_mut().enumerate() {
                            states.iter_mut().zip(d).for_each(|(state, d)| *state = d[j]);
                        }
                    }
                    _ => states.fill([0; ROWS]),
                }
                let lanes = Lanes::Narrow(states.as_flattened_mut());
                Kernel::run(self, rows, columns, 0..k / self.layout.step, lanes, &|_, _, _, c| c);
                match &mut tiles.d {
                    Results::Words(d) => {
                        let d = d[t].as_chunks_mut::<COLUMNS>().0;
                        for (j, states) in states.iter().enumerate() {
                            d.iter_mut().zip(states).for_each(|(d, &state)| d[j] = state);
                        }
                    }
                    Results::Halves(d) => {
                        let d = d[t].as_chunks_mut::<COLUMNS>().0;
                        for (j, states) in states.iter().enumerate() {
                            d.iter_mut().zip(states).for_each(|(d, &state)| d[j] = state as u16);
                        }
                    }
                }
            }
        });
        0
    }
}
