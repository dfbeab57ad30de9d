//! Do published test vectors conclude what they claim? (Khattak and Mikaitis V-A.)
//!
//! A file of tests, each an input with the conclusion its authors draw from the result, is run on
//! units whose parameters are known; a test whose conclusion is wrong there cannot be trusted on
//! hardware either.

use super::black_box::{BlackBox, Interface};
use crate::accumulate::Recipe;
use crate::error::Error;
use crate::format::{FormatSpec, Overflow};
use crate::round::Rounding;
use crate::unit::Unit;
use core::fmt;
use core::str::FromStr;

/// A published test: an input by value, and what each result is said to mean.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedTest {
    /// What is tested, in its authors' words.
    pub property: String,
    /// Products as pairs of values, in k order; the rest is zero.
    pub products: Vec<(f64, f64)>,
    /// c.
    pub c: f64,
    /// Results, each with what is concluded from it: `1 => out=rz`.
    pub conclusions: Vec<(f64, Conclusion)>,
}

/// What a test's authors conclude from a result: `block>=9`, `out=rz|rd`, `sticky=no`.
///
/// It speaks of a parameter of the text form of units ([`Recipe`]), or of `extra-bits`, the fraction bits that sums
/// keep beyond d's own. Words without `=` are kept, but nothing is known of their truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    text: String,
    claim: Option<(String, Is)>,
}

/// What a parameter is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Is {
    AtLeast(i64),
    AtMost(i64),
    OneOf(Vec<String>),
}

/// The parameter that the text form lacks.
const EXTRA_BITS: &str = "extra-bits";

impl FromStr for Conclusion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let claim = match text.split_once(">=").or_else(|| text.split_once("<=")) {
            Some((name, bound)) => {
                let bound: i64 =
                    bound.trim().parse().map_err(|_| Error::parse("conclusion", text, "a whole number"))?;
                spell(name.trim(), &bound.to_string())?;
                Some((name.trim(), if text.contains(">=") { Is::AtLeast(bound) } else { Is::AtMost(bound) }))
            }
            None => match text.split_once('=') {
                Some((name, values)) => {
                    let values = values.split('|').map(|value| spell(name.trim(), value.trim()));
                    Some((name.trim(), Is::OneOf(values.collect::<Result<_, _>>()?)))
                }
                None => None,
            },
        };
        Ok(Self { text: text.into(), claim: claim.map(|(name, is)| (name.into(), is)) })
    }
}

/// A value as [`truth`] spells it.
fn spell(name: &str, value: &str) -> Result<String, Error> {
    if name != EXTRA_BITS {
        return Recipe::spell(name, value);
    }
    let n: i64 = value.parse().map_err(|_| Error::parse("conclusion", value, "a whole number of bits"))?;
    Ok(n.to_string())
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// What a test's conclusion about a unit is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is true of the unit.
    Right,
    /// It is not; the unit's value of the parameter.
    Wrong(String),
    /// The result is none that the authors foresaw.
    Unforeseen,
    /// Nothing here knows whether it is true, and why.
    NotChecked(String),
    /// The test is not for this unit, and why.
    LeftOut(String),
}

/// What a test concluded about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authentication {
    /// The property.
    pub property: String,
    /// The unit.
    pub unit: String,
    /// The result, unless the test is left out.
    pub d: Option<u64>,
    /// The conclusion drawn from it, if the result is one the authors foresaw.
    pub conclusion: Option<Conclusion>,
    /// What it is worth.
    pub verdict: Verdict,
}

/// Parameters that mean nothing where sums are exact.
const OF_ALIGNMENT: [&str; 7] = ["F", "align", "sticky", "normalise", "e_zero", "zero-products", "subnormal-c"];

