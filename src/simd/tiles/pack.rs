//! Panels: numbers of line groups, position by position, and exponents of their steps.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::set::Set;
use super::{Family, MR, NR};
use crate::format::{BF16, F16, FormatSpec};
use crate::simd::buffer::{Buffer, Plain};
use crate::simd::decode::{Decoder, Reader, Reading, f32_power};
use crate::simd::lanes::each;
use crate::simd::ops::array_of;
use crate::simd::squares::{SIDE, turn_as_wide};
use crate::view::{Rows, Word};

const _: () = assert!(MR == SIDE && NR == 2 * MR);

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
    /// Codes of some lines, side by side.
    turned: Buffer,
}

/// How numbers come of codes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// f16's own.
    Half,
    /// bf16: f32's upper half.
    Upper,
    /// By the decoder.
    Other,
}

/// How one operand is read.
#[derive(Debug)]
pub(super) struct Source {
    how: How,
    decoder: Decoder,
    /// Magnitudes below are +0.
    least: f32,
    /// The element of a unit step at each place; none where they stay where they are.
    order: Vec<usize>,
    /// Elements of a unit step, and those that fields are of.
    unit: usize,
    step: usize,
}

impl Source {
    /// For a format that f32 holds, the products of a unit step as its groups take them, and the length of a step.
    pub(super) fn new(spec: FormatSpec, reading: Reading, groups: &[Vec<usize>], step: usize) -> Self {
        let is = |other: FormatSpec| FormatSpec { name: other.name, ..spec } == other;
        let how = match () {
            () if reading.flush != reading.positive_zero => How::Other,
            () if is(F16) => How::Half,
            () if is(BF16) => How::Upper,
            () => How::Other,
        };
        let order: Vec<usize> = groups.iter().flatten().copied().collect();
        let (unit, stays) = (order.len(), order.iter().enumerate().all(|(place, k)| place == *k));
        let order = if stays { Vec::new() } else { order };
        let least = if reading.flush { f32_power(spec.emin()) } else { 0.0 };
        Self { how, decoder: Decoder::new(spec, reading), least, order, unit, step }
    }

    /// Makes room for so many line groups of `W`.
    pub(super) fn begin<const W: usize>(&self, to: &mut Packed, groups: usize, k: usize) {
        to.numbers.room::<f32>(groups * k * W);
        to.fields.clear();
        to.fields.resize(groups * k / self.step, Fields::NONE);
    }

    /// Makes values of the numbers of all of these groups.
    #[inline(always)]
    pub(super) fn end<F: Family, const W: usize>(&self, to: &mut Packed, groups: usize, k: usize, family: &F) {
        // Of steps without special values.
        let finite = to.fields.iter().filter(|f| f.high < 255);
        to.scale = family.scale(finite.fold(0, |top, f| top.max(f.high)), W == NR);
        F::values(&mut to.numbers, &mut to.values, groups * k * W, to.scale);
    }

    /// Reads so many rows of A.
    #[inline(always)]
    pub(super) fn lines<S: Set, T: Word + Into<u32> + Default>(
        &self,
        set: S,
        to: &mut Packed,
        rows: &Rows<'_, T>,
        count: usize,
    ) {
        let (mut turned, k) = (core::mem::take(&mut to.turned), rows.row(0).len());
        let codes = &mut turned.room::<T>(k * MR)[..k * MR];
        for group in 0..count.div_ceil(MR) {
            let there = MR.min(count - group * MR);
            let lines: [&[T]; SIDE] = array_of(|r| rows.row(group * MR + r.min(there - 1)));
            for p in turn_as_wide(lines, codes, MR)..k {
                lines.iter().enumerate().for_each(|(r, line)| codes[p * MR + r] = line[p]);
            }
            if there < MR {
                // Of lines that are not there nobody wants anything.
                codes.chunks_exact_mut(MR).for_each(|codes| codes[there..].fill(T::default()));
            }
            // While they are near.
            self.eights(set, to, group, codes);
        }
        to.turned = turned;
    }

    /// Reads a line group of eight, whose codes stand position after position.
    #[inline(always)]
    pub(super) fn eights<S: Set, T: Plain + Into<u32>>(&self, set: S, to: &mut Packed, group: usize, codes: &[T]) {
        let Packed { numbers, fields, .. } = to;
        let k = codes.len() / MR;
        let numbers = &mut numbers.view_mut::<f32>().as_chunks_mut().0[group * k..][..k];
        let fields = &mut fields[group * k / self.step..];
        let steps = codes.chunks_exact(self.unit * MR).zip(numbers.chunks_exact_mut(self.unit));
        for ((codes, numbers), fields) in steps.zip(fields.chunks_exact_mut(self.unit / self.step)) {
            self.read::<_, _, MR>(set, &Rows::of(codes, MR), [0; 2], numbers);
            self.look(numbers, fields);
        }
    }

