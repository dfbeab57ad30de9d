//! Histograms as SVG text.

use std::fmt::Write;

/// One histogram under another, on a common axis from `-reach` to `reach`.
pub(crate) fn histograms(series: &[(String, Vec<f64>)], axis: &str) -> String {
    const BINS: usize = 81;
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 110.0;
    let reach = series.iter().flat_map(|(_, x)| x).filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    let reach = if reach > 0.0 { reach } else { 1.0 };
    let total = HEIGHT * series.len() as f64 + 50.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{total}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH + 40.0
    );
    for (t, (name, values)) in series.iter().enumerate() {
        let mut bins = [0usize; BINS];
        for x in values.iter().filter(|x| x.is_finite()) {
            let at = (x / reach + 1.0) / 2.0 * BINS as f64;
            bins[(at as usize).min(BINS - 1)] += 1;
        }
        let highest = bins.iter().copied().max().unwrap_or(0).max(1) as f64;
        let bottom = HEIGHT * (t + 1) as f64;
        for (b, &count) in bins.iter().enumerate() {
            let (w, h) = (WIDTH / BINS as f64, count as f64 / highest * (HEIGHT - 30.0));
            let x = 20.0 + b as f64 * w;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{h:.2}\" fill=\"#3b6ea5\"/>",
                bottom - h,
                w * 0.92
            );
        }
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        // Names too long for the picture are pressed into it.
        let fit = if name.chars().count() > 95 { " textLength=\"640\" lengthAdjust=\"spacingAndGlyphs\"" } else { "" };
        let _ = writeln!(svg, "<text x=\"20\" y=\"{:.1}\"{fit}>{name}</text>", bottom - HEIGHT + 18.0);
        let _ = writeln!(svg, "<path d=\"M20 {bottom}h{WIDTH}\" stroke=\"black\"/>");
    }
    let y = total - 30.0;
    for (x, anchor, text) in [
        (20.0, "start", format!("{:.2e}", -reach)),
        (20.0 + WIDTH / 2.0, "middle", "0".into()),
        (20.0 + WIDTH, "end", format!("{reach:.2e}")),
    ] {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>\n</svg>",
        20.0 + WIDTH / 2.0,
        y + 18.0
    );
    svg
}
