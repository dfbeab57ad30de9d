//! SFMA: `d = fma(a_k, b_k, d)` for k in order, IEEE round to nearest even (AVX-512).
//!
//! The hardware's own FMA is the unit's, so this is a native product whose K order is never changed;
//! only NaN payloads need care. Subnormals are kept, for nothing here sets the flags that flush them.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole rows")]

use super::buffer::Buffer;
use super::{Avx512, Isa};
use crate::accumulate::{Recipe, SequentialFma};
use crate::format::{F32, F64, FormatSpec};
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::unit::Unit;
use crate::view::View;
use core::arch::x86_64::*;
use core::ops::Range;
use std::sync::Arc;

/// Rows of a micro-tile.
const MR: usize = 6;
/// Vectors across a micro-tile.
const VECTORS: usize = 4;
/// Rows of a tile.
const MC: usize = 256;
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
    ($name:ident, $ty:ty, $bits:ty, $lanes:literal, $mask:ty, $codes:ident, $width:ident, $spec:ident, $text:literal,
     [$vector:ty, $zero:ident, $load:ident, $store:ident, $set:ident, $fma:ident, $compare:ident, $blend:ident]) => {
        /// The kernel for one type.
        #[derive(Debug)]
        struct $name {
            nan: NanRule,
            /// Products per unit step.
            k: usize,
            _proof: Avx512,
        }

        impl $name {
            /// Columns of a micro-tile.
            const NR: usize = VECTORS * $lanes;
            /// Positions of K in a block of a panel: a row of A takes so many, and a cache line more, lest all rows
            /// fall into the same sets of a cache.
            const DEPTH: usize = 2048 / size_of::<$ty>();
            const ROW: usize = Self::DEPTH + $lanes;

            /// Positions `ks` of K, a block after another, on a tile of `m` rows and `n` columns.
            #[target_feature(enable = "avx512f")]
            fn steps(&self, a: &[$ty], b: &[$ty], ks: Range<usize>, k: usize, [m, n]: [usize; 2], state: &mut [$ty]) {
                let mut from = ks.start;
                while from < ks.end {
                    let start = from / Self::DEPTH * Self::DEPTH;
                    let (depth, to) = (Self::DEPTH.min(k - start), ks.end.min(start + Self::DEPTH));
                    let (a, b) =
                        (&a[start / Self::DEPTH * m * Self::ROW..], &b[start * n.next_multiple_of(Self::NR)..]);
                    self.block(a, b, from - start..to - start, depth, [m, n], state);
                    from = to;
                }
            }

            #[target_feature(enable = "avx512f")]
            fn block(&self, a: &[$ty], b: &[$ty], ks: Range<usize>, k: usize, [m, n]: [usize; 2], state: &mut [$ty]) {
                for j in (0..n).step_by(Self::NR) {
                    let b = &b[j * k + ks.start * Self::NR..][..ks.len() * Self::NR];
                    let columns = Self::NR.min(n - j);
                    for i in (0..m).step_by(MR) {
                        let a = &a[i * Self::ROW + ks.start..];
                        let rows = MR.min(m - i);
                        let state = &mut state[i * n + j..];
                        // The next tile's states are on other pages: ask for them early.
                        for r in MR..2 * MR {
                            let row = state.as_ptr().wrapping_add(r * n);
                            for v in 0..VECTORS {
                                #[allow(unused_unsafe, reason = "a safe function in later versions of Rust")]
                                // SAFETY: a hint; any address will do.
                                unsafe {
                                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(v * $lanes).cast());
                                }
                            }
                        }
                        match columns.div_ceil($lanes) {
                            1 => self.tile_of::<1>(a, b, [rows, columns], state, n),
                            2 => self.tile_of::<2>(a, b, [rows, columns], state, n),
                            3 => self.tile_of::<3>(a, b, [rows, columns], state, n),
                            _ => self.tile_of::<4>(a, b, [rows, columns], state, n),
                        }
                    }
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn tile_of<const V: usize>(
                &self,
                a: &[$ty],
                b: &[$ty],
                [rows, columns]: [usize; 2],
                c: &mut [$ty],
                ld: usize,
            ) {
                match rows {
                    1 => self.tile::<1, V>(a, b, columns, c, ld),
                    2 => self.tile::<2, V>(a, b, columns, c, ld),
                    3 => self.tile::<3, V>(a, b, columns, c, ld),
                    4 => self.tile::<4, V>(a, b, columns, c, ld),
                    5 => self.tile::<5, V>(a, b, columns, c, ld),
                    _ => self.tile::<6, V>(a, b, columns, c, ld),
                }
            }

            /// R rows by V vectors, of the last of which `columns` may leave some lanes out.
            #[target_feature(enable = "avx512f")]
            fn tile<const R: usize, const V: usize>(
                &self,
                a: &[$ty],
                b: &[$ty],
                columns: usize,
                c: &mut [$ty],
                ld: usize,
            ) {
                let b = b.as_chunks::<{ VECTORS * $lanes }>().0;
                assert!(columns.div_ceil($lanes) == V && columns <= ld && c.len() >= (R - 1) * ld + columns);
                assert!(a.len() >= (R - 1) * Self::ROW + b.len());
                let lanes = |v: usize| if v + 1 < V { !0 } else { (!0 as $mask) >> (V * $lanes - columns) };
                let (a, c) = (a.as_ptr(), c.as_mut_ptr());
                let mut d: [[$vector; V]; R] = [[$zero(); V]; R];
                for r in 0..R {
                    // SAFETY: the lanes of the mask are in row `r` of `c`, as asserted above.
                    (0..V).for_each(|v| d[r][v] = unsafe { $load(lanes(v), c.add(r * ld + v * $lanes)) });
                }
                for (k, b) in b.iter().enumerate() {
                    let mut bv = [$zero(); V];
                    // SAFETY: `b` has `VECTORS` vectors.
                    (0..V).for_each(|v| bv[v] = unsafe { $load(!0, b.as_ptr().add(v * $lanes)) });
                    for r in 0..R {
                        // SAFETY: the last of these is in `a`, as asserted above.
                        let x = $set(unsafe { *a.add(r * Self::ROW + k) });
                        for v in 0..V {
                            d[r][v] = $fma(x, bv[v], d[r][v]);
                        }
                    }
                }
                let nan = $set(self.nan());
                for r in 0..R {
                    for v in 0..V {
                        let x = $blend(d[r][v], $compare::<_CMP_UNORD_Q>(d[r][v], d[r][v]), nan);
                        // SAFETY: as for the loads.
                        unsafe { $store(c.add(r * ld + v * $lanes), lanes(v), x) }
                    }
                }
            }

            /// The one NaN.
            fn nan(&self) -> $ty {
                <$ty>::from_bits($spec.nan_code(self.nan).unwrap_or_default() as $bits)
            }

            /// `[block][row][k in block]`.
            fn pack_rows(panel: &mut Panel, codes: &View<'_, $bits>) {
                let mut packed = panel.take_packed::<Buffer>();
                let (m, k) = (panel.lines, panel.k);
                let to = packed.room::<$ty>(k.div_ceil(Self::DEPTH) * m * Self::ROW);
                for (i, p) in (0..m).flat_map(|i| (0..k).step_by(Self::DEPTH).map(move |p| (i, p))) {
                    let to = &mut to[(p / Self::DEPTH * m + i) * Self::ROW..];
                    codes.read_block([i..i + 1, p..k.min(p + Self::DEPTH)], to, Self::ROW, <$ty>::from_bits);
                }
                panel.put_packed(packed);
            }

            /// `[block][group][k in block][column in group]`, zero beyond.
            fn pack_columns(panel: &mut Panel, codes: &View<'_, $bits>) {
                let mut packed = panel.take_packed::<Buffer>();
                let (k, n) = (panel.k, panel.lines);
                let wide = n.next_multiple_of(Self::NR);
                let to = packed.room::<$ty>(wide * k);
                for start in (0..k).step_by(Self::DEPTH) {
                    let depth = Self::DEPTH.min(k - start);
                    let to = &mut to[start * wide..][..depth * wide];
                    // A few whole rows at a time, for memory is fastest in long runs.
                    for p in (0..depth).step_by(8) {
                        let rows = start + p..start + depth.min(p + 8);
                        for j in (0..n).step_by(Self::NR) {
                            let to = &mut to[j * depth + p * Self::NR..][..rows.len() * Self::NR];
                            if n - j < Self::NR {
                                to.fill(0.0);
                            }
                            codes.read_block([rows.clone(), j..n.min(j + Self::NR)], to, Self::NR, <$ty>::from_bits);
                        }
                    }
                }
                panel.put_packed(packed);
            }

            /// The staged codes as a matrix of `shape`.
            fn staged<R>(panel: &mut Panel, shape: [usize; 2], f: impl FnOnce(&mut Panel, &View<'_, $bits>) -> R) {
                let codes = core::mem::take(&mut panel.codes);
                let Staged::$codes(words) = &codes else { unreachable!("operands of this width") };
                let view = View::from_slice(words, shape, [shape[1] as isize, 1], 0);
                f(panel, &view.expect("as many codes as elements"));
                panel.codes = codes;
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

            fn depth(&self) -> usize {
                Self::DEPTH
            }

            fn pack_a(&self, panel: &mut Panel) {
                Self::staged(panel, [panel.lines, panel.k], Self::pack_rows);
            }

            fn pack_b(&self, panel: &mut Panel) {
                Self::staged(panel, [panel.k, panel.lines], Self::pack_columns);
            }

            fn pack_a_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
                let Codes::$width(view) = codes else { return false };
                Self::pack_rows(panel, view);
                true
            }

            fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
                let Codes::$width(view) = codes else { return false };
                Self::pack_columns(panel, view);
                true
            }

            fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
                let Lanes::$codes(state) = state else { unreachable!("states of this width") };
                // SAFETY: floats and integers of one size, all bit patterns valid in both.
                let state = unsafe { core::slice::from_raw_parts_mut(state.as_mut_ptr().cast::<$ty>(), state.len()) };
                let ks = steps.start * self.k..steps.end * self.k;
                let (left, right) = (a.packed::<Buffer>().view(), b.packed::<Buffer>().view());
                // SAFETY: `select` has the proof that the instructions are there.
                unsafe { self.steps(left, right, ks, a.k, [a.lines, b.lines], state) }
            }
        }
    };
}

sfma!(
    Sfma32,
    f32,
    u32,
    16,
    __mmask16,
    Narrow,
    U32,
    F32,
    "f32",
    [
        __m512,
        _mm512_setzero_ps,
        _mm512_maskz_loadu_ps,
        _mm512_mask_storeu_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        _mm512_cmp_ps_mask,
        _mm512_mask_mov_ps
    ]
);
sfma!(
    Sfma64,
    f64,
    u64,
    8,
    __mmask8,
    Wide,
    U64,
    F64,
    "f64",
    [
        __m512d,
        _mm512_setzero_pd,
        _mm512_maskz_loadu_pd,
        _mm512_mask_storeu_pd,
        _mm512_set1_pd,
        _mm512_fmadd_pd,
        _mm512_cmp_pd_mask,
        _mm512_mask_mov_pd
    ]
);
