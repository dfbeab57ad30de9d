//! Products of one sum that are first summed in groups.

use super::super::bench::{exact, top};
use super::super::black_box::Input;
use super::super::reach::last_bit;
use super::alignment::{Width, largest, one, smallest};
use super::structure::Site;
use super::{Feature, Lab, Observation};
use crate::error::Error;
use crate::instr::ScaleRule;

/// Which products were seen to be summed with which before they meet the others.
pub(super) struct Together {
    /// By the products' places.
    of: Vec<Vec<bool>>,
}

impl Together {
    pub(super) fn new(k: usize) -> Self {
        Self { of: vec![vec![false; k]; k] }
    }

    pub(super) fn see(&mut self, [i, j]: [usize; 2]) {
        self.of[i][j] = true;
        self.of[j][i] = true;
    }

    /// Says it in `interleave`, of the products of one sum; nothing if no two are apart from others.
    pub(super) fn report(&self, products: &[usize], evidence: Vec<Observation>, all: &mut [Feature]) {
        let group = |i: usize| products.iter().copied().filter(move |&j| i == j || self.of[i][j]).collect::<Vec<_>>();
        let first = |&i: &usize| Some((i, group(i))).filter(|(i, group)| group.first() == Some(i)).map(|(_, g)| g);
        let mut sums: Vec<Vec<usize>> = products.iter().filter_map(first).collect();
        sums.retain(|group| group.len() > 1 && group.len() < products.len());
        let Some(size) = sums.first().map(Vec::len) else { return };
        let mut seen = vec![false; self.of.len()];
        let overlap = sums.iter().flatten().any(|&i| core::mem::replace(&mut seen[i], true));
        let runs = sums.iter().flatten().eq(products) && sums.iter().all(|group| group.len() == size);
        let apart = match (overlap, runs) {
            (true, _) => "some products apart from others".into(),
            (false, true) => format!("groups of {size} k apart"),
            (false, false) => format!("those of {sums:?} apart"),
        };
        if let Some(interleave) = all.iter_mut().find(|f| f.name == "interleave") {
            interleave.value = format!("{}; in a block, {apart}", interleave.value).into();
            interleave.evidence.extend(evidence);
        }
    }
}

/// The place of -X and a product that shows another group than that of X and -X; all of that group's.
pub(super) type Narrower = ([usize; 2], Vec<usize>);

/// Products of one sum that are first summed in groups (CDNA3's even and odd k): where X and -X are in one group, a
/// product of another one is aligned by another rule than one beside X.
pub(super) fn narrower(lab: &mut Lab<'_>, products: &[usize], bits: i32) -> Result<Option<Narrower>, Error> {
    let Some((&first, others)) = products.split_first() else { return Ok(None) };
    let x = largest(lab, false);
    // The last place, which narrower groups do not keep; just below it: gone, or one unit of it, or itself.
    let tails = [(true, 1, x - bits), (true, 1, x - bits - 1), (true, 1, x - bits - 2), (false, 3, x - bits - 3)];
    let question = |lab: &Lab<'_>, [to, at]: [usize; 2], (negative, y, e)| {
        lab.bench.terms(&[(first, false, 1, x), (to, true, 1, x), (at, negative, y, e)])
    };
    let few = |to: usize| {
        let others: Vec<usize> = products.iter().copied().filter(|&i| i != first && i != to).collect();
        let ends = others.iter().take(3).chain(others.iter().rev().take(2));
        ends.map(|&at| [to, at]).collect::<Vec<_>>()
    };
    let mut ask = |pairs: &[[usize; 2]]| -> Result<Vec<(_, Vec<u64>)>, Error> {
        let asked = pairs.iter().flat_map(|&pair| tails.map(|tail| (pair, tail)));
        let inputs: Option<Vec<_>> = asked.map(|(pair, tail)| question(lab, pair, tail)).collect();
        let Some(inputs) = inputs else { return Ok(Vec::new()) };
        let seen = lab.ask(inputs.into_iter().map(|input| (Some(input), String::new())).collect())?;
        let answers = seen.chunks(tails.len()).map(|seen| seen.iter().map(|o| o.d).collect());
        Ok(pairs.iter().copied().zip(answers).collect())
    };
    let pairs: Vec<[usize; 2]> = others.iter().flat_map(|&to| few(to)).collect();
    let answers = ask(&pairs)?;
    let Some((_, usual)) = answers.first() else { return Ok(None) };
    let Some(([to, at], _)) = answers.iter().find(|(_, answers)| answers != usual) else { return Ok(None) };
    let rest: Vec<[usize; 2]> = products.iter().filter(|i| ![first, *to].contains(i)).map(|&i| [*to, i]).collect();
    let apart = ask(&rest)?.into_iter().filter(|(_, answers)| answers != usual).map(|([_, i], _)| i).collect();
    Ok(Some(([*to, *at], apart)))
}

