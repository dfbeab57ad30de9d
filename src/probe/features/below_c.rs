//! What products keep beside a larger c, where that is another rule than among themselves: CDNA3 cuts products against
//! their own largest exponent, and their sum against c's.

use super::super::bench::{exact, top};
use super::super::fit::roundings;
use super::alignment::{WIDEST, Width};
use super::output::rounded;
use super::structure::Site;
use super::{Lab, Observation};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::Fixed;
use crate::round::Rounding;

/// Bits below half of c's last place that are tried.
const BELOW: i32 = 20;

/// What is added to an even c, in units of its last place.
const EVEN_ODD: [u128; 2] = [0, 1];

/// Places, and the ways in which products may be cut there.
type Places = Vec<(&'static str, Vec<Width>)>;

/// How products become terms beside c.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Each for itself.
    Terms,
    /// Their sum.
    Sum,
}

/// c, its magnitude in units of its last place, and up to three products: magnitudes and exponents, less than zero if
/// they take away from the first.
struct Question {
    c: (bool, u128),
    negative: bool,
    products: Vec<(i128, i32)>,
}

/// Sums of one, two or three products in units of 2^half: powers of two up to 2^p; one and a bit more or less that is
/// up to `below` places lower, or three of a place below that; and, for a third place, one and two such bits, which
/// tell what is cut of each from what is cut of their sum.
fn sums(p: i32, half: i32, below: i32, places: usize) -> Vec<Vec<(i128, i32)>> {
    let single = (0..=p).rev().map(|up| vec![(1, half + up)]);
    let tails = (1..=below).flat_map(|n| [(1, half - n), (-1, half - n), (3, half - n - 1), (-3, half - n - 1)]);
    let with_tail = tails.map(|tail| vec![(1, half), tail]);
    let two = (1..below).flat_map(|n| {
        let (tail, next) = (half - n, half - n - 1);
        [[(1, tail), (1, tail)], [(1, tail), (-1, next)], [(-1, tail), (-1, tail)], [(-1, tail), (1, next)]]
    });
    let with_two = two.filter(|_| places >= 3).map(|[tail, other]| vec![(1, half), tail, other]);
    core::iter::once(vec![]).chain(single).chain(with_tail).chain(with_two).collect()
}

/// Questions about sums of c's binade, with the box's answers.
struct Answers {
    d: FormatSpec,
    /// The exponent of c, and of its last place.
    x: i32,
    ulp: i32,
    asked: Vec<(Question, Observation)>,
}

impl Answers {
    /// Asks for products at these places, which among themselves keep `own` bits; none if c alone is not what it is.
    /// Products that are a result before c comes (`late`) must be one that is exact.
    fn to(lab: &mut Lab<'_>, places: &[usize], own: i32, late: bool) -> Result<Option<Self>, Error> {
        let i = lab.bench.interface;
        let p = i.d.fraction_bits as i32;
        let half = lab.bench.product_range().1.min(top(&i.c).min(top(&i.d)) - p - 3);
        let (x, ulp) = (half + p + 1, half + 1);
        // What products lose beside one another, or as a result, is no matter of c.
        let mut sums = sums(p, half, BELOW.min(own - 1).min(p), places.len());
        if late {
            let kept = kept_alone(lab, places, &sums)?;
            sums = sums.into_iter().zip(kept).filter_map(|(sum, kept)| kept.then_some(sum)).collect();
        }
        let signs = [false, true].into_iter().flat_map(|c| [false, true].map(|products| (c, products)));
        let all = signs.flat_map(|(c, negative)| {
            let sums = &sums;
            EVEN_ODD.into_iter().flat_map(move |more| {
                let c = (c, (3 << (p - 1)) + more);
                sums.iter().map(move |products| Question { c, negative, products: products.clone() })
            })
        });
        let (mut kept, mut inputs) = (Vec::new(), Vec::new());
        for question in all {
            let (negative, c) = question.c;
            let products = terms(&question.products, places, question.negative);
            let terms: Vec<_> = core::iter::once((i.k, negative, c, ulp)).chain(products).collect();
            let text = |&(_, negative, m, e): &(usize, bool, u128, i32)| {
                format!("{}{m} * 2^{e}", if negative { '-' } else { '+' })
            };
            if let Some(input) = lab.terms(&terms) {
                kept.push(question);
                inputs.push((Some(input), terms.iter().map(text).collect::<Vec<_>>().join(" ")));
            }
        }
        let mut answers = Self { d: i.d, x, ulp, asked: kept.into_iter().zip(lab.ask(inputs)?).collect() };
        // Of an odd c the last bit may be cut.
        if !Self::both_signs(|c| answers.gives(c, 1, &[], 1)) {
            answers.asked.retain(|(q, _)| q.c.1.is_multiple_of(2));
        }
        Ok(Self::both_signs(|c| answers.gives(c, 0, &[], 0)).then_some(answers))
    }

