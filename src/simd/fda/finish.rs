//! Where a step begins, and how its sum becomes a result.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::avx512::{DOWN, ODD, RZ, UP};
use super::out;
use super::step::{Consts, EXP32, LEAST_F16};
use core::arch::asm;
use std::arch::x86_64::*;

/// The first fraction bit of an f32.
static HALF: u32 = 1 << 22;

/// `1.5 * 2^e_max`: e_max is the larger magnitude's exponent, of `power` (the products') and c.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn start<const OUT: u8>(power: __m512, c: __m512) -> __m512i {
    let mut m = _mm512_range_ps::<0b1011>(power, c);
    if OUT == out::F16_RNE {
        // A subnormal f16 c counts with the format's lowest exponent. (Where a zero does, too, the
        // products' is at least that.)
        let c = _mm512_castps_si512(c);
        let least = _mm512_min_epu32(_mm512_add_epi32(c, c), _mm512_set1_epi32(i32::from(LEAST_F16) << 23));
        m = _mm512_range_ps::<0b1011>(m, _mm512_castsi512_ps(least));
    }
    let mut top = _mm512_castps_si512(m);
    // SAFETY: the instruction is there, and reads a number. From memory: compilers would keep it in a register.
    unsafe {
        asm!(
            "vpternlogd {0}, {1}, [{2}]{{1to16}}, 0xea",
            inout(zmm_reg) top,
            in(zmm_reg) _mm512_set1_epi32(EXP32),
            in(reg) &raw const HALF,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    top
}

/// `1.5 * 2^e_max`, in f32, moved to where the f64 accumulators of even columns begin, and of odd ones: the exponent
/// field goes from bit 23 to bit 52, from bit 55 likewise. `offset` units of q further, where sums are watched.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn accumulators(top: __m512i, offset: i64) -> [__m512d; 2] {
    let odd: __m512i;
    // SAFETY: the instruction is there, and reads and writes these registers only. Compilers make two of it.
    unsafe {
        asm!(
            "vpsrld {0}{{{2}}}{{z}}, {1}, 3",
            out(zmm_reg) odd,
            in(zmm_reg) top,
            in(kreg) ODD,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    let further = |x| if offset == 0 { x } else { _mm512_or_si512(x, _mm512_set1_epi64(offset)) };
    [_mm512_castsi512_pd(further(_mm512_slli_epi64::<29>(top))), _mm512_castsi512_pd(further(odd))]
}

/// The low halves of the 64-bit lanes of `even` and, in odd lanes, of `odd`: the sums in units of q.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn low_halves(even: __m512d, odd: __m512d) -> __m512i {
    let mut to = _mm512_castpd_si512(even);
    // SAFETY: as above.
    unsafe {
        asm!(
            "vmovsldup {0}{{{2}}}, {1}",
            inout(zmm_reg) to,
            in(zmm_reg) odd,
            in(kreg) ODD,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    to
}

/// How many of a step's products are negative in each column: a unit each is what floors lack of truncations.
///
/// # Safety
/// `a` points to a row's signs, `b` to those of 16 columns, aligned to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) unsafe fn negatives(a: *const u32, b: *const u32) -> __m512i {
    // SAFETY: the caller's promise.
    let signs = unsafe { _mm512_xor_si512(_mm512_set1_epi32(*a as i32), _mm512_load_si512(b.cast())) };
    _mm512_popcnt_epi32(signs)
}

/// `sum * 2^(e_max - F)` encoded. With `SCALE` by `vscalefps`: three operations for adders instead of one for
/// multipliers, where these have the most to do.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn finish<const OUT: u8, const SCALE: bool>(sum: __m512i, top: __m512i, q: &Consts) -> __m512 {
    let scaled = |x| {
        if SCALE {
            return _mm512_scalef_ps(x, exponent(top, q));
        }
        // 2^(e_max - F).
        let down = _mm512_sub_epi32(top, _mm512_set1_epi32((q.frac_bits << 23) + (1 << 22)));
        _mm512_mul_ps(x, _mm512_castsi512_ps(down))
    };
    match OUT {
        out::F16_RNE => narrow_widen(scaled(odd(sum))),
        out::F32_RZ => scaled(_mm512_cvt_roundepi32_ps::<RZ>(sum)),
        out::F32_CUT => scaled(_mm512_and_ps(_mm512_cvt_roundepi32_ps::<RZ>(sum), keep(q))),
        out::F32_RD => scaled(_mm512_cvt_roundepi32_ps::<DOWN>(sum)),
        out::F32_RU => scaled(_mm512_cvt_roundepi32_ps::<UP>(sum)),
        _ => scaled(_mm512_cvtepi32_ps(sum)),
    }
}

/// `e_max - F` as a number.
#[inline]
#[target_feature(enable = "avx512f")]
fn exponent(top: __m512i, q: &Consts) -> __m512 {
    let mut e = _mm512_getexp_ps(_mm512_castsi512_ps(top));
    // SAFETY: the instruction is there, and reads a number. From memory: compilers would keep it in a register.
    unsafe {
        asm!(
            "vsubps {0}, {0}, [{1}]{{1to16}}",
            inout(zmm_reg) e,
            in(reg) &raw const q.frac_float,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    e
}

/// The bits of a result that are kept.
#[inline]
#[target_feature(enable = "avx512f")]
fn keep(q: &Consts) -> __m512 {
    _mm512_castsi512_ps(_mm512_set1_epi32(q.keep))
}

/// `trunc(c)` in units of `2^(e_max - F)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn truncated(top: __m512i, c: __m512, q: &Consts) -> __m512i {
    // 2^(F - e_max).
    let up = _mm512_sub_epi32(_mm512_set1_epi32(((254 + q.frac_bits) << 23) + (1 << 22)), top);
    _mm512_cvttps_epi32(_mm512_mul_ps(c, _mm512_castsi512_ps(up)))
}

/// `finish` for f32 accumulators that began at `top` and lack a unit for every negative product: sums fit their
/// significands, so that the difference is exact, and so is its way back from the accumulators' place 2^-23 to F.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn finish_narrow<const OUT: u8>(
    acc: __m512,
    negative: __m512i,
    top: __m512,
    c: __m512,
    q: &Consts,
) -> __m512 {
    let more = _mm512_add_epi32(negative, truncated(_mm512_castps_si512(top), c, q));
    let acc = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(acc), more));
    let back = _mm512_castsi512_ps(_mm512_set1_epi32((127 + 23 - q.frac_bits) << 23));
    let sum = _mm512_mul_ps(_mm512_sub_ps(acc, top), back);
    if OUT == out::F16_RNE {
        return narrow_widen(sum);
    }
    _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(sum), _mm512_set1_epi32(q.keep)))
}

