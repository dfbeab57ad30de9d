//! What the wide kernel needs of a step beyond the fast kernel's panels, made when needed.

use super::avx512::{A_SCALE, B_SCALE};
use super::{Fda, MR, NR, Packed};
use crate::gemm::kernel::Panel;

/// Sentinel exponent of zero for the wide kernel.
const NO_EXPONENT: i16 = -8000;

/// In this order, so that all arrays are aligned to 64 bytes. The wide kernel's exponents, made when needed: A's for one step and row group, B's for one step and column group.
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

/// A value of an f32 panel as the f64 panel has it.
#[inline(always)]
fn widened(v: f32, scale: i32) -> f64 {
    let scale = if v.abs() < 1e-28 { -900 } else { scale };
    f64::from(v) * f64::from_bits(((1023 + scale) as u64) << 52)
}

impl Scratch {
    /// Fills in step `s` of a row group and a column group.
    #[inline(always)]
    pub(super) fn fill(&mut self, fda: &Fda, panels: [&Panel; 2], [group, column_group]: [usize; 2], s: usize) {
        let (a, b) = (panels[0].packed::<Packed>(), panels[1].packed::<Packed>());
        let l = fda.block;
        let (at, n) = (a.at_a(group, s) * MR * l, MR * l);
        let (a_scale, b_scale) = (A_SCALE, B_SCALE + fda.frac_bits as i32);
        let shift = |shifts: &[i32], line: usize, lines: usize, steps: usize| -> i32 {
            if shifts.is_empty() || line >= lines { 0 } else { shifts[line * steps + s].max(-200) }
        };
        let scaled = if fda.unit.scale.is_some() { 127 } else { 0 };
        let (a_low, b_low) = (fda.a.emin + scaled, fda.b.emin + scaled);
        if fda.narrow {
            for (w, v) in self.a_values.iter_mut().zip(&a.values.view::<f32>()[at..at + n]) {
                *w = widened(*v, a_scale - fda.scales().0);
            }
        }
        let values = if fda.narrow { &self.a_values[..n] } else { &a.values.view::<f64>()[at..at + n] };
        let row = group * MR;
        let low: [i32; MR] = core::array::from_fn(|r| a_low + shift(&a.shifts, row + r, panels[0].lines, a.steps));
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
        let low: [i32; NR] = core::array::from_fn(|j| b_low + shift(&b.shifts, column + j, panels[1].lines, b.steps));
        for (n, v) in values.as_chunks::<16>().0.iter().enumerate() {
            let (t, i) = (n / l, n % l);
            let (e, low) = (&mut self.b[i * NR + t * 16..][..16], &low[t * 16..][..16]);
            for j in 0..8 {
                e[2 * j] = exponent(v[j], b_scale, low[2 * j]);
                e[2 * j + 1] = exponent(v[8 + j], b_scale, low[2 * j + 1]);
            }
        }
    }
}
