//! CDNA2's 16-bit matrix cores: f32 arithmetic without subnormals, summed in pairs.

use super::sequential::check_ieee;
use super::{Accumulator, Dot, Recipe, Refusal, Signature, ieee};
use crate::format::FormatSpec;
use crate::num::{Num, Term};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::trace::{Event, Observer, Trace};

/// GPS(G): products in D's format (f32 on hardware) RNE, summed pairwise in groups of G, each group added to d in
/// order; subnormal operands are read as +0 and subnormal results become zeros of their sign.
///
/// Source: MMA-Sim IV-B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairwiseSum {
    /// G: products per group. Groups that are no power of two split in a larger first half.
    pub group: usize,
    /// Whether a, b and c below their own format's smallest normal, -0 included, are read as +0.
    pub flush_inputs: bool,
    /// Whether subnormal products and sums become zero, keeping their sign.
    pub flush_results: bool,
    /// The NaN returned.
    pub nan: NanRule,
}

impl PairwiseSum {
    /// CDNA2's f16 and bf16_1k: groups of 4.
    pub const CDNA2: Self = Self { group: 4, flush_inputs: true, flush_results: true, nan: NanRule::Quiet };
    /// CDNA2's older bf16 instructions: groups of 2.
    pub const CDNA2_BF16: Self = Self { group: 2, ..Self::CDNA2 };

    fn read(&self, x: &Num) -> Num {
        let small = x.is_zero() || x.is_subnormal();
        if self.flush_inputs && small { Num::zero(false, x.exponent, x.frac_bits) } else { *x }
    }

    fn flush(&self, x: Num) -> Num {
        if self.flush_results && x.is_subnormal() { Num::zero(x.negative, x.exponent, x.frac_bits) } else { x }
    }

    fn add(&self, x: &Num, y: &Num, out: &FormatSpec) -> Num {
        self.flush(ieee::add(x, y, out, Rounding::NearestEven, self.nan))
    }

    fn product(&self, dot: &Dot<'_>, k: usize, seen: &mut impl Observer) -> Num {
        let (a, b) = (self.read(&dot.a[k]), self.read(&dot.b[k]));
        let value = self.flush(ieee::mul(&a, &b, dot.out, Rounding::NearestEven, self.nan));
        seen.see(|| {
            let label = format!("a{k}*b{k}");
            Event::operation(format!("p{k} = {label}"), [(&label, Term::product(&a, &b))], value)
        });
        value
    }

    /// The pairwise sum of products `from..to`, at least one.
    fn tree(&self, dot: &Dot<'_>, from: usize, to: usize, seen: &mut impl Observer) -> Num {
        if to - from == 1 {
            return self.product(dot, from, seen);
        }
        let middle = from + (to - from).next_power_of_two() / 2;
        let low = self.tree(dot, from, middle, seen);
        let high = self.tree(dot, middle, to, seen);
        let value = self.add(&low, &high, dot.out);
        seen.see(|| {
            let name = |from, to| if to - from == 1 { format!("p{from}") } else { format!("p{from}..p{}", to - 1) };
            let (x, y) = (name(from, middle), name(middle, to));
            Event::operation(format!("sum of {}", name(from, to)), [(&x, low.term()), (&y, high.term())], value)
        });
        value
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let group = self.group.max(1);
        let c = self.read(&dot.c);
        let mut d = ieee::convert(&c, dot.out, Rounding::NearestEven, self.nan);
        for from in (0..dot.len()).step_by(group) {
            let to = (from + group).min(dot.len());
            let sum = self.tree(dot, from, to, seen);
            let value = self.add(&d, &sum, dot.out);
            seen.see(|| Event::operation("d = d + sum", [("d", d.term()), ("sum", sum.term())], value));
            d = value;
        }
        d
    }
}

impl Accumulator for PairwiseSum {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::Pairwise(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.group == 0 {
            return Err("a group needs at least one product".into());
        }
        check_ieee(Rounding::NearestEven, signature)
    }
}
