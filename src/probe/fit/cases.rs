//! What the box was asked and what it answered, ready for testing many models against it.

use super::super::black_box::{Input, Interface};
use crate::accumulate::{Accumulator, Dot, GenericDot, Pattern, Recipe, ZeroProducts};
use crate::num::Num;
use crate::round::Rounding;
use core::cell::RefCell;

/// One input, unpacked, and the box's answer.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) input: Input,
    pub(crate) answer: u64,
    want: Num,
    a: Vec<Num>,
    b: Vec<Num>,
    c: Num,
    scale_a: Vec<Num>,
    scale_b: Vec<Num>,
    /// The k whose operands are not both +0.
    present: Vec<usize>,
    /// The case without its zero products for the cut of K it was last tested with: models differ in that more rarely
    /// than in the rest.
    cut: RefCell<Option<(Pattern, usize, Compact)>>,
}

fn spread(codes: &[u64], interface: &Interface) -> Vec<Num> {
    let Some(rule) = interface.scale else { return Vec::new() };
    codes.iter().flat_map(|&x| std::iter::repeat_n(rule.format.decode(x), rule.block)).collect()
}

impl Case {
    pub(crate) fn new(interface: &Interface, input: Input, answer: u64) -> Self {
        let unpack = |codes: &[u64], f: &crate::format::FormatSpec| codes.iter().map(|&x| f.decode(x)).collect();
        // Of formats without a zero, code 0 is a number.
        let zeros = [interface.a, interface.b].iter().all(|f| f.decode(0).is_zero());
        let present = (0..interface.k).filter(|&k| !zeros || input.a[k] != 0 || input.b[k] != 0).collect();
        Self {
            want: interface.d.decode(answer),
            answer,
            a: unpack(&input.a, &interface.a),
            b: unpack(&input.b, &interface.b),
            c: interface.c.decode(input.c),
            scale_a: spread(&input.scale_a, interface),
            scale_b: spread(&input.scale_b, interface),
            present,
            cut: RefCell::new(None),
            input,
        }
    }

    pub(super) fn dot<'a>(&'a self, interface: &'a Interface) -> Dot<'a> {
        Dot { a: &self.a, b: &self.b, c: self.c, scale_a: &self.scale_a, scale_b: &self.scale_b, out: &interface.d }
    }

    /// Whether a model gives the box's answer; any NaN for any NaN if `nan` is not asked for.
    pub(crate) fn agrees(&self, recipe: &Recipe, interface: &Interface, nan: bool) -> bool {
        let got = match recipe {
            Recipe::Generic(x) if interface.k > WORTH_REDUCING && self.is_sparse() && !sees_zeros(x) => {
                self.reduced(x, interface)
            }
            _ => recipe.dot_add(&self.dot(interface)),
        };
        self.same(&got, interface, nan)
    }

    /// A model's answer from the products that are not zero.
    fn reduced(&self, model: &GenericDot, interface: &Interface) -> Num {
        let mut cut = self.cut.borrow_mut();
        let cut = match &mut *cut {
            Some(cut) if (cut.0, cut.1) == (model.pattern, model.block) => cut,
            other => other.insert((model.pattern, model.block, Compact::cut(self, model, interface))),
        };
        cut.2.dot_add(model, interface)
    }

    /// Whether leaving out the zero products saves work and changes nothing.
    fn is_sparse(&self) -> bool {
        let finite = |s: &[Num]| s.iter().all(|x| x.is_finite() && !x.is_zero());
        self.present.len() <= SPARSE && finite(&self.scale_a) && finite(&self.scale_b)
    }

    fn same(&self, got: &Num, interface: &Interface, nan: bool) -> bool {
        let same_nan = got.is_nan() && self.want.is_nan() && !nan;
        *got == self.want || same_nan || interface.d.encode_result(got) == self.answer
    }

    /// Whether all products that are not zero are of one of the groups that follow each other in K.
    pub(crate) fn within_one_group(&self, group: usize) -> bool {
        self.present.windows(2).all(|pair| pair[0] / group == pair[1] / group)
    }

    /// Whether c is zero and all products that are not are of the last group: one sum, which nothing follows.
    pub(crate) fn ends_in_one_sum(&self, group: usize, k: usize) -> bool {
        self.c.is_zero() && self.present.iter().all(|at| at / group == (k - 1) / group)
    }

    /// Whether operands and answer are ordinary: no special value, nothing subnormal.
    pub(crate) fn is_ordinary(&self) -> bool {
        let normal = |x: &Num| x.is_finite() && !x.is_subnormal();
        let scales = self.scale_a.iter().chain(&self.scale_b);
        let operands = self.a.iter().chain(&self.b).chain(scales).chain([&self.c]);
        operands.chain([&self.want]).all(normal) && !self.want.is_zero()
    }

