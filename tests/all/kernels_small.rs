//! Small products, tiles side by side, at the edges of what the words of four tiles are read as: each case makes
//! something else of one tile, one side or one format. (`kernels` has all kinds of input.)

use crate::problem::isas;
use crate::rng::Rng;
use gemmulate::accumulate::Recipe;
use gemmulate::format::{FormatSpec, Specials};
use gemmulate::gemm::Workspace;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use half::{bf16, f16};
use ndarray::{Array2, Array3};

const BF16: &str = "hopper/mma.m16n8k16.f32.bf16.bf16.f32";

/// A batch is the reference.
fn check<A: Format, B: Format>(unit: &Unit, a: &Array3<A>, b: &Array3<B>, case: &str) {
    let want = Gemm::on(unit).isa(Isa::Reference).run_batch(a, b).unwrap().map(|x: &f32| x.to_bits());
    for isa in isas() {
        let found = Gemm::on(unit).isa(isa).run_batch(a, b).unwrap().map(|x: &f32| x.to_bits());
        assert_eq!(found, want, "{unit} on {isa}: {case}");
    }
}

/// The same, and with A and B for each other.
fn check_both(unit: &Unit, a: &Array3<bf16>, b: &Array3<bf16>, case: &str) {
    check(unit, a, b, case);
    // Rows and columns are told apart: 8 rows twice, and the first 8 columns of 16.
    let turned = |x: &Array3<bf16>| x.clone().permuted_axes([0, 2, 1]).as_standard_layout().into_owned();
    let (rows, columns) = (turned(b), turned(a));
    let n = columns.dim().2.min(8);
    let a = Array3::from_shape_fn((rows.dim().0, 16, rows.dim().2), |(t, i, p)| rows[[t, i % rows.dim().1, p]]);
    check(unit, &a, &columns.slice(ndarray::s![.., .., ..n]).to_owned(), &format!("{case}, turned"));
}

/// Formats on both sides of those whose values are made as words.
macro_rules! formats {
    ($($name:ident($e:expr, $m:expr, $bias:expr, $specials:ident);)*) => { $(
        #[derive(Clone, Copy, Debug)]
        struct $name(u16);

        impl Format for $name {
            const SPEC: FormatSpec = FormatSpec {
                name: stringify!($name),
                storage_bits: 16,
                signed: true,
                exponent_bits: $e,
                fraction_bits: $m,
                bias: $bias,
                subnormals: true,
                specials: Specials::$specials,
                ignored_low_bits: 0,
            };

            fn to_bits(self) -> u64 {
                self.0.into()
            }

            fn from_bits(bits: u64) -> Self {
                Self(bits as u16)
            }
        }
    )* };
}

formats! {
    E4M4(4, 4, 7, Ieee);
    E4M5(4, 5, 7, None);
    E3M6(3, 6, 3, NanAllOnes);
    E6M4(6, 4, 31, Ieee);
    E7M2(7, 2, 63, Ieee);
}

fn unit_of<A: Format, B: Format>(recipe: &str, k: usize) -> Unit {
    let Ok(Recipe::Generic(dot)) = recipe.parse() else { panic!("{recipe}") };
    Unit::custom(dot, Shape::new(16, 8, k), [A::SPEC, B::SPEC, f32::SPEC, f32::SPEC], None).unwrap()
}

/// All finite codes of two formats.
fn check_codes<A: Format, B: Format>(recipe: &str, k: usize) {
    let unit = unit_of::<A, B>(recipe, k);
    let codes = |spec: &FormatSpec| 1u64 << (1 + spec.exponent_bits + spec.fraction_bits);
    let count = codes(&A::SPEC).max(codes(&B::SPEC)) as usize;
    let count = count.div_ceil(8 * k);
    let mut rng = Rng(k as u64);
    for near in [false, true] {
        // All codes in turn; or subnormal ones and the smallest normal ones alone, that nothing larger hides.
        let mut draw = |spec: &FormatSpec, i: usize| {
            let sign = codes(spec) / 2 * (rng.next() & 1);
            let few = 4u64 << spec.fraction_bits;
            let code = if near { sign | (i as u64 % few) } else { (i as u64 * 7 + 3) % codes(spec) };
            if spec.decode(code).is_finite() { code } else { 1 }
        };
        let a = Array3::from_shape_fn((count, 16, k), |(t, i, p)| A::from_bits(draw(&A::SPEC, (t * 16 + i) * k + p)));
        let b = Array3::from_shape_fn((count, k, 8), |(t, p, j)| B::from_bits(draw(&B::SPEC, (t * k + p) * 8 + j)));
        check(&unit, &a, &b, if near { "the smallest codes" } else { "all codes" });
    }
}

