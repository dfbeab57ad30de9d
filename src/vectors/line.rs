//! Vectors as lines of text, with errors that say where.

use super::{Expected, Vector};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::unit::Unit;
use core::fmt::{self, Display};
use std::io::{BufRead, BufReader, Read};

/// What is wrong with a line, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {why}")]
pub struct LineError {
    /// The character within the line, from 1.
    pub column: usize,
    /// What was expected there and what was found.
    pub why: String,
}

impl LineError {
    /// The same with its file and line.
    pub fn at(self, file: &str, line: usize) -> Error {
        Error::Data { file: file.into(), line: Some(line), column: Some(self.column), why: self.why }
    }
}

impl Vector {
    /// Reads one line for `unit` into this vector, reusing its memory; false for a line without
    /// a vector, which is empty or starts with `#`.
    ///
    /// Upper case, leading zeros, `0x`, blanks around codes and columns, and any run of blanks
    /// between columns are understood; the column d may be missing.
    ///
    /// # Errors
    /// When a column is missing, has the wrong number of codes, or a code is no hex number of its
    /// format's width. The vector's content is then unspecified.
    pub fn read_line(&mut self, unit: &Unit, line: &[u8]) -> Result<bool, LineError> {
        let mut scan = Scanner { line: line.trim_ascii_end(), at: 0 };
        scan.blanks();
        if matches!(scan.peek(), None | Some(b'#')) {
            return Ok(false);
        }
        let (k, scales) = (unit.shape.k, unit.scales());
        let x = &mut self.input;
        scan.column("a", &unit.a, k, &mut x.a)?;
        scan.column("b", &unit.b, k, &mut x.b)?;
        x.c = scan.code(&"c", &unit.c)?;
        x.scale_a.clear();
        x.scale_b.clear();
        if let Some(rule) = &unit.scale {
            scan.column("scale_a", &rule.format, scales, &mut x.scale_a)?;
            scan.column("scale_b", &rule.format, scales, &mut x.scale_b)?;
        }
        self.d = None;
        if scan.peek().is_some() {
            self.d = Some(scan.expected(&unit.d)?);
        }
        match scan.peek() {
            None => Ok(true),
            Some(_) => Err(scan.fail(format!("expected the end of the line after d, but found {}", scan.found()))),
        }
    }
}

/// Marks a byte that is no hex digit.
const NO_DIGIT: u8 = 0xff;

