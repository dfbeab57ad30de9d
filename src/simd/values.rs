//! Operands as kernels of f32 and f64 lanes take them: exact f32 values beside the exponents that
//! alignment sees.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::buffer::Buffer;
use super::lanes::any;
use crate::accumulate::GenericDot;
use crate::format::{F16, FormatSpec, Specials};
use crate::gemm::kernel::Panel;
use crate::instr::ScaleRule;
use crate::num::Num;

/// Columns that a kernel has in hand at once.
pub(super) const NR: usize = 16;
/// Elements that are read together.
const TOGETHER: usize = 8;
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

/// Whether f32 holds every number of a format, and its normal ones as normal ones.
pub(super) const fn in_f32(spec: &FormatSpec) -> bool {
    spec.fraction_bits <= 23 && spec.max().exponent <= 127 && spec.emin() >= -126
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
    /// Whether steps are told apart by [`WIDE`].
    pub(super) spans: bool,
}

impl From<&GenericDot> for Reading {
    fn from(g: &GenericDot) -> Self {
        let zeros_count = g.zero_products == crate::accumulate::ZeroProducts::OwnExponent;
        Self { flush: g.flush_inputs, via_f16: g.via_f16, zeros_count, ..Self::default() }
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
    /// How other codes of IEEE formats are read.
    ieee: Option<Ieee>,
}

/// How codes of an IEEE format are read together: their fields move to where f32 has them.
#[derive(Clone, Copy, Debug)]
struct Ieee {
    ignored: u32,
    fraction_bits: u32,
    /// Bits below the sign.
    width: u32,
    /// The exponent field of infinities and NaN.
    top: u32,
    up: u32,
    rebias: u32,
    /// Exponent fields below are those of multiples of the quantum: none where f32's own exponents are.
    subnormal: u32,
    quantum: f32,
    /// Magnitudes below are +0.
    least: f32,
    /// Added to every value: +0 where zeros are positive, or -0.
    zero: f32,
    zero_exponent: i32,
    emin: i32,
}

impl Ieee {
    fn new(spec: &FormatSpec, reading: Reading) -> Option<Self> {
        if !is_ieee(spec) || reading.via_f16 {
            return None;
        }
        let (emin, same) = (spec.emin(), spec.exponent_bits == 8 && spec.bias == 127);
        Some(Self {
            ignored: spec.ignored_low_bits,
            fraction_bits: spec.fraction_bits,
            width: spec.exponent_bits + spec.fraction_bits,
            top: (1 << spec.exponent_bits) - 1,
            up: 23 - spec.fraction_bits,
            rebias: ((127 - spec.bias) as u32) << 23,
            subnormal: u32::from(!same),
            // A power that is subnormal itself would make every product slow.
            quantum: if same { 0.0 } else { f32_power(emin - spec.fraction_bits as i32) },
            least: if reading.flush { f32_power(emin) } else { 0.0 },
            zero: if reading.positive_zero { 0.0 } else { -0.0 },
            zero_exponent: if reading.zeros_count { emin } else { LOW.into() },
            emin,
        })
    }

    /// Values, the exponents that alignment sees, and what holds for some of them.
    #[inline(always)]
    fn read(&self, codes: &[u32; TOGETHER]) -> ([f32; TOGETHER], [i16; TOGETHER], u8) {
        let (mut values, mut exponents) = ([0f32; TOGETHER], [0i16; TOGETHER]);
        let (mut special, mut far) = ([false; TOGETHER], [false; TOGETHER]);
        for j in 0..TOGETHER {
            let code = codes[j] >> self.ignored;
            let (magnitude, sign) = (code & ((1 << self.width) - 1), (code >> self.width & 1) << 31);
            let (field, moved) = (magnitude >> self.fraction_bits, magnitude << self.up);
            let subnormal = (magnitude as i32 as f32 * self.quantum).to_bits();
            let normal = moved.wrapping_add(self.rebias);
            let bits = if field == self.top { moved | 0x7F80_0000 } else { normal };
            let x = f32::from_bits(if field < self.subnormal { subnormal } else { bits });
            let x = if x < self.least { 0.0 } else { x };
            let zero_sign = if x == 0.0 && magnitude != 0 { 0 } else { sign };
            values[j] = f32::from_bits(x.to_bits() | zero_sign) + self.zero;
            let exponent = (field as i32).max(1) - 1 + self.emin;
            let finite = if x == 0.0 { self.zero_exponent } else { exponent };
            exponents[j] = if field == self.top { LOW } else { finite as i16 };
            special[j] = field == self.top;
            let place = (x.to_bits() >> 23) as i32 - 127;
            far[j] = (field != self.top) & (x != 0.0) & (place.abs() > WINDOW);
        }
        let flags = if any(special) { SPECIAL } else { 0 } | if any(far) { FAR } else { 0 };
        (values, exponents, flags)
    }
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
        let bits = spec.storage_bits;
        let ieee = Ieee::new(&spec, reading).filter(|_| bits > 8);
        let mut new = Self { spec, reading, table: Vec::new(), ieee };
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

