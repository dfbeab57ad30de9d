//! One block of the aligned dot-add on one row and 16 columns: docs/numerics.md, 4.12, steps 1 to 8.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "conversions without a check, whose range the exponents prove")]

use super::lanes::{Encode, ToInt, any, exponent, power, to_int};
use super::rows::{Block, Body};
use super::values::{FAR, LOW, NR, SPECIAL};
use super::wide::{in_order, over, truncate};
use crate::accumulate::CPosition;

/// Exponents within which f32 lanes need no care: scales and results are normal f32.
pub(super) const LOWEST: i32 = -90;
pub(super) const HIGHEST: i32 = 60;
/// The exponent of a sum without terms: low, and a power of two in f64 still.
const NOTHING: i32 = -900;

/// The recipe.
#[derive(Debug)]
pub(super) struct Params {
    /// F.
    pub(super) frac_bits: i32,
    pub(super) alignment: ToInt,
    pub(super) sticky: bool,
    pub(super) normalise: bool,
    /// e_zero.
    pub(super) floor: Option<i32>,
    /// The exponent of a zero c, if it has one.
    pub(super) zero_c: Option<i32>,
    /// The smallest exponent a c may have.
    pub(super) c_emin: i32,
    /// Below this magnitude c is +0.
    pub(super) c_flush: f32,
    pub(super) c: CPosition,
    pub(super) encode: Encode,
    /// The IEEE addition of a late c.
    pub(super) late: Encode,
    /// Whether products from 2^128 on are infinite.
    pub(super) limit: bool,
    /// Products whose sum fits into i32; 0: f64 lanes only.
    pub(super) chunk: usize,
    /// Bits of f32 results to keep, where all sums fit into i32 and are truncated.
    pub(super) fast_epilogue: Option<u32>,
}

impl Body for Params {
    fn name(&self) -> &'static str {
        if self.chunk > 0 { "aligned, f32 lanes" } else { "aligned, f64 lanes" }
    }

    fn why(&self) -> String {
        let lanes = if self.chunk > 0 {
            "products fit f32 and their sums i32"
        } else {
            "products and sums of up to 51 bits fit f64"
        };
        format!("an aligned sum of formats that f32 holds, F = {}: {lanes}", self.frac_bits)
    }

    #[inline(always)]
    fn begin(&self, c: [f32; NR]) -> [f32; NR] {
        if self.c == CPosition::Last { [0.0; NR] } else { c }
    }

    #[inline(always)]
    fn block<const NATIVE: bool>(&self, k: &Block<'_>, c: [f32; NR]) -> [f32; NR] {
        block::<NATIVE>(k, c, self)
    }

    #[inline(always)]
    fn end<const NATIVE: bool>(&self, c: [f32; NR], d: [f32; NR]) -> [f32; NR] {
        // (8) for a c that comes after all blocks.
        if self.c == CPosition::Last { add::<NATIVE>(flushed(c, self), d, self) } else { d }
    }
}

/// d of a block.
#[inline(always)]
fn block<const NATIVE: bool>(k: &Block<'_>, c: [f32; NR], p: &Params) -> [f32; NR] {
    let products = largest(k);
    let c = if p.c_flush > 0.0 { flushed(c, p) } else { c };
    if p.chunk > 0 && k.flags & (SPECIAL | FAR) == 0 {
        let done = if p.fast_epilogue.is_some() {
            narrow::<NATIVE, true>(k, c, products, p)
        } else {
            narrow::<NATIVE, false>(k, c, products, p)
        };
        if let Some(d) = done {
            return d;
        }
    }
    wide_block::<NATIVE>(k, c, products, p)
}

/// (4) The largest exponent among the products.
#[inline(always)]
pub(super) fn largest(k: &Block<'_>) -> [i16; NR] {
    let mut e = [2 * LOW; NR];
    over(
        k.a_exponents,
        k.b_exponents,
        #[inline(always)]
        |a, b: &[i16; NR]| {
            for j in 0..NR {
                e[j] = e[j].max(b[j] + a);
            }
        },
    );
    e
}

