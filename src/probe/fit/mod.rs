//! From a black box to a model of the library's family, and the attempt to falsify it.
//!
//! Khattak and Mikaitis (Algorithm 1) let an expert change the model at each mismatch. Here the
//! expert is a search: the box's answers leave few ways of cutting K into blocks; for each, all
//! combinations of width, roundings and place of c are tested against answers from the middle of
//! the range, then all combinations of the rules at its ends; every later mismatch is one more
//! answer that the next hypothesis, one or two parameters away, must explain.

mod alternatives;
pub(super) mod cases;
mod falsify;
mod hypotheses;
mod nans;
mod options;
mod refine;
mod search;
mod structure;

use super::bench::Bench;
use super::black_box::{BlackBox, Input, Interface};
use super::generate::{ENDS, Generator, Kind, MIDDLE};
use super::repeated::Repeated;
use super::shrink;
use crate::accumulate::{GenericDot, Recipe};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::random::Random;
use crate::unit::Unit;
pub use alternatives::Alternative;
use cases::{Case, Jury};
use hypotheses::Hypotheses;
use nans::KnownNans;
pub(super) use options::options as parameter_options;
pub(super) use options::{families, roundings};
use refine::Changes;
use std::collections::HashSet;
use std::time::{Duration, Instant};
pub(super) use structure::Structure;
pub(super) use structure::all as structures;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitOptions {
    /// Vectors at its own edges that a model must pass before it is believed; half as many of every kind go with them.
    pub vectors: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// How long to ask the box and to look for another model. What was found then is made smaller for an eighth of it.
    pub time: Duration,
}

impl Default for FitOptions {
    /// 300,000 vectors, seed 1, a minute: the slowest built-in unit takes 3 s of one core, half of them under 1 s.
    fn default() -> Self {
        Self { vectors: 300_000, seed: 1, time: Duration::from_secs(60) }
    }
}

/// An input on which a model is wrong, as small as can be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counterexample {
    /// The input.
    pub input: Input,
    /// What the box answered.
    pub answer: u64,
    /// What the model gives.
    pub model: u64,
}

/// The outcome of [`fit()`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fit {
    /// The model, named by a text that [`Unit::find`] accepts.
    pub model: Unit,
    /// The model as data.
    pub recipe: Recipe,
    /// Vectors put to the box.
    pub vectors: u64,
    /// How many of them the model gets wrong.
    pub mismatches: u64,
    /// Whether the search was stopped for want of time: then a model with mismatches says little, and one without them
    /// has not met all that it should have.
    pub out_of_time: bool,
    /// Why no model was looked for, where 1 x 1 and the like are not what they are in every model whose alignment floor
    /// is below them.
    pub does_not_sum: Option<String>,
    /// A code for NaN that the box gives and no rule of the library does: NaNs were then compared as NaNs, whatever
    /// their bits.
    pub unknown_nan: Option<u64>,
    /// The smallest of those found, if any.
    pub counterexample: Option<Counterexample>,
    /// Parameters whose other values give the same answers.
    pub alternatives: Vec<Alternative>,
}

/// A box, what it was asked, and how long there is.
pub(super) struct Lab<'a> {
    target: Repeated<'a>,
    interface: Interface,
    bench: Bench,
    asked: u64,
    /// Every answer that models are tested against.
    jury: Jury<Case>,
    deadline: Instant,
    /// Whether the box was asked less than it should have been, for want of time.
    cut_short: bool,
    seed: u64,
}

impl core::fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Lab({} asked)", self.asked)
    }
}

/// Finds the model of `target`.
///
/// # Errors
/// When the box fails to answer, or answers the same input in different ways (every answer that refutes a model is
/// asked for again), or is too slow to have a first model in time. A box outside the library's family is no error: the
/// result then has mismatches and a counterexample.
pub fn fit(target: &mut dyn BlackBox, options: &FitOptions) -> Result<Fit, Error> {
    let mut known = KnownNans::new(target);
    let found = fit_known(&mut known, options)?;
    Ok(Fit { unknown_nan: known.unknown, ..found })
}

