//! Fast kernels: the same functions as the reference, tile by tile, on wide instruction sets.
//!
//! Each file of a family has one body and `select`, which says whether the kernel is exact for a
//! unit on an instruction set: by recipe, formats and K, never by a type's name. What no kernel
//! takes, the reference computes.
//!
//! [`Isa`] names an instruction set; a kernel's value can only be made where it was detected. The
//! environment variable `GEMMULATE_ISA` (avx512, avx2, neon, portable, reference), or
//! [`crate::Gemm::isa`], holds kernels back to that set and what comes after it.

pub(crate) mod buffer;
mod chain;
mod decode;
mod exact;
#[cfg(target_arch = "x86_64")]
mod fda;
#[cfg(target_arch = "x86_64")]
mod flags;
mod fma;
mod general;
mod general_body;
mod groups;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod ops;
mod pairwise;
#[cfg(target_arch = "x86_64")]
mod processor;
mod round_down;
mod rows;
#[cfg(target_arch = "x86_64")]
mod sfma;
#[cfg(target_arch = "x86_64")]
mod sixteen;
#[cfg(not(target_arch = "x86_64"))]
#[path = "sixteen_missing.rs"]
mod sixteen;
mod software;
#[cfg(target_arch = "x86_64")]
pub(crate) mod squares;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod values;
mod wide;
mod without_fma;

pub(crate) use values::{Columns, NR, Short};
pub(crate) use wide::{Loop, Work, on};

use crate::gemm::kernel::{Kernel, Reference};
use crate::unit::Unit;
use core::fmt;
use core::str::FromStr;
use std::sync::{Arc, OnceLock};

/// Asks for memory to be brought near; any address will do.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code, unused_unsafe, reason = "the minimum supported Rust calls a hint unsafe, later ones do not")]
pub(crate) fn prefetch<const HINT: i32, T>(at: *const T) {
    // SAFETY: nothing is read or written.
    unsafe { core::arch::x86_64::_mm_prefetch::<HINT>(at.cast()) }
}

/// An instruction set that kernels are written for, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// x86-64 with AVX-512 F, BW, DQ, VL, VPOPCNTDQ, BITALG and VNNI.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// aarch64 with NEON.
    Neon,
    /// What every machine has.
    Portable,
    /// No fast kernel at all: the accumulators' own methods.
    Reference,
}

/// The sets with their names.
const NAMES: [(Isa, &str); 5] = [
    (Isa::Avx512, "avx512"),
    (Isa::Avx2, "avx2"),
    (Isa::Neon, "neon"),
    (Isa::Portable, "portable"),
    (Isa::Reference, "reference"),
];

/// The same in words.
const SETS: &str = "avx512, avx2, neon, portable or reference";

impl Isa {
    /// Every set, best first.
    pub const ALL: &[Self] = &[Self::Avx512, Self::Avx2, Self::Neon, Self::Portable, Self::Reference];

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Avx512 => has_avx512(),
            Self::Avx2 => has_avx2(),
            Self::Neon => cfg!(all(target_arch = "aarch64", target_feature = "neon")),
            Self::Portable | Self::Reference => true,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    // Every processor with VPOPCNTDQ beside BW has BITALG and VNNI, too.
    let first = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    has_avx2() && first && has!("avx512vpopcntdq") && has!("avx512bitalg") && has!("avx512vnni")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("f16c")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx2() -> bool {
    false
}

/// Proof that the set of [`Isa::Avx512`] is there.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "some targets have no such kernels")]
pub(crate) struct Avx512(());

/// Proof that the set of [`Isa::Avx2`] is there.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "some targets have no such kernels")]
pub(crate) struct Avx2(());

/// Proof that a kernel of [`Isa::Portable`] may use what every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2(());

#[cfg(target_arch = "x86_64")]
impl Sse2 {
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        (isa == Isa::Portable).then_some(Self(()))
    }
}

#[allow(dead_code, reason = "some targets have no such kernels")]
impl Avx512 {
    /// The proof, for kernels of this set on this machine.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        (isa == Isa::Avx512 && isa.is_available()).then_some(Self(()))
    }

    /// AVX2, FMA and F16C are there, too: `has_avx512` asks for them.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