/// Products of which every pair is asked; of more, half a million pairs and gigabytes of inputs would be.
const MOST: usize = 128;

/// Sign, magnitude and exponent.
type Tail = (bool, u128, i32);

/// What two products beside X leave, each `tail`, if they are aligned each for itself or in one sum before: the codes
/// that the possible widths give.
struct Outcome {
    tail: Tail,
    apart: Vec<u64>,
    /// If none, all but `apart`.
    together: Vec<u64>,
}

impl Outcome {
    /// Where X is cancelled, or stays and has a last bit that is no lower than the unit of alignment; none where both
    /// leave the same.
    fn exact(lab: &Lab<'_>, ways: &[Width], x: i32, stays: bool, tail: Tail) -> Option<Self> {
        let (negative, y, e) = tail;
        let mut outcome = Self { tail, apart: Vec::new(), together: Vec::new() };
        for way in ways {
            let ((one, unit), (both, _)) = (way.align(negative, y, e, x), way.align(negative, 2 * y, e, x));
            let beside = if stays { 1i128 << u32::try_from(x - unit).ok()?.min(100) } else { 0 };
            let code = |units: i128| lab.bench.d(units < 0, units.unsigned_abs(), unit);
            outcome.apart.push(code(beside + 2 * one)?);
            outcome.together.push(code(beside + both)?);
        }
        let is_zero = |code: u64| lab.bench.interface.d.decode(code).is_zero();
        let same = |x: u64, y: u64| x == y || (is_zero(x) && is_zero(y));
        let differ = outcome.apart.iter().all(|&x| outcome.together.iter().all(|&y| !same(x, y)));
        differ.then_some(outcome)
    }

    /// Beside an X that stays, its last bit higher: tails that are lost one by one.
    fn lost(lab: &Lab<'_>, ways: &[Width], x: i32, tail: Tail) -> Option<Self> {
        let (negative, y, e) = tail;
        let lost =
            ways.iter().all(|way| way.align(negative, y, e, x).0 == 0 && way.align(negative, 2 * y, e, x).0 != 0);
        lost.then_some(())?;
        Some(Self { tail, apart: vec![lab.bench.d(false, 1, x)?], together: Vec::new() })
    }

    fn is_together(&self, d: u64) -> bool {
        !self.apart.contains(&d) && (self.together.is_empty() || self.together.contains(&d))
    }
}

/// X in c or a product, and -X in a product unless X stays; those among which tails may be.
type Home = (Vec<(usize, bool)>, Vec<usize>);

