//! Steps of row groups as a stream of pieces of 4 rows by 32 columns: for processors that do two FMAs of 512 bits a cycle.
//!
//! Such a processor needs as many sums under way as two multipliers have stages, eight; `stream`'s pieces have just these,
//! and every delay of one is lost. Here there are sixteen, and where a piece begins waits for it in memory. What counts then
//! is the number of instructions: a Zen 5 gets five or six a cycle from its cache of decoded ones, and fewer where code is long
//! and straight. So one function of some 2 to 9 KiB, made for one kind of results and one length of steps, does piece after
//! piece (`piece`), to the end of a step, or until something has to be looked at: an infinite f16, a sum beyond 31 bits,
//! exponents near operands below the window, or, where results are rounded down, a c far above the products.
//!
//! Only row groups of which all pieces are wanted are done here, by steps that nothing has to be left out of; the others are
//! `stream`'s, or `round_down`'s.

mod piece;

use super::super::avx512::{doubts, max_exponents, safe};
use super::super::finish::{finish, negatives, overflowed, start, truncated};
use super::super::micro::Advance;
use super::super::round_down::FAR_IN_BROAD;
use super::super::round_down::avx512::{in_units, rounded_down, steps_apart};
use super::super::step::{Consts, EXP32, Step};
use super::super::{GROUPS, MR, NR, out};
use super::rows::{place, places_from, power};
use super::{OFFSET, OVER, ROWS};
use core::mem::{MaybeUninit, offset_of};
use piece::{At, Carried, call, code};
use std::arch::x86_64::*;

/// Vectors of columns of a piece.
const VECTORS: usize = 2;
/// Vectors of states of a piece: `VECTORS` of the first row, then of the next.
const UNITS: usize = ROWS * VECTORS;
/// Pieces of a row group: the upper rows, the lower ones, then the same with other columns.
const PIECES: usize = MR / ROWS * (NR / 16 / VECTORS);
/// What moves the mask of a piece's vectors, `1 << (4 row + vector)`, to its place in a row group's.
const fn place_of_bits(piece: usize) -> usize {
    4 * ROWS * (piece % 2) + VECTORS * (piece / 2)
}

/// Where a piece's sums begin, and what has to be added to them: c in units of q, and the number of negative products; where
/// results are rounded down c is apart (`Work::units`).
#[repr(C)]
struct Start {
    tops: [__m512i; UNITS],
    rests: [__m512i; UNITS],
}

/// As far apart as two `Start`s.
#[repr(C, align(1024))]
struct Units([__m512; UNITS]);

/// What pieces read and write besides panels and states. `piece` goes from one `Start` to the other by one bit of the
/// address.
#[repr(C, align(2048))]
struct Work {
    /// Those of even pieces, and of odd ones.
    starts: [Start; 2],
    /// c in units of q, of each.
    units: [Units; 2],
    /// e_max of this row group and the next, as exponent fields: one bit of the address apart, too.
    largest: [[__m512i; MR]; 2],
    /// All bits of each sum that is watched.
    watched: [__m512i; UNITS],
    /// Results of which some go nowhere, row after row as in states.
    aside: [[f32; NR]; ROWS],
    /// What makes exponent fields of bytes: subtracted, and the lowest.
    sub: __m512i,
    floor: __m512i,
    /// Of exponents beside which operands below the window might be as large.
    safe: __m512i,
    code: unsafe extern "C" fn(),
    /// How many pieces are to be done after the first one, and what is next for the last row group.
    more: u32,
    /// Whether there are operands below the window.
    tiny: u32,
    next: Next,
    /// `2^(F - e_max)` is this less `1.5 * 2^e_max`, and `2^(e_max - F)` the latter and `down`, as codes.
    up: i32,
    down: i32,
    exponent: i32,
    half: i32,
    /// Of results that are rounded down: what makes bits of an exponent field that are dropped, the largest of sums below
    /// `2^30 q`, and the bits of a sum below and above.
    kept: __m512i,
    small: i32,
    low: i32,
    high: i32,
    /// From which on somebody has to look at an f16, or where results are rounded down at c in units of q.
    limit: f32,
    /// Of results with fewer bits.
    keep: i32,
    /// Of f16 results.
    one: i32,
    zero: i32,
    zero_c: i32,
    least_c: i32,
    /// Of watched sums.
    offset: i64,
    over: i64,
}

