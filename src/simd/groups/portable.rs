//! The general step on any instruction set, sums of groups in f32.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::{ABSENT, Groups, NOTHING};
use crate::format::FormatSpec;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel};
use crate::simd::Isa;
use crate::simd::decode::f32_of;
use crate::simd::lanes::{ToInt, any, any_endless, each, exponent, power, to_int};
use crate::simd::values::{NR, State};
use crate::simd::wide::{self, Work, over};
use crate::unit::Unit;
use core::ops::Range;
use std::sync::Arc;

/// The kernel of a set.
pub(super) fn new(unit: &Unit, isa: Isa, body: Groups, state: State) -> Arc<dyn Kernel> {
    let table = |f: &FormatSpec| core::array::from_fn(|byte| f32_of(&f.decode(byte as u64 & f.code_mask())));
    let tables = Box::new([&unit.a, &unit.b].map(table));
    Arc::new(GroupKernel { unit: unit.clone(), isa, body, state, tables })
}

#[derive(Debug)]
struct GroupKernel {
    unit: Unit,
    isa: Isa,
    body: Groups,
    state: State,
    /// Values of all bytes: what a byte has above the code does not matter.
    tables: Box<[[f32; 256]; 2]>,
}

/// A packed operand, `width` lines (1 or 16) side by side.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Elements.
    pub(super) values: Vec<f32>,
    /// Per group of K: which elements are not zero; none where the scale is zero.
    pub(super) present: Vec<u16>,
    /// Per group of K: the scale's value, and its exponent.
    pub(super) scales: Vec<f64>,
    pub(super) exponents: Vec<i32>,
}

impl Packed {
    /// Room for so many elements and groups.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "asked where bytes are unpacked"))]
    pub(super) fn of(elements: usize, groups: usize) -> Self {
        Self {
            values: vec![0.0; elements],
            present: vec![0; groups],
            scales: vec![0.0; groups],
            exponents: vec![0; groups],
        }
    }
}

