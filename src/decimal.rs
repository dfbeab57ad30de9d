//! Decimal text to exact numbers, so that a value typed by a person is rounded once only.

use crate::error::Error;
use crate::format::Value;
use crate::num::Fixed;
use core::str::FromStr;
use num_bigint::BigUint;

/// Decimal exponents beyond this are far outside every format.
const REACH: i64 = 5000;

/// Bits kept of a number; what lies below becomes its sticky bit.
const KEPT: u64 = 120;

impl FromStr for Value {
    type Err = Error;

    /// Reads `1.5`, `-3e-8`, `inf`, `nan` and the like, in any case, without rounding.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::parse("number", text, "a decimal like -1.5e-3, or inf, or nan");
        let lower = text.trim().to_ascii_lowercase();
        let (negative, rest) = match lower.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, lower.strip_prefix('+').unwrap_or(&lower)),
        };
        match rest {
            "inf" | "infinity" => return Ok(Self::Infinite { negative }),
            "nan" => return Ok(Self::Nan),
            _ => {}
        }
        let (mantissa, exponent) = match rest.split_once('e') {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent).ok_or_else(bad)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let scale = exponent.saturating_sub(fraction.len() as i64);
        Ok(Self::Finite(Fixed { negative, ..scaled(digits.trim_start_matches('0'), scale) }))
    }
}

/// A decimal exponent; saturates, as only its sign matters far out.
fn read_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse().unwrap_or(i64::from(i32::MAX)).min(i64::from(i32::MAX));
    Some(if negative { -magnitude } else { magnitude })
}

/// `digits * 10^scale`, of which bits below the leading 120 become the sticky bit.
fn scaled(digits: &str, scale: i64) -> Fixed {
    let leading = digits.len() as i64 + scale;
    let fixed = |magnitude, exponent, sticky| Fixed { negative: false, magnitude, exponent, sticky };
    let Some(number) = BigUint::parse_bytes(digits.as_bytes(), 10) else { return fixed(0, 0, false) };
    if leading.abs() > REACH {
        return if leading > 0 { fixed(1, 1 << 20, false) } else { fixed(0, -(1 << 20), true) };
    }
    let ten = BigUint::from(10u32);
    let power = ten.pow(u32::try_from(scale.unsigned_abs()).unwrap_or(u32::MAX));
    if scale >= 0 {
        return leading_bits(number * power, 0, false);
    }
    let up = (KEPT + power.bits()).saturating_sub(number.bits());
    let shifted = number << up;
    let (quotient, rest) = (&shifted / &power, &shifted % &power);
    leading_bits(quotient, -i32::try_from(up).unwrap_or(i32::MAX), rest != BigUint::ZERO)
}

fn leading_bits(number: BigUint, exponent: i32, sticky: bool) -> Fixed {
    let extra = number.bits().saturating_sub(KEPT);
    let cut = number.trailing_zeros().is_some_and(|zeros| zeros < extra);
    let magnitude = u128::try_from(number >> extra).unwrap_or(u128::MAX);
    Fixed {
        negative: false,
        magnitude,
        exponent: exponent.saturating_add(i32::try_from(extra).unwrap_or(i32::MAX)),
        sticky: sticky || cut,
    }
}
