//! What a unit computes, as a circuit: the accumulators' reference methods once more, for operands
//! that are not known.

use super::groups;
use super::ieee::{self, Ieee, Specials, special_or};
use super::number::{Addend, Alignment, Circuit, Number, Sum};
use super::round_down;
use super::term::{Bits, Truth};
use crate::accumulate::{
    Adder, CPosition, Finish, Floor, GenericDot, LastTerm, Recipe, RoundDown, SubnormalC, ZeroProducts,
};
use crate::error::Error;
use crate::format::{F16, FormatSpec};
use crate::num::Num;
use crate::probe::Interface;
use crate::round::Rounding;

/// A function of codes to be defined for a solver: a recipe, and how wide its adder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) recipe: Recipe,
    pub(super) adder: Adder,
    pub(super) interface: Interface,
}

/// What of a unit is to be defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// The code of its result.
    Result,
    /// The largest exponent that its terms are aligned to.
    LargestExponent,
    /// The exponent of the unit that terms are aligned to, and for each term, [`TERM_BITS`] wide,
    /// whether anything was cut off and its units.
    Terms,
    /// The sum of the aligned terms in units of `2^(e_max - F)`, in 128 bits.
    Units,
}

/// The width of an aligned term: one bit says whether it was cut off.
pub(super) const TERM_BITS: u32 = 129;

/// Unpacked operands.
#[derive(Clone, Debug)]
pub(super) struct Operands {
    pub(super) a: Vec<Number>,
    pub(super) b: Vec<Number>,
    pub(super) c: Number,
    pub(super) scale_a: Vec<Number>,
    pub(super) scale_b: Vec<Number>,
}

impl Operands {
    /// The products `ks` and another c.
    pub(super) fn part(&self, ks: &[usize], c: Number) -> Self {
        let pick = |xs: &[Number]| if xs.is_empty() { Vec::new() } else { ks.iter().map(|&k| xs[k].clone()).collect() };
        Self { a: pick(&self.a), b: pick(&self.b), c, scale_a: pick(&self.scale_a), scale_b: pick(&self.scale_b) }
    }
}

impl Model {
    /// An expression over the operands' codes (`a0`, .. `b0`, .. `c`, and scales `sa0`, .. `sb0`, ..)
    /// for the result's code or something inside, and its width.
    pub(super) fn expression(&self, inner: Inner) -> Result<(String, u32), Error> {
        let i = &self.interface;
        let mut circuit = Circuit { exponent_bits: self.exponent_bits(), ..Circuit::default() };
        let read = |circuit: &mut Circuit, name: &str, f: &FormatSpec, count: usize| -> Vec<Number> {
            let code = |n: usize| Bits::variable(format!("{name}{n}"), f.storage_bits);
            (0..count).map(|n| circuit.decode(&format!("{name}{n}"), &code(n), f)).collect()
        };
        let (a, b) = (read(&mut circuit, "a", &i.a, i.k), read(&mut circuit, "b", &i.b, i.k));
        let c = circuit.decode("c", &Bits::variable("c", i.c.storage_bits), &i.c);
        let scales = i.scale.map_or(Vec::new(), |s| vec![s; i.scales()]);
        let mut scale = |name: &str| -> Vec<Number> {
            let each = scales.first().map_or(Vec::new(), |s| read(&mut circuit, name, &s.format, scales.len()));
            let block = i.scale.map_or(1, |s| s.block);
            each.into_iter().flat_map(|s| vec![s; block]).collect()
        };
        let (scale_a, scale_b) = (scale("sa"), scale("sb"));
        let operands = Operands { a, b, c, scale_a, scale_b };
        let value = match inner {
            Inner::Result => {
                let d = self.dot(&mut circuit, &operands)?;
                circuit.encode(&d, &i.d, self.recipe.nan())
            }
            _ => self.generic(&mut circuit)?.inside(&operands, inner),
        };
        Ok((circuit.lets.around(&value.to_string()), value.width()))
    }

