//! Products that look like ndarray's own: `a.dot_on(&b, &unit)`, `general_mat_mul_on`.

use super::builder::{Gemm, blank};
use super::sink::Values;
use super::small::{is_small, plain};
use super::workspace::Workspace;
use crate::arch::Arch;
use crate::error::Error;
use crate::format::Format;
use crate::instr::Instruction;
use crate::mma::MmaUnit;
use crate::unit::{AsUnit, Unit};
use crate::view::View;
use ndarray::{Array1, Array2, ArrayBase, Axis, Data, DataMut, Ix1, Ix2};

/// That a unit takes operands of these types: a typed unit its instruction's, a named one any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not multiply `{A}` by `{B}`",
    label = "the instruction takes other operand types",
    note = "to round operands to the instruction's types, use `Gemm::on(&unit).run(&a, &b)`"
)]
pub trait Takes<A, B>: AsUnit {}

/// That two types are one: what the instruction takes, and what it is given.
#[diagnostic::on_unimplemented(
    message = "the instruction multiplies `{Self}`, not `{T}`",
    label = "the instruction takes other operand types",
    note = "to round operands to the instruction's types, use `Gemm::on(&unit).run(&a, &b)`"
)]
pub trait SameAs<T> {}

impl<T> SameAs<T> for T {}

impl<A: Format, B: Format> Takes<A, B> for Unit {}
impl<R: Arch, I: Instruction, Acc, A, B> Takes<A, B> for MmaUnit<R, I, Acc>
where
    I::A: SameAs<A>,
    I::B: SameAs<B>,
{
}

/// That a unit's results are of this type: a typed unit's its instruction's D, a named one's any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not give `{D}`",
    label = "the instruction gives another type",
    note = "to round the result to another type, use `Gemm::on(&unit).run_as::<T>(&a, &b)`"
)]
pub trait Gives<D>: AsUnit {}

impl<D: Format> Gives<D> for Unit {}
impl<R: Arch, I: Instruction, Acc> Gives<I::D> for MmaUnit<R, I, Acc> {}

/// Products on a unit, like ndarray's `dot`: matrix by matrix, matrix by vector, vector by matrix,
/// vector by vector.
///
#[cfg_attr(feature = "half", doc = "```")]
#[cfg_attr(not(feature = "half"), doc = "```ignore")]
/// use gemmulate::prelude::*;
/// use half::f16;
/// use ndarray::{Array2, arr2};
/// let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
/// let a = arr2(&[[1.5, -2.0], [0.25, 3.0]]).mapv(f16::from_f32);
/// let d: Array2<f32> = a.dot_on(&a.t(), &h100)?;
/// assert_eq!(d, arr2(&[[6.25, -5.625], [-5.625, 9.0625]]));
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// Operand types that the unit does not take do not compile:
///
#[cfg_attr(feature = "half", doc = "```compile_fail")]
#[cfg_attr(not(feature = "half"), doc = "```ignore")]
/// use gemmulate::prelude::*;
/// use ndarray::Array2;
/// let h100 = MmaUnit::<Hopper, Wgmma<128, half::f16, half::f16, f32>>::new();
/// let a = Array2::<f32>::zeros((2, 2));
/// let d = a.dot_on(&a, &h100);
/// ```
pub trait DotOn<Rhs: ?Sized, U: ?Sized> {
    /// What comes out.
    type Output;

    /// The product on a unit, one instruction after another in K order, operands of other types
    /// rounded to nearest even.
    ///
    /// # Errors
    /// When the shapes do not fit, the unit needs scales, or a value has no code in its format.
    fn dot_on(&self, rhs: &Rhs, unit: &U) -> Result<Self::Output, Error>;
}

impl<A, B, S, R, U> DotOn<ArrayBase<R, Ix2>, U> for ArrayBase<S, Ix2>
where
    A: Format,
    B: Format,
    S: Data<Elem = A>,
    R: Data<Elem = B>,
    U: Takes<A, B>,
{
    type Output = Array2<U::D>;

    fn dot_on(&self, rhs: &ArrayBase<R, Ix2>, unit: &U) -> Result<Self::Output, Error> {
        product(&self.into(), &rhs.into(), unit)
    }
}

