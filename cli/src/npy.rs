//! Vectors, matrices and batches of matrices in `.npy` files: floats are values, unsigned integers are
//! bit patterns.

use crate::file::Target;
use crate::io::Failure;
use gemmulate::format::{BF16, F16, F32, F64, FormatSpec, Overflow};
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, quantise};
use gemmulate::round::Rounding;
use gemmulate::view::{View, ViewMut};
use ndarray::Array2;
use npyz::{DType, Deserialize, NpyFile, Order, TypeChar, WriterBuilder};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// Elements as a file holds them; f16 by its bits.
#[derive(Debug)]
enum Data {
    F16(Vec<u16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// What a vector stands for where a matrix is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// A matrix of one row.
    Row,
    /// A matrix of one column.
    Column,
}

/// A matrix, or several of one shape, in whichever order its file has.
#[derive(Debug)]
pub(crate) struct Array {
    /// How many matrices, where a file has 3 dimensions.
    pub(crate) batch: Option<usize>,
    /// Rows and columns.
    pub(crate) shape: [usize; 2],
    /// Dimensions of the file.
    pub(crate) dimensions: usize,
    /// From matrix to matrix, row to row, column to column.
    strides: [isize; 3],
    data: Data,
    name: String,
}

fn message(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Message(format!("{name}: {why}"))
}

macro_rules! each {
    ($data:expr, $x:ident => $body:expr) => {
        match $data {
            Data::F16($x) => $body,
            Data::F32($x) => $body,
            Data::F64($x) => $body,
            Data::U8($x) => $body,
            Data::U16($x) => $body,
            Data::U32($x) => $body,
            Data::U64($x) => $body,
        }
    };
}

/// Zeros, if there is memory for them.
fn room<T: Clone + Default>(size: usize) -> Option<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(size).ok()?;
    zeros.resize(size, T::default());
    Some(zeros)
}

/// Whether two codes differ; of a format whose NaNs are any NaN, those do not.
pub(crate) fn differ(x: u64, y: u64, any_nan: Option<&FormatSpec>) -> bool {
    x != y && any_nan.is_none_or(|format| !(format.to_f64(x).is_nan() && format.to_f64(y).is_nan()))
}

impl Array {
    /// Reads an array of up to 3 dimensions; a single number is a 1 x 1 matrix.
    pub(crate) fn read(path: &Path, vectors: Vectors) -> Result<Self, Failure> {
        let name = path.display().to_string();
        // Asked before it is opened: that would wait for whoever writes to a pipe.
        let found = std::fs::metadata(path).map_err(|e| message(&name, e))?;
        if !found.is_file() {
            return Err(message(&name, "is no regular file"));
        }
        check_size(path, found.len()).map_err(|e| message(&name, e))?;
        let file = File::open(path).map_err(|e| message(&name, e))?;
        let npy = NpyFile::new(BufReader::new(file)).map_err(|e| {
            if e.kind() == std::io::ErrorKind::UnexpectedEof {
                return message(&name, "no .npy file, or one whose header is cut short");
            }
            let why = e.to_string();
            message(&name, format!("no .npy file: {}", why.lines().next().unwrap_or_default().trim_end()))
        })?;
        let sizes: Vec<usize> = npy.shape().iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        let (batch, shape) = match (&sizes[..], vectors) {
            (&[], _) => (None, [1, 1]),
            (&[n], Vectors::Row) => (None, [1, n]),
            (&[n], Vectors::Column) => (None, [n, 1]),
            (&[rows, columns], _) => (None, [rows, columns]),
            (&[batch, rows, columns], _) => (Some(batch), [rows, columns]),
            _ => {
                let why = "expected 1 dimension (a vector), 2 (a matrix) or 3 (a batch of matrices)";
                return Err(message(&name, format!("{why}, but this array has {}", sizes.len())));
            }
        };
        let [rows, columns] = shape;
        let strides = match npy.order() {
            Order::C => [rows.saturating_mul(columns), columns, 1],
            // The first index is the fastest.
            Order::Fortran => [1, batch.unwrap_or(1), batch.unwrap_or(1).saturating_mul(rows)],
        };
        let data = read_data(npy, &name, found.len())?;
        Ok(Self { batch, shape, dimensions: sizes.len(), strides: strides.map(|s| s as isize), data, name })
    }

