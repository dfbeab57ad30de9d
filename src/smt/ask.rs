//! The questions of Valpey, Li, Pai and Gopalakrishnan (*An SMT Formalization of Mixed-Precision
//! Matrix Multiplication*, 2025), put to a unit.
//!
//! Every finding looks for an input with some property. An input found is evaluated by the library,
//! which must give the solver's bits; that there is none is a proof, under what its sentence says.

mod questions;

use super::number::{Circuit, Number};
use super::query::{Live, Query, Reply, Subject};
use super::solver::Solver;
use super::term::Truth;
use crate::accumulate::{Adder, CPosition, Floor, FusedDotAdd, GenericDot, NarrowSum, Output, Recipe};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::probe::{Input, Interface};
use crate::round::Rounding;
use crate::unit::Unit;
use std::time::{Duration, Instant};

/// A question of the literature.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Its name.
    pub name: &'static str,
    /// What it asks.
    pub text: &'static str,
    /// The units it is put to unless others are named.
    pub units: &'static [&'static str],
    run: fn(&Asked<'_>) -> Result<Vec<Finding>, Error>,
}

/// What came of looking for an input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// There is one: the input, and the results of the units compared, by the library.
    Found {
        /// The input.
        input: Input,
        /// What each of the functions compared gives.
        results: Vec<Evaluation>,
    },
    /// There is none: proved.
    None,
    /// The solver cannot say, and why.
    Open(String),
}

/// A result by the library, which is also the solver's.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// What computes it: `unit`, or something it is compared with.
    pub by: String,
    /// The code.
    pub d: u64,
    /// The code's format.
    pub format: FormatSpec,
}

/// One input looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is looked for.
    pub sought: String,
    /// What came of it.
    pub outcome: Outcome,
    /// How long the solver took.
    pub time: Duration,
}

const VOLTA: &str = "volta/mma.m8n8k4.f32.f16.f16.f32";
const VOLTA_F16: &str = "volta/mma.m8n8k4.f16.f16.f16.f16";
const AMPERE: &str = "ampere/mma.m16n8k8.f32.f16.f16.f32";

/// Every question.
const QUESTIONS: [Question; 10] = [
    Question {
        name: "products",
        text: "are products exact, or rounded to the operands' format (Table 1)?",
        units: &[VOLTA],
        run: questions::products,
    },
    Question {
        name: "f16-sums",
        text: "are sums with f16 results accumulated in f16 (Property 1)?",
        units: &[VOLTA_F16],
        run: questions::f16_sums,
    },
    Question {
        name: "truncation",
        text: "is the sum an IEEE rounding of the exact one, or are its terms cut off (Table 3)?",
        units: &[VOLTA],
        run: questions::truncation,
    },
    Question {
        name: "f16-rounding",
        text: "how are f16 results rounded (Property 2)?",
        units: &[VOLTA_F16],
        run: questions::f16_rounding,
    },
    Question {
        name: "order",
        text: "does the order of the terms matter (Property 3)?",
        units: &[VOLTA],
        run: questions::order,
    },
    Question {
        name: "normalisation",
        text: "are partial sums normalised (Property 4)?",
        units: &[VOLTA],
        run: questions::normalisation,
    },
    Question {
        name: "subnormals",
        text: "are subnormal inputs and outputs kept (section 4.4)?",
        units: &[VOLTA, VOLTA_F16],
        run: questions::subnormals,
    },
    Question {
        name: "carry-bits",
        text: "how many carry bits does the sum need (section 4.3)? Three on Volta; four on Ampere",
        units: &[VOLTA, AMPERE],
        run: questions::carry_bits,
    },
    Question {
        name: "valpey-model",
        text: "does Algorithm 1, which normalises products, compute what this unit does?",
        units: &[VOLTA, AMPERE],
        run: questions::valpey_model,
    },
    Question {
        name: "ootomo-markidis",
        text: "is Ootomo and Yokota's scheme, which adds c outside, ever less accurate than Markidis et al.'s (Table 5)?",
        units: &[VOLTA],
        run: questions::schemes,
    },
];

impl Question {
    /// Every question.
    pub fn all() -> impl Iterator<Item = Self> {
        QUESTIONS.into_iter()
    }