/// What the last row group's last piece begins, and where exponents are whose largest all its pieces look for.
#[repr(C)]
struct Next {
    a_exp: *const u32,
    b_exp: *const u8,
    a_sign: *const u32,
    b_sign: *const u32,
    c: *const f32,
}

/// A piece whose results are not written yet.
#[derive(Clone, Copy)]
struct Pending {
    c: *mut f32,
    /// Vectors of states to leave as they are.
    leave: u32,
}

/// What `piece` relies on to go from one to the other by one bit of the address, and its offsets.
const _: () = {
    let (apart, rows) = (size_of::<Start>(), size_of::<[__m512i; MR]>());
    assert!(
        apart.is_power_of_two() && size_of::<Units>() == apart && offset_of!(Work, units).is_multiple_of(2 * apart)
    );
    assert!(align_of::<Work>().is_multiple_of(2 * apart) && offset_of!(Work, starts) == 0);
    assert!(align_of::<Work>().is_multiple_of(2 * rows) && offset_of!(Work, largest).is_multiple_of(2 * rows));
    assert!(ROWS == 4 && VECTORS == 2 && MR == 8 && NR == 64 && PIECES == 4);
};

/// `steps_fast` for f64 accumulators and steps of `L` products, 4 or a multiple of 8; `CHECK` where sums of products could leave
/// 31 bits.
///
/// # Safety
/// As `steps_fast`.
#[inline(never)]
#[allow(clippy::undocumented_unsafe_blocks, reason = "one comment for all of them")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(in crate::simd::fda) unsafe fn steps<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    let wanted = skip.iter().enumerate().filter(|(_, skip)| **skip != !0);
    let (mut list, count) = ([0; GROUPS], wanted.clone().count());
    list.iter_mut().zip(wanted).for_each(|(to, (g, _))| *to = g);
    // SAFETY (whole function): panels and states are as large as the steps, B's and states 64-byte aligned. Pointers may
    // pass the last step, but are not read from there.
    if p.vectors < NR / 16 || skip.iter().any(|skip| *skip != 0 && *skip != !0) {
        return unsafe { others::<OUT, CHECK, L>(p, q, skip, steps) };
    }
    if count == 0 {
        return Advance::by(steps);
    }
    let mut work = MaybeUninit::<Work>::zeroed();
    let work = work.as_mut_ptr();
    let half = 1 << 22;
    unsafe {
        (*work).sub = _mm512_set1_epi8(q.bias_sub as i8);
        (*work).floor = _mm512_set1_epi8(q.floor_field as i8);
        (*work).code = code::<OUT, CHECK, L>();
        ((*work).up, (*work).down) = (((254 + q.frac_bits) << 23) + half, -((q.frac_bits << 23) + half));
        ((*work).exponent, (*work).half, (*work).keep) = (EXP32, half, q.keep);
        ((*work).one, (*work).zero_c, (*work).least_c) = (1, q.zero_c, (127 - 14) << 23);
        ((*work).offset, (*work).over) = (OFFSET.into(), OVER);
        ((*work).tiny, (*work).safe) = (q.tiny.into(), safe());
        (*work).limit = if OUT == out::F16_RNE { f32::INFINITY } else { FAR_IN_BROAD };
        (*work).kept = _mm512_set1_epi32(127 + i32::from(q.floors.kept));
        ((*work).small, (*work).low, (*work).high) = (127 + 29, 31, !31);
    }
    let aside = unsafe { (&raw mut (*work).aside).cast::<f32>() };
    let mut largest =
        unsafe { [&raw mut (*work).largest[0], &raw mut (*work).largest[1]].map(<*mut _>::cast::<__m512i>) };
    let whole = |p: &Step, g: usize, to: *mut __m512i| {
        let (found, doubt) = unsafe { max_exponents::<L, MR, false>(&p.group(g, q), &q.group(g), 0..L) };
        unsafe { to.cast::<[__m512i; MR]>().write(found) };
        doubt
    };
    let (starts, units) =
        unsafe { ((&raw mut (*work).starts).cast::<Start>(), (&raw mut (*work).units).cast::<Units>()) };
    let mut carried = Carried { start: starts, sums: [_mm512_setzero_si512(); UNITS] };
    // Begins a group's first piece, as pieces do. Whether some c is far above the products, where that matters.
    let begin = |p: &Step, g: usize, largest: *const __m512i| {
        let (a_sign, c) = (p.a_sign.wrapping_add(g * MR), p.c.wrapping_add(g * MR * NR));
        let (to, to_units, mut far) = unsafe { (&mut *starts, &mut *units, false) };
        each_row!([0, 1, 2, 3], R => each_row!([0, 1], V => unsafe {
            let (c, unit) = (_mm512_load_ps(c.add(R * NR + 16 * V)), VECTORS * R + V);
            let (power, count) = (power(*largest.add(R), place(V)), negatives(a_sign.add(R), p.b_sign.add(16 * V)));
            if OUT == out::ROUND_DOWN {
                // c has no part in e_max.
                let top = start::<OUT>(power, _mm512_setzero_ps(), q);
                let c = in_units(c, top, q);
                (to.tops[unit], to.rests[unit], to_units.0[unit]) = (top, count, c);
                far |= is_far(c);
            } else {
                let top = start::<OUT>(power, c, q);
                let rest = _mm512_add_epi32(truncated(top, c, q), count);
                let rest = if CHECK { _mm512_sub_epi32(rest, _mm512_set1_epi32(OFFSET)) } else { rest };
                (to.tops[unit], to.rests[unit]) = (top, rest);
            }
        }));
        far
    };
    // Ends a group's last piece, as pieces do; once more does no harm, but where results are rounded down, whose c is read
    // again. Returns vectors with an infinite f16.
    let end = |sums: [__m512i; UNITS], to: Pending| {
        let (from, mut infinite) = (unsafe { &*starts.add(1) }, 0);
        each_row!([0, 1, 2, 3], R => each_row!([0, 1], V => {
            let unit = VECTORS * R + V;
            let (sum, top) = (_mm512_add_epi32(sums[unit], from.rests[unit]), from.tops[unit]);
            let d = if OUT == out::ROUND_DOWN {
                rounded_down(sum, top, unsafe { _mm512_load_ps(to.c.add(R * NR + 16 * V)) }, q)
            } else {
                finish::<OUT, false>(sum, top, q)
            };
            if to.leave >> (4 * R + V) & 1 == 0 {
                unsafe { _mm512_store_ps(to.c.add(R * NR + 16 * V), d) }
                infinite |= u32::from(overflowed::<OUT>(d)) << (4 * R + V);
            }
        }));
        infinite << place_of_bits(PIECES - 1)
    };
    let nothing = Pending { c: aside, leave: !0 };
    let (mut now, mut before, mut last) = (*p, nothing, list[0]);
    let mut doubt = whole(&now, last, largest[0]);
    let mut far = begin(&now, last, largest[0]);
    // Whether pieces may go by until somebody has to look at one.
    let smooth = list[count - 1] - last == count - 1;
    for done in 1..=steps {
        // The next step; with none to come this one is read again.
        let then = if done < steps { now.skip(1, q) } else { now };
        let next = Next {
            a_exp: then.a_exp.wrapping_add(list[0] * MR * L),
            b_exp: then.b_exp,
            a_sign: then.a_sign.wrapping_add(list[0] * MR),
            b_sign: then.b_sign,
            c: p.c.wrapping_add(list[0] * MR * NR),
        };
        unsafe { (*work).next = next }
        // Whether exponents that the group's pieces have found so far, the least of each column, are near operands below.
        let (mut least, mut near) = (_mm512_set1_epi8(-1), false);
        let (mut changed, mut at_piece, mut fars) = (false, 0, 0);
        while at_piece < PIECES * count {
            let (i, piece) = (at_piece / PIECES, at_piece % PIECES);
            let g = list[i];
            let (next, at) = if i + 1 == count { (list[0], &then) } else { (list[i + 1], &now) };
            if doubt != 0 {
                // Some pieces are to be left.
                skip[last] |= end(carried.sums, before);
                before = nothing;
                unsafe { others::<OUT, CHECK, L>(&now.group(g, q), &q.group(g), &mut skip[g..=g], 1) };
                changed = true;
                doubt = whole(at, next, largest[1]);
                far = begin(at, next, largest[1]);
                (largest, last, at_piece) = ([largest[1], largest[0]], g, at_piece + PIECES);
                continue;
            }
            let (a_sign, states) = (now.a_sign.wrapping_add(g * MR), p.c.wrapping_add(g * MR * NR));
            let (lower, t) = (piece % 2, piece / 2 * VECTORS);
            // The piece to come: its signs, its states, its rows' e_max and the place of its columns there.
            let (a_sign, b_sign, c, fields, places) = match (piece + 1) % PIECES {
                0 => (at.a_sign.wrapping_add(next * MR), at.b_sign, p.c.wrapping_add(next * MR * NR), largest[1], 0),
                upcoming => {
                    let (row, t) = (upcoming % 2 * ROWS, upcoming / 2 * VECTORS);
                    let states = states.wrapping_add(row * NR + 16 * t);
                    let b_sign = now.b_sign.wrapping_add(16 * t);
                    (a_sign.wrapping_add(row), b_sign, states, largest[0].wrapping_add(row), t)
                }
            };
            // Results that go aside are copied before the next step of theirs can begin.
            let (put, more) = match before.leave {
                0 if smooth && !far && !near => (before.c, PIECES * count - 1 - at_piece),
                0 => (before.c, 0),
                _ => (aside, 0),
            };
            unsafe { (*work).more = more as u32 }
            let own = carried.start;
            let found = unsafe {
                call(
                    At {
                        a: now.a_val.wrapping_add((g * MR + lower * ROWS) * L),
                        b: now.b_val.wrapping_add(16 * t * L),
                        b_exp: at.b_exp,
                        a_exp: at.a_exp.wrapping_add((next * MR + 2 * piece) * L),
                        to: largest[1].wrapping_add(2 * piece),
                        work,
                        a_sign,
                        b_sign,
                        c,
                        largest: fields,
                        places: places_from(places),
                        put,
                    },
                    &mut carried,
                )
            };
            if (CHECK || OUT == out::ROUND_DOWN) && before.leave != 0 {
                unsafe { copy(aside, before) }
            }
            let place = |piece: usize| {
                let (g, piece) = (list[piece / PIECES], piece % PIECES);
                (g, piece, p.c.wrapping_add((g * MR + piece % 2 * ROWS) * NR + 16 * VECTORS * (piece / 2)))
            };
            // The last piece done.
            let first = at_piece;
            at_piece += more - found.left;
            if OUT == out::F16_RNE && overflowed::<OUT>(found.peak) {
                // Some of the piece before.
                let (of, piece, lost) = if at_piece > first {
                    let (g, piece, c) = place(at_piece - 1);
                    (g, piece, unsafe { infinite::<OUT>(c) })
                } else {
                    let of = if piece == 0 { (last, PIECES - 1) } else { (g, piece - 1) };
                    (of.0, of.1, unsafe { infinite::<OUT>(put) } & !before.leave)
                };
                changed |= lost != 0;
                skip[of] |= lost << place_of_bits(piece);
            }
            let (g, piece, c) = place(at_piece);
            // Whose e_max the last piece's group has looked for.
            let (next, at) = match at_piece / PIECES + 1 {
                i if i == count => (list[0], &then),
                i => (list[i], &now),
            };
            let tiny = q.tiny >> next & 1 != 0;
            if tiny {
                least = _mm512_min_epu8(least, _mm512_min_epu8(found.exponents[0], found.exponents[1]));
                near = doubts(least) != 0;
            }
            let mut leave = 0;
            if OUT == out::ROUND_DOWN {
                if far {
                    leave = unsafe { far_sums(&carried.sums, &*own, c, q) };
                    fars += 1;
                }
                far = is_far(found.peak);
            }
            if CHECK && _mm512_test_epi64_mask(found.watched, _mm512_set1_epi64(OVER)) != 0 {
                leave = unsafe { beyond(&(*work).watched) };
                changed = true;
                skip[g] |= leave << place_of_bits(piece);
            }
            before = Pending { c, leave };
            at_piece += 1;
            if at_piece / PIECES % 2 != i % 2 {
                largest.swap(0, 1);
            }
            last = g;
            if piece + 1 == PIECES {
                doubt = if near { whole(at, next, largest[0]) } else { 0 };
                (least, near) = (_mm512_set1_epi8(-1), false);
            }
        }
        if OUT == out::F16_RNE {
            // The next step must not begin where this one has left an infinity.
            let lost = end(carried.sums, before);
            changed |= lost != 0;
            skip[last] |= lost;
        }
        if changed || done == steps {
            _ = end(carried.sums, before);
            return Advance::by(done);
        }
        if 4 * fars > PIECES * count {
            _ = end(carried.sums, before);
            return Advance::by(done + unsafe { others::<OUT, CHECK, L>(&then, q, skip, steps - done) }.steps);
        }
        now = then;
    }
    Advance::by(steps)
}

