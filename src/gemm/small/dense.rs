//! Batches whose matrices stand one after another: tiles are read and written in place.

use super::{AHEAD, Batch, COLUMNS, Group, ROWS, Results, SmallKernel, Staged, TILES, TileCodes, Tiles};
use core::ops::Range;

/// Elements of a batch that a second-level cache holds, about.
const CACHED: usize = 1 << 18;

/// Matrix after matrix, row after row; one matrix of A or B may be that of all products.
pub(in super::super) struct Dense<'a> {
    pub(in super::super) operands: [DenseCodes<'a>; 2],
    pub(in super::super) d: DenseMut<'a>,
}

/// Codes that stand one after another.
#[derive(Clone, Copy)]
pub(in super::super) enum DenseCodes<'a> {
    Byte(&'a [u8]),
    Half(&'a [u16]),
    Word(&'a [u32]),
}

/// The same to write to.
pub(in super::super) enum DenseMut<'a> {
    Half(&'a mut [u16]),
    Single(&'a mut [u32]),
}

impl<'a> DenseCodes<'a> {
    fn len(self) -> usize {
        match self {
            Self::Byte(codes) => codes.len(),
            Self::Half(codes) => codes.len(),
            Self::Word(codes) => codes.len(),
        }
    }

    fn part(self, at: Range<usize>) -> Self {
        match self {
            Self::Byte(codes) => Self::Byte(&codes[at]),
            Self::Half(codes) => Self::Half(&codes[at]),
            Self::Word(codes) => Self::Word(&codes[at]),
        }
    }

    /// As a tile's, in `room` where they are bytes.
    fn tile(self, room: &'a mut [u16]) -> TileCodes<'a> {
        let codes = match self {
            Self::Word(codes) => return TileCodes::Words(codes),
            Self::Half(codes) => return TileCodes::Halves(codes),
            Self::Byte(codes) => codes,
        };
        room.iter_mut().zip(codes).for_each(|(to, &x)| *to = x.into());
        TileCodes::Halves(&room[..codes.len()])
    }

    fn prefetch(self) {
        match self {
            Self::Byte(codes) => prefetch(codes),
            Self::Half(codes) => prefetch(codes),
            Self::Word(codes) => prefetch(codes),
        }
    }
}

/// Pieces of an operand, each for so many tiles, and from the first one again after the last.
#[derive(Clone)]
struct Pieces<'a> {
    codes: DenseCodes<'a>,
    size: usize,
    times: usize,
    /// Where the next one is, and how often it was taken.
    at: usize,
    taken: usize,
}

impl<'a> Pieces<'a> {
    const fn new(codes: DenseCodes<'a>, size: usize, times: usize) -> Self {
        Self { codes, size, times, at: 0, taken: 0 }
    }

    fn take(&mut self) -> DenseCodes<'a> {
        let piece = self.codes.part(self.at..self.at + self.size);
        self.taken += 1;
        if self.taken == self.times {
            (self.taken, self.at) = (0, self.at + self.size);
            self.at = if self.at == self.codes.len() { 0 } else { self.at };
        }
        piece
    }

    /// The same, so many tiles ahead.
    fn ahead(&self, tiles: usize) -> Self {
        let mut ahead = self.clone();
        (0..tiles).for_each(|_| _ = ahead.take());
        ahead
    }
}

/// Tiles of B side by side, row of tiles after row of tiles of D.
struct Across<'a> {
    codes: DenseCodes<'a>,
    /// Elements of a matrix, and of its rows.
    size: usize,
    width: usize,
    /// Tiles of D above each other, and side by side.
    tiles: [usize; 2],
}

impl Across<'_> {
    /// The `t`-th tile of all, in a tile's room.
    fn tile<'r, const N: usize>(&self, t: usize, room: &'r mut Staged<N>) -> TileCodes<'r> {
        let ([parts, across], matrices) = (self.tiles, self.codes.len() / self.size);
        let first = t / (parts * across) % matrices * self.size + t % across * COLUMNS;
        let rows = self.size / self.width;
        let Staged { halves, words, .. } = room;
        match self.codes {
            DenseCodes::Byte(codes) => gather(codes, [first, self.width], &mut halves[..rows * COLUMNS]),
            DenseCodes::Half(codes) => gather(codes, [first, self.width], &mut halves[..rows * COLUMNS]),
            DenseCodes::Word(codes) => {
                words.resize(words.len().max(rows * COLUMNS), 0);
                gather(codes, [first, self.width], &mut words[..rows * COLUMNS]);
                return TileCodes::Words(&words[..rows * COLUMNS]);
            }
        }
        TileCodes::Halves(&halves[..rows * COLUMNS])
    }
}

