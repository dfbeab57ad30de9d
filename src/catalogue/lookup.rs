//! How a name finds its unit: canonical names, SASS, PTX, WMMA and AMD spellings.

use super::{base_units, catalogue};
use crate::accumulate::{Chain, Recipe, SequentialFma};
use crate::arch::{ARCHITECTURES, ArchInfo, split_architecture};
use crate::error::Error;
use crate::instr::{ScaleRule, Shape, mfma_name};
use crate::round::Rounding;
use crate::unit::{Evidence, Unit, UnitInfo, parse_shape};

/// `ARCH/INSTRUCTION` of a name that may go on with `/RECIPE`.
pub(crate) fn base_name(name: &str) -> &str {
    let second = name.match_indices('/').nth(1).map_or(name.len(), |(at, _)| at);
    &name[..second]
}

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
fn short_amd_spelling(info: &UnitInfo) -> Option<String> {
    let cdna2 = ARCHITECTURES.iter().find(|a| a.name == "cdna2")?;
    if info.a.storage_bits == 8 {
        return None;
    }
    let name = mfma_name(cdna2, info.shape, info.blocks, &info.a, &info.b, &info.d);
    // The old bf16 names of CDNA1 are other instructions; those of the `_1k` kind are these.
    (info.a.name != "bf16" || name.ends_with("_1k")).then_some(name)
}

/// Finds the unit of a name.
pub(crate) fn find(name: &str) -> Result<Unit, Error> {
    let text = name.trim();
    if text.len() > MAX_NAME || !text.is_ascii() {
        return Err(unknown(name));
    }
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("custom/") {
        return Unit::parse_custom(&lower);
    }
    let base = base_name(&lower);
    if base.len() < lower.len() {
        let unit = find(base)?;
        let recipe: Recipe = lower[base.len() + 1..].parse()?;
        return unit.with_accumulator(recipe);
    }
    match split_architecture(&lower) {
        Some((arch, instruction)) => find_on(arch, instruction, name),
        None => find_anywhere(&lower, name),
    }
}

/// Names longer than this are nobody's.
const MAX_NAME: usize = 400;

/// One architecture's unit of that instruction.
fn find_on(arch: &'static ArchInfo, instruction: &str, name: &str) -> Result<Unit, Error> {
    if let Some(why) = refusal(arch, instruction) {
        return Err(Error::RefusedUnit { name: name.into(), why });
    }
    if let Some(unit) = wmma(arch, instruction) {
        return unit;
    }
    let spelling = Spelling::of(instruction);
    let wanted = format!("{}/{}", arch.name, spelling.canonical);
    if let Some(unit) = exact(&wanted) {
        return spelling.finish(&unit, name);
    }
    if let Some(unit) = amd(arch, &spelling.canonical) {
        return Ok(unit);
    }
    if let Some(result) = sized(arch, &spelling, name) {
        return result;
    }
    match sass(arch, instruction).as_slice() {
        [] => Err(unknown_on(arch, &spelling.canonical, name)),
        [unit] => Ok(unit.clone()),
        several => Err(ambiguous(name, several)),
    }
}

/// A name without an architecture: fine if only one has it.
fn find_anywhere(instruction: &str, name: &str) -> Result<Unit, Error> {
    let mut found = Vec::new();
    let mut refused = None;
    for arch in ARCHITECTURES {
        match find_on(arch, instruction, name) {
            Ok(unit) => found.push(unit),
            Err(Error::AmbiguousUnit { fits, .. }) => found.extend(fits.iter().filter_map(|n| exact(n))),
            Err(error @ Error::RefusedUnit { .. }) => refused = Some(error),
            Err(_) => {}
        }
    }
    match found.as_slice() {
        [] => Err(refused.unwrap_or_else(|| unknown(name))),
        [unit] => Ok(unit.clone()),
        several => Err(ambiguous(name, several)),
    }
}

fn exact(canonical: &str) -> Option<Unit> {
    base_units().iter().find(|u| u.name == canonical).cloned()
}

/// An instruction's text, with PTX's qualifiers taken out.
struct Spelling {
    canonical: String,
    /// `.rz`, `.rm`, `.rp` of f64 instructions.
    rounding: Option<Rounding>,
}

