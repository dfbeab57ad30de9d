//! What each canonical name computes: SPEC section 4, read as rules on the name, with no table of instructions.

use super::formats::format;

/// How a unit accumulates; the words of SPEC section 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `parts` = 2 is the chain of two halves; `below` is how far e_zero lies under emin of d.
    Fda {
        f: i64,
        below: i64,
        parts: usize,
        e8m13: bool,
    },
    Interleaved,
    Software,
    BlockScaled,
    Gdfs,
    Sfma,
    Gps(usize),
    Exact(usize),
    Fdrda(usize),
    Gfdrda,
}

/// One unit: K, formats, scales per operand, NaN pattern, and the rule.
#[derive(Clone, Debug)]
pub(crate) struct Desc {
    pub(crate) k: usize,
    pub(crate) a: &'static str,
    pub(crate) b: &'static str,
    pub(crate) c: &'static str,
    pub(crate) d: &'static str,
    /// Scales per operand (0: unscaled) and elements per scale.
    pub(crate) scales: usize,
    pub(crate) block: usize,
    pub(crate) scale: Option<&'static str>,
    pub(crate) nvidia: bool,
    pub(crate) nan: u64,
    pub(crate) rule: Rule,
    pub(crate) m: usize,
    pub(crate) n: usize,
}

const NVIDIA: [&str; 7] = ["volta", "turing", "ampere", "ada", "hopper", "blackwell", "rtx-blackwell"];
const NARROW: [&str; 5] = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"];

/// Describes `ARCH/INSTRUCTION`.
pub(crate) fn describe(name: &str) -> Result<Desc, String> {
    let unknown = || format!("no unit {name}");
    let (arch, instruction) = name.split_once('/').ok_or_else(unknown)?;
    let found = match NVIDIA.iter().position(|x| *x == arch) {
        Some(generation) => nvidia(generation, instruction),
        None => amd(arch, instruction),
    };
    found.ok_or_else(unknown)
}

fn known(name: &str) -> Option<&'static str> {
    format(name).ok().map(|f| f.name)
}

/// NVIDIA's NaN of the type of d; DMMA's is the quiet one.
fn nvidia_nan(d: &str) -> u64 {
    match d {
        "f16" => 0x7FFF,
        "f32" => 0x7FFF_FFFF,
        _ => 0x7FF8_0000_0000_0000,
    }
}

fn unscaled(shape: (usize, usize, usize), t: [&str; 4], rule: Rule) -> Option<Desc> {
    let (m, n, k) = shape;
    let [d, a, b, c] = [known(t[0])?, known(t[1])?, known(t[2])?, known(t[3])?];
    let nan = nvidia_nan(d);
    Some(Desc { k, a, b, c, d, scales: 0, block: 0, scale: None, nvidia: true, nan, rule, m, n })
}

fn scaled(shape: (usize, usize, usize), block: &str, t: [&str; 4], scale: &str) -> Option<Desc> {
    let ([d, a, b, c], block) = (t, block.strip_prefix("block")?);
    let rule = match (shape.2, a, b, block, scale) {
        (32, _, _, "32", "ue8m0") if NARROW.contains(&a) && NARROW.contains(&b) => Rule::BlockScaled,
        (64, "e2m1", "e2m1", "32" | "16", "ue8m0") | (64, "e2m1", "e2m1", "16", "ue4m3") => Rule::Gdfs,
        _ => return None,
    };
    if (d, c) != ("f32", "f32") {
        return None;
    }
    let block = block.parse().ok()?;
    let plain = unscaled(shape, t, rule)?;
    Some(Desc { scales: shape.2 / block, block, scale: known(scale), ..plain })
}

/// A number without sign or leading zero, so that one unit has one name.
fn number(text: &str) -> Option<usize> {
    let n: usize = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}

fn shape(text: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((number(m)?, number(n)?, number(k)?))
}

