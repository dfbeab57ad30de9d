//! Steps from products to results in one loop of assembly (`round_to_zero.rs`), for some row groups together: the
//! rounding mode is changed once for them. On Zen 5 that takes some 15 cycles each way, and six times that in some
//! builds (docs/kernels.md).

use super::{Buffers, MR, NR, Places, Vectors, begin, end, exponents, rest_of_group};
use crate::simd::decode::f32_power;
use crate::simd::fda::micro::Advance;
use crate::simd::fda::step::{Consts, Step};
use crate::simd::fda::{GROUPS, out};
use core::mem::MaybeUninit;
use core::ops::Range;

/// So many steps are worth a look at all states.
const SHIFTS: usize = 8;

/// So many row groups at a time: a tile's states, 16 KiB, and what four groups' are scaled by, 8 KiB, leave room for a
/// step's panels in 32 KiB of first-level cache.
const TOGETHER: usize = 4;

/// What products and states of such row groups are scaled by.
#[repr(C, align(64))]
struct All([MaybeUninit<u32>; TOGETHER * MR * NR]);

/// Whether the set has a way of its own from products to results.
pub(super) const fn fuses<S: Vectors, const OUT: u8, const L: usize, const PAIRS: bool>() -> bool {
    OUT == out::F32_RZ && has::<S, L, PAIRS>()
}

/// Whether it has one from products to sums at least.
pub(super) const fn has<S: Vectors, const L: usize, const PAIRS: bool>() -> bool {
    S::FUSES && !PAIRS && matches!(L, 4 | 8 | 16)
}

/// Whether products and f16 states can be scaled as below in any step: no exponent, and so no e_max, is above F.
pub(super) fn shifts_suffice_for_halves(q: &Consts) -> bool {
    let top = 127 - i32::from(q.bias_sub);
    let floor = i32::from(q.floor_field);
    top.max(15) <= q.frac_bits && (q.frac_bits + 1..=127 + q.frac_bits).contains(&floor)
}

/// Up to which magnitude of states products and states can be scaled by adding `F - e_max` to their exponent fields, in
/// so many steps, instead of multiplying: any port can do that. Where there is such a magnitude, `F - e_max` is not
/// negative, so that no field becomes negative; and at most 126, so that zeros, and what is below f32's normal numbers,
/// stay below 1.
pub(super) fn most_for_shifts(q: &Consts, steps: usize) -> Option<f32> {
    // e_zero may be above F.
    if steps < SHIFTS || i32::from(q.floor_field) > 127 + q.frac_bits {
        return None;
    }
    let top = 127 - i32::from(q.bias_sub);
    // At least F - 126: no step is scaled by a lower field (`consts_of`), and F is 25 at most.
    debug_assert!(i32::from(q.floor_field) > q.frac_bits);
    // States stay below `2^F`, but for what is rounded here, and so do products, which are below `2^(e + 2)`: up to
    // twice that neither has an exponent above F.
    let most = f32_power(q.frac_bits) - (steps * q.block) as f32 * f32_power(top + 2);
    (most >= 0.0).then_some(most)
}

/// Whether that is so of the states of so many row groups.
///
/// # Safety
/// `p` points to so many groups' states, aligned to 64 bytes.
#[inline(always)]
unsafe fn shifts_suffice<S: Vectors>(set: S, p: &Step, q: &Consts, groups: usize, steps: usize) -> bool {
    let Some(most) = most_for_shifts(q, steps) else { return false };
    let (mut large, limit) = ([set.splat(0); 4], set.splat(most.to_bits()));
    for at in (0..groups * MR * NR).step_by(4 * S::LANES) {
        for (i, large) in large.iter_mut().enumerate() {
            // SAFETY: the next four vectors of states: a group has `MR * NR` of them, right after the one before.
            let c = set.without(set.splat(1 << 31), unsafe { set.load(p.c.add(at + i * S::LANES).cast()) });
            *large = set.or(*large, set.greater(c, limit));
        }
    }
    !set.any(set.or(set.or(large[0], large[1]), set.or(large[2], large[3])))
}