    fn both_signs(of: impl Fn(bool) -> bool) -> bool {
        of(false) && of(true)
    }

    /// Whether c, even or odd, of this sign becomes the even one and so many units of its last place, by products of
    /// its sign; not if that was not asked.
    fn gives(&self, negative: bool, odd: u128, products: &[(i128, i32)], units: u128) -> bool {
        let even = 3 << (self.d.fraction_bits - 1);
        let asked = |q: &Question| q.c == (negative, even + odd) && q.negative == negative && q.products == products;
        let found = self.asked.iter().find(|(q, _)| asked(q));
        found.is_some_and(|(_, o)| exact(&self.d, negative, even + units, self.ulp) == Some(o.d))
    }

    /// Whether half of c's last place leaves an even c and makes an odd one even, or else is more with another bit.
    fn half_is_a_tie(&self) -> bool {
        let half = (1, self.ulp - 1);
        let with_odd = self.asked.iter().any(|(q, _)| !q.c.1.is_multiple_of(2));
        Self::both_signs(|c| {
            let up =
                if with_odd { self.gives(c, 1, &[half], 2) } else { self.gives(c, 0, &[half, (1, half.1 - 1)], 1) };
            up && self.gives(c, 0, &[half], 0)
        })
    }

    /// The result if products are cut like this and c is not; results are rounded to nearest even.
    fn result(&self, question: &Question, width: Width, cut: Cut) -> u64 {
        let last =
            question.products.iter().map(|p| p.1).min().unwrap_or(self.ulp).min(self.ulp).min(self.x - width.bits);
        let base = last - 1;
        // In units of this base, which is below every bit there is.
        let align = |units: i128, e: i32| {
            let negative = (units < 0) != question.negative;
            let (cut, unit) = width.align(negative, units.unsigned_abs(), e, self.x);
            cut << (unit - base)
        };
        let products = match cut {
            Cut::Terms => question.products.iter().map(|&(m, e)| align(m, e)).sum(),
            Cut::Sum => align(question.products.iter().map(|&(m, e)| m << (e - base)).sum(), base),
        };
        let (negative, magnitude) = question.c;
        let c = (magnitude as i128) << (self.ulp - base);
        rounded(
            &self.d,
            (Rounding::NearestEven, None),
            Fixed::from_units(products + if negative { -c } else { c }, base),
        )
    }

    fn explained(&self, width: Width, cut: Cut, of: impl Fn(&Question) -> bool) -> bool {
        self.asked.iter().filter(|(q, _)| of(q)).all(|(q, o)| self.result(q, width, cut) == o.d)
    }

    /// Every width that explains what was asked with such questions; without a sticky bit if there are any: with one,
    /// few bits leave what all would.
    fn widths(&self, of: impl Fn(&Question) -> bool + Copy) -> Vec<Width> {
        let all = (1..=WIDEST).flat_map(|bits| roundings().map(move |rounding| (bits, rounding)));
        let all = all.flat_map(|(bits, rounding)| [false, true].map(|sticky| Width { bits, rounding, sticky }));
        let explains = |way: &Width| [Cut::Sum, Cut::Terms].iter().any(|&cut| self.explained(*way, cut, of));
        let mut found: Vec<Width> = all.filter(explains).collect();
        if found.iter().any(|way| !way.sticky) {
            found.retain(|way| !way.sticky);
        }
        found
    }

    /// Answers that the first of these ways among products does not explain: the first few of each sign.
    fn telling(&self, ways: &[Width]) -> Vec<Observation> {
        let other = |(q, o): &&(Question, Observation)| self.result(q, ways[0], Cut::Terms) != o.d;
        let of = |negative: bool| self.asked.iter().filter(move |(q, _)| q.negative == negative).filter(other).take(3);
        ways.first().map_or_else(Vec::new, |_| of(false).chain(of(true)).map(|(_, o)| o.clone()).collect())
    }
}