    /// Reads elements one after another.
    #[inline(always)]
    fn read(&self, codes: &[u32], values: &mut [f32], exponents: &mut [i16], seen: &mut Seen) {
        let spans = self.reading.spans;
        let Some(ieee) = &self.ieee else {
            for ((&code, value), exponent) in codes.iter().zip(values).zip(exponents) {
                let x = self.element(code.into());
                (*value, *exponent) = (x.value, x.exponent);
                seen.take(&[x.exponent], x.flags, spans);
            }
            return;
        };
        let (codes, rest) = codes.as_chunks();
        let (values, last_values) = values.as_chunks_mut();
        let (exponents, last_exponents) = exponents.as_chunks_mut();
        for ((codes, values), exponents) in codes.iter().zip(values).zip(exponents) {
            let flags;
            (*values, *exponents, flags) = ieee.read(codes);
            seen.take(exponents, flags, spans);
        }
        if !rest.is_empty() {
            let mut codes = [0; TOGETHER];
            codes.iter_mut().zip(rest).for_each(|(to, code)| *to = *code);
            let (values, exponents, flags) = ieee.read(&codes);
            seen.take(&exponents[..rest.len()], flags, spans);
            last_values.iter_mut().zip(values).for_each(|(to, x)| *to = x);
            last_exponents.iter_mut().zip(exponents).for_each(|(to, e)| *to = e);
        }
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

/// What a step's elements have, and the lowest and highest of their exponents, if these are wanted.
#[derive(Clone, Copy, Debug)]
struct Seen {
    flags: u8,
    low: i16,
    high: i16,
}

impl Seen {
    const NOTHING: Self = Self { flags: 0, low: i16::MAX, high: LOW };

    #[inline(always)]
    fn take(&mut self, exponents: &[i16], flags: u8, spans: bool) {
        self.flags |= flags;
        if spans {
            for &exponent in exponents {
                self.low = self.low.min(if exponent == LOW { i16::MAX } else { exponent });
                self.high = self.high.max(exponent);
            }
        }
    }

    /// Flags of them all. From the lowest last place to the highest place, more than half of f64's bits are wide, with
    /// room for 32 products.
    const fn flags(self, spec: &FormatSpec) -> u8 {
        let bits = self.high as i32 + 1 - self.low as i32 + spec.fraction_bits as i32;
        self.flags | if bits > 24 { WIDE } else { 0 }
    }
}

/// Runs of products that are computed as one, within each step.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// K of a step.
    pub(super) step: usize,
    /// Runs of a step's products that stay together: where they come from, where they go, and how many.
    runs: Vec<[usize; 3]>,
    /// Bounds of a step's blocks, in that order.
    pub(super) blocks: Vec<(usize, usize)>,
}

impl Layout {
    /// Blocks given as lists of k.
    pub(super) fn new(step: usize, blocks: &[Vec<usize>]) -> Self {
        let (mut runs, mut bounds) = (Vec::<[usize; 3]>::new(), Vec::new());
        let mut next = 0;
        for block in blocks {
            bounds.push((next, next + block.len()));
            for &k in block {
                match runs.last_mut() {
                    Some([from, _, length]) if *from + *length == k => *length += 1,
                    _ => runs.push([k, next, 1]),
                }
                next += 1;
            }
        }
        Self { step, runs, blocks: bounds }
    }

    /// Consecutive runs of `block`.
    pub(super) fn runs(step: usize, block: usize) -> Self {
        Self::new(step, &crate::accumulate::Pattern::Runs.blocks(step, block))
    }
}

/// A packed operand.
///
/// A, and a single column of B: `values[line * k + p]`; else B in groups of `NR` columns,
/// `values[(group * k + p) * NR + column]`.
/// Flags and scales are one per line (B's flags: per group) and step.
#[derive(Debug, Default)]
pub(super) struct Values {
    values: Buffer,
    exponents: Buffer,
    /// What holds for some element, per line or group and step.
    pub(super) flags: Vec<u8>,
    /// Exponents of block scales, per line (B: padded to groups) and step and scale slot.
    pub(super) scales: Vec<i16>,
}

impl Values {
    pub(super) fn values(&self) -> &[f32] {
        self.values.view()
    }
    pub(super) fn exponents(&self) -> &[i16] {
        self.exponents.view()
    }

