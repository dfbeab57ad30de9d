//! All tests of the library, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod gemm;
mod oracle;
mod units;
