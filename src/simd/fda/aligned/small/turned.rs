//! A tile's codes turned in registers, from where they are to vectors of sixteen: of A the rows of each position, of B
//! positions by FDA and column. No store comes between, of which a load of twice its size would have to wait for.

#![allow(clippy::needless_range_loop, reason = "closures around instructions lose the instruction set")]
#![allow(unsafe_code, reason = "vector instructions, and loads by pointers")]

use super::read::Code;
use crate::gemm::small::{COLUMNS, ROWS};
use crate::simd::fda::MR;
use crate::simd::sixteen::Squares;
use core::arch::x86_64::*;

const _: () = assert!(ROWS == 16 && COLUMNS == 8 && MR == COLUMNS);

/// Rows of A, each of `k` codes, `N` positions a square: 4 or 8.
pub(super) struct RowsOfA<'a, T, const N: usize> {
    codes: &'a [T],
    k: usize,
    /// The bits of codes that are the fraction, where they are added up: of each row those of one square, and the
    /// largest sum of two, the first and the second of 16 positions.
    fraction: Option<__m256i>,
    first: __m256i,
    most: __m256i,
}

/// B, each position's 8 columns together, for FDAs of `L` products, two vectors a square for each four positions.
pub(super) struct ColumnsOfB<'a, T, const L: usize, const N: usize> {
    codes: &'a [T],
    k: usize,
}

impl<'a, T, const N: usize> RowsOfA<'a, T, N> {
    /// `None` where K is no multiple of a square's positions.
    #[inline(always)]
    pub(super) fn new(codes: &'a [T], k: usize, fraction_bits: Option<u32>) -> Option<Self> {
        const { assert!(N == 4 || N == 8) };
        if !k.is_multiple_of(N) || codes.len() < ROWS * k {
            return None;
        }
        // SAFETY: called where AVX2 is enabled.
        unsafe {
            let zero = _mm256_setzero_si256();
            let fraction = fraction_bits.unwrap_or(0);
            let fraction = fraction_bits.is_some().then_some(_mm256_set1_epi16(((1u32 << fraction) - 1) as i16));
            Some(Self { codes, k, fraction, first: zero, most: zero })
        }
    }

    /// Adds a square's fractions up.
    ///
    /// # Safety
    /// The caller has AVX2.
    #[inline(always)]
    unsafe fn weigh(&mut self, i: usize, square: &[[__m256i; 2]; N], fraction: __m256i) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = if i.is_multiple_of(2) { _mm256_setzero_si256() } else { self.first };
            for [codes, _] in square {
                sum = _mm256_add_epi16(sum, _mm256_and_si256(*codes, fraction));
            }
            (self.first, self.most) = (sum, _mm256_max_epu16(self.most, sum));
        }
    }

    /// The largest sum of a row's fractions, as integers, at positions `16 i` to `16 i + 15`; of formats of at most 12
    /// fraction bits.
    #[inline(always)]
    pub(super) fn largest(&self) -> u32 {
        let mut lanes = [0u16; ROWS];
        // SAFETY: called where AVX2 is enabled; 16 words.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.most) }
        lanes.into_iter().fold(0, u16::max).into()
    }
}

impl<'a, T: Code, const L: usize, const N: usize> ColumnsOfB<'a, T, L, N> {
    /// `None` where K is no multiple of a square's positions; of words of 32 bits these are 4 or 8.
    #[inline(always)]
    pub(super) fn new(codes: &'a [T], k: usize) -> Option<Self> {
        const { assert!(L == Self::DEPTH || (Self::DEPTH == 16 && L.is_multiple_of(16))) };
        debug_assert!(!T::WIDE || Self::DEPTH <= 8);
        (k.is_multiple_of(Self::DEPTH) && k.is_multiple_of(L) && codes.len() >= COLUMNS * k)
            .then_some(Self { codes, k })
    }
}

impl<T: Code, const N: usize> Squares<N> for RowsOfA<'_, T, N> {
    const WIDE: bool = T::WIDE;

    #[inline(always)]
    fn count(&self) -> usize {
        self.k / N
    }

    #[inline(always)]
    unsafe fn square(&mut self, i: usize) -> [[__m256i; 2]; N] {
        // SAFETY: the caller's promise. Sixteen rows have positions `N i` to `N i + N - 1`.
        unsafe {
            if T::WIDE {
                return self.of_words(i * N);
            }
            let square = self.of_halves(i * N);
            if let (8, Some(fraction)) = (N, self.fraction) {
                self.weigh(i, &square, fraction);
            }
            square
        }
    }

    #[inline(always)]
    fn place(&self, i: usize, n: usize) -> usize {
        i * N + n
    }
}