fn nvidia(generation: usize, instruction: &str) -> Option<Desc> {
    let parts: Vec<&str> = instruction.split('.').collect();
    match parts[..] {
        ["mma", s, d, a, b, c] => mma(generation, shape(s)?, [d, a, b, c]),
        ["mma", s, block, d, a, b, c, scale] if generation == 6 => {
            let s = shape(s)?;
            if (s.0, s.1) == (16, 8) { scaled(s, block, [d, a, b, c], scale) } else { None }
        }
        ["wgmma", s, d, a, b] if generation == 4 => wgmma(shape(s)?, d, a, b),
        ["tcgen05", "mma", s, d, a, b] if generation == 5 => tcgen05(shape(s)?, d, a, b),
        ["tcgen05", "mma", s, block, d, a, b, scale] if generation == 5 => {
            let s = shape(s)?;
            let legal = s.0 == 128 && (8..=256).contains(&s.1) && s.1.is_multiple_of(8);
            if legal { scaled(s, block, [d, a, b, d], scale) } else { None }
        }
        _ => None,
    }
}

fn fda(f: i64, generation: usize, parts: usize) -> Rule {
    let below = match generation {
        0 => 5,
        1..=3 => 6,
        _ => 7,
    };
    Rule::Fda { f, below, parts, e8m13: false }
}

fn mma(generation: usize, s: (usize, usize, usize), t: [&str; 4]) -> Option<Desc> {
    let f = if generation >= 4 { 25 } else { 24 };
    // Ampere and Ada do the double-K shapes as two halves.
    let halves = |k: usize, whole: usize| {
        if k > whole && (2..=3).contains(&generation) { 2 } else { 1 }
    };
    let same_out = matches!(t, ["f32", _, _, "f32"] | ["f16", _, _, "f16"]);
    let rule = match (s, t) {
        ((8, 8, 4), ["f64", "f64", "f64", "f64"]) if generation >= 2 => Rule::Sfma,
        ((16, 8, 4 | 8 | 16), ["f64", "f64", "f64", "f64"]) if generation >= 4 => Rule::Sfma,
        ((8, 8, 4), ["f32", "f16", "f16", "f32" | "f16"] | ["f16", "f16", "f16", "f16"]) => match generation {
            0 | 1 => fda(23, 0, 1),
            _ => Rule::Software,
        },
        ((16, 8, 8), [_, "f16", "f16", _]) if same_out && generation >= 1 => fda(f, generation, 1),
        ((16, 8, 16), [_, "f16", "f16", _]) if same_out && generation >= 2 => fda(f, generation, halves(16, 8)),
        ((16, 8, k @ (8 | 16)), ["f32", "bf16", "bf16", "f32"]) if generation >= 2 => fda(f, generation, halves(k, 8)),
        ((16, 8, k @ (4 | 8)), ["f32", "tf32", "tf32", "f32"]) if generation >= 2 => fda(f, generation, halves(k, 4)),
        ((16, 8, 16 | 32), [d, a, b, _]) if same_out => fp8(generation, s.2, d, a, b)?,
        _ => return None,
    };
    unscaled(s, t, rule)
}

/// fp8 on every architecture from Ada on; fp6 and fp4 with K = 32 on RTX Blackwell.
fn fp8(generation: usize, k: usize, d: &str, a: &str, b: &str) -> Option<Rule> {
    let both = |list: &[&str]| list.contains(&a) && list.contains(&b);
    let e8m13 = d == "f32";
    let eight = both(&NARROW[..2]);
    match generation {
        3 if eight => Some(Rule::Fda { f: 13, below: 6, parts: k / 16, e8m13 }),
        4 | 5 if eight => Some(Rule::Interleaved),
        6 if eight || (k == 32 && both(&NARROW)) => Some(fda(25, 6, 1)),
        _ => None,
    }
}

