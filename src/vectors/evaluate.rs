//! Vectors one after another, on one unit.

use super::Input;
use crate::error::Error;
use crate::gemm::kernel::{Kernel, Lanes, Line, Panel, exact_step};
use crate::simd::{self, Columns, Isa, NR, Short};
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
    /// Rows of A and columns of B that are evaluated together.
    columns: Box<[Columns; 2]>,
    /// The same for kernels that know nothing but panels.
    operands: [Panel; 2],
}

impl Evaluator {
    /// Prepares for a unit.
    pub fn new(unit: &Unit) -> Self {
        Self::with(unit, None)
    }

    /// The same, held back to an instruction set and what comes after it in [`Isa::ALL`], as [`crate::Gemm::isa`] does.
    pub fn on(unit: &Unit, isa: Isa) -> Self {
        Self::with(unit, Some(isa))
    }

    fn with(unit: &Unit, isa: Option<Isa>) -> Self {
        let operands = [unit.a, unit.b].map(|format| Panel::line(unit.shape.k, format.storage_bits));
        Self {
            unit: unit.clone(),
            kernel: simd::select_single(unit, isa),
            packed: Box::default(),
            columns: Box::default(),
            operands,
        }
    }

    /// The unit's d.
    ///
    /// # Errors
    /// When an operand's length is not the unit's.
    pub fn eval(&mut self, input: &Input) -> Result<u64, Error> {
        let Some(kernel) = self.kernel.as_ref().filter(|_| fits(&self.unit, input)) else {
            return input.eval(&self.unit);
        };
        let (c, lines) = (input.c, lines(input));
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

    /// The unit's d of each vector in turn, appended to `d`: [`Evaluator::eval`], up to four times as fast where the
    /// unit's kernel evaluates vectors side by side.
    ///
    /// ```
    /// use gemmulate::{Unit, vectors::{Evaluator, Generator, Input}};
    /// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
    /// let inputs: Vec<Input> = Generator::new(&unit, 1).take(20).map(|vector| vector.input).collect();
    /// let mut d = Vec::new();
    /// Evaluator::new(&unit).eval_all(&inputs, &mut d)?;
    /// assert_eq!(d[7], inputs[7].eval(&unit)?);
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    ///
    /// # Errors
    /// When an operand's length is not the unit's; `d` then has what came before.
    pub fn eval_all<'a>(&mut self, inputs: impl IntoIterator<Item = &'a Input>, d: &mut Vec<u64>) -> Result<(), Error> {
        let (mut inputs, mut few) = (inputs.into_iter().peekable(), Vec::with_capacity(NR));
        while inputs.peek().is_some() {
            few.clear();
            few.extend(inputs.by_ref().take(NR));
            self.eval_few(&few, d)?;
        }
        Ok(())
    }

    /// The same of at most `NR` vectors, and at least one.
    fn eval_few(&mut self, inputs: &[&Input], d: &mut Vec<u64>) -> Result<(), Error> {
        let worth_it = inputs.len() >= FEW && inputs.iter().all(|input| fits(&self.unit, input));
        if let Some(kernel) = self.kernel.as_ref().filter(|_| worth_it) {
            // The last one once more in lanes that nobody asked for, so that these take no other way than the rest.
            let input = |j: usize| inputs[j.min(inputs.len() - 1)];
            let (a, b) = (core::array::from_fn(|j| lines(input(j))[0]), core::array::from_fn(|j| lines(input(j))[1]));
            let mut state = core::array::from_fn(|j| input(j).c);
            if kernel.several([&a, &b], &mut self.columns, &mut state) {
                d.extend(&state[..inputs.len()]);
                return Ok(());
            }
        }
        for input in inputs {
            d.push(self.eval(input)?);
        }
        Ok(())
    }
}

/// Vectors from which on evaluating them side by side is faster.
const FEW: usize = 10;

/// Whether operands have the unit's lengths.
fn fits(unit: &Unit, input: &Input) -> bool {
    let (k, blocks) = (unit.shape.k, unit.scales());
    let lines = [(&input.a, &input.scale_a), (&input.b, &input.scale_b)];
    lines.iter().all(|(codes, scales)| codes.len() == k && scales.len() == blocks)
}

/// A vector's row of A and column of B.
fn lines(input: &Input) -> [Line<'_>; 2] {
    [(&input.a, &input.scale_a), (&input.b, &input.scale_b)].map(|(codes, scales)| Line { codes, scales })
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
