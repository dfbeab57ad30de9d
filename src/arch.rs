//! GPU architectures, as types and by name.

/// What is known of an architecture besides its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArchInfo {
    /// The first part of its units' canonical names, lower case.
    pub name: &'static str,
    /// The vendor's own name: a compute capability or a gfx target.
    pub target: &'static str,
    /// Products that have it, as people write them.
    pub gpus: &'static [&'static str],
}

/// An architecture as a type. Implement it, and [`Supports`](crate::Supports), for a type of your
/// own to give it instructions.
///
/// ```
/// use gemmulate::prelude::*;
/// struct Imagined;
/// impl Arch for Imagined {
///     const INFO: ArchInfo = ArchInfo { name: "imagined", target: "none", gpus: &[] };
/// }
/// impl Supports<Mma<16, 8, 4, f32, f32, f32, f32>> for Imagined {
///     type Acc = FusedDotAdd;
///     const ACC: FusedDotAdd = FusedDotAdd { frac_bits: 40, ..FusedDotAdd::HOPPER };
///     const EVIDENCE: Evidence = Evidence::ModelOnly;
/// }
/// let unit = MmaUnit::<Imagined, Mma<16, 8, 4, f32, f32, f32, f32>>::new();
/// assert_eq!(unit.dot_add(&[1.0; 4], &[0.5; 4], 1.0), 3.0);
/// ```
pub trait Arch: Send + Sync + 'static {
    /// Its names.
    const INFO: ArchInfo;
}

macro_rules! architectures {
    ($($(#[$doc:meta])* $ty:ident = $name:literal, $target:literal, [$($gpu:literal),*];)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $ty;

            impl Arch for $ty {
                const INFO: ArchInfo = ArchInfo { name: $name, target: $target, gpus: &[$($gpu),*] };
            }
        )*

        /// Every built-in architecture, oldest first by vendor.
        pub const ARCHITECTURES: &[ArchInfo] = &[$($ty::INFO),*];
    };
}

architectures! {
    /// NVIDIA Volta, sm_70.
    Volta = "volta", "sm_70", ["V100", "Titan V", "GV100"];
    /// NVIDIA Turing, sm_75.
    Turing = "turing", "sm_75", ["T4", "RTX 20", "Titan RTX", "Quadro RTX 8000", "Quadro RTX 6000"];
    /// NVIDIA Ampere, sm_80; sm_86, sm_87 and sm_88, for which ptxas emits the same instructions.
    Ampere = "ampere", "sm_80", ["A100", "A800", "A2", "A10", "A10G", "A16", "A30", "A40", "RTX A6000", "A6000", "RTX A5000", "RTX A4000", "RTX 30", "sm_86", "sm_87", "sm_88"];
    /// NVIDIA Ada Lovelace, sm_89.
    Ada = "ada", "sm_89", ["L40S", "L40", "L4", "RTX 40", "RTX 6000 Ada", "RTX 5000 Ada", "RTX 4000 Ada", "RTX 1000 Ada"];
    /// NVIDIA Hopper, sm_90.
    Hopper = "hopper", "sm_90", ["H100", "H200", "H800", "H20", "GH200"];
    /// NVIDIA Blackwell for data centres, sm_100.
    Blackwell = "blackwell", "sm_100", ["B200", "B100", "GB200"];
    /// NVIDIA Blackwell for desktops, sm_120.
    RtxBlackwell = "rtx-blackwell", "sm_120", ["RTX 50", "RTX PRO 6000 Blackwell", "RTX PRO 6000"];
    /// AMD CDNA1, gfx908.
    Cdna1 = "cdna1", "gfx908", ["MI100"];
    /// AMD CDNA2, gfx90a.
    Cdna2 = "cdna2", "gfx90a", ["MI250X", "MI250", "MI210", "MI200"];
    /// AMD CDNA3, gfx942.
    Cdna3 = "cdna3", "gfx942", ["MI300X", "MI300A", "MI325X", "MI300"];
}

/// Whether this is the name of one of AMD's architectures here.
pub(crate) fn is_amd(name: &str) -> bool {
    ARCHITECTURES.iter().any(|known| known.name == name && known.target.starts_with("gfx"))
}

/// The architecture that a name starts with, and the rest: a canonical name, a target, or a
/// product ("H100 ...", "rtx 4090 ...", "A100-SXM4-80GB ..."), in any case, ended by a blank or a slash.
pub fn split_architecture(text: &str) -> Option<(&'static ArchInfo, &str)> {
    let mut text = text.trim_start();
    for vendor in ["nvidia ", "amd ", "geforce ", "tesla ", "instinct "] {
        if text.get(..vendor.len()).is_some_and(|start| start.eq_ignore_ascii_case(vendor)) {
            text = text[vendor.len()..].trim_start();
        }
    }
    let mut best: Option<(&'static ArchInfo, usize)> = None;
    for arch in ARCHITECTURES {
        let names = [arch.name, arch.target].into_iter().chain(arch.gpus.iter().copied());
        for name in names {
            let end = prefix_length(text, name);
            if end.is_some_and(|end| best.is_none_or(|(_, longest)| end > longest)) {
                best = end.map(|end| (arch, end));
            }
        }
    }
    best.map(|(arch, end)| (arch, text[end..].trim_start_matches([' ', '\t', '/'])))
}

/// The length of a board's form or memory with the gap before it: "-SXM4", " PCIe", "-80GB", " HBM3", " NVL".
fn form_factor(text: &str) -> Option<usize> {
    let word = text.strip_prefix([' ', '-'])?;
    let word = &word[..word.find([' ', '-', '/', '\t']).unwrap_or(word.len())];
    let lower = word.to_ascii_lowercase();
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'e');
    let known = ["sxm", "pcie", "nvl", "hbm"].iter().any(|form| lower.strip_prefix(form).is_some_and(digits))
        || lower.strip_suffix("gb").is_some_and(|size| !size.is_empty() && digits(size));
    known.then_some(1 + word.len())
}

/// How many bytes of `text` the name takes, if a blank, a slash or the end follows. Blanks and
/// hyphens in a name are interchangeable and may be missing ("rtx4090", "rtx-pro-6000"); a series
/// ("RTX 40") takes in its models ("RTX 4090 Ti"); sm_90a is sm_90.
fn prefix_length(text: &str, name: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_gap = |b: u8| b == b' ' || b == b'-' || b == b'_';
    let mut at = 0;
    for expected in name.bytes().filter(|&b| !is_gap(b)) {
        while at > 0 && bytes.get(at).copied().is_some_and(is_gap) {
            at += 1;
        }
        if !bytes.get(at)?.eq_ignore_ascii_case(&expected) {
            return None;
        }
        at += 1;
    }
    let series = name.starts_with("RTX ") && name.len() == 6;
    if series {
        at += bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count().min(2);
        let rest = &text[at..];
        let suffix = [" ti super", " super", " ti", "ti"]
            .into_iter()
            .find(|s| rest.get(..s.len()).is_some_and(|r| r.eq_ignore_ascii_case(s)));
        at += suffix.map_or(0, str::len);
    } else if name.starts_with("sm_") && bytes.get(at).is_some_and(|b| b"aAfF".contains(b)) {
        at += 1;
    }
    while let Some(word) = form_factor(&text[at..]) {
        at += word;
    }
    match bytes.get(at) {
        None => Some(at),
        Some(b) if b" \t/".contains(b) => Some(at),
        Some(_) => None,
    }
}
