//! Special values, IEEE operations as circuits, and the accumulators made of them.

use super::encode::Operands;
use super::number::{Addend, Circuit, Number, Sum};
use super::term::{Bits, Truth};
use crate::accumulate::{Finish, PairwiseSum, SequentialFma};
use crate::format::{F32, FormatSpec};
use crate::num::Num;
use crate::round::Rounding;

/// The special values met so far: [`SpecialCases`](crate::special::SpecialCases).
pub(super) struct Specials {
    pub(super) nan: Truth,
    positive: Truth,
    negative: Truth,
}

impl Specials {
    pub(super) fn new() -> Self {
        let no = Truth::constant(false);
        Self { nan: no.clone(), positive: no.clone(), negative: no }
    }

    pub(super) fn product(&mut self, a: &Number, b: &Number) {
        let zero_times_infinity = a.zero.and(&b.infinite).or(&a.infinite.and(&b.zero));
        self.nan = self.nan.or(&a.nan).or(&b.nan).or(&zero_times_infinity);
        self.infinity(&a.infinite.or(&b.infinite), &a.negative.xor(&b.negative));
    }

    pub(super) fn addend(&mut self, c: &Number) {
        self.nan = self.nan.or(&c.nan);
        self.infinity(&c.infinite, &c.negative);
    }

    pub(super) fn infinity(&mut self, there: &Truth, negative: &Truth) {
        self.negative = self.negative.or(&there.and(negative));
        self.positive = self.positive.or(&there.and(&negative.not()));
    }

    /// These, or if there are none of these, others.
    pub(super) fn or_else(&self, others: &Self) -> Self {
        let none = self.nan.or(&self.positive).or(&self.negative).not();
        let or = |x: &Truth, y: &Truth| x.or(&none.and(y));
        Self {
            nan: or(&self.nan, &others.nan),
            positive: or(&self.positive, &others.positive),
            negative: or(&self.negative, &others.negative),
        }
    }
}

/// A finite result, unless special operands decide.
pub(super) fn special_or(circuit: &mut Circuit, specials: &Specials, finite: Number) -> Number {
    let positive = circuit.lets.bind_truth("infinity.positive", &specials.positive);
    let negative = circuit.lets.bind_truth("infinity.negative", &specials.negative);
    let nan = circuit.lets.bind_truth("nan", &specials.nan.or(&positive.and(&negative)));
    let infinite = positive.or(&negative);
    Number {
        infinite: circuit.lets.bind_truth("d.infinite", &nan.not().and(&infinite.or(&finite.infinite))),
        negative: circuit.lets.bind_truth("d.negative", &negative.or(&infinite.not().and(&finite.negative))),
        zero: circuit.lets.bind_truth("d.zero", &finite.zero.and(&infinite.not()).and(&nan.not())),
        nan,
        ..finite
    }
}

/// IEEE operations with results in `out`.
#[derive(Clone, Copy)]
pub(super) struct Ieee<'a> {
    pub(super) rounding: Rounding,
    pub(super) out: &'a FormatSpec,
}

