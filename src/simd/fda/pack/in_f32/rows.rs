//! Rows of A.

use super::super::top_exponent;
use super::{Decoder, Finish, Quick, finished, lanes, times};
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::{Fda, GROUPS, MR, Packed, RISK};

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    #[inline(always)]
    pub(in crate::simd::fda) fn pack_a_in_f32<S: Vectors>(
        &self,
        set: S,
        codes: &[u32],
        shift: i32,
        size: [usize; 2],
        to: &mut Packed,
    ) {
        to.top = top_exponent(self, &self.unit.a, codes) + shift;
        let quick = Quick::new(set, &self.unit.a, self, [to.top, shift]);
        self.pack_a_in_f32_by(set, quick, codes, size, to);
    }

    /// `pack_a_in_f32`, as far as possible in the quick way, if there is one.
    #[inline(always)]
    pub(in super::super) fn pack_a_in_f32_by<S: Vectors>(
        &self,
        set: S,
        quick: Option<Quick<S>>,
        codes: &[u32],
        size: [usize; 2],
        to: &mut Packed,
    ) {
        let ([rows, k], l) = (size, self.block);
        let (steps, groups) = (k / l, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        to.values.room::<u32>(groups * MR * k);
        to.exponents.room::<u32>(groups * MR * k);
        if self.narrow {
            to.signs.room::<u32>(groups * MR * steps).fill(0);
        }
        let decoder = Decoder::new(set, &self.unit.a, self, to.top, Finish::of(self, self.scales().0, false));
        // Of significands of 24 bits.
        let risk = self.may_risk().then(|| u64::from(self.risk_limit()) << (23 - self.unit.a.fraction_bits));
        // Where an FDA is whole vectors, or half of one without anything of its own.
        let whole = l.is_multiple_of(S::LANES) || (2 * l == S::LANES && risk.is_none() && to.shifts.is_empty());
        let quick = quick.filter(|_| whole);
        let (mut ordered, zeros, mut sums) = (Vec::new(), vec![0; k], 0);
        let in_order = self.is_in_order();
        for row in 0..rows.next_multiple_of(MR) {
            let mut codes = codes.get(row * k..).and_then(|c| c.get(..k)).unwrap_or(&zeros);
            if !in_order {
                self.gather(codes, &mut ordered);
                codes = &ordered;
            }
            let mut s = 0;
            while s < steps {
                if let Some(quick) = &quick {
                    s = self.row_quickly(quick, decoder.finish, codes, [row, s], risk, to);
                }
                s = self.row_slowly(&decoder, codes, [row, s], &mut sums, to);
            }
        }
    }

    /// The FDAs of a row from the `s`-th on that one vector holds, or one FDA of some vectors. Returns the next one.
    #[inline(always)]
    fn row_slowly<S: Vectors>(
        &self,
        decoder: &Decoder<S>,
        codes: &[u32],
        [row, s]: [usize; 2],
        sums: &mut u32,
        to: &mut Packed,
    ) -> usize {
        let l = self.block;
        let codes = &codes[s * l..];
        if codes.is_empty() {
            return s;
        }
        // Vectors hold whole FDAs, or an FDA whole vectors; if not, the last one of each has fewer lanes.
        if l == 4 && S::LANES == 8 {
            let n = 8.min(codes.len());
            self.put_a::<S, 4>(decoder, decoder.codes(codes, 0), [row, s, 0, n], sums, to);
            return s + n / 4;
        }
        for offset in (0..l).step_by(S::LANES) {
            let codes = decoder.codes(&codes[..l], offset);
            if l.is_multiple_of(S::LANES) {
                self.put_a::<S, 0>(decoder, codes, [row, s, offset, S::LANES], sums, to);
            } else {
                self.put_a::<S, 1>(decoder, codes, [row, s, offset, S::LANES.min(l - offset)], sums, to);
            }
        }
        s + 1
    }

    /// `put_a` of a row's FDAs from the `s`-th on, each some vectors or half of one, as long as all is ordinary.
    /// Returns the first one left, with anything in the panels.
    #[inline(always)]
    fn row_quickly<S: Vectors>(
        &self,
        quick: &Quick<S>,
        finish: Option<Finish>,
        codes: &[u32],
        [row, mut s]: [usize; 2],
        risk: Option<u64>,
        to: &mut Packed,
    ) -> usize {
        let (set, l) = (quick.set, self.block);
        let (place, span) = (to.at_a(row / MR, 0), l.max(S::LANES));
        let (at, apart) = ((place * MR + row % MR) * l, GROUPS * MR * l);
        let last = at + (to.steps - 1) * apart + l;
        let values = to.values.view_mut::<u32>()[..last].as_mut_ptr();
        let exponents = to.exponents.view_mut::<u32>()[..last].as_mut_ptr();
        let signs = to.signs.view_mut::<u32>();
        let shifts = to.shifts.get(row * to.steps..).unwrap_or_default();
        for part in codes[s * l..].chunks_exact(span) {
            let (mut odd, mut sum, mut negative) = (set.splat(0), set.splat(0), 0);
            let mut scaled = None;
            if !to.shifts.is_empty() {
                let (scale, more) = quick.scaled(set.splat(shifts.get(s).copied().unwrap_or(0) as u32));
                (scaled, odd) = (Some(scale), more);
            }
            for offset in (0..span).step_by(S::LANES) {
                // SAFETY: a vector's words.
                let moved = quick.moved(unsafe { set.load_unaligned(part.as_ptr().add(offset)) });
                let (numbers, bytes);
                (numbers, odd) = quick.numbers(moved, odd);
                (bytes, odd) = quick.exponents(
                    quick.with_fields(numbers, 0, set.splat(0)),
                    scaled.map(
                        #[inline(always)]
                        |x| x.gaps,
                    ),
                    odd,
                );
                let words = set.first_bytes(bytes);
                if risk.is_some() {
                    sum = set.add(sum, quick.significands(moved, numbers));
                }
                if finish.is_some() {
                    negative |= set.signs(numbers) << offset;
                }
                let (at, x) = (at + s * apart + offset, finished(set, finish, times(set, numbers, scaled)));
                // SAFETY: this FDA of the row lies before the last one's end, and so does the next one.
                unsafe {
                    if l >= S::LANES {
                        set.store_unaligned(values.add(at), x);
                        set.store_unaligned(exponents.add(at), words);
                    } else {
                        set.store_halves([values.add(at), values.add(at + apart)], x);
                        set.store_halves([exponents.add(at), exponents.add(at + apart)], words);
                    }
                }
            }
            if set.any(odd) {
                return s;
            }
            for part in 0..if finish.is_some() { span / l } else { 0 } {
                let of_part = if l < 32 { negative >> (part * l) & ((1 << l) - 1) } else { negative };
                signs[(place + (s + part) * GROUPS) * MR + row % MR] = of_part;
            }
            if let Some(limit) = risk
                && lanes(set, sum).iter().map(|&x| u64::from(x)).sum::<u64>() > limit
            {
                let place = place + s * GROUPS;
                to.flags[place * MR + row % MR] |= RISK;
                to.any[place] |= RISK;
            }
            s += span / l;
        }
        s
    }

    /// A vector's first `n` lanes are products `offset..` of FDA `s` of a row: all of them, where `PART` is 0; or those
    /// of two FDAs, where it is 4. `sums` goes from one call to the next: of an FDA's significands before these.
    #[inline(always)]
    fn put_a<S: Vectors, const PART: usize>(
        &self,
        decoder: &Decoder<S>,
        codes: S::V,
        [row, s, offset, n]: [usize; 4],
        sums: &mut u32,
        to: &mut Packed,
    ) {
        let (set, l) = (decoder.set, self.block);
        let shifts = (!to.shifts.is_empty()).then(|| {
            let line = to.shifts.get(row * to.steps..).unwrap_or_default();
            let at = |i: usize| if PART == 4 { s + i / 4 } else { s };
            decoder.vector(|i| if i < n { line.get(at(i)).copied().unwrap_or(0) as u32 } else { 0 })
        });
        let it = decoder.items(codes, shifts);
        let words = set.first_bytes(it.exponents);
        // Whether significands can be so large that a step is a risk.
        let risk = self.may_risk();
        let seen = set.any(set.or(it.special, it.tiny));
        let parts = if PART == 4 { n / 4 } else { 1 };
        for part in 0..parts {
            let place = to.at_a(row / MR, s + part);
            let line = place * MR + row % MR;
            let (at, n) = (line * l + offset, if PART == 4 { 4 } else { n });
            let values = &mut to.values.view_mut::<u32>()[at..at + n];
            let exponents = &mut to.exponents.view_mut::<u32>()[at..at + n];
            if PART == 0 {
                // SAFETY: a vector's words.
                unsafe {
                    set.store_unaligned(values.as_mut_ptr(), it.values);
                    set.store_unaligned(exponents.as_mut_ptr(), words);
                }
            } else {
                let (from, more) = (decoder.lanes(it.values), decoder.lanes(words));
                if PART == 4 {
                    values.copy_from_slice(&from.as_chunks::<4>().0[part]);
                    exponents.copy_from_slice(&more.as_chunks::<4>().0[part]);
                } else {
                    values.copy_from_slice(&from[..n]);
                    exponents.copy_from_slice(&more[..n]);
                }
            }
            if self.narrow {
                let of_part = set.signs(it.values) >> (4 * part) & ((1 << n) - 1);
                to.signs.view_mut::<u32>()[line] |= of_part << offset;
            }
            if !risk && !seen {
                continue;
            }
            let (lanes, mut flags) = (4 * part..4 * part + n, 0);
            if risk {
                if offset == 0 {
                    *sums = 0;
                }
                *sums += decoder.lanes(it.significands)[lanes.clone()].iter().sum::<u32>();
                if offset + n == l && *sums > self.risk_limit() {
                    flags |= RISK;
                }
            }
            if seen {
                flags |= decoder.flags(it.special, it.tiny)[lanes].iter().fold(0, |all, flags| all | flags);
            }
            if flags != 0 {
                to.flags[line] |= flags;
                to.any[place] |= flags;
            }
        }
    }
}
