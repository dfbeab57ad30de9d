//! `gemmulate bench`: units against native products, bits checked before anything is timed.

use crate::io::{self, Failure, Outcome};
use crate::units::plain_table;
use crate::yardstick::{Native, Real};
use cpu_time::ThreadTime;
use gemmulate::Unit;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::gemm::{Codes, CodesMut, Gemm, Workspace};
use gemmulate::round::Rounding;
use gemmulate::simd::Isa;
use gemmulate::view::{View, ViewMut};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;

/// Time units against native matrix products.
///
/// Each unit's N x N x N product of normally distributed numbers is compared, in part, with the
/// reference, then timed in turn with the `gemm` crate's product in the type of D and
/// matrixmultiply's (one thread). A ratio is the median of the turns'; times are the thread's own
/// (wall time with several threads).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate bench
  gemmulate bench --unit \"H100 HGMMA.64x8x16.F32\" --size 512 --isa avx2
  gemmulate bench --threads 2 --json > bench.json")]
pub(crate) struct Args {
    /// A unit by any of its names; by default one for every kind of accumulator
    #[arg(long, value_name = "UNIT")]
    unit: Vec<String>,
    /// M, N and K
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=8192))]
    size: u32,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Hold kernels back to an instruction set: avx512, avx2, neon, portable or reference
    #[arg(long)]
    isa: Option<Isa>,
    /// Turns
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Print JSON
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

