//! Units fixed at compile time: what an architecture lacks does not compile.

use crate::accumulate::{Accumulator, Dot};
use crate::arch::{Arch, ArchInfo};
use crate::error::Error;
use crate::format::{Format, FormatSpec, spec_of};
use crate::instr::{FixedRow, Instruction, MAX_DIMENSION, ScaleRule, Shape, Unscaled};
use crate::unit::{AsUnit, Evidence, Unit, UnitInfo};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use ndarray::{Array, ArrayRef, Dimension};
use std::sync::Arc;

/// That an architecture has an instruction, and what it computes there.
#[diagnostic::on_unimplemented(
    message = "architecture `{Self}` has no instruction `{Instr}`",
    label = "`{Self}` has no such instruction",
    note = "`gemmulate units --arch ...` lists the instructions of an architecture; a shape or a combination of types it lacks does not compile",
    note = "to model a unit that does not exist, implement `Supports` for an architecture type of your own, or use `MmaUnit::custom`"
)]
pub trait Supports<Instr: Instruction>: Arch {
    /// The accumulator's type.
    type Acc: Accumulator + Clone;
    /// The accumulator.
    const ACC: Self::Acc;
    /// How well it is known.
    const EVIDENCE: Evidence;
    /// Where it is known from.
    const SOURCE: &'static str = "the caller";
}

/// One instruction of one architecture, with the accumulator that the architecture gives it or
/// one changed with [`MmaUnit::with`].
///
#[cfg_attr(feature = "half", doc = "```")]
#[cfg_attr(not(feature = "half"), doc = "```ignore")]
/// use gemmulate::prelude::*;
/// let h100 = MmaUnit::<Hopper, Wgmma<128, f16, f16, f32>>::new();
/// let one = f16::ONE;
/// assert_eq!(h100.dot_add(&[one; 16], &[one; 16], 1.0), 17.0);
/// // One property changed: two more bits of alignment.
/// let what_if = h100.with(|acc| FusedDotAdd { frac_bits: 27, ..acc });
/// # let _ = what_if;
/// ```
pub struct MmaUnit<A: Arch, I: Instruction, Acc = <A as Supports<I>>::Acc> {
    unit: Unit,
    acc: Acc,
    kind: PhantomData<fn() -> (A, I)>,
}

impl<A: Arch, I: Instruction, Acc: Clone> Clone for MmaUnit<A, I, Acc> {
    fn clone(&self) -> Self {
        Self { unit: self.unit.clone(), acc: self.acc.clone(), kind: PhantomData }
    }
}

impl<A: Arch, I: Instruction, Acc: fmt::Debug> fmt::Debug for MmaUnit<A, I, Acc> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MmaUnit").field("name", &self.unit.name).field("accumulator", &self.acc).finish()
    }
}

impl<A: Arch, I: Instruction, Acc> fmt::Display for MmaUnit<A, I, Acc> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.unit, f)
    }
}

/// As of [`Unit`]: what it computes, by which name.
impl<A: Arch, I: Instruction, Acc> PartialEq for MmaUnit<A, I, Acc> {
    fn eq(&self, other: &Self) -> bool {
        self.unit == other.unit
    }
}

impl<A: Arch, I: Instruction, Acc> Eq for MmaUnit<A, I, Acc> {}

impl<A: Arch, I: Instruction, Acc> Hash for MmaUnit<A, I, Acc> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.unit.hash(state);
    }
}

impl<A: Arch, I: Instruction, Acc> AsUnit for MmaUnit<A, I, Acc> {
    type D = I::D;

    fn as_unit(&self) -> &Unit {
        &self.unit
    }
}

/// What the types of an architecture and an instruction say.
struct Facts {
    arch: &'static str,
    shape: Shape,
    blocks: usize,
    formats: [FormatSpec; 4],
    scale: Option<ScaleRule>,
    evidence: Evidence,
    source: &'static str,
}

/// The description of an instruction on an architecture. The catalogue has hundreds of them: what depends on no type is
/// compiled once.
pub(crate) fn info_of<A: Supports<I>, I: Instruction>() -> UnitInfo {
    let facts = const {
        &Facts {
            arch: A::INFO.name,
            shape: I::SHAPE,
            blocks: I::BLOCKS,
            formats: [spec_of::<I::A>(), spec_of::<I::B>(), spec_of::<I::C>(), spec_of::<I::D>()],
            scale: match I::SCALE_BLOCK {
                Some(block) => Some(ScaleRule { format: spec_of::<I::Scale>(), block }),
                None => None,
            },
            evidence: A::EVIDENCE,
            source: A::SOURCE,
        }
    };
    described(facts, &I::name(&A::INFO), Arc::new(A::ACC))
}