/// What is true of a unit, if it has the parameter.
fn truth(unit: &Unit, name: &str) -> Option<String> {
    let recipe = unit.recipe?;
    match (name, recipe) {
        // A block has no more products than there are.
        ("block", Recipe::Generic(x)) => Some(x.block.min(unit.shape.k).to_string()),
        (name, Recipe::Generic(x)) if x.exact && OF_ALIGNMENT.contains(&name) => None,
        (EXTRA_BITS, Recipe::Generic(x)) if !x.exact => {
            Some((i64::from(x.frac_bits) - i64::from(unit.d.fraction_bits)).to_string())
        }
        (EXTRA_BITS, _) => None,
        _ => recipe.parameter(name),
    }
}

fn judge(unit: &Unit, conclusion: &Conclusion) -> Verdict {
    let Some((name, is)) = &conclusion.claim else { return Verdict::NotChecked("it names no parameter".into()) };
    let Some(value) = truth(unit, name) else {
        let exact = matches!(unit.recipe, Some(Recipe::Generic(x)) if x.exact);
        let what = if exact { "the unit's sums are exact, and have" } else { "the unit's recipe has" };
        return Verdict::NotChecked(format!("{what} no {name}"));
    };
    let number = value.parse::<i64>();
    let right = match is {
        Is::AtLeast(bound) => number.is_ok_and(|n| n >= *bound),
        Is::AtMost(bound) => number.is_ok_and(|n| n <= *bound),
        Is::OneOf(values) => values.contains(&value),
    };
    if right { Verdict::Right } else { Verdict::Wrong(format!("{name}={value}")) }
}

/// Reads tests: a line is `property`, `a x b, a x b, ...`, `c`, `d => conclusion; d => conclusion`,
/// columns split by tabs. Values are decimal numbers, powers of two, their products and sums: `1+2^-23`, `-3*2^-4`,
/// `inf`, `nan`. Lines that begin with `#` are comments. See [`Conclusion`] for conclusions.
///
/// # Errors
/// For a line that cannot be read, with its number and what was expected.
pub fn read_tests(text: &str) -> Result<Vec<PublishedTest>, Error> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    let located = |n, why| Error::Data { file: "tests".into(), line: Some(n + 1), column: None, why };
    lines.map(|(n, line)| read_test(line).map_err(|why| located(n, why))).collect()
}

fn read_test(line: &str) -> Result<PublishedTest, String> {
    let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
    let &[property, products, c, conclusions] = columns.as_slice() else {
        let n = columns.len();
        return Err(format!(
            "expected `property`, `a x b, ...`, `c`, `d => conclusion; ...`, split by tabs: 4, not {n}"
        ));
    };
    let product = |text: &str| {
        let (a, b) = text.split_once(" x ").ok_or_else(|| format!("expected a product `a x b`, not `{text}`"))?;
        Ok::<_, String>((value(a)?, value(b)?))
    };
    let conclusion = |text: &str| {
        let (d, what) = text.split_once("=>").ok_or_else(|| format!("expected `d => conclusion`, not `{text}`"))?;
        Ok::<_, String>((value(d)?, what.parse().map_err(|e: Error| e.to_string())?))
    };
    let parts = |text, between| str::split(text, between).map(str::trim).filter(|t| !t.is_empty());
    Ok(PublishedTest {
        property: property.into(),
        products: parts(products, ',').map(product).collect::<Result<_, _>>()?,
        c: value(c)?,
        conclusions: parts(conclusions, ';').map(conclusion).collect::<Result<_, _>>()?,
    })
}

/// `1+2^-23`, `-2^3`, `0.5`, `3*2^-4`, `-inf`, as f64 holds them exactly.
fn value(text: &str) -> Result<f64, String> {
    let text = text.trim().replace(' ', "");
    let mut terms: Vec<String> = Vec::new();
    for (i, ch) in text.char_indices() {
        let starts_term =
            (ch == '+' || ch == '-') && i > 0 && !matches!(text.as_bytes()[i - 1], b'^' | b'*' | b'e' | b'E');
        if terms.is_empty() || starts_term {
            terms.push(String::new());
        }
        terms.last_mut().into_iter().for_each(|term| term.push(ch));
    }
    let bad = || format!("expected a number like `1+2^-23`, `3*2^-4`, `0.5` or `inf`, not `{text}`");
    let terms: Vec<f64> = terms.iter().map(|t| term(t)).collect::<Option<_>>().ok_or_else(bad)?;
    let [first, rest @ ..] = terms.as_slice() else { return Err(bad()) };
    rest.iter().try_fold(*first, |sum, &x| {
        let total = sum + x;
        // Dekker: what the sum lost.
        let lost = (sum - (total - (total - sum))) + (x - (total - sum));
        if total.is_finite() && lost != 0.0 { Err(format!("`{text}` has more bits than f64")) } else { Ok(total) }
    })
}

