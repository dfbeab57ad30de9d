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
use gemmulate::view::{View, ViewMut};
use ndarray::{Array1, Array2, Array3, Axis, s};

impl Rng {
    /// A number of magnitude around `2^spread` or less, of either sign.
    fn value(&mut self, spread: i32) -> f64 {
        let e = spread - self.below(12);
        let x = (self.next() >> 11) as f64 / (1u64 << 52) as f64 * 2f64.powi(e);
        if self.one_in(2) { -x } else { x }
    }
    /// A code: mostly ordinary numbers, now and then anything at all.
    fn code(&mut self, spec: &FormatSpec) -> u64 {
        if self.one_in(60) {
            return self.next() & spec.code_mask();
        }
        let spread = if spec.exponent_bits < 4 { 2 } else { 4 };
        let x = self.value(spread);
        let x = if spec.signed { x } else { x.abs().max(0.01) };
        spec.encode_f64(x, Rounding::NearestEven, Overflow::Saturate).unwrap()
    }
    fn codes(&mut self, spec: &FormatSpec, size: usize) -> Vec<u64> {
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
            p.split_k(o.slices).split_mode(mode)
        }
        2 => {
            o.slices = 1 + rng.below(3);
            let mut order: Vec<usize> = (0..o.slices).collect();
            let turn = rng.below(o.slices);
            order.rotate_left(turn);
            let flush = rng.one_in(2);
            o.reduce = want::Reduce::Atomic { order: order.clone(), flush };
            p.split_k(o.slices).atomic_order(&order).atomic_flush(flush)
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
    let columns = if rng.one_in(20) { 150 } else { 7 };
    let size =
        [rng.below(7), rng.below(columns), rng.below(5 * desc.k.min(40))].map(|n| n.max(usize::from(!rng.one_in(9))));
    let [m, n, k] = size;
    random_epilogue(rng, &desc, &mut plan, &mut o);
    let mut factors = |lines: usize| (0..lines).map(|_| rng.value(2) as f32).collect::<Vec<_>>();
    let (rows, all, bias) = (factors(m), factors(n), factors(n));
    if rng.one_in(4) {
        o.outer = [rng.one_in(2).then_some(rows), rng.one_in(2).then_some(all)];
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
        o.alpha = rng.pick(&[1.0, 0.0, -1.5, 3.25]);
        o.beta = rng.pick(&[0.0, 1.0, -0.75, 0.1f32.into()]);
    }
    if rng.one_in(3) {
        o.epilogue = rng.pick(&[want::Epilogue::TwoX, want::Epilogue::ThreeX]);
    }
    let form = if o.epilogue == want::Epilogue::TwoX { Epilogue::TwoX } else { Epilogue::ThreeX };
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
        let blocks =
            ScaleBlocks { rows: 1 + rng.below(3), k: interval * (1 + rng.below(2)), columns: 1 + rng.below(3) };
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
    let mut gemm =
        Gemm::on(&case.unit).plan(case.plan.clone()).alpha(o.alpha).beta(o.beta).output(*out).threads(threads);
    if o.beta != 0.0 {
        gemm = gemm.c_any(c);
    }
    if case.unit.scale.is_some() {
        let sa = View::from_slice(&case.scale_a, [m, blocks], [blocks as isize, 1], 0).unwrap();
        let sb = View::from_slice(&case.scale_b, [n, blocks], [blocks as isize, 1], 0).unwrap().transposed();
        gemm = gemm.block_scales(&Codes::U64(sa), &Codes::U64(sb));
    }
    let [outer_a, outer_b] = o.outer.clone().map(|scales| scales.map_or(Scaling::One, Scaling::Lines));
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

#[test]
fn plans_print_and_parse() {
    let texts = [
        "in-order",
        "cutlass2 split-k=3",
        "cutlass3 block=128x128x64 split-k=4",
        "deepgemm",
        "cutlass2 split-k=2 out=bf16",
        "deepgemm promote=none",
        "deepgemm promote=none scales=1x128x128",
        "deepgemm split-k=2 split-mode=parallel seed=5",
        "cutlass3 split-k=3 split-mode=atomic order=2,0,1 flush=no",
        "cutlass3 split-k=3 split-mode=atomic seed=9",
        "cutlass2 stream-k=132 tail=last start=c epilogue=3x",
        "in-order promote=64 scales=2x64x32",
    ];
    for text in texts {
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text);
    }
    assert_eq!("deepgemm promote=none scales=none".parse::<Plan>().unwrap(), Plan::deepgemm().no_promotion());
    let mut plans: Vec<Plan> = Preset::ALL.map(|(preset, _)| Plan::from(preset)).to_vec();
    let mut vary = |changes: &[&dyn Fn(Plan) -> Plan]| {
        let old = plans.clone();
        plans.extend(old.iter().flat_map(|plan| changes.iter().map(|change| change(plan.clone()))));
    };
    vary(&[&|p| p.atomic_seed(5), &|p| p.atomic_order(&[1, 0])]);
    vary(&[&|p| p.split_mode(SplitMode::Parallel), &|p| p.split_mode(SplitMode::Atomic)]);
    vary(&[&Plan::no_promotion, &|p| p.promote(64)]);
    vary(&[&|p| p.scale_blocks(None), &|p| p.scale_blocks(Some(ScaleBlocks::DEEPGEMM))]);
    vary(&[&|p| p.block(128, 64, 32).split_k(2), &|p| p.resolved(&Unit::all().next().unwrap())]);
    vary(&[&|p| p.tail(Tail::First).start(Start::C), &|p| p.epilogue(Epilogue::Plain).atomic_flush(false).stream_k(7)]);
    vary(&[&|p| p.output(*format_named("f16").unwrap())]);
    for plan in plans {
        assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan, "{plan}");
    }
    let same: Plan = " CUTLASS3  seed=9 split-k=3 ".parse().unwrap();
    assert_eq!(same, texts[9].parse().unwrap());
    let bad = [
        "",
        "cutlass",
        "cutlass3 split=4",
        "cutlass3 split-k",
        "cutlass3 split-k=x",
        "cutlass3 block=1x2",
        "in-order tail=middle",
        "in-order split-k=2 split-k=3",
        "in-order order=1,0 seed=3",
        "in-order split-k=-1",
    ];
    for text in bad {
        let error = text.parse::<Plan>().unwrap_err().to_string();
        assert!(error.contains("plan: expected"), "{error}");
    }
}

