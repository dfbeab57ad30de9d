//! Dot-adds as data: lines of text, generated ones, and outputs recorded on real GPUs.
//!
//! A [`Vector`] is one dot-add's operands as codes, with or without the d it should give. It is
//! read from lines of text ([`Lines`]), drawn at random from ten kinds of distributions
//! ([`Generator`]), or read from recorded data ([`recordings`]). [`draw`] shows what a unit does
//! with one, as a person would draw it.

mod draw;
mod evaluate;
mod generate;
mod grid;
mod input;
mod line;
mod recorded;
mod ties;

pub use draw::draw;
pub use evaluate::Evaluator;
pub use generate::{Generator, KINDS, Kind};
pub use input::Input;
pub use line::{Line, LineError, Lines};
pub use recorded::{Recording, recordings};

use crate::error::Error;
use crate::unit::Unit;
use core::fmt;

/// The d that a vector should give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// This code.
    Bits(u64),
    /// Any NaN: the unit's payload is unspecified.
    AnyNan,
}

impl Expected {
    /// Whether `d`, a code that `unit` gave, is what was expected: any NaN is any other where nothing says which one
    /// the unit gives ([`Unit::has_any_nan`]).
    pub fn accepts(&self, d: u64, unit: &Unit) -> bool {
        let is_nan = |code| unit.d.decode(code).is_nan();
        match *self {
            Self::Bits(bits) => bits == d || (unit.has_any_nan() && is_nan(bits) && is_nan(d)),
            Self::AnyNan => is_nan(d),
        }
    }

    /// What another implementation of `unit` must give where this library gives `d`.
    pub fn of(d: u64, unit: &Unit) -> Self {
        if unit.has_any_nan() && unit.d.decode(d).is_nan() { Self::AnyNan } else { Self::Bits(d) }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "{bits:x}"),
            Self::AnyNan => f.write_str("nan"),
        }
    }
}

/// One dot-add: codes of its operands in k order, and the d it should give, if that is known.
///
/// Its text form is one line: `a b c [scale_a scale_b] [d]`, columns split by tabs, codes in hex,
/// those of a column split by commas, `nan` in d for any NaN.
///
/// ```
/// use gemmulate::{Unit, vectors::Vector};
/// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
/// let mut vector = Vector::default();
/// vector.read_line(&unit, b"3c00,4000,0,0\t3c00,3e00,0,0\t3f800000")?;
/// assert_eq!(vector.eval(&unit)?, u64::from(5f32.to_bits())); // 1 * 1 + 2 * 1.5 + 1
/// assert_eq!(vector.to_string(), "3c00,4000,0,0\t3c00,3e00,0,0\t3f800000");
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector {
    /// The operands.
    pub input: Input,
    /// What the unit should give.
    pub d: Option<Expected>,
}

impl Vector {
    /// The unit's d.
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn eval(&self, unit: &Unit) -> Result<u64, Error> {
        self.input.eval(unit)
    }
}

/// Operands alone.
impl From<Input> for Vector {
    fn from(input: Input) -> Self {
        Self { input, d: None }
    }
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)?;
        self.d.map_or(Ok(()), |d| write!(f, "\t{d}"))
    }
}
