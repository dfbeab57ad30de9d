//! The plan of a product: everything besides the operands that can change a bit of the result.

use super::plan_text;
use super::schedule::{Meaning, Schedule};
use crate::error::Error;
use crate::format::{BF16, F16, F32, F64, FormatSpec};
use crate::random::Random;
use crate::unit::Unit;
use core::fmt;
use core::str::FromStr;

/// Where the zeros go when a slice of K is no multiple of the block: docs/numerics.md, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tail {
    /// The slice's last block holds the left-over elements, then zeros (CUTLASS 3.x, TMA).
    Last,
    /// The slice's first block holds its first elements, then zeros; full blocks follow (CUTLASS 2.x).
    First,
}

/// What the accumulator holds before the first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// +0, as kernels do; C enters in the epilogue.
    Zero,
    /// C itself: only with alpha = beta = 1 and one plain chain.
    C,
}

/// Which blocks of K the slices of a split K take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slices {
    /// Slice after slice.
    Contiguous,
    /// In turn: slice s of S takes blocks s, s + S, s + 2 S, ... (cuBLAS's xmma kernels, seen on an H100:
    /// docs/hardware.md).
    Interleaved,
}

/// How the partial sums of a split K are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitMode {
    /// f32 sums in slice order, then one epilogue.
    Parallel,
    /// Every slice runs the epilogue on the previous slice's D, rounded to the output type.
    Serial,
    /// Every slice is added to D in memory, in a given or seeded order.
    Atomic,
}

/// In which order the slices of an atomic split arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub(crate) enum AtomicOrder {
    /// First slice first.
    Ascending,
    /// The k-th entry names the slice added k-th.
    Given(Vec<usize>),
    /// A permutation drawn from a seed (Fisher-Yates over SplitMix64).
    Seed(u64),
}

/// How alpha, beta and C enter: docs/numerics.md, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Epilogue {
    /// `fma(alpha, acc, beta * C)` (CUTLASS 2.x).
    TwoX,
    /// `fma(beta, C, alpha * acc)` (CUTLASS 3.x).
    ThreeX,
    /// There is none: alpha = 1 and beta = 0 (DeepGEMM).
    Plain,
    /// `fma(beta, C, alpha * acc rounded to D's format)`: cuBLAS's kernels for alpha = beta = 1 on an H100
    /// (docs/hardware.md).
    Rounded,
}

/// The kernels that presets imitate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// One instruction after another.
    InOrder,
    /// CUTLASS 2.x.
    Cutlass2,
    /// CUTLASS 3.x.
    Cutlass3,
    /// DeepGEMM, with block scales.
    DeepGemm,
}

impl Preset {
    /// All presets, with their names.
    pub const ALL: &[(Self, &'static str)] = &[
        (Self::InOrder, "in-order"),
        (Self::Cutlass2, "cutlass2"),
        (Self::Cutlass3, "cutlass3"),
        (Self::DeepGemm, "deepgemm"),
    ];
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL.iter().find(|(p, _)| p == self).map_or("?", |(_, name)| name))
    }
}

/// When the unit's accumulator is added to an f32 master and starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub(crate) enum Promotion {
    /// What the preset does on the unit at hand.
    Preset,
    /// Never.
    Never,
    /// Every so many elements of K.
    Every(usize),
}

/// How many rows of A, elements of K and columns of B share a promotion scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleBlocks {
    /// Rows of A per scale.
    pub rows: usize,
    /// Elements of K per scale.
    pub k: usize,
    /// Columns of B per scale.
    pub columns: usize,
}

impl ScaleBlocks {
    /// DeepGEMM's: 1 x 128 of A, 128 x 128 of B.
    pub const DEEPGEMM: Self = Self { rows: 1, k: 128, columns: 128 };
}

