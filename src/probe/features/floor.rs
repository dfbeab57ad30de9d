//! The alignment floor: the smallest exponent that terms are aligned to.

use super::super::bench::{exact, power};
use super::super::black_box::{Input, Interface};
use super::super::reach::last_bit;
use super::alignment::{Width, Widths, one};
use super::output::{Rule, rounded};
use super::structure::Site;
use super::{Finding, Lab, Observation, cannot};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::Fixed;

type Answer = (Finding, Vec<Observation>);

/// A place (c is K), sign, magnitude and exponent.
type Placed = (usize, bool, u128, i32);

/// A few powers of two to be summed.
struct Tiny {
    terms: Vec<Placed>,
    /// The largest exponent as their operands are written.
    stored: i32,
    /// The largest exponent, were a subnormal c normalised.
    normalised: i32,
}

/// How tiny sums become results, if alignment never goes below a floor.
#[derive(Clone, Copy)]
struct Model {
    width: Width,
    rule: Rule,
    flushes: bool,
    normalised_c: bool,
}

impl Model {
    fn result(&self, d: &FormatSpec, tiny: &Tiny, floor: Option<i32>) -> u64 {
        let own = if self.normalised_c { tiny.normalised } else { tiny.stored };
        let e_max = floor.map_or(own, |floor| floor.max(own));
        let aligned = tiny.terms.iter().map(|&(_, negative, m, e)| self.width.align(negative, m, e, e_max));
        let (units, unit) = aligned.fold((0, 0), |(sum, _), (units, unit)| (sum + units, unit));
        let code = rounded(d, self.rule, Fixed::from_units(units, unit));
        let x = d.decode(code);
        if x.is_zero() || (self.flushes && x.is_subnormal()) { 0 } else { code }
    }

    /// The largest floor that changes no result: no bit of any term is below what it keeps, `narrowest` bits at
    /// least, or no term's exponent is below it.
    fn harmless(&self, i: &Interface, with_c: bool, narrowest: i32) -> i32 {
        let scales = |of: &dyn Fn(&FormatSpec) -> i32| i.scale.map_or(0, |rule| 2 * of(&rule.format));
        let mut last = last_bit(&i.a) + last_bit(&i.b) + scales(&last_bit);
        let mut low = i.a.emin() + i.b.emin() + scales(&FormatSpec::emin);
        if with_c {
            last = last.min(last_bit(&i.c));
            low = low.min(if self.normalised_c { last_bit(&i.c) } else { i.c.emin() });
        }
        low.max(last + self.width.bits.min(narrowest))
    }
}

/// Tiny sums, and the box's answers.
struct Answers {
    d: FormatSpec,
    asked: Vec<Tiny>,
    seen: Vec<Observation>,
}

impl Answers {
    fn explained(&self, model: &Model, floor: Option<i32>) -> bool {
        let ignore_sign = |code: u64| if self.d.decode(code).is_zero() { 0 } else { code };
        self.asked.iter().zip(&self.seen).all(|(tiny, o)| model.result(&self.d, tiny, floor) == ignore_sign(o.d))
    }

    /// An answer that this floor explains and another one does not.
    fn refuting(&self, model: &Model, floor: Option<i32>, other: i32) -> Option<Observation> {
        let differs = |tiny: &Tiny| model.result(&self.d, tiny, floor) != model.result(&self.d, tiny, Some(other));
        let (_, o) = self.asked.iter().zip(&self.seen).find(|(tiny, _)| differs(tiny))?;
        Some(refutes(o, other))
    }
}

fn refutes(o: &Observation, floor: i32) -> Observation {
    Observation { shows: format!("{}: refutes a floor of {floor}", o.shows), ..o.clone() }
}

/// Ways of aligning, rounding and flushing that are told apart.
const MOST_MODELS: usize = 600;

