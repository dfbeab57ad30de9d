//! How far a product is from the exact one.

use super::builder::filled;
use super::driver::{OnProgress, Progress};
use super::workspace::{Workspace, has_current_pool, within};
use crate::error::Error;
use crate::format::{F64, Format, FormatSpec, Overflow, Value, spec_of};
use crate::num;
use crate::round::Rounding;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ndarray::{Array2, ArrayRef2, ArrayView2, Ix2};
use rayon::prelude::*;

/// The product that a unit's is measured against.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reference {
    /// Its elements.
    pub product: Array2<f64>,
    /// Whether every element is the exact sum rounded once; else it was summed in twice f64's
    /// precision.
    pub exact: bool,
}

/// The product of two matrices of any format as exactly as f64 can tell: exact integer sums, rounded once, where
/// the elements' exponents lie close enough together; else sums in twice the precision of f64.
///
/// # Errors
/// When the shapes do not fit.
pub fn reference<A: Format, B: Format>(a: &ArrayRef2<A>, b: &ArrayRef2<B>) -> Result<Reference, Error> {
    reference_with(a, b, 0, &|_| ControlFlow::Continue(()))
}

/// [`reference()`] on so many threads (0 for all there are), told of its progress.
///
/// # Errors
/// As [`reference()`]; [`Error::Cancelled`] where `tell` breaks off.
pub fn reference_with<A: Format, B: Format>(
    a: &ArrayRef2<A>,
    b: &ArrayRef2<B>,
    threads: usize,
    tell: OnProgress<'_>,
) -> Result<Reference, Error> {
    if a.ncols() != b.nrows() {
        let found = format!("{} x {}", b.nrows(), b.ncols());
        return Err(Error::shape("B", format!("{} x N", a.ncols()), found));
    }
    let (a, b) = (values("A", a)?, values("B", b)?);
    let ([m, k], n) = ([a.nrows(), a.ncols()], b.ncols());
    let mut product = filled("D", F64.name, 0.0, Ix2(m, n))?;
    let integers = fixed(a.iter()).zip(fixed(b.iter())).filter(|(a, b)| a.bits + b.bits + k.max(1).ilog2() < 125);
    let exact = integers.is_some();
    let done = AtomicU64::new(0);
    let told = |rows: usize| {
        let macs = |rows: usize| (rows as u64).saturating_mul(n as u64).saturating_mul(k as u64);
        let done = done.fetch_add(macs(rows), Relaxed) + macs(rows);
        tell(Progress { done, total: macs(m) }).is_continue().then_some(()).ok_or(Error::Cancelled)
    };
    // In one piece, as new arrays are.
    let to = product.as_slice_mut().unwrap_or_default();
    let threaded = threads > 1 || (threads == 0 && has_current_pool());
    let work = Work { threaded, told: &told };
    let mut work = || match &integers {
        Some(integers) => exact_sums(integers, [m, n, k], to, work),
        None => compensated_sums(&a.view(), &b.view(), to, work),
    };
    if threads > 1 { within(&*Workspace::new().pool(threads)?, work)? } else { work() }?;
    Ok(Reference { product, exact })
}

/// How rows are worked on.
#[derive(Clone, Copy)]
struct Work<'a> {
    /// By the current pool's threads, or by the caller's alone.
    threaded: bool,
    /// Told of finished rows; an error stops the work.
    told: &'a (dyn Fn(usize) -> Result<(), Error> + Sync),
}

impl Work<'_> {
    /// Chunks of `size` elements of D, each as so many rows.
    fn chunks(self, to: &mut [f64], size: usize, f: impl Fn(usize, &mut [f64]) -> usize + Sync) -> Result<(), Error> {
        let chunk = |(i, to): (usize, &mut [f64])| (self.told)(f(i, to));
        if self.threaded {
            to.par_chunks_mut(size.max(1)).enumerate().try_for_each(chunk)
        } else {
            to.chunks_mut(size.max(1)).enumerate().try_for_each(chunk)
        }
    }
}

/// Exact sums by native products of slices, rounded once.
fn exact_sums((a, b): &(Fixed, Fixed), [m, n, k]: [usize; 3], to: &mut [f64], work: Work<'_>) -> Result<(), Error> {
    let (width, unit) = (slice_width(k), a.unit + b.unit);
    let slices_b = b.slices(width, 0..k, n);
    let threads = if work.threaded { rayon::current_num_threads() } else { 1 };
    let height = (m / (PARTS * threads)).min(TOGETHER / n.max(k).max(1)).max(ROWS);
    work.chunks(to, height * n, |block, to| {
        let rows = block * height..m.min((block + 1) * height);
        let mut sums = vec![0i128; to.len()];
        for (s, a) in a.slices(width, rows.clone(), k).iter().enumerate() {
            for (t, b) in slices_b.iter().enumerate() {
                let part = a.dot(b);
                let by = width * (s + t) as u32;
                sums.iter_mut().zip(&part).for_each(|(sum, &x)| *sum += i128::from(x as i64) << by);
            }
        }
        to.iter_mut().zip(sums).for_each(|(d, sum)| *d = scaled(sum, unit));
        rows.len()
    })
}

