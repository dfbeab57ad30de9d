//! Numbers to codes and back, for loops over many: of most formats without a branch.
//!
//! [`FormatSpec::encode_f64`] and [`FormatSpec::to_f64`] say what comes of them. By way of f64, which holds the numbers
//! of every format; so one rounding is all.

use super::epilogue::Wide;
use crate::format::{FormatSpec, Overflow, Specials};
use crate::round::Rounding;
use crate::special::NanRule;

/// f64's fraction bits.
const FRACTION: u32 = 52;
/// f64's bias.
const BIAS: i64 = 1023;
/// f64's code without its sign.
pub(super) const MAGNITUDE: i64 = i64::MAX;
/// f64's infinity.
pub(super) const INFINITY: i64 = 0x7FF << FRACTION;

/// `2^e`, of a normal number.
const fn power(e: i64) -> f64 {
    f64::from_bits(((e + BIAS) as u64) << FRACTION)
}

/// Numbers to codes of a format, to nearest even. Signs of zeros and infinities stay, where the format has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrowing {
    /// Fraction bits of f64 that the format lacks, at least one.
    cut: u32,
    /// What f64's exponent field is too large by, at the place of the format's.
    rebias: i64,
    /// The smallest normal number, as f64's code; below it, this added rounds to a whole number of the format's last
    /// places.
    normal: i64,
    rounder: f64,
    /// The largest finite magnitude.
    largest: i64,
    sign: i64,
    /// The sign of zeros and of what rounds to them.
    zero_sign: i64,
    /// The code of larger magnitudes, and their sign.
    over: i64,
    over_sign: i64,
    nan: i64,
    /// Bits below the fraction.
    ignored: u32,
}

impl Narrowing {
    /// For a format, if it is of the usual kind: signed, with subnormal numbers, of fewer fraction bits than f64. Where
    /// it has neither infinities nor NaN, too large numbers become its largest.
    pub(crate) fn new(to: &FormatSpec, overflow: Overflow, nan: u64) -> Option<Self> {
        let fraction = to.fraction_bits;
        if to.problem().is_some() || !to.signed || !to.subnormals || !(1..FRACTION).contains(&fraction) {
            return None;
        }
        let lowest = to.emin();
        let rounder = i64::from(lowest) - i64::from(fraction) + i64::from(FRACTION);
        if lowest < -1022 || rounder > BIAS {
            return None;
        }
        let cut = FRACTION - fraction;
        let sign = 1i64 << (to.exponent_bits + fraction);
        let largest = to.max_code(false);
        let special = if overflow == Overflow::Saturate { None } else { to.infinity_code(false) };
        let over_nan = if overflow == Overflow::Saturate { None } else { to.nan_code(NanRule::Quiet) };
        let signed_over = special.is_some() || over_nan.is_none();
        Some(Self {
            cut,
            rebias: (BIAS - i64::from(to.bias)) << fraction,
            normal: power(lowest.into()).to_bits() as i64,
            rounder: power(rounder),
            largest: (largest >> to.ignored_low_bits) as i64,
            sign,
            zero_sign: if to.has_negative_zero() { sign } else { 0 },
            over: special.or(over_nan).unwrap_or(largest) as i64,
            over_sign: if signed_over { sign << to.ignored_low_bits } else { 0 },
            nan: nan as i64,
            ignored: to.ignored_low_bits,
        })
    }

    /// The code of a number.
    #[inline(always)]
    pub(crate) fn code(self, x: f64) -> u64 {
        let bits = x.to_bits() as i64;
        // All ones where it is negative.
        let (magnitude, negative) = (bits & MAGNITUDE, bits >> 63);
        // Half of the last place, less one bit where the place is even: a carry moves into the exponent as it should.
        // (What a NaN makes here is not used.)
        let moved = |x: i64| (x as u64 >> self.cut) as i64;
        let odd = moved(magnitude) & 1;
        let normal = moved(magnitude.wrapping_add((1 << (self.cut - 1)) - 1 + odd)) - self.rebias;
        let small = f64::from_bits(magnitude as u64) + self.rounder;
        let small = (small.to_bits() as i64).wrapping_sub(self.rounder.to_bits() as i64);
        let rounded = if magnitude < self.normal { small } else { normal };
        let sign = if rounded == 0 { self.zero_sign } else { self.sign };
        let code = (rounded | negative & sign) << self.ignored;
        let code = if rounded > self.largest { self.over | negative & self.over_sign } else { code };
        (if magnitude > INFINITY { self.nan } else { code }) as u64
    }
}

