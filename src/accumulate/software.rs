//! f16 `mma.m8n8k4` from Ampere on: no tensor core instruction, the compiler emits FMAs.

use super::sequential::check_ieee;
use super::{Accumulator, Dot, Recipe, Refusal, Signature, ieee};
use crate::format::FormatSpec;
use crate::num::Num;
use crate::round::Rounding;
use crate::special::NanRule;
use crate::trace::{Event, Observer, Trace};

/// The code ptxas emits for f16 `mma.m8n8k4` from sm_80 on, all in IEEE f32 RNE.
///
/// With an f32 result: `t = fma` chain over k from +0, then `d = c + t`. With an f16 result:
/// `d = RNE_f16((c + fma(a1, b1, a0*b0)) + fma(a3, b3, a2*b2))`, pair by pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftwareDot {
    /// The NaN returned.
    pub nan: NanRule,
}

const RNE: Rounding = Rounding::NearestEven;
const F32: FormatSpec = crate::format::F32;

impl SoftwareDot {
    /// NVIDIA's canonical NaN.
    pub const NVIDIA: Self = Self { nan: NanRule::AllOnes };

    fn fma(&self, dot: &Dot<'_>, k: usize, t: &Num, seen: &mut impl Observer) -> Num {
        let value = ieee::fma(&dot.a[k], &dot.b[k], t, &F32, RNE, self.nan);
        seen.see(|| {
            let terms = [(&*format!("a{k}*b{k}"), dot.product(k)), ("t", t.term())];
            Event::operation(format!("t = fma(a{k}, b{k}, t)"), terms, value)
        });
        value
    }

    /// d + t.
    fn add(&self, d: &Num, t: &Num, text: &str, seen: &mut impl Observer) -> Num {
        let value = ieee::add(d, t, &F32, RNE, self.nan);
        seen.see(|| Event::operation(text, [("d", d.term()), ("t", t.term())], value));
        value
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let c = ieee::convert(&dot.c, &F32, RNE, self.nan);
        if dot.out.fraction_bits > 10 {
            let t = (0..dot.len()).fold(F32.zero(), |t, k| self.fma(dot, k, &t, seen));
            let d = self.add(&c, &t, "d = c + t", seen);
            return ieee::convert(&d, dot.out, RNE, self.nan);
        }
        let mut d = c;
        for k in (0..dot.len()).step_by(2) {
            let mut t = ieee::mul(&dot.a[k], &dot.b[k], &F32, RNE, self.nan);
            seen.see(|| Event::operation(format!("t = a{k}*b{k}"), [(&*format!("a{k}*b{k}"), dot.product(k))], t));
            if k + 1 < dot.len() {
                t = self.fma(dot, k + 1, &t, seen);
            }
            d = self.add(&d, &t, "d = d + t", seen);
        }
        let value = ieee::convert(&d, dot.out, RNE, self.nan);
        seen.see(|| Event::Rounded { how: format!("rne to {}", dot.out), value });
        value
    }
}

impl Accumulator for SoftwareDot {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::Software(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        check_ieee(RNE, signature)
    }
}
