//! Packing of the FDA's panels: plain array code, one loop per result, so that every loop becomes
//! vector instructions.

#![allow(clippy::needless_range_loop, reason = "one plain loop per result becomes vector instructions")]
#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::{Fda, GROUPS, MR, NR, Packed, RISK, SPECIAL, TINY};
use crate::format::{FormatSpec, Specials};
use crate::simd::buffer::Buffer;

/// Exponents a window spans: bytes 96..=127.
const WINDOW: i32 = 32;

/// The shift that stands for a NaN scale.
const NAN_SHIFT: i32 = i32::MIN;

/// A format unrolled into the constants of the vectorised decoder.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    ignored: u32,
    frac_bits: u32,
    width: u32,
    /// Smallest magnitude code that is Inf or NaN.
    special: u32,
    fnuz: bool,
    /// Scales the subnormal significand.
    subnormal: f64,
    /// Added to the shifted code of a normal number.
    rebias: u64,
    /// OR-ed into every value: the enlargement of B.
    enlarge: u64,
    tiny: u64,
    /// Field that byte 127 stands for.
    top: i32,
    /// With conversion to f16: the field of its lowest exponent.
    f16_low: Option<i32>,
}

/// 64 decoded elements.
struct Items {
    values: [f64; 64],
    /// Windowed exponents, as bytes.
    exponents: [u32; 64],
    significands: [u32; 64],
    negative: [u32; 64],
    flags: [u32; 64],
}

/// The first magnitude code, without ignored bits, that is no finite number.
const fn first_special(spec: &FormatSpec) -> u32 {
    match spec.specials {
        Specials::Ieee => ((1 << spec.exponent_bits) - 1) << spec.fraction_bits,
        Specials::NanAllOnes => (1 << (spec.exponent_bits + spec.fraction_bits)) - 1,
        Specials::NanNegativeZero | Specials::None => u32::MAX,
    }
}

impl Decoder {
    fn new(spec: &FormatSpec, scale: i32, fda: &Fda, enlarge: bool, top: i32) -> Self {
        let pow = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
        Self {
            ignored: spec.ignored_low_bits,
            frac_bits: spec.fraction_bits,
            width: spec.exponent_bits + spec.fraction_bits,
            special: first_special(spec),
            fnuz: spec.specials == Specials::NanNegativeZero,
            subnormal: pow(spec.emin() - spec.fraction_bits as i32 + scale),
            rebias: ((1023 - spec.bias + scale) as u64) << 52,
            // Relative 2^-47, or 2^-20 in f32.
            enlarge: u64::from(enlarge) << if fda.narrow { 32 } else { 5 },
            tiny: pow(if fda.narrow { -100 } else { -1000 }).to_bits(),
            top: top + spec.bias,
            f16_low: fda.via_f16.then_some(spec.bias - 14),
        }
    }

    /// Elements and the exponents of their block scales.
    #[inline(always)]
    fn items(&self, raw: &[u32; 64], shifts: Option<&[i32; 64]>) -> Items {
        let mut it =
            Items { values: [0.0; 64], exponents: [0; 64], significands: [0; 64], negative: [0; 64], flags: [0; 64] };
        let (mut mag, mut none, mut shift) = ([0u32; 64], [0u32; 64], [0i32; 64]);
        for j in 0..64 {
            let bits = raw[j] >> self.ignored;
            it.negative[j] = bits >> self.width & 1;
            let m = bits & ((1 << self.width) - 1);
            let special = (m >= self.special) | (self.fnuz & (it.negative[j] == 1) & (m == 0));
            mag[j] = m;
            none[j] = u32::from(special) << 1 | u32::from((m == 0) | special);
        }
        if let Some(shifts) = shifts {
            for j in 0..64 {
                none[j] |= if shifts[j] == NAN_SHIFT { 3 } else { 0 };
                shift[j] = if none[j] != 0 { 0 } else { shifts[j] };
            }
        }
        for j in 0..64 {
            let normal = (u64::from(mag[j]) << (52 - self.frac_bits)) + self.rebias;
            let sub = (f64::from(mag[j] as i32) * self.subnormal).to_bits();
            let v = if mag[j] >> self.frac_bits == 0 { sub } else { normal };
            let v = if none[j] != 0 { self.tiny } else { v };
            it.values[j] = f64::from_bits(v | self.enlarge | u64::from(it.negative[j]) << 63);
        }
        if shifts.is_some() {
            for j in 0..64 {
                let bits = it.values[j].to_bits().wrapping_add((i64::from(shift[j]) as u64) << 52);
                it.values[j] = f64::from_bits(bits);
            }
        }
        self.fields(&mag, &none, &shift, &mut it);
        it
    }

