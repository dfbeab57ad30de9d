//! FDA with products aligned one by one: for sets without a rounding mode for each instruction, and for steps of few
//! products (`few`).
//!
//! A product of f32 values is exact in f32 where both significands have 24 bits together. Times `2^(F - e_max)` and
//! truncated to an integer it is a whole number of truncation steps, as SPEC section 3 has it; these are below 2^27,
//! so that a 32-bit integer holds the sum of 16 with c's. Of longer steps halves are summed, and pieces of which one
//! is large are left to the wide kernel.
//!
//! Above F = 25 a pair of integers takes a product: the whole units of `2^(e_max - F + 15)`, and of the rest, which is
//! exact in f32 as well, those of `2^(e_max - F)`.
//!
//! The largest exponents are found in bytes, for all columns at once, as in the other kernels.
//!
//! `round_down` has other sums of the same products.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]
#![allow(clippy::needless_range_loop, reason = "rows and vectors index several arrays at once")]

mod end;
mod exponents;
mod few;
mod fused;
mod round_down;
mod small;
mod vector;

use super::micro::Advance;
use super::step::{Consts, EXP32, LEAST_F16, Step};
use super::{MR, NR, align, out};
use core::mem::MaybeUninit;
use core::ops::Range;
use end::end;
use exponents::exponents;
pub(super) use exponents::{largest, look};
pub(super) use few::steps_few;
pub(super) use small::Readers;
pub(super) use vector::Vectors;

/// Products whose sum, with c, i32 holds.
const CHUNK: usize = 16;
/// Bits of F that pairs of integers have in the lower one.
pub(super) const REST: i32 = 15;
/// A sum of half a step plus this must be below 2^30: two of them and c then fit.
const ROOM: u32 = 1 << 27;

/// What passes from one part of a step to the next, for 8 rows by 64 columns.
#[repr(C, align(64))]
struct Buffers {
    /// The largest products' exponent fields: byte `4 j + t` of a row that of column `16 t + j`.
    largest: [MaybeUninit<u32>; MR * NR / 4],
    /// `2^(F - e_max)`.
    by: [MaybeUninit<u32>; MR * NR],
    /// In units of `2^(e_max - F)`, or of `2^15` times that.
    sums: [MaybeUninit<u32>; MR * NR],
    /// What is left of them then.
    rests: [MaybeUninit<u32>; MR * NR],
}

/// Where these are.
#[derive(Clone, Copy)]
struct Places {
    largest: *mut u32,
    by: *mut u32,
    sums: *mut u32,
    rests: *mut u32,
}

impl Places {
    #[inline(always)]
    fn of(buffers: &mut MaybeUninit<Buffers>) -> Self {
        let at = buffers.as_mut_ptr();
        // SAFETY: fields of the `Buffers` that are borrowed here; only their places are taken, and nothing is read.
        unsafe {
            Self {
                largest: (&raw mut (*at).largest).cast(),
                by: (&raw mut (*at).by).cast(),
                sums: (&raw mut (*at).sums).cast(),
                rests: (&raw mut (*at).rests).cast(),
            }
        }
    }
}

/// `Micro::steps_fast`.
///
/// # Safety
/// As there, of panels whose values are f32, all columns meeting the same rows (`p.apart`); called where the set's
/// instructions are enabled, so that all of this is compiled for them.
#[inline(always)]
pub(super) unsafe fn steps_fast<S: Vectors, const OUT: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // SAFETY: each of these takes all of the caller's steps and groups, of the same panels.
    unsafe {
        if OUT == out::ROUND_DOWN {
            return round_down::steps_fast(set, p, q, skip, steps);
        }
        if OUT == out::F32_RZ && q.keep != -1 {
            return each_length::<S, { out::F32_CUT }>(set, p, q, skip, steps);
        }
        each_length::<S, OUT>(set, p, q, skip, steps)
    }
}

/// # Safety
/// As `steps_fast`.
#[inline(always)]
unsafe fn each_length<S: Vectors, const OUT: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // SAFETY: the caller's steps, of as many products as `L` says where that is not 0.
    unsafe {
        match q.block {
            _ if q.frac_bits > 25 => run::<S, OUT, 0, true>(set, p, q, skip, steps),
            4 => run::<S, OUT, 4, false>(set, p, q, skip, steps),
            8 => run::<S, OUT, 8, false>(set, p, q, skip, steps),
            16 => run::<S, OUT, 16, false>(set, p, q, skip, steps),
            32 => run::<S, OUT, 32, false>(set, p, q, skip, steps),
            _ => run::<S, OUT, 0, false>(set, p, q, skip, steps),
        }
    }
}

