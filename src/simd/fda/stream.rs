//! The steps of a tile's row groups as one stream of pieces, 4 rows by 16 columns each (AVX-512, f64 accumulators).
//!
//! A piece's FMAs keep a processor's two multipliers busy, while Zen 4 and 5 do nearly everything else on other ports.
//! Work overlaps only where it stands close together: a window holds some sixty vector operations, a piece has hundreds.
//! So between the products of a piece the one before is finished, row by row, the next one is begun, and the next row
//! group's e_max is looked for, or that of the next step's first. FMAs are in assembly since compilers take the order for a matter of taste.
//!
//! Measured on Zen 4, in FMAs of 512 bits that could have been done meanwhile: a store costs two; `vprolvd`, `vpopcntd`,
//! multiplications and comparisons into masks one; additions, logic, shifts by a constant, `vrangeps` and conversions
//! between f32 and integers none, up to one for each FMA. A number broadcast by `vbroadcastsd` costs two thirds, by
//! `vpbroadcastq` nothing. So nothing is kept in memory between a piece and the next.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers, and assembly")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each function says once why its loads and stores are sound")]

use super::avx512::{Consts, Step, exponent_fields, max_exponents, powers};
use super::finish::{accumulators, finish, low_halves, negatives, overflowed, start};
use super::{GROUPS, MR, NR, out};
use core::arch::asm;
use std::arch::x86_64::*;

/// Rows of a piece.
const ROWS: usize = 4;

/// Four times the same, with `$r` the constants 0 to 3: rows are registers.
macro_rules! each_row {
    ($r:ident => $body:expr) => {{
        {
            const $r: usize = 0;
            $body
        }
        {
            const $r: usize = 1;
            $body
        }
        {
            const $r: usize = 2;
            $body
        }
        {
            const $r: usize = 3;
            $body
        }
    }};
}

/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;
/// Sums that are watched begin here, so that bits above show when one leaves 31 bits.
const OFFSET: i32 = 1 << 30;

/// 4 rows by 16 columns of one row group.
#[derive(Clone, Copy)]
struct Piece {
    /// The row group.
    group: usize,
    /// The first row's bit in masks.
    bit: usize,
    /// The first row in the group, and the vector of columns.
    row: usize,
    t: usize,
    a_val: *const f64,
    b_val: *const f64,
    a_sign: *const u32,
    b_sign: *const u32,
    c: *mut f32,
}

impl Piece {
    /// The bit of the `n`-th of a group in masks: the upper four rows first.
    #[inline(always)]
    const fn bit(p: &Step, n: usize) -> usize {
        if n < p.vectors { n } else { 4 * ROWS + n - p.vectors }
    }

    /// The `n`-th of a group.
    #[inline(always)]
    fn new(p: &Step, q: &Consts, group: usize, n: usize) -> Self {
        let bit = Self::bit(p, n);
        let (row, t) = (bit / 4 / ROWS * ROWS, bit % 4);
        let first = group * MR + row;
        Self {
            group,
            bit,
            row,
            t,
            a_val: p.a_val.wrapping_add(first * q.block),
            b_val: p.b_val.wrapping_add(t * q.block * 16),
            a_sign: p.a_sign.wrapping_add(first),
            b_sign: p.b_sign.wrapping_add(t * 16),
            c: p.c.wrapping_add(first * NR + t * 16),
        }
    }
}

