//! Inputs at the edges of a model: where its widths, floors and limits begin to matter.
//!
//! A parameter shows only where a bit stands just beyond what it keeps: F bits below the largest
//! term, at the alignment floor, one place below the result's last bit, in the block after a large
//! sum. Random inputs rarely stand there; these are built there from the model's own parameters.

use super::bench::{Bench, Random, around, normal, top};
use super::black_box::{Input, Interface};
use super::generate::{Generator, Kind, fraction, negative_zero};
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, RoundDown};
use crate::format::FormatSpec;

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

const fn last_bit(f: &FormatSpec) -> i32 {
    f.emin() - f.fraction_bits as i32
}

/// A model's blocks, widths (fraction bits) and floor.
fn parameters(recipe: &Recipe, i: &Interface) -> (Vec<Vec<usize>>, Vec<u32>, Option<i32>) {
    let runs = |group: usize| Pattern::Runs.blocks(i.k, group);
    let floor = |f: Floor| match f {
        Floor::BelowEmin(n) => Some(i.d.emin() - n),
        Floor::ZeroC => Some(i.d.emin()),
        Floor::None => None,
    };
    let round_down = |x: &RoundDown| {
        let widths = [Some(x.frac_bits), Some(x.sum_bits), x.total_bits];
        (runs(x.group), widths.into_iter().flatten().collect(), None)
    };
    match recipe {
        Recipe::Generic(x) => {
            let mut widths: Vec<u32> = x.output_bits.into_iter().collect();
            // An exact sum is questioned at every width.
            if x.exact {
                widths.extend((8..=64).step_by(5));
            } else {
                widths.push(x.frac_bits);
            }
            (x.pattern.blocks(i.k, x.block), widths, floor(x.floor))
        }
        Recipe::RoundDown(x) => round_down(x),
        Recipe::GroupedRoundDown(x) => round_down(&x.base),
        Recipe::GroupScaled(x) => (runs(x.group), vec![x.frac_bits], floor(x.floor)),
        Recipe::Pairwise(x) => (runs(x.group), Vec::new(), None),
        Recipe::Sequential(_) => (runs(1), Vec::new(), None),
        Recipe::Software(_) => (runs(2), Vec::new(), None),
    }
}

/// The widths of CDNA3's sums.
fn sums(recipe: &Recipe) -> Vec<i32> {
    let of = |x: &RoundDown| [Some(x.sum_bits), x.total_bits].into_iter().flatten().map(|w| w as i32).collect();
    match recipe {
        Recipe::RoundDown(x) => of(x),
        Recipe::GroupedRoundDown(x) => of(&x.base),
        _ => Vec::new(),
    }
}