/// `Micro::steps_fast`, of steps of `L` products rounded toward zero to f32.
///
/// # Safety
/// As `super::run`, of `L` that is 4, 8 or 16; `fuses` says that the set has such steps.
#[inline(always)]
pub(super) unsafe fn steps<S: Vectors, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    skip: &mut [u32],
    steps: usize,
) -> Advance {
    let (mut buffers, mut all) = (MaybeUninit::<Buffers>::uninit(), MaybeUninit::<All>::uninit());
    let (to, all) = (Places::of(&mut buffers), all.as_mut_ptr().cast::<u32>());
    // SAFETY: states are those of every group of `skip`.
    let shift = unsafe { shifts_suffice(set, p, q, skip.len(), steps) };
    // SAFETY: `set` is the proof that the instructions are there, and they are enabled here.
    let mode = unsafe { set.mode() };
    for step in 0..steps {
        let (here, mut more, mut ready) = (p.skip(step, q), 0, 0..0);
        for (g, skip) in skip.iter_mut().enumerate().filter(|(_, skip)| **skip != !0) {
            let (p, q) = (here.group(g, q), q.group(g));
            // SAFETY: all `L` products of one of the caller's steps, of one of the groups; `to` leads to `buffers`.
            let mut late = *skip | unsafe { exponents::<S, L>(set, &p, &q, 0..L, to) };
            if late == 0 && p.vectors == 4 {
                if ready.end != g || ready.len() == TOGETHER {
                    // SAFETY: `ready` are groups of this step that `begin` has filled `all` for, from its beginning on.
                    unsafe { together::<S, L>(set, &here, shift, ready, all, mode) }
                    ready = g..g;
                }
                let to = Places { by: all.wrapping_add((g - ready.start) * MR * NR), ..to };
                for row in 0..MR {
                    // SAFETY: `exponents` has filled `largest`; `all` has room: fewer than `TOGETHER` groups are ready.
                    unsafe { begin::<S, { out::F32_RZ }, false>(set, &p, &q, row, shift, to) }
                }
                ready.end = g + 1;
            } else {
                // SAFETY: the same step, `largest` of which is filled; it has all of `buffers` for itself.
                late = unsafe { rest_of_group::<S, { out::F32_RZ }, L, false>(set, &p, &q, late, to) };
            }
            (more, *skip) = (more | late & !*skip, *skip | late);
        }
        // SAFETY: as above.
        unsafe { together::<S, L>(set, &here, shift, ready, all, mode) }
        if more != 0 {
            return Advance::by(step + 1);
        }
    }
    Advance::by(steps)
}

/// Row groups that follow one another, none of whose pieces are left to others; `all` begins with the first one's.
///
/// # Safety
/// As `steps`, for this step: groups are among those that it has, with all 64 columns, and `all` is filled for them.
/// `mode` is the set's.
#[inline(always)]
unsafe fn together<S: Vectors, const L: usize>(
    set: S,
    p: &Step,
    shift: bool,
    groups: Range<usize>,
    all: *const u32,
    mode: u32,
) {
    debug_assert!(groups.end <= GROUPS && groups.len() <= TOGETHER);
    if !groups.is_empty() {
        let (rows, at) = (groups.start * MR, groups.start * MR * NR);
        let (a, c) = (p.a_val32.wrapping_add(rows * L), p.c.wrapping_add(at));
        // SAFETY: a group's rows follow those of the one before in A's panel, in states and in `all`, and twice 32
        // columns are there. Results are 0 or at least 2^-122.
        unsafe { set.products_and_ends::<L, false>(shift, [groups.len() * MR, 2], [a, p.b_val32], all, c, mode) }
    }
}

/// A step of tiles side by side (`small.rs`), from exponents to results. Returns the pieces in which an operand below
/// the window might matter, and those with an infinite f16; their results mean nothing, nor do those of a fourth tile
/// that is not there.
///
/// # Safety
/// As `super::group`, but panels and states have room for four tiles, rows and columns of one `round_to_zero::APART`
/// from the next's. `has` says that the set has such steps.
#[inline(always)]
pub(super) unsafe fn step_of_tiles<S: Vectors, const OUT: u8, const L: usize>(
    set: S,
    p: &Step,
    q: &Consts,
    to: Places,
) -> u32 {
    let (size, panels) = ([MR, p.vectors.div_ceil(2)], [p.a_val32, p.b_val32]);
    let shift = OUT == out::F16_RNE && shifts_suffice_for_halves(q);
    // SAFETY: `largest` is filled before `begin` reads it, `by` for all rows before products do, and before `end` the
    // sums of all tiles there are: of an even number of them, for which there is room.
    unsafe {
        let doubt = exponents::<S, L>(set, p, q, 0..L, to);
        for row in 0..MR {
            begin::<S, OUT, false>(set, p, q, row, shift, to);
        }
        if OUT == out::F32_RZ {
            set.products_and_ends::<L, true>(shift, size, panels, to.by, p.c, set.mode());
            return doubt;
        }
        set.products::<L, true>(shift, size, panels, to.by, p.c, to.sums);
        end::<S, OUT, false>(set, p, q, doubt, shift, to)
    }
}
