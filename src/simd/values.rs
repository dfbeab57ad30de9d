//! Operands as kernels of f32 and f64 lanes take them: exact f32 values beside the exponents that
//! alignment sees.

use super::buffer::{Buffer, Plain};
use super::decode::{Decoder, LOW, Reader, SPECIAL, Seen, TOGETHER, WIDE, f32_power, from_ieee, is_ieee, of_any};
use super::lanes::each;
use super::sixteen::Sixteen;
use super::wide;
use crate::format::FormatSpec;
use crate::gemm::kernel::{Line, Panel};
use crate::instr::ScaleRule;
use crate::view::Rows;

/// Columns that a kernel has in hand at once.
pub(crate) const NR: usize = 16;

/// Runs of products that are computed as one, within each step.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// K of a step.
    pub(super) step: usize,
    /// Runs of a step's products that stay together: where they come from, where they go, and how many.
    runs: Vec<[usize; 3]>,
    /// Where each product comes from, where these are not all as they come.
    order: Vec<usize>,
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
        let order = if runs.len() > 1 { blocks.concat() } else { Vec::new() };
        Self { step, runs, order, blocks: bounds }
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
    flags: Vec<u8>,
    scales: Vec<i16>,
}

/// A packed operand, to be read.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) values: &'a [f32],
    pub(super) exponents: &'a [i16],
    /// What holds for some element, per line or group and step.
    pub(super) flags: &'a [u8],
    /// Exponents of block scales, per line (B: padded to groups) and step and scale slot.
    pub(super) scales: &'a [i16],
}

/// What a block scale does to its elements: its exponent stays beside them, its significand is multiplied into them.
struct Scale {
    exponent: i16,
    significand: f32,
    /// Whether that is 1.
    is_power: bool,
    flags: u8,
}

impl Scale {
    #[inline(always)]
    fn of(rule: &ScaleRule, code: u64) -> Self {
        let scale = rule.format.decode(code);
        if !scale.is_finite() {
            return Self { exponent: 0, significand: f32::NAN, is_power: false, flags: SPECIAL };
        }
        // A few bits, without a sign, divided by a power of two.
        let significand = scale.significand as f32 / f32_power(scale.frac_bits as i32);
        let is_power = significand == 1.0;
        // Products take more bits than their exponents say.
        let flags = if is_power { 0 } else { WIDE };
        Self { exponent: scale.exponent as i16, significand, is_power, flags }
    }

    /// Where the scale is no power of two: an element's value, and the exponent that alignment sees, none for zeros.
    #[inline(always)]
    fn apply(&self, value: &mut f32, exponent: &mut i16) {
        *value *= self.significand;
        *exponent = if self.significand == 0.0 { LOW } else { *exponent };
    }
}

/// One line of one step, packed; kept from one to the next.
#[derive(Debug)]
pub(crate) struct Short {
    codes: [u32; Self::MOST],
    values: [f32; Self::MOST],
    exponents: [i16; Self::MOST],
    scales: [i16; Self::MOST],
    flags: u8,
}

impl Default for Short {
    fn default() -> Self {
        let (codes, values) = ([0; Self::MOST], [0.0; Self::MOST]);
        Self { codes, values, exponents: [0; Self::MOST], scales: [0; Self::MOST], flags: 0 }
    }
}

impl Short {
    /// Elements, at most.
    pub(super) const MOST: usize = 64;

    #[inline(always)]
    pub(super) fn pack(&mut self, line: Line<'_>, decoder: &Decoder, layout: &Layout, rule: Option<&ScaleRule>) {
        let Self { codes, values, exponents, scales, flags } = self;
        let (in_order, mut seen) = (layout.order.is_empty(), Seen::NOTHING);
        if let (true, Some(fields)) = (in_order, decoder.together()) {
            decoder.read_together(fields, line.codes, values, exponents, &mut seen);
        } else {
            if in_order {
                codes.iter_mut().zip(line.codes).for_each(|(to, &code)| *to = code as u32);
            }
            codes.iter_mut().zip(&layout.order).for_each(|(to, &from)| *to = line.codes[from] as u32);
            // Zeros beyond the last, so that no code is read alone.
            let whole = layout.step.next_multiple_of(TOGETHER);
            codes[layout.step..whole].fill(0);
            decoder.read(&codes[..whole], &mut values[..whole], &mut exponents[..whole], &mut seen);
        }
        *flags = seen.flags(&decoder.spec);
        let Some(rule) = rule else { return };
        let blocks = values.chunks_mut(rule.block).zip(exponents.chunks_mut(rule.block)).zip(scales);
        for (&code, ((values, exponents), exponent)) in line.scales.iter().zip(blocks) {
            let scale = Scale::of(rule, code);
            *exponent = scale.exponent;
            *flags |= scale.flags;
            if !scale.is_power {
                values.iter_mut().zip(exponents).for_each(|(x, e)| scale.apply(x, e));
            }
        }
    }

