//! One thread block: its lanes, their registers, and how they advance.
//!
//! Lanes at the same place advance together. Where lanes part, those at the smaller place run first
//! until the others are reached: a kernel's loops and branches come together again without any
//! knowledge of its structure. Lanes that wait (a barrier, an `mbarrier` that has not completed) stand aside.

use crate::Fault;
use crate::matrix::Units;
use crate::memory::{self, Global, Shared};
use crate::ptx::{Address, Instruction, Kernel, Kind, Operand, Space, Special};

/// Grid and block as the launch gave them, and this block's place in the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub ntid: [usize; 3],
    pub ctaid: [usize; 3],
    pub nctaid: [usize; 3],
}

/// Lanes at one place of the code.
#[derive(Debug)]
struct Group {
    at: usize,
    lanes: Vec<usize>,
    wait: Wait,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    No,
    /// At `bar.sync`, until every lane is.
    Barrier,
    /// Polled something that was not done yet: others first.
    Polled,
}

/// How a group goes on after an instruction.
pub(crate) enum Flow {
    Next,
    /// It polled and must poll again.
    Polled,
}

/// The registers of all lanes.
#[derive(Debug)]
pub(crate) struct Registers {
    values: Vec<u64>,
    pub lanes: usize,
    place: Place,
}

impl Registers {
    pub(crate) fn value(&self, operand: Operand, lane: usize) -> u64 {
        match operand {
            Operand::Register(register) => self.values[register * self.lanes + lane],
            Operand::Constant(value) => value,
            Operand::Special(special) => self.special(special, lane) as u64,
        }
    }

    pub(crate) fn set(&mut self, register: usize, lane: usize, value: u64) {
        self.values[register * self.lanes + lane] = value;
    }

    fn special(&self, special: Special, lane: usize) -> usize {
        let [x, y, _] = self.place.ntid;
        match special {
            Special::Tid(0) => lane % x,
            Special::Tid(1) => lane / x % y,
            Special::Tid(_) => lane / (x * y),
            Special::Ntid(axis) => self.place.ntid[axis],
            Special::Ctaid(axis) => self.place.ctaid[axis],
            Special::Nctaid(axis) => self.place.nctaid[axis],
            Special::Lane => lane % 32,
        }
    }

    /// The address in every lane.
    pub(crate) fn address(&self, at: Address, lane: usize) -> u64 {
        self.value(at.base, lane).wrapping_add(at.offset)
    }

    /// A value that must be the same in these lanes.
    pub(crate) fn uniform(&self, operand: Operand, lanes: &[usize]) -> Result<u64, Fault> {
        let first = self.value(operand, lanes[0]);
        if lanes.iter().all(|&lane| self.value(operand, lane) == first) {
            return Ok(first);
        }
        Err(Fault::new("an operand must be the same in all lanes and is not"))
    }
}