/// Sums in twice f64's precision.
fn compensated_sums(
    a: &ArrayView2<'_, f64>,
    b: &ArrayView2<'_, f64>,
    to: &mut [f64],
    work: Work<'_>,
) -> Result<(), Error> {
    let columns = b.t().as_standard_layout().into_owned();
    work.chunks(to, b.ncols(), |i, row| {
        for (j, d) in row.iter_mut().enumerate() {
            *d = compensated(a.row(i).iter().zip(columns.row(j)).map(|(&x, &y)| (x, y)));
        }
        1
    })
}

/// Elements of D, and of A, that are worked on together, at most; but so many rows at least. (For each such part native
/// products pack all of B anew.)
const TOGETHER: usize = 1 << 20;
const ROWS: usize = 64;
/// Parts for each thread, at least, if there are rows enough: a caller who is told of them may break off.
const PARTS: usize = 8;

/// Numbers as integers in units of a common power of two.
struct Fixed {
    integers: Vec<i64>,
    /// The power's exponent.
    unit: i32,
    /// Bits of the largest.
    bits: u32,
}

impl Fixed {
    /// Rows of `columns` integers cut into slices of `width` bits, the lowest first, each with its integer's sign.
    fn slices(&self, width: u32, rows: Range<usize>, columns: usize) -> Vec<Array2<f64>> {
        let slice = |at: u32| {
            let digit = |&x: &i64| {
                let magnitude = ((x.unsigned_abs() >> at) & ((1 << width) - 1)) as f64;
                if x < 0 { -magnitude } else { magnitude }
            };
            let size = (rows.len(), columns);
            Array2::from_shape_fn(size, |(i, j)| digit(&self.integers[(rows.start + i) * columns + j]))
        };
        (0..self.bits.max(1)).step_by(width as usize).map(slice).collect()
    }
}

/// Bits of slices whose products f64 sums without error, `k` of them (the splitting of Ozaki et al.).
fn slice_width(k: usize) -> u32 {
    ((53 - k.max(1).next_power_of_two().ilog2().min(51)) / 2).max(1)
}

/// Numbers as integers; `None` where they do not fit or are not finite.
fn fixed<'a>(x: impl Iterator<Item = &'a f64> + Clone) -> Option<Fixed> {
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
        return Some(Fixed { integers: vec![0; x.count()], unit: 0, bits: 1 });
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
    Some(Fixed { integers: x.map(integer).collect(), unit: low, bits })
}

