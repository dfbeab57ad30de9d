//! The FDA step for all finite operands and states in plain code: SPEC section 3, steps 3 to 6, by the letter, for F up
//! to 25.

#![allow(unsafe_code, reason = "loads and stores through the panels' pointers")]

use super::state::round_f16;
use super::step::{A_SCALE, B_SCALE, Consts, Step};
use super::{NR, align, out};
use crate::simd::lanes::{ToInt, power, to_int};

/// The step of row `row` of the tile by the 16 columns of vector `t`, whose lanes stay side by side.
///
/// # Safety
/// As `Micro::step_wide`, for one group; `row` is below 8, and `t` below 4.
pub(super) unsafe fn step_wide<const OUT: u8>(p: &Step, q: &Consts, row: usize, t: usize) {
    let l = q.block;
    // SAFETY: the row's `t`-th 16 of 64 states, of 8 rows, which no panel overlaps and nobody else looks at meanwhile.
    let states = unsafe { &mut *p.c.add(row * NR + t * 16).cast::<[f32; 16]>() };
    let mut best = [i16::MIN; 16];
    for k in 0..l {
        // SAFETY: A's wide exponents are `l` words for each of 8 rows, B's `NR` words of 16 bits a product: of these
        // the vector's 16.
        let (a, b) =
            unsafe { (*p.a_wide.add(row * l + k) as i16, &*p.b_wide.add(k * NR + t * 16).cast::<[i16; 16]>()) };
        for j in 0..16 {
            best[j] = best[j].max(a + b[j]);
        }
    }
    for c in &mut *states {
        *c = flushed(*c, q.least_c);
    }
    let (mut e_max, mut scale) = ([0; 16], [0.0; 16]);
    for j in 0..16 {
        e_max[j] = i32::from(best[j]).max(q.e_zero).max(c_exponent::<OUT>(states[j], q));
        scale[j] = power(-e_max[j]);
    }
    let how = match q.align {
        align::NEAREST_EVEN => ToInt::NearestEven,
        align::DOWN => ToInt::Down,
        align::UP => ToInt::Up,
        _ => ToInt::TowardZero,
    };
    // Even columns of a vector come first.
    let place = |j: usize| j % 2 * 8 + j / 2;
    let (mut by, mut sums) = ([0.0; 16], [0.0; 16]);
    for j in 0..16 {
        by[place(j)] = scale[j];
    }
    for k in 0..l {
        // With this a, products are 2^F times what they are.
        // SAFETY: A's values are `l` for each of 8 rows.
        let a = unsafe { *p.a_val.add(row * l + k) } * power(-A_SCALE - B_SCALE);
        // SAFETY: B's are 16 of each product for one vector after another, four in all.
        let b = unsafe { &*p.b_val.add(t * l * 16 + k * 16).cast::<[f64; 16]>() };
        for j in 0..16 {
            sums[j] += to_int::<false>(a * b[j] * by[j], how);
        }
    }
    let bits = power(q.frac_bits);
    for j in 0..16 {
        let c = to_int::<false>(f64::from(states[j]) * bits * scale[j], how);
        let d = encode::<OUT>((sums[place(j)] + c) * power(e_max[j] - q.frac_bits), q);
        states[j] = flushed(d, q.least_d);
    }
}

/// A number of at least this magnitude, or NaN; 0 for others.
#[inline(always)]
fn flushed(x: f32, least: f32) -> f32 {
    if x.abs() < least { 0.0 } else { x }
}

/// c's exponent, `e_zero` where it has none.
#[inline(always)]
fn c_exponent<const OUT: u8>(c: f32, q: &Consts) -> i32 {
    // f16 states are held as f32: their subnormals keep the format's lowest exponent.
    let low = if OUT == out::F16_RNE { -14 } else { -126 };
    let own = (c.to_bits() >> 23 & 0xFF) as i32 - 127;
    if c == 0.0 && q.zero_c == 0 { q.e_zero } else { own.max(low) }
}

/// A sum, rounded.
#[inline(always)]
fn encode<const OUT: u8>(v: f64, q: &Consts) -> f32 {
    let nearest = v as f32;
    if OUT == out::F32_RNE {
        return nearest + 0.0;
    }
    // Beyond every exponent, whatever the rounding, but for those to one side.
    let one_side = OUT == out::F32_RD || OUT == out::F32_RU;
    if v.abs() >= power(128) && !one_side {
        return f32::INFINITY.copysign(nearest);
    }
    // A step back where rounding to nearest went up: the magnitude's bits are in order.
    let up = f64::from(nearest).abs() > v.abs();
    let cut = nearest.to_bits() - u32::from(up);
    if one_side {
        // And on where that was to the other side.
        let exact = f64::from(f32::from_bits(cut));
        let short = if OUT == out::F32_RD { exact > v } else { exact < v };
        return f32::from_bits(cut + u32::from(short)) + 0.0;
    }
    if OUT == out::F16_RNE {
        let inexact = f64::from(f32::from_bits(cut)) != v;
        return round_f16(f32::from_bits(cut | u32::from(inexact))) + 0.0;
    }
    f32::from_bits(cut & q.keep as u32) + 0.0
}
