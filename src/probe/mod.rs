//! Finding out what an unknown unit does.
mod bench;
mod black_box;
mod command;
mod fit;
mod generate;
mod same;
mod shrink;
pub use black_box::{BlackBox, Input, Interface};
pub use command::Command;
pub use fit::{Alternative, Counterexample, Fit, FitOptions, fit};
pub use same::{canonical, same_function};
