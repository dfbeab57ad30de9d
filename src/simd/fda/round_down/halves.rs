//! GFDRDA for AVX-512: the sums of even and of odd k, which panels have as the first and the second half of a step, one
//! after the other, 4 rows by 32 columns each.
//!
//! More than half of a step's operations are not its products, and they overlap with these only where they stand close
//! together (`stream`). So a visit to 4 rows by 32 columns at a step does other things between its products: it
//! finishes the visit before, a vector after an eighth of them, looks for e_max of two rows of the row group to come,
//! and begins the visit after it.
//!
//! ```text
//! FMAs        even k of visit i                       odd k of visit i
//! meanwhile   results of visit i - 1; e_max to come   visit i + 1 begins: its e_max, counts of negative products
//! ```

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers, and assembly")]

use super::ALL;
use super::avx512::{in_units, rounded, unit};
use crate::simd::fda::avx512::{DOWN, ROWS as PIECES, RZ, broadcast, exponent_fields, max_exponents};
use crate::simd::fda::finish::{accumulators, low_halves};
use crate::simd::fda::step::{Consts, Step};
use crate::simd::fda::stream::place;
use crate::simd::fda::{GROUPS, MR, NR};
use crate::simd::ops::array_of;
use core::arch::asm;
use core::arch::x86_64::*;
use core::ops::Range;

/// Ternary logic: `a & b & c`, and `(a | b) & !c`.
const AND: i32 = 0x80;
const OR_WITHOUT: i32 = 0x54;

/// The first fraction bit of an f32.
const HALF: i32 = 1 << 22;

/// c in units of q from which on i32 does not hold it.
const TOO_LARGE: f32 = (1_u32 << 31) as f32;

/// The highest byte of each lane.
const HIGHEST: __mmask64 = 0x8888_8888_8888_8888;
/// How many visits are finished wherever c is, after one in which more than so many vectors had some far above its
/// products.
const WARY: usize = 64;
const MANY: usize = 3;
/// So many vectors of a visit are done one by one.
const FEW: u32 = 5;

/// Rows and vectors of columns of a visit, and its vectors: those of the first row, then of the next.
const ROWS: usize = 4;
const VECTORS: usize = 2;
const VECTORS_OF_VISIT: usize = ROWS * VECTORS;

/// A vector for each of a visit's, of both halves.
type Halves = [[__m512i; VECTORS_OF_VISIT]; 2];
/// Exponent fields of the largest exponents of a row group's rows, of both halves.
type Largest = [[__m512i; MR]; 2];

/// 4 rows by 32 columns of a row group at a step.
#[derive(Clone, Copy)]
struct Visit {
    /// The first row in its row group, and the first vector of columns.
    row: usize,
    t: usize,
    /// Vectors to leave as they are: bit `4 r + v`.
    leave: u32,
    a_val: *const f64,
    b_val: *const f64,
    a_sign: *const u32,
    b_sign: *const u32,
    c: *mut f32,
}

impl Visit {
    /// To the first of `visits`, of a row group's step `p`: the upper and the lower rows by 32 columns, then by the
    /// others.
    #[inline]
    const fn new(p: &Step, l: usize, visits: u32, skip: u32) -> Self {
        let visit = visits.trailing_zeros() as usize;
        let (row, t) = (visit % 2 * ROWS, visit / 2 * VECTORS);
        Self {
            row,
            t,
            leave: skip >> (4 * row + t),
            a_val: p.a_val.wrapping_add(row * l),
            b_val: p.b_val.wrapping_add(t * l * 16),
            a_sign: p.a_sign.wrapping_add(row),
            b_sign: p.b_sign.wrapping_add(t * 16),
            c: p.c.wrapping_add(row * NR + t * 16),
        }
    }

    /// To one of its vectors alone.
    #[inline]
    const fn vector(&self, r: usize, v: usize, l: usize) -> Self {
        Self {
            row: self.row + r,
            t: self.t + v,
            leave: 0,
            a_val: self.a_val.wrapping_add(r * l),
            b_val: self.b_val.wrapping_add(v * l * 16),
            a_sign: self.a_sign.wrapping_add(r),
            b_sign: self.b_sign.wrapping_add(16 * v),
            c: self.c.wrapping_add(r * NR + 16 * v),
        }
    }

