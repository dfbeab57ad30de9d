//! One body, compiled for each instruction set: plain array code, wider registers.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "calls of functions compiled for instruction sets that were detected")]

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};

/// Work whose body is compiled for each instruction set: `run` and all it calls are `inline(always)`.
pub(crate) trait Work {
    /// `NATIVE`: rounding to integers is one instruction.
    fn run<const NATIVE: bool>(self);
}

/// A closure as [`Work`], which must be `inline(always)`, too. (Called as `FnOnce`, most closures are a function apart,
/// compiled without the set's instructions.)
pub(crate) struct Loop<F>(pub(crate) F);

impl<F: FnMut()> Work for Loop<F> {
    #[inline(always)]
    fn run<const NATIVE: bool>(mut self) {
        (self.0)();
    }
}

/// Runs on a set; what is not there runs as portable code.
pub(crate) fn on(isa: Isa, work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(token) = Avx512::new(isa) {
            // SAFETY: the token is proof of the set.
            return unsafe { avx512(token, work) };
        }
        if let Some(token) = Avx2::new(isa) {
            // SAFETY: the token is proof of the set.
            return unsafe { avx2(token, work) };
        }
    }
    if cfg!(target_arch = "aarch64") && isa == Isa::Neon { work.run::<true>() } else { work.run::<false>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
fn avx512(_: Avx512, work: impl Work) {
    work.run::<true>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2(_: Avx2, work: impl Work) {
    work.run::<true>();
}

/// Nothing, in a loop over K: keeps compilers from turning the wrong loop into vectors, rows of
/// columns being the right one.
#[inline(always)]
pub(super) fn in_order() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// `x`, once it has been in memory as a whole: keeps compilers from taking lanes apart for the sake of what follows
/// (what looked at all of them made vectors of 8, 4, 2, 1 and 1 lanes of the loop before it).
#[inline(always)]
pub(super) fn through_memory<T>(x: T) -> T {
    /// No load or store of it meets two cache lines.
    #[repr(C, align(64))]
    struct Line<T>(T);
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(unused_mut, reason = "nothing is done")
    )]
    let mut x = Line(x);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) &raw mut x, options(nostack, preserves_flags));
    }
    x.0
}

/// Asks for memory to be brought into the second-level cache (the first may have no room for rows so far apart that
/// they share its sets); any address will do.
#[inline(always)]
pub(super) fn near<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    super::prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }, _>(at);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// `x` as an integer, cut toward zero, without a check.
///
/// # Safety
/// `|x| < 2^31`.
#[inline(always)]
pub(super) unsafe fn truncate(x: f32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { x.to_int_unchecked() }
}

/// `each(a, b)` for every product in order, four to a turn of the loop.
#[inline(always)]
pub(super) fn over<A: Copy, B>(a: &[A], b: &[B], mut each: impl FnMut(A, &B)) {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..4 {
            in_order();
            each(a[i], &b[i]);
        }
    }
    for (&a, b) in rest_a.iter().zip(rest_b) {
        in_order();
        each(a, b);
    }
}
