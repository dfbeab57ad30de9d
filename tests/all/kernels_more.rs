//! Every fast kernel gives the reference's bits: all kinds of input, each instruction set in turn.

use gemmulate::format::FormatSpec;
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::vectors::{Generator, KINDS, Kind, Vector};
use gemmulate::view::{View, ViewMut};
use proptest::prelude::*;

/// Operands of a product, as codes.
pub(crate) struct Problem {
    pub(crate) unit: Unit,
    pub(crate) size: [usize; 3],
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: Vec<u64>,
    pub(crate) scale_a: Vec<u64>,
    pub(crate) scale_b: Vec<u64>,
}

impl Problem {
    /// Lines of the generator as rows and columns, met with their own c on the diagonal.
    pub(crate) fn new(unit: &Unit, kinds: &[Kind], seed: u64, [m, n, steps]: [usize; 3]) -> Self {
        let (k, slots) = (unit.shape.k, unit.scales());
        let mut lines = Generator::new(unit, seed).kinds(kinds);
        let grid: Vec<Vec<Vector>> =
            (0..m.max(n)).map(|_| (0..steps).map(|_| lines.next().unwrap()).collect()).collect();
        let c = |t: usize| grid[t / n % m.max(n)][0].c;
        let mut b = vec![0; k * steps * n];
        for j in 0..n {
            for p in 0..k * steps {
                b[p * n + j] = grid[j][p / k].b[p % k];
            }
        }
        let of = |count: usize, part: fn(&Vector) -> &Vec<u64>| -> Vec<u64> {
            grid[..count].iter().flat_map(|line| line.iter().flat_map(|v| part(v).clone())).collect()
        };
        assert_eq!(of(m, |v| &v.scale_a).len(), m * steps * slots);
        Self {
            unit: unit.clone(),
            size: [m, n, k * steps],
            a: of(m, |v| &v.a),
            b,
            c: (0..m * n).map(|t| if t % n == t / n { c(t) } else { c(t % n * n) }).collect(),
            scale_a: of(m, |v| &v.scale_a),
            scale_b: of(n, |v| &v.scale_b),
        }
    }

    /// D, starting at C; operands' codes in memory as narrow as they can be, or as wide.
    fn run(&self, isa: Isa, narrow: bool) -> Vec<u64> {
        let [m, n, k] = self.size;
        let view = |x| -> View<'_, u64> { x };
        let matrix = |x, rows: usize, columns: usize| -> View<'_, u64> {
            view(View::from_slice(x, [rows, columns], [columns as isize, 1], 0).unwrap())
        };
        let plan = Plan::default().start(Start::C);
        let c = AnyMatrix::Typed(Codes::U64(matrix(&self.c, m, n)), self.unit.c);
        let mut gemm = Gemm::on(&self.unit).plan(plan).beta(1.0).output(self.unit.d).isa(isa).c_any(c);
        let slots = self.unit.scale.map_or(0, |rule| k / rule.block);
        let scales = [
            Codes::U64(matrix(&self.scale_a, m, slots)),
            Codes::U64(view(View::from_slice(&self.scale_b, [slots, n], [1, slots as isize], 0).unwrap())),
        ];
        if slots > 0 {
            gemm = gemm.block_scales(&scales[0], &scales[1]);
        }
        let mut d = vec![0; m * n];
        let to = CodesMut::U64(ViewMut::from_slice(&mut d, [m, n], [n as isize, 1], 0).unwrap());
        let (a, b) = (Stored::new(&self.a, k, &self.unit.a, narrow), Stored::new(&self.b, n, &self.unit.b, narrow));
        gemm.run_codes(&a.codes([m, k]), &b.codes([k, n]), to, &mut Workspace::new()).unwrap();
        d
    }

    pub(crate) fn check(&self, isas: &[Isa]) {
        let want = self.run(Isa::Reference, false);
        for (&isa, narrow) in isas.iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let found = self.run(isa, narrow);
            let kernel = Gemm::on(&self.unit).isa(isa).kernel_for(self.size[0]);
            for (t, (found, want)) in found.iter().zip(&want).enumerate() {
                let [_, n, k] = self.size;
                assert_eq!(
                    found,
                    want,
                    "{} on {isa}, {kernel}, row {}, column {}: {found:x} {want:x}\na {:x?}\nb {:x?}\nc {:x}\nscales {:x?} {:x?}",
                    self.unit,
                    t / n,
                    t % n,
                    &self.a[t / n * k..][..k],
                    (0..k).map(|p| self.b[p * n + t % n]).collect::<Vec<_>>(),
                    self.c[t],
                    self.scale_a,
                    self.scale_b,
                );
            }
        }
    }
}

