//! The steps of a tile's row groups as one stream of pieces, 3 or 2 rows by 16 columns each (AVX2, f64 accumulators).
//!
//! FMAs take two of four ports, most other operations any of these, but a scheduler that is full of operations that wait
//! for the last FMAs of a piece lets none of the next one in. So between the products of a piece the next piece is
//! begun, its start left in memory, and the largest exponents and the negative products of a row of the next row group
//! are found: what is left to do at the end of a piece is short.
//!
//! Measured on Zen 4, beside FMAs of 256 bits: additions, logic, shifts, conversions of integers and shuffles within
//! words cost nothing up to one for each FMA; a multiplication costs an FMA, shuffles of bytes a third of one, more than
//! a store for two FMAs one and a half each, and no more than two numbers or vectors are loaded in a cycle. So bytes
//! are moved to their places by reading where they lie, and ones among signs are counted once a step for every value
//! of four signs of A.
//!
//! AVX2 has no rounding mode per instruction, so all of it is assembly, under the mode and the rules of
//! `round_to_zero`: whatever else it does is exact, or truncates by itself.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers, and assembly")]

mod assembly;

use super::avx2;
use super::micro::Advance;
use super::round_to_zero::{HALF, ROUND_TO_ZERO};
use super::step::{Consts, EXP32, Step};
use super::{GROUPS, MR, NR, out};
use core::arch::x86_64::*;
use core::mem::{MaybeUninit, offset_of};

/// What is known of a row group's step before it begins: of every row and column a byte each, byte `4 j + t` of half `h`
/// of a row that of column `16 t + 8 h + j`.
#[repr(C, align(64))]
pub(super) struct Ahead {
    /// Vectors are read from two bytes before a row on.
    _before: [u8; 64],
    /// The largest product's exponent field.
    pub(super) largest: [[u8; NR]; MR],
    /// How many products are negative.
    pub(super) negative: [[u8; NR]; MR],
    /// And up to three bytes beyond one.
    _after: [u8; 64],
}

impl Ahead {
    const NOTHING: Self = Self { _before: [0; 64], largest: [[0; NR]; MR], negative: [[0; NR]; MR], _after: [0; 64] };
}

/// Where a piece's rows begin, 8 columns after another, two pieces in turn. Aligned so that one bit tells them apart.
#[repr(C, align(1024))]
struct Ring([[Start; 8]; 2]);

/// 8 columns of a row.
#[derive(Clone, Copy)]
#[repr(C)]
struct Start {
    /// `1.5 * 2^e_max`, as f32.
    top: [u32; 8],
    /// What to add to the sum: c, and a unit for each negative product.
    more: [u32; 8],
}

/// What the assembly reads besides panels; vectors come first, so that they are aligned.
#[repr(C, align(64))]
struct Control {
    /// For four signs of A, the ones among those and a column's four, combined by an exclusive or; for all fours of a
    /// step, of two steps in turn.
    ones: [[[[u8; NR]; 16]; 4]; 2],
    exponent: [i32; 8],
    half: [u32; 8],
    /// What to subtract a start from, for `2^(F - e_max)`, and what to add to one for `2^(e_max - F)`.
    up: [u32; 8],
    down: [u32; 8],
    /// What is subtracted from an exponent's byte for its field, and the least that it is subtracted from.
    bias: [u8; 32],
    least: [u8; 32],
    /// The lowest byte of a word.
    byte: [u32; 8],
    /// The lowest exponent of an f16 c, where it is not equal to `no_c`.
    low: [u32; 8],
    no_c: [f32; 8],
    one: [u32; 8],
    zero: [u32; 8],
    mxcsr: u32,
    saved: u32,
    /// The group at hand, and how many there are from it on.
    pass: *const Pass,
    left: u64,
    /// The next group's signs from the rows at hand on, and which of `ones` counts them.
    a_sign: *const u32,
    turn: u64,
}

/// A row group's step.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pass {
    a: *const f64,
    b: *const f64,
    c: *mut f32,
    look: *const u8,
    /// The next group's, and where to put what is found there.
    b_exp: *const u8,
    a_exp: *const u32,
    a_sign: *const u32,
    ahead: *mut u8,
    /// A step's turn, as a distance in `ones`.
    turn: u64,
    /// What the last piece begins the next group with.
    next_look: *const u8,
    next_c: *const f32,
}

impl Pass {
    /// `here`, of which `ahead[0]` is known, and a look ahead at `next`.
    fn new(here: &Step, next: &Step, ahead: [*mut Ahead; 2], turn: usize) -> Self {
        // The first column's byte is to stand third.
        let [now, then] = ahead.map(|ahead| ahead.cast::<u8>().wrapping_add(offset_of!(Ahead, largest)));
        Self {
            a: here.a_val,
            b: here.b_val,
            c: here.c,
            look: now.wrapping_sub(2),
            b_exp: next.b_exp,
            a_exp: next.a_exp,
            a_sign: next.a_sign,
            ahead: then,
            turn: (turn % 2 * 1024) as u64,
            next_look: then.wrapping_sub(2),
            next_c: next.c,
        }
    }
}

impl Control {
    fn new(q: &Consts) -> Self {
        let places = ((q.frac_bits as u32) << 23) + HALF;
        Self {
            ones: [[[[0; NR]; 16]; 4]; 2],
            exponent: [EXP32; 8],
            half: [HALF; 8],
            up: [(254 << 23) + places; 8],
            down: [places.wrapping_neg(); 8],
            bias: [q.bias_sub; 32],
            least: [q.floor_field + q.bias_sub; 32],
            byte: [0xFF; 8],
            low: [(127 - 14) << 23; 8],
            no_c: [if q.zero_c == 0 { 0.0 } else { f32::NAN }; 8],
            one: [1; 8],
            zero: [0; 8],
            mxcsr: ROUND_TO_ZERO,
            saved: 0,
            pass: core::ptr::null(),
            left: 0,
            a_sign: core::ptr::null(),
            turn: 0,
        }
    }

