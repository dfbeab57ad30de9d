//! The order in which a unit adds its terms, as a tree with multiway nodes.
//!
//! A term X, its negation and a tiny y elsewhere: y survives if it is added after the two have
//! cancelled, and is lost if it meets one of them before (FPRev; MMA-Sim III-C). Asked for every
//! triple of the K + 1 terms, that leaves one tree ([`triples`]), or several where sums keep all that
//! the formats reach. Products too narrow are told from what they do to c ([`narrow`]), or brought apart by scales.

mod narrow;
mod triples;

use super::bench::{Bench, top};
use super::black_box::{BlackBox, Input, Interface, ask};
use super::features::Observation;
use super::reach::last_bit;
use crate::error::Error;
use crate::format::F32;
use core::fmt;
use core::ops::RangeInclusive;
use triples::{Fate, Triples, Unfit};

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// The product `a_k b_k`.
    Product(usize),
    /// c.
    C,
    /// Two or more summed and rounded together.
    Sum(Vec<Node>),
}

/// How a unit's K products and c are summed.
///
/// `Display` writes it on one line: `((c + p0 + p1) + p2 + p3)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummationTree {
    /// The last addition.
    pub root: Node,
    /// Whether the two terms of some pair that is summed together were seen to lose a third: if
    /// not, the sums are exact or wider than the operands reach.
    pub loses: bool,
    /// Inputs that show it: of every sum what is in it and what is not.
    pub evidence: Vec<Observation>,
    /// The same by sum, in the order of [`Node::sums`].
    pub(super) steps: Vec<Vec<Observation>>,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(k) => write!(f, "p{k}"),
            Self::C => f.write_str("c"),
            Self::Sum(children) => {
                f.write_str("(")?;
                for (i, child) in children.iter().enumerate() {
                    write!(f, "{}{child}", if i > 0 { " + " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for SummationTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl Node {
    /// The products and, as K, c at or below this node.
    pub fn leaves(&self, k: usize) -> Vec<usize> {
        match self {
            Self::Product(i) => vec![*i],
            Self::C => vec![k],
            Self::Sum(children) => children.iter().flat_map(|x| x.leaves(k)).collect(),
        }
    }

    /// The terms summed directly in this node; c is K.
    pub fn direct(&self, k: usize) -> Vec<usize> {
        let Self::Sum(children) = self else { return Vec::new() };
        children
            .iter()
            .filter_map(|x| match x {
                Self::Product(i) => Some(*i),
                Self::C => Some(k),
                Self::Sum(_) => None,
            })
            .collect()
    }

    /// Every sum, the last addition first.
    pub fn sums(&self) -> Vec<&Self> {
        let Self::Sum(children) = self else { return Vec::new() };
        let mut all = vec![self];
        all.extend(children.iter().flat_map(Self::sums));
        all
    }
}

/// The largest K whose tree is drawn.
const MOST: usize = 127;

/// Why no tree can be drawn.
type Cannot = String;

/// Why [`SummationTree::find`] finds no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoTree {
    /// The box failed to answer.
    Failed(Error),
    /// Its answers do not tell, or its formats do not let one ask.
    CannotTell(String),
}

impl From<Error> for NoTree {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for NoTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::CannotTell(why) => write!(f, "the summation tree cannot be told: {why}"),
        }
    }
}

impl core::error::Error for NoTree {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::CannotTell(_) => None,
        }
    }
}

/// The exponents of X and y: as far apart as products, c and results allow, with subnormal numbers where normal ones
/// are so near that X + y need not be rounded.
fn magnitudes(bench: &Bench) -> Option<(i32, i32)> {
    let Interface { a, b, c, d, .. } = bench.interface;
    let (low, high) = bench.common_range();
    // Some units count products of 2^128 as infinite, and f16 results overflow beyond 2^15.
    let (low, high) = (low.max(-100), high.min(100).min(top(&d) - 1));
    let lowest = (last_bit(&a) + last_bit(&b)).max(last_bit(&c)).max(last_bit(&d));
    let low = if high - low < rounded(&bench.interface)[1] { lowest.max(high - 100) } else { low };
    (high - low >= 3).then_some((high, low))
}

/// The same with scales: 64 bits apart and more, which no sum of products is known to keep, where d reaches that far.
fn scaled_magnitudes(bench: &Bench) -> Option<(i32, i32)> {
    let i = bench.interface;
    let scales = i.scale?.format;
    // A product is 1 times two scales.
    let (low, high) = (2 * scales.emin(), 2 * top(&scales));
    let low = low.max(i.c.emin()).max(i.d.emin()).max(-40);
    let high = high.min(top(&i.c) - 1).min(top(&i.d) - 1).min(40);
    (high > low).then_some((high, low))
}

