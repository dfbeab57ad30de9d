//! Columns of B.

use super::super::top_exponent;
use super::{Decoder, Finish, Quick, finished, times};
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::{Fda, NR, Packed};
use crate::simd::ops::array_of;

impl Fda {
    /// Packs columns of B, `codes[p * columns + column]`.
    #[inline(always)]
    pub(in crate::simd::fda) fn pack_b_in_f32<S: Vectors>(
        &self,
        set: S,
        codes: &[u32],
        shift: i32,
        size: [usize; 2],
        to: &mut Packed,
    ) {
        to.top = top_exponent(self, &self.unit.b, codes) + shift;
        let quick = Quick::new(set, &self.unit.b, self, [to.top, shift]);
        self.pack_b_in_f32_by(set, quick, codes, size, to);
    }

    /// `pack_b_in_f32`, as far as possible in the quick way, if there is one.
    #[inline(always)]
    pub(in super::super) fn pack_b_in_f32_by<S: Vectors>(
        &self,
        set: S,
        quick: Option<Quick<S>>,
        codes: &[u32],
        size: [usize; 2],
        to: &mut Packed,
    ) {
        let [columns, k] = size;
        let (steps, groups) = (k / self.block, columns.div_ceil(NR));
        to.begin(steps, groups, NR, 4);
        to.values.room::<u32>(groups * NR * k);
        to.exponents.room::<u32>(groups * NR * k / 4);
        if self.narrow {
            to.signs.room::<u32>(groups * NR * steps);
        }
        let decoder = Decoder::new(set, &self.unit.b, self, to.top, Finish::of(self, self.scales().1, true));
        for s in 0..steps {
            for g in 0..groups {
                for d in (0..16).step_by(S::LANES) {
                    let done = quick.as_ref().is_some_and(
                        #[inline(always)]
                        |quick| self.put_b_quickly(quick, &decoder, [s, g, d], codes, columns, to),
                    );
                    if !done {
                        self.put_b(&decoder, [s, g, d], codes, columns, to);
                    }
                }
            }
        }
    }

    /// `put_b` where all is ordinary; `false`, and anything in the panels, where it is not.
    #[inline(always)]
    fn put_b_quickly<S: Vectors>(
        &self,
        quick: &Quick<S>,
        decoder: &Decoder<S>,
        [s, g, d]: [usize; 3],
        codes: &[u32],
        columns: usize,
        to: &mut Packed,
    ) -> bool {
        let (set, l, place) = (decoder.set, self.block, to.at_b(g, s));
        let (mut odd, mut signs) = (set.splat(0), [set.splat(0); 4]);
        let (mut scaled, mut gaps) = ([None; 4], None);
        if !to.shifts.is_empty() {
            let mut bytes = set.splat(0);
            for t in (0..4).rev() {
                let (scale, more) = quick.scaled(self.shifts_of_columns(decoder, g * NR + t * 16 + d, s, to));
                bytes = set.or(set.left::<8>(bytes), scale.gaps);
                (scaled[t], odd) = (Some(scale), set.or(odd, more));
            }
            gaps = Some(bytes);
        }
        let values = to.values.view_mut::<u32>()[place * NR * l..][..NR * l].as_mut_ptr();
        let exponents = to.exponents.view_mut::<u32>()[place * 16 * l..][..16 * l].as_mut_ptr();
        for (i, p) in self.positions(s).enumerate() {
            let row = &codes[p * columns..][..columns];
            let mut fields = set.splat(0);
            for (t, signs) in signs.iter_mut().enumerate() {
                let moved = quick.moved(decoder.codes(row, g * NR + t * 16 + d));
                let numbers;
                (numbers, odd) = quick.numbers(moved, odd);
                let x = finished(set, decoder.finish, times(set, numbers, scaled[t]));
                // SAFETY: the panel has room for this FDA of these columns, 16 of each product after another.
                unsafe { set.store(values.add((t * l + i) * 16 + d), x) }
                if decoder.finish.is_some() {
                    *signs = with_sign(set, x, i, *signs);
                }
                fields = quick.with_fields(numbers, t, fields);
            }
            let bytes;
            (bytes, odd) = quick.exponents(fields, gaps, odd);
            // SAFETY: 16 words for each product.
            unsafe { set.store(exponents.add(i * 16 + d), bytes) }
        }
        self.put_signs(set, signs, place * NR + d, to);
        !set.any(odd)
    }

