//! Which ways of cutting K into blocks the box's answers allow, whatever else it does.
//!
//! Two products and c are put at many pairs of places. If the unit sums in blocks, its answer
//! depends on the places only through the blocks they fall in, so two pairs that a hypothesis
//! calls alike must give equal answers.

use super::super::bench::{Bench, Random};
use super::super::black_box::{BlackBox, Input};
use super::super::generate::Generator;
use super::cases::reduced;
use crate::accumulate::Pattern;
use crate::error::Error;
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

/// Inputs asked per pair of places.
const TEMPLATES: usize = 72;

fn pairs(k: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut others: Vec<usize> =
        if k <= 66 { (1..k).collect() } else { (0..64).map(|_| 1 + random.below(k as u64 - 1) as usize).collect() };
    others.sort_unstable();
    others.dedup();
    let forward = others.iter().flat_map(|&j| [(0, j), (j, 0)]);
    let second = others.iter().filter(|&&j| j > 2).flat_map(|&j| [(1, j), (j, 1), (2, j)]);
    forward.chain(second).collect()
}

/// A pair of products with c, and others that cancel around a small one.
fn template(generator: &mut Generator, random: &mut Random, bench: &Bench) -> Input {
    let input = generator.terms_at(&[0, 1], !random.one_in(4));
    if !random.one_in(3) {
        return input;
    }
    let (low, high) = bench.common_range();
    let e = random.range(low + (high - low) / 2, high);
    let gap = random.range(0, 45);
    let flip = random.one_in(2);
    let terms = [(0, flip, 1, e), (1, !flip, 1, e), (bench.interface.k, random.one_in(2), 1, e - gap)];
    bench.terms(&terms).unwrap_or(input)
}

/// The structures that the box's answers allow, in the order of [`all`].
pub(crate) fn allowed(target: &mut dyn BlackBox, seed: u64) -> Result<Vec<Structure>, Error> {
    let interface = target.interface();
    let k = interface.k;
    let candidates = all(k);
    if candidates.len() < 2 {
        return Ok(candidates);
    }
    let bench = Bench::new(interface);
    let mut generator = Generator::new(bench.clone(), seed);
    let mut random = Random::new(seed ^ 0x55);
    let templates: Vec<Input> = (0..TEMPLATES).map(|_| template(&mut generator, &mut random, &bench)).collect();
    let pairs = pairs(k, &mut random);
    let moved = |input: &Input, (i, j): (usize, usize)| {
        let mut at = bench.zeros();
        (at.a[i], at.b[i], at.a[j], at.b[j]) = (input.a[0], input.b[0], input.a[1], input.b[1]);
        at.c = input.c;
        at
    };
    let inputs: Vec<Input> = templates.iter().flat_map(|t| pairs.iter().map(|&p| moved(t, p))).collect();
    let answers = target.dot_adds(&inputs)?;
    let rows: Vec<&[u64]> = answers.chunks(pairs.len()).collect();
    let ok = candidates.into_iter().filter(|s| is_consistent(s, &pairs, &rows));
    Ok(ok.collect())
}

/// Pairs of places in the same relation must have equal answers, whatever the template.
fn is_consistent(structure: &Structure, pairs: &[(usize, usize)], rows: &[&[u64]]) -> bool {
    let mut relations: HashMap<Vec<u8>, usize> = HashMap::new();
    let first_alike: Vec<usize> = pairs
        .iter()
        .enumerate()
        .map(|(at, &(i, j))| *relations.entry(relation(&structure.partition, i, j)).or_insert(at))
        .collect();
    rows.iter().all(|row| first_alike.iter().zip(*row).all(|(&first, answer)| row[first] == *answer))
}

/// What the blocks see of products i and j: for each block (runs of empty ones once) who is in it.
fn relation(partition: &[Vec<usize>], i: usize, j: usize) -> Vec<u8> {
    let blocks = reduced(partition, &[i, j]);
    blocks.iter().map(|b| u8::from(b.contains(&i)) + 2 * u8::from(b.contains(&j))).collect()
}
