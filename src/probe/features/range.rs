//! The ends of the range: subnormals, the alignment floor, overflow, product limit, monotonicity.

use super::super::bench::{Random, exact, normal, power, top};
use super::super::black_box::Input;
use super::super::generate::Generator;
use super::alignment::{Widths, one};
use super::structure::Site;
use super::{Feature, Lab, Observation, Value, cannot};
use crate::accumulate::Finish;
use crate::error::Error;
use crate::num::Fixed;
use crate::round::Rounding;

/// Runs the tests of this file.
pub(super) fn features(lab: &mut Lab<'_>, site: &Site, widths: &Widths, all: &mut Vec<Feature>) -> Result<(), Error> {
    let rounding = match all.iter().find(|f| f.name == "output_rounding").map(|f| &f.value) {
        Some(Value::Text(text)) => text.split(' ').next().and_then(|r| r.parse().ok()),
        _ => None,
    };
    let tests: [(&'static str, Answer); 5] = [
        ("subnormals", subnormals(lab)?),
        ("e_zero", e_zero(lab, site, widths, rounding)?),
        ("overflow", overflow(lab, site)?),
        ("product_limit", product_limit(lab, site)?),
        ("monotonic", monotonic(lab, site, widths)?),
    ];
    all.extend(tests.into_iter().map(|(name, (value, evidence))| Feature { name, value, evidence }));
    Ok(())
}

type Answer = (Value, Vec<Observation>);

/// Subnormal a, b and c, and subnormal results of normal operands (Fasi 3.1.1).
fn subnormals(lab: &mut Lab<'_>) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    // Half the smallest normal number (MMA-Sim III-F): the smallest subnormal may be lost to a
    // narrow alignment without being flushed.
    let smallest = |f: &crate::format::FormatSpec| exact(f, false, 1, f.emin() - 1).filter(|_| f.subnormals);
    let one_product = |lab: &Lab<'_>, a: Option<u64>, b: Option<u64>| {
        let mut input = lab.bench.zeros();
        (input.a[0], input.b[0]) = (a?, b?);
        Some(input)
    };
    let c = smallest(&i.c).map(|c| Input { c, ..lab.bench.zeros() });
    let e = i.d.emin() - 1;
    let computed =
        lab.bench.split(false, 1, e).filter(|&(a, b)| !i.a.decode(a).is_subnormal() && !i.b.decode(b).is_subnormal());
    let computed = computed.and_then(|(a, b)| one_product(lab, Some(a), Some(b)));
    let sum = {
        let (low, _) = lab.bench.common_range();
        (low == i.d.emin()).then(|| lab.bench.terms(&[(0, false, 3, low - 1), (i.k, true, 1, low)])).flatten()
    };
    let questions = [
        ("a", one_product(lab, smallest(&i.a), power(&i.b, false, top(&i.b)))),
        ("b", one_product(lab, power(&i.a, false, top(&i.a)), smallest(&i.b))),
        ("c", c),
        ("product of normal numbers", computed),
        ("difference of normal numbers", sum),
    ];
    let names: Vec<&str> = questions.iter().filter(|q| q.1.is_some()).map(|q| q.0).collect();
    let asked = questions.into_iter().map(|(name, x)| (x, format!("subnormal {name}"))).collect();
    let seen = lab.ask(asked)?;
    let flushed: Vec<&str> =
        names.iter().zip(&seen).filter(|(_, o)| i.d.decode(o.d).is_zero()).map(|(name, _)| *name).collect();
    let value: Value = match (flushed.len(), names.len()) {
        (_, 0) => cannot("the formats have none"),
        (0, _) => "supported".into(),
        (f, n) if f == n => "flushed to zero".into(),
        _ => format!("flushed to zero: {}", flushed.join(", ")).into(),
    };
    Ok((value, seen))
}