    /// Room for codes of a format, in zeros.
    pub(crate) fn zeros(batch: Option<usize>, shape: [usize; 2], format: &FormatSpec) -> Result<Self, Failure> {
        let [rows, columns] = shape;
        let size = rows.checked_mul(columns).and_then(|n| n.checked_mul(batch.unwrap_or(1)));
        let size = size.filter(|&n| n < isize::MAX as usize / 8);
        let size = size.ok_or_else(|| Failure::Message(format!("D, {rows} x {columns}, is too large")))?;
        let none = || Failure::Message(format!("D, {rows} x {columns} of {format}, needs more memory than there is"));
        let data = match format.storage_bits {
            0..=8 => Data::U8(room(size).ok_or_else(none)?),
            9..=16 => Data::U16(room(size).ok_or_else(none)?),
            17..=32 => Data::U32(room(size).ok_or_else(none)?),
            _ => Data::U64(room(size).ok_or_else(none)?),
        };
        let strides = [rows * columns, columns, 1].map(|s| s as isize);
        let dimensions = 2 + usize::from(batch.is_some());
        Ok(Self { batch, shape, dimensions, strides, data, name: "D".into() })
    }

    /// A matrix as a batch of its rows, each as a row or as a column; anything else is left as it is.
    pub(crate) fn rows_apart(mut self, vectors: Vectors) -> Self {
        if self.dimensions == 2 {
            let ([batch, length], [_, apart, next]) = (self.shape, self.strides);
            (self.batch, self.dimensions) = (Some(batch), 3);
            (self.shape, self.strides) = match vectors {
                Vectors::Row => ([1, length], [apart, 1, next]),
                Vectors::Column => ([length, 1], [apart, next, 1]),
            };
        }
        self
    }

    /// Rows and columns exchanged; a vector is left as it is.
    pub(crate) fn transposed(mut self) -> Self {
        if self.dimensions > 1 {
            self.shape.swap(0, 1);
            self.strides.swap(1, 2);
        }
        self
    }

    /// Packed codes of `bits` bits along an axis (0 or 1), one to a byte.
    pub(crate) fn unpacked(&self, bits: u32, axis: usize) -> Result<Self, Failure> {
        let Data::U8(bytes) = &self.data else { return Err(message(&self.name, "packed codes are bytes (uint8)")) };
        let (lines, length) = (self.shape[1 - axis], self.shape[axis]);
        if !(length * 8).is_multiple_of(bits as usize) {
            let why = format!("{length} bytes along K hold no whole number of codes of {bits} bits");
            return Err(message(&self.name, why));
        }
        let k = length * 8 / bits as usize;
        let size = lines * k * self.batch.unwrap_or(1);
        let mut codes = Vec::with_capacity(size);
        // Of no elements there may be any number of matrices.
        for t in 0..if size == 0 { 0 } else { self.batch.unwrap_or(1) } {
            let view = self.view(bytes, t)?;
            let view = if axis == 1 { view } else { view.transposed() };
            for line in 0..lines {
                let packed: Vec<u8> = (0..length).filter_map(|p| view.get(line, p).copied()).collect();
                codes.extend(quantise::unpack(&packed, bits, k)?);
            }
        }
        let (mut shape, mut strides) = (self.shape, [lines * k, 1, 1].map(|s| s as isize));
        (shape[axis], strides[2 - axis]) = (k, k as isize);
        let (batch, dimensions, name) = (self.batch, self.dimensions, self.name.clone());
        Ok(Self { batch, shape, dimensions, strides, data: Data::U8(codes), name })
    }