    /// Whether no product is so small that the usual floors of alignment, d's lowest exponent at most, can matter.
    pub(crate) fn is_above_floor(&self, interface: &Interface) -> bool {
        let scale = |scales: &[Num], k: usize| scales.get(k).map_or(0, |s| s.exponent);
        let exponent = |k: usize| {
            let (a, b) = (&self.a[k], &self.b[k]);
            a.exponent + b.exponent + scale(&self.scale_a, k) + scale(&self.scale_b, k)
        };
        let nonzero = |k: &usize| !self.a[*k].is_zero() && !self.b[*k].is_zero();
        self.present.iter().copied().filter(nonzero).all(|k| exponent(k) >= interface.d.emin())
    }

    /// Significant fraction bits of the answer.
    pub(crate) const fn answer_bits(&self) -> u32 {
        if !self.want.is_finite() || self.want.significand == 0 {
            return 0;
        }
        let lead = self.want.significand.ilog2();
        lead - self.want.significand.trailing_zeros()
    }
}

/// A case with its zero products left out, for one way of cutting K into blocks: full blocks of
/// one size, in order. Runs of empty blocks are short, and blocks hold no zero products at all, unless
/// the model [`sees_zeros`].
#[derive(Clone, Debug)]
pub(crate) struct Compact {
    a: Vec<Num>,
    b: Vec<Num>,
    c: Num,
    scale_a: Vec<Num>,
    scale_b: Vec<Num>,
    block: usize,
    at: usize,
}

/// More non-zero products than this, and leaving out the rest saves nothing.
const SPARSE: usize = 6;

/// Products from which on reducing a case costs less than it saves.
const WORTH_REDUCING: usize = 8;

/// Whether a second block without products can change what the first one left: a sticky bit that
/// is rounded to nearest or away moves the value each time. Or whether a zero product's exponent can
/// be above that of a product that is not zero: a normalised one.
pub(crate) fn sees_zeros(model: &GenericDot) -> bool {
    let directed = matches!(model.alignment, Rounding::TowardZero | Rounding::Down | Rounding::Up);
    let drifts = model.sticky && !directed;
    let outranked = model.normalise_products && model.zero_products == ZeroProducts::OwnExponent;
    (drifts || outranked) && !model.exact
}

/// Empty blocks after which more change nothing: the first may round c to zero, the next one gives that its sign.
const EMPTY: usize = 2;

/// The blocks of `partition`, each reduced to the members in `present`. Of runs of empty ones the first [`EMPTY`] if
/// `merge`; else one absent member stays, for all those of its block.
pub(crate) fn reduced(partition: &[Vec<usize>], present: &[usize], merge: bool) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for block in partition {
        let (mut members, absent): (Vec<usize>, Vec<usize>) = block.iter().partition(|k| present.contains(k));
        if !merge {
            members.extend(absent.first());
        } else if members.is_empty()
            && blocks.len() >= EMPTY
            && blocks[blocks.len() - EMPTY..].iter().all(Vec::is_empty)
        {
            continue;
        }
        blocks.push(members);
    }
    blocks
}

impl Compact {
    /// The compact form of case number `at`, runs of empty blocks shortened if `merge`.
    pub(crate) fn new(case: &Case, at: usize, partition: &[Vec<usize>], interface: &Interface, merge: bool) -> Self {
        // Zero products of one block need not have one scale.
        let sparse = case.is_sparse() && (merge || case.scale_a.is_empty());
        let blocks = if sparse { reduced(partition, &case.present, merge) } else { partition.to_vec() };
        Self::of(case, at, &blocks, interface)
    }

    /// The compact form of a sparse case for a model's own cut, runs of empty blocks shortened: [`reduced`] of all of
    /// K's blocks, which cost more to cut than to sum.
    fn cut(case: &Case, model: &GenericDot, interface: &Interface) -> Self {
        let (k, block) = (interface.k, model.block.max(1));
        let mut places: Vec<(usize, usize)> =
            case.present.iter().map(|&at| (model.pattern.position(at, k) / block, at)).collect();
        places.sort_unstable();
        let mut blocks: Vec<Vec<usize>> = Vec::with_capacity((EMPTY + 1) * places.len() + EMPTY);
        let mut next = 0;
        for members in places.chunk_by(|x, y| x.0 == y.0) {
            blocks.extend((next..members[0].0).take(EMPTY).map(|_| Vec::new()));
            blocks.push(members.iter().map(|m| m.1).collect());
            next = members[0].0 + 1;
        }
        blocks.extend((next..k.div_ceil(block)).take(EMPTY).map(|_| Vec::new()));
        Self::of(case, 0, &blocks, interface)
    }

