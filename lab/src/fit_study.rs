//! Fits units drawn at random, or every built-in one, and reports how that went.
//!
//! `fit-study custom COUNT SEED`, `fit-study catalogue` or `fit-study UNIT [TRIES]`: with the fit's seeds 1 to TRIES.
#![allow(clippy::unwrap_used, reason = "a study may fail by panic")]

#[path = "../../tests/all/custom.rs"]
mod custom;

use gemmulate::Unit;
use gemmulate::probe::{BlackBox, FitOptions, Sameness, diff, fit, same_function};
use gemmulate::vectors::{Generator, Vector};
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Vectors of the ten kinds on which unit and model are compared.
const FRESH: usize = 100_000;

/// How a fit ended.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// The very parameters, or provably the same function.
    Recovered,
    /// Other parameters, but no vector tells them apart, and the fit says so.
    NotToldApart,
    /// Other parameters that no vector tells apart, and the fit does not say so of these.
    Unsaid(Vec<String>),
    /// The model is wrong on this input, which the fit did not find.
    Wrong(String),
    /// The fit says that it has no model.
    Refuted(String),
}

fn first_difference(x: &Unit, y: &Unit) -> Option<String> {
    let mut generator = Generator::new(x, 99);
    let mut v = Vector::default();
    for _ in 0..FRESH {
        generator.next_into(&mut v);
        if v.eval(x).unwrap() != v.eval(y).unwrap() {
            return Some(format!("{v:?}"));
        }
    }
    match diff(x, y).unwrap() {
        Sameness::Different(found) => Some(format!("{} gives {:x}, not {:x}", found.input, found.first, found.second)),
        _ => None,
    }
}

/// Seconds that this thread has run, whatever else the machine does; since `start` where that is not told.
fn processor_seconds(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |n| n * 1e-9)
}

fn study(unit: &Unit, seed: u64) -> (Verdict, f64) {
    let start = Instant::now();
    let before = processor_seconds(start);
    // Processor time counts, not the clock of a shared machine.
    let options = FitOptions { time: Duration::from_secs(300), seed, ..FitOptions::default() };
    let found = fit(&mut unit.clone(), &options).unwrap();
    let seconds = processor_seconds(start) - before;
    let interface = unit.interface();
    let same = same_function(unit.recipe.as_ref().unwrap(), &found.recipe, &interface).is_some();
    let verdict = match &found.counterexample {
        Some(c) => Verdict::Refuted(format!("{} gives {:x}, not {:x}", c.input, c.answer, c.model)),
        None if same => Verdict::Recovered,
        None => match first_difference(unit, &interface.unit(found.recipe).unwrap()) {
            Some(difference) => Verdict::Wrong(difference),
            None if custom::unsaid(unit, &found).is_empty() => Verdict::NotToldApart,
            None => Verdict::Unsaid(custom::unsaid(unit, &found)),
        },
    };
    println!("{seconds:6.2} s  {verdict:?}\t{unit}\t{}\t{} vectors", found.recipe, found.vectors);
    (verdict, seconds)
}

const USAGE: &str = "usage: fit-study (custom COUNT SEED | catalogue | UNIT [TRIES])";

/// The units that the arguments name, each with a seed of the fit.
fn units(args: &[String]) -> Result<Vec<(Unit, u64)>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}\n{USAGE}"));
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["custom", count, seed] => {
            let (count, mut r) = (number(count)?, custom::Random(number(seed)?));
            Ok((0..count).map(|_| (custom::unit(&mut r), 1)).collect())
        }
        ["catalogue"] => {
            let mut seen = HashSet::new();
            let each = Unit::all().filter(|u| seen.insert(format!("{:?}{:?}", u.recipe, u.interface())));
            Ok(each.map(|u| (u, 1)).collect())
        }
        [name, ref tries @ ..] if !name.starts_with('-') && tries.len() < 2 => {
            let unit = Unit::find(name).map_err(|error| error.to_string())?;
            let tries = tries.first().map_or(Ok(1), |text| number(text))?;
            Ok((1..=tries).map(|seed| (unit.clone(), seed)).collect())
        }
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let units = match units(&args) {
        Ok(units) => units,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let results: Vec<(Verdict, f64)> = units.iter().map(|(unit, seed)| study(unit, *seed)).collect();
    let mut seconds: Vec<f64> = results.iter().map(|r| r.1).collect();
    seconds.sort_by(f64::total_cmp);
    let count = |verdict: fn(&Verdict) -> bool| results.iter().filter(|r| verdict(&r.0)).count();
    println!(
        "{} units: {} recovered, {} not told apart, {} unsaid, {} wrong, {} refuted; median {:.2} s, slowest {:.2} s",
        results.len(),
        count(|v| *v == Verdict::Recovered),
        count(|v| *v == Verdict::NotToldApart),
        count(|v| matches!(v, Verdict::Unsaid(_))),
        count(|v| matches!(v, Verdict::Wrong(_))),
        count(|v| matches!(v, Verdict::Refuted(_))),
        seconds.get(seconds.len() / 2).unwrap_or(&0.0),
        seconds.last().unwrap_or(&0.0),
    );
    ExitCode::SUCCESS
}
