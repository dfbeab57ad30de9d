//! Inputs at the edges of a model: where its widths, floors and limits begin to matter.
//!
//! A parameter shows only where a bit stands just beyond what it keeps: F bits below the largest
//! term, at the alignment floor, one place below the result's last bit, in the block after a large
//! sum. Random inputs rarely stand there; these are built there from the model's own parameters.

mod bottom;
mod parameters;
mod products;
mod scenes;
mod terms;

use self::parameters::{parameters, results, sums};
use super::bench::{Bench, top};
use super::black_box::{Input, Interface};
use super::generate::{Generator, Kind, negative_zero};
use crate::accumulate::{CPosition, Recipe, ZeroProducts};
use crate::format::FormatSpec;
use crate::random::Random;
use crate::round::Rounding;

/// The edges of one model, and a stream of inputs there.
#[derive(Clone, Debug)]
pub(crate) struct Edges {
    bench: Bench,
    random: Random,
    scales: Generator,
    /// Whether this input's scales bring its products to the edges; else they are 1 or at random.
    aims_scales: bool,
    /// The places of each step.
    blocks: Vec<Vec<usize>>,
    /// Distances below the largest term at which bits are cut or rounded off.
    gaps: Vec<i32>,
    /// Those at which alignment cuts them.
    widths: Vec<i32>,
    /// Exponents at which another rule begins.
    levels: Vec<i32>,
    /// Those among the smallest results and below.
    depths: Vec<i32>,
    floor: Option<i32>,
    /// The last bits kept where alignment starts at the floor.
    floors: Vec<i32>,
    /// Widths of sums, of more bits than a result has: only ties show those.
    sums: Vec<i32>,
    /// The fraction bits that results may have: all of d's, or fewer.
    results: Vec<i32>,
    /// Those that this input is made for.
    kept: i32,
    /// Whether subnormal results are zero, so that nothing shows in small sums.
    flushes: bool,
    /// Whether a sticky bit stands for what is cut, so that two terms show what one does not.
    sticky: bool,
    /// Whether results are rounded in one direction, so that anything beside one shows.
    directed: bool,
    /// Whether zero products count in the largest exponent.
    counts_zeros: bool,
    /// Whether subnormal operands are read as zero.
    normal_operands: bool,
    /// Whether c is aligned with products, or is the state that is.
    aligns_c: bool,
}

/// Where in the range an input's largest terms are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// Anywhere.
    Anywhere,
    /// Among the smallest results, where the alignment floor counts.
    Bottom,
    /// At the largest exponents, which cut the most.
    Top,
}

/// The bits of a term below its leading one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Anything,
    /// All ones: just below the next power of two.
    Ones,
    /// One bit, of this exponent if there is a place for it.
    Bit(i32),
    /// All bits from this exponent down.
    From(i32),
    /// All bits down to this exponent.
    DownTo(i32),
}

/// Where a scene is to be: the step, the sign and the exponent of its largest term, and the bits below its leading one.
#[derive(Clone, Copy, Debug)]
struct Spot {
    step: usize,
    negative: bool,
    lead: i32,
    rest: Rest,
}

/// Makes an input.
type Make = fn(&mut Edges, &mut Input, Spot);

const DIRECTED: [Rounding; 4] = [Rounding::TowardZero, Rounding::AwayFromZero, Rounding::Down, Rounding::Up];

const fn last_bit(f: &FormatSpec) -> i32 {
    f.emin() - f.fraction_bits as i32
}

