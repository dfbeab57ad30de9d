//! The steps of a tile's row groups as one stream of pieces, 4 rows by 16 columns each (AVX-512, f64 accumulators).
//!
//! In the words of SPEC's FDA: `largest` is the products' part of e_max (step 3), `begin` takes c into it and truncates
//! c (step 4), `products` truncates and adds products as floors (4, 5), `end` makes floors of negative ones truncations
//! by their number, adds c (5) and encodes (6).
//!
//! A piece's FMAs keep a processor's two multipliers busy, while Zen 4 and 5 do nearly everything else on other ports.
//! Work overlaps only where it stands close together: a window holds some sixty vector operations, a piece has
//! hundreds. So between the products of a piece the one before is finished, row by row, the next one is begun, and the
//! next row group's e_max is looked for, or that of the next steps' first. FMAs are in assembly since compilers take
//! the order for a matter of taste.
//!
//! Measured on Zen 4, in FMAs of 512 bits that could have been done meanwhile: a store costs one and a half; `vprolvd`,
//! `vpopcntd`, multiplications and comparisons into masks one; additions, logic, shuffles, shifts by a constant,
//! `vrangeps` and conversions between f32 and integers none, up to one for each FMA. A number broadcast by
//! `vbroadcastsd` costs two thirds, by `vpbroadcastq` nothing. So nothing is kept in memory between a piece and the
//! next; and two pieces, the upper and the lower rows of a pair, take turns for a run of steps, their states in
//! registers until its end:
//!
//! ```text
//! a piece's FMAs   upper, step 0      lower, 0   upper, 1   ...   lower, last
//! meanwhile ends   the pair before    upper, 0   lower, 0         upper, last: stored
//! and begins       lower, 0: loaded   upper, 1   lower, 1         the next pair's upper, 0: loaded
//! ```
//!
//! Whole row groups go in larger pieces (`broad`); this is for fewer than 64 columns, where pieces are to be left, and
//! for steps of other lengths.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers, and assembly")]

pub(super) mod broad;
mod products;
mod rows;

use super::avx512::{ROWS as PIECES, doubts as doubts_of, exponent_fields, max_exponents};
use super::finish::{accumulators, low_halves};
use super::micro::Advance;
use super::step::{Consts, Step};
use super::{GROUPS, MR, NR};
use core::arch::asm;
use core::mem::MaybeUninit;
use products::products;
pub(super) use rows::place;
use rows::{begin, beyond, end, get, infinite, put};
use std::arch::x86_64::*;

/// Rows of a piece.
const ROWS: usize = 4;

/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;
/// Sums that are watched begin here, so that bits above show when one leaves 31 bits.
const OFFSET: i32 = 1 << 30;
/// The bits of such accumulators that a sum within 31 bits leaves alone.
const OVER: i64 = (1 << 51) - 2 * OFFSET as i64;

/// Steps that a pair of pieces does, at most, before its states return to memory.
const RUN: usize = 4;

/// Two pieces, the upper and the lower rows of a row group by 16 columns, at one step.
#[derive(Clone, Copy)]
struct Pair {
    /// The row group.
    group: usize,
    /// The vector of 16 columns.
    t: usize,
    a_val: *const f64,
    b_val: *const f64,
    a_sign: *const u32,
    b_sign: *const u32,
    c: *mut f32,
}

impl Pair {
    /// That of the first of a group's `vectors`.
    #[inline(always)]
    fn new(p: &Step, l: usize, group: usize, vectors: u32) -> Self {
        let (t, first) = (vectors.trailing_zeros() as usize, group * MR);
        Self {
            group,
            t,
            a_val: p.a_val.wrapping_add(first * l),
            b_val: p.b_val.wrapping_add(t * l * 16),
            a_sign: p.a_sign.wrapping_add(first),
            b_sign: p.b_sign.wrapping_add(t * 16),
            c: p.c.wrapping_add(first * NR + t * 16),
        }
    }

    /// The same at the next step.
    #[inline(always)]
    fn next(&mut self, l: usize) {
        self.a_val = self.a_val.wrapping_add(GROUPS * MR * l);
        self.b_val = self.b_val.wrapping_add(NR * l);
        self.a_sign = self.a_sign.wrapping_add(GROUPS * MR);
        self.b_sign = self.b_sign.wrapping_add(NR);
    }

