//! The largest exponents of a step's products, in bytes, for all columns at once.

use super::{Places, Vectors};
use crate::simd::fda::step::{Consts, Step};
use crate::simd::fda::{MR, NR};
use core::ops::Range;

/// The exponent fields of the largest of products `ks`, for 8 rows by 64 columns; returns the pieces in which an
/// operand below the window might matter.
///
/// # Safety
/// As `super::group`; the step has products `ks`, and where `L` is 4 or 8 no others.
#[inline(always)]
pub(super) unsafe fn exponents<S: Vectors, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    ks: Range<usize>,
    to: Places,
) -> u32 {
    // SAFETY: each takes the same products, panels and buffers.
    unsafe {
        if q.tiny & 1 == 0 {
            return stored::<S, L, { look::NOT }>(set, p, q, ks, to);
        }
        // Where all lanes have columns, hardly ever one of any row.
        if stored::<S, L, { look::ALL }>(set, p, q, ks.clone(), to) == 0 {
            return 0;
        }
        stored::<S, L, { look::EACH }>(set, p, q, ks, to)
    }
}

/// Whether to look for operands below the window that might matter.
pub(in crate::simd::fda) mod look {
    pub(in crate::simd::fda) const NOT: u8 = 0;
    /// In all pieces at once.
    pub(in crate::simd::fda) const ALL: u8 = 1;
    /// In each.
    pub(in crate::simd::fda) const EACH: u8 = 2;
}

/// `exponents`; where all pieces are looked at together, any number stands for any of them.
///
/// # Safety
/// As `exponents`.
#[inline(always)]
unsafe fn stored<S: Vectors, const L: usize, const LOOK: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    ks: Range<usize>,
    to: Places,
) -> u32 {
    let (mut doubt, mut least) = (0, set.splat(!0));
    if L == 4 || L == 8 {
        // So few of B that registers hold them. A loop that is not unrolled is faster where the rest of a step is
        // short: a hundredth of all at L = 4 on Zen 5.
        debug_assert!(ks.len() == L);
        for i in 0..core::hint::black_box(NR / 4 / S::LANES) {
            let d = i * S::LANES;
            let mut b = [set.splat(0); L];
            for k in 0..L {
                // SAFETY: of a product's 64 bytes in B's panel the `i`-th vector, aligned; `ks` are `L` products.
                b[k] = unsafe { set.load(p.b_exp.add((ks.start + k) * NR).cast::<u32>().add(d)) };
            }
            for row in 0..MR {
                let a = p.a_exp.wrapping_add(row * L + ks.start);
                // SAFETY: the row has `L` words in A's panel, all of them of `ks`.
                let mut best = set.add_bytes(set.splat(unsafe { *a }), b[0]);
                for k in 1..L {
                    // SAFETY: as above.
                    best = set.max_bytes(best, set.add_bytes(set.splat(unsafe { *a.add(k) }), b[k]));
                }
                let (field, more) = fields::<S, LOOK>(set, q, best, &mut least);
                doubt |= more << (4 * row);
                // SAFETY: `largest` has 16 words for the row, of which these are the `i`-th vector.
                unsafe { set.store(to.largest.add(row * NR / 4 + d), field) }
            }
        }
        return doubt | doubts::<S, LOOK>(set, least);
    }
    for row in (0..MR).step_by(4) {
        for d in (0..NR / 4).step_by(2 * S::LANES) {
            // SAFETY: the first or the last four of 8 rows; two vectors from `d` on end within 16 words.
            let (fields, more) = unsafe { largest::<S, L, LOOK>(set, p, q, row, ks.clone(), d) };
            doubt |= more;
            for (r, fields) in fields.into_iter().enumerate() {
                for (h, field) in fields.into_iter().enumerate() {
                    // SAFETY: `largest` has 16 words for each row, of which these are the vector at `d`, or the next.
                    unsafe { set.store(to.largest.add((row + r) * NR / 4 + d + h * S::LANES), field) }
                }
            }
        }
    }
    doubt
}

/// The exponent fields of bytes, and in which of the four places some operand below the window might matter. Where all
/// are looked at together, the least bytes are noted instead.
#[inline(always)]
fn fields<S: Vectors, const LOOK: u8>(set: S, q: &Consts, best: S::V, least: &mut S::V) -> (S::V, u32) {
    let doubt = if LOOK == look::EACH { below_window(set, best) } else { 0 };
    if LOOK == look::ALL {
        *least = set.min_bytes(*least, best);
    }
    (set.max_bytes(set.sub_bytes(best, set.splat(bytes(q.bias_sub))), set.splat(bytes(q.floor_field))), doubt)
}

/// Where all pieces are looked at together.
#[inline(always)]
fn doubts<S: Vectors, const LOOK: u8>(set: S, least: S::V) -> u32 {
    if LOOK == look::ALL { below_window(set, least) } else { 0 }
}

/// In which of the four places a byte is so low that products of operands below the window might be as large.
#[inline(always)]
fn below_window<S: Vectors>(set: S, best: S::V) -> u32 {
    let mut below = set.below_bytes(best, set.splat(bytes(95 + 127 + 1)));
    for bits in [16, 8, 4] {
        below |= below >> bits;
    }
    below & 0xF
}

/// `exponents` of four rows, from `row` on, by two vectors, from the `d`-th of 16 words on: byte `4 j + t` of word `j`
/// is of column `16 t + j`.
///
/// # Safety
/// `p` points into panels of a step that has products `ks`, B's exponents aligned to 64 bytes; it has `L` products, or
/// with 0 any number. `row` is 0 or 4, `d` 0 or 8, and two vectors from there on end within 16 words.
#[inline(always)]
pub(in crate::simd::fda) unsafe fn largest<S: Vectors, const L: usize, const LOOK: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    row: usize,
    ks: Range<usize>,
    d: usize,
) -> ([[S::V; 2]; 4], u32) {
    let (l, mut doubt, mut least) = (q.length::<L>(), 0, set.splat(!0));
    // One base, so that what is left of addresses are constants.
    let a = p.a_exp.wrapping_add(row * l);
    let mut best = [[set.splat(0); 2]; 4];
    for k in ks {
        // SAFETY: B's panel has `NR` bytes for product `k`: 16 words, of which these are two vectors.
        let b = unsafe {
            let b = p.b_exp.add(k * NR).cast::<u32>().add(d);
            [set.load(b), set.load(b.add(S::LANES))]
        };
        for (r, best) in best.iter_mut().enumerate() {
            // SAFETY: A's panel has `l` words for each of 8 rows, of which these are four from `row` on.
            let a = set.splat(unsafe { *a.add(r * l + k) });
            *best = [set.max_bytes(best[0], set.add_bytes(a, b[0])), set.max_bytes(best[1], set.add_bytes(a, b[1]))];
        }
    }
    for (r, best) in best.iter_mut().enumerate() {
        for best in best {
            let more;
            (*best, more) = fields::<S, LOOK>(set, q, *best, &mut least);
            doubt |= more << (4 * r);
        }
    }
    (best, (doubt | doubts::<S, LOOK>(set, least)) << (4 * row))
}

/// A byte four times.
const fn bytes(x: u8) -> u32 {
    x as u32 * 0x0101_0101
}
