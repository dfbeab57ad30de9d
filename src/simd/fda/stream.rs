//! The steps of a tile's row groups as one stream of pieces, 4 rows by 16 columns each (AVX-512, f64 accumulators).
//!
//! In the words of SPEC's FDA: `largest` is the products' part of e_max (step 3), `begin` takes c into it and truncates c
//! (step 4), `products` truncates and adds products as floors (4, 5), `end` makes floors of negative ones truncations by
//! their number, adds c (5) and encodes (6).
//!
//! A piece's FMAs keep a processor's two multipliers busy, while Zen 4 and 5 do nearly everything else on other ports.
//! Work overlaps only where it stands close together: a window holds some sixty vector operations, a piece has hundreds.
//! So between the products of a piece the one before is finished, row by row, the next one is begun, and the next row
//! group's e_max is looked for, or that of the next steps' first. FMAs are in assembly since compilers take the order for
//! a matter of taste.
//!
//! Measured on Zen 4, in FMAs of 512 bits that could have been done meanwhile: a store costs one and a half; `vprolvd`,
//! `vpopcntd`, multiplications and comparisons into masks one; additions, logic, shuffles, shifts by a constant, `vrangeps`
//! and conversions between f32 and integers none, up to one for each FMA. A number broadcast by `vbroadcastsd` costs
//! two thirds, by `vpbroadcastq` nothing. So nothing is kept in memory between a piece and the next; and two pieces, the
//! upper and the lower rows of a pair, take turns for a run of steps, their states in registers until its end:
//!
//! ```text
//! a piece's FMAs   upper, step 0      lower, 0   upper, 1   ...   lower, last
//! meanwhile ends   the pair before    upper, 0   lower, 0         upper, last: stored
//! and begins       lower, 0: loaded   upper, 1   lower, 1         the next pair's upper, 0: loaded
//! ```

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers, and assembly")]

use super::avx512::{ROWS as PIECES, doubts as doubts_of, exponent_fields, max_exponents};
use super::finish::{accumulators, finish, low_halves, negatives, overflowed, start, truncated};
use super::micro::Advance;
use super::step::{Consts, Step};
use super::{GROUPS, MR, NR, out};
use core::arch::asm;
use core::mem::MaybeUninit;
use std::arch::x86_64::*;

/// Rows of a piece.
const ROWS: usize = 4;

/// The same for some rows, with `$r` the constant: rows are registers.
macro_rules! each_row {
    ([$($row:literal),*], $r:ident => $body:expr) => {{
        $({
            const $r: usize = $row;
            $body
        })*
    }};
}

/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;
/// Sums that are watched begin here, so that bits above show when one leaves 31 bits.
const OFFSET: i32 = 1 << 30;

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

