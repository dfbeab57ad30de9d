//! Volta has no m16n8k16.
use gemmulate::prelude::*;
use half::f16;

fn main() {
    let _ = MmaUnit::<Volta, Mma<16, 8, 16, f16, f16, f32, f32>>::new();
}
