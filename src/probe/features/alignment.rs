//! How far below the largest term a sum keeps bits, and how the rest is rounded off.
//!
//! X - X + y in one sum leaves what alignment kept of y, undisturbed by the output rounding
//! (MMA-Sim III-D; the generalised form of Fasi 3.1.4). The answers are compared with what every
//! width, rounding and sticky bit would leave.

use super::super::bench::{Bench, exact, top};
use super::super::black_box::{Input, Interface};
use super::super::fit::roundings;
use super::super::reach::last_bit;
use super::below_c::below_c;
use super::structure::Site;
use super::{Feature, Finding, Lab, Observation, cannot, groups};
use crate::error::Error;
use crate::num::Fixed;
use crate::round::{self, Rounding};

/// A way of aligning: fraction bits, rounding, sticky bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) bits: i32,
    pub(super) rounding: Rounding,
    pub(super) sticky: bool,
}

/// What the answers left possible.
#[derive(Clone, Debug, Default)]
pub(super) struct Widths {
    /// Every way of aligning that explains them, where products are measured or else c is.
    pub(super) possible: Vec<Width>,
    /// Those that explain the answers at any place measured, if every place has one; the narrowest
    /// that is wide enough, where no term was seen to lose a bit.
    pub(super) everywhere: Vec<Width>,
    /// Whether products and c are cut by different rules.
    pub(super) differ: bool,
}

impl Widths {
    /// The one width there can be.
    pub(super) fn bits(&self) -> Option<i32> {
        one(self.possible.iter().map(|w| w.bits))
    }
}

/// The value all agree on.
pub(super) fn one<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|x| x == first).then_some(first)
}

impl Width {
    /// `magnitude * 2^e` aligned to `e_max`, exactly: units and the unit's exponent.
    pub(super) fn align(&self, negative: bool, magnitude: u128, e: i32, e_max: i32) -> (i128, i32) {
        let unit = e_max - self.bits;
        let x = Fixed { negative, magnitude, exponent: e, sticky: false };
        let rounded = round::to_multiple(x, unit, self.rounding);
        let sign = if negative { -1 } else { 1 };
        let units = sign * rounded.magnitude as i128;
        if !self.sticky {
            return (units, unit);
        }
        let up = match self.rounding {
            Rounding::Down => true,
            Rounding::Up => false,
            _ => !negative,
        };
        let bit = i128::from(!rounded.exact);
        (2 * units + if up { bit } else { -bit }, unit - 1)
    }
}

/// Significands of y.
const Y: [u128; 3] = [1, 3, 5];

/// The widest alignment looked for.
pub(super) const WIDEST: i32 = 76;

/// Place, sign, magnitude and exponent.
type Term = (usize, bool, u128, i32);

/// A question: y's sign, magnitude and exponent relative to X.
type Question = (bool, u128, i32);

fn questions() -> Vec<Question> {
    let gaps = 1..=WIDEST + 2;
    gaps.flat_map(|gap| Y.into_iter().flat_map(move |y| [(false, y, -gap), (true, y, -gap)])).collect()
}

/// The exponent of the smallest y at `place` that is returned as it is: subnormal, or of subnormal
/// operands, if those are not flushed.
pub(super) fn smallest(lab: &mut Lab<'_>, place: usize) -> Result<i32, Error> {
    let Interface { k, a, b, c, d, .. } = lab.bench.interface;
    let (last, normal) = match place == k {
        true => (last_bit(&c), c.emin()),
        false => (last_bit(&a) + last_bit(&b), lab.bench.product_range().0),
    };
    let last = last.max(last_bit(&d));
    let seen = lab.ask(vec![(lab.bench.terms(&[(place, false, 1, last)]), "the smallest y".into())])?;
    let kept = seen.first().is_some_and(|o| Some(o.d) == lab.bench.d(false, 1, last));
    Ok(if kept { last } else { normal.max(d.emin()) })
}

/// X's exponent: as large as a partial sum may be, so that y can be far below and still a result.
pub(super) fn largest(lab: &Lab<'_>, with_c: bool) -> i32 {
    let (high, product_high) = (lab.bench.common_range().1, lab.bench.product_range().1);
    let x = if with_c { high } else { product_high.min(60).min(high + 40) };
    x.min(top(&lab.bench.interface.d) - 1)
}

type Measured = (Vec<Width>, Vec<Observation>, bool);

