//! Exact(G) (CDNA1, and units of one's own): the exact sum of a few products and c, rounded once. Error-free sums in
//! f64.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::decode::{Reading, SPECIAL, WIDE, in_f32};
use super::general_body::special;
use super::lanes::{Lane, any_endless, each, odd, power, two_sum};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::{in_order, over};
use super::{Isa, limit};
use crate::accumulate::{CPosition, GenericDot, Recipe};
use crate::format::{F32, FormatSpec};
use crate::gemm::kernel::Kernel;
use crate::round::Rounding;
use crate::special::NanRule;
use crate::unit::Unit;
use std::sync::Arc;

/// Products of a group, at most.
const MOST: usize = 64;
/// Products whose sum f64 holds where operands take half of its bits each: `Seen::flags` has room for so many.
const ROOM: usize = 32;

/// The kernel for exact sums of up to 64 products, of formats that f32 holds, in f32 to nearest even.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    let reading = Reading { spans: true, ..Reading::default() };
    Rows::kernel(unit, isa, body, Layout::new(unit.shape.k, &blocks), reading, nan)
}

/// The same for a few rows: of groups of one to three products, whose sums are most of the work, for one.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa, rows: usize) -> Option<Arc<dyn Kernel>> {
    let (body, ..) = body(unit)?;
    let few = limit(isa, if body.group < 4 { [1; 3] } else { [2, 1, 1] });
    (rows <= few).then(|| select(unit, isa)).flatten()
}

/// The same on register tiles: of two products or of bounded ones.
#[cfg(target_arch = "x86_64")]
pub(crate) fn select_tiles(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    let tiles = body.group <= 2 || body.bounded;
    tiles.then(|| super::tiles::exact(unit, isa, body, &blocks, nan)).flatten()
}

/// What is computed of a unit, its groups of products, and its NaN: results in f32, to nearest even. Everything else is
/// left to `general`.
fn body(unit: &Unit) -> Option<(Exact, Vec<Vec<usize>>, NanRule)> {
    let Some(Recipe::Generic(g)) = unit.recipe else { return None };
    let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
    let f32_out = widths(&unit.d) == widths(&F32) && g.output_bits.is_none_or(|bits| bits >= 23);
    // Everything that an exact sum has beside its blocks, at the settings of Exact. No sum of multiples of f32's
    // smallest number rounds to zero.
    let plain = GenericDot {
        exact: true,
        output_rounding: Rounding::NearestEven,
        negative_zero: g.negative_zero || last(unit) < -149,
        c: CPosition::With,
        flush_inputs: false,
        flush_results: false,
        product_limit: false,
        via_f16: false,
        ..g
    };
    let group = g.block.min(unit.shape.k);
    if plain != g || !f32_out || !fits(unit, group) || unit.scale.is_some() {
        return None;
    }
    Some((Exact { group, bounded: bounded(unit) }, g.pattern.blocks(unit.shape.k, g.block), g.nan))
}

/// Whether exact sums are computed of a unit's formats and so many products: of up to 48 bits.
pub(super) fn fits(unit: &Unit, group: usize) -> bool {
    let products = unit.a.fraction_bits + unit.b.fraction_bits + 2;
    in_f32(&unit.a) && in_f32(&unit.b) && products <= 48 && group <= MOST
}

/// The exponent of a place at or below the last ones of all products.
pub(super) fn last(unit: &Unit) -> i32 {
    unit.a.emin() - unit.a.fraction_bits as i32 + unit.b.emin() - unit.b.fraction_bits as i32
}

/// Whether products are multiples of 2^-48 below 2^36, as f16's are.
pub(super) fn bounded(unit: &Unit) -> bool {
    last(unit) >= -48 && unit.a.max().exponent + unit.b.max().exponent + 2 <= 36
}

/// The recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) group: usize,
    bounded: bool,
}

impl Body for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn why(&self) -> String {
        format!("exact sums of {}: f64 sums without error, rounded once", self.group)
    }

    fn gains_by_width(&self) -> bool {
        false
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        let endless = any_endless(c);
        let d = each(total(k, each(c, f64::from), self.bounded), |sum| sum as f32);
        if k.flags & SPECIAL != 0 || endless { special(k, c, d, false) } else { d }
    }

    fn infinity_stays(&self) -> bool {
        true
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, _: [f32; N], d: [f32; N]) -> [f32; N] {
        d
    }
}

/// The sum of a block's products and c, rounded to odd.
#[inline(always)]
pub(super) fn total<const N: usize, A: Side<N>>(k: &Block<'_, N, A>, c: [f64; N], bounded: bool) -> [f64; N] {
    let (products, mut scale) = (k.a.iter().copied().zip(k.b), [0f64; N]);
    for j in 0..N {
        scale[j] = power(k.scale(j));
    }
    if k.flags & WIDE == 0 && k.a.len() <= ROOM {
        of_two(whole(k), scale, c)
    } else if k.a.len() <= 2 {
        of_parts(pair(products), scale, c)
    } else if bounded {
        of_parts(split(products, -8), scale, c)
    } else {
        of_many(products, scale, c)
    }
}

