//! MMA-Sim's Fig. 2: CDNA3 aligns by rounding down, so its errors have a mean below zero; rounding
//! toward zero would not. A and B are 1000 N(0, 1), C is N(0, 1).

mod support;

use gemmulate::gemm::{Start, metrics};
use gemmulate::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cdna3 = Unit::find("MI300X v_mfma_f32_32x32x8_f16")?;
    // The same widths, alignment toward zero: a unit that does not exist.
    let toward_zero = Unit::find("custom/m32n32k8.f32.f16.f16.f32/dot:block=8:F=24:align=rz:out=rne:nan=quiet")?;
    let mut normal = support::Normal(5);
    let a = normal.matrix(160, 8, 1000.0).mapv(f16::from_f32);
    let b = normal.matrix(8, 160, 1000.0).mapv(f16::from_f32);
    let c = normal.matrix(160, 160, 1.0);
    let exact = metrics::reference(&a, &b)?.product + c.mapv(f64::from);
    let mut series = Vec::new();
    for (name, unit) in [("CDNA3 (RD)", &cdna3), ("toward zero (RZ)", &toward_zero)] {
        let d = Gemm::on(unit).plan(Plan::in_order().start(Start::C)).beta(1.0).c(&c).run(&a, &b)?;
        let errors = d.mapv(f64::from) - &exact;
        let e = metrics::errors(&d, &exact, &unit.d)?;
        println!("{name:18} mean error {:+.5}, largest {:.5}", e.bias, e.max_abs);
        series.push((name, errors.into_iter().collect()));
    }
    support::save("cdna3_bias.svg", &support::histogram("Errors of D = A B + C on CDNA3", &series))?;
    Ok(())
}
