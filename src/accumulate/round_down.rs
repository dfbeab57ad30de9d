//! CDNA3's matrix cores: sums cut toward zero, then toward minus infinity, then rounded.

use super::fused;
use super::generic::is_beyond_limit;
use super::{Accumulator, Dot, Finish, Recipe, Refusal, Signature};
use crate::format::FormatSpec;
use crate::num::{Fixed, Num, Term};
use crate::round::{self, Rounding};
use crate::special::{NanRule, SpecialCases};
use crate::trace::{Event, Label, Observer, Trace};

/// What happens when a product overflows beside an infinite c (D8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverflowBesideC {
    /// It counts as an infinity, so opposite signs give NaN (mmasim 2.1.1).
    #[default]
    Infinity,
    /// c's infinity wins (the paper's order of steps).
    CWins,
}

/// What an infinite or NaN c does beside large fp8 products (D9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockedC {
    /// It propagates (the paper, step 1).
    #[default]
    Propagates,
    /// It has exponent 0 for the check that drops a small c, and is dropped beside products above
    /// 2^25 (mmasim 2.1.1's float arithmetic).
    Dropped,
}

/// FDRDA(G), CDNA3's xf32, f16 and bf16: products cut toward zero against their own largest
/// exponent, their sum and c floored against the larger one, the total floored and rounded.
///
/// Source: MMA-Sim IV-F, IV-G and mmasim 2.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoundDown {
    /// G: products per step; the steps are chained through the output format.
    pub group: usize,
    /// Fraction bits products keep below their own largest exponent (24), and c (24).
    pub frac_bits: u32,
    /// D5: fraction bits the sum of products keeps, rounding down (32; the paper says 31).
    pub sum_bits: u32,
    /// D5: fraction bits the total keeps after normalising, rounding down (31; the paper: none).
    pub total_bits: Option<u32>,
    /// D8: product overflow beside an infinite c.
    pub overflow_beside_c: OverflowBesideC,
    /// The NaN returned.
    pub nan: NanRule,
}

impl RoundDown {
    /// FDRDA(4): xf32, and f16 and bf16 of K = 4.
    pub const CDNA3_G4: Self = Self {
        group: 4,
        frac_bits: 24,
        sum_bits: 32,
        total_bits: Some(31),
        overflow_beside_c: OverflowBesideC::Infinity,
        nan: NanRule::Quiet,
    };
    /// FDRDA(8): f16 and bf16.
    pub const CDNA3: Self = Self { group: 8, ..Self::CDNA3_G4 };

    /// A width within what an aligned sum can hold.
    fn width(&self, bits: u32) -> i32 {
        bits.min(fused::MAX_FRAC_BITS) as i32
    }

    /// (1) and (2): overflowing products, then S. A later flag says whether c takes part.
    fn specials(&self, dot: &Dot<'_>, c_counts: bool) -> Option<Num> {
        let mut operands = SpecialCases::default();
        let mut overflows = SpecialCases::default();
        for k in 0..dot.len() {
            operands.product(&dot.a[k], &dot.b[k]);
            let p = dot.product(k);
            if is_beyond_limit(&p) {
                overflows.infinity(p.negative);
                if self.overflow_beside_c == OverflowBesideC::Infinity {
                    operands.infinity(p.negative);
                }
            }
        }
        dot.scale_a.iter().chain(dot.scale_b).for_each(|scale| operands.scale(scale));
        if c_counts {
            operands.addend(&dot.c);
        }
        operands.verdict(self.nan, dot.out).or_else(|| overflows.verdict(self.nan, dot.out))
    }

    /// (3) and (4): products cut at `frac_bits` below their own largest exponent, and that exponent.
    fn dot_sum(
        &self,
        dot: &Dot<'_>,
        ks: impl Iterator<Item = usize> + Clone,
        seen: &mut impl Observer,
    ) -> Option<(Fixed, i32)> {
        let nonzero = |k: &usize| !dot.product(*k).is_zero();
        let e_dot = ks.clone().filter(nonzero).map(|k| dot.product(k).exponent).max()?;
        let unit = e_dot - self.width(self.frac_bits);
        seen.see(|| Event::Align { e_max: e_dot, unit });
        let sum: i128 = ks
            .filter(nonzero)
            .map(|k| fused::align(&dot.product(k), unit, Rounding::TowardZero, seen, || Label::Product(k)))
            .sum();
        Some((Fixed::from_units(sum, unit), e_dot))
    }

    /// (5) to (7): floors of the sum of products and of c, the total, its floor, RNE.
    fn total(&self, dot: &Dot<'_>, products: Option<(Fixed, i32)>, c: &Term, seen: &mut impl Observer) -> Num {
        let e_max = products.map_or(c.exponent, |(_, e_dot)| e_dot.max(c.exponent));
        let sum_unit = e_max - self.width(self.sum_bits.max(self.frac_bits));
        seen.see(|| Event::Align { e_max, unit: e_max - self.width(self.sum_bits) });
        let mut total: i128 = 0;
        if let Some((s_dot, _)) = products {
            total += floor(s_dot, e_max - self.width(self.sum_bits), sum_unit, seen, "sum of products");
        }
        total += floor(c.fixed(), e_max - self.width(self.frac_bits), sum_unit, seen, "c");
        let mut sum = Fixed::from_units(total, sum_unit);
        if let (Some(bits), false) = (self.total_bits, sum.is_zero()) {
            let exact = sum;
            let lead = sum.leading_exponent().max(dot.out.emin());
            let unit = lead - self.width(bits);
            let floored = round::to_multiple(sum, unit, Rounding::Down);
            sum = Fixed { magnitude: floored.magnitude, exponent: unit, ..sum };
            if !floored.exact {
                seen.see(|| Event::Sum(exact));
            }
        }
        let finish =
            Finish { rounding: Rounding::NearestEven, frac_bits: None, ieee_overflow: false, negative_zero: true };
        fused::finished(sum, &finish, dot.out, seen)
    }

