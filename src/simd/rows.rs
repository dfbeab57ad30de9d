//! The loops around kernels of plain array code: rows of 16 columns, or of a single one, through all steps of K.

mod small;

use super::Isa;
use super::buffer::Plain;
use super::decode::{Decoder, Reading};
use super::lanes::{Lane, each};
use super::sixteen::Sixteen;
use super::values::{Columns, Layout, Lines, NR, Short, State, Values};
use super::wide::{self, Work};
use crate::format::FormatSpec;
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Line, Panel};
use crate::gemm::small::SmallKernel;
use crate::special::NanRule;
use crate::unit::Unit;
use crate::view::{self, View};
use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

/// What A has beside N columns of B.
pub(super) trait Side<const N: usize> {
    type Value: Lane<f32, N>;
    type Exponent: Lane<i16, N>;
}

/// One row, for all columns.
pub(super) struct OneRow;

impl<const N: usize> Side<N> for OneRow {
    type Value = f32;
    type Exponent = i16;
}

/// A row for each column: N dot-adds that have nothing to do with each other.
pub(super) struct RowEach;

impl<const N: usize> Side<N> for RowEach {
    type Value = [f32; N];
    type Exponent = [i16; N];
}

/// A block's operands: N columns of B, and what A has beside them.
pub(super) struct Block<'a, const N: usize, A: Side<N> = OneRow> {
    pub(super) a: &'a [A::Value],
    pub(super) a_exponents: &'a [A::Exponent],
    pub(super) b: &'a [[f32; N]],
    pub(super) b_exponents: &'a [[i16; N]],
    /// What holds for some operand.
    pub(super) flags: u8,
    /// Exponents of the block's scales.
    pub(super) scale_a: A::Exponent,
    pub(super) scale_b: &'a [i16; N],
}

impl<const N: usize, A: Side<N>> Block<'_, N, A> {
    /// The exponent of a column's products' scales.
    #[inline(always)]
    pub(super) fn scale(&self, j: usize) -> i32 {
        i32::from(self.scale_a.at(j) + self.scale_b[j])
    }
}

/// What a family computes on N columns at once. All methods are `inline(always)`.
pub(super) trait Body: Debug + Send + Sync {
    /// For people.
    fn name(&self) -> &'static str;

    /// For people.
    fn why(&self) -> String;

    /// What a step's first block takes as c.
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N];

    /// d of one block.
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N];

    /// Whether vectors of 512 bits gain where operations on them take two turns (Zen 4). Of short chains they do not:
    /// what compilers make of the ends of steps is better in 256 bits.
    fn gains_by_width(&self) -> bool {
        true
    }

    /// Whether small products gain by going tile by tile with all lanes at work.
    fn takes_tiles(&self) -> bool {
        false
    }

    /// Whether beside finite operands an infinite state stays, as one of NaN does beside all. Steps of others must then
    /// be flagged as special.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "asked by register tiles alone"))]
    fn infinity_stays(&self) -> bool {
        false
    }

    /// A step's d, from its c and its last block's d.
    fn end<const NATIVE: bool, const N: usize>(&self, c: [f32; N], d: [f32; N]) -> [f32; N];
}

/// A kernel: panels of f32 values and exponents around a body.
#[derive(Debug)]
pub(super) struct Rows<B> {
    unit: Unit,
    isa: Isa,
    /// The set that products are computed on, which may be a narrower one.
    narrower: Isa,
    body: B,
    layout: Layout,
    state: State,
    a: Reader,
    b: Reader,
}

/// How an operand is read: one by one, or sixteen lines side by side.
#[derive(Debug)]
struct Reader {
    decoder: Decoder,
    sixteen: Option<Sixteen>,
}

impl Reader {
    fn new(isa: Isa, spec: FormatSpec, reading: Reading) -> Self {
        let decoder = Decoder::new(spec, reading);
        Self { sixteen: Sixteen::new(isa, &decoder), decoder }
    }
}

