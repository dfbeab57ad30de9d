//! Exact(G) on register tiles: sums of products and c that f64 holds without error, then one rounding.
//!
//! Operands are scaled by powers of two so that a group's products sum to less than 1/2 in magnitude; states below 2
//! then leave 50 fraction bits. Where the last places of a step's products are all at or above 2^-50, so is every state
//! that comes of them, and nothing rounds but the last operation of a group: to 24 bits, ties to even, by adding and
//! taking away `1.5 * 2^29` times the sum's power of two. States stay in f64 in between.
//!
//! Where exponents do not prove this, a few groups are tried all the same, and the processor's flags say whether a sum
//! was rounded. If one was, they are done again with a look at each sum: its error is small, and matters only near a
//! tie. Of two products one of which has a subnormal operand, only that one's sign counts.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "functions for one instruction set, loads through the panels' pointers")]

mod doubtful;
mod subnormal;

use super::{Family, Fields, MR, NR, Run, Scales, Set, Source, Tile, Tiles};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::buffer::Buffer;
use crate::simd::decode::{Reading, SPECIAL, WIDE};
use crate::simd::exact::Exact;
use crate::simd::flags;
use crate::simd::lanes::power;
use crate::simd::wide::in_order;
use crate::special::NanRule;
use crate::unit::Unit;
use std::sync::Arc;
use subnormal::Lift;

/// The exponent of the lowest place of products and states, which sums below 4 have in f64 too.
const LAST: i32 = -50;
/// Adding it to a state below 2 leaves multiples of that place.
const GRID: f64 = 6.0;
/// The exponent of f32's smallest number.
const LEAST: i32 = -149;
/// Positions of K that are tried together.
const TOGETHER: usize = 64;
/// The exponent of the last place of sums' high parts. The low ones are below 2^-40 and, of 64 products within the
/// bounds of `select`, multiples of 2^-91.
const LAST_HIGH: i32 = -45;

/// The family, and what it takes for ordinary.
#[derive(Debug)]
struct Sums {
    body: Exact,
    /// Fraction bits of A's and B's formats.
    bits: [u32; 2],
    /// The exponents of their smallest numbers.
    least: [i32; 2],
}

/// The kernel, for results in f32 and whole groups.
pub(super) fn kernel<S: Set>(
    set: S,
    unit: &Unit,
    body: Exact,
    groups: &[Vec<usize>],
    nan: NanRule,
) -> Option<Arc<dyn Kernel>> {
    let bits = [unit.a.fraction_bits, unit.b.fraction_bits];
    let least = [unit.a, unit.b].map(|spec| spec.emin() - spec.fraction_bits as i32);
    if !super::is_known(unit) || groups.iter().any(|g| g.len() != body.group) {
        return None;
    }
    let source = |spec| Source::new(spec, Reading::default(), groups, body.group);
    Some(Arc::new(Tiles {
        family: Sums { body, bits, least },
        name: "exact-f64",
        k: unit.shape.k,
        step: body.group,
        nan: F32.nan_code(nan)? as u32,
        a: source(unit.a),
        b: source(unit.b),
        set,
    }))
}

impl Family for Sums {
    type Body = Exact;
    type Value = f64;
    type Scratch = Vec<Lift>;

    fn body(&self) -> &Exact {
        &self.body
    }

    #[inline(always)]
    fn values(numbers: &mut Buffer, to: &mut Buffer, count: usize, scale: i32) {
        let numbers = &numbers.view::<f32>()[..count];
        to.room::<f64>(count).iter_mut().zip(numbers).for_each(|(to, x)| *to = f64::from(*x) * power(scale));
    }

    #[inline(always)]
    fn number(x: f64, scale: i32) -> f32 {
        (x * power(-scale)) as f32
    }

    fn scale(&self, top: u8, columns: bool) -> i32 {
        // Magnitudes below 1, and B's below 1 / 2G.
        let room = if columns { self.body.group.next_power_of_two().ilog2() as i32 + 1 } else { 0 };
        let top = if top == 0 { 127 } else { i32::from(top) };
        126 - top - room
    }

    #[inline(always)]
    fn ordinary(&self, a: Fields, b: Fields, _scales: Scales) -> bool {
        (a.high < 255) & (b.high < 255)
    }

