//! The kernel for AVX512-VNNI: exact steps where nothing can be cut off, else the general one.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::Groups;
use super::aligned::Aligner;
use super::pack::{Elements, Packed, Scale, first};
use super::span::{Rule, Span, Steps};
use super::tile::{Operands, States, VECTORS};
use crate::format::Specials;
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::simd::values::State;
use crate::simd::{Avx512, Isa};
use crate::unit::Unit;
use crate::view::Rows;
use core::arch::x86_64::*;
use core::ops::Range;
use std::sync::Arc;

/// Rows of a tile.
pub(super) const ROWS: usize = 4;
/// Columns of a tile.
pub(super) const COLUMNS: usize = 32;
/// Groups of a step, at most.
pub(super) const GROUPS: usize = 16;

const RZ: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const RNE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

#[derive(Debug)]
pub(super) struct Vnni {
    pub(super) body: Groups,
    pub(super) a: Elements,
    pub(super) b: Elements,
    pub(super) scales: Vec<Scale>,
    pub(super) scale_emin: i32,
    pub(super) rule: Rule,
    aligner: Aligner,
    _proof: Proof,
}

/// Proof that AVX512-VNNI is there, beside AVX-512.
#[derive(Debug)]
struct Proof(());

impl Proof {
    fn new(isa: Isa) -> Option<Self> {
        Avx512::new(isa)?;
        std::arch::is_x86_feature_detected!("avx512vnni").then_some(Self(()))
    }
}

/// The kernel, where elements are bytes, groups whole fours of them, and states f32 throughout.
pub(super) fn select(unit: &Unit, isa: Isa, body: &Groups, state: &State) -> Option<Arc<dyn Kernel>> {
    let proof = Proof::new(isa)?;
    let rule = unit.scale?;
    let (a, b) = (Elements::new(&unit.a)?, Elements::new(&unit.b)?);
    let whole = body.group.is_multiple_of(4) && body.step.is_multiple_of(16) && body.per_step() <= GROUPS;
    let scales = rule.format.storage_bits <= 8 && rule.format.specials != Specials::Ieee;
    let ends = State::is_f32(&state.c) && State::is_f32(&state.d);
    let rounds = matches!(body.rounding, Rounding::TowardZero | Rounding::NearestEven);
    // f64 holds a state and the terms of its step, from the truncation step up.
    if !whole || !scales || !ends || !rounds || !(0..=50).contains(&body.frac_bits) {
        return None;
    }
    let last = a.last + b.last;
    let most = body.step as f64 * f64::from(a.most) * f64::from(b.most);
    Some(Arc::new(Vnni {
        scales: Scale::table(&rule.format, last)?,
        scale_emin: rule.format.emin(),
        rule: Rule { last, most, frac_bits: body.frac_bits, floor: body.floor },
        aligner: Aligner::new(body, state.nan),
        body: body.clone(),
        a,
        b,
        _proof: proof,
    }))
}

/// A tile's place: how many rows and columns there are, its first state, and the states of a row.
#[derive(Clone, Copy)]
struct Place {
    size: [usize; 2],
    state: usize,
    ld: usize,
}

impl Place {
    /// The lanes of vector `v` that are there, and where the first of a row is.
    const fn lanes(&self, r: usize, v: usize) -> (__mmask16, usize) {
        (first(self.size[1].saturating_sub(16 * v)), self.state + r * self.ld + 16 * v)
    }
}

impl States {
    /// Takes the states of a tile, 0 where there are none. Minus zero is plus zero.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn load(&mut self, from: &[u32], place: &Place) {
        for r in 0..ROWS {
            for v in 0..VECTORS {
                let (lanes, at) = if r < place.size[0] { place.lanes(r, v) } else { (0, 0) };
                // SAFETY: the lanes of the mask lie in the tile; 16 floats of room.
                unsafe {
                    let x = _mm512_maskz_loadu_ps(lanes, from.as_ptr().wrapping_add(at).cast());
                    _mm512_store_ps(self.0[r][16 * v..].as_mut_ptr(), _mm512_add_ps(x, _mm512_setzero_ps()));
                }
            }
        }
    }

    /// Gives them back.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn store(&self, to: &mut [u32], place: &Place) {
        for r in 0..place.size[0] {
            for v in 0..VECTORS {
                let (lanes, at) = place.lanes(r, v);
                // SAFETY: as in `load`.
                unsafe {
                    let x = _mm512_load_si512(self.0[r][16 * v..].as_ptr().cast());
                    _mm512_mask_storeu_epi32(to.as_mut_ptr().wrapping_add(at).cast(), lanes, x);
                }
            }
        }
    }

    /// Whether `n` steps from these rows' states cut nothing off.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn stay_exact(&self, rows: Range<usize>, steps: &Steps, n: usize) -> bool {
        let vectors = self.0[rows].as_flattened().as_chunks::<16>().0;
        let mut most = _mm512_setzero_si512();
        for x in vectors {
            // SAFETY: 16 floats.
            let x = unsafe { _mm512_load_si512(x.as_ptr().cast()) };
            most = _mm512_max_epu32(most, _mm512_and_si512(x, _mm512_set1_epi32(i32::MAX)));
        }
        let most = _mm512_reduce_max_epu32(most);
        let Some(quantum) = steps.quantum(n, f32::from_bits(most)) else { return false };
        if most == 0 {
            return true;
        }
        let power = |e: i32| _mm512_set1_ps(f32::from_bits(((127 + e) as u32) << 23));
        let (down, up) = (power(quantum), power(-quantum));
        vectors.iter().fold(0, |off, x| {
            // SAFETY: 16 floats.
            let x = unsafe { _mm512_load_ps(x.as_ptr()) };
            let multiple = _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(x, up));
            off | _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(_mm512_mul_ps(multiple, down), x)
        }) == 0
    }
}