    /// 128x4-swizzled scales as they stand in a checkpoint, in whatever shape, as lines of blocks.
    pub(crate) fn unswizzled(&self, lines: usize, blocks: usize) -> Result<Array2<u8>, Failure> {
        let Data::U8(bytes) = &self.data else { return Err(message(&self.name, "swizzled scales are bytes (uint8)")) };
        let expected = lines.div_ceil(128) * blocks.div_ceil(4) * 512;
        if bytes.len() != expected || (self.strides[2] != 1 && self.shape[1] > 1) {
            let why = format!("{lines} lines of {blocks} scales, swizzled by 128x4, are {expected} bytes in C order");
            return Err(message(&self.name, format!("{why}, but here are {}", bytes.len())));
        }
        Ok(quantise::unswizzle(bytes, lines, blocks)?)
    }

    /// One matrix of a batch; a matrix is its own for every `t`.
    fn view<'a, T>(&self, data: &'a [T], t: usize) -> Result<View<'a, T>, Failure> {
        let [_, row, column] = self.strides;
        Ok(View::from_slice(data, self.shape, [row, column], self.offset(t))?)
    }

    /// Where matrix `t` begins; a batch of one is its own for every `t` too.
    fn offset(&self, t: usize) -> usize {
        if self.batch.unwrap_or(1) == 1 { 0 } else { t * self.strides[0] as usize }
    }

    /// The matrix `t` as an operand. Bit patterns are codes of `format`, which must have them.
    pub(crate) fn operand(&self, t: usize, format: &FormatSpec) -> Result<AnyMatrix<'_>, Failure> {
        let codes = match &self.data {
            Data::F16(x) => return Ok(AnyMatrix::Typed(self.view(x, t)?.into(), F16)),
            Data::F32(x) => return Ok(AnyMatrix::F32(self.view(x, t)?)),
            Data::F64(x) => return Ok(AnyMatrix::F64(self.view(x, t)?)),
            Data::U8(x) => Codes::from(self.view(x, t)?),
            Data::U16(x) => self.view(x, t)?.into(),
            Data::U32(x) => self.view(x, t)?.into(),
            Data::U64(x) => self.view(x, t)?.into(),
        };
        self.check_patterns(format)?;
        Ok(AnyMatrix::Codes(codes))
    }

    /// Whether bit patterns, if such they are, are codes of a format.
    fn check_patterns(&self, format: &FormatSpec) -> Result<(), Failure> {
        let Some(width) = self.pattern_width() else { return Ok(()) };
        let bits = format.storage_bits;
        if width != bits.next_power_of_two().max(8) {
            return Err(message(&self.name, format!("{width} bits per element, but {format} has {bits}")));
        }
        let largest = match &self.data {
            Data::U8(x) => x.iter().max().map_or(0, |&x| x.into()),
            Data::U16(x) => x.iter().max().map_or(0, |&x| x.into()),
            Data::U32(x) => x.iter().max().map_or(0, |&x| x.into()),
            Data::U64(x) => x.iter().max().map_or(0, |&x| x),
            _ => 0,
        };
        if largest > format.code_mask() {
            let packed = if bits < 8 { "; packed codes are read with --packed" } else { "" };
            let why = format!("{largest:#x} is no code of {format}, which has {bits} bits{packed}");
            return Err(message(&self.name, why));
        }
        Ok(())
    }

    /// The matrix `t` as a place for codes.
    pub(crate) fn target(&mut self, t: usize) -> Result<CodesMut<'_>, Failure> {
        let (shape, offset, [_, row, column]) = (self.shape, self.offset(t), self.strides);
        fn place<T>(
            data: &mut [T],
            shape: [usize; 2],
            strides: [isize; 2],
            at: usize,
        ) -> Result<ViewMut<'_, T>, Failure> {
            Ok(ViewMut::from_slice(data, shape, strides, at)?)
        }
        let strides = [row, column];
        Ok(match &mut self.data {
            Data::U8(x) => CodesMut::U8(place(x, shape, strides, offset)?),
            Data::F16(x) | Data::U16(x) => CodesMut::U16(place(x, shape, strides, offset)?),
            Data::U32(x) => CodesMut::U32(place(x, shape, strides, offset)?),
            Data::U64(x) => CodesMut::U64(place(x, shape, strides, offset)?),
            Data::F32(_) | Data::F64(_) => return Err(message(&self.name, "values are no place for codes")),
        })
    }

    /// The bits of element (i, j) of matrix t.
    pub(crate) fn code(&self, [t, i, j]: [usize; 3]) -> u64 {
        let [_, row, column] = self.strides;
        let at = self.offset(t) + i * row as usize + j * column as usize;
        match &self.data {
            Data::F16(x) | Data::U16(x) => x[at].into(),
            Data::F32(x) => x[at].to_bits().into(),
            Data::F64(x) => x[at].to_bits(),
            Data::U8(x) => x[at].into(),
            Data::U32(x) => x[at].into(),
            Data::U64(x) => x[at],
        }
    }

    /// Every element's place, matrix by matrix, row by row.
    pub(crate) fn places(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let ([rows, columns], batch) = (self.shape, self.batch.unwrap_or(1));
        (0..batch).flat_map(move |t| (0..rows).flat_map(move |i| (0..columns).map(move |j| [t, i, j])))
    }

    /// How many of a file's values `which` picks; bit patterns are none.
    pub(crate) fn count(&self, which: impl Fn(f64) -> bool) -> usize {
        self.all_values().filter(|&x| which(x)).count()
    }

    /// Whether `which` picks some value, as in [`Self::count`].
    pub(crate) fn any(&self, which: impl Fn(f64) -> bool) -> bool {
        self.all_values().any(which)
    }

    /// A file's values in memory order; of bit patterns none.
    fn all_values(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match &self.data {
            Data::F16(x) => Box::new(x.iter().map(|&x| half::f16::from_bits(x).into())),
            Data::F32(x) => Box::new(x.iter().map(|&x| x.into())),
            Data::F64(x) => Box::new(x.iter().copied()),
            _ => Box::new([].into_iter()),
        }
    }

    pub(crate) const fn is_double(&self) -> bool {
        matches!(self.data, Data::F64(_))
    }

    /// The same values in f32.
    pub(crate) fn single(&self, round: Rounding, overflow: Overflow) -> Self {
        let code = |x: f64| F32.encode_f64(x, round, overflow).unwrap_or_else(|_| F32.max_code(x < 0.0));
        let values = self.all_values().map(|x| f32::from_bits(code(x) as u32)).collect();
        let Self { batch, shape, dimensions, strides, .. } = *self;
        Self { batch, shape, dimensions, strides, data: Data::F32(values), name: self.name.clone() }
    }

    /// Frees the elements; the shape remains.
    pub(crate) fn clear(&mut self) {
        each!(&mut self.data, x => *x = Vec::new());
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        each!(&self.data, x => x.len())
    }

    /// In how many elements two arrays of one shape differ in their bits, and where first; of a format whose NaNs are
    /// any NaN, those do not.
    pub(crate) fn differences(&self, other: &Self, any_nan: Option<&FormatSpec>) -> (usize, Option<[usize; 3]>) {
        let mut differ = self.places().filter(|&at| differ(self.code(at), other.code(at), any_nan));
        let first = differ.next();
        (differ.count() + usize::from(first.is_some()), first)
    }

    /// The format of the elements' values; bit patterns are in `format`.
    pub(crate) fn format(&self, format: &FormatSpec) -> FormatSpec {
        match self.data {
            Data::F16(_) => F16,
            Data::F32(_) => F32,
            Data::F64(_) => F64,
            _ => *format,
        }
    }

    /// The values of matrix `t`.
    pub(crate) fn values(&self, t: usize, format: &FormatSpec) -> Array2<f64> {
        let format = self.format(format);
        Array2::from_shape_fn(self.shape, |(i, j)| format.to_f64(self.code([t, i, j])))
    }

    /// Bits per element of a file of bit patterns.
    pub(crate) const fn pattern_width(&self) -> Option<u32> {
        match self.data {
            Data::U8(_) => Some(8),
            Data::U16(_) => Some(16),
            Data::U32(_) => Some(32),
            Data::U64(_) => Some(64),
            _ => None,
        }
    }

    /// A vector of f32 values, for scales and biases.
    pub(crate) fn vector(&self, length: usize, what: &str) -> Result<Vec<f32>, Failure> {
        let [rows, columns] = self.shape;
        if self.pattern_width().is_some() || self.batch.is_some() || rows.min(columns) > 1 || self.len() != length {
            let batch = self.batch.map_or(String::new(), |b| format!("{b} x "));
            let kind = if self.pattern_width().is_some() { "unsigned integers" } else { "floats" };
            let why = format!("expected {length} floats, {what}, but found {batch}{rows} x {columns} {kind}");
            return Err(message(&self.name, why));
        }
        Ok(self.values(0, &F32).iter().map(|&x| x as f32).collect())
    }

    /// Writes codes of a format: f16, f32 and f64 as floats unless `bits` asks for patterns, everything
    /// else as unsigned integers. `shape` is that of the file.
    pub(crate) fn write(&self, to: &Target, shape: &[usize], format: &FormatSpec, bits: bool) -> Result<(), Failure> {
        let name = if bits { "" } else { format.name };
        to.write(|out| match &self.data {
            Data::U16(x) if name == "f16" => put(out, shape, x, |x| half::f16::from_bits(*x)),
            Data::U32(x) if name == "f32" => put(out, shape, x, |x| f32::from_bits(*x)),
            Data::U64(x) if name == "f64" => put(out, shape, x, |x| f64::from_bits(*x)),
            Data::F32(x) => put(out, shape, x, |x| *x),
            Data::F64(x) => put(out, shape, x, |x| *x),
            Data::U8(x) => put(out, shape, x, |x| *x),
            Data::F16(x) | Data::U16(x) => put(out, shape, x, |x| *x),
            Data::U32(x) => put(out, shape, x, |x| *x),
            Data::U64(x) => put(out, shape, x, |x| *x),
        })
    }
}

