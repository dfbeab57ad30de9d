//! Packing of integers: a step of 16 lines at a time, rows of A or columns of B.

use super::super::pack::{NAN_SHIFT, OR_AND, first};
use super::super::{Fda, GROUPS, MR, NR, Packed};
use super::{GROUP, groups};
use crate::format::FormatSpec;
use crate::simd::buffer::Buffer;
use crate::unit::Unit;
use std::arch::x86_64::*;

/// The low place of zeros in a table, which no number has.
const NO_PLACE: i32 = 0xFF;
/// Above its line's unit, the low place of products that are all zero; and the most that counts.
const FREE: i32 = 15;
/// Largest and smallest exponents that lines have: those above have no integers, those below count as this.
const EXPONENTS: [i32; 2] = [-30, 30];
/// The smallest exponent of a unit.
const LEAST_UNIT: i32 = -60;
/// For lines without integers: beside [`LEAST_UNIT`] it makes every sum look truncated, whatever the other line.
const BEYOND: i32 = 60;
/// Of the squares of a line's integers. A sum of products is at most the root of both lines' sums of squares, and so
/// below 2^31.
const MOST_SQUARES: f32 = 2.1e9;

/// One operand's integers of all steps. A line's, in a step, are its numbers in units of its lowest last place.
#[derive(Debug, Default)]
pub(in super::super) struct Integers {
    /// Pairs of 16-bit integers: A's by row, B's by vector of 16 columns and pair.
    pairs: Buffer,
    /// The lowest last places in groups of products, in the lines' units. A's four times in a word, for every row, and
    /// with F added; B's as bytes in the order of its exponents.
    lows: Buffer,
    /// f32 exponent fields of the largest numbers and of units; A's with the bias.
    tops: Buffer,
    units: Buffer,
    /// Lines of steps so far, and those that have no integers.
    seen: u32,
    bad: u32,
}

/// Where the lines of a step begin in these.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Lines {
    pub(super) pairs: *const i32,
    pub(super) lows: *const u8,
    pub(super) tops: *const i32,
    pub(super) units: *const i32,
}

impl Lines {
    /// Of operands without integers: nobody reads them.
    pub(in super::super) const NONE: Self =
        Self { pairs: core::ptr::null(), lows: core::ptr::null(), tops: core::ptr::null(), units: core::ptr::null() };
}

impl Integers {
    /// Lines from `line` on in the panels' order, with steps of `l` products and `low` bytes for each low place.
    pub(in super::super) fn lines(&self, line: usize, l: usize, low: usize) -> Lines {
        Lines {
            pairs: self.pairs.view::<i32>().as_ptr(),
            lows: self.lows.view::<u8>().as_ptr(),
            tops: self.tops.view::<i32>().as_ptr(),
            units: self.units.view::<i32>().as_ptr(),
        }
        .skip(line, l, low)
    }

    /// Whether so many lines have no integers that it is in vain to go on.
    pub(in super::super) const fn are_few(&self) -> bool {
        self.seen >= 64 && self.bad > self.seen / 8
    }

    /// What kernels read of B's vectors of columns from a line on.
    #[cfg(test)]
    pub(in super::super) fn seen(&self, line: usize, vectors: usize, l: usize) -> Vec<u32> {
        let mut seen = Vec::new();
        if self.units.view::<u32>().len() <= line || self.are_few() {
            return seen;
        }
        let (tops, units) = (&self.tops.view::<u32>()[line..], &self.units.view::<u32>()[line..]);
        for (i, bytes) in self.lows.view::<u8>()[line * groups(l)..][..groups(l) * NR].iter().enumerate() {
            seen.extend((i % 4 < vectors).then_some(u32::from(*bytes)));
        }
        for at in 0..vectors * 16 {
            seen.extend([tops[at], units[at]]);
            // Those of lines without integers are nobody's.
            let bad = units[at] as i32 == LEAST_UNIT << 23 && tops[at] as i32 == BEYOND << 23;
            let pairs = &self.pairs.view::<u32>()[(line + at / 16 * 16) * (l / 2) + at % 16..];
            seen.extend(pairs.iter().step_by(16).take(if bad { 0 } else { l / 2 }));
        }
        seen
    }

