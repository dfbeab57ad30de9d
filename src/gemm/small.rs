//! Products of a few tiles of 16 x 8, and batches of them: tiles side by side, straight from codes.
//!
//! What a product costs besides its arithmetic is paid once for a batch: checks, the choice of a
//! kernel, buffers. Tiles in which anything is special go the ordinary way afterwards.

mod dense;

use super::builder::Gemm;
use super::epilogue::Scaling;
use super::operand::{Codes, Source};
use super::plan::Start;
use super::product::{Request, check_product};
use super::schedule::Schedule;
use super::sink::{Run, Sink};
use super::workspace::Workspace;
use crate::error::Error;
use crate::unit::Unit;
use core::array::from_fn;
use core::fmt::Debug;
use core::ops::Range;
pub(super) use dense::{Dense, DenseCodes, DenseMut};

/// Rows of a small tile.
pub(crate) const ROWS: usize = 16;
/// Columns of a small tile.
pub(crate) const COLUMNS: usize = 8;
/// Positions of K, at most.
pub(crate) const DEPTH: usize = 64;
/// Tiles that are computed side by side, at most.
pub(crate) const TILES: usize = 4;
/// Products that are expected before they are computed.
const AHEAD: usize = 3 * TILES;
/// Tiles of one product, at most: larger ones pack their operands once for many tiles.
pub(crate) const TILES_OF_PRODUCT: usize = 8;

