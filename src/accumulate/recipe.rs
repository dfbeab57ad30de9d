//! What an accumulator computes, as data: the text form of units, the input of fast kernels and
//! solvers, and the meaning of "the same function".

use super::fused::MAX_FLOOR;
use super::{
    Accumulator, BlockedC, CPosition, Dot, Floor, GenericDot, GroupScaledDot, GroupedRoundDown, OverflowBesideC,
    PairwiseSum, Pattern, Refusal, RoundDown, SequentialFma, Signature, SoftwareDot, SubnormalC, ZeroProducts,
};
use crate::error::Error;
use crate::format::FormatSpec;
use crate::num::Num;
use crate::round::{ROUNDINGS, Rounding};
use crate::special::NanRule;
use crate::trace::Trace;
use core::fmt;
use core::str::FromStr;

/// A closed description of a dot-add's function, given its formats and K.
///
/// The text form is a family and its parameters, those at their defaults left out:
/// `dot:block=16:F=25`, `fma`, `pairwise:G=4`, `round-down:G=8`, `round-down-grouped:G=16`,
/// `groups:G=16:F=35`, `software`.
///
/// ```
/// use gemmulate::accumulate::{FusedDotAdd, Accumulator, Recipe};
/// use gemmulate::format::F32;
/// let recipe = FusedDotAdd::VOLTA.recipe(4, &F32).unwrap();
/// assert_eq!(recipe.to_string(), "dot:block=4:F=23:e_zero=emin-5");
/// assert_eq!(recipe.to_string().parse::<Recipe>()?, recipe);
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", try_from = "String")
)]
#[non_exhaustive]
pub enum Recipe {
    /// The FDA family, chains and interleaves of it, exact sums, and units that do not exist.
    Generic(GenericDot),
    /// A chain of IEEE fused multiply-adds.
    Sequential(SequentialFma),
    /// IEEE products and pairwise sums.
    Pairwise(PairwiseSum),
    /// CDNA3's FDRDA.
    RoundDown(RoundDown),
    /// CDNA3's GFDRDA.
    GroupedRoundDown(GroupedRoundDown),
    /// Blackwell's GDFS.
    GroupScaled(GroupScaledDot),
    /// f16 m8n8k4 in software.
    Software(SoftwareDot),
}

impl From<GenericDot> for Recipe {
    fn from(dot: GenericDot) -> Self {
        Self::Generic(dot)
    }
}

impl Recipe {
    fn accumulator(&self) -> &dyn Accumulator {
        match self {
            Self::Generic(x) => x,
            Self::Sequential(x) => x,
            Self::Pairwise(x) => x,
            Self::RoundDown(x) => x,
            Self::GroupedRoundDown(x) => x,
            Self::GroupScaled(x) => x,
            Self::Software(x) => x,
        }
    }

    /// The NaN that the unit returns.
    pub const fn nan(&self) -> NanRule {
        match self {
            Self::Generic(x) => x.nan,
            Self::Sequential(x) => x.nan,
            Self::Pairwise(x) => x.nan,
            Self::RoundDown(x) => x.nan,
            Self::GroupedRoundDown(x) => x.base.nan,
            Self::GroupScaled(x) => x.nan,
            Self::Software(x) => x.nan,
        }
    }

    /// The same with another NaN.
    #[must_use]
    pub const fn with_nan(mut self, nan: NanRule) -> Self {
        match &mut self {
            Self::Generic(x) => x.nan = nan,
            Self::Sequential(x) => x.nan = nan,
            Self::Pairwise(x) => x.nan = nan,
            Self::RoundDown(x) => x.nan = nan,
            Self::GroupedRoundDown(x) => x.base.nan = nan,
            Self::GroupScaled(x) => x.nan = nan,
            Self::Software(x) => x.nan = nan,
        }
        self
    }
}

/// A recipe is itself an accumulator: the generic way to run a description.
impl Accumulator for Recipe {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        self.accumulator().dot_add(dot)
    }

    fn trace(&self, dot: &Dot<'_>, trace: &mut Trace) -> Num {
        self.accumulator().trace(dot, trace)
    }

    fn recipe(&self, _k: usize, _out: &FormatSpec) -> Option<Recipe> {
        Some(*self)
    }

    fn check(&self, signature: &Signature) -> Result<(), Refusal> {
        self.accumulator().check(signature)
    }
}

/// Makes a family's default member.
type MakeDefault = fn() -> Recipe;

/// One parameter's text form.
trait Text: Copy + PartialEq {
    fn text(self) -> String;
    fn read(text: &str) -> Option<Self>;
    /// The texts there are, for who wrote another one.
    fn values() -> String;
}

