//! `gemmulate validate`: against outputs recorded on real GPUs.

use crate::io::{self, Failure, Outcome};
use gemmulate::vectors::{Recording, draw, recordings};
use std::io::Write;
use std::path::PathBuf;

/// Compare units with outputs recorded on real GPUs.
///
/// DIR has the layout of model_validation/ in the public repository
/// north-numerical-computing/MATLAB-tensor-core: GPU/FORMAT/x_GPU_FORMAT.txt. Every recorded row is
/// compared with every unit that must reproduce it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate validate MATLAB-tensor-core/model_validation
  gemmulate validate hardware --json")]
pub(crate) struct Args {
    /// A folder with folders like H100/fp16
    dir: PathBuf,
    /// An array of {folder, output, unit, rows, mismatches}
    #[arg(long)]
    json: bool,
    /// How many differing rows are drawn
    #[arg(long, default_value_t = 3)]
    show: usize,
}

/// One recording's result.
struct Report {
    recording: Recording,
    rows: usize,
    mismatches: usize,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::output();
    let mut drawings = Vec::new();
    let mut reports = Vec::new();
    for recording in recordings(&args.dir)? {
        reports.push(compare(recording, args.show, &mut drawings)?);
    }
    if reports.iter().all(|r| r.rows == 0) {
        return Err(Failure::Message(format!("{}: there are no rows to compare", args.dir.display())));
    }
    let mismatches: usize = reports.iter().map(|r| r.mismatches).sum();
    if args.json {
        writeln!(out, "{}", json(&reports))?;
    } else {
        writeln!(out, "{}", table(&reports))?;
        drawings.iter().try_for_each(|drawing| writeln!(out, "\n{drawing}"))?;
        let rows: usize = reports.iter().map(|r| r.rows).sum();
        writeln!(out, "\n{rows} rows compared, {mismatches} mismatches")?;
    }
    out.flush()?;
    Ok(mismatches == 0)
}

fn compare(recording: Recording, show: usize, drawings: &mut Vec<String>) -> Result<Report, Failure> {
    let vectors = recording.vectors()?;
    let mut mismatches = 0;
    for (row, vector) in vectors.iter().enumerate() {
        let d = vector.eval(&recording.unit)?;
        if vector.d.is_some_and(|expected| expected.accepts(d, &recording.unit)) {
            continue;
        }
        mismatches += 1;
        if drawings.len() < show {
            let place = format!("{} {} row {}", recording.folder, recording.output, row + 1);
            drawings.push(format!("{place}: {}\n{}", recording.unit, draw(&recording.unit, vector)?));
        }
    }
    Ok(Report { rows: vectors.len(), recording, mismatches })
}

fn table(reports: &[Report]) -> comfy_table::Table {
    let mut table = crate::units::plain_table(&["folder", "output", "unit", "rows", "mismatches"]);
    for r in reports {
        let Recording { folder, output, unit, .. } = &r.recording;
        table.add_row([folder, *output, &unit.name, &r.rows.to_string(), &r.mismatches.to_string()]);
    }
    for column in [3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}

fn json(reports: &[Report]) -> serde_json::Value {
    reports
        .iter()
        .map(|r| {
            serde_json::json!({
                "folder": r.recording.folder,
                "output": r.recording.output,
                "unit": r.recording.unit.name,
                "rows": r.rows,
                "mismatches": r.mismatches,
            })
        })
        .collect()
}
