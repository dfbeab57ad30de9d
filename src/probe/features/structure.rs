//! What the summation tree says: block size, chaining, interleaving, and where c enters.

use super::super::black_box::Interface;
use super::super::tree::{Node, SummationTree};
use super::{Feature, Value, cannot};

/// Where the widths and roundings are measured: the terms of one fused sum, c being K.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// Products summed together.
    pub(super) products: Vec<usize>,
    /// Whether c is summed with them.
    pub(super) with_c: bool,
    /// Terms of that sum, earlier sums included.
    pub(super) terms: usize,
    /// The products that c is summed with.
    pub(super) beside_c: Vec<usize>,
}

impl Site {
    /// Everything in one sum: what can be hoped where no tree can be told.
    fn whole(k: usize) -> Self {
        Self { products: (0..k).collect(), with_c: true, terms: k + 1, beside_c: (0..k).collect() }
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
    let mut sums = tree.root.sums();
    sums.sort_by_key(|s| std::cmp::Reverse(products(s).len()));
    let largest = sums[0];
    let home = tree.root.sums().into_iter().find(|s| s.direct(k).contains(&k));
    let Node::Sum(children) = largest else { return (Vec::new(), Site::whole(k)) };
    let site = Site {
        products: products(largest),
        with_c: largest.direct(k).contains(&k),
        terms: children.len(),
        beside_c: home.map(products).unwrap_or_default(),
    };
    let values: [Value; 4] =
        [(site.products.len() as i64).into(), chain(tree, k), interleave(&site.products, k), c_position(&tree.root, k)];
    let all = names.into_iter().zip(values);
    let all =
        all.map(|(name, value)| Feature { name, value, evidence: tree.evidence.iter().take(4).cloned().collect() });
    (all.collect(), site)
}

/// How many sums of products follow one another.
fn chain(tree: &SummationTree, k: usize) -> Value {
    let holds_product = |node: &&Node| node.direct(k).iter().any(|&i| i < k);
    Value::Number(tree.root.sums().into_iter().filter(holds_product).count() as i64)
}

/// How the k of a block lie in K.
fn interleave(products: &[usize], k: usize) -> Value {
    let first = products.first().copied().unwrap_or(0);
    let runs = products.iter().enumerate().all(|(i, &p)| p == first + i);
    let group = |f: fn(usize) -> usize| products.windows(2).all(|w| f(w[0]) == f(w[1]));
    if products.len() < 2 || products.len() == k {
        "no".into()
    } else if group(|i| i / 2 % 2) && !runs {
        "pairs".into()
    } else if group(|i| i % 2) {
        "even-odd".into()
    } else if runs {
        "no".into()
    } else {
        format!("{products:?}").into()
    }
}

/// `with` products in one sum, `first` before other products' sums, or `late`, last of all.
fn c_position(root: &Node, k: usize) -> Value {
    let Some(home) = root.sums().into_iter().find(|s| s.direct(k).contains(&k)) else {
        return cannot("c was not found");
    };
    let Node::Sum(children) = home else { return cannot("c was not found") };
    let products = home.direct(k).len() - 1;
    let alone_with_sum = children.len() == 2 && products == 0;
    match (alone_with_sum, home == root) {
        (true, true) => "late".into(),
        (true, false) => "first".into(),
        (false, _) if children.len() == 2 && k > 1 => "first".into(),
        (false, _) => "with".into(),
    }
}
