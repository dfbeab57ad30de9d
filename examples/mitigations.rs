//! MMA-Sim's advice, tried: CDNA3 with C = 0 and an outer f32 sum; fp8 on Hopper's f16 path; on CDNA2,
//! which reads subnormal f16 as zero, scaled operands or bf16.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;
use ndarray::Array2;

fn main() -> Result<(), Error> {
    let mut normal = support::Normal(7);
    println!("CDNA3's rounding down, A and B 1000 N(0, 1), C N(0, 1)");
    let (a, b, c) = (normal.matrix(512, 64, 1000.0), normal.matrix(64, 512, 1000.0), normal.matrix(512, 512, 1.0));
    let (ha, hb) = (a.mapv(f16::from_f32), b.mapv(f16::from_f32));
    let exact = metrics::reference(&ha, &hb)?.product + c.mapv(f64::from);
    let cdna3 = Unit::find("cdna3/v_mfma_f32_32x32x8_f16")?;
    let gemm = Gemm::on(&cdna3).beta(1.0).c(&c);
    let inside = gemm.clone().plan(Plan::in_order().start(Start::C)).run(&ha, &hb)?;
    // The default: the unit starts at +0, C is added in f32 in the end.
    let outside = gemm.clone().run(&ha, &hb)?;
    assert_eq!(outside, ha.dot_on(&hb, &cdna3)? + &c);
    // Every instruction starts at +0; their results are summed in f32.
    let step = gemm.plan(Plan::in_order().promote(cdna3.shape.k)).run(&ha, &hb)?;
    report("C inside the unit", &inside, &exact, &cdna3)?;
    report("C added in f32", &outside, &exact, &cdna3)?;
    report("C = 0, outer f32 sum", &step, &exact, &cdna3)?;

    println!("fp8 on Hopper");
    let (a, b) = (normal.matrix(12, 2048, 1.0), normal.matrix(2048, 12, 1.0));
    let fp8 = Unit::find("hopper/wgmma.m64n128k32.f32.e4m3.e4m3")?;
    let seen = |x: &Array2<f32>| {
        x.mapv(|x| {
            let code = fp8.a.encode_f64(x.into(), Rounding::NearestEven, Overflow::Saturate);
            code.map_or(f64::NAN, |code| fp8.a.to_f64(code))
        })
    };
    let (qa, qb) = (seen(&a), seen(&b));
    let exact = metrics::reference(&qa, &qb)?.product;
    report("QGMMA, 13 bits", &Gemm::on(&fp8).run(&qa, &qb)?, &exact, &fp8)?;
    let half = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16")?;
    report("the same values as f16", &Gemm::on(&half).run(&qa, &qb)?, &exact, &half)?;

    println!("small gradients on CDNA2");
    let (gradient, weights) = (normal.matrix(16, 64, 1e-5), normal.matrix(64, 16, 0.5));
    let exact = metrics::reference(&gradient, &weights)?.product;
    let (f16_unit, bf16_unit) =
        (Unit::find("cdna2/v_mfma_f32_32x32x8f16")?, Unit::find("cdna2/v_mfma_f32_32x32x8bf16_1k")?);
    let scaled = Gemm::on(&f16_unit).alpha(1.0 / 16384.0).run(&gradient.mapv(|x| x * 16384.0), &weights)?;
    report("f16", &gradient.dot_on(&weights, &f16_unit)?, &exact, &f16_unit)?;
    report("f16, times 2^14 and back", &scaled, &exact, &f16_unit)?;
    report("bf16", &gradient.dot_on(&weights, &bf16_unit)?, &exact, &bf16_unit)
}

fn report(name: &str, d: &Array2<f32>, exact: &Array2<f64>, unit: &Unit) -> Result<(), Error> {
    let e = metrics::errors(d, exact, &unit.d)?;
    println!("  {name:24} relative error {:9.2e}, bias {:+.2e}", e.relative_frobenius, e.bias);
    Ok(())
}
