//! When two parameter sets are one function: rules, each with its reason.
//!
//! A parameter that no input of the given formats can show is set to its plainest value. Two
//! recipes with one canonical form are the same function; the converse need not hold.

mod generic;

use self::generic::generic;
use super::black_box::Interface;
use super::reach::{Reach, last_bit};
use crate::accumulate::{BlockedC, CPosition, Floor, GenericDot, MAX_REACH, OverflowBesideC, Recipe, RoundDown};
use crate::format::F32;
use crate::round::Rounding;
use crate::special::NanRule;

/// Why a parameter does not matter.
pub(crate) type Reason = (&'static str, String);

/// A recipe with every parameter that cannot be observed at its plainest value, and why. What no unit has is left as it
/// is: an interface that [`Interface::unit`] refuses, or refuses for this recipe.
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
    if interface.check().is_err() || !interface.accepts(recipe) {
        return (*recipe, reasons);
    }
    let k = interface.k;
    let recipe = match *recipe {
        Recipe::Generic(x) => Recipe::Generic(generic(x, interface, &mut reasons)),
        Recipe::Pairwise(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            if x.flush_inputs && keeps_results_normal(interface, x.group) {
                plain("flush-out", &mut x.flush_results, true, "no sum is subnormal", &mut reasons);
            }
            let sum = ExactThenC { group: x.group, flush_inputs: true, flush_results: x.flush_results, nan: x.nan };
            let like = x.flush_inputs.then(|| sum.generic(interface, &mut reasons)).flatten();
            like.map_or(Recipe::Pairwise(x), Recipe::Generic)
        }
        Recipe::Software(x) => {
            let sum = ExactThenC { group: k, flush_inputs: false, flush_results: false, nan: x.nan };
            let exact = (interface.d == F32).then(|| sum.generic(interface, &mut reasons)).flatten();
            let like = exact.or_else(|| fma_chain(x.nan, interface, &mut reasons));
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
            // A c out of a negative reach counts for alignment alone.
            if x.c_reach >= 0 {
                beyond_total(&mut x.base, interface, &mut reasons);
            }
            limit(&mut x.base.overflow_beside_c, interface, &mut reasons);
            // An infinite or NaN c has exponent 0 for this.
            if largest_exponent(interface).max(0) <= x.c_reach {
                let why = "no product is large enough to drop an infinite c";
                plain("special-c", &mut x.special_c, BlockedC::Propagates, why, &mut reasons);
            }
            let farthest = farthest_c(interface);
            if x.c_reach >= farthest {
                let why = format!("no c is more than {farthest} below a product");
                plain("c-reach", &mut x.c_reach, MAX_REACH, why, &mut reasons);
            } else if x.c_reach < 0 {
                plain("c-reach", &mut x.c_reach, -1, "every c is out of a negative reach", &mut reasons);
            }
            Recipe::GroupedRoundDown(x)
        }
        Recipe::GroupScaled(mut x) => {
            clamp("G", &mut x.group, k, &mut reasons);
            let Interface { a, b, c, d, scale, .. } = interface;
            let last = last_bit(a) + last_bit(b) + scale.map_or(0, |rule| 2 * last_bit(&rule.format));
            let last = last.min(last_bit(c));
            let floor = match x.floor {
                Floor::BelowEmin(n) => d.emin().saturating_sub(n),
                Floor::ZeroC | Floor::None => d.emin(),
            };
            if floor.saturating_sub(x.frac_bits as i32) <= last {
                let why = format!("no term has a bit below 2^{last}");
                plain("e_zero", &mut x.floor, Floor::None, why, &mut reasons);
            }
            Recipe::GroupScaled(x)
        }
        other => other,
    };
    (recipe, reasons)
}

