//! `gemmulate classes`: which units are one function.

use crate::io::{self, Failure, Outcome};
use crate::target::input_json;
use crate::units;
use gemmulate::Unit;
use gemmulate::arch::ArchInfo;
use gemmulate::probe::{Classes, classes};
use serde_json::json;
use std::io::Write;

/// Group all units into functions, with inputs that tell those of equal formats and K apart.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate classes --arch hopper,L40S")]
pub(crate) struct Args {
    /// Only these architectures' units: names, sm_90, gfx942 or GPUs, divided by commas
    #[arg(long, value_delimiter = ',', value_parser = units::arch)]
    arch: Vec<ArchInfo>,
    /// Print JSON: {classes, same_step, separations}
    ///
    /// A class is {units, k, accumulator}; `same_step` groups classes, by their places in that list, that are one rule
    /// at several K; a separation is {first, second, input, d}: two classes of equal formats and K, an input and both
    /// results.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let wanted = |u: &Unit| args.arch.is_empty() || args.arch.iter().any(|a| a.name == u.arch);
    let found = classes(Unit::all().filter(wanted))?;
    let mut out = io::output();
    if args.json {
        writeln!(out, "{:#}", to_json(&found))?;
    } else {
        print(&found, &mut out)?;
    }
    out.flush()?;
    Ok(true)
}

fn print(found: &Classes, out: &mut impl Write) -> Result<(), Failure> {
    for (n, class) in found.classes.iter().enumerate() {
        let meaning = class.recipe.map_or(String::new(), |r| r.to_string());
        let unit = &class.units[0];
        writeln!(out, "class {n}: {}, K = {}: {meaning}", unit.equation(), unit.shape.k)?;
        for unit in &class.units {
            writeln!(out, "    {unit}")?;
        }
    }
    writeln!(out, "\nthe same rule per step, at several K:")?;
    for group in &found.same_step {
        let numbers: Vec<String> = group.iter().map(usize::to_string).collect();
        writeln!(out, "    classes {}", numbers.join(", "))?;
    }
    writeln!(out, "\nclasses of equal formats and K, and a line that tells them apart:")?;
    for s in &found.separations {
        match &s.input {
            Some((input, x, y)) => writeln!(out, "    {} gives {x:x}, {} gives {y:x}: {input}", s.first, s.second)?,
            None => writeln!(out, "    {} and {}: no input found", s.first, s.second)?,
        }
    }
    Ok(())
}

fn to_json(found: &Classes) -> serde_json::Value {
    let classes: Vec<serde_json::Value> = found
        .classes
        .iter()
        .map(|c| {
            let units: Vec<String> = c.units.iter().map(ToString::to_string).collect();
            json!({ "units": units, "k": c.units[0].shape.k, "accumulator": c.recipe.map(|r| r.to_string()) })
        })
        .collect();
    let separations: Vec<serde_json::Value> = found
        .separations
        .iter()
        .map(|s| {
            let input = s.input.as_ref();
            json!({
                "first": s.first,
                "second": s.second,
                "input": input.map(|(x, _, _)| input_json(x)),
                "d": input.map(|(_, x, y)| [format!("{x:x}"), format!("{y:x}")]),
            })
        })
        .collect();
    json!({ "classes": classes, "same_step": found.same_step, "separations": separations })
}
