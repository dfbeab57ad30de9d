//! The generic dot-add with every parameter (docs/numerics.md, 4.12), on any instruction set: the
//! kernel of custom units, and FDA's where no sharper one is.

use super::decode::{Reading, in_f32};
use super::exact;
use super::general_body::{self, Finish, Params, Sums};
use super::lanes::{Encode, ToInt};
use super::rows::Rows;
use super::values::Layout;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512, processor};
use super::{Isa, limit};
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, SubnormalC};
use crate::format::{FormatSpec, Specials};
use crate::gemm::kernel::Kernel;
use crate::round::Rounding;
use crate::unit::Unit;
use std::sync::Arc;

/// The kernel for generic recipes of formats that f32 holds.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    kernel(unit, isa, |_, _| true)
}

/// The same for a few rows, if it computes in f32 lanes. The more products a step has and the more of an operand's time
/// goes to packing for tiles, as with 8 bits, the more rows are few.
pub(crate) fn select_few_rows(unit: &Unit, isa: Isa, rows: usize) -> Option<Arc<dyn Kernel>> {
    kernel(unit, isa, |g, params| {
        let bytes = unit.a.storage_bits <= 8 && unit.b.storage_bits <= 8;
        let few = match g.block.min(unit.shape.k) {
            block if bytes && block == unit.shape.k => [6, 6, 2],
            16.. => [4, 4, 2],
            8.. => [3, 3, 2],
            _ => [2, 2, 1],
        };
        params.chunk > 0 && rows <= limit(isa, few)
    })
}

fn kernel(unit: &Unit, isa: Isa, wanted: impl FnOnce(&GenericDot, &Params) -> bool) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Generic(g)) = unit.recipe else { return None };
    let params = params(&g, unit).filter(|params| wanted(&g, params))?;
    let params = Params { far: subnormals_are_fast(isa), ..params };
    let layout = Layout::new(unit.shape.k, &g.pattern.blocks(unit.shape.k, g.block));
    let reading = Reading { spans: g.exact, ..Reading::from(&g) };
    Rows::kernel(unit, isa, params, layout, reading, g.nan)
}