fn described(facts: &Facts, instruction: &str, accumulator: Arc<dyn Accumulator>) -> UnitInfo {
    let Facts { arch, shape, blocks, formats: [a, b, c, d], scale, evidence, source } = *facts;
    UnitInfo {
        name: format!("{arch}/{instruction}"),
        arch,
        aliases: Vec::new(),
        shape,
        blocks,
        a,
        b,
        c,
        d,
        scale,
        recipe: accumulator.recipe(shape.k, &d),
        accumulator,
        evidence,
        source,
    }
}

impl<A: Supports<I>, I: Instruction> MmaUnit<A, I> {
    /// The unit as the architecture has it. An instruction without elements, or with scales that no unit takes, does
    /// not build.
    pub fn new() -> Self {
        const {
            let Shape { m, n, k } = I::SHAPE;
            assert!(m > 0 && n > 0 && k > 0 && I::BLOCKS > 0, "an instruction has elements");
            assert!(m <= MAX_DIMENSION && n <= MAX_DIMENSION && k <= MAX_DIMENSION, "dimensions are at most 65536");
            if let Some(block) = I::SCALE_BLOCK
                && let Some(problem) = (ScaleRule { format: I::Scale::SPEC, block }).problem(k)
            {
                panic!("{}", problem);
            }
        }
        Self { unit: Unit::unchecked(info_of::<A, I>()), acc: A::ACC, kind: PhantomData }
    }
}

impl<A: Supports<I>, I: Instruction> Default for MmaUnit<A, I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Arch, I: Instruction, Acc> MmaUnit<A, I, Acc> {
    /// The same unit with its accumulator changed, or replaced by another.
    ///
    /// Parameters out of range make the result meaningless, though never a panic; [`MmaUnit::try_with`]
    /// refuses them.
    #[must_use]
    pub fn with<New: Accumulator + Clone>(&self, change: impl FnOnce(Acc) -> New) -> MmaUnit<A, I, New>
    where
        Acc: Clone,
    {
        let acc = change(self.acc.clone());
        let unit = self.unit.with_accumulator_unchecked(acc.clone());
        MmaUnit { unit, acc, kind: PhantomData }
    }

    /// Like [`MmaUnit::with`], refusing parameters out of range.
    ///
    /// # Errors
    /// The accumulator's own reason.
    pub fn try_with<New: Accumulator + Clone>(
        &self,
        change: impl FnOnce(Acc) -> New,
    ) -> Result<MmaUnit<A, I, New>, Error>
    where
        Acc: Clone,
    {
        let acc = change(self.acc.clone());
        let unit = self.unit.with_accumulator(acc.clone())?;
        Ok(MmaUnit { unit, acc, kind: PhantomData })
    }

    /// The accumulator.
    pub const fn accumulator(&self) -> &Acc {
        &self.acc
    }

    /// The same unit by name.
    pub const fn unit(&self) -> &Unit {
        &self.unit
    }
}

impl<A: Arch, I: Instruction, Acc: Accumulator> MmaUnit<A, I, Acc> {
    /// One dot-add; rows and columns are arrays of the instruction's K, so that a wrong length does not compile. Nor
    /// does this on a block-scaled instruction, whose [`MmaUnit::dot_add_scaled`] takes its scales.
    pub fn dot_add(&self, a: &I::RowA, b: &I::ColB, c: I::C) -> I::D
    where
        I: Unscaled,
        I::RowA: FixedRow,
        I::ColB: FixedRow,
    {
        let (a, b) = (a.as_ref(), b.as_ref());
        let k = a.len().min(b.len());
        let a: Vec<_> = a[..k].iter().map(|x| I::A::SPEC.decode(x.to_bits())).collect();
        let b: Vec<_> = b[..k].iter().map(|x| I::B::SPEC.decode(x.to_bits())).collect();
        let c = I::C::SPEC.decode(c.to_bits());
        let d = self.acc.dot_add(&Dot { a: &a, b: &b, c, scale_a: &[], scale_b: &[], out: &I::D::SPEC });
        I::D::from_bits(I::D::SPEC.encode_result(&d))
    }

    /// One dot-add on slices of length K.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit needs scales.
    pub fn try_dot_add(&self, a: &[I::A], b: &[I::B], c: I::C) -> Result<I::D, Error> {
        self.unit.dot_add(a, b, c)
    }

