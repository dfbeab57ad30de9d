//! SFMA where there is no FMA instruction: `d = RN(a b + d)` for k in order, in f32 or f64, by products and sums of
//! f64.
//!
//! Positions go one of three ways, the first that their numbers' exponents prove right:
//! - *plain*: products need no rounding, so that an FMA is a multiplication and an addition;
//! - *quick*: a few operations that are right unless a sum lies next to the middle of two numbers. A block of positions
//!   in which one may is done again;
//! - *defined*: FMA by FMA, whatever the numbers.

use super::buffer::Buffer;
use super::lanes::{exponent, odd, power, two_sum};
use super::wide::in_order;
use super::{Isa, Short};
use crate::accumulate::Recipe;
use crate::format::{F32, F64, FormatSpec};
use crate::gemm::kernel::{Exact, Kernel, Lanes, Line, Panel};
use crate::round::Rounding;
use crate::unit::Unit;
use core::fmt::Debug;
use core::marker::PhantomData;
use core::ops::Range;
use std::sync::Arc;

/// Columns that are in hand at once, with one row.
const NR: usize = 8;
/// Positions of K of which a panel's bounds are known.
const DEPTH: usize = 128;

/// The kernel for chains in f32 and f64 to nearest even.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Sequential(s)) = unit.recipe else { return None };
    if isa != Isa::Portable || s.rounding != Rounding::NearestEven || unit.scale.is_some() {
        return None;
    }
    let (nan, step) = (unit.d.nan_code(s.nan)?, unit.shape.k);
    let all =
        |g: FormatSpec| [unit.a, unit.b, unit.c, unit.d].into_iter().all(|f| FormatSpec { name: g.name, ..f } == g);
    if all(F32) {
        return Some(Arc::new(Chain::<f32> { step, nan: nan as u32, real: PhantomData }));
    }
    all(F64).then(|| Arc::new(Chain::<f64> { step, nan, real: PhantomData }) as Arc<dyn Kernel>)
}

/// Bounds of some numbers: below `2^top`, multiples of `2^last`, of at most `bits` bits.
#[derive(Clone, Copy, Debug)]
struct Span {
    top: i32,
    last: i32,
    bits: i32,
}

impl Span {
    fn of<'a>(values: impl Iterator<Item = &'a f64>) -> Self {
        // Of zeros alone: products are exact, and so small that nothing else matters.
        let mut span = Self { top: -10_000, last: 10_000, bits: 0 };
        for x in values.filter(|x| **x != 0.0) {
            // Infinities and NaN are beyond all bounds.
            let (e, fraction) = (exponent(*x), x.to_bits() | 1 << 52);
            let (top, last) = (e + 1, e.max(-1022) - 52 + fraction.trailing_zeros() as i32);
            span.top = span.top.max(top);
            span.last = span.last.min(last);
            span.bits = span.bits.max(53 - fraction.trailing_zeros() as i32);
        }
        span
    }
}

/// f32 or f64; its numbers are kept as f64.
trait Real: Copy + Debug + Send + Sync + 'static {
    /// A state's code.
    type Code: Copy + Into<u64> + Debug + Send + Sync;
    /// Bits of a significand, exponent of the least number, and that from which all are infinite.
    const BITS: i32;
    const LAST: i32;
    const TOP: i32;
    /// Numbers that an operand is packed as: itself, and parts of it.
    const PARTS: usize;
    /// Positions in a quick block.
    const BLOCK: usize;

    fn states(lanes: Lanes<'_>) -> &mut [Self::Code];
    fn value(code: u64) -> f64;
    fn code(value: f64) -> Self::Code;
    /// The number nearest to `a b + d`.
    fn fma(a: f64, b: f64, d: f64) -> f64;
    /// The number nearest to `p + d`, both of this type.
    fn sum(p: f64, d: f64) -> f64;
    /// An operand's part, among numbers below `2^top`.
    fn part(x: f64, part: usize, top: i32) -> f64;
    /// Whether the quick way is right for products of such numbers.
    fn is_quick(a: &Span, b: &Span) -> bool;
    /// A block's states, products being below `2^top`; none where they may be wrong.
    fn quick(a: &[f64], b: &[[f64; NR]], d: &[f64; NR], top: i32) -> Option<[f64; NR]>;
}

