//! SFMA: `d = fma(a_k, b_k, d)` for k in order, IEEE round to nearest even (AVX-512).
//!
//! The hardware's own FMA is the unit's, so this is a native product whose K order is never changed;
//! only NaN payloads need care. Subnormals are kept, for nothing here sets the flags that flush them.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole rows")]

use super::buffer::Buffer;
use super::{Avx512, Isa};
use crate::accumulate::{Recipe, SequentialFma};
use crate::format::{F32, F64, FormatSpec};
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::unit::Unit;
use core::arch::x86_64::*;
use core::ops::Range;
use std::sync::Arc;

/// Rows of a micro-tile; columns are four vectors.
const MR: usize = 6;
/// Rows of a tile.
const MC: usize = 252;
/// Columns of a tile.
const NC: usize = 256;

/// The kernel, where it is exact: operands and results all in f32, or all in f64.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let proof = Avx512::new(isa)?;
    let Some(Recipe::Sequential(SequentialFma { rounding: Rounding::NearestEven, nan })) = unit.recipe else {
        return None;
    };
    let k = unit.shape.k;
    let all = |spec: FormatSpec| {
        [unit.a, unit.b, unit.c, unit.d].iter().all(|f| FormatSpec { name: spec.name, ..*f } == spec)
    };
    if all(F32) {
        return Some(Arc::new(Sfma32 { nan, k, _proof: proof }));
    }
    all(F64).then(|| Arc::new(Sfma64 { nan, k, _proof: proof }) as Arc<dyn Kernel>)
}

