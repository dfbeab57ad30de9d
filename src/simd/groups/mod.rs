//! GDFS (Blackwell's fp4): exact sums of groups as small integers, scaled, aligned, truncated once.
//!
//! `portable` does it on every instruction set. With AVX2 or AVX512-VNNI (`bytes`, `set`) the groups' sums are integer
//! dot products; where the scales of a block of rows and columns show that nothing can be cut off
//! (`span`), a step is one exact sum rounded once (`tile`), else groups are aligned (`aligned`, `unpacked`).

#[cfg(target_arch = "x86_64")]
mod aligned;
#[cfg(target_arch = "x86_64")]
mod bytes;
#[cfg(target_arch = "x86_64")]
mod pack;
mod portable;
#[cfg(target_arch = "x86_64")]
mod set;
#[cfg(target_arch = "x86_64")]
mod span;
#[cfg(target_arch = "x86_64")]
mod tile;
#[cfg(target_arch = "x86_64")]
mod unpacked;

use super::Isa;
use super::lanes::Encode;
use super::values::State;
use crate::accumulate::{Floor, GroupScaledDot, Recipe};
use crate::format::{FormatSpec, Specials};
use crate::gemm::kernel::Kernel;
use crate::round::Rounding;
use crate::unit::Unit;
use std::sync::Arc;

/// The exponent of a group that does not count.
const ABSENT: i32 = -2000;
/// A lowest exponent that no term reaches, a power of two in f64.
const NOTHING: i32 = -900;

/// The kernel for formats of at most 8 bits without special values whose groups' sums f32 holds.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::GroupScaled(g)) = unit.recipe else { return None };
    let body = Groups::new(unit, &g)?;
    let state = State::new(unit.c, unit.d, g.nan)?;
    Some(portable::new(unit, isa, body, state))
}

/// The same by integer dot products, for elements that bytes hold.
#[cfg(target_arch = "x86_64")]
pub(crate) fn select_bytes(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::GroupScaled(g)) = unit.recipe else { return None };
    bytes::select(unit, isa, &Groups::new(unit, &g)?, &State::new(unit.c, unit.d, g.nan)?)
}

/// The recipe.
#[derive(Clone, Debug)]
struct Groups {
    group: usize,
    /// Groups per scale.
    slots: usize,
    frac_bits: i32,
    floor: i32,
    c_emin: i32,
    #[allow(dead_code, reason = "some targets have no kernel that reads it")]
    rounding: Rounding,
    encode: Encode,
    /// K of a step.
    step: usize,
}

impl Groups {
    /// The recipe, where f32 holds groups' sums and f64 a step's.
    fn new(unit: &Unit, g: &GroupScaledDot) -> Option<Self> {
        let rule = unit.scale?;
        let small = |f: &FormatSpec| f.storage_bits <= 8 && f.specials == Specials::None && f.subnormals;
        let span = |f: &FormatSpec| f.max().exponent + 1 - f.emin() + f.fraction_bits as i32;
        let group = g.group.min(unit.shape.k);
        let sums = span(&unit.a) + span(&unit.b) + group.ilog2() as i32 + 1;
        // Scales' products and what they are aligned by are far inside f64's range, and none is below `NOTHING`.
        let f = &rule.format;
        let inside = 2 * f.emin() >= -850 && 2 * f.max().exponent <= 900;
        let scales = f.fraction_bits <= 8 && f.exponent_bits <= 8 && inside;
        let even = group <= 16 && unit.shape.k.is_multiple_of(group) && rule.block % group == 0;
        // Groups' sums in units of the truncation step: both significands, both scales', 16 products.
        let places = |f: &FormatSpec| f.max().exponent.max(0) + 1;
        let terms = g.frac_bits as i32 + places(&unit.a) + places(&unit.b) + 6 + (unit.shape.k / group).ilog2() as i32;
        if !small(&unit.a) || !small(&unit.b) || sums > 24 || !scales || !even || terms > 50 {
            return None;
        }
        let floor = match g.floor {
            Floor::BelowEmin(n) if n.abs() < 400 => unit.d.emin() - n,
            Floor::None => NOTHING,
            _ => return None,
        };
        Some(Self {
            group,
            slots: rule.block / group,
            frac_bits: g.frac_bits as i32,
            floor,
            c_emin: unit.c.emin(),
            rounding: g.output_rounding,
            encode: Encode::new(&unit.d, g.output_rounding, None, false)?,
            step: unit.shape.k,
        })
    }

    /// Groups of a step.
    const fn per_step(&self) -> usize {
        self.step / self.group
    }
}