/// The smallest exponent that terms are aligned to, from tiny terms alone and beside the smallest
/// results (the floor tests of docs/numerics.md, for any widths). Told only if all other floors
/// within reach are refuted; the evidence refutes its two neighbours.
pub(super) fn e_zero(lab: &mut Lab<'_>, site: &Site, widths: &Widths, roundings: &[Rule]) -> Result<Answer, Error> {
    let interface = lab.bench.interface;
    let with_c = site.last.other == Some(interface.k);
    let models = models(lab, widths, roundings, with_c);
    if models.is_empty() || models.len() > MOST_MODELS {
        return Ok((cannot("width or rounding are not known"), Vec::new()));
    }
    if site.last.products.len() < 2 {
        return Ok((cannot("no last sum of two products is known"), Vec::new()));
    }
    let (asked, inputs) = tiny_sums(lab, site, with_c, &models);
    let answers = Answers { d: interface.d, asked, seen: lab.ask(inputs)? };
    let highest = answers.asked.iter().map(|tiny| tiny.stored).max().unwrap_or(0).max(interface.d.emin()) + 80;
    let floors = || core::iter::once(None).chain((interface.d.emin() - 100..highest).map(Some));
    let possible: Vec<(Model, Option<i32>)> = models
        .iter()
        .flat_map(|m| floors().filter(|&floor| answers.explained(m, floor)).map(|floor| (*m, floor)))
        .collect();
    let Some(&(model, floor)) = possible.first() else { return by_ties(lab, site, widths) };
    if let Some(floor) = floor {
        // A floor that one rule needs may be what another rule leaves.
        if widths.differ {
            return by_ties(lab, site, widths);
        }
        if one(possible.iter().map(|p| p.1)).is_none() {
            return Ok((cannot("several floors explain the answers"), Vec::new()));
        }
        let refuting = |other| answers.refuting(&model, Some(floor), other);
        return Ok((floor.into(), [floor + 1, floor - 1].into_iter().filter_map(refuting).collect()));
    }
    let Some((model, highest)) = possible.iter().filter_map(|&(m, floor)| Some((m, floor?))).max_by_key(|p| p.1) else {
        return Ok(("none".into(), answers.seen.into_iter().take(6).collect()));
    };
    let Some(above) = answers.refuting(&model, None, highest + 1) else {
        return Ok((cannot("no result depends on a floor"), Vec::new()));
    };
    let narrowest = widths.everywhere.iter().map(|w| w.bits).min().unwrap_or(i32::MAX);
    let harmless = |m: &Model| m.harmless(&interface, with_c, narrowest);
    let same = possible.iter().all(|(m, floor)| floor.is_none_or(|floor| floor <= harmless(m)));
    let value = match same {
        true => cannot(format!("none, or any up to {highest}: for numbers of these formats one function")),
        false => format!("none, or at most {highest}").into(),
    };
    Ok((value, vec![above]))
}

/// Every way in which the box may align and round tiny sums.
fn models(lab: &Lab<'_>, widths: &Widths, roundings: &[Rule], with_c: bool) -> Vec<Model> {
    // What was flushed may have been the result of an earlier sum, as an operand of the last one.
    let flushes: &[bool] = if lab.flushes.results { &[false, true] } else { &[false] };
    let normalised: &[bool] = if with_c { &[false, true] } else { &[false] };
    let ways = widths.possible.iter().flat_map(|&width| roundings.iter().map(move |&rule| (width, rule)));
    let ways = ways.flat_map(|way| flushes.iter().map(move |&flushes| (way, flushes)));
    ways.flat_map(|((width, rule), flushes)| {
        normalised.iter().map(move |&normalised_c| Model { width, rule, flushes, normalised_c })
    })
    .collect()
}

/// Powers of two alone, and beside the smallest result (or the smallest product, if that is larger), half
/// of it, and one and a half; two that cancel or nearly so; and c alone, of one bit or two.
fn tiny_sums(lab: &Lab<'_>, site: &Site, with_c: bool, models: &[Model]) -> (Vec<Tiny>, Vec<(Option<Input>, String)>) {
    let Interface { k, a, b, c, d, scale } = lab.bench.interface;
    let bits = |m: &Model| m.rule.1.unwrap_or(d.fraction_bits) as i32;
    let quantum = d.emin() - models.iter().map(bits).max().unwrap_or(0);
    let smallest = last_bit(&a) + last_bit(&b) + scale.map_or(0, |rule| 2 * last_bit(&rule.format));
    let bottom = quantum.max(smallest);
    let normal = lab.bench.product_range().0;
    let mut sums: Vec<Vec<(bool, u128, i32)>> = Vec::new();
    for negative in [false, true] {
        let highest = d.emin().max(bottom + d.fraction_bits as i32).max(normal);
        sums.extend((bottom - 1..=highest).map(|e| vec![(negative, 1, e)]));
        // The smallest product of normal numbers has as low bits, where subnormal ones are read as zero.
        let low_bits = (1..=(a.fraction_bits + b.fraction_bits) as i32).filter(|n| normal - n >= bottom);
        sums.extend(low_bits.map(|n| vec![(negative, (1 << n) + 1, normal - n)]));
        for (m, e) in [(1, bottom), (1, bottom - 1), (3, bottom - 1)] {
            for sign in [false, true] {
                sums.extend((bottom - 45..e).rev().map(|tiny| vec![(negative, m, e), (sign, 1, tiny)]));
            }
        }
    }
    // Terms that cancel leave a last bit where they are cut in one direction, others none where a sticky bit stands for
    // each.
    sums.extend((bottom - 45..bottom).flat_map(|e| [e, e - 1].map(|less| vec![(false, 1, e), (true, 1, less)])));
    let smallest_c = if lab.flushes.addend { c.emin() } else { last_bit(&c) };
    let powers = (smallest_c..=c.emin()).map(|e| (1, e));
    // The smallest normal one has as low bits, where subnormal ones are read as zero.
    let with_a_bit = (1..=c.fraction_bits as i32).map(|n| ((1 << n) + 1, c.emin() - n));
    let lone_c = powers.chain(with_a_bit).map(|(m, e)| vec![(k, false, m, e)]).filter(|_| with_c);
    let lone_c = lone_c.filter_map(|terms| Some((lab.bench.terms(&terms)?, terms)));
    // A product of 2 or more, as its operands are written, is aligned in two ways, which are no floors.
    let as_written = |(input, terms): &(Input, Vec<Placed>)| {
        let below_two =
            |&(at, _, m, e): &Placed| m == 1 || lab.bench.product_exponent(input, at) == e + m.ilog2() as i32;
        terms.len() > 1 || terms.iter().all(below_two)
    };
    let products = sums.iter().filter_map(|terms| placed(lab, &site.last.products, terms)).filter(as_written);
    let (mut asked, mut inputs) = (Vec::new(), Vec::new());
    for (input, terms) in products.chain(lone_c) {
        let exponent = |k_of: usize| if k_of == k { c.emin() } else { lab.bench.product_exponent(&input, k_of) };
        let stored = terms.iter().map(|t| exponent(t.0)).max().unwrap_or(0);
        let normalised = if terms[0].0 == k { terms[0].3 + terms[0].2.ilog2() as i32 } else { stored };
        let text = |&(at, negative, m, e): &Placed| {
            format!("{}{m} * 2^{e}{}", if negative { '-' } else { '+' }, if at == k { " (c)" } else { "" })
        };
        let shows: Vec<String> = terms.iter().map(text).collect();
        inputs.push((Some(input), format!("{}, the smallest result being 2^{quantum}", shows.join(" "))));
        asked.push(Tiny { terms, stored, normalised });
    }
    (asked, inputs)
}

