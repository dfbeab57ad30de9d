//! How far a product is from the exact one.

use crate::error::Error;
use crate::format::FormatSpec;
use ndarray::{Array2, ArrayBase, Data, Ix2};
use rayon::prelude::*;

/// The product that a unit's is measured against.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its elements.
    pub product: Array2<f64>,
    /// Whether every element is the exact sum rounded once; else it was summed in twice f64's
    /// precision.
    pub exact: bool,
}

/// The product of two matrices as exactly as f64 can tell: exact integer sums, rounded once, where
/// the elements' exponents lie close enough together; else sums in twice the precision of f64.
///
/// # Errors
/// When the shapes do not fit.
pub fn reference<S: Data<Elem = f64>, R: Data<Elem = f64>>(
    a: &ArrayBase<S, Ix2>,
    b: &ArrayBase<R, Ix2>,
) -> Result<Reference, Error> {
    if a.ncols() != b.nrows() {
        let found = format!("{} x {}", b.nrows(), b.ncols());
        return Err(Error::shape("B", format!("{} x N", a.ncols()), found));
    }
    let (a, b) = (a.as_standard_layout(), b.t().as_standard_layout().into_owned());
    let (m, n) = (a.nrows(), b.nrows());
    let too_large = || Error::shape("D", "small enough for this machine's memory", format!("{m} x {n}"));
    let (mut product, size) = (Vec::new(), m.checked_mul(n).ok_or_else(too_large)?);
    product.try_reserve_exact(size).map_err(|_| too_large())?;
    product.resize(size, 0.0);
    let integers = fixed(a.iter())
        .zip(fixed(b.iter()))
        .filter(|((_, _, bits_a), (_, _, bits_b))| bits_a + bits_b + a.ncols().max(1).ilog2() < 125);
    let exact = integers.is_some();
    let k = a.ncols();
    let rows = product.par_chunks_mut(n.max(1)).enumerate();
    match &integers {
        Some(((a, unit_a, _), (b, unit_b, _))) => rows.for_each(|(i, row)| {
            for (j, d) in row.iter_mut().enumerate() {
                let pairs = a[i * k..(i + 1) * k].iter().zip(&b[j * k..(j + 1) * k]);
                let sum: i128 = pairs.map(|(&x, &y)| i128::from(x) * i128::from(y)).sum();
                *d = scaled(sum, unit_a + unit_b);
            }
        }),
        None => rows.for_each(|(i, row)| {
            for (j, d) in row.iter_mut().enumerate() {
                *d = compensated(a.row(i).iter().zip(b.row(j)).map(|(&x, &y)| (x, y)));
            }
        }),
    }
    let product = Array2::from_shape_vec((m, n), product);
    let product = product.map_err(|e| Error::shape("D", format!("{m} x {n}"), e.to_string()))?;
    Ok(Reference { product, exact })
}

/// Numbers as integers in units of a common power of two, that power, and the bits they take; `None`
/// where they do not fit or are not finite.
fn fixed<'a>(x: impl Iterator<Item = &'a f64> + Clone) -> Option<(Vec<i64>, i32, u32)> {
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for &x in x.clone() {
        if !x.is_finite() {
            return None;
        }
        if x != 0.0 {
            let (significand, exponent) = parts(x);
            low = low.min(exponent + significand.trailing_zeros() as i32);
            high = high.max(exponent + 64 - significand.leading_zeros() as i32);
        }
    }
    if low == i32::MAX {
        return Some((vec![0; x.count()], 0, 1));
    }
    let bits = (high - low) as u32;
    if bits > 62 {
        return None;
    }
    let integer = |&x: &f64| {
        if x == 0.0 {
            return 0;
        }
        let (significand, exponent) = parts(x);
        let by = exponent - low;
        let magnitude = if by >= 0 { significand << by } else { significand >> -by };
        if x < 0.0 { -(magnitude as i64) } else { magnitude as i64 }
    };
    Some((x.map(integer).collect(), low, bits))
}

/// A finite number's integer significand and the exponent of its last bit.
fn parts(x: f64) -> (u64, i32) {
    let (field, fraction) = ((x.to_bits() >> 52 & 0x7FF) as i32, x.to_bits() & ((1 << 52) - 1));
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

/// `sum * 2^unit`, rounded once unless the result is subnormal.
fn scaled(sum: i128, unit: i32) -> f64 {
    // The conversion rounds to nearest even; the powers of two are exact within f64's range.
    let half = unit / 2;
    sum as f64 * 2f64.powi(half) * 2f64.powi(unit - half)
}

/// Ogita, Rump and Oishi's Dot2: a sum of products as if in twice the precision.
fn compensated(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0f64);
    for (x, y) in pairs {
        let product = x * y;
        let low = x.mul_add(y, -product);
        let next = sum + product;
        let part = next - sum;
        rest += ((sum - (next - part)) + (product - part)) + low;
        sum = next;
    }
    if rest.is_finite() { sum + rest } else { sum }
}