fn triple(bench: &Bench, (i, j, l): Triple, (x, y): (i32, i32)) -> Option<Input> {
    bench.terms(&[(i, false, 1, x), (j, true, 1, x), (l, false, 1, y)])
}

impl SummationTree {
    /// Finds the tree of a box.
    ///
    /// # Errors
    /// When the box fails to answer, and where its tree cannot be told, with the reason.
    pub fn find(target: &mut dyn BlackBox) -> Result<Self, NoTree> {
        Self::search(target)?.map_err(NoTree::CannotTell)
    }

    /// The same; the inner error says why it cannot be told.
    pub(super) fn search(target: &mut dyn BlackBox) -> Result<Result<Self, Cannot>, Error> {
        let interface = target.interface();
        interface.check()?;
        let bench = Bench::new(interface);
        let n = interface.k + 1;
        if interface.k > MOST {
            return Ok(Err(format!("more than {MOST} products")));
        }
        let Some((x, y)) = magnitudes(&bench) else {
            return Ok(Err("the formats reach too few powers of two".into()));
        };
        if n == 2 {
            let root = Node::Sum(vec![Node::C, Node::Product(0)]);
            let both = bench.terms(&[(0, false, 1, x - 1), (1, false, 1, y)]);
            let evidence = observe(target, both.into_iter().collect(), "the product and c")?;
            return Ok(Ok(Self { root, loses: true, steps: vec![evidence.clone()], evidence }));
        }
        let y = match survivor(target, &bench, y..=x - 3)? {
            Some(y) => y,
            None => return Ok(Err("alone, no term far below the largest ones is returned".into())),
        };
        // c may reach further down than products do.
        let tiny = match (interface.c.emin().max(interface.d.emin()).max(-100), y) {
            (tiny, y) if tiny < y && returned(target, &bench, interface.k..=interface.k, tiny)? => tiny,
            _ => y,
        };
        let plain = |at: Triple| {
            let y = if at.2 == interface.k { tiny } else { y };
            Some((triple(&bench, at, (x, y))?, x - y, bench.d(false, 1, y)?))
        };
        match Self::from_triples(target, plain)? {
            Ok(tree) => Ok(Ok(tree)),
            Err(why) => match narrow::find(target, &bench, x, why)? {
                Err(why) if interface.scale.is_some() => Self::from_scaled(target, &bench, (x, y), why),
                found => Ok(found),
            },
        }
    }

    /// Products of formats too narrow to lose one another, brought apart by the scales of their blocks.
    fn from_scaled(
        target: &mut dyn BlackBox,
        bench: &Bench,
        near: (i32, i32),
        why: Cannot,
    ) -> Result<Result<Self, Cannot>, Error> {
        let Some((x, y)) = scaled_magnitudes(bench).filter(|(x, y)| x - y > near.0 - near.1) else {
            return Ok(Err(why));
        };
        let n = bench.interface.k + 1;
        let alone: Option<Vec<Input>> = (0..n).map(|l| bench.terms_in_blocks(&[(l, false, 1, y)])).collect();
        let (Some(alone), Some(survives)) = (alone, bench.d(false, 1, y)) else { return Ok(Err(why)) };
        if ask(target, &alone)?.iter().any(|&d| d != survives) {
            return Ok(Err(why));
        }
        let question = |(i, j, l): Triple| {
            let terms = [(i, false, 1, x), (j, true, 1, x), (l, false, 1, y)];
            let far = bench.terms_in_blocks(&terms).map(|input| (input, x - y, survives));
            far.or_else(|| Some((triple(bench, (i, j, l), near)?, near.0 - near.1, bench.d(false, 1, near.1)?)))
        };
        Ok(Self::from_triples(target, question)?.map_err(|then| format!("{then}, with scales too")))
    }

