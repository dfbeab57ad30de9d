//! The seam between the driver and what computes tiles: [`Kernel`], and the reference one.

use super::operand::Codes;
use super::small::SmallKernel;
use crate::accumulate::Dot;
use crate::num::Num;
use crate::simd::{Columns, NR, Short};
use crate::unit::Unit;
use core::any::Any;
use core::fmt::Debug;
use core::ops::Range;

/// Codes of a panel, as narrow as the format allows.
#[derive(Debug)]
pub(crate) enum Staged {
    /// Formats of at most 32 bits.
    Narrow(Vec<u32>),
    /// Wider ones.
    Wide(Vec<u64>),
}

impl Default for Staged {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Staged {
    /// Takes codes in place of those before.
    pub(crate) fn fill(&mut self, from: &[u64]) {
        match self {
            Self::Narrow(codes) => {
                codes.clear();
                codes.extend(from.iter().map(|&code| code as u32));
            }
            Self::Wide(codes) => from.clone_into(codes),
        }
    }

    /// Room for so many codes of at most 32 bits.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn room(&mut self, size: usize) -> &mut [u32] {
        if let Self::Wide(_) = self {
            *self = Self::default();
        }
        let Self::Narrow(codes) = self else { unreachable!("made so") };
        codes.resize(size, 0);
        codes
    }

    /// Codes of at most 32 bits.
    pub(crate) fn narrow(&self) -> &[u32] {
        let Self::Narrow(codes) = self else { unreachable!("a format of at most 32 bits") };
        codes
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        match self {
            Self::Narrow(codes) => codes[at].into(),
            Self::Wide(codes) => codes[at],
        }
    }
}

/// One operand's part of a K chunk: rows of A, or columns of B, over consecutive positions.
///
/// The driver fills `codes` and `scales`; `pack_a` and `pack_b` add what their kernel needs.
/// Buffers are kept from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    /// Rows of A, or columns of B.
    pub(crate) lines: usize,
    /// Positions of K: a multiple of the unit's K.
    pub(crate) k: usize,
    /// A: line after line, `codes[line * k + p]`. B: position after position, `codes[p * lines + line]`.
    pub(crate) codes: Staged,
    /// Block scales' codes, as codes lie: A's line after line, B's slot after slot; empty without.
    pub(crate) scales: Vec<u8>,
    /// How far those of neighbouring lines, and of neighbouring slots, are apart.
    pub(crate) scale_strides: [usize; 2],
    /// The reference's: unpacked numbers, line after line.
    nums: Vec<Num>,
    /// The reference's: a scale for each of them, or none.
    scale_nums: Vec<Num>,
    /// A fast kernel's.
    packed: Packed,
}

/// What a fast kernel keeps in a panel, of whatever type it likes.
#[derive(Debug, Default)]
struct Packed(Option<Box<dyn Any + Send + Sync>>);

impl Panel {
    /// For one line of `k` elements of a format of so many bits.
    pub(crate) fn line(k: usize, storage_bits: u32) -> Self {
        let codes = if storage_bits > 32 { Staged::Wide(Vec::new()) } else { Staged::default() };
        Self { lines: 1, k, codes, scale_strides: [0, 1], ..Self::default() }
    }

    /// A block scale's code.
    #[inline(always)]
    pub(crate) fn scale(&self, line: usize, slot: usize) -> u64 {
        let [lines, slots] = self.scale_strides;
        self.scales[line * lines + slot * slots].into()
    }

    /// What a kernel packed into this panel before, to be used again, apart from the rest; a
    /// default where there is nothing of its type.
    pub(crate) fn take_packed<T: Default + Any + Send + Sync>(&mut self) -> Box<T> {
        self.packed.0.take().and_then(|any| any.downcast().ok()).unwrap_or_default()
    }

    /// Puts what a kernel has packed into the panel.
    pub(crate) fn put_packed<T: Any + Send + Sync>(&mut self, packed: Box<T>) {
        self.packed.0 = Some(packed);
    }