    /// Exponents, flags and significands.
    #[inline(always)]
    fn fields(&self, mag: &[u32; 64], none: &[u32; 64], shift: &[i32; 64], it: &mut Items) {
        let mut field = [0i32; 64];
        for j in 0..64 {
            field[j] = (mag[j] >> self.frac_bits).max(1) as i32;
        }
        if let Some(low) = self.f16_low {
            for j in 0..64 {
                // A subnormal's exponent once it is f16: that of its leading bit.
                let lead = ((mag[j] as i32 as f32).to_bits() >> 23) as i32 - 126 - self.frac_bits as i32;
                field[j] = if mag[j] >> self.frac_bits == 0 { lead.max(low) } else { field[j].max(low) };
            }
        }
        for j in 0..64 {
            let d = self.top - field[j] - shift[j];
            let tiny = (d >= WINDOW) & (none[j] == 0);
            it.exponents[j] = if (none[j] != 0) | tiny { 0 } else { (127 - d) as u32 & 0xFF };
            it.flags[j] = ((none[j] >> 1) * u32::from(SPECIAL)) | (u32::from(tiny) * u32::from(TINY));
            let normal = (mag[j] >> self.frac_bits != 0) | self.f16_low.is_some();
            it.significands[j] = (mag[j] & ((1 << self.frac_bits) - 1)) | u32::from(normal) << self.frac_bits;
        }
    }
}

/// The exponent that byte 127 stands for: the format's own top where its exponents all fit, else the data's.
fn top_exponent(spec: &FormatSpec, via_f16: bool, codes: &[u32]) -> i32 {
    let (emax, emin) = (spec.max().exponent, spec.emin() - if via_f16 { spec.fraction_bits as i32 } else { 0 });
    if emax - emin < WINDOW {
        return emax;
    }
    let mask = (1u32 << (spec.exponent_bits + spec.fraction_bits)) - 1;
    let (ignored, special) = (spec.ignored_low_bits, first_special(spec));
    let magnitude = |x: &u32| {
        let mag = x >> ignored & mask;
        if mag >= special { 0 } else { mag }
    };
    let best = codes.iter().map(magnitude).fold(0, u32::max);
    (best >> spec.fraction_bits).max(1) as i32 - spec.bias
}

/// Exponents of block scales, line by line and FDA by FDA.
fn shifts_of(fda: &Fda, codes: &[u64], [lines, k]: [usize; 2], to: &mut Vec<i32>) -> i32 {
    to.clear();
    let Some(rule) = fda.unit.scale else { return 0 };
    let (slots, per_slot) = (k / rule.block, rule.block / fda.block);
    for line in 0..lines {
        for s in 0..k / fda.block {
            let scale = rule.format.decode(codes[line * slots + s / per_slot]);
            to.push(if scale.is_nan() { NAN_SHIFT } else { scale.exponent });
        }
    }
    to.iter().copied().filter(|s| *s != NAN_SHIFT).max().unwrap_or(0)
}