/// Codes in memory, in the narrowest integers that hold so many bits: each row's one after another, with something
/// between rows, and ones in the bits above a code.
pub(crate) enum Stored {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// Elements between rows.
const GAP: usize = 3;

impl Stored {
    pub(crate) fn new(codes: &[u64], columns: usize, format: &FormatSpec, narrow: bool) -> Self {
        let bits = format.storage_bits;
        let above = if bits < 64 { u64::MAX << bits } else { 0 };
        let each =
            codes.chunks(columns.max(1)).flat_map(|row| row.iter().map(|code| code | above).chain([u64::MAX; GAP]));
        match if narrow { bits } else { 64 } {
            0..=8 => Self::U8(each.map(|code| code as u8).collect()),
            9..=16 => Self::U16(each.map(|code| code as u16).collect()),
            17..=32 => Self::U32(each.map(|code| code as u32).collect()),
            _ => Self::U64(each.collect()),
        }
    }

    pub(crate) fn codes(&self, shape: [usize; 2]) -> Codes<'_> {
        let strides = [(shape[1] + GAP) as isize, 1];
        match self {
            Self::U8(codes) => Codes::U8(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U16(codes) => Codes::U16(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U32(codes) => Codes::U32(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U64(codes) => Codes::U64(View::from_slice(codes, shape, strides, 0).unwrap()),
        }
    }
}

/// The sets of this machine.
pub(crate) fn isas() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| *isa != Isa::Reference && isa.is_available()).collect()
}

/// All kinds, alone and mixed, on shapes that leave edges.
fn all_kinds(unit: &Unit, seeds: core::ops::Range<u64>) {
    let steps = if unit.c == unit.d { 3 } else { 1 };
    for seed in seeds {
        // Few rows may have a kernel of their own.
        let rows = if seed % 2 == 0 { [6, 3] } else { [4, 9] };
        for kind in KINDS {
            Problem::new(unit, &[kind], seed, [rows[0], 19, steps]).check(&isas());
        }
        Problem::new(unit, &KINDS, seed, [rows[1], 33, steps]).check(&isas());
    }
}

/// One unit of every function: same recipe, formats and K.
fn functions(keep: impl Fn(&Unit) -> bool) -> Vec<Unit> {
    let mut seen = Vec::new();
    Unit::all()
        .filter(|unit| {
            let what = (unit.recipe, unit.shape.k, [unit.a, unit.b, unit.c, unit.d].map(|f| f.name), unit.scale);
            let new = keep(unit) && !seen.contains(&what);
            if new {
                seen.push(what);
            }
            new
        })
        .collect()
}

/// Units of a family have a fast kernel on every set, and it is right.
fn family(keep: impl Fn(&Recipe) -> bool, seeds: u64) {
    for unit in functions(|u| u.recipe.as_ref().is_some_and(&keep)) {
        for isa in isas() {
            let kernel = Gemm::on(&unit).isa(isa).kernel();
            assert_ne!(kernel.isa, Isa::Reference, "{unit}: {kernel}");
        }
        all_kinds(&unit, 0..seeds);
    }
}

#[test]
fn aligned_units_are_the_references() {
    family(|r| matches!(r, Recipe::Generic(g) if !g.exact), 2);
}

#[test]
fn exact_units_are_the_references() {
    family(|r| matches!(r, Recipe::Generic(g) if g.exact), 20);
}

#[test]
fn group_scaled_units_are_the_references() {
    family(|r| matches!(r, Recipe::GroupScaled(_)), 20);
}

#[test]
fn chains_of_fma_are_the_references() {
    family(|r| matches!(r, Recipe::Sequential(_) | Recipe::Software(_)), 5);
}

#[test]
fn pairwise_units_are_the_references() {
    family(|r| matches!(r, Recipe::Pairwise(_)), 20);
}

#[test]
fn round_down_units_are_the_references() {
    family(|r| matches!(r, Recipe::RoundDown(_) | Recipe::GroupedRoundDown(_)), 20);
}

/// Operands that live on the edges of the CDNA kernels' conditions: sums that cancel, ties, floors of negative inexact
/// sums, states far above or below the products, rows and columns of hard data among ordinary ones.
struct Edges(u64);

impl Edges {
    /// SplitMix64.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn sign(&mut self) -> f64 {
        if self.below(2) == 0 { 1.0 } else { -1.0 }
    }

