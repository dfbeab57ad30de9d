//! Codes of operands on their way to exact f32 values and the exponents that alignment sees.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use crate::accumulate::GenericDot;
use crate::format::{F16, FormatSpec, Specials};
use crate::num::Num;
use crate::simd::lanes::each;
use core::hint::select_unpredictable;

/// Elements that are read together.
pub(super) const TOGETHER: usize = 8;
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

/// Whether f16 holds every number of a format.
const fn in_f16(spec: &FormatSpec) -> bool {
    let last = spec.emin() - spec.fraction_bits as i32;
    spec.fraction_bits <= 10 && spec.max().exponent <= 15 && last >= F16.emin() - 10
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
    pub(super) spec: FormatSpec,
    pub(super) reading: Reading,
    /// All bytes, for narrow formats: what a byte has above the code does not matter.
    table: Option<Box<[Element; 256]>>,
    /// How codes are read together, but for formats that f16 rounds or that have numbers of their own.
    pub(super) fields: Option<Fields>,
}

/// How codes are read together: their fields move to where f32 has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    ignored: u32,
    fraction_bits: u32,
    /// Bits below the sign.
    width: u32,
    /// The sign's bit, if there is one.
    sign: u32,
    /// Magnitudes from here on are infinities and NaN.
    special: u32,
    /// Whether the negative zero is NaN instead.
    zero_special: bool,
    /// What makes these bits infinite or NaN in f32.
    endless: u32,
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
    /// The lowest exponent: that of subnormal numbers, the format's or f16's.
    lowest: i32,
}

/// Values, the exponents that alignment sees, and flags.
pub(super) type Read<const W: usize> = ([f32; W], [i16; W], [u32; W]);

/// What holds for some lane.
#[inline(always)]
pub(super) fn of_any<const W: usize>(flags: [u32; W]) -> u8 {
    flags.iter().fold(0, |all, flags| all | flags) as u8
}

impl Fields {
    fn new(spec: &FormatSpec, reading: Reading) -> Option<Self> {
        if !spec.subnormals || !in_f32(spec) || spec.storage_bits > 32 || (reading.via_f16 && !in_f16(spec)) {
            return None;
        }
        let (emin, same) = (spec.emin(), spec.exponent_bits == 8 && spec.bias == 127);
        let lowest = if reading.via_f16 { F16.emin() } else { emin };
        let width = spec.exponent_bits + spec.fraction_bits;
        Some(Self {
            ignored: spec.ignored_low_bits,
            fraction_bits: spec.fraction_bits,
            width,
            sign: u32::from(spec.signed) << width,
            special: spec.first_special() as u32,
            zero_special: spec.specials == Specials::NanNegativeZero,
            // A fraction says which of the two, but where all of them are NaN.
            endless: if spec.specials == Specials::Ieee { 0x7F80_0000 } else { 0x7FC0_0000 },
            up: 23 - spec.fraction_bits,
            rebias: ((127 - spec.bias) as u32) << 23,
            subnormal: u32::from(!same),
            // A power that is subnormal itself would make every product slow.
            quantum: if same { 0.0 } else { f32_power(emin - spec.fraction_bits as i32) },
            least: if reading.flush { f32_power(emin) } else { 0.0 },
            zero: if reading.positive_zero { 0.0 } else { -0.0 },
            zero_exponent: if reading.zeros_count { lowest } else { LOW.into() },
            lowest,
        })
    }
}

/// Reads codes side by side.
pub(super) trait Reader {
    fn lanes<const W: usize>(&self, codes: &[u32; W]) -> Read<W>;
}

