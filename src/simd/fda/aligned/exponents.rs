//! The largest exponents of a step's products, in bytes, for all columns at once.

use super::{Places, Vectors};
use crate::simd::fda::NR;
use crate::simd::fda::step::{Consts, EXP32, Step};
use core::ops::Range;

/// The exponent fields of the largest of products `ks`, for four rows from `row` on; returns the pieces in which an
/// operand below the window might matter.
///
/// # Safety
/// As `steps_fast`.
#[inline(always)]
pub(super) unsafe fn exponents<S: Vectors, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    row: usize,
    ks: Range<usize>,
    to: Places,
) -> u32 {
    let mut doubt = 0;
    for d in (0..NR / 4).step_by(2 * S::LANES) {
        // SAFETY (whole function): the caller's promise; the buffer holds 16 words a row.
        let (fields, more) = unsafe { largest::<S, L>(set, p, q, row, ks.clone(), d) };
        doubt |= more;
        for (r, fields) in fields.into_iter().enumerate() {
            for (h, field) in fields.into_iter().enumerate() {
                unsafe { set.store(to.largest.add((row + r) * NR / 4 + d + h * S::LANES), field) }
            }
        }
    }
    doubt
}

/// `exponents` of two vectors of a row, from the `d`-th of 16 words on: byte `4 j + t` of word `j` is of column `16 t + j`.
///
/// # Safety
/// As `steps_fast`.
#[inline(always)]
pub(in crate::simd::fda) unsafe fn largest<S: Vectors, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    row: usize,
    ks: Range<usize>,
    d: usize,
) -> ([[S::V; 2]; 4], u32) {
    let (l, mut doubt) = (q.length::<L>(), 0);
    let (sub, floor) = (set.splat(bytes(q.bias_sub)), set.splat(bytes(q.floor_field)));
    // Products of operands below the window lie below this.
    let safe = set.splat(bytes(95 + 127 + 1));
    let mut best = [[set.splat(0); 2]; 4];
    for k in ks {
        // SAFETY (whole function): the panels hold L * NR bytes of B and L * MR words of A.
        let b = unsafe { p.b_exp.add(k * NR).cast::<u32>().add(d) };
        let b = unsafe { [set.load(b), set.load(b.add(S::LANES))] };
        for (r, best) in best.iter_mut().enumerate() {
            let a = set.splat(unsafe { *p.a_exp.add((row + r) * l + k) });
            *best = [set.max_bytes(best[0], set.add_bytes(a, b[0])), set.max_bytes(best[1], set.add_bytes(a, b[1]))];
        }
    }
    for (r, best) in best.iter_mut().enumerate() {
        for best in best {
            if q.tiny & 1 != 0 {
                let below = set.below_bytes(*best, safe);
                for t in 0..4 {
                    doubt |= u32::from(below >> t & 0x1111_1111 != 0) << (4 * (row + r) + t);
                }
            }
            *best = set.max_bytes(set.sub_bytes(*best, sub), floor);
        }
    }
    (best, doubt)
}

/// The exponent fields of bytes `4 j + t`, for each `t`, in place.
#[inline(always)]
pub(super) fn fields<S: Vectors>(set: S, largest: S::V) -> [S::V; 4] {
    let field = set.splat(EXP32 as u32);
    // Other bits stand around them.
    [
        set.and(set.left::<23>(largest), field),
        set.and(set.left::<15>(largest), field),
        set.and(set.left::<7>(largest), field),
        set.and(set.right::<1>(largest), field),
    ]
}

/// A byte four times.
const fn bytes(x: u8) -> u32 {
    x as u32 * 0x0101_0101
}
