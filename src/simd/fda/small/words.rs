//! Codes as words, four tiles' side by side in lanes of 64 bits: their exponents and values.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::{TILES, WINDOW};
use crate::format::{FormatSpec, Specials};
use crate::simd::buffer::Plain;
use core::arch::x86_64::*;

/// Ternary logic: `a | (b & c)`.
pub(super) const OR_AND: i32 = 0xF8;
/// The exponent of the infinitesimal that stands for zero in f32.
const TINY: i32 = -100;
/// The byte of the lowest exponent in a window: the last is 127.
const WINDOW_BYTE: i16 = 96;

/// An operand's format, as words with the sign at the top.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Decoder {
    /// How far codes move up.
    align: i32,
    exponent_bits: u32,
    /// The bits of a magnitude.
    magnitude: u16,
    /// The smallest magnitude that is Inf or NaN; above all where there is none.
    pub(super) special: u16,
    /// The smallest normal magnitude.
    normal: u16,
    /// The largest exponent's field, where a window holds all exponents.
    top: Option<i32>,
    /// As in `pack`: f64 values are made from the words by a shift and this,
    rebias: i64,
    /// subnormal ones from their integers,
    subnormal: f64,
    /// zeros are infinitesimals, and B of the micro-kernel is enlarged.
    tiny: i64,
    enlarge: i64,
    /// How f32 values are made as words.
    upper: Option<Upper>,
}

/// Values of few bits, as the upper halves of f32.
#[derive(Clone, Copy, Debug)]
struct Upper {
    /// Added to words moved to their place.
    rebias: i16,
    /// Zero and subnormal numbers by their codes.
    small: [u16; 32],
}

impl Upper {
    /// Of formats of a known window whose subnormal codes are in the table.
    fn new(spec: &FormatSpec, scale: i32) -> Option<Self> {
        let codes = 1u32 << spec.fraction_bits.min(16);
        let bits = |e: i32| f32::from_bits(((127 + e) as u32) << 23);
        let unit = bits(spec.emin() - spec.fraction_bits as i32 + scale);
        let mut small = [0; 32];
        for (code, to) in small.iter_mut().enumerate() {
            let value = if code == 0 { bits(TINY) } else { code as f32 * unit };
            *to = (value.to_bits() >> 16) as u16;
        }
        (codes <= 32).then_some(Self { rebias: ((127 - spec.bias + scale) << 7) as i16, small })
    }
}

impl Decoder {
    /// Of operands that `reads` takes.
    pub(super) fn new(spec: &FormatSpec, scale: i32, enlarge: i64, narrow: bool) -> Self {
        let power = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
        let width = spec.exponent_bits + spec.fraction_bits;
        let align = 15 - width;
        let (emin, emax) = (spec.emin(), spec.max().exponent);
        let first = match spec.specials {
            Specials::Ieee => ((1 << spec.exponent_bits) - 1) << spec.fraction_bits,
            Specials::NanAllOnes => (1u32 << width) - 1,
            Specials::NanNegativeZero | Specials::None => 1 << width,
        };
        Self {
            align: align as i32,
            exponent_bits: spec.exponent_bits,
            magnitude: (((1u32 << width) - 1) << align) as u16,
            special: (first << align) as u16,
            normal: 1 << (spec.fraction_bits + align),
            top: (emax - emin < WINDOW).then_some(emax + spec.bias),
            rebias: i64::from(1023 - spec.bias + scale) << 52 | enlarge,
            subnormal: power(emin - spec.fraction_bits as i32 + scale),
            tiny: power(if narrow { TINY } else { -1000 }).to_bits() as i64 | enlarge,
            enlarge,
            upper: if narrow && emax - emin < WINDOW { Upper::new(spec, scale) } else { None },
        }
    }

    /// Whether operands of a format can be read.
    pub(super) fn reads(spec: &FormatSpec) -> bool {
        let plain = spec.signed && spec.subnormals && spec.ignored_low_bits == 0;
        let fits = spec.storage_bits <= 16 && (1..=8).contains(&spec.exponent_bits);
        plain && fits && spec.specials != Specials::NanNegativeZero
    }

