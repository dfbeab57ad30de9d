//! Where numbers are normalised before the end: products, partial sums; and the bits above the largest term.

use super::super::bench::{exact, normal, top};
use super::alignment::Widths;
use super::output::Answer;
use super::structure::Site;
use super::{Finding, Lab, Observation, cannot};
use crate::error::Error;
use crate::format::FormatSpec;
use std::collections::BTreeSet;

/// 1.5 x 1.5 against a term just inside alignment's reach of exponent 0, just outside that of 1
/// (Khattak and Mikaitis IV-A1).
pub(super) fn products_normalised(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    if !site.known {
        return Ok((cannot("which terms are summed together is not known"), Vec::new()));
    }
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
/// Where the formats do not hold these, 1 + 1 - 1.5 - 0.5 in every order with y beside them. What no
/// order shows, because the result is too narrow for it, tells nothing.
pub(super) fn partial_sums(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    if site.terms == 2 {
        return sums_of_two(lab);
    }
    let places: Vec<usize> = site.last.products.iter().copied().chain(site.last.other).collect();
    let (Some(f), true) = (widths.bits(), places.len() >= 4) else {
        return Ok((cannot("no last sum of four terms whose width is known"), Vec::new()));
    };
    let (low, high) = lab.bench.common_range();
    // As small as c and the results need, and y of normal operands.
    let lead = (lab.bench.product_range().0 + f).max(8).min(high - 3).max(low);
    let mut asked = false;
    let p = lab.bench.interface.d.fraction_bits as i32;
    // -(2 - 2^-m) leaves 2^-m, beside which the output still shows 2^-f, unless it is narrow itself.
    for m in [0, 4, 8].map(|more| (f - p).max(1) + more) {
        let minus = (1u128 << (m + 1).min(100)) - 1;
        let values = [(false, 1, lead), (false, 1, lead), (false, 1, lead - f), (true, minus, lead - m)];
        let shows = format!("1 + 1 + 2^-{f} - (2 - 2^-{m}), in the order");
        let want = lab.bench.d(false, (1 << (f - m).max(0)) + 1, lead - f);
        let seen = in_every_order(lab, &places, &values, (site.last.other, None), &shows)?;
        asked |= !seen.is_empty();
        if let Some(answer) = order_matters(seen, want) {
            return Ok(answer);
        }
    }
    if let Some(&y) = places.get(4..).and_then(<[usize]>::last) {
        let values = [(false, 1, lead), (false, 1, lead), (true, 3, lead - 1), (true, 1, lead - 1)];
        let shows = format!("2^-{f} beside 1 + 1 - 1.5 - 0.5, in the order");
        let seen = in_every_order(lab, &places, &values, (site.last.other, Some((y, lead - f))), &shows)?;
        asked |= !seen.is_empty();
        if let Some(answer) = order_matters(seen, lab.bench.d(false, 1, lead - f)) {
            return Ok(answer);
        }
    }
    let why = if asked { "no result shows the last bit" } else { "these formats hold no such terms" };
    Ok((cannot(why), Vec::new()))
}

/// Terms that are added two at a time: each addition rounds and normalises if some order of 1 + u, 1 and -1.5, or of 1,
/// 1, u and -1.5, loses the last bit u after a carry (Khattak and Mikaitis IV-A2). That none does proves nothing.
fn sums_of_two(lab: &mut Lab<'_>) -> Result<Answer, Error> {
    let k = lab.bench.interface.k;
    let p = lab.bench.interface.d.fraction_bits as i32;
    let (low, high) = lab.bench.common_range();
    let lead = (lab.bench.product_range().0 + p).max(8).min(high - 3).max(low);
    let want = lab.bench.d(false, (1 << (p - 1).max(0)) + 1, lead - p);
    let (one, u, minus) = ((false, 1, lead), (false, 1, lead - p), (true, 3, lead - 1));
    let with_u = (false, (1u128 << p) + 1, lead - p);
    let places = |more: &[usize]| [0, 1].iter().chain(more).copied().filter(|&i| i <= k).collect::<Vec<_>>();
    for (values, places) in [
        (vec![with_u, one, minus], vec![k, 0, 1]),
        (vec![one, one, u, minus], places(&[2, 3])),
        (vec![one, one, u, minus], places(&[2, 4])),
        (vec![one, one, u, minus], places(&[2, k])),
    ] {
        if places.iter().max() > Some(&k) || places.iter().collect::<BTreeSet<_>>().len() != values.len() {
            continue;
        }
        let first = if values.len() == 3 { format!("(1 + 2^-{p})") } else { format!("1 + 2^-{p}") };
        let shows = format!("{first} + 1 - 1.5, in the order");
        let seen = in_every_order(lab, &places, &values, (None, None), &shows)?;
        let is_lost = |o: &Observation| Some(o.d) != want;
        if let (Some(kept), Some(lost)) = (seen.iter().find(|o| !is_lost(o)), seen.iter().find(|o| is_lost(o))) {
            return Ok((true.into(), vec![kept.clone(), lost.clone()]));
        }
    }
    Ok((cannot("terms are added two at a time, and no order that was tried loses a bit"), Vec::new()))
}

/// Whether some orders lose what others keep; nothing if none keeps it.
fn order_matters(seen: Vec<Observation>, want: Option<u64>) -> Option<Answer> {
    let want = want?;
    let lost = seen.iter().any(|o| o.d != want);
    seen.iter().any(|o| o.d == want).then(|| (lost.into(), seen.into_iter().take(6).collect()))
}

/// Terms in every order at the first places, and 2^e at another one. What comes by way of another sum must be a result,
/// or it is rounded there.
fn in_every_order(
    lab: &mut Lab<'_>,
    places: &[usize],
    values: &[(bool, u128, i32)],
    (from_elsewhere, beside): (Option<usize>, Option<(usize, i32)>),
    shows: &str,
) -> Result<Vec<Observation>, Error> {
    let arrives = |&(place, negative, magnitude, e): &(usize, bool, u128, i32)| {
        Some(place) != from_elsewhere || lab.bench.d(negative, magnitude, e).is_some()
    };
    let input = |order: Vec<usize>| {
        let terms = order.iter().zip(places).map(|(&v, &i)| (i, values[v].0, values[v].1, values[v].2));
        let terms: Vec<_> = terms.chain(beside.map(|(place, e)| (place, false, 1, e))).collect();
        (lab.terms(&terms).filter(|_| terms.iter().all(arrives)), format!("{shows} {order:?}"))
    };
    let inputs = orders(values.len()).into_iter().map(input).collect();
    lab.ask(inputs)
}

/// Every order of so many.
fn orders(n: usize) -> Vec<Vec<usize>> {
    (0..n).fold(vec![Vec::new()], |orders, next| {
        let inserted =
            |order: Vec<usize>| (0..=order.len()).map(move |at| [&order[..at], &[next], &order[at..]].concat());
        orders.into_iter().flat_map(inserted).collect()
    })
}

/// More and more of the largest terms, whose sum wraps around where carry bits are missing (Fasi 3.1.4).
pub(super) fn carry_bits(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    if !site.known {
        return Ok((cannot("which terms are summed together is not known"), Vec::new()));
    }
    if site.products.len() < 2 || site.terms < 3 {
        return Ok((cannot("terms are added two at a time"), Vec::new()));
    }
    let (low, high) = lab.bench.common_range();
    let lead = (high - 12).min(4).max(low);
    let (ea, eb) = lab.bench.shared(lead);
    let largest = |f: &FormatSpec| 2.0 - 2f64.powi(-(f.fraction_bits as i32));
    let mut input = lab.bench.zeros();
    let (mut inputs, mut sums, mut sum) = (Vec::new(), Vec::new(), 0.0);
    for &k in &site.products {
        (input.a[k], input.b[k]) = (normal(&i.a, false, ea, u64::MAX), normal(&i.b, false, eb, u64::MAX));
        sum += largest(&i.a) * largest(&i.b);
        sums.push(sum);
        inputs.push(input.clone());
    }
    // Without c among them an earlier sum, which c starts, is the last term.
    if site.terms > site.products.len() {
        input.c = normal(&i.c, false, lead, u64::MAX);
        sums.push(sum + largest(&i.c));
        inputs.push(input);
    }
    let shows = |n: usize| format!("{} terms of the largest significands: {:.3} * 2^{lead}", n + 1, sums[n]);
    let questions = inputs.into_iter().enumerate().map(|(n, input)| (Some(input), shows(n))).collect();
    let mut seen = lab.ask(questions)?;
    let unit = 2f64.powi(lead);
    // Whatever is cut off is far less than what a wrap takes away.
    let is = |o: &Observation, sum: f64, of: f64| (i.d.to_f64(o.d) / unit - sum).abs() <= of / 16.0;
    let enough = (usize::BITS - (site.terms - 1).leading_zeros()) as i32;
    let Some(wrong) = seen.iter().zip(&sums).position(|(o, &sum)| !is(o, sum, sum)) else {
        return Ok((Finding::Number(enough.into()), seen.pop().into_iter().collect()));
    };
    // Two integer bits of a term, the carries, and the sign.
    let wraps = |carry: i32| {
        let range = 2f64.powi(3 + carry);
        let wrapped = |sum: f64| sum - range * (sum / range + 0.5).floor();
        seen.iter().zip(&sums).all(|(o, &sum)| is(o, wrapped(sum), range / 4.0))
    };
    let found: Vec<i32> = (0..enough).filter(|&carry| wraps(carry)).collect();
    let value = match found.as_slice() {
        [carry] => (*carry).into(),
        _ => cannot(format!("the sum of {} terms came out as {}", wrong + 1, i.d.to_f64(seen[wrong].d))),
    };
    Ok((value, seen.into_iter().skip(wrong.saturating_sub(1)).take(2).collect()))
}
