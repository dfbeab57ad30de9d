//! The kernel for AVX512-VNNI: exact steps where nothing can be cut off, else the general one.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::pack::{Elements, Packed, Scale, first};
use super::span::{Rule, Steps};
use super::tile::{Operands, States, VECTORS};
use super::{ABSENT, Groups, Terms};
use crate::format::Specials;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::simd::lanes::power;
use crate::simd::values::{NR, State};
use crate::simd::{Avx512, Isa};
use crate::unit::Unit;
use core::arch::x86_64::*;
use core::ops::Range;
use std::sync::Arc;

/// Rows of a tile.
pub(super) const ROWS: usize = 4;
/// Columns of a tile.
pub(super) const COLUMNS: usize = 32;
/// Groups of a step, at most.
const GROUPS: usize = 16;

#[derive(Debug)]
pub(super) struct Vnni {
    pub(super) body: Groups,
    state: State,
    pub(super) a: Elements,
    pub(super) b: Elements,
    pub(super) scales: Vec<Scale>,
    pub(super) scale_emin: i32,
    pub(super) rule: Rule,
    /// Elements of K that share a scale.
    block: usize,
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
        scales: Scale::table(&rule.format, last),
        scale_emin: rule.format.emin(),
        rule: Rule { last, most, frac_bits: body.frac_bits, floor: body.floor },
        block: rule.block,
        body: body.clone(),
        state: *state,
        a,
        b,
        _proof: proof,
    }))
}

/// One row and 16 columns of a step, for the general body.
struct Decoded {
    exponents: [[i32; NR]; GROUPS],
    scales: [[f64; NR]; GROUPS],
    sums: [[f32; NR]; GROUPS],
}

impl Terms for Decoded {
    #[inline(always)]
    fn exponents(&self, g: usize) -> [i32; NR] {
        self.exponents[g]
    }
    #[inline(always)]
    fn scales(&self, g: usize) -> [f64; NR] {
        self.scales[g]
    }
    #[inline(always)]
    fn sums<const NATIVE: bool>(&self, g: usize) -> [f32; NR] {
        self.sums[g]
    }
}