impl Real for f32 {
    type Code = u32;
    const BITS: i32 = 24;
    const LAST: i32 = -149;
    const TOP: i32 = 128;
    const PARTS: usize = 1;
    const BLOCK: usize = DEPTH;

    fn states(lanes: Lanes<'_>) -> &mut [u32] {
        let Lanes::Narrow(state) = lanes else { unreachable!("states are as wide as d") };
        state
    }

    #[inline(always)]
    fn value(code: u64) -> f64 {
        Self::from_bits(code as u32).into()
    }

    #[inline(always)]
    fn code(value: f64) -> u32 {
        (value as Self).to_bits()
    }

    /// Through f64, where the product is exact, and a rounding to odd.
    #[inline(always)]
    fn fma(a: f64, b: f64, d: f64) -> f64 {
        let (sum, rest) = two_sum(a * b, d);
        let rounded = odd(sum, rest) as Self;
        f64::from(if sum.is_finite() { rounded } else { sum as Self })
    }

    #[inline(always)]
    fn sum(p: f64, d: f64) -> f64 {
        f64::from((p + d) as Self)
    }

    #[inline(always)]
    fn part(x: f64, _: usize, _: i32) -> f64 {
        x
    }

    /// Where f32 rounds all sums to 24 bits: they are multiples of 2^-149, so that those that are subnormal need no
    /// rounding, and no product is half of the last place of the largest numbers, so that none overflows.
    fn is_quick(a: &Span, b: &Span) -> bool {
        a.last + b.last >= Self::LAST && a.top + b.top <= 102
    }

    /// The exact product and d, summed in f64, are rounded to 24 bits: by half of the last place and a mask, wrong in
    /// the middle only. Where the sum in f64 is not the exact one, it is on the same side of the middle, or in it.
    /// Infinities and NaN stay what they are.
    #[inline(always)]
    fn quick(a: &[f64], b: &[[f64; NR]], d: &[f64; NR], _: i32) -> Option<[f64; NR]> {
        const CUT: u64 = (1 << 29) - 1;
        // The sign bit stays as long as no sum was in the middle.
        let (mut d, mut right) = (*d, [u64::MAX; 2]);
        for (a, b) in a.iter().zip(b) {
            in_order();
            for j in 0..NR {
                let up = (a * b[j] + d[j]).to_bits().wrapping_add(1 << 28);
                let rounded = up & !CUT;
                right[j % 2] &= rounded.wrapping_sub(up);
                d[j] = f64::from_bits(rounded);
            }
        }
        (right[0] & right[1] > u64::MAX / 2).then_some(d)
    }
}

/// Bits of the high part of an operand, below the largest of its block.
const HIGH: i32 = 22;

impl Real for f64 {
    type Code = u64;
    const BITS: i32 = 53;
    const LAST: i32 = -1074;
    const TOP: i32 = 1024;
    const PARTS: usize = 3;
    const BLOCK: usize = 8;

    fn states(lanes: Lanes<'_>) -> &mut [u64] {
        let Lanes::Wide(state) = lanes else { unreachable!("states are as wide as d") };
        state
    }

    #[inline(always)]
    fn value(code: u64) -> f64 {
        Self::from_bits(code)
    }

    #[inline(always)]
    fn code(value: f64) -> u64 {
        value.to_bits()
    }

    /// The C library's.
    #[inline(always)]
    fn fma(a: f64, b: f64, d: f64) -> f64 {
        a.mul_add(b, d)
    }

    #[inline(always)]
    fn sum(p: f64, d: f64) -> f64 {
        p + d
    }

    /// The number, its multiple of `2^(top - HIGH)`, and what that leaves.
    #[inline(always)]
    fn part(x: f64, part: usize, top: i32) -> f64 {
        let grid = 1.5 * power((top - HIGH + 52).clamp(-1000, 1000));
        let high = (x + grid) - grid;
        [x, high, x - high][part]
    }

    /// Where nothing comes near the ends of f64's range.
    fn is_quick(a: &Span, b: &Span) -> bool {
        a.top.abs().max(b.top.abs()) <= 400
    }

