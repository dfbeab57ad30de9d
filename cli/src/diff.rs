//! `gemmulate diff`: an input on which two units differ, and why.

use crate::io::{self, Failure, Outcome};
use crate::target::{in_words, input_json, number};
use gemmulate::Unit;
use gemmulate::probe::{BlackBox, Difference, Sameness, diff};
use gemmulate::vectors::draw;
use serde_json::json;
use std::io::Write;

/// Find the smallest input on which two units differ, and draw both traces.
///
/// Nothing can be left out of the input, shortened or moved nearer without the units agreeing (nearer
/// by the exponents as stored: a subnormal's is the smallest there is).
/// NaNs' bits count only where no number differs.
/// Whether another input has fewer terms, or whether units are equal that none tells apart, only a
/// solver can say: with --prove (a build with the feature smt; cvc5 or z3 installed).
///
/// Exit status 0 if the units are one function, 1 if they differ or might.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate diff \"A100 HMMA.1688.F32\" \"H100 HMMA.1688.F32\"
  gemmulate diff \"V100 HMMA.884.F32.F32\" turing/mma.m8n8k4.f32.f16.f16.f32
  gemmulate diff \"V100 HMMA.884.F32.F32\" valpey/volta --prove")]
pub(crate) struct Args {
    /// The first unit, by any of its names
    #[arg(value_parser = Unit::find)]
    first: Unit,
    /// The second unit
    #[arg(value_parser = Unit::find)]
    second: Unit,
    /// Print JSON: {same, input, line, first, second}
    ///
    /// `same` is true (then with `reasons`), false, or null (then with `tried`, how many inputs did not tell them
    /// apart). `line` is the input as `eval` reads it, `first` and `second` are the results. With --prove there is
    /// `proof`: {equal, how, fewest_terms, open, solver, seconds}.
    #[arg(long)]
    json: bool,
    #[cfg(feature = "smt")]
    #[command(flatten)]
    prove: prove::Prove,
}

pub(crate) fn run(args: &Args) -> Outcome {
    #[cfg(feature = "smt")]
    let solver = args.prove.solver()?;
    let found = diff(&args.first, &args.second).map_err(|why| {
        // There is no input that both take: there are products of both.
        let products = format!("gemmulate compare A.npy B.npy --units {},{}", args.first, args.second);
        Failure::Message(format!("{why}\nwhole products of both: {products}"))
    })?;
    #[cfg(feature = "smt")]
    let (found, proof) = match &solver {
        Some(solver) => prove::prove(&args.first, &args.second, found, solver)?,
        None => (found, None),
    };
    #[cfg(not(feature = "smt"))]
    let proof: Option<Proof> = None;
    let mut out = io::output();
    if args.json {
        let mut value = to_json(&found);
        if let Some(proof) = &proof {
            value["proof"] = proof.to_json();
        }
        writeln!(out, "{value:#}")?;
    } else {
        match &found {
            Sameness::Same(reasons) if reasons.is_empty() => writeln!(out, "the same function: equal parameters")?,
            Sameness::Same(reasons) => writeln!(out, "the same function:\n  {}", reasons.join("\n  "))?,
            Sameness::Different(found) => print(args, found, &mut out)?,
            Sameness::NotToldApart(n) => writeln!(out, "none of {n} inputs tells them apart; that is no proof")?,
            _ => {}
        }
        if let Some(proof) = &proof {
            writeln!(out, "{} ({:.1} s, {})", proof.in_words(), proof.seconds, proof.solver)?;
        }
    }
    out.flush()?;
    let equal = proof.is_some_and(|p| matches!(p.verdict, Proved::Equal(_)));
    Ok(equal || matches!(found, Sameness::Same(_)))
}

/// What a solver added to what was found.
struct Proof {
    verdict: Proved,
    solver: String,
    seconds: f64,
}

#[cfg_attr(not(feature = "smt"), allow(dead_code, reason = "nothing is proved without a solver"))]
enum Proved {
    /// The units are one function, and how that is known.
    Equal(String),
    /// No input of fewer terms tells them apart.
    Fewest(usize),
    /// Neither, and why.
    Open(String),
}

impl Proof {
    fn in_words(&self) -> String {
        match &self.verdict {
            Proved::Equal(how) => format!("proved equal: {how}"),
            Proved::Fewest(terms) => {
                format!("proved minimal in its {terms} terms; that its significands are the shortest is not proved")
            }
            Proved::Open(why) => format!("not settled by the solver: {why}"),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        let mut value = match &self.verdict {
            Proved::Equal(how) => json!({ "equal": true, "how": how }),
            Proved::Fewest(terms) => json!({ "equal": false, "fewest_terms": terms }),
            Proved::Open(why) => json!({ "equal": null, "open": why }),
        };
        value["solver"] = json!(self.solver);
        value["seconds"] = json!(self.seconds);
        value
    }
}

/// `--prove`: a solver's word on what was found.
#[cfg(feature = "smt")]
mod prove {
    use super::{Failure, Proof, Proved};
    use gemmulate::probe::{Difference, Input, Sameness};
    use gemmulate::smt::{self, Solver, Verdict};
    use gemmulate::{Error, Unit};
    use std::time::{Duration, Instant};