/// `steps_fast` for f64 accumulators, for steps of `L` products, or with 0 of any number; `CHECK` where sums of products
/// could leave 31 bits.
///
/// # Safety
/// As `steps_fast`.
#[inline(never)]
#[allow(clippy::undocumented_unsafe_blocks, reason = "one comment for all of them")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn steps<const OUT: u8, const CHECK: bool, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    debug_assert!(steps > 0 && skip.len() <= GROUPS && p.vectors <= NR / 16);
    let (l, zero) = (q.length::<L>(), _mm512_setzero_si512());
    // Groups with something to do, and which vectors of columns have it.
    let (mut groups, mut wanted, mut count) = ([0; GROUPS], [0u32; GROUPS], 0);
    for (g, skip) in skip.iter().enumerate() {
        let vectors = (0..p.vectors).filter(|t| !skip >> t & PIECES != 0);
        (groups[count], wanted[count]) = (g, vectors.fold(0, |m, t| m | 1 << t));
        count += usize::from(wanted[count] != 0);
    }
    if count == 0 {
        return Advance::by(steps);
    }
    // States are stored at the end of a run only. A piece that some step of the run leaves to others, or whose f16 became
    // infinite, keeps its states from before the run, and is behind. A single step stores infinities, as `Micro` says.
    let single = steps == 1;
    let mut unchanged = [0; GROUPS];
    unchanged[..skip.len()].copy_from_slice(skip);
    // e_max of this group and the next, step by step and row by row, as exponent fields; one more for who looks for none,
    // and one for the least of all of the next.
    let mut largest = [const { MaybeUninit::<__m512i>::uninit() }; 2 * RUN * MR + 2];
    let largest = largest.as_mut_ptr().cast::<__m512i>();
    // SAFETY (whole function): panels and states are as large as the steps, B's and states 64-byte aligned; a run has
    // `RUN` steps at most, and its e_max are written before its pieces begin. `to` stays inside, for a group has `2 * 4 *
    // run` pieces at most. Pointers may pass the last step, but are not read from there.
    let whole = |p: &Step, g: usize, steps: usize, to: *mut __m512i| {
        let (mut p, mut doubt) = (p.group(g, q), 0);
        for s in 0..steps {
            let (found, some) = unsafe { max_exponents::<L, MR, false>(&p, &q.group(g), 0..l) };
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
    let states = unsafe { get(upcoming.states(0)) };
    each_row!([0, 1, 2, 3], R => (tops[R], units[R]) = unsafe {
        begin::<OUT, L>(states[R], largest.add(R), place::<L>(upcoming.t), q)
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
                    // One of the pair. `$change`: the other one is at an end of the run. Then the result of the piece before
                    // goes to `$put`, but for rows to `$leave`, and the piece to come reads its c at `$get`; otherwise the
                    // one's result is the other's c, in registers.
                    macro_rules! piece {
                        ($half:literal, $change:expr, $put:expr, $leave:expr, $get:expr, $fields:expr, $t:expr) => {{
                            let offset = if CHECK { OFFSET.into() } else { 0 };
                            let (mut even, mut odd) = ([_mm512_setzero_pd(); ROWS], [_mm512_setzero_pd(); ROWS]);
                            each_row!([0, 1, 2, 3], R => [even[R], odd[R]] = accumulators(tops[R], offset));
                            let (mut states, mut best) = ([_mm512_setzero_ps(); ROWS], zero);
                            let values = [here.a_val.wrapping_add($half * ROWS * l), here.b_val];
                            // Two rows end, then two rows begin: so that fewer registers are in use.
                            each_row!([0, 1], R => unsafe {
                                products::<L, R>(&mut even, &mut odd, &mut best, values, (b_exp, a_exp), l);
                                for r in [2 * R, 2 * R + 1] {
                                    states[r] = end::<OUT, CHECK, L>(signs, r, sums[r], ended_units[r], ended[r], q);
                                }
                            });
                            if $change {
                                let leave: u32 = $leave;
                                let lost = infinite::<OUT>(&states) & !leave;
                                unsafe { put($put, &states, if single { leave } else { leave | lost }) };
                                if lost != 0 {
                                    skip[before.group] |= lost << before.bit(1 - $half);
                                    if first {
                                        // That was the run before, and of this one nothing has ended.
                                        return Advance { steps: done, behind };
                                    }
                                }
                                states = unsafe { get($get) };
                            }
                            first = false;
                            (ended, ended_units, signs) = (tops, units, here.signs($half));
                            each_row!([2, 3], R => unsafe {
                                products::<L, R>(&mut even, &mut odd, &mut best, values, (b_exp, a_exp), l);
                                for r in [2 * R - 4, 2 * R - 3] {
                                    (tops[r], units[r]) = begin::<OUT, L>(states[r], $fields.wrapping_add(r), $t, q);
                                    // Here, not after the products, where compilers would have it.
                                    asm!(
                                        "/* {0} {1} */",
                                        inout(zmm_reg) tops[r],
                                        inout(zmm_reg) units[r],
                                        options(nomem, nostack, preserves_flags),
                                    );
                                }
                            });
                            unsafe { to.write(exponent_fields(best, q)) };
                            if tiny {
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
                    let (ending, lift) = (s + 1 == run, place::<L>(here.t));
                    piece!(0, s == 0, before.states(1), leave, here.states(1), fields.wrapping_add(ROWS), lift);
                    skip[g] |= core::mem::take(&mut doubtful);
                    before = here;
                    fields = fields.wrapping_add(MR);
                    let (fields, lift) = match (ending, last && goes_on) {
                        (false, _) => (fields, lift),
                        (true, false) => (here_max, place::<L>(upcoming.t)),
                        (true, true) => (next_max, place::<L>(upcoming.t)),
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
    each_row!([0, 1, 2, 3], R => states[R] = unsafe {
        end::<OUT, CHECK, L>(signs, R, sums[R], ended_units[R], ended[R], q)
    });
    let lost = infinite::<OUT>(&states) & !leave;
    unsafe { put(before.states(1), &states, if single { leave } else { leave | lost }) };
    skip[before.group] |= lost << before.bit(1);
    Advance { steps: done, behind }
}

/// What takes a column's exponent field from its byte to its place, for vector `t` of columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn place<const L: usize>(t: usize) -> __m512i {
    if L == 4 {
        return _mm512_set1_epi32([23, 15, 7, 31][t % 4]);
    }
    // SAFETY: a vector each.
    unsafe { _mm512_load_si512(PLACES.0[t % 4].as_ptr().cast()) }
}

/// The byte of vector `t` of columns in every lane's highest byte, for `vpshufb`.
static PLACES: Places = {
    let mut places = [[0x80; 64]; 4];
    let mut at = 0;
    while at < 64 {
        let (t, lane) = (at / 16, at % 16);
        places[t][4 * lane + 3] = (4 * (lane % 4) + t) as u8;
        at += 1;
    }
    Places(places)
};

#[repr(align(64))]
struct Places([[u8; 64]; 4]);

/// The power of two of a row's largest exponents at `place`. Few products leave multipliers time for a rotation, and
/// are bound by the number of operations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn power<const L: usize>(largest: __m512i, place: __m512i) -> __m512 {
    _mm512_castsi512_ps(if L == 4 {
        _mm512_rolv_epi32(largest, place)
    } else {
        _mm512_srli_epi32::<1>(_mm512_shuffle_epi8(largest, place))
    })
}

/// Where a row of a piece begins: `1.5 * 2^e_max`, and c in units of q.
///
/// # Safety
/// `largest` points to the row's largest exponents.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn begin<const OUT: u8, const L: usize>(
    c: __m512,
    largest: *const __m512i,
    place: __m512i,
    q: &Consts,
) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    let top = start::<OUT>(power::<L>(unsafe { *largest }, place), c, q);
    (top, truncated(top, c, q))
}

/// Reads a piece's states.
///
/// # Safety
/// They are there, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn get(from: *const f32) -> [__m512; ROWS] {
    // SAFETY: the caller's promise.
    core::array::from_fn(|r| unsafe { _mm512_load_ps(from.add(r * NR)) })
}

/// Writes a piece's states but for rows to `leave`, every fourth bit.
///
/// # Safety
/// As `get`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put(to: *mut f32, states: &[__m512; ROWS], leave: u32) {
    each_row!([0, 1, 2, 3], R => if leave >> (4 * R) & 1 == 0 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_store_ps(to.add(R * NR), states[R]) }
    });
}

