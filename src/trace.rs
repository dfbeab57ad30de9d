//! What happens inside a dot-add, as a list of events a person can read.

use crate::num::{Fixed, Num, Term};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A new step of a chain begins; the text says which.
    Step(String),
    /// An operand decided the result alone (NaN or infinity).
    Special(String),
    /// The exponent that all terms are aligned to, and the weight `2^unit` of the last bit kept.
    Align {
        /// The largest exponent.
        e_max: i32,
        /// The exponent of the last bit that alignment keeps.
        unit: i32,
    },
    /// A term and what alignment left of it.
    Term {
        /// Which term: `a3*b3`, `c`.
        label: String,
        /// The exact term.
        term: Term,
        /// What enters the sum.
        aligned: Fixed,
        /// Whether alignment changed the value.
        cut: bool,
    },
    /// The sum, before it is rounded to the output format.
    Sum(Fixed),
    /// An intermediate or final result, after rounding; the text says how.
    Rounded {
        /// The rounding, as a person would say it.
        how: String,
        /// The rounded number.
        value: Num,
    },
    /// An IEEE operation and its result.
    Operation {
        /// The operation, like `fma(a0, b0, d)`.
        text: String,
        /// Its result.
        value: Num,
    },
    /// Anything else worth saying.
    Note(String),
}

/// The events of one dot-add, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The events.
    pub events: Vec<Event>,
}

impl Trace {
    /// Appends an event.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Who listens to a running dot-add: nobody (`()`, at no cost) or a [`Trace`].
pub(crate) trait Observer {
    fn see(&mut self, event: impl FnOnce() -> Event);
}

impl Observer for () {
    #[inline]
    fn see(&mut self, _event: impl FnOnce() -> Event) {}
}

impl Observer for Trace {
    fn see(&mut self, event: impl FnOnce() -> Event) {
        self.push(event());
    }
}