#[test]
fn values_of_few_bits_are_the_references() {
    for (recipe, k) in
        [("dot:block=16:F=25", 16), ("dot:block=8:F=24", 24), ("dot:block=8:F=13", 8), ("dot:block=32:F=13", 32)]
    {
        check_codes::<E4M4, E4M4>(recipe, k);
        check_codes::<E4M5, E4M4>(recipe, k);
        check_codes::<E4M4, E4M5>(recipe, k);
        check_codes::<E4M5, E4M5>(recipe, k);
        check_codes::<E3M6, E4M5>(recipe, k);
        check_codes::<E4M5, E3M6>(recipe, k);
        check_codes::<E3M6, E3M6>(recipe, k);
        check_codes::<E6M4, E4M4>(recipe, k);
    }
}

/// Few bits, but more exponents than a window: numbers at its end, and below it.
#[test]
fn few_bits_of_many_exponents_are_the_references() {
    let unit = unit_of::<E7M2, E7M2>("dot:block=16:F=24", 16);
    for far in [31, 32, 40, 60, 62] {
        let code = |line: usize, x: usize| match line {
            0 => 63 << 2,
            1 => 0,
            2 => 1,
            _ => ((63 - far) << 2) | (x as u64 % 4),
        };
        let a = Array3::from_shape_fn((4, 16, 16), |(t, i, p)| E7M2::from_bits(code(i, t + p)));
        let b = Array3::from_shape_fn((4, 16, 8), |(t, p, j)| E7M2::from_bits(code(j, t + p)));
        check(&unit, &a, &b, &format!("{far} below"));
    }
}

/// Where the window of the data begins at exponent field 0, zeros are below it although no field is.
#[test]
fn zeros_beside_the_lowest_window_are_the_references() {
    let unit = Unit::find(BF16).unwrap();
    let large = bf16::from_bits(0x6F80);
    for (field, least) in [(30, 0), (31, 0), (31, 1), (32, 0), (32, 0x80), (33, 0x80)] {
        // Rows of nothing but what is unusual.
        let a = Array3::from_shape_fn((4, 16, 16), |(t, i, _)| {
            bf16::from_bits(if (i + t) % 5 == 0 { least } else { field << 7 })
        });
        check_both(&unit, &a, &Array3::from_elem((4, 16, 8), large), &format!("{field}, {least:x}"));
    }
}

/// The largest exponent of all four tiles is in any one of them, of A, of B or of both.
#[test]
fn the_largest_numbers_may_be_in_any_tile() {
    let unit = Unit::find(BF16).unwrap();
    for large in 0..4 {
        let pick = |t| bf16::from_bits(if t == large { 0x4980 } else { 0x3F81 });
        let (a, b) = (
            Array3::from_shape_fn((4, 16, 16), |(t, ..)| pick(t)),
            Array3::from_shape_fn((4, 16, 8), |(t, ..)| pick(t)),
        );
        let one = bf16::from_bits(0x3F80);
        check(&unit, &a, &b, "both");
        check(&unit, &a, &Array3::from_elem((4, 16, 8), one), "A");
        check(&unit, &Array3::from_elem((4, 16, 16), one), &b, "B");
    }
}

/// A number below the window is all that counts, in any tile, of A or of B.
#[test]
fn numbers_below_the_window_may_be_in_any_tile() {
    let one = bf16::from_bits(0x3F80);
    // Of F = 24, for a watch on sums does not hide it.
    for name in [BF16, "custom/m16n8k16.f32.bf16.bf16.f32/dot:block=16:F=24", "ampere/mma.m16n8k16.f32.bf16.bf16.f32"] {
        let unit = Unit::find(name).unwrap();
        for at in 0..4 {
            let zeros = |p| if p == 3 { one } else { bf16::from_bits(0) };
            let far = |t, p| if t == at && p == 3 { bf16::from_bits(0x2B81) } else { one };
            let a = Array3::from_shape_fn((4, 16, 16), |(_, _, p)| zeros(p));
            let b = Array3::from_shape_fn((4, 16, 8), |(t, p, _)| far(t, p));
            check_both(&unit, &a, &b, &format!("tile {at}"));
        }
    }
}

