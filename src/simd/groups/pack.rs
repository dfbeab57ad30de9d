//! Panels for integer dot products: bytes, the groups' scales, and what these lie between.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole vectors")]

use super::span::{Seen, Span};
use super::vnni::{COLUMNS, ROWS, Vnni};
use super::{ABSENT, Groups};
use crate::format::FormatSpec;
use crate::simd::buffer::Buffer;
use crate::simd::decode::f32_of;
use crate::simd::lanes::power;
use crate::view::Rows;
use core::arch::x86_64::*;

/// A format's numbers as integers, in units of its last place.
#[derive(Debug)]
pub(super) struct Elements {
    table: [[i32; 16]; 4],
    bits: u32,
    /// The exponent of the last place.
    pub(super) last: i32,
    /// The largest magnitude.
    pub(super) most: i32,
}

impl Elements {
    /// For formats of at most 64 numbers, all of which a signed byte holds.
    pub(super) fn new(spec: &FormatSpec) -> Option<Self> {
        let last = spec.emin() - spec.fraction_bits as i32;
        if spec.storage_bits > 6 || last.abs() > 100 {
            return None;
        }
        let mut new = Self { table: [[0; 16]; 4], bits: spec.storage_bits, last, most: 0 };
        for (code, to) in new.table.as_flattened_mut().iter_mut().enumerate() {
            let x = f64::from(f32_of(&spec.decode(code as u64 & spec.code_mask()))) * power(-last);
            *to = x as i32;
            if f64::from(*to) != x || x.abs() > 127.0 {
                return None;
            }
            new.most = new.most.max(to.abs());
        }
        Some(new)
    }

    /// Words of four zeros, as bytes from 0 up.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zeros(&self) -> __m512i {
        _mm512_set1_epi32(self.most * 0x0101_0101)
    }

    /// The numbers of codes of 4 bits, as bytes from 0 up, once in each half.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn bytes(&self) -> __m256i {
        // SAFETY: a row of 16 integers.
        let numbers = unsafe { _mm512_loadu_si512(self.table[0].as_ptr().cast()) };
        let bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(numbers, _mm512_set1_epi32(self.most)));
        _mm256_broadcastsi128_si256(bytes)
    }

    /// 16 codes' numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn numbers(&self, codes: __m512i) -> __m512i {
        // SAFETY: rows of 16 integers.
        let [t0, t1, t2, t3] = [0, 1, 2, 3].map(|i| unsafe { _mm512_loadu_si512(self.table[i].as_ptr().cast()) });
        if self.bits <= 4 {
            return _mm512_permutexvar_epi32(codes, t0);
        }
        let (low, high) = (_mm512_permutex2var_epi32(t0, codes, t1), _mm512_permutex2var_epi32(t2, codes, t3));
        _mm512_mask_mov_epi32(low, _mm512_test_epi32_mask(codes, _mm512_set1_epi32(32)), high)
    }
}

/// A scale, decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// NaN for NaN.
    value: f32,
    /// [`ABSENT`] for zero.
    exponent: i32,
}

impl Scale {
    const ZERO: Self = Self { value: 0.0, exponent: ABSENT };

    /// All codes of a format of at most 8 bits, if f32 holds them, and them times `2^shift`.
    pub(super) fn table(spec: &FormatSpec, shift: i32) -> Option<Vec<Self>> {
        let scale = |code: u64| {
            let x = spec.decode(code & spec.code_mask());
            if !x.is_finite() {
                return Some(Self { value: f32::NAN, exponent: 0 });
            }
            let value = x.significand as f64 * power(x.exponent - x.frac_bits as i32);
            let held = |x: f64| f64::from(x as f32) == x;
            let exponent = if x.is_zero() { ABSENT } else { x.exponent };
            (held(value) && held(value * power(shift))).then_some(Self { value: value as f32, exponent })
        };
        (0..256).map(scale).collect()
    }
}

