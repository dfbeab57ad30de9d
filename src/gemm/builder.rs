//! [`Gemm`]: one product with every choice in reach.

use super::driver::OnProgress;
use super::epilogue::Scaling;
use super::operand::{Matrix, Source};
use super::plan::Plan;
use super::product::{Request, Scales, check_product, no_addend};
use super::quantise::Quantised;
use super::schedule::Schedule;
use super::sink::{CodesMut, Values};
use super::small::{Batch, Dense, DenseCodes, DenseMut, OnProduct, is_small, tiles_of};
use super::workspace::Workspace;
use crate::error::Error;
use crate::format::{Format, FormatSpec, Overflow, spec_of};
use crate::round::Rounding;
use crate::simd::{self, Isa, KernelChoice};
use crate::unit::{AsUnit, Unit};
use crate::view::{View, words, words_mut};
use core::fmt;
use core::marker::PhantomData;
use ndarray::{
    Array, Array2, Array3, ArrayRef, ArrayView1, ArrayView2, ArrayView3, ArrayViewMut3, Axis, Dimension, Ix2, Ix3,
};
use std::sync::Arc;

/// A matrix product, `D = alpha A B + beta C` on a unit, by a plan.
///
/// Operands in the unit's own formats enter as they are; other values are rounded to them, to
/// nearest even unless [`Gemm::round_inputs`] says otherwise. D is in the unit's d, or whatever
/// [`Gemm::output`] or the result's element type asks for.
///
/// ```
/// use gemmulate::prelude::*;
/// use ndarray::Array2;
/// let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16")?;
/// let a = Array2::from_shape_fn((3, 40), |(i, k)| (i + k) as f32 / 7.0);
/// let b = Array2::from_shape_fn((40, 5), |(k, j)| (j as f32 - k as f32) / 3.0);
/// let d: Array2<f32> = Gemm::on(&unit)
///     .plan(Plan::cutlass3().split_k(1))
///     .round_inputs(Rounding::NearestEven)
///     .run(&a, &b)?;
/// assert_eq!(d.dim(), (3, 5));
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone)]
pub struct Gemm<'a, D = f32> {
    pub(super) unit: &'a Unit,
    pub(super) plan: Plan,
    pub(super) rounding: Rounding,
    pub(super) overflow: Overflow,
    pub(super) alpha: f64,
    pub(super) beta: Option<f64>,
    pub(super) c: Option<(Arc<dyn Source + Send + 'a>, FormatSpec)>,
    pub(super) output: Option<FormatSpec>,
    pub(super) block_scales: Option<[Scales; 2]>,
    pub(super) promotion_scales: Option<[ArrayView2<'a, f32>; 2]>,
    pub(super) scale_a: Scaling,
    pub(super) scale_b: Scaling,
    pub(super) bias: Option<ArrayView1<'a, f32>>,
    pub(super) threads: Option<usize>,
    pub(super) isa: Option<Isa>,
    pub(super) progress: Option<OnProgress<'a>>,
    pub(super) kind: PhantomData<fn() -> D>,
}

impl<D> fmt::Debug for Gemm<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gemm")
            .field("unit", &self.unit)
            .field("plan", &self.plan)
            .field("alpha", &self.alpha)
            .field("beta", &self.beta)
            .finish_non_exhaustive()
    }
}

impl<'a> Gemm<'a> {
    /// A product on a unit, one instruction after another until [`Gemm::plan`] says otherwise.
    pub fn on<U: AsUnit + ?Sized>(unit: &'a U) -> Gemm<'a, U::D> {
        Gemm {
            unit: unit.as_unit(),
            plan: Plan::in_order(),
            rounding: Rounding::NearestEven,
            overflow: Overflow::Ieee,
            alpha: 1.0,
            beta: None,
            c: None,
            output: None,
            block_scales: None,
            promotion_scales: None,
            scale_a: Scaling::One,
            scale_b: Scaling::One,
            bias: None,
            threads: None,
            isa: None,
            progress: None,
            kind: PhantomData,
        }
    }
}

impl<D> Gemm<'_, D> {
    /// The factor of C.
    pub(super) fn factor_of_c(&self) -> f64 {
        self.beta.unwrap_or(if self.c.is_some() { 1.0 } else { 0.0 })
    }
}

