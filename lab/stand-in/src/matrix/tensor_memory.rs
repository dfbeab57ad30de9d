//! Tensor memory (9.7.16.1): 128 lanes of 512 columns of 32 bits, handed out by columns.

use crate::Fault;
use crate::memory::POISON;

const LANES: usize = 128;
const COLUMNS: usize = 512;

/// The first column handed out: not 0, so that no kernel relies on it.
const FIRST: usize = 64;

/// What fresh tensor memory holds.
pub(crate) const FRESH: u32 = u32::from_le_bytes([POISON; 4]);

/// A tensor-memory address: lane in bits 31:16, column in bits 15:0 (9.7.16.1.1).
pub(crate) fn split(address: u64) -> (usize, usize) {
    ((address >> 16 & 0xffff) as usize, (address & 0xffff) as usize)
}

#[derive(Debug, Default)]
pub(crate) struct TensorMemory {
    words: Vec<u32>,
    /// First column and number of columns.
    allocated: Vec<(usize, usize)>,
    relinquished: bool,
}

impl TensorMemory {
    /// `tcgen05.alloc` (9.7.16.7.1): a power of two of at least 32 columns.
    pub(crate) fn allocate(&mut self, columns: u64) -> Result<u32, Fault> {
        let columns = columns as usize;
        let start = self.allocated.iter().map(|(first, count)| first + count).max().unwrap_or(FIRST);
        let start = start.next_multiple_of(columns.max(1));
        if !columns.is_power_of_two() || columns < 32 || start + columns > COLUMNS || self.relinquished {
            return Err(Fault::new(format!("{columns} columns of tensor memory cannot be allocated")));
        }
        self.words.resize(LANES * COLUMNS, FRESH);
        self.allocated.push((start, columns));
        Ok(start as u32)
    }

    pub(crate) fn free(&mut self, address: u64, columns: u64) -> Result<(), Fault> {
        let key = (split(address).1, columns as usize);
        let at = self.allocated.iter().position(|&found| found == key);
        let at = at.ok_or_else(|| Fault::new(format!("{columns} columns at {address:#x} were not allocated")))?;
        self.allocated.remove(at);
        Ok(())
    }

    pub(crate) fn relinquish(&mut self) {
        self.relinquished = true;
    }

    /// "All of the Tensor Memory that was allocated in a kernel, must be explicitly deallocated" (9.7.16.1.2).
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        if self.allocated.is_empty() { Ok(()) } else { Err(Fault::new("tensor memory was not deallocated")) }
    }

    fn at(&self, lane: usize, column: usize) -> Result<usize, Fault> {
        if lane < LANES && self.allocated.iter().any(|&(first, count)| (first..first + count).contains(&column)) {
            return Ok(lane * COLUMNS + column);
        }
        Err(Fault::new(format!("lane {lane}, column {column} of tensor memory is not allocated")))
    }

    pub(crate) fn get(&self, lane: usize, column: usize) -> Result<u32, Fault> {
        Ok(self.words[self.at(lane, column)?])
    }

    pub(crate) fn set(&mut self, lane: usize, column: usize, value: u32) -> Result<(), Fault> {
        let at = self.at(lane, column)?;
        self.words[at] = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_allocated_and_freed() {
        let mut memory = TensorMemory::default();
        let base = memory.allocate(32).unwrap();
        let column = base as usize;
        memory.set(127, column + 31, 7).unwrap();
        assert_eq!(memory.get(127, column + 31), Ok(7));
        assert!(memory.get(0, column + 32).is_err() && memory.get(128, column).is_err());
        assert!(memory.allocate(48).is_err() && memory.finish().is_err());
        memory.free(u64::from(base), 32).unwrap();
        assert!(memory.finish().is_ok());
    }
}
