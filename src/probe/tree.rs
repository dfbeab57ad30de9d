//! The order in which a unit adds its terms, as a tree with multiway nodes.
//!
//! A term X, its negation and a tiny y elsewhere: y survives if it is added after the two have
//! cancelled, and is lost if it meets one of them before (FPRev; MMA-Sim III-C). Asked for every
//! triple of the K + 1 terms, the sets of lost places are the subtrees. A node that sums exactly
//! loses nothing of its own leaves, only what its children lost before; subtrees are then the
//! unions of those losses. Products too narrow for that are told from what they do to c ([`narrow`]).

mod narrow;

use super::bench::{Bench, top};
use super::black_box::{BlackBox, Input, ask};
use super::features::Observation;
use crate::error::Error;
use crate::format::F32;
use core::fmt;
use std::collections::BTreeSet;

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

/// Places as a bit set; c is place K.
type Places = u128;

/// The largest K whose tree is drawn.
const MOST: usize = 127;

/// Why no tree can be drawn.
type Cannot = String;

/// The exponents of X and y: as far apart as products, c and results allow.
fn magnitudes(bench: &Bench) -> Option<(i32, i32)> {
    let (low, high) = bench.common_range();
    // Some units count products of 2^128 as infinite, and f16 results overflow beyond 2^15.
    let (low, high) = (low.max(-100), high.min(100).min(top(&bench.interface.d) - 1));
    (high - low >= 3).then_some((high, low))
}

fn triple(bench: &Bench, (i, j, l): Triple, (x, y): (i32, i32)) -> Option<Input> {
    bench.terms(&[(i, false, 1, x), (j, true, 1, x), (l, false, 1, y)])
}

impl SummationTree {
    /// Finds the tree of a box; the inner error says why it cannot be told.
    ///
    /// # Errors
    /// When the box fails to answer.
    pub fn find(target: &mut dyn BlackBox) -> Result<Result<Self, Cannot>, Error> {
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
        let places: Vec<Triple> =
            pairs(n).flat_map(|(i, j)| (0..n).filter(move |&l| l != i && l != j).map(move |l| (i, j, l))).collect();
        let inputs: Option<Vec<Input>> = places.iter().map(|&p| triple(&bench, p, (x, y))).collect();
        let (Some(inputs), Some(survives)) = (inputs, bench.d(false, 1, y)) else {
            return Ok(Err("the formats do not hold the same powers of two".into()));
        };
        let answers = ask(target, &inputs)?;
        let lost: Vec<Places> =
            answers.chunks(n - 2).zip(places.chunks(n - 2)).map(|(d, p)| lost_places(d, p, survives)).collect();
        // f16 results may be sums rounded to f32.
        let rounded = x - y >= interface.d.fraction_bits.max(F32.fraction_bits) as i32 + 2;
        let (root, loses) = match build(n, &lost, (x - y, rounded)) {
            Err(why) => return narrow::find(target, &bench, x, why),
            Ok(built) => built,
        };
        let observed = |(i, j, l): Triple| {
            let (i, j) = (i.min(j), i.max(j));
            let at = pair_index(n, i, j) * (n - 2) + l - usize::from(l > i) - usize::from(l > j);
            let fate = if answers[at] == survives { "survives" } else { "is lost" };
            let [i, j, l] = [i, j, l].map(|place| term_name(place, interface.k));
            Observation::new(inputs[at].clone(), answers[at], format!("X in {i}, -X in {j}, y in {l}: y {fate}"))
        };
        let steps: Vec<Vec<Observation>> =
            root.sums().into_iter().map(|sum| telling(sum, interface.k).into_iter().map(observed).collect()).collect();
        Ok(Ok(Self { root, loses, evidence: steps.concat(), steps }))
    }
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

fn lost_places(answers: &[u64], places: &[Triple], survives: u64) -> Places {
    let lost = answers.iter().zip(places).filter(|(d, _)| **d != survives);
    let (i, j, _) = places[0];
    lost.fold(1 << i | 1 << j, |set, (_, (_, _, l))| set | 1 << l)
}

/// Where [`pairs`] has a pair with i < j.
const fn pair_index(n: usize, i: usize, j: usize) -> usize {
    i * n - i * (i + 1) / 2 + (j - i - 1)
}

/// The tree whose subtrees are the closed sets among those found, and whether a term was ever lost.
///
/// Where no term is lost and `rounded` says that one would be wherever X + y is rounded, nothing is
/// rounded before the last addition: there is one.
fn build(n: usize, found: &[Places], (reach, rounded): (i32, bool)) -> Result<(Node, bool), Cannot> {
    let of = |i: usize, j: usize| found[pair_index(n, i.min(j), i.max(j))];
    let members = |set: Places| (0..n).filter(move |i| set >> i & 1 == 1);
    let whole: Places = if n == 128 { Places::MAX } else { (1 << n) - 1 };
    let loses = found.iter().any(|s| s.count_ones() > 2);
    if !loses && !rounded {
        return Err(format!(
            "no term is ever lost: sums are exact, or wider than the {reach} bits these formats reach"
        ));
    }
    let is_closed = |set: Places| {
        members(set).all(|i| {
            (0..n).filter(|&j| j != i).all(|j| {
                let pair = of(i, j);
                if set >> j & 1 == 1 { pair & !set == 0 } else { set & !pair == 0 }
            })
        })
    };
    // A node that sums exactly loses what its children lost, not its own leaves: its children are
    // what several such sets have in common, or one set without a leaf.
    let distinct: BTreeSet<Places> = found.iter().copied().chain([whole]).collect();
    let common = distinct.iter().flat_map(|a| distinct.iter().map(move |b| a & b));
    let without = pairs(n).zip(found).flat_map(|((i, j), set)| [set & !(1 << i), set & !(1 << j)]);
    let distinct: BTreeSet<Places> =
        common.chain(without).chain(distinct.iter().copied()).filter(|s| s.count_ones() > 1).collect();
    let mut subtrees: Vec<Places> = distinct.into_iter().filter(|&s| s == whole || is_closed(s)).collect();
    subtrees.sort_by_key(|s| s.count_ones());
    let nested = |a: Places, b: Places| a & b == 0 || a & b == a || a & b == b;
    if subtrees.iter().any(|&a| subtrees.iter().any(|&b| !nested(a, b))) {
        return Err("the losses fit no tree".into());
    }
    Ok((grow(whole, &subtrees, n - 1), loses))
}

/// The node of a set of places: its largest proper subtrees and what is left.
fn grow(set: Places, subtrees: &[Places], k: usize) -> Node {
    let mut left = set;
    let mut children: Vec<(u32, Node)> = Vec::new();
    for &sub in subtrees.iter().rev() {
        if sub != set && sub & left == sub {
            left &= !sub;
            children.push((order(sub, k), grow(sub, subtrees, k)));
        }
    }
    for i in (0..=k).filter(|i| left >> i & 1 == 1) {
        children.push((order(1 << i, k), if i == k { Node::C } else { Node::Product(i) }));
    }
    children.sort_by_key(|(at, _)| *at);
    Node::Sum(children.into_iter().map(|(_, node)| node).collect())
}

/// Earlier sums first, then c, then products in order.
const fn order(set: Places, k: usize) -> u32 {
    if set >> k & 1 == 1 { 0 } else { 1 + set.trailing_zeros() }
}
