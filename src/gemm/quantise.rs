//! Block-scaled matrices: quantisation to MX and NVFP4, and the layouts that checkpoints store.

use super::builder::filled;
use super::convert::{Encoding, INFINITY, MAGNITUDE, Widening, each, fold_each};
use super::operand::{AnyMatrix, Codes, Matrix, Source};
use crate::error::Error;
use crate::format::{E2M1, E4M3, FormatSpec, Overflow, UE4M3, UE8M0};
use crate::round::Rounding;
use crate::simd::{self, Isa, Loop};
use crate::unit::Unit;
use crate::view::View;
use ndarray::{Array2, ArrayRef2, Axis, Ix1, Ix2};

/// A matrix of narrow codes with one scale per block of elements along K.
///
/// [`super::Gemm::run_quantised`] multiplies two.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// The elements' codes, one per byte.
    pub codes: Array2<u8>,
    /// The elements' format.
    pub format: FormatSpec,
    /// The scales' codes: along the blocked axis one per block, along the other one per line.
    pub scales: Array2<u8>,
    /// The scales' format.
    pub scale_format: FormatSpec,
    /// Elements per scale.
    pub block: usize,
    /// The axis of K: 1 for A, 0 for B.
    pub axis: Axis,
    /// A factor of the whole matrix (NVFP4), or 1.
    pub tensor_scale: f32,
}

impl Quantised {
    /// The numbers that codes and scales stand for, exactly as long as f64 holds them.
    ///
    /// # Errors
    /// When the scales do not cover the codes in blocks along `axis`, which is 0 or 1.
    pub fn values(&self) -> Result<Array2<f64>, Error> {
        let (rows, columns) = self.codes.dim();
        let blocks = |n: usize| (self.block > 0).then(|| n.div_ceil(self.block));
        let needed = match self.axis {
            Axis(0) => blocks(rows).map(|n| (n, columns)),
            Axis(1) => blocks(columns).map(|n| (rows, n)),
            _ => None,
        };
        if needed.is_none_or(|(m, n)| self.scales.nrows() < m || self.scales.ncols() < n) {
            let expected = format!("one for every {} codes of {rows} x {columns} along {:?}", self.block, self.axis);
            return Err(Error::shape("scales", expected, format!("{:?}", self.scales.dim())));
        }
        Ok(Array2::from_shape_fn(self.codes.raw_dim(), |(i, j)| {
            let at = if self.axis == Axis(1) { [i, j / self.block] } else { [i / self.block, j] };
            let scale = self.scale_format.to_f64(self.scales[at].into());
            self.format.to_f64(self.codes[[i, j]].into()) * scale * f64::from(self.tensor_scale)
        }))
    }

    /// The elements without their scales, as an operand.
    pub fn element_codes(&self) -> AnyMatrix<'_> {
        AnyMatrix::Typed(Codes::U8(View::from(&self.codes)), self.format)
    }

    /// The scales as an operand of [`super::Gemm::block_scales`].
    pub fn scale_codes(&self) -> AnyMatrix<'_> {
        AnyMatrix::Typed(Codes::U8(View::from(&self.scales)), self.scale_format)
    }
}

/// Quantises to an MX format: blocks of `block` elements (32 in the standard) along `axis`, the
/// shared scale `2^(floor(log2 max) - emax)` for the element format's largest exponent emax,
/// elements rounded by `rounding` and saturated. A block that holds NaN or an infinity has the
/// scale NaN; a block of zeros the smallest scale.
///
/// Source: OCP Microscaling Formats (MX) v1.0, section 6.3.
///
/// ```
/// use gemmulate::gemm::quantise;
/// use gemmulate::{format::E2M1, round::Rounding};
/// use ndarray::{Axis, arr2};
/// let x = arr2(&[[12.0f32, -3.0, 0.5, 0.0]]);
/// let q = quantise::mx(&x, &E2M1, 4, Axis(1), Rounding::NearestEven)?;
/// // The largest, 12 = 1.5 * 2^3, over e2m1's largest exponent 2: the scale is 2.
/// assert_eq!(q.scales, arr2(&[[128]]));
/// assert_eq!(q.values()?, arr2(&[[12.0, -3.0, 0.0, 0.0]]));
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When the block has no element or the format takes more than a byte.
pub fn mx(
    x: &(impl Matrix + ?Sized),
    format: &FormatSpec,
    block: usize,
    axis: Axis,
    rounding: Rounding,
) -> Result<Quantised, Error> {
    let scheme = Scheme { format: *format, scale_format: UE8M0, block, axis, rounding, tensor_scale: 1.0 };
    scheme.quantise(x, |largest| {
        if largest == 0.0 {
            return Some(UE8M0_SMALLEST);
        }
        let exponent = floor_log2(largest) - format.max().exponent;
        Some((exponent.clamp(-127, 127) + 127) as u64)
    })
}