/// The reasons why two recipes are one function, if the rules of [`canonical`] say so. Empty for
/// equal recipes.
pub fn same_function(x: &Recipe, y: &Recipe, interface: &Interface) -> Option<Vec<String>> {
    if x == y {
        return Some(Vec::new());
    }
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

/// The largest exponent of a product.
fn largest_exponent(interface: &Interface) -> i32 {
    Reach::new(&GenericDot::default(), 1, interface).products.top
}

/// How far below a product's exponent that of c, or of a step's result, can be; an infinite or NaN c has exponent 0.
pub(crate) fn farthest_c(interface: &Interface) -> i32 {
    (largest_exponent(interface) - interface.c.emin().min(interface.d.emin()).min(0)).max(0)
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

/// Whether a sum of a group of products, none of them of subnormal factors, and a c that is normal or zero is never
/// subnormal: where c cancels products, what is left is a multiple of the last bit of either.
fn keeps_results_normal(interface: &Interface, group: usize) -> bool {
    let like = GenericDot { flush_inputs: true, ..GenericDot::default() };
    let products = Reach::new(&like, 1, interface).products;
    let bits = interface.d.fraction_bits as i32;
    let lone = (group == 1 || interface.k == 1) && products.width <= bits;
    let least = if lone { products.smallest } else { products.last };
    interface.c == interface.d && least - bits > interface.d.emin()
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
        // Of a later group, the generic form reads what the earlier ones left as it reads c.
        let flushes = flush_results || (flush_inputs && blocks > 1);
        // A flushed sum keeps its sign here, and not in the generic form.
        let keeps_sign = !flush_results || lone || reach.products.last >= d.emin();
        let normal = !flushes || (keeps_results_normal(interface, group) && keeps_sign);
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

/// The generic form of an FMA chain in f32 to which c is added last, if no sum is so small that it is rounded to zero,
/// nor any infinite: generic sums forget the sign of a zero, and of such a one an FMA does not.
fn fma_chain(nan: NanRule, interface: &Interface, reasons: &mut Vec<Reason>) -> Option<GenericDot> {
    let rounding = Rounding::NearestEven;
    let x = GenericDot {
        block: 1,
        exact: true,
        c: CPosition::Last,
        output_rounding: rounding,
        nan,
        ..GenericDot::default()
    };
    let (d, reach) = (&interface.d, Reach::new(&x, interface.k, interface));
    if *d != F32 || reach.products.last < last_bit(d) || !reach.stays_finite(&x, d) {
        return None;
    }
    reasons.push(("family", "each FMA rounds the exact sum of a product and those before it".into()));
    Some(generic(x, interface, reasons))
}

/// Sets a parameter to its plainest value if it has another one, noting why that is the same.
fn plain<T: PartialEq>(name: &'static str, value: &mut T, to: T, why: impl Into<String>, reasons: &mut Vec<Reason>) {
    if *value != to {
        *value = to;
        reasons.push((name, why.into()));
    }
}

/// Whether a product can be 2^128 or more.
fn reaches_limit(interface: &Interface) -> bool {
    Reach::new(&GenericDot::default(), 1, interface).products.largest > 128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accumulate::GroupedRoundDown;
    use crate::format::{E2M1, F16, FormatSpec, Specials};
    use crate::instr::ScaleRule;
    use crate::probe::Input;

    /// Scales up to 2^-8, by which all products are below a c whose reach then counts for nothing; a NaN scale decides.
    #[test]
    fn products_of_nan_scales_have_no_exponent() {
        let format = FormatSpec {
            name: "low",
            storage_bits: 8,
            signed: false,
            exponent_bits: 2,
            fraction_bits: 1,
            bias: 11,
            subnormals: true,
            specials: Specials::NanAllOnes,
            ignored_low_bits: 0,
        };
        let scale = Some(ScaleRule { format, block: 1 });
        let interface = Interface { k: 1, a: E2M1, b: E2M1, c: F16, d: F16, scale };
        let near = Recipe::GroupedRoundDown(GroupedRoundDown { c_reach: 2, ..GroupedRoundDown::CDNA3 });
        let far = Recipe::GroupedRoundDown(GroupedRoundDown { c_reach: MAX_REACH, ..GroupedRoundDown::CDNA3 });
        let input = Input { a: vec![2], b: vec![2], c: 0xB000, scale_a: vec![7], scale_b: vec![7] };
        let d = [near, far].map(|r| input.eval(&interface.unit(r).expect("a unit")).expect("an answer"));
        assert!(F16.decode(d[0]).is_nan() && d[0] == d[1], "{d:x?}");
        assert!(same_function(&near, &far, &interface).is_some());
    }
}
