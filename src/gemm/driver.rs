//! The loops around the kernel: blocks of D, chunks of K, tiles on threads.
//!
//! None of this can change a bit: blocking only decides which elements of D are in hand at once, and
//! K is always walked in the order that the schedule gives.

use super::convert::Widening;
use super::epilogue::Wide;
use super::kernel::{Kernel, Panel, Staged};
use super::operand::{Operand, Source};
use super::schedule::{Region, Slice};
use super::sink::Sink;
use super::tile::{Chunk, Shared, Tile};
use crate::error::Error;
use crate::format::FormatSpec;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use ndarray::{ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, ShapeBuilder, s};
use rayon::prelude::*;

/// How far a product has come, in multiply-adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Multiply-adds done.
    pub done: u64,
    /// Multiply-adds in all, padding included.
    pub total: u64,
}

/// Told of progress from any thread; [`ControlFlow::Break`] stops the product.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Buffers of one product, kept for the next.
#[derive(Debug)]
pub(crate) struct Buffers<W: Wide> {
    a: Vec<Panel>,
    pub(super) b: Vec<Panel>,
    tiles: Vec<Tile<W>>,
    row: Vec<u64>,
    pieces: Vec<Range<usize>>,
}

impl<W: Wide> Default for Buffers<W> {
    fn default() -> Self {
        Self { a: Vec::new(), b: Vec::new(), tiles: Vec::new(), row: Vec::new(), pieces: Vec::new() }
    }
}

/// One operand with its block scales, one per line and block: lines are rows of A, columns of B.
pub(crate) struct Side<'a> {
    pub(crate) operand: Operand<'a>,
    pub(crate) spec: FormatSpec,
    pub(crate) scales: Option<ArrayView2<'a, u8>>,
}

/// Where C comes from.
pub(crate) enum Addend<'a> {
    /// There is none.
    None,
    /// A matrix in the format named.
    Matrix(&'a dyn Source, FormatSpec),
    /// The result's own place, in the format named.
    InPlace(FormatSpec),
}

/// Everything about one product.
pub(crate) struct Product<'a, W: Wide> {
    pub(crate) shared: Shared<'a, W>,
    pub(crate) a: Side<'a>,
    pub(crate) b: Side<'a>,
    pub(crate) c: Addend<'a>,
    pub(crate) threaded: bool,
    pub(crate) progress: Option<OnProgress<'a>>,
    /// Some columns of some rows instead of all.
    pub(crate) only: Option<&'a [(usize, Range<usize>)]>,
}

/// State of all tiles in hand, at most.
const STATE_BYTES: usize = 16 << 20;
/// Panels in hand, at most.
const PANEL_BYTES: usize = 24 << 20;
/// The same where few lines of the other operand meet them: those of one tile in turn, which should stay in the
/// second-level cache and are a quarter or half of them.
const NEAR_BYTES: usize = 4 << 20;
/// Of so few rows that a panel is read about as often as it is written.
const NEAREST_BYTES: usize = 1 << 20;
/// Rows or columns that are few.
const SKINNY: usize = 64;
/// Columns of D in hand, at most.
pub(super) const COLUMNS: usize = 1024;
/// Multiply-adds below which threads cost more than they bring.
pub(super) const SERIAL: usize = 1 << 16;

/// Sizes of the pieces in hand.
#[derive(Clone, Copy, Debug)]
struct Blocking {
    rows: usize,
    columns: usize,
    tile: [usize; 2],
    chunk: usize,
}

/// What threads tell one another.
pub(super) struct Meter<'a> {
    done: AtomicU64,
    total: u64,
    stop: AtomicBool,
    tell: Option<OnProgress<'a>>,
}

