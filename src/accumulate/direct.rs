//! Truncating dot-adds straight from codes, in 64-bit integers: for streams of single dot-adds.
//!
//! The function is [`GenericDot`]'s for recipes that cut every term toward zero. Magnitudes are kept
//! as integers with `frac_bits` bits below the largest exponent, so that cutting is one shift. What is
//! rounded, and what infinities and NaN make of it, is the reference's own: [`Finish`], [`SpecialCases`].

use super::{CPosition, Finish, Floor, GenericDot, Recipe, fused};
use crate::format::{FormatSpec, Specials};
use crate::instr::ScaleRule;
use crate::num::{Fixed, Num};
use crate::special::SpecialCases;
use crate::unit::Unit;

/// The exponent of a zero: never the largest.
const ZERO: i32 = -20_000;
/// The exponent of an infinity or NaN: the largest, whatever stands beside it.
const SPECIAL: i32 = 1 << 20;
/// Finite exponents, of products with their scales too, are below this and above its negative.
const FINITE: i32 = 10_000;

/// An operand, or a product: `significand * 2^(exponent - fraction bits)`.
#[derive(Clone, Copy, Debug)]
struct Item<S> {
    significand: S,
    exponent: i32,
}

/// Reads codes of one operand.
#[derive(Clone, Debug)]
struct Reader {
    spec: FormatSpec,
    via_f16: bool,
    /// Fraction bits of what is read.
    frac_bits: u32,
    /// All codes of narrow formats.
    table: Vec<Item<i32>>,
}

impl Reader {
    /// `None` for formats that are neither narrow nor laid out as IEEE's.
    fn new(spec: FormatSpec, via_f16: bool) -> Option<Self> {
        let ieee = spec.specials == Specials::Ieee && spec.signed && spec.subnormals && spec.fraction_bits <= 23;
        let narrow = spec.storage_bits <= 8;
        if !narrow && (!ieee || via_f16) {
            return None;
        }
        let mut new = Self { spec, via_f16, frac_bits: 0, table: Vec::new() };
        new.frac_bits = new.num(0).frac_bits;
        if narrow {
            new.table = (0..=spec.code_mask()).map(|code| item(&new.num(code))).collect();
        }
        Some(new)
    }

    /// A code as the reference reads it.
    fn num(&self, code: u64) -> Num {
        let x = self.spec.decode(code);
        if self.via_f16 { fused::as_f16(&x) } else { x }
    }

    /// Reads all codes.
    fn read(&self, codes: &[u64], to: &mut [Item<i32>]) {
        if !self.table.is_empty() {
            let mask = self.spec.code_mask();
            to.iter_mut().zip(codes).for_each(|(to, code)| *to = self.table[(code & mask) as usize]);
            return;
        }
        let FormatSpec { fraction_bits, exponent_bits, ignored_low_bits, bias, .. } = self.spec;
        let (width, top) = (exponent_bits + fraction_bits, (1 << exponent_bits) - 1);
        let mask = i32::MAX >> (31 - width);
        for (to, &code) in to.iter_mut().zip(codes) {
            let bits = (code >> ignored_low_bits) as i32;
            let magnitude = bits & mask;
            let field = magnitude >> fraction_bits;
            // A subnormal number has the exponent of field 1, and no leading bit.
            let above = field.max(1);
            let significand = magnitude - ((above - 1) << fraction_bits);
            let sign = -(bits >> width & 1);
            let exponent = if field == top { SPECIAL } else { above - bias };
            *to = Item { significand: (significand ^ sign) - sign, exponent };
        }
    }
}

/// A number of at most 24 bits.
fn item(x: &Num) -> Item<i32> {
    let magnitude = x.significand as i32;
    let exponent = if x.is_finite() { x.exponent } else { SPECIAL };
    Item { significand: if x.negative { -magnitude } else { magnitude }, exponent }
}

impl Item<i32> {
    /// The exact product. A zero's exponent does not count.
    #[inline(always)]
    fn times(self, other: Self) -> Item<i64> {
        let significand = i64::from(self.significand) * i64::from(other.significand);
        let exponent = self.exponent + other.exponent;
        Item { significand, exponent: if significand == 0 && exponent < FINITE { ZERO } else { exponent } }
    }
}

/// One dot-add's operands as codes.
struct Operands<'a> {
    a: &'a [u64],
    b: &'a [u64],
    scales: [&'a [u64]; 2],
}

/// A dot-add that cuts its terms, ready to read codes.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    generic: GenericDot,
    a: Reader,
    b: Reader,
    c: FormatSpec,
    d: FormatSpec,
    scale: Option<ScaleRule>,
    /// The k of all products, block by block.
    order: Vec<usize>,
    read: [Vec<Item<i32>>; 2],
    products: Vec<Item<i64>>,
}

