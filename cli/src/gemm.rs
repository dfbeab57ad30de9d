//! `gemmulate gemm`: a whole matrix product on a unit.

use crate::bar::Bar;
use crate::file::Target;
use crate::inputs::{Inputs, Operands};
use crate::io::{self, Failure, Outcome};
use crate::npy::{self, Array, Vectors, differ};
use crate::prepared::{Against, Element, Prepared};
use crate::units::plain_table;
use gemmulate::format::FormatSpec;
use gemmulate::gemm::metrics;
use gemmulate::{Plan, Unit};
use ndarray::Array2;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Multiply matrices on a unit: D = alpha A B + beta C.
///
/// Matrices are .npy files, in either order. Floats (f16, f32, f64) are values, rounded to the unit's
/// formats; unsigned integers are bit patterns in those formats. D is written as floats, bf16 and
/// anything narrower as bit patterns. A file of 3 dimensions is a batch of matrices, one of 1
/// dimension a vector; a batch of one matrix, or a matrix, is used for every product of a batch.
///
/// On a block-scaled unit, values without scales are quantised: to MX by the OCP standard, or to
/// NVFP4 with a factor of the whole matrix, which enters behind the unit. (Checkpoints store such
/// factors apart: give them as --alpha.)
///
/// A plan is a preset and changes to it, as in "cutlass3 block=128x128x64 split-k=4"; it is all that can change a bit
/// besides the unit and the operands. They are listed at the end.
#[derive(clap::Args)]
#[command(after_help = "\
Plans: a preset (in-order if there is none), then key=value in any order.
  in-order             one instruction after another along K
  cutlass2, cutlass3   blocks, tail and split of CUTLASS 2.x and 3.x; cutlass3 promotes Hopper's fp8
  deepgemm             fp8 with 1x128 and 128x128 scales, promoted every 128
  block=MxNxK          the tile of D and the step along K of one block of threads
  tail=first|last      whether the left-over of K (K mod block) comes first or last in a slice
  split-k=S            K in S slices, each a sum from 0
  split-align=E        slices are multiples of E elements, not of blocks (CUTLASS 2.x: 16 bytes)
  slices=interleaved   slices take the blocks in turn: s, s + S, s + 2S, ... (cuBLAS's xmma kernels)
  split-mode=parallel  slices' sums are added in f32, and D is rounded once; serial: D is rounded
                       after every slice; atomic: added to D in order=2,0,1, or by seed=N
  flush=yes|no         whether f32 atomics flush subnormals
  stream-k=P           the blocks of all tiles in P equal shares, wherever that cuts a tile's K
  promote=I|none       every I of K the unit's sum is added to one in f32 and starts again
  scales=RxKxC|none    promotion multiplies by one scale per R rows of A, K, and C columns of B
  start=zero|c         whether the first sum starts at 0 or at C
  epilogue=FORM        2x: fma(alpha, sum, beta C); 3x: fma(beta, C, alpha sum);
                       rounded: alpha sum is rounded to D's type before C is added;
                       plain: neither alpha nor beta
  out=TYPE             D's type

Which one a library uses: cuBLAS and PyTorch on an H100 were seen to use \"in-order\" for most shapes,
\"cutlass3 split-k=S promote=none\" for small ones with long K, and for fp8 without fast accumulation
\"cutlass3\" (docs/hardware.md); torch.addmm with alpha = beta = 1 and K unsplit
\"in-order epilogue=rounded\"; Triton \"in-order\", fp8 with max_num_imprecise_acc=P
\"in-order promote=P\", tf32 with --round rz. `identify` finds the plan of a product.

Examples:
  gemmulate gemm hopper/wgmma.m64n128k16.f32.f16.f16 a.npy b.npy -o d.npy
  gemmulate gemm hopper/wgmma.m64n128k32.f32.e4m3.e4m3 a.npy b.npy --compare \\
    --plan \"cutlass3 split-k=2\"
  gemmulate gemm \"a100 HMMA.16816.F32\" a.npy b.npy --expect from-gpu.npy
  gemmulate gemm \"a100 HMMA.16816.F32\" a.npy b.npy --trace 3,17
  gemmulate gemm rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3 \\
    x.npy w.npy --transposed b --packed --scale-a xs.npy --scale-b ws.npy \\
    --swizzled --alpha 3.1e-5 --out bf16 -o y.npy")]
pub(crate) struct Args {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find)]
    unit: Unit,
    #[command(flatten)]
    inputs: Operands,
    /// Where D goes; the file appears whole or not at all
    #[arg(short, long, value_name = "D.npy")]
    output: Option<PathBuf>,
    /// The kernel's plan
    #[arg(long, value_name = "TEXT", default_value = "in-order")]
    plan: Plan,
    /// D's type: f32, f16, bf16 [default: the plan's, else the unit's]
    #[arg(long, value_name = "TYPE", value_parser = npy::output_format)]
    out: Option<FormatSpec>,
    /// Write D as bit patterns, whatever its type
    #[arg(long, requires = "output")]
    bits: bool,
    /// Compare D with a file, bit for bit; exit status 1 if it differs
    #[arg(long, value_name = "D.npy")]
    expect: Option<PathBuf>,
    /// Draw how one element of D comes about, instead of computing all: row,column, counted from 0;
    /// in a batch product,row,column
    #[arg(long, value_name = "I,J", value_parser = element, conflicts_with_all = ["output", "expect", "compare", "json"])]
    trace: Option<Element>,
    /// Print errors against an f64 product, exact where possible; the largest in units in the last place is that of an
    /// element near zero as a rule
    #[arg(long)]
    compare: bool,
    /// Print what was done as JSON: {unit, plan, m, n, k, seconds, gmacs, ...}
    ///
    /// And, where there is one, `batch`; `notes`; with --compare `errors`: {max_abs, max_abs_at, max_ulp,
    /// relative_frobenius, bias, special, reference} (null where nothing is finite); with --expect `expect`: {differ,
    /// of, first, nan_codes}, the last for NaN in both that differ in bits (where the unit's NaN is known these are in
    /// `differ`).
    #[arg(long)]
    json: bool,
}

