//! Whether two units are one function: an input with the fewest terms that tells them apart, or a
//! proof that there is none.

use super::encode::{Inner, TERM_BITS};
use super::query::{Live, Query, Reply, Subject};
use super::solver::Solver;
use super::term::{Bits, Truth};
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, SubnormalC, ZeroProducts};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::probe::{BlackBox, Input, Interface, deadline, shrink};
use crate::round::Rounding;
use crate::special::NanRule;
use crate::unit::Unit;
use std::time::{Duration, Instant};

/// What a solver says about two units.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// They are one function, and how that is known.
    Equal(String),
    /// They differ on this input, which the solver found and the library shortened.
    Different {
        /// The input.
        input: Input,
        /// The first unit's result.
        first: u64,
        /// The second unit's result.
        second: u64,
        /// Terms that are not +0 x +0, c among them.
        terms: usize,
        /// Whether it is proved that no input with fewer of them tells the units apart.
        minimal: bool,
    },
    /// Neither was found in time, and what was tried.
    Open(String),
}

/// Compares two units of equal formats and K by a solver, for at most `limit`.
///
/// Inputs are tried by their number of terms that are not +0 x +0: none, one, two, ... Terms that
/// both units treat alike (products of the same block) are interchangeable, because a block's sum
/// is exact and its special values know no order; so only how many of each kind are there counts.
/// An answer that there is no such input is a proof for that number of terms, and the first
/// input found has the fewest.
///
/// # Errors
/// When formats, K or scales differ, a unit has no encoding, or the solver fails.
pub fn diff(first: &Unit, second: &Unit, solver: &Solver, limit: Duration) -> Result<Verdict, Error> {
    let interface = first.interface();
    if interface != second.interface() {
        let scales = |u: &Unit| u.scale.map_or_else(String::new, |s| format!(", a scale for {}", s.block));
        let show = |u: &Unit| format!("{}, K = {}{}", u.equation(), u.shape.k, scales(u));
        return Err(Error::shape(second.to_string(), show(first), show(second)));
    }
    let (first, second) = (Subject::of(first)?, Subject::of(second)?);
    // NaNs' bits count where no number differs.
    let alike = match (first.model.recipe.nan(), second.model.recipe.nan()) {
        (nan, other) if nan != other => second.with(second.model.recipe.with_nan(nan))?,
        _ => second.clone(),
    };
    Ok(match with_nans_alike(&first, &alike, solver, limit)? {
        Verdict::Different { input, first, terms, minimal, .. } => {
            let second = second.evaluate(&input)?;
            Verdict::Different { input, first, second, terms, minimal }
        }
        Verdict::Equal(how) => nans_apart(&first, &second)?.unwrap_or(Verdict::Equal(how)),
        open => open,
    })
}

/// The verdict on two units of one NaN.
fn with_nans_alike(first: &Subject, second: &Subject, solver: &Solver, limit: Duration) -> Result<Verdict, Error> {
    if first.model.recipe == second.model.recipe {
        return Ok(Verdict::Equal("the units have equal parameters".into()));
    }
    let until = deadline(limit);
    let some_time = solver.within((limit / 4).min(solver.timeout()));
    if aligned_alike(first, second, &some_time)? {
        return Ok(Verdict::Equal("every term enters the sum alike, and the rest of the units is equal".into()));
    }
    if let Some(verdict) = by_blocks(first, second, solver, deadline(limit / 2))? {
        return Ok(verdict);
    }
    match fewest_terms(first, second, solver, until)? {
        Search::Found { input, terms, minimal } => shortened(&input, first, second, terms, minimal),
        Search::None => Ok(Verdict::Equal("no input tells them apart".into())),
        Search::Open(why) => Ok(Verdict::Open(why)),
    }
}

/// An input on which units that are else equal return other NaNs: one term that is one.
fn nans_apart(first: &Subject, second: &Subject) -> Result<Option<Verdict>, Error> {
    let i = first.model.interface;
    let scales = vec![0; i.scales()];
    let zeros = || Input { a: vec![0; i.k], b: vec![0; i.k], c: 0, scale_a: scales.clone(), scale_b: scales.clone() };
    let nan = |f: &FormatSpec| f.nan_code(NanRule::Quiet);
    let c = nan(&i.c).map(|c| Input { c, ..zeros() });
    let operand = |first: bool| {
        let (mut input, code) = (zeros(), nan(if first { &i.a } else { &i.b })?);
        *(if first { &mut input.a } else { &mut input.b }).first_mut()? = code;
        Some(input)
    };
    for input in [c, operand(true), operand(false)].into_iter().flatten() {
        let [first, second] = [first.evaluate(&input)?, second.evaluate(&input)?];
        if first != second {
            return Ok(Some(Verdict::Different { input, first, second, terms: 1, minimal: true }));
        }
    }
    Ok(None)
}

/// What a search of inputs by their number of terms ends with.
enum Search {
    /// An input, its terms, and whether it is proved that fewer do not do.
    Found { input: Input, terms: usize, minimal: bool },
    /// There is none.
    None,
    /// Some questions had no answer in time.
    Open(String),
}

