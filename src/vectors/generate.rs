//! The ten kinds of random input, for any unit.

use super::{Expected, Input, Vector};
use crate::accumulate::Dot;
use crate::error::Error;
use crate::format::{FormatSpec, Overflow, Value};
use crate::num::{Fixed, LongAccumulator, Num};
use crate::round::Rounding;
use crate::unit::Unit;
use core::fmt;
use core::str::FromStr;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A distribution of dot-adds.
///
/// *A number with its exponent in a range* has a uniform exponent (the range cut to what the
/// format has), a uniform sign and a uniform significand, of which every fourth is cut to its top
/// three fraction bits, so that exact sums happen. Bits a format ignores are noise half of the
/// time. Where c is said to *match*, it has, half of the time, the exponent of the exact sum of
/// products plus a uniform number from -30 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Every operand and scale a uniform code.
    RandomBits,
    /// Exponents from -2 to 2.
    NearOne,
    /// Exponents from -14 to 14, scales from -20 to 20; c matches.
    WideExponents,
    /// Near one, but every second product is a negated copy of an earlier one, one in four of
    /// those a last place off; every second c is minus the exact sum of products, rounded.
    Cancellation,
    /// Exponents from -8 to 8, but one to four operands are zeros, ones, smallest, largest,
    /// infinities or NaNs of several payloads; one scale in twelve is an extreme or NaN code.
    Specials,
    /// Two operands in three are zeros of either sign, the others' exponents from -30 to 30; c
    /// matches, or is as the operands.
    SparseWithZeros,
    /// Exponents from that of the smallest subnormal number to three above the smallest normal
    /// one; scales up to 70 above their smallest; c matches.
    Tiny,
    /// The largest four exponents; scales up to 70 below their largest; c matches.
    Huge,
    /// Exponents over all that the formats have, scales included; c matches.
    VeryWide,
    /// Two addends, c or products at any k: one leads with a random significand of at most D's
    /// fraction bits, one is half of its last place (one time in four: a power of two at another
    /// depth where units cut off). One time in two, other products stand between them or, one
    /// time in four, below, where they break the tie. Scales are one.
    Ties,
}

/// Every kind, in the order in which they take turns.
pub const KINDS: &[Kind] = &[
    Kind::RandomBits,
    Kind::NearOne,
    Kind::WideExponents,
    Kind::Cancellation,
    Kind::Specials,
    Kind::SparseWithZeros,
    Kind::Tiny,
    Kind::Huge,
    Kind::VeryWide,
    Kind::Ties,
];

impl Kind {
    /// Its name, as in `--kinds`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RandomBits => "random-bits",
            Self::NearOne => "near-one",
            Self::WideExponents => "wide-exponents",
            Self::Cancellation => "cancellation",
            Self::Specials => "specials",
            Self::SparseWithZeros => "sparse-with-zeros",
            Self::Tiny => "tiny",
            Self::Huge => "huge",
            Self::VeryWide => "very-wide",
            Self::Ties => "ties",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    /// Any case, blanks for hyphens, and beginnings such as `wide` that only one kind has are understood.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wanted = text.trim().to_ascii_lowercase().replace([' ', '_'], "-");
        let whole = KINDS.iter().copied().find(|kind| kind.name() == wanted);
        let mut begun = KINDS.iter().copied().filter(|kind| !wanted.is_empty() && kind.name().starts_with(&wanted));
        let only = begun.next().filter(|_| begun.next().is_none());
        whole.or(only).ok_or_else(|| {
            Error::parse(
                "kind of input",
                text,
                format!("one of {}", KINDS.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")),
            )
        })
    }
}

/// An endless source of vectors of one unit, with its d.
///
/// The sequence depends on the unit's name, the seed and the kinds alone: it is ChaCha8's with the
/// seed and an FNV-1a hash of the name as key.
///
/// ```
/// use gemmulate::{Unit, vectors::{Generator, Kind}};
/// let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32")?;
/// let ties: Vec<_> = Generator::new(&unit, 1).kinds(&[Kind::Ties]).take(3).collect();
/// assert_eq!(ties, Generator::new(&unit, 1).kinds(&[Kind::Ties]).take(3).collect::<Vec<_>>());
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    unit: Unit,
    kinds: Vec<Kind>,
    turn: usize,
    random: Random,
}

impl Generator {
    /// Vectors of all ten kinds in turn.
    pub fn new(unit: &Unit, seed: u64) -> Self {
        Self { unit: unit.clone(), kinds: KINDS.to_vec(), turn: 0, random: Random::new(seed, &unit.name) }
    }

    /// The same with these kinds in turn; an empty list stands for all.
    #[must_use]
    pub fn kinds(mut self, kinds: &[Kind]) -> Self {
        self.kinds = if kinds.is_empty() { KINDS.to_vec() } else { kinds.to_vec() };
        self
    }

