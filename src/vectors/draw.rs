//! What a unit does with one vector, as a person would draw it.

use super::grid::{Bits, Grid, Row};
use super::{Input, Vector};
use crate::error::Error;
use crate::format::{F32, FormatSpec};
use crate::num::{Class, Fixed, LongAccumulator, Num, Term};
use crate::trace::{Event, Trace};
use crate::unit::Unit;
use core::fmt::Write;

/// Draws one dot-add: its operands, then step by step every term under the others with its sign,
/// exponent and significand, what alignment cuts off behind a `|`, the sum, and what rounding
/// makes of it.
///
/// ```
/// use gemmulate::{Unit, vectors::{Vector, draw}};
/// let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?;
/// let mut vector = Vector::default();
/// vector.read_line(&unit, b"3e00,8400,0,0 3e00,0c01,0,0 3f800000")?;
/// println!("{}", draw(&unit, &vector)?);
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When an operand's length is not the unit's.
pub fn draw(unit: &Unit, vector: &Vector) -> Result<String, Error> {
    let x = &vector.input;
    let (d, trace) = x.trace(unit)?;
    let mut text = operands(unit, x);
    steps(unit, &trace, &mut text);
    let _ = write!(text, "d = {d:x} = {}", decimal(&unit.d.decode(d)));
    if let Some(expected) = vector.d {
        let verdict = if expected.accepts(d, unit) { "as expected" } else { "DIFFERS" };
        let _ = write!(text, "; expected {expected}: {verdict}");
    }
    text.push('\n');
    Ok(text)
}

/// The number in decimal, exact if it has few digits.
pub(super) fn decimal(x: &Num) -> String {
    let value = crate::format::F64.to_f64(crate::format::F64.encode_result(x));
    match x.class {
        Class::Nan => "NaN".into(),
        _ if value == 0.0 || value.is_infinite() || (1e-5..1e16).contains(&value.abs()) => format!("{value}"),
        _ => format!("{value:e}"),
    }
}

/// The operands' values, and why special ones matter.
fn operands(unit: &Unit, v: &Input) -> String {
    let mut text = String::new();
    let mut line = |name: &str, format: &FormatSpec, codes: &[u64]| {
        let values: Vec<String> = codes.iter().map(|&code| decimal(&format.decode(code))).collect();
        let _ = writeln!(text, "{name} = {}", values.join("  "));
    };
    line("a", &unit.a, &v.a);
    line("b", &unit.b, &v.b);
    line("c", &unit.c, &[v.c]);
    if let Some(rule) = &unit.scale {
        line("scale_a", &rule.format, &v.scale_a);
        line("scale_b", &rule.format, &v.scale_b);
    }
    text
}

fn steps(unit: &Unit, trace: &Trace, text: &mut String) {
    let mut grid = Grid::default();
    for (n, event) in trace.events.iter().enumerate() {
        match event {
            Event::Step { text: step, .. } => heading(&mut grid, text, &format!("-- {step}")),
            Event::Special(what) => heading(&mut grid, text, &format!("special operands decide: {what}")),
            Event::Note(note) => heading(&mut grid, text, note),
            Event::Align { e_max, unit } => {
                let below = last_bits(&trace.events[n + 1..], *unit);
                heading(&mut grid, text, &format!("e_max = {e_max}: what lies below {below} is cut off at |"));
                grid.align = Some((*e_max, *unit));
            }
            Event::Term { label, term, aligned, unit, cut } => {
                let whole = grid.align.is_none();
                grid.rows.push(term_row(&label.to_string(), term, aligned, *unit, *cut, whole));
            }
            Event::Sum(sum) => grid.rows.push(sum_row(sum)),
            Event::Rounded { how, value } => {
                grid.rows.push(value_row(unit, how, value));
                heading(&mut grid, text, "");
            }
            Event::Operation { text: operation, terms, value } => {
                heading(&mut grid, text, operation);
                operation_rows(unit, terms, value, &mut grid);
                heading(&mut grid, text, "");
            }
        }
    }
    heading(&mut grid, text, "");
}

/// The last bit that alignment keeps, of the terms that follow: for each its own, where these are not all the same.
fn last_bits(events: &[Event], unit: i32) -> String {
    let terms = events.iter().map_while(|event| match event {
        Event::Term { label, unit, .. } => Some((label, *unit)),
        _ => None,
    });
    if terms.clone().all(|(_, of_term)| of_term == unit) {
        return format!("2^{unit}");
    }
    terms.map(|(label, unit)| format!("2^{unit} ({label})")).collect::<Vec<_>>().join(", ")
}

/// Ends the drawing so far and begins another under a line of text.
fn heading(grid: &mut Grid, text: &mut String, line: &str) {
    grid.draw(text);
    *grid = Grid::default();
    if !line.is_empty() {
        let _ = writeln!(text, "{line}");
    }
}

const fn sign(negative: bool) -> &'static str {
    if negative { "-" } else { "+" }
}

/// A term; one that enters `whole` with the exponent of its leading bit, else with that which alignment sees.
fn term_row(label: &str, term: &Term, aligned: &Fixed, unit: i32, cut: bool, whole: bool) -> Row {
    let kept = term.magnitude_in(aligned.exponent).0 >> (unit - aligned.exponent).clamp(0, 127);
    let enters = aligned.magnitude >> (unit - aligned.exponent).clamp(0, 127);
    let remark = match (cut, enters) {
        (false, _) => "",
        (true, 0) => "all cut off",
        (true, _) if enters == kept => "cut",
        (true, _) => "cut, then one up in magnitude",
    };
    let zero = term.is_zero();
    Row {
        mark: sign(term.negative),
        label: label.into(),
        exponent: (!zero).then(|| if whole { term.normalised_exponent() } else { term.exponent }),
        bits: (!zero).then(|| Bits::of_term(term, unit)),
        cut_below: cut.then_some(unit),
        remark: remark.into(),
        ruled: false,
    }
}

fn sum_row(sum: &Fixed) -> Row {
    let zero = sum.magnitude == 0;
    Row {
        mark: sign(sum.negative),
        label: "sum".into(),
        exponent: (!zero).then(|| sum.leading_exponent()),
        bits: (!zero).then(|| Bits::of_sum(sum)),
        cut_below: None,
        remark: if sum.sticky { "and a rest".into() } else { String::new() },
        ruled: true,
    }
}

/// A rounded number, under the exact one, with its code if its format is evident.
fn value_row(unit: &Unit, how: &str, value: &Num) -> Row {
    let finite = value.class == Class::Finite;
    let format = [unit.d, F32].into_iter().find(|f| f.fraction_bits == value.frac_bits);
    let code = format.map_or(String::new(), |f| format!("{:x} = ", f.encode_result(value)));
    Row {
        mark: if value.is_nan() { "=" } else { sign(value.negative) },
        label: "".into(),
        exponent: finite.then_some(value.exponent),
        bits: finite.then(|| Bits::of_num(value)),
        cut_below: None,
        remark: format!("{how}: {code}{}", decimal(value)).trim_start_matches(": ").into(),
        ruled: false,
    }
}

fn operation_rows(unit: &Unit, terms: &[(String, Term)], value: &Num, grid: &mut Grid) {
    let mut sum = LongAccumulator::default();
    for (label, term) in terms {
        let whole = term.fixed();
        sum.add(term);
        grid.rows.push(term_row(label, term, &whole, whole.exponent, false, true));
    }
    let exact = sum.fixed();
    if terms.len() > 1 && exact.magnitude != 0 {
        grid.rows.push(sum_row(&exact));
    }
    grid.rows.push(value_row(unit, "rounded", value));
}