impl Reader for Fields {
    #[inline(always)]
    fn lanes<const W: usize>(&self, codes: &[u32; W]) -> Read<W> {
        let (mut values, mut exponents) = ([0f32; W], [0i16; W]);
        let mut flags = [0; W];
        for j in 0..W {
            let code = codes[j] >> self.ignored;
            let (magnitude, sign) = (code & ((1 << self.width) - 1), (code & self.sign) << (31 - self.width));
            let (field, moved) = (magnitude >> self.fraction_bits, magnitude << self.up);
            let special = (magnitude >= self.special) | (self.zero_special & (magnitude == 0) & (sign != 0));
            let subnormal = (magnitude as i32 as f32 * self.quantum).to_bits();
            let normal = moved.wrapping_add(self.rebias);
            let x = if field < self.subnormal { subnormal } else { normal };
            let x = f32::from_bits(if special { moved | self.endless } else { x });
            let x = if x < self.least { 0.0 } else { x };
            let zero_sign = if x == 0.0 && magnitude != 0 { 0 } else { sign };
            values[j] = f32::from_bits(x.to_bits() | zero_sign) + self.zero;
            let place = (x.to_bits() >> 23) as i32 - 127;
            // A plain choice became a branch of the whole lane, which undid the lanes.
            let finite = select_unpredictable(x == 0.0, self.zero_exponent, place.max(self.lowest));
            exponents[j] = if special { LOW } else { finite as i16 };
            let far = if (x != 0.0) & (place.abs() > WINDOW) { FAR.into() } else { 0 };
            flags[j] = if special { SPECIAL.into() } else { far };
        }
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
        let mut new = Self { spec, reading, table: None, fields: Fields::new(&spec, reading) };
        if spec.storage_bits <= 8 {
            new.table = Some(Box::new(core::array::from_fn(|byte| new.any(byte as u64 & spec.code_mask()))));
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

    #[inline(always)]
    fn element(&self, code: u64) -> Element {
        if let Some(table) = &self.table {
            return table[usize::from(code as u8)];
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

    /// What codes are read together by: a table takes less than fields do eight at a time.
    #[inline(always)]
    pub(super) fn together(&self) -> Option<&Fields> {
        self.fields.as_ref().filter(|_| self.table.is_none())
    }

    /// Reads elements of a line, eight together, with zeros beyond the last. The codes stay in registers: memory that
    /// was just written in narrower pieces would be slow to load.
    #[inline(always)]
    pub(super) fn read_together(
        &self,
        fields: &Fields,
        codes: &[u64],
        values: &mut [f32],
        exponents: &mut [i16],
        seen: &mut Seen,
    ) {
        let (eights, rest) = codes.as_chunks::<TOGETHER>();
        let places = values.as_chunks_mut().0.iter_mut().zip(exponents.as_chunks_mut().0);
        for (i, (values, exponents)) in places.enumerate().take(codes.len().div_ceil(TOGETHER)) {
            let codes = if let Some(eight) = eights.get(i) {
                each(*eight, |code| code as u32)
            } else if let Ok(&[p, q, r, s]) = <&[u64; 4]>::try_from(rest) {
                [p as u32, q as u32, r as u32, s as u32, 0, 0, 0, 0]
            } else {
                let mut codes = [0; TOGETHER];
                codes.iter_mut().zip(rest).for_each(|(to, code)| *to = *code as u32);
                codes
            };
            let flags;
            (*values, *exponents, flags) = fields.lanes(&codes);
            seen.take(exponents, of_any(flags), self.reading.spans);
        }
    }

    /// Reads elements one after another.
    #[inline(always)]
    pub(super) fn read(&self, codes: &[u32], values: &mut [f32], exponents: &mut [i16], seen: &mut Seen) {
        let Some(fields) = self.together() else {
            let mut flags = 0;
            let mut put = |x: Element, value: &mut f32, exponent: &mut i16| {
                (*value, *exponent) = (x.value, x.exponent);
                flags |= x.flags;
            };
            let places = codes.iter().zip(values).zip(&mut *exponents);
            match &self.table {
                Some(table) => places.for_each(|((&code, x), e)| put(table[usize::from(code as u8)], x, e)),
                None => places.for_each(|((&code, x), e)| put(self.element(code.into()), x, e)),
            }
            return seen.take(exponents, flags, self.reading.spans);
        };
        let (values, last_values) = values.as_chunks_mut();
        let (exponents, last_exponents) = exponents.as_chunks_mut();
        let (codes, rest) = codes.as_chunks::<TOGETHER>();
        for ((codes, values), exponents) in codes.iter().zip(values).zip(exponents) {
            let flags;
            (*values, *exponents, flags) = fields.lanes(codes);
            seen.take(exponents, of_any(flags), self.reading.spans);
        }
        if !rest.is_empty() {
            let mut codes = [0; TOGETHER];
            codes.iter_mut().zip(rest).for_each(|(to, code)| *to = *code);
            let (values, exponents, flags) = fields.lanes(&codes);
            seen.take(&exponents[..rest.len()], of_any(flags), self.reading.spans);
            last_values.iter_mut().zip(values).for_each(|(to, x)| *to = x);
            last_exponents.iter_mut().zip(exponents).for_each(|(to, e)| *to = e);
        }
    }
}

/// One by one, whatever the format.
impl Reader for Decoder {
    #[inline(always)]
    fn lanes<const W: usize>(&self, codes: &[u32; W]) -> Read<W> {
        let (mut values, mut exponents, mut flags) = ([0.0; W], [LOW; W], [0; W]);
        for j in 0..W {
            let x = self.element(codes[j].into());
            (values[j], exponents[j], flags[j]) = (x.value, x.exponent, x.flags.into());
        }
        (values, exponents, flags)
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
pub(super) struct Seen {
    flags: u8,
    /// Above [`LOW`] by one and so much, which makes that itself the largest.
    low: u16,
    high: i16,
}

impl Seen {
    pub(super) const NOTHING: Self = Self { flags: 0, low: u16::MAX, high: LOW };

    /// Flags, and exponents as they are kept here.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn of(flags: u8, low: u16, high: i16) -> Self {
        Self { flags, low, high }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, exponents: &[i16], flags: u8, spans: bool) {
        self.flags |= flags;
        if spans {
            for &exponent in exponents {
                self.low = self.low.min(exponent.wrapping_sub(LOW + 1) as u16);
                self.high = self.high.max(exponent);
            }
        }
    }

    /// Flags of them all. From the lowest last place to the highest place, more than half of f64's bits are wide, with
    /// room for 32 products.
    pub(super) const fn flags(self, spec: &FormatSpec) -> u8 {
        let low = self.low as i32 + LOW as i32 + 1;
        let bits = self.high as i32 + 1 - low + spec.fraction_bits as i32;
        self.flags | if bits > 24 { WIDE } else { 0 }
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
