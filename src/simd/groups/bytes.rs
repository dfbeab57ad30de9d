//! The kernel for elements that bytes hold: exact steps where nothing can be cut off, else general ones.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::Groups;
use super::aligned::Aligner;
use super::pack::{Elements, Packed, Scale};
use super::set::{Hard, Set, Vnni, Words};
use super::span::{Rule, Span, Steps};
use super::tile::{COLUMNS, Operands, ROWS, States, VECTORS};
use crate::format::Specials;
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::simd::Isa;
use crate::simd::values::State;
use crate::unit::Unit;
use crate::view::Rows;
use core::ops::Range;
use std::sync::Arc;

/// Groups of a step, at most.
pub(super) const GROUPS: usize = 16;

/// What does not depend on the set.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) body: Groups,
    pub(super) a: Elements,
    pub(super) b: Elements,
    pub(super) scales: Vec<Scale>,
    pub(super) scale_emin: i32,
    pub(super) rule: Rule,
    aligner: Aligner,
    nan: u32,
}

#[derive(Debug)]
struct BytesKernel<S> {
    set: S,
    bytes: Bytes,
}

/// The kernel, where elements are bytes, groups whole fours of them, and states f32 throughout.
pub(super) fn select(unit: &Unit, isa: Isa, body: &Groups, state: &State) -> Option<Arc<dyn Kernel>> {
    if let Some(set) = Vnni::new(isa) {
        return BytesKernel::select(set, unit, body, state);
    }
    BytesKernel::select(Words::new(isa)?, unit, body, state)
}

impl States {
    /// Takes the states of a tile, 0 where there are none. Minus zero is plus zero.
    #[inline(always)]
    fn load(&mut self, from: &[u32], [rows, columns]: [usize; 2], at: usize, ld: usize) {
        *self = Self([[0.0; COLUMNS]; ROWS]);
        for (r, to) in self.0.iter_mut().enumerate().take(rows) {
            let from = &from[at + r * ld..][..columns];
            to.iter_mut().zip(from).for_each(|(to, code)| *to = f32::from_bits(*code) + 0.0);
        }
    }

    /// Gives them back.
    #[inline(always)]
    fn store(&self, to: &mut [u32], [rows, columns]: [usize; 2], at: usize, ld: usize) {
        for (r, from) in self.0.iter().enumerate().take(rows) {
            let to = &mut to[at + r * ld..][..columns];
            to.iter_mut().zip(from).for_each(|(code, from)| *code = from.to_bits());
        }
    }

    /// Whether `n` steps from these rows' states cut nothing off.
    #[inline(always)]
    fn stay_exact(&self, rows: Range<usize>, steps: &Steps, n: usize) -> bool {
        let states = self.0[rows].as_flattened();
        // Magnitudes are in the order of their bits.
        let most = states.iter().fold(0, |most, x| (x.to_bits() & (u32::MAX >> 1)).max(most));
        let Some(quantum) = steps.quantum(n, f32::from_bits(most)) else { return false };
        if most == 0 {
            return true;
        }
        let power = |e: i32| f32::from_bits(((127 + e) as u32) << 23);
        let (down, up) = (power(quantum), power(-quantum));
        states.iter().fold(true, |all, x| all & ((x * up).trunc() * down == *x))
    }
}

impl<S: Set> BytesKernel<S> {
    fn select(set: S, unit: &Unit, body: &Groups, state: &State) -> Option<Arc<dyn Kernel>> {
        let rule = unit.scale?;
        let (a, b) = (Elements::new(&unit.a)?, Elements::new(&unit.b)?);
        let whole = body.group.is_multiple_of(4) && body.step.is_multiple_of(16) && body.per_step() <= GROUPS;
        let scales = rule.format.storage_bits <= 8 && rule.format.specials != Specials::Ieee;
        let ends = State::is_f32(&state.c) && State::is_f32(&state.d);
        let rounds = matches!(body.rounding, Rounding::TowardZero | Rounding::NearestEven);
        let holds = S::holds([a.most, b.most], body.group);
        // f64 holds a state and the terms of its step, from the truncation step up.
        if !whole || !scales || !ends || !rounds || !holds || !(0..=50).contains(&body.frac_bits) {
            return None;
        }
        let last = a.last + b.last;
        let most = body.step as f64 * f64::from(a.most) * f64::from(b.most);
        let bytes = Bytes {
            scales: Scale::table(&rule.format, last)?,
            scale_emin: rule.format.emin(),
            rule: Rule { last, most, frac_bits: body.frac_bits, floor: body.floor },
            aligner: Aligner::new(body, state.nan),
            body: body.clone(),
            a,
            b,
            nan: state.nan,
        };
        Some(Arc::new(Self { set, bytes }))
    }