fn fewest_terms(first: &Subject, second: &Subject, solver: &Solver, until: Instant) -> Result<Search, Error> {
    let k = first.model.interface.k;
    let classes = classes(first, second);
    // The fewest terms of which a question has no answer.
    let mut open: Option<usize> = None;
    for terms in 0..=k + 1 {
        for live in selections(&classes, k, terms) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Search::Open(unfinished(open.unwrap_or(terms))));
            }
            match differ(first, second, &live, &solver.within(left.min(solver.timeout())))? {
                Reply::Found(input, _) => return Ok(Search::Found { input, terms, minimal: open.is_none() }),
                Reply::Unknown(_) => open = open.or(Some(terms)),
                Reply::None => {}
            }
        }
    }
    Ok(open.map_or(Search::None, |terms| Search::Open(unfinished(terms))))
}

/// An input on which the units differ, shortened by the library.
fn shortened(input: &Input, first: &Subject, second: &Subject, terms: usize, minimal: bool) -> Result<Verdict, Error> {
    let (mut first, mut second) = (first.unit.clone(), second.unit.clone());
    let (input, first, second) = shrink::shrink(input, &mut first, &mut second)?;
    Ok(Verdict::Different { input, first, second, terms, minimal })
}

/// What is known of a search in which inputs of so many terms have no answer.
fn unfinished(terms: usize) -> String {
    match terms {
        0 | 1 => "no answer".into(),
        2 => "no answer, but that no input of one term tells them apart".into(),
        _ => format!("no answer, but that no input of fewer than {terms} terms tells them apart"),
    }
}

/// An input of these terms on which the units differ.
fn differ(first: &Subject, second: &Subject, live: &Live, solver: &Solver) -> Result<Reply, Error> {
    let mut query = Query::new(first.model.interface, live);
    query.define("first", first)?;
    query.define("second", second)?;
    query.assert("(not (= first.d second.d))");
    query.ask(solver, &[("first", first), ("second", second)])
}

/// The kinds of products: those of one kind may change places without changing either result.
fn classes(first: &Subject, second: &Subject) -> Vec<Vec<usize>> {
    let k = first.model.interface.k;
    let block_of = |subject: &Subject, i: usize| match subject.model.recipe {
        Recipe::Generic(x) => x.pattern.blocks(k, x.block).iter().position(|b| b.contains(&i)).unwrap_or(i),
        Recipe::RoundDown(x) => i / x.group.max(1),
        Recipe::GroupScaled(x) => i / x.group.max(1),
        // Products of even k and of odd k are summed apart.
        Recipe::GroupedRoundDown(x) => 2 * (i / x.base.group.max(1)) + i % x.base.group.max(1) % 2,
        // Sums in some order: every product is of its own kind.
        _ => i,
    };
    let scale = |i: usize| first.model.interface.scale.map_or(0, |s| i / s.block);
    let key = |i: usize| (block_of(first, i), block_of(second, i), scale(i));
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for i in 0..k {
        match classes.iter_mut().find(|c| c.first().is_some_and(|&j| key(j) == key(i))) {
            Some(class) => class.push(i),
            None => classes.push(vec![i]),
        }
    }
    classes
}

/// Every choice of `terms` terms, c among them or not, up to exchanges within a class.
fn selections(classes: &[Vec<usize>], k: usize, terms: usize) -> Vec<Live> {
    let mut all = Vec::new();
    for c in [false, true] {
        let Some(products) = terms.checked_sub(usize::from(c)) else { continue };
        let mut partial = vec![(Vec::new(), products)];
        for class in classes {
            partial = partial
                .into_iter()
                .flat_map(|(chosen, left): (Vec<usize>, usize)| {
                    (0..=left.min(class.len())).map(move |n| ([&chosen[..], &class[..n]].concat(), left - n))
                })
                .collect();
        }
        for (chosen, _) in partial.into_iter().filter(|(_, left)| *left == 0) {
            all.push(Live { products: (0..k).map(|i| chosen.contains(&i)).collect(), c });
        }
    }
    all
}