impl<T, const N: usize> RowsOfA<'_, T, N> {
    /// A row's codes from a position on, and those eight rows further down.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn lines(&self, row: usize, first: usize) -> [*const __m128i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let line = self.codes.as_ptr().add(row * self.k + first);
            [line.cast(), line.add(8 * self.k).cast()]
        }
    }

    /// # Safety
    /// The caller has AVX2, and there are `N` codes from there on.
    #[inline(always)]
    unsafe fn of_halves(&self, first: usize) -> [[__m256i; 2]; N] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut to = [[_mm256_setzero_si256(); 2]; N];
            let mut x = [_mm256_setzero_si256(); 8];
            for row in 0..8 {
                let [line, eighth] = self.lines(row, first);
                x[row] = if N == 8 {
                    _mm256_loadu2_m128i(eighth, line)
                } else {
                    _mm256_set_m128i(_mm_loadl_epi64(eighth), _mm_loadl_epi64(line))
                };
            }
            let x = turned_halves(x);
            for p in 0..N {
                to[p] = [x[p]; 2];
            }
            to
        }
    }

    /// # Safety
    /// As `of_halves`.
    #[inline(always)]
    unsafe fn of_words(&self, first: usize) -> [[__m256i; 2]; N] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut to = [[_mm256_setzero_si256(); 2]; N];
            for p in (0..N).step_by(4) {
                // Rows four apart are the halves of a vector here.
                let (mut x, mut y) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
                for row in 0..4 {
                    let ([a, c], [b, d]) = (self.lines(row, first + p), self.lines(row + 4, first + p));
                    (x[row], y[row]) = (_mm256_loadu2_m128i(b, a), _mm256_loadu2_m128i(d, c));
                }
                let (x, y) = (turned_words(x), turned_words(y));
                for n in 0..4 {
                    to[p + n] = [x[n], y[n]];
                }
            }
            to
        }
    }
}

impl<T: Code, const L: usize, const N: usize> Squares<N> for ColumnsOfB<'_, T, L, N> {
    const WIDE: bool = T::WIDE;

    #[inline(always)]
    fn count(&self) -> usize {
        self.k / Self::DEPTH
    }

    #[inline(always)]
    unsafe fn square(&mut self, i: usize) -> [[__m256i; 2]; N] {
        let first = i * Self::DEPTH * COLUMNS;
        // SAFETY: the caller's promise. `DEPTH` positions from there on have eight columns each.
        unsafe { if T::WIDE { self.of_words(first) } else { self.of_halves(first) } }
    }

    /// FDAs one after another, of each a column after another, and of these positions.
    #[inline(always)]
    fn place(&self, i: usize, n: usize) -> usize {
        // Where an FDA has several squares of a vector for each column, these are side by side.
        if L > 16 { i / (L / 16) * (MR * L / 16) + n * (L / 16) + i % (L / 16) } else { i * N + n }
    }
}

impl<T, const L: usize, const N: usize> ColumnsOfB<'_, T, L, N> {
    /// Positions of a square.
    const DEPTH: usize = N * 16 / COLUMNS;

    /// # Safety
    /// The caller has AVX2, and there are `16 N` codes from there on.
    #[inline(always)]
    unsafe fn of_halves(&self, first: usize) -> [[__m256i; 2]; N] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut to = [[_mm256_setzero_si256(); 2]; N];
            let from = self.codes.as_ptr().add(first).cast::<__m128i>();
            match Self::DEPTH {
                16 => {
                    let mut x = [_mm256_setzero_si256(); 8];
                    for p in 0..8 {
                        x[p] = _mm256_loadu2_m128i(from.add(8 + p), from.add(p));
                    }
                    let x = turned_halves(x);
                    for column in 0..N {
                        to[column] = [x[column]; 2];
                    }
                }
                8 => {
                    let mut x = [_mm256_setzero_si256(); 4];
                    for p in 0..4 {
                        x[p] = _mm256_loadu2_m128i(from.add(4 + p), from.add(p));
                    }
                    // Pairs of positions of four columns, then four positions of two, in both halves.
                    let x = fours_of_halves(x);
                    for n in 0..N {
                        to[n] = [_mm256_permute4x64_epi64::<0b11_01_10_00>(x[n]); 2];
                    }
                }
                _ => {
                    let mut x = [_mm256_setzero_si256(); 4];
                    for p in 0..4 {
                        x[p] = _mm256_castsi128_si256(_mm_loadu_si128(from.add(p)));
                    }
                    let x = fours_of_halves(x);
                    for n in 0..N {
                        to[n] = [_mm256_permute2x128_si256::<0x20>(x[2 * n], x[2 * n + 1]); 2];
                    }
                }
            }
            to
        }
    }

    /// # Safety
    /// As `of_halves`.
    #[inline(always)]
    unsafe fn of_words(&self, first: usize) -> [[__m256i; 2]; N] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut to = [[_mm256_setzero_si256(); 2]; N];
            let from = self.codes.as_ptr().add(first).cast::<__m256i>();
            // Columns at four positions in the lower halves, and those four further on in the upper ones; and at the
            // next four.
            let (mut x, mut y) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
            for p in 0..4 {
                x[p] = _mm256_loadu_si256(from.add(p));
                if Self::DEPTH == 8 {
                    y[p] = _mm256_loadu_si256(from.add(4 + p));
                }
            }
            let (x, y) = (turned_words(x), turned_words(y));
            for n in 0..N {
                let (i, j) = (2 * n % 4, 2 * n % 4 + 1);
                // A vector's two registers: two columns at eight positions, or four at four.
                let ([a, b], [c, d]) =
                    if Self::DEPTH == 8 { ([x[i], y[i]], [x[j], y[j]]) } else { ([x[0], x[1]], [x[2], x[3]]) };
                to[n] = if 2 * n < N {
                    [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)]
                } else {
                    [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)]
                };
            }
            to
        }
    }
}