    /// The exponents of words as bytes, 0 for zeros and those below the window, which begins at `low`: of each 128 bits,
    /// the first vector's and the second's.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn exponents(&self, x: [__m512i; 2], low: i16, seen: &mut Seen) -> __m512i {
        let (lowest, mut fields) = (WINDOW_BYTE - low, x);
        if self.upper.is_some() {
            // Zeros and subnormal numbers are as frequent as any others, and nothing is below the window.
            for x in &mut fields {
                let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(self.magnitude as i16));
                let field = _mm512_srlv_epi16(magnitude, _mm512_set1_epi16(15 - self.exponent_bits as i16));
                let field = _mm512_max_epu16(field, _mm512_set1_epi16(1));
                let some = _mm512_test_epi16_mask(magnitude, magnitude);
                *x = _mm512_maskz_add_epi16(some, field, _mm512_set1_epi16(lowest));
            }
            return _mm512_packus_epi16(fields[0], fields[1]);
        }
        for x in &mut fields {
            let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(self.magnitude as i16));
            let field = _mm512_srlv_epi16(magnitude, _mm512_set1_epi16(15 - self.exponent_bits as i16));
            *x = _mm512_add_epi16(field, _mm512_set1_epi16(lowest));
        }
        let bytes = _mm512_packus_epi16(fields[0], fields[1]);
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
            let field = _mm512_srlv_epi16(magnitude, _mm512_set1_epi16(15 - self.exponent_bits as i16));
            let above = _mm512_sub_epi16(_mm512_max_epu16(field, _mm512_set1_epi16(1)), low);
            let far = _mm512_movepi16_mask(above);
            seen.small |= _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(self.normal as i16)) != 0;
            seen.far |= far & !none != 0;
            *x = _mm512_maskz_add_epi16(!(far | none), above, _mm512_set1_epi16(WINDOW_BYTE));
        }
        _mm512_packus_epi16(bytes[0], bytes[1])
    }

    /// The values of eight words, each at the top of its lane; with `SMALL`, subnormal ones and zeros may be among
    /// them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn values<const SMALL: bool>(&self, x: __m512i) -> __m512d {
        let down = 11 - i64::from(self.exponent_bits);
        let mask = i64::MIN | i64::from(self.magnitude) << (48 - down);
        let fields = _mm512_and_si512(_mm512_srav_epi64(x, _mm512_set1_epi64(down)), _mm512_set1_epi64(mask));
        let values = _mm512_add_epi64(fields, _mm512_set1_epi64(self.rebias));
        _mm512_castsi512_pd(if SMALL { self.with_small(x, values) } else { values })
    }

    /// The values, subnormal ones and zeros put right.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn with_small(&self, x: __m512i, values: __m512i) -> __m512i {
        let words = _mm512_and_si512(_mm512_srli_epi64::<48>(x), _mm512_set1_epi64(self.magnitude.into()));
        let small = _mm512_cmplt_epi64_mask(words, _mm512_set1_epi64(self.normal.into()));
        let integers = _mm512_srlv_epi64(words, _mm512_set1_epi64(self.align.into()));
        let subnormal = _mm512_mul_pd(_mm512_cvtepi64_pd(integers), _mm512_set1_pd(self.subnormal));
        let subnormal = _mm512_or_si512(_mm512_castpd_si512(subnormal), _mm512_set1_epi64(self.enlarge));
        let zero = _mm512_testn_epi64_mask(words, words);
        let magnitude = _mm512_mask_mov_epi64(subnormal, zero, _mm512_set1_epi64(self.tiny));
        let signed = _mm512_ternarylogic_epi64::<OR_AND>(magnitude, x, _mm512_set1_epi64(i64::MIN));
        _mm512_mask_mov_epi64(values, small, signed)
    }

    /// Values of one position of A, the lanes of all tiles, `stride` apart, given as the even and the odd ones.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put_lanes<V: Value, const SMALL: bool>(
        &self,
        [even, odd]: [__m512i; 2],
        tiles: usize,
        to: &mut [V],
        stride: usize,
    ) {
        // SAFETY: the instructions are there.
        if unsafe { V::put_upper::<true>(self, [even, odd], tiles, to, stride) } {
            return;
        }
        for t in 0..TILES {
            if t < tiles {
                let parts = [self.values::<SMALL>(raised(even, t)), self.values::<SMALL>(raised(odd, t))];
                // SAFETY: the instructions are there.
                unsafe { V::store_lanes(&mut to[t * stride..], parts) }
            }
        }
    }

    /// `put_lanes` for the positions with zeros and subnormal numbers.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put_small_lanes<V: Value>(&self, x: [__m512i; 2], tiles: usize, to: &mut [V], stride: usize) {
        self.put_lanes::<V, true>(x, tiles, to, stride);
    }

    /// Values of B, 8 and 8 of all tiles, `stride` apart.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put_parts<V: Value, const SMALL: bool>(
        &self,
        [first, second]: [__m512i; 2],
        tiles: usize,
        to: &mut [V],
        stride: usize,
    ) {
        // SAFETY: the instructions are there.
        if unsafe { V::put_upper::<false>(self, [first, second], tiles, to, stride) } {
            return;
        }
        for t in 0..TILES {
            if t < tiles {
                let parts = [self.values::<SMALL>(raised(first, t)), self.values::<SMALL>(raised(second, t))];
                // SAFETY: the instructions are there.
                unsafe { V::store_parts(&mut to[t * stride..], parts) }
            }
        }
    }

    /// `put_parts` for columns with zeros and subnormal numbers.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn put_small_parts<V: Value>(&self, x: [__m512i; 2], tiles: usize, to: &mut [V], stride: usize) {
        self.put_parts::<V, true>(x, tiles, to, stride);
    }

    /// Words moved up; and the largest magnitudes so far.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn take(&self, words: __m512i, peak: &mut __m512i) -> __m512i {
        let x = _mm512_sllv_epi16(words, _mm512_set1_epi16(self.align as i16));
        *peak = _mm512_max_epu16(*peak, _mm512_and_si512(x, _mm512_set1_epi16(self.magnitude as i16)));
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

