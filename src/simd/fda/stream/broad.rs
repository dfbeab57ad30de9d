//! Steps of row groups as a stream of pieces of 4 rows by 32 columns.
//!
//! A processor that does two FMAs of 512 bits a cycle (Zen 5) needs as many sums under way as two multipliers have
//! stages, eight; `stream`'s pieces have just these, and every delay of one is lost. Here there are sixteen, and where
//! a piece begins waits for it in memory. What counts then is the number of instructions: a Zen 5 gets five or six a
//! cycle from its cache of decoded ones, and fewer where code is long and straight. So one function of some 2 to 9 KiB,
//! made for one kind of results and one length of steps, does piece after piece (`piece`), step after step, until
//! something has to be looked at: the first infinite f16, a sum beyond 31 bits, exponents near operands below the
//! window, or, where results are rounded down, a c far above the products. With one such FMA a cycle (Zen 4) this is
//! faster, too, if by less.
//!
//! Only whole row groups of 64 columns are done here. A call with fewer columns, with a row group of which some pieces
//! are to be left, or with f16 results of F below 2 goes to `stream`, or `round_down`, and so does a row group in doubt
//! at a step.

mod ends;
mod last;
mod piece;

use super::super::avx512::{doubts, max_exponents, safe};
use super::super::micro::Advance;
use super::super::round_down::FAR_IN_F32;
use super::super::round_down::avx512::steps_apart;
use super::super::step::{Consts, EXP32, LEAST_F16, Step};
use super::super::{GROUPS, MR, NR, out};
use super::rows::places_from;
use super::{OFFSET, OVER, ROWS};
use core::mem::{MaybeUninit, offset_of};
use ends::{begin, beyond, copy, end, far_sums, infinite, is_beyond, is_far, to_infinity};
pub(in crate::simd::fda) use last::unit_steps;
use piece::{At, Carried, call, code, code_endless};
use std::arch::x86_64::*;

/// Vectors of columns of a piece.
const VECTORS: usize = 2;
/// Vectors of states of a piece: `VECTORS` of the first row, then of the next.
const VECTORS_OF_PIECE: usize = ROWS * VECTORS;
/// Pieces of a row group: the upper rows, the lower ones, then the same with other columns.
const PIECES: usize = MR / ROWS * (NR / 16 / VECTORS);
/// The largest f32 whose integer has 31 bits, an infinite f16 in units of q: as many negative products as a step may
/// have can be added to it.
const MOST: f32 = ((1u32 << 31) - (1 << 7)) as f32;
/// What is infinite in f16.
const BEYOND_F16: f32 = 65536.0;
/// What moves the mask of a piece's vectors, `1 << (4 row + vector)`, to its place in a row group's.
const fn place_of_bits(piece: usize) -> usize {
    4 * ROWS * (piece % 2) + VECTORS * (piece / 2)
}

/// Where a piece's sums begin, and what has to be added to them: c in units of q, and the number of negative products;
/// where results are rounded down c is apart (`Work::c_in_q`).
#[repr(C)]
struct Start {
    tops: [__m512i; VECTORS_OF_PIECE],
    rests: [__m512i; VECTORS_OF_PIECE],
}

/// As far apart as two `Start`s.
#[repr(C, align(1024))]
struct CInQ([__m512; VECTORS_OF_PIECE]);

/// What pieces read and write besides panels and states. `piece` goes from one `Start` to the other by one bit of the
/// address. It begins with a page: where it lay in a page's second half, by chance of each process, Zen 4 had a tenth
/// less at L = 8 (docs/kernels.md).
#[repr(C, align(4096))]
struct Work {
    /// Those of even pieces, and of odd ones.
    starts: [Start; 2],
    /// c in units of q, of each.
    c_in_q: [CInQ; 2],
    /// e_max of this row group and the next, as exponent fields: one bit of the address apart, too.
    largest: [[__m512i; MR]; 2],
    /// All bits of each sum that is watched.
    watched: [__m512i; VECTORS_OF_PIECE],
    /// Results of which some go nowhere, row after row as in states.
    aside: [[f32; NR]; ROWS],
    /// What makes exponent fields of bytes: subtracted, and the lowest.
    sub: __m512i,
    floor: __m512i,
    /// Of exponents beside which operands below the window might be as large.
    safe: __m512i,
    code: Option<unsafe extern "C" fn()>,
    /// How many pieces of this step are to be done after the first one, how many of a whole step after its first one,
    /// and how many steps after this one.
    more: u32,
    last: u32,
    steps: u32,
    /// Whether there are operands below the window.
    tiny: u32,
    next: Next,
    /// States of a step's last piece.
    last_c: *mut f32,
    /// `2^(F - e_max)` is this less `1.5 * 2^e_max`, and `2^(e_max - F)` the latter and `down`, as codes.
    up: i32,
    down: i32,
    exponent: i32,
    half: i32,
    /// Of results that are rounded down: what makes bits of an exponent field that are dropped, the largest of sums
    /// below `2^30 q`, and the bits of a sum below and above.
    kept: __m512i,
    small: i32,
    low: i32,
    high: i32,
    /// From which on somebody has to look at an f16; or where results are rounded down at c in units of q.
    limit: f32,
    /// The largest c in units of q, of f16 results.
    most: f32,
    /// Of results with fewer bits.
    keep: i32,
    /// Of f16 results.
    one: i32,
    zero: i32,
    last_place: f32,
    least_c: i32,
    /// Of watched sums.
    offset: i64,
    over: i64,
    /// Where c comes last.
    unit_step: UnitStep,
}

