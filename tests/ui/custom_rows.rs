//! A custom unit's K is known at run time only.
use gemmulate::prelude::*;

fn main() {
    let unit = MmaUnit::custom::<f32, f32, f32, f32>(FusedDotAdd::HOPPER, Shape::new(1, 1, 4)).unwrap();
    let row: Box<[f32]> = Box::new([1.0; 4]);
    let _ = unit.dot_add(&row, &row, 0.0);
}
