//! Whole products: the loop of single instructions that the plan describes, by an independent
//! implementation of SPEC section 5; and that nothing else changes a bit.

use crate::oracle::gemm_options as want;
use crate::oracle::gemm_oracle::{self, Matrices};
use crate::oracle::names;
use crate::rng::Rng;
use gemmulate::Error;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, ScaleBlocks, Scaling, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::view::{View, ViewMut};
use ndarray::Array2;

impl Rng {
    /// A number of magnitude around `2^spread` or less, of either sign.
    pub(crate) fn value(&mut self, spread: i32) -> f64 {
        let e = spread - self.below(12);
        let x = (self.next() >> 11) as f64 / (1u64 << 52) as f64 * 2f64.powi(e);
        if self.one_in(2) { -x } else { x }
    }
    /// A code: mostly ordinary numbers, now and then anything at all.
    pub(crate) fn code(&mut self, spec: &FormatSpec) -> u64 {
        if self.one_in(60) {
            return self.next() & spec.code_mask();
        }
        let spread = if spec.exponent_bits < 4 { 2 } else { 4 };
        let x = self.value(spread);
        let x = if spec.signed { x } else { x.abs().max(0.01) };
        spec.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap()
    }
    pub(crate) fn codes(&mut self, spec: &FormatSpec, size: usize) -> Vec<u64> {
        (0..size).map(|_| self.code(spec)).collect()
    }
}

/// One product, as the oracle and as the library are asked for it.
struct Case {
    unit: Unit,
    options: want::Options,
    plan: Plan,
    size: [usize; 3],
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    scale_a: Vec<u64>,
    scale_b: Vec<u64>,
    promotion: Option<[Array2<f32>; 2]>,
}

fn random_plan(rng: &mut Rng, unit: &Unit, desc: &names::Desc) -> (Plan, want::Options) {
    let (name, mut plan) = rng.pick(&[0, 1, 2, 3].map(|i: usize| Preset::ALL[i])).into_pair();
    let mut o = want::preset(name, &unit.name, desc).unwrap();
    if name != "in-order" || rng.one_in(2) {
        let step = desc.k;
        (o.bm, o.bn, o.bk) = (1 + rng.below(8), 1 + rng.below(8), step * (1 + rng.below(3)));
        plan = plan.block(o.bm, o.bn, o.bk);
    }
    if rng.one_in(3) {
        o.tail = rng.pick(&[want::Tail::Last, want::Tail::First]);
        plan = plan.tail(if o.tail == want::Tail::Last { Tail::Last } else { Tail::First });
    }
    random_split(rng, &mut plan, &mut o);
    if rng.one_in(4) {
        let interval = desc.k * (1 + rng.below(4));
        o.promotion = Some(want::Promotion { interval, scales: None });
        plan = plan.promote(interval).scale_blocks(None);
    }
    if name == "deepgemm" && !rng.one_in(3) {
        plan = plan.no_promotion();
        o.promotion = None;
    }
    (plan, o)
}

fn random_split(rng: &mut Rng, plan: &mut Plan, o: &mut want::Options) {
    let p = plan.clone();
    *plan = match rng.below(6) {
        0 | 1 => {
            o.slices = 1 + rng.below(3);
            o.reduce = rng.pick(&[0, 1]).pair([want::Reduce::Parallel, want::Reduce::Serial]);
            let mode = if o.reduce == want::Reduce::Serial { SplitMode::Serial } else { SplitMode::Parallel };
            let split = p.split_k(o.slices).split_mode(mode);
            match rng.below(4) {
                0 | 1 if o.slices > 1 => {
                    let elements = 1 + rng.below(12);
                    o.align = Some(elements);
                    split.split_align(elements)
                }
                2 if o.slices > 1 => {
                    (o.interleaved, o.tail) = (true, want::Tail::Last);
                    split.slices(Slices::Interleaved).tail(Tail::Last)
                }
                _ => split,
            }
        }
        2 => {
            o.slices = 1 + rng.below(3);
            let mut order: Vec<usize> = (0..o.slices).collect();
            let turn = rng.below(o.slices);
            order.rotate_left(turn);
            let flush = rng.one_in(2);
            o.reduce = want::Reduce::Atomic { order: order.clone(), flush };
            let split = p.split_k(o.slices).atomic_order(&order).atomic_flush(flush);
            o.interleaved = o.slices > 1 && o.tail == want::Tail::Last && rng.one_in(3);
            if o.interleaved { split.slices(Slices::Interleaved) } else { split }
        }
        3 => {
            let workers = 1 + rng.below(12);
            o.stream_k = Some(workers);
            p.stream_k(workers)
        }
        _ => p,
    };
}