/// Tiles of one size, side by side: all have 16 rows and 8 columns, some of which nobody may want.
#[derive(Debug)]
pub(crate) struct Tiles<'a> {
    /// How many there are, at least one; those that are not there are others again.
    pub(crate) count: usize,
    /// Positions of K, a multiple of the unit's.
    pub(crate) k: usize,
    /// Whether `d` holds C to begin with.
    pub(crate) from_c: bool,
    /// Codes of A: a tile's rows.
    pub(crate) a: [TileCodes<'a>; TILES],
    /// Codes of B: a tile's positions, each of 8 columns.
    pub(crate) b: [TileCodes<'a>; TILES],
    /// Codes of D, as many as there are.
    pub(crate) d: Results<'a>,
}

/// Codes of an operand: of formats of at most 16 bits, or of more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TileCodes<'a> {
    Halves(&'a [u16]),
    Words(&'a [u32]),
}

impl TileCodes<'_> {
    /// So many, from the beginning.
    pub(crate) fn first(self, n: usize) -> Self {
        match self {
            Self::Halves(codes) => Self::Halves(&codes[..n]),
            Self::Words(codes) => Self::Words(&codes[..n]),
        }
    }
}

/// Codes of D, row by row; halves, of formats of 16 bits, where they are read by nobody.
#[derive(Debug)]
pub(crate) enum Results<'a> {
    Words(&'a mut [[u32; ROWS * COLUMNS]]),
    Halves(&'a mut [[u16; ROWS * COLUMNS]]),
}

/// A tile's codes of one operand: of formats of at most 16 bits, or of more, whose words take room only if there are
/// any.
#[derive(Debug)]
struct Staged<const N: usize> {
    is_wide: bool,
    halves: [u16; N],
    words: Vec<u32>,
}

impl<const N: usize> Default for Staged<N> {
    fn default() -> Self {
        Self { is_wide: false, halves: [0; N], words: Vec::new() }
    }
}

impl<const N: usize> Staged<N> {
    /// Makes ready for codes of so many bits.
    fn begin(&mut self, storage_bits: u32) {
        self.is_wide = storage_bits > 16;
        self.words.resize(if self.is_wide { N } else { 0 }, 0);
    }

    fn codes(&self) -> TileCodes<'_> {
        if self.is_wide { TileCodes::Words(&self.words) } else { TileCodes::Halves(&self.halves) }
    }

    /// Takes a block's codes, rows `ld` apart, by `read`; `on_way` has room for them.
    fn take(&mut self, size: usize, on_way: &mut [u32], read: impl FnOnce(&mut [u32])) {
        if self.is_wide {
            read(&mut self.words);
        } else {
            read(on_way);
            narrow(on_way, &mut self.halves[..size]);
        }
    }

    /// Copies a block of a matrix's codes as they are, rows `ld` apart.
    fn copy(&mut self, source: &dyn Source, block: [Range<usize>; 2], ld: usize, on_way: &mut [u32]) {
        match source.codes().filter(|_| !self.is_wide) {
            Some(Codes::U16(view)) => view.read_block(block, &mut self.halves, ld, |x| x),
            Some(Codes::U8(view)) => view.read_block(block, &mut self.halves, ld, u16::from),
            _ => {
                let size = block[0].len() * ld;
                self.take(size, on_way, |to| source.read_narrow(block, to, ld));
            }
        }
    }

    /// Fills a matrix of `whole` rows and columns up with what stands in its corner of `there`.
    fn repeat(&mut self, there: [usize; 2], whole: [usize; 2]) {
        if self.is_wide {
            repeat_rows(&mut self.words, there, whole);
        } else {
            repeat_rows(&mut self.halves, there, whole);
        }
    }
}

/// Tiles that are collected, and what for.
#[derive(Debug)]
pub(crate) struct Group {
    tiles: usize,
    k: usize,
    from_c: bool,
    /// As [`Tiles`] has them.
    a: [Staged<{ ROWS * DEPTH }>; TILES],
    b: [Staged<{ COLUMNS * DEPTH }>; TILES],
    d: [[u32; ROWS * COLUMNS]; TILES],
    /// Codes on their way.
    on_way: [u32; ROWS * DEPTH],
    /// Rows and columns of a product's tiles.
    parts: Vec<[Range<usize>; 2]>,
    /// Whose they are: a product of the batch, and one of the parts.
    places: [(usize, usize); TILES],
}

impl Default for Group {
    fn default() -> Self {
        Self {
            tiles: 0,
            k: 0,
            from_c: false,
            a: from_fn(|_| Staged::default()),
            b: from_fn(|_| Staged::default()),
            d: [[0; ROWS * COLUMNS]; TILES],
            on_way: [0; ROWS * DEPTH],
            parts: Vec::new(),
            places: [(0, 0); TILES],
        }
    }
}

/// What computes small tiles, for operands of at most 32 bits, K a multiple of the unit's, c and d of one format.
pub(crate) trait SmallKernel: Debug + Send + Sync {
    /// Tiles of one product up to which it does better than the unit's other kernels, at most [`TILES_OF_PRODUCT`].
    fn most_tiles(&self) -> usize {
        TILES_OF_PRODUCT / 2
    }

    /// Computes D for all tiles but those of the mask returned, which it leaves to the ordinary kernel.
    fn run(&self, tiles: &mut Tiles<'_>) -> u32;
}

/// Products of one size.
pub(super) trait Batch {
    /// How many there are.
    fn count(&self) -> usize;

    /// Has A and B of one of them, if there is one, brought near.
    fn expect(&self, _t: usize) {}

    /// All of them where they are, if they stand one after another.
    fn dense(&mut self) -> Option<Dense<'_>> {
        None
    }

    /// Shows A, B and the place of D of a product whose rows are those of all of them, one product's after another's:
    /// where one B is that of all, and they stand like that in memory. `None` where nothing was done.
    fn stacked(&mut self, _f: &mut OnProduct<'_>) -> Option<Result<(), Error>> {
        None
    }

    /// Shows A, B and the place of D of one of them.
    fn product(&mut self, t: usize, f: &mut OnProduct<'_>) -> Result<(), Error>;
}

/// What is done with A, B and the place of D.
pub(super) type OnProduct<'a> = dyn FnMut([&dyn Source; 2], &mut dyn Sink) -> Result<(), Error> + 'a;

/// A batch of one.
pub(super) struct Single<'a> {
    pub(super) sources: [&'a dyn Source; 2],
    pub(super) sink: &'a mut dyn Sink,
}

impl Batch for Single<'_> {
    fn count(&self) -> usize {
        1
    }

    fn product(&mut self, _t: usize, f: &mut OnProduct<'_>) -> Result<(), Error> {
        f(self.sources, self.sink)
    }
}

impl<D> Gemm<'_, D> {
    /// Computes a batch of small products tile by tile, where plan, unit and size allow it; returns those that are
    /// still to be done the ordinary way.
    pub(super) fn compute_small(
        &self,
        request: &Request<'_>,
        batch: &mut dyn Batch,
        workspace: &mut Workspace,
    ) -> Result<Option<Vec<usize>>, Error> {
        let unit = self.unit;
        if !self.takes_tiles(request) || batch.count() == 0 {
            return Ok(None);
        }
        let Some(kernel) = workspace.small_kernel(unit, self.isa) else { return Ok(None) };
        let Some(kernel) = kernel.small() else { return Ok(None) };
        let Some(size) = self.small_size(batch)?.filter(|size| tiles_of(*size) <= kernel.most_tiles()) else {
            return Ok(None);
        };
        let mut group = workspace.group.take().unwrap_or_default();
        group.begin(unit, size, self.plan.start == Start::C);
        // Formats are compared once for all.
        let converted = [request.formats[0] != Some(self.unit.a), request.formats[1] != Some(self.unit.b)];
        let stage = |sources: [&dyn Source; 2], part: usize, group: &mut Group| {
            self.stage(request, sources, converted, part, group)
        };
        let there = if converted == [false; 2] { group.compute_dense(kernel, batch, size) } else { None };
        let outcome = there.map_or_else(|| group.compute(kernel, batch, stage), Ok);
        workspace.group = Some(group);
        outcome.map(Some)
    }

    /// Whether small tiles may do.
    pub(super) fn takes_tiles(&self, request: &Request<'_>) -> bool {
        let unit = self.unit;
        let narrow = unit.a.storage_bits <= 32 && unit.b.storage_bits <= 32;
        narrow && self.is_steps_alone(request)
    }

    /// Whether D is nothing but steps of a unit without block scales, from +0 or from a C of the unit's format.
    pub(super) fn is_steps_alone(&self, request: &Request<'_>) -> bool {
        let unit = self.unit;
        let unscaled = unit.scale.is_none() && self.block_scales.is_none();
        let at_c = self.plan.start == Start::C && self.factor_of_c() == 1.0;
        let of_c = |(_, spec): &(_, _)| *spec == unit.c && unit.c == unit.d;
        let starts = self.is_plain(request) || (self.is_whole(request) && at_c && self.c.as_ref().is_some_and(of_c));
        unscaled && starts && self.progress.is_none() && self.alpha == 1.0 && request.out == unit.d
    }

    /// Whether all of D is the unit's steps from +0 on, times alpha at most.
    pub(super) fn is_plain(&self, request: &Request<'_>) -> bool {
        self.is_whole(request) && self.plan.start == Start::Zero && self.factor_of_c() == 0.0
    }

    /// Whether all of D is asked for, without bias and any scales but the unit's own.
    fn is_whole(&self, request: &Request<'_>) -> bool {
        let whole = request.only.is_none() && request.log.is_none();
        let plain = self.scale_a == Scaling::One && self.scale_b == Scaling::One && self.bias.is_none();
        whole && plain && self.promotion_scales.is_none()
    }

    /// M, N and K, if they are small and K is walked from one end to the other.
    fn small_size(&self, batch: &mut dyn Batch) -> Result<Option<[usize; 3]>, Error> {
        let (mut size, mut of_d) = ([0; 3], [0; 2]);
        batch.product(0, &mut |[a, b], sink| {
            (size, of_d) = (check_product(a.shape(), b.shape())?, sink.shape());
            Ok(())
        })?;
        let [m, n, k] = size;
        let c_fits = self.plan.start == Start::Zero || self.c.as_ref().is_some_and(|(c, _)| c.shape() == [m, n]);
        if !is_small(self.unit, size) || !c_fits || of_d != [m, n] {
            return Ok(None);
        }
        let schedule = Schedule::new(&self.plan, self.unit, m, n, k)?;
        schedule.check_scalars(self.alpha, self.factor_of_c())?;
        Ok(schedule.is_one_run().then_some(size))
    }

    /// Copies a tile's operands to the next place of the group.
    fn stage(
        &self,
        request: &Request<'_>,
        sources: [&dyn Source; 2],
        converted: [bool; 2],
        part: usize,
        group: &mut Group,
    ) -> Result<(), Error> {
        let (k, t) = (group.k, group.tiles);
        let [rows, columns] = group.parts[part].clone();
        if converted[0] {
            let operand = self.operand("A", sources[0], request.formats[0], &self.unit.a)?;
            let read = |to: &mut [u32]| operand.read_narrow([rows.clone(), 0..k], to, k);
            group.a[t].take(rows.len() * k, &mut group.on_way, read);
        } else {
            group.copy_a(sources[0], part);
        }
        if converted[1] {
            let operand = self.operand("B", sources[1], request.formats[1], &self.unit.b)?;
            let read = |to: &mut [u32]| operand.read_narrow([0..k, columns], to, COLUMNS);
            group.b[t].take(k * COLUMNS, &mut group.on_way, read);
        } else {
            group.copy_b(sources[1], part);
        }
        group.complete(part, self.c.as_ref().map(|(c, _)| &**c as &dyn Source));
        Ok(())
    }
}

