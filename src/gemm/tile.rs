//! One tile of D on its way through K.

use super::convert::{Storing, Widening, fold_each};
use super::epilogue::{AT_ONCE, Finish, Wide};
use super::explain::Log;
use super::kernel::{Kernel, Panel, exact_step};
use super::plan::{SplitMode, Start};
use super::schedule::{Schedule, Slice};
use crate::simd::{self, Isa, Work};
use crate::unit::Unit;
use core::ops::Range;
use ndarray::ArrayView2;

/// The state of a tile: what a kernel keeps in registers and memory.
#[derive(Debug)]
pub(crate) struct Tile<W: Wide> {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// The accumulators' codes; in the end D's.
    pub(crate) acc: Vec<W::Lane>,
    /// f32 masters, with promotion.
    master: Vec<W>,
    /// Sums over the pieces of K, where there are several.
    sum: Vec<W>,
    /// C, then whatever D is on the way.
    pub(crate) c: Vec<W>,
}

impl<W: Wide> Default for Tile<W> {
    fn default() -> Self {
        Self { rows: 0..0, columns: 0..0, acc: Vec::new(), master: Vec::new(), sum: Vec::new(), c: Vec::new() }
    }
}

/// What all tiles of a product share.
#[derive(Debug)]
pub(crate) struct Shared<'a, W> {
    pub(crate) unit: &'a Unit,
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) schedule: &'a Schedule,
    pub(crate) finish: Finish<'a, W>,
    /// How the unit's results become numbers.
    pub(crate) results: Widening,
    /// How numbers become a c of the unit.
    pub(crate) starting: Storing,
    /// The set that what happens outside the unit is compiled for.
    pub(crate) isa: Isa,
    /// Whether C is read: beta is not zero, or the plan starts there.
    pub(crate) reads_c: bool,
    /// Promotion scales of A and B.
    pub(crate) scales: Option<(ArrayView2<'a, f32>, ArrayView2<'a, f32>)>,
    /// Told of everything that happens outside the unit, for tiles of one element.
    pub(crate) log: Option<&'a Log>,
}

/// A stretch of a piece of K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) slice: Slice,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The piece's place in the sum, and how many there are.
    pub(crate) piece: usize,
    pub(crate) pieces: usize,
}

impl<W: Wide> Shared<'_, W> {
    /// Whether the pieces' sum is kept apart from D.
    fn sums(&self, pieces: usize) -> bool {
        pieces > 1 && (self.schedule.workers.is_some() || self.schedule.mode == SplitMode::Parallel)
    }

    /// Bytes of state per element of D.
    pub(crate) fn state_bytes(&self, pieces: usize) -> usize {
        let wides = [self.schedule.promotion.is_some(), self.sums(pieces), self.keeps_d(pieces)];
        size_of::<W::Lane>() + size_of::<W>() * wides.iter().filter(|x| **x).count()
    }

    /// Whether C, or D from piece to piece, is kept.
    pub(crate) fn keeps_d(&self, pieces: usize) -> bool {
        let in_memory = match self.schedule.mode {
            SplitMode::Parallel => false,
            SplitMode::Serial => pieces > 1,
            SplitMode::Atomic => true,
        };
        self.reads_c || in_memory
    }

    /// Says what happened.
    #[inline]
    fn say(&self, text: impl FnOnce() -> String) {
        if let Some(log) = self.log {
            log.line(format_args!("{}", text()));
        }
    }
}

/// Some elements of a row, side by side.
struct Run {
    /// Where they are in a tile's buffers.
    at: Range<usize>,
    /// Their row of D, and the first one's column.
    i: usize,
    j: usize,
}

impl<W: Wide> Tile<W> {
    /// Takes a place in D; buffers are kept.
    pub(crate) fn place(&mut self, rows: Range<usize>, columns: Range<usize>, shared: &Shared<'_, W>, pieces: usize) {
        let size = rows.len() * columns.len();
        (self.rows, self.columns) = (rows, columns);
        let wanted = |yes: bool| if yes { size } else { 0 };
        // Filled when a piece begins.
        self.acc.resize(size, W::Lane::default());
        for (buffer, yes) in [
            (&mut self.master, shared.schedule.promotion.is_some()),
            (&mut self.sum, shared.sums(pieces)),
            (&mut self.c, shared.keeps_d(pieces)),
        ] {
            buffer.clear();
            buffer.resize(wanted(yes), W::default());
        }
    }

