//! The K schedule of an output element: slices, pieces, padding, promotion. docs/numerics.md, section 6.

use super::plan::{AtomicOrder, Epilogue, Plan, ScaleBlocks, Slices, SplitMode, Start, Tail};
use crate::error::Error;
use crate::unit::Unit;
use core::ops::Range;

/// A plan on a unit and a size, found possible.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Products per step.
    pub(crate) step: usize,
    pub(crate) block: [usize; 3],
    /// Blocks along K.
    pub(crate) blocks: usize,
    pub(crate) tail: Tail,
    pub(crate) start: Start,
    pub(crate) slices: usize,
    /// The elements of every slice of a split K but the last are a multiple of this: BK, unless the plan says
    /// otherwise.
    align: usize,
    /// Whether slices take the blocks in turn.
    interleaved: bool,
    pub(crate) mode: SplitMode,
    /// The order of an atomic split; empty otherwise.
    order: Vec<usize>,
    pub(crate) flush: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) promotion: Option<usize>,
    /// As [`Plan::is_one_chain`].
    chain: bool,
    pub(crate) scales: Option<ScaleBlocks>,
    pub(crate) epilogue: Epilogue,
}

/// Part of D with one schedule: rows, columns, and with stream-K its tile's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    tile: Option<usize>,
}

impl Region {
    /// The same schedule for the elements of a row that it has among `columns`, if there are any.
    pub(crate) fn part(&self, row: usize, columns: &Range<usize>) -> Option<Self> {
        let columns = columns.start.max(self.columns.start)..columns.end.min(self.columns.end);
        let inside = self.rows.contains(&row) && !columns.is_empty();
        inside.then_some(Self { rows: row..row + 1, columns, tile: self.tile })
    }
}

/// A stretch of K with its padding: positions `0..len`, some of them zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The k of the first element.
    start: usize,
    /// Elements in front of the zeros.
    head: usize,
    /// Zeros.
    pad: usize,
    /// Elements behind the zeros.
    rest: usize,
    /// If it takes every so many blocks only: a block's elements, and how far one begins behind the other.
    every: Option<[usize; 2]>,
}

impl Slice {
    /// Positions: a multiple of the unit's K.
    pub(crate) const fn len(&self) -> usize {
        self.head + self.pad + self.rest
    }

    /// The elements at positions `from..to`: runs, some of them empty, each with its offset from `from`.
    pub(crate) fn runs(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let Self { start, head, pad, .. } = *self;
        let (len, every) = (self.len(), self.every);
        let numbers = every.map_or(0..2, |[width, _]| from / width..to.div_ceil(width));
        numbers.map(move |i| {
            // Positions, and how far before them their elements are counted from `start`.
            let (low, high, minus, plus) = match every {
                Some([width, stride]) => (i * width, ((i + 1) * width).min(head), i * width, i * stride),
                None if i == 0 => (0, head, 0, 0),
                None => (head + pad, len, pad, 0),
            };
            let (low, high) = (low.clamp(from, to), high.clamp(from, to));
            (low - from, start + plus + low - minus.min(low)..start + plus + high - minus.min(high))
        })
    }

    /// The elements of K it holds, and where zeros stand among them, for people.
    pub(crate) fn words(&self) -> String {
        let end = self.start + self.head + self.rest;
        let elements = match self.every {
            Some([width, stride]) => {
                format!(
                    "{}..{} and the {width} that begin every {stride} behind, {} in all",
                    self.start,
                    self.start + width,
                    self.head
                )
            }
            None => format!("{}..{end}", self.start),
        };
        let zeros = match (self.pad, self.rest) {
            (0, _) => String::new(),
            (zeros, 0) => format!(", then {zeros} zeros"),
            (zeros, _) => format!(", with {zeros} zeros behind the first {}", self.head),
        };
        format!("k = {elements}{zeros}")
    }

