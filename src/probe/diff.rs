//! An input on which two units differ, as small as can be, or why there is none.

use super::bench::Bench;
use super::black_box::{BlackBox, Input, Interface};
use super::edges::Edges;
use super::generate::Generator;
use super::same::same_function;
use super::shrink;
use crate::error::Error;
use crate::random::Random;
use crate::special::NanRule;
use crate::trace::Trace;
use crate::unit::Unit;
use std::time::{Duration, Instant};

/// An input on which two units give different bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The input: no term can be left out, no significand shortened and no exponent moved nearer
    /// to the others without the units agreeing.
    pub input: Input,
    /// The first unit's result.
    pub first: u64,
    /// The second unit's result.
    pub second: u64,
    /// How the first unit gets there.
    pub first_trace: Trace,
    /// How the second unit gets there.
    pub second_trace: Trace,
}

/// Whether two units differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Sameness {
    /// They do, on this input.
    Different(Box<Difference>),
    /// They are one function, for these reasons (none for equal recipes).
    Same(Vec<String>),
    /// No input was found that tells them apart; this many were tried.
    NotToldApart(u64),
}

/// How long a search without success goes on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Inputs tried at least.
const TRIED: u64 = 300_000;

/// Starting points of the shrinking: the smallest end counts.
const STARTS: usize = 12;

/// Compares two units of equal formats and K.
///
/// Where they differ in a number, that is shown; else a NaN whose bits differ.
///
/// ```
/// use gemmulate::Unit;
/// use gemmulate::probe::{Sameness, diff};
/// let volta = Unit::find("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=23")?;
/// let ampere = Unit::find("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=24")?;
/// let Sameness::Different(found) = diff(&volta, &ampere)? else { unreachable!() };
/// assert_ne!(found.first, found.second);
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When formats, K or scales differ.
pub fn diff(first: &Unit, second: &Unit) -> Result<Sameness, Error> {
    let interface = first.interface();
    let other = second.interface();
    if interface != other {
        let scales = |u: &Unit| u.scale.map_or_else(String::new, |s| format!(", a scale for {}", s.block));
        let show = |u: &Unit| format!("{}, K = {}{}", u.equation(), u.shape.k, scales(u));
        let (expected, found) = (format!("of the formats, K and scales of {first}: {}", show(first)), show(second));
        return Err(Error::shape(second.to_string(), expected, found));
    }
    let recipes = first.recipe.as_ref().zip(second.recipe.as_ref());
    if let Some(reasons) = recipes.and_then(|(x, y)| same_function(x, y, &interface)) {
        return Ok(Sameness::Same(reasons));
    }
    interface.check()?;
    let found = search(first, second, STARTS)?;
    let mut best: Option<(Input, u64, u64)> = None;
    let until = Instant::now() + PATIENCE / 2;
    for input in &found.inputs {
        if best.is_some() && Instant::now() > until {
            break;
        }
        let smaller = found.shrink(input, first, second)?;
        let size = |x: &(Input, u64, u64)| shrink::size(&x.0, &interface);
        if best.as_ref().is_none_or(|b| size(&smaller) < size(b)) {
            best = Some(smaller);
        }
    }
    let Some((input, first_d, second_d)) = best else { return Ok(Sameness::NotToldApart(found.tried)) };
    let trace = |u: &Unit| input.trace(u);
    let (first_trace, second_trace) = (trace(first)?.1, trace(second)?.1);
    Ok(Sameness::Different(Box::new(Difference { input, first: first_d, second: second_d, first_trace, second_trace })))
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// How many inputs were tried.
    tried: u64,
    /// Some on which the units differ.
    pub(crate) inputs: Vec<Input>,
    /// Whether that is in the bits of NaNs alone.
    nans: bool,
}

impl Found {
    /// The smallest input near one of these on which the units differ in the same way, and their results.
    pub(crate) fn shrink(&self, input: &Input, first: &Unit, second: &Unit) -> Result<(Input, u64, u64), Error> {
        let alike = |unit: &Unit| AnyNan { unit: unit.clone(), alike: !self.nans };
        let (input, ..) = shrink::shrink(input, &mut alike(first), &mut alike(second))?;
        let results = (input.eval(first)?, input.eval(second)?);
        Ok((input, results.0, results.1))
    }
}

/// A unit, all of whose NaNs may count as one.
struct AnyNan {
    unit: Unit,
    alike: bool,
}

impl BlackBox for AnyNan {
    fn interface(&self) -> Interface {
        self.unit.interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let (d, mut answers) = (self.unit.d, self.unit.dot_adds(inputs)?);
        if let (true, Some(quiet)) = (self.alike, d.nan_code(NanRule::Quiet)) {
            answers.iter_mut().filter(|code| d.decode(**code).is_nan()).for_each(|code| *code = quiet);
        }
        Ok(answers)
    }
}

/// Inputs of every kind on which the units differ, up to `enough`: in numbers, or if there are none in NaNs' bits.
pub(crate) fn search(first: &Unit, second: &Unit, enough: usize) -> Result<Found, Error> {
    let interface = first.interface();
    let mut generator = Generator::new(Bench::new(interface), 0xD1FF);
    let mut random = Random::new(0xD1FF);
    let until = Instant::now() + PATIENCE;
    let (mut tried, mut found, mut nans) = (0, Vec::new(), Vec::new());
    let both_nan = |(x, y): (u64, u64)| [x, y].iter().all(|&code| interface.d.decode(code).is_nan());
    let mut second = second.clone();
    let recipes = first.recipe.iter().chain(&second.recipe);
    let mut edges: Vec<Edges> = recipes.map(|r| Edges::new(r, &interface, 0xED6E)).collect();
    while found.len() < enough && (tried < TRIED || !found.is_empty()) && Instant::now() < until {
        let mut inputs = generator.batch(512);
        inputs.extend(edges.iter_mut().flat_map(|e| e.batch(512)));
        tried += inputs.len() as u64;
        let answers = first.clone().dot_adds(&inputs)?;
        let others = second.dot_adds(&inputs)?;
        let differing = inputs.into_iter().zip(answers.into_iter().zip(others)).filter(|(_, (x, y))| x != y);
        let (of_nans, others): (Vec<_>, Vec<_>) = differing.partition(|(_, results)| both_nan(*results));
        nans.extend(of_nans.into_iter().map(|(x, _)| x).take(enough.saturating_sub(nans.len())));
        let mut differing: Vec<Input> = others.into_iter().map(|(x, _)| x).collect();
        // A few of each batch, the sparse ones first: they shrink best.
        differing.sort_by_cached_key(|x| shrink::size(x, &interface));
        if differing.len() > 4 {
            let any = random.below(differing.len() as u64) as usize;
            differing.swap(3, any);
            differing.truncate(4);
        }
        found.append(&mut differing);
        if tried >= TRIED && !found.is_empty() {
            break;
        }
    }
    found.truncate(enough);
    let only_nans = found.is_empty();
    Ok(Found { tried, inputs: if only_nans { nans } else { found }, nans: only_nans })
}