    fn step(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        if let Some(d) = self.specials(dot, true) {
            seen.see(|| Event::Special("an infinity or NaN".into()));
            return d;
        }
        let products = self.dot_sum(dot, 0..dot.len(), seen);
        self.total(dot, products, &dot.c.term(), seen)
    }

    fn check_widths(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.group == 0 {
            return Err("a group needs at least one product".into());
        }
        let widest = self.frac_bits.max(self.sum_bits).max(self.total_bits.unwrap_or(0));
        fused::check_width(widest, signature)
    }
}

/// Floors `x` to a multiple of `2^unit`, in units of the finer `2^fine`.
fn floor(x: Fixed, unit: i32, fine: i32, seen: &mut impl Observer, label: &str) -> i128 {
    let floored = round::to_multiple(x, unit, Rounding::Down);
    let units = (floored.magnitude << (unit - fine).unsigned_abs()) as i128;
    let units = if x.negative { -units } else { units };
    seen.see(|| Event::Term {
        label: Label::Text(label.into()),
        term: Term { negative: x.negative, exponent: x.exponent, significand: x.magnitude, frac_bits: 0 }.normalised(),
        aligned: Fixed::from_units(units, fine),
        unit,
        cut: !floored.exact,
    });
    units
}

/// Folds the steps of a chain over K.
fn steps(dot: &Dot<'_>, group: usize, mut step: impl FnMut(usize, &Dot<'_>) -> Num) -> Num {
    let group = group.max(1);
    (0..dot.len().max(1)).step_by(group).fold(dot.c, |c, from| step(from, &dot.part(from, from + group, c)))
}

impl Accumulator for RoundDown {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        steps(dot, self.group, |_, part| self.step(part, &mut ()))
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        steps(dot, self.group, |from, part| {
            let ks = from..from + part.len();
            trace.push(Event::Step { text: format!("products {ks:?}"), ks: ks.collect() });
            self.step(part, trace)
        })
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::RoundDown(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        self.check_widths(signature)
    }
}

/// GFDRDA(16), CDNA3's fp8 and bf8: products of even k and of odd k are summed apart, joined
/// rounding down, and a c far below them is dropped; then as FDRDA.
///
/// Source: MMA-Sim IV-H, IV-I and mmasim 2.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedRoundDown {
    /// Widths and rules shared with FDRDA.
    pub base: RoundDown,
    /// c counts as zero when its exponent is below `e_max` minus this.
    pub c_reach: i32,
    /// D9: an infinite or NaN c beside large products.
    pub special_c: BlockedC,
}

/// More than any two exponents differ by: c counts wherever it is.
pub(crate) const MAX_REACH: i32 = 4096;

impl GroupedRoundDown {
    /// fp8 and bf8 on MI300.
    pub const CDNA3: Self =
        Self { base: RoundDown { group: 16, ..RoundDown::CDNA3 }, c_reach: 25, special_c: BlockedC::Propagates };

    /// The two halves floored against the larger exponent and added.
    fn join(&self, halves: [Option<(Fixed, i32)>; 2], seen: &mut impl Observer) -> Option<(Fixed, i32)> {
        let e_dot = halves.iter().flatten().map(|(_, e)| *e).max()?;
        let unit = e_dot - self.base.width(self.base.frac_bits);
        seen.see(|| Event::Align { e_max: e_dot, unit });
        let labels = ["sum of even k", "sum of odd k"];
        let sum = halves
            .iter()
            .zip(labels)
            .filter_map(|(half, label)| half.map(|(s, _)| floor(s, unit, unit, seen, label)))
            .sum();
        Some((Fixed::from_units(sum, unit), e_dot))
    }

    fn step(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let products = (0..dot.len()).map(|k| dot.product(k)).filter(|p| !p.is_zero());
        let e_dot = products.map(|p| p.exponent).max();
        let e_max = e_dot.map_or(dot.c.exponent, |e_dot| e_dot.max(dot.c.exponent));
        let out_of_reach = dot.c.exponent < e_max.saturating_sub(self.c_reach);
        let c_counts = dot.c.is_finite() || self.special_c == BlockedC::Propagates || !out_of_reach;
        if let Some(d) = self.base.specials(dot, c_counts) {
            seen.see(|| Event::Special("an infinity or NaN".into()));
            return d;
        }
        // From here on all products are numbers.
        let halves = [0, 1].map(|h| self.base.dot_sum(dot, (h..dot.len()).step_by(2), seen));
        let products = self.join(halves, seen);
        let c = if out_of_reach || !dot.c.is_finite() {
            seen.see(|| Event::Note(format!("c is more than {} below e_max = {e_max} and counts as 0", self.c_reach)));
            Num::zero(false, dot.c.exponent, dot.c.frac_bits).term()
        } else {
            dot.c.term()
        };
        self.base.total(dot, products, &c, seen)
    }
}

impl Accumulator for GroupedRoundDown {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        steps(dot, self.base.group, |_, part| self.step(part, &mut ()))
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        steps(dot, self.base.group, |from, part| {
            let ks = from..from + part.len();
            trace.push(Event::Step { text: format!("products {ks:?}"), ks: ks.collect() });
            self.step(part, trace)
        })
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::GroupedRoundDown(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.c_reach.unsigned_abs() > MAX_REACH.unsigned_abs() {
            return Err(format!("c-reach {}: at most {MAX_REACH} is supported", self.c_reach).into());
        }
        self.base.check_widths(signature)
    }
}
