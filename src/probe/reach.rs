//! How far the numbers inside a generic unit reach: exponents, last bits and sums, bounded from
//! formats and parameters alone.

mod hidden;
mod sums;

use super::bench::top;
use super::black_box::Interface;
use crate::accumulate::{CPosition, Floor, GenericDot, SubnormalC, ZeroProducts};
use crate::format::{F16, FormatSpec};
use crate::round::Rounding;
use core::f64::consts::LN_2;

/// The weight of a format's last bit.
pub(super) const fn last_bit(f: &FormatSpec) -> i32 {
    f.emin() - f.fraction_bits as i32
}

/// A format's largest number: its exponent, and its significand from the highest bit of a word.
const fn largest(f: &FormatSpec) -> (i32, u64) {
    let max = f.max();
    (max.exponent, max.significand << (63 - max.frac_bits))
}

/// The range of one kind of term: the non-zero numbers it can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The smallest exponent that alignment sees.
    pub(super) low: i32,
    /// The largest one.
    pub(super) top: i32,
    /// Every value is a multiple of 2^last.
    pub(super) last: i32,
    /// Every magnitude is at least 2^smallest ...
    pub(super) smallest: i32,
    /// ... and below 2^largest.
    pub(super) largest: i32,
    /// Fraction bits.
    pub(super) width: i32,
}

impl Range {
    /// A format's numbers; subnormal ones possibly flushed, or with the exponent of their value.
    const fn of(f: &FormatSpec, flush: bool, normalised: bool) -> Self {
        let last = last_bit(f);
        Self {
            low: if normalised && !flush { last } else { f.emin() },
            top: top(f),
            last,
            smallest: if flush { f.emin() } else { last },
            largest: top(f) + 1,
            width: f.fraction_bits as i32,
        }
    }

    const fn times(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            top: self.top + other.top,
            last: self.last + other.last,
            smallest: self.smallest + other.smallest,
            largest: self.largest + other.largest,
            width: self.width + other.width,
        }
    }

    /// The terms of both kinds.
    fn and(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            top: self.top.max(other.top),
            last: self.last.min(other.last),
            smallest: self.smallest.min(other.smallest),
            largest: self.largest.max(other.largest),
            width: self.width.max(other.width),
        }
    }
}

/// What a and b are after flushing and conversion, and the exponent of a zero.
fn operand(x: &GenericDot, f: &FormatSpec) -> (Range, i32) {
    if !x.via_f16 {
        return (Range::of(f, x.flush_inputs, false), f.emin());
    }
    let zero = F16.emin();
    if !keeps_values_in_f16(f) {
        return (Range::of(&F16, false, false), zero);
    }
    let stored = Range::of(f, x.flush_inputs, true);
    // Numbers below f16's normal ones have its smallest exponent.
    let (low, top, width) = (stored.low.max(zero), stored.top.max(zero), stored.width.max(zero - stored.last));
    (Range { low, top, width, ..stored }, zero)
}

/// Whether f16 holds every number of a format.
pub(super) const fn keeps_values_in_f16(f: &FormatSpec) -> bool {
    f.fraction_bits <= F16.fraction_bits && top(f) <= 15 && last_bit(f) >= -24
}

/// The bounds of one generic unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) products: Range,
    /// The smallest and largest exponents of zero products, where they count.
    zeros: Option<(i32, i32)>,
    /// What stands beside the products of a block: c, or the block before.
    pub(super) addend: Option<Range>,
    /// No product exceeds peak 2^(high - products.width).
    peak: u128,
    high: i32,
    /// Whether d has a number as large as every c.
    holds_c: bool,
    /// The fraction bits that results keep.
    kept: i32,
    /// The weight of the smallest result's last bit.
    last_result: i32,
    /// Whether a product is summed with nothing beside it, scales neither.
    pub(super) alone: bool,
    scaled: bool,
    /// The alignment floor.
    pub(super) floor: Option<i32>,
    /// The floor if it stands whatever c is.
    pub(super) sure_floor: Option<i32>,
    /// Every value that is aligned is a multiple of 2^last.
    pub(super) last: i32,
    /// No block's exact sum reaches 2^largest_sum.
    pub(super) largest_sum: i32,
}

