//! One property of a unit over a range: what more fraction bits in an H100's alignment would be worth, with each
//! rounding of the sums. Rounding toward zero makes results smaller than they should be, which a mean of errors does
//! not show of data with both signs.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;
use ndarray::Array2;

fn main() -> Result<(), Error> {
    let hopper = Unit::find("H100 HGMMA.64x128x16.F32")?;
    let mut normal = support::Normal(4);
    let mut matrix = |m: usize, n: usize| normal.matrix(m, n, 1.0).mapv(|x| f16::nearest(x.into()));
    let (a, b) = (matrix(64, 2048), matrix(2048, 64));
    let exact = metrics::reference(&a, &b)?;
    println!("{:>4} {:>4} {:>12} {:>12} {:>12}", "F", "out", "rel. Frob.", "bias", "toward zero");
    for out in ["rz", "rne"] {
        for f in [8, 10, 13, 16, 20, 23, 25, 30] {
            let unit = hopper.with_parameters(&format!("F={f}:out={out}"))?;
            let d: Array2<f32> = a.dot_on(&b, &unit)?;
            let e = metrics::errors(&d, &exact.product, &unit.d)?;
            let is_real = if unit == hopper { "  an H100" } else { "" };
            let [frobenius, bias, shrunk] = [e.relative_frobenius, e.bias, e.toward_zero];
            println!("{f:4} {out:>4} {frobenius:12.2e} {bias:12.2e} {shrunk:12.2e}{is_real}");
        }
    }
    Ok(())
}