/// `steps` in pieces of 16 columns.
///
/// # Safety
/// As `steps`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn others<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if OUT == out::ROUND_DOWN {
            return Advance::by(steps_apart(p, q, skip, steps));
        }
        super::steps::<OUT, CHECK, L>(p, q, skip, steps)
    }
}

/// Whether some c in units of q is far above the products.
#[inline]
#[target_feature(enable = "avx512f")]
fn is_far(units: __m512) -> bool {
    _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(units), _mm512_set1_ps(FAR_IN_BROAD)) != 0
}

/// Results of the vectors in which some c is far above the products. Which these are.
///
/// # Safety
/// As `copy`.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn far_sums(sums: &[__m512i; UNITS], from: &Start, to: *mut f32, q: &Consts) -> u32 {
    (0..UNITS).fold(0, |found, unit| {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        // SAFETY: the caller's promise.
        let (at, c) = unsafe { (to.add(r * NR + 16 * v), _mm512_load_ps(to.add(r * NR + 16 * v))) };
        let (sum, top) = (_mm512_add_epi32(sums[unit], from.rests[unit]), from.tops[unit]);
        if !is_far(in_units(c, top, q)) {
            return found;
        }
        // SAFETY: as above.
        unsafe { _mm512_store_ps(at, rounded_down(sum, top, c, q)) }
        found | 1 << (4 * r + v)
    })
}

