//! Panels for integer dot products: bytes, the groups' scales, and what these lie between.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole vectors")]

use super::bytes::Bytes;
use super::set::Set;
use super::span::{Seen, Span};
use super::tile::{COLUMNS, ROWS};
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
    /// By code.
    table: [i8; 64],
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
        let mut new = Self { table: [0; 64], bits: spec.storage_bits, last, most: 0 };
        for (code, to) in new.table.iter_mut().enumerate() {
            let x = f64::from(f32_of(&spec.decode(code as u64 & spec.code_mask()))) * power(-last);
            *to = x as i8;
            if f64::from(*to) != x || x.abs() > 127.0 {
                return None;
            }
            new.most = new.most.max(i32::from(*to).abs());
        }
        Some(new)
    }

    /// The number of a code.
    #[inline(always)]
    fn number(&self, code: u32) -> i8 {
        self.table[code as usize % 64]
    }

    /// The numbers of codes of 4 bits, once in each half.
    ///
    /// # Safety
    /// AVX2 is there, as below.
    #[inline(always)]
    unsafe fn of_four_bits(&self) -> __m256i {
        // SAFETY: 16 bytes, and the caller's promise.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(self.table.as_ptr().cast())) }
    }

    /// Numbers of A at 16 positions.
    ///
    /// # Safety
    /// As `of_four_bits`.
    #[inline(always)]
    unsafe fn bytes(&self, codes: &[u32; 16]) -> __m128i {
        if self.bits > 4 {
            let mut bytes = [0i8; 16];
            for i in 0..16 {
                bytes[i] = self.number(codes[i]);
            }
            // SAFETY: 16 bytes.
            return unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        }
        // SAFETY: 8 words each, and the caller's promise.
        unsafe {
            // What a word has above the code does not matter.
            let mask = _mm256_set1_epi32(15);
            let low = _mm256_and_si256(_mm256_loadu_si256(codes.as_ptr().cast()), mask);
            let high = _mm256_and_si256(_mm256_loadu_si256(codes.as_ptr().add(8).cast()), mask);
            let words = _mm256_permute4x64_epi64::<0b1101_1000>(_mm256_packus_epi32(low, high));
            let codes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_shuffle_epi8(_mm256_castsi256_si128(self.of_four_bits()), codes)
        }
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
pub(super) trait Code: Copy + Into<u32> + 'static {
    /// Numbers of at most 32 columns at four positions, from 0 up, a column's four in one word. Further columns are
    /// those of zero.
    ///
    /// # Safety
    /// AVX2 is there.
    #[inline(always)]
    unsafe fn quads(elements: &Elements, rows: [&[Self]; 4]) -> [__m256i; 4] {
        one_by_one(elements, rows)
    }
}

/// [`Code::quads`] for all formats.
#[inline(always)]
fn one_by_one<T: Code>(elements: &Elements, rows: [&[T]; 4]) -> [__m256i; 4] {
    let mut quads = [[elements.most as u8; 4]; COLUMNS];
    for (i, row) in rows.into_iter().enumerate() {
        for (quad, code) in quads.iter_mut().zip(row) {
            quad[i] = (i32::from(elements.number((*code).into())) + elements.most) as u8;
        }
    }
    // SAFETY: both are 128 bytes, and any are vectors.
    unsafe { core::mem::transmute(quads) }
}

impl Code for u32 {}

impl Code for u8 {
    #[inline(always)]
    unsafe fn quads(elements: &Elements, rows: [&[Self]; 4]) -> [__m256i; 4] {
        if elements.bits > 4 {
            return one_by_one(elements, rows);
        }
        // SAFETY: the caller's promise, and 32 codes.
        unsafe {
            let offset = _mm256_set1_epi8(elements.most as i8);
            let table = _mm256_add_epi8(elements.of_four_bits(), offset);
            let mut numbers = [offset; 4];
            for i in 0..4 {
                let mut codes = [0u8; COLUMNS];
                let from = match <&[u8; COLUMNS]>::try_from(rows[i]) {
                    Ok(row) => row,
                    Err(_) => {
                        codes.iter_mut().zip(rows[i]).for_each(|(to, code)| *to = *code);
                        &codes
                    }
                };
                let codes = _mm256_loadu_si256(from.as_ptr().cast());
                numbers[i] = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, _mm256_set1_epi8(15)));
            }
            // Four rows of bytes become words of a column each; halves of 128 bits go their own ways until the end.
            let [r0, r1, r2, r3] = numbers;
            let (low01, high01) = (_mm256_unpacklo_epi8(r0, r1), _mm256_unpackhi_epi8(r0, r1));
            let (low23, high23) = (_mm256_unpacklo_epi8(r2, r3), _mm256_unpackhi_epi8(r2, r3));
            let (q0, q1) = (_mm256_unpacklo_epi16(low01, low23), _mm256_unpackhi_epi16(low01, low23));
            let (q2, q3) = (_mm256_unpacklo_epi16(high01, high23), _mm256_unpackhi_epi16(high01, high23));
            [
                _mm256_permute2x128_si256::<0x20>(q0, q1),
                _mm256_permute2x128_si256::<0x20>(q2, q3),
                _mm256_permute2x128_si256::<0x31>(q0, q1),
                _mm256_permute2x128_si256::<0x31>(q2, q3),
            ]
        }
    }
}