/// What is added to a significand before bits are cut off, so that what stays is rounded.
#[derive(Clone, Copy, Debug)]
struct Addend {
    /// All ones where half of the last place that stays is added, and where it is added twice.
    half: i64,
    half_again: i64,
    /// 1 where a unit less is added, and where it is where that place is odd.
    less: i64,
    less_if_odd: i64,
}

impl Addend {
    const CUT: Self = Self { half: 0, half_again: 0, less: 0, less_if_odd: 0 };
    const UP: Self = Self { half: -1, half_again: -1, less: 1, less_if_odd: 0 };
    const TIES_UP: Self = Self { half: -1, half_again: 0, less: 0, less_if_odd: 0 };
    const TIES_CUT: Self = Self { half: -1, half_again: 0, less: 1, less_if_odd: 0 };
    const TIES_TO_ODD: Self = Self { half: -1, half_again: 0, less: 0, less_if_odd: 1 };

    /// For magnitudes of numbers of a sign. None to nearest even, which [`Narrowing`] does, nor stochastically.
    const fn of(rounding: Rounding, negative: bool) -> Option<Self> {
        Some(match (rounding, negative) {
            (Rounding::TowardZero, _) | (Rounding::Down, false) | (Rounding::Up, true) => Self::CUT,
            (Rounding::AwayFromZero, _) | (Rounding::Down, true) | (Rounding::Up, false) => Self::UP,
            (Rounding::NearestAway, _) | (Rounding::NearestUp, false) | (Rounding::NearestDown, true) => Self::TIES_UP,
            (Rounding::NearestZero, _) | (Rounding::NearestUp, true) | (Rounding::NearestDown, false) => Self::TIES_CUT,
            (Rounding::NearestOdd, _) => Self::TIES_TO_ODD,
            (Rounding::NearestEven | Rounding::Stochastic { .. }, _) => return None,
        })
    }

    /// For half of the last place that stays, and whether that place is odd, 0 or 1.
    #[inline(always)]
    const fn with(self, half: i64, odd: i64) -> i64 {
        (half & self.half) + (half & self.half_again) - self.less - (odd & self.less_if_odd)
    }
}

/// Numbers to codes of a format by roundings that are neither to nearest even nor stochastic: in more operations, with
/// shifts of each number's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded {
    to: Narrowing,
    fraction: u32,
    /// f64's exponent field of the smallest normal number.
    low: i64,
    /// Of positive and of negative numbers: what is added, and the code of finite ones that are too large.
    addends: [Addend; 2],
    over: [i64; 2],
}

impl Rounded {
    fn new(to: Narrowing, spec: &FormatSpec, rounding: Rounding) -> Option<Self> {
        let over = |negative: bool| {
            let infinite = to.over | if negative { to.over_sign } else { 0 };
            if rounding.stops_at_max(negative) { spec.max_code(negative) as i64 } else { infinite }
        };
        Some(Self {
            to,
            fraction: spec.fraction_bits,
            low: i64::from(spec.emin()) + BIAS,
            addends: [Addend::of(rounding, false)?, Addend::of(rounding, true)?],
            over: [over(false), over(true)],
        })
    }

