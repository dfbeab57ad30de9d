//! Panels in f32 for AVX2 and SSE2: values, exponent bytes and flags, and for f32 accumulators signs.
//!
//! Where products are aligned one by one, signs are in the values, and zeros and special operands are 0 of either sign.
//! For f32 accumulators values are finished (`Finish`).

#![allow(unsafe_code, reason = "loads and stores of vectors")]

mod columns;
mod quick;
mod rows;

pub(super) use self::quick::Quick;
use self::quick::Scaled;
use super::{ENLARGED_F32, NAN_SHIFT, STAND_IN, WINDOW};
use crate::format::{FormatSpec, Specials};
use crate::simd::decode::f32_power;
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::{Fda, SPECIAL, TINY};

/// The most lanes of any set.
const MOST: usize = 8;

/// A vector's lanes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Words([u32; MOST]);

/// What makes values for f32 accumulators of numbers: a factor, a stand-in of zeros, and a bit of all.
#[derive(Clone, Copy, Debug)]
struct Finish {
    scale: u32,
    zero: u32,
    more: u32,
}

impl Finish {
    fn of(fda: &Fda, scale: i32, enlarge: bool) -> Option<Self> {
        // An f64's bits less those that f32 lacks.
        let more = if enlarge { (ENLARGED_F32 >> 29) as u32 } else { 0 };
        fda.narrow.then(|| Self { scale: f32_power(scale).to_bits(), zero: f32_power(STAND_IN).to_bits(), more })
    }
}

/// Numbers beside block scales.
#[inline(always)]
fn times<S: Vectors>(set: S, numbers: S::V, scaled: Option<Scaled<S::V>>) -> S::V {
    match scaled {
        Some(scaled) => set.mul(numbers, scaled.factors),
        None => numbers,
    }
}

/// Values of numbers, which are 0 of either sign where they are special.
#[inline(always)]
fn finished<S: Vectors>(set: S, finish: Option<Finish>, numbers: S::V) -> S::V {
    let Some(Finish { scale, zero, more }) = finish else { return numbers };
    let stand_in = set.and(set.equal(set.add(numbers, numbers), set.splat(0)), set.splat(zero));
    set.or(set.mul(numbers, set.splat(scale)), set.or(stand_in, set.splat(more)))
}

/// A format unrolled into the constants of the decoder.
struct Decoder<S> {
    set: S,
    ignored: u32,
    frac_bits: u32,
    /// Bits below the sign.
    width: u32,
    /// Smallest magnitude code that is Inf or NaN.
    special: u32,
    fnuz: bool,
    /// What makes a normal number's shifted code an f32's.
    rebias: u32,
    /// The last place of subnormal numbers; 0 where they are f32's own.
    quantum: f32,
    /// Field that byte 127 stands for.
    top: i32,
    /// With conversion to f16: the field of its lowest exponent.
    f16_low: Option<i32>,
    finish: Option<Finish>,
}

/// Decoded elements; conditions are all ones in a lane, or none.
struct Items<V> {
    values: V,
    /// Windowed exponents.
    exponents: V,
    significands: V,
    special: V,
    tiny: V,
}

impl<S: Vectors> Decoder<S> {
    fn new(set: S, spec: &FormatSpec, fda: &Fda, top: i32, finish: Option<Finish>) -> Self {
        let own = spec.exponent_bits == 8 && spec.bias == 127;
        Self {
            set,
            ignored: spec.ignored_low_bits,
            frac_bits: spec.fraction_bits,
            width: spec.exponent_bits + spec.fraction_bits,
            special: spec.first_special() as u32,
            fnuz: spec.specials == Specials::NanNegativeZero,
            rebias: ((127 - spec.bias) as u32) << 23,
            quantum: if own { 0.0 } else { f32_power(spec.emin() - spec.fraction_bits as i32) },
            top: top + spec.bias,
            f16_low: fda.via_f16.then_some(spec.bias - 14),
            finish,
        }
    }