/// The ways of aligning y at `place` beside X and -X at `beside` that explain the answers.
fn measure(lab: &mut Lab<'_>, beside: [usize; 2], place: usize) -> Result<Measured, Error> {
    let (product_low, product_high) = lab.bench.product_range();
    let (k, scaled) = (lab.bench.interface.k, lab.bench.interface.scale.is_some());
    let floor = smallest(lab, place)?;
    let x = largest(lab, beside.contains(&k));
    // Where c reaches that far, X = 1: groups summed in fixed point keep what is below their scales' exponent, whatever
    // the products' is. They are of few powers of two: where there are more, X is large, above a floor among them.
    let one = if product_high - product_low > 16 { product_high.min(60) } else { 0.clamp(product_low, product_high) };
    let near = if place == k && floor <= one - WIDEST - 2 { one.min(x) } else { x };
    let mut at = |x: i32| explained(lab, beside, place, (x, floor), Bench::terms);
    let measured = at(near)?;
    if scaled {
        return Ok(measured);
    }
    // Above a floor the width is the same whatever X is; below it, fewer bits are kept of a smaller one.
    let agree = |x: &Measured, y: &Measured| x.0.is_empty() || x.0.iter().any(|way| y.0.contains(way));
    let largest = if near == x { measured.clone() } else { at(x)? };
    if near < x && agree(&measured, &largest) {
        return Ok(measured);
    }
    let next = at(x - 1)?;
    Ok(if agree(&largest, &next) { largest } else { (Vec::new(), measured.1, false) })
}

/// The same by scales, for products in different blocks of them: formats may be too narrow to lose one another.
fn measure_scaled(lab: &mut Lab<'_>, products: &[usize]) -> Result<Option<Measured>, Error> {
    let Interface { d, scale: Some(rule), .. } = lab.bench.interface else { return Ok(None) };
    let block = |i: usize| i / rule.block.max(1);
    let Some((&to, others)) = products.split_first() else { return Ok(None) };
    let mut firsts: Vec<usize> = others.to_vec();
    firsts.retain(|&i| block(i) != block(to));
    firsts.dedup_by_key(|i| block(*i));
    // In three blocks if there are as many: X and -X of one may be gone before others are aligned.
    let [at, place] = match (firsts.as_slice(), others) {
        (&[at, place, ..], _) => [at, place],
        (&[place], &[at, ..]) if block(at) == block(to) => [at, place],
        _ => return Ok(None),
    };
    // A product is 1 times two scales.
    let x = (2 * top(&rule.format)).min(WIDEST / 2).min(top(&d) - 1);
    let floor = (2 * rule.format.emin()).max(d.emin());
    explained(lab, [to, at], place, (x, floor), Bench::terms_in_blocks).map(Some)
}

/// How the answers to X - X + y explain alignment, X = 2^x, y no smaller than 2^floor.
fn explained(
    lab: &mut Lab<'_>,
    beside: [usize; 2],
    place: usize,
    (x, floor): (i32, i32),
    input: impl Fn(&Bench, &[Term]) -> Option<Input>,
) -> Result<Measured, Error> {
    let d = lab.bench.interface.d;
    let mut asked = Vec::new();
    let mut inputs = Vec::new();
    for (negative, y, gap) in questions() {
        let e = x + gap;
        if e < floor {
            continue;
        }
        let terms = [(beside[0], false, 1, x), (beside[1], true, 1, x), (place, negative, y, e)];
        if let Some(input) = input(&lab.bench, &terms) {
            asked.push((negative, y, e));
            inputs.push((Some(input), format!("X - X {} {y} * 2^{e}, X = 2^{x}", if negative { '-' } else { '+' })));
        }
    }
    let seen = lab.ask(inputs)?;
    let explains = |w: &Width| {
        asked.iter().zip(&seen).all(|(&(negative, y, e), o)| {
            let (units, unit) = w.align(negative, y, e, x);
            let want = exact(&d, units < 0, units.unsigned_abs(), unit);
            want == Some(o.d) || (units == 0 && d.decode(o.d).is_zero())
        })
    };
    let widths = (1..=WIDEST).flat_map(|bits| {
        roundings().flat_map(move |rounding| [false, true].map(|sticky| Width { bits, rounding, sticky }))
    });
    let possible: Vec<Width> = widths.filter(explains).collect();
    let whole = asked.iter().zip(&seen).all(|(&(n, y, e), o)| exact(&d, n, y, e) == Some(o.d));
    Ok((possible, telling(&asked, seen), whole))
}