    /// The code of a number.
    #[inline(always)]
    fn code(self, x: f64) -> u64 {
        let (to, bits) = (self.to, x.to_bits() as i64);
        let (magnitude, negative) = (bits & MAGNITUDE, bits >> 63);
        let field = magnitude >> FRACTION;
        let hidden = if field == 0 { 0 } else { 1 << FRACTION };
        let significand = magnitude & ((1 << FRACTION) - 1) | hidden;
        let field = field.max(1);
        // Of subnormal numbers more is cut off. From 54 places on, however many, a significand is less than half of the
        // last place that stays; 60 leave room for twice that half and a significand.
        let shift = i64::from(to.cut) + (self.low - field).max(0);
        let shift = shift.min(60) as u64;
        let half = ((1u64 << shift) >> 1) as i64;
        let odd = (significand as u64 >> shift) as i64 & 1;
        let addend = if negative == 0 { self.addends[0] } else { self.addends[1] };
        let kept = ((significand + addend.with(half, odd)) as u64 >> shift) as i64;
        // A carry moves into the exponent as it should.
        let rounded = ((field - self.low).max(0) << self.fraction) + kept;
        let sign = if rounded == 0 { to.zero_sign } else { to.sign };
        let code = (rounded | negative & sign) << to.ignored;
        let finite = if negative == 0 { self.over[0] } else { self.over[1] };
        let over = if magnitude < INFINITY { finite } else { to.over | negative & to.over_sign };
        let code = if rounded > to.largest { over } else { code };
        (if magnitude > INFINITY { to.nan } else { code }) as u64
    }
}

/// Numbers to codes of a format without a branch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoding {
    /// To nearest even.
    Nearest(Narrowing),
    /// By another rounding.
    Rounded(Rounded),
}

impl Encoding {
    /// As [`FormatSpec::encode_f64`], NaN to this code, if there is such a way.
    pub(crate) fn new(to: &FormatSpec, rounding: Rounding, overflow: Overflow, nan: u64) -> Option<Self> {
        let narrowing = Narrowing::new(to, overflow, nan)?;
        if rounding == Rounding::NearestEven {
            return Some(Self::Nearest(narrowing));
        }
        Rounded::new(narrowing, to, rounding).map(Self::Rounded)
    }

    /// The codes of numbers.
    #[inline(always)]
    pub(crate) fn all<T>(&self, from: &[f64], to: &mut [T], code: impl Fn(u64) -> T) {
        match *self {
            Self::Nearest(narrowing) => each(from, to, |x| code(narrowing.code(x))),
            Self::Rounded(rounded) => each(from, to, |x| code(rounded.code(x))),
        }
    }
}

/// Codes to the numbers that they stand for, NaN to some NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    ignored: u32,
    mask: i64,
    /// How far fields move up to where f64 has them.
    up: u32,
    /// How much larger f64's exponents are, at their place.
    rebias: i64,
    /// From here on, moved up: infinities and NaN.
    special: i64,
    /// How far the sign moves up.
    sign_up: u32,
}

impl Fields {
    /// For a format, if it is signed, with IEEE's special values and subnormal numbers, within the usual exponents of
    /// f64.
    fn new(from: &FormatSpec) -> Option<Self> {
        let usual = from.problem().is_none() && from.signed && from.specials == Specials::Ieee && from.subnormals;
        if !usual || from.exponent_bits > 10 || !(0..=BIAS).contains(&i64::from(from.bias)) {
            return None;
        }
        let (fraction, exponent) = (from.fraction_bits, from.exponent_bits);
        Some(Self {
            ignored: from.ignored_low_bits,
            mask: (1 << (exponent + fraction)) - 1,
            up: FRACTION - fraction,
            rebias: (BIAS - i64::from(from.bias)) << FRACTION,
            special: ((1 << exponent) - 1) << FRACTION,
            sign_up: 63 - exponent - fraction,
        })
    }

    /// The number of a code: by operations on normal numbers alone, which no processor is slow with and no mode
    /// changes.
    #[inline(always)]
    fn number(self, code: u64) -> f64 {
        let code = (code >> self.ignored) as i64;
        let moved = (code & self.mask) << self.up;
        let normal = moved + self.rebias;
        // The same fraction behind a one, without that one.
        let first = self.rebias + (1 << FRACTION);
        let small = f64::from_bits((moved | first) as u64) - f64::from_bits(first as u64);
        let number = if moved < 1 << FRACTION { small.to_bits() as i64 } else { normal };
        let number = if moved >= self.special { moved | INFINITY } else { number };
        f64::from_bits((number | code << self.sign_up & i64::MIN) as u64)
    }
}

