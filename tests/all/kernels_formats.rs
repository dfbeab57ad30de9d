//! Formats that nobody lists: every kernel that takes them gives the reference's bits, and what is no format is
//! refused.

use crate::custom::{self, Random};
use crate::problem::{Problem, isas};
use gemmulate::accumulate::{
    ExactSum, FusedDotAdd, GroupScaledDot, GroupedRoundDown, PairwiseSum, RoundDown, SequentialFma,
};
use gemmulate::format::{BF16, F16, F32, F64, FormatSpec, Specials};
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, Start, Workspace, quantise};
use gemmulate::instr::{ScaleRule, Shape};
use gemmulate::prelude::*;
use gemmulate::probe::{BlackBox, FitOptions, Input, Interface, features, fit};
use gemmulate::simd::Isa;
use gemmulate::vectors::{Evaluator, Generator, KINDS};
use gemmulate::view::{View, ViewMut};
use ndarray::{Array2, Axis};
use std::time::Duration;

/// What operands have: everything; what sums have: IEEE special values; what scales have: neither sign nor infinities.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Operand,
    Sum,
    Scale,
}

/// Any format, with exponents about those of f32 or less.
fn format(r: &mut Random, name: &'static str, of: Of) -> FormatSpec {
    let [exponents, fractions] = match of {
        Of::Operand => [8, 12],
        Of::Sum => [9, 24],
        Of::Scale => r.pick(&[[5, 4], [8, 1]]),
    };
    let specials = match of {
        Of::Sum => Specials::Ieee,
        Of::Scale => r.pick(&[Specials::NanAllOnes, Specials::None]),
        Of::Operand if r.one_in(2) => Specials::Ieee,
        Of::Operand => r.pick(&[Specials::NanAllOnes, Specials::NanNegativeZero, Specials::None]),
    };
    let least = u64::from(specials == Specials::Ieee);
    let exponent_bits = (1 + least + r.below(exponents - least)) as u32;
    let fraction_bits = (least + r.below(fractions - least)) as u32;
    let unsigned = of == Of::Scale || (specials != Specials::NanNegativeZero && of == Of::Operand && r.one_in(8));
    let width = u32::from(!unsigned) + exponent_bits + fraction_bits;
    let storage_bits = width.next_power_of_two().max(4);
    let off = if r.one_in(2) { 0 } else { r.below(41) as i32 - 20 };
    let format = FormatSpec {
        name,
        storage_bits,
        signed: !unsigned,
        exponent_bits,
        fraction_bits,
        bias: (1 << (exponent_bits - 1)) - 1 + off,
        subnormals: fraction_bits > 0 || specials == Specials::NanNegativeZero || r.one_in(2),
        specials,
        ignored_low_bits: if r.one_in(4) { r.below(u64::from(storage_bits - width) + 1) as u32 } else { 0 },
    };
    assert_eq!(format.problem(), None, "{format:?}");
    format
}

/// A unit of some family on such formats; none where the family refuses them.
fn unit(r: &mut Random) -> Option<Unit> {
    let a = format(r, "mine", Of::Operand);
    let b = if r.one_in(2) { a } else { format(r, "yours", Of::Operand) };
    let own = format(r, "ours", Of::Sum);
    let d = r.pick(&[F32, F16, own, own]);
    let c = if r.one_in(6) && d.fraction_bits >= 10 { F16 } else { d };
    let (shape, formats) = (Shape::new(1, 1, r.pick(&[4, 8, 12, 16])), [a, b, c, d]);
    let block = r.pick(&[2, 4, shape.k]);
    let scale = r.one_in(2).then(|| ScaleRule { format: format(r, "scale", Of::Scale), block });
    let chain = |unit: FormatSpec| Unit::custom(SequentialFma::IEEE, shape, [unit; 4], None);
    let group = 1 + r.below(8) as usize;
    // Integers of a few bits, as sums of groups want them.
    let (exponent_bits, fraction_bits) = (1 + r.below(3) as u32, r.below(3) as u32);
    let few = FormatSpec { storage_bits: 8, exponent_bits, fraction_bits, specials: Specials::None, ..a };
    let (flush_inputs, flush_results) = (r.one_in(2), r.one_in(2));
    let unit = match r.below(10) {
        0 => Unit::custom(RoundDown { group, ..RoundDown::CDNA3 }, shape, formats, None),
        1 => Unit::custom(GroupedRoundDown::CDNA3, shape, formats, None),
        2 => {
            Unit::custom(PairwiseSum { group, flush_inputs, flush_results, ..PairwiseSum::CDNA2 }, shape, formats, None)
        }
        3 => Unit::custom(ExactSum { group, ..ExactSum::CDNA1_F16 }, shape, formats, None),
        4 => chain(r.pick(&[F32, F64, own])),
        5 => Unit::custom(FusedDotAdd::VOLTA, shape, formats, None),
        6 => Unit::custom(GroupScaledDot { group: block, ..GroupScaledDot::BLACKWELL }, shape, [few, few, c, d], scale),
        _ => Unit::custom(custom::accumulator(r, &formats, shape.k as u64), shape, formats, scale),
    };
    unit.ok()
}

