//! Kernels of the CDNA families where their conditions begin and end.

use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;

/// Operands that live on the edges of the CDNA kernels' conditions: sums that cancel, ties, floors of negative inexact
/// sums, states far above or below the products, rows and columns of hard data among ordinary ones.
struct Edges(Rng);

impl Edges {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn sign(&mut self) -> f64 {
        if self.below(2) == 0 { 1.0 } else { -1.0 }
    }

    fn power(&mut self, from: i32, to: i32) -> f64 {
        2f64.powi(from + self.below((to - from + 1) as u64) as i32)
    }

    /// A number of a manner: integers, powers of two, all of a significand, a wide range, zeros, infinities and NaN.
    fn number(&mut self, manner: u64) -> f64 {
        let x = match manner {
            0 => self.below(5) as f64,
            1 => self.power(-14, 4),
            2 => (1.0 + self.below(1024) as f64 / 1024.0) * self.power(-2, 1),
            3 => (1.0 + self.below(1024) as f64 / 1024.0) * self.power(-14, 3),
            4 => (1.0 + self.below(128) as f64 / 128.0) * self.power(-100, 100),
            5 => (1.0 + self.below(128) as f64 / 128.0) * self.power(-70, -60),
            6 if self.below(4) > 0 => 0.0,
            6 => 1.0,
            _ => [1e30, f64::INFINITY, f64::NAN, 1e-30, 1e-40, 65504.0, 1.0][self.below(7) as usize],
        };
        x * self.sign()
    }

    fn addend(&mut self) -> f64 {
        let x = match self.below(9) {
            0 => 0.0,
            1 => self.power(-40, 40),
            2 => (1.0 + self.below(1 << 23) as f64 / 8_388_608.0) * self.power(-3, 12),
            3 => (1.0 + self.below(1 << 23) as f64 / 8_388_608.0) * self.power(-149, 127),
            4 => self.below(1 << 12) as f64,
            5 => self.power(0, 3) - self.power(-23, -19),
            6 => 1.0 + self.power(-23, -20),
            7 => f64::from(f32::MAX) * self.power(-3, 0),
            _ => [f64::INFINITY, f64::NAN, 1e-45, 1e-38, 3e38, 1e-30, 0.0][self.below(7) as usize],
        };
        x * self.sign()
    }

    fn problem(&mut self, unit: &Unit) -> Problem {
        let size = |x: u64, of: &[usize]| of[x as usize % of.len()];
        let (m, n) = (size(self.below(5), &[1, 3, 8, 9, 17]), size(self.below(6), &[1, 15, 16, 17, 33, 65]));
        let steps = size(self.below(4), &[1, 2, 5, 40]);
        let k = unit.shape.k * if unit.c == unit.d { steps } else { 1 };
        let code = |spec: &FormatSpec, x: f64| {
            let (rounding, overflow) = (Rounding::default(), Overflow::default());
            spec.encode_f64(x, rounding, overflow).or_else(|_| spec.encode_f64(1.0, rounding, overflow)).unwrap()
        };
        let manner = self.below(8);
        let (rare, cancel) = (4 + self.below(400), self.below(2) == 0);
        // A line of K: one manner, here and there another; every other product the negative of the one before.
        let mut lines = |count: usize, spec: &FormatSpec, negate: bool| -> Vec<u64> {
            (0..count)
                .flat_map(|_| {
                    let mut line: Vec<f64> = Vec::new();
                    for p in 0..k {
                        let other = self.below(rare) == 0;
                        let manner = if other { self.below(8) } else { manner };
                        let before = line.last().copied().filter(|_| cancel && p % 2 == 1);
                        let x = before.map_or_else(|| self.number(manner), |x| if negate { -x } else { x });
                        line.push(x);
                    }
                    line.into_iter().map(|x| code(spec, x)).collect::<Vec<_>>()
                })
                .collect()
        };
        let (a, by_column) = (lines(m, &unit.a, true), lines(n, &unit.b, false));
        let b = (0..k * n).map(|at| by_column[at % n * k + at / n]).collect();
        let easy = self.below(2) == 0;
        let c = (0..m * n).map(|_| code(&unit.c, if easy { self.number(2) } else { self.addend() })).collect();
        Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a: Vec::new(), scale_b: Vec::new() }
    }
}