impl GroupKernel {
    fn pack(&self, panel: &mut Panel, width: usize, table: &[f32; 256]) {
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
        let codes = panel.codes.narrow();
        for line in 0..lines {
            let (block, j) = (line / width, line % width);
            // From one element to the next, as the panel has them.
            let (first, stride) = if width == 1 { (line * k, 1) } else { (line, lines) };
            for g in 0..groups {
                let scale = rule.format.decode(panel.scale(line, g / self.body.slots));
                let mut present = 0;
                let mut take = |i: usize, code: u32, value: &mut f32| {
                    *value = table[usize::from(code as u8)];
                    present |= u16::from(*value != 0.0) << i;
                };
                if width == 1 {
                    let here = first + g * group..first + (g + 1) * group;
                    let places = to.values[here.clone()].iter_mut().zip(&codes[here]);
                    places.enumerate().for_each(|(i, (value, &code))| take(i, code, value));
                } else {
                    for i in 0..group {
                        let p = g * group + i;
                        take(i, codes[first + p * stride], &mut to.values[(block * k + p) * width + j]);
                    }
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
        if self.size[1] == 1 { self.all::<NATIVE, 1>() } else { self.all::<NATIVE, NR>() }
    }
}

impl Job<'_> {
    /// All columns, N at once, rows and steps.
    #[inline(always)]
    fn all<const NATIVE: bool, const N: usize>(self) {
        let [rows, columns, k] = self.size;
        for block in 0..columns.div_ceil(N) {
            let width = N.min(columns - block * N);
            for row in 0..rows {
                let at = row * columns + block * N;
                let mut d = [0f32; N];
                for (d, &code) in d.iter_mut().zip(&self.tile[at..at + width]) {
                    *d = self.state.load(code);
                }
                for step in self.steps.clone() {
                    d = self.body.step::<NATIVE, N>(self.a, self.b, [row, block, step], k, d);
                }
                for (&d, code) in d.iter().zip(&mut self.tile[at..at + width]) {
                    *code = self.state.store(d);
                }
            }
        }
    }
}

impl Groups {
    /// One step: terms of groups, e_max, alignment, sum, truncation.
    #[inline(always)]
    pub(super) fn step<const NATIVE: bool, const N: usize>(
        &self,
        a: &Packed,
        b: &Packed,
        [row, block, step]: [usize; 3],
        k: usize,
        c: [f32; N],
    ) -> [f32; N] {
        let (groups, per_step) = (k / self.group, self.per_step());
        let (floor, c_emin, f) = (self.floor, self.c_emin, self.frac_bits);
        let (mut e, mut term) = ([0i32; N], [0f64; N]);
        for j in 0..N {
            term[j] = if c[j].is_finite() { c[j].into() } else { 0.0 };
            let of_term = exponent(term[j]).max(c_emin);
            let of_c = if term[j] == 0.0 { ABSENT } else { of_term };
            e[j] = of_c.max(floor);
        }
        for g in step * per_step..(step + 1) * per_step {
            let (at_a, at_b) = (row * groups + g, (block * groups + g) * N);
            let (present, exponents) = (lanes::<_, N>(&b.present[at_b..]), lanes::<_, N>(&b.exponents[at_b..]));
            let (present_a, exponent_a) = (a.present[at_a], a.exponents[at_a]);
            for j in 0..N {
                let here = present[j] & present_a != 0;
                let sum = exponents[j] + exponent_a;
                e[j] = e[j].max(if here { sum } else { ABSENT });
            }
        }
        let mut total = [0f64; N];
        for j in 0..N {
            e[j] = e[j].max(NOTHING);
            total[j] = to_int::<NATIVE>(term[j] * power(f - e[j]), ToInt::TowardZero);
        }
        let mut nan = [0f64; N];
        for g in step * per_step..(step + 1) * per_step {
            let at_b = (block * groups + g) * N;
            let (from_a, from_b) = (row * k + g * self.group, block * k + g * self.group);
            let sum = products::<NATIVE, N>(
                &a.values[from_a..from_a + self.group],
                &b.values.as_chunks::<N>().0[from_b..from_b + self.group],
            );
            let (scale_a, scales) = (a.scales[row * groups + g], lanes::<_, N>(&b.scales[at_b..]));
            for j in 0..N {
                let scale = scale_a * scales[j];
                nan[j] += scale * 0.0;
                // Two factors: the scales' powers and the unit's are each within f64.
                let units = f64::from(sum[j]) * scale * power(f - e[j]);
                total[j] += to_int::<NATIVE>(units, ToInt::TowardZero);
            }
        }
        for j in 0..N {
            total[j] *= power(e[j] - f);
        }
        let mut d = self.encode.row::<NATIVE, N>(total);
        if any(each(nan, f64::is_nan)) || any_endless(c) {
            for j in 0..N {
                let c = if c[j].is_finite() { d[j] } else { c[j] };
                d[j] = if nan[j].is_nan() { f32::NAN } else { c };
            }
        }
        d
    }
}

/// A row of columns, copied.
#[inline(always)]
fn lanes<T: Copy, const N: usize>(from: &[T]) -> [T; N] {
    from.as_chunks::<N>().0[0]
}

/// The exact sum of a group's products.
#[inline(always)]
fn products<const NATIVE: bool, const N: usize>(a: &[f32], b: &[[f32; N]]) -> [f32; N] {
    let mut sum = [0f32; N];
    over(
        a,
        b,
        #[inline(always)]
        |a, b: &[f32; N]| {
            for j in 0..N {
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
        self.pack(panel, if panel.lines == 1 { 1 } else { NR }, &self.tables[1]);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(tile) = state else { unreachable!("d is at most 32 bits wide") };
        let size = [a.lines, b.lines, a.k];
        let (a, b) = (a.packed::<Packed>(), b.packed::<Packed>());
        wide::on(self.isa, Job { body: &self.body, state: &self.state, a, b, size, steps, tile });
    }
}