/// (4) to (7) in f32 lanes, where every exponent allows it.
#[inline(always)]
fn narrow<const NATIVE: bool, const FAST: bool>(
    k: &Block<'_>,
    c: [f32; NR],
    products: [i16; NR],
    p: &Params,
) -> Option<[f32; NR]> {
    let (floor, c_emin, f) = (p.floor.unwrap_or(i32::MIN), p.c_emin, p.frac_bits);
    let (scale_a, scale_b) = (k.scale_a, *k.scale_b);
    let (mut e, mut alone, mut finite) = ([0i32; NR], [0i32; NR], [0f32; NR]);
    for j in 0..NR {
        let field = (c[j].to_bits() >> 23 & 0xFF) as i32;
        // Neither zero, nor too small to matter, nor infinite or NaN.
        let counts = (field - 1) as u32 <= 253;
        let exponent = (field - 127).max(c_emin);
        let of_c = if counts { exponent } else { i32::from(LOW) };
        finite[j] = if counts { c[j] } else { 0.0 };
        e[j] = (i32::from(products[j]) + scale_a + scale_b[j]).max(of_c).max(floor);
        alone[j] = e[j] - scale_a - scale_b[j];
    }
    let (mut scale, mut term, mut bad) = ([0f32; NR], [0f32; NR], [0i32; NR]);
    for j in 0..NR {
        // Negative outside of the window.
        bad[j] = (e[j] - LOWEST) | (HIGHEST - e[j]) | (alone[j] - LOWEST) | (HIGHEST - alone[j]);
        // 2^(F - e): what makes the truncation step 1.
        scale[j] = f32::from_bits(((127 + f - alone[j]) << 23) as u32);
        term[j] = finite[j] * f32::from_bits(((127 + f - e[j]) << 23) as u32);
    }
    if negative(bad) {
        return None;
    }
    let d = if FAST {
        truncated(sum(k, &scale), term, e, p)?
    } else {
        let mut total = [0f64; NR];
        for (a, b) in k.a.chunks(p.chunk).zip(k.b.chunks(p.chunk)) {
            let part = sum(&Block { a, b, ..*k }, &scale);
            for j in 0..NR {
                total[j] += f64::from(part[j]);
            }
        }
        for j in 0..NR {
            total[j] = (total[j] + to_int::<NATIVE>(term[j].into(), ToInt::TowardZero)) * power(e[j] - f);
        }
        p.encode.row::<NATIVE, NR>(total)
    };
    let mut out = d;
    for j in 0..NR {
        // An infinite or NaN c stays; products are finite here.
        out[j] = if c[j].is_finite() { d[j] } else { c[j] };
    }
    Some(out)
}

/// Whether some lane is negative.
#[inline(always)]
fn negative(lanes: [i32; NR]) -> bool {
    lanes.iter().fold(0, |x, y| x | y) < 0
}

/// (5) and (6) Products, cut toward zero in units of `1 / scale`, and their sum.
#[inline(always)]
pub(super) fn sum(k: &Block<'_>, scale: &[f32; NR]) -> [i32; NR] {
    let mut sum = [0i32; NR];
    over(
        k.a,
        k.b,
        #[inline(always)]
        |a, b: &[f32; NR]| {
            for j in 0..NR {
                // SAFETY: a product is below 2^(e_max + 2), scaled below 2^(F + 2), and F is at most 28.
                sum[j] += unsafe { truncate(a * b[j] * scale[j]) };
            }
        },
    );
    sum
}