    /// Steps of the panels on a tile's states.
    #[inline(always)]
    fn steps(&self, panels: [&Panel; 2], steps: Range<usize>, state: &mut [u32]) {
        let bytes = &self.bytes;
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let [rows, columns] = panels.map(|panel| panel.lines);
        let mut c = States([[0.0; COLUMNS]; ROWS]);
        for (block, b_span) in b.spans.iter().enumerate() {
            let column = block * COLUMNS;
            let all = Steps::new(&a.all, b_span, &bytes.rule).filter(|steps| steps.narrow);
            for (row_block, a_span) in a.spans.iter().enumerate() {
                let row = row_block * ROWS;
                let size = [ROWS.min(rows - row), COLUMNS.min(columns - column)];
                let at = row * columns + column;
                let operands = bytes.operands([a, b], [row_block, block], panels[0].k);
                let exact = all.or_else(|| Steps::new(a_span, b_span, &bytes.rule));
                c.load(state, size, at, columns);
                let exact = exact.filter(|exact| c.stay_exact(0..ROWS, exact, steps.len()));
                if let Some(exact) = exact {
                    // SAFETY: the steps are in the panels.
                    unsafe { self.exact(&operands, exact.narrow, steps.clone(), size, &mut c) }
                } else {
                    let spans = [&a.rows[row..row + ROWS], core::slice::from_ref(b_span)];
                    // SAFETY: as above.
                    unsafe { self.row_by_row(spans, &operands, steps.clone(), size, &mut c) }
                }
                c.store(state, size, at, columns);
            }
        }
    }

    /// Exact steps.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline(always)]
    unsafe fn exact(
        &self,
        operands: &Operands<'_>,
        narrow: bool,
        steps: Range<usize>,
        size: [usize; 2],
        c: &mut States,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match (narrow, self.bytes.toward_zero(), self.bytes.body.group) {
                (true, true, 16) => self.narrow::<4, true>(operands, steps, size, c),
                (true, true, _) => self.narrow::<0, true>(operands, steps, size, c),
                (true, false, _) => self.narrow::<0, false>(operands, steps, size, c),
                (false, true, 16) => self.wide::<4, true>(operands, steps, size, c),
                (false, true, _) => self.wide::<0, true>(operands, steps, size, c),
                (false, false, _) => self.wide::<0, false>(operands, steps, size, c),
            }
        }
    }

    /// [`Operands::narrow`] on all blocks with rows and columns that matter.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn narrow<const Q: usize, const ZERO: bool>(
        &self,
        operands: &Operands<'_>,
        steps: Range<usize>,
        size: [usize; 2],
        c: &mut States,
    ) {
        self.set.apart(
            #[inline(always)]
            || {
                for block in blocks::<S>(size) {
                    // SAFETY: the caller's promise.
                    unsafe { operands.narrow::<S, Q, ZERO>(self.set, steps.clone(), block, c) }
                }
            },
        );
    }

    /// [`Operands::wide`] likewise.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn wide<const Q: usize, const ZERO: bool>(
        &self,
        operands: &Operands<'_>,
        steps: Range<usize>,
        size: [usize; 2],
        c: &mut States,
    ) {
        self.set.apart(
            #[inline(always)]
            || {
                for block in blocks::<S>(size) {
                    // SAFETY: the caller's promise.
                    unsafe { operands.wide::<S, Q, ZERO>(self.set, steps.clone(), block, c) }
                }
            },
        );
    }

    /// A tile some of whose rows might have something cut off: the general step for those.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline(always)]
    unsafe fn row_by_row(
        &self,
        spans: [&[Span]; 2],
        operands: &Operands<'_>,
        steps: Range<usize>,
        size: [usize; 2],
        c: &mut States,
    ) {
        let ([rows, [column]], bytes) = (spans, &self.bytes) else { return };
        let hard = |r: &usize| {
            let exact = Steps::new(&rows[*r], column, &bytes.rule);
            !exact.is_some_and(|exact| c.stay_exact(*r..r + 1, &exact, steps.len()))
        };
        let (hard, easy): (Vec<usize>, Vec<usize>) = (0..size[0]).partition(hard);
        let mut exact = c.clone();
        let how = Hard { aligner: &bytes.aligner, body: &bytes.body, nan: bytes.nan, to_zero: bytes.toward_zero() };
        // SAFETY: the caller's promise.
        unsafe {
            if !easy.is_empty() {
                self.exact(operands, false, steps.clone(), size, &mut exact);
            }
            self.set.hard(&how, operands, steps, &hard, c);
        }
        easy.iter().for_each(|&r| c.0[r] = exact.0[r]);
    }
}