/// Sums pass 2^31: of products in one tile of four; and of products and c.
#[test]
fn largest_sums_of_small_tiles_are_the_references() {
    let unit = Unit::find("custom/m16n8k32.f32.f16.f16.f32/dot:block=32:F=25").unwrap();
    for (at, sign) in [0, 1, 2, 3].into_iter().flat_map(|at| [(at, 0), (at, 0x8000)]) {
        let a =
            Array3::from_shape_fn((4, 16, 32), |(t, ..)| f16::from_bits(if t == at { 0x3FFF ^ sign } else { 0x3C00 }));
        check(&unit, &a, &Array3::from_elem((4, 32, 8), f16::from_bits(0x3FFF)), &format!("tile {at}, {sign:x}"));
    }
    for name in [
        "hopper/mma.m16n8k16.f32.f16.f16.f32",
        "ampere/mma.m16n8k16.f32.f16.f16.f32",
        "custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=24",
        "custom/m16n8k32.f32.f16.f16.f32/dot:block=32:F=25",
    ] {
        let unit = Unit::find(name).unwrap();
        let k = unit.shape.k;
        for (sign, c) in
            [(0, 0x3FFF_FFFF), (0x8000, 0xBFFF_FFFF), (0, 0x407F_FFFF), (0x8000, 0xC07F_FFFF), (0, 0xBFFF_FFFFu32)]
        {
            let a = Array2::from_elem((16, k), f16::from_bits(0x3FFF ^ sign));
            let b = Array2::from_elem((k, 8), f16::from_bits(0x3FFF));
            let codes = |x: &Array2<f16>| x.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>();
            let want = unit.mma_bits(&codes(&a), &codes(&b), &vec![c.into(); 128]).unwrap();
            let c = Array2::from_elem((16, 8), f32::from_bits(c));
            let bits = |x: Array2<f32>| x.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>();
            assert_eq!(bits(unit.mma(&a, &b, &c).unwrap()), want, "{name}, {}", c[[0, 0]]);
            for isa in isas() {
                let gemm = Gemm::on(&unit).isa(isa).plan(Plan::in_order().start(Start::C)).beta(1.0).c(&c);
                assert_eq!(bits(gemm.run_as(&a, &b).unwrap()), want, "{name} on {isa}, {}", c[[0, 0]]);
            }
        }
    }
}

/// In any tile a row has significands whose products' sum, beside a state of almost 2 from the step before, just leaves
/// 31 bits, or just does not.
#[test]
fn a_row_of_large_significands_may_be_in_any_tile() {
    for (k, depth) in [(16, 32), (16, 64), (32, 32)] {
        let of = |format: &str| {
            let name = format!("custom/m16n8k{k}.f32.{format}.{format}.f32/dot:block=16:F=25");
            Unit::find(&name).unwrap()
        };
        let (halves, wide) = (of("f16"), of("bf16"));
        for (at, row) in [(0, 0), (1, 15), (2, 7), (3, 8)] {
            for less in [0, 1, 900, 970, 980, 990, 1000, 1010, 1023] {
                // A state of 1 by B, and zeros; then 16 of the largest significand, but that one is so much less.
                let code = |[t, i, p]: [usize; 3], one: u16, largest: u16, less: u16| match p {
                    0 => one,
                    _ if (t, i) != (at, row) || p < depth - 16 => 0,
                    _ if p == depth - 9 => largest - less,
                    _ => largest,
                };
                let case = format!("tile {at}, row {row}, {less}");
                let a = Array3::from_shape_fn((4, 16, depth), |(t, i, p)| {
                    f16::from_bits(code([t, i, p], 0x3C00, 0x3FFF, less))
                });
                check(&halves, &a, &Array3::from_elem((4, depth, 8), f16::from_bits(0x3FFF)), &case);
                let a = Array3::from_shape_fn((4, 16, depth), |(t, i, p)| {
                    bf16::from_bits(code([t, i, p], 0x3F80, 0x3FFF, less / 8))
                });
                check(&wide, &a, &Array3::from_elem((4, depth, 8), bf16::from_bits(0x3FFF)), &case);
            }
        }
    }
}

