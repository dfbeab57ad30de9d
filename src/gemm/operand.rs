//! Operands as the driver sees them: rows of codes in the unit's format, whatever they were before.

use super::convert::{Encoding, Widening, each};
use super::epilogue::AT_ONCE;
use crate::error::Error;
use crate::format::{F32, Format, FormatSpec, Overflow, spec_of};
use crate::round::Rounding;
use crate::simd::{self, Isa, Work};
use crate::special::NanRule;
use crate::view::View;
use core::ops::Range;
use ndarray::{ArrayBase, ArrayRef2, ArrayView2, Data, Ix2};

/// A matrix read a run at a time.
#[allow(unreachable_pub, reason = "older compilers do not see that `Matrix` shows it")]
pub trait Source: Sync {
    /// Rows and columns.
    fn shape(&self) -> [usize; 2];

    /// Codes of row `i` from column `j` on.
    fn read(&self, i: usize, j: usize, into: &mut [u64]);

    /// Codes of at most 32 bits of a block, which lies inside: row after row, `ld` apart.
    fn read_narrow(&self, block: [Range<usize>; 2], into: &mut [u32], ld: usize);

    /// The codes where they are, if they are nothing but integers in memory.
    fn codes(&self) -> Option<Codes<'_>> {
        None
    }
}

impl<T: Format> Source for View<'_, T> {
    fn shape(&self) -> [usize; 2] {
        View::shape(self)
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        View::read(self, i, j, into, T::to_bits);
    }

    fn read_narrow(&self, block: [Range<usize>; 2], into: &mut [u32], ld: usize) {
        match self.codes() {
            Some(codes) => codes.read_narrow(block, into, ld),
            None => self.read_block(block, into, ld, |x| x.to_bits() as u32),
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        let wide = || self.words::<u64>().map(Codes::U64);
        let narrow = || self.words::<u32>().map(Codes::U32);
        let bytes = || self.words::<u8>().map(Codes::U8);
        self.words::<u16>().map(Codes::U16).or_else(narrow).or_else(wide).or_else(bytes)
    }
}

/// A matrix of bit patterns, each code in the low bits of an unsigned integer.
#[derive(Clone, Copy, Debug)]
pub enum Codes<'a> {
    /// One byte per code: 8-, 6- and 4-bit formats.
    U8(View<'a, u8>),
    /// Two bytes per code.
    U16(View<'a, u16>),
    /// Four bytes per code.
    U32(View<'a, u32>),
    /// Eight bytes per code.
    U64(View<'a, u64>),
}

macro_rules! each_width {
    ($codes:expr, $view:ident => $body:expr) => {
        match $codes {
            Codes::U8($view) => $body,
            Codes::U16($view) => $body,
            Codes::U32($view) => $body,
            Codes::U64($view) => $body,
        }
    };
}

impl Codes<'_> {
    pub(crate) fn part(&self, block: [Range<usize>; 2]) -> Self {
        match self {
            Self::U8(view) => Self::U8(view.part(block)),
            Self::U16(view) => Self::U16(view.part(block)),
            Self::U32(view) => Self::U32(view.part(block)),
            Self::U64(view) => Self::U64(view.part(block)),
        }
    }

    /// Rows and columns exchanged.
    pub(crate) const fn transposed(self) -> Self {
        match self {
            Self::U8(view) => Self::U8(view.transposed()),
            Self::U16(view) => Self::U16(view.transposed()),
            Self::U32(view) => Self::U32(view.transposed()),
            Self::U64(view) => Self::U64(view.transposed()),
        }
    }

    /// Whether there are codes, those of each row one after another.
    pub(crate) fn has_rows(&self) -> bool {
        each_width!(self, view => view.rows().is_some())
    }

    /// Bits per stored code.
    pub const fn width(&self) -> u32 {
        match self {
            Self::U8(_) => 8,
            Self::U16(_) => 16,
            Self::U32(_) => 32,
            Self::U64(_) => 64,
        }
    }
}

impl Source for Codes<'_> {
    fn shape(&self) -> [usize; 2] {
        each_width!(self, view => view.shape())
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        each_width!(self, view => view.read(i, j, into, u64::from));
    }

    fn read_narrow(&self, block: [Range<usize>; 2], into: &mut [u32], ld: usize) {
        each_width!(self, view => view.read_words(block, into, ld));
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(*self)
    }
}

/// Anything a product takes as an operand: arrays of any layout and views, of values or of codes.
pub trait Matrix {
    #[doc(hidden)]
    type Reader<'s>: Source + Send
    where
        Self: 's;

    #[doc(hidden)]
    fn reader(&self) -> Self::Reader<'_>;

    /// The elements' format; `None` for codes, which are in whatever format the unit takes.
    fn format(&self) -> Option<FormatSpec>;
}

impl<T: Format, S: Data<Elem = T>> Matrix for ArrayBase<S, Ix2> {
    type Reader<'s>
        = View<'s, T>
    where
        Self: 's;

    fn reader(&self) -> View<'_, T> {
        self.into()
    }

    fn format(&self) -> Option<FormatSpec> {
        Some(spec_of::<T>())
    }
}

