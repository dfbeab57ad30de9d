//! `gemmulate units`: the catalogue.

use crate::io::{self, Outcome};
use comfy_table::{Table, presets};
use gemmulate::Unit;
use gemmulate::arch::{ARCHITECTURES, ArchInfo, split_architecture};
use gemmulate::format::{FormatSpec, format_named};
use serde_json::{Value, json};
use std::io::Write;

/// List the units: every base instruction of every architecture.
///
/// wgmma and tcgen05 instructions are listed with one M and N that stand for all legal ones. Not listed: units of your
/// own (see `gemmulate --help`), and Algorithm 1 of Valpey et al. (valpey/volta, valpey/turing, valpey/ampere). Exit
/// status 1 if no unit is of the kind asked for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate units --arch H100 --a e4m3
  gemmulate units --json |
    jq -r '.[] | select(.evidence == \"hardware vectors\") | .name'")]
pub(crate) struct Args {
    /// Only this architecture: its name, sm_90, gfx942 or a GPU
    #[arg(long, value_parser = arch)]
    arch: Option<ArchInfo>,
    /// Only units whose A has this format
    #[arg(long, value_parser = format)]
    a: Option<FormatSpec>,
    /// Only units whose D has this format
    #[arg(long, value_parser = format)]
    d: Option<FormatSpec>,
    /// An array of {name, arch, aliases, m, n, k, blocks, a, b, c, d, scale, accumulator, evidence, source}
    #[arg(long)]
    json: bool,
}

pub(crate) fn arch(text: &str) -> Result<ArchInfo, String> {
    match split_architecture(text) {
        Some((arch, "")) => Ok(*arch),
        _ => Err(format!(
            "expected one of {}, or a GPU: {}",
            ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>().join(", "),
            ARCHITECTURES.iter().flat_map(|a| a.gpus).copied().collect::<Vec<_>>().join(", ")
        )),
    }
}

pub(crate) fn format(text: &str) -> Result<FormatSpec, String> {
    let names = || gemmulate::format::ALL_FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    format_named(text).copied().ok_or_else(|| format!("expected one of {}", names()))
}

pub(crate) fn run(args: &Args) -> Outcome {
    let wanted = |unit: &Unit| {
        args.arch.is_none_or(|arch| unit.arch == arch.name)
            && args.a.is_none_or(|a| unit.a == a)
            && args.d.is_none_or(|d| unit.d == d)
    };
    let units: Vec<Unit> = Unit::all().filter(wanted).collect();
    let mut out = io::output();
    if args.json {
        let all: Value = units.iter().map(object).collect();
        writeln!(out, "{all:#}")?;
    } else if units.is_empty() {
        // With standard error gone there is nobody left to tell.
        let _ = writeln!(std::io::stderr(), "no unit is of that kind (gemmulate units lists all)");
    } else {
        writeln!(out, "{}", table(&units))?;
    }
    out.flush()?;
    Ok(!units.is_empty())
}

/// What the accumulator is called: its recipe's text, as custom units spell it.
pub(crate) fn accumulator(unit: &Unit) -> String {
    unit.recipe.map_or_else(|| format!("{:?}", unit.accumulator), |recipe| recipe.to_string())
}

/// A unit for programs.
pub(crate) fn object(unit: &Unit) -> Value {
    json!({
        "name": unit.name,
        "arch": unit.arch,
        "aliases": unit.aliases,
        "m": unit.shape.m,
        "n": unit.shape.n,
        "k": unit.shape.k,
        "blocks": unit.blocks,
        "a": unit.a.name,
        "b": unit.b.name,
        "c": unit.c.name,
        "d": unit.d.name,
        "scale": unit.scale.map(|s| json!({ "format": s.format.name, "block": s.block })),
        "accumulator": accumulator(unit),
        "evidence": unit.evidence.to_string(),
        "source": unit.source,
    })
}

/// A table without lines, easy to cut and grep.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table
}

fn table(units: &[Unit]) -> Table {
    let mut table = plain_table(&["name", "m n k", "equation", "accumulator", "evidence"]);
    for unit in units {
        let blocks = if unit.blocks == 1 { String::new() } else { format!(" x{}", unit.blocks) };
        let shape = format!("{} {} {}{blocks}", unit.shape.m, unit.shape.n, unit.shape.k);
        table.add_row([unit.name.clone(), shape, unit.equation(), accumulator(unit), unit.evidence.to_string()]);
    }
    table
}