    /// The states of the upper or the lower rows.
    #[inline(always)]
    const fn states(&self, half: usize) -> *mut f32 {
        self.c.wrapping_add(half * ROWS * NR)
    }

    /// A's signs of these rows, and B's.
    #[inline(always)]
    const fn signs(&self, half: usize) -> [*const u32; 2] {
        [self.a_sign.wrapping_add(half * ROWS), self.b_sign]
    }

    /// The first row's bit in masks.
    #[inline(always)]
    const fn bit(&self, half: usize) -> usize {
        4 * half * ROWS + self.t
    }
}

/// Row groups with something to do.
struct Wanted {
    groups: [usize; GROUPS],
    /// Which vectors of columns have it.
    vectors: [u32; GROUPS],
    count: usize,
}

impl Wanted {
    fn of(p: &Step, skip: &[u32]) -> Self {
        let mut to = Self { groups: [0; GROUPS], vectors: [0; GROUPS], count: 0 };
        for (g, skip) in skip.iter().enumerate() {
            let vectors = (0..p.vectors).filter(|t| !skip >> t & PIECES != 0);
            (to.groups[to.count], to.vectors[to.count]) = (g, vectors.fold(0, |m, t| m | 1 << t));
            to.count += usize::from(to.vectors[to.count] != 0);
        }
        to
    }
}