    fn power(&mut self, from: i32, to: i32) -> f64 {
        2f64.powi(from + self.below((to - from + 1) as u64) as i32)
    }

    /// A number of a manner: integers, powers of two, all of a significand, a wide range, zeros, infinities and NaN.
    fn number(&mut self, manner: u64) -> f64 {
        let x = match manner {
            0 => self.below(5) as f64,
            1 => self.power(-14, 4),
            2 => (1.0 + self.below(1024) as f64 / 1024.0) * self.power(-2, 1),
            3 => (1.0 + self.below(1024) as f64 / 1024.0) * self.power(-14, 3),
            4 => (1.0 + self.below(128) as f64 / 128.0) * self.power(-100, 100),
            5 => (1.0 + self.below(128) as f64 / 128.0) * self.power(-70, -60),
            6 if self.below(4) > 0 => 0.0,
            6 => 1.0,
            _ => [1e30, f64::INFINITY, f64::NAN, 1e-30, 1e-40, 65504.0, 1.0][self.below(7) as usize],
        };
        x * self.sign()
    }

    fn addend(&mut self) -> f64 {
        let x = match self.below(9) {
            0 => 0.0,
            1 => self.power(-40, 40),
            2 => (1.0 + self.below(1 << 23) as f64 / 8_388_608.0) * self.power(-3, 12),
            3 => (1.0 + self.below(1 << 23) as f64 / 8_388_608.0) * self.power(-149, 127),
            4 => self.below(1 << 12) as f64,
            5 => self.power(0, 3) - self.power(-23, -19),
            6 => 1.0 + self.power(-23, -20),
            7 => f64::from(f32::MAX) * self.power(-3, 0),
            _ => [f64::INFINITY, f64::NAN, 1e-45, 1e-38, 3e38, 1e-30, 0.0][self.below(7) as usize],
        };
        x * self.sign()
    }

    fn problem(&mut self, unit: &Unit) -> Problem {
        let size = |x: u64, of: &[usize]| of[x as usize % of.len()];
        let (m, n) = (size(self.below(5), &[1, 3, 8, 9, 17]), size(self.below(6), &[1, 15, 16, 17, 33, 65]));
        let steps = size(self.below(4), &[1, 2, 5, 40]);
        let k = unit.shape.k * if unit.c == unit.d { steps } else { 1 };
        let code = |spec: &FormatSpec, x: f64| {
            let (rounding, overflow) = (Rounding::default(), Overflow::default());
            spec.encode_f64(x, rounding, overflow).or_else(|_| spec.encode_f64(1.0, rounding, overflow)).unwrap()
        };
        let manner = self.below(8);
        let (rare, cancel) = (4 + self.below(400), self.below(2) == 0);
        // A line of K: one manner, here and there another; every other product the negative of the one before.
        let mut lines = |count: usize, spec: &FormatSpec, negate: bool| -> Vec<u64> {
            (0..count)
                .flat_map(|_| {
                    let mut line: Vec<f64> = Vec::new();
                    for p in 0..k {
                        let other = self.below(rare) == 0;
                        let manner = if other { self.below(8) } else { manner };
                        let before = line.last().copied().filter(|_| cancel && p % 2 == 1);
                        let x = before.map_or_else(|| self.number(manner), |x| if negate { -x } else { x });
                        line.push(x);
                    }
                    line.into_iter().map(|x| code(spec, x)).collect::<Vec<_>>()
                })
                .collect()
        };
        let (a, by_column) = (lines(m, &unit.a, true), lines(n, &unit.b, false));
        let b = (0..k * n).map(|at| by_column[at % n * k + at / n]).collect();
        let easy = self.below(2) == 0;
        let c = (0..m * n).map(|_| code(&unit.c, if easy { self.number(2) } else { self.addend() })).collect();
        Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a: Vec::new(), scale_b: Vec::new() }
    }
}

