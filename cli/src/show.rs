//! `gemmulate show`: a unit in words.

use crate::io::{self, Outcome};
use crate::units::{accumulator, object};
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
Units of your own: UNIT/RECIPE is a unit of the catalogue with another accumulator,
custom/mMnNkK.D.A.B.C/RECIPE one with formats and shape of its own, with block scales
custom/mMnNkK.blockS.D.A.B.C.SCALE/RECIPE. A recipe is a family and what differs from its defaults,
as in dot:block=8:F=25:out=rne. Roundings: rne rna rnz rnu rnd rno rz ra rd ru.

dot: aligned sums (NVIDIA's tensor cores, and anything like them)
  block=L          products per sum; the sums run in order, each one's d the next one's c
  pattern=runs|even-odd|pairs   which k a sum takes: neighbours; even first; k mod 4 < 2 first
  F=N, align=R     terms are cut to N fraction bits below the largest exponent, by rounding R (rz)
  sticky=yes       one more bit, set where a term lost something
  exact=yes        no alignment: an exact sum
  e_zero=none|zero-c|emin-N     the least exponent of alignment; zero-c: a zero c counts as emin
  zero-products=ignored|count   whether 0 times a huge number counts in the largest exponent
  subnormal-c=stored|normalised its exponent
  normalise=yes    products are brought to 1 <= s < 2 before they are aligned
  c=with|late|last c is a term of each sum; is added to each rounded sum; to the last one only
  out=R, out-bits=N|full        rounding of a sum to D, and its fraction bits
  via-f16=yes      a and b become f16 first, so that subnormal fp8 is normalised
  flush-in=yes, flush-out=yes   subnormal a, b, c and results are read as 0
  limit=yes        products of 2^128 and more are infinite
  negative-zero=yes             a negative sum that rounds to 0 gives -0
  nan=ones|quiet   the NaN: all fraction bits, or the first one
fma: a chain of fused multiply-adds (round=R)
pairwise: sums of G=N products, rounded product by product (CDNA2)
round-down, round-down-grouped: G products cut to F bits, their sum and c to sum, then total bits,
  rounding down (CDNA3; overflow-beside-c=infinity|c-wins, c-reach=N, special-c=propagates|dropped)
groups: exact sums of G=N products, aligned to F=N bits by their scales (fp4: mxf4, nvf4)
software: mma.m8n8k4 as CUDA cores do it
docs/numerics.md, section 4, has the equations; `probe` and `fit` find them in a program or GPU.

Examples:
  gemmulate show \"MI300X v_mfma_f32_32x32x8_f16\"
  gemmulate show hopper/wgmma.m64n8k16.f32.f16.f16/dot:block=16:F=24
  gemmulate show custom/m16n8k16.f32.bf16.bf16.f32/dot:block=8:F=27
  gemmulate show UNIT --json | jq -r .accumulator")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
    /// An object: what `units --json` has of a unit, its equation, and steps, what it computes in words
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let unit = &args.unit;
    let mut out = io::output();
    if args.json {
        let mut all = object(unit);
        (all["equation"], all["steps"]) = (unit.equation().into(), words::steps(unit).into());
        writeln!(out, "{all:#}")?;
        out.flush()?;
        return Ok(true);
    }
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
