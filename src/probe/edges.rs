//! Inputs at the edges of a model: where its widths, floors and limits begin to matter.
//!
//! A parameter shows only where a bit stands just beyond what it keeps: F bits below the largest
//! term, at the alignment floor, one place below the result's last bit, in the block after a large
//! sum. Random inputs rarely stand there; these are built there from the model's own parameters.

mod bottom;
mod parameters;
mod products;
mod scenes;

use self::parameters::{parameters, results, sums};
use super::bench::{Bench, Random, around, top};
use super::black_box::{Input, Interface};
use super::generate::{Generator, Kind, fraction, negative_zero};
use crate::accumulate::{Recipe, ZeroProducts};
use crate::format::FormatSpec;
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
}

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
        gaps.extend(widths.iter().map(|&w| w as i32));
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
        let first = self.random.below(self.blocks.len() as u64) as usize;
        let negative = self.random.one_in(2);
        if self.random.one_in(16) {
            self.left_over(&mut input, first, negative, lead, rest);
            return input;
        }
        if self.random.one_in(if self.sticky { 12 } else { 64 }) {
            self.two_small(&mut input, first, lead);
            return input;
        }
        if self.random.one_in(if self.blocks[first].len() > 1 { 24 } else { 96 }) {
            self.alike(&mut input, first, lead);
            return input;
        }
        if self.random.one_in(if self.is_narrow() { 32 } else { 128 }) {
            self.up_and_down(&mut input);
            return input;
        }
        if self.random.one_in(48) {
            self.cut_ones(&mut input, first, lead);
            return input;
        }
        if self.random.one_in(24) {
            self.alone(&mut input, first, negative, lead);
            return input;
        }
        if self.random.one_in(12) {
            self.beside_unnormalised(&mut input, first, negative, lead);
            return input;
        }
        if self.random.one_in(if self.flushes { 16 } else { 96 }) {
            self.below_floor(&mut input, first, negative);
            return input;
        }
        if self.flushes && self.random.one_in(6) {
            self.barely_normal(&mut input, first, negative);
            return input;
        }
        if self.random.one_in(if self.flushes { 32 } else { 96 }) {
            self.barely_subnormal(&mut input, first, negative);
            return input;
        }
        if !self.sums.is_empty() && self.random.one_in(4) {
            self.tie(&mut input, first, negative, lead);
            return input;
        }
        let (mut lead, mut others) = (lead, 1 + self.random.below(3));
        match self.random.below(8) {
            0 => {}
            1 | 2 => {
                lead = self.fill(&mut input, first, negative, lead, rest);
                others -= self.random.below(2);
            }
            3 | 4 => self.cancelling(&mut input, first, negative, lead, rest),
            _ => self.put(&mut input, first, negative, lead, rest),
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
            self.put(&mut input, step, negative, e, rest);
            if self.random.one_in(3) {
                // Another of its size against it: what is left of both may have the other's sign.
                let by = self.random.range(-3, 1);
                self.put(&mut input, step, !negative, e + by, rest);
            }
        }
        let c = self.bench.interface.c;
        if input.c == 0 && c.has_negative_zero() && self.random.one_in(4) {
            input.c = negative_zero(&c);
        }
        if !self.aims_scales && self.random.one_in(2) {
            self.scales.scales(&mut input, Kind::FewTerms);
        }
        input
    }

    /// A place of a step, or K for c.
    fn place(&mut self, step: usize) -> usize {
        let members = &self.blocks[step];
        let n = self.random.below(members.len() as u64 + 1) as usize;
        if n == members.len() || self.random.one_in(8) { self.bench.interface.k } else { members[n] }
    }

    fn put(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) {
        let k = self.place(step);
        self.put_at(input, k, negative, e, rest);
    }

    /// Sets a product of stored exponent e, or c.
    fn put_at(&mut self, input: &mut Input, k: usize, negative: bool, e: i32, rest: Rest) {
        let i = self.bench.interface;
        let mut bits = |f: &FormatSpec| match rest {
            Rest::Nothing => 0,
            Rest::Ones => u64::MAX,
            Rest::Anything => fraction(&mut self.random, f.fraction_bits),
            Rest::Bit(at) if at < e => 1u64.checked_shl((f.fraction_bits as i32 - (e - at)) as u32).unwrap_or(0),
            Rest::From(at) if at < e => {
                u64::MAX.checked_shr((63 - f.fraction_bits as i32 + (e - at)) as u32).unwrap_or(0)
            }
            Rest::Bit(_) | Rest::From(_) => 0,
        };
        if k == i.k {
            input.c = around(&i.c, negative, e, bits(&i.c));
            return;
        }
        let x = bits(&i.a);
        let y = if matches!(rest, Rest::Anything | Rest::Ones) { bits(&i.b) } else { 0 };
        let e = e - self.scaled(input, k, e);
        let ea = self.exponent_of_a(e);
        input.a[k] = around(&i.a, negative, ea, x);
        input.b[k] = around(&i.b, false, e - ea, y);
    }

    /// The exponent of the scales of product k: in a block without products, those that a product of
    /// exponent e wants.
    fn scaled(&mut self, input: &mut Input, k: usize, e: i32) -> i32 {
        let (Some(rule), true) = (self.bench.interface.scale, self.aims_scales) else { return 0 };
        let n = k / rule.block.max(1);
        let Input { a, b, scale_a, scale_b, .. } = input;
        let (Some(of_a), Some(of_b)) = (scale_a.get_mut(n), scale_b.get_mut(n)) else { return 0 };
        if (0..a.len()).filter(|k| k / rule.block.max(1) == n).all(|k| a[k] == 0 && b[k] == 0) {
            let (low, high) = self.bench.product_range();
            let both = e - self.random.range(low, high);
            let (bottom, top) = (last_bit(&rule.format), top(&rule.format));
            let first = (both / 2 + self.random.range(-3, 3)).clamp(bottom, top);
            *of_a = around(&rule.format, false, first, 0);
            *of_b = around(&rule.format, false, (both - first).clamp(bottom, top), 0);
        }
        rule.format.decode(*of_a).exponent + rule.format.decode(*of_b).exponent
    }

    /// How a product's exponent is shared: evenly, or as unevenly as the formats allow.
    fn exponent_of_a(&mut self, e: i32) -> i32 {
        let Interface { a, b, .. } = self.bench.interface;
        let normal = (a.emin().max(e - top(&b)), top(&a).min(e - b.emin()));
        let (low, high) = if self.normal_operands && normal.0 <= normal.1 && !self.random.one_in(8) {
            normal
        } else {
            (last_bit(&a).max(e - top(&b)), top(&a).min(e - last_bit(&b)))
        };
        match self.random.below(4) {
            0 => self.random.range(low, high.max(low)),
            1 => low,
            2 => high,
            _ => (e / 2).clamp(a.emin().max(e - top(&b)).min(top(&a)), top(&a)),
        }
    }

    /// Two terms that cancel, or almost.
    fn cancelling(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) {
        let (k, l, products) = (self.place(step), self.place(step), self.bench.interface.k);
        if k < products && l < products && k != l && self.random.one_in(2) {
            self.cancel(input, [k, l], negative, e, rest);
        } else {
            self.put_at(input, k, negative, e, rest);
            let off = if self.random.one_in(2) { 0 } else { self.random.range(-3, 0) };
            self.put_at(input, l, !negative, e + off, Rest::Nothing);
        }
    }

    /// Two products of the same operands but for a sign.
    fn cancel(&mut self, input: &mut Input, [k, l]: [usize; 2], negative: bool, e: i32, rest: Rest) {
        self.put_at(input, k, negative, e, rest);
        (input.a[l], input.b[l]) = (input.a[k], input.b[k]);
        let Interface { a, b, .. } = self.bench.interface;
        let (f, code) = if b.signed { (b, &mut input.b[l]) } else { (a, &mut input.a[l]) };
        let sign = 1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits);
        *code ^= if f.signed && *code != 0 { sign } else { 0 };
    }

    /// Large products of one sign at two places of a step, at all of them, or everywhere: sums above
    /// their terms' exponent, which is returned. Perhaps the largest ones.
    fn fill(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) -> i32 {
        let i = self.bench.interface;
        let members = &self.blocks[step];
        let mut places: Vec<usize> = match self.random.below(4) {
            0 | 1 => members.iter().copied().take(2).collect(),
            2 => members.clone(),
            _ => (0..i.k).collect(),
        };
        let rest = if self.random.one_in(3) { Rest::Ones } else { rest };
        let largest = self.random.one_in(3);
        let under = !largest && self.random.one_in(3);
        if self.random.one_in(if under { 1 } else { 3 }) {
            places.push(i.k);
        }
        let lead = if largest { top(&i.a) + top(&i.b) } else { e };
        let sum = lead + self.random.range(0, places.len().ilog2() as i32 + 1);
        for &k in &places {
            if largest && k < i.k {
                (input.a[k], input.b[k]) = (i.a.max_code(negative), i.b.max_code(false));
            } else if under && k < i.k && !self.aims_scales {
                (input.a[k], input.b[k]) = self.nearly_two(negative, lead);
            } else {
                // c's last bit that is kept may be the sum's that is not.
                let bit = k == i.k && (under || self.random.one_in(2));
                let rest = if bit { Rest::Bit(lead - self.pick(|s| &s.gaps)) } else { rest };
                self.put_at(input, k, negative, lead, rest);
            }
        }
        if largest && self.random.one_in(2) {
            // And one of any size and bits: what a sum of narrow products has behind its last bits comes from few of
            // them.
            let (low, high) = self.bench.product_range();
            let (k, e, negative) = (self.random.below(i.k as u64), self.random.range(low, high), self.random.one_in(2));
            self.put_at(input, k as usize, negative, e, Rest::Anything);
        }
        sum
    }

    /// Zero times a large number, or one of any size, from either side: does it count in the largest exponent?
    fn zero_product(&mut self, input: &mut Input) {
        let i = self.bench.interface;
        let mut any = || self.random.below(i.k as u64) as usize;
        let is_product = |input: &Input, k: usize| input.a[k] != 0 && input.b[k] != 0;
        let other = (0..8).map(|_| any()).find(|&k| is_product(input, k));
        // In a product's step where there is none.
        let step = self.blocks.iter().find(|step| other.is_some_and(|k| step.contains(&k)));
        let free: Vec<usize> = step.into_iter().flatten().copied().filter(|&k| !is_product(input, k)).collect();
        let k = if free.is_empty() { any() } else { free[any() % free.len()] };
        let (of_a, small, large) = if self.random.one_in(2) { (true, i.a, i.b) } else { (false, i.b, i.a) };
        let e = match (self.random.below(4), other) {
            (0, _) => self.random.range(top(&large) - 3, top(&large)),
            (1, _) | (_, None) => self.random.range(large.emin(), top(&large)),
            // Of an exponent that cuts that product.
            (_, Some(other)) => {
                let cut = self.bench.product_exponent(input, other) + self.random.range(-2, 3);
                cut + self.pick(|s| &s.gaps) - small.emin()
            }
        };
        let code = around(&large, false, e.clamp(large.emin(), top(&large)), 0);
        (input.a[k], input.b[k]) = if of_a { (0, code) } else { (code, 0) };
    }
}
