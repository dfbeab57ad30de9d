//! `gemmulate gemm`: a whole matrix product on a unit.

use crate::io::{self, Failure, Outcome};
use crate::npy::{self, Matrix};
use crate::units::plain_table;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::gemm::{CodesMut, Progress, Scaling, Workspace, metrics};
use gemmulate::view::ViewMut;
use gemmulate::{Gemm, Plan, Unit, round::Rounding};
use indicatif::{ProgressBar, ProgressStyle};
use ndarray::Array2;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Multiply matrices on a unit: D = alpha A B + beta C.
///
/// Matrices are .npy files of 2 dimensions, in either order. Floats (f16, f32, f64) are values,
/// rounded to the unit's formats; unsigned integers are bit patterns in those formats. D is written
/// as floats, bf16 and anything narrower as bit patterns.
///
/// A plan is a preset (in-order, cutlass2, cutlass3, deepgemm), then key=value among block=MxNxK,
/// split-k=S, split-mode=parallel|serial|atomic, order=2,0,1 or seed=N, flush=yes|no, stream-k=P,
/// promote=I|none, scales=RxKxC|none, tail=first|last, start=zero|c, epilogue=2x|3x|plain.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate gemm hopper/wgmma.m64n128k16.f32.f16.f16 a.npy b.npy -o d.npy
  gemmulate gemm \"H100 QGMMA.64x128x32.F32.E4M3.E4M3\" a.npy b.npy --plan \"cutlass3 split-k=2\" --compare
  gemmulate gemm \"a100 HMMA.16816.F32\" a.npy b.npy --expect from-gpu.npy
  gemmulate gemm \"a100 HMMA.16816.F32\" a.npy b.npy --trace 3,17")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
    /// A: M x K
    a: PathBuf,
    /// B: K x N
    b: PathBuf,
    /// C: M x N
    #[arg(short, long)]
    c: Option<PathBuf>,
    /// Where D goes
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The factor of A B
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    alpha: f64,
    /// The factor of C; 1 if there is a C
    #[arg(long, allow_negative_numbers = true)]
    beta: Option<f64>,
    /// The kernel's plan
    #[arg(long, value_name = "TEXT", default_value = "in-order")]
    plan: Plan,
    /// D's type: f32, f16, bf16 [default: the unit's]
    #[arg(long, value_name = "TYPE", value_parser = npy::output_format)]
    out: Option<FormatSpec>,
    /// How values are rounded to the unit's formats: rne rna rnz rnu rnd rno rz ra rd ru
    #[arg(long, value_name = "ROUNDING", default_value = "rne")]
    round: Rounding,
    /// What becomes of values beyond the unit's formats: inf or saturate
    #[arg(long, value_parser = overflow, default_value = "inf")]
    overflow: Overflow,
    /// Scales of A: the unit's block scales, the plan's promotion scales, or else a number, or a file
    /// of one per row
    #[arg(long, value_name = "SCALES")]
    scale_a: Option<String>,
    /// Scales of B, likewise
    #[arg(long, value_name = "SCALES")]
    scale_b: Option<String>,
    /// Threads; 0 for all there are. The result never depends on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Write D as bit patterns, whatever its type
    #[arg(long)]
    bits: bool,
    /// Compare D with a file, bit for bit; exit status 1 if it differs
    #[arg(long, value_name = "D.npy")]
    expect: Option<PathBuf>,
    /// Draw how one element of D comes about, instead of computing all
    #[arg(long, value_name = "I,J", value_parser = element)]
    trace: Option<[usize; 2]>,
    /// Print errors against an f64 product, exact where possible
    #[arg(long)]
    compare: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

fn overflow(text: &str) -> Result<Overflow, String> {
    match text.to_ascii_lowercase().as_str() {
        "inf" | "ieee" => Ok(Overflow::Ieee),
        "saturate" => Ok(Overflow::Saturate),
        _ => Err("expected inf or saturate".into()),
    }
}

fn element(text: &str) -> Result<[usize; 2], String> {
    let numbers: Result<Vec<usize>, _> = text.split(',').map(|x| x.trim().parse()).collect();
    numbers.ok().and_then(|n| n.try_into().ok()).ok_or_else(|| "expected row,column, as in 3,17".into())
}

/// Scales that stand for the whole operand or for its lines.
fn lines(text: &str, along_rows: bool) -> Result<Scaling, Failure> {
    if let Ok(scale) = text.parse::<f32>() {
        return Ok(Scaling::Tensor(scale));
    }
    let matrix = Matrix::read(Path::new(text))?;
    let [rows, columns] = matrix.shape;
    if (along_rows && columns != 1) || (!along_rows && rows != 1) || matrix.pattern_width().is_some() {
        let expected = if along_rows { "M x 1" } else { "1 x N" };
        let found = format!("{rows} x {columns}");
        return Err(Failure::Message(format!("{text}: expected {expected} floats, one per line, but found {found}")));
    }
    Ok(Scaling::Lines(matrix.values(&gemmulate::format::F32)?.iter().map(|&x| x as f32).collect()))
}