    /// The tree by the fates of y, from questions for every triple: the input, y's distance from X, and the answer if y
    /// survives.
    fn from_triples(
        target: &mut dyn BlackBox,
        question: impl Fn(Triple) -> Option<(Input, i32, u64)>,
    ) -> Result<Result<Self, Cannot>, Error> {
        let interface = target.interface();
        let n = interface.k + 1;
        let places = pairs(n).flat_map(|(i, j)| (0..n).filter(move |&l| l != i && l != j).map(move |l| (i, j, l)));
        let questions: Option<Vec<(Input, i32, u64)>> = places.map(question).collect();
        let Some(questions) = questions else {
            return Ok(Err("the formats do not hold the same powers of two".into()));
        };
        let inputs: Vec<Input> = questions.iter().map(|q| q.0.clone()).collect();
        let answers = ask(target, &inputs)?;
        let fate = |(&d, &(_, reach, survives)): (&u64, &(Input, i32, u64))| Fate { lost: d != survives, reach };
        let triples =
            Triples { n, fates: answers.iter().zip(&questions).map(fate).collect(), rounded: rounded(&interface) };
        let reach = questions.iter().map(|q| q.1).min().unwrap_or(0);
        let loses = triples.loses();
        let root = match triples.tree() {
            Ok(root) => root,
            Err(Unfit::None) => return Ok(Err("the losses fit no tree".into())),
            Err(Unfit::Several) if loses => {
                return Ok(Err(format!(
                    "what is lost within the {reach} bits that products and c both reach fits several trees"
                )));
            }
            Err(Unfit::Several) => {
                return Ok(Err(format!(
                    "products and c lose nothing within the {reach} bits that both reach: sums are exact, or wider"
                )));
            }
        };
        let observed = |(i, j, l): Triple| {
            let at = triples.at(i, j, l);
            let fate = if triples.fates[at].lost { "is lost" } else { "survives" };
            let [i, j, l] = [i.min(j), i.max(j), l].map(|place| term_name(place, interface.k));
            Observation::new(inputs[at].clone(), answers[at], format!("X in {i}, -X in {j}, y in {l}: y {fate}"))
        };
        let steps: Vec<Vec<Observation>> =
            root.sums().into_iter().map(|sum| telling(sum, interface.k).into_iter().map(observed).collect()).collect();
        Ok(Ok(Self { root, loses, evidence: steps.concat(), steps }))
    }
}

/// From where on X + y is sure to be rounded to X: of two products, and beside c.
fn rounded(interface: &Interface) -> [i32; 2] {
    let Interface { k, a, b, d, scale, .. } = *interface;
    // f16 results may be sums rounded to f32, unless that never rounds sums of these products.
    let bits = top(&a) + top(&b) + 2 - last_bit(&a) - last_bit(&b) + (k.next_power_of_two().ilog2() as i32);
    let narrow = scale.is_none() && bits <= F32.fraction_bits as i32 + 1;
    let beside_c = d.fraction_bits.max(F32.fraction_bits);
    [if narrow { d.fraction_bits } else { beside_c }, beside_c].map(|bits| bits as i32 + 2)
}

/// Whether 2^e is returned at each of these places, where it is the only term.
fn returned(target: &mut dyn BlackBox, bench: &Bench, places: RangeInclusive<usize>, e: i32) -> Result<bool, Error> {
    let alone: Option<Vec<Input>> = places.map(|place| bench.terms(&[(place, false, 1, e)])).collect();
    let (Some(alone), Some(whole)) = (alone, bench.d(false, 1, e)) else { return Ok(false) };
    Ok(ask(target, &alone)?.iter().all(|&d| d == whole))
}

/// The exponent of the smallest y that is returned where it is the only term, at whatever place: below a floor, its
/// loss beside X would say nothing.
fn survivor(target: &mut dyn BlackBox, bench: &Bench, exponents: RangeInclusive<i32>) -> Result<Option<i32>, Error> {
    for e in exponents {
        if returned(target, bench, 0..=bench.interface.k, e)? {
            return Ok(Some(e));
        }
    }
    Ok(None)
}

/// The places of X, -X and y.
type Triple = (usize, usize, usize);

fn term_name(place: usize, k: usize) -> String {
    if place == k { Node::C } else { Node::Product(place) }.to_string()
}

/// The triples that show what a sum holds: its last product and c are in, the product after it is out.
fn telling(sum: &Node, k: usize) -> Vec<Triple> {
    let Node::Sum(children) = sum else { return Vec::new() };
    let leaves = sum.leaves(k);
    let first_leaf = |child: &Node| child.leaves(k).into_iter().min_by_key(|&i| if i == k { 0 } else { i + 1 });
    let products: Vec<usize> = sum.direct(k).into_iter().filter(|&i| i < k).collect();
    let few = products.len() < 3;
    let terms = if few { children.iter().filter_map(first_leaf).collect() } else { products };
    let [i, j, ..] = terms[..] else { return Vec::new() };
    let beside = |l: &usize| *l != i && *l != j;
    let last = terms.iter().copied().rfind(beside).or(leaves.iter().copied().rfind(beside));
    let c = Some(k).filter(|l| beside(l) && Some(*l) != last && sum.direct(k).contains(l));
    let outside = |l: &usize| !leaves.contains(l);
    let end = leaves.iter().filter(|&&l| l < k).max().copied().unwrap_or(0);
    let next = (end + 1..k).find(outside).or((0..=k).find(outside));
    last.into_iter().chain(c).chain(next).map(|l| (i, j, l)).collect()
}

fn observe(target: &mut dyn BlackBox, inputs: Vec<Input>, shows: &str) -> Result<Vec<Observation>, Error> {
    let answers = ask(target, &inputs)?;
    Ok(inputs.into_iter().zip(answers).map(|(x, d)| Observation::new(x, d, shows)).collect())
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}
