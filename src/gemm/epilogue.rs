//! What happens to accumulators outside the unit: promotion, reduction, alpha and beta, scales, the
//! conversion to D. All in f32, or in f64 where the unit's d is f64. docs/numerics.md, section 6.

use super::kernel::Lanes;
use super::plan::Epilogue;
use super::sink::Run;
use crate::format::{F32, F64, FormatSpec, Overflow};
use crate::round::Rounding;
use crate::special::NanRule;

/// The type that docs/numerics.md writes as f32. These are host operations: IEEE ones, to nearest even, in which
/// a NaN is a class and gets its bits when D is stored.
pub(crate) trait Wide: Copy + Default + PartialEq + Send + Sync + core::fmt::Debug + 'static {
    /// A code of the unit's d.
    type Lane: Copy + Default + Send + Sync + core::fmt::Debug;
    const SPEC: FormatSpec;
    fn lanes(lanes: &mut [Self::Lane]) -> Lanes<'_>;
    /// Lanes of this width.
    fn own(lanes: Lanes<'_>) -> Option<&mut [Self::Lane]>;
    fn run(lanes: &[Self::Lane]) -> Run<'_>;
    fn lane(code: u64) -> Self::Lane;
    fn code(lane: Self::Lane) -> u64;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn bits(self) -> u64;
    fn from_code(bits: u64) -> Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn fma(self, by: Self, plus: Self) -> Self;
}

macro_rules! wide {
    ($ty:ident, $lane:ident, $spec:ident, $variant:ident) => {
        impl Wide for $ty {
            type Lane = $lane;
            const SPEC: FormatSpec = $spec;
            fn lanes(lanes: &mut [$lane]) -> Lanes<'_> {
                Lanes::$variant(lanes)
            }
            fn own(lanes: Lanes<'_>) -> Option<&mut [$lane]> {
                if let Lanes::$variant(lanes) = lanes { Some(lanes) } else { None }
            }
            fn run(lanes: &[$lane]) -> Run<'_> {
                Run::$variant(lanes)
            }
            fn lane(code: u64) -> $lane {
                code as $lane
            }
            fn code(lane: $lane) -> u64 {
                lane.into()
            }
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn from_code(bits: u64) -> Self {
                $ty::from_bits(bits as $lane)
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn fma(self, by: Self, plus: Self) -> Self {
                self.mul_add(by, plus)
            }
        }
    };
}
wide!(f32, u32, F32, Narrow);
wide!(f64, u64, F64, Wide);

/// The number a code stands for; exact for every format within `W`.
pub(crate) fn widen<W: Wide>(spec: &FormatSpec, code: u64) -> W {
    if *spec == W::SPEC { W::from_code(code) } else { W::from_f64(spec.to_f64(code)) }
}

/// Whether every number of a format is one of another.
pub(crate) fn holds(wide: &FormatSpec, narrow: &FormatSpec) -> bool {
    let lowest = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
    wide.fraction_bits >= narrow.fraction_bits
        && wide.max().exponent >= narrow.max().exponent
        && lowest(wide) <= lowest(narrow)
        && (wide.signed || !narrow.signed)
        && (wide.has_nan() || !narrow.has_nan())
        && (wide.has_infinity() || !narrow.has_infinity())
        && wide.subnormals >= narrow.subnormals
}

/// A factor on one operand: `_scaled_mm`'s and cuBLASLt's.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scaling {
    /// None.
    #[default]
    One,
    /// One for the whole operand.
    Tensor(f32),
    /// One for each row of A, or each column of B.
    Lines(Vec<f32>),
}

impl Scaling {
    /// The factor of a line.
    fn of(&self, line: usize) -> f32 {
        match self {
            Self::One => 1.0,
            Self::Tensor(scale) => *scale,
            Self::Lines(scales) => scales[line],
        }
    }

    fn apply<W: Wide>(&self, line: usize, x: W) -> W {
        match self {
            Self::One => x,
            Self::Tensor(_) | Self::Lines(_) => W::from_f64(self.of(line).into()).mul(x),
        }
    }
}

/// The epilogue of one product.
#[derive(Debug)]
pub(crate) struct Finish<'a, W> {
    pub(crate) alpha: W,
    pub(crate) beta: W,
    pub(crate) form: Epilogue,
    pub(crate) scale_a: &'a Scaling,
    pub(crate) scale_b: &'a Scaling,
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) out: FormatSpec,
    pub(crate) nan: NanRule,
    /// f32 atomics flush subnormals.
    pub(crate) flush: bool,
}