/// 2^-127.
const UE8M0_SMALLEST: u64 = 0;

/// Where NVFP4's factor of the whole matrix comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum TensorScale {
    /// `max |x| / (448 * 6)`, so that the largest block scale is ue4m3's largest number.
    #[default]
    Largest,
    /// A given factor: 1 for one level of scales.
    Given(f32),
}

/// Quantises to NVFP4: e2m1 in blocks of 16 along `axis`, the block's scale
/// `RNE(max |x| / 6 / t)` in ue4m3, saturated, for the factor t of the whole matrix; elements
/// `RNE(x / (scale t))`, saturated. Quotients are rounded once, in f64. A block that holds NaN or an
/// infinity has the scale NaN.
///
/// Source: NVIDIA, Pretraining LLMs with NVFP4 (arXiv 2509.25149), appendix on quantisation.
///
/// # Errors
/// When a given tensor scale is not positive and finite.
pub fn nvfp4(x: &(impl Matrix + ?Sized), axis: Axis, tensor: TensorScale) -> Result<Quantised, Error> {
    let (element_max, scale_max) = (number(&E2M1), number(&UE4M3));
    let largest = if tensor == TensorScale::Largest { largest_finite(&mut Values::new(x)?)? } else { 0.0 };
    let tensor_scale = match tensor {
        TensorScale::Given(scale) => scale,
        TensorScale::Largest if largest == 0.0 => 1.0,
        TensorScale::Largest => ((largest / (element_max * scale_max)) as f32).max(f32::MIN_POSITIVE),
    };
    if !(tensor_scale > 0.0 && tensor_scale.is_finite()) {
        return Err(Error::value("the tensor scale", "a positive number", tensor_scale.to_string()));
    }
    let rounding = Rounding::NearestEven;
    let scheme = Scheme { format: E2M1, scale_format: UE4M3, block: 16, axis, rounding, tensor_scale };
    // Positive codes of e4m3 are ue4m3's.
    let encoder = Encoder::new(E4M3, rounding);
    scheme.quantise(x, |largest| {
        let mut code = [0];
        encoder.all(&[largest / element_max / f64::from(tensor_scale)], &mut code);
        Some(code[0].into())
    })
}

/// Quantises an operand of a block-scaled unit as the unit takes it: to NVFP4 where the scales are
/// ue4m3, else to MX with the unit's format and block.
///
/// `axis` is that of K: 1 for the unit's a, 0 for its b. NVFP4 is always rounded to nearest even.
///
/// # Errors
/// When the unit takes no block scales, or scales of another kind.
pub fn for_unit(x: &(impl Matrix + ?Sized), unit: &Unit, axis: Axis, rounding: Rounding) -> Result<Quantised, Error> {
    let format = if axis == Axis(1) { unit.a } else { unit.b };
    match unit.scale {
        Some(rule) if rule.format == UE8M0 => mx(x, &format, rule.block, axis, rounding),
        Some(rule) if rule.format == UE4M3 && format == E2M1 && rule.block == 16 => {
            nvfp4(x, axis, TensorScale::default())
        }
        Some(rule) => {
            let kind = format!("{format} in blocks of {} with {} scales", rule.block, rule.format);
            Err(Error::Product(format!("{unit} takes {kind}: there is no quantisation to that, give codes and scales")))
        }
        None => Err(Error::Product(format!("{unit} takes no block scales"))),
    }
}

/// A format's largest number.
fn number(format: &FormatSpec) -> f64 {
    format.to_f64(format.max_code(false))
}

