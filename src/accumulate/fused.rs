//! FDA, the fused dot-add of NVIDIA tensor cores, and the two ways in which it is composed.

use super::{Accumulator, CPosition, Dot, Finish, GenericDot, Pattern, Recipe, Refusal, Signature, gather, ieee};
use crate::format::{F16, FormatSpec};
use crate::num::{Fixed, Num, Term};
use crate::round::{self, Rounding};
use crate::special::{NanRule, SpecialCases};
use crate::trace::{Event, Label, Observer, Trace};

/// The exponent that alignment never goes below (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Floor {
    /// `emin(D) - n`: 5 on Volta, 6 on Turing, Ampere and Ada, 7 from Hopper on
    /// (MATLAB-tensor-core, probed on GPUs; mmasim 2.1.1; one H100 result).
    BelowEmin(i32),
    /// No floor, but a zero c counts as `emin(D)` (MMA-Sim's paper).
    ZeroC,
    /// No floor: only non-zero terms count.
    None,
}

/// How a product with a zero operand counts in the largest exponent (D2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ZeroProducts {
    /// Not at all; the sum stands at the floor (hardware vectors, mmasim 2.1.1).
    #[default]
    Ignored,
    /// By its operands' exponents, a zero operand having its format's smallest one: 0 x 2^100
    /// counts as -126 + 100 (mmasim's first code).
    OwnExponent,
}

/// The exponent of a subnormal c (D3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SubnormalC {
    /// Its format's smallest exponent, with s < 1 (MMA-Sim).
    #[default]
    Stored,
    /// The exponent it would have if normalised (MATLAB-tensor-core).
    Normalised,
}

/// How a sum becomes a number of the output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// The rounding to formats of more than 10 fraction bits, f32 above all.
    pub wide: Rounding,
    /// The rounding to f16 and narrower formats.
    pub narrow: Rounding,
    /// Fraction bits kept, if fewer than the format has: 13 for the e8m13 results of fp8 units.
    pub frac_bits: Option<u32>,
}

impl Output {
    /// f32 RZ, f16 RNE: NVIDIA's.
    pub const NVIDIA: Self = Self { wide: Rounding::TowardZero, narrow: Rounding::NearestEven, frac_bits: None };
    /// e8m13 RZ in f32, f16 RNE: NVIDIA's fp8 units with 13 fraction bits.
    pub const NVIDIA_E8M13: Self = Self { frac_bits: Some(13), ..Self::NVIDIA };

    /// The rounding for results in `out`.
    pub const fn rounding(&self, out: &FormatSpec) -> Rounding {
        if out.fraction_bits > 10 { self.wide } else { self.narrow }
    }
}

/// FDA: every product and c is cut off `frac_bits` bits below the largest exponent, then summed
/// exactly and rounded once.
///
/// Sources: Fasi et al. 3.1 (Volta to Ampere), MMA-Sim IV-C, Khattak and Mikaitis IV. With block
/// scales, their exponents (and significands) join the products, as in mxf8f6f4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FusedDotAdd {
    /// F: fraction bits kept below the largest exponent.
    pub frac_bits: u32,
    /// D1: the exponent that alignment never goes below.
    pub floor: Floor,
    /// D2: whether a zero product counts in the largest exponent.
    pub zero_products: ZeroProducts,
    /// D3: the exponent of a subnormal c.
    pub subnormal_c: SubnormalC,
    /// The output rounding.
    pub output: Output,
    /// D6: the NaN returned.
    pub nan: NanRule,
}

impl FusedDotAdd {
    const fn new(frac_bits: u32, below: i32, output: Output) -> Self {
        Self {
            frac_bits,
            floor: Floor::BelowEmin(below),
            zero_products: ZeroProducts::Ignored,
            subnormal_c: SubnormalC::Stored,
            output,
            nan: NanRule::AllOnes,
        }
    }