    /// Counts for B's signs of a step whose turn it is.
    ///
    /// # Safety
    /// `planes` points to them.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn count<const L: usize>(&mut self, planes: *const u8, turn: usize) {
        for (n, ones) in self.ones[turn % 2].iter_mut().enumerate().take(L / 4) {
            // SAFETY: the caller's promise; rows of 64 bytes, aligned.
            unsafe {
                let b = avx2::nibbles(planes, n);
                for (a, to) in ones.iter_mut().enumerate() {
                    to.as_mut_ptr().cast::<[__m256i; 2]>().write(avx2::ones(a, b));
                }
            }
        }
    }
}

/// Whether the stream takes a product's steps: results that keep all bits, and bytes that can be compared before the
/// bias is subtracted.
pub(super) fn takes<const OUT: u8>(q: &Consts) -> bool {
    let fits = q.floor_field.checked_add(q.bias_sub).is_some();
    !q.narrow && matches!(q.block, 4 | 8 | 16) && q.keep == -1 && OUT != out::F32_RNE && fits
}

/// `steps_fast` for steps of `L` products that `takes` says yes to: the groups in `groups`, of which no piece is to be
/// left out and no operand lies below its window. All columns matter.
///
/// # Safety
/// As `steps_fast`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn steps<const OUT: u8, const L: usize>(
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    groups: &[usize],
    steps: usize,
) -> Advance {
    let mut ahead = [Ahead::NOTHING; 2];
    let mut ring = Ring([[Start { top: [0; 8], more: [0; 8] }; 8]; 2]);
    let mut control = Control::new(q);
    let at = |step: usize, group: usize| p.skip(step, q).group(group, q);
    // SAFETY: the caller's promise, handed on.
    unsafe {
        let first = at(0, groups[0]);
        avx2::look_ahead(&first, q, &mut ahead[0]);
        begin::<OUT>(&first, q, &ahead[0], &mut ring.0[0]);
        control.count::<L>(p.b_sign.cast(), 0);
    }
    let ahead = ahead.as_mut_ptr();
    let (mut turn, mut passes) = (0, [const { MaybeUninit::uninit() }; GROUPS]);
    for step in 0..steps {
        let mut next = at(step, groups[0]);
        for (i, pass) in passes.iter_mut().enumerate().take(groups.len()) {
            let here = next;
            let (step, group) = if i + 1 < groups.len() { (step, groups[i + 1]) } else { (step + 1, groups[0]) };
            // Nothing comes after the last one: itself again.
            if step < steps {
                next = at(step, group);
            }
            pass.write(Pass::new(&here, &next, [turn % 2, (turn + 1) % 2].map(|i| ahead.wrapping_add(i)), step));
            turn += 1;
        }
        // SAFETY: as above; what is ahead of a group was found with the one before.
        unsafe {
            if step + 1 < steps {
                control.count::<L>(next.b_sign.cast(), step + 1);
            }
            (control.pass, control.left) = (passes.as_ptr().cast(), groups.len() as u64);
            assembly::run::<OUT, L>(&mut control, &mut ring);
        }
        if OUT == out::F16_RNE {
            let before = skip.iter().fold(0, |all, skip| all | skip);
            for &group in groups {
                // SAFETY: as above.
                skip[group] |= unsafe { infinite(at(step, group).c) };
            }
            if skip.iter().fold(0, |all, skip| all | skip) != before {
                return Advance::by(step + 1);
            }
        }
    }
    Advance::by(steps)
}

/// The first piece's start.
///
/// # Safety
/// As `steps`.
#[target_feature(enable = "avx2,fma")]
unsafe fn begin<const OUT: u8>(p: &Step, q: &Consts, ahead: &Ahead, to: &mut [Start; 8]) {
    for (i, to) in to.iter_mut().enumerate().take(6) {
        let (row, half) = (i / 2, i % 2);
        // SAFETY: rows of 64 bytes, and of NR states.
        unsafe {
            let bytes = |rows: &[[u8; NR]; MR]| _mm256_load_si256(rows[row].as_ptr().add(32 * half).cast());
            let (power, negative) = avx2::first_vector(bytes(&ahead.largest), bytes(&ahead.negative));
            let to = [to.top.as_mut_ptr(), to.more.as_mut_ptr()];
            avx2::begin_8::<OUT, false>(p.c.add(row * NR + 8 * half), q, power, negative, to);
        }
    }
}

/// The pieces of a group with an infinite state.
///
/// # Safety
/// `c` points to a group's states.
#[target_feature(enable = "avx2")]
unsafe fn infinite(c: *const f32) -> u32 {
    let mut found = 0;
    for row in 0..MR {
        let mut largest = _mm256_setzero_ps();
        for at in (0..NR).step_by(8) {
            // SAFETY: the caller's promise.
            let d = unsafe { _mm256_load_ps(c.add(row * NR + at)) };
            largest = _mm256_max_ps(largest, _mm256_andnot_ps(_mm256_set1_ps(-0.0), d));
        }
        if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(largest, _mm256_set1_ps(f32::INFINITY))) != 0 {
            // SAFETY: the caller's promise.
            let is_infinite = |at: usize| unsafe { (*c.add(row * NR + at)).is_infinite() };
            found |= (0..NR).filter(|&at| is_infinite(at)).fold(0, |m, at| m | 1 << (4 * row + at / 16));
        }
    }
    found
}