/// The smallest exponent that terms are aligned to, from tiny terms beside the smallest result
/// (the floor tests of docs/numerics.md, for any widths).
fn e_zero(lab: &mut Lab<'_>, site: &Site, widths: &Widths, rounding: Option<Rounding>) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let (Some(width), Some(rounding), true) = (widths.possible.first().copied(), rounding, site.products.len() >= 2)
    else {
        return Ok((cannot("width or rounding are not known"), Vec::new()));
    };
    let quantum = i.d.emin() - i.d.fraction_bits as i32;
    let (mut asked, mut inputs) = (Vec::new(), Vec::new());
    for big in [quantum, quantum - 1] {
        for negative in [false, true] {
            for e in (quantum - 45..big).rev() {
                let terms = [(site.products[0], false, 1, big), (site.products[1], negative, 1, e)];
                if let Some(input) = lab.bench.terms(&terms) {
                    let own = |k: usize| i.a.decode(input.a[k]).exponent + i.b.decode(input.b[k]).exponent;
                    asked.push((big, negative, e, own(site.products[0]).max(own(site.products[1]))));
                    let sign = if negative { '-' } else { '+' };
                    inputs.push((Some(input), format!("2^{big} {sign} 2^{e}, the smallest result being 2^{quantum}")));
                }
            }
        }
    }
    if inputs.is_empty() {
        return Ok((cannot("no product is as small as the smallest result"), Vec::new()));
    }
    let seen = lab.ask(inputs)?;
    let finish = Finish { rounding, frac_bits: None, ieee_overflow: false, negative_zero: false };
    let result = |e_max: i32, big: i32, negative: bool, e: i32| {
        let (x, unit) = width.align(false, 1, big, e_max);
        let (y, _) = width.align(negative, 1, e, e_max);
        i.d.encode_result(&finish.apply(Fixed::from_units(x + y, unit), &i.d))
    };
    let ignore_sign = |code: u64| if i.d.decode(code).is_zero() { 0 } else { code };
    let explains = |below: Option<i32>| {
        asked.iter().zip(&seen).all(|(&(big, negative, e, own), o)| {
            let e_max = below.map_or(own, |n| own.max(i.d.emin() - n));
            ignore_sign(result(e_max, big, negative, e)) == ignore_sign(o.d)
        })
    };
    let possible: Vec<Option<i32>> =
        core::iter::once(None).chain((-20..100).map(Some)).filter(|&n| explains(n)).collect();
    let value = match possible.as_slice() {
        [Some(n)] => Value::Number(i64::from(i.d.emin() - n)),
        [] => cannot("no floor explains the answers"),
        all if all.contains(&None) => "none, or too low to see".into(),
        _ => cannot("several floors explain the answers"),
    };
    let turning = seen.windows(2).position(|w| w[0].d != w[1].d).unwrap_or(0);
    Ok((value, seen.into_iter().skip(turning.saturating_sub(1)).take(6).collect()))
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
        questions.push((lab.bench.terms(&terms), format!("2^{big} + 2^{big} - 2^{big}")));
    } else {
        questions.push((None, String::new()));
    }
    let has_intermediate = questions[0].0.is_some();
    for negative in [false, true] {
        for quarters in [3u128, 2, 1] {
            let terms = [(i.k, negative, all_ones, big - p), (first, negative, quarters, big - p - 2)];
            let shows = format!("{}((2 - u) + 0.{}u) * 2^{big}", if negative { '-' } else { '+' }, quarters * 25);
            questions.push((lab.bench.terms(&terms), shows));
        }
        let terms = [(i.k, negative, 1, big), (first, negative, 1, big)];
        questions.push((lab.bench.terms(&terms), format!("{}2^{big} twice", if negative { '-' } else { '+' })));
    }
    let seen = lab.ask(questions)?;
    if seen.is_empty() {
        return Ok((cannot("no sum of these formats reaches the largest result"), seen));
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
        let kept = i.d.decode(seen[0].d).is_finite();
        text.push(if kept {
            "intermediate sums do not overflow".into()
        } else {
            format!("intermediate sums overflow to {}", name(seen[0].d))
        });
    }
    if let Some(last) = seen.last().filter(|o| o.shows.contains("twice")) {
        text.push(format!("results overflow to {}", name(last.d)));
    }
    if let Some(o) = seen.iter().find(|o| o.shows.contains("0.75u")) {
        text.push(format!("beyond the largest number by 0.75 of its last bit: {}", name(o.d)));
    }
    Ok((text.join("; ").into(), seen))
}