    /// With products below 1 for `2^top`, high parts' products are multiples of 2^-44 and the rest of a product is
    /// below 2^-22. A state is the sum of `high`, a multiple of 2^-44 below 2^9 (so that its sums are exact), and of
    /// `low`, which 8 steps leave within 2^-18 around `bias` (so that its last place is 2^-69). The errors of the rest
    /// of a product, 2^-74, and of low's sum, 2^-70, are less than that place: where one more and one less give the
    /// same number, that is the rounded one.
    #[inline(always)]
    fn quick(a: &[f64], b: &[[f64; NR]], d: &[f64; NR], top: i32) -> Option<[f64; NR]> {
        let one = power(top);
        let (grid, bias) = (one * (1.5 * power(10)), one * (1.5 * power(-17)));
        // A smaller state has places below low's last.
        let usual = |d: &Self| *d == 0.0 || (power(-17) * one..448.0 * one).contains(&d.abs());
        if !d.iter().all(usual) {
            return None;
        }
        let (mut high, mut low, mut d, mut unsure) = (*d, *d, *d, [0; 2]);
        for j in 0..NR {
            high[j] = ((d[j] + grid) - grid) - bias;
            low[j] = d[j] - high[j];
        }
        for (a, b) in a.as_chunks::<3>().0.iter().zip(b.as_chunks::<3>().0) {
            in_order();
            let ([_, a_high, a_low], [b, b_high, b_low]) = (a, b);
            for j in 0..NR {
                let rest = a_high * b_low[j] + a_low * b[j];
                high[j] += a_high * b_high[j];
                let sum = (low[j] + rest).to_bits();
                let above = high[j] + Self::from_bits(sum.wrapping_add(1));
                d[j] = high[j] + Self::from_bits(sum.wrapping_sub(1));
                unsure[j % 2] |= above.to_bits() ^ d[j].to_bits();
                low[j] = d[j] - high[j];
            }
        }
        (unsure == [0; 2]).then_some(d)
    }
}

#[derive(Debug)]
struct Chain<T: Real> {
    /// K of a step.
    step: usize,
    nan: T::Code,
    real: PhantomData<T>,
}

/// Lines in groups, `[group][k][part][line in group]`, zeros beyond the last.
#[derive(Debug, Default)]
struct Packed {
    values: Buffer,
    /// Of each group and each `DEPTH` positions.
    spans: Vec<Span>,
}

fn pack<T: Real, const WIDTH: usize>(panel: &mut Panel, at: impl Fn(&Panel, usize, usize) -> usize) {
    let mut packed = panel.take_packed::<Packed>();
    let (lines, k) = (panel.lines, panel.k);
    let mut to = packed.values.room::<f64>(lines.div_ceil(WIDTH) * k * T::PARTS * WIDTH).as_chunks_mut::<WIDTH>().0;
    packed.spans.clear();
    for (group, start) in (0..lines).step_by(WIDTH).flat_map(|group| (0..k).step_by(DEPTH).map(move |p| (group, p))) {
        let block;
        (block, to) = to.split_at_mut(DEPTH.min(k - start) * T::PARTS);
        for (p, parts) in (start..).zip(block.chunks_mut(T::PARTS)) {
            for (line, x) in (group..).zip(&mut parts[0]) {
                *x = if line < lines { T::value(panel.codes.get(at(panel, line, p))) } else { 0.0 };
            }
        }
        let span = Span::of(block.iter().step_by(T::PARTS).flatten());
        for parts in block.chunks_mut(T::PARTS) {
            for part in 1..T::PARTS {
                parts[part] = parts[0].map(|x| T::part(x, part, span.top));
            }
        }
        packed.spans.push(span);
    }
    panel.put_packed(packed);
}

/// Positions of a group, each of several parts.
struct Block<'a, const WIDTH: usize> {
    values: &'a [[f64; WIDTH]],
    span: &'a Span,
}

impl Packed {
    /// Positions `ks` of `k`, of one block of spans.
    fn block<T: Real, const WIDTH: usize>(&self, group: usize, k: usize, ks: &Range<usize>) -> Block<'_, WIDTH> {
        let at = |p: usize| (group * k + p) * T::PARTS;
        let values = &self.values.view().as_chunks().0[at(ks.start)..at(ks.end)];
        Block { values, span: &self.spans[group * k.div_ceil(DEPTH) + ks.start / DEPTH] }
    }
}

