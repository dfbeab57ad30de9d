//! Sums of terms as circuits: the exponent they are aligned to, registers that hold them whole, floors.

use super::number::{Addend, Circuit, Sum};
use super::term::{Bits, Truth};
use crate::accumulate::Floor;

impl Circuit {
    /// The largest of the exponents whose condition holds; without any, something below every exponent.
    pub(super) fn largest_exponent<'t>(&mut self, terms: impl Iterator<Item = (Truth, &'t Bits)>) -> Bits {
        let lowest = self.exponent(-(1 << (self.exponent_bits - 2)));
        let mut e_max = lowest.clone();
        for (counts, exponent) in terms {
            let exponent = self.lets.bind("counted", &Bits::choose(&counts, exponent, &lowest));
            e_max = self.lets.bind("e_max", &e_max.max(&exponent));
        }
        e_max
    }

    /// max(floor, the exponents that count, c's unless it is zero).
    pub(super) fn alignment_exponent<'t>(
        &mut self,
        terms: impl Iterator<Item = (Truth, &'t Bits)>,
        c: Option<&'t Addend>,
        floor: Floor,
        emin: i32,
    ) -> Bits {
        let e_max = self.largest_exponent(terms.chain(c.map(|c| (c.is_zero().not(), &c.exponent))));
        let floor = match floor {
            Floor::BelowEmin(n) => self.exponent(emin - n),
            Floor::ZeroC => {
                let zero = c.map_or(Truth::constant(true), Addend::is_zero);
                let emin = self.exponent(emin);
                self.largest_exponent([(zero, &emin)].into_iter())
            }
            Floor::None => return e_max,
        };
        self.lets.bind("e_max", &e_max.max(&floor))
    }

    /// The exact sum of terms with exponents in `reach`, in a register as long as that.
    pub(super) fn exact_sum(&mut self, terms: &[Addend], (low, high): (i32, i32)) -> Sum {
        let integer = terms.iter().map(Addend::integer_bits).max().unwrap_or(1);
        let frac = terms.iter().map(|t| t.frac_bits).max().unwrap_or(0);
        let count = usize::BITS - terms.len().leading_zeros();
        let width = 1 + count + integer + frac + high.abs_diff(low);
        let mut sum = Bits::constant(0, width);
        for term in terms {
            let up = self.lets.bind("up", &term.exponent.minus(&self.exponent(low)));
            let wide = term.significand.scaled(frac - term.frac_bits).widened(width).shifted_left(&up);
            let wide = self.lets.bind("wide", &wide);
            let signed = Bits::choose(&term.negative, &wide.negated(), &wide);
            sum = self.lets.bind("partial", &sum.plus(&signed));
        }
        Sum { units: sum, unit: self.exponent(low - frac as i32) }
    }

    /// Two's complement units of `2^(e - below)` as units of `2^(e + distance - keep)`, rounded down.
    pub(super) fn floored(&mut self, units: &Bits, below: u32, keep: u32, distance: &Bits) -> Bits {
        let register = self.lets.bind("register", &units.scaled(keep.saturating_sub(below)));
        let cut = below.saturating_sub(keep);
        let shifted = self.lets.bind("shifted", &register.shifted_right_signed(distance));
        self.lets.bind("floored", &shifted.field(cut, shifted.width() - cut))
    }

    /// The sum rounded down to `bits` fraction bits of its normalised value, of 2^emin at least.
    pub(super) fn floored_normalised(&mut self, sum: &Sum, bits: u32, emin: i32) -> Sum {
        let units = self.lets.bind("total", &sum.units);
        let unit = self.lets.bind("total.unit", &sum.unit);
        let magnitude = Bits::choose(&units.bit(units.width() - 1), &units.negated(), &units);
        let magnitude = self.lets.bind("total.magnitude", &magnitude);
        let (_, count) = self.leading("total", &magnitude);
        let lead = unit.plus(&self.exponent(units.width() as i32 - 1)).minus(&count);
        let lead = self.lets.bind("total.lead", &lead).max(&self.exponent(emin));
        let cut = self.lets.bind("total.cut", &lead.minus(&self.exponent(bits as i32)).minus(&unit));
        let cut = self.lets.bind("total.cut", &cut.max(&self.exponent(0)));
        Sum { units: units.shifted_right_signed(&cut), unit: unit.plus(&cut) }
    }
}
