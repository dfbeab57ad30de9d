//! Exact(G) (CDNA1): the exact sum of a few products and c, rounded once. Error-free sums in f64.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Isa;
use super::decode::{Reading, SPECIAL, WIDE, in_f32};
use super::general_body::special;
use super::lanes::{Lane, any_endless, each, odd, power, two_sum};
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

/// The kernel for exact sums in f32, to nearest even: any two products, or up to 64 of formats whose
/// products are multiples of 2^-48 below 2^36, as f16's are.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    let reading = Reading { spans: true, ..Reading::default() };
    Rows::kernel(unit, isa, body, Layout::new(unit.shape.k, &blocks), reading, nan)
}

/// The same for a few rows, where a vector's 16 columns outweigh what tiles waste.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    (isa == Isa::Avx512).then(|| select(unit, isa)).flatten()
}

/// The same on register tiles.
#[cfg(target_arch = "x86_64")]
pub(crate) fn select_tiles(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks, nan) = body(unit)?;
    super::tiles::exact(unit, isa, body, &blocks, nan)
}

/// What is computed of a unit, its groups of products, and its NaN.
fn body(unit: &Unit) -> Option<(Exact, Vec<Vec<usize>>, NanRule)> {
    let Some(Recipe::Generic(g)) = unit.recipe else { return None };
    let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
    let f32_out = widths(&unit.d) == widths(&F32);
    // Everything that an exact sum has beside its blocks, at the settings of Exact.
    let plain = GenericDot {
        exact: true,
        output_rounding: Rounding::NearestEven,
        output_bits: g.output_bits.filter(|bits| *bits < 23),
        negative_zero: true,
        c: CPosition::With,
        flush_inputs: false,
        flush_results: false,
        product_limit: false,
        via_f16: false,
        ..g
    };
    let group = g.block.min(unit.shape.k);
    let (low, high) = (|f: &FormatSpec| f.emin() - f.fraction_bits as i32, |f: &FormatSpec| f.max().exponent + 1);
    let bounded = low(&unit.a) + low(&unit.b) >= -48 && high(&unit.a) + high(&unit.b) <= 36;
    let products = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 48;
    let fits = in_f32(&unit.a) && in_f32(&unit.b) && products && (group <= 2 || (bounded && group <= 64));
    if !f32_out || plain != g || g.output_bits.is_some_and(|bits| bits < 23) || !fits || unit.scale.is_some() {
        return None;
    }
    Some((Exact { group }, g.pattern.blocks(unit.shape.k, g.block), g.nan))
}

/// The recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) group: usize,
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
        let d = if k.flags & WIDE == 0 {
            rounded_two(whole(k), c)
        } else if k.a.len() <= 2 {
            rounded(pair(k.a.iter().copied().zip(k.b)), c)
        } else {
            rounded(split(k.a.iter().copied().zip(k.b), -8), c)
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

#[inline(always)]
fn rounded_two<const N: usize>(sum: [f64; N], c: [f32; N]) -> [f32; N] {
    let (mut total, mut rest, mut d) = (sum, sum, [0f32; N]);
    for j in 0..N {
        (total[j], rest[j]) = two_sum(sum[j], c[j].into());
    }
    // Sums of narrow numbers hardly ever leave anything.
    if rest.iter().all(|r| *r == 0.0) {
        return each(total, |total| total as f32);
    }
    for j in 0..N {
        d[j] = odd(total[j], rest[j]);
    }
    d
}

#[inline(always)]
pub(super) fn rounded<const N: usize>((high, low): ([f64; N], [f64; N]), c: [f32; N]) -> [f32; N] {
    let mut d = [0f32; N];
    for j in 0..N {
        let (sum, r) = two_sum(high[j], low[j]);
        let (sum, u) = two_sum(sum, c[j].into());
        let (v, w) = two_sum(u, r);
        let (sum, v) = two_sum(sum, v);
        // Only the sign of the rest counts, and w is below v's last place.
        d[j] = odd(sum, if v == 0.0 { w } else { v });
    }
    d
}
