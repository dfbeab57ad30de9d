//! NVIDIA's instructions, read as `d = a * b + c`: `Mma<m, n, k, a, b, c, d>`.
//!
//! Sources: MMA-Sim Table III and mmasim 2.1.1; Khattak and Mikaitis Table II and their recorded
//! vectors; the code that ptxas 13 emits; an H100, recorded with `lab/capture`.
#![allow(non_local_definitions, reason = "a row is an impl and an entry; both stand in one function")]

use super::ty::*;
use super::{Row, pairs, row};
use crate::accumulate::{Chain, FusedDotAdd, GroupScaledDot, Interleave, SequentialFma, SoftwareDot};
use crate::instr::{Columns, EightColumns, LegalTile, Mma, MmaScaled, Tcgen05, Tcgen05Scaled, Tile, Wgmma};
use crate::mma::Supports;
use crate::unit::Evidence;

type Fda = FusedDotAdd;
type CoFda = Chain<FusedDotAdd>;
type Inter = Interleave<FusedDotAdd>;
type Gdfs = GroupScaledDot;
type Sfma = SequentialFma;
type Soft = SoftwareDot;

impl Chain<FusedDotAdd> {
    /// m16n8k16 and tf32 m16n8k8 on A100: two halves of F = 24.
    pub const AMPERE: Self = Self::halves(FusedDotAdd::AMPERE);
    /// The same on Ada.
    pub const ADA: Self = Self::AMPERE;
    /// m16n8k32 of fp8 on Ada: two halves of F = 13.
    pub const ADA_FP8: Self = Self::halves(FusedDotAdd::ADA_FP8);
}

impl Interleave<FusedDotAdd> {
    /// fp8 `mma.sync` on H100: two interleaved groups on the f16 unit.
    pub const HOPPER: Self = Self { each: FusedDotAdd::HOPPER };
    /// The same on B200.
    pub const BLACKWELL: Self = Self::HOPPER;
}

/// Every Hopper instruction was recorded, `wgmma` with 8, 16, 64, 128 and 256 columns.
const H100: &str = "recorded on an H100 by lab/capture, 10^6 random vectors and targeted ones (docs/hardware.md)";

const fn source(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::HardwareVectors => "Khattak and Mikaitis, MATLAB-tensor-core model_validation (recorded on GPUs)",
        Evidence::CompilerOutput => "instructions emitted by ptxas 13 (lab/capture/ptx_survey)",
        Evidence::PublishedTest => "MMA-Sim (arXiv 2511.10909) Table III and mmasim 2.1.1",
        Evidence::ModelOnly => "modelled on the same unit's other instructions",
    }
}

pub(super) fn rows(out: &mut Vec<Row>) {
    half_rows(out);
    tf32_and_f64_rows(out);
    fp8_rows(out);
    f8f6f4_rows(out);
    scaled_rows(out);
    wgmma_rows(out);
    tcgen05_rows(out);
}

