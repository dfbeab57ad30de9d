//! Sixteen columns' codes at a position of K, read together on AVX2 with F16C (which AVX-512 has, too): what
//! `decode::Fields` says of each of them, in a third to a half of its operations. Narrow formats become f16, which the
//! processor converts, subnormal numbers included; exponents stay words of 16 bits.

#![allow(unsafe_code, reason = "vector instructions")]

use super::buffer::Plain;
use super::decode::{Decoder, FAR, LOW, Seen, WINDOW, f32_power};
use super::values::NR;
use super::{Avx2, Avx512, Isa};
use crate::format::{F16, FormatSpec, Specials};
use crate::view::Rows;
use core::arch::x86_64::*;

/// How values come of codes.
mod how {
    /// f16's own.
    pub(super) const HALF: u8 = 0;
    /// Of at most 5 bits of exponent and 10 of fraction: fields move to where f16 has them.
    pub(super) const NARROW: u8 = 1;
    /// The same, with the exponents that numbers have in f16, where some of the subnormal ones are normal.
    pub(super) const VIA_HALF: u8 = 2;
    /// bf16: f32's upper half.
    pub(super) const UPPER: u8 = 3;
    /// f32, or what it is without its lowest bits.
    pub(super) const WHOLE: u8 = 4;
}

/// A reader of sixteen columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sixteen {
    _set: Avx2,
    spec: FormatSpec,
    how: u8,
    /// Bits below the exponent field.
    below: u32,
    /// The bits below the sign, and the sign's, where they count.
    magnitude: u32,
    sign: u32,
    /// From fields to f16's: of the sign and of the rest.
    sign_up: u32,
    up: u32,
    /// What f16's numbers are multiplied by then.
    factor: f32,
    /// Magnitudes from here on are infinities and NaN.
    special: u32,
    /// The code that is NaN in place of a negative zero.
    nan: Option<u16>,
    /// Whether subnormal numbers are +0, and zeros, too.
    flush: bool,
    /// What exponents are less than their fields, those of f32 by way of f16; and the one of zeros.
    bias: i16,
    zero_exponent: i16,
    /// Whether the smallest and the largest exponent are wanted, or numbers can be far.
    tracks: bool,
    spans: bool,
}

impl Sixteen {
    /// For the decoder's format as it is read, if there is a way.
    pub(super) fn new(isa: Isa, decoder: &Decoder) -> Option<Self> {
        let set = Avx512::new(isa).map(Avx512::avx2).or_else(|| Avx2::new(isa))?;
        let (spec, reading) = (&decoder.spec, decoder.reading);
        let width = spec.exponent_bits + spec.fraction_bits;
        let mut how = how_of(spec).filter(|_| decoder.fields.is_some())?;
        if reading.via_f16 && spec.emin() != F16.emin() {
            how = if how == how::NARROW { how::VIA_HALF } else { return None };
        }
        let tracks = matches!(how, how::UPPER | how::WHOLE) || reading.spans;
        // What `row` has no operations for: only one of the two for numbers that are flushed and for zeros, either of
        // f32's width, and zeros with an exponent, which the lowest exponent could not tell from small numbers.
        let flushes_wide = reading.flush && how == how::WHOLE;
        if reading.flush != reading.positive_zero || flushes_wide || (tracks && reading.zeros_count) {
            return None;
        }
        Some(Self {
            _set: set,
            spec: *spec,
            how,
            below: spec.fraction_bits + spec.ignored_low_bits,
            magnitude: ((1 << width) - 1) << spec.ignored_low_bits,
            sign: u32::from(spec.signed) << (width + spec.ignored_low_bits),
            sign_up: 15u32.saturating_sub(width),
            up: 10u32.saturating_sub(spec.fraction_bits),
            factor: if matches!(how, how::NARROW | how::VIA_HALF) { f32_power(15 - spec.bias) } else { 1.0 },
            special: (spec.first_special() as u32) << spec.ignored_low_bits,
            nan: (spec.specials == Specials::NanNegativeZero).then(|| 1 << width),
            flush: reading.flush,
            bias: if how == how::VIA_HALF { 127 } else { spec.bias as i16 },
            zero_exponent: match () {
                () if !reading.zeros_count => LOW,
                () if reading.via_f16 => F16.emin() as i16,
                () => spec.emin() as i16,
            },
            tracks,
            spans: reading.spans,
        })
    }

