//! Ampere has no fp8.
use gemmulate::prelude::*;
use float8::F8E4M3;

fn main() {
    let _ = MmaUnit::<Ampere, Mma<16, 8, 32, F8E4M3, F8E4M3, f32, f32>>::new();
}
