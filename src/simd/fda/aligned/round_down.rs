//! Round-down sums on products truncated one by one: `fda::round_down` says why that is exact.
//!
//! In turn, for 8 rows by 64 columns: the largest exponents of each sum; what its products are multiplied by; the sums,
//! in units of q; results.

#![allow(clippy::needless_range_loop, reason = "vectors index several arrays at once")]

use super::{Buffers, Places, Vectors, add_products, each_step, exponents};
use crate::simd::fda::micro::Advance;
use crate::simd::fda::round_down::{ALL, FAR, FAR_IN_F32, Floors, LARGE};
use crate::simd::fda::step::{Consts, Step};
use crate::simd::fda::{MR, NR, align};
use core::mem::MaybeUninit;

/// `Micro::steps_fast`.
///
/// # Safety
/// As `super::steps_fast`.
#[inline(always)]
pub(super) unsafe fn steps_fast<S: Vectors>(set: S, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    // SAFETY: the caller's steps, of as many products as `L` says where that is not 0.
    unsafe {
        match (q.floors.halves, q.block) {
            (false, 4) if q.floors.totals_in_f32 => run::<S, 1, 4, true>(set, p, q, skip, steps),
            (false, 8) => run::<S, 1, 8, false>(set, p, q, skip, steps),
            (false, _) => run::<S, 1, 0, false>(set, p, q, skip, steps),
            (true, 16) => run::<S, 2, 16, false>(set, p, q, skip, steps),
            (true, _) => run::<S, 2, 0, false>(set, p, q, skip, steps),
        }
    }
}

/// Steps of a sum of all products, or two of halves. With `IN_F32` totals may be f32 sums
/// (`Floors`).
///
/// # Safety
/// As `steps_fast`; steps have `L` products, not 4 or 8 where there are two sums, or with 0 any number.
#[inline(always)]
unsafe fn run<S: Vectors, const SUMS: usize, const L: usize, const IN_F32: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    let mut buffers = [const { MaybeUninit::<Buffers>::uninit() }; SUMS];
    let to = buffers.each_mut().map(Places::of);
    each_step(
        p,
        q,
        skip,
        steps,
        #[inline(always)]
        |p, q, skip| {
            // SAFETY: one of the caller's steps, of one of the groups; `to` leads to `buffers`, still there.
            unsafe { group::<S, SUMS, L, IN_F32>(set, p, q, skip, &to) }
        },
    )
}

/// A step of 8 rows by 64 columns. Returns the pieces left as they were.
///
/// # Safety
/// As `run`, for this step of a group, in which vectors of columns may have rows of their own; `to` leads to `Buffers`,
/// one for each sum, of which nothing need be filled.
#[inline(always)]
pub(super) unsafe fn group<S: Vectors, const SUMS: usize, const L: usize, const IN_F32: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    mut skip: u32,
    to: &[Places; SUMS],
) -> u32 {
    let part = q.length::<L>() / SUMS;
    // SAFETY: parts of products are within the step, and all of it where `L` is 4 or 8. Of each sum `largest` is filled
    // before `begin` reads it, `by` for all rows before `products` do, and sums of the vectors there are before `end`,
    // which reads no others: of rows of 64 columns where all four are there, else 16 at a time.
    unsafe {
        for h in 0..SUMS {
            skip |= exponents::<S, L>(set, p, q, h * part..(h + 1) * part, to[h]);
            for row in 0..MR {
                begin(set, q, row, to[h]);
            }
            for t in 0..p.vectors {
                for row in (0..MR).step_by(2) {
                    for v in (0..16 / S::LANES).step_by(2) {
                        products::<S, SUMS, L>(set, p, q, [row, t, v, h], to[h]);
                    }
                }
            }
        }
        for row in 0..MR {
            if skip == 0 && p.vectors == 4 {
                for d in (0..NR).step_by(4 * S::LANES) {
                    end::<S, SUMS, 4, IN_F32>(set, p, q, row * NR + d, to);
                }
                continue;
            }
            for t in (0..p.vectors).filter(|t| skip >> (4 * row + t) & 1 == 0) {
                for d in (0..16).step_by(2 * S::LANES) {
                    end::<S, SUMS, 2, IN_F32>(set, p, q, row * NR + 16 * t + d, to);
                }
            }
        }
    }
    skip
}

