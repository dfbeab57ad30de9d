//! Zeros' signs, infinities and NaN.

use super::super::bench::one;
use super::super::black_box::Input;
use super::{Feature, Lab, Observation, Value, cannot};
use crate::error::Error;
use crate::special::NanRule;

/// Runs the tests of this file.
pub(super) fn features(lab: &mut Lab<'_>, all: &mut Vec<Feature>) -> Result<(), Error> {
    let (value, evidence) = negative_zero(lab)?;
    all.push(Feature { name: "negative_zero", value, evidence });
    let (rules, nan_bits, evidence) = special_values(lab)?;
    all.push(Feature { name: "special_values", value: rules, evidence: evidence.clone() });
    all.push(Feature { name: "nan_bits", value: nan_bits, evidence });
    Ok(())
}

fn sign_bit(f: &crate::format::FormatSpec) -> u64 {
    1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits)
}

/// -0 + (+0)(-0) everywhere (MMA-Sim III-F); a negative product below the smallest result, and a c that a product takes
/// below the smallest normal one: at every k, for what follows in a chain may forget the sign.
fn negative_zero(lab: &mut Lab<'_>) -> Result<(Value, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let mut zeros = lab.bench.zeros();
    zeros.c = if i.c.has_negative_zero() { sign_bit(&i.c) } else { 0 };
    if i.a.has_negative_zero() {
        zeros.a.fill(sign_bit(&i.a));
    }
    let lone_c = Input { c: zeros.c, ..lab.bench.zeros() };
    let emin = i.d.emin();
    let quantum = emin - i.d.fraction_bits as i32;
    let mut questions =
        vec![(Some(zeros), "-0 + sum of (-0)(+0)".into()), (Some(lone_c), "-0 + sum of (+0)(+0)".into())];
    for k in 0..i.k {
        let below = [(k, true, 1, quantum - 3)];
        questions.push((lab.bench.terms(&below), format!("a negative product below the smallest result, at k = {k}")));
        let left = [(i.k, true, 3, emin - 1), (k, false, 1, emin)];
        questions.push((lab.bench.terms(&left), format!("-1.5 + 1 times the smallest normal result, at k = {k}")));
    }
    let seen = lab.ask(questions)?;
    let zero = |o: &Observation| i.d.decode(o.d).is_zero();
    let negative = |o: &Observation| i.d.decode(o.d).negative && zero(o);
    let from_zeros = negative(&seen[0]);
    // Results that are no zeros tell nothing of its sign.
    let underflows = || seen[2..].iter().filter(|o| zero(o));
    let from_underflow = underflows().next().map(|_| underflows().any(negative));
    let value: Value = match (from_zeros, from_underflow) {
        (true, Some(true) | None) => "as in IEEE 754".into(),
        (true, Some(false)) => "from zeros, not from underflow".into(),
        (false, Some(true)) => "from underflow, not from zeros".into(),
        (false, Some(false) | None) => "never".into(),
    };
    let telling = underflows().find(|o| negative(o)).or_else(|| underflows().next()).cloned();
    let evidence = seen[..2].iter().cloned().chain(telling).collect();
    Ok((value, evidence))
}

/// NaN operands, 0 x Inf, Inf - Inf (between products, and with c), and lone infinities.
fn special_values(lab: &mut Lab<'_>) -> Result<(Value, Value, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let product = |a: Option<u64>, b: u64, c: Option<u64>| {
        let mut input = lab.bench.zeros();
        (input.a[0], input.b[0], input.c) = (a?, b, c?);
        Some(input)
    };
    let (nan_a, nan_c) = (i.a.nan_code(NanRule::Quiet), i.c.nan_code(NanRule::Quiet));
    let (inf_a, minus_c, inf_c) = (i.a.infinity_code(false), i.c.infinity_code(true), i.c.infinity_code(false));
    let unit = one(&i.b);
    let questions = vec![
        (product(nan_a, unit, Some(0)), "NaN x 1: NaN"),
        (product(Some(0), 0, nan_c), "c = NaN: NaN"),
        (product(inf_a, 0, Some(0)), "Inf x 0: NaN"),
        (product(inf_a, unit, minus_c), "Inf x 1 - Inf: NaN"),
        (product(inf_a, unit, Some(0)), "Inf x 1: Inf"),
        (product(Some(one(&i.a)), unit, inf_c), "1 x 1 + Inf: Inf"),
    ];
    let questions = questions.into_iter().map(|(x, why)| (x, why.to_owned())).collect();
    let seen = lab.ask(questions)?;
    let mut rules = Vec::new();
    let mut nans = Vec::new();
    for o in &seen {
        let x = i.d.decode(o.d);
        let got = if x.is_nan() {
            "NaN"
        } else if x.is_infinite() {
            "Inf"
        } else {
            "a number"
        };
        let (case, ieee) = o.shows.split_once(": ").unwrap_or((&o.shows, ""));
        if got != ieee {
            rules.push(format!("{case} gives {got}"));
        }
        if x.is_nan() {
            nans.push(o.d);
        }
    }
    nans.sort_unstable();
    nans.dedup();
    let value = match (seen.is_empty(), rules.is_empty()) {
        (true, _) => cannot("the formats have no special values"),
        (false, true) => "as in IEEE 754".into(),
        (false, false) => rules.join("; ").into(),
    };
    let bits: Vec<String> = nans.iter().map(|x| format!("{x:#x}")).collect();
    let bits = if bits.is_empty() { cannot("no NaN was seen") } else { bits.join(", ").into() };
    Ok((value, bits, seen))
}
