//! Small, skinny and tall products, from memory in any layout: the bits of the reference.

use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use half::f16;
use ndarray::{Array2, ArrayView2, s};

/// A matrix inside a larger one, in one of eight layouts: as it is or transposed, reversed or with gaps.
fn layout<T>(base: &Array2<T>, which: usize, [rows, columns]: [usize; 2]) -> ArrayView2<'_, T> {
    let turned = if which & 1 == 0 { base.view() } else { base.t() };
    let [m, n] = [rows as isize, columns as isize];
    match which / 2 {
        0 => turned.slice_move(s![1..=m, 2..2 + n]),
        1 => turned.slice_move(s![1..=m; -1, 2..2 + n]),
        2 => turned.slice_move(s![1..=m, 2..2 + n; -1]),
        _ => turned.slice_move(s![0..2 * m; 2, 1..2 * n; 2]),
    }
}

fn numbers<T>(n: usize, of: impl Fn(f64) -> T) -> Array2<T> {
    let mut x = 5u64;
    Array2::from_shape_simple_fn((n, n), || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = (x >> 40) as f64 / 8_388_608.0 - 1.0;
        // Now and then one that a panel must flag, or that ends in NaN.
        of(match x >> 33 & 0x3FF {
            0 => f64::INFINITY,
            1 => f64::NAN,
            2..12 => 0.0,
            12..20 => value * 1e-6,
            20..24 => -0.0,
            _ => value,
        })
    })
}

const SIZES: [[usize; 3]; 18] = [
    [1, 1, 1],
    [1, 130, 40],
    [130, 1, 40],
    [64, 1, 48],
    [257, 1, 300],
    [67, 8, 40],
    [131, 27, 33],
    [16, 8, 16],
    [16, 16, 16],
    [7, 33, 19],
    [5, 49, 5],
    [6, 64, 64],
    [13, 17, 130],
    [70, 3, 70],
    [2, 2, 600],
    [0, 3, 4],
    [3, 0, 4],
    [3, 4, 0],
];

/// The product's bits on an instruction set.
fn compare<T: Format, D: Format>(name: &str, base: &Array2<T>) {
    let unit = Unit::find(name).expect("a unit");
    for (turn, [m, n, k]) in SIZES.into_iter().enumerate() {
        for which in 0..8 {
            let (a, b) = (layout(base, which, [m, k]), layout(base, (which * 3 + turn) % 8, [k, n]));
            let bits = |isa: Isa, threads| {
                let d = Gemm::on(&unit).isa(isa).threads(threads).run_as::<D>(&a, &b).expect("a product");
                d.mapv(|x| x.to_bits())
            };
            let want = bits(Isa::Reference, 1);
            for isa in Isa::ALL.iter().copied().filter(|isa| isa.is_available()) {
                for threads in [1, 2] {
                    assert_eq!(bits(isa, threads), want, "{name} on {isa}, {m}x{n}x{k}, layout {which}");
                }
            }
        }
    }
}

#[test]
fn small_and_skinny_products_in_any_layout() {
    let halves = numbers(1210, f16::from_f64);
    for name in [
        "hopper/mma.m16n8k16.f32.f16.f16.f32",
        "volta/mma.m8n8k4.f32.f16.f16.f32",
        "hopper/mma.m16n8k16.f16.f16.f16.f16",
        "cdna1/v_mfma_f32_32x32x8f16",
        "cdna2/v_mfma_f32_32x32x8f16",
        "cdna3/v_mfma_f32_32x32x8_f16",
    ] {
        compare::<f16, f32>(name, &halves);
    }
    compare::<f32, f32>("cdna3/v_mfma_f32_32x32x2_f32", &numbers(1210, |x| x as f32));
    compare::<f64, f64>("ampere/mma.m8n8k4.f64.f64.f64.f64", &numbers(1210, |x| x));
}