#[test]
fn plans_name_the_type_of_d() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let (a, b) = (Array2::<f32>::from_elem((3, 32), 0.1), Array2::<f32>::from_elem((32, 2), 0.3));
    let plan: Plan = "cutlass2 split-k=2 block=16x16x16 out=bf16".parse().unwrap();
    let (bf16, wide) = (format_named("bf16").unwrap(), Gemm::on(&unit).plan(plan.clone()));
    let by_plan = wide.clone().elements(&a, &b, &[[0, 0]]).unwrap();
    let by_hand = Gemm::on(&unit).plan("cutlass2 split-k=2 block=16x16x16".parse().unwrap()).output(*bf16);
    assert_eq!(by_plan, by_hand.elements(&a, &b, &[[0, 0]]).unwrap());
    assert!(by_plan[0] < 1 << 16, "{by_plan:x?}");
    // Who asks for another type gets it.
    let other = wide.output(*format_named("f32").unwrap()).elements(&a, &b, &[[0, 0]]).unwrap();
    assert!(other[0] > 1 << 16, "{other:x?}");
    let refusal = |text: &str| text.parse::<Plan>().unwrap().check(&unit, 64, 64, 64).unwrap_err().to_string();
    assert!(refusal("in-order split-k=2 split-mode=atomic out=f16").contains("no atomic additions"));
    assert!(refusal("in-order out=f64").contains("gives f32 or f16 or bf16, not f64"));
    let plans = ["in-order", "in-order out=f32", "in-order out=f16"].map(|text| text.parse().unwrap());
    assert_eq!(Plan::distinct_loops(plans, &unit, 64, 64, 64).len(), 2);
}