    /// Reads a step's positions in some order, or as they come, for sixteen columns: `at` is where the step begins, and
    /// the first column. Gives values, exponents and flags; none where some element is infinite or NaN, and then what
    /// has been written means nothing.
    ///
    /// Called where AVX2 and F16C are enabled, as it is inlined there.
    #[inline(always)]
    pub(super) fn read<T: Plain + Into<u32>>(
        &self,
        codes: &Rows<'_, T>,
        at: [usize; 2],
        order: &[usize],
        to: (&mut [[f32; NR]], &mut [[i16; NR]]),
    ) -> Option<u8> {
        self.read_extent(codes, at, order, to).map(|extent| self.flags(extent))
    }

    /// The same, and in place of flags what exponents there are.
    #[inline(always)]
    pub(super) fn read_extent<T: Plain + Into<u32>>(
        &self,
        codes: &Rows<'_, T>,
        [start, first]: [usize; 2],
        order: &[usize],
        (values, exponents): (&mut [[f32; NR]], &mut [[i16; NR]]),
    ) -> Option<Extent> {
        let by_order = |to: usize| {
            let from = if order.is_empty() { to } else { order[to] };
            codes.row(start + from)[first..].first_chunk()
        };
        match self.how {
            how::HALF => self.read_as::<T, { how::HALF }>(by_order, values, exponents),
            how::NARROW => self.read_as::<T, { how::NARROW }>(by_order, values, exponents),
            how::VIA_HALF => self.read_as::<T, { how::VIA_HALF }>(by_order, values, exponents),
            how::UPPER => self.read_as::<T, { how::UPPER }>(by_order, values, exponents),
            _ => self.read_as::<T, { how::WHOLE }>(by_order, values, exponents),
        }
    }

    /// Reads codes that come in squares. `None`, too, where they are words of 32 bits and the format's are not, or the
    /// other way round.
    ///
    /// # Safety
    /// AVX2 and F16C are enabled where it is called, and the squares are there.
    #[inline(always)]
    pub(super) unsafe fn read_squares<S: Squares<N>, const N: usize>(
        &self,
        squares: &mut S,
        to: (&mut [[f32; NR]], &mut [[i16; NR]]),
    ) -> Option<Extent> {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.how, S::WIDE) {
                (how::HALF, false) => self.read_squares_as::<S, N, { how::HALF }>(squares, to),
                (how::NARROW, false) => self.read_squares_as::<S, N, { how::NARROW }>(squares, to),
                (how::VIA_HALF, false) => self.read_squares_as::<S, N, { how::VIA_HALF }>(squares, to),
                (how::UPPER, false) => self.read_squares_as::<S, N, { how::UPPER }>(squares, to),
                (how::WHOLE, true) => self.read_squares_as::<S, N, { how::WHOLE }>(squares, to),
                _ => None,
            }
        }
    }

    /// Whether the smallest and the largest exponent are found.
    pub(super) fn tracks_exponents(&self) -> bool {
        self.tracks
    }

    /// For exponents that are not tracked: gives how far they are above `base`, and 0 for zeros.
    pub(super) fn above(self, base: i16) -> Self {
        debug_assert!(!self.tracks);
        Self { bias: self.bias + base, zero_exponent: 0, ..self }
    }

    /// Whether codes can come in squares, `wide` ones of words of 32 bits.
    pub(super) fn takes_squares(&self, wide: bool) -> bool {
        (self.how == how::WHOLE) == wide
    }

    /// Flags of exponents, where these are tracked.
    fn flags(&self, Extent { low, high }: Extent) -> u8 {
        // Where all are zeros, `low` is no number's.
        let far = high > WINDOW || (high > i32::from(LOW) && low < -WINDOW);
        let flags = if far { FAR } else { 0 };
        match (self.tracks, self.spans) {
            (false, _) => 0,
            (true, false) => flags,
            (true, true) => {
                let above = if high > i32::from(LOW) { (low - i32::from(LOW) - 1) as u16 } else { u16::MAX };
                Seen::of(flags, above, high as i16).flags(&self.spec)
            }
        }
    }
}

