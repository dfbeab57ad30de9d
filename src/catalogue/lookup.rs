//! How a name finds its unit: canonical names, SASS, PTX, WMMA and AMD spellings.

use super::base_units;
use super::sizes::{sass, sass_columns, sized, wmma};
use super::spelling::{Spelling, refusal, short_amd_spelling};
use crate::accumulate::Recipe;
use crate::arch::{ARCHITECTURES, ArchInfo, split_architecture};
use crate::error::Error;
use crate::format::F32;
use crate::unit::{Unit, UnitInfo};

/// `ARCH/INSTRUCTION` of a name that may go on with `/RECIPE`.
pub(crate) fn base_name(name: &str) -> &str {
    let second = name.match_indices('/').nth(1).map_or(name.len(), |(at, _)| at);
    &name[..second]
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
    if let Some((model, custom)) = VALPEY.iter().find(|(model, _)| *model == lower) {
        let unit = Unit::parse_custom(custom)?;
        let source = "Valpey et al., Algorithm 1";
        return Unit::from_info(UnitInfo { name: (*model).into(), source, ..(*unit).clone() });
    }
    let base = base_name(&lower);
    let canonical = (base.len() < lower.len()).then(|| (base, &lower[base.len() + 1..]));
    // Behind any other spelling, too: `A100 HMMA.16816.F32/dot:block=8:F=25`.
    let changes = |(_, text): &(_, &str)| Recipe::is_text_of_a_family(text) || Recipe::is_text_of_parameters(text);
    let spelled = || lower.rsplit_once('/').filter(changes);
    if let Some((base, text)) = canonical.or_else(spelled) {
        let unit = find(base)?;
        if Recipe::is_text_of_parameters(text) {
            return unit.with_parameters(text);
        }
        return unit.with_accumulator(text.parse::<Recipe>()?);
    }
    if let Some((gpu, family)) = UNMODELLED.iter().find(|(gpu, _)| starts_with_word(&lower, gpu)) {
        let why = format!("{family} ({gpu}) is not modelled; its units may differ from every other architecture's");
        return Err(Error::RefusedUnit { name: name.into(), why });
    }
    match split_architecture(&lower) {
        Some((arch, "")) => {
            let why = format!(
                "a GPU or architecture ({}) alone is no unit: add an instruction, such as `{}`",
                arch.name,
                example(arch)
            );
            Err(Error::RefusedUnit { name: name.into(), why })
        }
        Some((arch, instruction)) => find_on(arch, instruction, name),
        None => find_anywhere(&lower, name),
    }
}

/// Algorithm 1 of Valpey et al., a model beside this catalogue's: products are normalised to f32,
/// nothing bounds the largest exponent below, and a NaN has its top fraction bit set.
const VALPEY: [(&str, &str); 3] = [
    ("valpey/volta", "custom/m8n8k4.f32.f16.f16.f32/dot:block=4:F=23:normalise=yes:e_zero=none:nan=quiet"),
    ("valpey/turing", "custom/m8n8k4.f32.f16.f16.f32/dot:block=4:F=24:normalise=yes:e_zero=none:nan=quiet"),
    ("valpey/ampere", "custom/m16n8k8.f32.f16.f16.f32/dot:block=8:F=24:normalise=yes:e_zero=none:nan=quiet"),
];

/// GPUs that nothing public describes to the bit.
const UNMODELLED: [(&str, &str); 12] = [
    ("b300", "Blackwell Ultra"),
    ("gb300", "Blackwell Ultra"),
    ("sm_103", "Blackwell Ultra"),
    ("sm_103a", "Blackwell Ultra"),
    ("sm_110", "Thor"),
    ("sm_110a", "Thor"),
    ("sm_72", "Xavier"),
    ("mi350x", "CDNA4"),
    ("mi355x", "CDNA4"),
    ("gfx950", "CDNA4"),
    ("cdna4", "CDNA4"),
    ("gfx940", "CDNA3's first stepping"),
];

/// Whether a text begins with a word, ended by a blank or a slash, a vendor's name before it or not.
fn starts_with_word(text: &str, word: &str) -> bool {
    let text =
        ["nvidia ", "amd ", "instinct "].iter().fold(text, |text, vendor| text.strip_prefix(vendor).unwrap_or(text));
    text.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '/', '\t']))
}

/// The name of a unit that multiplies f16, as libraries use it there.
fn example(arch: &ArchInfo) -> String {
    nearest("f16", |u| u.arch == arch.name).into_iter().next().unwrap_or_default()
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
    let found = if spelling.canonical.starts_with("tcgen05.mma") {
        of_kind(arch, instruction)
    } else {
        sass(arch, instruction, name)?
    };
    match found.as_slice() {
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
        [] => Err(refused.or_else(|| unknown_architecture(instruction, name)).unwrap_or_else(|| unknown(name))),
        [unit] => Ok(unit.clone()),
        several => Err(ambiguous(name, several)),
    }
}

/// The error of a name whose first word is no GPU or architecture known here, before what is an instruction of others:
/// a unit of these is not meant.
fn unknown_architecture(lower: &str, name: &str) -> Option<Error> {
    let (gpu, instruction) = lower.split_once([' ', '/'])?;
    // A slip of the pen, unless it is another number.
    let slip = |arch: &ArchInfo| strsim::normalized_damerau_levenshtein(gpu, arch.name) > 0.7;
    if !gpu.contains(|c: char| c.is_ascii_digit()) && ARCHITECTURES.iter().any(slip) {
        return None;
    }
    let has = |arch: &'static ArchInfo| {
        matches!(find_on(arch, instruction, name), Ok(_) | Err(Error::AmbiguousUnit { .. })).then_some(arch)
    };
    let arch = ARCHITECTURES.iter().find_map(has)?;
    let why = format!(
        "`{gpu}` is no GPU or architecture known here (`gemmulate units --arch NAME` lists an architecture's units); {} \
         has such an instruction",
        arch.name
    );
    Some(Error::RefusedUnit { name: name.into(), why })
}

