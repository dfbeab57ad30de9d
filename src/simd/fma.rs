//! SFMA: `d = fma(a_k, b_k, d)` for k in order, in f32 or f64. The machine's own FMA is the unit's, so
//! this is a native product whose K order never changes. Where the machine has none: `without_fma`.
//! x86 processors have register tiles for products (`sfma`); of these only single dot-adds are left to it there.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]

use super::wide::{self, Work, in_order};
use super::{Isa, Short};
use crate::accumulate::Recipe;
use crate::format::{F32, F64, FormatSpec};
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Line, Panel, Staged};
use crate::round::Rounding;
use crate::unit::Unit;
use crate::view::View;
use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

/// Rows in registers.
const MR: usize = 6;

/// The kernel for chains in f32 and f64 to nearest even.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Sequential(s)) = unit.recipe else { return None };
    if isa == Isa::Portable || s.rounding != Rounding::NearestEven || unit.scale.is_some() {
        return None;
    }
    let all =
        |g: FormatSpec| [unit.a, unit.b, unit.c, unit.d].into_iter().all(|f| FormatSpec { name: g.name, ..f } == g);
    let nan = unit.d.nan_code(s.nan)?;
    if all(F32) {
        Some(Arc::new(Chain::<f32> { isa, step: unit.shape.k, nan: f32::from_bits(nan as u32) }))
    } else if all(F64) {
        Some(Arc::new(Chain::<f64> { isa, step: unit.shape.k, nan: f64::from_bits(nan) }))
    } else {
        None
    }
}

/// f32 or f64.
trait Real: Copy + Default + Debug + Send + Sync + 'static {
    /// Columns in registers.
    const NR: usize;
    fn fma(self, by: Self, plus: Self) -> Self;
    /// The state as numbers.
    fn state(lanes: Lanes<'_>) -> &mut [Self::Code];
    type Code: Copy + Into<u64>;
    /// Operands of this width.
    fn codes<'a>(codes: &Codes<'a>) -> Option<View<'a, Self::Code>>;
    fn staged(codes: &Staged) -> &[Self::Code];
    fn is_nan(self) -> bool;
    fn from_code(code: Self::Code) -> Self;
    /// Of a code's low bits.
    fn from_wide(code: u64) -> Self;
    fn code(self) -> Self::Code;
}

macro_rules! real {
    ($ty:ident, $code:ident, $nr:literal, $variant:ident, $width:ident) => {
        impl Real for $ty {
            const NR: usize = $nr;
            type Code = $code;
            #[inline(always)]
            fn fma(self, by: Self, plus: Self) -> Self {
                self.mul_add(by, plus)
            }
            fn state(lanes: Lanes<'_>) -> &mut [$code] {
                let Lanes::$variant(state) = lanes else { unreachable!("states are as wide as d") };
                state
            }
            fn codes<'a>(codes: &Codes<'a>) -> Option<View<'a, $code>> {
                if let Codes::$width(view) = codes { Some(*view) } else { None }
            }
            fn staged(codes: &Staged) -> &[$code] {
                let Staged::$variant(codes) = codes else { unreachable!("operands are as wide as d") };
                codes
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn from_code(code: $code) -> Self {
                Self::from_bits(code)
            }
            #[inline(always)]
            fn from_wide(code: u64) -> Self {
                Self::from_bits(code as $code)
            }
            #[inline(always)]
            fn code(self) -> $code {
                self.to_bits()
            }
        }
    };
}
real!(f32, u32, 16, Narrow, U32);
real!(f64, u64, 8, Wide, U64);

#[derive(Debug)]
struct Chain<T> {
    isa: Isa,
    /// K of a step.
    step: usize,
    nan: T,
}

/// Lines in groups, `[group][k][line in group]`, zeros beyond the last; a single line alone.
#[derive(Debug, Default)]
struct Packed<T>(Vec<T>);

/// Packs the columns of `codes`, groups of `width`.
fn pack<T: Real>(panel: &mut Panel, codes: &View<'_, T::Code>, width: usize) {
    let mut to = panel.take_packed::<Packed<T>>();
    let [k, lines] = codes.shape();
    let width = if lines == 1 { 1 } else { width };
    to.0.resize(lines.div_ceil(width) * width * k, T::default());
    for (group, to) in to.0.chunks_exact_mut((width * k).max(1)).enumerate() {
        let here = group * width..lines.min((group + 1) * width);
        if here.len() < width {
            to.fill(T::default());
        }
        codes.read_block([0..k, here], to, width, T::from_code);
    }
    panel.put_packed(to);
}