    /// Exponents of the block scales of a vector of columns at FDA `s`.
    #[inline(always)]
    fn shifts_of_columns<S: Vectors>(&self, decoder: &Decoder<S>, column: usize, s: usize, to: &Packed) -> S::V {
        decoder.vector(
            #[inline(always)]
            |j| to.shifts.get((column + j) * to.steps + s).copied().unwrap_or(0) as u32,
        )
    }

    /// Signs of 32 columns, from words of 16 at `at` on: planes of a byte a column, for 8 products each.
    #[inline(always)]
    fn put_signs<S: Vectors>(&self, set: S, signs: [S::V; 4], at: usize, to: &mut Packed) {
        if !self.narrow {
            return;
        }
        for plane in 0..4 {
            let mut bytes = set.splat(0);
            for signs in signs.into_iter().rev() {
                let plane = set.and(set.right_by(signs, 8 * plane as u32), set.splat(0xFF));
                bytes = set.or(set.left::<8>(bytes), plane);
            }
            let to = &mut to.signs.view_mut::<u32>()[at + plane * NR / 4..][..S::LANES];
            // SAFETY: a vector's words.
            unsafe { set.store_unaligned(to.as_mut_ptr(), bytes) }
        }
    }

    /// FDA `s` of the columns from `d` on of the four 16 of a group.
    #[inline(always)]
    fn put_b<S: Vectors>(
        &self,
        decoder: &Decoder<S>,
        [s, g, d]: [usize; 3],
        codes: &[u32],
        columns: usize,
        to: &mut Packed,
    ) {
        let (set, l, place) = (decoder.set, self.block, to.at_b(g, s));
        let column = |t: usize| g * NR + t * 16 + d;
        let shifts: [_; 4] = array_of(
            #[inline(always)]
            |t| if to.shifts.is_empty() { None } else { Some(self.shifts_of_columns(decoder, column(t), s, to)) },
        );
        let (mut special, mut tiny, mut signs) = ([set.splat(0); 4], [set.splat(0); 4], [set.splat(0); 4]);
        let values = to.values.view_mut::<u32>()[place * NR * l..][..NR * l].as_mut_ptr();
        let exponents = to.exponents.view_mut::<u32>()[place * 16 * l..][..16 * l].as_mut_ptr();
        for (i, p) in self.positions(s).enumerate() {
            let row = &codes[p * columns..][..columns];
            let mut bytes = set.splat(0);
            // Byte 4 j + t is column 16 t + j: the last one is shifted in first.
            for t in (0..4).rev() {
                let it = decoder.items(decoder.codes(row, column(t)), shifts[t]);
                // SAFETY: the panel has room for this FDA of these columns, 16 of each product after another.
                unsafe { set.store(values.add((t * l + i) * 16 + d), it.values) }
                bytes = set.or(set.left::<8>(bytes), it.exponents);
                if decoder.finish.is_some() {
                    signs[t] = with_sign(set, it.values, i, signs[t]);
                }
                (special[t], tiny[t]) = (set.or(special[t], it.special), set.or(tiny[t], it.tiny));
            }
            // SAFETY: 16 words for each product.
            unsafe { set.store(exponents.add(i * 16 + d), bytes) }
        }
        self.put_signs(set, signs, place * NR + d, to);
        for t in 0..4 {
            if set.any(set.or(special[t], tiny[t])) {
                let flags = decoder.flags(special[t], tiny[t]);
                to.flags[place * NR + t * 16 + d..][..S::LANES].copy_from_slice(&flags[..S::LANES]);
                to.any[place * 4 + t] |= flags[..S::LANES].iter().fold(0, |all, flags| all | flags);
            }
        }
    }
}

/// Bit `i` of each word for the sign of `x`, beside others.
#[inline(always)]
fn with_sign<S: Vectors>(set: S, x: S::V, i: usize, others: S::V) -> S::V {
    set.or(others, set.and(set.greater(set.splat(0), x), set.splat(1 << i)))
}