/// The smallest and the largest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) low: i32,
    pub(super) high: i32,
}

impl Extent {
    /// Of nothing but zeros.
    pub(super) const NONE: Self = Self { low: i32::MAX, high: LOW as i32 };

    /// Of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// Codes that come `N` vectors at a time, each of sixteen columns at a position, in one register as words of 16 bits or
/// in two of 32.
pub(super) trait Squares<const N: usize> {
    /// Whether words have 32 bits.
    const WIDE: bool;

    /// How many squares there are.
    fn count(&self) -> usize;

    /// The vectors of a square.
    ///
    /// # Safety
    /// AVX2 is enabled where it is called, and there are so many.
    unsafe fn square(&mut self, i: usize) -> [[__m256i; 2]; N];

    /// Where a vector of a square belongs.
    fn place(&self, i: usize, n: usize) -> usize;
}

/// How a format's values come of its codes.
fn how_of(spec: &FormatSpec) -> Option<u8> {
    let (bits, fraction) = (spec.exponent_bits, spec.fraction_bits);
    if bits == 8 && spec.bias == 127 && spec.specials == Specials::Ieee && spec.signed {
        return match (fraction, fraction + spec.ignored_low_bits) {
            (7, 7) => Some(how::UPPER),
            (_, 23) => Some(how::WHOLE),
            _ => None,
        };
    }
    // f16's largest field is no number's.
    let narrow = bits < 5 || (bits == 5 && spec.specials == Specials::Ieee);
    // No number is far.
    let close = spec.emin() - fraction as i32 >= -WINDOW && spec.max().exponent <= WINDOW;
    match () {
        () if spec.ignored_low_bits > 0 || !narrow || !close || fraction > F16.fraction_bits => None,
        () if bits == 5 && fraction == 10 && spec.bias == 15 && spec.signed => Some(how::HALF),
        () => Some(how::NARROW),
    }
}

/// What has been seen of a step's elements.
struct Met {
    /// The largest magnitudes; of 32-bit formats, two of 8.
    most: [__m256i; 2],
    /// The lowest exponents above [`LOW`] less one, and the highest.
    low: __m256i,
    high: __m256i,
    nan: __m256i,
}

impl Met {
    /// # Safety
    /// AVX2 is there.
    #[inline(always)]
    unsafe fn nothing() -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let zero = _mm256_setzero_si256();
            Self { most: [zero; 2], low: _mm256_set1_epi16(-1), high: _mm256_set1_epi16(LOW), nan: zero }
        }
    }
}

impl Sixteen {
    #[inline(always)]
    fn read_as<'a, T: Plain + Into<u32> + 'a, const HOW: u8>(
        &self,
        row: impl Fn(usize) -> Option<&'a [T; NR]>,
        values: &mut [[f32; NR]],
        exponents: &mut [[i16; NR]],
    ) -> Option<Extent> {
        // A copy, which no store can change: what the loop asks of it stays in registers.
        let by = *self;
        // SAFETY: `self` has the proof that the set is there.
        unsafe {
            let mut met = Met::nothing();
            for (to, (values, exponents)) in values.iter_mut().zip(exponents).enumerate() {
                let row = row(to)?;
                let codes = if HOW == how::WHOLE { words(row) } else { [halves(row); 2] };
                by.row::<HOW>(codes, values, exponents, &mut met);
            }
            by.extent::<HOW>(&met)
        }
    }

    /// # Safety
    /// As `read_squares`.
    #[inline(always)]
    unsafe fn read_squares_as<S: Squares<N>, const N: usize, const HOW: u8>(
        &self,
        squares: &mut S,
        (values, exponents): (&mut [[f32; NR]], &mut [[i16; NR]]),
    ) -> Option<Extent> {
        let by = *self;
        // SAFETY: the caller's promise.
        unsafe {
            let mut met = Met::nothing();
            for i in 0..squares.count() {
                let square = squares.square(i);
                // Not as a loop, which would put the square into memory.
                macro_rules! each {
                    ($($n:literal)*) => { $(
                        if $n < N {
                            let to = squares.place(i, $n);
                            by.row::<HOW>(square[$n], &mut values[to], &mut exponents[to], &mut met);
                        }
                    )* };
                }
                const { assert!(N <= 8) };
                each!(0 1 2 3 4 5 6 7);
            }
            by.extent::<HOW>(&met)
        }
    }

