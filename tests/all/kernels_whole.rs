//! Small products of numbers of few bits, whose tiles may be sums of integers: exponents from narrow to wide, so that
//! sums, products and integers lie on both sides of what is exact there.

use crate::problem::isas;
use crate::rng::Rng;
use float8::{F8E4M3 as E4M3, F8E5M2 as E5M2};
use gemmulate::format::FormatSpec;
use gemmulate::gemm::Workspace;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::types::{E2M1, E2M3, E3M2, E4M3Fnuz, E5M2Fnuz};
use half::f16;
use ndarray::{Array3, s};

/// A code with an exponent field from a range; now and then zero, or anything.
fn code(spec: &FormatSpec, [low, high]: [usize; 2], like: usize, rng: &mut Rng) -> u64 {
    let (fraction, width) = (1usize << spec.fraction_bits, spec.fraction_bits + spec.exponent_bits);
    let sign = if like & 1 == 0 { rng.below(2) } else { 0 };
    let digits = if like & 2 == 0 { rng.below(fraction) } else { fraction - 1 };
    let field = low + rng.below(high - low + 1);
    let magnitude = if rng.one_in(9) { 0 } else { field * fraction + digits };
    (sign << width | magnitude) as u64
}

fn check<A: Format, B: Format, D: Format>(name: &str) {
    let unit = Unit::find(name).unwrap();
    let (k, fields) = (unit.shape.k, |spec: &FormatSpec| 1usize << spec.exponent_bits);
    let mut rng = Rng(name.len() as u64);
    for turn in 0..60 {
        let (count, m, n) = (1 + rng.below(6), rng.pick(&[16, 16, 32, 5]), rng.pick(&[8, 8, 16, 3]));
        let steps = if unit.c == unit.d { 1 + rng.below((64 / k).max(1)) } else { 1 };
        let mut operand = |spec: &FormatSpec, shape: [usize; 3]| {
            let range = |rng: &mut Rng| {
                let low = rng.below(fields(spec));
                let high = low + rng.below((fields(spec) - low).min(1 + turn / 3));
                [low, high]
            };
            let (ranges, like) = ([range(&mut rng), range(&mut rng)], rng.below(4));
            // One code in so many is from elsewhere: of one tile, that is.
            let odd = rng.pick(&[40, 700, 1 << 30]);
            Array3::from_shape_simple_fn(shape, || {
                let range = if rng.one_in(odd) { ranges[1] } else { ranges[0] };
                code(spec, range, like, &mut rng)
            })
        };
        let a = operand(&unit.a, [count, m, k * steps]).mapv(A::from_bits);
        let b = operand(&unit.b, [count, k * steps, n]).mapv(B::from_bits);
        let mut workspace = Workspace::new();
        let mut run = |isa, count: usize| {
            let mut d = Array3::from_elem((count, m, n), D::from_bits(1));
            let operands = (a.slice(s![..count, .., ..]), b.slice(s![..count, .., ..]));
            let gemm = Gemm::on(&unit).isa(isa).threads(1);
            gemm.run_batch_into(&operands.0, &operands.1, &mut d, &mut workspace).unwrap();
            d.mapv(D::to_bits)
        };
        let want = run(Isa::Reference, count);
        for isa in isas() {
            let case = format!("{name} on {isa}: {count} of {m} x {n} x {}", k * steps);
            assert_eq!(run(isa, count), want, "{case}");
            assert_eq!(run(isa, 1), want.slice(s![..1, .., ..]), "{case}, the first");
        }
    }
}

