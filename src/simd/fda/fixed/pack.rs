//! Packing of integers: a step of 16 lines at a time, rows of A or columns of B.

use super::super::pack::{NAN_SHIFT, first};
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

/// A format's numbers by code: odd significands (16 bits), last places above that of the smallest number (8 bits),
/// exponents above the lowest (8 bits).
#[derive(Debug)]
struct Table {
    words: Vec<i32>,
    /// The last place of the smallest number.
    grid: i32,
    emin: i32,
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
        Self { words: (0..1 << spec.storage_bits).map(word).collect(), grid, emin }
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
        let wide = _mm512_cmpgt_epi32_mask(_mm512_sub_epi32(top, unit), int(14));
        let far = _mm512_cmpgt_epi32_mask(top, int(EXPONENTS[1])) | _mm512_cmplt_epi32_mask(unit, int(LEAST_UNIT));
        let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(squares, _mm512_set1_ps(MOST_SQUARES));
        let bad = (wide | far | large) & !empty;
        let chosen = |x, of_empty, of_bad| {
            _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(x, empty, int(of_empty)), bad, int(of_bad))
        };
        let low = |place| {
            let free = _mm512_min_epu32(_mm512_sub_epi32(place, lowest), int(FREE));
            chosen(free, FREE, 0)
        };
        Self {
            pairs,
            lows: places.map(low),
            top: chosen(_mm512_max_epi32(top, int(EXPONENTS[0])), EXPONENTS[0], BEYOND),
            unit: chosen(unit, EXPONENTS[1], LEAST_UNIT),
            bad,
        }
    }
}

/// The last places of words of a table.
#[inline]
#[target_feature(enable = "avx512f")]
fn place(words: __m512i) -> __m512i {
    _mm512_and_si512(_mm512_srli_epi32::<16>(words), _mm512_set1_epi32(0xFF))
}

/// An f32's exponent field.
#[inline]
#[target_feature(enable = "avx512f")]
fn field(e: __m512i) -> __m512i {
    _mm512_slli_epi32::<23>(e)
}

impl Fda {
    /// Rows of A.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) fn pack_a_fixed(&self, codes: &[u32], [rows, k]: [usize; 2], to: &mut Packed) {
        let Some(Tables { a: table, frac_bits, .. }) = &self.fixed else { return };
        let (l, tiles) = (self.block, rows.div_ceil(MR * GROUPS));
        let [pairs, lows, tops, units] = to.integers.begin(tiles * GROUPS * MR * to.steps, l, 4);
        let lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let by = |n: usize| _mm512_mullo_epi32(lane, _mm512_set1_epi32(n as i32));
        let mut raw = [_mm512_setzero_si512(); 32];
        for (row, s) in (0..rows).step_by(16).flat_map(|row| (0..to.steps).map(move |s| (row, s))) {
            let lanes = first(rows - row);
            // Two row groups, which lie together.
            let line = to.at_a(row / MR, s) * MR;
            // SAFETY (whole function): the lanes of the mask are rows of K codes, and the panels have room for 16
            // lines.
            for (raw, p) in raw.iter_mut().zip(self.positions(s)) {
                let from = codes.as_ptr().wrapping_add(row * k + p);
                *raw = unsafe { _mm512_mask_i32gather_epi32::<4>(*raw, lanes, by(k), from.cast()) };
            }
            let it = Sixteen::new(table, lanes, &raw[..l], scales(to, row..rows, s));
            if to.integers.count(lanes, it.bad) {
                return;
            }
            let bias = _mm512_set1_epi32(127);
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

    /// Columns of B.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) fn pack_b_fixed(&self, codes: &[u32], [columns, k]: [usize; 2], to: &mut Packed) {
        let Some(Tables { b: table, .. }) = &self.fixed else { return };
        let (l, tiles) = (self.block, columns.div_ceil(NR));
        debug_assert!(codes.len() >= columns * k, "a panel");
        let [pairs, lows, tops, units] = to.integers.begin(tiles * NR * to.steps, l, 1);
        let mut raw = [_mm512_setzero_si512(); 32];
        for (g, s) in (0..tiles).flat_map(|g| (0..to.steps).map(move |s| (g, s))) {
            let line = to.at_b(g, s) * NR;
            let mut bytes = [_mm512_setzero_si512(); 32 / GROUP];
            for (t, column) in (g * NR..columns.min(g * NR + NR)).step_by(16).enumerate() {
                let lanes = first(columns - column);
                // SAFETY (whole function): the lanes of the mask lie in the row, and the panels have room for 16 lines.
                for (raw, p) in raw.iter_mut().zip(self.positions(s)) {
                    let from = codes.as_ptr().wrapping_add(p * columns + column);
                    *raw = unsafe { _mm512_maskz_loadu_epi32(lanes, from.cast()) };
                }
                let it = Sixteen::new(table, lanes, &raw[..l], scales(to, column..columns, s));
                if to.integers.count(lanes, it.bad) {
                    return;
                }
                let line = line + t * 16;
                unsafe {
                    for (i, pair) in it.pairs[..l / 2].iter().enumerate() {
                        _mm512_storeu_epi32(pairs.add(line * (l / 2) + i * 16), *pair);
                    }
                    _mm512_storeu_epi32(tops.add(line), field(it.top));
                    _mm512_storeu_epi32(units.add(line), field(it.unit));
                }
                for (bytes, low) in bytes.iter_mut().zip(it.lows) {
                    *bytes = _mm512_or_si512(*bytes, _mm512_sllv_epi32(low, _mm512_set1_epi32(8 * t as i32)));
                }
            }
            for (i, bytes) in bytes[..groups(l)].iter().enumerate() {
                unsafe { _mm512_storeu_si512(lows.cast::<u8>().add(line * groups(l) + i * NR).cast(), *bytes) }
            }
        }
    }
}

/// The exponents of block scales of up to 16 lines at step `s`.
fn scales(from: &Packed, lines: core::ops::Range<usize>, s: usize) -> __m512i {
    let scale = |line: usize| from.shifts.get(line * from.steps + s).copied().unwrap_or(0);
    let lanes: [i32; 16] = core::array::from_fn(|i| if i < lines.len() { scale(lines.start + i) } else { 0 });
    // SAFETY: 16 integers, as many as the vector's.
    unsafe { core::mem::transmute(lanes) }
}
