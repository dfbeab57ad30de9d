//! GPS(G) on register tiles: the machine's own f32 arithmetic, where nothing can be subnormal.
//!
//! Products of ordinary operands are exact in f32, so that the sum of two is one fused operation beside the other's
//! product; and they are multiples of 2^-126 with every sum of them and of ordinary states, so that no result needs to
//! be flushed, however sums cancel.

#![allow(clippy::needless_range_loop, reason = "a loop over rows indexes several arrays")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads through the panels' pointers")]

use super::{Family, Fields, MR, NR, Run, Scales, Set, Source, Tile, Tiles};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::buffer::Buffer;
use crate::simd::decode::{FAR, Reading, WINDOW};
use crate::simd::ops::array_of;
use crate::simd::pairwise::{Pairwise, SAFE, flushed_beside};
use crate::simd::rows::Body;
use crate::special::NanRule;
use crate::unit::Unit;
use std::sync::Arc;

/// The family, and the products of a step.
#[derive(Debug)]
struct Pairs {
    body: Pairwise,
    step: usize,
}

/// The kernel, for results in f32 and exact products in whole groups of 1, 2, 4 or 8.
pub(super) fn kernel<S: Set>(
    set: S,
    unit: &Unit,
    body: Pairwise,
    reading: Reading,
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    if !body.even || !body.bounded || !super::is_known(unit) {
        return None;
    }
    let whole = [(0..unit.shape.k).collect()];
    let source = |spec| Source::new(spec, reading, &whole, unit.shape.k);
    Some(Arc::new(Tiles {
        family: Pairs { body, step: unit.shape.k },
        name: "pairwise-f32",
        k: unit.shape.k,
        step: unit.shape.k,
        nan: F32.nan_code(nan)? as u32,
        a: source(unit.a),
        b: source(unit.b),
        set,
    }))
}

impl Family for Pairs {
    type Body = Pairwise;
    type Value = f32;
    type Scratch = ();

    fn body(&self) -> &Pairwise {
        &self.body
    }

    fn values(numbers: &mut Buffer, to: &mut Buffer, _count: usize, _scale: i32) {
        core::mem::swap(numbers, to);
    }

    #[inline(always)]
    fn number(x: f32, _scale: i32) -> f32 {
        x
    }

    fn scale(&self, _top: u8, _columns: bool) -> i32 {
        0
    }

    #[inline(always)]
    fn ordinary(&self, a: Fields, b: Fields, _scales: Scales) -> bool {
        const LOW: u8 = (127 - WINDOW) as u8;
        const HIGH: u8 = (127 + WINDOW) as u8;
        (a.low >= LOW) & (a.high <= HIGH) & (b.low >= LOW) & (b.high <= HIGH)
    }

    fn flags(&self, a: Fields, b: Fields) -> u8 {
        if self.ordinary(a, b, Scales { a: 0, b: 0 }) { 0 } else { FAR }
    }

    #[inline(always)]
    unsafe fn steps<S: Set>(&self, set: S, run: &mut Run<'_, Self>, tile: &mut Tile) -> u8 {
        let before = tile.0;
        // Magnitudes less 1 as integers: that of zero is the largest.
        let mut least = [u32::MAX; NR];
        for row in &mut tile.0 {
            *row = self.body.begin(*row);
            for j in 0..NR {
                least[j] = least[j].min((row[j].to_bits() & (u32::MAX >> 1)).wrapping_sub(1));
            }
        }
        if least.iter().any(|least| *least < SAFE.to_bits() - 1) {
            tile.0 = before;
            return 0;
        }
        // SAFETY: the caller's run, of whole groups of 1, 2, 4 or 8: `kernel` takes no others.
        unsafe {
            match self.body.group {
                1 => steps::<S, 1>(set, run, tile),
                2 => steps::<S, 2>(set, run, tile),
                4 => steps::<S, 4>(set, run, tile),
                _ => steps::<S, 8>(set, run, tile),
            }
        }
        !0
    }

    fn together(&self) -> usize {
        if self.body.flush_results { TOGETHER } else { 0 }
    }

    #[inline(always)]
    unsafe fn hard<S: Set>(
        &self,
        set: S,
        panels: (*const f32, *const f32),
        size: [usize; 2],
        rows: u8,
        tile: &mut Tile,
    ) {
        for (_, row) in tile.0.iter_mut().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
            *row = self.body.begin(*row);
        }
        // Beside flushed results only a -0 is read as something else.
        let read = if self.body.flush_inputs { self.step } else { size[0] };
        // SAFETY: the caller's panels, and groups as in `steps`.
        unsafe {
            match self.body.group {
                1 => flushed_steps::<S, 1>(set, panels, size, read, rows, tile),
                2 => flushed_steps::<S, 2>(set, panels, size, read, rows, tile),
                4 => flushed_steps::<S, 4>(set, panels, size, read, rows, tile),
                _ => flushed_steps::<S, 8>(set, panels, size, read, rows, tile),
            }
        }
    }
}

