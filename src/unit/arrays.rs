//! Dot-adds and instructions on values and arrays, whose types are the unit's formats.

use super::Unit;
use crate::error::Error;
use crate::format::{Format, FormatSpec};
use crate::gemm::{Gemm, Plan, Source, Start, Values, Workspace, plain};
use crate::instr::Shape;
use crate::view::View;
use ndarray::{Array, ArrayBase, ArrayRef, Axis, Dimension, Ix2, Ix3, RawData};

impl Unit {
    /// One dot-add on values.
    ///
    /// # Errors
    /// When a type's format is not the unit's, or a slice has the wrong length.
    pub fn dot_add<A: Format, B: Format, C: Format, D: Format>(&self, a: &[A], b: &[B], c: C) -> Result<D, Error> {
        self.check_formats::<A, B, C, D>()?;
        let bits = self.dot_add_bits(&codes(a), &codes(b), c.to_bits())?;
        Ok(D::from_bits(bits))
    }

    /// One whole instruction on arrays: two-dimensional (M x K, K x N, M x N), or with a leading
    /// axis of length [`UnitInfo::blocks`](crate::unit::UnitInfo::blocks).
    ///
    /// # Errors
    /// When a type's format is not the unit's, a shape is wrong, or the unit needs scales.
    pub fn mma<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayRef<A, I>,
        b: &ArrayRef<B, I>,
        c: &ArrayRef<C, I>,
    ) -> Result<Array<D, I>, Error> {
        self.check_formats::<A, B, C, D>()?;
        self.mma_typed(a, b, c)
    }

    /// The same for types whose formats are known to be the unit's.
    pub(crate) fn mma_typed<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayRef<A, I>,
        b: &ArrayRef<B, I>,
        c: &ArrayRef<C, I>,
    ) -> Result<Array<D, I>, Error> {
        let Shape { m, n, k } = self.shape;
        self.check_tile("A", a.shape(), m, k)?;
        self.check_tile("B", b.shape(), k, n)?;
        self.check_tile("C", c.shape(), m, n)?;
        if self.has_fast_tiles() {
            return self.tiles(a, b, c);
        }
        let bits = self.mma_bits(&array_codes(a), &array_codes(b), &array_codes(c))?;
        tile(c.raw_dim(), bits)
    }

    /// Whether an instruction is a product that starts at C: not where an accumulator of its own may look at NaN's
    /// bits.
    fn has_fast_tiles(&self) -> bool {
        self.recipe.is_some() && self.scale.is_none() && crate::gemm::takes_c(self)
    }

    /// Instructions as products that start at C, one for each block.
    fn tiles<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayRef<A, I>,
        b: &ArrayRef<B, I>,
        c: &ArrayRef<C, I>,
    ) -> Result<Array<D, I>, Error> {
        let mut d = Array::from_elem(c.raw_dim(), D::from_bits(0));
        let (a, b, c) = (a.view(), b.view(), c.view());
        let same = C::SPEC == D::SPEC;
        Workspace::lend([self.shape.m, self.shape.n, self.shape.k], |workspace| {
            for t in 0..self.blocks {
                let (a, b, c) = (matrix(a.clone(), t)?, matrix(b.clone(), t)?, matrix(c.clone(), t)?);
                let mut sink = Values { array: matrix(d.view_mut(), t)?, d: D::SPEC };
                let operands: [&dyn Source; 2] = [&View::from(a), &View::from(b)];
                if same && plain(self, operands, Some(&View::from(c)), &mut sink, workspace) {
                    continue;
                }
                let gemm = Gemm::on(self).threads(1).plan(Plan::in_order().start(Start::C)).beta(1.0);
                gemm.c(&c).run_into(&a, &b, &mut matrix(d.view_mut(), t)?, workspace)?;
            }
            Ok::<_, Error>(())
        })?;
        Ok(d)
    }

    /// One whole block-scaled instruction on arrays: as [`Unit::mma`], with `scale_a` of
    /// M x [`Unit::scales`] and `scale_b` of [`Unit::scales`] x N.
    ///
    /// # Errors
    /// When a type's format is not the unit's, or a shape is wrong.
    pub fn mma_scaled<A: Format, B: Format, C: Format, D: Format, S: Format, I: Dimension>(
        &self,
        a: &ArrayRef<A, I>,
        b: &ArrayRef<B, I>,
        c: &ArrayRef<C, I>,
        scale_a: &ArrayRef<S, I>,
        scale_b: &ArrayRef<S, I>,
    ) -> Result<Array<D, I>, Error> {
        self.check_formats::<A, B, C, D>()?;
        let Some(rule) = self.scale else {
            return Err(Error::shape("scales", "absent: this unit has none", "given"));
        };
        check_format("scale", &rule.format, &S::SPEC)?;
        let (Shape { m, n, k }, s) = (self.shape, self.scales());
        self.check_tile("A", a.shape(), m, k)?;
        self.check_tile("B", b.shape(), k, n)?;
        self.check_tile("C", c.shape(), m, n)?;
        self.check_tile("scale_a", scale_a.shape(), m, s)?;
        self.check_tile("scale_b", scale_b.shape(), s, n)?;
        let (sa, sb) = (array_codes(scale_a), array_codes(scale_b));
        let bits = self.mma_scaled_bits(&array_codes(a), &array_codes(b), &array_codes(c), &sa, &sb)?;
        tile(c.raw_dim(), bits)
    }

    fn check_formats<A: Format, B: Format, C: Format, D: Format>(&self) -> Result<(), Error> {
        check_format("A", &self.a, &A::SPEC)?;
        check_format("B", &self.b, &B::SPEC)?;
        check_format("C", &self.c, &C::SPEC)?;
        check_format("D", &self.d, &D::SPEC)
    }

    fn check_tile(&self, operand: &str, found: &[usize], rows: usize, columns: usize) -> Result<(), Error> {
        let fits = match *found {
            [r, c] => self.blocks == 1 && r == rows && c == columns,
            [b, r, c] => b == self.blocks && r == rows && c == columns,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = if self.blocks == 1 {
            format!("{rows} x {columns}")
        } else {
            format!("{} x {rows} x {columns} (blocks first)", self.blocks)
        };
        Err(Error::shape(operand, expected, format!("{found:?}")))
    }
}

fn check_format(operand: &'static str, expected: &FormatSpec, found: &FormatSpec) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Format { operand, expected: expected.name, found: found.name })
}

fn codes<T: Format>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn array_codes<T: Format, I: Dimension>(array: &ArrayRef<T, I>) -> Vec<u64> {
    array.iter().map(|x| x.to_bits()).collect()
}

/// Matrix `t` of a stack, or the only one.
fn matrix<S: RawData, I: Dimension>(array: ArrayBase<S, I>, t: usize) -> Result<ArrayBase<S, Ix2>, Error> {
    let axes = array.ndim();
    let matrix = match axes {
        2 => array.into_dimensionality(),
        _ => array.into_dimensionality::<Ix3>().map(|stack| stack.index_axis_move(Axis(0), t)),
    };
    matrix.map_err(|_| Error::shape("a tile", "two or three axes", axes.to_string()))
}

fn tile<D: Format, I: Dimension>(shape: I, bits: Vec<u64>) -> Result<Array<D, I>, Error> {
    let values = bits.into_iter().map(D::from_bits).collect();
    Array::from_shape_vec(shape, values).map_err(|e| Error::shape("D", "as large as C", e.to_string()))
}
