//! Runs fresh vectors of every unit for as long as it is let: a unit's accumulator, its recipe
//! and its trace must be the same function.
//!
//! `cargo run --release -p gemmulate-lab --bin soak -- [VECTORS PER UNIT] [SEED]`

use gemmulate::Unit;
use gemmulate::vectors::{Generator, Vector};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Ok(count), Ok(seed)) = (numbers.next().unwrap_or(Ok(10_000)), numbers.next().unwrap_or(Ok(0))) else {
        eprintln!("expected: soak [VECTORS PER UNIT] [SEED]");
        return ExitCode::from(2);
    };
    let failed: u64 = Unit::all().map(|unit| soak(&unit, count, seed)).sum();
    println!("{failed} disagreements");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many of `count` vectors of a unit its recipe or its trace disagrees on.
fn soak(unit: &Unit, count: u64, seed: u64) -> u64 {
    let described = unit.recipe.and_then(|recipe| unit.with_accumulator(recipe).ok());
    let mut generator = Generator::new(unit, seed);
    let mut vector = Vector::default();
    let mut failed = 0;
    for _ in 0..count {
        generator.next_into(&mut vector);
        let d = vector.eval(unit);
        let traced = vector.input.trace(unit);
        let recipe_agrees = described.as_ref().is_none_or(|same| vector.eval(same) == d);
        if !recipe_agrees || traced.map(|(d, _)| d) != d {
            println!("{unit}: {vector}");
            failed += 1;
        }
    }
    failed
}
