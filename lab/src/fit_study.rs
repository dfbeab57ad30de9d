//! Fits units drawn at random, or every built-in one, and reports how that went.
//!
//! `fit-study custom COUNT SEED`, `fit-study catalogue` or `fit-study UNIT`.
#![allow(clippy::unwrap_used, reason = "a study may fail by panic")]

#[path = "../../tests/all/custom.rs"]
#[allow(unreachable_pub, reason = "shared with the tests")]
mod custom;

use gemmulate::Unit;
use gemmulate::probe::{BlackBox, FitOptions, Interface, fit, same_function};
use std::collections::HashSet;
use std::time::Instant;

fn study(unit: &Unit, vectors: usize) -> (bool, f64) {
    let options = FitOptions { vectors, ..FitOptions::default() };
    let start = Instant::now();
    let found = fit(&mut unit.clone(), &options).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let interface: Interface = unit.interface();
    let same = same_function(unit.recipe.as_ref().unwrap(), &found.recipe, &interface).is_some();
    let ok = found.mismatches == 0;
    let verdict = match (ok, same) {
        (true, true) => "same function (proved)",
        (true, false) => "no mismatch",
        (false, _) => "FAILED",
    };
    println!(
        "{seconds:6.2} s  {verdict}\t{unit}\t{}\t{} vectors, {} alternatives",
        found.recipe,
        found.vectors,
        found.alternatives.len()
    );
    if let Some(c) = &found.counterexample {
        println!("         {}  box {:x} model {:x}", c.input, c.answer, c.model);
    }
    (ok, seconds)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let units: Vec<Unit> = match args.get(1).map(String::as_str) {
        Some("custom") => {
            let mut r = custom::Random(args[3].parse().unwrap());
            (0..args[2].parse().unwrap()).map(|_| custom::unit(&mut r)).collect()
        }
        Some("catalogue") => {
            let mut seen = HashSet::new();
            Unit::all().filter(|u| seen.insert(format!("{:?}{:?}", u.recipe, u.interface()))).collect()
        }
        Some(name) => vec![Unit::find(name).unwrap()],
        None => panic!("custom COUNT SEED, catalogue, or a unit"),
    };
    let results: Vec<(bool, f64)> = units.iter().map(|u| study(u, 100_000)).collect();
    let slowest = results.iter().map(|r| r.1).fold(0.0, f64::max);
    let total: f64 = results.iter().map(|r| r.1).sum();
    let failed = results.iter().filter(|r| !r.0).count();
    println!("{} units, {failed} failed, slowest {slowest:.2} s, total {total:.1} s", results.len());
}