impl<W: Wide> Finish<'_, W> {
    fn is_one(x: W) -> bool {
        x == W::from_f64(1.0)
    }

    /// Whether accumulators of D's own format are D already.
    pub(crate) fn is_identity(&self) -> bool {
        let unscaled = *self.scale_a == Scaling::One && *self.scale_b == Scaling::One && self.bias.is_none();
        unscaled && Self::is_one(self.alpha) && self.beta == W::default()
    }

    /// `(scale_a scale_b) acc` where both are one number, else `scale_a (scale_b acc)`, each product rounded.
    pub(crate) fn scaled(&self, i: usize, j: usize, acc: W) -> W {
        match self.tensor_scale() {
            Some(scale) => scale.mul(acc),
            None => self.scale_a.apply(i, self.scale_b.apply(j, acc)),
        }
    }

    /// Both scales in one, where each is one number.
    fn tensor_scale(&self) -> Option<W> {
        let (Scaling::Tensor(a), Scaling::Tensor(b)) = (self.scale_a, self.scale_b) else { return None };
        Some(W::from_f64((*a).into()).mul(W::from_f64((*b).into())))
    }

    /// Alpha, beta, C and bias. C is not looked at when beta is zero.
    pub(crate) fn combine(&self, j: usize, acc: W, beta: W, c: impl FnOnce() -> W) -> W {
        let x = if beta == W::default() {
            if Self::is_one(self.alpha) { acc } else { self.alpha.mul(acc) }
        } else {
            match self.form {
                Epilogue::TwoX => self.alpha.fma(acc, beta.mul(c())),
                Epilogue::ThreeX | Epilogue::Plain => beta.fma(c(), self.alpha.mul(acc)),
                Epilogue::Rounded => beta.fma(c(), self.through_d(self.alpha.mul(acc))),
            }
        };
        self.bias.map_or(x, |bias| x.add(W::from_f64(bias[j].into())))
    }

    /// What [`Self::scaled`] and [`Self::combine`] do, for people.
    pub(crate) fn words(&self, [i, j]: [usize; 2], acc: W, beta: W, c: Option<W>) -> String {
        let (mut lines, by) = (Vec::new(), self.scaled(i, j, acc));
        if *self.scale_a != Scaling::One || *self.scale_b != Scaling::One {
            let [a, b] = [self.scale_a.of(i), self.scale_b.of(j)];
            lines.push(match self.tensor_scale() {
                Some(scale) => format!("== scales: (scale_a {a:?} * scale_b {b:?} = {scale:?}) * {acc:?} = {by:?}"),
                None => format!("== scales: scale_a {a:?} * (scale_b {b:?} * {acc:?}) = {by:?}"),
            });
        }
        let plain = Self { bias: None, ..*self };
        let x = plain.combine(j, by, beta, || c.unwrap_or_default());
        let (alpha, c) = (self.alpha, c.unwrap_or_default());
        let how = match self.form {
            _ if beta == W::default() => format!("alpha {alpha:?} * {by:?}"),
            Epilogue::TwoX => format!("fma(alpha {alpha:?}, {by:?}, beta {beta:?} * C {c:?})"),
            Epilogue::ThreeX | Epilogue::Plain => format!("fma(beta {beta:?}, C {c:?}, alpha {alpha:?} * {by:?})"),
            Epilogue::Rounded => {
                let p = self.alpha.mul(by);
                let rounded = self.through_d(p);
                format!("fma(beta {beta:?}, C {c:?}, alpha {alpha:?} * {by:?} = {p:?} rounded to {rounded:?})")
            }
        };
        lines.push(format!("== epilogue: {how} = {x:?}"));
        if let Some(bias) = self.bias {
            let bias = bias[j];
            lines.push(format!("== bias: {x:?} + {bias:?} = {:?}", self.combine(j, by, beta, || c)));
        }
        lines.join("\n")
    }

    /// `RNE(x)` in D's format.
    pub(crate) fn store(&self, x: W) -> u64 {
        if x.to_f64().is_nan() {
            return self.out.nan_code(nan_of(&self.out, self.nan)).unwrap_or_else(|| self.out.max_code(false));
        }
        if self.out == W::SPEC {
            return x.bits();
        }
        let negative = x.to_f64().is_sign_negative();
        let code = self.out.encode_f64(x.to_f64(), Rounding::NearestEven, Overflow::Ieee);
        code.unwrap_or_else(|_| self.out.max_code(negative))
    }

    /// `x` rounded to D's format, as a number again.
    pub(crate) fn through_d(&self, x: W) -> W {
        widen(&self.out, self.store(x))
    }

    /// What an atomic addition makes of D and a slice's `alpha acc`.
    pub(crate) fn atomic(&self, d: W, acc: W) -> W {
        let p = self.through_d(self.alpha.mul(acc));
        if self.out != F32 {
            return d.add(p);
        }
        let flush = |x: f32| if self.flush && x.is_subnormal() { 0f32.copysign(x) } else { x };
        let sum = flush(flush(d.to_f64() as f32) + flush(p.to_f64() as f32));
        W::from_f64(sum.into())
    }
}

/// f64 has one NaN; the other types have their vendor's.
fn nan_of(spec: &FormatSpec, vendor: NanRule) -> NanRule {
    if *spec == F64 { NanRule::Quiet } else { vendor }
}
