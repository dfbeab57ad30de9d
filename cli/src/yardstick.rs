//! Native products of f32 and f64 to compare with: the `gemm` crate's and matrixmultiply's.

use ndarray::{Array2, linalg::general_mat_mul};

/// Operands and room for one native product.
pub(crate) struct Native<T> {
    a: Array2<T>,
    b: Array2<T>,
    d: Array2<T>,
}

/// A type that both crates multiply.
pub(crate) trait Real: ndarray::LinalgScalar {
    /// A value near `x`.
    fn of(x: f64) -> Self;
}

impl Real for f32 {
    fn of(x: f64) -> Self {
        x as Self
    }
}

impl Real for f64 {
    fn of(x: f64) -> Self {
        x
    }
}

impl<T: Real> Native<T> {
    /// An M x N x K product of numbers that `draw` gives.
    pub(crate) fn new([m, n, k]: [usize; 3], mut draw: impl FnMut() -> f64) -> Self {
        let mut matrix = |rows, columns| Array2::from_shape_simple_fn((rows, columns), || T::of(draw()));
        Self { a: matrix(m, k), b: matrix(k, n), d: Array2::zeros((m, n)) }
    }

    /// The `gemm` crate's product (AVX-512 where the processor has it).
    pub(crate) fn gemm(&mut self, threads: usize) {
        let ((m, n), k) = (self.d.dim(), self.a.ncols());
        let parallelism = if threads == 1 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(threads) };
        let (one, zero, [n_row, k_row]) = (T::of(1.0), T::of(0.0), [n as isize, k as isize]);
        let (a, b, d) = (self.a.as_ptr(), self.b.as_ptr(), self.d.as_mut_ptr());
        // SAFETY: M x K, K x N and M x N in row-major order, each with all its elements; D is borrowed uniquely.
        #[allow(unsafe_code, reason = "the crate's one entry takes pointers")]
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                d,
                1,
                n_row,
                false,
                a,
                1,
                k_row,
                b,
                1,
                n_row,
                zero,
                one,
                false,
                false,
                false,
                parallelism,
            );
        }
    }

    /// matrixmultiply's product, on one thread, as ndarray calls it.
    pub(crate) fn matrixmultiply(&mut self) {
        general_mat_mul(T::of(1.0), &self.a, &self.b, T::of(0.0), &mut self.d);
    }
}
