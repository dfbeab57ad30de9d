//! Bit-vector expressions, as SMT-LIB 2 text with widths that are checked.
//!
//! Operations nest; what is used more than once is bound to a name first ([`Lets::bind`]), so that
//! the text stays as long as the circuit.

use core::fmt;
use std::collections::HashMap;

/// An expression of a bit-vector sort.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    text: String,
    width: u32,
}

/// An expression of sort `Bool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Truth(String);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sort of bit-vectors of a width.
pub(super) fn sort(width: u32) -> String {
    format!("(_ BitVec {width})")
}

impl Bits {
    pub(super) fn variable(name: impl Into<String>, width: u32) -> Self {
        Self { text: name.into(), width }
    }

    /// A number modulo `2^width`.
    pub(super) fn constant(value: i128, width: u32) -> Self {
        let text = if value < 0 {
            // All of the numbers written here but exponents are non-negative, and those are narrow.
            format!("(_ bv{} {width})", (value as u128) & (u128::MAX >> (128 - width.min(128))))
        } else {
            format!("(_ bv{value} {width})")
        };
        Self { text, width }
    }

    pub(super) const fn width(&self) -> u32 {
        self.width
    }

    fn of(width: u32, text: String) -> Self {
        Self { text, width }
    }

    fn binary(&self, name: &str, other: &Self) -> Self {
        debug_assert_eq!(self.width, other.width, "{name} {self} {other}");
        Self::of(self.width, format!("({name} {self} {other})"))
    }

    fn compare(&self, name: &str, other: &Self) -> Truth {
        debug_assert_eq!(self.width, other.width, "{name} {self} {other}");
        Truth(format!("({name} {self} {other})"))
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        self.binary("bvadd", other)
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.binary("bvsub", other)
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        self.binary("bvmul", other)
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        self.binary("bvor", other)
    }

    pub(super) fn negated(&self) -> Self {
        Self::of(self.width, format!("(bvneg {self})"))
    }

    pub(super) fn equals(&self, other: &Self) -> Truth {
        self.compare("=", other)
    }

    pub(super) fn is(&self, value: i128) -> Truth {
        self.equals(&Self::constant(value, self.width))
    }

    /// Signed.
    pub(super) fn less(&self, other: &Self) -> Truth {
        self.compare("bvslt", other)
    }

    /// Unsigned.
    pub(super) fn below(&self, other: &Self) -> Truth {
        self.compare("bvult", other)
    }

    /// Signed maximum. Both sides must be names or constants.
    pub(super) fn max(&self, other: &Self) -> Self {
        Self::choose(&self.less(other), other, self)
    }

    /// Bits `low` and above, `count` of them.
    pub(super) fn field(&self, low: u32, count: u32) -> Self {
        debug_assert!(count > 0 && low + count <= self.width, "{low} {count} of {self}: {}", self.width);
        if low == 0 && count == self.width {
            return self.clone();
        }
        Self::of(count, format!("((_ extract {} {low}) {self})", low + count - 1))
    }

    /// One bit.
    pub(super) fn bit(&self, at: u32) -> Truth {
        self.field(at, 1).is(1)
    }

    /// Whether any of the lowest `count` bits is set.
    pub(super) fn any_below(&self, count: u32) -> Truth {
        if count == 0 { Truth::constant(false) } else { self.field(0, count).is(0).not() }
    }

    /// `self` above `low`.
    pub(super) fn above(&self, low: &Self) -> Self {
        Self::of(self.width + low.width, format!("(concat {self} {low})"))
    }

    /// `self * 2^count`, wider by `count` bits.
    pub(super) fn scaled(&self, count: u32) -> Self {
        if count == 0 { self.clone() } else { self.above(&Self::constant(0, count)) }
    }

    /// The same unsigned number in at least `width` bits.
    pub(super) fn widened(&self, width: u32) -> Self {
        if width <= self.width {
            return self.clone();
        }
        Self::of(width, format!("((_ zero_extend {}) {self})", width - self.width))
    }

