//! `gemmulate probe`: what an unknown unit does, with evidence.

use crate::file;
use crate::io::{self, Failure, Outcome};
use crate::target::{Target, in_words, input_json, number, usage};
use gemmulate::probe::{BlackBox, Feature, Features, Finding, FitOptions, Interface, Observation, features, fit};
use serde_json::{Map, json};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Find out what a unit does: widths, roundings, order of additions, special values.
///
/// Every property has inputs and bits that show it, which --evidence prints and --json always has;
/// "cannot tell" where none can. Exit status 1 if nothing
/// can be told, because the unit is no sum of products or answers the same input in different ways.
///
/// Of a command, `model` says at the end whether all of it is explained by one model of the library's family, as `fit`
/// finds it in less time: of a unit that follows other rules, a property is true of the inputs that show it and may not
/// be of others.
#[derive(clap::Args)]
#[command(override_usage = usage("probe"), after_help = "\
Examples:
  gemmulate probe volta/mma.m8n8k4.f32.f16.f16.f32
  gemmulate probe --command \"python3 my_model.py\" \\
    --a f16 --b f16 --c f32 --d f32 --k 16 --json
  gemmulate probe cdna2/v_mfma_f32_32x32x8f16 --svg tree.svg")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print JSON: an object with one key per property, each with its value and evidence
    #[arg(long)]
    json: bool,
    /// Draw the summation tree into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the inputs and results that show each property
    #[arg(long)]
    evidence: bool,
    /// Seconds to look for the model that explains a command's answers; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    model_limit: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (mut target, name) = args.target.open()?;
    // A long probe must not end with "no such folder".
    let svg = args.svg.as_deref().map(file::Target::new).transpose()?;
    let mut found = features(&mut target)?;
    if let Some(file) = svg {
        let why = "the order of additions cannot be told: there is no tree to draw";
        let tree = found.tree.as_ref().ok_or_else(|| Failure::Message(why.into()))?;
        let drawn = tree.svg();
        file.write(|out| out.write_all(drawn.as_bytes()))?;
    }
    if args.target.is_command() && args.model_limit > 0 && nothing(&found).is_none() {
        found.all.push(model(&mut *target, args.model_limit));
    }
    let mut out = io::output();
    if args.json {
        let all: Map<String, serde_json::Value> =
            found.all.iter().map(|f| (f.name.to_owned(), feature_json(f))).collect();
        writeln!(out, "{:#}", serde_json::Value::Object(all))?;
    } else {
        writeln!(out, "{name}")?;
        print(&found, args.evidence, &mut out)?;
    }
    out.flush()?;
    Ok(nothing(&found).is_none())
}

/// Vectors at its own edges that the model of a command must pass; `fit` asks more.
const VECTORS: usize = 20_000;

/// The model of the library's family that gives a command's answers, if one is found in so many seconds.
fn model(target: &mut dyn BlackBox, limit: u64) -> Feature {
    let options = FitOptions { vectors: VECTORS, time: Duration::from_secs(limit), ..FitOptions::default() };
    let found = match fit(target, &options) {
        Ok(found) => found,
        // What was found before stands.
        Err(why) => {
            return Feature { name: "model", value: Finding::CannotTell(why.to_string()), evidence: Vec::new() };
        }
    };
    let value = match (found.mismatches, &found.does_not_sum) {
        (0, None) if found.out_of_time => {
            Finding::CannotTell(format!("time ran out before all was tried; {} explains what was", found.model))
        }
        (0, None) => Finding::Text(found.model.to_string()),
        (_, does_not_sum) => {
            let nearest =
                if does_not_sum.is_some() { String::new() } else { format!(", the nearest is {}", found.model) };
            let why = "each property is true of the inputs that show it, and may not be of others";
            Finding::CannotTell(format!("none found{nearest}: {why}"))
        }
    };
    let counterexample = found.counterexample.map(|c| {
        let what = format!("{} gives {:x}", found.model, c.model);
        Observation::new(c.input, c.answer, what)
    });
    Feature { name: "model", value, evidence: counterexample.into_iter().collect() }
}

/// Why nothing can be told of a box, if it fails in the basics.
fn nothing(found: &Features) -> Option<&Feature> {
    let first = found.all.first().filter(|f| matches!(f.value, Finding::CannotTell(_)));
    first.filter(|first| found.all.iter().all(|f| f.value == first.value))
}

fn print(found: &Features, evidence: bool, out: &mut impl Write) -> Result<(), Failure> {
    let shown = |feature: &Feature, out: &mut dyn Write| -> Result<(), Failure> {
        for o in &feature.evidence {
            let d = number(found.interface.d.to_f64(o.d));
            writeln!(out, "      {}: {} -> {d} ({:x})", o.shows, in_words(&o.input, &found.interface), o.d)?;
        }
        Ok(())
    };
    if let Some(feature) = nothing(found) {
        writeln!(out, "  {}", feature.value)?;
        writeln!(out, "  (is it a sum of products, and are --a, --b, --c, --d and --k those of the box?)")?;
        return shown(feature, out);
    }
    for (n, feature) in found.all.iter().enumerate() {
        writeln!(out, "  {:24}{}", feature.name.replace('_', " "), feature.value)?;
        // One set of inputs often shows several properties.
        match found.all[..n].iter().find(|other| other.evidence == feature.evidence) {
            Some(other) if evidence && feature.evidence.len() > 1 => {
                writeln!(out, "      as for {}", other.name.replace('_', " "))?;
            }
            _ if evidence => shown(feature, out)?,
            _ => {}
        }
    }
    if !evidence {
        writeln!(out, "  (--evidence prints the inputs that show it)")?;
    }
    Ok(())
}

/// A property's value and evidence; a value that cannot be told is null, with the reason.
fn feature_json(feature: &Feature) -> serde_json::Value {
    let evidence: Vec<serde_json::Value> = feature
        .evidence
        .iter()
        .map(|o| json!({ "shows": o.shows, "input": input_json(&o.input), "d": format!("{:x}", o.d) }))
        .collect();
    match &feature.value {
        Finding::CannotTell(why) => json!({ "value": null, "evidence": evidence, "cannot_tell": why }),
        Finding::Number(n) => json!({ "value": n, "evidence": evidence }),
        Finding::Flag(yes) => json!({ "value": yes, "evidence": evidence }),
        Finding::Text(text) => json!({ "value": text, "evidence": evidence }),
    }
}

/// The formats and K of a box, in words.
pub(crate) fn interface_in_words(i: &Interface) -> String {
    format!("{} = {} * {} + {}, K = {}", i.d, i.a, i.b, i.c, i.k)
}