    /// The same of a row of A.
    #[cfg(test)]
    pub(in super::super) fn seen_of_row(&self, line: usize, l: usize) -> Vec<u32> {
        if self.units.view::<u32>().len() <= line || self.are_few() {
            return Vec::new();
        }
        let (top, unit) = (self.tops.view::<u32>()[line], self.units.view::<u32>()[line]);
        let mut seen = vec![top, unit];
        seen.extend(&self.lows.view::<u32>()[line * groups(l)..][..groups(l)]);
        let bad = unit as i32 == (LEAST_UNIT + 127) << 23 && top as i32 == (BEYOND + 127) << 23;
        seen.extend(self.pairs.view::<u32>()[line * (l / 2)..].iter().take(if bad { 0 } else { l / 2 }));
        seen
    }

    /// Notes lines; whether to give up.
    const fn count(&mut self, lines: __mmask16, bad: __mmask16) -> bool {
        (self.seen, self.bad) = (self.seen + lines.count_ones(), self.bad + bad.count_ones());
        self.are_few()
    }

    /// Makes room for `lines` lines of steps.
    fn begin(&mut self, lines: usize, l: usize, low: usize) -> [*mut i32; 4] {
        (self.seen, self.bad) = (0, 0);
        [
            self.pairs.room::<i32>(lines * (l / 2)).as_mut_ptr(),
            self.lows.room::<u8>(lines * groups(l) * low).as_mut_ptr().cast(),
            self.tops.room::<i32>(lines).as_mut_ptr(),
            self.units.room::<i32>(lines).as_mut_ptr(),
        ]
    }
}

impl Lines {
    /// So many lines on.
    #[inline(always)]
    pub(in super::super) const fn skip(self, lines: usize, l: usize, low: usize) -> Self {
        Self {
            pairs: self.pairs.wrapping_add(lines * (l / 2)),
            lows: self.lows.wrapping_add(lines * groups(l) * low),
            tops: self.tops.wrapping_add(lines),
            units: self.units.wrapping_add(lines),
        }
    }
}

/// Numbers of a step by product and vector of 16 columns.
pub(in super::super) type Numbers = [[__m512; NR / 16]; 32];

/// Where integers go: those of A's steps, or of B's.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Room {
    pairs: *mut i32,
    lows: *mut u8,
    tops: *mut i32,
    units: *mut i32,
    /// Whether the first `PLACES` fraction bits of numbers tell their last places. (A's go row by row only where they
    /// do.)
    quick: bool,
}

/// Fraction bits that a table of bytes takes.
const PLACES: u32 = 4;

/// A format's numbers by code: odd significands (16 bits), last places above that of the smallest number (8 bits),
/// exponents above the lowest (8 bits).
#[derive(Debug)]
struct Table {
    words: Vec<i32>,
    /// The last place of the smallest number.
    grid: i32,
    emin: i32,
    fraction_bits: u32,
}

impl Table {
    fn new(spec: &FormatSpec) -> Self {
        let (emin, grid) = (spec.emin(), spec.emin() - spec.fraction_bits as i32);
        let word = |code: u64| {
            let x = spec.decode(code);
            if x.is_zero() || !x.is_finite() {
                // Rule (S) takes care of infinities and NaN.
                return NO_PLACE << 16;
            }
            let zeros = x.significand.trailing_zeros();
            let odd = (x.significand >> zeros) as i32;
            let place = x.exponent - x.frac_bits as i32 + zeros as i32 - grid;
            (if x.negative { -odd } else { odd }) & 0xFFFF | place << 16 | (x.exponent - emin) << 24
        };
        Self { words: (0..1 << spec.storage_bits).map(word).collect(), grid, emin, fraction_bits: spec.fraction_bits }
    }

    /// The words of 16 codes, zero's outside of the mask.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn look_up(&self, lanes: __mmask16, codes: __m512i) -> __m512i {
        // A format's codes fill its storage bits; what lies above them is not looked at.
        let codes = _mm512_and_si512(codes, _mm512_set1_epi32(self.words.len() as i32 - 1));
        let zero = _mm512_set1_epi32(NO_PLACE << 16);
        // SAFETY: an index below the table's length, a power of two.
        unsafe { _mm512_mask_i32gather_epi32::<4>(zero, lanes, codes, self.words.as_ptr()) }
    }
}

