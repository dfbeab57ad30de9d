//! SPEC section 5, literally: one output element at a time, one instruction at a time, exact arithmetic throughout.
//!
//! IEEE operations of the schedule are the oracle's own exact ones (`ieee_add`, `ieee_mul`, `ieee_fma`), not the
//! host's, so NaN payloads never travel: a NaN is a class, and gets its bits where D is stored.

use super::formats::{Val, decode, exact_bits, ieee_add, ieee_fma, ieee_mul, ieee_round};
pub(crate) use super::gemm_options::{Epilogue, Options, Reduce, Tail};
use super::names::Desc;
use super::numbers::{Exact, Round};

/// Bit patterns, row-major: a is M x K, b is K x N, c is M x N (may be empty when beta = 0).
/// Scales of scaled units: `scale_a` is M x ceil(K / block), `scale_b` is ceil(K / block) x N.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices<'a> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: &'a [u64],
    pub(crate) b: &'a [u64],
    pub(crate) c: &'a [u64],
    pub(crate) scale_a: &'a [u64],
    pub(crate) scale_b: &'a [u64],
}

/// One instruction's dot-add: a, b, c, scale_a, scale_b to d, all bit patterns.
pub(crate) type Step<'a> = &'a dyn Fn(&[u64], &[u64], u64, &[u64], &[u64]) -> u64;

/// The same for unscaled units: a, b, c to d.
pub(crate) type PlainStep<'a> = &'a dyn Fn(&[u64], &[u64], u64) -> u64;

/// The vendor's canonical NaN of a type.
fn canonical_nan(nvidia: bool, name: &str) -> u64 {
    match (nvidia, name) {
        (true, "f32") => 0x7FFF_FFFF,
        (true, "f16" | "bf16") => 0x7FFF,
        (false, "f32") => 0x7FC0_0000,
        (false, "f16") => 0x7E00,
        (false, "bf16") => 0x7FC0,
        _ => 0x7FF8_0000_0000_0000,
    }
}

/// One run of the schedule.
struct Run<'a> {
    unit: &'a Desc,
    o: &'a Options,
    x: Matrices<'a>,
    step: Step<'a>,
    /// The type SPEC writes as f32.
    wide: &'static str,
    alpha: Val,
    beta: Val,
}

/// D (M x N, row-major) for an unscaled unit.
pub(crate) fn gemm(unit: &Desc, o: &Options, x: Matrices, step: PlainStep) -> Result<Vec<u64>, String> {
    gemm_scaled(unit, o, x, &|a, b, c, _, _| step(a, b, c))
}

/// D (M x N, row-major) for any unit.
pub(crate) fn gemm_scaled(unit: &Desc, o: &Options, x: Matrices, step: Step) -> Result<Vec<u64>, String> {
    let wide = if unit.d == "f64" { "f64" } else { "f32" };
    let exactly = |v: f64| {
        let v = decode("f64", v.to_bits())?;
        let r = ieee_round(wide, &v, Round::Rne);
        let same = (&r.value() - &v.value()).is_zero() && matches!(r, Val::Inf(_)) == matches!(v, Val::Inf(_));
        if same { Ok(r) } else { Err(format!("alpha and beta are {wide}")) }
    };
    let run = Run { unit, o, x, step, wide, alpha: exactly(o.alpha)?, beta: exactly(o.beta)? };
    run.check()?;
    let mut d = Vec::with_capacity(x.m * x.n);
    for i in 0..x.m {
        for j in 0..x.n {
            d.push(run.element(i, j)?);
        }
    }
    Ok(d)
}

fn refuse(when: bool, why: &str) -> Result<(), String> {
    if when { Err(why.into()) } else { Ok(()) }
}

