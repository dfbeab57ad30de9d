//! DeepSeek-V3's finding: Hopper's fp8 tensor cores keep 13 bits while they accumulate, so long sums
//! lose accuracy; promotion to f32 every 128 elements, with block scales, is the fix (DeepGEMM).

mod support;

use gemmulate::gemm::{ScaleBlocks, metrics};
use gemmulate::prelude::*;
use ndarray::{Array2, s};

fn main() -> Result<(), Error> {
    let unit = Unit::find("H100 QGMMA.64x128x32.F32.E4M3.E4M3")?;
    let mut normal = support::Normal(3);
    println!("{:>6} {:>14} {:>14} {:>14}", "K", "in order", "every 128", "f32 fma");
    for k in [256, 1024, 4096, 16384] {
        // Positive numbers: sums grow, and small products fall off their end.
        let mut positive = |m: usize, n: usize| normal.matrix(m, n, 1.0).mapv(|x| F8E4M3::nearest(x.abs().into()));
        let (a, b) = (positive(4, k), positive(k, 4));
        let exact = metrics::reference(&a, &b)?;
        let error = |plan: Plan| -> Result<f64, Error> {
            let d = Gemm::on(&unit).plan(plan).run(&a, &b)?;
            Ok(metrics::errors(&d, &exact.product, &unit.d)?.relative_frobenius)
        };
        let fma = Unit::find("custom/m16n8k4.f32.f32.f32.f32/fma")?;
        let d = Gemm::on(&fma).run(&a, &b)?;
        let f32_error = metrics::errors(&d, &exact.product, &unit.d)?.relative_frobenius;
        let (plain, fixed) = (error(Plan::in_order())?, error(Plan::cutlass3())?);
        println!("{k:6} {plain:14.2e} {fixed:14.2e} {f32_error:14.2e}");
    }

    // The whole recipe: each 1 x 128 of A and 128 x 128 of B scaled to fp8's range, the scales applied
    // when the accumulator is promoted.
    let (m, n, k) = (8, 128, 1024);
    let (a, b) = (normal.matrix(m, k, 30.0), normal.matrix(k, n, 0.01));
    let ScaleBlocks { k: width, .. } = ScaleBlocks::DEEPGEMM;
    let largest = |x: ndarray::ArrayView2<'_, f32>| x.iter().fold(1e-30f32, |m, x| m.max(x.abs())) / 448.0;
    let sa = Array2::from_shape_fn((m, k / width), |(i, g)| largest(a.slice(s![i..=i, g * width..(g + 1) * width])));
    let sb = Array2::from_shape_fn((k / width, 1), |(g, _)| largest(b.slice(s![g * width..(g + 1) * width, ..])));
    let qa = Array2::from_shape_fn((m, k), |(i, p)| a[[i, p]] / sa[[i, p / width]]);
    let qb = Array2::from_shape_fn((k, n), |(p, j)| b[[p, j]] / sb[[p / width, 0]]);
    let d = Gemm::on(&unit).plan(Plan::deepgemm()).promotion_scales(&sa, &sb).run(&qa, &qb)?;
    let exact = metrics::reference(&a, &b)?;
    let e = metrics::errors(&d, &exact.product, &unit.d)?;
    println!("deepgemm with block scales, quantisation included: relative Frobenius {:.2e}", e.relative_frobenius);
    Ok(())
}
