//! `tcgen05` and the `mbarrier` that tells of its completion (9.7.16, 9.7.13.15). Stores to tensor memory, loads from
//! it and matrix instructions take effect when the kernel waited for them, and no earlier.

mod instruction;

use super::tensor_memory::{FRESH, TensorMemory, split};
use super::{Catalogue, groups, operand};
use crate::Fault;
use crate::block::{Flow, Registers};
use crate::memory::Shared;
use crate::ptx::{Address, Argument, Operand};
use instruction::Mma;
use std::collections::{HashMap, VecDeque};

/// 9.7.13.15.2: a phase completes when as many arrivals as expected came.
#[derive(Debug)]
struct Mbarrier {
    expected: u64,
    pending: u64,
    phase: u64,
}

/// What the tensor core works through in order.
#[derive(Debug)]
enum Work {
    Mma(Box<Mma>),
    Arrive(u64),
}

/// A block's tensor memory and what is under way.
#[derive(Debug, Default)]
pub(crate) struct Tensor {
    memory: TensorMemory,
    barriers: HashMap<u64, Mbarrier>,
    work: VecDeque<Work>,
    /// Of a warp: stores as (lane, column, value), loads as (register, thread, value).
    stores: HashMap<usize, Vec<(usize, usize, u32)>>,
    loads: HashMap<usize, Vec<(usize, usize, u32)>>,
}

impl Tensor {
    pub(crate) fn execute(
        &mut self,
        parts: &[&str],
        operands: &[Argument],
        lanes: &[usize],
        catalogue: &mut Catalogue,
        registers: &mut Registers,
        shared: &mut Shared,
    ) -> Result<Flow, Fault> {
        match parts[..2] {
            ["mbarrier", "init"] => {
                for &lane in lanes {
                    let (at, count) = (address(operands, 0, lane, registers)?, value(operands, 1, lane, registers)?);
                    shared.write(at, 8, lane)?;
                    self.barriers.insert(at, Mbarrier { expected: count, pending: count, phase: 0 });
                }
            }
            ["mbarrier", "try_wait" | "test_wait"] => return self.try_wait(parts, operands, lanes, registers),
            // Fences order what runs in order here; that they are there is not checked.
            ["tcgen05", "fence::before_thread_sync" | "fence::after_thread_sync"] => {}
            ["tcgen05", "mma"] => {
                let lane = single(lanes)?;
                self.work.push_back(Work::Mma(Box::new(Mma::parse(parts, operands, lane, catalogue, registers)?)));
            }
            ["tcgen05", "commit"] if parts[2..4] == ["cta_group::1", "mbarrier::arrive::one"] => {
                self.work.push_back(Work::Arrive(address(operands, 0, single(lanes)?, registers)?));
            }
            ["tcgen05", "alloc" | "dealloc" | "relinquish_alloc_permit"] if parts.contains(&"cta_group::1") => {
                self.manage(parts[1], operands, lanes, registers, shared)?;
            }
            ["tcgen05", "ld" | "st"] => self.transfer(parts, operands, lanes, registers)?,
            ["tcgen05", "wait::ld" | "wait::st"] => self.wait(parts[1], lanes, registers)?,
            _ => return Err(Fault::new("this tcgen05 is not supported")),
        }
        Ok(Flow::Next)
    }

    /// 9.7.13.15.16: whether the phase of that parity has completed.
    fn try_wait(
        &self,
        parts: &[&str],
        operands: &[Argument],
        lanes: &[usize],
        registers: &mut Registers,
    ) -> Result<Flow, Fault> {
        let Argument::One(Operand::Register(to)) = *operand(operands, 0)? else {
            return Err(Fault::new("a predicate was expected"));
        };
        if parts.get(2) != Some(&"parity") {
            return Err(Fault::new("only .parity is supported"));
        }
        let mut flow = Flow::Next;
        for &lane in lanes {
            let at = address(operands, 1, lane, registers)?;
            let barrier = self.barriers.get(&at).ok_or_else(|| Fault::new(format!("no mbarrier at {at:#x}")))?;
            let done = barrier.phase & 1 != value(operands, 2, lane, registers)? & 1;
            registers.set(to, lane, u64::from(done));
            if !done {
                flow = Flow::Polled;
            }
        }
        Ok(flow)
    }

    /// Allocation, by one whole warp.
    fn manage(
        &mut self,
        what: &str,
        operands: &[Argument],
        lanes: &[usize],
        registers: &Registers,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        let [warp] = &groups(lanes, 32, registers.lanes)?[..] else { return Err(Fault::new("one warp must do this")) };
        match what {
            "alloc" => {
                let to = address(operands, 0, warp[0], registers)?;
                let base = self.memory.allocate(value(operands, 1, warp[0], registers)?)?;
                shared.write_async(to, base)?;
            }
            "dealloc" => {
                let Argument::One(base) = operand(operands, 0)? else {
                    return Err(Fault::new("an address was expected"));
                };
                self.memory.free(registers.uniform(*base, warp)?, value(operands, 1, warp[0], registers)?)?;
            }
            _ => self.memory.relinquish(),
        }
        Ok(())
    }

