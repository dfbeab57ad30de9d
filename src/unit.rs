//! Units by name: everything about one instruction on one architecture, behind a cheap handle.

mod arrays;
mod bits;

use crate::accumulate::{Accumulator, Recipe, Signature};
use crate::arch::is_amd;
use crate::catalogue;
use crate::error::Error;
use crate::format::{F64, Format, FormatSpec, format_named};
use crate::instr::{MAX_DIMENSION, ScaleRule, Shape};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use std::sync::Arc;

/// How well it is known that a unit computes what this library says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Evidence {
    /// Bit-identical on output recorded on real GPUs.
    HardwareVectors,
    /// The instructions that NVIDIA's assembler emits were read off; each is itself covered.
    CompilerOutput,
    /// Bit-identical on hardware according to a publication.
    PublishedTest,
    /// A model, not compared with hardware.
    ModelOnly,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HardwareVectors => "hardware vectors",
            Self::CompilerOutput => "compiler output",
            Self::PublishedTest => "published test",
            Self::ModelOnly => "model only",
        })
    }
}

/// Everything that is known of a unit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnitInfo {
    /// The canonical name, `ARCH/INSTRUCTION`; for custom units, a text [`Unit::find`] reads back.
    pub name: String,
    /// The architecture's canonical name; `custom` for custom units.
    pub arch: &'static str,
    /// Other names that [`Unit::find`] understands.
    pub aliases: Vec<String>,
    /// The shape of one block.
    pub shape: Shape,
    /// Independent blocks per instruction.
    pub blocks: usize,
    /// Format of A.
    pub a: FormatSpec,
    /// Format of B.
    pub b: FormatSpec,
    /// Format of C.
    pub c: FormatSpec,
    /// Format of D.
    pub d: FormatSpec,
    /// How scales are taken, if they are.
    pub scale: Option<ScaleRule>,
    /// What the unit computes.
    pub accumulator: Arc<dyn Accumulator>,
    /// The same as data, if there is a description.
    pub recipe: Option<Recipe>,
    /// How well this is known.
    pub evidence: Evidence,
    /// Where it is known from.
    pub source: &'static str,
}

/// A matrix unit: a cheap handle to everything about it.
///
/// ```
/// use gemmulate::Unit;
/// let unit = Unit::find("H100 HGMMA.64x128x16.F32")?;
/// assert_eq!(unit.to_string(), "hopper/wgmma.m64n128k16.f32.f16.f16");
/// // 1 - 1 + 2^-26 + 2^-26 on an H100: the small products are cut off, 25 bits below the largest exponent.
/// let d = unit.dot_add_bits(&[0x3c00, 0xbc00, 0x0800, 0x0800, 0,0,0,0,0,0,0,0,0,0,0,0],
///                           &[0x3c00, 0x3c00, 0x0800, 0x0800, 0,0,0,0,0,0,0,0,0,0,0,0], 0)?;
/// assert_eq!(f32::from_bits(d as u32), 0.0);
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone)]
pub struct Unit(Arc<UnitInfo>);

impl core::ops::Deref for Unit {
    type Target = UnitInfo;
    fn deref(&self) -> &UnitInfo {
        &self.0
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unit({})", self.name)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl PartialEq for Unit {
    /// Two units are equal when they have one name, one shape, the same formats and one meaning: the same recipe, or
    /// where there is none one accumulator (what two compute that print alike, nothing says).
    fn eq(&self, other: &Self) -> bool {
        let same_operands = || {
            let operands = |u: &Self| (u.shape, u.blocks, u.scale, [u.a, u.b, u.c, u.d]);
            operands(self) == operands(other)
        };
        let same_meaning = || match (&self.recipe, &other.recipe) {
            (Some(x), Some(y)) => x == y,
            (None, None) => Arc::ptr_eq(&self.accumulator, &other.accumulator),
            _ => false,
        };
        Arc::ptr_eq(&self.0, &other.0) || (self.name == other.name && same_operands() && same_meaning())
    }
}

impl Eq for Unit {}

impl Hash for Unit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl FromStr for Unit {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::find(text)
    }
}

impl Unit {
    /// Wraps a description, after checking that it makes sense.
    ///
    /// # Errors
    /// When the accumulator refuses the formats, one of them is none, a dimension is zero or too large, scale blocks do
    /// not divide K, or scales are no magnitudes of at most 8 bits.
    pub(crate) fn from_info(mut info: UnitInfo) -> Result<Self, Error> {
        let Shape { m, n, k } = info.shape;
        if m == 0 || n == 0 || k == 0 || info.blocks == 0 {
            return Err(Error::Unit(format!("{} (blocks: {}): no dimension may be 0", info.shape, info.blocks)));
        }
        if [m, n, k, info.blocks].iter().any(|&x| x > MAX_DIMENSION) {
            return Err(Error::Unit(format!("dimensions above {MAX_DIMENSION} are not supported")));
        }
        check_operands(k, &[info.a, info.b, info.c, info.d], info.scale)?;
        info.accumulator.check(&signature(&info)).map_err(|why| Error::Unit(why.to_string()))?;
        info.recipe = info.accumulator.recipe(k, &info.d);
        Ok(Self(Arc::new(info)))
    }

