//! What an instruction set does for the driver: [`Micro`], on the proofs that the sets are there.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::step::{Consts, EXP32, Step};
use super::{MR, aligned, avx2, avx512, fixed, out, round_down, scratch, wide, wide_avx2, wide_plain};
use crate::simd::{Avx2, Avx512, Sse2};
use core::arch::x86_64::*;

/// What became of 16 states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    /// Some were not finite.
    pub(super) special: bool,
    /// All are parked now.
    pub(super) all: bool,
    /// All are parked as NaN.
    pub(super) nan: bool,
    /// The others are zeros or have exponent fields from `low` to 180.
    pub(super) ordinary: bool,
}

/// How far a stream of steps came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advance {
    /// Steps that are done.
    pub(super) steps: usize,
    /// How many of these, the last ones, all pieces that were added to `skip` lack.
    pub(super) behind: usize,
    /// Whether states may be infinite now besides those of pieces that were added to `skip`.
    pub(super) infinite: bool,
}

impl Advance {
    /// Steps of which none is lacking but what the last one left to others.
    pub(super) const fn by(steps: usize) -> Self {
        Self { steps, behind: 0, infinite: false }
    }
}

/// The kernels of one instruction set.
pub(super) trait Micro: Copy {
    /// Whether rounding to integers is one instruction.
    const NATIVE: bool;

    /// Up to `steps` FDA steps of row groups of 8 by 64 columns for operands within the window and states within range,
    /// after another. `skip` has a mask for each group, bit `4 row + vector`, of pieces to be left as they are. Ends
    /// soon after a step in which it becomes larger: then it has also those left for the wide kernel, and those that
    /// are done and have an infinite f16, unless the result says that any may have one; or, where it says that pieces
    /// are behind, those with something of either kind among the steps that they lack.
    ///
    /// There is a step at least; `q.tiny` is what holds for any of them.
    ///
    /// # Safety
    /// `p` points into panels of at least these steps and to `MR` rows of state, for every group, `GROUPS` at most and
    /// up to `NR / 16` vectors of columns; B's panels and states are aligned to 64 bytes.
    unsafe fn steps_fast<const OUT: u8>(self, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance;

    /// Whole unit steps whose c comes last, of `Fda::streams_unit_steps`: `steps` FDA steps, `per` of them a unit step.
    /// Sums from 0 on, and additions of them to `c`, whose NaNs stay. `p`'s states do not count; what they are
    /// afterwards is not said.
    ///
    /// # Safety
    /// As `steps_fast`, for so many groups and all columns, none of whose operands is special, at risk or below its
    /// window; `per` divides `steps`. `c` has as many states as `p`, in the same allocation.
    unsafe fn unit_steps_fast<const OUT: u8>(
        self,
        _p: &Step,
        _q: &Consts,
        _groups: usize,
        _steps: usize,
        _per: usize,
        _c: *mut f32,
    ) {
        unreachable!("no stream of such units");
    }

    /// `steps_fast` for one group by integer dot products, where `fixed` chose them: the mask, and how many pieces had
    /// to be done again.
    ///
    /// # Safety
    /// As `steps_fast`; the integers of both panels are there.
    unsafe fn step_fixed<const OUT: u8>(self, p: &Step, q: &Consts, skip: u32) -> (u32, u32) {
        let mut skip = [skip];
        // SAFETY: the caller's promise, handed on.
        unsafe { _ = self.steps_fast::<OUT>(p, q, &mut skip, 1) }
        (skip[0], 0)
    }

    /// The step of the pieces of a mask, for all finite operands and states and F up to 40. Returns which of them
    /// have states out of the fast kernel's range, and which have some that may not be finite: `settle` looks at those.
    ///
    /// # Safety
    /// As `steps_fast`, and the wide panels are filled in.
    unsafe fn step_wide<const OUT: u8>(self, p: &Step, q: &Consts, redo: u32) -> [u32; 2];

    /// The exponents of 16 values of B's f64 panel, as the wide kernel wants them.
    #[inline(always)]
    fn exponents(self, v: &[f64; 16], scale: i32, low: &[i32; 16], to: &mut [i16; 16]) {
        scratch::exponents(v, scale, low, to);
    }

    /// Moves what is not finite in 16 states to `parked`, unless something stands there already, and puts 0 for it.
    #[inline(always)]
    fn settle(self, states: &mut [f32; 16], parked: &mut [f32; 16], nan: f32, low: u32) -> Settled {
        self.vectorise(
            #[inline(always)]
            || settle(states, parked, nan, low),
        )
    }

    /// Runs plain code compiled for this set.
    fn vectorise<R>(self, f: impl FnOnce() -> R) -> R;

    /// The same in a function that is not inlined: what several callers share is compiled once.
    #[inline(never)]
    fn vectorise_apart<R>(self, f: impl FnOnce() -> R) -> R {
        self.vectorise(f)
    }
}

impl Micro for Avx512 {
    const NATIVE: bool = true;