    /// The states of vector `u`.
    #[inline]
    const fn states(&self, u: usize) -> *mut f32 {
        self.c.wrapping_add(u / VECTORS * NR + 16 * (u % VECTORS))
    }

    /// Whether some vector is to be left as it is.
    #[inline]
    const fn leaves_some(&self) -> bool {
        self.leave & 0x3333 != 0
    }

    /// All lanes if vector `u` is to be left as it is.
    #[inline]
    const fn leaves(&self, u: usize) -> __mmask16 {
        ((self.leave >> (4 * (u / VECTORS) + u % VECTORS) & 1) as __mmask16).wrapping_neg()
    }

    /// Which of its row group's it is.
    const fn index(&self) -> usize {
        self.t / VECTORS * 2 + self.row / ROWS
    }

    /// Those of a row group with something to do, a bit each.
    fn wanted(skip: u32) -> u32 {
        (0..4).fold(0, |m, visit| m | u32::from(!skip >> (visit % 2 * 16 + visit / 2 * 2) & 0x3333 != 0) << visit)
    }
}

/// What a visit's vectors begin with.
struct Begun {
    /// `1.5 * 2^e_max` of the halves.
    tops: Halves,
    /// How many of their products are negative: the two lowest bytes of a lane.
    negative: [__m512i; VECTORS_OF_VISIT],
}

impl Begun {
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let none = [_mm512_setzero_si512(); VECTORS_OF_VISIT];
        Self { tops: [none; 2], negative: none }
    }
}

