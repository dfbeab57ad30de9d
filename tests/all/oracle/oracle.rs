//! The oracle: what every matrix unit of SPEC.md computes, over exact rationals, in no hurry.
//!
//! Written from SPEC.md alone; it shares no code and no representation with the library.

pub(crate) use super::formats::{Val, decode, format};
use super::formats::{exact_bits, ieee_add, ieee_fma, ieee_mul, ieee_round};
pub(crate) use super::names::{Desc, Rule, describe};
use super::numbers::round_at;
pub(crate) use super::numbers::{Exact, Round};

/// One step of a chain: d, a and b of the step, the new d.
type ChainStep<'a> = &'a dyn Fn(Val, &[Val], &[Val]) -> Val;

/// d = c + sum a_k b_k as the named unit computes it; bit patterns in, bit pattern out.
pub(crate) fn dot_add(
    unit_name: &str,
    a: &[u64],
    b: &[u64],
    c: u64,
    scale_a: &[u64],
    scale_b: &[u64],
) -> Result<u64, String> {
    let unit = describe(unit_name)?;
    if (a.len(), b.len()) != (unit.k, unit.k) || (scale_a.len(), scale_b.len()) != (unit.scales, unit.scales) {
        return Err(format!("{unit_name}: wrong number of operands"));
    }
    let all = |name: &str, bits: &[u64]| bits.iter().map(|x| decode(name, *x)).collect::<Result<Vec<_>, _>>();
    let scale = unit.scale.unwrap_or("ue8m0");
    let (a, b, c) = (all(unit.a, a)?, all(unit.b, b)?, decode(unit.c, c)?);
    let d = accumulate(&unit, &a, &b, c, &all(scale, scale_a)?, &all(scale, scale_b)?);
    Ok(exact_bits(unit.d, &d, unit.nan))
}

fn accumulate(unit: &Desc, a: &[Val], b: &[Val], c: Val, sa: &[Val], sb: &[Val]) -> Val {
    let chain =
        |group: usize, step: ChainStep| a.chunks(group).zip(b.chunks(group)).fold(c.clone(), |d, (a, b)| step(d, a, b));
    match unit.rule {
        Rule::Fda { f, below, parts, e8m13 } => {
            let out = if e8m13 { Out::RZ13 } else { Out::of(unit.d) };
            chain(unit.k / parts, &|d, a, b| fda(f, below, out, &products(a, b), &d))
        }
        Rule::Interleaved => interleaved(Out::of(unit.d), a, b, &c),
        Rule::Software => software(unit.d, a, b, &c),
        Rule::BlockScaled => block_scaled(a, b, &c, &sa[0], &sb[0]),
        Rule::Gdfs => gdfs(a, b, &c, sa, sb),
        Rule::Sfma => sfma(unit.d, a, b, &c, Round::Rne),
        Rule::Gps(g) => {
            let a: Vec<Val> = a.iter().map(|x| flush_input(unit.a, x)).collect();
            let b: Vec<Val> = b.iter().map(|x| flush_input(unit.b, x)).collect();
            let groups = a.chunks(g).zip(b.chunks(g));
            groups.fold(flush_input(unit.c, &c), |d, (a, b)| flush_keeping_sign(&ieee_add("f32", &d, &pairwise(a, b))))
        }
        Rule::Exact(g) => chain(g, &|d, a, b| exact(&products(a, b), &d)),
        Rule::Fdrda(g) => chain(g, &|d, a, b| round_down(&[products(a, b)], &d)),
        Rule::Gfdrda => chain(16, &|d, a, b| {
            let p = products(a, b);
            let half = |odd: usize| p.iter().skip(odd).step_by(2).cloned().collect();
            round_down(&[half(0), half(1)], &d)
        }),
    }
}

/// Output rounding of the fused units: at `p` fraction bits of the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) format: &'static str,
    pub(crate) p: i64,
    pub(crate) round: Round,
    /// A negative value that rounds to zero gives -0 (AMD), not +0 (NVIDIA).
    pub(crate) negative_zero: bool,
}

impl Out {
    pub(crate) const RZ23: Out = Out { format: "f32", p: 23, round: Round::Rz, negative_zero: false };
    pub(crate) const RZ13: Out = Out { p: 13, ..Out::RZ23 };
    pub(crate) const HALF: Out = Out { format: "f16", p: 10, round: Round::Rne, negative_zero: false };
    pub(crate) const AMD: Out = Out { format: "f32", p: 23, round: Round::Rne, negative_zero: true };

    fn of(d: &str) -> Out {
        if d == "f16" { Out::HALF } else { Out::RZ23 }
    }

    fn emin(self) -> i64 {
        if self.format == "f16" { -14 } else { -126 }
    }

