//! The FDA step for all finite operands and states, and F up to 40, in plain code: SPEC section 3, steps 2 to 6, by the
//! letter on 16 columns at once.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]
#![allow(clippy::needless_range_loop, reason = "columns index several arrays at once")]

use super::avx512::{A_SCALE, B_SCALE, Consts, Step};
use super::state::round_f16;
use super::{NR, out};

/// `2^e`.
#[inline(always)]
const fn power(e: i32) -> f64 {
    f64::from_bits(((1023 + e) as u64) << 52)
}

/// The column of lane `i`: B's even columns come first.
const fn column(i: usize) -> usize {
    if i < 8 { 2 * i } else { 2 * i - 15 }
}

/// The step of row `row` of the tile by the 16 columns of vector `t`.
///
/// # Safety
/// As `step_fast`, the wide panels included.
#[inline(always)]
pub(super) unsafe fn step_wide<const OUT: u8>(p: &Step, q: &Consts, row: usize, t: usize) {
    let l = q.block;
    // SAFETY (whole function): panels and state are as large as the step.
    let state: &mut [f32; 16] = unsafe { &mut *p.c.add(row * NR + t * 16).cast() };
    let e_max = unsafe { e_max::<OUT>(p, q, row, t, state) };
    let scale: [f64; 16] = core::array::from_fn(|i| power(-e_max[column(i)]));
    let mut sum = [0.0; 16];
    for k in 0..l {
        // With this a, products are 2^F times what they are; truncated, B's enlargement and zeros' stand-ins are gone.
        let a = unsafe { *p.a_val.add(row * l + k) } * power(-A_SCALE - B_SCALE);
        let b: &[f64; 16] = unsafe { &*p.b_val.add((t * l + k) * 16).cast() };
        for i in 0..16 {
            sum[i] += (a * b[i] * scale[i]).trunc();
        }
    }
    let f = q.frac_bits;
    for i in 0..16 {
        let c = f64::from(state[column(i)]) * (power(f) * scale[i]);
        let v = (sum[i] + c.trunc()) * power(e_max[column(i)] - f);
        state[column(i)] = encode::<OUT>(v, q.keep);
    }
}

/// e_max of the 16 columns.
///
/// # Safety
/// As `step_wide`.
#[inline(always)]
unsafe fn e_max<const OUT: u8>(p: &Step, q: &Consts, row: usize, t: usize, c: &[f32; 16]) -> [i32; 16] {
    let mut best = [i16::MIN; 16];
    for k in 0..q.block {
        // SAFETY: as in `step_wide`.
        let (a, b) = unsafe {
            (*p.a_wide.add(row * q.block + k) as u16 as i16, &*p.b_wide.add(k * NR + t * 16).cast::<[i16; 16]>())
        };
        for j in 0..16 {
            best[j] = best[j].max(a + b[j]);
        }
    }
    // f16 states are held as f32: their subnormals keep the format's lowest exponent.
    let low = if OUT == out::F16_RNE { -14 } else { -126 };
    core::array::from_fn(|j| {
        let field = (c[j].to_bits() >> 23 & 0xFF) as i32;
        let e_c = if c[j] != 0.0 || q.zero_c != 0 { (field - 127).max(low) } else { i32::MIN };
        i32::from(best[j]).max(q.e_zero).max(e_c)
    })
}

/// A sum as a result.
#[inline(always)]
fn encode<const OUT: u8>(v: f64, keep: i32) -> f32 {
    let near = v as f32;
    // A step back where rounding to nearest went up: the magnitude's bits are in order.
    let up = f64::from(near).abs() > v.abs();
    let down = f32::from_bits(near.to_bits() - u32::from(up));
    if OUT == out::F16_RNE {
        // To odd first, so that one rounding counts.
        let odd = down.to_bits() | u32::from(f64::from(down) != v);
        return round_f16(f32::from_bits(odd)) + 0.0;
    }
    let x = if OUT == out::F32_RNE { near } else { down };
    let kept = f32::from_bits(x.to_bits() & keep as u32);
    // Beyond every exponent, whatever the rounding.
    let huge = if v < 0.0 { f32::NEG_INFINITY } else { f32::INFINITY };
    (if v.abs() >= power(128) { huge } else { kept }) + 0.0
}
