//! Tiles in which no step cuts anything off: integer dot products, of all K at once (AVX-512 VNNI).
//!
//! A tile's numbers are integers in units of the last place of the least of them. Where 16 bits hold them, no product
//! is large enough for truncation to take what the least ones count in, and every sum between two FDAs is a number of
//! the unit's result, these FDAs are one exact sum, rounded once. All of that is known of the tile's least and largest
//! codes, but for the sums between FDAs, which are looked at. (Packed panels have units for each line, and bounds for
//! groups of products: `fixed`. A tile is too small for that to be worth it.)
//!
//! A lane of 64 bits has four products of a column of B, and a row of A is broadcast to all: D comes row by row.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole vectors")]

use super::turn::Number;
use crate::format::{FormatSpec, Specials};
use crate::gemm::small::{COLUMNS, DEPTH, ROWS, Results, TILES, TileCodes, Tiles};
use crate::simd::fda::avx512::{DOWN, RZ, UP};
use crate::simd::fda::{Fda, Set, out};
use core::arch::x86_64::*;

/// Positions of K in a lane.
const SIDE: usize = 4;
/// Positions of a vector of B's.
const POSITIONS: usize = 32 / COLUMNS;
/// Bits of a number's magnitude, at most.
const BITS: u32 = 15;

/// How codes become integers.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The bits of a magnitude, and of a sign.
    magnitude: u16,
    sign: u16,
    fraction_bits: u32,
    /// The smallest magnitude that is Inf or NaN; above all where there is none.
    special: u32,
    /// Whether minus zero's code is NaN.
    negative_zero: bool,
    /// The exponent of the least number.
    unit: i32,
}

/// What an operand's integers of a tile are.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// The exponent field of the least number that is not zero, 1 for subnormal ones.
    low: u32,
    /// The bits of the largest integer.
    bits: u32,
}

/// What a tile's sums are.
#[derive(Clone, Copy, Debug, Default)]
struct Exact {
    lows: [u32; 2],
    /// The exponent of what they count in.
    unit: i32,
}

/// Units whose tiles may be computed like that.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Whole {
    readings: [Reading; 2],
    /// How many binary orders below the largest product nothing is cut off.
    frac_bits: u32,
    /// What a lane's sums must not exceed between FDAs: half of what sums must not.
    limit: u32,
    /// K that is one FDA, whose sums of any size become D: nobody needs to look at them.
    alone: usize,
    /// The most K that D's format and c's place allow.
    depth: usize,
    /// After so many fours of products sums are looked at.
    every: usize,
    out: u8,
    keep: i32,
}

/// A tile's integers.
#[derive(Debug)]
#[repr(C, align(64))]
struct Panels {
    rows: [i16; ROWS * DEPTH],
    columns: [i16; COLUMNS * DEPTH],
}

impl Reading {
    /// `None` for formats of too many exponents.
    fn new(spec: &FormatSpec) -> Option<Self> {
        let fits = spec.signed && spec.subnormals && spec.ignored_low_bits == 0 && spec.storage_bits <= 16;
        if !fits || !(1..=5).contains(&spec.exponent_bits) || spec.fraction_bits > 6 {
            return None;
        }
        let width = spec.exponent_bits + spec.fraction_bits;
        Some(Self {
            magnitude: (1 << width) - 1,
            sign: 1 << width,
            fraction_bits: spec.fraction_bits,
            special: spec.first_special() as u32,
            negative_zero: spec.specials == Specials::NanNegativeZero,
            unit: spec.emin() - spec.fraction_bits as i32,
        })
    }