    /// Reads a unit step of some of sixteen lines, whose codes begin at a row and column, to positions from `at` on.
    #[inline(always)]
    pub(super) fn sixteens<S: Set, T: Plain + Into<u32>>(
        &self,
        set: S,
        to: &mut Packed,
        at: usize,
        codes: &Rows<'_, T>,
        [from, first]: [usize; 2],
        width: usize,
    ) {
        let Packed { numbers, fields, .. } = to;
        let numbers = &mut numbers.view_mut::<f32>().as_chunks_mut().0[at..][..self.unit];
        if width == NR {
            self.read::<_, _, NR>(set, codes, [from, first], numbers);
        } else {
            for (place, to) in numbers.iter_mut().enumerate() {
                let mut words = [0u32; NR];
                let codes = &codes.row(from + self.at(place))[first..][..width];
                words.iter_mut().zip(codes).for_each(|(to, &code)| *to = code.into());
                *to = self.others(&words);
            }
        }
        self.look(numbers, &mut fields[at / self.step..]);
    }

    /// The element at a place of a unit step.
    #[inline(always)]
    fn at(&self, place: usize) -> usize {
        if self.order.is_empty() { place } else { self.order[place] }
    }

    /// Reads a unit step of so many lines.
    #[inline(always)]
    fn read<S: Set, T: Plain + Into<u32>, const W: usize>(
        &self,
        set: S,
        codes: &Rows<'_, T>,
        [from, first]: [usize; 2],
        to: &mut [[f32; W]],
    ) {
        // One loop for each way.
        macro_rules! read {
            ($codes:ident => $numbers:expr) => {
                for (place, to) in to.iter_mut().enumerate() {
                    let $codes: &[T; W] =
                        codes.row(from + self.at(place))[first..].first_chunk().expect("whole groups");
                    *to = $numbers;
                }
            };
        }
        let least = self.least;
        let flushed = |x: f32| if x.abs() < least { 0.0 } else { x };
        match self.how {
            How::Half => read!(codes => {
                let mut numbers = [0.0; W];
                for (to, codes) in numbers.as_chunks_mut().0.iter_mut().zip(codes.as_chunks().0) {
                    *to = each(set.halves(each(*codes, |code| code.into() as u16)), flushed);
                }
                numbers
            }),
            How::Upper => read!(codes => each(*codes, |code| flushed(f32::from_bits(code.into() << 16)))),
            _ => read!(codes => self.others(&each(*codes, Into::into))),
        }
    }

    /// The numbers of codes of any format.
    #[inline(always)]
    fn others<const W: usize>(&self, codes: &[u32; W]) -> [f32; W] {
        match self.decoder.together() {
            Some(fields) => fields.lanes(codes).0,
            None => self.decoder.lanes(codes).0,
        }
    }

    /// The fields of as many steps as there are numbers for.
    #[inline(always)]
    fn look<const W: usize>(&self, numbers: &[[f32; W]], to: &mut [Fields]) {
        for (numbers, to) in numbers.chunks_exact(self.step).zip(to) {
            *to = fields_of(numbers);
        }
    }
}

/// The exponent fields of a step.
#[inline(always)]
fn fields_of<const W: usize>(numbers: &[[f32; W]]) -> Fields {
    // By eight, as they have just been stored: wider loads would have to wait for that.
    const EIGHT: usize = 8;
    // Magnitudes; the smallest less 1, for zeros are the largest of these.
    let (mut least, mut most) = ([u32::MAX; EIGHT], [0u32; EIGHT]);
    for numbers in numbers.as_flattened().as_chunks::<EIGHT>().0 {
        for j in 0..EIGHT {
            let magnitude = numbers[j].to_bits() & 0x7FFF_FFFF;
            least[j] = least[j].min(magnitude.wrapping_sub(1));
            most[j] = most[j].max(magnitude);
        }
    }
    let (least, most) = (least.into_iter().fold(u32::MAX, u32::min), most.into_iter().fold(0, u32::max));
    let high = (most >> 23) as u8;
    let low = match least {
        // An infinity or NaN is both, a zero neither.
        _ if high == 255 => 0,
        u32::MAX => 255,
        least => ((least + 1) >> 23) as u8,
    };
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