/// An input of one or two terms: the second at the last of these places, the first at another one, or in
/// equal parts at as many of them as it takes to reach it from the second with narrow formats.
fn placed(lab: &Lab<'_>, places: &[usize], terms: &[(bool, u128, i32)]) -> Option<(Input, Vec<Placed>)> {
    let ((&last, others), (&(negative, m, e), rest)) = (places.split_last()?, terms.split_first()?);
    (0..=places.len().ilog2()).find_map(|parts| {
        let base = others.get(..1 << parts)?.iter().map(|&k| (k, negative, m, e - parts as i32));
        let all: Vec<Placed> = base.chain(rest.iter().map(|&(negative, m, e)| (last, negative, m, e))).collect();
        let input = lab.bench.terms_in_blocks(&all).or_else(|| lab.bench.scaled_terms(&all))?;
        lab.reads(&input).then_some((input, all))
    })
}

/// Where sums are cut again after their products were, ties of the output show the last bit kept: beside
/// c = 2^L and half of its last bit, the smallest product that still rounds up. It moves with L, but not below
/// the floor.
fn by_ties(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let Interface { k, c, d, .. } = lab.bench.interface;
    let unexplained = || {
        Ok((
            cannot(if widths.differ {
                "products and c are cut by different rules"
            } else {
                "no floor explains the answers"
            }),
            Vec::new(),
        ))
    };
    let (&[half, small, ..], Some(narrowest)) =
        (site.last.products.as_slice(), widths.everywhere.iter().map(|w| w.bits).min())
    else {
        return unexplained();
    };
    let mut kept = Vec::new();
    for lead in d.emin() - AROUND..=d.emin() + AROUND {
        let tie = lead.max(d.emin()) - d.fraction_bits as i32 - 1;
        // The products' own cut is lower.
        let smalls: Vec<i32> = (tie - narrowest + 1..tie).rev().collect();
        let questions = smalls.iter().map(|&e| {
            let input = lab.bench.terms(&[(k, false, 1, lead), (half, false, 1, tie), (small, false, 1, e)]);
            (input.filter(|x| lab.reads(x)), format!("2^{lead} + 2^{tie} + 2^{e}"))
        });
        let seen = lab.ask(questions.collect())?;
        let rounds_up = |o: &Observation| Some(o.d) != exact(&d, false, 1, lead);
        let count = seen.iter().take_while(|o| rounds_up(o)).count();
        let told = seen.len() == smalls.len() && power(&c, false, lead).is_some();
        if !told || count == 0 || count == seen.len() || seen[count..].iter().any(rounds_up) {
            return unexplained();
        }
        kept.push((lead, smalls[count - 1], [seen[count - 1].clone(), seen[count].clone()]));
    }
    let cut = |floor: i32| one(kept.iter().map(|&(lead, last, _)| lead.max(floor) - last));
    let mut floors = kept[1..kept.len() - 1].iter().zip(1..).filter(|((lead, ..), _)| cut(*lead).is_some());
    match (floors.next(), floors.next()) {
        (Some(((floor, _, [survives, _]), at)), None) => {
            let (_, _, [_, lost]) = &kept[at - 1];
            Ok(((*floor).into(), vec![refutes(survives, floor + 1), refutes(lost, floor - 1)]))
        }
        _ => unexplained(),
    }
}

/// Exponents on both sides of the smallest normal result.
const AROUND: i32 = 4;
