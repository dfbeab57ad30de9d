//! What products keep beside a larger c, where that is another rule than among themselves: CDNA3 cuts products against
//! their own largest exponent, and their sum against c's.

use super::super::bench::top;
use super::alignment::Width;
use super::structure::Site;
use super::{Lab, Observation};
use crate::error::Error;
use crate::round::Rounding;

/// Bits below a tie that are tried.
const BELOW: i32 = 20;

/// Places, and how products are cut there.
type Places = Vec<(&'static str, Width)>;

/// How products are cut beside a larger c, if not in one of these `ways`; told where results are rounded to nearest even: c
/// and half of its last place is a tie, which one more bit takes away from c as long as it is kept.
pub(super) fn below_c(lab: &mut Lab<'_>, site: &Site, ways: &[Width]) -> Result<(Places, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let nothing = (Vec::new(), Vec::new());
    // In the last sum that c comes to: a later one could cut the result again, as a c of its own.
    let last = &site.last.products;
    let places = if site.last.other == Some(i.k) && last.len() >= 2 { last } else { &site.beside_c };
    let &[first, second, ..] = places.as_slice() else { return Ok(nothing) };
    let p = i.d.fraction_bits as i32;
    if i.c.fraction_bits != i.d.fraction_bits || i.scale.is_some() {
        return Ok(nothing);
    }
    let half = lab.bench.product_range().1.min(top(&i.c).min(top(&i.d)) - p - 3);
    let x = half + p + 1;
    let term = |lab: &Lab<'_>, negative: bool, below: Option<i32>| {
        let mut terms = vec![(i.k, false, 3, x - 1), (first, negative, 1, half)];
        terms.extend(below.map(|n| (second, negative, 1, half - n)));
        lab.terms(&terms)
    };
    // Bits kept, if there is an end to them.
    let mut ends = Vec::new();
    let mut evidence = Vec::new();
    for negative in [false, true] {
        let sign = if negative { '-' } else { '+' };
        let below = std::iter::once(None).chain((1..=BELOW).map(Some));
        let questions = below.map(|n| {
            let more = n.map_or(String::new(), |n| format!(" {sign} 2^{}", half - n));
            (term(lab, negative, n), format!("1.5 * 2^{x} {sign} 2^{half}{more}"))
        });
        let seen = lab.ask(questions.collect())?;
        let Some(tie) = seen.first().filter(|o| Some(o.d) == lab.bench.d(false, 3, x - 1)) else { return Ok(nothing) };
        let kept = seen[1..].iter().take_while(|o| o.d != tie.d).count();
        // After the last one that is kept, none is.
        if seen[1..].iter().skip(kept).any(|o| o.d != tie.d) {
            return Ok(nothing);
        }
        let end = Some(p + 1 + kept as i32).filter(|_| kept < seen.len() - 1);
        evidence.extend(seen.into_iter().take(kept + 2).skip(kept.saturating_sub(1)));
        // Where nothing is kept below the tie, the half may be gone as well.
        let Some(end) = (if kept == 0 { above(lab, places, negative, x)? } else { Some(end) }) else {
            return Ok(nothing);
        };
        ends.push(end);
    }
    let [plus, minus] = ends[..] else { return Ok(nothing) };
    let width = |bits: i32, rounding: Rounding| Width { bits, rounding, sticky: false };
    let found: Places = match (plus, minus) {
        (Some(plus), Some(minus)) if plus == minus => vec![(PRODUCTS, width(plus, Rounding::TowardZero))],
        (Some(plus), Some(minus)) => vec![
            ("positive products beside a larger positive c", width(plus, Rounding::TowardZero)),
            ("negative products beside a larger positive c", width(minus, Rounding::TowardZero)),
        ],
        (Some(plus), None) => vec![(PRODUCTS, width(plus, Rounding::Down))],
        (None, Some(minus)) => vec![(PRODUCTS, width(minus, Rounding::Up))],
        (None, None) => Vec::new(),
    };
    let one_rule = found.len() == 1 && ways.iter().any(|way| explains(way, &found[0].1));
    Ok(if one_rule { nothing } else { (found, evidence) })
}

/// The bits kept of one product beside an odd c, from half of c's last place upward: a tie goes to the even neighbour.
/// None where that is not known, or not even a large one is seen.
fn above(lab: &mut Lab<'_>, places: &[usize], negative: bool, x: i32) -> Result<Option<Option<i32>>, Error> {
    let p = lab.bench.interface.d.fraction_bits as i32;
    let c = (lab.bench.interface.k, false, (3 << (p - 1)) + 1, x - p);
    let inputs = (0..p).map(|up| lab.terms(&[c, (places[0], negative, 1, x - p - 1 + up)]));
    let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let seen = lab.ask(inputs.into_iter().map(|input| (Some(input), String::new())).collect())?;
    let unmoved = lab.bench.d(c.1, c.2, c.3);
    let lost = seen.iter().take_while(|o| Some(o.d) == unmoved).count();
    // c itself must be kept whole, and what is not lost be seen as what it is.
    let by = 1 << lost.saturating_sub(1);
    let moved = lab.bench.d(c.1, if negative { c.2 - by } else { c.2 + by }, c.3);
    let alone = lab.ask(vec![(lab.terms(&[c]), String::new())])?;
    if alone.iter().any(|o| Some(o.d) != unmoved) || seen.get(lost).is_none_or(|o| Some(o.d) != moved) {
        return Ok(None);
    }
    // The half alone may be there and rounded toward zero.
    let told = lost != 1 || ties_to_even(lab, places)?;
    Ok(told.then_some(Some(p + 1 - lost as i32)))
}

/// Whether products that sum to an odd number and half of its last place leave the even one above.
fn ties_to_even(lab: &mut Lab<'_>, places: &[usize]) -> Result<bool, Error> {
    let p = lab.bench.interface.d.fraction_bits as i32;
    let &[i, j, l, ..] = places else { return Ok(false) };
    let x = lab.bench.product_range().1.min(top(&lab.bench.interface.d) - 1);
    let input = lab.terms(&[(i, false, 1, x), (j, false, 1, x - p), (l, false, 1, x - p - 1)]);
    let seen = lab.ask(vec![(input, String::new())])?;
    Ok(seen.first().is_some_and(|o| Some(o.d) == lab.bench.d(false, (1 << (p - 1)) + 1, x - p + 1)))
}

const PRODUCTS: &str = "products beside a larger c";

/// Whether terms cut as `all` says leave what terms cut as `some` says leave: rounded to nearest, half a last place counts.
fn explains(all: &Width, some: &Width) -> bool {
    let directed = matches!(all.rounding, Rounding::TowardZero | Rounding::Down | Rounding::Up);
    all.bits == some.bits || (!directed && all.bits + 1 == some.bits)
}