/// Whether a product is small: a few tiles, of whole steps of the unit.
pub(crate) fn is_small(unit: &Unit, size: [usize; 3]) -> bool {
    let k = size[2];
    (1..=TILES_OF_PRODUCT).contains(&tiles_of(size)) && (1..=DEPTH).contains(&k) && k.is_multiple_of(unit.shape.k)
}

/// Tiles of a product.
pub(super) const fn tiles_of([m, n, _]: [usize; 3]) -> usize {
    m.div_ceil(ROWS).saturating_mul(n.div_ceil(COLUMNS))
}

/// A product of the unit's steps and nothing else, from +0 or from C, on matrices of its own formats whose shapes fit:
/// without all that a [`Gemm`] may be asked for besides. `false` where D is still to be computed.
pub(crate) fn plain(
    unit: &Unit,
    sources: [&dyn Source; 2],
    c: Option<&dyn Source>,
    sink: &mut dyn Sink,
    workspace: &mut Workspace,
) -> bool {
    let ([m, n], [_, k]) = (sink.shape(), sources[0].shape());
    // What is no c for a second step is an error to be told.
    let is_chain = unit.c == unit.d || k == unit.shape.k;
    if !is_small(unit, [m, n, k]) || !is_chain {
        return false;
    }
    let Some(kernel) = workspace.small_kernel(unit, None) else { return false };
    let Some(kernel) = kernel.small().filter(|kernel| tiles_of([m, n, k]) <= kernel.most_tiles()) else {
        return false;
    };
    let mut group = workspace.group.take().unwrap_or_default();
    group.begin(unit, [m, n, k], c.is_some());
    let stage = |[a, b]: [&dyn Source; 2], part: usize, group: &mut Group| {
        group.copy_a(a, part);
        group.copy_b(b, part);
        group.complete(part, c);
        Ok(())
    };
    let outcome = group.compute(kernel, &mut Single { sources, sink }, stage);
    workspace.group = Some(group);
    outcome.is_ok_and(|hard| hard.is_empty())
}

