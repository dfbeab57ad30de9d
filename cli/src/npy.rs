//! Matrices in `.npy` files: floats are values, unsigned integers are bit patterns.

use crate::io::Failure;
use gemmulate::format::{BF16, F16, F32, F64, FormatSpec};
use gemmulate::gemm::{AnyMatrix, Codes};
use gemmulate::view::View;
use ndarray::Array2;
use npyz::{DType, Deserialize, NpyFile, Order, TypeChar, WriterBuilder};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Elements as a file holds them; f16 by its bits.
#[derive(Debug)]
pub(crate) enum Data {
    F16(Vec<u16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// A matrix read from a file, in whichever order the file has.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) shape: [usize; 2],
    strides: [isize; 2],
    pub(crate) data: Data,
    name: String,
}

fn message(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Message(format!("{name}: {why}"))
}

impl Matrix {
    /// Reads a two-dimensional array.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| message(&name, e))?;
        let length = file.metadata().map_err(|e| message(&name, e))?.len();
        check_size(path, length).map_err(|e| message(&name, e))?;
        let npy = NpyFile::new(BufReader::new(file)).map_err(|e| message(&name, format!("no .npy file: {e}")))?;
        let &[rows, columns] = npy.shape() else {
            return Err(message(&name, format!("a matrix has 2 dimensions, but this array has {:?}", npy.shape())));
        };
        let shape = [rows, columns].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let dtype = npy.dtype();
        let DType::Plain(ty) = &dtype else { return Err(message(&name, "this is a structured array, not a matrix")) };
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(ty.size_field()));
        if bytes.is_none_or(|n| n > length) {
            let why = format!("the file is cut short: {rows} x {columns} of {ty} do not fit in {length} bytes");
            return Err(message(&name, why));
        }
        let strides = match npy.order() {
            Order::C => [shape[1] as isize, 1],
            Order::Fortran => [1, shape[0] as isize],
        };
        let data = match (ty.type_char(), ty.size_field()) {
            (TypeChar::Float, 2) => {
                Data::F16(all::<half::f16, _>(npy, &name)?.into_iter().map(half::f16::to_bits).collect())
            }
            (TypeChar::Float, 4) => Data::F32(all(npy, &name)?),
            (TypeChar::Float, 8) => Data::F64(all(npy, &name)?),
            (TypeChar::Uint, 1) => Data::U8(all(npy, &name)?),
            (TypeChar::Uint, 2) => Data::U16(all(npy, &name)?),
            (TypeChar::Uint, 4) => Data::U32(all(npy, &name)?),
            (TypeChar::Uint, 8) => Data::U64(all(npy, &name)?),
            _ => {
                let expected = "floats of 2, 4 or 8 bytes (values) or unsigned integers (bit patterns)";
                return Err(message(&name, format!("expected {expected}, but found {ty}")));
            }
        };
        Ok(Self { shape, strides, data, name })
    }

    fn strided<'a, T>(&self, data: &'a [T]) -> Result<View<'a, T>, Failure> {
        Ok(View::from_slice(data, self.shape, self.strides, 0)?)
    }

    /// The matrix as an operand. Bit patterns are codes of `format`, which must have them.
    pub(crate) fn operand(&self, format: &FormatSpec) -> Result<AnyMatrix<'_>, Failure> {
        let codes = match &self.data {
            Data::F16(x) => return Ok(AnyMatrix::Typed(self.strided(x)?.into(), F16)),
            Data::F32(x) => return Ok(AnyMatrix::F32(self.strided(x)?)),
            Data::F64(x) => return Ok(AnyMatrix::F64(self.strided(x)?)),
            Data::U8(x) => Codes::from(self.strided(x)?),
            Data::U16(x) => self.strided(x)?.into(),
            Data::U32(x) => self.strided(x)?.into(),
            Data::U64(x) => self.strided(x)?.into(),
        };
        let largest = match &self.data {
            Data::U8(x) => x.iter().max().map(|&x| x.into()),
            Data::U16(x) => x.iter().max().map(|&x| x.into()),
            Data::U32(x) => x.iter().max().map(|&x| x.into()),
            Data::U64(x) => x.iter().max().copied(),
            _ => None,
        };
        let largest = largest.unwrap_or(0);
        if largest > format.code_mask() {
            let bits = format.storage_bits;
            return Err(message(&self.name, format!("{largest:#x} is no code of {format}, which has {bits} bits")));
        }
        if codes.width() > format.storage_bits.next_power_of_two().max(8) {
            let why = format!("{} bits per element, but {format} has {}", codes.width(), format.storage_bits);
            return Err(message(&self.name, why));
        }
        Ok(AnyMatrix::Codes(codes))
    }

    /// The elements' bits.
    pub(crate) fn codes(&self) -> Result<Array2<u64>, Failure> {
        Ok(match &self.data {
            Data::F16(x) | Data::U16(x) => collect(&self.strided(x)?, |&x| x.into()),
            Data::F32(x) => collect(&self.strided(x)?, |x| x.to_bits().into()),
            Data::F64(x) => collect(&self.strided(x)?, |x| x.to_bits()),
            Data::U8(x) => collect(&self.strided(x)?, |&x| x.into()),
            Data::U32(x) => collect(&self.strided(x)?, |&x| x.into()),
            Data::U64(x) => collect(&self.strided(x)?, |&x| x),
        })
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

    /// The elements' values.
    pub(crate) fn values(&self, format: &FormatSpec) -> Result<Array2<f64>, Failure> {
        let format = self.format(format);
        Ok(self.codes()?.mapv(|code| format.to_f64(code)))
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
}

/// Refuses absurd sizes before the parser multiplies them.
fn check_size(path: &Path, length: u64) -> Result<(), String> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(MAX_HEADER).read_to_end(&mut start).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&start);
    let shape =
        text.split_once("'shape'").and_then(|(_, rest)| rest.split_once('(')).and_then(|(_, x)| x.split_once(')'));
    let Some((shape, _)) = shape else { return Ok(()) };
    let sizes = shape.split(',').map(str::trim).filter(|x| !x.is_empty()).map(str::parse::<u64>);
    let elements = sizes.map(Result::ok).try_fold(1u64, |n, size| n.checked_mul(size?));
    match elements {
        // Every element takes a byte at least.
        Some(n) if n <= length => Ok(()),
        _ => Err(format!("the file is cut short: ({shape}) elements do not fit in {length} bytes")),
    }
}