/// The observations around the last bit kept: the last exact one, and what follows.
fn telling(asked: &[Question], seen: Vec<Observation>) -> Vec<Observation> {
    let first_lost = asked.windows(7).position(|_| false).unwrap_or_else(|| {
        let zeroish = seen.windows(2).position(|w| w[0].d == w[1].d);
        zeroish.unwrap_or(seen.len())
    });
    let from = first_lost.saturating_sub(8).min(seen.len());
    seen.into_iter().skip(from).take(16).collect()
}

/// `fraction_bits`, `extra_alignment_bits`, `alignment_rounding` and `sticky`; and `interleave` again, where sums are
/// of groups.
pub(super) fn features(lab: &mut Lab<'_>, site: &Site, all: &mut Vec<Feature>) -> Result<Widths, Error> {
    let k = lab.bench.interface.k;
    let p = &site.products;
    let among_products = (p.len() >= 3).then(|| ([p[0], p[1]], p[2]));
    // c's own sum need not be the one whose products are measured.
    let with_c = (site.beside_c.len() >= 2).then(|| ([site.beside_c[0], site.beside_c[1]], k));
    let mut found = Vec::new();
    if let &[a, b, c, ..] = p.as_slice() {
        let last = p[p.len() - 1];
        let mut measured = measure(lab, [a, b], c)?;
        // What a sum of groups cuts off is no rule of X and -X in two of them; perhaps they are in one elsewhere.
        for (to, at) in [(c, b), (last, b)] {
            if measured.0.is_empty() && at != to {
                let other = measure(lab, [a, to], at)?;
                measured = if other.0.is_empty() { measured } else { other };
            }
        }
        found.push(("products", measured));
    }
    if let Some((beside, place)) = with_c {
        found.push(("c", measure(lab, beside, place)?));
    }
    let bits = found.first().and_then(|(_, (ways, _, _))| one(ways.iter().map(|w| w.bits)));
    let mut in_groups = false;
    if let (true, Some((beside, _)), Some(bits)) = (site.known, among_products, bits)
        && let Some((names, other)) = narrower_groups(lab, p, beside[0], bits, all)?
    {
        in_groups = true;
        found[0].0 = names[0];
        found.insert(1, (names[1], other));
    }
    let Some((_, (possible, _, _))) = found.first().cloned() else {
        push_unknown(all, "terms are added two at a time");
        return Ok(Widths::default());
    };
    // Narrow products never reach what alignment cuts off; c may.
    found.retain(|(_, (possible, _, exact))| !exact || possible.len() == 1);
    if found.is_empty()
        && let Some(measured) = measure_scaled(lab, p)?
    {
        found.extend((!measured.2).then_some(("products", measured)));
    }
    let Some((_, (possible, _, _))) = found.first().cloned() else {
        let widest = possible.iter().map(|w| w.bits).min();
        push_unknown(all, &format!("every term is kept whole: exact, or at least {} bits", widest.unwrap_or(WIDEST)));
        let wide = Width { bits: widest.unwrap_or(WIDEST), rounding: Rounding::TowardZero, sticky: false };
        return Ok(Widths { everywhere: vec![wide], ..Widths::default() });
    };
    if possible.is_empty() {
        push_unknown(all, "no single width, rounding and sticky bit explains what is left of y");
        // Perhaps because products are summed in groups.
        if let Some(interleave) = all.iter_mut().find(|f| f.name == "interleave" && site.known && p.len() >= 4) {
            interleave.value = format!("{}; in a block, cannot tell", interleave.value).into();
        }
        return Ok(Widths::default());
    }
    if site.known {
        let (beside, evidence) = below_c(lab, site, &possible)?;
        found.extend(beside.into_iter().map(|(name, ways)| (name, (ways, evidence.clone(), false))));
    }
    if site.known && !in_groups {
        groups::scaled(lab, site, &possible, all)?;
        groups::equal(lab, site, &possible, all)?;
    }
    let evidence: Vec<Observation> = found.iter().flat_map(|(_, (_, evidence, _))| evidence).cloned().collect();
    report(lab, all, &found, &evidence);
    let ways = || found.iter().map(|(_, (ways, _, _))| ways);
    let everywhere = if ways().any(Vec::is_empty) { Vec::new() } else { ways().flatten().copied().collect() };
    let differ = ways().any(|ways| !ways.iter().any(|way| possible.contains(way)));
    Ok(Widths { possible, everywhere, differ })
}

