//! What a unit under test looks like from outside: formats, K, and answers to inputs.

use crate::error::Error;
use crate::format::FormatSpec;
use crate::instr::{ScaleRule, Shape};
use crate::unit::{Unit, check_operands};
use crate::vectors::Evaluator;
pub use crate::vectors::Input;

/// What one knows of a black box before asking it anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Products per dot-add.
    pub k: usize,
    /// Format of A.
    pub a: FormatSpec,
    /// Format of B.
    pub b: FormatSpec,
    /// Format of C.
    pub c: FormatSpec,
    /// Format of D.
    pub d: FormatSpec,
    /// How scales are taken, if they are.
    pub scale: Option<ScaleRule>,
}

/// Products of a dot-add that is questioned, at most: instructions have up to 128.
const MOST_PRODUCTS: usize = 2048;

impl Interface {
    /// Scales per operand; 0 without block scales.
    pub fn scales(&self) -> usize {
        self.scale.map_or(0, |s| self.k / s.block.max(1))
    }

    /// Refuses what no unit can have, and more products than questions about them can be held of: functions that
    /// question a box ask this first.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_operands(self.k, &[self.a, self.b, self.c, self.d], self.scale)?;
        if self.k > MOST_PRODUCTS {
            let expected =
                format!("at most {MOST_PRODUCTS}, for questions about pairs of products take memory by its square");
            return Err(Error::value("K of a unit or command that is questioned", expected, self.k.to_string()));
        }
        Ok(())
    }

    /// Whether a recipe is one for these formats: its accumulator may be asked without a unit.
    pub(crate) fn accepts(&self, recipe: &crate::accumulate::Recipe) -> bool {
        let Self { k, a, b, c, d, scale } = *self;
        let signature = crate::accumulate::Signature { k, a, b, c, d, scale: scale.map(|s| s.format) };
        crate::accumulate::Accumulator::check(recipe, &signature).is_ok()
    }

    /// A unit with this interface (one dot-add: M = N = 1) that computes what `recipe` says.
    ///
    /// # Errors
    /// When the recipe refuses the formats.
    pub fn unit(&self, recipe: crate::accumulate::Recipe) -> Result<Unit, Error> {
        let formats = [self.a, self.b, self.c, self.d];
        Unit::custom(recipe, Shape { m: 1, n: 1, k: self.k }, formats, self.scale)
    }
}

/// A unit whose inside is unknown: it answers dot-adds on codes.
///
/// Implemented for every [`Unit`] and for external commands
/// ([`Command`](crate::probe::Command)).
pub trait BlackBox {
    /// Formats, K and scales.
    fn interface(&self) -> Interface;

    /// One answer per input, in order. Ask in large batches: a batch may be one round trip to
    /// another machine.
    ///
    /// # Errors
    /// When the box fails to answer, with the reason.
    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error>;
}

/// A box made of a function: see [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F> {
    interface: Interface,
    dot_add: F,
}

/// A black box that answers by a function of a dot-add's codes.
///
/// ```
/// use gemmulate::{format::{F16, F32}, probe};
/// // Two products and c, added one after the other in f32.
/// let interface = probe::Interface { k: 2, a: F16, b: F16, c: F32, d: F32, scale: None };
/// let mut mine = probe::from_fn(interface, |x| {
///     let product = |k: usize| (F16.to_f64(x.a[k]) * F16.to_f64(x.b[k])) as f32;
///     let d = f32::from_bits(x.c as u32) + product(0) + product(1);
///     d.to_bits().into()
/// });
/// assert_eq!(probe::SummationTree::find(&mut mine)?.to_string(), "((c + p0) + p1)");
/// # Ok::<(), probe::NoTree>(())
/// ```
pub const fn from_fn<F: FnMut(&Input) -> u64>(interface: Interface, dot_add: F) -> FromFn<F> {
    FromFn { interface, dot_add }
}

impl<F: FnMut(&Input) -> u64> BlackBox for FromFn<F> {
    fn interface(&self) -> Interface {
        self.interface
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        Ok(inputs.iter().map(&mut self.dot_add).collect())
    }
}

/// The answers of a box, one per input and none wider than d: an implementation that gives others is told so.
pub(super) fn ask(target: &mut dyn BlackBox, inputs: &[Input]) -> Result<Vec<u64>, Error> {
    let answers = target.dot_adds(inputs)?;
    if answers.len() != inputs.len() {
        let expected = format!("{}, as many as the inputs", inputs.len());
        return Err(Error::value("the number of answers of a box", expected, answers.len().to_string()));
    }
    let d = target.interface().d;
    match answers.iter().find(|d_code| **d_code & !d.code_mask() != 0) {
        Some(wide) => Err(Error::value("an answer of a box", format!("a code of {d}"), format!("{wide:x}"))),
        None => Ok(answers),
    }
}

impl BlackBox for Unit {
    fn interface(&self) -> Interface {
        Interface { k: self.shape.k, a: self.a, b: self.b, c: self.c, d: self.d, scale: self.scale }
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        if inputs.len() < WORTH_A_KERNEL {
            return inputs.iter().map(|x| x.eval(self)).collect();
        }
        let mut d = Vec::with_capacity(inputs.len());
        Evaluator::new(self).eval_all(inputs, &mut d)?;
        Ok(d)
    }
}

/// Inputs for which a unit's kernel is worth preparing: not the few that shrinking and confirming ask at a time, which
/// the reference answers.
const WORTH_A_KERNEL: usize = 200;

impl<B: BlackBox + ?Sized> BlackBox for &mut B {
    fn interface(&self) -> Interface {
        (**self).interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        (**self).dot_adds(inputs)
    }
}

impl BlackBox for Box<dyn BlackBox> {
    fn interface(&self) -> Interface {
        (**self).interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        (**self).dot_adds(inputs)
    }
}
