//! Where a fit begins.

use super::super::black_box::Interface;
use super::cases::{Case, Jury};
use super::options::{self, roundings};
use super::refine::{self, Changes};
use super::search;
use super::structure::{LastKept, Structure, all as structures};
use crate::accumulate::{CPosition, GenericDot, Recipe};
use core::cell::Cell;
use std::collections::BTreeSet;
use std::time::Instant;

/// Starting models, the likeliest first.
pub(super) struct Hypotheses {
    pub(super) stage: usize,
    /// The cuts that the answers allow, ...
    pub(super) allowed: Vec<Structure>,
    /// ... this many of them for any unit, the others for one that drifts.
    pub(super) steady: usize,
    pub(super) middle: Vec<Case>,
    /// Whether the answers to the same terms with the other sign are the same with the other sign.
    pub(super) odd: bool,
    /// The last bit that is kept, if ordinary numbers have lower ones.
    pub(super) last_kept: Option<LastKept>,
    pub(super) deadline: Instant,
}

/// A start that explains less than this part of the middle-range answers is not worth refining.
const WORTH_REFINING: f64 = 0.5;

/// One in so many answers may refute a model that one parameter changes.
const NEARLY: usize = 32;

/// A start that more than one in so many of all answers refute is not one parameter away.
const HOPELESS: usize = 8;

/// Tests of models of every width before the generic family is tried, over K.
const TESTS: usize = 24_000_000;

/// Models of every width kept.
const EVERY: usize = 8;

impl Hypotheses {
    /// The stage that looks for generic models without unusual floors.
    pub(super) const GENERIC: usize = 4;

    /// The next stage's models, best first; None when there is no further stage.
    pub(super) fn next(&mut self, interface: &Interface, answers: &[Case]) -> Option<Vec<Recipe>> {
        self.stage += 1;
        match self.stage {
            1 => Some(self.one_family(interface, answers)),
            2 => Some(self.last_kept.map_or_else(Vec::new, |last| self.generic(interface, 0, Some(last)))),
            3 => Some(self.families_of_every_width(interface, answers, TESTS / interface.k)),
            Self::GENERIC => Some(self.generic(interface, 0, None)),
            5 => Some(self.families_of_every_width(interface, answers, usize::MAX)),
            6 => Some(self.generic(interface, self.middle.len() / 50, None)),
            7 => Some(self.families(interface, (self.middle.len() as f64 * WORTH_REFINING) as usize)),
            8 => Some(self.generic(interface, self.middle.len() / 8, None)),
            _ => None,
        }
    }

    /// The models of the one non-generic family that explains the middle of the range, or of several, or of other
    /// widths than known designs have, that explain all answers. Where all sums are exact, the generic family says that
    /// better.
    fn one_family(&self, interface: &Interface, answers: &[Case]) -> Vec<Recipe> {
        let mut found = self.families(interface, 0);
        let family = |r: &Recipe| core::mem::discriminant(r);
        if !found.is_empty() && found.windows(2).all(|pair| family(&pair[0]) == family(&pair[1])) {
            return found;
        }
        let exact = |output_rounding| {
            let sum = GenericDot { block: interface.k, exact: true, output_rounding, ..GenericDot::default() };
            self.middle.iter().all(|case| case.agrees(&Recipe::Generic(sum), interface, false))
        };
        if roundings().any(exact) {
            return Vec::new();
        }
        // Of several families, each perhaps but for the bits of NaN.
        let several = found.clone();
        if several.is_empty() {
            let mut jury = Jury { cases: self.middle.clone() };
            found = options::families_of_any_width(interface);
            found.retain(|r| self.has_time() && jury.refutations(1, |case| case.agrees(r, interface, false)) == 0);
        }
        found.retain(|r| self.has_time() && answers.iter().all(|case| case.agrees(r, interface, true)));
        if found.is_empty() {
            // Few answers show a parameter such as how far c reaches.
            let few = self.middle.len() / NEARLY;
            let mut nearly = if several.is_empty() { self.families(interface, few) } else { several };
            if nearly.is_empty() {
                nearly = self.fewest_refuted(options::families_of_any_width(interface), few, interface);
            }
            found.extend(self.one_parameter_away(nearly, interface, answers));
        }
        found
    }