    fn flags(&self, a: Fields, b: Fields) -> u8 {
        let special = a.high == 255 || b.high == 255;
        // Whether one side takes more than half of f64's bits, with room for 32 products.
        let wide = |f: Fields, bits: u32| f.low <= f.high && u32::from(f.high - f.low) + bits + 1 > 24;
        let [bits_a, bits_b] = self.bits;
        (if special { SPECIAL } else { 0 }) | (if wide(a, bits_a) || wide(b, bits_b) { WIDE } else { 0 })
    }

    #[inline(always)]
    unsafe fn steps<S: Set>(&self, set: S, run: &mut Run<'_, Self>, tile: &mut Tile) -> u8 {
        let scale = run.scales.a + run.scales.b;
        // Results of at least 2^-50 are normal f32.
        if !(-110..=76).contains(&scale) {
            return 0;
        }
        let (mut states, rows, on_grid) = load(set, tile, run.size, scale);
        if rows == 0 {
            return 0;
        }
        // SAFETY: the caller's run, whose fields are of groups of `body.group` products, `k` in all.
        let inside = unsafe {
            match self.body.group {
                2 => self.groups::<S, 2>(set, run, &mut states, on_grid),
                4 => self.groups::<S, 4>(set, run, &mut states, on_grid),
                _ => self.groups::<S, 0>(set, run, &mut states, on_grid),
            }
        };
        if !inside {
            return 0;
        }
        store(set, &states, rows, tile, scale);
        rows
    }
}

/// Vectors across a block of states.
const VECTORS: usize = 2;
/// Rows of two vectors, of which a set uses its own number.
type Vectors<V> = [[V; VECTORS]; MR];

/// States of a register tile in f64, scaled.
#[derive(Clone)]
#[repr(align(64))]
struct States([[f64; NR]; MR]);

/// Where successive groups of products are: A's and B's panels, how many groups there are, and of how many products;
/// and the rows and columns that matter.
#[derive(Clone, Copy)]
struct Groups {
    a: *const f64,
    b: *const f64,
    steps: usize,
    group: usize,
    size: [usize; 2],
}

impl Groups {
    /// The first rows and columns of blocks of states that registers hold.
    #[inline(always)]
    fn blocks<S: Set>(self) -> impl Iterator<Item = [usize; 2]> {
        // Panels' loads are not checked: blocks fill a tile.
        const { assert!(MR.is_multiple_of(S::ROWS) && NR.is_multiple_of(VECTORS * S::LANES)) }
        let [height, width] = self.size;
        let columns = (0..width).step_by(VECTORS * S::LANES);
        columns.flat_map(move |column| (0..height).step_by(S::ROWS).map(move |row| [row, column]))
    }

    /// A's operand of a row at a position, in all lanes.
    ///
    /// # Safety
    /// The panel holds position `p`, and `row` is below `MR`.
    #[inline(always)]
    unsafe fn row<S: Set>(self, set: S, p: usize, row: usize) -> S::F64 {
        // SAFETY: one of `MR` values of a position that is there.
        set.splat(unsafe { *self.a.add(p * MR + row) })
    }

    /// B's operands of a block at a position.
    ///
    /// # Safety
    /// The panel holds position `p`, aligned to 64 bytes, and `column` is a block's first.
    #[inline(always)]
    unsafe fn columns<S: Set>(self, set: S, p: usize, column: usize) -> [S::F64; VECTORS] {
        // SAFETY: of a position's `NR` values two vectors, within them as blocks are (`blocks`): these begin at whole
        // vectors.
        unsafe {
            let at = self.b.add(p * NR + column);
            [set.load(at), set.load(at.add(S::LANES))]
        }
    }
}

impl States {
    #[inline(always)]
    fn load<S: Set>(&self, set: S, [row, column]: [usize; 2]) -> Vectors<S::F64> {
        let mut to = [[set.splat(0.0); VECTORS]; MR];
        for r in 0..S::ROWS {
            let from = &self.0[row + r][column..][..VECTORS * S::LANES];
            // SAFETY: `from` is two vectors long, and begins at a whole one of a row of `NR`, aligned to 64 bytes.
            to[r] = unsafe { [set.load(from.as_ptr()), set.load(from.as_ptr().add(S::LANES))] };
        }
        to
    }