/// floor(log2 x) of a positive f64, subnormals included.
fn floor_log2(x: f64) -> i32 {
    let bits = x.to_bits() & (u64::MAX >> 1);
    if bits >> 52 == 0 { 63 - bits.leading_zeros() as i32 - 1074 } else { (bits >> 52) as i32 - 1023 }
}

/// A number's code as f64 without its sign: in the order of magnitudes, after them infinities, then NaN.
#[inline(always)]
const fn magnitude(x: f64) -> i64 {
    x.to_bits() as i64 & MAGNITUDE
}

/// A matrix read row by row as numbers.
struct Values<R> {
    reader: R,
    widening: Widening,
    /// A row's codes.
    codes: Vec<u64>,
    isa: Isa,
}

impl<'x, R: Source + 'x> Values<R> {
    fn new<M: Matrix<Reader<'x> = R> + ?Sized>(x: &'x M) -> Result<Self, Error> {
        let format = x.format().ok_or_else(|| Error::value("what is quantised", "values", "codes"))?;
        format.check("what is quantised")?;
        let (reader, widening) = (x.reader(), Widening::new::<f64>(&format));
        Ok(Self { reader, widening, codes: Vec::new(), isa: simd::best(None) })
    }

    /// Makes room for what `row` reads.
    fn prepare(&mut self) -> Result<(), Error> {
        self.codes = one_row(self.reader.shape()[1], 0)?;
        Ok(())
    }

    /// The numbers of a row; of a NaN, some NaN.
    fn row(&mut self, i: usize, into: &mut [f64]) {
        self.reader.read(i, 0, &mut self.codes);
        let (codes, widening) = (&self.codes, self.widening);
        simd::on(
            self.isa,
            Loop(
                #[inline(always)]
                || widening.all(codes, into, |code| code),
            ),
        );
    }
}

/// The largest magnitude that is a number, or 0.
fn largest_finite<'x, R: Source + 'x>(x: &mut Values<R>) -> Result<f64, Error> {
    let ([rows, columns], mut largest) = (x.reader.shape(), 0);
    if rows == 0 || columns == 0 {
        // The other side may be any number.
        return Ok(0.0);
    }
    x.prepare()?;
    let mut row = one_row(columns, 0.0)?;
    for i in 0..rows {
        x.row(i, &mut row);
        let work = Loop(
            #[inline(always)]
            || {
                let finite = |x| if x < INFINITY { x } else { 0 };
                largest = row.iter().map(|&x| finite(magnitude(x))).fold(largest, i64::max);
            },
        );
        simd::on(x.isa, work);
    }
    Ok(f64::from_bits(largest as u64))
}

/// Room for a row.
fn one_row<T: Clone>(columns: usize, element: T) -> Result<Vec<T>, Error> {
    Ok(filled("a row", "a matrix", element, Ix1(columns))?.into_raw_vec_and_offset().0)
}

/// Formats, blocks and rounding of a quantisation.
struct Scheme {
    format: FormatSpec,
    scale_format: FormatSpec,
    block: usize,
    axis: Axis,
    rounding: Rounding,
    tensor_scale: f32,
}

