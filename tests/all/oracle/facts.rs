//! SPEC section 7 as data: every row of both tables, every variant a row names.
//!
//! Values are written as in the tables and turned into bits by the oracle's formats, refusing anything inexact.

use super::formats::{Overflow, Val, decode, encode};
use super::names::describe;
use super::numbers::Round;

/// One dot-add whose result a source states.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) unit: &'static str,
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: u64,
    pub(crate) scale_a: Vec<u64>,
    pub(crate) scale_b: Vec<u64>,
    pub(crate) d: u64,
    pub(crate) source: &'static str,
}

pub(crate) const U: f64 = 1.0 / 8_388_608.0;
const VOLTA: [&str; 2] = ["volta/mma.m8n8k4.f32.f16.f16.f32", "turing/mma.m8n8k4.f32.f16.f16.f32"];
pub(crate) const VOLTA_F16: [&str; 2] = ["volta/mma.m8n8k4.f16.f16.f16.f16", "turing/mma.m8n8k4.f16.f16.f16.f16"];

/// Two to the n.
pub(crate) fn p2(n: i32) -> f64 {
    2f64.powi(n)
}

/// The bits of a value, which the format must hold exactly; NaN as the unit's pattern.
pub(crate) fn bits(format: &str, x: f64, nan: u64) -> u64 {
    if x.is_nan() {
        return nan;
    }
    let v = decode("f64", x.to_bits()).expect("f64");
    let got = encode(format, &v, Round::Rne, Overflow::Ieee).expect("finite");
    let back = decode(format, got).expect("known");
    let same = matches!(back, Val::Inf(_)) == x.is_infinite() && (&back.value() - &v.value()).is_zero();
    assert!(same, "{x:e} is not a {format}");
    got
}

/// A list of (a, b) in k order, c, and d, all as values; the rest of K is +0.
pub(crate) fn fact(unit: &'static str, terms: &[(f64, f64)], c: f64, d: f64, source: &'static str) -> Fact {
    let u = describe(unit).expect("canonical");
    let (mut a, mut b) = (vec![0; u.k], vec![0; u.k]);
    for (k, (x, y)) in terms.iter().enumerate() {
        a[k] = bits(u.a, *x, 0);
        b[k] = bits(u.b, *y, 0);
    }
    let (c, d) = (bits(u.c, c, u.nan), bits(u.d, d, u.nan));
    let scale = if u.scales > 0 { bits(u.scale.expect("scaled"), 1.0, 0) } else { 0 };
    Fact { unit, a, b, c, scale_a: vec![scale; u.scales], scale_b: vec![scale; u.scales], d, source }
}

/// The rows so far; `f.at(unit, source).holds(terms, c, d)` adds one.
pub(crate) struct Rows(pub(crate) Vec<Fact>);

/// A row about to be added.
pub(crate) struct At<'a>(&'a mut Rows, &'static str, &'static str);

impl Rows {
    pub(crate) fn at(&mut self, unit: &'static str, source: &'static str) -> At<'_> {
        At(self, unit, source)
    }
}

impl At<'_> {
    pub(crate) fn holds(self, terms: &[(f64, f64)], c: f64, d: f64) {
        self.0.0.push(fact(self.1, terms, c, d, self.2));
    }
}

/// A power of two, or minus one, as (a, b) with the exponent shared out, so that both are normal where possible.
pub(crate) fn product(p: f64) -> (f64, f64) {
    let e = p.abs().log2() as i32;
    (p2(e.div_euclid(2)).copysign(p), p2(e - e.div_euclid(2)))
}

/// All distinct orders of a list.
pub(crate) fn orders(list: &[f64]) -> Vec<Vec<f64>> {
    if list.len() < 2 {
        return vec![list.to_vec()];
    }
    let mut all: Vec<Vec<f64>> = Vec::new();
    for i in 0..list.len() {
        let mut rest = list.to_vec();
        let first = rest.remove(i);
        all.extend(orders(&rest).into_iter().map(|o| [vec![first], o].concat()));
    }
    all.sort_by(|x, y| x.partial_cmp(y).expect("numbers"));
    all.dedup();
    all
}

pub(crate) fn ones(list: &[f64]) -> Vec<(f64, f64)> {
    list.iter().map(|x| (1.0, *x)).collect()
}

/// Everything SPEC section 7 lists.
pub(crate) fn facts() -> Vec<Fact> {
    let mut f = Rows(Vec::new());
    for i in 0..2 {
        fasi(&mut f, VOLTA[i], VOLTA_F16[i]);
        fasi_sums(&mut f, VOLTA[i]);
        valpey(&mut f, VOLTA[i]);
        khattak_volta(&mut f, VOLTA[i]);
    }
    same_with_f16_c(&mut f);
    super::facts_later::add(&mut f);
    f.0
}

