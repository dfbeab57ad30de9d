//! Products that are one tile of their kernel: two panels and one call. What a product costs besides is paid once for a
//! batch: checks, the schedule, the choice of a kernel, buffers.

use super::builder::Gemm;
use super::driver::{SERIAL, room};
use super::kernel::{Kernel, Lanes, Panel, Staged, exact_step};
use super::operand::Source;
use super::plan::{Start, is_narrow};
use super::product::{Request, check_product};
use super::schedule::Schedule;
use super::sink::{Run, Sink};
use super::small::Batch;
use super::workspace::Workspace;
use crate::error::Error;
use crate::simd::Isa;
use crate::unit::Unit;
use core::ops::Range;

/// Rows that it takes: a single one, or many by few columns, kernels and the driver have ways of their own for.
const ROWS: Range<usize> = 2..64;
/// Columns.
const COLUMNS: Range<usize> = 1..65;

/// Buffers of such a product, kept for the next.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    a: Panel,
    b: Panel,
    narrow: Vec<u32>,
    wide: Vec<u64>,
}

/// What is the same for all products of a batch.
struct OneTile<'a> {
    unit: &'a Unit,
    kernel: &'a dyn Kernel,
    size: [usize; 3],
    /// Whether states are of at most 32 bits.
    narrow: bool,
    /// Where states begin, if not at +0.
    c: Option<&'a dyn Source>,
}

impl<D> Gemm<'_, D> {
    /// Computes products of a batch so; `false`, and none of them taken, where plan, unit or size ask for more.
    pub(super) fn compute_one_tile(
        &self,
        request: &Request<'_>,
        batch: &mut dyn Batch,
        products: &mut dyn Iterator<Item = usize>,
        workspace: &mut Workspace,
    ) -> Result<bool, Error> {
        let unit = self.unit;
        let own = |of: usize, spec| request.formats[of].is_none_or(|format| format == spec);
        let plain = self.is_steps_alone(request) && own(0, unit.a) && own(1, unit.b);
        if !plain || self.isa == Some(Isa::Reference) || batch.count() == 0 {
            return Ok(false);
        }
        let (mut size, mut fits) = ([0; 3], false);
        batch.product(0, &mut |[a, b], sink| {
            size = check_product(a.shape(), b.shape())?;
            let wide = [(a, &unit.a), (b, &unit.b)].iter().all(|(operand, spec)| {
                // Codes too narrow are an error that names the operand.
                operand.codes().is_none_or(|codes| codes.width() >= spec.storage_bits)
            });
            fits = wide && sink.shape() == [size[0], size[1]];
            Ok(())
        })?;
        let [m, n, k] = size;
        let few = ROWS.contains(&m) && COLUMNS.contains(&n) && (1..=SERIAL).contains(&k) && m * n * k <= SERIAL;
        let c = self.c.as_ref().filter(|_| self.plan.start == Start::C).map(|(c, _)| &**c as &dyn Source);
        // The ordinary way makes a NaN of C the vendor's, which only recipes are known to do, too.
        let c_fits = self.plan.start != Start::C || (unit.recipe.is_some() && c.is_some_and(|c| c.shape() == [m, n]));
        if !(few && fits && c_fits) {
            return Ok(false);
        }
        let schedule = Schedule::new(&self.plan, unit, m, n, k)?;
        schedule.check_scalars(self.alpha, self.factor_of_c())?;
        let kernel = workspace.kernel(unit, self.isa, m);
        let [height, width] = kernel.tile();
        if !schedule.is_one_run() || m > height || n > width || k > kernel.depth().max(unit.shape.k) {
            return Ok(false);
        }
        let tile = OneTile { unit, kernel: &*kernel, size, narrow: is_narrow(&unit.d), c };
        let buffers = &mut workspace.one_tile;
        for t in products {
            batch.expect(t + 1);
            batch.product(t, &mut |sources, sink| {
                tile.run(sources, sink, buffers);
                Ok(())
            })?;
        }
        Ok(true)
    }
}

impl OneTile<'_> {
    fn run(&self, [a, b]: [&dyn Source; 2], sink: &mut dyn Sink, buffers: &mut Buffers) {
        let ([m, n, k], unit, kernel) = (self.size, self.unit, self.kernel);
        let Buffers { a: left, b: right, narrow, wide } = buffers;
        (left.lines, right.lines, left.k, right.k) = (m, n, k, k);
        if !b.codes().is_some_and(|codes| kernel.pack_b_in_place(right, &codes)) {
            stage(b, unit.b.storage_bits, right);
            kernel.pack_b(right);
        }
        let codes = a.codes();
        if let (None, Some(codes)) = (self.c, codes.filter(|codes| kernel.is_direct(codes)))
            && let Some((d, ld)) = sink.in_place().filter(|(d, _)| matches!(d, Lanes::Narrow(_)) == self.narrow)
        {
            return kernel.direct(&codes, right, true, d, ld);
        }
        if !codes.is_some_and(|codes| kernel.pack_a_in_place(left, &codes)) {
            stage(a, unit.a.storage_bits, left);
            kernel.pack_a(left);
        }
        let exact = |i: usize, j: usize, s: usize, c: u64| exact_step(unit, left, right, [i, j], s, c);
        let run = |d: Lanes<'_>| kernel.run(left, right, 0..k / unit.shape.k, d, &exact);
        // States in D's own memory, or on their way there.
        let place = sink.in_place().filter(|(d, ld)| *ld == n && matches!(d, Lanes::Narrow(_)) == self.narrow);
        match place {
            Some((Lanes::Narrow(d), _)) => {
                self.begin_narrow(&mut d[..m * n]);
                run(Lanes::Narrow(&mut d[..m * n]));
            }
            Some((Lanes::Wide(d), _)) => {
                self.begin_wide(&mut d[..m * n]);
                run(Lanes::Wide(&mut d[..m * n]));
            }
            None if self.narrow => {
                narrow.resize(m * n, 0);
                self.begin_narrow(narrow);
                run(Lanes::Narrow(narrow));
                sink.write([0; 2], n, Run::Narrow(narrow));
            }
            None => {
                wide.resize(m * n, 0);
                self.begin_wide(wide);
                run(Lanes::Wide(wide));
                sink.write([0; 2], n, Run::Wide(wide));
            }
        }
    }

    /// The states that steps begin with.
    fn begin_narrow(&self, states: &mut [u32]) {
        let [m, n, _] = self.size;
        match self.c {
            Some(c) => c.read_narrow([0..m, 0..n], states, n),
            None => states.fill(0),
        }
    }

    fn begin_wide(&self, states: &mut [u64]) {
        match self.c {
            Some(c) => states.chunks_exact_mut(self.size[1]).enumerate().for_each(|(i, row)| c.read(i, 0, row)),
            None => states.fill(0),
        }
    }
}

/// Copies all codes of an operand to a panel.
fn stage(source: &dyn Source, storage_bits: u32, panel: &mut Panel) {
    let [rows, columns] = source.shape();
    room(&mut panel.codes, rows * columns, storage_bits > 32, false);
    match &mut panel.codes {
        Staged::Narrow(codes) => source.read_narrow([0..rows, 0..columns], codes, columns),
        Staged::Wide(codes) => codes.chunks_exact_mut(columns).enumerate().for_each(|(i, row)| source.read(i, 0, row)),
    }
}