/// Codes of at most 16 bits, without whatever an integer that holds one has above them.
fn narrow(from: &[u32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, &x)| *to = x as u16);
}

/// Fills a matrix of `whole` rows and columns up with what stands in its corner of `there`: operands that nobody
/// wants must not be special.
fn repeat_rows<T: Copy>(codes: &mut [T], there: [usize; 2], whole: [usize; 2]) {
    let [[m, n], [rows, ld]] = [there, whole];
    if n < ld {
        for row in codes.chunks_exact_mut(ld).take(m) {
            (n..ld).for_each(|j| row[j] = row[j % n]);
        }
    }
    for i in m..rows {
        codes.copy_within(i % m * ld..(i % m + 1) * ld, i * ld);
    }
}

impl Group {
    /// Makes ready for products of M, N and K.
    fn begin(&mut self, unit: &Unit, [m, n, k]: [usize; 3], from_c: bool) {
        (self.tiles, self.k, self.from_c) = (0, k, from_c);
        self.a.iter_mut().for_each(|tile| tile.begin(unit.a.storage_bits));
        self.b.iter_mut().for_each(|tile| tile.begin(unit.b.storage_bits));
        let blocks = |n: usize, width: usize| (0..n).step_by(width).map(move |i| i..n.min(i + width));
        let parts = blocks(m, ROWS).flat_map(|rows| blocks(n, COLUMNS).map(move |columns| [rows.clone(), columns]));
        self.parts.clear();
        self.parts.extend(parts);
    }

