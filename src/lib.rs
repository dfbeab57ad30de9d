//! The matrix units of GPUs, bit for bit, on a CPU: what tensor cores and matrix cores compute, on whole ndarray
//! products, cut into instructions as the hardware's kernels cut them.
//!
//! ```
//! use gemmulate::prelude::*;
//! use ndarray::Array2;
//!
//! fn main() -> Result<(), gemmulate::Error> {
//!     let (mut a, mut b) = (Array2::<f16>::zeros((1, 32)), Array2::<f16>::zeros((32, 1)));
//!     for (k, x, y) in [(0, -0.001, 0.001), (16, 2048.0, 2048.0), (17, 2048.0, -2048.0)] {
//!         (a[(0, k)], b[(k, 0)]) = (f16::nearest(x), f16::nearest(y));
//!     }
//!     let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
//!     let mi300x = MmaUnit::<Cdna3, Mfma<32, 32, 8, 1, f16, f16, f32>>::new();
//!     assert_eq!(a.dot_on(&b, &h100)?[(0, 0)], 0.0); //        exact: about -0.000001
//!     assert_eq!(a.dot_on(&b, &mi300x)?[(0, 0)], -0.25); //    the same sum on an MI300X
//!     Ok(())
//! }
//! ```
//!
//! The H100's first instruction sums k = 0 to 15, the next one 16 to 31 with the first's result as its c (the MI300X
//! takes four, of 8 k each). The H100 cuts the millionth off; the MI300X rounds down when it aligns, so whatever is
//! negative and too small to keep becomes minus one last place.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a product on a unit fixed at compile time | [`MmaUnit`], [`DotOn::dot_on`], [`general_mat_mul_on`] |
//! | a unit by the name in a program, a paper or a profile | [`Unit::find`], [`Unit::all`] |
//! | how a kernel cuts a product: split-K, stream-K, promotion, epilogues | [`Plan`], [`Gemm`] |
//! | one instruction's dot-add, and its steps | [`MmaUnit::dot_add`], [`Unit::dot_add_bits`], [`mod@trace`] |
//! | another accumulator, number format or architecture | [`accumulate`], [`mod@format`], [`mod@arch`] |
//! | what an unknown unit does, and what tells two units apart | [`probe`] |
//! | proofs by a solver (feature `smt`) | `smt` |
//! | judging units by vectors | [`vectors`] |
//! | why a unit is fast or not | [`Unit::kernel`], [`simd`] |
//!
//! What each unit computes, with sources and what these dispute, is in the repository's `docs/numerics.md`; how it is
//! made fast in `docs/kernels.md`, how fast that is in `docs/performance.md`. In debug builds kernels run at about a
//! hundredth of their speed.
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `half` | yes | typed units and arrays over `half::f16` and `half::bf16` |
//! | `float8` | yes | the same over `float8::F8E4M3` and `float8::F8E5M2` |
//! | `microfloat` | | [`Format`](format::Format) for the types of `microfloat` |
//! | `serde` | | `Serialize` and `Deserialize` for newtypes of formats, and for units, recipes and plans as their text |
//! | `smt` | | proofs by z3 or cvc5, run as a process: no dependency |
//!
//! # The way of the data
//!
//! bits -> [`mod@format`] decode -> [`num::Num`] -> [`accumulate`] -> encode ([`round`]) -> [`mod@unit`] (one
//! instruction's tile) -> [`gemm`] -> ndarray. Formats and accumulators meet only in the unpacked number; one place
//! rounds.
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README's programs, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod accumulate;
pub mod arch;
mod catalogue;
mod decimal;
mod error;
pub mod format;
pub mod gemm;
pub mod instr;
pub mod mma;
pub mod num;
pub mod probe;
mod process;
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
#[cfg(feature = "float8")]
#[doc(no_inline)]
pub use float8;
pub use gemm::{DotOn, Gemm, Plan, general_mat_mul_on};
#[cfg(feature = "half")]
#[doc(no_inline)]
pub use half;
pub use mma::{MmaUnit, Supports};
#[doc(no_inline)]
pub use ndarray;
pub use unit::{AsUnit, Evidence, Unit};

/// What most programs need.
pub mod prelude {
    pub use crate::accumulate::{
        Accumulator, BlockedC, CPosition, Chain, ExactSum, Floor, FusedDotAdd, GenericDot, GroupScaledDot,
        GroupedRoundDown, Interleave, Intermediate, Output, OverflowBesideC, PairwiseSum, Pattern, Recipe, RoundDown,
        SequentialFma, SoftwareDot, SubnormalC, ZeroProducts,
    };
    pub use crate::arch::{
        self, Ada, Ampere, Arch, ArchInfo, Blackwell, Cdna1, Cdna2, Cdna3, Hopper, RtxBlackwell, Turing, Volta,
    };
    pub use crate::error::Error;
    pub use crate::format::{Format, FormatSpec, Overflow};
    pub use crate::gemm::{
        DotOn, Epilogue, Gemm, Plan, Preset, Scaling, Slices, SplitMode, Start, Tail, general_mat_mul_on,
    };
    pub use crate::instr::{
        self, Instruction, Mfma, Mma, MmaScaled, ScaleRule, Shape, Tcgen05, Tcgen05Scaled, Unscaled, Wgmma, WideOperand,
    };
    pub use crate::mma::{MmaUnit, Supports};
    pub use crate::round::Rounding;
    pub use crate::special::NanRule;
    pub use crate::types::{E2M1, E2M3, E3M2, E4M3Fnuz, E5M2Fnuz, Tf32, Ue4m3, Ue8m0};
    pub use crate::unit::{AsUnit, Evidence, Unit};
    #[cfg(feature = "float8")]
    #[doc(no_inline)]
    pub use float8::{F8E4M3, F8E5M2};
    #[cfg(feature = "half")]
    #[doc(no_inline)]
    pub use half::{bf16, f16};
}
