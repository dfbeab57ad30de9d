//! Words and results on their way between rows, columns and lanes.

#![allow(clippy::needless_range_loop, reason = "vectors index several arrays at once")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads and stores of whole vectors")]

use crate::gemm::small::{COLUMNS, ROWS, TILES};
use core::arch::x86_64::*;

/// 16 words of each of two rows `ld` apart.
///
/// # Safety
/// So many words are there, from `rows` on and from `ld` words further on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn two_rows(rows: *const u16, ld: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let [one, other] = [rows, rows.add(ld)].map(|row| _mm256_loadu_si256(row.cast()));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(one), other)
    }
}

/// 8 words of each of rows 0, 1, 4 and 5, `ld` apart.
///
/// # Safety
/// So many words are there.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn four_rows(rows: *const u16, ld: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if ld == 8 {
            // Two and two of them are one.
            return two_rows(rows, 4 * ld);
        }
        let pair = |first| {
            let [one, other] = [first, first + 1].map(|row| _mm_loadu_si128(rows.add(row * ld).cast()));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(one), other)
        };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(pair(0)), pair(4))
    }
}

/// The words of four tiles side by side: of each 128 bits, those of words 0 and 1, 2 and 3, and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn side_by_side([x, y, z, w]: [__m512i; TILES]) -> [__m512i; 4] {
    let (low, more) = (_mm512_unpacklo_epi16(x, y), _mm512_unpacklo_epi16(z, w));
    let (high, most) = (_mm512_unpackhi_epi16(x, y), _mm512_unpackhi_epi16(z, w));
    [
        _mm512_unpacklo_epi32(low, more),
        _mm512_unpackhi_epi32(low, more),
        _mm512_unpacklo_epi32(high, most),
        _mm512_unpackhi_epi32(high, most),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn put(to: &mut [u32], x: __m512i) {
    let to = &mut to[..16];
    // SAFETY: 16 words.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
}

/// Tile `t`'s words among those of the even and the odd lanes, in the order of the lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes([even, odd]: [__m512i; 2], t: usize) -> [u32; ROWS] {
    let down = _mm512_set1_epi64(16 * t as i64);
    let even = _mm512_and_si512(_mm512_srlv_epi64(even, down), _mm512_set1_epi64(0xFFFF));
    let odd = _mm512_and_si512(_mm512_srlv_epi64(odd, down), _mm512_set1_epi64(0xFFFF));
    let mut lanes = [0; ROWS];
    put(&mut lanes, _mm512_or_si512(even, _mm512_slli_epi64::<32>(odd)));
    lanes
}

/// Pairs of rows of D: those of lanes `p` and `4 + p`, and of `8 + p` and `12 + p`.
const PAIRS: [[usize; 2]; 4] = [[0, 2], [4, 6], [1, 3], [5, 7]];

/// Four by four numbers in each 128 bits: rows become columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn([x, y, z, w]: [__m512i; 4]) -> [__m512i; 4] {
    let (low, more) = (_mm512_unpacklo_epi32(x, y), _mm512_unpacklo_epi32(z, w));
    let (high, most) = (_mm512_unpackhi_epi32(x, y), _mm512_unpackhi_epi32(z, w));
    [
        _mm512_unpacklo_epi64(low, more),
        _mm512_unpackhi_epi64(low, more),
        _mm512_unpacklo_epi64(high, most),
        _mm512_unpackhi_epi64(high, most),
    ]
}

/// A number on its way out.
pub(super) trait Number: Sized {
    /// Stores 16 words, or what fits of them.
    ///
    /// # Safety
    /// AVX-512F is there.
    unsafe fn put(to: &mut [Self; 16], x: __m512i);
}

impl Number for u32 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(to: &mut [Self; 16], x: __m512i) {
        put(to, x);
    }
}

impl Number for u16 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(to: &mut [Self; 16], x: __m512i) {
        // SAFETY: 16 halves.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(x)) }
    }
}

/// Writes 16 rows of 8 numbers, given by columns of words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn put_columns<T: Number>(columns: &[__m512i; COLUMNS], to: &mut [T; ROWS * COLUMNS]) {
    let [a, b, c, d, e, f, g, h] = *columns;
    let (low, high) = (turn([a, b, c, d]), turn([e, f, g, h]));
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    let to = to.as_chunks_mut::<16>().0;
    for p in 0..4 {
        // SAFETY: AVX-512F is this function's, too.
        unsafe {
            T::put(&mut to[PAIRS[p][0]], _mm512_permutex2var_epi64(low[p], first, high[p]));
            T::put(&mut to[PAIRS[p][1]], _mm512_permutex2var_epi64(low[p], second, high[p]));
        }
    }
}

/// The columns of 16 rows of 8 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn columns_of(from: &[u32; ROWS * COLUMNS]) -> [__m512i; COLUMNS] {
    let (mut low, mut high) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
    for p in 0..4 {
        let [x, y] = PAIRS[p].map(|pair| from[pair * 16..][..16].as_ptr());
        // SAFETY: 16 words each.
        let (x, y) = unsafe { (_mm512_loadu_si512(x.cast()), _mm512_loadu_si512(y.cast())) };
        low[p] = _mm512_shuffle_i32x4::<0x88>(x, y);
        high[p] = _mm512_shuffle_i32x4::<0xDD>(x, y);
    }
    let ([a, b, c, d], [e, f, g, h]) = (turn(low), turn(high));
    [a, b, c, d, e, f, g, h]
}
