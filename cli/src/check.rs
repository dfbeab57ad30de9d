//! `gemmulate check`: lines against their last column.

use crate::io::{self, Failure, Outcome};
use gemmulate::Unit;
use gemmulate::arch::split_architecture;
use gemmulate::vectors::{Expected, Line, Vector, draw};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Compare units with the d of lines.
///
/// With a unit and a file, every line's last column is compared. With a folder, every
/// ARCH/INSTRUCTION.tsv in it is (of a folder ARCH, every INSTRUCTION.tsv), each with the unit of
/// that name. The first differing lines are drawn as `trace` draws them; the last line says `N
/// passed, M failed`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate check tests/data/vectors
  gemmulate check hopper/wgmma.m64n8k16.f32.f16.f16 my-gpu-output.tsv
  gemmulate generate UNIT --count 1000 | gemmulate check UNIT -")]
pub(crate) struct Args {
    /// A unit by any of its names, or a folder
    #[arg(value_name = "UNIT|DIR")]
    what: String,
    /// The unit's lines; `-` for standard input
    file: Option<PathBuf>,
    /// How many differing lines are drawn
    #[arg(long, default_value_t = 3)]
    show: u64,
}

/// What has been compared so far.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let jobs = match &args.file {
        Some(file) => vec![(Unit::find(&args.what)?, file.clone())],
        None => files(Path::new(&args.what))?,
    };
    let mut out = io::output();
    let mut all = Tally::default();
    let outcome = jobs.iter().try_for_each(|(unit, file)| {
        let failed = all.failed;
        let result = check(unit, file, args.show, &mut all, &mut out);
        if jobs.len() > 1 && all.failed > failed {
            writeln!(out, "{}: {} failed", file.display(), all.failed - failed)?;
        }
        result
    });
    if outcome.is_ok() && all.passed + all.failed == 0 {
        return Err(Failure::Message(
            "there are no lines to compare: is this the output of a program that failed?".into(),
        ));
    }
    if outcome.is_ok() {
        writeln!(out, "{} passed, {} failed", all.passed, all.failed)?;
    }
    out.flush()?;
    outcome.map(|()| all.failed == 0)
}

fn check(unit: &Unit, file: &Path, show: u64, tally: &mut Tally, out: &mut impl Write) -> Result<(), Failure> {
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
        let is_nan = |code: u64| unit.d.decode(code).is_nan();
        let any_nan = matches!(expected, Expected::Bits(theirs) if unit.has_any_nan() && is_nan(theirs) && is_nan(d));
        if any_nan || expected.accepts(d, &unit.d) {
            tally.passed += 1;
            continue;
        }
        if tally.failed < show {
            writeln!(out, "{place}: {unit}\n{}", draw(unit, &vector)?)?;
        }
        tally.failed += 1;
    }
}

/// The vector files of a folder, each with its unit.
fn files(root: &Path) -> Result<Vec<(Unit, PathBuf)>, Failure> {
    let mut found = Vec::new();
    if !root.is_dir() {
        let what = root.display();
        return Err(Failure::Message(format!(
            "{what}: expected a folder of ARCH/INSTRUCTION.tsv, or a UNIT and a FILE"
        )));
    }
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