/// Whether multiplications of subnormal numbers are known to take no longer than others.
fn subnormals_are_fast(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return Avx512::new(isa)
        .map(Avx512::avx2)
        .or_else(|| Avx2::new(isa))
        .is_some_and(|proof| !processor::is_slow(proof));
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// The recipe as the body wants it, if it is one that the body computes exactly.
fn params(g: &GenericDot, unit: &Unit) -> Option<Params> {
    let block = g.block.min(unit.shape.k);
    // Bits of a sum and its sticky bits; products are exact in f64.
    let powers = unit.scale.is_none_or(|rule| is_power(&rule.format));
    let sums = match g.frac_bits + 4 + (block + 1).ilog2() + if powers { 0 } else { 2 } {
        _ if g.exact => exact::fits(unit, block).then(|| Sums::Exact { bounded: powers && exact::bounded(unit) })?,
        ..=51 => Sums::Whole,
        52..=90 => Sums::Parts,
        _ => return None,
    };
    let alignment = ToInt::new(g.alignment)?;
    // A zero product's own exponent is not that of its normalised value.
    let zeros = g.normalise_products && g.zero_products == crate::accumulate::ZeroProducts::OwnExponent;
    let scaled = unit.scale.is_some_and(|rule| {
        let f = &rule.format;
        let power = is_power(f);
        // Significands are multiplied into elements, which f32 still holds; zeros have no exponent.
        let bits = |operand: &FormatSpec| operand.fraction_bits + f.fraction_bits + 2;
        let holds = |operand: &FormatSpec| {
            bits(operand) <= 24 && operand.emin() - operand.fraction_bits as i32 - f.fraction_bits as i32 >= -149
        };
        let ignored = g.zero_products == crate::accumulate::ZeroProducts::Ignored;
        // An infinity is one whatever its scale, 0 too; numbers that become f16 may become one.
        let finite = unit.a.specials != Specials::Ieee && unit.b.specials != Specials::Ieee && !g.via_f16;
        let multiplied = ignored && finite && holds(&unit.a) && holds(&unit.b) && f.fraction_bits <= 8;
        // Everything is far inside f64's range: no product is lost beside the largest exponent, nor beside the lowest
        // that alignment takes.
        let (least, most) = (2 * (f.emin() - f.fraction_bits as i32), 2 * (f.max().exponent + 1));
        let top = 128.max(unit.a.max().exponent + unit.b.max().exponent + 2 + most).max(400);
        let inside = least - top >= -1000 && exact::last(unit) + least - top >= -1074 && top <= 900;
        let blocks = g.pattern == Pattern::Runs && rule.block % g.block == 0 && !g.normalise_products;
        !((power || multiplied) && f.exponent_bits <= 8 && inside && blocks)
    });
    let floor = match g.floor {
        Floor::BelowEmin(n) => Some(unit.d.emin() - n),
        Floor::ZeroC | Floor::None => None,
    };
    // Between blocks, c is of d's format.
    let changes = (block < unit.shape.k || g.c == CPosition::Last) && unit.c.emin() != unit.d.emin();
    if changes || !in_f32(&unit.a) || !in_f32(&unit.b) || zeros || scaled || floor.is_some_and(|e| e.abs() > 400) {
        return None;
    }
    let encode = encode(g, &unit.d)?;
    // c's term is less than that, and the last 128 are not all f32's.
    let of_c = 2 << g.frac_bits.min(28);
    Some(Params {
        frac_bits: g.frac_bits as i32,
        sums,
        alignment,
        sticky: g.sticky,
        normalise: g.normalise_products,
        floor,
        zero_c: (g.floor == Floor::ZeroC).then(|| unit.d.emin()),
        c_emin: if g.subnormal_c == SubnormalC::Normalised { i32::MIN } else { unit.c.emin() },
        c_flush: if g.flush_inputs { power_f32(unit.c.emin()) } else { 0.0 },
        c: g.c,
        encode,
        late: Encode {
            rounding: ToInt::NearestEven,
            bits: unit.d.fraction_bits as i32,
            over: [f64::INFINITY, f64::NEG_INFINITY],
            zero: -0.0,
            ..encode
        },
        limit: g.product_limit,
        chunk: chunk(g, unit, block),
        finish: finish(g, unit, &encode),
        room: if g.frac_bits <= 28 && ((block as u64 + 1) << (g.frac_bits + 2)) < 1 << 31 {
            i32::MAX
        } else {
            i32::MAX - of_c - 128
        },
        far: false,
    })
}

/// Whether scales are powers of two.
const fn is_power(scale: &FormatSpec) -> bool {
    scale.fraction_bits == 0 && !scale.subnormals
}

fn power_f32(e: i32) -> f32 {
    super::decode::f32_power(e)
}

/// How many products fit into a sum of i32; 0 where products are not for f32 lanes at all.
fn chunk(g: &GenericDot, unit: &Unit, block: usize) -> usize {
    let plain = !g.exact && g.alignment == Rounding::TowardZero && !g.sticky && !g.normalise_products;
    let narrow = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 24;
    let floor = match g.floor {
        Floor::ZeroC => unit.d.emin() < general_body::LOWEST.into(),
        _ => true,
    };
    let powers = unit.scale.is_none_or(|rule| is_power(&rule.format));
    if !plain || !narrow || !powers || !floor || g.frac_bits > general_body::MOST_BITS || g.c == CPosition::Late {
        return 0;
    }
    let largest = |f: &FormatSpec| (2u64 << f.fraction_bits) - 1;
    // The largest product in units of the truncation step, times 2^(M_a + M_b).
    let product = u128::from(largest(&unit.a) * largest(&unit.b)) << g.frac_bits;
    let room = u128::from(i32::MAX.unsigned_abs()) << (unit.a.fraction_bits + unit.b.fraction_bits);
    let chunk = usize::try_from(room / product).unwrap_or(0);
    // In fours, as loops go.
    (chunk / 4 * 4).min(block)
}

/// How sums in f32 lanes are rounded: in these lanes, if two of i32 hold them and little is asked.
fn finish(g: &GenericDot, unit: &Unit, encode: &Encode) -> Finish {
    let f32_out = unit.d.exponent_bits == 8 && unit.d.fraction_bits == 23 && unit.d.bias == 127;
    let block = g.block.min(unit.shape.k);
    let positive_zero = encode.zero.is_sign_positive();
    match encode.rounding {
        _ if 2 * chunk(g, unit, block) < block || g.flush_results => Finish::Wide,
        ToInt::TowardZero if f32_out => Finish::Cut { keep: u32::MAX << (23 - encode.bits) },
        ToInt::NearestEven if encode.bits <= 21 && encode.emin >= -126 && positive_zero => Finish::Nearest,
        _ => Finish::Wide,
    }
}

fn encode(g: &GenericDot, d: &FormatSpec) -> Option<Encode> {
    Some(Encode {
        zero: if g.negative_zero { -0.0 } else { 0.0 },
        least: if g.flush_results { super::lanes::power(d.emin()) } else { 0.0 },
        ..Encode::new(d, g.output_rounding, g.output_bits, false)?
    })
}