/// A finite number's integer significand and the exponent of its last bit.
fn parts(x: f64) -> (u64, i32) {
    let (field, fraction) = ((x.to_bits() >> 52 & 0x7FF) as i32, x.to_bits() & ((1 << 52) - 1));
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

/// `sum * 2^unit`, rounded once.
fn scaled(sum: i128, unit: i32) -> f64 {
    let exact = num::Fixed { negative: sum < 0, magnitude: sum.unsigned_abs(), exponent: unit, sticky: false };
    if exact.magnitude != 0 && exact.leading_exponent() < F64.emin() {
        let bits = F64.encode(Value::Finite(exact), Rounding::NearestEven, Overflow::Ieee);
        return bits.map_or(f64::NAN, f64::from_bits);
    }
    // The conversion rounds to nearest even; the powers of two are exact within the range of normal numbers.
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

/// Elements as f64, which holds them all, row by row.
fn values<T: Format>(name: &str, x: &ArrayRef2<T>) -> Result<Array2<f64>, Error> {
    let spec = spec_of::<T>();
    let mut values = filled(name, F64.name, 0.0, x.raw_dim())?;
    values.zip_mut_with(x, |to, x| *to = spec.to_f64(x.to_bits()));
    Ok(values)
}

/// Errors of a product; all are NaN where every element is NaN or infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Errors {
    /// max |d - r|.
    pub max_abs: f64,
    /// Where that is first, row by row, if anything counts.
    pub max_abs_at: Option<[usize; 2]>,
    /// max |d - r| in units of D's last place at r, which is that of an element near zero as a rule: cancellation
    /// leaves few of its places right.
    pub max_ulp: f64,
    /// Frobenius norm of D - R over that of R; of D - R alone where R is zero.
    pub relative_frobenius: f64,
    /// Root of the mean of (d - r)^2.
    pub rms: f64,
    /// Mean of d - r, with its sign.
    pub bias: f64,
    /// Mean of r - d where r is positive and of d - r where it is negative: above 0 where results lie nearer to zero
    /// than they should, which `bias` does not show of data as often negative as positive.
    pub toward_zero: f64,
    /// Elements that are NaN or infinite in one of the two; the other numbers leave them out.
    pub special: usize,
    /// The elements that count.
    pub counted: usize,
}

/// Compares a product, an array of numbers of `format` or of one that holds them, with a reference.
///
#[cfg_attr(feature = "half", doc = "```")]
#[cfg_attr(not(feature = "half"), doc = "```ignore")]
/// use gemmulate::{format::F32, gemm::metrics, prelude::*};
/// use ndarray::Array2;
/// let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
/// let a = Array2::from_shape_fn((5, 400), |(i, k)| f16::nearest((i * 400 + k).pow(2) as f64 % 7.0 - 3.25));
/// let b = Array2::from_shape_fn((400, 3), |(k, j)| f16::nearest((k * 3 + j).pow(3) as f64 % 5.0 - 2.125));
/// let exact = metrics::reference(&a, &b)?;
/// let errors = metrics::errors(&a.dot_on(&b, &h100)?, &exact.product, &F32)?;
/// println!("{:e} at {:?}", errors.max_abs, errors.max_abs_at);
/// # assert!(exact.exact && errors.counted == 15);
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When the shapes differ.
pub fn errors<D: Format>(d: &ArrayRef2<D>, reference: &ArrayRef2<f64>, format: &FormatSpec) -> Result<Errors, Error> {
    if d.dim() != reference.dim() {
        return Err(Error::shape("D", format!("{:?}", reference.dim()), format!("{:?}", d.dim())));
    }
    let (mut e, mut sum, mut shrunk, mut squares, mut norm) = (Errors::default(), 0.0, 0.0, 0.0, 0.0);
    let spec = spec_of::<D>();
    for (((i, j), &d), &r) in d.indexed_iter().zip(reference) {
        let d = spec.to_f64(d.to_bits());
        if !d.is_finite() || !r.is_finite() {
            e.special += 1;
            continue;
        }
        let error = d - r;
        if e.max_abs_at.is_none() || error.abs() > e.max_abs {
            (e.max_abs, e.max_abs_at) = (error.abs(), Some([i, j]));
        }
        e.max_ulp = e.max_ulp.max(error.abs() / ulp(r, format));
        sum += error;
        shrunk -= if r == 0.0 { 0.0 } else { error * r.signum() };
        squares += error * error;
        norm += r * r;
        e.counted += 1;
    }
    if e.counted == 0 && e.special > 0 {
        let none = f64::NAN;
        (e.max_abs, e.max_ulp, e.relative_frobenius) = (none, none, none);
        (e.rms, e.bias, e.toward_zero) = (none, none, none);
        return Ok(e);
    }
    let count = e.counted.max(1) as f64;
    (e.rms, e.bias, e.toward_zero) = ((squares / count).sqrt(), sum / count, shrunk / count);
    e.relative_frobenius = if norm > 0.0 { (squares / norm).sqrt() } else { squares.sqrt() };
    Ok(e)
}

/// The unit in the last place of a format at a number; NaN of what is not finite.
pub fn ulp(x: f64, format: &FormatSpec) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (significand, exponent) = parts(x);
    let lead = if significand == 0 { i32::MIN } else { exponent + 63 - significand.leading_zeros() as i32 };
    let last = lead.max(format.emin()) - format.fraction_bits as i32;
    // `powi` takes the reciprocal of 2^1074, which is infinite.
    if last < F64.emin() { f64::from_bits(1 << (last + 1074).clamp(0, 63)) } else { 2f64.powi(last) }
}

