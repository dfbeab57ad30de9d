//! Zeros' signs, infinities and NaN.

use super::super::bench::{exact, one};
use super::super::black_box::Input;
use super::{Feature, Finding, Lab, Observation, cannot};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::special::NanRule;
use std::collections::BTreeSet;

/// Runs the tests of this file.
pub(super) fn features(lab: &mut Lab<'_>, all: &mut Vec<Feature>) -> Result<(), Error> {
    let (value, evidence) = negative_zero(lab)?;
    all.push(Feature { name: "negative_zero", value, evidence });
    let (rules, nan_bits, evidence) = special_values(lab)?;
    all.push(Feature { name: "special_values", value: rules, evidence: evidence.clone() });
    all.push(Feature { name: "nan_bits", value: nan_bits, evidence });
    Ok(())
}

fn sign_bit(f: &FormatSpec) -> u64 {
    1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits)
}

/// -0 + (+0)(-0) everywhere (MMA-Sim III-F); a negative product below the smallest result, and a c that a product takes
/// below the smallest normal one: at every k and among zeros of both signs, for what follows in a chain may forget the
/// sign.
fn negative_zero(lab: &mut Lab<'_>) -> Result<(Finding, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let mut zeros = lab.bench.zeros();
    zeros.c = if i.c.has_negative_zero() { sign_bit(&i.c) } else { 0 };
    if i.a.has_negative_zero() {
        zeros.a.fill(sign_bit(&i.a));
    }
    let lone_c = Input { c: zeros.c, ..lab.bench.zeros() };
    // c and the other products, of -0 and +0, are zeros of both signs.
    let products = Input { c: 0, ..zeros.clone() };
    let among = [(&lone_c, "c = -0"), (&products, "other products -0"), (&zeros, "c and other products -0")];
    let emin = i.d.emin();
    let quantum = emin - i.d.fraction_bits as i32;
    let mut questions = vec![
        (Some(zeros.clone()), "-0 + sum of (-0)(+0)".into()),
        (Some(lone_c.clone()), "-0 + sum of (+0)(+0)".into()),
    ];
    for k in 0..i.k {
        let below = [(k, true, 1, quantum - 3)];
        let lone = lab.bench.terms(&below);
        let what = format!("a negative product below the smallest result, at k = {k}");
        if let Some(lone) = &lone {
            for (zeros, which) in among {
                let mut input = zeros.clone();
                (input.a[k], input.b[k]) = (lone.a[k], lone.b[k]);
                input.scale_a.clone_from(&lone.scale_a);
                input.scale_b.clone_from(&lone.scale_b);
                questions.push((Some(input), format!("{what}, {which}")));
            }
        }
        questions.push((lone, what));
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
    let value: Finding = match (from_zeros, from_underflow) {
        (true, Some(true) | None) => "as in IEEE 754".into(),
        (true, Some(false)) => "from zeros, not from underflow".into(),
        (false, Some(true)) => "from underflow, not from zeros".into(),
        (false, Some(false) | None) => "never".into(),
    };
    let telling = underflows().find(|o| negative(o)).or_else(|| underflows().next()).cloned();
    let evidence = seen[..2].iter().cloned().chain(telling).collect();
    Ok((value, evidence))
}

/// A question about infinities and NaN, asked at several places: what it is, what IEEE 754 answers, the inputs.
struct Case {
    name: &'static str,
    ieee: &'static str,
    at: Vec<(usize, Input)>,
}

/// NaN, infinite and zero operands of both sides and signs at every k; infinities of both signs that meet, as products
/// and as c; NaN scales.
fn cases(lab: &Lab<'_>) -> Vec<Case> {
    let i = lab.bench.interface;
    let nan = |f: &FormatSpec| f.nan_code(NanRule::Quiet);
    let inf = |f: &FormatSpec| f.infinity_code(false);
    let minus = |f: &FormatSpec| f.infinity_code(true);
    let number = |f: &FormatSpec| Some(one(f));
    let zero = |_: &FormatSpec| Some(0);
    type Operand<'a> = &'a dyn Fn(&FormatSpec) -> Option<u64>;
    // Read as zero by some, as any other number by IEEE 754.
    let tiny = |f: &FormatSpec| exact(f, false, 1, f.emin() - 1).filter(|_| f.subnormals);
    let products: [(&'static str, &'static str, [Operand<'_>; 2]); 14] = [
        ("NaN x 1", "NaN", [&nan, &number]),
        ("1 x NaN", "NaN", [&number, &nan]),
        ("NaN x 0", "NaN", [&nan, &zero]),
        ("0 x NaN", "NaN", [&zero, &nan]),
        ("NaN x Inf", "NaN", [&nan, &inf]),
        ("Inf x 0", "NaN", [&inf, &zero]),
        ("0 x Inf", "NaN", [&zero, &inf]),
        ("Inf x 1", "Inf", [&inf, &number]),
        ("1 x Inf", "Inf", [&number, &inf]),
        ("-Inf x 1", "-Inf", [&minus, &number]),
        ("1 x -Inf", "-Inf", [&number, &minus]),
        ("-Inf x -Inf", "Inf", [&minus, &minus]),
        ("subnormal x Inf", "Inf", [&tiny, &inf]),
        ("Inf x subnormal", "Inf", [&inf, &tiny]),
    ];
    let empty = lab.bench.zeros();
    let with_c = |c: Option<u64>, input: Input| Some(Input { c: c?, ..input });
    let product = |k: usize, [a, b]: [Option<u64>; 2], mut input: Input| {
        (input.a[k], input.b[k]) = (a?, b?);
        Some(input)
    };
    let everywhere = |of: &dyn Fn(usize) -> Option<Input>| (0..i.k).filter_map(|k| Some((k, of(k)?))).collect();
    let mut all: Vec<Case> = products
        .into_iter()
        .map(|(name, ieee, [a, b])| {
            let at = everywhere(&|k| product(k, [a(&i.a), b(&i.b)], empty.clone()));
            Case { name, ieee, at }
        })
        .collect();
    let infinite = [inf(&i.a), number(&i.b)];
    let met = |name, ieee, of: &dyn Fn(usize) -> Option<Input>| Case { name, ieee, at: everywhere(of) };
    all.push(met("Inf x 1 - Inf", "NaN", &|k| product(k, infinite, with_c(minus(&i.c), empty.clone())?)));
    all.push(met("Inf x 1 + Inf", "Inf", &|k| product(k, infinite, with_c(inf(&i.c), empty.clone())?)));
    all.push(met("1 x 1 + Inf", "Inf", &|k| {
        product(k, [number(&i.a), number(&i.b)], with_c(inf(&i.c), empty.clone())?)
    }));
    all.push(met("Inf x 1 + -Inf x 1", "NaN", &|k| {
        let first = product(0, infinite, empty.clone()).filter(|_| k > 0)?;
        product(k, [minus(&i.a), number(&i.b)], first)
    }));
    for (name, ieee, c) in
        [("c = NaN", "NaN", nan(&i.c)), ("c = Inf", "Inf", inf(&i.c)), ("c = -Inf", "-Inf", minus(&i.c))]
    {
        let at = with_c(c, empty.clone()).map(|input| (i.k, input)).into_iter().collect();
        all.push(Case { name, ieee, at });
    }
    if let Some(rule) = i.scale {
        let scaled = |of_a: bool, k: usize| {
            let mut input = product(k, [number(&i.a), number(&i.b)], empty.clone())?;
            let scales = if of_a { &mut input.scale_a } else { &mut input.scale_b };
            *scales.get_mut(k / rule.block.max(1))? = nan(&rule.format)?;
            Some(input)
        };
        all.push(met("1 x 1 with a NaN scale of a", "NaN", &|k| scaled(true, k)));
        all.push(met("1 x 1 with a NaN scale of b", "NaN", &|k| scaled(false, k)));
    }
    all.retain(|case| !case.at.is_empty());
    all
}

/// What infinities and NaN give, and the bits of NaNs.
fn special_values(lab: &mut Lab<'_>) -> Result<(Finding, Finding, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let (mut rules, mut nans, mut evidence) = (Vec::new(), BTreeSet::new(), Vec::new());
    let cases = cases(lab);
    for Case { name, ieee, at } in &cases {
        let place = |k: usize| if k < i.k { format!(" at k = {k}") } else { String::new() };
        let questions = at.iter().map(|(k, x)| (Some(x.clone()), format!("{name}{}: {ieee}", place(*k)))).collect();
        let seen = lab.ask(questions)?;
        let gives = |o: &Observation| match i.d.decode(o.d) {
            x if x.is_nan() => "NaN",
            x if x.is_infinite() && x.negative => "-Inf",
            x if x.is_infinite() => "Inf",
            _ => "a number",
        };
        nans.extend(seen.iter().map(|o| o.d).filter(|&d| i.d.decode(d).is_nan()));
        let wrong: Vec<usize> = (0..seen.len()).filter(|&n| gives(&seen[n]) != *ieee).collect();
        if let Some(&first) = wrong.first() {
            let other = wrong.iter().any(|&n| gives(&seen[n]) != gives(&seen[first]));
            let (answer, more) = (gives(&seen[first]), if other { " or another" } else { "" });
            let some = match wrong.len() {
                n if n == seen.len() => String::new(),
                1 => place(at[first].0),
                n => format!("{} and {} more", place(at[first].0), n - 1),
            };
            rules.push(format!("{name}{some} gives {answer}{more}"));
            evidence.push(seen[first].clone());
        }
        if wrong.first() != Some(&0) {
            evidence.extend(seen.into_iter().take(1));
        }
    }
    let value = match (cases.is_empty(), rules.is_empty()) {
        (true, _) => cannot("the formats have no special values"),
        (false, true) => "as in IEEE 754".into(),
        (false, false) => rules.join("; ").into(),
    };
    let bits: Vec<String> = nans.iter().map(|x| format!("{x:#x}")).collect();
    let bits = if bits.is_empty() { cannot("no NaN was seen") } else { bits.join(", ").into() };
    Ok((value, bits, evidence))
}