/// Copies a tile's rows, which begin `ld` apart.
fn gather<T: Copy + Into<U>, U>(codes: &[T], [first, ld]: [usize; 2], to: &mut [U]) {
    for (to, row) in to.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(codes[first..].chunks(ld)) {
        to.iter_mut().zip(row).for_each(|(to, &x)| *to = x.into());
    }
}

/// Copies tiles from the `first` of all on to where they belong, `across` of them side by side.
fn scatter<T: Copy>(tiles: &[[T; ROWS * COLUMNS]], first: usize, across: usize, d: &mut [T]) {
    for (t, tile) in (first..).zip(tiles) {
        let at = (t / across * ROWS * across + t % across) * COLUMNS;
        let rows = d[at..].chunks_mut(across * COLUMNS);
        rows.zip(tile.as_chunks::<COLUMNS>().0).for_each(|(to, row)| to[..COLUMNS].copy_from_slice(row));
    }
}

impl Group {
    /// All tiles of all products, read where they are, and written there if they stand one above another: whole ones.
    /// Returns the products with tiles that were left out; `None` where something else is asked for.
    pub(super) fn compute_dense(
        &mut self,
        kernel: &dyn SmallKernel,
        batch: &mut dyn Batch,
        size: [usize; 3],
    ) -> Option<Vec<usize>> {
        let ([m, n, k], count) = (size, batch.count());
        let whole = m.is_multiple_of(ROWS) && n.is_multiple_of(COLUMNS) && !self.from_c;
        let Dense { operands: [a, b], mut d } = batch.dense().filter(|_| whole)?;
        let (parts, across, mut hard) = (m / ROWS, n / COLUMNS, Vec::new());
        let side_by_side = Across { codes: b, size: k * n, width: n, tiles: [parts, across] };
        // Where tiles stand side by side, B's pieces only say what to ask for ahead.
        let (mut a, mut b) = (Pieces::new(a, ROWS * k, across), Pieces::new(b, k * COLUMNS, parts));
        let tiles = count * parts * across;
        let mut halves = [[0; ROWS * COLUMNS]; TILES];
        // What the caches hold already need not be asked for.
        let far = count * (m * k + k * n + m * n) > CACHED;
        let mut ahead = far.then(|| [a.ahead(AHEAD), b.ahead(AHEAD)]);
        for first in (0..tiles).step_by(TILES) {
            let there = TILES.min(tiles - first);
            let (mut of_a, mut of_b) = ([TileCodes::Halves(&[]); TILES], [TileCodes::Halves(&[]); TILES]);
            for (tile, room) in of_a.iter_mut().zip(&mut self.a).take(there) {
                *tile = a.take().tile(&mut room.halves);
            }
            for (t, (tile, room)) in (first..).zip(of_b.iter_mut().zip(&mut self.b).take(there)) {
                *tile = if across == 1 { b.take().tile(&mut room.halves) } else { side_by_side.tile(t, room) };
            }
            for pieces in ahead.iter_mut().flatten() {
                (0..TILES).for_each(|_| pieces.take().prefetch());
            }
            for t in there..TILES {
                (of_a[t], of_b[t]) = (of_a[0], of_b[0]);
            }
            let (from, to) = (first * ROWS * COLUMNS, (first + there) * ROWS * COLUMNS);
            let results = match &mut d {
                DenseMut::Half(d) if across == 1 => Results::Halves(d[from..to].as_chunks_mut().0),
                DenseMut::Single(d) if across == 1 => Results::Words(d[from..to].as_chunks_mut().0),
                DenseMut::Half(_) => Results::Halves(&mut halves[..there]),
                DenseMut::Single(_) => Results::Words(&mut self.d[..there]),
            };
            let left = kernel.run(&mut Tiles { count: there, k, from_c: false, a: of_a, b: of_b, d: results });
            match &mut d {
                DenseMut::Half(d) if across > 1 => scatter(&halves[..there], first, across, d),
                DenseMut::Single(d) if across > 1 => scatter(&self.d[..there], first, across, d),
                _ => (),
            }
            match &d {
                DenseMut::Half(d) if far => expect(&d[to..], there),
                DenseMut::Single(d) if far => expect(&d[to..], there),
                _ => (),
            }
            hard.extend((0..there).filter(|t| left >> t & 1 == 1).map(|t| (first + t) / (parts * across)));
        }
        hard.dedup();
        Some(hard)
    }
}

/// Asks for the places of the tiles that are expected after these.
fn expect<T>(d: &[T], tiles: usize) {
    if let Some(d) = d.get((AHEAD - TILES) * ROWS * COLUMNS..) {
        prefetch(&d[..d.len().min(tiles * ROWS * COLUMNS)]);
    }
}

/// Asks for codes to be brought into the caches.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "elsewhere the processor finds them itself"))]
fn prefetch<T>(codes: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for code in codes.iter().step_by(64 / size_of::<T>()) {
        crate::simd::prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }, _>(code);
    }
}