impl Spelling {
    fn of(instruction: &str) -> Self {
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
    fn finish(&self, unit: &Unit, name: &str) -> Result<Unit, Error> {
        let Some(rounding) = self.rounding else { return Ok(unit.clone()) };
        if unit.d.name != "f64" {
            return Err(Error::RefusedUnit { name: name.into(), why: "only f64 instructions take a rounding".into() });
        }
        unit.with_accumulator(SequentialFma { rounding, ..SequentialFma::IEEE })
    }
}

/// AMD's names: CDNA3 also answers to the older spelling.
fn amd(arch: &ArchInfo, instruction: &str) -> Option<Unit> {
    if arch.name != "cdna3" {
        return None;
    }
    base_units().iter().find(|u| u.arch == arch.name && short_amd_spelling(u).as_deref() == Some(instruction)).cloned()
}

/// `wgmma` and `tcgen05` at sizes other than the entry's.
fn sized(arch: &ArchInfo, spelling: &Spelling, name: &str) -> Option<Result<Unit, Error>> {
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
    Ok(Unit::unchecked(UnitInfo {
        name: resized(&entry.name),
        aliases: entry.aliases.iter().map(|a| columns(a)).collect(),
        shape,
        ..UnitInfo::clone(entry)
    }))
}

/// SASS names: complete, or with trailing parts left out if that stays unambiguous.
fn sass(arch: &ArchInfo, instruction: &str) -> Vec<Unit> {
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
        Some(n) => resize(unit, Family::Wgmma, Shape { n, ..unit.shape }, instruction).ok(),
        None => Some(unit.clone()),
    };
    found.into_iter().filter_map(size).collect()
}

/// `hgmma.64x128x16.f32` as the entry's `hgmma.64x8x16.f32`, and 128.
fn sass_columns(instruction: &str) -> (String, Option<usize>) {
    let mut words: Vec<&str> = instruction.split('.').collect();
    let is_group = matches!(words.first(), Some(&("hgmma" | "qgmma")));
    let shape = words.get(1).map(|w| w.split('x').collect::<Vec<_>>());
    if let (true, Some(&[m, n, k])) = (is_group, shape.as_deref())
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
fn wmma(arch: &'static ArchInfo, instruction: &str) -> Option<Result<Unit, Error>> {
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
    info.aliases.clear();
    if parts > 1 {
        // The recipe of one step runs the longer K as a chain.
        let Some(recipe) = step.recipe else { return Ok(step.clone()) };
        info.accumulator = std::sync::Arc::new(Chain { parts, each: recipe });
    }
    Unit::from_info(info)
}

/// Why a name that is understood has no unit here.
fn refusal(arch: &ArchInfo, instruction: &str) -> Option<String> {
    let words: Vec<&str> = instruction.split(['.', '_']).collect();
    let has = |names: &[&str]| words.iter().any(|w| names.contains(w));
    if has(&["sp", "sp::ordered", "sparse"]) || instruction.contains("smfmac") || instruction.contains(".sp::") {
        return Some("sparse units are not modelled".into());
    }
    let integer = ["s8", "u8", "s4", "u4", "b1", "s32", "i32", "i8", "imma", "igmma", "utcimma", "bmma"];
    if has(&integer) || (instruction.starts_with("v_mfma_i32")) {
        return Some("integer units are exact and are not modelled".into());
    }
    if arch.name == "cdna3"
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

fn ambiguous(name: &str, units: &[Unit]) -> Error {
    Error::AmbiguousUnit { name: name.into(), fits: units.iter().map(|u| u.name.clone()).collect() }
}

/// No such instruction on a known architecture: suggest its nearest ones.
fn unknown_on(arch: &ArchInfo, instruction: &str, name: &str) -> Error {
    let wanted = format!("{}/{instruction}", arch.name);
    Error::UnknownUnit { name: name.into(), suggestions: nearest(&wanted, |u| u.arch == arch.name) }
}

fn unknown(name: &str) -> Error {
    let short: String = name.chars().take(60).collect();
    Error::UnknownUnit { suggestions: nearest(&short.to_lowercase(), |_| true), name: short }
}

/// The three nearest names among the chosen units: canonical ones, or aliases where those are nearer.
fn nearest(wanted: &str, among: impl Fn(&Unit) -> bool) -> Vec<String> {
    let mut scored: Vec<(f64, String)> = Vec::new();
    for unit in base_units().iter().filter(|u| among(u)) {
        let (_, instruction) = unit.name.split_once('/').unwrap_or_default();
        let spellings = [unit.name.as_str(), instruction].into_iter().chain(unit.aliases.iter().map(String::as_str));
        let score = spellings.map(|s| strsim::jaro_winkler(wanted, &s.to_lowercase())).fold(0.0, f64::max);
        scored.push((score, unit.name.clone()));
    }
    scored.sort_by(|x, y| y.0.total_cmp(&x.0));
    scored.into_iter().take(3).filter(|(score, _)| *score > 0.6).map(|(_, name)| name).collect()
}