trait Pair {
    fn pair<T: Clone>(self, of: [T; 2]) -> T;
}
impl Pair for usize {
    fn pair<T: Clone>(self, of: [T; 2]) -> T {
        of[self].clone()
    }
}
trait IntoPair {
    fn into_pair(self) -> (&'static str, Plan);
}
impl IntoPair for (Preset, &'static str) {
    fn into_pair(self) -> (&'static str, Plan) {
        (self.1, Plan::from(self.0))
    }
}

fn random_case(rng: &mut Rng) -> Case {
    let all: Vec<Unit> = Unit::all().collect();
    let unit = all[rng.below(all.len())].clone();
    let desc = names::describe(&unit.name).unwrap();
    let (mut plan, mut o) = random_plan(rng, &unit, &desc);
    let most = if rng.one_in(20) { 150 } else { 7 };
    let columns = rng.below(most);
    // Elements of a row are taken 64 at a time.
    let columns = if rng.one_in(30) { rng.pick(&[63, 64, 65, 128]) } else { columns };
    let size = [rng.below(7), columns, rng.below(5 * desc.k.min(40))].map(|n| n.max(usize::from(!rng.one_in(9))));
    let [m, n, k] = size;
    random_epilogue(rng, &desc, &mut plan, &mut o);
    let mut factors = |lines: usize| (0..lines).map(|_| rng.value(2) as f32).collect::<Vec<_>>();
    let (rows, all, bias) = (factors(m), factors(n), factors(n));
    if rng.one_in(4) {
        o.outer = [rng.one_in(2).then_some(rows), rng.one_in(2).then_some(all)];
    } else if rng.one_in(4) {
        (o.outer, o.per_tensor) = ([m, n].map(|lines| Some(vec![rng.value(2) as f32; lines])), true);
    }
    o.bias = rng.one_in(6).then_some(bias);
    let c_spec = format_named(o.c_type).unwrap();
    let block = desc.block.max(1);
    let (blocks, scale) = (k.div_ceil(block), unit.scale.map(|s| s.format));
    let scales = |rng: &mut Rng, lines: usize| scale.map_or(vec![], |s| rng.codes(&s, lines * blocks));
    let promotion = random_promotion_scales(rng, &mut plan, &mut o, size);
    Case {
        a: rng.codes(&unit.a, m * k),
        b: rng.codes(&unit.b, k * n),
        c: rng.codes(c_spec, m * n),
        scale_a: scales(rng, m),
        scale_b: scales(rng, n),
        unit,
        options: o,
        plan,
        size,
        promotion,
    }
}

fn random_epilogue(rng: &mut Rng, desc: &names::Desc, plan: &mut Plan, o: &mut want::Options) {
    let wide = desc.d == "f64";
    o.d_type = if wide { rng.pick(&["f64", "f32"]) } else { rng.pick(&["f32", "f32", "f16", "bf16"]) };
    o.c_type = if wide { rng.pick(&["f64", "f32"]) } else { rng.pick(&["f32", "f16", "bf16"]) };
    if rng.one_in(12) {
        (o.start_at_c, o.alpha, o.beta, o.c_type) = (true, 1.0, 1.0, desc.c);
        *plan = plan.clone().start(Start::C);
    } else if rng.one_in(2) {
        o.alpha = rng.pick(&[1.0, 0.0, -1.5, 3.25, -0.0, 2f64.powi(-140), f64::INFINITY]);
        o.beta = rng.pick(&[0.0, 1.0, -0.75, 0.1f32.into(), -0.0, f64::NEG_INFINITY]);
    }
    if rng.one_in(3) {
        o.epilogue = rng.pick(&[want::Epilogue::TwoX, want::Epilogue::ThreeX, want::Epilogue::Rounded]);
    }
    let form = match o.epilogue {
        want::Epilogue::TwoX => Epilogue::TwoX,
        want::Epilogue::ThreeX => Epilogue::ThreeX,
        want::Epilogue::Rounded => Epilogue::Rounded,
    };
    *plan = plan.clone().epilogue(form);
}

/// Scales for plans that take them: DeepGEMM's, or in blocks that small products have several of.
fn random_promotion_scales(
    rng: &mut Rng,
    plan: &mut Plan,
    o: &mut want::Options,
    [m, n, k]: [usize; 3],
) -> Option<[Array2<f32>; 2]> {
    let interval = o.promotion.as_ref()?.interval;
    if plan.scale_widths().is_none() && rng.one_in(2) {
        let blocks = ScaleBlocks {
            rows: 1 + rng.below(3),
            k: interval * (1 + rng.below(2)),
            columns: rng.pick(&[1, 2, 3, 100, usize::MAX]),
        };
        *plan = plan.clone().promote(interval).scale_blocks(Some(blocks));
    }
    let ScaleBlocks { rows, k: width, columns } = plan.scale_widths()?;
    let mut scales = |i: usize, j: usize| Array2::from_shape_fn((i, j), |_| rng.value(2) as f32);
    let (a, b) = (scales(m.div_ceil(rows), k.div_ceil(width)), scales(k.div_ceil(width), n.div_ceil(columns)));
    let lists = |x: &Array2<f32>| x.outer_iter().map(|r| r.to_vec()).collect();
    let scales = want::BlockScales { a: lists(&a), b: lists(&b), rows, k_width: width, cols: columns };
    o.promotion.as_mut().unwrap().scales = Some(scales);
    Some([a, b])
}

/// The oracle's D.
fn wanted(case: &Case) -> Result<Vec<u64>, String> {
    let desc = names::describe(&case.unit.name).unwrap();
    let [m, n, k] = case.size;
    let blocks = k.div_ceil(desc.block.max(1));
    // The oracle takes B's scales block after block, as the library does.
    let turned: Vec<u64> = if case.scale_b.is_empty() {
        vec![]
    } else {
        (0..blocks * n).map(|t| case.scale_b[t % n * blocks + t / n]).collect()
    };
    let x = Matrices { m, n, k, a: &case.a, b: &case.b, c: &case.c, scale_a: &case.scale_a, scale_b: &turned };
    gemm_oracle::gemm_scaled(&desc, &case.options, x, &|a, b, c, sa, sb| {
        case.unit.dot_add_scaled_bits(a, b, c, sa, sb).unwrap()
    })
}

/// A layout: codes spread over a slice by strides.
fn spread(rng: &mut Rng, codes: &[u64], [rows, columns]: [usize; 2]) -> Spread {
    let gap = 1 + rng.below(2);
    let transposed = rng.one_in(2);
    let (r, c) = if transposed { (gap, gap * rows.max(1)) } else { (columns.max(1) * gap, gap) };
    let mut slice = vec![0xDEAD; (rows * columns * gap).max(1) + 2];
    let (mut strides, mut offset) = ([r as isize, c as isize], 0);
    for (axis, length) in [rows, columns].into_iter().enumerate() {
        if rng.one_in(3) && rows * columns > 0 {
            offset += (length - 1) * strides[axis].unsigned_abs();
            strides[axis] = -strides[axis];
        }
    }
    for i in 0..rows {
        for j in 0..columns {
            let at = offset as isize + i as isize * strides[0] + j as isize * strides[1];
            slice[at as usize] = codes[i * columns + j];
        }
    }
    (slice, strides, offset)
}

type Spread = (Vec<u64>, [isize; 2], usize);

fn view(x: &Spread, shape: [usize; 2]) -> View<'_, u64> {
    View::from_slice(&x.0, shape, x.1, x.2).unwrap()
}

