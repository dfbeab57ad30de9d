//! SFMA of formats that f32 holds, rounded in any way to any of them: `d = round(a_k b_k + d)` for k in order, by
//! products and sums of f64. Where the machine's own FMA does it that is faster (`sfma`, `fma`).

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Isa;
use super::decode::{Reading, in_f32};
use super::lanes::{Encode, Lane, ToInt, each, odd, two_sum};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::in_order;
use crate::accumulate::Recipe;
use crate::gemm::kernel::Kernel;
use crate::unit::Unit;
use std::sync::Arc;

/// The kernel, where f64 holds every product and f32 every operand and result.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Sequential(s)) = unit.recipe else { return None };
    // c becomes a number of d's format first, which `Rows::kernel` asks it to be.
    if unit.scale.is_some() || ![&unit.a, &unit.b, &unit.d].into_iter().all(in_f32) {
        return None;
    }
    let body = Chain { encode: Encode::new(&unit.d, s.rounding, None, true)? };
    let layout = Layout::runs(unit.shape.k, unit.shape.k);
    Rows::kernel(unit, isa, body, layout, Reading::default(), s.nan)
}

/// The recipe.
#[derive(Debug)]
struct Chain {
    encode: Encode,
}

impl Body for Chain {
    fn name(&self) -> &'static str {
        "fma chain, f64 lanes"
    }

    fn why(&self) -> String {
        "every step is one IEEE fused multiply-add, in order, by products and sums of f64".into()
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        // A loop for each rounding, which must not choose in it; and a copy, for what is behind a reference was
        // gathered, lane by lane.
        let encode = self.encode;
        match encode.rounding {
            ToInt::NearestEven => chain::<NATIVE, N, A>(k, c, encode, ToInt::NearestEven),
            ToInt::NearestOdd => chain::<NATIVE, N, A>(k, c, encode, ToInt::NearestOdd),
            ToInt::TowardZero => chain::<NATIVE, N, A>(k, c, encode, ToInt::TowardZero),
            ToInt::Down => chain::<NATIVE, N, A>(k, c, encode, ToInt::Down),
            ToInt::Up => chain::<NATIVE, N, A>(k, c, encode, ToInt::Up),
            ToInt::Above(bounds) => chain::<NATIVE, N, A>(k, c, encode, ToInt::Above(bounds)),
        }
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, _: [f32; N], d: [f32; N]) -> [f32; N] {
        d
    }
}

#[inline(always)]
fn chain<const NATIVE: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    c: [f32; N],
    encode: Encode,
    how: ToInt,
) -> [f32; N] {
    let mut d = each(c, f64::from);
    for (a, b) in k.a.iter().zip(k.b) {
        in_order();
        for j in 0..N {
            let product = f64::from(a.at(j)) * f64::from(b[j]);
            let (ieee, rest) = two_sum(product, d[j]);
            let sum = odd(ieee, rest);
            // Rounding down, an exact zero is -0, unless both terms are +0.
            let negative = (product.to_bits() | d[j].to_bits()) != 0;
            let sum = if (how == ToInt::Down) & negative & (ieee == 0.0) { -0.0 } else { sum };
            let rounded = encode.apply::<NATIVE>(sum, how);
            // Infinities and NaN are IEEE's.
            d[j] = if ieee.abs() < f64::INFINITY { rounded } else { ieee };
        }
    }
    each(d, |d| d as f32)
}
