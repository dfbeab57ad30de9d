//! Vectors one after another, on one unit.

use super::Input;
use crate::error::Error;
use crate::gemm::kernel::{Kernel, Lanes, Line, Panel, exact_step};
use crate::simd::{self, Short};
use crate::unit::Unit;
use std::sync::Arc;

/// Evaluates many vectors on one unit: [`Input::eval`], several times as fast where there is a kernel for the unit.
///
/// ```
/// use gemmulate::{Unit, vectors::{Evaluator, Generator}};
/// let unit = Unit::find("ampere/mma.m16n8k16.f32.f16.f16.f32")?;
/// let mut evaluator = Evaluator::new(&unit);
/// for vector in Generator::new(&unit, 1).take(20) {
///     assert_eq!(evaluator.eval(&vector.input)?, vector.eval(&unit)?);
/// }
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Debug)]
pub struct Evaluator {
    unit: Unit,
    kernel: Option<Arc<dyn Kernel>>,
    /// A row of A and a column of B.
    packed: Box<[Short; 2]>,
    /// The same for kernels that know nothing but panels.
    operands: [Panel; 2],
}

impl Evaluator {
    /// Prepares for a unit.
    pub fn new(unit: &Unit) -> Self {
        let operands = [unit.a, unit.b].map(|format| Panel::line(unit.shape.k, format.storage_bits));
        Self { unit: unit.clone(), kernel: simd::select_single(unit), packed: Box::default(), operands }
    }

    /// The unit's d.
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn eval(&mut self, input: &Input) -> Result<u64, Error> {
        let (k, blocks) = (self.unit.shape.k, self.unit.scales());
        let lines = [(&input.a, &input.scale_a), (&input.b, &input.scale_b)];
        let fits = lines.iter().all(|(codes, scales)| codes.len() == k && scales.len() == blocks);
        let Some(kernel) = self.kernel.as_ref().filter(|_| fits) else { return input.eval(&self.unit) };
        let (c, lines) = (input.c, lines.map(|(codes, scales)| Line { codes, scales }));
        if let Some(d) = kernel.single(lines, &mut self.packed, c) {
            return Ok(d);
        }
        for (panel, line) in self.operands.iter_mut().zip(lines) {
            panel.codes.fill(line.codes);
            panel.scales.clear();
            panel.scales.extend(line.scales.iter().map(|&code| code as u8));
        }
        let [a, b] = &mut self.operands;
        kernel.pack_a(a);
        kernel.pack_b(b);
        Ok(product(&**kernel, &self.unit, [a, b], c))
    }
}

/// One step of a packed row and column, from c.
fn product(kernel: &dyn Kernel, unit: &Unit, [a, b]: [&Panel; 2], c: u64) -> u64 {
    let exact = |i: usize, j: usize, s: usize, c: u64| exact_step(unit, a, b, [i, j], s, c);
    if unit.d.storage_bits > 32 {
        let mut d = [c];
        kernel.run(a, b, 0..1, Lanes::Wide(&mut d), &exact);
        return d[0];
    }
    let mut d = [c as u32];
    kernel.run(a, b, 0..1, Lanes::Narrow(&mut d), &exact);
    d[0].into()
}