/// (6) and (7) A sum of i32 and c's term, truncated to f32; none where that overflows.
#[inline(always)]
fn truncated(sum: [i32; NR], term: [f32; NR], e: [i32; NR], p: &Params) -> Option<[f32; NR]> {
    let keep = p.fast_epilogue.unwrap_or(u32::MAX);
    let f = p.frac_bits;
    let room = i32::MAX - (2 << f) - 128;
    let (mut d, mut bad) = ([0f32; NR], [0i32; NR]);
    for j in 0..NR {
        // Negative outside of the room, i32::MIN included.
        bad[j] = room.wrapping_sub(sum[j].wrapping_abs()) | sum[j].wrapping_abs();
    }
    if negative(bad) {
        return None;
    }
    for j in 0..NR {
        // SAFETY: c is below 2^(e_max + 1), scaled below 2^(F + 1).
        let total = sum[j] + unsafe { truncate(term[j]) };
        let magnitude = total.abs();
        let nearest = magnitude as f32;
        // SAFETY: the magnitude is at most 2^31 - 128, which f32 holds. One less if that was up.
        let up = (magnitude - unsafe { truncate(nearest) }) >> 31;
        let cut = nearest.to_bits().wrapping_add(up as u32) & keep | (total as u32 & 1 << 31);
        d[j] = f32::from_bits(cut) * f32::from_bits(((127 - f + e[j]) << 23) as u32);
    }
    Some(d)
}

/// Everything in f64 lanes: any finite operands, any rounding; and special values.
#[inline(always)]
fn wide_block<const NATIVE: bool>(k: &Block<'_>, c: [f32; NR], products: [i16; NR], p: &Params) -> [f32; NR] {
    let with_c = p.c != CPosition::Late;
    let mut term = [0f64; NR];
    for j in 0..NR {
        let finite = if c[j].is_finite() { c[j] } else { 0.0 };
        term[j] = if with_c { finite.into() } else { 0.0 };
    }
    let products = if p.normalise { normalised(k) } else { products.map(i32::from) };
    let e = exponents(k, &term, products, p);
    let total = match (p.alignment, p.sticky) {
        (ToInt::NearestEven, false) => aligned::<NATIVE, false>(k, term, &e, p, ToInt::NearestEven),
        (ToInt::NearestEven, true) => aligned::<NATIVE, true>(k, term, &e, p, ToInt::NearestEven),
        (ToInt::Down, false) => aligned::<NATIVE, false>(k, term, &e, p, ToInt::Down),
        (ToInt::Down, true) => aligned::<NATIVE, true>(k, term, &e, p, ToInt::Down),
        (_, false) => aligned::<NATIVE, false>(k, term, &e, p, ToInt::TowardZero),
        (_, true) => aligned::<NATIVE, true>(k, term, &e, p, ToInt::TowardZero),
    };
    let mut d = p.encode.row::<NATIVE, NR>(total);
    let beyond = p.limit && any(e.map(|e| e > 120));
    let endless = with_c && any(c.map(|c| !c.is_finite()));
    if k.flags & SPECIAL != 0 || beyond || endless {
        d = special(k, if with_c { c } else { [0.0; NR] }, d, p.limit);
    }
    if with_c { d } else { add::<NATIVE>(c, d, p) }
}

/// (1) c, or +0 for a subnormal one.
#[inline(always)]
fn flushed(c: [f32; NR], p: &Params) -> [f32; NR] {
    c.map(|c| if c.abs() < p.c_flush { 0.0 } else { c })
}

/// (4) The largest exponent among products with `1 <= s < 2`.
#[inline(always)]
fn normalised(k: &Block<'_>) -> [i32; NR] {
    let mut largest = [0f64; NR];
    for (b, &a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..NR {
            let magnitude = (f64::from(a) * f64::from(b[j])).abs();
            largest[j] = if magnitude > largest[j] && magnitude < f64::INFINITY { magnitude } else { largest[j] };
        }
    }
    largest.map(|x| if x > 0.0 { exponent(x) } else { 2 * i32::from(LOW) })
}

