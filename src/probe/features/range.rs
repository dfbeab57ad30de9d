//! The ends of the range: subnormals, the alignment floor, overflow, product limit.

use super::super::bench::{exact, power, top};
use super::super::black_box::Input;
use super::alignment::{Width, Widths, one};
use super::output::{Rule, rounded};
use super::structure::Site;
use super::{Feature, Flushes, Lab, Observation, Value, cannot};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::Fixed;

/// Runs the tests of this file, but for subnormal numbers.
pub(super) fn features(
    lab: &mut Lab<'_>,
    site: &Site,
    widths: &Widths,
    roundings: &[Rule],
    all: &mut Vec<Feature>,
) -> Result<(), Error> {
    let tests: [(&'static str, Answer); 3] = [
        ("e_zero", e_zero(lab, site, widths, roundings)?),
        ("overflow", overflow(lab, site)?),
        ("product_limit", product_limit(lab, site)?),
    ];
    all.extend(tests.into_iter().map(|(name, (value, evidence))| Feature { name, value, evidence }));
    Ok(())
}

type Answer = (Value, Vec<Observation>);

/// Subnormal a, b and c, and subnormal results of normal operands (Fasi 3.1.1). The lab takes note of
/// what is flushed.
pub(super) fn subnormals(lab: &mut Lab<'_>) -> Result<Feature, Error> {
    let i = lab.bench.interface;
    // Half the smallest normal number (MMA-Sim III-F): the smallest subnormal may be lost to a
    // narrow alignment without being flushed.
    let smallest = |f: &FormatSpec| exact(f, false, 1, f.emin() - 1).filter(|_| f.subnormals);
    let one_product = |lab: &Lab<'_>, a: Option<u64>, b: Option<u64>| {
        let mut input = lab.bench.zeros();
        (input.a[0], input.b[0]) = (a?, b?);
        Some(input)
    };
    let c = smallest(&i.c).map(|c| Input { c, ..lab.bench.zeros() });
    let e = i.d.emin() - 1;
    let computed =
        lab.bench.split(false, 1, e).filter(|&(a, b)| !i.a.decode(a).is_subnormal() && !i.b.decode(b).is_subnormal());
    let computed = computed.and_then(|(a, b)| one_product(lab, Some(a), Some(b)));
    let sum = {
        let (low, _) = lab.bench.common_range();
        (low == i.d.emin()).then(|| lab.bench.terms(&[(0, false, 3, low - 1), (i.k, true, 1, low)])).flatten()
    };
    let questions = [
        ("a", one_product(lab, smallest(&i.a), power(&i.b, false, top(&i.b)))),
        ("b", one_product(lab, power(&i.a, false, top(&i.a)), smallest(&i.b))),
        ("c", c),
        ("product of normal numbers", computed),
        ("difference of normal numbers", sum),
    ];
    let names: Vec<&str> = questions.iter().filter(|q| q.1.is_some()).map(|q| q.0).collect();
    let asked = questions.into_iter().map(|(name, x)| (x, format!("subnormal {name}"))).collect();
    let seen = lab.ask(asked)?;
    let flushed: Vec<&str> =
        names.iter().zip(&seen).filter(|(_, o)| i.d.decode(o.d).is_zero()).map(|(name, _)| *name).collect();
    let value: Value = match (flushed.len(), names.len()) {
        (_, 0) => cannot("the formats have none"),
        (0, _) => "supported".into(),
        (f, n) if f == n => "flushed to zero".into(),
        _ => format!("flushed to zero: {}", flushed.join(", ")).into(),
    };
    let any = |of: [&str; 2]| flushed.iter().any(|name| of.contains(name));
    lab.flushes = Flushes {
        operands: any(["a", "b"]),
        results: any(["product of normal numbers", "difference of normal numbers"]),
    };
    Ok(Feature { name: "subnormals", value, evidence: seen })
}

/// A few powers of two to be summed: by term sign, magnitude and exponent, and the largest exponent
/// that their operands have.
struct Tiny {
    terms: Vec<(bool, u128, i32)>,
    own: i32,
}

/// How tiny sums become results, if alignment never goes below a floor.
#[derive(Clone, Copy)]
struct Model {
    width: Width,
    rule: Rule,
    flushes: bool,
}

