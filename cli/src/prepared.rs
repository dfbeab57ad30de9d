//! A product's inputs made ready for a unit: unpacked, quantised, scaled.

use crate::bar::Bar;
use crate::inputs::{Inputs, Scales, failure};
use crate::io::Failure;
use crate::npy::Array;
use gemmulate::format::{F32, FormatSpec, UE8M0};
use gemmulate::gemm::quantise::{self, Quantised};
use gemmulate::gemm::{AnyMatrix, Codes, OnProgress, Progress, Scaling, Workspace, metrics};
use gemmulate::view::View;
use gemmulate::{Gemm, Plan, Unit};
use ndarray::{Array2, Axis};
use std::ops::ControlFlow;

/// An element of D, and of which product of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) product: Option<usize>,
    pub(crate) at: [usize; 2],
}

/// The operands' names, their axis of K, and the option for their scales.
const SIDES: [(&str, usize, &str); 2] = [("A", 1, "--scale-a"), ("B", 0, "--scale-b")];

impl Inputs {
    /// The operands ready for a unit.
    pub(crate) fn on<'a>(&'a self, unit: &'a Unit) -> Result<Prepared<'a>, Failure> {
        self.product(unit, self.ready(unit)?)
    }

    /// Makes the operands ready for a unit: unpacks them, and quantises values for a block-scaled one
    /// whose scales are not given.
    pub(crate) fn ready(&self, unit: &Unit) -> Result<[Ready; 2], Failure> {
        if self.packed && unit.a.storage_bits.min(unit.b.storage_bits) >= 8 {
            return Err(failure(format!("--packed is for fp4 and fp6, but {unit} takes {} and {}", unit.a, unit.b)));
        }
        if self.swizzled && unit.scale.is_none() {
            return Err(failure(format!("--swizzled is about block scales, and {unit} takes none")));
        }
        if self.packed && !self.is_packed(&self.a, &unit.a) && !self.is_packed(&self.b, &unit.b) {
            let found =
                format!("here A and B are {}", if self.a.pattern_width().is_some() { "wider" } else { "values" });
            return Err(failure(format!("--packed is for codes of fp4 and fp6 in bytes; {found}")));
        }
        if self.swizzled && !self.scales.iter().any(|scales| matches!(scales, Some(Scales::File(_)))) {
            return Err(failure("--swizzled is about block scales in files, and none is given (--scale-a, --scale-b)"));
        }
        Ok([self.ready_side(unit, 0)?, self.ready_side(unit, 1)?])
    }

    /// Frees what the files of A and B hold, where their codes are all that is still needed.
    pub(crate) fn keep_only(&mut self, ready: &[Ready; 2]) {
        for (file, ready) in [&mut self.a, &mut self.b].into_iter().zip(ready) {
            if ready.unpacked.is_some() || !ready.quantised.is_empty() {
                file.clear();
            }
        }
    }

    /// A product of operands that were made ready.
    pub(crate) fn product<'a>(&'a self, unit: &'a Unit, ready: [Ready; 2]) -> Result<Prepared<'a>, Failure> {
        let [a, b] = ready;
        let side = |t: usize, ready| Side {
            file: [&self.a, &self.b][t],
            format: [unit.a, unit.b][t],
            scales: match &self.scales[t] {
                Some(Scales::File(scales)) if unit.scale.is_some() && !self.swizzled => Some(scales),
                _ => None,
            },
            ready,
        };
        let (a, b) = (side(0, a), side(1, b));
        let ([m, k], [rows, n]) = (a.array().shape, b.array().shape);
        if k != rows {
            let packed = if self.packed { " (unpacked)" } else { "" };
            return Err(failure(format!("B must be {k} x N (A is {m} x {k}), but is {rows} x {n}{packed}")));
        }
        Ok(Prepared { inputs: self, unit, sides: [a, b], size: [m, n, k] })
    }

