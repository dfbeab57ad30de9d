//! AMD's instructions: `Mfma<m, n, k, blocks, a, b, d>`.
//!
//! Sources: MMA-Sim Table IV and mmasim 2.1.1; AMD's CDNA ISA documents for shapes and names.
#![allow(non_local_definitions, reason = "a row is an impl and an entry; both stand in one function")]

use super::ty::*;
use super::{Row, pairs, row};
use crate::accumulate::{ExactSum, GroupedRoundDown, PairwiseSum, RoundDown, SequentialFma};
use crate::instr::Mfma;
use crate::unit::Evidence;

type Sfma = SequentialFma;
type Exact = ExactSum;
type Gps = PairwiseSum;
type Fdrda = RoundDown;
type Gfdrda = GroupedRoundDown;

const fn source(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::PublishedTest => "MMA-Sim (arXiv 2511.10909) Table IV and mmasim 2.1.1",
        // No GPU of that kind was at hand for the paper; the package carries the model.
        _ => "mmasim 2.1.1; MATLAB-tensor-core's CDNA1 model",
    }
}

#[rustfmt::skip]
pub(super) fn rows(out: &mut Vec<Row>) {
    row!(out; Mfma<16, 16, 4, 1, f64, f64, f64>, ""; Cdna2 Sfma IEEE PublishedTest, Cdna3 Sfma IEEE PublishedTest);
    row!(out; Mfma<4, 4, 4, 4, f64, f64, f64>, ""; Cdna2 Sfma IEEE PublishedTest, Cdna3 Sfma IEEE PublishedTest);
    macro_rules! f32_rows {
        ($($m:literal $k:literal $blocks:literal),*) => { $(
            row!(out; Mfma<$m, $m, $k, $blocks, f32, f32, f32>, "";
                Cdna1 Sfma IEEE ModelOnly, Cdna2 Sfma IEEE PublishedTest, Cdna3 Sfma IEEE PublishedTest);
        )* };
    }
    f32_rows!(32 1 2, 16 1 4, 4 1 16, 32 2 1, 16 4 1);
    // f16, and the bf16 of the same K: `_1k` on CDNA2, plain bf16 on CDNA3.
    macro_rules! half_rows {
        ($($m:literal $k:literal $blocks:literal $konst:ident),*) => { $(
            row!(out; Mfma<$m, $m, $k, $blocks, f16, f16, f32>, "";
                Cdna1 Exact CDNA1_F16 ModelOnly, Cdna2 Gps CDNA2 PublishedTest, Cdna3 Fdrda $konst PublishedTest);
            row!(out; Mfma<$m, $m, $k, $blocks, bf16, bf16, f32>, "";
                Cdna2 Gps CDNA2 PublishedTest, Cdna3 Fdrda $konst PublishedTest);
        )* };
    }
    half_rows!(32 4 2 CDNA3_G4, 16 4 4 CDNA3_G4, 4 4 16 CDNA3_G4, 32 8 1 CDNA3, 16 16 1 CDNA3);
    // The older bf16 instructions of half that K.
    macro_rules! bf16_rows {
        ($($m:literal $k:literal $blocks:literal),*) => { $(
            row!(out; Mfma<$m, $m, $k, $blocks, bf16, bf16, f32>, "";
                Cdna1 Exact CDNA1_BF16 ModelOnly, Cdna2 Gps CDNA2_BF16 PublishedTest);
        )* };
    }
    bf16_rows!(32 2 2, 16 2 4, 4 2 16, 32 4 1, 16 8 1);
    row!(out; Mfma<32, 32, 4, 1, tf32, tf32, f32>, ""; Cdna3 Fdrda CDNA3_G4 PublishedTest);
    row!(out; Mfma<16, 16, 8, 1, tf32, tf32, f32>, ""; Cdna3 Fdrda CDNA3_G4 PublishedTest);
    macro_rules! fp8_rows {
        ($a:ident $b:ident) => {
            row!(out; Mfma<16, 16, 32, 1, $a, $b, f32>, ""; Cdna3 Gfdrda CDNA3 PublishedTest);
            row!(out; Mfma<32, 32, 16, 1, $a, $b, f32>, ""; Cdna3 Gfdrda CDNA3 PublishedTest);
        };
    }
    pairs!(fp8_rows; [e4m3fnuz e5m2fnuz] [e4m3fnuz e5m2fnuz]);
}
