//! NaNs that no rule of the library gives: a processor's own, or one that keeps an operand's bits.

use super::super::black_box::{BlackBox, Input, Interface, ask};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::special::NanRule;

/// A box whose unknown NaNs are answered as the library's quiet one, so that the rest of it can be fitted.
pub(super) struct KnownNans<'a> {
    target: &'a mut dyn BlackBox,
    /// The first unknown code for NaN.
    pub(super) unknown: Option<u64>,
}

impl<'a> KnownNans<'a> {
    pub(super) fn new(target: &'a mut dyn BlackBox) -> Self {
        Self { target, unknown: None }
    }
}

fn is_unknown(d: &FormatSpec, code: u64) -> bool {
    let rules = [NanRule::Quiet, NanRule::AllOnes].map(|rule| d.nan_code(rule));
    d.decode(code).is_nan() && !rules.contains(&Some(code))
}

impl BlackBox for KnownNans<'_> {
    fn interface(&self) -> Interface {
        self.target.interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let (d, mut answers) = (self.interface().d, ask(self.target, inputs)?);
        self.unknown = self.unknown.or_else(|| answers.iter().copied().find(|&code| is_unknown(&d, code)));
        if let (Some(_), Some(quiet)) = (self.unknown, d.nan_code(NanRule::Quiet)) {
            answers.iter_mut().filter(|code| d.decode(**code).is_nan()).for_each(|code| *code = quiet);
        }
        Ok(answers)
    }
}
