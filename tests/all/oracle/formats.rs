//! Number formats of SPEC section 1: decoding, encoding, and IEEE operations as exact ones rounded once.

use super::numbers::{Exact, Round, round_at};

/// A decoded number: `(-1)^neg * s * 2^e`, `s >= 0`, never renormalised.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Nan,
    Inf(bool),
    Num { neg: bool, s: Exact, e: i64 },
}

impl Val {
    /// An exact value with exponent 0 (not an unpacked operand: only its value counts).
    pub(crate) fn of(x: &Exact) -> Val {
        Val::Num { neg: x.is_negative(), s: x.abs(), e: 0 }
    }

    pub(crate) fn zero(neg: bool) -> Val {
        Val::Num { neg, s: Exact::zero(), e: 0 }
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Val::Num { s, .. } if s.is_zero())
    }

    pub(crate) fn is_negative(&self) -> bool {
        matches!(self, Val::Inf(true) | Val::Num { neg: true, .. })
    }

    /// The signed value of a finite number (0 for the others, which callers have dealt with).
    pub(crate) fn value(&self) -> Exact {
        match self {
            Val::Num { neg: true, s, e } => -&s.times_pow2(*e),
            Val::Num { s, e, .. } => s.times_pow2(*e),
            _ => Exact::zero(),
        }
    }
}

/// One row of SPEC's table of formats. `max`, `inf` and `nan` are stored bit patterns; `m` counts stored fraction bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) m: u32,
    pub(crate) emin: i64,
    pub(crate) max: u64,
    pub(crate) inf: Option<u64>,
    pub(crate) nan: Option<u64>,
    pub(crate) signed: bool,
    pub(crate) neg_zero: bool,
    /// Low stored bits that read as 0 (tf32 only).
    pub(crate) ignored: u32,
}

#[rustfmt::skip]
const fn row(name: &'static str, width: u32, m: u32, emin: i64, max: u64, inf: Option<u64>, nan: Option<u64>) -> Format {
    Format { name, width, m, emin, max, inf, nan, signed: true, neg_zero: true, ignored: 0 }
}

#[rustfmt::skip]
pub(crate) const FORMATS: [Format; 14] = [
    row("f64", 64, 52, -1022, 0x7FEF_FFFF_FFFF_FFFF, Some(0x7FF0_0000_0000_0000), Some(0x7FF8_0000_0000_0000)),
    row("f32", 32, 23, -126, 0x7F7F_FFFF, Some(0x7F80_0000), Some(0x7FC0_0000)),
    Format { ignored: 13, ..row("tf32", 32, 23, -126, 0x7F7F_E000, Some(0x7F80_0000), Some(0x7FC0_0000)) },
    row("f16", 16, 10, -14, 0x7BFF, Some(0x7C00), Some(0x7E00)),
    row("bf16", 16, 7, -126, 0x7F7F, Some(0x7F80), Some(0x7FC0)),
    row("e5m2", 8, 2, -14, 0x7B, Some(0x7C), Some(0x7E)),
    row("e4m3", 8, 3, -6, 0x7E, None, Some(0x7F)),
    Format { neg_zero: false, ..row("e5m2fnuz", 8, 2, -15, 0x7F, None, Some(0x80)) },
    Format { neg_zero: false, ..row("e4m3fnuz", 8, 3, -7, 0x7F, None, Some(0x80)) },
    row("e3m2", 6, 2, -2, 0x1F, None, None),
    row("e2m3", 6, 3, 0, 0x1F, None, None),
    row("e2m1", 4, 1, 0, 0x7, None, None),
    Format { signed: false, neg_zero: false, ..row("ue8m0", 8, 0, -127, 0xFE, None, Some(0xFF)) },
    Format { signed: false, neg_zero: false, ..row("ue4m3", 8, 3, -6, 0x7E, None, Some(0x7F)) },
];

/// The format of that name; "xf32" is AMD's name of tf32.
pub(crate) fn format(name: &str) -> Result<Format, String> {
    let name = if name == "xf32" { "tf32" } else { name };
    let hit = FORMATS.iter().find(|f| f.name == name);
    hit.copied().ok_or_else(|| format!("no format {name}"))
}

/// What the bits of a format mean.
pub(crate) fn decode(name: &str, bits: u64) -> Result<Val, String> {
    Ok(unpack(&format(name)?, bits))
}

/// As [`decode`], for a format at hand.
pub(crate) fn unpack(f: &Format, bits: u64) -> Val {
    let sign = 1u64 << (f.width - 1);
    let bits = bits & (sign | (sign - 1)) & !((1 << f.ignored) - 1);
    if f.name == "ue8m0" {
        let e = i64::try_from(bits).expect("8 bits") - 127;
        return if bits == 0xFF { Val::Nan } else { Val::Num { neg: false, s: Exact::new(1, 0), e } };
    }
    let neg = f.signed && bits & sign != 0;
    let mag = bits & (sign - 1);
    match (f.inf, f.nan) {
        (Some(inf), _) if mag == inf => return Val::Inf(neg),
        (Some(inf), _) if mag > inf => return Val::Nan,
        (None, Some(nan)) if bits == nan || (nan != sign && mag == nan) => return Val::Nan,
        _ => {}
    }
    let field = i64::try_from(mag >> f.m).expect("exponent");
    let fraction = i64::try_from(mag & ((1 << f.m) - 1)).expect("fraction");
    let fraction = Exact::new(fraction, -i64::from(f.m));
    match field {
        0 => Val::Num { neg, s: fraction, e: f.emin },
        _ => Val::Num { neg, s: &Exact::new(1, 0) + &fraction, e: field + f.emin - 1 },
    }
}