/// The value of every hex digit.
const DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut i = 0;
    while i < 16 {
        table[b"0123456789abcdef"[i] as usize] = i as u8;
        table[b"0123456789ABCDEF"[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// A place in a line.
struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// One column of exactly `count` codes.
    fn column(&mut self, name: &str, format: &FormatSpec, count: usize, into: &mut Vec<u64>) -> Result<(), LineError> {
        into.clear();
        for k in 0..count {
            if k > 0 {
                self.comma(name, count, k)?;
            }
            into.push(self.code(&Element { name, k, count }, format)?);
        }
        if self.peek() == Some(b',') {
            return Err(self.fail(format!("expected the next column: {name} has {count} codes for this unit")));
        }
        Ok(())
    }

    fn comma(&mut self, name: &str, count: usize, read: usize) -> Result<(), LineError> {
        if self.peek() != Some(b',') {
            let found = self.found();
            return Err(
                self.fail(format!("expected `,` and code {} of {count} in column {name}, but found {found}", read + 1))
            );
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    /// One code, and the blanks behind it.
    fn code(&mut self, name: &impl Display, format: &FormatSpec) -> Result<u64, LineError> {
        let start = self.at;
        if self.peek() == Some(b'0') && matches!(self.line.get(self.at + 1), Some(b'x' | b'X')) {
            self.at += 2;
        }
        let (mut code, mut lost, first) = (0u64, 0, self.at);
        while let Some(&byte) = self.line.get(self.at) {
            let digit = DIGITS[usize::from(byte)];
            if digit == NO_DIGIT {
                break;
            }
            lost |= code >> 60;
            code = code << 4 | u64::from(digit);
            self.at += 1;
        }
        let ends = self.peek().is_none_or(|b| b == b',' || b.is_ascii_whitespace());
        if self.at == first || !ends {
            return Err(self.fail(format!("{name}: expected a hex code of {format}, but found {}", self.found())));
        }
        if lost != 0 || code & !format.code_mask() != 0 {
            let (bits, found) = (format.storage_bits, Self { line: self.line, at: start }.found());
            self.at = start;
            return Err(self.fail(format!("{name}: expected a code of {format}, {bits} bits, but found {found}")));
        }
        self.blanks();
        Ok(code)
    }

    /// The column d.
    fn expected(&mut self, format: &FormatSpec) -> Result<Expected, LineError> {
        let word = &self.line[self.at..];
        let is_nan = word.get(..3).is_some_and(|w| w.eq_ignore_ascii_case(b"nan"));
        if is_nan && word.get(3).is_none_or(u8::is_ascii_whitespace) {
            self.at += 3;
            self.blanks();
            return Ok(Expected::AnyNan);
        }
        self.code(&"d", format).map(Expected::Bits)
    }

    /// What stands here, for a message: at most 20 characters.
    fn found(&self) -> String {
        let rest = &self.line[self.at..];
        let end = rest.iter().position(|b| b.is_ascii_whitespace() || *b == b',').unwrap_or(rest.len());
        if rest.is_empty() {
            return "the end of the line".into();
        }
        let word = &rest[..end.clamp(1, 20)];
        let more = if end > 20 { "..." } else { "" };
        format!("`{}{more}`", String::from_utf8_lossy(word).escape_debug())
    }

    fn fail(&self, why: String) -> LineError {
        // Characters, not bytes: continuation bytes of UTF-8 do not count.
        let column = self.line[..self.at].iter().filter(|&&b| b & 0xc0 != 0x80).count() + 1;
        LineError { column, why }
    }
}

/// `a[3]`, or `c` where there is one.
struct Element<'a> {
    name: &'a str,
    k: usize,
    count: usize,
}

impl Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 1 { f.write_str(self.name) } else { write!(f, "{}[{}]", self.name, self.k) }
    }
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A vector.
    Vector,
    /// An empty line or a comment.
    Blank,
    /// There is none: the input has ended.
    End,
}

/// Vectors of one unit, read line by line from anything that can be read.
#[derive(Debug)]
pub struct Lines<R> {
    input: BufReader<R>,
    file: String,
    unit: Unit,
    line: Vec<u8>,
    number: usize,
}

impl<R: Read> Lines<R> {
    /// Reads from `input`, which messages call `file`.
    pub fn new(unit: &Unit, file: impl Into<String>, input: R) -> Self {
        let input = BufReader::with_capacity(1 << 16, input);
        Self { input, file: file.into(), unit: unit.clone(), line: Vec::new(), number: 0 }
    }

    /// Whether a whole line is at hand already. If not, the next read may have to wait: whoever is
    /// to answer the lines read so far should hear of them first.
    pub fn has_line(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// The number of the line read last, from 1.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Reads the next line, its vector into `vector` if it has one.
    ///
    /// # Errors
    /// When reading fails or a line is not a vector of the unit; the error names file and line.
    pub fn next_into(&mut self, vector: &mut Vector) -> Result<Line, Error> {
        if !self.next_line()? {
            return Ok(Line::End);
        }
        match vector.read_line(&self.unit, &self.line) {
            Ok(true) => Ok(Line::Vector),
            Ok(false) => Ok(Line::Blank),
            Err(error) => Err(error.at(&self.file, self.number)),
        }
    }

    /// Reads one line; false at the end.
    fn next_line(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let limit = self.longest_line();
        self.number += 1;
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line);
        let read = read.map_err(|e| self.error(e.to_string()))?;
        if read as u64 == limit {
            return Err(self.error(format!("expected a line of fewer than {limit} bytes")));
        }
        Ok(read > 0)
    }

    /// No sensible line is longer: 40 bytes a code are ample, and a megabyte for comments.
    fn longest_line(&self) -> u64 {
        (1 << 20) + 40 * (2 * self.unit.shape.k + 2 * self.unit.scales() + 2) as u64
    }

    fn error(&self, why: String) -> Error {
        Error::Data { file: self.file.clone(), line: Some(self.number), column: None, why }
    }
}