/// Fraction bits that alignment keeps: where one bit is cut, a sticky bit in its place is that bit.
pub(super) fn bits_kept(x: &GenericDot) -> i32 {
    // A tie is one bit, too.
    let stands = matches!(x.alignment, Rounding::TowardZero | Rounding::Down | Rounding::Up | Rounding::NearestZero);
    x.frac_bits as i32 + i32::from(x.sticky && stands)
}

/// Whether a rounding turns halfway between two neighbours, whichever way ties go.
const fn to_nearest(rounding: Rounding) -> bool {
    !matches!(rounding, Rounding::TowardZero | Rounding::AwayFromZero | Rounding::Down | Rounding::Up)
}

/// Whether what overflows `d` may become its largest number.
pub(super) const fn saturates(x: &GenericDot, d: &FormatSpec) -> bool {
    matches!(x.output_rounding, Rounding::Down | Rounding::Up) || !d.has_infinity()
}

const fn carries(terms: usize) -> i32 {
    terms.next_power_of_two().trailing_zeros() as i32
}

/// The natural logarithm of the factor by which a chain of blocks may grow past the sum of its terms, because each
/// block rounds what the earlier ones left, to `kept` bits.
fn growth(x: &GenericDot, blocks: usize, kept: i32) -> f64 {
    let output = if x.output_rounding == Rounding::TowardZero { 0.0 } else { power(-kept) };
    // Each term may become larger by one unit of the last bit that alignment keeps.
    let alignment = if grows_by_alignment(x) { (x.block as f64 + 1.0) * power(-(x.frac_bits as i32)) } else { 0.0 };
    blocks as f64 * (output + alignment)
}

/// Whether a term may become larger where it is aligned.
fn grows_by_alignment(x: &GenericDot) -> bool {
    !x.exact && (x.sticky || x.alignment != Rounding::TowardZero)
}

/// 2 to a power that no bound exceeds, nor goes below.
fn power(e: i32) -> f64 {
    f64::from(e.clamp(-900, 900)).exp2()
}

/// The least power of two above a positive number, which may be too small by its own rounding.
fn above(x: f64) -> i32 {
    ((x * (1.0 + power(-45))).to_bits() >> 52) as i32 - 1022
}

