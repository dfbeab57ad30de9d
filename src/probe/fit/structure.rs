//! Which ways of cutting K into blocks the box's answers allow, whatever else it does.
//!
//! Two or three products and c are put at many places. If the unit sums in blocks, its answer
//! depends on the places only through the blocks they fall in, so two choices that a hypothesis
//! calls alike must give equal answers. Where formats are so narrow that sums of three products are
//! never rounded, this is asked with the largest product at all other places too.

use super::super::bench::{Bench, exact, normal, power, top};
use super::super::black_box::{BlackBox, Input, Interface};
use super::super::generate::Generator;
use super::cases::reduced;
use crate::accumulate::Pattern;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::random::Random;
use std::collections::{BTreeSet, HashMap};

/// A way of cutting K into blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    pub(crate) pattern: Pattern,
    pub(crate) block: usize,
    pub(crate) partition: Vec<Vec<usize>>,
}

/// Every cut of K in the library's vocabulary, each once, the simplest names first.
pub(crate) fn all(k: usize) -> Vec<Structure> {
    let mut seen = BTreeSet::new();
    let patterns = [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs];
    let cuts = patterns.into_iter().flat_map(|p| (1..=k.min(MAX_BLOCK)).rev().map(move |b| (p, b)));
    let whole = (k > MAX_BLOCK).then_some((Pattern::Runs, k));
    let structures = whole.into_iter().chain(cuts).map(|(pattern, block)| {
        let mut partition = pattern.blocks(k, block);
        // The order within a block does not matter.
        partition.iter_mut().for_each(|b| b.sort_unstable());
        Structure { pattern, block, partition }
    });
    structures.filter(|s| seen.insert(s.partition.clone())).collect()
}

/// The largest block looked for, other than all of K.
const MAX_BLOCK: usize = 128;

/// Inputs asked per pair of places; and those among the largest products.
const TEMPLATES: usize = 72;
const CROWDED: usize = 24;

fn pairs(k: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut others: Vec<usize> =
        if k <= 66 { (1..k).collect() } else { (0..64).map(|_| 1 + random.below(k as u64 - 1) as usize).collect() };
    others.sort_unstable();
    others.dedup();
    let forward = others.iter().flat_map(|&j| [(0, j), (j, 0)]);
    let second = others.iter().filter(|&&j| j > 2).flat_map(|&j| [(1, j), (j, 1), (2, j)]);
    forward.chain(second).collect()
}

/// An input with products at places 0, 1 and perhaps 2, and how many.
#[derive(Debug)]
struct Template {
    input: Input,
    products: usize,
    /// Operands at all other places; without them, zeros.
    others: Option<(u64, u64)>,
}

/// A pair of products with c; X, -X and a small c; X, -X and a small third product; and a pair about the last bit of c,
/// which is rounded once with both in one block.
fn template(generator: &mut Generator, random: &mut Random, bench: &Bench) -> Template {
    let k = bench.interface.k;
    let (low, high) = bench.common_range();
    let e = random.range(low + (high - low) / 2, high);
    let gap = random.range(0, 45).min(e - low.max(e - 45));
    let flip = random.one_in(2);
    let small = |at: usize, negative| [(0, flip, 1, e), (1, !flip, 1, e), (at, negative, 1, e - gap)];
    let last_bit_of_c = |e: i32, random: &mut Random| {
        let lead = 1u64 << bench.interface.c.fraction_bits.min(bench.interface.d.fraction_bits);
        let mut small = |at: usize| (at, random.one_in(2), 1 + u128::from(random.below(7)), e - random.range(0, 4));
        let products = [small(0), small(1)];
        bench.terms(&[products[0], products[1], (k, flip, (lead | random.below(lead)).into(), e)])
    };
    let special = match random.below(5) {
        0 => bench.terms(&small(k, random.one_in(2))).map(|input| Template::alone(input, 2)),
        1 => last_bit_of_c(random.range(low, low + (high - low) / 2), random).map(|input| Template::alone(input, 2)),
        2 if k > 2 => widest(random, bench).map(|input| Template::alone(input, 3)),
        3 if k > 2 => bench.terms(&small(2, random.one_in(2))).map(|input| Template::alone(input, 3)),
        _ => None,
    };
    special.unwrap_or_else(|| {
        let products = if k > 2 && random.one_in(3) { 3 } else { 2 };
        Template::alone(generator.terms_at(&[0, 1, 2][..products], !random.one_in(4)), products)
    })
}

/// Products of the smallest normal numbers and of the largest: what is rounded off a sum of narrow products.
fn widest(random: &mut Random, bench: &Bench) -> Option<Input> {
    let Interface { a, b, .. } = bench.interface;
    let (low, high) = bench.product_range();
    if high - low > NARROW {
        return None;
    }
    let mut input = bench.zeros();
    for at in 0..3 {
        let exponent = |f: &FormatSpec, random: &mut Random| match at {
            2 => top(f) - random.range(0, 1),
            _ => f.emin() + random.range(0, 1),
        };
        let (ea, eb) = (exponent(&a, random), exponent(&b, random));
        input.a[at] = normal(&a, random.one_in(2), ea, random.next());
        input.b[at] = normal(&b, false, eb, random.next());
    }
    Some(input)
}

