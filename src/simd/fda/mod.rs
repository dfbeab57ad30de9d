//! FDA, the fused dot-add, with a magic accumulator (AVX-512; AVX2 where it is f32), or on products aligned one by one
//! (`aligned`: other units on AVX2, all of F up to 40 on SSE2, and steps of few products on AVX-512).
//!
//! The FDA truncates every product to a multiple of `q = 2^(e_max - F)` and adds exactly. One fused
//! multiply-add does both: an accumulator held in `[2^52 q, 2^53 q)` has `q` as its unit in the last
//! place, so `fma(a, b, acc)` rounded toward zero gives `acc + floor(a b / q) q`. To get truncation
//! from floor, B is enlarged by a relative `2^-47` when it is packed: `floor` of a positive product is
//! unchanged (the product's own last place is coarser than the enlargement), and every negative
//! product, exact or not, comes out exactly one `q` too low. The number of negative products is a
//! popcount of sign masks. Zeros are packed as infinitesimals of their own sign, so they obey the
//! same rule. No scaling per product, no conversion, no integer addition: two f64 FMAs for 16
//! products, and one f32 FMA where a step's sums fit 22 bits (F = 13).
//!
//! `steps_fast` (`stream` for AVX-512) needs operands within a window of 32 exponents and states of ordinary size;
//! `step_wide` takes all finite numbers and F up to 40; infinities and NaN follow rule (S) on masks
//! (`special`).

/// The same for some rows, with `$r` the constant: rows are registers.
macro_rules! each_row {
    ([$($row:literal),*], $r:ident => $body:expr) => {{
        $({
            const $r: usize = $row;
            $body
        })*
    }};
}

mod aligned;
mod avx2;
mod avx512;
mod finish;
mod fixed;
mod hard;
mod micro;
mod pack;
mod round_down;
mod round_to_zero;
mod run;
mod scratch;
mod small;
mod special;
mod state;
mod step;
mod stream;
mod wide;
mod wide_avx2;
mod wide_plain;

pub(super) use round_down::select as select_round_down;

use super::buffer::Buffer;
use super::{Avx2, Avx512, Isa, Sse2, processor};
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe};
use crate::format::{F16, F32, FormatSpec};
use crate::gemm::Codes;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel, Staged};
use crate::gemm::small::SmallKernel;
use crate::round::Rounding;
use crate::simd::decode::{Decoder, Reading, in_f32};
use crate::special::NanRule;
use crate::unit::Unit;
use crate::view::{View, Word};
use core::ops::Range;
use fixed::{Integers, Tables};
use micro::Micro;
use run::InVain;
use std::sync::{Arc, OnceLock};

/// Rows of a micro-tile.
const MR: usize = 8;
/// Row groups of `MR` whose states are kept together while the steps go by.
const GROUPS: usize = 4;
/// Steps of fewer products are aligned one by one on AVX-512, too; of four those rounded toward zero to all bits of
/// f32.
const FEW: usize = 8;
/// Columns of a micro-tile: four vectors of 16.
const NR: usize = 64;

/// This row (column) has an Inf or NaN in this step.
const SPECIAL: u8 = 1;
/// The integer sum of this row could pass i32.
const RISK: u8 = 2;
/// A nonzero operand lies below the exponent window.
const TINY: u8 = 4;

/// What results are.
mod out {
    /// f32, truncated.
    pub(super) const F32_RZ: u8 = 0;
    /// f32 to nearest even.
    pub(super) const F32_RNE: u8 = 1;
    /// f16 to nearest even.
    pub(super) const F16_RNE: u8 = 2;
    /// f32 to nearest even after sums and c were rounded down (`round_down`).
    pub(super) const ROUND_DOWN: u8 = 3;
    /// [`F32_RZ`] where fewer bits are kept: an operation that the others do without.
    pub(super) const F32_CUT: u8 = 4;
    /// f32, rounded down, and up.
    pub(super) const F32_RD: u8 = 5;
    pub(super) const F32_RU: u8 = 6;
}

/// Positions of K in a chunk, unless a step has more: as other kernels have it.
const DEPTH: usize = 512;

