//! FDRDA and GFDRDA (CDNA3): products cut toward zero, sums toward minus infinity, then rounded.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::decode::{FAR, Reading, SPECIAL, in_f32};
use super::general_body::{HIGHEST, LOWEST, largest, special, sum};
use super::lanes::{Encode, Lane, ToInt, any, any_endless, each, exponent, floor, narrow_power, power, to_int};
use super::rows::{Block, Body, Rows, Side};
use super::values::Layout;
use super::wide::in_order;
use super::{Isa, limit};
use crate::accumulate::{BlockedC, OverflowBesideC, Pattern, Recipe, RoundDown};
use crate::format::{F32, FormatSpec};
use crate::gemm::kernel::Kernel;
use crate::round::Rounding;
use crate::unit::Unit;
use std::sync::Arc;

/// The kernel for both recipes, for results in f32.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let (body, blocks) = Sums::new(unit)?;
    let nan = body.r.nan;
    Rows::kernel(unit, isa, body, Layout::new(unit.shape.k, &blocks), Reading::default(), nan)
}

/// The same for a few rows.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa, rows: usize) -> Option<Arc<dyn Kernel>> {
    let (body, _) = Sums::new(unit)?;
    let few = match body.reach {
        Some(_) => [3, 3, 2],
        None if body.r.group < 8 => [1; 3],
        None => [2; 3],
    };
    (rows <= limit(isa, few)).then(|| select(unit, isa)).flatten()
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
    /// In units of the products' last place: totals below are those of which no floor but c's takes a bit, products
    /// fitting into i32. 0 where there are none.
    near: f64,
    encode: Encode,
}

impl Sums {
    /// A unit's sums, and its groups of products, every second k before the others where these are apart; none where
    /// they may not fit f64.
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
        // Halves, where there are two, one after the other within each group: the larger one, that of its first k,
        // first.
        let mut blocks = Pattern::Runs.blocks(k, group);
        if grouped.is_some() {
            for block in &mut blocks {
                let first = block[0] % 2;
                block.sort_by_key(|k| (k % 2 != first, *k));
            }
        }
        let narrow = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 24
            && r.frac_bits <= 28
            && (group as u64) << (r.frac_bits + 2) < 1 << 31;
        // Such a c is below 2^(sum_bits + 1) units, and zero or subnormal only below the products' exponents.
        let kept = r.total_bits.map_or(r.sum_bits, |bits| bits.min(r.sum_bits)) as i32;
        let whole_c = r.frac_bits >= 23 && unit.c.emin() <= LOWEST.into();
        let reached = grouped.is_none_or(|reach| (0..=36).contains(&reach));
        let near = power(kept + 1) - power(r.frac_bits as i32 + 2) * group as f64;
        let near = if narrow && whole_c && reached { near.max(0.0) } else { 0.0 };
        let encode = Encode::new(&F32, Rounding::NearestEven, None, true)?;
        Some((Self { r, c_emin: unit.c.emin(), reach: grouped, narrow, near, encode }, blocks))
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
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        c
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        if let Some(d) = self.near::<NATIVE, N, A>(k, c) {
            return d;
        }
        // Where there are infinities, they alone may decide.
        let endless = any_endless(c) || k.flags & SPECIAL != 0;
        let decide = || special(k, c, [0.0; N], true);
        let mut decided = if endless { decide() } else { [0.0; N] };
        if endless && !any(each(decided, f32::is_finite)) {
            return decided;
        }
        let f = self.r.frac_bits as i32;
        let (e_dot, products) = if self.reach.is_some() {
            let half = k.a.len().div_ceil(2);
            let (even, odd) = halves(k, half);
            self.join::<NATIVE, N>(self.products::<NATIVE, N, A>(&even), self.products::<NATIVE, N, A>(&odd))
        } else {
            self.products::<NATIVE, N, A>(k)
        };
        let (reach, c_emin, sum_bits) = (self.reach.unwrap_or(1 << 20), self.c_emin, self.r.sum_bits as i32);
        let (mut total, mut tops) = ([0f64; N], [0i32; N]);
        for j in 0..N {
            let finite = if c[j].is_finite() { c[j] } else { 0.0 };
            let e_c = exponent(finite.into()).max(c_emin);
            let e = e_dot[j].max(e_c);
            let term = if e_c >= e - reach { f64::from(finite) } else { 0.0 };
            let units = products[j] * power((sum_bits - f + e_dot[j] - e).max(-900));
            let c_units = to_int::<NATIVE>(term * power(f - e), ToInt::Down) * power(sum_bits - f);
            total[j] = (to_int::<NATIVE>(units, ToInt::Down) + c_units) * power(e - sum_bits);
            tops[j] = e;
        }
        let d = self.finish::<NATIVE, N>(total);
        if !endless && any(each(tops, |e| e > 120)) {
            decided = decide();
        }
        for j in 0..N {
            decided[j] = if decided[j].is_finite() { d[j] } else { decided[j] };
        }
        decided
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, _: [f32; N], d: [f32; N]) -> [f32; N] {
        d
    }
}

