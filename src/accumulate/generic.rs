//! The parametrised accumulator: units that do not exist, and the FDA family as settings of it.

use super::fused::{self, check_floor, check_frac_bits, check_output, check_rounding, check_width};
use super::{
    Accumulator, Dot, Finish, Floor, FusedDotAdd, Recipe, Refusal, Signature, SubnormalC, ZeroProducts, gather, ieee,
};
use crate::format::FormatSpec;
use crate::num::{self, Fixed, Num, Term};
use crate::round::Rounding;
use crate::special::{NanRule, SpecialCases};
use crate::trace::{Event, Label, Observer, Trace};
use std::borrow::Cow;

/// Which products a block takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Runs of `block` consecutive k, the last one shorter if K is no multiple.
    #[default]
    Runs,
    /// The even k, then the odd k, cut into runs of `block`.
    EvenOdd,
    /// The k with even floor(k/2), then the others, cut into runs of `block`.
    InterleavedPairs,
}

/// Where c enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CPosition {
    /// Each block's c is one of the terms that are aligned and summed ("early").
    #[default]
    With,
    /// Each block's products are summed and rounded alone; c is added to that in IEEE RNE.
    Late,
    /// The blocks run as a chain from +0; c is added once, at the very end, in IEEE RNE.
    Last,
}

/// An accumulator with every known property as a parameter (after Khattak and Mikaitis IV-C).
///
/// What is not named is as in Hopper's sums to f32, in blocks of 16 ([`GenericDot::default`]): NVIDIA's f16 results are
/// rounded to nearest even (`out=rne`). In names of units it is `dot`:
///
/// ```
/// use gemmulate::prelude::*;
/// let dot = GenericDot { block: 8, frac_bits: 30, output_rounding: Rounding::NearestEven, ..GenericDot::default() };
/// let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32")?.with_accumulator(dot)?;
/// assert_eq!(unit, Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32/dot:block=8:F=30:out=rne")?);
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenericDot {
    /// L: products per block. The blocks run in order, each one's d the next one's c.
    pub block: usize,
    /// Which products a block takes.
    pub pattern: Pattern,
    /// F: fraction bits kept below the largest exponent.
    pub frac_bits: u32,
    /// How a term is rounded to F fraction bits: RZ, RD or RNE in known designs.
    pub alignment: Rounding,
    /// Whether one more bit below F is kept, set if a term was not exact in F bits: half a unit more than
    /// what `alignment` made of it, so 1.75 units are 1.5 with RZ, and 2.5 with RNE.
    pub sticky: bool,
    /// Whether products are normalised to `1 <= s < 2` before alignment.
    pub normalise_products: bool,
    /// The exponent that alignment never goes below.
    pub floor: Floor,
    /// Whether zero products count in the largest exponent.
    pub zero_products: ZeroProducts,
    /// The exponent of a subnormal c.
    pub subnormal_c: SubnormalC,
    /// Where c enters.
    pub c: CPosition,
    /// The output rounding: RNE, RZ, RD or RU in known designs.
    pub output_rounding: Rounding,
    /// Fraction bits of the output kept, if fewer than its format has.
    pub output_bits: Option<u32>,
    /// Whether a and b are converted to f16 first, so that e4m3's subnormals become normal.
    pub via_f16: bool,
    /// Whether subnormal a, b and c are read as +0.
    pub flush_inputs: bool,
    /// Whether subnormal results of a block become +0.
    pub flush_results: bool,
    /// Whether products of magnitude 2^128 and above count as infinities.
    pub product_limit: bool,
    /// Whether the block is summed exactly, without alignment.
    pub exact: bool,
    /// Whether a negative value that rounds to zero gives -0.
    pub negative_zero: bool,
    /// The NaN returned.
    pub nan: NanRule,
}

impl Default for GenericDot {
    /// Hopper's FDA in blocks of 16, with results in f32.
    fn default() -> Self {
        Self {
            block: 16,
            pattern: Pattern::Runs,
            frac_bits: 25,
            alignment: Rounding::TowardZero,
            sticky: false,
            normalise_products: false,
            floor: Floor::BelowEmin(7),
            zero_products: ZeroProducts::Ignored,
            subnormal_c: SubnormalC::Stored,
            c: CPosition::With,
            output_rounding: Rounding::TowardZero,
            output_bits: None,
            via_f16: false,
            flush_inputs: false,
            flush_results: false,
            product_limit: false,
            exact: false,
            negative_zero: false,
            nan: NanRule::AllOnes,
        }
    }
}

impl Pattern {
    /// The group (0 or 1) that k belongs to.
    const fn group(self, k: usize) -> usize {
        match self {
            Self::Runs => 0,
            Self::EvenOdd => k % 2,
            Self::InterleavedPairs => k / 2 % 2,
        }
    }

