//! What enters a product: matrices, scales and scalars from the command line.

use crate::io::Failure;
use crate::npy::{Array, Vectors};
use gemmulate::Unit;
use gemmulate::format::{F64, FormatSpec, Overflow};
use gemmulate::round::Rounding;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[derive(clap::Args)]
pub(crate) struct Operands {
    /// A: M x K, or a batch of them, or a vector of K
    a: PathBuf,
    /// B: K x N, or a batch of them, or a vector of K
    b: PathBuf,
    /// C: as D
    #[arg(short, long)]
    c: Option<PathBuf>,
    /// N floats, f32 whatever the unit, added to every row of D before it is rounded
    #[arg(long, value_name = "FILE")]
    bias: Option<PathBuf>,
    /// The factor of A B
    #[arg(long, default_value_t = 1.0, value_parser = finite)]
    alpha: f64,
    /// The factor of C [default: 1 if there is a C, else 0]
    #[arg(long, value_parser = finite)]
    beta: Option<f64>,
    /// Scales of A. On a block-scaled unit its block scales: a file of M x ceil(K / block); without,
    /// values are quantised. With a plan that takes promotion scales a file of those. Else one factor:
    /// a number (also in a file), or a file of M floats, one per row. Factors are f32, whatever the unit
    #[arg(long, value_name = "SCALES")]
    scale_a: Option<String>,
    /// Scales of B, likewise: ceil(K / block) x N block scales, or a number, or N floats, one per column.
    /// Two numbers are multiplied with one another first; else the sum by B's factor, then by A's
    #[arg(long, value_name = "SCALES")]
    scale_b: Option<String>,
    /// The files hold A and B transposed where named, and their scales: a, b or ab (weights often are N x K)
    #[arg(long, value_name = "WHICH", value_parser = ["a", "b", "ab"])]
    transposed: Option<String>,
    /// Bytes of fp4 and fp6 operands are packed along K, the first code in the lowest bits, as
    /// PyTorch's float4_e2m1fn_x2
    #[arg(long)]
    packed: bool,
    /// Block scales are in the 128x4-swizzled layout of cuBLASLt and torch._scaled_mm, in any shape
    #[arg(long)]
    swizzled: bool,
    /// How values are rounded to the unit's formats: rne rna rnz rnu rnd rno rz ra rd ru (NVFP4 is always
    /// rounded to nearest even) [default: rne]
    #[arg(long, value_name = "ROUNDING")]
    pub(crate) round: Option<Rounding>,
    /// What becomes of values beyond the unit's formats: inf (or the NaN of formats without one; an error where there
    /// is neither) or saturate (infinities, too). Files in the unit's own formats are taken as they are
    #[arg(long, value_parser = overflow, default_value = "inf")]
    overflow: Overflow,
    /// Threads; 0 for all there are. The result never depends on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn finite(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| "expected a finite number".into())
}

pub(crate) fn overflow(text: &str) -> Result<Overflow, String> {
    match text.to_ascii_lowercase().as_str() {
        "inf" | "ieee" => Ok(Overflow::Ieee),
        "saturate" => Ok(Overflow::Saturate),
        _ => Err("expected inf or saturate".into()),
    }
}

/// Scales as given.
pub(crate) enum Scales {
    Number(f32),
    File(Array),
}

impl Scales {
    fn transposed(self) -> Self {
        match self {
            Self::File(file) => Self::File(file.transposed()),
            number @ Self::Number(_) => number,
        }
    }
}

/// Everything read from files.
pub(crate) struct Inputs {
    pub(crate) a: Array,
    pub(crate) b: Array,
    pub(crate) c: Option<Array>,
    /// C in single precision, for units that are no wider.
    single_c: OnceLock<Array>,
    pub(crate) scales: [Option<Scales>; 2],
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) packed: bool,
    pub(crate) swizzled: bool,
    pub(crate) round: Rounding,
    pub(crate) overflow: Overflow,
    pub(crate) threads: usize,
}

pub(crate) fn failure(text: impl Into<String>) -> Failure {
    Failure::Message(text.into())
}

impl Inputs {
    /// Two matrices and nothing else.
    pub(crate) fn plain(a: &Path, b: &Path, round: Rounding, overflow: Overflow) -> Result<Self, Failure> {
        let (a, b) = (Array::read(a, Vectors::Row)?, Array::read(b, Vectors::Column)?);
        for (name, array) in [("A", &a), ("B", &b)] {
            if array.dimensions == 0 {
                return Err(failure(format!("{name} is a single number, but must be a vector, a matrix or a batch")));
            }
        }
        let (scales, bias, c) = ([None, None], None, None);
        let (packed, swizzled, threads) = (false, false, 0);
        let single_c = OnceLock::new();
        let inputs =
            Self { a, b, c, single_c, scales, bias, alpha: 1.0, beta: 0.0, packed, swizzled, round, overflow, threads };
        inputs.check_batches()?;
        Ok(inputs)
    }

