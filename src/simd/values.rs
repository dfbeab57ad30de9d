//! Operands as kernels of f32 and f64 lanes take them: exact f32 values beside the exponents that
//! alignment sees.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::buffer::Buffer;
use crate::accumulate::GenericDot;
use crate::format::{F16, FormatSpec, Specials};
use crate::gemm::kernel::{Panel, Staged};
use crate::instr::ScaleRule;
use crate::num::Num;

/// Columns that a kernel has in hand at once.
pub(super) const NR: usize = 16;
/// An exponent that never wins, even twice.
pub(super) const LOW: i16 = -8000;
/// Exponents beyond which an f32 product could round.
pub(super) const WINDOW: i32 = 40;

/// An operand is special: an infinity, a NaN.
pub(super) const SPECIAL: u8 = 1;
/// An operand's magnitude is outside `2^-WINDOW .. 2^WINDOW`.
pub(super) const FAR: u8 = 2;
/// Operands' magnitudes and last places are so far apart that sums of products may not fit f64.
pub(super) const WIDE: u8 = 4;

/// Whether f32 holds every number of a format.
pub(super) const fn in_f32(spec: &FormatSpec) -> bool {
    spec.fraction_bits <= 23 && spec.max().exponent <= 127 && spec.emin() - spec.fraction_bits as i32 >= -149
}

/// How elements are read before anything is computed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Subnormal numbers are +0.
    pub(super) flush: bool,
    /// Numbers have the exponents they have in f16.
    pub(super) via_f16: bool,
    /// Zeros have their format's smallest exponent; without this, none.
    pub(super) zeros_count: bool,
    /// Every zero is +0.
    pub(super) positive_zero: bool,
}

impl From<&GenericDot> for Reading {
    fn from(g: &GenericDot) -> Self {
        let zeros_count = g.zero_products == crate::accumulate::ZeroProducts::OwnExponent;
        Self { flush: g.flush_inputs, via_f16: g.via_f16, zeros_count, positive_zero: false }
    }
}

/// One element.
#[derive(Clone, Copy, Debug, Default)]
struct Element {
    value: f32,
    exponent: i16,
    flags: u8,
}

/// Decodes elements of a format.
#[derive(Debug)]
pub(super) struct Decoder {
    spec: FormatSpec,
    reading: Reading,
    /// All codes of narrow formats.
    table: Vec<Element>,
}

/// The exact f32 value of a number that has one.
pub(super) fn f32_of(x: &Num) -> f32 {
    let magnitude = if x.is_nan() {
        f32::NAN
    } else if x.is_infinite() {
        f32::INFINITY
    } else {
        let power = f64::from_bits(((1023 + x.exponent - x.frac_bits as i32) as u64) << 52);
        (x.significand as f64 * power) as f32
    };
    if x.negative { -magnitude } else { magnitude }
}

impl Decoder {
    /// A decoder of a format that f32 holds.
    pub(super) fn new(spec: FormatSpec, reading: Reading) -> Self {
        let mut new = Self { spec, reading, table: Vec::new() };
        let bits = spec.storage_bits;
        if bits <= 8 {
            new.table = (0..1u64 << bits).map(|code| new.any(code)).collect();
        }
        new
    }

    fn any(&self, code: u64) -> Element {
        let mut x = self.spec.decode(code);
        if self.reading.flush && x.is_subnormal() {
            x = Num::zero(false, x.exponent, x.frac_bits);
        }
        if self.reading.via_f16 {
            x = F16.decode(F16.encode_result(&x));
        }
        let value = if x.is_zero() && self.reading.positive_zero { 0.0 } else { f32_of(&x) };
        let counts = x.is_finite() && (!x.is_zero() || self.reading.zeros_count);
        let exponent = if counts { x.exponent as i16 } else { LOW };
        Element { value, exponent, flags: flags(value) }
    }

