//! Tiles of 4 rows by 32 columns: groups' sums by integer dot products, and steps that cut nothing off.

#![allow(clippy::needless_range_loop, reason = "rows and vectors index several arrays")]
#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

use super::vnni::{COLUMNS, ROWS};
use core::arch::x86_64::*;
use core::ops::Range;

/// Vectors of a tile's columns.
pub(super) const VECTORS: usize = COLUMNS / 16;

/// f32 states.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct States(pub(super) [[f32; COLUMNS]; ROWS]);

/// A block of rows of A, and one of columns of B: `pack` says how they are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands<'a> {
    pub(super) a: &'a [i8],
    pub(super) starts: &'a [[i32; ROWS]],
    pub(super) scales_a: &'a [[f32; ROWS]],
    pub(super) b: &'a [u8],
    pub(super) scales_b: &'a [[f32; COLUMNS]],
    pub(super) exponents_a: &'a [[i32; ROWS]],
    pub(super) present_a: &'a [[i32; ROWS]],
    pub(super) exponents_b: &'a [[i32; COLUMNS]],
    pub(super) present_b: &'a [[i32; COLUMNS]],
    /// K of a step, and of a group.
    pub(super) step: usize,
    pub(super) group: usize,
}

/// Exact sums of a group's products, `[row][vector]`.
pub(super) type Sums = [[__m512i; VECTORS]; ROWS];

impl Operands<'_> {
    pub(super) const fn per_step(&self) -> usize {
        self.step / self.group
    }

    /// The sums of group `g`, counted over all steps; groups are of `4 Q` products, or with 0 of any number.
    ///
    /// # Safety
    /// The group is in the panels.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn sums<const Q: usize>(&self, g: usize) -> Sums {
        let quads = if Q == 0 { self.group / 4 } else { Q };
        let (s, of_step) = (g / self.per_step(), g % self.per_step());
        let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
        // SAFETY: the caller's promise; a quad is 4 bytes of each row, and 4 of each column.
        unsafe {
            let a = self.a.as_ptr().add(s * ROWS * self.step + of_step * self.group);
            let b = self.b.as_ptr().add(g * self.group * COLUMNS);
            for r in 0..ROWS {
                sums[r] = [_mm512_set1_epi32(self.starts.get_unchecked(g)[r]); VECTORS];
            }
            for q in 0..quads {
                let b: [_; VECTORS] = core::array::from_fn(|v| _mm512_load_si512(b.add((q * VECTORS + v) * 64).cast()));
                for r in 0..ROWS {
                    let a = _mm512_set1_epi32(a.add(r * self.step + 4 * q).cast::<i32>().read_unaligned());
                    for v in 0..VECTORS {
                        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], b[v], a);
                    }
                }
            }
        }
        sums
    }

    /// Steps whose sums f32 holds: exact in f32, and rounded once with c.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn narrow<const Q: usize, const ROUND: i32>(&self, steps: Range<usize>, c: &mut States) {
        for s in steps {
            let mut total = [[_mm512_setzero_ps(); VECTORS]; ROWS];
            for g in s * self.per_step()..(s + 1) * self.per_step() {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums::<Q>(g) };
                // SAFETY: as above; 16 floats each, aligned as the panel is.
                let b: [_; VECTORS] = core::array::from_fn(|v| unsafe {
                    _mm512_load_ps(self.scales_b.get_unchecked(g).as_ptr().add(16 * v))
                });
                for r in 0..ROWS {
                    // SAFETY: as above.
                    let a = _mm512_set1_ps(unsafe { self.scales_a.get_unchecked(g)[r] });
                    for v in 0..VECTORS {
                        let scale = _mm512_mul_ps(a, b[v]);
                        total[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][v]), scale, total[r][v]);
                    }
                }
            }
            for (c, total) in c.0.iter_mut().zip(total) {
                for (c, total) in c.as_chunks_mut::<16>().0.iter_mut().zip(total) {
                    // SAFETY: 16 floats, aligned as the states are.
                    unsafe {
                        let d = _mm512_add_round_ps::<ROUND>(_mm512_load_ps(c.as_ptr()), total);
                        _mm512_store_ps(c.as_mut_ptr(), d);
                    }
                }
            }
        }
    }

    /// Steps whose sums only f64 holds.
    ///
    /// # Safety
    /// The steps are in the panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn wide<const Q: usize, const ROUND: i32>(&self, steps: Range<usize>, c: &mut States) {
        for s in steps {
            let mut total = [[_mm512_setzero_pd(); 2 * VECTORS]; ROWS];
            for r in 0..ROWS {
                for h in 0..2 * VECTORS {
                    // SAFETY: 8 floats.
                    total[r][h] = _mm512_cvtps_pd(unsafe { _mm256_load_ps(c.0[r].as_ptr().add(8 * h)) });
                }
            }
            for g in s * self.per_step()..(s + 1) * self.per_step() {
                // SAFETY: the caller's promise.
                let sums = unsafe { self.sums::<Q>(g) };
                for h in 0..2 * VECTORS {
                    // SAFETY: as above; 8 floats.
                    let b = unsafe { _mm256_load_ps(self.scales_b.get_unchecked(g).as_ptr().add(8 * h)) };
                    let b = _mm512_cvtps_pd(b);
                    for r in 0..ROWS {
                        // SAFETY: as above.
                        let a = _mm512_set1_pd(unsafe { self.scales_a.get_unchecked(g)[r] }.into());
                        let sum = _mm512_cvtepi32_pd(half(sums[r][h / 2], h % 2));
                        total[r][h] = _mm512_fmadd_pd(sum, _mm512_mul_pd(a, b), total[r][h]);
                    }
                }
            }
            for r in 0..ROWS {
                for h in 0..2 * VECTORS {
                    let d = _mm512_cvt_roundpd_ps::<ROUND>(total[r][h]);
                    // SAFETY: 8 floats.
                    unsafe { _mm256_store_ps(c.0[r].as_mut_ptr().add(8 * h), d) }
                }
            }
        }
    }
}

/// The first or second 8 lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn half(x: __m512i, h: usize) -> __m256i {
    if h == 0 { _mm512_castsi512_si256(x) } else { _mm512_extracti64x4_epi64::<1>(x) }
}