/// # Safety
/// As `steps_fast`; steps have `L` products, or with 0 any number.
#[inline(always)]
unsafe fn run<S: Vectors, const OUT: u8, const L: usize, const PAIRS: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    if const { fused::fuses::<S, OUT, L, PAIRS>() } && q.align == align::TOWARD_ZERO {
        // SAFETY: the caller's steps of `L` products, which `fuses` has found to be 4, 8 or 16.
        return unsafe { fused::steps::<S, L>(set, p, q, skip, steps) };
    }
    let mut buffers = MaybeUninit::<Buffers>::uninit();
    let to = Places::of(&mut buffers);
    each_step(
        p,
        q,
        skip,
        steps,
        #[inline(always)]
        |p, q, skip| {
            // SAFETY: one of the caller's steps, of one of the groups; `to` leads to `buffers`, still there.
            unsafe { group::<S, OUT, L, PAIRS>(set, p, q, skip, to) }
        },
    )
}

/// One step after another of all groups, until something is left to others.
#[inline(always)]
fn each_step(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
    mut group: impl FnMut(&Step, &Consts, u32) -> u32,
) -> Advance {
    for step in 0..steps {
        let (here, mut more) = (p.skip(step, q), 0);
        for (g, skip) in skip.iter_mut().enumerate().filter(|(_, skip)| **skip != !0) {
            let late = group(&here.group(g, q), &q.group(g), *skip);
            (more, *skip) = (more | late & !*skip, *skip | late);
        }
        if more != 0 {
            return Advance::by(step + 1);
        }
    }
    Advance::by(steps)
}

/// A step of 8 rows by 64 columns. Returns the pieces left as they were for the wide kernel, and those with an infinite
/// f16.
///
/// # Safety
/// As `run`, for this step of a group, in which vectors of columns may have rows of their own; `to` leads to `Buffers`,
/// of which nothing need be filled.
#[inline(always)]
unsafe fn group<S: Vectors, const OUT: u8, const L: usize, const PAIRS: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    mut skip: u32,
    to: Places,
) -> u32 {
    // SAFETY: all of the step's products; with that `largest` is filled, which the rest reads.
    unsafe {
        skip |= exponents::<S, L>(set, p, q, 0..q.length::<L>(), to);
        rest_of_group::<S, OUT, L, PAIRS>(set, p, q, skip, to)
    }
}

/// A step of 8 rows by 64 columns, the largest exponents of which are there.
///
/// # Safety
/// As `group`; `largest` is filled.
#[inline(always)]
unsafe fn rest_of_group<S: Vectors, const OUT: u8, const L: usize, const PAIRS: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    mut skip: u32,
    to: Places,
) -> u32 {
    // SAFETY: `by` is filled for all rows before products are. Of `whole` steps `L` is 4, 8 or 16 and all 64 columns
    // are there: so many sums are filled. Else those of the vectors there are, two rows by two of a set's vectors at a
    // time: `MR` and `16 / LANES` are even. `end` reads no others.
    unsafe {
        // Of large products all columns meet the same rows.
        let whole = const { fused::has::<S, L, PAIRS>() } && p.vectors == NR / 16 && p.apart == [0, 16 * L];
        let whole = whole && q.align == align::TOWARD_ZERO;
        let shift = whole && OUT == out::F16_RNE && fused::shifts_suffice_for_halves(q);
        for row in 0..MR {
            begin::<S, OUT, PAIRS>(set, p, q, row, shift, to);
        }
        if whole {
            set.products::<L, false>(shift, [MR, NR / 32], [p.a_val32, p.b_val32], to.by, p.c, to.sums);
            return end::<S, OUT, PAIRS>(set, p, q, skip, shift, to);
        }
        skip |= match q.align {
            align::TOWARD_ZERO => all_products::<S, L, PAIRS, { align::TOWARD_ZERO }>(set, p, q, to),
            align::NEAREST_EVEN => apart::<S, PAIRS, { align::NEAREST_EVEN }>(set, p, q, to),
            align::DOWN => apart::<S, PAIRS, { align::DOWN }>(set, p, q, to),
            _ => apart::<S, PAIRS, { align::UP }>(set, p, q, to),
        };
        end::<S, OUT, PAIRS>(set, p, q, skip, false, to)
    }
}

/// `all_products` as a function of its own: one for all kinds and lengths of steps.
///
/// # Safety
/// As `all_products`.
#[inline(always)]
unsafe fn apart<S: Vectors, const PAIRS: bool, const ALIGN: u8>(set: S, p: &Step, q: &Consts, to: Places) -> u32 {
    set.vectorise_apart(
        #[inline(always)]
        || {
            // SAFETY: the caller's promise, handed on.
            unsafe { all_products::<S, 0, PAIRS, ALIGN>(set, p, q, to) }
        },
    )
}

