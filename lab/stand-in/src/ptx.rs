//! PTX: a kernel's text to a list of instructions.

pub(crate) mod alu;
mod parse;
pub(crate) mod text;

pub(crate) use parse::parse;

use alu::{Function, Type};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operand {
    Register(usize),
    Constant(u64),
    Special(Special),
}

/// Special registers (PTX ISA 10); the kernels here are one-dimensional but for the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Lane,
}

/// State spaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Space {
    Param,
    Global,
    Shared,
    Local,
}

/// `[base + offset]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub base: Operand,
    pub offset: u64,
}

/// What an instruction does. `Vec<usize>` are registers.
pub(crate) enum Kind {
    Alu {
        function: Function,
        to: usize,
        from: [Operand; 4],
    },
    /// `mov` between a register and its parts.
    Pack {
        to: usize,
        parts: Vec<Operand>,
        bits: u32,
    },
    Unpack {
        to: Vec<usize>,
        from: Operand,
        bits: u32,
    },
    Load {
        space: Space,
        of: Type,
        to: Vec<usize>,
        at: Address,
    },
    Store {
        space: Space,
        of: Type,
        from: Vec<Operand>,
        at: Address,
    },
    /// `atom.exch`
    Exchange {
        space: Space,
        of: Type,
        to: usize,
        at: Address,
        from: Operand,
    },
    Branch(usize),
    Return,
    Barrier,
    /// Orders the generic accesses of a thread before its asynchronous ones.
    AsyncFence,
    /// Orders what this interpreter executes in order anyway.
    Ordered,
    /// A matrix instruction or what belongs to one: its opcode and operands.
    Collective {
        opcode: String,
        operands: Vec<Argument>,
    },
}

/// An operand of a collective instruction.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    One(Operand),
    Vector(Vec<Operand>),
    Memory(Address),
}

/// A predicate `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub register: usize,
    pub negated: bool,
}

pub(crate) struct Instruction {
    pub guard: Option<Guard>,
    pub kind: Kind,
    /// For error messages.
    pub text: String,
}

/// A kernel ready to run.
pub(crate) struct Kernel {
    pub code: Vec<Instruction>,
    pub registers: usize,
    /// Bytes from the start of the shared window, and of a lane's local memory.
    pub shared_bytes: usize,
    pub local_bytes: usize,
    /// Bytes of every parameter and where it lies in the parameter space.
    pub params: Vec<(usize, usize)>,
}

/// Shared memory does not start at address 0, so that no kernel relies on it; on a GPU the system takes the first
/// kilobyte.
pub(crate) const SHARED_BASE: usize = 1024;
