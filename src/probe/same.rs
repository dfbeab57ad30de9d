//! When two parameter sets are one function: rules, each with its reason.
//!
//! A parameter that no input of the given formats can show is set to its plainest value. Two
//! recipes with one canonical form are the same function; the converse need not hold.

use super::bench::top;
use super::black_box::Interface;
use super::reach::{Reach, bits_kept, keeps_values_in_f16, last_bit};
use crate::accumulate::{
    BlockedC, CPosition, Floor, GenericDot, OverflowBesideC, Pattern, Recipe, RoundDown, SubnormalC, ZeroProducts,
};
use crate::format::{F16, F32, FormatSpec};
use crate::round::Rounding;
use crate::special::NanRule;

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
            if x.flush_inputs && keeps_results_normal(interface) {
                plain("flush-out", &mut x.flush_results, true, "no sum is subnormal", &mut reasons);
            }
            let sum = ExactThenC { group: x.group, flush_inputs: true, flush_results: x.flush_results, nan: x.nan };
            let like = x.flush_inputs.then(|| sum.generic(interface, &mut reasons)).flatten();
            like.map_or(Recipe::Pairwise(x), Recipe::Generic)
        }
        Recipe::Software(x) => {
            let sum = ExactThenC { group: k, flush_inputs: false, flush_results: false, nan: x.nan };
            let like = (interface.d == F32).then(|| sum.generic(interface, &mut reasons)).flatten();
            like.map_or(Recipe::Software(x), Recipe::Generic)
        }
        Recipe::RoundDown(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            limit(&mut x.overflow_beside_c, interface, &mut reasons);
            beyond_total(&mut x, interface, &mut reasons);
            Recipe::RoundDown(x)
        }
        Recipe::GroupedRoundDown(mut x) => {
            clamp("G", &mut x.base.group, k, &mut reasons);
            beyond_total(&mut x.base, interface, &mut reasons);
            limit(&mut x.base.overflow_beside_c, interface, &mut reasons);
            // An infinite or NaN c has exponent 0 for this.
            if Reach::new(&GenericDot::default(), 1, interface).products.top.max(0) <= x.c_reach {
                let why = "no product is large enough to drop an infinite c";
                plain("special-c", &mut x.special_c, BlockedC::Propagates, why, &mut reasons);
            }
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
    if *rule != OverflowBesideC::default() && !reaches_limit(interface) {
        *rule = OverflowBesideC::default();
        reasons.push(("overflow-beside-c", "no product reaches 2^128".into()));
    }
}

/// Bits of the products' sum that the total never keeps: where there are any, the products are so
/// far below c that the total is at least half of c, or subnormal with it.
fn beyond_total(x: &mut RoundDown, interface: &Interface, reasons: &mut Vec<Reason>) {
    let Some(total) = x.total_bits else { return };
    let products = x.group.next_power_of_two().trailing_zeros() + x.frac_bits;
    let normal_c = interface.c.emin() <= interface.d.emin();
    if x.sum_bits > total.saturating_add(1) && products < total && normal_c {
        let why = format!("the total keeps at most {} of the bits below the largest exponent", total + 1);
        plain("sum", &mut x.sum_bits, total + 1, why, reasons);
    }
}

/// Whether a sum of products and a c that is normal or zero is never subnormal: where c cancels
/// products, what is left is a multiple of c's last bit.
fn keeps_results_normal(interface: &Interface) -> bool {
    let like = GenericDot { flush_inputs: true, ..GenericDot::default() };
    let last = Reach::new(&like, 1, interface).products.last;
    interface.c == interface.d && last - interface.d.fraction_bits as i32 > interface.d.emin()
}

/// Groups of products that IEEE operations sum exactly, each then added to c in RNE, by whichever family.
struct ExactThenC {
    group: usize,
    flush_inputs: bool,
    flush_results: bool,
    nan: NanRule,
}

impl ExactThenC {
    /// The generic form, if the formats make every sum of products exact and none subnormal.
    fn generic(&self, interface: &Interface, reasons: &mut Vec<Reason>) -> Option<GenericDot> {
        let Self { group, flush_inputs, flush_results, nan } = *self;
        let blocks = interface.k.div_ceil(group.max(1));
        let x = GenericDot {
            block: group,
            exact: true,
            c: if blocks > 1 { CPosition::Late } else { CPosition::Last },
            output_rounding: Rounding::NearestEven,
            flush_inputs,
            flush_results,
            nan,
            ..GenericDot::default()
        };
        let d = &interface.d;
        let reach = Reach::new(&x, blocks, interface);
        let lone = group == 1 || interface.k == 1;
        // A flushed sum keeps its sign here, and not in the generic form.
        let normal = match flush_results {
            true => keeps_results_normal(interface) && (lone || reach.products.last >= d.emin()),
            false => true,
        };
        if interface.c != *d
            || !normal
            || reach.products.smallest < d.emin()
            || !reach.rounds_nothing(&x, d.fraction_bits as i32, d)
            || !reach.stays_finite(&x, d)
        {
            return None;
        }
        reasons.push(("family", format!("the sums of products are exact in {d}")));
        Some(generic(x, interface, reasons))
    }
}