/// The value panel, f64 or f32.
enum Values<'a> {
    Wide(&'a mut [f64]),
    Narrow(&'a mut [f32]),
}

impl<'a> Values<'a> {
    fn new(buffer: &'a mut Buffer, narrow: bool, n: usize) -> Self {
        if narrow { Values::Narrow(buffer.room(n)) } else { Values::Wide(buffer.room(n)) }
    }

    #[inline(always)]
    fn copy(&mut self, at: usize, v: &[f64]) {
        match self {
            Values::Wide(to) => to[at..at + v.len()].copy_from_slice(v),
            Values::Narrow(to) => to[at..at + v.len()].iter_mut().zip(v).for_each(|(t, v)| *t = *v as f32),
        }
    }
}

/// Columns `8 c..8 c + 8` of 8 lines, column by column.
#[inline(always)]
fn transpose(lines: &[[u32; 32]; MR], c: usize) -> [u32; 64] {
    let mut to = [0; 64];
    for i in 0..8 {
        for r in 0..MR {
            to[i * MR + r] = lines[r][c * 8 + i];
        }
    }
    to
}

impl Packed {
    /// Room for `groups` groups of `lines` lines with `parts` flag unions each.
    fn begin(&mut self, steps: usize, groups: usize, lines: usize, parts: usize) {
        self.steps = steps;
        for (flags, size) in [(&mut self.flags, lines), (&mut self.any, parts)] {
            flags.clear();
            flags.resize(steps * groups * size, 0);
        }
    }
}

impl Fda {
    /// Packs rows of A, `codes[line * k + p]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_a_avx512(&self, codes: &[u32], scales: &[u64], [rows, k]: [usize; 2], to: &mut Packed) {
        let (l, steps, groups) = (self.block, k / self.block, rows.div_ceil(MR).next_multiple_of(GROUPS));
        to.begin(steps, groups, MR, 1);
        to.top = top_exponent(&self.unit.a, self.via_f16, codes) + shifts_of(self, scales, [rows, k], &mut to.shifts);
        let mut values = Values::new(&mut to.values, self.narrow, groups * MR * k);
        let exponents = to.exponents.room::<u32>(groups * MR * k);
        let signs = to.signs.room::<u32>(groups * MR * steps);
        let decoder = Decoder::new(&self.unit.a, self.scales().0, self, false, to.top);
        let (limit, unit_k) = (self.risk_limit(), self.unit.shape.k);
        let mut lines = [[0u32; 32]; MR];
        let mut shifts = [0i32; 64];
        for g in 0..rows.div_ceil(MR) {
            let real = MR.min(rows - g * MR);
            lines[real..].fill([0; 32]);
            for s in 0..steps {
                let place = (g / GROUPS * steps + s) * GROUPS + g % GROUPS;
                let tile = place * MR;
                for (r, line) in lines.iter_mut().enumerate().take(real) {
                    let row = &codes[(g * MR + r) * k..][..k];
                    self.gather(row, s, unit_k, &mut line[..l]);
                    if !to.shifts.is_empty() {
                        let shift = to.shifts[(g * MR + r) * steps + s];
                        (0..8).for_each(|i| shifts[i * MR + r] = shift);
                    }
                }
                let (mut sum, mut flag, mut mask) = ([0u32; MR], [0u32; MR], [0u32; MR]);
                for c in 0..l.div_ceil(8) {
                    // 8 products by 8 rows at a time.
                    let raw = transpose(&lines, c);
                    let it = if to.shifts.is_empty() {
                        decoder.items(&raw, None)
                    } else {
                        decoder.items(&raw, Some(&shifts))
                    };
                    let n = 64.min((l - c * 8) * MR);
                    values.copy(tile * l + c * 64, &it.values[..n]);
                    for (e, b) in exponents[tile * l + c * 64..][..n].iter_mut().zip(&it.exponents) {
                        *e = *b * 0x0101_0101;
                    }
                    for i in 0..8.min(l - c * 8) {
                        for r in 0..MR {
                            sum[r] += it.significands[i * MR + r];
                            flag[r] |= it.flags[i * MR + r];
                            mask[r] |= it.negative[i * MR + r] << (c * 8 + i);
                        }
                    }
                }
                for r in 0..MR {
                    let flag = flag[r] as u8 | if sum[r] > limit { RISK } else { 0 };
                    to.flags[tile + r] = flag;
                    to.any[place] |= flag;
                }
                signs[tile..tile + MR].copy_from_slice(&mask);
            }
        }
    }

    /// The codes of FDA `s` in a row, in its own order.
    #[inline(always)]
    fn gather(&self, row: &[u32], s: usize, unit_k: usize, to: &mut [u32]) {
        let l = self.block;
        if self.is_in_order() {
            to.copy_from_slice(&row[s * l..][..l]);
        } else {
            let (from, order) = (s * l / unit_k * unit_k, &self.order[s * l % unit_k..][..l]);
            to.iter_mut().zip(order).for_each(|(t, o)| *t = row[from + o]);
        }
    }

    /// Whether FDAs take products as they come.
    fn is_in_order(&self) -> bool {
        self.order.is_sorted()
    }

    /// Packs columns of B, `codes[p * columns + column]`.
    ///
    /// # Safety
    /// The instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn pack_b_avx512(&self, codes: &[u32], scales: &[u64], [columns, k]: [usize; 2], to: &mut Packed) {
        let (l, steps, groups) = (self.block, k / self.block, columns.div_ceil(NR));
        to.begin(steps, groups, NR, 4);
        to.top =
            top_exponent(&self.unit.b, self.via_f16, codes) + shifts_of(self, scales, [columns, k], &mut to.shifts);
        let decoder = Decoder::new(&self.unit.b, self.scales().1, self, true, to.top);
        let mut values = Values::new(&mut to.values, self.narrow, groups * NR * k);
        let exponents = to.exponents.room::<u32>(groups * NR * k / 4);
        let signs = to.signs.room::<u32>(groups * NR * steps);
        let unit_k = self.unit.shape.k;
        let (mut raw, mut shifts) = ([0u32; NR], [0i32; NR]);
        for s in 0..steps {
            for g in 0..groups {
                let place = g * steps + s;
                let tile = place * NR;
                let n = NR.min(columns - g * NR);
                let (mut mask, mut flag) = ([0u32; NR], [0u32; NR]);
                if !to.shifts.is_empty() {
                    (0..n).for_each(|j| shifts[j] = to.shifts[(g * NR + j) * steps + s]);
                }
                for i in 0..l {
                    let p = (s * l + i) / unit_k * unit_k + self.order[(s * l + i) % unit_k];
                    raw[..n].copy_from_slice(&codes[p * columns + g * NR..][..n]);
                    raw[n..].fill(0);
                    let it = if to.shifts.is_empty() {
                        decoder.items(&raw, None)
                    } else {
                        decoder.items(&raw, Some(&shifts))
                    };
                    for j in 0..NR {
                        mask[j] |= it.negative[j] << i;
                        flag[j] |= it.flags[j];
                    }
                    self.put_b(&it, [tile * l, i], &mut values, exponents);
                }
                signs[tile..tile + NR].copy_from_slice(&mask);
                to.flags[tile..tile + NR].iter_mut().zip(&flag).for_each(|(t, f)| *t = *f as u8);
                for t in 0..4 {
                    to.any[place * 4 + t] = flag[16 * t..16 * t + 16].iter().fold(0, |x, y| x | y) as u8;
                }
            }
        }
    }

    /// Position `i` of 64 columns: vector t of 16 columns, f64 with the even columns first; exponent bytes 4 j + t.
    #[inline(always)]
    fn put_b(&self, it: &Items, [tile, i]: [usize; 2], values: &mut Values<'_>, exponents: &mut [u32]) {
        for (t, v) in it.values.as_chunks::<16>().0.iter().enumerate() {
            let at = tile + (t * self.block + i) * 16;
            if self.narrow {
                values.copy(at, v);
                continue;
            }
            let mut halves = [0.0; 16];
            for j in 0..8 {
                (halves[j], halves[8 + j]) = (v[2 * j], v[2 * j + 1]);
            }
            values.copy(at, &halves);
        }
        let (to, e) = (&mut exponents[tile / 4 + i * 16..][..16], &it.exponents);
        for j in 0..16 {
            to[j] = e[j] | e[16 + j] << 8 | e[32 + j] << 16 | e[48 + j] << 24;
        }
    }

    /// Largest sum of A's significands (as integers) for which 32-bit sums of a step cannot overflow:
    /// every product is below `2 s_a 2^F q`, c below `2 2^F q`, and the negative count adds at most 32.
    fn risk_limit(&self) -> u32 {
        let f = self.frac_bits;
        if f > 28 { 0 } else { (((1u32 << (30 - f)) - 1) << self.unit.a.fraction_bits) - 1 }
    }
}
