//! Finding out what an unknown unit does.
//!
//! A [`BlackBox`] answers dot-adds on codes: a [`Unit`](crate::Unit), or a [`Command`] that speaks
//! `eval`'s line protocol. [`features()`] asks it the questions of the literature (Fasi et al. 2021;
//! Li et al., FTTN; Xie et al., MMA-Sim III; Khattak and Mikaitis) with inputs made for its
//! formats; [`SummationTree`] draws the order of its additions; [`fit()`] finds the library
//! model that gives the same bits and tries to falsify it; [`diff()`] finds the smallest input on
//! which two units differ; [`classes()`] groups units into functions; [`authenticate()`] runs other
//! people's test vectors on units whose properties are known.

mod authenticate;
mod bench;
mod black_box;
mod classes;
mod command;
mod diff;
mod edges;
pub mod features;
mod fit;
mod generate;
#[doc(hidden)]
pub mod inside;
mod reach;
mod repeated;
mod same;
pub(crate) mod shrink;
mod tree;
mod tree_svg;
pub use authenticate::{Authentication, Conclusion, PublishedTest, Verdict, authenticate, read_tests};
pub use black_box::{BlackBox, FromFn, Input, Interface, from_fn};
pub use classes::{Class, Classes, Separation, classes};
pub use command::Command;
pub use diff::{Difference, Sameness, diff};
pub use features::{Feature, Features, Finding, Observation, features};
pub use fit::{Alternative, Counterexample, Fit, FitOptions, fit};
pub use same::{canonical, same_function};
pub use tree::{NoTree, Node, SummationTree};

use std::time::{Duration, Instant};

/// The end of a time limit. Limits of more than a century are one: the clock cannot hold them all.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(Duration::from_secs(100 * 365 * 24 * 3600))
}
