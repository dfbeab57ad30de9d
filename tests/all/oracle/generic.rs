//! SPEC section 3's Generic accumulator, for units that do not exist.

use super::formats::{Val, decode, exact_bits, format, ieee_add};
use super::numbers::{Exact, Round, round_at};
use super::oracle::Out;

/// How the K products fall into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// 0, 1, 2, ... cut into runs of L.
    Runs,
    /// All even k, then all odd k, cut into runs of L.
    EvenOdd,
    /// All k with floor(k/2) even, then the others, cut into runs of L (the fp8 interleaving when L = K/2).
    Pairs,
}

/// Plain fields of the Generic accumulator.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) a: &'static str,
    pub(crate) b: &'static str,
    /// Format of c; the blocks chain through `d`.
    pub(crate) c: &'static str,
    /// "f32" or "f16".
    pub(crate) d: &'static str,
    pub(crate) block: usize,
    pub(crate) pattern: Pattern,
    pub(crate) f: i64,
    /// RZ, RD or RNE.
    pub(crate) align: Round,
    pub(crate) sticky: bool,
    pub(crate) normalise: bool,
    pub(crate) e_zero: Option<i64>,
    pub(crate) c_late: bool,
    /// RNE, RZ, RD or RU, at `p` fraction bits of d.
    pub(crate) round: Round,
    pub(crate) p: i64,
    pub(crate) flush_inputs: bool,
    pub(crate) flush_results: bool,
    /// Products of magnitude 2^128 and more are infinite.
    pub(crate) limit: bool,
    pub(crate) exact: bool,
    /// A negative value rounding to zero gives -0 (what Exact needs; SPEC's text says +0).
    pub(crate) negative_zero: bool,
    pub(crate) nan: u64,
}

impl Params {
    /// FDA(F, f32 RZ) over the whole K, with Hopper's e_zero.
    pub(crate) const FDA: Params = Params {
        a: "f16",
        b: "f16",
        c: "f32",
        d: "f32",
        block: usize::MAX,
        pattern: Pattern::Runs,
        f: 25,
        align: Round::Rz,
        sticky: false,
        normalise: false,
        e_zero: Some(-133),
        c_late: false,
        round: Round::Rz,
        p: 23,
        flush_inputs: false,
        flush_results: false,
        limit: false,
        exact: false,
        negative_zero: false,
        nan: 0x7FFF_FFFF,
    };
}

/// d = c + sum a_k b_k on the described unit.
pub(crate) fn generic(unit: &Params, a: &[u64], b: &[u64], c: u64) -> Result<u64, String> {
    let mut order: Vec<usize> = (0..a.len()).collect();
    // A stable sort: the even class first, each class in k order.
    match unit.pattern {
        Pattern::Runs => {}
        Pattern::EvenOdd => order.sort_by_key(|k| k % 2),
        Pattern::Pairs => order.sort_by_key(|k| k / 2 % 2),
    }
    let mut d = decode(unit.c, c)?;
    if a.is_empty() {
        return Ok(exact_bits(unit.d, &d, unit.nan));
    }
    let mut c_format = unit.c;
    for block in order.chunks(unit.block.min(a.len())) {
        let pairs: Result<Vec<_>, String> = block
            .iter()
            .map(|&k| Ok((flushed(unit, unit.a, decode(unit.a, a[k])?), flushed(unit, unit.b, decode(unit.b, b[k])?))))
            .collect();
        let c = flushed(unit, c_format, d);
        d = one_block(unit, &pairs?, &c);
        c_format = unit.d;
    }
    Ok(exact_bits(unit.d, &d, unit.nan))
}

fn small(name: &str, v: &Val) -> bool {
    let emin = format(name).expect("known").emin;
    matches!(v, Val::Num { .. }) && v.value().cmp_pow2(emin).is_lt()
}

fn flushed(unit: &Params, name: &str, v: Val) -> Val {
    if unit.flush_inputs && small(name, &v) { Val::zero(false) } else { v }
}

fn product(unit: &Params, a: &Val, b: &Val) -> Val {
    let neg = a.is_negative() != b.is_negative();
    match (a, b) {
        (Val::Nan, _) | (_, Val::Nan) => Val::Nan,
        (Val::Inf(_), z) | (z, Val::Inf(_)) if z.is_zero() => Val::Nan,
        (Val::Num { s: sa, e: ea, .. }, Val::Num { s: sb, e: eb, .. }) => {
            let (s, e) = (sa * sb, ea + eb);
            let size = s.times_pow2(e);
            match () {
                () if unit.limit && size.cmp_pow2(128).is_ge() => Val::Inf(neg),
                () if unit.normalise && !s.is_zero() => Val::Num { neg, s: s.times_pow2(-s.log2()), e: e + s.log2() },
                () => Val::Num { neg, s, e },
            }
        }
        _ => Val::Inf(neg),
    }
}

fn one_block(unit: &Params, pairs: &[(Val, Val)], c: &Val) -> Val {
    let mut terms: Vec<Val> = pairs.iter().map(|(a, b)| product(unit, a, b)).collect();
    if !unit.c_late {
        terms.push(c.clone());
    }
    let negative_zero = unit.negative_zero;
    let out = Out { format: if unit.d == "f16" { "f16" } else { "f32" }, p: unit.p, round: unit.round, negative_zero };
    let early = specials(&terms).unwrap_or_else(|| out.emit(&total(unit, &terms)));
    let early = flushed_result(unit, early);
    if unit.c_late { flushed_result(unit, ieee_add(unit.d, c, &early)) } else { early }
}

fn flushed_result(unit: &Params, v: Val) -> Val {
    if unit.flush_results && small(unit.d, &v) { Val::zero(v.is_negative() && unit.negative_zero) } else { v }
}

fn specials(terms: &[Val]) -> Option<Val> {
    let infinite = |s: bool| terms.iter().any(|t| matches!(t, Val::Inf(x) if *x == s));
    match (infinite(false), infinite(true)) {
        _ if terms.iter().any(|t| matches!(t, Val::Nan)) => Some(Val::Nan),
        (true, true) => Some(Val::Nan),
        (false, false) => None,
        (_, minus) => Some(Val::Inf(minus)),
    }
}

fn total(unit: &Params, terms: &[Val]) -> Exact {
    let exponents = terms.iter().filter(|t| !t.is_zero()).filter_map(|t| match t {
        Val::Num { e, .. } => Some(*e),
        _ => None,
    });
    let Some(e_max) = exponents.chain(unit.e_zero).max() else {
        return Exact::zero();
    };
    let mut sum = Exact::zero();
    for t in terms {
        let x = t.value().times_pow2(-e_max);
        sum = &sum + &if unit.exact { x } else { aligned(unit, &x) };
    }
    sum.times_pow2(e_max)
}

/// One aligned term: F fraction bits by the alignment rounding, and the sticky bit below them.
fn aligned(unit: &Params, x: &Exact) -> Exact {
    let r = round_at(x, -unit.f, unit.align);
    if !unit.sticky || (&r - x).is_zero() {
        return r;
    }
    // RD keeps two's complement, so its bit counts upward; RZ and RNE keep a magnitude and a sign.
    let bit = Exact::new(1, -unit.f - 1);
    let down = x.is_negative() && unit.align != Round::Rd;
    if down { &r - &bit } else { &r + &bit }
}
