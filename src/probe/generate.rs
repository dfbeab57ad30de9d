//! Inputs at random, aimed at what units differ in.
//!
//! The kinds are those of the shared vectors (random bits, near wide exponents, cancellation,
//! specials, sparse, tiny, huge, very wide, ties) and six more: few terms of exact powers, sums at
//! the alignment floor, overflow edges, zeros of both signs, the largest terms beside the smallest,
//! and products of subnormal operands beside terms of their size.

mod kinds;

use super::bench::{Bench, normal, top};
use super::black_box::Input;
use crate::format::FormatSpec;
use crate::random::Random;

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    RandomBits,
    NearOne,
    Wide,
    Cancellation,
    Specials,
    Sparse,
    Tiny,
    Huge,
    VeryWide,
    Ties,
    FewTerms,
    Floor,
    Overflow,
    Zeros,
    Extremes,
    Unnormalised,
}

/// Every kind.
pub(crate) const KINDS: [Kind; 16] = [
    Kind::RandomBits,
    Kind::NearOne,
    Kind::Wide,
    Kind::Cancellation,
    Kind::Specials,
    Kind::Sparse,
    Kind::Tiny,
    Kind::Huge,
    Kind::VeryWide,
    Kind::Ties,
    Kind::FewTerms,
    Kind::Floor,
    Kind::Overflow,
    Kind::Zeros,
    Kind::Extremes,
    Kind::Unnormalised,
];

/// Kinds of few terms at the ends of the range, which show what the others rarely do.
pub(crate) const ENDS: [Kind; 6] =
    [Kind::Extremes, Kind::Floor, Kind::FewTerms, Kind::Unnormalised, Kind::Extremes, Kind::Overflow];

/// Kinds whose inputs are normal numbers and whose sums stay far from underflow and overflow.
pub(crate) const MIDDLE: [Kind; 4] = [Kind::NearOne, Kind::Cancellation, Kind::Ties, Kind::FewTerms];

/// A stream of inputs for one interface.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    bench: Bench,
    random: Random,
    at: usize,
}

/// A significand: a power of two, all ones, few bits, or anything.
pub(crate) fn fraction(random: &mut Random, bits: u32) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 if bits > 0 => 1 << random.below(u64::from(bits)),
        3 if bits > 1 => u64::MAX << random.below(u64::from(bits)),
        _ => random.next(),
    }
}

impl Generator {
    pub(crate) const fn new(bench: Bench, seed: u64) -> Self {
        Self { bench, random: Random::new(seed), at: 0 }
    }

    /// The next input, kinds in turn.
    pub(crate) fn next(&mut self) -> Input {
        self.at += 1;
        self.of_kind(KINDS[(self.at - 1) % KINDS.len()])
    }

    pub(crate) fn batch(&mut self, count: usize) -> Vec<Input> {
        (0..count).map(|_| self.next()).collect()
    }

    pub(crate) fn of_kinds(&mut self, kinds: &[Kind], count: usize) -> Vec<Input> {
        (0..count).map(|i| self.of_kind(kinds[i % kinds.len()])).collect()
    }

    fn number(&mut self, format: &FormatSpec, low: i32, high: i32) -> u64 {
        let e = self.random.range(low, high);
        let fraction = fraction(&mut self.random, format.fraction_bits);
        normal(format, self.random.one_in(2), e, fraction)
    }

    fn bits(&mut self, format: &FormatSpec) -> u64 {
        self.random.next() & format.code_mask()
    }

    /// Every operand a normal number with its exponent in a range; c's range is its own.
    fn between(&mut self, (low, high): (i32, i32), (c_low, c_high): (i32, i32)) -> Input {
        let i = self.bench.interface;
        let mut input = self.bench.zeros();
        for k in 0..i.k {
            input.a[k] = self.number(&i.a, low, high);
            input.b[k] = self.number(&i.b, low, high);
        }
        input.c = self.number(&i.c, c_low, c_high);
        input
    }

    pub(crate) fn of_kind(&mut self, kind: Kind) -> Input {
        let i = self.bench.interface;
        let mut input = match kind {
            Kind::RandomBits => self.random_bits(),
            Kind::NearOne => self.between((-1, 1), (-4, 4)),
            Kind::Wide => self.between((-12, 12), (-24, 24)),
            Kind::Cancellation => self.cancellation(),
            Kind::Specials => self.specials(),
            Kind::Sparse => self.sparse(),
            Kind::Tiny => self.tiny(),
            Kind::Huge => {
                let high = top(&i.a).max(top(&i.b));
                self.between((high - 6, high), (top(&i.c) - 8, top(&i.c)))
            }
            Kind::VeryWide => self.between((-200, 200), (-200, 200)),
            Kind::Ties => self.ties(),
            Kind::FewTerms => self.few_terms(),
            Kind::Floor => self.floor(),
            Kind::Overflow => self.overflow(),
            Kind::Zeros => self.zeros(),
            Kind::Extremes => self.extremes(),
            Kind::Unnormalised => self.unnormalised(),
        };
        self.scales(&mut input, kind);
        input
    }

    /// Scales: mostly near one, sometimes wide, rarely special.
    pub(crate) fn scales(&mut self, input: &mut Input, kind: Kind) {
        let Some(rule) = self.bench.interface.scale else { return };
        let wide = matches!(kind, Kind::Wide | Kind::VeryWide | Kind::RandomBits | Kind::Tiny | Kind::Huge);
        for n in 0..input.scale_a.len() {
            for side in [false, true] {
                let code = match kind {
                    Kind::Tiny => self.number(&rule.format, -127, -60),
                    Kind::Floor if side => self.number(&rule.format, -90, -55),
                    Kind::Floor => self.number(&rule.format, -100, -65),
                    Kind::Huge => self.number(&rule.format, 50, 127),
                    Kind::Overflow => self.number(&rule.format, 58, 66),
                    Kind::Specials | Kind::RandomBits => self.bits(&rule.format),
                    _ if wide => self.number(&rule.format, -30, 30),
                    Kind::NearOne => self.number(&rule.format, -1, 1),
                    Kind::Zeros if self.random.one_in(3) => 0,
                    _ => self.number(&rule.format, -12, 12),
                };
                let scales = if side { &mut input.scale_b } else { &mut input.scale_a };
                scales[n] = code;
            }
        }
    }
}

pub(crate) const fn negative_zero(f: &FormatSpec) -> u64 {
    1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits)
}