impl<T: Format> Matrix for ArrayRef2<T> {
    type Reader<'s>
        = View<'s, T>
    where
        Self: 's;

    fn reader(&self) -> View<'_, T> {
        self.view().into()
    }

    fn format(&self) -> Option<FormatSpec> {
        Some(spec_of::<T>())
    }
}

impl<T: Format> Matrix for View<'_, T> {
    type Reader<'s>
        = View<'s, T>
    where
        Self: 's;

    fn reader(&self) -> View<'_, T> {
        *self
    }

    fn format(&self) -> Option<FormatSpec> {
        Some(spec_of::<T>())
    }
}

impl Matrix for Codes<'_> {
    type Reader<'s>
        = Codes<'s>
    where
        Self: 's;

    fn reader(&self) -> Codes<'_> {
        *self
    }

    fn format(&self) -> Option<FormatSpec> {
        None
    }
}

/// A matrix whose element type is known at run time only, as one read from a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AnyMatrix<'a> {
    /// Double precision.
    F64(View<'a, f64>),
    /// Single precision.
    F32(View<'a, f32>),
    /// Bit patterns in the format named.
    Typed(Codes<'a>, FormatSpec),
    /// Bit patterns in the format that the unit takes.
    Codes(Codes<'a>),
}

impl Source for AnyMatrix<'_> {
    fn shape(&self) -> [usize; 2] {
        match self {
            Self::F64(view) => view.shape(),
            Self::F32(view) => view.shape(),
            Self::Typed(codes, _) | Self::Codes(codes) => codes.shape(),
        }
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        match self {
            Self::F64(view) => Source::read(view, i, j, into),
            Self::F32(view) => Source::read(view, i, j, into),
            Self::Typed(codes, _) | Self::Codes(codes) => codes.read(i, j, into),
        }
    }

    fn read_narrow(&self, block: [Range<usize>; 2], into: &mut [u32], ld: usize) {
        match self {
            Self::F64(view) => view.read_narrow(block, into, ld),
            Self::F32(view) => view.read_narrow(block, into, ld),
            Self::Typed(codes, _) | Self::Codes(codes) => codes.read_narrow(block, into, ld),
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        match self {
            Self::F64(view) => Source::codes(view),
            Self::F32(view) => Source::codes(view),
            Self::Typed(codes, _) | Self::Codes(codes) => Some(*codes),
        }
    }
}

impl Matrix for AnyMatrix<'_> {
    type Reader<'s>
        = AnyMatrix<'s>
    where
        Self: 's;

    fn reader(&self) -> AnyMatrix<'_> {
        *self
    }

    fn format(&self) -> Option<FormatSpec> {
        match self {
            Self::F64(_) => Some(crate::format::F64),
            Self::F32(_) => Some(F32),
            Self::Typed(_, spec) => Some(*spec),
            Self::Codes(_) => None,
        }
    }
}

macro_rules! codes_from {
    ($($ty:ty => $variant:ident),*) => { $(
        impl<'a> From<View<'a, $ty>> for Codes<'a> {
            fn from(view: View<'a, $ty>) -> Self { Self::$variant(view) }
        }
        impl<'a> From<ArrayView2<'a, $ty>> for Codes<'a> {
            fn from(array: ArrayView2<'a, $ty>) -> Self { Self::$variant(array.into()) }
        }
    )* };
}
codes_from!(u8 => U8, u16 => U16, u32 => U32, u64 => U64);

/// How values become codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    from: FormatSpec,
    to: FormatSpec,
    rounding: Rounding,
    overflow: Overflow,
    /// Whether codes are f32's, which the processor reads.
    from_f32: bool,
    /// Both halves of the way for many at once, where there is one.
    many: Option<(Widening, Encoding)>,
    /// The set that this is compiled for.
    isa: Isa,
}

