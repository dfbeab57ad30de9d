//! Products straight from A's memory to D's, by kernels that can: no copy of A, no states beside D.

use super::driver::{Buffers, COLUMNS, Meter, Product, SERIAL, Side, for_each};
use super::epilogue::Wide;
use super::kernel::Panel;
use super::operand::{Codes, Source};
use super::plan::{SplitMode, Start};
use super::schedule::{Region, Slice};
use super::sink::Sink;
use super::tile::Chunk;
use core::ops::Range;
use rayon::prelude::*;

/// Columns of a single row that stay in the first-level cache while B goes by.
const STRIP: usize = 2048;

/// Rows that are few: B's panels are then used once or so, while they are in a near cache.
const FEW: usize = 64;

impl<W: Wide> Product<'_, W> {
    /// All of K, where what the unit gives is D: it starts at +0, and nothing follows.
    fn straight(&self, pieces: &[Range<usize>]) -> Option<(Slice, Range<usize>)> {
        let ([piece], shared) = (pieces, &self.shared) else { return None };
        let schedule = shared.schedule;
        let plain = schedule.start != Start::C
            && schedule.mode != SplitMode::Atomic
            && schedule.promotion.is_none()
            && shared.finish.is_identity()
            && shared.finish.out == shared.unit.d;
        let slice = schedule.slice(piece);
        let k = Side::whole(&Chunk { slice, from: 0, to: slice.len(), piece: 0, pieces: 1 })?;
        plain.then_some((slice, k))
    }

    /// Computes a region so; `false` where something stands between.
    pub(super) fn direct(
        &self,
        region: &Region,
        pieces: &[Range<usize>],
        sink: &mut dyn Sink,
        buffers: &mut Buffers<W>,
        meter: &Meter<'_>,
    ) -> bool {
        let (kernel, step) = (self.shared.kernel, self.shared.schedule.step);
        let Some((slice, k)) = self.straight(pieces) else { return false };
        let Some(a) = self.a.operand.in_place([region.rows.clone(), k.clone()]).filter(|a| kernel.is_direct(a)) else {
            return false;
        };
        let Some((lanes, ld)) = sink.in_place() else { return false };
        let Some(d) = W::own(lanes) else { return false };
        let d = &mut d[region.rows.start * ld..];
        if region.rows.len() == 1 && self.one_row(&a, &k, &region.columns, &mut d[region.columns.clone()]) {
            meter.add((region.columns.len() * k.len()) as u64);
            return true;
        }
        let depth = if region.rows.len() > FEW { kernel.depth() } else { kernel.depth() / 8 };
        let depth = (depth / step).max(1) * step;
        // Several panels for several threads; one, while it is near, for one.
        let together = if self.threaded { COLUMNS } else { kernel.tile()[1] };
        for j in region.columns.clone().step_by(together) {
            for from in (0..slice.len()).step_by(depth) {
                let chunk = Chunk { slice, from, to: slice.len().min(from + depth), piece: 0, pieces: 1 };
                self.strip(&a, j..region.columns.end.min(j + together), &chunk, (&mut *d, ld), &mut buffers.b, meter);
            }
        }
        true
    }

    /// A single row, without panels of B: each of its elements is used once. `false` where that is not the kernel's
    /// way.
    fn one_row(&self, a: &Codes<'_>, k: &Range<usize>, columns: &Range<usize>, d: &mut [W::Lane]) -> bool {
        let strip = |(i, d): (usize, &mut [W::Lane])| {
            let from = columns.start + i * STRIP;
            let b = self.b.operand.in_place([k.clone(), from..from + d.len()]);
            b.is_some_and(|b| self.shared.kernel.row_in_place(a, &b, W::lanes(d)))
        };
        if self.threaded && columns.len() * k.len() > SERIAL {
            d.par_chunks_mut(STRIP).enumerate().all(strip)
        } else {
            d.chunks_mut(STRIP).enumerate().all(strip)
        }
    }

    /// A chunk of K for some columns of D, whose rows are `ld` elements apart.
    fn strip(
        &self,
        a: &Codes<'_>,
        columns: Range<usize>,
        chunk: &Chunk,
        (d, ld): (&mut [W::Lane], usize),
        panels: &mut Vec<Panel>,
        meter: &Meter<'_>,
    ) {
        let ([m, _], ks, [height, width]) = (a.shape(), chunk.from..chunk.to, self.shared.kernel.tile());
        let threaded = self.threaded && m * columns.len() * ks.len() > SERIAL;
        let height = if threaded { even_height(m, height, rayon::current_num_threads()) } else { height };
        panels.resize_with(columns.len().div_ceil(width), Panel::default);
        for_each(threaded, panels, |j, panel| {
            let j = columns.start + j * width;
            self.pack_b(panel, j..columns.end.min(j + width), chunk);
        });
        let band = |i: usize, d: &mut [W::Lane]| {
            let rows = i * height..m.min((i + 1) * height);
            let a = a.part([rows.clone(), ks.clone()]);
            for (j, b) in columns.clone().step_by(width).zip(&*panels) {
                if !meter.stopped() {
                    self.shared.kernel.direct(&a, b, ks.start == 0, W::lanes(&mut d[j..]), ld);
                    meter.add((rows.len() * b.lines * ks.len()) as u64);
                }
            }
        };
        let count = m.div_ceil(height);
        if threaded {
            d.par_chunks_mut(height * ld).take(count).enumerate().for_each(|(i, d)| band(i, d));
        } else {
            d.chunks_mut(height * ld).take(count).enumerate().for_each(|(i, d)| band(i, d));
        }
    }
}

/// Rows of a band, at most `height` and at least half of it, of which the busiest of some threads has as few rows as
/// can be: 1024 rows in bands of 96 are eleven, six of them one of two threads'.
fn even_height(m: usize, height: usize, threads: usize) -> usize {
    // Kernels' register tiles divide it.
    let step = (height / 16).max(1);
    let most = |height: &usize| m.div_ceil(*height).div_ceil(threads.max(1)) * height;
    (height / 2..=height).rev().step_by(step).filter(|h| *h > 0).min_by_key(most).unwrap_or(height)
}

#[cfg(test)]
mod tests {
    use super::even_height;

    #[test]
    fn bands_are_even() {
        for m in 1..2000 {
            for threads in [1, 2, 3, 16] {
                let height = even_height(m, 96, threads);
                assert!((48..=96).contains(&height) && height.is_multiple_of(6), "{m} {threads}: {height}");
                let most = |height: usize| m.div_ceil(height).div_ceil(threads) * height;
                assert!(most(height) <= most(96), "{m} {threads}: {height}");
            }
        }
        assert_eq!(even_height(1024, 96, 2), 66);
        assert_eq!(even_height(5, 1, 4), 1);
    }
}