/// Whether an operation on the set's vectors takes two turns.
#[cfg(target_arch = "x86_64")]
fn takes_two_turns(isa: Isa) -> bool {
    super::Avx512::new(isa).is_some_and(|proof| !super::processor::two_multipliers(proof))
}

#[cfg(not(target_arch = "x86_64"))]
const fn takes_two_turns(_isa: Isa) -> bool {
    false
}

/// The set for products by a body.
fn narrower(isa: Isa, body: &impl Body) -> Isa {
    if !body.gains_by_width() && takes_two_turns(isa) { Isa::Avx2 } else { isa }
}

impl<B: Body + 'static> Rows<B> {
    /// A kernel, for formats of at most 32 bits, where f32 holds those of c and d.
    pub(super) fn kernel(
        unit: &Unit,
        isa: Isa,
        body: B,
        layout: Layout,
        reading: Reading,
        nan: NanRule,
    ) -> Option<Arc<dyn Kernel>> {
        let narrow = unit.a.storage_bits <= 32 && unit.b.storage_bits <= 32;
        let state = State::new(unit.c, unit.d, nan).filter(|_| narrow)?;
        let (a, b) = (Reader::new(isa, unit.a, reading), Reader::new(isa, unit.b, reading));
        let narrower = narrower(isa, &body);
        Some(Arc::new(Self { unit: unit.clone(), isa, narrower, body, layout, state, a, b }))
    }

    /// Packs columns of B from where they are, if those at a position of K are together.
    fn pack_view<T: Plain + Into<u32>>(&self, panel: &mut Panel, view: &View<'_, T>) -> bool {
        let Some(codes) = view.rows().filter(|_| panel.lines > 1) else { return false };
        self.pack_columns(panel, codes, &self.b);
        self.pack_scales(panel, true);
        true
    }

    /// Packs lines side by side.
    fn pack_columns<T: Plain + Into<u32>>(&self, panel: &mut Panel, codes: view::Rows<'_, T>, by: &Reader) {
        let (decoder, sixteen, layout) = (&by.decoder, by.sixteen.as_ref(), &self.layout);
        wide::on(self.narrower, PackColumns { panel, codes, decoder, sixteen, layout });
    }

    /// Exponents of block scales; a NaN scale makes its elements NaN.
    fn pack_scales(&self, panel: &mut Panel, columns: bool) {
        let Some(rule) = self.unit.scale else { return };
        let mut to = panel.take_packed::<Values>();
        to.take_scales(panel, &rule, columns, &self.layout);
        panel.put_packed(to);
    }
}

/// Lines to be packed, each after the other.
struct PackRows<'a> {
    panel: &'a mut Panel,
    decoder: &'a Decoder,
    layout: &'a Layout,
}

impl Work for PackRows<'_> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        Values::pack_rows(self.panel, self.decoder, self.layout);
    }
}

/// Columns to be packed, side by side.
struct PackColumns<'a, T> {
    panel: &'a mut Panel,
    codes: view::Rows<'a, T>,
    decoder: &'a Decoder,
    sixteen: Option<&'a Sixteen>,
    layout: &'a Layout,
}

impl<T: Plain + Into<u32>> Work for PackColumns<'_, T> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        // Without it the instructions would be functions, if never called.
        let sixteen = if NATIVE { self.sixteen } else { None };
        Values::pack_columns(self.panel, self.codes, self.decoder, sixteen, self.layout);
    }
}

/// What one call works on.
struct Job<'a, B> {
    body: &'a B,
    layout: &'a Layout,
    state: &'a State,
    a: Lines<'a>,
    b: Lines<'a>,
    /// Rows, columns and K of the panels.
    size: [usize; 3],
    /// Elements per block scale.
    scaled: Option<usize>,
    steps: Range<usize>,
    tile: &'a mut [u32],
}