/// How products are cut beside a larger c, if not in one of these `ways`; told where results are rounded to nearest
/// even: c and half of its last place is a tie, which one more bit takes away from c, or gives back to it, as long as
/// it is kept.
pub(super) fn below_c(lab: &mut Lab<'_>, site: &Site, ways: &[Width]) -> Result<(Places, Vec<Observation>), Error> {
    let i = lab.bench.interface;
    let nothing = || Ok((Vec::new(), Vec::new()));
    // In the last sum that c comes to: a later one could cut the result again, as a c of its own.
    let last = &site.last.products;
    let late = site.beside_c.is_empty();
    let places = if late || (site.last.other == Some(i.k) && last.len() >= 2) { last } else { &site.beside_c };
    let (true, Some(own)) = (places.len() >= 2, ways.iter().map(|w| w.bits).min()) else { return nothing() };
    if i.c.fraction_bits != i.d.fraction_bits || i.d.fraction_bits < 2 || i.scale.is_some() {
        return nothing();
    }
    let Some(answers) = Answers::to(lab, &places[..places.len().min(3)], own, late)? else { return nothing() };
    let is_tie = answers.half_is_a_tie();
    // Half of c's last place may be cut as well.
    if !is_tie && !ties_to_even(lab, places)? {
        return nothing();
    }
    // A late c is added to a number: without a rule of its own the exact sum is rounded.
    let whole = Width { bits: WIDEST, rounding: Rounding::TowardZero, sticky: false };
    let usual = if late { core::slice::from_ref(&whole) } else { ways };
    if usual.iter().any(|&way| answers.explained(way, Cut::Terms, |_| true)) {
        return nothing();
    }
    let evidence = answers.telling(usual);
    let found = answers.widths(|_| true);
    if !found.is_empty() {
        return Ok((vec![("products beside a larger c", found)], evidence));
    }
    let [plus, minus] = [false, true].map(|negative| answers.widths(|q| !q.c.0 && q.negative == negative));
    if !plus.is_empty() && !minus.is_empty() {
        let plus = ("positive products beside a larger positive c", plus);
        return Ok((vec![plus, ("negative products beside a larger positive c", minus)], evidence));
    }
    if is_tie { Ok((vec![("products beside a larger c", found)], evidence)) } else { nothing() }
}

/// Products at these places: whether each is negative, its magnitude and exponent.
fn terms<'a>(
    products: &'a [(i128, i32)],
    places: &'a [usize],
    negative: bool,
) -> impl Iterator<Item = (usize, bool, u128, i32)> + 'a {
    products.iter().zip(places).map(move |(&(m, e), &at)| (at, (m < 0) != negative, m.unsigned_abs(), e))
}

/// Of which sums, of both signs, a box returns the exact one where there is no c.
fn kept_alone(lab: &mut Lab<'_>, places: &[usize], sums: &[Vec<(i128, i32)>]) -> Result<Vec<bool>, Error> {
    let d = lab.bench.interface.d;
    let (mut inputs, mut exact_ones) = (Vec::new(), Vec::new());
    for (n, negative) in (0..sums.len()).flat_map(|n| [(n, false), (n, true)]) {
        let products = &sums[n];
        let base = products.iter().map(|p| p.1).min().unwrap_or(0);
        let sum: i128 = products.iter().map(|&(m, e)| m << (e - base)).sum();
        let terms: Vec<_> = terms(products, places, negative).collect();
        if let (Some(input), Some(code)) = (lab.terms(&terms), exact(&d, negative, sum.unsigned_abs(), base)) {
            inputs.push((Some(input), String::new()));
            exact_ones.push((n, code));
        }
    }
    let mut kept = vec![0; sums.len()];
    for (o, (n, code)) in lab.ask(inputs)?.iter().zip(exact_ones) {
        kept[n] += usize::from(o.d == code);
    }
    // None at all is what is asked first.
    Ok(kept.iter().zip(sums).map(|(&kept, sum)| kept == 2 || sum.is_empty()).collect())
}

/// Whether products that sum to a number and half of its last place leave an even one and make an odd one even.
fn ties_to_even(lab: &mut Lab<'_>, places: &[usize]) -> Result<bool, Error> {
    let p = lab.bench.interface.d.fraction_bits as i32;
    let &[i, j, l, ..] = places else { return Ok(false) };
    let x = lab.bench.product_range().1.min(top(&lab.bench.interface.d) - 1);
    let (lead, last, half) = ((i, false, 1, x), (j, false, 1, x - p), (l, false, 1, x - p - 1));
    let inputs = [lab.terms(&[lead, half]), lab.terms(&[lead, last, half])];
    let seen = lab.ask(inputs.map(|input| (input, String::new())).into())?;
    let want = [(1, x), ((1 << (p - 1)) + 1, x - p + 1)];
    Ok(seen.len() == 2 && seen.iter().zip(want).all(|(o, (m, e))| Some(o.d) == lab.bench.d(false, m, e)))
}