/// How products and c are rounded where they are aligned; but toward zero only those that are aligned one by one.
mod align {
    pub(super) const TOWARD_ZERO: u8 = 0;
    pub(super) const NEAREST_EVEN: u8 = 1;
    pub(super) const DOWN: u8 = 2;
    pub(super) const UP: u8 = 3;
}

/// One side's operands, packed.
#[derive(Debug, Default)]
struct Packed {
    /// Values, f64 or f32; B's scaled and enlarged, but where products are aligned one by one.
    values: Buffer,
    /// Windowed exponents, a byte each (A's replicated four times); zero and tiny are 0.
    exponents: Buffer,
    /// Sign mask of the step's products, 32 bits; for AVX2, B's in planes of a byte a column.
    signs: Buffer,
    /// Flags, one byte per row (A) or column (B) and step.
    flags: Vec<u8>,
    /// Union of the flags: A per 8 rows and step, B per 16 columns and step.
    any: Vec<u8>,
    /// Exponents of the block scales, per row (column) and step; empty without.
    shifts: Vec<i32>,
    /// Operands as integers, for kernels that have tables of them.
    integers: Integers,
    /// Exponent that byte 127 stands for.
    top: i32,
    /// FDA steps.
    steps: usize,
}

impl Packed {
    /// Place of row group `g` at step `s` in A's panels, in groups of `MR`.
    #[inline(always)]
    const fn at_a(&self, g: usize, s: usize) -> usize {
        (g / GROUPS * self.steps + s) * GROUPS + g % GROUPS
    }

    /// Place of column group `g` at step `s` in B's panels, in groups of `NR`.
    #[inline(always)]
    const fn at_b(&self, g: usize, s: usize) -> usize {
        g * self.steps + s
    }
}

/// A format's exponents as the unit reads it, block scales included.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The lowest exponent of a number, subnormals' too.
    emin: i32,
    emax: i32,
}

/// An FDA chain, or an interleaved FDA, over one pair of formats.
#[derive(Debug)]
struct Fda {
    unit: Unit,
    /// L: products per FDA.
    block: usize,
    /// The place of every product of a unit step, FDA by FDA.
    order: Vec<usize>,
    frac_bits: u32,
    e_zero: i32,
    /// Whether a zero c counts with d's lowest exponent.
    zero_c: bool,
    nan: NanRule,
    /// One of [`out`].
    out: u8,
    /// Which bits of an f32 result are kept.
    keep: i32,
    a: Reach,
    b: Reach,
    via_f16: bool,
    flush: Flush,
    /// One of [`align`].
    align: u8,
    /// FDAs from +0, then an IEEE addition of c.
    c_last: bool,
    /// Over so many products: those of a unit step, or of a block.
    c_every: usize,
    /// And unit steps one after another are a stream without a way back to memory (`stream::broad`), of 8 or 16
    /// products.
    streams_unit_steps: bool,
    /// Sums of a step fit 22 bits, so f32 accumulators do.
    narrow: bool,
    /// Products are aligned one by one (`aligned`).
    aligned: bool,
    /// Operands as integers, for steps that truncate nothing.
    fixed: Option<Tables>,
    /// When to do without them.
    in_vain: InVain,
    /// Whether multiplications by subnormal numbers are slow, or may be: then panels in f32 are made without.
    slow_subnormals: bool,
    /// The widths of [`out::ROUND_DOWN`], and what computes its hard pieces.
    round_down: Option<hard::Hard>,
    /// How A and B are read where tiles are computed side by side.
    small: Option<Small>,
    /// And how tiles whose steps truncate nothing are computed, if any.
    whole: Option<small::Whole>,
    /// How they are read for the wide kernel, where panels lack what lies below the window.
    anew: OnceLock<[Decoder; 2]>,
    set: Set,
}

/// What computes tiles side by side.
#[derive(Debug)]
enum Small {
    Avx512([small::Decoder; 2]),
    Avx2(aligned::Readers),
    /// The unit's kernel of AVX2, on processors that have more, for tiles that are not [`small::Whole`].
    Lower(Box<Fda>),
}

