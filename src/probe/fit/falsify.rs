//! The attempt to falsify a model: random vectors, those at its own edges, and for every other value of every parameter
//! an input on which it would differ.

use super::super::edges::Edges;
use super::super::generate::{ENDS, Generator};
use super::super::{same_function, shrink};
use super::cases::{Case, Jury};
use super::options;
use super::{FitOptions, Input, KEPT, Lab, Structure};
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::probe::BlackBox;
use crate::unit::Unit;
use std::time::Instant;

/// Vectors per round trip while falsifying.
const BATCH: usize = 8192;

/// Inputs searched for one that separates a model from a neighbour.
const NEIGHBOUR_POOL: usize = 2500;

/// Inputs at the own edges of a neighbour that stays as good as the model, at most; and those of all such neighbours.
const NEIGHBOUR_EDGES: (usize, usize) = (40_000, 400_000);

/// Values of one parameter that nothing tells apart from the model's, before the others are left.
const OPEN: usize = 8;

impl Lab<'_> {
    /// Fresh vectors, a third of every kind and the rest at the model's edges; returns those it gets wrong.
    pub(super) fn falsify(&mut self, recipe: &Recipe, options: &FitOptions) -> Result<Vec<Case>, Error> {
        let seed = self.seed ^ self.asked.rotate_left(32) ^ 0xFA15E;
        let mut generator = Generator::new(self.bench.clone(), seed);
        let mut edges = Edges::new(recipe, &self.interface, seed);
        let mut model = self.interface.unit(*recipe)?;
        self.cut_short = false;
        // Of a slow box, a few answers that tell other models say more than many of these.
        let now = Instant::now();
        let then = now + self.deadline.saturating_duration_since(now) * 2 / 3;
        // As many at the edges as were asked for, and half as many of every kind.
        let mut left = options.vectors.saturating_add(options.vectors / 2);
        while left > 0 {
            let count = left.min(BATCH);
            let mut inputs = edges.batch(count - count / 3);
            inputs.extend(generator.batch(count / 3));
            let answers = self.until(then, &inputs)?;
            inputs.truncate(answers.len());
            let expected = model.dot_adds(&inputs)?;
            let differing = inputs.into_iter().zip(answers).zip(expected).filter(|((_, d), want)| d != want);
            let wrong: Vec<Case> = differing.take(KEPT).map(|((x, d), _)| Case::new(&self.interface, x, d)).collect();
            if !wrong.is_empty() || Instant::now() > then {
                self.cut_short |= wrong.is_empty() && left > count;
                return Ok(wrong);
            }
            left -= count;
        }
        Ok(Vec::new())
    }

    /// Asks, for every other value of every parameter, an input on which it would differ, unless
    /// the answers so far refute it; returns the answers that refute the model itself.
    pub(super) fn question_neighbours(&mut self, recipe: &Recipe, cuts: &[Structure]) -> Result<Vec<Case>, Error> {
        let interface = self.interface;
        let mut generator = Generator::new(self.bench.clone(), self.seed ^ 0x0DD);
        let mut pool = generator.batch(NEIGHBOUR_POOL);
        pool.extend(generator.of_kinds(&ENDS, NEIGHBOUR_POOL));
        pool.extend(Edges::new(recipe, &interface, self.seed ^ 0x0DD).batch(2 * NEIGHBOUR_POOL));
        let pool = shrink::Pool::new(&interface, recipe, pool);
        let mut model = interface.unit(*recipe)?;
        // What will be asked, with the model's answers: one input tells many values apart.
        let mut asking: Jury<Case> = Jury { cases: Vec::new() };
        let mut unsettled = Vec::new();
        for (name, mut others) in options::options(recipe, &interface, cuts) {
            // Of floors below an exact sum, those that cut the most are told first, and the least of them not at all.
            if name == "e_zero" && matches!(recipe, Recipe::Generic(x) if x.exact) {
                others.reverse();
            }
            let mut open = 0;
            for other in others.into_iter().filter(|r| r != recipe) {
                if open == OPEN {
                    break;
                }
                if Instant::now() > self.deadline {
                    self.cut_short = true;
                    break;
                }
                let refuted = |jury: &mut Jury<Case>| jury.refutations(1, |c| c.agrees(&other, &interface, true)) > 0;
                let settled = same_function(recipe, &other, &interface).is_some();
                if settled || refuted(&mut self.jury) || refuted(&mut asking) {
                    continue;
                }
                let input = match pool.separating(&other, &interface) {
                    Some(input) => Some(input.clone()),
                    None => self.separating(&mut model, &other, 2 * NEIGHBOUR_POOL)?,
                };
                if input.is_none() {
                    open += 1;
                    unsettled.push(other);
                }
                asking.cases.extend(self.expected(&mut model, input)?);
            }
        }
        // Those that stay as one get more; of long sums, which take longer, fewer.
        let share = NEIGHBOUR_EDGES.1 / unsettled.len().max(1) / interface.k.div_ceil(16);
        for other in unsettled {
            let input = self.separating(&mut model, &other, share.min(NEIGHBOUR_EDGES.0))?;
            asking.cases.extend(self.expected(&mut model, input)?);
        }
        let inputs: Vec<Input> = asking.cases.into_iter().map(|case| case.input).collect();
        let answers = self.until(self.deadline, &inputs)?;
        let cases = inputs.into_iter().zip(answers).map(|(x, d)| Case::new(&interface, x, d));
        let mut answers: Vec<Case> = cases.collect();
        let wrong: Vec<Case> = answers.iter().filter(|c| !c.agrees(recipe, &interface, true)).cloned().collect();
        answers.retain(|c| c.agrees(recipe, &interface, true));
        self.jury.cases.extend(answers);
        Ok(wrong)
    }

    /// An input with the model's answer.
    fn expected(&self, model: &mut Unit, input: Option<Input>) -> Result<Option<Case>, Error> {
        let answers = model.dot_adds(input.as_slice())?;
        Ok(input.zip(answers.into_iter().next()).map(|(x, d)| Case::new(&self.interface, x, d)))
    }

    /// An input on which a model and its neighbour differ, among many at the neighbour's edges, a third of them ties.
    fn separating(&self, model: &mut Unit, other: &Recipe, count: usize) -> Result<Option<Input>, Error> {
        let mut edges = Edges::new(other, &self.interface, self.asked ^ count as u64);
        let mut other = self.interface.unit(*other)?;
        let mut left = count;
        while left > 0 && Instant::now() <= self.deadline {
            let mut inputs = edges.batch(left.min(NEIGHBOUR_POOL));
            left -= inputs.len();
            inputs.extend(edges.ties(inputs.len() / 2));
            let (ours, theirs) = (model.dot_adds(&inputs)?, other.dot_adds(&inputs)?);
            if let Some(at) = (0..inputs.len()).find(|&i| ours[i] != theirs[i]) {
                return Ok(Some(inputs.swap_remove(at)));
            }
        }
        Ok(None)
    }
}
