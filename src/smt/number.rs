//! Unpacked numbers as bit-vectors: decoding, alignment, the one rounding, encoding.
//!
//! This is [`num`](crate::num), [`format`](mod@crate::format) and [`round`](crate::round) once more, for
//! operands that are not known.

use super::term::{Bits, Lets, Truth};
use crate::accumulate::Finish;
use crate::format::{FormatSpec, Specials};
use crate::num::Num;
use crate::round::Rounding;
use crate::special::NanRule;

/// A number of some format: what [`Num`] holds.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) nan: Truth,
    pub(super) infinite: Truth,
    pub(super) zero: Truth,
    pub(super) negative: Truth,
    /// Signed, in the circuit's exponent width.
    pub(super) exponent: Bits,
    /// `frac_bits + 1` bits.
    pub(super) significand: Bits,
    pub(super) frac_bits: u32,
}

/// One addend: `(-1)^negative * significand * 2^(exponent - frac_bits)`. A zero has significand 0.
#[derive(Clone, Debug)]
pub(super) struct Addend {
    pub(super) negative: Truth,
    pub(super) exponent: Bits,
    pub(super) significand: Bits,
    pub(super) frac_bits: u32,
}

/// How terms are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alignment {
    pub(super) frac_bits: u32,
    pub(super) rounding: Rounding,
    /// One more bit below, which points from the rounded value to the true one.
    pub(super) sticky: bool,
}

/// An aligned term.
#[derive(Clone, Debug)]
pub(super) struct Aligned {
    /// In two's complement; units of `2^(e_max - F)`, half of that with a sticky bit.
    pub(super) units: Bits,
    /// Whether anything was cut off. Not bound to a name.
    pub(super) inexact: Truth,
}

/// A sum: a two's complement number of units of `2^unit`.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) units: Bits,
    pub(super) unit: Bits,
}

/// A circuit under construction.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    pub(super) lets: Lets,
    /// Bits of a signed exponent.
    pub(super) exponent_bits: u32,
}

impl Number {
    pub(super) fn finite(&self) -> Truth {
        self.nan.or(&self.infinite).not()
    }

    pub(super) fn addend(&self) -> Addend {
        Addend {
            negative: self.negative.clone(),
            exponent: self.exponent.clone(),
            significand: self.significand.clone(),
            frac_bits: self.frac_bits,
        }
    }

    /// Non-zero, finite and below the smallest normal number.
    pub(super) fn subnormal(&self) -> Truth {
        self.finite().and(&self.zero.not()).and(&self.significand.bit(self.frac_bits).not())
    }
}

impl Addend {
    pub(super) fn is_zero(&self) -> Truth {
        self.significand.is(0)
    }

    /// Integer bits of the significand.
    pub(super) fn integer_bits(&self) -> u32 {
        self.significand.width() - self.frac_bits
    }
}

/// Whether a magnitude moves to the next larger multiple: `Rounding::moves_up` for signs and rests
/// that are not known. `half` is the first bit cut off, `rest` whether any other one is set.
fn moves_up(rounding: Rounding, negative: &Truth, odd: &Truth, half: &Truth, rest: &Truth) -> Truth {
    let inexact = half.or(rest);
    let tie = match rounding {
        Rounding::TowardZero => return Truth::constant(false),
        Rounding::AwayFromZero => return inexact,
        Rounding::Down => return inexact.and(negative),
        Rounding::Up => return inexact.and(&negative.not()),
        Rounding::NearestEven | Rounding::Stochastic { .. } => odd.clone(),
        Rounding::NearestOdd => odd.not(),
        Rounding::NearestAway => Truth::constant(true),
        Rounding::NearestZero => Truth::constant(false),
        Rounding::NearestUp => negative.not(),
        Rounding::NearestDown => negative.clone(),
    };
    half.and(&rest.or(&tie))
}

impl Circuit {
    pub(super) fn exponent(&self, value: i32) -> Bits {
        Bits::constant(value.into(), self.exponent_bits)
    }

    /// A number that is known.
    pub(super) fn known(&self, x: &Num) -> Number {
        Number {
            nan: Truth::constant(x.is_nan()),
            infinite: Truth::constant(x.is_infinite()),
            zero: Truth::constant(x.is_zero()),
            negative: Truth::constant(x.negative),
            exponent: self.exponent(x.exponent),
            significand: Bits::constant(x.significand.into(), x.frac_bits + 1),
            frac_bits: x.frac_bits,
        }
    }