/// Copies the vectors that are not to be left.
///
/// # Safety
/// They are there, aligned to 64 bytes.
#[cold]
#[target_feature(enable = "avx512f")]
unsafe fn copy(from: *const f32, to: Pending) {
    for unit in 0..UNITS {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        if to.leave >> (4 * r + v) & 1 == 0 {
            let at = r * NR + 16 * v;
            // SAFETY: the caller's promise.
            unsafe { _mm512_store_ps(to.c.add(at), _mm512_load_ps(from.add(at))) }
        }
    }
}

/// Vectors with an infinite f16.
///
/// # Safety
/// As `copy`.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn infinite<const OUT: u8>(from: *const f32) -> u32 {
    (0..UNITS).fold(0, |found, unit| {
        let (r, v) = (unit / VECTORS, unit % VECTORS);
        // SAFETY: the caller's promise.
        let d = unsafe { _mm512_load_ps(from.add(r * NR + 16 * v)) };
        found | u32::from(overflowed::<OUT>(d)) << (4 * r + v)
    })
}

/// Vectors in which a sum has left its 31 bits.
#[cold]
#[target_feature(enable = "avx512f")]
fn beyond(watched: &[__m512i; UNITS]) -> u32 {
    watched.iter().enumerate().fold(0, |found, (unit, bits)| {
        let over = _mm512_test_epi64_mask(*bits, _mm512_set1_epi64(OVER)) != 0;
        found | u32::from(over) << (4 * (unit / VECTORS) + unit % VECTORS)
    })
}
