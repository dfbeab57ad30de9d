//! `gemmulate compare`: one product on several units, by several plans.

use crate::gemm::product;
use crate::io::{self, Failure, Outcome};
use crate::npy::Matrix;
use crate::svg;
use crate::units::plain_table;
use gemmulate::format::{E2M1, Overflow, UE8M0};
use gemmulate::gemm::{metrics, quantise};
use gemmulate::{Gemm, Plan, Unit, round::Rounding};
use ndarray::{Array2, Axis};
use std::io::Write;
use std::path::PathBuf;

/// Compare what several units, by several plans, make of one product.
///
/// Errors are against the f64 product of the matrices as they stand in the files (exact where
/// possible), so they include what rounding the operands costs. The last columns count the elements
/// in which two results differ, as numbers, bit for bit. Block-scaled units get their operands
/// quantised to MX or NVFP4.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate compare a.npy b.npy --units \"H100 QGMMA.64x128x32.F32.E4M3.E4M3,ada/mma.m16n8k32.f32.e4m3.e4m3.f32\"
  gemmulate compare a.npy b.npy --units hopper/wgmma.m64n128k16.f32.f16.f16 --plans \"in-order;cutlass3 split-k=2\"")]
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
    /// Saturate values beyond the units' formats
    #[arg(long)]
    saturate: bool,
    /// Draw the distributions of errors
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One row of the table.
struct Row {
    unit: Unit,
    plan: Plan,
    values: Array2<f64>,
    errors: metrics::Errors,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (a, b) = (Matrix::read(&args.a)?, Matrix::read(&args.b)?);
    let first = &args.units[0];
    let (av, bv) = (a.values(&first.a)?, b.values(&first.b)?);
    let reference = metrics::reference(&av, &bv)?;
    let mut rows = Vec::new();
    for unit in &args.units {
        for plan in &args.plans {
            let codes = one(args, unit, plan, [&a, &b], [&av, &bv])?;
            let values = codes.mapv(|code| unit.d.to_f64(code));
            let errors = metrics::errors(&values, &reference.product, &unit.d)?;
            rows.push(Row { unit: unit.clone(), plan: plan.clone(), values, errors });
        }
    }
    if let Some(path) = &args.svg {
        let series: Vec<(String, Vec<f64>)> =
            rows.iter().map(|r| (r.label(), (&r.values - &reference.product).iter().copied().collect())).collect();
        let text = svg::histograms(&series, "error of D's elements");
        std::fs::write(path, text).map_err(|e| Failure::Message(format!("{}: {e}", path.display())))?;
    }
    let mut out = io::output();
    if args.json {
        json(&mut out, &rows, reference.exact)?
    } else {
        table(&mut out, &rows, reference.exact)?
    }
    out.flush()?;
    Ok(true)
}

impl Row {
    fn label(&self) -> String {
        format!("{} {}", self.unit, self.plan)
    }
}

fn one(
    args: &Args,
    unit: &Unit,
    plan: &Plan,
    [a, b]: [&Matrix; 2],
    [av, bv]: [&Array2<f64>; 2],
) -> Result<Array2<u64>, Failure> {
    let overflow = if args.saturate { Overflow::Saturate } else { Overflow::Ieee };
    let gemm = Gemm::on(unit).plan(plan.clone()).round_inputs(args.round).overflow(overflow);
    let size = [a.shape[0], b.shape[1]];
    let Some(rule) = unit.scale else {
        return product(&gemm, &a.operand(&unit.a)?, &b.operand(&unit.b)?, size);
    };
    let quantise = |x: &Array2<f64>, format, axis| {
        if rule.format == UE8M0 || unit.a != E2M1 {
            quantise::mx(x, format, rule.block, axis, args.round)
        } else {
            quantise::nvfp4(x, axis, Default::default())
        }
    };
    let (qa, qb) = (quantise(av, &unit.a, Axis(1))?, quantise(bv, &unit.b, Axis(0))?);
    product(&gemm.quantised(&qa, &qb), &qa, &qb, size)
}

/// In how many elements two results differ.
fn differ(x: &Row, y: &Row) -> usize {
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
        let mut cells = vec![
            (t + 1).to_string(),
            row.unit.to_string(),
            row.plan.to_string(),
            format!("{:.3e}", e.max_abs),
            format!("{:.1}", e.max_ulp),
            format!("{:.3e}", e.relative_frobenius),
            format!("{:+.3e}", e.bias),
        ];
        cells.extend(rows.iter().map(|other| differ(row, other).to_string()));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    let against = if exact { "the exact product" } else { "a product in twice f64's precision" };
    let elements = rows.first().map_or(0, |r| r.values.len());
    writeln!(out, "against {against}; \u{2260} counts elements that differ, of {elements}; ulps are of each unit's d")?;
    for (t, row) in rows.iter().enumerate().filter(|(_, r)| r.errors.special > 0) {
        writeln!(out, "{}: {} elements are NaN or infinite and not counted", t + 1, row.errors.special)?;
    }
    Ok(())
}

fn json(out: &mut impl Write, rows: &[Row], exact: bool) -> Result<(), Failure> {
    let one = |row: &Row| {
        let e = &row.errors;
        serde_json::json!({
            "unit": row.unit.name, "plan": row.plan.to_string(), "max_abs": e.max_abs, "max_ulp": e.max_ulp,
            "relative_frobenius": e.relative_frobenius, "bias": e.bias, "special": e.special,
            "differs": rows.iter().map(|other| differ(row, other)).collect::<Vec<_>>(),
        })
    };
    let reference = if exact { "exact" } else { "f64 pairs" };
    writeln!(out, "{}", serde_json::json!({"reference": reference, "rows": rows.iter().map(one).collect::<Vec<_>>()}))?;
    Ok(())
}