    /// The same signed number in `width` bits, or its lowest ones.
    pub(super) fn extended(&self, width: u32) -> Self {
        if width <= self.width {
            return self.field(0, width);
        }
        Self::of(width, format!("((_ sign_extend {}) {self})", width - self.width))
    }

    /// Shifted right; the amount is an unsigned number of any width.
    pub(super) fn shifted_right(&self, by: &Self) -> Self {
        let width = self.width.max(by.width);
        self.widened(width).binary("bvlshr", &by.widened(width)).field(0, self.width)
    }

    /// A signed number shifted right, filled with its sign; the amount is an unsigned number of any width.
    pub(super) fn shifted_right_signed(&self, by: &Self) -> Self {
        let width = self.width.max(by.width);
        self.extended(width).binary("bvashr", &by.widened(width)).field(0, self.width)
    }

    /// Shifted left within its width.
    pub(super) fn shifted_left(&self, by: &Self) -> Self {
        let width = self.width.max(by.width);
        self.widened(width).binary("bvshl", &by.widened(width)).field(0, self.width)
    }

    pub(super) fn choose(condition: &Truth, yes: &Self, no: &Self) -> Self {
        debug_assert_eq!(yes.width, no.width, "ite {yes} {no}");
        match condition.known() {
            Some(true) => yes.clone(),
            Some(false) => no.clone(),
            None => Self::of(yes.width, format!("(ite {condition} {yes} {no})")),
        }
    }
}

impl Truth {
    pub(super) fn constant(value: bool) -> Self {
        Self(if value { "true" } else { "false" }.into())
    }

    fn known(&self) -> Option<bool> {
        match self.0.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    pub(super) fn not(&self) -> Self {
        self.known().map_or_else(|| Self(format!("(not {self})")), |x| Self::constant(!x))
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        match (self.known(), other.known()) {
            (Some(false), _) | (_, Some(true)) => self.clone(),
            (Some(true), _) | (_, Some(false)) => other.clone(),
            _ => Self(format!("(and {self} {other})")),
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        match (self.known(), other.known()) {
            (Some(true), _) | (_, Some(false)) => self.clone(),
            (Some(false), _) | (_, Some(true)) => other.clone(),
            _ => Self(format!("(or {self} {other})")),
        }
    }

    pub(super) fn xor(&self, other: &Self) -> Self {
        match (self.known(), other.known()) {
            (Some(true), _) => other.not(),
            (_, Some(true)) => self.not(),
            (Some(false), _) => other.clone(),
            (_, Some(false)) => self.clone(),
            _ => Self(format!("(xor {self} {other})")),
        }
    }

    /// One bit.
    pub(super) fn as_bit(&self) -> Bits {
        Bits::choose(self, &Bits::constant(1, 1), &Bits::constant(0, 1))
    }
}

/// The names bound so far, in order.
#[derive(Debug, Default)]
pub(super) struct Lets {
    lines: Vec<(String, String)>,
    taken: HashMap<String, u32>,
}

impl Lets {
    /// Names a bit-vector.
    pub(super) fn bind(&mut self, name: &str, value: &Bits) -> Bits {
        Bits::of(value.width, self.name(name, &value.text))
    }

    /// Names a condition.
    pub(super) fn bind_truth(&mut self, name: &str, value: &Truth) -> Truth {
        if value.known().is_some() { value.clone() } else { Truth(self.name(name, &value.0)) }
    }

    fn name(&mut self, name: &str, text: &str) -> String {
        if !text.starts_with('(') || text.starts_with("(_ bv") {
            return text.into();
        }
        let taken = self.taken.entry(name.into()).or_default();
        let unique = if *taken == 0 { name.into() } else { format!("{name}~{taken}") };
        *taken += 1;
        self.lines.push((unique.clone(), text.into()));
        unique
    }

    /// `result` with every name bound around it, one to a line.
    pub(super) fn around(&self, result: &str) -> String {
        let lines: String = self.lines.iter().map(|(name, text)| format!("  (let (({name} {text}))\n")).collect();
        format!("{lines}  {result}{}", ")".repeat(self.lines.len()))
    }
}