    /// A vector of codes, and the exponents of their block scales.
    #[inline(always)]
    fn items(&self, raw: S::V, shifts: Option<S::V>) -> Items<S::V> {
        let (set, word) = (self.set, |x: i32| self.set.splat(x as u32));
        let bits = set.right_by(raw, self.ignored);
        let mag = set.and(bits, set.splat((1 << self.width) - 1));
        let negative = set.and(set.left_by(bits, 31 - self.width), set.splat(1 << 31));
        let zero = set.equal(mag, word(0));
        let mut special = set.greater(mag, set.splat(self.special.wrapping_sub(1)));
        if self.fnuz {
            special = set.or(special, set.and(zero, set.equal(negative, set.splat(1 << 31))));
        }
        if let Some(shifts) = shifts {
            special = set.or(special, set.equal(shifts, word(NAN_SHIFT)));
        }
        let none = set.or(special, zero);
        let shift = shifts.map(
            #[inline(always)]
            |shifts| set.without(none, shifts),
        );
        let mut field = set.right_by(mag, self.frac_bits);
        let subnormal = set.equal(field, word(0));
        let mut leading = set.splat(1 << self.frac_bits);
        let mut fraction = mag;
        if let Some(low) = self.f16_low {
            // A subnormal's exponent once it is f16: that of its leading bit, which its significand begins with.
            let normal = set.float(mag);
            fraction = set.choose(subnormal, set.right_by(normal, 23 - self.frac_bits), mag);
            let lead = set.sub(set.right::<23>(normal), set.splat(126 + self.frac_bits));
            field = set.choose(subnormal, lead, field);
            field = set.choose(set.greater(word(low), field), word(low), field);
        } else {
            leading = set.without(subnormal, leading);
            // All ones are -1.
            field = set.sub(field, subnormal);
        }
        // How far below the top.
        let mut below = set.sub(word(self.top), field);
        if let Some(shift) = shift {
            below = set.sub(below, shift);
        }
        let tiny = set.without(none, set.greater(below, word(WINDOW - 1)));
        let gone = set.or(none, tiny);
        let mut value = set.add(set.left_by(mag, 23 - self.frac_bits), set.splat(self.rebias));
        if self.quantum != 0.0 {
            let small = set.mul(set.float(mag), set.splat(self.quantum.to_bits()));
            value = set.choose(subnormal, small, value);
        }
        if let Some(shift) = shift {
            value = set.add(value, set.left::<23>(shift));
        }
        // Numbers below the normal f32s are far below where any bit counts, if the kernel is to be used at all.
        let small = set.greater(set.splat(1 << 23), value);
        let numbers = set.or(set.without(set.or(none, small), value), negative);
        Items {
            values: finished(set, self.finish, numbers),
            exponents: set.without(gone, set.sub(word(127), below)),
            significands: set.or(set.and(fraction, set.splat((1 << self.frac_bits) - 1)), leading),
            special,
            tiny,
        }
    }

    /// Flags of each lane.
    #[inline(always)]
    fn flags(&self, special: S::V, tiny: S::V) -> [u8; MOST] {
        flags_of(self.lanes(special), self.lanes(tiny))
    }

    #[inline(always)]
    fn lanes(&self, x: S::V) -> [u32; MOST] {
        lanes(self.set, x)
    }

    /// Codes of a line from `at` on, zeros beyond its end.
    #[inline(always)]
    fn codes(&self, line: &[u32], at: usize) -> S::V {
        if let Some(codes) = line.get(at..at + S::LANES) {
            // SAFETY: as many words.
            return unsafe { self.set.load_unaligned(codes.as_ptr()) };
        }
        self.vector(|i| line.get(at + i).copied().unwrap_or(0))
    }

    #[inline(always)]
    fn vector(&self, lane: impl Fn(usize) -> u32) -> S::V {
        let mut words = Words([0; MOST]);
        words.0.iter_mut().enumerate().for_each(|(i, word)| *word = lane(i));
        // SAFETY: aligned, and as many words as the largest vector has.
        unsafe { self.set.load(words.0.as_ptr()) }
    }
}

/// The words of a vector, and zeros.
#[inline(always)]
fn lanes<S: Vectors>(set: S, x: S::V) -> [u32; MOST] {
    let mut words = Words([0; MOST]);
    // SAFETY: aligned, and as many words as the largest vector has.
    unsafe { set.store(words.0.as_mut_ptr(), x) }
    words.0
}

/// Flags, from masks.
#[cold]
fn flags_of(special: [u32; MOST], tiny: [u32; MOST]) -> [u8; MOST] {
    let flag = |mask: u32, flag: u8| if mask != 0 { flag } else { 0 };
    core::array::from_fn(|i| flag(special[i], SPECIAL) | flag(tiny[i], TINY))
}