/// (4) e_max.
#[inline(always)]
fn exponents(k: &Block<'_>, term: &[f64; NR], products: [i32; NR], p: &Params) -> [i32; NR] {
    let (floor, zero_c, c_emin) = (p.floor.unwrap_or(NOTHING), p.zero_c.unwrap_or(NOTHING), p.c_emin);
    let (scale_a, scale_b) = (k.scale_a, *k.scale_b);
    let mut e = [0; NR];
    for j in 0..NR {
        let of_term = exponent(term[j]).max(c_emin);
        let of_c = if term[j] == 0.0 { zero_c } else { of_term };
        e[j] = (products[j] + scale_a + scale_b[j]).max(of_c).max(floor).max(NOTHING);
    }
    e
}

/// (5) and (6) The exact sum of the aligned terms.
#[inline(always)]
fn aligned<const NATIVE: bool, const STICKY: bool>(
    k: &Block<'_>,
    term: [f64; NR],
    e: &[i32; NR],
    p: &Params,
    how: ToInt,
) -> [f64; NR] {
    let (mut scale, mut sum, f) = ([0f64; NR], [0f64; NR], p.frac_bits);
    let (scale_a, scale_b) = (k.scale_a, *k.scale_b);
    for j in 0..NR {
        scale[j] = power((f - e[j] + scale_a + scale_b[j]).clamp(-1000, 1000));
        sum[j] = units::<NATIVE, STICKY>(term[j] * power(f - e[j]), how);
    }
    for (b, &a) in k.b.iter().zip(k.a) {
        in_order();
        let a = f64::from(a);
        for j in 0..NR {
            sum[j] += units::<NATIVE, STICKY>(a * f64::from(b[j]) * scale[j], how);
        }
    }
    for j in 0..NR {
        sum[j] *= power(e[j] - f - i32::from(STICKY));
    }
    sum
}

/// (5) A term as an integer; with a sticky bit, as twice that and the bit.
#[inline(always)]
fn units<const NATIVE: bool, const STICKY: bool>(x: f64, how: ToInt) -> f64 {
    let whole = to_int::<NATIVE>(x, how);
    if !STICKY {
        return whole;
    }
    // Toward the true value where alignment is directed, else a bit of the magnitude.
    let bit = if how == ToInt::Down || x > 0.0 { 1.0 } else { -1.0 };
    2.0 * whole + if whole == x { 0.0 } else { bit }
}

/// (3) S: what infinities, NaN and products beyond the limit decide; IEEE sums of them say the same.
#[inline(always)]
pub(super) fn special(k: &Block<'_>, c: [f32; NR], d: [f32; NR], limited: bool) -> [f32; NR] {
    let (mut sum, mut limit) = ([0f64; NR], [f64::INFINITY; NR]);
    for j in 0..NR {
        sum[j] = if c[j].is_finite() { 0.0 } else { c[j].into() };
        if limited {
            limit[j] = power(128 - k.scale_a - k.scale_b[j]);
        }
    }
    for (b, &a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..NR {
            let product = f64::from(a) * f64::from(b[j]);
            sum[j] += if product.abs() >= limit[j] { f64::INFINITY.copysign(product) } else { product };
        }
    }
    let mut out = d;
    for j in 0..NR {
        out[j] = if sum[j].is_finite() { d[j] } else { sum[j] as f32 };
    }
    out
}

/// (8) c + t in IEEE RNE.
#[inline(always)]
fn add<const NATIVE: bool>(c: [f32; NR], t: [f32; NR], p: &Params) -> [f32; NR] {
    // The sum of two f32 in f64, rounded again, is as if rounded once.
    let mut sum = [0f64; NR];
    for j in 0..NR {
        sum[j] = f64::from(c[j]) + f64::from(t[j]);
    }
    let rounded = p.late.row::<NATIVE, NR>(sum);
    let mut d = rounded;
    for j in 0..NR {
        d[j] = if sum[j].is_finite() { rounded[j] } else { sum[j] as f32 };
    }
    d
}
