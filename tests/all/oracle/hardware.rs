//! Reads the recorded GPU outputs in the layout of MATLAB-tensor-core's `model_validation/` folder.

use super::formats::{Overflow, decode, encode};
use super::numbers::Round;
use super::oracle::{describe, dot_add};
use std::fs;
use std::path::Path;

/// Folder, unit stems that must reproduce it (with `D` for the output type, and c's), and the outputs they apply to.
const ROWS: [(&str, &str, &str); 27] = [
    ("V100/fp16", "volta/mma.m8n8k4.D.f16.f16.D", "f32 f16"),
    ("A100/fp16", "ampere/mma.m16n8k8.D.f16.f16.D", "f32 f16"),
    ("A100/bf16", "ampere/mma.m16n8k8.D.bf16.bf16.D", "f32"),
    ("A100/tf32", "ampere/mma.m16n8k4.D.tf32.tf32.D", "f32"),
    ("A2/fp16", "ampere/mma.m16n8k8.D.f16.f16.D", "f32 f16"),
    ("A2/bf16", "ampere/mma.m16n8k8.D.bf16.bf16.D", "f32"),
    ("A2/tf32", "ampere/mma.m16n8k4.D.tf32.tf32.D", "f32"),
    ("Ada/fp16", "ada/mma.m16n8k8.D.f16.f16.D", "f32 f16"),
    ("Ada/bf16", "ada/mma.m16n8k8.D.bf16.bf16.D", "f32"),
    ("Ada/tf32", "ada/mma.m16n8k4.D.tf32.tf32.D", "f32"),
    ("Ada/E4M3", "ada/mma.m16n8k32.D.e4m3.e4m3.D", "f32 f16"),
    ("Ada/E5M2", "ada/mma.m16n8k32.D.e5m2.e5m2.D", "f32 f16"),
    ("H100/fp16", "hopper/mma.m16n8k16.D.f16.f16.D", "f32 f16"),
    ("H100/fp16", "hopper/wgmma.m64n8k16.D.f16.f16", "f32 f16"),
    ("H100/bf16", "hopper/mma.m16n8k16.D.bf16.bf16.D", "f32"),
    ("H100/bf16", "hopper/wgmma.m64n8k16.D.bf16.bf16", "f32"),
    ("H100/tf32", "hopper/mma.m16n8k4.D.tf32.tf32.D", "f32"),
    ("H100/E4M3", "hopper/wgmma.m64n8k32.D.e4m3.e4m3", "f32 c=0"),
    ("H100/E4M3", "hopper/mma.m16n8k32.D.e4m3.e4m3.D", "f16"),
    ("H100/E5M2", "hopper/wgmma.m64n8k32.D.e5m2.e5m2", "f32 c=0"),
    ("H100/E5M2", "hopper/mma.m16n8k32.D.e5m2.e5m2.D", "f16"),
    ("B200/fp16", "blackwell/mma.m16n8k16.D.f16.f16.D", "f32 f16"),
    ("B200/fp16", "blackwell/tcgen05.mma.m64n8k16.D.f16.f16", "f32 f16"),
    ("B200/bf16", "blackwell/mma.m16n8k16.D.bf16.bf16.D", "f32"),
    ("B200/tf32", "blackwell/mma.m16n8k4.D.tf32.tf32.D", "f32"),
    ("B200/E4M3", "blackwell/mma.m16n8k32.D.e4m3.e4m3.D", "f32 f16"),
    ("B200/E5M2", "blackwell/mma.m16n8k32.D.e5m2.e5m2.D", "f32 f16"),
];

/// Bits of `to` for an f32 pattern, RNE.
fn narrow(to: &str, f32_bits: u64) -> u64 {
    let v = decode("f32", f32_bits).expect("f32");
    encode(to, &v, Round::Rne, Overflow::Ieee).expect("f32 operands fit")
}

fn rows(path: &Path, radix: u32) -> Vec<Vec<u64>> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let number = |x: &str| u64::from_str_radix(x, radix).expect("a number");
    text.lines().filter(|l| !l.trim().is_empty()).map(|l| l.split_whitespace().map(number).collect()).collect()
}

/// Runs every recorded file found under `root`, reporting each comparison.
pub(crate) fn check(root: &Path, report: &mut dyn FnMut(bool, &dyn Fn() -> String)) {
    for (folder, stem, outputs) in ROWS {
        let (gpu, kind) = folder.split_once('/').expect("GPU/FORMAT");
        if !root.join(folder).is_dir() {
            continue;
        }
        let file = |what: &str, suffix: &str| root.join(folder).join(format!("{what}_{gpu}_{suffix}.txt"));
        let (a, b) = (rows(&file("a", kind), 16), rows(&file("b", kind), 16));
        let c = rows(&file("c", "fp32"), 2);
        for d_type in outputs.split(' ').filter(|o| o.starts_with('f')) {
            let unit = stem.replace('D', d_type);
            let u = describe(&unit).expect("canonical");
            let d = rows(&file("d", if d_type == "f16" { "fp16" } else { "fp32" }), 2);
            assert!(a.len() == d.len() && b.len() == d.len() && c.len() == d.len(), "{folder}: rows");
            for i in 0..d.len() {
                let c = if outputs.ends_with("c=0") { 0 } else { narrow(u.c, c[i][0]) };
                let all = |format: &str, row: &[u64]| -> Vec<u64> { row.iter().map(|x| narrow(format, *x)).collect() };
                let got = dot_add(&unit, &all(u.a, &a[i]), &all(u.b, &b[i]), c, &[], &[]);
                let want = narrow(d_type, d[i][0]);
                report(got == Ok(want), &|| format!("{unit} row {i}: {got:x?}, recorded {want:x}"));
            }
        }
    }
}
