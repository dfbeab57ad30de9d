//! What is looked for, question by question.

use super::super::encode::{Inner, TERM_BITS};
use super::super::number::{Circuit, Number};
use super::super::query::{Live, Query, Subject};
use super::super::term::Bits;
use super::{Asked, Finding};
use crate::accumulate::{Adder, CPosition, Floor, GenericDot, LastTerm, PairwiseSum, Recipe};
use crate::error::Error;
use crate::round::Rounding;
/// Products: one that the operands' format cannot hold, and that every product enters the sum
/// exactly (special operands and -0, which stand for no product, included).
pub(super) fn products(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let one = Live::first(1, false, asked.k());
    let (down, up) = (asked.exact_narrow(Rounding::Down)?, asked.exact_narrow(Rounding::Up)?);
    let exact = asked.exact(asked.dot.output_rounding)?;
    let format = asked.subject.model.interface.a;
    let inexact = asked.look(
        format!("a product that {format} cannot hold"),
        &one,
        &[("unit", &asked.subject), ("exact", &exact), ("down", &down), ("up", &up)],
        |q| {
            q.assert("(not (= down.d up.d))");
            q.assert("(= unit.d exact.d)");
            Ok(())
        },
    )?;
    let mut query = Query::new(asked.subject.model.interface, &one);
    let width = query.define_inner("unit", &asked.subject, Inner::Terms, &[])?;
    let terms = width / TERM_BITS;
    let first_is_cut = Bits::variable("unit.d", width).bit(terms * TERM_BITS - 1);
    query.assert(&first_is_cut.to_string());
    let wrong = asked.finding("a product that alignment cuts, with no other term beside it".into(), &query, &[])?;
    Ok(vec![inexact, wrong])
}

/// Property 1: two products that f16 cannot hold, whose sum it can hold, and arithmetic in f16 misses.
pub(super) fn f16_sums(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let two = Live::first(2, false, asked.k());
    let narrow = asked.subject.with(Recipe::Pairwise(PairwiseSum {
        group: asked.k(),
        flush_inputs: false,
        flush_results: false,
        nan: asked.dot.nan,
    }))?;
    let (down, up) = (asked.exact(Rounding::Down)?, asked.exact(Rounding::Up)?);
    let subjects = [("unit", &asked.subject), ("f16", &narrow), ("down", &down), ("up", &up)];
    let found = asked.look(
        "two products that the result's format cannot hold, with a sum that it can: the unit returns it, products and sums rounded to nearest do not",
        &two,
        &subjects,
        |q| {
            for (k, other) in [(0, 1), (1, 0)] {
                q.define_alone(&format!("down{k}"), &down, other)?;
                q.define_alone(&format!("up{k}"), &up, other)?;
                q.assert(&format!("(not (= down{k}.d up{k}.d))"));
            }
            q.assert("(= down.d up.d)");
            q.assert("(= unit.d up.d)");
            q.assert("(not (= f16.d unit.d))");
            Ok(())
        },
    )?;
    Ok(vec![found])
}

/// The roundings of IEEE 754.
const IEEE: [Rounding; 4] = [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up];

/// One product and c, against the exact sum in each IEEE rounding.
pub(super) fn truncation(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let live = Live::first(1, true, asked.k());
    let against = |rounding: Rounding| {
        let exact = asked.exact(rounding)?;
        asked.look(
            format!("one product and c whose sum the unit does not round as IEEE's {rounding} would"),
            &live,
            &[("unit", &asked.subject), ("exact", &exact)],
            |q| {
                q.assert("(not (= unit.d exact.d))");
                Ok(())
            },
        )
    };
    IEEE.into_iter().map(against).collect()
}

/// Property 2: single products on which roundings to the result's format differ.
pub(super) fn f16_rounding(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let one = Live::first(1, false, asked.k());
    let nearest = asked.exact(Rounding::NearestEven)?;
    let others = [Rounding::TowardZero, Rounding::Down, Rounding::Up, Rounding::NearestAway, Rounding::NearestZero];
    let against = |rounding: Rounding| {
        let other = asked.exact(rounding)?;
        asked.look(
            format!("a product that rne and {rounding} round differently, and the unit as rne"),
            &one,
            &[("unit", &asked.subject), ("other", &other), ("nearest", &nearest)],
            |q| {
                q.assert("(not (= unit.d other.d))");
                q.assert("(= unit.d nearest.d)");
                Ok(())
            },
        )
    };
    others.into_iter().map(against).collect()
}