    #[inline(always)]
    fn store<S: Set>(&mut self, set: S, [row, column]: [usize; 2], from: &Vectors<S::F64>) {
        for r in 0..S::ROWS {
            let to = &mut self.0[row + r][column..][..VECTORS * S::LANES];
            // SAFETY: likewise of `to`.
            unsafe {
                set.store(to.as_mut_ptr(), from[r][0]);
                set.store(to.as_mut_ptr().add(S::LANES), from[r][1]);
            }
        }
    }
}

impl Sums {
    /// The exponent of a place at or below the last ones of products: operands are multiples of their format's smallest
    /// number, and of the last place of the smallest at hand.
    #[inline(always)]
    fn last(&self, lows: [u8; 2]) -> i32 {
        let last = |side: usize| i32::from(lows[side]) - 127 - self.bits[side] as i32;
        (0..2).map(|side| last(side).max(self.least[side])).sum()
    }

    /// Whether products of operands from such fields on are multiples of the last place.
    #[inline(always)]
    fn fit(&self, lows: [u8; 2], scales: Scales) -> bool {
        self.last(lows) + scales.a + scales.b >= LAST
    }

    /// All groups of a run, of `G` products, or with 0 of any number, on states that are all multiples of the last
    /// place or not. False where a state left the range.
    ///
    /// # Safety
    /// As `Family::steps`; the run's fields are of groups of `G` products (`body.group`, with 0), `k` in all.
    #[inline(always)]
    unsafe fn groups<S: Set, const G: usize>(
        &self,
        set: S,
        run: &mut Run<'_, Self>,
        states: &mut States,
        mut on_grid: bool,
    ) -> bool {
        let (group, steps) = (if G == 0 { self.body.group } else { G }, run.fields[0].len());
        let (a, b, size, fields) = (run.a, run.b, run.size, run.fields);
        let at = |step: usize, steps: usize| Groups {
            a: a.wrapping_add(step * group * MR),
            b: b.wrapping_add(step * group * NR),
            steps,
            group,
            size,
        };
        let [all_a, all_b] = run.all;
        if on_grid && self.fit([all_a.low, all_b.low], run.scales) {
            // SAFETY: all of the run's groups.
            return unsafe { chain::<S, G>(set, at(0, steps), states) };
        }
        // Without subnormal operands, where these do not matter but by their sign.
        let others_fit = self.fit([all_a.normal, all_b.normal], run.scales);
        let mut inside = true;
        let together = (TOGETHER / group).max(1);
        for from in (0..steps).step_by(together) {
            let to = steps.min(from + together);
            let all = |side: usize| Fields::all(&fields[side][from..to]);
            let lifted = G == 2 && on_grid && subnormal::small(run.scales);
            if lifted && (others_fit || self.fit([all(0).normal, all(1).normal], run.scales)) && run.hope.tries() {
                let before = states.clone();
                // SAFETY: groups of the run, of two products; `together`, 32, of them at most.
                let (within, large) = unsafe {
                    self.lifts(run, from..to);
                    subnormal::chain(set, at(from, to - from), run.scratch, states)
                };
                run.hope.learn(large);
                if large {
                    inside &= within;
                    continue;
                }
                *states = before;
            }
            // Sums of multiples of f32's smallest number are f32 where they are subnormal.
            let even_small = self.last([all(0).low, all(1).low]) >= LEAST;
            if even_small && run.hope.tries() {
                let before = states.clone();
                flags::clear(flags::INEXACT, &mut states.0);
                // SAFETY: groups of the run.
                let within = unsafe { chain::<S, G>(set, at(from, to - from), states) };
                let exact = !flags::raised(flags::INEXACT, &mut states.0);
                run.hope.learn(exact);
                if exact {
                    (inside, on_grid) = (inside & within, false);
                    continue;
                }
                *states = before;
            }
            let fits = |step: usize| self.fit([fields[0][step].low, fields[1][step].low], run.scales);
            let mut step = from;
            while step < to {
                let plain = on_grid && fits(step);
                let more = (step + 1..to).take_while(|&next| plain == fits(next)).count();
                let groups = at(step, 1 + more);
                // SAFETY: groups of the run from `step` on, as far as `to` at most.
                inside &= unsafe {
                    if plain {
                        chain::<S, G>(set, groups, states)
                    } else {
                        self.doubtful::<S, G>(set, groups, run.scales, states, &mut on_grid)
                    }
                };
                step += 1 + more;
            }
        }
        inside
    }
}