fn fit_known(target: &mut dyn BlackBox, options: &FitOptions) -> Result<Fit, Error> {
    let interface = target.interface();
    interface.check()?;
    let deadline = super::deadline(options.time);
    let mut lab = Lab {
        target: Repeated::until(target, options.time, deadline),
        interface,
        bench: Bench::new(interface),
        asked: 0,
        jury: Jury { cases: Vec::new() },
        deadline,
        cut_short: false,
        seed: options.seed,
    };
    if let Some((why, inputs)) = super::features::does_not_sum(&mut lab.target)? {
        lab.target.refuse_babble()?;
        let wrong = lab.ask(inputs)?;
        lab.jury.cases.extend(wrong.iter().cloned());
        let first = lab.first_model();
        let expected = interface.unit(first)?.dot_adds(&wrong.iter().map(|c| c.input.clone()).collect::<Vec<_>>())?;
        // The very input that was judged: a smaller one may say something else.
        let judged = wrong.into_iter().zip(expected).next();
        let counterexample = judged.map(|(c, model)| Counterexample { input: c.input, answer: c.answer, model });
        return Ok(Fit { does_not_sum: Some(why), counterexample, ..lab.report(first, options)? });
    }
    let [mut allowed, drifting] = structure::allowed(&mut lab.target, options.seed)?;
    let steady = allowed.len();
    allowed.extend(drifting);
    let middle = lab.first_answers()?;
    let last_kept = structure::last_kept(&mut lab.target)?;
    let odd = lab.is_odd(&middle)?;
    let hypotheses = Hypotheses { stage: 0, allowed, steady, middle, odd, last_kept, deadline: lab.deadline };
    let best = lab.try_all(hypotheses, options)?;
    lab.report(best, options)
}

/// Inputs with products at all places.
const DENSE: usize = 48;

/// Of so many answers one is asked for with the other sign.
const MIRRORED: usize = 3;

/// Starting models polished per stage.
const STARTS: usize = 8;

/// Models of several changes that are tried in each stage before the generic family is, over K.
const CHANGED: usize = 2_000_000;

/// The part of its time that a fit takes to make a counterexample smaller.
const GRACE: u32 = 8;

/// Mismatches kept per round of falsifying.
const KEPT: usize = 48;

