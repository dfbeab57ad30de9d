//! From a [`Gemm`] to a product that can run: everything that can be wrong is found here, before a
//! result is written.

use super::builder::{Gemm, filled};
use super::convert::{Storing, Widening};
use super::driver::{Addend, Buffers, Product, Side};
use super::epilogue::{Finish, Scaling, Wide, nan_of};
use super::explain::{Log, Picked, Tracer};
use super::kernel::Kernel;
use super::operand::{Conversion, Matrix, Operand, Source};
use super::plan::{SplitMode, Start, is_narrow};
use super::schedule::Schedule;
use super::sink::Sink;
use super::small::{Batch, Single};
use super::tile::Shared;
use super::turned::Turned;
use super::workspace::{Workspace, has_current_pool, within};
use crate::arch::{ARCHITECTURES, is_amd};
use crate::error::Error;
use crate::format::{F32, F64, FormatSpec, Overflow};
use crate::round::Rounding;
use crate::simd;
use crate::special::NanRule;
use crate::unit::Unit;
use core::ops::Range;
use ndarray::{Array2, ArrayView2, Ix2};
use rayon::ThreadPool;
use std::borrow::Cow;

/// Multiply-adds of a product of several rows from which on it is worth it to make one of a batch: smaller ones are
/// computed tile by tile.
const STACKED: usize = 1 << 15;

/// Block scales.
#[derive(Clone, Debug)]
pub(super) struct Scales {
    shape: [usize; 2],
    /// Codes of the unit's scale format, which has at most 8 bits, or why they are none.
    codes: Result<Array2<u8>, Error>,
}

/// M, N and K of a product.
pub(super) fn check_product([m, k]: [usize; 2], [rows, n]: [usize; 2]) -> Result<[usize; 3], Error> {
    if rows != k {
        let found = format!("{rows} x {n}");
        return Err(Error::shape("B", format!("{k} x N (A is {m} x {k})"), found));
    }
    Ok([m, n, k])
}

/// C is read, but was not given.
pub(super) fn no_addend() -> Error {
    Error::Product("C is wanted (beta is not 0), but there is none".into())
}

impl Scales {
    /// Reads scales, which the unit's format must hold exactly.
    pub(super) fn new(name: &str, matrix: &(impl Matrix + ?Sized), unit: &Unit) -> Self {
        let reader = matrix.reader();
        let convert = matrix.format().zip(unit.scale.map(|rule| rule.format)).filter(|(from, to)| from != to);
        Self { shape: reader.shape(), codes: read_scales(name, &reader, convert) }
    }

    /// The scales, if they are as many as there must be.
    fn shaped(&self, name: &str, shape: [usize; 2]) -> Result<ArrayView2<'_, u8>, Error> {
        if self.shape != shape {
            let expected = format!("{} x {}, one scale per block of K", shape[0], shape[1]);
            return Err(Error::shape(name, expected, format!("{} x {}", self.shape[0], self.shape[1])));
        }
        Ok(self.codes.as_ref().map_err(Clone::clone)?.view())
    }
}

/// Codes of scales, of the second format if they are converted.
fn read_scales(
    name: &str,
    reader: &impl Source,
    convert: Option<(FormatSpec, FormatSpec)>,
) -> Result<Array2<u8>, Error> {
    convert.map_or(Ok(()), |(from, _)| from.check(name))?;
    let shape = reader.shape();
    let mut codes = filled(name, "scales", 0u8, Ix2(shape[0], shape[1]))?;
    if codes.is_empty() {
        // Its other side may be any number.
        return Ok(codes);
    }
    let Some((from, to)) = convert else {
        let mut row = vec![0; shape[1]];
        for (i, mut into) in codes.outer_iter_mut().enumerate() {
            reader.read_narrow([i..i + 1, 0..shape[1]], &mut row, shape[1]);
            into.iter_mut().zip(&row).for_each(|(to, code)| *to = *code as u8);
        }
        return Ok(codes);
    };
    let mut row = vec![0; shape[1]];
    for (i, mut into) in codes.outer_iter_mut().enumerate() {
        reader.read(i, 0, &mut row);
        for (j, (code, given)) in into.iter_mut().zip(&row).enumerate() {
            let name = |x: f64| format!("{name}[{i}, {j}] = {x:e}");
            *code = convert_scale(&name, from.to_f64(*given), &to)? as u8;
        }
    }
    Ok(codes)
}