    /// The compact form of these blocks' members.
    fn of(case: &Case, at: usize, blocks: &[Vec<usize>], interface: &Interface) -> Self {
        let block = blocks.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let pick = |from: &[Num], pad: Num| -> Vec<Num> {
            if from.is_empty() {
                return Vec::new();
            }
            let mut nums = Vec::with_capacity(blocks.len() * block);
            for (n, ks) in blocks.iter().enumerate() {
                nums.extend(ks.iter().map(|&k| from[k]));
                nums.resize((n + 1) * block, pad);
            }
            nums
        };
        let scale_pad = case.scale_a.first().copied().unwrap_or(case.c);
        Self {
            a: pick(&case.a, interface.a.zero()),
            b: pick(&case.b, interface.b.zero()),
            c: case.c,
            scale_a: pick(&case.scale_a, scale_pad),
            scale_b: pick(&case.scale_b, scale_pad),
            block,
            at,
        }
    }

    /// Whether a generic model with this partition gives the answer of its case.
    pub(crate) fn agrees(&self, model: &GenericDot, cases: &[Case], interface: &Interface) -> bool {
        cases[self.at].same(&self.dot_add(model, interface), interface, false)
    }

    fn dot_add(&self, model: &GenericDot, interface: &Interface) -> Num {
        let (a, b) = (&self.a, &self.b);
        let dot = Dot { a, b, c: self.c, scale_a: &self.scale_a, scale_b: &self.scale_b, out: &interface.d };
        GenericDot { block: self.block, pattern: Pattern::Runs, ..*model }.dot_add(&dot)
    }
}

/// Tests models against cases, the case that refuted the last model first.
#[derive(Debug)]
pub(crate) struct Jury<T> {
    pub(crate) cases: Vec<T>,
}

impl<T> Jury<T> {
    /// How many cases refute a model, counted up to `limit`.
    pub(crate) fn refutations(&mut self, limit: usize, agrees: impl Fn(&T) -> bool) -> usize {
        let mut count = 0;
        for i in 0..self.cases.len() {
            if !agrees(&self.cases[i]) {
                count += 1;
                self.cases.swap(i, i / 2);
                if count >= limit {
                    break;
                }
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::bench::Bench;
    use super::super::super::black_box::BlackBox;
    use super::super::super::generate::{ENDS, Generator, Kind};
    use super::super::options::options;
    use super::*;
    use crate::Unit;

    /// Sparse cases with and without their zero products, on models of which zero products are seen in either
    /// way, and on these with any one parameter changed.
    #[test]
    fn leaving_out_zero_products_changes_no_answer() {
        for (pattern, rules) in [
            ("even-odd", "normalise=yes:zero-products=count"),
            ("even-odd", "align=rne:sticky=yes:normalise=yes"),
            ("pairs", "c=late"),
            ("runs", "c=last"),
            ("runs", "align=rd:zero-products=count:out=rne:out-bits=17:negative-zero=yes"),
        ] {
            let name = format!("custom/m1n1k64.f32.f16.f16.f32/dot:block=2:pattern={pattern}:F=18:{rules}");
            let unit = Unit::find(&name).expect("a unit");
            let interface = unit.interface();
            let mut generator = Generator::new(Bench::new(interface), 1);
            let mut inputs = generator.of_kinds(&[Kind::FewTerms], 20);
            inputs.extend(generator.of_kinds(&ENDS, 40));
            // c alone, of which one block leaves a zero.
            let alone = |c| Input { c, ..Bench::new(interface).zeros() };
            inputs.extend([0, 1 << 31, 2, (1 << 31) | 2, (1 << 31) | (1 << 20)].map(alone));
            let mut cases: Vec<Case> = inputs.into_iter().map(|x| Case::new(&interface, x, 0)).collect();
            cases.retain(Case::is_sparse);
            assert!(cases.len() > 20);
            for (_, models) in options(&unit.recipe.expect("a recipe"), &interface, &[]) {
                models.iter().for_each(|model| assert_compact_is_whole(model, &cases, &interface));
            }
        }
    }

    fn assert_compact_is_whole(model: &Recipe, cases: &[Case], interface: &Interface) {
        let Recipe::Generic(generic) = model else { unreachable!("a change of parameter changes no family") };
        let partition = generic.pattern.blocks(interface.k, generic.block);
        for (at, case) in cases.iter().enumerate() {
            let whole = model.dot_add(&case.dot(interface));
            for merge in [true, false].into_iter().filter(|merge| !(*merge && sees_zeros(generic))) {
                let compact = Compact::new(case, at, &partition, interface, merge);
                assert_eq!(compact.dot_add(generic, interface), whole, "{model} {merge} {}", case.input);
                let cut = Compact::cut(case, generic, interface);
                assert!(!merge || (&cut.a, &cut.b) == (&compact.a, &compact.b), "{model} {}", case.input);
            }
        }
    }
}
