//! Instructions of many sizes and of several steps: `wgmma`, `tcgen05`, their SASS names, WMMA.

use super::lookup::exact;
use super::spelling::Spelling;
use super::{base_units, catalogue};
use crate::accumulate::Chain;
use crate::arch::ArchInfo;
use crate::error::Error;
use crate::instr::Shape;
use crate::unit::{Evidence, Unit, UnitInfo, parse_shape};

/// `wgmma` and `tcgen05` at sizes other than the entry's.
pub(super) fn sized(arch: &ArchInfo, spelling: &Spelling, name: &str) -> Option<Result<Unit, Error>> {
    let words: Vec<&str> = spelling.canonical.split('.').collect();
    let (at, scaled) = match words.as_slice() {
        ["wgmma", ..] => (1, false),
        ["tcgen05", "mma", _, rest @ ..] => (2, rest.first().is_some_and(|w| w.starts_with("block"))),
        _ => return None,
    };
    let shape = parse_shape(words.get(at)?)?;
    let family = if words[0] == "wgmma" {
        Family::Wgmma
    } else if scaled {
        Family::Scaled
    } else {
        Family::Tcgen05
    };
    let (m, n) = family.entry();
    let entry_shape = Shape { m, n, ..shape }.to_string();
    let mut entry_words = words.clone();
    entry_words[at] = &entry_shape;
    let entry = exact(&format!("{}/{}", arch.name, entry_words.join(".")))?;
    Some(resize(&entry, family, shape, name))
}

/// The instruction families that come in many sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Wgmma,
    Tcgen05,
    Scaled,
}

impl Family {
    const fn entry(self) -> (usize, usize) {
        match self {
            Self::Wgmma | Self::Tcgen05 => (64, 8),
            Self::Scaled => (128, 8),
        }
    }

    const fn is_legal(self, m: usize, n: usize) -> bool {
        let step = match (self, m) {
            (Self::Wgmma | Self::Tcgen05, 64) | (Self::Scaled, 128) => 8,
            (Self::Tcgen05, 128) => 16,
            (Self::Tcgen05, 256) => 32,
            _ => return false,
        };
        n >= step && n <= 256 && n.is_multiple_of(step)
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Wgmma => "wgmma has m = 64 and n = 8, 16, ... 256",
            Self::Tcgen05 => {
                "tcgen05.mma has m = 64 with n = 8, 16, ... 256, m = 128 with n = 16, 32, ... 256, and m = 256 with n = 32, 64, ... 256"
            }
            Self::Scaled => "block-scaled tcgen05.mma has m = 128 and n = 8, 16, ... 256",
        }
    }
}

fn resize(entry: &Unit, family: Family, shape: Shape, name: &str) -> Result<Unit, Error> {
    if !family.is_legal(shape.m, shape.n) {
        return Err(Error::RefusedUnit { name: name.into(), why: family.rule().into() });
    }
    let (old, new) = (entry.shape.to_string(), shape.to_string());
    let resized = |text: &str| text.replacen(&old, &new, 1);
    let columns = |text: &str| resized(text).replacen(".64x8x", &format!(".64x{}x", shape.n), 1);
    let pair = shape.m == 256;
    Ok(Unit::unchecked(UnitInfo {
        evidence: if pair { Evidence::ModelOnly } else { entry.evidence },
        source: if pair { "modelled on the same unit with m = 128" } else { entry.source },
        name: resized(&entry.name),
        aliases: entry.aliases.iter().map(|a| columns(a)).collect(),
        shape,
        ..UnitInfo::clone(entry)
    }))
}