    /// The value of an element, the exponent that alignment sees, and flags.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn value(&self, code: u64) -> (f32, i16, u8) {
        let x = self.element(code);
        (x.value, x.exponent, x.flags)
    }

    #[inline(always)]
    fn element(&self, code: u64) -> Element {
        if let Some(known) = self.table.get((code & self.spec.code_mask()) as usize) {
            return *known;
        }
        let (spec, reading) = (&self.spec, &self.reading);
        let magnitude = code >> spec.ignored_low_bits & ((1 << (spec.exponent_bits + spec.fraction_bits)) - 1);
        let field = (magnitude >> spec.fraction_bits) as i32;
        let top = (1 << spec.exponent_bits) - 1;
        let ordinary = spec.specials == Specials::Ieee && spec.signed && field != 0 && field != top;
        if !ordinary || reading.via_f16 {
            return self.any(code);
        }
        // A normal number: its fields, moved to where f32 has them.
        let rebias = ((127 - spec.bias) as u32) << 23;
        let sign = (code >> (spec.ignored_low_bits + spec.exponent_bits + spec.fraction_bits) & 1) as u32;
        let bits = ((magnitude as u32) << (23 - spec.fraction_bits)).wrapping_add(rebias);
        let value = f32::from_bits(sign << 31 | bits);
        Element { value, exponent: (field - spec.bias) as i16, flags: flags(value) }
    }
}

#[inline(always)]
fn flags(value: f32) -> u8 {
    let exponent = (value.to_bits() >> 23 & 0xFF) as i32;
    if exponent == 255 {
        SPECIAL
    } else if value != 0.0 && (exponent - 127).abs() > WINDOW {
        FAR
    } else {
        0
    }
}

/// Exponents of a step's non-zero elements: the lowest last place and the highest place.
#[derive(Clone, Copy, Debug)]
struct Span(i16, i16);

impl Span {
    const NONE: Self = Self(i16::MAX, i16::MIN);

    #[inline(always)]
    fn take(&mut self, x: &Element, fraction_bits: i16) {
        if x.exponent > LOW {
            *self = Self(self.0.min(x.exponent - fraction_bits), self.1.max(x.exponent + 1));
        }
    }

    /// More than half of f64's bits, with room for 32 products.
    const fn flags(self) -> u8 {
        if self.0 < self.1 && self.1 - self.0 > 24 { WIDE } else { 0 }
    }
}

/// Runs of products that are computed as one, within each step.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// K of a step.
    pub(super) step: usize,
    /// Where each of a step's products goes.
    order: Vec<usize>,
    /// Bounds of a step's blocks, in that order.
    pub(super) blocks: Vec<(usize, usize)>,
}

impl Layout {
    /// Blocks given as lists of k.
    pub(super) fn new(step: usize, blocks: &[Vec<usize>]) -> Self {
        let mut order = vec![0; step];
        let mut bounds = Vec::new();
        let mut next = 0;
        for block in blocks {
            bounds.push((next, next + block.len()));
            for &k in block {
                order[k] = next;
                next += 1;
            }
        }
        Self { step, order, blocks: bounds }
    }

    /// Consecutive runs of `block`.
    pub(super) fn runs(step: usize, block: usize) -> Self {
        Self::new(step, &crate::accumulate::Pattern::Runs.blocks(step, block))
    }
}

/// A packed operand.
///
/// A: `values[line * k + p]`; B: in groups of `NR` columns, `values[(group * k + p) * NR + column]`.
/// Flags and scales are one per line (B's flags: per group) and step.
#[derive(Debug, Default)]
pub(super) struct Values {
    values: Buffer,
    exponents: Buffer,
    /// What holds for some element, per line or group and step.
    pub(super) flags: Vec<u8>,
    /// Exponents of block scales, per line (B: padded to groups) and step and scale slot.
    pub(super) scales: Vec<i32>,
}

