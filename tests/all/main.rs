//! All tests of the library, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod authenticate;
mod boxes;
mod canonical;
mod canonical_small;
mod chains;
mod custom;
mod custom_corners;
mod flips;
mod formats;
#[cfg(feature = "half")]
mod gemm;
#[cfg(feature = "half")]
mod gemm_api;
mod generic;
mod kernels;
mod kernels_broad;
mod kernels_columns;
mod kernels_edges;
mod kernels_families;
mod kernels_fma;
mod kernels_formats;
mod kernels_groups;
mod kernels_hard;
mod kernels_lines;
mod kernels_narrow;
mod kernels_one_by_one;
mod kernels_roundings;
mod kernels_small;
mod kernels_sums;
mod kernels_tiles;
mod kernels_whole;
mod laws;
mod layouts;
mod models;
mod names;
mod oracle;
#[cfg(feature = "half")]
mod plans;
mod probe;
mod probe_corners;
mod probe_papers;
mod probe_trees;
mod problem;
mod recorded;
mod sensitivity;
use custom::rng;
#[cfg(feature = "smt")]
mod smt;
mod typed;
mod units;
mod vectors;
mod worked_examples;