/// Units of the CDNA families, custom ones at the bounds of the fast kernels' conditions among them.
const SUMS: [&str; 28] = [
    "cdna1/v_mfma_f32_32x32x8f16",
    "cdna1/v_mfma_f32_32x32x4f16",
    "cdna1/v_mfma_f32_32x32x4bf16",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna2/v_mfma_f32_32x32x8bf16_1k",
    "cdna2/v_mfma_f32_32x32x4bf16",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_32x32x8_bf16",
    "cdna3/v_mfma_f32_32x32x4_2b_f16",
    "cdna3/v_mfma_f32_16x16x8_xf32",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
    "custom/m8n8k16.f32.f16.bf16.f32/round-down:G=16",
    "custom/m8n8k16.f32.bf16.bf16.f32/round-down:G=4:F=23:sum=31:total=31",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=31:total=full",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=25:sum=33",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=8:sum=28",
    "custom/m8n8k8.f32.f16.f16.f32/round-down:G=4:F=20",
    "custom/m8n8k8.f32.f16.f16.f16/round-down:G=8",
    "custom/m8n8k30.f32.e4m3.e5m2.f32/round-down:G=15",
    "custom/m8n8k16.f32.f16.f16.f32/round-down-grouped:G=8",
    "custom/m8n8k12.f32.e5m2.bf16.f32/round-down-grouped:G=12:c-reach=3",
    "custom/m8n8k16.f32.f16.f16.f32/pairwise:G=8",
    "custom/m8n8k6.f32.bf16.tf32.f32/pairwise:G=1:flush-in=no",
    "custom/m8n8k6.f32.e4m3.f16.f32/pairwise:G=2:flush-out=no",
    "custom/m8n8k8.f32.tf32.f16.f32/pairwise:G=4:flush-in=no:flush-out=no:nan=ones",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:exact=yes:out=rne:e_zero=none:negative-zero=yes:nan=quiet",
    "custom/m8n8k6.f32.e5m2.f16.f32/dot:block=3:exact=yes:out=rne:e_zero=none:negative-zero=yes:pattern=even-odd",
];

#[test]
fn kernels_of_sums_hold_on_their_edges() {
    for name in SUMS {
        let unit = Unit::find(name).unwrap();
        let rounds = std::env::var("GEMMULATE_FRESH").map_or(60, |n| n.parse().unwrap());
        let mut edges = Edges(name.len() as u64);
        for _ in 0..rounds {
            edges.problem(&unit).check(&isas());
        }
    }
}

/// CDNA3's floors where c is so large that they decide: sums at half of c's last place, or next to it.
#[test]
fn round_down_floors_hold_beside_large_states() {
    let unit = Unit::find("cdna3/v_mfma_f32_32x32x8_f16").unwrap();
    let f16 = |x: f64| unit.a.encode_f64(x, Rounding::default(), Overflow::default()).unwrap();
    for (e, low, sign) in (2..14).flat_map(|e| (8..13).flat_map(move |low| [(e, low, 1.0), (e, low, -1.0)])) {
        // Products of exponent 0 that cancel, half of c's last place, and 2^(-2 low).
        let (rough, fine) = (2f64.powi((e - 24) / 2), 2f64.powi(-low));
        let [a, b] = [
            [1.0, 1.0, rough, fine, 0.0, 0.0, 0.0, 0.0],
            [1.0, -1.0, 2f64.powi(e - 24) / rough, sign * fine, 0.0, 0.0, 0.0, 0.0],
        ]
        .map(|line| line.map(f16).to_vec());
        for c in [1.0f32, -1.0, 1.0 + 2.0 * f32::EPSILON, 1.0 + f32::EPSILON] {
            // As many columns as kernels have in hand.
            let b: Vec<u64> = b.iter().flat_map(|&b| [b; 16]).collect();
            let c = (c * 2f32.powi(e)).to_bits().into();
            for rows in [1, 6] {
                let (unit, a, b, c) = (unit.clone(), a.repeat(rows), Vec::clone(&b), vec![c; 16 * rows]);
                Problem { unit, size: [rows, 16, 8], a, b, c, scale_a: Vec::new(), scale_b: Vec::new() }.check(&isas());
            }
        }
    }
}

const FORMATS: [&str; 8] = ["f16", "bf16", "e4m3", "e5m2", "tf32", "e2m1", "f32", "e5m2fnuz"];

