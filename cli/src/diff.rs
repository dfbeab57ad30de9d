//! `gemmulate diff`: an input on which two units differ, and why.

use crate::io::{self, Failure, Outcome};
use crate::target::{in_words, input_json, number};
use gemmulate::Unit;
use gemmulate::probe::{BlackBox, Difference, Sameness, diff};
use gemmulate::vectors::{Vector, draw};
use serde_json::json;
use std::io::Write;

/// Find the smallest input on which two units differ, and draw both traces.
///
/// Exit status 0 if the units are one function, 1 if they differ or might.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate diff \"A100 HMMA.1688.F32\" \"H100 HMMA.1688.F32\"
  gemmulate diff \"V100 HMMA.884.F32.F32\" turing/mma.m8n8k4.f32.f16.f16.f32")]
pub(crate) struct Args {
    /// The first unit, by any of its names
    #[arg(value_parser = Unit::find)]
    first: Unit,
    /// The second unit
    #[arg(value_parser = Unit::find)]
    second: Unit,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let outcome = diff(&args.first, &args.second)?;
    let mut out = io::output();
    if args.json {
        writeln!(out, "{:#}", to_json(&outcome))?;
    } else {
        match &outcome {
            Sameness::Same(reasons) if reasons.is_empty() => writeln!(out, "the same function: equal parameters")?,
            Sameness::Same(reasons) => writeln!(out, "the same function:\n  {}", reasons.join("\n  "))?,
            Sameness::Different(found) => print(args, found, &mut out)?,
            Sameness::NotToldApart(n) => writeln!(out, "none of {n} inputs tells them apart; that is no proof")?,
            _ => {}
        }
    }
    out.flush()?;
    Ok(matches!(outcome, Sameness::Same(_)))
}

fn print(args: &Args, found: &Difference, out: &mut impl Write) -> Result<(), Failure> {
    let interface = args.first.interface();
    let input = &found.input;
    let value = |d: u64| number(interface.d.to_f64(d));
    writeln!(out, "{}", in_words(input, &interface))?;
    writeln!(out, "line: {input}\n")?;
    let mut traces = Vec::new();
    for (unit, d) in [(&args.first, found.first), (&args.second, found.second)] {
        let (a, b, c) = (input.a.clone(), input.b.clone(), input.c);
        let (scale_a, scale_b) = (input.scale_a.clone(), input.scale_b.clone());
        let vector = Vector { a, b, c, scale_a, scale_b, ..Vector::default() };
        traces.push(format!("{unit}\nd = {d:x} ({})\n{}", value(d), draw(unit, &vector)?));
    }
    writeln!(out, "{}", side_by_side(&traces[0], &traces[1]))?;
    Ok(())
}

/// Two texts in two columns, or one below the other if they are too wide.
fn side_by_side(left: &str, right: &str) -> String {
    let width = left.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let right_width = right.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    if width + right_width > 190 {
        return format!("{left}\n{right}");
    }
    let count = left.lines().count().max(right.lines().count());
    let (mut l, mut r) = (left.lines(), right.lines());
    let line = |_| {
        let (x, y) = (l.next().unwrap_or(""), r.next().unwrap_or(""));
        format!("{x}{}  | {y}", " ".repeat(width - x.chars().count())).trim_end().to_owned()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

fn to_json(outcome: &Sameness) -> serde_json::Value {
    match outcome {
        Sameness::Same(reasons) => json!({ "same": true, "reasons": reasons }),
        Sameness::Different(found) => json!({
            "same": false,
            "input": input_json(&found.input),
            "line": found.input.to_string(),
            "first": format!("{:x}", found.first),
            "second": format!("{:x}", found.second),
        }),
        Sameness::NotToldApart(n) => json!({ "same": null, "tried": n }),
        _ => json!({ "same": null }),
    }
}