/// Codes in integers wider than any kernel's words.
#[test]
fn formats_in_wide_integers_are_the_references() {
    let mut taken = 0;
    for storage_bits in [24, 33, 64] {
        let wide = FormatSpec { name: "wide", storage_bits, ..F16 };
        let (shape, formats) = (Shape::new(16, 16, 16), [wide, wide, F32, F32]);
        for unit in [
            Unit::custom(PairwiseSum::CDNA2, shape, formats, None),
            Unit::custom(ExactSum::CDNA1_F16, shape, formats, None),
            Unit::custom(RoundDown::CDNA3, shape, formats, None),
            Unit::custom(GroupedRoundDown::CDNA3, shape, formats, None),
            Unit::custom(FusedDotAdd::HOPPER, shape, formats, None),
            Unit::custom(SequentialFma::IEEE, shape, [wide; 4], None),
        ] {
            let Ok(unit) = unit else { continue };
            taken += 1;
            for rows in [1, 5, 40] {
                Problem::new(&unit, KINDS, 5, [rows, 17, 2]).check(&isas());
            }
        }
    }
    assert!(taken >= 15, "{taken}");
}

#[test]
fn units_of_unlisted_formats_are_the_references() {
    let mut r = Random(11);
    let (mut fast, mut taken) = (0, 0);
    for seed in 0..600 {
        let Some(unit) = unit(&mut r) else { continue };
        taken += 1;
        fast += usize::from(unit.kernel().isa != Isa::Reference);
        // Few rows and many take kernels of their own.
        let (steps, rows) = (if unit.c == unit.d { 2 } else { 1 }, r.pick(&[1, 2, 6]));
        for &kind in KINDS {
            Problem::new(&unit, &[kind], seed, [rows, 17, steps]).check(&isas());
        }
        // One after the other, with bits above the codes, which are nobody's.
        let mut evaluator = Evaluator::new(&unit);
        let (mut inputs, mut expected, mut together) = (Vec::new(), Vec::new(), Vec::new());
        for mut v in Generator::new(&unit, seed).take(60) {
            let d = v.eval(&unit).unwrap();
            inputs.push(v.input.clone());
            expected.push(d);
            assert_eq!(evaluator.eval(&v.input).unwrap(), d, "{unit}: {v}");
            for (codes, format) in [(&mut v.input.a, unit.a), (&mut v.input.b, unit.b)] {
                codes.iter_mut().for_each(|code| *code |= u64::MAX.checked_shl(format.storage_bits).unwrap_or(0));
            }
            assert_eq!(evaluator.eval(&v.input).unwrap(), d, "{unit}: {v}");
            inputs.push(v.input);
            expected.push(d);
        }
        evaluator.eval_all(&inputs, &mut together).unwrap();
        assert_eq!(together, expected, "{unit}");
    }
    assert!(taken > 300 && fast > 100, "{fast} of {taken} units have a fast kernel");
}

