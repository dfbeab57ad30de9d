//! How much of `gemmulate eval`'s time is not arithmetic: its loop over lines in memory, whole and stubbed, in turn, by
//! thread CPU time; the aim is 0.7. Stubbed, d is the vector's own, which was computed before: the same lines are read,
//! and the same digits are written.
//!
//! `cargo bench --bench eval [UNIT...]`; `-- --test` compares bits with the reference and runs every loop once.

mod support;

use cpu_time::ThreadTime;
use gemmulate::Unit;
use gemmulate::vectors::{Evaluator, Expected, Generator, Line, Lines, Vector};
use std::io::Write;
use std::time::Duration;
use support::median;

/// One unit or two of each family.
const UNITS: [&str; 17] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "ampere/mma.m16n8k16.f32.f16.f16.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "hopper/wgmma.m64n8k32.f32.e4m3.e4m3",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "ampere/mma.m8n8k4.f32.f16.f16.f32",
    "ampere/mma.m8n8k4.f64.f64.f64.f64",
    "cdna3/v_mfma_f32_32x32x2_f32",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna1/v_mfma_f32_32x32x8f16",
];
const LINES: usize = 2000;
const TURNS: usize = 101;
/// Lines that are read before they are answered.
const TOGETHER: usize = 64;

/// The loop of `gemmulate eval`, with some arithmetic.
fn evaluate(unit: &Unit, text: &str, out: &mut Vec<u8>, mut d: impl FnMut(&[Vector], &mut Vec<u64>)) -> Duration {
    let (mut vectors, mut answers) = (vec![Vector::default(); TOGETHER], Vec::new());
    let start = ThreadTime::now();
    out.clear();
    let (mut lines, mut read, mut ended) = (Lines::new(unit, "-", text.as_bytes()), 0, false);
    while !ended {
        if !lines.has_line() || read == vectors.len() {
            answers.clear();
            d(&vectors[..read], &mut answers);
            answers.iter().for_each(|d| writeln!(out, "{d:x}").expect("memory"));
            read = 0;
        }
        ended = lines.next_into(&mut vectors[read]).expect("a line") == Line::End;
        read += 1;
    }
    start.elapsed()
}

fn measure(name: &str, turns: usize) {
    let unit = Unit::find(name).expect("a unit");
    let mut evaluator = Evaluator::new(&unit);
    let vectors: Vec<Vector> = Generator::new(&unit, 1).take(LINES).collect();
    let mut together = Vec::new();
    evaluator.eval_all(vectors.iter().map(|v| &v.input), &mut together).expect("vectors");
    let vectors = vectors.into_iter().zip(together).map(|(v, d)| {
        assert_eq!(v.eval(&unit), Ok(d), "{unit}: {v}");
        Vector { d: Some(Expected::Bits(d)), ..v }
    });
    let text: String = vectors.map(|v| format!("{v}\n")).collect();
    let mut out = Vec::new();
    let known = |v: &Vector| if let Some(Expected::Bits(d)) = v.d { d } else { 0 };
    let stub = |vectors: &[Vector], d: &mut Vec<u64>| d.extend(vectors.iter().map(known));
    let mut share = |d: &mut dyn FnMut(&[Vector], &mut Vec<u64>)| {
        let (mut times, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            let whole = evaluate(&unit, &text, &mut out, &mut *d).as_secs_f64();
            let stubbed = evaluate(&unit, &text, &mut out, stub).as_secs_f64();
            times.push(whole);
            shares.push(stubbed / whole);
        }
        (median(times) / LINES as f64 * 1e6, median(shares))
    };
    let (line, whole) = share(&mut |vectors, d| {
        evaluator.eval_all(vectors.iter().map(|v| &v.input), d).expect("vectors");
    });
    let (_, reference) = share(&mut |vectors, d| d.extend(vectors.iter().map(|v| v.eval(&unit).expect("a vector"))));
    println!("{name:60} {line:8.3} us a line   stubbed over whole {whole:.2}   with the reference {reference:.2}");
}

fn main() {
    let (options, named): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|x| x.starts_with("--"));
    let turns = if options.iter().any(|x| x == "--test") { 1 } else { TURNS };
    let units = if named.is_empty() { UNITS.map(String::from).to_vec() } else { named };
    units.iter().for_each(|name| measure(name, turns));
}
