//! The plans that libraries use.

use gemmulate::gemm::{Epilogue, Slices, SplitMode, Start, Tail};
use gemmulate::{Plan, Unit};

/// Slices of a split K. On tensor cores cuBLAS was seen to take 2 to 57 on an H100 (docs/hardware.md).
const MOST_SLICES: usize = 64;
const MORE_SLICES: [usize; 5] = [72, 80, 96, 128, 256];
/// Those of plans that fewer kernels have.
const FEW_SLICES: [usize; 7] = [2, 3, 4, 5, 6, 8, 16];

/// Them, for units of one function; those where c takes part, if it does, and where D is narrower than sums, if it is.
pub(super) fn usual(units: &[Unit], reads_c: bool, narrow: bool) -> Vec<Plan> {
    let mut bases = vec![
        Plan::in_order(),
        Plan::cutlass3(),
        Plan::cutlass2(),
        Plan::in_order().tail(Tail::First),
        Plan::cutlass3().no_promotion(),
        Plan::in_order().promote(128),
        Plan::deepgemm(),
    ];
    let mut plans = Vec::new();
    if reads_c {
        bases.push(Plan::in_order().epilogue(Epilogue::TwoX));
        if narrow {
            bases.push(Plan::in_order().epilogue(Epilogue::Rounded));
        }
        plans.push(Plan::in_order().start(Start::C));
    }
    // Of plans that are one loop the first stands before the others: the plain ones.
    plans.extend(bases.iter().cloned());
    let bits = units[0].a.storage_bits.min(units[0].b.storage_bits);
    if bits <= 8 {
        // Triton's `max_num_imprecise_acc`: promotion after so many. Of wider operands the same loop is a split K.
        let promotions = [32, 64, 256, 512].into_iter().filter(|interval| interval % units[0].shape.k == 0);
        plans.extend(promotions.map(|interval| Plan::in_order().promote(interval)));
    }
    let both = |split: Plan| [SplitMode::Parallel, SplitMode::Serial].map(|mode| split.clone().split_mode(mode));
    for base in &bases {
        for slices in FEW_SLICES {
            let split = base.clone().split_k(slices);
            plans.extend(both(split.clone()));
            plans.extend(arrivals(slices, reads_c).iter().map(|order| split.clone().atomic_order(order)));
        }
    }
    // GemmUniversal cuts K at 16 bytes; its blocks are of 64 or 128 bytes.
    let universal = Plan::cutlass2().split_align(128 / bits as usize);
    let [m, n, k] = Plan::cutlass3().block_on(&units[0]);
    let wider = universal.clone().block(m, n, k);
    let often = [Plan::in_order(), Plan::cutlass3().no_promotion(), Plan::cutlass2(), universal, wider];
    for slices in (2..=MOST_SLICES).chain(MORE_SLICES) {
        plans.extend(often.iter().flat_map(|base| both(base.clone().split_k(slices))));
    }
    // cuBLAS's xmma kernels deal blocks out in turn.
    let step = units[0].shape.k;
    for block in [8, 16, 32, 64, 128].into_iter().filter(|block| block % step == 0) {
        let base = Plan::in_order().block(64, 64, block).slices(Slices::Interleaved);
        plans.extend((2..=16).map(|slices| base.clone().split_k(slices)));
        if reads_c {
            let twice = base.epilogue(Epilogue::TwoX);
            plans.extend((2..=16).map(|slices| twice.clone().split_k(slices)));
        }
    }
    let mut workers: Vec<usize> = units.iter().flat_map(|unit| processors(unit.arch)).copied().collect();
    workers.extend([2, 4, 8]);
    workers.sort_unstable();
    workers.dedup();
    for base in [Plan::cutlass2(), Plan::cutlass3()] {
        let [_, _, k] = base.block_on(&units[0]);
        for [m, n] in [[128, 128], [128, 256], [256, 128], [64, 64]] {
            plans.extend(workers.iter().map(|&p| base.clone().block(m, n, k).stream_k(p)));
        }
    }
    plans
}

/// Orders in which slices may arrive: up to 4, all that differ (the first two commute, unless D starts at beta C); else
/// up and down.
fn arrivals(slices: usize, reads_c: bool) -> Vec<Vec<usize>> {
    let up: Vec<usize> = (0..slices).collect();
    if slices > 4 {
        return vec![up.clone(), up.into_iter().rev().collect()];
    }
    let mut orders = vec![Vec::new()];
    for _ in 0..slices {
        let longer = |order: &Vec<usize>| {
            let free = up.iter().filter(|s| !order.contains(s));
            free.map(|&s| [&order[..], &[s]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders.retain(|order| reads_c || order[0] < order[1]);
    orders
}

/// Multiprocessors or compute units of an architecture's best-known GPUs: stream-K's workers.
fn processors(arch: &str) -> &'static [usize] {
    match arch {
        "volta" => &[80],
        "turing" => &[40, 68, 72],
        "ampere" => &[56, 84, 108],
        "ada" => &[58, 128, 142],
        "hopper" => &[114, 132],
        "blackwell" => &[148],
        "rtx-blackwell" => &[170, 188],
        "cdna1" => &[120],
        "cdna2" => &[104, 110],
        "cdna3" => &[228, 304],
        _ => &[],
    }
}