/// Numbers below f16's normal ones that are normal in their own format: in f16 they end at the same place, with a
/// larger exponent.
#[test]
fn operands_by_way_of_f16_below_its_normal_numbers() {
    for (exponent_bits, fraction_bits, bias) in [(5, 3, 16), (4, 4, 18), (3, 2, 20), (5, 8, 16), (4, 3, 15)] {
        let storage_bits = if exponent_bits + fraction_bits < 8 { 8 } else { 16 };
        let of =
            |specials| FormatSpec { name: "mine", storage_bits, exponent_bits, fraction_bits, bias, specials, ..F16 };
        for (block, frac_bits) in [(1, 9), (4, 23), (8, 12), (16, 25), (32, 13)] {
            let g = GenericDot { block, frac_bits, via_f16: true, ..GenericDot::default() };
            let mine = of(Specials::None);
            let unit = Unit::custom(g, Shape::new(1, 1, block), [mine, mine, F32, F32], None).unwrap();
            for (seed, &kind) in (0..).zip(KINDS) {
                Problem::new(&unit, &[kind], seed, [9, 17, 2]).check(&isas());
                Problem::new(&unit, &[kind], seed, [1, 17, 2]).check_from(Start::Zero, &isas());
            }
            // All of them small.
            let small = |n: usize| (0..n).map(|i| i as u64 * 7 % (5 << fraction_bits)).collect();
            let (a, b, c) = (small(9 * block), small(17 * block), vec![0; 9 * 17]);
            let problem = Problem { unit, size: [9, 17, block], a, b, c, scale_a: vec![], scale_b: vec![] };
            problem.check_from(Start::Zero, &isas());
        }
    }
}

/// Sums beyond 31 bits whose subnormal numbers, normal in f16, have larger significands there than their fractions
/// tell.
#[test]
fn operands_by_way_of_f16_whose_sums_are_large() {
    let mine = FormatSpec {
        name: "mine",
        storage_bits: 16,
        exponent_bits: 4,
        fraction_bits: 5,
        bias: 7,
        specials: Specials::None,
        ..F16
    };
    for frac_bits in [25, 40] {
        let g = GenericDot { block: 16, frac_bits, via_f16: true, ..GenericDot::default() };
        let unit = Unit::custom(g, Shape::new(1, 1, 16), [mine, F16, F32, F32], None).unwrap();
        for (rows, columns) in [(9, 17), (24, 70)] {
            // Products of nearly 4 times 2^-8: the significands of 14 are 63, and 47 or 60 those of two.
            let a = (0..rows).flat_map(|_| (0..16).map(|p| if p < 14 { 1 << 5 | 31 } else { 15 })).collect();
            let b = (0..16).flat_map(|p| vec![if p < 14 { 13 << 10 | 1023 } else { 15 << 10 | 1023 }; columns]);
            let (b, c) = (b.collect(), vec![119 << 23 | 0x7F_FFFF; rows * columns]);
            let (unit, size) = (unit.clone(), [rows, columns, 16]);
            let problem = Problem { unit, size, a, b, c, scale_a: vec![], scale_b: vec![] };
            problem.check(&isas());
        }
    }
}

/// Operands with numbers just below f32's normal ones, or just above its largest: panels of f32 do not hold them.
#[test]
fn operands_beyond_the_exponents_of_f32() {
    for (bias, specials) in [(128, Specials::Ieee), (126, Specials::Ieee), (128, Specials::None), (127, Specials::None)]
    {
        for (block, fraction_bits) in [(4, 7), (8, 10), (16, 3), (6, 7)] {
            let storage_bits = if fraction_bits == 10 { 32 } else { 16 };
            let base =
                FormatSpec { name: "mine", storage_bits, exponent_bits: 8, fraction_bits, bias, specials, ..F32 };
            let g = GenericDot { block, frac_bits: 24, ..GenericDot::default() };
            let unit = Unit::custom(g, Shape::new(1, 1, 2 * block), [base, base, F32, F32], None).unwrap();
            for (seed, &kind) in (0..).zip(KINDS) {
                Problem::new(&unit, &[kind], seed, [6, 19, 3]).check(&isas());
            }
            Problem::new(&unit, KINDS, 1, [9, 70, 12]).check(&isas());
        }
    }
}

