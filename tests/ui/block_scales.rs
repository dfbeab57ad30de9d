//! A block-scaled instruction without its scales.
use gemmulate::prelude::*;
use gemmulate::types::{E2M1, Ue4m3};

fn main() {
    let unit = MmaUnit::<RtxBlackwell, MmaScaled<16, 8, 64, 16, E2M1, E2M1, f32, f32, Ue4m3>>::new();
    let one = E2M1::from_f64(1.0).unwrap();
    unit.dot_add(&[one; 64], &[one; 64], 1.0);
}