    /// V100, and Turing's m8n8k4 (D7): F = 23.
    pub const VOLTA: Self = Self::new(23, 5, Output::NVIDIA);
    /// T4 and RTX 20: F = 24.
    pub const TURING: Self = Self::new(24, 6, Output::NVIDIA);
    /// A100 and RTX 30: F = 24, as on Turing.
    pub const AMPERE: Self = Self::TURING;
    /// L40S and RTX 40: F = 24, as on Turing.
    pub const ADA: Self = Self::TURING;
    /// Ada's fp8 units: F = 13, results of 13 fraction bits.
    pub const ADA_FP8: Self = Self::new(13, 6, Output::NVIDIA_E8M13);
    /// H100 and H200: F = 25.
    pub const HOPPER: Self = Self::new(25, 7, Output::NVIDIA);
    /// Hopper's fp8 wgmma: F = 13, results of 13 fraction bits.
    pub const HOPPER_FP8: Self = Self::new(13, 7, Output::NVIDIA_E8M13);
    /// B200 and RTX 50: F = 25, as on Hopper.
    pub const BLACKWELL: Self = Self::HOPPER;

    /// c as it enters the alignment.
    pub(super) const fn addend(c: &Num, rule: SubnormalC) -> Term {
        match rule {
            SubnormalC::Normalised if c.is_subnormal() => c.term().normalised(),
            _ => c.term(),
        }
    }

    fn run(&self, dot: &Dot<'_>, seen: &mut impl Observer) -> Num {
        if let Some(d) = special_verdict(dot, Some(&dot.c), self.nan, seen) {
            return d;
        }
        let c = Self::addend(&dot.c, self.subnormal_c);
        let Some(e_max) =
            largest_exponent(dot, self.floor, self.zero_products, (0..dot.len()).map(|k| dot.product(k)), Some(&c))
        else {
            return dot.out.zero();
        };
        let unit = e_max - self.frac_bits.min(MAX_FRAC_BITS) as i32;
        seen.see(|| Event::Align { e_max, unit });
        let mut sum: i128 = 0;
        for k in 0..dot.len() {
            sum += align(&dot.product(k), unit, Rounding::TowardZero, seen, || Label::Product(k));
        }
        sum += align(&c, unit, Rounding::TowardZero, seen, || Label::Addend);
        let finish = Finish {
            rounding: self.output.rounding(dot.out),
            frac_bits: self.output.frac_bits,
            ieee_overflow: false,
            negative_zero: false,
        };
        finished(Fixed::from_units(sum, unit), &finish, dot.out, seen)
    }
}

/// Rule (S) over products, scales and, if it takes part, c.
pub(super) fn special_verdict(dot: &Dot<'_>, c: Option<&Num>, nan: NanRule, seen: &mut impl Observer) -> Option<Num> {
    let mut cases = SpecialCases::default();
    for (a, b) in dot.a.iter().zip(dot.b) {
        cases.product(a, b);
    }
    for scale in dot.scale_a.iter().chain(dot.scale_b) {
        cases.scale(scale);
    }
    if let Some(c) = c {
        cases.addend(c);
    }
    let verdict = cases.verdict(nan, dot.out);
    if let Some(d) = &verdict {
        seen.see(|| Event::Special(if d.is_nan() { "NaN" } else { "an infinity" }.into()));
    }
    verdict
}

/// max(floor, exponents of the non-zero terms); None when nothing sets one.
pub(super) fn largest_exponent(
    dot: &Dot<'_>,
    floor: Floor,
    zeros: ZeroProducts,
    products: impl Iterator<Item = Term>,
    c: Option<&Term>,
) -> Option<i32> {
    let emin = dot.out.emin();
    let floor = match floor {
        // Out of range it is meaningless, but no overflow.
        Floor::BelowEmin(n) => Some(emin - n.clamp(-MAX_FLOOR, MAX_FLOOR)),
        Floor::ZeroC if c.is_some_and(Term::is_zero) => Some(emin),
        Floor::ZeroC | Floor::None => None,
    };
    let count_zeros = zeros == ZeroProducts::OwnExponent;
    let products = products.filter(|p| count_zeros || !p.is_zero()).map(|p| p.exponent).max();
    let c = c.filter(|c| !c.is_zero()).map(|c| c.exponent);
    floor.max(products).max(c)
}

/// A number unpacked as its f16 code is. Numbers of narrower formats within f16's range, subnormals
/// of e4m3 above all, only move their binary point; anything else goes through its code.
pub(super) fn as_f16(x: &Num) -> Num {
    if !x.is_finite() {
        return *x;
    }
    let f16 = const { F16.zero() };
    let lead = if x.is_zero() { f16.exponent } else { x.term().normalised_exponent() };
    let exponent = lead.max(f16.exponent);
    // The weight of x's last bit in units of the f16 number's last bit.
    let up = (x.exponent - x.frac_bits as i32) - (exponent - f16.frac_bits as i32);
    if exponent > 15 || !(0..=20).contains(&up) {
        return F16.decode(F16.encode_result(x));
    }
    Num { exponent, significand: x.significand << up, frac_bits: f16.frac_bits, ..*x }
}

