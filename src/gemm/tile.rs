//! One tile of D on its way through K.

use super::epilogue::{Finish, Wide, widen};
use super::explain::Log;
use super::kernel::{Kernel, Panel, exact_step};
use super::plan::{SplitMode, Start};
use super::schedule::{Schedule, Slice};
use crate::format::FormatSpec;
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
    fn say(&self, text: impl FnOnce() -> String) {
        if let Some(log) = self.log {
            log.line(format_args!("{}", text()));
        }
    }

    fn d_spec(&self, chunk: &Chunk) -> &FormatSpec {
        // Before the first step a state is what the unit takes, after it what the unit gives.
        if chunk.slice.len() == 0 { &self.unit.c } else { &self.unit.d }
    }
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

    /// Elements with their place in the buffers and in D.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<W> {
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        rows.flat_map(move |i| columns.clone().map(move |j| (i, j))).enumerate().map(|(at, (i, j))| (at, i, j))
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
            let spec = &shared.unit.c;
            let from_c = Finish { out: *spec, ..*finish };
            self.acc.iter_mut().zip(&self.c).for_each(|(acc, &c)| *acc = W::lane(from_c.store(c)));
        } else if chunk.piece == 0 && shared.schedule.mode == SplitMode::Atomic {
            // Memory starts at RNE(beta C), or at +0 with C never read.
            let zero = finish.beta == W::default();
            let start = |c: W| if zero { W::default() } else { finish.through_d(finish.beta.mul(c)) };
            self.c.iter_mut().for_each(|c| *c = start(*c));
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
                self.promote(&chunk.slice, run..to, shared);
            }
            from = to;
        }
    }

    /// Adds the accumulators to the masters and starts them again.
    fn promote(&mut self, slice: &Slice, run: Range<usize>, shared: &Shared<'_, W>) {
        let d = shared.unit.d;
        let scales = shared.schedule.scales.zip(shared.scales.as_ref());
        // The schedule was found to have one scale for each run.
        let block = scales.and_then(|(s, _)| slice.block_of(run.start, run.end, s.k).ok().flatten());
        for (at, i, j) in self.places() {
            let acc: W = widen(&d, W::code(self.acc[at]));
            let master = self.master[at];
            self.master[at] = match scales {
                None => master.add(acc),
                Some((widths, (a, b))) => {
                    let scale = block.map_or(W::from_f64(1.0), |g| {
                        let factor = |x: f32| W::from_f64(x.into());
                        factor(a[[i / widths.rows, g]]).mul(factor(b[[g, j / widths.columns]]))
                    });
                    shared.say(|| format!("== scale of A times scale of B, in f32: {scale:?}"));
                    scale.fma(acc, master)
                }
            };
            shared.say(|| {
                let how = if scales.is_some() { "fma(scale, acc, master)" } else { "acc + master" };
                let now = self.master[at];
                format!("== promotion behind position {}: {how} with acc {acc:?}, master {master:?} = {now:?}", run.end)
            });
        }
        self.acc.fill(W::lane(0));
    }

    /// Takes a finished piece into the sum; the last one makes D.
    fn end_piece(&mut self, chunk: &Chunk, shared: &Shared<'_, W>) {
        let (finish, spec) = (&shared.finish, *shared.d_spec(chunk));
        let promoted = shared.schedule.promotion.is_some();
        let last = chunk.piece + 1 == chunk.pieces;
        let single = chunk.pieces == 1 && shared.schedule.mode != SplitMode::Atomic;
        let starts_at_c = shared.schedule.start == Start::C;
        let untouched = single && !promoted && spec == finish.out && (starts_at_c || finish.is_identity());
        if untouched {
            return;
        }
        for (at, i, j) in self.places() {
            let acc: W = if promoted { self.master[at] } else { widen(&spec, W::code(self.acc[at])) };
            if starts_at_c {
                self.acc[at] = W::lane(finish.store(acc));
                continue;
            }
            if let Some(x) = self.fold(at, [i, j], acc, chunk, shared) {
                let code = finish.store(x);
                shared.say(|| format!("== D: {x:?} to {}, {code:#x}", finish.out));
                self.acc[at] = W::lane(code);
            } else if last {
                self.acc[at] = W::lane(finish.store(self.c[at]));
            }
        }
    }

    /// One element's share of a finished piece: `Some` for a value that is ready to be stored.
    fn fold(&mut self, at: usize, [i, j]: [usize; 2], acc: W, chunk: &Chunk, shared: &Shared<'_, W>) -> Option<W> {
        let finish = &shared.finish;
        let (first, last) = (chunk.piece == 0, chunk.piece + 1 == chunk.pieces);
        if shared.sums(chunk.pieces) {
            // Split-K starts its sum at +0; stream-K's starts as the first piece.
            let before = if first && shared.schedule.workers.is_some() { None } else { Some(self.sum[at]) };
            self.sum[at] = before.map_or(acc, |x| x.add(acc));
            let sum = self.sum[at];
            shared.say(|| match before {
                Some(before) => format!("== sum of pieces: {before:?} + {acc:?} = {sum:?}"),
                None => format!("== sum of pieces: {acc:?}"),
            });
            return last.then(|| {
                shared.say(|| finish.words([i, j], sum, finish.beta, self.c.get(at).copied()));
                finish.combine(j, finish.scaled(i, j, sum), finish.beta, || self.c[at])
            });
        }
        let unscaled = acc;
        let acc = finish.scaled(i, j, acc);
        if shared.schedule.mode == SplitMode::Atomic {
            let before = self.c[at];
            self.c[at] = finish.atomic(before, acc);
            shared.say(|| format!("== atomic: {before:?} + RNE(alpha {acc:?}) = {:?}", self.c[at]));
            return None;
        }
        let beta = if first { finish.beta } else { W::from_f64(1.0) };
        shared.say(|| finish.words([i, j], unscaled, beta, self.c.get(at).copied()));
        let x = finish.combine(j, acc, beta, || self.c[at]);
        if last {
            return Some(x);
        }
        self.c[at] = finish.through_d(x);
        shared.say(|| format!("== serial split: D becomes {:?}", self.c[at]));
        None
    }
}
