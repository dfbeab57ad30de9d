//! Finding out what an unknown unit does.
mod bench;
mod black_box;
mod command;
pub mod features;
mod fit;
mod generate;
mod same;
mod shrink;
mod tree;
mod tree_svg;
pub use black_box::{BlackBox, Input, Interface};
pub use command::Command;
pub use features::{Feature, Features, Observation, Value, features};
pub use fit::{Alternative, Counterexample, Fit, FitOptions, fit};
pub use same::{canonical, same_function};
pub use tree::{Node, SummationTree};