impl Direct {
    /// For units whose terms and sums fit 64 bits.
    pub(crate) fn new(unit: &Unit) -> Option<Self> {
        let Some(Recipe::Generic(g)) = unit.recipe else { return None };
        let (a, b) = (Reader::new(unit.a, g.via_f16)?, Reader::new(unit.b, g.via_f16)?);
        let (k, narrow) = (unit.shape.k, unit.c.fraction_bits.max(unit.d.fraction_bits) <= 23);
        let widest = g.frac_bits.max(a.frac_bits + b.frac_bits).max(23);
        let fits = narrow && widest + 2 + (k + 1).next_power_of_two().ilog2() < 63;
        let power = |s: &FormatSpec| s.fraction_bits == 0 && !s.subnormals && s.storage_bits <= 8;
        let scales_fit = unit.scale.is_none_or(|rule| power(&rule.format) && !g.via_f16);
        let takes = fits && scales_fit && g.truncates() && g.c != CPosition::Late;
        takes.then(|| Self {
            generic: g,
            a,
            b,
            c: unit.c,
            d: unit.d,
            scale: unit.scale,
            order: g.pattern.blocks(k, g.block).concat(),
            read: [vec![Item { significand: 0, exponent: 0 }; k], vec![Item { significand: 0, exponent: 0 }; k]],
            products: vec![Item { significand: 0, exponent: 0 }; k],
        })
    }

    /// The code of d; `None` where an operand has another length than the unit's.
    pub(crate) fn dot_add(&mut self, [a, b]: [&[u64]; 2], c: u64, scales: [&[u64]; 2]) -> Option<u64> {
        let k = self.order.len();
        let per_operand = self.scale.map_or(0, |rule| k / rule.block);
        if a.len() != k || b.len() != k || scales.iter().any(|s| s.len() != per_operand) {
            return None;
        }
        let codes = Operands { a, b, scales };
        self.multiply(&codes);
        let c = self.c.decode(c);
        let last = self.generic.c == CPosition::Last;
        let mut d = if last { self.d.zero() } else { c };
        let block = self.generic.block.max(1);
        for (products, ks) in self.products.chunks(block).zip(self.order.chunks(block)) {
            d = self.block(products, ks, &codes, &d)?;
        }
        if last {
            d = self.generic.add_c(&c, &d, &self.d, &mut ());
        }
        Some(self.d.encode_result(&d))
    }

    /// All products, with their scales: powers of two, which only move exponents.
    fn multiply(&mut self, codes: &Operands<'_>) {
        let [a, b] = &mut self.read;
        self.a.read(codes.a, a);
        self.b.read(codes.b, b);
        for (&at, product) in self.order.iter().zip(&mut self.products) {
            *product = a[at].times(b[at]);
        }
        let Some(rule) = self.scale else { return };
        for codes in codes.scales {
            for (&at, product) in self.order.iter().zip(&mut self.products) {
                product.exponent += item(&rule.format.decode(codes[at / rule.block])).exponent;
            }
        }
    }

    /// One block: everything cut `frac_bits` bits below the largest exponent, summed, rounded once.
    #[inline(always)]
    fn block(&self, products: &[Item<i64>], ks: &[usize], codes: &Operands<'_>, c: &Num) -> Option<Num> {
        let g = &self.generic;
        let addend = item(c).times(Item { significand: 1, exponent: 0 });
        let floor = match g.floor {
            Floor::BelowEmin(n) => self.d.emin().saturating_sub(n),
            Floor::ZeroC if c.is_zero() => self.d.emin(),
            Floor::ZeroC | Floor::None => ZERO,
        };
        let e_max = products.iter().fold(floor.max(addend.exponent), |e, p| e.max(p.exponent));
        if e_max > FINITE {
            return self.special(ks, codes, c);
        }
        if e_max < -FINITE {
            return Some(self.d.zero());
        }
        let cut = Cut::new(g.frac_bits, self.a.frac_bits + self.b.frac_bits, e_max);
        let sum: i64 = products.iter().map(|p| cut.units(p)).sum();
        let sum = sum + Cut::new(g.frac_bits, c.frac_bits, e_max).units(&addend);
        let finish = Finish {
            rounding: g.output_rounding,
            frac_bits: g.output_bits,
            ieee_overflow: false,
            negative_zero: g.negative_zero,
        };
        Some(finish.apply(Fixed::from_units(sum.into(), e_max - g.frac_bits as i32), &self.d))
    }

    /// Rule (S), as the reference applies it.
    #[cold]
    fn special(&self, ks: &[usize], codes: &Operands<'_>, c: &Num) -> Option<Num> {
        let mut cases = SpecialCases::default();
        let [a, b] = &self.read;
        for &k in ks {
            // Finite pairs decide nothing.
            if a[k].exponent.max(b[k].exponent) == SPECIAL {
                cases.product(&self.a.num(codes.a[k]), &self.b.num(codes.b[k]));
            }
            if let Some(rule) = &self.scale {
                codes.scales.iter().for_each(|scales| cases.scale(&rule.format.decode(scales[k / rule.block])));
            }
        }
        cases.addend(c);
        cases.verdict(self.generic.nan, &self.d)
    }
}

/// Cuts terms of one number of fraction bits to multiples of `2^(e_max - F)`.
struct Cut {
    e_max: i32,
    left: u32,
    right: i32,
}

impl Cut {
    const fn new(frac_bits: u32, of_terms: u32, e_max: i32) -> Self {
        Self { e_max, left: frac_bits.saturating_sub(of_terms), right: of_terms.saturating_sub(frac_bits) as i32 }
    }

    #[inline(always)]
    fn units(&self, term: &Item<i64>) -> i64 {
        let sign = term.significand >> 63;
        let magnitude = (term.significand ^ sign) - sign;
        let right = (self.right + self.e_max - term.exponent).min(63);
        (magnitude << self.left >> right ^ sign) - sign
    }
}