/// `steps_fast` for f64 accumulators, for steps of `L` products, or with 0 of any number; `CHECK` where sums of products
/// could leave 31 bits.
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
) -> usize {
    let (l, zero) = (q.length::<L>(), _mm512_setzero_si512());
    // Groups with something to do, and which of their pieces these are.
    let (mut groups, mut wanted, mut count, mut all) = ([0; GROUPS], [0; GROUPS], 0, 0);
    for (g, skip) in skip.iter().enumerate().take(GROUPS) {
        let pieces = (0..2 * p.vectors).filter(|n| !skip >> Piece::bit(p, *n) & 0x1111 != 0);
        wanted[count] = pieces.fold(0u32, |m, n| m | 1 << n);
        groups[count] = g;
        all += wanted[count].count_ones();
        count += usize::from(wanted[count] != 0);
    }
    if count == 0 {
        return steps;
    }
    // A piece begins before the one before has ended: none follows itself.
    let steps = if all > 1 { steps } else { 1 };
    let mut unchanged = [0; GROUPS];
    unchanged[..skip.len()].copy_from_slice(skip);
    // SAFETY (whole function): panels and states are as large as the steps, B's and states 64-byte aligned.
    let whole = |p: &Step, g: usize| unsafe { max_exponents::<L, MR, false>(&p.group(g, q), &q.group(g), 0..l) };
    // e_max of this group and the next, as exponent fields, and where the next step's first group has doubts.
    let (first, mut doubts) = whole(p, groups[0]);
    let mut largest = [first; 2];
    let mut here = Piece::new(p, q, groups[0], wanted[0].trailing_zeros() as usize);
    let (mut before, mut sums, mut ended, mut tops) = (here, [zero; ROWS], [zero; ROWS], [zero; ROWS]);
    each_row!(R => tops[R] = unsafe { begin::<OUT>(&here, R, &largest[0], q) });
    // Rows of the piece before that are not to be changed, every fourth bit: all of them before the first piece.
    let (mut leave, mut turn) = (!0, 0);
    let (mut now, mut done) = (*p, 0);
    loop {
        let more = done + 1 < steps;
        let following = if more { now.next(q) } else { now };
        let mut first = done > 0;
        for i in 0..count {
            let ends = i + 1 == count;
            let (after, step) = if ends { (0, &following) } else { (i + 1, &now) };
            let (g, next, mut left) = (groups[i], groups[after], wanted[i]);
            // While all pieces of a group go by, each finds e_max of a row of the next.
            let on_the_way = left == 0xFF;
            let mut doubt = 0;
            while left != 0 {
                let n = left.trailing_zeros() as usize;
                left &= left - 1;
                let last = left == 0;
                let (mut even, mut odd) = ([_mm512_setzero_pd(); ROWS], [_mm512_setzero_pd(); ROWS]);
                each_row!(R => [even[R], odd[R]] = accumulators(tops[R], if CHECK { OFFSET.into() } else { 0 }));
                if last && !on_the_way && (more || !ends) {
                    (largest[(turn + 1) % 2], doubt) = whole(step, next);
                }
                let (group, at, left_there) = if last { (next, step, wanted[after]) } else { (g, &now, left) };
                let after = Piece::new(at, q, group, left_there.trailing_zeros() as usize);
                let e_max = &largest[(turn + usize::from(last)) % 2];
                let (mut nexts, mut best, mut peak) = ([zero; ROWS], zero, _mm512_setzero_ps());
                let ahead = (step.b_exp, step.a_exp.wrapping_add((next * MR + n) * l));
                each_row!(R => {
                    unsafe {
                        products::<L, R>(&mut even, &mut odd, &mut best, [here.a_val, here.b_val], ahead, l);
                        // Two rows end, or two rows begin: so that fewer registers are in use.
                        if R < 2 {
                            for r in [2 * R, 2 * R + 1] {
                                if leave >> (4 * r) & 1 == 0 {
                                    end::<OUT, CHECK>(&before, r, sums[r], ended[r], &mut peak, q);
                                }
                            }
                        } else {
                            for r in [2 * R - 4, 2 * R - 3] {
                                nexts[r] = begin::<OUT>(&after, r, e_max, q);
                            }
                        }
                    }
                });
                if overflowed::<OUT>(peak) {
                    unsafe { infinite::<OUT>(&before, skip) }
                    if first {
                        // That was the step before, and of this one nothing has ended.
                        return done;
                    }
                }
                if on_the_way {
                    let some;
                    (largest[(turn + 1) % 2][n % MR], some) = exponent_fields(best, q, q.tiny >> next & 1 != 0);
                    doubt |= some << (4 * n);
                }
                skip[g] |= doubts;
                (doubts, first) = (0, false);
                if CHECK {
                    beyond(&here, &even, &odd, skip);
                }
                each_row!(R => sums[R] = low_halves(even[R], odd[R]));
                leave = skip[g] >> here.bit;
                (before, here, ended, tops) = (here, after, tops, nexts);
            }
            (doubts, turn) = (doubt, turn + 1);
        }
        done += 1;
        if !more || skip.iter().ne(&unchanged[..skip.len()]) {
            break;
        }
        now = following;
    }
    let mut peak = _mm512_setzero_ps();
    each_row!(R => {
        if leave >> (4 * R) & 1 == 0 {
            unsafe { end::<OUT, CHECK>(&before, R, sums[R], ended[R], &mut peak, q) }
        }
    });
    if overflowed::<OUT>(peak) {
        unsafe { infinite::<OUT>(&before, skip) }
    }
    done
}