macro_rules! sfma {
    ($name:ident, $ty:ty, $bits:ty, $lanes:literal, $codes:ident, $spec:ident, $text:literal,
     [$vector:ty, $zero:ident, $load:ident, $store:ident, $set:ident, $fma:ident]) => {
        /// The kernel for one type.
        #[derive(Debug)]
        struct $name {
            nan: NanRule,
            /// Products per unit step.
            k: usize,
            _proof: Avx512,
        }

        impl $name {
            const NR: usize = 4 * $lanes;

            /// All steps on a tile of `m` rows and `n` columns.
            #[target_feature(enable = "avx512f")]
            fn steps(a: &[$ty], b: &[$ty], ks: Range<usize>, k: usize, [m, n]: [usize; 2], state: &mut [$ty]) {
                for j in (0..n).step_by(Self::NR) {
                    let b = &b[j * k + ks.start * Self::NR..][..ks.len() * Self::NR];
                    for i in (0..m).step_by(MR) {
                        let a = &a[i * k + ks.start * MR..][..ks.len() * MR];
                        // The next tile's states are on other pages: ask for them early.
                        for r in i + MR..m.min(i + 2 * MR) {
                            let row = state[r * n + j..].as_ptr();
                            (0..4).for_each(|v| _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(v * $lanes).cast()));
                        }
                        let size = [MR.min(m - i), Self::NR.min(n - j)];
                        Self::tile_or_edge(a, b, size, &mut state[i * n + j..], n);
                    }
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn tile_or_edge(a: &[$ty], b: &[$ty], [rows, columns]: [usize; 2], c: &mut [$ty], ld: usize) {
                if rows == MR && columns == Self::NR {
                    return Self::tile(a, b, c, ld);
                }
                let mut edge = [0.0; MR * Self::NR];
                (0..rows).for_each(|r| edge[r * Self::NR..][..columns].copy_from_slice(&c[r * ld..][..columns]));
                Self::tile(a, b, &mut edge, Self::NR);
                (0..rows).for_each(|r| c[r * ld..][..columns].copy_from_slice(&edge[r * Self::NR..][..columns]));
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn tile(a: &[$ty], b: &[$ty], c: &mut [$ty], ld: usize) {
                let mut d: [[$vector; 4]; MR] = [[$zero(); 4]; MR];
                for r in 0..MR {
                    let row = &c[r * ld..][..Self::NR];
                    // SAFETY: `row` has NR elements.
                    (0..4).for_each(|v| d[r][v] = unsafe { $load(row.as_ptr().add(v * $lanes)) });
                }
                for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<{ 4 * $lanes }>().0) {
                    let mut bv = [$zero(); 4];
                    // SAFETY: `b` has NR elements.
                    (0..4).for_each(|v| bv[v] = unsafe { $load(b.as_ptr().add(v * $lanes)) });
                    for r in 0..MR {
                        let x = $set(a[r]);
                        for v in 0..4 {
                            d[r][v] = $fma(x, bv[v], d[r][v]);
                        }
                    }
                }
                for r in 0..MR {
                    let row = &mut c[r * ld..][..Self::NR];
                    // SAFETY: `row` has NR elements.
                    (0..4).for_each(|v| unsafe { $store(row.as_mut_ptr().add(v * $lanes), d[r][v]) });
                }
            }

            fn codes(panel: &Panel) -> &[$bits] {
                let Staged::$codes(codes) = &panel.codes else { unreachable!("operands of this width") };
                codes
            }
        }

        impl Kernel for $name {
            fn name(&self) -> &'static str {
                concat!("sfma-", $text)
            }

            fn why(&self) -> String {
                concat!("a chain of ", $text, " fused multiply-adds to nearest even: the processor's own").into()
            }

            fn tile(&self) -> [usize; 2] {
                [MC, NC]
            }

            fn panel_bytes(&self) -> usize {
                size_of::<$ty>()
            }

            /// `[group][k][row in group]`, zero beyond.
            fn pack_a(&self, panel: &mut Panel) {
                let mut packed = panel.take_packed::<Buffer>();
                let (k, codes) = (panel.k, Self::codes(panel));
                let to = packed.room::<$ty>(panel.lines.next_multiple_of(MR) * k);
                for (g, to) in to.chunks_mut(MR * k).enumerate().take(panel.lines.div_ceil(MR)) {
                    for r in 0..MR {
                        let row = codes.get((g * MR + r) * k..).unwrap_or_default();
                        let row = row.iter().chain(core::iter::repeat(&0));
                        to.iter_mut().skip(r).step_by(MR).zip(row).for_each(|(t, x)| *t = <$ty>::from_bits(*x));
                    }
                }
                panel.put_packed(packed);
            }

            /// `[group][k][column in group]`, zero beyond.
            fn pack_b(&self, panel: &mut Panel) {
                let mut packed = panel.take_packed::<Buffer>();
                let (k, n, codes) = (panel.k, panel.lines, Self::codes(panel));
                let to = packed.room::<$ty>(n.next_multiple_of(Self::NR) * k);
                for (g, to) in to.chunks_mut(Self::NR * k).enumerate().take(n.div_ceil(Self::NR)) {
                    let real = Self::NR.min(n - g * Self::NR);
                    for (p, to) in to.chunks_mut(Self::NR).enumerate() {
                        let from = &codes[p * n + g * Self::NR..][..real];
                        to.iter_mut().zip(from).for_each(|(t, x)| *t = <$ty>::from_bits(*x));
                        to[real..].fill(0.0);
                    }
                }
                panel.put_packed(packed);
            }

            fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
                let Lanes::$codes(state) = state else { unreachable!("states of this width") };
                // SAFETY: floats and integers of one size, all bit patterns valid in both.
                let state = unsafe { core::slice::from_raw_parts_mut(state.as_mut_ptr().cast::<$ty>(), state.len()) };
                let ks = steps.start * self.k..steps.end * self.k;
                let (left, right) = (a.packed::<Buffer>().view(), b.packed::<Buffer>().view());
                // SAFETY: `select` has the proof that the instructions are there.
                unsafe { Self::steps(left, right, ks, a.k, [a.lines, b.lines], state) }
                let nan = <$ty>::from_bits($spec.nan_code(self.nan).unwrap_or_default() as $bits);
                state.iter_mut().for_each(|x| *x = if x.is_nan() { nan } else { *x });
            }
        }
    };
}

sfma!(
    Sfma32,
    f32,
    u32,
    16,
    Narrow,
    F32,
    "f32",
    [__m512, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps]
);
sfma!(
    Sfma64,
    f64,
    u64,
    8,
    Wide,
    F64,
    "f64",
    [__m512d, _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd]
);
