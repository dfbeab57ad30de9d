//! Monotonicity: whether making one operand larger can make the result smaller (Fasi et al. 3.1.4).
//!
//! A term that grows past a power of two raises the largest exponent to e, and each other term then
//! loses up to 2^(e - F - 1) of what it had. Witnesses are looked for where that loss is largest.
//!
//! It is made up for by the term's own growth, at least 2^(e - M - 1) for M <= F fraction bits, if
//! no more than 2^(F - M) others lose. Where that holds for every sum of the tree each sum, so also
//! their composition, is monotonic: roundings and flushing to zero keep order.

use super::super::bench::{normal, power, top};
use super::super::black_box::{BlackBox, Input};
use super::super::edges::Edges;
use super::super::fit::families;
use super::super::generate::{Generator, Kind};
use super::super::reach::last_bit;
use super::super::tree::{Node, SummationTree};
use super::alignment::{Widths, one};
use super::{Feature, Finding, Lab, Observation, cannot};
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::random::Random;
use std::collections::BTreeSet;

/// Pairs of inputs drawn at random.
const RANDOM: usize = 4000;

/// Adds `monotonic`.
pub(super) fn features(
    lab: &mut Lab<'_>,
    tree: Option<&SummationTree>,
    widths: &Widths,
    all: &mut Vec<Feature>,
) -> Result<(), Error> {
    let rounds = all.iter().any(|f| f.name == "output_rounding" && !matches!(f.value, Finding::CannotTell(_)));
    // Without a tree, witnesses are looked for as if all terms met in one sum.
    let k = lab.bench.interface.k;
    let all_in_one = Node::Sum((0..k).map(Node::Product).chain([Node::C]).collect());
    let movers = movers(lab, tree.map_or(&all_in_one, |tree| &tree.root));
    let mut pairs = zero_operands(lab, widths);
    pairs.extend(movers.iter().flat_map(|mover| mover.pairs(lab, widths)));
    let aimed = pairs.len();
    pairs.extend(random_pairs(lab));
    let seen = lab.ask(pairs.into_iter().flatten().map(|(x, why)| (Some(x), why)).collect())?;
    let d = lab.bench.interface.d;
    let falls = |pair: &&[Observation]| d.to_f64(pair[0].d) > d.to_f64(pair[1].d);
    let (value, evidence) = if let Some(witness) = seen.chunks_exact(2).find(falls) {
        (false.into(), witness.to_vec())
    } else if rounds
        && tree.is_some()
        && movers.iter().all(|mover| mover.is_made_up_for(widths))
        && (!widths.everywhere.is_empty() || rounds_exact_sums(lab, &seen)?)
    {
        (true.into(), seen.into_iter().take(8).collect())
    } else {
        (cannot(format!("no witness among {aimed} aimed and {RANDOM} random pairs")), Vec::new())
    };
    all.push(Feature { name: "monotonic", value, evidence });
    Ok(())
}

/// Inputs at the edges of a model of additions.
const AT_EDGES: usize = 4000;

