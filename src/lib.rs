#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
//!
//! # The way of the data
//!
//! bits -> [`mod@format`] decode -> [`num::Num`] -> [`accumulate`] -> encode ([`round`]) -> [`mod@unit`]
//! (one instruction's tile) -> [`gemm`] -> ndarray. Formats and accumulators meet only in the
//! unpacked number; one place rounds.

#[cfg(test)]
// For units that tests and unit tests draw alike.
extern crate self as gemmulate;

pub mod accumulate;
pub mod arch;
pub mod catalogue;
mod decimal;
mod error;
pub mod format;
pub mod gemm;
pub mod instr;
pub mod mma;
pub mod num;
pub mod probe;
mod random;
pub mod round;
pub mod simd;
#[cfg(feature = "smt")]
pub mod smt;
pub mod special;
pub mod trace;
pub mod types;
pub mod unit;
pub mod vectors;
pub mod view;

pub use error::Error;
pub use gemm::{DotOn, Gemm, Plan, general_mat_mul_on};
pub use mma::{MmaUnit, Supports};
pub use unit::{AsUnit, Evidence, Unit};

/// What most programs need.
pub mod prelude {
    pub use crate::accumulate::{
        Accumulator, CPosition, Chain, ExactSum, Floor, FusedDotAdd, GenericDot, GroupScaledDot, GroupedRoundDown,
        Interleave, Output, PairwiseSum, Pattern, Recipe, RoundDown, SequentialFma, SoftwareDot,
    };
    pub use crate::arch::{self, *};
    pub use crate::error::Error;
    pub use crate::format::{Format, FormatSpec, Overflow};
    pub use crate::gemm::{DotOn, Epilogue, Gemm, Plan, Preset, Scaling, SplitMode, Start, Tail, general_mat_mul_on};
    pub use crate::instr::{self, *};
    pub use crate::mma::{MmaUnit, Supports};
    pub use crate::round::Rounding;
    pub use crate::types::*;
    pub use crate::unit::{AsUnit, Evidence, Unit};
}
