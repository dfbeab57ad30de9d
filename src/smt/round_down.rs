//! CDNA3's matrix cores as circuits: [`RoundDown`] and [`GroupedRoundDown`].

use super::encode::Operands;
use super::ieee::{Specials, special_or};
use super::number::{Addend, Alignment, Circuit, Number, Sum};
use super::term::{Bits, Truth};
use crate::accumulate::{BlockedC, Finish, GroupedRoundDown, OverflowBesideC, RoundDown};
use crate::format::FormatSpec;
use crate::num::Num;
use crate::round::Rounding;

/// FDRDA(G): [`RoundDown`].
pub(super) fn round_down(circuit: &mut Circuit, dot: &RoundDown, operands: &Operands, out: &FormatSpec) -> Number {
    chain(operands, dot.group, |part| {
        let mut step = Step { dot, out, circuit };
        let products = step.products(part);
        let sum = step.dot_sum(&products);
        let c_exponent = step.c_exponent(&part.c);
        let specials = step.specials(part, &products, &Truth::constant(true));
        let finite = step.total(&sum, &part.c, &c_exponent);
        special_or(step.circuit, &specials, finite)
    })
}

/// GFDRDA(G): [`GroupedRoundDown`].
pub(super) fn grouped(circuit: &mut Circuit, dot: &GroupedRoundDown, operands: &Operands, out: &FormatSpec) -> Number {
    chain(operands, dot.base.group, |part| {
        let mut step = Step { dot: &dot.base, out, circuit };
        let products = step.products(part);
        let half = |h: usize| products.iter().skip(h).step_by(2).cloned().collect::<Vec<_>>();
        let halves = [half(0), half(1)].map(|half| step.dot_sum(&half));
        let sum = step.join(&halves);
        let c_exponent = step.c_exponent(&part.c);
        let reach = step.circuit.exponent(dot.c_reach);
        let e_max = step.circuit.lets.bind("e_max", &sum.exponent.max(&c_exponent));
        let out_of_reach = step.circuit.lets.bind_truth("c.far", &c_exponent.less(&e_max.minus(&reach)));
        let propagates = Truth::constant(dot.special_c == BlockedC::Propagates);
        let counts = part.c.finite().or(&propagates).or(&out_of_reach.not());
        let specials = step.specials(part, &products, &counts);
        let nothing = step.circuit.known(&Num::zero(false, 0, part.c.frac_bits));
        let c = step.circuit.select("c.kept", &out_of_reach, &nothing, &part.c);
        let finite = step.total(&sum, &c, &c_exponent);
        special_or(step.circuit, &specials, finite)
    })
}

/// Steps of `group` products, each with the last one's result as its c.
fn chain(operands: &Operands, group: usize, mut step: impl FnMut(&Operands) -> Number) -> Number {
    let ks: Vec<usize> = (0..operands.a.len()).collect();
    ks.chunks(group.max(1)).fold(operands.c.clone(), |c, ks| step(&operands.part(ks, c)))
}

/// A sum of products in units of `2^(exponent - F)`; without any that is not zero, 0 and something
/// below every exponent.
struct DotSum {
    units: Bits,
    exponent: Bits,
}

struct Step<'a> {
    dot: &'a RoundDown,
    out: &'a FormatSpec,
    circuit: &'a mut Circuit,
}