impl Reach {
    pub(super) fn new(x: &GenericDot, blocks: usize, i: &Interface) -> Self {
        let ((a, zero_a), (b, zero_b)) = (operand(x, &i.a), operand(x, &i.b));
        let mut products = a.times(b);
        let ones = |width: i32| (2u128 << width.min(60)) - 1;
        let (peak, high) = (ones(a.width) * ones(b.width), products.top);
        let mut zeros = ((a.low.min(zero_a) + b.low.min(zero_b)), (zero_a + b.top).max(a.top + zero_b));
        if let Some(rule) = i.scale {
            let scale = Range::of(&rule.format, false, false);
            products = products.times(scale).times(scale);
            zeros = (zeros.0 + 2 * scale.low, zeros.1 + 2 * scale.top);
        }
        if x.normalise_products {
            (products.low, products.top) = (products.smallest, products.largest - 1);
        }
        let normalised_c = x.subnormal_c == SubnormalC::Normalised;
        let c = (x.c == CPosition::With).then(|| Range::of(&i.c, x.flush_inputs, normalised_c));
        let floor = match x.floor {
            Floor::BelowEmin(n) => Some(i.d.emin() - n),
            Floor::ZeroC => Some(i.d.emin()),
            Floor::None => None,
        };
        let zeros = (x.zero_products == ZeroProducts::OwnExponent).then_some(zeros);
        let (kept, scaled) = (x.output_bits.unwrap_or(i.d.fraction_bits) as i32, i.scale.is_some());
        let chained = blocks > 1 && x.c != CPosition::Late;
        // Rounded up, a small term becomes one unit of the floor's or the zeros' alignment, and a small result one of
        // the subnormal results'.
        let coarsest = floor.unwrap_or(i32::MIN).max(zeros.map_or(i32::MIN, |z| z.1));
        let aligned = if x.exact { i32::MIN } else { coarsest.saturating_sub(x.frac_bits as i32).saturating_add(1) };
        let rounds_up = chained && x.output_rounding != Rounding::TowardZero;
        let unit = if rounds_up { aligned.max(i.d.emin() + 1) } else { aligned };
        // What is rounded up, or has a sticky bit, may double a sum, not more.
        let inexact = i32::from(grows_by_alignment(x));
        // Earlier blocks' sums grow by a factor of 1 to 2, and so many bits.
        let growth = if chained { growth(x, blocks, kept) } else { 0.0 };
        let more = (growth / LN_2).floor().min(1e6);
        let (factor, more) = ((growth - more * LN_2).clamp(0.0, LN_2).exp(), more as i32);
        // The sum of `n` products, and of c if it is among them, is below 2 to this power.
        let sum = |n: usize| {
            let terms = n + usize::from(c.is_some());
            let largest = match c {
                None if !scaled => above(peak as f64 * n as f64 * factor) + high - products.width,
                _ => {
                    // A factor of `width` bits is below 2 by half of its last bit, which is room for that much.
                    let width = i.a.fraction_bits.min(i.b.fraction_bits).max(c.map_or(0, |_| i.c.fraction_bits));
                    let room = growth <= power(-(width as i32) - 2);
                    let largest = products.largest.max(c.map_or(i32::MIN, |c| c.largest));
                    largest + carries(terms) + i32::from(!room)
                }
            };
            largest.max(unit.saturating_add(carries(terms))) + inexact + more
        };
        let largest_sum = sum(if x.c == CPosition::Late { x.block.min(i.k) } else { i.k });
        let last = products.last.min(c.map_or(products.last, |c| c.last));
        let previous = chained.then(|| {
            let d = Range::of(&i.d, x.flush_inputs || x.flush_results, normalised_c);
            let earlier = (blocks - 1).saturating_mul(x.block);
            // What overflows may be the largest number, of any products.
            let of_largest = if saturates(x, &i.d) && largest_sum > top(&i.d) { top(&i.d) - kept } else { i32::MAX };
            // A subnormal result has the exponent that it is stored with.
            let top = d.top.min((sum(earlier) - 1).max(d.low));
            Range { top, last: d.last.max(last.min(of_largest)), ..d }
        });
        let last = previous.map_or(last, |d| d.last.min(last));
        let addend = match (c, previous) {
            (Some(c), Some(d)) => Some(c.and(d)),
            (c, d) => c.or(d),
        };
        let sure_floor = floor.filter(|_| x.floor != Floor::ZeroC);
        let alone = x.block == 1 && addend.is_none() && i.scale.is_none();
        Self {
            products,
            zeros,
            addend,
            peak,
            high,
            holds_c: c.is_none() || largest(&i.c) <= largest(&i.d),
            kept,
            last_result: i.d.emin() - kept,
            alone,
            scaled,
            floor,
            sure_floor,
            last,
            largest_sum,
        }
    }

    /// The largest exponent of a zero product, where they count.
    pub(super) fn zero_top(&self) -> i32 {
        self.zeros.map_or(i32::MIN, |z| z.1)
    }

    /// The smallest exponent of any non-zero term.
    pub(super) fn lowest_term(&self) -> i32 {
        self.products.low.min(self.addend.map_or(i32::MAX, |c| c.low))
    }

    /// What alignment never goes below because products count, even those that are zero.
    pub(super) fn lowest_counted(&self) -> i32 {
        self.zeros.map_or(i32::MIN, |z| z.0.min(self.products.low))
    }

    /// What alignment never goes below because of the floor or of the products' own exponents.
    pub(super) fn lowest_without_addend(&self) -> i32 {
        self.sure_floor.unwrap_or(i32::MIN).max(self.lowest_counted())
    }