/// The instruction set, with the proof that it is there.
#[derive(Clone, Copy, Debug)]
enum Set {
    Avx512(Avx512),
    Avx2(Avx2),
    Sse2(Sse2),
}

impl Set {
    /// Whether multiplications by subnormal numbers are slow, or may be. (AVX-512 makes panels without.)
    fn slow_subnormals(self) -> bool {
        match self {
            Self::Avx2(set) => processor::is_slow(set),
            Self::Avx512(_) | Self::Sse2(_) => true,
        }
    }

    fn new(isa: Isa) -> Option<Self> {
        let avx512 = Avx512::new(isa).map(Self::Avx512);
        avx512.or_else(|| Avx2::new(isa).map(Self::Avx2)).or_else(|| Sse2::new(isa).map(Self::Sse2))
    }
}

/// Whether two formats have the same numbers, bit for bit.
fn same(x: &FormatSpec, y: &FormatSpec) -> bool {
    FormatSpec { name: y.name, ..*x } == *y
}

impl Reach {
    /// `None` for formats that the packing cannot read, or whose exponents are too large.
    fn of(unit: &Unit, spec: &FormatSpec, via_f16: bool) -> Option<Self> {
        let plain = spec.signed && spec.subnormals && spec.storage_bits <= 32 && (1..=8).contains(&spec.exponent_bits);
        let (mut emin, emax) = (spec.emin(), spec.max().exponent);
        if via_f16 {
            // Every number must be one of f16's, exactly, and subnormal there only where it is here: last places are
            // told by exponents.
            if spec.fraction_bits > 10 || emax > 15 || emin < F16.emin() || emin - (spec.fraction_bits as i32) < -24 {
                return None;
            }
            emin = F16.emin();
        }
        let scale = if unit.scale.is_some() { 127 } else { 0 };
        (plain && emin >= -127 && emax <= 128).then_some(Self { emin: emin - scale, emax: emax + scale })
    }
}

/// L, if K falls into whole blocks of at most 32 (a sign mask).
fn block_length(g: &GenericDot, k: usize) -> Option<usize> {
    let block = g.block.min(k);
    (block <= 32 && k.is_multiple_of(block)).then_some(block)
}

/// What becomes of subnormal numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Flush {
    /// Operands, c among them, that are +0.
    operands: bool,
    /// Results that are.
    results: bool,
}

impl Flush {
    /// Codes of an operand, subnormal ones made +0.
    fn codes(self, spec: &FormatSpec, codes: &mut [u32]) {
        if !self.operands {
            return;
        }
        let place = |bits: u32, at: u32| ((1 << bits) - 1) << (at + spec.ignored_low_bits);
        let (fraction, field) = (place(spec.fraction_bits, 0), place(spec.exponent_bits, spec.fraction_bits));
        for code in codes {
            let is_subnormal = *code & field == 0 && *code & fraction != 0;
            *code = if is_subnormal { 0 } else { *code };
        }
    }

    /// The least magnitudes of c and of results that are not 0.
    const fn least(self) -> [f32; 2] {
        let [operands, results] = [self.operands, self.results];
        [if operands { f32::MIN_POSITIVE } else { 0.0 }, if results { f32::MIN_POSITIVE } else { 0.0 }]
    }
}

/// How terms are aligned, if kernels do it for the formats at hand.
fn alignment(g: &GenericDot, unit: &Unit) -> Option<u8> {
    let align = match g.alignment {
        Rounding::TowardZero => return Some(align::TOWARD_ZERO),
        Rounding::NearestEven => align::NEAREST_EVEN,
        Rounding::Down => align::DOWN,
        Rounding::Up => align::UP,
        _ => return None,
    };
    // To one side, each product adds up to a unit of `2^-F` of a state, however small it is. So of few bits states
    // would become large before somebody looks at them again, which is done at every chunk of K.
    let stays = 1 << g.frac_bits.min(40) >= unit.shape.k.max(DEPTH);
    (align == align::NEAREST_EVEN || (stays && unit.scale.is_none())).then_some(align)
}