/// Property 3: a sum in order depends on it; this one does not. The proof: the largest exponent is
/// the same when neighbours change places (so it is for every order, permutations being products of
/// such exchanges); each term is cut off by a function of itself and of that exponent alone; and
/// addition modulo a power of two, without loss here, has no order.
pub(super) fn order(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let live = Live::first(3.min(asked.k()), false, asked.k());
    let chain = asked.subject.with(GenericDot { block: 1, ..asked.dot })?;
    let depends = asked.look(
        "products whose chain of two-term sums changes when the first and the last change places; the unit's sum does not",
        &live,
        &[("unit", &asked.subject), ("chain", &chain)],
        |q| {
            q.define_inner("reversed", &chain, Inner::Result, &[(0, 2)])?;
            q.define_inner("again", &asked.subject, Inner::Result, &[(0, 2)])?;
            q.assert("(not (= chain.d reversed.d))");
            q.assert("(= unit.d again.d)");
            Ok(())
        },
    )?;
    let mut findings = vec![depends];
    for k in 1..asked.k() {
        let mut query = Query::new(asked.subject.model.interface, &Live::all(asked.k()));
        query.define_inner("one", &asked.subject, Inner::LargestExponent, &[])?;
        query.define_inner("other", &asked.subject, Inner::LargestExponent, &[(k - 1, k)])?;
        query.assert("(not (= one.d other.d))");
        let sought = format!("operands whose largest exponent changes when products {} and {k} change places", k - 1);
        findings.push(asked.finding(sought, &query, &[])?);
    }
    Ok(findings)
}

/// Property 4: positive terms on which a chain of two-term sums, each normalised, gives another result.
pub(super) fn normalisation(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let live = Live::first(2.min(asked.k()), true, asked.k());
    let chain = asked.subject.with(GenericDot { block: 1, ..asked.dot })?;
    let found = asked.look(
        "two products and c, all positive, on which normalising every partial sum gives another result",
        &live,
        &[("unit", &asked.subject), ("normalised", &chain)],
        |q| {
            asked.all_operands(q, &live, |_, x| x.negative.or(&x.zero).not());
            q.assert("(not (= unit.d normalised.d))");
            Ok(())
        },
    )?;
    Ok(vec![found])
}

/// Section 4.4. The paper asks for two subnormal f16 numbers whose product is normal in f16: there are none.
pub(super) fn subnormals(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let i = asked.subject.model.interface;
    let one = Live::first(1, false, asked.k());
    let flushes_inputs = asked.subject.with(GenericDot { flush_inputs: true, ..asked.dot })?;
    let input = asked.look(
        "a subnormal a, a normal b, and a result that a unit flushing inputs does not give",
        &one,
        &[("unit", &asked.subject), ("flushing", &flushes_inputs)],
        |q| {
            q.assert_of("a0", &i.a, |_, a| a.subnormal());
            q.assert_of("b0", &i.b, |_, b| b.subnormal().or(&b.zero).not());
            q.assert("(not (= unit.d flushing.d))");
            Ok(())
        },
    )?;
    let flushes_results = asked.subject.with(GenericDot { flush_results: true, ..asked.dot })?;
    let output = asked.look(
        "normal a and b whose product is a subnormal result",
        &one,
        &[("unit", &asked.subject), ("flushing", &flushes_results)],
        |q| {
            asked.all_operands(q, &one, |_, x| x.subnormal().or(&x.zero).not());
            q.assert("(not (= unit.d flushing.d))");
            q.assert_of("unit.d", &i.d, |_, d| d.subnormal());
            Ok(())
        },
    )?;
    let both = asked.look(
        "subnormal a and b whose product is a normal number of the result's format",
        &one,
        &[("unit", &asked.subject)],
        |q| {
            asked.all_operands(q, &one, |_, x| x.subnormal());
            q.assert_of("unit.d", &i.d, |_, d| d.subnormal().or(&d.zero).not().and(&d.finite()));
            Ok(())
        },
    )?;
    let mut findings = vec![input, output, both];
    if i.c == i.d {
        let alone = asked.look(
            "a subnormal c that is not returned unchanged when all products are zero",
            &Live::first(0, true, asked.k()),
            &[("unit", &asked.subject)],
            |q| {
                q.assert_of("c", &i.c, |_, c| c.subnormal());
                q.assert("(not (= unit.d c))");
                Ok(())
            },
        )?;
        findings.push(alone);
    }
    Ok(findings)
}