impl Edges {
    pub(crate) fn new(recipe: &Recipe, interface: &Interface, seed: u64) -> Self {
        let (blocks, widths, floor) = parameters(recipe, interface);
        let Interface { a, b, c, d, .. } = interface;
        let kept = d.fraction_bits as i32;
        let mut gaps = vec![0, kept];
        // Twice as often as where results are rounded.
        gaps.extend(widths.iter().chain(&widths).map(|&w| w as i32));
        let aligned = if widths.is_empty() { gaps.clone() } else { widths.iter().map(|&w| w as i32).collect() };
        let mut depths = vec![d.emin(), last_bit(d), last_bit(c), a.emin() + b.emin(), last_bit(a) + last_bit(b)];
        depths.extend(floor);
        let mut levels = vec![top(a) + top(b), top(c), top(d), 127];
        levels.extend([last_bit(a) + top(b), top(a) + last_bit(b)]);
        // The last bits kept where the largest exponent is the floor or the smallest there is.
        let lowest = [d.emin(), c.emin(), a.emin() + b.emin()];
        for &w in &widths {
            depths.extend(lowest.iter().chain(&floor).map(|e| e - w as i32));
        }
        levels.extend(&depths);
        let floors = widths.iter().flat_map(|&w| floor.map(|e| e - w as i32)).collect();
        let bench = Bench::new(*interface);
        Self {
            scales: Generator::new(bench.clone(), seed),
            aims_scales: false,
            random: Random::new(seed),
            bench,
            blocks,
            gaps,
            widths: aligned,
            levels,
            depths,
            floor,
            floors,
            sums: sums(recipe),
            results: results(recipe, kept),
            kept,
            flushes: matches!(recipe, Recipe::Generic(x) if x.flush_results),
            sticky: matches!(recipe, Recipe::Generic(x) if x.sticky),
            counts_zeros: matches!(recipe, Recipe::Generic(x) if x.zero_products == ZeroProducts::OwnExponent),
            directed: matches!(recipe, Recipe::Generic(x) if DIRECTED.contains(&x.output_rounding)),
            normal_operands: matches!(recipe, Recipe::Generic(x) if x.flush_inputs),
            aligns_c: !matches!(recipe, Recipe::Generic(x) if x.c != CPosition::With),
        }
    }

    /// Whether products have so few bits that sums are exact but for extreme ones.
    const fn is_narrow(&self) -> bool {
        self.bench.interface.a.fraction_bits + self.bench.interface.b.fraction_bits <= 8
    }

    pub(crate) fn batch(&mut self, count: usize) -> Vec<Input> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Sums beside a tie, which alone show widths of more bits than a result has.
    pub(crate) fn ties(&mut self, count: usize) -> Vec<Input> {
        let mut one = || {
            let (mut input, lead) = (self.bench.zeros(), self.lead(Scene::Anywhere));
            self.kept = self.pick(|s| &s.results);
            self.aims_scales = self.random.one_in(2);
            self.beside_tie(&mut input, lead);
            input
        };
        (0..count).map(|_| one()).collect()
    }

    fn pick(&mut self, from: impl Fn(&Self) -> &[i32]) -> i32 {
        let n = self.random.below(from(self).len() as u64) as usize;
        from(self)[n]
    }

    /// The last bit of a result whose leading one is at `lead`: subnormal ones have the smallest normal one's.
    fn result_bit(&self, lead: i32) -> i32 {
        lead.max(self.bench.interface.d.emin()) - self.kept
    }

    /// The exponent of the largest term.
    fn lead(&mut self, scene: Scene) -> i32 {
        let i = self.bench.interface;
        match scene {
            // Half of the smallest result is a tie, which the smallest rest decides.
            Scene::Bottom if self.random.one_in(4) => self.result_bit(i.d.emin()) - 1,
            Scene::Bottom if self.random.one_in(2) => self.random.range(self.result_bit(i.d.emin()), i.d.emin() + 2),
            Scene::Bottom => self.pick(|s| &s.depths) + self.random.range(-2, 2),
            Scene::Top => {
                let products = top(&i.a) + top(&i.b);
                let most = if self.random.one_in(2) { products } else { products.min(top(&i.c)).min(top(&i.d)) };
                if self.random.one_in(3) {
                    // Where they begin to cut the smallest terms.
                    let small = if self.random.one_in(2) { last_bit(&i.c) } else { last_bit(&i.a) + last_bit(&i.b) };
                    return most.min(small + self.pick(|s| &s.gaps) + self.random.range(0, 3));
                }
                most - self.random.range(0, 1) * self.random.range(0, 3)
            }
            Scene::Anywhere if self.random.one_in(3) => self.pick(|s| &s.levels) + self.random.range(-2, 1),
            Scene::Anywhere => {
                let wide = self.random.one_in(2);
                let (low, high) = if wide { self.bench.product_range() } else { self.bench.common_range() };
                self.random.range(low, high)
            }
        }
    }