#[rustfmt::skip]
fn half_rows(out: &mut Vec<Row>) {
    row!(out; Mma<8, 8, 4, f16, f16, f32, f32>, "HMMA.884.F32.F32";
        Volta Fda VOLTA HardwareVectors, Turing Fda VOLTA PublishedTest
            "mmasim 2.1.1, tested on sm_75; MMA-Sim Table III says F = 24 (D7)");
    row!(out; Mma<8, 8, 4, f16, f16, f16, f32>, "HMMA.884.F32.F16";
        Volta Fda VOLTA PublishedTest, Turing Fda VOLTA PublishedTest
            "mmasim 2.1.1, tested on sm_75; MMA-Sim Table III says F = 24 (D7)");
    row!(out; Mma<8, 8, 4, f16, f16, f16, f16>, "HMMA.884.F16.F16";
        Volta Fda VOLTA HardwareVectors, Turing Fda VOLTA PublishedTest
            "mmasim 2.1.1, tested on sm_75; MMA-Sim Table III says F = 24 (D7)");
    row!(out; Mma<8, 8, 4, f16, f16, f32, f32>, "";
        Ampere Soft NVIDIA CompilerOutput, Ada Soft NVIDIA CompilerOutput, Hopper Soft NVIDIA HardwareVectors,
        Blackwell Soft NVIDIA CompilerOutput, RtxBlackwell Soft NVIDIA CompilerOutput);
    row!(out; Mma<8, 8, 4, f16, f16, f16, f32>, "";
        Ampere Soft NVIDIA CompilerOutput, Ada Soft NVIDIA CompilerOutput, Hopper Soft NVIDIA HardwareVectors,
        Blackwell Soft NVIDIA CompilerOutput, RtxBlackwell Soft NVIDIA CompilerOutput);
    row!(out; Mma<8, 8, 4, f16, f16, f16, f16>, "";
        Ampere Soft NVIDIA CompilerOutput, Ada Soft NVIDIA CompilerOutput, Hopper Soft NVIDIA HardwareVectors,
        Blackwell Soft NVIDIA CompilerOutput, RtxBlackwell Soft NVIDIA CompilerOutput);
    row!(out; Mma<16, 8, 8, f16, f16, f32, f32>, "HMMA.1688.F32";
        Turing Fda TURING PublishedTest, Ampere Fda AMPERE HardwareVectors, Ada Fda ADA HardwareVectors,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 8, f16, f16, f16, f16>, "HMMA.1688.F16";
        Turing Fda TURING PublishedTest, Ampere Fda AMPERE HardwareVectors, Ada Fda ADA HardwareVectors,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 8, bf16, bf16, f32, f32>, "HMMA.1688.F32.BF16";
        Ampere Fda AMPERE HardwareVectors, Ada Fda ADA HardwareVectors,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 16, f16, f16, f32, f32>, "HMMA.16816.F32";
        Ampere CoFda AMPERE PublishedTest, Ada CoFda ADA PublishedTest,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL HardwareVectors, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 16, f16, f16, f16, f16>, "HMMA.16816.F16";
        Ampere CoFda AMPERE PublishedTest, Ada CoFda ADA PublishedTest,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL HardwareVectors, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 16, bf16, bf16, f32, f32>, "HMMA.16816.F32.BF16";
        Ampere CoFda AMPERE PublishedTest, Ada CoFda ADA PublishedTest,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL HardwareVectors, RtxBlackwell Fda BLACKWELL PublishedTest);
}

