//! Panels of the kernel of aligned products: f32 values, exponent bytes and flags.
//!
//! Signs are in the values; zeros and special operands are 0.

#![allow(unsafe_code, reason = "loads and stores of vectors")]

use super::{NAN_SHIFT, WINDOW, first_special, top_exponent};
use crate::format::{FormatSpec, Specials};
use crate::simd::decode::f32_power;
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::{Fda, GROUPS, MR, NR, Packed, RISK, SPECIAL, TINY};
use crate::simd::ops::array_of;

/// The most lanes of any set.
const MOST: usize = 8;

/// A vector's lanes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Words([u32; MOST]);

/// A format unrolled into the constants of the decoder.
struct Decoder<S> {
    set: S,
    ignored: u32,
    frac_bits: u32,
    /// Bits below the sign.
    width: u32,
    /// Smallest magnitude code that is Inf or NaN.
    special: u32,
    fnuz: bool,
    /// What makes a normal number's shifted code an f32's.
    rebias: u32,
    /// The last place of subnormal numbers; 0 where they are f32's own.
    quantum: f32,
    /// Field that byte 127 stands for.
    top: i32,
    /// With conversion to f16: the field of its lowest exponent.
    f16_low: Option<i32>,
}

/// Decoded elements; conditions are all ones in a lane, or none.
struct Items<V> {
    values: V,
    /// Windowed exponents.
    exponents: V,
    significands: V,
    special: V,
    tiny: V,
}

impl<S: Vectors> Decoder<S> {
    fn new(set: S, spec: &FormatSpec, fda: &Fda, top: i32) -> Self {
        let own = spec.exponent_bits == 8 && spec.bias == 127;
        Self {
            set,
            ignored: spec.ignored_low_bits,
            frac_bits: spec.fraction_bits,
            width: spec.exponent_bits + spec.fraction_bits,
            special: first_special(spec).min(i32::MAX as u32),
            fnuz: spec.specials == Specials::NanNegativeZero,
            rebias: ((127 - spec.bias) as u32) << 23,
            quantum: if own { 0.0 } else { f32_power(spec.emin() - spec.fraction_bits as i32) },
            top: top + spec.bias,
            f16_low: fda.via_f16.then_some(spec.bias - 14),
        }
    }

    /// A vector of codes, and the exponents of their block scales.
    #[inline(always)]
    fn items(&self, raw: S::V, shifts: Option<S::V>) -> Items<S::V> {
        let (set, word) = (self.set, |x: i32| self.set.splat(x as u32));
        let bits = set.right_by(raw, self.ignored);
        let mag = set.and(bits, set.splat((1 << self.width) - 1));
        let negative = set.and(set.left_by(bits, 31 - self.width), set.splat(1 << 31));
        let zero = set.equal(mag, word(0));
        let mut special = set.greater(mag, set.splat(self.special.wrapping_sub(1)));
        if self.fnuz {
            special = set.or(special, set.and(zero, set.equal(negative, set.splat(1 << 31))));
        }
        if let Some(shifts) = shifts {
            special = set.or(special, set.equal(shifts, word(NAN_SHIFT)));
        }
        let none = set.or(special, zero);
        let shift = shifts.map(
            #[inline(always)]
            |shifts| set.without(none, shifts),
        );
        let mut field = set.right_by(mag, self.frac_bits);
        let subnormal = set.equal(field, word(0));
        let mut leading = set.splat(1 << self.frac_bits);
        if let Some(low) = self.f16_low {
            // A subnormal's exponent once it is f16: that of its leading bit.
            let lead = set.sub(set.right::<23>(set.float(mag)), set.splat(126 + self.frac_bits));
            field = set.choose(subnormal, lead, field);
            field = set.choose(set.greater(word(low), field), word(low), field);
        } else {
            leading = set.without(subnormal, leading);
            // All ones are -1.
            field = set.sub(field, subnormal);
        }
        // How far below the top.
        let mut below = set.sub(word(self.top), field);
        if let Some(shift) = shift {
            below = set.sub(below, shift);
        }
        let tiny = set.without(none, set.greater(below, word(WINDOW - 1)));
        let gone = set.or(none, tiny);
        let mut value = set.add(set.left_by(mag, 23 - self.frac_bits), set.splat(self.rebias));
        if self.quantum != 0.0 {
            let small = set.mul(set.float(mag), set.splat(self.quantum.to_bits()));
            value = set.choose(subnormal, small, value);
        }
        if let Some(shift) = shift {
            value = set.add(value, set.left::<23>(shift));
        }
        // Numbers below the normal f32s are far below where any bit counts, if the kernel is to be used at all.
        let small = set.greater(set.splat(1 << 23), value);
        Items {
            values: set.without(set.or(none, small), set.or(value, negative)),
            exponents: set.without(gone, set.sub(word(127), below)),
            significands: set.or(set.and(mag, set.splat((1 << self.frac_bits) - 1)), leading),
            special,
            tiny,
        }
    }

    /// Flags of each lane.
    #[inline(always)]
    fn flags(&self, special: S::V, tiny: S::V) -> [u8; MOST] {
        flags_of(self.lanes(special), self.lanes(tiny))
    }

    #[inline(always)]
    fn lanes(&self, x: S::V) -> [u32; MOST] {
        let mut words = Words([0; MOST]);
        // SAFETY: aligned, and as many words as the largest vector has.
        unsafe { self.set.store(words.0.as_mut_ptr(), x) }
        words.0
    }

