//! From a model that is nearly right to one that is: other values of one parameter, then of two.

use super::super::black_box::Interface;
use super::cases::{Case, Jury};
use super::options::options;
use super::structure::Structure;
use crate::accumulate::Recipe;
use std::time::Instant;

/// Refuting and agreeing answers that pairs of changes are tested against first.
const SAMPLE: (usize, usize) = (24, 96);

/// The best model in reach, and how many answers still refute it.
pub(crate) fn refine(
    start: Recipe,
    jury: &mut Jury<Case>,
    interface: &Interface,
    cuts: &[Structure],
    deadline: Instant,
) -> (Recipe, usize) {
    let count = |jury: &mut Jury<Case>, r: &Recipe, limit| jury.refutations(limit, |c| c.agrees(r, interface, true));
    let mut best = (start, count(jury, &start, usize::MAX));
    while best.1 > 0 && Instant::now() < deadline {
        let (mut sample, refuting) = sample(jury, &best.0, interface);
        let mut better = single(&best, jury, interface, cuts, deadline);
        if better.is_none() {
            better = pair(&best, &mut sample, refuting, jury, interface, cuts, deadline);
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
    for (name, values) in options(&best.0, interface, cuts) {
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

fn changes(recipe: &Recipe, interface: &Interface, cuts: &[Structure]) -> Vec<Recipe> {
    let all = options(recipe, interface, cuts).into_iter().flat_map(|(_, values)| values);
    all.filter(|r| r != recipe).collect()
}

/// A few answers that refute the model and more that do not; and how many do.
fn sample(jury: &Jury<Case>, recipe: &Recipe, interface: &Interface) -> (Jury<Case>, usize) {
    let (agreeing, refuting): (Vec<&Case>, Vec<&Case>) =
        jury.cases.iter().partition(|c| c.agrees(recipe, interface, true));
    let mut cases: Vec<Case> = refuting.iter().take(SAMPLE.0).map(|c| (*c).clone()).collect();
    let refuted = cases.len();
    let step = (agreeing.len() / SAMPLE.1).max(1);
    cases.extend(agreeing.iter().step_by(step).map(|c| (*c).clone()));
    (Jury { cases }, refuted)
}

/// The first pair of changes that the sample, then all answers, like better.
fn pair(
    best: &(Recipe, usize),
    sample: &mut Jury<Case>,
    refuting: usize,
    jury: &mut Jury<Case>,
    interface: &Interface,
    cuts: &[Structure],
    deadline: Instant,
) -> Option<(Recipe, usize)> {
    for first in changes(&best.0, interface, cuts) {
        if Instant::now() > deadline {
            return None;
        }
        for second in changes(&first, interface, cuts) {
            if sample.refutations(refuting, |c| c.agrees(&second, interface, true)) >= refuting {
                continue;
            }
            let refuted = jury.refutations(best.1, |c| c.agrees(&second, interface, true));
            if refuted < best.1 {
                return Some((second, refuted));
            }
        }
    }
    None
}