fn found(rng: &mut Rng, case: &Case, threads: usize) -> Result<Vec<u64>, Error> {
    let ([m, n, k], o) = (case.size, &case.options);
    let (a, b, c) = (spread(rng, &case.a, [m, k]), spread(rng, &case.b, [k, n]), spread(rng, &case.c, [m, n]));
    let (out, c_spec) = (format_named(o.d_type).unwrap(), format_named(o.c_type).unwrap());
    let desc = names::describe(&case.unit.name).unwrap();
    let blocks = k.div_ceil(desc.block.max(1));
    let c = AnyMatrix::Typed(Codes::U64(view(&c, [m, n])), *c_spec);
    // What happens outside the unit is compiled for each set.
    let sets: Vec<Isa> = Isa::ALL.iter().copied().filter(|isa| isa.is_available()).collect();
    let mut gemm = Gemm::on(&case.unit).plan(case.plan.clone()).isa(rng.pick(&sets));
    gemm = gemm.alpha(o.alpha).beta(o.beta).output(*out).threads(threads);
    if o.beta != 0.0 {
        gemm = gemm.c(&c);
    }
    if case.unit.scale.is_some() {
        let sa = View::from_slice(&case.scale_a, [m, blocks], [blocks as isize, 1], 0).unwrap();
        let sb = View::from_slice(&case.scale_b, [n, blocks], [blocks as isize, 1], 0).unwrap().transposed();
        gemm = gemm.block_scales(&Codes::U64(sa), &Codes::U64(sb));
    }
    let scaling = |scales: Vec<f32>| {
        if o.per_tensor { Scaling::Tensor(scales.first().copied().unwrap_or(1.0)) } else { Scaling::Lines(scales) }
    };
    let [outer_a, outer_b] = o.outer.clone().map(|scales| scales.map_or(Scaling::One, scaling));
    gemm = gemm.scale_a(outer_a).scale_b(outer_b);
    if let Some(bias) = &o.bias {
        gemm = gemm.bias(bias);
    }
    if let Some([sa, sb]) = &case.promotion {
        gemm = gemm.promotion_scales(sa, sb);
    }
    let mut d = vec![0; m * n];
    let target = CodesMut::U64(ViewMut::from_slice(&mut d, [m, n], [n as isize, 1], 0)?);
    let (a, b) = (Codes::U64(view(&a, [m, k])), Codes::U64(view(&b, [k, n])));
    gemm.run_codes(&a, &b, target, &mut Workspace::new())?;
    if m * n > 0 && rng.one_in(4) {
        // The drawn element is the computed one, and so are elements computed alone.
        let (i, j) = (rng.below(m), rng.below(n));
        let (code, text) = gemm.trace(&a, &b, [i, j])?;
        assert_eq!(code, d[i * n + j], "{}\n{text}", case.plan);
        let row: Vec<[usize; 2]> = (0..n).map(|j| [i, j]).collect();
        assert_eq!(gemm.elements(&a, &b, &row)?, d[i * n..(i + 1) * n], "{}", case.plan);
    }
    Ok(d)
}