impl Values {
    pub(super) fn values(&self) -> &[f32] {
        self.values.view()
    }
    pub(super) fn exponents(&self) -> &[i16] {
        self.exponents.view()
    }

    fn codes(panel: &Panel, at: usize) -> u64 {
        match &panel.codes {
            Staged::Narrow(codes) => codes[at].into(),
            Staged::Wide(codes) => codes[at],
        }
    }

    /// Takes the block scales of lines that are packed already: exponents, and NaN into the elements.
    pub(super) fn take_scales(&mut self, panel: &Panel, rule: &ScaleRule, columns: bool, layout: &Layout) {
        let (lines, k, slots) = (panel.lines, panel.k, panel.k / rule.block);
        let width = if columns { NR } else { 1 };
        self.scales.clear();
        self.scales.resize(lines.div_ceil(width) * slots * width, 0);
        for line in 0..lines {
            let (group, j) = (line / width, line % width);
            for slot in 0..slots {
                let scale = rule.format.decode(panel.scales[line * slots + slot]);
                if scale.is_finite() {
                    self.scales[(group * slots + slot) * width + j] = scale.exponent;
                    continue;
                }
                let from = slot * rule.block;
                self.flags[group * (k / layout.step) + from / layout.step] |= SPECIAL;
                for p in from..from + rule.block {
                    self.values.view_mut::<f32>()[(group * k + p) * width + j] = f32::NAN;
                }
            }
        }
    }

    /// Packs rows of A.
    pub(super) fn pack_rows(panel: &mut Panel, decoder: &Decoder, layout: &Layout) {
        let mut to = panel.take_packed::<Self>();
        let (lines, k) = (panel.lines, panel.k);
        let steps = k / layout.step;
        to.flags.clear();
        to.flags.resize(lines * steps, 0);
        let Self { values, exponents, flags, .. } = &mut *to;
        let (values, exponents) = (values.room::<f32>(lines * k), exponents.room::<i16>(lines * k));
        let bits = decoder.spec.fraction_bits as i16;
        for line in 0..lines {
            for step in 0..steps {
                let (mut seen, mut span) = (0, Span::NONE);
                for (p, &to) in layout.order.iter().enumerate() {
                    let x = decoder.element(Self::codes(panel, line * k + step * layout.step + p));
                    let at = line * k + step * layout.step + to;
                    (values[at], exponents[at]) = (x.value, x.exponent);
                    seen |= x.flags;
                    span.take(&x, bits);
                }
                flags[line * steps + step] = seen | span.flags();
            }
        }
        panel.put_packed(to);
    }

    /// Packs columns of B; those beyond the last are zeros.
    pub(super) fn pack_columns(panel: &mut Panel, decoder: &Decoder, layout: &Layout) {
        let mut to = panel.take_packed::<Self>();
        let (lines, k) = (panel.lines, panel.k);
        let (groups, steps) = (lines.div_ceil(NR), k / layout.step);
        let bits = decoder.spec.fraction_bits as i16;
        to.flags.clear();
        to.flags.resize(groups * steps, 0);
        let Self { values, exponents, flags, .. } = &mut *to;
        let (values, exponents) = (values.room::<f32>(groups * k * NR), exponents.room::<i16>(groups * k * NR));
        for group in 0..groups {
            let columns = NR.min(lines - group * NR);
            for step in 0..steps {
                let (mut seen, mut span) = (0, Span::NONE);
                for (p, &to) in layout.order.iter().enumerate() {
                    let at = (group * k + step * layout.step + to) * NR;
                    let from = (step * layout.step + p) * lines + group * NR;
                    for j in 0..columns {
                        let x = decoder.element(Self::codes(panel, from + j));
                        (values[at + j], exponents[at + j]) = (x.value, x.exponent);
                        seen |= x.flags;
                        span.take(&x, bits);
                    }
                    values[at + columns..at + NR].fill(0.0);
                    exponents[at + columns..at + NR].fill(LOW);
                }
                flags[group * steps + step] = seen | span.flags();
            }
        }
        panel.put_packed(to);
    }
}

