//! `gemmulate identify`: which units and plans reproduce a product.

mod plans;
mod report;

use crate::bar::Bar;
use crate::inputs::{Inputs, Operands};
use crate::io::{self, Failure, Outcome};
use crate::npy::{Array, Vectors, differ};
use crate::prepared::Prepared;
use crate::units;
use gemmulate::arch::ArchInfo;
use gemmulate::format::{BF16, F16, F32, F64, FormatSpec, UE8M0};
use gemmulate::round::Rounding;
use gemmulate::{Plan, Unit};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Find the units and plans that give exactly this D for A and B.
///
/// Every unit of the catalogue whose formats hold the operands is tried (with --rounded every unit), and every
/// block-scaled one, with the scales given or with quantised values. Plans are those that libraries use: every preset,
/// both tails, promotion, split-K of 2 to 256 (parallel, serial; a few atomic in several orders), stream-K on as many
/// workers as the architecture's GPUs have. Bit patterns of 16 bits in D may be f16 or bf16.
///
/// Candidates are sampled first, those that agree are computed whole while --limit lasts. If none
/// fits, the closest by the sample are computed whole and shown. Exit status 1 if none fits. A and B
/// are one product's: of a batch, save the matrices one by one.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate identify a.npy b.npy d.npy
  gemmulate identify a.npy b.npy d.npy -c c.npy --alpha 0.5 --arch hopper
  gemmulate identify a.npy b.npy d.npy \\
    --plans \"cutlass3 split-k=7;cutlass3 block=128x256x64 stream-k=99\"")]
pub(crate) struct Args {
    #[command(flatten)]
    inputs: Operands,
    /// The product in question: M x N
    d: PathBuf,
    /// Only this architecture's units: its name, sm_90, gfx942 or a GPU
    #[arg(long, value_parser = units::arch)]
    arch: Option<ArchInfo>,
    /// Try all units, rounding values that their formats do not hold, instead of those that hold them:
    /// to nearest even and, where that gives no D, toward zero (as Triton brings f32 into tf32) and to
    /// nearest, ties away (cvt.rna), unless --round names one; --limit is for each
    #[arg(long)]
    rounded: bool,
    /// Try these plans, divided by semicolons, instead of the usual ones
    #[arg(long, value_name = "PLANS", value_delimiter = ';')]
    plans: Vec<Plan>,
    /// Seconds after which no further product is computed whole; samples of all are taken before
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
    /// Print JSON: {exact, tried, not_computed, matches, left_out}
    ///
    /// A match is {units, plans, output, round, differ, of, first, bits}: how values were rounded, how many elements
    /// differ, the first one's place and its codes, computed and given. `exact` says whether any match has no
    /// difference. What is left out is {plan, functions, why}.
    #[arg(long)]
    json: bool,
}

/// Runs of neighbours in D, and their length, that every candidate is tried on.
const SAMPLE: [usize; 2] = [4, 2];
/// Those that the ones which agree there are tried on, and at least so many of the closest.
const SECOND_SAMPLE: [usize; 2] = [6, 16];
const SECOND: usize = 48;
/// Those that the ones which agree there, too, are tried on.
const LARGE_SAMPLE: [usize; 2] = [32, 64];
/// The closest candidates that are shown where none fits.
const CLOSEST: usize = 5;

/// Units that compute one function, and plans that are one loop.
struct Candidate {
    group: usize,
    plans: Vec<Plan>,
    out: FormatSpec,
    /// How operands are rounded.
    round: Rounding,
    /// Of a sample: the share of elements that differ, and how far those are off, in powers of two of last places.
    misses: (f64, f64),
    /// Of all of D.
    differ: usize,
    first: Option<[usize; 3]>,
    /// What the candidate has there.
    found: u64,
}

struct Question<'a> {
    args: &'a Args,
    inputs: Inputs,
    d: Array,
    sample: Vec<[usize; 2]>,
    groups: Vec<Vec<Unit>>,
    /// Which of these are tried.
    wanted: Vec<bool>,
}