/// Marks rows in which a sum has left its 31 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn beyond(group: usize, bit: usize, even: &[__m512d; ROWS], odd: &[__m512d; ROWS], skip: &mut [u32]) {
    let over = _mm512_set1_epi64((1 << 51) - 2 * i64::from(OFFSET));
    let (even, odd) = (even.map(|x| _mm512_castpd_si512(x)), odd.map(|x| _mm512_castpd_si512(x)));
    let mut all = _mm512_setzero_si512();
    each_row!([0, 1, 2, 3], R => all = _mm512_ternarylogic_epi64::<OR>(all, even[R], odd[R]));
    if _mm512_test_epi64_mask(all, over) != 0 {
        each_row!([0, 1, 2, 3], R => {
            let wrong = _mm512_test_epi64_mask(_mm512_or_si512(even[R], odd[R]), over);
            skip[group] |= u32::from(wrong != 0) << (bit + 4 * R);
        });
    }
}

/// Rows with an infinite f16, every fourth bit. An infinity stays one in the steps that follow, so that a run can look at
/// its end: as c it is `-2^31` units (an invalid conversion) of `2^(128 - F)` each, and products are less than one unit, for
/// F is 25 at most and their exponents are 50 at most. Its sign is lost, and only that it is infinite is used.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn infinite<const OUT: u8>(states: &[__m512; ROWS]) -> u32 {
    if OUT != out::F16_RNE {
        return 0;
    }
    let mut peak = _mm512_setzero_ps();
    each_row!([0, 1, 2, 3], R => peak = _mm512_range_ps::<0b1011>(peak, states[R]));
    if !overflowed::<OUT>(peak) {
        return 0;
    }
    (0..ROWS).fold(0, |m, r| m | u32::from(overflowed::<OUT>(states[r])) << (4 * r))
}

/// Row `r`'s state after its sum, which has begun at `top` with c's `units` yet to come.
///
/// # Safety
/// The piece's signs are there, B's aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn end<const OUT: u8, const CHECK: bool, const L: usize>(
    [a_sign, b_sign]: [*const u32; 2],
    r: usize,
    sum: __m512i,
    units: __m512i,
    top: __m512i,
    q: &Consts,
) -> __m512 {
    // SAFETY: the caller's promise.
    let rest = _mm512_add_epi32(units, unsafe { negatives::<L>(a_sign.add(r), b_sign) });
    let rest = if CHECK { _mm512_sub_epi32(rest, _mm512_set1_epi32(OFFSET)) } else { rest };
    let sum = _mm512_add_epi32(sum, rest);
    // An infinite f16 must stay one, which NaN, its exponent as a number, would not.
    if OUT != out::F16_RNE && L >= 16 { finish::<OUT, true>(sum, top, q) } else { finish::<OUT, false>(sum, top, q) }
}

