//! Vectors one after another, on one unit.

use super::Vector;
use crate::accumulate::Direct;
use crate::error::Error;
use crate::unit::Unit;

/// Evaluates many vectors on one unit: [`Vector::eval`], several times as fast where the unit is a fused dot-add.
///
/// ```
/// use gemmulate::{Unit, vectors::{Evaluator, Generator}};
/// let unit = Unit::find("ampere/mma.m16n8k16.f32.f16.f16.f32")?;
/// let mut evaluator = Evaluator::new(&unit);
/// for vector in Generator::new(&unit, 1).take(20) {
///     assert_eq!(evaluator.eval(&vector)?, vector.eval(&unit)?);
/// }
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Evaluator {
    unit: Unit,
    direct: Option<Direct>,
}

impl Evaluator {
    /// Prepares for a unit.
    pub fn new(unit: &Unit) -> Self {
        Self { unit: unit.clone(), direct: Direct::new(unit) }
    }

    /// The unit's d.
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn eval(&mut self, vector: &Vector) -> Result<u64, Error> {
        let Vector { a, b, c, scale_a, scale_b, .. } = vector;
        let direct = self.direct.as_mut().and_then(|direct| direct.dot_add([a, b], *c, [scale_a, scale_b]));
        direct.map_or_else(|| vector.eval(&self.unit), Ok)
    }
}