/// Steps that are done at once before a look whether rows have become NaN.
const TOGETHER: usize = 2;

/// d = d + group, group by group of `G` products, all of which may be too large or flushed, as may their sums. After so
/// many products d is `read` as a c: -0 as +0.
///
/// # Safety
/// As `Family::hard`; `k` is a multiple of `G`, and `width` at most `NR`.
#[inline(always)]
unsafe fn flushed_steps<S: Set, const G: usize>(
    set: S,
    (a, b): (*const f32, *const f32),
    [k, width]: [usize; 2],
    read: usize,
    rows: u8,
    tile: &mut Tile,
) {
    set.apart(
        #[inline(always)]
        || {
            for column in (0..width).step_by(2 * S::LANES) {
                for (r, row) in tile.0.iter_mut().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
                    // SAFETY: a whole vector of the row's 16 states, which are aligned to 64 bytes.
                    let mut d = unsafe { set.load_f32(row.as_ptr().add(column)) };
                    let mut next = read;
                    for from in (0..k).step_by(G) {
                        if from == next {
                            d = set.add_f32(d, set.splat_f32(0.0));
                            next += read;
                        }
                        let mut sums: [S::F32; G] = array_of(
                            #[inline(always)]
                            |i| {
                                // SAFETY: the panels hold k positions, of which groups are whole; `r` is below `MR`,
                                // and B's 16 values of a position are aligned to 64 bytes, as the states are.
                                let (a, b) = unsafe {
                                    (*a.add((from + i) * MR + r), set.load_f32(b.add((from + i) * NR + column)))
                                };
                                let b = set.unless_below_f32(b, flushed_beside(a));
                                set.flush_f32(set.mul_f32(set.splat_f32(a), b))
                            },
                        );
                        let mut count = G;
                        while count > 1 {
                            count /= 2;
                            for i in 0..count {
                                sums[i] = set.flush_f32(set.add_f32(sums[2 * i], sums[2 * i + 1]));
                            }
                        }
                        d = set.flush_f32(set.add_f32(d, sums[0]));
                    }
                    // SAFETY: where `d` was loaded from.
                    unsafe { set.store_f32(row.as_mut_ptr().add(column), d) }
                }
            }
        },
    );
}

/// d = d + group, group by group of `G` products.
///
/// # Safety
/// As `Family::steps`; the run's `k` is a multiple of `G`.
#[inline(always)]
unsafe fn steps<S: Set, const G: usize>(set: S, run: &Run<'_, Pairs>, tile: &mut Tile) {
    let Run { a, b, k, size: [_, width], .. } = *run;
    set.apart(
        #[inline(always)]
        || {
            for column in (0..width).step_by(2 * S::LANES) {
                // SAFETY: a whole vector of a row's 16 states, which are aligned to 64 bytes.
                let mut d: [S::F32; MR] = array_of(
                    #[inline(always)]
                    |r| unsafe { set.load_f32(tile.0[r].as_ptr().add(column)) },
                );
                for from in (0..k).step_by(G) {
                    // SAFETY: B's panel holds 16 values of each of k positions, of which groups are whole, aligned as
                    // states are.
                    let b: [S::F32; G] = array_of(
                        #[inline(always)]
                        |i| unsafe { set.load_f32(b.add((from + i) * NR + column)) },
                    );
                    for r in 0..MR {
                        // SAFETY: A's panel holds `MR` values of each of them.
                        let a: [S::F32; G] = array_of(
                            #[inline(always)]
                            |i| set.splat_f32(unsafe { *a.add((from + i) * MR + r) }),
                        );
                        // The sum of two products, and of four.
                        macro_rules! two {
                            ($i:expr) => {
                                set.fma_f32(a[$i], b[$i], set.mul_f32(a[$i + 1], b[$i + 1]))
                            };
                        }
                        macro_rules! four {
                            ($i:expr) => {
                                set.add_f32(two!($i), two!($i + 2))
                            };
                        }
                        d[r] = match G {
                            1 => set.fma_f32(a[0], b[0], d[r]),
                            2 => set.add_f32(d[r], two!(0)),
                            4 => set.add_f32(d[r], four!(0)),
                            _ => set.add_f32(d[r], set.add_f32(four!(0), four!(4))),
                        };
                    }
                }
                for r in 0..MR {
                    // SAFETY: where `d[r]` was loaded from.
                    unsafe { set.store_f32(tile.0[r].as_mut_ptr().add(column), d[r]) }
                }
            }
        },
    );
}