    /// A model that explains all answers, one parameter after the other changed from one that nearly does.
    fn one_parameter_away(&self, nearly: Vec<Recipe>, interface: &Interface, answers: &[Case]) -> Option<Recipe> {
        let mut jury = Jury { cases: answers.to_vec() };
        let few = answers.len() / HOPELESS;
        // One parameter changes the rules for zeros or NaN, not for most of what is at the ends of the range.
        let nearly = nearly
            .into_iter()
            .filter(|r| answers.iter().filter(|case| !case.agrees(r, interface, true)).take(few + 1).count() <= few);
        let nearly: Vec<Recipe> = nearly.collect();
        let polish = |start| refine::refine(start, Changes::One, &mut jury, interface, &[], self.deadline);
        nearly.into_iter().map(polish).find(|(_, refuted)| *refuted == 0).map(|(recipe, _)| recipe)
    }

    /// CDNA3's families with any three widths and any reach of c that explain the middle of the range; the first few,
    /// and of these first those that explain most answers. So many are tested.
    fn families_of_every_width(&self, interface: &Interface, answers: &[Case], tests: usize) -> Vec<Recipe> {
        if self.odd {
            return Vec::new();
        }
        let groups: BTreeSet<usize> = match self.allowed.as_slice() {
            // Halves that are no pattern's blocks look like single products.
            cuts if cuts.iter().all(|cut| cut.block == 1) => (1..=interface.k).collect(),
            // Groups of two halves, even and odd k apart, may look like the halves.
            cuts => cuts.iter().flat_map(|cut| [cut.block, 2 * cut.block]).filter(|&g| g <= interface.k).collect(),
        };
        let agree = |case: &Case, r: &Recipe| case.agrees(r, interface, false);
        let left = Cell::new(tests);
        let more_than = |models: usize| {
            left.set(left.get().saturating_sub(models));
            left.get() > 0 && self.has_time()
        };
        let more = |_: &Recipe| more_than(1);
        let mut all = Jury { cases: self.middle.clone() };
        let mut of_size = |group: usize| -> Vec<Recipe> {
            // The sum of one group's products is with c or without it, wherever that ends.
            let alone = self.middle.iter().filter(|c| c.within_one_group(group));
            let mut alone = Jury { cases: alone.cloned().collect() };
            let mut with_some_reach = |r: &Recipe| {
                let either = options::of_either_reach(*r);
                alone.refutations(1, |case| either.iter().any(|r| agree(case, r))) == 0
            };
            let ends = self.middle.iter().filter(|c| c.ends_in_one_sum(group, interface.k));
            let mut ends = Jury { cases: ends.cloned().collect() };
            let possible = |models: &[Recipe]| {
                more_than(models.len()) && ends.refutations(1, |case| models.iter().any(|r| agree(case, r))) == 0
            };
            let wide = options::of_every_width(interface, group, possible);
            let wide = wide.take_while(more).filter(&mut with_some_reach);
            let reaching = wide.flat_map(options::of_every_reach).take_while(more);
            reaching.filter(|r| all.refutations(1, |case| agree(case, r)) == 0).take(EVERY).collect()
        };
        // Most designs have groups of a power of two.
        let (usual, others): (Vec<usize>, Vec<usize>) = groups.into_iter().rev().partition(|g| g.is_power_of_two());
        let mut sizes = usual.into_iter().chain(others).take_while(|_| more_than(0));
        let mut found = sizes.find_map(|g| Some(of_size(g)).filter(|found| !found.is_empty())).unwrap_or_default();
        // Rules for infinities and NaN are not among the middle's.
        found.sort_by_cached_key(|r| answers.iter().filter(|case| !case.agrees(r, interface, true)).count());
        found
    }

    fn has_time(&self) -> bool {
        Instant::now() < self.deadline
    }

