//! `wgmma.mma_async` (9.7.15.5). Results appear when `wgmma.wait_group` says so and no earlier; until then the
//! registers of D hold nothing useful.

use super::fragments::d_wgmma;
use super::shared_matrix::{Descriptor, Packing};
use super::{Catalogue, Side, multiply, operand};
use crate::Fault;
use crate::block::Registers;
use crate::memory::{POISON, Shared};
use crate::ptx::{Argument, Operand};
use gemmulate::Unit;
use std::collections::HashMap;

/// One instruction in flight.
#[derive(Debug)]
struct Pending {
    unit: Unit,
    registers: Vec<usize>,
    a: Descriptor,
    b: Descriptor,
    accumulate: bool,
}

/// What a warpgroup has in flight.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    fenced: bool,
    open: Vec<Pending>,
    committed: Vec<Vec<Pending>>,
    /// The accumulators in flight: of a lane and register.
    values: HashMap<(usize, usize), u64>,
}

impl Warpgroup {
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.committed.is_empty()
    }

    pub(crate) fn execute(
        &mut self,
        parts: &[&str],
        operands: &[Argument],
        lanes: &[usize],
        catalogue: &mut Catalogue,
        registers: &mut Registers,
        shared: &Shared,
    ) -> Result<(), Fault> {
        match parts {
            ["wgmma", "fence", "sync", "aligned"] => self.fenced = true,
            ["wgmma", "commit_group", "sync", "aligned"] => self.committed.push(std::mem::take(&mut self.open)),
            ["wgmma", "wait_group", "sync", "aligned"] => {
                let Argument::One(Operand::Constant(left)) = operand(operands, 0)? else {
                    return Err(Fault::new("wait_group takes a constant"));
                };
                let done = self.committed.len().saturating_sub(*left as usize);
                let groups: Vec<_> = self.committed.drain(..done).collect();
                for pending in groups.into_iter().flatten() {
                    self.complete(&pending, lanes, registers, shared)?;
                }
                // What follows may touch the accumulators: the next mma_async needs a fence again.
                self.fenced = false;
            }
            ["wgmma", "mma_async", "sync", "aligned", shape, d, a, b] => {
                let unit = catalogue.find(&format!("wgmma.{shape}.{d}.{a}.{b}"))?;
                self.issue(unit, operands, lanes, registers)?;
            }
            _ => return Err(Fault::new("this wgmma is not supported")),
        }
        Ok(())
    }

    /// Operands: d, a-desc, b-desc, scale-d, imm-scale-a, imm-scale-b [, imm-trans-a, imm-trans-b].
    fn issue(
        &mut self,
        unit: Unit,
        operands: &[Argument],
        lanes: &[usize],
        registers: &mut Registers,
    ) -> Result<(), Fault> {
        if !self.fenced {
            return Err(Fault::new("wgmma.mma_async without wgmma.fence before it"));
        }
        let one = |at: usize| match operand(operands, at)? {
            Argument::One(one) => registers.uniform(*one, lanes),
            _ => Err(Fault::new("only descriptors in one register are supported")),
        };
        let (a, b) = (Descriptor::wgmma(one(1)?)?, Descriptor::wgmma(one(2)?)?);
        let accumulate = one(3)? & 1 == 1;
        let transposed = operands.len() == 8 && (one(6)? != 0 || one(7)? != 0);
        if one(4)? != 1 || one(5)? != 1 || transposed {
            return Err(Fault::new("negated or transposed operands are not supported"));
        }
        let Argument::Vector(d) = operand(operands, 0)? else { return Err(Fault::new("D must be a vector")) };
        let mut taken = Vec::new();
        for &part in d {
            let Operand::Register(register) = part else { return Err(Fault::new("D must be registers")) };
            if taken.contains(&register) {
                return Err(Fault::new("a register stands twice in D"));
            }
            taken.push(register);
            for &lane in lanes {
                let value = registers.value(part, lane);
                self.values.entry((lane, register)).or_insert(value);
                registers.set(register, lane, u64::from_le_bytes([POISON; 8]) & u64::from(u32::MAX));
            }
        }
        self.open.push(Pending { unit, registers: taken, a, b, accumulate });
        Ok(())
    }

    fn complete(
        &mut self,
        pending: &Pending,
        lanes: &[usize],
        registers: &mut Registers,
        shared: &Shared,
    ) -> Result<(), Fault> {
        let unit = &pending.unit;
        let (m, n, k) = (unit.shape.m, unit.shape.n, unit.shape.k);
        let side = |from: Descriptor, bits: u32, rows| {
            let codes = from.read(shared, Packing::Dense(bits as usize), rows, k)?;
            Ok::<_, Fault>(Side { codes, scales: Vec::new() })
        };
        // Row n of the matrix in memory is column n of B.
        let (a, b) = (side(pending.a, unit.a.storage_bits, m)?, side(pending.b, unit.b.storage_bits, n)?);
        let d_bits = unit.d.storage_bits;
        let per_register = if d_bits == 16 { 2 } else { 1 };
        if pending.registers.len() * per_register != n / 2 {
            return Err(Fault::new("D has the wrong number of registers"));
        }
        let mut c = vec![0; m * n];
        let places = || lanes.iter().enumerate().flat_map(|(at, &lane)| (0..n / 2).map(move |i| (at, lane, i)));
        for (at, lane, i) in places().filter(|_| pending.accumulate) {
            let (row, column) = d_wgmma(at, i);
            let word = self.values[&(lane, pending.registers[i / per_register])];
            c[row * n + column] = word >> ((i % per_register) as u32 * d_bits) & (u64::MAX >> (64 - d_bits));
        }
        let d = multiply(unit, &a, &b, &c)?;
        for (at, lane, i) in places() {
            let (row, column) = d_wgmma(at, i);
            let register = pending.registers[i / per_register];
            let word = self.values.entry((lane, register)).or_default();
            let shift = (i % per_register) as u32 * d_bits;
            *word = *word & !(u64::MAX >> (64 - d_bits) << shift) | d[row * n + column] << shift;
            registers.set(register, lane, *word);
        }
        self.release(pending, lanes, registers);
        Ok(())
    }

    /// Forgets accumulators that nothing in flight uses any more; others are still in flight.
    fn release(&mut self, done: &Pending, lanes: &[usize], registers: &mut Registers) {
        let in_flight = |register: &usize| {
            self.committed.iter().flatten().chain(&self.open).any(|pending| pending.registers.contains(register))
        };
        let (busy, free): (Vec<usize>, Vec<usize>) = done.registers.iter().partition(|register| in_flight(register));
        for &lane in lanes {
            for register in &free {
                self.values.remove(&(lane, *register));
            }
            for &register in &busy {
                registers.set(register, lane, u64::from_le_bytes([POISON; 8]) & u64::from(u32::MAX));
            }
        }
    }
}
