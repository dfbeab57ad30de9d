//! The tree where products are too narrow to lose one another: c shows what happens between them.

use super::super::bench::{Bench, top};
use super::super::black_box::{BlackBox, Input, ask};
use super::super::features::Observation;
use super::super::reach::last_bit;
use super::{Cannot, Node, SummationTree, observe, pairs, term_name, triple};
use crate::error::Error;

/// One sum if it is one, else what carries show, else why not.
pub(super) fn find(
    target: &mut dyn BlackBox,
    bench: &Bench,
    x: i32,
    why: Cannot,
) -> Result<Result<SummationTree, Cannot>, Error> {
    if bench.interface.k == 1 {
        return Ok(Err(why));
    }
    match one_sum(target, bench, x)? {
        Some(tree) => Ok(Ok(tree)),
        None => Ok(by_carries(target, bench)?.map_err(|then| format!("{why}; {then}"))),
    }
}

/// Whether all products and c meet in one sum, for products too narrow to lose one another.
///
/// Beside a c whose last bit is twice y, one product y is lost and two survive if they are summed
/// before anything is rounded; that every pair survives shows that no two products are apart. A
/// tiny c is lost beside X - X if it meets them, and not if it is added to their rounded sum. None
/// if the answers are others, or c is as narrow as the products.
fn one_sum(target: &mut dyn BlackBox, bench: &Bench, x: i32) -> Result<Option<SummationTree>, Error> {
    let i = bench.interface;
    let p = i.d.fraction_bits as i32;
    // c = 2^lead, y half its last bit in d.
    let y = bench.product_range().0.max(i.c.emin().max(i.d.emin()) - p - 1);
    let lead = y + p + 1;
    let tiny = last_bit(&i.c).max(last_bit(&i.d)).max(x - 100);
    let beside = |places: &[usize], negative: bool| {
        let c = (i.k, negative, 1, lead);
        let terms: Vec<_> = places.iter().map(|&k| (k, negative, 1, y)).chain([c]).collect();
        bench.terms(&terms)
    };
    let met: Option<Vec<Input>> = (1..i.k).map(|j| triple(bench, (0, j, i.k), (x, tiny))).collect();
    let alone = bench.terms(&[(i.k, false, 1, tiny)]);
    let (Some(met), Some(alone), Some(survives)) = (met, alone, bench.d(false, 1, tiny)) else { return Ok(None) };
    // A unit that flushes it says nothing.
    if ask(target, &[alone])? != [survives] {
        return Ok(None);
    }
    let met = observe(target, met, "X, -X and a tiny c: lost")?;
    if met.iter().any(|o| o.d == survives) {
        return Ok(None);
    }
    // A rounding up or down loses only terms of one sign.
    for negative in [false, true] {
        let singles: Option<Vec<Input>> = (0..i.k).map(|k| beside(&[k], negative)).collect();
        let couples: Option<Vec<Input>> = pairs(i.k).map(|(k, l)| beside(&[k, l], negative)).collect();
        let (Some(singles), Some(couples)) = (singles, couples) else { return Ok(None) };
        let (Some(lost), Some(kept)) = (bench.d(negative, 1, lead), bench.d(negative, (1 << p) + 1, lead - p)) else {
            return Ok(None);
        };
        let singles = observe(target, singles, "c and half its last bit: lost")?;
        let couples = observe(target, couples, "c and half its last bit twice: summed before rounding")?;
        if singles.iter().all(|o| o.d == lost) && couples.iter().all(|o| o.d == kept) {
            let children = core::iter::once(Node::C).chain((0..i.k).map(Node::Product)).collect();
            // Pairs are in order: those of the first product, each with every other.
            let step = [met.last(), singles.last(), couples.get(i.k.saturating_sub(2))].into_iter().flatten();
            let steps = vec![step.cloned().collect()];
            let evidence = met.iter().chain(&singles).chain(couples.iter().take(i.k - 1)).cloned().collect();
            return Ok(Some(SummationTree { root: Node::Sum(children), loses: true, evidence, steps }));
        }
    }
    Ok(None)
}

/// What c = (1 + 2^-f) X, X and -1.5 X give: the last two in an order.
struct Carry {
    f: i32,
    x: i32,
}

