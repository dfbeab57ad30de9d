//! `gemmulate bench`: units against native products, bits checked before anything is timed.

mod job;

use crate::bar::Bar;
use crate::io::{self, Failure, Outcome};
use crate::units::plain_table;
use crate::yardstick::{Native, Real};
use cpu_time::ThreadTime;
use gemmulate::Unit;
use gemmulate::gemm::{Gemm, Workspace};
use gemmulate::simd::Isa;
use job::{Data, Job, Size};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;

/// Time units against native matrix products.
///
/// Each unit's product of normally distributed numbers is compared, in part, with the reference, then
/// timed in turn with the `gemm` crate's product in the type of D and matrixmultiply's (one thread).
/// A ratio is the median of the turns', the lower quartile in brackets; times are the thread's own
/// (wall time with several threads).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate bench
  gemmulate bench --unit \"H100 HGMMA.64x8x16.F32\" --size 512 --isa avx2
  gemmulate bench --unit \"H100 HMMA.16816.F32\" --size 1x4096x4096
  gemmulate bench --unit \"H100 HMMA.16816.F32.BF16\" --data patterns
  gemmulate bench --threads 2 --json > bench.json")]
pub(crate) struct Args {
    /// A unit by any of its names; by default one for every kind of accumulator
    #[arg(long, value_name = "UNIT")]
    unit: Vec<String>,
    /// M, N and K: one number for all three, or MxNxK
    #[arg(long, default_value = "1024")]
    size: Size,
    /// What the operands are
    #[arg(long, value_enum, default_value_t = Data::Normal)]
    data: Data,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Hold kernels back to an instruction set: avx512, avx2, neon, portable or reference
    #[arg(long)]
    isa: Option<Isa>,
    /// Turns
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Print JSON: {yardstick, results: [{unit, accumulator, isa, kernel, size, gmacs, ratio_gemm,
    /// ratio_matrixmultiply}]}
    ///
    /// Rates are 10^9 multiply-adds a second. Ratios are over gemm's product and matrixmultiply's, medians of the
    /// turns; `ratio_gemm_lower_quartile` and `ratio_matrixmultiply_lower_quartile` stand beside them. `yardstick` has
    /// `size`, `threads`, `turns`, `gemm_features`, `matrixmultiply_threads`, and for `f32` and `f64` `gemm_gmacs` and
    /// `matrixmultiply_gmacs`.
    #[arg(long)]
    json: bool,
}

/// One unit for every kind of accumulator.
const UNITS: [&str; 22] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "ampere/mma.m16n8k16.f32.f16.f16.f32",
    "turing/mma.m16n8k8.f32.f16.f16.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "hopper/wgmma.m64n8k32.f32.e4m3.e4m3",
    "ada/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "cdna3/v_mfma_f32_32x32x2_f32",
    "ampere/mma.m8n8k4.f64.f64.f64.f64",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna1/v_mfma_f32_32x32x8f16",
    "custom/m16n8k16.f32.bf16.bf16.f32/dot:block=16:F=40",
];

/// Size of products that only the reference computes.
const SLOW: usize = 64;

/// Seconds that `f` takes: this thread's, or by the clock where several work.
fn seconds(threads: u32, f: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    if threads == 1 {
        let start = ThreadTime::now();
        f()?;
        return Ok(start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    f()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The lower quartile and the median.
fn spread(mut xs: Vec<f64>) -> [f64; 2] {
    xs.sort_by(f64::total_cmp);
    [xs[xs.len() / 4], xs[xs.len() / 2]]
}

/// Times one unit in turn with its yardsticks.
fn measure<T: Real>(unit: &Unit, args: &Args, native: &mut Native<T>) -> Result<Value, Failure> {
    let mut gemm = Gemm::on(unit);
    if let Some(isa) = args.isa {
        if !isa.is_available() {
            return Err(Failure::Message(format!("--isa {isa}: this processor has no such instructions")));
        }
        gemm = gemm.isa(isa);
    }
    let kernel = gemm.kernel_for([args.size.m, args.size.n, args.size.k]);
    let slow = |n: usize| if kernel.isa == Isa::Reference { n.min(SLOW.max(unit.shape.k)) } else { n };
    let size = Size { m: slow(args.size.m), n: slow(args.size.n), k: slow(args.size.k) };
    let (mut job, mut workspace) = (Job::new(unit, size, args.data), Workspace::new());
    job.run(args, &mut workspace)?;
    job.check()?;
    let (mut times, mut by_gemm, mut by_mm) = (Vec::new(), Vec::new(), Vec::new());
    // Of a smaller product the yardstick's share is taken.
    let share = size.macs() / args.size.macs();
    for _ in 0..args.turns {
        let native_time = seconds(args.threads, || {
            native.gemm(args.threads as usize);
            Ok(())
        })?;
        let time = seconds(args.threads, || job.run(args, &mut workspace))?;
        let after = seconds(args.threads, || {
            native.gemm(args.threads as usize);
            Ok(())
        })?;
        let mm = seconds(1, || {
            native.matrixmultiply();
            Ok(())
        })?;
        times.push(time);
        by_gemm.push((native_time + after) / 2.0 * share / time);
        by_mm.push(mm * share / time);
    }
    let ([gemm_low, gemm], [mm_low, mm]) = (spread(by_gemm), spread(by_mm));
    let accumulator = unit.recipe.map_or_else(|| format!("{:?}", unit.accumulator), |recipe| recipe.to_string());
    Ok(json!({
        "unit": unit.name, "accumulator": accumulator, "isa": kernel.isa.to_string(), "kernel": kernel.name,
        "size": [size.m, size.n, size.k], "gmacs": size.macs() * 1e-9 / spread(times)[1],
        "ratio_gemm": gemm, "ratio_gemm_lower_quartile": gemm_low,
        "ratio_matrixmultiply": mm, "ratio_matrixmultiply_lower_quartile": mm_low,
    }))
}

/// The yardsticks themselves.
fn yardstick<T: Real>(args: &Args, native: &mut Native<T>) -> Result<Value, Failure> {
    let rate = |times: Vec<f64>| args.size.macs() * 1e-9 / spread(times)[1];
    let (mut gemm, mut mm) = (Vec::new(), Vec::new());
    // The first run pays for pages and threads.
    native.gemm(args.threads as usize);
    native.matrixmultiply();
    for _ in 0..args.turns {
        gemm.push(seconds(args.threads, || {
            native.gemm(args.threads as usize);
            Ok(())
        })?);
        mm.push(seconds(1, || {
            native.matrixmultiply();
            Ok(())
        })?);
    }
    Ok(json!({ "gemm_gmacs": rate(gemm), "matrixmultiply_gmacs": rate(mm) }))
}

pub(crate) fn run(args: &Args) -> Outcome {
    let names: Vec<&str> = if args.unit.is_empty() { UNITS.to_vec() } else { args.unit.iter().map(|u| &**u).collect() };
    let units = names.into_iter().map(Unit::find).collect::<Result<Vec<_>, _>>()?;
    let (Size { m, n, k }, mut random) = (args.size, ChaCha8Rng::seed_from_u64(5));
    let (mut single, mut double) = (
        Native::<f32>::new([m, n, k], || StandardNormal.sample(&mut random)),
        Native::<f64>::new([m, n, k], || StandardNormal.sample(&mut random)),
    );
    let yard = json!({
        "size": [m, n, k], "threads": args.threads, "turns": args.turns, "gemm_features": "x86-v4", "matrixmultiply_threads": 1,
        "f32": yardstick(args, &mut single)?, "f64": yardstick(args, &mut double)?,
    });
    let mut out = io::output();
    let bar = Bar::new("units");
    let results = units.iter().enumerate().map(|(i, unit)| {
        bar.tell(i as u64, units.len() as u64);
        match unit.d.storage_bits {
            64 => measure(unit, args, &mut double),
            _ => measure(unit, args, &mut single),
        }
    });
    let results = results.collect::<Result<Vec<_>, _>>()?;
    drop(bar);
    if args.json {
        writeln!(out, "{:#}", json!({ "yardstick": yard, "results": results }))?;
        out.flush()?;
        return Ok(true);
    }
    table(&yard, &results, &mut out)?;
    out.flush()?;
    Ok(true)
}

fn table(yard: &Value, results: &[Value], out: &mut impl Write) -> Result<(), Failure> {
    let mut table = plain_table(&["unit", "kernel", "GMAC/s", "of gemm", "of matrixmultiply"]);
    for r in results {
        let number = |key: &str, digits: usize| format!("{:.digits$}", r[key].as_f64().unwrap_or_default());
        let text = |key: &str| r[key].as_str().unwrap_or_default().to_string();
        let kernel = format!("{} ({})", text("kernel"), text("isa"));
        table.add_row([
            text("unit"),
            kernel,
            number("gmacs", 2),
            format!("{} ({})", number("ratio_gemm", 3), number("ratio_gemm_lower_quartile", 3)),
            format!("{} ({})", number("ratio_matrixmultiply", 3), number("ratio_matrixmultiply_lower_quartile", 3)),
        ]);
    }
    writeln!(out, "{table}")?;
    for ty in ["f32", "f64"] {
        let rate = |key: &str| yard[ty][key].as_f64().unwrap_or_default();
        let (gemm, mm) = (rate("gemm_gmacs"), rate("matrixmultiply_gmacs"));
        writeln!(out, "native {ty}: gemm {gemm:.1} GMAC/s, matrixmultiply {mm:.1} (one thread)")?;
    }
    Ok(())
}
