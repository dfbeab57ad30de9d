//! Small products, in turn with one of 256 x 256 x 256 on the same unit, by thread CPU time: microseconds for a tile of
//! one instruction, and the rate over the large product's. The aims are 1 us for a call, and half the rate for a batch.
//!
//! `-- --test` compares bits with the reference and runs everything once.

mod support;

use gemmulate::gemm::Workspace;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use half::f16;
use ndarray::{Array2, Array3};
use std::hint::black_box;
use support::{median, seconds};

const TURNS: usize = 101;
/// M, N and K of the large product.
const LARGE: usize = 256;

fn matrix(rows: usize, columns: usize) -> Array2<f16> {
    let mut x = 1u32;
    Array2::from_shape_simple_fn((rows, columns), || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f16::from_f32((x >> 8) as f32 / 8_388_608.0 - 1.0)
    })
}

/// Times `f`, which computes so many tiles, in turn with the large product.
fn measure(name: &str, turns: usize, tiles: usize, mut f: impl FnMut(), large: &mut dyn FnMut()) {
    let (mut times, mut shares) = (Vec::new(), Vec::new());
    let products = (tiles * 16 * 8 * 16) as f64 / (LARGE * LARGE * LARGE) as f64;
    for _ in 0..turns {
        let (of_large, of_tiles) = (seconds(&mut *large), seconds(&mut f));
        times.push(of_tiles / tiles as f64 * 1e6);
        shares.push(of_large * products / of_tiles);
    }
    println!("{name:20} {:6.3} us a tile   {:.2} of the large product's rate", median(times), median(shares));
}

fn main() {
    let turns = if std::env::args().any(|x| x == "--test") { 1 } else { TURNS };
    let unit = MmaUnit::<Hopper, Mma<16, 8, 16, f16, f16, f32, f32>>::new();
    let (a, b, c) = (matrix(16, 16), matrix(16, 8), Array2::<f32>::ones((16, 8)));
    let reference = |c: &Array2<f32>| {
        let plan = Plan::in_order().start(Start::C);
        Gemm::on(&unit).isa(Isa::Reference).plan(plan).beta(1.0).c(c).run(&a, &b).expect("a product")
    };
    let (zero, one) = (reference(&Array2::zeros((16, 8))), reference(&c));
    let (gemm, mut workspace) = (Gemm::on(&unit).threads(1), Workspace::new());
    let (left, right, mut product) = (matrix(LARGE, LARGE), matrix(LARGE, LARGE), Array2::<f32>::zeros((LARGE, LARGE)));
    let mut buffers = Workspace::new();
    let mut large = || gemm.run_into(&left, &right, &mut product, &mut buffers).expect("a product");
    let mut d = Array2::<f32>::zeros((16, 8));
    let calls = 1000;
    let into = || (0..calls).for_each(|_| gemm.run_into(&a, &b, &mut d, &mut workspace).expect("a product"));
    measure("run_into", turns, calls, into, &mut large);
    assert_eq!(d, zero);
    let dot_on = || (0..calls).for_each(|_| d = black_box(a.dot_on(&b, &unit).expect("a product")));
    measure("dot_on", turns, calls, dot_on, &mut large);
    assert_eq!(d, zero);
    let mma = || (0..calls).for_each(|_| d = black_box(unit.mma(&a, &b, &c).expect("a tile")));
    measure("mma", turns, calls, mma, &mut large);
    assert_eq!(d, one);
    for count in [100, 20_000] {
        let spread = |x: &Array2<f16>| Array3::from_shape_fn((count, x.nrows(), x.ncols()), |(_, i, j)| x[[i, j]]);
        let (a, b, mut d) = (spread(&a), spread(&b), Array3::<f32>::zeros((count, 16, 8)));
        let again = 1 + 1000 / count;
        let batch = || (0..again).for_each(|_| gemm.run_batch_into(&a, &b, &mut d, &mut workspace).expect("a batch"));
        measure(&format!("a batch of {count}"), turns, again * count, batch, &mut large);
        assert!(d.outer_iter().all(|d| d == zero));
    }
}