prop_compose! {
    fn custom()(
        formats in (0..8usize, 0..8usize, 0..4usize),
        shape in (1..20usize, 0..3usize, 8..41u32, 1..24usize),
        rounding in (0..3usize, 0..4usize, 1..24u32),
        floor in (0..4usize, -20..20i32),
        flags: [bool; 8],
        words in (0..3usize, any::<bool>(), any::<bool>()),
    ) -> Unit {
        let [sticky, normalise, via_f16, flush_inputs, flush_results, limit, negative_zero, plain] = flags;
        let named = |name: &str| -> FormatSpec { *gemmulate::format::format_named(name).unwrap() };
        let d = named(["f32", "f32", "f16", "bf16"][formats.2]);
        let g = GenericDot {
            block: shape.0,
            pattern: [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs][shape.1],
            frac_bits: shape.2,
            alignment: [Rounding::TowardZero, Rounding::Down, Rounding::NearestEven][if plain { 0 } else { rounding.0 }],
            sticky: sticky && !plain,
            normalise_products: normalise && !plain,
            floor: [Floor::None, Floor::ZeroC, Floor::BelowEmin(floor.1), Floor::BelowEmin(7)][floor.0],
            c: [CPosition::With, CPosition::Late, CPosition::Last][words.0],
            zero_products: if words.1 { ZeroProducts::Ignored } else { ZeroProducts::OwnExponent },
            subnormal_c: if words.2 { SubnormalC::Stored } else { SubnormalC::Normalised },
            output_rounding: [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up][rounding.1],
            output_bits: (rounding.2 < 20).then_some(rounding.2),
            via_f16,
            flush_inputs,
            flush_results,
            product_limit: limit,
            negative_zero,
            ..GenericDot::default()
        };
        Unit::custom(g, Shape::new(1, 1, shape.3), [named(FORMATS[formats.0]), named(FORMATS[formats.1]), d, d], None).unwrap()
    }
}

use gemmulate::accumulate::{SubnormalC, ZeroProducts};

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(4), ..ProptestConfig::default() })]
    #[test]
    fn custom_units_are_the_references(unit in custom(), seed in 0..1000u64) {
        for kind in KINDS {
            Problem::new(&unit, &[kind], seed, [if seed % 2 == 0 { 2 } else { 6 }, 17, 2]).check(&isas());
        }
    }
}

/// Units whose operands are at most 8 bits wide, as the kernels that multiply integers want them, and others beside.
const NARROW: [&str; 18] = [
    "rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e5m2.e4m3.f32",
    "rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=8:F=20",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=8:F=20:out-bits=13",
    "custom/m1n1k6.f32.e3m2.e2m3.f32/dot:block=6:F=25:out=rne",
    "custom/m1n1k20.f32.e2m3.e4m3.f32/dot:block=20:F=9",
    "custom/m1n1k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:e_zero=emin+130",
    "custom/m1n1k16.f16.e5m2.e5m2.f16/dot:block=16:F=16:out=rne:e_zero=none",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e2m1.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e3m2.e2m3.f32.ue8m0",
    "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
    "cdna3/v_mfma_f32_16x16x32_bf8_fp8",
    "custom/m8n8k12.f32.e4m3.e4m3.f32/round-down-grouped:G=12:c-reach=3",
    "custom/m8n8k16.f32.e4m3.e5m2.f32/round-down:G=8:F=25:sum=33",
    "custom/m8n8k20.f32.e4m3.e4m3.f32/round-down:G=10:F=23:sum=31:total=31",
];

/// Magnitudes of an operand: codes from `most - width` to `most`, one in `rare` of them `most - depth` instead.
#[derive(Clone, Copy, Debug)]
struct Magnitudes {
    most: u64,
    width: u64,
    depth: u64,
    rare: u64,
}

fn magnitudes() -> impl Strategy<Value = Magnitudes> {
    let widths = prop::sample::select([0, 1, 4, 8, 16, 24, 40, 128].as_slice());
    (1..128u64, widths, 0..128u64, 8..200u64).prop_map(|(most, width, depth, rare)| Magnitudes {
        most,
        width,
        depth,
        rare,
    })
}

/// Block scales around a power of two: one for all, or one for each line, or for each step of it too; or now and then
/// any.
#[derive(Clone, Copy, Debug)]
struct Scales {
    manner: u64,
    centre: i64,
    spread: u64,
}