    /// A description known to make sense: rows of the catalogue.
    pub(crate) fn unchecked(info: UnitInfo) -> Self {
        Self(Arc::new(info))
    }

    /// The unit of that name: a canonical name, a SASS or PTX name with a GPU or architecture, or
    /// a custom unit's text. Case does not matter.
    ///
    /// # Errors
    /// For unknown names (with the nearest known ones), names that fit several units, and names
    /// of units that are not modelled (with the reason).
    pub fn find(name: &str) -> Result<Self, Error> {
        catalogue::find(name)
    }

    /// Every base instruction of every architecture: 371 units. `wgmma` and `tcgen05` units stand
    /// for all their legal sizes, which [`Unit::find`] knows by name.
    pub fn all() -> impl Iterator<Item = Self> {
        catalogue::base_units().iter().cloned()
    }

    /// A unit of the caller's own: formats, shape and accumulator. Its name is a text that
    /// [`Unit::find`] reads back if the formats are built-in and the accumulator has a recipe.
    ///
    /// # Errors
    /// When the accumulator refuses the formats, one of them is none, a dimension is zero or too large, scale blocks do
    /// not divide K, or scales are no magnitudes of at most 8 bits.
    pub fn custom(
        accumulator: impl Accumulator,
        shape: Shape,
        [a, b, c, d]: [FormatSpec; 4],
        scale: Option<ScaleRule>,
    ) -> Result<Self, Error> {
        let accumulator: Arc<dyn Accumulator> = Arc::new(accumulator);
        let block = scale.map_or(String::new(), |s| format!(".block{}", s.block));
        let scale_name = scale.map_or(String::new(), |s| format!(".{}", s.format));
        let meaning =
            accumulator.recipe(shape.k, &d).map_or_else(|| format!("{accumulator:?}"), |recipe| recipe.to_string());
        Self::from_info(UnitInfo {
            name: format!("custom/{shape}{block}.{d}.{a}.{b}.{c}{scale_name}/{meaning}"),
            arch: "custom",
            aliases: Vec::new(),
            shape,
            blocks: 1,
            a,
            b,
            c,
            d,
            scale,
            accumulator,
            recipe: None,
            evidence: Evidence::ModelOnly,
            source: "the caller",
        })
    }

    /// The same unit with another accumulator.
    ///
    /// # Errors
    /// When the accumulator refuses the unit's formats.
    pub fn with_accumulator(&self, accumulator: impl Accumulator) -> Result<Self, Error> {
        accumulator.check(&self.signature()).map_err(|why| Error::Unit(why.to_string()))?;
        Ok(self.with_accumulator_unchecked(accumulator))
    }

    /// The same unit with other values for some parameters of its accumulator, in the text form; what is not named
    /// stays as it is. [`Unit::find`] takes them behind the unit's name, too.
    ///
    /// ```
    /// use gemmulate::Unit;
    /// let unit = Unit::find("hopper/wgmma.m64n8k32.f32.e4m3.e4m3")?;
    /// let wider = unit.with_parameters("F=14")?;
    /// assert_eq!(wider, Unit::find("hopper/wgmma.m64n8k32.f32.e4m3.e4m3/F=14")?);
    /// assert_eq!(wider.to_string(), "hopper/wgmma.m64n8k32.f32.e4m3.e4m3/dot:block=32:F=14:out-bits=13");
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    ///
    /// # Errors
    /// For parameters that the accumulator does not have, values that these cannot have or formats do not allow, and
    /// for accumulators of one's own, which have no text form.
    pub fn with_parameters(&self, parameters: &str) -> Result<Self, Error> {
        let own = || Error::Unit(format!("{self} has an accumulator of its own, without parameters"));
        self.with_accumulator(self.recipe.ok_or_else(own)?.with(parameters)?)
    }

    /// The same unit with another accumulator, whose parameters may be out of range.
    pub(crate) fn with_accumulator_unchecked(&self, accumulator: impl Accumulator) -> Self {
        let recipe = accumulator.recipe(self.shape.k, &self.d);
        if recipe.is_some() && recipe == self.recipe {
            return self.clone();
        }
        let meaning = recipe.map_or_else(|| format!("{accumulator:?}"), |recipe| recipe.to_string());
        Self(Arc::new(UnitInfo {
            name: format!("{}/{meaning}", catalogue::base_name(&self.name)),
            aliases: Vec::new(),
            accumulator: Arc::new(accumulator),
            recipe,
            evidence: Evidence::ModelOnly,
            source: "the caller",
            ..(*self.0).clone()
        }))
    }

