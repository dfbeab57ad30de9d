//! Every fast kernel gives the reference's bits: all families of the catalogue and custom units, all kinds of input,
//! each instruction set in turn.

use crate::problem::{Problem, isas};
use gemmulate::accumulate::{SubnormalC, ZeroProducts};
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use gemmulate::round::ROUNDINGS;
use gemmulate::simd::Isa;
use gemmulate::vectors::KINDS;
use proptest::prelude::*;

/// All kinds, alone and mixed, on shapes that leave edges.
fn all_kinds(unit: &Unit, seeds: core::ops::Range<u64>) {
    let steps = if unit.c == unit.d { 3 } else { 1 };
    for seed in seeds {
        // Few rows may have a kernel of their own.
        let rows = if seed % 2 == 0 { [6, 3] } else { [4, 9] };
        for &kind in KINDS {
            Problem::new(unit, &[kind], seed, [rows[0], 19, steps]).check(&isas());
        }
        Problem::new(unit, KINDS, seed, [rows[1], 33, steps]).check(&isas());
        // A matrix by a vector may be computed as a vector by a matrix.
        Problem::new(unit, KINDS, seed, [64 + rows[1], 1, steps]).check_from(Start::Zero, &isas());
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

/// Steps of few products have a loop of their own on AVX-512, with and without a length known to the compiler.
#[test]
fn steps_of_few_products_are_the_references() {
    let named = |name: &str| -> FormatSpec { *gemmulate::format::format_named(name).unwrap() };
    let outputs = [
        ("f32", Rounding::TowardZero, None),
        ("f32", Rounding::NearestEven, None),
        ("f32", Rounding::Down, None),
        ("f32", Rounding::Up, None),
        ("f32", Rounding::TowardZero, Some(13)),
        ("f16", Rounding::NearestEven, None),
    ];
    for block in 1..=8 {
        for (i, (d, output_rounding, output_bits)) in outputs.into_iter().enumerate() {
            let format = named(["f16", "bf16", "tf32"][(block + i) % 3]);
            let frac_bits = [25, 23, 10, 24][(block + 2 * i) % 4];
            let c = if block % 3 == 2 { CPosition::Last } else { CPosition::With };
            let g = GenericDot { block, frac_bits, output_rounding, output_bits, c, ..GenericDot::default() };
            let unit =
                Unit::custom(g, Shape::new(1, 1, 2 * block), [format, format, named(d), named(d)], None).unwrap();
            let few = isas().contains(&Isa::Avx512) && block < 8;
            // Four go on f64 accumulators but for f32 results cut off.
            let cut = d == "f32" && output_rounding == Rounding::TowardZero && output_bits.is_none();
            let name = Gemm::on(&unit).isa(Isa::Avx512).kernel().name;
            assert!(!few || name == if block == 4 && !cut { "fda-f64" } else { "fda-i32" }, "{unit}");
            all_kinds(&unit, 0..2);
        }
    }
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

/// Trees of any size, the last of a step smaller.
#[test]
fn pairwise_sums_of_any_size_are_the_references() {
    let named = |name: &str| -> FormatSpec { *gemmulate::format::format_named(name).unwrap() };
    for group in (1..=17).chain([31, 33, 64]) {
        for (i, flush_results) in [true, false].into_iter().enumerate() {
            let sum = PairwiseSum { group, flush_results, flush_inputs: group % 2 == 0, ..PairwiseSum::CDNA2 };
            let formats = [["f16", "bf16", "f32"][group % 3], ["bf16", "e4m3"][i], "f32", "f32"].map(named);
            for k in [group, 2 * group + group / 2 + 1] {
                let unit = Unit::custom(sum, Shape::new(1, 1, k), formats, None).unwrap();
                for isa in isas() {
                    assert_eq!(Gemm::on(&unit).isa(isa).kernel().isa, isa, "{unit}");
                }
                all_kinds(&unit, 0..1);
            }
        }
    }
}

#[test]
fn round_down_units_are_the_references() {
    family(|r| matches!(r, Recipe::RoundDown(_) | Recipe::GroupedRoundDown(_)), 20);
}

/// Of numbers below 20 half are roundings that known designs have, half any of the ten.
fn half_known(n: usize) -> Rounding {
    let known = [Rounding::TowardZero, Rounding::Down, Rounding::NearestEven, Rounding::Up];
    if n < 10 { known[n % 4] } else { ROUNDINGS[n - 10].0 }
}

const FORMATS: [&str; 8] = ["f16", "bf16", "e4m3", "e5m2", "tf32", "e2m1", "f32", "e5m2fnuz"];

prop_compose! {
    fn custom()(
        formats in (0..8usize, 0..8usize, 0..4usize),
        shape in (1..20usize, 0..3usize, 8..82u32, 1..24usize),
        rounding in (0..20usize, 0..20usize, 1..24u32),
        floor in (0..4usize, -20..20i32),
        flags: [bool; 8],
        words in (0..3usize, any::<bool>(), any::<bool>(), 0..4usize),
    ) -> Unit {
        let [sticky, normalise, via_f16, flush_inputs, flush_results, limit, negative_zero, plain] = flags;
        let named = |name: &str| -> FormatSpec { *gemmulate::format::format_named(name).unwrap() };
        let d = named(["f32", "f32", "f16", "bf16"][formats.2]);
        let g = GenericDot {
            block: shape.0,
            pattern: [Pattern::Runs, Pattern::EvenOdd, Pattern::InterleavedPairs][shape.1],
            // Up to 40 more often than beyond.
            frac_bits: if shape.2 % 4 < 3 { 8 + shape.2 % 33 } else { shape.2 },
            exact: words.3 == 0,
            alignment: if plain { Rounding::TowardZero } else { half_known(rounding.0) },
            sticky: sticky && !plain,
            normalise_products: normalise && !plain,
            floor: [Floor::None, Floor::ZeroC, Floor::BelowEmin(floor.1), Floor::BelowEmin(7)][floor.0],
            c: [CPosition::With, CPosition::Late, CPosition::Last][words.0],
            zero_products: if words.1 { ZeroProducts::Ignored } else { ZeroProducts::OwnExponent },
            subnormal_c: if words.2 { SubnormalC::Stored } else { SubnormalC::Normalised },
            output_rounding: half_known(rounding.1),
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(4), ..ProptestConfig::default() })]
    #[test]
    fn custom_units_are_the_references(unit in custom(), seed in 0..1000u64) {
        for &kind in KINDS {
            Problem::new(&unit, &[kind], seed, [if seed % 2 == 0 { 2 } else { 6 }, 17, 2]).check(&isas());
        }
    }
}
