//! All codes of B's format beside one row of A, which array code reads sixteen columns at a time (`simd/sixteen.rs`):
//! each column has neighbours in the order of codes, so that none is too small to count.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::prelude::*;

/// A unit for each way that codes are read: f16 itself, narrow formats, those with exponents of f16, bf16, f32 with and
/// without its lowest bits; subnormal numbers flushed, zeros with exponents, exponents far apart looked for; scales;
/// blocks whose products come from here and there; and formats that are read in no such way.
const UNITS: [&str; 25] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e4m3.e5m2.f32",
    "blackwell/tcgen05.mma.m64n8k32.f32.e5m2.e2m3",
    "blackwell/tcgen05.mma.m64n8k32.f16.e4m3.e3m2",
    "blackwell/tcgen05.mma.m64n8k32.f32.e4m3.e2m1",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "hopper/mma.m16n8k16.f32.e4m3.e5m2.f32",
    "hopper/wgmma.m64n8k32.f32.e4m3.e4m3",
    "cdna1/v_mfma_f32_32x32x8f16",
    "cdna1/v_mfma_f32_16x16x8bf16",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna2/v_mfma_f32_32x32x4bf16",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_16x16x32_fp8_bf8",
    "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
    "cdna3/v_mfma_f32_16x16x8_xf32",
    "custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=25:zero-products=count",
    "custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:via-f16=yes:zero-products=count",
    "custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=25:flush-in=yes",
    "custom/m8n8k8.f32.e4m3fnuz.e4m3fnuz.f32/pairwise:G=4",
    "custom/m8n8k8.f32.f32.f32.f32/dot:block=8:F=20",
];

/// All codes of a format, and of f32's width those of some thousand fractions.
fn codes(spec: &FormatSpec, draw: &mut Rng) -> Vec<u64> {
    if spec.storage_bits <= 16 {
        return (0..1 << spec.storage_bits).collect();
    }
    let places = 32 - 9;
    let mut all: Vec<u64> = (0..1 << 9)
        .flat_map(|field| {
            let mut of_field = vec![field << places, field << places | 1 << 13, ((field + 1) << places) - 1];
            of_field.extend((0..13).map(|_| field << places | draw.below(1u64 << places)));
            of_field
        })
        .collect();
    all.sort_unstable();
    all
}

/// A product of one row, or two, by all of `codes`, each column a step's worth of them.
fn check(unit: &Unit, codes: &[u64], rows: usize, draw: &mut Rng) {
    let k = unit.shape.k;
    let n = codes.len().div_ceil(k);
    let number = |spec: &FormatSpec, x: f64| spec.encode_f64(x, Rounding::NearestEven, Overflow::Ieee).unwrap();
    let slots = unit.scale.map_or(0, |rule| k / rule.block);
    let scale = unit.scale.map_or(0, |rule| number(&rule.format, 1.0));
    let mut b = vec![0; k * n];
    for (i, code) in codes.iter().enumerate() {
        b[i % k * n + i / k] = *code;
    }
    let factors = [1.0, 1.25, 1.5, -1.0, -1.25, -1.75];
    let a = (0..rows * k).map(|_| number(&unit.a, draw.pick(&factors))).collect();
    let c = vec![number(&unit.c, 1.0); rows * n];
    let scales = |lines: usize| vec![scale; lines * slots];
    let (scale_a, scale_b) = (scales(rows), scales(n));
    let problem = Problem { unit: unit.clone(), size: [rows, n, k], a, b, c, scale_a, scale_b };
    problem.check_from(Start::Zero, &isas());
}

#[test]
fn all_codes_of_columns_beside_a_row() {
    for name in UNITS {
        let unit = Unit::find(name).unwrap();
        let mut draw = Rng(name.len() as u64);
        let all = codes(&unit.b, &mut draw);
        let finite: Vec<u64> = all.iter().copied().filter(|code| unit.b.decode(*code).is_finite()).collect();
        check(&unit, &all, 1, &mut draw);
        check(&unit, &finite, 1, &mut draw);
        // From another place on, so that others are the first and the last of sixteen columns.
        check(&unit, &finite[finite.len() / 3..], 2, &mut draw);
        // Far apart, zeros among them.
        let mixed: Vec<u64> =
            (0..unit.shape.k * 80).map(|_| if draw.one_in(9) { 0 } else { draw.pick(&finite) }).collect();
        check(&unit, &mixed, 1, &mut draw);
    }
}