    /// Reads `custom/mMnNkK[.blockS].d.a.b.c[.scale]/RECIPE`.
    pub(crate) fn parse_custom(text: &str) -> Result<Self, Error> {
        let bad = |expected: &str| Error::parse("custom unit", text, expected);
        let form =
            "custom/mMnNkK[.blockS].D.A.B.C[.SCALE]/RECIPE, as in custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=25";
        let rest = text.get(7..).unwrap_or_default();
        let (signature, recipe) = rest.split_once('/').ok_or_else(|| bad(form))?;
        let mut words: Vec<&str> = signature.split('.').collect();
        let shape = parse_shape(words.remove(0)).ok_or_else(|| bad(form))?;
        let block = match words.first().and_then(|w| w.strip_prefix("block")) {
            Some(digits) => {
                let block = digits.parse().map_err(|_| bad(form))?;
                words.remove(0);
                Some(block)
            }
            None => None,
        };
        let named = |name: &&str| {
            format_named(name).copied().ok_or_else(|| Error::parse("format", name, crate::format::known_names()))
        };
        let formats = words.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let (formats, scale) = match (formats.as_slice(), block) {
            (&[d, a, b, c], None) => ([a, b, c, d], None),
            (&[d, a, b, c, format], Some(block)) => ([a, b, c, d], Some(ScaleRule { format, block })),
            _ => return Err(bad(form)),
        };
        Self::custom(recipe.parse::<Recipe>()?, shape, formats, scale)
    }

    /// What the accumulator may assume.
    pub fn signature(&self) -> Signature {
        signature(&self.0)
    }

    /// `f32 = f16 * f16 + f32`, with scales where there are any.
    pub fn equation(&self) -> String {
        match self.scale {
            None => format!("{} = {} * {} + {}", self.d, self.a, self.b, self.c),
            Some(s) => format!("{} = {} {} * {} {} + {}", self.d, s.format, self.a, s.format, self.b, self.c),
        }
    }

    /// The kernel that computes products of more than a few rows on this unit here, and why that one.
    pub fn kernel(&self) -> crate::simd::KernelChoice {
        crate::simd::choice(self, None, usize::MAX)
    }

    /// Whether the bits of its NaNs are this library's choice: no source says which ones f64 instructions and AMD's
    /// give, so recorded output may hold any (docs/numerics.md, section 3). With them go all units with f64 results or
    /// of an AMD architecture, whatever NaN a changed accumulator names.
    pub fn has_any_nan(&self) -> bool {
        self.d == F64 || is_amd(self.arch)
    }

    /// Scales per operand and dot-add; 0 without block scales.
    #[inline]
    pub fn scales(&self) -> usize {
        self.scale.map_or(0, |s| self.shape.k / s.block)
    }
}

/// Refuses a K, formats of A, B, C and D, or scales that no unit can have.
pub(crate) fn check_operands(k: usize, formats: &[FormatSpec; 4], scale: Option<ScaleRule>) -> Result<(), Error> {
    if k == 0 || k > MAX_DIMENSION {
        return Err(Error::Unit(format!("sums of {k} products are not supported, of 1 to {MAX_DIMENSION} are")));
    }
    for (operand, format) in ["A", "B", "C", "D"].into_iter().zip(formats) {
        format.check(operand)?;
    }
    let Some(rule) = scale else { return Ok(()) };
    rule.format.check("the scale")?;
    let error = |why| Error::Unit(format!("{} scales in blocks of {}, K = {k}: {why}", rule.format, rule.block));
    rule.problem(k).map_or(Ok(()), |why| Err(error(why)))
}

fn signature(info: &UnitInfo) -> Signature {
    Signature { k: info.shape.k, a: info.a, b: info.b, c: info.c, d: info.d, scale: info.scale.map(|s| s.format) }
}

/// `m16n8k16`.
pub(crate) fn parse_shape(text: &str) -> Option<Shape> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
}

/// Anything a product can run on: a [`Unit`], or an [`MmaUnit`](crate::MmaUnit).
pub trait AsUnit {
    /// The elements of a product's result, unless another type is asked for: the instruction's D,
    /// or `f32` for units known by name only.
    type D: Format;

    /// The unit.
    fn as_unit(&self) -> &Unit;
}

impl AsUnit for Unit {
    type D = f32;

    fn as_unit(&self) -> &Unit {
        self
    }
}

impl<T: AsUnit + ?Sized> AsUnit for &T {
    type D = T::D;

    fn as_unit(&self) -> &Unit {
        (**self).as_unit()
    }
}

/// A unit is its name, as text; an error where its accumulator is the caller's own, which no name finds.
#[cfg(feature = "serde")]
mod as_text {
    use super::Unit;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    impl Serialize for Unit {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            // Nothing could read it back.
            if self.recipe.is_none() {
                let why = format!("{}: an accumulator without a recipe is no data", self.name);
                return Err(serde::ser::Error::custom(why));
            }
            serializer.serialize_str(&self.name)
        }
    }

    impl<'de> Deserialize<'de> for Unit {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let name = String::deserialize(deserializer)?;
            Self::find(&name).map_err(D::Error::custom)
        }
    }
}
