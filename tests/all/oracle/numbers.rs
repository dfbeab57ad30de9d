//! Exact numbers and rounding, written from SPEC sections 1 and 2 alone.
//!
//! Every value is `n * 2^e` with a big integer `n`. Nothing here is fast, and nothing uses host floating point.

use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

/// An exact dyadic rational, `n * 2^e`. Many pairs mean one value; compare with `==` on differences, not on fields.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    pub(crate) n: BigInt,
    pub(crate) e: i64,
}

impl Exact {
    pub(crate) fn zero() -> Self {
        Self::new(0, 0)
    }

    /// `n * 2^e`.
    pub(crate) fn new(n: i64, e: i64) -> Self {
        Exact { n: BigInt::from(n), e }
    }

    /// This value times `2^k`.
    pub(crate) fn times_pow2(&self, k: i64) -> Self {
        Exact { n: self.n.clone(), e: self.e + k }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.n.sign() == Sign::NoSign
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.n.sign() == Sign::Minus
    }

    pub(crate) fn abs(&self) -> Self {
        if self.is_negative() { -self } else { self.clone() }
    }

    /// floor(log2 |x|), for x != 0.
    pub(crate) fn log2(&self) -> i64 {
        i64::try_from(self.n.bits()).expect("small") - 1 + self.e
    }

    /// The largest integer not above this value.
    pub(crate) fn floor_int(&self) -> BigInt {
        match u64::try_from(self.e) {
            Ok(up) => &self.n << up,
            // Shifting a BigInt right rounds toward minus infinity: it is the floor of n / 2^k.
            Err(_) => &self.n >> self.e.unsigned_abs(),
        }
    }

    /// SPEC's floor(x, n): toward minus infinity to a multiple of 2^-n.
    pub(crate) fn floor(&self, n: i64) -> Self {
        Exact { n: self.times_pow2(n).floor_int(), e: -n }
    }

    /// SPEC's trunc(x, n): the magnitude rounded down to a multiple of 2^-n.
    pub(crate) fn trunc(&self, n: i64) -> Self {
        if self.is_negative() { -&(-self).floor(n) } else { self.floor(n) }
    }

    /// How many times 2^e this is, for an e not above its own.
    fn units_of(&self, e: i64) -> BigInt {
        &self.n << (self.e - e).unsigned_abs()
    }

    /// |self| against 2^k.
    pub(crate) fn cmp_pow2(&self, k: i64) -> Ordering {
        let d = &self.abs() - &Exact::new(1, k);
        d.n.sign().cmp(&Sign::NoSign)
    }
}

impl Add for &Exact {
    type Output = Exact;
    fn add(self, o: &Exact) -> Exact {
        let e = self.e.min(o.e);
        Exact { n: self.units_of(e) + o.units_of(e), e }
    }
}

impl Neg for &Exact {
    type Output = Exact;
    fn neg(self) -> Exact {
        Exact { n: -&self.n, e: self.e }
    }
}

impl Sub for &Exact {
    type Output = Exact;
    fn sub(self, o: &Exact) -> Exact {
        self + &-o
    }
}

impl Mul for &Exact {
    type Output = Exact;
    fn mul(self, o: &Exact) -> Exact {
        Exact { n: &self.n * &o.n, e: self.e + o.e }
    }
}

/// The ten named roundings, and the stochastic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Rne,
    Rna,
    Rnz,
    Rnu,
    Rnd,
    Rno,
    Rz,
    Ra,
    Rd,
    Ru,
    /// `bits` random bits of value `random`.
    Stochastic {
        bits: u32,
        random: u64,
    },
}

impl Round {
    pub(crate) const NAMED: [(&'static str, Round); 10] = [
        ("RNE", Round::Rne),
        ("RNA", Round::Rna),
        ("RNZ", Round::Rnz),
        ("RNU", Round::Rnu),
        ("RND", Round::Rnd),
        ("RNO", Round::Rno),
        ("RZ", Round::Rz),
        ("RA", Round::Ra),
        ("RD", Round::Rd),
        ("RU", Round::Ru),
    ];

    pub(crate) fn named(name: &str) -> Result<Round, String> {
        let hit = Self::NAMED.iter().find(|(n, _)| *n == name);
        hit.map(|x| x.1).ok_or_else(|| format!("no rounding {name}"))
    }

    /// Does the magnitude go up, given the integer below it and the part cut off (0 < frac < 1)?
    fn goes_up(self, negative: bool, below: &BigInt, frac: &Exact) -> bool {
        let odd = below.bit(0);
        let tie = |up: bool| match (frac - &Exact::new(1, -1)).n.sign() {
            Sign::Minus => false,
            Sign::NoSign => up,
            Sign::Plus => true,
        };
        match self {
            Round::Rne => tie(odd),
            Round::Rno => tie(!odd),
            Round::Rna => tie(true),
            Round::Rnz => tie(false),
            Round::Rnu => tie(!negative),
            Round::Rnd => tie(negative),
            Round::Rz => false,
            Round::Ra => true,
            Round::Rd => negative,
            Round::Ru => !negative,
            Round::Stochastic { bits, random } => {
                let kept = frac.times_pow2(i64::from(bits)).floor_int();
                kept + BigInt::from(random) >= BigInt::from(1) << bits
            }
        }
    }
}

/// `x` rounded to a multiple of `2^q`.
pub(crate) fn round_at(x: &Exact, q: i64, mode: Round) -> Exact {
    let m = x.abs().times_pow2(-q);
    let below = m.floor_int();
    let frac = &m - &Exact { n: below.clone(), e: 0 };
    let up = !frac.is_zero() && mode.goes_up(x.is_negative(), &below, &frac);
    let r = Exact { n: below + i32::from(up), e: q };
    if x.is_negative() { -&r } else { r }
}