/// A term in units of `2^unit`, signed.
pub(super) fn align(
    term: &Term,
    unit: i32,
    rounding: Rounding,
    seen: &mut impl Observer,
    label: impl FnOnce() -> Label,
) -> i128 {
    let rounded = round::to_multiple(term.fixed(), unit, rounding);
    let units = if term.negative { -(rounded.magnitude as i128) } else { rounded.magnitude as i128 };
    seen.see(|| Event::Term {
        label: label(),
        term: *term,
        aligned: Fixed::from_units(units, unit),
        unit,
        cut: !rounded.exact,
    });
    units
}

/// Rounds a sum to the output and tells the observer.
pub(super) fn finished(sum: Fixed, finish: &Finish, out: &FormatSpec, seen: &mut impl Observer) -> Num {
    seen.see(|| Event::Sum(sum));
    let value = finish.apply(sum, out);
    seen.see(|| {
        let bits = finish.frac_bits.map_or(String::new(), |p| format!(" at {p} fraction bits"));
        Event::Rounded { how: format!("{} to {out}{bits}", finish.rounding), value }
    });
    value
}

/// The most fraction bits an aligned sum may keep: with K up to 2^16 the sum stays within 127 bits.
pub(super) const MAX_FRAC_BITS: u32 = 100;

/// How far from emin an alignment floor may be, either way.
pub(super) const MAX_FLOOR: i32 = 4096;

/// A check of floors shared by all aligned sums.
pub(super) fn check_floor(floor: Floor) -> Result<(), Refusal> {
    match floor {
        Floor::BelowEmin(n) if n.unsigned_abs() > MAX_FLOOR.unsigned_abs() => {
            Err(format!("a floor {} from emin is more than the {MAX_FLOOR} supported", n.unsigned_abs()).into())
        }
        _ => Ok(()),
    }
}

/// A check of how sums become results.
pub(super) fn check_output(rounding: Rounding, frac_bits: Option<u32>) -> Result<(), Refusal> {
    check_rounding(rounding)?;
    if frac_bits == Some(0) {
        return Err("an output needs at least one fraction bit".into());
    }
    Ok(())
}

/// A check of roundings inside units.
pub(super) fn check_rounding(rounding: Rounding) -> Result<(), Refusal> {
    if matches!(rounding, Rounding::Stochastic { .. }) {
        return Err("stochastic rounding inside a unit is not modelled".into());
    }
    Ok(())
}

/// A check of F alone, which an exact sum has too, without a meaning.
pub(super) fn check_frac_bits(frac_bits: u32) -> Result<(), Refusal> {
    if frac_bits > MAX_FRAC_BITS {
        return Err(format!("{frac_bits} fraction bits are more than the {MAX_FRAC_BITS} supported").into());
    }
    Ok(())
}

/// A width check shared by all aligned sums.
pub(super) fn check_width(frac_bits: u32, signature: &Signature) -> Result<(), Refusal> {
    check_frac_bits(frac_bits)?;
    let scale = signature.scale.map_or(0, |s| 2 * s.fraction_bits + 2);
    let product = signature.a.fraction_bits + signature.b.fraction_bits + 2 + scale;
    if product > 120 {
        return Err(format!("products of {product} bits are wider than the 120 supported").into());
    }
    Ok(())
}

impl Accumulator for FusedDotAdd {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.run(dot, &mut ())
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.run(dot, trace)
    }

    fn recipe(&self, k: usize, out: &FormatSpec) -> Option<Recipe> {
        Some(Recipe::Generic(GenericDot {
            block: k.max(1),
            frac_bits: self.frac_bits,
            floor: self.floor,
            zero_products: self.zero_products,
            subnormal_c: self.subnormal_c,
            output_rounding: self.output.rounding(out),
            output_bits: self.output.frac_bits,
            nan: self.nan,
            ..GenericDot::default()
        }))
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        check_floor(self.floor)?;
        check_output(self.output.rounding(&signature.d), self.output.frac_bits)?;
        check_width(self.frac_bits, signature)
    }
}

/// K cut into `parts` equal runs, each a whole dot-add whose d is the next one's c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain<A> {
    /// How many runs.
    pub parts: usize,
    /// What each run computes.
    pub each: A,
}

