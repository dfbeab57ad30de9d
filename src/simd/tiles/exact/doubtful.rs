//! Groups whose sums f64 may round: the rounding to 24 bits is right all the same, but near ties.

use super::{GRID, LAST_HIGH, MR, NEAREST, NR, OR, Scales, States, Sums, Vectors, below_two, round};
use crate::simd::exact::{pair, rounded, split};
use crate::simd::lanes::power;
use core::arch::x86_64::*;
use core::slice;

impl Sums {
    /// Groups whose sums in f64 may be rounded: where such a sum is so near a tie, or so small, that this could have
    /// changed its rounding to 24 bits, the vector is done again. All others are multiples of the last place then.
    ///
    /// # Safety
    /// As `Family::steps`.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    pub(super) unsafe fn doubtful<const G: usize>(
        &self,
        (a, b): (*const f64, *const f64),
        [steps, group]: [usize; 2],
        scales: Scales,
        states: &mut States,
        on_grid: &mut bool,
    ) -> bool {
        let group = if G == 0 { group } else { G };
        let error = _mm512_set1_pd(2.0 * errors(group));
        let mut beyond = _mm512_setzero_si512();
        *on_grid = true;
        // SAFETY (whole function): the panels hold the groups' positions, B's and the states aligned.
        let mut before: Vectors = states.load();
        for step in 0..steps {
            let (a, b) = (a.wrapping_add(step * group * MR), b.wrapping_add(step * group * NR));
            let mut d = before;
            for p in 0..group {
                let b = unsafe { [_mm512_load_pd(b.add(p * NR)), _mm512_load_pd(b.add(p * NR + 8))] };
                for (r, d) in d.iter_mut().enumerate() {
                    let a = _mm512_set1_pd(unsafe { *a.add(p * MR + r) });
                    d[0] = _mm512_fmadd_round_pd::<NEAREST>(a, b[0], d[0]);
                    d[1] = _mm512_fmadd_round_pd::<NEAREST>(a, b[1], d[1]);
                }
            }
            let mut nearest = _mm512_set1_pd(f64::INFINITY);
            let mut from_tie: Vectors = [[nearest; 2]; MR];
            for (d, from_tie) in d.as_flattened_mut().iter_mut().zip(from_tie.as_flattened_mut()) {
                let sum = *d;
                *d = round(sum);
                *from_tie = distance(sum, *d);
                nearest = _mm512_min_pd(nearest, *from_tie);
            }
            if _mm512_cmp_pd_mask::<_CMP_GT_OQ>(nearest, error) != !0 {
                let operands = unsafe { [slice::from_raw_parts(a, group * MR), slice::from_raw_parts(b, group * NR)] };
                // A copy, so that the others stay in registers.
                let mut again = d;
                let all_on_grid = self.redo(operands, scales.a + scales.b, (&from_tie, error), &before, &mut again);
                d = again;
                // Earlier groups' states are rounded again.
                *on_grid = all_on_grid || step + 1 < steps;
            }
            for d in &d {
                let [low, high] = d.map(|d| _mm512_castpd_si512(d));
                beyond = _mm512_ternarylogic_epi64::<OR>(beyond, low, high);
            }
            before = d;
        }
        states.store(&before);
        below_two(beyond)
    }

    /// Those vectors whose distance from a tie is no more than the error, without any error: a group on the states
    /// `before`. Returns whether all are multiples of the last place.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    fn redo(
        &self,
        [a, b]: [&[f64]; 2],
        scale: i32,
        (distances, error): (&Vectors, __m512d),
        before: &Vectors,
        states: &mut Vectors,
    ) -> bool {
        let (a, b) = (a.as_chunks::<MR>().0, b.as_chunks::<8>().0);
        let (up, down, mut on_grid) = (power(scale), power(-scale), true);
        // Found without a branch for each, which nothing predicts.
        let mut vectors = 0u32;
        for (n, distance) in distances.as_flattened().iter().enumerate() {
            vectors |= u32::from(_mm512_cmp_pd_mask::<_CMP_GT_OQ>(*distance, error) != !0) << n;
        }
        while vectors != 0 {
            let (r, h) = (vectors.trailing_zeros() as usize / 2, vectors.trailing_zeros() as usize % 2);
            vectors &= vectors - 1;
            let products = a.iter().map(|a| a[r]).zip(b[h..].iter().step_by(2));
            let (mut high, mut low) = if self.body.group == 2 { pair(products) } else { split(products, LAST_HIGH) };
            let (mut state, mut c) = ([0f64; 8], [0f32; 8]);
            // SAFETY: 8 numbers.
            unsafe { _mm512_storeu_pd(state.as_mut_ptr(), before[r][h]) }
            for j in 0..8 {
                (high[j], low[j]) = (high[j] * down, low[j] * down);
                c[j] = (state[j] * down) as f32;
            }
            let d = rounded((high, low), c);
            for j in 0..8 {
                state[j] = f64::from(d[j]) * up;
                on_grid &= (state[j] + GRID) - GRID == state[j];
            }
            // SAFETY: as above.
            states[r][h] = unsafe { _mm512_loadu_pd(state.as_ptr()) };
        }
        on_grid
    }
}

/// The most by which a sum of so many products is wrong: all but the last one are below 4.
const fn errors(group: usize) -> f64 {
    group as f64 / (1u64 << 52) as f64
}

/// How far a sum that was rounded to `d` is from the nearest tie; never more than half a place, and 0 or less for 0. Where
/// it is more than twice the sum's error, the error does not change the rounding: a place then has at least four errors'
/// size, so that below a power of two, where places are half as large, no tie is met either. And such a place is a
/// multiple of the last one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn distance(x: __m512d, d: __m512d) -> __m512d {
    let power = _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY));
    let half = _mm512_set1_pd(1.0 / (1u64 << 24) as f64);
    _mm512_fmsub_round_pd::<NEAREST>(power, half, _mm512_abs_pd(_mm512_sub_pd(x, d)))
}