/// `steps_fast` for f64 accumulators, for steps of `L` products, or with 0 of any number; `CHECK` where sums of
/// products could leave 31 bits.
///
/// # Safety
/// As `steps_fast`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn steps<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    debug_assert!(steps > 0 && skip.len() <= GROUPS && p.vectors <= NR / 16);
    let (l, zero) = (q.length::<L>(), _mm512_setzero_si512());
    let Wanted { groups, vectors: wanted, count } = Wanted::of(p, skip);
    if count == 0 {
        return Advance::by(steps);
    }
    // States are stored at the end of a run only. A piece that some step of the run leaves to others, or whose f16
    // became infinite, keeps its states from before the run, and is behind. A single step stores infinities, as `Micro`
    // says.
    let single = steps == 1;
    let mut unchanged = [0; GROUPS];
    unchanged[..skip.len()].copy_from_slice(skip);
    // e_max of this group and the next, step by step and row by row, as exponent fields; one more for who looks for
    // none, and one for the least of all of the next.
    let mut largest = [const { MaybeUninit::<__m512i>::uninit() }; 2 * RUN * MR + 2];
    let largest = largest.as_mut_ptr().cast::<__m512i>();
    // Pointers may pass the last step, but are not read from there.
    let whole = |p: &Step, g: usize, steps: usize, to: *mut __m512i| {
        let (mut p, mut doubt) = (p.group(g, q), 0);
        for s in 0..steps {
            // SAFETY: one of the caller's row groups, at a step that is still to be done, or one that is done.
            let (found, some) = unsafe { max_exponents::<L, MR, false>(&p, &q.group(g), 0..l) };
            // SAFETY: `to` is one of `largest`'s two halves, of `RUN` steps by `MR` rows, and `steps` is `RUN` at most.
            unsafe { to.add(s * MR).cast::<[__m512i; MR]>().write(found) };
            (p, doubt) = (p.skip(1, q), doubt | some);
        }
        doubt
    };
    let (mut now, mut run, mut done, mut behind, mut turn) = (*p, steps.min(RUN), 0, 0, 0);
    let mut doubts = whole(p, groups[0], run, largest);
    let mut upcoming = Pair::new(p, l, groups[0], wanted[0]);
    // The piece before: its sums, where they began, its signs, and the rows that are not to be changed, every fourth
    // bit: all of them before the first piece.
    let (mut sums, mut ended, mut ended_units) = ([zero; ROWS], [zero; ROWS], [zero; ROWS]);
    let (mut before, mut signs, mut leave) = (upcoming, upcoming.signs(1), !0);
    // Where the piece at hand begins.
    let (mut tops, mut units) = ([zero; ROWS], [zero; ROWS]);
    // SAFETY: 4 of the 8 rows of a group's states, by one of the tile's four vectors: all begin with a line.
    let states = unsafe { get(upcoming.states(0)) };
    // SAFETY: `whole` has written e_max of the first step's 8 rows.
    each_row!([0, 1, 2, 3], R => (tops[R], units[R]) = unsafe {
        begin::<OUT>(states[R], largest.add(R), place(upcoming.t), q)
    });
    loop {
        let left = steps - done - run;
        let following = left.min(RUN);
        // The next run's first step.
        let then = if left > 0 { now.skip(run, q) } else { now };
        // The first piece of a run finishes the last of the run before.
        let mut first = done > 0;
        for i in 0..count {
            // The group to come, and how many steps of it.
            let ends = i + 1 == count;
            // Whether a piece follows the group's last one.
            let goes_on = left > 0 || !ends;
            // With no step to come this one is read, so that pointers stay inside.
            let (after, at, length) = if ends { (0, &then, following.max(1)) } else { (i + 1, &now, run) };
            let (g, next, mut rest) = (groups[i], groups[after], wanted[i]);
            let here_max = largest.wrapping_add(turn % 2 * RUN * MR);
            let next_max = largest.wrapping_add((turn + 1) % 2 * RUN * MR);
            // While all pieces of a group go by, each finds e_max of a row of the next.
            let on_the_way = rest == 0xF;
            let (mut n, mut doubt, tiny) = (0, 0, q.tiny >> next & 1 != 0);
            let mut to = if on_the_way { next_max } else { largest.wrapping_add(2 * RUN * MR) };
            let least = largest.wrapping_add(2 * RUN * MR + 1);
            if tiny {
                // SAFETY: the last of `largest`'s places, which nothing else is for.
                unsafe { least.write(_mm512_set1_epi8(-1)) }
            }
            let (mut b_exp, mut a_exp) = (at.b_exp, at.a_exp.wrapping_add(next * MR * l));
            // Once the run before has ended, which may be with the first piece.
            let mut doubtful = doubts;
            while rest != 0 {
                let mut here = upcoming;
                rest &= rest - 1;
                let last = rest == 0;
                upcoming = if last { Pair::new(at, l, next, wanted[after]) } else { Pair::new(&now, l, g, rest) };
                if last && !on_the_way && goes_on {
                    doubt = whole(at, next, length, next_max);
                }
                let mut fields = here_max;
                for s in 0..run {
                    // One of the pair. `$change`: the other one is at an end of the run. Then the result of the piece
                    // before goes to `$put`, but for rows to `$leave`, and the piece to come reads its c at `$get`;
                    // otherwise the one's result is the other's c, in registers.
                    macro_rules! piece {
                        ($half:literal, $change:expr, $put:expr, $leave:expr, $get:expr, $fields:expr, $t:expr) => {{
                            let offset = if CHECK { OFFSET.into() } else { 0 };
                            let (mut even, mut odd) = ([_mm512_setzero_pd(); ROWS], [_mm512_setzero_pd(); ROWS]);
                            each_row!([0, 1, 2, 3], R => [even[R], odd[R]] = accumulators(tops[R], offset));
                            let (mut states, mut best) = ([_mm512_setzero_ps(); ROWS], zero);
                            let values = [here.a_val.wrapping_add($half * ROWS * l), here.b_val];
                            // Two rows end, then two rows begin: so that fewer registers are in use.
                            // SAFETY: 4 rows by 16 columns of `here`'s step, and exponents of a row of the group to
                            // come at a step that is there: `a_exp` and `b_exp` pass from one to the next `length - 1`
                            // times. The signs are the piece before's, or at first those of one that is there, too.
                            each_row!([0, 1], R => unsafe {
                                products::<L, R>(&mut even, &mut odd, &mut best, values, (b_exp, a_exp), l);
                                for r in [2 * R, 2 * R + 1] {
                                    states[r] = end::<OUT, CHECK, L>(signs, r, sums[r], ended_units[r], ended[r], q);
                                }
                            });
                            if $change {
                                let leave: u32 = $leave;
                                let lost = infinite::<OUT>(&states) & !leave;
                                // SAFETY: states of the piece before, which `get` has read; before the first all are
                                // left.
                                unsafe { put($put, &states, if single { leave } else { leave | lost }) };
                                if lost != 0 {
                                    skip[before.group] |= lost << before.bit(1 - $half);
                                    if first {
                                        // That was the run before, and of this one nothing has ended.
                                        return Advance { behind, ..Advance::by(done) };
                                    }
                                }
                                // SAFETY: as at the first piece, of one of the groups with something to do.
                                states = unsafe { get($get) };
                            }
                            first = false;
                            (ended, ended_units, signs) = (tops, units, here.signs($half));
                            // SAFETY: the same products' other half; `$fields` are e_max of this run's steps, or of the
                            // group to come once its first rows' are written, and the assembly is a comment.
                            each_row!([2, 3], R => unsafe {
                                products::<L, R>(&mut even, &mut odd, &mut best, values, (b_exp, a_exp), l);
                                for r in [2 * R - 4, 2 * R - 3] {
                                    (tops[r], units[r]) = begin::<OUT>(states[r], $fields.wrapping_add(r), $t, q);
                                    // Here, not after the products, where compilers would have it.
                                    asm!(
                                        "/* {0} {1} */",
                                        inout(zmm_reg) tops[r],
                                        inout(zmm_reg) units[r],
                                        options(nomem, nostack, preserves_flags),
                                    );
                                }
                            });
                            // SAFETY: one of the other half's `RUN * MR` places, for a group has `2 * 4 * run` pieces,
                            // all of them on the way; or always the place that is for nobody.
                            unsafe { to.write(exponent_fields(best, q)) };
                            if tiny {
                                // SAFETY: as above, where `least` was first written.
                                unsafe { least.write(_mm512_min_epu8(least.read(), best)) }
                            }
                            n += 1;
                            to = to.wrapping_add(usize::from(on_the_way));
                            a_exp = a_exp.wrapping_add(l);
                            if CHECK {
                                beyond(g, here.bit($half), &even, &odd, skip);
                            }
                            each_row!([0, 1, 2, 3], R => sums[R] = low_halves(even[R], odd[R]));
                        }};
                    }
                    let (ending, lift) = (s + 1 == run, place(here.t));
                    piece!(0, s == 0, before.states(1), leave, here.states(1), fields.wrapping_add(ROWS), lift);
                    skip[g] |= core::mem::take(&mut doubtful);
                    before = here;
                    fields = fields.wrapping_add(MR);
                    let (fields, lift) = match (ending, last && goes_on) {
                        (false, _) => (fields, lift),
                        (true, false) => (here_max, place(upcoming.t)),
                        (true, true) => (next_max, place(upcoming.t)),
                    };
                    piece!(1, ending, here.states(0), skip[g] >> here.bit(0), upcoming.states(0), fields, lift);
                    here.next(l);
                    if n % MR == 0 {
                        // The next step; beyond the last its rows are read again.
                        let more = n < length * MR;
                        a_exp = a_exp.wrapping_sub(MR * l).wrapping_add(if more { GROUPS * MR * l } else { 0 });
                        b_exp = b_exp.wrapping_add(if more { NR * l } else { 0 });
                    }
                }
                leave = skip[g] >> here.bit(1);
            }
            // SAFETY: where operands are `tiny` it was written as this group began.
            if tiny && on_the_way && goes_on && doubts_of(unsafe { least.read() }) != 0 {
                doubt = whole(at, next, length, next_max);
            }
            (doubts, turn) = (doubt, turn + 1);
        }
        done += run;
        behind = if single { 0 } else { run };
        if left == 0 || skip.iter().ne(&unchanged[..skip.len()]) {
            break;
        }
        (now, run) = (then, following);
    }
    let mut states = [_mm512_setzero_ps(); ROWS];
    // SAFETY: the last piece's signs: 4 rows', and 16 columns' that begin with a line.
    each_row!([0, 1, 2, 3], R => states[R] = unsafe {
        end::<OUT, CHECK, L>(signs, R, sums[R], ended_units[R], ended[R], q)
    });
    let lost = infinite::<OUT>(&states) & !leave;
    // SAFETY: the states of that piece, the lower rows of a pair.
    unsafe { put(before.states(1), &states, if single { leave } else { leave | lost }) };
    skip[before.group] |= lost << before.bit(1);
    Advance { behind, ..Advance::by(done) }
}