/// The sums of all vectors that are there. Returns the pieces whose sums may have left 31 bits.
///
/// # Safety
/// As `rest_of_group`, and `by` is filled.
#[inline(always)]
unsafe fn all_products<S: Vectors, const L: usize, const PAIRS: bool, const ALIGN: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    to: Places,
) -> u32 {
    let mut late = 0;
    for t in 0..p.vectors {
        for row in (0..MR).step_by(2) {
            for v in (0..16 / S::LANES).step_by(2) {
                // SAFETY: two rows of 8 by two vectors of 16 columns that are there.
                late |= unsafe { products::<S, L, PAIRS, ALIGN>(set, p, q, [row, t, v], to) };
            }
        }
    }
    late
}

/// What a row's products are multiplied by, and its c; or, to `shift` them, what is added to their codes.
///
/// # Safety
/// As `rest_of_group`; `row` is below `MR`.
#[inline(always)]
unsafe fn begin<S: Vectors, const OUT: u8, const PAIRS: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    row: usize,
    shift: bool,
    to: Places,
) {
    let bits = q.frac_bits - if PAIRS { REST } else { 0 };
    // The field of 1 twice; where fields are added, once.
    let ones = if shift { 127 } else { 254 };
    let up = set.splat(((ones + bits) << 23) as u32);
    for d in (0..16).step_by(S::LANES) {
        let at = row * NR + d;
        let mut c = [up; 4];
        for t in 0..4 {
            // SAFETY: whole vectors of the row's 64 states, which are aligned: `d` is a multiple of `LANES` below 16.
            c[t] = unsafe { set.load(p.c.add(at + 16 * t).cast()) };
        }
        if OUT == out::F16_RNE {
            // A subnormal f16 c counts with the format's lowest exponent. (Where a zero does, too, the
            // products' is at least that.)
            let (field, low) = (set.splat(EXP32 as u32), set.splat(u32::from(LEAST_F16) << 23));
            for t in 0..4 {
                let zero = set.equal(set.left::<1>(c[t]), set.splat(0));
                c[t] = set.max_positive(set.without(zero, low), set.and(c[t], field));
            }
        }
        // SAFETY: likewise of the row's 16 words in `largest`, which is filled.
        let by = set.less_fields(up, unsafe { set.load(to.largest.add(row * NR / 4 + d)) }, c);
        for t in 0..4 {
            // SAFETY: the same place in `by` as the states'.
            unsafe { set.store(to.by.add(at + 16 * t), by[t]) }
        }
    }
}

/// The products of two rows by two vectors, from the `v`-th of 16 columns on, added up. Returns the pieces whose sums
/// may have left 31 bits.
///
/// # Safety
/// As `rest_of_group`, and `by` is filled; `row`, below `MR`, and `v`, below `16 / LANES`, are even, `t` is below
/// `p.vectors`.
#[inline(always)]
unsafe fn products<S: Vectors, const L: usize, const PAIRS: bool, const ALIGN: u8>(
    set: S,
    p: &Step,
    q: &Consts,
    [row, t, v]: [usize; 3],
    to: Places,
) -> u32 {
    let (l, mut late) = (q.length::<L>(), 0);
    let a = p.a_val32.wrapping_add(t * p.apart[0] + row * l);
    let b = p.b_val32.wrapping_add(t * p.apart[1] + v * S::LANES).cast::<u32>();
    let at = row * NR + 16 * t + v * S::LANES;
    let places = [[at, at + S::LANES], [at + NR, at + NR + S::LANES]];
    let (mut by, mut sums) = ([[set.splat(0); 2]; 2], [[set.splat(0); 2]; 2]);
    for r in 0..2 {
        for h in 0..2 {
            // SAFETY: places are whole vectors of two rows of 64 columns: of `by`, which is filled, and of states.
            unsafe {
                by[r][h] = set.load(to.by.add(places[r][h]));
                sums[r][h] = set.load(p.c.add(places[r][h]).cast());
            }
        }
    }
    let mut rests = [[set.splat(0); 2]; 2];
    for r in 0..2 {
        let x = [set.mul(sums[r][0], by[r][0]), set.mul(sums[r][1], by[r][1])];
        sums[r] = [whole::<S, PAIRS, ALIGN>(set, x[0]), whole::<S, PAIRS, ALIGN>(set, x[1])];
        if PAIRS {
            rests[r] = [rest::<S, ALIGN>(set, x[0], sums[r][0]), rest::<S, ALIGN>(set, x[1], sums[r][1])];
        }
    }
    let mut from = 0;
    while from < l {
        // Steps longer than that take the products by themselves.
        let (end, long) = if L == 0 || L > CHUNK { (l.min(from + CHUNK), l > CHUNK) } else { (l, false) };
        let before = sums;
        if long {
            sums = [[set.splat(0); 2]; 2];
        }
        // SAFETY: `a` leads to two rows of A's panel, `b` to two vectors of each of the step's products, `end` of which
        // is `l` at most; it is aligned, as B's panel and all distances are.
        unsafe { add_products::<S, PAIRS, ALIGN>(set, (a, l), b, from..end, &by, &mut sums, &mut rests) }
        if long {
            for r in 0..2 {
                let mut large = set.splat(0);
                for h in 0..2 {
                    large = set.or(large, set.add(set.abs(sums[r][h]), set.splat(ROOM)));
                    sums[r][h] = set.add(sums[r][h], before[r][h]);
                }
                late |= u32::from(set.any(set.and(large, set.splat(3 << 30)))) << (4 * (row + r) + t);
            }
        }
        from = end;
    }
    for r in 0..2 {
        for h in 0..2 {
            // SAFETY: the same places in `sums` and `rests`, which are as large as `by`.
            unsafe {
                set.store(to.sums.add(places[r][h]), sums[r][h]);
                if PAIRS {
                    set.store(to.rests.add(places[r][h]), rests[r][h]);
                }
            }
        }
    }
    late
}

