//! Hard pieces of round-down sums, special values included: the body of all sets, on operands decoded anew.

use super::micro::Micro;
use super::round_down::Floors;
use super::{Fda, MR, NR};
use crate::gemm::kernel::Panel;
use crate::simd::decode::{Decoder, Reader, Seen, of_any};
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

impl Hard {
    /// Whether every c that is a multiple of `2^(e_max - F)` counts.
    pub(super) fn takes_exact_c(&self) -> bool {
        self.sums.reach.is_none_or(|reach| reach >= self.sums.r.frac_bits as i32)
    }
}

/// Decoded operands of one step: a row, and the columns of a column group, kept while row groups go by.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    codes: Vec<u32>,
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
    #[inline(always)]
    fn row(&mut self, decoder: &Decoder, panel: &Panel, row: usize, ks: impl Iterator<Item = usize>) -> u8 {
        let codes = &panel.codes.narrow()[row * panel.k..][..panel.k];
        self.codes.clear();
        self.codes.extend(ks.map(|k| codes[k]));
        self.a.resize(self.codes.len(), 0.0);
        self.a_exponents.resize(self.codes.len(), 0);
        let mut seen = Seen::NOTHING;
        decoder.read(&self.codes, &mut self.a, &mut self.a_exponents, &mut seen);
        seen.flags(&decoder.spec)
    }

    /// Decodes the columns from `column` on; those beyond the last are zeros.
    #[inline(always)]
    fn columns(&mut self, decoder: &Decoder, panel: &Panel, column: usize, ks: impl Iterator<Item = usize> + Clone) {
        self.b.clear();
        self.b_exponents.clear();
        let codes = panel.codes.narrow();
        for (t, seen) in self.flags.iter_mut().enumerate() {
            *seen = 0;
            let first = (column + t * LANES).min(panel.lines);
            let count = LANES.min(panel.lines - first);
            for k in ks.clone() {
                let from = &codes[k * panel.lines + first..][..count];
                let codes = from.try_into().unwrap_or_else(|_| {
                    let mut codes = [0; LANES];
                    codes[..count].copy_from_slice(from);
                    codes
                });
                let (values, exponents, flags) = match decoder.together() {
                    Some(fields) => fields.lanes(&codes),
                    None => decoder.lanes(&codes),
                };
                self.b.push(values);
                self.b_exponents.push(exponents);
                *seen |= of_any(flags);
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
        let (l, ks) = (fda.block, fda.positions(s));
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
                let block: Block<'_, _> = Block {
                    a: &x.a,
                    a_exponents: &x.a_exponents,
                    b: &x.b[t * l..(t + 1) * l],
                    b_exponents: &x.b_exponents[t * l..(t + 1) * l],
                    flags: flags | x.flags[t],
                    scale_a: 0,
                    scale_b: &[0; LANES],
                };
                let d = if M::NATIVE {
                    self.sums.block::<true, LANES, _>(&block, c)
                } else {
                    self.sums.block::<false, LANES, _>(&block, c)
                };
                states[here..here + LANES].copy_from_slice(&d);
            }
        }
    }
}