    /// Makes the next vector in place, reusing its memory.
    pub fn next_into(&mut self, v: &mut Vector) {
        let kind = self.kinds[self.turn % self.kinds.len()];
        self.turn = (self.turn + 1) % self.kinds.len();
        let (unit, x) = (self.unit.clone(), &mut v.input);
        self.operands(&unit, kind, x);
        self.scales(&unit, kind, x);
        match kind {
            Kind::Cancellation => self.cancel(&unit, x),
            Kind::Specials => self.specials(&unit, x),
            Kind::Ties => self.ties(&unit, x),
            Kind::RandomBits | Kind::NearOne => {}
            _ if self.random.one_in(2) => self.match_c(&unit, x),
            _ => {}
        }
        v.d = v.eval(&unit).ok().map(|d| Expected::of(d, &unit));
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn operands(&mut self, unit: &Unit, kind: Kind, v: &mut Input) {
        let random = &mut self.random;
        v.a.clear();
        v.b.clear();
        for _ in 0..unit.shape.k {
            v.a.push(random.operand(&unit.a, kind));
            v.b.push(random.operand(&unit.b, kind));
        }
        v.c = random.operand(&unit.c, kind);
    }

    fn scales(&mut self, unit: &Unit, kind: Kind, v: &mut Input) {
        let random = &mut self.random;
        v.scale_a.clear();
        v.scale_b.clear();
        let Some(rule) = &unit.scale else { return };
        let alike = kind == Kind::Cancellation && random.one_in(2);
        for block in 0..unit.scales() {
            let [a, b] = [(); 2].map(|()| random.scale(&rule.format, kind));
            let repeat = alike && block > 0;
            v.scale_a.push(if repeat { v.scale_a[0] } else { a });
            v.scale_b.push(if repeat { v.scale_b[0] } else { b });
        }
    }

    /// Products in pairs that cancel, and a c that cancels the rest.
    fn cancel(&mut self, unit: &Unit, v: &mut Input) {
        for k in 1..v.a.len() {
            if !self.random.one_in(2) {
                continue;
            }
            let from = self.random.below(k as u64) as usize;
            (v.a[k], v.b[k]) = (v.a[from] ^ sign_bit(&unit.a), v.b[from]);
            if self.random.one_in(4) {
                v.b[k] ^= 1 << unit.b.ignored_low_bits;
            }
        }
        if self.random.one_in(2) {
            let sum = exact_sum(unit, v);
            let minus = Fixed { negative: !sum.negative, ..sum };
            v.c = encode(&unit.c, minus, Rounding::NearestEven);
        }
    }

    fn specials(&mut self, unit: &Unit, v: &mut Input) {
        let random = &mut self.random;
        for _ in 0..random.range(1, 4) {
            let k = random.below(v.a.len() as u64) as usize;
            match random.below(5) {
                0 | 1 => v.a[k] = random.special(&unit.a),
                2 | 3 => v.b[k] = random.special(&unit.b),
                _ => v.c = random.special(&unit.c),
            }
        }
    }

    /// A c of about the products' size, so that neither drowns the other.
    fn match_c(&mut self, unit: &Unit, v: &mut Input) {
        let sum = exact_sum(unit, v);
        if sum.magnitude != 0 {
            let e = sum.leading_exponent() + self.random.range(-30, 6);
            v.c = self.random.number(&unit.c, e, e);
        }
    }
}

impl Iterator for Generator {
    type Item = Vector;

