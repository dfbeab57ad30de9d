//! CDNA1's and CDNA2's sums on register tiles: states, of 8 rows by 16 columns all or a part, stay in registers while
//! steps go by.
//!
//! A family has a step for ordinary operands and states (`exact`, `pairwise`); what that is, it says in exponents of
//! operands, kept per line group and step, and by a look at the states. Everything else takes the family's body of
//! all sets, on the same panels.

#![allow(unsafe_code, reason = "functions for one instruction set, and pointers into panels")]

mod exact;
mod pack;
mod pairwise;
mod set;

use super::buffer::{Buffer, Plain};
use super::decode::{Reading, SPECIAL};
use super::lanes::each;
use super::rows::{Block, Body};
use super::values::NR;
use super::{Avx2, Avx512, Isa, Sse2};
use crate::format::{F32, FormatSpec};
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel};
use crate::special::NanRule;
use crate::unit::Unit;
use crate::view::{Rows, View, Word};
use core::fmt::Debug;
use core::ops::Range;
use pack::{Fields, Packed, Source};
use set::Set;
use std::sync::Arc;

/// A family's kernel for the set of this name, or nothing where it is not there.
macro_rules! for_set {
    ($isa:expr, $kernel:path, $($with:expr),*) => {
        match $isa {
            Isa::Avx512 => $kernel(Avx512::new($isa)?, $($with),*),
            Isa::Avx2 => $kernel(Avx2::new($isa)?, $($with),*),
            _ => $kernel(Sse2::new($isa)?, $($with),*),
        }
    };
}

/// The kernel of [`super::exact`], for whole groups.
pub(super) fn exact(
    unit: &Unit,
    isa: Isa,
    body: super::exact::Exact,
    groups: &[Vec<usize>],
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    for_set!(isa, exact::kernel, unit, body, groups, nan)
}

/// The kernel of [`super::pairwise`], for exact products.
pub(super) fn pairwise(
    unit: &Unit,
    isa: Isa,
    body: super::pairwise::Pairwise,
    reading: Reading,
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    for_set!(isa, pairwise::kernel, unit, body, reading, nan)
}

/// Rows of a register tile.
const MR: usize = 8;
/// Bytes of 16 columns of B's panel that meet all rows before the next are read: more than the first-level cache holds,
/// for states come and go half as often.
const NEAR: usize = 1 << 16;

/// States of a register tile.
#[derive(Debug)]
#[repr(align(64))]
struct Tile([[f32; NR]; MR]);

/// Exponents of the powers of two that two panels' values are multiplied by.
#[derive(Clone, Copy, Debug)]
struct Scales {
    a: i32,
    b: i32,
}

/// A family's step. All methods but `flags` are inlined.
trait Family: Debug + Send + Sync + Sized + 'static {
    type Body: Body;
    /// What panels hold.
    type Value: Plain + Default + Debug;
    /// What steps keep from tile to tile, for its room.
    type Scratch: Default + Debug;

    /// The body of all sets.
    fn body(&self) -> &Self::Body;

    /// What panels hold of `count` numbers, which are no longer needed.
    fn values(numbers: &mut Buffer, to: &mut Buffer, count: usize, scale: i32);

    /// The number again.
    fn number(x: Self::Value, scale: i32) -> f32;

    /// The exponent of the power that a panel's values are multiplied by, from the largest exponent field in it.
    fn scale(&self, top: u8, columns: bool) -> i32;

    /// Whether a step's operands are ordinary. If they are with fields that are further apart, they are.
    fn ordinary(&self, a: Fields, b: Fields, scales: Scales) -> bool;

    /// What holds for them, for the body.
    fn flags(&self, a: Fields, b: Fields) -> u8;

    /// Ordinary steps on the states of a register tile. Returns the rows that are done, a bit each, and leaves the
    /// others as they were.
    ///
    /// # Safety
    /// The run's pointers are to `k * MR` and `k * NR` values aligned to 64 bytes.
    unsafe fn steps<S: Set>(&self, set: S, run: &mut Run<'_, Self>, tile: &mut Tile) -> u8;

    /// How many steps that are not ordinary it does at once, or 0 if the body has to.
    fn together(&self) -> usize {
        0
    }

    /// The sums of `k` products on rows of a mask, a bit each, and so many columns, whatever operands and states are.
    ///
    /// # Safety
    /// As `steps`, for these pointers.
    unsafe fn hard<S: Set>(
        &self,
        _set: S,
        _panels: (*const Self::Value, *const Self::Value),
        _size: [usize; 2],
        _rows: u8,
        _tile: &mut Tile,
    ) {
    }
}

