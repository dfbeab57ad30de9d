//! `gemmulate fit`: the model of an unknown unit.

use crate::io::{self, Failure, Outcome};
use crate::probe::interface_in_words;
use crate::target::{Target, in_words, input_json, number, usage};
use gemmulate::accumulate::Recipe;
use gemmulate::probe::{BlackBox, Fit, FitOptions, Interface, fit};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Find the model of a unit, and try to falsify it.
///
/// Prints the model's name, which every command accepts in place of a unit's, how many vectors it
/// passed, and which parameters could as well have other values. Exit status 1, with the smallest
/// counterexample found, if no model of the library's family gives the unit's bits.
#[derive(clap::Args)]
#[command(override_usage = usage("fit"), after_help = "\
Examples:
  gemmulate fit \"H100 HGMMA.64x8x16.F32\"
  gemmulate fit --command ./mine --a bf16 --b bf16 --c f32 --d f32 --k 16")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Vectors at its own edges that a model must pass; half as many of every kind go with them
    #[arg(long, default_value_t = 300_000)]
    vectors: usize,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds for which the unit is asked and models are looked for
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
    /// Print JSON: {unit, accumulator, vectors, mismatches, counterexample, alternatives, ...}
    ///
    /// `unit` is the model's name, `accumulator` its parameters, `counterexample` {input, d, model} or null. An
    /// alternative is {parameter, accumulator, beside, same_function}: another value, what else changes with it, and
    /// why it is provably the same function (null: not told apart). `out_of_time`, `does_not_sum` (why no model was
    /// looked for) and `unknown_nan` (a NaN's code that no rule gives) say what to make of it.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (mut target, _) = args.target.open()?;
    let options = FitOptions { vectors: args.vectors, seed: args.seed, time: Duration::from_secs(args.limit) };
    let found = fit(&mut *target, &options)?;
    let interface = target.interface();
    let mut out = io::output();
    if args.json {
        writeln!(out, "{:#}", to_json(&found))?;
    } else {
        print(&found, &interface, &mut out)?;
    }
    out.flush()?;
    Ok(found.mismatches == 0)
}

fn print(found: &Fit, interface: &Interface, out: &mut impl Write) -> Result<(), Failure> {
    if let Some(why) = &found.does_not_sum {
        writeln!(out, "no model was looked for: {why}")?;
        writeln!(out, "  {}", interface_in_words(interface))?;
        if let Some(c) = &found.counterexample {
            writeln!(out, "  {}\n    line:  {}\n    unit:  {:x}", in_words(&c.input, interface), c.input, c.answer)?;
        }
        return Ok(());
    }
    if found.mismatches > 0 {
        let none = match found.out_of_time {
            true => "no model was found in time",
            false => "no model of the library's family gives these bits",
        };
        writeln!(out, "{none}; of those tried the nearest is")?;
    }
    writeln!(out, "{}", found.model)?;
    writeln!(out, "  {}", interface_in_words(interface))?;
    writeln!(out, "  {} vectors, {} mismatches", found.vectors, found.mismatches)?;
    if let Some(code) = found.unknown_nan {
        writeln!(
            out,
            "  NaNs were compared as NaNs: {code:x}, which the unit gives, is no NaN of this library's units"
        )?;
    }
    if found.out_of_time {
        let what = if found.mismatches > 0 { "time ran out" } else { "time ran out before all was tried" };
        writeln!(out, "  {what}: --limit SECONDS gives the search more")?;
    }
    if let Some(c) = &found.counterexample {
        let value = |d: u64| number(interface.d.to_f64(d));
        writeln!(out, "  counterexample: {}", in_words(&c.input, interface))?;
        writeln!(out, "    line:  {}", c.input)?;
        writeln!(
            out,
            "    unit:  {:x} ({})\n    model: {:x} ({})",
            c.answer,
            value(c.answer),
            c.model,
            value(c.model)
        )?;
    }
    // By parameter, what changes beside it, and the proof.
    type Group<'a> = (&'a str, Option<&'a str>, Option<&'a str>);
    let mut by_parameter: BTreeMap<Group<'_>, Vec<String>> = BTreeMap::new();
    for a in &found.alternatives {
        // An exact sum that becomes one of the F it has no use for: `exact` says that.
        let own = found.recipe.parameter(a.parameter);
        if own.is_some() && a.beside.is_none() && own == a.recipe.parameter(a.parameter) {
            continue;
        }
        let values = by_parameter.entry((a.parameter, a.beside, a.proof.as_deref())).or_default();
        values.push(value_of(&a.recipe, a.parameter));
    }
    for ((parameter, beside, proof), values) in by_parameter {
        let few = if values.len() > 6 {
            [&values[..5], &["...".into(), values[values.len() - 1].clone()]].concat()
        } else {
            values
        };
        let why = proof.map_or("no vector tried tells them apart".into(), |w| match w.split_once(": ") {
            Some((_, why)) => format!("the same function, because {why}"),
            None => "the same function".into(),
        });
        let beside = beside.map_or(String::new(), |other| format!(" if {other} changes, too"));
        writeln!(out, "  {parameter} could as well be {}{beside}: {why}", few.join(", "))?;
    }
    Ok(())
}

/// A parameter's value, or the whole recipe if it is of another family.
fn value_of(recipe: &Recipe, parameter: &str) -> String {
    recipe.parameter(parameter).unwrap_or_else(|| recipe.to_string())
}

fn to_json(found: &Fit) -> serde_json::Value {
    let alternatives: Vec<serde_json::Value> = found
        .alternatives
        .iter()
        .map(|a| {
            let accumulator = a.recipe.to_string();
            json!({ "parameter": a.parameter, "accumulator": accumulator, "beside": a.beside, "same_function": a.proof })
        })
        .collect();
    json!({
        "unit": found.model.to_string(),
        "accumulator": found.recipe.to_string(),
        "vectors": found.vectors,
        "mismatches": found.mismatches,
        "out_of_time": found.out_of_time,
        "does_not_sum": found.does_not_sum,
        "unknown_nan": found.unknown_nan.map(|code| format!("{code:x}")),
        "counterexample": found.counterexample.as_ref().map(|c| json!({
            "input": input_json(&c.input),
            "d": format!("{:x}", c.answer),
            "model": format!("{:x}", c.model),
        })),
        "alternatives": alternatives,
    })
}