/// Sets a parameter to its plainest value if it has another one, noting why that is the same.
fn plain<T: PartialEq>(name: &'static str, value: &mut T, to: T, why: impl Into<String>, reasons: &mut Vec<Reason>) {
    if *value != to {
        *value = to;
        reasons.push((name, why.into()));
    }
}

fn generic(mut x: GenericDot, interface: &Interface, reasons: &mut Vec<Reason>) -> GenericDot {
    let blocks = cut(&mut x, interface.k, reasons);
    if blocks == 1 && x.c == CPosition::Late {
        plain("c", &mut x.c, CPosition::Last, "with one block, late is last", reasons);
    }
    if x.output_bits.is_some_and(|p| p >= interface.d.fraction_bits) {
        plain("out-bits", &mut x.output_bits, None, "d has no more bits", reasons);
    }
    if x.product_limit && !reaches_limit(interface) {
        plain("limit", &mut x.product_limit, false, "no product reaches 2^128", reasons);
    }
    if x.sticky && matches!(x.alignment, Rounding::Down | Rounding::Up) {
        let why = "cut toward either side, the sticky bit stands for what lies between";
        plain("align", &mut x.alignment, Rounding::TowardZero, why, reasons);
    }
    as_f16(&mut x, interface, blocks, reasons);
    lone_products(&mut x, interface, blocks, reasons);
    vanished_sign(&mut x, interface, blocks, reasons);
    no_floor(&mut x, interface, blocks, reasons);
    let reach = Reach::new(&x, blocks, interface);
    if !x.exact && Reach::cuts_nothing(&x, blocks, interface) {
        plain("exact", &mut x.exact, true, format!("no term loses a bit at F = {}", x.frac_bits), reasons);
    }
    if !x.exact && reach.cut_is_rounding(&x, interface) {
        let why = format!("what F = {} cuts off changes no rounding of the result", x.frac_bits);
        plain("exact", &mut x.exact, true, why, reasons);
    }
    if x.exact {
        no_alignment(&mut x, reasons);
    } else {
        floor_and_width(&mut x, interface, blocks, reasons);
        no_floor(&mut x, interface, blocks, reasons);
        exponents(&mut x, interface, blocks, reasons);
    }
    as_f16(&mut x, interface, blocks, reasons);
    c_with_exact_sums(&mut x, interface, blocks, reasons);
    results(&mut x, interface, blocks, reasons);
    x
}

/// What an exact sum does not look at.
fn no_alignment(x: &mut GenericDot, reasons: &mut Vec<Reason>) {
    let (d, why) = (GenericDot::default(), "an exact sum aligns nothing");
    plain("F", &mut x.frac_bits, d.frac_bits, why, reasons);
    plain("align", &mut x.alignment, d.alignment, why, reasons);
    plain("sticky", &mut x.sticky, false, why, reasons);
    plain("normalise", &mut x.normalise_products, false, why, reasons);
    plain("e_zero", &mut x.floor, Floor::None, why, reasons);
    plain("zero-products", &mut x.zero_products, ZeroProducts::Ignored, why, reasons);
    plain("subnormal-c", &mut x.subnormal_c, SubnormalC::Stored, why, reasons);
}

/// A normalised product alone in its block, cut to fewer bits than the output has: the cut is the
/// output's rounding.
fn lone_products(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let kept = x.output_bits.unwrap_or(interface.d.fraction_bits);
    let plain_cut = x.normalise_products && !x.sticky && !x.exact && x.frac_bits <= kept;
    let reach = Reach::new(x, blocks, interface);
    let normal = reach.products.smallest >= interface.d.emin() && reach.products.largest < top(&interface.d);
    let floor_is_low = reach.floor.is_none_or(|e| e <= reach.products.low);
    if reach.alone && plain_cut && normal && floor_is_low && x.frac_bits > 0 {
        let why = format!("a lone product cut to F = {} bits is rounded to F bits", x.frac_bits);
        let (bits, rounding) = (Some(x.frac_bits).filter(|&f| f < interface.d.fraction_bits), x.alignment);
        plain("exact", &mut x.exact, true, why.clone(), reasons);
        plain("out-bits", &mut x.output_bits, bits, why.clone(), reasons);
        plain("out", &mut x.output_rounding, rounding, why, reasons);
    }
}

