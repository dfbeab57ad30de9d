//! `mma.sync` (9.7.14.5).

use super::fragments::{self as at, Place};
use super::{Matrix, from_container, operand};
use crate::Fault;
use crate::block::Registers;
use crate::ptx::{Argument, Operand};
use gemmulate::Unit;

/// What the opcode says.
#[derive(Debug)]
pub(crate) struct Form {
    shape: String,
    d: String,
    a: String,
    b: String,
    c: String,
    /// Scales per row: N of `.scale_vec::NX`.
    scales: usize,
    scale_format: Option<String>,
    rounding: Option<String>,
}

type Layout = fn(usize, usize) -> Place;

impl Form {
    pub(crate) fn parse(parts: &[&str]) -> Result<Self, Fault> {
        let bad = || Fault::new("this mma is not supported");
        let mut rest = parts.iter().skip(1).copied().filter(|part| !["sync", "aligned", "row", "col"].contains(part));
        if parts.iter().filter(|&&part| part == "col").count() != 1 || !parts.contains(&"row") {
            return Err(Fault::new("only .row.col is supported"));
        }
        let shape = rest.next().filter(|part| part.starts_with('m')).ok_or_else(bad)?.to_string();
        let (mut kind, mut scales, mut types) = (None, None, Vec::new());
        for part in rest {
            if let Some(name) = part.strip_prefix("kind::") {
                kind = Some(name.to_string());
            } else if let Some(size) = part.strip_prefix("scale_vec::") {
                scales = Some(size.trim_end_matches('X').parse().map_err(|_| bad())?);
            } else if part == "block_scale" {
                // The defaults of 9.7.14.5; `.kind::mxf4nvf4` has none.
                scales = scales.or(match kind.as_deref() {
                    Some("mxf8f6f4") => Some(1),
                    Some("mxf4") => Some(2),
                    _ => None,
                });
            } else {
                types.push(part.to_string());
            }
        }
        let (last, scales) = (types.get(4).cloned(), scales.unwrap_or(0));
        let [d, a, b, c] = types.get(..4).and_then(|t| <[String; 4]>::try_from(t.to_vec()).ok()).ok_or_else(bad)?;
        let (scale_format, rounding) = if scales > 0 { (last, None) } else { (None, last) };
        Ok(Self { shape, d, a, b, c, scales, scale_format, rounding })
    }

    fn k(&self) -> usize {
        self.shape.rsplit('k').next().and_then(|k| k.parse().ok()).unwrap_or(0)
    }

    /// The catalogue's name.
    pub(crate) fn unit_name(&self) -> String {
        let Self { shape, d, a, b, c, .. } = self;
        match (&self.scale_format, &self.rounding) {
            (Some(scale), _) => format!("mma.{shape}.block{}.{d}.{a}.{b}.{c}.{scale}", self.k() / self.scales),
            (None, Some(rounding)) => format!("mma.{shape}.{d}.{a}.{b}.{c}.{rounding}"),
            (None, None) => format!("mma.{shape}.{d}.{a}.{b}.{c}"),
        }
    }

    /// Layouts of A, B, C and D.
    fn layouts(&self) -> Result<[Layout; 4], Fault> {
        let c_of = |format: &str| if format == "f16" { at::c_m8n8k4_f16 } else { at::c_m8n8k4_f32 };
        let [a, b]: [Layout; 2] = match (self.shape.as_str(), self.a.as_str()) {
            ("m8n8k4", "f16") => return Ok([at::a_m8n8k4_f16, at::b_m8n8k4_f16, c_of(&self.c), c_of(&self.d)]),
            ("m8n8k4", "f64") => return Ok([at::a_m8n8k4_f64, at::b_m8n8k4_f64, at::c_m8n8k4_f64, at::c_m8n8k4_f64]),
            ("m16n8k4", "tf32" | "f64") => [at::a_m16n8k4, at::b_m16n8k4],
            ("m16n8k8", "f16" | "bf16") => [at::a_m16n8k8_f16, at::b_m16n8k8_f16],
            ("m16n8k8", "tf32" | "f64") => [at::a_m16n8k8_tf32, at::b_m16n8k8_tf32],
            ("m16n8k16", "f16" | "bf16") => [at::a_m16n8k16_f16, at::b_m16n8k16_f16],
            ("m16n8k16", "f64") => [at::a_m16n8k16_f64, at::b_m16n8k16_f64],
            ("m16n8k16", "e4m3" | "e5m2") => [at::a_m16n8k16_f8, at::b_m16n8k16_f8],
            ("m16n8k32", "e4m3" | "e5m2" | "e3m2" | "e2m3" | "e2m1") => [at::a_m16n8k32, at::b_m16n8k32],
            ("m16n8k64", "e2m1") => [at::a_m16n8k64, at::b_m16n8k64],
            _ => return Err(Fault::new("no layout for this shape and type")),
        };
        Ok([a, b, at::c_m16n8, at::c_m16n8])
    }

    /// Bits of an operand's element in a register.
    fn bits(&self, format: &str) -> u32 {
        match format {
            "f64" => 64,
            "f32" | "tf32" => 32,
            "f16" | "bf16" => 16,
            _ if self.shape == "m16n8k64" => 4,
            _ => 8,
        }
    }

    /// Several independent products: of a lane, which one.
    fn product(&self, lane: usize) -> usize {
        if self.shape == "m8n8k4" && self.a == "f16" { at::quadrant_product(lane) } else { 0 }
    }
}

