//! The operands of one dot-add as codes.

use crate::error::Error;
use crate::trace::Trace;
use crate::unit::Unit;
use core::fmt;

/// The codes of one dot-add: `a`, `b`, `c` and, for block-scaled units, the scales.
///
/// `Display` writes the line that `eval` reads: `a  b  c  [scale_a  scale_b]`, divided by tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Input {
    /// The row of A: K codes.
    pub a: Vec<u64>,
    /// The column of B: K codes.
    pub b: Vec<u64>,
    /// The addend.
    pub c: u64,
    /// One scale per block of A; empty without block scales.
    pub scale_a: Vec<u64>,
    /// One scale per block of B; empty without block scales.
    pub scale_b: Vec<u64>,
}

/// Appends a code in lower-case hex, without leading zeros.
fn push_hex(code: u64, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (64 - code.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|i| char::from(DIGITS[(code >> (4 * i)) as usize & 15])));
}

fn push_codes(codes: &[u64], out: &mut String) {
    for (i, &code) in codes.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_hex(code, out);
    }
}

impl Input {
    /// The unit's d.
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn eval(&self, unit: &Unit) -> Result<u64, Error> {
        unit.dot_add_scaled_bits(&self.a, &self.b, self.c, &self.scale_a, &self.scale_b)
    }

    /// The same with every step: [`Unit::trace_bits`].
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn trace(&self, unit: &Unit) -> Result<(u64, Trace), Error> {
        unit.trace_bits(&self.a, &self.b, self.c, &self.scale_a, &self.scale_b)
    }

    /// Appends the line that `eval` reads, without its newline.
    pub fn write_line(&self, out: &mut String) {
        push_codes(&self.a, out);
        out.push('\t');
        push_codes(&self.b, out);
        out.push('\t');
        push_hex(self.c, out);
        if !self.scale_a.is_empty() {
            out.push('\t');
            push_codes(&self.scale_a, out);
            out.push('\t');
            push_codes(&self.scale_b, out);
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        self.write_line(&mut line);
        f.write_str(&line)
    }
}
