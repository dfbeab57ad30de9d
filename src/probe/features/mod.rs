//! The questions of the literature, asked of any box with inputs made for its formats.
//!
//! Sources: Fasi, Higham, Mikaitis and Pranesh 2021, 3.1.1-3.1.4; Li et al., FTTN, 2024; Xie et
//! al., MMA-Sim III-C to III-F; Khattak and Mikaitis IV. Every answer carries the very inputs and
//! bits that show it, and none is given where they cannot.

mod alignment;
mod basics;
mod below_c;
mod floor;
mod groups;
mod monotonic;
mod normalisation;
mod output;
mod range;
mod special;
mod structure;

use super::bench::Bench;
use super::black_box::{BlackBox, Input, Interface};
use super::repeated::Repeated;
use super::tree::SummationTree;
use crate::error::Error;
use core::fmt;

/// An input, the box's answer, and what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observation {
    /// The input.
    pub input: Input,
    /// The answer.
    pub d: u64,
    /// What the input tests.
    pub shows: String,
}

impl Observation {
    /// An observation.
    pub fn new(input: Input, d: u64, shows: impl Into<String>) -> Self {
        Self { input, d, shows: shows.into() }
    }
}

/// What a test found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nothing, and why.
    CannotTell(String),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A word or more.
    Text(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotTell(why) => write!(f, "cannot tell: {why}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Flag(yes) => f.write_str(if *yes { "yes" } else { "no" }),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Finding {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Finding {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Finding {
    fn from(yes: bool) -> Self {
        Self::Flag(yes)
    }
}

impl From<i64> for Finding {
    fn from(n: i64) -> Self {
        Self::Number(n)
    }
}

impl From<i32> for Finding {
    fn from(n: i32) -> Self {
        Self::Number(n.into())
    }
}

fn cannot(why: impl Into<String>) -> Finding {
    Finding::CannotTell(why.into())
}

/// One property of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, the key in the JSON that `probe --json` prints.
    pub name: &'static str,
    /// What was found.
    pub value: Finding,
    /// What shows it.
    pub evidence: Vec<Observation>,
}

/// Everything the tests found.
#[derive(Clone, Debug)]
pub struct Features {
    /// The box's formats and K.
    pub interface: Interface,
    /// The properties, in a fixed order.
    pub all: Vec<Feature>,
    /// The order of additions, if it could be told.
    pub tree: Option<SummationTree>,
}

impl Features {
    /// A property by name.
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.all.iter().find(|f| f.name == name)
    }

    /// A property's value by name.
    pub fn value(&self, name: &str) -> Option<&Finding> {
        self.get(name).map(|f| &f.value)
    }
}

/// A box, the bench that makes its inputs, and what all tests must know of it.
struct Lab<'a> {
    target: &'a mut dyn BlackBox,
    bench: Bench,
    /// Whether subnormal numbers are read as zero, returned as zero.
    flushes: Flushes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flushes {
    operands: bool,
    addend: bool,
    results: bool,
}

impl Lab<'_> {
    /// The input with these terms, of operands that the box does not read as zero.
    fn terms(&self, terms: &[(usize, bool, u128, i32)]) -> Option<Input> {
        self.bench.terms(terms).filter(|x| self.reads(x))
    }

    fn reads(&self, input: &Input) -> bool {
        !self.flushes.operands || self.bench.operands_are_normal(input)
    }

    /// Asks inputs, leaving out those the formats cannot hold.
    fn ask(&mut self, questions: Vec<(Option<Input>, String)>) -> Result<Vec<Observation>, Error> {
        let kept: Vec<(Input, String)> = questions.into_iter().filter_map(|(x, why)| Some((x?, why))).collect();
        let inputs: Vec<Input> = kept.iter().map(|(x, _)| x.clone()).collect();
        let answers = self.target.dot_adds(&inputs)?;
        Ok(kept.into_iter().zip(answers).map(|((x, why), d)| Observation::new(x, d, why)).collect())
    }
}

