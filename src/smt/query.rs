//! A question in SMT-LIB 2 about some units, and the input that answers it.

use super::encode::{Inner, Model};
use super::number::{Circuit, Number};
use super::solver::{Answer, Solver};
use super::term::{Bits, Truth, sort};
use crate::accumulate::{Accumulator, NarrowSum, Recipe};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::instr::Shape;
use crate::probe::{BlackBox, Input, Interface};
use crate::unit::Unit;
use std::collections::HashMap;
use std::fmt::Write;

/// A unit twice: as the library computes it, and as a circuit.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) unit: Unit,
    pub(super) model: Model,
}

impl Subject {
    pub(super) fn of(unit: &Unit) -> Result<Self, Error> {
        let recipe = unit.recipe.ok_or_else(|| Error::Solver(format!("{unit} has no recipe to encode")))?;
        let model = Model { recipe, adder: Default::default(), interface: unit.interface() };
        Ok(Self { unit: unit.clone(), model })
    }

    /// A unit of the same interface with another recipe.
    pub(super) fn with(&self, recipe: impl Into<Recipe>) -> Result<Self, Error> {
        Self::of(&self.model.interface.unit(recipe.into())?)
    }

    /// An adder of limited width.
    pub(super) fn narrow(interface: Interface, sum: NarrowSum) -> Result<Self, Error> {
        let Interface { k, a, b, c, d, scale } = interface;
        let recipe = sum.base.recipe(k, &d);
        let Some(Recipe::Generic(mut dot)) = recipe else {
            return Err(Error::Solver("a fused dot-add without a recipe".into()));
        };
        dot.normalise_products = sum.normalise_products;
        let unit = Unit::custom(sum, Shape { m: 1, n: 1, k }, [a, b, c, d], scale)?;
        Ok(Self { unit, model: Model { recipe: Recipe::Generic(dot), adder: sum.adder, interface } })
    }

    /// What the library computes.
    pub(super) fn evaluate(&self, x: &Input) -> Result<u64, Error> {
        x.eval(&self.unit)
    }
}

/// Which terms of an input may be other than +0 x +0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) products: Vec<bool>,
    pub(super) c: bool,
}

impl Live {
    pub(super) fn all(k: usize) -> Self {
        Self { products: vec![true; k], c: true }
    }

    /// The first `products` products, and c or not.
    pub(super) fn first(products: usize, c: bool, k: usize) -> Self {
        Self { products: (0..k).map(|i| i < products).collect(), c }
    }
}

/// A script under construction.
#[derive(Clone, Debug)]
pub(super) struct Query {
    interface: Interface,
    script: String,
    /// The names of operands that are not fixed.
    free: Vec<String>,
}

impl Query {
    /// A question about inputs whose other terms are +0.
    pub(super) fn new(interface: Interface, live: &Live) -> Self {
        let mut query = Self { interface, script: String::new(), free: Vec::new() };
        for (name, width) in parameters(&interface) {
            let alive = match name.strip_prefix(['a', 'b']).and_then(|k| k.parse::<usize>().ok()) {
                Some(k) => live.products.get(k).copied().unwrap_or(false),
                None => name != "c" || live.c,
            };
            if alive {
                let _ = writeln!(query.script, "(declare-const {name} {})", sort(width));
                query.free.push(name);
            }
        }
        query
    }

    /// Defines `name` as a subject's function and `name.d` as its result.
    pub(super) fn define(&mut self, name: &str, subject: &Subject) -> Result<(), Error> {
        self.define_inner(name, subject, Inner::Result, &[]).map(|_| ())
    }

    /// Defines `name.d` as something inside a subject, with pairs of products exchanged; its width.
    pub(super) fn define_inner(
        &mut self,
        name: &str,
        subject: &Subject,
        inner: Inner,
        exchanged: &[(usize, usize)],
    ) -> Result<u32, Error> {
        let (body, width) = subject.model.expression(inner)?;
        let rebound = parameters(&subject.model.interface).into_iter().filter_map(|(operand, width)| {
            let other = exchange(&operand, exchanged);
            let value = if self.free.contains(&other) { other } else { Bits::constant(0, width).to_string() };
            (value != operand).then_some((operand, value))
        });
        let body = with_operands(rebound, &body);
        let _ = writeln!(self.script, "(define-fun {name}.d () {}\n{body})", sort(width));
        Ok(width)
    }

    /// Defines `name.d` as a subject's result without one of the products.
    pub(super) fn define_alone(&mut self, name: &str, subject: &Subject, without: usize) -> Result<(), Error> {
        let mut one = self.clone();
        one.free.retain(|operand| *operand != format!("a{without}") && *operand != format!("b{without}"));
        one.script.clear();
        one.define(name, subject)?;
        self.script += &one.script;
        Ok(())
    }

    /// Asserts a condition in SMT-LIB 2.
    pub(super) fn assert(&mut self, condition: &str) {
        let _ = writeln!(self.script, "(assert {condition})");
    }

