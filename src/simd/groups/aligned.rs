//! The general step: groups and c are aligned to e_max and cut off, two f64 vectors for 16 columns.
//!
//! As in `fda`: an accumulator in `[2^52 q, 2^53 q)` has the truncation step `q = 2^(e_max - F)` as its
//! last place, so a fused multiply-add rounded toward zero adds a term's floor. A term enlarged by one
//! unit in the last place of its scale has the same floor where positive, its distance to the next
//! multiple of q being larger, and one q less than its truncation where negative: the negative terms
//! are counted. Zeros become infinitesimals of their sign, which obey the same rule.

#![allow(clippy::needless_range_loop, reason = "rows and vectors index several arrays")]
#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole vectors")]

use super::bytes::GROUPS;
use super::set::Vnni;
use super::tile::{Operands, ROWS, States, VECTORS};
use super::{Groups, NOTHING};
use core::arch::x86_64::*;
use core::ops::Range;

const RZ: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// What a step needs besides its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aligner {
    frac_bits: i32,
    floor: i32,
    /// The lowest exponent of c, an f32.
    c_emin: i32,
    /// The canonical NaN.
    nan: u32,
}

/// Alignment in a row of 16 columns: accumulators, where they start, and how many negative terms there were.
struct Sum {
    start: [__m512d; 2],
    at: [__m512d; 2],
    negative: __m512i,
}

impl Aligner {
    pub(super) fn new(body: &Groups, nan: u32) -> Self {
        Self { frac_bits: body.frac_bits, floor: body.floor.max(NOTHING), c_emin: body.c_emin, nan }
    }

