//! GPS(G) on register tiles: the machine's own f32 arithmetic, where nothing can be subnormal.
//!
//! Products of ordinary operands are exact in f32, so that the sum of two is one fused operation beside the other's
//! product; and they are multiples of 2^-126 with every sum of them and of ordinary states, so that no result needs to
//! be flushed, however sums cancel.

#![allow(clippy::needless_range_loop, reason = "a loop over rows indexes several arrays")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the function says once why its loads and stores are sound")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads through the panels' pointers")]

use super::{Family, Fields, MR, NR, Run, Scales, Set, Source, Tile, Tiles};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::buffer::Buffer;
use crate::simd::decode::{FAR, Reading, WINDOW};
use crate::simd::pairwise::{Pairwise, SAFE};
use crate::simd::rows::Body;
use crate::special::NanRule;
use crate::unit::Unit;
use std::sync::Arc;

/// The family.
#[derive(Debug)]
struct Pairs(Pairwise);

/// The kernel, for results in f32 and exact products.
pub(super) fn kernel<S: Set>(
    set: S,
    unit: &Unit,
    body: Pairwise,
    reading: Reading,
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    if !body.bounded || !super::is_f32(unit) {
        return None;
    }
    let whole = [(0..unit.shape.k).collect()];
    let source = |spec| Source::new(spec, reading, &whole, unit.shape.k);
    Some(Arc::new(Tiles {
        family: Pairs(body),
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
        &self.0
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
            *row = self.0.begin(*row);
            for j in 0..NR {
                least[j] = least[j].min((row[j].to_bits() & (u32::MAX >> 1)).wrapping_sub(1));
            }
        }
        if least.iter().any(|least| *least < SAFE.to_bits() - 1) {
            tile.0 = before;
            return 0;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.0.group {
                1 => steps::<S, 1>(set, run, tile),
                2 => steps::<S, 2>(set, run, tile),
                4 => steps::<S, 4>(set, run, tile),
                _ => steps::<S, 8>(set, run, tile),
            }
        }
        !0
    }
}

/// d = d + group, group by group of `G` products.
///
/// # Safety
/// As `Family::steps`.
#[inline(always)]
unsafe fn steps<S: Set, const G: usize>(set: S, run: &Run<'_, Pairs>, tile: &mut Tile) {
    let Run { a, b, k, size: [_, width], .. } = *run;
    set.apart(
        #[inline(always)]
        || {
            for column in (0..width).step_by(2 * S::LANES) {
                // SAFETY: a vector of 16 states, aligned.
                let mut d: [S::F32; MR] = core::array::from_fn(
                    #[inline(always)]
                    |r| unsafe { set.load_f32(tile.0[r].as_ptr().add(column)) },
                );
                for from in (0..k).step_by(G) {
                    // SAFETY: the panels hold k positions, B's aligned.
                    let b: [S::F32; G] = core::array::from_fn(
                        #[inline(always)]
                        |i| unsafe { set.load_f32(b.add((from + i) * NR + column)) },
                    );
                    for r in 0..MR {
                        // SAFETY: as above.
                        let a: [S::F32; G] = core::array::from_fn(
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
                    // SAFETY: as above.
                    unsafe { set.store_f32(tile.0[r].as_mut_ptr().add(column), d[r]) }
                }
            }
        },
    );
}
