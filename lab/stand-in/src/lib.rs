//! Runs the CUDA programs of `lab/capture` without a GPU.
//!
//! A program that nvcc compiled is linked against this library instead of CUDA's runtime. Device memory is memory of
//! this process; a launch interprets the PTX that the compiler made of the kernel, and a matrix instruction gathers its
//! operands by the layouts that the PTX ISA gives and computes with gemmulate's unit of that name.
//!
//! What agrees here proves layouts, protocols and scripts. It proves nothing of what a GPU computes: the arithmetic on
//! both sides is gemmulate's.
//!
//! # The way of a launch
//!
//! `runtime` (the CUDA runtime's symbols) -> `launch` (a module, a grid) -> `ptx` (text to instructions) -> `block`
//! (lanes in step) -> `matrix` (matrix instructions) with `memory` below.

mod block;
mod fault;
mod launch;
mod matrix;
mod memory;
mod ptx;
pub mod runtime;

pub(crate) use fault::Fault;
