//! All units against all: which are one function, which share a step, what tells others apart.

use super::black_box::{BlackBox, Input};
use super::diff;
use super::same::canonical;
use super::shrink;
use crate::accumulate::{GenericDot, Recipe};
use crate::error::Error;
use crate::unit::Unit;

/// Units that are one function: same formats, K and meaning.
#[derive(Clone, Debug)]
pub struct Class {
    /// The units.
    pub units: Vec<Unit>,
    /// The meaning, in the plainest form.
    pub recipe: Option<Recipe>,
}

/// An input that tells two classes of equal formats and K apart.
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub struct Classes {
    /// The functions.
    pub classes: Vec<Class>,
    /// Classes (by number) with the same formats and the same rule per step, at any K.
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
    let (_, found) = diff::search(x, y, 2)?;
    match found.first() {
        Some(input) => Ok(Some(shrink::shrink(input, &mut x.clone(), &mut y.clone())?)),
        None => Ok(None),
    }
}

/// Classes that differ only in K, or in how often a step is repeated.
fn same_step(classes: &[Class]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (n, class) in classes.iter().enumerate() {
        let Some(recipe) = class.units[0].recipe else { continue };
        let i = class.units[0].interface();
        let step = match recipe {
            Recipe::Generic(x) => Recipe::Generic(GenericDot { block: 0, ..x }),
            other => other,
        };
        let scale = i.scale.map_or(String::new(), |s| format!("{} {}", s.format, s.block));
        let key = format!("{} {} {} {} {scale} {step}", i.a, i.b, i.c, i.d);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, members)) => members.push(n),
            None => groups.push((key, vec![n])),
        }
    }
    groups.into_iter().map(|(_, members)| members).filter(|g| g.len() > 1).collect()
}
