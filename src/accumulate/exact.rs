//! CDNA1's 16-bit matrix cores: exact sums of small groups, each rounded once.

use super::generic::{GenericDot, exact_sum};
use super::{Accumulator, Dot, Finish, Floor, PairwiseSum, Recipe, Refusal, Signature, fused};
use crate::format::FormatSpec;
use crate::num::Num;
use crate::round::Rounding;
use crate::special::NanRule;
use crate::trace::{Event, Label, Observer, Trace};

/// How a group is summed (D4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Intermediate {
    /// Exactly, with one RNE at the end (MATLAB-tensor-core; mmasim 2.1.1).
    #[default]
    Exact,
    /// Pairwise in f32 RNE, subnormals kept (mmasim's first code).
    PairwiseF32,
}

/// Exact(G): per group of G products, `d = RNE(c + exact sum)`, chained over K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExactSum {
    /// G: products per group.
    pub group: usize,
    /// D4: how a group is summed.
    pub intermediate: Intermediate,
    /// The NaN returned.
    pub nan: NanRule,
}

impl ExactSum {
    /// CDNA1's f16: groups of 4.
    pub const CDNA1_F16: Self = Self { group: 4, intermediate: Intermediate::Exact, nan: NanRule::Quiet };
    /// CDNA1's bf16: groups of 2.
    pub const CDNA1_BF16: Self = Self { group: 2, ..Self::CDNA1_F16 };

    const fn pairwise(&self) -> PairwiseSum {
        PairwiseSum { group: self.group, flush_inputs: false, flush_results: false, nan: self.nan }
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let group = self.group.max(1);
        let mut d = dot.c;
        for from in (0..dot.len().max(1)).step_by(group) {
            let part = dot.part(from, from + group, d);
            let ks = from..from + part.len();
            seen.see(|| Event::Step { text: format!("products {ks:?}"), ks: ks.collect() });
            d = match fused::special_verdict(&part, Some(&d), self.nan, seen) {
                Some(d) => d,
                None => self.round(&part, seen),
            };
        }
        d
    }

    fn round(&self, part: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let products = (0..part.len()).map(|k| (Label::Product(k), part.product(k)));
        let sum = exact_sum(products.chain([(Label::Addend, part.c.term())]), seen);
        let finish =
            Finish { rounding: Rounding::NearestEven, frac_bits: None, ieee_overflow: false, negative_zero: true };
        fused::finished(sum, &finish, part.out, seen)
    }
}

impl Accumulator for ExactSum {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        match self.intermediate {
            Intermediate::Exact => self.run(dot, &mut ()),
            Intermediate::PairwiseF32 => self.pairwise().dot_add(dot),
        }
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        match self.intermediate {
            Intermediate::Exact => self.run(dot, trace),
            Intermediate::PairwiseF32 => self.pairwise().trace(dot, trace),
        }
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(match self.intermediate {
            Intermediate::PairwiseF32 => Recipe::Pairwise(self.pairwise()),
            Intermediate::Exact => Recipe::Generic(GenericDot {
                block: self.group.max(1),
                exact: true,
                floor: Floor::None,
                output_rounding: Rounding::NearestEven,
                negative_zero: true,
                nan: self.nan,
                ..GenericDot::default()
            }),
        })
    }

    fn check(&self, _signature: &Signature) -> Result<(), Refusal> {
        if self.group == 0 { Err("a group needs at least one product".into()) } else { Ok(()) }
    }
}