    /// The number that a code of `f` stands for.
    pub(super) fn decode(&mut self, name: &str, code: &Bits, f: &FormatSpec) -> Number {
        let (m, e) = (f.fraction_bits, f.exponent_bits);
        let field = code.field(f.ignored_low_bits + m, e);
        let fraction = if m > 0 { Some(code.field(f.ignored_low_bits, m)) } else { None };
        let fraction_is = |value: i128| fraction.as_ref().map_or(Truth::constant(true), |x| x.is(value));
        let (all_ones, low) = (field.is((1 << e) - 1), field.is(0));
        let sign = if f.signed { code.bit(f.ignored_low_bits + m + e) } else { Truth::constant(false) };
        let (nan, infinite) = match f.specials {
            Specials::Ieee => (all_ones.and(&fraction_is(0).not()), all_ones.and(&fraction_is(0))),
            Specials::NanAllOnes => (all_ones.and(&fraction_is((1 << m) - 1)), Truth::constant(false)),
            Specials::NanNegativeZero => (sign.and(&low).and(&fraction_is(0)), Truth::constant(false)),
            Specials::None => (Truth::constant(false), Truth::constant(false)),
        };
        let small = if f.subnormals { low } else { Truth::constant(false) };
        let normal = field.widened(self.exponent_bits).minus(&self.exponent(f.bias));
        let exponent = Bits::choose(&small, &self.exponent(f.emin()), &normal);
        let hidden = small.not().as_bit();
        let significand = fraction.as_ref().map_or(hidden.clone(), |x| hidden.above(x));
        let zero = small.and(&fraction_is(0)).and(&nan.not());
        Number {
            nan: self.lets.bind_truth(&format!("{name}.nan"), &nan),
            infinite: self.lets.bind_truth(&format!("{name}.inf"), &infinite),
            zero: self.lets.bind_truth(&format!("{name}.zero"), &zero),
            negative: self.lets.bind_truth(&format!("{name}.negative"), &sign),
            exponent: self.lets.bind(&format!("{name}.exponent"), &exponent),
            significand: self.lets.bind(&format!("{name}.significand"), &significand),
            frac_bits: m,
        }
    }

