//! Binary numbers lined up under each other by the weights of their bits.

use crate::num::{Fixed, Num, Term};
use core::fmt::Write;
use std::borrow::Cow;

/// Columns shown to the right of the last bit kept.
const SHOWN_BELOW: i32 = 26;

/// The widest drawing that is still lined up.
const WIDEST: i32 = 150;

/// The bits of a magnitude, from weight `2^high` to `2^low`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    magnitude: u128,
    high: i32,
    low: i32,
}

impl Bits {
    /// A term's significand, without trailing zeros below the last bit kept.
    pub(super) fn of_term(term: &Term, unit: i32) -> Self {
        Self::new(term.significand, term.exponent - term.frac_bits as i32, term.exponent).trimmed(unit)
    }

    /// A sum, from its leading bit on.
    pub(super) fn of_sum(sum: &Fixed) -> Self {
        Self::new(sum.magnitude, sum.exponent, i32::MIN).trimmed(i32::MAX)
    }

    /// A number as its format holds it.
    pub(super) fn of_num(x: &Num) -> Self {
        Self::of_term(&x.term(), i32::MIN)
    }

    fn new(magnitude: u128, low: i32, high: i32) -> Self {
        let lead = low + 127 - magnitude.leading_zeros().min(127) as i32;
        Self { magnitude, low, high: high.max(lead).max(low) }
    }

    /// Without the trailing zeros of weights below `2^unit`.
    fn trimmed(mut self, unit: i32) -> Self {
        let zeros = self.magnitude.trailing_zeros().min(127) as i32;
        let drop = zeros.min(unit.saturating_sub(self.low)).min(self.high - self.low);
        if drop > 0 {
            self.magnitude >>= drop;
            self.low += drop;
        }
        self
    }

    /// The bit of weight `2^weight`, or a blank where the number has none.
    fn at(&self, weight: i32) -> char {
        if weight < self.low || weight > self.high {
            return ' ';
        }
        let up = (weight - self.low) as u32;
        if up < 128 && (self.magnitude >> up) & 1 == 1 { '1' } else { '0' }
    }
}

/// One number of a drawing.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `+`, `-` or `=`.
    pub(super) mark: &'static str,
    pub(super) label: String,
    /// The exponent that alignment sees, if it is worth showing.
    pub(super) exponent: Option<i32>,
    /// None for a zero or special number.
    pub(super) bits: Option<Bits>,
    /// The last bit kept, where something was cut off behind it.
    pub(super) cut_below: Option<i32>,
    pub(super) remark: String,
    /// Whether a line is drawn above.
    pub(super) ruled: bool,
}

/// Rows that share their columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    pub(super) rows: Vec<Row>,
    /// The exponent of the bit before the binary point, and the last bit kept.
    pub(super) align: Option<(i32, i32)>,
}

impl Grid {
    /// Draws the rows, lined up if they fit, at least without zeros at their ends, one after the other if not.
    pub(super) fn draw(&self, into: &mut String) {
        let labels = self.rows.iter().map(|r| r.label.len()).max().unwrap_or(0);
        let (mut rows, mut columns) = (Cow::from(&self.rows), self.columns(&self.rows));
        if !columns.fit() {
            let bits = rows.to_mut().iter_mut().filter_map(|row| row.bits.as_mut());
            bits.for_each(|bits| *bits = bits.trimmed(i32::MAX));
            columns = self.columns(&rows);
        }
        let aligned = columns.fit();
        if !aligned {
            into.push_str("  (too far apart to stand under one another)\n");
        }
        for row in &*rows {
            let bits = match &row.bits {
                None => "0".into(),
                Some(bits) if aligned => columns.line(bits, row.cut_below),
                Some(bits) => alone(bits, row.exponent),
            };
            let exponent = row.exponent.map_or(String::new(), |e| format!("2^{e}"));
            let indent = if row.bits.is_none() && aligned { columns.point_column() } else { 0 };
            let line = format!("  {} {:labels$} {exponent:>7}  {:indent$}{bits}", row.mark, row.label, "");
            if row.ruled {
                let _ = writeln!(into, "  {}", "-".repeat(labels + 11 + columns.width(aligned)));
            }
            let _ = match row.remark.as_str() {
                "" => writeln!(into, "{}", line.trim_end()),
                remark => writeln!(into, "{}  {remark}", line.trim_end()),
            };
        }
    }

    fn columns(&self, rows: &[Row]) -> Columns {
        let bits = || rows.iter().filter_map(|r| r.bits);
        let point = self.align.map(|(e_max, _)| e_max);
        let point = point.or_else(|| rows.iter().filter_map(|r| r.exponent).max()).unwrap_or(0);
        let mut bars: Vec<i32> = rows.iter().filter_map(|r| r.cut_below).collect();
        bars.extend(self.align.map(|(_, unit)| unit));
        bars.sort_unstable();
        bars.dedup();
        let high = bits().map(|b| b.high).chain([point]).max().unwrap_or(point);
        let low = bits().map(|b| b.low).chain(bars.iter().copied()).min().unwrap_or(point);
        // The parts cut off may reach far down; kept bits are all shown.
        let low = bars.first().map_or(low, |bar| low.max(bar - SHOWN_BELOW));
        Columns { high, low, point, bars }
    }
}

/// The weights of a grid's columns.
struct Columns {
    high: i32,
    low: i32,
    /// The weight left of the binary point.
    point: i32,
    /// The weights left of a `|`.
    bars: Vec<i32>,
}

impl Columns {
    const fn fit(&self) -> bool {
        self.high - self.low < WIDEST
    }

    /// The column of a zero: left of the point.
    fn point_column(&self) -> usize {
        usize::try_from(self.high - self.point).unwrap_or(0)
    }

    fn width(&self, aligned: bool) -> usize {
        if aligned { usize::try_from(self.high - self.low + 2).unwrap_or(0) + self.bars.len() } else { 40 }
    }

    fn line(&self, bits: &Bits, cut_below: Option<i32>) -> String {
        let mut line = String::new();
        for weight in (self.low..=self.high).rev() {
            line.push(bits.at(weight));
            if weight == self.point {
                line.push(if bits.low < weight && bits.high >= weight { '.' } else { ' ' });
            }
            if self.bars.contains(&weight) {
                line.push(if cut_below == Some(weight) { '|' } else { ' ' });
            }
        }
        if bits.low < self.low {
            line.push_str("...");
        }
        line
    }
}

/// The bits on their own: `1.011`, or `10.11` where that is the significand that goes with the exponent.
fn alone(bits: &Bits, exponent: Option<i32>) -> String {
    let point = exponent.filter(|e| (bits.low..=bits.high).contains(e)).unwrap_or(bits.high);
    let mut line = String::new();
    for weight in (bits.low..=bits.high).rev() {
        line.push(bits.at(weight));
        if weight == point && bits.low < weight {
            line.push('.');
        }
    }
    line
}
