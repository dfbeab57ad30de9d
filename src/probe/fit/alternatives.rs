//! What a fit cannot tell: other models that no answer refutes.

use super::super::black_box::Interface;
use super::super::same::{canonical, same_function};
use super::cases::{Case, Jury};
use super::options::{self, Options};
use super::structure;
use crate::accumulate::{CPosition, GenericDot, Pattern, Recipe};
use crate::round::Rounding;
use crate::special::NanRule;
use std::collections::BTreeMap;

/// Another value of a parameter that gives the same answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alternative {
    /// The parameter, by its name in the recipe's text, or `family`.
    pub parameter: &'static str,
    /// The model with the other value.
    pub recipe: Recipe,
    /// Another parameter that has to change with it, if the answers refute the value alone.
    pub beside: Option<&'static str>,
    /// Why it is the same function, or None if only no vector tried told them apart.
    pub proof: Option<String>,
}

/// Exact sums with c added last: what narrow formats make of every family.
fn exact_sums(interface: &Interface) -> impl Iterator<Item = Recipe> {
    let sum = GenericDot {
        block: interface.k,
        exact: true,
        c: CPosition::Last,
        output_rounding: Rounding::NearestEven,
        ..GenericDot::default()
    };
    (0..8).map(move |bits| {
        let on = |i: u32| bits >> i & 1 == 1;
        let nan = if on(0) { NanRule::AllOnes } else { NanRule::Quiet };
        Recipe::Generic(GenericDot { nan, flush_inputs: on(1), flush_results: on(2), ..sum })
    })
}

/// Every value of every parameter, and other families.
fn values(recipe: &Recipe, interface: &Interface) -> Options {
    let other_family = |r: &Recipe| core::mem::discriminant(r) != core::mem::discriminant(recipe);
    let families = options::families(interface).into_iter().chain(exact_sums(interface));
    let families = families.chain([canonical(recipe, interface).0]);
    let mut all = options::options(recipe, interface, &structure::all(interface.k));
    all.push(("family", families.filter(other_family).collect()));
    if let Recipe::Generic(x) = *recipe {
        // Other names of the same blocks, too, which are no other structures.
        let patterns = [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs];
        let other = |pattern| Recipe::Generic(GenericDot { pattern, ..x });
        all.push(("pattern", patterns.map(other).into_iter().filter(|r| interface.accepts(r)).collect()));
    }
    all
}

/// The other values of each parameter that no answer refutes, alone or beside another parameter's.
pub(super) fn find(recipe: &Recipe, jury: &mut Jury<Case>, interface: &Interface) -> Vec<Alternative> {
    let mut open = |parameter, other: Recipe, beside| {
        let proof = same_function(recipe, &other, interface);
        let mut refuted = || jury.refutations(1, |c| c.agrees(&other, interface, true)) > 0;
        if other == *recipe || (proof.is_none() && refuted()) {
            return None;
        }
        let proof = proof.map(|why| why.into_iter().find(|w| w.starts_with(parameter)).unwrap_or_default());
        Some(Alternative { parameter, recipe: other, beside, proof })
    };
    let alone =
        values(recipe, interface).into_iter().flat_map(|(name, others)| others.into_iter().map(move |r| (name, r)));
    let mut found: Vec<Alternative> = alone.filter_map(|(name, other)| open(name, other, None)).collect();
    // The last value of each: of widths, the one farthest from the model's.
    let bases: BTreeMap<&str, Recipe> = found.iter().map(|a| (a.parameter, a.recipe)).collect();
    for (beside, base) in bases {
        for (name, others) in values(&base, interface) {
            let known = name == beside || found.iter().any(|a| a.parameter == name);
            let others = others.into_iter().filter(|r| !known && *r != base);
            found.extend(others.filter_map(|other| open(name, other, Some(beside))).take(1));
        }
    }
    found
}