/// Everything read from files.
struct Input {
    a: Matrix,
    b: Matrix,
    c: Option<Matrix>,
    scales: Option<[Matrix; 2]>,
    promotion: Option<[Array2<f32>; 2]>,
    factors: [Scaling; 2],
}

impl Input {
    fn read(args: &Args) -> Result<Self, Failure> {
        let c = args.c.as_deref().map(Matrix::read).transpose()?;
        let (a, b) = (Matrix::read(&args.a)?, Matrix::read(&args.b)?);
        let mut input = Self { a, b, c, scales: None, promotion: None, factors: [Scaling::One, Scaling::One] };
        let by_block = args.unit.scale.is_some();
        let by_promotion = args.plan.takes_scales();
        match (&args.scale_a, &args.scale_b) {
            (Some(a), Some(b)) if by_block || by_promotion => {
                let pair = [Matrix::read(Path::new(a))?, Matrix::read(Path::new(b))?];
                if by_block {
                    input.scales = Some(pair);
                } else {
                    let [a, b] = [pair[0].values(&gemmulate::format::F32)?, pair[1].values(&gemmulate::format::F32)?];
                    input.promotion = Some([a.mapv(|x| x as f32), b.mapv(|x| x as f32)]);
                }
            }
            (a, b) if !by_block && !by_promotion => {
                let read = |text: &Option<String>, rows| text.as_deref().map_or(Ok(Scaling::One), |t| lines(t, rows));
                input.factors = [read(a, true)?, read(b, false)?];
            }
            _ => return Err(Failure::Message("this product takes scales: give --scale-a and --scale-b".into())),
        }
        Ok(input)
    }

    fn gemm<'a>(&'a self, args: &'a Args) -> Result<Gemm<'a>, Failure> {
        let unit = &args.unit;
        let beta = args.beta.unwrap_or(if self.c.is_some() { 1.0 } else { 0.0 });
        let mut gemm = Gemm::on(unit)
            .plan(args.plan.clone())
            .alpha(args.alpha)
            .beta(beta)
            .round_inputs(args.round)
            .overflow(args.overflow)
            .threads(args.threads)
            .output(args.out.unwrap_or(unit.d))
            .scale_a(self.factors[0].clone())
            .scale_b(self.factors[1].clone());
        if let Some(c) = &self.c {
            gemm = gemm.c_any(c.operand(&unit.c)?);
        }
        if let (Some([a, b]), Some(rule)) = (&self.scales, unit.scale) {
            gemm = gemm.block_scales(&a.operand(&rule.format)?, &b.operand(&rule.format)?);
        }
        if let Some([a, b]) = &self.promotion {
            gemm = gemm.promotion_scales(a, b);
        }
        Ok(gemm)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let input = Input::read(args)?;
    let gemm = input.gemm(args)?;
    let (a, b) = (input.a.operand(&args.unit.a)?, input.b.operand(&args.unit.b)?);
    let mut out = io::output();
    if let Some(at) = args.trace {
        let (_, text) = gemm.trace(&a, &b, at)?;
        write!(out, "{text}")?;
        out.flush()?;
        return Ok(true);
    }
    let start = Instant::now();
    let bar = Bar::new(start);
    let tell = |progress: Progress| bar.tell(progress);
    let codes = product(&gemm.progress(&tell), &a, &b, [input.a.shape[0], input.b.shape[1]])?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish();
    let format = args.out.unwrap_or(args.unit.d);
    if let Some(path) = &args.output {
        npy::write(path, &codes, &format, args.bits)?;
    }
    let report = Report { args, input: &input, codes: &codes, format, seconds };
    report.print(&mut out)?;
    let same = match &args.expect {
        Some(path) => report.expect(&mut out, path)?,
        None => true,
    };
    out.flush()?;
    Ok(same)
}

/// D's codes.
pub(crate) fn product(
    gemm: &Gemm<'_>,
    a: &impl gemmulate::gemm::Matrix,
    b: &impl gemmulate::gemm::Matrix,
    [m, n]: [usize; 2],
) -> Result<Array2<u64>, Failure> {
    let size = m.checked_mul(n).ok_or_else(|| Failure::Message("D is too large".into()))?;
    let mut codes = vec![0u64; size];
    let d = ViewMut::from_slice(&mut codes, [m, n], [n as isize, 1], 0)?;
    gemm.run_codes(a, b, CodesMut::U64(d), &mut Workspace::new())?;
    Array2::from_shape_vec((m, n), codes).map_err(|e| Failure::Message(e.to_string()))
}

/// A progress bar for terminals, after a second.
struct Bar {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
}

impl Bar {
    fn new(start: Instant) -> Self {
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3}% {elapsed} (ready in {eta})") {
            bar.set_style(style);
        }
        Self { bar, start, shown: std::io::stderr().is_terminal() }
    }

    fn tell(&self, progress: Progress) -> ControlFlow<()> {
        if self.shown && self.start.elapsed() > Duration::from_secs(1) {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            }
            self.bar.set_length(progress.total);
            self.bar.set_position(progress.done);
        }
        ControlFlow::Continue(())
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// What was done, for people and programs.
struct Report<'a> {
    args: &'a Args,
    input: &'a Input,
    codes: &'a Array2<u64>,
    format: FormatSpec,
    seconds: f64,
}

