//! How a step ends: sums become f32 or f16 results.

use super::{Places, REST, Vectors};
use crate::simd::fda::step::{Consts, EXP32, Step};
use crate::simd::fda::{MR, NR, out};

/// The results of all pieces but those of `skip`, of sums that were scaled by powers of two, or to `shift` by what is
/// added to exponent fields. Returns `skip`, and those with an infinite f16.
///
/// # Safety
/// As `super::rest_of_group`; `by` is filled, and so are the sums of all vectors there are, and with `PAIRS` their
/// rests.
#[inline(always)]
pub(super) unsafe fn end<S: Vectors, const OUT: u8, const PAIRS: bool>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: u32,
    shift: bool,
    from: Places,
) -> u32 {
    let mut late = skip;
    if OUT == out::F32_RZ && !PAIRS && skip == 0 && p.vectors == 4 {
        // SAFETY: all four vectors are there, so that 8 rows by 64 sums are filled. `2^(e_max - F)` is 2^-122 at least.
        if unsafe { set.end_all(from.sums, from.by, 254 << 23, p.c) } {
            return late;
        }
    }
    for row in 0..MR {
        if skip == 0 && p.vectors == 4 {
            let mut most = set.splat(0);
            for d in (0..NR).step_by(4 * S::LANES) {
                // SAFETY: a row's 64 columns, all of which are there, four of a set's vectors at a time.
                let found = unsafe { end_at::<S, OUT, PAIRS, 4>(set, p, q, row * NR + d, shift, from) };
                most = set.max_positive(most, found);
            }
            if OUT != out::F16_RNE || !set.any(set.equal(most, set.splat(EXP32 as u32))) {
                continue;
            }
        }
        for t in 0..p.vectors {
            let piece = 4 * row + t;
            if skip >> piece & 1 == 1 {
                continue;
            }
            for d in (0..16).step_by(2 * S::LANES) {
                // SAFETY: 16 columns of those that are there, two of a set's vectors at a time.
                let most = unsafe { end_at::<S, OUT, PAIRS, 2>(set, p, q, row * NR + 16 * t + d, shift, from) };
                if OUT == out::F16_RNE {
                    late |= u32::from(set.any(set.equal(most, set.splat(EXP32 as u32)))) << piece;
                }
            }
        }
    }
    late
}

/// `N` vectors of them. Returns the largest magnitudes, where they are f16.
///
/// # Safety
/// As `end`, of which these vectors, from the `at`-th column of all rows on, are a part; `at` is a multiple of `LANES`.
#[inline(always)]
unsafe fn end_at<S: Vectors, const OUT: u8, const PAIRS: bool, const N: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    at: usize,
    shift: bool,
    from: Places,
) -> S::V {
    let (mut sum, mut most) = ([set.splat(0); N], set.splat(0));
    for (i, sum) in sum.iter_mut().enumerate() {
        // SAFETY: the `i`-th of the caller's vectors, whose sums are filled.
        *sum = unsafe { set.load(from.sums.add(at + i * S::LANES)) };
    }
    let mut x = if PAIRS {
        let mut x = sum;
        for i in 0..N {
            // SAFETY: the same place in `rests`, which with `PAIRS` is filled.
            x[i] = set.joined::<OUT>(sum[i], unsafe { set.load(from.rests.add(at + i * S::LANES)) });
            if OUT == out::F32_CUT {
                x[i] = set.and(x[i], set.splat(q.keep as u32));
            }
        }
        x
    } else {
        encode::<S, OUT, N>(set, sum, q)
    };
    let ones = if shift { 127 } else { 254 };
    let down = set.splat(((ones - if PAIRS { REST } else { 0 }) as u32) << 23);
    for i in 0..N {
        // SAFETY: the same place in `by`, which is filled.
        let by = unsafe { set.load(from.by.add(at + i * S::LANES)) };
        // 2^(e_max - F).
        x[i] = set.mul(x[i], set.sub(down, by));
    }
    for i in 0..N {
        if OUT == out::F16_RNE {
            x[i] = set.via_f16(x[i]);
            most = set.max_positive(most, set.without(set.splat(1 << 31), x[i]));
        }
        // SAFETY: the same place among states: 8 rows by 64, aligned.
        unsafe { set.store(p.c.add(at + i * S::LANES).cast(), x[i]) }
    }
    most
}

/// Sums as f32, rounded so that only the exponent is missing, or the rounding to f16.
#[inline(always)]
fn encode<S: Vectors, const OUT: u8, const N: usize>(set: S, sum: [S::V; N], q: &Consts) -> [S::V; N] {
    let mut x = sum;
    if OUT != out::F32_RNE {
        // The first bit that f32 has no place for decides how a magnitude is rounded: without it, toward zero. It
        // stands 24 places below the leading one; what else goes would be cut off.
        for x in &mut x {
            *x = set.abs(*x);
        }
        for x in &mut x {
            *x = set.without(set.right::<24>(*x), *x);
        }
        for i in 0..N {
            x[i] = set.with_sign(x[i], sum[i]);
        }
    }
    for x in &mut x {
        *x = set.float(*x);
    }
    for i in 0..N {
        if OUT == out::F16_RNE {
            // To odd first, so that one rounding counts.
            let exact = set.equal(set.truncated(x[i]), sum[i]);
            x[i] = set.or(x[i], set.add(exact, set.splat(1)));
        } else if OUT == out::F32_CUT {
            x[i] = set.and(x[i], set.splat(q.keep as u32));
        } else if OUT == out::F32_RD || OUT == out::F32_RU {
            // A magnitude more where truncation went the other way: conditions are -1.
            let (cut, exact) = (set.truncated(x[i]), sum[i]);
            let short = if OUT == out::F32_RD { set.greater(cut, exact) } else { set.greater(exact, cut) };
            x[i] = set.sub(x[i], short);
        }
    }
    x
}