/// Formats with all the numbers of f32 or f64, and a bit that is nobody's in the place of the sign.
#[test]
fn unsigned_operands_of_chains() {
    for (spec, sign) in [(F32, 1 << 31), (F64, 1 << 63)] {
        let unsigned = FormatSpec { name: "unsigned", signed: false, ..spec };
        let unit =
            Unit::custom(SequentialFma::IEEE, Shape::new(1, 1, 4), [unsigned, unsigned, spec, spec], None).unwrap();
        let mut evaluator = Evaluator::new(&unit);
        for mut v in Generator::new(&unit, 7).take(200) {
            let d = v.eval(&unit).unwrap();
            v.input.a.iter_mut().for_each(|code| *code |= sign);
            v.input.b[1] |= sign;
            assert_eq!(v.eval(&unit).unwrap(), d, "{v}");
            assert_eq!(evaluator.eval(&v.input).unwrap(), d, "{v}");
            let [a, b] = [&v.input.a, &v.input.b].map(|codes| View::from_slice(codes, [1, 4], [4, 1], 0).unwrap());
            let (mut got, b) = ([0; 1], b.transposed());
            let c = View::from_slice(core::slice::from_ref(&v.input.c), [1, 1], [1, 1], 0).unwrap();
            for isa in isas() {
                let c = AnyMatrix::Typed(Codes::U64(c), spec);
                let gemm = Gemm::on(&unit).isa(isa).plan(Plan::default().start(Start::C)).beta(1.0).c(&c);
                let to = CodesMut::U64(ViewMut::from_slice(&mut got, [1, 1], [1, 1], 0).unwrap());
                gemm.run_codes(&Codes::U64(a), &Codes::U64(b), to, &mut Workspace::new()).unwrap();
                assert_eq!(got[0], d, "{isa}: {v}");
            }
        }
    }
}

/// Constants of all sizes, most of which are no format.
fn wild(r: &mut Random) -> FormatSpec {
    let number = |r: &mut Random| r.pick(&[0, 1, 2, 5, 8, 11, 23, 52, 64, u32::MAX]).wrapping_add(r.below(3) as u32);
    FormatSpec {
        name: "wild",
        storage_bits: number(r),
        signed: r.one_in(2),
        exponent_bits: number(r),
        fraction_bits: number(r),
        bias: r.pick(&[0, 7, 127, 1023, 5000, i32::MAX, i32::MIN]),
        subnormals: r.one_in(2),
        specials: r.pick(&[Specials::Ieee, Specials::NanAllOnes, Specials::NanNegativeZero, Specials::None]),
        ignored_low_bits: if r.one_in(2) { 0 } else { number(r) },
    }
}

#[test]
fn codes_of_unlisted_formats_encode_to_themselves() {
    let mut r = Random(3);
    for _ in 0..300 {
        let of = r.pick(&[Of::Operand, Of::Sum, Of::Scale]);
        let x = format(&mut r, "any", of);
        let width = x.exponent_bits + x.fraction_bits + u32::from(x.signed);
        for _ in 0..1000 {
            let code = r.below(1 << width) << x.ignored_low_bits;
            let value = x.to_f64(code);
            if value.is_nan() {
                continue;
            }
            for rounding in [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up] {
                let back = x.encode_f64(value, rounding, Overflow::Ieee);
                assert_eq!(back, Ok(code), "{x:?} {value:e} {rounding}");
            }
        }
    }
}

/// A box that answers nothing.
struct Silent(Interface);

impl BlackBox for Silent {
    fn interface(&self) -> Interface {
        self.0
    }

    fn dot_adds(&mut self, _: &[Input]) -> Result<Vec<u64>, Error> {
        Err(Error::Unit("says nothing".into()))
    }
}