/// Whether some lane of an f16 result is infinite.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn overflowed<const OUT: u8>(d: __m512) -> bool {
    let exponent = _mm512_set1_epi32(EXP32);
    let field = _mm512_and_si512(_mm512_castps_si512(d), exponent);
    OUT == out::F16_RNE && _mm512_cmpeq_epi32_mask(field, exponent) != 0
}

/// A sum rounded to odd: so that the rounding to f16 that follows is the only one that counts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn odd(sum: __m512i) -> __m512 {
    let cut = _mm512_cvt_roundepi32_ps::<RZ>(sum);
    to_odd(cut, _mm512_cvt_roundepi32_ps::<DOWN>(sum), _mm512_cvt_roundepi32_ps::<UP>(sum))
}

/// A number rounded to odd, of that rounded toward zero, down and up.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn to_odd(cut: __m512, down: __m512, up: __m512) -> __m512 {
    let [cut, down, up] = [cut, down, up].map(|x| _mm512_castps_si512(x));
    // cut | ((down ^ up) & 1)
    let odd = _mm512_ternarylogic_epi32::<0xF8>(cut, _mm512_xor_si512(down, up), _mm512_set1_epi32(1));
    _mm512_castsi512_ps(odd)
}

/// Rounds to f16 (to nearest even) and back; minus zero becomes plus zero.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn narrow_widen(x: __m512) -> __m512 {
    let h = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    _mm512_add_ps(_mm512_cvtph_ps(h), _mm512_setzero_ps())
}
