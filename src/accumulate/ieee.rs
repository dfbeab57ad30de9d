//! IEEE operations on unpacked numbers: exact, then rounded once, zeros and NaN as IEEE 754 says.

use super::Finish;
use crate::format::FormatSpec;
use crate::num::{Class, Fixed, Num, Term};
use crate::round::Rounding;
use crate::special::{NanRule, SpecialCases};

const fn finish(rounding: Rounding) -> Finish {
    Finish { rounding, frac_bits: None, ieee_overflow: true, negative_zero: true }
}

/// The zero that an exact cancellation gives.
const fn exact_zero(rounding: Rounding, out: &FormatSpec) -> Num {
    Num::zero(matches!(rounding, Rounding::Down), out.emin(), out.fraction_bits)
}

/// `a * b + c`, rounded once.
pub(crate) fn fma(a: &Num, b: &Num, c: &Num, out: &FormatSpec, rounding: Rounding, nan: NanRule) -> Num {
    let mut cases = SpecialCases::default();
    cases.product(a, b);
    cases.addend(c);
    if let Some(d) = cases.verdict(nan, out) {
        return d;
    }
    sum(Term::product(a, b).fixed(), c.fixed(), out, rounding)
}

/// `a * b`, rounded once.
pub(crate) fn mul(a: &Num, b: &Num, out: &FormatSpec, rounding: Rounding, nan: NanRule) -> Num {
    let mut cases = SpecialCases::default();
    cases.product(a, b);
    if let Some(d) = cases.verdict(nan, out) {
        return d;
    }
    let product = Term::product(a, b);
    if product.is_zero() {
        return Num::zero(product.negative, out.emin(), out.fraction_bits);
    }
    finish(rounding).apply(product.fixed(), out)
}

/// `a + b`, rounded once.
pub(crate) fn add(a: &Num, b: &Num, out: &FormatSpec, rounding: Rounding, nan: NanRule) -> Num {
    let mut cases = SpecialCases::default();
    cases.addend(a);
    cases.addend(b);
    if let Some(d) = cases.verdict(nan, out) {
        return d;
    }
    sum(a.fixed(), b.fixed(), out, rounding)
}

/// `a` in another format, rounded once.
pub(crate) fn convert(a: &Num, out: &FormatSpec, rounding: Rounding, nan: NanRule) -> Num {
    match a.class {
        Class::Nan => nan.nan(out),
        Class::Infinite => *a,
        Class::Zero => Num::zero(a.negative, out.emin(), out.fraction_bits),
        Class::Finite => finish(rounding).apply(a.fixed(), out),
    }
}

fn sum(x: Fixed, y: Fixed, out: &FormatSpec, rounding: Rounding) -> Num {
    let total = x.plus(y);
    if total.is_zero() {
        let both_zero_alike = x.is_zero() && y.is_zero() && x.negative == y.negative;
        return if both_zero_alike {
            Num::zero(x.negative, out.emin(), out.fraction_bits)
        } else {
            exact_zero(rounding, out)
        };
    }
    finish(rounding).apply(total, out)
}
