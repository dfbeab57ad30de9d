//! `gemmulate authenticate`: do published tests conclude rightly?

use crate::io::{self, Failure, Outcome};
use crate::target::number;
use gemmulate::Unit;
use gemmulate::probe::{Authentication, Conclusion, Verdict, authenticate, read_tests};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Run published test vectors, with the conclusions their authors draw, on units of known properties.
///
/// A line of the file is a test: its name, products `a x b, a x b, ...`, c, and `d => conclusion; d => conclusion`,
/// split by tabs. Values are like `1+2^-23`, `-3*2^-4`, `0.5`, `inf`, `nan`.
///
/// A conclusion is `PARAMETER>=N`, `PARAMETER<=N` or `PARAMETER=VALUE|VALUE`, of the parameters of units' names:
/// `block`, `F`, `out`, `align`, `sticky`, `normalise`, `c`, `flush-in` and so on (`G` of pairwise and round-down
/// sums), or of `extra-bits`, the fraction bits that sums keep beyond d's own. Other words are printed, but not
/// checked.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate authenticate tests/data/fttn.tsv \\
    custom/m1n1k16.f32.f16.f16.f32/dot:block=8:F=23:out=rne

Tests with more products than a unit has, or numbers that its formats lack, are
left out, and said to be.
Exit status: 0, whatever the conclusions are worth.")]
pub(crate) struct Args {
    /// The tests
    file: PathBuf,
    /// The units, by any of their names
    #[arg(value_parser = Unit::find, required = true)]
    units: Vec<Unit>,
    /// Print a list of {unit, test, d, conclusion, verdict, why} as JSON
    #[arg(long)]
    json: bool,
}

/// A verdict's word, and its reason.
fn words(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Right => ("right", ""),
        Verdict::Wrong(why) => ("WRONG", why),
        Verdict::Unforeseen => ("not foreseen", "its authors did not foresee this result"),
        Verdict::NotChecked(why) => ("not checked", why),
        Verdict::LeftOut(why) => ("left out", why),
        _ => ("not known", ""),
    }
}

fn to_json(result: &Authentication) -> Value {
    let (verdict, why) = words(&result.verdict);
    json!({
        "unit": result.unit,
        "test": result.property,
        "d": result.d.map(|d| format!("{d:x}")),
        "conclusion": result.conclusion.as_ref().map(Conclusion::to_string),
        "verdict": verdict.to_lowercase(),
        "why": why,
    })
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).map_err(|e| Failure::Message(format!("{name}: {e}")))?;
    let tests = read_tests(&text).map_err(|mut error| {
        if let gemmulate::Error::Data { file, .. } = &mut error {
            file.clone_from(&name);
        }
        error
    })?;
    if tests.is_empty() {
        return Err(Failure::Message(format!("{name}: there is no test in it")));
    }
    let mut out = io::output();
    if args.json {
        let list: Vec<Value> = authenticate(&tests, &args.units)?.iter().map(to_json).collect();
        writeln!(out, "{:#}", Value::from(list))?;
        out.flush()?;
        return Ok(true);
    }
    // No width that `format!` takes is larger than 16 bits.
    let width = tests.iter().map(|t| t.property.chars().count()).max().unwrap_or(0).min(60);
    for unit in &args.units {
        writeln!(out, "{unit}")?;
        for result in authenticate(&tests, std::slice::from_ref(unit))? {
            let (verdict, why) = words(&result.verdict);
            let d = result.d.map_or(String::new(), |d| number(unit.d.to_f64(d)));
            let conclusion = result.conclusion.as_ref().map_or(String::new(), Conclusion::to_string);
            let between = match &result.verdict {
                Verdict::Wrong(_) => ", but ",
                Verdict::NotChecked(_) => ": ",
                _ => "",
            };
            writeln!(out, "    {:width$}  {d:>20}  {verdict:12}  {conclusion}{between}{why}", result.property)?;
        }
    }
    out.flush()?;
    Ok(true)
}