impl Model {
    fn result(&self, d: &FormatSpec, tiny: &Tiny, floor: Option<i32>) -> u64 {
        let e_max = floor.map_or(tiny.own, |floor| floor.max(tiny.own));
        let aligned = tiny.terms.iter().map(|&(negative, m, e)| self.width.align(negative, m, e, e_max));
        let (units, unit) = aligned.fold((0, 0), |(sum, _), (units, unit)| (sum + units, unit));
        let code = rounded(d, self.rule, Fixed::from_units(units, unit));
        let x = d.decode(code);
        if x.is_zero() || (self.flushes && x.is_subnormal()) { 0 } else { code }
    }
}

/// The smallest exponent that terms are aligned to, from tiny terms alone and beside the smallest
/// results (the floor tests of docs/numerics.md, for any widths). Told only if all other floors
/// within reach are refuted; the evidence refutes its two neighbours.
fn e_zero(lab: &mut Lab<'_>, site: &Site, widths: &Widths, roundings: &[Rule]) -> Result<Answer, Error> {
    let d = lab.bench.interface.d;
    // What was flushed may have been the result of an earlier sum, as an operand of the last one.
    let flushes = if lab.flushes.results { vec![false, true] } else { vec![false] };
    let ways = widths.possible.iter().flat_map(|&width| roundings.iter().map(move |&rule| (width, rule)));
    let models: Vec<Model> =
        ways.flat_map(|(width, rule)| flushes.iter().map(move |&flushes| Model { width, rule, flushes })).collect();
    if models.is_empty() || models.len() > MOST_MODELS {
        return Ok((cannot("width or rounding are not known"), Vec::new()));
    }
    let &[base, small, ..] = site.last.products.as_slice() else {
        return Ok((cannot("no last sum of two products is known"), Vec::new()));
    };
    let (asked, inputs) = tiny_sums(lab, [base, small], &models);
    if inputs.is_empty() {
        return Ok((cannot("no product is as small as the smallest result"), Vec::new()));
    }
    let seen = lab.ask(inputs)?;
    let ignore_sign = |code: u64| if d.decode(code).is_zero() { 0 } else { code };
    let explains = |model: &Model, floor: Option<i32>| {
        asked.iter().zip(&seen).all(|(tiny, o)| model.result(&d, tiny, floor) == ignore_sign(o.d))
    };
    let floors = || core::iter::once(None).chain((d.emin() - 100..d.emin() + 20).map(Some));
    let possible: Vec<(Model, Option<i32>)> =
        models.iter().flat_map(|m| floors().filter(|&floor| explains(m, floor)).map(|floor| (*m, floor))).collect();
    let Some(&(model, floor)) = possible.first() else {
        return Ok((cannot("no floor explains the answers"), Vec::new()));
    };
    if floor.is_some() && one(possible.iter().map(|p| p.1)).is_none() {
        return Ok((cannot("several floors explain the answers"), Vec::new()));
    }
    let Some(floor) = floor else {
        let told = floors().any(|floor| !explains(&model, floor));
        let value = if told { "none, or too low to see".into() } else { cannot("no result depends on a floor") };
        return Ok((value, seen.into_iter().rev().take(6).collect()));
    };
    let refutes =
        |other: i32| {
            let differs = |(tiny, _): &(&Tiny, &Observation)| {
                model.result(&d, tiny, Some(floor)) != model.result(&d, tiny, Some(other))
            };
            asked.iter().zip(&seen).find(differs).map(|(_, o)| {
                Observation::new(o.input.clone(), o.d, format!("{}: refutes a floor of {other}", o.shows))
            })
        };
    Ok((Value::Number(floor.into()), [floor + 1, floor - 1].into_iter().filter_map(refutes).collect()))
}

/// Ways of aligning, rounding and flushing that are told apart.
const MOST_MODELS: usize = 300;

/// Powers of two alone, and beside the smallest result, half of it, and one and a half.
fn tiny_sums(lab: &Lab<'_>, [base, small]: [usize; 2], models: &[Model]) -> (Vec<Tiny>, Vec<(Option<Input>, String)>) {
    let d = lab.bench.interface.d;
    let bits = |m: &Model| m.rule.1.unwrap_or(d.fraction_bits) as i32;
    let quantum = d.emin() - models.iter().map(bits).max().unwrap_or(0);
    let mut sums: Vec<Vec<(bool, u128, i32)>> = Vec::new();
    for negative in [false, true] {
        sums.extend((quantum - 1..=d.emin()).map(|e| vec![(negative, 1, e)]));
        for (m, e) in [(1, quantum), (1, quantum - 1), (3, quantum - 1)] {
            for sign in [false, true] {
                sums.extend((quantum - 45..e).rev().map(|tiny| vec![(negative, m, e), (sign, 1, tiny)]));
            }
        }
    }
    let (mut asked, mut inputs) = (Vec::new(), Vec::new());
    for terms in sums {
        let placed: Vec<_> = [base, small].into_iter().zip(&terms).map(|(k, &(n, m, e))| (k, n, m, e)).collect();
        let Some(input) = lab.bench.scaled_terms(&placed).filter(|x| lab.reads(x)) else { continue };
        let own = placed.iter().map(|t| lab.bench.product_exponent(&input, t.0)).max().unwrap_or(0);
        let text = |&(negative, m, e): &(bool, u128, i32)| format!("{}{m} * 2^{e}", if negative { '-' } else { '+' });
        let shows: Vec<String> = terms.iter().map(text).collect();
        inputs.push((Some(input), format!("{}, the smallest result being 2^{quantum}", shows.join(" "))));
        asked.push(Tiny { terms, own });
    }
    (asked, inputs)
}

