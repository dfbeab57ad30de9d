//! What happens to accumulators outside the unit: promotion, reduction, alpha and beta, scales, the
//! conversion to D. All in f32, or in f64 where the unit's d is f64. docs/numerics.md, section 6.

use super::convert::{Storing, Widening, fold_each};
use super::kernel::Lanes;
use super::plan::Epilogue;
use super::sink::Run;
use crate::format::{F32, F64, FormatSpec};
use crate::special::NanRule;
use ndarray::{ArrayBase, ArrayRef1, Data, Ix1};

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
    fn is_nan(self) -> bool;
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
            #[inline(always)]
            fn lane(code: u64) -> $lane {
                code as $lane
            }
            #[inline(always)]
            fn code(lane: $lane) -> u64 {
                lane.into()
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            #[inline(always)]
            fn from_code(bits: u64) -> Self {
                $ty::from_bits(bits as $lane)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $ty::is_nan(self)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn fma(self, by: Self, plus: Self) -> Self {
                self.mul_add(by, plus)
            }
        }
    };
}
wide!(f32, u32, F32, Narrow);
wide!(f64, u64, F64, Wide);

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

impl From<f32> for Scaling {
    fn from(scale: f32) -> Self {
        Self::Tensor(scale)
    }
}

impl From<Vec<f32>> for Scaling {
    fn from(scales: Vec<f32>) -> Self {
        Self::Lines(scales)
    }
}

impl From<&[f32]> for Scaling {
    fn from(scales: &[f32]) -> Self {
        Self::Lines(scales.to_vec())
    }
}

impl From<&ArrayRef1<f32>> for Scaling {
    fn from(scales: &ArrayRef1<f32>) -> Self {
        let mut lines = Vec::new();
        // One number seen as more than memory holds is no operand's: it is too few then, and refused as such.
        if lines.try_reserve_exact(scales.len()).is_ok() {
            lines.extend(scales);
        }
        Self::Lines(lines)
    }
}

impl<S: Data<Elem = f32>> From<&ArrayBase<S, Ix1>> for Scaling {
    fn from(scales: &ArrayBase<S, Ix1>) -> Self {
        (&**scales).into()
    }
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

    /// The factors of lines from `line` on, each times a number.
    #[inline(always)]
    fn apply_all<W: Wide>(&self, line: usize, x: &mut [W]) {
        match self {
            Self::One => {}
            Self::Tensor(scale) => multiply(x, W::from_f64((*scale).into())),
            Self::Lines(scales) => {
                fold_each(&scales[line..][..x.len()], x, |x, scale| W::from_f64(scale.into()).mul(x));
            }
        }
    }
}

/// Each number times a factor.
#[inline(always)]
fn multiply<W: Wide>(x: &mut [W], by: W) {
    for x in x {
        *x = by.mul(*x);
    }
}

/// Elements of a row that are taken at once, at most.
pub(crate) const AT_ONCE: usize = 64;

