//! `gemmulate smt`: units for a solver, and what a solver proves of them.

use crate::io::{self, Failure, Outcome};
use crate::target::{in_words, input_json, number};
use gemmulate::Unit;
use gemmulate::probe::BlackBox;
use gemmulate::smt::{self, Finding, Question, Solver, Verdict};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

/// Write units for a solver (SMT-LIB 2), tell two of them apart or prove them equal, and ask the
/// questions of Valpey et al.
///
/// `diff` and `ask` run cvc5 or z3 (on Debian: apt install cvc5, or apt install z3).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate smt export volta/mma.m8n8k4.f32.f16.f16.f32
  gemmulate smt diff volta/mma.m8n8k4.f32.f16.f16.f32 valpey/volta
  gemmulate smt ask
  gemmulate smt ask carry-bits --unit ampere/mma.m16n8k8.f32.f16.f16.f32")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print a unit's function from codes to a code, in logic QF_BV
    #[command(after_help = "\
Examples:
  gemmulate smt export volta/mma.m8n8k4.f32.f16.f16.f32 > volta.smt2
  gemmulate smt export --constants --name d custom/m1n1k2.f16.e4m3.e4m3.f16/dot:block=2:F=13 > small.smt2")]
    Export {
        /// The unit, by any of its names
        #[arg(value_parser = Unit::find)]
        unit: Unit,
        /// The function's name, or with --constants the result's
        #[arg(long, default_value = "dot_add")]
        name: String,
        /// Declare the operands as constants and define the result by them, for further assertions; z3 4.8 reads
        /// this at once, but may take a minute and more for an application of the function
        #[arg(long)]
        constants: bool,
    },
    /// Find an input with the fewest terms that tells two units apart, or prove them equal
    ///
    /// Exit status 0 if they are proved equal, 1 if they differ or that stays open.
    #[command(after_help = "\
Examples:
  gemmulate smt diff volta/mma.m8n8k4.f32.f16.f16.f32 valpey/volta
  gemmulate smt diff turing/mma.m8n8k4.f32.f16.f16.f32 \"V100 HMMA.884.F32.F32\" --solver z3 --json")]
    Diff {
        /// The first unit, by any of its names
        #[arg(value_parser = Unit::find)]
        first: Unit,
        /// The second unit
        #[arg(value_parser = Unit::find)]
        second: Unit,
        #[command(flatten)]
        solver: SolverArgs,
        /// Seconds after which all of it is stopped
        #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
        timeout: f64,
        /// Print JSON
        ///
        /// {equal, input, line, first, second, terms, minimal, seconds, solver}; where they are equal, `how`; where
        /// that stays open, `equal` is null and `tried` says what was tried.
        #[arg(long)]
        json: bool,
    },
    /// Put a question of Valpey et al. to a unit; without one, list them
    ///
    /// Exit status 1 if something stays open.
    #[command(after_help = "\
Examples:
  gemmulate smt ask
  gemmulate smt ask carry-bits --unit ampere/mma.m16n8k8.f32.f16.f16.f32
  gemmulate smt ask order --json")]
    Ask {
        /// The question
        question: Option<String>,
        /// The unit it is put to (default: the question's own)
        #[arg(long, value_parser = Unit::find)]
        unit: Option<Unit>,
        #[command(flatten)]
        solver: SolverArgs,
        /// Seconds after which the solver is stopped, for each of its answers
        #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
        timeout: f64,
        /// Print JSON
        ///
        /// {question, solver, units: [{unit, findings: [{sought, seconds, outcome, input, line, results: [{by, d,
        /// value}]}]}]}; `outcome` is `found`, `none, proved` or {open}. Without a question: [{name, text, units}].
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct SolverArgs {
    /// The solver's program: z3 or cvc5 (default: whichever is installed, cvc5 first)
    #[arg(long, value_name = "PROGRAM")]
    solver: Option<String>,
}

impl SolverArgs {
    fn find(&self, timeout: Duration) -> Result<Solver, Failure> {
        Ok(match &self.solver {
            Some(program) => Solver::named(program, timeout)?,
            None => Solver::find(timeout)?,
        })
    }
}

fn limit(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).map_err(|_| Failure::Message("--timeout must be a number of seconds".into()))
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Export { unit, name, constants } => export(unit, name, *constants),
        Command::Diff { first, second, solver, timeout, json } => {
            diff([first, second], solver, limit(*timeout)?, *json)
        }
        Command::Ask { question: None, json, .. } => list(*json),
        Command::Ask { question: Some(name), unit, solver, timeout, json } => {
            let question = Question::named(name)?;
            ask(&question, unit.as_ref(), &solver.find(limit(*timeout)?)?, *json)
        }
    }
}

fn export(unit: &Unit, name: &str, constants: bool) -> Outcome {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) {
        return Err(Failure::Message("--name takes letters, digits, `_`, `.` and `-`".into()));
    }
    let operand =
        |of: &str| name.strip_prefix(of).is_some_and(|k| !k.is_empty() && k.chars().all(|c| c.is_ascii_digit()));
    if name == "c" || ["a", "b", "sa", "sb"].into_iter().any(operand) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(Failure::Message(format!("--name {name}: an operand's name, or no name in SMT-LIB")));
    }
    let function = if constants { smt::export_constants(unit, name)? } else { smt::export(unit, name)? };
    let mut out = io::output();
    writeln!(out, "; {unit}: {}", unit.equation())?;
    writeln!(out, "; {}", unit.recipe.map_or(String::new(), |r| r.to_string()))?;
    write!(out, "(set-logic QF_BV)\n{function}")?;
    out.flush()?;
    Ok(true)
}