    /// The one block of `width` that the elements at `from..to` belong to; `None` for zeros only.
    pub(crate) fn block_of(&self, from: usize, to: usize, width: usize) -> Result<Option<usize>, Error> {
        let mut blocks = self.runs(from, to).filter(|(_, r)| !r.is_empty());
        let Some((_, first)) = blocks.next() else { return Ok(None) };
        let last = blocks.last().map_or(first.end, |(_, r)| r.end) - 1;
        if first.start / width != last / width {
            return Err(Error::Plan(format!(
                "elements {} to {last} of K fall together, but belong to two scale blocks of {width}",
                first.start
            )));
        }
        Ok(Some(last / width))
    }
}

fn refuse(when: bool, why: impl FnOnce() -> String) -> Result<(), Error> {
    if when { Err(Error::Plan(why())) } else { Ok(()) }
}

/// Blocks above this are nobody's.
const MAX_BLOCK: usize = 1 << 24;

impl Schedule {
    pub(crate) fn new(plan: &Plan, unit: &Unit, m: usize, n: usize, k: usize) -> Result<Self, Error> {
        let block = plan.block_on(unit);
        let (step, [_, _, bk]) = (unit.shape.k, block);
        refuse(block.iter().any(|&x| x == 0 || x > MAX_BLOCK), || {
            format!("block sizes are 1 to {MAX_BLOCK}, not {}x{}x{bk}", block[0], block[1])
        })?;
        refuse(bk % step != 0, || format!("a block of {bk} along K is no multiple of the unit's K = {step}"))?;
        let schedule = Self {
            m,
            n,
            k,
            step,
            block,
            blocks: k.div_ceil(bk),
            tail: plan.tail,
            start: plan.start,
            slices: plan.slices,
            align: plan.split_align.unwrap_or(bk),
            interleaved: plan.slicing == Slices::Interleaved,
            mode: plan.mode,
            // More slices than elements are refused below, however many.
            order: if plan.mode == SplitMode::Atomic && plan.slices <= k.max(1) { plan.arrivals() } else { Vec::new() },
            flush: plan.flush,
            workers: plan.stream_k,
            promotion: plan.promotion_on(unit),
            chain: plan.is_one_chain(unit),
            scales: plan.scales,
            epilogue: plan.epilogue,
        };
        if let Some(format) = &plan.output {
            plan.check_output(unit, format)?;
        }
        schedule.check_split(plan)?;
        schedule.check_promotion()?;
        schedule.check_pieces(unit)?;
        Ok(schedule)
    }

    fn check_split(&self, plan: &Plan) -> Result<(), Error> {
        let (slices, atomic) = (self.slices, self.mode == SplitMode::Atomic);
        refuse(slices == 0, || "there is no split into 0 slices".into())?;
        refuse(self.align == 0 || self.align > MAX_BLOCK, || {
            format!("split-align is 1 to {MAX_BLOCK} elements, not {}", self.align)
        })?;
        refuse(plan.split_align.is_some() && slices == 1, || "split-align is about the slices of a split K".into())?;
        self.check_interleaved(plan)?;
        refuse(slices > 1 && !self.interleaved && (slices - 1).saturating_mul(self.per_slice()) >= self.k, || {
            let what = if plan.split_align.is_some() { "part" } else { "block" };
            let (each, per, parts) = (self.align, self.per_slice() / self.align, self.k.div_ceil(self.align));
            if parts < 2 {
                return format!("split-k={slices} leaves a slice of K empty: {parts} {what} of {each} cannot be split");
            }
            let fit = parts.div_ceil(per);
            format!(
                "split-k={slices} leaves a slice of K empty: {parts} {what}s of {each}, {per} a slice, fill {fit}: try split-k={fit}"
            )
        })?;
        refuse(self.workers.is_some() && (slices > 1 || atomic), || "stream-K excludes split-K".into())?;
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        refuse(atomic && !sorted.iter().copied().eq(0..slices), || match self.order.len() {
            n if n != slices => format!("the atomic order names {n} slices, but split-k={slices}"),
            _ => format!("the atomic order {:?} is no permutation of 0 to {}", self.order, slices - 1),
        })?;
        refuse(!atomic && plan.order != AtomicOrder::Ascending, || "only atomic splits have an order".into())?;
        let plain = slices == 1 && !atomic && self.workers.is_none() && self.promotion.is_none();
        refuse(self.start == Start::C && !plain, || "a start at C excludes split-K, stream-K and promotion".into())?;
        let Some(workers) = self.workers else { return Ok(()) };
        let total = self.total_blocks()?;
        refuse(workers == 0 || total < workers, || {
            format!("stream-K with {workers} workers, but there are {total} blocks of work")
        })
    }