impl Meter<'_> {
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, work: u64) {
        let Some(tell) = self.tell else { return };
        let done = self.done.fetch_add(work, Ordering::Relaxed) + work;
        if tell(Progress { done, total: self.total }).is_break() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// All items, on threads or not.
pub(super) fn for_each<T: Send>(threaded: bool, items: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
    if threaded && items.len() > 1 {
        items.par_iter_mut().enumerate().for_each(|(i, item)| f(i, item));
    } else {
        items.iter_mut().enumerate().for_each(|(i, item)| f(i, item));
    }
}

impl<W: Wide> Product<'_, W> {
    /// Computes D.
    ///
    /// # Errors
    /// [`Error::Cancelled`], when the caller said so; parts of D may be written by then.
    pub(crate) fn run(&self, sink: &mut dyn Sink, buffers: &mut Buffers<W>) -> Result<(), Error> {
        let total = if self.progress.is_some() { self.total_work(&mut buffers.pieces)? } else { 0 };
        let meter = Meter { done: AtomicU64::new(0), total, stop: AtomicBool::new(false), tell: self.progress };
        meter.add(0);
        self.shared.schedule.for_each_region(&mut |region| match self.only {
            Some(parts) => {
                let mut here = parts.iter().filter_map(|(row, columns)| region.part(*row, columns));
                here.try_for_each(|part| self.region(&part, sink, buffers, &meter))
            }
            None => self.region(&region, sink, buffers, &meter),
        })
    }

    fn total_work(&self, pieces: &mut Vec<Range<usize>>) -> Result<u64, Error> {
        let (schedule, mut total) = (self.shared.schedule, 0u64);
        schedule.for_each_region(&mut |region| {
            schedule.pieces(&region, pieces);
            let k: usize = pieces.iter().map(|p| schedule.slice(p).len()).sum();
            total += (region.rows.len() * region.columns.len()) as u64 * k as u64;
            Ok(())
        })?;
        Ok(total)
    }

    fn blocking(&self, region: &Region, pieces: usize) -> Blocking {
        let up = |n: usize, to: usize| n.max(1).next_multiple_of(to);
        let tile = self.shared.kernel.tile();
        let area = STATE_BYTES / self.shared.state_bytes(pieces);
        // Panels that few lines of the other operand meet are used once or so: while they are in a near cache.
        let skinny = region.rows.len().min(region.columns.len()) <= SKINNY;
        let (room, limit) = match (skinny, self.threaded) {
            (false, _) => (PANEL_BYTES, usize::MAX),
            (true, false) if region.rows.len() < 8 => (NEAREST_BYTES, 256),
            (true, false) => (NEAR_BYTES, 256),
            (true, true) => (PANEL_BYTES, COLUMNS),
        };
        let columns = COLUMNS.min(region.columns.len());
        let rows = up((area / columns.max(1)).min(region.rows.len()).min(limit), tile[0]);
        let lines = up(columns, 16) + rows.min(up(region.rows.len(), 16));
        let bytes = self.shared.kernel.panel_bytes() + size_of::<u32>();
        let step = self.shared.schedule.step;
        let chunk = (room / (lines * bytes)).min(self.shared.kernel.depth()) / step * step;
        Blocking { rows, columns: columns.max(1), tile, chunk: chunk.max(step) }
    }

    fn region(
        &self,
        region: &Region,
        sink: &mut dyn Sink,
        buffers: &mut Buffers<W>,
        meter: &Meter<'_>,
    ) -> Result<(), Error> {
        // Blocks of no rows have columns to go through, which may be any number.
        if region.rows.is_empty() || region.columns.is_empty() {
            return Ok(());
        }
        let mut pieces = core::mem::take(&mut buffers.pieces);
        self.shared.schedule.pieces(region, &mut pieces);
        if self.direct(region, &pieces, sink, buffers, meter) {
            buffers.pieces = pieces;
            return if meter.stopped() { Err(Error::Cancelled) } else { Ok(()) };
        }
        let blocking = self.blocking(region, pieces.len());
        let mut result = Ok(());
        'blocks: for j in region.columns.clone().step_by(blocking.columns) {
            for i in region.rows.clone().step_by(blocking.rows) {
                let rows = i..(i + blocking.rows).min(region.rows.end);
                let columns = j..(j + blocking.columns).min(region.columns.end);
                match self.single(&pieces, &blocking) {
                    Some(chunk) => self.stream(&chunk, [rows, columns], blocking.tile, sink, buffers, meter),
                    None => {
                        self.place(rows, columns, blocking.tile, pieces.len(), sink, buffers);
                        self.block(&pieces, blocking.chunk, buffers, meter);
                        if !meter.stopped() {
                            buffers.tiles.iter().for_each(|tile| Self::deliver(tile, sink));
                        }
                    }
                }
                if meter.stopped() {
                    result = Err(Error::Cancelled);
                    break 'blocks;
                }
            }
        }
        buffers.pieces = pieces;
        result
    }

    /// Lays out the tiles of a block of D, and reads C.
    fn place(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        [tm, tn]: [usize; 2],
        pieces: usize,
        sink: &dyn Sink,
        buffers: &mut Buffers<W>,
    ) {
        let [down, across] = self.panels([&rows, &columns], [tm, tn], buffers);
        buffers.tiles.resize_with(down * across, Tile::default);
        for (t, tile) in buffers.tiles.iter_mut().enumerate() {
            let (i, j) = (rows.start + t / across * tm, columns.start + t % across * tn);
            tile.place(i..(i + tm).min(rows.end), j..(j + tn).min(columns.end), &self.shared, pieces);
            if self.shared.reads_c {
                self.read_c(tile, sink, &mut buffers.row);
            }
        }
    }

    /// As many panels as the rows and columns of a block need.
    fn panels(
        &self,
        [rows, columns]: [&Range<usize>; 2],
        [tm, tn]: [usize; 2],
        buffers: &mut Buffers<W>,
    ) -> [usize; 2] {
        let (down, across) = (rows.len().div_ceil(tm), columns.len().div_ceil(tn));
        buffers.a.resize_with(down, Panel::default);
        buffers.b.resize_with(across, Panel::default);
        [down, across]
    }

    /// All of K, where it is one chunk and one thread does the work: then a tile can be finished
    /// before the next one begins.
    fn single(&self, pieces: &[Range<usize>], blocking: &Blocking) -> Option<Chunk> {
        let [piece] = pieces else { return None };
        let slice = self.shared.schedule.slice(piece);
        let chunk = Chunk { slice, from: 0, to: slice.len(), piece: 0, pieces: 1 };
        (!self.threaded && slice.len() <= blocking.chunk).then_some(chunk)
    }

    /// A block of D tile by tile, in one tile's memory.
    fn stream(
        &self,
        chunk: &Chunk,
        [rows, columns]: [Range<usize>; 2],
        [tm, tn]: [usize; 2],
        sink: &mut dyn Sink,
        buffers: &mut Buffers<W>,
        meter: &Meter<'_>,
    ) {
        let [down, across] = self.panels([&rows, &columns], [tm, tn], buffers);
        let lines =
            |of: &Range<usize>, i: usize, width: usize| of.start + i * width..of.end.min(of.start + (i + 1) * width);
        buffers.tiles.resize_with(buffers.tiles.len().max(1), Tile::default);
        let Buffers { a, b, tiles, row, .. } = buffers;
        let tile = &mut tiles[0];
        for (j, b) in b.iter_mut().enumerate().take(across) {
            for (i, a) in a.iter_mut().enumerate().take(down) {
                let (rows, columns) = (lines(&rows, i, tm), lines(&columns, j, tn));
                if chunk.to > 0 && j == 0 {
                    self.pack_a(a, rows.clone(), chunk);
                }
                if chunk.to > 0 && i == 0 {
                    self.pack_b(b, columns.clone(), chunk);
                }
                tile.place(rows, columns, &self.shared, 1);
                if self.shared.reads_c {
                    self.read_c(tile, sink, row);
                }
                tile.advance((chunk.to > 0).then_some((&*a, &*b)), chunk, &self.shared);
                Self::deliver(tile, sink);
                meter.add((tile.acc.len() * chunk.to) as u64);
                if meter.stopped() {
                    return;
                }
            }
        }
    }

    fn pack_a(&self, panel: &mut Panel, rows: Range<usize>, chunk: &Chunk) {
        self.scales(&self.a, panel, rows.clone(), chunk, false);
        self.a.rows(panel, rows, chunk, self.shared.kernel);
    }

    pub(super) fn pack_b(&self, panel: &mut Panel, columns: Range<usize>, chunk: &Chunk) {
        self.scales(&self.b, panel, columns.clone(), chunk, true);
        self.b.columns(panel, columns, chunk, self.shared.kernel);
    }

    fn read_c(&self, tile: &mut Tile<W>, sink: &dyn Sink, row: &mut Vec<u64>) {
        let width = tile.columns.len();
        row.resize(width, 0);
        let widening = match &self.c {
            Addend::None => return,
            Addend::Matrix(_, spec) | Addend::InPlace(spec) => Widening::new::<W>(spec),
        };
        for (i, into) in tile.rows.clone().zip(tile.c.chunks_mut(width)) {
            match &self.c {
                Addend::None => return,
                Addend::Matrix(source, _) => source.read(i, tile.columns.start, row),
                Addend::InPlace(_) => sink.read(i, tile.columns.start, row),
            }
            widening.all(row, into, |code| code);
        }
    }

    /// All of K for the tiles in hand.
    fn block(&self, pieces: &[Range<usize>], size: usize, buffers: &mut Buffers<W>, meter: &Meter<'_>) {
        for (piece, blocks) in pieces.iter().enumerate() {
            let slice = self.shared.schedule.slice(blocks);
            let mut from = 0;
            loop {
                let to = (from + size).min(slice.len());
                self.chunk(&Chunk { slice, from, to, piece, pieces: pieces.len() }, buffers, meter);
                from = to;
                if from == slice.len() || meter.stopped() {
                    break;
                }
            }
        }
    }

    fn chunk(&self, chunk: &Chunk, buffers: &mut Buffers<W>, meter: &Meter<'_>) {
        let Buffers { a, b, tiles, .. } = buffers;
        let (down, across) = (a.len(), b.len());
        let (k, work): (usize, usize) =
            (chunk.to - chunk.from, tiles.iter().map(|t| t.acc.len()).sum::<usize>() * (chunk.to - chunk.from));
        let threaded = self.threaded && work > SERIAL;
        let advance = |tile: &mut Tile<W>, panels: [&Panel; 2]| {
            if !meter.stopped() {
                tile.advance((k > 0).then_some((panels[0], panels[1])), chunk, &self.shared);
                meter.add((tile.acc.len() * k) as u64);
            }
        };
        debug_assert_eq!(down * across, tiles.len());
        // Where there is one panel of A, each of B is met once: right after it was packed, in the same place as all
        // others.
        let once = !threaded && down == 1;
        let columns = |j: usize| tiles[j].columns.clone();
        if k > 0 && !once {
            for_each(threaded, b, |j, panel| self.pack_b(panel, columns(j), chunk));
        }
        if threaded {
            let rows = |i: usize| tiles[i * across].rows.clone();
            if k > 0 {
                for_each(threaded, a, |i, panel| self.pack_a(panel, rows(i), chunk));
            }
            for_each(threaded, tiles, |t, tile| advance(tile, [&a[t / across], &b[t % across]]));
            return;
        }
        // One panel for all rows in turn: it is met by all columns while it is in a near cache.
        let Some(a) = a.first_mut() else { return };
        for tiles in tiles.chunks_mut(across.max(1)) {
            if k > 0 && !meter.stopped() {
                self.pack_a(a, tiles[0].rows.clone(), chunk);
            }
            for (j, tile) in tiles.iter_mut().enumerate() {
                let b = &mut b[if once { 0 } else { j }];
                if once && k > 0 && !meter.stopped() {
                    self.pack_b(b, tile.columns.clone(), chunk);
                }
                advance(tile, [a, b]);
            }
        }
    }

    /// Block scales of lines, rows of A or, `across`, columns of B; padding has scale 1.
    fn scales(&self, side: &Side<'_>, panel: &mut Panel, lines: Range<usize>, chunk: &Chunk, across: bool) {
        let (Some(rule), Some(scales)) = (self.shared.unit.scale, &side.scales) else { return };
        let slots = (chunk.to - chunk.from).div_ceil(rule.block);
        panel.scales.clear();
        panel.scales.resize(lines.len() * slots, 0);
        let strides = if across { [1, lines.len()] } else { [slots, 1] };
        panel.scale_strides = strides;
        let layout = (lines.len(), slots).strides(strides.into());
        let mut to = ArrayViewMut2::from_shape(layout, &mut panel.scales).expect("as many codes");
        let of_lines = scales.slice(s![lines, ..]);
        if let Some(run) = Side::whole(chunk).filter(|run| run.start % rule.block == 0) {
            let from = of_lines.slice(s![.., run.start / rule.block..run.end.div_ceil(rule.block)]);
            // Along what is one piece of memory in the panel, and often in the matrix, too.
            let axis = Axis(usize::from(across));
            to.axis_iter_mut(axis).zip(from.axis_iter(axis)).for_each(|(to, from)| copy(to, from));
            return;
        }
        let one = rule.format.encode_f64(1.0, Default::default(), Default::default()).unwrap_or_default() as u8;
        for (mut to, p) in to.columns_mut().into_iter().zip((chunk.from..).step_by(rule.block)) {
            // The schedule was found to have one scale for each slot.
            match chunk.slice.block_of(p, p + rule.block, rule.block).ok().flatten() {
                Some(block) => to.assign(&of_lines.column(block)),
                None => to.fill(one),
            }
        }
    }

    fn deliver(tile: &Tile<W>, sink: &mut dyn Sink) {
        sink.write([tile.rows.start, tile.columns.start], tile.columns.len(), W::run(&tile.acc));
    }
}