#[test]
fn a_trace_says_what_happens_outside_the_unit() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let (a, b, c) = (Array2::<f32>::ones((2, 32)), Array2::<f32>::ones((32, 2)), Array2::from_elem((2, 2), 4f32));
    let bias = [0.25, 0.5];
    for (plan, lines) in [
        (
            "cutlass3 block=16x16x16 split-k=2",
            ["sum of pieces: 16.0 + 16.0 = 32.0", "fma(beta 3.0, C 4.0, alpha 2.0 * 8.0) = 28.0"],
        ),
        ("in-order stream-k=2 block=16x16x16", ["sum of pieces: 16.0 + 16.0 = 32.0", "alpha 2.0 * 8.0) = 28.0"]),
        ("cutlass2", ["k = 0..32", "fma(alpha 2.0, 8.0, beta 3.0 * C 4.0) = 28.0"]),
    ] {
        let gemm = Gemm::on(&unit).plan(plan.parse().unwrap()).alpha(2.0).beta(3.0).c(&c).bias(&bias);
        let gemm = gemm.scale_a(Scaling::Lines(vec![1.0, 0.5])).scale_b(Scaling::Tensor(0.5));
        let (code, text) = gemm.trace(&a, &b, [1, 1]).unwrap();
        assert_eq!(f32::from_bits(code as u32), 28.5, "{text}");
        let outside = [
            "scales: scale_a 0.5 * (scale_b 0.5 * 32.0) = 8.0",
            "bias: 28.0 + 0.5 = 28.5",
            "D: 28.5 to f32, 0x41e40000",
        ];
        for line in lines.iter().chain(&outside) {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }
}

#[test]
fn impossible_plans_are_refused_with_the_reason() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let mixed = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f16").unwrap();
    for (unit, plan, why) in [
        (&unit, "in-order block=16x8x24", "no multiple of the unit's K"),
        (&unit, "in-order block=0x8x16", "block sizes"),
        (&unit, "in-order block=99999999999x8x16", "block sizes"),
        (&unit, "in-order split-k=0", "0 slices"),
        (&unit, "in-order split-k=18446744073709551615", "empty"),
        (&unit, "in-order split-k=7", "leaves a slice of K empty"),
        (&unit, "in-order split-k=2 stream-k=2", "excludes"),
        (&unit, "in-order stream-k=0", "0 workers"),
        (&unit, "in-order stream-k=99999999", "blocks of work"),
        (&unit, "in-order split-k=2 order=1,1", "no permutation"),
        (&unit, "in-order split-mode=serial seed=1", "only atomic splits"),
        (&unit, "in-order promote=8", "promotion interval"),
        (&unit, "in-order promote=0", "promotion interval"),
        (&unit, "in-order scales=1x128x128", "by promotion only"),
        (&unit, "in-order start=c split-k=2", "start at C"),
        (&unit, "deepgemm promote=64 scales=1x48x128", "two scale blocks"),
        (&mixed, "in-order", "one step only"),
    ] {
        let error = plan.parse::<Plan>().unwrap().check(unit, 64, 64, 96).unwrap_err().to_string();
        assert!(error.contains(why), "{plan}: {error}");
    }
}