    /// Steps of some rows of a tile.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn steps<const ROUND: i32>(
        &self,
        set: Vnni,
        x: &Operands<'_>,
        steps: Range<usize>,
        rows: &[usize],
        c: &mut States,
    ) {
        let mut sums = [[[_mm512_setzero_si512(); VECTORS]; ROWS]; GROUPS];
        for s in steps {
            let groups = s * x.per_step()..(s + 1) * x.per_step();
            for (sums, g) in sums.iter_mut().zip(groups.clone()) {
                // SAFETY: the caller's promise.
                *sums = unsafe { x.sums::<Vnni, 0>(set, g, [0, 0]) };
            }
            for &r in rows {
                for v in 0..VECTORS {
                    let c = &mut c.0[r].as_chunks_mut::<16>().0[v];
                    // SAFETY: the caller's promise; 16 floats.
                    unsafe {
                        let d = self.step::<ROUND>(x, groups.clone(), [r, v], &sums, _mm512_load_ps(c.as_ptr()));
                        _mm512_store_ps(c.as_mut_ptr(), d);
                    }
                }
            }
        }
    }

    /// One step of a row and 16 columns.
    ///
    /// # Safety
    /// The groups are in the panels.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn step<const ROUND: i32>(
        &self,
        x: &Operands<'_>,
        groups: Range<usize>,
        [r, v]: [usize; 2],
        sums: &[[[__m512i; VECTORS]; ROWS]; GROUPS],
        c: __m512,
    ) -> __m512 {
        let field = _mm512_set1_epi32(0x7F80_0000);
        let finite = _mm512_cmplt_epi32_mask(_mm512_and_si512(_mm512_castps_si512(c), field), field);
        let term = _mm512_maskz_mov_ps(finite, c);
        let mut e_max = self.floor_or(term);
        for g in groups.clone() {
            // SAFETY: the caller's promise; 16 integers.
            let [present, exponents] = [&x.present_b, &x.exponents_b]
                .map(|panel| unsafe { _mm512_loadu_si512(panel[g].as_ptr().add(16 * v).cast()) });
            let here = _mm512_test_epi32_mask(present, _mm512_set1_epi32(x.present_a[g][r]));
            let exponent = _mm512_add_epi32(exponents, _mm512_set1_epi32(x.exponents_a[g][r]));
            e_max = _mm512_mask_max_epi32(e_max, here, e_max, exponent);
        }
        let mut sum = self.start(e_max, term);
        for (sums, g) in sums.iter().zip(groups) {
            let a = _mm512_set1_pd(x.scales_a[g][r].into());
            // SAFETY: 16 floats.
            let b = unsafe { _mm512_loadu_ps(x.scales_b[g].as_ptr().add(16 * v)) };
            sum.add(sums[r][v], a, b);
        }
        self.encode::<ROUND>(&sum, c, finite)
    }

    /// The larger of the floor and c's exponent, which counts unless c is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn floor_or(&self, c: __m512) -> __m512i {
        let floor = _mm512_set1_epi32(self.floor);
        let magnitude = _mm512_and_si512(_mm512_castps_si512(c), _mm512_set1_epi32(i32::MAX));
        let exponent = _mm512_sub_epi32(_mm512_srli_epi32::<23>(magnitude), _mm512_set1_epi32(127));
        let exponent = _mm512_max_epi32(exponent, _mm512_set1_epi32(self.c_emin));
        _mm512_mask_max_epi32(floor, _mm512_test_epi32_mask(magnitude, magnitude), floor, exponent)
    }

    /// Accumulators at 1.5 * 2^52 q, and c.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn start(&self, e_max: __m512i, c: __m512) -> Sum {
        let start = [0, 1].map(|h| {
            let e = _mm512_cvtepi32_epi64(half(e_max, h));
            let field = _mm512_add_epi64(e, _mm512_set1_epi64((1023 + 52 - self.frac_bits).into()));
            let bits = _mm512_or_si512(_mm512_slli_epi64::<52>(field), _mm512_set1_epi64(1 << 51));
            _mm512_castsi512_pd(bits)
        });
        let at = [0, 1].map(|h| {
            let c = _mm512_cvtps_pd(_mm256_castsi256_ps(half(_mm512_castps_si512(c), h)));
            _mm512_add_round_pd::<RZ>(start[h], enlarged(c))
        });
        let mut sum = Sum { start, at, negative: _mm512_setzero_si512() };
        sum.count(_mm512_castps_si512(c));
        sum
    }

    /// The sum rounded once, or what NaN and infinities make of it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn encode<const ROUND: i32>(&self, sum: &Sum, c: __m512, finite: __mmask16) -> __m512 {
        let [low, high] = [0, 1].map(|h| {
            // Units in the last place are q: floors become truncations.
            let more = _mm512_cvtepu32_epi64(half(sum.negative, h));
            let at = _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(sum.at[h]), more));
            let total = _mm512_sub_pd(at, sum.start[h]);
            // From 2^128 on magnitudes are infinite, in RZ too.
            let infinite = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(_mm512_abs_pd(total), _mm512_set1_pd(2f64.powi(128)));
            let total = _mm512_mask_mul_pd(total, infinite, total, _mm512_set1_pd(f64::INFINITY));
            _mm512_cvt_roundpd_ps::<ROUND>(total)
        });
        // A zero is +0.
        let d = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high);
        let d = _mm512_add_ps(d, _mm512_setzero_ps());
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(d, d);
        let d = _mm512_mask_mov_ps(d, !finite & !nan, c);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(d, d);
        _mm512_mask_mov_ps(d, nan, _mm512_castsi512_ps(_mm512_set1_epi32(self.nan as i32)))
    }
}

impl Sum {
    /// Adds a group: its sum of products times both scales.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn add(&mut self, products: __m512i, a: __m512d, b: __m512) {
        for h in 0..2 {
            let b = _mm512_cvtps_pd(_mm256_castsi256_ps(half(_mm512_castps_si512(b), h)));
            let scale = enlarged(_mm512_mul_pd(a, b));
            self.at[h] = _mm512_fmadd_round_pd::<RZ>(_mm512_cvtepi32_pd(half(products, h)), scale, self.at[h]);
        }
        self.count(products);
    }

    /// Counts lanes with their sign bit set.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn count(&mut self, terms: __m512i) {
        self.negative = _mm512_add_epi32(self.negative, _mm512_srli_epi32::<31>(terms));
    }
}

/// A number whose last bit was 0, that bit set.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn enlarged(x: __m512d) -> __m512d {
    _mm512_or_pd(x, _mm512_castsi512_pd(_mm512_set1_epi64(1)))
}

/// The first or second 8 lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn half(x: __m512i, h: usize) -> __m256i {
    if h == 0 { _mm512_castsi512_si256(x) } else { _mm512_extracti64x4_epi64::<1>(x) }
}