/// Copies codes, all at once where both are one piece of memory.
fn copy(mut to: ArrayViewMut1<'_, u8>, from: ArrayView1<'_, u8>) {
    match (to.as_slice_mut(), from.as_slice()) {
        (Some(to), Some(from)) => to.copy_from_slice(from),
        _ => to.assign(&from),
    }
}

/// Room for a panel's codes, as wide as the format asks; zeroed where not all of it will be written.
pub(super) fn room(codes: &mut Staged, size: usize, wide: bool, zeroed: bool) {
    fn sized<T: Clone + Default>(codes: &mut Vec<T>, size: usize, zeroed: bool) {
        if zeroed {
            codes.clear();
        }
        codes.resize(size, T::default());
    }
    match codes {
        Staged::Narrow(codes) if !wide => sized(codes, size, zeroed),
        Staged::Wide(codes) if wide => sized(codes, size, zeroed),
        other if wide => *other = Staged::Wide(vec![0; size]),
        other => *other = Staged::Narrow(vec![0; size]),
    }
}

impl Side<'_> {
    /// Copies a block of codes into the panel, from `at` on.
    fn copy(&self, block: [Range<usize>; 2], panel: &mut Panel, at: usize, ld: usize) {
        match &mut panel.codes {
            Staged::Narrow(codes) => self.operand.read_narrow(block, &mut codes[at..], ld),
            Staged::Wide(codes) => self.operand.read(block, &mut codes[at..], ld),
        }
    }

    /// The elements of K in a chunk without padding.
    pub(super) fn whole(chunk: &Chunk) -> Option<Range<usize>> {
        let mut runs = real_runs(&chunk.slice, chunk.from, chunk.to);
        runs.next().filter(|(_, run)| run.len() == chunk.to - chunk.from).map(|(_, run)| run)
    }

    fn begin(&self, panel: &mut Panel, whole: bool) {
        room(&mut panel.codes, panel.lines * panel.k, self.spec.storage_bits > 32, !whole);
    }

    /// Packs rows of A; where they are staged, element after element.
    fn rows(&self, panel: &mut Panel, lines: Range<usize>, chunk: &Chunk, kernel: &dyn Kernel) {
        (panel.lines, panel.k) = (lines.len(), chunk.to - chunk.from);
        let whole = Self::whole(chunk);
        let codes = whole.clone().and_then(|run| self.operand.in_place([lines.clone(), run]));
        if codes.is_some_and(|codes| kernel.pack_a_in_place(panel, &codes)) {
            return;
        }
        self.begin(panel, whole.is_some());
        for (offset, run) in real_runs(&chunk.slice, chunk.from, chunk.to) {
            self.copy([lines.clone(), run], panel, offset, panel.k);
        }
        kernel.pack_a(panel);
    }

    /// Packs columns of B; where they are staged, position after position.
    fn columns(&self, panel: &mut Panel, lines: Range<usize>, chunk: &Chunk, kernel: &dyn Kernel) {
        (panel.lines, panel.k) = (lines.len(), chunk.to - chunk.from);
        let whole = Self::whole(chunk);
        let codes = whole.clone().and_then(|run| self.operand.in_place([run, lines.clone()]));
        if codes.is_some_and(|codes| kernel.pack_b_in_place(panel, &codes)) {
            return;
        }
        self.begin(panel, whole.is_some());
        for (offset, run) in real_runs(&chunk.slice, chunk.from, chunk.to) {
            self.copy([run, lines.clone()], panel, offset * panel.lines, panel.lines);
        }
        kernel.pack_b(panel);
    }
}

fn real_runs(slice: &Slice, from: usize, to: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    slice.runs(from, to).filter(|(_, run)| !run.is_empty())
}
