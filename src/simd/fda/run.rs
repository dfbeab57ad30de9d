//! All steps of a tile: the fast kernel, the wide one where it must, rule (S) where operands are special.

#![allow(clippy::needless_range_loop, reason = "rows and columns index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

mod states;

use self::states::{add, all_nan, call_back};
use super::hard::Decoded;
use super::micro::Micro;
use super::scratch::Scratch;
use super::special::{Lines, Verdict, is_special};
use super::state::{MC, Tile, copy_in, copy_out};
use super::step::{Consts, LEAST_F16, Step};
use super::{Fda, GROUPS, MR, NR, Packed, RISK, SPECIAL, Set, TINY, align, out};
use crate::gemm::kernel::{Exact, Panel};
use crate::simd::processor::two_multipliers;
use core::cell::RefCell;
use core::ops::Range;

/// Everything a tile needs besides its panels, kept by each thread.
#[derive(Debug)]
struct Work {
    tile: Tile,
    /// States that are Inf or NaN, for which 0 stands in the tile; 0 elsewhere.
    parked: Tile,
    /// c of interleaved units.
    c: Tile,
    scratch: Scratch,
    lines: Lines,
    decoded: Decoded,
    /// Pieces of this tile and those before for which integer dot products were in vain, less as many as cost what they
    /// gain.
    balance: i32,
}

/// What pieces that integer dot products leave to others may cost, in such pieces: a row group has 32 at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct InVain {
    /// How many of a row group's cost what is gained.
    worth: i32,
    /// How many more let a tile do without.
    most: i32,
}

impl InVain {
    /// Two multipliers do in half of the time what integers might have saved them.
    pub(super) fn on(set: Set) -> Self {
        match set {
            Set::Avx512(proof) if two_multipliers(proof) => Self { worth: 3, most: 32 },
            _ => Self { worth: 9, most: 96 },
        }
    }
}

/// How often pieces of a tile may be late before its steps go one by one: less often where many are, an eighth of all.
const PATIENCE: u32 = 8;

thread_local! {
    static WORK: RefCell<Box<Work>> = RefCell::new(Box::new(Work {
        tile: Tile([0.0; MC * NR]),
        parked: Tile([0.0; MC * NR]),
        c: Tile([0.0; MC * NR]),
        scratch: Scratch::default(),
        lines: Lines::default(),
        decoded: Decoded::default(),
        balance: 0,
    }));
}

/// A block of states on its way through the steps.
struct TileRun<'a, M> {
    micro: M,
    fda: &'a Fda,
    panels: [&'a Panel; 2],
    a: &'a Packed,
    b: &'a Packed,
    /// The first row group, and the column group.
    at: [usize; 2],
    /// Rows and columns that matter.
    size: [usize; 2],
    q: Consts,
    fast: bool,
    /// The f32 that stands for NaN.
    nan: f32,
    work: &'a mut Work,
    any_parked: bool,
    /// States out of the fast kernel's range, bit `4 row + vector`.
    bad: [u32; GROUPS],
    /// Pieces whose states are all parked: only rule (S) changes them.
    done: [u32; GROUPS],
    /// Pieces that take part, where some make up for steps that they lack.
    late: Option<[u32; GROUPS]>,
    /// How often pieces have been late.
    lates: u32,
}

impl Fda {
    fn consts(&self, a: &Packed, b: &Packed) -> (Consts, bool) {
        let fixed = self.fixed.is_some() && !a.integers.are_few() && !b.integers.are_few();
        let (q, fast) = self.consts_of(a.top + b.top, fixed);
        // Where values are f32, those below its normal numbers are packed as zeros: their products must lie below
        // `2^(e_max - F)`. They are below `2^(top - 125)`, of the other operand's top, and e_max is at least both tops
        // less 31, or the wide kernel has the step. The other top is then 120 at most, for together they are up to 50.
        // (Half of that, where they are not truncated.)
        let lowest = (self.frac_bits as i32 - 94).max(-70) + i32::from(self.align != align::TOWARD_ZERO);
        let all_count = !self.all_count() || self.none_vanishes([a.top, b.top]);
        (q, fast && (!self.aligned || a.top.min(b.top) >= lowest) && all_count)
    }

