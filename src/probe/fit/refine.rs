//! From a model that is nearly right to one that is: other values of one parameter, then of two, then of three.

use super::super::black_box::Interface;
use super::cases::{Case, Jury};
use super::options::{WIDTHS, options, roundings};
use super::structure::Structure;
use crate::accumulate::{GenericDot, Recipe, ZeroProducts};
use std::collections::HashSet;
use std::time::Instant;

/// Refuting and agreeing answers that several changes at once are tested against first.
const SAMPLE: (usize, usize) = (8, 96);

/// A model that more answers refute is not worth a search for three changes.
const ENOUGH: usize = 48;

/// How many parameters may change at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    One,
    /// Several, of so many models.
    Few(usize),
    Several,
}

/// The best model in reach, and how many answers still refute it.
pub(crate) fn refine(
    start: Recipe,
    changes: Changes,
    jury: &mut Jury<Case>,
    interface: &Interface,
    cuts: &[Structure],
    deadline: Instant,
) -> (Recipe, usize) {
    let count = |jury: &mut Jury<Case>, r: &Recipe, limit| jury.refutations(limit, |c| c.agrees(r, interface, true));
    let mut best = (start, count(jury, &start, usize::MAX));
    while best.1 > 0 && Instant::now() < deadline {
        let mut better = single(&best, jury, interface, cuts, deadline);
        let most = match changes {
            Changes::One => 0,
            Changes::Few(most) => most,
            Changes::Several => usize::MAX,
        };
        if better.is_none() && most > 0 {
            let (mut sample, refuting) = sample(jury, &best.0, interface);
            let nearby = |r: &Recipe| nearby(r, interface, cuts);
            let mut search = Search { best, refuting, interface, deadline, most, seen: HashSet::new() };
            better = search.improve(nearby(&best.0), &nearby, &mut sample, jury);
            if better.is_none() && best.1 <= ENOUGH && search.seen.len() < most {
                let level = search.level(cuts, &mut sample);
                better = search.improve(level, &nearby, &mut sample, jury);
            }
        }
        match better {
            Some(found) => best = found,
            None => break,
        }
    }
    best
}

/// The best other value of one parameter. Of the widths that are equally good, the middle one: the
/// next answers halve what is left.
fn single(
    best: &(Recipe, usize),
    jury: &mut Jury<Case>,
    interface: &Interface,
    cuts: &[Structure],
    deadline: Instant,
) -> Option<(Recipe, usize)> {
    let mut found: Option<(Recipe, usize)> = None;
    for (name, values) in options(&best.0, interface, cuts).into_iter().chain([wide_beside_zeros(&best.0, interface)]) {
        let mut alike: (usize, Vec<Recipe>) = (found.map_or(best.1, |(_, n)| n), Vec::new());
        for other in values.into_iter().filter(|r| *r != best.0) {
            if Instant::now() > deadline {
                return found;
            }
            // As good as the best value of this parameter, and better than any other's.
            let limit = if alike.1.is_empty() { alike.0 } else { alike.0 + 1 };
            let refuted = jury.refutations(limit, |c| c.agrees(&other, interface, true));
            if refuted >= limit {
                continue;
            }
            if refuted < alike.0 {
                alike = (refuted, Vec::new());
            }
            alike.1.push(other);
        }
        let middle = if name == "F" { alike.1.len() / 2 } else { 0 };
        found = alike.1.get(middle).map(|r| (*r, alike.0)).or(found);
    }
    found
}

/// Sums that are exact but beside zero products, whose exponents cut: it takes F, a sticky bit and the rule for zeros
/// together to explain such an answer.
fn wide_beside_zeros(recipe: &Recipe, interface: &Interface) -> (&'static str, Vec<Recipe>) {
    let mut all = Vec::new();
    if let Recipe::Generic(x) = *recipe
        && x.exact
    {
        let base = GenericDot { exact: false, zero_products: ZeroProducts::OwnExponent, ..x };
        for sticky in [false, true] {
            for alignment in roundings().take(4) {
                let wide = |frac_bits| Recipe::Generic(GenericDot { frac_bits, sticky, alignment, ..base });
                all.extend(WIDTHS.map(wide).filter(|r| interface.accepts(r)));
            }
        }
    }
    ("zero-products", all)
}