    /// The k of every block, in the order in which the blocks run: K is put in order, then cut.
    pub fn blocks(self, k: usize, block: usize) -> Vec<Vec<usize>> {
        self.order(k).chunks(block.max(1)).map(<[usize]>::to_vec).collect()
    }

    fn order(self, k: usize) -> Vec<usize> {
        (0..2).flat_map(|g| (0..k).filter(move |&i| self.group(i) == g)).collect()
    }

    /// Where `at` stands in that order of `k`.
    pub(crate) const fn position(self, at: usize, k: usize) -> usize {
        // Of `n` consecutive k from 0 on, those of the first group; an index's rank is how many of its group come
        // before.
        const fn first(pattern: Pattern, n: usize) -> usize {
            match pattern {
                Pattern::Runs => n,
                Pattern::EvenOdd => n.div_ceil(2),
                Pattern::InterleavedPairs => n / 4 * 2 + if n % 4 < 2 { n % 4 } else { 2 },
            }
        }
        let before = first(self, at);
        if self.group(at) == 0 { before } else { first(self, k) + at - before }
    }
}

impl GenericDot {
    /// Whether terms are cut toward zero and nothing else is unusual: a fused dot-add, of any size,
    /// width, floor and output, with c anywhere.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn truncates(&self) -> bool {
        *self
            == Self {
                block: self.block,
                pattern: self.pattern,
                frac_bits: self.frac_bits,
                floor: self.floor,
                c: self.c,
                output_rounding: self.output_rounding,
                output_bits: self.output_bits,
                via_f16: self.via_f16,
                nan: self.nan,
                alignment: Rounding::TowardZero,
                sticky: false,
                normalise_products: false,
                zero_products: ZeroProducts::Ignored,
                subnormal_c: SubnormalC::Stored,
                flush_inputs: false,
                flush_results: false,
                product_limit: false,
                exact: false,
                negative_zero: false,
            }
    }

    fn flush(&self, x: &Num) -> Num {
        if self.flush_inputs && x.is_subnormal() { Num::zero(false, x.exponent, x.frac_bits) } else { *x }
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let (k, block) = (dot.len(), self.block.max(1));
        let order = if self.pattern == Pattern::Runs { Vec::new() } else { self.pattern.order(k) };
        let mut d = if self.c == CPosition::Last { dot.out.zero() } else { dot.c };
        if k == 0 && self.c != CPosition::Last {
            d = self.block(&dot.part(0, 0, d), seen);
        }
        for (i, from) in (0..k).step_by(block).enumerate() {
            let to = k.min(from.saturating_add(block));
            let ks = order.get(from..to);
            if k > block {
                let ks = || ks.map_or_else(|| (from..to).collect(), <[usize]>::to_vec);
                let count = k.div_ceil(block);
                seen.see(|| Event::Step { text: format!("block {} of {count}: k = {:?}", i + 1, ks()), ks: ks() });
            }
            d = match ks {
                None => self.block(&dot.part(from, to, d), seen),
                Some(ks) => gather(dot, ks.iter().copied(), d, |part| self.block(part, seen)),
            };
        }
        if self.c == CPosition::Last {
            d = self.add_c(&self.flush(&dot.c), &d, dot.out, seen);
        }
        d
    }

    /// c + t in IEEE RNE.
    fn add_c(&self, c: &Num, t: &Num, out: &FormatSpec, seen: &mut impl Observer) -> Num {
        let c = ieee::convert(c, out, Rounding::NearestEven, self.nan);
        let value = self.flush_result(ieee::add(&c, t, out, Rounding::NearestEven, self.nan));
        seen.see(|| Event::operation("d = c + t", [("c", c.term()), ("t", t.term())], value));
        value
    }

    fn flush_result(&self, d: Num) -> Num {
        if self.flush_results && d.is_subnormal() { Num::zero(false, d.exponent, d.frac_bits) } else { d }
    }

    /// One block: products, S, alignment, sum, encoding, late c.
    fn block(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        let dot = &Dot { c: self.flush(&dot.c), ..*dot };
        let with_c = self.c != CPosition::Late;
        let d = self.sum_block(dot, with_c, seen);
        let d = self.flush_result(d);
        if with_c { d } else { self.add_c(&dot.c, &d, dot.out, seen) }
    }

    fn sum_block(&self, dot: &Dot<'_>, with_c: bool, seen: &mut impl Observer) -> Num {
        let (a, b) = read_operands(self, dot);
        let dot = &Dot { a: &a, b: &b, ..*dot };
        let product = |k: usize| {
            let p = dot.product(k);
            if self.normalise_products { p.normalised() } else { p }
        };
        if let Some(d) = self.specials(dot, with_c, &product, seen) {
            return d;
        }
        let c = if with_c { FusedDotAdd::addend(&dot.c, self.subnormal_c) } else { dot.out.zero().term() };
        let sum = if self.exact {
            let products = (0..dot.len()).map(|k| (Label::Product(k), product(k)));
            exact_sum(products.chain(with_c.then_some((Label::Addend, c))), seen)
        } else {
            let products = (0..dot.len()).map(product);
            let Some(e_max) = fused::largest_exponent(dot, self.floor, self.zero_products, products, Some(&c)) else {
                return dot.out.zero();
            };
            self.aligned_sum(dot, e_max, &product, with_c.then_some(&c), seen)
        };
        let finish = Finish {
            rounding: self.output_rounding,
            frac_bits: self.output_bits,
            ieee_overflow: false,
            negative_zero: self.negative_zero,
        };
        fused::finished(sum, &finish, dot.out, seen)
    }

    fn specials(
        &self,
        dot: &Dot<'_>,
        with_c: bool,
        product: &impl Fn(usize) -> Term,
        seen: &mut impl Observer,
    ) -> Option<Num> {
        let mut cases = SpecialCases::default();
        for k in 0..dot.len() {
            cases.product(&dot.a[k], &dot.b[k]);
            let p = product(k);
            if self.product_limit && is_beyond_limit(&p) {
                cases.infinity(p.negative);
            }
        }
        dot.scale_a.iter().chain(dot.scale_b).for_each(|s| cases.scale(s));
        if with_c {
            cases.addend(&dot.c);
        }
        let verdict = cases.verdict(self.nan, dot.out);
        if verdict.is_some() {
            seen.see(|| Event::Special("an infinity or NaN".into()));
        }
        verdict
    }

    fn aligned_sum(
        &self,
        dot: &Dot<'_>,
        e_max: i32,
        product: &impl Fn(usize) -> Term,
        c: Option<&Term>,
        seen: &mut impl Observer,
    ) -> Fixed {
        let unit = e_max - self.frac_bits.min(fused::MAX_FRAC_BITS) as i32;
        seen.see(|| Event::Align { e_max, unit });
        let mut sum: i128 = 0;
        for k in 0..dot.len() {
            sum += self.align(&product(k), unit, seen, || Label::Product(k));
        }
        if let Some(c) = c {
            sum += self.align(c, unit, seen, || Label::Addend);
        }
        Fixed::from_units(sum, unit - i32::from(self.sticky))
    }

    /// A term in units of `2^unit`, or with a sticky bit of `2^(unit-1)`.
    fn align(&self, term: &Term, unit: i32, seen: &mut impl Observer, label: impl FnOnce() -> Label) -> i128 {
        let units = fused::align(term, unit, self.alignment, seen, label);
        if !self.sticky {
            return units;
        }
        let inexact = term.magnitude_in(unit).1;
        // The bit points from the rounded value to the true one where alignment is directed; in
        // sign-magnitude designs (RZ, RNE) it belongs to the magnitude.
        let up = match self.alignment {
            Rounding::Down => true,
            Rounding::Up => false,
            _ => !term.negative,
        };
        let bit = i128::from(inexact);
        2 * units + if up { bit } else { -bit }
    }
}