/// `steps_fast` for steps of two halves of `L / 2` products, or with 0 of any number.
///
/// # Safety
/// As `steps_fast`; VNNI and BITALG are there, too, and the block is even.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni,avx512bitalg")]
pub(super) unsafe fn steps<const L: usize>(p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> usize {
    let l = q.length::<L>();
    let whole = |p: &Step, q: &Consts| {
        // SAFETY: `p` is one of the caller's row groups at one of its steps, and both halves are of `l` products.
        let [even, odd] = [0..l / 2, l / 2..l].map(|k| unsafe { max_exponents::<L, MR, false>(p, q, k) });
        ([even.0, odd.0], even.1 | odd.1)
    };
    // Only tiny operands leave anything to others.
    let (steps, calm) = (if q.tiny == 0 { steps } else { 1 }, Consts { tiny: 0, ..*q });
    for (g, skip) in skip.iter_mut().enumerate().filter(|(g, skip)| q.tiny >> g & 1 != 0 && **skip != !0) {
        *skip |= whole(&p.group(g, q), &q.group(g)).1;
    }
    // Row groups with something to do, what to leave of them, and their visits.
    let absent = PIECES * ((0xF << p.vectors) & 0xF);
    let (mut groups, mut skips, mut wanted, mut count) = ([0; GROUPS], [0; GROUPS], [0; GROUPS], 0);
    for (g, skip) in skip.iter().enumerate().filter(|(_, skip)| **skip | absent != !0) {
        (groups[count], skips[count], wanted[count]) = (g, skip | absent, Visit::wanted(skip | absent));
        count += 1;
    }
    if count == 0 {
        return steps;
    }
    let at = |step: usize, i: usize| p.skip(step, q).group(groups[i], q);
    let mut now_at = at(0, 0);
    if steps * count == 1 {
        // SAFETY: the only step of the only row group with something to do.
        unsafe { alone::<L>(&now_at, &calm, wanted[0], skips[0]) }
        return steps;
    }
    let mut here = Visit::new(&now_at, l, wanted[0], skips[0]);
    let (mut now, mut other) = (&mut Begun::new(), &mut Begun::new());
    // e_max of the row group at hand, and of the next.
    let (mut largest, mut next) = (whole(&now_at, &calm).0, [[_mm512_setzero_si512(); MR]; 2]);
    // SAFETY: the first visit, to 4 of a row group's 8 rows and 32 of its 64 columns.
    (0..VECTORS_OF_VISIT).for_each(|u| unsafe { begin(&here, u, &largest, l / 2, now) });
    let (mut before, mut sums) = (Visit { leave: !0, ..here }, [[_mm512_setzero_si512(); VECTORS_OF_VISIT]; 2]);
    // How many visits are finished wherever c is.
    let mut wary = 0;
    for step in 0..steps {
        for i in 0..count {
            // The row group to come; after the last one it begins again, and nobody ends it.
            let (then, coming) = if i + 1 < count { (step, i + 1) } else { ((step + 1).min(steps - 1), 0) };
            let (group, mut rest) = (at(then, coming), wanted[i]);
            while rest != 0 {
                rest &= rest - 1;
                let a_exp = group.a_exp.wrapping_add(2 * here.index() * l);
                let mut search = Search { a: a_exp, b: group.b_exp, best: [[_mm512_setzero_si512(); 2]; 2] };
                let [even, odd];
                if wary == 0 && !before.leaves_some() {
                    let (mut near, mut all) = ([!0; VECTORS_OF_VISIT], !0);
                    // SAFETY: a visit to a group that is there; exponents of two of the 8 rows of the one to come, at a
                    // step that is there: the last one again where none comes. The visit before was one, too.
                    [even, odd] = unsafe {
                        half::<L, 0>(&here, l, &now.tops, Some(&mut search), |u| {
                            near[u] = end(&before, u, !0, &sums, other, q);
                            all &= near[u];
                        })
                    };
                    if all != !0 {
                        // SAFETY: the visit before, whose states `end` has just read.
                        wary = if unsafe { end_far(&before, &near, &sums, other, q) } > MANY { WARY } else { 0 };
                    }
                } else {
                    wary = wary.saturating_sub(1);
                    // SAFETY: as above; before the first visit states are those of the first one, and none is written.
                    [even, odd] = unsafe {
                        half::<L, 0>(&here, l, &now.tops, Some(&mut search), |u| {
                            end_anywhere(&before, u, !before.leaves(u), &sums, other, q);
                        })
                    };
                }
                each_row!([0, 1, 2, 3, 4, 5, 6, 7], U => sums[0][U] = low_halves(even[U], odd[U]));
                for (next, best) in next.iter_mut().zip(search.best) {
                    next[2 * here.index()] = exponent_fields(best[0], q);
                    next[2 * here.index() + 1] = exponent_fields(best[1], q);
                }
                let upcoming = if rest != 0 {
                    Visit::new(&now_at, l, rest, skips[i])
                } else {
                    largest = if wanted[i] == 0xF { next } else { whole(&group, &calm).0 };
                    now_at = group;
                    Visit::new(&group, l, wanted[coming], skips[coming])
                };
                // SAFETY: the same visit, and the signs of the next one, or of the first one of the last step again.
                let [even, odd] =
                    unsafe { half::<L, 1>(&here, l, &now.tops, None, |u| begin(&upcoming, u, &largest, l / 2, other)) };
                each_row!([0, 1, 2, 3, 4, 5, 6, 7], U => sums[1][U] = low_halves(even[U], odd[U]));
                (before, here) = (here, upcoming);
                (now, other) = (other, now);
            }
        }
    }
    // SAFETY: the states of the last visit.
    (0..VECTORS_OF_VISIT).for_each(|u| unsafe { end_anywhere(&before, u, !before.leaves(u), &sums, other, q) });
    steps
}

/// Some visits to one row group: too few for one to do another's work. Where few vectors of one are wanted, these one
/// by one.
///
/// # Safety
/// As `steps`, for one row group at one step.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni,avx512bitalg")]
unsafe fn alone<const L: usize>(p: &Step, q: &Consts, mut visits: u32, skip: u32) {
    let (l, mut begun) = (q.length::<L>(), Begun::new());
    let mut largest = [[_mm512_setzero_si512(); MR]; 2];
    for r in (0..MR).filter(|r| !skip >> (4 * r) & 0xF != 0) {
        for (h, largest) in largest.iter_mut().enumerate() {
            let half = h * l / 2..(h + 1) * l / 2;
            // SAFETY: row `r` of the group's 8 by half of the step's products.
            let ([found], _) = unsafe { max_exponents::<L, 1, false>(&p.row(r, l), q, half) };
            largest[r] = found;
        }
    }
    while visits != 0 {
        let here = Visit::new(p, l, visits, skip);
        visits &= visits - 1;
        let mut wanted = !here.leave & 0x3333;
        if wanted.count_ones() <= FEW {
            while wanted != 0 {
                let at = wanted.trailing_zeros() as usize;
                wanted &= wanted - 1;
                // SAFETY: bits are `4 r + v`, of 4 rows and 2 vectors of the visit's.
                unsafe { vector::<L>(&here.vector(at / 4, at % 4, l), q, &largest, &mut begun) }
            }
            continue;
        }
        // SAFETY: a visit to 4 of the group's 8 rows and 32 of its 64 columns.
        (0..VECTORS_OF_VISIT).for_each(|u| unsafe { begin(&here, u, &largest, l / 2, &mut begun) });
        // SAFETY: the same visit, without a look at what comes.
        let [e0, o0] = unsafe { half::<L, 0>(&here, l, &begun.tops, None, |_| ()) };
        // SAFETY: as above.
        let [e1, o1] = unsafe { half::<L, 1>(&here, l, &begun.tops, None, |_| ()) };
        let mut sums = [[_mm512_setzero_si512(); VECTORS_OF_VISIT]; 2];
        each_row!([0, 1, 2, 3, 4, 5, 6, 7], U => {
            (sums[0][U], sums[1][U]) = (low_halves(e0[U], o0[U]), low_halves(e1[U], o1[U]));
        });
        // SAFETY: the visit's states.
        let near = array_of(|u| unsafe { end(&here, u, !here.leaves(u), &sums, &begun, q) });
        // SAFETY: as above.
        unsafe { end_far(&here, &near, &sums, &begun, q) };
    }
}

/// A visit's first vector alone.
///
/// # Safety
/// The row's values and the 16 columns', their signs and the vector's states are there; B's and states are aligned to
/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni,avx512bitalg")]
unsafe fn vector<const L: usize>(visit: &Visit, q: &Consts, largest: &Largest, begun: &mut Begun) {
    let l = q.length::<L>();
    // SAFETY: the signs of the visit's first row and of its first 16 columns.
    unsafe { begin(visit, 0, largest, l / 2, begun) }
    let mut sums = [0, 1].map(|h: usize| accumulators(begun.tops[h][0], 0));
    for k in 0..l / 2 {
        for (h, [even, odd]) in sums.iter_mut().enumerate() {
            let k = h * l / 2 + k;
            let (a, b) = (visit.a_val.wrapping_add(k), visit.b_val.wrapping_add(16 * k));
            // SAFETY: product `k` of `l` of that row and of those columns: two lines.
            let (a, b) = unsafe { (broadcast(a), [_mm512_load_pd(b), _mm512_load_pd(b.wrapping_add(8))]) };
            *even = _mm512_fmadd_round_pd::<RZ>(a, b[0], *even);
            *odd = _mm512_fmadd_round_pd::<RZ>(a, b[1], *odd);
        }
    }
    let sums = sums.map(|[even, odd]| [low_halves(even, odd); VECTORS_OF_VISIT]);
    // SAFETY: the states of that vector.
    let near = unsafe { end(visit, 0, !0, &sums, begun, q) };
    if near != !0 {
        // SAFETY: as above.
        unsafe { end_anywhere(visit, 0, !near, &sums, begun, q) }
    }
}

/// (3) and (4) Accumulators of the products of half `H`, which begin at `1.5 * 2^e_dot`, moved to where q is their last
/// place: of even columns, and of odd ones. After each eighth of the products something else is done, and the largest
/// exponents of other rows are looked for.
///
/// # Safety
/// The values of the visit's 4 rows and 32 columns are there, B's aligned to 64 bytes, and what `search` wants.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni,avx512bitalg")]
unsafe fn half<const L: usize, const H: usize>(
    visit: &Visit,
    l: usize,
    tops: &Halves,
    mut exponents: Option<&mut Search>,
    mut meanwhile: impl FnMut(usize),
) -> [[__m512d; VECTORS_OF_VISIT]; 2] {
    let (mut even, mut odd) = ([_mm512_setzero_pd(); VECTORS_OF_VISIT], [_mm512_setzero_pd(); VECTORS_OF_VISIT]);
    each_row!([0, 1, 2, 3, 4, 5, 6, 7], U => [even[U], odd[U]] = accumulators(tops[H][U], 0));
    each_row!([0, 1, 2, 3, 4, 5, 6, 7], U => {
        // SAFETY: the caller's promise: an eighth of half `H`'s products, and of all of the exponents.
        unsafe {
            products::<L, H, U>(&mut even, &mut odd, visit.a_val, visit.b_val, l);
            if let Some(exponents) = &mut exponents {
                search::<L, U>(exponents, l);
            }
        }
        meanwhile(U);
    });
    [even, odd]
}

/// The `part`-th eighth of some positions.
const fn eighth(part: usize, positions: usize) -> Range<usize> {
    part * positions / VECTORS_OF_VISIT..(part + 1) * positions / VECTORS_OF_VISIT
}

/// The products of the `U`-th eighth of half `H`'s positions of K, cut off: `fma` rounding toward zero. In assembly,
/// since compilers take the order of instructions for a matter of taste, and count addresses up.
///
/// # Safety
/// `a` points to the first row's numbers, `l` from one row to the next, `b` to 16 columns', `16 l` from them to the
/// others, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn products<const L: usize, const H: usize, const U: usize>(
    even: &mut [__m512d; VECTORS_OF_VISIT],
    odd: &mut [__m512d; VECTORS_OF_VISIT],
    a: *const f64,
    b: *const f64,
    l: usize,
) {
    macro_rules! row {
        ($at:literal, $e0:literal, $o0:literal, $e1:literal, $o1:literal) => {
            concat!(
                "vpbroadcastq {t}, [{a}",
                $at,
                "]\nvfmadd231pd {",
                $e0,
                "}, {t}, {b0}, {{rz-sae}}\nvfmadd231pd {",
                $o0,
                "}, {t}, {b1}, {{rz-sae}}\nvfmadd231pd {",
                $e1,
                "}, {t}, {b2}, {{rz-sae}}\nvfmadd231pd {",
                $o1,
                "}, {t}, {b3}, {{rz-sae}}\n",
            )
        };
    }
    macro_rules! rows {
        ($r0:literal, $r1:literal, $r2:literal, $r3:literal) => {
            concat!(
                row!($r0, "e0", "o0", "e1", "o1"),
                row!($r1, "e2", "o2", "e3", "o3"),
                row!($r2, "e4", "o4", "e5", "o5"),
                row!($r3, "e6", "o6", "e7", "o7"),
            )
        };
    }
    // Positions: how many, from `a` and `b` to the numbers of rows, and to those of 16 columns and of others.
    macro_rules! positions {
        ($before:expr, $after:expr, [$($row:literal),*], [$b:literal, $more:literal], $($rest:tt)*) => {{
            let ([e0, e1, e2, e3, e4, e5, e6, e7], [o0, o1, o2, o3, o4, o5, o6, o7]) = (&mut *even, &mut *odd);
            let (_b0, _b1, _b2, _b3, _t): (__m512d, __m512d, __m512d, __m512d, __m512d);
            // SAFETY: it reads 4 rows' numbers and two vectors of 16 columns' at positions below `l`, as the caller
            // promises, and writes these registers only.
            unsafe {
                asm!(
                    $before,
                    concat!("vmovapd {b0}, [{b}", $b, "]\nvmovapd {b1}, [{b}", $b, " + 64]"),
                    concat!("vmovapd {b2}, [{b}", $b, $more, "]\nvmovapd {b3}, [{b}", $b, $more, " + 64]"),
                    rows!($($row),*),
                    $after,
                    $($rest)*
                    e0 = inout(zmm_reg) *e0, e1 = inout(zmm_reg) *e1, e2 = inout(zmm_reg) *e2, e3 = inout(zmm_reg) *e3,
                    e4 = inout(zmm_reg) *e4, e5 = inout(zmm_reg) *e5, e6 = inout(zmm_reg) *e6, e7 = inout(zmm_reg) *e7,
                    o0 = inout(zmm_reg) *o0, o1 = inout(zmm_reg) *o1, o2 = inout(zmm_reg) *o2, o3 = inout(zmm_reg) *o3,
                    o4 = inout(zmm_reg) *o4, o5 = inout(zmm_reg) *o5, o6 = inout(zmm_reg) *o6, o7 = inout(zmm_reg) *o7,
                    b0 = out(zmm_reg) _b0, b1 = out(zmm_reg) _b1, b2 = out(zmm_reg) _b2, b3 = out(zmm_reg) _b3,
                    t = out(zmm_reg) _t,
                    options(readonly, nostack, preserves_flags),
                );
            }
        }};
    }
    if L == 0 {
        for k in eighth(U, l / 2) {
            let k = H * (l / 2) + k;
            positions!(
                "",
                "",
                ["", " + {l}", " + 2*{l}", " + {l3}"],
                ["", " + 4*{l4}"],
                a = in(reg) a.wrapping_add(k), b = in(reg) b.wrapping_add(16 * k),
                l = in(reg) 8 * l, l3 = in(reg) 24 * l, l4 = in(reg) 32 * l,
            );
        }
        return;
    }
    positions!(
        ".set gemmulate_k, {first}\n.rept {count}",
        ".set gemmulate_k, gemmulate_k + 1\n.endr",
        [
            " + 8*gemmulate_k",
            " + 8*gemmulate_k + 8*{l}",
            " + 8*gemmulate_k + 16*{l}",
            " + 8*gemmulate_k + 24*{l}"
        ],
        [" + 128*gemmulate_k", " + 128*{l}"],
        a = in(reg) a, b = in(reg) b, l = const L,
        first = const H * (L / 2) + eighth(U, L / 2).start, count = const eighth(U, L / 2).end - eighth(U, L / 2).start,
    );
}