/// Both operands'.
#[derive(Debug)]
pub(in super::super) struct Tables {
    a: Table,
    b: Table,
    /// How far below the largest product's exponent nothing is cut off.
    frac_bits: u32,
}

impl Tables {
    /// For formats of at most 8 bits, with pairs of products in every step.
    pub(in super::super) fn new(unit: &Unit, block: usize, frac_bits: u32) -> Option<Self> {
        let small = unit.a.storage_bits <= 8 && unit.b.storage_bits <= 8 && frac_bits <= 25;
        (small && block.is_multiple_of(2)).then(|| Self { a: Table::new(&unit.a), b: Table::new(&unit.b), frac_bits })
    }
}

/// 16 lines of a step.
struct Sixteen {
    pairs: [__m512i; 16],
    lows: [__m512i; 32 / GROUP],
    top: __m512i,
    unit: __m512i,
    /// Those without integers.
    bad: __mmask16,
}

impl Sixteen {
    /// From codes, by product, and the exponents of block scales.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn new(table: &Table, lanes: __mmask16, codes: &[__m512i], scales: __m512i) -> Self {
        let (none, int) = (_mm512_set1_epi32(NO_PLACE), |x| _mm512_set1_epi32(x));
        // A line of scale NaN counts as zeros, for rule (S) takes care of it.
        let lanes = lanes & _mm512_cmpneq_epi32_mask(scales, int(NAN_SHIFT));
        let mut words = [_mm512_setzero_si512(); 32];
        let mut places = [none; 32 / GROUP];
        let mut highest = _mm512_setzero_si512();
        for (i, codes) in codes.iter().enumerate() {
            words[i] = table.look_up(lanes, *codes);
            places[i / GROUP] = _mm512_min_epu32(places[i / GROUP], place(words[i]));
            highest = _mm512_max_epu32(highest, _mm512_srli_epi32::<24>(words[i]));
        }
        let mut lowest = none;
        for place in places {
            lowest = _mm512_min_epu32(lowest, place);
        }
        let mut pairs = [_mm512_setzero_si512(); 16];
        let mut squares = _mm512_setzero_ps();
        for (pair, words) in pairs.iter_mut().zip(words[..codes.len()].as_chunks::<2>().0) {
            let [mut x, mut y] = *words;
            for word in [&mut x, &mut y] {
                let odd = _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(*word));
                *word = _mm512_sllv_epi32(odd, _mm512_sub_epi32(place(*word), lowest));
                let float = _mm512_cvtepi32_ps(*word);
                squares = _mm512_fmadd_ps(float, float, squares);
            }
            *pair = _mm512_mask_blend_epi16(0xAAAA_AAAA, x, _mm512_slli_epi32::<16>(y));
        }
        let top = _mm512_add_epi32(_mm512_add_epi32(highest, int(table.emin)), scales);
        let unit = _mm512_add_epi32(_mm512_add_epi32(lowest, int(table.grid)), scales);
        let empty = _mm512_cmpeq_epi32_mask(lowest, none);
        let Bounds { top, unit, bad } = Bounds::new(top, unit, empty, squares);
        let low = |place| {
            let free = _mm512_min_epu32(_mm512_sub_epi32(place, lowest), int(FREE));
            chosen(free, [empty, bad], [FREE, 0])
        };
        Self { pairs, lows: places.map(low), top, unit, bad }
    }
}

/// Exponents of 16 lines of a step.
struct Bounds {
    /// Of the largest numbers.
    top: __m512i,
    /// Of units.
    unit: __m512i,
    /// Lines without integers.
    bad: __mmask16,
}

