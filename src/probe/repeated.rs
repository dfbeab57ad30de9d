//! What every other question takes for granted: that a box answers the same input always in the same way, and in time.

use super::black_box::{BlackBox, Input, Interface, ask};
use crate::error::Error;
use std::time::{Duration, Instant};

/// A box whose first inputs, and any others that matter, are asked twice.
pub(super) struct Repeated<'a> {
    target: &'a mut dyn BlackBox,
    /// Inputs still to be asked twice.
    left: usize,
    /// How long it is asked, if that is limited.
    limit: Option<Limit>,
}

/// A box may take a microsecond or a second an answer: what it is asked at once follows from the time it took before.
#[derive(Clone, Copy, Debug)]
struct Limit {
    time: Duration,
    deadline: Instant,
    /// Inputs of the next round trip.
    portion: usize,
    answered: u64,
}

/// Inputs asked twice: enough to meet one wrong bit in a thousand answers.
const TWICE: usize = 4000;

/// Inputs of the first round trip of a box whose time is limited.
const FIRST: usize = 64;

/// A round trip may take this part of the time that is left.
const PART: u32 = 16;

impl Limit {
    /// After a round trip of that many inputs.
    fn took(&mut self, inputs: usize, time: Duration, left: Duration) {
        self.answered += inputs as u64;
        let due = left / PART;
        if time > due {
            self.portion = (inputs / 2).max(1);
        } else if time < due / 2 {
            self.portion = self.portion.max(2 * inputs);
        }
    }
}

impl<'a> Repeated<'a> {
    pub(super) fn new(target: &'a mut dyn BlackBox) -> Self {
        Self { target, left: TWICE, limit: None }
    }

    /// A box that is asked nothing more after the deadline.
    pub(super) fn until(target: &'a mut dyn BlackBox, time: Duration, deadline: Instant) -> Self {
        let limit = Limit { time, deadline, portion: FIRST, answered: 0 };
        Self { limit: Some(limit), ..Self::new(target) }
    }

    /// Gives the box some more time.
    pub(super) fn extend(&mut self, deadline: Instant) {
        if let Some(limit) = &mut self.limit {
            limit.deadline = limit.deadline.max(deadline);
        }
    }

    /// The answers to as many of the inputs, from the first, as there is time for.
    fn in_time(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        match self.limit {
            Some(limit) => self.until_then(inputs, limit.deadline),
            None => self.answer(inputs),
        }
    }

    /// The answers to as many of the inputs, from the first, as there is time for until then, if time is limited.
    pub(super) fn until_then(&mut self, inputs: &[Input], then: Instant) -> Result<Vec<u64>, Error> {
        let Some(mut limit) = self.limit else { return self.answer(inputs) };
        let then = then.min(limit.deadline);
        let mut answers = Vec::with_capacity(inputs.len());
        while answers.len() < inputs.len() {
            let start = Instant::now();
            if start > then {
                break;
            }
            let left = &inputs[answers.len()..];
            let portion = &left[..limit.portion.min(left.len())];
            answers.extend(self.answer(portion)?);
            limit.took(portion.len(), start.elapsed(), then.saturating_duration_since(start));
        }
        self.limit = Some(limit);
        Ok(answers)
    }

    /// All answers, the first of them asked for twice.
    fn answer(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let answers = ask(self.target, inputs)?;
        let twice = self.left.min(inputs.len());
        self.left -= twice;
        self.confirm(&inputs[..twice], &answers)?;
        Ok(answers)
    }

    /// Asks inputs again; an error if an answer is another one than it was.
    pub(super) fn confirm(&mut self, inputs: &[Input], answers: &[u64]) -> Result<(), Error> {
        if inputs.is_empty() {
            return Ok(());
        }
        let again = ask(self.target, inputs)?;
        let answers = inputs.iter().zip(answers).zip(again);
        let Some(((input, &first), again)) = answers.into_iter().find(|((_, first), again)| *first != again) else {
            return Ok(());
        };
        self.refuse_babble()?;
        Err(Error::Inconsistent { input: Box::new(input.clone()), first, again })
    }

    /// An error if the box says more than it was asked: its answers then were to other questions.
    pub(super) fn refuse_babble(&mut self) -> Result<(), Error> {
        self.target.dot_adds(&[]).map(drop)
    }
}

impl BlackBox for Repeated<'_> {
    fn interface(&self) -> Interface {
        self.target.interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let answers = self.in_time(inputs)?;
        match self.limit {
            Some(Limit { time, answered, .. }) if answers.len() < inputs.len() => {
                Err(Error::OutOfTime { limit: time, answers: answered })
            }
            _ => Ok(answers),
        }
    }
}