/// splitmix64, made normal.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (core::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Codes as wide as their format stores them.
enum Stored {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

macro_rules! each {
    ($stored:expr, $wrap:ident, $view:ident, $shape:expr) => {
        match $stored {
            Stored::U8(x) => $wrap::U8($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U16(x) => $wrap::U16($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U32(x) => $wrap::U32($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U64(x) => $wrap::U64($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
        }
    };
}

impl Stored {
    fn new(spec: &FormatSpec, size: usize, mut code: impl FnMut() -> u64) -> Self {
        let codes = (0..size).map(|_| code());
        match spec.storage_bits {
            0..=8 => Self::U8(codes.map(|x| x as u8).collect()),
            9..=16 => Self::U16(codes.map(|x| x as u16).collect()),
            17..=32 => Self::U32(codes.map(|x| x as u32).collect()),
            _ => Self::U64(codes.collect()),
        }
    }

    fn normal(spec: &FormatSpec, size: usize, random: &mut Random) -> Self {
        Self::new(spec, size, || {
            spec.encode_f64(random.normal(), Rounding::NearestEven, Overflow::Saturate).unwrap_or_default()
        })
    }

    fn codes(&self, shape: [usize; 2]) -> Result<Codes<'_>, Failure> {
        Ok(each!(self, Codes, View, shape))
    }

    fn codes_mut(&mut self, shape: [usize; 2]) -> Result<CodesMut<'_>, Failure> {
        Ok(each!(self, CodesMut, ViewMut, shape))
    }

    fn get(&self, at: usize) -> u64 {
        match self {
            Self::U8(x) => x[at].into(),
            Self::U16(x) => x[at].into(),
            Self::U32(x) => x[at].into(),
            Self::U64(x) => x[at],
        }
    }
}

/// A unit's operands and result.
struct Job {
    unit: Unit,
    n: usize,
    a: Stored,
    b: Stored,
    /// Block scales, lines first for A, blocks first for B.
    scales: Option<[Stored; 2]>,
    d: Stored,
}

impl Job {
    fn new(unit: &Unit, n: usize) -> Self {
        let mut random = Random(7);
        let scales = unit.scale.map(|rule| {
            let mut around_one = || {
                Stored::new(&rule.format, n * n.div_ceil(rule.block), || {
                    let x = 2f64.powi((random.uniform() * 5.0) as i32 - 2);
                    rule.format.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap_or_default()
                })
            };
            [around_one(), around_one()]
        });
        let (a, b) = (Stored::normal(&unit.a, n * n, &mut random), Stored::normal(&unit.b, n * n, &mut random));
        Self { unit: unit.clone(), n, a, b, scales, d: Stored::new(&unit.d, n * n, || 0) }
    }

    fn run(&mut self, args: &Args, workspace: &mut Workspace) -> Result<(), Failure> {
        let (n, mut gemm) = (self.n, Gemm::on(&self.unit).threads(args.threads as usize));
        if let Some(isa) = args.isa {
            gemm = gemm.isa(isa);
        }
        if let (Some([a, b]), Some(rule)) = (&self.scales, self.unit.scale) {
            let blocks = n.div_ceil(rule.block);
            gemm = gemm.block_scales(&a.codes([n, blocks])?, &b.codes([blocks, n])?);
        }
        let (a, b) = (self.a.codes([n, n])?, self.b.codes([n, n])?);
        Ok(gemm.run_codes(&a, &b, self.d.codes_mut([n, n])?, workspace)?)
    }

    /// Compares some elements of D with the unit's own method, dot-add by dot-add.
    fn check(&self) -> Result<(), Failure> {
        let (n, step) = (self.n, self.unit.shape.k);
        let mut random = Random(11);
        for _ in 0..48 {
            let (i, j) = ((random.uniform() * n as f64) as usize, (random.uniform() * n as f64) as usize);
            let mut d = 0;
            for k in (0..n).step_by(step) {
                let code = |from: &Stored, at: usize, p: usize| if p < n { from.get(at) } else { 0 };
                let a: Vec<u64> = (k..k + step).map(|p| code(&self.a, i * n + p, p)).collect();
                let b: Vec<u64> = (k..k + step).map(|p| code(&self.b, p * n + j, p)).collect();
                let (mut x, mut y) = (Vec::new(), Vec::new());
                if let (Some([sa, sb]), Some(rule)) = (&self.scales, self.unit.scale) {
                    let blocks = n.div_ceil(rule.block);
                    for g in (k..k + step).step_by(rule.block).map(|p| p / rule.block) {
                        let one =
                            rule.format.encode_f64(1.0, Rounding::NearestEven, Overflow::Ieee).unwrap_or_default();
                        x.push(if g < blocks { sa.get(i * blocks + g) } else { one });
                        y.push(if g < blocks { sb.get(g * n + j) } else { one });
                    }
                }
                d = self.unit.dot_add_scaled_bits(&a, &b, d, &x, &y)?;
            }
            if d != self.d.get(i * n + j) {
                let unit = &self.unit;
                return Err(Failure::Message(format!("{unit}: D[{i}, {j}] is {:x}, not {d:x}", self.d.get(i * n + j))));
            }
        }
        Ok(())
    }
}

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

fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_by(f64::total_cmp);
    xs[xs.len() / 2]
}

/// Times one unit in turn with its yardsticks.
fn measure<T: Real>(unit: &Unit, args: &Args, native: &mut Native<T>) -> Result<Value, Failure> {
    let mut gemm = Gemm::on(unit);
    if let Some(isa) = args.isa {
        gemm = gemm.isa(isa);
    }
    let kernel = gemm.kernel();
    let size = args.size as usize;
    let n = if kernel.isa == Isa::Reference { size.min(SLOW.max(unit.shape.k)) } else { size };
    let (mut job, mut workspace) = (Job::new(unit, n), Workspace::new());
    job.run(args, &mut workspace)?;
    job.check()?;
    let (mut times, mut by_gemm, mut by_mm) = (Vec::new(), Vec::new(), Vec::new());
    // Of a smaller product the yardstick's share is taken.
    let share = (n as f64 / f64::from(args.size)).powi(3);
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
    let accumulator = unit.recipe.map_or_else(|| format!("{:?}", unit.accumulator), |recipe| recipe.to_string());
    Ok(json!({
        "unit": unit.name, "accumulator": accumulator, "isa": kernel.isa.to_string(), "kernel": kernel.name,
        "size": n, "gmacs": (n as f64).powi(3) * 1e-9 / median(times),
        "ratio_gemm": median(by_gemm), "ratio_matrixmultiply": median(by_mm),
    }))
}

/// The yardsticks themselves.
fn yardstick<T: Real>(args: &Args, native: &mut Native<T>) -> Result<Value, Failure> {
    let rate = |times: Vec<f64>| f64::from(args.size).powi(3) * 1e-9 / median(times);
    let (mut gemm, mut mm) = (Vec::new(), Vec::new());
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
    let (n, mut random) = (args.size as usize, Random(5));
    let (mut single, mut double) =
        (Native::<f32>::new(n, || random.normal()), Native::<f64>::new(n, || random.uniform()));
    let yard = json!({
        "size": n, "threads": args.threads, "turns": args.turns, "gemm_features": "x86-v4", "matrixmultiply_threads": 1,
        "f32": yardstick(args, &mut single)?, "f64": yardstick(args, &mut double)?,
    });
    let mut out = io::output();
    let results = units.iter().map(|unit| match unit.d.storage_bits {
        64 => measure(unit, args, &mut double),
        _ => measure(unit, args, &mut single),
    });
    if args.json {
        let results = results.collect::<Result<Vec<_>, _>>()?;
        writeln!(out, "{:#}", json!({ "yardstick": yard, "results": results }))?;
        out.flush()?;
        return Ok(true);
    }
    table(&yard, &results.collect::<Result<Vec<_>, _>>()?, &mut out)?;
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
            number("ratio_gemm", 3),
            number("ratio_matrixmultiply", 3),
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