/// Between more powers of two than these, any alignment cuts all of a product off.
const NARROW: i32 = 64;

/// Two of the smallest products among the largest, if a few of these need no rounding.
fn crowded(random: &mut Random, bench: &Bench) -> Option<Template> {
    let i = bench.interface;
    let (_, top) = bench.product_range();
    let last_bit = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
    let low = last_bit(&i.a) + last_bit(&i.b);
    let small = |at: usize, random: &mut Random| (at, random.one_in(2), 1, low + random.range(0, 3));
    let terms = [small(0, random), small(1, random)];
    let rounds = top + 3 - low > i.d.fraction_bits as i32;
    let input = bench.terms(&terms).filter(|_| !rounds)?;
    Some(Template { input, products: 2, others: Some((i.a.max_code(false), i.b.max_code(false))) })
}

impl Template {
    const fn alone(input: Input, products: usize) -> Self {
        Self { input, products, others: None }
    }

    /// The same products at other places.
    fn at(&self, places: &[usize; 3], bench: &Bench) -> Input {
        let mut at = bench.zeros();
        if let Some((a, b)) = self.others {
            at.a.fill(a);
            at.b.fill(b);
        }
        for (from, &to) in places.iter().enumerate().take(self.products) {
            (at.a[to], at.b[to]) = (self.input.a[from], self.input.b[from]);
        }
        at.c = self.input.c;
        at
    }
}

/// The first place that is neither of two.
fn third(i: usize, j: usize) -> usize {
    (0..3).find(|&x| x != i && x != j).unwrap_or(0)
}

/// The structures that the box's answers allow, in the order of [`all`]: those of a unit whose empty
/// blocks after the first change nothing, and those only of a unit that drifts.
pub(crate) fn allowed(target: &mut dyn BlackBox, seed: u64) -> Result<[Vec<Structure>; 2], Error> {
    let interface = target.interface();
    let k = interface.k;
    let candidates = all(k);
    if candidates.len() < 2 {
        return Ok([candidates, Vec::new()]);
    }
    let bench = Bench::new(interface);
    let mut generator = Generator::new(bench.clone(), seed);
    let mut random = Random::new(seed ^ 0x55);
    let mut templates: Vec<Template> = (0..TEMPLATES).map(|_| template(&mut generator, &mut random, &bench)).collect();
    templates.extend((0..CROWDED).filter_map(|_| crowded(&mut random, &bench)));
    let places: Vec<[usize; 3]> = pairs(k, &mut random).into_iter().map(|(i, j)| [i, j, third(i, j)]).collect();
    let inputs: Vec<Input> = templates.iter().flat_map(|t| places.iter().map(|p| t.at(p, &bench))).collect();
    let answers = target.dot_adds(&inputs)?;
    let consistent = |s: &Structure, merge: bool| {
        [(2, false), (3, false), (2, true)].into_iter().all(|(products, crowded)| {
            let fits = |t: &Template| t.products == products && t.others.is_some() == crowded;
            let rows = answers.chunks(places.len()).zip(&templates).filter(|(_, t)| fits(t));
            let rows: Vec<&[u64]> = rows.map(|(row, _)| row).collect();
            // No block is empty among many products.
            is_consistent(s, (products, merge && !crowded), &places, &rows)
        })
    };
    let (steady, others): (Vec<Structure>, _) = candidates.into_iter().partition(|s| consistent(s, true));
    let drifting = others.into_iter().filter(|s| consistent(s, false)).collect();
    Ok([steady, drifting])
}

/// Where bits end among the ordinary numbers of the operands' formats, below d's lowest exponent (as
/// [`Floor::BelowEmin`](crate::accumulate::Floor::BelowEmin) counts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastKept {
    /// The last bit that is kept of a lone product or a lone c.
    pub(crate) bit: i32,
    /// The smallest product of normal numbers: floors from here on cut no product.
    pub(crate) harmless: i32,
}