#[test]
fn arrays_of_any_layout_and_type() {
    let h100 = MmaUnit::<Hopper, Wgmma<128, half::f16, half::f16, f32>>::new();
    let mut rng = Rng(3);
    let a = Array2::from_shape_fn((5, 33), |_| half::f16::from_bits(rng.code(&gemmulate::format::F16) as u16));
    let b = Array2::from_shape_fn((33, 7), |_| half::f16::from_bits(rng.code(&gemmulate::format::F16) as u16));
    let bits = |d: &Array2<f32>| d.mapv(f32::to_bits);
    let d = a.dot_on(&b, &h100).unwrap();
    // Column-major and reversed operands: the same elements in the same order of K.
    let column_major = b.t().as_standard_layout().into_owned().reversed_axes();
    assert_eq!(bits(&a.dot_on(&column_major, &h100).unwrap()), bits(&d));
    let flipped = a.slice(s![..;-1, ..]);
    assert_eq!(bits(&flipped.dot_on(&b, &h100).unwrap().slice(s![..;-1, ..]).to_owned()), bits(&d));
    // Vectors, and a broadcast row.
    let v: Array1<f32> = a.row(2).dot_on(&b, &h100).unwrap();
    assert_eq!(v.mapv(f32::to_bits), d.row(2).mapv(f32::to_bits));
    let v: Array1<f32> = a.dot_on(&b.column(6), &h100).unwrap();
    assert_eq!(v.mapv(f32::to_bits), d.column(6).mapv(f32::to_bits));
    let rows = a.row(2).insert_axis(Axis(0));
    let wide = rows.broadcast((4, 33)).unwrap();
    assert_eq!(wide.dot_on(&b, &h100).unwrap().row(3).mapv(f32::to_bits), d.row(2).mapv(f32::to_bits));
    // Named, from f32 and f64 that hold the same values; and D in f64.
    let unit = Unit::find("h100 hgmma.64x128x16.f32").unwrap();
    let (a32, b64) = (a.mapv(f32::from), b.mapv(f64::from));
    assert_eq!(bits(&a32.dot_on(&b64, &unit).unwrap()), bits(&d));
    let wide: Array2<f64> = Gemm::on(&unit).run_as::<f64>(&a, &b).unwrap();
    assert!(wide.iter().zip(&d).all(|(x, y)| *x == f64::from(*y) || (x.is_nan() && y.is_nan())));
    // A batch, with one B for all.
    let batch = Array3::from_shape_fn((3, 5, 33), |(_, i, k)| a[[i, k]]);
    let all = Gemm::on(&h100).run_batch(&batch, &b.view().insert_axis(Axis(0))).unwrap();
    assert_eq!(bits(&all.index_axis(Axis(0), 2).to_owned()), bits(&d));
    // A vector by a vector.
    assert_eq!(a.row(2).dot_on(&b.column(6), &h100).unwrap().to_bits(), d[[2, 6]].to_bits());
    // Some elements only, in any order, twice if asked for twice, neighbours or not.
    let at = [[4, 6], [0, 0], [4, 6], [1, 2], [1, 3], [1, 4], [2, 5], [1, 1]];
    let want = at.map(|[i, j]| u64::from(d[[i, j]].to_bits()));
    assert_eq!(Gemm::on(&h100).elements(&a, &b, &at).unwrap(), want);
    assert!(Gemm::on(&h100).elements(&a, &b, &[[5, 0]]).is_err());
}

#[test]
fn batches_read_and_write_their_own_c() {
    let unit = Unit::find("ampere/mma.m16n8k8.f32.f16.f16.f32").unwrap();
    let a = Array3::from_shape_fn((3, 2, 4), |(t, i, k)| (t + i + k) as f32);
    let b = Array3::from_shape_fn((3, 4, 5), |(t, k, j)| (t * k) as f32 - j as f32);
    let c = Array3::from_shape_fn((3, 2, 5), |(t, i, j)| (t + i * j) as f32);
    let (gemm, mut d) = (Gemm::on(&unit).alpha(2.0).beta(-1.0), c.clone());
    gemm.run_batch_into(&a, &b, &mut d, &mut Workspace::new()).unwrap();
    for t in 0..3 {
        let [a, b, c] = [&a, &b, &c].map(|x| x.index_axis(Axis(0), t));
        assert_eq!(d.index_axis(Axis(0), t), a.dot(&b) * 2.0 - c);
    }
    // Refused: C that is not there, batches that do not go together.
    assert!(gemm.run_batch(&a, &b).unwrap_err().to_string().contains("there is none"));
    let two = b.slice(s![..2, .., ..]);
    assert!(Gemm::on(&unit).run_batch(&a, &two).unwrap_err().to_string().contains("a batch of 3 or 1"));
    assert!(Gemm::on(&unit).run_batch(&a, &a).unwrap_err().to_string().contains("B must be 4 x N"));
}

