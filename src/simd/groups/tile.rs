//! Tiles of 4 rows by 32 columns: groups' sums by integer dot products, and steps that cut nothing off.

#![allow(clippy::needless_range_loop, reason = "rows and vectors index several arrays")]
#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

use super::set::Set;
use core::ops::Range;

/// Rows of a tile.
pub(super) const ROWS: usize = 4;
/// Columns of a tile.
pub(super) const COLUMNS: usize = 32;
/// Vectors across a block of a tile that registers hold.
pub(super) const VECTORS: usize = 2;

/// f32 states.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct States(pub(super) [[f32; COLUMNS]; ROWS]);

/// A block of rows of A, and one of columns of B: `pack` says how they are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands<'a> {
    pub(super) a: &'a [i8],
    pub(super) starts: &'a [[i32; ROWS]],
    pub(super) scales_a: &'a [[f32; ROWS]],
    pub(super) b: &'a [u8],
    pub(super) scales_b: &'a [[f32; COLUMNS]],
    pub(super) exponents_a: &'a [[i32; ROWS]],
    pub(super) present_a: &'a [[i32; ROWS]],
    pub(super) exponents_b: &'a [[i32; COLUMNS]],
    pub(super) present_b: &'a [[i32; COLUMNS]],
    /// How much higher B's bytes are than the numbers.
    pub(super) offset: i32,
    /// K of a step, and of a group.
    pub(super) step: usize,
    pub(super) group: usize,
}

/// Exact sums of a group's products, `[row][vector]`, of as many rows as a set takes at once.
pub(super) type Sums<V> = [[V; VECTORS]; ROWS];

impl Operands<'_> {
    pub(super) const fn per_step(&self) -> usize {
        self.step / self.group
    }

    /// The sums of group `g`, counted over all steps, on a block of rows and columns; groups are of `4 Q` products, or
    /// with 0 of any number.
    ///
    /// # Safety
    /// The group is in the panels.
    #[inline(always)]
    pub(super) unsafe fn sums<S: Set, const Q: usize>(
        &self,
        set: S,
        g: usize,
        [row, column]: [usize; 2],
    ) -> Sums<S::Int> {
        let quads = if Q == 0 { self.group / 4 } else { Q };
        let (s, of_step) = (g / self.per_step(), g % self.per_step());
        let mut sums = [[set.begin(0); VECTORS]; ROWS];
        // SAFETY: the caller's promise; a quad is 4 bytes of each row, and 4 of each column.
        unsafe {
            let a = self.a.as_ptr().add((s * ROWS + row) * self.step + of_step * self.group);
            let b = self.b.as_ptr().add(g * self.group * COLUMNS + 4 * column);
            let starts = &self.starts.get_unchecked(g)[row..];
            for r in 0..S::ROWS {
                sums[r] = [set.begin(starts[r]); VECTORS];
            }
            for q in 0..quads {
                let b = b.add(4 * q * COLUMNS);
                let b = [set.load_bytes(b), set.load_bytes(b.add(4 * S::LANES))];
                for r in 0..S::ROWS {
                    let a = set.words(a.add(r * self.step + 4 * q).cast::<i32>().read_unaligned());
                    sums[r] = [set.dot(sums[r][0], b[0], a), set.dot(sums[r][1], b[1], a)];
                }
            }
            for r in 0..S::ROWS {
                sums[r] = [set.end(starts[r], sums[r][0]), set.end(starts[r], sums[r][1])];
            }
        }
        sums
    }

    /// Steps whose sums f32 holds: exact in f32, and rounded once with c, toward zero or to nearest.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline(always)]
    pub(super) unsafe fn narrow<S: Set, const Q: usize, const ZERO: bool>(
        &self,
        set: S,
        steps: Range<usize>,
        block: [usize; 2],
        c: &mut States,
    ) {
        let [row, column] = block;
        for s in steps {
            let mut total = [[set.splat(0.0); VECTORS]; ROWS];
            for g in s * self.per_step()..(s + 1) * self.per_step() {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums::<S, Q>(set, g, block) };
                // SAFETY: as above; vectors of floats, aligned as the panel is.
                let b = unsafe {
                    let at = self.scales_b.get_unchecked(g).as_ptr().add(column);
                    [set.load(at), set.load(at.add(S::LANES))]
                };
                for r in 0..S::ROWS {
                    // SAFETY: as above.
                    let a = set.splat(unsafe { self.scales_a.get_unchecked(g)[row + r] });
                    for v in 0..VECTORS {
                        total[r][v] = set.fma(set.float(sums[r][v]), set.mul(a, b[v]), total[r][v]);
                    }
                }
            }
            for r in 0..S::ROWS {
                for v in 0..VECTORS {
                    let c = c.0[row + r][column + v * S::LANES..][..S::LANES].as_mut_ptr();
                    // SAFETY: a vector of floats, aligned as the states are.
                    unsafe { set.store(c, set.add::<ZERO>(set.load(c), total[r][v])) }
                }
            }
        }
    }

    /// Steps whose sums only f64 holds.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline(always)]
    pub(super) unsafe fn wide<S: Set, const Q: usize, const ZERO: bool>(
        &self,
        set: S,
        steps: Range<usize>,
        block: [usize; 2],
        c: &mut States,
    ) {
        let ([row, column], lanes) = (block, S::LANES / 2);
        for s in steps {
            let mut total = [[set.splat_wide(0.0); 2 * VECTORS]; ROWS];
            for r in 0..S::ROWS {
                let c = &c.0[row + r][column..][..VECTORS * S::LANES];
                for h in 0..2 * VECTORS {
                    // SAFETY: half a vector of floats, aligned.
                    total[r][h] = unsafe { set.load_wide(c.as_ptr().add(lanes * h)) };
                }
            }
            for g in s * self.per_step()..(s + 1) * self.per_step() {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums::<S, Q>(set, g, block) };
                for h in 0..2 * VECTORS {
                    // SAFETY: as above; half a vector of floats.
                    let b = unsafe { set.load_wide(self.scales_b.get_unchecked(g).as_ptr().add(column + lanes * h)) };
                    for r in 0..S::ROWS {
                        // SAFETY: as above.
                        let a = set.splat_wide(unsafe { self.scales_a.get_unchecked(g)[row + r] }.into());
                        let sum = set.float_wide(sums[r][h / 2], h % 2 == 1);
                        total[r][h] = set.fma_wide(sum, set.mul_wide(a, b), total[r][h]);
                    }
                }
            }
            for r in 0..S::ROWS {
                let c = &mut c.0[row + r][column..][..VECTORS * S::LANES];
                for h in 0..2 * VECTORS {
                    // SAFETY: half a vector of floats, aligned.
                    unsafe { set.store_narrow::<ZERO>(c.as_mut_ptr().add(lanes * h), total[r][h]) }
                }
            }
        }
    }
}