impl Scales {
    fn code(self, line: usize, step: usize, random: u64) -> u64 {
        let place = [0, line, line + 7 * step, line + 7 * step][self.manner as usize] as u64;
        if self.manner == 3 && random.is_multiple_of(40) {
            return random >> 6 & 0xFF;
        }
        (127 + self.centre + (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as i64 % (self.spread as i64 + 1)) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(5), ..ProptestConfig::default() })]
    /// Numbers of such magnitudes that a step's products are whole in units of the truncation step, or just not, with
    /// c of any size, alike or not, of one sign or not, and now and then a number that is larger or none.
    #[test]
    fn steps_that_hardly_truncate_are_the_references(
        name in prop::sample::select(NARROW.as_slice()),
        sizes in (magnitudes(), magnitudes()),
        signs in prop::sample::select([(0, 0), (0, 0), (0x55, 0), (0, 0xFE), (0x0F, 0x3C)].as_slice()),
        c_exponents in -40..60i32,
        spread in 1..30i32,
        odd in 0..4u64,
        scales in (0..4u64, prop_oneof![-4..5i64, -100..100i64], 0..9u64),
        seed: u64,
    ) {
        let unit = Unit::find(name).unwrap();
        let (m, n, steps) = (9, 35, 3);
        let k = steps * unit.shape.k;
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let scales = Scales { manner: scales.0, centre: scales.1, spread: scales.2 };
        let per = unit.scales();
        let mut scale = |lines: usize, of: Scales| -> Vec<u64> {
            (0..lines * steps * per).map(|i| of.code(i / (steps * per), i % (steps * per), random())).collect()
        };
        let (scale_a, scale_b) = (scale(m, scales), scale(n, Scales { centre: -scales.centre, ..scales }));
        let mut operand = |count: usize, spec: &FormatSpec, size: Magnitudes, signs: u8| -> Vec<u64> {
            let end = 1 << (spec.storage_bits - 1);
            let code = |i: usize, r: u64| {
                let most = size.most.min(end - 1);
                let magnitude = match r % size.rare {
                    _ if odd > 0 && i % 977 == 3 => r % end,
                    0 => most.saturating_sub(size.depth),
                    _ => most - (r >> 8) % (size.width.min(most) + 1),
                };
                magnitude | if signs >> (r >> 20 & 7) & 1 == 1 { end } else { 0 }
            };
            (0..count).map(|i| code(i, random())).collect()
        };
        let (a, b) = (operand(m * k, &unit.a, sizes.0, signs.0), operand(k * n, &unit.b, sizes.1, signs.1));
        let all = Magnitudes { most: u64::MAX, width: u64::MAX - 1, depth: 0, rare: u64::MAX };
        let mut c = operand(m * n, &unit.c, all, 0x55);
        let (bias, fraction) = (unit.c.bias, unit.c.fraction_bits);
        for (i, code) in c.iter_mut().enumerate() {
            let e = (c_exponents + *code as i32 % spread + bias).clamp(0, (2 << (unit.c.exponent_bits - 1)) - 2) as u64;
            *code = if i % 11 == 0 { 0 } else { *code & !((bias as u64 * 2 + 1) << fraction) | e << fraction };
        }
        Problem { unit, size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
    }
}

/// Sums of as large integers as there are: one number so much smaller than all others that these are large beside it.
#[test]
fn large_numbers_beside_a_small_one_are_the_references() {
    for name in ["rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32", "cdna3/v_mfma_f32_16x16x32_fp8_fp8"] {
        let unit = Unit::find(name).unwrap();
        let ([m, n], k) = ([8, 16], unit.shape.k);
        for most in [0x77, 0x79, 0x7E] {
            for depth in 0..most {
                let code =
                    |line: usize, p: usize, small: usize| if p == (line + small) % k { most - depth } else { most };
                let a = (0..m * k).map(|at| code(at / k, at % k, 0)).collect();
                let b = (0..k * n).map(|at| code(at % n, at / n, k / 2)).collect();
                let (scale_a, scale_b) = (Vec::new(), Vec::new());
                Problem { unit: unit.clone(), size: [m, n, k], a, b, c: vec![0; m * n], scale_a, scale_b }
                    .check(&isas());
            }
        }
    }
}