/// A packed operand.
#[derive(Debug)]
pub(super) struct Packed {
    /// A: signed, per [`ROWS`] rows and step, `[row][k]`. B: [`Elements::most`] higher and so not
    /// negative, per [`COLUMNS`] columns, `[k / 4][column][k % 4]`.
    pub(super) bytes: Buffer,
    /// A: where a group's sum starts, so that B's offset vanishes, `[group][row]`.
    pub(super) starts: Buffer,
    /// f32, `[group][row or column]`, times products' last place in A; 0 for groups of zeros.
    pub(super) scales: Buffer,
    /// i32, likewise: the scales' exponents, and a bit for every element of the group, set if it is not zero.
    pub(super) exponents: Buffer,
    pub(super) present: Buffer,
    /// Of blocks of rows or columns.
    pub(super) spans: Vec<Span>,
    /// Of A's rows.
    pub(super) rows: Vec<Span>,
    /// Of all of A.
    pub(super) all: Span,
}

impl Default for Packed {
    fn default() -> Self {
        let [bytes, starts, scales, exponents, present] = [(); 5].map(|()| Buffer::default());
        Self { bytes, starts, scales, exponents, present, spans: Vec::new(), rows: Vec::new(), all: Span::NOTHING }
    }
}

/// A code as operands or staged panels have it in memory.
pub(super) trait Code: Copy + 'static {
    /// 16 of them, those beyond the mask 0.
    ///
    /// # Safety
    /// The lanes of the mask can be read, and the instructions are there.
    unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512i;

    /// Numbers of 32 columns at four positions, from 0 up, a column's four in one word. Columns beyond the mask have
    /// code 0, a zero in formats with subnormals.
    ///
    /// # Safety
    /// The lanes of the mask can be read from all pointers, and the instructions are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn quads(elements: &Elements, from: [*const Self; 4], lanes: __mmask32) -> [__m512i; 2] {
        // SAFETY: the caller's promise.
        unsafe { one_by_one(elements, from, lanes) }
    }
}

/// [`Code::quads`] for all formats, 16 numbers of a position at a time.
///
/// # Safety
/// As there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn one_by_one<T: Code>(elements: &Elements, from: [*const T; 4], lanes: __mmask32) -> [__m512i; 2] {
    let mut quads = [elements.zeros(); 2];
    for v in 0..2 {
        for i in 0..4 {
            // SAFETY: the caller's promise.
            let codes = unsafe { T::load(from[i].wrapping_add(16 * v), (lanes >> (16 * v)) as __mmask16) };
            // Digits to the base 256, each 0 to 254 with the offset: the sum has them as its bytes.
            let digit = _mm512_sllv_epi32(elements.numbers(codes), _mm512_set1_epi32(8 * i as i32));
            quads[v] = _mm512_add_epi32(quads[v], digit);
        }
    }
    quads
}

impl Code for u32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_epi32(lanes, from.cast()) }
    }
}

