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
use ndarray::{Array1, Array2, ArrayBase, ArrayRef, ArrayRef2, Axis, Data, Ix1, Ix2};

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
/// let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
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

/// [`DotOn`] of arrays and references to arrays, both as operands of either side.
macro_rules! dot_on {
    ($left:ty, $right:ty, $output:ty, |$a:ident, $b:ident, $unit:ident| $product:expr) => {
        impl<A: Format, B: Format, U: Takes<A, B>> DotOn<ArrayRef<B, $right>, U> for ArrayRef<A, $left> {
            type Output = $output;

            fn dot_on(&self, rhs: &ArrayRef<B, $right>, $unit: &U) -> Result<Self::Output, Error> {
                let ($a, $b) = (self.view(), rhs.view());
                $product
            }
        }

        impl<A, B, S, U> DotOn<ArrayBase<S, $right>, U> for ArrayRef<A, $left>
        where
            A: Format,
            B: Format,
            S: Data<Elem = B>,
            U: Takes<A, B>,
        {
            type Output = $output;

            fn dot_on(&self, rhs: &ArrayBase<S, $right>, unit: &U) -> Result<Self::Output, Error> {
                self.dot_on(&**rhs, unit)
            }
        }

        impl<A, B, S, U> DotOn<ArrayRef<B, $right>, U> for ArrayBase<S, $left>
        where
            A: Format,
            B: Format,
            S: Data<Elem = A>,
            U: Takes<A, B>,
        {
            type Output = $output;

            fn dot_on(&self, rhs: &ArrayRef<B, $right>, unit: &U) -> Result<Self::Output, Error> {
                (**self).dot_on(rhs, unit)
            }
        }

        impl<A, B, S, R, U> DotOn<ArrayBase<R, $right>, U> for ArrayBase<S, $left>
        where
            A: Format,
            B: Format,
            S: Data<Elem = A>,
            R: Data<Elem = B>,
            U: Takes<A, B>,
        {
            type Output = $output;

            fn dot_on(&self, rhs: &ArrayBase<R, $right>, unit: &U) -> Result<Self::Output, Error> {
                (**self).dot_on(&**rhs, unit)
            }
        }
    };
}

dot_on!(Ix2, Ix2, Array2<U::D>, |a, b, unit| product(&a.into(), &b.into(), unit));
dot_on!(Ix2, Ix1, Array1<U::D>, |a, b, unit| {
    Ok(product(&a.into(), &b.insert_axis(Axis(1)).into(), unit)?.remove_axis(Axis(1)))
});
dot_on!(Ix1, Ix2, Array1<U::D>, |a, b, unit| {
    Ok(product(&a.insert_axis(Axis(0)).into(), &b.into(), unit)?.remove_axis(Axis(0)))
});
dot_on!(Ix1, Ix1, U::D, |a, b, unit| {
    Ok(product(&a.insert_axis(Axis(0)).into(), &b.insert_axis(Axis(1)).into(), unit)?[[0, 0]])
});

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
    a: &ArrayRef2<A>,
    b: &ArrayRef2<B>,
    beta: impl Into<f64>,
    c: &mut ArrayRef2<D>,
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