    /// The parametrised accumulator on a circuit.
    fn generic<'a>(&'a self, circuit: &'a mut Circuit) -> Result<Generic<'a>, Error> {
        let Recipe::Generic(dot) = &self.recipe else { return Err(self.not_encoded()) };
        Ok(Generic { dot, adder: self.adder, out: &self.interface.d, reach: self.reach(), circuit })
    }

    fn not_encoded(&self) -> Error {
        Error::Solver(format!("`{}` has no encoding for this question", self.recipe))
    }

    fn dot(&self, circuit: &mut Circuit, operands: &Operands) -> Result<Number, Error> {
        let out = &self.interface.d;
        match &self.recipe {
            Recipe::Generic(_) => Ok(self.generic(circuit)?.run(operands)),
            Recipe::Sequential(x) => Ok(ieee::sequential(circuit, x, operands, out)),
            Recipe::Pairwise(x) => Ok(ieee::pairwise(circuit, x, operands, out)),
            Recipe::Software(_) => Ok(ieee::software(circuit, operands, out)),
            Recipe::GroupScaled(x) => Ok(groups::group_scaled(circuit, x, operands, &self.interface)),
            _ if self.interface.scale.is_some() => Err(self.not_encoded()),
            Recipe::RoundDown(x) => Ok(round_down::round_down(circuit, x, operands, out)),
            Recipe::GroupedRoundDown(x) => Ok(round_down::grouped(circuit, x, operands, out)),
        }
    }

    /// The smallest and the largest exponent of a product, of c and of a result.
    fn reach(&self) -> (i32, i32) {
        let i = &self.interface;
        let of = |f: &FormatSpec| (f.emin(), f.max().exponent);
        let twice = |(low, high): (i32, i32)| (2 * low, 2 * high);
        let scales = i.scale.map_or((0, 0), |s| twice(of(&s.format)));
        // A conversion to f16 keeps values, but may move exponents within its range.
        let operands = [(of(&i.a), of(&i.b)), (of(&F16), of(&F16))];
        let products = operands.map(|(a, b)| (a.0 + b.0 + scales.0, a.1 + b.1 + scales.1));
        let all = products.into_iter().chain([of(&i.c), of(&i.d)]);
        all.fold((0, 0), |(low, high), (l, h)| (low.min(l), high.max(h)))
    }

    /// Bits for every exponent, difference of exponents and length of a register that occurs.
    fn exponent_bits(&self) -> u32 {
        let (low, high) = self.reach();
        let i = &self.interface;
        let below_emin = |floor: Floor| if let Floor::BelowEmin(n) = floor { n.unsigned_abs() } else { 0 };
        let widths = |x: RoundDown| x.frac_bits + x.sum_bits + x.total_bits.unwrap_or(0);
        let (floor, frac_bits) = match self.recipe {
            Recipe::Generic(x) => (below_emin(x.floor), x.frac_bits),
            Recipe::GroupScaled(x) => (below_emin(x.floor), x.frac_bits),
            Recipe::RoundDown(x) => (0, widths(x)),
            Recipe::GroupedRoundDown(x) => (x.c_reach.unsigned_abs(), widths(x.base)),
            _ => (0, 0),
        };
        let fractions = [i.a, i.b, i.c, i.d].map(|f| f.fraction_bits).iter().sum::<u32>();
        let span = 2 * low.unsigned_abs().max(high.unsigned_abs()) + floor + frac_bits + 2 * fractions + 64;
        u32::BITS - span.leading_zeros() + 1
    }
}

/// The parametrised accumulator: [`GenericDot`].
struct Generic<'a> {
    dot: &'a GenericDot,
    adder: Adder,
    out: &'a FormatSpec,
    /// The smallest and the largest exponent of a term.
    reach: (i32, i32),
    circuit: &'a mut Circuit,
}

