//! Blackwell's fp4 units as a circuit: [`GroupScaledDot`].

use super::encode::Operands;
use super::ieee::{Specials, special_or};
use super::number::{Addend, Alignment, Circuit, Number, Sum};
use super::term::{Bits, Truth};
use crate::accumulate::{Finish, GroupScaledDot};
use crate::probe::Interface;
use crate::round::Rounding;

/// GDFS: exact sums of groups, times their scales, cut off and summed with c.
pub(super) fn group_scaled(
    circuit: &mut Circuit,
    dot: &GroupScaledDot,
    operands: &Operands,
    interface: &Interface,
) -> Number {
    let out = &interface.d;
    let ks: Vec<usize> = (0..operands.a.len()).collect();
    let groups: Vec<(Truth, Addend)> = ks
        .chunks(dot.group.max(1))
        .map(|ks| group(circuit, &operands.part(ks, operands.c.clone()), interface))
        .collect();
    let c = operands.c.addend();
    let exponents = groups.iter().map(|(there, term)| (there.clone(), &term.exponent));
    let e_max = circuit.alignment_exponent(exponents, Some(&c), dot.floor, out.emin());
    let rule = Alignment { frac_bits: dot.frac_bits, rounding: Rounding::TowardZero, sticky: false };
    let terms: Vec<&Addend> = groups.iter().map(|(_, term)| term).chain([&c]).collect();
    let integer = terms.iter().map(|t| t.integer_bits()).max().unwrap_or(1);
    let width = 1 + integer + dot.frac_bits + usize::BITS - terms.len().leading_zeros();
    let mut units = Bits::constant(0, width);
    for term in terms {
        let aligned = circuit.align("t", term, &e_max, rule, width);
        units = circuit.lets.bind("partial", &units.plus(&aligned.units));
    }
    let sum = Sum { units, unit: e_max.minus(&circuit.exponent(dot.frac_bits as i32)) };
    let finish = Finish { rounding: dot.output_rounding, frac_bits: None, ieee_overflow: false, negative_zero: false };
    let finite = circuit.finish(&sum, &finish, out);
    special_or(circuit, &specials(operands), finite)
}

fn specials(operands: &Operands) -> Specials {
    let mut specials = Specials::new();
    for (a, b) in operands.a.iter().zip(&operands.b) {
        specials.product(a, b);
    }
    for scale in operands.scale_a.iter().chain(&operands.scale_b) {
        specials.nan = specials.nan.or(&scale.nan);
    }
    specials.addend(&operands.c);
    specials
}

/// One group's exact sum times its scales, with the exponent of the scales alone, and whether it is
/// a term: some product is not zero, and neither scale is.
fn group(circuit: &mut Circuit, operands: &Operands, interface: &Interface) -> (Truth, Addend) {
    let products: Vec<Addend> =
        operands.a.iter().zip(&operands.b).map(|(a, b)| circuit.product("p", &a.addend(), &b.addend())).collect();
    let mut there = products.iter().fold(Truth::constant(false), |any, p| any.or(&p.is_zero().not()));
    let (a, b) = (&interface.a, &interface.b);
    // Down to 2^0 at least, so that the binary point is in the register.
    let reach = ((a.emin() + b.emin()).min(0), a.max().exponent + b.max().exponent);
    let Sum { units, .. } = circuit.exact_sum(&products, reach);
    let negative = circuit.lets.bind_truth("group.negative", &units.bit(units.width() - 1));
    let magnitude = circuit.lets.bind("group.magnitude", &Bits::choose(&negative, &units.negated(), &units));
    let frac_bits = products.iter().map(|p| p.frac_bits).max().unwrap_or(0) + reach.0.unsigned_abs();
    let mut term = Addend { negative, exponent: circuit.exponent(0), significand: magnitude, frac_bits };
    for scale in [operands.scale_a.first(), operands.scale_b.first()].into_iter().flatten() {
        there = there.and(&scale.zero.not());
        let scaled = circuit.product("group.scaled", &term, &scale.addend());
        term = Addend { negative: term.negative, ..scaled };
    }
    (circuit.lets.bind_truth("group.there", &there), term)
}
