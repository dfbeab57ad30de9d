//! The workbench: exact numbers as codes of any format, and inputs built from them.

use super::black_box::{Input, Interface};
use crate::format::{FormatSpec, Overflow, Value};
use crate::num::{Class, Fixed, Term};
use crate::round::Rounding;

/// The code of `(-1)^negative * magnitude * 2^exponent` if the format holds it exactly.
pub(crate) fn exact(format: &FormatSpec, negative: bool, magnitude: u128, exponent: i32) -> Option<u64> {
    let x = Fixed { negative, magnitude, exponent, sticky: false };
    let holds = |code: u64| {
        let back = format.decode(code).fixed();
        (back.negative == negative || magnitude == 0) && trimmed(back) == trimmed(x)
    };
    if let (odd @ 1.., last) = trimmed(x) {
        // Most of what is asked has too many bits, is out of range, or is a number of these fields: all told without
        // rounding.
        let (lead, fraction_bits) = (last + odd.ilog2() as i32, format.fraction_bits as i32);
        if lead - last > fraction_bits || last < format.emin() - fraction_bits || lead > top(format) {
            return None;
        }
        let fraction = (odd as u64) << (fraction_bits - (lead - last));
        let code = Some(around(format, negative, lead, fraction)).filter(|&code| holds(code));
        if code.is_some() {
            return code;
        }
    }
    let code = format.encode(Value::Finite(x), Rounding::TowardZero, Overflow::Saturate).ok()?;
    holds(code).then_some(code)
}

const fn trimmed(x: Fixed) -> (u128, i32) {
    if x.magnitude == 0 {
        return (0, 0);
    }
    let zeros = x.magnitude.trailing_zeros();
    (x.magnitude >> zeros, x.exponent + zeros as i32)
}

/// The code with these fields; out-of-range exponents are clamped to the normal range.
pub(crate) fn normal(format: &FormatSpec, negative: bool, exponent: i32, fraction: u64) -> u64 {
    let exponent = exponent.clamp(format.emin(), format.max().exponent);
    let field = (exponent + format.bias).max(0) as u64;
    let fraction = fraction & ((1 << format.fraction_bits) - 1);
    let sign = u64::from(negative && format.signed);
    let code =
        ((((sign << format.exponent_bits) | field) << format.fraction_bits) | fraction) << format.ignored_low_bits;
    if format.decode(code).is_finite() { code } else { format.max_code(negative) }
}

/// The code with this leading exponent, subnormal if need be; bits below the format's last one are cut.
pub(crate) fn around(format: &FormatSpec, negative: bool, exponent: i32, fraction: u64) -> u64 {
    if exponent >= format.emin() || !format.subnormals {
        return normal(format, negative, exponent, fraction);
    }
    let significand = (1 << format.fraction_bits) | (fraction & ((1 << format.fraction_bits) - 1));
    let below = format.emin().abs_diff(exponent);
    let sign = u64::from(negative && format.signed) << (format.exponent_bits + format.fraction_bits);
    match if below > 63 { 0 } else { significand >> below } {
        0 => 0,
        subnormal => (sign | subnormal) << format.ignored_low_bits,
    }
}

/// A code of 2^e, or of -2^e.
pub(crate) fn power(format: &FormatSpec, negative: bool, e: i32) -> Option<u64> {
    exact(format, negative, 1, e)
}

/// The code of 1 (for UE8M0 and UE4M3 too).
pub(crate) fn one(format: &FormatSpec) -> u64 {
    power(format, false, 0).unwrap_or(0)
}

/// Builds inputs of one interface: products and c by value, everything else zero, scales 1.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) interface: Interface,
    /// The exponents of A's and of B's scales.
    scales: (i32, i32),
}

impl Bench {
    pub(crate) const fn new(interface: Interface) -> Self {
        Self { interface, scales: (0, 0) }
    }

    /// The same with scales that are powers of two of this exponent together, if it can be had.
    fn scaled(&self, exponent: i32) -> Option<Self> {
        let rule = self.interface.scale?;
        let scales = (exponent / 2, exponent - exponent / 2);
        let there = |e| power(&rule.format, false, e).is_some();
        (there(scales.0) && there(scales.1)).then(|| Self { scales, ..self.clone() })
    }

    /// All zeros (scales one, unless scaled).
    pub(crate) fn zeros(&self) -> Input {
        let i = &self.interface;
        let scale = |e| i.scale.and_then(|s| power(&s.format, false, e)).unwrap_or(0);
        Input {
            a: vec![0; i.k],
            b: vec![0; i.k],
            c: 0,
            scale_a: vec![scale(self.scales.0); i.scales()],
            scale_b: vec![scale(self.scales.1); i.scales()],
        }
    }

    /// Exponents that a product of two normal powers of two may have.
    pub(crate) fn product_range(&self) -> (i32, i32) {
        let i = &self.interface;
        (i.a.emin() + i.b.emin(), top(&i.a) + top(&i.b))
    }

