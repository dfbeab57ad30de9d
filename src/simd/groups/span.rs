//! When nothing is cut off: bounds on scales and states that make a step one exact sum.
//!
//! Every term of a step is a multiple of `2^grid`, the last place of products times those of both
//! scales. Alignment cuts at `2^(e_max - F)`; where that is never above the grid, nor above the
//! states' last places, a step is `c` plus the terms' exact sum, rounded once, whatever e_max is.

use super::ABSENT;
use crate::simd::lanes::{exponent, power};

/// Scales that have been seen, those that count: not zero, nor beside elements that are all zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) least: f32,
    pub(super) most: f32,
    /// The union of their fraction fields.
    pub(super) fractions: u32,
    /// A NaN, or a scale that f32 does not hold; counts beside zeros too.
    pub(super) hard: bool,
}

impl Seen {
    pub(super) const NOTHING: Self = Self { least: f32::INFINITY, most: 0.0, fractions: 0, hard: false };

    pub(super) fn add(&mut self, scale: f32) {
        (self.least, self.most) = (self.least.min(scale), self.most.max(scale));
        self.fractions |= scale.to_bits() & 0x7F_FFFF;
    }
}

/// What scales of some lines, over all their groups, lie between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The exponent of the lowest bit set in any.
    low: i32,
    /// The largest exponent that alignment sees.
    top: i32,
    most: f64,
    hard: bool,
}

impl Span {
    pub(super) const NOTHING: Self = Self { low: 1000, top: ABSENT, most: 0.0, hard: false };

    /// Of a format whose subnormals have the exponent `emin`.
    pub(super) fn of(seen: &Seen, emin: i32) -> Self {
        if seen.most == 0.0 {
            return Self { hard: seen.hard, ..Self::NOTHING };
        }
        let places = 23 - (seen.fractions | 1 << 23).trailing_zeros() as i32;
        let [least, most] = [seen.least, seen.most].map(f64::from);
        Self { low: exponent(least) - places, top: exponent(most).max(emin), most, hard: seen.hard }
    }

    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            top: self.top.max(other.top),
            most: self.most.max(other.most),
            hard: self.hard | other.hard,
        }
    }
}

/// The elements' products, and the alignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// The exponent of products' last place.
    pub(super) last: i32,
    /// A step's largest sum of magnitudes of products, in that place.
    pub(super) most: f64,
    pub(super) frac_bits: i32,
    pub(super) floor: i32,
}

/// Steps of some rows by some columns in which groups fall on a grid that alignment spares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The exponent of the terms' last place.
    grid: i32,
    /// The largest exponent of groups and floor.
    top: i32,
    /// The largest magnitude of a step's sum of terms.
    most: f64,
    frac_bits: i32,
    /// f32 holds the sums.
    pub(super) narrow: bool,
}

impl Steps {
    /// Steps with scales of such spans; none where a group might be cut off.
    pub(super) fn new(a: &Span, b: &Span, rule: &Rule) -> Option<Self> {
        let (grid, top) = (a.low + b.low + rule.last, rule.floor.max(a.top + b.top));
        // At most twice 2^127, the states' largest magnitude.
        let most = rule.most * power(rule.last) * a.most * b.most;
        if a.hard || b.hard || top > 126 || most >= power(126) || top - rule.frac_bits > grid {
            return None;
        }
        let narrow = grid > 900 || most <= power(grid + 24);
        Some(Self { grid, top, most, frac_bits: rule.frac_bits, narrow })
    }

    /// After `n` steps from magnitudes up to `c`, the exponent of the truncation step that is never
    /// passed; none where groups might be cut off. States on its multiples stay there, uncut.
    pub(super) fn quantum(&self, n: usize, c: f32) -> Option<i32> {
        if !c.is_finite() {
            return None;
        }
        let bound = exponent(f64::from(c) + n as f64 * self.most);
        let quantum = bound.max(self.top) - self.frac_bits;
        // Powers of two up and down are f32's, every result is normal and none overflows.
        (bound <= 126 && quantum >= -126 && quantum <= self.grid.min(126)).then_some(quantum)
    }
}