    /// `tcgen05.ld` and `.st` of shape `.32x32b` (9.7.16.2.3.1.1): thread t of the warp has lane t of the warp's
    /// quarter (9.7.16.8.1: warp w of a warpgroup reaches lanes 32w to 32w + 31), register r column r.
    fn transfer(
        &mut self,
        parts: &[&str],
        operands: &[Argument],
        lanes: &[usize],
        registers: &mut Registers,
    ) -> Result<(), Fault> {
        let (memory, vector) = if parts[1] == "ld" { (1, 0) } else { (0, 1) };
        let (Argument::Memory(at), Argument::Vector(parts_of)) =
            (operand(operands, memory)?, operand(operands, vector)?)
        else {
            return Err(Fault::new("an address and a vector were expected"));
        };
        let ["tcgen05", _, "sync", "aligned", "32x32b", number, "b32"] = *parts else {
            return Err(Fault::new("only .32x32b is supported"));
        };
        if number.trim_start_matches('x').parse() != Ok(parts_of.len()) {
            return Err(Fault::new("the vector has the wrong length"));
        }
        for warp in groups(lanes, 32, registers.lanes)? {
            let address = registers.uniform(at.base, &warp)?.wrapping_add(at.offset);
            let (first, column) = split(address);
            let number = warp[0] / 32;
            if first != number % 4 * 32 {
                return Err(Fault::new(format!("warp {number} may not reach lane {first} of tensor memory")));
            }
            for (t, &thread) in warp.iter().enumerate() {
                for (r, &part) in parts_of.iter().enumerate() {
                    if parts[1] == "st" {
                        let word = registers.value(part, thread) as u32;
                        self.stores.entry(number).or_default().push((first + t, column + r, word));
                        continue;
                    }
                    let Operand::Register(to) = part else { return Err(Fault::new("registers were expected")) };
                    self.loads.entry(number).or_default().push((to, thread, self.memory.get(first + t, column + r)?));
                    registers.set(to, thread, u64::from(FRESH));
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, what: &str, lanes: &[usize], registers: &mut Registers) -> Result<(), Fault> {
        for warp in groups(lanes, 32, registers.lanes)? {
            if what == "wait::st" {
                for (lane, column, word) in self.stores.remove(&(warp[0] / 32)).unwrap_or_default() {
                    self.memory.set(lane, column, word)?;
                }
            } else {
                for (to, thread, word) in self.loads.remove(&(warp[0] / 32)).unwrap_or_default() {
                    registers.set(to, thread, u64::from(word));
                }
            }
        }
        Ok(())
    }

    /// Works everything off. False if there was nothing.
    pub(crate) fn advance(&mut self, shared: &Shared) -> Result<bool, Fault> {
        let some = !self.work.is_empty();
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Mma(mma) => mma.execute(&mut self.memory, shared)?,
                Work::Arrive(at) => {
                    let barrier = self.barriers.get_mut(&at);
                    let barrier = barrier.ok_or_else(|| Fault::new(format!("no mbarrier at {at:#x}")))?;
                    barrier.pending -= 1;
                    if barrier.pending == 0 {
                        barrier.pending = barrier.expected;
                        barrier.phase += 1;
                    }
                }
            }
        }
        Ok(some)
    }

    pub(crate) fn finish(&self) -> Result<(), Fault> {
        if self.work.iter().any(|work| matches!(work, Work::Mma(_))) {
            return Err(Fault::new("the block ended with tcgen05.mma under way"));
        }
        self.memory.finish()
    }
}

/// 9.7.16.5: `.mma` and `.commit` are issued by a single thread.
fn single(lanes: &[usize]) -> Result<usize, Fault> {
    match lanes {
        [lane] => Ok(*lane),
        _ => Err(Fault::new(format!("{} threads issue this, which is for one", lanes.len()))),
    }
}

fn address(operands: &[Argument], at: usize, lane: usize, registers: &Registers) -> Result<u64, Fault> {
    match operand(operands, at)? {
        Argument::Memory(address @ Address { .. }) => Ok(registers.address(*address, lane)),
        _ => Err(Fault::new("an address was expected")),
    }
}

fn value(operands: &[Argument], at: usize, lane: usize, registers: &Registers) -> Result<u64, Fault> {
    match operand(operands, at)? {
        Argument::One(one) => Ok(registers.value(*one, lane)),
        _ => Err(Fault::new("one value was expected")),
    }
}