fn wgmma(s: (usize, usize, usize), d: &str, a: &str, b: &str) -> Option<Desc> {
    if s.0 != 64 || !(8..=256).contains(&s.1) || !s.1.is_multiple_of(8) {
        return None;
    }
    let rule = match (s.2, d, a, b) {
        (8, "f32", "tf32", "tf32") | (16, "f32" | "f16", "f16", "f16") | (16, "f32", "bf16", "bf16") => fda(25, 4, 1),
        (32, "f32" | "f16", "e4m3" | "e5m2", "e4m3" | "e5m2") => {
            Rule::Fda { f: 13, below: 7, parts: 1, e8m13: d == "f32" }
        }
        _ => return None,
    };
    unscaled(s, [d, a, b, d], rule)
}

fn tcgen05(s: (usize, usize, usize), d: &str, a: &str, b: &str) -> Option<Desc> {
    let (first, step) = match s.0 {
        64 => (8, 8),
        128 => (16, 16),
        256 => (32, 32),
        _ => return None,
    };
    if !(first..=256).contains(&s.1) || !s.1.is_multiple_of(step) {
        return None;
    }
    let ok = match (s.2, d, a, b) {
        (8, "f32", "tf32", "tf32") | (16, "f32", "f16" | "bf16", "f16" | "bf16") | (16, "f16", "f16", "f16") => true,
        (32, "f32" | "f16", a, b) => NARROW.contains(&a) && NARROW.contains(&b),
        _ => false,
    };
    if ok { unscaled(s, [d, a, b, d], fda(25, 5, 1)) } else { None }
}

/// (M, N, K, blocks).
type AmdShape = (usize, usize, usize, usize);
/// A name's type part, the formats of a and b, and the shapes.
type AmdRow = (&'static str, [&'static str; 2], Vec<AmdShape>);

/// The shapes that f16 and the later bf16 share.
const WIDE: [AmdShape; 5] = [(32, 32, 4, 2), (16, 16, 4, 4), (4, 4, 4, 16), (32, 32, 8, 1), (16, 16, 16, 1)];

/// Every AMD instruction of an architecture.
fn amd_rows(arch: &str) -> Vec<AmdRow> {
    let f64s = vec![(16, 16, 4, 1), (4, 4, 4, 4)];
    let f32s = vec![(32, 32, 1, 2), (16, 16, 1, 4), (4, 4, 1, 16), (32, 32, 2, 1), (16, 16, 4, 1)];
    let old_bf16 = vec![(32, 32, 2, 2), (16, 16, 2, 4), (4, 4, 2, 16), (32, 32, 4, 1), (16, 16, 8, 1)];
    let eights = vec![(16, 16, 32, 1), (32, 32, 16, 1)];
    let mut rows = vec![("f32", ["f32"; 2], f32s), ("f16", ["f16"; 2], WIDE.to_vec())];
    if arch != "cdna1" {
        rows.push(("f64", ["f64"; 2], f64s));
    }
    match arch {
        "cdna1" => rows.push(("bf16", ["bf16"; 2], old_bf16)),
        "cdna2" => rows.extend([("bf16", ["bf16"; 2], old_bf16), ("bf16_1k", ["bf16"; 2], WIDE.to_vec())]),
        _ => {
            let (fp8, bf8) = ("e4m3fnuz", "e5m2fnuz");
            rows.push(("bf16", ["bf16"; 2], WIDE.to_vec()));
            rows.push(("xf32", ["tf32"; 2], vec![(32, 32, 4, 1), (16, 16, 8, 1)]));
            rows.push(("fp8_fp8", [fp8, fp8], eights.clone()));
            rows.push(("fp8_bf8", [fp8, bf8], eights.clone()));
            rows.push(("bf8_fp8", [bf8, fp8], eights.clone()));
            rows.push(("bf8_bf8", [bf8, bf8], eights));
        }
    }
    rows
}

