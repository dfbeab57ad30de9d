//! Groups whose sums f64 may round: the rounding to 24 bits is right all the same, but near ties.

use super::{GRID, Groups, LAST_HIGH, MR, NR, Scales, Set, States, Sums, VECTORS, Vectors};
use crate::simd::exact::{pair, rounded, split};
use crate::simd::lanes::power;
use core::slice;

impl Sums {
    /// Groups whose sums in f64 may be rounded: where such a sum is so near a tie, or so small, that this could have
    /// changed its rounding to 24 bits, the vector is done again. All others are multiples of the last place then.
    ///
    /// # Safety
    /// As `Family::steps`.
    #[inline(always)]
    pub(super) unsafe fn doubtful<S: Set, const G: usize>(
        &self,
        set: S,
        groups: Groups,
        scales: Scales,
        states: &mut States,
        on_grid: &mut bool,
    ) -> bool {
        set.apart(
            #[inline(always)]
            || {
                let mut beyond = set.splat(0.0);
                *on_grid = true;
                for block in groups.blocks::<S>() {
                    let mut d = states.load(set, block);
                    // SAFETY: the caller's promise.
                    let (reached, all_on_grid) = unsafe { self.block::<S, G>(set, groups, block, scales, &mut d) };
                    states.store(set, block, &d);
                    beyond = set.or(beyond, beyond, reached);
                    *on_grid &= all_on_grid;
                }
                set.below_two(beyond)
            },
        )
    }

    /// All groups of a block. Returns the bits of its states, and whether they are multiples of the last place in the
    /// end.
    ///
    /// # Safety
    /// As `Family::steps`.
    #[inline(always)]
    unsafe fn block<S: Set, const G: usize>(
        &self,
        set: S,
        groups: Groups,
        [row, column]: [usize; 2],
        scales: Scales,
        states: &mut Vectors<S::F64>,
    ) -> (S::F64, bool) {
        let group = if G == 0 { groups.group } else { G };
        let error = set.splat(2.0 * errors(group));
        let (mut beyond, mut on_grid) = (set.splat(0.0), true);
        let mut before = *states;
        for step in 0..groups.steps {
            let mut d = before;
            for p in step * group..(step + 1) * group {
                // SAFETY: the caller's promise.
                let b = unsafe { groups.columns(set, p, column) };
                for r in 0..S::ROWS {
                    // SAFETY: as above.
                    let a = unsafe { groups.row(set, p, row + r) };
                    d[r] = [set.quiet_fma(a, b[0], d[r][0]), set.quiet_fma(a, b[1], d[r][1])];
                }
            }
            let mut nearest = set.splat(f64::INFINITY);
            let mut from_tie = [[nearest; VECTORS]; MR];
            for r in 0..S::ROWS {
                for h in 0..VECTORS {
                    let sum = d[r][h];
                    d[r][h] = set.round(sum);
                    from_tie[r][h] = distance(set, sum, d[r][h]);
                    nearest = set.min(nearest, from_tie[r][h]);
                }
            }
            if !set.all_less(error, nearest) {
                let (a, b) = (groups.a.wrapping_add(step * group * MR), groups.b.wrapping_add(step * group * NR));
                // SAFETY: the panels hold the group's positions.
                let operands = unsafe { [slice::from_raw_parts(a, group * MR), slice::from_raw_parts(b, group * NR)] };
                let block = Doubt { operands, at: [row, column], scale: scales.a + scales.b, before: &before };
                // Copies, so that the others stay in registers.
                let (mut again, distances) = (d, from_tie);
                let all_on_grid = set.apart(
                    #[inline(always)]
                    || match S::LANES {
                        8 => self.redo::<S, 8>(set, &block, (&distances, error), &mut again),
                        4 => self.redo::<S, 4>(set, &block, (&distances, error), &mut again),
                        _ => self.redo::<S, 2>(set, &block, (&distances, error), &mut again),
                    },
                );
                d = again;
                // Earlier groups' states are rounded again.
                on_grid = all_on_grid || step + 1 < groups.steps;
            }
            for r in 0..S::ROWS {
                beyond = set.or(beyond, d[r][0], d[r][1]);
            }
            before = d;
        }
        *states = before;
        (beyond, on_grid)
    }

    /// Those vectors, of `N` states, whose distance from a tie is no more than the error, without any error. Returns
    /// whether all are multiples of the last place.
    #[inline(always)]
    fn redo<S: Set, const N: usize>(
        &self,
        set: S,
        block: &Doubt<'_, S>,
        (distances, error): (&Vectors<S::F64>, S::F64),
        states: &mut Vectors<S::F64>,
    ) -> bool {
        let [row, column] = block.at;
        let (a, b) = (block.operands[0].as_chunks::<MR>().0, block.operands[1].as_chunks::<N>().0);
        let (up, down, mut on_grid) = (power(block.scale), power(-block.scale), true);
        // Found without a branch for each, which nothing predicts.
        let mut vectors = 0u32;
        for n in 0..S::ROWS * VECTORS {
            vectors |= u32::from(!set.all_less(error, distances[n / VECTORS][n % VECTORS])) << n;
        }
        while vectors != 0 {
            let n = vectors.trailing_zeros() as usize;
            let (r, h) = (n / VECTORS, n % VECTORS);
            vectors &= vectors - 1;
            let products = a.iter().map(|a| a[row + r]).zip(b[column / N + h..].iter().step_by(NR / N));
            let (mut high, mut low) = if self.body.group == 2 { pair(products) } else { split(products, LAST_HIGH) };
            let (mut state, mut c) = (Aligned([0f64; N]), [0f32; N]);
            // SAFETY: a vector, aligned.
            unsafe { set.store(state.0.as_mut_ptr(), block.before[r][h]) }
            for j in 0..N {
                (high[j], low[j]) = (high[j] * down, low[j] * down);
                c[j] = (state.0[j] * down) as f32;
            }
            let d = rounded((high, low), c);
            for j in 0..N {
                state.0[j] = f64::from(d[j]) * up;
                on_grid &= (state.0[j] + GRID) - GRID == state.0[j];
            }
            // SAFETY: as above.
            states[r][h] = unsafe { set.load(state.0.as_ptr()) };
        }
        on_grid
    }
}

/// A group on a block of states.
struct Doubt<'a, S: Set> {
    /// A's and B's panels from the group's first position on.
    operands: [&'a [f64]; 2],
    /// The block's first row and column.
    at: [usize; 2],
    /// The exponent of the power that states are multiplied by.
    scale: i32,
    before: &'a Vectors<S::F64>,
}

/// Aligned to vectors.
#[repr(align(64))]
struct Aligned<const N: usize>([f64; N]);

/// The most by which a sum of so many products is wrong: all but the last one are below 4.
const fn errors(group: usize) -> f64 {
    group as f64 / (1u64 << 52) as f64
}

/// How far a sum that was rounded to `d` is from the nearest tie; never more than half a place, and 0 or less for 0.
/// Where it is more than twice the sum's error, the error does not change the rounding: a place then has at least four
/// errors' size, so that below a power of two, where places are half as large, no tie is met either. And such a place
/// is a multiple of the last one.
#[inline(always)]
fn distance<S: Set>(set: S, x: S::F64, d: S::F64) -> S::F64 {
    set.quiet_fma(set.power(x), set.splat(1.0 / (1u64 << 24) as f64), set.negative(set.sub(x, d)))
}
