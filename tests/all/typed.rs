//! Units as types, tiles, user-defined formats, accumulators and architectures.

use gemmulate::accumulate::Dot;
use gemmulate::format::{F32, Specials};
use gemmulate::gemm::Workspace;
use gemmulate::num::Num;
use gemmulate::prelude::*;
use gemmulate::types::{E2M1, Ue4m3};
use half::{bf16, f16};
use ndarray::{Array2, Array3};

type HopperF16 = MmaUnit<Hopper, Wgmma<128, f16, f16, f32>>;

#[test]
fn typed_units_are_the_named_ones() {
    fn same(typed: &impl AsUnit, name: &str) {
        assert_eq!(typed.as_unit(), &Unit::find(name).unwrap());
    }
    same(&HopperF16::new(), "hopper/wgmma.m64n128k16.f32.f16.f16");
    same(
        &MmaUnit::<Blackwell, Tcgen05<128, 32, bf16, f16, f32>>::new(),
        "blackwell/tcgen05.mma.m128n32k16.f32.bf16.f16",
    );
    same(&MmaUnit::<Cdna3, Mfma<32, 32, 8, 1, f16, f16, f32>>::new(), "cdna3/v_mfma_f32_32x32x8_f16");
    same(
        &MmaUnit::<RtxBlackwell, MmaScaled<16, 8, 64, 16, E2M1, E2M1, f32, f32, Ue4m3>>::new(),
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    );
    same(&MmaUnit::<Ada, Mma<16, 8, 32, F8E4M3, F8E5M2, f16, f16>>::new(), "ada/mma.m16n8k32.f16.e4m3.e5m2.f16");
}

#[test]
fn one_property_changed() {
    let h100 = HopperF16::new();
    let tiny = f16::from_bits(0x0001);
    // 2^-24 beside 1 x 2^2 = 4: cut off at 25 bits below the exponent 2, kept at 27.
    let mut a = [f16::ZERO; 16];
    let mut b = [f16::ZERO; 16];
    (a[0], b[0]) = (f16::from_f32(2.0), f16::from_f32(2.0));
    (a[1], b[1]) = (tiny, f16::from_f32(0.5));
    let minus_four = -4.0;
    assert_eq!(h100.dot_add(&a, &b, minus_four), 0.0);
    let what_if = h100.with(|acc| FusedDotAdd { frac_bits: 27, ..acc });
    assert_eq!(what_if.dot_add(&a, &b, minus_four), 2f32.powi(-25));
    assert_ne!(what_if.as_unit(), h100.as_unit());
    assert_eq!(Unit::find(&what_if.to_string()).unwrap(), *what_if.as_unit());
    // The same change undone is the same unit.
    let back = what_if.with(|acc| FusedDotAdd { frac_bits: 25, ..acc });
    assert_eq!(back.dot_add(&a, &b, minus_four), 0.0);
    assert!(h100.try_with(|acc| FusedDotAdd { frac_bits: 999, ..acc }).is_err());
    assert_eq!(h100.try_dot_add(&a, &b, minus_four).unwrap(), 0.0);
    assert!(h100.try_dot_add(&a[..8], &b, 0.0).is_err());
}

#[test]
fn a_tile_is_its_dot_adds() {
    let unit = MmaUnit::<Ampere, Mma<16, 8, 8, bf16, bf16, f32, f32>>::new();
    let a = Array2::from_shape_fn((16, 8), |(i, k)| bf16::from_f32((i * 8 + k) as f32 * 0.37 - 20.0));
    let b = Array2::from_shape_fn((8, 8), |(k, j)| bf16::from_f32(1.0 / (1 + k + 3 * j) as f32));
    let c = Array2::from_shape_fn((16, 8), |(i, j)| i as f32 - j as f32 * 1e-3);
    let d = unit.mma(&a, &b, &c).unwrap();
    for ((i, j), d) in d.indexed_iter() {
        let row: Vec<bf16> = a.row(i).to_vec();
        let column: Vec<bf16> = b.column(j).to_vec();
        assert_eq!(unit.try_dot_add(&row, &column, c[(i, j)]).unwrap(), *d);
    }
    // Any layout gives the same.
    let transposed = a.t().as_standard_layout().into_owned();
    assert_eq!(unit.mma(&transposed.t(), &b.view(), &c.view()).unwrap(), d);
    assert!(unit.mma(&b, &a, &c).is_err());
    let named: Array2<f32> = unit.unit().mma(&a, &b, &c).unwrap();
    assert_eq!(named, d);
    assert!(unit.unit().mma::<f16, bf16, f32, f32, _>(&a.mapv(|_| f16::ONE), &b, &c).is_err());
}