macro_rules! text_words {
    ($($ty:ty { $($value:path = $word:literal),* $(,)? })*) => {
        $(impl Text for $ty {
            fn text(self) -> String {
                match self { $($value => $word,)* }.into()
            }
            fn read(text: &str) -> Option<Self> {
                match text { $($word => Some($value),)* _ => None }
            }
            fn values() -> String {
                [$($word),*].join(" or ")
            }
        })*
    };
}

text_words! {
    Pattern { Pattern::Runs = "runs", Pattern::EvenOdd = "even-odd", Pattern::InterleavedPairs = "pairs" }
    CPosition { CPosition::With = "with", CPosition::Late = "late", CPosition::Last = "last" }
    NanRule { NanRule::AllOnes = "ones", NanRule::Quiet = "quiet" }
    ZeroProducts { ZeroProducts::Ignored = "ignored", ZeroProducts::OwnExponent = "count" }
    SubnormalC { SubnormalC::Stored = "stored", SubnormalC::Normalised = "normalised" }
    OverflowBesideC { OverflowBesideC::Infinity = "infinity", OverflowBesideC::CWins = "c-wins" }
    BlockedC { BlockedC::Propagates = "propagates", BlockedC::Dropped = "dropped" }
}

impl Text for bool {
    fn text(self) -> String {
        if self { "yes" } else { "no" }.into()
    }
    fn read(text: &str) -> Option<Self> {
        match text {
            "yes" | "true" | "1" => Some(true),
            "no" | "false" | "0" => Some(false),
            _ => None,
        }
    }
    fn values() -> String {
        "yes or no".into()
    }
}

macro_rules! text_numbers {
    ($($ty:ty),*) => { $(impl Text for $ty {
        fn text(self) -> String { self.to_string() }
        fn read(text: &str) -> Option<Self> { text.parse().ok() }
        fn values() -> String { format!("a whole number from {} to {}", Self::MIN, Self::MAX) }
    })* };
}
text_numbers!(usize, u32, i32);

