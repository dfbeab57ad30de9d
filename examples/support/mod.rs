//! What the examples share: normal random numbers, and pictures.
#![allow(dead_code, reason = "no example uses everything")]

use ndarray::Array2;
use std::fmt::Write;

/// Standard normal numbers: SplitMix64 and Box-Muller.
pub(crate) struct Normal(pub(crate) u64);

impl Normal {
    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn next(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    pub(crate) fn matrix(&mut self, rows: usize, columns: usize, scale: f64) -> Array2<f32> {
        Array2::from_shape_fn((rows, columns), |_| (scale * self.next()) as f32)
    }
}

/// Writes a picture next to where the example runs, in `target/`.
pub(crate) fn save(name: &str, svg: &str) -> std::io::Result<()> {
    let path = std::path::Path::new("target").join(name);
    std::fs::create_dir_all("target")?;
    std::fs::write(&path, svg)?;
    println!("picture: {}", path.display());
    Ok(())
}

const COLOURS: [&str; 8] = ["#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6a4c93", "#00798c", "#8d5524", "#555555"];

fn page(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// Overlaid histograms on one axis.
pub(crate) fn histogram(title: &str, series: &[(&str, Vec<f64>)]) -> String {
    const BINS: usize = 101;
    // All but the few largest.
    let mut sizes: Vec<f64> = series.iter().flat_map(|(_, x)| x).map(|x| x.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let reach = sizes.get(sizes.len() * 995 / 1000).copied().unwrap_or_default().max(1e-300);
    let count = |values: &[f64]| {
        let mut bins = [0usize; BINS];
        for x in values.iter().filter(|x| x.abs() < reach) {
            bins[(((x / reach + 1.0) / 2.0 * BINS as f64) as usize).min(BINS - 1)] += 1;
        }
        bins
    };
    let bins: Vec<_> = series.iter().map(|(_, x)| count(x)).collect();
    let highest = bins.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    let mut body = format!("<text x=\"20\" y=\"20\">{title}</text>\n");
    for (t, bins) in bins.iter().enumerate() {
        let mut points = String::new();
        for (b, &n) in bins.iter().enumerate() {
            let x = 20.0 + b as f64 / BINS as f64 * 600.0;
            let _ = write!(points, "{x:.1},{:.1} ", 300.0 - 250.0 * n as f64 / highest);
        }
        let (colour, name) = (COLOURS[t % 8], series[t].0);
        let _ =
            writeln!(body, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
        let mean = series[t].1.iter().sum::<f64>() / series[t].1.len().max(1) as f64;
        let x = 320.0 + mean / reach * 300.0;
        let _ = writeln!(body, "<path d=\"M{x:.1} 50v250\" stroke=\"{colour}\" stroke-dasharray=\"5 3\"/>");
        let _ =
            writeln!(body, "<text x=\"420\" y=\"{}\" fill=\"{colour}\">{name}: mean {mean:+.4}</text>", 40 + 16 * t);
    }
    let _ = writeln!(body, "<path d=\"M20 300h600M320 50v250\" stroke=\"#999\" fill=\"none\"/>");
    for (x, anchor, text) in [(20, "start", -reach), (320, "middle", 0.0), (620, "end", reach)] {
        let _ = writeln!(body, "<text x=\"{x}\" y=\"318\" text-anchor=\"{anchor}\">{text:.2}</text>");
    }
    let _ = writeln!(body, "<text x=\"320\" y=\"336\" text-anchor=\"middle\">error; dashed: means</text>");
    page(640.0, 348.0, &body)
}

/// Named curves.
pub(crate) type Curves = Vec<(String, Vec<(f64, f64)>)>;

/// Adds a point to a curve, which begins with its first.
pub(crate) fn add(curves: &mut Curves, name: &str, point: (f64, f64)) {
    match curves.iter_mut().find(|(known, _)| known == name) {
        Some((_, points)) => points.push(point),
        None => curves.push((name.into(), vec![point])),
    }
}

/// Curves with logarithmic axes.
pub(crate) fn curves(title: &str, series: &Curves) -> String {
    let all: Vec<(f64, f64)> = series.iter().flat_map(|(_, p)| p).filter(|p| p.1 > 0.0).copied().collect();
    let span = |f: fn(&(f64, f64)) -> f64| {
        let low = all.iter().map(f).fold(f64::INFINITY, f64::min).log10().floor();
        (low, all.iter().map(f).fold(1e-300, f64::max).log10().ceil().max(low + 1.0))
    };
    let ((x0, x1), (y0, y1)) = (span(|p| p.0), span(|p| p.1));
    let place = |p: &(f64, f64)| {
        (60.0 + (p.0.log10() - x0) / (x1 - x0) * 420.0, 380.0 - (p.1.max(1e-300).log10() - y0) / (y1 - y0) * 340.0)
    };
    let mut body =
        format!("<text x=\"60\" y=\"20\">{title}</text>\n<path d=\"M60 40v340h420\" fill=\"none\" stroke=\"#999\"/>\n");
    for e in y0 as i32..=y1 as i32 {
        let (_, y) = place(&(10f64.powf(x0), 10f64.powi(e)));
        let _ = writeln!(body, "<text x=\"10\" y=\"{y:.1}\">1e{e}</text>");
    }
    for e in x0 as i32..=x1 as i32 {
        let (x, _) = place(&(10f64.powi(e), 10f64.powf(y0)));
        let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"398\">1e{e}</text>");
    }
    for (t, (name, points)) in series.iter().enumerate() {
        let line: Vec<String> = points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = ["none", "6 3", "2 3"][t / 8 % 3];
        let colour = COLOURS[t % 8];
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\"/>",
            line.join(" ")
        );
        let _ =
            writeln!(body, "<text x=\"500\" y=\"{}\" fill=\"{colour}\" font-size=\"10\">{name}</text>", 50 + 13 * t);
    }
    page(760.0, (70.0 + 13.0 * series.len() as f64).max(410.0), &body)
}