    fn next(&mut self) -> Option<Vector> {
        let mut vector = Vector::default();
        self.next_into(&mut vector);
        Some(vector)
    }
}

/// c is left out; special operands count as zero.
fn exact_sum(unit: &Unit, v: &Input) -> Fixed {
    let all = |format: &FormatSpec, codes: &[u64]| -> Vec<Num> { codes.iter().map(|&x| format.decode(x)).collect() };
    let (a, b) = (all(&unit.a, &v.a), all(&unit.b, &v.b));
    let scales = |codes: &[u64]| -> Vec<Num> {
        unit.scale.map_or(Vec::new(), |s| (0..a.len()).map(|k| s.format.decode(codes[k / s.block])).collect())
    };
    let (scale_a, scale_b) = (scales(&v.scale_a), scales(&v.scale_b));
    let dot = Dot { a: &a, b: &b, c: unit.c.zero(), scale_a: &scale_a, scale_b: &scale_b, out: &unit.d };
    let mut sum = LongAccumulator::default();
    (0..a.len()).filter(|&k| a[k].is_finite() && b[k].is_finite()).for_each(|k| sum.add(&dot.product(k)));
    sum.fixed()
}

pub(super) const fn sign_bit(format: &FormatSpec) -> u64 {
    if !format.signed {
        return 0;
    }
    1 << (format.exponent_bits + format.fraction_bits + format.ignored_low_bits)
}

/// The code nearest to `x` that there is.
fn encode(format: &FormatSpec, x: Fixed, rounding: Rounding) -> u64 {
    format.encode(Value::Finite(x), rounding, Overflow::Saturate).unwrap_or(0)
}

/// Random numbers, and random numbers of a format.
#[derive(Clone, Debug)]
pub(super) struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64, name: &str) -> Self {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&hash.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform below `n`, up to a bias of n / 2^64.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n.max(1))) >> 64) as u64
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Uniform from `low` to `high`, both included.
    pub(super) fn range(&mut self, low: i32, high: i32) -> i32 {
        low + self.below(u64::from(low.abs_diff(high.max(low))) + 1) as i32
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// A number with its exponent in a range.
    fn number(&mut self, format: &FormatSpec, low: i32, high: i32) -> u64 {
        let (smallest, largest) = exponents(format);
        let e = self.range(low.clamp(smallest, largest), high.clamp(smallest, largest));
        let fraction = self.bits() >> 12;
        let fraction = if self.one_in(4) { fraction & (0b111 << 49) } else { fraction };
        self.exactly(format, e, fraction)
    }

    /// Plus or minus (1 + fraction / 2^52) * 2^e, cut to the format; bits it ignores are noise.
    pub(super) fn exactly(&mut self, format: &FormatSpec, e: i32, fraction: u64) -> u64 {
        let negative = format.signed && self.one_in(2);
        let x = Fixed { negative, magnitude: u128::from(1 << 52 | fraction), exponent: e - 52, sticky: false };
        let code = encode(format, x, Rounding::TowardZero);
        let noise = self.bits() & ((1 << format.ignored_low_bits) - 1);
        if self.one_in(2) { code | noise } else { code }
    }

    fn operand(&mut self, format: &FormatSpec, kind: Kind) -> u64 {
        let (_, high) = exponents(format);
        let low = format.emin() - format.fraction_bits as i32;
        match kind {
            Kind::RandomBits => self.bits() & format.code_mask(),
            Kind::NearOne | Kind::Cancellation | Kind::Ties => self.number(format, -2, 2),
            Kind::WideExponents => self.number(format, -14, 14),
            Kind::Specials => self.number(format, -8, 8),
            Kind::SparseWithZeros if !self.one_in(3) => self.zero(format),
            Kind::SparseWithZeros => self.number(format, -30, 30),
            Kind::Tiny => self.number(format, low, format.emin() + 3),
            Kind::Huge => self.number(format, high - 3, high),
            Kind::VeryWide => self.number(format, low, high),
        }
    }

    pub(super) fn zero(&mut self, format: &FormatSpec) -> u64 {
        let negative = format.has_negative_zero() && self.one_in(2);
        if negative { sign_bit(format) } else { 0 }
    }

    fn scale(&mut self, format: &FormatSpec, kind: Kind) -> u64 {
        let (low, high) = exponents(format);
        match kind {
            Kind::RandomBits => self.bits() & format.code_mask(),
            Kind::Specials if self.one_in(12) => self.pick(&[0, 1, 0x7e, 0x7f, 0x80, 0xfe, 0xff]) & format.code_mask(),
            Kind::WideExponents => self.number(format, -20, 20),
            Kind::Tiny => self.number(format, low, low + 70),
            Kind::Huge => self.number(format, high - 70, high),
            Kind::VeryWide => self.number(format, low, high),
            Kind::Ties => encode(format, Fixed::from_units(1, 0), Rounding::NearestEven),
            _ => self.number(format, -2, 2),
        }
    }

    /// Zero, the smallest and largest of each sort, one, infinities and NaNs, of either sign.
    fn special(&mut self, format: &FormatSpec) -> u64 {
        let step = 1u64 << format.ignored_low_bits;
        let hidden = step << format.fraction_bits;
        let one = encode(format, Fixed::from_units(1, 0), Rounding::NearestEven);
        let mut list = vec![0, step, hidden - step, hidden, format.max_code(false), one];
        if let Some(infinity) = format.infinity_code(false) {
            // The codes after it are NaNs, except where ignored bits make them infinities.
            list.extend([infinity, infinity, infinity + 1, infinity + step, infinity | (hidden - step)]);
        }
        list.extend(format.nan_code(crate::special::NanRule::Quiet));
        let sign = if self.one_in(2) { sign_bit(format) } else { 0 };
        self.pick(&list) ^ sign
    }
}

/// The exponents of a format's smallest and largest numbers.
pub(super) fn exponents(format: &FormatSpec) -> (i32, i32) {
    let below = if format.subnormals { format.fraction_bits as i32 } else { 0 };
    (format.emin() - below, format.max().exponent)
}