    fn check_interleaved(&self, plan: &Plan) -> Result<(), Error> {
        let (slices, blocks, bk) = (self.slices, self.blocks, self.block[2]);
        refuse(self.interleaved && slices == 1, || "interleaved slices are those of a split K".into())?;
        refuse(self.interleaved && plan.split_align.is_some(), || {
            "interleaved slices are of whole blocks: no split-align".into()
        })?;
        refuse(self.interleaved && self.tail == Tail::First, || "interleaved slices have their tail last".into())?;
        refuse(self.interleaved && slices > blocks, || {
            format!("split-k={slices} leaves a slice of K empty: there are {blocks} blocks of {bk} to deal out")
        })
    }

    fn check_promotion(&self) -> Result<(), Error> {
        let interval = self.promotion;
        refuse(interval.is_some_and(|i| i == 0 || i % self.step != 0), || {
            format!("a promotion interval must be a multiple of the unit's K = {}", self.step)
        })?;
        refuse(self.scales.is_some() && interval.is_none(), || "block scales enter by promotion only".into())?;
        refuse(self.scales.is_some_and(|s| s.rows == 0 || s.k == 0 || s.columns == 0), || {
            "a scale block has no element".into()
        })
    }

    /// What every piece must hold: one type along a chain, one scale per slot.
    fn check_pieces(&self, unit: &Unit) -> Result<(), Error> {
        if unit.c == unit.d && unit.scale.is_none() && self.scales.is_none() {
            return Ok(());
        }
        let mut pieces = Vec::new();
        let interval = self.promotion.unwrap_or(usize::MAX);
        self.for_each_region(&mut |region| {
            self.pieces(&region, &mut pieces);
            for piece in &pieces {
                let slice = self.slice(piece);
                refuse(unit.c != unit.d && slice.len().min(interval) > self.step, || {
                    format!("{unit} takes c as {} but gives {}: one step only", unit.c, unit.d)
                })?;
                if let Some(rule) = unit.scale {
                    self.check_slots(&slice, rule.block, rule.block)?;
                }
                if let Some(scales) = self.scales {
                    self.check_slots(&slice, interval, scales.k)?;
                }
            }
            Ok(())
        })
    }

    fn check_slots(&self, slice: &Slice, slot: usize, width: usize) -> Result<(), Error> {
        // Aligned slots cannot straddle: only the front padding, or unequal widths, move them.
        let aligned = self.block[2].is_multiple_of(width) && slice.start.is_multiple_of(width);
        if slot == width && aligned && (slice.pad == 0 || slice.rest == 0) {
            return Ok(());
        }
        (0..slice.len())
            .step_by(slot)
            .try_for_each(|p| slice.block_of(p, slice.len().min(p.saturating_add(slot)), width).map(drop))
    }

    /// Whether every element of D is one run of the unit's steps over the elements of K, with nothing between them.
    pub(crate) const fn is_one_run(&self) -> bool {
        self.is_one_chain() && self.k.is_multiple_of(self.block[2])
    }

    /// The same, with zeros among the elements if need be.
    pub(crate) const fn is_one_chain(&self) -> bool {
        self.chain
    }

    /// Whether alpha and beta are possible with this plan.
    pub(crate) fn check_scalars(&self, alpha: f64, beta: f64) -> Result<(), Error> {
        refuse(self.start == Start::C && (alpha != 1.0 || beta != 1.0), || {
            "a start at C needs alpha = beta = 1".into()
        })?;
        refuse(self.epilogue == Epilogue::Plain && (alpha != 1.0 || beta != 0.0), || {
            "a plain epilogue has no alpha and beta".into()
        })
    }