/// A tile's place: its first row and column, how many of each there are, and its first state and their row length.
#[derive(Clone, Copy)]
struct Place {
    at: [usize; 2],
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
    /// Takes the states of a tile, 0 where there are none.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn load(&mut self, from: &[u32], place: &Place) {
        for r in 0..ROWS {
            for v in 0..VECTORS {
                let (lanes, at) = if r < place.size[0] { place.lanes(r, v) } else { (0, 0) };
                // SAFETY: the lanes of the mask lie in the tile; 16 floats of room.
                unsafe {
                    let x = _mm512_maskz_loadu_epi32(lanes, from.as_ptr().wrapping_add(at).cast());
                    _mm512_store_si512(self.0[r][16 * v..].as_mut_ptr().cast(), x);
                }
            }
        }
    }

    /// Gives back a row.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn store(&self, to: &mut [u32], place: &Place, r: usize) {
        for v in 0..VECTORS {
            let (lanes, at) = place.lanes(r, v);
            // SAFETY: as in `load`.
            unsafe {
                let x = _mm512_load_si512(self.0[r][16 * v..].as_ptr().cast());
                _mm512_mask_storeu_epi32(to.as_mut_ptr().wrapping_add(at).cast(), lanes, x);
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
                let place = Place { at: [row, column], size, state: row * columns + column, ld: columns };
                let operands = self.operands([a, b], [row_block, block], panels[0].k);
                let exact = all.or_else(|| Steps::new(a_span, b_span, &self.rule));
                c.load(state, &place);
                if let Some(exact) = exact.filter(|exact| c.stay_exact(0..ROWS, exact, steps.len())) {
                    // SAFETY: the steps are in the panels.
                    unsafe { self.exact(&operands, exact.narrow, steps.clone(), &mut c) }
                    (0..size[0]).for_each(|r| c.store(state, &place, r));
                } else {
                    // SAFETY: as above.
                    unsafe { self.row_by_row(panels, &operands, &place, steps.clone(), &mut c, state) }
                }
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
        const RZ: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
        const RNE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: the caller's promise.
        unsafe {
            match (narrow, self.body.rounding == Rounding::TowardZero, self.body.group) {
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
    #[cold]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn row_by_row(
        &self,
        panels: [&Panel; 2],
        operands: &Operands<'_>,
        place: &Place,
        steps: Range<usize>,
        c: &mut States,
        state: &mut [u32],
    ) {
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let [row, column] = place.at;
        let hard = |r: &usize| {
            let exact = Steps::new(&a.rows[row + r], &b.spans[column / COLUMNS], &self.rule);
            !exact.is_some_and(|exact| c.stay_exact(*r..r + 1, &exact, steps.len()))
        };
        let (hard, easy): (Vec<usize>, Vec<usize>) = (0..place.size[0]).partition(hard);
        // SAFETY: the caller's promise.
        unsafe {
            self.general(panels, operands, place, &hard, steps.clone(), state);
            if !easy.is_empty() {
                self.exact(operands, false, steps, c);
            }
        }
        easy.iter().for_each(|&r| c.store(state, place, r));
    }

    /// The general step for rows of a tile.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
    unsafe fn general(
        &self,
        panels: [&Panel; 2],
        operands: &Operands<'_>,
        place: &Place,
        rows: &[usize],
        steps: Range<usize>,
        state: &mut [u32],
    ) {
        let per_step = self.body.per_step();
        let mut terms =
            Decoded { exponents: [[0; NR]; GROUPS], scales: [[0.0; NR]; GROUPS], sums: [[0.0; NR]; GROUPS] };
        for v in 0..place.size[1].div_ceil(NR) {
            let width = NR.min(place.size[1] - v * NR);
            let mut scales = [[self.scales[0]; NR]; GROUPS];
            for s in steps.clone() {
                for (g, scales) in scales[..per_step].iter_mut().enumerate() {
                    for (j, scale) in scales[..width].iter_mut().enumerate() {
                        *scale = self.scale(panels[1], place.at[1] + v * NR + j, s * per_step + g);
                    }
                }
                for &r in rows {
                    for g in 0..per_step {
                        let group = s * per_step + g;
                        let scale = self.scale(panels[0], place.at[0] + r, group);
                        let value = scale.value * power(self.rule.last);
                        // SAFETY: the caller's promise.
                        let (sums, magnitudes) =
                            unsafe { (operands.sums::<0>(group), operands.magnitudes(group, [r, v], self.b.most)) };
                        terms.sums[g] = floats(sums[r][v]);
                        let here = _mm512_test_epi32_mask(magnitudes, magnitudes);
                        for j in 0..NR {
                            let of_b = scales[g][j];
                            let exponent = scale.exponent + of_b.exponent;
                            terms.exponents[g][j] = if here >> j & 1 == 1 { exponent } else { ABSENT };
                            terms.scales[g][j] = value * of_b.value;
                        }
                    }
                    let states = &mut state[place.lanes(r, v).1..][..width];
                    let mut c = [0f32; NR];
                    c.iter_mut().zip(&*states).for_each(|(c, &code)| *c = self.state.load(code));
                    let d = self.body.step::<true>(&terms, c);
                    states.iter_mut().zip(d).for_each(|(code, d)| *code = self.state.store(d));
                }
            }
        }
    }

    /// The scale of group `g` of a line.
    fn scale(&self, panel: &Panel, line: usize, g: usize) -> Scale {
        let code = panel.scales[line * (panel.k / self.block) + g / self.body.slots];
        self.scales[code as usize & 255]
    }
}

/// Integers that f32 holds.
#[target_feature(enable = "avx512f")]
fn floats(x: __m512i) -> [f32; NR] {
    let mut to = [0.0; NR];
    // SAFETY: 16 floats of room.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(x)) }
    to
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
        let Staged::Narrow(codes) = &panel.codes else { unreachable!("operands of at most 8 bits") };
        // SAFETY: as above.
        unsafe { self.pack_columns(codes, &panel.scales, [panel.lines, panel.k], &mut packed) }
        panel.put_packed(packed);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(state) = state else { unreachable!("states of 32 bits") };
        // SAFETY: as above.
        unsafe { self.steps([a, b], steps, state) }
    }
}
