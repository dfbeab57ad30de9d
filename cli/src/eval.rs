//! `gemmulate eval`: one d per line.

use crate::io::{self, Outcome};
use gemmulate::Unit;
use gemmulate::vectors::{Evaluator, Line, Vector};
use std::io::Write;
use std::path::PathBuf;

/// Evaluate lines of operands, one hex d per line.
///
/// Columns are a, b, c and, for a block-scaled unit, its scales, split by tabs, codes by commas.
/// The last column, d, may be there and is not looked at. Answers are lower-case hex without
/// leading zeros; a NaN is given by its bits. Every answer is written before the tool waits for
/// more input, so it can be a partner in a pipe.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  printf '3c00,0,0,0\\t4000,0,0,0\\t3f800000\\n' |
    gemmulate eval volta/mma.m8n8k4.f32.f16.f16.f32
  gemmulate eval \"a100 HMMA.1688.F32\" operands.tsv > answers.txt")]
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
    let (mut vector, mut evaluator) = (Vector::default(), Evaluator::new(&args.unit));
    let outcome = loop {
        if !lines.has_line() {
            out.flush()?;
        }
        match lines.next_into(&mut vector) {
            Ok(Line::Vector) => writeln!(out, "{:x}", evaluator.eval(&vector.input)?)?,
            Ok(Line::Blank) => {}
            Ok(Line::End) => break Ok(true),
            Err(error) => break Err(error.into()),
        }
    };
    out.flush()?;
    outcome
}