    /// Asserts something of an operand's number.
    pub(super) fn assert_of(&mut self, operand: &str, f: &FormatSpec, holds: impl FnOnce(&Circuit, &Number) -> Truth) {
        let mut circuit = Circuit { exponent_bits: 12, ..Circuit::default() };
        let number = circuit.decode(operand, &Bits::variable(operand, f.storage_bits), f);
        let condition = holds(&circuit, &number);
        let condition = circuit.lets.around(&condition.to_string());
        self.assert(&condition);
    }

    /// Asks; an input that answers it, if there is one. The results of `subjects` as the solver sees
    /// them must be the library's.
    pub(super) fn ask(&self, solver: &Solver, subjects: &[(&str, &Subject)]) -> Result<Reply, Error> {
        let results = subjects.iter().map(|(name, _)| format!("{name}.d"));
        let names: Vec<String> = self.free.iter().cloned().chain(results).collect();
        let values = match solver.ask(&self.script, &names)? {
            Answer::Unsat => return Ok(Reply::None),
            Answer::Unknown(why) => return Ok(Reply::Unknown(why)),
            Answer::Sat(values) => values,
        };
        let input = self.input(&values);
        let mut found = Vec::new();
        for (name, subject) in subjects {
            let d = subject.evaluate(&input)?;
            if values.get(&format!("{name}.d")) != Some(&d) {
                let theirs = values.get(&format!("{name}.d")).copied().unwrap_or_default();
                let unit = &subject.unit;
                return Err(Error::Solver(format!("on {input} {unit} gives {d:x}, but its encoding {theirs:x}")));
            }
            found.push(d);
        }
        Ok(Reply::Found(input, found))
    }

    fn input(&self, values: &HashMap<String, u64>) -> Input {
        let i = &self.interface;
        let many = |name: &str, count: usize| -> Vec<u64> {
            (0..count).map(|n| values.get(&format!("{name}{n}")).copied().unwrap_or(0)).collect()
        };
        let scales = i.scales();
        let c = values.get("c").copied().unwrap_or(0);
        Input { a: many("a", i.k), b: many("b", i.k), c, scale_a: many("sa", scales), scale_b: many("sb", scales) }
    }
}

/// An expression with other values for some operands. Functions with parameters would be shorter,
/// but z3 4.8 takes forever to read long ones.
fn with_operands(values: impl Iterator<Item = (String, String)>, body: &str) -> String {
    let values: Vec<String> = values.map(|(operand, value)| format!("({operand} {value})")).collect();
    if values.is_empty() { body.to_owned() } else { format!("(let ({})\n{body})", values.join(" ")) }
}

/// An operand's name after pairs of products have changed places.
fn exchange(operand: &str, pairs: &[(usize, usize)]) -> String {
    let Some(k) = operand.strip_prefix(['a', 'b']).and_then(|k| k.parse::<usize>().ok()) else { return operand.into() };
    let other = pairs.iter().find_map(|&(x, y)| if k == x { Some(y) } else { (k == y).then_some(x) });
    other.map_or_else(|| operand.into(), |k| format!("{}{k}", &operand[..1]))
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// An input, and each subject's result on it.
    Found(Input, Vec<u64>),
    /// There is none: proved.
    None,
    /// The solver cannot say, and why.
    Unknown(String),
}

/// Names and widths of an interface's operands: a, b, c, then the scales.
pub(super) fn parameters(i: &Interface) -> Vec<(String, u32)> {
    let many = |name: &str, count: usize, f: &FormatSpec| -> Vec<(String, u32)> {
        (0..count).map(|n| (format!("{name}{n}"), f.storage_bits)).collect()
    };
    let mut all = [many("a", i.k, &i.a), many("b", i.k, &i.b), vec![("c".into(), i.c.storage_bits)]].concat();
    if let Some(rule) = i.scale {
        all.extend(many("sa", i.scales(), &rule.format));
        all.extend(many("sb", i.scales(), &rule.format));
    }
    all
}

/// What the solver computes for each of some known inputs.
pub(super) fn evaluate(subject: &Subject, inputs: &[Input], solver: &Solver) -> Result<Vec<u64>, Error> {
    let (body, width) = subject.model.expression(Inner::Result)?;
    let parameters = parameters(&subject.model.interface);
    let names: Vec<String> = (0..inputs.len()).map(|n| format!("d{n}")).collect();
    let mut script = String::new();
    for (name, x) in names.iter().zip(inputs) {
        let codes = x.a.iter().chain(&x.b).chain([&x.c]).chain(&x.scale_a).chain(&x.scale_b);
        let constant = |((name, width), code): (&(String, u32), &u64)| {
            (name.clone(), Bits::constant((*code).into(), *width).to_string())
        };
        let value = with_operands(parameters.iter().zip(codes).map(constant), &body);
        let _ = writeln!(script, "(declare-const {name} {})\n(assert (= {name} {value}))", sort(width));
    }
    match solver.ask(&script, &names)? {
        Answer::Sat(values) => Ok(names.iter().map(|n| values.get(n).copied().unwrap_or_default()).collect()),
        Answer::Unsat => Err(Error::Solver("a function without a value".into())),
        Answer::Unknown(why) => Err(Error::Solver(why)),
    }
}