/// Units of FDA kernels, every length of step and kind of result among them.
pub(crate) const FDA: [&str; 18] = [
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "rtx-blackwell/mma.m16n8k32.f32.e5m2.e5m2.f32",
    "hopper/wgmma.m64n8k32.f32.e4m3.e5m2",
    "hopper/wgmma.m64n8k32.f16.e5m2.e5m2",
    "custom/m8n8k32.f32.bf16.bf16.f32/dot:block=32:F=25",
    "custom/m8n8k32.f16.f16.f16.f16/dot:block=32:F=24:out=rne",
    "custom/m8n8k16.f16.bf16.bf16.f16/dot:block=16:F=10:e_zero=zero-c:out=rne",
    "custom/m8n8k15.f32.f16.f16.f32/dot:block=3:F=25",
    "custom/m8n8k10.f32.bf16.bf16.f32/dot:block=5:F=22:out=rne",
    "custom/m8n8k24.f32.tf32.tf32.f32/dot:block=12:F=25",
    "custom/m8n8k21.f32.f16.bf16.f32/dot:block=21:F=25:pattern=even-odd",
    "custom/m8n8k28.f32.e4m3.e4m3.f32/dot:block=28:F=9:out-bits=13",
    "custom/m8n8k7.f32.e5m2.e4m3.f32/dot:block=7:F=12",
    "custom/m8n8k2.f32.f16.f16.f32/dot:block=1:F=25",
];

/// Codes of a format at its edges: `kind` 0, significands as large as can be; 1, the window's border below the largest;
/// 2, small and large ones and zeros; 3, these and what is not finite.
fn edge(spec: &FormatSpec, kind: usize, negative: u64, draw: u64) -> u64 {
    let (fraction, exponent) = (1u64 << spec.fraction_bits, 1u64 << spec.exponent_bits);
    let low = draw >> 8 & (fraction - 1);
    let field = |below: u64| (exponent - 2).saturating_sub(below);
    let magnitude = match (kind, draw % 8) {
        (0, _) => ((exponent / 2) * fraction) | (fraction - 1),
        (1, n @ 0..=5) => (field([0, 30, 31, 32, 33, 34][n as usize] / 2 * (1 + (draw >> 40 & 1))) * fraction) | low,
        (1, _) | (_, 0) => 0,
        (_, 1) => low,
        (_, 2) => fraction | low,
        (3, 3) if draw >> 50 & 7 == 0 => ((exponent - 1) * fraction) | (draw >> 53 & 1),
        (_, n) => ((exponent / 2 + n - 4) * fraction) | low,
    };
    (magnitude | negative << (spec.exponent_bits + spec.fraction_bits)) << spec.ignored_low_bits
}

/// States at the edges of f32 and of the kernels' ranges, and in the middle; their top halves for f16.
fn edge_state(spec: &FormatSpec, draw: u64) -> u64 {
    let fields = [0, 0, 0, 1, 30, 31, 32, 82, 83, 84, 100, 126, 127, 140, 148, 150, 179, 180, 181, 254, 255];
    let field = fields[(draw >> 8) as usize % fields.len()];
    let fraction = [0, 1, 0x7F_FFFF, draw >> 16 & 0x7F_FFFF][(draw >> 4 & 3) as usize];
    let code = (draw & 1) << 31 | field << 23 | fraction;
    if spec.storage_bits == 16 { (code >> 8 ^ code >> 16) & 0xFFFF } else { code }
}

#[test]
fn edges_of_fda_kernels_are_the_references() {
    let mut state = 9_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for name in FDA {
        let unit = Unit::find(name).unwrap();
        for isa in isas().into_iter().filter(|isa| matches!(isa, Isa::Avx512 | Isa::Avx2)) {
            let kernel = Gemm::on(&unit).isa(isa).kernel();
            assert!(kernel.isa == isa && kernel.name.starts_with("fda"), "{name}: {kernel}");
        }
        for turn in 0..24 {
            let (kind, signs) = (turn % 4, turn / 4 % 3);
            let (m, n, steps) = ([9, 1, 17][turn % 3], [70, 23, 1][turn / 2 % 3], 3);
            let k = unit.shape.k * steps;
            // All products positive, all negative, or either.
            let mut codes = |spec: &FormatSpec, count: usize, sign: Option<u64>| -> Vec<u64> {
                (0..count).map(|_| edge(spec, kind, sign.unwrap_or_else(|| draw() >> 33 & 1), draw())).collect()
            };
            let sign = |negative| if signs == 2 { None } else { Some(negative) };
            let (a, b) = (codes(&unit.a, m * k, sign(0)), codes(&unit.b, k * n, sign(signs as u64)));
            let c = (0..m * n).map(|_| if turn % 5 == 0 { 0 } else { edge_state(&unit.c, draw()) }).collect();
            let (scale_a, scale_b) = (vec![], vec![]);
            Problem { unit: unit.clone(), size: [m, n, k], a, b, c, scale_a, scale_b }.check(&isas());
        }
    }
}