/// The epilogue of one product.
///
/// Its methods take elements of a row side by side, so that compilers make vectors of them.
#[derive(Debug)]
pub(crate) struct Finish<'a, W> {
    pub(crate) alpha: W,
    pub(crate) beta: W,
    pub(crate) form: Epilogue,
    pub(crate) scale_a: &'a Scaling,
    pub(crate) scale_b: &'a Scaling,
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) out: FormatSpec,
    /// How numbers become D, and D numbers.
    pub(crate) storing: Storing,
    pub(crate) widening: Widening,
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

    /// `(scale_a scale_b) acc` where both are one number, else `scale_a (scale_b acc)`, each product rounded: of row
    /// `i` from column `j` on.
    #[inline(always)]
    pub(crate) fn scale(&self, i: usize, j: usize, x: &mut [W]) {
        match self.tensor_scale() {
            Some(scale) => multiply(x, scale),
            None => {
                self.scale_b.apply_all(j, x);
                if *self.scale_a != Scaling::One {
                    multiply(x, W::from_f64(self.scale_a.of(i).into()));
                }
            }
        }
    }

    /// Both scales in one, where each is one number.
    fn tensor_scale(&self) -> Option<W> {
        let (Scaling::Tensor(a), Scaling::Tensor(b)) = (self.scale_a, self.scale_b) else { return None };
        Some(W::from_f64((*a).into()).mul(W::from_f64((*b).into())))
    }

    /// Alpha, beta, C and bias, from column `j` on. C is not looked at when beta is zero.
    #[inline(always)]
    pub(crate) fn combine(&self, j: usize, x: &mut [W], beta: W, c: &[W]) {
        let alpha = self.alpha;
        if beta == W::default() || matches!(self.form, Epilogue::ThreeX | Epilogue::Plain | Epilogue::Rounded) {
            // A product with one is the number itself.
            if !Self::is_one(alpha) {
                multiply(x, alpha);
            }
        }
        if beta != W::default() {
            if self.form == Epilogue::Rounded {
                self.through_d(x);
            }
            match self.form {
                Epilogue::TwoX => fold_each(c, x, |x, c| alpha.fma(x, beta.mul(c))),
                Epilogue::ThreeX | Epilogue::Plain | Epilogue::Rounded => fold_each(c, x, |x, c| beta.fma(c, x)),
            }
        }
        if let Some(bias) = self.bias {
            fold_each(&bias[j..][..x.len()], x, |x, bias| x.add(W::from_f64(bias.into())));
        }
    }

    /// What [`Self::scale`] and [`Self::combine`] do to one element, for people.
    pub(crate) fn words(&self, [i, j]: [usize; 2], acc: W, beta: W, c: Option<W>) -> String {
        let of = |mut x: W, f: &dyn Fn(&mut [W])| {
            f(core::slice::from_mut(&mut x));
            x
        };
        let (mut lines, by) = (Vec::new(), of(acc, &|x| self.scale(i, j, x)));
        if *self.scale_a != Scaling::One || *self.scale_b != Scaling::One {
            let [a, b] = [self.scale_a.of(i), self.scale_b.of(j)];
            lines.push(match self.tensor_scale() {
                Some(scale) => format!("== scales: (scale_a {a:?} * scale_b {b:?} = {scale:?}) * {acc:?} = {by:?}"),
                None => format!("== scales: scale_a {a:?} * (scale_b {b:?} * {acc:?}) = {by:?}"),
            });
        }
        let (alpha, c) = (self.alpha, c.unwrap_or_default());
        let plain = Self { bias: None, ..*self };
        let x = of(by, &|x| plain.combine(j, x, beta, &[c]));
        let how = match self.form {
            _ if beta == W::default() => format!("alpha {alpha:?} * {by:?}"),
            Epilogue::TwoX => format!("fma(alpha {alpha:?}, {by:?}, beta {beta:?} * C {c:?})"),
            Epilogue::ThreeX | Epilogue::Plain => format!("fma(beta {beta:?}, C {c:?}, alpha {alpha:?} * {by:?})"),
            Epilogue::Rounded => {
                let p = self.alpha.mul(by);
                let rounded = of(p, &|x| self.through_d(x));
                format!("fma(beta {beta:?}, C {c:?}, alpha {alpha:?} * {by:?} = {p:?} rounded to {rounded:?})")
            }
        };
        lines.push(format!("== epilogue: {how} = {x:?}"));
        if let Some(bias) = self.bias {
            let bias = bias[j];
            lines.push(format!("== bias: {x:?} + {bias:?} = {:?}", of(by, &|x| self.combine(j, x, beta, &[c]))));
        }
        lines.join("\n")
    }

    /// Rounded to D's format, as numbers again.
    #[inline(always)]
    pub(crate) fn through_d(&self, x: &mut [W]) {
        if let Storing::Own(_) = self.storing {
            return;
        }
        for x in x.chunks_mut(AT_ONCE) {
            let mut codes = [W::Lane::default(); AT_ONCE];
            let codes = &mut codes[..x.len()];
            self.storing.all(x, codes);
            self.widening.all(codes, x, W::code);
        }
    }

    /// What atomic additions make of D and a slice's `alpha acc`.
    #[inline(always)]
    pub(crate) fn atomic(&self, d: &mut [W], x: &mut [W]) {
        multiply(x, self.alpha);
        self.through_d(x);
        if self.out != F32 {
            return fold_each(x, d, |d, x| d.add(x));
        }
        let flush = self.flush;
        let flushed = |x: f32| if flush && x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x };
        fold_each(x, d, |d, x| W::from_f64(flushed(flushed(d.to_f64() as f32) + flushed(x.to_f64() as f32)).into()));
    }
}

/// f64 has one NaN; the other types have their vendor's.
pub(crate) fn nan_of(spec: &FormatSpec, vendor: NanRule) -> NanRule {
    if *spec == F64 { NanRule::Quiet } else { vendor }
}
