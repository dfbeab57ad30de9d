//! What plans, epilogues and other operands cost: products in turn with the plain one of the same unit, one after
//! another from +0 and nothing else, by thread CPU time.
//!
//! `cargo bench --bench plans [NAMEPART...]`; `-- --test` compares bits with those that the reference's kernel gives on
//! a smaller product (what is outside the unit is the same code, without wide instructions), which every run does
//! first, and stops there.

mod support;

use gemmulate::Error;
use gemmulate::format::F16;
use gemmulate::gemm::{Matrix, Scaling, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use half::f16;
use ndarray::Array2;
use support::{median, seconds};

const TURNS: usize = 7;
/// M, N and K of what is timed.
const LARGE: usize = 1024;
/// Of what is compared: several tiles, blocks and promotions, none of them whole at the ends.
const SMALL: usize = 264;

/// All that products are made of, `n` x `n`.
struct Operands<T> {
    a: Array2<T>,
    b: Array2<T>,
    /// The same numbers as f32, and by columns.
    single: [Array2<f32>; 2],
    turned: [Array2<T>; 2],
    c: Array2<f32>,
    lines: Vec<f32>,
    scales: [Array2<f32>; 2],
}

fn operands<T: Format + Copy>(n: usize) -> Operands<T> {
    let mut x = 1u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let mut matrix = |rows: usize, columns: usize| Array2::from_shape_simple_fn((rows, columns), &mut next);
    let [a, b, c] = [(); 3].map(|()| matrix(n, n));
    let scales = [matrix(n, n.div_ceil(128)), matrix(n.div_ceil(128), n.div_ceil(128))];
    let narrow = |x: &Array2<f32>| {
        let code = |x: f32| T::SPEC.encode_f64(x.into(), Rounding::NearestEven, Overflow::Saturate);
        x.map(|&x| T::from_bits(code(x).expect("a number")))
    };
    let (narrow_a, narrow_b) = (narrow(&a), narrow(&b));
    let turned = [&narrow_a, &narrow_b].map(|x| x.t().as_standard_layout().into_owned());
    let lines = c.row(0).to_vec();
    Operands { a: narrow_a, b: narrow_b, single: [a, b], turned, c, lines, scales }
}

/// What besides a plan makes a product.
#[derive(Clone, Copy, PartialEq)]
enum With {
    Nothing,
    /// Operands in f32.
    Single,
    /// The same, rounded toward zero.
    Cut,
    /// Operands by columns.
    Turned,
    AlphaBetaC,
    C,
    /// A factor for each row and column, and a bias.
    Lines,
    /// Results in f16.
    Halves,
    PromotionScales,
}

const CASES: [(&str, &str, With); 19] = [
    ("operands in f32", "in-order", With::Single),
    ("operands in f32, toward zero", "in-order", With::Cut),
    ("operands by columns", "in-order", With::Turned),
    ("cutlass2", "cutlass2", With::Nothing),
    ("cutlass3", "cutlass3 promote=none", With::Nothing),
    ("alpha, beta, C", "cutlass3 promote=none", With::AlphaBetaC),
    ("scales and bias", "cutlass3 promote=none", With::Lines),
    ("results in f16", "cutlass3 promote=none", With::Halves),
    ("start at C", "in-order start=c", With::C),
    ("split-K 4", "cutlass3 promote=none split-k=4", With::Nothing),
    ("split-K 4, slices in turn", "cutlass3 promote=none split-k=4 slices=interleaved", With::Nothing),
    ("split-K 8, serial", "cutlass3 promote=none split-k=8 split-mode=serial", With::Nothing),
    ("split-K 8, atomic", "cutlass3 promote=none split-k=8 split-mode=atomic", With::Nothing),
    ("stream-K, 7 workers", "cutlass3 promote=none stream-k=7", With::Nothing),
    ("stream-K, 132 workers", "cutlass3 promote=none stream-k=132", With::Nothing),
    ("promotion every 128", "in-order promote=128", With::Nothing),
    ("promotion every 64", "in-order promote=64", With::Nothing),
    ("promotion every 32", "in-order promote=32", With::Nothing),
    ("deepgemm", "deepgemm", With::PromotionScales),
];

/// The product of a case, without its operands.
fn gemm<'a, T>(unit: &'a Unit, plan: &str, with: With, x: &'a Operands<T>, isa: Option<Isa>) -> Gemm<'a, f32> {
    let mut gemm = Gemm::on(unit).plan(plan.parse().expect("a plan")).threads(1);
    if let Some(isa) = isa {
        gemm = gemm.isa(isa);
    }
    match with {
        With::Nothing | With::Single | With::Turned => gemm,
        With::Cut => gemm.round_inputs(Rounding::TowardZero),
        With::AlphaBetaC => gemm.alpha(0.75).beta(-1.5).c(&x.c),
        With::C => gemm.beta(1.0).c(&x.c),
        With::Lines => {
            gemm.scale_a(Scaling::Lines(x.lines.clone())).scale_b(Scaling::Lines(x.lines.clone())).bias(&x.lines)
        }
        With::Halves => gemm.output(F16),
        With::PromotionScales => gemm.promotion_scales(&x.scales[0], &x.scales[1]),
    }
}

/// D, of whatever type.
enum Results {
    Single(Array2<f32>),
    Halves(Array2<f16>),
}

impl Results {
    fn new(n: usize, with: With) -> Self {
        if with == With::Halves { Self::Halves(Array2::zeros((n, n))) } else { Self::Single(Array2::zeros((n, n))) }
    }

    fn run(&mut self, gemm: &Gemm<'_, f32>, a: &impl Matrix, b: &impl Matrix, w: &mut Workspace) -> Result<(), Error> {
        match self {
            Self::Single(d) => gemm.run_into(a, b, d, w),
            Self::Halves(d) => gemm.run_into(a, b, d, w),
        }
    }

    fn code(&self, at: [usize; 2]) -> u64 {
        match self {
            Self::Single(d) => d[at].to_bits().into(),
            Self::Halves(d) => d[at].to_bits().into(),
        }
    }
}

/// Runs a case on its operands.
fn run<T: Format>(
    gemm: &Gemm<'_, f32>,
    with: With,
    x: &Operands<T>,
    d: &mut Results,
    w: &mut Workspace,
) -> Result<(), Error> {
    match with {
        With::Single | With::Cut => d.run(gemm, &x.single[0], &x.single[1], w),
        With::Turned => d.run(gemm, &x.turned[0].t(), &x.turned[1].t(), w),
        _ => d.run(gemm, &x.a, &x.b, w),
    }
}

fn measure<T: Format + Copy>(unit: &str, wanted: &[String], only_check: bool) {
    let unit = Unit::find(unit).expect("a unit");
    let small = operands::<T>(SMALL);
    let large = if only_check { None } else { Some(operands::<T>(LARGE)) };
    let (mut workspace, mut plain_workspace) = (Workspace::new(), Workspace::new());
    println!("{unit}");
    for (name, plan, with) in CASES {
        // A chain that starts at C takes C in the unit's format, and splits of a small K have fewer slices.
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(&**part)) {
            continue;
        }
        let few = plan.replace("split-k=8", "split-k=2").replace("split-k=4", "split-k=3");
        let few = if few.contains("cutlass3") { format!("{few} block=32x32x32") } else { few }.replace("=132", "=13");
        let (fast, slow) =
            (gemm(&unit, &few, with, &small, None), gemm(&unit, &few, with, &small, Some(Isa::Reference)));
        let mut d = Results::new(SMALL, with);
        run(&fast, with, &small, &mut d, &mut workspace).expect("a product");
        let places: Vec<[usize; 2]> = (0..64).map(|i| [i * 37 % SMALL, i * 101 % SMALL]).collect();
        let want = match with {
            With::Single | With::Cut => slow.elements(&small.single[0], &small.single[1], &places),
            _ => slow.elements(&small.a, &small.b, &places),
        };
        let got: Vec<u64> = places.iter().map(|&at| d.code(at)).collect();
        assert_eq!(got, want.expect("elements"), "{unit}: {name}");
        let Some(large) = &large else { continue };
        let (fast, plain) = (gemm(&unit, plan, with, large, None), gemm(&unit, "in-order", With::Nothing, large, None));
        let (mut d, mut plain_d) = (Results::new(LARGE, with), Results::new(LARGE, With::Nothing));
        let (mut times, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let of_plain = seconds(|| {
                run(&plain, With::Nothing, large, &mut plain_d, &mut plain_workspace).expect("a product");
            });
            let time = seconds(|| run(&fast, with, large, &mut d, &mut workspace).expect("a product"));
            times.push(time);
            shares.push(of_plain / time);
        }
        let rate = (LARGE as f64).powi(3) * 1e-9 / median(times);
        println!("  {name:30} {rate:6.2} GMAC/s   {:.2} of the plain product's rate", median(shares));
    }
}

fn main() {
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|x| x.starts_with("--"));
    let only_check = options.iter().any(|x| x == "--test");
    measure::<f16>("hopper/mma.m16n8k16.f32.f16.f16.f32", &wanted, only_check);
    measure::<F8E4M3>("hopper/wgmma.m64n8k32.f32.e4m3.e4m3", &wanted, only_check);
}