    /// All tiles of all products, each staged first; returns the products with tiles that were left out.
    fn compute(
        &mut self,
        kernel: &dyn SmallKernel,
        batch: &mut dyn Batch,
        stage: impl Fn([&dyn Source; 2], usize, &mut Self) -> Result<(), Error>,
    ) -> Result<Vec<usize>, Error> {
        let mut hard = Vec::new();
        let outcome = self.compute_whole_groups(kernel, batch, &mut hard, stage);
        // Products before one that fails are written.
        self.finish(kernel, batch, &mut hard)?;
        hard.dedup();
        outcome.map(|()| hard)
    }

    /// The same; the last tiles may be left in the group.
    fn compute_whole_groups(
        &mut self,
        kernel: &dyn SmallKernel,
        batch: &mut dyn Batch,
        hard: &mut Vec<usize>,
        stage: impl Fn([&dyn Source; 2], usize, &mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for t in 0..batch.count() {
            batch.expect(t + AHEAD);
            for part in 0..self.parts.len() {
                batch.product(t, &mut |sources, _| stage(sources, part, self))?;
                self.places[self.tiles] = (t, part);
                self.tiles += 1;
                if self.tiles == TILES {
                    self.finish(kernel, batch, hard)?;
                }
            }
        }
        Ok(())
    }

    /// Copies codes of A, as they are, to the next place.
    fn copy_a(&mut self, source: &dyn Source, part: usize) {
        let rows = self.parts[part][0].clone();
        self.a[self.tiles].copy(source, [rows, 0..self.k], self.k, &mut self.on_way);
    }

    /// The same of B.
    fn copy_b(&mut self, source: &dyn Source, part: usize) {
        let columns = self.parts[part][1].clone();
        self.b[self.tiles].copy(source, [0..self.k, columns], COLUMNS, &mut self.on_way);
    }

    /// Fills the next place up, and begins at C.
    fn complete(&mut self, part: usize, c: Option<&dyn Source>) {
        let (t, k) = (self.tiles, self.k);
        let [rows, columns] = &self.parts[part];
        self.a[t].repeat([rows.len(), k], [ROWS, k]);
        self.b[t].repeat([k, columns.len()], [k, COLUMNS]);
        if let (true, Some(c)) = (self.from_c, c) {
            if [rows.len(), columns.len()] != [ROWS, COLUMNS] {
                self.d[t].fill(0);
            }
            c.read_narrow([rows.clone(), columns.clone()], &mut self.d[t], COLUMNS);
        }
    }

    /// Computes the tiles there are, writes their D, and notes the products of those that were left out.
    fn finish(&mut self, kernel: &dyn SmallKernel, batch: &mut dyn Batch, hard: &mut Vec<usize>) -> Result<(), Error> {
        if self.tiles == 0 {
            return Ok(());
        }
        let Self { tiles: count, k, from_c, a, b, d, .. } = self;
        let of = |t: usize| if t < *count { t } else { 0 };
        let (a, b) = (from_fn(|t| a[of(t)].codes()), from_fn(|t| b[of(t)].codes()));
        let d = Results::Words(d);
        let left = kernel.run(&mut Tiles { count: *count, k: *k, from_c: *from_c, a, b, d });
        for (t, &(product, part)) in self.places.iter().take(self.tiles).enumerate() {
            if left >> t & 1 == 1 {
                hard.push(product);
            }
            batch.product(product, &mut |_, sink| {
                deliver(&self.d[t], &self.parts[part], sink);
                Ok(())
            })?;
        }
        self.tiles = 0;
        Ok(())
    }
}

/// Writes the part of a tile that is wanted.
fn deliver(d: &[u32; ROWS * COLUMNS], [rows, columns]: &[Range<usize>; 2], sink: &mut dyn Sink) {
    let width = columns.len();
    if width == COLUMNS {
        sink.write([rows.start, columns.start], width, Run::Narrow(&d[..rows.len() * COLUMNS]));
        return;
    }
    for (i, row) in rows.clone().zip(d.chunks_exact(COLUMNS)) {
        sink.write([i, columns.start], width, Run::Narrow(&row[..width]));
    }
}
