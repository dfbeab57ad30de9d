//! Exact(G) on register tiles: sums of products and c that f64 holds without error, then one rounding.
//!
//! Operands are scaled by powers of two so that a group's products sum to less than 1/2 in magnitude; states below 2
//! then leave 50 fraction bits. Where the last places of a step's products are all at or above 2^-50, so is every state
//! that comes of them, and nothing rounds but the last operation of a group: to 24 bits, ties to even, by adding and
//! taking away `1.5 * 2^29` times the sum's power of two. States stay in f64 in between.
//!
//! Where exponents do not prove this, a few groups are tried all the same, and the processor's flags say whether a sum
//! was rounded. If one was, they are done again with a look at each sum: its error is small, and matters only near a
//! tie.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each function says once why its loads and stores are sound")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads through the panels' pointers")]

mod doubtful;

use super::{Family, Fields, MR, NR, Run, Scales, Source, Tile, Tiles};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::buffer::Buffer;
use crate::simd::decode::{Reading, SPECIAL, WIDE};
use crate::simd::exact::Exact;
use crate::simd::flags;
use crate::simd::lanes::power;
use crate::simd::{Avx512, Isa};
use crate::special::NanRule;
use crate::unit::Unit;
use core::arch::x86_64::*;
use std::sync::Arc;

/// The exponent of the lowest place of products and states, which sums below 4 have in f64 too.
const LAST: i32 = -50;
/// Adding it to a state below 2 leaves multiples of that place.
const GRID: f64 = 6.0;
/// The exponent of f32's smallest number.
const LEAST: i32 = -149;
/// Positions of K that are tried together.
const TOGETHER: usize = 64;
/// The exponent of the last place of sums' high parts. The low ones are below 2^-40 and, of 64 products within the
/// bounds of `select`, multiples of 2^-91.
const LAST_HIGH: i32 = -45;
/// A rounding of its own: the usual one, but no flag is raised.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;

/// The family, and what it takes for ordinary.
#[derive(Debug)]
struct Sums {
    body: Exact,
    /// Fraction bits of A's and B's formats.
    bits: [u32; 2],
    /// The exponents of their smallest numbers.
    least: [i32; 2],
}

/// The kernel, for results in f32 and whole groups.
pub(crate) fn select(
    unit: &Unit,
    isa: Isa,
    body: Exact,
    groups: &[Vec<usize>],
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    let _proof = Avx512::new(isa)?;
    let bits = [unit.a.fraction_bits, unit.b.fraction_bits];
    let least = [unit.a, unit.b].map(|spec| spec.emin() - spec.fraction_bits as i32);
    if !super::is_f32(unit) || groups.iter().any(|g| g.len() != body.group) {
        return None;
    }
    let source = |spec| Source::new(spec, Reading::default(), groups, body.group);
    Some(Arc::new(Tiles {
        family: Sums { body, bits, least },
        name: "exact-f64",
        k: unit.shape.k,
        step: body.group,
        nan: F32.nan_code(nan)? as u32,
        a: source(unit.a),
        b: source(unit.b),
        _proof,
    }))
}

impl Family for Sums {
    type Body = Exact;
    type Value = f64;

    fn body(&self) -> &Exact {
        &self.body
    }

    #[inline(always)]
    fn values(numbers: &mut Buffer, to: &mut Buffer, count: usize, scale: i32) {
        let numbers = &numbers.view::<f32>()[..count];
        to.room::<f64>(count).iter_mut().zip(numbers).for_each(|(to, x)| *to = f64::from(*x) * power(scale));
    }

    #[inline(always)]
    fn number(x: f64, scale: i32) -> f32 {
        (x * power(-scale)) as f32
    }

    fn scale(&self, top: u8, columns: bool) -> i32 {
        // Magnitudes below 1, and B's below 1 / 2G.
        let room = if columns { self.body.group.next_power_of_two().ilog2() as i32 + 1 } else { 0 };
        let top = if top == 0 { 127 } else { i32::from(top) };
        126 - top - room
    }

    #[inline(always)]
    fn ordinary(&self, a: Fields, b: Fields, _scales: Scales) -> bool {
        (a.high < 255) & (b.high < 255)
    }