    fn ready_side(&self, unit: &Unit, t: usize) -> Result<Ready, Failure> {
        let (name, axis, option) = SIDES[t];
        let (file, format) = ([&self.a, &self.b][t], [unit.a, unit.b][t]);
        let mut ready = Ready::default();
        if self.is_packed(file, &format) {
            ready.unpacked = Some(file.unpacked(format.storage_bits, axis)?);
        }
        let Some(rule) = unit.scale else { return Ok(ready) };
        match &self.scales[t] {
            Some(Scales::Number(_)) => {
                return Err(failure(format!("{unit} takes block scales of {name}: {option} is a file of them")));
            }
            Some(Scales::File(scales)) if self.swizzled => {
                let shape = ready.unpacked.as_ref().unwrap_or(file).shape;
                let codes = scales.unswizzled(shape[1 - axis], shape[axis].div_ceil(rule.block))?;
                ready.unswizzled = Some(if axis == 1 { codes } else { codes.reversed_axes() });
            }
            Some(Scales::File(_)) => {}
            None if file.pattern_width().is_some() => {
                let (format, block) = (rule.format, rule.block);
                let needed = format!("so its block scales are needed, one {format} per {block} of K ({option})");
                return Err(failure(format!("{name} is bit patterns, {needed}; floats would be quantised")));
            }
            None => {
                let count = file.batch.unwrap_or(1);
                for t in 0..if file.len() == 0 { count.min(1) } else { count } {
                    ready.quantised.push(quantise::for_unit(&file.operand(t, &format)?, unit, Axis(axis), self.round)?);
                }
            }
        }
        Ok(ready)
    }
}

/// What was made of an operand's file.
#[derive(Default)]
pub(crate) struct Ready {
    unpacked: Option<Array>,
    /// Quantised values with their scales, one for each matrix of the batch.
    quantised: Vec<Quantised>,
    /// Block scales out of the swizzled layout.
    unswizzled: Option<Array2<u8>>,
}

/// One operand of a product, ready for a unit.
struct Side<'a> {
    file: &'a Array,
    format: FormatSpec,
    /// Block scales from a file.
    scales: Option<&'a Array>,
    ready: Ready,
}

impl Side<'_> {
    fn array(&self) -> &Array {
        self.ready.unpacked.as_ref().unwrap_or(self.file)
    }

    fn quantised(&self, t: usize) -> Option<&Quantised> {
        self.ready.quantised.get(t).or(self.ready.quantised.first())
    }

    fn operand(&self, t: usize) -> Result<AnyMatrix<'_>, Failure> {
        match self.quantised(t) {
            Some(q) => Ok(q.element_codes()),
            None => self.array().operand(t, &self.format),
        }
    }

    /// Block scales in `format`, if there are any.
    fn block_scales(&self, t: usize, format: &FormatSpec) -> Result<Option<AnyMatrix<'_>>, Failure> {
        Ok(match (self.quantised(t), &self.ready.unswizzled, self.scales) {
            (Some(q), ..) => Some(q.scale_codes()),
            (_, Some(codes), _) => Some(AnyMatrix::Codes(Codes::U8(View::from(codes)))),
            (.., Some(file)) => Some(file.operand(t, format)?),
            _ => None,
        })
    }

    /// Finite values that the unit's format turns into infinities or NaN, told in words.
    fn overflowing(&self, name: &str, inputs: &Inputs) -> Option<String> {
        let (format, file) = (&self.format, self.file);
        let largest = format.to_f64(format.max_code(false));
        let lost = |x: f64| {
            let code = format.encode_f64(x, inputs.round, inputs.overflow);
            code.is_ok_and(|code| !format.to_f64(code).is_finite())
        };
        let count = file.count(|x| x.is_finite() && x.abs() > largest && lost(x));
        let becomes = if format.has_infinity() { "infinite" } else { "NaN" };
        let why = format!("of {} values of {name} are beyond {format}, whose largest is {largest}", file.len());
        (count > 0).then(|| format!("{count} {why}, and became {becomes} (--overflow saturate makes them the largest)"))
    }

    /// Values that the unit's format turns into zeros, told in words.
    fn underflowing(&self, name: &str, inputs: &Inputs) -> Option<String> {
        let (format, file) = (&self.format, self.file);
        let smallest = 2f64.powi(format.emin() - format.fraction_bits as i32);
        let lost = |x: f64| {
            let code = format.encode_f64(x, inputs.round, inputs.overflow);
            code.is_ok_and(|code| format.to_f64(code) == 0.0)
        };
        let count = file.count(|x| x != 0.0 && x.abs() < smallest && lost(x));
        let why = format!(
            "of {} values of {name} are below {format} in magnitude, whose smallest is {smallest:e}",
            file.len()
        );
        (count > 0).then(|| format!("{count} {why}, and became 0 (scale them, and D by --alpha)"))
    }

    /// Whether the unit's format lacks some value that it does not turn into an infinity, NaN or zero, told in words.
    fn rounded(&self, name: &str) -> Option<String> {
        let (format, file) = (&self.format, self.file);
        let (largest, normal) = (format.to_f64(format.max_code(false)), 2f64.powi(format.emin()));
        let smallest = normal * 2f64.powi(-(format.fraction_bits as i32));
        // Of normal numbers the fraction alone tells: files are large.
        let longer = |x: f64| x.to_bits().checked_shl(12 + format.fraction_bits).is_some_and(|rest| rest != 0);
        let lost = |x: f64| longer(x) || x.abs() < normal && (x / smallest).fract() != 0.0;
        let any = file.any(|x| (smallest..=largest).contains(&x.abs()) && lost(x));
        any.then(|| format!("{name} was rounded to {format}: errors include that"))
    }

    /// The scale of values that were not quantised.
    fn block_scale(&self, t: usize, [i, j]: [usize; 2], format: &FormatSpec) -> f64 {
        match (&self.ready.unswizzled, self.scales) {
            (Some(codes), _) => format.to_f64(codes[[i, j]].into()),
            (_, Some(file)) => file.format(format).to_f64(file.code([t, i, j])),
            _ => 1.0,
        }
    }
}