fn term(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let factor = |t: &str| match t.strip_prefix("2^") {
        Some(e) => e.parse::<i32>().ok().filter(|e| e.abs() < 1000).map(|e| 2f64.powi(e)),
        None => {
            let x: f64 = t.parse().ok()?;
            let digits = t.split(['e', 'E']).next().unwrap_or_default();
            let (number, zero) = (digits.contains(char::is_numeric), !digits.contains(|c| ('1'..='9').contains(&c)));
            // Beyond f64, or below, it is no number of any format.
            ((x.is_finite() || !number) && (x != 0.0 || zero)).then_some(x)
        }
    };
    text.split('*').map(factor).product::<Option<f64>>().map(|x| sign * x)
}

/// The same number, or both NaN; of zeros, whatever their signs.
fn equal(x: f64, y: f64) -> bool {
    x == y || (x.is_nan() && y.is_nan())
}

fn code(format: &FormatSpec, x: f64) -> Result<u64, Verdict> {
    let code = format.encode_f64(x, Rounding::NearestEven, Overflow::Ieee).ok();
    code.filter(|&code| equal(format.to_f64(code), x))
        .ok_or_else(|| Verdict::LeftOut(format!("{x} is no number of {}", format.name)))
}

/// A test's operands on a unit, or why there are none.
fn operands(test: &PublishedTest, interface: &Interface) -> Result<(Vec<u64>, Vec<u64>, u64), Verdict> {
    let (n, k) = (test.products.len(), interface.k);
    if n > k {
        return Err(Verdict::LeftOut(format!("it has {n} products, the unit {k}")));
    }
    if interface.scale.is_some() {
        return Err(Verdict::LeftOut("the unit's operands have scales".into()));
    }
    let (mut a, mut b) = (vec![0; k], vec![0; k]);
    for (k, &(x, y)) in test.products.iter().enumerate() {
        (a[k], b[k]) = (code(&interface.a, x)?, code(&interface.b, y)?);
    }
    Ok((a, b, code(&interface.c, test.c)?))
}

/// Runs tests on units, each test on each unit: a result for every conclusion that the authors draw from what the unit
/// gives.
///
/// # Errors
/// Never for units that can be made: lengths fit.
pub fn authenticate(tests: &[PublishedTest], units: &[Unit]) -> Result<Vec<Authentication>, Error> {
    let mut all = Vec::new();
    for unit in units {
        let (interface, name) = (unit.interface(), unit.to_string());
        for test in tests {
            let mut push = |d, conclusion, verdict| {
                let (property, unit) = (test.property.clone(), name.clone());
                all.push(Authentication { property, unit, d, conclusion, verdict });
            };
            let (a, b, c) = match operands(test, &interface) {
                Ok(operands) => operands,
                Err(left_out) => {
                    push(None, None, left_out);
                    continue;
                }
            };
            let d = unit.dot_add_bits(&a, &b, c)?;
            let result = interface.d.to_f64(d);
            let mut drawn = test.conclusions.iter().filter(|(x, _)| equal(*x, result)).peekable();
            if drawn.peek().is_none() {
                push(Some(d), None, Verdict::Unforeseen);
            }
            drawn.for_each(|(_, conclusion)| push(Some(d), Some(conclusion.clone()), judge(unit, conclusion)));
        }
    }
    Ok(all)
}
