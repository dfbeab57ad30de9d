//! What panels of values hold.

#![allow(unsafe_code, reason = "functions for one instruction set, and stores into the panels")]

use super::TILES;
use super::from::extended;
use super::words::Decoder;
use crate::simd::buffer::Plain;
use core::arch::x86_64::*;

/// The places of all tiles, `stride` apart. (They are there; an index would cost more than this.)
#[inline]
pub(super) fn all_tiles<V>(to: &mut [V], stride: usize) -> Option<&mut [V]> {
    let all = to.get_mut(..=(TILES - 1) * stride);
    debug_assert!(all.is_some(), "a panel is too short");
    all
}

/// The words of tile `t` at the tops of their lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn raised(x: __m512i, t: usize) -> __m512i {
    match t {
        0 => _mm512_slli_epi64::<48>(x),
        1 => _mm512_slli_epi64::<32>(x),
        2 => _mm512_slli_epi64::<16>(x),
        _ => x,
    }
}

/// What panels of values hold.
pub(super) trait Value: Plain {
    /// Whether they are f32.
    const NARROW: bool;

    /// Stores 16 values, given as the even and the odd ones (`LANES`) or as the first and the second ones: f64 as they
    /// are, f32 in order.
    ///
    /// # Safety
    /// AVX-512F, DQ and VL are there.
    unsafe fn store<const LANES: bool>(to: &mut [Self; 16], parts: [__m512d; 2]);

    /// Stores 16 values of each tile, `stride` times 16 apart, given as highest words of the even and the odd ones
    /// (`LANES`) or of the first and the second ones.
    ///
    /// # Safety
    /// AVX-512F, BW, DQ and VL are there.
    unsafe fn extend<const LANES: bool>(
        decoder: &Decoder,
        highest: [__m512i; 2],
        tiles: usize,
        to: &mut [[Self; 16]],
        stride: usize,
    );
}

impl Value for f64 {
    const NARROW: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store<const LANES: bool>(to: &mut [Self; 16], [first, second]: [__m512d; 2]) {
        // SAFETY: 8 of 16 values each.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), first);
            _mm512_storeu_pd(to[8..].as_mut_ptr(), second);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn extend<const LANES: bool>(
        decoder: &Decoder,
        [x, y]: [__m512i; 2],
        tiles: usize,
        to: &mut [[Self; 16]],
        stride: usize,
    ) {
        let Some(to) = all_tiles(to, stride) else { return };
        for t in 0..TILES.min(tiles) {
            let parts = [extended(raised(x, t), decoder.enlarge), extended(raised(y, t), decoder.enlarge)];
            // SAFETY: this function has AVX-512F, DQ and VL.
            unsafe { Self::store::<LANES>(&mut to[t * stride], parts) }
        }
    }
}

impl Value for f32 {
    const NARROW: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    unsafe fn store<const LANES: bool>(to: &mut [Self; 16], [first, second]: [__m512d; 2]) {
        let order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
        let values = narrowed(first, second);
        let values = if LANES { _mm512_permutexvar_ps(order, values) } else { values };
        // SAFETY: 16 values.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), values) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn extend<const LANES: bool>(
        decoder: &Decoder,
        [x, y]: [__m512i; 2],
        tiles: usize,
        to: &mut [[Self; 16]],
        stride: usize,
    ) {
        let Some(to) = all_tiles(to, stride) else { return };
        // The words of tiles 0 and 1 in the lanes' order, and those of tiles 2 and 3.
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
            let to = &mut to[t * stride];
            // SAFETY: 16 values.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_or_si512(values, enlarge)) }
        }
    }
}

/// Two vectors of f64 as one of f32.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn narrowed(first: __m512d, second: __m512d) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(first)), _mm512_cvtpd_ps(second))
}