fn read_data(npy: NpyFile<BufReader<File>>, name: &str, length: u64) -> Result<Data, Failure> {
    let dtype = npy.dtype();
    let DType::Plain(ty) = &dtype else { return Err(message(name, "this is a structured array, not a matrix")) };
    let elements = npy.shape().iter().try_fold(1u64, |n, &size| n.checked_mul(size));
    if elements.and_then(|n| n.checked_mul(ty.size_field())).is_none_or(|n| n > length) {
        let why = format!("the file is cut short: {:?} of {ty} do not fit in {length} bytes", npy.shape());
        return Err(message(name, why));
    }
    Ok(match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 2) => {
            Data::F16(all::<half::f16, _>(npy, name)?.into_iter().map(half::f16::to_bits).collect())
        }
        (TypeChar::Float, 4) => Data::F32(all(npy, name)?),
        (TypeChar::Float, 8) => Data::F64(all(npy, name)?),
        (TypeChar::Uint, 1) => Data::U8(all(npy, name)?),
        (TypeChar::Uint, 2) => Data::U16(all(npy, name)?),
        (TypeChar::Uint, 4) => Data::U32(all(npy, name)?),
        (TypeChar::Uint, 8) => Data::U64(all(npy, name)?),
        _ => {
            let expected = "floats of 2, 4 or 8 bytes (values) or unsigned integers (bit patterns)";
            let hint = if matches!(ty.type_char(), TypeChar::RawData) && matches!(ty.size_field(), 1 | 2 | 4) {
                // As NumPy writes types of other packages, such as ml_dtypes' bfloat16.
                format!(": if these are a format's codes, save x.view(np.uint{})", 8 * ty.size_field())
            } else {
                String::new()
            };
            return Err(message(name, format!("expected {expected}, but found {ty}{hint}")));
        }
    })
}

