//! `gemmulate show`: a unit in words.

use crate::io::{self, Outcome};
use crate::units::accumulator;
use crate::words;
use gemmulate::Unit;
use gemmulate::vectors::{Generator, Kind, draw};
use std::io::Write;

/// Explain a unit in words.
///
/// Its equation and formats, what it computes step by step, every parameter, how well that is
/// known and from where, its other names, and a worked example.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate show \"MI300X v_mfma_f32_32x32x8_f16\"
  gemmulate show custom/m16n8k16.f32.bf16.bf16.f32/dot:block=8:F=27")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let unit = &args.unit;
    let mut out = io::output();
    writeln!(out, "{unit}\n\n  {}", unit.equation())?;
    shape(unit, &mut out)?;
    writeln!(out, "\nWhat it computes")?;
    for (i, step) in words::steps(unit).iter().enumerate() {
        writeln!(out, "  {}. {step}", i + 1)?;
    }
    writeln!(out, "\nParameters\n  {}\n  {:?}", accumulator(unit), unit.accumulator)?;
    writeln!(out, "\nFormats")?;
    for (name, format) in [("a", unit.a), ("b", unit.b), ("c", unit.c), ("d", unit.d)] {
        writeln!(out, "  {name}  {}", words::format(&format))?;
    }
    if let Some(rule) = &unit.scale {
        writeln!(out, "  scales  {}, one per {} elements of K", words::format(&rule.format), rule.block)?;
    }
    writeln!(out, "\nEvidence\n  {}: {}", unit.evidence, unit.source)?;
    if !unit.aliases.is_empty() {
        writeln!(out, "\nAlso called\n  {}", unit.aliases.join("\n  "))?;
    }
    example(unit, &mut out)?;
    out.flush()?;
    Ok(true)
}

fn shape(unit: &Unit, out: &mut impl Write) -> std::io::Result<()> {
    let (shape, blocks) = (unit.shape, unit.blocks);
    let many = if blocks == 1 { String::new() } else { format!("; {blocks} independent blocks per instruction") };
    writeln!(out, "  D ({m} x {n}) = A ({m} x {k}) B ({k} x {n}) + C{many}", m = shape.m, n = shape.n, k = shape.k)
}

fn example(unit: &Unit, out: &mut impl Write) -> Outcome {
    let Some(vector) = Generator::new(unit, 0).kinds(&[Kind::NearOne]).next() else { return Ok(true) };
    writeln!(out, "\nExample (generate UNIT --kinds near-one --count 1 | trace UNIT)\n  {vector}\n")?;
    for line in draw(unit, &vector)?.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(true)
}