#[allow(dead_code, reason = "some targets have no such kernels")]
impl Avx2 {
    /// The proof, for kernels of this set on this machine.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        (isa == Isa::Avx2 && isa.is_available()).then_some(Self(()))
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(isa, _)| isa == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Isa {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, name)| *name == lower);
        found.map(|(isa, _)| *isa).ok_or_else(|| crate::Error::parse("instruction set", text, SETS))
    }
}

/// The set that the environment variable `GEMMULATE_ISA` holds kernels back to, if it is set; read once.
///
/// # Errors
/// When its value names no set. Products then go on as if it were not set, so ask before you rely on it.
pub fn from_environment() -> Result<Option<Isa>, crate::Error> {
    static ISA: OnceLock<Result<Option<Isa>, crate::Error>> = OnceLock::new();
    let refused = |text: &str| crate::Error::parse("instruction set for GEMMULATE_ISA", text, SETS);
    let read = || match std::env::var("GEMMULATE_ISA") {
        Ok(text) => text.parse().map(Some).map_err(|_| refused(&text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(text)) => Err(refused(&text.to_string_lossy())),
    };
    ISA.get_or_init(read).clone()
}

fn environment() -> Option<Isa> {
    from_environment().unwrap_or_default()
}

/// Kernels made in `work` take operations on subnormal numbers to be slow on this processor or not, and two of its FMAs
/// of 512 bits to begin in a cycle or one, whatever they do. For tests: the bits are the same.
#[doc(hidden)]
pub fn assume_processor<R>(slow_subnormals: bool, two_multipliers: bool, work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    return processor::assuming(processor::Assumed { slow_subnormals, two_multipliers }, work);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (slow_subnormals, two_multipliers);
        work()
    }
}

/// Which kernel computes a unit's tiles, and why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The kernel's name.
    pub name: &'static str,
    /// The instruction set it is written for.
    pub isa: Isa,
    /// Why it was chosen.
    pub why: String,
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.isa, self.why)
    }
}

/// Says whether a family's kernel is exact for a unit on an instruction set; `isa` is available.
type Select = fn(&Unit, Isa) -> Option<Arc<dyn Kernel>>;

/// Kernels around register tiles, each for one instruction set: faster than the same family's array code.
const TILES: &[Select] = &[
    #[cfg(target_arch = "x86_64")]
    fda::select,
    #[cfg(target_arch = "x86_64")]
    sfma::select,
    #[cfg(target_arch = "x86_64")]
    fda::select_round_down,
    #[cfg(target_arch = "x86_64")]
    pairwise::select_tiles,
    #[cfg(target_arch = "x86_64")]
    exact::select_tiles,
    #[cfg(target_arch = "x86_64")]
    groups::select_bytes,
];

/// As [`Select`], for products of so many rows.
type SelectFew = fn(&Unit, Isa, usize) -> Option<Arc<dyn Kernel>>;

/// Array code where it does better than tiles, as its panels cost less to make: docs/kernels.md, Few rows, has what the
/// limits come of.
const FEW_ROWS: &[SelectFew] =
    &[pairwise::select_few_rows, exact::select_few_rows, general::select_few_rows, round_down::select_few_rows];

/// Numbers of rows up to which some of these do better.
const LIMITS: [usize; 5] = [6, 4, 3, 2, 1];

/// Numbers of rows with kernels of their own, at most: [`row_class`] is below.
pub(crate) const ROW_CLASSES: usize = LIMITS.len() + 1;

/// A number for all numbers of rows that have the same kernel.
pub(crate) fn row_class(rows: usize) -> usize {
    LIMITS.iter().filter(|most| rows <= **most).count()
}

/// How many rows are few on a set: AVX-512, AVX2, or another.
fn limit(isa: Isa, [avx512, avx2, others]: [usize; 3]) -> usize {
    debug_assert!([avx512, avx2, others].iter().all(|rows| LIMITS.contains(rows)));
    match isa {
        Isa::Avx512 => avx512,
        Isa::Avx2 => avx2,
        _ => others,
    }
}

