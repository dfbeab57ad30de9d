//! Matrix instructions: operands are gathered by the layouts of the PTX ISA, the arithmetic is
//! gemmulate's, one dot-add per element of D.
//!
//! Section numbers are those of the PTX ISA 9.0.

mod fragments;
mod mma_sync;
mod shared_matrix;
mod tcgen05;
mod tensor_memory;
mod wgmma;

use crate::Fault;
use crate::block::{Flow, Registers};
use crate::memory::Shared;
use crate::ptx::Argument;
use gemmulate::Unit;
use std::collections::HashMap;

/// The units of one architecture, found once.
#[derive(Debug)]
pub(crate) struct Catalogue {
    arch: &'static str,
    found: HashMap<String, Unit>,
}

impl Catalogue {
    /// From the digits of `.target sm_90a`.
    pub(crate) fn for_target(sm: u32) -> Result<Self, Fault> {
        let arch = match sm {
            70 | 72 => "volta",
            75 => "turing",
            80 | 86 | 87 | 88 => "ampere",
            89 => "ada",
            90 => "hopper",
            100 | 103 | 107 | 110 => "blackwell",
            120 | 121 => "rtx-blackwell",
            _ => return Err(Fault::new(format!("sm_{sm} is of no architecture of the catalogue"))),
        };
        Ok(Self { arch, found: HashMap::new() })
    }

    pub(crate) fn find(&mut self, name: &str) -> Result<Unit, Fault> {
        if let Some(unit) = self.found.get(name) {
            return Ok(unit.clone());
        }
        let unit = Unit::find(&format!("{}/{name}", self.arch)).map_err(|error| Fault::new(error.to_string()))?;
        self.found.insert(name.to_string(), unit.clone());
        Ok(unit)
    }
}

/// The matrix units as one block sees them.
#[derive(Debug)]
pub(crate) struct Units<'a> {
    catalogue: &'a mut Catalogue,
    wgmma: HashMap<usize, wgmma::Warpgroup>,
    tensor: tcgen05::Tensor,
}

impl<'a> Units<'a> {
    pub(crate) fn new(catalogue: &'a mut Catalogue) -> Self {
        Self { catalogue, wgmma: HashMap::new(), tensor: tcgen05::Tensor::default() }
    }

    pub(crate) fn execute(
        &mut self,
        opcode: &str,
        operands: &[Argument],
        lanes: &[usize],
        registers: &mut Registers,
        shared: &mut Shared,
    ) -> Result<Flow, Fault> {
        let parts: Vec<&str> = opcode.split('.').collect();
        match parts[0] {
            "mma" => {
                let shape = mma_sync::Form::parse(&parts)?;
                let unit = self.catalogue.find(&shape.unit_name())?;
                for warp in groups(lanes, 32, registers.lanes)? {
                    mma_sync::execute(&shape, &unit, operands, &warp, registers)?;
                }
            }
            "wgmma" => {
                for lanes in groups(lanes, 128, registers.lanes)? {
                    let group = self.wgmma.entry(lanes[0]).or_default();
                    group.execute(&parts, operands, &lanes, self.catalogue, registers, shared)?;
                }
            }
            "mbarrier" | "tcgen05" => {
                return self.tensor.execute(&parts, operands, lanes, self.catalogue, registers, shared);
            }
            _ => return Err(Fault::new("this instruction is not supported")),
        }
        Ok(Flow::Next)
    }

    /// Lets asynchronous work complete that lanes wait for. False if there was none.
    pub(crate) fn advance(&mut self, shared: &Shared) -> Result<bool, Fault> {
        self.tensor.advance(shared)
    }

    /// At the end of the block.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        if self.wgmma.values().any(wgmma::Warpgroup::is_busy) {
            return Err(Fault::new("the block ended with wgmma in flight"));
        }
        self.tensor.finish()
    }
}