    /// What codes are as integers, if all are finite.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn span(&self, codes: &[u16]) -> Option<Span> {
        let (mut most, mut least, mut nan) = (_mm512_setzero_si512(), _mm512_set1_epi16(-1), 0);
        let (magnitude, sign) = (_mm512_set1_epi16(self.magnitude as i16), _mm512_set1_epi16(self.sign as i16));
        for codes in codes.as_chunks::<32>().0 {
            // SAFETY: a vector of codes.
            let x = unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) };
            let size = _mm512_and_si512(x, magnitude);
            most = _mm512_max_epu16(most, size);
            // Zeros are above all then.
            least = _mm512_min_epu16(least, _mm512_sub_epi16(size, _mm512_set1_epi16(1)));
            if self.negative_zero {
                nan |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, _mm512_or_si512(magnitude, sign)), sign);
            }
        }
        let (most, least) = (largest(most), 0xFFFF - largest(_mm512_xor_si512(least, _mm512_set1_epi16(-1))));
        let [low, high] = [least.wrapping_add(1) & 0xFFFF, most].map(|size| (size >> self.fraction_bits).max(1));
        let low = low.min(high);
        (most < self.special && nan == 0).then_some(Span { low, bits: self.fraction_bits + 1 + high - low })
    }

    /// The integers of finite codes, of which the least field is `low`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn integers(&self, x: __m512i, low: u32) -> __m512i {
        let shift = _mm512_set1_epi16(self.fraction_bits as i16);
        let magnitude = _mm512_and_si512(x, _mm512_set1_epi16(self.magnitude as i16));
        let field = _mm512_srlv_epi16(magnitude, shift);
        // But for the leading bit, which subnormal numbers lack.
        let above = _mm512_sllv_epi16(_mm512_subs_epu16(field, _mm512_set1_epi16(1)), shift);
        let up = _mm512_subs_epu16(field, _mm512_set1_epi16(low as i16));
        let integers = _mm512_sllv_epi16(_mm512_sub_epi16(magnitude, above), up);
        let negative = _mm512_test_epi16_mask(x, _mm512_set1_epi16(self.sign as i16));
        _mm512_mask_sub_epi16(integers, negative, _mm512_setzero_si512(), integers)
    }
}

impl Whole {
    /// Of the units whose sums of integers can be told to be exact.
    pub(in super::super) fn new(fda: &Fda) -> Option<Self> {
        let unit = &fda.unit;
        let readings = [Reading::new(&unit.a)?, Reading::new(&unit.b)?];
        let exponent = readings[0].unit + readings[1].unit;
        let Set::Avx512(_) = fda.set else { return None };
        // A sum times a tile's unit, up to 2^60 times this, must be a normal number.
        if unit.scale.is_some() || !(-100..=30).contains(&exponent) || !fda.block.is_multiple_of(SIDE) {
            return None;
        }
        let every = fda.looks_after()?;
        // Of round-down sums, the floor of c takes the fewest bits; what must hold of the others `round_down::select`
        // knows.
        let frac_bits = match &fda.round_down {
            Some(sums) if !sums.takes_exact_c() => return None,
            Some(_) => fda.frac_bits.min(24),
            None => fda.frac_bits,
        };
        // What e_max never is below, which a zero c may raise.
        let floor = if fda.zero_c { fda.e_zero.max(unit.d.emin()) } else { fda.e_zero };
        if floor - frac_bits as i32 > exponent {
            return None;
        }
        // Beside a c of fewer bits than F has, and of no more than results keep, nothing is cut off either. What f32
        // holds goes to f16 in one rounding.
        let kept = if fda.out == out::F16_RNE { 24 } else { 24 - fda.keep.trailing_zeros() };
        let bits = if fda.out == out::F16_RNE { kept } else { kept.min(frac_bits) };
        // Results of f16 are no exact sums, and c is added to another f32 where it comes last.
        let depth = match fda.out {
            out::F16_RNE if fda.c_last => return None,
            out::F16_RNE => fda.block,
            _ if fda.c_last => fda.c_every,
            _ => DEPTH,
        };
        Some(Self {
            readings,
            frac_bits,
            limit: (1 << bits) >> 1,
            alone: if fda.out == out::F16_RNE { 0 } else { fda.block },
            depth,
            every,
            out: fda.out,
            keep: fda.keep,
        })
    }

    /// Computes D, from +0, if all tiles are of this kind.
    pub(super) fn run(&self, tiles: &mut Tiles<'_>) -> bool {
        if tiles.from_c || tiles.k > self.depth {
            return false;
        }
        // SAFETY: `new` has seen the proof that the instructions are there, VNNI among them.
        unsafe { self.exact(tiles).is_some_and(|exact| self.all(tiles, &exact)) }
    }

