//! What can go wrong at the edges: shapes, names, text. Arithmetic itself is total.

use crate::format::EncodeError;
use crate::vectors::LineError;

/// Every error of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operand has the wrong shape: its sizes, its place in memory, or the width of its codes there.
    #[error("{operand} must be {expected}, but is {found}")]
    Shape {
        /// Which operand, or which element of one.
        operand: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A value that no operand of its kind may have.
    #[error("{operand} must be {expected}, but is {found}")]
    Value {
        /// Which operand.
        operand: String,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A matrix that this machine's memory does not hold.
    #[error("{operand} must be small enough for this machine's memory, but is {size}")]
    TooLarge {
        /// Which operand.
        operand: String,
        /// How large it would be.
        size: String,
    },
    /// No unit has this name.
    #[error("no unit is called `{name}`{}", suggest(.suggestions))]
    UnknownUnit {
        /// The name asked for.
        name: String,
        /// The nearest names there are.
        suggestions: Vec<String>,
    },
    /// Several units have this name.
    #[error("`{name}` fits {} units; name one of them: {}", .fits.len(), some(.fits))]
    AmbiguousUnit {
        /// The name asked for.
        name: String,
        /// The canonical names it fits.
        fits: Vec<String>,
    },
    /// A name that is understood, of a unit this library does not model.
    #[error("`{name}`: {why}")]
    RefusedUnit {
        /// The name asked for.
        name: String,
        /// Why it is refused.
        why: String,
    },
    /// A text that cannot be read.
    #[error("`{text}` is no {what}: expected {expected}")]
    Parse {
        /// What it should have been.
        what: &'static str,
        /// The text.
        text: String,
        /// What was expected instead.
        expected: String,
    },
    /// Parameters of a custom unit that make no sense.
    #[error("this unit cannot be: {0}")]
    Unit(String),
    /// An operand's format is not the unit's.
    #[error("{operand} must be {expected}, but is {found}")]
    Format {
        /// Which operand.
        operand: &'static str,
        /// The unit's format.
        expected: &'static str,
        /// The operand's format.
        found: &'static str,
    },
    /// A format described by the caller is none.
    #[error("{operand} is of {format}, which is no format: {problem}")]
    InvalidFormat {
        /// What has it.
        operand: String,
        /// The format's name.
        format: &'static str,
        /// What [`FormatSpec::problem`](crate::format::FormatSpec::problem) says.
        problem: &'static str,
    },
    /// A value has no code in the format it is converted to.
    #[error("{operand}: {source}")]
    Encode {
        /// Which operand, and where in it.
        operand: String,
        /// Why.
        source: EncodeError,
    },
    /// A plan of a matrix product that cannot be.
    #[error("this plan cannot be: {0}")]
    Plan(String),
    /// A matrix product whose parts do not go together, or that is too large.
    #[error("this product cannot be: {0}")]
    Product(String),
    /// The caller asked a long product to stop.
    #[error("the product was cancelled")]
    Cancelled,
    /// An external program that does not do its part.
    #[error("`{command}` {why}")]
    Command {
        /// The command line.
        command: String,
        /// What it did, and what was expected.
        why: String,
    },
    /// A box that is too slow for the time it was given.
    #[error("no model in {limit:?}: the box gave {answers} answers in that time, and a model takes some ten thousand")]
    OutOfTime {
        /// The time it had.
        limit: std::time::Duration,
        /// The answers it gave.
        answers: u64,
    },
    /// A box that is no function: it answers the same input in different ways.
    #[error("the box is no function: asked `{input}` it answered {first:x}, and asked again {again:x}")]
    Inconsistent {
        /// The input.
        input: Box<crate::probe::Input>,
        /// The answer at first.
        first: u64,
        /// The answer to the same question later.
        again: u64,
    },
    /// A question that no solver can be asked, or a solver that does not do its part.
    #[error("solver: {0}")]
    Solver(String),
    /// Recorded data that cannot be read.
    #[error("{file}{}{}: {why}", .line.map_or(String::new(), |n| format!(":{n}")), .column.map_or(String::new(), |n| format!(":{n}")))]
    Data {
        /// The file, or `-` for standard input.
        file: String,
        /// The line, from 1.
        line: Option<usize>,
        /// The character within the line, from 1.
        column: Option<usize>,
        /// What is wrong and what was expected.
        why: String,
    },
}

/// Of a single value, as `E2M1::from_f64` and its like take one.
impl From<EncodeError> for Error {
    fn from(source: EncodeError) -> Self {
        Self::Encode { operand: "the value".into(), source }
    }
}

/// Of a line that is in no file; [`LineError::at`] names one.
impl From<LineError> for Error {
    fn from(error: LineError) -> Self {
        Self::Data { file: "a line".into(), line: None, column: Some(error.column), why: error.why }
    }
}

/// The first of many names.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let first = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first}, and {more} more") }
}

fn suggest(names: &[String]) -> String {
    if names.is_empty() {
        "; `gemmulate units` (in Rust `Unit::all`) lists them".into()
    } else {
        format!("; the nearest names are {}", names.join(", "))
    }
}

impl Error {
    /// A text that could not be read.
    pub(crate) fn parse(what: &'static str, text: &str, expected: impl Into<String>) -> Self {
        Self::Parse { what, text: text.into(), expected: expected.into() }
    }

    /// An operand of the wrong shape.
    pub(crate) fn shape(operand: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Shape { operand: operand.into(), expected: expected.into(), found: found.into() }
    }

    /// A value out of its range.
    pub(crate) fn value(operand: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Value { operand: operand.into(), expected: expected.into(), found: found.into() }
    }
}