impl Carry {
    /// X in one product, -1.5 X in another.
    fn input(&self, bench: &Bench, [up, down]: [usize; 2]) -> Option<Input> {
        let &Self { f, x } = self;
        let c = bench.interface.k;
        bench.terms(&[(c, false, (1 << f) + 1, x - f), (up, false, 1, x), (down, true, 3, x - 1)])
    }

    /// The result that has c's last bit.
    fn kept(&self, bench: &Bench) -> Option<u64> {
        bench.d(false, (1 << (self.f - 1)) + 1, self.x - self.f)
    }
}

/// c, whose last bit is as low as sums keep, and X carry: where the sum is rounded or aligned again before -1.5 X
/// comes, that bit is lost. If -1.5 X comes first or with them it is kept. So each two products tell which comes first,
/// and which share a sum.
fn by_carries(target: &mut dyn BlackBox, bench: &Bench) -> Result<Result<SummationTree, Cannot>, Error> {
    let i = bench.interface;
    let (k, p) = (i.k, i.d.fraction_bits as i32);
    let x = (bench.common_range().1 - 1).min(top(&i.d) - 2).min(98);
    let most = (p + 1).min(i.c.fraction_bits as i32);
    let ask = |target: &mut dyn BlackBox, carries: &[Carry], of: &[[usize; 2]]| -> Result<Option<Vec<_>>, Error> {
        let questions = carries.iter().flat_map(|carry| of.iter().map(move |&places| (carry, places)));
        let inputs: Option<Vec<Input>> = questions.map(|(carry, places)| carry.input(bench, places)).collect();
        let wanted: Option<Vec<u64>> = carries.iter().map(|carry| carry.kept(bench)).collect();
        let (Some(inputs), Some(wanted)) = (inputs, wanted) else { return Ok(None) };
        let seen = observe(target, inputs, "")?;
        let kept = |n: usize, o: &Observation| o.d == wanted[n / of.len()];
        Ok(Some(seen.into_iter().enumerate().map(|(n, o)| (kept(n, &o), o)).collect()))
    };
    let carries: Vec<Carry> = (1..=most).map(|f| Carry { f, x }).collect();
    let Some(seen) = ask(target, &carries, &[[0, 1], [1, 0]])? else {
        return Ok(Err("c and products do not hold the same numbers".into()));
    };
    let keeps = |n: &usize| seen[2 * n].0 || seen[2 * n + 1].0;
    let Some(widest) = (0..carries.len()).rev().find(keeps) else {
        return Ok(Err("beside products c is not kept".into()));
    };
    if widest + 1 == carries.len() && most < p {
        return Ok(Err("c is too narrow to lose anything".into()));
    }
    // A floor among the products' exponents, not c's exponent, may be what ends there: then carries lose nothing.
    let below = Carry { f: carries[widest].f, x: x - 1 };
    if !ask(target, &[below], &[[0, 1], [1, 0]])?.is_some_and(|seen| seen.iter().any(|(kept, _)| *kept)) {
        return Ok(Err("c's last bit is cut off at the same place whatever it is beside".into()));
    }
    let every: Vec<[usize; 2]> = (0..k).flat_map(|i| (0..k).filter(move |&j| j != i).map(move |j| [i, j])).collect();
    let carry = &carries[widest];
    let Some(seen) = ask(target, core::slice::from_ref(carry), &every)? else {
        return Ok(Err("c and products do not hold the same numbers".into()));
    };
    let answer = |i: usize, j: usize| &seen[i * (k - 1) + j - usize::from(j > i)];
    let kept = |i: usize, j: usize| i == j || answer(i, j).0;
    // Sums in order, by how many products come before.
    let before = |i: usize, j: usize| !kept(i, j) && kept(j, i);
    let rank = |j: usize| (0..k).filter(|&i| before(i, j)).count();
    let ranks: Vec<usize> = (0..k).map(rank).collect();
    let consistent = pairs(k).all(|(i, j)| match ranks[i].cmp(&ranks[j]) {
        core::cmp::Ordering::Equal => kept(i, j) && kept(j, i),
        core::cmp::Ordering::Less => before(i, j),
        core::cmp::Ordering::Greater => before(j, i),
    });
    if !consistent {
        return Ok(Err("what carries lose fits no order of sums".into()));
    }
    let mut blocks: Vec<Vec<usize>> = (0..k).map(|rank| (0..k).filter(|&i| ranks[i] == rank).collect()).collect();
    blocks.retain(|block| !block.is_empty());
    let evidence = |block: &[usize], next: Option<&Vec<usize>>| {
        let inside = [[0, block.len() - 1], [block.len() - 1, 0]].map(|ends| ends.map(|n| block[n]));
        let across = next.map(|next| [block[0], next[0]]);
        let pairs = inside.into_iter().filter(|[i, j]| i != j).chain(across);
        let observed = pairs.map(|[i, j]| {
            let (kept, seen) = answer(i, j);
            let (i, j, fate) = (term_name(i, k), term_name(j, k), if *kept { "kept" } else { "lost" });
            let shows = format!("(1 + 2^-{}) X in c, X in {i}, -1.5 X in {j}: c's last bit is {fate}", carry.f);
            Observation::new(seen.input.clone(), seen.d, shows)
        });
        observed.collect::<Vec<_>>()
    };
    let (mut root, mut all) = (Node::C, Vec::new());
    for (n, block) in blocks.iter().enumerate() {
        let mut shown = evidence(block, blocks.get(n + 1));
        let products = block.iter().copied().map(Node::Product);
        let late = if block.len() > 1 { is_late(target, bench, block, x)? } else { None };
        root = match late {
            None if block.len() > 1 => {
                return Ok(Err("nothing shows whether c is summed with them or after them".into()));
            }
            Some((None, _)) => {
                return Ok(Err("c is lost beside X and -X in some products, and not in others".into()));
            }
            Some((Some(true), _)) if blocks.len() == 1 => return Ok(Err("c is added to their finished sum".into())),
            Some((Some(true), met)) => {
                shown.push(met);
                Node::Sum(vec![root, Node::Sum(products.collect())])
            }
            Some((Some(false), met)) => {
                shown.push(met);
                Node::Sum([root].into_iter().chain(products).collect())
            }
            None => Node::Sum([root].into_iter().chain(products).collect()),
        };
        all.push(shown);
    }
    // A late sum stands before its own products', with the same evidence.
    let of_block = |sum: &Node| {
        let places = sum.leaves(k);
        blocks.iter().rposition(|block| block.iter().any(|i| places.contains(i))).unwrap_or(0)
    };
    let steps: Vec<Vec<Observation>> = root.sums().into_iter().map(|sum| all[of_block(sum)].clone()).collect();
    let evidence = all.into_iter().rev().flatten().collect();
    Ok(Ok(SummationTree { root, loses: true, evidence, steps }))
}

