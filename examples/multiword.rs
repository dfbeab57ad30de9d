//! Products of f32 accuracy out of narrow units: a number is split into p words of a narrow format, and
//! the words' products are accumulated in the unit (Markidis; Ootomo and Yokota; Mary and Mikaitis).
//!
//! The experiment of Fig. 7 in Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores": 10 x n
//! by n x 10, the logarithms of the elements uniform between -10 and 10, rows and columns scaled into
//! range by powers of two. f16 and bf16 with 1, 2 and 3 words, e5m2 with 1, 4 and 6, on V100, A100,
//! L40S, H100 and B200, and on a B200 that rounds to nearest, which does not exist.
//!
//! Then two words of f16 the way of Markidis et al. and of Ootomo and Yokota, on V100 and A100, against f32.
//!
//! `cargo run --release --example multiword -- 1000000` goes to n = 10^6 as the figure does.

mod support;

use gemmulate::format::{F16, F32};
use gemmulate::gemm::{Workspace, metrics};
use gemmulate::prelude::*;
use ndarray::{Array1, Array2, Axis};

/// A format's units, and how many words are tried.
struct Panel {
    name: &'static str,
    words: [usize; 3],
    units: Vec<(&'static str, Unit)>,
}

/// A unit that rounds its results to nearest even.
fn to_nearest(unit: &Unit) -> Result<Unit, Error> {
    match unit.recipe {
        Some(Recipe::Generic(dot)) => {
            unit.with_accumulator(GenericDot { output_rounding: Rounding::NearestEven, ..dot })
        }
        _ => Err(Error::Unit(format!("{unit} has no output rounding to change"))),
    }
}

fn panels() -> Result<[Panel; 3], Error> {
    let named = |name, unit| Ok::<_, Error>((name, Unit::find(unit)?));
    let (f16, bf16) =
        ("blackwell/tcgen05.mma.m128n128k16.f32.f16.f16", "blackwell/tcgen05.mma.m128n128k16.f32.bf16.bf16");
    // As the paper has it: fp8 on a B200 through `mma.sync`, which goes by f16 and adds c in f32.
    let e5m2 = "blackwell/mma.m16n8k32.f32.e5m2.e5m2.f32";
    let rne = |unit| Ok::<_, Error>(("B200 RNE", to_nearest(&Unit::find(unit)?)?));
    Ok([
        Panel {
            name: "f16",
            words: [1, 2, 3],
            units: vec![
                named("V100", "volta/mma.m8n8k4.f32.f16.f16.f32")?,
                named("A100, L40S", "ampere/mma.m16n8k16.f32.f16.f16.f32")?,
                named("H100, B200", f16)?,
                rne(f16)?,
            ],
        },
        Panel {
            name: "bf16",
            words: [1, 2, 3],
            units: vec![
                named("A100, L40S", "ampere/mma.m16n8k16.f32.bf16.bf16.f32")?,
                named("H100, B200", bf16)?,
                rne(bf16)?,
            ],
        },
        Panel {
            name: "e5m2",
            words: [1, 4, 6],
            units: vec![
                named("L40S", "ada/mma.m16n8k32.f32.e5m2.e5m2.f32")?,
                named("H100", "hopper/wgmma.m64n128k32.f32.e5m2.e5m2")?,
                named("B200", e5m2)?,
                rne(e5m2)?,
            ],
        },
    ])
}

/// Factors, powers of two, that bring the largest magnitude of every row (axis 1) or column (axis 0) below `limit`.
fn scales(x: &Array2<f64>, axis: Axis, limit: f64) -> Array1<f64> {
    x.map_axis(axis, |line| 2f64.powf((limit / line.fold(0.0, |m: f64, x| m.max(x.abs()))).log2().floor()))
}

/// Words of a matrix: each is what the earlier ones leave, scaled up by u^-1 per word and rounded.
fn words(x: &Array2<f64>, format: &FormatSpec, u: f64, count: usize) -> Vec<Array2<f32>> {
    let mut rest = x.clone();
    let round =
        |x: f64| format.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).map_or(f64::NAN, |c| format.to_f64(c));
    (0..count as i32)
        .map(|t| {
            let word = rest.mapv(|x| round(x / u.powi(t)));
            rest.zip_mut_with(&word, |x, word| *x -= word * u.powi(t));
            word.mapv(|x| x as f32)
        })
        .collect()
}