/// The sum of products whose last places and magnitudes are at most 53 bits apart.
#[inline(always)]
fn whole<const N: usize, A: Side<N>>(k: &Block<'_, N, A>) -> [f64; N] {
    let mut sum = [0f64; N];
    over(
        k.a,
        k.b,
        #[inline(always)]
        |a, b: &[f32; N]| {
            for j in 0..N {
                sum[j] += f64::from(a.at(j)) * f64::from(b[j]);
            }
        },
    );
    sum
}

/// The sum of at most two products, in two parts.
#[inline(always)]
pub(super) fn pair<'a, T: Copy + Into<f64> + 'a, const N: usize>(
    products: impl Iterator<Item = (impl Lane<T, N>, &'a [T; N])>,
) -> ([f64; N], [f64; N]) {
    let (mut high, mut low) = ([0f64; N], [0f64; N]);
    for (a, b) in products {
        for j in 0..N {
            // The first sum leaves nothing. -0 + -0 is the sum's zero only without the rule that zeros are positive.
            (high[j], low[j]) = two_sum(high[j], a.at(j).into() * b[j].into());
        }
    }
    (high, low)
}

/// The sum in multiples of `2^last` and the rest, each exact.
#[inline(always)]
pub(super) fn split<'a, T: Copy + Into<f64> + 'a, const N: usize>(
    products: impl Iterator<Item = (impl Lane<T, N>, &'a [T; N])>,
    last: i32,
) -> ([f64; N], [f64; N]) {
    let grid = 1.5 * power(52 + last);
    let (mut high, mut low) = ([0f64; N], [0f64; N]);
    for (a, b) in products {
        in_order();
        for j in 0..N {
            let product = a.at(j).into() * b[j].into();
            let part = (product + grid) - grid;
            high[j] += part;
            low[j] += product - part;
        }
    }
    (high, low)
}

/// The sum, times a power of two, with c, rounded to odd.
#[inline(always)]
fn of_two<const N: usize>(sum: [f64; N], scale: [f64; N], c: [f64; N]) -> [f64; N] {
    let (mut total, mut rest) = (sum, sum);
    for j in 0..N {
        (total[j], rest[j]) = two_sum(sum[j] * scale[j], c[j]);
    }
    // Sums of narrow numbers hardly ever leave anything.
    if rest.iter().any(|r| *r != 0.0) {
        for j in 0..N {
            total[j] = odd(total[j], rest[j]);
        }
    }
    total
}

/// The sum of two parts, times a power of two, and c, rounded to odd.
#[inline(always)]
fn of_parts<const N: usize>((high, low): ([f64; N], [f64; N]), scale: [f64; N], c: [f64; N]) -> [f64; N] {
    let mut total = [0f64; N];
    for j in 0..N {
        let (sum, r) = two_sum(high[j] * scale[j], low[j] * scale[j]);
        let (sum, u) = two_sum(sum, c[j]);
        let (v, w) = two_sum(u, r);
        let (sum, v) = two_sum(sum, v);
        // Only the sign of the rest counts, and w is below v's last place.
        total[j] = odd(sum, if v == 0.0 { w } else { v });
    }
    total
}

/// Parts of a sum without a scale, and c, in f32.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn rounded<const N: usize>(parts: ([f64; N], [f64; N]), c: [f32; N]) -> [f32; N] {
    each(of_parts(parts, [1.0; N], each(c, f64::from)), |sum| sum as f32)
}

/// The sum of products, however far apart, times a power of two, and c, rounded to odd.
///
/// Numbers whose bits do not overlap, from the smallest on, whose sum is that of all terms so far: each new one is
/// added to the smallest, what that leaves stays, and the sum goes on to the next (J. R. Shewchuk, Adaptive precision
/// floating-point arithmetic, 1997: Grow-Expansion). No sum leaves f64's range.
#[inline(always)]
fn of_many<'a, const N: usize>(
    products: impl Iterator<Item = (impl Lane<f32, N>, &'a [f32; N])>,
    scale: [f64; N],
    c: [f64; N],
) -> [f64; N] {
    let (mut parts, mut count) = ([[0f64; N]; MOST + 1], 1);
    parts[0] = c;
    for (a, b) in products {
        let mut sum = [0f64; N];
        for j in 0..N {
            sum[j] = f64::from(a.at(j)) * f64::from(b[j]) * scale[j];
        }
        for part in &mut parts[..count] {
            in_order();
            for j in 0..N {
                (sum[j], part[j]) = two_sum(sum[j], part[j]);
            }
        }
        parts[count] = sum;
        count += 1;
    }
    // From the largest on, until something is left; what comes after that is too small to turn its sign.
    let (mut sum, mut rest) = ([0f64; N], [0f64; N]);
    for part in parts[..count].iter().rev() {
        in_order();
        for j in 0..N {
            let (more, left) = two_sum(sum[j], part[j]);
            let go_on = rest[j] == 0.0;
            sum[j] = if go_on { more } else { sum[j] };
            rest[j] = if go_on { left } else { rest[j] };
        }
    }
    for j in 0..N {
        sum[j] = odd(sum[j], rest[j]);
    }
    sum
}