    /// # Safety
    /// AVX2 and F16C are there.
    #[inline(always)]
    unsafe fn row<const HOW: u8>(
        &self,
        codes: [__m256i; 2],
        values: &mut [f32; NR],
        exponents: &mut [i16; NR],
        met: &mut Met,
    ) {
        // SAFETY: the caller's promise; loads and stores are of arrays as long as they are.
        unsafe {
            let (zero, shift) = (_mm256_setzero_si256(), _mm_cvtsi32_si128(self.below as i32));
            let (lower, upper, field, none);
            if HOW == how::WHOLE {
                let [x, y] = codes;
                let (mask, sign) = (_mm256_set1_epi32(self.magnitude as i32), _mm256_set1_epi32(self.sign as i32));
                let (p, q) = (_mm256_and_si256(x, mask), _mm256_and_si256(y, mask));
                met.most = [_mm256_max_epu32(met.most[0], p), _mm256_max_epu32(met.most[1], q)];
                field = joined(_mm256_srl_epi32(p, shift), _mm256_srl_epi32(q, shift));
                // Subnormal numbers have field 0, too.
                let both = _mm256_packs_epi32(_mm256_cmpeq_epi32(p, zero), _mm256_cmpeq_epi32(q, zero));
                none = _mm256_permute4x64_epi64::<0b11_01_10_00>(both);
                lower = _mm256_or_si256(p, _mm256_and_si256(x, sign));
                upper = _mm256_or_si256(q, _mm256_and_si256(y, sign));
            } else {
                let mut x = codes[0];
                let mask = _mm256_set1_epi16(self.magnitude as i16);
                let mut magnitude = _mm256_and_si256(x, mask);
                met.most[0] = _mm256_max_epu16(met.most[0], magnitude);
                if let Some(nan) = self.nan {
                    let all = _mm256_and_si256(x, _mm256_set1_epi16((self.sign | self.magnitude) as i16));
                    met.nan = _mm256_or_si256(met.nan, _mm256_cmpeq_epi16(all, _mm256_set1_epi16(nan as i16)));
                }
                if self.flush {
                    // Both are below 2^15.
                    let least = _mm256_set1_epi16(1 << self.below);
                    let keep = _mm256_cmpgt_epi16(magnitude, _mm256_sub_epi16(least, _mm256_set1_epi16(1)));
                    (x, magnitude) = (_mm256_and_si256(x, keep), _mm256_and_si256(magnitude, keep));
                }
                if matches!(HOW, how::NARROW | how::VIA_HALF) {
                    let sign = _mm256_and_si256(x, _mm256_set1_epi16(self.sign as i16));
                    let rest = _mm256_sll_epi16(magnitude, _mm_cvtsi32_si128(self.up as i32));
                    x = _mm256_or_si256(_mm256_sll_epi16(sign, _mm_cvtsi32_si128(self.sign_up as i32)), rest);
                }
                field = _mm256_srl_epi16(magnitude, shift);
                none = _mm256_cmpeq_epi16(magnitude, zero);
                lower = self.eight::<HOW>(_mm256_castsi256_si128(x));
                upper = self.eight::<HOW>(_mm256_extracti128_si256::<1>(x));
            }
            let to = values.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(to, lower);
            _mm256_storeu_si256(to.add(1), upper);
            // Subnormal numbers have the smallest normal one's exponent.
            let exponent = if HOW == how::VIA_HALF {
                let field = joined(place(lower), place(upper));
                let lowest = _mm256_set1_epi16(127 + F16.emin() as i16);
                _mm256_max_epi16(field, lowest)
            } else {
                _mm256_max_epi16(field, _mm256_set1_epi16(1))
            };
            let exponent = _mm256_sub_epi16(exponent, _mm256_set1_epi16(self.bias));
            let exponent = _mm256_blendv_epi8(exponent, _mm256_set1_epi16(self.zero_exponent), none);
            _mm256_storeu_si256(exponents.as_mut_ptr().cast(), exponent);
            if self.tracks {
                met.low = _mm256_min_epu16(met.low, _mm256_sub_epi16(exponent, _mm256_set1_epi16(LOW + 1)));
                met.high = _mm256_max_epi16(met.high, exponent);
            }
        }
    }

