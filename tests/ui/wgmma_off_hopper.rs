//! Ampere has no wgmma.
use gemmulate::prelude::*;
use half::f16;

fn main() {
    let _ = MmaUnit::<Ampere, Wgmma<128, f16, f16, f32>>::new();
}
