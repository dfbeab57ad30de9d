//! `gemmulate identify`: which units and plans reproduce a product.

use crate::gemm::product;
use crate::io::{self, Failure, Outcome};
use crate::npy::Matrix;
use crate::units::plain_table;
use gemmulate::format::FormatSpec;
use gemmulate::gemm::{AnyMatrix, metrics};
use gemmulate::view::View;
use gemmulate::{Gemm, Plan, Unit};
use ndarray::{Array2, Axis};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

/// Find the units and plans that give exactly this D for A and B.
///
/// Every unit of the catalogue whose formats hold the operands is tried, with the plans that
/// libraries use: every preset, both tails, split-K of 2 to 8, promotion. If none fits, the closest
/// are shown with their first difference. Exit status 1 if none fits.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate identify a.npy b.npy d.npy
  gemmulate identify a.npy b.npy d.npy --arch hopper --json")]
pub(crate) struct Args {
    /// A: M x K; bit patterns fit every format of their width
    a: PathBuf,
    /// B: K x N
    b: PathBuf,
    /// The product in question: M x N
    d: PathBuf,
    /// Only this architecture's units
    #[arg(long)]
    arch: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Units that compute one function, and a plan.
struct Candidate {
    units: Vec<Unit>,
    plan: Plan,
    format: FormatSpec,
    differ: usize,
    first: Option<[usize; 2]>,
}

/// The files, and D's bits.
struct Question {
    a: Matrix,
    b: Matrix,
    d: Matrix,
    codes: Array2<u64>,
    /// A's and B's bits.
    operands: [Array2<u64>; 2],
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (a, b, d) = (Matrix::read(&args.a)?, Matrix::read(&args.b)?, Matrix::read(&args.d)?);
    if d.shape != [a.shape[0], b.shape[1]] || a.shape[1] != b.shape[0] {
        let why = format!("A is {:?}, B {:?} and D {:?}: they fit no product A B = D", a.shape, b.shape, d.shape);
        return Err(Failure::Message(why));
    }
    let (codes, operands) = (d.codes()?, [a.codes()?, b.codes()?]);
    let question = Question { a, b, d, codes, operands };
    let mut candidates = question.candidates(args)?;
    if candidates.is_empty() {
        return Err(Failure::Message("no unit takes such operands and gives such a D".into()));
    }
    for candidate in &mut candidates {
        question.screen(candidate)?;
    }
    let fewest = candidates.iter().map(|c| c.differ).min().unwrap_or(0);
    // What agrees where it was sampled, or comes closest there, is computed whole.
    let mut closest: Vec<Candidate> = candidates.into_iter().filter(|c| c.differ == fewest).collect();
    for candidate in &mut closest {
        question.settle(candidate)?;
    }
    closest.sort_by_key(|c| c.differ);
    let best = closest.first().map_or(0, |c| c.differ);
    closest.retain(|c| c.differ == best);
    let mut out = io::output();
    if args.json {
        json(&mut out, &closest)?
    } else {
        question.table(&mut out, &closest)?
    }
    out.flush()?;
    Ok(best == 0)
}

/// The plans that are tried.
fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for base in [Plan::in_order(), Plan::cutlass2(), Plan::cutlass3(), Plan::in_order().promote(128)] {
        plans.push(base.clone());
        plans.extend([2, 3, 4, 8].map(|s| base.clone().split_k(s)));
    }
    plans.push(Plan::cutlass3().no_promotion());
    plans.push(Plan::cutlass2().split_mode(gemmulate::gemm::SplitMode::Parallel).split_k(2));
    plans
}

impl Question {
    fn candidates(&self, args: &Args) -> Result<Vec<Candidate>, Failure> {
        let [m, k] = self.a.shape;
        let n = self.b.shape[1];
        let mut groups: HashMap<String, Vec<Unit>> = HashMap::new();
        let mut known = HashMap::new();
        for unit in Unit::all().filter(|u| u.scale.is_none()) {
            let wanted = args.arch.as_ref().is_none_or(|arch| unit.arch.eq_ignore_ascii_case(arch));
            if wanted && self.fits(&unit, &mut known)? {
                let meaning = unit.recipe.as_ref().map_or_else(|| unit.name.clone(), ToString::to_string);
                let key = format!(
                    "{meaning} {} {} {} {} {} {}",
                    unit.shape.k,
                    unit.a,
                    unit.b,
                    unit.c,
                    unit.d,
                    unit.arch.starts_with("cdna")
                );
                groups.entry(key).or_default().push(unit);
            }
        }
        let mut groups: Vec<Vec<Unit>> = groups.into_values().collect();
        groups.sort_by(|x, y| x[0].name.cmp(&y[0].name));
        let mut candidates: Vec<Candidate> = Vec::new();
        for units in groups {
            let format = self.d.format(&units[0].d);
            let mut seen = Vec::new();
            for plan in plans() {
                let same = Plan::resolved(&plan, &units[0]).to_string();
                if plan.check(&units[0], m, n, k).is_ok() && !seen.contains(&same) {
                    seen.push(same);
                    candidates.push(Candidate { units: units.clone(), plan, format, differ: 0, first: None });
                }
            }
        }
        Ok(candidates)
    }