#[test]
fn several_blocks_are_independent_products() {
    let unit = Unit::find("cdna2/v_mfma_f32_4x4x4f16").unwrap();
    assert_eq!(unit.blocks, 16);
    let a = Array3::from_shape_fn((16, 4, 4), |(t, i, k)| f16::from_f32((t + i * k) as f32));
    let b = Array3::from_shape_fn((16, 4, 4), |(t, k, j)| f16::from_f32((t * k + j) as f32));
    let c = Array3::<f32>::ones((16, 4, 4));
    let d: Array3<f32> = unit.mma(&a, &b, &c).unwrap();
    for ((t, i, j), d) in d.indexed_iter() {
        let exact: f32 = (0..4).map(|k| f32::from(a[(t, i, k)]) * f32::from(b[(t, k, j)])).sum();
        assert_eq!(*d, exact + 1.0);
    }
    let flat = Array2::<f16>::zeros((4, 4));
    assert!(unit.mma::<f16, f16, f32, f32, _>(&flat, &flat, &Array2::zeros((4, 4))).is_err());
}

#[test]
fn block_scales_multiply_their_blocks() {
    let unit = MmaUnit::<RtxBlackwell, MmaScaled<16, 8, 64, 16, E2M1, E2M1, f32, f32, Ue4m3>>::new();
    let one = E2M1::from_f64(1.0).unwrap();
    let a = Array2::from_elem((16, 64), one);
    let b = Array2::from_elem((64, 8), one);
    let c = Array2::<f32>::zeros((16, 8));
    let scale = |x: f64| Ue4m3::from_f64(x).unwrap();
    let sa = Array2::from_shape_fn((16, 4), |(i, _)| scale((i + 1) as f64));
    let sb = Array2::from_shape_fn((4, 8), |(g, _)| scale([0.5, 1.0, 2.0, 4.0][g]));
    let d = unit.mma_scaled(&a, &b, &c, &sa, &sb).unwrap();
    for ((i, _), d) in d.indexed_iter() {
        assert_eq!(*d, 16.0 * 7.5 * (i + 1) as f32);
    }
    assert!(unit.mma(&a, &b, &c).is_err());
    assert!(unit.mma_scaled(&a, &b, &c, &sb, &sa).is_err());
    let row = unit.dot_add_scaled(&[one; 64], &[one; 64], 1.0, &[scale(1.0); 4], &[scale(2.0); 4]).unwrap();
    assert_eq!(row, 129.0);
}

/// A format nobody lists.
#[derive(Clone, Copy, Debug)]
struct E3M4(u8);

impl Format for E3M4 {
    const SPEC: FormatSpec = FormatSpec {
        name: "e3m4",
        storage_bits: 8,
        signed: true,
        exponent_bits: 3,
        fraction_bits: 4,
        bias: 3,
        subnormals: true,
        specials: Specials::Ieee,
        ignored_low_bits: 0,
    };
    fn to_bits(self) -> u64 {
        self.0.into()
    }
    fn from_bits(bits: u64) -> Self {
        Self(bits as u8)
    }
}

/// An accumulator nobody lists: the last product only.
#[derive(Clone, Debug)]
struct Last;

impl Accumulator for Last {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        dot.a.last().copied().unwrap_or(dot.c)
    }
}

/// An architecture nobody lists.
struct Mine;

impl Arch for Mine {
    const INFO: ArchInfo = ArchInfo { name: "mine", target: "none", gpus: &[] };
}

