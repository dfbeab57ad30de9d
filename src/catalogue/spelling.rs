//! How vendors and tools spell an instruction.

use crate::accumulate::SequentialFma;
use crate::arch::{ARCHITECTURES, ArchInfo};
use crate::error::Error;
use crate::instr::{ScaleRule, mfma_name};
use crate::round::Rounding;
use crate::unit::{Unit, UnitInfo};

/// The other names a row answers to, as shown to people.
pub(super) fn aliases(arch: &ArchInfo, info: &UnitInfo, sass: &str) -> Vec<String> {
    let mut names = Vec::new();
    if !sass.is_empty() && !sass.starts_with("UTC") {
        names.extend(arch.gpus.first().map(|gpu| format!("{gpu} {sass}")));
    }
    let instruction = info.name.split_once('/').map_or("", |(_, i)| i);
    if let Some(ptx) = ptx_spelling(instruction, info.scale) {
        names.push(format!("{} {ptx}", arch.target));
    }
    if arch.name == "cdna3" {
        names.extend(short_amd_spelling(info).map(|short| format!("cdna3 {short}")));
    }
    names
}

/// The PTX text of a canonical instruction, where shape and types are all in it.
fn ptx_spelling(instruction: &str, scale: Option<ScaleRule>) -> Option<String> {
    if let Some(rest) = instruction.strip_prefix("wgmma.") {
        return Some(format!("wgmma.mma_async.sync.aligned.{rest}"));
    }
    let rest = instruction.strip_prefix("mma.")?;
    let (shape, types) = rest.split_once('.')?;
    let Some(rule) = scale else {
        let narrow = ["e2m1", "e2m3", "e3m2"].iter().any(|t| types.contains(t));
        let kind = if narrow { ".kind::f8f6f4" } else { "" };
        return Some(format!("mma.sync.aligned.{shape}.row.col{kind}.{types}"));
    };
    let types = types.split_once('.').map_or("", |(_, t)| t);
    let (kind, vector) = match (shape.ends_with("k64"), rule.block, rule.format.name) {
        (false, ..) => ("mxf8f6f4", "1X"),
        (true, 32, _) => ("mxf4", "2X"),
        (true, ..) => ("mxf4nvf4", "4X"),
    };
    Some(format!("mma.sync.aligned.{shape}.row.col.kind::{kind}.block_scale.scale_vec::{vector}.{types}"))
}

/// CDNA1's and CDNA2's spelling of a CDNA3 instruction.
pub(super) fn short_amd_spelling(info: &UnitInfo) -> Option<String> {
    let cdna2 = ARCHITECTURES.iter().find(|a| a.name == "cdna2")?;
    if info.a.storage_bits == 8 {
        return None;
    }
    let name = mfma_name(cdna2, info.shape, info.blocks, &info.a, &info.b, &info.d);
    // The old bf16 names of CDNA1 are other instructions; those of the `_1k` kind are these.
    (info.a.name != "bf16" || name.ends_with("_1k")).then_some(name)
}

/// An instruction's text, with PTX's qualifiers taken out.
pub(super) struct Spelling {
    pub(super) canonical: String,
    /// `.rz`, `.rm`, `.rp` of f64 instructions.
    rounding: Option<Rounding>,
}

impl Spelling {
    pub(super) fn of(instruction: &str) -> Self {
        let mut rounding = None;
        let mut words: Vec<String> = Vec::new();
        let is_mx = instruction.contains("kind::mx");
        for word in instruction.split('.') {
            let word = word.trim().trim_end_matches(';');
            match word {
                "sync" | "aligned" | "row" | "col" | "mma_async" | "block_scale" | "rn" | "" => {}
                "cta_group::1" | "cta_group::2" => {}
                "rz" => rounding = Some(Rounding::TowardZero),
                "rm" => rounding = Some(Rounding::Down),
                "rp" => rounding = Some(Rounding::Up),
                "scale_vec::1x" | "scale_vec::2x" => words.push("block32".into()),
                "scale_vec::4x" => words.push("block16".into()),
                _ if word.starts_with("kind::") => {}
                _ => words.push(word.into()),
            }
        }
        if is_mx && !words.iter().any(|w| w.starts_with("block")) && words.len() > 2 {
            words.insert(2, "block32".into());
        }
        Self { canonical: words.join("."), rounding }
    }

    /// Applies a rounding qualifier.
    pub(super) fn finish(&self, unit: &Unit, name: &str) -> Result<Unit, Error> {
        let Some(rounding) = self.rounding else { return Ok(unit.clone()) };
        if unit.d.name != "f64" {
            return Err(Error::RefusedUnit { name: name.into(), why: "only f64 instructions take a rounding".into() });
        }
        unit.with_accumulator(SequentialFma { rounding, ..SequentialFma::IEEE })
    }
}

/// Why a name that is understood has no unit here.
pub(super) fn refusal(arch: &ArchInfo, instruction: &str) -> Option<String> {
    let words: Vec<&str> = instruction.split(['.', '_']).collect();
    let has = |names: &[&str]| words.iter().any(|w| names.contains(w));
    if has(&["sp", "sp::ordered", "sparse"]) || instruction.contains("smfmac") || instruction.contains(".sp::") {
        return Some("sparse units are not modelled".into());
    }
    let integer = ["s8", "u8", "s4", "u4", "b1", "s32", "i32", "i8", "imma", "igmma", "utcimma", "bmma", "kind::i8"];
    if has(&integer) || (instruction.starts_with("v_mfma_i32")) {
        return Some("integer units are exact and are not modelled".into());
    }
    if arch.name == "cdna3"
        && instruction.contains("mfma")
        && instruction.contains("bf16")
        && !instruction.ends_with("_1k")
        && !instruction.contains("_bf16")
    {
        return Some(
            "this is CDNA1's and CDNA2's bf16 instruction, of another K or rounding; CDNA3 has the bf16_1k shapes, \
             such as v_mfma_f32_32x32x8_bf16"
                .into(),
        );
    }
    let queried = instruction.starts_with("qmma");
    if queried && (arch.name == "hopper" || arch.name == "blackwell") {
        return Some(
            "there is no QMMA on this architecture: mma.sync with fp8 runs as HMMA; name the mma.sync unit".into(),
        );
    }
    None
}
