//! 100 columns are not a multiple of 8.
use gemmulate::prelude::*;
use half::f16;

fn main() {
    let _ = MmaUnit::<Hopper, Wgmma<100, f16, f16, f32>>::new();
}