/// What a row's products are multiplied by: 1 / q.
///
/// # Safety
/// `to` leads to `Buffers`, whose `largest` is filled; `row` is below `MR`.
#[inline(always)]
unsafe fn begin<S: Vectors>(set: S, q: &Consts, row: usize, to: Places) {
    let up = set.splat(((254 + q.frac_bits) << 23) as u32);
    for d in (0..16).step_by(S::LANES) {
        // SAFETY: a whole vector of the row's 16 words, aligned: `d` is a multiple of `LANES` below 16.
        let by = set.less_fields(up, unsafe { set.load(to.largest.add(row * NR / 4 + d)) }, [set.splat(0); 4]);
        for t in 0..4 {
            // SAFETY: likewise of the row's 64 words in `by`.
            unsafe { set.store(to.by.add(row * NR + d + 16 * t), by[t]) }
        }
    }
}

/// (3) and (4) The sums of the products of part `h`, of two rows by two vectors, from the `v`-th of 16 columns on.
///
/// # Safety
/// As `group`, and `by` is filled; `row`, below `MR`, and `v`, below `16 / LANES`, are even, `t` is below `p.vectors`
/// and `h` below `SUMS`.
#[inline(always)]
unsafe fn products<S: Vectors, const SUMS: usize, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    [row, t, v, h]: [usize; 4],
    to: Places,
) {
    let l = q.length::<L>();
    let part = l / SUMS;
    let a = p.a_val32.wrapping_add(t * p.apart[0] + row * l);
    let b = p.b_val32.wrapping_add(t * p.apart[1] + v * S::LANES).cast::<u32>();
    let at = row * NR + 16 * t + v * S::LANES;
    let places = [[at, at + S::LANES], [at + NR, at + NR + S::LANES]];
    let (mut by, mut sums, mut none) = ([[set.splat(0); 2]; 2], [[set.splat(0); 2]; 2], [[set.splat(0); 2]; 2]);
    // SAFETY: places are whole vectors of two rows of 64 columns, of `by` and `sums`. `a` leads to two rows of A's
    // panel, `b` to two vectors of each of the step's products, of which these are a part; it is aligned, as B's panel
    // and all distances are.
    unsafe {
        for r in 0..2 {
            by[r] = [set.load(to.by.add(places[r][0])), set.load(to.by.add(places[r][1]))];
        }
        add_products::<S, false, { align::TOWARD_ZERO }>(
            set,
            (a, l),
            b,
            h * part..(h + 1) * part,
            &by,
            &mut sums,
            &mut none,
        );
        for r in 0..2 {
            set.store(to.sums.add(places[r][0]), sums[r][0]);
            set.store(to.sums.add(places[r][1]), sums[r][1]);
        }
    }
}

/// (5) to (7) for `N` vectors of states.
///
/// # Safety
/// As `group`; `at` is a multiple of `LANES`, and of `N` vectors from there on, within 8 rows by 64 columns, each sum
/// and its `by` are filled.
#[inline(always)]
unsafe fn end<S: Vectors, const SUMS: usize, const N: usize, const IN_F32: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    at: usize,
    from: &[Places; SUMS],
) {
    // No closures for the library's functions: these lack the instructions, so that nothing would be inlined.
    let (mut sums, mut c, mut d) = ([(set.splat(0), set.splat(0)); N], [set.splat(0); N], [set.splat(0); N]);
    for i in 0..N {
        let at = at + i * S::LANES;
        // SAFETY: the `i`-th vector of the first sum, and its `by`: filled.
        sums[i] = unsafe { (set.load(from[0].sums.add(at)), set.load(from[0].by.add(at))) };
        if SUMS == 2 {
            // SAFETY: as above, of the second one, which has buffers of its own.
            sums[i] = joined(set, sums[i], unsafe { (set.load(from[1].sums.add(at)), set.load(from[1].by.add(at))) });
        }
        // SAFETY: the same place among states: 8 rows by 64, aligned.
        c[i] = unsafe { set.load(p.c.add(at).cast()) };
    }
    let mut most = set.splat(0);
    for i in (0..N).step_by(2) {
        let magnitude;
        let (sums, c) = ([sums[i], sums[i + 1]], [c[i], c[i + 1]]);
        ([d[i], d[i + 1]], magnitude) =
            if IN_F32 { finish_in_f32(set, sums, c, &q.floors) } else { finish::<S, SUMS>(set, sums, c, q) };
        most = set.max_positive(most, magnitude);
    }
    if set.any(set.greater(most, set.splat(if IN_F32 { FAR_IN_F32 } else { FAR }.to_bits() - 1))) {
        for i in 0..N {
            d[i] = finish_far(set, sums[i], c[i], d[i], &q.floors);
        }
    }
    for i in 0..N {
        // SAFETY: where `c[i]` was loaded from.
        unsafe { set.store(p.c.add(at + i * S::LANES).cast(), d[i]) }
    }
}