/// What becomes of subnormal numbers, if everything else about a step but alignment is as the kernel does it.
fn is_fda(g: &GenericDot, unit: &Unit) -> Option<Flush> {
    let flush = Flush { operands: g.flush_inputs, results: g.flush_results };
    // Below the largest exponents no product is infinite that was finite.
    let unlimited = unit.scale.is_none() && unit.a.max().exponent + unit.b.max().exponent + 2 <= 128;
    let plain = GenericDot {
        alignment: Rounding::TowardZero,
        flush_inputs: false,
        flush_results: false,
        product_limit: g.product_limit && !unlimited,
        ..*g
    };
    // States that are not subnormal, and results, are for the wide kernels alone to flush.
    let states = same(&unit.c, &F32) && same(&unit.d, &F32) && g.c == CPosition::With;
    let flushes = flush == Flush::default() || (states && unit.scale.is_none() && !g.via_f16);
    (plain.truncates() && flushes && g.frac_bits <= 40).then_some(flush)
}

/// The result's kind and the bits of it that are kept.
fn output(g: &GenericDot, d: &FormatSpec) -> Option<(u8, i32)> {
    let bits = g.output_bits.unwrap_or(d.fraction_bits).min(d.fraction_bits);
    match g.output_rounding {
        Rounding::TowardZero if same(d, &F32) => Some((out::F32_RZ, -1 << (23 - bits))),
        Rounding::NearestEven if same(d, &F32) && bits == 23 => Some((out::F32_RNE, -1)),
        Rounding::Down if same(d, &F32) && bits == 23 => Some((out::F32_RD, -1)),
        Rounding::Up if same(d, &F32) && bits == 23 => Some((out::F32_RU, -1)),
        Rounding::NearestEven if same(d, &F16) && bits == 10 => Some((out::F16_RNE, -1)),
        _ => None,
    }
}

/// Sums of products below this exponent are 0 in f32 however they are aligned, unless they are rounded to one side.
const UNSEEN: i32 = -220;

/// The exponent that alignment never goes below, lowered to where nothing can notice; none where that is out of reach.
fn floor(g: &GenericDot, d: &FormatSpec, a: Reach, b: Reach) -> Option<i32> {
    let one_side = matches!(g.output_rounding, Rounding::Down | Rounding::Up);
    let lowest = a.emin + b.emin;
    let unseen = if one_side { lowest } else { lowest.max(UNSEEN) }.min(d.emin());
    let e_zero = match g.floor {
        Floor::None | Floor::ZeroC => unseen,
        Floor::BelowEmin(n) => (d.emin() - n).max(unseen),
    };
    (UNSEEN..=50).contains(&e_zero).then_some(e_zero)
}

/// The kernel, where it is exact.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    Some(Arc::new(chain(unit, isa)?))
}