/// The sum over i + j < p of u^(i+j) A_i B_j: every product starts from the sum so far, in the unit.
fn product(a: &[Array2<f32>], b: &[Array2<f32>], unit: &Unit, u: f64, p: usize) -> Result<Array2<f32>, Error> {
    let (mut sum, mut workspace) = (Array2::zeros((a[0].nrows(), b[0].ncols())), Workspace::new());
    let gemm = Gemm::on(unit).plan(Plan::in_order().start(Start::C)).beta(1.0);
    for (i, a) in a.iter().enumerate().take(p) {
        for (j, b) in b.iter().enumerate().take(p - i) {
            let down = a * u.powi((i + j) as i32) as f32;
            gemm.run_into(&down, b, &mut sum, &mut workspace)?;
        }
    }
    Ok(sum)
}

/// Two words in f16, the second scaled up.
fn two_words(x: &Array2<f32>, up: f32) -> [Array2<f32>; 2] {
    let high =
        x.mapv(|x| F16.to_f64(F16.encode_f64(x.into(), Rounding::NearestEven, Overflow::Ieee).unwrap_or(0)) as f32);
    let low = (x - &high) * up;
    [high, low]
}

/// Markidis et al. 2018: all four products in one accumulator, the small ones first.
fn markidis(a: &Array2<f32>, b: &Array2<f32>, unit: &Unit) -> Result<Array2<f32>, Error> {
    let ([a_high, a_low], [b_high, b_low]) = (two_words(a, 1.0), two_words(b, 1.0));
    let (mut sum, mut workspace) = (Array2::zeros((a.nrows(), b.ncols())), Workspace::new());
    let gemm = Gemm::on(unit).plan(Plan::in_order().start(Start::C)).beta(1.0);
    for (a, b) in [(&a_low, &b_low), (&a_low, &b_high), (&a_high, &b_low), (&a_high, &b_high)] {
        gemm.run_into(a, b, &mut sum, &mut workspace)?;
    }
    Ok(sum)
}

/// Ootomo and Yokota 2022: the second words scaled up by 2^11, their product left out, and the large
/// products added up outside the unit, in f32 to nearest, which is promotion at every instruction.
fn ootomo_yokota(a: &Array2<f32>, b: &Array2<f32>, unit: &Unit) -> Result<Array2<f32>, Error> {
    let ([a_high, a_low], [b_high, b_low]) = (two_words(a, 2048.0), two_words(b, 2048.0));
    let (mut small, mut workspace) = (Array2::<f32>::zeros((a.nrows(), b.ncols())), Workspace::new());
    let gemm = Gemm::on(unit).plan(Plan::in_order().start(Start::C)).beta(1.0);
    gemm.run_into(&a_low, &b_high, &mut small, &mut workspace)?;
    gemm.run_into(&a_high, &b_low, &mut small, &mut workspace)?;
    let large = Gemm::on(unit).plan(Plan::in_order().promote(unit.shape.k)).run(&a_high, &b_high)?;
    Ok(large + small / 2048.0)
}

