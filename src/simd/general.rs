//! The aligned dot-add with every parameter (SPEC section 3, Generic), on any instruction set: the
//! kernel of custom units, and FDA's where no sharper one is.

use super::Isa;
use super::general_body::{self, Block, Params};
use super::lanes::{Encode, ToInt};
use super::wide::{self, Work};
use super::values::{Decoder, Layout, NR, Reading, State, Values, in_f32};
use crate::accumulate::{CPosition, Floor, GenericDot, Recipe, SubnormalC};
use crate::format::FormatSpec;
use crate::gemm::kernel::{Exact, Kernel, Lanes, Panel};
use crate::round::Rounding;
use crate::unit::Unit;
use core::ops::Range;
use std::sync::Arc;

/// The kernel: panels of f32 values and exponents, rows of 16 columns.
#[derive(Debug)]
pub(super) struct General {
    unit: Unit,
    isa: Isa,
    params: Params,
    layout: Layout,
    state: State,
    a: Decoder,
    b: Decoder,
}

/// The kernel for aligned generic recipes of formats that f32 holds.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    let Some(Recipe::Generic(g)) = unit.recipe else { return None };
    let params = params(&g, unit)?;
    let state = State::new(unit.c, unit.d, g.nan)?;
    let layout = Layout::new(unit.shape.k, &g.pattern.blocks(unit.shape.k, g.block));
    let reading = Reading::from(&g);
    let (a, b) = (Decoder::new(unit.a, reading), Decoder::new(unit.b, reading));
    Some(Arc::new(General { unit: unit.clone(), isa, params, layout, state, a, b }))
}

/// The recipe as the body wants it, if it is one that the body computes exactly.
fn params(g: &GenericDot, unit: &Unit) -> Option<Params> {
    let block = g.block.min(unit.shape.k);
    let sums = g.frac_bits + 4 + (block + 1).ilog2();
    let alignment = match g.alignment {
        Rounding::TowardZero => ToInt::TowardZero,
        Rounding::Down => ToInt::Down,
        Rounding::NearestEven => ToInt::NearestEven,
        _ => return None,
    };
    // A sum and its sticky bits are integers that f64 holds; products are exact in f64.
    let exact = !g.exact && sums <= 51 && in_f32(&unit.a) && in_f32(&unit.b);
    // A zero product's own exponent is not that of its normalised value.
    let zeros = g.normalise_products && g.zero_products == crate::accumulate::ZeroProducts::OwnExponent;
    let scaled = unit.scale.is_some_and(|rule| {
        let f = &rule.format;
        // One power of two for each block.
        let powers = f.fraction_bits == 0 && !f.subnormals && f.exponent_bits <= 8 && f.bias.abs() <= 300;
        !(powers && g.pattern == crate::accumulate::Pattern::Runs && rule.block % g.block == 0 && !g.normalise_products)
    });
    let floor = match g.floor {
        Floor::BelowEmin(n) => Some(unit.d.emin() - n),
        Floor::ZeroC | Floor::None => None,
    };
    // Between blocks, c is of d's format.
    let changes = (block < unit.shape.k || g.c == CPosition::Last) && unit.c.emin() != unit.d.emin();
    if changes || !exact || zeros || scaled || floor.is_some_and(|e| e.abs() > 400) {
        return None;
    }
    Some(Params {
        frac_bits: g.frac_bits as i32,
        alignment,
        sticky: g.sticky,
        normalise: g.normalise_products,
        floor,
        zero_c: (g.floor == Floor::ZeroC).then(|| unit.d.emin()),
        c_emin: if g.subnormal_c == SubnormalC::Normalised { i32::MIN } else { unit.c.emin() },
        c_flush: if g.flush_inputs { power_f32(unit.c.emin()) } else { 0.0 },
        c: g.c,
        encode: encode(g, &unit.d)?,
        late: Encode {
            rounding: ToInt::NearestEven,
            bits: unit.d.fraction_bits as i32,
            over: [f64::INFINITY, f64::NEG_INFINITY],
            negative_zero: true,
            ..encode(g, &unit.d)?
        },
        limit: g.product_limit,
        scaled: unit.scale.map(|rule| rule.block),
        chunk: chunk(g, unit, block),
        fast_epilogue: fast_epilogue(g, unit),
    })
}

