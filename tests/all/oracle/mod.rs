//! An independent implementation of what the units compute, written from the specification alone
//! and sharing no code with the library: exact rationals and literal definitions everywhere.
#![allow(dead_code, reason = "an oracle says more than each test asks")]

pub(crate) mod facts;
mod facts_later;
pub(crate) mod formats;
pub(crate) mod gemm_options;
pub(crate) mod gemm_oracle;
pub(crate) mod generic;
pub(crate) mod hardware;
pub(crate) mod kinds;
pub(crate) mod names;
pub(crate) mod numbers;
#[expect(clippy::module_inception, reason = "the oracle of the units, among its parts")]
pub(crate) mod oracle;
