//! A drop-in for ndarray's `dot`: the same product in f64 and on an H100's tensor cores.

use gemmulate::prelude::*;
use ndarray::{Array2, arr2};

fn main() -> Result<(), Error> {
    let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();

    // 1.5 x 1.5 - 1.5 x 1.5 + 2^-13 x 2^-13: the small product lies 26 bits below the largest
    // exponent, and is cut off before the large ones cancel.
    let a = arr2(&[[1.5, -1.5, 2f64.powi(-13)]]).mapv(f16::nearest);
    let b = arr2(&[[1.5], [1.5], [2f64.powi(-13)]]).mapv(f16::nearest);
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from));
    let d: Array2<f32> = a.dot_on(&b, &h100)?;
    println!("f64: {:e}   H100: {:e}", exact[[0, 0]], d[[0, 0]]);

    // One property changed, a unit that does not exist: 27 bits of alignment instead of 25.
    let wider = h100.with(|acc| FusedDotAdd { frac_bits: 27, ..acc });
    println!("with 27 bits: {:e}", a.dot_on(&b, &wider)?[[0, 0]]);

    // Any layout of memory; C <- alpha A B + beta C, as ndarray has it.
    let a = Array2::from_shape_fn((64, 512), |(i, k)| f16::nearest(((i * 512 + k) as f64).sin()));
    let mut c = Array2::<f32>::ones((64, 64));
    general_mat_mul_on(0.5, &a, &a.t(), -1.0, &mut c, &h100)?;
    println!("c[3, 5] = {}", c[[3, 5]]);

    // A kernel that splits K in four sums in another order, and gives other bits.
    let split = Gemm::on(&h100).plan(Plan::cutlass3().split_k(4)).run(&a, &a.t())?;
    let plain = a.dot_on(&a.t(), &h100)?;
    let differ = split.iter().zip(&plain).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
    println!("split-K 4 changes {differ} of {} elements", plain.len());
    Ok(())
}