/// Whether additions of two terms are of exact sums, each rounded once, as far as inputs show: some model that adds so
/// gives all answers. Others align first, and what the smaller term loses may be more than the larger one gains.
fn rounds_exact_sums(lab: &mut Lab<'_>, seen: &[Observation]) -> Result<bool, Error> {
    let interface = lab.bench.interface;
    let inputs: Vec<Input> = seen.iter().map(|o| o.input.clone()).collect();
    let adds = |r: &Recipe| matches!(r, Recipe::Sequential(_) | Recipe::Pairwise(_) | Recipe::Software(_));
    for recipe in families(&interface).into_iter().filter(adds) {
        let mut model = interface.unit(recipe)?;
        if !model.dot_adds(&inputs)?.iter().zip(seen).all(|(d, o)| *d == o.d) {
            continue;
        }
        let edges = Edges::new(&recipe, &interface, 0xADD).batch(AT_EDGES);
        let answers = lab.ask(edges.iter().map(|x| (Some(x.clone()), String::new())).collect())?;
        if model.dot_adds(&edges)?.iter().zip(&answers).all(|(d, o)| *d == o.d) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The smaller and the larger input, and what they show.
type Pair = [(Input, String); 2];

/// A term of a sum that may become its largest one, and what it is summed with.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mover {
    /// c, one product, or the products that an earlier sum adds up; c is K.
    terms: Vec<usize>,
    /// Its fraction bits: a product's are those of both operands, one more if it is normalised.
    bits: u32,
    /// One leaf of each other term of the sum.
    others: Vec<usize>,
    /// Whether the sum has two terms: what it rounds is then the exact sum.
    alone: bool,
    /// Whether it may have more bits than results: sums that meet others need not be rounded before.
    unrounded: bool,
}

/// The distinct movers of a tree: of each kind the one with the most others.
fn movers(lab: &Lab<'_>, root: &Node) -> Vec<Mover> {
    let i = lab.bench.interface;
    let mut found = BTreeSet::new();
    for sum in root.sums() {
        let Node::Sum(children) = sum else { continue };
        let leaf = |child: &Node| child.leaves(i.k).into_iter().min();
        let several = children.len() > 2 && children.iter().filter(|x| matches!(x, Node::Sum(_))).count() > 1;
        for child in children {
            let (terms, bits) = match child {
                Node::C => (vec![i.k], i.c.fraction_bits),
                Node::Product(k) => {
                    let scales = i.scale.map_or(0, |s| 2 * s.format.fraction_bits);
                    (vec![*k], i.a.fraction_bits + i.b.fraction_bits + scales + 1)
                }
                Node::Sum(_) => (child.direct(i.k).into_iter().filter(|&k| k < i.k).collect(), i.d.fraction_bits),
            };
            let others: Vec<usize> = children.iter().filter(|x| *x != child).filter_map(leaf).collect();
            let (alone, unrounded) = (others.len() == 1, several && matches!(child, Node::Sum(_)));
            found.insert((std::cmp::Reverse(others.len()), Mover { terms, bits, others, alone, unrounded }));
        }
    }
    let mut kinds = BTreeSet::new();
    let kind = |m: &Mover| (m.bits, m.terms.len() > 1, m.others.len() > 1);
    found.into_iter().map(|(_, mover)| mover).filter(|mover| kinds.insert(kind(mover))).collect()
}

impl Mover {
    /// Whether what the others can lose is no more than what this term gains.
    fn is_made_up_for(&self, widths: &Widths) -> bool {
        // 1.75 units rounded to nearest, and half a unit for what was not exact, are 2.5; 2 units are 2.
        use crate::round::Rounding::{Down, TowardZero, Up};
        if widths.everywhere.iter().any(|w| w.sticky && ![TowardZero, Down, Up].contains(&w.rounding)) {
            return false;
        }
        let narrowest = widths.everywhere.iter().map(|w| w.bits).min();
        match narrowest {
            None => self.alone,
            Some(_) if self.unrounded => false,
            Some(f) => {
                let spare = f - self.bits as i32;
                spare >= 0 && self.others.len() as u128 <= 1 << spare.min(100)
            }
        }
    }

    /// Pairs in which this term grows to a power of two and the others lose their last bit.
    fn pairs(&self, lab: &Lab<'_>, widths: &Widths) -> Vec<Pair> {
        let p = lab.bench.interface.d.fraction_bits as i32;
        let mut pairs = Vec::new();
        for f in likely_widths(lab, widths) {
            for lead in self.leads(lab, f) {
                for few in [0, 1] {
                    let others = &self.others[few.min(self.others.len() - 1)..];
                    for (negative, more) in firsts(f, p, self.bits, others.len()) {
                        pairs.extend(self.pair(lab, lead, f, (negative, more), others));
                    }
                }
            }
        }
        pairs
    }

    /// Exponents of this term for which the bits that others may lose are products of normal
    /// numbers, or of any.
    fn leads(&self, lab: &Lab<'_>, f: i32) -> BTreeSet<i32> {
        let i = lab.bench.interface;
        let smallest = [lab.bench.product_range().0, last_bit(&i.a) + last_bit(&i.b)];
        let (low, high) = if self.terms == [i.k] { (i.c.emin(), top(&i.c)) } else { lab.bench.product_range() };
        let high = high.min(top(&i.d) - 2);
        let leads = smallest.map(|e| (e + f + 1).max(low + 2).max(6.min(high)));
        leads.into_iter().filter(|&e| e <= high).collect()
    }

    /// This term just below and at `2^lead`, the first of the others `more` and the rest one time
    /// `2^(lead - f - 1)`.
    fn pair(&self, lab: &Lab<'_>, lead: i32, f: i32, (negative, more): (bool, u128), others: &[usize]) -> Option<Pair> {
        let unit = lead - f - 1;
        let small = others.iter().enumerate().map(|(n, &k)| (k, negative, if n == 0 { more } else { 1 }, unit));
        let mut terms: Vec<_> = small.collect();
        let ladder = self.ladder(lab, lead);
        let &(lowest, ..) = ladder.last()?;
        terms.extend(ladder.into_iter().map(|(k, magnitude, e)| (k, negative, magnitude, e)));
        let below = lab.bench.terms(&terms)?;
        let mut at = below.clone();
        let i = lab.bench.interface;
        let (code, format) = if lowest == i.k { (&mut at.c, i.c) } else { (&mut at.a[lowest], i.a) };
        *code = next(&format, *code)?;
        let others = format!("{} times 2^{unit}, one of them {more} times", others.len());
        let below = (below, format!("a term just below 2^{lead} + {others}"));
        let at = (at, format!("a term of 2^{lead} + {others}"));
        Some(if negative { [at, below] } else { [below, at] })
    }

    /// All ones up to `2^lead`, in as many of the terms as their formats need: place, magnitude, exponent.
    fn ladder(&self, lab: &Lab<'_>, lead: i32) -> Vec<(usize, u128, i32)> {
        let i = lab.bench.interface;
        let ones = |bits: u32| (1u128 << bits) - 1;
        if self.terms == [i.k] {
            let bits = i.c.fraction_bits + 1;
            return vec![(i.k, ones(bits), lead - bits as i32)];
        }
        let each = i.a.fraction_bits + 1;
        let mut left = if self.terms.len() == 1 { each } else { i.d.fraction_bits + 1 };
        let mut ladder = Vec::new();
        for &k in &self.terms {
            // The first takes what does not divide, so that the last is all ones: its next code is a power of two.
            let bits = if left % each == 0 { each } else { left % each };
            left = left.saturating_sub(bits);
            let used = ladder.iter().map(|&(_, magnitude, _): &(usize, u128, i32)| magnitude.count_ones()).sum::<u32>();
            ladder.push((k, ones(bits), lead - (used + bits) as i32));
            if left == 0 {
                return ladder;
            }
        }
        Vec::new()
    }
}

/// The widths measured, or all that a unit may well have: where they are not known, or where terms cut in
/// more than one way are perhaps cut again, together.
fn likely_widths(lab: &Lab<'_>, widths: &Widths) -> BTreeSet<i32> {
    let told: BTreeSet<i32> = widths.everywhere.iter().map(|w| w.bits).collect();
    let p = lab.bench.interface.d.fraction_bits as i32;
    let one_way = one(widths.everywhere.iter().map(|w| w.rounding)).is_some();
    if one_way && told.len() <= 8 { told } else { (1..p + 14).collect() }
}

/// Signs, and magnitudes of the first of `n` others: small ones, and such that the smaller input's
/// sum is just what the output rounds up to, or a tie.
fn firsts(f: i32, p: i32, bits: u32, n: usize) -> Vec<(bool, u128)> {
    let period = 1i128 << (f + 1 - p).clamp(0, 60);
    let gain = 1i128 << (f - bits as i32).clamp(0, 60);
    let exact = |rest: i128| (rest + gain + 1 - n as i128).rem_euclid(period) as u128 | 1;
    let mut all: BTreeSet<u128> = [0, period / 2, period / 2 + 1].map(exact).into();
    all.extend([1, 3, 5, 7]);
    [false, true].into_iter().flat_map(|negative| all.iter().map(move |&more| (negative, more))).collect()
}

/// Zero times the smallest and the largest power of two beside a term between the widths that both
/// would leave, if zero products counted by their operands' exponents.
fn zero_operands(lab: &Lab<'_>, widths: &Widths) -> Vec<Pair> {
    let i = lab.bench.interface;
    let (Some(low), Some(high)) = (power(&i.b, false, i.b.emin()), power(&i.b, false, top(&i.b))) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    for f in likely_widths(lab, widths) {
        let e = i.a.emin() + top(&i.b) - f - 1;
        for other in (1..i.k).take(1).chain([i.k]) {
            let Some(term) = lab.bench.terms(&[(other, false, 1, e)]) else { continue };
            let zero = |b: u64, n: i32| {
                let mut input = term.clone();
                (input.a[0], input.b[0]) = (0, b);
                (input, format!("0 x 2^{n} + 2^{e}"))
            };
            pairs.push([zero(low, i.b.emin()), zero(high, top(&i.b))]);
        }
    }
    pairs
}

fn random_pairs(lab: &Lab<'_>) -> Vec<Pair> {
    let mut random = Random::new(0x0770_0770);
    let mut generator = Generator::new(lab.bench.clone(), 0xBEEF);
    let pair = |_| {
        let (low, high) = larger(lab, &mut generator, &mut random);
        [(low, "a pair: the smaller".into()), (high, "a pair: the larger".into())]
    };
    (0..RANDOM).map(pair).collect()
}

/// Two inputs, the second with one term larger by one last bit.
fn larger(lab: &Lab<'_>, generator: &mut Generator, random: &mut Random) -> (Input, Input) {
    let i = lab.bench.interface;
    let mut low = generator.of_kind(if random.one_in(2) { Kind::Ties } else { Kind::NearOne });
    let mut high = low.clone();
    let f = i.c;
    if random.one_in(2) {
        low.c = normal(&f, false, -1, u64::MAX);
        high.c = normal(&f, false, 0, 0);
        return (low, high);
    }
    // A magnitude one step up, or down where that is the larger number.
    if let Some(next) = next(&f, low.c) {
        high.c = next;
        if f.decode(low.c).negative {
            return (high, low);
        }
    }
    (low, high)
}

/// The next larger magnitude of a finite number other than zero, if that is a number too.
fn next(format: &FormatSpec, code: u64) -> Option<u64> {
    let next = code.checked_add(1 << format.ignored_low_bits)? & format.code_mask();
    let (x, y) = (format.decode(code), format.decode(next));
    (x.is_finite() && !x.is_zero() && y.is_finite() && !y.is_zero() && x.negative == y.negative).then_some(next)
}