/// A GEMM kernel's decisions, as far as they can change a bit: docs/numerics.md, section 6.
///
/// A plan starts from a preset and is changed by its methods; it prints as text and is read back.
///
/// ```
/// use gemmulate::Plan;
/// let plan = Plan::cutlass3().block(128, 128, 64).split_k(4);
/// assert_eq!(plan.to_string(), "cutlass3 block=128x128x64 split-k=4");
/// assert_eq!("cutlass3 split-k=4 block=128x128x64".parse::<Plan>()?, plan);
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", try_from = "String")
)]
pub struct Plan {
    pub(crate) preset: Preset,
    pub(crate) block: Option<[usize; 3]>,
    pub(crate) tail: Tail,
    pub(crate) start: Start,
    pub(crate) slices: usize,
    pub(crate) split_align: Option<usize>,
    pub(crate) slicing: Slices,
    pub(crate) mode: SplitMode,
    pub(crate) order: AtomicOrder,
    pub(crate) flush: bool,
    pub(crate) stream_k: Option<usize>,
    pub(crate) promotion: Promotion,
    pub(crate) scales: Option<ScaleBlocks>,
    pub(crate) epilogue: Epilogue,
    pub(crate) output: Option<FormatSpec>,
}

impl Default for Plan {
    fn default() -> Self {
        Self::in_order()
    }
}

impl From<Preset> for Plan {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::InOrder => Self::in_order(),
            Preset::Cutlass2 => Self::cutlass2(),
            Preset::Cutlass3 => Self::cutlass3(),
            Preset::DeepGemm => Self::deepgemm(),
        }
    }
}

impl Plan {
    /// One instruction after another in K order: the loop a person would write.
    pub fn in_order() -> Self {
        Self {
            preset: Preset::InOrder,
            block: None,
            tail: Tail::Last,
            start: Start::Zero,
            slices: 1,
            split_align: None,
            slicing: Slices::Contiguous,
            mode: SplitMode::Parallel,
            order: AtomicOrder::Ascending,
            flush: true,
            stream_k: None,
            promotion: Promotion::Preset,
            scales: None,
            epilogue: Epilogue::ThreeX,
            output: None,
        }
    }

    /// CUTLASS 2.x: 128 x 128 x 64 bytes of K, tail first, serial split-K, `fma(alpha, acc, beta C)`.
    pub fn cutlass2() -> Self {
        Self {
            preset: Preset::Cutlass2,
            tail: Tail::First,
            mode: SplitMode::Serial,
            epilogue: Epilogue::TwoX,
            ..Self::in_order()
        }
    }

    /// CUTLASS 3.x: 128 x 128 x 128 bytes of K, tail last; fp8 on Hopper's `wgmma` is promoted every 128 elements.
    pub fn cutlass3() -> Self {
        Self { preset: Preset::Cutlass3, ..Self::in_order() }
    }

    /// DeepGEMM: 128 x 128 x 128, promoted every 128 elements with block scales, no alpha and beta.
    pub fn deepgemm() -> Self {
        Self {
            preset: Preset::DeepGemm,
            scales: Some(ScaleBlocks::DEEPGEMM),
            epilogue: Epilogue::Plain,
            ..Self::in_order()
        }
    }

    /// Sets the block: BM x BN matter to stream-K only, BK is a multiple of the unit's K.
    #[must_use]
    pub const fn block(mut self, m: usize, n: usize, k: usize) -> Self {
        self.block = Some([m, n, k]);
        self
    }

    /// Cuts K into so many slices, each a chain of its own.
    #[must_use]
    pub const fn split_k(mut self, slices: usize) -> Self {
        self.slices = slices;
        self
    }

    /// Makes the slices of a split K multiples of so many elements, instead of blocks, all but the last.
    ///
    /// CUTLASS 2.x's `GemmUniversal` and cuBLAS's kernels made of it take 16 bytes: 4 of tf32, 8 of f16, with
    /// [`Tail::First`] (seen on an H100: docs/hardware.md).
    #[must_use]
    pub const fn split_align(mut self, elements: usize) -> Self {
        self.split_align = Some(elements);
        self
    }

    /// Says which blocks the slices of a split K take.
    #[must_use]
    pub const fn slices(mut self, slices: Slices) -> Self {
        self.slicing = slices;
        self
    }

    /// Says how the slices are put together.
    #[must_use]
    pub const fn split_mode(mut self, mode: SplitMode) -> Self {
        self.mode = mode;
        self
    }

    /// Atomic additions in a given order: the k-th entry names the slice added k-th.
    #[must_use]
    pub fn atomic_order(mut self, order: &[usize]) -> Self {
        (self.mode, self.order) = (SplitMode::Atomic, AtomicOrder::Given(order.to_vec()));
        self
    }