/// [F] 3.1.1 to 3.1.3 on Volta (and on Turing's copy of it, D7).
fn fasi(f: &mut Rows, unit: &'static str, half: &'static str) {
    let x = 1.0 - p2(-11);
    for u in [unit, half] {
        f.at(u, "[F] 3.1.1 subnormal operand").holds(&[(p2(-24), 4.0)], 0.0, p2(-22));
    }
    f.at(unit, "[F] 3.1.1 subnormal c").holds(&[], p2(-149), p2(-149));
    f.at(half, "[F] 3.1.1 subnormal result").holds(&[(p2(-14), 0.5)], 0.0, p2(-15));
    f.at(unit, "[F] 3.1.2 exact products").holds(&[(x, x); 4], 0.0, 4.0 * (1.0 - p2(-10) + p2(-22)));
    f.at(half, "[F] 3.1.2 exact products, f16 out").holds(&[(x, x), (x, p2(-11))], 0.0, 1.0 - p2(-10) + p2(-11));
    for o in orders(&[1.0, p2(-24), p2(-24), p2(-24), p2(-24)]) {
        f.at(unit, "[F] 3.1.2 aligned to the largest").holds(&ones(&o[1..]), o[0], 1.0);
    }
    for s in [1.0, -1.0] {
        f.at(unit, "[F] 3.1.3 truncation").holds(&ones(&[s * 2.0, s * (p2(-23) + p2(-24))]), 0.0, s * 2.0);
    }
    f.at(half, "[F] 3.1.3 f16 out rounds to nearest").holds(&[(p2(-24), 0.5), (p2(-24), 0.25)], 0.0, p2(-24));
}

/// [F] 3.1.4 on Volta.
fn fasi_sums(f: &mut Rows, unit: &'static str) {
    let small = ones(&[p2(-24); 4]);
    f.at(unit, "[F] 3.1.4 no guard bit").holds(&ones(&[1.0]), -1.0 + p2(-24), p2(-23));
    f.at(unit, "[F] 3.1.4 non-monotonic, below 1").holds(&small, 1.0 - p2(-24), 1.0 + U);
    f.at(unit, "[F] 3.1.4 non-monotonic, at 1").holds(&small, 1.0, 1.0);
    f.at(unit, "[F] 3.1.4 normalised once").holds(&ones(&[1.0, -p2(-24)]), -1.0 + p2(-24), p2(-23));
    for o in orders(&[1.0, 1.0, 1.0, U]) {
        f.at(unit, "[F] 3.1.4 two carry bits").holds(&ones(&o), 1.0 + p2(-22) + U, 4.0 + p2(-21));
    }
    f.at(unit, "[F] 3.1.4 three carry bits").holds(&ones(&[1.0, 1.5, 1.75, 1.875]), 1.875, 8.0);
}

/// [V] Tables 1, 3 and 5.
fn valpey(f: &mut Rows, unit: &'static str) {
    f.at(unit, "[V] Table 3 truncation, not IEEE RZ").holds(&[(2.0, 1.0)], -p2(-40), 2.0);
    let subnormal = 265.0 * p2(-24);
    f.at(unit, "[V] Table 1 subnormal operand").holds(&[(subnormal, 1.3681640625 * 0.5)], 0.0, 371_265.0 * p2(-35));
    let carry = [
        (1.6484375 * p2(-5), 1.0615234375 * p2(9)),
        (1.765625 * p2(-3), 1.9833984375 * p2(6)),
        (1.5 * p2(15), 1.3330078125 * p2(-11)),
        (p2(10), p2(-7)),
    ];
    f.at(unit, "[V] three carry bits").holds(&carry, 1.999664306640625 * 16.0, 128.0);
    let inside = [
        (1.0009765625 * p2(-8), 1.998046875 * p2(7)),
        (1.326171875 * p2(-14), 1.4443359375 * p2(-7)),
        (p2(-12), p2(-12)),
        (p2(-12), p2(-12)),
    ];
    f.at(unit, "[V] Table 5 c inside the unit").holds(&inside, p2(-24), 1.0 + U);
    // c added outside, 1 + 2^-24 in RN, is then 1: that sum is no unit's.
    f.at(unit, "[V] Table 5 core result, c outside").holds(&inside, 0.0, 1.0);
}

fn khattak_volta(f: &mut Rows, unit: &'static str) {
    let two = [(p2(-11), p2(-12)); 2];
    let with = |first: (f64, f64)| [vec![first], two.to_vec()].concat();
    f.at(unit, "[K] IV-A1 product not normalised").holds(&with((1.5, 1.5)), 0.0, 2.25 + p2(-22));
    f.at(unit, "[K] IV-A1 product above 2").holds(&with((1.0, 2.25)), 0.0, 2.25);
    f.at(unit, "[K] IV-A1 c above 2").holds(&two, 2.25, 2.25);
}

/// The rows on Volta's f32 output, wherever c is an f16 too, on the variant that takes c as f16.
fn same_with_f16_c(f: &mut Rows) {
    const TAKES_F16: [&str; 2] = ["volta/mma.m8n8k4.f32.f16.f16.f16", "turing/mma.m8n8k4.f32.f16.f16.f16"];
    for i in 0..2 {
        let rows: Vec<Fact> = f.0.iter().filter(|x| x.unit == VOLTA[i]).cloned().collect();
        for row in rows {
            let c = decode("f32", row.c).expect("f32");
            let half = encode("f16", &c, Round::Rne, Overflow::Ieee).expect("f16");
            let back = decode("f16", half).expect("f16");
            if (&back.value() - &c.value()).is_zero() {
                f.0.push(Fact { unit: TAKES_F16[i], c: half, ..row });
            }
        }
    }
}
