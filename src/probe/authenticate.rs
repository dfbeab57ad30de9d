//! Do published test vectors conclude what they claim? (Khattak and Mikaitis V-A.)
//!
//! A file of tests, each an input with the conclusion its authors draw from the result, is run on
//! units whose properties are known; a test whose conclusion is wrong there cannot be trusted on
//! hardware either.

use super::bench::exact;
use super::black_box::{BlackBox, Interface};
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::num::Fixed;
use crate::unit::Unit;

/// A published test: an input by value, and what each result is said to mean.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedTest {
    /// The property under test: tests of one property are read together, in order.
    pub property: String,
    /// Products as pairs of values, in k order; the rest is zero.
    pub products: Vec<(f64, f64)>,
    /// c.
    pub c: f64,
    /// Results and conclusions: `1 => RZ`.
    pub conclusions: Vec<(f64, String)>,
}

/// What a test concluded about a unit, and what is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// The property.
    pub property: String,
    /// The unit.
    pub unit: String,
    /// The result.
    pub d: u64,
    /// The conclusion drawn from it, if the result is one the authors foresaw.
    pub conclusion: Option<String>,
    /// Whether the conclusion is true of the unit, if it speaks of a known property.
    pub holds: Option<bool>,
}

/// What is true of a unit: the properties a conclusion can speak of.
fn truth(unit: &Unit, property: &str) -> Option<String> {
    let Some(Recipe::Generic(x)) = unit.recipe else { return None };
    let text = match property {
        "block" => x.block.min(unit.shape.k).to_string(),
        "extra-bits" => (i64::from(x.frac_bits) - i64::from(unit.d.fraction_bits)).to_string(),
        "F" => x.frac_bits.to_string(),
        "out" => x.output_rounding.to_string(),
        "align" => x.alignment.to_string(),
        "sticky" => x.sticky.to_string(),
        "normalise" => x.normalise_products.to_string(),
        "flush-in" => x.flush_inputs.to_string(),
        "flush-out" => x.flush_results.to_string(),
        _ => return None,
    };
    Some(text)
}

/// Whether `block>=9`, `out=rz|rd` or the like is true of a unit.
fn holds(unit: &Unit, conclusion: &str) -> Option<bool> {
    for (sign, compare) in [(">=", i64::ge as fn(&i64, &i64) -> bool), ("<=", i64::le)] {
        if let Some((property, bound)) = conclusion.split_once(sign) {
            let value: i64 = truth(unit, property.trim())?.parse().ok()?;
            return Some(compare(&value, &bound.trim().parse().ok()?));
        }
    }
    let (property, values) = conclusion.split_once('=')?;
    let value = truth(unit, property.trim())?;
    Some(values.split('|').any(|v| v.trim() == value))
}

/// Reads tests: a line is `property`, `a x b, a x b, ...`, `c`, `d => conclusion; d => conclusion`,
/// columns split by tabs. Values are decimal numbers, sums and powers of two: `1+2^-23`.
/// Lines that begin with `#` are comments. Conclusions are like `out=rz|rd`, `block>=9`,
/// `extra-bits=0`, of the properties block, extra-bits, F, out, align, sticky, normalise, flush-in
/// and flush-out; others are shown but not checked.
///
/// # Errors
/// For a line that cannot be read, with its number and what was expected.
pub fn read_tests(text: &str) -> Result<Vec<PublishedTest>, Error> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|(n, line)| {
            read_test(line).ok_or_else(|| Error::Data {
                file: "tests".into(),
                line: Some(n + 1),
                column: None,
                why: "expected `property`, `a x b, ...`, `c`, `d => conclusion; ...`, split by tabs".into(),
            })
        })
        .collect()
}

fn read_test(line: &str) -> Option<PublishedTest> {
    let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
    let &[property, products, c, conclusions] = columns.as_slice() else { return None };
    let product = |text: &str| {
        let (a, b) = text.split_once(" x ")?;
        Some((value(a)?, value(b)?))
    };
    let products = products.split(',').map(str::trim).filter(|t| !t.is_empty());
    let conclusion = |text: &str| {
        let (d, what) = text.split_once("=>")?;
        Some((value(d)?, what.trim().to_owned()))
    };
    Some(PublishedTest {
        property: property.into(),
        products: products.map(product).collect::<Option<_>>()?,
        c: value(c)?,
        conclusions: conclusions.split(';').filter(|t| !t.trim().is_empty()).map(conclusion).collect::<Option<_>>()?,
    })
}

/// `1+2^-23`, `-2^3`, `0.5`, `3*2^-4`.
fn value(text: &str) -> Option<f64> {
    let text = text.trim().replace(' ', "");
    let mut terms: Vec<String> = Vec::new();
    for (i, ch) in text.char_indices() {
        let starts_term = (ch == '+' || ch == '-') && i > 0 && !matches!(text.as_bytes()[i - 1], b'^' | b'*' | b'e');
        if terms.is_empty() || starts_term {
            terms.push(String::new());
        }
        terms.last_mut()?.push(ch);
    }
    terms.iter().map(|t| term(t)).sum()
}

fn term(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let factor = |t: &str| match t.strip_prefix("2^") {
        Some(e) => e.parse::<i32>().ok().filter(|e| e.abs() < 1000).map(|e| 2f64.powi(e)),
        None => t.parse().ok(),
    };
    text.split('*').map(factor).product::<Option<f64>>().map(|x| sign * x)
}

fn code(format: &crate::format::FormatSpec, x: f64) -> Option<u64> {
    let x: Fixed = crate::format::F64.decode(x.to_bits()).fixed();
    exact(format, x.negative, x.magnitude, x.exponent)
}

/// Runs tests on units; tests whose operands the unit's formats cannot hold, or that need more
/// products than it has, are left out.
///
/// # Errors
/// Never for units that can be made: lengths fit.
pub fn authenticate(tests: &[PublishedTest], units: &[Unit]) -> Result<Vec<Authentication>, Error> {
    let mut all = Vec::new();
    for unit in units {
        let interface: Interface = unit.interface();
        for test in tests.iter().filter(|t| t.products.len() <= interface.k) {
            let mut a = vec![0; interface.k];
            let mut b = vec![0; interface.k];
            let mut held = true;
            for (k, &(x, y)) in test.products.iter().enumerate() {
                match (code(&interface.a, x), code(&interface.b, y)) {
                    (Some(x), Some(y)) => (a[k], b[k]) = (x, y),
                    _ => held = false,
                }
            }
            let Some(c) = code(&interface.c, test.c).filter(|_| held && interface.scale.is_none()) else { continue };
            let d = unit.dot_add_bits(&a, &b, c)?;
            let result = interface.d.to_f64(d);
            let conclusion = test.conclusions.iter().find(|(x, _)| *x == result);
            let conclusion = conclusion.map(|(_, what)| what.clone());
            all.push(Authentication {
                holds: conclusion.as_ref().and_then(|c| holds(unit, c)),
                property: test.property.clone(),
                unit: unit.to_string(),
                d,
                conclusion,
            });
        }
    }
    Ok(all)
}
