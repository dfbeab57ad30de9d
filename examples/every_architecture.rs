//! One f16 product on every architecture that has f16 units: who agrees with whom, and how far each
//! is from the exact product.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;

fn main() -> Result<(), Error> {
    let mut normal = support::Normal(1);
    let a = normal.matrix(32, 256, 1.0).mapv(f16::from_f32);
    let b = normal.matrix(256, 32, 1.0).mapv(f16::from_f32);
    let exact = metrics::reference(&a, &b)?;
    let units = [
        "volta/mma.m8n8k4.f32.f16.f16.f32",
        "turing/mma.m16n8k8.f32.f16.f16.f32",
        "ampere/mma.m16n8k16.f32.f16.f16.f32",
        "ada/mma.m16n8k16.f32.f16.f16.f32",
        "hopper/wgmma.m64n128k16.f32.f16.f16",
        "blackwell/tcgen05.mma.m128n128k16.f32.f16.f16",
        "rtx-blackwell/mma.m16n8k16.f32.f16.f16.f32",
        "cdna1/v_mfma_f32_32x32x8f16",
        "cdna2/v_mfma_f32_32x32x8f16",
        "cdna3/v_mfma_f32_32x32x8_f16",
    ];
    let mut first: Option<ndarray::Array2<f32>> = None;
    println!("{:46} {:>10} {:>10} {:>10}", "", "max abs", "bias", "!= Volta");
    for name in units {
        let unit = Unit::find(name)?;
        let d = a.dot_on(&b, &unit)?;
        let e = metrics::errors(&d, &exact.product, &unit.d)?;
        let volta = first.get_or_insert_with(|| d.clone());
        let differ = d.iter().zip(volta.iter()).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
        println!("{name:46} {:10.2e} {:10.2e} {differ:10}", e.max_abs, e.bias);
    }
    Ok(())
}