/// Whether `from_ieee` reads a format.
pub(super) fn is_ieee(f: &FormatSpec) -> bool {
    f.specials == Specials::Ieee && f.signed && f.subnormals && in_f32(f) && f.storage_bits <= 32
}

/// The value of a code of an IEEE format that f32 holds.
#[inline(always)]
pub(super) fn from_ieee(spec: &FormatSpec, code: u32) -> f32 {
    let width = spec.exponent_bits + spec.fraction_bits;
    let code = code >> spec.ignored_low_bits;
    let magnitude = code & ((1 << width) - 1);
    let sign = (code >> width & 1) << 31;
    let field = magnitude >> spec.fraction_bits;
    let moved = magnitude << (23 - spec.fraction_bits);
    let quantum = f32_power(spec.emin() - spec.fraction_bits as i32);
    let subnormal = (magnitude as i32 as f32 * quantum).to_bits();
    let special = moved | 0x7F80_0000;
    let normal = moved.wrapping_add(((127 - spec.bias) as u32) << 23);
    let bits = if field == (1 << spec.exponent_bits) - 1 { special } else { normal };
    f32::from_bits(if field == 0 { subnormal } else { bits } | sign)
}

/// States of a unit's c and d on their way between codes and f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) c: FormatSpec,
    pub(super) d: FormatSpec,
    /// d's canonical NaN.
    pub(super) nan: u32,
}

impl State {
    /// If f32 holds both formats and d holds c, as IEEE formats.
    pub(super) fn new(c: FormatSpec, d: FormatSpec, nan: crate::special::NanRule) -> Option<Self> {
        let fits = c.fraction_bits <= d.fraction_bits
            && c.max().exponent <= d.max().exponent
            && c.emin() - c.fraction_bits as i32 >= d.emin() - d.fraction_bits as i32;
        let nan = d.nan_code(nan)? as u32;
        (is_ieee(&c) && is_ieee(&d) && fits).then_some(Self { c, d, nan })
    }

    pub(super) const fn is_f32(spec: &FormatSpec) -> bool {
        spec.exponent_bits == 8 && spec.fraction_bits == 23 && spec.ignored_low_bits == 0
    }

    /// The value of a code of c.
    #[inline(always)]
    pub(super) fn load(&self, code: u32) -> f32 {
        let spec = &self.c;
        if Self::is_f32(spec) { f32::from_bits(code) } else { from_ieee(spec, code) }
    }

    /// The code of a value that d holds.
    #[inline(always)]
    pub(super) fn store(&self, x: f32) -> u32 {
        let spec = &self.d;
        if x.is_nan() {
            return self.nan;
        }
        if Self::is_f32(spec) {
            return x.to_bits();
        }
        let width = spec.exponent_bits + spec.fraction_bits;
        let sign = x.to_bits() >> 31 << width;
        let magnitude = x.abs();
        let code = if magnitude < f32_power(spec.emin()) {
            // In two factors: the power alone may be beyond f32.
            let up = spec.fraction_bits as i32 - spec.emin();
            (magnitude * f32_power(up / 2) * f32_power(up - up / 2)) as u32
        } else if magnitude == f32::INFINITY {
            ((1 << spec.exponent_bits) - 1) << spec.fraction_bits
        } else {
            magnitude.to_bits().wrapping_sub(((127 - spec.bias) as u32) << 23) >> (23 - spec.fraction_bits)
        };
        (code | sign) << spec.ignored_low_bits
    }
}

/// `2^e`, subnormal powers too.
#[inline(always)]
pub(super) const fn f32_power(e: i32) -> f32 {
    if e >= -126 { f32::from_bits(((e + 127) as u32) << 23) } else { f32::from_bits(1 << (e + 149)) }
}