impl Scheme {
    /// Quantises, with the scale's code for a block's largest magnitude; `None` is NaN.
    fn quantise(&self, x: &(impl Matrix + ?Sized), scale_of: impl Fn(f64) -> Option<u64>) -> Result<Quantised, Error> {
        let (block, axis) = (self.block, self.axis);
        if axis.index() > 1 {
            let expected = "0, down the columns, or 1, along the rows";
            return Err(Error::value("the axis of blocks", expected, axis.index().to_string()));
        }
        if block == 0 || self.format.storage_bits > 8 {
            let found = format!("blocks of {block} {}", self.format);
            return Err(Error::shape("a quantised matrix", "blocks of codes of a byte or less", found));
        }
        self.format.check("a quantised matrix")?;
        self.scale_format.check("a scale")?;
        let mut x = Values::new(x)?;
        let shape @ [rows, columns] = x.reader.shape();
        let mut slots = shape;
        slots[axis.index()] = slots[axis.index()].div_ceil(block);
        let room = |[rows, columns]: [usize; 2]| filled("a quantised matrix", "a byte", 0u8, Ix2(rows, columns));
        let (mut codes, mut scales) = (room(shape)?, room(slots)?);
        let Self { format, scale_format, tensor_scale, .. } = *self;
        if codes.is_empty() {
            return Ok(Quantised { codes, format, scales, scale_format, block, axis, tensor_scale });
        }
        x.prepare()?;
        // A band has one row of scales: along rows of one row, along columns of `block` of them.
        let height = if axis == Axis(1) { 1 } else { block.min(rows) };
        let band = filled("a band of blocks", "f64", 0.0, Ix2(height, columns))?;
        let mut band = band.into_raw_vec_and_offset().0;
        let (mut largest, mut factors) = (one_row(slots[1], 0)?, one_row(slots[1], 0.0)?);
        let encoder = Encoder::new(format, self.rounding);
        let nan = scale_format.nan_code(Default::default()).unwrap_or_default();
        for (i, (mut codes, mut scales)) in
            codes.axis_chunks_iter_mut(Axis(0), height).zip(scales.outer_iter_mut()).enumerate()
        {
            let band = &mut band[..codes.len()];
            for (r, row) in band.chunks_exact_mut(columns).enumerate() {
                x.row(i * height + r, row);
            }
            self.largest(x.isa, band, columns, &mut largest);
            for ((scale, factor), &largest) in scales.iter_mut().zip(&mut factors).zip(&largest) {
                let largest = f64::from_bits(largest as u64);
                let code = if largest.is_finite() { scale_of(largest) } else { None }.unwrap_or(nan);
                *factor = scale_format.to_f64(code) * f64::from(tensor_scale);
                *scale = code as u8;
            }
            for (row, mut codes) in band.chunks_exact_mut(columns).zip(codes.outer_iter_mut()) {
                let codes = codes.as_slice_mut().expect("rows of an array made here");
                self.row(x.isa, row, &factors, &encoder, codes);
            }
        }
        Ok(Quantised { codes, format, scales, scale_format, block, axis, tensor_scale })
    }

    /// The largest magnitude of each block of a band, as f64's code.
    fn largest(&self, isa: Isa, band: &[f64], columns: usize, to: &mut [i64]) {
        let work = Loop(
            #[inline(always)]
            || {
                to.fill(0);
                if self.axis == Axis(1) {
                    for (to, x) in to.iter_mut().zip(band.chunks(self.block)) {
                        *to = x.iter().map(|&x| magnitude(x)).fold(0, i64::max);
                    }
                } else {
                    for row in band.chunks_exact(columns) {
                        fold_each(row, to, |largest, x| largest.max(magnitude(x)));
                    }
                }
            },
        );
        simd::on(isa, work);
    }

    /// The codes of a row of a band, each number over its block's factor.
    fn row(&self, isa: Isa, row: &mut [f64], factors: &[f64], encoder: &Encoder, to: &mut [u8]) {
        // Nothing is left of a block whose factor is too small for f64.
        let over = |x: f64, factor: f64| if factor == 0.0 { 0.0 } else { x / factor };
        let work = Loop(
            #[inline(always)]
            || {
                if self.axis == Axis(1) {
                    for (row, &factor) in row.chunks_mut(self.block).zip(factors) {
                        row.iter_mut().for_each(|x| *x = over(*x, factor));
                    }
                } else {
                    fold_each(factors, row, over);
                }
                encoder.all(row, to);
            },
        );
        simd::on(isa, work);
    }
}

/// Numbers to codes of at most a byte, saturated.
enum Encoder {
    Quick(Encoding),
    /// One by one.
    Any(FormatSpec, Rounding),
}

impl Encoder {
    fn new(format: FormatSpec, rounding: Rounding) -> Self {
        let nan = Self::one(&format, f64::NAN, rounding);
        let quick = Encoding::new(&format, rounding, Overflow::Saturate, nan.into());
        quick.map_or(Self::Any(format, rounding), Self::Quick)
    }

    /// A number's code; 0 of a NaN where the format has none: a block's scale is NaN then.
    fn one(format: &FormatSpec, x: f64, rounding: Rounding) -> u8 {
        format.encode_f64(x, rounding, Overflow::Saturate).unwrap_or(0) as u8
    }

