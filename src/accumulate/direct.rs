//! Truncating dot-adds straight from codes, in 64-bit integers: for streams of single dot-adds.
//!
//! The function is [`GenericDot`]'s for recipes that cut every term toward zero. Magnitudes are kept
//! as integers with `frac_bits` bits below the largest exponent, so that cutting is one shift; what
//! is rounded is rounded by the reference's own [`Finish`]. Infinities and NaN are left to the reference.

use super::{CPosition, Finish, Floor, GenericDot, Recipe, fused};
use crate::format::{FormatSpec, Specials};
use crate::instr::ScaleRule;
use crate::num::{Fixed, Num};
use crate::unit::Unit;

/// The exponent of a zero: never the largest, not even beside any other operand and two scales.
const ZERO: i32 = -20_000;
/// The exponent of an infinity or NaN: the largest, even beside a zero.
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
    /// Fraction bits of what is read.
    frac_bits: u32,
    /// All codes of narrow formats.
    table: Vec<Item<i32>>,
}

impl Reader {
    /// `None` for formats that are neither narrow nor laid out as IEEE's.
    fn new(spec: FormatSpec, via_f16: bool) -> Option<Self> {
        let read = |code: u64| if via_f16 { fused::as_f16(&spec.decode(code)) } else { spec.decode(code) };
        let ieee = spec.specials == Specials::Ieee && spec.signed && spec.subnormals && spec.fraction_bits <= 23;
        let narrow = spec.storage_bits <= 8;
        if !narrow && (!ieee || via_f16) {
            return None;
        }
        let narrow_item = |code: u64| {
            let Item { significand, exponent } = item(&read(code));
            Item { significand: significand as i32, exponent }
        };
        let table = if narrow { (0..=spec.code_mask()).map(narrow_item).collect() } else { Vec::new() };
        Some(Self { spec, frac_bits: read(0).frac_bits, table })
    }

    #[inline(always)]
    fn item(&self, code: u64) -> Item<i32> {
        if let Some(known) = self.table.get((code & self.spec.code_mask()) as usize) {
            return *known;
        }
        let spec = &self.spec;
        let bits = code >> spec.ignored_low_bits;
        let field = (bits >> spec.fraction_bits) as i32 & ((1 << spec.exponent_bits) - 1);
        let fraction = bits as i32 & ((1 << spec.fraction_bits) - 1);
        let significand = fraction | i32::from(field != 0) << spec.fraction_bits;
        let sign = -((bits >> (spec.exponent_bits + spec.fraction_bits)) as i32 & 1);
        let exponent = match field {
            0 if fraction == 0 => ZERO,
            0 => spec.emin(),
            _ if field == (1 << spec.exponent_bits) - 1 => SPECIAL,
            _ => field - spec.bias,
        };
        Item { significand: (significand ^ sign) - sign, exponent }
    }
}

fn item(x: &Num) -> Item<i64> {
    let magnitude = x.significand as i64;
    let exponent = match x {
        _ if !x.is_finite() => SPECIAL,
        _ if x.is_zero() => ZERO,
        _ => x.exponent,
    };
    Item { significand: if x.negative { -magnitude } else { magnitude }, exponent }
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
    products: Vec<Item<i64>>,
}

impl Direct {
    /// For units whose terms and sums fit 64 bits.
    pub(crate) fn new(unit: &Unit) -> Option<Self> {
        let Some(Recipe::Generic(g)) = unit.recipe else { return None };
        let (a, b) = (Reader::new(unit.a, g.via_f16)?, Reader::new(unit.b, g.via_f16)?);
        let (k, c) = (unit.shape.k, unit.c);
        let widest = g.frac_bits.max(a.frac_bits + b.frac_bits).max(c.fraction_bits).max(unit.d.fraction_bits);
        let fits = widest + 2 + (k + 1).next_power_of_two().ilog2() < 63;
        let power = |s: &FormatSpec| s.fraction_bits == 0 && !s.subnormals && s.storage_bits <= 8;
        let scales_fit = unit.scale.is_none_or(|rule| power(&rule.format) && !g.via_f16);
        let fits = fits && scales_fit && g.truncates() && g.c != CPosition::Late;
        fits.then(|| Self {
            generic: g,
            a,
            b,
            c,
            d: unit.d,
            scale: unit.scale,
            order: g.pattern.blocks(k, g.block).concat(),
            products: vec![Item { significand: 0, exponent: ZERO }; k],
        })
    }

    /// The code of d; `None` where an infinity or NaN is about, or an operand has another length than the unit's.
    pub(crate) fn dot_add(&mut self, [a, b]: [&[u64]; 2], c: u64, scales: [&[u64]; 2]) -> Option<u64> {
        let k = self.order.len();
        let per_operand = self.scale.map_or(0, |rule| k / rule.block);
        if a.len() != k || b.len() != k || scales.iter().any(|s| s.len() != per_operand) {
            return None;
        }
        for (&at, product) in self.order.iter().zip(&mut self.products) {
            let (a, b) = (self.a.item(a[at]), self.b.item(b[at]));
            *product = Item {
                significand: i64::from(a.significand) * i64::from(b.significand),
                exponent: a.exponent + b.exponent,
            };
        }
        self.scale_products(scales);
        let c = self.c.decode(c);
        let last = self.generic.c == CPosition::Last;
        let mut d = if last { self.d.zero() } else { c };
        for products in self.products.chunks(self.generic.block.max(1)) {
            d = self.block(products, &d)?;
        }
        if last {
            d = self.generic.add_c(&c, &d, &self.d, &mut ());
        }
        Some(self.d.encode_result(&d))
    }

    /// Block scales are powers of two: they only move exponents.
    fn scale_products(&mut self, scales: [&[u64]; 2]) {
        let Some(rule) = self.scale else { return };
        for codes in scales {
            for (&at, product) in self.order.iter().zip(&mut self.products) {
                product.exponent += item(&rule.format.decode(codes[at / rule.block])).exponent;
            }
        }
    }

    /// One block: everything cut `frac_bits` bits below the largest exponent, summed, rounded once.
    #[inline(always)]
    fn block(&self, products: &[Item<i64>], c: &Num) -> Option<Num> {
        let g = &self.generic;
        let addend = item(c);
        let floor = match g.floor {
            Floor::BelowEmin(n) => self.d.emin().saturating_sub(n),
            Floor::ZeroC if c.is_zero() => self.d.emin(),
            Floor::ZeroC | Floor::None => ZERO,
        };
        let e_max = products.iter().fold(floor.max(addend.exponent), |e, p| e.max(p.exponent));
        if e_max > FINITE {
            return None;
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