/// Says in `interleave` which products of a sum are summed in groups that are aligned as wide as the whole: two of half
/// the last unit, each lost beside X in another place, leave one together.
pub(super) fn equal(lab: &mut Lab<'_>, site: &Site, ways: &[Width], all: &mut [Feature]) -> Result<(), Error> {
    let (k, p) = (lab.bench.interface.k, &site.products);
    let Some(bits) = one(ways.iter().map(|w| w.bits)) else { return Ok(()) };
    let &[first, second, .., before, last] = p.as_slice() else { return Ok(()) };
    if p.len() > MOST || lab.bench.interface.scale.is_some() {
        return Ok(());
    }
    let middle = p[p.len() / 2];
    let other = if site.with_c { Some(k) } else { site.last.other.filter(|_| site.last.products == *p) };
    let rest = |used: &[usize]| p.iter().copied().filter(|i| !used.contains(i)).collect::<Vec<_>>();
    let homes: Vec<Home> = match other {
        Some(other) => [first, last, middle].map(|at| (vec![(other, false), (at, true)], rest(&[at]))).into(),
        None => [[first, second], [before, last], [second, middle], [second, before]]
            .map(|at| (vec![(at[0], false), (at[1], true)], rest(&at)))
            .into(),
    };
    let x = largest(lab, other == Some(k));
    let floor = smallest(lab, first)?;
    let tails = |x: i32| [(false, 1, x - bits - 1), (false, 3, x - bits - 3), (false, 1, x - bits - 2)];
    let cancelled = tails(x).into_iter().filter(|&(.., e)| e >= floor);
    let mut outcomes: Vec<(Outcome, Vec<Home>)> = Vec::new();
    if let Some(found) = cancelled.filter_map(|tail| Outcome::exact(lab, ways, x, false, tail)).next() {
        outcomes.push((found, homes));
    } else if site.with_c {
        // Products too narrow to be lost beside one another: beside c they are.
        let i = lab.bench.interface;
        let high = top(&i.c).min(top(&i.d)) - 1;
        let x = (floor + bits + 3).min(high);
        let stays = vec![(vec![(k, false)], p.clone())];
        let seen = tails(x).into_iter().find_map(|tail| Outcome::exact(lab, ways, x, true, tail));
        let lost = || [false, true].into_iter().filter_map(|n| Outcome::lost(lab, ways, x, (n, 1, x - bits - 1)));
        outcomes = match seen {
            Some(seen) => vec![(seen, stays)],
            None => lost().map(|outcome| (outcome, stays.clone())).collect(),
        };
    }
    let mut together = Together::new(k);
    let mut evidence: Vec<Observation> = Vec::new();
    for (outcome, homes) in outcomes {
        let (negative, y, e) = outcome.tail;
        for (beside, places) in homes {
            let pairs = places.iter().flat_map(|&i| places.iter().filter(move |&&j| i < j).map(move |&j| [i, j]));
            let pairs: Vec<[usize; 2]> = pairs.collect();
            let x = if beside.len() == 1 { e + bits + if y == 3 { 3 } else { 1 } } else { x };
            let made = |&[i, j]: &[usize; 2]| {
                let large = beside.iter().map(|&(at, negative)| (at, negative, 1, x));
                lab.terms(&large.chain([i, j].map(|at| (at, negative, y, e))).collect::<Vec<_>>())
            };
            let Some(inputs) = pairs.iter().map(made).collect::<Option<Vec<_>>>() else { continue };
            let sign = if negative { '-' } else { '+' };
            let large = if beside.len() == 1 { "X" } else { "X - X" };
            let shows = |[i, j]: &[usize; 2]| format!("{large} {sign} {y} * 2^{e} at k = {i} and {j}, X = 2^{x}");
            let asked = inputs.into_iter().zip(&pairs).map(|(input, pair)| (Some(input), shows(pair)));
            let seen = lab.ask(asked.collect())?;
            let met: Vec<bool> = seen.iter().map(|o| outcome.is_together(o.d)).collect();
            pairs.iter().zip(&met).filter(|(_, met)| **met).for_each(|(pair, _)| together.see(*pair));
            let telling = [true, false].map(|wanted| met.iter().position(|&x| x == wanted));
            evidence.extend(telling.into_iter().flatten().map(|n| seen[n].clone()));
        }
    }
    together.report(p, evidence, all);
    Ok(())
}