impl Lab<'_> {
    fn ask(&mut self, inputs: Vec<Input>) -> Result<Vec<Case>, Error> {
        let answers = self.target.dot_adds(&inputs)?;
        self.asked += inputs.len() as u64;
        Ok(inputs.into_iter().zip(answers).map(|(x, d)| Case::new(&self.interface, x, d)).collect())
    }

    /// The answers to as many of the inputs, from the first, as there is time for until then.
    fn until(&mut self, then: Instant, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let answers = self.target.until_then(inputs, then)?;
        self.asked += answers.len() as u64;
        self.cut_short |= answers.len() < inputs.len();
        Ok(answers)
    }

    /// Fails unless the box gives these answers again.
    fn confirm(&mut self, cases: &[Case]) -> Result<(), Error> {
        let (inputs, answers): (Vec<Input>, Vec<u64>) = cases.iter().map(|c| (c.input.clone(), c.answer)).unzip();
        self.target.confirm(&inputs, &answers)
    }

    /// Asks inputs of the middle range (returned) and of every kind (kept for the edges).
    fn first_answers(&mut self) -> Result<Vec<Case>, Error> {
        let mut generator = Generator::new(self.bench.clone(), self.seed ^ 0xA11CE);
        let mut inputs = generator.of_kinds(&[Kind::FewTerms], 500);
        inputs.extend(cancelling(&self.bench, self.seed, 300));
        inputs.extend(generator.of_kinds(&MIDDLE, 160));
        // Products of normal numbers everywhere: what else says, of narrow formats, how wide sums are?
        let everywhere: Vec<usize> = (0..self.interface.k).collect();
        inputs.extend((0..DENSE).map(|i| generator.terms_at(&everywhere, i % 2 == 0)));
        // How many bits results keep, sums of both signs of the narrowest do not show.
        let mut of_one_sign = Generator::new(self.bench.clone(), self.seed ^ 0x0E51);
        inputs.extend((0..DENSE / 2).map(|_| of_one_sign.one_sign()));
        let middle = self.ask(inputs)?;
        let mut edges = generator.batch(1200);
        edges.extend(generator.of_kinds(&ENDS, 400));
        let edges = self.ask(edges)?;
        // All models are judged by these.
        self.confirm(&middle)?;
        self.confirm(&edges)?;
        self.jury.cases.extend(edges);
        self.jury.cases.extend(middle.iter().cloned());
        Ok(middle)
    }

    /// Whether the box answers the same terms with the other sign with the same sum with the other sign, which no
    /// design does that rounds down.
    fn is_odd(&mut self, middle: &[Case]) -> Result<bool, Error> {
        let Interface { a, c, d, .. } = self.interface;
        let other_sign = |format: FormatSpec, code: u64| match format.decode(code).is_zero() || !format.signed {
            true => code,
            false => code ^ 1 << (format.exponent_bits + format.fraction_bits + format.ignored_low_bits),
        };
        let mirrored = |case: &Case| {
            let flipped = case.input.a.iter().map(|&code| other_sign(a, code)).collect();
            Input { a: flipped, c: other_sign(c, case.input.c), ..case.input.clone() }
        };
        let some = || middle.iter().step_by(MIRRORED);
        let answers: Vec<u64> = some().map(|case| case.answer).collect();
        let mirrored = self.ask(some().map(mirrored).collect())?;
        // Zeros and NaNs have signs by rules of their own.
        let same_but_sign = |x: u64, y: u64| match (d.decode(x), d.decode(y)) {
            (v, w) if v.is_zero() || v.is_nan() => (w.is_zero(), w.is_nan()) == (v.is_zero(), v.is_nan()),
            _ => x == other_sign(d, y),
        };
        Ok(mirrored.iter().zip(answers).all(|(case, answer)| same_but_sign(case.answer, answer)))
    }

    /// Where there is nothing better.
    fn first_model(&self) -> Recipe {
        Recipe::Generic(GenericDot { block: self.interface.k, ..GenericDot::default() })
    }

    /// Polishes and falsifies starting models until one survives or time is up.
    fn try_all(&mut self, mut hypotheses: Hypotheses, options: &FitOptions) -> Result<Recipe, Error> {
        let mut best = (self.first_model(), usize::MAX);
        // Starts of other families than the generic one, to which the search for several changes is to come back.
        let mut deferred: Vec<Recipe> = Vec::new();
        while let Some(starts) = hypotheses.next(&self.interface, &self.jury.cases) {
            if Instant::now() > self.deadline {
                break;
            }
            // Changing several parameters at once is a long search: first all starts without, then those that were left
            // with the fewest refutations. Narrow products let other families explain the middle of the range of a
            // generic unit: of theirs no more than some are tried before it.
            let few = hypotheses.stage < Hypotheses::GENERIC;
            let several = if few {
                Changes::Few(CHANGED / self.interface.k / starts.len().clamp(1, STARTS))
            } else {
                Changes::Several
            };
            let mut starts: Vec<Recipe> = starts.into_iter().take(STARTS).collect();
            for changes in [Changes::One, several] {
                let mut stuck: Vec<(Recipe, usize)> = Vec::new();
                for start in core::mem::take(&mut starts) {
                    let start = if changes == Changes::One { self.with_edges(start) } else { start };
                    let (recipe, refuted) = self.settle(start, changes, &hypotheses.allowed, options)?;
                    if refuted < best.1 {
                        best = (recipe, refuted);
                    }
                    if refuted == 0 || Instant::now() > self.deadline {
                        return Ok(best.0);
                    }
                    stuck.push((recipe, refuted));
                }
                stuck.sort_by_key(|(_, refuted)| *refuted);
                let mut seen = HashSet::new();
                starts = stuck.into_iter().map(|(recipe, _)| recipe).filter(|r| seen.insert(*r)).collect();
                if few && changes != Changes::One {
                    deferred.append(&mut starts);
                }
            }
            if hypotheses.stage == Hypotheses::GENERIC {
                for start in core::mem::take(&mut deferred) {
                    let (recipe, refuted) = self.settle(start, Changes::Several, &hypotheses.allowed, options)?;
                    if refuted < best.1 {
                        best = (recipe, refuted);
                    }
                    if refuted == 0 || Instant::now() > self.deadline {
                        return Ok(best.0);
                    }
                }
            }
        }
        Ok(best.0)
    }

    /// A start with the rules at the ends of the range that explain most answers.
    fn with_edges(&mut self, start: Recipe) -> Recipe {
        match start {
            Recipe::Generic(x) => Recipe::Generic(search::with_edges(x, &mut self.jury, &self.interface)),
            other => other,
        }
    }

    /// Refines one start, and again with each batch of mismatches that falsifying finds.
    fn settle(
        &mut self,
        start: Recipe,
        changes: Changes,
        cuts: &[Structure],
        options: &FitOptions,
    ) -> Result<(Recipe, usize), Error> {
        let mut recipe = start;
        loop {
            let refuted;
            (recipe, refuted) = refine::refine(recipe, changes, &mut self.jury, &self.interface, cuts, self.deadline);
            if refuted > 0 {
                return Ok((recipe, refuted));
            }
            let mut wrong = self.falsify(&recipe, options)?;
            if wrong.is_empty() {
                wrong = self.question_neighbours(&recipe, cuts)?;
            }
            if wrong.is_empty() {
                return Ok((recipe, 0));
            }
            self.confirm(&wrong)?;
            self.jury.cases.splice(0..0, wrong);
            if Instant::now() > self.deadline {
                return Ok((recipe, 1));
            }
        }
    }

    fn report(mut self, recipe: Recipe, options: &FitOptions) -> Result<Fit, Error> {
        let interface = self.interface;
        let late = Instant::now() > self.deadline;
        let model = interface.unit(recipe)?;
        let mut wrong: Vec<Case> =
            self.jury.cases.iter().filter(|c| !c.agrees(&recipe, &interface, true)).cloned().collect();
        let out_of_time = self.cut_short || (late && !wrong.is_empty());
        wrong.sort_by_cached_key(|c| shrink::size(&c.input, &interface));
        self.confirm(&wrong[..wrong.len().min(KEPT)])?;
        self.target.extend(super::deadline(options.time / GRACE));
        let counterexample = match wrong.first() {
            Some(case) => Some(self.smallest(case, &model)?),
            None => None,
        };
        let alternatives = match wrong.is_empty() {
            true => alternatives::find(&recipe, &mut self.jury, &interface),
            false => Vec::new(),
        };
        let (vectors, mismatches) = (self.asked, wrong.len() as u64);
        let (does_not_sum, unknown_nan) = (None, None);
        Ok(Fit {
            model,
            recipe,
            vectors,
            mismatches,
            out_of_time,
            does_not_sum,
            unknown_nan,
            counterexample,
            alternatives,
        })
    }

    fn smallest(&mut self, case: &Case, model: &Unit) -> Result<Counterexample, Error> {
        let mut model = model.clone();
        let (input, answer, wrong) = shrink::shrink(&case.input, &mut self.target, &mut model)?;
        if answer == wrong {
            // The case's own answer was another one.
            return Err(Error::Inconsistent { input: Box::new(input), first: case.answer, again: answer });
        }
        self.target.confirm(std::slice::from_ref(&input), &[answer])?;
        Ok(Counterexample { input, answer, model: wrong })
    }
}