    #[inline(always)]
    unsafe fn steps_fast<const OUT: u8>(self, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
        // SAFETY: the caller's promise; `self` is the proof that the instructions are there.
        unsafe {
            if OUT == out::ROUND_DOWN {
                Advance::by(round_down::avx512::steps_fast(p, q, skip, steps))
            } else {
                avx512::steps_fast::<OUT>(p, q, skip, steps)
            }
        }
    }

    #[inline(always)]
    unsafe fn unit_steps_fast<const OUT: u8>(
        self,
        p: &Step,
        q: &Consts,
        groups: usize,
        steps: usize,
        per: usize,
        c: *mut f32,
    ) {
        // SAFETY: as above.
        unsafe { avx512::unit_steps_fast::<OUT>(p, q, groups, steps, per, c) }
    }

    #[inline(always)]
    unsafe fn step_fixed<const OUT: u8>(self, p: &Step, q: &Consts, skip: u32) -> (u32, u32) {
        // SAFETY: as above, VNNI among them.
        unsafe { fixed::step_fixed::<OUT>(p, q, skip) }
    }

    #[inline(always)]
    unsafe fn step_wide<const OUT: u8>(self, p: &Step, q: &Consts, redo: u32) -> [u32; 2] {
        let mut found = [0; 2];
        let mut add = |more: [u32; 2]| found = [found[0] | more[0], found[1] | more[1]];
        for half in 0..2 {
            let rows = [0, 1].map(|i| redo >> (2 * half + i) & 0x1111_1111);
            let whole = rows.map(|rows| rows == 0x1111_1111);
            // SAFETY: as above.
            unsafe {
                if whole != [false; 2] {
                    add(wide::step_wide::<MR, OUT>(p, q, 0, half, whole));
                }
                for r in 0..MR {
                    let wanted = [0, 1].map(|i| !whole[i] && rows[i] >> (4 * r) & 1 == 1);
                    if wanted != [false; 2] {
                        add(wide::step_wide::<1, OUT>(p, q, r, half, wanted));
                    }
                }
            }
        }
        found
    }

    #[inline(always)]
    fn exponents(self, v: &[f64; 16], scale: i32, low: &[i32; 16], to: &mut [i16; 16]) {
        // SAFETY: `self` is the proof that the instructions are there.
        unsafe { scratch::exponents_avx512(v, scale, low, to) }
    }

    #[inline(always)]
    fn settle(self, states: &mut [f32; 16], parked: &mut [f32; 16], nan: f32, low: u32) -> Settled {
        // SAFETY: `self` is the proof that the instructions are there.
        unsafe { settle_avx512(states, parked, nan, low) }
    }

