//! What a GEMM is asked to do: the plan of SPEC section 5 as plain fields, and its presets.

use super::formats::format;
use super::names::Desc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Last,
    First,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    Parallel,
    Serial,
    /// The k-th entry names the slice added k-th; `flush` is the f32 atomics' flushing of subnormals.
    Atomic {
        order: Vec<usize>,
        flush: bool,
    },
}

/// Scales of promoted blocks as f32 values: `a[row / rows][k / k_width]`, `b[k / k_width][col / cols]`.
#[derive(Clone, Debug)]
pub(crate) struct BlockScales {
    pub(crate) a: Vec<Vec<f32>>,
    pub(crate) b: Vec<Vec<f32>>,
    pub(crate) rows: usize,
    pub(crate) k_width: usize,
    pub(crate) cols: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Promotion {
    pub(crate) interval: usize,
    pub(crate) scales: Option<BlockScales>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    TwoX,
    ThreeX,
    Rounded,
}

/// The plan, and what the user asks of the epilogue.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) bm: usize,
    pub(crate) bn: usize,
    pub(crate) bk: usize,
    pub(crate) tail: Tail,
    pub(crate) start_at_c: bool,
    pub(crate) slices: usize,
    /// Slices are multiples of so many elements, instead of blocks.
    pub(crate) align: Option<usize>,
    /// Slices take blocks in turn.
    pub(crate) interleaved: bool,
    pub(crate) reduce: Reduce,
    /// Number of workers.
    pub(crate) stream_k: Option<usize>,
    pub(crate) promotion: Option<Promotion>,
    pub(crate) epilogue: Epilogue,
    /// Must be exact in f32, or in f64 for units whose d is f64.
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    /// Factors of A's rows and of B's columns, outside the unit.
    pub(crate) outer: [Option<Vec<f32>>; 2],
    /// They are one number each, which are multiplied with one another first.
    pub(crate) per_tensor: bool,
    /// Added to every row of D before it is rounded.
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) c_type: &'static str,
    pub(crate) d_type: &'static str,
}

impl Options {
    /// One instruction after the other, alpha = 1, beta = 0.
    pub(crate) fn in_order(unit: &Desc) -> Options {
        Options {
            bm: unit.m,
            bn: unit.n,
            bk: unit.k,
            tail: Tail::Last,
            start_at_c: false,
            slices: 1,
            align: None,
            interleaved: false,
            reduce: Reduce::Parallel,
            stream_k: None,
            promotion: None,
            epilogue: Epilogue::ThreeX,
            alpha: 1.0,
            beta: 0.0,
            outer: [None, None],
            per_tensor: false,
            bias: None,
            c_type: unit.d,
            d_type: unit.d,
        }
    }
}

/// The plan of a preset for a unit; alpha = 1, beta = 0 and D in the unit's d. "deepgemm" needs its scales filled in.
pub(crate) fn preset(name: &str, unit_name: &str, unit: &Desc) -> Result<Options, String> {
    let bits = |f: &str| format(f).map_or(0, |f| f.width as usize);
    // fp6, and fp4 outside the K = 64 units, sit in bytes.
    let bits = if unit.k == 64 { 4 } else { bits(unit.a).max(bits(unit.b)).max(8) };
    let bytes = |n: usize| (n * 8 / bits).next_multiple_of(unit.k);
    let plain = Options::in_order(unit);
    let tile = Options { bm: 128, bn: 128, ..plain.clone() };
    let promoted = Some(Promotion { interval: 128, scales: None });
    let wgmma_fp8 = unit_name.starts_with("hopper/wgmma") && unit.k == 32;
    match name {
        "in-order" => Ok(plain),
        "cutlass2" => {
            Ok(Options { bk: bytes(64), tail: Tail::First, reduce: Reduce::Serial, epilogue: Epilogue::TwoX, ..tile })
        }
        "cutlass3" => Ok(Options { bk: bytes(128), promotion: promoted.filter(|_| wgmma_fp8), ..tile }),
        "deepgemm" => Ok(Options { bk: 128, promotion: promoted, ..tile }),
        _ => Err(format!("no preset {name}")),
    }
}