/// What `select` makes.
fn chain(unit: &Unit, isa: Isa) -> Option<Fda> {
    let Some(Recipe::Generic(g)) = &unit.recipe else { return None };
    let align = alignment(g, unit)?;
    let set = match Set::new(isa)? {
        Set::Avx512(proof) if align != align::TOWARD_ZERO => Set::Avx2(proof.avx2()),
        set => set,
    };
    let (k, d) = (unit.shape.k, &unit.d);
    let block = block_length(g, k)?;
    let (out, keep) = output(g, d)?;
    let (a, b) = (Reach::of(unit, &unit.a, g.via_f16)?, Reach::of(unit, &unit.b, g.via_f16)?);
    let c_fits = same(&unit.c, d) || (same(&unit.c, &F16) && same(d, &F32));
    let fraction_bits = unit.a.fraction_bits + unit.b.fraction_bits;
    let flush = is_fda(g, unit)?;
    if !c_fits || fraction_bits > 22 || !scales_fit(unit, block) {
        return None;
    }
    let f = g.frac_bits;
    let small = |r: Reach| r.emin >= -16 && r.emax <= 16;
    let sums_fit = f <= 14 && (block << (f + 2)) + (2 << f) < 1 << 22 && fraction_bits <= 12;
    let cuts = align == align::TOWARD_ZERO;
    let narrow = sums_fit && cuts && small(a) && small(b) && unit.scale.is_none() && !matches!(set, Set::Sse2(_));
    let wide = matches!(set, Set::Avx512(_)) && !narrow;
    // What an infinite f16 is multiplied by must not be 0.
    let kind = (out == out::F16_RNE && f >= 2) || (out == out::F32_RZ && keep == -1);
    let c_last = g.c != CPosition::With;
    let streams_unit_steps = wide && c_last && matches!(block, 8 | 16) && kind;
    // Where products are few, multipliers have less to do for them than for f64 accumulators' beginnings and endings,
    // and integers save less than their step costs. Of four only `few`'s two passes are faster than broad pieces
    // (docs/kernels.md), and these round toward zero to f32. Beside streams of unit steps integers gain nothing at 8
    // products, nor where many steps truncate.
    let far_apart = unit.a.exponent_bits.min(unit.b.exponent_bits) > 4;
    let fixed = wide && block >= FEW && !(streams_unit_steps && (block == FEW || far_apart));
    let fixed = if fixed { Tables::new(unit, block, f) } else { None };
    let few = block < FEW && f <= 25 && (block != 4 || (out == out::F32_RZ && keep == -1));
    let aligned = (!wide || few) && !narrow && fits_f32(unit);
    if !aligned && (matches!(set, Set::Sse2(_)) || !cuts) {
        return None;
    }
    let mut fda = Fda {
        block,
        order: g.pattern.blocks(k, block).concat(),
        frac_bits: f,
        e_zero: floor(g, d, a, b)?,
        zero_c: g.floor == Floor::ZeroC,
        nan: g.nan,
        out,
        keep,
        narrow,
        aligned,
        fixed,
        in_vain: InVain::on(set),
        slow_subnormals: set.slow_subnormals(),
        a,
        b,
        via_f16: g.via_f16,
        flush,
        align,
        c_last,
        c_every: if g.c == CPosition::Late { block } else { k },
        streams_unit_steps,
        unit: unit.clone(),
        round_down: None,
        small: None,
        whole: None,
        anew: OnceLock::new(),
        set,
    };
    if !flush.operands {
        fda.small = fda.small_decoders().map(Small::Avx512);
        fda.choose_small(|| chain(unit, Isa::Avx2));
    }
    Some(fda)
}

/// Scales that are powers of two, one for every whole block.
fn scales_fit(unit: &Unit, block: usize) -> bool {
    let Some(Recipe::Generic(g)) = &unit.recipe else { return false };
    let power = |s: &FormatSpec| s.fraction_bits == 0 && !s.subnormals && s.storage_bits <= 8 && s.bias == 127;
    let aligned = |n: usize| n.is_multiple_of(block) && g.pattern == Pattern::Runs && !g.via_f16;
    unit.scale.is_none_or(|rule| power(&rule.format) && aligned(rule.block))
}

/// Whether f32 panels hold every number: with block scales, none may begin as a subnormal f32.
fn fits_f32(unit: &Unit) -> bool {
    let last = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
    [&unit.a, &unit.b].iter().all(|f| in_f32(f) && (unit.scale.is_none() || last(f) >= -126))
}

impl Fda {
    /// Chooses how tiles are computed side by side, if that is not known yet; `lower` makes the unit's kernel of AVX2.
    fn choose_small(&mut self, lower: impl FnOnce() -> Option<Self>) {
        self.whole = small::Whole::new(self);
        if self.small.is_none() {
            self.small = aligned::Readers::new(self).map(Small::Avx2);
        }
        if self.small.is_none() && self.whole.is_some() {
            self.small = lower().filter(|fda| fda.small.is_some()).map(|fda| Small::Lower(Box::new(fda)));
        }
    }

    /// Whether terms are rounded to one side, so that each counts, however small it is.
    const fn all_count(&self) -> bool {
        matches!(self.align, align::DOWN | align::UP)
    }