    /// The codes of numbers.
    #[inline(always)]
    fn all(&self, from: &[f64], to: &mut [u8]) {
        match self {
            Self::Quick(encoding) => encoding.all(from, to, |code| code as u8),
            Self::Any(format, rounding) => each(from, to, |x| Self::one(format, x, *rounding)),
        }
    }
}

/// Codes of 4 or 6 bits out of packed bytes: a little-endian stream of bits, the first element in
/// the lowest ones. For fp4 that is PyTorch's `float4_e2m1fn_x2`, two to a byte.
///
/// ```
/// use gemmulate::gemm::quantise::unpack;
/// assert_eq!(unpack(&[0x21, 0x43], 4, 4)?, [1, 2, 3, 4]);
/// assert_eq!(unpack(&[0b01_000001, 0b0011_0000, 0b000100_00], 6, 4)?, [1, 1, 3, 4]);
/// # Ok::<(), gemmulate::Error>(())
/// ```
///
/// # Errors
/// When there are too few bytes, or codes are wider than a byte.
pub fn unpack(bytes: &[u8], bits: u32, count: usize) -> Result<Vec<u8>, Error> {
    let needed = count.checked_mul(bits as usize).map(|n| n.div_ceil(8));
    if !(1..=8).contains(&bits) || needed.is_none_or(|n| n > bytes.len()) {
        let expected = format!("{count} codes of {bits} bits");
        return Err(Error::shape("packed data", expected, format!("{} bytes", bytes.len())));
    }
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    let code = |i: usize| {
        let at = i * bits as usize;
        ((byte(at / 8) | byte(at / 8 + 1) << 8) >> (at % 8)) as u8 & (0xFF >> (8 - bits))
    };
    Ok((0..count).map(code).collect())
}

/// The inverse of [`unpack`].
pub fn pack(codes: &[u8], bits: u32) -> Vec<u8> {
    let bits = bits.clamp(1, 8) as usize;
    let mut bytes = vec![0u8; (codes.len() * bits).div_ceil(8) + 1];
    for (i, &code) in codes.iter().enumerate() {
        let wide = u16::from(code & (0xFF >> (8 - bits))) << (i * bits % 8);
        bytes[i * bits / 8] |= wide as u8;
        bytes[i * bits / 8 + 1] |= (wide >> 8) as u8;
    }
    bytes.pop();
    bytes
}

/// Where scale (row, block) lies in the 128x4-swizzled layout of `blocks` blocks per row.
const fn swizzled(row: usize, block: usize, blocks: usize) -> usize {
    let tile = row / 128 * blocks.div_ceil(4) + block / 4;
    tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4
}

/// Scales out of the 128x4-swizzled layout that cuBLASLt and `torch._scaled_mm` take: tiles of 128
/// rows by 4 blocks, 512 bytes each, padded. The result is rows x blocks; for B, whose rows here are
/// its columns, transpose it before [`super::Gemm::block_scales`].
///
/// Source: NVIDIA, cuBLAS documentation, "1D Block Scaling Factors Layout".
///
/// # Errors
/// When there are too few bytes.
pub fn unswizzle(bytes: &[u8], rows: usize, blocks: usize) -> Result<Array2<u8>, Error> {
    let needed = rows.div_ceil(128).checked_mul(blocks.div_ceil(4)).and_then(|n| n.checked_mul(512));
    // No array has longer sides, empty or not.
    let sides = isize::try_from(rows).and(isize::try_from(blocks));
    if sides.is_err() || needed.is_none_or(|n| n > bytes.len()) {
        let tiles = rows.div_ceil(128).saturating_mul(blocks.div_ceil(4));
        let expected = format!("{tiles} tiles of 512 bytes");
        return Err(Error::shape("swizzled scales", expected, format!("{} bytes", bytes.len())));
    }
    Ok(Array2::from_shape_fn((rows, blocks), |(i, j)| bytes[swizzled(i, j, blocks)]))
}

/// The inverse of [`unswizzle`], padded with zeros.
pub fn swizzle(scales: &ArrayRef2<u8>) -> Vec<u8> {
    let (rows, blocks) = scales.dim();
    let mut bytes = vec![0; rows.div_ceil(128) * blocks.div_ceil(4) * 512];
    for ((i, j), &scale) in scales.indexed_iter() {
        bytes[swizzled(i, j, blocks)] = scale;
    }
    bytes
}
