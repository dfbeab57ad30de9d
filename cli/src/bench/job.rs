//! What is timed: a unit's product of numbers that are easy or hard.

use super::Args;
use crate::io::Failure;
use core::fmt;
use core::str::FromStr;
use gemmulate::Unit;
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::gemm::{Codes, CodesMut, Gemm, Workspace};
use gemmulate::round::Rounding;
use gemmulate::view::{View, ViewMut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// M, N and K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Size {
    /// Multiplications.
    pub(super) fn macs(self) -> f64 {
        self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let (m, n, k) = match numbers.as_deref() {
            Ok(&[n]) => (n, n, n),
            Ok(&[m, n, k]) => (m, n, k),
            _ => return Err("N or MxNxK, such as 1024 or 1x4096x4096, is meant".into()),
        };
        let elements = [(m, n), (m, k), (k, n)].map(|(x, y)| x.saturating_mul(y));
        if [m, n, k].contains(&0) || elements.iter().any(|e| *e > 1 << 27) {
            return Err("every matrix needs at least one element and at most 2^27".into());
        }
        Ok(Self { m, n, k })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)
    }
}

/// What the operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Data {
    /// Normally distributed numbers
    Normal,
    /// ... 1% of them subnormal
    Subnormals,
    /// ... 1% of them zero
    Zeros,
    /// ... with an infinity or NaN in 1% of A's rows
    SpecialRows,
    /// ... one of A in 10^5 infinite
    Specials,
    /// All finite bit patterns
    Patterns,
}

impl Data {
    /// An element of A, with its place, or of B.
    fn code(self, spec: &FormatSpec, of_a: Option<[usize; 2]>, random: &mut ChaCha8Rng) -> u64 {
        let encode = |x: f64| spec.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap_or_default();
        let infinity = spec.infinity_code(false).or(spec.nan_code(gemmulate::special::NanRule::AllOnes));
        let mut one_in = |n: u32| random.random_ratio(1, n);
        match self {
            Self::Subnormals if one_in(100) => {
                let sign = u64::from(one_in(2)) << (spec.exponent_bits + spec.fraction_bits + spec.ignored_low_bits);
                let most = (1u64 << spec.fraction_bits) - 1;
                return (random.random_range(0..=most).max(1).min(most) << spec.ignored_low_bits) | sign;
            }
            Self::Zeros if one_in(100) => return 0,
            Self::SpecialRows if of_a.is_some_and(|[row, column]| row % 100 == 37 && column % 1000 == 500) => {
                return infinity.unwrap_or_default();
            }
            Self::Specials if of_a.is_some() && one_in(100_000) => return infinity.unwrap_or_default(),
            Self::Patterns => loop {
                let code = random.next_u64() >> (64 - spec.storage_bits);
                if spec.decode(code).is_finite() {
                    return code;
                }
            },
            _ => {}
        }
        encode(StandardNormal.sample(random))
    }
}