#[test]
fn products_are_the_loops_that_their_plans_describe() {
    let count = std::env::var("GEMMULATE_FRESH").map_or(600, |n| n.parse().unwrap());
    let mut rng = Rng(5);
    let (mut agreed, mut refused) = (0, 0);
    for round in 0..count {
        let case = random_case(&mut rng);
        let what = || format!("round {round}: {} {} {:?} {:?}", case.unit, case.plan, case.size, case.options);
        let threads = 1 + rng.below(2);
        match (wanted(&case), found(&mut rng, &case, threads)) {
            (Ok(want), Ok(got)) => {
                assert_eq!(got, want, "{}", what());
                agreed += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            // The oracle finds some impossible plans only at an element, and here is none.
            (Ok(want), Err(Error::Plan(_) | Error::Product(_))) if want.is_empty() => refused += 1,
            (want, got) => panic!("{}\n{want:x?}\n{got:x?}", what()),
        }
    }
    assert!(agreed > count / 3 && refused > count / 50, "{agreed} {refused}");
}

/// One element by single instructions: the plain chain.
fn chain(unit: &Unit, a: &[u64], b: &[u64]) -> u64 {
    let k = unit.shape.k;
    a.chunks(k).zip(b.chunks(k)).fold(0, |c, (a, b)| {
        let pad = |x: &[u64]| [x, &vec![0; k - x.len()]].concat();
        unit.dot_add_bits(&pad(a), &pad(b), c).unwrap()
    })
}

#[test]
fn blocking_and_threads_never_change_a_bit() {
    let mut rng = Rng(11);
    for (name, m, n, k) in [
        ("hopper/wgmma.m64n128k16.f32.f16.f16", 70, 40, 1100),
        ("ampere/mma.m8n8k4.f64.f64.f64.f64", 3, 1100, 20),
        ("cdna2/v_mfma_f32_32x32x4bf16", 1, 3, 2000),
    ] {
        let unit = Unit::find(name).unwrap();
        let (a, b) = (rng.codes(&unit.a, m * k), rng.codes(&unit.b, k * n));
        let (av, bv) = ([m, k], [k, n]);
        let a_view = View::from_slice(&a, av, [k as isize, 1], 0).unwrap();
        let b_view = View::from_slice(&b, bv, [n as isize, 1], 0).unwrap();
        let run = |threads: usize| {
            let mut d = vec![0; m * n];
            let to = CodesMut::U64(ViewMut::from_slice(&mut d, [m, n], [n as isize, 1], 0).unwrap());
            let gemm = Gemm::on(&unit).threads(threads);
            gemm.run_codes(&Codes::U64(a_view), &Codes::U64(b_view), to, &mut Workspace::new()).unwrap();
            d
        };
        let one = run(1);
        assert_eq!(one, run(3), "{name}");
        for _ in 0..40 {
            let (i, j) = (rng.below(m), rng.below(n));
            let column: Vec<u64> = (0..k).map(|p| b[p * n + j]).collect();
            assert_eq!(one[i * n + j], chain(&unit, &a[i * k..(i + 1) * k], &column), "{name} {i} {j}");
        }
    }
}
