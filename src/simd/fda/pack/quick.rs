//! Numbers by the processor's own conversions, for AVX-512: codes become f32, whose exponents and signs are those of
//! all that is ordinary. Columns of B and rows of A are packed so, and integers of these. A step with something else,
//! an infinity say, is left to others (`Columns::slowly`, `Rows::parts`).

use super::super::{Fda, NR};
use super::rows::{put_wide, put_words};
use super::{ENLARGED, ENLARGED_F32, NAN_SHIFT, OR_AND, STAND_IN, Values, WINDOW, own_top};
use crate::format::{FormatSpec, Specials};
use crate::simd::lanes::power;
use core::arch::x86_64::*;

/// `vrangepd`: the larger magnitude, with the first operand's sign.
const LARGER_WITH_SIGN: i32 = 0b0011;

/// How a format's codes become f32 numbers, which are `2^down` times what they should be.
#[derive(Clone, Copy, Debug)]
enum How {
    /// By f16, whose own codes they are.
    Half,
    /// By f16, as magnitudes so many places up, below a sign from so many places down.
    Moved { magnitude: u32, up: u32, sign: u32 },
    /// As the upper bits of f32's codes, that far up.
    Upper { up: u32 },
}

/// What is the same for all of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick {
    how: How,
    /// Low bits of a code that do not count.
    ignored: u32,
    /// Twice the f32 code of the first magnitude that is not ordinary.
    limit: u32,
    /// Twice that of the first that is, less 1.
    least: u32,
    /// Whether -0 is NaN.
    fnuz: bool,
    /// The lowest exponent as an f32 field, and what makes windowed exponents of fields.
    low: u8,
    subtracted: i8,
    /// Of the power of two that numbers are multiplied by.
    down: i32,
    /// The largest exponent of a block scale.
    most: i32,
    values: Finish,
}

/// From numbers to values: multiplied, not below a magnitude, and with a bit added. All are f32's, too, where panels
/// are.
#[derive(Clone, Copy, Debug)]
struct Finish {
    scale: f64,
    tiny: f64,
    more: i64,
}

/// Block scales of 64 columns.
pub(super) struct Scales {
    /// What values are multiplied by: those of the even columns of each vector, and of the odd ones.
    pub(super) factors: [[__m512d; 2]; NR / 16],
    /// How far scales are below the largest, bytes in the order of exponents.
    gaps: __m512i,
}

impl Quick {
    /// For a format whose byte 127 stands for exponent `top`, or for that beside a block scale of `2^most`, the
    /// largest. Values are multiplied by `2^scale`, and perhaps enlarged.
    pub(super) fn new(
        fda: &Fda,
        spec: &FormatSpec,
        (scale, enlarge): (i32, bool),
        [top, most]: [i32; 2],
    ) -> Option<Self> {
        let (width, ieee) = (spec.exponent_bits + spec.fraction_bits, spec.specials == Specials::Ieee);
        let half = spec.fraction_bits <= 10 && (spec.exponent_bits < 5 || (spec.exponent_bits == 5 && ieee));
        let (how, bias) = match () {
            () if half && width == 15 && spec.ignored_low_bits == 0 => (How::Half, 15),
            () if half => {
                let up = 10 - spec.fraction_bits;
                (How::Moved { magnitude: (1 << width) - 1, up, sign: 15 - width }, 15)
            }
            () if spec.exponent_bits == 8 && spec.fraction_bits <= 23 && ieee => (How::Upper { up: 31 - width }, 127),
            () => return None,
        };
        // Numbers are 2^down times what they should be.
        let down = spec.bias - bias;
        let plain = spec.signed && spec.subnormals && width < 32 && (-20..=20).contains(&down);
        // With block scales exponents must fit bytes before these are added, and values be f64.
        let scaled = fda.unit.scale.is_some() && (fda.in_f32() || own_top(fda, spec).is_none());
        if !plain || scaled || (matches!(how, How::Upper { .. }) && down != 0) {
            return None;
        }
        // f32's code of a magnitude.
        let code = |magnitude: u32| match how {
            // f16's with another bias.
            How::Half | How::Moved { .. } => (magnitude << (23 - spec.fraction_bits)) + ((127 - 15) << 23),
            How::Upper { up } => magnitude << up,
        };
        let limit = 2 * code(spec.first_special() as u32);
        // f32's own subnormal numbers are left to others.
        let least = if bias == 127 { (2 << 23) - 1 } else { 0 };
        let emin = if fda.via_f16 { -14 } else { spec.emin() };
        let (low, top) = (emin + down + 127, top - most + down);
        let (tiny, more) = match () {
            () if fda.aligned => (0.0, 0),
            () if fda.narrow => (power(STAND_IN), if enlarge { ENLARGED_F32 } else { 0 }),
            () => (power(-1000), if enlarge { ENLARGED } else { 0 }),
        };
        let values = Finish { scale: power(scale - down), tiny, more };
        let bytes = u8::try_from(low).ok().zip(i8::try_from(top).ok());
        let fnuz = spec.specials == Specials::NanNegativeZero;
        bytes.map(|(low, top)| Self {
            how,
            ignored: spec.ignored_low_bits,
            limit,
            least,
            fnuz,
            low,
            subtracted: top,
            down,
            most,
            values,
        })
    }