    /// Takes the block scales of lines that are packed already: exponents, and NaN into the elements.
    pub(super) fn take_scales(&mut self, panel: &Panel, rule: &ScaleRule, columns: bool, layout: &Layout) {
        let (lines, k, slots) = (panel.lines, panel.k, panel.k / rule.block);
        let width = if columns && lines > 1 { NR } else { 1 };
        self.scales.clear();
        self.scales.resize(lines.div_ceil(width) * slots * width, 0);
        for line in 0..lines {
            let (group, j) = (line / width, line % width);
            for slot in 0..slots {
                let scale = rule.format.decode(panel.scales[line * slots + slot]);
                if scale.is_finite() {
                    self.scales[(group * slots + slot) * width + j] = scale.exponent as i16;
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

    /// Makes room for lines side by side, `width` to a group.
    fn reset(&mut self, panel: &Panel, layout: &Layout, width: usize) {
        let groups = panel.lines.div_ceil(width);
        self.flags.clear();
        self.flags.resize(groups * (panel.k / layout.step), 0);
        self.values.room::<f32>(groups * panel.k * width);
        self.exponents.room::<i16>(groups * panel.k * width);
    }

    /// Packs rows of A, or a single column of B.
    #[inline(always)]
    pub(super) fn pack_rows(panel: &mut Panel, decoder: &Decoder, layout: &Layout) {
        let mut to = panel.take_packed::<Self>();
        to.reset(panel, layout, 1);
        let (values, exponents) = (to.values.view_mut::<f32>(), to.exponents.view_mut::<i16>());
        // All lines' steps are alike.
        for (step, flags) in to.flags.iter_mut().enumerate() {
            let (start, mut seen) = (step * layout.step, Seen::NOTHING);
            for &[from, to, length] in &layout.runs {
                let codes = &panel.codes.narrow()[start + from..][..length];
                let at = start + to..start + to + length;
                decoder.read(codes, &mut values[at.clone()], &mut exponents[at], &mut seen);
            }
            *flags = seen.flags(&decoder.spec);
        }
        panel.put_packed(to);
    }

    /// Packs columns of B; those beyond the last are zeros.
    #[inline(always)]
    pub(super) fn pack_columns(panel: &mut Panel, decoder: &Decoder, layout: &Layout) {
        let mut to = panel.take_packed::<Self>();
        to.reset(panel, layout, NR);
        let (lines, k, steps) = (panel.lines, panel.k, panel.k / layout.step);
        let (values, exponents) = (to.values.view_mut::<f32>(), to.exponents.view_mut::<i16>());
        for (at, flags) in to.flags.iter_mut().enumerate() {
            let (group, start, mut seen) = (at / steps, at % steps * layout.step, Seen::NOTHING);
            let columns = NR.min(lines - group * NR);
            for &[from, to, length] in &layout.runs {
                for p in 0..length {
                    let codes = &panel.codes.narrow()[(start + from + p) * lines + group * NR..][..columns];
                    let at = (group * k + start + to + p) * NR;
                    let (values, exponents) = (&mut values[at..at + NR], &mut exponents[at..at + NR]);
                    decoder.read(codes, &mut values[..columns], &mut exponents[..columns], &mut seen);
                    values[columns..].fill(0.0);
                    exponents[columns..].fill(LOW);
                }
            }
            *flags = seen.flags(&decoder.spec);
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
    if spec.exponent_bits == 8 && spec.bias == 127 {
        // f32's own exponents. (Below, powers that are subnormal would cost more than all the rest.)
        return f32::from_bits(moved | sign);
    }
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

/// `2^e`, subnormal powers too; beyond f32's exponents 0 or infinity.
#[inline(always)]
pub(super) const fn f32_power(e: i32) -> f32 {
    match e {
        128.. => f32::INFINITY,
        -126..=127 => f32::from_bits(((e + 127) as u32) << 23),
        -149..=-127 => f32::from_bits(1 << (e + 149)),
        _ => 0.0,
    }
}