/// The verdict on units of more than one block from one block of each, if that settles it: their blocks take the same
/// products, and a block that does the same with all products and states makes chains of it do the same. A block's
/// own fewest terms are the chain's: a state that is not +0 comes from some other term.
fn by_blocks(first: &Subject, second: &Subject, solver: &Solver, until: Instant) -> Result<Option<Verdict>, Error> {
    let (Recipe::Generic(x), Recipe::Generic(y)) = (first.model.recipe, second.model.recipe) else { return Ok(None) };
    let i = first.model.interface;
    let blocks = x.pattern.blocks(i.k, x.block);
    if i.scale.is_some() || blocks.len() < 2 || y.pattern.blocks(i.k, y.block) != blocks || x.c != y.c {
        return Ok(None);
    }
    let last = x.c == CPosition::Last;
    let adds_c_alike = (x.flush_inputs, x.flush_results, x.nan) == (y.flush_inputs, y.flush_results, y.nan);
    if last && !adds_c_alike {
        return Ok(None);
    }
    // A block's c: the unit's own in the first, results in the others; zero and results where c comes last.
    let inner = if last { CPosition::With } else { x.c };
    let mut kinds = Vec::new();
    for (n, ks) in blocks.iter().enumerate() {
        let c = if n == 0 && !last { i.c } else { i.d };
        match kinds.iter_mut().find(|(size, format, _)| (*size, *format) == (ks.len(), c)) {
            Some(kind) => kind.2 = ks,
            None => kinds.push((ks.len(), c, ks)),
        }
    }
    let one_kind = kinds.len() == 1;
    for (size, c, ks) in kinds {
        let block = Interface { k: size, c, ..i };
        let one = |dot| {
            let dot = GenericDot { block: size, pattern: Pattern::Runs, c: inner, ..dot };
            Subject::of(&block.unit(Recipe::Generic(dot))?)
        };
        match fewest_terms(&one(x)?, &one(y)?, solver, until)? {
            Search::None => {}
            Search::Open(_) => return Ok(None),
            Search::Found { input, terms, minimal } => {
                // Whether the state that it needs can come about is seen by the whole units.
                if last || c != i.c {
                    return Ok(None);
                }
                let mut whole = Input { a: vec![0; i.k], b: vec![0; i.k], ..input };
                for (at, &k) in ks.iter().enumerate() {
                    (whole.a[k], whole.b[k]) = (input.a[at], input.b[at]);
                }
                if first.evaluate(&whole)? == second.evaluate(&whole)? {
                    return Ok(None);
                }
                return shortened(&whole, first, second, terms, minimal && one_kind).map(Some);
            }
        }
    }
    Ok(Some(Verdict::Equal("a block of each does the same with every state".into())))
}

/// Whether both units' blocks align every term alike, on all operands, and do the same with the
/// sum: in the same unit to the same number of units, or without cutting anything off in either.
/// Enough for equality, but not needed: the sums then have equal values, and a result is a function
/// of the sum's value alone. As this holds for any c, it holds along a chain.
fn aligned_alike(first: &Subject, second: &Subject, solver: &Solver) -> Result<bool, Error> {
    let (Recipe::Generic(x), Recipe::Generic(y)) = (first.model.recipe, second.model.recipe) else { return Ok(false) };
    let i = first.model.interface;
    if apart_from_alignment(&x) != apart_from_alignment(&y) || x.exact || i.scale.is_some() {
        return Ok(false);
    }
    let blocks = x.pattern.blocks(i.k, x.block);
    let mut sizes: Vec<usize> = blocks.iter().map(Vec::len).collect();
    sizes.dedup();
    // c comes in its own format, and from the second block on in that of results.
    let starts = if blocks.len() > 1 && i.c != i.d { vec![i.c, i.d] } else { vec![i.c] };
    for (size, c) in sizes.iter().flat_map(|&size| starts.iter().map(move |&c| (size, c))) {
        let block = Interface { k: size, c, ..i };
        let one = |dot| Subject::of(&block.unit(Recipe::Generic(GenericDot { block: size, ..dot }))?);
        if !block_aligned_alike(&one(x)?, &one(y)?, solver)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn block_aligned_alike(first: &Subject, second: &Subject, solver: &Solver) -> Result<bool, Error> {
    let k = first.model.interface.k;
    let mut query = Query::new(first.model.interface, &Live::all(k));
    let width = query.define_inner("first", first, Inner::Terms, &[])?;
    let other = query.define_inner("second", second, Inner::Terms, &[])?;
    // The unit's exponent stands on top; both circuits' widths of it are the same where F is.
    let terms = width.min(other) / TERM_BITS;
    let unit = |name: &str, width: u32| {
        let exponent = Bits::variable(format!("{name}.d"), width).field(terms * TERM_BITS, width - terms * TERM_BITS);
        exponent.extended(32)
    };
    let same_unit = unit("first", width).equals(&unit("second", other));
    let mut alike = Truth::constant(true);
    for n in 0..terms {
        let term = |name: &str, width: u32| {
            let all = Bits::variable(format!("{name}.d"), width);
            (all.field(n * TERM_BITS, TERM_BITS - 1), all.bit(n * TERM_BITS + TERM_BITS - 1))
        };
        let ((x, x_cut), (y, y_cut)) = (term("first", width), term("second", other));
        let exact = x_cut.or(&y_cut).not();
        alike = alike.and(&exact.or(&same_unit.and(&x.equals(&y))));
    }
    query.assert(&alike.not().to_string());
    Ok(query.ask(solver, &[])? == Reply::None)
}

/// A recipe without what decides the aligned values of its terms.
const fn apart_from_alignment(x: &GenericDot) -> GenericDot {
    GenericDot {
        frac_bits: 0,
        alignment: Rounding::TowardZero,
        sticky: false,
        normalise_products: false,
        floor: Floor::None,
        zero_products: ZeroProducts::Ignored,
        subnormal_c: SubnormalC::Stored,
        ..*x
    }
}
