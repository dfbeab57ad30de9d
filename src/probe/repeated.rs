//! What every other question takes for granted: that a box answers the same input always in the same way.

use super::black_box::{BlackBox, Input, Interface, ask};
use crate::error::Error;

/// A box whose first inputs, and any others that matter, are asked twice.
pub(super) struct Repeated<'a> {
    target: &'a mut dyn BlackBox,
    /// Inputs still to be asked twice.
    left: usize,
}

/// Inputs asked twice: enough to meet one wrong bit in a thousand answers.
const TWICE: usize = 4000;

impl<'a> Repeated<'a> {
    pub(super) fn new(target: &'a mut dyn BlackBox) -> Self {
        Self { target, left: TWICE }
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
        let answers = ask(self.target, inputs)?;
        let twice = self.left.min(inputs.len());
        self.left -= twice;
        self.confirm(&inputs[..twice], &answers)?;
        Ok(answers)
    }
}