impl Bounds {
    /// From those found, the lines that are all zeros, and the sums of integers' squares.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn new(top: __m512i, unit: __m512i, empty: __mmask16, squares: __m512) -> Self {
        let int = |x| _mm512_set1_epi32(x);
        let wide = _mm512_cmpgt_epi32_mask(_mm512_sub_epi32(top, unit), int(14));
        let far = _mm512_cmpgt_epi32_mask(top, int(EXPONENTS[1])) | _mm512_cmplt_epi32_mask(unit, int(LEAST_UNIT));
        let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(squares, _mm512_set1_ps(MOST_SQUARES));
        let bad = (wide | far | large) & !empty;
        Self {
            top: chosen(_mm512_max_epi32(top, int(EXPONENTS[0])), [empty, bad], [EXPONENTS[0], BEYOND]),
            unit: chosen(unit, [empty, bad], [EXPONENTS[1], LEAST_UNIT]),
            bad,
        }
    }
}

/// What stands for lines that are all zeros, and for those without integers.
#[inline]
#[target_feature(enable = "avx512f")]
fn chosen(x: __m512i, [empty, bad]: [__mmask16; 2], [of_empty, of_bad]: [i32; 2]) -> __m512i {
    let x = _mm512_mask_mov_epi32(x, empty, _mm512_set1_epi32(of_empty));
    _mm512_mask_mov_epi32(x, bad, _mm512_set1_epi32(of_bad))
}

/// The last places of words of a table.
#[inline]
#[target_feature(enable = "avx512f")]
fn place(words: __m512i) -> __m512i {
    _mm512_and_si512(_mm512_srli_epi32::<16>(words), _mm512_set1_epi32(0xFF))
}

/// Exponent fields of up to four vectors of numbers, and their last places' (255 of zeros): byte 4 j + t is number j of
/// vector t. Of the latter's numbers all bits below the first `PLACES` of the fraction are zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn places(numbers: &[__m512]) -> (__m512i, __m512i) {
    // How far a last place is above the last of these bits, less `PLACES`.
    let (four, three, two) = (0xFCFD_FC00_u32 as i32, 0xFCFD_FCFF_u32 as i32, 0xFCFD_FCFE_u32 as i32);
    let last = _mm512_set4_epi32(two, three, two, four);
    let (mut fields, mut fractions) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (t, x) in numbers.iter().enumerate() {
        // Where a byte's bits begin.
        let (at, bits) = (8 * t as i32, _mm512_castps_si512(*x));
        let [field, fraction] = [9 + at, 13 + at].map(|by| _mm512_rolv_epi32(bits, _mm512_set1_epi32(by)));
        fields = _mm512_ternarylogic_epi32::<OR_AND>(fields, field, _mm512_set1_epi32(0xFF << at));
        fractions = _mm512_ternarylogic_epi32::<OR_AND>(fractions, fraction, _mm512_set1_epi32(0xF << at));
    }
    let there = _mm512_test_epi8_mask(fields, fields);
    (fields, _mm512_mask_add_epi8(_mm512_set1_epi8(-1), there, fields, _mm512_shuffle_epi8(last, fractions)))
}

/// An f32's exponent field.
#[inline]
#[target_feature(enable = "avx512f")]
fn field(e: __m512i) -> __m512i {
    _mm512_slli_epi32::<23>(e)
}

impl Fda {
    /// Makes room for rows of A; none where the unit has no integers, or these cannot be made row by row.
    pub(in super::super) fn begin_rows_fixed(&self, rows: usize, to: &mut Packed) -> Option<Room> {
        let tables = self.fixed.as_ref()?;
        if !matches!(self.block, 16 | 32) || tables.a.fraction_bits > PLACES {
            return None;
        }
        let lines = rows.div_ceil(MR * GROUPS) * GROUPS * MR * to.steps;
        let [pairs, lows, tops, units] = to.integers.begin(lines, self.block, 4);
        Some(Room { pairs, lows: lows.cast(), tops, units, quick: true })
    }

