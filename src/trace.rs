//! What happens inside a dot-add, as a list of events: [`vectors::draw`](crate::vectors::draw) draws them for people,
//! and [`Gemm::trace`](crate::Gemm::trace) all of an element of a product.

use crate::num::{Fixed, Num, Term};
use core::fmt;

/// What a term is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// The product of that k.
    Product(usize),
    /// The addend c, or the d of the step before.
    Addend,
    /// Anything else.
    Text(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(k) => f.pad(&format!("a{k}*b{k}")),
            Self::Addend => f.pad("c"),
            Self::Text(text) => f.pad(text),
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A new step of a chain begins: a whole dot-add, whose c is the d of the step before.
    Step {
        /// Which step.
        text: String,
        /// The k of the products that it takes, in its order.
        ks: Vec<usize>,
    },
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
        /// Which term.
        label: Label,
        /// The exact term.
        term: Term,
        /// What enters the sum.
        aligned: Fixed,
        /// The exponent of the last bit that alignment keeps.
        unit: i32,
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
        /// The exact addends that were summed and rounded once; none if a special value decided.
        terms: Vec<(String, Term)>,
        /// Its result.
        value: Num,
    },
    /// Anything else worth saying.
    Note(String),
}

impl Event {
    /// An IEEE operation on finite addends, or on special ones that are then left out.
    pub(crate) fn operation<const N: usize>(text: impl Into<String>, terms: [(&str, Term); N], value: Num) -> Self {
        let terms = if value.is_finite() { terms.map(|(name, term)| (name.into(), term)).into() } else { Vec::new() };
        Self::Operation { text: text.into(), terms, value }
    }

    /// A term that enters a sum whole.
    pub(crate) fn whole_term(label: Label, term: &Term) -> Self {
        let aligned = term.fixed();
        Self::Term { label, term: *term, aligned, unit: aligned.exponent, cut: false }
    }
}

/// The events of one dot-add, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The events. Their products are numbered by the k of the whole dot-add.
    pub events: Vec<Event>,
    /// The k of the products of the current step; empty outside of steps.
    step: Vec<usize>,
}

impl Trace {
    /// Appends an event, whose products are numbered within the current step.
    pub fn push(&mut self, mut event: Event) {
        match &mut event {
            Event::Step { ks, .. } => self.step.clone_from(ks),
            Event::Term { label: Label::Product(k), .. } => *k = self.step.get(*k).copied().unwrap_or(*k),
            _ => {}
        }
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
