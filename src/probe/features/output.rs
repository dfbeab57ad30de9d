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
use crate::num::{ExactSum, Fixed, Term};
use crate::round::Rounding;
use std::collections::BTreeSet;

/// Runs the tests of this file; the ways in which sums of products may be rounded.
pub(super) fn features(
    lab: &mut Lab<'_>,
    site: &Site,
    widths: &Widths,
    all: &mut Vec<Feature>,
) -> Result<Vec<Rule>, Error> {
    let normalised = products_normalised(lab, site, widths)?;
    let (rules, rounding) = output_rounding(lab, site, widths, normalised.0 != Value::Flag(false))?;
    let tests: [(&'static str, Answer); 5] = [
        ("output_rounding", rounding),
        ("products_exact", products_exact(lab, site, widths)?),
        ("products_normalised", normalised),
        ("partial_sums_normalised", partial_sums(lab, site, widths)?),
        ("carry_bits", carry_bits(lab, site)?),
    ];
    all.extend(tests.into_iter().map(|(name, (value, evidence))| Feature { name, value, evidence }));
    Ok(rules)
}

type Answer = (Value, Vec<Observation>);

/// A way of rounding a sum: the rounding, and fraction bits if fewer than the format has.
pub(super) type Rule = (Rounding, Option<u32>);

/// The result of an exact sum.
pub(super) fn rounded(d: &FormatSpec, (rounding, frac_bits): Rule, sum: Fixed) -> u64 {
    let finish = Finish { rounding, frac_bits, ieee_overflow: false, negative_zero: false };
    d.encode_result(&finish.apply(sum, d))
}

/// Sums that alignment keeps whole, around the output's last bits (MMA-Sim Tables I and II), with and
/// without carries: a cut by alignment stays in its place, one by the output moves with the sum.
///
/// Where c is added to sums of products that were rounded before, both roundings are told.
fn output_rounding(
    lab: &mut Lab<'_>,
    site: &Site,
    widths: &Widths,
    normalised: bool,
) -> Result<(Vec<Rule>, Answer), Error> {
    let Interface { k, d, .. } = lab.bench.interface;
    let p = d.fraction_bits as i32;
    let wide = p + 3;
    let narrowest = widths.possible.iter().map(|w| w.bits).min();
    let places: Vec<usize> = site.last.products.iter().copied().chain(site.last.other).collect();
    let exact = Exact { kept: narrowest.unwrap_or(wide).min(p + 12), normalised };
    let sums = rounded_sums(lab, &places, exact)?;
    let mut rules = rules(&d, &sums);
    if narrowest.is_none() && widths.everywhere.is_empty() {
        // Fewer bits than the format has may be all that alignment left.
        rules.retain(|rule| rule.1.is_none());
    }
    let value = one_rounding(&d, &rules, &sums);
    let (true, Some(&product)) = (site.last.other != Some(k), site.products.first()) else {
        return Ok((rules, (value, shown(&d, sums))));
    };
    let with_c = rounded_sums(lab, &[product, k], Exact { kept: wide, normalised: true })?;
    let adding_c = one_rounding(&d, &self::rules(&d, &with_c), &with_c);
    let value = match (value, adding_c) {
        (Value::Text(sums), Value::Text(last)) if sums == last => sums.into(),
        (Value::Text(sums), Value::Text(last)) => format!("{sums} (sums of products), {last} (adding c)").into(),
        (Value::Text(sums), _) => format!("{sums} (sums of products)").into(),
        (_, Value::Text(last)) => format!("{last} (adding c)").into(),
        (neither, _) => neither,
    };
    let evidence = shown(&d, sums).into_iter().take(12).chain(shown(&d, with_c).into_iter().take(12)).collect();
    Ok((rules, (value, evidence)))
}

/// An exact sum and what the box makes of it.
type Sum = (Fixed, Observation);

/// A few of many observations, those first that need rounding.
fn shown(d: &FormatSpec, mut seen: Vec<Sum>) -> Vec<Observation> {
    seen.sort_by_key(|(sum, _)| exact(d, sum.negative, sum.magnitude, sum.exponent).is_some());
    seen.into_iter().map(|(_, o)| o).take(24).collect()
}

/// The roundings that give these results for these exact sums.
fn rules(d: &FormatSpec, sums: &[Sum]) -> Vec<Rule> {
    let widths = core::iter::once(None).chain((1..d.fraction_bits).rev().map(Some));
    let all = widths.flat_map(|bits| roundings().map(move |r| (r, bits)));
    all.filter(|&rule| sums.iter().all(|(sum, o)| rounded(d, rule, *sum) == o.d)).collect()
}

fn one_rounding(d: &FormatSpec, found: &[Rule], sums: &[Sum]) -> Value {
    match (one(found.iter().map(|f| f.0)), one(found.iter().map(|f| f.1))) {
        (Some(r), Some(Some(bits))) => format!("{r} at {bits} fraction bits").into(),
        (Some(r), _) => r.to_string().into(),
        _ if found.is_empty() => cannot("no single rounding explains the results"),
        _ if sums.iter().all(|(sum, o)| exact(d, sum.negative, sum.magnitude, sum.exponent) == Some(o.d)) => {
            cannot("no sum that alignment keeps is wider than the result")
        }
        _ => {
            let mut names: Vec<String> = found.iter().map(|f| f.0.to_string()).collect();
            names.sort_unstable();
            names.dedup();
            cannot(format!("{} explain the results", names.join(", ")))
        }
    }
}

/// Which sums are exact before they become results.
#[derive(Clone, Copy)]
struct Exact {
    /// Fraction bits that alignment keeps.
    kept: i32,
    /// Whether products may be normalised first.
    normalised: bool,
}

impl Exact {
    /// The sum of an input's terms if alignment cuts none and the result is a normal number.
    fn sum(self, lab: &Lab<'_>, input: &Input) -> Option<Fixed> {
        let terms = lab.bench.addends(input);
        let aligned = |t: &Term| if self.normalised { t.exponent.max(t.normalised_exponent()) } else { t.exponent };
        let last = |t: &Term| t.exponent - t.frac_bits as i32 + t.significand.trailing_zeros() as i32;
        let e_max = terms.iter().map(aligned).max()?;
        let kept = terms.iter().all(|t| last(t) >= e_max - self.kept);
        let mut sum = ExactSum::default();
        terms.iter().for_each(|t| sum.add(t));
        let sum = sum.fixed();
        let d = lab.bench.interface.d;
        (kept && !sum.is_zero() && (d.emin()..top(&d)).contains(&sum.leading_exponent())).then_some(sum)
    }
}

/// Operands of the large products. Less than 1, a sum shows one bit more of what alignment kept; 1.75^2
/// is more than 2 at the same exponent and shows one less.
const HEADS: [f64; 2] = [1.0, 1.75];

/// Magnitudes of the small term.
const TAILS: [u128; 14] = [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 33, 47, 63];

/// Sums of large products and one small term.
fn rounded_sums(lab: &mut Lab<'_>, places: &[usize], exact: Exact) -> Result<Vec<Sum>, Error> {
    let Interface { k, d, .. } = lab.bench.interface;
    let p = d.fraction_bits as i32;
    let (low, high) = lab.bench.common_range();
    let lead = (high - 6).min(low + p + 30).min(8).max(low);
    let products: Vec<usize> = places.iter().copied().filter(|&i| i < k).collect();
    let n = products.len();
    let counts: BTreeSet<usize> = [1, 2, n.saturating_sub(1), n].into_iter().filter(|m| (1..=n).contains(m)).collect();
    let kept = exact.kept;
    let units = [kept - 1, kept, p + 1, p + 2, p + 3].into_iter().chain((6..kept).step_by(3));
    let units: BTreeSet<i32> = units.map(|unit| unit.min(kept)).filter(|&unit| unit > 4).collect();
    let signs = [(false, false), (false, true), (true, false), (true, true)];
    let mut sums = Vec::new();
    let mut inputs = Vec::new();
    for &large in &counts {
        let small = places.iter().copied().filter(|i| *i == k || !products[..large].contains(i));
        let small: BTreeSet<usize> = small.clone().take(1).chain(small.filter(|&i| i == k)).collect();
        for (place, unit, tail) in small
            .iter()
            .flat_map(|&place| units.iter().flat_map(move |&unit| TAILS.map(move |tail| (place, unit, tail))))
        {
            for ((minus, opposite), head) in signs.into_iter().flat_map(|sign| HEADS.map(|head| (sign, head))) {
                let small = lab.terms(&[(place, minus != opposite, tail, lead - unit)]);
                let input =
                    small.map(|x| products[..large].iter().fold(x, |x, &i| with_square(lab, x, i, minus, lead, head)));
                if let Some((input, sum)) = input.and_then(|x| exact.sum(lab, &x).map(|sum| (x, sum))) {
                    let [first, second] = [minus, minus != opposite].map(|negative| if negative { '-' } else { '+' });
                    sums.push(sum);
                    inputs.push((
                        Some(input),
                        format!("{first}{large} times {head}^2 * 2^{lead} {second} {tail} * 2^{}", lead - unit),
                    ));
                }
            }
        }
    }
    Ok(sums.into_iter().zip(lab.ask(inputs)?).collect())
}

/// The input with product k set to `head^2 * 2^e`, of normal operands: a subnormal one would raise the
/// exponent that alignment sees.
fn with_square(lab: &Lab<'_>, mut input: Input, k: usize, negative: bool, e: i32, head: f64) -> Input {
    let Interface { a, b, .. } = lab.bench.interface;
    let (ea, eb) = lab.bench.shared(e);
    let fraction = |f: &FormatSpec| ((head - 1.0) * (1u64 << f.fraction_bits) as f64) as u64;
    (input.a[k], input.b[k]) = (normal(&a, negative, ea, fraction(&a)), normal(&b, false, eb, fraction(&b)));
    input
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
fn partial_sums(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
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
        let seen = in_every_order(lab, &places, &values, None, &shows)?;
        asked |= !seen.is_empty();
        if let Some(answer) = order_matters(seen, want) {
            return Ok(answer);
        }
    }
    if let Some(&y) = places.get(4..).and_then(<[usize]>::last) {
        let values = [(false, 1, lead), (false, 1, lead), (true, 3, lead - 1), (true, 1, lead - 1)];
        let shows = format!("2^-{f} beside 1 + 1 - 1.5 - 0.5, in the order");
        let seen = in_every_order(lab, &places, &values, Some((y, lead - f)), &shows)?;
        asked |= !seen.is_empty();
        if let Some(answer) = order_matters(seen, lab.bench.d(false, 1, lead - f)) {
            return Ok(answer);
        }
    }
    let why = if asked { "no result shows the last bit" } else { "these formats hold no such terms" };
    Ok((cannot(why), Vec::new()))
}

/// Terms that are added two at a time: each addition rounds and normalises if some order of 1 + u, 1 and -1.5, or of 1, 1,
/// u and -1.5, loses the last bit u after a carry (Khattak and Mikaitis IV-A2). That none does proves nothing.
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
        let seen = in_every_order(lab, &places, &values, None, &shows)?;
        let is_lost = |o: &Observation| Some(o.d) != want;
        if let (Some(kept), Some(lost)) = (seen.iter().find(|o| !is_lost(o)), seen.iter().find(|o| is_lost(o))) {
            return Ok((true.into(), vec![kept.clone(), lost.clone()]));
        }
    }
    Ok((cannot("terms are added two at a time, and no order loses a bit"), Vec::new()))
}

/// Whether some orders lose what others keep; nothing if none keeps it.
fn order_matters(seen: Vec<Observation>, want: Option<u64>) -> Option<Answer> {
    let want = want?;
    let lost = seen.iter().any(|o| o.d != want);
    seen.iter().any(|o| o.d == want).then(|| (lost.into(), seen.into_iter().take(6).collect()))
}

/// Terms in every order at the first places, and 2^e at another one.
fn in_every_order(
    lab: &mut Lab<'_>,
    places: &[usize],
    values: &[(bool, u128, i32)],
    beside: Option<(usize, i32)>,
    shows: &str,
) -> Result<Vec<Observation>, Error> {
    let input = |order: Vec<usize>| {
        let terms = order.iter().zip(places).map(|(&v, &i)| (i, values[v].0, values[v].1, values[v].2));
        let terms: Vec<_> = terms.chain(beside.map(|(place, e)| (place, false, 1, e))).collect();
        (lab.terms(&terms), format!("{shows} {order:?}"))
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
fn carry_bits(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
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
        return Ok((Value::Number(enough.into()), seen.pop().into_iter().collect()));
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
