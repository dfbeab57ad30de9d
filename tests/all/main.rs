//! All tests of the library, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod canonical;
mod canonical_small;
mod chains;
mod custom;
mod flips;
mod formats;
#[cfg(feature = "half")]
mod gemm;
mod generic;
mod kernels;
mod kernels_fma;
mod kernels_formats;
mod kernels_groups;
mod kernels_hard;
mod kernels_more;
mod kernels_tiles;
mod layouts;
mod models;
mod names;
mod oracle;
mod probe;
mod rng;
#[cfg(feature = "smt")]
mod smt;
mod typed;
mod units;
mod vectors;
mod worked_examples;
