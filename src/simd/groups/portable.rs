//! The general step on any instruction set, sums of groups in f32.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::{ABSENT, Groups, Terms};
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel};
use crate::simd::Isa;
use crate::simd::lanes::power;
use crate::simd::values::{NR, State, f32_of};
use crate::simd::wide::{self, Work, over};
use crate::unit::Unit;
use core::ops::Range;
use std::sync::Arc;

/// The kernel of a set.
pub(super) fn new(unit: &Unit, isa: Isa, body: Groups, state: State) -> Arc<dyn Kernel> {
    let tables = [&unit.a, &unit.b].map(|f| (0..1u64 << f.storage_bits).map(|code| f32_of(&f.decode(code))).collect());
    Arc::new(GroupKernel { unit: unit.clone(), isa, body, state, tables })
}

#[derive(Debug)]
struct GroupKernel {
    unit: Unit,
    isa: Isa,
    body: Groups,
    state: State,
    tables: [Vec<f32>; 2],
}

/// A packed operand, `width` lines (1 or 16) side by side.
#[derive(Debug, Default)]
struct Packed {
    /// Elements.
    values: Vec<f32>,
    /// Per group of K: which elements are not zero; none where the scale is zero.
    present: Vec<u16>,
    /// Per group of K: the scale's value, and its exponent.
    scales: Vec<f64>,
    exponents: Vec<i32>,
}

impl GroupKernel {
    fn pack(&self, panel: &mut Panel, width: usize, table: &[f32]) {
        let mut to = panel.take_packed::<Packed>();
        let (lines, k, group) = (panel.lines, panel.k, self.body.group);
        let (blocks, groups) = (lines.div_ceil(width), k / group);
        to.values.clear();
        to.values.resize(blocks * k * width, 0.0);
        to.present.clear();
        to.present.resize(blocks * groups * width, 0);
        to.scales.clear();
        to.scales.resize(blocks * groups * width, 0.0);
        to.exponents.clear();
        to.exponents.resize(blocks * groups * width, 0);
        let Some(rule) = self.unit.scale else { return };
        for line in 0..lines {
            let (block, j) = (line / width, line % width);
            for g in 0..groups {
                let scale = rule.format.decode(panel.scales[line * (k / rule.block) + g / self.body.slots]);
                let mut present = 0;
                for i in 0..group {
                    let p = g * group + i;
                    let at = if width == 1 { line * k + p } else { p * lines + line };
                    let value = table[panel.codes.get(at) as usize & (table.len() - 1)];
                    to.values[(block * k + p) * width + j] = value;
                    present |= u16::from(value != 0.0) << i;
                }
                let at = (block * groups + g) * width + j;
                to.present[at] = if scale.is_zero() { 0 } else { present };
                to.exponents[at] = scale.exponent;
                let power = power(scale.exponent - scale.frac_bits as i32);
                to.scales[at] = if scale.is_finite() { scale.significand as f64 * power } else { f64::NAN };
            }
        }
        panel.put_packed(to);
    }
}

struct Job<'a> {
    body: &'a Groups,
    state: &'a State,
    a: &'a Packed,
    b: &'a Packed,
    /// Rows, columns and K of the panels.
    size: [usize; 3],
    steps: Range<usize>,
    tile: &'a mut [u32],
}

impl Work for Job<'_> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let [rows, columns, k] = self.size;
        for block in 0..columns.div_ceil(NR) {
            let width = NR.min(columns - block * NR);
            for row in 0..rows {
                let at = row * columns + block * NR;
                let mut d = [0f32; NR];
                for (d, &code) in d.iter_mut().zip(&self.tile[at..at + width]) {
                    *d = self.state.load(code);
                }
                for step in self.steps.clone() {
                    d = self.body.step::<NATIVE>(&self.terms([row, block, step], k), d);
                }
                for (&d, code) in d.iter().zip(&mut self.tile[at..at + width]) {
                    *code = self.state.store(d);
                }
            }
        }
    }
}

impl Job<'_> {
    #[inline(always)]
    fn terms(&self, [row, block, step]: [usize; 3], k: usize) -> InPanels<'_> {
        let (group, groups, first) = (self.body.group, k / self.body.group, step * self.body.per_step());
        InPanels {
            a: self.a,
            b: self.b,
            group,
            groups: [row * groups + first, block * groups + first],
            elements: [row * k + first * group, block * k + first * group],
        }
    }
}

/// Groups as the panels have them.
struct InPanels<'a> {
    a: &'a Packed,
    b: &'a Packed,
    group: usize,
    /// Where the step's groups and elements begin, in A and in B.
    groups: [usize; 2],
    elements: [usize; 2],
}

impl Terms for InPanels<'_> {
    #[inline(always)]
    fn exponents(&self, g: usize) -> [i32; NR] {
        let [at_a, at_b] = self.groups.map(|at| at + g);
        let (present, exponents) = (lanes(&self.b.present[at_b * NR..]), lanes(&self.b.exponents[at_b * NR..]));
        let (present_a, exponent_a) = (self.a.present[at_a], self.a.exponents[at_a]);
        let mut e = [0; NR];
        for j in 0..NR {
            let here = present[j] & present_a != 0;
            let sum = exponents[j] + exponent_a;
            e[j] = if here { sum } else { ABSENT };
        }
        e
    }

    #[inline(always)]
    fn scales(&self, g: usize) -> [f64; NR] {
        let [at_a, at_b] = self.groups.map(|at| at + g);
        let (scale_a, mut scales) = (self.a.scales[at_a], lanes(&self.b.scales[at_b * NR..]));
        for j in 0..NR {
            scales[j] *= scale_a;
        }
        scales
    }

    #[inline(always)]
    fn sums<const NATIVE: bool>(&self, g: usize) -> [f32; NR] {
        let [from_a, from_b] = self.elements.map(|from| from + g * self.group);
        let b = &self.b.values.as_chunks::<NR>().0[from_b..from_b + self.group];
        products::<NATIVE>(&self.a.values[from_a..from_a + self.group], b)
    }
}

/// A row of columns, copied.
#[inline(always)]
fn lanes<T: Copy>(from: &[T]) -> [T; NR] {
    from.as_chunks::<NR>().0[0]
}

/// The exact sum of a group's products.
#[inline(always)]
fn products<const NATIVE: bool>(a: &[f32], b: &[[f32; NR]]) -> [f32; NR] {
    let mut sum = [0f32; NR];
    over(
        a,
        b,
        #[inline(always)]
        |a, b: &[f32; NR]| {
            for j in 0..NR {
                // Exact either way; one instruction where there is one.
                sum[j] = if NATIVE { a.mul_add(b[j], sum[j]) } else { a * b[j] + sum[j] };
            }
        },
    );
    sum
}

impl Kernel for GroupKernel {
    fn name(&self) -> &'static str {
        "groups"
    }

    fn why(&self) -> String {
        format!(
            "sums of groups of {} are integers that f32 holds, F = {} fits f64",
            self.body.group, self.body.frac_bits
        )
    }

    fn tile(&self) -> [usize; 2] {
        [64, 256]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<f32>() + 2
    }

    fn pack_a(&self, panel: &mut Panel) {
        self.pack(panel, 1, &self.tables[0]);
    }

    fn pack_b(&self, panel: &mut Panel) {
        self.pack(panel, NR, &self.tables[1]);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(tile) = state else { unreachable!("d is at most 32 bits wide") };
        let size = [a.lines, b.lines, a.k];
        let (a, b) = (a.packed::<Packed>(), b.packed::<Packed>());
        wide::on(self.isa, Job { body: &self.body, state: &self.state, a, b, size, steps, tile });
    }
}