/// The fraction bits of results, as often as they are worth asking; all are `full`.
fn results(recipe: &Recipe, full: i32) -> Vec<i32> {
    match recipe {
        Recipe::Generic(GenericDot { output_bits: Some(bits), c, .. }) => {
            // A late c is added to a step's sum that has been rounded to fewer.
            let narrow = if *c == CPosition::Late { 1 } else { 7 };
            let mut all = vec![*bits as i32; narrow];
            all.push(full);
            all
        }
        _ => vec![full],
    }
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
            floors,
            sums: sums(recipe),
            results: results(recipe, kept),
            kept,
            flushes: matches!(recipe, Recipe::Generic(x) if x.flush_results),
        }
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

    /// The exponent of the largest term.
    fn lead(&mut self, scene: Scene) -> i32 {
        let i = self.bench.interface;
        match scene {
            // Half of the smallest result is a tie, which the smallest rest decides.
            Scene::Bottom if self.random.one_in(4) => last_bit(&i.d) - 1,
            Scene::Bottom if self.random.one_in(2) => self.random.range(last_bit(&i.d), i.d.emin() + 2),
            Scene::Bottom => self.pick(|s| &s.depths) + self.random.range(-2, 2),
            Scene::Top => {
                let products = top(&i.a) + top(&i.b);
                let most = if self.random.one_in(2) { products } else { products.min(top(&i.c)).min(top(&i.d)) };
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
        if self.random.one_in(24) {
            self.alone(&mut input, first, negative, lead);
            return input;
        }
        if self.random.one_in(12) {
            self.beside_unnormalised(&mut input, first, negative, lead);
            return input;
        }
        if self.flushes && self.random.one_in(8) {
            self.barely_normal(&mut input, first, negative);
            return input;
        }
        if !self.sums.is_empty() && self.random.one_in(4) {
            self.tie(&mut input, first, negative, lead);
            return input;
        }
        match self.random.below(8) {
            0 => {}
            1 | 2 => self.fill(&mut input, first, negative, lead, rest),
            3 | 4 => self.cancelling(&mut input, first, negative, lead, rest),
            _ => self.put(&mut input, first, negative, lead, rest),
        }
        for _ in 0..1 + self.random.below(3) {
            // In the same step, the next one or any.
            let step = match self.random.below(4) {
                0 => first + 1,
                1 => self.random.below(self.blocks.len() as u64) as usize,
                _ => first,
            };
            let (step, e, negative) = (step % self.blocks.len(), self.below(scene, lead), self.random.one_in(2));
            // Beside a power of two one or two bits decide what is rounded off, beside others many.
            let rest = match self.random.below(6) {
                0 => Rest::Nothing,
                1 => Rest::Anything,
                2 => Rest::Bit(self.below(scene, lead)),
                _ => rest,
            };
            self.put(&mut input, step, negative, e, rest);
            if self.random.one_in(3) {
                // Another of its size against it: what is left of both may have the other's sign.
                let by = self.random.range(-3, 1);
                self.put(&mut input, step, !negative, e + by, rest);
            }
        }
        if self.random.one_in(8) {
            self.zero_product(&mut input);
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

    /// A product too small for a result, alone or one in every step, beside a zero c: what its sign makes of zero.
    fn vanishing(&mut self, input: &mut Input) {
        let Interface { c, d, k, .. } = self.bench.interface;
        let negative = self.random.one_in(2);
        let places: Vec<usize> = if self.random.one_in(2) {
            vec![self.random.below(k as u64) as usize]
        } else {
            self.blocks.iter().map(|block| block[self.random.below(block.len() as u64) as usize]).collect()
        };
        // Results may have fewer bits than their format.
        let above = if self.random.one_in(2) { d.fraction_bits as i32 } else { 0 };
        // Or where alignment begins to leave nothing of it.
        let (e, rest) = if !self.floors.is_empty() && self.random.one_in(2) {
            let rest = if self.random.one_in(2) { Rest::Nothing } else { Rest::Anything };
            (self.pick(|s| &s.floors) + self.random.range(-2, 1), rest)
        } else {
            (last_bit(&d) + self.random.range(-4, above), Rest::Nothing)
        };
        for place in places {
            self.put_at(input, place, negative, e, rest);
        }
        if c.has_negative_zero() && self.random.one_in(2) {
            input.c = negative_zero(&c);
        }
    }

    /// A sum halfway between two results, or nearly so: by a bit about the last one that a sum keeps.
    fn tie(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let i = self.bench.interface;
        let mut places = self.blocks[step].clone();
        if self.random.one_in(2) {
            places.insert(0, i.k);
        }
        // Just below a power of two the results lie twice as close.
        let under = self.random.one_in(2);
        let half = lead - self.kept - 1 - i32::from(under);
        let rest = lead - self.pick(|s| &s.sums) + self.random.range(-2, 1);
        let mut terms = vec![(negative, lead), (negative != under, half), (self.random.one_in(2), rest)];
        if self.random.one_in(2) {
            terms.insert(1, (negative != under, half + 1));
        }
        for ((negative, e), k) in terms.into_iter().zip(places) {
            self.put_at(input, k, negative, e, Rest::Nothing);
        }
    }

    /// A sum just beside a tie: by the last bit of a product, or by one bit beside a product that is a tie itself.
    fn beside_tie(&mut self, input: &mut Input, lead: i32) {
        // Just below a power of two the results lie twice as close.
        let Interface { a, b, .. } = self.bench.interface;
        let tie = lead - self.kept - 1 - i32::from(self.random.one_in(2));
        // Where the model begins to cut, or anywhere that a product about the tie has bits: it may be another width.
        let end = if self.random.one_in(2) {
            lead - self.pick(|s| &s.gaps) - self.random.range(0, 1)
        } else {
            tie - self.random.range(1, (a.fraction_bits + b.fraction_bits + 1) as i32)
        };
        // Anywhere, or in one step: a c that is added to the step's sum leaves the tie to its products.
        let step = self.random.below(2 * self.blocks.len() as u64) as usize;
        let mut places =
            self.blocks.get(step).filter(|step| step.len() > 1).cloned().unwrap_or_else(|| self.blocks.concat());
        while places.len() > 3 {
            places.remove(self.random.below(places.len() as u64) as usize);
        }
        let Some(product) = places.pop().filter(|_| (1..64).contains(&(tie - end))) else { return };
        if self.random.one_in(3)
            && let Some(operands) = self.tied(tie)
        {
            (input.a[product], input.b[product]) = operands;
            let (beside_c, negative) = (self.random.one_in(2), self.random.one_in(2));
            let other = places.first().copied().filter(|_| !beside_c).unwrap_or(input.a.len());
            return self.put_at(input, other, negative, end, Rest::Nothing);
        }
        if self.random.one_in(3) {
            // Or the product is the power of two, and c the tie and the rest.
            let rest = self.one_or_all(end);
            let (negative, opposite) = (self.random.one_in(2), self.random.one_in(2));
            self.put_at(input, product, negative, lead, Rest::Nothing);
            return self.put_at(input, input.a.len(), opposite, tie, rest);
        }
        self.power_of_two(input, &places, lead);
        let negative = self.random.one_in(2);
        let found = (0..4).find_map(|_| {
            let whole = u128::from(2 * self.random.below(8) + 1) << (tie - end);
            let magnitude = if self.random.one_in(2) { whole + 1 } else { whole - 1 };
            self.bench.split(negative, magnitude, end)
        });
        if let Some(operands) = found {
            (input.a[product], input.b[product]) = operands;
        }
    }

    /// The last bit that is kept or the first that is not; with all bits behind it, it is rounded to nearest, too.
    const fn one_or_all(&mut self, end: i32) -> Rest {
        if self.random.one_in(2) { Rest::Bit(end) } else { Rest::From(end) }
    }

    /// Two products that cancel, a small term where their exponent cuts bits off, and one beside it that makes the result
    /// normal.
    fn left_over(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32, rest: Rest) {
        let i = self.bench.interface;
        let (mut lead, mut places) = (lead, self.blocks[step].clone());
        let products = top(&i.a) + top(&i.b);
        // The smallest product there is, or the smallest c, with products that begin to cut it; or any that these cut.
        let (of_c, end) = match self.random.below(4) {
            0 => (true, last_bit(&i.c)),
            1 => (false, last_bit(&i.a) + last_bit(&i.b)),
            _ => (false, lead - self.pick(|s| &s.gaps) + self.random.range(-3, 1)),
        };
        // Or one that an earlier step's result can be.
        let earlier = self.blocks.len() > 1 && self.random.one_in(2);
        let end = if earlier { end.max(if self.flushes { i.d.emin() } else { last_bit(&i.d) }) } else { end };
        if (of_c || end < lead) && self.random.one_in(2) {
            lead = products.min(end + self.pick(|s| &s.gaps) + self.random.range(0, 4));
        }
        if places.len() < 2 {
            return self.cancelling(input, step, negative, lead, rest);
        }
        if self.random.one_in(4) {
            // Or a c of which they cut the last bits.
            let (gap, e) = (self.pick(|s| &s.gaps), self.random.range(0, i.c.fraction_bits as i32));
            let lead = products.min(lead.max(i.c.emin() + gap - e));
            let cut = lead - gap + self.random.range(-1, 1);
            let bits = if self.random.one_in(3) { Rest::Anything } else { self.one_or_all(cut) };
            let [k, l] = [(); 2].map(|()| places.remove(self.random.below(places.len() as u64) as usize));
            self.cancel(input, [k, l], negative, lead, rest);
            let negative = self.random.one_in(2);
            return self.put_at(input, i.k, negative, cut + e, bits);
        }
        let beside = (end + self.random.range(1, self.kept)).max(i.d.emin());
        let [k, l] = [(); 2].map(|()| places.remove(self.random.below(places.len() as u64) as usize));
        self.cancel(input, [k, l], negative, lead, rest);
        if of_c {
            let negative = self.random.one_in(2);
            self.put_at(input, i.k, negative, end, Rest::Nothing);
        } else {
            places.push(i.k);
        }
        if earlier {
            let other = self.random.below(self.blocks.len() as u64) as usize;
            let members = &self.blocks[other];
            places = vec![members[self.random.below(members.len() as u64) as usize]];
            places.retain(|place| ![k, l].contains(place));
        }
        for e in [end, beside].into_iter().skip(usize::from(of_c)) {
            if !places.is_empty() {
                let (n, negative) = (self.random.below(places.len() as u64) as usize, self.random.one_in(2));
                self.put_at(input, places.swap_remove(n), negative, e, Rest::Nothing);
            }
        }
    }

    /// A lone product of a result's bits, or a tie's, and one more about the last that alignment keeps: there may be no
    /// product small enough to be that bit, where subnormal operands are read as zero. Or one whose other bits cancel.
    fn alone(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let Interface { a, b, d, .. } = self.bench.interface;
        let widest = (a.fraction_bits + b.fraction_bits + 1) as i32;
        let (last, end) = if !self.floors.is_empty() && self.random.one_in(2) {
            (last_bit(&d), self.pick(|s| &s.floors) + self.random.range(-1, 0))
        } else {
            let last = last_bit(&d).max(lead - self.kept);
            (last, lead - self.pick(|s| &s.gaps) + self.random.range(-1, 0))
        };
        let apart = last - self.random.range(0, 1) - end;
        let mut members = self.blocks[step].clone();
        let place = members.swap_remove(self.random.below(members.len() as u64) as usize);
        if self.random.one_in(3) {
            // Or all of it but that bit is taken away again.
            let most = a.fraction_bits.max(b.fraction_bits).max(1) as i32;
            let power = if self.random.one_in(2) { most } else { self.random.range(1, most) };
            let magnitude = if self.random.one_in(2) { (1u128 << power) + 1 } else { (1 << power) - 1 };
            if let Some(operands) = self.bench.split(negative, magnitude, end) {
                (input.a[place], input.b[place]) = operands;
                members.push(self.bench.interface.k);
                let other = members[self.random.below(members.len() as u64) as usize];
                return self.put_at(input, other, !negative, end + power, Rest::Nothing);
            }
        }
        if !(1..=widest).contains(&apart) {
            return self.put_at(input, place, negative, lead, Rest::Anything);
        }
        let found = (0..8).find_map(|_| {
            let whole = u128::from(1 + self.random.below(1 << (widest - apart).min(self.kept + 1))) << apart;
            let magnitude = if self.random.one_in(2) { whole + 1 } else { whole - 1 };
            self.bench.split(negative, magnitude, end)
        });
        if let Some(operands) = found {
            (input.a[place], input.b[place]) = operands;
        }
    }

    /// Products below the smallest normal result whose sum is one, or a product of 2 or more times its exponent's power, and
    /// bits where their exponent cuts: bits that a floor at that result cuts too, or not.
    fn barely_normal(&mut self, input: &mut Input, step: usize, negative: bool) {
        let emin = self.bench.interface.d.emin();
        let mut places = self.blocks[step].clone();
        let mut beside = Vec::new();
        if self.random.one_in(6) {
            // Or one product just below it, which rounds to it where enough bits are cut.
            let n = (self.pick(|s| &s.gaps) + self.random.range(-1, 1)).clamp(1, 100);
            if let Some(operands) = self.bench.split(negative, (1 << n) - 1, emin - n) {
                (input.a[places[0]], input.b[places[0]]) = operands;
            }
            return;
        }
        // Two bits of either sign may leave a sticky bit, or none.
        for _ in 0..=self.random.below(2) {
            if places.len() > 2 {
                beside.push(places.swap_remove(self.random.below(places.len() as u64) as usize));
            }
        }
        let mut below = self.random.range(1, places.len().ilog2().max(1) as i32);
        let rest = match self.random.below(3) {
            0 => Rest::Anything,
            1 => Rest::Bit(emin - below - self.pick(|s| &s.gaps)),
            _ => Rest::Nothing,
        };
        if self.random.one_in(2) {
            below = 1;
            let place = places[0];
            (input.a[place], input.b[place]) = self.carrying(negative, emin - below);
            beside.extend(places.get(1).filter(|_| beside.is_empty()));
        } else {
            for place in places {
                self.put_at(input, place, negative, emin - below, rest);
            }
        }
        let end = emin - below - self.pick(|s| &s.gaps);
        for place in beside {
            let (negative, by) = (self.random.one_in(2), self.random.range(-2, 1));
            self.put_at(input, place, negative, end + by, Rest::Nothing);
        }
        if self.random.one_in(4) {
            // A subnormal c has the exponent of normal ones, or its own.
            let (c, rest) = (input.a.len(), if self.random.one_in(2) { Rest::Ones } else { Rest::Anything });
            self.put_at(input, c, negative, emin - 1, rest);
        }
    }

    /// A product that is not written as 1 <= s < 2, and one bit of another term where its exponent, or the one it has
    /// normalised, begins to cut: the result has all of the product's bits, so a directed rounding shows the bit, and a tie
    /// any other.
    fn beside_unnormalised(&mut self, input: &mut Input, step: usize, negative: bool, lead: i32) {
        let i = self.bench.interface;
        let gap = self.pick(|s| &s.gaps);
        // An earlier step leaves no bit below its result's last one.
        let e = if self.random.one_in(2) { last_bit(&i.d) + gap + self.random.range(-1, 2) } else { lead };
        let mut members = self.blocks[step].clone();
        let product = members.swap_remove(self.random.below(members.len() as u64) as usize);
        let above = if self.random.one_in(3) {
            // Of a subnormal a, or of two.
            let of_a = self.random.range(1, i.a.fraction_bits as i32);
            let of_b = self.random.range(1, i.b.fraction_bits as i32) * i32::from(self.random.one_in(2));
            let eb = if of_b > 0 { i.b.emin() - of_b } else { i.b.emin().max(e - i.a.emin()) };
            input.a[product] = around(&i.a, negative, i.a.emin() - of_a, 0);
            input.b[product] = around(&i.b, false, eb, 0);
            -of_a - of_b
        } else {
            (input.a[product], input.b[product]) = self.carrying(negative, e);
            1
        };
        let e = self.bench.product_exponent(input, product);
        let end = e - gap + self.random.range(above.min(0), above.max(0)) + self.random.range(-1, 0);
        // c, or a product of this step or an earlier one.
        let mut places: Vec<usize> = self.blocks[..step].iter().flatten().copied().chain(members).collect();
        let place = self.random.below(places.len() as u64 + 1) as usize;
        let other = if place < places.len() { places.swap_remove(place) } else { i.k };
        // Just below a power of two the results lie twice as close.
        let half = e + above - self.kept - 1 - i32::from(self.random.one_in(2));
        let opposite = self.random.one_in(2);
        match self.random.below(4) {
            // Half of the result's last bit, and the one in question.
            0 if end < half => {
                let rest = self.one_or_all(end);
                self.put_at(input, other, opposite, half, rest);
            }
            _ => self.put_at(input, other, opposite, end, Rest::Nothing),
        }
    }

    /// Operands of a product of 2 or more times 2^e, of no more bits than a result has, or of one more: a tie.
    fn carrying(&mut self, negative: bool, e: i32) -> (u64, u64) {
        let Interface { a, b, .. } = self.bench.interface;
        let (ea, eb) = self.bench.shared(e);
        // The carry is one of the result's bits.
        let bits = if self.random.one_in(2) { self.kept } else { self.random.range(2, self.kept - 1) };
        let of_a = self.random.range(1.max(bits - b.fraction_bits as i32), (bits - 1).min(a.fraction_bits as i32));
        // 1.5 and more, odd in this many fraction bits.
        let mut significand = |f: &FormatSpec, bits: i32| {
            let last = 1u64 << (f.fraction_bits as i32 - bits).clamp(0, f.fraction_bits as i32);
            (self.random.next() & last.wrapping_neg()) | last | (1 << f.fraction_bits >> 1)
        };
        let (x, y) = (significand(&a, of_a), significand(&b, bits - of_a));
        (normal(&a, negative, ea, x), normal(&b, false, eb, y))
    }

    /// Operands of a product halfway between two results.
    fn tied(&mut self, half: i32) -> Option<(u64, u64)> {
        let (lead, negative) = (1u64 << (self.kept + 1), self.random.one_in(2));
        (0..8).find_map(|_| {
            let odd = lead + 2 * self.random.below(lead / 2) + 1;
            self.bench.split(negative, odd.into(), half)
        })
    }

    /// A power of two, perhaps with a result's last bit set, as c or as products at these places.
    fn power_of_two(&mut self, input: &mut Input, places: &[usize], lead: i32) {
        let i = self.bench.interface;
        let last_bit = Some(lead - self.kept).filter(|_| self.random.one_in(2));
        match *places {
            [first, ref others @ ..] if self.random.one_in(2) => {
                self.put_at(input, first, false, lead, Rest::Nothing);
                if let (Some(last_bit), Some(&second)) = (last_bit, others.first()) {
                    self.put_at(input, second, false, last_bit, Rest::Nothing);
                }
            }
            _ => self.put_at(input, i.k, false, lead, last_bit.map_or(Rest::Nothing, Rest::Bit)),
        }
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
        let (low, high) = (last_bit(&a).max(e - top(&b)), top(&a).min(e - last_bit(&b)));
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
    /// their terms' exponent. Perhaps the largest ones.
    fn fill(&mut self, input: &mut Input, step: usize, negative: bool, e: i32, rest: Rest) {
        let i = self.bench.interface;
        let members = &self.blocks[step];
        let mut places: Vec<usize> = match self.random.below(4) {
            0 | 1 => members.iter().copied().take(2).collect(),
            2 => members.clone(),
            _ => (0..i.k).collect(),
        };
        if self.random.one_in(3) {
            places.push(i.k);
        }
        let rest = if self.random.one_in(3) { Rest::Ones } else { rest };
        let largest = self.random.one_in(3);
        for k in places {
            if largest && k < i.k {
                (input.a[k], input.b[k]) = (i.a.max_code(negative), i.b.max_code(false));
            } else {
                self.put_at(input, k, negative, e, rest);
            }
        }
        if largest && self.random.one_in(2) {
            // And one of any size and bits: what a sum of narrow products has behind its last bits comes from few of them.
            let (low, high) = self.bench.product_range();
            let (k, e, negative) = (self.random.below(i.k as u64), self.random.range(low, high), self.random.one_in(2));
            self.put_at(input, k as usize, negative, e, Rest::Anything);
        }
    }

    /// Zero times a large number, from either side: does it count in the largest exponent?
    fn zero_product(&mut self, input: &mut Input) {
        let i = self.bench.interface;
        let k = self.random.below(i.k as u64) as usize;
        let (of_a, large) = if self.random.one_in(2) { (true, i.b) } else { (false, i.a) };
        let e = self.random.range(top(&large) - 3, top(&large));
        let code = around(&large, false, e, 0);
        (input.a[k], input.b[k]) = if of_a { (0, code) } else { (code, 0) };
    }
}