/// Whether a tiny c outlives X and -X of one sum, by every product beside the first: none of both where some say so;
/// none where it need not be tiny enough.
fn is_late(
    target: &mut dyn BlackBox,
    bench: &Bench,
    block: &[usize],
    x: i32,
) -> Result<Option<(Option<bool>, Observation)>, Error> {
    /// No sum of products is known to keep more.
    const FAR: i32 = 64;
    let i = bench.interface;
    // Of a c that is lost alone, its loss says nothing: it is the smallest that is not, above a floor or what is
    // flushed.
    let alone = |e: i32| Some((e, bench.terms(&[(i.k, false, 1, e)])?, bench.d(false, 1, e)?));
    let asked: Vec<_> = (i.c.emin().max(i.d.emin()).max(x - 100)..x - 2).filter_map(alone).collect();
    let inputs: Vec<Input> = asked.iter().map(|(_, input, _)| input.clone()).collect();
    let answers = ask(target, &inputs)?;
    let Some((&(tiny, _, survives), _)) = asked.iter().zip(answers).find(|((.., d), answer)| d == answer) else {
        return Ok(None);
    };
    let Some((first, others)) = block.split_first() else { return Ok(None) };
    let inputs = others.iter().map(|&at| triple(bench, (*first, at, i.k), (x, tiny)));
    let Some(inputs) = inputs.collect::<Option<Vec<Input>>>() else { return Ok(None) };
    let mut seen = observe(target, inputs, "X, -X and a tiny c")?;
    let late = seen.iter().filter(|o| o.d == survives).count();
    let all = if late == 0 { Some(false) } else { Some(true).filter(|_| late == seen.len()) };
    if seen.is_empty() || (late > 0 && x - tiny < FAR) {
        return Ok(None);
    }
    Ok(Some((all, seen.swap_remove(0))))
}