    fn flags(&self, a: Fields, b: Fields) -> u8 {
        let special = a.high == 255 || b.high == 255;
        // Whether one side takes more than half of f64's bits, with room for 32 products.
        let wide = |f: Fields, bits: u32| f.low <= f.high && u32::from(f.high - f.low) + bits + 1 > 24;
        let [bits_a, bits_b] = self.bits;
        (if special { SPECIAL } else { 0 }) | (if wide(a, bits_a) || wide(b, bits_b) { WIDE } else { 0 })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    unsafe fn steps(&self, run: &mut Run<'_, f64>, tile: &mut Tile) -> u8 {
        let scale = run.scales.a + run.scales.b;
        // Results of at least 2^-50 are normal f32.
        if !(-110..=76).contains(&scale) {
            return 0;
        }
        let (mut states, rows, on_grid) = load(tile, run.size, scale);
        if rows == 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        let inside = unsafe {
            match self.body.group {
                2 => self.groups::<2>(run, &mut states, on_grid),
                4 => self.groups::<4>(run, &mut states, on_grid),
                _ => self.groups::<0>(run, &mut states, on_grid),
            }
        };
        if !inside {
            return 0;
        }
        store(&states, rows, tile, scale);
        rows
    }
}

/// A register tile's rows, each of two vectors.
type Vectors = [[__m512d; 2]; MR];

/// States of a register tile in f64, scaled.
#[derive(Clone)]
#[repr(align(64))]
struct States([[f64; NR]; MR]);

impl States {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(&self) -> Vectors {
        // SAFETY: 8 states of 16, aligned.
        core::array::from_fn(|r| core::array::from_fn(|h| unsafe { _mm512_load_pd(self.0[r].as_ptr().add(8 * h)) }))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(&mut self, from: &Vectors) {
        for (from, to) in from.iter().zip(&mut self.0) {
            for (h, x) in from.iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm512_store_pd(to.as_mut_ptr().add(8 * h), *x) }
            }
        }
    }
}

impl Sums {
    /// The exponent of a place at or below the last ones of products: operands are multiples of their format's smallest
    /// number, and of the last place of the smallest at hand.
    #[inline(always)]
    fn last(&self, fields: [Fields; 2]) -> i32 {
        let last = |side: usize| i32::from(fields[side].low) - 127 - self.bits[side] as i32;
        (0..2).map(|side| last(side).max(self.least[side])).sum()
    }

    /// Whether products of such fields are multiples of the last place.
    #[inline(always)]
    fn fit(&self, fields: [&[Fields]; 2], scales: Scales) -> bool {
        self.last(fields.map(Fields::all)) + scales.a + scales.b >= LAST
    }

    /// All groups of a run, of `G` products, or with 0 of any number, on states that are all multiples of the last
    /// place or not. False where a state left the range.
    ///
    /// # Safety
    /// As `Family::steps`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    unsafe fn groups<const G: usize>(&self, run: &mut Run<'_, f64>, states: &mut States, mut on_grid: bool) -> bool {
        let (group, steps) = (if G == 0 { self.body.group } else { G }, run.fields[0].len());
        if on_grid && self.fit(run.fields, run.scales) {
            // SAFETY: the caller's promise.
            return unsafe { chain::<G>((run.a, run.b), [steps, group], states) };
        }
        let at = |step: usize| (run.a.wrapping_add(step * group * MR), run.b.wrapping_add(step * group * NR));
        let mut inside = true;
        let together = (TOGETHER / group).max(1);
        for from in (0..steps).step_by(together) {
            let to = steps.min(from + together);
            // Sums of multiples of f32's smallest number are f32 where they are subnormal.
            let normal = self.last(run.fields.map(|fields| Fields::all(&fields[from..to]))) >= LEAST;
            if normal && run.hope.tries() {
                let before = states.clone();
                flags::clear(flags::INEXACT, &mut states.0);
                // SAFETY: as above.
                let within = unsafe { chain::<G>(at(from), [to - from, group], states) };
                let exact = !flags::raised(flags::INEXACT, &mut states.0);
                run.hope.learn(exact);
                if exact {
                    (inside, on_grid) = (inside & within, false);
                    continue;
                }
                *states = before;
            }
            let fits = |step: usize| self.fit(run.fields.map(|fields| &fields[step..=step]), run.scales);
            let mut step = from;
            while step < to {
                let plain = on_grid && fits(step);
                let more = (step + 1..to).take_while(|&next| plain == fits(next)).count();
                // SAFETY: as above.
                inside &= unsafe {
                    if plain {
                        chain::<G>(at(step), [1 + more, group], states)
                    } else {
                        self.doubtful::<G>(at(step), [1 + more, group], run.scales, states, &mut on_grid)
                    }
                };
                step += 1 + more;
            }
        }
        inside
    }
}

