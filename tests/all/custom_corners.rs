//! Units of one's own where parts that fit each other elsewhere do not.

use gemmulate::accumulate::{FusedDotAdd, GroupScaledDot, Interleave};
use gemmulate::format::{F16, F32, FormatSpec};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use half::{bf16, f16};
use ndarray::Array2;

/// All sets of this machine, the reference's among them.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::ALL.iter().copied().filter(|isa| isa.is_available())
}

/// `each` reads its c in an empty second group, too; the pattern of a recipe has no such group.
#[test]
fn interleaved_groups_of_few_products_are_the_accumulators() {
    let accumulator = Interleave { each: FusedDotAdd { frac_bits: 13, ..FusedDotAdd::HOPPER } };
    // 2.25 and some, with a last place below 2^(1 - 13).
    let (x, y) = (f16::from_bits(0x3E20), f16::from_bits(0x3E04));
    for k in [1, 2, 3, 4] {
        let unit = Unit::custom(accumulator, Shape::new(1, 1, k), [F16, F16, F32, F32], None).unwrap();
        let mut a = Array2::from_elem((1, k), f16::ZERO);
        let mut b = Array2::from_elem((k, 1), f16::ZERO);
        (a[[0, 0]], b[[0, 0]]) = (x, y);
        // A cut at the second group, at F below its own exponent.
        let bits = |x: &Array2<f16>| x.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>();
        let want = unit.dot_add_bits(&bits(&a), &bits(&b), 0).unwrap();
        for isa in sets() {
            let d = Gemm::on(&unit).isa(isa).run_as::<f32>(&a, &b).unwrap();
            assert_eq!(u64::from(d[[0, 0]].to_bits()), want, "K = {k} on {isa}");
        }
        assert_eq!(unit.recipe.is_some(), k > 2);
    }
}

/// Codes of c that are wider than lanes for D are refused where they would lose bits, and taken where none is read.
#[test]
fn wide_codes_of_c_beside_a_narrow_d() {
    let c = FormatSpec { name: "f32 in the upper half", storage_bits: 64, ignored_low_bits: 32, ..F32 };
    let unit = Unit::custom(FusedDotAdd::HOPPER, Shape::new(1, 1, 1), [F16, F16, c, F32], None).unwrap();
    let one = |n| Array2::from_elem(n, f16::ONE);
    let c = Array2::from_elem((1, 1), 1.0f32);
    for isa in sets() {
        let gemm = Gemm::on(&unit).isa(isa);
        let start = gemm.clone().plan(Plan::in_order().start(Start::C)).beta(1.0).c(&c);
        let refused = start.run_as::<f32>(&one((1, 1)), &one((1, 1))).unwrap_err().to_string();
        assert!(refused.contains("32 bits, not of 64"), "{refused}");
        // A single step from +0, to which C is added afterwards.
        assert_eq!(gemm.beta(1.0).c(&c).run_as::<f32>(&one((1, 1)), &one((1, 1))).unwrap()[[0, 0]], 2.0, "{isa}");
    }
}

/// The sum of 2^127 units, which no format of a block-scaled unit reaches.
#[test]
fn sums_of_groups_beyond_their_formats_do_not_panic() {
    let unit = MmaUnit::custom::<bf16, bf16, f32, f32>(FusedDotAdd::HOPPER, Shape::new(1, 1, 16)).unwrap();
    let unit = unit.with(|_| GroupScaledDot::BLACKWELL);
    let (mut a, mut b) = (vec![bf16::ZERO; 16], vec![bf16::ONE; 16]);
    (a[0], b[0]) = (bf16::NEG_ONE, bf16::from_f32(2f32.powi(64)));
    a[1] = bf16::from_f32(2f32.powi(-49));
    assert!(unit.try_dot_add(&a, &b, 0.0).is_ok());
}
