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

/// How products are cut beside a larger c, told where results are rounded to nearest even: c and half of its last place is
/// a tie, which one more bit takes away from c as long as it is kept.
pub(super) fn below_c(lab: &mut Lab<'_>, site: &Site) -> Result<Option<(Width, Vec<Observation>)>, Error> {
    let i = lab.bench.interface;
    // In the last sum that c comes to: a later one could cut the result again, as a c of its own.
    let last = &site.last.products;
    let places = if site.last.other == Some(i.k) && last.len() >= 2 { last } else { &site.beside_c };
    let &[first, second, ..] = places.as_slice() else { return Ok(None) };
    let p = i.d.fraction_bits as i32;
    if i.c.fraction_bits != i.d.fraction_bits || i.scale.is_some() {
        return Ok(None);
    }
    let half = lab.bench.product_range().1.min(top(&i.c).min(top(&i.d)) - p - 3);
    let x = half + p + 1;
    let term = |lab: &Lab<'_>, negative: bool, below: Option<i32>| {
        let mut terms = vec![(i.k, false, 3, x - 1), (first, negative, 1, half)];
        terms.extend(below.map(|n| (second, negative, 1, half - n)));
        lab.terms(&terms)
    };
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
        let Some(tie) = seen.first().filter(|o| Some(o.d) == lab.bench.d(false, 3, x - 1)) else { return Ok(None) };
        let kept = seen[1..].iter().take_while(|o| o.d != tie.d).count();
        // After the last one that is kept, none is.
        let end = seen[1..].iter().skip(kept).all(|o| o.d == tie.d) && kept < seen.len() - 1;
        ends.push((kept as i32, end));
        evidence.extend(seen.into_iter().take(kept + 2).skip(kept.saturating_sub(1)));
    }
    let [(plus, plus_ends), (minus, minus_ends)] = ends[..] else { return Ok(None) };
    let (kept, rounding) = match (plus_ends && plus > 0, minus_ends && minus > 0) {
        (true, true) if plus == minus => (plus, Rounding::TowardZero),
        (true, false) if !minus_ends => (plus, Rounding::Down),
        (false, true) if !plus_ends => (minus, Rounding::Up),
        _ => return Ok(None),
    };
    Ok(Some((Width { bits: p + 1 + kept, rounding, sticky: false }, evidence)))
}
