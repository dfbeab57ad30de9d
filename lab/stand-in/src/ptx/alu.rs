//! Instructions that work on one lane's registers alone (PTX ISA 9.7.1 to 9.7.9): what an opcode
//! computes from its source operands. Values are bits, zero-extended to 64.

use gemmulate::format::{Overflow, format_named};
use gemmulate::round::Rounding;

/// From up to four sources to the destination.
pub(crate) type Function = Box<dyn Fn([u64; 4]) -> u64 + Send>;

/// The last component of an opcode as a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Type {
    pub bits: u32,
    pub kind: u8,
}

impl Type {
    /// `s32`, `b64`, `f16`, `pred` ...
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "bf16" {
            return Some(Self { bits: 16, kind: b'f' });
        }
        if text == "pred" {
            return Some(Self { bits: 1, kind: b'b' });
        }
        let kind = *text.as_bytes().first()?;
        let bits = text.get(1..)?.parse().ok()?;
        (b"bsuf".contains(&kind) && [8, 16, 32, 64].contains(&bits)).then_some(Self { bits, kind })
    }

    pub(crate) fn bytes(self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The integer that the bits stand for.
    fn integer(self, value: u64) -> i128 {
        let value = value & self.mask();
        if self.kind == b's' && value >> (self.bits - 1) != 0 {
            i128::from(value) - (1 << self.bits)
        } else {
            i128::from(value)
        }
    }
}

/// What an opcode computes; `None` where this file does not know it.
pub(crate) fn function(opcode: &str) -> Option<Function> {
    let parts: Vec<&str> = opcode.split('.').collect();
    let last = Type::parse(parts.last()?)?;
    match parts[0] {
        "setp" | "cvt" | "cvta" => comparison_or_conversion(&parts, last),
        _ if last.kind == b'f' && parts[0] != "mov" && parts[0] != "selp" => float(&parts, last),
        _ => integer(&parts, last),
    }
}

fn integer(parts: &[&str], of: Type) -> Option<Function> {
    let cut = move |value: i128| value as u64 & of.mask();
    let int = move |value| of.integer(value);
    Some(match *parts {
        ["mov", _] => Box::new(move |x| x[0] & of.mask()),
        ["add", _] => Box::new(move |x| cut(int(x[0]) + int(x[1]))),
        ["sub", _] => Box::new(move |x| cut(int(x[0]) - int(x[1]))),
        ["mul", "lo", _] => Box::new(move |x| cut(int(x[0]).wrapping_mul(int(x[1])))),
        // Twice the width: of 64-bit operands there is none.
        ["mul", "wide", _] if of.bits <= 32 => {
            let wide = u64::MAX >> (64 - 2 * of.bits);
            Box::new(move |x| (int(x[0]) * int(x[1])) as u64 & wide)
        }
        ["mad", "lo", _] => Box::new(move |x| cut(int(x[0]).wrapping_mul(int(x[1])).wrapping_add(int(x[2])))),
        ["div", _] => Box::new(move |x| if int(x[1]) == 0 { of.mask() } else { cut(int(x[0]) / int(x[1])) }),
        ["rem", _] => Box::new(move |x| if int(x[1]) == 0 { of.mask() } else { cut(int(x[0]) % int(x[1])) }),
        ["min", _] => Box::new(move |x| cut(int(x[0]).min(int(x[1])))),
        ["max", _] => Box::new(move |x| cut(int(x[0]).max(int(x[1])))),
        ["neg", _] => Box::new(move |x| cut(-int(x[0]))),
        ["and", _] => Box::new(move |x| x[0] & x[1] & of.mask()),
        ["or", _] => Box::new(move |x| (x[0] | x[1]) & of.mask()),
        ["xor", _] => Box::new(move |x| (x[0] ^ x[1]) & of.mask()),
        ["not", _] => Box::new(move |x| !x[0] & of.mask()),
        // Shifts clamp their amount (9.7.8.7, 9.7.8.8); `shr.s` fills with the sign.
        ["shl", _] => Box::new(move |x| if shift(x[1]) >= of.bits { 0 } else { (x[0] << shift(x[1])) & of.mask() }),
        ["shr", _] => Box::new(move |x| cut(int(x[0]) >> shift(x[1]).min(of.bits))),
        ["selp", _] => Box::new(move |x| if x[2] & 1 != 0 { x[0] & of.mask() } else { x[1] & of.mask() }),
        ["bfi", _] => Box::new(move |x| insert_field(x, of)),
        _ => return None,
    })
}