/// Exponents of two rows of A and of 64 columns of B, and for each half the largest ones of their products.
struct Search {
    a: *const u32,
    b: *const u8,
    best: [[__m512i; 2]; 2],
}

/// The `U`-th eighth of the positions at which they are looked for. They are added four bytes at once, which are 127 at
/// most: none carries.
///
/// # Safety
/// The exponents of `l` positions are there, two rows' of A, one after the other, and B's, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn search<const L: usize, const U: usize>(to: &mut Search, l: usize) {
    // Positions: how many, and where they are in A's rows, and in B's.
    macro_rules! positions {
        ($before:expr, $after:expr, $k:literal, $next:literal, $b:literal, $($rest:tt)*) => {{
            // Eighths are of one half.
            let [b0, b1] = &mut to.best[2 * U / VECTORS_OF_VISIT];
            let (_e, _t): (__m512i, __m512i);
            // Compilers would read all of it at first, and keep it in memory.
            // SAFETY: it reads both rows' words and a line of B's below position `l`, and writes these registers only.
            unsafe {
                asm!(
                    $before,
                    concat!("vmovdqa64 {e}, [{b}", $b, "]"),
                    concat!("vpaddd {t}, {e}, [{a}", $k, "]{{1to16}}"),
                    concat!("vpaddd {e}, {e}, [{a}", $k, $next, "]{{1to16}}"),
                    "vpmaxub {b0}, {b0}, {t}",
                    "vpmaxub {b1}, {b1}, {e}",
                    $after,
                    $($rest)*
                    e = out(zmm_reg) _e,
                    t = out(zmm_reg) _t,
                    b0 = inout(zmm_reg) *b0,
                    b1 = inout(zmm_reg) *b1,
                    options(readonly, nostack, preserves_flags),
                );
            }
        }};
    }
    let (a, b) = (to.a, to.b);
    if L == 0 {
        for k in eighth(U, l) {
            let (a, b) = (a.wrapping_add(k), b.wrapping_add(k * NR));
            positions!("", "", "", " + 4*{l}", "", a = in(reg) a, b = in(reg) b, l = in(reg) l,);
        }
        return;
    }
    positions!(
        ".set gemmulate_k, {first}\n.rept {count}",
        ".set gemmulate_k, gemmulate_k + 1\n.endr",
        " + 4*gemmulate_k",
        " + 4*{l}",
        " + 64*gemmulate_k",
        a = in(reg) a, b = in(reg) b, l = const L,
        first = const eighth(U, L).start, count = const eighth(U, L).end - eighth(U, L).start,
    );
}