/// Tiles of nothing but the largest numbers of two exponents, one of each row and column being smaller and one zero, in
/// all pairs of exponents and with signs that take turns: what is just exact, and just not.
fn check_largest<A: Format, B: Format, D: Format>(name: &str) {
    let unit = Unit::find(name).unwrap();
    let most = if unit.c == unit.d { 64 / unit.shape.k * unit.shape.k } else { unit.shape.k };
    let fields = |spec: &FormatSpec| 1usize << spec.exponent_bits;
    let operand = |spec: &FormatSpec, field: usize, low: usize, [depth, k, line, turns]: [usize; 4]| {
        let (fraction, width) = (1usize << spec.fraction_bits, spec.fraction_bits + spec.exponent_bits);
        let negative = [0, k % 2, k / 2 % 2, k / 8 % 2, k / 16 % 2][turns];
        let magnitude = match k {
            k if k == line % depth => low * fraction + 1,
            // So that the others may cancel.
            k if k == (line + 1) % depth => 0,
            _ => field * fraction + fraction - 1,
        };
        (negative << width | magnitude) as u64
    };
    let (of_a, of_b) = (fields(&unit.a), fields(&unit.b));
    let mut workspace = Workspace::new();
    let cases = [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (0, 4)];
    let depths = if most > unit.shape.k { vec![most, unit.shape.k] } else { vec![most] };
    for (depth, (low, turns)) in depths.into_iter().flat_map(|depth| cases.map(|case| (depth, case))) {
        let count = of_a * of_b;
        let a = Array3::from_shape_fn((count, 16, depth), |(t, i, k)| {
            A::from_bits(operand(&unit.a, t / of_b, low.min(t / of_b), [depth, k, i, turns]))
        });
        let b = Array3::from_shape_fn((count, depth, 8), |(t, k, j)| {
            B::from_bits(operand(&unit.b, t % of_b, low.min(t % of_b), [depth, k, j + 3, 0]))
        });
        let mut run = |isa| {
            let mut d = Array3::from_elem((count, 16, 8), D::from_bits(1));
            // Each tile for itself: those beside one that is not exact would go with it.
            for t in 0..count {
                let operands = (a.slice(s![t..=t, .., ..]), b.slice(s![t..=t, .., ..]));
                let to = &mut d.slice_mut(s![t..=t, .., ..]);
                let gemm = Gemm::on(&unit).isa(isa).threads(1);
                gemm.run_batch_into(&operands.0, &operands.1, to, &mut workspace).unwrap();
            }
            d.mapv(D::to_bits)
        };
        let want = run(Isa::Reference);
        for isa in isas() {
            assert_eq!(run(isa), want, "{name} on {isa}: K = {depth}, smallest field {low}, turns {turns}");
        }
    }
}

#[test]
fn tiles_of_the_largest_integers_are_the_reference() {
    check_largest::<E4M3, E4M3, f32>("rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check_largest::<E4M3, E4M3, f16>("rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16");
    // What vanishes in f16 is +0.
    check_largest::<E5M2, E5M2, f16>("rtx-blackwell/mma.m16n8k32.f16.e5m2.e5m2.f16");
    check_largest::<E4M3, E5M2, f16>("hopper/wgmma.m64n8k32.f16.e4m3.e5m2");
    check_largest::<E4M3, E4M3, f32>("hopper/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check_largest::<E4M3Fnuz, E4M3Fnuz, f32>("cdna3/v_mfma_f32_16x16x32_fp8_fp8");
    check_largest::<E5M2, E4M3, f32>("custom/m16n8k16.f32.e5m2.e4m3.f32/dot:block=16:F=25:c=last");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=16:pattern=even-odd:F=25");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=8:pattern=pairs:F=25");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=16:pattern=pairs:F=22:out-bits=20");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=8:F=25");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=32:F=30:out=rne");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=32:F=30:out=rd");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=8:F=30:out=ru:c=late");
    check_largest::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=20:e_zero=emin+140");
    check_largest::<E4M3Fnuz, E4M3Fnuz, f32>("cdna3/v_mfma_f32_16x16x32_fp8_fp8/F=23");
}

