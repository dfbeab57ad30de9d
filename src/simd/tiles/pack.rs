//! Panels: numbers of line groups, position by position, and exponents of their steps.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Family;
use crate::format::FormatSpec;
use crate::gemm::kernel::{Panel, Staged};
use crate::simd::buffer::Buffer;
use crate::simd::decode::{Decoder, Reading, f32_power, from_ieee, is_ieee};

/// f32 exponent fields of the smallest and the largest non-zero element of a line group and step: 255 and 0 where there
/// is none, 0 and 255 beside an infinity or NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) low: u8,
    pub(super) high: u8,
    /// Of the smallest that is not subnormal; 0 beside an infinity or NaN, too.
    pub(super) normal: u8,
    /// Which of a step's first eight positions have subnormal ones, a bit each; none beside an infinity or NaN.
    pub(super) subnormal: u8,
}

impl Fields {
    const NONE: Self = Self { low: 255, high: 0, normal: 255, subnormal: 0 };

    /// Those of several steps at once.
    pub(super) fn all(steps: &[Self]) -> Self {
        let join = |x: Self, y: &Self| Self {
            low: x.low.min(y.low),
            high: x.high.max(y.high),
            normal: x.normal.min(y.normal),
            subnormal: x.subnormal | y.subnormal,
        };
        steps.iter().fold(Self::NONE, join)
    }
}

/// One side's operands: `values[(group * k + p) * width + line in group]`.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) values: Buffer,
    /// By line group and step.
    pub(super) fields: Vec<Fields>,
    /// Exponent of the power that values are multiplied by.
    pub(super) scale: i32,
    /// The numbers themselves, on their way.
    numbers: Buffer,
    line: Vec<f32>,
}

/// How one operand is read.
#[derive(Debug)]
pub(super) struct Source {
    spec: FormatSpec,
    /// Magnitudes below are +0.
    flush: f32,
    /// For formats other than IEEE's.
    decoder: Option<Decoder>,
    /// The place of every element of a unit step.
    order: Vec<usize>,
    /// Elements that fields are of.
    step: usize,
}

impl Source {
    /// For a format that f32 holds, the products of a unit step as its groups take them, and the length of a step.
    pub(super) fn new(spec: FormatSpec, reading: Reading, groups: &[Vec<usize>], step: usize) -> Self {
        let mut order = vec![0; groups.iter().map(Vec::len).sum()];
        groups.iter().flatten().enumerate().for_each(|(place, &k)| order[k] = place);
        let flush = if reading.flush { f32_power(spec.emin()) } else { 0.0 };
        let decoder = (!is_ieee(&spec)).then(|| Decoder::new(spec, reading));
        Self { spec, flush, decoder, order, step }
    }

    /// Packs a panel: rows of A, or columns of B.
    #[inline(always)]
    pub(super) fn pack<F: Family, const W: usize>(&self, panel: &mut Panel, family: &F, columns: bool) {
        let mut to = panel.take_packed::<Packed>();
        let (k, groups) = (panel.k, panel.lines.div_ceil(W));
        let Packed { values, fields, scale, numbers, line } = &mut *to;
        let to_numbers = &mut numbers.room::<f32>(groups * k * W).as_chunks_mut::<W>().0[..groups * k];
        fields.clear();
        fields.resize(groups * k / self.step, Fields::NONE);
        if columns {
            self.columns(panel, to_numbers, fields);
        } else {
            self.rows(panel, line, to_numbers, fields);
        }
        // Of steps without special values.
        let finite = fields.iter().filter(|f| f.high < 255);
        *scale = family.scale(finite.fold(0, |top, f| top.max(f.high)), columns);
        F::values(numbers, values, groups * k * W, *scale);
        panel.put_packed(to);
    }