/// Units of the CDNA families, custom ones at the bounds of the fast kernels' conditions among them.
const SUMS: [&str; 28] = [
    "cdna1/v_mfma_f32_32x32x8f16",
    "cdna1/v_mfma_f32_32x32x4f16",
    "cdna1/v_mfma_f32_32x32x4bf16",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna2/v_mfma_f32_32x32x8bf16_1k",
    "cdna2/v_mfma_f32_32x32x4bf16",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_32x32x8_bf16",
    "cdna3/v_mfma_f32_32x32x4_2b_f16",
    "cdna3/v_mfma_f32_16x16x8_xf32",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
    "custom/m8n8k16.f32.f16.bf16.f32/round-down:G=16",
    "custom/m8n8k16.f32.bf16.bf16.f32/round-down:G=4:F=23:sum=31:total=31",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=31:total=full",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=25:sum=33",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=28",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=20",
    "custom/m8n8k8.f32.f16.f16.f16/round-down:G=8",
    "custom/m8n8k30.f32.e4m3.e5m2.f32/round-down:G=15",
    "custom/m8n8k16.f32.f16.f16.f32/round-down-grouped:G=8",
    "custom/m8n8k12.f32.e5m2.bf16.f32/round-down-grouped:G=12:c-reach=3",
    "custom/m8n8k16.f32.f16.f16.f32/pairwise:G=8",
    "custom/m8n8k6.f32.bf16.tf32.f32/pairwise:G=1:flush-in=no",
    "custom/m8n8k6.f32.e4m3.f16.f32/pairwise:G=2:flush-out=no",
    "custom/m8n8k8.f32.tf32.f16.f32/pairwise:G=4:flush-in=no:flush-out=no:nan=ones",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:exact=yes:out=rne:e_zero=none:negative-zero=yes:nan=quiet",
    "custom/m8n8k6.f32.e5m2.f16.f32/dot:block=3:exact=yes:out=rne:e_zero=none:negative-zero=yes:pattern=even-odd",
];

#[test]
fn kernels_of_sums_hold_on_their_edges() {
    for name in SUMS {
        let unit = Unit::find(name).unwrap();
        let rounds = std::env::var("GEMMULATE_FRESH").map_or(60, |n| n.parse().unwrap());
        let mut edges = Edges(Rng(name.len() as u64));
        for _ in 0..rounds {
            edges.problem(&unit).check(&isas());
        }
    }
}

/// Which of them have tiles, and which are left to array code: with floors that take bits of every sum, with fewer bits
/// than c has, with other results.
#[test]
fn round_down_sums_have_tiles_on_every_set() {
    for (name, tiles) in [
        ("cdna3/v_mfma_f32_32x32x8_f16", true),
        ("cdna3/v_mfma_f32_16x16x8_xf32", true),
        ("cdna3/v_mfma_f32_16x16x32_bf8_fp8", true),
        ("custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=31:total=full", true),
        ("custom/m8n8k30.f32.e4m3.e5m2.f32/round-down:G=15", true),
        ("custom/m8n8k12.f32.e5m2.bf16.f32/round-down-grouped:G=12:c-reach=3", true),
        ("custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=28", false),
        ("custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=20", false),
        ("custom/m8n8k8.f32.f16.f16.f16/round-down:G=8", false),
    ] {
        let unit = Unit::find(name).unwrap();
        for isa in isas() {
            let kernel = Gemm::on(&unit).isa(isa).kernel();
            let of_tiles = match isa {
                Isa::Avx512 => kernel.name == "round-down-f64",
                Isa::Avx2 | Isa::Portable => kernel.name == "round-down-i32",
                _ => false,
            };
            assert_eq!(of_tiles, tiles && cfg!(target_arch = "x86_64"), "{name}: {kernel}");
        }
    }
}