/// The states after all positions of two blocks.
fn chain<T: Real>(a: &Block<'_, 1>, b: &Block<'_, NR>, mut d: [f64; NR]) -> [f64; NR] {
    let both = |part: fn(&Span) -> i32| part(a.span) + part(b.span);
    let (top, last, bits) = (both(|s| s.top), both(|s| s.last), both(|s| s.bits));
    let (values_a, is_quick) = (a.values.as_flattened(), T::is_quick(a.span, b.span));
    if bits <= T::BITS && last >= T::LAST && top < T::TOP {
        return each::<T>(values_a, b.values, d, |a, b, d| T::sum(a * b, d));
    }
    for (a, b) in values_a.chunks(T::BLOCK * T::PARTS).zip(b.values.chunks(T::BLOCK * T::PARTS)) {
        let quick = is_quick.then(|| T::quick(a, b, &d, top)).flatten();
        d = quick.unwrap_or_else(|| each::<T>(a, b, d, T::fma));
    }
    d
}

/// `d = f(a, b, d)` at each position.
#[inline(always)]
fn each<T: Real>(a: &[f64], b: &[[f64; NR]], mut d: [f64; NR], f: impl Fn(f64, f64, f64) -> f64) -> [f64; NR] {
    for (a, b) in a.chunks_exact(T::PARTS).zip(b.chunks_exact(T::PARTS)) {
        in_order();
        for (d, b) in d.iter_mut().zip(b[0]) {
            *d = f(a[0], b, *d);
        }
    }
    d
}

impl<T: Real> Chain<T> {
    /// Positions of a block, on all states.
    fn block(&self, a: (&Packed, usize), b: (&Packed, usize), k: usize, ks: &Range<usize>, tile: &mut [T::Code]) {
        let ((a, rows), (b, columns)) = (a, b);
        for j in 0..columns.div_ceil(NR) {
            let (right, width) = (b.block::<T, NR>(j, k, ks), NR.min(columns - j * NR));
            for i in 0..rows {
                let left = a.block::<T, 1>(i, k, ks);
                // Chains that are not there are as large as products, and stay so.
                let mut d = [power((left.span.top + right.span.top).clamp(-100, 100)); NR];
                let states = &mut tile[i * columns + j * NR..][..width];
                d.iter_mut().zip(&*states).for_each(|(d, &c)| *d = T::value(c.into()));
                for (c, d) in states.iter_mut().zip(chain::<T>(&left, &right, d)) {
                    *c = if d.is_nan() { self.nan } else { T::code(d) };
                }
            }
        }
    }
}

impl<T: Real> Kernel for Chain<T> {
    fn name(&self) -> &'static str {
        "fma chain, without fma"
    }

    fn why(&self) -> String {
        "every step is one IEEE fused multiply-add, in order, by products and sums of f64".into()
    }

    fn tile(&self) -> [usize; 2] {
        [96, 256]
    }

    fn panel_bytes(&self) -> usize {
        T::PARTS * size_of::<f64>()
    }

    /// Of one chain the defined way costs less than to look at it.
    fn single(&self, [a, b]: [Line<'_>; 2], _: &mut [Short; 2], c: u64) -> Option<u64> {
        let products = a.codes.iter().zip(b.codes).map(|(&a, &b)| (T::value(a), T::value(b)));
        let d = products.fold(T::value(c), |d, (a, b)| T::fma(a, b, d));
        Some(if d.is_nan() { self.nan } else { T::code(d) }.into())
    }

    fn pack_a(&self, panel: &mut Panel) {
        pack::<T, 1>(panel, |panel, line, p| line * panel.k + p);
    }

    fn pack_b(&self, panel: &mut Panel) {
        pack::<T, NR>(panel, |panel, line, p| p * panel.lines + line);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let (k, ks, tile) = (a.k, steps.start * self.step..steps.end * self.step, T::states(state));
        let (left, right) = ((a.packed::<Packed>(), a.lines), (b.packed::<Packed>(), b.lines));
        for start in (ks.start / DEPTH * DEPTH..ks.end).step_by(DEPTH) {
            let ks = ks.start.max(start)..ks.end.min(start + DEPTH);
            self.block(left, right, k, &ks, tile);
        }
    }
}