fn amd_rule(arch: &str, kind: &str, k: usize) -> Rule {
    match (arch, kind) {
        (_, "f64" | "f32") => Rule::Sfma,
        ("cdna1", "f16") => Rule::Exact(4),
        ("cdna1", _) => Rule::Exact(2),
        ("cdna2", "bf16") => Rule::Gps(2),
        ("cdna2", _) => Rule::Gps(4),
        (_, "f16" | "bf16") => Rule::Fdrda(k.min(8)),
        (_, "xf32") => Rule::Fdrda(4),
        _ => Rule::Gfdrda,
    }
}

fn amd(arch: &str, instruction: &str) -> Option<Desc> {
    if !["cdna1", "cdna2", "cdna3"].contains(&arch) {
        return None;
    }
    for (kind, [a, b], shapes) in amd_rows(arch) {
        for (m, n, k, blocks) in shapes {
            let d = if kind == "f64" { "f64" } else { "f32" };
            let many = if blocks > 1 { format!("_{blocks}b") } else { String::new() };
            let name = match arch {
                "cdna3" => format!("v_mfma_{d}_{m}x{n}x{k}{many}_{kind}"),
                _ => format!("v_mfma_{d}_{m}x{n}x{k}{kind}"),
            };
            if name == instruction {
                let nan = if d == "f64" { nvidia_nan(d) } else { 0x7FC0_0000 };
                let rule = amd_rule(arch, kind, k);
                let unscaled =
                    Desc { scales: 0, block: 0, scale: None, nvidia: false, k, a, b, c: d, d, nan, rule, m, n };
                return Some(unscaled);
            }
        }
    }
    None
}

/// Every canonical name, with the canonical M and N of wgmma and tcgen05: found by asking [`describe`] about
/// candidates.
pub(crate) fn all_units() -> Vec<String> {
    let mut names = Vec::new();
    for arch in ["cdna1", "cdna2", "cdna3"] {
        for (kind, _, shapes) in amd_rows(arch) {
            for (m, n, k, blocks) in shapes {
                let d = if kind == "f64" { "f64" } else { "f32" };
                names.push(format!("{arch}/v_mfma_{d}_{m}x{n}x{k}{kind}"));
                names.push(format!("{arch}/v_mfma_{d}_{m}x{n}x{k}_{kind}"));
                names.push(format!("{arch}/v_mfma_{d}_{m}x{n}x{k}_{blocks}b_{kind}"));
            }
        }
    }
    let types = ["f64", "tf32", "f16", "bf16", "e5m2", "e4m3", "e3m2", "e2m3", "e2m1"];
    let pairs: Vec<String> = types.iter().flat_map(|a| types.iter().map(move |b| format!("{a}.{b}"))).collect();
    for arch in NVIDIA {
        for (d, ab, k) in ["f16", "f32", "f64"]
            .iter()
            .flat_map(|d| pairs.iter().flat_map(move |ab| [4, 8, 16, 32, 64].iter().map(move |k| (d, ab, k))))
        {
            for c in ["f16", "f32", "f64"] {
                names.push(format!("{arch}/mma.m8n8k{k}.{d}.{ab}.{c}"));
                names.push(format!("{arch}/mma.m16n8k{k}.{d}.{ab}.{c}"));
            }
            names.push(format!("{arch}/wgmma.m64n8k{k}.{d}.{ab}"));
            names.push(format!("{arch}/tcgen05.mma.m64n8k{k}.{d}.{ab}"));
            for (block, scale) in [(32, "ue8m0"), (16, "ue8m0"), (16, "ue4m3")] {
                names.push(format!("{arch}/mma.m16n8k{k}.block{block}.{d}.{ab}.f32.{scale}"));
                names.push(format!("{arch}/tcgen05.mma.m128n8k{k}.block{block}.{d}.{ab}.{scale}"));
            }
        }
    }
    names.retain(|n| describe(n).is_ok());
    names
}