fn power_f32(e: i32) -> f32 {
    super::values::f32_power(e)
}

/// How many products fit into a sum of i32; 0 where products are not for f32 lanes at all.
fn chunk(g: &GenericDot, unit: &Unit, block: usize) -> usize {
    let plain = g.alignment == Rounding::TowardZero && !g.sticky && !g.normalise_products;
    let narrow = unit.a.fraction_bits + unit.b.fraction_bits + 2 <= 24;
    let floor = match g.floor {
        Floor::ZeroC => unit.d.emin() < general_body::LOWEST,
        _ => true,
    };
    if !plain || !narrow || !floor || g.frac_bits > 28 || g.c == CPosition::Late {
        return 0;
    }
    let largest = |f: &FormatSpec| (2u64 << f.fraction_bits) - 1;
    // The largest product in units of the truncation step, times 2^(M_a + M_b).
    let product = u128::from(largest(&unit.a) * largest(&unit.b)) << g.frac_bits;
    let room = u128::from(i32::MAX.unsigned_abs()) << (unit.a.fraction_bits + unit.b.fraction_bits);
    let chunk = usize::try_from(room / product).unwrap_or(0);
    if chunk < 4 { 0 } else { chunk.min(block) }
}

/// Whether sums that fit into i32 are truncated to f32, where nothing else can happen.
fn fast_epilogue(g: &GenericDot, unit: &Unit) -> Option<u32> {
    let f32_out = unit.d.exponent_bits == 8 && unit.d.fraction_bits == 23 && unit.d.bias == 127;
    let cut = 23 - g.output_bits.unwrap_or(23).min(23);
    let whole = chunk(g, unit, g.block.min(unit.shape.k)) >= g.block.min(unit.shape.k);
    (f32_out && g.output_rounding == Rounding::TowardZero && whole).then_some(u32::MAX << cut)
}

fn encode(g: &GenericDot, d: &FormatSpec) -> Option<Encode> {
    let bits = g.output_bits.map_or(d.fraction_bits, |p| p.min(d.fraction_bits)) as i32;
    let top = super::lanes::power(d.max().exponent);
    let max = top * (2.0 - super::lanes::power(-bits));
    let over = |negative: bool| {
        let stops = g.output_rounding != Rounding::TowardZero && g.output_rounding.stops_at_max(negative);
        let magnitude = if stops { max } else { f64::INFINITY };
        if negative { -magnitude } else { magnitude }
    };
    Some(Encode {
        rounding: ToInt::new(g.output_rounding)?,
        bits,
        emin: d.emin(),
        over: [over(false), over(true)],
        limit: 2.0 * top,
        negative_zero: g.negative_zero,
        flush: g.flush_results,
    })
}

/// What one call works on.
pub(super) struct Job<'a> {
    pub(super) params: &'a Params,
    pub(super) layout: &'a Layout,
    pub(super) state: &'a State,
    pub(super) a: &'a Values,
    pub(super) b: &'a Values,
    /// Rows, columns and K of the panels.
    pub(super) size: [usize; 3],
    pub(super) steps: Range<usize>,
    pub(super) tile: &'a mut [u32],
}

impl Work for Job<'_> {
    /// All columns, rows and steps.
    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        let [rows, columns, k] = self.size;
        // As many steps as keep a group of B in the first-level cache.
        let together = (192 / self.layout.step).max(1);
        for group in 0..columns.div_ceil(NR) {
            let mut from = self.steps.start;
            while from < self.steps.end {
                let to = (from + together).min(self.steps.end);
                for row in 0..rows {
                    self.row::<NATIVE>(row, group, from..to, k);
                }
                from = to;
            }
        }
    }
}