/// `f` of each. (A loop: what `for_each` calls may be compiled apart, without the caller's instructions.)
#[inline(always)]
pub(crate) fn each<A: Copy, B>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    debug_assert_eq!(from.len(), to.len(), "one for each");
    for (to, &x) in to.iter_mut().zip(from) {
        *to = f(x);
    }
}

/// The same, of what is there already as well.
#[inline(always)]
pub(crate) fn fold_each<A: Copy, B: Copy>(from: &[A], to: &mut [B], f: impl Fn(B, A) -> B) {
    debug_assert_eq!(from.len(), to.len(), "one for each");
    for (to, &x) in to.iter_mut().zip(from) {
        *to = f(*to, x);
    }
}

/// How codes of a format become numbers: exactly, for a format within `W`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Widening {
    /// They are `W`'s own.
    Own,
    /// Without a branch.
    Fields(Fields),
    /// One by one.
    Any(FormatSpec),
}

impl Widening {
    pub(crate) fn new<W: Wide>(from: &FormatSpec) -> Self {
        if *from == W::SPEC {
            return Self::Own;
        }
        Fields::new(from).map_or(Self::Any(*from), Self::Fields)
    }

    /// The numbers of codes.
    #[inline(always)]
    pub(crate) fn all<W: Wide, C: Copy>(&self, codes: &[C], to: &mut [W], code: impl Fn(C) -> u64) {
        match *self {
            Self::Own => each(codes, to, |c| W::from_code(code(c))),
            Self::Fields(fields) => each(codes, to, |c| W::from_f64(fields.number(code(c)))),
            Self::Any(spec) => each(codes, to, |c| W::from_f64(spec.to_f64(code(c)))),
        }
    }
}

/// How numbers become D: to nearest even, beyond the largest number infinite where the format has that, NaN the
/// vendor's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Storing {
    /// They are `W`'s own, with this code of NaN.
    Own(u64),
    /// Without a branch.
    Narrow(Narrowing),
    /// One by one.
    Any(FormatSpec, u64),
}

impl Storing {
    /// In a format, with the vendor's NaN where it has one.
    pub(crate) fn new<W: Wide>(to: &FormatSpec, nan: NanRule) -> Self {
        let nan = to.nan_code(nan).unwrap_or_else(|| to.max_code(false));
        if *to == W::SPEC {
            return Self::Own(nan);
        }
        Narrowing::new(to, Overflow::Ieee, nan).map_or(Self::Any(*to, nan), Self::Narrow)
    }