/// Codes as wide as their format stores them.
enum Stored {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

macro_rules! each {
    ($stored:expr, $wrap:ident, $view:ident, $shape:expr) => {
        match $stored {
            Stored::U8(x) => $wrap::U8($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U16(x) => $wrap::U16($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U32(x) => $wrap::U32($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
            Stored::U64(x) => $wrap::U64($view::from_slice(x, $shape, [$shape[1] as isize, 1], 0)?),
        }
    };
}

impl Stored {
    fn new(spec: &FormatSpec, size: usize, code: impl FnMut(usize) -> u64) -> Self {
        let codes = (0..size).map(code);
        match spec.storage_bits {
            0..=8 => Self::U8(codes.map(|x| x as u8).collect()),
            9..=16 => Self::U16(codes.map(|x| x as u16).collect()),
            17..=32 => Self::U32(codes.map(|x| x as u32).collect()),
            _ => Self::U64(codes.collect()),
        }
    }

    fn codes(&self, shape: [usize; 2]) -> Result<Codes<'_>, Failure> {
        Ok(each!(self, Codes, View, shape))
    }

    fn codes_mut(&mut self, shape: [usize; 2]) -> Result<CodesMut<'_>, Failure> {
        Ok(each!(self, CodesMut, ViewMut, shape))
    }

    fn get(&self, at: usize) -> u64 {
        match self {
            Self::U8(x) => x[at].into(),
            Self::U16(x) => x[at].into(),
            Self::U32(x) => x[at].into(),
            Self::U64(x) => x[at],
        }
    }
}

/// A unit's operands and result.
pub(super) struct Job {
    unit: Unit,
    size: Size,
    a: Stored,
    b: Stored,
    /// Block scales, lines first for A, blocks first for B.
    scales: Option<[Stored; 2]>,
    d: Stored,
}

impl Job {
    pub(super) fn new(unit: &Unit, size: Size, data: Data) -> Self {
        let (mut random, Size { m, n, k }) = (ChaCha8Rng::seed_from_u64(7), size);
        let scales = unit.scale.map(|rule| {
            let mut around_one = |lines: usize| {
                Stored::new(&rule.format, lines * k.div_ceil(rule.block), |_| {
                    let x = 2f64.powi(random.random_range(-2..=2));
                    rule.format.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap_or_default()
                })
            };
            [around_one(m), around_one(n)]
        });
        let mut operand = |spec: &FormatSpec, rows: usize, columns: usize, left: bool| {
            Stored::new(spec, rows * columns, |at| {
                data.code(spec, left.then_some([at / columns, at % columns]), &mut random)
            })
        };
        let (a, b) = (operand(&unit.a, m, k, true), operand(&unit.b, k, n, false));
        Self { unit: unit.clone(), size, a, b, scales, d: Stored::new(&unit.d, m * n, |_| 0) }
    }

    pub(super) fn run(&mut self, args: &Args, workspace: &mut Workspace) -> Result<(), Failure> {
        let (Size { m, n, k }, mut gemm) = (self.size, Gemm::on(&self.unit).threads(args.threads as usize));
        if let Some(isa) = args.isa {
            gemm = gemm.isa(isa);
        }
        if let (Some([a, b]), Some(rule)) = (&self.scales, self.unit.scale) {
            let blocks = k.div_ceil(rule.block);
            gemm = gemm.block_scales(&a.codes([m, blocks])?, &b.codes([blocks, n])?);
        }
        let (a, b) = (self.a.codes([m, k])?, self.b.codes([k, n])?);
        Ok(gemm.run_codes(&a, &b, self.d.codes_mut([m, n])?, workspace)?)
    }

    /// Compares some elements of D with the unit's own method, dot-add by dot-add.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let (Size { m, n, k: depth }, step) = (self.size, self.unit.shape.k);
        let mut random = ChaCha8Rng::seed_from_u64(11);
        for _ in 0..48 {
            let (i, j) = (random.random_range(0..m), random.random_range(0..n));
            let mut d = 0;
            for k in (0..depth).step_by(step) {
                let code = |from: &Stored, at: usize, p: usize| if p < depth { from.get(at) } else { 0 };
                let a: Vec<u64> = (k..k + step).map(|p| code(&self.a, i * depth + p, p)).collect();
                let b: Vec<u64> = (k..k + step).map(|p| code(&self.b, p * n + j, p)).collect();
                let (mut x, mut y) = (Vec::new(), Vec::new());
                if let (Some([sa, sb]), Some(rule)) = (&self.scales, self.unit.scale) {
                    let blocks = depth.div_ceil(rule.block);
                    for g in (k..k + step).step_by(rule.block).map(|p| p / rule.block) {
                        let one =
                            rule.format.encode_f64(1.0, Rounding::NearestEven, Overflow::Ieee).unwrap_or_default();
                        x.push(if g < blocks { sa.get(i * blocks + g) } else { one });
                        y.push(if g < blocks { sb.get(g * n + j) } else { one });
                    }
                }
                d = self.unit.dot_add_scaled_bits(&a, &b, d, &x, &y)?;
            }
            if d != self.d.get(i * n + j) {
                let unit = &self.unit;
                return Err(Failure::Message(format!("{unit}: D[{i}, {j}] is {:x}, not {d:x}", self.d.get(i * n + j))));
            }
        }
        Ok(())
    }
}
