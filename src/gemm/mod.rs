//! Matrix products on a unit, as hardware kernels compute them.
//!
//! `a.dot_on(&b, &unit)` is the loop of single instructions; a [`Plan`] says which loop: blocks,
//! split-K, stream-K, promotion, epilogue. [`Gemm`] is the same with every choice in reach.
//!
//! The way of a product: [`Plan`] on a unit and a size -> schedule of K (`schedule`) -> blocks,
//! threads (`driver`) -> tiles with their promotions and reductions (`tile`) -> steps of the unit
//! (`kernel`) -> `epilogue` -> result. Threads, layouts and blocking never change a bit.

mod builder;
mod convert;
mod direct;
mod driver;
mod epilogue;
mod explain;
pub(crate) mod kernel;
mod linalg;
pub mod metrics;
mod one_tile;
mod operand;
mod plan;
mod plan_text;
mod product;
pub mod quantise;
mod schedule;
mod sink;
pub(crate) mod small;
mod tile;
mod turned;
mod workspace;

pub use builder::Gemm;
pub use driver::{OnProgress, Progress};
pub use epilogue::Scaling;
pub use linalg::{DotOn, Gives, Takes, general_mat_mul_on};
pub(crate) use operand::Source;
pub use operand::{AnyMatrix, Codes, Matrix};
pub use plan::{Epilogue, Plan, Preset, ScaleBlocks, Slices, SplitMode, Start, Tail};
pub(crate) use product::takes_c;
pub use sink::CodesMut;
pub(crate) use sink::Values;
pub(crate) use small::plain;
pub use workspace::Workspace;