    /// Exponents e for which 2^e is a product of normal numbers, a normal c, and a normal result.
    pub(crate) fn common_range(&self) -> (i32, i32) {
        let (low, high) = self.product_range();
        let i = &self.interface;
        (low.max(i.c.emin()).max(i.d.emin()), high.min(top(&i.c)).min(top(&i.d)))
    }

    /// How two normal operands share a product's exponent, as evenly as their formats allow.
    pub(crate) fn shared(&self, e: i32) -> (i32, i32) {
        let Interface { a, b, .. } = self.interface;
        let (low, high) = (a.emin().max(e - top(&b)), top(&a).min(e - b.emin()));
        let ea = (e / 2).max(low).min(high);
        (ea, e - ea)
    }

    /// Operands with product `magnitude * 2^e`: the magnitude sits in a if it fits, else in b; both
    /// normal if they can be, and as balanced as that allows.
    pub(crate) fn split(&self, negative: bool, magnitude: u128, e: i32) -> Option<(u64, u64)> {
        let Interface { a, b, .. } = self.interface;
        let e = e - self.scales.0 - self.scales.1;
        // A significand that neither format has the bits for fits at no exponent.
        let odd = trimmed(Fixed { negative, magnitude, exponent: e, sticky: false }).0;
        if odd.checked_ilog2().is_some_and(|lead| lead > a.fraction_bits.max(b.fraction_bits)) {
            return self.factors(negative, magnitude, e);
        }
        let in_a = |ea: i32| Some((exact(&a, negative, magnitude, ea)?, power(&b, false, e - ea)?));
        let in_b = |ea: i32| Some((power(&a, negative, ea)?, exact(&b, false, magnitude, e - ea)?));
        // Exponents with both operands normal, from the balanced one outward.
        let lead = magnitude.checked_ilog2().unwrap_or(0) as i32;
        let near = |of_a: i32, of_b: i32| {
            let (low, high) = ((a.emin() - of_a).max(e + of_b - top(&b)), (top(&a) - of_a).min(e + of_b - b.emin()));
            let middle = ((e + of_b - of_a) / 2).max(low).min(high);
            let outward = (0..8).flat_map(move |by| [middle + by, middle - by]);
            outward.filter(move |ea| low <= high && (low..=high).contains(ea))
        };
        if let Some(found) = near(lead, 0).find_map(in_a).or_else(|| near(0, lead).find_map(in_b)) {
            return Some(found);
        }
        let at = |ea: i32| in_a(ea).or_else(|| in_b(ea));
        let quantum = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
        let (from, to) = (quantum(&a).max(e - top(&b)), (e - quantum(&b)).min(top(&a)));
        (from..=to).rev().find_map(at).or_else(|| self.factors(negative, magnitude, e))
    }

    /// Operands of two odd significands, for a magnitude that neither holds alone; both normal if they can be.
    fn factors(&self, negative: bool, magnitude: u128, e: i32) -> Option<(u64, u64)> {
        let Interface { a, b, .. } = self.interface;
        let zeros = magnitude.trailing_zeros().min(127);
        let (odd, e) = (magnitude >> zeros, e + zeros as i32);
        let (ma, mb) = (a.fraction_bits, b.fraction_bits);
        if odd == 0 || odd >> (ma + mb + 2).min(127) != 0 {
            return None;
        }
        // One small enough for b that leaves one small enough for a.
        let (from, to) = ((odd >> (ma + 1)).max(3) | 1, 1u128 << (mb + 1).min(12));
        let factor = match u64::try_from(odd) {
            // In machine words a division takes a fraction of the time.
            Ok(odd) => (from as u64..to as u64).step_by(2).find(|f| odd % f == 0 && odd / f < 2 << ma).map(u128::from),
            Err(_) => (from..to).step_by(2).find(|f| odd % f == 0 && odd / f < 2 << ma),
        }?;
        // As evenly as can be, from there outward.
        let middle = (e + odd.ilog2() as i32) / 2 - (odd / factor).ilog2() as i32;
        let near = (0..24).flat_map(|by| [middle + by, middle - by]);
        near.filter_map(|ea| Some((exact(&a, negative, odd / factor, ea)?, exact(&b, false, factor, e - ea)?))).next()
    }

    /// Sets product k to `magnitude * 2^e`; k = K means c.
    pub(crate) fn set_value(&self, input: &mut Input, k: usize, negative: bool, magnitude: u128, e: i32) -> Option<()> {
        if k == self.interface.k {
            input.c = exact(&self.interface.c, negative, magnitude, e)?;
            return Some(());
        }
        (input.a[k], input.b[k]) = self.split(negative, magnitude, e)?;
        Some(())
    }

    /// An input with these terms `(k, negative, magnitude, exponent)`; k = K means c.
    pub(crate) fn terms(&self, terms: &[(usize, bool, u128, i32)]) -> Option<Input> {
        let mut input = self.zeros();
        for &(k, negative, magnitude, e) in terms {
            self.set_value(&mut input, k, negative, magnitude, e)?;
        }
        Some(input)
    }

