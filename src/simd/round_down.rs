//! FDRDA and GFDRDA (CDNA3): products cut toward zero, sums toward minus infinity, then rounded.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::Isa;
use super::general_body::{HIGHEST, LOWEST, largest, special, sum};
use super::lanes::{Encode, ToInt, any, exponent, power, to_int};
use super::rows::{Block, Body, Rows};
use super::values::{FAR, LOW, Layout, NR, Reading, SPECIAL, in_f32};
use super::wide::in_order;
use crate::accumulate::{BlockedC, OverflowBesideC, Pattern, Recipe, RoundDown};
use crate::format::{F32, FormatSpec};
use crate::gemm::kernel::Kernel;
use crate::unit::Unit;
use std::sync::Arc;

/// The kernel for both recipes, for results in f32.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks) = Sums::new(unit)?;
    let nan = body.r.nan;
    Rows::kernel(unit, isa, body, Layout::new(unit.shape.k, &blocks), Reading::default(), nan)
}

/// The recipe.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) r: RoundDown,
    c_emin: i32,
    /// GFDRDA: how far below the products c still counts.
    pub(super) reach: Option<i32>,
    /// Whether sums of products fit into i32.
    narrow: bool,
    encode: Encode,
}

impl Sums {
    /// A unit's sums, and its groups of products, even k before odd k where these are apart; none where they may not
    /// fit f64.
    pub(super) fn new(unit: &Unit) -> Option<(Self, Vec<Vec<usize>>)> {
        let (r, grouped) = match unit.recipe {
            Some(Recipe::RoundDown(r)) => (r, None),
            Some(Recipe::GroupedRoundDown(g)) if g.special_c == BlockedC::Propagates => (g.base, Some(g.c_reach)),
            _ => return None,
        };
        let (k, group) = (unit.shape.k, r.group.min(unit.shape.k));
        let widths = |f: &FormatSpec| (f.exponent_bits, f.fraction_bits, f.bias, f.ignored_low_bits);
        let f32_out = widths(&unit.d) == widths(&F32) && (unit.c.emin() == unit.d.emin() || group == k);
        let exact = r.frac_bits <= r.sum_bits && r.sum_bits + group.ilog2() <= 44 && in_f32(&unit.a) && in_f32(&unit.b);
        let known = r.overflow_beside_c == OverflowBesideC::Infinity && unit.scale.is_none();
        if !f32_out || !exact || !known || grouped.is_some_and(|reach| reach.abs() > 1000) {
            return None;
        }
        // Halves, where there are two, one after the other within each group.
        let mut blocks = Pattern::Runs.blocks(k, group);
        if grouped.is_some() {
            blocks.iter_mut().for_each(|block| block.sort_by_key(|k| (k % 2, *k)));
        }
        let narrow = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 24
            && r.frac_bits <= 28
            && (group as u64) << (r.frac_bits + 2) < 1 << 31;
        let encode = Encode {
            rounding: ToInt::NearestEven,
            bits: 23,
            emin: -126,
            over: [f64::INFINITY, f64::NEG_INFINITY],
            limit: power(128),
            zero: -0.0,
            least: 0.0,
        };
        Some((Self { r, c_emin: unit.c.emin(), reach: grouped, narrow, encode }, blocks))
    }
}