    /// The exponent of a term at an edge below the largest one.
    fn below(&mut self, scene: Scene, lead: i32) -> i32 {
        let gap = self.pick(|s| &s.gaps);
        match (scene, self.random.below(8)) {
            // The smallest term of all.
            (Scene::Top, 0 | 1) => {
                let i = self.bench.interface;
                let products = last_bit(&i.a) + last_bit(&i.b);
                if self.random.one_in(4) { last_bit(&i.c) } else { products }
            }
            (Scene::Bottom, 0..3) if !self.floors.is_empty() => self.pick(|s| &s.floors) + self.random.range(-3, 2),
            (Scene::Bottom | Scene::Top, 0..4) => self.pick(|s| &s.depths) + self.random.range(-2, 4),
            (_, 4) => self.pick(|s| &s.levels) + self.random.range(-1, 1),
            (_, 5) => lead - self.random.range(0, 75),
            (_, 6) => lead - gap - self.pick(|s| &s.gaps) + self.random.range(-2, 1),
            _ => lead - gap + self.random.range(-3, 2),
        }
    }

    fn next(&mut self) -> Input {
        let mut input = self.scene();
        // Beside any of them: zero products may count in the largest exponent.
        if self.random.one_in(if self.counts_zeros { 5 } else { 12 }) {
            self.zero_product(&mut input);
        }
        input
    }

    fn scene(&mut self) -> Input {
        let mut input = self.bench.zeros();
        self.kept = self.pick(|s| &s.results);
        self.aims_scales = self.random.one_in(2);
        let rest = if self.random.one_in(2) { Rest::Nothing } else { Rest::Anything };
        let scene = [Scene::Anywhere, Scene::Anywhere, Scene::Bottom, Scene::Top][self.random.below(4) as usize];
        let lead = self.lead(scene);
        if self.random.one_in(32) {
            self.vanishing(&mut input);
            return input;
        }
        if self.random.one_in(6) {
            self.beside_tie(&mut input, lead);
            return input;
        }
        // The first step alone has c as it is, and not as results before it left it.
        let step = if self.random.one_in(4) { 0 } else { self.random.below(self.blocks.len() as u64) as usize };
        let at = Spot { step, negative: self.random.one_in(2), lead, rest };
        match self.made_for_one_rule(at) {
            Some(make) => make(self, &mut input, at),
            None => self.few_terms(&mut input, at, scene),
        }
        input
    }