/// The products of one position of K with 16 columns: `$a` leads to the first row's number, `$row0` to `$row3` from there
/// to each row's; `$b`, `$e` and `$x` to B's numbers and to exponents.
macro_rules! four_rows {
    ($a:literal, [$row0:literal, $row1:literal, $row2:literal, $row3:literal], $b:literal, $e:literal, $x:literal) => {
        concat!(
            "vmovapd {b0}, [{b}",
            $b,
            "]\nvmovapd {b1}, [{b}",
            $b,
            " + 64]\n",
            row!($a, $row0, "e0", "o0"),
            row!($a, $row1, "e1", "o1"),
            "vpbroadcastd {t}, [{x}",
            $x,
            "]\nvpaddb {t}, {t}, [{e}",
            $e,
            "]\nvpmaxub {m}, {m}, {t}\n",
            row!($a, $row2, "e2", "o2"),
            row!($a, $row3, "e3", "o3"),
        )
    };
}

/// One row's.
macro_rules! row {
    ($a:literal, $row:literal, $even:literal, $odd:literal) => {
        concat!(
            "vpbroadcastq {t}, [{a}",
            $a,
            $row,
            "]\nvfmadd231pd {",
            $even,
            "}, {t}, {b0}, {{rz-sae}}\nvfmadd231pd {",
            $odd,
            "}, {t}, {b1}, {{rz-sae}}\n",
        )
    };
}

/// Adds a quarter of a step's products, the `R`-th, of four rows with 16 columns, cut off: `fma` rounding toward zero.
/// On the way the words of a row of A's exponents meet 64 columns': `best` becomes the largest sum.
///
/// # Safety
/// `a` points to the first row's values, `l` from one row to the next, `b` to vectors of 16, `b_exp` to rows of 64
/// bytes, both aligned to 64 bytes, and `a_exp` to words, one for each of `l` products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn products<const L: usize, const R: usize>(
    even: &mut [__m512d; ROWS],
    odd: &mut [__m512d; ROWS],
    best: &mut __m512i,
    [a, b]: [*const f64; 2],
    (b_exp, a_exp): (*const u8, *const u32),
    l: usize,
) {
    macro_rules! run {
        ([$($line:expr),*], $a:expr, $b:expr, $e:expr, $x:expr, $($more:tt)*) => {{
            let ([e0, e1, e2, e3], [o0, o1, o2, o3]) = (&mut *even, &mut *odd);
            let (_b0, _b1, _t): (__m512d, __m512d, __m512d);
            // SAFETY: it reads what the caller promises, and writes these registers only.
            unsafe {
                asm!(
                    $($line,)*
                    e0 = inout(zmm_reg) *e0,
                    e1 = inout(zmm_reg) *e1,
                    e2 = inout(zmm_reg) *e2,
                    e3 = inout(zmm_reg) *e3,
                    o0 = inout(zmm_reg) *o0,
                    o1 = inout(zmm_reg) *o1,
                    o2 = inout(zmm_reg) *o2,
                    o3 = inout(zmm_reg) *o3,
                    m = inout(zmm_reg) *best,
                    b0 = out(zmm_reg) _b0,
                    b1 = out(zmm_reg) _b1,
                    t = out(zmm_reg) _t,
                    a = in(reg) $a,
                    b = in(reg) $b,
                    e = in(reg) $e,
                    x = in(reg) $x,
                    $($more)*
                    options(readonly, nostack, preserves_flags),
                );
            }
        }};
    }
    if L == 0 {
        for k in R * l / ROWS..(R + 1) * l / ROWS {
            let (a, b) = (a.wrapping_add(k), b.wrapping_add(k * 16));
            let (e, x) = (b_exp.wrapping_add(k * NR), a_exp.wrapping_add(k));
            run!(
                [four_rows!("", ["", " + {s}", " + 2*{s}", " + {s3}"], "", "", "")],
                a, b, e, x, s = in(reg) 8 * l, s3 = in(reg) 24 * l,
            );
        }
    } else {
        run!(
            [
                ".set gemmulate_k, {first}",
                ".rept {count}",
                four_rows!(
                    " + 8*gemmulate_k",
                    ["", " + 8*{l}", " + 16*{l}", " + 24*{l}"],
                    " + 128*gemmulate_k",
                    " + 64*gemmulate_k",
                    " + 4*gemmulate_k"
                ),
                ".set gemmulate_k, gemmulate_k + 1",
                ".endr"
            ],
            a, b, b_exp, a_exp,
            first = const R * L / ROWS, count = const (R + 1) * L / ROWS - R * L / ROWS, l = const L,
        );
    }
}
