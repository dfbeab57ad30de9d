//! `gemmulate compare`: one product on several units, by several plans.

use crate::bar::Bar;
use crate::file::Target;
use crate::inputs::{Inputs, overflow};
use crate::io::{self, Failure, Outcome};
use crate::npy::Array;
use crate::prepared::Against;
use crate::svg;
use crate::units::plain_table;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::gemm::metrics;
use gemmulate::{Plan, Unit, round::Rounding};
use ndarray::Array2;
use std::io::Write;
use std::path::PathBuf;

/// Compare what several units, by several plans, make of one product.
///
/// Errors are against the f64 product of the matrices as they stand in the files (exact where
/// possible), so they include what rounding the operands costs. The last columns count the elements
/// in which two results differ in their bits (results of different types: as numbers). Block-scaled units get their
/// operands quantised to MX or NVFP4.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate compare a.npy b.npy \\
    --units \"H100 QGMMA.64x128x32.F32.E4M3.E4M3,L40S QMMA.16832.F32.E4M3.E4M3\"
  gemmulate compare a.npy b.npy --plans \"in-order;cutlass3 split-k=2\" \\
    --units hopper/wgmma.m64n128k16.f32.f16.f16")]
pub(crate) struct Args {
    /// A: M x K
    a: PathBuf,
    /// B: K x N
    b: PathBuf,
    /// Units, by any of their names, divided by commas
    #[arg(long, value_delimiter = ',', required = true, value_parser = Unit::find)]
    units: Vec<Unit>,
    /// Plans, divided by semicolons
    #[arg(long, value_delimiter = ';', default_value = "in-order")]
    plans: Vec<Plan>,
    /// How values are rounded to the units' formats
    #[arg(long, value_name = "ROUNDING", default_value = "rne")]
    round: Rounding,
    /// What becomes of values beyond the units' formats: inf (or the NaN of formats without one; an error where there
    /// is neither) or saturate
    #[arg(long, value_parser = overflow, default_value = "inf")]
    overflow: Overflow,
    /// Threads; 0 for all there are. The result never depends on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Draw the distributions of errors
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON: {reference, rows: [{unit, plan, max_abs, max_ulp, relative_frobenius, bias, special, notes,
    /// differs}]}
    ///
    /// `reference` says what errors are against, `special` counts elements that are infinite or NaN here and not there
    /// (or the other way round), and `differs` holds the elements that have other bits in each of the rows.
    #[arg(long)]
    json: bool,
}

/// One row of the table.
struct Row {
    unit: Unit,
    plan: Plan,
    out: FormatSpec,
    d: Array,
    values: Array2<f64>,
    errors: metrics::Errors,
    notes: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let target = args.svg.as_deref().map(Target::new).transpose()?;
    let mut inputs = Inputs::plain(&args.a, &args.b, args.round, args.overflow)?;
    inputs.threads = args.threads;
    if inputs.batch().is_some() {
        return Err(Failure::Message("compare takes single matrices; batches are gemm's".into()));
    }
    let first = &args.units[0];
    for unit in &args.units {
        check_patterns(&inputs, [first, unit])?;
    }
    let (a, b) = (inputs.a.values(0, &first.a), inputs.b.values(0, &first.b));
    let reference = Bar::new("reference").watch(|tell| metrics::reference_with(&a, &b, args.threads, tell))?;
    let mut rows = Vec::new();
    for unit in &args.units {
        let product = inputs.on(unit)?;
        for plan in &args.plans {
            let bar = Bar::new("product");
            let out = plan.output_format().unwrap_or(unit.d);
            let d = product.run(plan, &out, &|done, total| bar.tell(done, total))?;
            let values = d.values(0, &out);
            let errors = metrics::errors(&values, &reference.product, &out)?;
            rows.push(Row { unit: unit.clone(), plan: plan.clone(), out, d, values, errors, notes: product.notes() });
        }
    }
    if let Some(target) = &target {
        let series: Vec<(String, Vec<f64>)> =
            rows.iter().map(|r| (r.label(), (&r.values - &reference.product).iter().copied().collect())).collect();
        let text = svg::histograms(&series, "error of D's elements");
        target.write(|out| out.write_all(text.as_bytes()))?;
    }
    let mut out = io::output();
    if args.json {
        json(&mut out, &rows, reference.exact)?;
    } else {
        table(&mut out, &rows, reference.exact)?;
    }
    out.flush()?;
    Ok(true)
}

/// Bit patterns must mean the same numbers to two units.
fn check_patterns(inputs: &Inputs, [x, y]: [&Unit; 2]) -> Result<(), Failure> {
    for (name, array, formats) in [("A", &inputs.a, [x.a, y.a]), ("B", &inputs.b, [x.b, y.b])] {
        if array.pattern_width().is_some() && formats[0] != formats[1] {
            let why = format!("{name} is bit patterns, which are {} to {x} but {} to {y}", formats[0], formats[1]);
            return Err(Failure::Message(format!("{why}; give values as floats")));
        }
    }
    Ok(())
}

impl Row {
    fn label(&self) -> String {
        format!("{} {}", self.unit, self.plan)
    }
}

/// In how many elements two results differ: in their bits, or across formats as numbers.
fn differ(x: &Row, y: &Row) -> usize {
    if x.out == y.out {
        return x.d.differences(&y.d, None).0;
    }
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    x.values.iter().zip(&y.values).filter(|(a, b)| !same(**a, **b)).count()
}

fn table(out: &mut impl Write, rows: &[Row], exact: bool) -> Result<(), Failure> {
    let mut header: Vec<String> =
        ["", "unit", "plan", "max abs", "max ulp", "rel. Frobenius", "bias"].map(String::from).to_vec();
    header.extend((1..=rows.len()).map(|t| format!("\u{2260} {t}")));
    let mut table = plain_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (t, row) in rows.iter().enumerate() {
        let e = &row.errors;
        let number = |text: String| if e.counted == 0 { "-".into() } else { text };
        let mut cells = vec![
            (t + 1).to_string(),
            row.unit.to_string(),
            row.plan.to_string(),
            number(format!("{:.3e}", e.max_abs)),
            number(format!("{:.1}", e.max_ulp)),
            number(format!("{:.3e}", e.relative_frobenius)),
            number(format!("{:+.3e}", e.bias)),
        ];
        cells.extend(rows.iter().map(|other| differ(row, other).to_string()));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    let against = if exact { Against::Exact } else { Against::Pairs }.words();
    let elements = rows.first().map_or(0, |r| r.values.len());
    writeln!(out, "against {against}; \u{2260} counts elements that differ, of {elements}; ulps are of each unit's d")?;
    for (t, row) in rows.iter().enumerate().filter(|(_, r)| r.errors.special > 0) {
        writeln!(out, "{}: {} elements are NaN or infinite and not counted", t + 1, row.errors.special)?;
    }
    // Once for all plans of a unit.
    for (t, row) in rows.iter().enumerate().filter(|&(t, row)| t == 0 || rows[t - 1].unit.name != row.unit.name) {
        for note in &row.notes {
            writeln!(out, "{}: {note}", t + 1)?;
        }
    }
    Ok(())
}

fn json(out: &mut impl Write, rows: &[Row], exact: bool) -> Result<(), Failure> {
    let one = |row: &Row| {
        let e = &row.errors;
        let number = |x: f64| (e.counted > 0).then_some(x);
        serde_json::json!({
            "unit": row.unit.name, "plan": row.plan.to_string(), "max_abs": number(e.max_abs),
            "max_ulp": number(e.max_ulp), "relative_frobenius": number(e.relative_frobenius), "bias": number(e.bias),
            "special": e.special, "notes": row.notes,
            "differs": rows.iter().map(|other| differ(row, other)).collect::<Vec<_>>(),
        })
    };
    let reference = if exact { Against::Exact } else { Against::Pairs }.name();
    writeln!(out, "{}", serde_json::json!({"reference": reference, "rows": rows.iter().map(one).collect::<Vec<_>>()}))?;
    Ok(())
}
