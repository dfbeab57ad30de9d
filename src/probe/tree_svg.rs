//! Summation trees as pictures, in the manner of MMA-Sim's Fig. 1.

use super::tree::{Node, SummationTree};
use core::fmt::Write;

/// Distances in pixels.
const COLUMN: f64 = 44.0;
const ROW: f64 = 56.0;
const MARGIN: f64 = 30.0;

struct Drawing {
    next_column: usize,
    shapes: String,
}

impl SummationTree {
    /// The tree as an SVG picture: leaves in a row below, sums above what they add.
    pub fn svg(&self) -> String {
        let depth = depth(&self.root);
        let mut drawing = Drawing { next_column: 0, shapes: String::new() };
        drawing.node(&self.root, 0, depth);
        let width = COLUMN * drawing.next_column.max(1) as f64 + 2.0 * MARGIN - COLUMN / 2.0;
        let height = ROW * depth as f64 + 2.0 * MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             font-family=\"sans-serif\" font-size=\"13\" text-anchor=\"middle\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            drawing.shapes
        )
    }
}

fn depth(node: &Node) -> usize {
    match node {
        Node::Sum(children) => 1 + children.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl Drawing {
    /// Draws a node; returns where it is.
    fn node(&mut self, node: &Node, level: usize, depth: usize) -> (f64, f64) {
        let Node::Sum(children) = node else {
            let label = if let Node::Product(k) = node { format!("#{k}") } else { "c".into() };
            let at = (MARGIN + COLUMN * self.next_column as f64, MARGIN + ROW * depth as f64);
            self.next_column += 1;
            self.label(at, &label);
            return at;
        };
        let below: Vec<(f64, f64)> = children.iter().map(|x| self.node(x, level + 1, depth)).collect();
        let x = below.iter().map(|p| p.0).sum::<f64>() / below.len().max(1) as f64;
        let at = (x, MARGIN + ROW * level as f64);
        for (x, y) in below {
            let _ = writeln!(
                self.shapes,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"black\"/>",
                at.0,
                at.1 + 12.0,
                y - 12.0
            );
        }
        let _ = writeln!(
            self.shapes,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"12\" fill=\"white\" stroke=\"black\"/>",
            at.0, at.1
        );
        self.label(at, "+");
        at
    }

    fn label(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(self.shapes, "<text x=\"{x:.1}\" y=\"{:.1}\">{text}</text>", y + 4.5);
    }
}