    #[derive(clap::Args)]
    pub(super) struct Prove {
        /// Have a solver prove that no input of fewer terms tells the units apart, or that they are equal
        #[arg(long)]
        prove: bool,
        /// The solver's program: z3 or cvc5 (default: whichever is installed, cvc5 first)
        #[arg(long, value_name = "PROGRAM", requires = "prove")]
        solver: Option<String>,
        /// Seconds before the solver is stopped
        #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
        timeout: f64,
    }

    impl Prove {
        /// The solver, if one is asked for.
        pub(super) fn solver(&self) -> Result<Option<Solver>, Failure> {
            if !self.prove {
                return Ok(None);
            }
            let timeout = Duration::try_from_secs_f64(self.timeout)
                .map_err(|_| Failure::Message("--timeout must be a number of seconds".into()))?;
            Ok(Some(match &self.solver {
                Some(program) => Solver::named(program, timeout)?,
                None => Solver::find(timeout)?,
            }))
        }
    }

    /// What is found, with the solver's input in its place if that has fewer terms, and the proof.
    pub(super) fn prove(
        first: &Unit,
        second: &Unit,
        found: Sameness,
        solver: &Solver,
    ) -> Result<(Sameness, Option<Proof>), Failure> {
        let start = Instant::now();
        let answer = smt::diff(first, second, solver, solver.timeout());
        let proof = |verdict| {
            let (solver, seconds) = (solver.version().to_owned(), start.elapsed().as_secs_f64());
            Some(Proof { verdict, solver, seconds })
        };
        let answer = match answer {
            // A unit that has no encoding is no reason to keep what was found.
            Err(Error::Solver(why)) => return Ok((found, proof(Proved::Open(why)))),
            answer => answer?,
        };
        Ok(match (found, answer) {
            (Sameness::Different(_), Verdict::Equal(how)) => {
                return Err(Failure::Message(format!("the solver takes units that differ for equal: {how}")));
            }
            (Sameness::Same(_), Verdict::Different { input, .. }) => {
                return Err(Failure::Message(format!("the solver tells units of one function apart by {input}")));
            }
            (found, Verdict::Equal(how)) => (found, proof(Proved::Equal(how))),
            (Sameness::Different(d), Verdict::Different { terms, minimal: true, .. }) if terms_of(&d.input) < terms => {
                return Err(Failure::Message(format!(
                    "the solver says that it takes {terms} terms, but see {}",
                    d.input
                )));
            }
            (found, Verdict::Different { input, first: x, second: y, terms, minimal }) => {
                let fewer = |d: &Difference| terms_of(&d.input) > terms;
                let found = match found {
                    Sameness::Different(d) if !fewer(&d) => Sameness::Different(d),
                    _ => Sameness::Different(Box::new(difference(first, second, input, [x, y])?)),
                };
                let open = "a question about fewer terms stayed open";
                (found, proof(if minimal { Proved::Fewest(terms) } else { Proved::Open(open.into()) }))
            }
            (found, Verdict::Open(why)) => (found, proof(Proved::Open(why))),
            (found, _) => (found, None),
        })
    }

    /// Terms that are not +0 x +0, c among them, as the solver counts them.
    fn terms_of(input: &Input) -> usize {
        let products = input.a.iter().zip(&input.b).filter(|(a, b)| **a != 0 || **b != 0).count();
        products + usize::from(input.c != 0)
    }

    fn difference(first: &Unit, second: &Unit, input: Input, [x, y]: [u64; 2]) -> Result<Difference, Error> {
        let trace = |u: &Unit| input.trace(u);
        let (first_trace, second_trace) = (trace(first)?.1, trace(second)?.1);
        Ok(Difference { input, first: x, second: y, first_trace, second_trace })
    }
}

fn print(args: &Args, found: &Difference, out: &mut impl Write) -> Result<(), Failure> {
    let interface = args.first.interface();
    let input = &found.input;
    let value = |d: u64| number(interface.d.to_f64(d));
    writeln!(out, "{}", in_words(input, &interface))?;
    writeln!(out, "line: {input}\n")?;
    let mut traces = Vec::new();
    for (unit, d) in [(&args.first, found.first), (&args.second, found.second)] {
        traces.push(format!("{unit}\nd = {d:x} ({})\n{}", value(d), draw(unit, &input.clone().into())?));
    }
    writeln!(out, "{}", side_by_side(&traces[0], &traces[1]))?;
    Ok(())
}

/// Two texts in two columns, or one below the other if they are too wide.
fn side_by_side(left: &str, right: &str) -> String {
    let width = left.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let right_width = right.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    if width + right_width > 190 {
        return format!("{left}\n{right}");
    }
    let count = left.lines().count().max(right.lines().count());
    let (mut l, mut r) = (left.lines(), right.lines());
    let line = |_| {
        let (x, y) = (l.next().unwrap_or(""), r.next().unwrap_or(""));
        format!("{x}{}  | {y}", " ".repeat(width - x.chars().count())).trim_end().to_owned()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

fn to_json(outcome: &Sameness) -> serde_json::Value {
    match outcome {
        Sameness::Same(reasons) if reasons.is_empty() => json!({ "same": true, "reasons": ["equal parameters"] }),
        Sameness::Same(reasons) => json!({ "same": true, "reasons": reasons }),
        Sameness::Different(found) => json!({
            "same": false,
            "input": input_json(&found.input),
            "line": found.input.to_string(),
            "first": format!("{:x}", found.first),
            "second": format!("{:x}", found.second),
        }),
        Sameness::NotToldApart(n) => json!({ "same": null, "tried": n }),
        _ => json!({ "same": null }),
    }
}
