//! CDNA2 reads subnormal f16 operands as zero: small gradients vanish (as PyTorch's users found on
//! MI250). Scaling, or bf16, keeps them.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;

fn main() -> Result<(), Error> {
    let mut normal = support::Normal(6);
    let (gradient, weights) = (normal.matrix(16, 64, 1e-5), normal.matrix(64, 16, 0.5));
    let exact = metrics::reference(&gradient, &weights)?;
    let show = |name: &str, unit: &str, d: ndarray::Array2<f32>| -> Result<(), Error> {
        let unit = Unit::find(unit)?;
        let zeros = d.iter().filter(|x| **x == 0.0).count();
        let e = metrics::errors(&d, &exact.product, &unit.d)?;
        println!("{name:34} relative error {:9.2e}, {zeros:3} of {} elements are zero", e.relative_frobenius, d.len());
        Ok(())
    };
    let (g16, w16) = (gradient.mapv(f16::from_f32), weights.mapv(f16::from_f32));
    let (mi100, mi250) = ("cdna1/v_mfma_f32_32x32x8f16", "cdna2/v_mfma_f32_32x32x8f16");
    let brain = "cdna2/v_mfma_f32_32x32x8bf16_1k";
    show("MI100, f16", mi100, g16.dot_on(&w16, &Unit::find(mi100)?)?)?;
    show("MI250, f16", mi250, g16.dot_on(&w16, &Unit::find(mi250)?)?)?;
    let up = gradient.mapv(|x| f16::from_f32(x * 16384.0));
    let scaled = Gemm::on(&Unit::find(mi250)?).alpha(1.0 / 16384.0).run(&up, &w16)?;
    show("MI250, f16, gradients times 2^14", mi250, scaled)?;
    let (gb, wb) = (gradient.mapv(bf16::from_f32), weights.mapv(bf16::from_f32));
    show("MI250, bf16", brain, gb.dot_on(&wb, &Unit::find(brain)?)?)
}
