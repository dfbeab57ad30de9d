//! What no flag says of a processor and kernels would know: it is measured once. No result depends on it, for what is
//! done about it gives the same bits.

#![allow(unsafe_code, reason = "functions for one instruction set")]

use super::{Avx2, Avx512};
use core::arch::x86_64::*;
use core::cell::Cell;
use core::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What is to be assumed instead of what was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assumed {
    pub(super) slow_subnormals: bool,
    pub(super) two_multipliers: bool,
}

thread_local! {
    static ASSUMED: Cell<Option<Assumed>> = const { Cell::new(None) };
}

/// For kernels that this thread makes while it works.
pub(super) fn assuming<R>(assumed: Assumed, work: impl FnOnce() -> R) -> R {
    /// Takes it back, even from a panic.
    struct Before(Option<Assumed>);
    impl Drop for Before {
        fn drop(&mut self) {
            ASSUMED.set(self.0);
        }
    }
    let _before = Before(ASSUMED.replace(Some(assumed)));
    work()
}

/// Whether FMAs with subnormal operands and results are slow, for they take a microcode assist of a hundred cycles or
/// more (Intel's; AMD's Zen 4 takes none): measured in some microseconds, or a tenth of a millisecond where they are;
/// in f32, for f64 too.
pub(super) fn is_slow(proof: Avx2) -> bool {
    static MEASURED: OnceLock<bool> = OnceLock::new();
    let measured = || {
        let time = |x| shortest(|| proof.fmas(black_box(x)));
        time(1e-40) > 4 * time(0.5)
    };
    ASSUMED.get().map_or_else(|| *MEASURED.get_or_init(measured), |assumed| assumed.slow_subnormals)
}

/// Whether two FMAs of 512 bits begin in a cycle (Zen 5; many of Intel's), and not one (Zen 4): measured in some
/// microseconds. As many as there are stages, four, go one a cycle anywhere; only where two begin do sixteen take less
/// than four times as long.
pub(super) fn two_multipliers(proof: Avx512) -> bool {
    static MEASURED: OnceLock<bool> = OnceLock::new();
    let measured = || 3 * shortest(|| proof.fmas::<4>()) > shortest(|| proof.fmas::<16>());
    ASSUMED.get().map_or_else(|| *MEASURED.get_or_init(measured), |assumed| assumed.two_multipliers)
}

/// The shortest of a few times that something takes.
fn shortest<R>(work: impl Fn() -> R) -> Duration {
    let once = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    (0..9).map(once).min().unwrap_or_default()
}

impl Avx2 {
    /// A few hundred FMAs, half of them on sums of nothing else.
    fn fmas(self, x: f32) -> __m256 {
        #[target_feature(enable = "avx2,fma")]
        fn fmas(x: f32) -> __m256 {
            let (x, y) = (_mm256_set1_ps(x), _mm256_set1_ps(0.125));
            let (mut ones, mut zeros) = ([_mm256_set1_ps(1.0); 4], [_mm256_setzero_ps(); 4]);
            for _ in 0..32 {
                for sum in ones.iter_mut().chain(&mut zeros) {
                    *sum = _mm256_fmadd_ps(x, y, *sum);
                }
                (ones, zeros) = black_box((ones, zeros));
            }
            _mm256_add_ps(ones[0], zeros[0])
        }
        // SAFETY: `self` is the proof.
        unsafe { fmas(x) }
    }
}

impl Avx512 {
    /// A few hundred rounds of `N` FMAs at once.
    fn fmas<const N: usize>(self) -> [__m512d; N] {
        #[target_feature(enable = "avx512f")]
        fn fmas<const N: usize>() -> [__m512d; N] {
            let x = black_box(_mm512_set1_pd(0.5));
            let mut sums = [x; N];
            for _ in 0..512 {
                for sum in &mut sums {
                    *sum = _mm512_fmadd_pd(*sum, x, x);
                }
            }
            sums
        }
        // SAFETY: `self` is the proof.
        unsafe { fmas() }
    }
}