impl Supports<Mma<4, 4, 4, E3M4, f16, f16, f32>> for Mine {
    type Acc = Chain<FusedDotAdd>;
    const ACC: Self::Acc = Chain { parts: 4, each: FusedDotAdd::VOLTA };
    const EVIDENCE: Evidence = Evidence::ModelOnly;
}

#[test]
fn users_formats_accumulators_and_architectures_take_part() {
    let unit = MmaUnit::<Mine, Mma<4, 4, 4, E3M4, f16, f16, f32>>::new();
    let two = E3M4(0x40);
    assert_eq!(unit.dot_add(&[two; 4], &[f16::ONE; 4], f16::ONE), 9.0);
    assert_eq!(unit.to_string(), "mine/mma.m4n4k4.f32.e3m4.f16.f16");
    let odd = unit.with(|_| Last);
    assert_eq!(odd.dot_add(&[two; 4], &[f16::ONE; 4], f16::ONE), 2.0);
    let custom = MmaUnit::custom::<E3M4, bf16, f32, f32>(Last, Shape::new(2, 2, 3)).unwrap();
    let tile = custom
        .mma(&Array2::from_elem((2, 3), two), &Array2::from_elem((3, 2), bf16::ONE), &Array2::zeros((2, 2)))
        .unwrap();
    assert_eq!(tile, Array2::from_elem((2, 2), 2.0));
    assert!(
        MmaUnit::custom::<f16, f16, f32, f32>(
            FusedDotAdd { frac_bits: 200, ..FusedDotAdd::HOPPER },
            Shape::new(1, 1, 1)
        )
        .is_err()
    );
}