    /// Elements of a slice of a split K, but the last one.
    const fn per_slice(&self) -> usize {
        let parts = self.k.div_ceil(self.align);
        parts.div_ceil(self.slices).saturating_mul(self.align)
    }

    fn tile_columns(&self) -> usize {
        self.n.div_ceil(self.block[1])
    }

    fn total_blocks(&self) -> Result<usize, Error> {
        let tiles = self.m.div_ceil(self.block[0]).checked_mul(self.tile_columns());
        tiles
            .and_then(|t| t.checked_mul(self.blocks))
            .ok_or_else(|| Error::Product("it has too many steps to count".into()))
    }

    /// Hands out D in parts that have one schedule each.
    pub(crate) fn for_each_region(&self, f: &mut dyn FnMut(Region) -> Result<(), Error>) -> Result<(), Error> {
        let (m, n) = (self.m, self.n);
        let Some(workers) = self.workers else {
            return f(Region { rows: 0..m, columns: 0..n, tile: None });
        };
        let ([bm, bn, _], columns) = (self.block, self.tile_columns());
        let (mut here, mut next) = (Vec::new(), Vec::new());
        for i in 0..m.div_ceil(bm) {
            let rows = i * bm..((i + 1) * bm).min(m);
            let mut j = 0;
            while j < columns {
                // Neighbours that are cut alike run together.
                let first = j;
                self.cuts(i * columns + j, workers, &mut here);
                j += 1;
                while j < columns {
                    self.cuts(i * columns + j, workers, &mut next);
                    if next != here {
                        break;
                    }
                    j += 1;
                }
                f(Region {
                    rows: rows.clone(),
                    columns: first * bn..(j * bn).min(n),
                    tile: Some(i * columns + first),
                })?;
            }
        }
        Ok(())
    }