/// Where c comes last: a unit step's first sum begins at 0, and to the result of its last one c is added. Masks have
/// all lanes or none.
#[repr(C)]
struct UnitStep {
    /// Where the piece after the first one begins with a state, and where what the first piece ends is a last sum's.
    begins: u32,
    first_ends: u32,
    /// Whether this step is a last sum, how many are to come before that, and how many before it in all.
    ends: u32,
    sums_left: u32,
    most_left: u32,
    /// Bytes from states of sums to those of c, and from where a piece begins to where its results go: these in a last
    /// sum, else 0.
    apart: isize,
    to_c: isize,
}

/// The first row group at the next step: what the last one's last piece begins, and where exponents are whose largest
/// all its pieces look for. With no step to come it is that of the last one again: a call moves it on from step to
/// step, but not into its last one, whose last piece is the last of all, so that nobody ends what it begins.
#[repr(C)]
struct Next {
    a_val: *const f64,
    b_val: *const f64,
    a_exp: *const u32,
    b_exp: *const u8,
    a_sign: *const u32,
    b_sign: *const u32,
    c: *const f32,
}

/// A piece whose results are not written yet.
#[derive(Clone, Copy)]
struct Pending {
    group: usize,
    /// Which of the row group's it is.
    piece: usize,
    c: *mut f32,
    /// Vectors of states to leave as they are.
    leave: u32,
}

impl Pending {
    /// Marks some of its vectors of states.
    fn mark(&self, vectors: u32, skip: &mut [u32]) {
        skip[self.group] |= vectors << place_of_bits(self.piece);
    }
}

/// What `piece` relies on to go from one to the other by one bit of the address, and its offsets.
const _: () = {
    let (apart, rows) = (size_of::<Start>(), size_of::<[__m512i; MR]>());
    assert!(
        apart.is_power_of_two() && size_of::<CInQ>() == apart && offset_of!(Work, c_in_q).is_multiple_of(2 * apart)
    );
    assert!(align_of::<Work>().is_multiple_of(2 * apart) && offset_of!(Work, starts) == 0);
    assert!(align_of::<Work>().is_multiple_of(2 * rows) && offset_of!(Work, largest).is_multiple_of(2 * rows));
    assert!(ROWS == 4 && VECTORS == 2 && MR == 8 && NR == 64 && PIECES == 4);
};

impl Work {
    /// What does not change.
    #[target_feature(enable = "avx512f")]
    fn set<const OUT: u8, const CHECK: bool, const L: usize>(&mut self, q: &Consts) {
        let half = 1 << 22;
        self.sub = _mm512_set1_epi8(q.bias_sub as i8);
        self.floor = _mm512_set1_epi8(q.floor_field as i8);
        self.code = Some(code::<OUT, CHECK, L>());
        (self.up, self.down) = (((254 + q.frac_bits) << 23) + half, -((q.frac_bits << 23) + half));
        (self.exponent, self.half, self.keep) = (EXP32, half, q.keep);
        (self.one, self.last_place, self.least_c) = (1, 1.5 * (1 << 13) as f32, i32::from(LEAST_F16) << 23);
        (self.offset, self.over) = (OFFSET.into(), OVER);
        (self.tiny, self.safe) = (q.tiny.into(), safe());
        self.limit = if OUT == out::F16_RNE { BEYOND_F16 } else { FAR_IN_F32 };
        self.most = MOST;
        self.kept = _mm512_set1_epi32(127 + i32::from(q.floors.kept));
        (self.small, self.low, self.high) = (127 + 29, 31, !31);
    }
}