/// What vector `u` of a visit begins with.
///
/// # Safety
/// The signs of the vector's row and of its columns are there, B's aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,avx512bitalg")]
unsafe fn begin(visit: &Visit, u: usize, largest: &Largest, part: usize, to: &mut Begun) {
    let (r, v) = (u / VECTORS, u % VECTORS);
    // SAFETY: row `r`'s word of 4, and vector `v`'s line of 2.
    let signs = unsafe {
        let a = _mm512_set1_epi32(*visit.a_sign.add(r) as i32);
        _mm512_xor_si512(a, _mm512_load_si512(visit.b_sign.add(16 * v).cast()))
    };
    for (tops, largest) in to.tops.iter_mut().zip(largest) {
        // The exponent field's byte above the first fraction bit, all a place too high.
        let field = _mm512_set1_epi32(HALF << 1);
        let field = _mm512_mask_shuffle_epi8(field, HIGHEST, largest[visit.row + r], place(visit.t + v));
        tops[u] = _mm512_srli_epi32::<1>(field);
    }
    to.negative[u] = if part == 8 {
        _mm512_popcnt_epi8(signs)
    } else {
        let low = _mm512_set1_epi32(((1_u32 << part) - 1) as i32);
        let [even, odd] = [_mm512_and_si512(signs, low), _mm512_andnot_si512(low, signs)];
        _mm512_or_si512(_mm512_popcnt_epi32(even), _mm512_slli_epi32::<8>(_mm512_popcnt_epi32(odd)))
    };
}