impl Conversion {
    pub(crate) fn new(from: FormatSpec, to: FormatSpec, rounding: Rounding, overflow: Overflow, isa: Isa) -> Self {
        let nan = to.nan_code(NanRule::Quiet).unwrap_or(0);
        let encoding = Encoding::new(&to, rounding, overflow, nan);
        let many = encoding.map(|encoding| (Widening::new::<f64>(&from), encoding));
        Self { from, to, rounding, overflow, from_f32: from == F32, many, isa }
    }

    /// The value of a code.
    #[inline]
    fn value(&self, code: u64) -> f64 {
        match f64::from(f32::from_bits(code as u32)) {
            x if self.from_f32 && !x.is_nan() => x,
            _ => self.from.to_f64(code),
        }
    }

    /// The code of a code; zero for values that have none, which [`Conversion::check`] has excluded.
    #[inline]
    fn total(&self, code: u64) -> u64 {
        self.to.encode_f64(self.value(code), self.rounding, self.overflow).unwrap_or(0)
    }

    /// Whether some value has no code.
    const fn can_fail(&self) -> bool {
        !self.to.has_nan() || !self.to.signed || !self.to.subnormals
    }

    /// Finds the first value without a code.
    fn check(&self, name: &str, source: &dyn Source) -> Result<(), Error> {
        let [rows, columns] = source.shape();
        if rows == 0 || columns == 0 {
            // The other side may be any number.
            return Ok(());
        }
        let mut row = vec![0u64; columns];
        // Most numbers need no look at what they are rounded to: no rounding takes a magnitude beyond the largest
        // number, for that needs none. (Where there are no subnormal numbers there is no zero to round to.)
        let largest = if self.to.subnormals { self.to.to_f64(self.to.max_code(false)) } else { -1.0 };
        let has_code = |x: f64| x.abs() <= largest && (self.to.signed || x.is_sign_positive());
        for i in 0..rows {
            source.read(i, 0, &mut row);
            for (j, &code) in row.iter().enumerate() {
                let x = self.value(code);
                if has_code(x) {
                    continue;
                }
                let code = self.to.encode_f64(x, self.rounding, self.overflow);
                code.map_err(|source| Error::Encode { operand: format!("{name}[{i}, {j}] = {x:e}"), source })?;
            }
        }
        Ok(())
    }
}

/// An operand: codes, or values on their way to codes.
pub(crate) struct Operand<'a> {
    source: &'a dyn Source,
    conversion: Option<Conversion>,
}

impl<'a> Operand<'a> {
    /// Codes as they are.
    pub(crate) const fn codes(source: &'a dyn Source) -> Self {
        Self { source, conversion: None }
    }

    /// Values of one format for a unit that takes another.
    pub(crate) fn converted(name: &str, source: &'a dyn Source, conversion: Conversion) -> Result<Self, Error> {
        if conversion.from == conversion.to {
            return Ok(Self::codes(source));
        }
        if conversion.can_fail() {
            // Whatever can fail does so before any result is written.
            conversion.check(name, source)?;
        }
        Ok(Self { source, conversion: Some(conversion) })
    }

    /// A block of codes, which lies inside: row after row, `ld` apart.
    pub(crate) fn read(&self, [rows, columns]: [Range<usize>; 2], into: &mut [u64], ld: usize) {
        for (i, to) in rows.zip(into.chunks_mut(ld.max(1))) {
            let to = &mut to[..columns.len()];
            self.source.read(i, columns.start, to);
            if let Some(conversion) = &self.conversion {
                to.iter_mut().for_each(|x| *x = conversion.total(*x));
            }
        }
    }