#[derive(Default)]
struct Answer {
    exact: bool,
    /// Functions, plans and D's formats.
    tried: HashSet<(usize, String, &'static str)>,
    /// Candidates that agree on the sample and were not computed, by any rounding.
    left: usize,
    matches: Vec<Candidate>,
}

/// How kernels may bring in operands that a unit does not hold: to nearest even; by dropping what is too much, as a
/// unit does of itself and Triton was seen to rely on; by PTX's `cvt.rna`.
const ROUNDINGS: [Rounding; 3] = [Rounding::NearestEven, Rounding::TowardZero, Rounding::NearestAway];

pub(crate) fn run(args: &Args) -> Outcome {
    let mut question = Question::new(args)?;
    let answer = question.answer()?;
    let mut out = io::output();
    if args.json {
        writeln!(out, "{}", question.json(&answer))?;
    } else {
        question.table(&mut out, &answer)?;
    }
    out.flush()?;
    Ok(answer.exact)
}

impl<'a> Question<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let inputs = Inputs::read(&args.inputs)?;
        if inputs.batch().is_some() {
            return Err(Failure::Message(
                "identify takes one product: save one matrix of the batch, as np.save('a0.npy', a[0])".into(),
            ));
        }
        let vectors = if inputs.a.dimensions == 1 { Vectors::Row } else { Vectors::Column };
        let d = Array::read(&args.d, vectors)?;
        let [m, n] = [inputs.a.shape[0], inputs.b.shape[1]];
        if d.batch.is_some() || d.shape != [m, n] || d.len() == 0 {
            let [rows, columns] = d.shape;
            let empty = if d.len() == 0 { ", and empty: nothing tells plans apart" } else { "" };
            let why = format!("the product of A and B is {m} x {n}, D is {rows} x {columns}{empty}");
            return Err(Failure::Message(why));
        }
        let sample = sample(SAMPLE, d.shape);
        let mut question = Self { args, inputs, d, sample, groups: Vec::new(), wanted: Vec::new() };
        question.groups = question.functions()?;
        question.wanted = vec![true; question.groups.len()];
        Ok(question)
    }

    /// What gives D, by the first of all roundings to be tried that any function does by.
    fn answer(&mut self) -> Result<Answer, Failure> {
        let (mut answer, mut refused, given) = (Answer::default(), None, [self.inputs.round]);
        let several = self.args.rounded && self.args.inputs.round.is_none();
        for round in if several { &ROUNDINGS[..] } else { &given } {
            if *round != self.inputs.round {
                self.inputs.round_by(*round);
                self.want_those_that_round();
            }
            // Plans or formats may refuse all units: if they do by every rounding, that is the answer.
            match self.screen() {
                Ok(candidates) => self.judge(candidates, &mut answer)?,
                Err(why) => refused = refused.or(Some(why)),
            }
            if answer.exact {
                break;
            }
        }
        match refused {
            Some(why) if answer.tried.is_empty() => Err(why),
            _ => Ok(answer),
        }
    }

    /// Leaves out the functions whose units hold all that enters: by another rounding they give the same.
    fn want_those_that_round(&mut self) {
        let (inputs, mut known) = (&self.inputs, HashMap::new());
        let doubles = inputs.c.as_ref().filter(|c| inputs.reads_c() && c.is_double());
        let rounds_c = doubles.is_some_and(|c| !holds(c, &F32));
        let mut rounds = |side: usize, array: &Array, unit: &Unit| {
            let format = [unit.a, unit.b][side];
            if array.pattern_width().is_none() && unit.scale.is_some() && !inputs.has_scales(side) {
                // NVFP4 is quantised by one rounding.
                return unit.scale.is_some_and(|rule| rule.format == UE8M0);
            }
            let held = || inputs.is_packed(array, &format) || holds(array, &format);
            !*known.entry((side, format.name)).or_insert_with(held)
        };
        let mut any =
            |unit: &Unit| rounds_c && unit.d != F64 || rounds(0, &inputs.a, unit) || rounds(1, &inputs.b, unit);
        self.wanted = self.groups.iter().map(|units| any(&units[0])).collect();
    }

    /// Which candidates, all by the rounding at hand, give D or come closest.
    fn judge(&self, mut candidates: Vec<Candidate>, answer: &mut Answer) -> Result<(), Failure> {
        let name = |c: &Candidate| (c.group, c.plans[0].to_string(), c.out.name);
        answer.tried.extend(candidates.iter().map(name));
        self.closest_first(&mut candidates);
        candidates.truncate(agreeing(&candidates).max(SECOND));
        self.screen_again(&mut candidates, SECOND_SAMPLE)?;
        self.closest_first(&mut candidates);
        let agree = agreeing(&candidates);
        self.screen_again(&mut candidates[..agree], LARGE_SAMPLE)?;
        self.closest_first(&mut candidates);
        let agree = agreeing(&candidates);
        let rest = candidates.split_off(agree);
        let start = Instant::now();
        let (mut matches, left) = self.settle(candidates, start)?;
        answer.left += left;
        answer.exact = matches.iter().any(|c| c.differ == 0);
        if answer.exact {
            matches.retain(|c| c.differ == 0);
            answer.matches = matches;
        } else {
            let closest = rest.into_iter().take(CLOSEST.saturating_sub(matches.len())).collect();
            answer.matches.extend(matches);
            answer.matches.extend(self.settle(closest, start)?.0);
            let near = |x: &Candidate, y: &Candidate| x.misses.1.total_cmp(&y.misses.1);
            answer.matches.sort_by(|x, y| x.differ.cmp(&y.differ).then(near(x, y)));
            answer.matches.truncate(CLOSEST);
        }
        Ok(())
    }

    /// The units that take the operands, those together that compute one function.
    fn functions(&self) -> Result<Vec<Vec<Unit>>, Failure> {
        let mut known = HashMap::new();
        let mut groups: BTreeMap<String, Vec<Unit>> = BTreeMap::new();
        for unit in Unit::all() {
            let wanted = self.args.arch.as_ref().is_none_or(|arch| unit.arch == arch.name);
            if !wanted || !self.takes(&unit, &mut known) {
                continue;
            }
            let function = unit.recipe.as_ref().map_or_else(|| unit.name.clone(), ToString::to_string);
            let (promotion, nan) = (Plan::cutlass3().promotion_on(&unit), unit.has_any_nan());
            let formats = [unit.a, unit.b, unit.c, unit.d].map(|f| f.name);
            let key = format!("{function} {} {formats:?} {:?} {promotion:?} {nan}", unit.shape.k, unit.scale);
            groups.entry(key).or_default().push(unit);
        }
        if groups.is_empty() {
            let why = "no unit takes such operands: values must be exact in its formats, bit patterns as wide";
            return Err(Failure::Message(why.into()));
        }
        Ok(groups.into_values().collect())
    }

    /// Whether a unit takes the operands: exactly, or as a block-scaled one quantised.
    fn takes(&self, unit: &Unit, known: &mut HashMap<(usize, &'static str), bool>) -> bool {
        [(&self.inputs.a, unit.a), (&self.inputs.b, unit.b)].into_iter().enumerate().all(|(side, (array, format))| {
            let quantised = unit.scale.is_some() && !self.inputs.has_scales(side);
            if array.pattern_width().is_none() && quantised {
                return true;
            }
            let rounded = self.args.rounded && array.pattern_width().is_none();
            let mut holds = || rounded || self.inputs.is_packed(array, &format) || holds(array, &format);
            *known.entry((side, format.name)).or_insert_with(&mut holds)
        })
    }

    /// Tries everything on the sample.
    fn screen(&self) -> Result<Vec<Candidate>, Failure> {
        let (bar, mut candidates, mut refused) = (Bar::new("sampling"), Vec::new(), None);
        for (group, units) in self.groups.iter().enumerate() {
            bar.tell(group as u64, self.groups.len() as u64);
            if !self.wanted[group] {
                continue;
            }
            match self.inputs.on(&units[0]) {
                Ok(product) => self.screen_group(group, &product, &mut candidates, &mut refused),
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            _ if !candidates.is_empty() => Ok(candidates),
            _ if self.is_too_wide() => {
                let why = "D holds f64, which no unit that takes these operands gives: store it as what was computed";
                Err(Failure::Message(why.into()))
            }
            Some(why) => Err(why),
            None => Err(Failure::Message("no unit gives such a D".into())),
        }
    }

    /// Whether D is of a type that none of the units gives.
    fn is_too_wide(&self) -> bool {
        let is_f64 = self.d.pattern_width().is_none() && self.d.format(&F32) == F64;
        is_f64 && self.groups.iter().all(|units| units[0].d != F64)
    }

    fn screen_group(
        &self,
        group: usize,
        product: &Prepared<'_>,
        candidates: &mut Vec<Candidate>,
        refused: &mut Option<Failure>,
    ) {
        let (units, [m, n, k]) = (&self.groups[group], product.size);
        let plans = if self.args.plans.is_empty() {
            let sums = if units[0].d.fraction_bits > F32.fraction_bits { F64 } else { F32 };
            let narrow = self.outputs(&units[0]).iter().any(|out| out.fraction_bits < sums.fraction_bits);
            plans::usual(units, self.inputs.reads_c(), narrow)
        } else {
            self.args.plans.clone()
        };
        if let Some(Err(why)) = plans.first().map(|plan| plan.check(&units[0], m, n, k)) {
            *refused = Some(why.into());
        }
        for plans in Plan::distinct_loops(plans, &units[0], m, n, k) {
            let named = plans[0].output_format();
            for out in self.outputs(&units[0]).into_iter().filter(|out| named.is_none_or(|named| named == *out)) {
                match product.elements(&plans[0], &out, &self.sample) {
                    Ok(codes) => {
                        let (plans, round, misses) = (plans.clone(), self.inputs.round, (0.0, 0.0));
                        let mut new = Candidate { group, plans, out, round, misses, differ: 0, first: None, found: 0 };
                        new.misses = self.misses(&self.sample, &codes, &new);
                        candidates.push(new);
                    }
                    // What the plan or the scales exclude.
                    Err(why) => *refused = Some(why),
                }
            }
        }
    }

    /// Of those as close, the narrowest operands first; if they are rounded, the widest: tf32 before f16.
    fn closest_first(&self, candidates: &mut [Candidate]) {
        let width = |c: &Candidate| {
            let bits = i64::from(self.groups[c.group][0].a.storage_bits);
            if self.args.rounded { -bits } else { bits }
        };
        candidates.sort_by(|x, y| {
            let (near, far) = (x.misses.0.total_cmp(&y.misses.0), x.misses.1.total_cmp(&y.misses.1));
            near.then(far).then(width(x).cmp(&width(y)))
        });
    }

    /// Tries candidates on a larger sample.
    fn screen_again(&self, candidates: &mut [Candidate], size: [usize; 2]) -> Result<(), Failure> {
        let (sample, bar, total) = (sample(size, self.d.shape), Bar::new("sampling more"), candidates.len());
        // Preparing operands may take longer than sampling them: a group's candidates one after another.
        candidates.sort_by_key(|candidate| candidate.group);
        let mut last = None;
        for (done, candidate) in candidates.iter_mut().enumerate() {
            bar.tell(done as u64, total as u64);
            let product = self.product(candidate.group, &mut last)?;
            let codes = product.elements(&candidate.plans[0], &candidate.out, &sample)?;
            candidate.misses = self.misses(&sample, &codes, candidate);
        }
        Ok(())
    }

    /// D's format, if a candidate's NaNs are any NaN.
    fn any_nan<'c>(&self, candidate: &'c Candidate) -> Option<&'c FormatSpec> {
        self.groups[candidate.group][0].has_any_nan().then_some(&candidate.out)
    }

    /// The product on a group's units; the last one is kept.
    fn product<'q, 'l>(
        &'q self,
        group: usize,
        last: &'l mut Option<(usize, Prepared<'q>)>,
    ) -> Result<&'l Prepared<'q>, Failure> {
        if last.as_ref().is_none_or(|(known, _)| *known != group) {
            *last = Some((group, self.inputs.on(&self.groups[group][0])?));
        }
        last.as_ref().map(|(_, product)| product).ok_or_else(|| Failure::Message("no product".into()))
    }

    /// The formats in which a unit may have given D.
    fn outputs(&self, unit: &Unit) -> Vec<FormatSpec> {
        let mut formats: Vec<FormatSpec> = Vec::new();
        for format in [unit.d, F32, F16, BF16, F64] {
            let fits = match self.d.pattern_width() {
                Some(width) => width == format.storage_bits.next_power_of_two().max(8),
                None => self.d.format(&format) == format,
            };
            if fits && !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    fn misses(&self, sample: &[[usize; 2]], codes: &[u64], candidate: &Candidate) -> (f64, f64) {
        let (format, any_nan) = (&candidate.out, self.any_nan(candidate));
        let wanted = sample.iter().map(|&[i, j]| self.d.code([0, i, j]));
        let differing = codes.iter().zip(wanted).filter(|&(&x, y)| differ(x, y, any_nan));
        let (mut count, mut far) = (0.0, 0.0);
        for (&x, y) in differing {
            count += 1.0;
            far += (place(x, format).abs_diff(place(y, format)) as f64 + 1.0).log2();
        }
        (count / sample.len() as f64, far / f64::max(count, 1.0))
    }

    /// Computes candidates whole while there is time, and counts those that were not.
    fn settle(&self, mut candidates: Vec<Candidate>, start: Instant) -> Result<(Vec<Candidate>, usize), Failure> {
        let (limit, total) = (Duration::from_secs(self.args.limit), candidates.len() as u64);
        let (bar, mut done, mut last) = (Bar::new("whole products"), 0, None);
        for candidate in &mut candidates {
            if done > 0 && start.elapsed() > limit {
                break;
            }
            let any_nan = self.any_nan(candidate).copied();
            let product = self.product(candidate.group, &mut last)?;
            let tell = |part: u64, of: u64| bar.tell(done * of + part, total * of);
            let found = product.run(&candidate.plans[0], &candidate.out, &tell)?;
            (candidate.differ, candidate.first) = found.differences(&self.d, any_nan.as_ref());
            candidate.found = candidate.first.map_or(0, |at| found.code(at));
            done += 1;
        }
        let left = candidates.len() - done as usize;
        candidates.truncate(done as usize);
        Ok((candidates, left))
    }
}

/// How many agree with all that they were tried on, of candidates in order.
fn agreeing(candidates: &[Candidate]) -> usize {
    candidates.partition_point(|c| c.misses.0 == 0.0)
}

/// Runs of neighbours all over D.
fn sample([runs, length]: [usize; 2], [m, n]: [usize; 2]) -> Vec<[usize; 2]> {
    // Steps by golden ratios reach all parts.
    let spread = |t: usize, n: usize, step: f64| ((t as f64 * step).fract() * n as f64) as usize;
    let run = |t: usize| {
        let (i, j) = (spread(t, m, 0.618_033_988_749_895), spread(t, n, 0.754_877_666_246_693));
        (j..(j + length).min(n)).map(move |j| [i, j])
    };
    let mut sample: Vec<[usize; 2]> = (0..runs).flat_map(run).collect();
    sample.sort_unstable();
    sample.dedup();
    sample
}

/// Whether every element of a file is a number of the format, or a code of it.
fn holds(array: &Array, format: &FormatSpec) -> bool {
    if array.pattern_width().is_some() {
        return array.operand(0, format).is_ok();
    }
    let from = array.format(format);
    array.places().all(|at| {
        let x = from.to_f64(array.code(at));
        let code = format.encode_f64(x, Default::default(), Default::default());
        code.is_ok_and(|code| x.is_nan() || format.to_f64(code) == x)
    })
}

/// A code's place among all codes in order of their numbers.
fn place(code: u64, format: &FormatSpec) -> i64 {
    let sign = 1u64 << (format.storage_bits.min(63) - 1);
    let magnitude = (code & (sign - 1)) as i64;
    if code & sign == 0 { magnitude } else { -magnitude }
}
