//! Tiling strategies on one fp8 layer: the same unit, the same numbers, other bits.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;

fn main() -> Result<(), Error> {
    let unit = Unit::find("H100 QGMMA.64x128x32.F32.E4M3.E4M3")?;
    let mut normal = support::Normal(2);
    let (x, w) = (normal.matrix(16, 2048, 1.0), normal.matrix(2048, 24, 0.05));
    // The operands as the unit sees them, so that only accumulation is measured.
    let seen = |x: &ndarray::Array2<f32>| -> Result<_, Error> {
        let codes: Result<Vec<u64>, _> =
            x.iter().map(|&x| unit.a.encode_f64(x.into(), Rounding::NearestEven, Overflow::Ieee)).collect();
        let codes = codes.map_err(|source| Error::Encode { operand: "the layer".into(), source })?;
        let mut seen = x.mapv(f64::from);
        seen.iter_mut().zip(codes).for_each(|(x, code)| *x = unit.a.to_f64(code));
        Ok(seen)
    };
    let exact = metrics::reference(&seen(&x)?, &seen(&w)?)?;
    let in_order = x.dot_on(&w, &unit)?;
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
        let d = Gemm::on(&unit).plan(plan.parse()?).run(&x, &w)?;
        let e = metrics::errors(&d.mapv(f64::from), &exact.product, &unit.d)?;
        let differ = d.iter().zip(&in_order).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
        println!("{plan:48} {:10.3e} {:12.3e} {differ:12}", e.max_abs, e.relative_frobenius);
    }
    Ok(())
}