impl Code for u8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512i {
        // SAFETY: the caller's promise.
        _mm512_cvtepu8_epi32(unsafe { _mm_maskz_loadu_epi8(lanes, from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn quads(elements: &Elements, from: [*const Self; 4], lanes: __mmask32) -> [__m512i; 2] {
        if elements.bits > 4 {
            // SAFETY: the caller's promise.
            return unsafe { one_by_one(elements, from, lanes) };
        }
        let mut rows = [_mm256_setzero_si256(); 4];
        for i in 0..4 {
            // SAFETY: the caller's promise.
            let codes = unsafe { _mm256_maskz_loadu_epi8(lanes, from[i].cast()) };
            rows[i] = _mm256_shuffle_epi8(elements.bytes(), _mm256_and_si256(codes, _mm256_set1_epi8(15)));
        }
        // Four rows of bytes become words of a column each; halves of 128 bits go their own ways until the end.
        let [r0, r1, r2, r3] = rows;
        let (low01, high01) = (_mm256_unpacklo_epi8(r0, r1), _mm256_unpackhi_epi8(r0, r1));
        let (low23, high23) = (_mm256_unpacklo_epi8(r2, r3), _mm256_unpackhi_epi8(r2, r3));
        let (q0, q1) = (_mm256_unpacklo_epi16(low01, low23), _mm256_unpackhi_epi16(low01, low23));
        let (q2, q3) = (_mm256_unpacklo_epi16(high01, high23), _mm256_unpackhi_epi16(high01, high23));
        let first = [_mm256_permute2x128_si256::<0x20>(q0, q1), _mm256_permute2x128_si256::<0x20>(q2, q3)];
        let second = [_mm256_permute2x128_si256::<0x31>(q0, q1), _mm256_permute2x128_si256::<0x31>(q2, q3)];
        let both = |[low, high]: [__m256i; 2]| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        [both(first), both(second)]
    }
}

/// A mask of the first `n` lanes.
pub(super) const fn first(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1 << n) - 1 }
}

/// A mask of the first `n` lanes of 32.
const fn first_of_32(n: usize) -> __mmask32 {
    if n >= 32 { !0 } else { (1 << n) - 1 }
}

impl Vnni {
    /// Packs rows of A, `codes[row * k + p]`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) fn pack_rows(&self, codes: &[u32], scales: &[u8], [rows, k]: [usize; 2], to: &mut Packed) {
        let Groups { group, slots, step, .. } = self.body;
        let (blocks, groups) = (rows.div_ceil(ROWS), k / group);
        let bytes = to.bytes.room::<i8>(blocks * ROWS * k);
        let starts = to.starts.room::<i32>(blocks * ROWS * groups);
        let kept = to.scales.room::<f32>(blocks * ROWS * groups);
        let exponents = to.exponents.room::<i32>(blocks * ROWS * groups);
        let all_present = to.present.room::<i32>(blocks * ROWS * groups);
        // Sums of four products, and which of 16 are not zero.
        let (mut quads, mut masks) = (vec![[0i32; 4]; k / 16], vec![0u64; k / 16 + 1]);
        let fold = power(self.rule.last) as f32;
        to.rows.clear();
        for row in 0..blocks * ROWS {
            let (block, r) = (row / ROWS, row % ROWS);
            let codes = codes.get(row * k..).unwrap_or_default();
            for (n, quads) in quads.iter_mut().enumerate() {
                let p = 16 * n;
                let lanes = first(codes.len().saturating_sub(p));
                let at = (block * (k / step) + p / step) * ROWS * step + r * step + p % step;
                let to = &mut bytes[at..at + 16];
                // SAFETY: the lanes of the mask lie in the row's codes; 16 bytes of room, and of sums.
                unsafe {
                    let codes = _mm512_maskz_loadu_epi32(lanes, codes.as_ptr().wrapping_add(p).cast());
                    let numbers = self.a.numbers(codes);
                    masks[n] = _mm512_test_epi32_mask(numbers, numbers).into();
                    let numbers = _mm512_cvtepi32_epi8(numbers);
                    _mm_storeu_si128(to.as_mut_ptr().cast(), numbers);
                    let sums = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), numbers);
                    _mm_storeu_si128(quads.as_mut_ptr().cast(), sums);
                }
            }
            let scales = scales.get(row * groups / slots..).unwrap_or_default();
            let mut seen = Seen::NOTHING;
            for g in 0..groups {
                let p = g * group;
                let sum: i32 = quads.as_flattened()[p / 4..(p + group) / 4].iter().sum();
                let present = (masks[p / 16] | masks[p / 16 + 1] << 16) >> (p % 16) & ((1 << group) - 1);
                let scale = scales.get(g / slots).map_or(Scale::ZERO, |&code| self.scales[usize::from(code)]);
                let counts = present != 0 && scale.value > 0.0;
                if counts {
                    seen.add(scale.value);
                }
                seen.hard |= scale.value.is_nan();
                let at = (block * groups + g) * ROWS + r;
                starts[at] = -self.b.most * sum;
                kept[at] = if present == 0 && !scale.value.is_nan() { 0.0 } else { scale.value * fold };
                exponents[at] = scale.exponent;
                all_present[at] = present as i32;
            }
            to.rows.push(Span::of(&seen, self.scale_emin));
        }
        to.spans.clear();
        let union = |spans: &[Span]| spans.iter().fold(Span::NOTHING, Span::or);
        to.spans.extend(to.rows.chunks(ROWS).map(union));
        to.all = union(&to.spans);
    }

    /// Packs columns of B.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) fn pack_columns<T: Code>(
        &self,
        codes: Rows<'_, T>,
        scales: &[u8],
        [columns, k]: [usize; 2],
        to: &mut Packed,
    ) {
        let group = self.body.group;
        let (blocks, groups) = (columns.div_ceil(COLUMNS), k / group);
        let bytes = to.bytes.room::<u8>(blocks * COLUMNS * k);
        let size = COLUMNS * groups;
        let kept = to.scales.room::<f32>(blocks * size);
        let exponents = to.exponents.room::<i32>(blocks * size);
        let present = to.present.room::<i32>(blocks * size);
        to.spans.clear();
        for block in 0..blocks {
            let kept = &mut kept[block * size..][..size];
            let (first_column, mut seen) = (block * COLUMNS, Columns::new());
            self.spread(scales, [first_column, columns], kept, &mut exponents[block * size..][..size]);
            let lanes = first_of_32(columns - first_column);
            for g in 0..groups {
                let mut any = [_mm512_setzero_si512(); 2];
                for (q, p) in (g * group..(g + 1) * group).step_by(4).enumerate() {
                    let mut from = [core::ptr::null(); 4];
                    for i in 0..4 {
                        from[i] = codes.row(p + i)[first_column..columns].as_ptr();
                    }
                    // SAFETY: the lanes of the mask lie in the rows.
                    let quads = unsafe { T::quads(&self.b, from, lanes) };
                    for v in 0..2 {
                        let at = (block * k + p) * COLUMNS + v * 64;
                        // SAFETY: 64 bytes of room.
                        unsafe { _mm512_storeu_si512(bytes[at..at + 64].as_mut_ptr().cast(), quads[v]) }
                        let there = _mm512_cmpneq_epi8_mask(quads[v], self.b.zeros());
                        // A bit for each byte, summed in its word.
                        let bits = _mm512_maskz_mov_epi8(there, _mm512_set1_epi32(0x0804_0201));
                        let bits = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bits, _mm512_set1_epi8(1));
                        any[v] = _mm512_or_si512(any[v], _mm512_sllv_epi32(bits, _mm512_set1_epi32(4 * q as i32)));
                    }
                }
                for v in 0..2 {
                    let to = &mut kept[g * COLUMNS + v * 16..][..16];
                    let present = &mut present[block * size + g * COLUMNS + v * 16..][..16];
                    // SAFETY: 16 numbers of room each.
                    unsafe {
                        let scales = _mm512_loadu_ps(to.as_ptr());
                        let scales = seen.add(scales, _mm512_test_epi32_mask(any[v], any[v]));
                        _mm512_storeu_ps(to.as_mut_ptr(), scales);
                        _mm512_storeu_si512(present.as_mut_ptr().cast(), any[v]);
                    }
                }
            }
            to.spans.push(Span::of(&seen.finish(), self.scale_emin));
        }
    }

    /// Scales of a block of columns, a row of columns for every group; 0 for columns that are not there.
    fn spread(&self, scales: &[u8], [from, columns]: [usize; 2], to: &mut [f32], exponents: &mut [i32]) {
        let (groups, slots) = (to.len() / COLUMNS, self.body.slots);
        let per = groups / slots;
        for j in 0..COLUMNS {
            let line = if from + j < columns { &scales[(from + j) * per..][..per] } else { &[] };
            for g in 0..groups {
                let scale = line.get(g / slots).map_or(Scale::ZERO, |&code| self.scales[usize::from(code)]);
                (to[g * COLUMNS + j], exponents[g * COLUMNS + j]) = (scale.value, scale.exponent);
            }
        }
    }
}