    /// How tiles are computed, if all products and sums of theirs are exact, but for what is seen between FDAs.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn exact(&self, tiles: &Tiles<'_>) -> Option<[Exact; TILES]> {
        let ([a, b], mut exact) = (&self.readings, [Exact::default(); TILES]);
        for (t, exact) in exact.iter_mut().enumerate().take(tiles.count) {
            let rows = a.span(codes(tiles.a[t], ROWS * tiles.k)?)?;
            let columns = b.span(codes(tiles.b[t], tiles.k * COLUMNS)?)?;
            // The largest product's exponent, in units, is that of both numbers' leading bits.
            let cut = rows.bits + columns.bits - 2 > self.frac_bits;
            // An integer is below 2^bits.
            let wide = rows.bits + columns.bits + tiles.k.next_power_of_two().ilog2() > 31;
            if rows.bits.max(columns.bits) > BITS || cut || wide {
                return None;
            }
            let unit = a.unit + b.unit + (rows.low + columns.low) as i32 - 2;
            *exact = Exact { lows: [rows.low, columns.low], unit };
        }
        Some(exact)
    }

    /// Computes all tiles; `false` where a sum between FDAs is too large.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn all(&self, tiles: &mut Tiles<'_>, exact: &[Exact; TILES]) -> bool {
        let (k, half) = (tiles.k, self.out == out::F16_RNE);
        let every = if k == self.alone { 0 } else { self.every };
        let mut panels = Panels { rows: [0; ROWS * DEPTH], columns: [0; COLUMNS * DEPTH] };
        for (t, exact) in exact.iter().enumerate().take(tiles.count) {
            let (a, b) = (codes(tiles.a[t], ROWS * k), codes(tiles.b[t], k * COLUMNS));
            let (Some(a), Some(b)) = (a, b) else { return false };
            self.read([a, b], exact.lows, &mut panels);
            let fits = match &mut tiles.d {
                Results::Words(d) if half => self.tile::<_, true>(&panels, exact, k, every, &mut d[t]),
                Results::Words(d) => self.tile::<_, false>(&panels, exact, k, every, &mut d[t]),
                Results::Halves(d) => self.tile::<_, true>(&panels, exact, k, every, &mut d[t]),
            };
            if !fits {
                return false;
            }
        }
        true
    }

    /// A tile's integers: rows of A as they come; of B, a vector of four positions by column.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn read(&self, [a, b]: [&[u16]; 2], lows: [u32; 2], to: &mut Panels) {
        let by_column: [u16; 32] = core::array::from_fn(|i| (i % POSITIONS * COLUMNS + i / POSITIONS) as u16);
        // SAFETY: 32 words, a vector.
        let by_column = unsafe { _mm512_loadu_si512(by_column.as_ptr().cast()) };
        for (codes, to) in a.as_chunks::<32>().0.iter().zip(to.rows.as_chunks_mut::<32>().0) {
            // SAFETY: 32 codes.
            let x = self.readings[0].integers(unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) }, lows[0]);
            // SAFETY: 32 integers.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
        }
        for (codes, to) in b.as_chunks::<32>().0.iter().zip(to.columns.as_chunks_mut::<32>().0) {
            // SAFETY: 32 codes.
            let x = _mm512_permutexvar_epi16(by_column, unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) });
            // SAFETY: 32 integers.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.readings[1].integers(x, lows[1])) }
        }
    }

    /// A tile's D, and whether all sums between FDAs, which are looked at `every` so many fours, are exact.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn tile<T: Number, const HALF: bool>(
        &self,
        panels: &Panels,
        exact: &Exact,
        k: usize,
        every: usize,
        d: &mut [T; ROWS * COLUMNS],
    ) -> bool {
        match every {
            0 => self.sums::<T, HALF, 0>(panels, exact, k, d),
            1 => self.sums::<T, HALF, 1>(panels, exact, k, d),
            2 => self.sums::<T, HALF, 2>(panels, exact, k, d),
            _ => self.sums::<T, HALF, 4>(panels, exact, k, d),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn sums<T: Number, const HALF: bool, const EVERY: usize>(
        &self,
        panels: &Panels,
        exact: &Exact,
        k: usize,
        d: &mut [T; ROWS * COLUMNS],
    ) -> bool {
        /// Rows at a time: as many sums as an instruction takes cycles, twice.
        const AT_ONCE: usize = 8;
        let (mut most, unit) = (_mm512_setzero_si512(), _mm512_set1_ps(power(exact.unit)));
        let pairs = d.as_chunks_mut::<{ 2 * COLUMNS }>().0;
        for (rows, d) in panels.rows.chunks_exact(AT_ONCE * k).zip(pairs.chunks_exact_mut(AT_ONCE / 2)) {
            let mut sums = [_mm512_setzero_si512(); AT_ONCE];
            for (i, columns) in panels.columns.as_chunks::<32>().0[..k / SIDE].iter().enumerate() {
                // SAFETY: 32 integers, a line of `Panels`, in which `columns` begin with one.
                let y = unsafe { _mm512_load_si512(columns.as_ptr().cast()) };
                for (r, sum) in sums.iter_mut().enumerate() {
                    let row = &rows[r * k + i * SIDE..][..SIDE];
                    // SAFETY: four integers of 16 bits.
                    let x = _mm512_set1_epi64(unsafe { row.as_ptr().cast::<i64>().read_unaligned() });
                    *sum = _mm512_dpwssd_epi32(*sum, x, y);
                }
                if EVERY > 0 && (i + 1).is_multiple_of(EVERY) {
                    for sum in sums {
                        most = _mm512_max_epu32(most, _mm512_abs_epi32(sum));
                    }
                }
            }
            for (sums, d) in sums.as_chunks::<2>().0.iter().zip(d) {
                // SAFETY: AVX-512F is this function's, too.
                unsafe { T::put(d, self.results::<HALF>(joined(*sums), unit)) }
            }
        }
        EVERY == 0 || _mm512_cmpgt_epu32_mask(most, _mm512_set1_epi32(self.limit as i32)) == 0
    }

    /// D's codes of exact sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn results<const HALF: bool>(&self, sums: __m512i, unit: __m512) -> __m512i {
        if HALF {
            let d = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), unit);
            let codes = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(d);
            // What vanishes is +0, though it was negative.
            let some = _mm256_cmpneq_epi16_mask(codes, _mm256_set1_epi16(i16::MIN));
            return _mm512_cvtepu16_epi32(_mm256_maskz_mov_epi16(some, codes));
        }
        let rounded = match self.out {
            out::F32_RZ => {
                let cut = _mm512_castps_si512(_mm512_cvt_roundepi32_ps::<RZ>(sums));
                _mm512_castsi512_ps(_mm512_and_si512(cut, _mm512_set1_epi32(self.keep)))
            }
            out::F32_RD => _mm512_cvt_roundepi32_ps::<DOWN>(sums),
            out::F32_RU => _mm512_cvt_roundepi32_ps::<UP>(sums),
            _ => _mm512_cvtepi32_ps(sums),
        };
        _mm512_castps_si512(_mm512_mul_ps(rounded, unit))
    }
}

