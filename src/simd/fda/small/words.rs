//! Codes as words, four tiles' side by side in lanes of 64 bits: their exponents and values.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::from::{FieldLanes, Fields};
use super::value::{Value, all_tiles, raised};
use super::{TILES, WINDOW};
use crate::format::{FormatSpec, Specials};
use core::arch::x86_64::*;

/// Ternary logic: `a | (b & c)`.
pub(super) const OR_AND: i32 = 0xF8;
/// The exponent of the infinitesimal that stands for zero in f32.
const TINY: i32 = -100;
/// The byte of the lowest exponent in a window: the last is 127.
const WINDOW_BYTE: i16 = 96;

/// Codes that a vector of words holds.
const CODES: usize = 32;

/// An operand's format, as words with the sign at the top.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Decoder {
    /// How far codes move up.
    align: u32,
    exponent_bits: u32,
    /// The bits of a magnitude.
    magnitude: u16,
    /// The smallest magnitude that is Inf or NaN; above all where there is none.
    pub(super) special: u16,
    /// The smallest normal magnitude.
    normal: u16,
    /// The largest exponent's field, where a window holds all exponents.
    top: Option<i32>,
    /// How values are made where no word is subnormal or zero.
    pub(super) fields: Fields,
    /// Added to fields in f64's place.
    rebias: i64,
    /// The least normal number, which makes subnormal ones of those with the next exponent.
    first: f64,
    /// The infinitesimal that stands for zero.
    tiny: f64,
    /// The bits that make B of the micro-kernel larger, as in `pack`.
    pub(super) enlarge: i64,
    /// How values are made as words.
    upper: Option<Upper>,
}

/// Values of few bits, as the highest words of f64 or, for panels of f32, of f32.
#[derive(Clone, Copy, Debug)]
struct Upper {
    /// How far magnitudes move down,
    down: u32,
    /// and what is added to them.
    rebias: i16,
    /// Zero and subnormal numbers by their codes.
    small: [u16; CODES],
}

impl Upper {
    /// Of formats of a known window whose fractions fit and whose subnormal codes are in the table.
    fn new(spec: &FormatSpec, scale: i32, narrow: bool) -> Option<Self> {
        let (bias, fraction) = if narrow { (127, 7) } else { (1023, 4) };
        let of_word = |x: f64| (if narrow { (x as f32).to_bits() >> 16 } else { (x.to_bits() >> 48) as u32 }) as u16;
        let unit = power(spec.emin() - spec.fraction_bits as i32 + scale);
        let mut small = [0; CODES];
        for (code, to) in small.iter_mut().enumerate() {
            *to = of_word(if code == 0 { tiny(narrow) } else { code as f64 * unit });
        }
        let fits = spec.fraction_bits <= fraction.min(CODES.ilog2());
        let rebias = ((bias - spec.bias + scale) << fraction) as i16;
        fits.then_some(Self { down: 15 - fraction - spec.exponent_bits, rebias, small })
    }
}

/// `2^e`.
const fn power(e: i32) -> f64 {
    f64::from_bits(((1023 + e) as u64) << 52)
}

/// The infinitesimal that stands for zero.
const fn tiny(narrow: bool) -> f64 {
    power(if narrow { TINY } else { -1000 })
}

impl Decoder {
    /// Of operands that `reads` takes.
    pub(super) fn new(spec: &FormatSpec, scale: i32, enlarge: i64, narrow: bool) -> Self {
        let width = spec.exponent_bits + spec.fraction_bits;
        let align = 15 - width;
        let (emin, emax) = (spec.emin(), spec.max().exponent);
        let magnitude = ((1u32 << width) - 1) << align;
        let (down, rebias) = (11 - spec.exponent_bits, i64::from(1023 - spec.bias + scale) << 52);
        let mask = i64::MIN | i64::from(magnitude) << (48 - down);
        Self {
            align,
            exponent_bits: spec.exponent_bits,
            magnitude: magnitude as u16,
            special: (spec.first_special() << align) as u16,
            normal: 1 << (spec.fraction_bits + align),
            top: (emax - emin < WINDOW).then_some(emax + spec.bias),
            fields: Fields { down: down.into(), mask, bias: rebias | enlarge },
            rebias,
            first: power(emin + scale),
            tiny: tiny(narrow),
            enlarge,
            upper: if emax - emin < WINDOW { Upper::new(spec, scale, narrow) } else { None },
        }
    }

