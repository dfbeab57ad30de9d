//! Whole products by accumulator, size and instruction set, small ones, and quantisation. Every bench compares bits
//! with the reference, or codes with the formats' own encoding, before it is timed; `cargo bench -- --test` does only
//! that and one run each.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gemmulate::format::E4M3;
use gemmulate::gemm::Workspace;
use gemmulate::gemm::quantise::{self, Quantised};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use ndarray::{Array2, Axis, s};
use std::hint::black_box;

const UNITS: [&str; 8] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "ampere/mma.m16n8k16.f32.f16.f16.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "hopper/wgmma.m64n8k32.f32.e4m3.e4m3",
    "cdna3/v_mfma_f32_32x32x2_f32",
    "custom/m16n8k16.f32.bf16.bf16.f32/dot:block=16:F=40",
];

fn matrix(rows: usize, columns: usize) -> Array2<f32> {
    let mut x = 1u32;
    Array2::from_shape_simple_fn((rows, columns), || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as f32 / 8_388_608.0 - 1.0
    })
}

/// A corner of the product is the reference's, bit for bit.
fn check(unit: &Unit, isa: Isa, a: &Array2<f32>, b: &Array2<f32>) {
    let (rows, columns) = (a.nrows().min(9), b.ncols().min(21));
    let (a, b) = (a.slice(s![..rows, ..]).to_owned(), b.slice(s![.., ..columns]).to_owned());
    let bits = |isa| Gemm::on(unit).isa(isa).run(&a, &b).expect("a product").map(|x: &f32| x.to_bits());
    assert_eq!(bits(isa), bits(Isa::Reference), "{unit} on {isa}");
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("product");
    group.sample_size(10);
    for name in UNITS {
        let unit = Unit::find(name).expect("a unit");
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
            if Gemm::on(&unit).isa(isa).kernel().isa != isa {
                continue;
            }
            for n in [64, 256, 1024] {
                let (a, b) = (matrix(n, n), matrix(n, n));
                check(&unit, isa, &a, &b);
                group.throughput(Throughput::Elements((n * n * n) as u64));
                let (gemm, mut d, mut workspace) =
                    (Gemm::on(&unit).isa(isa).threads(1), Array2::<f32>::zeros((n, n)), Workspace::new());
                group.bench_function(BenchmarkId::new(format!("{name}/{isa}"), n), |bench| {
                    bench.iter(|| gemm.run_into(&a, &b, &mut d, &mut workspace).expect("a product"));
                });
            }
        }
    }
    group.finish();
}

fn small(c: &mut Criterion) {
    let unit = Unit::find(UNITS[0]).expect("a unit");
    let mut group = c.benchmark_group("small");
    for (m, n, k) in [(16, 8, 16), (16, 16, 16), (64, 64, 64), (1, 1024, 1024)] {
        let (a, b) = (matrix(m, k), matrix(k, n));
        group.throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("{m}x{n}x{k}"), |bench| {
            bench.iter(|| black_box(Gemm::on(&unit).threads(1).run(&a, &b).expect("a product")));
        });
    }
    group.finish();
}

/// Some elements are what the format's own encoding makes of them.
fn check_codes(x: &Array2<f32>, q: &Quantised) {
    for ((i, j), &x) in x.indexed_iter().step_by(1001) {
        let block = if q.axis == Axis(1) { [i, j / q.block] } else { [i / q.block, j] };
        let factor = q.scale_format.to_f64(q.scales[block].into()) * f64::from(q.tensor_scale);
        let code = q.format.encode_f64(f64::from(x) / factor, Rounding::NearestEven, Overflow::Saturate);
        assert_eq!(u64::from(q.codes[(i, j)]), code.expect("a number"), "{} at {i}, {j}", q.format);
    }
}

fn quantisation(c: &mut Criterion) {
    let mut group = c.benchmark_group("quantisation");
    group.sample_size(10);
    let (n, rounding) = (2048, Rounding::NearestEven);
    let x = matrix(n, n);
    group.throughput(Throughput::Elements((n * n) as u64));
    for (name, axis) in [("along rows", Axis(1)), ("along columns", Axis(0))] {
        let mx = || quantise::mx(&x, &E4M3, 32, axis, rounding).expect("numbers");
        let nvfp4 = || quantise::nvfp4(&x, axis, Default::default()).expect("numbers");
        check_codes(&x, &mx());
        check_codes(&x, &nvfp4());
        group.bench_function(format!("mx e4m3 {name}"), |bench| bench.iter(|| black_box(mx())));
        group.bench_function(format!("nvfp4 {name}"), |bench| bench.iter(|| black_box(nvfp4())));
    }
    group.finish();
}

criterion_group!(benches, products, small, quantisation);
criterion_main!(benches);