    /// What does not change over a product whose exponents reach up to `top`, and whether the fast kernel takes it.
    pub(super) fn consts_of(&self, top: i32, fixed: bool) -> (Consts, bool) {
        // The lowest product's f32 exponent field, and what it must not be below for the floor not to matter.
        let lowest = (self.a.emin + self.b.emin).max(top - 62) + 127;
        let ground = match self.narrow {
            true => 70,
            false if self.aligned && self.frac_bits > 25 => 45,
            false => 30,
        };
        let [least_c, least_d] = self.flush.least();
        let of_zero_c = if self.zero_c && self.out == out::F16_RNE { LEAST_F16 } else { 0 };
        let q = Consts {
            frac_bits: self.frac_bits as i32,
            frac_float: self.frac_bits as f32,
            block: self.block,
            bias_sub: (127 - top).clamp(0, 255) as u8,
            keep: self.keep,
            e_zero: self.e_zero,
            align: self.align,
            least_c,
            least_d,
            zero_c: if self.zero_c { !0 } else { 0 },
            narrow: self.narrow,
            aligned: self.aligned,
            floor_field: ((self.e_zero + 127).max(ground) as u8).max(of_zero_c),
            tiny: 0,
            fixed,
            floors: self.round_down.as_ref().map(|r| r.floors).unwrap_or_default(),
        };
        // A state that cancelled may be so small that beside zeros, at the ground, it is out of reach: it must not be.
        let reach = self.round_down.as_ref().and_then(|r| r.sums.reach);
        let reached = reach.is_none_or(|reach| lowest >= ground + self.frac_bits as i32 - reach);
        (q, self.has_fast() && (-34..=50).contains(&top) && lowest >= ground && reached)
    }

    /// Runs unit steps of the panels on a tile's states.
    pub(super) fn run_on<M: Micro>(
        &self,
        micro: M,
        [a, b]: [&Panel; 2],
        steps: Range<usize>,
        state: &mut [u32],
        exact: Exact<'_>,
    ) {
        let per = self.per_step();
        let fdas = steps.start * per..steps.end * per;
        let subnormal = self.subnormal_c(a, b, &steps, state, exact);
        WORK.with_borrow_mut(|work| {
            // Columns stay in a near cache until all rows have met them.
            for column in (0..b.lines).step_by(NR) {
                for row in (0..a.lines).step_by(MC) {
                    let size = [MC.min(a.lines - row), NR.min(b.lines - column)];
                    let at = [row / MR, column / NR];
                    let state = &mut state[row * b.lines + column..];
                    // SAFETY: the panels are this kernel's.
                    unsafe { self.part(micro, [a, b], at, size, fdas.clone(), state, work) }
                }
            }
        });
        for (at, d) in subnormal {
            state[at] = d;
        }
    }

    /// Where c is f16 and d is not, a subnormal c counts with f16's lowest exponent: the reference computes those.
    fn subnormal_c(
        &self,
        a: &Panel,
        b: &Panel,
        steps: &Range<usize>,
        state: &[u32],
        exact: Exact<'_>,
    ) -> Vec<(usize, u32)> {
        if self.unit.c.fraction_bits == self.unit.d.fraction_bits {
            return Vec::new();
        }
        let small = |c: u32| c & 0x7C00 == 0 && c & 0x3FF != 0;
        let places = (0..a.lines * b.lines).filter(|&at| small(state[at]));
        let step = |at: usize, c: u64, s: usize| exact(at / b.lines, at % b.lines, s, c);
        places.map(|at| (at, steps.clone().fold(u64::from(state[at]), |c, s| step(at, c, s)) as u32)).collect()
    }

    #[allow(clippy::too_many_arguments, reason = "one caller")]
    unsafe fn part<M: Micro>(
        &self,
        micro: M,
        panels: [&Panel; 2],
        at: [usize; 2],
        size: [usize; 2],
        fdas: Range<usize>,
        state: &mut [u32],
        work: &mut Work,
    ) {
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let (q, fast) = self.consts(a, b);
        let (ld, f16) = (panels[1].lines, self.out == out::F16_RNE);
        let c_is_f16 = self.unit.c.fraction_bits == 10;
        micro.vectorise(
            #[inline(always)]
            || copy_in(state, ld, size, c_is_f16, &mut work.tile),
        );
        work.scratch.key = None;
        work.lines.forget();
        work.decoded.forget();
        let nan = f32::from_bits(crate::format::F32.nan_code(self.nan).unwrap_or_default() as u32);
        let mut run = TileRun {
            micro,
            fda: self,
            panels,
            a,
            b,
            at,
            size,
            q,
            fast,
            nan,
            work,
            any_parked: false,
            bad: [0; GROUPS],
            done: [0; GROUPS],
            late: None,
            lates: 0,
        };
        // SAFETY: the panels were packed by this kernel.
        unsafe {
            if self.c_last {
                run.unit_steps(f16, fdas);
            } else {
                run.settle_all();
                run.dispatch(fdas);
            }
        }
        let nan = self.unit.d.nan_code(self.nan).unwrap_or_default() as u32;
        let tile = &work.tile;
        micro.vectorise(
            #[inline(always)]
            || copy_out(state, ld, size, f16.then_some(nan), tile),
        );
    }
}