impl Vnni {
    /// Steps of the panels on a tile's states.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn steps(&self, panels: [&Panel; 2], steps: Range<usize>, state: &mut [u32]) {
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let [rows, columns] = panels.map(|panel| panel.lines);
        let mut c = States([[0.0; COLUMNS]; ROWS]);
        for (block, b_span) in b.spans.iter().enumerate() {
            let column = block * COLUMNS;
            let all = Steps::new(&a.all, b_span, &self.rule).filter(|steps| steps.narrow);
            for (row_block, a_span) in a.spans.iter().enumerate() {
                let row = row_block * ROWS;
                let size = [ROWS.min(rows - row), COLUMNS.min(columns - column)];
                let place = Place { size, state: row * columns + column, ld: columns };
                let operands = self.operands([a, b], [row_block, block], panels[0].k);
                let exact = all.or_else(|| Steps::new(a_span, b_span, &self.rule));
                c.load(state, &place);
                let exact = exact.filter(|exact| c.stay_exact(0..ROWS, exact, steps.len()));
                // SAFETY: the steps are in the panels.
                unsafe {
                    if let Some(exact) = exact {
                        self.exact(&operands, exact.narrow, steps.clone(), &mut c);
                    } else {
                        let spans = [&a.rows[row..row + ROWS], core::slice::from_ref(b_span)];
                        self.row_by_row(spans, &operands, steps.clone(), &mut c);
                    }
                }
                c.store(state, &place);
            }
        }
    }

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
            step: self.body.step,
            group: self.body.group,
        }
    }

    /// Exact steps.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn exact(&self, operands: &Operands<'_>, narrow: bool, steps: Range<usize>, c: &mut States) {
        // SAFETY: the caller's promise.
        unsafe {
            match (narrow, self.toward_zero(), self.body.group) {
                (true, true, 16) => operands.narrow::<4, RZ>(steps, c),
                (true, true, _) => operands.narrow::<0, RZ>(steps, c),
                (true, false, _) => operands.narrow::<0, RNE>(steps, c),
                (false, true, 16) => operands.wide::<4, RZ>(steps, c),
                (false, true, _) => operands.wide::<0, RZ>(steps, c),
                (false, false, _) => operands.wide::<0, RNE>(steps, c),
            }
        }
    }

    /// A tile some of whose rows might have something cut off: the general step for those.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn row_by_row(&self, spans: [&[Span]; 2], operands: &Operands<'_>, steps: Range<usize>, c: &mut States) {
        let [rows, [column]] = spans else { return };
        let hard = |r: &usize| {
            let exact = Steps::new(&rows[*r], column, &self.rule);
            !exact.is_some_and(|exact| c.stay_exact(*r..r + 1, &exact, steps.len()))
        };
        let (hard, easy): (Vec<usize>, Vec<usize>) = (0..ROWS).partition(hard);
        let mut exact = c.clone();
        // SAFETY: the caller's promise.
        unsafe {
            if !easy.is_empty() {
                self.exact(operands, false, steps.clone(), &mut exact);
            }
            if self.toward_zero() {
                self.aligner.steps::<RZ>(operands, steps, &hard, c);
            } else {
                self.aligner.steps::<RNE>(operands, steps, &hard, c);
            }
        }
        easy.iter().for_each(|&r| c.0[r] = exact.0[r]);
    }

    fn toward_zero(&self) -> bool {
        self.body.rounding == Rounding::TowardZero
    }
}

impl Kernel for Vnni {
    fn name(&self) -> &'static str {
        "groups-vnni"
    }

    fn why(&self) -> String {
        let Groups { group, frac_bits, .. } = self.body;
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
        // SAFETY: the proof says that the instructions are there.
        unsafe { self.pack_rows(codes, &panel.scales, [panel.lines, panel.k], &mut packed) }
        panel.put_packed(packed);
    }

    fn pack_b(&self, panel: &mut Panel) {
        let mut packed = panel.take_packed::<Packed>();
        let (codes, lines) = (panel.codes.narrow(), panel.lines);
        // SAFETY: as above.
        unsafe { self.pack_columns(Rows::of(codes, lines), &panel.scales, [lines, panel.k], &mut packed) }
        panel.put_packed(packed);
    }

    fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        let Codes::U8(view) = codes else { return false };
        let Some(codes) = view.rows() else { return false };
        let mut packed = panel.take_packed::<Packed>();
        // SAFETY: as above.
        unsafe { self.pack_columns(codes, &panel.scales, [panel.lines, panel.k], &mut packed) }
        panel.put_packed(packed);
        true
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(state) = state else { unreachable!("states of 32 bits") };
        // SAFETY: as above.
        unsafe { self.steps([a, b], steps, state) }
    }
}
