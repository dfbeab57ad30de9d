//! Numbers in few operations: a code's bits moved to where f32 has them are the number but for a power of two. What is
//! not ordinary (an infinity, NaN, f32's subnormal numbers, what is below the window) is left to others
//! (`Decoder::items`).

use super::super::WINDOW;
use crate::format::{FormatSpec, Specials};
use crate::simd::decode::f32_power;
use crate::simd::fda::Fda;
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::step::EXP32;

/// The sign of f32.
const SIGN: u32 = 1 << 31;

/// What is the same for all of a panel.
#[derive(Clone, Copy)]
pub(in super::super) struct Quick<S> {
    pub(super) set: S,
    /// How far a code goes up, until its sign is f32's, and how far exponents go down from there.
    up: u32,
    down: u32,
    /// The bits that count then.
    kept: u32,
    /// What makes moved codes numbers, if it is not 1.
    factor: Option<f32>,
    /// The largest ordinary magnitude, moved.
    most: u32,
    /// The moved code that is NaN besides: that of -0, or one that no ordinary number has.
    nan: u32,
    /// Whether subnormal numbers may be f32's.
    own: bool,
    /// Whether subnormal numbers have the exponents of their leading bits.
    normalised: bool,
    /// The exponent fields of the format's lowest exponent, and of the last one below the window.
    low: u8,
    below: u8,
    /// The largest exponent of a block scale.
    most_shift: i32,
}

/// Block scales of a vector's lanes.
#[derive(Clone, Copy)]
pub(super) struct Scaled<V> {
    /// Words of how far they are below the largest.
    pub(super) gaps: V,
    /// What numbers are multiplied by.
    pub(super) factors: V,
}

impl<S: Vectors> Quick<S> {
    /// For a format whose byte 127 stands for exponent `top`, or for that beside a block scale of `2^most`, the
    /// largest. `None` for formats of which f32 lacks numbers, and for those without f32's exponents where
    /// multiplications by subnormal numbers are slow.
    pub(in super::super) fn new(set: S, spec: &FormatSpec, fda: &Fda, [top, most]: [i32; 2]) -> Option<Self> {
        let width = spec.exponent_bits + spec.fraction_bits;
        let own = spec.exponent_bits == 8;
        let held = if own {
            spec.bias == 127 && spec.specials == Specials::Ieee
        } else {
            let last = spec.emin() - spec.fraction_bits as i32;
            spec.exponent_bits < 8 && last >= -126 && spec.max().exponent <= 127
        };
        let plain = spec.signed && spec.subnormals && width + spec.ignored_low_bits <= 31 && spec.fraction_bits <= 23;
        // Lower exponents than the top's by more than the window must be bytes.
        let below = u8::try_from(top - most + 127 - WINDOW).ok().filter(|&below| below > 0)?;
        let low = u8::try_from(127 + if fda.via_f16 { -14 } else { spec.emin() }).ok()?;
        let fits = (WINDOW - 126..=127).contains(&top);
        if !held || !plain || !fits || !(own || (0..=253).contains(&spec.bias)) {
            return None;
        }
        if !own && fda.slow_subnormals {
            return None;
        }
        let place = 23 - spec.fraction_bits;
        Some(Self {
            set,
            up: 31 - width - spec.ignored_low_bits,
            down: 8 - spec.exponent_bits,
            kept: SIGN | ((1 << width) - 1) << place,
            factor: (!own).then(|| f32_power(127 - spec.bias)),
            most: ((spec.first_special() as u32) << place) - 1,
            nan: if spec.specials == Specials::NanNegativeZero { SIGN } else { !0 },
            own,
            normalised: fda.via_f16,
            low,
            below,
            most_shift: most,
        })
    }

    /// Codes with their bits where f32 has them.
    #[inline(always)]
    pub(super) fn moved(&self, codes: S::V) -> S::V {
        let set = self.set;
        set.and(set.right_signed_by(set.left_by(codes, self.up), self.down), set.splat(self.kept))
    }