    /// Whether a unit takes the operands exactly and can give D's type.
    fn fits(&self, unit: &Unit, known: &mut HashMap<&'static str, [bool; 2]>) -> Result<bool, Failure> {
        for format in [unit.a, unit.b] {
            if !known.contains_key(format.name) {
                known.insert(format.name, [holds(&self.a, &format)?, holds(&self.b, &format)?]);
            }
        }
        Ok(known[unit.a.name][0] && known[unit.b.name][1] && {
            let d = self.d.format(&unit.d);
            match self.d.pattern_width() {
                Some(width) => width == unit.d.storage_bits,
                None => d == unit.d || (d.storage_bits < 64) == (unit.d.storage_bits < 64),
            }
        })
    }

    /// Counts differences in a sample of rows and columns.
    fn screen(&self, candidate: &mut Candidate) -> Result<(), Failure> {
        let pick = |n: usize| -> Vec<usize> { (0..n.min(12)).map(|t| t * n / n.min(12)).collect() };
        let (rows, columns) = (pick(self.codes.nrows()), pick(self.codes.ncols()));
        let unit = &candidate.units[0];
        let [a, b] = &self.operands;
        let (a, b) = (a.select(Axis(0), &rows), b.select(Axis(1), &columns));
        let typed = |x: &Matrix, format: &FormatSpec| x.format(format);
        let (a, b) = (
            AnyMatrix::Typed(View::from(&a).into(), typed(&self.a, &unit.a)),
            AnyMatrix::Typed(View::from(&b).into(), typed(&self.b, &unit.b)),
        );
        let gemm = Gemm::on(unit).plan(candidate.plan.clone()).output(candidate.format);
        let found = product(&gemm, &a, &b, [rows.len(), columns.len()])?;
        let want = self.codes.select(Axis(0), &rows).select(Axis(1), &columns);
        candidate.differ = metrics::bit_differences(&found, &want)?.0;
        Ok(())
    }

    fn settle(&self, candidate: &mut Candidate) -> Result<(), Failure> {
        let unit = &candidate.units[0];
        let gemm = Gemm::on(unit).plan(candidate.plan.clone()).output(candidate.format);
        let size = [self.a.shape[0], self.b.shape[1]];
        let found = product(&gemm, &self.a.operand(&unit.a)?, &self.b.operand(&unit.b)?, size)?;
        (candidate.differ, candidate.first) = metrics::bit_differences(&found, &self.codes)?;
        Ok(())
    }

    fn table(&self, out: &mut impl Write, closest: &[Candidate]) -> Result<(), Failure> {
        let exact = closest.first().is_some_and(|c| c.differ == 0);
        let total = self.codes.len();
        if exact {
            writeln!(out, "these reproduce all {total} elements bit for bit:")?;
        } else {
            writeln!(out, "none reproduces D; the closest:")?;
        }
        let mut table = plain_table(&["units", "plan", "elements that differ", "first difference"]);
        for c in closest {
            let names: Vec<String> = c.units.iter().map(ToString::to_string).collect();
            let first = c.first.map_or("-".into(), |[i, j]| format!("row {i}, column {j}"));
            table.add_row([names.join("\n"), c.plan.to_string(), format!("{} of {total}", c.differ), first]);
        }
        writeln!(out, "{table}")?;
        Ok(())
    }
}

/// Whether every element of a file is a number of the format; bit patterns by their width.
fn holds(matrix: &Matrix, format: &FormatSpec) -> Result<bool, Failure> {
    if let Some(width) = matrix.pattern_width() {
        return Ok(width == format.storage_bits.next_power_of_two().max(8));
    }
    let exact = |&x: &f64| {
        let code = format.encode_f64(x, Default::default(), Default::default());
        code.is_ok_and(|code| x.is_nan() || format.to_f64(code) == x)
    };
    Ok(matrix.values(format)?.iter().all(exact))
}

fn json(out: &mut impl Write, closest: &[Candidate]) -> Result<(), Failure> {
    let one = |c: &Candidate| {
        serde_json::json!({
            "units": c.units.iter().map(|u| u.name.clone()).collect::<Vec<_>>(),
            "plan": c.plan.to_string(), "differ": c.differ, "first": c.first,
        })
    };
    let exact = closest.first().is_some_and(|c| c.differ == 0);
    writeln!(out, "{}", serde_json::json!({"exact": exact, "matches": closest.iter().map(one).collect::<Vec<_>>()}))?;
    Ok(())
}