/// Errors of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// max |d - r|.
    pub max_abs: f64,
    /// max |d - r| in units of D's last place at r.
    pub max_ulp: f64,
    /// Frobenius norm of D - R over that of R.
    pub relative_frobenius: f64,
    /// Mean of d - r, with its sign.
    pub bias: f64,
    /// Elements that are NaN or infinite in one of the two; the other numbers leave them out, and are 0 if nothing is left.
    pub special: usize,
    /// The elements that count.
    pub counted: usize,
}

/// Compares a product, in numbers of `format`, with a reference.
///
/// # Errors
/// When the shapes differ.
pub fn errors<S: Data<Elem = f64>>(
    d: &ArrayBase<S, Ix2>,
    reference: &Array2<f64>,
    format: &FormatSpec,
) -> Result<Errors, Error> {
    if d.dim() != reference.dim() {
        return Err(Error::shape("D", format!("{:?}", reference.dim()), format!("{:?}", d.dim())));
    }
    let (mut e, mut sum, mut squares, mut norm) = (Errors::default(), 0.0, 0.0, 0.0);
    for (&d, &r) in d.iter().zip(reference) {
        if !d.is_finite() || !r.is_finite() {
            e.special += 1;
            continue;
        }
        let error = d - r;
        e.max_abs = e.max_abs.max(error.abs());
        e.max_ulp = e.max_ulp.max(error.abs() / ulp(r, format));
        sum += error;
        squares += error * error;
        norm += r * r;
        e.counted += 1;
    }
    e.bias = if e.counted > 0 { sum / e.counted as f64 } else { 0.0 };
    e.relative_frobenius = if norm > 0.0 { (squares / norm).sqrt() } else { squares.sqrt() };
    Ok(e)
}

/// The unit in the last place of a format at a number.
pub fn ulp(x: f64, format: &FormatSpec) -> f64 {
    let (significand, exponent) = parts(x);
    let lead = if significand == 0 { i32::MIN } else { exponent + 63 - significand.leading_zeros() as i32 };
    2f64.powi(lead.max(format.emin()) - format.fraction_bits as i32)
}

/// How many elements of two products differ in their bits, and where first (row by row).
///
/// # Errors
/// When the shapes differ.
pub fn bit_differences(x: &Array2<u64>, y: &Array2<u64>) -> Result<(usize, Option<[usize; 2]>), Error> {
    if x.dim() != y.dim() {
        return Err(Error::shape("D", format!("{:?}", x.dim()), format!("{:?}", y.dim())));
    }
    let mut differ = x.indexed_iter().zip(y).filter(|((_, a), b)| a != b).map(|((at, _), _)| [at.0, at.1]);
    let first = differ.next();
    Ok((differ.count() + usize::from(first.is_some()), first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    #[test]
    fn exact_and_compensated_products() {
        let a = arr2(&[[1.0, 2f64.powi(-30), -1.0]]);
        let b = arr2(&[[1.0], [2f64.powi(-30)], [1.0]]);
        let r = reference(&a, &b).expect("fits");
        assert!(r.exact);
        assert_eq!(r.product[[0, 0]], 2f64.powi(-60));
        let r = reference(&(&a * 1e200), &(&b * 1e-300)).expect("fits");
        assert!((r.product[[0, 0]] / (2f64.powi(-60) * 1e-100) - 1.0).abs() < 1e-10);
        assert!(reference(&arr2(&[[0.0, 448.0]]), &arr2(&[[-0.0], [3.0]])).expect("fits").exact);
        assert_eq!(reference(&arr2(&[[0.0]]), &arr2(&[[0.0]])).expect("fits").product[[0, 0]], 0.0);
        let wide = arr2(&[[1e300, 1.0, -1e300]]);
        let r = reference(&wide, &arr2(&[[1.0], [3.0], [1.0]])).expect("fits");
        assert!(!r.exact);
        assert_eq!(r.product[[0, 0]], 3.0);
        assert!(reference(&a, &a).is_err());
    }

    #[test]
    fn errors_in_all_measures() {
        let format = crate::format::F16;
        let e = errors(&arr2(&[[1.0, 2.5], [f64::NAN, 0.0]]), &arr2(&[[1.0, 2.0], [1.0, 0.0]]), &format).expect("fits");
        assert_eq!((e.max_abs, e.max_ulp, e.special), (0.5, 0.5 / 2f64.powi(-9), 1));
        assert_eq!(e.bias, 0.5 / 3.0);
        assert_eq!(ulp(0.0, &format), 2f64.powi(-24));
    }
}