impl<A, B, S, R, U> DotOn<ArrayBase<R, Ix1>, U> for ArrayBase<S, Ix2>
where
    A: Format,
    B: Format,
    S: Data<Elem = A>,
    R: Data<Elem = B>,
    U: Takes<A, B>,
{
    type Output = Array1<U::D>;

    fn dot_on(&self, rhs: &ArrayBase<R, Ix1>, unit: &U) -> Result<Self::Output, Error> {
        let column = View::from(rhs.view().insert_axis(Axis(1)));
        Ok(product(&self.into(), &column, unit)?.remove_axis(Axis(1)))
    }
}

impl<A, B, S, R, U> DotOn<ArrayBase<R, Ix2>, U> for ArrayBase<S, Ix1>
where
    A: Format,
    B: Format,
    S: Data<Elem = A>,
    R: Data<Elem = B>,
    U: Takes<A, B>,
{
    type Output = Array1<U::D>;

    fn dot_on(&self, rhs: &ArrayBase<R, Ix2>, unit: &U) -> Result<Self::Output, Error> {
        let row = View::from(self.view().insert_axis(Axis(0)));
        Ok(product(&row, &rhs.into(), unit)?.remove_axis(Axis(0)))
    }
}

impl<A, B, S, R, U> DotOn<ArrayBase<R, Ix1>, U> for ArrayBase<S, Ix1>
where
    A: Format,
    B: Format,
    S: Data<Elem = A>,
    R: Data<Elem = B>,
    U: Takes<A, B>,
{
    type Output = U::D;

    fn dot_on(&self, rhs: &ArrayBase<R, Ix1>, unit: &U) -> Result<Self::Output, Error> {
        let row = View::from(self.view().insert_axis(Axis(0)));
        let column = View::from(rhs.view().insert_axis(Axis(1)));
        Ok(product(&row, &column, unit)?[[0, 0]])
    }
}

/// A product as it comes; a small one of the unit's own formats without a [`Gemm`], if that works.
fn product<A: Format, B: Format, U: Takes<A, B>>(
    a: &View<'_, A>,
    b: &View<'_, B>,
    unit: &U,
) -> Result<Array2<U::D>, Error> {
    let (own, [m, k], [rows, n]) = (unit.as_unit(), a.shape(), b.shape());
    if rows != k || !is_small(own, [m, n, k]) || [own.a, own.b, own.d] != [A::SPEC, B::SPEC, U::D::SPEC] {
        return Gemm::on(unit).run(a, b);
    }
    let mut d = blank(Ix2(m, n))?;
    Workspace::lend([m, n, k], |workspace| {
        let mut sink = Values { array: d.view_mut(), d: own.d };
        if plain(own, [a, b], None, &mut sink, workspace) {
            return Ok(());
        }
        Gemm::on(unit).run_into(a, b, &mut d, workspace)
    })?;
    Ok(d)
}

/// `C <- alpha A B + beta C` on a unit, like ndarray's `general_mat_mul`: the accumulator starts
/// at +0 and C enters in the epilogue, `fma(beta, C, alpha acc)`.
///
/// With `beta` 0, what stands in C is never read.
///
/// # Errors
/// When the shapes do not fit, the unit needs scales, or a value has no code in its format.
pub fn general_mat_mul_on<A, B, D, U>(
    alpha: impl Into<f64>,
    a: &ArrayBase<impl Data<Elem = A>, Ix2>,
    b: &ArrayBase<impl Data<Elem = B>, Ix2>,
    beta: impl Into<f64>,
    c: &mut ArrayBase<impl DataMut<Elem = D>, Ix2>,
    unit: &U,
) -> Result<(), Error>
where
    A: Format,
    B: Format,
    D: Format,
    U: Takes<A, B> + Gives<D>,
{
    let size = [a.nrows(), b.ncols(), a.ncols()];
    Workspace::lend(size, |workspace| Gemm::on(unit).alpha(alpha).beta(beta).run_into(a, b, c, workspace))
}
