//! How a sum becomes a result: output rounding, exact and normalised products, normalisation of
//! partial sums, carry bits.

use super::super::bench::{exact, normal, top};
use super::super::black_box::{Input, Interface};
use super::super::fit::roundings;
use super::alignment::{Widths, one};
use super::structure::Site;
use super::{Feature, Lab, Observation, Value, cannot};
use crate::accumulate::Finish;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::Fixed;
use crate::round::Rounding;

/// Runs the tests of this file.
pub(super) fn features(lab: &mut Lab<'_>, site: &Site, widths: &Widths, all: &mut Vec<Feature>) -> Result<(), Error> {
    let tests: [(&'static str, Answer); 5] = [
        ("output_rounding", output_rounding(lab, site, widths)?),
        ("products_exact", products_exact(lab, site, widths)?),
        ("products_normalised", products_normalised(lab, site, widths)?),
        ("partial_sums_normalised", partial_sums(lab, site, widths)?),
        ("carry_bits", carry_bits(lab, site)?),
    ];
    all.extend(tests.into_iter().map(|(name, (value, evidence))| Feature { name, value, evidence }));
    Ok(())
}

type Answer = (Value, Vec<Observation>);

/// `1.xx + y` whose exact sum the alignment keeps, around the output's last bits (MMA-Sim Tables I
/// and II), or for narrow alignments sums with carries, whose last bits then lie below the output.
///
/// Where c is added to sums of products that were rounded before, both roundings are told.
fn output_rounding(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let (mut asked, mut seen) = rounded_sums(lab, site, widths)?;
    let (with_c, seen_with_c) = sums_with_c(lab, site, widths)?;
    if site.with_c {
        asked.extend(with_c);
        seen.extend(seen_with_c);
        return Ok((one_rounding(&lab.bench.interface.d, &asked, &seen), shown(seen)));
    }
    let value = one_rounding(&lab.bench.interface.d, &asked, &seen);
    let adding_c = one_rounding(&lab.bench.interface.d, &with_c, &seen_with_c);
    let both = match (&value, &adding_c) {
        (Value::Text(sums), Value::Text(last)) if sums != last && site.products.len() > 1 => {
            format!("{sums} (sums of products), {last} (adding c)").into()
        }
        (Value::CannotTell(_), Value::Text(_)) => adding_c,
        _ => return Ok((value, shown(seen))),
    };
    let evidence = seen.into_iter().take(12).chain(seen_with_c.into_iter().take(12)).collect();
    Ok((both, evidence))
}

/// A few of many observations.
fn shown(seen: Vec<Observation>) -> Vec<Observation> {
    seen.into_iter().take(24).collect()
}

/// The rounding that gives these results for these exact sums.
fn one_rounding(d: &FormatSpec, asked: &[Sum], seen: &[Observation]) -> Value {
    let explains = |rounding: Rounding, bits: Option<u32>| {
        asked.iter().zip(seen).all(|(&(negative, units, unit), o)| {
            let finish = Finish { rounding, frac_bits: bits, ieee_overflow: false, negative_zero: false };
            let x = Fixed { negative, magnitude: units, exponent: unit, sticky: false };
            d.encode_result(&finish.apply(x, d)) == o.d
        })
    };
    let widths = || core::iter::once(None).chain((1..d.fraction_bits).rev().map(Some));
    let found: Vec<(Rounding, Option<u32>)> =
        widths().flat_map(|bits| roundings().map(move |r| (r, bits))).filter(|&(r, bits)| explains(r, bits)).collect();
    match (one(found.iter().map(|f| f.0)), one(found.iter().map(|f| f.1))) {
        (Some(r), Some(None)) => r.to_string().into(),
        (Some(r), Some(Some(bits))) => format!("{r} at {bits} fraction bits").into(),
        (Some(r), None) => r.to_string().into(),
        _ if found.is_empty() => cannot("no single rounding explains the results"),
        _ => {
            let mut names: Vec<String> = found.iter().map(|f| f.0.to_string()).collect();
            names.sort_unstable();
            names.dedup();
            cannot(format!("{} explain the results", names.join(", ")))
        }
    }
}

/// An exact sum: sign, magnitude, exponent.
type Sum = (bool, u128, i32);

/// Sums of one fused node (or of c and a product) that need more bits than the output has.
fn rounded_sums(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<(Vec<Sum>, Vec<Observation>), Error> {
    let k = lab.bench.interface.k;
    let p = lab.bench.interface.d.fraction_bits as i32;
    let kept = widths.bits().unwrap_or(p + 3).min(p + 12);
    // The last term may be c only where c is summed with the products; alone with one product
    // there is nothing else to add.
    let mut places = site.products.clone();
    if site.with_c || places.len() < 2 {
        places.push(k);
    }
    let (low, high) = lab.bench.common_range();
    let lead = (high - 6).min(low + p + 30).min(8).max(low);
    let mut asked = Vec::new();
    let mut inputs = Vec::new();
    for negative in [false, true] {
        for big in 1..places.len() {
            for tail in (1..16u128).chain([17, 31, 33, 47, 63]) {
                for unit in [kept - 1, kept, p + 1, p + 2, p + 3, 13, 14, 15, 16] {
                    let unit = unit.min(kept);
                    // `big` terms of 1.5 and one small one.
                    let input = lab.bench.terms(&[(places[big], negative, tail, lead - unit)]);
                    let input =
                        input.map(|x| places[..big].iter().fold(x, |x, &i| one_and_a_half(lab, x, i, negative, lead)));
                    if input.is_some() && unit > 4 {
                        let magnitude = (3 * big as u128) << (unit - 1);
                        asked.push((negative, magnitude + tail, lead - unit));
                        inputs.push((input, format!("{big} times 1.5 * 2^{lead} + {tail} * 2^{}", lead - unit)));
                    }
                }
            }
        }
        if asked.len() > 6000 {
            break;
        }
    }
    Ok((asked, lab.ask(inputs)?))
}

/// The input with product k set to 1.5 * 2^e, of normal operands: a subnormal one would raise the
/// exponent that alignment sees.
fn one_and_a_half(lab: &Lab<'_>, mut input: Input, k: usize, negative: bool, e: i32) -> Input {
    let Interface { a, b, .. } = lab.bench.interface;
    let (ea, eb) = lab.bench.shared(e);
    (input.a[k], input.b[k]) =
        (normal(&a, negative, ea, 1 << a.fraction_bits.saturating_sub(1)), normal(&b, false, eb, 0));
    input
}

/// Sums of one product and a smaller c, which holds what narrow products cannot.
fn sums_with_c(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<(Vec<Sum>, Vec<Observation>), Error> {
    let Interface { k, d, .. } = lab.bench.interface;
    let p = d.fraction_bits as i32;
    let kept = widths.bits().unwrap_or(p + 3).min(p + 12);
    let Some(&place) = site.beside_c.first().or(site.products.first()) else { return Ok(Default::default()) };
    let (low, high) = lab.bench.common_range();
    let lead = (high - 2).min(8).max(low);
    let (mut asked, mut inputs) = (Vec::new(), Vec::new());
    for negative in [false, true] {
        for tail in (1..16u128).chain([17, 31, 33, 47, 63]) {
            for unit in [kept - 1, kept, p + 1, p + 2, p + 3].map(|unit| unit.min(kept)).into_iter().filter(|u| *u > 6)
            {
                let input = lab.bench.terms(&[(k, negative, tail, lead - unit)]);
                let input = input.map(|x| one_and_a_half(lab, x, place, negative, lead));
                if input.is_some() {
                    asked.push((negative, (3 << (unit - 1)) + tail, lead - unit));
                    inputs.push((input, format!("1.5 * 2^{lead} + c = {tail} * 2^{}", lead - unit)));
                }
            }
        }
    }
    Ok((asked, lab.ask(inputs)?))
}

/// The all-ones product minus its head leaves its last bit, if products are exact (generalised
/// from Fasi 3.1.2).
fn products_exact(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let (ma, mb) = (i.a.fraction_bits as i32, i.b.fraction_bits as i32);
    let place = site.products.first().copied().unwrap_or(0);
    let mut product = lab.bench.zeros();
    (product.a[place], product.b[place]) = (normal(&i.a, false, 0, u64::MAX), normal(&i.b, false, 0, u64::MAX));
    // (2 - 2^-ma)(2 - 2^-mb) = head + tail, the tail being what one operand cannot hold.
    let full = ((1u128 << (ma + 1)) - 1) * ((1u128 << (mb + 1)) - 1);
    let tail = full & ((1 << mb.min(ma)) - 1);
    let head = full - tail;
    // In another product, or in c where no product holds it.
    let others = site.products.get(1).copied().into_iter().chain([i.k]);
    let minus_head = |other: usize| {
        let mut input = product.clone();
        lab.bench.set_value(&mut input, other, true, head, -ma - mb).map(|()| input)
    };
    let seen = lab.ask(vec![
        (
            others.into_iter().find_map(minus_head),
            format!("the all-ones product minus its head: its last bits are {tail} * 2^{}", -ma - mb),
        ),
        (Some(product.clone()), "the operands of that product".into()),
    ])?;
    let want = exact(&i.d, false, tail, -ma - mb);
    let value = match (seen.len(), want) {
        (2, Some(want)) if seen[0].d == want => true.into(),
        (2, Some(_)) if widths.bits().is_none_or(|f| f < ma + mb) => {
            cannot("alignment may keep fewer bits than a product has")
        }
        (2, Some(_)) => false.into(),
        _ => cannot("no other term holds the head of the product"),
    };
    Ok((value, seen.into_iter().take(1).collect()))
}

/// 1.5 x 1.5 against a term just inside alignment's reach of exponent 0, just outside that of 1
/// (Khattak and Mikaitis IV-A1).
fn products_normalised(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let p = &site.products;
    let k = lab.bench.interface.k;
    let last = if site.with_c { Some(k) } else { None };
    let places: Vec<usize> = p.iter().copied().chain(last).collect();
    let Some(width) = widths.possible.first().copied().filter(|_| places.len() >= 3 && p.len() >= 2) else {
        return Ok((cannot("no sum of three terms whose width is known"), Vec::new()));
    };
    let (low, high) = lab.bench.common_range();
    let lead = high.min(top(&lab.bench.interface.d) - 3).min(8).max(low);
    let half = |lab: &Lab<'_>, negative: bool| {
        let i = lab.bench.interface;
        let quarter = |f: &FormatSpec| 1u64 << f.fraction_bits.saturating_sub(1);
        let (ea, eb) = lab.bench.shared(lead);
        (normal(&i.a, negative, ea, quarter(&i.a)), normal(&i.b, false, eb, quarter(&i.b)))
    };
    let mut asked = Vec::new();
    let mut inputs = Vec::new();
    for tail in [1u128, 3, 5] {
        for gap in width.bits - 1..=width.bits + 2 {
            let mut input = lab.bench.zeros();
            (input.a[p[0]], input.b[p[0]]) = half(lab, false);
            (input.a[p[1]], input.b[p[1]]) = half(lab, true);
            // Narrow products do not reach that far, c may.
            let set = |place: &usize| lab.bench.set_value(&mut input, *place, false, tail, lead - gap).is_some();
            if [places[2]].iter().chain(&last).any(set) {
                asked.push((tail, lead - gap));
                inputs.push((Some(input), format!("1.5 x 1.5 - 1.5 x 1.5 + {tail} * 2^-{gap} (all times 2^{lead})")));
            }
        }
    }
    let seen = lab.ask(inputs)?;
    let d = lab.bench.interface.d;
    let explains = |e_max: i32| {
        asked.iter().zip(&seen).all(|(&(tail, e), o)| {
            let (units, unit) = width.align(false, tail, e, e_max);
            exact(&d, units < 0, units.unsigned_abs(), unit) == Some(o.d)
        })
    };
    let value = match (explains(lead), explains(lead + 1)) {
        _ if seen.is_empty() => cannot("these formats hold no such terms"),
        (true, false) => false.into(),
        (false, true) => true.into(),
        _ => cannot("the answers fit both or neither"),
    };
    Ok((value, seen))
}

/// 1 + 1 + y - 1.75 in every order: a sum normalised after 1 + 1 loses the last bit y (Fasi 3.1.4).
///
/// Where the formats do not hold these, 1 + 1 - 1.5 - 0.5 in every order with y beside them, in c if
/// that is one of the terms.
fn partial_sums(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let k = lab.bench.interface.k;
    let c = site.with_c.then_some(k);
    let places: Vec<usize> = site.products.iter().copied().chain(c).collect();
    let (Some(f), true) = (widths.bits(), places.len() >= 4) else {
        return Ok((cannot("no sum of four terms whose width is known"), Vec::new()));
    };
    let f = f + i32::from(one(widths.possible.iter().map(|w| w.sticky)).unwrap_or(false));
    let p = lab.bench.interface.d.fraction_bits as i32;
    // -(2 - 2^-m) leaves 2^-m, beside which the output still shows 2^-f.
    let m = (f - p).max(1);
    let (low, high) = lab.bench.common_range();
    let lead = (high - 3).min(8).max(low);
    let minus = (1u128 << (m + 1)) - 1;
    let values = [(false, 1, lead), (false, 1, lead), (false, 1, lead - f), (true, minus, lead - m)];
    let shows = format!("1 + 1 + 2^-{f} - (2 - 2^-{m}), in the order");
    let mut seen = in_every_order(lab, &places, values, None, &shows)?;
    let mut want = lab.bench.d(false, (1 << (f - m)) + 1, lead - f);
    let fifth = c.filter(|_| site.products.len() >= 4).or(site.products.get(4).copied());
    if let (true, Some(y)) = (seen.is_empty(), fifth) {
        let values = [(false, 1, lead), (false, 1, lead), (true, 3, lead - 1), (true, 1, lead - 1)];
        let shows = format!("2^-{f} beside 1 + 1 - 1.5 - 0.5, in the order");
        seen = in_every_order(lab, &site.products, values, Some((y, lead - f)), &shows)?;
        want = lab.bench.d(false, 1, lead - f);
    }
    let value = match want {
        _ if seen.is_empty() => cannot("these formats hold no such terms"),
        Some(want) => Value::Flag(!seen.iter().all(|o| o.d == want)),
        None => cannot("the result would not be exact"),
    };
    Ok((value, seen.into_iter().take(6).collect()))
}

/// Four terms in every order at the first places, and 2^e at another one.
fn in_every_order(
    lab: &mut Lab<'_>,
    places: &[usize],
    values: [(bool, u128, i32); 4],
    beside: Option<(usize, i32)>,
    shows: &str,
) -> Result<Vec<Observation>, Error> {
    let input = |order: [usize; 4]| {
        let terms = order.iter().zip(places).map(|(&v, &i)| (i, values[v].0, values[v].1, values[v].2));
        let terms: Vec<_> = terms.chain(beside.map(|(place, e)| (place, false, 1, e))).collect();
        (lab.bench.terms(&terms), format!("{shows} {order:?}"))
    };
    let inputs = orders().into_iter().map(input).collect();
    lab.ask(inputs)
}

/// Every order of four.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256usize).map(|n| [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6 & 3]);
    all.filter(|o| (0..4).all(|i| o.contains(&i))).collect()
}

/// The largest sum the terms can have, which wraps if carry bits are missing (Fasi 3.1.4).
fn carry_bits(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let terms = site.terms;
    if site.products.len() < 2 || terms < 3 {
        return Ok((cannot("terms are added two at a time"), Vec::new()));
    }
    let (low, high) = lab.bench.common_range();
    let lead = (high - 12).min(4).max(low);
    let mut input = lab.bench.zeros();
    let (ea, eb) = lab.bench.shared(lead);
    for &k in &site.products {
        (input.a[k], input.b[k]) = (normal(&i.a, false, ea, u64::MAX), normal(&i.b, false, eb, u64::MAX));
    }
    // Without c among them an earlier sum, which c starts, is the last term.
    let with_c = site.terms > site.products.len();
    if with_c {
        input.c = normal(&i.c, false, lead, u64::MAX);
    }
    let largest = |f: &FormatSpec| 2.0 - 2f64.powi(-(f.fraction_bits as i32));
    let c = if with_c { largest(&i.c) } else { 0.0 };
    let sum = (site.products.len() as f64 * largest(&i.a) * largest(&i.b) + c) * 2f64.powi(lead);
    let seen = lab.ask(vec![(Some(input), format!("{terms} terms of the largest significands: {sum:.3}"))])?;
    let got = seen.first().map_or(0.0, |o| i.d.to_f64(o.d));
    let right = (got - sum).abs() <= sum * 2f64.powi(-(i.d.fraction_bits.min(12) as i32));
    let bits = usize::BITS - (terms - 1).leading_zeros();
    let value =
        if right { Value::Number(bits.into()) } else { cannot(format!("the sum of {terms} terms came out as {got}")) };
    Ok((value, seen))
}