    /// A row of A from its numbers, in the FDAs' order, which are `2^down` times what they should be; `low` is the
    /// field of the lowest exponent. No block scale of the row is NaN.
    ///
    /// # Safety
    /// The instructions are there, `room` is what `begin_rows_fixed` made in `to` for more rows than `row`, and nobody
    /// has looked at it since; numbers are those of `to`'s steps, 16 by 16.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) unsafe fn row_fixed(
        &self,
        room: Room,
        numbers: &[__m512],
        (down, low): (i32, u8),
        row: usize,
        to: &mut Packed,
    ) {
        let Some(Tables { frac_bits, .. }) = &self.fixed else { return };
        let (l, bias) = (self.block, 127 + down);
        for (n, numbers) in numbers.chunks(4).enumerate() {
            // Byte 4 j + t is product 16 t + j: groups of four are byte t of the words of a quarter.
            let (mut highest, places) = places(numbers);
            let of_groups = {
                let x = _mm512_min_epu8(places, _mm512_shuffle_epi32::<0b01_00_11_10>(places));
                _mm512_min_epu8(x, _mm512_shuffle_epi32::<0b10_11_00_01>(x))
            };
            // All of a vector's are one byte of each word, two of a long step's.
            let mut lowest = of_groups;
            lowest = _mm512_min_epu8(lowest, _mm512_shuffle_i64x2::<0b01_00_11_10>(lowest, lowest));
            lowest = _mm512_min_epu8(lowest, _mm512_shuffle_i64x2::<0b10_11_00_01>(lowest, lowest));
            highest = _mm512_max_epu8(highest, _mm512_shuffle_i64x2::<0b01_00_11_10>(highest, highest));
            highest = _mm512_max_epu8(highest, _mm512_shuffle_i64x2::<0b10_11_00_01>(highest, highest));
            highest = _mm512_max_epu8(highest, _mm512_shuffle_epi32::<0b01_00_11_10>(highest));
            highest = _mm512_max_epu8(highest, _mm512_shuffle_epi32::<0b10_11_00_01>(highest));
            highest = _mm512_max_epu8(highest, _mm512_set1_epi8(low as i8));
            if l == 32 {
                let other = |x| _mm512_or_si512(_mm512_slli_epi16::<8>(x), _mm512_srli_epi16::<8>(x));
                lowest = _mm512_min_epu8(lowest, other(lowest));
                highest = _mm512_max_epu8(highest, other(highest));
            }
            let there = _mm512_cmpneq_epi8_mask(lowest, _mm512_set1_epi8(-1));
            let free = _mm512_sub_epi8(of_groups, _mm512_maskz_mov_epi8(there, lowest));
            let free = _mm512_min_epu8(free, _mm512_set1_epi8(FREE as i8));
            let lows = _mm512_add_epi8(free, _mm512_set1_epi8(*frac_bits as i8));
            let firsts = _mm512_set_epi32(12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0);
            let [lowest, highest] =
                [lowest, highest].map(|x| _mm_cvtsi128_si32(_mm512_castsi512_si128(x)).to_le_bytes());
            for (u, numbers) in numbers.chunks(l / 16).enumerate() {
                let (s, t) = (n * 64 / l + u, u * (l / 16));
                let line = to.at_a(row / MR, s) * MR + row % MR;
                let (least, most) = (i32::from(lowest[t]), i32::from(highest[t]));
                let scale = to.shifts.get(row * to.steps + s).copied().unwrap_or(0);
                let empty = least == 255;
                // 2^-least.
                let factor = if empty { 0.0 } else { f32::from_bits(((254 - least) as u32) << 23) };
                let mut squares = _mm512_setzero_ps();
                for (i, x) in numbers.iter().enumerate() {
                    let x = _mm512_mul_ps(*x, _mm512_set1_ps(factor));
                    squares = _mm512_fmadd_ps(x, x, squares);
                    let halves = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x));
                    // A quarter's word, four times the byte.
                    let four = _mm512_shuffle_epi8(lows, _mm512_set1_epi32((t + i) as i32 * 0x0101_0101));
                    let four = _mm512_castsi512_si128(_mm512_permutexvar_epi32(firsts, four));
                    // SAFETY: the room has `l / 2` words of pairs and `groups(l)` of low places for `line`, which is
                    // that of a row and a step that are there: 8 and 4 of them are those of 16 numbers.
                    unsafe {
                        _mm256_storeu_si256(room.pairs.add(line * (l / 2) + i * 8).cast(), halves);
                        _mm_storeu_si128(room.lows.cast::<i32>().add(line * groups(l) + i * 4).cast(), four);
                    }
                }
                let (mut top, mut unit) = (most - bias + scale, least - bias + scale);
                let wide = top - unit > 14 || top > EXPONENTS[1] || unit < LEAST_UNIT;
                let bad = !empty && (wide || _mm512_reduce_add_ps(squares) >= MOST_SQUARES);
                if bad {
                    let all = i32::from_ne_bytes([*frac_bits as u8; 4]);
                    // SAFETY: the line's words, as above.
                    (0..groups(l)).for_each(|i| unsafe { *room.lows.cast::<i32>().add(line * groups(l) + i) = all });
                    [top, unit] = [BEYOND, LEAST_UNIT];
                } else if empty {
                    [top, unit] = EXPONENTS;
                }
                _ = to.integers.count(1, bad.into());
                // SAFETY: a word for each line.
                unsafe {
                    *room.tops.add(line) = (top.max(EXPONENTS[0]) + 127) << 23;
                    *room.units.add(line) = (unit + 127) << 23;
                }
            }
        }
    }

    /// Zeros for a row of A that is not there: beside others no step of it would be without doubt.
    pub(in super::super) fn clear_row_fixed(&self, row: usize, to: &mut Packed) {
        let Some(Tables { frac_bits, .. }) = &self.fixed else { return };
        let l = self.block;
        for s in 0..to.steps {
            let line = to.at_a(row / MR, s) * MR + row % MR;
            let Integers { pairs, lows, tops, units, .. } = &mut to.integers;
            pairs.view_mut::<i32>()[line * (l / 2)..][..l / 2].fill(0);
            lows.view_mut::<i32>()[line * groups(l)..][..groups(l)].fill((FREE + *frac_bits as i32) * 0x0101_0101);
            tops.view_mut::<i32>()[line] = (EXPONENTS[0] + 127) << 23;
            units.view_mut::<i32>()[line] = (EXPONENTS[1] + 127) << 23;
        }
    }

    /// Rows of A.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) fn pack_a_fixed(&self, codes: &[u32], [rows, k]: [usize; 2], to: &mut Packed) {
        let Some(Tables { a: table, frac_bits, .. }) = &self.fixed else { return };
        let (l, tiles, codes) = (self.block, rows.div_ceil(MR * GROUPS), &codes[..rows * k]);
        let [pairs, lows, tops, units] = to.integers.begin(tiles * GROUPS * MR * to.steps, l, 4);
        let lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let by = |n: usize| _mm512_mullo_epi32(lane, _mm512_set1_epi32(n as i32));
        let mut raw = [_mm512_setzero_si512(); 32];
        for (row, s) in (0..rows).step_by(16).flat_map(|row| (0..to.steps).map(move |s| (row, s))) {
            let lanes = first(rows - row);
            // Two row groups, which lie together.
            let line = to.at_a(row / MR, s) * MR;
            for (raw, p) in raw.iter_mut().zip(self.positions(s)) {
                let from = codes.as_ptr().wrapping_add(row * k + p);
                // SAFETY: code `p` of K of rows that are there, a lane each from `row` on. 15 K is an i32, for a
                // panel's K is one of a unit (`MAX_DIMENSION`) or some hundred (`Kernel::depth`).
                *raw = unsafe { _mm512_mask_i32gather_epi32::<4>(*raw, lanes, by(k), from.cast()) };
            }
            let it = Sixteen::new(table, lanes, &raw[..l], scales(to, row..rows, s));
            if to.integers.count(lanes, it.bad) {
                return;
            }
            let bias = _mm512_set1_epi32(127);
            // SAFETY: `begin` made room for `GROUPS * MR` lines for every so many rows and a step, of which these are
            // 16 that lie together: `l / 2` words of pairs and `groups(l)` of low places each, a top and a unit.
            unsafe {
                for (i, pair) in it.pairs[..l / 2].iter().enumerate() {
                    _mm512_i32scatter_epi32::<4>(pairs.add(line * (l / 2) + i).cast(), by(l / 2), *pair);
                }
                for (i, low) in it.lows[..groups(l)].iter().enumerate() {
                    let low = _mm512_add_epi32(*low, _mm512_set1_epi32(*frac_bits as i32));
                    let four = _mm512_mullo_epi32(low, _mm512_set1_epi32(0x0101_0101));
                    _mm512_i32scatter_epi32::<4>(lows.add(line * groups(l) + i).cast(), by(groups(l)), four);
                }
                _mm512_storeu_epi32(tops.add(line), field(_mm512_add_epi32(it.top, bias)));
                _mm512_storeu_epi32(units.add(line), field(_mm512_add_epi32(it.unit, bias)));
            }
        }
    }

    /// Makes room for columns of B; none where the unit has no integers.
    pub(in super::super) fn begin_columns_fixed(&self, columns: usize, to: &mut Packed) -> Option<Room> {
        let tables = self.fixed.as_ref()?;
        let lines = columns.div_ceil(NR) * NR * to.steps;
        let [pairs, lows, tops, units] = to.integers.begin(lines, self.block, 1);
        Some(Room { pairs, lows: lows.cast(), tops, units, quick: tables.b.fraction_bits <= PLACES })
    }

    /// Step `s` of column group `g`: from `codes[p * columns + column]`, or from numbers where all are ordinary.
    ///
    /// # Safety
    /// The instructions are there, `room` is what `begin_columns_fixed` made in `to` for so many columns, and nobody
    /// has looked at it since; `g` and `s` are a group of theirs and one of `to`'s steps.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) unsafe fn columns_fixed(
        &self,
        room: Room,
        codes: &[u32],
        numbers: Option<(&Numbers, (i32, u8))>,
        columns: usize,
        [g, s]: [usize; 2],
        to: &mut Packed,
    ) {
        // SAFETY: the caller's promise, handed on.
        unsafe {
            match numbers.filter(|_| room.quick) {
                Some((numbers, exponent)) => self.columns_by_numbers(room, numbers, exponent, columns, [g, s], to),
                None => self.columns_by_codes(room, codes, columns, [g, s], to),
            }
        }
    }

    /// `columns_fixed` from codes, by the table.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn columns_by_codes(&self, room: Room, codes: &[u32], columns: usize, [g, s]: [usize; 2], to: &mut Packed) {
        let Some(Tables { b: table, .. }) = &self.fixed else { return };
        let (l, line) = (self.block, to.at_b(g, s) * NR);
        let mut raw = [_mm512_setzero_si512(); 32];
        let mut bytes = [_mm512_setzero_si512(); 32 / GROUP];
        for (t, column) in (g * NR..columns.min(g * NR + NR)).step_by(16).enumerate() {
            let lanes = first(columns - column);
            for (raw, p) in raw.iter_mut().zip(self.positions(s)) {
                let row = &codes[p * columns..][..columns][column..];
                // SAFETY: the lanes of the mask lie in the row.
                *raw = unsafe { _mm512_maskz_loadu_epi32(lanes, row.as_ptr().cast()) };
            }
            let it = Sixteen::new(table, lanes, &raw[..l], scales(to, column..columns, s));
            _ = to.integers.count(lanes, it.bad);
            // SAFETY: the room has `NR` lines from `line` on, `l / 2` words of pairs for each, a top and a unit.
            unsafe {
                for (i, pair) in it.pairs[..l / 2].iter().enumerate() {
                    _mm512_storeu_epi32(room.pairs.add((line + t * 16) * (l / 2) + i * 16), *pair);
                }
                _mm512_storeu_epi32(room.tops.add(line + t * 16), field(it.top));
                _mm512_storeu_epi32(room.units.add(line + t * 16), field(it.unit));
            }
            for (bytes, low) in bytes.iter_mut().zip(it.lows) {
                *bytes = _mm512_or_si512(*bytes, _mm512_sllv_epi32(low, _mm512_set1_epi32(8 * t as i32)));
            }
        }
        for (i, bytes) in bytes[..groups(l)].iter().enumerate() {
            // SAFETY: the room has `groups(l)` times a byte for each of these `NR` lines.
            unsafe { _mm512_storeu_si512(room.lows.add(line * groups(l) + i * NR).cast(), *bytes) }
        }
    }

    /// `columns_fixed` from numbers that are `2^down` times what they should be, whose lowest exponent has field `low`.
    /// What a byte holds is found for 64 columns at once.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn columns_by_numbers(
        &self,
        room: Room,
        numbers: &Numbers,
        (down, low): (i32, u8),
        columns: usize,
        [g, s]: [usize; 2],
        to: &mut Packed,
    ) {
        let (l, line, width) = (self.block, to.at_b(g, s) * NR, NR.min(columns - g * NR));
        let (numbers, vectors) = (&numbers[..l], width.div_ceil(16));
        let (int, none) = (|x| _mm512_set1_epi32(x), _mm512_set1_epi8(-1));
        let (mut lows, mut highest) = ([none; 32 / GROUP], _mm512_setzero_si512());
        for (i, numbers) in numbers.iter().enumerate() {
            let (fields, places) = places(&numbers[..vectors]);
            lows[i / GROUP] = _mm512_min_epu8(lows[i / GROUP], places);
            highest = _mm512_max_epu8(highest, fields);
        }
        let lowest = lows.iter().fold(none, |x, y| _mm512_min_epu8(x, *y));
        let highest = _mm512_max_epu8(highest, _mm512_set1_epi8(low as i8));
        let mut without = _mm512_setzero_si512();
        for t in 0..vectors {
            let byte = |x| _mm512_and_si512(_mm512_srlv_epi32(x, int(8 * t as i32)), int(0xFF));
            let (lowest, column) = (byte(lowest), g * NR + t * 16);
            let (scales, bias) = (scales(to, column..columns, s), int(127 + down));
            let [top, unit] = [byte(highest), lowest].map(|x| _mm512_add_epi32(_mm512_sub_epi32(x, bias), scales));
            let empty = _mm512_cmpeq_epi32_mask(lowest, int(0xFF));
            // 2^-lowest.
            let factor = _mm512_castsi512_ps(_mm512_maskz_mov_epi32(!empty, field(_mm512_sub_epi32(int(254), lowest))));
            let (at, mut squares) = (line + t * 16, _mm512_setzero_ps());
            for (i, pair) in numbers.as_chunks::<2>().0.iter().enumerate() {
                let [x, y] = pair.map(|x| _mm512_mul_ps(x[t], factor));
                squares = _mm512_fmadd_ps(y, y, _mm512_fmadd_ps(x, x, squares));
                let [x, y] = [x, y].map(|x| _mm512_cvtps_epi32(x));
                let pair = _mm512_mask_blend_epi16(0xAAAA_AAAA, x, _mm512_slli_epi32::<16>(y));
                // SAFETY: 16 of the `NR` lines that the room has from `line` on, with `l / 2` words of pairs each.
                unsafe { _mm512_storeu_epi32(room.pairs.add(at * (l / 2) + i * 16), pair) }
            }
            let it = Bounds::new(top, unit, empty, squares);
            _ = to.integers.count(first(columns - column), it.bad);
            // SAFETY: a top and a unit for each of the same 16.
            unsafe {
                _mm512_storeu_epi32(room.tops.add(at), field(it.top));
                _mm512_storeu_epi32(room.units.add(at), field(it.unit));
            }
            without = _mm512_or_si512(without, _mm512_maskz_set1_epi32(it.bad, 0xFF << (8 * t as i32)));
        }
        let lowest = _mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(lowest, none), lowest);
        for (i, place) in lows[..groups(l)].iter().enumerate() {
            let free = _mm512_min_epu8(_mm512_sub_epi8(*place, lowest), _mm512_set1_epi8(FREE as i8));
            // SAFETY: the room has `groups(l)` times a byte for each of these `NR` lines.
            unsafe {
                let to = room.lows.add(line * groups(l) + i * NR).cast();
                _mm512_storeu_si512(to, _mm512_andnot_si512(without, free));
            }
        }
    }
}

/// The exponents of block scales of up to 16 lines at step `s`.
fn scales(from: &Packed, lines: core::ops::Range<usize>, s: usize) -> __m512i {
    if from.shifts.is_empty() {
        // SAFETY: an integer of zeros.
        return unsafe { core::mem::zeroed() };
    }
    let scale = |line: usize| from.shifts.get(line * from.steps + s).copied().unwrap_or(0);
    let lanes: [i32; 16] = core::array::from_fn(|i| if i < lines.len() { scale(lines.start + i) } else { 0 });
    // SAFETY: 16 integers, as many as the vector's.
    unsafe { core::mem::transmute(lanes) }
}