    /// f32 of words of 16 bits.
    ///
    /// # Safety
    /// AVX2 and F16C are there.
    #[inline(always)]
    unsafe fn eight<const HOW: u8>(&self, x: __m128i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            match HOW {
                how::UPPER => _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(x)),
                how::HALF => _mm256_castps_si256(_mm256_cvtph_ps(x)),
                _ => _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtph_ps(x), _mm256_set1_ps(self.factor))),
            }
        }
    }

    /// What exponents there were, unless something was infinite or NaN.
    ///
    /// # Safety
    /// AVX2 is there.
    #[inline(always)]
    unsafe fn extent<const HOW: u8>(&self, met: &Met) -> Option<Extent> {
        // SAFETY: the caller's promise.
        unsafe {
            // Magnitudes and this are no negative integers.
            let below = if HOW == how::WHOLE {
                let most = _mm256_max_epu32(met.most[0], met.most[1]);
                _mm256_cmpgt_epi32(_mm256_set1_epi32(self.special as i32), most)
            } else {
                // At most 2^15, of which signed comparisons know nothing.
                let last = _mm256_set1_epi16((self.special - 1) as i16);
                _mm256_cmpeq_epi16(_mm256_max_epu16(last, met.most[0]), last)
            };
            if _mm256_movemask_epi8(_mm256_andnot_si256(met.nan, below)) != -1 {
                return None;
            }
            if !self.tracks {
                return Some(Extent::NONE);
            }
            let (mut low, mut high) = ([0u16; NR], [0i16; NR]);
            _mm256_storeu_si256(low.as_mut_ptr().cast(), met.low);
            _mm256_storeu_si256(high.as_mut_ptr().cast(), met.high);
            let (low, high) = (low.iter().fold(u16::MAX, |x, y| x.min(*y)), high.iter().fold(LOW, |x, y| x.max(*y)));
            // Zeros have more than any number.
            let low = if low == u16::MAX { i32::MAX } else { i32::from(low) + i32::from(LOW) + 1 };
            Some(Extent { low, high: high.into() })
        }
    }
}

/// Codes as words of 16 bits; of wider ones, their lower halves.
///
/// # Safety
/// AVX2 is there. (T is `u8`, `u16` or `u32`: no other plain number becomes a `u32`.)
#[inline(always)]
unsafe fn halves<T: Plain + Into<u32>>(row: &[T; NR]) -> __m256i {
    let from = row.as_ptr();
    // SAFETY: the caller's promise; there are `NR` codes.
    unsafe {
        match size_of::<T>() {
            1 => _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast())),
            2 => _mm256_loadu_si256(from.cast()),
            _ => {
                let ([x, y], lower) = (words(row), _mm256_set1_epi32(0xFFFF));
                joined(_mm256_and_si256(x, lower), _mm256_and_si256(y, lower))
            }
        }
    }
}

/// Words of 16 bits, in order, from words of 32 that fit.
///
/// # Safety
/// AVX2 is there.
#[inline(always)]
unsafe fn joined(x: __m256i, y: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(x, y)) }
}

/// Exponent fields of f32.
///
/// # Safety
/// AVX2 is there.
#[inline(always)]
unsafe fn place(x: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_srli_epi32::<24>(_mm256_slli_epi32::<1>(x)) }
}

/// Codes as words of 32 bits.
///
/// # Safety
/// As `halves`.
#[inline(always)]
unsafe fn words<T: Plain + Into<u32>>(row: &[T; NR]) -> [__m256i; 2] {
    let from = row.as_ptr();
    // SAFETY: the caller's promise; there are `NR` codes.
    unsafe {
        match size_of::<T>() {
            1 => {
                let codes = _mm_loadu_si128(from.cast());
                [_mm256_cvtepu8_epi32(codes), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(codes))]
            }
            2 => {
                let codes = _mm256_loadu_si256(from.cast());
                let upper = _mm256_extracti128_si256::<1>(codes);
                [_mm256_cvtepu16_epi32(_mm256_castsi256_si128(codes)), _mm256_cvtepu16_epi32(upper)]
            }
            _ => [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.cast::<__m256i>().add(1))],
        }
    }
}

#[cfg(test)]
mod tests;