/// How many elements of two products differ in their bits, and where first (row by row).
///
/// # Errors
/// When the shapes differ.
pub fn bit_differences<T: Copy + Into<u64>>(
    x: &ArrayRef2<T>,
    y: &ArrayRef2<T>,
) -> Result<(usize, Option<[usize; 2]>), Error> {
    if x.dim() != y.dim() {
        return Err(Error::shape("D", format!("{:?}", x.dim()), format!("{:?}", y.dim())));
    }
    let mut differ = x
        .indexed_iter()
        .zip(y)
        .filter(|((_, a), b)| Into::<u64>::into(**a) != (**b).into())
        .map(|((at, _), _)| [at.0, at.1]);
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

    /// The sum itself, for numbers that are integers over 2^120.
    fn direct(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
        let whole = |x: f64| (x * 2f64.powi(60)) as i128;
        Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
            let sum: i128 = (0..a.ncols()).map(|p| whole(a[[i, p]]) * whole(b[[p, j]])).sum();
            sum as f64 * 2f64.powi(-120)
        })
    }

    /// 2^-1038, half of the last place and 2^-1094.
    #[test]
    fn subnormal_sums_are_rounded_once() {
        let small = 2f64.powi(-500);
        let a = arr2(&[[(2f64.powi(56) + 2f64.powi(19)) * small, small]]);
        let r = reference(&a, &arr2(&[[2f64.powi(-594)], [2f64.powi(-594)]])).expect("fits");
        assert!(r.exact);
        assert_eq!(r.product[[0, 0]].to_bits(), (1 << 36) + 1);
    }

    #[test]
    fn slices_sum_exactly() {
        let mut state = 1u64;
        let mut draw = |bits: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state as i64 >> (64 - bits)) as f64 * 2f64.powi(-60)
        };
        for (m, k, n, bits) in [(3, 5, 4, 53), (70, 33, 2, 40), (1, 3000, 3, 50), (65, 1, 65, 12), (2, 0, 2, 20)] {
            let a = Array2::from_shape_simple_fn((m, k), || draw(bits));
            let b = Array2::from_shape_simple_fn((n, k), || draw(bits)).reversed_axes();
            let r = reference(&a, &b).expect("fits");
            assert_eq!((r.product, r.exact), (direct(&a, &b), true), "{m} {k} {n} {bits}");
        }
    }

    #[test]
    fn references_tell_and_stop() {
        let (a, last, told) = (Array2::<f64>::ones((200, 30)), AtomicU64::new(0), AtomicU64::new(0));
        let tell = |p: Progress| {
            told.fetch_add(1, Relaxed);
            last.fetch_max(p.done, Relaxed);
            assert_eq!(p.total, 200 * 30 * 200);
            ControlFlow::Continue(())
        };
        let r = reference_with(&a, &a.t(), 2, &tell).expect("fits");
        assert!(r.exact && r.product.iter().all(|&x| x == 30.0) && last.load(Relaxed) == 200 * 30 * 200);
        // More often than once for each thread, for who is told may break off.
        assert_eq!(told.load(Relaxed), 200u64.div_ceil(ROWS as u64));
        let stopped = reference_with(&a, &a.t(), 1, &|_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }

    #[test]
    fn errors_in_all_measures() {
        let format = crate::format::F16;
        let e = errors(&arr2(&[[1.0, 2.5], [f64::NAN, 0.0]]), &arr2(&[[1.0, 2.0], [1.0, 0.0]]), &format).expect("fits");
        assert_eq!((e.max_abs, e.max_abs_at), (0.5, Some([0, 1])));
        assert_eq!((e.max_ulp, e.special), (0.5 / 2f64.powi(-9), 1));
        assert_eq!((e.bias, e.toward_zero, e.rms), (0.5 / 3.0, -0.5 / 3.0, (0.25f64 / 3.0).sqrt()));
        // Numbers of any format, and of views; what lies nearer to zero on both sides has no bias but that.
        let (d, r) = (arr2(&[[1.0f32, -1.0]]), arr2(&[[1.5, 9.0], [-1.5, 9.0]]));
        let e = errors(&d, &r.t().slice(ndarray::s![..1, ..]), &crate::format::F32).expect("fits");
        assert_eq!((e.bias, e.toward_zero, e.rms, e.counted), (0.0, 0.5, 0.5, 2));
        let e = errors(&arr2(&[[f32::NAN]]), &arr2(&[[1.0]]), &format).expect("fits");
        assert!([e.max_abs, e.max_ulp, e.relative_frobenius, e.rms, e.bias, e.toward_zero].iter().all(|x| x.is_nan()));
        assert_eq!((e.special, e.counted), (1, 0));
        assert_eq!(reference(&d, &d.t()).expect("fits").product, arr2(&[[2.0]]));
        assert_eq!(bit_differences(&arr2(&[[1u32, 2]]), &arr2(&[[1, 3]])).expect("fits"), (1, Some([0, 1])));
        assert!(ulp(f64::INFINITY, &format).is_nan() && ulp(f64::NAN, &format).is_nan());
        assert_eq!(ulp(0.0, &format), 2f64.powi(-24));
        assert_eq!([ulp(0.0, &F64), ulp(f64::MIN_POSITIVE, &F64), ulp(1.0, &F64)], [5e-324, 5e-324, f64::EPSILON]);
    }
}
