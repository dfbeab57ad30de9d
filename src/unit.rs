//! Units by name: everything about one instruction on one architecture, behind a cheap handle.

use crate::accumulate::{Accumulator, Dot, Recipe, Signature};

use crate::catalogue;
use crate::error::Error;
use crate::format::{Format, FormatSpec, format_named};
use crate::gemm::{Gemm, Plan, Source, Start, Values, Workspace, plain};
use crate::instr::{MAX_DIMENSION, ScaleRule, Shape};
use crate::num::Num;
use crate::trace::Trace;
use crate::view::View;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use ndarray::{Array, ArrayBase, Axis, Data, Dimension, Ix2, Ix3, RawData};
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
/// // 1.5 x 1.5 + 2^-26 on H100: the small product is cut off, 25 bits below the largest exponent.
/// let mut a = [0x3e00; 16]; a[2..].fill(0);
/// let d = unit.dot_add_bits(&[0x3e00, 0x0400, 0,0,0,0,0,0,0,0,0,0,0,0,0,0],
///                           &[0x3e00, 0x0c00, 0,0,0,0,0,0,0,0,0,0,0,0,0,0], 0)?;
/// assert_eq!(f32::from_bits(d as u32), 2.25);
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
    /// Two units are equal when they have one name and one meaning.
    fn eq(&self, other: &Self) -> bool {
        let same_meaning = || match (&self.recipe, &other.recipe) {
            (Some(x), Some(y)) => x == y,
            (None, None) => format!("{:?}", self.accumulator) == format!("{:?}", other.accumulator),
            _ => false,
        };
        Arc::ptr_eq(&self.0, &other.0) || (self.name == other.name && same_meaning())
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
    pub fn from_info(mut info: UnitInfo) -> Result<Self, Error> {
        let Shape { m, n, k } = info.shape;
        if m == 0 || n == 0 || k == 0 || info.blocks == 0 {
            return Err(Error::Unit(format!("{} with {} blocks has an empty dimension", info.shape, info.blocks)));
        }
        if [m, n, k, info.blocks].iter().any(|&x| x > MAX_DIMENSION) {
            return Err(Error::Unit(format!("dimensions above {MAX_DIMENSION} are not supported")));
        }
        check_operands(k, &[info.a, info.b, info.c, info.d], info.scale)?;
        info.accumulator.check(&signature(&info)).map_err(Error::Unit)?;
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
    /// As [`Unit::from_info`].
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
        accumulator.check(&self.signature()).map_err(Error::Unit)?;
        Ok(self.with_accumulator_unchecked(accumulator))
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

    /// Scales per operand and dot-add; 0 without block scales.
    pub fn scales(&self) -> usize {
        self.scale.map_or(0, |s| self.shape.k / s.block)
    }

    /// One dot-add on codes: `a` and `b` of length K.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit needs scales.
    pub fn dot_add_bits(&self, a: &[u64], b: &[u64], c: u64) -> Result<u64, Error> {
        self.dot_add_scaled_bits(a, b, c, &[], &[])
    }

    /// One dot-add on codes, with [`Unit::scales`] scales per operand.
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn dot_add_scaled_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<u64, Error> {
        self.with_dot(a, b, c, scale_a, scale_b, |dot| self.accumulator.dot_add(dot))
    }

    /// One dot-add on codes, and what happened on the way.
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn trace_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<(u64, Trace), Error> {
        let mut trace = Trace::default();
        let d = self.with_dot(a, b, c, scale_a, scale_b, |dot| self.accumulator.trace(dot, &mut trace))?;
        Ok((d, trace))
    }

    /// Checks lengths, unpacks, computes, packs.
    fn with_dot(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
        compute: impl FnOnce(&Dot<'_>) -> Num,
    ) -> Result<u64, Error> {
        let k = self.shape.k;
        check_length("a", a.len(), k)?;
        check_length("b", b.len(), k)?;
        check_length("scale_a", scale_a.len(), self.scales())?;
        check_length("scale_b", scale_b.len(), self.scales())?;
        let scaled = self.scale.map_or(0, |_| k);
        with_numbers(2 * k + 2 * scaled, self.d.zero(), |nums| {
            let (na, rest) = nums.split_at_mut(k);
            let (nb, rest) = rest.split_at_mut(k);
            let (nsa, nsb) = rest.split_at_mut(scaled);
            unpack(&self.a, a, na);
            unpack(&self.b, b, nb);
            if let Some(rule) = self.scale {
                unpack_scales(&rule, scale_a, nsa);
                unpack_scales(&rule, scale_b, nsb);
            }
            let dot = Dot { a: na, b: nb, c: self.c.decode(c), scale_a: nsa, scale_b: nsb, out: &self.d };
            Ok(self.d.encode_result(&compute(&dot)))
        })
    }

    /// One whole instruction on codes in row-major order: `a` is blocks x M x K, `b` is
    /// blocks x K x N, `c` and the result are blocks x M x N.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit needs scales.
    pub fn mma_bits(&self, a: &[u64], b: &[u64], c: &[u64]) -> Result<Vec<u64>, Error> {
        self.mma_scaled_bits(a, b, c, &[], &[])
    }

    /// One whole block-scaled instruction on codes: as [`Unit::mma_bits`], with `scale_a` of
    /// blocks x M x [`Unit::scales`] and `scale_b` of blocks x [`Unit::scales`] x N.
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn mma_scaled_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: &[u64],
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<Vec<u64>, Error> {
        let Shape { m, n, k } = self.shape;
        let (blocks, s) = (self.blocks, self.scales());
        check_length("a", a.len(), blocks * m * k)?;
        check_length("b", b.len(), blocks * k * n)?;
        check_length("c", c.len(), blocks * m * n)?;
        check_length("scale_a", scale_a.len(), blocks * m * s)?;
        check_length("scale_b", scale_b.len(), blocks * s * n)?;
        let column = |from: &[u64], height: usize, j: usize| (0..height).map(|i| from[i * n + j]).collect::<Vec<_>>();
        let mut d = vec![0; c.len()];
        for block in 0..blocks {
            let (a, b) = (&a[block * m * k..], &b[block * k * n..]);
            let (sa, sb) = (&scale_a[block * m * s..], &scale_b[block * s * n..]);
            for j in 0..n {
                let (b_col, sb_col) = (column(b, k, j), column(sb, s, j));
                for i in 0..m {
                    let at = (block * m + i) * n + j;
                    d[at] = self.dot_add_scaled_bits(&a[i * k..][..k], &b_col, c[at], &sa[i * s..][..s], &sb_col)?;
                }
            }
        }
        Ok(d)
    }

    /// One dot-add on values.
    ///
    /// # Errors
    /// When a type's format is not the unit's, or a slice has the wrong length.
    pub fn dot_add<A: Format, B: Format, C: Format, D: Format>(&self, a: &[A], b: &[B], c: C) -> Result<D, Error> {
        self.check_formats::<A, B, C, D>()?;
        let bits = self.dot_add_bits(&codes(a), &codes(b), c.to_bits())?;
        Ok(D::from_bits(bits))
    }

    /// One whole instruction on arrays: two-dimensional (M x K, K x N, M x N), or with a leading
    /// axis of length [`UnitInfo::blocks`].
    ///
    /// # Errors
    /// When a type's format is not the unit's, a shape is wrong, or the unit needs scales.
    pub fn mma<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayBase<impl Data<Elem = A>, I>,
        b: &ArrayBase<impl Data<Elem = B>, I>,
        c: &ArrayBase<impl Data<Elem = C>, I>,
    ) -> Result<Array<D, I>, Error> {
        self.check_formats::<A, B, C, D>()?;
        self.mma_typed(a, b, c)
    }

    /// The same for types whose formats are known to be the unit's.
    pub(crate) fn mma_typed<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayBase<impl Data<Elem = A>, I>,
        b: &ArrayBase<impl Data<Elem = B>, I>,
        c: &ArrayBase<impl Data<Elem = C>, I>,
    ) -> Result<Array<D, I>, Error> {
        let Shape { m, n, k } = self.shape;
        self.check_tile("A", a.shape(), m, k)?;
        self.check_tile("B", b.shape(), k, n)?;
        self.check_tile("C", c.shape(), m, n)?;
        if self.has_fast_tiles() {
            return self.tiles(a, b, c);
        }
        let bits = self.mma_bits(&array_codes(a), &array_codes(b), &array_codes(c))?;
        tile(c.raw_dim(), bits)
    }

    /// Whether an instruction is a product that starts at C: not where an accumulator of its own may look at NaN's
    /// bits.
    fn has_fast_tiles(&self) -> bool {
        self.recipe.is_some() && self.scale.is_none() && crate::gemm::takes_c(self)
    }

    /// Instructions as products that start at C, one for each block.
    fn tiles<A: Format, B: Format, C: Format, D: Format, I: Dimension>(
        &self,
        a: &ArrayBase<impl Data<Elem = A>, I>,
        b: &ArrayBase<impl Data<Elem = B>, I>,
        c: &ArrayBase<impl Data<Elem = C>, I>,
    ) -> Result<Array<D, I>, Error> {
        let mut d = Array::from_elem(c.raw_dim(), D::from_bits(0));
        let (a, b, c) = (a.view(), b.view(), c.view());
        let same = C::SPEC == D::SPEC;
        Workspace::lend([self.shape.m, self.shape.n, self.shape.k], |workspace| {
            for t in 0..self.blocks {
                let (a, b, c) = (matrix(a.clone(), t)?, matrix(b.clone(), t)?, matrix(c.clone(), t)?);
                let mut sink = Values { array: matrix(d.view_mut(), t)?, d: D::SPEC };
                let operands: [&dyn Source; 2] = [&View::from(a), &View::from(b)];
                if same && plain(self, operands, Some(&View::from(c)), &mut sink, workspace) {
                    continue;
                }
                let gemm = Gemm::on(self).threads(1).plan(Plan::in_order().start(Start::C)).beta(1.0);
                gemm.c(&c).run_into(&a, &b, &mut matrix(d.view_mut(), t)?, workspace)?;
            }
            Ok(())
        })?;
        Ok(d)
    }

    /// One whole block-scaled instruction on arrays: as [`Unit::mma`], with `scale_a` of
    /// M x [`Unit::scales`] and `scale_b` of [`Unit::scales`] x N.
    ///
    /// # Errors
    /// When a type's format is not the unit's, or a shape is wrong.
    pub fn mma_scaled<A: Format, B: Format, C: Format, D: Format, S: Format, I: Dimension>(
        &self,
        a: &ArrayBase<impl Data<Elem = A>, I>,
        b: &ArrayBase<impl Data<Elem = B>, I>,
        c: &ArrayBase<impl Data<Elem = C>, I>,
        scale_a: &ArrayBase<impl Data<Elem = S>, I>,
        scale_b: &ArrayBase<impl Data<Elem = S>, I>,
    ) -> Result<Array<D, I>, Error> {
        self.check_formats::<A, B, C, D>()?;
        let Some(rule) = self.scale else {
            return Err(Error::shape("scales", "absent: this unit has none", "given"));
        };
        check_format("scale", &rule.format, &S::SPEC)?;
        let (Shape { m, n, k }, s) = (self.shape, self.scales());
        self.check_tile("A", a.shape(), m, k)?;
        self.check_tile("B", b.shape(), k, n)?;
        self.check_tile("C", c.shape(), m, n)?;
        self.check_tile("scale_a", scale_a.shape(), m, s)?;
        self.check_tile("scale_b", scale_b.shape(), s, n)?;
        let (sa, sb) = (array_codes(scale_a), array_codes(scale_b));
        let bits = self.mma_scaled_bits(&array_codes(a), &array_codes(b), &array_codes(c), &sa, &sb)?;
        tile(c.raw_dim(), bits)
    }

    fn check_formats<A: Format, B: Format, C: Format, D: Format>(&self) -> Result<(), Error> {
        check_format("A", &self.a, &A::SPEC)?;
        check_format("B", &self.b, &B::SPEC)?;
        check_format("C", &self.c, &C::SPEC)?;
        check_format("D", &self.d, &D::SPEC)
    }

    fn check_tile(&self, operand: &str, found: &[usize], rows: usize, columns: usize) -> Result<(), Error> {
        let fits = match *found {
            [r, c] => self.blocks == 1 && r == rows && c == columns,
            [b, r, c] => b == self.blocks && r == rows && c == columns,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = if self.blocks == 1 {
            format!("{rows} x {columns}")
        } else {
            format!("{} x {rows} x {columns} (blocks first)", self.blocks)
        };
        Err(Error::shape(operand, expected, format!("{found:?}")))
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

/// Calls `f` with room for `count` numbers, on the stack unless they are very many. Filling the
/// room takes longer than many a dot-add, so it comes in two sizes.
fn with_numbers<R>(count: usize, fill: Num, f: impl FnOnce(&mut [Num]) -> R) -> R {
    match count {
        0..=32 => f(&mut [fill; 32][..count]),
        33..=256 => f(&mut [fill; 256][..count]),
        _ => f(&mut vec![fill; count]),
    }
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

fn unpack(format: &FormatSpec, codes: &[u64], into: &mut [Num]) {
    for (num, &code) in into.iter_mut().zip(codes) {
        *num = format.decode(code);
    }
}

fn unpack_scales(rule: &ScaleRule, codes: &[u64], into: &mut [Num]) {
    for (block, &code) in into.chunks_mut(rule.block).zip(codes) {
        block.fill(rule.format.decode(code));
    }
}

fn check_length(operand: &str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::shape(operand, format!("{expected} long"), format!("{found} long")))
}

fn check_format(operand: &'static str, expected: &FormatSpec, found: &FormatSpec) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Format { operand, expected: expected.name, found: found.name })
}

fn codes<T: Format>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn array_codes<T: Format, I: Dimension>(array: &ArrayBase<impl Data<Elem = T>, I>) -> Vec<u64> {
    array.iter().map(|x| x.to_bits()).collect()
}

/// Matrix `t` of a stack, or the only one.
fn matrix<S: RawData, I: Dimension>(array: ArrayBase<S, I>, t: usize) -> Result<ArrayBase<S, Ix2>, Error> {
    let axes = array.ndim();
    let matrix = match axes {
        2 => array.into_dimensionality(),
        _ => array.into_dimensionality::<Ix3>().map(|stack| stack.index_axis_move(Axis(0), t)),
    };
    matrix.map_err(|_| Error::shape("a tile", "two or three axes", axes.to_string()))
}

fn tile<D: Format, I: Dimension>(shape: I, bits: Vec<u64>) -> Result<Array<D, I>, Error> {
    let values = bits.into_iter().map(D::from_bits).collect();
    Array::from_shape_vec(shape, values).map_err(|e| Error::shape("D", "as large as C", e.to_string()))
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

/// A unit is its name, as text.
#[cfg(feature = "serde")]
mod as_text {
    use super::Unit;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    impl Serialize for Unit {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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