impl Bytes {
    /// Packs rows of A, `codes[row * k + p]`; the set is the proof that AVX2 is there.
    #[inline(always)]
    pub(super) fn pack_rows<S: Set>(&self, _: S, codes: &[u32], scales: &[u8], [rows, k]: [usize; 2], to: &mut Packed) {
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
                let at = (block * (k / step) + p / step) * ROWS * step + r * step + p % step;
                let to = &mut bytes[at..at + 16];
                // Rows that are not there are zeros.
                let codes = codes.get(p..).and_then(|codes| codes.first_chunk()).unwrap_or(&[0; 16]);
                // SAFETY: 16 bytes of room, and of sums; the instructions are the set's.
                unsafe {
                    let numbers = self.a.bytes(codes);
                    _mm_storeu_si128(to.as_mut_ptr().cast(), numbers);
                    let zero = _mm_cmpeq_epi8(numbers, _mm_setzero_si128());
                    masks[n] = u64::from(!_mm_movemask_epi8(zero) as u16);
                    let sums = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(1), numbers), _mm_set1_epi16(1));
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

    /// Packs columns of B; the set is the proof that AVX2 is there.
    #[inline(always)]
    pub(super) fn pack_columns<S: Set, T: Code>(
        &self,
        _: S,
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
            let (first, mut seen) = (block * COLUMNS, Columns::new());
            self.spread(scales, [first, columns], kept, &mut exponents[block * size..][..size]);
            let last = columns.min(first + COLUMNS);
            for g in 0..groups {
                let present = &mut present[block * size + g * COLUMNS..][..COLUMNS];
                // SAFETY: the instructions are the set's; 32 bytes of room each, and 8 integers.
                unsafe {
                    let zero = _mm256_set1_epi8(self.b.most as i8);
                    let mut any = [_mm256_setzero_si256(); COLUMNS / 8];
                    for (q, p) in (g * group..(g + 1) * group).step_by(4).enumerate() {
                        let rows = [0, 1, 2, 3].map(|i| &codes.row(p + i)[first..last]);
                        let quads = T::quads(&self.b, rows);
                        let to = &mut bytes[(block * k + p) * COLUMNS..][..4 * COLUMNS];
                        for v in 0..COLUMNS / 8 {
                            _mm256_storeu_si256(to[32 * v..].as_mut_ptr().cast(), quads[v]);
                            // A bit for each byte that is not zero, summed in its word.
                            let bits = _mm256_set1_epi32(0x0804_0201);
                            let bits = _mm256_andnot_si256(_mm256_cmpeq_epi8(quads[v], zero), bits);
                            let bits = _mm256_maddubs_epi16(bits, _mm256_set1_epi8(1));
                            let bits = _mm256_madd_epi16(bits, _mm256_set1_epi16(1));
                            any[v] = _mm256_or_si256(any[v], _mm256_sll_epi32(bits, _mm_cvtsi32_si128(4 * q as i32)));
                        }
                    }
                    for (to, any) in present.as_chunks_mut::<8>().0.iter_mut().zip(any) {
                        _mm256_storeu_si256(to.as_mut_ptr().cast(), any);
                    }
                }
                seen.add(&mut kept[g * COLUMNS..][..COLUMNS], present);
            }
            to.spans.push(Span::of(&seen.finish(), self.scale_emin));
        }
    }

    /// Scales of a block of columns, a row of columns for every group; 0 for columns that are not there.
    fn spread(&self, scales: &[u8], [from, columns]: [usize; 2], to: &mut [f32], exponents: &mut [i32]) {
        let slots = self.body.slots;
        let (there, table) = (from..columns.min(from + COLUMNS), self.scales.first_chunk::<256>());
        let table = table.expect("a scale for every byte");
        // Groups of one scale stand one after another.
        let rows = to.chunks_exact_mut(slots * COLUMNS).zip(exponents.chunks_exact_mut(slots * COLUMNS));
        for ((to, exponents), scales) in rows.zip(scales.chunks_exact(columns)) {
            let codes = &scales[there.clone()];
            for (j, &code) in codes.iter().enumerate() {
                let scale = table[usize::from(code)];
                (to[j], exponents[j]) = (scale.value, scale.exponent);
            }
            for j in codes.len()..COLUMNS {
                (to[j], exponents[j]) = (Scale::ZERO.value, Scale::ZERO.exponent);
            }
            for g in 1..slots {
                to.copy_within(..COLUMNS, g * COLUMNS);
                exponents.copy_within(..COLUMNS, g * COLUMNS);
            }
        }
    }
}

/// [`Seen`], a lane for each column.
struct Columns {
    least: [f32; COLUMNS],
    most: [f32; COLUMNS],
    fractions: [u32; COLUMNS],
    hard: [bool; COLUMNS],
}

impl Columns {
    #[inline(always)]
    fn new() -> Self {
        Self { least: [f32::INFINITY; COLUMNS], most: [0.0; COLUMNS], fractions: [0; COLUMNS], hard: [false; COLUMNS] }
    }

    /// Sees scales of groups, which count where an element is not zero, and leaves those that count, NaNs, and else 0.
    #[inline(always)]
    fn add(&mut self, scales: &mut [f32], present: &[i32]) {
        for j in 0..COLUMNS {
            let (scale, nan) = (scales[j], scales[j].is_nan());
            let counts = (present[j] != 0) & (scale > 0.0);
            self.hard[j] |= nan;
            self.least[j] = if counts & (scale < self.least[j]) { scale } else { self.least[j] };
            self.most[j] = if counts & (scale > self.most[j]) { scale } else { self.most[j] };
            scales[j] = if counts | nan { scale } else { 0.0 };
            self.fractions[j] |= scales[j].to_bits();
        }
    }

    #[inline(always)]
    fn finish(&self) -> Seen {
        Seen {
            least: self.least.into_iter().fold(f32::INFINITY, f32::min),
            most: self.most.into_iter().fold(0.0, f32::max),
            fractions: self.fractions.iter().fold(0, |all, x| all | x) & 0x7F_FFFF,
            hard: self.hard.contains(&true),
        }
    }
}