impl Ieee<'_> {
    const fn finish(&self) -> Finish {
        Finish { rounding: self.rounding, frac_bits: None, ieee_overflow: true, negative_zero: true }
    }

    /// x in this format, rounded once.
    pub(super) fn convert(&self, circuit: &mut Circuit, x: &Number) -> Number {
        let width = x.significand.width() + 1;
        let units = x.significand.widened(width);
        let units = Bits::choose(&x.negative, &units.negated(), &units);
        let unit = x.exponent.minus(&circuit.exponent(x.frac_bits as i32));
        let value = circuit.finish(&Sum { units, unit }, &self.finish(), self.out);
        let infinite = x.infinite.or(&value.infinite.and(&x.finite()));
        let negative = x.infinite.and(&x.negative).or(&value.negative);
        let value = Number {
            nan: x.nan.clone(),
            infinite: circuit.lets.bind_truth("converted.infinite", &infinite),
            negative: circuit.lets.bind_truth("converted.negative", &negative),
            ..value
        };
        self.signed_zero(circuit, &x.zero, &x.negative, value)
    }

    /// `value`, or where `zero` holds a zero of that sign.
    fn signed_zero(&self, circuit: &mut Circuit, zero: &Truth, negative: &Truth, value: Number) -> Number {
        let sign = zero.and(negative).or(&zero.not().and(&value.negative));
        Number { negative: circuit.lets.bind_truth("signed", &sign), ..value }
    }

    /// `x + y`, rounded once.
    pub(super) fn add(&self, circuit: &mut Circuit, x: &Number, y: &Number) -> Number {
        let mut specials = Specials::new();
        specials.addend(x);
        specials.addend(y);
        let value = self.sum(circuit, &x.addend(), &y.addend());
        special_or(circuit, &specials, value)
    }

    /// `a * b`, rounded once.
    fn multiply(&self, circuit: &mut Circuit, a: &Number, b: &Number) -> Number {
        let mut specials = Specials::new();
        specials.product(a, b);
        let p = circuit.product("p", &a.addend(), &b.addend());
        let p = Number {
            nan: Truth::constant(false),
            infinite: Truth::constant(false),
            zero: circuit.lets.bind_truth("p.zero", &p.is_zero()),
            negative: p.negative,
            exponent: p.exponent,
            significand: p.significand,
            frac_bits: p.frac_bits,
        };
        let value = self.convert(circuit, &p);
        special_or(circuit, &specials, value)
    }

    /// `a * b + c`, rounded once.
    fn fma(&self, circuit: &mut Circuit, a: &Number, b: &Number, c: &Number) -> Number {
        let mut specials = Specials::new();
        specials.product(a, b);
        specials.addend(c);
        let p = circuit.product("p", &a.addend(), &b.addend());
        let p = circuit.normalised("p.normalised", &p);
        let value = self.sum(circuit, &p, &c.addend());
        special_or(circuit, &specials, value)
    }

    /// The sum of two terms whose significands are normal, or whose exponents are the smallest there
    /// are. Three bits below the longer one and a jammed rest tell every rounding what it must know.
    fn sum(&self, circuit: &mut Circuit, x: &Addend, y: &Addend) -> Number {
        let lowest = circuit.exponent(-(1 << (circuit.exponent_bits - 2)));
        let exponent = |circuit: &mut Circuit, t: &Addend| {
            circuit.lets.bind("counted", &Bits::choose(&t.is_zero(), &lowest, &t.exponent))
        };
        let (e_x, e_y) = (exponent(circuit, x), exponent(circuit, y));
        let e_max = circuit.lets.bind("e_max", &e_x.max(&e_y));
        let frac_bits = x.frac_bits.max(y.frac_bits) + 3;
        let width = x.integer_bits().max(y.integer_bits()) + frac_bits + 2;
        let mut jam = |t: &Addend| {
            let register = t.significand.scaled(frac_bits - t.frac_bits);
            let distance = circuit.lets.bind("distance", &e_max.minus(&t.exponent));
            let shifted = circuit.lets.bind("shifted", &register.shifted_right(&distance));
            let lost = shifted.shifted_left(&distance).equals(&register).not();
            let jammed = shifted.or(&lost.as_bit().widened(register.width())).widened(width);
            let jammed = circuit.lets.bind("jammed", &jammed);
            Bits::choose(&t.negative, &jammed.negated(), &jammed)
        };
        let units = jam(x).plus(&jam(y));
        let units = circuit.lets.bind("units", &units);
        let unit = e_max.minus(&circuit.exponent(frac_bits as i32));
        let value = circuit.finish(&Sum { units: units.clone(), unit }, &self.finish(), self.out);
        let alike = x.is_zero().and(&y.is_zero()).and(&x.negative.xor(&y.negative).not());
        let negative = alike.and(&x.negative).or(&alike.not().and(&Truth::constant(self.rounding == Rounding::Down)));
        self.signed_zero(circuit, &units.is(0), &negative, value)
    }
}