fn diff([first, second]: [&Unit; 2], solver: &SolverArgs, timeout: Duration, as_json: bool) -> Outcome {
    let solver = solver.find(timeout)?;
    let start = Instant::now();
    let verdict = smt::diff(first, second, &solver, timeout)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = io::output();
    if as_json {
        let mut value = verdict_json(&verdict);
        value["seconds"] = json!(seconds);
        value["solver"] = json!(solver.version());
        writeln!(out, "{value:#}")?;
    } else {
        match &verdict {
            Verdict::Equal(how) => writeln!(out, "proved equal: {how}")?,
            Verdict::Different { input, first: d1, second: d2, terms, minimal } => {
                let interface = first.interface();
                writeln!(out, "{}\nline: {input}", in_words(input, &interface))?;
                for (unit, d) in [(first, d1), (second, d2)] {
                    writeln!(out, "  {d:x} ({}) by {unit}", number(interface.d.to_f64(*d)))?;
                }
                let fewest = if *minimal { "proved to be the fewest" } else { "perhaps not the fewest" };
                writeln!(out, "{terms} term{}, {fewest}", if *terms == 1 { "" } else { "s" })?;
            }
            Verdict::Open(tried) => {
                writeln!(out, "open: {tried}")?;
                writeln!(out, "`gemmulate diff` on these units asks the library's own rules and search")?;
            }
            _ => {}
        }
        writeln!(out, "{seconds:.2} s, {}", solver.version())?;
    }
    out.flush()?;
    Ok(matches!(verdict, Verdict::Equal(_)))
}

fn verdict_json(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Equal(how) => json!({ "equal": true, "how": how }),
        Verdict::Different { input, first, second, terms, minimal } => json!({
            "equal": false,
            "input": input_json(input),
            "line": input.to_string(),
            "first": format!("{first:x}"),
            "second": format!("{second:x}"),
            "terms": terms,
            "minimal": minimal,
        }),
        Verdict::Open(tried) => json!({ "equal": null, "tried": tried }),
        _ => json!({ "equal": null }),
    }
}

fn list(as_json: bool) -> Outcome {
    let mut out = io::output();
    if as_json {
        let all: Vec<Value> =
            Question::all().map(|q| json!({ "name": q.name, "text": q.text, "units": q.units })).collect();
        writeln!(out, "{:#}", json!(all))?;
    } else {
        for q in Question::all() {
            writeln!(out, "{:16} {}", q.name, q.text)?;
        }
    }
    out.flush()?;
    Ok(true)
}

fn ask(question: &Question, unit: Option<&Unit>, solver: &Solver, as_json: bool) -> Outcome {
    let units = match unit {
        Some(unit) => vec![unit.clone()],
        None => question.units.iter().map(|name| Unit::find(name)).collect::<Result<_, _>>()?,
    };
    let mut out = io::output();
    let mut all = Vec::new();
    let mut closed = true;
    for unit in &units {
        let findings = question.ask(unit, solver)?;
        closed &= findings.iter().all(|f| !matches!(f.outcome, smt::Outcome::Open(_)));
        if as_json {
            let findings: Vec<Value> = findings.iter().map(finding_json).collect();
            all.push(json!({ "unit": unit.to_string(), "findings": findings }));
        } else {
            writeln!(out, "{unit}: {}", question.text)?;
            for finding in &findings {
                print(finding, unit, &mut out)?;
            }
        }
    }
    if as_json {
        let value = json!({ "question": question.name, "solver": solver.version(), "units": all });
        writeln!(out, "{value:#}")?;
    } else {
        writeln!(out, "solver: {}", solver.version())?;
    }
    out.flush()?;
    Ok(closed)
}

fn print(finding: &Finding, unit: &Unit, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "\n- {} ({:.2} s)", finding.sought, finding.time.as_secs_f64())?;
    match &finding.outcome {
        smt::Outcome::Found { input, results } => {
            writeln!(out, "  found: {}\n  line: {input}", in_words(input, &unit.interface()))?;
            for x in results {
                writeln!(out, "    {:12} {:x} ({})", x.by, x.d, number(x.format.to_f64(x.d)))?;
            }
        }
        smt::Outcome::None => writeln!(out, "  proved: there is none")?,
        smt::Outcome::Open(why) => writeln!(out, "  open: {why}")?,
        _ => {}
    }
    Ok(())
}

fn finding_json(finding: &Finding) -> Value {
    let mut value = json!({ "sought": finding.sought, "seconds": finding.time.as_secs_f64() });
    match &finding.outcome {
        smt::Outcome::Found { input, results } => {
            value["outcome"] = json!("found");
            value["input"] = input_json(input);
            value["line"] = json!(input.to_string());
            let results = results
                .iter()
                .map(|x| json!({ "by": x.by, "d": format!("{:x}", x.d), "value": number(x.format.to_f64(x.d)) }));
            value["results"] = results.collect();
        }
        smt::Outcome::None => value["outcome"] = json!("none, proved"),
        smt::Outcome::Open(why) => value["outcome"] = json!({ "open": why }),
        _ => {}
    }
    value
}