impl<B: Body> Work for Job<'_, B> {
    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        if self.size[1] == 1 { self.all::<NATIVE, 1>() } else { self.all::<NATIVE, NR>() }
    }
}

/// One row and one column through a single step.
struct Single<'a, B> {
    of: &'a Rows<B>,
    lines: [Line<'a>; 2],
    packed: &'a mut [Short; 2],
    d: &'a mut u32,
}

impl<B: Body> Work for Single<'_, B> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { of, lines, packed: [a, b], d } = self;
        let Rows { unit, body, layout, state, .. } = of;
        let rule = unit.scale.as_ref();
        a.pack(lines[0], &of.a.decoder, layout, rule);
        b.pack(lines[1], &of.b.decoder, layout, rule);
        let tile = core::slice::from_mut(d);
        let (size, scaled) = ([1, 1, layout.step], rule.map(|rule| rule.block));
        let mut job = Job { body, layout, state, a: a.lines(), b: b.lines(), size, scaled, steps: 0..1, tile };
        job.row::<NATIVE, 1>(0, 0, 0..1);
    }
}

/// Rows, each with a column of its own, through a single step.
struct Several<'a, B> {
    of: &'a Rows<B>,
    lines: [&'a [Line<'a>; NR]; 2],
    packed: &'a mut [Columns; 2],
    /// Codes of c, then of d.
    state: &'a mut [u64; NR],
}

impl<B: Body> Work for Several<'_, B> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { of, lines, packed: [a, b], state: codes } = self;
        let Rows { unit, body, layout, state, .. } = of;
        let rule = unit.scale.as_ref();
        a.pack(lines[0], &of.a.decoder, layout, rule);
        b.pack(lines[1], &of.b.decoder, layout, rule);
        let c = state.load_all(each(*codes, |code| code as u32));
        let mut d = body.begin(c);
        for &(from, to) in &layout.blocks {
            let (scale_a, scale_b) = rule.map_or((&[0; NR], &[0; NR]), |rule| {
                let slot = from / rule.block;
                (&a.scales[slot], &b.scales[slot])
            });
            let block = Block::<NR, RowEach> {
                a: &a.values[from..to],
                a_exponents: &a.exponents[from..to],
                b: &b.values[from..to],
                b_exponents: &b.exponents[from..to],
                flags: a.flags | b.flags,
                scale_a: *scale_a,
                scale_b,
            };
            d = body.block::<NATIVE, NR, RowEach>(&block, d);
        }
        let d = body.end::<NATIVE, NR>(c, d);
        *codes = each(state.store_all(d), u64::from);
    }
}

