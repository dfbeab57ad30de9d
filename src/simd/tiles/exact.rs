//! Exact(G) on register tiles: sums of products and c that f64 holds without error, then one rounding.
//!
//! Operands are scaled by powers of two so that a group's products sum to less than 1/2 in magnitude; states below 2 then
//! leave 50 fraction bits. Where the last places of a step's products are all at or above 2^-50, so is every state that comes
//! of them, and nothing rounds but the last operation of a group: to 24 bits, ties to even, by adding and taking away
//! `1.5 * 2^29` times the sum's power of two. States stay in f64 in between.

#![allow(unsafe_code, reason = "functions for one instruction set, loads through the panels' pointers")]

use super::{Family, Fields, MR, Scales, Source, Tile, Tiles};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::exact::Exact;
use crate::simd::lanes::power;
use crate::simd::values::{Reading, SPECIAL, WIDE};
use crate::simd::{Avx512, Isa};
use crate::special::NanRule;
use crate::unit::Unit;
use core::arch::x86_64::*;
use std::sync::Arc;

/// The exponent of the lowest place of products and states, which sums below 4 have in f64 too.
const LAST: i32 = -50;
/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;

/// The family, and what it takes for ordinary.
#[derive(Debug)]
struct Sums {
    body: Exact,
    /// Fraction bits of A's and B's formats.
    bits: [u32; 2],
    /// The exponents of their smallest numbers.
    least: [i32; 2],
}

/// The kernel, for results in f32 and whole groups.
pub(crate) fn select(
    unit: &Unit,
    isa: Isa,
    body: Exact,
    groups: &[Vec<usize>],
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    let _proof = Avx512::new(isa)?;
    let bits = [unit.a.fraction_bits, unit.b.fraction_bits];
    let least = [unit.a, unit.b].map(|spec| spec.emin() - spec.fraction_bits as i32);
    if !super::is_f32(unit) || groups.iter().any(|g| g.len() != body.group) {
        return None;
    }
    let source = |spec| Source::new(spec, Reading::default(), groups, body.group);
    Some(Arc::new(Tiles {
        family: Sums { body, bits, least },
        name: "exact-f64",
        k: unit.shape.k,
        step: body.group,
        nan: F32.nan_code(nan)? as u32,
        a: source(unit.a),
        b: source(unit.b),
        _proof,
    }))
}

impl Family for Sums {
    type Body = Exact;
    type Value = f64;

    fn body(&self) -> &Exact {
        &self.body
    }

    #[inline(always)]
    fn value(x: f32, scale: i32) -> f64 {
        f64::from(x) * power(scale)
    }

    #[inline(always)]
    fn number(x: f64, scale: i32) -> f32 {
        (x * power(-scale)) as f32
    }

    fn scale(&self, top: u8, columns: bool) -> i32 {
        // Magnitudes below 1, and B's below 1 / 2G.
        let room = if columns { self.body.group.next_power_of_two().ilog2() as i32 + 1 } else { 0 };
        let top = if top == 0 { 127 } else { i32::from(top) };
        126 - top - room
    }

    #[inline(always)]
    fn ordinary(&self, a: Fields, b: Fields, scales: Scales) -> bool {
        // Last places of the smallest operands: all are multiples of their format's smallest number.
        let last = |f: Fields, side: usize| (i32::from(f.low) - 127 - self.bits[side] as i32).max(self.least[side]);
        // Field 0 is a special value's, or a number's that is subnormal in f32 too.
        let special = (a.low == 0) | (b.low == 0);
        !special & (last(a, 0) + last(b, 1) + scales.a + scales.b >= LAST)
    }