/// Runs every test.
///
/// ```
/// use gemmulate::Unit;
/// use gemmulate::probe::{Finding, features};
/// let mut h100 = Unit::find("H100 HGMMA.64x8x16.F32")?;
/// let found = features(&mut h100)?;
/// assert_eq!(found.value("fraction_bits"), Some(&Finding::Number(25)));
/// assert_eq!(found.value("output_rounding"), Some(&Finding::Text("rz".into())));
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When the box fails to answer.
pub fn features(target: &mut dyn BlackBox) -> Result<Features, Error> {
    let interface = target.interface();
    interface.check()?;
    let mut target = Repeated::new(target);
    let mut lab = Lab { target: &mut target, bench: Bench::new(interface), flushes: Flushes::default() };
    let found = match basics::failure(&mut lab) {
        Ok(Some((why, evidence))) => Ok(nothing(interface, &why, &evidence)),
        Ok(None) => measured(&mut lab),
        Err(error) => Err(error),
    };
    if found.as_ref().is_ok_and(|found| found.tree.is_none()) {
        // Perhaps these were no answers to what was asked.
        target.refuse_babble()?;
    }
    match found {
        Err(Error::Inconsistent { input, first, again }) => {
            let twice = [(first, "asked once"), (again, "asked again")];
            let evidence = twice.map(|(d, when)| Observation::new((*input).clone(), d, when));
            Ok(nothing(interface, "it answers the same input in different ways", &evidence))
        }
        found => found,
    }
}

/// Why a box is none that sums, if its answers to 1 x 1 and the like say so, and the inputs that show it.
pub(super) fn does_not_sum(target: &mut dyn BlackBox) -> Result<Option<(String, Vec<Input>)>, Error> {
    let bench = Bench::new(target.interface());
    let failure = basics::failure(&mut Lab { target, bench, flushes: Flushes::default() })?;
    Ok(failure.map(|(why, seen)| (why, seen.into_iter().map(|o| o.input).collect())))
}

/// What can be said of a box that fails in the basics.
fn nothing(interface: Interface, why: &str, evidence: &[Observation]) -> Features {
    let all = NAMES.iter().map(|name| Feature { name, value: cannot(why), evidence: evidence.to_vec() });
    Features { interface, all: all.collect(), tree: None }
}

fn measured(lab: &mut Lab<'_>) -> Result<Features, Error> {
    let interface = lab.bench.interface;
    let tree = SummationTree::search(lab.target)?;
    let (mut all, site) = structure::features(&tree, &interface);
    all.push(range::subnormals(lab)?);
    let width = alignment::features(lab, &site, &mut all)?;
    let roundings = output::features(lab, &site, &width, &mut all)?;
    range::features(lab, &site, &width, &roundings, &mut all)?;
    special::features(lab, &mut all)?;
    monotonic::features(lab, tree.as_ref().ok(), &width, &mut all)?;
    let (value, evidence) = match &tree {
        Ok(tree) => (tree.to_string().into(), tree.evidence.clone()),
        Err(why) => (cannot(why.clone()), Vec::new()),
    };
    all.push(Feature { name: "tree", value, evidence });
    all.sort_by_key(|f| NAMES.iter().position(|n| *n == f.name));
    Ok(Features { interface, all, tree: tree.ok() })
}

/// The properties' names, in the order in which they are listed.
pub const NAMES: &[&str] = &[
    "fraction_bits",
    "extra_alignment_bits",
    "block",
    "chain",
    "interleave",
    "c_position",
    "alignment_rounding",
    "sticky",
    "output_rounding",
    "products_exact",
    "products_normalised",
    "partial_sums_normalised",
    "carry_bits",
    "e_zero",
    "subnormals",
    "negative_zero",
    "overflow",
    "special_values",
    "product_limit",
    "nan_bits",
    "monotonic",
    "tree",
];