    /// One dot-add with block scales, K divided by the scale block of them per operand.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit has no scales.
    pub fn dot_add_scaled(
        &self,
        a: &I::RowA,
        b: &I::ColB,
        c: I::C,
        scale_a: &[I::Scale],
        scale_b: &[I::Scale],
    ) -> Result<I::D, Error> {
        let codes = |s: &[I::Scale]| s.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let a: Vec<u64> = a.as_ref().iter().map(|x| x.to_bits()).collect();
        let b: Vec<u64> = b.as_ref().iter().map(|x| x.to_bits()).collect();
        let bits = self.unit.dot_add_scaled_bits(&a, &b, c.to_bits(), &codes(scale_a), &codes(scale_b))?;
        Ok(I::D::from_bits(bits))
    }

    /// One whole instruction: A is M x K, B is K x N, C and D are M x N, with a leading axis for
    /// instructions of several blocks.
    ///
    /// # Errors
    /// When a shape is wrong, or the unit needs scales.
    pub fn mma<Dim: Dimension>(
        &self,
        a: &ArrayRef<I::A, Dim>,
        b: &ArrayRef<I::B, Dim>,
        c: &ArrayRef<I::C, Dim>,
    ) -> Result<Array<I::D, Dim>, Error> {
        self.unit.mma_typed(a, b, c)
    }

    /// One whole block-scaled instruction; see [`Unit::mma_scaled`].
    ///
    /// # Errors
    /// When a shape is wrong, or the unit has no scales.
    pub fn mma_scaled<Dim: Dimension>(
        &self,
        a: &ArrayRef<I::A, Dim>,
        b: &ArrayRef<I::B, Dim>,
        c: &ArrayRef<I::C, Dim>,
        scale_a: &ArrayRef<I::Scale, Dim>,
        scale_b: &ArrayRef<I::Scale, Dim>,
    ) -> Result<Array<I::D, Dim>, Error> {
        self.unit.mma_scaled(a, b, c, scale_a, scale_b)
    }
}

/// The architecture of units made by [`MmaUnit::custom`].
#[derive(Clone, Copy, Debug)]
pub struct Custom;

impl Arch for Custom {
    const INFO: ArchInfo = ArchInfo { name: "custom", target: "none", gpus: &[] };
}

/// The instruction of units made by [`MmaUnit::custom`]: its shape is known at run time only.
pub struct CustomInstr<A, B, C, D>(PhantomData<(A, B, C, D)>);

impl<A, B, C, D> fmt::Debug for CustomInstr<A, B, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomInstr")
    }
}

impl<A: Format, B: Format, C: Format, D: Format> Instruction for CustomInstr<A, B, C, D> {
    type A = A;
    type B = B;
    type C = C;
    type D = D;
    type Scale = D;
    type RowA = Box<[A]>;
    type ColB = Box<[B]>;
    const SHAPE: Shape = Shape::new(1, 1, 1);

    fn name(_: &ArchInfo) -> String {
        "custom".into()
    }
}

/// Rows of a length that the compiler knows are what it lacks for [`MmaUnit::dot_add`].
impl<A: Format, B: Format, C: Format, D: Format> Unscaled for CustomInstr<A, B, C, D> {}

/// A custom unit of given formats.
pub type CustomUnit<A, B, C, D> = MmaUnit<Custom, CustomInstr<A, B, C, D>, Arc<dyn Accumulator>>;

impl MmaUnit<Custom, CustomInstr<f32, f32, f32, f32>, Arc<dyn Accumulator>> {
    /// A unit that does not exist, with formats for A, B, C and D.
    ///
    #[cfg_attr(feature = "half", doc = "```")]
    #[cfg_attr(not(feature = "half"), doc = "```ignore")]
    /// use gemmulate::prelude::*;
    /// let acc = FusedDotAdd { frac_bits: 27, ..FusedDotAdd::HOPPER };
    /// let mine = MmaUnit::custom::<bf16, bf16, f32, f32>(acc, Shape::new(16, 8, 16))?;
    /// assert_eq!(mine.unit().equation(), "f32 = bf16 * bf16 + f32");
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the accumulator refuses the formats, or a dimension is zero.
    pub fn custom<A: Format, B: Format, C: Format, D: Format>(
        accumulator: impl Accumulator,
        shape: Shape,
    ) -> Result<CustomUnit<A, B, C, D>, Error> {
        let acc: Arc<dyn Accumulator> = Arc::new(accumulator);
        let unit = Unit::custom(acc.clone(), shape, [A::SPEC, B::SPEC, C::SPEC, D::SPEC], None)?;
        Ok(MmaUnit { unit, acc, kind: PhantomData })
    }
}