/// Row groups' pieces of all steps, one after another.
#[derive(Clone, Copy)]
struct Order<'a> {
    /// The first step, and how many.
    p: &'a Step,
    q: &'a Consts,
    steps: usize,
    /// Row groups with something to do.
    groups: [usize; GROUPS],
    count: usize,
}

impl<'a> Order<'a> {
    fn new(p: &'a Step, q: &'a Consts, skip: &[u32], steps: usize) -> Self {
        let mut to = Self { p, q, steps, groups: [0; GROUPS], count: 0 };
        for (g, _) in skip.iter().enumerate().filter(|(_, skip)| **skip != !0) {
            (to.groups[to.count], to.count) = (g, to.count + 1);
        }
        to
    }

    /// Pieces of a step.
    const fn of_step(&self) -> usize {
        PIECES * self.count
    }

    /// Whether row groups follow one another.
    const fn smooth(&self) -> bool {
        self.groups[self.count - 1] - self.groups[0] == self.count - 1
    }

    /// Where a piece is: its step, the place of its row group in the list, and which of the group's it is.
    const fn place(&self, at: usize) -> [usize; 3] {
        // Narrow numbers, which take less to divide.
        let (at, of_step) = (at as u32, self.of_step() as u32);
        let (step, first) = (at / of_step, (at % of_step) as usize);
        [step as usize, first / PIECES, first % PIECES]
    }

    /// A piece once it is done.
    const fn piece(&self, at: usize) -> Pending {
        let [_, index, piece] = self.place(at);
        let group = self.groups[index];
        let c = self.p.c.wrapping_add((group * MR + piece % 2 * ROWS) * NR + 16 * VECTORS * (piece / 2));
        Pending { group, piece, c, leave: 0 }
    }

    /// A step, with none to come the last one again.
    fn step(&self, step: usize) -> Step {
        self.p.skip(step.min(self.steps - 1), self.q)
    }

    /// The step and the row group that come after a piece's row group.
    const fn coming(&self, at: usize) -> (usize, usize) {
        let [step, index, _] = self.place(at);
        if index + 1 == self.count { (step + 1, self.groups[0]) } else { (step, self.groups[index + 1]) }
    }

    /// Lines of A before a row group at a step, and of B: with no step to come those of the last one again.
    fn lines(&self, step: usize, group: usize) -> [usize; 2] {
        let step = step.min(self.steps - 1);
        [(step * GROUPS + group) * MR, step * NR]
    }

    /// What `piece` needs for the piece `at`.
    #[inline(always)]
    fn at<const L: usize>(&self, at: usize, largest: [*mut __m512i; 2], put: *mut f32, work: *mut Work) -> At {
        let ([step, index, piece], (coming, next)) = (self.place(at), self.coming(at));
        let (p, group) = (self.p, self.groups[index]);
        // The piece to come: its step and row group, e_max of that, its rows and vectors of columns.
        let (to, g, fields, row, t) = match (piece + 1) % PIECES {
            0 => (coming, next, largest[1], 0, 0),
            upcoming => (step, group, largest[0], upcoming % 2 * ROWS, upcoming / 2 * VECTORS),
        };
        let ([a, b], [a_coming, b_coming], [a_to, b_to]) =
            (self.lines(step, group), self.lines(coming, next), self.lines(to, g));
        At {
            a: p.a_val.wrapping_add((a + piece % 2 * ROWS) * L),
            b: p.b_val.wrapping_add((b + 16 * (piece / 2 * VECTORS)) * L),
            b_exp: p.b_exp.wrapping_add(b_coming * L),
            a_exp: p.a_exp.wrapping_add((a_coming + 2 * piece) * L),
            to: largest[1].wrapping_add(2 * piece),
            work,
            a_sign: p.a_sign.wrapping_add(a_to + row),
            b_sign: p.b_sign.wrapping_add(b_to + 16 * t),
            c: p.c.wrapping_add((g * MR + row) * NR + 16 * t),
            largest: fields.wrapping_add(row),
            places: places_from(t),
            put,
        }
    }

    /// What pieces after one at a step need besides, if they are to go by.
    #[inline(always)]
    fn next<const L: usize>(&self, step: usize) -> Next {
        let (p, first) = (self.p, self.groups[0]);
        let [a, b] = self.lines(step + 1, first);
        Next {
            a_val: p.a_val.wrapping_add(a * L),
            b_val: p.b_val.wrapping_add(b * L),
            a_exp: p.a_exp.wrapping_add(a * L),
            b_exp: p.b_exp.wrapping_add(b * L),
            a_sign: p.a_sign.wrapping_add(a),
            b_sign: p.b_sign.wrapping_add(b),
            c: p.c.wrapping_add(first * MR * NR),
        }
    }
}