    /// Numbers of moved codes, and whether some are not ordinary, added to what was found before.
    #[inline(always)]
    pub(super) fn numbers(&self, moved: S::V, odd: S::V) -> (S::V, S::V) {
        let set = self.set;
        let magnitude = set.without(set.splat(SIGN), moved);
        let nan = set.equal(moved, set.splat(self.nan));
        let mut odd = set.or(odd, set.or(nan, set.greater(magnitude, set.splat(self.most))));
        if self.own {
            let zero = set.equal(magnitude, set.splat(0));
            odd = set.or(odd, set.without(zero, set.greater(set.splat(1 << 23), magnitude)));
        }
        let numbers = match self.factor {
            Some(factor) => set.mul(moved, set.splat(factor.to_bits())),
            None => moved,
        };
        (numbers, odd)
    }

    /// The exponent field of each number, as the byte of each word that is the `t`-th from the lowest, and others'
    /// bytes.
    #[inline(always)]
    pub(super) fn with_fields(&self, numbers: S::V, t: usize, others: S::V) -> S::V {
        let set = self.set;
        let twice = set.add(numbers, numbers);
        let at = match t {
            0 => return set.or(others, set.right::<24>(twice)),
            1 => set.right::<16>(twice),
            2 => set.right::<8>(twice),
            _ => twice,
        };
        set.or(others, set.and(at, set.splat(0xFF << (8 * t))))
    }

    /// Block scales of such exponents, and whether some are not ordinary: NaN, or no normal number of f32.
    #[inline(always)]
    pub(super) fn scaled(&self, exponents: S::V) -> (Scaled<S::V>, S::V) {
        let (set, word) = (self.set, |x: i32| self.set.splat(x as u32));
        let odd = set.greater(word(-126), exponents);
        let gap = set.sub(word(self.most_shift), exponents);
        // Lanes that are not there have 0, which may be above the largest; beyond the window all gaps are one.
        let gap = set.without(set.greater(word(0), gap), gap);
        let far = set.greater(gap, word(WINDOW));
        let factors = set.left::<23>(set.add(exponents, word(127)));
        (Scaled { gaps: set.choose(far, word(WINDOW), gap), factors }, odd)
    }

    /// Windowed exponents of bytes that are numbers' exponent fields, beside block scales so far below the largest, and
    /// whether a number is below the window, added to what was found before.
    #[inline(always)]
    pub(super) fn exponents(&self, fields: S::V, gaps: Option<S::V>, odd: S::V) -> (S::V, S::V) {
        let (set, byte) = (self.set, |x: u8| self.set.splat(u32::from(x) * 0x0101_0101));
        let zero = set.equal_bytes(fields, set.splat(0));
        let mut inside = set.sub_bytes(set.max_bytes(fields, byte(self.low)), byte(self.below));
        if let Some(gaps) = gaps {
            inside = set.sub_bytes(inside, gaps);
        }
        let outside = set.equal_bytes(inside, set.splat(0));
        let windowed = set.add_bytes(inside, byte(127 - WINDOW as u8));
        (set.without(set.or(zero, outside), windowed), set.or(odd, set.without(zero, outside)))
    }

    /// Significands of moved codes or numbers, as integers of 24 bits: by way of f16, of the numbers, whose exponents
    /// are those of their leading bits.
    #[inline(always)]
    pub(super) fn significands(&self, moved: S::V, numbers: S::V) -> S::V {
        let (set, leading) = (self.set, self.set.splat(1 << 23));
        let fraction = set.splat((1 << 23) - 1);
        if self.normalised {
            return set.or(set.and(numbers, fraction), leading);
        }
        let subnormal = set.equal(set.and(moved, set.splat(EXP32 as u32)), set.splat(0));
        set.or(set.and(moved, fraction), set.without(subnormal, leading))
    }
}