    /// Atomic additions in an order drawn from a seed.
    #[must_use]
    pub fn atomic_seed(mut self, seed: u64) -> Self {
        (self.mode, self.order) = (SplitMode::Atomic, AtomicOrder::Seed(seed));
        self
    }

    /// Whether f32 atomics flush subnormals, as PTX's `atom.add.f32` on global memory does (the default).
    #[must_use]
    pub const fn atomic_flush(mut self, flush: bool) -> Self {
        self.flush = flush;
        self
    }

    /// Stream-K with so many workers.
    #[must_use]
    pub const fn stream_k(mut self, workers: usize) -> Self {
        self.stream_k = Some(workers);
        self
    }

    /// Promotes the accumulator every so many elements of K.
    #[must_use]
    pub const fn promote(mut self, interval: usize) -> Self {
        self.promotion = Promotion::Every(interval);
        self
    }

    /// Switches promotion off, where the preset has it.
    #[must_use]
    pub const fn no_promotion(mut self) -> Self {
        self.promotion = Promotion::Never;
        self.scales = None;
        self
    }

    /// Says which elements share a promotion scale; `None` promotes without scales.
    #[must_use]
    pub const fn scale_blocks(mut self, scales: Option<ScaleBlocks>) -> Self {
        self.scales = scales;
        self
    }

    /// Says where the zeros of an incomplete block go.
    #[must_use]
    pub const fn tail(mut self, tail: Tail) -> Self {
        self.tail = tail;
        self
    }

    /// Says what the accumulator starts from.
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Says how alpha, beta and C enter.
    #[must_use]
    pub const fn epilogue(mut self, epilogue: Epilogue) -> Self {
        self.epilogue = epilogue;
        self
    }

    /// Says what D is rounded to: f64, f32, f16 or bf16. Without, and where [`Gemm::output`](super::Gemm::output) says
    /// nothing else, D is what the unit gives.
    #[must_use]
    pub const fn output(mut self, format: FormatSpec) -> Self {
        self.output = Some(format);
        self
    }

    /// What D is rounded to, where the plan says so.
    pub const fn output_format(&self) -> Option<FormatSpec> {
        self.output
    }

    /// Refuses a type of D that the unit, or the plan, excludes.
    pub(crate) fn check_output(&self, unit: &Unit, format: &FormatSpec) -> Result<(), Error> {
        let d = unit.d;
        let wide = if is_narrow(&d) { [F32, F16, BF16] } else { [F64, F32, F32] };
        if *format != d && !wide.contains(format) {
            let mut names = vec![d.name];
            names.extend(wide.iter().map(|f| f.name).filter(|name| *name != d.name));
            names.dedup();
            return Err(Error::Plan(format!("{unit} gives {}, not {format}", names.join(" or "))));
        }
        if self.mode == SplitMode::Atomic && ![F32, F64].contains(format) {
            return Err(Error::Plan(format!("there are no atomic additions in {format}, only in f32 and f64")));
        }
        Ok(())
    }

    /// The block on a unit: BM, BN, BK.
    pub fn block_on(&self, unit: &Unit) -> [usize; 3] {
        let shape = unit.shape;
        self.block.unwrap_or(match self.preset {
            Preset::InOrder => [shape.m, shape.n, shape.k],
            Preset::Cutlass2 => [128, 128, bytes_of_k(unit, 64)],
            Preset::Cutlass3 => [128, 128, bytes_of_k(unit, 128)],
            Preset::DeepGemm => [128, 128, 128],
        })
    }

    /// The promotion interval on a unit, if there is promotion.
    pub fn promotion_on(&self, unit: &Unit) -> Option<usize> {
        match (self.promotion, self.preset) {
            (Promotion::Every(interval), _) => Some(interval),
            (Promotion::Preset, Preset::DeepGemm) => Some(PROMOTION),
            (Promotion::Preset, Preset::Cutlass3) if is_hopper_fp8(unit) => Some(PROMOTION),
            _ => None,
        }
    }

    /// Whether every element of D is one chain of the unit's steps, whatever the size of D.
    pub(crate) fn is_one_chain(&self, unit: &Unit) -> bool {
        let several = self.slices > 1 || self.mode == SplitMode::Atomic || self.stream_k.is_some();
        !several && self.promotion_on(unit).is_none()
    }