    #[inline(always)]
    pub(super) fn lines(&self) -> Lines<'_> {
        let Self { values, exponents, flags, scales, .. } = self;
        Lines { values, exponents, flags: core::slice::from_ref(flags), scales }
    }
}

/// One step of `NR` lines side by side, packed; kept from one to the next.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(super) values: [[f32; NR]; Self::MOST],
    pub(super) exponents: [[i16; NR]; Self::MOST],
    /// What holds for some element.
    pub(super) flags: u8,
    /// Exponents of block scales, by scale slot.
    pub(super) scales: [[i16; NR]; Self::MOST],
}

impl Default for Columns {
    fn default() -> Self {
        let (values, exponents) = ([[0.0; NR]; Self::MOST], [[0; NR]; Self::MOST]);
        Self { values, exponents, flags: 0, scales: exponents }
    }
}

impl Columns {
    /// Elements of a line, at most.
    pub(super) const MOST: usize = Short::MOST;

    #[inline(always)]
    pub(super) fn pack(
        &mut self,
        lines: &[Line<'_>; NR],
        decoder: &Decoder,
        layout: &Layout,
        rule: Option<&ScaleRule>,
    ) {
        match decoder.fields {
            Some(fields) => self.fill(lines, decoder, layout, &fields),
            None => self.fill(lines, decoder, layout, decoder),
        }
        let Some(rule) = rule else { return };
        let elements = self.values[..layout.step].chunks_mut(rule.block).zip(self.exponents.chunks_mut(rule.block));
        for (slot, ((values, exponents), scales)) in elements.zip(&mut self.scales).enumerate() {
            for (j, line) in lines.iter().enumerate() {
                let scale = Scale::of(rule, line.scales[slot]);
                scales[j] = scale.exponent;
                self.flags |= scale.flags;
                if !scale.is_power {
                    values.iter_mut().zip(&mut *exponents).for_each(|(x, e)| scale.apply(&mut x[j], &mut e[j]));
                }
            }
        }
    }

    #[inline(always)]
    fn fill(&mut self, lines: &[Line<'_>; NR], decoder: &Decoder, layout: &Layout, reader: &impl Reader) {
        const AT_ONCE: usize = 4;
        let (mut flags, mut seen, mut codes) = ([0; NR], Seen::NOTHING, [[0; NR]; AT_ONCE]);
        for start in (0..layout.step).step_by(AT_ONCE) {
            let to = start..layout.step.min(start + AT_ONCE);
            for (j, line) in lines.iter().enumerate() {
                if layout.order.is_empty() {
                    let line = &line.codes[to.clone()];
                    if let Ok(line) = <&[u64; AT_ONCE]>::try_from(line) {
                        for p in 0..AT_ONCE {
                            codes[p][j] = line[p] as u32;
                        }
                    } else {
                        codes.iter_mut().zip(line).for_each(|(row, &code)| row[j] = code as u32);
                    }
                } else {
                    let order = &layout.order[to.clone()];
                    codes.iter_mut().zip(order).for_each(|(row, &from)| row[j] = line.codes[from] as u32);
                }
            }
            let places = self.values[to.clone()].iter_mut().zip(&mut self.exponents[to]);
            for ((values, exponents), codes) in places.zip(&codes) {
                let of_row;
                (*values, *exponents, of_row) = reader.lanes(codes);
                for j in 0..NR {
                    flags[j] |= of_row[j];
                }
                seen.take(exponents, 0, decoder.reading.spans);
            }
        }
        self.flags = of_any(flags) | seen.flags(&decoder.spec);
    }
}

impl Values {
    pub(super) fn lines(&self) -> Lines<'_> {
        let (values, exponents) = (self.values.view(), self.exponents.view());
        Lines { values, exponents, flags: &self.flags, scales: &self.scales }
    }

    /// Takes the block scales of lines that are packed already: exponents, and NaN into the elements.
    pub(super) fn take_scales(&mut self, panel: &Panel, rule: &ScaleRule, columns: bool, layout: &Layout) {
        let (lines, k, slots) = (panel.lines, panel.k, panel.k / rule.block);
        let width = if columns && lines > 1 { NR } else { 1 };
        self.scales.clear();
        self.scales.resize(lines.div_ceil(width) * slots * width, 0);
        for line in 0..lines.next_multiple_of(width) {
            let (group, j) = (line / width, line % width);
            for slot in 0..slots {
                // Padding is like the last column.
                let scale = Scale::of(rule, panel.scale(line.min(lines - 1), slot));
                self.scales[(group * slots + slot) * width + j] = scale.exponent;
                if scale.is_power {
                    continue;
                }
                let from = slot * rule.block;
                self.flags[group * (k / layout.step) + from / layout.step] |= scale.flags;
                let (values, exponents) = (self.values.view_mut::<f32>(), self.exponents.view_mut::<i16>());
                for at in (from..from + rule.block).map(|p| (group * k + p) * width + j) {
                    scale.apply(&mut values[at], &mut exponents[at]);
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

    /// Packs columns of B, whose codes at a position of K are a row; those beyond the last are like it, so
    /// that they take no other way than the rest.
    #[inline(always)]
    pub(super) fn pack_columns<T: Plain + Into<u32>>(
        panel: &mut Panel,
        codes: Rows<'_, T>,
        decoder: &Decoder,
        sixteen: Option<&Sixteen>,
        layout: &Layout,
    ) {
        let mut to = panel.take_packed::<Self>();
        to.reset(panel, layout, NR);
        let size = [panel.lines, panel.k];
        // What is read by fields has them in registers for all of the panel.
        match decoder.fields {
            Some(fields) => to.fill_columns(codes, size, (decoder, sixteen), layout, &fields),
            // `Sixteen` is for formats that are read by fields.
            None => to.fill_columns(codes, size, (decoder, None), layout, decoder),
        }
        panel.put_packed(to);
    }

    #[inline(always)]
    fn fill_columns<T: Plain + Into<u32>>(
        &mut self,
        codes: Rows<'_, T>,
        [lines, k]: [usize; 2],
        (decoder, sixteen): (&Decoder, Option<&Sixteen>),
        layout: &Layout,
        reader: &impl Reader,
    ) {
        let (steps, spans) = (k / layout.step, decoder.reading.spans);
        let all_values = self.values.view_mut::<f32>().as_chunks_mut::<NR>().0;
        let all_exponents = self.exponents.view_mut::<i16>().as_chunks_mut::<NR>().0;
        // In the order of memory: step by step.
        for (step, group) in (0..steps).flat_map(|step| (0..lines.div_ceil(NR)).map(move |group| (step, group))) {
            let (start, first, mut seen) = (step * layout.step, group * NR, Seen::NOTHING);
            let (width, mut flags) = (NR.min(lines - first), [0; NR]);
            for p in start + layout.step..k.min(start + 2 * layout.step) {
                wide::near(&codes.row(p)[first]);
            }
            let to_group = (group * k + start)..(group * k + start + layout.step);
            let (values, exponents) = (&mut all_values[to_group.clone()], &mut all_exponents[to_group]);
            if let Some(sixteen) = sixteen.filter(|_| width == NR) {
                let flags = sixteen.read(&codes, [start, first], &layout.order, (values, exponents));
                if let Some(flags) = flags {
                    self.flags[group * steps + step] = flags;
                    continue;
                }
            }
            for &[from, to, length] in &layout.runs {
                let places = values[to..to + length].iter_mut().zip(&mut exponents[to..to + length]);
                for (p, (values, exponents)) in (start + from..).zip(places) {
                    let row = &codes.row(p)[first..first + width];
                    let of_row;
                    if let Ok(row) = row.try_into() {
                        (*values, *exponents, of_row) = reader.lanes(&each::<T, u32, NR>(row, T::into));
                    } else {
                        let mut all = [row[width - 1]; NR];
                        all[..width].copy_from_slice(row);
                        (*values, *exponents, of_row) = reader.lanes(&each(all, T::into));
                    }
                    for j in 0..NR {
                        flags[j] |= of_row[j];
                    }
                    seen.take(exponents, 0, spans);
                }
            }
            self.flags[group * steps + step] = of_any(flags) | seen.flags(&decoder.spec);
        }
    }
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

    /// The values of codes of c.
    #[inline(always)]
    pub(super) fn load_all<const N: usize>(&self, codes: [u32; N]) -> [f32; N] {
        // The question is put once, not in every lane.
        if Self::is_f32(&self.c) { each(codes, f32::from_bits) } else { each(codes, |code| self.load(code)) }
    }

    /// The codes of values that d holds.
    #[inline(always)]
    pub(super) fn store_all<const N: usize>(&self, d: [f32; N]) -> [u32; N] {
        let Self { nan, .. } = *self;
        if Self::is_f32(&self.d) {
            each(d, |x| if x.is_nan() { nan } else { x.to_bits() })
        } else {
            each(d, |x| self.store(x))
        }
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