    /// Whether none vanishes in f32, of operands within windows below these exponents, beside states below `2^62`: what
    /// ordinary ones (`Settled`) become in a chunk of K.
    fn none_vanishes(&self, tops: [i32; 2]) -> bool {
        let least = |f: &FormatSpec, top: i32| {
            let window = top - (pack::WINDOW - 1);
            if window > f.emin() { window } else { f.emin() - f.fraction_bits as i32 }
        };
        let [a, b] = [least(&self.unit.a, tops[0]), least(&self.unit.b, tops[1])];
        a.min(b) >= -126 && a + b >= -70
    }

    /// FDAs per unit step.
    fn per_step(&self) -> usize {
        self.unit.shape.k / self.block
    }

    /// Positions of K of FDA `s`'s products.
    #[inline(always)]
    fn positions(&self, s: usize) -> impl Iterator<Item = usize> + Clone {
        let (first, unit_k) = (s * self.block, self.unit.shape.k);
        let unit = first / unit_k * unit_k;
        self.order[first - unit..][..self.block].iter().map(move |k| unit + k)
    }

    /// How operands are read for the wide kernel, where panels lack what lies below the window.
    fn anew(&self) -> &[Decoder; 2] {
        let reading = Reading { via_f16: self.via_f16, ..Reading::default() };
        self.anew.get_or_init(|| [self.unit.a, self.unit.b].map(|f| Decoder::new(f, reading)))
    }

    /// Whether there is more than the wide kernel.
    const fn has_fast(&self) -> bool {
        self.narrow || self.aligned || (matches!(self.set, Set::Avx512(_)) && self.frac_bits <= 25)
    }

    /// Binary exponents of A's and B's scales.
    const fn scales(&self) -> (i32, i32) {
        let f = self.frac_bits as i32;
        match () {
            () if self.aligned => (0, 0),
            () if self.narrow => (0, f - 23),
            () => (step::A_SCALE, step::B_SCALE + f),
        }
    }

    /// Whether values are packed as f32, not f64.
    const fn in_f32(&self) -> bool {
        self.narrow || self.aligned
    }

    /// Packs columns of B from where they are: while a step's codes are near they become numbers. `false` where all
    /// have to be looked at before, or those of a position are not together.
    fn pack_view<T: Word>(&self, panel: &mut Panel, view: &View<'_, T>) -> bool {
        if self.flush.operands {
            return false;
        }
        let (Set::Avx512(_), Some(top), Some(_)) = (self.set, pack::own_top(self, &self.unit.b), view.rows()) else {
            return false;
        };
        let mut packed = panel.take_packed::<Packed>();
        let (columns, size) = (panel.lines, [panel.lines, panel.k]);
        let shift = pack::shifts_of(self, panel, &mut packed.shifts);
        let codes = panel.codes.room(columns * panel.k);
        let stage = |positions, to: &mut [u32]| view.read_words([positions, 0..columns], to, columns);
        // SAFETY: the set is the proof that the instructions are there.
        #[allow(unsafe_code, reason = "functions for one instruction set")]
        unsafe {
            self.pack_b_avx512(codes, stage, (shift, Some(top)), size, &mut packed);
        }
        panel.put_packed(packed);
        true
    }
}