/// CDNA3's floors where c is so large that they decide: sums at half of c's last place, or next to it. The same of two
/// halves, in one step of few states, which kernels do apart, and in two of many.
#[test]
fn round_down_floors_hold_beside_large_states() {
    let names = [
        "cdna3/v_mfma_f32_32x32x8_f16",
        "custom/m8n8k8.f32.f16.f16.f32/round-down-grouped:G=8",
        "custom/m8n8k8.f32.f16.f16.f32/round-down-grouped:G=8:sum=31:total=full",
        "custom/m8n8k8.f32.f16.f16.f32/round-down-grouped:G=8:sum=33:total=33:c-reach=3",
    ];
    for unit in names.map(|name| Unit::find(name).unwrap()) {
        let f16 = |x: f64| unit.a.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
        for (e, low, sign) in (2..18).flat_map(|e| (8..13).flat_map(move |low| [(e, low, 1.0), (e, low, -1.0)])) {
            // Products of exponent 0 that cancel, half of c's last place, and 2^(-2 low).
            let (rough, fine) = (2f64.powi((e - 24) / 2), 2f64.powi(-low));
            let [a, b] = [
                [1.0, 1.0, rough, fine, 0.0, 0.0, 0.0, 0.0],
                [1.0, -1.0, 2f64.powi(e - 24) / rough, sign * fine, 0.0, 0.0, 0.0, 0.0],
            ]
            .map(|line| line.map(f16).to_vec());
            for c in [1.0f32, -1.0, 1.0 + 2.0 * f32::EPSILON, 1.0 + f32::EPSILON] {
                let c = u64::from((c * 2f32.powi(e)).to_bits());
                for [m, n, steps] in [[1, 16, 1], [6, 16, 1], [9, 80, 2]] {
                    let line: Vec<u64> = (0..steps).flat_map(|_| a.clone()).collect();
                    let columns = (0..steps).flat_map(|_| b.iter().flat_map(|&b| vec![b; n])).collect();
                    let (unit, size, a, c) = (unit.clone(), [m, n, 8 * steps], line.repeat(m), vec![c; m * n]);
                    Problem { unit, size, a, b: columns, c, scale_a: Vec::new(), scale_b: Vec::new() }.check(&isas());
                }
            }
        }
    }
}

/// Totals of two halves whose last place is decided by what a kernel may drop too soon: sums at `2^29 q`, half a last
/// place or a quarter beside states far above, by products of which all lines have the same.
#[test]
fn totals_of_halves_hold_on_their_last_place() {
    let long = |x: f64, sign: f64| {
        let a = [vec![sign * 1.5; 14], vec![sign, sign * 1.5 * 2f64.powi(-5)]].concat();
        [a, [vec![1.5; 14], vec![0.5, x]].concat()]
    };
    let short = [[1.0, 1.0, 1.0, 2f64.powi(-12)], [1.0, -1.0, 2f64.powi(-8), 2f64.powi(-12)]]
        .map(|line| [line.to_vec(), vec![0.0; 12]].concat());
    let [e13, e15] = [-13, -15].map(|e| 2f64.powi(e));
    for (rules, [a, b], c, expected) in [
        ("c-reach=23", long(e13, 1.0), 192.0 + 2f32.powi(-16), 224.0 + 2f32.powi(-16)),
        ("c-reach=23", long(e13, -1.0), 2f32.powi(30), 2f32.powi(30) - 64.0),
        ("c-reach=23", long(e15, -1.0), 2f32.powi(30), 2f32.powi(30) - 64.0),
        ("c-reach=23", long(e13, -1.0), 2f32.powi(29), 2f32.powi(29) - 32.0),
        ("sum=31:total=full", short, 65536.0, 65536.0),
    ] {
        let name = format!("custom/m8n8k16.f32.e5m2fnuz.e5m2fnuz.f32/round-down-grouped:G=16:{rules}");
        let unit = Unit::find(&name).unwrap();
        let code = |x: f64| unit.a.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
        for [m, n] in [[1, 16], [8, 64], [16, 64]] {
            let a: Vec<u64> = a.iter().map(|x| code(*x)).collect();
            let b = b.iter().flat_map(|x| vec![code(*x); n]).collect();
            let (unit, size, c) = (unit.clone(), [m, n, 16], vec![c.to_bits().into(); m * n]);
            let problem = Problem { unit, size, a: a.repeat(m), b, c, scale_a: Vec::new(), scale_b: Vec::new() };
            problem.check(&isas());
            let reference = problem.run(Isa::Reference, Start::C, false);
            assert!(reference.iter().all(|d| *d == u64::from(f32::to_bits(expected))), "{name}: {reference:x?}");
        }
    }
}
