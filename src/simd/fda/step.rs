//! What a step's kernel is given, whatever its instruction set.

use super::fixed::Lines;
use super::round_down::Floors;
use super::{GROUPS, MR, NR};

/// A's and B's values are scaled by `2^A_SCALE` and `2^(B_SCALE + F)`: then the accumulator `1.5 * 2^(e_max + 127 -
/// 1023)`, whose bits are those of the f32 `1.5 * 2^e_max` moved into place, has `q` as its unit in the last place.
pub(super) const A_SCALE: i32 = -400;
pub(super) const B_SCALE: i32 = -948 - A_SCALE;

/// What enlarges B's f64 values, added to their codes: a relative 2^-47 to 2^-48.
pub(super) const ENLARGED: i64 = 1 << 5;
/// The same of f32 values, before they are narrowed: 2^-20 to 2^-21.
pub(super) const ENLARGED_F32: i64 = 1 << 32;

/// An f32's exponent field.
pub(super) const EXP32: i32 = 0x7F80_0000;

/// That of f16's lowest normal number.
pub(super) const LEAST_F16: u8 = 127 - 14;

/// One step's operands: pointers into the panels, laid out by `pack`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) a_val: *const f64,
    pub(super) a_val32: *const f32,
    pub(super) b_val32: *const f32,
    pub(super) a_exp: *const u32,
    pub(super) a_wide: *const u32,
    pub(super) a_sign: *const u32,
    /// Integers, where both panels have them.
    pub(super) a_fixed: Lines,
    pub(super) b_fixed: Lines,
    pub(super) b_val: *const f64,
    pub(super) b_exp: *const u8,
    pub(super) b_wide: *const i16,
    pub(super) b_sign: *const u32,
    /// f32 states, leading dimension `NR`.
    pub(super) c: *mut f32,
    /// Vectors of 16 columns that matter.
    pub(super) vectors: usize,
    /// f32 values from those of one vector's columns to the next one's: of the rows that meet them, none where all
    /// vectors have the same rows; and of B. For products aligned one by one.
    pub(super) apart: [usize; 2],
}

impl Step {
    /// The same step of the `g`-th row group from here, which follow one another in A's panels and in the states.
    pub(super) fn group(&self, g: usize, q: &Consts) -> Self {
        let (lines, n) = (g * MR, g * MR * q.block);
        let (wide, narrow) = if q.narrow || q.aligned { (0, n) } else { (n, 0) };
        Self {
            a_val: self.a_val.wrapping_add(wide),
            a_val32: self.a_val32.wrapping_add(narrow),
            a_exp: self.a_exp.wrapping_add(n),
            a_sign: self.a_sign.wrapping_add(lines),
            a_fixed: self.a_fixed.skip(lines, q.block, 4),
            c: self.c.wrapping_add(lines * NR),
            ..*self
        }
    }

    /// The `steps`-th from here of the same states, but for f32 accumulators.
    pub(super) fn skip(&self, steps: usize, q: &Consts) -> Self {
        let (rows, columns) = (steps * GROUPS * MR, steps * NR);
        if q.aligned {
            return Self {
                a_val32: self.a_val32.wrapping_add(rows * q.block),
                a_exp: self.a_exp.wrapping_add(rows * q.block),
                b_val32: self.b_val32.wrapping_add(columns * q.block),
                b_exp: self.b_exp.wrapping_add(columns * q.block),
                ..*self
            };
        }
        Self {
            a_val: self.a_val.wrapping_add(rows * q.block),
            a_exp: self.a_exp.wrapping_add(rows * q.block),
            a_sign: self.a_sign.wrapping_add(rows),
            b_val: self.b_val.wrapping_add(columns * q.block),
            b_exp: self.b_exp.wrapping_add(columns * q.block),
            b_sign: self.b_sign.wrapping_add(columns),
            ..*self
        }
    }

    /// The step from row `r` on.
    pub(super) const fn row(&self, r: usize, l: usize) -> Self {
        Self {
            a_val: self.a_val.wrapping_add(r * l),
            a_val32: self.a_val32.wrapping_add(r * l),
            a_exp: self.a_exp.wrapping_add(r * l),
            a_sign: self.a_sign.wrapping_add(r),
            c: self.c.wrapping_add(r * NR),
            ..*self
        }
    }
}

/// What does not change over a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Consts {
    pub(super) frac_bits: i32,
    pub(super) frac_float: f32,
    pub(super) block: usize,
    pub(super) narrow: bool,
    /// Whether products are aligned one by one: values are f32, and signs are for the wide kernel alone, if at all.
    pub(super) aligned: bool,
    /// Subtracted from a byte sum to give the f32 exponent field of 2^e.
    pub(super) bias_sub: u8,
    /// -1 keeps 23 fraction bits, 0xFFFF_FC00 13.
    pub(super) keep: i32,
    pub(super) e_zero: i32,
    /// One of `align`.
    pub(super) align: u8,
    /// Magnitudes of c, and of results, below which they are +0. Only the wide kernels meet any: 0, or f32's least
    /// normal number.
    pub(super) least_c: f32,
    pub(super) least_d: f32,
    /// All ones where a zero c counts with its format's lowest exponent: of the fast kernels' exponents `floor_field`
    /// says that.
    pub(super) zero_c: i32,
    /// Lowest f32 exponent field the fast kernel scales by: e_zero's, or one that no exact result can notice, as no
    /// product but zeros has a lower one. Where a zero c counts with f16's lowest exponent, so does every step.
    pub(super) floor_field: u8,
    /// Row groups from the step's first on, a bit each, in which some operand may lie below its exponent window.
    pub(super) tiny: u8,
    /// Whether steps are tried by integer dot products.
    pub(super) fixed: bool,
    /// Where results are rounded down.
    pub(super) floors: Floors,
}

impl Consts {
    /// The same for steps that begin `g` row groups on.
    pub(super) const fn group(&self, g: usize) -> Self {
        Self { tiny: self.tiny >> g, ..*self }
    }

    /// The exponent field from which on up a state begins: where all products are zero it then has the largest
    /// exponent. Such a step's field is `floor_field` or, zeros having byte 0 beside the other operand's, up to the
    /// largest product's exponent. What a step leaves may be smaller: that is a multiple of what all products are.
    pub(super) const fn lowest(&self) -> u32 {
        let floor = if self.narrow {
            83
        } else if self.aligned && self.frac_bits > 25 {
            46
        } else {
            31
        };
        let of_zeros = 127_u32.saturating_sub(self.bias_sub as u32);
        if of_zeros > floor { of_zeros } else { floor }
    }

    /// L, known to the compiler or not.
    #[inline(always)]
    pub(super) const fn length<const L: usize>(&self) -> usize {
        if L == 0 { self.block } else { L }
    }
}