    fn flags(&self, a: Fields, b: Fields) -> u8 {
        let special = a.high == 255 || b.high == 255;
        // Whether one side takes more than half of f64's bits, with room for 32 products.
        let wide = |f: Fields, bits: u32| f.low <= f.high && u32::from(f.high - f.low) + bits + 1 > 24;
        let [bits_a, bits_b] = self.bits;
        (if special { SPECIAL } else { 0 }) | (if wide(a, bits_a) || wide(b, bits_b) { WIDE } else { 0 })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    unsafe fn steps(&self, a: *const f64, b: *const f64, k: usize, tile: &mut Tile, scales: Scales) -> bool {
        let scale = scales.a + scales.b;
        // Results are normal f32.
        if !(-110..=76).contains(&scale) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.body.group {
                2 => steps::<2>(a, b, [k, 2], tile, scale),
                4 => steps::<4>(a, b, [k, 4], tile, scale),
                g => steps::<0>(a, b, [k, g], tile, scale),
            }
        }
    }
}

/// Groups of `G` products, or with 0 of any number.
///
/// # Safety
/// As `Family::steps`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn steps<const G: usize>(
    a: *const f64,
    b: *const f64,
    [k, group]: [usize; 2],
    tile: &mut Tile,
    scale: i32,
) -> bool {
    let group = if G == 0 { group } else { G };
    let Some(mut d) = load(tile, scale) else { return false };
    let mut beyond = _mm512_setzero_si512();
    for from in (0..k).step_by(group) {
        for p in from..from + group {
            // SAFETY: the panels hold k positions, aligned.
            let b = unsafe { [_mm512_load_pd(b.add(p * 16)), _mm512_load_pd(b.add(p * 16 + 8))] };
            for (r, d) in d.iter_mut().enumerate() {
                // SAFETY: as above.
                let a = _mm512_set1_pd(unsafe { *a.add(p * MR + r) });
                d[0] = _mm512_fmadd_pd(a, b[0], d[0]);
                d[1] = _mm512_fmadd_pd(a, b[1], d[1]);
            }
        }
        for d in &mut d {
            *d = [round(d[0]), round(d[1])];
            let [low, high] = d.map(|d| _mm512_castpd_si512(d));
            beyond = _mm512_ternarylogic_epi64::<OR>(beyond, low, high);
        }
    }
    // Below 2 the exponent's first bit is not set.
    let inside = _mm512_test_epi64_mask(beyond, _mm512_set1_epi64(1 << 62)) == 0;
    if inside {
        store(&d, tile, scale);
    }
    inside
}

/// Rounds to 24 bits, ties to even.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn round(x: __m512d) -> __m512d {
    let power = _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY));
    let magic = _mm512_set1_pd(1.5 * (1u64 << 29) as f64);
    _mm512_fnmadd_pd(power, magic, _mm512_fmadd_pd(power, magic, x))
}

/// The states, scaled, if all are below 2 and multiples of the last place.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn load(tile: &Tile, scale: i32) -> Option<[[__m512d; 2]; MR]> {
    let (up, grid) = (_mm512_set1_pd(power(scale)), _mm512_set1_pd(6.0));
    let mut fits = !0;
    let d = core::array::from_fn(|r| {
        core::array::from_fn(|h| {
            // SAFETY: 8 floats of 16.
            let c = unsafe { _mm256_loadu_ps(tile.0[r].as_ptr().add(8 * h)) };
            // Minus zero is plus zero.
            let x = _mm512_fmadd_pd(_mm512_cvtps_pd(c), up, _mm512_setzero_pd());
            let on_grid = _mm512_sub_pd(_mm512_add_pd(x, grid), grid);
            fits &= _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(x), _mm512_set1_pd(2.0));
            fits &= _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(x, on_grid);
            x
        })
    });
    (fits == !0).then_some(d)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn store(d: &[[__m512d; 2]; MR], tile: &mut Tile, scale: i32) {
    let down = _mm512_set1_pd(power(-scale));
    for (d, to) in d.iter().zip(&mut tile.0) {
        for (h, d) in d.iter().enumerate() {
            // SAFETY: 8 floats of 16.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().add(8 * h), _mm512_cvtpd_ps(_mm512_mul_pd(*d, down))) }
        }
    }
}