    /// The weight of the last bit kept where alignment starts at `e`.
    fn unit(&self, x: &GenericDot, e: i32) -> i32 {
        let unit = e.saturating_sub(x.frac_bits as i32 + i32::from(x.sticky));
        if x.exact { self.last } else { self.last.max(unit) }
    }

    /// Every block's sum is a multiple of 2^quantum.
    pub(super) fn quantum(&self, x: &GenericDot) -> i32 {
        self.unit(x, self.lowest_without_addend().max(self.lowest_term()))
    }

    /// Every block's sum other than zero has a magnitude of 2^smallest or more.
    pub(super) fn smallest_sum(&self, x: &GenericDot) -> i32 {
        let bound = self.lowest_without_addend();
        if self.alone && x.exact {
            return self.products.smallest;
        }
        let with_products = self.unit(x, bound.max(self.products.low));
        let Some(addend) = self.addend else { return with_products };
        // An addend alone keeps all its bits, or its leading one, if it is what alignment starts from.
        let kept = x.frac_bits as i32 >= addend.width || addend.smallest >= addend.low;
        let whole = x.exact || (kept && bound <= addend.low);
        let alone = if whole { addend.smallest } else { self.unit(x, bound.max(addend.low)) };
        with_products.min(alone)
    }

    /// Whether no bit of any term is ever cut off: neither by its own exponent, nor by another term's.
    pub(super) fn cuts_nothing(x: &GenericDot, blocks: usize, i: &Interface) -> bool {
        // As long as this holds for earlier blocks, what they left is the rounded sum of whole products.
        let reach = Self::new(&GenericDot { exact: true, ..*x }, blocks, i);
        let (kept, floor) = (bits_kept(x), reach.floor.unwrap_or(i32::MIN));
        let products = Range { width: reach.products.width + i32::from(x.normalise_products), ..reach.products };
        let products_top = products.top.max(reach.zero_top());
        let other_products = if x.block > 1 || reach.scaled { products_top } else { i32::MIN };
        let addend_top = reach.addend.map_or(i32::MIN, |c| c.top);
        let whole = |term: Range, others: i32| {
            let by_others = floor.max(others).saturating_sub(kept);
            (term.width <= kept || term.top - kept <= term.last) && by_others <= term.last
        };
        whole(products, other_products.max(addend_top)) && reach.addend.is_none_or(|c| whole(c, products_top))
    }

    /// Whether no block's sum overflows `d`.
    pub(super) fn stays_finite(&self, x: &GenericDot, d: &FormatSpec) -> bool {
        // Up to the next power of two all that `d` holds are finite, unless its largest codes are NaNs.
        let full = d.max().significand == (2 << d.fraction_bits) - 1;
        let below_next = || x.output_rounding == Rounding::TowardZero || self.rounds_nothing(x, self.kept, d);
        self.largest_sum <= top(d)
            || (full && self.largest_sum == top(d) + 1 && below_next())
            || (x.alignment == Rounding::TowardZero && self.cuts_beside_largest(x, d))
    }

    /// Whether a block's sum overflows `d` only in the direction in which it is rounded, which gives an infinity as
    /// rounding to nearest does.
    pub(super) fn overflows_outward(&self, x: &GenericDot, d: &FormatSpec) -> bool {
        let outward = matches!(x.alignment, Rounding::Down | Rounding::Up) && x.alignment == x.output_rounding;
        outward && self.cuts_beside_largest(x, d)
    }

    /// Whether products are cut off beside a c or an earlier sum so large that they could carry it over the top.
    fn cuts_beside_largest(&self, x: &GenericDot, d: &FormatSpec) -> bool {
        let f = x.frac_bits as i32;
        let small = self.products.largest + carries(x.block) < top(d) - f;
        let fits = self.holds_c && self.addend.is_some_and(|c| c.width.min(f) <= self.kept);
        !x.exact && !x.sticky && !self.scaled && small && fits
    }
}
