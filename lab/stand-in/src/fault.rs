//! What ends a kernel.

use std::fmt;

/// A kernel did what a GPU would not allow, or what the stand-in does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(String);

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same with the statement it happened at.
    pub(crate) fn at(self, statement: &str) -> Self {
        Self(format!("{} (at `{statement}`)", self.0))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
