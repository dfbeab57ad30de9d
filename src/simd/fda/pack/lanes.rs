//! Packing in plain code, compiled for AVX2: 16 codes at a time, lane by lane.

#![allow(unsafe_code, reason = "functions for one instruction set")]
#![allow(clippy::needless_range_loop, reason = "lanes index several arrays at once")]

use super::{Decoder, NAN_SHIFT, WINDOW, shifts_of, top_exponent};
use crate::simd::buffer::Buffer;
use crate::simd::fda::{Fda, GROUPS, MR, NR, Packed, RISK, SPECIAL, TINY};

const N: usize = 16;

/// 16 decoded elements; conditions are 0 or 1.
struct Lanes {
    values: [f64; N],
    /// Windowed exponents.
    exponents: [u32; N],
    significands: [u32; N],
    negative: [u32; N],
    special: [u32; N],
    tiny: [u32; N],
}

/// `of` lane by lane.
#[inline(always)]
fn each<T>(of: impl FnMut(usize) -> T) -> [T; N] {
    core::array::from_fn(of)
}

/// Whether some lane is not zero.
#[inline(always)]
fn any(lanes: &[u32]) -> bool {
    lanes.iter().fold(0, |x, y| x | y) != 0
}

impl Decoder {
    /// 16 codes and the exponents of their block scales.
    #[inline(always)]
    fn lanes(&self, raw: &[u32; N], shifts: Option<&[i32; N]>) -> Lanes {
        let (frac_bits, width) = (self.frac_bits, self.width);
        let bits = each(|i| raw[i] >> self.ignored);
        let mag = each(|i| bits[i] & ((1 << width) - 1));
        let negative = each(|i| bits[i] >> width & 1);
        let fnuz = u32::from(self.fnuz);
        let nan_scale = |i: usize| shifts.is_some_and(|s| s[i] == NAN_SHIFT);
        let special =
            each(|i| u32::from(mag[i] >= self.special) | u32::from(mag[i] == 0) & negative[i] & fnuz | u32::from(nan_scale(i)));
        let none = each(|i| special[i] | u32::from(mag[i] == 0));
        let shift = each(|i| if none[i] != 0 { 0 } else { shifts.map_or(0, |s| s[i]) });
        let field = each(|i| mag[i] >> frac_bits);
        let subnormal = each(|i| u32::from(field[i] == 0));
        // How far below the top; a subnormal that becomes f16 has the exponent of its leading bit.
        let below: [i32; N] = if let Some(low) = self.f16_low {
            let lead = each(|i| ((mag[i] as i32 as f32).to_bits() >> 23) as i32 - 126 - frac_bits as i32);
            each(|i| self.top - (if subnormal[i] != 0 { lead[i] } else { field[i] as i32 }).max(low) - shift[i])
        } else {
            each(|i| self.top - (field[i] as i32).max(1) - shift[i])
        };
        let tiny = each(|i| u32::from(below[i] >= WINDOW) & (none[i] ^ 1));
        let leading = each(|i| if subnormal[i] != 0 && self.f16_low.is_none() { 0 } else { 1 << frac_bits });
        Lanes {
            values: self.lane_values(&mag, &negative, &shift, [&subnormal, &none]),
            exponents: each(|i| if none[i] | tiny[i] != 0 { 0 } else { (127 - below[i]) as u32 }),
            significands: each(|i| mag[i] & ((1 << frac_bits) - 1) | leading[i]),
            negative,
            special,
            tiny,
        }
    }

    /// The values: fields moved to where f64 has them, what is subnormal or none apart.
    #[inline(always)]
    fn lane_values(
        &self,
        mag: &[u32; N],
        negative: &[u32; N],
        shift: &[i32; N],
        [subnormal, none]: [&[u32; N]; 2],
    ) -> [f64; N] {
        let up = 52 - self.frac_bits;
        let mut v = each(|i| (u64::from(mag[i]) << up).wrapping_add(self.rebias as u64));
        if any(subnormal) {
            let s = each(|i| (f64::from(mag[i] as i32) * self.subnormal).to_bits() | self.enlarge as u64);
            v = each(|i| if subnormal[i] != 0 { s[i] } else { v[i] });
        }
        if any(none) {
            v = each(|i| if none[i] != 0 { self.tiny as u64 } else { v[i] });
        }
        each(|i| f64::from_bits(v[i].wrapping_add((i64::from(shift[i]) << 52) as u64) | u64::from(negative[i]) << 63))
    }
}

