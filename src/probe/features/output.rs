//! How a sum becomes a result: output rounding; and whether products are exact.

use super::super::bench::{exact, normal, top};
use super::super::black_box::{Input, Interface};
use super::super::fit::roundings;
use super::alignment::{Widths, one};
use super::normalisation::{carry_bits, partial_sums, products_normalised};
use super::structure::Site;
use super::{Feature, Finding, Lab, Observation, cannot};
use crate::accumulate::Finish;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::{Fixed, LongAccumulator, Term};
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
    let (rules, rounding) = output_rounding(lab, site, widths, normalised.0 != Finding::Flag(false))?;
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

pub(super) type Answer = (Finding, Vec<Observation>);

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
        (Finding::Text(sums), Finding::Text(last)) if sums == last => sums.into(),
        (Finding::Text(sums), Finding::Text(last)) => format!("{sums} (sums of products), {last} (adding c)").into(),
        (Finding::Text(sums), _) => format!("{sums} (sums of products)").into(),
        (_, Finding::Text(last)) => format!("{last} (adding c)").into(),
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

fn one_rounding(d: &FormatSpec, found: &[Rule], sums: &[Sum]) -> Finding {
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
        let mut sum = LongAccumulator::default();
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
        // The head may be 2 and more times its exponent's power, so that its own exponent, as another term, is higher
        // by one.
        (2, Some(_)) if widths.bits().is_none_or(|f| f < ma + mb + 1) => {
            cannot("alignment may keep fewer bits than a product has")
        }
        (2, Some(_)) => false.into(),
        _ => cannot("no other term holds the head of the product"),
    };
    Ok((value, seen.into_iter().take(1).collect()))
}