/// Headers of matrices are far shorter.
const MAX_HEADER: u64 = 4096;

fn collect<T>(view: &View<'_, T>, f: impl Fn(&T) -> u64) -> Array2<u64> {
    let [rows, columns] = view.shape();
    Array2::from_shape_fn((rows, columns), |(i, j)| view.get(i, j).map_or(0, &f))
}

fn all<T: Deserialize, R: Read>(npy: NpyFile<R>, name: &str) -> Result<Vec<T>, Failure> {
    npy.into_vec().map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => message(name, "the file is cut short"),
        _ => message(name, e),
    })
}

/// Writes codes of a format: f16, f32 and f64 as floats unless `bits` asks for patterns, everything
/// else as unsigned integers. The file appears whole or not at all.
pub(crate) fn write(path: &Path, codes: &Array2<u64>, format: &FormatSpec, bits: bool) -> Result<(), Failure> {
    let name = path.display().to_string();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| message(&name, e))?;
    let mut out = BufWriter::new(&mut file);
    let written = match (format.name, format.storage_bits) {
        ("f16", _) if !bits => put(&mut out, codes, |x| half::f16::from_bits(x as u16)),
        ("f32", _) if !bits => put(&mut out, codes, |x| f32::from_bits(x as u32)),
        ("f64", _) if !bits => put(&mut out, codes, f64::from_bits),
        (_, 0..=8) => put(&mut out, codes, |x| x as u8),
        (_, 9..=16) => put(&mut out, codes, |x| x as u16),
        (_, 17..=32) => put(&mut out, codes, |x| x as u32),
        _ => put(&mut out, codes, |x| x),
    };
    written.and_then(|()| out.flush()).map_err(|e| message(&name, e))?;
    drop(out);
    file.persist(path).map_err(|e| message(&name, e.error))?;
    Ok(())
}

fn put<T: npyz::AutoSerialize>(out: impl Write, codes: &Array2<u64>, f: impl Fn(u64) -> T) -> std::io::Result<()> {
    let shape = [codes.nrows() as u64, codes.ncols() as u64];
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(out).begin_nd()?;
    writer.extend(codes.iter().map(|&x| f(x)))?;
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