/// The products of even k and of odd k.
#[inline(always)]
fn halves<'a, const N: usize, A: Side<N>>(k: &Block<'a, N, A>, half: usize) -> (Block<'a, N, A>, Block<'a, N, A>) {
    let (a, b) = (k.a.split_at(half), k.b.split_at(half));
    let (ae, be) = (k.a_exponents.split_at(half), k.b_exponents.split_at(half));
    (
        Block { a: a.0, b: b.0, a_exponents: ae.0, b_exponents: be.0, ..*k },
        Block { a: a.1, b: b.1, a_exponents: ae.1, b_exponents: be.1, ..*k },
    )
}

impl Sums {
    /// (3) to (7) for ordinary operands and totals that are `near`: an integer in units of `2^(e_dot - F)`, rounded
    /// once.
    #[inline(always)]
    fn near<const NATIVE: bool, const N: usize, A: Side<N>>(
        &self,
        k: &Block<'_, N, A>,
        c: [f32; N],
    ) -> Option<[f32; N]> {
        if self.near == 0.0 || k.flags & (SPECIAL | FAR) != 0 {
            return None;
        }
        let (mut term, f) = (c, self.r.frac_bits as i16);
        let (e, mut total) = if let Some(reach) = self.reach {
            let (even, odd) = halves(k, k.a.len().div_ceil(2));
            let (even, odd) = (self.integers(&even)?, self.integers(&odd)?);
            let (mut e, mut total) = (even.0, [0f64; N]);
            for j in 0..N {
                e[j] = even.0[j].max(odd.0[j]);
                let part =
                    |(of, sum): (i16, f64)| floor::<NATIVE>(sum * f64::from(narrow_power((of - e[j]).max(-126))));
                total[j] = part((even.0[j], even.1[j])) + part((odd.0[j], odd.1[j]));
                term[j] = if c[j].abs() < narrow_power(e[j] - reach as i16) { 0.0 } else { c[j] };
            }
            (e, total)
        } else {
            self.integers(k)?
        };
        let (mut d, mut near) = ([0f32; N], true);
        for j in 0..N {
            total[j] += floor::<NATIVE>(f64::from(term[j]) * f64::from(narrow_power(f - e[j])));
            d[j] = total[j] as f32 * narrow_power(e[j] - f);
        }
        for total in total {
            near &= total.abs() < self.near;
        }
        near.then_some(d)
    }

    /// (3) and (4) The products' largest exponents, within the window, and their sums in units of `2^(e - F)`.
    #[inline(always)]
    fn integers<const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>) -> Option<([i16; N], [f64; N])> {
        let (e, f) = (largest(k), self.r.frac_bits as i16);
        let outside = e.iter().fold(0, |outside, e| outside | (e - LOWEST) | (HIGHEST - e));
        (outside >= 0).then(|| (e, each(sum(k, &each(e, |e| narrow_power(f - e))), f64::from)))
    }

    /// (3) and (4) Products cut off below their largest exponent, summed in units of `2^(e_dot - F)`.
    #[inline(always)]
    fn products<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>) -> ([i32; N], [f64; N]) {
        let f = self.r.frac_bits as i32;
        let e = each(largest(k), i32::from);
        let mut total = [0f64; N];
        let outside = any(each(e, |e| !(i32::from(LOWEST)..=i32::from(HIGHEST)).contains(&e)));
        if self.narrow && k.flags & (SPECIAL | FAR) == 0 && !outside {
            let scale = each(e, |e| f32::from_bits(((127 + f - e) << 23) as u32));
            return (e, each(sum(k, &scale), f64::from));
        }
        let scale = each(e, |e| power(f - e.max(-900)));
        for (b, a) in k.b.iter().zip(k.a) {
            in_order();
            for j in 0..N {
                total[j] += to_int::<NATIVE>(f64::from(a.at(j)) * f64::from(b[j]) * scale[j], ToInt::TowardZero);
            }
        }
        (e, total)
    }

    /// Two halves against the larger exponent.
    #[inline(always)]
    fn join<const NATIVE: bool, const N: usize>(
        &self,
        even: ([i32; N], [f64; N]),
        odd: ([i32; N], [f64; N]),
    ) -> ([i32; N], [f64; N]) {
        let (mut e, mut total) = ([0; N], [0f64; N]);
        for j in 0..N {
            e[j] = even.0[j].max(odd.0[j]);
            let floor =
                |(e_half, sum): (i32, f64)| to_int::<NATIVE>(sum * power((e_half - e[j]).max(-900)), ToInt::Down);
            total[j] = floor((even.0[j], even.1[j])) + floor((odd.0[j], odd.1[j]));
        }
        (e, total)
    }

    /// (6) and (7) The total floored at its own fraction bits, then rounded.
    #[inline(always)]
    fn finish<const NATIVE: bool, const N: usize>(&self, mut total: [f64; N]) -> [f32; N] {
        if let Some(bits) = self.r.total_bits {
            let emin = self.encode.emin;
            for v in &mut total {
                let quantum = exponent(*v).max(emin) - bits as i32;
                *v = to_int::<NATIVE>(*v * power(-quantum), ToInt::Down) * power(quantum);
            }
        }
        self.encode.row::<NATIVE, N>(total)
    }
}
