//! Every fast kernel is the reference: all kinds of input, random shapes and depths, every
//! instruction set forced in turn. `GEMMULATE_REQUIRE_ISA` (names, divided by commas) says which
//! sets must run here; a set that is required and missing fails.

use crate::problem::{Problem, Stored, isas};
use crate::rng::Rng;
use gemmulate::gemm::{Codes, CodesMut, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::vectors::{Generator, KINDS, Kind, Vector};
use gemmulate::view::{View, ViewMut};
use ndarray::{Array2, Array3, Axis, s};

/// Units that stand for every kernel and every branch of its selection.
const UNITS: [&str; 71] = [
    "volta/mma.m8n8k4.f32.f16.f16.f32",
    "volta/mma.m8n8k4.f16.f16.f16.f16",
    "volta/mma.m8n8k4.f32.f16.f16.f16",
    "turing/mma.m16n8k8.f32.f16.f16.f32",
    "turing/mma.m16n8k8.f16.f16.f16.f16",
    "ampere/mma.m16n8k16.f32.f16.f16.f32",
    "ampere/mma.m16n8k16.f16.f16.f16.f16",
    "ampere/mma.m16n8k8.f32.bf16.bf16.f32",
    "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
    "ampere/mma.m16n8k8.f32.tf32.tf32.f32",
    "ampere/mma.m8n8k4.f64.f64.f64.f64",
    "ada/mma.m16n8k16.f32.e4m3.e5m2.f32",
    "ada/mma.m16n8k32.f32.e5m2.e5m2.f32",
    "ada/mma.m16n8k32.f16.e4m3.e4m3.f16",
    "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "hopper/mma.m16n8k16.f16.f16.f16.f16",
    "hopper/mma.m16n8k16.f32.bf16.bf16.f32",
    "hopper/mma.m16n8k8.f32.tf32.tf32.f32",
    "hopper/mma.m16n8k16.f32.e4m3.e5m2.f32",
    "hopper/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "hopper/mma.m16n8k32.f16.e5m2.e4m3.f16",
    "hopper/wgmma.m64n8k32.f32.e4m3.e5m2",
    "hopper/wgmma.m64n8k32.f16.e5m2.e5m2",
    "blackwell/tcgen05.mma.m64n8k32.f32.e2m3.e3m2",
    "blackwell/tcgen05.mma.m64n8k16.f32.f16.bf16",
    "rtx-blackwell/mma.m16n8k32.f32.e2m1.e5m2.f32",
    "rtx-blackwell/mma.m16n8k32.f16.e3m2.e4m3.f16",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e2m1.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
    "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "cdna1/v_mfma_f32_32x32x8f16",
    "cdna1/v_mfma_f32_32x32x4bf16",
    "cdna2/v_mfma_f32_32x32x8f16",
    "cdna2/v_mfma_f32_32x32x4bf16",
    "cdna2/v_mfma_f64_16x16x4f64",
    "cdna3/v_mfma_f32_32x32x2_f32",
    "cdna3/v_mfma_f32_32x32x8_f16",
    "cdna3/v_mfma_f32_16x16x8_xf32",
    "cdna3/v_mfma_f32_16x16x32_fp8_bf8",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=27",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=40",
    "custom/m8n8k24.f32.tf32.tf32.f32/dot:block=12:F=33",
    "custom/m8n8k32.f32.bf16.e4m3.f32/dot:block=32:F=25:e_zero=none",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:e_zero=zero-c",
    "custom/m8n8k16.f16.bf16.bf16.f16/dot:block=16:F=24:e_zero=zero-c:out=rne",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:out=rne:nan=quiet",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=30:out=rne:e_zero=emin+40",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=20:out-bits=10:e_zero=emin+116",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:out=rd:limit=yes",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:limit=yes",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=8:F=24:out=ru:c=last",
    "custom/m8n8k32.f32.e4m3.e5m2.f32/dot:block=32:F=13:out=rd:flush-in=yes",
    "custom/m8n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:out=rd",
    "custom/m8n8k32.f32.e5m2.e4m3.f32/dot:block=16:F=25:out=ru",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:flush-in=yes:flush-out=yes",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:align=rne",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=30:align=rd",
    "custom/m8n8k16.f32.bf16.f16.f32/dot:block=16:F=25:align=ru:out=ru",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:out=rna",
    "custom/m8n8k16.f16.bf16.bf16.f16/dot:block=8:F=24:out=rna:flush-out=yes",
    "custom/m8n8k64.block16.f32.e2m1.e2m1.f32.ue4m3/groups:G=16:F=35:out=rna",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=30:flush-out=yes:c=late",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:align=rd:sticky=yes",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=16:F=25:zero-products=count",
    "custom/m8n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:subnormal-c=normalised",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=25:pattern=even-odd:c=late",
    "custom/m8n8k16.f32.f16.f16.f32/dot:block=8:F=25:pattern=pairs:normalise=yes",
    "custom/m8n8k32.f32.e4m3.e5m2fnuz.f32/dot:block=16:F=13:c=last:nan=quiet",
    "custom/m8n8k4.f32.f32.f32.f32/fma:nan=ones",
    "custom/m8n8k4.f32.f32.f32.f32/fma:round=rz",
];

/// One product with a start at C, by the driver and step by step.
struct Case {
    unit: Unit,
    size: [usize; 3],
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    scale_a: Vec<u64>,
    scale_b: Vec<u64>,
}

impl Case {
    /// Rows and columns of lines of one kind, here and there of another; row i meets column i as drawn.
    fn random(unit: &Unit, kind: Kind, rng: &mut Rng) -> Self {
        let step = unit.shape.k;
        let m = rng.pick(&[1, 2, 4, 7, 8, 9, 16, 17, 20, 65]);
        let n = rng.pick(&[1, 8, 15, 16, 17, 63, 64, 65, 130]);
        let n = if m > 60 { n.min(20) } else { n };
        let steps = if unit.c == unit.d { 1 + rng.below(5) } else { 1 };
        let (k, per) = (step * steps, unit.scales());
        let mut case = Self {
            unit: unit.clone(),
            size: [m, n, k],
            a: vec![0; m * k],
            b: vec![0; k * n],
            c: vec![0; m * n],
            scale_a: vec![0; m * steps * per],
            scale_b: vec![0; n * steps * per],
        };
        let (mut main, mut other) = (Generator::new(unit, rng.next()).kinds(&[kind]), Generator::new(unit, rng.next()));
        let mut v = Vector::default();
        let mut pool = Vec::new();
        for i in 0..m.max(n) {
            for s in 0..steps {
                if rng.below(30) == 0 {
                    other.next_into(&mut v);
                } else {
                    main.next_into(&mut v);
                }
                pool.push(v.input.c);
                if i < m {
                    case.a[i * k + s * step..][..step].copy_from_slice(&v.input.a);
                    case.scale_a[(i * steps + s) * per..][..per].copy_from_slice(&v.input.scale_a);
                }
                if i < n {
                    (0..step).for_each(|p| case.b[(s * step + p) * n + i] = v.input.b[p]);
                    case.scale_b[(i * steps + s) * per..][..per].copy_from_slice(&v.input.scale_b);
                }
            }
        }
        let zero = rng.below(3) == 0;
        case.c.iter_mut().for_each(|c| *c = if zero && rng.below(8) != 0 { 0 } else { rng.pick(&pool) });
        case
    }

    /// D; operands' codes in memory as narrow as they can be, or as wide.
    fn fast(&self, isa: Isa, narrow: bool) -> Vec<u64> {
        let [m, n, k] = self.size;
        let row_major = |codes| View::from_slice(codes, [m, n], [n as isize, 1], 0).unwrap();
        let c = Codes::U64(row_major(&self.c));
        let mut gemm = Gemm::on(&self.unit).isa(isa).threads(1).plan(Plan::in_order().start(Start::C)).beta(1.0).c(&c);
        if self.unit.scale.is_some() {
            let blocks = self.scale_a.len() / m;
            let a = View::from_slice(&self.scale_a, [m, blocks], [blocks as isize, 1], 0).unwrap();
            let b = View::from_slice(&self.scale_b, [n, blocks], [blocks as isize, 1], 0).unwrap().transposed();
            gemm = gemm.block_scales(&Codes::U64(a), &Codes::U64(b));
        }
        let (a, b) = (Stored::new(&self.a, k, &self.unit.a, narrow), Stored::new(&self.b, n, &self.unit.b, narrow));
        let mut d = vec![0; m * n];
        let to = CodesMut::U64(ViewMut::from_slice(&mut d, [m, n], [n as isize, 1], 0).unwrap());
        gemm.run_codes(&a.codes([m, k]), &b.codes([k, n]), to, &mut Workspace::new()).unwrap();
        d
    }

    fn slow(&self, i: usize, j: usize) -> u64 {
        let ([_, n, k], step, per) = (self.size, self.unit.shape.k, self.unit.scales());
        let steps = k / step;
        (0..steps).fold(self.c[i * n + j], |c, s| {
            let a = &self.a[i * k + s * step..][..step];
            let b: Vec<u64> = (0..step).map(|p| self.b[(s * step + p) * n + j]).collect();
            let scales = |scales: &[u64], line: usize| scales[(line * steps + s) * per..][..per].to_vec();
            let (x, y) = (scales(&self.scale_a, i), scales(&self.scale_b, j));
            self.unit.dot_add_scaled_bits(a, &b, c, &x, &y).unwrap()
        })
    }
}

/// The d of every vector from every set's kernel: row i meets column i of a product of one step.
pub(crate) fn on_the_diagonal(unit: &Unit, vectors: &[Vector]) -> Vec<(Isa, Vec<u64>)> {
    let (n, k) = (vectors.len(), unit.shape.k);
    let each = |take: fn(&Vector) -> &[u64]| vectors.iter().flat_map(|v| take(v).iter().copied()).collect::<Vec<_>>();
    let rows = each(|v| &v.input.b);
    let mut case = Case {
        unit: unit.clone(),
        size: [n, n, k],
        a: each(|v| &v.input.a),
        b: vec![0; k * n],
        c: vec![0; n * n],
        scale_a: each(|v| &v.input.scale_a),
        scale_b: each(|v| &v.input.scale_b),
    };
    for (i, v) in vectors.iter().enumerate() {
        case.c[i * n + i] = v.input.c;
        (0..k).for_each(|p| case.b[p * n + i] = rows[i * k + p]);
    }
    let diagonal = |isa| case.fast(isa, true).into_iter().step_by(n + 1).collect();
    isas().into_iter().map(|isa| (isa, diagonal(isa))).collect()
}

#[test]
fn fast_kernels_are_the_reference() {
    let rounds = std::env::var("GEMMULATE_FRESH").map_or(1, |n| (n.parse::<usize>().unwrap() / 600).max(1));
    let only = std::env::var("GEMMULATE_ONLY").unwrap_or_default();
    let mut names: Vec<(Isa, &str)> = Vec::new();
    let sets = isas();
    for name in UNITS.iter().filter(|name| name.contains(&only)) {
        let unit = Unit::find(name).unwrap();
        let mut rng = Rng(name.len() as u64 * 77);
        let kernels: Vec<_> = sets.iter().map(|isa| (*isa, Gemm::on(&unit).isa(*isa).kernel())).collect();
        let own = kernels.into_iter().filter(|(isa, kernel)| kernel.isa == *isa);
        let own: Vec<_> = own.inspect(|(isa, kernel)| names.push((*isa, kernel.name))).map(|(isa, _)| isa).collect();
        for turn in 0..KINDS.len() * rounds * usize::from(!own.is_empty()) {
            let kind = KINDS[turn % KINDS.len()];
            let case = Case::random(&unit, kind, &mut rng);
            let [m, n, _] = case.size;
            let want: Vec<u64> = (0..m * n).map(|at| case.slow(at / n, at % n)).collect();
            for (isa, narrow) in own.iter().flat_map(|isa| [(isa, false), (isa, true)]) {
                let found = case.fast(*isa, narrow);
                let wrong = (0..m * n).find(|&at| found[at] != want[at]);
                if let Some(at) = wrong {
                    let (i, j) = (at / n, at % n);
                    panic!(
                        "{name} on {isa}, {kind}, {:?}: element {i}, {j}, from {:x}: {:x}, should be {:x}; {} of {} wrong",
                        case.size,
                        case.c[at],
                        found[at],
                        want[at],
                        (0..m * n).filter(|&at| found[at] != want[at]).count(),
                        m * n
                    );
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    println!("kernels run: {names:?}");
}

#[test]
fn few_rows_take_kernels_of_the_same_set() {
    // How many rows are few on AVX-512, AVX2 and other sets.
    for (name, few, most) in [
        ("hopper/mma.m16n8k16.f32.f16.f16.f32", "aligned, f32 lanes", [4, 4, 2]),
        ("ampere/mma.m16n8k16.f32.f16.f16.f32", "aligned, f32 lanes", [3, 3, 2]),
        ("volta/mma.m8n8k4.f32.f16.f16.f32", "aligned, f32 lanes", [2, 2, 1]),
        ("cdna2/v_mfma_f32_32x32x8f16", "pairwise", [4, 6, 2]),
        ("cdna2/v_mfma_f32_32x32x4bf16", "pairwise", [3, 3, 1]),
        ("rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32", "aligned, f32 lanes", [6, 6, 2]),
        // Its blocks are interleaved.
        ("hopper/mma.m16n8k32.f32.e4m3.e4m3.f32", "aligned, f32 lanes", [4, 4, 2]),
        ("cdna3/v_mfma_f32_32x32x8_f16", "round-down", [2, 2, 2]),
        ("cdna3/v_mfma_f32_16x16x32_fp8_fp8", "round-down-grouped", [3, 3, 2]),
        ("cdna1/v_mfma_f32_32x32x8f16", "exact", [2, 1, 1]),
        ("cdna1/v_mfma_f32_16x16x8bf16", "exact", [1, 1, 1]),
    ] {
        let unit = Unit::find(name).unwrap();
        for isa in isas() {
            let gemm = Gemm::on(&unit).isa(isa);
            let most = match isa {
                Isa::Avx512 => most[0],
                Isa::Avx2 => most[1],
                _ => most[2],
            };
            for rows in 1..12 {
                let kernel = gemm.kernel_for([rows, 4096, 4096]);
                assert_eq!(kernel.isa, isa, "{name}, {rows} rows");
                assert!(rows > most || kernel.name == few, "{name} on {isa}, {rows} rows: {kernel}");
                assert!(rows <= most || kernel == gemm.kernel(), "{name} on {isa}, {rows} rows: {kernel}");
            }
            // Where there are register tiles, many rows are theirs.
            assert_eq!(gemm.kernel().name != few, isa != Isa::Neon && cfg!(target_arch = "x86_64"), "{name} on {isa}");
        }
    }
}

/// Steps of fewer than 8 products go one by one on AVX-512, 8-bit operands' as well, whose integers cost more there.
#[test]
fn few_products_go_one_by_one() {
    for isa in isas().into_iter().filter(|isa| *isa == Isa::Avx512) {
        for (block, want) in [(2, "fda-i32"), (4, "fda-i32"), (6, "fda-i32"), (8, "fda-f64"), (16, "fda-f64")] {
            let name = format!("custom/m16n8k48.f32.e4m3.e4m3.f32/dot:block={block}:F=25");
            assert_eq!(Gemm::on(&Unit::find(&name).unwrap()).isa(isa).kernel().name, want, "{name}");
        }
    }
}

/// The kernel of a size is that of the way which products of it take.
#[test]
fn kernels_are_told_by_size() {
    let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    for isa in isas() {
        let gemm = Gemm::on(&unit).isa(isa);
        // Many rows by a column are a row by many columns, unless A's rows and B's columns differ in format.
        assert_eq!(gemm.kernel_for([4096, 1, 4096]), gemm.kernel_for([1, 4096, 4096]));
        // (Where there are no register tiles all sizes have the same.)
        let tiles = cfg!(target_arch = "x86_64");
        assert_eq!(gemm.kernel_for([4096, 1, 4096]) != gemm.kernel_for([4096, 64, 4096]), tiles);
        let mixed = Unit::find("rtx-blackwell/mma.m16n8k32.f32.e5m2.e4m3.f32").unwrap();
        let mixed = Gemm::on(&mixed).isa(isa);
        assert_eq!(mixed.kernel_for([4096, 1, 4096]) != mixed.kernel_for([1, 4096, 4096]), tiles);
        // Few rows that are a tile have a tile's kernel.
        let (tile, rows) = (gemm.kernel_for([2, 8, 32]), gemm.kernel_for([2, 512, 512]));
        assert_eq!(tile == gemm.kernel(), isa == Isa::Avx512 || isa == Isa::Avx2, "{isa}: {tile}");
        assert_eq!(rows.name, "aligned, f32 lanes");
        // Not if a plan cuts K, and whatever a plan refuses has a kernel, too.
        let split = gemm.plan(Plan::in_order().split_k(2));
        assert_eq!(split.kernel_for([2, 8, 32]), rows);
        assert_eq!(split.kernel_for([2, 8, 0]), rows);
    }
}

/// Batches and single instructions of a unit, from all kinds of vectors, some of another kind among them.
fn check_small<A: Format, B: Format, C: Format>(name: &str) {
    let unit = Unit::find(name).unwrap();
    let Shape { m, n, k } = unit.shape;
    let mut rng = Rng(name.len() as u64);
    for &kind in KINDS {
        let steps = if unit.c == unit.d { 1 + rng.below((64 / k).max(1)) } else { 1 };
        let (mut main, mut other) =
            (Generator::new(&unit, rng.next()).kinds(&[kind]), Generator::new(&unit, rng.next()));
        let mut draw = || if rng.below(200) == 0 { other.next().unwrap() } else { main.next().unwrap() };
        let (mut a, mut b) = (
            Array3::from_elem((11, m, k * steps), A::from_bits(0)),
            Array3::from_elem((11, k * steps, n), B::from_bits(0)),
        );
        for mut row in a.lanes_mut(Axis(2)) {
            row.iter_mut().zip((0..steps).flat_map(|_| draw().input.a)).for_each(|(to, x)| *to = A::from_bits(x));
        }
        for mut column in b.lanes_mut(Axis(1)) {
            column.iter_mut().zip((0..steps).flat_map(|_| draw().input.b)).for_each(|(to, x)| *to = B::from_bits(x));
        }
        let want = Gemm::on(&unit).isa(Isa::Reference).run_batch(&a, &b).unwrap().map(|x: &f32| x.to_bits());
        for isa in isas() {
            let found = Gemm::on(&unit).isa(isa).run_batch(&a, &b).unwrap().map(|x: &f32| x.to_bits());
            assert_eq!(found, want, "{name} on {isa}, {kind}: a batch");
        }
        let c = Array2::from_shape_simple_fn((m, n), || C::from_bits(draw().input.c));
        // Instructions of several blocks take stacks.
        for (a, b) in a.outer_iter().zip(b.outer_iter()).take(if unit.blocks == 1 { 3 } else { 0 }) {
            let (a, b) = (a.slice(s![.., ..k]), b.slice(s![..k, ..]));
            let codes = (a.mapv(A::to_bits), b.mapv(B::to_bits), c.mapv(C::to_bits));
            let flat = |x: Array2<u64>| x.iter().copied().collect::<Vec<_>>();
            let want = unit.mma_bits(&flat(codes.0), &flat(codes.1), &flat(codes.2)).unwrap();
            let found: Array2<C> = unit.mma(&a, &b, &c).unwrap();
            assert_eq!(flat(found.mapv(C::to_bits)), want, "{name}, {kind}: an instruction");
            let from_c = Plan::in_order().start(Start::C);
            for isa in isas() {
                let gemm = Gemm::on(&unit).isa(isa).plan(from_c.clone()).beta(1.0).c(&c);
                let found: Array2<C> = gemm.run_as(&a, &b).unwrap();
                assert_eq!(flat(found.mapv(C::to_bits)), want, "{name} on {isa}, {kind}: an instruction");
            }
        }
    }
}

/// Batches whose matrices stand one after another, of one or more tiles each, with one A or one B for all.
fn check_dense<A: Format, B: Format, D: Format>(name: &str) {
    let unit = Unit::find(name).unwrap();
    let k = unit.shape.k;
    let mut rng = Rng(7 + name.len() as u64);
    for (count, m, n, k) in [
        (1, 16, 8, k),
        (9, 16, 8, k),
        (3, 48, 8, k),
        (2, 32, 8, 2 * k),
        (5, 16, 8, 3 * k),
        (4, 15, 8, k),
        (5, 16, 24, k),
        (3, 32, 16, k),
        (7, 16, 16, 2 * k),
        (2, 32, 32, k),
    ] {
        for own in [[true; 2], [true, false], [false, true]] {
            let mut data =
                Generator::new(&unit, rng.next()).kinds(&[KINDS[rng.below(KINDS.len())], KINDS[0], KINDS[0]]);
            let batch = own.map(|own| if own { count } else { 1 });
            let mut a = Array3::from_elem((batch[0], m, k), A::from_bits(0));
            let mut b = Array3::from_elem((batch[1], k, n), B::from_bits(0));
            for mut row in a.lanes_mut(Axis(2)) {
                let codes = (0..k / unit.shape.k).flat_map(|_| data.next().unwrap().input.a);
                row.iter_mut().zip(codes).for_each(|(to, x)| *to = A::from_bits(x));
            }
            for mut column in b.lanes_mut(Axis(1)) {
                let codes = (0..k / unit.shape.k).flat_map(|_| data.next().unwrap().input.b);
                column.iter_mut().zip(codes).for_each(|(to, x)| *to = B::from_bits(x));
            }
            let blank = Array3::from_elem((count, m, n), D::from_bits(1));
            let (mut want, mut found) = (blank.clone(), blank);
            let mut workspace = Workspace::new();
            Gemm::on(&unit).isa(Isa::Reference).run_batch_into(&a, &b, &mut want, &mut workspace).unwrap();
            let want = want.map(|x| x.to_bits());
            // The same in another layout.
            let turned = a.clone().permuted_axes([0, 2, 1]).as_standard_layout().into_owned();
            for isa in isas() {
                let (gemm, case) =
                    (Gemm::on(&unit).isa(isa), format!("{name} on {isa}: {count} of {m} x {n} x {k}, {own:?}"));
                gemm.run_batch_into(&a, &b, &mut found, &mut workspace).unwrap();
                assert_eq!(found.map(|x| x.to_bits()), want, "{case}");
                let by_columns = turned.view().permuted_axes([0, 2, 1]);
                gemm.run_batch_into(&by_columns, &b, &mut found, &mut workspace).unwrap();
                assert_eq!(found.map(|x| x.to_bits()), want, "{case}, A by columns");
            }
        }
    }
}

#[test]
fn batches_one_after_another_are_the_reference() {
    use float8::{F8E4M3 as E4M3, F8E5M2 as E5M2};
    use gemmulate::types::{E4M3Fnuz, E5M2Fnuz, Tf32};
    use half::{bf16, f16};
    check_dense::<f16, f16, f32>("hopper/mma.m16n8k16.f32.f16.f16.f32");
    check_dense::<f16, f16, f16>("hopper/mma.m16n8k16.f16.f16.f16.f16");
    check_dense::<bf16, bf16, f32>("ampere/mma.m16n8k16.f32.bf16.bf16.f32");
    check_dense::<f16, f16, f32>("ampere/mma.m16n8k8.f32.f16.f16.f32");
    check_dense::<f16, f16, f16>("turing/mma.m16n8k8.f16.f16.f16.f16");
    check_dense::<E4M3, E5M2, f32>("ada/mma.m16n8k32.f32.e4m3.e5m2.f32");
    check_dense::<E5M2, E4M3, f16>("hopper/wgmma.m64n8k32.f16.e5m2.e4m3");
    check_dense::<E4M3, E5M2, f32>("rtx-blackwell/mma.m16n8k16.f32.e4m3.e5m2.f32");
    check_dense::<Tf32, Tf32, f32>("hopper/mma.m16n8k8.f32.tf32.tf32.f32");
    check_dense::<f16, f16, f32>("cdna3/v_mfma_f32_16x16x16_f16");
    check_dense::<E4M3Fnuz, E5M2Fnuz, f32>("cdna3/v_mfma_f32_32x32x16_fp8_bf8");
}

#[test]
fn small_tiles_are_the_reference() {
    use float8::{F8E4M3 as E4M3, F8E5M2 as E5M2};
    use gemmulate::types::{E2M3, E3M2, E4M3Fnuz, E5M2Fnuz, Tf32};
    use half::{bf16, f16};
    check_small::<f16, f16, f32>("hopper/mma.m16n8k16.f32.f16.f16.f32");
    check_small::<f16, f16, f16>("hopper/mma.m16n8k16.f16.f16.f16.f16");
    check_small::<bf16, bf16, f32>("hopper/mma.m16n8k16.f32.bf16.bf16.f32");
    check_small::<f16, f16, f32>("hopper/wgmma.m64n16k16.f32.f16.f16");
    check_small::<E4M3, E5M2, f32>("hopper/wgmma.m64n8k32.f32.e4m3.e5m2");
    check_small::<E4M3, E4M3, f16>("hopper/wgmma.m64n8k32.f16.e4m3.e4m3");
    check_small::<bf16, bf16, f32>("ampere/mma.m16n8k8.f32.bf16.bf16.f32");
    check_small::<f16, f16, f32>("ampere/mma.m16n8k16.f32.f16.f16.f32");
    check_small::<f16, f16, f32>("volta/mma.m8n8k4.f32.f16.f16.f32");
    check_small::<E4M3, E4M3, f32>("ada/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check_small::<E2M3, E3M2, f32>("blackwell/tcgen05.mma.m64n8k32.f32.e2m3.e3m2");
    check_small::<E4M3, E4M3, f32>("hopper/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check_small::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:out=rd");
    check_small::<E5M2, E4M3, f32>("custom/m16n8k32.f32.e5m2.e4m3.f32/dot:block=16:F=25:out=ru");
    check_small::<f16, f16, f32>("custom/m16n8k16.f32.f16.f16.f32/dot:block=8:F=24:out=rd:flush-out=yes");
    check_small::<bf16, bf16, f32>("custom/m16n8k16.f32.bf16.bf16.f32/dot:block=16:F=25:align=rne");
    check_small::<bf16, f16, f32>("custom/m16n8k16.f32.bf16.f16.f32/dot:block=8:F=20:align=rd:c=late");
    check_small::<f16, f16, f32>("custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=33:align=ru:out=ru");
    check_small::<f16, bf16, f32>("custom/m16n8k16.f32.f16.bf16.f32/dot:block=16:F=25:flush-in=yes");
    check_small::<E5M2, E4M3, f32>("rtx-blackwell/mma.m16n8k32.f32.e5m2.e4m3.f32");
    check_small::<E4M3, E5M2, f16>("rtx-blackwell/mma.m16n8k16.f16.e4m3.e5m2.f16");
    // Values of one operand are made as words, those of the other not.
    check_small::<E4M3, bf16, f32>("custom/m16n8k16.f32.e4m3.bf16.f32/dot:block=16:F=25");
    check_small::<bf16, E5M2, f32>("custom/m16n8k16.f32.bf16.e5m2.f32/dot:block=8:F=24");
    check_small::<f32, f32, f32>("cdna3/v_mfma_f32_32x32x2_f32");
    // Of 32 bits; pairs of integers; results cut off, to nearest; results of 16 bits by array code.
    check_small::<Tf32, Tf32, f32>("hopper/mma.m16n8k8.f32.tf32.tf32.f32");
    check_small::<Tf32, Tf32, f32>("ampere/mma.m16n8k4.f32.tf32.tf32.f32");
    check_small::<f16, f16, f16>("volta/mma.m8n8k4.f16.f16.f16.f16");
    check_small::<bf16, bf16, f32>("custom/m16n8k16.f32.bf16.bf16.f32/dot:block=16:F=40");
    check_small::<f16, f16, f16>("custom/m16n8k16.f16.f16.f16.f16/dot:block=16:F=31");
    check_small::<f16, f16, f32>("custom/m16n8k8.f32.f16.f16.f32/dot:block=2:F=24");
    check_small::<f16, E5M2, f32>("custom/m16n8k24.f32.f16.e5m2.f32/dot:block=24:F=23:out=rne");
    check_small::<bf16, bf16, bf16>("custom/m16n8k16.bf16.bf16.bf16.bf16/dot:block=16:F=25:out=rne");
    check_small::<E4M3, Tf32, f32>("custom/m16n8k16.f32.e4m3.tf32.f32/dot:block=16:F=50");
    check_small::<E4M3, E4M3, f16>("ada/mma.m16n8k32.f16.e4m3.e4m3.f16");
    // Sums that are rounded down, of all products and of halves.
    check_small::<f16, f16, f32>("cdna3/v_mfma_f32_16x16x16_f16");
    check_small::<bf16, bf16, f32>("cdna3/v_mfma_f32_16x16x16_bf16");
    check_small::<Tf32, Tf32, f32>("cdna3/v_mfma_f32_16x16x8_xf32");
    check_small::<E4M3Fnuz, E5M2Fnuz, f32>("cdna3/v_mfma_f32_16x16x32_fp8_bf8");
    check_small::<E5M2Fnuz, E5M2Fnuz, f32>("cdna3/v_mfma_f32_16x16x32_bf8_bf8");
}

/// Many rows and few columns, which are computed as few rows and many columns where that gains.
#[test]
fn tall_products_are_the_reference() {
    for name in [
        "hopper/mma.m16n8k16.f32.f16.f16.f32",
        "hopper/mma.m16n8k16.f16.f16.f16.f16",
        "rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
        "rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
        "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
        "cdna1/v_mfma_f32_32x32x4bf16",
        "cdna2/v_mfma_f32_32x32x8f16",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "cdna3/v_mfma_f32_16x16x32_bf8_bf8",
        "cdna3/v_mfma_f32_32x32x2_f32",
        "ampere/mma.m8n8k4.f64.f64.f64.f64",
    ] {
        let unit = Unit::find(name).unwrap();
        for (i, [m, n]) in [[64, 2], [97, 4], [70, 7], [130, 8], [68, 17], [129, 32]].into_iter().enumerate() {
            Problem::new(&unit, KINDS, i as u64, [m, n, 3]).check_from(Start::Zero, &isas());
        }
    }
}

/// Operands of another type, results of a wider type than D, and a C that is not of D's format.
#[test]
fn small_products_of_other_types_are_the_references() {
    use half::f16;
    // Small integers: the low halves of their f32 codes are zeros, not infinities, which would be noticed.
    let a = Array2::from_shape_fn((16, 16), |(i, j)| (i as f32 - 7.0) * (j as f32 + 1.0));
    let b = Array2::from_shape_fn((16, 8), |(i, j)| j as f32 - i as f32 + 3.0);
    let (a16, b16) = (a.mapv(f16::from_f32), b.mapv(f16::from_f32));
    for name in ["hopper/mma.m16n8k16.f32.f16.f16.f32", "hopper/mma.m16n8k16.f16.f16.f16.f16"] {
        let unit = Unit::find(name).unwrap();
        let want: Array2<f32> = Gemm::on(&unit).isa(Isa::Reference).run(&a, &b).unwrap();
        assert_eq!(a.dot_on(&b, &unit).unwrap(), want, "{name}");
        assert_eq!(a16.dot_on(&b16, &unit).unwrap(), want, "{name}");
    }
    let unit = Unit::find("custom/m16n8k16.f32.f16.f16.f16/dot:block=16:F=25").unwrap();
    let c = Array2::from_shape_fn((16, 8), |(i, j)| f16::from_f32(i as f32 - 3.5 * j as f32));
    let codes = |x: &Array2<f16>| x.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>();
    let found: Array2<f32> = unit.mma(&a16, &b16, &c).unwrap();
    let found: Vec<u64> = found.iter().map(|x| x.to_bits().into()).collect();
    assert_eq!(found, unit.mma_bits(&codes(&a16), &codes(&b16), &codes(&c)).unwrap());
}

#[test]
fn sets_have_names_and_an_order() {
    for &isa in Isa::ALL {
        assert_eq!(isa.to_string().parse::<Isa>().unwrap(), isa);
    }
    assert!(Isa::Portable.is_available());
    let unit = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap();
    let choice = Gemm::on(&unit).isa(Isa::Reference).kernel();
    assert_eq!((choice.name, choice.isa), ("reference", Isa::Reference));
    assert!(!unit.kernel().why.is_empty());
}