/// X - X with X = 2^128: NaN where a product of that size counts as infinite.
fn product_limit(lab: &mut Lab<'_>, site: &Site) -> Result<Answer, Error> {
    let i = lab.bench.interface;
    let other = site.products.get(1).copied();
    let (_, high) = lab.bench.product_range();
    let Some(other) = other.filter(|_| high >= 128) else {
        return Ok((cannot("no two products of 2^128 meet in one sum"), Vec::new()));
    };
    let first = site.products[0];
    let questions = [127, 128].map(|e| {
        let terms = [(first, false, 1, e), (other, true, 1, e)];
        (lab.bench.terms(&terms), format!("2^{e} - 2^{e}"))
    });
    let seen = lab.ask(questions.into())?;
    let nan: Vec<bool> = seen.iter().map(|o| i.d.decode(o.d).is_nan()).collect();
    let value = match nan.as_slice() {
        [false, false] => "none".into(),
        [false, true] => "2^128".into(),
        _ => cannot("smaller products overflow already"),
    };
    Ok((value, seen))
}

/// A larger operand with a smaller result (Fasi 3.1.4): c just below a power of two keeps more of
/// the products than the power itself; then pairs at random.
fn monotonic(lab: &mut Lab<'_>, site: &Site, widths: &Widths) -> Result<Answer, Error> {
    let mut questions = Vec::new();
    if let Some(f) = one(widths.possible.iter().map(|w| w.bits)) {
        questions = just_below(lab, site, f);
    }
    let aimed = questions.len();
    let mut random = Random::new(0x0770_0770);
    let mut generator = Generator::new(lab.bench.clone(), 0xBEEF);
    for _ in 0..4000 {
        let (low, high) = larger(lab, &mut generator, &mut random);
        questions.push((Some(low), "a pair: the smaller".into()));
        questions.push((Some(high), "a pair: the larger".into()));
    }
    let seen = lab.ask(questions)?;
    let d = lab.bench.interface.d;
    let witness = seen.chunks(2).find(|pair| {
        let [x, y] = pair else { return false };
        let (lower, upper) = (d.to_f64(x.d), d.to_f64(y.d));
        lower > upper
    });
    Ok(match witness {
        Some(pair) => (false.into(), pair.to_vec()),
        None => (cannot(format!("no witness among {} aimed and 4000 random pairs", aimed / 2)), Vec::new()),
    })
}

type Questions = Vec<(Option<Input>, String)>;

/// c or a product at 2^lead and one last bit below it, beside as many terms as there are of
/// half the last bit alignment keeps.
fn just_below(lab: &Lab<'_>, site: &Site, f: i32) -> Questions {
    let i = lab.bench.interface;
    let (low, high) = lab.bench.common_range();
    let lead = (high - 4).min(6).max(low + 2);
    let mut places = site.products.clone();
    let big = if site.beside_c.len() > 1 {
        places.clone_from(&site.beside_c);
        i.k
    } else if places.len() > 1 {
        places.remove(0)
    } else {
        return Vec::new();
    };
    let mut questions = Vec::new();
    for p in [i.d.fraction_bits as i32, (i.a.fraction_bits + i.b.fraction_bits) as i32, i.a.fraction_bits as i32] {
        let around = [((1u128 << (p + 1)) - 1, lead - 1 - p), (1, lead)];
        let inputs = around.map(|(magnitude, e)| {
            let mut terms: Vec<_> = places.iter().map(|&k| (k, false, 1, lead - f - 1)).collect();
            terms.push((big, false, magnitude, e));
            (lab.bench.terms(&terms), format!("{magnitude} * 2^{e} + {} times 2^{}", places.len(), lead - f - 1))
        });
        if inputs.iter().all(|x| x.0.is_some()) {
            questions.extend(inputs);
        }
    }
    questions
}

/// Two inputs, the second with one term larger by one last bit.
fn larger(lab: &Lab<'_>, generator: &mut Generator, random: &mut Random) -> (Input, Input) {
    use super::super::generate::Kind;
    let i = lab.bench.interface;
    let mut low = generator.of_kind(if random.one_in(2) { Kind::Ties } else { Kind::NearOne });
    let mut high = low.clone();
    let f = i.c;
    if random.one_in(2) {
        low.c = normal(&f, false, -1, u64::MAX);
        high.c = normal(&f, false, 0, 0);
        return (low, high);
    }
    let x = f.decode(low.c);
    let step = 1u64 << f.ignored_low_bits;
    let next = if x.negative { low.c.wrapping_sub(step) } else { low.c.wrapping_add(step) } & f.code_mask();
    if x.is_finite() && !x.is_zero() && f.decode(next).is_finite() && f.decode(next).negative == x.negative {
        high.c = next;
    }
    (low, high)
}