impl Report<'_> {
    fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (args, [m, k]) = (self.args, self.input.a.shape);
        let n = self.input.b.shape[1];
        let gmacs = m as f64 * n as f64 * k as f64 / self.seconds.max(1e-9) / 1e9;
        let errors = if args.compare { Some(self.errors()?) } else { None };
        if args.json {
            let mut json = serde_json::json!({
                "unit": args.unit.name, "plan": args.plan.resolved(&args.unit).to_string(),
                "m": m, "n": n, "k": k, "seconds": self.seconds, "gmacs": gmacs,
            });
            if let Some((e, exact)) = &errors {
                json["errors"] = serde_json::json!({
                    "max_abs": e.max_abs, "max_ulp": e.max_ulp, "relative_frobenius": e.relative_frobenius,
                    "bias": e.bias, "special": e.special, "reference": if *exact { "exact" } else { "f64 pairs" },
                });
            }
            writeln!(out, "{json}")?;
            return Ok(());
        }
        if args.output.is_none() && args.expect.is_none() && !args.compare {
            self.preview(out)?;
        }
        if let Some((e, exact)) = &errors {
            let against = if *exact { "the exact product" } else { "a product in twice f64's precision" };
            writeln!(
                out,
                "against {against}: max abs {:e}, max ulp {:.3} ({}), relative Frobenius {:e}, bias {:e}",
                e.max_abs, e.max_ulp, self.format, e.relative_frobenius, e.bias
            )?;
            if e.special > 0 {
                writeln!(out, "{} elements are NaN or infinite and not counted", e.special)?;
            }
        }
        Ok(())
    }

    /// The first rows and columns of D.
    fn preview(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (rows, columns) = self.codes.dim();
        for row in self.codes.outer_iter().take(8) {
            let values: Vec<String> =
                row.iter().take(8).map(|&x| format!("{:>14.7e}", self.format.to_f64(x))).collect();
            writeln!(out, "{}{}", values.join(" "), if columns > 8 { " ..." } else { "" })?;
        }
        if rows > 8 {
            writeln!(out, "...")?;
        }
        writeln!(out, "D is {rows} x {columns} of {}; write it with -o D.npy", self.format)?;
        Ok(())
    }

    fn errors(&self) -> Result<(metrics::Errors, bool), Failure> {
        let (unit, input) = (&self.args.unit, self.input);
        if input.scales.is_some() || input.promotion.is_some() || input.c.is_some() || self.args.alpha != 1.0 {
            return Err(Failure::Message("--compare measures plain products A B, without C, alpha and scales".into()));
        }
        let reference = metrics::reference(&input.a.values(&unit.a)?, &input.b.values(&unit.b)?)?;
        let d = self.codes.mapv(|code| self.format.to_f64(code));
        Ok((metrics::errors(&d, &reference.product, &self.format)?, reference.exact))
    }

    fn expect(&self, out: &mut impl Write, path: &Path) -> Result<bool, Failure> {
        let (expected, name) = (Matrix::read(path)?, path.display());
        let found = expected.format(&self.format);
        if found != self.format {
            return Err(Failure::Message(format!(
                "{name}: expected {} or its bit patterns, found {found}",
                self.format
            )));
        }
        let want = expected.codes()?;
        let (count, first) = metrics::bit_differences(self.codes, &want)?;
        if first.is_none() {
            writeln!(out, "all {} elements are bit-identical", want.len())?;
            return Ok(true);
        }
        writeln!(out, "{count} of {} elements differ; the first:", want.len())?;
        let mut table = plain_table(&["row", "column", "D", "expected", "D's bits", "expected"]);
        let differing = self.codes.indexed_iter().zip(&want).filter(|((_, d), want)| d != want);
        for (((i, j), &d), &want) in differing.take(10) {
            let value = |code| format!("{:e}", self.format.to_f64(code));
            table.add_row([i.to_string(), j.to_string(), value(d), value(want), format!("{d:x}"), format!("{want:x}")]);
        }
        writeln!(out, "{table}")?;
        if let Some([i, j]) = first {
            writeln!(out, "see how: add --trace {i},{j}")?;
        }
        Ok(false)
    }
}