pub(super) fn exact(canonical: &str) -> Option<Unit> {
    base_units().iter().find(|u| u.name == canonical).cloned()
}

/// `tcgen05.mma` as PTX writes it: a kind, with shape and types in a descriptor.
fn of_kind(arch: &ArchInfo, instruction: &str) -> Vec<Unit> {
    let Some(kind) = instruction.split('.').find_map(|w| w.strip_prefix("kind::")) else { return Vec::new() };
    let four = instruction.contains("scale_vec::4x");
    let two = instruction.contains("scale_vec::2x") || kind == "mxf4";
    let fits = |u: &&Unit| match kind {
        "tf32" => u.scale.is_none() && u.shape.k == 8,
        "f16" => u.scale.is_none() && u.shape.k == 16,
        "f8f6f4" => u.scale.is_none() && u.shape.k == 32,
        "mxf8f6f4" => u.scale.is_some() && u.shape.k == 32,
        "mxf4" | "mxf4nvf4" => {
            u.shape.k == 64 && u.scale.is_some_and(|s| (!four || s.block == 16) && (!two || s.block == 32))
        }
        _ => false,
    };
    base_units().iter().filter(|u| u.arch == arch.name && u.name.contains("/tcgen05")).filter(fits).cloned().collect()
}

/// AMD's names: CDNA3 also answers to the older spelling.
fn amd(arch: &ArchInfo, instruction: &str) -> Option<Unit> {
    if arch.name != "cdna3" {
        return None;
    }
    base_units().iter().find(|u| u.arch == arch.name && short_amd_spelling(u).as_deref() == Some(instruction)).cloned()
}

fn ambiguous(name: &str, units: &[Unit]) -> Error {
    Error::AmbiguousUnit { name: name.into(), fits: units.iter().map(|u| u.name.clone()).collect() }
}

/// No such instruction on a known architecture: suggest its nearest ones.
fn unknown_on(arch: &ArchInfo, instruction: &str, name: &str) -> Error {
    // SASS names of many columns stand in the catalogue with 8.
    let (instruction, _) = sass_columns(instruction);
    Error::UnknownUnit { name: name.into(), suggestions: nearest(&instruction, |u| u.arch == arch.name) }
}

fn unknown(name: &str) -> Error {
    let short: String = name.chars().take(60).collect();
    Error::UnknownUnit { suggestions: nearest(&short.to_lowercase(), |_| true), name: short }
}

/// The three nearest names among the chosen units: by whole words, then by any of their names, with the architecture or
/// without.
fn nearest(wanted: &str, among: impl Fn(&Unit) -> bool) -> Vec<String> {
    let words: Vec<&str> =
        words(wanted).map(|word| SYNONYMS.iter().find(|s| s.0 == word).map_or(word, |s| s.1)).collect();
    let mut scored: Vec<(f64, String)> = Vec::new();
    for unit in base_units().iter().filter(|u| among(u)) {
        let instruction = |name: &str| name.split_once(['/', ' ']).map(|(_, rest)| rest.to_ascii_lowercase());
        let names = || [&unit.name].into_iter().chain(&unit.aliases);
        let spellings: Vec<String> =
            names().map(|name| name.to_ascii_lowercase()).chain(names().filter_map(|name| instruction(name))).collect();
        // A type is meant for the operands first.
        let of_operands = |word: &str| {
            let is = |name: &str| name.strip_suffix("fnuz").unwrap_or(name) == word;
            [unit.a.name, unit.b.name].into_iter().filter(|name| is(name)).count() as f64
        };
        let word = |word: &&str| {
            let (found, operands) = (spellings.iter().any(|s| self::words(s).any(|w| w == *word)), of_operands(word));
            if found || operands > 0.0 { 1.0 + operands / 4.0 } else { 0.0 }
        };
        let found: Vec<f64> = words.iter().map(word).collect();
        let all = !found.is_empty() && found.iter().all(|found| *found > 0.0);
        // What has all words is near, however it is spelled.
        let spelled = spellings.iter().map(|s| strsim::jaro_winkler(wanted, s)).fold(0.0, f64::max);
        let spelled = if all { 1.0 } else { spelled };
        let found: f64 = found.iter().sum();
        // Plain units come before block-scaled ones, and what libraries use before the rest.
        let plain = if unit.scale.is_none() { 0.2 } else { 0.0 };
        let library = if ["/wgmma.", "/tcgen05."].iter().any(|kind| unit.name.contains(kind)) { 0.1 } else { 0.0 };
        let common = plain + library + if unit.d == F32 { 0.1 } else { 0.0 } + unit.shape.k as f64 / 1000.0;
        scored.push((spelled + found + if found > 0.0 { common } else { 0.0 }, unit.name.clone()));
    }
    scored.sort_by(|x, y| y.0.total_cmp(&x.0));
    scored.into_iter().take(3).filter(|(score, _)| *score > 0.6).map(|(_, name)| name).collect()
}

/// What people call types.
const SYNONYMS: [(&str, &str); 7] = [
    ("fp8", "e4m3"),
    ("fp16", "f16"),
    ("half", "f16"),
    ("fp4", "e2m1"),
    ("fp6", "e2m3"),
    ("fp32", "f32"),
    ("fp64", "f64"),
];

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}