/// MMA-Sim III-F: 2^E + 2^E - 2^E, and (2 - u) 2^E + 0.75, 0.5 and 0.25 u 2^E of both signs.
fn overflow(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let (p, big) = (i.d.fraction_bits as i32, top(&i.d));
    let other = site.products.get(1).copied().unwrap_or(i.k);
    let first = site.products.first().copied().unwrap_or(0);
    let all_ones = (1u128 << (p + 1)) - 1;
    let mut questions = vec![];
    if let Some(&third) = site.products.get(2).or(site.with_c.then_some(&i.k)) {
        let terms = [(first, false, 1, big), (other, false, 1, big), (third, true, 1, big)];
        questions.push((lab.bench.scaled_terms(&terms), format!("2^{big} + 2^{big} - 2^{big}")));
    } else {
        questions.push((None, String::new()));
    }
    let has_intermediate = questions[0].0.is_some();
    for negative in [false, true] {
        for quarters in [3u128, 2, 1] {
            let terms = [(i.k, negative, all_ones, big - p), (first, negative, quarters, big - p - 2)];
            let shows = format!("{}((2 - u) + 0.{}u) * 2^{big}", if negative { '-' } else { '+' }, quarters * 25);
            questions.push((lab.bench.scaled_terms(&terms), shows));
        }
        let terms = [(i.k, negative, 1, big), (first, negative, 1, big)];
        questions.push((lab.bench.scaled_terms(&terms), format!("{}2^{big} twice", if negative { '-' } else { '+' })));
    }
    let seen = lab.ask(questions)?;
    if seen.is_empty() {
        return Ok((cannot("no sum of these formats reaches the largest result"), seen));
    }
    let name = |d: u64| {
        let x = i.d.decode(d);
        if x.is_nan() {
            "NaN"
        } else if x.is_infinite() {
            "infinity"
        } else if d == i.d.max_code(false) || d == i.d.max_code(true) {
            "the largest number"
        } else {
            "a number"
        }
    };
    let mut text = Vec::new();
    if has_intermediate {
        let kept = i.d.decode(seen[0].d).is_finite();
        text.push(if kept {
            "intermediate sums do not overflow".into()
        } else {
            format!("intermediate sums overflow to {}", name(seen[0].d))
        });
    }
    if let Some(last) = seen.last().filter(|o| o.shows.contains("twice")) {
        text.push(format!("results overflow to {}", name(last.d)));
    }
    if let Some(o) = seen.iter().find(|o| o.shows.contains("0.75u")) {
        text.push(format!("beyond the largest number by 0.75 of its last bit: {}", name(o.d)));
    }
    Ok((text.join("; ").into(), seen))
}

/// X - X with X = 2^128: NaN where a product of that size counts as infinite.
fn product_limit(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let none_meet = || Ok((cannot("no two terms of 2^128 meet in one sum"), Vec::new()));
    let Some(&first) = site.products.first() else { return none_meet() };
    let other = site.products.get(1).copied().unwrap_or(i.k);
    let questions = [127, 128].map(|e| {
        let terms = [(first, false, 1, e), (other, true, 1, e)];
        (lab.bench.scaled_terms(&terms), format!("2^{e} - 2^{e}"))
    });
    let seen = lab.ask(questions.into())?;
    if seen.len() < 2 {
        return none_meet();
    }
    let nan: Vec<bool> = seen.iter().map(|o| i.d.decode(o.d).is_nan()).collect();
    let value = match nan.as_slice() {
        [false, false] => "none".into(),
        [false, true] => "2^128".into(),
        _ => cannot("smaller products overflow already"),
    };
    Ok((value, seen))
}
