//! GDFS (Blackwell's fp4): exact sums of groups as small integers, scaled, aligned, truncated once.
//!
//! [`Groups::step`] is the general step, sixteen columns at a time, on every instruction set
//! (`portable`). With AVX512-VNNI (`vnni`) the groups' sums are integer dot products, and where the
//! scales of a block of rows and columns show that nothing can be cut off, a step is one exact sum
//! rounded once.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

#[cfg(target_arch = "x86_64")]
mod pack;
mod portable;
#[cfg(target_arch = "x86_64")]
mod span;
#[cfg(target_arch = "x86_64")]
mod tile;
#[cfg(target_arch = "x86_64")]
mod vnni;

use super::Isa;
use super::lanes::{Encode, ToInt, any, exponent, power, to_int};
use super::values::{NR, State};
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
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = vnni::select(unit, isa, &body, &state) {
        return Some(kernel);
    }
    Some(portable::new(unit, isa, body, state))
}

fn encode(g: &GroupScaledDot, d: &FormatSpec) -> Option<Encode> {
    let top = power(d.max().exponent);
    let max = top * (2.0 - power(-(d.fraction_bits as i32)));
    let over = |negative: bool| {
        let stops = g.output_rounding != Rounding::TowardZero && g.output_rounding.stops_at_max(negative);
        let magnitude = if stops { max } else { f64::INFINITY };
        if negative { -magnitude } else { magnitude }
    };
    Some(Encode {
        rounding: ToInt::new(g.output_rounding)?,
        bits: d.fraction_bits as i32,
        emin: d.emin(),
        over: [over(false), over(true)],
        limit: 2.0 * top,
        zero: 0.0,
        least: 0.0,
    })
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
    rounding: Rounding,
    encode: Encode,
    /// K of a step.
    step: usize,
}

/// What the groups of one row, 16 columns and one step are.
trait Terms {
    /// Exponents of group `g`, [`ABSENT`] where it does not count.
    fn exponents(&self, g: usize) -> [i32; NR];
    /// Products of both scales; NaN where one is.
    fn scales(&self, g: usize) -> [f64; NR];
    /// Exact sums of products.
    fn sums<const NATIVE: bool>(&self, g: usize) -> [f32; NR];
}

impl Groups {
    /// The recipe, where f32 holds groups' sums and f64 a step's.
    fn new(unit: &Unit, g: &GroupScaledDot) -> Option<Self> {
        let rule = unit.scale?;
        let small = |f: &FormatSpec| f.storage_bits <= 8 && f.specials == Specials::None && f.subnormals;
        let span = |f: &FormatSpec| f.max().exponent + 1 - f.emin() + f.fraction_bits as i32;
        let group = g.group.min(unit.shape.k);
        let sums = span(&unit.a) + span(&unit.b) + group.ilog2() as i32 + 1;
        let scales = rule.format.fraction_bits <= 8 && rule.format.exponent_bits <= 8 && rule.format.bias.abs() <= 300;
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
            encode: encode(g, &unit.d)?,
            step: unit.shape.k,
        })
    }

    /// Groups of a step.
    const fn per_step(&self) -> usize {
        self.step / self.group
    }

    /// One step: terms of groups, e_max, alignment, sum, truncation.
    #[inline(always)]
    fn step<const NATIVE: bool>(&self, terms: &impl Terms, c: [f32; NR]) -> [f32; NR] {
        let (floor, c_emin, f) = (self.floor, self.c_emin, self.frac_bits);
        let (mut e, mut term) = ([0i32; NR], [0f64; NR]);
        for j in 0..NR {
            term[j] = if c[j].is_finite() { c[j].into() } else { 0.0 };
            let of_term = exponent(term[j]).max(c_emin);
            let of_c = if term[j] == 0.0 { ABSENT } else { of_term };
            e[j] = of_c.max(floor);
        }
        for g in 0..self.per_step() {
            let exponents = terms.exponents(g);
            for j in 0..NR {
                e[j] = e[j].max(exponents[j]);
            }
        }
        let mut total = [0f64; NR];
        for j in 0..NR {
            e[j] = e[j].max(NOTHING);
            total[j] = to_int::<NATIVE>(term[j] * power(f - e[j]), ToInt::TowardZero);
        }
        let mut nan = [0f64; NR];
        for g in 0..self.per_step() {
            let (sums, scales) = (terms.sums::<NATIVE>(g), terms.scales(g));
            for j in 0..NR {
                nan[j] += scales[j] * 0.0;
                // Two factors: the scales' powers and the unit's are each within f64.
                let units = f64::from(sums[j]) * scales[j] * power(f - e[j]);
                total[j] += to_int::<NATIVE>(units, ToInt::TowardZero);
            }
        }
        for j in 0..NR {
            total[j] *= power(e[j] - f);
        }
        let mut d = self.encode.row::<NATIVE, NR>(total);
        if any(nan.map(f64::is_nan)) || any(c.map(|c| !c.is_finite())) {
            for j in 0..NR {
                let c = if c[j].is_finite() { d[j] } else { c[j] };
                d[j] = if nan[j].is_nan() { f32::NAN } else { c };
            }
        }
        d
    }
}
