//! GPS (CDNA2): the machine's own f32 products and sums, in the unit's order, without subnormals.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::decode::{FAR, Reading, in_f32};
use super::lanes::{Lane, each};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::in_order;
use super::{Isa, limit};
use crate::accumulate::Recipe;
use crate::format::{F32, FormatSpec};
use crate::gemm::kernel::Kernel;
use crate::special::NanRule;
use crate::unit::Unit;
use std::sync::Arc;

/// Products of a group, at most.
const MOST: usize = 64;

/// The kernel for pairwise sums in f32.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, reading, nan) = body(unit)?;
    Rows::kernel(unit, isa, body, Layout::runs(unit.shape.k, unit.shape.k), reading, nan)
}

/// The same for a few rows.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa, rows: usize) -> Option<Arc<dyn Kernel>> {
    let (body, ..) = body(unit)?;
    let few = if body.group < 4 { [3, 3, 1] } else { [4, 6, 2] };
    (rows <= limit(isa, few)).then(|| select(unit, isa)).flatten()
}

/// The same on register tiles, of whole groups of 1, 2, 4 or 8.
#[cfg(target_arch = "x86_64")]
pub(crate) fn select_tiles(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, reading, nan) = body(unit)?;
    super::tiles::pairwise(unit, isa, body, reading, nan)
}

/// What is computed of a unit, how its operands are read, and its NaN.
fn body(unit: &Unit) -> Option<(Pairwise, Reading, NanRule)> {
    let Some(Recipe::Pairwise(p)) = unit.recipe else { return None };
    let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
    let is_f32 = widths(&unit.d) == widths(&F32);
    let group = p.group.min(unit.shape.k);
    if !is_f32 || group > MOST || !in_f32(&unit.a) || !in_f32(&unit.b) || unit.scale.is_some() {
        return None;
    }
    let body = Pairwise {
        group,
        even: matches!(group, 1 | 2 | 4 | 8) && unit.shape.k.is_multiple_of(group),
        flush_inputs: p.flush_inputs,
        flush_results: p.flush_results,
        c_normal: super::decode::f32_power(unit.c.emin()),
        // Products' last places and both magnitudes stay far inside f32's range.
        bounded: unit.a.fraction_bits + unit.b.fraction_bits <= 22,
    };
    let reading = Reading { flush: p.flush_inputs, positive_zero: p.flush_inputs, ..Reading::default() };
    Some((body, reading, p.nan))
}

/// The recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairwise {
    pub(super) group: usize,
    /// Whether that is 1, 2, 4 or 8, and all groups are whole.
    pub(super) even: bool,
    pub(super) flush_inputs: bool,
    pub(super) flush_results: bool,
    /// c's smallest normal number.
    c_normal: f32,
    pub(super) bounded: bool,
}

/// A c of at least this magnitude is a multiple of 2^-126, as are products of operands that are not
/// far: then no sum is subnormal, however it cancels.
pub(super) const SAFE: f32 = f32::from_bits((127 - 100) << 23);

impl Body for Pairwise {
    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn why(&self) -> String {
        format!("pairwise sums of {} in f32, the machine's own arithmetic", self.group)
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        if !self.flush_inputs {
            return c;
        }
        // NaN stays: it is not below.
        each(c, |c| if c.abs() < self.c_normal { 0.0 } else { c })
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        let mut small = false;
        for c in c {
            small |= (c.abs() < SAFE) & (c != 0.0);
        }
        let safe = self.bounded && k.flags & FAR == 0 && !small;
        if !self.flush_results || safe { self.groups::<false, N, A>(k, c) } else { self.groups::<true, N, A>(k, c) }
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, _: [f32; N], d: [f32; N]) -> [f32; N] {
        d
    }
}

impl Pairwise {
    #[inline(always)]
    fn groups<const FLUSH: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        match self.group {
            _ if !self.even => uneven::<FLUSH, N, A>(k, c, self.group),
            1 => chain::<1, FLUSH, N, A>(k, c),
            2 => chain::<2, FLUSH, N, A>(k, c),
            4 => chain::<4, FLUSH, N, A>(k, c),
            _ => chain::<8, FLUSH, N, A>(k, c),
        }
    }
}

/// The same for groups of any size, the last of which may be smaller. Halves of the next power of two are pairs of
/// pairs, where one that has no neighbour waits.
#[inline(always)]
fn uneven<const FLUSH: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    mut d: [f32; N],
    group: usize,
) -> [f32; N] {
    for (a, b) in k.a.chunks(group).zip(k.b.chunks(group)) {
        let (mut sums, mut count) = ([[0f32; N]; MOST], a.len());
        for i in 0..count {
            in_order();
            for j in 0..N {
                let (a, b) = (a[i].at(j), b[i][j]);
                sums[i][j] = flush::<FLUSH>(a * if FLUSH { unless_flushed(b, a) } else { b });
            }
        }
        while count > 1 {
            for i in 0..count / 2 {
                in_order();
                for j in 0..N {
                    sums[i][j] = flush::<FLUSH>(sums[2 * i][j] + sums[2 * i + 1][j]);
                }
            }
            if count % 2 == 1 {
                sums[count / 2] = sums[count - 1];
            }
            count = count.div_ceil(2);
        }
        for j in 0..N {
            d[j] = flush::<FLUSH>(d[j] + sums[0][j]);
        }
    }
    d
}

/// d = d + group, group by group.
#[inline(always)]
fn chain<const G: usize, const FLUSH: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    mut d: [f32; N],
) -> [f32; N] {
    for (a, b) in k.a.as_chunks::<G>().0.iter().zip(k.b.as_chunks::<G>().0) {
        in_order();
        let mut products = [[0f32; N]; G];
        for i in 0..G {
            for j in 0..N {
                let (a, b) = (a[i].at(j), b[i][j]);
                products[i][j] = flush::<FLUSH>(a * if FLUSH { unless_flushed(b, a) } else { b });
            }
        }
        let mut width = G;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                for j in 0..N {
                    products[i][j] = flush::<FLUSH>(products[2 * i][j] + products[2 * i + 1][j]);
                }
            }
        }
        for j in 0..N {
            d[j] = flush::<FLUSH>(d[j] + products[0][j]);
        }
    }
    d
}

/// `x`, or a zero of its sign where the product with `y` will be flushed: making a subnormal number takes processors a
/// hundred cycles.
#[inline(always)]
fn unless_flushed(x: f32, y: f32) -> f32 {
    if x.abs().to_bits() < flushed_beside(y) { 0f32.copysign(x) } else { x }
}

/// Products with magnitudes whose codes are below this are flushed: nearly all that are. Codes of magnitudes are their
/// logarithms plus 127, too small by less than 0.09.
#[inline(always)]
pub(super) fn flushed_beside(x: f32) -> u32 {
    /// Of a product of 2^-127, which is flushed even if it is 2^0.18 times as large.
    const LEAST: u32 = 127 << 23;
    LEAST.saturating_sub(x.abs().to_bits())
}

/// A subnormal result is a zero of its sign.
#[inline(always)]
fn flush<const FLUSH: bool>(x: f32) -> f32 {
    if FLUSH && x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}