/// The last bit that is kept of a lone product or a lone c, if their formats have lower ones.
pub(crate) fn last_kept(target: &mut dyn BlackBox) -> Result<Option<LastKept>, Error> {
    let Interface { a, b, c, d, k, .. } = target.interface();
    let bench = Bench::new(target.interface());
    let last_bit = |f: &FormatSpec| f.emin() - f.fraction_bits as i32;
    let (normal, highest) = bench.product_range();
    // Down to products of subnormal operands, or else to the last bits of the smallest product of normal ones.
    let tiny: Tiny = if reads_subnormals(target, &bench, k - 1)? { of_subnormals } else { with_a_low_bit };
    let power_at = |place, e: i32| Some((e, bench.terms(&[(place, false, 1, e)])?, bench.d(false, 1, e)?));
    let product = |e: i32| if e < normal { tiny(&bench, k - 1, e) } else { power_at(k - 1, e) };
    let lowest = (last_bit(&a) + last_bit(&b)).max(last_bit(&d));
    let products: Vec<_> = (lowest..=highest.min(top(&d))).rev().filter_map(product).collect();
    let c_exponents = last_bit(&c).max(last_bit(&d))..=top(&c).min(top(&d));
    let of_c: Vec<_> = c_exponents.rev().filter_map(|e| power_at(k, e)).collect();
    for asked in [products, of_c] {
        let inputs: Vec<Input> = asked.iter().map(|(_, input, _)| input.clone()).collect();
        let answers = target.dot_adds(&inputs)?;
        let kept = answers.iter().zip(&asked).take_while(|(answer, (_, _, whole))| *answer == whole).count();
        // Numbers that end, or end being normal, say nothing.
        let last = kept.checked_sub(1).filter(|_| kept < asked.len()).map(|last| asked[last].0);
        if let Some(last) = last.filter(|last| ![c.emin(), d.emin()].contains(last)) {
            return Ok(Some(LastKept { bit: d.emin() - last, harmless: d.emin() - normal }));
        }
    }
    Ok(None)
}

/// Makes an input whose only term, at this place, has its last bit at 2^e, below the smallest product of normal powers
/// of two; with e, and d's code of the term.
type Tiny = fn(&Bench, usize, i32) -> Option<(i32, Input, u64)>;

/// 2^e, of operands that are written with the smallest exponents there are.
fn of_subnormals(bench: &Bench, place: usize, e: i32) -> Option<(i32, Input, u64)> {
    let Interface { a, b, .. } = bench.interface;
    let of_b = (e - a.emin()).max(b.emin() - b.fraction_bits as i32);
    let mut input = bench.zeros();
    (input.a[place], input.b[place]) = (power(&a, false, e - of_b)?, power(&b, false, of_b)?);
    Some((e, input, bench.d(false, 1, e)?))
}

/// The smallest product of normal numbers and its last bit.
fn with_a_low_bit(bench: &Bench, place: usize, e: i32) -> Option<(i32, Input, u64)> {
    let Interface { a, b, .. } = bench.interface;
    let below = bench.product_range().0 - e;
    let of_a = below.min(a.fraction_bits as i32);
    let of_b = below - of_a;
    // 1 + 2^-n, or 1 for n = 0.
    let magnitude = |n: i32| if n == 0 { 1 } else { (1u128 << n) + 1 };
    let mut input = bench.zeros();
    input.a[place] = exact(&a, false, magnitude(of_a), a.emin() - of_a)?;
    input.b[place] = exact(&b, false, magnitude(of_b), b.emin() - of_b)?;
    Some((e, input, bench.d(false, magnitude(of_a) * magnitude(of_b), e)?))
}

/// Whether the largest power of two below a's normal numbers counts in a product that is far from the smallest results.
fn reads_subnormals(target: &mut dyn BlackBox, bench: &Bench, place: usize) -> Result<bool, Error> {
    let Interface { a, b, .. } = bench.interface;
    let (of_a, of_b) = (a.emin() - 1, top(&b).min(1 - a.emin()));
    let mut input = bench.zeros();
    let (Some(x), Some(y), Some(product)) =
        (power(&a, false, of_a), power(&b, false, of_b), bench.d(false, 1, of_a + of_b))
    else {
        return Ok(false);
    };
    (input.a[place], input.b[place]) = (x, y);
    Ok(target.dot_adds(&[input])? == [product])
}

/// Places in the same relation must have equal answers, whatever the template.
fn is_consistent(
    structure: &Structure,
    (products, merge): (usize, bool),
    places: &[[usize; 3]],
    rows: &[&[u64]],
) -> bool {
    let mut relations: HashMap<Vec<u8>, usize> = HashMap::new();
    let relation = |p: &[usize; 3]| relation(&structure.partition, &p[..products], merge);
    let first_alike: Vec<usize> =
        places.iter().enumerate().map(|(at, p)| *relations.entry(relation(p)).or_insert(at)).collect();
    rows.iter().all(|row| first_alike.iter().zip(*row).all(|(&first, answer)| row[first] == *answer))
}

/// What the blocks see of some products: for each block (of runs of empty ones the first two, if `merge`) who is
/// in it.
fn relation(partition: &[Vec<usize>], places: &[usize], merge: bool) -> Vec<u8> {
    let bits = |block: &Vec<usize>| -> u8 {
        places.iter().enumerate().filter(|(_, p)| block.contains(p)).map(|(n, _)| 1 << n).sum()
    };
    reduced(partition, places, merge).iter().map(bits).collect()
}