    /// All elements, in runs of at most [`AT_ONCE`].
    #[inline(always)]
    fn runs(&self) -> impl Iterator<Item = Run> + use<W> {
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        rows.enumerate().flat_map(move |(n, i)| {
            let columns = columns.clone();
            columns.clone().step_by(AT_ONCE).map(move |j| {
                let from = n * columns.len() + j - columns.start;
                Run { at: from..from + AT_ONCE.min(columns.end - j), i, j }
            })
        })
    }

    /// Runs a chunk of K, with all that the plan says happens on the way.
    pub(crate) fn advance(&mut self, panels: Option<(&Panel, &Panel)>, chunk: &Chunk, shared: &Shared<'_, W>) {
        if chunk.from == 0 {
            self.begin(chunk, shared);
        }
        if let Some((a, b)) = panels {
            self.run(a, b, chunk, shared);
        }
        if chunk.to == chunk.slice.len() {
            self.end_piece(chunk, shared);
        }
    }

    fn begin(&mut self, chunk: &Chunk, shared: &Shared<'_, W>) {
        self.acc.fill(W::lane(0));
        self.master.fill(W::default());
        let finish = &shared.finish;
        shared.say(|| {
            let (slice, start) = (&chunk.slice, shared.schedule.start);
            let from = if start == Start::C { "C" } else { "+0" };
            let (piece, pieces) = (chunk.piece + 1, chunk.pieces);
            format!("== piece {piece} of {pieces}: {}, from {from}", slice.words())
        });
        if shared.schedule.start == Start::C {
            shared.starting.all(&self.c, &mut self.acc);
        } else if chunk.piece == 0 && shared.schedule.mode == SplitMode::Atomic {
            // Memory starts at RNE(beta C), or at +0 with C never read.
            if finish.beta == W::default() {
                self.c.fill(W::default());
            } else {
                self.c.iter_mut().for_each(|c| *c = finish.beta.mul(*c));
                finish.through_d(&mut self.c);
            }
            shared.say(|| format!("== memory starts at RNE(beta C) = {:?}", self.c[0]));
        }
    }

    fn run(&mut self, a: &Panel, b: &Panel, chunk: &Chunk, shared: &Shared<'_, W>) {
        let step = shared.schedule.step;
        let interval = shared.schedule.promotion.unwrap_or(usize::MAX);
        let exact = |i: usize, j: usize, s: usize, c: u64| exact_step(shared.unit, a, b, [i, j], s, c);
        let mut from = chunk.from;
        while from < chunk.to {
            let run = from / interval * interval;
            let to = chunk.to.min(run.saturating_add(interval));
            let steps = (from - chunk.from) / step..(to - chunk.from) / step;
            shared.kernel.run(a, b, steps, W::lanes(&mut self.acc), &exact);
            let complete = to - run == interval || to == chunk.slice.len();
            if complete && shared.schedule.promotion.is_some() {
                simd::on(shared.isa, Promote { tile: self, slice: &chunk.slice, run: run..to, shared });
            }
            from = to;
        }
    }

    /// Takes a finished piece into the sum; the last one makes D.
    fn end_piece(&mut self, chunk: &Chunk, shared: &Shared<'_, W>) {
        let finish = &shared.finish;
        let single = chunk.pieces == 1 && shared.schedule.mode != SplitMode::Atomic;
        let starts_at_c = shared.schedule.start == Start::C;
        // Before the first step a state is what the unit takes, after it what the unit gives.
        let spec = if chunk.slice.len() == 0 { &shared.unit.c } else { &shared.unit.d };
        let untouched = single
            && shared.schedule.promotion.is_none()
            && *spec == finish.out
            && (starts_at_c || finish.is_identity());
        if !untouched {
            let results = if chunk.slice.len() == 0 { Widening::new::<W>(spec) } else { shared.results };
            simd::on(shared.isa, EndPiece { tile: self, chunk, shared, results });
        }
    }
}

/// Adds the accumulators to the masters and starts them again.
struct Promote<'t, 'a, W: Wide> {
    tile: &'t mut Tile<W>,
    slice: &'t Slice,
    /// Positions since the last time.
    run: Range<usize>,
    shared: &'t Shared<'a, W>,
}