/// Zeros of both signs, products that vanish and a subnormal number, in two steps: whether a sum of them is -0
/// depends on nothing but the unit's rules.
#[test]
fn signs_of_zero_are_the_references() {
    let rules = [
        "F=25",
        "F=25:e_zero=none",
        "F=25:align=rd:out=rd",
        "F=25:align=rd:sticky=yes",
        "F=25:c=late",
        "F=25:c=last",
        "F=36:c=last:flush-in=yes",
        "F=36:flush-in=yes:out=rne",
        "F=36:c=late:flush-in=yes:flush-out=yes",
        "F=25:flush-out=yes",
        "F=13:out=rne",
        "exact=yes",
        "exact=yes:flush-in=yes:flush-out=yes:c=last",
    ];
    let isas = isas();
    for (rules, negative_zero) in rules.into_iter().flat_map(|r| [(r, "no"), (r, "yes")]) {
        for formats in ["f32.bf16.bf16.f32", "f32.tf32.tf32.f32", "f32.f16.f16.f32", "f16.e4m3.e4m3.f16"] {
            let name = format!("custom/m8n8k2.{formats}/dot:block=2:{rules}:negative-zero={negative_zero}");
            let unit = Unit::find(&name).unwrap();
            let numbers = |spec: &FormatSpec| {
                let [zero, tiny] = [0, 1].map(|code| code << spec.ignored_low_bits);
                let small = spec.encode_f64(2f64.powi((-75).max(spec.emin())), Rounding::NearestEven, Overflow::Ieee);
                let sign = 1 << (spec.storage_bits - 1);
                [zero, tiny, small.unwrap()].into_iter().flat_map(|x| [x, x | sign]).collect::<Vec<u64>>()
            };
            let [a, b, c] = [unit.a, unit.b, unit.c].map(|spec| numbers(&spec));
            // Rows and columns are all pairs of a number and a zero of either sign, in the first step or in the second.
            let line = |x: &[u64], t: usize| {
                let (number, zero) = (x[t % 6], x[t / 6 % 2]);
                if t < 12 { [number, zero, zero, zero] } else { [zero, zero, number, zero] }
            };
            let (m, n) = (24, 24);
            let (rows, columns): (Vec<_>, Vec<_>) =
                ((0..m).map(|i| line(&a, i)).collect(), (0..n).map(|j| line(&b, j)).collect());
            for shift in 0..c.len() {
                let problem = Problem {
                    unit: unit.clone(),
                    size: [m, n, 4],
                    a: rows.concat(),
                    b: (0..4 * n).map(|at| columns[at % n][at / n]).collect(),
                    c: (0..m * n).map(|at| c[(at + shift) % c.len()]).collect(),
                    scale_a: Vec::new(),
                    scale_b: Vec::new(),
                };
                problem.check(&isas);
            }
        }
    }
}

/// Pieces in which every state is infinite: finite operands leave them alone, infinite ones of the other sign do not.
#[test]
fn states_that_are_all_infinite_are_the_references() {
    for name in [
        "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
        "ampere/mma.m16n8k16.f16.f16.f16.f16",
        "hopper/mma.m16n8k32.f32.e5m2.e4m3.f32",
        "hopper/wgmma.m64n8k32.f32.e5m2.e5m2",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e4m3.f32.ue8m0",
        "cdna3/v_mfma_f32_32x32x8_f16",
    ] {
        let unit = Unit::find(name).unwrap();
        for seed in 0..4 {
            let mut problem = Problem::new(&unit, &[Kind::NearOne], seed, [17, 70, 6]);
            let [m, n, k] = problem.size;
            let infinite = |spec: &FormatSpec, negative: bool| spec.infinity_code(negative).unwrap_or_default();
            for (t, c) in problem.c.iter_mut().enumerate() {
                // Rows of one sign, of both, and one with a finite state here and there.
                let (i, j) = (t / n, t % n);
                if i % 5 != 4 || j % 23 != 7 {
                    *c = infinite(&unit.c, i % 3 == 1 || (i % 3 == 2 && j % 2 == 1));
                }
            }
            for i in (seed as usize..m).step_by(3) {
                // In the fourth step, for rows of either sign.
                problem.a[i * k + 3 * unit.shape.k + 1] = infinite(&unit.a, i % 2 == 0);
            }
            problem.check(&isas());
        }
    }
}
