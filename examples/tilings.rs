//! Tiling strategies on one fp8 layer: the same unit, the same numbers, other bits.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;
use ndarray::Array2;

fn main() -> Result<(), Error> {
    let unit = Unit::find("H100 QGMMA.64x128x32.F32.E4M3.E4M3")?;
    let mut normal = support::Normal(2);
    // The operands as the unit sees them, so that only accumulation is measured.
    let mut layer = |m: usize, n: usize, size: f64| normal.matrix(m, n, size).mapv(|x| F8E4M3::nearest(x.into()));
    let (x, w) = (layer(16, 2048, 1.0), layer(2048, 24, 0.05));
    let exact = metrics::reference(&x, &w)?;
    let in_order: Array2<f32> = x.dot_on(&w, &unit)?;
    println!("{:48} {:>10} {:>12} {:>12}", "plan", "max abs", "rel. Frob.", "!= in order");
    for plan in [
        "in-order",
        "cutlass3 promote=none",
        "cutlass3 promote=none split-k=4",
        "cutlass3 promote=none split-k=16",
        "cutlass3 promote=none stream-k=7 block=16x8x128",
        "cutlass3",
        "cutlass3 promote=32",
        "cutlass3 split-k=4 split-mode=atomic seed=1",
        "cutlass2 split-k=4",
    ] {
        let d: Array2<f32> = Gemm::on(&unit).plan(plan.parse()?).run(&x, &w)?;
        let e = metrics::errors(&d, &exact.product, &unit.d)?;
        let differ = d.iter().zip(&in_order).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
        println!("{plan:48} {:10.3e} {:12.3e} {differ:12}", e.max_abs, e.relative_frobenius);
    }
    Ok(())
}