/// Packs staged codes, which are a matrix of K by lines with these strides.
fn pack_staged<T: Real>(panel: &mut Panel, strides: [usize; 2], width: usize) {
    let codes = core::mem::take(&mut panel.codes);
    let view = View::from_slice(T::staged(&codes), [panel.k, panel.lines], strides.map(|s| s as isize), 0);
    pack::<T>(panel, &view.expect("as many codes as elements"), width);
    panel.codes = codes;
}

struct Job<'a, T: Real> {
    a: &'a [T],
    b: &'a [T],
    nan: T,
    /// Rows, columns and K of the panels.
    size: [usize; 3],
    /// Positions of K.
    ks: Range<usize>,
    tile: &'a mut [T::Code],
}

impl<T: Real> Job<'_, T> {
    /// All rows and columns, M and N at once.
    #[inline(always)]
    fn all<const M: usize, const N: usize>(self) {
        let [rows, columns, k] = self.size;
        for group in 0..columns.div_ceil(N) {
            let b = &self.b[group * k * N..][..k * N].as_chunks::<N>().0[self.ks.clone()];
            let width = N.min(columns - group * N);
            for row in (0..rows).step_by(M) {
                let a = &self.a[row * k..][..k * M].as_chunks::<M>().0[self.ks.clone()];
                let height = M.min(rows - row);
                let mut d = [[T::default(); N]; M];
                for (i, d) in d.iter_mut().enumerate().take(height) {
                    let at = (row + i) * columns + group * N;
                    d.iter_mut().zip(&self.tile[at..at + width]).for_each(|(d, c)| *d = T::from_code(*c));
                }
                let d = chain::<T, M, N>(a, b, d);
                for (i, d) in d.iter().enumerate().take(height) {
                    let at = (row + i) * columns + group * N;
                    for (d, c) in d.iter().zip(&mut self.tile[at..at + width]) {
                        *c = if d.is_nan() { self.nan } else { *d }.code();
                    }
                }
            }
        }
    }
}

/// One row and one column, from where their codes are.
struct Single<'a, T> {
    a: &'a [u64],
    b: &'a [u64],
    d: &'a mut T,
}

impl<T: Real> Work for Single<'_, T> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        for (&a, &b) in self.a.iter().zip(self.b) {
            *self.d = T::from_wide(a).fma(T::from_wide(b), *self.d);
        }
    }
}

macro_rules! job {
    ($ty:ident, $nr:literal) => {
        impl Work for Job<'_, $ty> {
            #[inline(always)]
            fn run<const NATIVE: bool>(self) {
                match self.size {
                    [1, 1, _] => self.all::<1, 1>(),
                    [1, _, _] => self.all::<1, $nr>(),
                    [_, 1, _] => self.all::<MR, 1>(),
                    _ => self.all::<MR, $nr>(),
                }
            }
        }
    };
}
job!(f32, 16);
job!(f64, 8);

/// The chains of a register tile.
#[inline(always)]
fn chain<T: Real, const M: usize, const N: usize>(a: &[[T; M]], b: &[[T; N]], mut d: [[T; N]; M]) -> [[T; N]; M] {
    for (a, b) in a.iter().zip(b) {
        in_order();
        for i in 0..M {
            for j in 0..N {
                d[i][j] = a[i].fma(b[j], d[i][j]);
            }
        }
    }
    d
}

impl<T: Real> Kernel for Chain<T>
where
    for<'a> Job<'a, T>: Work,
{
    fn name(&self) -> &'static str {
        "fma chain"
    }

    fn why(&self) -> String {
        "every step is one IEEE fused multiply-add, in order".into()
    }

    fn tile(&self) -> [usize; 2] {
        [96, 256]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn single(&self, [a, b]: [Line<'_>; 2], _: &mut [Short; 2], c: u64) -> Option<u64> {
        let mut d = T::from_wide(c);
        wide::on(self.isa, Single { a: a.codes, b: b.codes, d: &mut d });
        Some(if d.is_nan() { self.nan } else { d }.code().into())
    }

    fn pack_a(&self, panel: &mut Panel) {
        pack_staged::<T>(panel, [1, panel.k], MR);
    }

    fn pack_b(&self, panel: &mut Panel) {
        pack_staged::<T>(panel, [panel.lines, 1], T::NR);
    }

    fn pack_a_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        let view = T::codes(codes);
        view.map(|view| pack::<T>(panel, &view.transposed(), MR)).is_some()
    }

    fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        let view = T::codes(codes);
        view.map(|view| pack::<T>(panel, &view, T::NR)).is_some()
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let size = [a.lines, b.lines, a.k];
        let (a, b) = (&a.packed::<Packed<T>>().0, &b.packed::<Packed<T>>().0);
        wide::on(
            self.isa,
            Job {
                a,
                b,
                nan: self.nan,
                size,
                ks: steps.start * self.step..steps.end * self.step,
                tile: T::state(state),
            },
        );
    }
}