impl Text for Rounding {
    fn text(self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn values() -> String {
        ROUNDINGS.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

impl Text for Option<u32> {
    fn text(self) -> String {
        self.map_or("full".into(), |n| n.to_string())
    }
    fn read(text: &str) -> Option<Self> {
        if text == "full" { Some(None) } else { text.parse().ok().map(Some) }
    }
    fn values() -> String {
        format!("full or {}", u32::values())
    }
}

impl Text for Floor {
    fn text(self) -> String {
        match self {
            Self::BelowEmin(n) if n < 0 => format!("emin+{}", -i64::from(n)),
            Self::BelowEmin(n) => format!("emin-{n}"),
            Self::ZeroC => "zero-c".into(),
            Self::None => "none".into(),
        }
    }
    fn read(text: &str) -> Option<Self> {
        match text {
            "zero-c" => return Some(Self::ZeroC),
            "none" => return Some(Self::None),
            _ => {}
        }
        let offset = text.strip_prefix("emin")?;
        let n: i32 = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        (n.unsigned_abs() <= MAX_FLOOR.unsigned_abs()).then_some(Self::BelowEmin(-n))
    }
    fn values() -> String {
        format!("none or zero-c or emin, emin-N or emin+N with N up to {MAX_FLOOR}")
    }
}

/// Writes, reads or looks up every parameter in turn; one listing serves all.
enum Fields<'a> {
    Write(String),
    Find { name: &'a str, text: Option<String> },
    Read { pairs: Vec<(&'a str, &'a str)>, known: Vec<&'static str>, bad: Option<String> },
}

impl Fields<'_> {
    fn field<T: Text>(&mut self, name: &'static str, value: &mut T, default: T) {
        match self {
            Self::Write(out) => {
                if *value != default {
                    out.push_str(&format!(":{name}={}", value.text()));
                }
            }
            Self::Find { name: sought, text } => {
                if sought.eq_ignore_ascii_case(name) {
                    *text = Some(value.text());
                }
            }
            Self::Read { pairs, known, bad } => {
                known.push(name);
                let mut found = pairs.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
                let Some((_, text)) = found.next() else { return };
                match T::read(&text.to_ascii_lowercase()) {
                    Some(read) if found.next().is_none() => *value = read,
                    Some(_) => *bad = Some(format!("{name} once")),
                    None => *bad = Some(format!("{name} to be {}, not `{text}`", T::values())),
                }
            }
        }
    }

    /// Like [`Fields::field`], but always written.
    fn always<T: Text>(&mut self, name: &'static str, value: &mut T, default: T) {
        if let Self::Write(out) = self {
            out.push_str(&format!(":{name}={}", value.text()));
        } else {
            self.field(name, value, default);
        }
    }
}

impl Recipe {
    /// The families by name, each with its defaults.
    const FAMILIES: [(&'static str, MakeDefault); 7] = [
        ("dot", || Self::Generic(GenericDot::default())),
        ("fma", || Self::Sequential(SequentialFma::IEEE)),
        ("pairwise", || Self::Pairwise(PairwiseSum::CDNA2)),
        ("round-down", || Self::RoundDown(RoundDown::CDNA3)),
        ("round-down-grouped", || Self::GroupedRoundDown(GroupedRoundDown::CDNA3)),
        ("groups", || Self::GroupScaled(GroupScaledDot::BLACKWELL)),
        ("software", || Self::Software(SoftwareDot::NVIDIA)),
    ];

    /// Whether a text begins as a recipe does.
    pub(crate) fn is_text_of_a_family(text: &str) -> bool {
        let family = text.split(':').next().unwrap_or_default();
        Self::FAMILIES.iter().any(|(name, _)| *name == family)
    }

    const fn family(&self) -> &'static str {
        match self {
            Self::Generic(_) => "dot",
            Self::Sequential(_) => "fma",
            Self::Pairwise(_) => "pairwise",
            Self::RoundDown(_) => "round-down",
            Self::GroupedRoundDown(_) => "round-down-grouped",
            Self::GroupScaled(_) => "groups",
            Self::Software(_) => "software",
        }
    }

    /// A parameter of the text form, its default included: `dot:block=8:F=24` has `out` at `rz`. `None` for a name that
    /// the family does not know.
    ///
    /// ```
    /// let recipe: gemmulate::accumulate::Recipe = "dot:block=8:F=24".parse()?;
    /// assert_eq!(recipe.parameter("out").as_deref(), Some("rz"));
    /// assert_eq!(recipe.parameter("sticky").as_deref(), Some("no"));
    /// assert_eq!(recipe.parameter("G"), None);
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (mut copy, mut fields) = (*self, Fields::Find { name, text: None });
        copy.visit(&mut fields);
        if let Fields::Find { text, .. } = fields { text } else { None }
    }

    /// The same with other values for some parameters, in the text form without the family.
    ///
    /// ```
    /// use gemmulate::prelude::*;
    /// let hopper: Recipe = "dot:block=32:F=13:out-bits=13".parse()?;
    /// assert_eq!(hopper.with("F=14:out=rne")?.to_string(), "dot:block=32:F=14:out=rne:out-bits=13");
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    ///
    /// # Errors
    /// For parameters that the family does not have, and values that these cannot have; the message says what there is.
    pub fn with(mut self, parameters: &str) -> Result<Self, Error> {
        let expected = |why: String| Error::parse("parameters", parameters, why);
        let pairs: Option<Vec<_>> = parameters.trim().split(':').map(|pair| pair.split_once('=')).collect();
        let pairs = pairs.ok_or_else(|| expected("`name=value` pairs, divided by colons".into()))?;
        self.set(&pairs).map_err(expected)?;
        Ok(self)
    }

    /// Sets parameters, or says what is wrong with them.
    fn set(&mut self, pairs: &[(&str, &str)]) -> Result<(), String> {
        let mut fields = Fields::Read { pairs: pairs.to_vec(), known: Vec::new(), bad: None };
        self.visit(&mut fields);
        let Fields::Read { known, bad, .. } = fields else { return Ok(()) };
        let stranger = pairs.iter().find(|(key, _)| !known.iter().any(|k| k.eq_ignore_ascii_case(key)));
        match (bad, stranger) {
            (Some(why), _) => Err(why),
            (None, Some((key, _))) => Err(format!("one of the parameters {}, not `{key}`", known.join(", "))),
            (None, None) => Ok(()),
        }
    }

    /// Whether a text is one of parameters without a family.
    pub(crate) fn is_text_of_parameters(text: &str) -> bool {
        text.split(':').all(|pair| pair.contains('='))
    }

    /// A parameter's value as [`Recipe::parameter`] spells it.
    ///
    /// # Errors
    /// For a name that no family knows, or a value that it cannot have; the message says what there is.
    pub(crate) fn spell(name: &str, value: &str) -> Result<String, Error> {
        let mut known = Self::FAMILIES.iter().filter(|(_, default)| default().parameter(name).is_some());
        let (family, _) = known.next().unwrap_or(&Self::FAMILIES[0]);
        let recipe: Self = format!("{family}:{name}={value}").parse()?;
        Ok(recipe.parameter(name).unwrap_or_default())
    }

    fn visit(&mut self, f: &mut Fields<'_>) {
        match self {
            Self::Generic(x) => visit_generic(x, f),
            Self::Sequential(x) => {
                f.field("round", &mut x.rounding, Rounding::NearestEven);
                f.field("nan", &mut x.nan, NanRule::Quiet);
            }
            Self::Pairwise(x) => {
                f.always("G", &mut x.group, 4);
                f.field("flush-in", &mut x.flush_inputs, true);
                f.field("flush-out", &mut x.flush_results, true);
                f.field("nan", &mut x.nan, NanRule::Quiet);
            }
            Self::RoundDown(x) => visit_round_down(x, 8, f),
            Self::GroupedRoundDown(x) => {
                visit_round_down(&mut x.base, 16, f);
                f.field("c-reach", &mut x.c_reach, 25);
                f.field("special-c", &mut x.special_c, BlockedC::Propagates);
            }
            Self::GroupScaled(x) => {
                f.always("G", &mut x.group, 16);
                f.always("F", &mut x.frac_bits, 35);
                f.field("e_zero", &mut x.floor, Floor::BelowEmin(13));
                f.field("out", &mut x.output_rounding, Rounding::TowardZero);
                f.field("nan", &mut x.nan, NanRule::AllOnes);
            }
            Self::Software(x) => f.field("nan", &mut x.nan, NanRule::AllOnes),
        }
    }
}

fn visit_generic(x: &mut GenericDot, f: &mut Fields<'_>) {
    let d = GenericDot::default();
    f.always("block", &mut x.block, d.block);
    f.field("pattern", &mut x.pattern, d.pattern);
    f.field("exact", &mut x.exact, d.exact);
    f.always("F", &mut x.frac_bits, d.frac_bits);
    f.field("align", &mut x.alignment, d.alignment);
    f.field("sticky", &mut x.sticky, d.sticky);
    f.field("normalise", &mut x.normalise_products, d.normalise_products);
    f.field("e_zero", &mut x.floor, d.floor);
    f.field("zero-products", &mut x.zero_products, d.zero_products);
    f.field("subnormal-c", &mut x.subnormal_c, d.subnormal_c);
    f.field("c", &mut x.c, d.c);
    f.field("out", &mut x.output_rounding, d.output_rounding);
    f.field("out-bits", &mut x.output_bits, d.output_bits);
    f.field("via-f16", &mut x.via_f16, d.via_f16);
    f.field("flush-in", &mut x.flush_inputs, d.flush_inputs);
    f.field("flush-out", &mut x.flush_results, d.flush_results);
    f.field("limit", &mut x.product_limit, d.product_limit);
    f.field("negative-zero", &mut x.negative_zero, d.negative_zero);
    f.field("nan", &mut x.nan, d.nan);
}

fn visit_round_down(x: &mut RoundDown, group: usize, f: &mut Fields<'_>) {
    let d = RoundDown::CDNA3;
    f.always("G", &mut x.group, group);
    f.field("F", &mut x.frac_bits, d.frac_bits);
    f.field("sum", &mut x.sum_bits, d.sum_bits);
    f.field("total", &mut x.total_bits, d.total_bits);
    f.field("overflow-beside-c", &mut x.overflow_beside_c, d.overflow_beside_c);
    f.field("nan", &mut x.nan, d.nan);
}

/// As text: what is stored does not depend on which parameters there are.
#[cfg(feature = "serde")]
impl From<Recipe> for String {
    fn from(recipe: Recipe) -> Self {
        recipe.to_string()
    }
}

#[cfg(feature = "serde")]
impl TryFrom<String> for Recipe {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Fields::Write(self.family().into());
        let mut copy = *self;
        copy.visit(&mut fields);
        match fields {
            Fields::Write(text) => f.pad(&text),
            Fields::Read { .. } | Fields::Find { .. } => Ok(()),
        }
    }
}

impl FromStr for Recipe {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let expected = |why: String| Error::parse("accumulator", text, why);
        let mut parts = text.trim().split(':');
        let family = parts.next().unwrap_or_default();
        let named = Self::FAMILIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(family));
        let names = Self::FAMILIES.map(|(name, _)| name).join(", ");
        let mut recipe = named.ok_or_else(|| expected(format!("one of the families {names}")))?.1();
        let pairs: Option<Vec<_>> = parts.map(|p| p.split_once('=')).collect();
        let pairs = pairs.ok_or_else(|| expected("`name=value` pairs, divided by colons".into()))?;
        recipe.set(&pairs).map_err(expected)?;
        Ok(recipe)
    }
}
