//! A row of 8 is no row of an instruction of K = 16.
use gemmulate::prelude::*;
use half::f16;

fn main() {
    let unit = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
    let _ = unit.dot_add(&[f16::ONE; 8], &[f16::ONE; 16], 0.0);
}