    /// Codes of a line from `at` on, zeros beyond its end.
    #[inline(always)]
    fn codes(&self, line: &[u32], at: usize) -> S::V {
        if let Some(codes) = line.get(at..at + S::LANES) {
            // SAFETY: as many words.
            return unsafe { self.set.load_unaligned(codes.as_ptr()) };
        }
        self.vector(|i| line.get(at + i).copied().unwrap_or(0))
    }

    #[inline(always)]
    fn vector(&self, lane: impl Fn(usize) -> u32) -> S::V {
        let mut words = Words([0; MOST]);
        words.0.iter_mut().enumerate().for_each(|(i, word)| *word = lane(i));
        // SAFETY: aligned, and as many words as the largest vector has.
        unsafe { self.set.load(words.0.as_ptr()) }
    }
}

/// Flags, from masks.
#[cold]
fn flags_of(special: [u32; MOST], tiny: [u32; MOST]) -> [u8; MOST] {
    let flag = |mask: u32, flag: u8| if mask != 0 { flag } else { 0 };
    core::array::from_fn(|i| flag(special[i], SPECIAL) | flag(tiny[i], TINY))
}

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    #[inline(always)]
    pub(in crate::simd::fda) fn pack_a_aligned<S: Vectors>(
        &self,
        set: S,
        codes: &[u32],
        shift: i32,
        size: [usize; 2],
        to: &mut Packed,
    ) {
        let ([rows, k], l) = (size, self.block);
        let (steps, groups) = (k / l, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        to.top = top_exponent(self, &self.unit.a, codes) + shift;
        to.values.room::<u32>(groups * MR * k);
        to.exponents.room::<u32>(groups * MR * k);
        let decoder = Decoder::new(set, &self.unit.a, self, to.top);
        let (mut ordered, zeros, mut sums) = (Vec::new(), vec![0; k], 0);
        let in_order = self.is_in_order();
        for row in 0..rows.next_multiple_of(MR) {
            let mut codes = codes.get(row * k..).and_then(|c| c.get(..k)).unwrap_or(&zeros);
            if !in_order {
                self.gather(codes, &mut ordered);
                codes = &ordered;
            }
            // Vectors hold whole FDAs, or an FDA whole vectors; if not, the last one of each has fewer lanes.
            if l.is_multiple_of(S::LANES) {
                for (s, codes) in codes.chunks_exact(l).enumerate() {
                    for offset in (0..l).step_by(S::LANES) {
                        let at = [row, s, offset, S::LANES];
                        self.put_a::<S, 0>(&decoder, decoder.codes(codes, offset), at, &mut sums, to);
                    }
                }
            } else if l == 4 && S::LANES == 8 {
                for from in (0..k).step_by(8) {
                    let n = 8.min(k - from);
                    self.put_a::<S, 4>(&decoder, decoder.codes(codes, from), [row, from / 4, 0, n], &mut sums, to);
                }
            } else {
                for (s, codes) in codes.chunks_exact(l).enumerate() {
                    for offset in (0..l).step_by(S::LANES) {
                        let at = [row, s, offset, S::LANES.min(l - offset)];
                        self.put_a::<S, 1>(&decoder, decoder.codes(codes, offset), at, &mut sums, to);
                    }
                }
            }
        }
    }

    /// A vector's first `n` lanes are products `offset..` of FDA `s` of a row: all of them, where `PART` is 0; or those of
    /// two FDAs, where it is 4. `sums` goes from one call to the next: of an FDA's significands before these.
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
        let words = set.or(it.exponents, set.left::<8>(it.exponents));
        let words = set.or(words, set.left::<16>(words));
        // Whether significands can be so large that a step is a risk.
        let risk = l <= 16 && l as u32 * ((2 << decoder.frac_bits) - 1) > self.risk_limit();
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

    /// Packs columns of B, `codes[p * columns + column]`.
    #[inline(always)]
    pub(in crate::simd::fda) fn pack_b_aligned<S: Vectors>(
        &self,
        set: S,
        codes: &[u32],
        shift: i32,
        size: [usize; 2],
        to: &mut Packed,
    ) {
        let [columns, k] = size;
        let (steps, groups) = (k / self.block, columns.div_ceil(NR));
        to.begin(steps, groups, NR, 4);
        to.top = top_exponent(self, &self.unit.b, codes) + shift;
        to.values.room::<u32>(groups * NR * k);
        to.exponents.room::<u32>(groups * NR * k / 4);
        let decoder = Decoder::new(set, &self.unit.b, self, to.top);
        for s in 0..steps {
            for g in 0..groups {
                for d in (0..16).step_by(S::LANES) {
                    self.put_b(&decoder, [s, g, d], codes, columns, to);
                }
            }
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
            |t| {
                let shift = |j: usize| to.shifts.get((column(t) + j) * to.steps + s).copied().unwrap_or(0) as u32;
                if to.shifts.is_empty() { None } else { Some(decoder.vector(shift)) }
            },
        );
        let (mut special, mut tiny) = ([set.splat(0); 4], [set.splat(0); 4]);
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
                (special[t], tiny[t]) = (set.or(special[t], it.special), set.or(tiny[t], it.tiny));
            }
            // SAFETY: 16 words for each product.
            unsafe { set.store(exponents.add(i * 16 + d), bytes) }
        }
        for t in 0..4 {
            if set.any(set.or(special[t], tiny[t])) {
                let flags = decoder.flags(special[t], tiny[t]);
                to.flags[place * NR + t * 16 + d..][..S::LANES].copy_from_slice(&flags[..S::LANES]);
                to.any[place * 4 + t] |= flags[..S::LANES].iter().fold(0, |all, flags| all | flags);
            }
        }
    }
}