/// A shift's amount is an unsigned 32-bit value.
fn shift(amount: u64) -> u32 {
    amount as u32
}

/// `bfi d, a, b, position, length` (9.7.1.21): the low bits of `a` into `b`.
fn insert_field([a, b, position, length]: [u64; 4], of: Type) -> u64 {
    let (position, length) = ((position & 0xff) as u32, (length & 0xff) as u32);
    if position >= of.bits || length == 0 {
        return b & of.mask();
    }
    let field = (u64::MAX >> (64 - length.min(64)) << position) & of.mask();
    (b & !field) | (a << position & field)
}

/// Arithmetic outside the matrix instructions, rounded to nearest even: the epilogues of `gemm.cu`.
fn float(parts: &[&str], of: Type) -> Option<Function> {
    let f = |x: u64| f32::from_bits(x as u32);
    let bits = |x: f32| u64::from(x.to_bits());
    if of.bits != 32 {
        return None;
    }
    Some(match *parts {
        // Without a modifier: to nearest even as well (9.7.3.3). ptxas may fuse such an `add` with a `mul` that has no
        // modifier either; the products here have one.
        ["add", "rn", _] | ["add", _] => Box::new(move |x| bits(f(x[0]) + f(x[1]))),
        ["mul", "rn", _] => Box::new(move |x| bits(f(x[0]) * f(x[1]))),
        ["fma", "rn", _] => Box::new(move |x| bits(f(x[0]).mul_add(f(x[1]), f(x[2])))),
        _ => return None,
    })
}

fn comparison_or_conversion(parts: &[&str], of: Type) -> Option<Function> {
    match *parts {
        ["cvt", "f32", from @ ("f16" | "bf16")] => {
            let from = format_named(from)?;
            Some(Box::new(move |x| u64::from((from.to_f64(x[0]) as f32).to_bits())))
        }
        // An f32 is exact in f64, so this rounds once. NaN becomes 0x7fff (9.7.9.22).
        ["cvt", "rn", to @ ("f16" | "bf16"), "f32"] => {
            let to = format_named(to)?;
            Some(Box::new(move |x| {
                let value = f64::from(f32::from_bits(x[0] as u32));
                let code = to.encode_f64(value, Rounding::NearestEven, Overflow::Ieee);
                code.ok().filter(|_| !value.is_nan()).unwrap_or(0x7fff)
            }))
        }
        ["cvt", to, _] => {
            let to = Type::parse(to).filter(|to| to.kind != b'f' && of.kind != b'f')?;
            Some(Box::new(move |x| of.integer(x[0]) as u64 & to.mask()))
        }
        // Global addresses are host addresses, the same in the generic space.
        ["cvta", "to", "global", _] | ["cvta", "global", _] => Some(Box::new(|x| x[0])),
        ["setp", comparison, _] => Some(compare(comparison, of)?),
        _ => None,
    }
}

