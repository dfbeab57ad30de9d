//! Unit steps whose c comes last, all of them in one stream: sums from 0 on, then an addition of f32.

use super::super::super::finish::{finish, narrow_widen};
use super::super::super::step::{Consts, Step};
use super::ends::begin;
use super::piece::{Carried, call, code_last};
use super::{Order, PIECES, Pending, VECTORS, VECTORS_OF_PIECE, Work};
use crate::simd::fda::avx512::max_exponents;
use crate::simd::fda::{GROUPS, MR, NR, out};
use core::mem::MaybeUninit;
use std::arch::x86_64::*;

/// `steps` steps of `L` products of `groups` row groups, every `per` of them a unit step: to `c`, other states than
/// `p`'s, whose values do not count before nor after. NaNs stay, and whatever NaN an addition of infinities is.
///
/// # Safety
/// As `Micro::steps_fast`, for all 64 columns and without operands below the window; `per` divides `steps`. `c` has as
/// many states, aligned likewise, in the same allocation.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(in crate::simd::fda) unsafe fn unit_steps<const OUT: u8, const L: usize>(
    p: &Step,
    q: &Consts,
    groups: usize,
    steps: usize,
    per: usize,
    c: *mut f32,
) {
    debug_assert!(q.tiny == 0 && p.vectors == NR / 16 && steps > 0 && steps.is_multiple_of(per));
    let order = Order::new(p, q, &[0; GROUPS][..groups], steps);
    let of_step = order.of_step();
    let mut work = MaybeUninit::<Work>::zeroed();
    let work = work.as_mut_ptr();
    let ends_first = if per == 1 { u32::MAX } else { 0 };
    // SAFETY: a local `Work`, of which zeros are a value; and places in it, whose bytes are not looked at.
    let (aside, largest, starts) = unsafe {
        (*work).set::<OUT, false, L>(q);
        (*work).code = Some(code_last::<OUT, L>());
        ((*work).last, (*work).last_c) = (of_step as u32 - 1, order.piece(of_step - 1).c);
        let unit = &mut (*work).unit_step;
        (unit.sums_left, unit.most_left, unit.ends) = (per as u32 - 1, per as u32 - 1, ends_first);
        unit.apart = c.byte_offset_from(p.c);
        unit.to_c = if per == 1 { unit.apart } else { 0 };
        let largest = [&raw mut (*work).largest[0], &raw mut (*work).largest[1]].map(<*mut _>::cast::<__m512i>);
        ((&raw mut (*work).aside).cast::<f32>(), largest, (&raw mut (*work).starts).cast())
    };
    // SAFETY: the first row group at the first step, whose e_max goes to its 8 rows' places. It begins with the zeros
    // of `aside`, a part of `work` that `begin` does not touch otherwise: nothing has been put there yet.
    unsafe {
        let (found, _) = max_exponents::<L, MR, false>(p, q, 0..L);
        largest[0].cast::<[__m512i; MR]>().write(found);
        begin::<OUT, false>(&Step { c: aside, ..*p }, 0, largest[0], q, work);
    }
    // Results before the first piece go aside, all others where they belong.
    let mut carried = Carried { start: starts, sums: [_mm512_setzero_si512(); VECTORS_OF_PIECE] };
    let first = if per == 1 { c } else { p.c };
    for (done, put, more, more_steps, ends) in [(0, aside, 0, 0, 0), (1, first, of_step - 2, steps - 1, ends_first)] {
        let at = order.at::<L>(done, largest, put, work);
        // SAFETY: `at` and `next` lead to pieces of steps that are there, `put` to states or `aside`; as many pieces
        // are asked for as there are, of row groups that follow one another. What `carried` has was begun by the piece
        // before or by `begin`, and `work` has its constants by `set`, and those of unit steps.
        unsafe {
            (*work).next = order.next::<L>(0);
            ((*work).more, (*work).steps) = (more as u32, more_steps as u32);
            (*work).unit_step.first_ends = ends;
            call(at, &mut carried);
        }
    }
    // The last piece, of a last sum.
    let Pending { group, piece, .. } = order.piece(of_step - 1);
    debug_assert!(piece == PIECES - 1);
    let to = c.wrapping_add((group * MR + MR / 2) * NR + NR / 2);
    // SAFETY: nobody writes there meanwhile.
    let from = unsafe { &(*work).starts[1] };
    each_row!([0, 1, 2, 3], R => each_row!([0, 1], V => {
        let (unit, at) = (VECTORS * R + V, to.wrapping_add(R * NR + 16 * V));
        let d = finish::<OUT, false>(_mm512_add_epi32(carried.sums[unit], from.rests[unit]), from.tops[unit], q);
        // SAFETY: one of c's states, by 4 rows of two vectors: the lower rows and the last columns of a row group.
        unsafe {
            let d = _mm512_add_ps(d, _mm512_load_ps(at));
            _mm512_store_ps(at, if OUT == out::F16_RNE { narrow_widen(d) } else { d });
        }
    }));
}
