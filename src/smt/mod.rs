//! Proofs: units as bit-vector functions, for a solver.
//!
//! [`export`] writes what a unit computes as an SMT-LIB 2 function from codes to a code (logic QF_BV):
//! every operand, special values and subnormals included. [`diff()`] asks a solver (z3 or cvc5, run
//! as a process: [`Solver`]) for an input on which two units differ, or proves that there is none;
//! [`Question`] puts the questions of Valpey et al. to a unit. Every input that a solver finds is
//! evaluated by the library, which must give the same bits.
//!
//! `docs/proofs.md` describes the encoding and holds the answers.

mod ask;
mod diff;
mod encode;
mod groups;
mod ieee;
mod number;
mod query;
mod round_down;
mod solver;
mod sum;
mod term;

pub use ask::{Evaluation, Finding, Outcome, Question};
pub use diff::{Verdict, diff};
pub use solver::{SOLVERS, Solver};

use crate::error::Error;
use crate::probe::{BlackBox, Input};
use crate::unit::Unit;
use encode::Inner;
use query::Subject;
use term::sort;

/// A unit's function as SMT-LIB 2 text: `(define-fun NAME ((a0 ..) .. (b0 ..) .. (c ..)) .. )`, with
/// block scales `sa0 ..`, `sb0 ..` at the end where there are any.
///
/// ```
/// use gemmulate::{Unit, smt};
/// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
/// let text = smt::export(&unit, "dot_add")?;
/// assert!(text.starts_with("(define-fun dot_add ((a0 (_ BitVec 16))"));
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When the unit's recipe has no encoding.
pub fn export(unit: &Unit, name: &str) -> Result<String, Error> {
    let (body, width) = Subject::of(unit)?.model.expression(Inner::Result)?;
    let operands = query::parameters(&unit.interface());
    let operands: Vec<String> = operands.iter().map(|(name, width)| format!("({name} {})", sort(*width))).collect();
    Ok(format!("(define-fun {name} ({}) {}\n{body})\n", operands.join(" "), sort(width)))
}

/// The same, of constants: operands are declared as `a0 ..`, `b0 ..`, `c`, and the result is defined as `NAME`, to be
/// constrained by further assertions. z3 4.8 reads this at once, where an application of [`export`]'s function can take
/// it a minute and more (z3 5.4 and cvc5 read either).
///
/// ```
/// use gemmulate::{Unit, smt};
/// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
/// let text = smt::export_constants(&unit, "d")?;
/// assert!(text.starts_with("(declare-const a0 (_ BitVec 16))"));
/// assert!(text.contains("(define-fun d () (_ BitVec 32)"));
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When the unit's recipe has no encoding.
pub fn export_constants(unit: &Unit, name: &str) -> Result<String, Error> {
    let (body, width) = Subject::of(unit)?.model.expression(Inner::Result)?;
    let operands = query::parameters(&unit.interface()).into_iter();
    let operands: String = operands.map(|(name, width)| format!("(declare-const {name} {})\n", sort(width))).collect();
    Ok(format!("{operands}(define-fun {name} () {}\n{body})\n", sort(width)))
}

/// What a solver computes for a unit's exported function, one result per input.
///
/// # Errors
/// When the unit has no encoding, or the solver fails.
pub fn evaluate(unit: &Unit, inputs: &[Input], solver: &Solver) -> Result<Vec<u64>, Error> {
    query::evaluate(&Subject::of(unit)?, inputs, solver)
}
