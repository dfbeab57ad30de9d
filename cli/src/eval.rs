//! `gemmulate eval`: one d per line.

use crate::io::{self, Failure, Outcome};
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
    let (mut evaluator, mut answers) = (Evaluator::new(&args.unit), Vec::new());
    let mut answer = |vectors: &[Vector], out: &mut dyn Write| -> Result<(), Failure> {
        answers.clear();
        evaluator.eval_all(vectors.iter().map(|vector| &vector.input), &mut answers)?;
        Ok(answers.iter().try_for_each(|d| writeln!(out, "{d:x}"))?)
    };
    let (mut vectors, mut read) = (vec![Vector::default(); TOGETHER], 0);
    let outcome = loop {
        let must_wait = !lines.has_line();
        if must_wait || read == vectors.len() {
            answer(&vectors[..read], &mut out)?;
            read = 0;
        }
        if must_wait {
            out.flush()?;
        }
        match lines.next_into(&mut vectors[read]) {
            Ok(Line::Vector) => read += 1,
            Ok(Line::Blank) => {}
            Ok(Line::End) => break Ok(true),
            Err(error) => break Err(error.into()),
        }
    };
    answer(&vectors[..read], &mut out)?;
    out.flush()?;
    outcome
}

/// Lines that are read before they are answered, if so many are at hand.
const TOGETHER: usize = 64;