/// Two sums and what their products were multiplied by, the finer one rounded down against the larger exponent.
#[inline(always)]
fn joined<S: Vectors>(set: S, x: (S::V, S::V), y: (S::V, S::V)) -> (S::V, S::V) {
    let finer = set.greater(x.1, y.1);
    let (fine, coarse) = (set.choose(finer, x.0, y.0), set.choose(finer, y.0, x.0));
    let (high, by) = (set.choose(finer, x.1, y.1), set.choose(finer, y.1, x.1));
    (set.add(set.floored(fine, set.right::<23>(set.sub(high, by))), coarse), by)
}

/// `d = RNE(sum + floor(c / q)) q` from sums in units of q, and 1 / q; or, where c is large, in units of 2q. And the
/// larger magnitudes of `c / q`.
#[inline(always)]
fn finish<S: Vectors, const SUMS: usize>(
    set: S,
    sums: [(S::V, S::V); 2],
    c: [S::V; 2],
    q: &Consts,
) -> ([S::V; 2], S::V) {
    let (mut sum, mut by) = ([sums[0].0, sums[1].0], [sums[0].1, sums[1].1]);
    let (mut magnitude, mut large) = (c, c);
    for i in 0..2 {
        magnitude[i] = set.without(set.splat(1 << 31), set.mul(c[i], by[i]));
    }
    // One operation of both after the other: a scheduler is small.
    for i in 0..2 {
        large[i] = set.greater(magnitude[i], set.splat(LARGE.to_bits() - 1));
    }
    for i in 0..2 {
        by[i] = set.sub(by[i], set.and(large[i], set.splat(1 << 23)));
    }
    let mut units = c;
    for i in 0..2 {
        units[i] = set.mul(c[i], by[i]);
    }
    for i in 0..2 {
        sum[i] = set.choose(large[i], set.or(set.half(sum[i]), set.and(sum[i], set.splat(1))), sum[i]);
    }
    let mut floor = units;
    for i in 0..2 {
        floor[i] = set.floor(units[i]);
        if SUMS == 2 {
            // Out of reach it is 0.
            floor[i] = set.and(floor[i], set.greater(magnitude[i], set.splat(q.floors.least.to_bits() - 1)));
        }
    }
    for i in 0..2 {
        sum[i] = set.float(set.add(sum[i], floor[i]));
    }
    for i in 0..2 {
        sum[i] = set.mul(sum[i], set.sub(set.splat(254 << 23), by[i]));
    }
    (sum, set.max_positive(magnitude[0], magnitude[1]))
}