/// a and b, flushed and converted where asked.
fn read_operands<'a>(generic: &GenericDot, dot: &Dot<'a>) -> (Cow<'a, [Num]>, Cow<'a, [Num]>) {
    let read = |xs: &'a [Num]| -> Cow<'a, [Num]> {
        let stored = xs.iter().map(|x| generic.flush(x));
        match (generic.via_f16, generic.flush_inputs) {
            (true, _) => stored.map(|x| fused::as_f16(&x)).collect(),
            (false, true) => stored.collect(),
            (false, false) => xs.into(),
        }
    };
    (read(dot.a), read(dot.b))
}

/// |p| >= 2^128.
pub(super) const fn is_beyond_limit(p: &Term) -> bool {
    !p.is_zero() && p.normalised_exponent() >= 128
}

pub(super) fn exact_sum(terms: impl Iterator<Item = (Label, Term)>, seen: &mut impl Observer) -> Fixed {
    let mut sum = num::LongAccumulator::default();
    for (label, term) in terms {
        sum.add(&term);
        seen.see(|| Event::whole_term(label, &term));
    }
    sum.fixed()
}

impl Accumulator for GenericDot {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::Generic(*self))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.block == 0 {
            return Err("a block needs at least one product".into());
        }
        check_rounding(self.alignment)?;
        check_output(self.output_rounding, self.output_bits)?;
        check_floor(self.floor)?;
        if self.exact { check_frac_bits(self.frac_bits) } else { check_width(self.frac_bits, signature) }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn positions_are_those_of_the_order() {
        for pattern in [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs] {
            for k in 0..20 {
                let positions: Vec<usize> = pattern.order(k).iter().map(|&at| pattern.position(at, k)).collect();
                assert_eq!(positions, Vec::from_iter(0..k), "{pattern:?} {k}");
            }
        }
    }
}
