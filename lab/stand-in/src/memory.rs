//! Memories: every access is checked for bounds and alignment, and fresh memory holds no zeros.

use crate::Fault;
use crate::ptx::SHARED_BASE;
use std::collections::BTreeMap;

/// What fresh memory and registers in flight hold.
pub(crate) const POISON: u8 = 0xa5;

/// Little-endian value of at most 8 bytes.
pub(crate) fn load(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The reverse of [`load`].
pub(crate) fn store(bytes: &mut [u8], value: u64) {
    let length = bytes.len();
    bytes.copy_from_slice(&value.to_le_bytes()[..length]);
}

fn check_aligned(address: u64, bytes: usize) -> Result<(), Fault> {
    if address.is_multiple_of(bytes as u64) {
        return Ok(());
    }
    Err(Fault::new(format!("{bytes} bytes at the unaligned address {address:#x}")))
}

/// Device memory. Addresses are no host addresses: a program that mixes them up does not run here either.
#[derive(Debug, Default)]
pub(crate) struct Global {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Global {
    pub(crate) fn allocate(&mut self, bytes: usize) -> u64 {
        let base = self.next.max(0x7000_0000_0000);
        // A gap after every block, so that running over its end is noticed.
        self.next = (base + bytes as u64 + 512).next_multiple_of(512);
        self.blocks.insert(base, vec![POISON; bytes]);
        base
    }

    pub(crate) fn free(&mut self, base: u64) -> Result<(), Fault> {
        self.blocks.remove(&base).map(|_| ()).ok_or_else(|| Fault::new(format!("{base:#x} was not allocated")))
    }

    /// `bytes` bytes, which must lie in one allocation.
    pub(crate) fn slice(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Fault> {
        let outside = || Fault::new(format!("{bytes} bytes at {address:#x} are in no allocation"));
        let (base, block) = self.blocks.range_mut(..=address).next_back().ok_or_else(outside)?;
        let start = (address - base) as usize;
        block.get_mut(start..start + bytes).ok_or_else(outside)
    }

    pub(crate) fn aligned(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Fault> {
        check_aligned(address, bytes)?;
        self.slice(address, bytes)
    }
}

/// Shared memory of one block, from [`SHARED_BASE`] on. It remembers which thread's writes the asynchronous
/// units may not see yet, for lack of a `fence.proxy.async` (PTX ISA 8.6 and 9.7.13.x: proxies).
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    /// Of every byte, 1 + the lane that wrote it through the generic proxy and has not fenced since; or 0.
    unfenced: Vec<u32>,
}

impl Shared {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: vec![POISON; bytes], unfenced: vec![0; bytes] }
    }

    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Fault> {
        let start = (address as usize).checked_sub(SHARED_BASE).filter(|start| start + bytes <= self.bytes.len());
        let start =
            start.ok_or_else(|| Fault::new(format!("{bytes} bytes at {address:#x} are outside shared memory")))?;
        Ok(start..start + bytes)
    }

    pub(crate) fn read(&self, address: u64, bytes: usize) -> Result<&[u8], Fault> {
        check_aligned(address, bytes)?;
        Ok(&self.bytes[self.range(address, bytes)?])
    }

    pub(crate) fn write(&mut self, address: u64, bytes: usize, lane: usize) -> Result<&mut [u8], Fault> {
        check_aligned(address, bytes)?;
        let range = self.range(address, bytes)?;
        self.unfenced[range.clone()].fill(lane as u32 + 1);
        Ok(&mut self.bytes[range])
    }

    /// `fence.proxy.async` of these lanes.
    pub(crate) fn fence(&mut self, lanes: &[usize]) {
        let mut fencing = vec![false; lanes.last().map_or(0, |last| last + 1)];
        lanes.iter().for_each(|&lane| fencing[lane] = true);
        for owner in self.unfenced.iter_mut().filter(|owner| **owner != 0) {
            if fencing.get(*owner as usize - 1) == Some(&true) {
                *owner = 0;
            }
        }
    }

    /// A read of one byte by a matrix unit.
    pub(crate) fn read_async(&self, address: u64) -> Result<u8, Fault> {
        let at = self.range(address, 1)?.start;
        if self.unfenced[at] != 0 {
            return Err(Fault::new(format!(
                "a matrix unit reads {address:#x}, which thread {} wrote without fence.proxy.async",
                self.unfenced[at] - 1
            )));
        }
        Ok(self.bytes[at])
    }

    /// A write by an asynchronous unit.
    pub(crate) fn write_async(&mut self, address: u64, value: u32) -> Result<(), Fault> {
        let range = self.range(address, 4)?;
        self.bytes[range].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_accesses_stay_in_their_allocation() {
        let mut global = Global::default();
        let (x, y) = (global.allocate(10), global.allocate(16));
        store(global.aligned(x + 8, 2).unwrap(), 0x1234);
        assert_eq!(load(global.slice(x + 8, 2).unwrap()), 0x1234);
        assert!(global.slice(x + 9, 2).is_err());
        assert!(global.aligned(y + 4, 8).is_err());
        assert!(global.slice(y - 1, 1).is_err());
        global.free(x).unwrap();
        assert!(global.free(x).is_err());
    }

    #[test]
    fn matrix_units_see_fenced_writes_only() {
        let mut shared = Shared::new(16);
        let at = SHARED_BASE as u64;
        shared.write(at, 4, 3).unwrap().fill(7);
        assert!(shared.read_async(at).is_err());
        shared.fence(&[2]);
        assert!(shared.read_async(at).is_err());
        shared.fence(&[3]);
        assert_eq!(shared.read_async(at), Ok(7));
        assert!(shared.read(at - 1, 1).is_err());
    }
}