    /// Rows of A.
    #[inline(always)]
    fn rows<const W: usize>(&self, panel: &Panel, line: &mut Vec<f32>, to: &mut [[f32; W]], fields: &mut [Fields]) {
        let (k, step) = (panel.k, self.order.len());
        line.resize(k, 0.0);
        for (group, to) in to.chunks_exact_mut(k).enumerate() {
            for r in 0..W {
                let row = group * W + r;
                if row < panel.lines {
                    self.numbers(&panel.codes, row * k, line);
                } else {
                    line.fill(0.0);
                }
                for (from, to) in line.chunks_exact(step).zip(to.chunks_exact_mut(step)) {
                    for (x, place) in from.iter().zip(&self.order) {
                        to[*place][r] = *x;
                    }
                }
            }
            // While they are near.
            self.fields(to, &mut fields[group * k / self.step..]);
        }
    }

    /// Columns of B, unit step by unit step: as their codes lie in memory.
    #[inline(always)]
    fn columns<const W: usize>(&self, panel: &Panel, to: &mut [[f32; W]], fields: &mut [Fields]) {
        let (k, lines, step) = (panel.k, panel.lines, self.order.len());
        for from in (0..k).step_by(step) {
            for group in 0..lines.div_ceil(W) {
                let width = W.min(lines - group * W);
                let to = &mut to[group * k + from..][..step];
                for (p, place) in self.order.iter().enumerate() {
                    let (to, at) = (&mut to[*place], (from + p) * lines + group * W);
                    if width == W {
                        // Known to be a whole vector.
                        self.numbers(&panel.codes, at, to);
                    } else {
                        *to = [0.0; W];
                        self.numbers(&panel.codes, at, &mut to[..width]);
                    }
                }
                self.fields(to, &mut fields[(group * k + from) / self.step..]);
            }
        }
    }

    /// The fields of as many steps as there are numbers for.
    #[inline(always)]
    fn fields<const W: usize>(&self, numbers: &[[f32; W]], to: &mut [Fields]) {
        for (numbers, to) in numbers.chunks_exact(self.step).zip(to) {
            *to = fields_of(numbers);
        }
    }

    /// The numbers of codes from `at` on.
    #[inline(always)]
    fn numbers(&self, codes: &Staged, at: usize, to: &mut [f32]) {
        match (codes, &self.decoder) {
            (Staged::Narrow(codes), None) => {
                for (to, code) in to.iter_mut().zip(&codes[at..]) {
                    let x = from_ieee(&self.spec, *code);
                    *to = if x.abs() < self.flush { 0.0 } else { x };
                }
            }
            (_, Some(decoder)) => {
                to.iter_mut().enumerate().for_each(|(i, to)| *to = decoder.value(codes.get(at + i)).0);
            }
            (Staged::Wide(_), None) => unreachable!("f32 holds the format"),
        }
    }
}

/// The exponent fields of a step.
#[inline(always)]
fn fields_of<const W: usize>(numbers: &[[f32; W]]) -> Fields {
    let (mut low, mut high) = ([255u32; W], [0u32; W]);
    for numbers in numbers {
        for j in 0..W {
            let magnitude = numbers[j].to_bits() & 0x7FFF_FFFF;
            let field = magnitude >> 23;
            // An infinity or NaN is both, a zero neither.
            let small = if field == 255 { 0 } else { field };
            low[j] = low[j].min(if magnitude == 0 { 255 } else { small });
            high[j] = high[j].max(field);
        }
    }
    let fold = |x: [u32; W], of: fn(u32, u32) -> u32| x.into_iter().reduce(of).unwrap_or_default() as u8;
    let (low, high) = (fold(low, u32::min), fold(high, u32::max));
    let mut fields = Fields { low, high, normal: low, subnormal: 0 };
    if low == 0 && high < 255 {
        fields.normal = 255;
        for (p, numbers) in numbers.iter().enumerate() {
            let (mut normal, mut subnormal) = (255u32, false);
            for x in numbers {
                normal = normal.min(if x.is_normal() { x.to_bits() << 1 >> 24 } else { 255 });
                subnormal |= x.is_subnormal();
            }
            fields.normal = fields.normal.min(normal as u8);
            fields.subnormal |= u8::from(subnormal && p < 8) << (p % 8);
        }
    }
    fields
}
