//! Chains of IEEE fused multiply-adds: every f64 unit, and AMD's f32 units.

use super::{Accumulator, Dot, Recipe, Refusal, Signature, ieee};
use crate::format::FormatSpec;
use crate::num::Num;
use crate::round::Rounding;
use crate::special::NanRule;
use crate::trace::{Event, Observer, Trace};

/// SFMA: `d = c`, then `d = fma(a_k, b_k, d)` for k in order, subnormals kept.
///
/// Sources: Fasi et al. and Khattak and Mikaitis (DMMA), MMA-Sim IV-A (AMD).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequentialFma {
    /// The rounding of every step. NVIDIA's f64 instructions also take `.rz`, `.rm` and `.rp`.
    pub rounding: Rounding,
    /// The NaN returned.
    pub nan: NanRule,
}

impl SequentialFma {
    /// Round to nearest even, quiet NaN.
    pub const IEEE: Self = Self { rounding: Rounding::NearestEven, nan: NanRule::Quiet };

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let start = ieee::convert(&dot.c, dot.out, self.rounding, self.nan);
        (0..dot.len()).fold(start, |d, k| {
            let value = ieee::fma(&dot.a[k], &dot.b[k], &d, dot.out, self.rounding, self.nan);
            seen.see(|| {
                let terms = [(&*format!("a{k}*b{k}"), dot.product(k)), ("d", d.term())];
                Event::operation(format!("d = fma(a{k}, b{k}, d)"), terms, value)
            });
            value
        })
    }
}

impl Accumulator for SequentialFma {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::Sequential(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        check_ieee(self.rounding, signature)
    }
}

pub(super) fn check_ieee(rounding: Rounding, signature: &Signature) -> Result<(), Refusal> {
    if matches!(rounding, Rounding::Stochastic { .. }) {
        return Err("stochastic rounding inside a unit is not modelled".into());
    }
    if signature.scale.is_some() {
        return Err("this accumulator has no block scales".into());
    }
    Ok(())
}