/// [`Seen`], a lane for each of 16 columns.
struct Columns {
    least: __m512,
    most: __m512,
    fractions: __m512i,
    hard: __mmask16,
}

impl Columns {
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let (least, most) = (_mm512_set1_ps(f32::INFINITY), _mm512_setzero_ps());
        Self { least, most, fractions: _mm512_setzero_si512(), hard: 0 }
    }

    /// Sees scales of groups, which count where an element is not zero; returns those that count and NaNs, and else 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn add(&mut self, scales: __m512, elements: __mmask16) -> __m512 {
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(scales, scales);
        let counts = elements & _mm512_cmp_ps_mask::<_CMP_GT_OQ>(scales, _mm512_setzero_ps());
        self.hard |= nan;
        self.least = _mm512_mask_min_ps(self.least, counts, self.least, scales);
        self.most = _mm512_mask_max_ps(self.most, counts, self.most, scales);
        let scales = _mm512_maskz_mov_ps(counts | nan, scales);
        self.fractions = _mm512_or_si512(self.fractions, _mm512_castps_si512(scales));
        scales
    }

    #[target_feature(enable = "avx512f")]
    fn finish(&self) -> Seen {
        Seen {
            least: _mm512_reduce_min_ps(self.least),
            most: _mm512_reduce_max_ps(self.most),
            fractions: _mm512_reduce_or_epi32(self.fractions) as u32 & 0x7F_FFFF,
            hard: self.hard != 0,
        }
    }
}