impl Kernel for Fda {
    fn name(&self) -> &'static str {
        match () {
            () if self.round_down.is_some() && self.aligned => "round-down-i32",
            () if self.round_down.is_some() => "round-down-f64",
            () if self.aligned => "fda-i32",
            () if self.narrow => "fda-f32",
            () if self.has_fast() => "fda-f64",
            () => "fda-f64-wide",
        }
    }

    fn why(&self) -> String {
        let (f, l) = (self.frac_bits, self.block);
        if self.round_down.is_some() {
            let exact = if self.aligned { "f32 and truncated one by one" } else { "f64" };
            return format!(
                "products cut at F = {f} in groups of {l} are exact in {exact}, and their sums fit 31 bits with c"
            );
        }
        let accumulators = match () {
            () if self.aligned && f > 25 => "products are exact in f32 and aligned one by one, to pairs of i32",
            () if self.aligned => "products are exact in f32 and aligned one by one, and i32 holds their sums",
            () if self.narrow => "sums of a step fit 22 bits, so f32 accumulators do",
            () if self.has_fast() => "products are exact in f64 and sums fit 32 bits",
            () if f > 25 => "F is above 25, so sums take 64 bits",
            () => "scaled operands may be below the normal f32, so sums take 64 bits",
        };
        let alignment = match self.align {
            align::NEAREST_EVEN => "alignment to nearest even",
            align::DOWN => "alignment that rounds down",
            align::UP => "alignment that rounds up",
            _ => "truncating alignment",
        };
        format!("a fused dot-add of F = {f} in blocks of {l} with {alignment}; {accumulators}")
    }

    fn tile(&self) -> [usize; 2] {
        [2 * GROUPS * MR, 4 * NR]
    }

    fn panel_bytes(&self) -> usize {
        12
    }

    fn depth(&self) -> usize {
        DEPTH
    }

    fn small(&self) -> Option<&dyn SmallKernel> {
        self.small.is_some().then_some(self)
    }

    fn pack_a(&self, panel: &mut Panel) {
        let mut packed = panel.take_packed::<Packed>();
        let size = [panel.lines, panel.k];
        let shift = pack::shifts_of(self, panel, &mut packed.shifts);
        let Staged::Narrow(codes) = &mut panel.codes else { unreachable!("operands of at most 32 bits") };
        self.flush.codes(&self.unit.a, codes);
        // SAFETY: the set is the proof that the instructions are there.
        #[allow(unsafe_code, reason = "functions for one instruction set")]
        unsafe {
            match self.set {
                Set::Avx512(_) => self.pack_a_avx512(codes, shift, size, &mut packed),
                Set::Avx2(micro) if self.in_f32() => micro.vectorise(
                    #[inline(always)]
                    || self.pack_a_in_f32(micro, codes, shift, size, &mut packed),
                ),
                Set::Avx2(_) => self.pack_a_avx2(codes, shift, size, &mut packed),
                Set::Sse2(set) => self.pack_a_in_f32(set, codes, shift, size, &mut packed),
            }
        }
        panel.put_packed(packed);
    }

    fn pack_b(&self, panel: &mut Panel) {
        let mut packed = panel.take_packed::<Packed>();
        let size = [panel.lines, panel.k];
        let shift = pack::shifts_of(self, panel, &mut packed.shifts);
        let Staged::Narrow(codes) = &mut panel.codes else { unreachable!("operands of at most 32 bits") };
        self.flush.codes(&self.unit.b, codes);
        // SAFETY: the set is the proof that the instructions are there.
        #[allow(unsafe_code, reason = "functions for one instruction set")]
        unsafe {
            match self.set {
                Set::Avx512(_) => self.pack_b_avx512(codes, |_, _| {}, (shift, None), size, &mut packed),
                Set::Avx2(micro) if self.in_f32() => micro.vectorise(
                    #[inline(always)]
                    || self.pack_b_in_f32(micro, codes, shift, size, &mut packed),
                ),
                Set::Avx2(_) => self.pack_b_avx2(codes, shift, size, &mut packed),
                Set::Sse2(set) => self.pack_b_in_f32(set, codes, shift, size, &mut packed),
            }
        }
        panel.put_packed(packed);
    }

    fn pack_b_in_place(&self, panel: &mut Panel, codes: &Codes<'_>) -> bool {
        match codes {
            Codes::U8(view) => self.pack_view(panel, view),
            Codes::U16(view) => self.pack_view(panel, view),
            Codes::U32(view) => self.pack_view(panel, view),
            Codes::U64(_) => false,
        }
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, exact: Exact<'_>) {
        let Lanes::Narrow(state) = state else { unreachable!("states of at most 32 bits") };
        match self.set {
            Set::Avx512(micro) => self.run_on(micro, [a, b], steps, state, exact),
            Set::Avx2(micro) => self.run_on(micro, [a, b], steps, state, exact),
            Set::Sse2(micro) => self.run_on(micro, [a, b], steps, state, exact),
        }
    }
}
