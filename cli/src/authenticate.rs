//! `gemmulate authenticate`: do published tests conclude rightly?

use crate::io::{self, Failure, Outcome};
use gemmulate::Unit;
use gemmulate::probe::{authenticate, read_tests};
use std::io::Write;
use std::path::PathBuf;

/// Run published test vectors, with the conclusions their authors draw, on units of known properties.
///
/// A line of the file is a property, products `a x b, a x b, ...`, c, and `d => conclusion; d =>
/// conclusion`, split by tabs; values are like `1+2^-23`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate authenticate tests/data/fttn.tsv \\
    custom/m1n1k16.f32.f16.f16.f32/dot:block=8:F=23:out=rne

Tests with more products than the unit takes are left out.
Exit status: 0, whatever the conclusions are worth.")]
pub(crate) struct Args {
    /// The tests
    file: PathBuf,
    /// The units, by any of their names
    #[arg(value_parser = Unit::find, required = true)]
    units: Vec<Unit>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).map_err(|e| Failure::Message(format!("{name}: {e}")))?;
    let tests = read_tests(&text)?;
    let mut out = io::output();
    let mut unit = String::new();
    for result in authenticate(&tests, &args.units)? {
        if result.unit != unit {
            unit.clone_from(&result.unit);
            writeln!(out, "{unit}")?;
        }
        let conclusion = result.conclusion.as_deref().unwrap_or("a result its authors did not foresee");
        let verdict = match result.holds {
            Some(true) => "right",
            Some(false) => "WRONG",
            None => "not checked",
        };
        writeln!(out, "    {:24} {:>8x}  {verdict:12}{conclusion}", result.property, result.d)?;
    }
    out.flush()?;
    Ok(true)
}