/// Vectors of two rows by two of columns.
type Four<V> = [[V; 2]; 2];

/// Adds products `ks` times `by`, aligned: of two rows of A, so many words apart, and two vectors of B.
///
/// # Safety
/// Both rows have these products; `b` leads to two vectors for each of them, 16 words from one product's to the next
/// one's, and is aligned to a vector.
#[inline(always)]
unsafe fn add_products<S: Vectors, const PAIRS: bool, const ALIGN: u8>(
    set: S,
    (a, row): (*const f32, usize),
    b: *const u32,
    ks: Range<usize>,
    by: &Four<S::V>,
    sums: &mut Four<S::V>,
    rests: &mut Four<S::V>,
) {
    for k in ks {
        // SAFETY: product `k`'s two vectors; 16 words are whole ones, so that these are aligned as `b` is.
        let b = unsafe { [set.load(b.add(k * 16)), set.load(b.add(k * 16 + S::LANES))] };
        // One operation of all four after the other: a scheduler is small.
        let mut x = [[b[0]; 2]; 2];
        for r in 0..2 {
            // SAFETY: product `k` of the first row, or of the second, `row` words on.
            let a = set.splat(unsafe { *a.add(r * row + k) }.to_bits());
            x[r] = [set.mul(a, b[0]), set.mul(a, b[1])];
        }
        for r in 0..2 {
            x[r] = [set.mul(x[r][0], by[r][0]), set.mul(x[r][1], by[r][1])];
        }
        for r in 0..2 {
            let whole = [whole::<S, PAIRS, ALIGN>(set, x[r][0]), whole::<S, PAIRS, ALIGN>(set, x[r][1])];
            if PAIRS {
                rests[r][0] = set.add(rests[r][0], rest::<S, ALIGN>(set, x[r][0], whole[0]));
                rests[r][1] = set.add(rests[r][1], rest::<S, ALIGN>(set, x[r][1], whole[1]));
            }
            x[r] = whole;
        }
        for r in 0..2 {
            sums[r] = [set.add(sums[r][0], x[r][0]), set.add(sums[r][1], x[r][1])];
        }
    }
}

/// `x` as an integer: aligned, but where the lower of a pair will be.
#[inline(always)]
fn whole<S: Vectors, const PAIRS: bool, const ALIGN: u8>(set: S, x: S::V) -> S::V {
    if PAIRS { set.truncated(x) } else { integer::<S, ALIGN>(set, x) }
}

/// What `whole` leaves of `x`, in units of `2^-REST`, aligned.
#[inline(always)]
fn rest<S: Vectors, const ALIGN: u8>(set: S, x: S::V, whole: S::V) -> S::V {
    let rest = set.sub_f32(x, set.float(whole));
    integer::<S, ALIGN>(set, set.mul(rest, set.splat(((127 + REST) as u32) << 23)))
}

/// f32 rounded to integers.
#[inline(always)]
fn integer<S: Vectors, const ALIGN: u8>(set: S, x: S::V) -> S::V {
    match ALIGN {
        align::NEAREST_EVEN => set.nearest(x),
        align::DOWN => set.floor(x),
        align::UP => set.ceiling(x),
        _ => set.truncated(x),
    }
}