#[test]
fn disputed_rules_are_fields() {
    use gemmulate::accumulate::{BlockedC, OverflowBesideC, SubnormalC, ZeroProducts};
    let hopper = Unit::find("hopper/mma.m16n8k16.f32.bf16.bf16.f32").unwrap();
    let run = |unit: &Unit, a: [u64; 2], b: [u64; 2], c: u64| {
        let pad = |x: [u64; 2]| [x.as_slice(), &vec![0; unit.shape.k - 2]].concat();
        unit.dot_add_bits(&pad(a), &pad(b), c).unwrap()
    };
    let changed = |f: fn(FusedDotAdd) -> FusedDotAdd| hopper.with_accumulator(f(FusedDotAdd::HOPPER)).unwrap();
    // D1: 2^-70 x 2^-83 = 2^-153 survives the floor of -133 (kept to 2^-158), with -126 it is cut.
    let (x, y) =
        (u64::from(bf16::from_f32(2f32.powi(-70)).to_bits()), u64::from(bf16::from_f32(2f32.powi(-79)).to_bits()));
    let zero_c = changed(|f| FusedDotAdd { floor: Floor::ZeroC, ..f });
    assert_eq!((run(&hopper, [x, 0], [y, 0], 0), run(&zero_c, [x, 0], [y, 0], 0)), (1, 1));
    let lower = u64::from(bf16::from_f32(-2f32.powi(-84)).to_bits());
    assert_eq!((run(&hopper, [x, x], [y, lower], 0), run(&zero_c, [x, x], [y, lower], 0)), (0, 1));
    // D2: 0 x 2^100 counts as exponent -26 in mmasim's first code and hides 2^-60.
    let counted = changed(|f| FusedDotAdd { zero_products: ZeroProducts::OwnExponent, ..f });
    let big = u64::from(bf16::from_f32(2f32.powi(100)).to_bits());
    let small = u64::from(bf16::from_f32(2f32.powi(-60)).to_bits());
    let one = u64::from(bf16::ONE.to_bits());
    assert_eq!(f32::from_bits(run(&hopper, [0, small], [big, one], 0) as u32), 2f32.powi(-60));
    assert_eq!(run(&counted, [0, small], [big, one], 0), 0);
    // D6: the NaN.
    let quiet = changed(|f| FusedDotAdd { nan: NanRule::Quiet, ..f });
    assert_eq!(
        (run(&hopper, [0x7fc0, 0], [one, 0], 0), run(&quiet, [0x7fc0, 0], [one, 0], 0)),
        (0x7fff_ffff, 0x7fc0_0000)
    );
    // D3: a subnormal f16 c, normalised, lowers the exponent that everything is aligned to.
    let half_out = Unit::find("volta/mma.m8n8k4.f16.f16.f16.f16").unwrap();
    let normalised =
        half_out.with_accumulator(FusedDotAdd { subnormal_c: SubnormalC::Normalised, ..FusedDotAdd::VOLTA }).unwrap();
    // c = 2 units of 2^-24, half a unit, and 2^-40 that breaks the tie if alignment keeps it.
    let (a, b) = ([0x0c00, 0x0010, 0, 0], [0x0800, 0x0010, 0, 0]);
    assert_eq!(half_out.dot_add_bits(&a, &b, 2).unwrap(), 2);
    assert_eq!(normalised.dot_add_bits(&a, &b, 2).unwrap(), 3);
    // D5: the second floor of CDNA3.
    let cdna3 = Unit::find("cdna3/v_mfma_f32_32x32x8_f16").unwrap();
    let paper = cdna3.with_accumulator(RoundDown { sum_bits: 31, total_bits: None, ..RoundDown::CDNA3 }).unwrap();
    let k8 = |unit: &Unit, a: [u64; 3], b: [u64; 3], c: u64| {
        unit.dot_add_bits(&[a[0], a[1], a[2], 0, 0, 0, 0, 0], &[b[0], b[1], b[2], 0, 0, 0, 0, 0], c).unwrap()
    };
    let terms = ([0x8c00, 0x8c00, 0x0100], [0x0c00, 0x0800, 0x0100]);
    let (ours, theirs) = (k8(&cdna3, terms.0, terms.1, 0x3f80_0000), k8(&paper, terms.0, terms.1, 0x3f80_0000));
    assert_eq!((ours, theirs), (0x3f7f_ffff, 0x3f7f_fffe));
    // D8: a product above 2^128 beside c = -Inf.
    let bf = Unit::find("cdna3/v_mfma_f32_32x32x8_bf16").unwrap();
    let wins =
        bf.with_accumulator(RoundDown { overflow_beside_c: OverflowBesideC::CWins, ..RoundDown::CDNA3 }).unwrap();
    let minus_infinity = 0xff80_0000;
    assert_eq!(k8(&bf, [0x7f00, 0, 0], [0x7f00, 0, 0], minus_infinity), 0x7fc0_0000);
    assert_eq!(k8(&wins, [0x7f00, 0, 0], [0x7f00, 0, 0], minus_infinity), minus_infinity);
    // D9: c = Inf beside fp8 products above 2^25... which e4m3fnuz cannot reach, bf8 can.
    let bf8 = Unit::find("cdna3/v_mfma_f32_32x32x16_bf8_bf8").unwrap();
    let dropped =
        bf8.with_accumulator(GroupedRoundDown { special_c: BlockedC::Dropped, ..GroupedRoundDown::CDNA3 }).unwrap();
    let max = [0x7f].repeat(16);
    assert_eq!(bf8.dot_add_bits(&max, &max, 0x7f80_0000).unwrap(), 0x7f80_0000);
    assert_ne!(dropped.dot_add_bits(&max, &max, 0x7f80_0000).unwrap(), 0x7f80_0000);
}

