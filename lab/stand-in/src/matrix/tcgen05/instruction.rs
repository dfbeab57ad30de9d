//! `tcgen05.mma`: the instruction descriptor (9.7.16.4.2), scale factors (9.7.16.10.7), D in tensor memory
//! (9.7.16.10.4.1 and 9.7.16.10.5).

use super::{address, value};
use crate::Fault;
use crate::block::Registers;
use crate::matrix::shared_matrix::{Descriptor, Packing};
use crate::matrix::tensor_memory::{FRESH, TensorMemory, split};
use crate::matrix::{Catalogue, Side, multiply};
use crate::memory::Shared;
use crate::ptx::Argument;
use gemmulate::Unit;

/// A decoded instruction descriptor.
#[derive(Debug, PartialEq)]
struct Shape {
    m: u64,
    n: u64,
    a: &'static str,
    b: &'static str,
    d: &'static str,
    /// Format of the scales, byte offsets of scale_A and scale_B in a word.
    scale: Option<(&'static str, usize, usize)>,
}

/// 9.7.16.4.2, Tables 42 (tf32, f16, f8f6f4), 43 (mxf8f6f4) and 44 (mxf4, mxf4nvf4). What it does not decode must be 0:
/// sparsity, saturation, negation, transposition, reserved bits, reuse of B.
fn decode(kind: &str, bits: u64) -> Result<Shape, Fault> {
    let field = |low: u32, width: u32| bits >> low & ((1 << width) - 1);
    let scaled = kind.starts_with("mx");
    let used: u64 = match kind {
        "mxf4" | "mxf4nvf4" => 3 << 4 | 7 << 7 | 3 << 10 | 0x3f << 17 | 1 << 23 | 3 << 27 | 3 << 29,
        "mxf8f6f4" => 3 << 4 | 7 << 7 | 7 << 10 | 0x3f << 17 | 1 << 23 | 3 << 27 | 3 << 29,
        _ => 3 << 4 | 7 << 7 | 7 << 10 | 0x3f << 17 | 0x1f << 24,
    };
    let bad = || Fault::new(format!("instruction descriptor {bits:#x} is wrong for {kind} or not supported"));
    if bits & !used != 0 {
        return Err(bad());
    }
    let formats: &[(u64, &'static str)] = match kind {
        "tf32" => &[(2, "tf32")],
        "f16" => &[(0, "f16"), (1, "bf16")],
        "f8f6f4" | "mxf8f6f4" => &[(0, "e4m3"), (1, "e5m2"), (3, "e2m3"), (4, "e3m2"), (5, "e2m1")],
        "mxf4" | "mxf4nvf4" => &[(1, "e2m1")],
        _ => return Err(bad()),
    };
    let format = |code: u64| formats.iter().find(|found| found.0 == code).map(|found| found.1).ok_or_else(bad);
    let d = match (scaled, kind, field(4, 2)) {
        (true, ..) | (_, _, 1) => "f32",
        (false, "f16" | "f8f6f4", 0) => "f16",
        _ => return Err(bad()),
    };
    let scale = match (scaled, field(23, 1)) {
        (false, _) => None,
        (true, 1) => Some(("ue8m0", field(29, 2) as usize, field(4, 2) as usize)),
        (true, _) if kind == "mxf4nvf4" => Some(("ue4m3", field(29, 2) as usize, field(4, 2) as usize)),
        _ => return Err(bad()),
    };
    let m = if scaled { field(27, 2) << 7 } else { field(24, 5) << 4 };
    let n = field(17, 6) << 3;
    // 9.7.16.2.1: M 64 with N from 8 by 8, M 128 with N from 16 by 16; scaled kinds M 128 with N from 8 by 8.
    let step = if scaled || m == 64 { 8 } else { 16 };
    if !(m == 128 || m == 64 && !scaled) || n == 0 || n > 256 || n % step != 0 {
        return Err(Fault::new(format!("{kind} has no shape of M {m}, N {n}")));
    }
    Ok(Shape { m, n, a: format(field(7, 3))?, b: format(field(10, 3))?, d, scale })
}

/// One instruction under way.
#[derive(Debug)]
pub(super) struct Mma {
    unit: Unit,
    shape: Shape,
    packing_a: Packing,
    packing_b: Packing,
    a: Descriptor,
    b: Descriptor,
    d: u64,
    /// Addresses of scale_A and scale_B.
    scales: Option<(u64, u64)>,
    accumulate: bool,
}

impl Mma {
    /// Operands: [d], a-desc, b-desc, idesc, [scale-A], [scale-B] (of scaled kinds), enable-input-d.
    pub(super) fn parse(
        parts: &[&str],
        operands: &[Argument],
        lane: usize,
        catalogue: &mut Catalogue,
        registers: &Registers,
    ) -> Result<Self, Fault> {
        let unsupported = || Fault::new("this tcgen05.mma is not supported");
        let kind = match parts {
            ["tcgen05", "mma", "cta_group::1", kind, ..] => kind.strip_prefix("kind::").ok_or_else(unsupported)?,
            _ => return Err(unsupported()),
        };
        let per_row = match (kind, &parts[4..]) {
            ("tf32" | "f16" | "f8f6f4", []) => 0,
            ("mxf8f6f4", ["block_scale", "scale_vec::1X"]) => 1,
            ("mxf4" | "mxf4nvf4", ["block_scale", "scale_vec::2X"]) => 2,
            ("mxf4nvf4", ["block_scale", "scale_vec::4X"]) => 4,
            _ => return Err(unsupported()),
        };
        let shape = decode(kind, value(operands, 3, lane, registers)?)?;
        let unit = catalogue.find(&unit_name(kind, &shape, per_row))?;
        let scaled = per_row > 0;
        if operands.len() != if scaled { 7 } else { 5 } {
            return Err(unsupported());
        }
        let memory = |at| address(operands, at, lane, registers);
        let scales = if scaled { Some((memory(4)?, memory(5)?)) } else { None };
        Ok(Self {
            packing_a: packing(kind, shape.a),
            packing_b: packing(kind, shape.b),
            a: Descriptor::tcgen05(value(operands, 1, lane, registers)?)?,
            b: Descriptor::tcgen05(value(operands, 2, lane, registers)?)?,
            d: memory(0)?,
            accumulate: value(operands, operands.len() - 1, lane, registers)? & 1 == 1,
            unit,
            shape,
            scales,
        })
    }

    pub(super) fn execute(&self, memory: &mut TensorMemory, shared: &Shared) -> Result<(), Fault> {
        let (m, n, k) = (self.unit.shape.m, self.unit.shape.n, self.unit.shape.k);
        let (scale_a, scale_b) = self.scale_factors(memory)?;
        let a = Side { codes: self.a.read(shared, self.packing_a, m, k)?, scales: scale_a };
        // Row n of the matrix in memory is column n of B.
        let b = Side { codes: self.b.read(shared, self.packing_b, n, k)?, scales: scale_b };
        let d_bits = self.unit.d.storage_bits;
        let mask = u64::MAX >> (64 - d_bits);
        let mut c = vec![0; m * n];
        for (at, c) in c.iter_mut().enumerate().filter(|_| self.accumulate) {
            let (lane, column) = self.place(at / n, at % n)?;
            *c = u64::from(memory.get(lane, column)?) & mask;
        }
        for (at, d) in multiply(&self.unit, &a, &b, &c)?.into_iter().enumerate() {
            let (lane, column) = self.place(at / n, at % n)?;
            // 9.7.16.10.4.1: one element a word; what stands above 16 bits is not said.
            memory.set(lane, column, (d | u64::from(FRESH) & !mask) as u32)?;
        }
        Ok(())
    }

    /// Lane and column of an element of D: Layout D for M 128, Layout F for M 64, whose rows take half of the lanes of
    /// every 32 (9.7.16.10.5.4 and .6).
    fn place(&self, row: usize, column: usize) -> Result<(usize, usize), Fault> {
        let (first_lane, first_column) = split(self.d);
        let allowed: &[usize] = if self.shape.m == 64 { &[0, 16] } else { &[0] };
        if !allowed.contains(&first_lane) {
            return Err(Fault::new(format!("D may not start at lane {first_lane}")));
        }
        let lane = if self.shape.m == 64 { row / 16 * 32 + row % 16 } else { row };
        Ok((first_lane + lane, first_column + column))
    }

    /// Scales of the rows of A and of the columns of B.
    fn scale_factors(&self, memory: &TensorMemory) -> Result<(Vec<u64>, Vec<u64>), Fault> {
        let (Some((at_a, at_b)), Some((_, id_a, id_b))) = (self.scales, self.shape.scale) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let count = self.unit.scales();
        let (m, n) = (self.unit.shape.m, self.unit.shape.n);
        let scale_a = read_scales(memory, at_a, id_a, m, count)?;
        Ok((scale_a, read_scales(memory, at_b, id_b, n, count)?))
    }
}

/// Figures 231 to 233 and 240 to 242: row r has its scales in column r / 32 of lane r % 32, from byte `id` on, and the
/// same in each of the four partitions of 32 lanes ("need to be duplicated to all 32 lane partitions", 9.7.16.10.7).
/// CUTLASS says the same: `SfKMajorAtom`, ((32,4),(V,4)):((16,4),(0,1)), copied as `32x128b.warpx4`.
fn read_scales(memory: &TensorMemory, at: u64, id: usize, rows: usize, count: usize) -> Result<Vec<u64>, Fault> {
    let (first_lane, first_column) = split(at);
    if first_lane != 0 || !id.is_multiple_of(count) || id + count > 4 {
        return Err(Fault::new(format!("scale factors at {at:#x} with ID {id}")));
    }
    let mut scales = Vec::with_capacity(rows * count);
    for row in 0..rows {
        let word = memory.get(row % 32, first_column + row / 32)?;
        for partition in 1..4 {
            if memory.get(32 * partition + row % 32, first_column + row / 32)? != word {
                return Err(Fault::new(format!("the scale factors of row {row} differ between partitions of lanes")));
            }
        }
        scales.extend((0..count).map(|j| u64::from(word >> (8 * (id + j)) & 0xff)));
    }
    Ok(scales)
}

fn packing(kind: &str, format: &str) -> Packing {
    match (kind, format) {
        ("mxf4" | "mxf4nvf4", _) => Packing::Dense(4),
        (_, "e2m1") => Packing::Padded(4),
        (_, "e2m3" | "e3m2") => Packing::Padded(6),
        (_, "e4m3" | "e5m2") => Packing::Dense(8),
        (_, "tf32") => Packing::Dense(32),
        _ => Packing::Dense(16),
    }
}

fn unit_name(kind: &str, shape: &Shape, per_row: usize) -> String {
    let k = match kind {
        "tf32" => 8,
        "f16" => 16,
        "f8f6f4" | "mxf8f6f4" => 32,
        _ => 64,
    };
    let Shape { m, n, a, b, d, scale } = shape;
    match scale {
        None => format!("tcgen05.mma.m{m}n{n}k{k}.{d}.{a}.{b}"),
        Some((format, ..)) => format!("tcgen05.mma.m{m}n{n}k{k}.block{}.{d}.{a}.{b}.{format}", k / per_row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_follow_the_tables() {
        let shape = decode("f16", 1 << 4 | 1 << 7 | 2 << 17 | 8 << 24).unwrap();
        assert_eq!((shape.m, shape.n, shape.a, shape.b, shape.d), (128, 16, "bf16", "f16", "f32"));
        let shape = decode("mxf8f6f4", 2 << 4 | 3 << 7 | 5 << 10 | 1 << 17 | 1 << 23 | 1 << 27 | 3 << 29).unwrap();
        assert_eq!((shape.m, shape.n, shape.a, shape.b), (128, 8, "e2m3", "e2m1"));
        assert_eq!(shape.scale, Some(("ue8m0", 3, 2)));
        // Transposed; M 64 of a scaled kind; N 8 with M 128.
        assert!(decode("f16", 1 << 15 | 1 << 17 | 4 << 24).is_err());
        assert!(decode("mxf4", 1 << 7 | 1 << 10 | 1 << 17 | 1 << 23).is_err());
        assert!(decode("f16", 1 << 4 | 1 << 17 | 8 << 24).is_err());
    }
}
