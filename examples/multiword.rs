//! Products of f32 accuracy out of narrow units: a number is split into p words, and the words'
//! products summed (Markidis; Ootomo and Yokota; Mary and Mikaitis' p-word scheme, as in Fig. 7 of
//! MATLAB-tensor-core). Errors against K, for V100, A100, H100/B200, L40S, and a B200 that rounds to
//! nearest. `cargo run --release --example multiword -- 1000000` goes to K = 10^6.

mod support;

use gemmulate::gemm::metrics;
use gemmulate::prelude::*;
use ndarray::Array2;

/// Words of a matrix: each is what the earlier ones leave, rounded to the unit's format and scaled
/// up so that it stays in range.
fn words(x: &Array2<f64>, unit: &Unit, count: usize) -> Vec<Array2<f64>> {
    let up = 2f64.powi(unit.a.fraction_bits as i32 + 1);
    let mut rest = x.clone();
    (0..count)
        .map(|_| {
            let word = rest.mapv(|x| {
                let code = unit.a.encode_f64(x, Rounding::NearestEven, Overflow::Saturate);
                code.map_or(f64::NAN, |code| unit.a.to_f64(code))
            });
            rest = (&rest - &word) * up;
            word
        })
        .collect()
}

/// The sum over i + j < p of A_i B_j, each product on the unit, smallest first, summed in f64.
fn product(a: &Array2<f64>, b: &Array2<f64>, unit: &Unit, p: usize) -> Result<Array2<f64>, Error> {
    let down = 2f64.powi(-(unit.a.fraction_bits as i32 + 1));
    let (a_words, b_words) = (words(a, unit, p), words(b, unit, p));
    let mut sum = Array2::zeros((a.nrows(), b.ncols()));
    for t in (0..p).rev() {
        for i in 0..=t {
            let d: Array2<f64> = Gemm::on(unit).run_as::<f64>(&a_words[i], &b_words[t - i])?;
            sum = sum + d * down.powi(t as i32);
        }
    }
    Ok(sum)
}

/// A unit that rounds its results to nearest even.
fn to_nearest(unit: &Unit) -> Result<Unit, Error> {
    match unit.recipe {
        Some(Recipe::Generic(dot)) => {
            unit.with_accumulator(GenericDot { output_rounding: Rounding::NearestEven, ..dot })
        }
        _ => Ok(unit.clone()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let largest: usize = std::env::args().nth(1).map_or(Ok(3000), |k| k.parse())?;
    let b200 = Unit::find("blackwell/tcgen05.mma.m128n128k16.f32.f16.f16")?;
    let b200_bf16 = Unit::find("blackwell/tcgen05.mma.m128n128k16.f32.bf16.bf16")?;
    let b200_fp8 = Unit::find("blackwell/tcgen05.mma.m128n128k32.f32.e5m2.e5m2")?;
    let units = [
        ("V100 f16", Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?, vec![1, 2, 3]),
        ("A100 f16", Unit::find("ampere/mma.m16n8k16.f32.f16.f16.f32")?, vec![1, 2, 3]),
        ("H100/B200 f16", b200.clone(), vec![1, 2, 3]),
        ("B200 RNE f16", to_nearest(&b200)?, vec![1, 2, 3]),
        ("A100 bf16", Unit::find("ampere/mma.m16n8k16.f32.bf16.bf16.f32")?, vec![1, 2, 3]),
        ("H100/B200 bf16", b200_bf16.clone(), vec![1, 2, 3]),
        ("B200 RNE bf16", to_nearest(&b200_bf16)?, vec![1, 2, 3]),
        ("L40S e5m2", Unit::find("ada/mma.m16n8k32.f32.e5m2.e5m2.f32")?, vec![1, 4, 6]),
        ("B200 e5m2", b200_fp8, vec![1, 4, 6]),
    ];
    let mut normal = support::Normal(9);
    let sizes: Vec<usize> = (2..)
        .map(|t| 10f64.powf(f64::from(t) / 2.0) as usize)
        .skip_while(|&k| k < 30)
        .take_while(|&k| k <= largest)
        .collect();
    let mut series = Vec::new();
    for (name, unit, counts) in &units {
        for &p in counts {
            let mut points = Vec::new();
            for &k in &sizes {
                let a = normal.matrix(3, k, 1.0).mapv(f64::from);
                let b = normal.matrix(k, 3, 1.0).mapv(f64::from);
                let exact = metrics::reference(&a, &b)?;
                // The error that backward analysis bounds: relative to |A| |B|.
                let scale = a.mapv(f64::abs).dot(&b.mapv(f64::abs));
                let error = ((product(&a, &b, unit, p)? - &exact.product) / &scale).mapv(f64::abs);
                points.push((k as f64, error.into_iter().fold(0.0, f64::max)));
            }
            let last = points.last().map_or(0.0, |p| p.1);
            println!("{name:16} {p} words: {last:.2e} at K = {}", sizes.last().unwrap_or(&0));
            series.push((format!("{name}, {p} words"), points));
        }
    }
    support::save(
        "multiword.svg",
        &support::curves("Error of p-word products, relative to |A| |B|, against K", &series),
    )?;
    Ok(())
}