/// The first rows and columns of blocks that registers hold.
#[inline(always)]
fn blocks<S: Set>([rows, columns]: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    // Panels' loads are not checked: blocks fill a tile.
    const { assert!(ROWS.is_multiple_of(S::ROWS) && COLUMNS.is_multiple_of(VECTORS * S::LANES)) }
    let columns = (0..columns).step_by(VECTORS * S::LANES);
    columns.flat_map(move |column| (0..rows).step_by(S::ROWS).map(move |row| [row, column]))
}

impl Bytes {
    /// Blocks of the panels.
    fn operands<'a>(&self, [a, b]: [&'a Packed; 2], [row, column]: [usize; 2], k: usize) -> Operands<'a> {
        let groups = k / self.body.group;
        Operands {
            a: &a.bytes.view()[row * ROWS * k..][..ROWS * k],
            starts: &a.starts.view().as_chunks().0[row * groups..][..groups],
            scales_a: &a.scales.view().as_chunks().0[row * groups..][..groups],
            b: &b.bytes.view()[column * COLUMNS * k..][..COLUMNS * k],
            scales_b: &b.scales.view().as_chunks().0[column * groups..][..groups],
            exponents_a: &a.exponents.view().as_chunks().0[row * groups..][..groups],
            present_a: &a.present.view().as_chunks().0[row * groups..][..groups],
            exponents_b: &b.exponents.view().as_chunks().0[column * groups..][..groups],
            present_b: &b.present.view().as_chunks().0[column * groups..][..groups],
            offset: self.b.most,
            step: self.body.step,
            group: self.body.group,
        }
    }

    fn toward_zero(&self) -> bool {
        self.body.rounding == Rounding::TowardZero
    }
}

impl<S: Set> Kernel for BytesKernel<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn why(&self) -> String {
        let Groups { group, frac_bits, .. } = self.bytes.body;
        format!("elements are bytes, so groups of {group} are integer dot products; F = {frac_bits} fits f64")
    }

    fn tile(&self) -> [usize; 2] {
        [64, 256]
    }

    fn panel_bytes(&self) -> usize {
        2
    }

    fn pack_a(&self, panel: &mut Panel) {
        let mut packed = panel.take_packed::<Packed>();
        let Staged::Narrow(codes) = &panel.codes else { unreachable!("operands of at most 8 bits") };
        let size = [panel.lines, panel.k];
        self.set.apart(
            #[inline(always)]
            || self.bytes.pack_rows(self.set, codes, &panel.scales, size, &mut packed),
        );
        panel.put_packed(packed);
    }

    fn pack_b(&self, panel: &mut Panel) {
        let mut packed = panel.take_packed::<Packed>();
        let (codes, lines) = (panel.codes.narrow(), panel.lines);
        let size = [lines, panel.k];
        self.set.apart(
            #[inline(always)]
            || self.bytes.pack_columns(self.set, Rows::of(codes, lines), &panel.scales, size, &mut packed),
        );
        panel.put_packed(packed);
    }

    fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        let Codes::U8(view) = codes else { return false };
        let Some(codes) = view.rows() else { return false };
        let mut packed = panel.take_packed::<Packed>();
        let size = [panel.lines, panel.k];
        self.set.apart(
            #[inline(always)]
            || self.bytes.pack_columns(self.set, codes, &panel.scales, size, &mut packed),
        );
        panel.put_packed(packed);
        true
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(state) = state else { unreachable!("states of 32 bits") };
        self.set.apart(
            #[inline(always)]
            || self.steps([a, b], steps, state),
        );
    }
}
