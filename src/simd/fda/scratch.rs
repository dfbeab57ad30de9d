//! What the wide kernel needs of a step beyond the fast kernel's panels, made when needed.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::micro::Micro;
use super::step::{A_SCALE, B_SCALE, ENLARGED};
use super::{Fda, MR, NR, Packed, align};
use crate::gemm::kernel::Panel;
use crate::simd::decode::{LOW, Reader, Seen};
use crate::simd::lanes::power;
use core::arch::x86_64::*;

/// Ternary logic: `(a & b) | c`.
const AND_OR: i32 = 0xEA;

/// Sentinel exponent of zero for the wide kernel.
const NO_EXPONENT: i16 = LOW;

/// In this order, so that all arrays are aligned to 64 bytes. The wide kernel's exponents, made when needed: A's for
/// one step and row group, B's for one step and column group.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Scratch {
    pub(super) b: [i16; 32 * NR],
    pub(super) a: [u32; 32 * MR],
    /// The f64 panels of the step, where the kernel packs f32.
    pub(super) b_values: [f64; 32 * NR],
    pub(super) a_values: [f64; 32 * MR],
    /// The step that `b` is of.
    pub(super) key: Option<usize>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { b: [0; 32 * NR], a: [0; 32 * MR], b_values: [0.0; 32 * NR], a_values: [0.0; 32 * MR], key: None }
    }
}

/// The exponent of a packed value: never below the format's lowest, `NO_EXPONENT` for the infinitesimals of zero.
#[inline(always)]
const fn exponent(v: f64, scale: i32, emin: i32) -> i16 {
    let e = (v.to_bits() >> 52 & 0x7FF) as i32 - 1023;
    let own = e - scale;
    if e < -900 {
        NO_EXPONENT
    } else if own < emin {
        emin as i16
    } else {
        own as i16
    }
}

/// `exponent` in the low halves of the lanes, which those of `low` bound.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn bounded(v: __m512d, scale: i32, low: __m512i) -> __m512i {
    let field = _mm512_and_si512(_mm512_srli_epi64::<52>(_mm512_castpd_si512(v)), _mm512_set1_epi64(0x7FF));
    let own = _mm512_sub_epi64(field, _mm512_set1_epi64(i64::from(1023 + scale)));
    let none = _mm512_cmplt_epi64_mask(field, _mm512_set1_epi64(1023 - 900));
    _mm512_mask_mov_epi64(_mm512_max_epi32(own, low), none, _mm512_set1_epi64(NO_EXPONENT.into()))
}

/// The exponents of 16 values, even columns first, bounded by each column's `low`, in columns' order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn exponents_avx512(v: &[f64; 16], scale: i32, low: &[i32; 16], to: &mut [i16; 16]) {
    // SAFETY: 16 values, bounds and exponents.
    unsafe {
        // The even columns' bounds stand in the low halves, the odd ones' above them.
        let low = _mm512_loadu_si512(low.as_ptr().cast());
        let even = bounded(_mm512_loadu_pd(v.as_ptr()), scale, low);
        let odd = bounded(_mm512_loadu_pd(v[8..].as_ptr()), scale, _mm512_srli_epi64::<32>(low));
        let both = _mm512_ternarylogic_epi64::<AND_OR>(even, _mm512_set1_epi64(0xFFFF), _mm512_slli_epi64::<16>(odd));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(both));
    }
}

/// The same in plain code.
#[inline(always)]
pub(super) fn exponents(v: &[f64; 16], scale: i32, low: &[i32; 16], to: &mut [i16; 16]) {
    for j in 0..8 {
        to[2 * j] = exponent(v[j], scale, low[2 * j]);
        to[2 * j + 1] = exponent(v[8 + j], scale, low[2 * j + 1]);
    }
}

/// A value of an f32 panel as the f64 panel has it.
#[inline(always)]
fn widened(v: f32, scale: i32) -> f64 {
    let scale = if v.abs() < 1e-28 { -900 } else { scale };
    f64::from(v) * f64::from_bits(((1023 + scale) as u64) << 52)
}

/// A value read from its code as f64 panels have it, enlarged or not, and `zero` for what is special, too.
#[inline(always)]
fn from_code(v: f32, scale: f64, enlarge: u64, zero: f64) -> f64 {
    let magnitude = f64::from(v.abs()) * scale;
    let nothing = (v == 0.0) | !v.is_finite();
    let magnitude = if nothing { zero } else { magnitude };
    f64::from_bits(magnitude.to_bits() | enlarge | u64::from(v.to_bits() >> 31) << 63)
}

/// An exponent, and that of its block's scale.
#[inline(always)]
const fn and_shift(e: i16, shift: i32) -> i16 {
    if e == NO_EXPONENT { e } else { e + shift as i16 }
}

/// The exponent of a line's block scale at a step, 0 without. (Of a NaN any will do that can be added: its results are
/// NaN by rule (S), whatever the sums are.)
#[inline(always)]
fn shift(packed: &Packed, line: usize, lines: usize, s: usize) -> i32 {
    if packed.shifts.is_empty() || line >= lines { 0 } else { packed.shifts[line * packed.steps + s].max(-200) }
}

