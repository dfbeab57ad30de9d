//! No instruction multiplies f16 by bf16 on Hopper.
use gemmulate::prelude::*;
use half::{bf16, f16};

fn main() {
    let _ = MmaUnit::<Hopper, Mma<16, 8, 16, f16, bf16, f32, f32>>::new();
}