/// Says in `interleave` which k are summed exactly before they meet: two products, each half of the last unit that X -
/// X leaves of others, leave one together. `ways` say how far below X that is.
pub(super) fn scaled(lab: &mut Lab<'_>, site: &Site, ways: &[Width], all: &mut [Feature]) -> Result<(), Error> {
    let k = lab.bench.interface.k;
    let Some(bits) = one(ways.iter().map(|w| w.bits)) else { return Ok(()) };
    let (Some(rule), true) = (lab.bench.interface.scale, site.with_c && site.products.len() == k && k <= MOST) else {
        return Ok(());
    };
    let blocks = k / rule.block.max(1);
    let x = (2 * top(&rule.format)).min(bits).min(top(&lab.bench.interface.c));
    let e = x - bits - 1;
    let mut evidence = Vec::new();
    let mut together = Together::new(k);
    // Each k beside an X of another block: the first, and for those of the first the last.
    for home in [0, blocks.saturating_sub(1)] {
        let others: Vec<usize> = (0..k).filter(|i| i / rule.block.max(1) != home).collect();
        let pairs = others.iter().flat_map(|&i| others.iter().filter(move |&&j| i <= j).map(move |&j| [i, j]));
        let pairs: Vec<[usize; 2]> = pairs.collect();
        let made = |pair: &[usize; 2]| scaled_input(lab, rule, home * rule.block, x, pair, e);
        let Some(inputs) = pairs.iter().map(made).collect::<Option<Vec<Input>>>() else { return Ok(()) };
        let shows = |[i, j]: [usize; 2]| match i == j {
            true => format!("X - X + 2^{e} at k = {i}, X = 2^{x}"),
            false => format!("X - X + 2^{e} at k = {i} and {j}, X = 2^{x}"),
        };
        let seen = lab.ask(inputs.into_iter().zip(&pairs).map(|(x, pair)| (Some(x), shows(*pair))).collect())?;
        let unit = lab.bench.d(false, 1, e + 1);
        let is_zero = |o: &Observation| lab.bench.interface.d.decode(o.d).is_zero();
        // One alone is cut off, but for those in X's own group.
        let mut cut = vec![false; k];
        pairs.iter().zip(&seen).filter(|([i, j], o)| i == j && is_zero(o)).for_each(|([i, _], _)| cut[*i] = true);
        for (&[i, j], o) in pairs.iter().zip(&seen).filter(|([i, j], _)| i != j && cut[*i] && cut[*j]) {
            let kept = Some(o.d) == unit;
            // Two leave a unit or nothing: anything else is no answer to this.
            if !kept && !is_zero(o) {
                return Ok(());
            }
            if kept {
                together.see([i, j]);
            }
        }
        evidence.extend(telling(&pairs, &seen, unit));
    }
    together.report(&site.products, evidence, all);
    Ok(())
}

/// X as c, -X as product `home`, and 2^e at each of two k, by scales as far as these reach.
fn scaled_input(lab: &Lab<'_>, rule: ScaleRule, home: usize, x: i32, pair: &[usize; 2], e: i32) -> Option<Input> {
    let i = lab.bench.interface;
    let mut input = lab.bench.zeros();
    input.c = exact(&i.c, false, 1, x)?;
    let low = last_bit(&rule.format);
    for (at, negative, e) in [(home, true, x), (pair[0], false, e), (pair[1], false, e)] {
        let by = e.clamp(2 * low, 2 * top(&rule.format));
        let (scales, operands) = ([by / 2, by - by / 2], [(e - by) / 2, e - by - (e - by) / 2]);
        let block = at / rule.block.max(1);
        *input.scale_a.get_mut(block)? = exact(&rule.format, false, 1, scales[0])?;
        *input.scale_b.get_mut(block)? = exact(&rule.format, false, 1, scales[1])?;
        input.a[at] = exact(&i.a, negative, 1, operands[0])?;
        input.b[at] = exact(&i.b, false, 1, operands[1])?;
    }
    Some(input)
}

/// A product alone, the first pair that leaves a unit, and the first that does not.
fn telling(pairs: &[[usize; 2]], seen: &[Observation], unit: Option<u64>) -> Vec<Observation> {
    let first = |wanted: &dyn Fn(&[usize; 2], &Observation) -> bool| {
        pairs.iter().zip(seen).find(|(pair, o)| wanted(pair, o)).map(|(_, o)| o.clone())
    };
    let found = [
        first(&|[i, j], _| i == j),
        first(&|[i, j], o| i != j && Some(o.d) == unit),
        first(&|[i, j], o| i != j && Some(o.d) != unit),
    ];
    found.into_iter().flatten().collect()
}
