//! All steps of a tile: the fast kernel, the wide one where it must, rule (S) where operands are special.

#![allow(clippy::needless_range_loop, reason = "rows and columns index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

use super::avx512::{Consts, EXP32, Step, step_fast};
use super::hard::Decoded;
use super::round_down::step_round_down;
use super::scratch::Scratch;
use super::special::{Lines, Verdict, is_special};
use super::state::{MC, Tile, copy_in, copy_out, round_f16};
use super::wide::step_wide;
use super::{Fda, GROUPS, MR, NR, Packed, RISK, SPECIAL, TINY, out};
use crate::gemm::kernel::{Exact, Panel};
use core::arch::x86_64::*;
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
}

thread_local! {
    static WORK: RefCell<Box<Work>> = RefCell::new(Box::new(Work {
        tile: Tile([0.0; MC * NR]),
        parked: Tile([0.0; MC * NR]),
        c: Tile([0.0; MC * NR]),
        scratch: Scratch::default(),
        lines: Lines::default(),
        decoded: Decoded::default(),
    }));
}

/// A block of states on its way through the steps.
struct TileRun<'a> {
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
}

impl Fda {
    fn consts(&self, a: &Packed, b: &Packed) -> (Consts, bool) {
        let top = a.top + b.top;
        // The lowest product's f32 exponent field, and what it must not be below for the floor not to matter.
        let lowest = (self.a.emin + self.b.emin).max(top - 62) + 127;
        let ground = if self.narrow { 70 } else { 30 };
        let q = Consts {
            frac_bits: self.frac_bits as i32,
            block: self.block,
            bias_sub: (127 - top).clamp(0, 255) as u8,
            keep: self.keep,
            e_zero: self.e_zero,
            zero_c: if self.zero_c { !0 } else { 0 },
            narrow: self.narrow,
            floor_field: (self.e_zero + 127).max(ground) as u8,
            tiny: false,
            floors: self.round_down.as_ref().map(|r| r.floors).unwrap_or_default(),
        };
        (q, self.frac_bits <= 25 && (-34..=50).contains(&top) && lowest >= ground)
    }

    /// Runs unit steps of the panels on a tile's states.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    pub(super) fn run_avx512(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: &mut [u32], exact: Exact<'_>) {
        let per = self.per_step();
        let fdas = steps.start * per..steps.end * per;
        let subnormal = self.subnormal_c(a, b, &steps, state, exact);
        WORK.with_borrow_mut(|work| {
            for row in (0..a.lines).step_by(MC) {
                for column in (0..b.lines).step_by(NR) {
                    let size = [MC.min(a.lines - row), NR.min(b.lines - column)];
                    let at = [row / MR, column / NR];
                    // SAFETY: the instructions are there, as the caller promised, and the panels are this kernel's.
                    unsafe { self.part([a, b], at, size, fdas.clone(), &mut state[row * b.lines + column..], work) }
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

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn part(
        &self,
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
        copy_in(state, ld, size, self.unit.c.fraction_bits == 10, &mut work.tile);
        work.scratch.key = None;
        work.lines.forget();
        work.decoded.forget();
        let nan = f32::from_bits(crate::format::F32.nan_code(self.nan).unwrap_or_default() as u32);
        let mut run =
            TileRun { fda: self, panels, a, b, at, size, q, fast, nan, work, any_parked: false, bad: [0; GROUPS] };
        // SAFETY: the panels were packed by this kernel.
        unsafe {
            if self.c_last {
                run.units(f16, fdas);
            } else {
                run.dispatch(fdas);
            }
        }
        let nan = self.unit.d.nan_code(self.nan).unwrap_or_default() as u32;
        copy_out(state, ld, size, f16.then_some(nan), &work.tile);
    }
}

impl TileRun<'_> {
    /// `steps` for the output at hand.
    ///
    /// # Safety
    /// The panels were packed by this kernel.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn dispatch(&mut self, fdas: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.fda.out {
                out::F32_RZ => self.steps::<{ out::F32_RZ }>(fdas),
                out::F32_RNE => self.steps::<{ out::F32_RNE }>(fdas),
                out::ROUND_DOWN => self.steps::<{ out::ROUND_DOWN }>(fdas),
                _ => self.steps::<{ out::F16_RNE }>(fdas),
            }
        }
    }