impl Job<'_> {
    #[inline(always)]
    fn row<const NATIVE: bool>(&mut self, row: usize, group: usize, steps: Range<usize>, k: usize) {
        let columns = self.size[1];
        let width = NR.min(columns - group * NR);
        let at = row * columns + group * NR;
        let mut d = [0f32; NR];
        for (d, &code) in d.iter_mut().zip(&self.tile[at..at + width]) {
            *d = self.state.load(code);
        }
        for step in steps {
            d = self.step::<NATIVE>(row, group, step, k, d);
        }
        for (&d, code) in d.iter().zip(&mut self.tile[at..at + width]) {
            *code = self.state.store(d);
        }
    }

    #[inline(always)]
    fn step<const NATIVE: bool>(&self, row: usize, group: usize, step: usize, k: usize, c: [f32; NR]) -> [f32; NR] {
        let (p, per_step) = (self.params, self.layout.step);
        let steps = k / per_step;
        let flags = self.a.flags[row * steps + step] | self.b.flags[group * steps + step];
        let last = p.c == CPosition::Last;
        let mut d = if last { [0.0; NR] } else { c };
        for &(from, to) in &self.layout.blocks {
            let (from_k, to_k) = (step * per_step + from, step * per_step + to);
            let (at_a, at_b) = (row * k, group * k);
            let (sa, sb) = self.scales(row, group, step, from, steps);
            let block = Block {
                a: &self.a.values()[at_a + from_k..at_a + to_k],
                a_exponents: &self.a.exponents()[at_a + from_k..at_a + to_k],
                b: &self.b.values().as_chunks::<NR>().0[at_b + from_k..at_b + to_k],
                b_exponents: &self.b.exponents().as_chunks::<NR>().0[at_b + from_k..at_b + to_k],
                flags,
                scale_a: sa,
                scale_b: sb,
            };
            d = general_body::block::<NATIVE>(&block, d, p);
        }
        if last { general_body::add_last::<NATIVE>(c, d, p) } else { d }
    }

    /// Exponents of the block's scales.
    #[inline(always)]
    fn scales(&self, row: usize, group: usize, step: usize, from: usize, steps: usize) -> (i32, &[i32; NR]) {
        const ONE: [i32; NR] = [0; NR];
        let Some(block) = self.params.scaled else { return (0, &ONE) };
        let slots = self.layout.step / block;
        let slot = step * slots + from / block;
        let b = self.b.scales.as_chunks::<NR>().0;
        (self.a.scales[row * steps * slots + slot], &b[group * steps * slots + slot])
    }
}

impl General {
    /// Exponents of scales; a NaN scale makes its elements NaN.
    fn pack_scales(&self, panel: &mut Panel, columns: bool) {
        let Some(rule) = self.unit.scale else { return };
        let mut to = panel.take_packed::<Values>();
        to.take_scales(panel, &rule, columns, &self.layout);
        panel.put_packed(to);
    }
}

impl Kernel for General {
    fn name(&self) -> &'static str {
        if self.params.chunk > 0 { "aligned, f32 lanes" } else { "aligned, f64 lanes" }
    }

    fn why(&self) -> String {
        let lanes = if self.params.chunk > 0 {
            "products fit f32 and their sums i32"
        } else {
            "products and sums of up to 51 bits fit f64"
        };
        format!("an aligned sum of formats that f32 holds, F = {}: {lanes}", self.params.frac_bits)
    }

    fn tile(&self) -> [usize; 2] {
        [64, 256]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<f32>() + size_of::<i16>()
    }

    fn pack_a(&self, panel: &mut Panel) {
        Values::pack_rows(panel, &self.a, &self.layout);
        self.pack_scales(panel, false);
    }

    fn pack_b(&self, panel: &mut Panel) {
        Values::pack_columns(panel, &self.b, &self.layout);
        self.pack_scales(panel, true);
    }

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        let Lanes::Narrow(tile) = state else { unreachable!("d is at most 32 bits wide") };
        let (params, layout) = (&self.params, &self.layout);
        let size = [a.lines, b.lines, a.k];
        let (a, b) = (a.packed::<Values>(), b.packed::<Values>());
        let job = Job { params, layout, state: &self.state, a, b, size, steps, tile };
        wide::on(self.isa, job);
    }
}