/// `.sync.aligned`: all lanes of every warp (or warpgroup) must be here together.
pub(crate) fn groups(lanes: &[usize], size: usize, of: usize) -> Result<Vec<Vec<usize>>, Fault> {
    let whole = lanes.len().is_multiple_of(size) && of.is_multiple_of(size);
    if whole && lanes.chunks(size).all(|c| c[0] % size == 0 && c.windows(2).all(|pair| pair[1] == pair[0] + 1)) {
        return Ok(lanes.chunks(size).map(<[usize]>::to_vec).collect());
    }
    Err(Fault::new(format!("only some of {size} lanes are here: {lanes:?}")))
}

/// The operand at that place, as a vector of values or as one value.
pub(crate) fn operand(operands: &[Argument], at: usize) -> Result<&Argument, Fault> {
    operands.get(at).ok_or_else(|| Fault::new(format!("operand {at} is missing")))
}

/// A matrix that is filled element by element, each exactly once.
#[derive(Debug)]
pub(crate) struct Matrix {
    columns: usize,
    elements: Vec<Option<u64>>,
}

impl Matrix {
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        Self { columns, elements: vec![None; rows * columns] }
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: u64) -> Result<(), Fault> {
        let slot = self.elements.get_mut(row * self.columns + column).filter(|_| column < self.columns);
        match slot {
            Some(slot) if slot.is_none() => *slot = Some(value),
            _ => return Err(Fault::new(format!("element ({row}, {column}) is outside or filled twice"))),
        }
        Ok(())
    }

    /// Row-major, complete.
    pub(crate) fn complete(self) -> Result<Vec<u64>, Fault> {
        self.elements.into_iter().collect::<Option<_>>().ok_or_else(|| Fault::new("a matrix with holes"))
    }
}

/// A, B or their scales: `length` codes of every row of A or column of B, one row after another.
#[derive(Debug)]
pub(crate) struct Side {
    pub codes: Vec<u64>,
    pub scales: Vec<u64>,
}

impl Side {
    /// Codes and scales of row (or column) `at` of `count`.
    fn row(&self, at: usize, count: usize) -> (&[u64], &[u64]) {
        let (k, s) = (self.codes.len() / count, self.scales.len() / count);
        (&self.codes[at * k..][..k], &self.scales[at * s..][..s])
    }

    /// Of every row, the first that equals it.
    fn firsts(&self, count: usize) -> Vec<usize> {
        let mut seen = HashMap::new();
        (0..count).map(|at| *seen.entry(self.row(at, count)).or_insert(at)).collect()
    }
}

/// A whole tile, row-major. The large tiles of the capture programs repeat a few dot-adds: each is computed once.
pub(crate) fn multiply(unit: &Unit, a: &Side, b: &Side, c: &[u64]) -> Result<Vec<u64>, Fault> {
    let (m, n) = (unit.shape.m, unit.shape.n);
    let (rows, columns) = (a.firsts(m), b.firsts(n));
    let mut known: HashMap<(usize, usize, u64), u64> = HashMap::new();
    let mut d = Vec::with_capacity(m * n);
    for (at, &c) in c.iter().enumerate() {
        let key = (rows[at / n], columns[at % n], c);
        let value = match known.get(&key) {
            Some(value) => *value,
            None => {
                let ((a, scale_a), (b, scale_b)) = (a.row(key.0, m), b.row(key.1, n));
                unit.dot_add_scaled_bits(a, b, c, scale_a, scale_b).map_err(|error| Fault::new(error.to_string()))?
            }
        };
        known.insert(key, value);
        d.push(value);
    }
    Ok(d)
}

/// How an element lies in its container in a register: fp6 in the low bits of a byte, fp4 in bits 5:2 of it (figures of
/// the document; CUTLASS shifts e2m1 left by two for SM120, and fp6 not) for `.kind::f8f6f4` and `.kind::mxf8f6f4`.
/// What is beside must be zero.
pub(crate) fn from_container(format: &str, container: u64) -> Result<u64, Fault> {
    let (shift, bits) = match format {
        "e3m2" | "e2m3" => (0, 6),
        "e2m1" => (2, 4),
        _ => return Ok(container),
    };
    let mask = ((1u64 << bits) - 1) << shift;
    if container & !mask != 0 {
        return Err(Fault::new(format!("{container:#x} is no {format} in a byte: its padding is not zero")));
    }
    Ok(container >> shift)
}