/// A chain of fused multiply-adds: [`SequentialFma`].
pub(super) fn sequential(circuit: &mut Circuit, fma: &SequentialFma, operands: &Operands, out: &FormatSpec) -> Number {
    let ieee = Ieee { rounding: fma.rounding, out };
    let start = ieee.convert(circuit, &operands.c);
    operands.a.iter().zip(&operands.b).fold(start, |d, (a, b)| ieee.fma(circuit, a, b, &d))
}

/// Products and pairwise sums: [`PairwiseSum`].
pub(super) fn pairwise(circuit: &mut Circuit, sum: &PairwiseSum, operands: &Operands, out: &FormatSpec) -> Number {
    let ieee = Ieee { rounding: Rounding::NearestEven, out };
    let flush = |circuit: &mut Circuit, x: Number| {
        if !sum.flush_results {
            return x;
        }
        let zero = Number { negative: x.negative.clone(), exponent: x.exponent.clone(), ..circuit.known(&out.zero()) };
        circuit.select("flushed", &x.subnormal(), &zero, &x)
    };
    let read = |circuit: &mut Circuit, x: &Number| {
        if !sum.flush_inputs {
            return x.clone();
        }
        let zero = Number { exponent: x.exponent.clone(), ..circuit.known(&Num::zero(false, 0, x.frac_bits)) };
        circuit.select("read", &x.subnormal().or(&x.zero), &zero, x)
    };
    let c = read(circuit, &operands.c);
    let mut d = ieee.convert(circuit, &c);
    let mut products = Vec::new();
    for (a, b) in operands.a.iter().zip(&operands.b) {
        let (a, b) = (read(circuit, a), read(circuit, b));
        let p = ieee.multiply(circuit, &a, &b);
        products.push(flush(circuit, p));
    }
    for group in products.chunks(sum.group.max(1)) {
        let total = tree(group, &mut |x, y| {
            let value = ieee.add(circuit, x, y);
            flush(circuit, value)
        });
        let value = ieee.add(circuit, &d, &total);
        d = flush(circuit, value);
    }
    d
}

/// Sums numbers in pairs; the first half is the larger one.
fn tree(terms: &[Number], add: &mut impl FnMut(&Number, &Number) -> Number) -> Number {
    if let [one] = terms {
        return one.clone();
    }
    let (low, high) = terms.split_at(terms.len().next_power_of_two() / 2);
    let (low, high) = (tree(low, add), tree(high, add));
    add(&low, &high)
}

/// The compiler's code for f16 m8n8k4: [`SoftwareDot`](crate::accumulate::SoftwareDot).
pub(super) fn software(circuit: &mut Circuit, operands: &Operands, out: &FormatSpec) -> Number {
    let ieee = Ieee { rounding: Rounding::NearestEven, out: &F32 };
    let mut d = ieee.convert(circuit, &operands.c);
    let pairs: Vec<(&Number, &Number)> = operands.a.iter().zip(&operands.b).collect();
    if out.fraction_bits > 10 {
        let start = circuit.known(&F32.zero());
        let t = pairs.iter().fold(start, |t, (a, b)| ieee.fma(circuit, a, b, &t));
        d = ieee.add(circuit, &d, &t);
    } else {
        for pair in pairs.chunks(2) {
            let mut t = ieee.multiply(circuit, pair[0].0, pair[0].1);
            if let Some((a, b)) = pair.get(1) {
                t = ieee.fma(circuit, a, b, &t);
            }
            d = ieee.add(circuit, &d, &t);
        }
    }
    Ieee { out, ..ieee }.convert(circuit, &d)
}