/// What was met among words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Zeros and subnormal numbers.
    pub(super) small: bool,
    /// Numbers below the exponent window.
    pub(super) far: bool,
}

/// The words of tile `t` at the tops of their lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn raised(x: __m512i, t: usize) -> __m512i {
    match t {
        0 => _mm512_slli_epi64::<48>(x),
        1 => _mm512_slli_epi64::<32>(x),
        2 => _mm512_slli_epi64::<16>(x),
        _ => x,
    }
}

/// What panels of values hold.
pub(super) trait Value: Plain {
    /// Stores 16 values, given as the first and the second ones.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn store_parts(to: &mut [Self], parts: [__m512d; 2]);

    /// Stores 16 values, given as the even and the odd ones: f64 as they are, f32 in order.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn store_lanes(to: &mut [Self], parts: [__m512d; 2]);

    /// Stores 16 values of each tile, `stride` apart, given as words of the even and the odd ones (`LANES`) or of the
    /// first and the second ones, if they can be made as words; or returns `false`.
    ///
    /// # Safety
    /// The instructions are there.
    unsafe fn put_upper<const LANES: bool>(
        _decoder: &Decoder,
        _words: [__m512i; 2],
        _tiles: usize,
        _to: &mut [Self],
        _stride: usize,
    ) -> bool {
        false
    }
}

impl Value for f64 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store_parts(to: &mut [Self], [first, second]: [__m512d; 2]) {
        let to = &mut to[..16];
        // SAFETY: 16 values.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), first);
            _mm512_storeu_pd(to[8..].as_mut_ptr(), second);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store_lanes(to: &mut [Self], parts: [__m512d; 2]) {
        // SAFETY: f64 accumulators are those of the even lanes and of the odd ones.
        unsafe { Self::store_parts(to, parts) }
    }
}

impl Value for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store_parts(to: &mut [Self], [first, second]: [__m512d; 2]) {
        // SAFETY: 16 values.
        unsafe { _mm512_storeu_ps(to[..16].as_mut_ptr(), narrowed(first, second)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store_lanes(to: &mut [Self], [even, odd]: [__m512d; 2]) {
        let order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
        // SAFETY: 16 values.
        unsafe { _mm512_storeu_ps(to[..16].as_mut_ptr(), _mm512_permutexvar_ps(order, narrowed(even, odd))) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn put_upper<const LANES: bool>(
        decoder: &Decoder,
        words: [__m512i; 2],
        tiles: usize,
        to: &mut [Self],
        stride: usize,
    ) -> bool {
        let Some(Upper { rebias, small }) = decoder.upper else { return false };
        // SAFETY: 32 words.
        let small = unsafe { _mm512_loadu_si512(small.as_ptr().cast()) };
        let down = 8 - decoder.exponent_bits as i16;
        let mut upper = words;
        for x in &mut upper {
            let magnitude = _mm512_and_si512(*x, _mm512_set1_epi16(decoder.magnitude as i16));
            let is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(decoder.normal as i16));
            let fields = _mm512_srlv_epi16(magnitude, _mm512_set1_epi16(down));
            let values = _mm512_add_epi16(fields, _mm512_set1_epi16(rebias));
            let code = _mm512_srlv_epi16(magnitude, _mm512_set1_epi16(decoder.align as i16));
            let values = _mm512_mask_permutexvar_epi16(values, is_small, code, small);
            *x = _mm512_ternarylogic_epi32::<OR_AND>(values, *x, _mm512_set1_epi16(i16::MIN));
        }
        // The words of tiles 0 and 1 in the lanes' order, and those of tiles 2 and 3.
        let [x, y] = upper;
        let pairs = if LANES {
            let [x, y] = [_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)];
            let (low, high) = (_mm512_mask_moveldup_ps(x, 0xAAAA, y), _mm512_mask_movehdup_ps(y, 0x5555, x));
            [_mm512_castps_si512(low), _mm512_castps_si512(high)]
        } else {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_epi32(x, even, y), _mm512_permutex2var_epi32(x, odd, y)]
        };
        // A bit of f64's fraction is f32's 29 places lower.
        let enlarge = _mm512_set1_epi32((decoder.enlarge >> 29) as i32);
        for t in 0..TILES.min(tiles) {
            let pair = pairs[t / 2];
            let values = if t % 2 == 0 {
                _mm512_slli_epi32::<16>(pair)
            } else {
                _mm512_and_si512(pair, _mm512_set1_epi32(-1 << 16))
            };
            let to = &mut to[t * stride..][..16];
            // SAFETY: 16 values.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_or_si512(values, enlarge)) }
        }
        true
    }
}

/// Two vectors of f64 as one of f32.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn narrowed(first: __m512d, second: __m512d) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(first)), _mm512_cvtpd_ps(second))
}