    /// The same of at most 32 bits.
    pub(crate) fn read_narrow(&self, [rows, columns]: [Range<usize>; 2], into: &mut [u32], ld: usize) {
        let Some(conversion) = &self.conversion else {
            return self.source.read_narrow([rows, columns], into, ld);
        };
        simd::on(conversion.isa, Converted { source: self.source, conversion, rows, columns, into, ld });
    }

    /// A block of codes where they are, if they need no conversion and are nothing but integers in memory.
    pub(crate) fn in_place(&self, block: [Range<usize>; 2]) -> Option<Codes<'_>> {
        if self.conversion.is_some() { None } else { Some(self.source.codes()?.part(block)) }
    }
}

/// A block of values to codes of at most 32 bits.
struct Converted<'a> {
    source: &'a dyn Source,
    conversion: &'a Conversion,
    rows: Range<usize>,
    columns: Range<usize>,
    into: &'a mut [u32],
    ld: usize,
}

impl Work for Converted<'_> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self { source, conversion, rows, columns, into, ld } = self;
        let mut from = [0u64; AT_ONCE];
        for (i, to) in rows.zip(into.chunks_mut(ld.max(1))) {
            for (block, to) in to[..columns.len()].chunks_mut(AT_ONCE).enumerate() {
                let from = &mut from[..to.len()];
                source.read(i, columns.start + block * AT_ONCE, from);
                match conversion.many {
                    Some((widening, encoding)) => {
                        let mut x = [0f64; AT_ONCE];
                        let x = &mut x[..to.len()];
                        widening.all(from, x, |code| code);
                        encoding.all(x, to, |code| code as u32);
                    }
                    None => each(from, to, |x| conversion.total(x) as u32),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BF16, E4M3, F16, TF32};

    /// Blocks of all widths as products read them, code by code as formats say.
    #[test]
    fn values_are_read_as_their_formats_say() {
        let sets = || Isa::ALL.iter().copied().filter(|isa| isa.is_available());
        let mut random = crate::random::Random::new(3);
        let mut values: Vec<f32> =
            (0..1 << 16).map(|i: u32| f32::from_bits(i << 16 | i.wrapping_mul(0x9E37) & 0xFFFF)).collect();
        let specials =
            [0, 1, 0x007f_ffff, 0x0080_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff];
        values.extend(specials.iter().flat_map(|&code| [code, code | 1 << 31]).map(f32::from_bits));
        values.extend((0..4000).map(|_| f32::from_bits(0x3f80_0000 ^ (random.next() as u32 & 0x87FF_FFFF))));
        for (to, overflow) in
            [F16, BF16, TF32, E4M3].into_iter().flat_map(|to| [(to, Overflow::Ieee), (to, Overflow::Saturate)])
        {
            let stochastic = Rounding::Stochastic { bits: 8, random: 77 };
            for rounding in [Rounding::NearestEven, Rounding::TowardZero, Rounding::Up, stochastic] {
                let want: Vec<u32> = values
                    .iter()
                    .map(|&x| to.encode_f64(x.into(), rounding, overflow).expect("these have NaN") as u32)
                    .collect();
                for (isa, width) in sets().flat_map(|isa| [1, 63, 64, 65, 150].map(|width| (isa, width))) {
                    let rows = values.len() / width;
                    let matrix = ArrayView2::from_shape((rows, width), &values[..rows * width]).expect("as many");
                    let source = View::from(&matrix);
                    let conversion = Conversion::new(F32, to, rounding, overflow, isa);
                    let operand = Operand::converted("A", &source, conversion).expect("all have codes");
                    // All but the first and the last row, further apart than they are long.
                    let ld = width + 3;
                    let mut codes = vec![7; (rows - 2) * ld];
                    operand.read_narrow([1..rows - 1, 0..width], &mut codes, ld);
                    for (i, row) in codes.chunks(ld).enumerate() {
                        assert_eq!(
                            row[..width],
                            want[(i + 1) * width..][..width],
                            "row {i} of {width} to {to} {rounding:?} {isa}"
                        );
                        assert_eq!(row[width..], [7; 3]);
                    }
                }
            }
        }
    }
}
