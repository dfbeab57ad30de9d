//! All tests of the library, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod formats;
#[cfg(feature = "half")]
mod gemm;
mod generic;
mod kernels;
mod kernels_more;
mod names;
mod oracle;
mod typed;
mod units;
