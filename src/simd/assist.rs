//! Whether operations on subnormal numbers are slow on this processor: some take a microcode assist of a hundred cycles
//! or more (Intel's), others none (AMD's Zen 4).

#![allow(unsafe_code, reason = "a function for one instruction set")]

use super::Avx2;
use core::arch::x86_64::*;
use core::cell::Cell;
use core::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

thread_local! {
    static ASSUMED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// What is to be assumed instead of what was measured, by kernels that this thread makes while it works.
pub(super) fn assuming<R>(slow: bool, work: impl FnOnce() -> R) -> R {
    /// Takes it back, even from a panic.
    struct Before(Option<bool>);
    impl Drop for Before {
        fn drop(&mut self) {
            ASSUMED.set(self.0);
        }
    }
    let _before = Before(ASSUMED.replace(Some(slow)));
    work()
}

/// Whether FMAs with subnormal operands and results are slow: measured once, in some microseconds, or a tenth of a
/// millisecond where they are; in f32, for f64 too. No result depends on it, for what is done about it gives the same bits.
pub(super) fn is_slow(proof: Avx2) -> bool {
    static MEASURED: OnceLock<bool> = OnceLock::new();
    ASSUMED.get().unwrap_or_else(|| *MEASURED.get_or_init(|| time(proof, 1e-40) > 4 * time(proof, 0.5)))
}

/// The shortest of a few times that FMAs with this number take.
fn time(proof: Avx2, x: f32) -> Duration {
    let once = |_| {
        let start = Instant::now();
        black_box(proof.fmas(black_box(x)));
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