fn element(text: &str) -> Result<Element, String> {
    let numbers: Result<Vec<usize>, _> = text.split(',').map(|x| x.trim().parse()).collect();
    match numbers.as_deref() {
        Ok(&[i, j]) => Ok(Element { product: None, at: [i, j] }),
        Ok(&[t, i, j]) => Ok(Element { product: Some(t), at: [i, j] }),
        _ => Err("expected row,column, as in 3,17 (in a batch product,row,column)".into()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let target = args.output.as_deref().map(Target::new).transpose()?;
    let mut inputs = Inputs::read(&args.inputs)?;
    let ready = inputs.ready(&args.unit)?;
    if !args.compare {
        inputs.keep_only(&ready);
    }
    let product = inputs.product(&args.unit, ready)?;
    let format = args.out.or(args.plan.output_format()).unwrap_or(args.unit.d);
    let mut out = io::output();
    if let Some(at) = args.trace {
        write!(out, "{}", product.trace(&args.plan, &format, at)?)?;
        out.flush()?;
        return Ok(true);
    }
    let expected = args.expect.as_deref().map(|path| expected(path, &format, &inputs, &product)).transpose()?;
    let start = Instant::now();
    let bar = Bar::new("product");
    let d = product.run(&args.plan, &format, &|done, total| bar.tell(done, total))?;
    drop(bar);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(target) = &target {
        d.write(target, &file_shape(&inputs, &product), &format, args.bits)?;
    }
    let errors = if args.compare { Some(errors(&product, &args.plan, &d, &format)?) } else { None };
    let report = Report { args, inputs: &inputs, product: &product, d: &d, format, seconds, errors, expected };
    let told = if args.json { writeln!(out, "{}", report.json()).map_err(Into::into) } else { report.text(&mut out) };
    let told = told.and_then(|()| Ok(out.flush()?));
    io::verdict(told, report.differences().is_none_or(|(count, _)| count == 0))
}

/// D's dimensions: a vector has lost one.
fn file_shape(inputs: &Inputs, product: &Prepared<'_>) -> Vec<usize> {
    let [m, n, _] = product.size;
    let rows = (inputs.a.dimensions > 1).then_some(m);
    let columns = (inputs.b.dimensions > 1).then_some(n);
    inputs.batch().into_iter().chain(rows).chain(columns).collect()
}

/// The D that is expected, found to be of D's shape and type.
fn expected(path: &Path, format: &FormatSpec, inputs: &Inputs, product: &Prepared<'_>) -> Result<Array, Failure> {
    let vectors = if inputs.a.dimensions == 1 { Vectors::Row } else { Vectors::Column };
    let (expected, name) = (inputs.like_d(Array::read(path, vectors)?), path.display());
    let ([m, n, _], batch) = (product.size, inputs.batch());
    if expected.shape != [m, n] || expected.batch.unwrap_or(1) != batch.unwrap_or(1) {
        let size = |batch: Option<usize>, [m, n]: [usize; 2]| {
            format!("{}{m} x {n}", batch.map_or(String::new(), |b| format!("{b} x ")))
        };
        let found = size(expected.batch, expected.shape);
        return Err(Failure::Message(format!("{name} is {found}, but D is {}", size(batch, [m, n]))));
    }
    let found = expected.format(format);
    if found != *format {
        let why = format!("{name} holds {found}, but D is {format}; choose with --out, or give bit patterns");
        return Err(Failure::Message(why));
    }
    expected.operand(0, format)?;
    Ok(expected)
}

fn errors(
    product: &Prepared<'_>,
    plan: &Plan,
    d: &Array,
    format: &FormatSpec,
) -> Result<(metrics::Errors, Against), Failure> {
    let (reference, against) = product.reference(plan, format)?;
    let m = product.size[0];
    let values =
        Array2::from_shape_fn(reference.dim(), |(i, j)| format.to_f64(d.code([i / m.max(1), i % m.max(1), j])));
    Ok((metrics::errors(&values, &reference, format)?, against))
}

/// What was done, for people and programs.
struct Report<'a> {
    args: &'a Args,
    inputs: &'a Inputs,
    product: &'a Prepared<'a>,
    d: &'a Array,
    format: FormatSpec,
    seconds: f64,
    errors: Option<(metrics::Errors, Against)>,
    expected: Option<Array>,
}

impl Report<'_> {
    fn differences(&self) -> Option<(usize, Option<[usize; 3]>)> {
        self.expected.as_ref().map(|expected| self.d.differences(expected, self.any_nan()))
    }

    /// How many elements are NaN in both and differ in their bits.
    fn nan_codes(&self, expected: &Array) -> usize {
        self.d.differences(expected, None).0 - self.d.differences(expected, Some(&self.format)).0
    }

    /// D's format, if its NaNs are any NaN.
    fn any_nan(&self) -> Option<&FormatSpec> {
        self.args.unit.has_any_nan().then_some(&self.format)
    }

    /// An element's place as the user writes it.
    fn place(&self, [t, i, j]: [usize; 3]) -> Vec<usize> {
        if self.inputs.batch().is_some() { vec![t, i, j] } else { vec![i, j] }
    }

    fn json(&self) -> serde_json::Value {
        let (args, [m, n, k], batch) = (self.args, self.product.size, self.inputs.batch());
        let macs = m as f64 * n as f64 * k as f64 * batch.unwrap_or(1) as f64;
        let mut json = json!({
            "unit": args.unit.name, "plan": args.plan.resolved(&args.unit).to_string(), "m": m, "n": n, "k": k,
            "seconds": self.seconds, "gmacs": macs / self.seconds.max(1e-9) / 1e9,
        });
        if let Some(batch) = batch {
            json["batch"] = json!(batch);
        }
        let notes = self.product.notes();
        if !notes.is_empty() {
            json["notes"] = json!(notes);
        }
        if let Some((e, against)) = &self.errors {
            let number = |x: f64| (e.counted > 0).then_some(x);
            json["errors"] = json!({
                "max_abs": number(e.max_abs), "max_abs_at": self.largest(e), "max_ulp": number(e.max_ulp),
                "relative_frobenius": number(e.relative_frobenius), "bias": number(e.bias), "special": e.special, "reference": against.name(),
            });
        }
        if let Some(expected) = &self.expected {
            let (count, first) = self.d.differences(expected, self.any_nan());
            json["expect"] = json!({
                "differ": count, "of": self.d.len(), "first": first.map(|at| self.place(at)),
                "nan_codes": self.nan_codes(expected),
            });
        }
        json
    }

    fn text(&self, out: &mut impl Write) -> Result<(), Failure> {
        let args = self.args;
        for note in self.product.notes() {
            writeln!(out, "{note}")?;
        }
        if args.output.is_none() && self.expected.is_none() && self.errors.is_none() {
            self.preview(out)?;
        }
        if let Some((e, against)) = &self.errors {
            let against = against.words();
            if e.counted == 0 {
                writeln!(out, "against {against}: nothing to compare")?;
            } else {
                writeln!(
                    out,
                    "against {against}: max abs {:e} at {}, max ulp {:.3} ({}), relative Frobenius {:e}, bias {:e}",
                    e.max_abs,
                    self.largest(e).iter().flatten().map(usize::to_string).collect::<Vec<_>>().join(","),
                    e.max_ulp,
                    self.format,
                    e.relative_frobenius,
                    e.bias
                )?;
            }
            if e.special > 0 {
                writeln!(out, "{} elements are NaN or infinite and not counted", e.special)?;
            }
        }
        match &self.expected {
            Some(expected) => self.compare(out, expected),
            None => Ok(()),
        }
    }

    /// Where the largest error is: batches were compared as one matrix of all rows.
    fn largest(&self, e: &metrics::Errors) -> Option<Vec<usize>> {
        let m = self.product.size[0].max(1);
        e.max_abs_at.map(|[i, j]| self.place([i / m, i % m, j]))
    }

    /// The first rows and columns of D.
    fn preview(&self, out: &mut impl Write) -> Result<(), Failure> {
        let [rows, columns] = self.d.shape;
        for i in 0..if self.d.len() == 0 { 0 } else { rows.min(8) } {
            let values: Vec<String> =
                (0..columns.min(8)).map(|j| format!("{:>14.7e}", self.format.to_f64(self.d.code([0, i, j])))).collect();
            writeln!(out, "{}{}", values.join(" "), if columns > 8 { " ..." } else { "" })?;
        }
        if rows > 8 && self.d.len() > 0 {
            writeln!(out, "...")?;
        }
        let shape: Vec<String> = file_shape(self.inputs, self.product).iter().map(usize::to_string).collect();
        let (first, of) = (if self.inputs.batch().is_some() { " (this is its first matrix)" } else { "" }, self.format);
        let shape = if shape.is_empty() { "one number".into() } else { shape.join(" x ") };
        writeln!(out, "D is {shape} of {of}{first}; write it with -o D.npy")?;
        Ok(())
    }

    fn compare(&self, out: &mut impl Write, expected: &Array) -> Result<(), Failure> {
        let (d, total) = (self.d, self.d.len());
        let (count, first) = d.differences(expected, self.any_nan());
        let Some(first) = first else {
            let nans = if self.nan_codes(expected) == 0 { "" } else { ", but for which NaN a NaN is" };
            writeln!(out, "all {total} elements are bit-identical{nans}")?;
            return Ok(());
        };
        let nans = match self.nan_codes(expected) {
            // These are not among those that differ where any NaN will do.
            _ if self.any_nan().is_some() => String::new(),
            0 => String::new(),
            all if all == count => ", all in which NaN they are".into(),
            some => format!(", {some} of them in which NaN they are"),
        };
        writeln!(out, "{count} of {total} elements differ{nans}; the first:")?;
        let mut header = vec!["row", "column", "D", "expected", "D's bits", "expected"];
        if self.inputs.batch().is_some() {
            header.insert(0, "product");
        }
        let mut table = plain_table(&header);
        for at in d.places().filter(|&at| differ(d.code(at), expected.code(at), self.any_nan())).take(10) {
            let codes = [d.code(at), expected.code(at)];
            let values = codes.map(|code| format!("{:e}", self.format.to_f64(code)));
            let place = self.place(at).into_iter().map(|n| n.to_string());
            table.add_row(place.chain(values).chain(codes.map(|code| format!("{code:x}"))).collect::<Vec<_>>());
        }
        writeln!(out, "{table}")?;
        let first: Vec<String> = self.place(first).iter().map(usize::to_string).collect();
        writeln!(out, "see how: --trace {} instead of --expect", first.join(","))?;
        Ok(())
    }
}
