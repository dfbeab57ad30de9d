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
        let mut better = None;
        for other in changes(&best.0, interface, cuts) {
            let refuted = count(jury, &other, better.map_or(best.1, |(_, n)| n));
            if refuted < better.map_or(best.1, |(_, n)| n) {
                better = Some((other, refuted));
            }
        }
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
