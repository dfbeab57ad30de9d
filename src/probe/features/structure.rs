//! What the summation tree says: block size, chaining, interleaving, and where c enters.

use super::super::black_box::Interface;
use super::super::tree::{Node, SummationTree};
use super::{Feature, Finding, cannot};
use crate::accumulate::Pattern;

/// Where the widths and roundings are measured: the terms of one fused sum, c being K.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// Whether the tree is known; if not, all of this is a guess.
    pub(super) known: bool,
    /// Products summed together.
    pub(super) products: Vec<usize>,
    /// Whether c is summed with them.
    pub(super) with_c: bool,
    /// Terms of that sum, earlier sums included.
    pub(super) terms: usize,
    /// The products that c is summed with.
    pub(super) beside_c: Vec<usize>,
    /// Where rounding is measured.
    pub(super) last: LastSum,
}

/// The last sum of products: its result is d, or is added to c or other sums, which may be zero. In
/// an earlier one of a chain, the next sum's alignment would cut the result again.
#[derive(Clone, Debug, Default)]
pub(super) struct LastSum {
    /// Its products.
    pub(super) products: Vec<usize>,
    /// A term that comes to it from elsewhere: c, summed directly or in an earlier sum, or else a
    /// product of an earlier sum.
    pub(super) other: Option<usize>,
}

impl LastSum {
    fn of(root: &Node, k: usize) -> Self {
        let mut sum = root;
        while let (Node::Sum(children), true) = (sum, sum.direct(k).iter().all(|&i| i == k)) {
            let Some(next) = children.iter().rfind(|x| matches!(x, Node::Sum(_))) else { break };
            sum = next;
        }
        let products: Vec<usize> = sum.direct(k).into_iter().filter(|&i| i < k).collect();
        let leaves = sum.leaves(k);
        let elsewhere = leaves.iter().copied().filter(|i| !products.contains(i));
        // A late c is no term of a sum of products: a lone last product is then added to what c began.
        let other = if leaves.contains(&k) { Some(k).filter(|_| !is_late(root, k)) } else { elsewhere.min() };
        Self { products, other }
    }
}

impl Site {
    /// Everything in one sum: what can be hoped where no tree can be told.
    fn whole(k: usize) -> Self {
        let products: Vec<usize> = (0..k).collect();
        // Which sum is the last one is not known.
        let last = LastSum::default();
        Self { known: false, beside_c: products.clone(), products, with_c: true, terms: k + 1, last }
    }
}

/// The features of the tree, and the sum in which to measure the rest: the largest one, the last
/// of those, so that nothing that follows can change its result.
pub(super) fn features(tree: &Result<SummationTree, String>, interface: &Interface) -> (Vec<Feature>, Site) {
    let k = interface.k;
    let names = ["block", "chain", "interleave", "c_position"];
    let tree = match tree {
        Ok(tree) => tree,
        Err(why) => {
            let all = names.map(|name| Feature { name, value: cannot(why.clone()), evidence: Vec::new() });
            return (all.into(), Site::whole(k));
        }
    };
    let products = |node: &Node| node.direct(k).into_iter().filter(|&i| i < k).collect::<Vec<_>>();
    let sums = tree.root.sums();
    let size = sums.iter().map(|s| products(s).len()).max().unwrap_or(0);
    let largest: Vec<usize> = (0..sums.len()).filter(|&n| products(sums[n]).len() == size).collect();
    let (Some(&latest), Some(&earliest)) = (largest.first(), largest.last()) else {
        return (Vec::new(), Site::whole(k));
    };
    let home = sums.iter().position(|s| s.direct(k).contains(&k));
    let Node::Sum(children) = sums[latest] else { return (Vec::new(), Site::whole(k)) };
    let site = Site {
        known: true,
        products: products(sums[latest]),
        with_c: sums[latest].direct(k).contains(&k),
        terms: children.len(),
        beside_c: home.map(|n| products(sums[n])).unwrap_or_default(),
        last: LastSum::of(&tree.root, k),
    };
    let blocks: Vec<usize> = (0..sums.len()).filter(|&n| !products(sums[n]).is_empty()).collect();
    let evidence = |of: &[usize]| of.iter().flat_map(|&n| tree.steps.get(n).into_iter().flatten().cloned()).collect();
    let block = |n: usize| products(sums[n]);
    // Products one after the other, which begin with one and not with c, are a chain of single ones too.
    // c that joins on the way follows the first sum of a chain, which was of two.
    let single = size == 2 && blocks.len() > 1 && children.len() == 2 && largest.len() == 1 && home == Some(0);
    let [block_size, chain] = if single { [1, blocks.len() + 1] } else { [size, blocks.len()] };
    // Two products and one after them are a chain of both kinds.
    let number = |n: usize| match single && blocks.len() == 2 {
        true => cannot("two products and then one are three single ones as well, or a block of two and the rest"),
        false => (n as i64).into(),
    };
    let all = vec![
        Feature { name: "block", value: number(block_size), evidence: evidence(&[earliest]) },
        Feature { name: "chain", value: number(chain), evidence: evidence(&blocks) },
        Feature {
            name: "interleave",
            value: in_order(&tree.root, blocks.iter().rev().map(|&n| block(n)).collect(), block_size, k)
                .unwrap_or_else(|| interleave(blocks.iter().map(|&n| block(n)).collect(), size, k)),
            evidence: evidence(&blocks),
        },
        Feature {
            name: "c_position",
            value: c_position(home.map(|n| sums[n]), k),
            evidence: evidence(&home.into_iter().chain(Some(0).filter(|_| home != Some(0))).collect::<Vec<_>>()),
        },
    ];
    (all, site)
}