#[test]
fn tiles_of_integers_are_the_reference() {
    check::<E4M3, E4M3, f32>("rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check::<E4M3, E4M3, f16>("rtx-blackwell/mma.m16n8k32.f16.e4m3.e4m3.f16");
    check::<E5M2, E4M3, f32>("rtx-blackwell/mma.m16n8k16.f32.e5m2.e4m3.f32");
    check::<E4M3, E5M2, f32>("blackwell/tcgen05.mma.m64n8k32.f32.e4m3.e5m2");
    check::<E2M1, E2M3, f32>("rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m3.f32");
    check::<E2M1, E2M1, f16>("rtx-blackwell/mma.m16n8k32.f16.e2m1.e2m1.f16");
    // Two FDAs that take turns, whose c comes last.
    check::<E4M3, E4M3, f32>("hopper/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check::<E4M3, E5M2, f32>("hopper/mma.m16n8k16.f32.e4m3.e5m2.f32");
    check::<E5M2, E4M3, f16>("hopper/mma.m16n8k32.f16.e5m2.e4m3.f16");
    // Few fraction bits.
    check::<E4M3, E4M3, f32>("ada/mma.m16n8k32.f32.e4m3.e4m3.f32");
    check::<E4M3, E5M2, f16>("hopper/wgmma.m64n8k32.f16.e4m3.e5m2");
    // Sums rounded down, in halves, and a NaN for minus zero.
    check::<E4M3Fnuz, E4M3Fnuz, f32>("cdna3/v_mfma_f32_16x16x32_fp8_fp8");
    check::<E5M2Fnuz, E4M3Fnuz, f32>("cdna3/v_mfma_f32_32x32x16_bf8_fp8");
}

#[test]
fn tiles_of_integers_of_custom_units_are_the_reference() {
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=8:F=25");
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=4:F=20:out=rne");
    check::<E4M3, E4M3, f32>("custom/m16n8k32.f32.e4m3.e4m3.f32/dot:block=16:F=25:out=rd");
    check::<E5M2, E4M3, f32>("custom/m16n8k16.f32.e5m2.e4m3.f32/dot:block=16:F=25:out=ru:c=late");
    check::<E4M3, E2M1, f32>("custom/m16n8k24.f32.e4m3.e2m1.f32/dot:block=12:F=19");
    check::<E4M3, E3M2, f32>("custom/m16n8k32.f32.e4m3.e3m2.f32/dot:block=16:F=25:out=rz:out-bits=13");
    check::<E2M1, E2M1, f32>("custom/m16n8k32.f32.e2m1.e2m1.f32/dot:block=8:F=10:out-bits=7");
    check::<E3M2, E2M3, f32>("custom/m16n8k32.f32.e3m2.e2m3.f32/dot:block=16:pattern=even-odd:F=24");
    check::<E3M2, E4M3, f32>("custom/m16n8k32.f32.e3m2.e4m3.f32/dot:block=8:pattern=pairs:F=25");
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=8:F=25:c=last");
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:c=late");
    check::<E4M3, E4M3, f16>("custom/m16n8k16.f16.e4m3.e4m3.f16/dot:block=16:F=31:out=rne");
    check::<E5M2, E5M2, f16>("custom/m16n8k16.f16.e5m2.e5m2.f16/dot:block=16:F=40:out=rne");
    // A zero c counts with -14 there.
    check::<E5M2, E5M2, f16>("custom/m16n8k16.f16.e5m2.e5m2.f16/dot:block=16:F=10:out=rne:e_zero=zero-c");
    check::<E4M3, E5M2, f16>("custom/m16n8k16.f16.e4m3.e5m2.f16/dot:block=16:F=12:out=rne:e_zero=zero-c");
    // Where e_max never is below a large exponent, little is exact.
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=20:e_zero=emin+140");
    check::<E4M3, E4M3, f32>("custom/m16n8k16.f32.e4m3.e4m3.f32/dot:block=16:F=25:e_zero=zero-c");
}
