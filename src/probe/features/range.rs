//! The ends of the range: subnormals, the alignment floor, overflow, product limit.

use super::super::bench::{exact, power, top};
use super::super::black_box::Input;
use super::alignment::Widths;
use super::floor::e_zero;
use super::output::Rule;
use super::structure::Site;
use super::{Feature, Finding, Flushes, Lab, Observation, cannot};
use crate::error::Error;
use crate::format::FormatSpec;

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

type Answer = (Finding, Vec<Observation>);

/// Subnormal a, b and c, and subnormal results of normal operands (Fasi 3.1.1), these at the last k: a later sum of a
/// chain would read them as its c. A lone c that is lost may be so as operand or as result; beside a normal product it
/// is normal with it. The lab takes note of what is flushed.
pub(super) fn subnormals(lab: &mut Lab<'_>) -> Result<Feature, Error> {
    let i = lab.bench.interface;
    // Half the smallest normal number (MMA-Sim III-F): the smallest subnormal may be lost to a
    // narrow alignment without being flushed.
    let smallest = |f: &FormatSpec| exact(f, false, 1, f.emin() - 1).filter(|_| f.subnormals);
    let one_product = |lab: &Lab<'_>, k: usize, a: Option<u64>, b: Option<u64>| {
        let mut input = lab.bench.zeros();
        (input.a[k], input.b[k]) = (a?, b?);
        Some(input)
    };
    let (last, emin) = (i.k - 1, i.d.emin());
    let c = smallest(&i.c).map(|c| Input { c, ..lab.bench.zeros() });
    let beside = |k: usize| {
        let c = c.as_ref().filter(|_| i.c.emin() == emin)?;
        let product = lab.bench.terms(&[(k, false, 1, emin)]).filter(|x| lab.bench.operands_are_normal(x))?;
        Some(Input { c: c.c, ..product })
    };
    // Where no product comes first, c may be lost as the result of a step.
    let (beside_first, beside_last) = (beside(0), beside(last).filter(|_| last > 0));
    let computed = lab.bench.terms(&[(last, false, 1, emin - 1)]).filter(|x| lab.bench.operands_are_normal(x));
    let sum = {
        let (low, _) = lab.bench.common_range();
        (low == emin).then(|| lab.bench.terms(&[(last, false, 3, low - 1), (i.k, true, 1, low)])).flatten()
    };
    let questions = [
        ("a", one_product(lab, 0, smallest(&i.a), power(&i.b, false, top(&i.b)))),
        ("b", one_product(lab, 0, power(&i.a, false, top(&i.a)), smallest(&i.b))),
        ("c", beside_first),
        ("c", beside_last),
        ("lone c", c),
        ("product of normal numbers", computed),
        ("difference of normal numbers", sum),
    ];
    let asked_of: Vec<&str> = questions.iter().filter(|q| q.1.is_some()).map(|q| q.0).collect();
    let asked = questions.into_iter().map(|(name, x)| (x, format!("subnormal {name}"))).collect();
    let seen = lab.ask(asked)?;
    let normal = lab.bench.d(false, 1, emin);
    let is_flushed = |name: &str, d: u64| if name == "c" { Some(d) == normal } else { i.d.decode(d).is_zero() };
    let mut names = asked_of.clone();
    names.dedup();
    let everywhere = |name: &&str| asked_of.iter().zip(&seen).all(|(n, o)| n != name || is_flushed(name, o.d));
    let flushed: Vec<&str> = names.iter().copied().filter(everywhere).collect();
    let value: Finding = match (flushed.len(), names.len()) {
        (_, 0) => cannot("the formats have none"),
        (0, _) => "supported".into(),
        (f, n) if f == n => "flushed to zero".into(),
        _ => format!("flushed to zero: {}", flushed.join(", ")).into(),
    };
    let any = |of: &[&str]| flushed.iter().any(|name| of.contains(name));
    lab.flushes = Flushes {
        operands: any(&["a", "b"]),
        addend: any(&["lone c"]),
        results: any(&["product of normal numbers", "difference of normal numbers"]),
    };
    Ok(Feature { name: "subnormals", value, evidence: seen })
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
        let sign = if negative { '-' } else { '+' };
        let twice =
            |lab: &Lab<'_>, at: usize| lab.bench.scaled_terms(&[(at, negative, 1, big), (first, negative, 1, big)]);
        questions.push((twice(lab, i.k), format!("{sign}2^{big} twice")));
        // What products leave before a late c may be rounded by another rule than the sum with it.
        if !site.with_c && other != i.k {
            questions.push((twice(lab, other), format!("{sign}2^{big} as two products")));
        }
    }
    // Far below the last place of the largest number, where alignment may round up or down.
    let far = [false, true].map(|negative| {
        let terms = [(i.k, negative, all_ones, big - p), (first, negative, 1, 0)];
        (lab.bench.terms(&terms), format!("{}((2 - u) * 2^{big} + 1)", if negative { '-' } else { '+' }))
    });
    let mut seen = lab.ask(questions)?;
    let far = lab.ask(far.into())?;
    // What one block leaves to the next is a result: c and a product of its block, then one of another block.
    let between = match (site.beside_c.first(), site.products.first()) {
        (Some(&early), Some(&late)) if !site.products.contains(&early) && !site.beside_c.contains(&late) => {
            let terms = [(i.k, false, 1, big), (early, false, 1, big), (late, true, 1, big)];
            let shows = format!("2^{big} (c) + 2^{big} (k = {early}) - 2^{big} (k = {late})");
            lab.ask(vec![(lab.bench.scaled_terms(&terms), shows)])?.pop()
        }
        _ => None,
    };
    let carried: Vec<Observation> = far.into_iter().filter(|o| i.d.decode(o.d).is_infinite()).collect();
    if seen.is_empty() {
        let far = "the largest number and a product far below its last bit overflow to infinity";
        let value = match carried.as_slice() {
            [one] if i.d.decode(one.d).negative => format!("{far} (negative ones)").into(),
            [_] => format!("{far} (positive ones)").into(),
            [] => cannot("no product of these formats is large enough to take the largest result further"),
            _ => far.into(),
        };
        return Ok((value, carried));
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
        let fate = |d: u64| match i.d.decode(d).is_finite() {
            true => "do not overflow".to_owned(),
            false => format!("overflow to {}", name(d)),
        };
        let within = fate(seen[0].d);
        text.push(match between.as_ref().map(|o| fate(o.d)) {
            Some(between) if between != within => {
                format!("intermediate sums {within} within a block, {between} from block to block")
            }
            None if site.products.len() < i.k => format!("intermediate sums {within} within a block"),
            _ => format!("intermediate sums {within}"),
        });
        seen.extend(between);
    }
    // A directed rounding treats the signs differently.
    let of_both = |what: &str| {
        let of = |sign: char| seen.iter().find(|o| o.shows.starts_with(sign) && o.shows.contains(what));
        match [of('+'), of('-')].map(|o| o.map(|o| name(o.d))) {
            [Some(plus), Some(minus)] if plus != minus => Some(format!("{plus} (positive), {minus} (negative)")),
            [plus, minus] => plus.or(minus).map(str::to_owned),
        }
    };
    text.extend(match [of_both("twice"), of_both("as two products")] {
        [Some(beside_c), Some(products)] if beside_c != products => {
            Some(format!("results overflow to {beside_c} beside c, sums of products to {products}"))
        }
        [beside_c, products] => beside_c.or(products).map(|to| format!("results overflow to {to}")),
    });
    // Where the largest number's own last bits are cut off, that says nothing.
    let beyond = of_both("0.75u").filter(|to| !to.contains("a number"));
    text.extend(beyond.map(|to| format!("beyond the largest number by 0.75 of its last bit: {to}")));
    Ok((text.join("; ").into(), seen))
}

/// X - X with X = 2^128: NaN where a product of that size counts as infinite. Where only one of a sum's terms can be as
/// large, X - X / 2.
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
        let terms = [(first, false, 1, 128), (other, true, 1, 127)];
        let seen = lab.ask(vec![(lab.bench.scaled_terms(&terms), "2^128 - 2^127".into())])?;
        let value = match seen.first().map(|o| o.d) {
            Some(d) if Some(d) == lab.bench.d(false, 1, 127) => "none".into(),
            Some(d) if i.d.decode(d).is_infinite() => "2^128".into(),
            _ => return none_meet(),
        };
        return Ok((value, seen));
    }
    if seen.iter().any(|o| i.d.decode(o.d).is_infinite()) {
        return Ok((cannot("one of two such terms, or their sum on the way, overflows and the other does not"), seen));
    }
    let nan: Vec<bool> = seen.iter().map(|o| i.d.decode(o.d).is_nan()).collect();
    let value = match nan.as_slice() {
        [false, false] => "none".into(),
        [false, true] => "2^128".into(),
        _ => cannot("smaller products overflow already"),
    };
    Ok((value, seen))
}