    /// The codes of numbers.
    #[inline(always)]
    pub(crate) fn all<W: Wide>(&self, from: &[W], to: &mut [W::Lane]) {
        match *self {
            Self::Own(nan) => each(from, to, |x| W::lane(if x.is_nan() { nan } else { x.bits() })),
            Self::Narrow(narrowing) => each(from, to, |x| W::lane(narrowing.code(x.to_f64()))),
            Self::Any(spec, nan) => each(from, to, |x| {
                let x = x.to_f64();
                let code = spec.encode_f64(x, Rounding::NearestEven, Overflow::Ieee);
                let code = code.unwrap_or_else(|_| spec.max_code(x.is_sign_negative()));
                W::lane(if x.is_nan() { nan } else { code })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ALL_FORMATS, BF16, E4M3, E5M2, F16, F32, F64, TF32};
    use crate::random::Random;
    use crate::round::ROUNDINGS;

    /// Formats of one's own, of all kinds that are taken.
    fn own() -> impl Iterator<Item = FormatSpec> {
        [
            FormatSpec { name: "high", bias: 3, ..F16 },
            FormatSpec { name: "low", bias: 140, ..BF16 },
            FormatSpec { name: "e5m2fn", specials: Specials::NanAllOnes, ..E5M2 },
            FormatSpec { name: "all finite", specials: Specials::None, ..E4M3 },
            FormatSpec {
                name: "one bit",
                fraction_bits: 1,
                exponent_bits: 6,
                bias: 31,
                specials: Specials::Ieee,
                ..E4M3
            },
            FormatSpec { name: "f64's exponents", exponent_bits: 11, bias: 1023, ignored_low_bits: 12, ..F32 },
        ]
        .into_iter()
    }

    /// Each code, what is in the middle of two, and what is next to that; and beyond the largest.
    fn numbers(spec: &FormatSpec) -> Vec<f64> {
        let (mut numbers, mut random) = (
            vec![0.0, 5e-324, 1e-310, f64::MIN_POSITIVE, 1e300, f64::INFINITY, f64::NAN, f64::from_bits(u64::MAX)],
            Random::new(9),
        );
        let used = spec.signed as u32 + spec.exponent_bits + spec.fraction_bits;
        let codes: Vec<u64> = if used <= 16 {
            (0..1 << used).collect()
        } else {
            let edges = [spec.max_code(false) >> spec.ignored_low_bits, 1 << spec.fraction_bits, 0];
            let near = edges.into_iter().flat_map(|x| x.saturating_sub(40)..x + 40);
            near.chain((0..20_000).map(|_| random.next() & ((1 << used) - 1))).collect()
        };
        for code in codes {
            let x = spec.to_f64(code << spec.ignored_low_bits);
            let next = spec.to_f64((code + 1) << spec.ignored_low_bits);
            let middle = x / 2.0 + next / 2.0;
            numbers.extend([x, x.next_up(), x.next_down(), middle, middle.next_up(), middle.next_down()]);
        }
        numbers.iter().flat_map(|&x| [x, -x]).collect()
    }

    #[test]
    fn many_numbers_become_the_codes_that_one_does() {
        let (mut taken, mut left) = (0, 0);
        for spec in ALL_FORMATS.iter().copied().chain(own()) {
            let nan = spec.nan_code(NanRule::Quiet).unwrap_or(0);
            if Encoding::new(&spec, Rounding::NearestEven, Overflow::Ieee, nan).is_none() {
                left += 1;
                continue;
            }
            let numbers = numbers(&spec);
            for (overflow, &(rounding, _)) in
                [Overflow::Ieee, Overflow::Saturate].into_iter().flat_map(|o| ROUNDINGS.iter().map(move |r| (o, r)))
            {
                let encoding = Encoding::new(&spec, rounding, overflow, nan).expect("of all roundings or none");
                taken += 1;
                let mut codes = vec![0; numbers.len()];
                encoding.all(&numbers, &mut codes, |code| code);
                for (&x, code) in numbers.iter().zip(codes) {
                    let want = spec.encode_f64(x, rounding, overflow);
                    let want = want.unwrap_or(if x.is_nan() { 0 } else { spec.max_code(x < 0.0) });
                    assert_eq!(code, want, "{x:e} to {spec} {rounding} {overflow:?}");
                }
            }
        }
        assert!(taken > 200 && left > 0, "{taken} {left}");
        let stochastic = Rounding::Stochastic { bits: 3, random: 5 };
        assert!(Encoding::new(&F16, stochastic, Overflow::Ieee, 0).is_none());
    }

    #[test]
    fn many_codes_become_the_numbers_that_one_does() {
        let (mut taken, mut random) = (0, Random::new(4));
        for spec in ALL_FORMATS.iter().copied().chain(own()) {
            let Some(fields) = Fields::new(&spec) else { continue };
            taken += 1;
            let codes = 1u64 << spec.storage_bits.min(16);
            for code in (0..codes).map(|i| {
                if spec.storage_bits <= 16 { i } else { random.next() & spec.code_mask() | i << 20 & spec.code_mask() }
            }) {
                let (got, want) = (fields.number(code), spec.to_f64(code));
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{code:x} of {spec}: {got:e}, {want:e}"
                );
            }
        }
        assert!(taken > 5, "{taken}");
        assert!(
            matches!(Widening::new::<f32>(&F32), Widening::Own) && matches!(Widening::new::<f64>(&F64), Widening::Own)
        );
        assert!(matches!(Widening::new::<f32>(&TF32), Widening::Fields(_)));
        assert!(matches!(Storing::new::<f64>(&F32, NanRule::Quiet), Storing::Narrow(_)));
    }
}