    /// Where a tile's blocks are cut, in ascending order.
    fn cuts(&self, tile: usize, workers: usize, cuts: &mut Vec<usize>) {
        let total = self.m.div_ceil(self.block[0]) * self.tile_columns() * self.blocks;
        let (share, extra) = (total / workers, total % workers);
        let start_of = |w: usize| w * share + w.min(extra);
        let from = tile * self.blocks;
        cuts.clear();
        // The first worker that starts behind `from`.
        let (mut low, mut high) = (0, workers);
        while low < high {
            let middle = (low + high) / 2;
            if start_of(middle) > from {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let starts = (low..workers).map(start_of).take_while(|&s| s < from + self.blocks);
        cuts.extend(starts.map(|s| s - from));
    }

    /// The elements of K of a region's pieces, or the numbers of slices that are interleaved, in the order in which
    /// they are added up.
    pub(crate) fn pieces(&self, region: &Region, pieces: &mut Vec<Range<usize>>) {
        pieces.clear();
        if let (Some(tile), Some(workers)) = (region.tile, self.workers) {
            let mut cuts = Vec::new();
            self.cuts(tile, workers, &mut cuts);
            let mut from = 0;
            for cut in cuts.into_iter().map(|blocks| blocks * self.block[2]).chain([self.k]) {
                pieces.push(from..cut);
                from = cut;
            }
            return;
        }
        let per = self.per_slice();
        let contiguous = |s: usize| s * per..(s + 1).saturating_mul(per).min(self.k);
        let slice = |s: usize| if self.interleaved { s..s + 1 } else { contiguous(s) };
        if self.order.is_empty() {
            pieces.extend((0..self.slices).map(slice));
        } else {
            pieces.extend(self.order.iter().map(|&s| slice(s)));
        }
    }

    /// The positions of a piece.
    pub(crate) const fn slice(&self, piece: &Range<usize>) -> Slice {
        let (bk, start, length) = (self.block[2], piece.start, piece.end - piece.start);
        if self.interleaved {
            let blocks = (self.blocks - start).div_ceil(self.slices);
            // The last block of K may be short.
            let pad =
                if (start + (blocks - 1) * self.slices) + 1 == self.blocks { self.blocks * bk - self.k } else { 0 };
            let every = Some([bk, self.slices * bk]);
            return Slice { start: start * bk, head: blocks * bk - pad, pad, rest: 0, every };
        }
        let left = length % bk;
        if left == 0 {
            return Slice { start, head: length, pad: 0, rest: 0, every: None };
        }
        let head = if matches!(self.tail, Tail::Last) { length } else { left };
        Slice { start, head, pad: bk - left, rest: length - head, every: None }
    }
}

/// What a schedule does, apart from how its plan says it.
#[derive(PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The pieces of K, or how stream-K cuts them.
    pieces: Result<Vec<Slice>, ([usize; 3], Tail, Option<usize>)>,
    start: Start,
    /// How several pieces are put together.
    reduction: Option<(SplitMode, bool)>,
    promotion: Option<(usize, Option<ScaleBlocks>)>,
    epilogue: Epilogue,
}

impl Schedule {
    /// What it does: schedules of one product on one unit that mean the same are one loop.
    pub(crate) fn meaning(&self) -> Meaning {
        let mut pieces = Vec::new();
        self.pieces(&Region { rows: 0..self.m, columns: 0..self.n, tile: None }, &mut pieces);
        let slices = || pieces.iter().map(|p| self.slice(p)).collect();
        let several = self.slices > 1 || self.mode == SplitMode::Atomic;
        let flush = self.mode == SplitMode::Atomic && self.flush;
        Meaning {
            pieces: if self.workers.is_some() { Err((self.block, self.tail, self.workers)) } else { Ok(slices()) },
            start: self.start,
            reduction: several.then_some((self.mode, flush)),
            promotion: self.promotion.map(|interval| (interval, self.scales)),
            // A plain epilogue is any other's case of alpha = 1 and beta = 0.
            epilogue: if self.epilogue == Epilogue::Plain { Epilogue::ThreeX } else { self.epilogue },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_goes_where_the_plan_says() {
        let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").expect("known");
        let plan = Plan::in_order().block(16, 8, 32).tail(Tail::First);
        let s = Schedule::new(&plan, &unit, 1, 1, 70).expect("possible");
        let slice = s.slice(&(0..70));
        assert_eq!(slice, Slice { start: 0, head: 6, pad: 26, rest: 64, every: None });
        let runs = |slice: &Slice, from, to| slice.runs(from, to).collect::<Vec<_>>();
        assert_eq!(runs(&slice, 0, 16)[0], (0, 0..6));
        assert!(runs(&slice, 0, 16)[1].1.is_empty());
        assert_eq!(runs(&slice, 16, 48)[1], (16, 6..22));
        let last = Schedule::new(&plan.tail(Tail::Last), &unit, 1, 1, 70).expect("possible").slice(&(32..70));
        assert_eq!(last, Slice { start: 32, head: 38, pad: 26, rest: 0, every: None });
        assert_eq!(runs(&last, 32, 48)[0], (0, 64..70));
    }

    #[test]
    fn plans_that_say_the_same_are_one_loop() {
        let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").expect("known");
        let schedule = |text: &str, k| {
            let plan: Plan = text.parse().expect("a plan");
            Schedule::new(&plan, &unit, 256, 256, k).expect("possible")
        };
        for (x, y, k, same) in [
            ("in-order", "cutlass3", 128, true),
            ("in-order", "cutlass3", 96, false),
            ("in-order", "cutlass3 promote=none", 128, true),
            ("in-order split-k=2", "cutlass3 split-k=2", 256, true),
            ("in-order split-k=2", "cutlass3 split-k=2", 192, false),
            ("in-order split-k=2", "in-order split-k=2 split-mode=serial", 128, false),
            ("in-order", "in-order split-mode=serial", 128, true),
            ("in-order", "in-order promote=128", 128, false),
            ("in-order", "in-order epilogue=2x", 128, false),
            ("in-order stream-k=2", "in-order stream-k=4", 128, false),
            ("in-order split-k=2 split-align=8", "in-order split-k=2", 128, true),
            ("in-order split-k=2 split-align=8", "in-order split-k=2", 144, false),
            ("cutlass3 split-k=2 split-align=16", "in-order split-k=2", 256, true),
        ] {
            assert_eq!(schedule(x, k).meaning() == schedule(y, k).meaning(), same, "{x}; {y}; {k}");
        }
    }

    /// 260, 260, 260 and 252 of 1032, as cuBLAS cuts it (docs/hardware.md).
    #[test]
    fn slices_are_as_long_as_the_plan_says() {
        let unit = Unit::find("hopper/mma.m16n8k8.f32.tf32.tf32.f32").expect("known");
        let plan = Plan::cutlass2().block(64, 64, 32).split_k(4).split_align(4);
        let s = Schedule::new(&plan, &unit, 1, 1, 1032).expect("possible");
        let mut pieces = Vec::new();
        s.pieces(&Region { rows: 0..1, columns: 0..1, tile: None }, &mut pieces);
        assert_eq!(pieces, [0..260, 260..520, 520..780, 780..1032]);
        assert_eq!(s.slice(&pieces[1]), Slice { start: 260, head: 4, pad: 28, rest: 256, every: None });
        for (slices, align) in [(1, 4), (4, 0), (4, 1000), (300, 4), (2, usize::MAX)] {
            let plan = Plan::in_order().split_k(slices).split_align(align);
            assert!(Schedule::new(&plan, &unit, 1, 1, 1032).is_err(), "{slices} {align}");
        }
    }

    /// Three slices of the blocks 0..8, 8..16, ... 64..70.
    #[test]
    fn slices_may_take_blocks_in_turn() {
        let unit = Unit::find("hopper/mma.m16n8k8.f32.tf32.tf32.f32").expect("known");
        let plan = Plan::in_order().split_k(3).slices(Slices::Interleaved);
        let s = Schedule::new(&plan, &unit, 1, 1, 70).expect("possible");
        let mut pieces = Vec::new();
        s.pieces(&Region { rows: 0..1, columns: 0..1, tile: None }, &mut pieces);
        let slices: Vec<Slice> = pieces.iter().map(|p| s.slice(p)).collect();
        assert_eq!(slices.iter().map(Slice::len).collect::<Vec<_>>(), [24, 24, 24]);
        let runs = |i: usize, from, to| slices[i].runs(from, to).filter(|(_, r)| !r.is_empty()).collect::<Vec<_>>();
        assert_eq!(runs(0, 0, 24), [(0, 0..8), (8, 24..32), (16, 48..56)]);
        assert_eq!(runs(2, 8, 24), [(0, 40..48), (8, 64..70)]);
        assert_eq!(runs(1, 4, 12), [(0, 12..16), (4, 32..36)]);
        for plan in ["split-k=10", "split-k=1", "split-k=2 split-align=8", "split-k=2 tail=first"] {
            let plan: Plan = format!("in-order slices=interleaved {plan}").parse().expect("a plan");
            assert!(Schedule::new(&plan, &unit, 1, 1, 70).is_err(), "{plan}");
        }
    }

    #[test]
    fn stream_k_shares_cover_all_work_once() {
        let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").expect("known");
        for workers in 1..=24 {
            let plan = Plan::in_order().stream_k(workers);
            let s = Schedule::new(&plan, &unit, 30, 20, 64).expect("possible");
            let (mut covered, mut pieces) = (0, Vec::new());
            s.for_each_region(&mut |r| {
                s.pieces(&r, &mut pieces);
                assert_eq!(pieces.iter().map(ExactSizeIterator::len).sum::<usize>(), 64);
                covered += r.rows.len() * r.columns.len();
                Ok(())
            })
            .expect("no error");
            assert_eq!(covered, 600);
        }
    }
}