    #[inline(always)]
    fn vectorise<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn run<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` is the proof that the instructions are there.
        unsafe { run(f) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn settle_avx512(states: &mut [f32; 16], parked: &mut [f32; 16], nan: f32, low: u32) -> Settled {
    let exponent = _mm512_set1_epi32(EXP32);
    // SAFETY: 16 floats.
    let mut x = unsafe { _mm512_loadu_ps(states.as_ptr()) };
    let special = _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(x), exponent), exponent);
    let (mut all, mut nan_only) = (false, false);
    if special != 0 {
        // SAFETY: as above.
        let before = unsafe { _mm512_loadu_ps(parked.as_ptr()) };
        let free = _mm512_testn_epi32_mask(_mm512_castps_si512(before), _mm512_castps_si512(before));
        let new = special & free;
        all = new == free;
        let unordered = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let canonical = _mm512_mask_mov_ps(x, unordered, _mm512_set1_ps(nan));
        let parked_now = _mm512_mask_mov_ps(before, new, canonical);
        nan_only = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(parked_now, parked_now) == !0;
        x = _mm512_maskz_mov_ps(!special, x);
        // SAFETY: as above.
        unsafe {
            _mm512_storeu_ps(parked.as_mut_ptr(), parked_now);
            _mm512_storeu_ps(states.as_mut_ptr(), x);
        }
    }
    Settled { special: special != 0, all, nan: nan_only, ordinary: is_ordinary(_mm512_castps_si512(x), low) }
}

/// Whether 16 states are zeros or have exponent fields from `low` to 180.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn is_ordinary(states: __m512i, low: u32) -> bool {
    let field = _mm512_and_si512(states, _mm512_set1_epi32(EXP32));
    let above = _mm512_sub_epi32(field, _mm512_set1_epi32((low << 23) as i32));
    let ordinary = _mm512_cmple_epu32_mask(above, _mm512_set1_epi32(((180 - low) << 23) as i32));
    ordinary | _mm512_testn_epi32_mask(states, _mm512_set1_epi32(i32::MAX)) == !0
}

/// # Safety
/// As `steps_fast`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn aligned_avx2<const OUT: u8>(set: Avx2, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
    // SAFETY: the caller's promise, handed on.
    unsafe { aligned::steps_fast::<_, OUT>(set, p, q, skip, steps) }
}

impl Micro for Avx2 {
    const NATIVE: bool = true;

    #[inline(always)]
    unsafe fn steps_fast<const OUT: u8>(self, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
        // SAFETY: the caller's promise; `self` is the proof that the instructions are there.
        unsafe {
            if q.aligned {
                aligned_avx2::<OUT>(self, p, q, skip, steps)
            } else {
                avx2::steps_fast::<OUT>(self, p, q, skip)
            }
        }
    }

    #[inline(always)]
    unsafe fn step_wide<const OUT: u8>(self, p: &Step, q: &Consts, redo: u32) -> [u32; 2] {
        for piece in (0..32).filter(|piece| redo >> piece & 1 == 1) {
            // SAFETY: as above.
            unsafe { wide_avx2::step_wide::<OUT>(p, q, piece / 4, piece % 4) }
        }
        [redo; 2]
    }

    #[inline(always)]
    fn vectorise<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` is the proof that the instructions are there.
        unsafe { run(f) }
    }
}

impl Micro for Sse2 {
    const NATIVE: bool = false;

    #[inline(always)]
    unsafe fn steps_fast<const OUT: u8>(self, p: &Step, q: &Consts, skip: &mut [u32], steps: usize) -> Advance {
        // SAFETY: the caller's promise.
        unsafe { aligned::steps_fast::<_, OUT>(self, p, q, skip, steps) }
    }

    #[inline(always)]
    unsafe fn step_wide<const OUT: u8>(self, p: &Step, q: &Consts, redo: u32) -> [u32; 2] {
        for piece in (0..32).filter(|piece| redo >> piece & 1 == 1) {
            // SAFETY: the caller's promise.
            unsafe { wide_plain::step_wide::<OUT>(p, q, piece / 4, piece % 4) }
        }
        [redo; 2]
    }

    #[inline(always)]
    fn vectorise<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// [`Micro::settle`] in plain code: conditions are all ones in a lane or none, so that lanes stay side by side.
#[inline(always)]
fn settle(states: &mut [f32; 16], parked: &mut [f32; 16], nan: f32, low: u32) -> Settled {
    const MAGNITUDE: i32 = i32::MAX;
    let mask = |x: bool| -i32::from(x);
    let (mut x, mut any) = (states.map(|x| x.to_bits() as i32), 0);
    for x in x {
        any |= mask(x & MAGNITUDE >= EXP32);
    }
    let (mut all, mut nan_only) = (any, any);
    if any != 0 {
        for j in 0..16 {
            let (bits, before) = (x[j], parked[j].to_bits() as i32);
            let (special, free) = (mask(bits & MAGNITUDE >= EXP32), mask(before & MAGNITUDE == 0));
            let canonical = if bits & MAGNITUDE > EXP32 { nan.to_bits() as i32 } else { bits };
            let new = special & free;
            let after = before & !new | canonical & new;
            parked[j] = f32::from_bits(after as u32);
            x[j] = bits & !special;
            all &= mask(after & MAGNITUDE != 0);
            nan_only &= mask(after & MAGNITUDE > EXP32);
        }
        *states = x.map(|x| f32::from_bits(x as u32));
    }
    // Exponent fields from `low` to 180, or zeros.
    let (least, most) = ((low << 23) as i32, ((180 + 1) << 23) - 1);
    let mut ordinary = -1;
    for x in x {
        let magnitude = x & MAGNITUDE;
        ordinary &= mask(magnitude >= least) & mask(magnitude <= most) | mask(magnitude == 0);
    }
    Settled { special: any != 0, all: all != 0, nan: nan_only != 0, ordinary: ordinary != 0 }
}