impl Scratch {
    /// Fills in step `s` of a row group and a column group.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        micro: impl Micro,
        fda: &Fda,
        panels: [&Panel; 2],
        [group, column_group]: [usize; 2],
        s: usize,
    ) {
        if fda.aligned {
            return self.fill_from_codes(fda, panels, [group, column_group], s);
        }
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let l = fda.block;
        let (at, n) = (a.at_a(group, s) * MR * l, MR * l);
        let (a_scale, b_scale) = (A_SCALE, B_SCALE + fda.frac_bits as i32);
        let scaled = if fda.unit.scale.is_some() { 127 } else { 0 };
        let (a_low, b_low) = (fda.a.emin + scaled, fda.b.emin + scaled);
        if fda.narrow {
            for (w, v) in self.a_values.iter_mut().zip(&a.values.view::<f32>()[at..at + n]) {
                *w = widened(*v, a_scale - fda.scales().0);
            }
        }
        let values = if fda.narrow { &self.a_values[..n] } else { &a.values.view::<f64>()[at..at + n] };
        let row = group * MR;
        let low: [i32; MR] = core::array::from_fn(|r| a_low + shift(a, row + r, panels[0].lines, s));
        for ((e, v), low) in self.a.chunks_mut(l).zip(values.chunks(l)).zip(low) {
            for (e, v) in e.iter_mut().zip(v) {
                *e = u32::from(exponent(*v, a_scale, low) as u16) * 0x1_0001;
            }
        }
        if self.key == Some(s) {
            return;
        }
        self.key = Some(s);
        let at = b.at_b(column_group, s);
        if fda.narrow {
            let from = b.values.view::<f32>()[at * NR * l..][..NR * l].as_chunks::<16>().0;
            for (w, v) in self.b_values.as_chunks_mut::<16>().0.iter_mut().zip(from) {
                for j in 0..8 {
                    w[j] = widened(v[2 * j], b_scale - fda.scales().1);
                    w[8 + j] = widened(v[2 * j + 1], b_scale - fda.scales().1);
                }
            }
        }
        let values =
            if fda.narrow { &self.b_values[..NR * l] } else { &b.values.view::<f64>()[at * NR * l..][..NR * l] };
        let column = column_group * NR;
        let low: [i32; NR] = core::array::from_fn(|j| b_low + shift(b, column + j, panels[1].lines, s));
        for (n, v) in values.as_chunks::<16>().0.iter().enumerate() {
            let (t, i) = (n / l, n % l);
            let to = &mut self.b[i * NR + t * 16..][..16];
            micro.exponents(v, b_scale, &low.as_chunks().0[t], to.try_into().expect("16 lanes"));
        }
    }

    /// `fill`, for panels that lack what lies below the window.
    #[inline(always)]
    fn fill_from_codes(&mut self, fda: &Fda, panels: [&Panel; 2], [group, column_group]: [usize; 2], s: usize) {
        let l = fda.block;
        let [a_codes, b_codes] = fda.anew();
        // Only where products are truncated do these leave nothing behind.
        let (enlarge, zero) = if fda.align == align::TOWARD_ZERO { (ENLARGED as u64, power(-1000)) } else { (0, 0.0) };
        let (panel, packed) = (panels[0], panels[0].packed::<Packed>());
        for r in 0..MR {
            let row = group * MR + r;
            let line = panel.codes.narrow().get(row * panel.k..).and_then(|line| line.get(..panel.k));
            let (mut codes, mut values, mut exponents) = ([0; 32], [0.0; 32], [0; 32]);
            if let Some(line) = line {
                codes.iter_mut().zip(fda.positions(s)).for_each(|(code, p)| *code = line[p]);
            }
            let mut seen = Seen::NOTHING;
            a_codes.read(&codes[..l], &mut values[..l], &mut exponents[..l], &mut seen);
            let shift = shift(packed, row, panel.lines, s);
            let scale = power(shift + A_SCALE);
            for i in 0..l {
                self.a_values[r * l + i] = from_code(values[i], scale, 0, zero);
                self.a[r * l + i] = u32::from(and_shift(exponents[i], shift) as u16) * 0x1_0001;
            }
        }
        if self.key == Some(s) {
            return;
        }
        self.key = Some(s);
        let (panel, packed) = (panels[1], panels[1].packed::<Packed>());
        for t in 0..NR / 16 {
            let first = (column_group * NR + t * 16).min(panel.lines);
            let count = (panel.lines - first).min(16);
            let (mut shifts, mut scales) = ([0; 16], [power(B_SCALE + fda.frac_bits as i32); 16]);
            if !packed.shifts.is_empty() {
                for j in 0..count {
                    shifts[j] = shift(packed, first + j, panel.lines, s);
                    scales[j] = power(shifts[j] + B_SCALE + fda.frac_bits as i32);
                }
            }
            for (i, p) in fda.positions(s).enumerate() {
                let line = &panel.codes.narrow()[p * panel.lines + first..][..count];
                let codes = line.try_into().unwrap_or_else(|_| {
                    let mut codes = [0; 16];
                    codes[..count].copy_from_slice(line);
                    codes
                });
                let (values, exponents, _) = match b_codes.together() {
                    Some(fields) => fields.lanes(&codes),
                    None => b_codes.lanes(&codes),
                };
                let to = &mut self.b_values[(t * l + i) * 16..][..16];
                // Even columns of a vector first.
                for j in 0..8 {
                    to[j] = from_code(values[2 * j], scales[2 * j], enlarge, zero);
                    to[8 + j] = from_code(values[2 * j + 1], scales[2 * j + 1], enlarge, zero);
                }
                let to = &mut self.b[i * NR + t * 16..][..16];
                for j in 0..16 {
                    to[j] = and_shift(exponents[j], shifts[j]);
                }
            }
        }
    }
}