/// The code of a scale that a format holds; `operand` names it.
fn convert_scale(operand: &dyn Fn(f64) -> String, x: f64, to: &FormatSpec) -> Result<u64, Error> {
    let code = to.encode_f64(x, Rounding::NearestEven, Overflow::Ieee);
    let code = code.map_err(|source| Error::Encode { operand: operand(x), source })?;
    if !x.is_nan() && to.to_f64(code) != x {
        return Err(Error::value(operand(x), format!("a number of {to}"), "between two"));
    }
    Ok(code)
}

impl<D> Gemm<'_, D> {
    /// D's format for results with elements of `spec`.
    pub(super) fn output_format(&self, spec: &FormatSpec) -> Result<FormatSpec, Error> {
        let format = self.wanted().unwrap_or(if spec.holds(&self.unit.d) { self.unit.d } else { *spec });
        self.plan.check_output(self.unit, &format)?;
        if *spec != format && !spec.holds(&format) {
            return Err(Error::Format { operand: "the result", expected: format.name, found: spec.name });
        }
        Ok(format)
    }

    /// D's format, where somebody said so.
    pub(super) fn wanted(&self) -> Option<FormatSpec> {
        self.output.or(self.plan.output)
    }

    /// Runs a product, or the part of it that is asked for.
    pub(super) fn compute(
        &self,
        request: &Request<'_>,
        sources: [&dyn Source; 2],
        sink: &mut dyn Sink,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        self.compute_batch(request, &mut Single { sources, sink }, workspace)
    }

    /// Runs products of one size, one after another: those that are small as tiles side by side.
    pub(super) fn compute_batch(
        &self,
        request: &Request<'_>,
        batch: &mut dyn Batch,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let hard = self.compute_small(request, batch, workspace)?;
        let (mut left, mut all);
        let products: &mut dyn Iterator<Item = usize> = match hard {
            Some(hard) if hard.is_empty() => return Ok(()),
            Some(hard) => {
                left = hard.into_iter();
                &mut left
            }
            None => {
                if let Some(outcome) = self.compute_stacked(request, batch, workspace) {
                    return outcome;
                }
                all = 0..batch.count();
                &mut all
            }
        };
        if self.compute_one_tile(request, batch, products, workspace)? {
            return Ok(());
        }
        for t in products {
            batch.product(t, &mut |sources, sink| self.compute_one(request, sources, false, sink, workspace))?;
        }
        Ok(())
    }

    /// Runs a batch with one B as a single product, where no element of D is computed in another way by that: its chain
    /// is the same wherever it stands.
    fn compute_stacked(
        &self,
        request: &Request<'_>,
        batch: &mut dyn Batch,
        workspace: &mut Workspace,
    ) -> Option<Result<(), Error>> {
        let own = request.formats == [Some(self.unit.a), Some(self.unit.b)];
        let alone = self.is_steps_alone(request) && self.plan.start == Start::Zero;
        if !own || !alone || !self.plan.is_one_chain(self.unit) {
            return None;
        }
        let mut few = false;
        let look = &mut |[a, b]: [&dyn Source; 2], _: &mut dyn Sink| {
            let ([m, k], [_, n]) = (a.shape(), b.shape());
            few = m > 1 && m.saturating_mul(n).saturating_mul(k) < STACKED;
            Ok(())
        };
        if batch.count() == 0 || batch.product(0, look).is_err() || few {
            return None;
        }
        batch.stacked(&mut |sources, sink| self.compute_one(request, sources, false, sink, workspace))
    }

    /// Runs a product block by block; or, `turned`, one of B^T by A^T.
    fn compute_one(
        &self,
        request: &Request<'_>,
        sources: [&dyn Source; 2],
        turned: bool,
        sink: &mut dyn Sink,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let [m, n, k] = check_product(sources[0].shape(), sources[1].shape())?;
        if sink.shape() != [m, n] {
            let [rows, columns] = sink.shape();
            return Err(Error::shape("D", format!("{m} x {n}"), format!("{rows} x {columns}")));
        }
        let schedule = Schedule::new(&self.plan, self.unit, m, n, k)?;
        schedule.check_scalars(self.alpha, self.factor_of_c())?;
        self.check_factors(&schedule)?;
        if let Some([a, b]) = self.turned(request, sources, &schedule) {
            return self.compute_one(request, [&a, &b], true, &mut Turned(sink), workspace);
        }
        let scales = if turned { self.unit_scales(n, m, k)?.map(|[a, b]| [b, a]) } else { self.unit_scales(m, n, k)? };
        let job = Job { request, sources, schedule: &schedule, scales };
        let (tracer, chosen);
        let kernel: &dyn Kernel = match request.log {
            Some(log) => {
                tracer = Tracer { unit: self.unit, log };
                &tracer
            }
            None => {
                chosen = workspace.kernel(self.unit, self.isa, m);
                &*chosen
            }
        };
        let pool = match self.threads {
            None | Some(1) => None,
            Some(threads) => Some(workspace.pool(threads)?),
        };
        let threaded = pool.is_some() || (self.threads.is_none() && has_current_pool());
        let how = Threads { pool: pool.as_deref(), threaded };
        if is_narrow(&self.unit.d) {
            self.compute_wide::<f32>(&job, kernel, how, sink, &mut workspace.narrow)
        } else {
            self.compute_wide::<f64>(&job, kernel, how, sink, &mut workspace.wide)
        }
    }

    /// Some elements of D, and how they came about if there is a log.
    pub(super) fn pick(
        &self,
        sources: [&dyn Source; 2],
        formats: [Option<FormatSpec>; 2],
        at: &[[usize; 2]],
        log: Option<&Log>,
    ) -> Result<Vec<u64>, Error> {
        let [m, n, _] = check_product(sources[0].shape(), sources[1].shape())?;
        if let Some([i, j]) = at.iter().find(|at| at[0] >= m || at[1] >= n) {
            return Err(Error::shape("the element", format!("within {m} x {n}"), format!("({i}, {j})")));
        }
        let out = self.wanted().unwrap_or(self.unit.d);
        self.plan.check_output(self.unit, &out)?;
        let mut picked = Picked::new([m, n], at);
        let parts = picked.parts();
        let request = Request { formats, in_place: None, out, only: Some(&parts), log };
        self.compute(&request, sources, &mut picked, &mut Workspace::new())?;
        Ok(picked.codes)
    }

    /// One element of D, and how it came about.
    pub(super) fn trace_element(
        &self,
        sources: [&dyn Source; 2],
        formats: [Option<FormatSpec>; 2],
        at: [usize; 2],
    ) -> Result<(u64, String), Error> {
        let log = Log::default();
        let code = self.pick(sources, formats, &[at], Some(&log))?[0];
        let value = self.wanted().unwrap_or(self.unit.d).to_f64(code);
        log.line(format_args!("D[{}, {}] = {code:x} = {value:?}", at[0], at[1]));
        Ok((code, log.into_text()))
    }

    fn compute_wide<W: Wide>(
        &self,
        job: &Job<'_>,
        kernel: &dyn Kernel,
        Threads { pool, threaded }: Threads<'_>,
        sink: &mut dyn Sink,
        buffers: &mut Buffers<W>,
    ) -> Result<(), Error> {
        let unit = self.unit;
        let (out, nan) = (job.request.out, vendor_nan(unit));
        let storing = |to: &FormatSpec| Storing::new::<W>(to, nan_of(to, nan));
        // As long as D is wide: that is checked.
        let bias = self.bias.as_ref().map(|bias| bias.to_slice().map_or_else(|| bias.to_vec().into(), Cow::Borrowed));
        let finish = Finish {
            alpha: scalar::<W>("alpha", self.alpha)?,
            beta: scalar::<W>("beta", self.factor_of_c())?,
            form: job.schedule.epilogue,
            scale_a: &self.scale_a,
            scale_b: &self.scale_b,
            bias: bias.as_deref(),
            out,
            storing: storing(&out),
            widening: Widening::new::<W>(&out),
            flush: job.schedule.flush,
        };
        let reads_c = finish.beta != W::default() || job.schedule.start == Start::C;
        let scales = self.promotion_scales.map(|[a, b]| (a, b));
        let shared = Shared {
            unit,
            kernel,
            schedule: job.schedule,
            finish,
            results: Widening::new::<W>(&unit.d),
            starting: storing(&unit.c),
            isa: simd::best(self.isa),
            reads_c,
            scales,
            log: job.request.log,
        };
        let side = |t: usize, name: &str, spec: FormatSpec| -> Result<Side<'_>, Error> {
            let operand = self.operand(name, job.sources[t], job.request.formats[t], &spec)?;
            Ok(Side { operand, spec, scales: job.scales.as_ref().map(|s| s[t].view()) })
        };
        let (a, b) = (side(0, "A", unit.a)?, side(1, "B", unit.b)?);
        let c = if reads_c { self.addend::<W>(job, sink)? } else { Addend::None };
        let product = Product { shared, a, b, c, threaded, progress: self.progress, only: job.request.only };
        match pool {
            // In the pool: parallel work that began on the caller's thread would go to the global pool.
            Some(pool) => within(pool, || product.run(sink, buffers))?,
            None => product.run(sink, buffers),
        }
    }

    pub(super) fn operand<'s>(
        &self,
        name: &str,
        source: &'s dyn Source,
        from: Option<FormatSpec>,
        to: &FormatSpec,
    ) -> Result<Operand<'s>, Error> {
        match from {
            Some(from) if from != *to => {
                from.check(name)?;
                let conversion = Conversion::new(from, *to, self.rounding, self.overflow, simd::best(self.isa));
                Operand::converted(name, source, conversion)
            }
            _ => {
                let width = source.codes().map_or(64, |codes| codes.width());
                if from.is_none() && width < to.storage_bits {
                    return Err(Error::shape(
                        name,
                        format!("codes of at least {} bits", to.storage_bits),
                        width.to_string(),
                    ));
                }
                Ok(Operand::codes(source))
            }
        }
    }

    /// C, found to widen exactly, and with a start at C to fit the unit.
    fn addend<'s, W: Wide>(&'s self, job: &Job<'_>, sink: &dyn Sink) -> Result<Addend<'s>, Error> {
        let shape = sink.shape();
        let (addend, spec) = match (&self.c, job.request.in_place) {
            (Some((source, spec)), _) => (Addend::Matrix(&**source, *spec), *spec),
            (None, Some(spec)) => (Addend::InPlace(spec), spec),
            (None, None) => return Err(no_addend()),
        };
        if let Some((source, _)) = self.c.as_ref().filter(|(source, _)| source.shape() != shape) {
            let [rows, columns] = source.shape();
            return Err(Error::shape("C", format!("{} x {}", shape[0], shape[1]), format!("{rows} x {columns}")));
        }
        spec.check("C")?;
        if !W::SPEC.holds(&spec) {
            return Err(Error::Format { operand: "C", expected: W::SPEC.name, found: spec.name });
        }
        if job.schedule.start == Start::C {
            self.check_start::<W>(&addend, &spec, shape, sink)?;
        }
        Ok(addend)
    }

    /// A start at C needs every element of C to be a number of the unit's c, with codes no wider than D's lanes.
    fn check_start<W: Wide>(
        &self,
        addend: &Addend<'_>,
        spec: &FormatSpec,
        [m, n]: [usize; 2],
        sink: &dyn Sink,
    ) -> Result<(), Error> {
        let to = &self.unit.c;
        if to.storage_bits > W::SPEC.storage_bits {
            let (c, bits, d) = (to.storage_bits, W::SPEC.storage_bits, self.unit.d);
            return Err(Error::Product(format!("a start at C beside {d} takes codes of c of {bits} bits, not of {c}")));
        }
        if to.holds(spec) {
            return Ok(());
        }
        let mut row = vec![0; n];
        for i in 0..m {
            match addend {
                Addend::Matrix(source, _) => source.read(i, 0, &mut row),
                _ => sink.read(i, 0, &mut row),
            }
            for (j, &code) in row.iter().enumerate() {
                let x = spec.to_f64(code);
                let same = to
                    .encode_f64(x, Rounding::NearestEven, Overflow::Ieee)
                    .is_ok_and(|code| x.is_nan() || to.to_f64(code) == x);
                if !same {
                    let operand = format!("C[{i}, {j}] = {x:e}");
                    return Err(Error::Product(format!("a start at C needs C exact in {to}, but {operand}")));
                }
            }
        }
        Ok(())
    }

    /// The block scales of a block-scaled unit, lines first.
    fn unit_scales(&self, m: usize, n: usize, k: usize) -> Result<Option<[ArrayView2<'_, u8>; 2]>, Error> {
        match (self.unit.scale, &self.block_scales) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Error::Product(format!("{} takes no block scales", self.unit))),
            (Some(rule), None) => Err(Error::Product(format!(
                "{} needs block scales: one {} per {} elements of K, for A and for B",
                self.unit, rule.format, rule.block
            ))),
            (Some(rule), Some([a, b])) => {
                let blocks = k.div_ceil(rule.block);
                let a = a.shaped("scale_a", [m, blocks])?;
                let b = b.shaped("scale_b", [blocks, n])?;
                Ok(Some([a, b.reversed_axes()]))
            }
        }
    }

    /// Sizes of everything that enters outside the unit, and what combines.
    fn check_factors(&self, schedule: &Schedule) -> Result<(), Error> {
        let check = |name: &str, expected: [usize; 2], found: &[usize]| {
            let expected = format!("{} x {}", expected[0], expected[1]);
            let found = format!("{} x {}", found[0], found[1]);
            if expected == found { Ok(()) } else { Err(Error::shape(name, expected, found)) }
        };
        match (schedule.scales, &self.promotion_scales) {
            (None, None) => {}
            (None, Some(_)) => return Err(Error::Product("this plan takes no promotion scales".into())),
            (Some(_), None) => return Err(Error::Product("this plan needs promotion scales for A and B".into())),
            (Some(s), Some([a, b])) => {
                let blocks = schedule.k.div_ceil(s.k);
                check("promotion scales of A", [schedule.m.div_ceil(s.rows), blocks], a.shape())?;
                check("promotion scales of B", [blocks, schedule.n.div_ceil(s.columns)], b.shape())?;
            }
        }
        for (name, scaling, lines) in [("scale_a", &self.scale_a, schedule.m), ("scale_b", &self.scale_b, schedule.n)] {
            if let Scaling::Lines(scales) = scaling {
                check(name, [1, lines], &[1, scales.len()])?;
            }
        }
        if let Some(bias) = &self.bias {
            check("bias", [1, schedule.n], &[1, bias.len()])?;
            let several = schedule.mode != SplitMode::Parallel && schedule.slices > 1;
            if several || schedule.mode == SplitMode::Atomic {
                return Err(Error::Product("a bias would enter once per slice; use a parallel split".into()));
            }
        }
        let factors = self.bias.is_some() || self.scale_a != Scaling::One || self.scale_b != Scaling::One;
        if schedule.start == Start::C && factors {
            return Err(Error::Product("a start at C excludes scales and bias".into()));
        }
        Ok(())
    }
}