/// Stores values of consecutive lines or products.
#[inline(always)]
fn store(values: &mut Buffer, narrow: bool, at: usize, from: &[f64]) {
    if narrow {
        values.view_mut::<f32>()[at..at + from.len()].iter_mut().zip(from).for_each(|(to, v)| *to = *v as f32);
    } else {
        values.view_mut::<f64>()[at..at + from.len()].copy_from_slice(from);
    }
}

/// Makes room in the value panel.
fn room(values: &mut Buffer, narrow: bool, n: usize) {
    if narrow {
        values.room::<f32>(n);
    } else {
        values.room::<f64>(n);
    }
}

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx2,fma")]
    pub(in crate::simd::fda) fn pack_a_avx2(&self, codes: &[u32], scales: &[u64], size: [usize; 2], to: &mut Packed) {
        let [rows, k] = size;
        let (steps, groups) = (k / self.block, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        to.top = top_exponent(&self.unit.a, self.via_f16, codes) + shifts_of(self, scales, size, &mut to.shifts);
        room(&mut to.values, self.narrow, groups * MR * k);
        to.exponents.room::<u32>(groups * MR * k);
        to.signs.room::<u32>(groups * MR * steps).fill(0);
        let decoder = Decoder::new(&self.unit.a, self.scales().0, self, false, to.top);
        let (mut ordered, zeros) = (Vec::new(), vec![0; k]);
        for row in 0..rows.next_multiple_of(MR) {
            let mut codes = codes.get(row * k..).and_then(|c| c.get(..k)).unwrap_or(&zeros);
            if !self.is_in_order() {
                self.gather(codes, &mut ordered);
                codes = &ordered;
            }
            self.pack_row(&decoder, row, codes, to);
        }
    }

    /// A row's codes in the FDAs' order.
    #[inline(always)]
    fn pack_row(&self, decoder: &Decoder, row: usize, codes: &[u32], to: &mut Packed) {
        let (l, k) = (self.block, codes.len());
        // Whole FDAs that 16 lanes hold, or a long one in parts.
        let span = if N.is_multiple_of(l) { N } else { l };
        for base in (0..k).step_by(span) {
            let end = (base + span).min(k);
            for from in (base..end).step_by(N) {
                let mut raw = [0; N];
                let n = N.min(end - from);
                raw[..n].copy_from_slice(&codes[from..from + n]);
                let shifts = (!to.shifts.is_empty()).then(|| {
                    let line = to.shifts.get(row * to.steps..).unwrap_or_default();
                    each(|i| line.get((from + i).min(k - 1) / l).copied().unwrap_or(0))
                });
                let it = decoder.lanes(&raw, shifts.as_ref());
                let mut done = 0;
                while done < n {
                    let offset = (from + done) % l;
                    let part = (l - offset).min(n - done);
                    self.put(decoder, &it, [(from + done) / l, row], [done, part, offset], to);
                    done += part;
                }
            }
        }
    }

    /// Lanes `done..done + n` are products `offset..` of FDA `s`.
    #[inline(always)]
    fn put(&self, decoder: &Decoder, it: &Lanes, [s, row]: [usize; 2], [done, n, offset]: [usize; 3], to: &mut Packed) {
        let (l, place, r) = (self.block, to.at_a(row / MR, s), row % MR);
        let (at, lanes) = ((place * MR + r) * l + offset, done..done + n);
        store(&mut to.values, self.narrow, at, &it.values[lanes.clone()]);
        let exponents = &mut to.exponents.view_mut::<u32>()[at..at + n];
        exponents.iter_mut().zip(&it.exponents[lanes.clone()]).for_each(|(to, e)| *to = e * 0x0101_0101);
        let mask = it.negative[lanes.clone()].iter().enumerate().fold(0, |m, (i, x)| m | x << (offset + i));
        to.signs.view_mut::<u32>()[place * MR + r] |= mask;
        let mut flags = flags(any(&it.special[lanes.clone()]), any(&it.tiny[lanes.clone()]));
        let limit = self.risk_limit();
        if l <= 16 && l as u32 * ((2 << decoder.frac_bits) - 1) > limit {
            flags |= if it.significands[lanes].iter().sum::<u32>() > limit { RISK } else { 0 };
        }
        to.flags[place * MR + r] |= flags;
        to.any[place] |= flags;
    }

    /// Packs columns of B, `codes[p * columns + column]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx2,fma")]
    pub(in crate::simd::fda) fn pack_b_avx2(&self, codes: &[u32], scales: &[u64], size: [usize; 2], to: &mut Packed) {
        let [columns, k] = size;
        let (steps, groups) = (k / self.block, columns.div_ceil(NR));
        to.begin(steps, groups, NR, 4);
        to.top = top_exponent(&self.unit.b, self.via_f16, codes) + shifts_of(self, scales, size, &mut to.shifts);
        room(&mut to.values, self.narrow, groups * NR * k);
        to.exponents.room::<u8>(groups * NR * k);
        to.signs.room::<u32>(groups * NR * steps);
        let decoder = Decoder::new(&self.unit.b, self.scales().1, self, true, to.top);
        for s in 0..steps {
            for g in 0..groups {
                self.pack_columns(&decoder, [g, s], codes, columns, to);
            }
        }
    }

    /// FDA `s` of 64 columns.
    #[inline(always)]
    fn pack_columns(&self, decoder: &Decoder, [g, s]: [usize; 2], codes: &[u32], columns: usize, to: &mut Packed) {
        let (l, place, unit_k) = (self.block, to.at_b(g, s), self.unit.shape.k);
        let shifts = (!to.shifts.is_empty()).then(|| {
            core::array::from_fn::<_, 4, _>(|t| {
                each(|j| to.shifts.get((g * NR + t * N + j) * to.steps + s).copied().unwrap_or(0))
            })
        });
        let (mut signs, mut special, mut tiny) = ([[0; N]; 4], [[0; N]; 4], [[0; N]; 4]);
        for i in 0..l {
            let at = s * l + i;
            let from = (at / unit_k * unit_k + self.order[at % unit_k]) * columns + g * NR;
            let mut bytes = [0; N];
            for t in 0..4 {
                let mut raw = [0; N];
                let n = N.min((columns - g * NR).saturating_sub(t * N));
                raw[..n].copy_from_slice(codes.get(from + t * N..).and_then(|c| c.get(..n)).unwrap_or_default());
                let it = decoder.lanes(&raw, shifts.as_ref().map(|s| &s[t]));
                // In f64 even columns come first.
                let pairs = |i: usize| it.values[if i < 8 { 2 * i } else { 2 * i - 15 }];
                let values = if self.narrow { it.values } else { each(pairs) };
                store(&mut to.values, self.narrow, ((place * 4 + t) * l + i) * N, &values);
                signs[t] = each(|j| signs[t][j] | it.negative[j] << i);
                special[t] = each(|j| special[t][j] | it.special[j]);
                tiny[t] = each(|j| tiny[t][j] | it.tiny[j]);
                bytes = each(|j| bytes[j] | it.exponents[j] << (8 * t));
            }
            to.exponents.view_mut::<u32>()[(place * l + i) * N..][..N].copy_from_slice(&bytes);
        }
        for (plane, to) in to.signs.view_mut::<u32>()[place * NR..][..NR].chunks_exact_mut(N).enumerate() {
            let byte = |t: usize, j: usize| (signs[t][j] >> (8 * plane) & 0xFF) << (8 * t);
            to.copy_from_slice(&each(|j| byte(0, j) | byte(1, j) | byte(2, j) | byte(3, j)));
        }
        for t in 0..4 {
            if any(&special[t]) || any(&tiny[t]) {
                let each = each(|j| flags(special[t][j] != 0, tiny[t][j] != 0));
                to.flags[place * NR + t * N..][..N].copy_from_slice(&each);
                to.any[place * 4 + t] = each.iter().fold(0, |x, y| x | y);
            }
        }
    }
}

const fn flags(special: bool, tiny: bool) -> u8 {
    (if special { SPECIAL } else { 0 }) | if tiny { TINY } else { 0 }
}
