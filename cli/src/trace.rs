//! `gemmulate trace`: what a unit does with each line, drawn.

use crate::io::{self, Outcome};
use gemmulate::Unit;
use gemmulate::vectors::{Line, Vector, draw};
use std::io::Write;
use std::path::PathBuf;

/// Draw what a unit does with lines of operands.
///
/// Every term stands under the others by the weights of its bits, with its sign and the exponent that alignment sees;
/// what that cuts off stands behind a |; then the sum, and what rounding makes of it, with the exponents of their first
/// digits. Where terms are aligned the binary point is at the largest exponent. Rows too far apart for
/// that are said to be so. Where a line has a d and another one comes out, the exit status is 1.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate generate hopper/mma.m16n8k4.f32.tf32.tf32.f32 --kinds ties -n 1 |
    gemmulate trace hopper/mma.m16n8k4.f32.tf32.tf32.f32
  gemmulate trace cdna3/v_mfma_f32_16x16x8_xf32 operands.tsv")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
    /// A file of lines; `-` or nothing for standard input
    file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut lines = io::lines(&args.unit, args.file.as_deref())?;
    let mut out = io::output();
    let (mut vector, mut as_expected, mut drawn) = (Vector::default(), true, false);
    let outcome = loop {
        if !lines.has_line() {
            out.flush()?;
        }
        match lines.next_into(&mut vector) {
            Ok(Line::Vector) => {
                writeln!(out, "line {}: {}", lines.number(), args.unit)?;
                writeln!(out, "{}", draw(&args.unit, &vector)?)?;
                drawn = true;
                if let Some(expected) = vector.d {
                    as_expected &= expected.accepts(vector.eval(&args.unit)?, &args.unit);
                }
            }
            Ok(Line::Blank) => {}
            Ok(Line::End) => break Ok(as_expected),
            Err(error) => break Err(error.into()),
        }
    };
    out.flush()?;
    if !drawn && outcome.is_ok() {
        let _ = writeln!(std::io::stderr(), "no lines of operands: nothing to draw");
    }
    outcome
}