#[rustfmt::skip]
fn tf32_and_f64_rows(out: &mut Vec<Row>) {
    row!(out; Mma<16, 8, 4, tf32, tf32, f32, f32>, "HMMA.1684.F32.TF32";
        Ampere Fda AMPERE HardwareVectors, Ada Fda ADA HardwareVectors,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL HardwareVectors, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<16, 8, 8, tf32, tf32, f32, f32>, "HMMA.1688.F32.TF32";
        Ampere CoFda AMPERE PublishedTest, Ada CoFda ADA PublishedTest,
        Hopper Fda HOPPER HardwareVectors, Blackwell Fda BLACKWELL PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
    row!(out; Mma<8, 8, 4, f64, f64, f64, f64>, "DMMA.884";
        Ampere Sfma IEEE PublishedTest, Ada Sfma IEEE PublishedTest, Hopper Sfma IEEE HardwareVectors,
        Blackwell Sfma IEEE PublishedTest, RtxBlackwell Sfma IEEE PublishedTest);
    row!(out; Mma<16, 8, 4, f64, f64, f64, f64>, "DMMA.16x8x4"; Hopper Sfma IEEE HardwareVectors);
    row!(out; Mma<16, 8, 8, f64, f64, f64, f64>, "DMMA.16x8x8"; Hopper Sfma IEEE HardwareVectors);
    row!(out; Mma<16, 8, 16, f64, f64, f64, f64>, "DMMA.16x8x16"; Hopper Sfma IEEE HardwareVectors);
    // Both Blackwells have chains of DMMA.8x8x4 in K order instead.
    row!(out; Mma<16, 8, 4, f64, f64, f64, f64>, "";
        Blackwell Sfma IEEE CompilerOutput, RtxBlackwell Sfma IEEE CompilerOutput);
    row!(out; Mma<16, 8, 8, f64, f64, f64, f64>, "";
        Blackwell Sfma IEEE CompilerOutput, RtxBlackwell Sfma IEEE CompilerOutput);
    row!(out; Mma<16, 8, 16, f64, f64, f64, f64>, "";
        Blackwell Sfma IEEE CompilerOutput, RtxBlackwell Sfma IEEE CompilerOutput);
}

#[rustfmt::skip]
fn fp8_rows(out: &mut Vec<Row>) {
    macro_rules! fp8 {
        ($a:ident $b:ident) => {
            row!(out; Mma<16, 8, 16, $a, $b, f32, f32>, "QMMA.16816.{D}.{A}.{B}";
                Ada Fda ADA_FP8 PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
            row!(out; Mma<16, 8, 16, $a, $b, f16, f16>, "QMMA.16816.{D}.{A}.{B}";
                Ada Fda ADA_FP8 PublishedTest, RtxBlackwell Fda BLACKWELL PublishedTest);
            row!(out; Mma<16, 8, 16, $a, $b, f32, f32>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL CompilerOutput);
            row!(out; Mma<16, 8, 16, $a, $b, f16, f16>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL CompilerOutput);
        };
    }
    macro_rules! mixed {
        ($a:ident $b:ident) => {
            row!(out; Mma<16, 8, 32, $a, $b, f32, f32>, "QMMA.16832.{D}.{A}.{B}"; Ada CoFda ADA_FP8 PublishedTest);
            row!(out; Mma<16, 8, 32, $a, $b, f16, f16>, "QMMA.16832.{D}.{A}.{B}"; Ada CoFda ADA_FP8 PublishedTest);
            row!(out; Mma<16, 8, 32, $a, $b, f32, f32>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL CompilerOutput);
            row!(out; Mma<16, 8, 32, $a, $b, f16, f16>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL CompilerOutput);
        };
    }
    macro_rules! recorded {
        ($a:ident $b:ident) => {
            row!(out; Mma<16, 8, 32, $a, $b, f32, f32>, "QMMA.16832.{D}.{A}.{B}"; Ada CoFda ADA_FP8 HardwareVectors);
            row!(out; Mma<16, 8, 32, $a, $b, f16, f16>, "QMMA.16832.{D}.{A}.{B}"; Ada CoFda ADA_FP8 HardwareVectors);
            row!(out; Mma<16, 8, 32, $a, $b, f32, f32>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL HardwareVectors);
            row!(out; Mma<16, 8, 32, $a, $b, f16, f16>, "";
                Hopper Inter HOPPER HardwareVectors, Blackwell Inter BLACKWELL HardwareVectors);
        };
    }
    pairs!(fp8; [e4m3 e5m2] [e4m3 e5m2]);
    recorded!(e4m3 e4m3);
    mixed!(e4m3 e5m2);
    mixed!(e5m2 e4m3);
    recorded!(e5m2 e5m2);
}

#[rustfmt::skip]
fn f8f6f4_rows(out: &mut Vec<Row>) {
    macro_rules! f8f6f4 {
        ($a:ident $b:ident) => {
            row!(out; Mma<16, 8, 32, $a, $b, f32, f32>, "QMMA.16832.{D}.{A}.{B}"; RtxBlackwell Fda BLACKWELL PublishedTest);
            row!(out; Mma<16, 8, 32, $a, $b, f16, f16>, "QMMA.16832.{D}.{A}.{B}"; RtxBlackwell Fda BLACKWELL PublishedTest);
        };
    }
    pairs!(f8f6f4; [e4m3 e5m2 e2m3 e3m2 e2m1] [e4m3 e5m2 e2m3 e3m2 e2m1]);
}

#[rustfmt::skip]
fn scaled_rows(out: &mut Vec<Row>) {
    macro_rules! mxf8f6f4 {
        ($a:ident $b:ident) => {
            row!(out; MmaScaled<16, 8, 32, 32, $a, $b, f32, f32, ue8m0>, "QMMA.SF.16832.{D}.{A}.{B}.E8";
                RtxBlackwell Fda BLACKWELL PublishedTest);
        };
    }
    pairs!(mxf8f6f4; [e4m3 e5m2 e2m3 e3m2 e2m1] [e4m3 e5m2 e2m3 e3m2 e2m1]);
    row!(out; MmaScaled<16, 8, 64, 32, e2m1, e2m1, f32, f32, ue8m0>, "OMMA.SF.16864.F32.E2M1.E2M1.E8";
        RtxBlackwell Gdfs BLACKWELL PublishedTest);
    row!(out; MmaScaled<16, 8, 64, 16, e2m1, e2m1, f32, f32, ue8m0>, "";
        RtxBlackwell Gdfs BLACKWELL PublishedTest "mmasim 2.1.1");
    row!(out; MmaScaled<16, 8, 64, 16, e2m1, e2m1, f32, f32, ue4m3>, "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X";
        RtxBlackwell Gdfs BLACKWELL PublishedTest);
}

/// A `wgmma` row stands for every legal n; the entry is n = 8.
macro_rules! wgmma {
    ($out:ident; $a:ident, $b:ident, $d:ident, $acc:ident $konst:ident, $sass:expr) => {
        impl<const N: usize> Supports<Wgmma<N, $a, $b, $d>> for crate::arch::Hopper
        where
            Columns<N>: EightColumns,
        {
            type Acc = $acc;
            const ACC: $acc = <$acc>::$konst;
            const EVIDENCE: Evidence = Evidence::HardwareVectors;
            const SOURCE: &'static str = H100;
        }
        $out.push(Row::new::<crate::arch::Hopper, Wgmma<8, $a, $b, $d>>($sass));
    };
}

#[rustfmt::skip]
fn wgmma_rows(out: &mut Vec<Row>) {
    wgmma!(out; tf32, tf32, f32, Fda HOPPER, "HGMMA.64x8x8.F32.TF32");
    wgmma!(out; f16, f16, f32, Fda HOPPER, "HGMMA.64x8x16.F32");
    wgmma!(out; f16, f16, f16, Fda HOPPER, "HGMMA.64x8x16.F16");
    wgmma!(out; bf16, bf16, f32, Fda HOPPER, "HGMMA.64x8x16.F32.BF16");
    macro_rules! fp8 {
        ($a:ident $b:ident) => {
            wgmma!(out; $a, $b, f32, Fda HOPPER_FP8, "QGMMA.64x8x32.{D}.{A}.{B}");
            wgmma!(out; $a, $b, f16, Fda HOPPER_FP8, "QGMMA.64x8x32.{D}.{A}.{B}");
        };
    }
    pairs!(fp8; [e4m3 e5m2] [e4m3 e5m2]);
}

/// A `tcgen05.mma` row stands for every legal m and n; the entry is m64n8.
macro_rules! tcgen05 {
    ($out:ident; $a:ident, $b:ident, $d:ident, $evidence:ident, $sass:expr) => {
        impl<const M: usize, const N: usize> Supports<Tcgen05<M, N, $a, $b, $d>> for crate::arch::Blackwell
        where
            Tile<M, N>: LegalTile,
        {
            type Acc = Fda;
            const ACC: Fda = Fda::BLACKWELL;
            // Nobody has published a test of CTA pairs.
            const EVIDENCE: Evidence = if M == 256 { Evidence::ModelOnly } else { Evidence::$evidence };
            const SOURCE: &'static str = source(<Self as Supports<Tcgen05<M, N, $a, $b, $d>>>::EVIDENCE);
        }
        $out.push(Row::new::<crate::arch::Blackwell, Tcgen05<64, 8, $a, $b, $d>>($sass));
    };
}

/// A block-scaled `tcgen05.mma` row stands for every legal n; the entry is m128n8.
macro_rules! tcgen05_scaled {
    ($out:ident; $k:literal, $s:literal, $a:ident, $b:ident, $x:ident, $acc:ident, $sass:expr) => {
        impl<const N: usize> Supports<Tcgen05Scaled<128, N, $k, $s, $a, $b, f32, $x>> for crate::arch::Blackwell
        where
            Columns<N>: EightColumns,
        {
            type Acc = $acc;
            const ACC: $acc = <$acc>::BLACKWELL;
            const EVIDENCE: Evidence = Evidence::PublishedTest;
            const SOURCE: &'static str = source(Evidence::PublishedTest);
        }
        $out.push(Row::new::<crate::arch::Blackwell, Tcgen05Scaled<128, 8, $k, $s, $a, $b, f32, $x>>($sass));
    };
}

#[rustfmt::skip]
fn tcgen05_rows(out: &mut Vec<Row>) {
    tcgen05!(out; tf32, tf32, f32, PublishedTest, "UTCHMMA");
    tcgen05!(out; f16, f16, f16, PublishedTest, "UTCHMMA");
    tcgen05!(out; f16, f16, f32, PublishedTest, "UTCHMMA");
    tcgen05!(out; bf16, bf16, f32, PublishedTest, "UTCHMMA");
    // The ISA has mixed pairs; MMA-Sim tested equal types only.
    tcgen05!(out; f16, bf16, f32, ModelOnly, "UTCHMMA");
    tcgen05!(out; bf16, f16, f32, ModelOnly, "UTCHMMA");
    macro_rules! f8f6f4 {
        ($a:ident $b:ident) => {
            tcgen05!(out; $a, $b, f32, PublishedTest, "UTCQMMA");
            tcgen05!(out; $a, $b, f16, PublishedTest, "UTCQMMA");
            tcgen05_scaled!(out; 32, 32, $a, $b, ue8m0, Fda, "UTCQMMA");
        };
    }
    pairs!(f8f6f4; [e4m3 e5m2 e2m3 e3m2 e2m1] [e4m3 e5m2 e2m3 e3m2 e2m1]);
    tcgen05_scaled!(out; 64, 32, e2m1, e2m1, ue8m0, Gdfs, "UTCOMMA");
    tcgen05_scaled!(out; 64, 16, e2m1, e2m1, ue8m0, Gdfs, "UTCOMMA.4X");
    tcgen05_scaled!(out; 64, 16, e2m1, e2m1, ue4m3, Gdfs, "UTCOMMA.4X");
}