impl<W: Wide> Work for Promote<'_, '_, W> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { tile, slice, run, shared } = self;
        let scales = shared.schedule.scales.zip(shared.scales.as_ref());
        // The schedule was found to have one scale for each run.
        let block = scales.and_then(|(s, _)| slice.block_of(run.start, run.end, s.k).ok().flatten());
        for Run { at, i, j } in tile.runs() {
            let (mut acc, mut by) = ([W::default(); AT_ONCE], [W::from_f64(1.0); AT_ONCE]);
            let (acc, by) = (&mut acc[..at.len()], &mut by[..at.len()]);
            shared.results.all(&tile.acc[at.clone()], acc, W::code);
            let master = &mut tile.master[at];
            let before = master[0];
            match scales {
                None => fold_each(acc, master, |master, acc| master.add(acc)),
                Some((widths, (a, b))) => {
                    if let Some(g) = block {
                        let of_a = W::from_f64(a[[i / widths.rows, g]].into());
                        let mut from = 0;
                        while from < by.len() {
                            // Columns that share a scale of B.
                            let column = j + from;
                            let to = by.len().min(from.saturating_add(widths.columns - column % widths.columns));
                            by[from..to].fill(of_a.mul(W::from_f64(b[[g, column / widths.columns]].into())));
                            from = to;
                        }
                    }
                    shared.say(|| format!("== scale of A times scale of B, in f32: {:?}", by[0]));
                    for ((master, &acc), &by) in master.iter_mut().zip(&*acc).zip(&*by) {
                        *master = by.fma(acc, *master);
                    }
                }
            }
            shared.say(|| {
                let how = if scales.is_some() { "fma(scale, acc, master)" } else { "acc + master" };
                let (acc, now) = (acc[0], master[0]);
                format!("== promotion behind position {}: {how} with acc {acc:?}, master {before:?} = {now:?}", run.end)
            });
        }
        tile.acc.fill(W::lane(0));
    }
}

/// Takes a finished piece into the sum; the last one makes D.
struct EndPiece<'t, 'a, W: Wide> {
    tile: &'t mut Tile<W>,
    chunk: &'t Chunk,
    shared: &'t Shared<'a, W>,
    /// How the piece's accumulators become numbers.
    results: Widening,
}

impl<W: Wide> Work for EndPiece<'_, '_, W> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { tile, chunk, shared, results } = self;
        let (finish, schedule) = (&shared.finish, shared.schedule);
        let last = chunk.piece + 1 == chunk.pieces;
        for run in tile.runs() {
            let at = run.at.clone();
            let mut x = [W::default(); AT_ONCE];
            let x = &mut x[..at.len()];
            if schedule.promotion.is_some() {
                x.copy_from_slice(&tile.master[at.clone()]);
            } else {
                results.all(&tile.acc[at.clone()], x, W::code);
            }
            if schedule.start == Start::C || tile.fold(&run, x, chunk, shared) {
                finish.storing.all(x, &mut tile.acc[at.clone()]);
                shared.say(|| format!("== D: {:?} to {}, {:#x}", x[0], finish.out, W::code(tile.acc[at.start])));
            } else if last {
                finish.storing.all(&tile.c[at.clone()], &mut tile.acc[at]);
            }
        }
    }
}

impl<W: Wide> Tile<W> {
    /// Some elements' share of a finished piece: whether they are ready to be stored.
    #[inline(always)]
    fn fold(&mut self, Run { at, i, j }: &Run, x: &mut [W], chunk: &Chunk, shared: &Shared<'_, W>) -> bool {
        let (finish, at, i, j) = (&shared.finish, at.clone(), *i, *j);
        let (first, last) = (chunk.piece == 0, chunk.piece + 1 == chunk.pieces);
        let c = self.c.get_mut(at.clone()).unwrap_or_default();
        let unscaled = x[0];
        if shared.sums(chunk.pieces) {
            let sum = &mut self.sum[at];
            let before = sum[0];
            // Split-K starts its sum at +0; stream-K's starts as the first piece.
            let starts = first && shared.schedule.workers.is_some();
            if !starts {
                fold_each(sum, x, |x, sum| sum.add(x));
            }
            sum.copy_from_slice(x);
            shared.say(|| match starts {
                false => format!("== sum of pieces: {before:?} + {unscaled:?} = {:?}", x[0]),
                true => format!("== sum of pieces: {unscaled:?}"),
            });
            if last {
                shared.say(|| finish.words([i, j], x[0], finish.beta, c.first().copied()));
                finish.scale(i, j, x);
                finish.combine(j, x, finish.beta, c);
            }
            return last;
        }
        finish.scale(i, j, x);
        if shared.schedule.mode == SplitMode::Atomic {
            let (before, scaled) = (c[0], x[0]);
            finish.atomic(c, x);
            shared.say(|| format!("== atomic: {before:?} + RNE(alpha {scaled:?}) = {:?}", c[0]));
            return false;
        }
        let beta = if first { finish.beta } else { W::from_f64(1.0) };
        shared.say(|| finish.words([i, j], unscaled, beta, c.first().copied()));
        finish.combine(j, x, beta, c);
        if !last {
            finish.through_d(x);
            c.copy_from_slice(x);
            shared.say(|| format!("== serial split: D becomes {:?}", c[0]));
        }
        last
    }
}
