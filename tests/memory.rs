//! What a large product takes besides its operands and result: at most 64 MiB.
//!
//! A program of its own, because it counts what the whole program allocates.
#![allow(unsafe_code, reason = "an allocator that counts")]

use core::alloc::{GlobalAlloc, Layout};
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicUsize, Ordering};
use gemmulate::gemm::{Progress, quantise};
use gemmulate::prelude::*;
use ndarray::{Array2, Axis};
use std::alloc::System;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(size: usize) {
    let now = NOW.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: all is the system allocator's work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const N: usize = 4096;
const MIB: usize = 1 << 20;

/// The most that was allocated beyond what stood before `f`, D's own room apart.
fn extra(d_bytes: usize, f: impl FnOnce() -> Result<(), Error>) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    // Cancelled when the first tiles are done: by then every buffer has its size.
    assert_eq!(f(), Err(Error::Cancelled));
    PEAK.load(Ordering::Relaxed) - before - d_bytes
}

#[test]
fn a_large_product_takes_64_mib_besides_operands_and_result() {
    let a = Array2::from_shape_fn((N, N), |(i, k)| ((i * 7 + k) % 13) as f32 - 6.0);
    let soon = |p: Progress| if p.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let plans = ["in-order", "cutlass3 promote=128 split-k=4", "cutlass2 split-k=4", "cutlass3 stream-k=132"];
    for name in [
        "hopper/wgmma.m64n128k16.f32.f16.f16",
        // Operands that are read before they are packed.
        "custom/m16n8k16.f32.f16.f16.f32/fma",
        "custom/m16n8k16.f64.f16.f16.f64/fma:round=rz",
        "hopper/wgmma.m64n128k32.f32.e4m3.e4m3",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "ampere/mma.m8n8k4.f64.f64.f64.f64",
    ] {
        let unit = Unit::find(name).unwrap();
        let d_bytes = N * N * if unit.d.storage_bits == 64 { 8 } else { 4 };
        for text in plans {
            let plan: Plan = text.parse().unwrap();
            let gemm = Gemm::on(&unit).plan(plan).threads(2).progress(&soon);
            let taken = extra(d_bytes, || match unit.d.storage_bits {
                64 => gemm.run_as::<f64>(&a, &a).map(drop),
                _ => gemm.run(&a, &a).map(drop),
            });
            // At least one: a counter that counts, because blocks of D and panels do take room.
            assert!((MIB..=64 * MIB).contains(&taken), "{name} {text}: {taken} bytes");
        }
    }
    // Operands that are checked before they are converted, and those that come with scales.
    let unit = Unit::find("rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32").unwrap();
    let taken = extra(N * N * 4, || Gemm::on(&unit).progress(&soon).run(&a, &a).map(drop));
    assert!((MIB..=64 * MIB).contains(&taken), "{unit}: {taken} bytes");
    let unit = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3").unwrap();
    let quantise = |axis| quantise::for_unit(&a, &unit, Axis(axis), Rounding::NearestEven).unwrap();
    let (qa, qb) = (quantise(1), quantise(0));
    let taken = extra(N * N * 4, || Gemm::on(&unit).progress(&soon).run_quantised(&qa, &qb).map(drop));
    assert!((MIB..=64 * MIB).contains(&taken), "{unit}: {taken} bytes");
}