/// Four rows of eight words of 16 bits in each half, as pairs of columns one after another.
///
/// # Safety
/// The caller has AVX2.
#[inline(always)]
unsafe fn fours_of_halves(x: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (p, q) = (_mm256_unpacklo_epi16(x[0], x[1]), _mm256_unpackhi_epi16(x[0], x[1]));
        let (r, s) = (_mm256_unpacklo_epi16(x[2], x[3]), _mm256_unpackhi_epi16(x[2], x[3]));
        [
            _mm256_unpacklo_epi32(p, r),
            _mm256_unpackhi_epi32(p, r),
            _mm256_unpacklo_epi32(q, s),
            _mm256_unpackhi_epi32(q, s),
        ]
    }
}

/// Eight rows of eight words of 16 bits in each half, as columns.
///
/// # Safety
/// The caller has AVX2.
#[inline(always)]
unsafe fn turned_halves(x: [__m256i; 8]) -> [__m256i; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut to = [_mm256_setzero_si256(); 8];
        let (x, y) = (fours_of_halves([x[0], x[1], x[2], x[3]]), fours_of_halves([x[4], x[5], x[6], x[7]]));
        for n in 0..4 {
            to[2 * n] = _mm256_unpacklo_epi64(x[n], y[n]);
            to[2 * n + 1] = _mm256_unpackhi_epi64(x[n], y[n]);
        }
        to
    }
}

/// Four rows of four words in each half, as columns.
///
/// # Safety
/// The caller has AVX2.
#[inline(always)]
unsafe fn turned_words(x: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (p, q) = (_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[0], x[1]));
        let (r, s) = (_mm256_unpacklo_epi32(x[2], x[3]), _mm256_unpackhi_epi32(x[2], x[3]));
        [
            _mm256_unpacklo_epi64(p, r),
            _mm256_unpackhi_epi64(p, r),
            _mm256_unpacklo_epi64(q, s),
            _mm256_unpackhi_epi64(q, s),
        ]
    }
}

/// Eight rows of sixteen words as sixteen of eight.
///
/// # Safety
/// The caller has AVX2.
#[inline(always)]
pub(super) unsafe fn put_words(rows: &[&[u32; ROWS]; COLUMNS], to: &mut [u32; ROWS * COLUMNS]) {
    // SAFETY: the caller's promise; rows and results are as long as they are.
    unsafe {
        let to = to.as_mut_ptr().cast::<__m256i>();
        for half in 0..2 {
            let (mut x, mut y) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
            for n in 0..4 {
                x[n] = _mm256_loadu_si256(rows[n].as_ptr().cast::<__m256i>().add(half));
                y[n] = _mm256_loadu_si256(rows[4 + n].as_ptr().cast::<__m256i>().add(half));
            }
            let (x, y) = (turned_words(x), turned_words(y));
            for n in 0..4 {
                _mm256_storeu_si256(to.add(8 * half + n), _mm256_permute2x128_si256::<0x20>(x[n], y[n]));
                _mm256_storeu_si256(to.add(8 * half + 4 + n), _mm256_permute2x128_si256::<0x31>(x[n], y[n]));
            }
        }
    }
}