    /// The code of a result, as [`FormatSpec::encode_result`] gives it.
    pub(super) fn encode(&mut self, x: &Number, f: &FormatSpec, nan: NanRule) -> Bits {
        let width = f.storage_bits;
        let code = |value: u64| Bits::constant(value.into(), width);
        let signed = |f: &dyn Fn(bool) -> u64| Bits::choose(&x.negative, &code(f(true)), &code(f(false)));
        let infinity = |negative| {
            let quiet = f.nan_code(NanRule::Quiet);
            f.infinity_code(negative).or(quiet).unwrap_or(f.max_code(negative))
        };
        let nan = if f.has_infinity() { f.nan_code(nan) } else { f.nan_code(NanRule::Quiet) };
        let nan = code(nan.unwrap_or(f.max_code(false)));
        let minus_zero = 1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits);
        let zero = signed(&|negative| if negative && f.has_negative_zero() { minus_zero } else { 0 });
        let finite = self.pack(x, f);
        let finite = Bits::choose(&x.zero, &zero, &finite);
        let finite = Bits::choose(&x.infinite, &signed(&infinity), &finite);
        self.lets.bind("code", &Bits::choose(&x.nan, &nan, &finite))
    }

    /// The code of a finite number on the format's grid.
    fn pack(&mut self, x: &Number, f: &FormatSpec) -> Bits {
        let m = f.fraction_bits;
        let normal = x.significand.bit(m);
        let field = x.exponent.plus(&self.exponent(f.bias)).field(0, f.exponent_bits);
        let field = Bits::choose(&normal, &field, &Bits::constant(0, f.exponent_bits));
        let magnitude = if m > 0 { field.above(&x.significand.field(0, m)) } else { field };
        let code = if f.signed { x.negative.as_bit().above(&magnitude) } else { magnitude };
        code.scaled(f.ignored_low_bits).widened(f.storage_bits)
    }

    /// The exact product.
    pub(super) fn product(&mut self, name: &str, a: &Addend, b: &Addend) -> Addend {
        let width = a.significand.width() + b.significand.width();
        let product = a.significand.widened(width).times(&b.significand.widened(width));
        Addend {
            negative: self.lets.bind_truth(&format!("{name}.negative"), &a.negative.xor(&b.negative)),
            exponent: self.lets.bind(&format!("{name}.exponent"), &a.exponent.plus(&b.exponent)),
            significand: self.lets.bind(&format!("{name}.significand"), &product),
            frac_bits: a.frac_bits + b.frac_bits,
        }
    }

    /// `x * 2^n` with the leading bit at the top of its width, and n (in exponent width). A zero
    /// stays zero.
    pub(super) fn leading(&mut self, name: &str, x: &Bits) -> (Bits, Bits) {
        let mut shifted = x.clone();
        let mut count = self.exponent(0);
        for stage in (0..32 - (x.width() - 1).leading_zeros()).rev() {
            let by = 1 << stage;
            let empty = shifted.field(x.width() - by, by).is(0);
            let empty = self.lets.bind_truth(&format!("{name}.top{by}.empty"), &empty);
            let moved = shifted.field(0, x.width() - by).scaled(by);
            shifted = self.lets.bind(&format!("{name}.shifted"), &Bits::choose(&empty, &moved, &shifted));
            let more = count.plus(&self.exponent(by as i32));
            count = self.lets.bind(&format!("{name}.count"), &Bits::choose(&empty, &more, &count));
        }
        (shifted, count)
    }

    /// The same value with `1 <= s < 2`; a zero keeps its exponent.
    pub(super) fn normalised(&mut self, name: &str, x: &Addend) -> Addend {
        let width = x.significand.width();
        let (significand, count) = self.leading(name, &x.significand);
        let top = self.exponent((width - 1) as i32 - x.frac_bits as i32);
        let exponent = Bits::choose(&x.is_zero(), &x.exponent, &x.exponent.plus(&top).minus(&count));
        let exponent = self.lets.bind(&format!("{name}.exponent"), &exponent);
        Addend { significand, exponent, frac_bits: width - 1, ..x.clone() }
    }

    /// A term rounded to a multiple of `2^(e_max - F)`.
    pub(super) fn align(&mut self, name: &str, term: &Addend, e_max: &Bits, rule: Alignment, width: u32) -> Aligned {
        let truncates = rule.rounding == Rounding::TowardZero && !rule.sticky;
        // Bits of the register below the binary point: those kept, a half, and all the term has.
        let below = (rule.frac_bits + u32::from(!truncates)).max(term.frac_bits);
        let cut = below - rule.frac_bits;
        let register = term.significand.scaled(below - term.frac_bits);
        let distance = self.lets.bind(&format!("{name}.distance"), &e_max.minus(&term.exponent));
        let shifted = self.lets.bind(&format!("{name}.shifted"), &register.shifted_right(&distance));
        let kept = shifted.field(cut, register.width() - cut);
        let lost = shifted.shifted_left(&distance).equals(&register).not();
        let magnitude = if truncates {
            kept.widened(width)
        } else {
            let rest = self.lets.bind_truth(&format!("{name}.rest"), &shifted.any_below(cut - 1).or(&lost));
            let up = moves_up(rule.rounding, &term.negative, &kept.bit(0), &shifted.bit(cut - 1), &rest);
            kept.widened(width).plus(&up.as_bit().widened(width))
        };
        let magnitude = self.lets.bind(&format!("{name}.units"), &magnitude);
        let units = Bits::choose(&term.negative, &magnitude.negated(), &magnitude);
        let units = self.lets.bind(&format!("{name}.aligned"), &units);
        let inexact = shifted.any_below(cut).or(&lost);
        if !rule.sticky {
            return Aligned { units, inexact };
        }
        let raises = match rule.rounding {
            Rounding::Down => Truth::constant(true),
            Rounding::Up => Truth::constant(false),
            _ => term.negative.not(),
        };
        let (bit, doubled) = (inexact.as_bit().widened(width), units.plus(&units));
        let units = Bits::choose(&raises, &doubled.plus(&bit), &doubled.minus(&bit));
        Aligned { units: self.lets.bind(&format!("{name}.sticky"), &units), inexact }
    }

    /// Rounds a sum to a number of `out`: [`Finish::apply`].
    pub(super) fn finish(&mut self, sum: &Sum, finish: &Finish, out: &FormatSpec) -> Number {
        let units = self.lets.bind("sum", &sum.units);
        let negative = self.lets.bind_truth("sum.negative", &units.bit(units.width() - 1));
        let magnitude = self.lets.bind("sum.magnitude", &Bits::choose(&negative, &units.negated(), &units));
        let exact_zero = magnitude.is(0);
        let (shifted, count) = self.leading("sum", &magnitude);
        let lead = sum.unit.plus(&self.exponent(units.width() as i32 - 1)).minus(&count);
        let lead = self.lets.bind("lead", &lead);
        let p = finish.frac_bits.map_or(out.fraction_bits, |p| p.min(out.fraction_bits));
        let (kept, exponent) = self.round_at(&shifted, &lead, p, &negative, finish.rounding, out);
        let zero = self.lets.bind_truth("result.zero", &kept.is(0));
        let carry = self.lets.bind_truth("result.carry", &kept.bit(p + 1));
        let exponent = Bits::choose(&carry, &exponent.plus(&self.exponent(1)), &exponent);
        let exponent = self.lets.bind("result.exponent", &exponent);
        let significand = Bits::choose(&carry, &kept.field(1, p + 1), &kept.field(0, p + 1));
        let significand = self.lets.bind("result.significand", &significand.scaled(out.fraction_bits - p));
        let keeps_sign = zero.not().or(&Truth::constant(finish.negative_zero)).and(&exact_zero.not());
        let value = Number {
            nan: Truth::constant(false),
            infinite: Truth::constant(false),
            negative: self.lets.bind_truth("result.negative", &negative.and(&keeps_sign)),
            zero,
            exponent,
            significand,
            frac_bits: out.fraction_bits,
        };
        self.bounded(value, finish, p, out)
    }

    /// Keeps `p` fraction bits of a normalised magnitude whose leading bit weighs `2^lead`, fewer
    /// below the smallest normal number. Gives `p + 2` bits and the weight of bit p.
    fn round_at(
        &mut self,
        normalised: &Bits,
        lead: &Bits,
        p: u32,
        negative: &Truth,
        rounding: Rounding,
        out: &FormatSpec,
    ) -> (Bits, Bits) {
        let width = normalised.width().max(p + 3);
        let register = self.lets.bind("register", &normalised.scaled(width - normalised.width()));
        let emin = self.exponent(out.emin());
        let under = self.lets.bind_truth("under", &lead.less(&emin));
        let depth = Bits::choose(&under, &emin.minus(lead), &self.exponent(0));
        let depth = self.lets.bind("depth", &depth);
        let shifted = self.lets.bind("denormalised", &register.shifted_right(&depth));
        let cut = width - p - 1;
        let kept = self.lets.bind("kept", &shifted.field(cut, p + 1));
        let lost = shifted.shifted_left(&depth).equals(&register).not();
        let rest = self.lets.bind_truth("rest", &shifted.any_below(cut - 1).or(&lost));
        let up = moves_up(rounding, negative, &kept.bit(0), &shifted.bit(cut - 1), &rest);
        let rounded = kept.widened(p + 2).plus(&up.as_bit().widened(p + 2));
        (self.lets.bind("rounded", &rounded), self.lets.bind("exponent", &Bits::choose(&under, &emin, lead)))
    }

    /// What becomes of a magnitude above the largest number: infinity, or where the rounding says
    /// so the largest number of `p` fraction bits.
    fn bounded(&mut self, x: Number, finish: &Finish, p: u32, out: &FormatSpec) -> Number {
        let max = out.max();
        let top = self.exponent(max.exponent);
        let mut over = top.less(&x.exponent);
        if max.significand != (2 << max.frac_bits) - 1 {
            let largest = Bits::constant(max.significand.into(), x.significand.width());
            over = over.or(&x.exponent.equals(&top).and(&largest.below(&x.significand)));
        }
        let over = self.lets.bind_truth("overflow", &over.and(&x.zero.not()));
        let stops = match finish.rounding {
            Rounding::TowardZero => Truth::constant(finish.ieee_overflow),
            Rounding::Down => x.negative.not(),
            Rounding::Up => x.negative.clone(),
            _ => Truth::constant(false),
        };
        let stops = self.lets.bind_truth("stops", &over.and(&stops));
        let cut = out.fraction_bits - p;
        let largest = Bits::constant((max.significand >> cut << cut).into(), x.significand.width());
        Number {
            infinite: self.lets.bind_truth("result.infinite", &over.and(&stops.not())),
            exponent: self.lets.bind("result.exponent", &Bits::choose(&stops, &top, &x.exponent)),
            significand: self.lets.bind("result.significand", &Bits::choose(&stops, &largest, &x.significand)),
            ..x
        }
    }

    /// A number chosen by a condition. Both must have the same width.
    pub(super) fn select(&mut self, name: &str, condition: &Truth, yes: &Number, no: &Number) -> Number {
        let condition = self.lets.bind_truth(&format!("{name}.chosen"), condition);
        let pick = |x: &Truth, y: &Truth| condition.and(x).or(&condition.not().and(y));
        let (nan, infinite) = (pick(&yes.nan, &no.nan), pick(&yes.infinite, &no.infinite));
        let (zero, negative) = (pick(&yes.zero, &no.zero), pick(&yes.negative, &no.negative));
        let exponent = Bits::choose(&condition, &yes.exponent, &no.exponent);
        let significand = Bits::choose(&condition, &yes.significand, &no.significand);
        Number {
            nan: self.lets.bind_truth(&format!("{name}.nan"), &nan),
            infinite: self.lets.bind_truth(&format!("{name}.inf"), &infinite),
            zero: self.lets.bind_truth(&format!("{name}.zero"), &zero),
            negative: self.lets.bind_truth(&format!("{name}.negative"), &negative),
            exponent: self.lets.bind(&format!("{name}.exponent"), &exponent),
            significand: self.lets.bind(&format!("{name}.significand"), &significand),
            frac_bits: no.frac_bits,
        }
    }
}