/// Whether a product can be 2^128 or more.
fn reaches_limit(interface: &Interface) -> bool {
    Reach::new(&GenericDot::default(), 1, interface).products.largest > 128
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

/// A floor below all that is aligned, or where no result shows it.
fn no_floor(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let reach = Reach::new(x, blocks, interface);
    let Some(e) = reach.floor.filter(|_| !x.exact) else { return };
    let low = reach.lowest_term();
    let why = if e <= low {
        format!("no term's exponent is below 2^{low}")
    } else if x.floor == Floor::ZeroC && e <= reach.products.low {
        format!("no product's exponent is below 2^{}, and it counts beside a zero c alone", reach.products.low)
    } else if e <= reach.lowest_counted() {
        format!("each block has a product, zero or not, whose exponent is at least {e}")
    } else if !x.negative_zero && reach.is_flushed_below(x, interface, e) {
        "where it counts, sums are subnormal, and flushed".into()
    } else {
        return;
    };
    plain("e_zero", &mut x.floor, Floor::None, why, reasons);
}

/// A floor and F that show in nothing but the last bit that is kept at the floor.
fn floor_and_width(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let reach = Reach::new(x, blocks, interface);
    if x.floor == Floor::ZeroC && reach.addend.is_none_or(|c| c.low >= interface.d.emin()) {
        plain("e_zero", &mut x.floor, Floor::BelowEmin(0), "a non-zero c is at emin or above", reasons);
    }
    let Floor::BelowEmin(n) = x.floor else { return };
    if let Some(least) = reach.least_width(x, interface).filter(|&least| least < x.frac_bits) {
        let why = format!("only the last bit at the floor shows, 2^{}", interface.d.emin() - n - x.frac_bits as i32);
        plain("e_zero", &mut x.floor, Floor::BelowEmin(n + (x.frac_bits - least) as i32), why.clone(), reasons);
        plain("F", &mut x.frac_bits, least, why, reasons);
    }
}

/// Floor, zero products and subnormal c: they matter only where they cut bits off.
fn exponents(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let f = x.frac_bits as i32;
    let reach = Reach::new(x, blocks, interface);
    let emin = interface.d.emin();
    if reach.floor.is_some_and(|e| e - f <= reach.last) {
        let why = format!("at the floor and F = {f} no bit is lost: the smallest one is 2^{}", reach.last);
        plain("e_zero", &mut x.floor, Floor::None, why, reasons);
    }
    let width = reach.products.width + 1;
    if reach.alone && !x.via_f16 && f >= width {
        let why = format!("a lone product has {width} fraction bits at most, none of which it cuts itself");
        plain("normalise", &mut x.normalise_products, false, why, reasons);
    } else if reach.products.largest - 1 - f <= reach.last {
        plain("normalise", &mut x.normalise_products, false, "no product's exponent is one that cuts a bit", reasons);
    }
    let counted = GenericDot { zero_products: ZeroProducts::OwnExponent, ..*x };
    let zero_top = Reach::new(&counted, blocks, interface).zero_top();
    let alone = reach.alone || zero_top - f <= reach.last;
    if alone || reach.sure_floor.is_some_and(|e| e >= zero_top) {
        plain("zero-products", &mut x.zero_products, ZeroProducts::Ignored, "zero products cut no bit", reasons);
    }
    let emin_c = interface.c.emin().max(emin);
    let kept = bits_kept(x);
    let never = reach.addend.is_none_or(|c| x.flush_inputs || emin_c - kept <= reach.last.min(c.last));
    // With products it is not the largest term.
    let lone = reach.products.low >= emin_c;
    let lone_whole = lone && reach.addend.is_some_and(|c| emin_c - kept <= c.last);
    let whole = x.alignment == Rounding::TowardZero && x.output_bits.is_none() && interface.c == interface.d;
    let flushed = lone && x.flush_results && whole;
    if never || lone_whole || flushed || reach.lowest_without_addend() >= emin_c {
        let why = "a subnormal c is never aligned where it cuts a bit";
        plain("subnormal-c", &mut x.subnormal_c, SubnormalC::Stored, why, reasons);
    }
}

/// The detour through f16 shows in the exponents of subnormal operands, and only where they cut.
fn as_f16(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let Interface { a, b, .. } = interface;
    if !x.via_f16 || !keeps_values_in_f16(a) || !keeps_values_in_f16(b) {
        return;
    }
    let subnormal_top = (a.emin() + top(b)).max(top(a) + b.emin());
    let reach = Reach::new(&GenericDot { via_f16: false, ..*x }, blocks, interface);
    let zeros = x.zero_products == ZeroProducts::OwnExponent;
    let cut = subnormal_top - x.frac_bits as i32 > reach.last;
    let same = |f: &FormatSpec| f.emin() <= F16.emin() || (x.flush_inputs && !zeros);
    if x.exact || (x.normalise_products && !zeros) || (interface.scale.is_none() && !cut) || (same(a) && same(b)) {
        plain("via-f16", &mut x.via_f16, false, "no operand's exponent in f16 cuts a bit more or less", reasons);
    }
}

/// c in an exact sum rounded to nearest is c added to that sum, if the sum alone is a number of d.
fn c_with_exact_sums(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let d = &interface.d;
    let to_nearest = x.output_rounding == Rounding::NearestEven && x.output_bits.is_none();
    if x.c != CPosition::With || !x.exact || !to_nearest || interface.c != *d {
        return;
    }
    let late = GenericDot { c: CPosition::Late, ..*x };
    let reach = Reach::new(&late, blocks, interface);
    let whole = reach.rounds_nothing(&late, d.fraction_bits as i32, d) && reach.stays_finite(&late, d);
    if whole && (!x.flush_results || reach.smallest_sum(&late) >= d.emin()) {
        let to = if blocks == 1 { CPosition::Last } else { CPosition::Late };
        plain("c", &mut x.c, to, "each block's products sum to a number of d, to which c is added in RNE", reasons);
    }
}

/// What cannot happen to results.
fn results(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let reach = Reach::new(x, blocks, interface);
    let emin = interface.d.emin();
    let kept = x.output_bits.unwrap_or(interface.d.fraction_bits) as i32;
    let smallest = reach.smallest_sum(x);
    let directed = matches!(x.output_rounding, Rounding::Down | Rounding::Up);
    let finite = reach.stays_finite(x, &interface.d);
    let one_way = finite || !directed || reach.overflows_outward(x, &interface.d);
    if reach.rounds_nothing(x, kept, &interface.d) && one_way {
        let (d, why) = (GenericDot::default(), "no block's sum has more bits than d");
        plain("out", &mut x.output_rounding, d.output_rounding, why, reasons);
        plain("out-bits", &mut x.output_bits, None, why, reasons);
        let steady = x.exact && finite && (!x.flush_results || reach.quantum(x) >= emin);
        if steady && x.c == CPosition::Last {
            plain("block", &mut x.block, interface.k, why, reasons);
            plain("pattern", &mut x.pattern, Pattern::Runs, why, reasons);
        }
    }
    let overflows = [F16, F32].contains(&interface.d) && !directed;
    if x.product_limit && reach.alone && overflows {
        plain("limit", &mut x.product_limit, false, "a lone product of 2^128 overflows", reasons);
    }
    // Late c is added to a sum: the result is a multiple of the smaller one's last bit.
    let result = if x.c == CPosition::With { smallest } else { reach.products.last.min(last_bit(&interface.c)) };
    let apart = x.c != CPosition::With || x.exact;
    let normal = apart && x.flush_inputs && keeps_results_normal(interface);
    if x.flush_results && (result >= emin || normal) {
        plain("flush-out", &mut x.flush_results, false, "no result is subnormal", reasons);
    }
    vanished_sign(x, interface, blocks, reasons);
}

/// The sign of a sum that rounds to zero, where none does or none shows.
fn vanished_sign(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let reach = Reach::new(x, blocks, interface);
    let least = interface.d.emin() - x.output_bits.unwrap_or(interface.d.fraction_bits) as i32;
    let rounds_to_zero = !matches!(x.output_rounding, Rounding::AwayFromZero | Rounding::Down);
    // The last block's terms are products and what the block before rounded, a multiple of d's smallest number.
    let after_another = blocks > 1 && x.c != CPosition::Late && reach.products.last >= least;
    let never = reach.smallest_sum(x) >= least || !rounds_to_zero;
    if x.negative_zero && (never || after_another) {
        let why = if never {
            "no negative sum rounds to zero"
        } else {
            "no negative sum of the last block rounds to zero, and it sees no sign of an earlier zero"
        };
        plain("negative-zero", &mut x.negative_zero, false, why, reasons);
    }
}