/// SASS names: complete, or with trailing parts left out if that stays unambiguous.
pub(super) fn sass(arch: &ArchInfo, instruction: &str, name: &str) -> Result<Vec<Unit>, Error> {
    let (wanted, columns) = sass_columns(instruction);
    let of_arch = || base_units().iter().zip(&catalogue().sass).filter(|(u, s)| u.arch == arch.name && !s.is_empty());
    let matches = |prefix: bool| -> Vec<&Unit> {
        let fits = |s: &str| {
            let s = s.to_ascii_lowercase();
            s == wanted || (prefix && s.starts_with(&format!("{wanted}.")))
        };
        of_arch().filter(|(_, s)| fits(s)).map(|(u, _)| u).collect()
    };
    let found = if matches(false).is_empty() { matches(true) } else { matches(false) };
    let size = |unit: &Unit| match columns {
        Some(n) => resize(unit, Family::Wgmma, Shape { n, ..unit.shape }, name),
        None => Ok(unit.clone()),
    };
    found.into_iter().map(size).collect()
}

/// `hgmma.64x128x16.f32` as the entry's `hgmma.64x8x16.f32`, and 128.
pub(super) fn sass_columns(instruction: &str) -> (String, Option<usize>) {
    let mut words: Vec<&str> = instruction.split('.').collect();
    let shape = words.get(1).map(|w| w.split('x').collect::<Vec<_>>());
    // Only a warp group's products have 64 rows.
    if let Some(&[m @ "64", n, k]) = shape.as_deref()
        && let Ok(columns) = n.parse()
    {
        let entry = format!("{m}x8x{k}");
        words[1] = &entry;
        return (words.join("."), Some(columns));
    }
    (instruction.into(), None)
}

/// The WMMA API's names, which the compiler turns into chains: two m16n8k16 side by side from
/// Ampere on, m16n8k8 twice in K order on Turing, m8n8k4 four times on Volta; tf32 is m16n8k4
/// twice on every architecture.
pub(super) fn wmma(arch: &'static ArchInfo, instruction: &str) -> Option<Result<Unit, Error>> {
    let rest = instruction.strip_prefix("wmma.")?;
    let skipped = ["mma", "sync", "aligned", "row", "col", "rn"];
    let words: Vec<&str> = rest.split('.').filter(|w| !skipped.contains(w)).collect();
    let shape = parse_shape(words.first()?)?;
    let (d, a, c) = match words[1..] {
        [d, a, b, c] if a == b => (d, a, c),
        // The f16 form of the PTX text names d and c only.
        [d, c] => (d, "f16", c),
        [d] => (d, "f16", d),
        _ => return None,
    };
    let legal = [(16, 16), (32, 8), (8, 32)].contains(&(shape.m, shape.n));
    let (step, parts) = match (a, shape.k) {
        ("f16" | "bf16", 16) if legal => match arch.name {
            "volta" => ("m8n8k4", 4),
            "turing" => ("m16n8k8", 2),
            _ => ("m16n8k16", 1),
        },
        ("tf32", 8) if (shape.m, shape.n) == (16, 16) => ("m16n8k4", 2),
        _ => return None,
    };
    let unit = exact(&format!("{}/mma.{step}.{d}.{a}.{a}.{c}", arch.name))?;
    let name = format!("{}/wmma.{shape}.{d}.{a}.{a}.{c}", arch.name);
    Some(wmma_unit(&unit, shape, parts, name))
}

fn wmma_unit(step: &Unit, shape: Shape, parts: usize, name: String) -> Result<Unit, Error> {
    let mut info = UnitInfo { name, shape, blocks: 1, evidence: Evidence::CompilerOutput, ..UnitInfo::clone(step) };
    info.source = "instructions emitted by ptxas 13; Khattak and Mikaitis";
    if step.arch == "volta" {
        // ptxas 13 no longer knows sm_70.
        (info.evidence, info.source) = (Evidence::ModelOnly, "Fasi et al. 3: four steps of m8n8k4 in K order");
    }
    info.aliases.clear();
    if parts > 1 {
        // The recipe of one step runs the longer K as a chain.
        let Some(recipe) = step.recipe else { return Ok(step.clone()) };
        info.accumulator = std::sync::Arc::new(Chain { parts, each: recipe });
    }
    Unit::from_info(info)
}