/// The pattern whose blocks follow one another as those of a chain, the first to be summed first, or else these blocks;
/// none if the sums are no chain.
fn in_order(root: &Node, mut blocks: Vec<Vec<usize>>, size: usize, k: usize) -> Option<Finding> {
    let sums = |node: &Node| match node {
        Node::Sum(children) => children.iter().filter(|x| matches!(x, Node::Sum(_))).count(),
        _ => 0,
    };
    if root.sums().into_iter().any(|node| sums(node) > 1) {
        return None;
    }
    blocks.iter_mut().for_each(|block| block.sort_unstable());
    let order = blocks.concat();
    let dealt = |pattern: Pattern| {
        let mut other = pattern.blocks(k, size);
        other.iter_mut().for_each(|block| block.sort_unstable());
        other.concat() == order
    };
    let found = PATTERNS.into_iter().find(|(pattern, _)| dealt(*pattern));
    Some(found.map_or_else(|| format!("{blocks:?}").into(), |(_, name)| name.into()))
}

/// What `interleave` calls the patterns.
const PATTERNS: [(Pattern, &str); 3] =
    [(Pattern::Runs, "no"), (Pattern::InterleavedPairs, "pairs"), (Pattern::EvenOdd, "even-odd")];

/// How the k of the blocks lie in K.
fn interleave(mut blocks: Vec<Vec<usize>>, size: usize, k: usize) -> Finding {
    // Neither the order of blocks counts nor that within them.
    let sorted = |mut blocks: Vec<Vec<usize>>| {
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        blocks.sort();
        blocks
    };
    blocks = sorted(blocks);
    let dealt = |pattern: Pattern| {
        let other = sorted(pattern.blocks(k, size));
        other == blocks
    };
    match PATTERNS.into_iter().find(|(pattern, _)| dealt(*pattern)) {
        Some((_, name)) => name.into(),
        None if blocks.iter().all(|b| b.windows(2).all(|w| w[1] == w[0] + 1)) => "no".into(),
        None => format!("{blocks:?}").into(),
    }
}

/// `with` products in one sum, `late` if added to a finished sum of products, `first` if added to one
/// product before the others follow.
fn c_position(home: Option<&Node>, k: usize) -> Finding {
    let Some(Node::Sum(children)) = home else { return cannot("c was not found") };
    match children.as_slice() {
        children if adds_to_sum(children) => "late".into(),
        [_, _] if k > 1 => "first".into(),
        _ => "with".into(),
    }
}

fn adds_to_sum(children: &[Node]) -> bool {
    children.len() == 2 && children.iter().any(|x| matches!(x, Node::Sum(_)))
}

/// Whether c is added to a finished sum of products.
fn is_late(root: &Node, k: usize) -> bool {
    let home = root.sums().into_iter().find(|s| s.direct(k).contains(&k));
    matches!(home, Some(Node::Sum(children)) if adds_to_sum(children))
}