/// `finish` where totals may be f32 sums, which takes more operations but leaves no c below `2^35 q` to `finish_far`:
/// of few products e_dot is often low. Beside a c of `1.5 * 2^30 q` totals are `2^30 q` or more, below they fit i32.
#[inline(always)]
fn finish_in_f32<S: Vectors>(set: S, sums: [(S::V, S::V); 2], c: [S::V; 2], floors: &Floors) -> ([S::V; 2], S::V) {
    let ([sum, by], low) = ([[sums[0].0, sums[1].0], [sums[0].1, sums[1].1]], set.splat(31));
    let (mut units, mut below, mut e_total, mut d) = (c, c, c, c);
    for i in 0..2 {
        units[i] = set.mul(c[i], by[i]);
    }
    for i in 0..2 {
        below[i] = set.float(set.add(sum[i], set.floor(units[i])));
    }
    for i in 0..2 {
        // The exponent of an f32 sum to nearest may be too large, but not if less is added than there is, against c's
        // sign rounded to what f32 holds: then only where the total rounds to that power of two, too.
        let negative = set.and(set.greater(set.splat(0), c[i]), low);
        let less = set.without(low, set.add(sum[i], negative));
        e_total[i] = set.right::<24>(set.left::<1>(set.add_f32(set.float(less), units[i])));
    }
    for i in 0..2 {
        let lost = set.ones(set.sub_bytes(e_total[i], set.splat(127 + u32::from(floors.kept))));
        let some = set.add(set.without(lost, set.and(sum[i], low)), low);
        d[i] = set.add_f32(set.float(set.without(low, set.or(some, sum[i]))), units[i]);
    }
    let magnitude = [set.without(set.splat(1 << 31), units[0]), set.without(set.splat(1 << 31), units[1])];
    for i in 0..2 {
        d[i] = set.choose(set.greater(magnitude[i], set.splat((1.5 * LARGE).to_bits() - 1)), d[i], below[i]);
    }
    for i in 0..2 {
        d[i] = set.mul(d[i], set.sub(set.splat(254 << 23), by[i]));
    }
    (d, set.max_positive(magnitude[0], magnitude[1]))
}

/// `d` with the results of (5) to (7) in lanes where c is at least `3 * 2^30 q`, and so a total `2^31 q`: the f32 sum
/// of c and of the sum rounded to odd two places below the total's last one. Then it has 24 bits, for sums are below
/// `2^30 q`, and c is a multiple of twice that place. What floors of the sum and the total take is cut off the sum
/// before.
#[inline(always)]
fn finish_far<S: Vectors>(set: S, (sum, by): (S::V, S::V), c: S::V, d: S::V, floors: &Floors) -> S::V {
    let sign = set.splat(1 << 31);
    let field = |x| set.right::<24>(set.left::<1>(x));
    let units = set.mul(c, by);
    let magnitude = set.without(sign, units);
    // The total's exponent is that of a sum toward zero of two such numbers, which is right but next to a power of two,
    // to which these totals round all the same. Without the first bit that f32 has no place for rounding to nearest is
    // toward zero (`end::encode`).
    let size = set.abs(sum);
    let cut = set.float(set.with_sign(set.without(set.right::<24>(size), size), sum));
    let total = set.add_f32(units, cut);
    let rest = set.sub_f32(cut, set.sub_f32(total, units));
    // With the other sign it was rounded away from zero. (Where it is 0 the exponent may become that below of a power
    // of two, which the total is within `2^6 q` of.)
    let away = set.right::<31>(set.or(set.without(rest, total), set.without(total, rest)));
    let e_total = field(set.sub(total, away));
    let lost = |e, kept: u8| set.sub_bytes(e, set.splat(127 + u32::from(kept)));
    let lost = if floors.kept < floors.kept_of_sum {
        // The total is at least half of such a c.
        lost(e_total, floors.kept)
    } else {
        set.max_bytes(lost(e_total, floors.kept), lost(field(units), floors.kept_of_sum))
    };
    let low = set.ones(set.sub_bytes(e_total, set.splat(127 + 25)));
    let some = set.without(set.ones(lost), set.and(sum, low));
    let odd = set.without(low, set.or(set.add(some, low), sum));
    let total = set.add_f32(units, set.float(odd));
    let far = set.mul(total, set.sub(set.splat(254 << 23), by));
    // So far above it is the result: sums are less than half of its last place.
    let far = set.choose(set.greater(magnitude, set.splat(ALL.to_bits() - 1)), c, far);
    set.choose(set.greater(magnitude, set.splat(FAR.to_bits() - 1)), far, d)
}