/// X - X + y and more: what alignment keeps of y shows undisturbed by the output rounding.
fn cancelling(bench: &Bench, seed: u64, count: usize) -> Vec<Input> {
    let mut random = Random::new(seed ^ 0xCA9CE1);
    let k = bench.interface.k;
    let (low, high) = bench.product_range();
    let (c_low, c_high) = bench.common_range();
    let mut inputs = Vec::new();
    for _ in 0..20 * count {
        if inputs.len() == count {
            break;
        }
        let place = |random: &mut Random| random.below(k as u64 + 1) as usize;
        let (i, j, l) = (place(&mut random), place(&mut random), place(&mut random));
        if i == j || l == i || l == j {
            continue;
        }
        let flip = random.one_in(2);
        let e = if random.one_in(2) { random.range(c_low, c_high) } else { random.range(low.max(-30), high.min(60)) };
        let small = (e - random.range(0, 75)).max(low);
        let more = u128::from(random.below(4));
        let magnitude = if random.one_in(2) { 1 } else { u128::from(random.below(7)) + 1 };
        let terms = [
            (i, flip, 16, e - 4),
            (j, !flip, 16 + more * u128::from(random.below(2)), e - 4),
            (l, random.one_in(2), magnitude, small),
        ];
        inputs.extend(bench.terms(&terms));
    }
    inputs
}