/// Successive steps on a register tile.
struct Run<'a, F: Family> {
    a: *const F::Value,
    b: *const F::Value,
    /// Products in all.
    k: usize,
    /// A's and B's fields, by step, and those of all of them.
    fields: [&'a [Fields]; 2],
    all: [Fields; 2],
    scales: Scales,
    /// Rows and columns that matter.
    size: [usize; 2],
    hope: &'a mut Hope,
    scratch: &'a mut F::Scratch,
}

/// Whether an attempt that may be in vain is worth it: after every other failure in a row it is made half as often.
/// (Two kinds of attempt share one.)
#[derive(Debug, Default)]
struct Hope {
    /// Attempts to leave out, and how many the next failure adds.
    wait: u8,
    next: u8,
}

impl Hope {
    /// Whether to try.
    const fn tries(&mut self) -> bool {
        let now = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        now
    }

    /// What became of an attempt.
    const fn learn(&mut self, good: bool) {
        (self.wait, self.next) = match (good, self.next) {
            (true, _) => (0, 0),
            (false, next @ 15..) => (next, next),
            (false, next) => (next, 2 * next + 1),
        };
    }
}

/// A kernel: panels around a family's steps.
#[derive(Debug)]
struct Tiles<F, S> {
    set: S,
    family: F,
    name: &'static str,
    /// K of the unit, and of what the family calls a step: a group of products, or all.
    k: usize,
    step: usize,
    /// The code of NaN.
    nan: u32,
    a: Source,
    b: Source,
}

/// The rows of a tile that no step changes, a bit each: of finite operands, and of any.
#[derive(Default)]
struct Resting([u8; 2]);

impl Resting {
    /// Looks at rows of a mask again, of so many columns.
    #[inline(always)]
    fn look(&mut self, body: &impl Body, tile: &Tile, rows: u8, width: usize) {
        const INFINITY: u32 = f32::INFINITY.to_bits();
        for (r, row) in tile.0.iter().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
            // One comparison for all states; those of NaN are above those of infinities.
            let least = |of: &[f32]| of.iter().fold(u32::MAX, |least, x| least.min(x.to_bits() & (u32::MAX >> 1)));
            // All of them are known to be a whole vector.
            let least = if width == NR { least(row) } else { least(&row[..width]) };
            let rests = [least > INFINITY || (body.infinity_stays() && least == INFINITY), least > INFINITY];
            for (rows, rests) in self.0.iter_mut().zip(rests) {
                *rows = *rows & !(1 << r) | u8::from(rests) << r;
            }
        }
    }

    /// Those that a step with these flags does not change: without `SPECIAL` its operands are finite, or the family
    /// makes no difference (its infinities do not stay).
    const fn at(&self, flags: u8) -> u8 {
        self.0[(flags & SPECIAL != 0) as usize]
    }
}

/// Whether c and d are f32, and codes of operands have at most 32 bits.
fn is_known(unit: &Unit) -> bool {
    let narrow = unit.a.storage_bits <= 32 && unit.b.storage_bits <= 32;
    narrow && [unit.c, unit.d].iter().all(|f| FormatSpec { name: F32.name, ..*f } == F32)
}

/// What one call works on.
struct Job<'a, F: Family, S> {
    kernel: &'a Tiles<F, S>,
    a: &'a Packed,
    b: &'a Packed,
    /// Rows, columns and K of the panels.
    size: [usize; 3],
    scales: Scales,
    /// Fields of all steps at hand, by line group: A's and B's.
    spans: [Vec<Fields>; 2],
    hope: Hope,
    scratch: F::Scratch,
    /// Operands of a step for the body.
    row: Vec<f32>,
    columns: Vec<[f32; NR]>,
}