/// One block while it runs.
pub(crate) struct Block<'a> {
    kernel: &'a Kernel,
    params: &'a [u8],
    global: &'a mut Global,
    registers: Registers,
    shared: Shared,
    local: Vec<u8>,
    units: Units<'a>,
    groups: Vec<Group>,
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        kernel: &'a Kernel,
        params: &'a [u8],
        global: &'a mut Global,
        place: Place,
        units: Units<'a>,
    ) -> Self {
        let lanes: usize = place.ntid.iter().product();
        let poison = u64::from_le_bytes([memory::POISON; 8]);
        Self {
            kernel,
            params,
            global,
            registers: Registers { values: vec![poison; kernel.registers * lanes], lanes, place },
            shared: Shared::new(kernel.shared_bytes),
            local: vec![memory::POISON; kernel.local_bytes * lanes],
            units,
            groups: vec![Group { at: 0, lanes: (0..lanes).collect(), wait: Wait::No }],
        }
    }

    /// Runs until every lane has returned.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        while let Some(mut group) = self.next_group()? {
            let limit = self.groups.iter().filter(|g| g.wait == Wait::No).map(|g| g.at).min().unwrap_or(usize::MAX);
            // As long as no other group is at a smaller or the same place.
            while group.at < limit && group.wait == Wait::No && !group.lanes.is_empty() {
                let kernel = self.kernel;
                let instruction = kernel.code.get(group.at).ok_or_else(|| Fault::new("a lane ran off the end"))?;
                let split = self.step(&mut group, instruction).map_err(|fault| fault.at(&instruction.text))?;
                if let Some(other) = split {
                    self.groups.push(other);
                    break;
                }
            }
            if !group.lanes.is_empty() {
                self.groups.push(group);
            }
        }
        self.units.finish()
    }

    /// Takes out the lanes at the smallest place, merged. Wakes waiting lanes where it must.
    fn next_group(&mut self) -> Result<Option<Group>, Fault> {
        if self.groups.is_empty() {
            return Ok(None);
        }
        if self.groups.iter().all(|g| g.wait == Wait::Barrier) {
            self.groups.iter_mut().for_each(|g| g.wait = Wait::No);
        }
        if self.groups.iter().all(|g| g.wait != Wait::No) {
            if !self.units.advance(&self.shared)? {
                return Err(Fault::new("lanes wait for what never comes"));
            }
            self.groups.iter_mut().filter(|g| g.wait == Wait::Polled).for_each(|g| g.wait = Wait::No);
        }
        let ready = self.groups.iter().filter(|g| g.wait == Wait::No);
        let at = ready.map(|g| g.at).min().ok_or_else(|| Fault::new("no lane can go on"))?;
        let (now, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.groups).into_iter().partition(|g| g.wait == Wait::No && g.at == at);
        self.groups = rest;
        let mut lanes: Vec<usize> = now.into_iter().flat_map(|g| g.lanes).collect();
        lanes.sort_unstable();
        Ok(Some(Group { at, lanes, wait: Wait::No }))
    }

    /// One instruction of a group; lanes that part from it come back as another one.
    fn step(&mut self, group: &mut Group, instruction: &Instruction) -> Result<Option<Group>, Fault> {
        let (active, idle): (Vec<usize>, Vec<usize>) = match instruction.guard {
            None => (group.lanes.clone(), Vec::new()),
            Some(guard) => group.lanes.iter().partition(|&&lane| {
                (self.registers.value(Operand::Register(guard.register), lane) & 1 == 1) != guard.negated
            }),
        };
        let here = group.at;
        group.at += 1;
        match &instruction.kind {
            Kind::Branch(target) => return Ok(self.branch(group, active, idle, *target)),
            Kind::Return => group.lanes = idle,
            Kind::Barrier => {
                if !idle.is_empty() {
                    return Err(Fault::new("a barrier with a guard that only some lanes pass"));
                }
                group.wait = Wait::Barrier;
            }
            kind if !active.is_empty() => {
                if matches!(self.execute(kind, &active)?, Flow::Polled) {
                    group.wait = Wait::Polled;
                }
            }
            _ => {}
        }
        debug_assert!(group.at == here + 1);
        Ok(None)
    }

    fn branch(&self, group: &mut Group, active: Vec<usize>, idle: Vec<usize>, target: usize) -> Option<Group> {
        if active.is_empty() {
            return None;
        }
        if idle.is_empty() {
            group.at = target;
            return None;
        }
        group.lanes = idle;
        Some(Group { at: target, lanes: active, wait: Wait::No })
    }

    fn execute(&mut self, kind: &Kind, lanes: &[usize]) -> Result<Flow, Fault> {
        match kind {
            Kind::Alu { function, to, from } => {
                for &lane in lanes {
                    let value = function(from.map(|operand| self.registers.value(operand, lane)));
                    self.registers.set(*to, lane, value);
                }
            }
            Kind::Pack { to, parts, bits } => {
                let mask = u64::MAX >> (64 - bits);
                for &lane in lanes {
                    let parts = parts.iter().rev().map(|&part| self.registers.value(part, lane) & mask);
                    let value = parts.fold(0, |value, part| value << bits | part);
                    self.registers.set(*to, lane, value);
                }
            }
            Kind::Unpack { to, from, bits } => {
                let mask = u64::MAX >> (64 - bits);
                for &lane in lanes {
                    let value = self.registers.value(*from, lane);
                    for (i, &register) in to.iter().enumerate() {
                        self.registers.set(register, lane, value >> (i as u32 * bits) & mask);
                    }
                }
            }
            Kind::AsyncFence => self.shared.fence(lanes),
            Kind::Ordered => {}
            Kind::Collective { opcode, operands } => {
                return self.units.execute(opcode, operands, lanes, &mut self.registers, &mut self.shared);
            }
            _ => self.access(kind, lanes)?,
        }
        Ok(Flow::Next)
    }

    fn access(&mut self, kind: &Kind, lanes: &[usize]) -> Result<(), Fault> {
        for &lane in lanes {
            match kind {
                Kind::Load { space, of, to, at } => {
                    let (address, bytes) = (self.registers.address(*at, lane), of.bytes());
                    let data = self.read(*space, address, bytes * to.len(), lane)?;
                    let sign = |value: u64| if of.kind == b's' { extend(value, of.bits) } else { value };
                    let values: Vec<u64> = data.chunks(bytes).map(|part| sign(memory::load(part))).collect();
                    to.iter().zip(values).for_each(|(&register, value)| self.registers.set(register, lane, value));
                }
                Kind::Store { space, of, from, at } => {
                    let (address, bytes) = (self.registers.address(*at, lane), of.bytes());
                    let values: Vec<u64> = from.iter().map(|&part| self.registers.value(part, lane)).collect();
                    let data = self.write(*space, address, bytes * from.len(), lane)?;
                    data.chunks_mut(bytes).zip(values).for_each(|(part, value)| memory::store(part, value));
                }
                Kind::Exchange { space, of, to, at, from } => {
                    let (address, new) = (self.registers.address(*at, lane), self.registers.value(*from, lane));
                    let data = self.write(*space, address, of.bytes(), lane)?;
                    let old = memory::load(data);
                    memory::store(data, new);
                    self.registers.set(*to, lane, old);
                }
                _ => return Err(Fault::new("not an access to memory")),
            }
        }
        Ok(())
    }

    fn read(&mut self, space: Space, address: u64, bytes: usize, lane: usize) -> Result<&[u8], Fault> {
        match space {
            Space::Param => slice(self.params, address, bytes),
            Space::Shared => self.shared.read(address, bytes),
            Space::Local | Space::Global => self.write(space, address, bytes, lane).map(|data| &*data),
        }
    }

    fn write(&mut self, space: Space, address: u64, bytes: usize, lane: usize) -> Result<&mut [u8], Fault> {
        match space {
            Space::Param => Err(Fault::new("parameters are read-only")),
            Space::Global => self.global.aligned(address, bytes),
            Space::Shared => self.shared.write(address, bytes, lane),
            Space::Local => {
                let own = self.kernel.local_bytes;
                let local = &mut self.local[own * lane..own * (lane + 1)];
                let range = address as usize..address as usize + bytes;
                local.get_mut(range).ok_or_else(|| Fault::new(format!("{address:#x} is outside local memory")))
            }
        }
    }
}

fn slice(bytes: &[u8], address: u64, length: usize) -> Result<&[u8], Fault> {
    let start = address as usize;
    bytes.get(start..start + length).ok_or_else(|| Fault::new("outside the parameters"))
}

/// Registers are zero-extended: a signed load of fewer bits fills a 32-bit register.
fn extend(value: u64, bits: u32) -> u64 {
    if bits >= 32 {
        return value;
    }
    let shift = 32 - bits;
    u64::from(((value as u32) << shift).cast_signed().wrapping_shr(shift).cast_unsigned())
}