/// One warp's instruction.
pub(crate) fn execute(
    form: &Form,
    unit: &Unit,
    operands: &[Argument],
    warp: &[usize],
    registers: &mut Registers,
) -> Result<(), Fault> {
    let [layout_a, layout_b, layout_c, layout_d] = form.layouts()?;
    let (m, n, k) = (unit.shape.m, unit.shape.n, unit.shape.k);
    let gather = |which: usize, format: &str, layout: Layout, rows: usize, columns: usize| {
        let vector = elements(operand(operands, which)?)?;
        let mut products: Vec<Matrix> = (0..unit.blocks).map(|_| Matrix::new(rows, columns)).collect();
        let (bits, register_bits) = (form.bits(format), if format == "f64" { 64 } else { 32 });
        let per_register = (register_bits / bits) as usize;
        for (lane, &thread) in warp.iter().enumerate() {
            for i in 0..vector.len() * per_register {
                let value = registers.value(vector[i / per_register], thread) >> ((i % per_register) as u32 * bits);
                let code = if bits == 64 { value } else { value & ((1 << bits) - 1) };
                let code = if bits == 8 { from_container(format, code)? } else { code };
                let (row, column) = layout(lane, i);
                products[form.product(lane)].set(row, column, code)?;
            }
        }
        let complete: Result<Vec<_>, Fault> = products.into_iter().map(Matrix::complete).collect();
        Ok::<_, Fault>(complete?.concat())
    };
    let a = gather(1, &form.a, layout_a, m, k)?;
    let b = gather(2, &form.b, layout_b, k, n)?;
    let c = gather(3, &form.c, layout_c, m, n)?;
    let (scale_a, scale_b) = scales(form, unit, operands, warp, registers)?;
    let d = unit.mma_scaled_bits(&a, &b, &c, &scale_a, &scale_b).map_err(|error| Fault::new(error.to_string()))?;
    scatter(form, operands, warp, registers, layout_d, &d, (m, n))
}

fn elements(argument: &Argument) -> Result<&[Operand], Fault> {
    match argument {
        Argument::Vector(parts) => Ok(parts),
        Argument::One(one) => Ok(std::slice::from_ref(one)),
        Argument::Memory(_) => Err(Fault::new("a vector of registers was expected")),
    }
}

/// D from the matrix to the registers.
fn scatter(
    form: &Form,
    operands: &[Argument],
    warp: &[usize],
    registers: &mut Registers,
    layout: Layout,
    d: &[u64],
    (m, n): (usize, usize),
) -> Result<(), Fault> {
    let bits = form.bits(&form.d);
    let per_register = if bits == 16 { 2 } else { 1 };
    for (lane, &thread) in warp.iter().enumerate() {
        for (r, &to) in elements(operand(operands, 0)?)?.iter().enumerate() {
            let Operand::Register(to) = to else { return Err(Fault::new("D must be registers")) };
            let value = (0..per_register).fold(0, |value, part| {
                let (row, column) = layout(lane, r * per_register + part);
                value | d[(form.product(lane) * m + row) * n + column] << (part as u32 * bits)
            });
            registers.set(to, thread, value);
        }
    }
    Ok(())
}

/// scale_A (M x scales) and scale_B (scales x N), row-major (9.7.14.3). Operands 4 to 7: `scale-a-data`,
/// `{byte-id-a, thread-id-a}`, `scale-b-data`, `{byte-id-b, thread-id-b}`.
fn scales(
    form: &Form,
    unit: &Unit,
    operands: &[Argument],
    warp: &[usize],
    registers: &Registers,
) -> Result<(Vec<u64>, Vec<u64>), Fault> {
    let count = form.scales;
    if count == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut scale_a = Matrix::new(unit.shape.m, count);
    let mut scale_b = Matrix::new(count, unit.shape.n);
    let selector = |at: usize| match elements(operand(operands, at)?)? {
        [byte, thread] => Ok((registers.uniform(*byte, warp)? as usize, registers.uniform(*thread, warp)? as usize)),
        _ => Err(Fault::new("{byte-id, thread-id} was expected")),
    };
    let ((byte_a, thread_a), (byte_b, thread_b)) = (selector(5)?, selector(7)?);
    // Table 37.
    let byte_ok = |byte: usize| byte.is_multiple_of(count) && byte + count <= 4;
    if !byte_ok(byte_a) || !byte_ok(byte_b) || thread_a > 1 || thread_b > 3 {
        return Err(Fault::new("a selector of scales is out of range"));
    }
    let byte_of = |at: usize, lane: usize, byte: usize| {
        let data = registers.value(elements(operand(operands, at)?)?[0], warp[lane]);
        Ok::<_, Fault>(data >> (8 * byte) & 0xff)
    };
    for lane in 0..32 {
        for j in 0..count {
            if let Some(row) = at::scale_a_row(lane, thread_a) {
                scale_a.set(row, j, byte_of(4, lane, byte_a + j)?)?;
            }
            if let Some(column) = at::scale_b_column(lane, thread_b) {
                scale_b.set(j, column, byte_of(6, lane, byte_b + j)?)?;
            }
        }
    }
    Ok((scale_a.complete()?, scale_b.complete()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_name_units() {
        for (opcode, name) in [
            ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k8.f32.tf32.tf32.f32"),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz", "mma.m8n8k4.f64.f64.f64.f64.rz"),
            ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32", "mma.m16n8k32.f32.e3m2.e2m1.f32"),
            (
                "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
                "mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
            ),
        ] {
            assert_eq!(Form::parse(&opcode.split('.').collect::<Vec<_>>()).unwrap().unit_name(), name);
        }
    }
}
