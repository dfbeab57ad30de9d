//! The states of a tile in f32, whatever their format.

use super::{GROUPS, MR, NR};

/// Rows of a tile.
pub(super) const MC: usize = GROUPS * MR;

/// The states of `GROUPS` row groups by NR columns, f16 states widened.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Tile(pub(super) [f32; MC * NR]);

/// An f16 code as f32: exact, NaN to NaN.
fn f16_to_f32(x: u32) -> f32 {
    let (sign, mag) = (x >> 15 & 1, x & 0x7FFF);
    let v = match mag >> 10 {
        31 => f32::from_bits(0x7F80_0000 | mag << 13),
        0 => mag as f32 / 16_777_216.0,
        _ => f32::from_bits((mag << 13) + (112 << 23)),
    };
    f32::from_bits(v.to_bits() | sign << 31)
}

/// The inverse for values that are f16 values; any NaN gives `nan`.
fn f32_to_f16(x: f32, nan: u32) -> u32 {
    let (sign, mag) = (x.to_bits() >> 31, x.to_bits() & 0x7FFF_FFFF);
    let h = match mag {
        m if m > 0x7F80_0000 => return nan,
        0x7F80_0000 => 0x7C00,
        m if m < 113 << 23 => (f32::from_bits(m) * 16_777_216.0) as u32,
        m => (m >> 13) - (112 << 10),
    };
    h | sign << 15
}

/// The nearest f16, ties to even.
pub(super) fn round_f16(x: f32) -> f32 {
    let mag = x.abs();
    if mag.is_nan() {
        return x;
    }
    if mag >= 65520.0 {
        return f32::INFINITY.copysign(x);
    }
    // Adding 1.5 * 2^23 units of the last kept place rounds to it.
    let e = ((mag.to_bits() >> 23) as i32 - 127).max(-14);
    let magic = f32::from_bits(((e - 10 + 23 + 127) as u32) << 23 | 1 << 22);
    ((mag + magic) - magic).copysign(x)
}

/// Takes the states of a part of a tile; 0 beyond its edges.
pub(super) fn copy_in(state: &[u32], ld: usize, [rows, columns]: [usize; 2], f16: bool, tile: &mut Tile) {
    for (r, to) in tile.0.as_chunks_mut::<NR>().0.iter_mut().enumerate().take(rows) {
        let from = &state[r * ld..][..columns];
        if f16 {
            to.iter_mut().zip(from).for_each(|(t, x)| *t = f16_to_f32(*x));
        } else {
            to.iter_mut().zip(from).for_each(|(t, x)| *t = f32::from_bits(*x));
        }
        to[columns..].fill(0.0);
    }
    let rest = rows.next_multiple_of(MR).min(MC);
    tile.0[rows * NR..rest * NR].fill(0.0);
}

/// Gives them back; `f16` is the code of NaN where states are f16.
pub(super) fn copy_out(state: &mut [u32], ld: usize, [rows, columns]: [usize; 2], f16: Option<u32>, tile: &Tile) {
    for (r, from) in tile.0.as_chunks::<NR>().0.iter().enumerate().take(rows) {
        let to = &mut state[r * ld..][..columns];
        if let Some(nan) = f16 {
            to.iter_mut().zip(from).for_each(|(t, x)| *t = f32_to_f16(*x, nan));
        } else {
            to.iter_mut().zip(from).for_each(|(t, x)| *t = x.to_bits());
        }
    }
}