impl Run<'_> {
    fn blocks(&self) -> usize {
        self.x.k.div_ceil(self.o.bk)
    }

    /// Elements of every slice but the last.
    fn per_slice(&self) -> usize {
        let unit = self.o.align.unwrap_or(self.o.bk).max(1);
        self.x.k.div_ceil(unit).div_ceil(self.o.slices) * unit
    }

    fn check(&self) -> Result<(), String> {
        let (o, x) = (self.o, &self.x);
        let multiple = |n: usize| n > 0 && n.is_multiple_of(self.unit.k);
        let atomic = matches!(o.reduce, Reduce::Atomic { .. });
        refuse(!multiple(o.bk), "BK is no multiple of the unit's K")?;
        refuse(x.a.len() != x.m * x.k || x.b.len() != x.k * x.n, "shape of A or B")?;
        refuse((o.beta != 0.0 || o.start_at_c) && x.c.len() != x.m * x.n, "C is missing")?;
        refuse(o.slices == 0, "no slice")?;
        let empty = if o.interleaved { o.slices > self.blocks() } else { (o.slices - 1) * self.per_slice() >= x.k };
        refuse(o.slices > 1 && empty, "an empty slice")?;
        let possible = o.slices > 1 && o.align.is_none() && o.tail == Tail::Last;
        refuse(o.interleaved && !possible, "slices that cannot be interleaved")?;
        refuse(o.align == Some(0) || (o.align.is_some() && o.slices == 1), "an alignment of nothing")?;
        refuse(o.stream_k.is_some() && (o.slices > 1 || atomic), "stream-K excludes split-K")?;
        refuse(atomic && !["f32", "f64"].contains(&o.d_type), "atomics need D in f32 or f64")?;
        refuse(o.promotion.as_ref().is_some_and(|p| !multiple(p.interval)), "promotion interval")?;
        let factors = o.outer.iter().any(Option::is_some) || o.bias.is_some();
        refuse(o.start_at_c && factors, "a start at C excludes scales and bias")?;
        let in_pieces = atomic || (o.reduce == Reduce::Serial && o.slices > 1);
        refuse(o.bias.is_some() && in_pieces, "a bias would enter several times")?;
        self.check_start(atomic)?;
        self.check_reduction()
    }

    fn check_start(&self, atomic: bool) -> Result<(), String> {
        let o = self.o;
        let plain = o.slices == 1 && !atomic && o.stream_k.is_none() && o.promotion.is_none();
        let start = o.start_at_c && !(plain && o.alpha == 1.0 && o.beta == 1.0);
        refuse(start, "starting at C needs alpha = beta = 1 and one plain chain")?;
        let types: &[&str] = if self.wide == "f64" { &["f64", "f32"] } else { &["f32", "f16", "bf16"] };
        refuse(!types.contains(&o.d_type), "type of D")
    }

    fn check_reduction(&self) -> Result<(), String> {
        let (o, x) = (self.o, &self.x);
        if let Some(workers) = o.stream_k {
            let tiles = x.m.div_ceil(o.bm) * x.n.div_ceil(o.bn);
            refuse(workers == 0 || tiles * self.blocks() < workers, "more workers than blocks")?;
        }
        if let Reduce::Atomic { order, .. } = &o.reduce {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            refuse(sorted != (0..o.slices).collect::<Vec<_>>(), "the atomic order is no permutation")?;
        }
        Ok(())
    }

    fn element(&self, i: usize, j: usize) -> Result<u64, String> {
        let d = self.value(i, j)?;
        Ok(exact_bits(self.o.d_type, &d, canonical_nan(self.unit.nvidia, self.o.d_type)))
    }

    /// D as a number of D's type.
    fn value(&self, i: usize, j: usize) -> Result<Val, String> {
        let c = match self.x.c.get(i * self.x.n + j) {
            Some(c) => decode(self.o.c_type, *c)?,
            None => Val::zero(false),
        };
        if self.o.start_at_c {
            return Ok(self.store(&self.chain(i, j, &self.positions(0, self.x.k), Some(&c))?));
        }
        if let Some(workers) = self.o.stream_k {
            return Ok(self.store(&self.epilogue(&self.stream_k(i, j, workers)?, &self.beta, &c, [i, j])));
        }
        let per = self.per_slice();
        let contiguous = |s: usize| self.positions(s * per, ((s + 1) * per).min(self.x.k));
        let slice = |s: usize| self.chain(i, j, &if self.o.interleaved { self.dealt(s) } else { contiguous(s) }, None);
        let parts = (0..self.o.slices).map(slice).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.o.reduce {
            Reduce::Atomic { order, flush } => self.atomic(&parts, order, *flush, &c, [i, j]),
            Reduce::Serial => {
                let one = Val::of(&Exact::new(1, 0));
                let first = self.store(&self.epilogue(&parts[0], &self.beta, &c, [i, j]));
                parts[1..].iter().fold(first, |d, p| self.store(&self.epilogue(p, &one, &d, [i, j])))
            }
            // One slice is no split: nothing is added to it.
            Reduce::Parallel if parts.len() == 1 => self.store(&self.epilogue(&parts[0], &self.beta, &c, [i, j])),
            Reduce::Parallel => {
                let x = parts.iter().fold(Val::zero(false), |x, p| ieee_add(self.wide, &x, p));
                self.store(&self.epilogue(&x, &self.beta, &c, [i, j]))
            }
        })
    }

    fn store(&self, x: &Val) -> Val {
        ieee_round(self.o.d_type, x, Round::Rne)
    }

    /// `scale_a (scale_b acc)`, or `(scale_a scale_b) acc`, each product rounded.
    fn scaled(&self, acc: &Val, [i, j]: [usize; 2]) -> Val {
        let [a, b] = &self.o.outer;
        let by = |acc: &Val, scales: &Option<Vec<f32>>, line: usize| match scales {
            Some(scales) => ieee_mul(self.wide, &of_f32(scales[line]), acc),
            None => acc.clone(),
        };
        if let ([Some(a), Some(b)], true) = (&self.o.outer, self.o.per_tensor) {
            return ieee_mul(self.wide, &ieee_mul(self.wide, &of_f32(a[i]), &of_f32(b[j])), acc);
        }
        by(&by(acc, b, j), a, i)
    }

    fn epilogue(&self, acc: &Val, beta: &Val, c: &Val, at: [usize; 2]) -> Val {
        let x = self.linear(&self.scaled(acc, at), beta, c);
        self.o.bias.as_ref().map_or(x.clone(), |bias| ieee_add(self.wide, &x, &of_f32(bias[at[1]])))
    }

    fn linear(&self, acc: &Val, beta: &Val, c: &Val) -> Val {
        let unit_alpha = !matches!(self.alpha, Val::Nan | Val::Inf(_)) && self.o.alpha == 1.0;
        let fma = |a: &Val, b: &Val, c: &Val| ieee_fma(self.wide, a, b, c, Round::Rne);
        let product = || ieee_mul(self.wide, &self.alpha, acc);
        match self.o.epilogue {
            _ if beta.is_zero() && unit_alpha => acc.clone(),
            _ if beta.is_zero() => product(),
            Epilogue::TwoX => fma(&self.alpha, acc, &ieee_mul(self.wide, beta, c)),
            Epilogue::ThreeX => fma(beta, c, &product()),
            Epilogue::Rounded => fma(beta, c, &self.store(&product())),
        }
    }

    fn atomic(&self, parts: &[Val], order: &[usize], flush: bool, c: &Val, at: [usize; 2]) -> Val {
        let kept = |v: &Val| {
            let subnormal = matches!(v, Val::Num { .. }) && v.value().cmp_pow2(-126).is_lt();
            if flush && self.o.d_type == "f32" && subnormal { Val::zero(v.is_negative()) } else { v.clone() }
        };
        let start = if self.beta.is_zero() { Val::zero(false) } else { ieee_mul(self.wide, &self.beta, c) };
        order.iter().fold(self.store(&start), |d, s| {
            let p = self.store(&ieee_mul(self.wide, &self.alpha, &self.scaled(&parts[*s], at)));
            kept(&ieee_add(self.o.d_type, &kept(&d), &kept(&p)))
        })
    }

    fn stream_k(&self, i: usize, j: usize, workers: usize) -> Result<Val, String> {
        let (o, x, blocks) = (self.o, &self.x, self.blocks());
        let columns = x.n.div_ceil(o.bn);
        let total = x.m.div_ceil(o.bm) * columns * blocks;
        let tile = (i / o.bm) * columns + j / o.bn;
        let mut cuts = vec![tile * blocks];
        for w in 1..workers {
            let start = w * (total / workers) + w.min(total % workers);
            if (tile * blocks + 1..(tile + 1) * blocks).contains(&start) {
                cuts.push(start);
            }
        }
        cuts.push((tile + 1) * blocks);
        let k = |cut: usize| ((cut - tile * blocks) * o.bk).min(x.k);
        let piece = |p: &[usize]| self.chain(i, j, &self.positions(k(p[0]), k(p[1])), None);
        let pieces = cuts.windows(2).map(piece).collect::<Result<Vec<_>, _>>()?;
        Ok(pieces[1..].iter().fold(pieces[0].clone(), |x, p| ieee_add(self.wide, &x, p)))
    }

    /// Every `slices`-th block from block `s` on, the one that K does not fill with zeros behind.
    fn dealt(&self, s: usize) -> Vec<Option<usize>> {
        let blocks = (s..self.blocks()).step_by(self.o.slices);
        blocks.flat_map(|b| (b * self.o.bk..(b + 1) * self.o.bk).map(|k| (k < self.x.k).then_some(k))).collect()
    }

    /// The k of every position of a slice; None is padding.
    fn positions(&self, first: usize, last: usize) -> Vec<Option<usize>> {
        let bk = self.o.bk;
        let real: Vec<Option<usize>> = (first..last).map(Some).collect();
        let r = real.len() % bk;
        let padding = vec![None; if r == 0 { 0 } else { bk - r }];
        match self.o.tail {
            Tail::Last => [real, padding].concat(),
            Tail::First => [&real[..r], &padding, &real[r..]].concat(),
        }
    }

    /// One slice from +0, or from C: the unit's steps in order, with promotion.
    fn chain(&self, i: usize, j: usize, positions: &[Option<usize>], start: Option<&Val>) -> Result<Val, String> {
        let unit = self.unit;
        let mut fresh = true;
        let mut acc = start.map_or(Ok(0), |c| self.as_unit_c(c))?;
        let mut master = Val::zero(false);
        let interval = self.o.promotion.as_ref().map_or(usize::MAX, |p| p.interval);
        for run in positions.chunks(interval.min(positions.len().max(1))) {
            for at in run.chunks(unit.k) {
                refuse(!fresh && unit.c != unit.d, "c and d differ: one step only")?;
                acc = self.one_step(i, j, at, acc)?;
                fresh = false;
            }
            if self.o.promotion.is_some() {
                master = self.promote(i, j, run, &decode(unit.d, acc)?, &master)?;
                (acc, fresh) = (0, true);
            }
        }
        match (self.o.promotion.is_some(), fresh) {
            (true, _) => Ok(master),
            (false, true) => decode(unit.c, acc),
            (false, false) => decode(unit.d, acc),
        }
    }

    fn as_unit_c(&self, c: &Val) -> Result<u64, String> {
        let r = ieee_round(self.unit.c, c, Round::Rne);
        let infinite = |v: &Val| matches!(v, Val::Inf(_));
        let same = infinite(&r) == infinite(c) && (&r.value() - &c.value()).is_zero();
        refuse(!same, "C is not exact in the unit's c type")?;
        Ok(exact_bits(self.unit.c, &r, canonical_nan(self.unit.nvidia, self.unit.c)))
    }

    fn one_step(&self, i: usize, j: usize, at: &[Option<usize>], acc: u64) -> Result<u64, String> {
        let x = &self.x;
        let a: Vec<u64> = at.iter().map(|p| p.map_or(0, |k| x.a[i * x.k + k])).collect();
        let b: Vec<u64> = at.iter().map(|p| p.map_or(0, |k| x.b[k * x.n + j])).collect();
        let (mut sa, mut sb) = (vec![], vec![]);
        if let Some(scale) = self.unit.scale {
            let one = exact_bits(scale, &Val::of(&Exact::new(1, 0)), 0);
            for group in at.chunks(self.unit.block) {
                let block = single(group.iter().flatten().map(|k| k / self.unit.block))?;
                sa.push(block.map_or(one, |g| x.scale_a[i * x.k.div_ceil(self.unit.block) + g]));
                sb.push(block.map_or(one, |g| x.scale_b[g * x.n + j]));
            }
        }
        Ok((self.step)(&a, &b, acc, &sa, &sb))
    }

    fn promote(&self, i: usize, j: usize, run: &[Option<usize>], acc: &Val, master: &Val) -> Result<Val, String> {
        let Some(s) = self.o.promotion.as_ref().and_then(|p| p.scales.as_ref()) else {
            return Ok(ieee_add(self.wide, master, acc));
        };
        let scale = match single(run.iter().flatten().map(|k| k / s.k_width))? {
            None => Val::of(&Exact::new(1, 0)),
            Some(g) => ieee_mul(self.wide, &of_f32(s.a[i / s.rows][g]), &of_f32(s.b[g][j / s.cols])),
        };
        Ok(ieee_fma(self.wide, &scale, acc, master, Round::Rne))
    }
}

/// A finite number.
fn of_f32(x: f32) -> Val {
    decode("f32", u64::from(x.to_bits())).expect("f32 is known")
}

/// The one block that real elements belong to, if there are any.
fn single(mut blocks: impl Iterator<Item = usize>) -> Result<Option<usize>, String> {
    let first = blocks.next();
    refuse(first.is_some_and(|f| blocks.any(|b| b != f)), "elements of two scale blocks fall together")?;
    Ok(first)
}
