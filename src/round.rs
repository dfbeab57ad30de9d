//! The only place in the crate where numbers are rounded.
//!
//! `round` takes an exact number to a grid; everything else (formats' encodings, outputs of
//! accumulators, alignment) states the grid and the [`Rounding`].

use crate::num::Fixed;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

/// How a number between two neighbours of a grid is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rounding {
    /// RNE: to the nearest, ties to the even neighbour (IEEE 754's default).
    #[default]
    NearestEven,
    /// RNA: to the nearest, ties away from zero.
    NearestAway,
    /// RNZ: to the nearest, ties toward zero.
    NearestZero,
    /// RNU: to the nearest, ties toward +infinity.
    NearestUp,
    /// RND: to the nearest, ties toward -infinity.
    NearestDown,
    /// RNO: to the nearest, ties to the odd neighbour.
    NearestOdd,
    /// RZ: toward zero.
    TowardZero,
    /// RA: away from zero.
    AwayFromZero,
    /// RD: toward -infinity.
    Down,
    /// RU: toward +infinity.
    Up,
    /// Stochastic, with `bits` random bits R (at most 60): the magnitude goes up iff
    /// `floor(frac * 2^bits) + R >= 2^bits`.
    Stochastic {
        /// How many random bits are used.
        bits: u8,
        /// The random bits R; those above `bits` are ignored.
        random: u64,
    },
}

/// The named roundings, with their short names, in the order of `docs/numerics.md`.
pub const ROUNDINGS: &[(Rounding, &str)] = &[
    (Rounding::NearestEven, "rne"),
    (Rounding::NearestAway, "rna"),
    (Rounding::NearestZero, "rnz"),
    (Rounding::NearestUp, "rnu"),
    (Rounding::NearestDown, "rnd"),
    (Rounding::NearestOdd, "rno"),
    (Rounding::TowardZero, "rz"),
    (Rounding::AwayFromZero, "ra"),
    (Rounding::Down, "rd"),
    (Rounding::Up, "ru"),
];

impl Rounding {
    /// Whether the magnitude of a number of this sign moves to the next larger multiple.
    ///
    /// `half` compares the part cut off with half a quantum; it is not consulted when exact.
    const fn moves_up(self, negative: bool, odd: bool, half: Ordering) -> bool {
        let tie = match self {
            Self::TowardZero => return false,
            Self::AwayFromZero => return true,
            Self::Down => return negative,
            Self::Up => return !negative,
            Self::NearestEven | Self::Stochastic { .. } => odd,
            Self::NearestOdd => !odd,
            Self::NearestAway => true,
            Self::NearestZero => false,
            Self::NearestUp => !negative,
            Self::NearestDown => negative,
        };
        match half {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => tie,
        }
    }

    /// Whether numbers too large for a format, of this sign, round to its largest finite number.
    pub const fn stops_at_max(self, negative: bool) -> bool {
        match self {
            Self::TowardZero => true,
            Self::Down => !negative,
            Self::Up => negative,
            _ => false,
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Stochastic { bits, random } = self {
            return write!(f, "stochastic{bits}({random:#x})");
        }
        let name = ROUNDINGS.iter().find(|(r, _)| r == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Rounding {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        ROUNDINGS
            .iter()
            .find(|(_, name)| *name == lower)
            .map(|(r, _)| *r)
            .ok_or_else(|| crate::Error::parse("rounding", text, "one of rne rna rnz rnu rnd rno rz ra rd ru"))
    }
}

/// A rounded magnitude: `magnitude * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounded {
    /// The integer magnitude.
    pub(crate) magnitude: u128,
    /// The weight of its last bit, the grid's quantum.
    pub(crate) exponent: i32,
    /// Whether the number was on the grid already.
    pub(crate) exact: bool,
}

/// Rounds to an integer multiple of `2^quantum`.
pub(crate) fn to_multiple(x: Fixed, quantum: i32, rounding: Rounding) -> Rounded {
    let by = x.exponent - quantum;
    if by >= 0 {
        let magnitude = if x.magnitude == 0 { 0 } else { x.magnitude << by.min(127) };
        // A sticky rest below a coarser unit than the quantum cannot be placed; callers keep
        // sticky bits far below the quantum, so that a left shift only ever meets exact numbers.
        debug_assert!(!x.sticky);
        return Rounded { magnitude, exponent: quantum, exact: true };
    }
    let right = by.unsigned_abs();
    let kept = if right > 127 { 0 } else { x.magnitude >> right };
    let rest = if right > 127 { x.magnitude } else { x.magnitude & ((1u128 << right) - 1) };
    if rest == 0 && !x.sticky {
        return Rounded { magnitude: kept, exponent: quantum, exact: true };
    }
    let up = match rounding {
        Rounding::Stochastic { bits, random } => stochastic_up(rest, right, bits, random),
        _ => rounding.moves_up(x.negative, kept & 1 == 1, half_of(rest, right, x.sticky)),
    };
    Rounded { magnitude: kept + u128::from(up), exponent: quantum, exact: false }
}

/// Compares `rest / 2^right` (and a sticky bit) with one half.
const fn half_of(rest: u128, right: u32, sticky: bool) -> Ordering {
    if right > 128 {
        return Ordering::Less;
    }
    let half = 1u128 << (right - 1);
    if rest > half || (rest == half && sticky) {
        Ordering::Greater
    } else if rest == half {
        Ordering::Equal
    } else {
        Ordering::Less
    }
}

/// `floor(rest / 2^right * 2^bits) + R >= 2^bits`.
fn stochastic_up(rest: u128, right: u32, bits: u8, random: u64) -> bool {
    let bits = u32::from(bits.min(60));
    let (floor, _) = crate::num::shift(rest, bits as i32 - right as i32);
    let random = u128::from(random) & ((1 << bits) - 1);
    floor + random >= 1 << bits
}

/// Rounds to `frac_bits` fraction bits of the normalised value, the quantum never below
/// `2^(emin - frac_bits)`; the exponent is not bounded above.
pub(crate) fn round(x: Fixed, frac_bits: u32, emin: i32, rounding: Rounding) -> Rounded {
    let lead = if x.magnitude == 0 { emin } else { x.leading_exponent().max(emin) };
    to_multiple(x, lead - frac_bits as i32, rounding)
}
