//! All units against all: which are one function, which share a step, what tells others apart.

use super::black_box::{BlackBox, Input, Interface};
use super::diff;
use super::same::canonical;
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::unit::Unit;

/// Units that are one function: same formats, K and meaning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Class {
    /// The units.
    pub units: Vec<Unit>,
    /// The meaning, in the plainest form.
    pub recipe: Option<Recipe>,
}

/// An input that tells two classes of equal formats and K apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Separation {
    /// The first class's number.
    pub first: usize,
    /// The second class's number.
    pub second: usize,
    /// The input and both results, or None if no input was found.
    pub input: Option<(Input, u64, u64)>,
}

/// The grouping of all units.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Classes {
    /// The functions.
    pub classes: Vec<Class>,
    /// Classes (by number) with the same formats and the same rule per step at several K: what the
    /// one of the largest K computes, at the K of each of the others, is the function of that.
    pub same_step: Vec<Vec<usize>>,
    /// One per pair of classes with equal formats and K.
    pub separations: Vec<Separation>,
}

/// Groups units into functions.
///
/// # Errors
/// Never for units of the catalogue: their lengths fit.
pub fn classes(units: impl Iterator<Item = Unit>) -> Result<Classes, Error> {
    let mut classes: Vec<Class> = Vec::new();
    for unit in units {
        let interface = unit.interface();
        let recipe = unit.recipe.map(|r| canonical(&r, &interface).0);
        let same = |c: &&mut Class| c.recipe.is_some() && c.recipe == recipe && c.units[0].interface() == interface;
        match classes.iter_mut().find(same) {
            Some(class) => class.units.push(unit),
            None => classes.push(Class { units: vec![unit], recipe }),
        }
    }
    let mut separations = Vec::new();
    for first in 0..classes.len() {
        for second in first + 1..classes.len() {
            let (x, y) = (&classes[first].units[0], &classes[second].units[0]);
            if x.interface() == y.interface() {
                separations.push(Separation { first, second, input: separate(x, y)? });
            }
        }
    }
    let same_step = same_step(&classes);
    Ok(Classes { classes, same_step, separations })
}

/// The smallest of a few separating inputs.
fn separate(x: &Unit, y: &Unit) -> Result<Option<(Input, u64, u64)>, Error> {
    let found = diff::search(x, y, 2)?;
    found.inputs.first().map(|input| found.shrink(input, x, y)).transpose()
}

/// Classes of one rule at several K: the rule of the one with the largest K, at the others' K, is
/// their function.
fn same_step(classes: &[Class]) -> Vec<Vec<usize>> {
    let restricts = |long: &Class, short: &Class| {
        let (x, y) = (long.units[0].interface(), short.units[0].interface());
        let Some(recipe) = long.units[0].recipe else { return false };
        let fits = y.scale.is_none_or(|s| y.k % s.block.max(1) == 0);
        let formats = Interface { k: y.k, ..x } == y;
        x.k > y.k && fits && formats && Some(canonical(&recipe, &y).0) == short.recipe
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (n, long) in classes.iter().enumerate() {
        let others = classes.iter().enumerate().filter(|(m, short)| *m == n || restricts(long, short));
        groups.push(others.map(|(m, _)| m).collect());
    }
    // What a longer one of the group says too is said once.
    let within = |g: &Vec<usize>, other: &Vec<usize>| g != other && g.iter().all(|n| other.contains(n));
    let all = groups.clone();
    groups.retain(|g| g.len() > 1 && !all.iter().any(|other| within(g, other)));
    groups
}