impl Fda {
    /// Products of four after which a sum between FDAs must be looked at, so that it is seen there or is the sum of two
    /// lanes' that are: FDAs of products side by side, or pairs of FDAs that take turns in pairs of products. `None`
    /// for other orders.
    fn looks_after(&self) -> Option<usize> {
        let of = |s: usize| &self.order[s * self.block..][..self.block];
        let whole = |s: usize| of(s).iter().all(|k| k / self.block == s);
        let turns = || self.per_step() == 2 && of(0).iter().all(|k| k / 2 % 2 == 0);
        if !(0..self.per_step()).all(whole) && !turns() {
            return None;
        }
        Some([4, 2].into_iter().find(|fours| self.block.is_multiple_of(fours * SIDE)).unwrap_or(1))
    }
}

/// So many codes, where they are of at most 16 bits.
fn codes(tile: TileCodes<'_>, n: usize) -> Option<&[u16]> {
    match tile {
        TileCodes::Halves(codes) => codes.get(..n),
        TileCodes::Words(_) => None,
    }
}

/// The largest of 32 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn largest(x: __m512i) -> u32 {
    let words = _mm512_max_epu16(x, _mm512_srli_epi32::<16>(x));
    _mm512_reduce_max_epu32(_mm512_and_si512(words, _mm512_set1_epi32(0xFFFF)))
}

/// `2^e`.
const fn power(e: i32) -> f32 {
    f32::from_bits(((127 + e) as u32) << 23)
}

/// The sums of neighbours, of the first row and then of the second.
#[inline]
#[target_feature(enable = "avx512f")]
fn joined([x, y]: [__m512i; 2]) -> __m512i {
    let [x, y] = [x, y].map(|sums| _mm512_castsi512_ps(sums));
    let (even, odd) = (_mm512_shuffle_ps::<0x88>(x, y), _mm512_shuffle_ps::<0xDD>(x, y));
    let both = _mm512_add_epi32(_mm512_castps_si512(even), _mm512_castps_si512(odd));
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), both)
}