impl<'a, D: Format> Gemm<'a, D> {
    /// Sets the plan: everything besides the operands that can change a bit.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// How operands of other types are rounded to the unit's formats.
    #[must_use]
    pub const fn round_inputs(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// What becomes of operands beyond the unit's formats: by default ([`Overflow::Ieee`]) infinities, silently, or NaN
    /// where the format has none.
    #[must_use]
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// The factor of A B; it is rounded to f32, as kernels take it (f64 on f64 units).
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<f64>) -> Self {
        self.alpha = alpha.into();
        self
    }

    /// The factor of C, rounded likewise: 1 unless said otherwise where there is a C. With 0, C is never read.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<f64>) -> Self {
        self.beta = Some(beta.into());
        self
    }

    /// C: an M x N matrix, as A and B may be, of values that widen exactly to f32 (to f64 on f64 units); codes are in
    /// the unit's c. It counts once, or [`Gemm::beta`] times.
    #[must_use]
    pub fn c(mut self, c: &'a (impl Matrix + ?Sized)) -> Self {
        self.c = Some((Arc::new(c.reader()), c.format().unwrap_or(self.unit.c)));
        self
    }

    /// D's format: f32, f16 or bf16 (f64 or f32 on f64 units), or the unit's own d.
    #[must_use]
    pub const fn output(mut self, format: FormatSpec) -> Self {
        self.output = Some(format);
        self
    }

    /// The scales of a block-scaled unit: for A, M x ceil(K / block); for B, ceil(K / block) x N.
    #[must_use]
    pub fn block_scales(mut self, scale_a: &(impl Matrix + ?Sized), scale_b: &(impl Matrix + ?Sized)) -> Self {
        let (a, b) = (Scales::new("scale_a", scale_a, self.unit), Scales::new("scale_b", scale_b, self.unit));
        self.block_scales = Some([a, b]);
        self
    }

    /// The f32 scales of a plan with scaled promotion. With [`super::ScaleBlocks`] of `rows`, `k`
    /// and `columns`: for A, ceil(M / rows) x ceil(K / k); for B, ceil(K / k) x ceil(N / columns).
    #[must_use]
    pub fn promotion_scales(mut self, scale_a: &'a ArrayRef<f32, Ix2>, scale_b: &'a ArrayRef<f32, Ix2>) -> Self {
        self.promotion_scales = Some([scale_a.view(), scale_b.view()]);
        self
    }

    /// A's factor outside the unit: one, one per tensor or one per row. The accumulator is
    /// multiplied by B's factor, then by A's, each product rounded to f32 (f64 where the unit's d is),
    /// before alpha, beta and C. Where both are one per tensor, it is multiplied by their product,
    /// rounded likewise, which may overflow or vanish by itself: cuBLASLt does so with fp8 on an H100
    /// (docs/hardware.md); of NVFP4's two factors it is assumed.
    #[must_use]
    pub fn scale_a(mut self, scale: impl Into<Scaling>) -> Self {
        self.scale_a = scale.into();
        self
    }

    /// B's factor outside the unit: one, one per tensor or one per column.
    #[must_use]
    pub fn scale_b(mut self, scale: impl Into<Scaling>) -> Self {
        self.scale_b = scale.into();
        self
    }

    /// A row of N numbers, a slice or an array, added to every row of the result, in f32, before it is rounded to D.
    #[must_use]
    pub fn bias(mut self, bias: impl Into<ArrayView1<'a, f32>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// How many threads work: 1 keeps to the caller's, 0 (the default) uses the current rayon pool;
    /// 1024 at most. Those asked for are the workspace's own; a caller that is a thread of a rayon
    /// pool waits for them without taking up other jobs.
    /// The result never depends on it.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = if threads == 0 { None } else { Some(threads) };
        self
    }

    /// Calls `tell` now and then, from any thread; when it breaks, the product stops with
    /// [`Error::Cancelled`]. It must not wait for a rayon pool that the caller is a thread of: with
    /// [`threads`](Self::threads) that thread waits for the product.
    #[must_use]
    pub const fn progress(mut self, tell: OnProgress<'a>) -> Self {
        self.progress = Some(tell);
        self
    }

    /// Holds kernels back to an instruction set and what comes after it in [`Isa::ALL`], as the
    /// environment variable `GEMMULATE_ISA` does. The result never depends on it.
    #[must_use]
    pub const fn isa(mut self, isa: Isa) -> Self {
        self.isa = Some(isa);
        self
    }

    /// The kernel that computes this unit's large products, and why: `reference`, or a fast one.
    pub fn kernel(&self) -> KernelChoice {
        simd::choice(self.unit, self.isa, usize::MAX)
    }

    /// The kernel for a product of M, N and K, of matrices of the unit's own formats that stand row by row. Few rows
    /// may have another kernel than many, for packing B is most of the work then; many rows by few columns may be
    /// computed as few rows by many columns; and the products of a few tiles of 16 x 8 tile by tile.
    pub fn kernel_for(&self, size: [usize; 3]) -> KernelChoice {
        let [m, n, k] = size;
        let (unit, out) = (self.unit, self.wanted().unwrap_or(self.unit.d));
        let request = Request { formats: [Some(unit.a), Some(unit.b)], in_place: None, out, only: None, log: None };
        let Ok(schedule) = Schedule::new(&self.plan, unit, m, n, k) else { return simd::choice(unit, self.isa, m) };
        let tiles = self.takes_tiles(&request) && is_small(unit, size) && schedule.is_one_run();
        let small = if tiles { simd::choice_of_small(unit, self.isa, tiles_of(size)) } else { None };
        let turned = self.turns(&request, size, &schedule, false);
        small.unwrap_or_else(|| simd::choice(unit, self.isa, if turned { n } else { m }))
    }

    /// Computes D: M x N for A of M x K and B of K x N.
    ///
    /// # Errors
    /// For shapes that do not fit, plans the unit or the size refuses, values without a code in
    /// the unit's formats, missing or surplus scales, and cancellation. On a unit known by name only, which gives `f32`
    /// unless asked otherwise, where it has wider results: [`Gemm::run_as`] says which.
    pub fn run(&self, a: &(impl Matrix + ?Sized), b: &(impl Matrix + ?Sized)) -> Result<Array2<D>, Error> {
        let d = &self.unit.d;
        if self.wanted().is_none() && !spec_of::<D>().holds(d) {
            let (unit, here) = (self.unit, D::SPEC.name);
            let why = format!("{unit} gives {d}, which {here} does not hold: ask for it by `Gemm::on(&unit).run_as`");
            return Err(Error::Product(why));
        }
        self.run_as::<D>(a, b)
    }

    /// Computes D for two quantised operands: their codes, their block scales, and their tensor scales as the factors
    /// of [`Gemm::scale_a`] and [`Gemm::scale_b`].
    ///
    /// ```
    /// use gemmulate::prelude::*;
    /// use gemmulate::gemm::quantise;
    /// use ndarray::{Array2, Axis};
    /// let unit = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3")?;
    /// let (a, b) = (Array2::from_elem((2, 64), 6.0f32), Array2::from_elem((64, 3), 0.5f32));
    /// let a = quantise::for_unit(&a, &unit, Axis(1), Rounding::NearestEven)?;
    /// let b = quantise::for_unit(&b, &unit, Axis(0), Rounding::NearestEven)?;
    /// assert!(Gemm::on(&unit).run_quantised(&a, &b)?.iter().all(|d| (d - 192.0).abs() < 0.001));
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gemm::run`]; where the unit's scales are of another format or for other blocks, an operand is blocked along
    /// an axis that is not that of K, or has a tensor scale other than 1 beside a factor given here.
    pub fn run_quantised(&self, a: &Quantised, b: &Quantised) -> Result<Array2<D>, Error> {
        let scale_a = self.quantised_factor("A", a, &self.scale_a, Axis(1))?;
        let scale_b = self.quantised_factor("B", b, &self.scale_b, Axis(0))?;
        let scaled = self.clone().block_scales(&a.scale_codes(), &b.scale_codes());
        scaled.scale_a(scale_a).scale_b(scale_b).run(&a.element_codes(), &b.element_codes())
    }

    /// The factor of an operand whose blocks are what the unit takes.
    fn quantised_factor(&self, name: &str, x: &Quantised, given: &Scaling, axis: Axis) -> Result<Scaling, Error> {
        let (unit, kind) = (self.unit, |format, block| format!("{format} scales in blocks of {block}"));
        let theirs = kind(x.scale_format, x.block);
        let why = match unit.scale {
            None => format!("{unit} takes no block scales, {name} has {theirs}"),
            Some(rule) if (rule.format, rule.block) != (x.scale_format, x.block) => {
                format!("{unit} takes {}, {name} has {theirs}", kind(rule.format, rule.block))
            }
            _ if x.axis != axis => format!("{name} is quantised along {:?}, K is {axis:?}", x.axis),
            _ if x.tensor_scale == 1.0 => return Ok(given.clone()),
            _ if *given == Scaling::One => return Ok(Scaling::Tensor(x.tensor_scale)),
            _ => format!("{name} brings a tensor scale, {}: a factor beside it must be part of it", x.tensor_scale),
        };
        Err(Error::Product(why))
    }

    /// Computes D with elements of another type. A type that holds every number of the unit's d
    /// gets D unrounded; a narrower one is D's type.
    ///
    /// # Errors
    /// As [`Gemm::run`].
    pub fn run_as<T: Format>(
        &self,
        a: &(impl Matrix + ?Sized),
        b: &(impl Matrix + ?Sized),
    ) -> Result<Array2<T>, Error> {
        let (left, right) = (a.reader(), b.reader());
        let size = check_product(left.shape(), right.shape())?;
        let mut d = blank(Ix2(size[0], size[1]))?;
        let format = self.output_format(&spec_of::<T>())?;
        let mut sink = Values { array: d.view_mut(), d: format };
        let request = request([a.format(), b.format()], None, format);
        Workspace::lend(size, |workspace| self.compute(&request, [&left, &right], &mut sink, workspace))?;
        Ok(d)
    }

    /// Computes D in place, with the buffers of a workspace. Where beta is not zero and
    /// [`Gemm::c`] names no other, C is what stands in `d`.
    ///
    /// # Errors
    /// As [`Gemm::run`]. Nothing is written unless the product could begin.
    pub fn run_into<T: Format>(
        &self,
        a: &(impl Matrix + ?Sized),
        b: &(impl Matrix + ?Sized),
        d: &mut ArrayRef<T, Ix2>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let format = self.output_format(&spec_of::<T>())?;
        let mut sink = Values { array: d.view_mut(), d: format };
        let (left, right) = (a.reader(), b.reader());
        let request = request([a.format(), b.format()], Some(T::SPEC), format);
        self.compute(&request, [&left, &right], &mut sink, workspace)
    }

    /// The strided function underneath: D as codes of its format. As [`Gemm::run_into`].
    ///
    /// # Errors
    /// As [`Gemm::run`].
    pub fn run_codes(
        &self,
        a: &(impl Matrix + ?Sized),
        b: &(impl Matrix + ?Sized),
        mut d: CodesMut<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let format = self.wanted().unwrap_or(self.unit.d);
        self.plan.check_output(self.unit, &format)?;
        if d.width() < format.storage_bits {
            return Err(Error::shape(
                "D",
                format!("at least {} bits wide", format.storage_bits),
                d.width().to_string(),
            ));
        }
        let (left, right) = (a.reader(), b.reader());
        let request = request([a.format(), b.format()], Some(format), format);
        self.compute(&request, [&left, &right], &mut d, workspace)
    }

    /// The codes of some elements of D, without computing the others: a spot check of a large
    /// product costs a few dot products.
    ///
    /// # Errors
    /// As [`Gemm::run`], and for elements outside D.
    pub fn elements(
        &self,
        a: &(impl Matrix + ?Sized),
        b: &(impl Matrix + ?Sized),
        at: &[[usize; 2]],
    ) -> Result<Vec<u64>, Error> {
        self.pick([&a.reader(), &b.reader()], [a.format(), b.format()], at, None)
    }

    /// Element (i, j) of D by its code, and a drawing of how it comes about: every step of the unit,
    /// and every slice, promotion, sum and rounding that the plan adds.
    ///
    /// # Errors
    /// As [`Gemm::run`], and for elements outside D.
    pub fn trace(
        &self,
        a: &(impl Matrix + ?Sized),
        b: &(impl Matrix + ?Sized),
        at: [usize; 2],
    ) -> Result<(u64, String), Error> {
        self.trace_element([&a.reader(), &b.reader()], [a.format(), b.format()], at)
    }

    /// A batch of products: A is batch x M x K and B batch x K x N; a batch of 1 is used for all.
    /// C, scales and bias are those of every product.
    ///
    /// # Errors
    /// As [`Gemm::run`].
    pub fn run_batch<A: Format, B: Format>(
        &self,
        a: &ArrayRef<A, Ix3>,
        b: &ArrayRef<B, Ix3>,
    ) -> Result<Array3<D>, Error> {
        if self.factor_of_c() != 0.0 && self.c.is_none() {
            return Err(no_addend());
        }
        let batch = if a.dim().0 == 1 { b.dim().0 } else { a.dim().0 };
        let mut d = blank(Ix3(batch, a.dim().1, b.dim().2))?;
        self.run_batch_into(a, b, &mut d, &mut Workspace::new())?;
        Ok(d)
    }

    /// The same in place: where beta is not zero and [`Gemm::c`] names no other, every product's C
    /// is what stands in its part of `d`.
    ///
    /// # Errors
    /// As [`Gemm::run`]; the products before one that fails are written by then.
    pub fn run_batch_into<A: Format, B: Format, T: Format>(
        &self,
        a: &ArrayRef<A, Ix3>,
        b: &ArrayRef<B, Ix3>,
        d: &mut ArrayRef<T, Ix3>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        check_product([a.dim().1, a.dim().2], [b.dim().1, b.dim().2])?;
        let batch = d.dim().0;
        for (name, found) in [("A", a.dim().0), ("B", b.dim().0)] {
            if found != batch && found != 1 {
                return Err(Error::shape(name, format!("a batch of {batch} or 1"), format!("one of {found}")));
            }
        }
        let format = self.output_format(&spec_of::<T>())?;
        let request = request([Some(spec_of::<A>()), Some(spec_of::<B>())], Some(T::SPEC), format);
        self.compute_batch(&request, &mut Stack { a: a.view(), b: b.view(), d: d.view_mut(), format }, workspace)
    }
}

/// The products of three-dimensional arrays; an operand of one matrix is that of all.
struct Stack<'a, A, B, D> {
    a: ArrayView3<'a, A>,
    b: ArrayView3<'a, B>,
    d: ArrayViewMut3<'a, D>,
    format: FormatSpec,
}

impl<'a, A, B, D> Stack<'a, A, B, D> {
    fn a(&self, t: usize) -> View<'a, A> {
        self.a.index_axis_move(Axis(0), if self.a.dim().0 == 1 { 0 } else { t }).into()
    }

    fn b(&self, t: usize) -> View<'a, B> {
        self.b.index_axis_move(Axis(0), if self.b.dim().0 == 1 { 0 } else { t }).into()
    }
}

impl<A: Format, B: Format, D: Format> Batch for Stack<'_, A, B, D> {
    fn count(&self) -> usize {
        self.d.dim().0
    }

    fn expect(&self, t: usize) {
        if t < self.count() {
            self.a(t).prefetch();
            self.b(t).prefetch();
            View::from(self.d.index_axis(Axis(0), t)).prefetch();
        }
    }

    fn dense(&mut self) -> Option<Dense<'_>> {
        let operands = [codes(self.a.as_slice()?)?, codes(self.b.as_slice()?)?];
        let d = self.d.as_slice_mut().filter(|_| D::SPEC == self.format)?;
        let d = match size_of::<D>() {
            2 => DenseMut::Half(words_mut(d)?),
            _ => DenseMut::Single(words_mut(d)?),
        };
        Some(Dense { operands, d })
    }

    fn stacked(&mut self, f: &mut OnProduct<'_>) -> Option<Result<(), Error>> {
        let ((batch, m, n), k) = (self.d.dim(), self.a.dim().2);
        if batch < 2 || self.a.dim() != (batch, m, k) || self.b.dim() != (1, k, n) {
            return None;
        }
        let rows = batch.checked_mul(m)?;
        let a = self.a.into_shape_with_order((rows, k)).ok()?;
        let b = self.b(0);
        let array = self.d.view_mut().into_shape_with_order((rows, n)).ok()?;
        Some(f([&View::from(a), &b], &mut Values { array, d: self.format }))
    }

    fn product(&mut self, t: usize, f: &mut OnProduct<'_>) -> Result<(), Error> {
        let (a, b) = (self.a(t), self.b(t));
        f([&a, &b], &mut Values { array: self.d.index_axis_mut(Axis(0), t), d: self.format })
    }
}

/// Numbers of at most 32 bits as their codes, where those are the bits in memory.
fn codes<T: Format>(numbers: &[T]) -> Option<DenseCodes<'_>> {
    let narrow = || words(numbers).map(DenseCodes::Byte).or_else(|| words(numbers).map(DenseCodes::Word));
    words(numbers).map(DenseCodes::Half).or_else(narrow)
}

/// Room for a result, in zeros.
pub(super) fn blank<T: Format, S: Dimension>(dim: S) -> Result<Array<T, S>, Error> {
    filled("D", T::SPEC.name, T::from_bits(0), dim)
}

/// Room for an array of elements of a kind, or an error where memory has none.
pub(super) fn filled<T: Clone, S: Dimension>(name: &str, kind: &str, element: T, dim: S) -> Result<Array<T, S>, Error> {
    let sizes = dim.clone();
    let too_large = || {
        let sizes = sizes.slice().iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        Error::TooLarge { operand: name.into(), size: format!("{sizes} elements of {kind}") }
    };
    let size = dim.slice().iter().try_fold(1usize, |n, &next| n.checked_mul(next)).ok_or_else(&too_large)?;
    let mut elements = Vec::new();
    elements.try_reserve_exact(size).map_err(|_| too_large())?;
    elements.resize(size, element);
    Array::from_shape_vec(dim, elements).map_err(|_| too_large())
}

/// What [`Gemm::compute`] is asked for when all of D is wanted.
const fn request(formats: [Option<FormatSpec>; 2], in_place: Option<FormatSpec>, out: FormatSpec) -> Request<'static> {
    Request { formats, in_place, out, only: None, log: None }
}