    /// Whether operands of a format can be read.
    pub(super) fn reads(spec: &FormatSpec) -> bool {
        let plain = spec.signed && spec.subnormals && spec.ignored_low_bits == 0;
        let fits = spec.storage_bits <= 16 && (1..=8).contains(&spec.exponent_bits);
        plain && fits && spec.specials != Specials::NanNegativeZero
    }

    /// Whether magnitudes from `least` on are usual: normal and within the window, which begins at `low`; or any that
    /// can be made as words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn is_usual(&self, least: __m512i, low: i16) -> bool {
        let from = _mm512_set1_epi16(low.max(1) << (15 - self.exponent_bits));
        self.upper.is_some() || _mm512_cmplt_epu16_mask(least, from) == 0
    }

    /// The exponents of words as bytes, 0 for zeros and those below the window, which begins at `low`: of each 128
    /// bits, the first vector's and the second's. With `ALL`, words may be unusual (where values can be made as words
    /// they may always).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn exponents<const ALL: bool>(&self, x: [__m512i; 2], low: i16, seen: &mut Seen) -> __m512i {
        let (lowest, mut fields) = (WINDOW_BYTE - low, x);
        let upper = self.upper.is_some();
        for x in &mut fields {
            let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(self.magnitude as i16));
            let field = shifted_down(magnitude, 15 - self.exponent_bits);
            *x = if upper {
                // Zeros and subnormal numbers are as frequent as any others, and nothing is below the window.
                let some = _mm512_test_epi16_mask(magnitude, magnitude);
                let field = _mm512_max_epu16(field, _mm512_set1_epi16(1));
                _mm512_maskz_add_epi16(some, field, _mm512_set1_epi16(lowest))
            } else {
                _mm512_add_epi16(field, _mm512_set1_epi16(lowest))
            };
        }
        let bytes = _mm512_packus_epi16(fields[0], fields[1]);
        if upper || !ALL {
            return bytes;
        }
        // Of a field of 0, or below the window.
        let usual = _mm512_set1_epi8(WINDOW_BYTE.max(lowest + 1) as i8);
        if _mm512_cmplt_epu8_mask(bytes, usual) == 0 { bytes } else { self.unusual_exponents(x, low, seen) }
    }

    /// The same with subnormal numbers, zeros and numbers below the window.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn unusual_exponents(&self, x: [__m512i; 2], low: i16, seen: &mut Seen) -> __m512i {
        let (low, mut bytes) = (_mm512_set1_epi16(low), x);
        for x in &mut bytes {
            let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(self.magnitude as i16));
            let none = _mm512_testn_epi16_mask(magnitude, magnitude);
            let field = shifted_down(magnitude, 15 - self.exponent_bits);
            let above = _mm512_sub_epi16(_mm512_max_epu16(field, _mm512_set1_epi16(1)), low);
            let far = _mm512_movepi16_mask(above);
            seen.small |= _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(self.normal as i16)) != 0;
            seen.far |= far & !none != 0;
            *x = _mm512_maskz_add_epi16(!(far | none), above, _mm512_set1_epi16(WINDOW_BYTE));
        }
        _mm512_packus_epi16(bytes[0], bytes[1])
    }

    /// The values of eight words, each at the top of its lane, whatever they are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn any_values(&self, x: __m512i) -> __m512d {
        let Fields { down, mask, .. } = self.fields;
        let moved = _mm512_srav_epi64(x, _mm512_set1_epi64(down));
        let fields = _mm512_and_si512(moved, _mm512_set1_epi64(mask & i64::MAX));
        let values = _mm512_add_epi64(fields, _mm512_set1_epi64(self.rebias));
        // Of an exponent field of 0, with the next one: more by that power of two.
        let small = _mm512_cmplt_epu64_mask(fields, _mm512_set1_epi64(1 << 52));
        let values = _mm512_castsi512_pd(_mm512_mask_add_epi64(values, small, values, _mm512_set1_epi64(1 << 52)));
        let values = _mm512_mask_sub_pd(values, small, values, _mm512_set1_pd(self.first));
        let values = _mm512_castpd_si512(_mm512_mask_max_pd(values, small, values, _mm512_set1_pd(self.tiny)));
        let signed = _mm512_ternarylogic_epi64::<OR_AND>(values, x, _mm512_set1_epi64(i64::MIN));
        _mm512_castsi512_pd(_mm512_or_si512(signed, _mm512_set1_epi64(self.enlarge)))
    }

    /// Whether values can be made as words.
    pub(super) const fn has_highest(&self) -> bool {
        self.upper.is_some()
    }

    /// The highest words of values, where these can be made as words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn highest(&self, words: [__m512i; 2]) -> Option<[__m512i; 2]> {
        let Upper { down, rebias, small } = self.upper?;
        // SAFETY: 32 words.
        let small = unsafe { _mm512_loadu_si512(small.as_ptr().cast()) };
        let mut highest = words;
        for x in &mut highest {
            let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(self.magnitude as i16));
            let is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(self.normal as i16));
            let values = _mm512_add_epi16(shifted_down(magnitude, down), _mm512_set1_epi16(rebias));
            let code = shifted_down(magnitude, self.align);
            let values = _mm512_mask_permutexvar_epi16(values, is_small, code, small);
            *x = _mm512_ternarylogic_epi32::<OR_AND>(values, *x, _mm512_set1_epi16(i16::MIN));
        }
        Some(highest)
    }

    /// Stores 16 values of each tile, `stride` times 16 apart, given as the even and the odd ones (`LANES`) or as the
    /// first and the second ones: usual words, or any where values can be made as words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put<V: Value, const LANES: bool>(
        &self,
        fields: &FieldLanes,
        [x, y]: [__m512i; 2],
        tiles: usize,
        to: &mut [[V; 16]],
        stride: usize,
    ) {
        if let Some(highest) = self.highest([x, y]) {
            // SAFETY: this function has the same instructions.
            return unsafe { V::extend::<LANES>(self, highest, tiles, to, stride) };
        }
        let Some(to) = all_tiles(to, stride) else { return };
        for t in 0..TILES {
            if t < tiles {
                let parts = [fields.values(raised(x, t)), fields.values(raised(y, t))];
                // SAFETY: as above, and it wants no more.
                unsafe { V::store::<LANES>(&mut to[t * stride], parts) }
            }
        }
    }

    /// `put` with zeros and subnormal numbers.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put_small<V: Value, const LANES: bool>(
        &self,
        [x, y]: [__m512i; 2],
        tiles: usize,
        to: &mut [[V; 16]],
        stride: usize,
    ) {
        for t in 0..TILES.min(tiles) {
            let parts = [self.any_values(raised(x, t)), self.any_values(raised(y, t))];
            // SAFETY: this function has AVX-512F, DQ and VL.
            unsafe { V::store::<LANES>(&mut to[t * stride], parts) }
        }
    }

    /// Words moved up; and what magnitudes lie between so far.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn take(&self, words: __m512i, bounds: &mut Bounds) -> __m512i {
        let x = shifted_up(words, self.align);
        let magnitude = _mm512_and_si512(x, _mm512_set1_epi16(self.magnitude as i16));
        bounds.largest = _mm512_max_epu16(bounds.largest, magnitude);
        bounds.least = _mm512_min_epu16(bounds.least, magnitude);
        x
    }

    /// The field of the largest exponent: the format's where a window holds all of them, else the data's.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn top_of(&self, peak: __m512i) -> i32 {
        if let Some(top) = self.top {
            return top;
        }
        let words = _mm512_max_epu16(peak, _mm512_srli_epi32::<16>(peak));
        let largest = _mm512_reduce_max_epi32(_mm512_and_si512(words, _mm512_set1_epi32(0xFFFF)));
        (largest >> (15 - self.exponent_bits)).max(1)
    }
}

/// The least and the largest magnitudes, word by word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: __m512i,
    pub(super) largest: __m512i,
}

impl Bounds {
    /// Of none.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        Self { least: _mm512_set1_epi32(-1), largest: _mm512_setzero_si512() }
    }
}

/// What was met among words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Zeros and subnormal numbers.
    pub(super) small: bool,
    /// Numbers below the exponent window.
    pub(super) far: bool,
}

/// Words moved up by fewer than 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shifted_up(x: __m512i, n: u32) -> __m512i {
    // Told that it is fewer, compilers need not look for more.
    _mm512_sllv_epi16(x, _mm512_set1_epi16((n & 15) as i16))
}

/// Words moved down by fewer than 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shifted_down(x: __m512i, n: u32) -> __m512i {
    _mm512_srlv_epi16(x, _mm512_set1_epi16((n & 15) as i16))
}