impl<F: Family, S: Set> Job<'_, F, S> {
    /// Steps on all states.
    #[inline(always)]
    fn run(&mut self, steps: Range<usize>, state: &mut [u32]) {
        let [rows, columns, _] = self.size;
        let per = self.kernel.k / self.kernel.step;
        let (steps, together) = (steps.start * per..steps.end * per, NEAR / (NR * size_of::<F::Value>()));
        let together = (together / self.kernel.step).max(1);
        for from in steps.clone().step_by(together) {
            let to = (from + together).min(steps.end);
            self.look(from..to);
            for column in (0..columns).step_by(NR) {
                for row in (0..rows).step_by(MR) {
                    self.tile([row, column], from..to, state);
                }
            }
        }
    }

    /// Notes the fields of all of these steps together.
    fn look(&mut self, steps: Range<usize>) {
        let per_group = self.size[2] / self.kernel.step;
        for (spans, panel) in self.spans.iter_mut().zip([self.a, self.b]) {
            spans.clear();
            spans.extend(panel.fields.chunks_exact(per_group).map(|fields| Fields::all(&fields[steps.clone()])));
        }
    }

    /// Steps of a register tile.
    #[inline(always)]
    fn tile(&mut self, [row, column]: [usize; 2], steps: Range<usize>, state: &mut [u32]) {
        let [rows, columns, _] = self.size;
        let (height, width) = (MR.min(rows - row), NR.min(columns - column));
        let mut tile = Tile([[0.0; NR]; MR]);
        for (r, to) in tile.0.iter_mut().enumerate().take(height) {
            let from = &state[(row + r) * columns + column..][..width];
            match <&[u32; NR]>::try_from(from) {
                // Known to be a whole vector.
                Ok(from) => *to = each(*from, f32::from_bits),
                Err(_) => to.iter_mut().zip(from).for_each(|(d, c)| *d = f32::from_bits(*c)),
            }
        }
        self.steps([row / MR, column / NR], steps, [height, width], &mut tile);
        for (r, from) in tile.0.iter().enumerate().take(height) {
            let to = &mut state[(row + r) * columns + column..][..width];
            let nan = self.kernel.nan;
            let code = |d: f32| if d.is_nan() { nan } else { d.to_bits() };
            match <&mut [u32; NR]>::try_from(&mut *to) {
                Ok(to) => *to = each(*from, code),
                Err(_) => to.iter_mut().zip(from).for_each(|(c, d)| *c = code(*d)),
            }
        }
    }

    /// Runs of ordinary steps by the family's, all others by its body.
    #[inline(always)]
    fn steps(&mut self, [ga, gb]: [usize; 2], steps: Range<usize>, size: [usize; 2], tile: &mut Tile) {
        let (k, step) = (self.size[2], self.kernel.step);
        let (fields_a, fields_b) = (&self.a.fields[ga * k / step..], &self.b.fields[gb * k / step..]);
        let (family, scales) = (&self.kernel.family, self.scales);
        let ordinary = |s: usize| family.ordinary(fields_a[s], fields_b[s], scales);
        let spans = [self.spans[0][ga], self.spans[1][gb]];
        let all = family.ordinary(spans[0], spans[1], scales);
        let mut from = steps.start;
        while from < steps.end {
            let is = all || ordinary(from);
            let change = if all { None } else { (from + 1..steps.end).find(|s| ordinary(*s) != is) };
            let to = change.unwrap_or(steps.end);
            let (a, b) = (self.a.values.view::<F::Value>(), self.b.values.view::<F::Value>());
            let (a, b) = (&a[(ga * k + from * step) * MR..], &b[(gb * k + from * step) * NR..]);
            let mut done = 0;
            if is {
                let fields = [&fields_a[from..to], &fields_b[from..to]];
                let all = if all { spans } else { [Fields::all(fields[0]), Fields::all(fields[1])] };
                let (a, b, k) = (a.as_ptr(), b.as_ptr(), (to - from) * step);
                let (hope, scratch) = (&mut self.hope, &mut self.scratch);
                let mut run = Run { a, b, k, fields, all, scales, size, hope, scratch };
                // SAFETY: the panels hold these steps of these lines.
                done = unsafe { family.steps(self.kernel.set, &mut run, tile) };
            }
            let left = !done & ((1u32 << size[0]) - 1) as u8;
            if left != 0 {
                let mut resting = Resting::default();
                resting.look(family.body(), tile, left, size[1]);
                let together = family.together();
                for s in (from..to).step_by(together.max(1)) {
                    let end = (s + together.max(1)).min(to);
                    let flags = (s..end).fold(0, |flags, s| flags | family.flags(fields_a[s], fields_b[s]));
                    let rows = left & !resting.at(flags);
                    if rows == 0 {
                        continue;
                    }
                    if together > 0 {
                        let (at, k) = ((s - from) * step, (end - s) * step);
                        let (a, b) = (a[at * MR..][..k * MR].as_ptr(), b[at * NR..][..k * NR].as_ptr());
                        // SAFETY: as above.
                        unsafe { family.hard(self.kernel.set, (a, b), [k, size[1]], rows, tile) }
                    } else {
                        self.kernel.set.apart(
                            #[inline(always)]
                            || self.hard([ga * k + s * step, gb * k + s * step], flags, rows, tile),
                        );
                    }
                    resting.look(family.body(), tile, rows, size[1]);
                }
            }
            from = to;
        }
    }

    /// The step whose operands start at these positions of the panels, by the body of all sets, on rows of a mask.
    #[inline(always)]
    fn hard(&mut self, [a, b]: [usize; 2], flags: u8, rows: u8, tile: &mut Tile) {
        let (step, body) = (self.kernel.step, self.kernel.family.body());
        let a = self.a.values.view::<F::Value>().as_chunks::<MR>().0[a..][..step].iter();
        let b = self.b.values.view::<F::Value>().as_chunks::<NR>().0[b..][..step].iter();
        self.columns.clear();
        self.columns.extend(b.map(|b| b.map(|x| F::number(x, self.scales.b))));
        for (r, tile) in tile.0.iter_mut().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
            self.row.clear();
            self.row.extend(a.clone().map(|a| F::number(a[r], self.scales.a)));
            let block: Block<'_, _> = Block {
                a: &self.row,
                a_exponents: &[],
                b: &self.columns,
                b_exponents: &[],
                flags,
                scale_a: 0,
                scale_b: &[0; NR],
            };
            *tile = if S::NATIVE {
                let d = body.block::<true, NR, _>(&block, body.begin(*tile));
                body.end::<true, NR>(*tile, d)
            } else {
                let d = body.block::<false, NR, _>(&block, body.begin(*tile));
                body.end::<false, NR>(*tile, d)
            };
        }
    }
}