/// Where row `r` of a piece begins.
///
/// # Safety
/// The piece's state is there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn begin<const OUT: u8>(at: &Piece, r: usize, largest: &[__m512i; MR], q: &Consts) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { start::<OUT>(powers(largest[at.row + r], at.t), _mm512_load_ps(at.c.add(r * NR)), q) }
}

/// Marks rows in which a sum has left its 31 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn beyond(at: &Piece, even: &[__m512d; ROWS], odd: &[__m512d; ROWS], skip: &mut [u32]) {
    let over = _mm512_set1_epi64((1 << 51) - 2 * i64::from(OFFSET));
    let (even, odd) = (even.map(|x| _mm512_castpd_si512(x)), odd.map(|x| _mm512_castpd_si512(x)));
    let mut all = _mm512_setzero_si512();
    each_row!(R => all = _mm512_ternarylogic_epi64::<OR>(all, even[R], odd[R]));
    if _mm512_test_epi64_mask(all, over) != 0 {
        each_row!(R => {
            let wrong = _mm512_test_epi64_mask(_mm512_or_si512(even[R], odd[R]), over);
            skip[at.group] |= u32::from(wrong != 0) << (at.bit + 4 * R);
        });
    }
}

/// Marks rows that are done and have an infinite f16.
///
/// # Safety
/// The piece's state is there.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn infinite<const OUT: u8>(at: &Piece, skip: &mut [u32]) {
    for r in 0..ROWS {
        // SAFETY: the caller's promise.
        let d = unsafe { _mm512_load_ps(at.c.add(r * NR)) };
        skip[at.group] |= u32::from(overflowed::<OUT>(d)) << (at.bit + 4 * r);
    }
}

/// Row `r`'s sum becomes its state; `peak` becomes the larger magnitude of an f16 and itself.
///
/// # Safety
/// The piece's signs and state are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn end<const OUT: u8, const CHECK: bool>(
    at: &Piece,
    r: usize,
    sum: __m512i,
    top: __m512i,
    peak: &mut __m512,
    q: &Consts,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let to = at.c.add(r * NR);
        let (c, mut sum) = (_mm512_load_ps(to), _mm512_add_epi32(sum, negatives(at.a_sign.add(r), at.b_sign)));
        if CHECK {
            sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(OFFSET));
        }
        let d = finish::<OUT>(sum, top, c, q);
        _mm512_store_ps(to, d);
        if OUT == out::F16_RNE {
            *peak = _mm512_range_ps::<0b1011>(*peak, d);
        }
    }
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
            "vpbroadcastd {u}, [{x}",
            $x,
            "]\n",
            row!($a, $row1, "e1", "o1"),
            "vpaddb {u}, {u}, [{e}",
            $e,
            "]\n",
            row!($a, $row2, "e2", "o2"),
            "vpmaxub {m}, {m}, {u}\n",
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
/// bytes and `a_exp` to words, one for each of `l` products.
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
            let _u: __m512i;
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
                    u = out(zmm_reg) _u,
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
