//! States between steps: which are ordinary, which are parked, what comes back.

use super::super::micro::{Micro, Settled};
use super::super::state::round_f16;
use super::super::{GROUPS, MR, NR};
use super::TileRun;

impl<M: Micro> TileRun<'_, M> {
    /// States as the steps want them.
    pub(super) fn settle_all(&mut self) {
        let (groups, low) = (self.size[0].div_ceil(MR), self.q.lowest());
        let states = &mut self.work.tile.0[..groups * MR * NR];
        let ordinary = self.micro.vectorise(
            #[inline(always)]
            || are_ordinary(states, low),
        );
        self.bad[..groups].fill(0);
        if ordinary {
            return;
        }
        for g in 0..groups {
            let live = self.live(g);
            (0..32).filter(|piece| live >> piece & 1 == 1).for_each(|piece| _ = self.settle(g, piece));
        }
    }

    /// Settles all pieces that take part but for some.
    #[inline(never)]
    pub(super) fn settle_others(&mut self, groups: usize, but: &[u32; GROUPS]) {
        for g in 0..groups {
            let pieces = self.live(g) & !self.done[g] & !but[g];
            (0..32).filter(|piece| pieces >> piece & 1 == 1).for_each(|piece| _ = self.settle(g, piece));
        }
    }

    /// The pieces of a group that take part and have columns that matter.
    #[inline]
    pub(super) fn live(&self, g: usize) -> u32 {
        let columns = [0, 0x1111_1111, 0x3333_3333, 0x7777_7777, !0][self.size[1].div_ceil(16)];
        self.late.map_or(columns, |late| late[g] & columns)
    }

    pub(super) const fn piece(g: usize, piece: u32) -> usize {
        (g * MR + (piece / 4) as usize) * NR + (piece % 4) as usize * 16
    }

    /// Parks what is not finite in a piece, 0 standing for states that finite operands can no longer change, and notes
    /// whether the fast kernel takes the rest. What is parked already stands: only rule (S) can change it. Returns
    /// whether something was not finite.
    #[inline]
    pub(super) fn settle(&mut self, g: usize, piece: u32) -> bool {
        let at = Self::piece(g, piece);
        let [x, parked] =
            [&mut self.work.tile, &mut self.work.parked].map(|states| &mut states.0.as_chunks_mut().0[at / 16]);
        let Settled { special, all, nan, ordinary } = self.micro.settle(x, parked, self.nan, self.q.lowest());
        self.any_parked |= special;
        // A product that overflows counts as an infinity where sums round down: there only NaN stays.
        let still = if self.fda.round_down.is_none() { all } else { nan };
        self.done[g] |= u32::from(still) << piece;
        self.bad[g] = self.bad[g] & !(1 << piece) | u32::from(!ordinary) << piece;
        special
    }

    /// Lets 0 stand for a state that finite operands can no longer change.
    pub(super) fn park(&mut self, at: usize, special: f32) {
        self.work.tile.0[at] = 0.0;
        self.work.parked.0[at] = special;
        self.any_parked = true;
    }

    /// The pieces of a mask that have infinite states, which are parked.
    #[inline]
    pub(super) fn overflowed(&mut self, g: usize, pieces: u32) -> u32 {
        (0..32).filter(|piece| pieces >> piece & 1 == 1 && self.settle(g, *piece)).fold(0, |m, piece| m | 1 << piece)
    }
}

/// Makes minus zeros plus zeros; whether all states are zeros or have exponent fields from `low` to 180.
#[inline(always)]
pub(super) fn are_ordinary(states: &mut [f32], low: u32) -> bool {
    let above = states.iter_mut().map(|x| {
        *x += 0.0;
        let field = x.to_bits() >> 23 & 0xFF;
        if *x == 0.0 { 0 } else { field.wrapping_sub(low) }
    });
    above.fold(0, u32::max) <= 180 - low
}

/// Puts back what was parked.
#[inline(always)]
pub(super) fn call_back(states: &mut [f32], parked: &mut [f32]) {
    for (x, parked) in states.iter_mut().zip(parked) {
        *x = if *parked != 0.0 { *parked } else { *x };
        *parked = 0.0;
    }
}

/// The pieces that hold nothing but NaNs.
#[inline(always)]
pub(super) fn all_nan(states: &[f32]) -> [u32; GROUPS] {
    let mut found = [0; GROUPS];
    for (piece, states) in states.as_chunks::<16>().0.iter().enumerate() {
        let all = states.iter().fold(true, |all, x| all & x.is_nan());
        found[piece / 32] |= u32::from(all) << (piece % 32);
    }
    found
}

/// Adds a unit step's sums to c as IEEE says, and leaves zeros for the next one. Whether there are NaNs now.
#[inline(always)]
pub(super) fn add(c: &mut [f32], sums: &mut [f32], nan: f32, f16: bool) -> bool {
    let mut any = false;
    for (c, t) in c.iter_mut().zip(sums) {
        let sum = *c + *t;
        *t = 0.0;
        any |= sum.is_nan();
        *c = if sum.is_nan() { nan } else { sum };
    }
    if f16 {
        c.iter_mut().for_each(|c| *c = round_f16(*c));
    }
    any
}