/// Refuses absurd sizes before the parser multiplies them.
fn check_size(path: &Path, length: u64) -> Result<(), String> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(MAX_HEADER).read_to_end(&mut start).map_err(|e| e.to_string())?;
    if !start.starts_with(b"\x93NUMPY") {
        return Err("it is no .npy file, as numpy.save writes them".into());
    }
    // From version 2 on a header's length takes 4 bytes.
    let size = start.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |&size| u32::from_le_bytes(size));
    if start.get(6).is_some_and(|&version| version > 1) && u64::from(size) > length {
        return Err(format!("the file is cut short: its header does not fit in {length} bytes"));
    }
    let header = match start.get(6) {
        Some(1) => u64::from(size & 0xFFFF),
        _ => u64::from(size),
    };
    if start.len() > 10 && header > MAX_HEADER - 12 {
        return Err(format!("a header of {header} bytes is no matrix's"));
    }
    let text = String::from_utf8_lossy(&start).replace('"', "'");
    // The parser's time doubles with every bracket inside of another. One holds everything.
    let brackets = text.bytes().take(header as usize + 12).filter(|b| b"[{".contains(b)).count();
    if brackets > 5 {
        return Err("arrays of structures are no matrices".into());
    }
    let shape =
        text.split_once("'shape'").and_then(|(_, rest)| rest.split_once('(')).and_then(|(_, x)| x.split_once(')'));
    let Some((shape, _)) = shape else { return Ok(()) };
    let sizes = shape.split(',').map(str::trim).filter(|x| !x.is_empty()).map(str::parse::<u64>);
    let Ok(sizes) = sizes.collect::<Result<Vec<_>, _>>() else {
        return Err(format!("({shape}) is no shape of an array"));
    };
    // Of no elements, too, as NumPy has it; of bits, too.
    let mut nonzero = sizes.iter().filter(|&&n| n > 0);
    if nonzero.try_fold(8u64, |all, &n| all.checked_mul(n)).is_none_or(|n| n > i64::MAX as u64) {
        return Err(format!("({shape}) is larger than any memory"));
    }
    let elements = sizes.into_iter().try_fold(1u64, u64::checked_mul);
    match elements {
        // Every element takes a byte at least.
        Some(n) if n <= length => Ok(()),
        _ => Err(format!("the file is cut short: ({shape}) elements do not fit in {length} bytes")),
    }
}

/// Headers of matrices are far shorter.
const MAX_HEADER: u64 = 4096;

fn all<T: Deserialize, R: Read>(npy: NpyFile<R>, name: &str) -> Result<Vec<T>, Failure> {
    npy.into_vec().map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => message(name, "the file is cut short"),
        _ => message(name, e),
    })
}

fn put<T, U: npyz::AutoSerialize>(
    out: &mut dyn Write,
    shape: &[usize],
    data: &[T],
    f: impl Fn(&T) -> U,
) -> std::io::Result<()> {
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(out).begin_nd()?;
    writer.extend(data.iter().map(f))?;
    writer.finish()
}

/// The format of a result named by the user.
pub(crate) fn output_format(name: &str) -> Result<FormatSpec, String> {
    match name.to_ascii_lowercase().as_str() {
        "f32" => Ok(F32),
        "f16" => Ok(F16),
        "bf16" => Ok(BF16),
        "f64" => Ok(F64),
        _ => Err("expected f32, f16 or bf16 (f64 on f64 units)".into()),
    }
}