#[test]
fn general_mat_mul_reads_and_writes_c() {
    let unit = Unit::find("ampere/mma.m16n8k8.f32.f16.f16.f32").unwrap();
    let (a, b) = (Array2::from_elem((3, 4), 0.5f32), Array2::from_elem((4, 2), 2.0f32));
    let mut c = Array2::from_shape_fn((3, 2), |(i, j)| (i + j) as f32);
    general_mat_mul_on(2.0, &a, &b, 0.5, &mut c, &unit).unwrap();
    assert_eq!(c, Array2::from_shape_fn((3, 2), |(i, j)| 8.0 + 0.5 * (i + j) as f32));
    c.fill(f32::NAN);
    general_mat_mul_on(1.0f32, &a, &b, 0.0f32, &mut c, &unit).unwrap();
    assert_eq!(c, Array2::from_elem((3, 2), 4.0));
}

#[test]
fn scales_and_bias_of_the_epilogue() {
    let unit = Unit::find("ada/mma.m16n8k32.f32.e4m3.e4m3.f32").unwrap();
    let (a, b) = (Array2::from_elem((2, 32), 1.0f32), Array2::from_elem((32, 3), 1.0f32));
    let bias = [1.0, 2.0, 3.0];
    let d = Gemm::on(&unit)
        .scale_a(Scaling::Lines(vec![0.5, 2.0]))
        .scale_b(Scaling::Tensor(0.25))
        .bias(&bias)
        .run(&a, &b)
        .unwrap();
    assert_eq!(d, ndarray::arr2(&[[5.0, 6.0, 7.0], [17.0, 18.0, 19.0]]));
    let short = Gemm::on(&unit).scale_b(Scaling::Lines(vec![1.0; 2])).run(&a, &b).unwrap_err().to_string();
    assert!(short.contains("scale_b must be 1 x 3"), "{short}");
}

#[test]
fn wrong_input_is_an_error() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let fp4 = Unit::find("rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32").unwrap();
    let scaled = Unit::find("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3").unwrap();
    let (a, b) = (Array2::<f32>::ones((2, 32)), Array2::<f32>::ones((32, 3)));
    let mut nan = a.clone();
    nan[[1, 7]] = f32::NAN;
    let says = |e: Error, what: &str| assert!(e.to_string().contains(what), "{e}");
    says(Gemm::on(&unit).run(&b, &b).unwrap_err(), "B must be 3 x N");
    says(Gemm::on(&fp4).run(&nan, &b).unwrap_err(), "A[1, 7] = NaN");
    says(Gemm::on(&fp4).run(&(&a * 7.0), &b).unwrap_err(), "saturate");
    assert_eq!(Gemm::on(&fp4).overflow(Overflow::Saturate).run(&(&a * 7.0), &b).unwrap()[[0, 0]], 192.0);
    says(Gemm::on(&scaled).run(&a, &b).unwrap_err(), "needs block scales");
    says(Gemm::on(&unit).block_scales(&a, &b).run(&a, &b).unwrap_err(), "takes no block scales");
    says(Gemm::on(&scaled).block_scales(&a, &b).run(&a, &b).unwrap_err(), "scale_a must be 2 x 2");
    let thirds = [Array2::from_elem((2, 2), 1.0 / 3.0), Array2::from_elem((2, 3), 1.0)];
    says(Gemm::on(&scaled).block_scales(&thirds[0], &thirds[1]).run(&a, &b).unwrap_err(), "scale_a[0, 0]");
    says(Gemm::on(&unit).beta(1.0).run(&a, &b).unwrap_err(), "there is none");
    says(Gemm::on(&unit).beta(1.0).c(&a).run(&a, &b).unwrap_err(), "C must be 2 x 3");
    says(Gemm::on(&unit).alpha(1e300).run(&a, &b).unwrap_err(), "beyond f32");
    says(Gemm::on(&unit).output(gemmulate::format::E4M3).run(&a, &b).unwrap_err(), "not e4m3");
    let plan = Plan::in_order().split_k(2).split_mode(SplitMode::Atomic);
    says(Gemm::on(&unit).plan(plan).run_as::<half::f16>(&a, &b).unwrap_err(), "no atomic additions in f16");
    says(Gemm::on(&unit).plan(Plan::deepgemm()).run(&a, &b).unwrap_err(), "needs promotion scales");
    let stop = |_: gemmulate::gemm::Progress| core::ops::ControlFlow::Break(());
    assert_eq!(Gemm::on(&unit).progress(&stop).run(&a, &b).unwrap_err(), Error::Cancelled);
}