/// Every change of one parameter; other cuts of K last, which answers have told already and which may be many.
fn nearby(recipe: &Recipe, interface: &Interface, cuts: &[Structure]) -> Vec<Recipe> {
    let (cut, other): (Vec<_>, Vec<_>) = options(recipe, interface, cuts).into_iter().partition(|(n, _)| *n == "block");
    other.into_iter().chain(cut).flat_map(|(_, values)| values).filter(|r| r != recipe).collect()
}

/// A few answers that refute the model and more that do not; and how many do.
fn sample(jury: &Jury<Case>, recipe: &Recipe, interface: &Interface) -> (Jury<Case>, usize) {
    let (agreeing, refuting): (Vec<&Case>, Vec<&Case>) =
        jury.cases.iter().partition(|c| c.agrees(recipe, interface, true));
    let apart = (refuting.len() / SAMPLE.0).max(1);
    let mut cases: Vec<Case> = refuting.iter().step_by(apart).take(SAMPLE.0).map(|c| (*c).clone()).collect();
    let refuted = cases.len();
    let step = (agreeing.len() / SAMPLE.1).max(1);
    cases.extend(agreeing.iter().step_by(step).map(|c| (*c).clone()));
    (Jury { cases }, refuted)
}

/// What changes are looked for.
struct Search<'a> {
    best: (Recipe, usize),
    /// How many of the sample refute it.
    refuting: usize,
    interface: &'a Interface,
    deadline: Instant,
    /// How many are tried.
    most: usize,
    /// Models tried: several changes meet in one, in whatever order they are made.
    seen: HashSet<Recipe>,
}

impl Search<'_> {
    fn refutations(&self, jury: &mut Jury<Case>, recipe: &Recipe, limit: usize) -> usize {
        jury.refutations(limit, |c| c.agrees(recipe, self.interface, true))
    }

    /// The first change of one of these models that the sample, then all answers, like better than the best.
    fn improve(
        &mut self,
        models: Vec<Recipe>,
        nearby: &impl Fn(&Recipe) -> Vec<Recipe>,
        sample: &mut Jury<Case>,
        jury: &mut Jury<Case>,
    ) -> Option<(Recipe, usize)> {
        for model in models {
            if Instant::now() > self.deadline || self.seen.len() >= self.most {
                return None;
            }
            for changed in nearby(&model) {
                let tried = !self.seen.insert(changed);
                if tried || self.refutations(sample, &changed, self.refuting) >= self.refuting {
                    continue;
                }
                let refuted = self.refutations(jury, &changed, self.best.1);
                if refuted < self.best.1 {
                    return Some((changed, refuted));
                }
            }
        }
        None
    }

    /// Models two changes away, each of which the sample likes as much: a third may be what it takes. Of the values of
    /// a parameter that are alike, the first, the middle and the last.
    fn level(&self, cuts: &[Structure], sample: &mut Jury<Case>) -> Vec<Recipe> {
        let mut seen = HashSet::from([self.best.0]);
        let mut edge = vec![self.best.0];
        for _ in 0..2 {
            for model in core::mem::take(&mut edge) {
                for (_, values) in options(&model, self.interface, cuts) {
                    if Instant::now() > self.deadline {
                        return Vec::new();
                    }
                    let alike =
                        |r: &Recipe| *r != model && self.refutations(sample, r, self.refuting + 1) <= self.refuting;
                    let alike: Vec<Recipe> = values.into_iter().filter(alike).collect();
                    let [first, middle, last] =
                        [0, alike.len() / 2, alike.len().saturating_sub(1)].map(|n| alike.get(n));
                    edge.extend([first, middle, last].into_iter().flatten().filter(|r| seen.insert(**r)));
                }
            }
        }
        edge
    }
}
