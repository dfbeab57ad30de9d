//! Squares of 8 x 8 codes whose columns are each in one piece in memory, turned to rows of words: by SSE2, which every
//! x86-64 processor has.
#![allow(unsafe_code, reason = "vector instructions")]

use super::ops::array_of;
use super::prefetch;
use crate::view::Word;
use core::arch::x86_64::*;

/// Rows and columns of a square.
pub(crate) const SIDE: usize = 8;

/// Eight columns of one length, in as many whole squares as there are, as rows of words from the beginning of `into`
/// on, `ld` apart; and asks for the lines of the columns that come `next`, too far apart for a processor to expect
/// them. Returns the rows that there are then: none of codes wider than words.
///
/// # Panics
/// When the columns are not of one length, or `into` is too short.
#[inline]
pub(crate) fn turn<T: Word>(columns: [&[T]; SIDE], next: [&[T]; SIDE], into: &mut [u32], ld: usize) -> usize {
    let rows = if size_of::<T>() > 4 { 0 } else { columns[0].len() / SIDE * SIDE };
    assert!(columns.iter().all(|column| column.len() >= rows));
    assert!(rows == 0 || (ld >= SIDE && (rows - 1) * ld + SIDE <= into.len()));
    for i in (0..rows).step_by(SIDE) {
        if (i * size_of::<T>()).is_multiple_of(64) {
            next.iter().filter_map(|line| line.get(i)).for_each(|code| prefetch::<_MM_HINT_T0, _>(code));
        }
        // SAFETY: `Word`s are plain unsigned integers, here of at most 32 bits. All columns have eight codes from `i`
        // on, and `into` eight words of eight rows. SSE2 is part of x86-64.
        unsafe { square(array_of(|j| columns[j].as_ptr().add(i)), into.as_mut_ptr().add(i * ld), ld) }
    }
    rows
}

/// The same of codes of 16 or 32 bits, which stay as wide as they are.
///
/// # Panics
/// As [`turn`].
#[inline(always)]
pub(crate) fn turn_as_wide<T: Word>(columns: [&[T]; SIDE], into: &mut [T], ld: usize) -> usize {
    const { assert!(matches!(size_of::<T>(), 2 | 4)) };
    let rows = columns[0].len() / SIDE * SIDE;
    assert!(columns.iter().all(|column| column.len() >= rows));
    assert!(rows == 0 || (ld >= SIDE && (rows - 1) * ld + SIDE <= into.len()));
    for i in (0..rows).step_by(SIDE) {
        // SAFETY: `Word`s are plain unsigned integers, here of 16 or 32 bits. All columns have eight codes from `i` on,
        // and `into` eight of eight rows. SSE2 is part of x86-64.
        unsafe {
            let (from, to) = (array_of(|j| columns[j].as_ptr().add(i)), into.as_mut_ptr().add(i * ld));
            if size_of::<T>() == 4 {
                square(from, to.cast(), ld);
                continue;
            }
            let rows = rows_of_halves(array_of(|j| _mm_loadu_si128(from[j].cast())));
            for (k, row) in rows.into_iter().enumerate() {
                _mm_storeu_si128(to.add(k * ld).cast(), row);
            }
        }
    }
    rows
}

/// Eight columns of eight codes as eight rows of words.
///
/// # Safety
/// `T` is an unsigned integer of at most 32 bits. All of these codes exist, and all of these words.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn square<T>(columns: [*const T; SIDE], to: *mut u32, ld: usize) {
    // SAFETY: the caller's promise; no load or store is aligned.
    unsafe {
        match size_of::<T>() {
            1 => put(&rows_of_bytes(array_of(|j| _mm_loadl_epi64(columns[j].cast()))), to, ld),
            2 => put(&rows_of_halves(array_of(|j| _mm_loadu_si128(columns[j].cast()))), to, ld),
            _ => {
                for (i, j) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
                    let part = array_of(|n| _mm_loadu_si128(columns[j + n].add(i).cast()));
                    for (k, row) in rows_of_words(part).into_iter().enumerate() {
                        _mm_storeu_si128(to.add((i + k) * ld + j).cast(), row);
                    }
                }
            }
        }
    }
}

/// Rows of eight words of 16 bits as words of 32.
///
/// # Safety
/// There is room for them.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn put(rows: &[__m128i; SIDE], to: *mut u32, ld: usize) {
    let zero = _mm_setzero_si128();
    for (k, row) in rows.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.add(k * ld).cast::<__m128i>();
            _mm_storeu_si128(to, _mm_unpacklo_epi16(*row, zero));
            _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(*row, zero));
        }
    }
}

/// Columns of eight bytes, in the lower halves, as rows of words of 16 bits.
#[inline]
#[target_feature(enable = "sse2")]
fn rows_of_bytes(x: [__m128i; SIDE]) -> [__m128i; SIDE] {
    let zero = _mm_setzero_si128();
    // Pairs of columns, then four of them at four positions, then two whole rows.
    let pairs: [_; 4] = core::array::from_fn(|j| _mm_unpacklo_epi8(x[2 * j], x[2 * j + 1]));
    let first = [_mm_unpacklo_epi16(pairs[0], pairs[1]), _mm_unpackhi_epi16(pairs[0], pairs[1])];
    let second = [_mm_unpacklo_epi16(pairs[2], pairs[3]), _mm_unpackhi_epi16(pairs[2], pairs[3])];
    core::array::from_fn(|k| {
        let (x, y) = (first[k / 4], second[k / 4]);
        let two = if k % 4 < 2 { _mm_unpacklo_epi32(x, y) } else { _mm_unpackhi_epi32(x, y) };
        if k % 2 == 0 { _mm_unpacklo_epi8(two, zero) } else { _mm_unpackhi_epi8(two, zero) }
    })
}

/// Columns of eight words of 16 bits as rows of them.
#[inline]
#[target_feature(enable = "sse2")]
fn rows_of_halves(x: [__m128i; SIDE]) -> [__m128i; SIDE] {
    // Pairs of columns at the first and the last four positions, then four columns at two positions.
    let pairs: [_; SIDE] = core::array::from_fn(|n| {
        let (x, y) = (x[n / 2 * 2], x[n / 2 * 2 + 1]);
        if n % 2 == 0 { _mm_unpacklo_epi16(x, y) } else { _mm_unpackhi_epi16(x, y) }
    });
    core::array::from_fn(|k| {
        let half = k / 4;
        let four = |n: usize| {
            let (x, y) = (pairs[2 * n + half], pairs[2 * n + 2 + half]);
            if k % 4 < 2 { _mm_unpacklo_epi32(x, y) } else { _mm_unpackhi_epi32(x, y) }
        };
        let (x, y) = (four(0), four(2));
        if k % 2 == 0 { _mm_unpacklo_epi64(x, y) } else { _mm_unpackhi_epi64(x, y) }
    })
}

/// Columns of four words as rows of them.
#[inline]
#[target_feature(enable = "sse2")]
fn rows_of_words(x: [__m128i; 4]) -> [__m128i; 4] {
    let lower = [_mm_unpacklo_epi32(x[0], x[1]), _mm_unpacklo_epi32(x[2], x[3])];
    let upper = [_mm_unpackhi_epi32(x[0], x[1]), _mm_unpackhi_epi32(x[2], x[3])];
    [
        _mm_unpacklo_epi64(lower[0], lower[1]),
        _mm_unpackhi_epi64(lower[0], lower[1]),
        _mm_unpacklo_epi64(upper[0], upper[1]),
        _mm_unpackhi_epi64(upper[0], upper[1]),
    ]
}