#[test]
fn empty_products() {
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    let (a, b) = (Array2::<f32>::zeros((3, 0)), Array2::<f32>::zeros((0, 2)));
    assert_eq!(Gemm::on(&unit).run(&a, &b).unwrap(), Array2::<f32>::zeros((3, 2)));
    let c = Array2::from_elem((3, 2), 5.0f32);
    assert_eq!(Gemm::on(&unit).beta(2.0).c(&c).run(&a, &b).unwrap(), Array2::from_elem((3, 2), 10.0));
    assert_eq!(
        Gemm::on(&unit).run(&Array2::<f32>::zeros((0, 4)), &Array2::<f32>::zeros((4, 2))).unwrap().dim(),
        (0, 2)
    );
    // What stood in D does not stay there, whichever way a product takes.
    for name in
        ["cdna3/v_mfma_f32_32x32x2_f32", "hopper/mma.m16n8k16.f32.f16.f16.f32", "ampere/mma.m8n8k4.f64.f64.f64.f64"]
    {
        let unit = Unit::find(name).unwrap();
        for k in [0, 1, unit.shape.k] {
            let (a, b) = (Array2::<f64>::ones((16, k)), Array2::<f64>::ones((k, 8)));
            let mut d = Array2::<f64>::from_elem((16, 8), 7.0);
            let mut narrow = d.mapv(|x| x as f32);
            if unit.d.storage_bits == 64 {
                Gemm::on(&unit).run_into(&a, &b, &mut d, &mut Workspace::new()).unwrap();
            } else {
                let [a, b] = [&a, &b].map(|x| x.mapv(|x| x as f32));
                Gemm::on(&unit).run_into(&a, &b, &mut narrow, &mut Workspace::new()).unwrap();
                d = narrow.mapv(f64::from);
            }
            assert_eq!(d, Array2::from_elem((16, 8), k as f64), "{name} {k}");
        }
        let mut none = Array2::<f64>::zeros((0, 8));
        Gemm::on(&unit)
            .run_into(&Array2::<f64>::ones((0, 4)), &Array2::<f64>::ones((4, 8)), &mut none, &mut Workspace::new())
            .unwrap();
    }
}

#[test]
fn codes_narrower_than_their_format_are_errors() {
    use gemmulate::gemm::{Codes, CodesMut};
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    let (bytes, words, mut d) = ([0x3Cu8; 16], [0x3C00u16; 16], [0u32; 16]);
    let narrow = Codes::U8(View::from_slice(&bytes, [4, 4], [4, 1], 0).unwrap());
    let wide = Codes::U16(View::from_slice(&words, [4, 4], [4, 1], 0).unwrap());
    for (a, b, fits) in [(narrow, wide, false), (wide, narrow, false), (wide, wide, true)] {
        let to = CodesMut::U32(ViewMut::from_slice(&mut d, [4, 4], [4, 1], 0).unwrap());
        let result = Gemm::on(&unit).run_codes(&a, &b, to, &mut Workspace::new());
        assert_eq!(result.is_ok(), fits);
        assert!(result.err().is_none_or(|e| e.to_string().contains("at least 16 bits")));
    }
    assert_eq!(d, [4f32.to_bits(); 16]);
}