    /// Which elements share a promotion scale, if products by this plan need promotion scales.
    pub const fn scale_widths(&self) -> Option<ScaleBlocks> {
        self.scales
    }

    /// The same plan with everything that the preset leaves to the unit written out.
    #[must_use]
    pub fn resolved(&self, unit: &Unit) -> Self {
        let promotion = self.promotion_on(unit).map_or(Promotion::Never, Promotion::Every);
        Self { block: Some(self.block_on(unit)), promotion, ..self.clone() }
    }

    /// Refuses a plan that the unit cannot run on an M x N x K product, with the reason.
    ///
    /// # Errors
    /// [`Error::Plan`].
    pub fn check(&self, unit: &Unit, m: usize, n: usize, k: usize) -> Result<(), Error> {
        Schedule::new(self, unit, m, n, k).map(drop)
    }

    /// The plans that a unit can run on an M x N x K product, those together that are one loop
    /// there, each once: they give the same bits whatever the operands. (Others may still happen to agree.)
    ///
    /// ```
    /// use gemmulate::{Plan, Unit};
    /// let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16")?;
    /// let split = |slices| Plan::cutlass3().split_k(slices);
    /// let plans = [Plan::in_order(), Plan::cutlass3(), split(2), split(2), split(99)];
    /// let loops = Plan::distinct_loops(plans, &unit, 64, 64, 256);
    /// assert_eq!(loops, [vec![Plan::in_order(), Plan::cutlass3()], vec![Plan::cutlass3().split_k(2)]]);
    /// # Ok::<(), gemmulate::Error>(())
    /// ```
    pub fn distinct_loops(
        plans: impl IntoIterator<Item = Self>,
        unit: &Unit,
        m: usize,
        n: usize,
        k: usize,
    ) -> Vec<Vec<Self>> {
        let mut loops: Vec<((Meaning, FormatSpec), Vec<Self>)> = Vec::new();
        for plan in plans {
            let Ok(schedule) = Schedule::new(&plan, unit, m, n, k) else { continue };
            let meaning = (schedule.meaning(), plan.output.unwrap_or(unit.d));
            match loops.iter_mut().find(|(known, _)| *known == meaning) {
                Some((_, same)) if same.contains(&plan) => {}
                Some((_, same)) => same.push(plan),
                None => loops.push((meaning, vec![plan])),
            }
        }
        loops.into_iter().map(|(_, plans)| plans).collect()
    }

    /// In which order the slices are added: a permutation.
    pub(crate) fn arrivals(&self) -> Vec<usize> {
        match &self.order {
            AtomicOrder::Given(order) => order.clone(),
            AtomicOrder::Ascending => (0..self.slices).collect(),
            AtomicOrder::Seed(seed) => {
                let mut order: Vec<usize> = (0..self.slices).collect();
                let mut random = Random::new(*seed);
                for i in (1..order.len()).rev() {
                    order.swap(i, random.below(i as u64 + 1) as usize);
                }
                order
            }
        }
    }
}

/// Whether f32 holds every number of a unit's d, so that its kernels work in f32.
pub(crate) fn is_narrow(d: &FormatSpec) -> bool {
    d.storage_bits <= 32 && F32.holds(d)
}

/// Elements of K per promotion, unless the plan says otherwise.
const PROMOTION: usize = 128;

/// So many bytes of K, in elements: fp6, and fp4 in K = 32 units, take a byte each; packed fp4 half a byte.
fn bytes_of_k(unit: &Unit, bytes: usize) -> usize {
    let packed = unit.shape.k == 64 && unit.a.storage_bits == 4 && unit.b.storage_bits == 4;
    let bits = if packed { 4 } else { unit.a.storage_bits.max(unit.b.storage_bits).max(8) };
    (bytes * 8 / bits as usize).next_multiple_of(unit.shape.k)
}

/// Hopper's fp8 `wgmma`, whose 13 fraction bits CUTLASS 3 works around.
fn is_hopper_fp8(unit: &Unit) -> bool {
    unit.name.starts_with("hopper/wgmma") && unit.shape.k == 32
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&plan_text::write(self))
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        plan_text::read(text)
    }
}