/// Every family's array code, the faster of two that might accept first.
const ARRAYS: &[Select] = &[
    fma::select,
    without_fma::select,
    chain::select,
    pairwise::select,
    round_down::select,
    exact::select,
    groups::select,
    software::select,
    general::select,
];

/// The sets at hand, the best first.
fn sets(best: Option<Isa>) -> impl Iterator<Item = Isa> {
    let allowed = move |isa: &Isa| best.is_none_or(|b| b <= *isa) && isa.is_available() && *isa != Isa::Reference;
    Isa::ALL.iter().copied().filter(allowed)
}

/// The best set at hand, for what is no kernel.
pub(crate) fn best(force: Option<Isa>) -> Isa {
    sets(force.or_else(environment)).next().unwrap_or(Isa::Portable)
}

/// The first kernel that is exact for a unit on the best set at hand.
fn first<'a>(
    unit: &Unit,
    best: Option<Isa>,
    families: impl Iterator<Item = &'a Select> + Clone,
    rows: usize,
) -> Option<(Arc<dyn Kernel>, Isa)> {
    sets(best).find_map(|isa| {
        let few = || FEW_ROWS.iter().find_map(|select| select(unit, isa, rows));
        let kernel =
            (rows <= LIMITS[0]).then(few).flatten().or_else(|| families.clone().find_map(|select| select(unit, isa)));
        kernel.map(|kernel| (kernel, isa))
    })
}

/// The kernel for a unit and products of so many rows; in the end the reference.
pub(crate) fn select(unit: &Unit, force: Option<Isa>, rows: usize) -> (Arc<dyn Kernel>, Isa) {
    if !in_range(unit) {
        return (Arc::new(Reference::new(unit)), Isa::Reference);
    }
    let kernel = first(unit, force.or_else(environment), TILES.iter().chain(ARRAYS), rows);
    kernel.unwrap_or_else(|| (Arc::new(Reference::new(unit)), Isa::Reference))
}

/// Whether the accumulator's parameters are ones that kernels may compute with: [`crate::MmaUnit::with`] takes any.
fn in_range(unit: &Unit) -> bool {
    unit.accumulator.check(&unit.signature()).is_ok()
}

/// The kernel for single rows and columns, which would fill no register tile; none where only the reference is exact
/// or allowed.
pub(crate) fn select_single(unit: &Unit, force: Option<Isa>) -> Option<Arc<dyn Kernel>> {
    if !in_range(unit) {
        return None;
    }
    first(unit, force.or_else(environment), ARRAYS.iter(), usize::MAX).map(|(kernel, _)| kernel)
}

/// The kernel for small tiles, if any has a way: on a lower set, too, before array code.
pub(crate) fn select_small(unit: &Unit, force: Option<Isa>) -> Option<(Arc<dyn Kernel>, Isa)> {
    if !in_range(unit) {
        return None;
    }
    let best = force.or_else(environment);
    let has = |kernel: &Arc<dyn Kernel>| kernel.small().is_some();
    let on = |isa: Isa, families: &[Select]| families.iter().find_map(|select| select(unit, isa).filter(has));
    let of = |families| sets(best).find_map(|isa| Some((on(isa, families)?, isa)));
    of(TILES).or_else(|| of(ARRAYS))
}

/// [`select`], for people.
pub(crate) fn choice(unit: &Unit, force: Option<Isa>, rows: usize) -> KernelChoice {
    let (kernel, isa) = select(unit, force, rows);
    KernelChoice { name: kernel.name(), isa, why: kernel.why() }
}

/// [`select_small`], if it takes products of so many tiles.
pub(crate) fn choice_of_small(unit: &Unit, force: Option<Isa>, tiles: usize) -> Option<KernelChoice> {
    let (kernel, isa) = select_small(unit, force)?;
    let takes = kernel.small().is_some_and(|small| tiles <= small.most_tiles());
    takes.then(|| KernelChoice { name: kernel.name(), isa, why: kernel.why() })
}