impl Step<'_> {
    /// Each product, and whether it is a finite number other than zero.
    fn products(&mut self, operands: &Operands) -> Vec<(Truth, Addend)> {
        let mut product = |(a, b): (&Number, &Number)| {
            let p = self.circuit.product("p", &a.addend(), &b.addend());
            let counts = a.finite().and(&b.finite()).and(&p.is_zero().not());
            (self.circuit.lets.bind_truth("p.counts", &counts), p)
        };
        operands.a.iter().zip(&operands.b).map(&mut product).collect()
    }

    /// Overflowing products and S.
    fn specials(&mut self, operands: &Operands, products: &[(Truth, Addend)], c_counts: &Truth) -> Specials {
        let (mut specials, mut overflows) = (Specials::new(), Specials::new());
        for ((a, b), (counts, p)) in operands.a.iter().zip(&operands.b).zip(products) {
            specials.product(a, b);
            let normalised = self.circuit.normalised("p.limit", p);
            let beyond = counts.and(&normalised.exponent.less(&self.circuit.exponent(128)).not());
            let beyond = self.circuit.lets.bind_truth("p.beyond", &beyond);
            overflows.infinity(&beyond, &p.negative);
            if self.dot.overflow_beside_c == OverflowBesideC::Infinity {
                specials.infinity(&beyond, &p.negative);
            }
        }
        let c = &operands.c;
        specials.addend(&Number { nan: c.nan.and(c_counts), infinite: c.infinite.and(c_counts), ..c.clone() });
        specials.or_else(&overflows)
    }

    /// Products cut toward zero at F bits below their largest exponent.
    fn dot_sum(&mut self, products: &[(Truth, Addend)]) -> DotSum {
        let exponents = products.iter().map(|(counts, p)| (counts.clone(), &p.exponent));
        let exponent = self.circuit.largest_exponent(exponents);
        let frac_bits = self.dot.frac_bits;
        let rule = Alignment { frac_bits, rounding: Rounding::TowardZero, sticky: false };
        let integer = products.iter().map(|(_, p)| p.integer_bits()).max().unwrap_or(1);
        let width = 1 + integer + frac_bits + usize::BITS - products.len().leading_zeros();
        let mut units = Bits::constant(0, width);
        for (counts, p) in products {
            let aligned = self.circuit.align("t", p, &exponent, rule, width);
            let term = Bits::choose(counts, &aligned.units, &Bits::constant(0, width));
            units = self.circuit.lets.bind("partial", &units.plus(&term));
        }
        DotSum { units, exponent }
    }

    /// Both halves rounded down to F bits below the larger exponent, and added.
    fn join(&mut self, halves: &[DotSum; 2]) -> DotSum {
        let [even, odd] = halves;
        let exponent = self.circuit.lets.bind("e_dot", &even.exponent.max(&odd.exponent));
        let frac_bits = self.dot.frac_bits;
        let width = even.units.width().max(odd.units.width()) + 1;
        let mut floored = |half: &DotSum| {
            let distance = self.circuit.lets.bind("distance", &exponent.minus(&half.exponent));
            self.circuit.floored(&half.units, frac_bits, frac_bits, &distance).extended(width)
        };
        let units = floored(even).plus(&floored(odd));
        DotSum { units: self.circuit.lets.bind("joined", &units), exponent }
    }

    /// c's exponent; a zero's is the smallest, an infinity's or a NaN's 0.
    fn c_exponent(&mut self, c: &Number) -> Bits {
        let zero = Bits::choose(&c.zero, &self.circuit.exponent(self.out.emin()), &c.exponent);
        let exponent = Bits::choose(&c.finite(), &zero, &self.circuit.exponent(0));
        self.circuit.lets.bind("c.exponent", &exponent)
    }

    /// The floors of the sum of products and of c, their sum, its floor, and the rounding to nearest.
    fn total(&mut self, sum: &DotSum, c: &Number, c_exponent: &Bits) -> Number {
        let RoundDown { frac_bits, sum_bits, total_bits, .. } = *self.dot;
        let e_max = self.circuit.lets.bind("e_max", &sum.exponent.max(c_exponent));
        let fine = frac_bits.max(sum_bits);
        let distance = self.circuit.lets.bind("distance", &e_max.minus(&sum.exponent));
        let products = self.circuit.floored(&sum.units, frac_bits, sum_bits, &distance).scaled(fine - sum_bits);
        let magnitude = c.significand.widened(c.significand.width() + 1);
        let signed = Bits::choose(&c.negative, &magnitude.negated(), &magnitude);
        let distance = self.circuit.lets.bind("distance", &e_max.minus(c_exponent));
        let c = self.circuit.floored(&signed, c.frac_bits, frac_bits, &distance).scaled(fine - frac_bits);
        let width = products.width().max(c.width()) + 1;
        let units = products.extended(width).plus(&c.extended(width));
        let mut total = Sum { units, unit: e_max.minus(&self.circuit.exponent(fine as i32)) };
        if let Some(bits) = total_bits {
            total = self.circuit.floored_normalised(&total, bits, self.out.emin());
        }
        let finish =
            Finish { rounding: Rounding::NearestEven, frac_bits: None, ieee_overflow: false, negative_zero: true };
        self.circuit.finish(&total, &finish, self.out)
    }
}