    /// The question of a name.
    ///
    /// # Errors
    /// When there is none, with the names there are.
    pub fn named(name: &str) -> Result<Self, Error> {
        let names = || Self::all().map(|q| q.name).collect::<Vec<_>>().join(", ");
        Self::all().find(|q| q.name == name).ok_or_else(|| Error::parse("question", name, names()))
    }

    /// Puts the question to a unit.
    ///
    /// # Errors
    /// When the unit is no single fused dot-add, or the solver fails.
    pub fn ask(&self, unit: &Unit, solver: &Solver) -> Result<Vec<Finding>, Error> {
        let subject = Subject::of(unit)?;
        match subject.model.recipe {
            Recipe::Generic(dot) if dot.block >= unit.shape.k && dot.c == CPosition::With && unit.scale.is_none() => {
                (self.run)(&Asked { solver, subject, dot })
            }
            _ => Err(Error::Solver(format!(
                "`{}` cannot be asked of {unit}, which is no single fused dot-add",
                self.name
            ))),
        }
    }
}

/// A unit that is asked something.
struct Asked<'a> {
    solver: &'a Solver,
    subject: Subject,
    dot: GenericDot,
}

impl Asked<'_> {
    fn k(&self) -> usize {
        self.subject.model.interface.k
    }

    /// The exact sum, rounded once.
    fn exact(&self, rounding: Rounding) -> Result<Subject, Error> {
        let exact = GenericDot { exact: true, floor: Floor::None, output_rounding: rounding, ..self.dot };
        self.subject.with(exact)
    }

    /// The exact sum, rounded once to the operands' format.
    fn exact_narrow(&self, rounding: Rounding) -> Result<Subject, Error> {
        let exact = GenericDot { exact: true, floor: Floor::None, output_rounding: rounding, ..self.dot };
        let i = self.subject.model.interface;
        Subject::of(&Interface { c: i.a, d: i.a, ..i }.unit(exact.into())?)
    }

    /// Looks for an input of these live terms, finite ones only, with some property.
    fn look(
        &self,
        sought: impl Into<String>,
        live: &Live,
        subjects: &[(&str, &Subject)],
        ask: impl FnOnce(&mut Query) -> Result<(), Error>,
    ) -> Result<Finding, Error> {
        let mut query = Query::new(self.subject.model.interface, live);
        for (name, subject) in subjects {
            query.define(name, subject)?;
        }
        self.all_operands(&mut query, live, |_, x| x.finite());
        ask(&mut query)?;
        self.finding(sought.into(), &query, subjects)
    }

    /// The same unit with another adder.
    fn narrow(&self, adder: Adder) -> Result<Subject, Error> {
        let d = &self.dot;
        let output = Output { wide: d.output_rounding, narrow: d.output_rounding, frac_bits: d.output_bits };
        let base = FusedDotAdd {
            frac_bits: d.frac_bits,
            floor: d.floor,
            zero_products: d.zero_products,
            subnormal_c: d.subnormal_c,
            output,
            nan: d.nan,
        };
        let sum = NarrowSum { base, normalise_products: d.normalise_products, adder };
        Subject::narrow(self.subject.model.interface, sum)
    }

    fn finding(&self, sought: String, query: &Query, subjects: &[(&str, &Subject)]) -> Result<Finding, Error> {
        let start = Instant::now();
        let outcome = match query.ask(self.solver, subjects)? {
            Reply::Found(input, d) => {
                let result = |((name, s), d): (&(&str, &Subject), u64)| Evaluation {
                    by: (*name).into(),
                    d,
                    format: s.model.interface.d,
                };
                Outcome::Found { input, results: subjects.iter().zip(d).map(result).collect() }
            }
            Reply::None => Outcome::None,
            Reply::Unknown(why) => Outcome::Open(why),
        };
        Ok(Finding { sought, outcome, time: start.elapsed() })
    }

    /// Asserts something of every live operand.
    fn all_operands(&self, query: &mut Query, live: &Live, holds: impl Fn(&Circuit, &Number) -> Truth) {
        let i = self.subject.model.interface;
        let ks = (0..i.k).filter(|&k| live.products[k]);
        let products = ks.flat_map(|k| [(format!("a{k}"), i.a), (format!("b{k}"), i.b)]);
        for (name, f) in products.chain(live.c.then(|| ("c".into(), i.c))) {
            query.assert_of(&name, &f, &holds);
        }
    }
}