/// Section 4.3, with n = ceil(log2(K + 1)): an input that wraps with n - 1 carry bits, a proof that n
/// are enough, and inputs that tell the unit from one of n - 1 carry bits that normalises before its
/// last addition, with c or with a product.
///
/// Widening the adder by 16 bits changes no sum: that is asked of sums rather than results, because
/// the rest of the unit is a function of the sum. For the wrapping input all products are alike,
/// which takes nothing from an input once it is found.
pub(super) fn carry_bits(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let i = asked.subject.model.interface;
    let k = asked.k();
    let needed = usize::BITS - k.leading_zeros();
    let narrow = |adder: Adder| -> Result<Subject, Error> { asked.narrow(adder) };
    let fewer = narrow(Adder::Wraps { carry_bits: needed - 1 })?;
    let wraps = asked.look(
        format!("an input that wraps with {} carry bits", needed - 1),
        &Live::all(k),
        &[("unit", &asked.subject), ("narrow", &fewer)],
        |q| {
            for n in 1..k {
                q.assert(&format!("(and (= a{n} a0) (= b{n} b0))"));
            }
            q.assert_of("unit.d", &i.d, |_, d| d.finite());
            q.assert("(not (= unit.d narrow.d))");
            Ok(())
        },
    )?;
    let mut query = Query::new(i, &Live::all(k));
    query.define_inner("enough", &narrow(Adder::Wraps { carry_bits: needed })?, Inner::Units, &[])?;
    query.define_inner("wider", &narrow(Adder::Wraps { carry_bits: needed + 16 })?, Inner::Units, &[])?;
    query.assert("(not (= enough.d wider.d))");
    let sought = format!("an input whose sum wraps with {needed} carry bits");
    let mut findings = vec![wraps, asked.finding(sought, &query, &[])?];
    for last in [LastTerm::C, LastTerm::Product] {
        let normalises = narrow(Adder::Normalises { carry_bits: needed - 1, last })?;
        let mut live = Live::first(2.min(k), true, k);
        live.products[k - 1] = true;
        let what = if last == LastTerm::C { "c" } else { "the last product" };
        findings.push(asked.look(
            format!(
                "an input on which {} carry bits differ, the sum being normalised before {what} is added",
                needed - 1
            ),
            &live,
            &[("unit", &asked.subject), ("normalising", &normalises)],
            |q| {
                q.assert("(not (= unit.d normalising.d))");
                Ok(())
            },
        )?);
    }
    Ok(findings)
}

/// The paper's own model, a unit of the catalogue's names (`valpey/volta`), against this one.
pub(super) fn valpey_model(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let model = GenericDot {
        normalise_products: true,
        floor: Floor::None,
        frac_bits: asked.dot.frac_bits,
        nan: crate::special::NanRule::Quiet,
        ..asked.dot
    };
    let model = asked.subject.with(model)?;
    let live = Live::first(2.min(asked.k()), true, asked.k());
    let found = asked.look(
        "two products and c on which normalising products to f32 gives another result",
        &live,
        &[("unit", &asked.subject), ("model", &model)],
        |q| {
            q.assert("(not (= unit.d model.d))");
            Ok(())
        },
    )?;
    Ok(vec![found])
}

/// Section 6, Property 5. Operands are f16 numbers, so that both schemes' residuals are zero:
/// Markidis et al.'s is then the unit with c inside, Ootomo and Yokota's the unit from +0 with c
/// added outside in rne. An input of this kind is one of the whole schemes. It is asked for one
/// where the unit gives the exact sum, so that its error is 0 and the other's is not; exponents are
/// from -15 to 14, as in the paper.
pub(super) fn schemes(asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    let outside = asked.subject.with(GenericDot { c: CPosition::Last, ..asked.dot })?;
    let (down, up) = (asked.exact(Rounding::Down)?, asked.exact(Rounding::Up)?);
    let live = Live::all(asked.k());
    let found = asked.look(
        "operands whose exact sum Markidis et al.'s scheme returns and Ootomo and Yokota's does not",
        &live,
        &[("markidis", &asked.subject), ("ootomo", &outside), ("down", &down), ("up", &up)],
        |q| {
            let in_range = |circuit: &Circuit, x: &Number| {
                let (low, high) = (circuit.exponent(-16), circuit.exponent(15));
                x.subnormal().not().and(&x.zero.or(&low.less(&x.exponent).and(&x.exponent.less(&high))))
            };
            asked.all_operands(q, &live, in_range);
            q.assert("(= down.d up.d)");
            q.assert("(= markidis.d up.d)");
            q.assert("(not (= ootomo.d up.d))");
            Ok(())
        },
    )?;
    Ok(vec![found])
}