#[test]
fn products_too_large_for_any_memory_are_errors() {
    let unit = Unit::find("cdna1/v_mfma_f32_32x32x4f16").unwrap();
    for size in [1usize << 40, 1 << 62] {
        let (a, b) = (Array2::<f32>::zeros((size, 0)), Array2::<f32>::zeros((0, size)));
        let error = Gemm::on(&unit).run(&a, &b).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let error = gemmulate::gemm::metrics::reference(&a.mapv(f64::from), &b.mapv(f64::from)).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }
}

#[test]
fn quantised_products_and_checkpoint_layouts() {
    use gemmulate::format::{E2M1, E4M3};
    use gemmulate::gemm::quantise;
    let mut rng = Rng(8);
    let a = Array2::from_shape_fn((3, 70), |_| rng.value(3) as f32);
    let b = Array2::from_shape_fn((70, 2), |_| rng.value(3) as f32);
    for (name, format) in [
        ("rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0", Some(E4M3)),
        ("rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0", Some(E2M1)),
        ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", None),
    ] {
        let unit = Unit::find(name).unwrap();
        let quantise = |x: &Array2<f32>, axis| match &format {
            Some(f) => quantise::mx(x, f, 32, axis, Rounding::NearestEven).unwrap(),
            None => quantise::nvfp4(x, axis, Default::default()).unwrap(),
        };
        let (qa, qb) = (quantise(&a, Axis(1)), quantise(&b, Axis(0)));
        let d = Gemm::on(&unit).quantised(&qa, &qb).run(&qa, &qb).unwrap();
        let want = qa.values().dot(&qb.values());
        for (d, want) in d.iter().zip(&want) {
            assert!((f64::from(*d) - want).abs() <= want.abs() * 1e-4 + 1e-5, "{name}: {d} {want}");
        }
        let error = (&qa.values() - &a.mapv(f64::from)).mapv(f64::abs).fold(0.0, |m: f64, x| m.max(*x));
        // MX saturates what lies above its largest number: up to a quarter of 16.
        assert!(error < 4.0, "{name} {error}");
    }
    let mx = Unit::find("rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e2m1.f32.ue8m0").unwrap();
    let rounding = Rounding::NearestEven;
    assert_eq!(
        quantise::for_unit(&b, &mx, Axis(0), rounding).unwrap(),
        quantise::mx(&b, &E2M1, 32, Axis(0), rounding).unwrap()
    );
    let plain = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    assert!(quantise::for_unit(&b, &plain, Axis(0), rounding).is_err());
    // Quantising columns is quantising the transposed rows, whatever the layout.
    let (rows, columns) =
        (quantise::mx(&b.t(), &E4M3, 32, Axis(1), rounding), quantise::mx(&b, &E4M3, 32, Axis(0), rounding));
    let (rows, columns) = (rows.unwrap(), columns.unwrap());
    assert_eq!((rows.codes.t(), rows.scales.t()), (columns.codes.view(), columns.scales.view()));
    let scales = Array2::from_shape_fn((200, 7), |(i, j)| (i * 7 + j) as u8);
    let bytes = quantise::swizzle(&scales);
    assert_eq!(bytes.len(), 2 * 2 * 512);
    assert_eq!(bytes[16 + 4 + 1], scales[[33, 1]]);
    assert_eq!(quantise::unswizzle(&bytes, 200, 7).unwrap(), scales);
    assert!(quantise::unswizzle(&bytes[1..], 200, 7).is_err());
    for bits in [4, 6, 8] {
        let codes: Vec<u8> = (0..37).map(|_| rng.next() as u8 & (0xFF >> (8 - bits))).collect();
        assert_eq!(quantise::unpack(&quantise::pack(&codes, bits), bits, 37).unwrap(), codes);
        assert!(quantise::unpack(&[0; 2], bits, 37).is_err());
    }
}