impl<B: Body> Job<'_, B> {
    /// All columns, N at once, rows and steps.
    #[inline(always)]
    fn all<const NATIVE: bool, const N: usize>(&mut self) {
        let [rows, columns, _] = self.size;
        // As many steps as keep a group of B in the first-level cache.
        let together = (192 / self.layout.step).max(1);
        for group in 0..columns.div_ceil(N) {
            let mut from = self.steps.start;
            while from < self.steps.end {
                let to = (from + together).min(self.steps.end);
                for row in 0..rows {
                    self.row::<NATIVE, N>(row, group, from..to);
                }
                from = to;
            }
        }
    }

    #[inline(always)]
    fn row<const NATIVE: bool, const N: usize>(&mut self, row: usize, group: usize, steps: Range<usize>) {
        let columns = self.size[1];
        let width = N.min(columns - group * N);
        let at = row * columns + group * N;
        let mut codes = [0; N];
        codes[..width].copy_from_slice(&self.tile[at..at + width]);
        let mut d = self.state.load_all(codes);
        for step in steps {
            d = self.step::<NATIVE, N>(row, group, step, d);
        }
        self.tile[at..at + width].copy_from_slice(&self.state.store_all(d)[..width]);
    }

    #[inline(always)]
    fn step<const NATIVE: bool, const N: usize>(&self, row: usize, group: usize, step: usize, c: [f32; N]) -> [f32; N] {
        let (k, per_step) = (self.size[2], self.layout.step);
        let steps = k / per_step;
        let flags = self.a.flags[row * steps + step] | self.b.flags[group * steps + step];
        let mut d = self.body.begin(c);
        for &(from, to) in &self.layout.blocks {
            let at = step * per_step + from..step * per_step + to;
            let (in_a, in_b) = (row * k + at.start..row * k + at.end, group * k + at.start..group * k + at.end);
            let (scale_a, scale_b) = self.scales(row, group, step, from, steps);
            let block = Block {
                a: &self.a.values[in_a.clone()],
                a_exponents: &self.a.exponents[in_a],
                b: &self.b.values.as_chunks::<N>().0[in_b.clone()],
                b_exponents: &self.b.exponents.as_chunks::<N>().0[in_b],
                flags,
                scale_a,
                scale_b,
            };
            d = self.body.block::<NATIVE, N, OneRow>(&block, d);
        }
        self.body.end::<NATIVE, N>(c, d)
    }

    /// Exponents of the block's scales.
    #[inline(always)]
    fn scales<const N: usize>(
        &self,
        row: usize,
        group: usize,
        step: usize,
        from: usize,
        steps: usize,
    ) -> (i16, &[i16; N]) {
        let Some(block) = self.scaled else { return (0, const { &[0; N] }) };
        let slots = self.layout.step / block;
        let slot = step * slots + from / block;
        let b = self.b.scales.as_chunks::<N>().0;
        (self.a.scales[row * steps * slots + slot], &b[group * steps * slots + slot])
    }
}

impl<B: Body + 'static> Kernel for Rows<B> {
    fn name(&self) -> &'static str {
        self.body.name()
    }

    fn why(&self) -> String {
        self.body.why()
    }

    fn tile(&self) -> [usize; 2] {
        [64, 256]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<f32>() + size_of::<i16>()
    }

    fn small(&self) -> Option<&dyn SmallKernel> {
        self.takes_tiles().then_some(self)
    }

    fn single(&self, lines: [Line<'_>; 2], packed: &mut [Short; 2], c: u64) -> Option<u64> {
        let mut d = c as u32;
        let short = self.layout.step <= Short::MOST;
        // One column has no use for wider registers.
        let isa = self.isa.max(Isa::Avx2);
        short.then(|| wide::on(isa, Single { of: self, lines, packed, d: &mut d })).map(|()| d.into())
    }

    fn several(&self, lines: [&[Line<'_>; NR]; 2], packed: &mut [Columns; 2], state: &mut [u64; NR]) -> bool {
        let short = self.layout.step <= Columns::MOST;
        if short {
            wide::on(self.isa, Several { of: self, lines, packed, state });
        }
        short
    }

    fn pack_a(&self, panel: &mut Panel) {
        wide::on(self.narrower, PackRows { panel, decoder: &self.a.decoder, layout: &self.layout });
        self.pack_scales(panel, false);
    }

    fn pack_b(&self, panel: &mut Panel) {
        if panel.lines == 1 {
            // A single column is a row.
            wide::on(self.narrower, PackRows { panel, decoder: &self.b.decoder, layout: &self.layout });
        } else {
            let staged = core::mem::take(&mut panel.codes);
            self.pack_columns(panel, view::Rows::of(staged.narrow(), panel.lines), &self.b);
            panel.codes = staged;
        }
        self.pack_scales(panel, true);
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
        let Lanes::Narrow(tile) = state else { unreachable!("d is at most 32 bits wide") };
        let size = [a.lines, b.lines, a.k];
        let scaled = self.unit.scale.map(|rule| rule.block);
        let (a, b) = (a.packed::<Values>().lines(), b.packed::<Values>().lines());
        let job = Job { body: &self.body, layout: &self.layout, state: &self.state, a, b, size, scaled, steps, tile };
        wide::on(self.narrower, job);
    }
}