/// Groups of `G` products, or with 0 of any number, whose sums are exact. False where a state left the range.
///
/// # Safety
/// The panels hold these groups, B's aligned to 64 bytes.
#[inline(always)]
unsafe fn chain<S: Set, const G: usize>(set: S, groups: Groups, states: &mut States) -> bool {
    set.apart(
        #[inline(always)]
        || {
            let group = if G == 0 { groups.group } else { G };
            let mut beyond = set.splat(0.0);
            for block in groups.blocks::<S>() {
                let [row, column] = block;
                let mut d = states.load(set, block);
                for d in d.iter_mut().take(S::ROWS) {
                    // A sum below f32's numbers was -0 as a result, but is +0 as c: else products of -0 would keep it.
                    *d = [set.add(d[0], set.splat(0.0)), set.add(d[1], set.splat(0.0))];
                }
                for from in (0..groups.steps * group).step_by(group) {
                    for p in from..from + group {
                        // Position by position: else registers do not hold the operands.
                        in_order();
                        // SAFETY: a position of one of the groups, and a block's first column.
                        let b = unsafe { groups.columns(set, p, column) };
                        for r in 0..S::ROWS {
                            // SAFETY: one of the block's rows, which lie within `MR`.
                            let a = unsafe { groups.row(set, p, row + r) };
                            d[r] = [set.fma(a, b[0], d[r][0]), set.fma(a, b[1], d[r][1])];
                        }
                    }
                    for r in 0..S::ROWS {
                        d[r] = [set.round(d[r][0]), set.round(d[r][1])];
                        beyond = set.or(beyond, d[r][0], d[r][1]);
                    }
                }
                states.store(set, block, &d);
            }
            set.below_two(beyond)
        },
    )
}

/// The states, scaled; the rows in which all are below 2; and whether these are multiples of the last place. The other
/// rows and what lies beyond the last row and column hold a small number, which does not grow out of the range soon.
#[inline(always)]
fn load<S: Set>(set: S, tile: &Tile, [height, width]: [usize; 2], scale: i32) -> (States, u8, bool) {
    let (up, grid, small) = (set.splat(power(scale)), set.splat(GRID), set.splat(0.25));
    let (mut states, mut rows, mut on_grid) = (States([[0.25; NR]; MR]), 0, true);
    for r in 0..height {
        let (mut within, mut whole) = (true, true);
        for j in (0..NR).step_by(S::LANES) {
            // SAFETY: from `j` on a row has `LANES` floats: these divide 16.
            let c = unsafe { set.load_wide(tile.0[r].as_ptr().add(j)) };
            // Minus zero is plus zero.
            let x = set.first(width.saturating_sub(j), set.fma(c, up, set.splat(0.0)), small);
            within &= set.all_less(set.splat(-2.0), set.negative(x));
            whole &= set.all_equal(x, set.sub(set.add(x, grid), grid));
            // SAFETY: as many states, aligned to as many.
            unsafe { set.store(states.0[r].as_mut_ptr().add(j), x) }
        }
        if within {
            rows |= 1 << r;
            on_grid &= whole;
        } else {
            states.0[r] = [0.25; NR];
        }
    }
    (states, rows, on_grid)
}

/// Writes rows of a mask back.
#[inline(always)]
fn store<S: Set>(set: S, states: &States, rows: u8, tile: &mut Tile, scale: i32) {
    let down = set.splat(power(-scale));
    for (r, to) in tile.0.iter_mut().enumerate().filter(|(r, _)| rows >> r & 1 == 1) {
        for j in (0..NR).step_by(S::LANES) {
            // SAFETY: from `j` on rows of both have `LANES` numbers: these divide 16. States are aligned to as many.
            unsafe {
                let d = set.load(states.0[r].as_ptr().add(j));
                set.store_narrow(to.as_mut_ptr().add(j), set.mul(d, down));
            }
        }
    }
}