    /// SPEC's "Encode", read back as a number.
    pub(crate) fn emit(self, x: &Exact) -> Val {
        if x.is_zero() {
            return Val::zero(false);
        }
        let r = round_at(x, x.log2().max(self.emin()) - self.p, self.round);
        if r.is_zero() {
            return Val::zero(x.is_negative() && self.negative_zero);
        }
        let emax = 1 - self.emin();
        if r.cmp_pow2(emax + 1).is_lt() {
            return ieee_round(self.format, &Val::of(&r), Round::Rne);
        }
        let inward = if x.is_negative() { Round::Ru } else { Round::Rd };
        if self.round != inward {
            return Val::Inf(x.is_negative());
        }
        let ones = &Exact::new(2, 0) - &Exact::new(1, -self.p);
        let largest = ones.times_pow2(emax);
        let largest = Val::of(&if x.is_negative() { -&largest } else { largest });
        // Read back as the format's code, so that the next step sees its exponent.
        ieee_round(self.format, &largest, Round::Rne)
    }
}

/// SPEC's Product: exact, never normalised.
fn product(a: &Val, b: &Val) -> Val {
    match (a, b) {
        (Val::Nan, _) | (_, Val::Nan) => Val::Nan,
        (Val::Num { neg: na, s: sa, e: ea }, Val::Num { neg: nb, s: sb, e: eb }) => {
            Val::Num { neg: na != nb, s: sa * sb, e: ea + eb }
        }
        _ if a.is_zero() || b.is_zero() => Val::Nan,
        _ => Val::Inf(a.is_negative() != b.is_negative()),
    }
}

fn products(a: &[Val], b: &[Val]) -> Vec<Val> {
    a.iter().zip(b).map(|(a, b)| product(a, b)).collect()
}

/// SPEC's S: what the special values decide, if they decide.
fn special<'a>(terms: impl Iterator<Item = &'a Val>) -> Option<Val> {
    let (mut nan, mut plus, mut minus) = (false, false, false);
    for t in terms {
        match t {
            Val::Nan => nan = true,
            Val::Inf(false) => plus = true,
            Val::Inf(true) => minus = true,
            Val::Num { .. } => {}
        }
    }
    match (nan || (plus && minus), plus, minus) {
        (true, ..) => Some(Val::Nan),
        (_, true, _) => Some(Val::Inf(false)),
        (_, _, true) => Some(Val::Inf(true)),
        _ => None,
    }
}

/// Signed significand and exponent of a non-zero finite number.
fn term(v: &Val) -> Option<(Exact, i64)> {
    match v {
        Val::Num { neg, s, e } if !s.is_zero() => Some((if *neg { -s } else { s.clone() }, *e)),
        _ => None,
    }
}

fn sum<'a>(terms: impl IntoIterator<Item = &'a Exact>) -> Exact {
    terms.into_iter().fold(Exact::zero(), |s, t| &s + t)
}

/// Steps 3 to 6 of FDA for any list of non-zero terms.
fn truncate_and_sum(f: i64, e_zero: i64, out: Out, terms: &[(Exact, i64)]) -> Val {
    let e_max = terms.iter().map(|t| t.1).fold(e_zero, i64::max);
    let cut: Vec<Exact> = terms.iter().map(|(s, e)| s.times_pow2(e - e_max).trunc(f)).collect();
    out.emit(&sum(&cut).times_pow2(e_max))
}

fn fda(f: i64, below: i64, out: Out, products: &[Val], c: &Val) -> Val {
    let all = || products.iter().chain([c]);
    special(all()).unwrap_or_else(|| {
        let terms: Vec<_> = all().filter_map(term).collect();
        truncate_and_sum(f, out.emin() - below, out, &terms)
    })
}

fn interleaved(out: Out, a: &[Val], b: &[Val], c: &Val) -> Val {
    // The operands really become f16 first, which renormalises e4m3 subnormals.
    let half = |x: &Val| ieee_round("f16", x, Round::Rne);
    let p: Vec<Val> = a.iter().zip(b).map(|(a, b)| product(&half(a), &half(b))).collect();
    let group = |odd: usize| -> Vec<Val> { (0..p.len()).filter(|k| k / 2 % 2 == odd).map(|k| p[k].clone()).collect() };
    let t = fda(25, 7, out, &group(0), &Val::zero(false));
    let t = fda(25, 7, out, &group(1), &t);
    ieee_add(out.format, c, &t)
}

fn software(d: &str, a: &[Val], b: &[Val], c: &Val) -> Val {
    let fma = |k: usize, t: &Val| ieee_fma("f32", &a[k], &b[k], t, Round::Rne);
    if d == "f32" {
        let t = (0..4).fold(Val::zero(false), |t, k| fma(k, &t));
        return ieee_add("f32", c, &t);
    }
    let low = fma(1, &ieee_mul("f32", &a[0], &b[0]));
    let high = fma(3, &ieee_mul("f32", &a[2], &b[2]));
    let both = ieee_add("f32", &ieee_add("f32", c, &low), &high);
    ieee_round("f16", &both, Round::Rne)
}