    pub(crate) fn read(args: &Operands) -> Result<Self, Failure> {
        let mut inputs = Self::plain(&args.a, &args.b, args.round.unwrap_or(Rounding::NearestEven), args.overflow)?;
        let transposed = args.transposed.as_deref().unwrap_or_default();
        if transposed.contains('a') {
            inputs.a = inputs.a.transposed();
        }
        if transposed.contains('b') {
            inputs.b = inputs.b.transposed();
        }
        // A vector that goes with D is a row where A is one, else a column.
        let row_of = |vector: bool| if vector { Vectors::Row } else { Vectors::Column };
        let (along_a, along_b) = (row_of(inputs.a.dimensions == 1), row_of(inputs.b.dimensions != 1));
        inputs.c = args.c.as_deref().map(|c| Array::read(c, along_a)).transpose()?.map(|c| inputs.like_d(c));
        let scales = |name: &str, text: &Option<String>, vectors| -> Result<Option<Scales>, Failure> {
            let Some(text) = text else { return Ok(None) };
            Ok(Some(match text.parse::<f64>() {
                // As f32, which the factor is.
                Ok(x) if !(x as f32).is_finite() || (x != 0.0 && x as f32 == 0.0) => {
                    return Err(failure(format!("{name} must be a number that f32 holds, not {text}")));
                }
                Ok(x) => Scales::Number(x as f32),
                Err(_) => Scales::File(Array::read(Path::new(text), vectors)?),
            }))
        };
        inputs.scales = [scales("--scale-a", &args.scale_a, along_a)?, scales("--scale-b", &args.scale_b, along_b)?];
        for (scales, name) in inputs.scales.iter_mut().zip(['a', 'b']) {
            if transposed.contains(name) && !args.swizzled {
                *scales = scales.take().map(Scales::transposed);
            }
        }
        if let Some(path) = &args.bias {
            let n = inputs.b.shape[1];
            inputs.bias = Some(Array::read(path, Vectors::Row)?.vector(n, "one per column of D")?);
        }
        (inputs.alpha, inputs.packed, inputs.swizzled) = (args.alpha, args.packed, args.swizzled);
        inputs.beta = args.beta.unwrap_or(if inputs.c.is_some() { 1.0 } else { 0.0 });
        if inputs.beta != 0.0 && inputs.c.is_none() {
            return Err(failure("--beta is the factor of C: give C with -c"));
        }
        inputs.threads = args.threads;
        inputs.check_batches()?;
        Ok(inputs)
    }

    /// An array as D, if it has D's dimensions as they are written: a batch of products with a vector is a matrix.
    pub(crate) fn like_d(&self, array: Array) -> Array {
        let [m, n] = [self.a.shape[0], self.b.shape[1]];
        match self.batch() {
            Some(batch) if self.a.dimensions == 1 && array.shape == [batch, n] => array.rows_apart(Vectors::Row),
            Some(batch) if self.b.dimensions == 1 && array.shape == [batch, m] => array.rows_apart(Vectors::Column),
            _ => array,
        }
    }

    /// Every batch is of one size, or of one matrix for all.
    fn check_batches(&self) -> Result<(), Failure> {
        let files = self.scales.iter().flatten().filter_map(|s| match s {
            Scales::File(file) => Some(("scales", file)),
            Scales::Number(_) => None,
        });
        let all = [("A", &self.a), ("B", &self.b)].into_iter().chain(self.c.iter().map(|c| ("C", c))).chain(files);
        let batch = self.batch();
        for (name, array) in all {
            let found = array.batch.unwrap_or(1);
            if found != 1 && Some(found) != batch {
                let products = batch.unwrap_or(1);
                return Err(failure(format!("{name} is a batch of {found}, but A and B make {products} products")));
            }
        }
        Ok(())
    }

    /// How many products there are, if A or B is a batch.
    pub(crate) fn batch(&self) -> Option<usize> {
        match (self.a.batch, self.b.batch) {
            (Some(1) | None, Some(batch)) | (Some(batch), _) => Some(batch),
            (None, None) => None,
        }
    }

    /// Whether scales of A (0) or B (1) are given.
    pub(crate) const fn has_scales(&self, side: usize) -> bool {
        self.scales[side].is_some()
    }

    /// Whether an operand is to be unpacked to get at codes of a format.
    pub(crate) const fn is_packed(&self, file: &Array, format: &FormatSpec) -> bool {
        self.packed && format.storage_bits < 8 && matches!(file.pattern_width(), Some(8))
    }

    /// C as a unit's epilogue takes it: f64 is rounded, where the unit is no wider than f32.
    pub(crate) fn c_for(&self, unit: &Unit) -> Option<&Array> {
        let c = self.c.as_ref()?;
        if !c.is_double() || unit.d == F64 {
            return Some(c);
        }
        Some(self.single_c.get_or_init(|| c.single(self.round, self.overflow)))
    }

    /// Values are rounded like this from now on.
    pub(crate) fn round_by(&mut self, round: Rounding) {
        (self.round, self.single_c) = (round, OnceLock::new());
    }

    /// Whether C enters.
    pub(crate) const fn reads_c(&self) -> bool {
        self.beta != 0.0
    }
}
