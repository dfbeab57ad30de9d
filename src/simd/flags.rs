//! The processor's sticky flags: what happened in floating-point operations since they were cleared.

#![allow(unsafe_code, reason = "the control and status word")]

use core::arch::asm;

/// MXCSR: an operand was subnormal; a result was subnormal and inexact.
pub(super) const SUBNORMAL: u32 = 1 << 1 | 1 << 4;
/// A result was rounded. Operations with a rounding of their own raise nothing.
pub(super) const INEXACT: u32 = 1 << 5;

/// Clears the flags, if one of `flags` is raised, for operations on `states` from here on.
#[inline]
pub(super) fn clear<T>(flags: u32, states: &mut [T]) {
    // Changing the word is slow.
    if !raised(flags, states) {
        return;
    }
    let mut word = 0u32;
    // SAFETY: only the flags change, which no operation depends on. The states' address is an operand, so that what is
    // done to them stays on this side.
    unsafe {
        asm!(
            "stmxcsr [{word}]",
            "and dword ptr [{word}], -64",
            "ldmxcsr [{word}]",
            "/* {states} */",
            word = in(reg) &raw mut word,
            states = in(reg) states.as_mut_ptr(),
            options(nostack)
        );
    }
}

/// Whether one of `flags` was raised in operations on `states` up to here.
#[inline]
pub(super) fn raised<T>(flags: u32, states: &mut [T]) -> bool {
    let mut word = 0u32;
    // SAFETY: stores the control and status word. The states' address is an operand, as above.
    unsafe {
        asm!(
            "stmxcsr [{word}]",
            "/* {states} */",
            word = in(reg) &raw mut word,
            states = in(reg) states.as_mut_ptr(),
            options(nostack, preserves_flags)
        );
    }
    word & flags != 0
}
