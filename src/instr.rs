//! Matrix instructions, as types.
//!
//! The shape comes first, then the operands, then results: `Mma<M, N, K, A, B, C, D>`, `Wgmma<N, A, B, D>`,
//! `Mfma<M, N, K, BLOCKS, A, B, D>`. (Vendors' names have d first: `mma.m16n8k16.f32.f16.f16.f32` is d, a, b, c.)

use crate::arch::ArchInfo;
use crate::catalogue::ty;
use crate::format::{self, Format, FormatSpec};
use core::fmt;
use core::marker::PhantomData;

/// The shape of one block of an instruction: D (m x n) = A (m x k) B (k x n) + C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A, C and D.
    pub m: usize,
    /// Columns of B, C and D.
    pub n: usize,
    /// Columns of A and rows of B: the products of one dot-add.
    pub k: usize,
}

impl Shape {
    /// m x n x k.
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

/// How a block-scaled instruction takes its scales: one per operand per `block` elements of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleRule {
    /// The scales' format.
    pub format: FormatSpec,
    /// Elements of K that share a scale.
    pub block: usize,
}

/// The largest M, N, K or number of blocks a unit may have.
pub(crate) const MAX_DIMENSION: usize = 65536;

impl ScaleRule {
    /// What makes this no rule for dot-adds of `k` products, if anything.
    pub(crate) const fn problem(&self, k: usize) -> Option<&'static str> {
        if self.block == 0 || !k.is_multiple_of(self.block) {
            return Some("blocks of scales must divide K");
        }
        if self.format.signed || self.format.has_infinity() || self.format.storage_bits > 8 {
            return Some("block scales are magnitudes of at most 8 bits, without sign and infinities");
        }
        self.format.problem()
    }
}

/// A matrix instruction: shape and formats, known at compile time.
///
/// Which architectures have it, and what they compute, is [`Supports`](crate::Supports)' matter.
pub trait Instruction: Send + Sync + 'static {
    /// Elements of A.
    type A: Format;
    /// Elements of B.
    type B: Format;
    /// Elements of C.
    type C: Format;
    /// Elements of D.
    type D: Format;
    /// Block scales; the type is not used where [`Instruction::SCALE_BLOCK`] is `None`.
    type Scale: Format;
    /// A row of A: an array of K elements.
    type RowA: AsRef<[Self::A]>;
    /// A column of B: an array of K elements.
    type ColB: AsRef<[Self::B]>;
    /// The shape of one block; 1 x 1 x 1 for those of [`MmaUnit::custom`](crate::MmaUnit::custom), known at run time
    /// only: `unit.unit().shape` is that of any.
    const SHAPE: Shape;
    /// Independent blocks per instruction.
    const BLOCKS: usize = 1;
    /// Elements of K that share a scale, for block-scaled instructions.
    const SCALE_BLOCK: Option<usize> = None;

    /// The canonical name on an architecture, without the architecture.
    fn name(arch: &ArchInfo) -> String;
}

/// An instruction without block scales: of one's own, too, it is for [`MmaUnit::dot_add`](crate::MmaUnit::dot_add)
/// alone.
#[diagnostic::on_unimplemented(
    message = "this instruction takes block scales",
    note = "use `dot_add_scaled`, which takes them as well"
)]
pub trait Unscaled: Instruction {}
impl<const M: usize, const N: usize, const K: usize, A: Format, B: Format, C: Format, D: Format> Unscaled
    for Mma<M, N, K, A, B, C, D>
{
}
impl<const N: usize, A: WideOperand, B: WideOperand, D: Format> Unscaled for Wgmma<N, A, B, D> {}
impl<const M: usize, const N: usize, A: WideOperand, B: WideOperand, D: Format> Unscaled for Tcgen05<M, N, A, B, D> {}
impl<const M: usize, const N: usize, const K: usize, const BLOCKS: usize, A, B, D> Unscaled
    for Mfma<M, N, K, BLOCKS, A, B, D>
where
    Self: Instruction,
{
}

/// An array whose length is known to the compiler.
#[diagnostic::on_unimplemented(
    message = "this unit's K is known at run time only",
    note = "use `try_dot_add`, which takes slices"
)]
pub trait FixedRow {}
impl<T, const K: usize> FixedRow for [T; K] {}

const fn spec<T: Format>() -> FormatSpec {
    T::SPEC
}