/// What is asked of [`Gemm::compute`].
pub(super) struct Request<'a> {
    /// The operands' formats; `None` for codes of the unit's.
    pub(super) formats: [Option<FormatSpec>; 2],
    /// The format of a result that is C as well.
    pub(super) in_place: Option<FormatSpec>,
    pub(super) out: FormatSpec,
    /// Some columns of some rows instead of all.
    pub(super) only: Option<&'a [(usize, Range<usize>)]>,
    /// Told of every step.
    pub(super) log: Option<&'a Log>,
}

/// What [`Gemm::compute`] has found out.
struct Job<'a> {
    request: &'a Request<'a>,
    sources: [&'a dyn Source; 2],
    schedule: &'a Schedule,
    scales: Option<[ArrayView2<'a, u8>; 2]>,
}

/// Whether C in the unit's c enters products exactly.
pub(crate) fn takes_c(unit: &Unit) -> bool {
    let wide = if is_narrow(&unit.d) { F32 } else { F64 };
    wide.holds(&unit.c) && unit.c.storage_bits <= wide.storage_bits
}

/// Alpha or beta as kernels take it.
fn scalar<W: Wide>(name: &str, x: f64) -> Result<W, Error> {
    let rounded = W::from_f64(x);
    if x.is_finite() && !rounded.to_f64().is_finite() {
        return Err(Error::Product(format!("{name} = {x:e} is beyond {}", W::SPEC)));
    }
    Ok(rounded)
}

/// The NaN that a unit's vendor makes outside the unit: for architectures that are none of the built-in ones the
/// unit's own.
fn vendor_nan(unit: &Unit) -> NanRule {
    if is_amd(unit.arch) {
        NanRule::Quiet
    } else if ARCHITECTURES.iter().any(|known| known.name == unit.arch) {
        NanRule::AllOnes
    } else {
        unit.recipe.map_or(NanRule::AllOnes, |recipe| recipe.nan())
    }
}

/// Who works on a product.
#[derive(Clone, Copy)]
struct Threads<'a> {
    /// Its own threads, if not those of the current pool.
    pool: Option<&'a ThreadPool>,
    /// Others than the caller's.
    threaded: bool,
}
