//! f16 `mma.m8n8k4` in software: f32 sums whose products f32 holds, so that an FMA is a product and a sum.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Isa;
use super::decode::{Reading, in_f32};
use super::lanes::{Encode, Lane, each};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::in_order;
use crate::accumulate::Recipe;
use crate::format::{F32, FormatSpec};
use crate::gemm::kernel::Kernel;
use crate::round::Rounding;
use crate::unit::Unit;
use std::sync::Arc;

/// The kernel for operands whose products are exact in f32.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Software(s)) = unit.recipe else { return None };
    let low = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
    let high = |f: &FormatSpec| f.max().exponent + 1;
    let exact = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 24
        && low(&unit.a) + low(&unit.b) >= -126
        && high(&unit.a) + high(&unit.b) <= 127;
    let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
    let chain = unit.d.fraction_bits > 10;
    if !exact
        || !in_f32(&unit.a)
        || !in_f32(&unit.b)
        || unit.scale.is_some()
        || (chain && widths(&unit.d) != widths(&F32))
    {
        return None;
    }
    let encode = Encode::new(&unit.d, Rounding::NearestEven, None, true)?;
    let layout = Layout::runs(unit.shape.k, unit.shape.k);
    Rows::kernel(unit, isa, Software { chain, encode }, layout, Reading::default(), s.nan)
}

/// The recipe.
#[derive(Debug)]
struct Software {
    /// f32 results: a chain from +0, then c; else pairs onto c.
    chain: bool,
    encode: Encode,
}

impl Body for Software {
    fn name(&self) -> &'static str {
        "software m8n8k4"
    }

    fn why(&self) -> String {
        "f32 holds the products, so the machine's f32 sums are the unit's".into()
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        if self.chain {
            return sum(c, chain(k.a, k.b, [0.0; N]));
        }
        let mut d = c;
        for (a, b) in k.a.chunks(2).zip(k.b.chunks(2)) {
            let mut first = b[0];
            for j in 0..N {
                first[j] *= a[0].at(j);
            }
            d = sum(d, chain(&a[1..], &b[1..], first));
        }
        let rounded = self.encode.row::<NATIVE, N>(each(d, f64::from));
        for j in 0..N {
            d[j] = if d[j].is_finite() { rounded[j] } else { d[j] };
        }
        d
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, _: [f32; N], d: [f32; N]) -> [f32; N] {
        d
    }
}

/// `t = fma(a, b, t)` over k.
#[inline(always)]
fn chain<const N: usize>(a: &[impl Lane<f32, N>], b: &[[f32; N]], mut t: [f32; N]) -> [f32; N] {
    for (b, a) in b.iter().zip(a) {
        in_order();
        for j in 0..N {
            t[j] += a.at(j) * b[j];
        }
    }
    t
}

#[inline(always)]
fn sum<const N: usize>(x: [f32; N], y: [f32; N]) -> [f32; N] {
    let mut d = x;
    for j in 0..N {
        d[j] += y[j];
    }
    d
}