/// Groups of `G` products, or with 0 of any number, whose sums are exact. False where a state left the range.
///
/// # Safety
/// As `Family::steps`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn chain<const G: usize>(
    (a, b): (*const f64, *const f64),
    [steps, group]: [usize; 2],
    states: &mut States,
) -> bool {
    let group = if G == 0 { group } else { G };
    // SAFETY (whole function): the panels hold these positions, B's aligned.
    let mut d = states.load();
    let mut beyond = _mm512_setzero_si512();
    for from in (0..steps * group).step_by(group) {
        for p in from..from + group {
            let b = unsafe { [_mm512_load_pd(b.add(p * 16)), _mm512_load_pd(b.add(p * 16 + 8))] };
            for (r, d) in d.iter_mut().enumerate() {
                let a = _mm512_set1_pd(unsafe { *a.add(p * MR + r) });
                d[0] = _mm512_fmadd_pd(a, b[0], d[0]);
                d[1] = _mm512_fmadd_pd(a, b[1], d[1]);
            }
        }
        for d in &mut d {
            *d = [round(d[0]), round(d[1])];
            let [low, high] = d.map(|d| _mm512_castpd_si512(d));
            beyond = _mm512_ternarylogic_epi64::<OR>(beyond, low, high);
        }
    }
    states.store(&d);
    below_two(beyond)
}

/// Below 2 the exponent's first bit is not set.
#[inline]
#[target_feature(enable = "avx512f")]
fn below_two(states: __m512i) -> bool {
    _mm512_test_epi64_mask(states, _mm512_set1_epi64(1 << 62)) == 0
}

/// Rounds to 24 bits, ties to even, and raises no flag.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn round(x: __m512d) -> __m512d {
    let power = _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY));
    let magic = _mm512_set1_pd(1.5 * (1u64 << 29) as f64);
    _mm512_fnmadd_round_pd::<NEAREST>(power, magic, _mm512_fmadd_round_pd::<NEAREST>(power, magic, x))
}

/// The states, scaled; the rows in which all are below 2; and whether these are multiples of the last place. The other
/// rows and what lies beyond the last row and column hold a small number, which does not grow out of the range soon.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn load(tile: &Tile, [height, width]: [usize; 2], scale: i32) -> (States, u8, bool) {
    let (up, grid, small) = (_mm512_set1_pd(power(scale)), _mm512_set1_pd(GRID), _mm512_set1_pd(0.25));
    let (mut states, mut rows, mut on_grid) = (States([[0.25; NR]; MR]), 0, true);
    for r in 0..height {
        let x: [__m512d; 2] = core::array::from_fn(|h| {
            // SAFETY: 8 floats of 16.
            let c = unsafe { _mm256_loadu_ps(tile.0[r].as_ptr().add(8 * h)) };
            // Minus zero is plus zero.
            let x = _mm512_fmadd_pd(_mm512_cvtps_pd(c), up, _mm512_setzero_pd());
            _mm512_mask_mov_pd(small, (((1u32 << width) - 1) >> (8 * h)) as __mmask8, x)
        });
        let within = |x| _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(x), _mm512_set1_pd(2.0)) == !0;
        if within(x[0]) && within(x[1]) {
            rows |= 1 << r;
            for (h, x) in x.iter().enumerate() {
                let rounded = _mm512_sub_pd(_mm512_add_pd(*x, grid), grid);
                on_grid &= _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(*x, rounded) == !0;
                // SAFETY: 8 states of 16, aligned.
                unsafe { _mm512_store_pd(states.0[r].as_mut_ptr().add(8 * h), *x) }
            }
        }
    }
    (states, rows, on_grid)
}

/// Writes rows of a mask back.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn store(states: &States, rows: u8, tile: &mut Tile, scale: i32) {
    let down = _mm512_set1_pd(power(-scale));
    for (r, to) in tile.0.iter_mut().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
        for h in [0, 8] {
            // SAFETY: 8 states of 16, and as many floats.
            unsafe {
                let d = _mm512_load_pd(states.0[r].as_ptr().add(h));
                _mm256_storeu_ps(to.as_mut_ptr().add(h), _mm512_cvtpd_ps(_mm512_mul_pd(d, down)));
            }
        }
    }
}