/// Where products of one sum are first summed in groups that keep fewer bits: says which in `interleave`, and gives the
/// names of the places measured so far and of a product beside another group, and how that one is aligned.
fn narrower_groups(
    lab: &mut Lab<'_>,
    products: &[usize],
    beside: usize,
    bits: i32,
    all: &mut [Feature],
) -> Result<Option<([&'static str; 2], Measured)>, Error> {
    let Some(([to, at], apart)) = groups::narrower(lab, products, bits)? else { return Ok(None) };
    let other = measure(lab, [beside, to], at)?;
    let more = groups::narrower(lab, &apart, bits)?.is_some();
    let own: Vec<usize> = products.iter().copied().filter(|i| !apart.contains(i)).collect();
    // Else the first three products are of several groups, and what was measured among them is the other rule; or a
    // group keeps more bits than the whole.
    let is_group = !other.0.is_empty() && groups::narrower(lab, &own, bits)?.is_none();
    if let Some(interleave) = all.iter_mut().find(|f| f.name == "interleave") {
        let by_parity = apart.iter().all(|i| i % 2 == 1) && 2 * apart.len() == products.len();
        let groups = match (is_group, more, by_parity) {
            (false, ..) => "some products apart from others".into(),
            (true, true, _) => format!("more than two groups apart, one of them {own:?}"),
            (true, false, true) => "even and odd k apart".into(),
            (true, false, false) => format!("those of {apart:?} apart"),
        };
        interleave.value = format!("{}; in a block, {groups}", interleave.value).into();
        interleave.evidence.extend(other.1.iter().cloned());
    }
    let names = if is_group { ["products", "beside another group"] } else { ["some products", "others"] };
    Ok(Some((names, other)))
}

type Found = (&'static str, Measured);

fn report(lab: &Lab<'_>, all: &mut Vec<Feature>, found: &[Found], evidence: &[Observation]) {
    // At the first place one value; at others what explains the answers there, if that is another or may not be.
    let per_place = |of: &dyn Fn(&Width) -> String| -> Finding {
        let Some(first) = one(found[0].1.0.iter().map(of)) else { return cannot("several explain the answers") };
        let differs = |(_, (ways, ..)): &Found| ways.iter().map(of).all(|value| value != first);
        if !found.iter().any(differs) {
            return first.parse().map_or_else(|_| first.clone().into(), Finding::Number);
        }
        let each = found.iter().map(|(name, (ways, ..))| {
            let mut values: Vec<String> = Vec::new();
            for value in ways.iter().map(of) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let widest = ways.iter().any(|w| w.bits == WIDEST);
            let value = match values.as_slice() {
                [] => "no single rule".to_owned(),
                values @ ([_] | [_, _]) => values.join(" or "),
                // Where the widest that is looked for explains the answers, nothing was seen to be cut off.
                [least, ..] if widest && least.parse::<i32>().is_ok() => format!("at least {least}"),
                _ => "cannot tell".to_owned(),
            };
            format!("{value} ({name})")
        });
        each.collect::<Vec<_>>().join(", ").into()
    };
    let mut push = |name, value| all.push(Feature { name, value, evidence: evidence.to_vec() });
    let output = i64::from(lab.bench.interface.d.fraction_bits);
    let bits = per_place(&|w| w.bits.to_string());
    let extra = match (&bits, one(found[0].1.0.iter().map(|w| w.bits))) {
        (_, Some(f)) => Finding::Number(i64::from(f) - output),
        (other, None) => other.clone(),
    };
    push("fraction_bits", bits);
    push("extra_alignment_bits", extra);
    push("alignment_rounding", per_place(&|w| w.rounding.to_string()));
    let sticky = one(found[0].1.0.iter().map(|w| w.sticky));
    push("sticky", sticky.map_or_else(|| cannot("both explain the answers"), Finding::Flag));
}

fn push_unknown(all: &mut Vec<Feature>, why: &str) {
    for name in ["fraction_bits", "extra_alignment_bits", "alignment_rounding", "sticky"] {
        all.push(Feature { name, value: cannot(why), evidence: Vec::new() });
    }
}
