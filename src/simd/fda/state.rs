//! The states of a tile in f32, whatever their format.

use super::{GROUPS, MR, NR};

/// Rows of a tile.
pub(super) const MC: usize = GROUPS * MR;

/// The states of `GROUPS` row groups by NR columns, f16 states widened.
#[derive(Clone, Debug)]
#[repr(align(4096))]
pub(super) struct Tile(pub(super) [f32; MC * NR]);

/// An f16 code as f32: exact, NaN to NaN. All cases are computed and one is chosen, so that vectors can.
#[inline(always)]
fn f16_to_f32(x: u32) -> f32 {
    let (sign, mag) = (x << 16 & 1 << 31, x & 0x7FFF);
    let subnormal = (mag as i32 as f32 * (1.0 / 16_777_216.0)).to_bits();
    let normal = (mag << 13) + if mag < 31 << 10 { 112 << 23 } else { 224 << 23 };
    f32::from_bits(sign | if mag < 1 << 10 { subnormal } else { normal })
}

/// The inverse for values that are f16 values; any NaN gives `nan`.
#[inline(always)]
fn f32_to_f16(x: f32, nan: u32) -> u32 {
    let (sign, mag) = (x.to_bits() >> 16 & 1 << 15, x.to_bits() & 0x7FFF_FFFF);
    // As an integer's bits once it stands on top of 2^23.
    let subnormal = (f32::from_bits(mag) * 16_777_216.0 + 8_388_608.0).to_bits() & 0x3FF;
    let normal = (mag.min(143 << 23) >> 13).wrapping_sub(112 << 10);
    let finite = if mag < 113 << 23 { subnormal } else { normal };
    if mag > 0x7F80_0000 { nan } else { sign | finite }
}

/// The nearest f16, ties to even: without a branch, for loops over many.
#[inline(always)]
pub(super) fn round_f16(x: f32) -> f32 {
    let mag = x.abs();
    // Adding 1.5 * 2^23 units of the last kept place rounds to it. (Of large numbers, infinities and NaN this is not
    // used.)
    let e = ((mag.to_bits() >> 23) as i32 - 127).max(-14);
    let magic = f32::from_bits(((e - 10 + 23 + 127) as u32) << 23 | 1 << 22);
    let rounded = if mag >= 65520.0 { f32::INFINITY } else { (mag + magic) - magic };
    let rounded = if mag.is_nan() { mag } else { rounded };
    rounded.copysign(x)
}

/// A row of a tile; a whole one has a length that the compiler knows.
#[inline(always)]
fn copy_row<T: Copy, U>(from: &[T], to: &mut [U], f: impl Fn(T) -> U) {
    match (<&[T; NR]>::try_from(from), <&mut [U; NR]>::try_from(&mut *to)) {
        (Ok(from), Ok(to)) => *to = from.map(f),
        _ => to.iter_mut().zip(from).for_each(|(to, x)| *to = f(*x)),
    }
}

/// Takes the states of a part of a tile; 0 beyond its edges.
#[inline(always)]
pub(super) fn copy_in(state: &[u32], ld: usize, [rows, columns]: [usize; 2], f16: bool, tile: &mut Tile) {
    for (r, to) in tile.0.as_chunks_mut::<NR>().0.iter_mut().enumerate().take(rows) {
        let from = &state[r * ld..][..columns];
        let row = &mut to[..columns];
        match f16 {
            true => copy_row(from, row, f16_to_f32),
            false => copy_row(from, row, f32::from_bits),
        }
        to[columns..].fill(0.0);
    }
    let rest = rows.next_multiple_of(MR).min(MC);
    tile.0[rows * NR..rest * NR].fill(0.0);
}

/// Gives them back; `f16` is the code of NaN where states are f16.
#[inline(always)]
pub(super) fn copy_out(state: &mut [u32], ld: usize, [rows, columns]: [usize; 2], f16: Option<u32>, tile: &Tile) {
    for (r, from) in tile.0.as_chunks::<NR>().0.iter().enumerate().take(rows) {
        let (from, to) = (&from[..columns], &mut state[r * ld..][..columns]);
        match f16 {
            Some(nan) => copy_row(from, to, |x| f32_to_f16(x, nan)),
            None => copy_row(from, to, f32::to_bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{f16_to_f32, f32_to_f16};
    use crate::format::F16;

    #[test]
    fn f16_codes_are_widened_and_come_back() {
        for code in 0..1u32 << 16 {
            let (wide, exact) = (f16_to_f32(code), F16.to_f64(code.into()));
            assert_eq!(wide.is_nan(), exact.is_nan(), "{code:x}");
            let back = f32_to_f16(wide, 0x7FFF);
            if exact.is_nan() {
                assert_eq!(back, 0x7FFF, "{code:x}");
            } else {
                assert_eq!(f64::from(wide).to_bits(), exact.to_bits(), "{code:x}");
                assert_eq!(back, code);
            }
        }
    }
}