/// What a result is measured against.
#[derive(Clone, Copy)]
pub(crate) enum Against {
    /// The exact product, rounded once.
    Exact,
    /// A product in twice f64's precision.
    Pairs,
    /// What f64 makes of a product and what is applied to it.
    Double,
}

impl Against {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Pairs => "f64 pairs",
            Self::Double => "f64",
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Exact => "the exact product",
            Self::Pairs => "a product in twice f64's precision",
            Self::Double => "the product with scales, alpha, beta C and bias applied in f64",
        }
    }
}

/// A product on a unit, but for its plan.
pub(crate) struct Prepared<'a> {
    inputs: &'a Inputs,
    unit: &'a Unit,
    sides: [Side<'a>; 2],
    /// M, N, K.
    pub(crate) size: [usize; 3],
}

/// Scales that do not enter by the block.
struct Factors {
    promotion: Option<[Array2<f32>; 2]>,
    /// Outside the unit.
    outer: [Scaling; 2],
}

impl Prepared<'_> {
    /// What was done to operands, for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (side, (name, ..)) in self.sides.iter().zip(SIDES) {
            let Some(q) = side.quantised(0) else {
                notes.extend(side.overflowing(name, self.inputs));
                notes.extend(side.underflowing(name, self.inputs));
                notes.extend(side.rounded(name));
                continue;
            };
            let kind = format!("{} in blocks of {} with {} scales", q.format, q.block, q.scale_format);
            let factors: Vec<String> = side.ready.quantised.iter().map(|q| q.tensor_scale.to_string()).collect();
            let whole = if q.scale_format == UE8M0 { "" } else { &format!(" and the factor {}", factors.join(", ")) };
            notes.push(format!("{name} was quantised to {kind}{whole}"));
        }
        notes
    }

    fn factors(&self, plan: &Plan, t: usize) -> Result<Factors, Failure> {
        if self.unit.scale.is_some() {
            let outer = [0, 1].map(|side| match self.sides[side].quantised(t).map(|q| q.tensor_scale) {
                Some(scale) if scale != 1.0 => Scaling::Tensor(scale),
                _ => Scaling::One,
            });
            return Ok(Factors { promotion: None, outer });
        }
        if plan.scale_widths().is_some() {
            // A plan that cannot be must not first ask for scales.
            let [m, n, k] = self.size;
            plan.check(self.unit, m, n, k)?;
            let promotion = Some([self.promotion_scales(plan, 0, t)?, self.promotion_scales(plan, 1, t)?]);
            return Ok(Factors { promotion, outer: [Scaling::One, Scaling::One] });
        }
        Ok(Factors { promotion: None, outer: [self.outer(0)?, self.outer(1)?] })
    }

    fn promotion_scales(&self, plan: &Plan, side: usize, t: usize) -> Result<Array2<f32>, Failure> {
        let (name, _, option) = SIDES[side];
        match &self.inputs.scales[side] {
            Some(Scales::File(file)) if file.pattern_width().is_none() => Ok(file.values(t, &F32).mapv(|x| x as f32)),
            _ => {
                let why = format!("the plan `{plan}` takes promotion scales of {name}");
                Err(failure(format!("{why}: {option} is a file of floats, as its scales=ROWSxKxCOLUMNS says")))
            }
        }
    }

    /// A factor for the whole operand or for each of its lines.
    fn outer(&self, side: usize) -> Result<Scaling, Failure> {
        let lines = [self.size[0], self.size[1]][side];
        Ok(match &self.inputs.scales[side] {
            None => Scaling::One,
            Some(Scales::Number(scale)) => Scaling::Tensor(*scale),
            Some(Scales::File(file)) if file.len() == 1 => Scaling::Tensor(file.vector(1, "")?[0]),
            Some(Scales::File(file)) => {
                Scaling::Lines(file.vector(lines, ["one per row of A", "one per column of B"][side])?)
            }
        })
    }

    /// Runs `f` on the product `t` of the batch.
    fn with<R>(
        &self,
        plan: &Plan,
        out: &FormatSpec,
        t: usize,
        tell: Option<OnProgress<'_>>,
        f: impl FnOnce(&Gemm<'_>, [AnyMatrix<'_>; 2]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (inputs, factors) = (self.inputs, self.factors(plan, t)?);
        let [outer_a, outer_b] = factors.outer;
        let c = match inputs.c_for(self.unit) {
            None => None,
            Some(c) => {
                let format = self.c_format(c, out);
                Some(match c.operand(t, &format)? {
                    AnyMatrix::Codes(codes) => AnyMatrix::Typed(codes, format),
                    values => values,
                })
            }
        };
        let mut gemm = Gemm::on(self.unit)
            .plan(plan.clone())
            .alpha(inputs.alpha)
            .beta(inputs.beta)
            .round_inputs(inputs.round)
            .overflow(inputs.overflow)
            .threads(inputs.threads)
            .output(*out)
            .scale_a(outer_a)
            .scale_b(outer_b);
        if let Some(c) = &c {
            gemm = gemm.c(c);
        }
        if let Some(rule) = self.unit.scale {
            let scales = |side: usize| self.sides[side].block_scales(t, &rule.format);
            if let (Some(a), Some(b)) = (scales(0)?, scales(1)?) {
                gemm = gemm.block_scales(&a, &b);
            }
        }
        if let Some([a, b]) = &factors.promotion {
            gemm = gemm.promotion_scales(a, b);
        }
        if let Some(bias) = &inputs.bias {
            gemm = gemm.bias(bias);
        }
        if let Some(tell) = tell {
            gemm = gemm.progress(tell);
        }
        f(&gemm, [self.sides[0].operand(t)?, self.sides[1].operand(t)?])
    }

    /// What C's bit patterns are: D's type if they are as wide, else the unit's c.
    fn c_format(&self, c: &Array, out: &FormatSpec) -> FormatSpec {
        if c.pattern_width() == Some(out.storage_bits.next_power_of_two().max(8)) { *out } else { self.unit.c }
    }

    /// All of D, its progress told as (done, total).
    pub(crate) fn run(
        &self,
        plan: &Plan,
        out: &FormatSpec,
        tell: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Array, Failure> {
        let ([m, n, _], batch) = (self.size, self.inputs.batch());
        let mut d = Array::zeros(batch, [m, n], out)?;
        let (count, mut workspace) = (self.products(), Workspace::new());
        for t in 0..count {
            let tell = |p: Progress| {
                tell(p.total * t as u64 + p.done, p.total * count as u64);
                ControlFlow::Continue(())
            };
            let target = d.target(t)?;
            self.with(plan, out, t, Some(&tell), |gemm, [a, b]| Ok(gemm.run_codes(&a, &b, target, &mut workspace)?))?;
        }
        Ok(d)
    }

    /// How many products there are to compute: of empty ones, one tells what is wrong with all.
    fn products(&self) -> usize {
        let count = self.inputs.batch().unwrap_or(1);
        if self.size[0] == 0 || self.size[1] == 0 { count.min(1) } else { count }
    }

    /// Some elements of D's first product.
    pub(crate) fn elements(&self, plan: &Plan, out: &FormatSpec, at: &[[usize; 2]]) -> Result<Vec<u64>, Failure> {
        self.with(plan, out, 0, None, |gemm, [a, b]| Ok(gemm.elements(&a, &b, at)?))
    }

    /// How an element of D comes about.
    pub(crate) fn trace(&self, plan: &Plan, out: &FormatSpec, element: Element) -> Result<String, Failure> {
        let Element { product, at } = element;
        let count = self.inputs.batch().unwrap_or(1);
        if product.is_none() && count > 1 {
            let [i, j] = at;
            return Err(failure(format!("there are {count} products: --trace product,row,column, such as 0,{i},{j}")));
        }
        let t = product.unwrap_or(0);
        if t >= count.max(1) {
            return Err(failure(format!("--trace asks for product {t}, but there are {count}, from 0 on")));
        }
        self.with(plan, out, t, None, |gemm, [a, b]| Ok(gemm.trace(&a, &b, at)?.1))
    }

    /// The product of the files' numbers, scales, alpha, beta, C and bias in f64, product under
    /// product, and how it was made.
    pub(crate) fn reference(&self, plan: &Plan, out: &FormatSpec) -> Result<(Array2<f64>, Against), Failure> {
        let ([m, n, _], count) = (self.size, self.products());
        let (mut all, mut exact, mut plain) = (Array2::zeros((count * m, n)), true, true);
        for t in 0..count {
            let factors = self.factors(plan, t)?;
            let (a, b) = (self.scaled(&factors, plan, 0, t), self.scaled(&factors, plan, 1, t));
            let bar = Bar::new("reference");
            let reference = bar.watch(|tell| metrics::reference_with(&a, &b, self.inputs.threads, tell))?;
            let inputs = self.inputs;
            exact &= reference.exact;
            plain &= factors.promotion.is_none()
                && factors.outer.iter().all(|s| matches!(s, Scaling::One))
                && (inputs.alpha, inputs.beta) == (1.0, 0.0)
                && inputs.bias.is_none();
            let c = inputs.c.as_ref().filter(|_| inputs.beta != 0.0).map(|c| c.values(t, &self.c_format(c, out)));
            for ((i, j), x) in reference.product.indexed_iter() {
                let c = c.as_ref().map_or(0.0, |c| inputs.beta * c[[i, j]]);
                let bias = inputs.bias.as_ref().map_or(0.0, |bias| f64::from(bias[j]));
                all[[t * m + i, j]] = inputs.alpha * x + c + bias;
            }
        }
        let against = match (plain, exact) {
            (false, _) => Against::Double,
            (true, false) => Against::Pairs,
            (true, true) => Against::Exact,
        };
        Ok((all, against))
    }

    /// An operand's numbers with its scales; quantised ones as the file has them.
    fn scaled(&self, factors: &Factors, plan: &Plan, side: usize, t: usize) -> Array2<f64> {
        let mut values = self.sides[side].array().values(t, &self.sides[side].format);
        if self.sides[side].quantised(t).is_some() {
            return values;
        }
        let axis = SIDES[side].1;
        let (line, along) = (|at: (usize, usize)| [at.0, at.1][1 - axis], |at: (usize, usize)| [at.0, at.1][axis]);
        let place = |line: usize, block: usize| if axis == 1 { [line, block] } else { [block, line] };
        for (at, x) in values.indexed_iter_mut() {
            if let Some(rule) = self.unit.scale {
                *x *= self.sides[side].block_scale(t, place(line(at), along(at) / rule.block), &rule.format);
            } else if let (Some(scales), Some(widths)) = (&factors.promotion, plan.scale_widths()) {
                let lines = [widths.rows, widths.columns][side];
                *x *= f64::from(scales[side][place(line(at) / lines, along(at) / widths.k)]);
            }
            *x *= match &factors.outer[side] {
                Scaling::One => 1.0,
                Scaling::Tensor(scale) => f64::from(*scale),
                Scaling::Lines(scales) => f64::from(scales[line(at)]),
            };
        }
        values
    }
}