fn block_scaled(a: &[Val], b: &[Val], c: &Val, sa: &Val, sb: &Val) -> Val {
    let (Val::Num { e: ea, .. }, Val::Num { e: eb, .. }) = (sa, sb) else {
        return Val::Nan;
    };
    let mut p = products(a, b);
    for v in &mut p {
        if let Val::Num { e, .. } = v {
            *e += ea + eb;
        }
    }
    fda(25, 7, Out::RZ23, &p, c)
}

fn gdfs(a: &[Val], b: &[Val], c: &Val, sa: &[Val], sb: &[Val]) -> Val {
    if sa.iter().chain(sb).chain([c]).any(|v| matches!(v, Val::Nan)) {
        return Val::Nan;
    }
    if let Val::Inf(_) = c {
        return c.clone();
    }
    let p = products(a, b);
    let mut terms: Vec<_> = term(c).into_iter().collect();
    for (g, group) in p.chunks(16).enumerate() {
        let block = g * sa.len() / 4;
        let Some((scale, e)) = term(&product(&sa[block], &sb[block])) else {
            continue;
        };
        if group.iter().any(|v| !v.is_zero()) {
            let sigma = sum(&group.iter().map(Val::value).collect::<Vec<_>>());
            terms.push((&sigma * &scale, e));
        }
    }
    truncate_and_sum(35, -139, Out::RZ23, &terms)
}

/// SFMA with any rounding; the units of the catalogue use RNE.
pub(crate) fn sfma(format: &str, a: &[Val], b: &[Val], c: &Val, mode: Round) -> Val {
    a.iter().zip(b).fold(c.clone(), |d, (a, b)| ieee_fma(format, a, b, &d, mode))
}

fn is_subnormal_or_zero(name: &str, x: &Val) -> bool {
    let emin = format(name).expect("known").emin;
    matches!(x, Val::Num { .. }) && (x.is_zero() || x.value().cmp_pow2(emin).is_lt())
}

fn flush_input(name: &str, x: &Val) -> Val {
    if is_subnormal_or_zero(name, x) { Val::zero(false) } else { x.clone() }
}

fn flush_keeping_sign(x: &Val) -> Val {
    if is_subnormal_or_zero("f32", x) { Val::zero(x.is_negative()) } else { x.clone() }
}

/// GPS's sum of one group: halves first, down to single products.
fn pairwise(a: &[Val], b: &[Val]) -> Val {
    let half = a.len() / 2;
    let v = match half {
        0 => ieee_mul("f32", &a[0], &b[0]),
        _ => ieee_add("f32", &pairwise(&a[..half], &b[..half]), &pairwise(&a[half..], &b[half..])),
    };
    flush_keeping_sign(&v)
}

fn exact(products: &[Val], c: &Val) -> Val {
    let all = || products.iter().chain([c]);
    let total = || sum(&all().map(Val::value).collect::<Vec<_>>());
    special(all()).unwrap_or_else(|| Out::AMD.emit(&total()))
}

/// CDNA3: FDRDA for one list of products, GFDRDA for two (even k, odd k).
fn round_down(halves: &[Vec<Val>], c: &Val) -> Val {
    let limited = |v: &Val| match v {
        Val::Num { neg, .. } if v.value().cmp_pow2(128).is_ge() => Val::Inf(*neg),
        _ => v.clone(),
    };
    let halves: Vec<Vec<Val>> = halves.iter().map(|h| h.iter().map(limited).collect()).collect();
    if let Some(v) = special(halves.iter().flatten().chain([c])) {
        return v;
    }
    let mut sums: Vec<(Exact, i64)> = Vec::new();
    for half in &halves {
        let terms: Vec<_> = half.iter().filter_map(term).collect();
        if let Some(e) = terms.iter().map(|t| t.1).max() {
            let cut: Vec<Exact> = terms.iter().map(|(s, x)| s.times_pow2(x - e).trunc(24)).collect();
            sums.push((sum(&cut), e));
        }
    }
    round_down_with_c(&sums, halves.len() == 2, c)
}

/// From the sums of the (even and odd) products on, each with its exponent.
fn round_down_with_c(sums: &[(Exact, i64)], two: bool, c: &Val) -> Val {
    let (s_c, e_c) = term(c).unwrap_or((Exact::zero(), -126));
    let e_dot = sums.iter().map(|s| s.1).max();
    let s_dot = match two {
        false => sum(sums.iter().map(|s| &s.0)),
        true => sum(&sums.iter().map(|(s, e)| s.times_pow2(e - e_dot.expect("a half")).floor(24)).collect::<Vec<_>>()),
    };
    let e_max = e_dot.map_or(e_c, |e| e.max(e_c));
    let dropped = two && e_c < e_max - 25;
    let from_c = if dropped { Exact::zero() } else { s_c.times_pow2(e_c - e_max).floor(24) };
    let from_dot = s_dot.times_pow2(e_dot.unwrap_or(e_max) - e_max).floor(32);
    let total = (&from_c + &from_dot).times_pow2(e_max);
    if total.is_zero() {
        return Val::zero(false);
    }
    let e = total.log2().max(-126);
    Out::AMD.emit(&total.floor(31 - e))
}
