//! Groups of two products, some of them with a subnormal operand (bf16's are below 2^-126).
//!
//! Ordinary products and states are multiples of 2^-50 (`super`). Beside them such a product is so small that f64's sum
//! is that of the others, where that is not zero. It matters only where that sum is a tie, and then by its sign alone.
//! So 2^-52 of its sign is added: an operand of such a size, times the other one's sign. (Where both are subnormal,
//! twice.) At a tie one of the two products is ordinary, for a state alone has 24 bits: then it is at most 2^-51 that
//! is added, and no other sum comes to a tie by it. Two lost products add 2^-50 at most, to a state that is at least
//! 2^-49 from any tie. All this holds for sums of at least 2^-24; a smaller one, or zero, makes the attempt vain.

use super::{Groups, MR, NR, Run, Scales, Set, States, Sums, TOGETHER, VECTORS};
use crate::simd::lanes::power;
use crate::simd::wide::in_order;
use core::ops::Range;

/// The exponents of the number added, and of the sums that it is too small for.
const LIFTED: i32 = -52;
const SMALL: i32 = -24;
/// Where neither panel's numbers are multiplied by more than 2 to this, products with a subnormal operand, the other
/// one below 1, are below 2^-110.
const MOST: i32 = 16;

/// Signs of a position's products that have a subnormal operand of one side: rows times columns is 0 for others.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Lift {
    rows: [f64; MR],
    columns: [f64; NR],
    step: usize,
}

/// Whether subnormal operands make products so small.
pub(super) const fn small(scales: Scales) -> bool {
    scales.a <= MOST && scales.b <= MOST
}

impl Sums {
    /// Notes the signs for these steps of a run, which are 32 at most, of two products.
    ///
    /// # Safety
    /// As `Family::steps`.
    #[inline(always)]
    pub(super) unsafe fn lifts(&self, run: &mut Run<'_, Self>, steps: Range<usize>) {
        // A bit for each position.
        const { assert!(TOGETHER <= u64::BITS as usize) }
        run.scratch.clear();
        let mut positions = [0u64; 2];
        for (positions, fields) in positions.iter_mut().zip(run.fields) {
            for (i, fields) in fields[steps.clone()].iter().enumerate() {
                *positions |= u64::from(fields.subnormal) << (2 * i);
            }
        }
        let [in_a, in_b] = positions;
        let mut left = in_a | in_b;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let p = 2 * steps.start + i;
            // SAFETY: the caller's promise.
            let (a, b) = unsafe { (&*run.a.add(p * MR).cast::<[f64; MR]>(), &*run.b.add(p * NR).cast::<[f64; NR]>()) };
            let [of_a, of_b] = [in_a >> i & 1 == 1, in_b >> i & 1 == 1];
            for of_a in [of_a, false].into_iter().take(1 + usize::from(of_a & of_b)) {
                let (rows, columns) = (sizes(of_a), sizes(!of_a));
                let (rows, columns) = (signs(a, run.scales.a, rows), signs(b, run.scales.b, columns));
                run.scratch.push(Lift { rows, columns, step: i / 2 });
            }
        }
    }
}

/// What the signs of subnormal operands and of others are multiplied by, on the side whose subnormal ones are meant or
/// on the other.
#[inline(always)]
fn sizes(meant: bool) -> [f64; 2] {
    if meant { [power(LIFTED), 0.0] } else { [1.0, 1.0] }
}

/// Signs, 0 for 0, times these sizes.
#[inline(always)]
fn signs<const N: usize>(x: &[f64; N], scale: i32, [subnormal, other]: [f64; 2]) -> [f64; N] {
    let (normal, mut to) = (power(scale - 126), [0.0; N]);
    for j in 0..N {
        let size = if x[j].abs() < normal { subnormal } else { other };
        to[j] = if x[j] == 0.0 { 0.0 } else { size.copysign(x[j]) };
    }
    to
}

/// As [`super::chain`], for groups of two. Whether all states stayed in the range, and all sums were large enough.
///
/// # Safety
/// As `Family::steps`.
#[inline(always)]
pub(super) unsafe fn chain<S: Set>(set: S, groups: Groups, lifts: &[Lift], states: &mut States) -> (bool, bool) {
    set.apart(
        #[inline(always)]
        || {
            let (mut beyond, mut least) = (set.splat(0.0), set.splat(f64::INFINITY));
            for block in groups.blocks::<S>() {
                let ([row, column], mut lifts) = (block, lifts);
                let mut d = states.load(set, block);
                for d in d.iter_mut().take(S::ROWS) {
                    // As there: c is never -0.
                    *d = [set.add(d[0], set.splat(0.0)), set.add(d[1], set.splat(0.0))];
                }
                for step in 0..groups.steps {
                    for p in 2 * step..2 * step + 2 {
                        in_order();
                        // SAFETY: the caller's promise.
                        let b = unsafe { groups.columns(set, p, column) };
                        for r in 0..S::ROWS {
                            // SAFETY: as above.
                            let a = unsafe { groups.row(set, p, row + r) };
                            d[r] = [set.fma(a, b[0], d[r][0]), set.fma(a, b[1], d[r][1])];
                        }
                    }
                    if lifts.first().is_some_and(|lift| lift.step == step) {
                        while let [lift, rest @ ..] = lifts
                            && lift.step == step
                        {
                            lifts = rest;
                            let at = lift.columns[column..][..VECTORS * S::LANES].as_ptr();
                            // SAFETY: two vectors, aligned.
                            let b = unsafe { [set.load(at), set.load(at.add(S::LANES))] };
                            for r in 0..S::ROWS {
                                let a = set.splat(lift.rows[row + r]);
                                d[r] = [set.fma(a, b[0], d[r][0]), set.fma(a, b[1], d[r][1])];
                            }
                        }
                        for r in 0..S::ROWS {
                            least = set.smaller(set.smaller(least, d[r][0]), d[r][1]);
                        }
                    }
                    for r in 0..S::ROWS {
                        d[r] = [set.round(d[r][0]), set.round(d[r][1])];
                        beyond = set.or(beyond, d[r][0], d[r][1]);
                    }
                }
                states.store(set, block, &d);
            }
            (set.below_two(beyond), set.all_less(set.splat(power(SMALL)), least))
        },
    )
}
