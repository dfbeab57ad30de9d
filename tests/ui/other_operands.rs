//! Arrays of f32 on an instruction that takes f16.
use gemmulate::prelude::*;
use half::f16;
use ndarray::Array2;

fn main() {
    let h100 = MmaUnit::<Hopper, Mma<16, 8, 16, f16, f16, f32, f32>>::new();
    let a = Array2::<f32>::zeros((2, 2));
    let _ = a.dot_on(&a, &h100);
}