    /// What the kernel packed.
    ///
    /// # Panics
    /// When it packed nothing, or something else: a mistake in the kernel.
    pub(crate) fn packed<T: Any>(&self) -> &T {
        self.packed.0.as_ref().and_then(|any| any.downcast_ref()).expect("the kernel packs before it runs")
    }
}

/// A row of A or a column of B, as long as the unit's K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) codes: &'a [u64],
    /// Block scales' codes; empty without.
    pub(crate) scales: &'a [u64],
}

/// D's codes of a tile, row-major.
#[derive(Debug)]
pub(crate) enum Lanes<'a> {
    Narrow(&'a mut [u32]),
    Wide(&'a mut [u64]),
}

/// The hard pieces of a fast kernel: `(row, column, step, c) -> d`, in codes, row and column within the panels.
pub(crate) type Exact<'a> = &'a (dyn Fn(usize, usize, usize, u64) -> u64 + Sync);

/// What computes tiles. Chosen once per product, by what must hold: recipe, format specs and K.
///
/// States are codes: of c's format on entry to a chain, of d's format from the first step on (units
/// where these differ run one step only).
pub(crate) trait Kernel: Debug + Send + Sync {
    /// For people: which kernel runs.
    fn name(&self) -> &'static str;

    /// For people: what it needed to be chosen.
    fn why(&self) -> String {
        self.name().into()
    }

    /// Rows and columns of D per task.
    fn tile(&self) -> [usize; 2];

    /// Bytes a panel takes per element, both operands alike.
    fn panel_bytes(&self) -> usize;

    /// Positions of K in a chunk, at most, unless a step has more.
    fn depth(&self) -> usize {
        512
    }

    /// What computes small tiles side by side, where the kernel has that.
    fn small(&self) -> Option<&dyn SmallKernel> {
        None
    }

    /// d of a single dot-add of a row and a column, where the kernel needs no panels for that.
    fn single(&self, _lines: [Line<'_>; 2], _packed: &mut [Short; 2], _c: u64) -> Option<u64> {
        None
    }

    /// The d of several dot-adds, each of a row and a column of its own, from their c in `state`; `false`, and nothing
    /// done, where the kernel has no better way than [`Kernel::single`].
    fn several(&self, _lines: [&[Line<'_>; NR]; 2], _packed: &mut [Columns; 2], _state: &mut [u64; NR]) -> bool {
        false
    }

    /// Prepares rows of A, `panel.lines` x `panel.k` codes, from where they are: `false` where the
    /// kernel wants them staged, and `pack_a` called.
    fn pack_a_in_place(&self, _panel: &mut Panel, _codes: &Codes<'_>) -> bool {
        false
    }

    /// The same for columns of B, `panel.k` x `panel.lines` codes.
    fn pack_b_in_place(&self, _panel: &mut Panel, _codes: &Codes<'_>) -> bool {
        false
    }

    /// Prepares rows of A, whose codes are in the panel.
    fn pack_a(&self, panel: &mut Panel);

    /// Prepares columns of B, whose codes are in the panel.
    fn pack_b(&self, panel: &mut Panel);

    /// Whether [`Kernel::direct`] takes A as it lies there.
    fn is_direct(&self, _a: &Codes<'_>) -> bool {
        false
    }

    /// Runs all steps of rows of A, where they are, and of a panel of B, on states in D's own memory:
    /// those of a row one after another, `ld` from row to row. At the start they are +0 and not read.
    fn direct(&self, _a: &Codes<'_>, _b: &Panel, _start: bool, _d: Lanes<'_>, _ld: usize) {}

    /// Makes a whole row of D of a row of A and of B, where these are. `false`, and anything in D, where the kernel has
    /// a better way.
    fn row_in_place(&self, _a: &Codes<'_>, _b: &Codes<'_>, _d: Lanes<'_>) -> bool {
        false
    }

    /// Runs steps of the panels, in order, on a tile of states of `b.lines` columns per row.
    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, exact: Exact<'_>);
}

/// The accumulator's own method, dot-add by dot-add: any unit, any formats.
#[derive(Debug)]
pub(crate) struct Reference {
    unit: Unit,
}

impl Reference {
    pub(crate) fn new(unit: &Unit) -> Self {
        Self { unit: unit.clone() }
    }

    /// The scale of every element, for block-scaled units.
    fn unpack_scales(&self, panel: &mut Panel) {
        // Those of another unit's product may be there.
        panel.scale_nums.clear();
        let Some(rule) = self.unit.scale else { return };
        let slots = panel.k / rule.block;
        for line in 0..panel.lines {
            for slot in 0..slots {
                let scale = rule.format.decode(panel.scale(line, slot));
                panel.scale_nums.extend(core::iter::repeat_n(scale, rule.block));
            }
        }
    }

    fn each(&self, a: &Panel, b: &Panel, steps: &Range<usize>, mut update: impl FnMut(usize, &dyn Fn(u64) -> u64)) {
        let unit = &*self.unit;
        let step = unit.shape.k;
        let part = |panel: &Panel, nums: &Range<usize>| -> Range<usize> {
            if panel.scale_nums.is_empty() { 0..0 } else { nums.clone() }
        };
        for i in 0..a.lines {
            for j in 0..b.lines {
                let chain = |state: u64| {
                    steps.clone().fold(state, |c, s| {
                        let (ra, rb) = (i * a.k + s * step, j * b.k + s * step);
                        let (ra, rb) = (ra..ra + step, rb..rb + step);
                        let dot = Dot {
                            scale_a: &a.scale_nums[part(a, &ra)],
                            scale_b: &b.scale_nums[part(b, &rb)],
                            a: &a.nums[ra],
                            b: &b.nums[rb],
                            c: unit.c.decode(c),
                            out: &unit.d,
                        };
                        unit.d.encode_result(&unit.accumulator.dot_add(&dot))
                    })
                };
                update(i * b.lines + j, &chain);
            }
        }
    }
}

impl Kernel for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn why(&self) -> String {
        match &self.unit.recipe {
            None => "the accumulator has no recipe, so its own method runs".into(),
            Some(recipe) => format!("no fast kernel is exact for {recipe} on the instruction sets allowed"),
        }
    }

    fn tile(&self) -> [usize; 2] {
        [32, 32]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<Num>() * if self.unit.scale.is_some() { 2 } else { 1 }
    }

    fn pack_a(&self, panel: &mut Panel) {
        panel.nums.clear();
        panel.nums.extend((0..panel.lines * panel.k).map(|at| self.unit.a.decode(panel.codes.get(at))));
        self.unpack_scales(panel);
    }

    fn pack_b(&self, panel: &mut Panel) {
        let (lines, k) = (panel.lines, panel.k);
        panel.nums.clear();
        let transposed = (0..lines).flat_map(|j| (0..k).map(move |p| p * lines + j));
        panel.nums.extend(transposed.map(|at| self.unit.b.decode(panel.codes.get(at))));
        self.unpack_scales(panel);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        match state {
            Lanes::Narrow(state) => {
                self.each(a, b, &steps, |at, chain| state[at] = chain(state[at].into()) as u32);
            }
            Lanes::Wide(state) => self.each(a, b, &steps, |at, chain| state[at] = chain(state[at])),
        }
    }
}

/// One step of one element by the unit's own method: what a fast kernel falls back to.
pub(crate) fn exact_step(unit: &Unit, a: &Panel, b: &Panel, at: [usize; 2], s: usize, c: u64) -> u64 {
    let ([i, j], k) = (at, unit.shape.k);
    let left: Vec<u64> = (s * k..(s + 1) * k).map(|p| a.codes.get(i * a.k + p)).collect();
    let right: Vec<u64> = (s * k..(s + 1) * k).map(|p| b.codes.get(p * b.lines + j)).collect();
    let scales = |panel: &Panel, line: usize| -> Vec<u64> {
        let Some(rule) = unit.scale else { return Vec::new() };
        (s * k / rule.block..(s + 1) * k / rule.block).map(|slot| panel.scale(line, slot)).collect()
    };
    // The lengths are the unit's own, so this cannot fail.
    unit.dot_add_scaled_bits(&left, &right, c, &scales(a, i), &scales(b, j)).unwrap_or(c)
}