/// (5) The halves' sums of vector `u` rounded down against the larger exponent, where the count of negative products
/// makes truncations of floors; and `1.5` times its power of two.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn join(u: usize, sums: &Halves, from: &Begun) -> (__m512i, __m512i) {
    let top = _mm512_max_epi32(from.tops[0][u], from.tops[1][u]);
    let of = |h: usize| {
        // A byte of each lane, the other times 0.
        let sum = _mm512_dpbusd_epi32(sums[h][u], from.negative[u], _mm512_set1_epi32(1 << (8 * h)));
        _mm512_srav_epi32(sum, _mm512_srli_epi32::<23>(_mm512_sub_epi32(top, from.tops[h][u])))
    };
    (_mm512_add_epi32(of(0), of(1)), top)
}

/// Results of vector `u` in some columns: with c, (6) and (7), `d = RNE(sum + floor(c / q)) q`, or without it where it
/// is out of reach; in units of 2q where c is large. Leaves columns as they are whose c is so far above the products
/// that totals could lose places, and returns the others.
///
/// # Safety
/// The vector's states are there, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn end(visit: &Visit, u: usize, lanes: __mmask16, sums: &Halves, from: &Begun, q: &Consts) -> __mmask16 {
    let ((sum, top), at) = (join(u, sums, from), visit.states(u));
    // SAFETY: that vector's states.
    let units = in_units(unsafe { _mm512_load_ps(at) }, top, q);
    let magnitude = _mm512_abs_ps(units);
    let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(magnitude, _mm512_set1_ps(q.floors.least));
    let (d, far) = rounded(sum, units, magnitude, reached, unit(top, q));
    // SAFETY: to where they were read, some lanes.
    unsafe { _mm512_mask_store_ps(at, !far & lanes, d) }
    !far | !lanes
}