    /// [`Bench::terms`], or where the formats do not hold these products, with scales that bring them
    /// into range.
    pub(crate) fn scaled_terms(&self, terms: &[(usize, bool, u128, i32)]) -> Option<Input> {
        let lead = |&(_, _, magnitude, e): &(_, _, u128, i32)| e + magnitude.checked_ilog2().unwrap_or(0) as i32;
        let products = || terms.iter().filter(|t| t.0 < self.interface.k).map(lead);
        let (bottom, top) = self.product_range();
        let exponents = || [products().max().map(|e| e - top), products().min().map(|e| e - bottom)];
        self.terms(terms).or_else(|| exponents().into_iter().flatten().find_map(|e| self.scaled(e)?.terms(terms)))
    }

    /// An input with these terms, each product a number near 1, whose block's scales bring it where it belongs:
    /// products of one block must be of one exponent.
    pub(crate) fn terms_in_blocks(&self, terms: &[(usize, bool, u128, i32)]) -> Option<Input> {
        let rule = self.interface.scale?;
        let mut input = self.zeros();
        let mut taken = Vec::new();
        for &(k, negative, magnitude, e) in terms {
            let mut by = 0;
            if k < self.interface.k {
                let block = k / rule.block.max(1);
                by = e + magnitude.checked_ilog2().unwrap_or(0) as i32;
                if taken.iter().any(|&(other, scale)| other == block && scale != by) {
                    return None;
                }
                taken.push((block, by));
                *input.scale_a.get_mut(block)? = power(&rule.format, false, by / 2)?;
                *input.scale_b.get_mut(block)? = power(&rule.format, false, by - by / 2)?;
            }
            self.set_value(&mut input, k, negative, magnitude, e - by)?;
        }
        Some(input)
    }

    /// The exponent of product k of an input, as its operands and scales are written.
    pub(crate) fn product_exponent(&self, input: &Input, k: usize) -> i32 {
        let Interface { a, b, scale, .. } = self.interface;
        let scales = scale.map_or(0, |rule| {
            let of = |codes: &[u64]| codes.get(k / rule.block.max(1)).map_or(0, |&x| rule.format.decode(x).exponent);
            of(&input.scale_a) + of(&input.scale_b)
        });
        a.decode(input.a[k]).exponent + b.decode(input.b[k]).exponent + scales
    }

    /// The non-zero terms of an input whose scales are one: exact products, and c.
    pub(crate) fn addends(&self, input: &Input) -> Vec<Term> {
        let i = &self.interface;
        let products = input.a.iter().zip(&input.b).map(|(&a, &b)| Term::product(&i.a.decode(a), &i.b.decode(b)));
        products.chain([i.c.decode(input.c).term()]).filter(|term| !term.is_zero()).collect()
    }

    /// Whether no operand of a product is subnormal.
    pub(crate) fn operands_are_normal(&self, input: &Input) -> bool {
        let normal = |f: &FormatSpec, codes: &[u64]| codes.iter().all(|&x| !f.decode(x).is_subnormal());
        normal(&self.interface.a, &input.a) && normal(&self.interface.b, &input.b)
    }

    /// d's code of an exact value.
    pub(crate) fn d(&self, negative: bool, magnitude: u128, e: i32) -> Option<u64> {
        exact(&self.interface.d, negative, magnitude, e)
    }
}

/// The exponent of the largest power of two of a format.
pub(crate) const fn top(format: &FormatSpec) -> i32 {
    format.max().exponent
}

/// Whether a code of this format is zero.
pub(crate) const fn is_zero(format: &FormatSpec, code: u64) -> bool {
    matches!(format.decode(code).class, Class::Zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BF16, E2M1, E4M3, E4M3FNUZ, E5M2, F16, F32, F64, UE4M3, UE8M0};

    /// Codes without rounding are those that rounding gives where it changes nothing.
    #[test]
    fn exact_codes_are_those_of_numbers_that_need_no_rounding() {
        let mut random = crate::random::Random::new(1);
        let mut held = 0;
        for format in [E2M1, E4M3, E4M3FNUZ, E5M2, F16, BF16, F32, F64, UE4M3, UE8M0] {
            let (low, high) = (format.emin() - format.fraction_bits as i32 - 3, top(&format) + 3);
            for _ in 0..20_000 {
                let bits = random.range(0, format.fraction_bits as i32 + 3);
                let magnitude = u128::from(random.next() & ((1 << bits) - 1)) << random.below(3);
                let (negative, e) = (random.one_in(2), random.range(low - bits, high));
                let x = Fixed { negative, magnitude, exponent: e, sticky: false };
                let rounded = format.encode(Value::Finite(x), Rounding::TowardZero, Overflow::Saturate).ok();
                let same = |code: &u64| {
                    let back = format.decode(*code).fixed();
                    trimmed(back) == trimmed(x) && (back.negative == negative || magnitude == 0)
                };
                let want = rounded.filter(same);
                held += u32::from(want.is_some());
                assert_eq!(exact(&format, negative, magnitude, e), want, "{format:?} {negative} {magnitude} 2^{e}");
            }
        }
        assert!(held > 50_000, "{held}");
    }
}
