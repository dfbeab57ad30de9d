//! Exact(G) (CDNA1, and units of one's own): the exact sum of a few products and c, rounded once. Error-free sums in f64.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Isa;
use super::decode::{Reading, SPECIAL, WIDE, in_f32};
use super::general;
use super::general_body::special;
use super::lanes::{Encode, Lane, any_endless, each, odd, power, two_sum};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::{in_order, over};
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

/// The kernel for exact sums of up to 64 products of formats that f32 holds.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    let reading = Reading { spans: true, ..Reading::default() };
    Rows::kernel(unit, isa, body, Layout::new(unit.shape.k, &blocks), reading, nan)
}

/// The same for a few rows, where a vector's 16 columns outweigh what tiles waste.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    (isa == Isa::Avx512).then(|| select(unit, isa)).flatten()
}

/// The same on register tiles: to nearest even in f32, of two products or of bounded ones.
#[cfg(target_arch = "x86_64")]
pub(crate) fn select_tiles(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    let tiles = body.encode.is_none() && (body.group <= 2 || body.bounded);
    tiles.then(|| super::tiles::exact(unit, isa, body, &blocks, nan)).flatten()
}

/// What is computed of a unit, its groups of products, and its NaN.
fn body(unit: &Unit) -> Option<(Exact, Vec<Vec<usize>>, NanRule)> {
    let Some(Recipe::Generic(g)) = unit.recipe else { return None };
    // Everything that an exact sum has beside its blocks and its rounding, at the settings of Exact.
    let plain = GenericDot {
        exact: true,
        c: CPosition::With,
        flush_inputs: false,
        flush_results: false,
        product_limit: false,
        via_f16: false,
        ..g
    };
    let group = g.block.min(unit.shape.k);
    let (low, high) = (|f: &FormatSpec| f.emin() - f.fraction_bits as i32, |f: &FormatSpec| f.max().exponent + 1);
    let (last, top) = (low(&unit.a) + low(&unit.b), high(&unit.a) + high(&unit.b));
    let products = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 48;
    if plain != g || !in_f32(&unit.a) || !in_f32(&unit.b) || !products || group > MOST || unit.scale.is_some() {
        return None;
    }
    let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
    let f32_out = widths(&unit.d) == widths(&F32) && g.output_bits.is_none_or(|bits| bits >= 23);
    // No sum of multiples of f32's smallest number rounds to zero.
    let zeros = g.negative_zero || last >= -149;
    let native = f32_out && zeros && g.output_rounding == Rounding::NearestEven;
    let encode = if native { None } else { Some(general::encode(&g, &unit.d)?) };
    let body = Exact { group, bounded: last >= -48 && top <= 36, encode };
    Some((body, g.pattern.blocks(unit.shape.k, g.block), g.nan))
}

/// The recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) group: usize,
    /// Whether products are multiples of 2^-48 below 2^36, as f16's are.
    bounded: bool,
    /// How sums are rounded, if not to nearest even in f32.
    encode: Option<Encode>,
}

impl Body for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn why(&self) -> String {
        format!("exact sums of {}: f64 sums without error, rounded once", self.group)
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        let endless = any_endless(c);
        let products = k.a.iter().copied().zip(k.b);
        let sum = if k.flags & WIDE == 0 && k.a.len() <= ROOM {
            of_two(whole(k), c)
        } else if k.a.len() <= 2 {
            of_parts(pair(products), c)
        } else if self.bounded {
            of_parts(split(products, -8), c)
        } else {
            of_many(products, c)
        };
        let d = match &self.encode {
            None => each(sum, |sum| sum as f32),
            Some(encode) => encode.row::<NATIVE, N>(sum),
        };
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

/// The sum with c, rounded to odd.
#[inline(always)]
fn of_two<const N: usize>(sum: [f64; N], c: [f32; N]) -> [f64; N] {
    let (mut total, mut rest) = (sum, sum);
    for j in 0..N {
        (total[j], rest[j]) = two_sum(sum[j], c[j].into());
    }
    // Sums of narrow numbers hardly ever leave anything.
    if rest.iter().any(|r| *r != 0.0) {
        for j in 0..N {
            total[j] = odd(total[j], rest[j]);
        }
    }
    total
}

/// The sum of two parts and c, rounded to odd.
#[inline(always)]
fn of_parts<const N: usize>((high, low): ([f64; N], [f64; N]), c: [f32; N]) -> [f64; N] {
    let mut total = [0f64; N];
    for j in 0..N {
        let (sum, r) = two_sum(high[j], low[j]);
        let (sum, u) = two_sum(sum, c[j].into());
        let (v, w) = two_sum(u, r);
        let (sum, v) = two_sum(sum, v);
        // Only the sign of the rest counts, and w is below v's last place.
        total[j] = odd(sum, if v == 0.0 { w } else { v });
    }
    total
}

/// The same in f32.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn rounded<const N: usize>(parts: ([f64; N], [f64; N]), c: [f32; N]) -> [f32; N] {
    each(of_parts(parts, c), |sum| sum as f32)
}

/// The sum of products, however far apart, and c, rounded to odd.
///
/// Numbers whose bits do not overlap, from the smallest on, whose sum is that of all terms so far: each new one is added
/// to the smallest, what that leaves stays, and the sum goes on to the next (J. R. Shewchuk, Adaptive precision
/// floating-point arithmetic, 1997: Grow-Expansion). No sum leaves f64's range.
#[inline(always)]
fn of_many<'a, const N: usize>(
    products: impl Iterator<Item = (impl Lane<f32, N>, &'a [f32; N])>,
    c: [f32; N],
) -> [f64; N] {
    let (mut parts, mut count) = ([[0f64; N]; MOST + 1], 1);
    parts[0] = each(c, f64::from);
    for (a, b) in products {
        let mut sum = [0f64; N];
        for j in 0..N {
            sum[j] = f64::from(a.at(j)) * f64::from(b[j]);
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