impl Body for Sums {
    fn name(&self) -> &'static str {
        if self.reach.is_some() { "round-down-grouped" } else { "round-down" }
    }

    fn why(&self) -> String {
        format!("sums of up to {} bits fit f64", self.r.sum_bits + 8)
    }

    #[inline(always)]
    fn begin(&self, c: [f32; NR]) -> [f32; NR] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool>(&self, k: &Block<'_>, c: [f32; NR]) -> [f32; NR] {
        let f = self.r.frac_bits as i32;
        let (e_dot, products) = if self.reach.is_some() {
            let half = k.a.len().div_ceil(2);
            let (even, odd) = halves(k, half);
            self.join::<NATIVE>(self.products::<NATIVE>(&even), self.products::<NATIVE>(&odd))
        } else {
            self.products::<NATIVE>(k)
        };
        let (reach, c_emin, sum_bits) = (self.reach.unwrap_or(1 << 20), self.c_emin, self.r.sum_bits as i32);
        let (mut total, mut tops) = ([0f64; NR], [0i32; NR]);
        for j in 0..NR {
            let finite = if c[j].is_finite() { c[j] } else { 0.0 };
            let e_c = exponent(finite.into()).max(c_emin);
            let e = e_dot[j].max(e_c);
            let term = if e_c >= e - reach { f64::from(finite) } else { 0.0 };
            let units = products[j] * power(sum_bits - f + e_dot[j].max(-900) - e);
            let c_units = to_int::<NATIVE>(term * power(f - e), ToInt::Down) * power(sum_bits - f);
            total[j] = (to_int::<NATIVE>(units, ToInt::Down) + c_units) * power(e - sum_bits);
            tops[j] = e;
        }
        let top = tops.into_iter().fold(i32::from(LOW), i32::max);
        let d = self.finish::<NATIVE>(total);
        let endless = any(c.map(|c| !c.is_finite()));
        if k.flags & SPECIAL != 0 || top > 120 || endless { special(k, c, d, true) } else { d }
    }

    #[inline(always)]
    fn end<const NATIVE: bool>(&self, _: [f32; NR], d: [f32; NR]) -> [f32; NR] {
        d
    }
}

/// The products of even k and of odd k.
#[inline(always)]
fn halves<'a>(k: &Block<'a>, half: usize) -> (Block<'a>, Block<'a>) {
    let (a, b) = (k.a.split_at(half), k.b.split_at(half));
    let (ae, be) = (k.a_exponents.split_at(half), k.b_exponents.split_at(half));
    (
        Block { a: a.0, b: b.0, a_exponents: ae.0, b_exponents: be.0, ..*k },
        Block { a: a.1, b: b.1, a_exponents: ae.1, b_exponents: be.1, ..*k },
    )
}

impl Sums {
    /// (3) and (4) Products cut off below their largest exponent, summed in units of `2^(e_dot - F)`.
    #[inline(always)]
    fn products<const NATIVE: bool>(&self, k: &Block<'_>) -> ([i32; NR], [f64; NR]) {
        let f = self.r.frac_bits as i32;
        let e = largest(k).map(i32::from);
        let mut total = [0f64; NR];
        let outside = any(e.map(|e| !(LOWEST..=HIGHEST).contains(&e)));
        if self.narrow && k.flags & (SPECIAL | FAR) == 0 && !outside {
            let scale = e.map(|e| f32::from_bits(((127 + f - e) << 23) as u32));
            return (e, sum(k, &scale).map(f64::from));
        }
        let scale = e.map(|e| power(f - e.max(-900)));
        for (b, &a) in k.b.iter().zip(k.a) {
            in_order();
            for j in 0..NR {
                total[j] += to_int::<NATIVE>(f64::from(a) * f64::from(b[j]) * scale[j], ToInt::TowardZero);
            }
        }
        (e, total)
    }

    /// Two halves against the larger exponent.
    #[inline(always)]
    fn join<const NATIVE: bool>(
        &self,
        even: ([i32; NR], [f64; NR]),
        odd: ([i32; NR], [f64; NR]),
    ) -> ([i32; NR], [f64; NR]) {
        let (mut e, mut total) = ([0; NR], [0f64; NR]);
        for j in 0..NR {
            e[j] = even.0[j].max(odd.0[j]);
            let floor =
                |(e_half, sum): (i32, f64)| to_int::<NATIVE>(sum * power((e_half - e[j]).max(-900)), ToInt::Down);
            total[j] = floor((even.0[j], even.1[j])) + floor((odd.0[j], odd.1[j]));
        }
        (e, total)
    }

    /// (6) and (7) The total floored at its own fraction bits, then rounded.
    #[inline(always)]
    fn finish<const NATIVE: bool>(&self, mut total: [f64; NR]) -> [f32; NR] {
        if let Some(bits) = self.r.total_bits {
            let emin = self.encode.emin;
            for v in &mut total {
                let quantum = exponent(*v).max(emin) - bits as i32;
                *v = to_int::<NATIVE>(*v * power(-quantum), ToInt::Down) * power(quantum);
            }
        }
        self.encode.row::<NATIVE, NR>(total)
    }
}
