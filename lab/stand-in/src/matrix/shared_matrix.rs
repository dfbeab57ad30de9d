//! Operands in shared memory: descriptors and canonical layouts (9.7.15.5.1.2 for `wgmma`, 9.7.16.4.1 and
//! 9.7.16.10.6 for `tcgen05`). K-major without swizzling only.

use crate::Fault;
use crate::memory::Shared;

/// A decoded descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
}

impl Descriptor {
    fn common(bits: u64) -> Self {
        // matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4
        let field = |low: u32| (bits >> low & 0x3fff) << 4;
        Self { start: field(0), leading: field(16), stride: field(32) }
    }

    /// 9.7.15.5.1.2.2: the mode of swizzling in bits 63:62.
    pub(crate) fn wgmma(bits: u64) -> Result<Self, Fault> {
        if bits >> 62 != 0 || bits >> 49 & 7 != 0 {
            return Err(Fault::new(format!("descriptor {bits:#x}: no swizzling and no base offset are supported")));
        }
        Ok(Self::common(bits))
    }

    /// 9.7.16.4.1: constants in bits 48:46 (1) and 60:53 (0), the mode of swizzling in bits 63:61.
    pub(crate) fn tcgen05(bits: u64) -> Result<Self, Fault> {
        if bits >> 46 & 7 != 1 || bits >> 53 & 0xff != 0 {
            return Err(Fault::new(format!("descriptor {bits:#x}: the constant fields are wrong")));
        }
        if bits >> 61 != 0 || bits >> 49 & 0xf != 0 {
            return Err(Fault::new(format!("descriptor {bits:#x}: only no swizzling, relative strides are supported")));
        }
        Ok(Self::common(bits))
    }

    /// K-major, no swizzling (9.7.15.5.1.2.1.3): ((8, m), (T, 2k)) : ((1T, SBO), (1, LBO)) in elements of which T make
    /// 16 bytes. A row's byte `at` along K: eight rows of 16 bytes form a core matrix; SBO leads to the next eight
    /// rows, LBO to the next 16 bytes along K.
    fn address(self, row: usize, at: usize) -> u64 {
        let (row, at) = (row as u64, at as u64);
        self.start + row % 8 * 16 + row / 8 * self.stride + at / 16 * self.leading + at % 16
    }

    fn byte(self, shared: &Shared, row: usize, at: usize) -> Result<u64, Fault> {
        Ok(u64::from(shared.read_async(self.address(row, at))?))
    }

    /// `rows` x `k` codes, row-major; a "row" of B is a column of the product.
    pub(crate) fn read(self, shared: &Shared, packing: Packing, rows: usize, k: usize) -> Result<Vec<u64>, Fault> {
        let mut codes = Vec::with_capacity(rows * k);
        for row in 0..rows {
            for i in 0..k {
                codes.push(self.element(shared, packing, row, i)?);
            }
        }
        Ok(codes)
    }

    fn element(self, shared: &Shared, packing: Packing, row: usize, i: usize) -> Result<u64, Fault> {
        let (first_bit, bits) = packing.place(i);
        let bytes = first_bit / 8..(first_bit + bits).div_ceil(8);
        let mut value = 0;
        for (n, at) in bytes.enumerate() {
            value |= self.byte(shared, row, at)? << (8 * n);
        }
        Ok(value >> (first_bit % 8) & (u64::MAX >> (64 - bits)))
    }
}

/// How elements follow each other along K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Packing {
    /// Without gaps: f16, bf16, tf32, fp8; fp4 of `.kind::mxf4` and `.kind::mxf4nvf4` (9.7.16.10.4.6).
    Dense(usize),
    /// 9.7.16.10.4.4, Figures 202 and 203: sixteen fp4 or fp6 without gaps, then padding to 16 bytes: as
    /// 5.5.1.1.1 lays `.b4x16_p64` and `.b6x16_p32` out, whose padding is not initialised.
    Padded(usize),
}

impl Packing {
    /// First bit and bits of element i of a row.
    fn place(self, i: usize) -> (usize, usize) {
        match self {
            Self::Dense(bits) => (i * bits, bits),
            Self::Padded(bits) => (i / 16 * 128 + i % 16 * bits, bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document's example: tf32, ((8,2),(4,4)):((4,32),(1,64)), LBO = 64 elements, SBO = 32 elements.
    #[test]
    fn follows_the_documents_example() {
        let descriptor = Descriptor::wgmma(0x1000 >> 4 | 16 << 16 | 8 << 32).unwrap();
        assert_eq!(descriptor, Descriptor { start: 0x1000, leading: 256, stride: 128 });
        for row in 0..16 {
            for k in 0..16 {
                let element = row % 8 * 4 + row / 8 * 32 + k % 4 + k / 4 * 64;
                assert_eq!(descriptor.address(row, 4 * k), 0x1000 + 4 * element as u64);
            }
        }
    }

    #[test]
    fn packs_sixteen_to_a_chunk() {
        assert_eq!(Packing::Padded(6).place(15), (90, 6));
        assert_eq!(Packing::Padded(6).place(16), (128, 6));
        assert_eq!(Packing::Padded(4).place(17), (132, 4));
        assert_eq!(Packing::Dense(4).place(17), (68, 4));
    }
}
