//! Rule (S) for whole pieces: infinities and NaN among operands, as masks over a step's products.

use super::{Fda, MR, NR, SPECIAL};
use crate::gemm::kernel::Panel;
use crate::num::Class;

/// What one row (column) brings to a step, a bit for every product.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    nan: bool,
    infinite: u32,
    zero: u32,
    negative: u32,
}

/// The lines of one step, kept while the row groups go by.
#[derive(Debug)]
pub(super) struct Lines {
    a: [Line; MR],
    b: [Line; NR],
    /// The step and column group that `b` is of.
    key: Option<usize>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { a: [Line::default(); MR], b: [Line::default(); NR], key: None }
    }
}

impl Lines {
    pub(super) fn forget(&mut self) {
        self.key = None;
    }
}

/// What a step's special values make of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nan,
    Infinite { negative: bool },
}

impl Fda {
    /// Row `i` of A at FDA `s`.
    fn line_a(&self, panel: &Panel, i: usize, s: usize) -> Line {
        self.line(panel, &self.unit.a, i, s, |p| panel.codes.get(i * panel.k + p))
    }

    /// Column `j` of B at FDA `s`.
    fn line_b(&self, panel: &Panel, j: usize, s: usize) -> Line {
        self.line(panel, &self.unit.b, j, s, |p| panel.codes.get(p * panel.lines + j))
    }

    fn line(
        &self,
        panel: &Panel,
        spec: &crate::format::FormatSpec,
        i: usize,
        s: usize,
        code: impl Fn(usize) -> u64,
    ) -> Line {
        let mut line = Line::default();
        for (x, p) in self.positions(s).enumerate() {
            let (class, negative) = spec.class(code(p));
            line.nan |= class == Class::Nan;
            line.infinite |= u32::from(class == Class::Infinite) << x;
            line.zero |= u32::from(class == Class::Zero) << x;
            line.negative |= u32::from(negative) << x;
        }
        if let Some(rule) = self.unit.scale {
            line.nan |= rule.format.decode(panel.scale(i, s * self.block / rule.block)).is_nan();
        }
        line
    }

    /// Reads the rows `row..row + MR` and the columns from `column` on, whose flags say that they are special or meet
    /// one that is.
    pub(super) fn read_lines(&self, [a, b]: [&Panel; 2], [row, column]: [usize; 2], s: usize, to: &mut Lines) {
        for (r, line) in to.a.iter_mut().enumerate() {
            *line = if row + r < a.lines { self.line_a(a, row + r, s) } else { Line::default() };
        }
        if to.key == Some(s) {
            return;
        }
        to.key = Some(s);
        for (j, line) in to.b.iter_mut().enumerate() {
            *line = if column + j < b.lines { self.line_b(b, column + j, s) } else { Line::default() };
        }
    }
}

impl Lines {
    /// What products and `c` (finite or the special value of a state) decide, if anything.
    pub(super) fn verdict(&self, r: usize, j: usize, c: f32) -> Option<Verdict> {
        let (a, b) = (&self.a[r], &self.b[j]);
        let infinite = a.infinite | b.infinite;
        let zero_by_infinite = (a.infinite & b.zero) | (b.infinite & a.zero);
        let negative = infinite & (a.negative ^ b.negative);
        let minus = negative != 0 || c == f32::NEG_INFINITY;
        let plus = infinite != negative || c == f32::INFINITY;
        if a.nan || b.nan || zero_by_infinite != 0 || c.is_nan() || (minus && plus) {
            return Some(Verdict::Nan);
        }
        (minus || plus).then_some(Verdict::Infinite { negative: minus })
    }
}

/// Whether a flag byte says so.
pub(super) const fn is_special(flag: u8) -> bool {
    flag & SPECIAL != 0
}