/// Results of a visit's columns whose c is far above the products, all but those of `near`. How many vectors have some.
///
/// # Safety
/// As `end`, for all of the visit's vectors.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn end_far(
    visit: &Visit,
    near: &[__mmask16; VECTORS_OF_VISIT],
    sums: &Halves,
    from: &Begun,
    q: &Consts,
) -> usize {
    let vectors = near.iter().enumerate().filter(|(_, near)| **near != !0);
    // SAFETY: vectors of the visit, 8 at most.
    vectors.map(|(u, near)| unsafe { end_anywhere(visit, u, !near, sums, from, q) }).count()
}

/// Results of vector `u` in some columns, wherever c is.
///
/// # Safety
/// As `end`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn end_anywhere(visit: &Visit, u: usize, lanes: __mmask16, sums: &Halves, from: &Begun, q: &Consts) {
    let ((sum, top), at) = (join(u, sums, from), visit.states(u));
    // SAFETY: that vector's states.
    let c = unsafe { _mm512_load_ps(at) };
    // SAFETY: to where they were read, some lanes.
    unsafe { _mm512_mask_store_ps(at, lanes, anywhere(sum, in_units(c, top, q), unit(top, q), c, q)) }
}

/// A result, wherever c is; `units` is c in units of q.
///
/// From 2^31 on a total is the f32 sum of c and of the sum rounded to odd, as `round_down` says, but two places below
/// the total's last one: then it has 24 bits, for sums are below 2^30, and c is a multiple of twice that place. Its
/// exponent is that of an f32 sum toward zero, which is right but next to a power of two, to which such totals round
/// all the same.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn anywhere(sum: __m512i, units: __m512, unit: __m512, c: __m512, q: &Consts) -> __m512 {
    let field = |x: __m512| {
        let x = _mm512_castps_si512(x);
        _mm512_srli_epi32::<24>(_mm512_add_epi32(x, x))
    };
    let magnitude = _mm512_abs_ps(units);
    let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(magnitude, _mm512_set1_ps(q.floors.least));
    let units = _mm512_maskz_mov_ps(reached, units);
    // Below, by integers modulo 2^32.
    let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(magnitude, _mm512_set1_ps(TOO_LARGE));
    let floor = _mm512_cvt_roundps_epi32::<DOWN>(_mm512_mask_mul_ps(units, large, units, _mm512_set1_ps(0.5)));
    let total = _mm512_add_epi32(sum, floor);
    let total = _mm512_cvtepi32_ps(_mm512_mask_add_epi32(total, large, total, floor));
    // Places that the sum and the total lose, and such below the one that is odd.
    let e_total = field(_mm512_add_round_ps::<RZ>(_mm512_cvt_roundepi32_ps::<RZ>(sum), units));
    let lost = |e, kept: u8| _mm512_subs_epu16(e, _mm512_set1_epi32(127 + i32::from(kept)));
    let lost = if q.floors.kept < q.floors.kept_of_sum {
        // The total is at least half of such a c.
        lost(e_total, q.floors.kept)
    } else {
        _mm512_max_epi32(lost(e_total, q.floors.kept), lost(field(units), q.floors.kept_of_sum))
    };
    let ones = _mm512_set1_epi32(!0);
    let kept = _mm512_sllv_epi32(ones, lost);
    let low = _mm512_srlv_epi32(ones, _mm512_sub_epi32(_mm512_set1_epi32(127 + 25 + 32), e_total));
    let odd = _mm512_add_epi32(_mm512_ternarylogic_epi32::<AND>(kept, sum, low), low);
    let odd = _mm512_ternarylogic_epi32::<OR_WITHOUT>(odd, sum, low);
    let above = _mm512_cmpgt_epi32_mask(e_total, _mm512_set1_epi32(127 + 30));
    let total = _mm512_mask_add_ps(total, above, _mm512_cvtepi32_ps(odd), units);
    let counts = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(magnitude, _mm512_set1_ps(ALL));
    _mm512_mask_mul_ps(c, counts, total, unit)
}