macro_rules! instruction_type {
    ($(#[$doc:meta])* $name:ident<$(const $n:ident),*; $($t:ident),*>) => {
        $(#[$doc])*
        pub struct $name<$(const $n: usize,)* $($t),*>(PhantomData<fn() -> ($($t,)*)>);
        impl<$(const $n: usize,)* $($t),*> fmt::Debug for $name<$($n,)* $($t),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

instruction_type! {
    /// NVIDIA `mma.sync.mMnNkK`: D = A B + C per warp, `mma.mMnNkK.d.a.b.c`.
    Mma<const M, const N, const K; A, B, C, D>
}
instruction_type! {
    /// NVIDIA `mma.sync` with block scales, `mma.mMnNkK.blockS.d.a.b.c.scale`: one scale per
    /// `S` elements of K.
    MmaScaled<const M, const N, const K, const S; A, B, C, D, X>
}
instruction_type! {
    /// NVIDIA Hopper `wgmma.m64nNkK`: n, then a, b, d. m is 64, k is 32 bytes of A.
    Wgmma<const N; A, B, D>
}
instruction_type! {
    /// NVIDIA Blackwell `tcgen05.mma` without scales: m, n, then a, b, d. k follows from A.
    Tcgen05<const M, const N; A, B, D>
}
instruction_type! {
    /// NVIDIA Blackwell `tcgen05.mma` with block scales: m, n, k, elements per scale, then
    /// a, b, d and the scale.
    Tcgen05Scaled<const M, const N, const K, const S; A, B, D, X>
}
instruction_type! {
    /// AMD `v_mfma_*`: m, n, k, blocks, then a, b, d.
    Mfma<const M, const N, const K, const BLOCKS; A, B, D>
}

impl<const M: usize, const N: usize, const K: usize, A: Format, B: Format, C: Format, D: Format> Instruction
    for Mma<M, N, K, A, B, C, D>
{
    type A = A;
    type B = B;
    type C = C;
    type D = D;
    type Scale = D;
    type RowA = [A; K];
    type ColB = [B; K];
    const SHAPE: Shape = Shape::new(M, N, K);
    // m8n8k4 of f16 is four products per warp.
    const BLOCKS: usize = if M == 8 && N == 8 && K == 4 && spec::<A>().storage_bits == 16 { 4 } else { 1 };

    fn name(_: &ArchInfo) -> String {
        format!("mma.{}.{}.{}.{}.{}", Self::SHAPE, D::SPEC, A::SPEC, B::SPEC, C::SPEC)
    }
}

impl<const M: usize, const N: usize, const K: usize, const S: usize, A, B, C, D, X> Instruction
    for MmaScaled<M, N, K, S, A, B, C, D, X>
where
    A: Format,
    B: Format,
    C: Format,
    D: Format,
    X: Format,
{
    type A = A;
    type B = B;
    type C = C;
    type D = D;
    type Scale = X;
    type RowA = [A; K];
    type ColB = [B; K];
    const SHAPE: Shape = Shape::new(M, N, K);
    const SCALE_BLOCK: Option<usize> = Some(S);

    fn name(_: &ArchInfo) -> String {
        format!("mma.{}.block{S}.{}.{}.{}.{}.{}", Self::SHAPE, D::SPEC, A::SPEC, B::SPEC, C::SPEC, X::SPEC)
    }
}

/// An operand type of `wgmma` and `tcgen05.mma`: it fixes K.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand type of wgmma or tcgen05.mma",
    label = "these instructions take Tf32 (k = 8), f16 and bf16 (k = 16), and 8-, 6- and 4-bit types (k = 32)"
)]
pub trait WideOperand: Format {
    /// An array of the instruction's K elements.
    type Row: AsRef<[Self]>;
    /// The instruction's K.
    const K: usize;
}

macro_rules! wide_operands {
    ($($ty:ty: $k:literal),* $(,)?) => { $(
        impl WideOperand for $ty {
            type Row = [$ty; $k];
            const K: usize = $k;
        }
    )* };
}
wide_operands!(crate::types::Tf32: 8, crate::types::E3M2: 32, crate::types::E2M3: 32, crate::types::E2M1: 32);
wide_operands!(ty::f16: 16, ty::bf16: 16, ty::e4m3: 32, ty::e5m2: 32);

impl<const N: usize, A: WideOperand, B: WideOperand, D: Format> Instruction for Wgmma<N, A, B, D> {
    type A = A;
    type B = B;
    type C = D;
    type D = D;
    type Scale = D;
    type RowA = A::Row;
    type ColB = B::Row;
    const SHAPE: Shape = Shape::new(64, N, A::K);

    fn name(_: &ArchInfo) -> String {
        format!("wgmma.{}.{}.{}.{}", Self::SHAPE, D::SPEC, A::SPEC, B::SPEC)
    }
}

impl<const M: usize, const N: usize, A: WideOperand, B: WideOperand, D: Format> Instruction for Tcgen05<M, N, A, B, D> {
    type A = A;
    type B = B;
    type C = D;
    type D = D;
    type Scale = D;
    type RowA = A::Row;
    type ColB = B::Row;
    const SHAPE: Shape = Shape::new(M, N, A::K);

    fn name(_: &ArchInfo) -> String {
        format!("tcgen05.mma.{}.{}.{}.{}", Self::SHAPE, D::SPEC, A::SPEC, B::SPEC)
    }
}

impl<const M: usize, const N: usize, const K: usize, const S: usize, A, B, D, X> Instruction
    for Tcgen05Scaled<M, N, K, S, A, B, D, X>
where
    A: Format,
    B: Format,
    D: Format,
    X: Format,
{
    type A = A;
    type B = B;
    type C = D;
    type D = D;
    type Scale = X;
    type RowA = [A; K];
    type ColB = [B; K];
    const SHAPE: Shape = Shape::new(M, N, K);
    const SCALE_BLOCK: Option<usize> = Some(S);

    fn name(_: &ArchInfo) -> String {
        format!("tcgen05.mma.{}.block{S}.{}.{}.{}.{}", Self::SHAPE, D::SPEC, A::SPEC, B::SPEC, X::SPEC)
    }
}

impl<const M: usize, const N: usize, const K: usize, const BLOCKS: usize, A: Format, B: Format, D: Format> Instruction
    for Mfma<M, N, K, BLOCKS, A, B, D>
{
    type A = A;
    type B = B;
    type C = D;
    type D = D;
    type Scale = D;
    type RowA = [A; K];
    type ColB = [B; K];
    const SHAPE: Shape = Shape::new(M, N, K);
    const BLOCKS: usize = BLOCKS;

    fn name(arch: &ArchInfo) -> String {
        mfma_name(arch, Self::SHAPE, BLOCKS, &A::SPEC, &B::SPEC, &D::SPEC)
    }
}

/// AMD's spelling, which CDNA3 changed.
pub(crate) fn mfma_name(
    arch: &ArchInfo,
    shape: Shape,
    blocks: usize,
    a: &FormatSpec,
    b: &FormatSpec,
    d: &FormatSpec,
) -> String {
    let Shape { m, n, k } = shape;
    let (a_name, b_name) = (amd_name(a), amd_name(b));
    if arch.name == "cdna1" || arch.name == "cdna2" {
        // The `_1k` instructions of CDNA2 are those with the K of the f16 instructions.
        let one_k = *a == format::BF16 && matches!((m, k, blocks), (32, 8, 1) | (16, 16, 1) | (_, 4, 2..));
        return format!("v_mfma_{d}_{m}x{n}x{k}{a_name}{}", if one_k { "_1k" } else { "" });
    }
    let blocks = if blocks > 1 { format!("_{blocks}b") } else { String::new() };
    let types = if a.storage_bits == 8 { format!("{a_name}_{b_name}") } else { a_name.to_owned() };
    format!("v_mfma_{d}_{m}x{n}x{k}{blocks}_{types}")
}

fn amd_name(spec: &FormatSpec) -> &'static str {
    match spec.name {
        "tf32" => "xf32",
        "e4m3fnuz" => "fp8",
        "e5m2fnuz" => "bf8",
        other => other,
    }
}

/// The columns of an instruction, as a type that legality is stated of.
#[derive(Debug)]
pub struct Columns<const N: usize>;

/// A legal number of columns of `wgmma` (and of block-scaled `tcgen05.mma`).
#[diagnostic::on_unimplemented(message = "wgmma has no `{Self}`", label = "n must be 8, 16, 24, ... 256")]
pub trait EightColumns {}

/// The rows and columns of a `tcgen05.mma`.
#[derive(Debug)]
pub struct Tile<const M: usize, const N: usize>;

/// A legal tile of `tcgen05.mma`.
#[diagnostic::on_unimplemented(
    message = "tcgen05.mma has no `{Self}`",
    label = "m = 64 takes n = 8, 16, ... 256; m = 128 takes n = 16, 32, ... 256; m = 256 takes n = 32, 64, ... 256"
)]
pub trait LegalTile {}

macro_rules! columns {
    ($($n:literal)*) => { $(impl EightColumns for Columns<$n> {} impl LegalTile for Tile<64, $n> {})* };
}
macro_rules! tiles {
    ($m:literal: $($n:literal)*) => { $(impl LegalTile for Tile<$m, $n> {})* };
}
columns!(8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232 240 248 256);
tiles!(128: 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256);
tiles!(256: 32 64 96 128 160 192 224 256);
