//! `gemmulate generate`: fresh vectors.

use crate::io::{self, Outcome};
use gemmulate::Unit;
use gemmulate::vectors::{Generator, Kind, Vector};
use std::io::Write;

/// Make fresh lines of operands with the unit's d.
///
/// Ten kinds of random input take turns: random-bits, near-one, wide-exponents, cancellation,
/// specials, sparse-with-zeros, tiny, huge, very-wide, ties. The same unit, seed and kinds always
/// give the same lines. A NaN whose payload the hardware leaves open is written `nan`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate generate cdna2/v_mfma_f32_32x32x8f16 -n 1000 --seed 7 > vectors.tsv
  gemmulate generate \"rtx 5090 mma.m16n8k32.f32.e2m1.e4m3.f32\" --kinds ties")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
    /// How many lines
    #[arg(long, short = 'n', default_value_t = 10)]
    count: u64,
    /// Which sequence
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only these kinds, in turn; split by commas
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut generator = Generator::new(&args.unit, args.seed).kinds(&args.kinds);
    let mut out = io::output();
    let mut vector = Vector::default();
    for _ in 0..args.count {
        generator.next_into(&mut vector);
        writeln!(out, "{vector}")?;
    }
    out.flush()?;
    Ok(true)
}