    /// Which of the scenes that show one rule it is this time, if any.
    fn made_for_one_rule(&mut self, at: Spot) -> Option<Make> {
        let many = self.blocks[at.step].len() > 1;
        let Interface { a, b, .. } = self.bench.interface;
        let products_reach_below_ties = (a.fraction_bits + b.fraction_bits) as i32 > self.kept;
        let odds = |often: bool, one_in: [u64; 2]| one_in[usize::from(!often)];
        let scenes: [(u64, Make); 19] = [
            (16, |s, i, at| s.left_over(i, at)),
            (odds(self.sticky, [12, 64]), |s, i, at| s.two_small(i, at.step, at.lead)),
            (odds(many, [24, 96]), |s, i, at| s.alike(i, at.step, at.lead)),
            (odds(self.is_narrow(), [32, 128]), |s, i, _| s.up_and_down(i)),
            (odds(self.counts_zeros && many, [48, 0]), |s, i, at| s.beside_zero(i, at)),
            (odds(self.directed && many, [32, 128]), |s, i, at| s.full(i, at.step, at.negative, at.lead)),
            (odds(self.directed || at.step == 0, [256, 48]), |s, i, at| s.carried_tie(i, at.step, at.negative)),
            (48, |s, i, at| s.cut_ones(i, at.step, at.lead)),
            (24, |s, i, at| s.alone(i, at.step, at.negative, at.lead)),
            (odds(products_reach_below_ties && !self.directed, [48, 0]), |s, i, at| s.nearly_tied(i, at)),
            (12, |s, i, at| {
                let step = if s.random.one_in(3) { 0 } else { at.step };
                s.beside_unnormalised(i, step, at.negative, at.lead);
            }),
            (odds(self.flushes, [16, 96]), |s, i, at| s.below_floor(i, at.step, at.negative)),
            (odds(self.flushes, [6, 0]), |s, i, at| s.barely_normal(i, at.step, at.negative)),
            (odds(!self.floors.is_empty() && self.results.len() > 1, [24, 0]), |s, i, at| {
                s.together_a_result(i, at.negative);
            }),
            (odds(!self.floors.is_empty() && many, [96, 0]), |s, i, at| s.tied_at_floor(i, at.negative)),
            (odds(self.flushes, [16, 256]), |s, i, at| s.up_to_normal(i, at.step, at.negative)),
            (odds(self.flushes, [32, 96]), |s, i, at| s.barely_subnormal(i, at.step, at.negative)),
            (odds(!self.sums.is_empty() && many, [8, 0]), |s, i, at| s.c_undone(i, at)),
            (if many { odds(self.is_narrow() || !self.sums.is_empty(), [12, 64]) } else { 0 }, |s, i, at| {
                s.brimming(i, at);
            }),
        ];
        let ties: (u64, Make) =
            (odds(!self.sums.is_empty(), [4, 0]), |s, i, at| s.tie(i, at.step, at.negative, at.lead));
        let mut drawn = |one_in: u64| one_in > 0 && self.random.one_in(one_in);
        scenes.into_iter().chain([ties]).find_map(|(one_in, make)| drawn(one_in).then_some(make))
    }

    /// A largest term, or one with others that cancel it, and up to three more at the edges below it.
    fn few_terms(&mut self, input: &mut Input, at: Spot, scene: Scene) {
        let Spot { step: first, negative, mut lead, rest } = at;
        let mut others = 1 + self.random.below(3);
        match self.random.below(8) {
            0 => {}
            1 | 2 => {
                lead = self.fill(input, first, negative, lead, rest);
                others -= self.random.below(2);
            }
            3 | 4 => self.cancelling(input, first, negative, lead, rest),
            _ => self.put(input, first, negative, lead, rest),
        }
        for _ in 0..others {
            // In the same step, the next one or any.
            let step = match self.random.below(4) {
                0 => first + 1,
                1 => self.random.below(self.blocks.len() as u64) as usize,
                _ => first,
            };
            let (step, e, negative) = (step % self.blocks.len(), self.below(scene, lead), self.random.one_in(2));
            // Beside a power of two one or two bits decide what is rounded off, beside others many.
            let (e, rest) = match self.random.below(12) {
                0 | 1 => (e, Rest::Nothing),
                2 | 3 => (e, Rest::Anything),
                4 | 5 => (e, Rest::Bit(self.below(scene, lead))),
                // Its last bits are cut, and rounded up it has one more.
                6 => (lead - self.pick(|s| &s.gaps) + self.random.range(0, self.kept), Rest::Ones),
                _ => (e, rest),
            };
            self.put(input, step, negative, e, rest);
            if self.random.one_in(3) {
                // Another of its size against it: what is left of both may have the other's sign.
                let by = self.random.range(-3, 1);
                self.put(input, step, !negative, e + by, rest);
            }
        }
        let c = self.bench.interface.c;
        if input.c == 0 && c.has_negative_zero() && self.random.one_in(4) {
            input.c = negative_zero(&c);
        }
        if !self.aims_scales && self.random.one_in(2) {
            self.scales.scales(input, Kind::FewTerms);
        }
    }
}