impl Generic<'_> {
    fn run(&mut self, operands: &Operands) -> Number {
        let last = self.dot.c == CPosition::Last;
        let mut d = if last { self.circuit.known(&self.out.zero()) } else { operands.c.clone() };
        for ks in self.dot.pattern.blocks(operands.a.len(), self.dot.block) {
            d = self.block(&operands.part(&ks, d));
        }
        if last {
            let c = self.flush(&operands.c);
            d = self.add_c(&c, &d);
        }
        d
    }

    fn flush(&mut self, x: &Number) -> Number {
        if self.dot.flush_inputs { self.flushed("flushed", x) } else { x.clone() }
    }

    fn flush_result(&mut self, x: Number) -> Number {
        if self.dot.flush_results { self.flushed("flushed", &x) } else { x }
    }

    /// Subnormal numbers as +0.
    fn flushed(&mut self, name: &str, x: &Number) -> Number {
        let zero = Num::zero(false, 0, x.frac_bits);
        let zero = Number { exponent: x.exponent.clone(), ..self.circuit.known(&zero) };
        self.circuit.select(name, &x.subnormal(), &zero, x)
    }

    fn add_c(&mut self, c: &Number, t: &Number) -> Number {
        let ieee = Ieee { rounding: Rounding::NearestEven, out: self.out };
        let c = ieee.convert(self.circuit, c);
        let d = ieee.add(self.circuit, &c, t);
        self.flush_result(d)
    }

    /// One block: products, S, alignment, sum, encoding, late c.
    fn block(&mut self, operands: &Operands) -> Number {
        let c = self.flush(&operands.c);
        let with_c = self.dot.c != CPosition::Late;
        let d = self.sum_block(&Operands { c: c.clone(), ..operands.clone() }, with_c);
        let d = self.flush_result(d);
        if with_c { d } else { self.add_c(&c, &d) }
    }

    fn sum_block(&mut self, operands: &Operands, with_c: bool) -> Number {
        let (a, b) = (self.read_all(&operands.a), self.read_all(&operands.b));
        let mut specials = Specials::new();
        let mut products = Vec::new();
        for (k, (x, y)) in a.iter().zip(&b).enumerate() {
            specials.product(x, y);
            let scales = (operands.scale_a.get(k), operands.scale_b.get(k));
            products.push(self.product(x, y, scales, &mut specials));
        }
        for scale in operands.scale_a.iter().chain(&operands.scale_b) {
            specials.nan = specials.nan.or(&scale.nan);
        }
        // The zero that a sum starts from is no term.
        let with_c = with_c && operands.c.zero != Truth::constant(true);
        let c = with_c.then(|| self.addend(&operands.c));
        if with_c {
            specials.addend(&operands.c);
        }
        let sum = if self.dot.exact {
            products.extend(c);
            self.circuit.exact_sum(&products, self.reach)
        } else {
            self.aligned_sum(&products, c.as_ref())
        };
        let finish = Finish {
            rounding: self.dot.output_rounding,
            frac_bits: self.dot.output_bits,
            ieee_overflow: false,
            negative_zero: self.dot.negative_zero,
        };
        let finite = self.circuit.finish(&sum, &finish, self.out);
        special_or(self.circuit, &specials, finite)
    }

    /// Something inside the first block, which takes all operands, c among the terms.
    fn inside(&mut self, operands: &Operands, inner: Inner) -> Bits {
        let (a, b) = (self.read_all(&operands.a), self.read_all(&operands.b));
        let mut unheeded = Specials::new();
        let scales = |k: usize| (operands.scale_a.get(k), operands.scale_b.get(k));
        let products: Vec<Addend> =
            (0..a.len()).map(|k| self.product(&a[k], &b[k], scales(k), &mut unheeded)).collect();
        let c = self.flush(&operands.c);
        let c = (self.dot.c != CPosition::Late).then(|| self.addend(&c));
        let e_max = self.largest_exponent(&products, c.as_ref());
        match inner {
            Inner::Terms => self.terms(&products, c.as_ref(), &e_max),
            Inner::Result | Inner::LargestExponent => e_max,
            Inner::Units => {
                let units = self.aligned_sum(&products, c.as_ref()).units;
                units.extended(128)
            }
        }
    }

    const fn alignment(&self) -> Alignment {
        let GenericDot { frac_bits, alignment, sticky, .. } = *self.dot;
        Alignment { frac_bits, rounding: alignment, sticky }
    }

    /// The unit's exponent and every aligned term: [`Inner::Terms`].
    fn terms(&mut self, products: &[Addend], c: Option<&Addend>, e_max: &Bits) -> Bits {
        let below = self.dot.frac_bits + u32::from(self.dot.sticky);
        let unit = e_max.minus(&self.circuit.exponent(below as i32));
        let mut all = self.circuit.lets.bind("unit", &unit);
        for term in products.iter().chain(c) {
            let aligned = self.circuit.align("t", term, e_max, self.alignment(), TERM_BITS - 1);
            all = all.above(&aligned.inexact.as_bit()).above(&aligned.units);
        }
        all
    }

    /// Operands as a block reads them.
    fn read_all(&mut self, xs: &[Number]) -> Vec<Number> {
        xs.iter().map(|x| self.read(x)).collect()
    }

    /// a or b as a block reads it.
    fn read(&mut self, x: &Number) -> Number {
        let x = self.flush(x);
        if !self.dot.via_f16 {
            return x;
        }
        let x = Ieee { rounding: Rounding::NearestEven, out: &F16 }.convert(self.circuit, &x);
        // A zero has no leading bit to take an exponent from; where zero products count, it is f16's smallest.
        let exponent = Bits::choose(&x.zero, &self.circuit.exponent(F16.emin()), &x.exponent);
        Number { exponent: self.circuit.lets.bind("read.exponent", &exponent), ..x }
    }

    fn product(
        &mut self,
        a: &Number,
        b: &Number,
        scales: (Option<&Number>, Option<&Number>),
        specials: &mut Specials,
    ) -> Addend {
        let mut p = self.circuit.product("p", &a.addend(), &b.addend());
        for scale in [scales.0, scales.1].into_iter().flatten() {
            let scaled = self.circuit.product("p.scaled", &p, &scale.addend());
            p = Addend { negative: p.negative, ..scaled };
        }
        if self.dot.product_limit {
            let normalised = self.circuit.normalised("p.limit", &p);
            let beyond = p.is_zero().not().and(&normalised.exponent.less(&self.circuit.exponent(128)).not());
            let beyond = self.circuit.lets.bind_truth("p.beyond", &beyond);
            specials.infinity(&beyond, &p.negative);
        }
        if self.dot.normalise_products && !self.dot.exact { self.circuit.normalised("p.normalised", &p) } else { p }
    }

    /// c as it enters the alignment.
    fn addend(&mut self, c: &Number) -> Addend {
        if self.dot.subnormal_c == SubnormalC::Normalised && !self.dot.exact {
            return self.circuit.normalised("c.normalised", &c.addend());
        }
        c.addend()
    }

    /// max(floor, exponents of the non-zero terms). Without any, something below every exponent.
    fn largest_exponent(&mut self, products: &[Addend], c: Option<&Addend>) -> Bits {
        let count_zeros = Truth::constant(self.dot.zero_products == ZeroProducts::OwnExponent);
        let exponents = products.iter().map(|p| (count_zeros.or(&p.is_zero().not()), &p.exponent));
        self.circuit.alignment_exponent(exponents, c, self.dot.floor, self.out.emin())
    }

    /// Terms aligned to the largest exponent and summed by the adder.
    fn aligned_sum(&mut self, products: &[Addend], c: Option<&Addend>) -> Sum {
        let e_max = self.largest_exponent(products, c);
        let frac_bits = self.dot.frac_bits;
        let unit = self.circuit.exponent(frac_bits as i32);
        let unit = self.circuit.lets.bind("unit", &e_max.minus(&unit));
        match self.adder {
            Adder::Wide => {
                let units = self.total(products.iter().chain(c), &e_max, None);
                let sticky = self.circuit.exponent(i32::from(self.dot.sticky));
                Sum { units, unit: unit.minus(&sticky) }
            }
            Adder::Wraps { carry_bits } => {
                let width = self.adder_width(products, carry_bits);
                Sum { units: self.total(products.iter().chain(c), &e_max, Some(width)), unit }
            }
            Adder::Normalises { carry_bits, last } => {
                let width = self.adder_width(products, carry_bits);
                let mut terms: Vec<&Addend> = products.iter().chain(c).collect();
                if last == LastTerm::Product && c.is_some() {
                    terms.rotate_right(1);
                }
                let Some((last, first)) = terms.split_last() else { return Sum { units: Bits::constant(0, 1), unit } };
                let partial = self.total(first.iter().copied(), &e_max, Some(width));
                self.add_last(&partial, &e_max, last, width)
            }
        }
    }

    /// Sign, integer, carry and fraction bits of an adder of limited width.
    fn adder_width(&self, products: &[Addend], carry_bits: u32) -> u32 {
        1 + self.integer_bits(products) + carry_bits + self.dot.frac_bits
    }

    /// Integer bits of a product: one if it is normalised.
    fn integer_bits(&self, products: &[Addend]) -> u32 {
        products.first().map_or(1, Addend::integer_bits)
    }

    /// The sum of aligned terms, modulo `2^width` if a width is given.
    fn total<'t>(&mut self, terms: impl Iterator<Item = &'t Addend>, e_max: &Bits, width: Option<u32>) -> Bits {
        let terms: Vec<&Addend> = terms.collect();
        let integer = terms.iter().map(|t| t.integer_bits()).max().unwrap_or(1);
        let count = usize::BITS - terms.len().leading_zeros();
        // A sign, what the terms' own bits carry to, and one bit each for rounding up and sticky bits.
        let needed = 1
            + integer
            + self.dot.frac_bits
            + count
            + u32::from(self.dot.sticky)
            + u32::from(self.dot.alignment != Rounding::TowardZero);
        let width = width.unwrap_or(needed);
        let mut sum = Bits::constant(0, width);
        for term in terms {
            let aligned = self.circuit.align("t", term, e_max, self.alignment(), width);
            sum = self.circuit.lets.bind("partial", &sum.plus(&aligned.units));
        }
        sum
    }

    /// A partial sum of `2^1` or more, as the largest exponent counts, is shifted to `1 <= s < 2`,
    /// losing the bits that fall out, and the last term aligned to that.
    fn add_last(&mut self, partial: &Bits, e_max: &Bits, last: &Addend, width: u32) -> Sum {
        let f = self.dot.frac_bits;
        let negative = self.circuit.lets.bind_truth("partial.negative", &partial.bit(width - 1));
        let magnitude = Bits::choose(&negative, &partial.negated(), partial);
        let magnitude = self.circuit.lets.bind("partial.magnitude", &magnitude);
        let mut grown = self.circuit.exponent(0);
        for place in 1..width - f {
            let reaches = magnitude.field(f + place, width - f - place).is(0).not();
            grown =
                self.circuit.lets.bind("grown", &Bits::choose(&reaches, &self.circuit.exponent(place as i32), &grown));
        }
        let e_max = self.circuit.lets.bind("e_max.raised", &e_max.plus(&grown));
        let shifted = self.circuit.lets.bind("partial.shifted", &magnitude.shifted_right(&grown));
        let shifted = Bits::choose(&negative, &shifted.negated(), &shifted);
        let aligned = self.circuit.align("last", last, &e_max, self.alignment(), width);
        Sum { units: shifted.plus(&aligned.units), unit: e_max.minus(&self.circuit.exponent(f as i32)) }
    }
}