/// A batch of so many tiles of finite numbers, of many exponents or of few.
fn check_lengths<T: Format, D: Format>(recipe: &str, l: usize, k: usize) {
    let Ok(Recipe::Generic(dot)) = recipe.parse() else { panic!("{recipe}") };
    let formats = [T::SPEC, T::SPEC, D::SPEC, D::SPEC];
    let unit = Unit::custom(dot, Shape::new(16, 8, l.max(k / 2 / l * l)), formats, None).unwrap();
    let k = k / unit.shape.k * unit.shape.k;
    let mut rng = Rng((l * k) as u64);
    for (count, near) in [(1, true), (2, true), (3, false), (4, true), (7, true), (4, false)] {
        let mut draw = || loop {
            let code = rng.next() & ((1 << T::SPEC.storage_bits) - 1);
            let x = T::SPEC.to_f64(code);
            if x.is_finite() && (!near || x == 0.0 || (0.01..4.0).contains(&x.abs())) {
                return T::from_bits(code);
            }
        };
        let a = Array3::from_shape_simple_fn((count, 16, k), &mut draw);
        let b = Array3::from_shape_simple_fn((count, k, 8), &mut draw);
        let on = |isa| {
            let mut d = Array3::from_elem((count, 16, 8), D::from_bits(1));
            Gemm::on(&unit).isa(isa).run_batch_into(&a, &b, &mut d, &mut Workspace::new()).unwrap();
            d.mapv(D::to_bits)
        };
        let want = on(Isa::Reference);
        for isa in isas() {
            assert_eq!(on(isa), want, "{unit} on {isa}: {count} tiles, K = {k}");
        }
    }
}

/// Every length of a step, of words of 16 and 32 bits, K of one step and of several.
#[test]
fn steps_of_every_length_are_the_references() {
    for l in [2, 4, 8, 16, 32] {
        for f in [13, 22, 24, 25] {
            let recipe = format!("dot:block={l}:F={f}");
            for k in [l, 2 * l, 3 * l, 64].into_iter().filter(|k| *k <= 64 && k % l == 0) {
                check_lengths::<f16, f32>(&recipe, l, k);
                check_lengths::<bf16, f32>(&recipe, l, k);
                check_lengths::<Tf32, f32>(&recipe, l, k);
                check_lengths::<E4M4, f32>(&recipe, l, k);
                check_lengths::<E7M2, f32>(&recipe, l, k);
                check_lengths::<F8E4M3, f32>(&recipe, l, k);
                check_lengths::<F8E5M2, f32>(&recipe, l, k);
                // Of all finite numbers many sums are too large for f16.
                check_lengths::<f16, f16>(&recipe, l, k);
                check_lengths::<F8E5M2, f16>(&recipe, l, k);
                let by_way = format!("{recipe}:via-f16=yes");
                check_lengths::<f16, f32>(&by_way, l, k);
                check_lengths::<F8E5M2, f16>(&by_way, l, k);
            }
        }
    }
}

/// Batches of ordinary numbers, one after another, are written where they belong, whichever tile is done again.
fn check_written<D: Format>(name: &str) {
    let (unit, mut rng) = (Unit::find(name).unwrap(), Rng(5));
    let mut draw = || f16::from_f32((rng.next() % 2001) as f32 / 1000.0 - 1.0);
    for (count, m, special) in
        [(1, 16, None), (3, 16, None), (9, 16, None), (9, 16, Some(5)), (3, 48, Some(1)), (8, 32, None)]
    {
        let mut a = Array3::from_shape_simple_fn((count, m, 16), &mut draw);
        let b = Array3::from_shape_simple_fn((count, 16, 8), &mut draw);
        if let Some(t) = special {
            a[[t, 3, 2]] = f16::INFINITY;
        }
        let blank = Array3::from_elem((count, m, 8), D::from_bits(1));
        let (mut want, mut found, mut workspace) = (blank.clone(), blank, Workspace::new());
        Gemm::on(&unit).isa(Isa::Reference).run_batch_into(&a, &b, &mut want, &mut workspace).unwrap();
        let bits = |x: &Array3<D>| x.mapv(D::to_bits);
        for isa in isas() {
            Gemm::on(&unit).isa(isa).run_batch_into(&a, &b, &mut found, &mut workspace).unwrap();
            assert_eq!(bits(&found), bits(&want), "{name} on {isa}: {count} of {m} rows, {special:?}");
        }
    }
}

#[test]
fn results_of_batches_are_where_they_belong() {
    check_written::<f32>("hopper/mma.m16n8k16.f32.f16.f16.f32");
    check_written::<f16>("hopper/mma.m16n8k16.f16.f16.f16.f16");
}