/// Errors in other words would be other errors: the texts are pinned.
#[test]
fn what_an_architecture_lacks_does_not_compile() {
    // Texts are a compiler's: these are of one version.
    let version = std::process::Command::new("rustc").arg("--version").output().expect("a compiler");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.contains(" 1.95.") {
        println!("left out: tests/ui has the messages of Rust 1.95, and this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[cfg(feature = "serde")]
#[test]
fn units_recipes_and_newtypes_serialise() {
    fn round_trip<T: serde::Serialize + for<'a> serde::Deserialize<'a> + PartialEq + core::fmt::Debug>(value: T) {
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
    }
    round_trip(Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap());
    round_trip(E2M1::from_bits(5));
    Unit::all().step_by(17).for_each(|unit| round_trip(unit.recipe.unwrap()));
    assert!(serde_json::from_str::<Unit>("\"nonsense\"").is_err());
    // As text, which outlives a new parameter.
    let recipe: Recipe = "dot:block=8:F=24:sticky=yes".parse().unwrap();
    assert_eq!(serde_json::to_string(&recipe).unwrap(), "\"dot:block=8:F=24:sticky=yes\"");
    assert!(serde_json::from_str::<Recipe>("\"dot:blocks=8\"").is_err());
    round_trip("cutlass3 block=128x128x64 split-k=4".parse::<Plan>().unwrap());
    // What no name finds is not written as if one did.
    let own = MmaUnit::custom::<f32, f32, f32, f32>(Last, Shape::new(1, 1, 2)).unwrap();
    assert!(serde_json::to_string(own.as_unit()).is_err());
}

/// What prints alike need not compute alike: kernels, which are remembered from one product to the next, must be the
/// unit's own.
#[test]
fn units_that_print_alike_keep_their_own_results() {
    #[derive(Clone)]
    struct Times(i32);
    impl core::fmt::Debug for Times {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("F")
        }
    }
    impl Accumulator for Times {
        fn dot_add(&self, dot: &Dot<'_>) -> Num {
            Num { exponent: dot.a[0].exponent + self.0, ..dot.a[0] }
        }
    }
    let [same, twice] = [0, 1]
        .map(|by| MmaUnit::custom::<f32, f32, f32, f32>(Times(by), Shape::new(1, 1, 2)).unwrap().as_unit().clone());
    assert_ne!(same, twice);
    let (a, b) = (Array2::from_elem((1, 2), 3.0f32), Array2::from_elem((2, 1), 1.0f32));
    for (unit, want) in [(&same, 3.0), (&twice, 6.0), (&same, 3.0)] {
        assert_eq!(a.dot_on(&b, unit).unwrap()[[0, 0]], want);
    }
    // Nor do formats of one name.
    let mut workspace = Workspace::new();
    for want in [4.0, 1.0, 4.0] {
        let d = if want == 4.0 { squared::<3>(&mut workspace) } else { squared::<4>(&mut workspace) };
        assert_eq!(d, want);
    }
}

/// Formats of one name, with another bias.
#[derive(Clone, Copy, Debug)]
struct Biased<const BIAS: i32>(u8);

impl<const BIAS: i32> Format for Biased<BIAS> {
    const SPEC: FormatSpec = FormatSpec { bias: BIAS, ..E3M4::SPEC };
    fn to_bits(self) -> u64 {
        self.0.into()
    }
    fn from_bits(bits: u64) -> Self {
        Self(bits as u8)
    }
}

fn squared<const BIAS: i32>(workspace: &mut Workspace) -> f32 {
    let format = Biased::<BIAS>::SPEC;
    let unit = Unit::custom(FusedDotAdd::HOPPER, Shape::new(1, 1, 1), [format, format, F32, F32], None).unwrap();
    let (x, mut d) = (Array2::from_elem((1, 1), Biased::<BIAS>(0x40)), Array2::<f32>::zeros((1, 1)));
    Gemm::on(&unit).run_into(&x, &x, &mut d, workspace).unwrap();
    d[[0, 0]]
}

/// Parameters out of range are refused, and where nobody asks, they harm nothing but the result.
#[test]
fn parameters_out_of_range_are_refused_or_harmless() {
    use gemmulate::accumulate::{Adder, GroupedRoundDown, NarrowSum, Output, RoundDown};
    let shape = Shape::new(1, 1, 4);
    let refused = |acc: &dyn Fn() -> Result<(), Error>| assert!(acc().is_err());
    let custom = |acc: FusedDotAdd| MmaUnit::custom::<f16, f16, f32, f32>(acc, shape).map(|_| ());
    let hopper = FusedDotAdd::HOPPER;
    let stochastic = Rounding::Stochastic { bits: 8, random: 3 };
    refused(&|| custom(FusedDotAdd { floor: Floor::BelowEmin(i32::MAX), ..hopper }));
    refused(&|| custom(FusedDotAdd { floor: Floor::BelowEmin(i32::MIN), ..hopper }));
    refused(&|| custom(FusedDotAdd { output: Output { wide: stochastic, ..hopper.output }, ..hopper }));
    refused(&|| custom(FusedDotAdd { output: Output { frac_bits: Some(0), ..hopper.output }, ..hopper }));
    let unit = MmaUnit::<Hopper, Mma<16, 8, 16, f16, f16, f32, f32>>::new();
    let total = |unit: &Unit| {
        let [a, b] = [(3, 40), (40, 9)].map(|shape| Array2::from_elem(shape, f16::ONE));
        a.dot_on(&b, unit).unwrap()
    };
    for floor in [i32::MIN, i32::MAX] {
        total(unit.with(|a| FusedDotAdd { floor: Floor::BelowEmin(floor), ..a }).as_unit());
    }
    for frac_bits in [0, 101, u32::MAX - 4, u32::MAX] {
        let strange = unit.with(|a| FusedDotAdd { frac_bits, ..a });
        let d = total(strange.as_unit());
        assert!(frac_bits == 0 || d.iter().all(|&d| d == 40.0), "{frac_bits}: {}", d[[0, 0]]);
    }
    total(unit.with(|a| NarrowSum { adder: Adder::Wraps { carry_bits: u32::MAX }, ..NarrowSum::new(a) }).as_unit());
    for c_reach in [i32::MIN, i32::MAX] {
        total(unit.with(|_| GroupedRoundDown { c_reach, ..GroupedRoundDown::CDNA3 }).as_unit());
        assert!(
            Unit::find(&format!("custom/m1n1k4.f32.f16.f16.f32/round-down-grouped:G=4:c-reach={c_reach}")).is_err()
        );
    }
    // Exact sums do not look at F, but others who read the recipe do.
    assert!(Unit::find("custom/m1n1k4.f32.e4m3.e4m3.f32/dot:block=4:exact=yes:F=4294967295").is_err());
    assert!(Unit::find("custom/m1n1k4.f32.e4m3.e4m3.f32/groups:G=1:F=2147483647:e_zero=emin+50").is_err());
    let base = RoundDown { total_bits: Some(u32::MAX), sum_bits: u32::MAX, frac_bits: u32::MAX, ..RoundDown::CDNA3 };
    total(unit.with(|_| GroupedRoundDown { base, ..GroupedRoundDown::CDNA3 }).as_unit());
    total(unit.with(|_| base).as_unit());
}

/// The crate's other errors become its own by `?`.
#[test]
fn errors_become_one() {
    fn encode(x: f64) -> Result<E2M1, Error> {
        Ok(E2M1::from_f64(x)?)
    }
    fn read(line: &[u8]) -> Result<bool, Error> {
        Ok(gemmulate::vectors::Vector::default().read_line(&Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32")?, line)?)
    }
    assert_eq!(encode(1.0).unwrap().to_f64(), 1.0);
    assert_eq!(encode(f64::NAN).unwrap_err().to_string(), "the value: NaN has no code in e2m1");
    let why = read(b"3c00,4000,0,0 3c00,x").unwrap_err().to_string();
    assert_eq!(why, "a line:20: b[1]: expected a hex code of f16, but found `x`");
}

/// Parameters that no unit may have give something, and no panic: products farther apart than any integer is wide.
#[test]
fn parameters_that_nobody_checked_do_not_panic() {
    let unit = MmaUnit::<Hopper, Wgmma<128, bf16, bf16, f32>>::new();
    let (mut a, mut b) = ([bf16::ONE; 16], [bf16::ONE; 16]);
    (a[0], b[1]) = (bf16::from_bits(0x0080), bf16::from_bits(0x7F00));
    for group in [0, 1, 16, usize::MAX] {
        let groups = unit.clone().with(|_| GroupScaledDot { group, ..GroupScaledDot::BLACKWELL });
        let _ = groups.dot_add(&a, &b, 1.0);
        assert!(groups.unit().accumulator.check(&groups.unit().signature()).is_err());
    }
}
