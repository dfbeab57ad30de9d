//! When two parameter sets are one function: rules, each with its reason.
//!
//! A parameter that no input of the given formats can show is set to its plainest value. Two
//! recipes with one canonical form are the same function; the converse need not hold.

use super::bench::top;
use super::black_box::Interface;
use crate::accumulate::{CPosition, Floor, GenericDot, OverflowBesideC, Pattern, Recipe, SubnormalC, ZeroProducts};
use crate::format::{F16, FormatSpec};
use crate::num::Num;
use crate::round::Rounding;

/// Why a parameter does not matter.
pub(crate) type Reason = (&'static str, String);

/// A recipe with every parameter that cannot be observed at its plainest value, and why.
///
/// ```
/// use gemmulate::probe::{BlackBox, canonical};
/// use gemmulate::Unit;
/// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
/// let (_, reasons) = canonical(&unit.recipe.unwrap(), &unit.interface());
/// assert!(reasons.iter().any(|(parameter, _)| *parameter == "e_zero"));
/// # Ok::<(), gemmulate::Error>(())
/// ```
pub fn canonical(recipe: &Recipe, interface: &Interface) -> (Recipe, Vec<(&'static str, String)>) {
    let mut reasons = Vec::new();
    let k = interface.k;
    let recipe = match *recipe {
        Recipe::Generic(x) => Recipe::Generic(generic(x, interface, &mut reasons)),
        Recipe::Pairwise(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            Recipe::Pairwise(x)
        }
        Recipe::RoundDown(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            limit(&mut x.overflow_beside_c, interface, &mut reasons);
            Recipe::RoundDown(x)
        }
        Recipe::GroupedRoundDown(mut x) => {
            clamp("G", &mut x.base.group, k, &mut reasons);
            limit(&mut x.base.overflow_beside_c, interface, &mut reasons);
            Recipe::GroupedRoundDown(x)
        }
        Recipe::GroupScaled(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            Recipe::GroupScaled(x)
        }
        other => other,
    };
    (recipe, reasons)
}

/// The reasons why two recipes are one function, if the rules of [`canonical`] say so. Empty for
/// equal recipes.
pub fn same_function(x: &Recipe, y: &Recipe, interface: &Interface) -> Option<Vec<String>> {
    let ((left, why_left), (right, why_right)) = (canonical(x, interface), canonical(y, interface));
    if left != right {
        return None;
    }
    let all = why_left.into_iter().chain(why_right).map(|(name, why)| format!("{name}: {why}"));
    let mut reasons: Vec<String> = all.collect();
    reasons.sort();
    reasons.dedup();
    Some(reasons)
}

fn clamp(name: &'static str, group: &mut usize, k: usize, reasons: &mut Vec<Reason>) {
    if *group > k {
        *group = k;
        reasons.push((name, format!("a group above K = {k} is all of K")));
    }
}

fn limit(rule: &mut OverflowBesideC, interface: &Interface, reasons: &mut Vec<Reason>) {
    if *rule != OverflowBesideC::default() && !Reach::new(interface).beyond_limit {
        *rule = OverflowBesideC::default();
        reasons.push(("overflow-beside-c", "no product reaches 2^128".into()));
    }
}

/// Sets a parameter to its plainest value if it has another one, noting why that is the same.
fn plain<T: PartialEq>(name: &'static str, value: &mut T, to: T, why: impl Into<String>, reasons: &mut Vec<Reason>) {
    if *value != to {
        *value = to;
        reasons.push((name, why.into()));
    }
}

/// How far the products and c of an interface reach.
struct Reach {
    /// Weight of the last bit a product can have.
    product_quantum: i32,
    /// The largest exponent of a product, as stored.
    product_top: i32,
    /// The same of a zero product, a zero having its format's smallest exponent.
    zero_top: i32,
    /// Weight of the last bit of c.
    c_quantum: i32,
    /// Whether a product can be 2^128 or more.
    beyond_limit: bool,
}

const fn quantum(f: &FormatSpec) -> i32 {
    f.emin() - f.fraction_bits as i32
}

impl Reach {
    fn new(interface: &Interface) -> Self {
        let Interface { a, b, c, d, scale, .. } = interface;
        let (scale_low, scale_high) = scale.map_or((0, 0), |s| {
            (2 * quantum(&s.format), 2 * top(&s.format) + 2 * i32::from(s.format.fraction_bits > 0))
        });
        let product_top = top(a) + top(b) + scale_high;
        Self {
            product_quantum: quantum(a) + quantum(b) + scale_low,
            product_top,
            zero_top: (a.emin() + top(b)).max(b.emin() + top(a)) + scale_high,
            c_quantum: quantum(c).min(quantum(d)),
            beyond_limit: product_top + 2 > 128,
        }
    }
}

fn generic(mut x: GenericDot, interface: &Interface, reasons: &mut Vec<Reason>) -> GenericDot {
    let reach = Reach::new(interface);
    let d = GenericDot::default();
    let blocks = cut(&mut x, interface.k, reasons);
    if blocks == 1 && x.c == CPosition::Late {
        plain("c", &mut x.c, CPosition::Last, "with one block, late is last", reasons);
    }
    if x.output_bits.is_some_and(|p| p >= interface.d.fraction_bits) {
        plain("out-bits", &mut x.output_bits, None, "d has no more bits", reasons);
    }
    if x.via_f16 && as_f16_changes_nothing(&x, interface) {
        plain("via-f16", &mut x.via_f16, false, "every operand has the same exponent in f16", reasons);
    }
    if x.product_limit && !reach.beyond_limit {
        plain("limit", &mut x.product_limit, false, "no product reaches 2^128", reasons);
    }
    if !x.exact && nothing_is_cut(&x, interface, &reach) {
        plain("exact", &mut x.exact, true, format!("no product loses a bit at F = {}", x.frac_bits), reasons);
    }
    if x.exact {
        let why = "an exact sum aligns nothing";
        plain("F", &mut x.frac_bits, d.frac_bits, why, reasons);
        plain("align", &mut x.alignment, d.alignment, why, reasons);
        plain("sticky", &mut x.sticky, false, why, reasons);
        plain("normalise", &mut x.normalise_products, false, why, reasons);
        plain("e_zero", &mut x.floor, Floor::None, why, reasons);
        plain("zero-products", &mut x.zero_products, ZeroProducts::Ignored, why, reasons);
        plain("subnormal-c", &mut x.subnormal_c, SubnormalC::Stored, why, reasons);
    } else {
        exponents(&mut x, interface, &reach, reasons);
    }
    results(&mut x, interface, &reach, reasons);
    x
}

/// The first name of the same blocks; returns how many there are.
fn cut(x: &mut GenericDot, k: usize, reasons: &mut Vec<Reason>) -> usize {
    let blocks = |pattern: Pattern, block: usize| {
        let mut blocks = pattern.blocks(k, block);
        // The order within a block does not matter.
        blocks.iter_mut().for_each(|b| b.sort_unstable());
        blocks
    };
    clamp("block", &mut x.block, k, reasons);
    let count = k.div_ceil(x.block.max(1));
    if x.pattern != Pattern::Runs {
        let mine = blocks(x.pattern, x.block);
        let names = [Pattern::Runs, Pattern::EvenOdd];
        if let Some(&first) = names.iter().find(|&&p| blocks(p, x.block) == mine) {
            let why = format!("the blocks are the same {count} for K = {k}");
            plain("pattern", &mut x.pattern, first, why, reasons);
        }
    }
    count
}

/// The weight of the last bit of whatever is aligned.
fn aligned_quantum(x: &GenericDot, reach: &Reach) -> i32 {
    if x.c == CPosition::Late { reach.product_quantum } else { reach.product_quantum.min(reach.c_quantum) }
}

fn floor_exponent(floor: Floor, interface: &Interface) -> Option<i32> {
    match floor {
        Floor::BelowEmin(n) => Some(interface.d.emin() - n),
        Floor::ZeroC => Some(interface.d.emin()),
        Floor::None => None,
    }
}

/// Late c, and sums narrow enough for every product to fit whole.
fn nothing_is_cut(x: &GenericDot, interface: &Interface, reach: &Reach) -> bool {
    let normalised = i32::from(x.normalise_products);
    let f = x.frac_bits as i32;
    let floor_is_low = floor_exponent(x.floor, interface).is_none_or(|e| e - f <= reach.product_quantum);
    let width = (interface.a.fraction_bits + interface.b.fraction_bits) as i32 + 2 * normalised;
    let alone = x.block == 1 && f >= width && x.zero_products == ZeroProducts::Ignored;
    let fits = reach.product_top + normalised - f <= reach.product_quantum;
    let scaled = interface.scale.is_some();
    x.c == CPosition::Late && floor_is_low && !scaled && (fits || alone)
}

/// Floor, zero products and subnormal c: they matter only where they cut bits off.
fn exponents(x: &mut GenericDot, interface: &Interface, reach: &Reach, reasons: &mut Vec<Reason>) {
    let f = x.frac_bits as i32;
    let last = aligned_quantum(x, reach);
    let emin_c = interface.c.emin().min(interface.d.emin());
    let same_emin = interface.c.emin() >= interface.d.emin() && x.subnormal_c == SubnormalC::Stored;
    if x.floor == Floor::ZeroC && (same_emin || x.c == CPosition::Late) {
        plain("e_zero", &mut x.floor, Floor::BelowEmin(0), "a non-zero c is at emin or above", reasons);
    }
    let floor = floor_exponent(x.floor, interface);
    if floor.is_some_and(|e| e - f <= last) {
        let why = format!("at the floor and F = {f} no bit is lost: the smallest one is 2^{last}");
        plain("e_zero", &mut x.floor, Floor::None, why, reasons);
    }
    let zero_cuts = reach.zero_top - f > last && floor.is_none_or(|e| e < reach.zero_top);
    if !zero_cuts {
        plain("zero-products", &mut x.zero_products, ZeroProducts::Ignored, "zero products cut no bit", reasons);
    }
    let high_floor = matches!(x.floor, Floor::BelowEmin(n) if n <= 0) && interface.c.emin() >= interface.d.emin();
    if x.c == CPosition::Late || x.flush_inputs || emin_c - f <= last || high_floor {
        let why = "a subnormal c is never aligned where it cuts a bit";
        plain("subnormal-c", &mut x.subnormal_c, SubnormalC::Stored, why, reasons);
    }
}

/// What cannot happen to results.
fn results(x: &mut GenericDot, interface: &Interface, reach: &Reach, reasons: &mut Vec<Reason>) {
    let emin = interface.d.emin();
    let terms = reach.product_quantum.min(quantum(&interface.c));
    let kept = x.output_bits.unwrap_or(interface.d.fraction_bits) as i32;
    if x.flush_results && terms >= emin {
        plain("flush-out", &mut x.flush_results, false, "no result is subnormal", reasons);
    }
    let rounds_to_zero = !matches!(x.output_rounding, Rounding::AwayFromZero | Rounding::Down);
    let in_blocks = if x.c == CPosition::With { terms } else { reach.product_quantum };
    if x.negative_zero && (in_blocks >= emin - kept || !rounds_to_zero) {
        plain("negative-zero", &mut x.negative_zero, false, "no negative sum rounds to zero", reasons);
    }
}

/// Whether every operand, after flushing, keeps exponent and value in f16.
fn as_f16_changes_nothing(x: &GenericDot, interface: &Interface) -> bool {
    let same = |f: &FormatSpec| {
        if f.storage_bits > 8 {
            return *f == F16;
        }
        let kept = |n: &Num| n.is_finite() && !n.is_zero() && !(x.flush_inputs && n.is_subnormal());
        (0..=f.code_mask()).map(|code| f.decode(code)).filter(kept).all(|n| {
            let there = F16.decode(F16.encode_result(&n));
            let shift = F16.fraction_bits.checked_sub(n.frac_bits);
            shift.is_some_and(|s| there.exponent == n.exponent && there.significand == n.significand << s)
        })
    };
    same(&interface.a) && same(&interface.b)
}
