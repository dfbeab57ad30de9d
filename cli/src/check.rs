//! `gemmulate check`: lines against their last column.

use crate::io::{self, Failure, Outcome};
use gemmulate::Unit;
use gemmulate::arch::split_architecture;
use gemmulate::vectors::{Line, Vector, draw};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Compare units with the d of lines.
///
/// With a unit, every line's last column is compared, of a file or of standard input. With a folder, every
/// ARCH/INSTRUCTION.tsv in it is (of a folder ARCH, every INSTRUCTION.tsv), each with the unit of
/// that name. The first differing lines are drawn as `trace` draws them; the last line says `N
/// passed, M failed`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate check tests/data/vectors
  gemmulate check hopper/wgmma.m64n8k16.f32.f16.f16 my-gpu-output.tsv
  gemmulate generate UNIT --count 1000 | gemmulate check UNIT
  gemmulate check FOLDER --json | jq '.files[] | select(.failed > 0)'")]
pub(crate) struct Args {
    /// A unit by any of its names, or a folder
    #[arg(value_name = "UNIT|DIR")]
    what: String,
    /// The unit's lines; `-` or nothing for standard input
    file: Option<PathBuf>,
    /// How many differing lines are drawn
    #[arg(long, default_value_t = 3)]
    show: u64,
    /// {passed, failed, files: [{file, unit, passed, failed, differing: [{line, vector, d}]}]}, of the first --show
    /// lines
    #[arg(long)]
    json: bool,
}

/// What has been compared so far.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// For programs: files, and the differing lines of the one at hand.
    files: Vec<Value>,
    differing: Vec<Value>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let jobs = match &args.file {
        Some(file) => vec![(Unit::find(&args.what)?, file.clone())],
        None if Path::new(&args.what).is_dir() => files(Path::new(&args.what))?,
        None => vec![(Unit::find(&args.what).map_err(|error| neither(&args.what, &error))?, "-".into())],
    };
    let mut out = io::output();
    let mut all = Tally::default();
    let outcome = jobs.iter().try_for_each(|(unit, file)| {
        let (passed, failed) = (all.passed, all.failed);
        let result = check(unit, file, args, &mut all, &mut out);
        let (passed, failed) = (all.passed - passed, all.failed - failed);
        if args.json {
            let (file, differing) = (file.display().to_string(), core::mem::take(&mut all.differing));
            all.files.push(json!({
                "file": file,
                "unit": unit.name,
                "passed": passed,
                "failed": failed,
                "differing": differing,
            }));
        } else if jobs.len() > 1 && failed > 0 {
            writeln!(out, "{}: {failed} failed", file.display())?;
        }
        result
    });
    if outcome.is_ok() && all.passed + all.failed == 0 {
        return Err(Failure::Message(
            "there are no lines to compare: is this the output of a program that failed?".into(),
        ));
    }
    let told = outcome.and_then(|()| {
        if args.json {
            writeln!(out, "{:#}", json!({ "passed": all.passed, "failed": all.failed, "files": all.files }))?;
        } else {
            writeln!(out, "{} passed, {} failed", all.passed, all.failed)?;
        }
        Ok(())
    });
    // What was found before an error is told, too.
    let told = told.and(out.flush().map_err(Into::into));
    io::verdict(told, all.failed == 0)
}

/// Of a word that is no folder and names no unit.
fn neither(what: &str, error: &gemmulate::Error) -> Failure {
    let wanted = "expected a folder of ARCH/INSTRUCTION.tsv, or a UNIT and a FILE";
    Failure::Message(format!("{what}: {wanted}. No such folder; {error}"))
}

fn check(unit: &Unit, file: &Path, args: &Args, tally: &mut Tally, out: &mut impl Write) -> Result<(), Failure> {
    let mut lines = io::lines(unit, Some(file))?;
    let mut vector = Vector::default();
    loop {
        match lines.next_into(&mut vector)? {
            Line::End => return Ok(()),
            Line::Blank => continue,
            Line::Vector => {}
        }
        let place = format!("{}:{}", file.display(), lines.number());
        let Some(expected) = vector.d else {
            return Err(Failure::Message(format!("{place}: expected a last column, d, to compare with")));
        };
        let d = vector.eval(unit)?;
        if expected.accepts(d, unit) {
            tally.passed += 1;
            continue;
        }
        tally.failed += 1;
        if tally.failed <= args.show && args.json {
            let (line, vector, d) = (lines.number(), vector.to_string(), format!("{d:x}"));
            tally.differing.push(json!({ "line": line, "vector": vector, "d": d }));
        } else if tally.failed <= args.show {
            writeln!(out, "{place}: {unit}\n{}", draw(unit, &vector)?)?;
        }
    }
}

/// The vector files of a folder, each with its unit.
fn files(root: &Path) -> Result<Vec<(Unit, PathBuf)>, Failure> {
    let mut found = Vec::new();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // `lab/capture/run` writes its counts beside the vectors.
    let is_vectors = |file: &PathBuf| file.extension().is_some_and(|e| e == "tsv") && name(file) != "summary.tsv";
    let vectors = |folder: &Path| Ok::<_, Failure>(entries(folder)?.into_iter().filter(is_vectors).collect::<Vec<_>>());
    // The folder of one architecture, too.
    let is_arch = |path: &PathBuf| split_architecture(&name(path)).is_some_and(|(_, rest)| rest.is_empty());
    let own = fs::canonicalize(root).ok().filter(is_arch);
    let folders = match own {
        Some(own) if !vectors(&own)?.is_empty() => vec![own],
        _ => entries(root)?.into_iter().filter(|path| path.is_dir()).collect(),
    };
    for folder in folders {
        for file in vectors(&folder)? {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let unit = format!("{}/{stem}", name(&folder));
            let unit = Unit::find(&unit).map_err(|e| Failure::Message(format!("{}: {e}", file.display())))?;
            found.push((unit, file));
        }
    }
    if found.is_empty() {
        return Err(Failure::Message(format!("{}: expected files ARCH/INSTRUCTION.tsv, found none", root.display())));
    }
    Ok(found)
}

/// A folder's entries in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |e: std::io::Error| Failure::Message(format!("{}: {e}", folder.display()));
    let entries = fs::read_dir(folder).map_err(failed)?.map(|entry| entry.map(|e| e.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}
