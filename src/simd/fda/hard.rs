//! Hard pieces of round-down sums, special values included: the body of all sets, on operands decoded anew.

use super::micro::Micro;
use super::round_down::Floors;
use super::{Fda, MR, NR};
use crate::gemm::kernel::Panel;
use crate::simd::decode::Decoder;
use crate::simd::round_down::Sums;
use crate::simd::rows::{Block, Body};
use crate::simd::values::NR as LANES;

/// The body, and how operands are read for it.
#[derive(Debug)]
pub(super) struct Hard {
    pub(super) sums: Sums,
    pub(super) decoders: [Decoder; 2],
    pub(super) floors: Floors,
}

/// Decoded operands of one step: a row, and the columns of a column group, kept while row groups go by.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    a: Vec<f32>,
    a_exponents: Vec<i16>,
    /// By vector of columns and product.
    b: Vec<[f32; LANES]>,
    b_exponents: Vec<[i16; LANES]>,
    flags: [u8; NR / LANES],
    /// The step and column group that `b` is of.
    key: Option<[usize; 2]>,
}

impl Decoded {
    pub(super) fn forget(&mut self) {
        self.key = None;
    }

    /// Decodes row `row` at step `s`.
    fn row(&mut self, decoder: &Decoder, panel: &Panel, row: usize, ks: impl Iterator<Item = usize>) -> u8 {
        self.a.clear();
        self.a_exponents.clear();
        ks.fold(0, |seen, k| {
            let (value, exponent, flags) = decoder.value(panel.codes.get(row * panel.k + k));
            self.a.push(value);
            self.a_exponents.push(exponent);
            seen | flags
        })
    }

    /// Decodes the columns from `column` on; those beyond the last are zeros.
    fn columns(&mut self, decoder: &Decoder, panel: &Panel, column: usize, ks: impl Iterator<Item = usize> + Clone) {
        self.b.clear();
        self.b_exponents.clear();
        for (t, seen) in self.flags.iter_mut().enumerate() {
            *seen = 0;
            for k in ks.clone() {
                let at = |j: usize| column + t * LANES + j;
                let decoded: [_; LANES] = core::array::from_fn(|j| {
                    let code = if at(j) < panel.lines { panel.codes.get(k * panel.lines + at(j)) } else { 0 };
                    decoder.value(code)
                });
                self.b.push(decoded.map(|(value, ..)| value));
                self.b_exponents.push(decoded.map(|(_, exponent, _)| exponent));
                *seen = decoded.iter().fold(*seen, |seen, (.., flags)| seen | flags);
            }
        }
    }
}

impl Hard {
    /// Step `s` of the pieces of a mask, bit `4 row + vector`, of a row and a column group: on states and what is
    /// parked of them, which is called back.
    #[inline(always)]
    pub(super) fn redo<M: Micro>(
        &self,
        fda: &Fda,
        [a, b]: [&Panel; 2],
        [row_group, column_group, s]: [usize; 3],
        pieces: u32,
        [states, parked]: [&mut [f32]; 2],
        x: &mut Decoded,
    ) {
        let (l, unit_k) = (fda.block, fda.unit.shape.k);
        let ks = (s * l..(s + 1) * l).map(|k| k / unit_k * unit_k + fda.order[k % unit_k]);
        if x.key != Some([s, column_group]) {
            x.columns(&self.decoders[1], b, column_group * NR, ks.clone());
            x.key = Some([s, column_group]);
        }
        for r in (0..MR).filter(|r| pieces >> (4 * r) & 0xF != 0 && row_group * MR + r < a.lines) {
            let flags = x.row(&self.decoders[0], a, row_group * MR + r, ks.clone());
            for t in (0..NR / LANES).filter(|t| pieces >> (4 * r + t) & 1 == 1) {
                let here = r * NR + t * LANES;
                let mut c: [f32; LANES] = core::array::from_fn(|j| states[here + j]);
                for (c, parked) in c.iter_mut().zip(&mut parked[here..]) {
                    if *parked != 0.0 {
                        *c = core::mem::take(parked);
                    }
                }
                let block = Block {
                    a: &x.a,
                    a_exponents: &x.a_exponents,
                    b: &x.b[t * l..(t + 1) * l],
                    b_exponents: &x.b_exponents[t * l..(t + 1) * l],
                    flags: flags | x.flags[t],
                    scale_a: 0,
                    scale_b: &[0; LANES],
                };
                let d = if M::NATIVE {
                    self.sums.block::<true, LANES>(&block, c)
                } else {
                    self.sums.block::<false, LANES>(&block, c)
                };
                states[here..here + LANES].copy_from_slice(&d);
            }
        }
    }
}