#[test]
fn what_is_no_format_is_refused_wherever_it_comes_in() {
    let (mut r, f16) = (Random(5), Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").unwrap());
    let (ones, zeros) = (Array2::<f32>::ones((16, 16)), Array2::<u64>::zeros((16, 16)));
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..20_000 {
        let x = wild(&mut r);
        let mut four = [BF16, BF16, F32, F32];
        let place = r.below(5) as usize;
        let mut scale = None;
        match four.get_mut(place) {
            Some(format) => *format = x,
            None => scale = Some(ScaleRule { format: x, block: 16 }),
        }
        let shape = Shape::new(1, 1, 16);
        let unit = Unit::custom(custom::accumulator(&mut r, &[BF16, BF16, F32, F32], 16), shape, four, scale);
        let typed = AnyMatrix::Typed(Codes::from(zeros.view()), x);
        let interface = Interface { k: 16, a: four[0], b: four[1], c: four[2], d: four[3], scale };
        let mx = |from: &AnyMatrix<'_>, to| quantise::mx(from, to, 4, Axis(1), Rounding::NearestEven).err();
        let answers = [
            unit.as_ref().err().cloned(),
            features(&mut Silent(interface)).err(),
            fit(&mut Silent(interface), &FitOptions::default()).err(),
            Gemm::on(&f16).run(&typed, &ones).err(),
            Gemm::on(&f16).c(&typed).beta(1.0).run(&ones, &ones).err(),
            mx(&typed, &gemmulate::format::E2M1),
        ];
        // A result of any other format than the unit's few is refused for that.
        assert!(Gemm::on(&f16).output(x).run(&ones, &ones).is_err());
        if x.problem().is_some() {
            refused += 1;
            assert!(mx(&AnyMatrix::F32(ones.view().into()), &x).is_some(), "{x:?}");
            for (i, answer) in answers.into_iter().enumerate() {
                assert!(matches!(answer, Some(Error::InvalidFormat { .. })), "{i}: {x:?}: {answer:?}");
            }
        } else if let Ok(unit) = unit {
            taken += 1;
            for _ in 0..4 {
                let codes = |r: &mut Random, n: usize| -> Vec<u64> { (0..n).map(|_| r.below(u64::MAX)).collect() };
                let (a, b) = (codes(&mut r, 16), codes(&mut r, 16));
                let (sa, sb) = (codes(&mut r, unit.scales()), codes(&mut r, unit.scales()));
                unit.dot_add_scaled_bits(&a, &b, r.below(u64::MAX), &sa, &sb).unwrap();
            }
        }
    }
    assert!(refused > 1000 && taken > 50, "{refused} {taken}");
}

#[test]
fn block_scales_are_magnitudes_of_a_byte() {
    use gemmulate::format::{E4M3, E5M2, UE4M3, UE8M0};
    let unit = |format, block| {
        let accumulator = GroupScaledDot { group: 16, ..GroupScaledDot::BLACKWELL };
        let e2m1 = gemmulate::format::E2M1;
        Unit::custom(accumulator, Shape::new(1, 1, 32), [e2m1, e2m1, F32, F32], Some(ScaleRule { format, block }))
    };
    assert!(unit(UE8M0, 32).is_ok() && unit(UE4M3, 16).is_ok());
    let unsigned = |format| FormatSpec { signed: false, ..format };
    for (format, block) in [(E4M3, 16), (unsigned(E5M2), 16), (F32, 16), (unsigned(BF16), 16), (UE8M0, 0), (UE8M0, 5)] {
        assert!(matches!(unit(format, block), Err(Error::Unit(_))), "{format:?} {block}");
    }
}

/// These are fitted in a second or two each; the limit is for machines that are very busy.
#[test]
fn the_laboratory_takes_units_of_unlisted_formats() {
    let mut r = Random(31);
    let options = FitOptions { time: Duration::from_secs(600), ..FitOptions::default() };
    let units: Vec<Unit> = (0..10).filter_map(|_| unit(&mut r)).collect();
    assert!(units.len() > 5);
    for unit in units {
        features(&mut unit.clone()).unwrap();
        let found = fit(&mut unit.clone(), &options).unwrap();
        assert!(found.counterexample.is_none(), "{unit}: {}", found.recipe);
        let model = unit.interface().unit(found.recipe).unwrap();
        for v in Generator::new(&unit, 99).take(5000) {
            let ask = |u: &Unit| v.eval(u).unwrap();
            assert_eq!(ask(&unit), ask(&model), "{unit}: {} on {v:?}", found.recipe);
        }
    }
}