/// What to do with a rounded magnitude above the format's maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Saturate,
    Ieee,
}

/// Rounds into a format, SPEC section 1. NaN gives the quiet NaN with the top fraction bit (or the format's only one).
pub(crate) fn encode(name: &str, x: &Val, mode: Round, over: Overflow) -> Result<u64, String> {
    let f = format(name)?;
    let sign = if f.signed && x.is_negative() { 1u64 << (f.width - 1) } else { 0 };
    match x {
        Val::Nan => return f.nan.ok_or_else(|| format!("{name} has no NaN")),
        _ if !f.signed && x.is_negative() && !x.is_zero() => {
            return Err(format!("{name} takes no negative value"));
        }
        Val::Inf(_) if over == Overflow::Saturate => return Ok(sign | f.max),
        Val::Inf(_) => return infinity(&f, sign),
        Val::Num { .. } => {}
    }
    let v = x.value();
    let q = if v.is_zero() { 0 } else { v.log2().max(f.emin) - i64::from(f.m - f.ignored) };
    let r = round_at(&v, q, mode);
    if r.is_zero() {
        return match name {
            "ue8m0" => Err("ue8m0 has no zero".into()),
            _ => Ok(if f.neg_zero { sign } else { 0 }),
        };
    }
    if (&unpack(&f, f.max).value() - &r.abs()).is_negative() {
        return overflow(&f, mode, over, sign);
    }
    Ok(sign | pack(&f, &r.abs()))
}

fn infinity(f: &Format, sign: u64) -> Result<u64, String> {
    match (f.inf, f.nan) {
        (Some(inf), _) => Ok(sign | inf),
        (None, Some(nan)) => Ok(nan),
        (None, None) => Err(format!("overflow: {} has no infinity and no NaN", f.name)),
    }
}

fn overflow(f: &Format, mode: Round, over: Overflow, sign: u64) -> Result<u64, String> {
    let inward = match mode {
        Round::Rz => true,
        Round::Rd => sign == 0,
        Round::Ru => sign != 0,
        _ => false,
    };
    if inward || over == Overflow::Saturate { Ok(sign | f.max) } else { infinity(f, sign) }
}

/// The bits of a positive value that the format holds exactly.
fn pack(f: &Format, v: &Exact) -> u64 {
    let e = v.log2().max(f.emin);
    let n = v.times_pow2(i64::from(f.m) - e).floor_int();
    let n = u64::try_from(n).expect("fits the significand");
    let first = if f.name == "ue8m0" { 0 } else { 1 };
    let field = u64::try_from(e - f.emin + first).expect("in range");
    let hidden = 1u64 << f.m;
    if n < hidden { n } else { (field << f.m) | (n - hidden) }
}

/// The bits of a value that the format holds exactly, NaN as the given pattern.
pub(crate) fn exact_bits(name: &str, x: &Val, nan: u64) -> u64 {
    match x {
        Val::Nan => nan,
        _ => encode(name, x, Round::Rne, Overflow::Ieee).expect("a representable value"),
    }
}

/// The IEEE result of rounding into a format, as a number again.
pub(crate) fn ieee_round(name: &str, x: &Val, mode: Round) -> Val {
    match x {
        Val::Nan => Val::Nan,
        _ => decode(name, encode(name, x, mode, Overflow::Ieee).expect("an IEEE format")).expect("the same format"),
    }
}

/// IEEE fma(a, b, c) rounded once into a format.
pub(crate) fn ieee_fma(name: &str, a: &Val, b: &Val, c: &Val, mode: Round) -> Val {
    let neg = a.is_negative() != b.is_negative();
    match (a, b, c) {
        (Val::Nan, ..) | (_, Val::Nan, _) | (.., Val::Nan) => Val::Nan,
        (Val::Inf(_), other, _) | (other, Val::Inf(_), _) if other.is_zero() => Val::Nan,
        (Val::Inf(_), _, Val::Inf(s)) | (_, Val::Inf(_), Val::Inf(s)) if *s != neg => Val::Nan,
        (Val::Inf(_), ..) | (_, Val::Inf(_), _) => Val::Inf(neg),
        (.., Val::Inf(s)) => Val::Inf(*s),
        _ => {
            let sum = &(&a.value() * &b.value()) + &c.value();
            // An exact zero keeps a common sign; opposite signs give +0, and -0 when rounding down.
            let down = mode == Round::Rd;
            let zero_neg = if neg == c.is_negative() { neg } else { down };
            let exact = if sum.is_zero() { Val::zero(zero_neg) } else { Val::of(&sum) };
            ieee_round(name, &exact, mode)
        }
    }
}

/// IEEE a + b.
pub(crate) fn ieee_add(name: &str, a: &Val, b: &Val) -> Val {
    ieee_fma(name, a, &Val::of(&Exact::new(1, 0)), b, Round::Rne)
}

/// IEEE a * b (adding -0 changes no product).
pub(crate) fn ieee_mul(name: &str, a: &Val, b: &Val) -> Val {
    ieee_fma(name, a, b, &Val::zero(true), Round::Rne)
}