    /// Looks at 16 numbers, those of vector `t`: at their fields, joined to those of others, and signs, and whether
    /// some are not ordinary.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn look(&self, x: __m512, t: usize, fields: __m512i) -> (__m512i, [__mmask16; 2]) {
        let bits = _mm512_castps_si512(x);
        let twice = _mm512_add_epi32(bits, bits);
        let odd = self.odd(bits, twice);
        let place = 8 * t as u32;
        let field = _mm512_srlv_epi32(twice, _mm512_set1_epi32(24 - place as i32));
        let fields = _mm512_ternarylogic_epi32::<OR_AND>(fields, field, _mm512_set1_epi32(0xFF << place));
        (fields, [_mm512_movepi32_mask(bits), odd])
    }

    /// Which of these codes of f32 and their doubles are not ordinary.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn odd(&self, bits: __m512i, twice: __m512i) -> __mmask16 {
        let mut odd = _mm512_cmpge_epu32_mask(twice, _mm512_set1_epi32(self.limit as i32));
        if self.least > 0 {
            // Of a zero it is the largest.
            let less = _mm512_sub_epi32(twice, _mm512_set1_epi32(1));
            odd |= _mm512_cmplt_epu32_mask(less, _mm512_set1_epi32(self.least as i32));
        }
        if self.fnuz {
            odd |= _mm512_cmpeq_epi32_mask(bits, _mm512_set1_epi32(i32::MIN));
        }
        odd
    }

    /// Numbers of codes, 16 by 16; `false`, and some of them, where not all are ordinary, or the last are fewer.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn all(&self, codes: &[u32], to: &mut Vec<__m512>) -> bool {
        to.clear();
        let (whole, rest) = codes.as_chunks::<16>();
        let mut odd = 0;
        for codes in whole {
            // SAFETY: 16 codes.
            let x = self.numbers(unsafe { _mm512_loadu_epi32(codes.as_ptr().cast()) });
            let bits = _mm512_castps_si512(x);
            odd |= self.odd(bits, _mm512_add_epi32(bits, bits));
            to.push(x);
        }
        odd == 0 && rest.is_empty()
    }

    /// What values are multiplied by beside block scales of these exponents.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn factor(&self, exponents: __m256i) -> __m512d {
        let field = _mm512_slli_epi64::<52>(_mm512_cvtepi32_epi64(exponents));
        _mm512_castsi512_pd(_mm512_add_epi64(field, _mm512_set1_epi64(self.values.scale.to_bits() as i64)))
    }

    /// 16 values, the first and the second half, from numbers and what they are multiplied by.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn values(&self, x: __m512, factors: [__m512d; 2]) -> [__m512d; 2] {
        let Finish { tiny, more, .. } = self.values;
        let value = |x: __m256, factor| {
            let x = _mm512_mul_pd(_mm512_cvtps_pd(x), factor);
            let x = _mm512_range_pd::<LARGER_WITH_SIGN>(x, _mm512_set1_pd(tiny));
            _mm512_or_pd(x, _mm512_castsi512_pd(_mm512_set1_epi64(more)))
        };
        [value(_mm512_castps512_ps256(x), factors[0]), value(_mm512_extractf32x8_ps::<1>(x), factors[1])]
    }

    /// Windowed exponents of 64 columns from their fields, bytes in the order of exponents, and which are below the
    /// window.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn exponents(&self, fields: __m512i, scales: Option<&Scales>) -> (__m512i, __mmask64) {
        let byte = |x: u8| _mm512_set1_epi8(x as i8);
        let mut windowed = _mm512_sub_epi8(_mm512_max_epu8(fields, byte(self.low)), byte(self.subtracted as u8));
        if let Some(scales) = scales {
            windowed = _mm512_subs_epu8(windowed, scales.gaps);
        }
        let there = _mm512_test_epi8_mask(fields, fields);
        let inside = _mm512_cmpgt_epi8_mask(windowed, byte((127 - WINDOW) as u8));
        (_mm512_maskz_mov_epi8(there & inside, windowed), there & !inside)
    }

    /// What block scales, by vector, do to values and exponents; none where one is NaN.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn scales(&self, exponents: &[__m512i; NR / 16]) -> Option<Scales> {
        let (mut factors, mut gaps) = ([[_mm512_setzero_pd(); 2]; NR / 16], _mm512_setzero_si512());
        for (t, (&shift, factors)) in exponents.iter().zip(&mut factors).enumerate() {
            if _mm512_cmpeq_epi32_mask(shift, _mm512_set1_epi32(NAN_SHIFT)) != 0 {
                return None;
            }
            // Columns that are not there have 0, which may be above the largest.
            let gap = _mm512_max_epi32(_mm512_sub_epi32(_mm512_set1_epi32(self.most), shift), _mm512_setzero_si512());
            let gap = _mm512_min_epi32(gap, _mm512_set1_epi32(0xFF));
            gaps = _mm512_or_si512(gaps, _mm512_sllv_epi32(gap, _mm512_set1_epi32(8 * t as i32)));
            let halves = _mm512_permutexvar_epi32(even_first(), shift);
            let factor = |exponents| self.factor(exponents);
            *factors = [factor(_mm512_castsi512_si256(halves)), factor(_mm512_extracti64x4_epi64::<1>(halves))];
        }
        Some(Scales { factors, gaps })
    }

    /// Of the power of two that numbers are multiplied by, and the lowest exponent's field of such numbers.
    pub(super) const fn exponent(&self) -> (i32, u8) {
        (self.down, self.low)
    }

    /// 16 numbers, `2^down` times what they should be.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn numbers(&self, codes: __m512i) -> __m512 {
        let word = |x: u32| _mm512_set1_epi32(x as i32);
        let halves = |x| _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
        match self.how {
            How::Half => halves(codes),
            How::Moved { magnitude, up, sign } => {
                let codes = _mm512_srlv_epi32(codes, word(self.ignored));
                let moved = _mm512_sllv_epi32(_mm512_and_si512(codes, word(magnitude)), word(up));
                let signs = _mm512_sllv_epi32(codes, word(sign));
                halves(_mm512_ternarylogic_epi32::<OR_AND>(moved, signs, word(0x8000)))
            }
            How::Upper { up } => {
                _mm512_castsi512_ps(_mm512_sllv_epi32(_mm512_srlv_epi32(codes, word(self.ignored)), word(up)))
            }
        }
    }

    /// Looks at 16 numbers of a row beside a block scale of such an exponent: windowed exponents, signs, and which are
    /// not ordinary or below the window.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn row(&self, x: __m512, shift: Option<i32>) -> (__m512i, [__mmask16; 2]) {
        let bits = _mm512_castps_si512(x);
        let twice = _mm512_add_epi32(bits, bits);
        let field = _mm512_max_epi32(_mm512_srli_epi32::<24>(twice), _mm512_set1_epi32(self.low.into()));
        let gap = shift.map_or(0, |shift| self.most - shift);
        let windowed = _mm512_sub_epi32(field, _mm512_set1_epi32(i32::from(self.subtracted) + gap));
        let there = _mm512_test_epi32_mask(twice, twice);
        let inside = _mm512_cmpgt_epi32_mask(windowed, _mm512_set1_epi32(127 - WINDOW));
        let odd = self.odd(bits, twice) | (there & !inside);
        (_mm512_maskz_mov_epi32(there & inside, windowed), [_mm512_movepi32_mask(bits), odd])
    }

    /// Which of 16 numbers' significands, as integers of so many bits beside the leading one, are no larger than
    /// `most`; those of subnormal numbers as if these were normal.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn small(&self, x: __m512, most: i32, bits: u32) -> __mmask16 {
        let word = |x: i32| _mm512_set1_epi32(x);
        let fraction = _mm512_ternarylogic_epi32::<OR_AND>(word(1 << 23), _mm512_castps_si512(x), word((1 << 23) - 1));
        _mm512_cmple_epi32_mask(fraction, word(most << (23 - bits)))
    }

    /// Stores 16 values of a row beside a block scale: so many together, `apart` from the next ones.
    ///
    /// # Safety
    /// The panel has room.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn store_row<const L: usize>(
        &self,
        x: __m512,
        shift: Option<i32>,
        to: Values,
        at: usize,
        apart: usize,
    ) {
        let scale = self.values.scale * shift.map_or(1.0, power);
        // SAFETY: the caller's promise.
        unsafe {
            match to {
                Values::Wide(to) => {
                    put_wide::<L>(self.values(x, [_mm512_set1_pd(scale); 2]), to.wrapping_add(at), apart);
                }
                Values::Narrow(to) => {
                    let x = _mm512_castps_si512(self.narrow(x));
                    put_words::<L>(x, to.wrapping_add(at).cast(), apart);
                }
            }
        }
    }

    /// 16 values in f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn narrow(&self, x: __m512) -> __m512 {
        let Finish { scale, tiny, more } = self.values;
        let x = _mm512_mul_ps(x, _mm512_set1_ps(scale as f32));
        let x = _mm512_range_ps::<LARGER_WITH_SIGN>(x, _mm512_set1_ps(tiny as f32));
        // An f64's bits less those that f32 lacks.
        _mm512_or_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32((more >> 29) as i32)))
    }

    /// Stores 16 values, with factors of their own if there are some.
    ///
    /// # Safety
    /// The panel has room.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn store(&self, x: __m512, factors: Option<&[__m512d; 2]>, to: Values, at: usize) {
        match to {
            Values::Wide(to) => {
                let factors = factors.copied().unwrap_or([_mm512_set1_pd(self.values.scale); 2]);
                let [even, odd] = self.values(_mm512_permutexvar_ps(even_first(), x), factors);
                // SAFETY: the caller's promise.
                unsafe {
                    _mm512_storeu_pd(to.wrapping_add(at), even);
                    _mm512_storeu_pd(to.wrapping_add(at + 8), odd);
                }
            }
            Values::Narrow(to) => {
                // SAFETY: the caller's promise.
                unsafe { _mm512_storeu_ps(to.wrapping_add(at), self.narrow(x)) }
            }
        }
    }
}

/// Lanes with the even ones first.
#[inline]
#[target_feature(enable = "avx512f")]
fn even_first() -> __m512i {
    _mm512_set_epi32(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0)
}