impl<F: Family, S: Set> Tiles<F, S> {
    /// Packs rows of A.
    fn pack_rows<T: Word + Into<u32> + Default>(&self, panel: &mut Panel, rows: &Rows<'_, T>) {
        let (mut to, lines, k) = (panel.take_packed::<Packed>(), panel.lines, panel.k);
        let groups = lines.div_ceil(MR);
        self.a.begin::<MR>(&mut to, groups, k);
        self.set.apart(
            #[inline(always)]
            || {
                self.a.lines(self.set, &mut to, rows, lines);
                self.a.end::<F, MR>(&mut to, groups, k, &self.family);
            },
        );
        panel.put_packed(to);
    }

    /// Packs columns of B, position after position.
    fn pack_columns<T: Plain + Into<u32>>(&self, panel: &mut Panel, codes: &Rows<'_, T>) {
        let (mut to, lines, k) = (panel.take_packed::<Packed>(), panel.lines, panel.k);
        let groups = lines.div_ceil(NR);
        self.b.begin::<NR>(&mut to, groups, k);
        self.set.apart(
            #[inline(always)]
            || {
                // As codes lie in memory.
                for from in (0..k).step_by(self.k) {
                    for group in 0..groups {
                        let first = group * NR;
                        self.b.sixteens(
                            self.set,
                            &mut to,
                            group * k + from,
                            codes,
                            [from, first],
                            NR.min(lines - first),
                        );
                    }
                }
                self.b.end::<F, NR>(&mut to, groups, k, &self.family);
            },
        );
        panel.put_packed(to);
    }

    /// The same from where they are, if those at a position are together.
    fn pack_view<T: Plain + Into<u32>>(&self, panel: &mut Panel, view: &View<'_, T>) -> bool {
        view.rows().map(|codes| self.pack_columns(panel, &codes)).is_some()
    }
}

impl<F: Family, S: Set> Kernel for Tiles<F, S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn why(&self) -> String {
        self.family.body().why()
    }

    fn tile(&self) -> [usize; 2] {
        [64, 512]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<F::Value>() + size_of::<f32>()
    }

    fn depth(&self) -> usize {
        1024
    }

    fn pack_a(&self, panel: &mut Panel) {
        let codes = core::mem::take(&mut panel.codes);
        self.pack_rows(panel, &Rows::of(codes.narrow(), panel.k));
        panel.codes = codes;
    }

    fn pack_a_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        match codes {
            Codes::U16(view) => view.rows().map(|rows| self.pack_rows(panel, &rows)).is_some(),
            Codes::U32(view) => view.rows().map(|rows| self.pack_rows(panel, &rows)).is_some(),
            Codes::U8(_) | Codes::U64(_) => false,
        }
    }

    fn pack_b(&self, panel: &mut Panel) {
        let codes = core::mem::take(&mut panel.codes);
        self.pack_columns(panel, &Rows::of(codes.narrow(), panel.lines));
        panel.codes = codes;
    }

    fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        match codes {
            Codes::U8(view) => self.pack_view(panel, view),
            Codes::U16(view) => self.pack_view(panel, view),
            Codes::U32(view) => self.pack_view(panel, view),
            Codes::U64(_) => false,
        }
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(state) = state else { unreachable!("d is at most 32 bits wide") };
        let size = [a.lines, b.lines, a.k];
        let (a, b) = (a.packed::<Packed>(), b.packed::<Packed>());
        let scales = Scales { a: a.scale, b: b.scale };
        let (spans, hope, scratch, row, columns) = Default::default();
        let mut job = Job { kernel: self, a, b, size, scales, spans, hope, scratch, row, columns };
        self.set.apart(
            #[inline(always)]
            || job.run(steps, state),
        );
    }
}