impl<A> Chain<A> {
    /// CoFDA: two halves, as Ampere and Ada run m16n8k16.
    pub const fn halves(each: A) -> Self {
        Self { parts: 2, each }
    }

    const fn run_length(&self, k: usize) -> usize {
        let parts = if self.parts == 0 { 1 } else { self.parts };
        let length = k.div_ceil(parts);
        if length == 0 { 1 } else { length }
    }
}

impl<A: Accumulator> Chain<A> {
    fn fold(&self, dot: &Dot<'_>, mut step: impl FnMut(usize, &Dot<'_>) -> Num) -> Num {
        let length = self.run_length(dot.len());
        let starts = (0..dot.len().max(1)).step_by(length);
        starts.fold(dot.c, |c, from| step(from, &dot.part(from, from + length, c)))
    }
}

impl<A: Accumulator> Accumulator for Chain<A> {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.fold(dot, |_, part| self.each.dot_add(part))
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.fold(dot, |from, part| {
            let ks = from..from + part.len();
            trace.push(Event::Step { text: format!("products {ks:?}"), ks: ks.collect() });
            self.each.trace(part, trace)
        })
    }

    fn recipe(&self, k: usize, out: &FormatSpec) -> Option<Recipe> {
        let run = self.run_length(k);
        match self.each.recipe(run, out)? {
            Recipe::Generic(g) if g.block == run && g.pattern == Pattern::Runs && g.c == CPosition::With => {
                Some(Recipe::Generic(g))
            }
            other if run >= k => Some(other),
            _ => None,
        }
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.parts == 0 {
            return Err("a chain needs at least one part".into());
        }
        self.each.check(signature)
    }
}

/// fp8 through `mma.sync` on Hopper and Blackwell: operands become f16, pairs of k go to two groups
/// in turn, group 0 then group 1 run as a chain from +0, and c is added last in IEEE RNE.
///
/// The conversion shows: e4m3's subnormals are normal numbers of f16, with smaller exponents.
///
/// Sources: Khattak and Mikaitis IV-A5, Fig. 5c; the code ptxas emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave<A> {
    /// What each group computes.
    pub each: A,
}

impl<A: Accumulator> Interleave<A> {
    fn fold(&self, dot: &Dot<'_>, mut step: impl FnMut(usize, &Dot<'_>) -> Num) -> Num {
        (0..2).fold(dot.out.zero(), |t, group| {
            gather(dot, (0..dot.len()).filter(|k| k / 2 % 2 == group), t, |part| {
                let [a, b] = [part.a, part.b].map(|xs| xs.iter().map(as_f16).collect::<Vec<_>>());
                step(group, &Dot { a: &a, b: &b, ..*part })
            })
        })
    }

    /// The IEEE addition of c at the end.
    fn add_c(dot: &Dot<'_>, t: &Num) -> Num {
        let c = ieee::convert(&dot.c, dot.out, Rounding::NearestEven, NanRule::AllOnes);
        ieee::add(&c, t, dot.out, Rounding::NearestEven, NanRule::AllOnes)
    }
}

impl<A: Accumulator> Accumulator for Interleave<A> {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        let t = self.fold(dot, |_, part| self.each.dot_add(part));
        Self::add_c(dot, &t)
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        let t = self.fold(dot, |group, part| {
            let text = format!("group {group}: k with floor(k/2) {}", ["even", "odd"][group]);
            trace.push(Event::Step { text, ks: (0..dot.len()).filter(|k| k / 2 % 2 == group).collect() });
            self.each.trace(part, trace)
        });
        let value = Self::add_c(dot, &t);
        trace.push(Event::operation("d = c + t", [("c", dot.c.term()), ("t", t.term())], value));
        value
    }

    fn recipe(&self, k: usize, out: &FormatSpec) -> Option<Recipe> {
        // `each` reads its c, and cuts it, in an empty second group, too; the pattern has none.
        if k <= 2 {
            return None;
        }
        let group = (0..k).filter(|k| k / 2 % 2 == 0).count();
        match self.each.recipe(group, out)? {
            Recipe::Generic(g) if g.block == group && g.nan == NanRule::AllOnes => Some(Recipe::Generic(GenericDot {
                pattern: Pattern::InterleavedPairs,
                c: CPosition::Last,
                via_f16: true,
                ..g
            })),
            _ => None,
        }
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        self.each.check(signature)
    }
}