impl<M: Micro> TileRun<'_, M> {
    /// `steps` for the output at hand.
    ///
    /// # Safety
    /// The panels were packed by this kernel.
    unsafe fn dispatch(&mut self, fdas: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.fda.out {
                out::F32_RZ => self.steps::<{ out::F32_RZ }>(fdas),
                out::F32_RNE => self.steps::<{ out::F32_RNE }>(fdas),
                out::F32_RD => self.steps::<{ out::F32_RD }>(fdas),
                out::F32_RU => self.steps::<{ out::F32_RU }>(fdas),
                out::ROUND_DOWN => self.steps::<{ out::ROUND_DOWN }>(fdas),
                _ => self.steps::<{ out::F16_RNE }>(fdas),
            }
        }
    }

    /// The chain of FDAs.
    ///
    /// # Safety
    /// As `dispatch`.
    unsafe fn steps<const OUT: u8>(&mut self, fdas: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { self.walk::<OUT>(fdas) }
        if self.any_parked {
            self.any_parked = false;
            let (live, work) = (self.size[0].div_ceil(MR) * MR * NR, &mut *self.work);
            self.micro.vectorise(
                #[inline(always)]
                || call_back(&mut work.tile.0[..live], &mut work.parked.0[..live]),
            );
        }
    }

    /// Steps on states whose special values are parked.
    ///
    /// # Safety
    /// As `dispatch`.
    unsafe fn walk<const OUT: u8>(&mut self, fdas: Range<usize>) {
        let groups = self.size[0].div_ceil(MR);
        let tiny = |flags: &[u8]| flags.iter().rev().fold(0, |m, flags| m << 1 | u8::from(flags & TINY != 0));
        // Steps up to `calm` have nothing to be settled beforehand, but for operands below the window in groups of a
        // mask.
        let (mut s, mut calm, mut below) = (fdas.start, fdas.start, 0);
        let stop = if self.fda.all_count() { !0 } else { !TINY };
        while s < fdas.end {
            let (flags, mut redo) = (self.flags(s, groups), [0; GROUPS]);
            for g in 0..groups {
                if flags[g] & SPECIAL != 0 && OUT != out::ROUND_DOWN {
                    // First, for these states are parked before finite operands can reach them.
                    self.special(s, g);
                }
                redo[g] = self.not_fast::<OUT>(s, g, flags[g]);
            }
            let (p, mut q, before) = (self.pointers(s), Consts { tiny: tiny(&flags), ..self.q }, redo);
            // SAFETY: the panels hold these steps for this tile.
            unsafe {
                if q.fixed {
                    for g in 0..groups {
                        self.fixed::<OUT>(&p.group(g, &q), &q.group(g), &mut redo[g]);
                    }
                } else {
                    // As many as no operand and no state has something to say about beforehand.
                    let mut steps = 1;
                    if self.lates < PATIENCE && (0..groups).all(|g| redo[g] & self.live(g) & !self.done[g] == 0) {
                        if calm <= s {
                            (calm, below) = (s, 0);
                        }
                        while calm < fdas.end {
                            let flags = self.flags(calm, groups);
                            if flags.iter().any(|flags| flags & stop != 0) {
                                break;
                            }
                            (calm, below) = (calm + 1, below | tiny(&flags));
                        }
                        steps = (calm - s).max(1);
                        q.tiny |= below;
                    }
                    let came = self.micro.steps_fast::<OUT>(&p, &q, &mut redo[..groups], steps);
                    if came.infinite {
                        self.settle_others(groups, &before);
                    }
                    let end = s + came.steps;
                    if came.behind > 0 {
                        let late = core::array::from_fn(|g| redo[g] & !before[g]);
                        self.catch_up::<OUT>(end - came.behind..end, late);
                        s = end;
                        continue;
                    }
                    s = end - 1;
                }
            }
            for g in 0..groups {
                let live = self.live(g) & !self.done[g];
                if OUT == out::F16_RNE {
                    redo[g] &= !self.overflowed(g, redo[g] & live & !before[g]);
                }
                if redo[g] & live != 0 {
                    // SAFETY: the caller's promise.
                    unsafe { self.redo::<OUT>(s, g, redo[g] & live, &q) }
                }
            }
            s += 1;
        }
    }

    /// Steps that only some pieces lack, one by one.
    ///
    /// # Safety
    /// As `dispatch`.
    unsafe fn catch_up<const OUT: u8>(&mut self, fdas: Range<usize>, late: [u32; GROUPS]) {
        if late == [0; GROUPS] {
            return;
        }
        let (mut lacking, mut all) = (0, 0);
        for g in 0..self.size[0].div_ceil(MR) {
            lacking += (late[g] & self.live(g)).count_ones();
            all += self.live(g).count_ones();
        }
        let many = 8 * lacking > all;
        let lates = if many { PATIENCE } else { self.lates + 1 };
        (self.late, self.lates) = (Some(late), PATIENCE);
        // SAFETY: the caller's promise.
        unsafe { self.walk::<OUT>(fdas) }
        (self.late, self.lates) = (None, lates);
    }

    /// What there is among a step's operands, row group by row group.
    #[inline]
    fn flags(&self, s: usize, groups: usize) -> [u8; GROUPS] {
        // Steps of more products look at the sums themselves instead of the risk.
        let matters = if self.fda.block <= 16 { !0 } else { !RISK };
        let b_any = self.b.any[self.b.at_b(self.at[1], s) * 4..][..4].iter().fold(0, |x, y| x | y);
        let (mut flags, a_any) = ([0; GROUPS], &self.a.any[self.a.at_a(self.at[0], s)..]);
        flags.iter_mut().zip(&a_any[..groups]).for_each(|(to, any)| *to = (any | b_any) & matters);
        flags
    }

    /// Unit steps whose c comes last: FDAs from +0, then an IEEE addition. (Where c comes late, each FDA is such a
    /// step.)
    ///
    /// # Safety
    /// As `dispatch`.
    unsafe fn unit_steps(&mut self, f16: bool, fdas: Range<usize>) {
        if fdas.is_empty() {
            return;
        }
        let live = self.size[0].div_ceil(MR) * MR * NR;
        let per = self.fda.c_every / self.fda.block;
        self.work.c.0[..live].copy_from_slice(&self.work.tile.0[..live]);
        self.work.tile.0[..live].fill(0.0);
        let (mut still, mut s, mut units) = ([0; GROUPS], fdas.start, 0);
        while s < fdas.end {
            // SAFETY: the caller's promise.
            let calm = unsafe { self.calm_unit_steps(s..fdas.end) };
            if calm > 0 {
                s += calm;
                self.work.tile.0[..live].fill(0.0);
                continue;
            }
            // Zeros are settled. What is added to NaNs does not matter.
            (self.bad, self.done) = ([0; GROUPS], still);
            // SAFETY: the caller's promise.
            unsafe { self.dispatch(s..s + per) }
            let nan = self.nan;
            let (c, t) = (&mut self.work.c.0[..live], &mut self.work.tile.0[..live]);
            let any_nan = self.micro.vectorise(
                #[inline(always)]
                || add(c, t, nan, f16),
            );
            // A look at all of them takes time.
            if any_nan && units % 8 == 7 {
                let c = &self.work.c.0[..live];
                still = self.micro.vectorise(
                    #[inline(always)]
                    || all_nan(c),
                );
            }
            (s, units) = (s + per, units + 1);
        }
        let (c, nan) = (&mut self.work.c.0[..live], self.nan);
        // Of a c that came as another one, or of infinities.
        c.iter_mut().filter(|c| c.is_nan()).for_each(|c| *c = nan);
        self.work.tile.0[..live].copy_from_slice(&self.work.c.0[..live]);
    }

    /// Unit steps from the first of these on in which there is nothing to look at, as one stream where there is one.
    /// How many steps.
    ///
    /// # Safety
    /// As `dispatch`.
    unsafe fn calm_unit_steps(&mut self, fdas: Range<usize>) -> usize {
        if !self.fda.streams_unit_steps || !self.fast || self.q.fixed || self.size[1] <= NR - 16 {
            return 0;
        }
        let (groups, per) = (self.size[0].div_ceil(MR), self.fda.c_every / self.fda.block);
        let calm =
            fdas.clone().take_while(|s| self.flags(*s, groups).iter().all(|flags| *flags == 0)).count() / per * per;
        if calm == 0 {
            return 0;
        }
        let (p, work) = (self.pointers(fdas.start), &raw mut *self.work);
        // SAFETY: places in `work`, which nobody else refers to before the calls are over.
        let [t, c] = unsafe { [&raw mut (*work).tile, &raw mut (*work).c].map(<*mut Tile>::cast::<f32>) };
        let (p, q) = (Step { c: t, ..p }, Consts { tiny: 0, ..self.q });
        // SAFETY: the caller's panels and states of `groups` row groups, whose steps have no flags.
        unsafe {
            match self.fda.out {
                out::F16_RNE => self.micro.unit_steps_fast::<{ out::F16_RNE }>(&p, &q, groups, calm, per, c),
                _ => self.micro.unit_steps_fast::<{ out::F32_RZ }>(&p, &q, groups, calm, per, c),
            }
        }
        calm
    }

    /// Step `s` of the first row group.
    #[inline(always)]
    fn pointers(&mut self, s: usize) -> Step {
        let (l, narrow) = (self.fda.block, self.fda.in_f32());
        let (ia, ib) = (self.a.at_a(self.at[0], s) * MR, self.b.at_b(self.at[1], s) * NR);
        let scratch = &self.work.scratch;
        // Sets without counts of negative products pack none.
        let signs = |p: &Packed, at: usize| p.signs.view::<u32>().get(at..).map_or(core::ptr::null(), <[u32]>::as_ptr);
        Step {
            a_val: if narrow { scratch.a_values.as_ptr() } else { self.a.values.view::<f64>()[ia * l..].as_ptr() },
            a_val32: if narrow { self.a.values.view::<f32>()[ia * l..].as_ptr() } else { core::ptr::null() },
            b_val32: if narrow { self.b.values.view::<f32>()[ib * l..].as_ptr() } else { core::ptr::null() },
            a_exp: self.a.exponents.view::<u32>()[ia * l..].as_ptr(),
            a_wide: scratch.a.as_ptr(),
            a_sign: signs(self.a, ia),
            a_fixed: self.a.integers.lines(ia, l, 4),
            b_fixed: self.b.integers.lines(ib, l, 1),
            b_val: if narrow { scratch.b_values.as_ptr() } else { self.b.values.view::<f64>()[ib * l..].as_ptr() },
            b_exp: self.b.exponents.view::<u8>()[ib * l..].as_ptr(),
            b_wide: scratch.b.as_ptr(),
            b_sign: signs(self.b, ib),
            c: self.work.tile.0.as_mut_ptr(),
            vectors: self.size[1].div_ceil(16),
            apart: [0, 16 * l],
        }
    }

    /// The pieces of a group that the fast kernel is not to touch in this step, of which `flags` say what is there.
    #[inline]
    fn not_fast<const OUT: u8>(&self, s: usize, g: usize, flags: u8) -> u32 {
        let live = self.live(g) & !self.done[g];
        if live == 0 || !self.fast {
            return !0;
        }
        let mut redo = self.bad[g] | self.done[g] | self.late.map_or(0, |late| !late[g]);
        if flags & RISK != 0 {
            redo |= self.flagged(s, g, RISK) & live;
        }
        if flags & TINY != 0 && self.fda.all_count() {
            redo |= (self.flagged(s, g, TINY) | self.flagged_columns(s, TINY)) & live;
        }
        if flags & SPECIAL != 0 && OUT == out::ROUND_DOWN {
            redo |= (self.flagged(s, g, SPECIAL) | self.flagged_columns(s, SPECIAL)) & live;
        }
        if redo & live == live { !0 } else { redo }
    }

    /// Integer dot products for one group, until too many have been done again (`InVain`).
    ///
    /// # Safety
    /// As `dispatch`; `p` is this step of this group.
    #[inline]
    unsafe fn fixed<const OUT: u8>(&mut self, p: &Step, q: &Consts, redo: &mut u32) {
        if *redo == !0 {
            return;
        }
        // SAFETY: the caller's promise.
        let (left, again) = unsafe { self.micro.step_fixed::<OUT>(p, q, *redo) };
        *redo = left;
        let InVain { worth, most } = self.fda.in_vain;
        let balance = &mut self.work.balance;
        *balance = (*balance).max(-most) + again as i32 - worth;
        if *balance > most {
            self.q.fixed = false;
            // The next tile tries again.
            *balance = most - most / 4;
        }
    }

    /// Pieces of rows with a flag.
    #[cold]
    fn flagged(&self, s: usize, g: usize, flag: u8) -> u32 {
        let flags = &self.a.flags[self.a.at_a(self.at[0] + g, s) * MR..][..MR];
        flags.iter().enumerate().fold(0, |m, (r, flags)| if flags & flag != 0 { m | 0xF << (4 * r) } else { m })
    }

    /// Pieces of columns with a flag.
    #[cold]
    fn flagged_columns(&self, s: usize, flag: u8) -> u32 {
        let any = &self.b.any[self.b.at_b(self.at[1], s) * 4..][..4];
        any.iter().enumerate().fold(0, |m, (t, any)| if any & flag != 0 { m | 0x1111_1111 << t } else { m })
    }

    /// The wide kernel for the pieces of the mask.
    ///
    /// # Safety
    /// As `dispatch`.
    #[inline(never)]
    unsafe fn redo<const OUT: u8>(&mut self, s: usize, g: usize, redo: u32, q: &Consts) {
        let [mut far, mut special] = [redo; 2];
        if OUT == out::ROUND_DOWN {
            self.redo_round_down(s, g, redo);
        } else {
            self.fill_scratch(s, g);
            // Only now, for that has written what these point to.
            let p = self.pointers(s).group(g, q);
            // SAFETY: the panels hold this step for this tile.
            [far, special] = unsafe { self.micro.step_wide::<OUT>(&p, &q.group(g), redo) };
        }
        self.bad[g] = self.bad[g] & !redo | far;
        (0..32).filter(|piece| special >> piece & 1 == 1).for_each(|piece| _ = self.settle(g, piece));
    }

    /// What the wide kernel reads of a step: one function for all kinds of results.
    #[inline(never)]
    fn fill_scratch(&mut self, s: usize, g: usize) {
        let (micro, scratch, fda, panels) = (self.micro, &mut self.work.scratch, self.fda, self.panels);
        let at = [self.at[0] + g, self.at[1]];
        micro.vectorise(
            #[inline(always)]
            || scratch.fill(micro, fda, panels, at, s),
        );
    }

    /// Round-down sums for the pieces of the mask.
    #[inline(never)]
    fn redo_round_down(&mut self, s: usize, g: usize, redo: u32) {
        let Some(hard) = &self.fda.round_down else { return };
        let (at, here) = ([self.at[0] + g, self.at[1], s], g * MR * NR..(g + 1) * MR * NR);
        let states = [&mut self.work.tile.0[here.clone()], &mut self.work.parked.0[here]];
        let (fda, panels, decoded) = (self.fda, self.panels, &mut self.work.decoded);
        self.micro.vectorise(
            #[inline(always)]
            || hard.redo::<M>(fda, panels, at, redo, states, decoded),
        );
    }

    /// Rule (S) where a row or a column is special in this step.
    #[cold]
    fn special(&mut self, s: usize, g: usize) {
        let (row, column) = ((self.at[0] + g) * MR, self.at[1] * NR);
        self.fda.read_lines(self.panels, [row, column], s, &mut self.work.lines);
        let rows = &self.a.flags[self.a.at_a(self.at[0] + g, s) * MR..][..MR];
        let columns = &self.b.flags[self.b.at_b(self.at[1], s) * NR..][..NR];
        for r in 0..MR.min(self.size[0] - g * MR) {
            for j in 0..self.size[1] {
                let at = (g * MR + r) * NR + j;
                if !is_special(rows[r] | columns[j]) || self.work.parked.0[at].is_nan() {
                    continue;
                }
                let c = self.work.parked.0[at];
                match self.work.lines.verdict(r, j, c) {
                    Some(Verdict::Nan) => self.park(at, self.nan),
                    Some(Verdict::Infinite { negative }) => {
                        self.park(at, if negative { f32::NEG_INFINITY } else { f32::INFINITY });
                    }
                    None => {}
                }
            }
        }
    }
}