    /// Non-generic families that at most `allowed` middle-range answers refute.
    fn families(&self, interface: &Interface, allowed: usize) -> Vec<Recipe> {
        self.fewest_refuted(options::families(interface), allowed, interface)
    }

    /// The first few of these models that at most `allowed` middle-range answers refute, those with the fewest first.
    fn fewest_refuted(&self, models: Vec<Recipe>, allowed: usize, interface: &Interface) -> Vec<Recipe> {
        let mut jury = Jury { cases: self.middle.clone() };
        let mut scored: Vec<(usize, Recipe)> = models
            .into_iter()
            .take_while(|_| self.has_time())
            .map(|r| (jury.refutations(allowed + 1, |case| case.agrees(&r, interface, false)), r))
            .filter(|(refuted, _)| *refuted <= allowed)
            .collect();
        scored.sort_by_key(|(refuted, _)| *refuted);
        scored.into_iter().map(|(_, r)| r).take(6).collect()
    }

    /// Generic models that at most `allowed` answers of the middle range refute: with floors that keep bits down to
    /// `last`, or with none yet.
    fn generic(&self, interface: &Interface, allowed: usize, last: Option<LastKept>) -> Vec<Recipe> {
        let mut ordinary: Vec<Case> = self.middle.iter().filter(|c| c.is_ordinary()).cloned().collect();
        let likely = search::likely_output_bits(&ordinary, interface);
        let wider = search::wider(&likely, interface);
        if allowed == 0 && last.is_none() {
            // No model has a floor yet, which cuts small products even where a later c makes the answer large.
            let large: Vec<Case> = ordinary.iter().filter(|c| c.is_above_floor(interface)).cloned().collect();
            if large.len() >= ordinary.len() / 4 {
                ordinary = large;
            }
        }
        let middle = search::Middle { cases: &ordinary, interface, allowed, deadline: self.deadline };
        let all = structures(interface.k);
        let (steady, drifting) = self.allowed.split_at(self.steady);
        let cuts = if self.allowed.is_empty() { [&all, drifting] } else { [steady, drifting] };
        // Most designs sum all of K, or a power of two of products: those first, where many cuts are left.
        let cuts = cuts.map(|cuts| {
            let mut cuts = cuts.to_vec();
            cuts.sort_by_key(|cut| cut.block != interface.k && !cut.block.is_power_of_two());
            cuts
        });
        // Refining can still change the cut and the rest: one cut that explains everything is enough, and
        // another one that does so with the same models.
        let find = |endings: &[GenericDot], known: bool, cuts: &[Structure]| -> Vec<GenericDot> {
            let mut cuts = cuts.iter();
            let first = |s| search::middle(s, search::candidates(endings, known, last), &middle);
            let Some(mut found) = cuts.by_ref().map(first).find(|found| !found.is_empty()) else { return Vec::new() };
            let again = |s| search::middle(s, found.iter().copied(), &middle);
            let second = cuts.map(again).find(|found| !found.is_empty());
            found.extend(second.unwrap_or_default());
            found
        };
        let every: Vec<Option<u32>> = options::output_bits(interface).collect();
        let mut found = Vec::new();
        // A floor may not be what cuts them: of those nothing unusual is tried.
        let roundings = if last.is_none() { &[true, false][..] } else { &[true] };
        for (known, cuts) in roundings.iter().flat_map(|&known| cuts.each_ref().map(|c| (known, c))) {
            if found.is_empty() {
                found = find(&search::endings(&likely, &EVERYWHERE, known, interface), known, cuts);
            }
            if found.is_empty() {
                // Where few sums have so many bits, the last one may not have been seen.
                found = find(&search::endings(&wider, &EVERYWHERE, known, interface), known, cuts);
            }
            if found.is_empty() && allowed == 0 && last.is_none() {
                // With late c the output's width is not the width of the blocks' sums.
                found = find(&search::endings(&every, &[CPosition::Late], known, interface), known, cuts);
            }
        }
        search::representatives(found).into_iter().map(Recipe::Generic).collect()
    }
}

/// The places c can enter.
const EVERYWHERE: [CPosition; 3] = [CPosition::With, CPosition::Last, CPosition::Late];