/// Errors of the two-word methods against n, elements uniform in [-1, 1).
fn methods(sizes: &[usize], random: &mut support::Normal) -> Result<support::Curves, Error> {
    let (v100, a100) =
        (Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?, Unit::find("ampere/mma.m16n8k16.f32.f16.f16.f32")?);
    let f32_fma = Unit::find("custom/m8n8k4.f32.f32.f32.f32/fma")?;
    let mut curves = support::Curves::new();
    for &n in sizes {
        let mut element = || (2.0 * random.uniform() - 1.0) as f32;
        let a = Array2::from_shape_simple_fn((10, n), &mut element);
        let b = Array2::from_shape_simple_fn((n, 10), &mut element);
        let exact = metrics::reference(&a, &b)?.product;
        let results = [
            ("A100, f16", a.dot_on(&b, &a100)?),
            ("A100, Markidis", markidis(&a, &b, &a100)?),
            ("A100, Ootomo-Yokota", ootomo_yokota(&a, &b, &a100)?),
            ("V100, Markidis", markidis(&a, &b, &v100)?),
            ("V100, Ootomo-Yokota", ootomo_yokota(&a, &b, &v100)?),
            ("f32, in order", a.dot_on(&b, &f32_fma)?),
        ];
        for (name, d) in results {
            let error = metrics::errors(&d, &exact, &F32)?.relative_frobenius;
            support::add(&mut curves, name, (n as f64, error));
        }
    }
    Ok(curves)
}

/// Prints the last point of every curve and draws them.
fn show(name: &str, measure: &str, curves: &support::Curves) -> std::io::Result<()> {
    let last = |points: &[(f64, f64)]| points.last().copied().unwrap_or_default();
    println!("{name}: error, {measure}, at n = {}", curves.first().map_or(0.0, |(_, points)| last(points).0));
    for (name, points) in curves {
        println!("  {name:22} {:.2e}", last(points).1);
    }
    let title = format!("Error of {name} products against n, {measure}");
    support::save(&format!("multiword-{name}.svg"), &support::curves(&title, curves))
}

/// The largest sum of magnitudes in a row.
fn norm(x: &Array2<f64>) -> f64 {
    x.outer_iter().map(|row| row.fold(0.0, |sum, x| sum + x.abs())).fold(0.0, f64::max)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let largest: usize = std::env::args().nth(1).map_or(Ok(30_000), |n| n.parse())?;
    let sizes = (0..20).map(|t| 10f64.powf(1.0 + f64::from(t) * 5.0 / 19.0 + 1e-12) as usize);
    let sizes: Vec<usize> = sizes.take_while(|&n| n <= largest).collect();
    let panels = panels()?;
    let mut curves = panels.each_ref().map(|_| support::Curves::new());
    let mut random = support::Normal(1);
    for &n in &sizes {
        let mut element = || {
            let magnitude = 10f64.powf(20.0 * random.uniform() - 10.0);
            if random.uniform() < 0.5 { -magnitude } else { magnitude }
        };
        let a = Array2::from_shape_simple_fn((10, n), &mut element);
        let b = Array2::from_shape_simple_fn((n, 10), &mut element);
        let exact = metrics::reference(&a, &b)?.product;
        for (panel, curves) in panels.iter().zip(&mut curves) {
            let format = panel.units[0].1.a;
            let u = 0.5f64.powi(format.fraction_bits as i32 + 1);
            let limit = format.to_f64(format.max_code(false)).min((f64::from(f32::MAX) / n as f64).sqrt());
            let (left, right) = (scales(&a, Axis(1), limit), scales(&b, Axis(0), limit));
            let left = left.insert_axis(Axis(1));
            let a_words = words(&(&a * &left), &format, u, panel.words[2]);
            let b_words = words(&(&b * &right), &format, u, panel.words[2]);
            for (name, unit) in &panel.units {
                for p in panel.words {
                    let d = product(&a_words, &b_words, unit, u, p)?.mapv(f64::from) / &left / &right;
                    let error = norm(&(d - &exact)) / norm(&a) / norm(&b);
                    let words = if p == 1 { "1 word".into() } else { format!("{p} words") };
                    support::add(curves, &format!("{name}, {words}"), (n as f64, error));
                }
            }
        }
    }
    for (panel, curves) in panels.iter().zip(&curves) {
        show(panel.name, "relative to |A| |B|", curves)?;
    }
    show("two-word", "relative Frobenius", &methods(&sizes, &mut random)?)?;
    Ok(())
}