    /// The chain of FDAs.
    ///
    /// # Safety
    /// As `dispatch`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn steps<const OUT: u8>(&mut self, fdas: Range<usize>) {
        if fdas.is_empty() {
            return;
        }
        let groups = self.size[0].div_ceil(MR);
        for x in &mut self.work.tile.0[..groups * MR * NR] {
            // Minus zero is plus zero.
            *x += 0.0;
        }
        for g in 0..groups {
            self.bad[g] = 0;
            (0..32).for_each(|piece| self.settle(g, piece));
        }
        for s in fdas {
            let b_any = self.b.any[self.b.at_b(self.at[1], s) * 4..][..4].iter().fold(0, |x, y| x | y);
            let mut p = self.pointers(s);
            for g in 0..groups {
                let any = self.a.any[self.a.at_a(self.at[0] + g, s)] | b_any;
                if any & SPECIAL != 0 && OUT != out::ROUND_DOWN {
                    // First, for these states are parked before finite operands can reach them.
                    self.special(s, g);
                }
                p.c = self.work.tile.0[g * MR * NR..].as_mut_ptr();
                // SAFETY: the caller's promise.
                unsafe { self.step::<OUT>(s, g, any, &p) }
                self.next_group(&mut p);
            }
        }
        if self.any_parked {
            self.any_parked = false;
            for (x, parked) in self.work.tile.0.iter_mut().zip(&mut self.work.parked.0) {
                if *parked != 0.0 {
                    *x = core::mem::take(parked);
                }
            }
        }
    }

    /// Unit steps whose c comes last: FDAs from +0, then an IEEE addition.
    ///
    /// # Safety
    /// As `dispatch`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn units(&mut self, f16: bool, fdas: Range<usize>) {
        let live = self.size[0].div_ceil(MR) * MR * NR;
        let per = self.fda.per_step();
        self.work.c.0[..live].copy_from_slice(&self.work.tile.0[..live]);
        for s in fdas.step_by(per) {
            self.work.tile.0[..live].fill(0.0);
            // SAFETY: the caller's promise.
            unsafe { self.dispatch(s..s + per) }
            let nan = self.nan;
            for (c, t) in self.work.c.0[..live].iter_mut().zip(&self.work.tile.0[..live]) {
                let sum = *c + *t;
                *c = if sum.is_nan() { nan } else { sum };
            }
            if f16 {
                self.work.c.0[..live].iter_mut().for_each(|c| *c = round_f16(*c));
            }
        }
        self.work.tile.0[..live].copy_from_slice(&self.work.c.0[..live]);
    }

    const fn piece(g: usize, piece: u32) -> usize {
        (g * MR + (piece / 4) as usize) * NR + (piece % 4) as usize * 16
    }

    /// Parks what is not finite in a piece, 0 standing for states that finite operands can no longer change, and notes
    /// whether the fast kernel takes the rest. What is parked already stands: only rule (S) can change it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn settle(&mut self, g: usize, piece: u32) {
        let (at, exponent) = (Self::piece(g, piece), _mm512_set1_epi32(EXP32));
        let to = &mut self.work.tile.0[at..at + 16];
        // SAFETY: 16 aligned floats.
        let mut x = unsafe { _mm512_load_ps(to.as_ptr()) };
        let special = _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(x), exponent), exponent);
        if special != 0 {
            let parked = &mut self.work.parked.0[at..at + 16];
            // SAFETY: as above.
            let before = unsafe { _mm512_load_ps(parked.as_ptr()) };
            let new = special & _mm512_testn_epi32_mask(_mm512_castps_si512(before), _mm512_castps_si512(before));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
            let canonical = _mm512_mask_mov_ps(x, nan, _mm512_set1_ps(self.nan));
            x = _mm512_maskz_mov_ps(!special, x);
            // SAFETY: as above.
            unsafe {
                _mm512_mask_store_ps(parked.as_mut_ptr(), new, canonical);
                _mm512_store_ps(to.as_mut_ptr(), x);
            }
            self.any_parked = true;
        }
        // From here on up a state is a multiple of the coarsest step the exponent floor can cause.
        let low = if self.q.narrow { 83 } else { 31 };
        let above = _mm512_sub_epi32(_mm512_and_si512(_mm512_castps_si512(x), exponent), _mm512_set1_epi32(low << 23));
        let ordinary = _mm512_cmple_epu32_mask(above, _mm512_set1_epi32((180 - low) << 23));
        let zero = _mm512_testn_epi32_mask(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX));
        self.bad[g] = self.bad[g] & !(1 << piece) | u32::from(ordinary | zero != !0) << piece;
    }

    /// Lets 0 stand for a state that finite operands can no longer change.
    fn park(&mut self, at: usize, special: f32) {
        self.work.tile.0[at] = 0.0;
        self.work.parked.0[at] = special;
        self.any_parked = true;
    }

    /// Step `s` of the first row group.
    #[inline(always)]
    fn pointers(&mut self, s: usize) -> Step {
        let (l, narrow) = (self.fda.block, self.fda.narrow);
        let (ia, ib) = (self.a.at_a(self.at[0], s) * MR, self.b.at_b(self.at[1], s) * NR);
        let scratch = &self.work.scratch;
        Step {
            a_val: if narrow { scratch.a_values.as_ptr() } else { self.a.values.view::<f64>()[ia * l..].as_ptr() },
            a_val32: if narrow { self.a.values.view::<f32>()[ia * l..].as_ptr() } else { core::ptr::null() },
            b_val32: if narrow { self.b.values.view::<f32>()[ib * l..].as_ptr() } else { core::ptr::null() },
            a_exp: self.a.exponents.view::<u32>()[ia * l..].as_ptr(),
            a_wide: scratch.a.as_ptr(),
            a_sign: self.a.signs.view::<u32>()[ia..].as_ptr(),
            b_val: if narrow { scratch.b_values.as_ptr() } else { self.b.values.view::<f64>()[ib * l..].as_ptr() },
            b_exp: self.b.exponents.view::<u8>()[ib * l..].as_ptr(),
            b_wide: scratch.b.as_ptr(),
            b_sign: self.b.signs.view::<u32>()[ib..].as_ptr(),
            c: self.work.tile.0.as_mut_ptr(),
            vectors: self.size[1].div_ceil(16),
        }
    }

    /// The same step of the next row group, which follows in A's panels: a tile's groups lie together.
    #[inline(always)]
    fn next_group(&self, p: &mut Step) {
        let n = MR * self.fda.block;
        if self.fda.narrow {
            p.a_val32 = p.a_val32.wrapping_add(n);
        } else {
            p.a_val = p.a_val.wrapping_add(n);
        }
        p.a_exp = p.a_exp.wrapping_add(n);
        p.a_sign = p.a_sign.wrapping_add(MR);
    }

    /// # Safety
    /// As `dispatch`; `p` is this step of this group, and `any` the union of its flags.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn step<const OUT: u8>(&mut self, s: usize, g: usize, any: u8, p: &Step) {
        let l = self.fda.block;
        let live = [0, 0x1111_1111, 0x3333_3333, 0x7777_7777, !0][p.vectors];
        let mut redo = if self.fast { self.bad[g] } else { live };
        if any & RISK != 0 && l <= 16 {
            // Steps of more products look at the sums themselves instead of the risk.
            redo |= self.flagged(s, g, RISK) & live;
        }
        if any & SPECIAL != 0 && OUT == out::ROUND_DOWN {
            redo |= (self.flagged(s, g, SPECIAL) | self.flagged_columns(s, SPECIAL)) & live;
        }
        let q = Consts { tiny: any & TINY != 0, ..self.q };
        if redo != live {
            // SAFETY: the panels hold this step for this tile.
            redo = unsafe {
                if OUT == out::ROUND_DOWN { step_round_down(p, &q, redo) } else { step_fast::<OUT>(p, &q, redo) }
            };
        }
        if redo & live != 0 {
            // SAFETY: as above.
            unsafe { self.redo::<OUT>(s, g, redo & live, p, &q) }
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
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    #[inline(never)]
    unsafe fn redo<const OUT: u8>(&mut self, s: usize, g: usize, redo: u32, p: &Step, q: &Consts) {
        let l = self.fda.block;
        if let Some(hard) = &self.fda.round_down {
            let (at, here) = ([self.at[0] + g, self.at[1], s], g * MR * NR..(g + 1) * MR * NR);
            let states = [&mut self.work.tile.0[here.clone()], &mut self.work.parked.0[here]];
            hard.redo(self.fda, self.panels, at, redo, states, &mut self.work.decoded);
            return (0..32).filter(|piece| redo >> piece & 1 == 1).for_each(|piece| self.settle(g, piece));
        }
        self.work.scratch.fill(self.fda, self.panels, [self.at[0] + g, self.at[1]], s);
        for t in 0..4 {
            let rows = redo >> t & 0x1111_1111;
            // SAFETY: the panels hold this step for this tile.
            unsafe {
                if rows == 0x1111_1111 {
                    step_wide::<MR, OUT>(p, q, l, 0, t);
                } else {
                    (0..MR).filter(|r| rows >> (4 * r) & 1 == 1).for_each(|r| step_wide::<1, OUT>(p, q, l, r, t));
                }
            }
        }
        (0..32).filter(|piece| redo >> piece & 1 == 1).for_each(|piece| self.settle(g, piece));
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