/// `steps_fast` for f64 accumulators and steps of `L` products, 4 or a multiple of 8; `CHECK` where sums of products
/// could leave 31 bits.
///
/// # Safety
/// As `steps_fast`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(in crate::simd::fda) unsafe fn steps<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    // Pointers may pass the last step, but are not read from there.
    const { assert!(L < 128, "counts added to the largest c have no room") };
    let some = skip.iter().any(|skip| *skip != 0 && *skip != !0);
    // What an infinite c is multiplied by must not be 0.
    let least_f = if OUT == out::F16_RNE { 2 } else { 0 };
    if p.vectors < NR / 16 || some || q.frac_bits < least_f {
        // SAFETY: the caller's promise, handed on.
        return unsafe { others::<OUT, CHECK, L>(p, q, skip, steps) };
    }
    let order = Order::new(p, q, skip, steps);
    if order.count == 0 {
        return Advance::by(steps);
    }
    let of_step = order.of_step();
    let mut work = MaybeUninit::<Work>::zeroed();
    let work = work.as_mut_ptr();
    // SAFETY: a local `Work`, of which zeros are a value: no pointer leads anywhere, and there is no code.
    unsafe {
        (*work).set::<OUT, CHECK, L>(q);
        ((*work).last, (*work).last_c) = (of_step as u32 - 1, order.piece(of_step - 1).c);
    }
    // SAFETY: a place in it, whose bytes are not looked at.
    let aside = unsafe { (&raw mut (*work).aside).cast::<f32>() };
    // e_max of this row group and of the next.
    // SAFETY: two places in it.
    let mut largest =
        unsafe { [&raw mut (*work).largest[0], &raw mut (*work).largest[1]].map(<*mut _>::cast::<__m512i>) };
    let whole = |p: &Step, g: usize, to: *mut __m512i| {
        // SAFETY: one of the caller's row groups at one of its steps: `Order::step` gives none beyond the last.
        let (found, doubt) = unsafe { max_exponents::<L, MR, false>(&p.group(g, q), &q.group(g), 0..L) };
        // SAFETY: `to` is one of the two of `largest`, which have 8 rows each.
        unsafe { to.cast::<[__m512i; MR]>().write(found) };
        doubt
    };
    let nothing = Pending { c: aside, leave: !0, ..order.piece(of_step - 1) };
    // SAFETY: another place in `work`.
    let starts = unsafe { (&raw mut (*work).starts).cast() };
    let (mut before, mut carried) =
        (nothing, Carried { start: starts, sums: [_mm512_setzero_si512(); VECTORS_OF_PIECE] });
    // Pieces of the row group at hand that are to be left, and whether some c of the piece to come is far above the
    // products.
    let mut doubt = whole(p, order.groups[0], largest[0]);
    // SAFETY: the first step's row group with the e_max that `whole` has just written; nothing else refers to `work`.
    let mut far = unsafe { begin::<OUT, CHECK>(p, order.groups[0], largest[0], q, work) };
    // Whether exponents that the group's pieces have found so far, the least of each column, are near operands below.
    let (mut least, mut near) = (_mm512_set1_epi8(-1), false);
    // How many pieces there are in steps to do: only ever fewer, to the end of the step at hand, so that no piece lacks
    // a step. How many are done, and how many of a step's had some c far above.
    let (mut all, mut done, mut fars) = (steps * of_step, 0, 0);
    // Whether some f16 is infinite: such states stay as they are here, but others know only finite ones.
    let mut endless = false;
    while done < all {
        let [step, index, piece] = order.place(done);
        let first = index * PIECES + piece;
        if first == 0 {
            if 4 * fars > of_step {
                // SAFETY: a step's last piece, whose states are the tile's; or `nothing`, of which all is left.
                _ = unsafe { end::<OUT>(&carried.sums, before, q, work) };
                // SAFETY: `step` is below `steps`, so that so many are left of the caller's.
                let rest = unsafe { others::<OUT, CHECK, L>(&order.step(step), q, skip, steps - step) };
                return Advance::by(step + rest.steps);
            }
            fars = 0;
        }
        if doubt != 0 {
            // Where fewer than 64 columns count, those that are not there are in doubt beside any operand below the
            // window. SAFETY: likewise, the last piece of any row group: pieces are in doubt where a group begins.
            endless |= unsafe { end::<OUT>(&carried.sums, before, q, work) } != 0;
            if endless {
                if first == 0 {
                    return Advance { infinite: true, ..Advance::by(step) };
                }
                order.groups[index..order.count].iter().for_each(|g| skip[*g] = !0);
                return Advance { infinite: true, ..Advance::by(step + 1) };
            }
            before = nothing;
            let g = order.groups[index];
            let here = order.step(step).group(g, q);
            // SAFETY: one of the caller's row groups, as the only one, at one of its steps.
            unsafe { others::<OUT, CHECK, L>(&here, &q.group(g), &mut skip[g..=g], 1) };
            if OUT == out::F16_RNE && skip[g] != 0 {
                // Those done, with an infinite f16, need not be left any more.
                // SAFETY: `here` leads to this group's 8 rows of 64 states.
                let found = skip[g] & unsafe { infinite::<OUT>(here.c) };
                (skip[g], endless) = (skip[g] & !found, endless | (found != 0));
            }
            all = (step + 1) * of_step;
            let (at, next) = order.coming(done);
            let at = order.step(at);
            doubt = whole(&at, next, largest[1]);
            // SAFETY: the row group to come, or the first again, whose e_max `whole` has just written there.
            far = unsafe { begin::<OUT, CHECK>(&at, next, largest[1], q, work) };
            largest.swap(0, 1);
            done += PIECES;
            continue;
        }
        // Results that go aside are copied before the next step of theirs can begin.
        let (put, alone) = if before.leave == 0 { (before.c, !order.smooth() || far || near) } else { (aside, true) };
        let (more, more_steps) = match alone {
            true => (0, 0),
            // Steps of which some sums are far end one by one.
            false => (of_step - 1 - first, if fars == 0 { all / of_step - 1 - step } else { 0 }),
        };
        let at = order.at::<L>(done, largest, put, work);
        if OUT == out::F16_RNE && endless {
            // SAFETY: nobody else refers to `work` here.
            unsafe { (*work).code = Some(code_endless::<CHECK, L>()) }
        }
        let (own, found);
        // SAFETY: `at` and `next` lead to pieces of steps that are there, `put` to states or `aside`; no more pieces
        // are asked for than are left of all, and only where row groups follow one another. What `carried` has was
        // begun by the piece before or by `begin`, and `work` has its constants by `set`.
        unsafe {
            // By itself: as part of a tuple it was written in words and copied in vectors, which had to wait for these.
            (*work).next = order.next::<L>(step);
            ((*work).more, (*work).steps) = (more as u32, more_steps as u32);
            own = carried.start;
            found = call(at, &mut carried);
        }
        if (CHECK || OUT == out::ROUND_DOWN) && before.leave != 0 {
            // SAFETY: the call put this piece's results aside, a row of 64 after another as in states.
            unsafe { copy(aside, before) }
        }
        // The last piece done.
        // SAFETY: nothing but the call, which is over, writes there.
        let here = done + more - found.left + of_step * (more_steps - unsafe { (*work).steps } as usize);
        if OUT == out::F16_RNE && !endless && is_beyond(found.peak) {
            endless = true;
            let ended = if here > done { order.piece(here - 1) } else { before };
            // SAFETY: the piece before the last one done, whose results the call has put there, or this loop.
            unsafe { to_infinity(ended) }
        }
        before = order.piece(here);
        if q.tiny >> order.coming(here).1 & 1 != 0 {
            least = _mm512_min_epu8(least, _mm512_min_epu8(found.exponents[0], found.exponents[1]));
            near = doubts(least) != 0;
        }
        if OUT == out::ROUND_DOWN {
            if far {
                // SAFETY: one piece was done, whose states are there; `own` is where it began, for the next has the
                // other.
                before.leave = unsafe { far_sums(&carried.sums, &*own, before.c, q) };
                fars += 1;
            }
            far = is_far(found.peak);
        }
        if CHECK && _mm512_test_epi64_mask(found.watched, _mm512_set1_epi64(OVER)) != 0 {
            // SAFETY: vectors in `work`, which is zeros or what the call wrote there.
            before.leave = unsafe { beyond(&(*work).watched) };
            before.mark(before.leave, skip);
            all = (here / of_step + 1) * of_step;
        }
        if (here + 1) / PIECES % 2 != done / PIECES % 2 {
            largest.swap(0, 1);
        }
        done = here + 1;
        if done.is_multiple_of(PIECES) {
            let (at, next) = order.coming(here);
            doubt = if near { whole(&order.step(at), next, largest[0]) } else { 0 };
            (least, near) = (_mm512_set1_epi8(-1), false);
        }
    }
    // SAFETY: the last piece of all, or `nothing`, where its row group went to others.
    endless |= unsafe { end::<OUT>(&carried.sums, before, q, work) } != 0;
    Advance { infinite: endless, ..Advance::by(all / of_step) }
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
