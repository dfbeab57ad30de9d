//! Every instruction of every architecture: one row each, and how names find them.

mod amd;
mod lookup;
mod nvidia;
mod sizes;
mod spelling;
pub(crate) mod ty;

pub(crate) use lookup::{base_name, find};

use crate::arch::ArchInfo;
use crate::instr::Instruction;
use crate::mma::{Supports, info_of};
use crate::unit::{Unit, UnitInfo};
use std::sync::OnceLock;

/// A base instruction and its vendor's assembler name.
struct Row {
    info: UnitInfo,
    /// SASS, without the GPU; empty where it has none of its own.
    sass: String,
}

impl Row {
    /// The row of an instruction; `{D}`, `{A}`, `{B}` in the SASS name stand for the formats.
    fn new<A: Supports<I>, I: Instruction>(sass: &str) -> Self {
        Self::of(&A::INFO, info_of::<A, I>(), sass)
    }

    fn of(arch: &ArchInfo, mut info: UnitInfo, sass: &str) -> Self {
        let sass = sass
            .replace("{D}", &info.d.name.to_uppercase())
            .replace("{A}", &info.a.name.to_uppercase())
            .replace("{B}", &info.b.name.to_uppercase());
        info.aliases = spelling::aliases(arch, &info, &sass);
        Self { info, sass }
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    nvidia::rows(&mut rows);
    amd::rows(&mut rows);
    rows
}

struct Catalogue {
    units: Vec<Unit>,
    sass: Vec<String>,
}

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut rows = rows();
        let order = |row: &Row| crate::arch::ARCHITECTURES.iter().position(|a: &ArchInfo| a.name == row.info.arch);
        rows.sort_by_key(order);
        let (units, sass) = rows.into_iter().map(|row| (Unit::unchecked(row.info), row.sass)).unzip();
        Catalogue { units, sass }
    })
}

/// The base units, architecture by architecture.
pub(crate) fn base_units() -> &'static [Unit] {
    &catalogue().units
}

/// States that architectures have an instruction, and appends the row: architecture, accumulator,
/// its constant, evidence, and the source where it is not the file's usual one.
macro_rules! row {
    (@source Hopper HardwareVectors) => { H100 };
    (@source $arch:ident $evidence:ident) => { source($crate::unit::Evidence::$evidence) };
    (@source $arch:ident $evidence:ident $source:literal) => { $source };
    ($out:ident; $instr:ty, $sass:expr; $($arch:ident $acc:ident $konst:ident $evidence:ident $($source:literal)?),+ $(,)?) => { $(
        impl $crate::mma::Supports<$instr> for $crate::arch::$arch {
            type Acc = $acc;
            const ACC: $acc = <$acc>::$konst;
            const EVIDENCE: $crate::unit::Evidence = $crate::unit::Evidence::$evidence;
            const SOURCE: &'static str = $crate::catalogue::row!(@source $arch $evidence $($source)?);
        }
        $out.push($crate::catalogue::Row::new::<$crate::arch::$arch, $instr>($sass));
    )+ };
}

/// Calls a macro for every pair of two lists of types.
macro_rules! pairs {
    ($row:ident; [$($a:ident)*] $bs:tt) => { $( $crate::catalogue::pairs!(@ $row; $a $bs); )* };
    (@ $row:ident; $a:ident [$($b:ident)*]) => { $( $row!($a $b); )* };
}

use {pairs, row};
