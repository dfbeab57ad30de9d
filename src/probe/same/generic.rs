//! The rules for the generic rule's parameters, each with its reason.

use super::super::bench::top;
use super::super::black_box::Interface;
use super::super::reach::{Reach, bits_kept, keeps_values_in_f16, last_bit, saturates};
use super::{Reason, clamp, keeps_results_normal, plain, reaches_limit};
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, SubnormalC, ZeroProducts};
use crate::format::{F16, F32, FormatSpec};
use crate::round::Rounding;

/// The plainest parameters of the same function.
pub(super) fn generic(mut x: GenericDot, interface: &Interface, reasons: &mut Vec<Reason>) -> GenericDot {
    // Each rule only makes a parameter plainer, and may let another one see more.
    loop {
        let before = x;
        rules(&mut x, interface, reasons);
        if x == before {
            return x;
        }
    }
}

fn rules(x: &mut GenericDot, interface: &Interface, reasons: &mut Vec<Reason>) {
    let blocks = cut(x, interface.k, reasons);
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
    as_f16(x, interface, blocks, reasons);
    lone_products(x, interface, blocks, reasons);
    lone_at_last_result(x, interface, blocks, reasons);
    vanished_sign(x, interface, blocks, reasons);
    no_floor(x, interface, blocks, reasons);
    let reach = Reach::new(x, blocks, interface);
    if !x.exact && Reach::cuts_nothing(x, blocks, interface) {
        plain("exact", &mut x.exact, true, format!("no term loses a bit at F = {}", x.frac_bits), reasons);
    }
    if !x.exact && reach.cut_is_rounding(x, interface) {
        let why = format!("what F = {} cuts off changes no rounding of the result", x.frac_bits);
        plain("exact", &mut x.exact, true, why, reasons);
    }
    if x.exact {
        no_alignment(x, reasons);
    } else {
        floor_and_width(x, interface, blocks, reasons);
        exponents(x, interface, blocks, reasons);
    }
    c_with_exact_sums(x, interface, blocks, reasons);
    results(x, interface, blocks, reasons);
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

/// A product alone in its block that only the floor cuts, where the smallest results end: the cut is the output's
/// rounding, which larger products, having no more bits than results, do not know.
fn lone_at_last_result(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let reach = Reach::new(x, blocks, interface);
    let (emin, kept) = (interface.d.emin(), x.output_bits.unwrap_or(interface.d.fraction_bits) as i32);
    let width = reach.products.width + 1;
    let plain_cut = reach.alone && !x.sticky && !x.exact && !x.negative_zero && !x.via_f16;
    let ends_there = reach.sure_floor.is_some_and(|e| e - x.frac_bits as i32 == emin - kept);
    // Nothing but the floor cuts, and no result but those below its last place is rounded, nor does any saturate.
    let saturating = |output_rounding| saturates(&GenericDot { output_rounding, ..*x }, &interface.d);
    let finite = reach.products.largest < top(&interface.d);
    let overflows_alike = finite || ![x.output_rounding, x.alignment].into_iter().any(saturating);
    let no_other = x.frac_bits as i32 >= width && width <= kept && overflows_alike;
    if plain_cut && ends_there && no_other && x.zero_products == ZeroProducts::Ignored {
        let why = "a lone product is cut where the smallest results end, by its floor alone";
        let rounding = x.alignment;
        plain("exact", &mut x.exact, true, why, reasons);
        plain("out", &mut x.output_rounding, rounding, why, reasons);
    }
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
    } else if !x.negative_zero && reach.is_flushed_below(x, interface, e, e) {
        "where it counts, sums are subnormal, and flushed".into()
    } else if reach.hides_floor(x, interface, e) {
        "what is cut where it counts changes no rounding of the result".into()
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
    if reach.floor.is_some_and(|e| e - bits_kept(x) <= reach.last) {
        let why = format!("at the floor and F = {f} no bit is lost: the smallest one is 2^{}", reach.last);
        plain("e_zero", &mut x.floor, Floor::None, why, reasons);
    }
    let kept = bits_kept(x);
    let width = reach.products.width + 1;
    // By way of f16, the exponents of small operands are far above them.
    let stored = Reach::new(&GenericDot { normalise_products: false, ..*x }, blocks, interface).products;
    if reach.alone && !x.via_f16 && f >= width {
        let why = format!("a lone product has {width} fraction bits at most, none of which it cuts itself");
        plain("normalise", &mut x.normalise_products, false, why, reasons);
    } else if stored.top.max(stored.largest - 1) - kept <= reach.last {
        plain("normalise", &mut x.normalise_products, false, "no product's exponent is one that cuts a bit", reasons);
    }
    let counted = GenericDot { zero_products: ZeroProducts::OwnExponent, ..*x };
    let zero_top = Reach::new(&counted, blocks, interface).zero_top();
    // A block of one product that is zero has no other term than c.
    let beside_c = x.block == 1 && reach.addend.is_none_or(|c| zero_top - kept <= c.last);
    if beside_c || zero_top - kept <= reach.last || reach.sure_floor.is_some_and(|e| e >= zero_top) {
        plain("zero-products", &mut x.zero_products, ZeroProducts::Ignored, "zero products cut no bit", reasons);
    }
    let emin_c = interface.c.emin().max(emin);
    let normal = x.flush_inputs || (x.flush_results && x.c != CPosition::With);
    let never = reach.addend.is_none_or(|c| normal || emin_c - kept <= reach.last.min(c.last));
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
    // Both operands' exponents in f16, where one of them is that of subnormal numbers.
    let [emin_a, emin_b, top_a, top_b] = [a.emin(), b.emin(), top(a), top(b)].map(|e| e.max(F16.emin()));
    let subnormal_top = (emin_a + top_b).max(top_a + emin_b);
    let reach = Reach::new(&GenericDot { via_f16: false, ..*x }, blocks, interface);
    let zeros = x.zero_products == ZeroProducts::OwnExponent;
    let cut = subnormal_top - x.frac_bits as i32 > reach.last;
    let same = |f: &FormatSpec| f.emin() == F16.emin() || (f.emin() > F16.emin() && x.flush_inputs && !zeros);
    if x.exact || (x.normalise_products && !zeros) || (interface.scale.is_none() && !cut) || (same(a) && same(b)) {
        plain("via-f16", &mut x.via_f16, false, "no operand's exponent in f16 cuts a bit more or less", reasons);
    }
}

/// Whether every block's sum is a number of d, which no rounding or flushing changes.
fn is_result(x: &GenericDot, interface: &Interface, blocks: usize) -> bool {
    let (d, reach) = (&interface.d, Reach::new(x, blocks, interface));
    let kept = x.output_bits.unwrap_or(d.fraction_bits) as i32;
    let whole = reach.rounds_nothing(x, kept, d) && reach.stays_finite(x, d);
    // A later block reads it as an input.
    whole && (!(x.flush_results || x.flush_inputs) || reach.smallest_sum(x) >= d.emin())
}

/// c in an exact sum rounded to nearest is c added to that sum, if the sum alone is a number of d.
fn c_with_exact_sums(x: &mut GenericDot, interface: &Interface, blocks: usize, reasons: &mut Vec<Reason>) {
    let d = &interface.d;
    let to_nearest = x.output_rounding == Rounding::NearestEven && x.output_bits.is_none();
    if x.c != CPosition::With || !x.exact || !to_nearest || interface.c != *d {
        return;
    }
    if is_result(&GenericDot { c: CPosition::Late, ..*x }, interface, blocks) {
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
        let flushes = x.flush_results || x.flush_inputs;
        let steady = x.exact && finite && (!flushes || reach.quantum(x) >= emin);
        if steady && x.c == CPosition::Last {
            plain("block", &mut x.block, interface.k, why, reasons);
            plain("pattern", &mut x.pattern, Pattern::Runs, why, reasons);
        }
    }
    earlier_blocks(x, interface, reasons);
    let overflows = [F16, F32].contains(&interface.d) && !directed;
    // Alignment leaves the leading bit of such a product.
    let f = x.frac_bits as i32;
    let whole = x.exact || (f >= reach.depth(x, interface, 127) && reach.floor.is_none_or(|e| e - f <= 128));
    if x.product_limit && reach.alone && overflows && whole {
        plain("limit", &mut x.product_limit, false, "a lone product of 2^128 overflows", reasons);
    }
    // Late c is added to a sum: the result is a multiple of the smaller one's last bit.
    let result = if x.c == CPosition::With { smallest } else { reach.last.min(last_bit(&interface.c)) };
    // The largest number, which stands for what overflows, may leave its own last bit, or c's beside it.
    let saturated = !finite && saturates(x, &interface.d);
    let [left, beside_c] = [kept, interface.d.fraction_bits as i32 + 1].map(|bits| top(&interface.d) - bits);
    let result = if saturated { result.min(left) } else { result };
    // Aligned to a multiple of d's smallest normal number, or exactly, c is not smaller than that. A sticky bit is.
    let apart = x.c != CPosition::With || x.exact || !x.sticky;
    let normal = apart && x.flush_inputs && keeps_results_normal(interface, x.block);
    let normal = normal && (!saturated || beside_c.min(left) >= emin);
    if x.flush_results && (result >= emin || normal) {
        plain("flush-out", &mut x.flush_results, false, "no result is subnormal", reasons);
    }
}

/// Blocks whose sum is a number of d, which are one block with the one behind them: all but the last, or all but two.
fn earlier_blocks(x: &mut GenericDot, interface: &Interface, reasons: &mut Vec<Reason>) {
    if !x.exact || x.c != CPosition::Last {
        return;
    }
    let blocks = interface.k.div_ceil(x.block.max(1));
    let is_whole = |n: usize| n > 0 && is_result(x, &Interface { k: n * x.block, ..*interface }, n);
    if is_whole(blocks.saturating_sub(1)) {
        let why = "what all blocks but the last sum is a number of d";
        plain("block", &mut x.block, interface.k, why, reasons);
        plain("pattern", &mut x.pattern, Pattern::Runs, why, reasons);
    } else if is_whole(blocks.saturating_sub(2)) {
        // Cut by so many, K has two blocks: these joined, and the last.
        let joined = (blocks - 1) * x.block;
        let sorted = |mut block: Vec<usize>| {
            block.sort_unstable();
            block
        };
        let first = sorted(x.pattern.blocks(interface.k, x.block)[..blocks - 1].concat());
        let named = [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs];
        let is_named = |p: &Pattern| sorted(p.blocks(interface.k, joined).swap_remove(0)) == first;
        if let Some(pattern) = named.into_iter().find(is_named) {
            let why = "what all blocks but the last two sum is a number of d";
            plain("block", &mut x.block, joined, why, reasons);
            plain("pattern", &mut x.pattern, pattern, why, reasons);
        }
    }
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