fn compare(comparison: &str, of: Type) -> Option<Function> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let holds = move |order: Option<std::cmp::Ordering>| -> bool { order == Some(Equal) };
    let order = move |x: [u64; 4]| match (of.kind, of.bits) {
        (b'f', 32) => f32::from_bits(x[0] as u32).partial_cmp(&f32::from_bits(x[1] as u32)),
        (b'f', _) => f64::from_bits(x[0]).partial_cmp(&f64::from_bits(x[1])),
        _ => Some(of.integer(x[0]).cmp(&of.integer(x[1]))),
    };
    Some(match comparison {
        "eq" => Box::new(move |x| u64::from(holds(order(x)))),
        // Ordered: false if either is NaN (9.7.3.2).
        "ne" => Box::new(move |x| u64::from(matches!(order(x), Some(Less | Greater)))),
        "neu" => Box::new(move |x| u64::from(!holds(order(x)))),
        "lt" => Box::new(move |x| u64::from(order(x) == Some(Less))),
        "le" => Box::new(move |x| u64::from(matches!(order(x), Some(Less | Equal)))),
        "gt" => Box::new(move |x| u64::from(order(x) == Some(Greater))),
        "ge" => Box::new(move |x| u64::from(matches!(order(x), Some(Greater | Equal)))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(opcode: &str, x: [u64; 4]) -> u64 {
        function(opcode).unwrap_or_else(|| panic!("{opcode}"))(x)
    }

    #[test]
    fn integers_wrap_and_keep_their_sign() {
        assert_eq!(run("add.s32", [u64::from(u32::MAX), 1, 0, 0]), 0);
        assert_eq!(run("mul.wide.s32", [u64::from(u32::MAX), 3, 0, 0]), 3u64.wrapping_neg());
        assert_eq!(run("mul.wide.u32", [u64::from(u32::MAX), 2, 0, 0]), 0x1_ffff_fffe);
        assert_eq!(run("shr.s32", [0x8000_0000, 31, 0, 0]), u64::from(u32::MAX));
        assert_eq!(run("shr.u32", [0x8000_0000, 31, 0, 0]), 1);
        assert_eq!(run("shl.b32", [1, 32, 0, 0]), 0);
        assert_eq!(run("rem.s32", [7, 4, 0, 0]), 3);
        assert_eq!(run("cvt.s64.s32", [0xffff_fffe, 0, 0, 0]), 2u64.wrapping_neg());
        assert_eq!(run("cvt.u64.u32", [0xffff_fffe, 0, 0, 0]), 0xffff_fffe);
        assert_eq!(run("setp.lt.s32", [u64::from(u32::MAX), 0, 0, 0]), 1);
        assert_eq!(run("setp.lt.u32", [u64::from(u32::MAX), 0, 0, 0]), 0);
        assert_eq!(run("bfi.b32", [0xabcd, 0x1111_2222, 16, 16]), 0xabcd_2222);
        assert_eq!(run("not.pred", [1, 0, 0, 0]), 0);
    }

    #[test]
    fn halves_convert_with_one_rounding() {
        let f32_bits = |x: f32| u64::from(x.to_bits());
        assert_eq!(run("cvt.rn.f16.f32", [f32_bits(2049.0), 0, 0, 0]), 0x6800);
        assert_eq!(run("cvt.rn.f16.f32", [f32_bits(65520.0), 0, 0, 0]), 0x7c00);
        assert_eq!(run("cvt.rn.bf16.f32", [0x3f80_8000, 0, 0, 0]), 0x3f80);
        assert_eq!(run("cvt.rn.bf16.f32", [0x7fc0_0000, 0, 0, 0]), 0x7fff);
        assert_eq!(run("cvt.f32.bf16", [0xc040, 0, 0, 0]), f32_bits(-3.0));
        assert_eq!(run("setp.neu.f32", [0x7fc0_0000, 0, 0, 0]), 1);
    }

    #[test]
    fn unknown_opcodes_are_refused() {
        for opcode in ["sin.approx.f32", "add.rz.f32", "cvt.rz.f16.f32", "mul.hi.u32", "cvt.rn.f32.s32", "brev.b32"] {
            assert!(function(opcode).is_none(), "{opcode}");
        }
    }
}
