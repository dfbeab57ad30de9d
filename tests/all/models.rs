//! The laboratory's models: fits, classes, and boxes that are no units.

use crate::custom::Random;
use gemmulate::Unit;
use gemmulate::accumulate::{Accumulator, Dot, GenericDot, Recipe};
use gemmulate::format::{E4M3, E5M2, F16, F32};
use gemmulate::instr::Shape;
use gemmulate::num::Num;
use gemmulate::probe::{
    BlackBox, Command, Fit, FitOptions, Input, Interface, Sameness, SummationTree, Verdict, authenticate, classes,
    diff, features, fit, read_tests, same_function,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The same function on `count` of the ten kinds of vectors.
pub(crate) fn same_on_vectors(x: &Unit, y: &Unit, count: usize) -> bool {
    let mut generator = gemmulate::vectors::Generator::new(x, 99);
    let mut v = gemmulate::vectors::Vector::default();
    (0..count).all(|_| {
        generator.next_into(&mut v);
        v.eval(x).unwrap() == v.eval(y).unwrap()
    })
}

/// Fits a unit from its answers alone. The model must be the unit's function: by proof, or on 10^5
/// vectors of the ten kinds and on those that `diff` aims at the two units' edges.
fn fits(unit: &Unit) -> Fit {
    let found = fit(&mut unit.clone(), &FitOptions::default()).unwrap();
    assert_eq!(found.mismatches, 0, "{unit}: {} {:?}", found.recipe, found.counterexample);
    let named = Unit::find(&found.model.name).unwrap();
    assert_eq!(named.recipe, Some(found.recipe));
    let interface = unit.interface();
    if same_function(&found.recipe, &unit.recipe.unwrap(), &interface).is_none() {
        let model = interface.unit(found.recipe).unwrap();
        assert!(same_on_vectors(unit, &model, 100_000), "{unit}: {}", found.recipe);
        let verdict = diff(unit, &model).unwrap();
        assert!(matches!(verdict, Sameness::NotToldApart(_)), "{unit}: {} {verdict:?}", found.recipe);
    }
    found
}

#[test]
fn fit_recovers_one_unit_of_each_family() {
    let units = [
        "ampere/mma.m8n8k4.f64.f64.f64.f64",
        "cdna2/v_mfma_f32_32x32x8f16",
        "cdna1/v_mfma_f32_32x32x8f16",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "cdna3/v_mfma_f32_16x16x32_fp8_bf8",
        "ampere/mma.m8n8k4.f16.f16.f16.f16",
        "hopper/mma.m16n8k16.f32.e4m3.e4m3.f32",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    ];
    units.iter().for_each(|u| drop(fits(&Unit::find(u).unwrap())));
}

/// The last bit at the floor shows F and e_zero together, so that answers there refute each other F alone. Only a tie
/// and one bit 14 places below it, as one product, tell F = 37 from F = 38 with the same last bit.
#[test]
fn fit_tells_a_width_from_one_with_the_same_last_bit_at_the_floor() {
    let name = "dot:block=2:pattern=even-odd:F=37:align=rd:e_zero=emin-6:c=late:out=rne";
    let unit = Unit::find(&format!("custom/m1n1k8.f32.bf16.bf16.f32/{name}")).unwrap();
    let found = fits(&unit);
    assert!(same_function(&found.recipe, &unit.recipe.unwrap(), &unit.interface()).is_some(), "{}", found.recipe);
}

/// Where subnormal results are flushed, only small products whose sum is barely normal show the floor; with a sticky
/// bit it takes two terms below it.
#[test]
fn fit_tells_the_floor_of_units_that_flush_results() {
    for name in [
        "custom/m1n1k8.f32.bf16.bf16.f32/dot:block=3:pattern=even-odd:F=16:normalise=yes:e_zero=zero-c:c=late:out=rne:flush-out=yes",
        "custom/m1n1k12.f32.bf16.bf16.f32/dot:block=12:F=32:sticky=yes:e_zero=zero-c:out=ru:out-bits=20:flush-out=yes",
    ] {
        let unit = Unit::find(name).unwrap();
        let found = fits(&unit);
        assert!(same_function(&found.recipe, &unit.recipe.unwrap(), &unit.interface()).is_some(), "{}", found.recipe);
    }
}

/// A floor three places from that of a known design, which only a lone product just below the smallest result shows: other
/// floors that nothing tells from the model's come first.
#[test]
fn fit_asks_at_the_floors_about_its_own() {
    let rules = "block=1:F=25:align=rd:e_zero=emin-4:subnormal-c=normalised:out=ru:flush-in=yes:negative-zero=yes";
    fits(&Unit::find(&format!("custom/m1n1k2.f16.f16.f16.f16/dot:{rules}")).unwrap());
}

/// All answers are those of exact sums but where a lone product is above half the smallest result by less than the floor
/// cuts: an exact sum has no floor whose neighbours could be asked about.
#[test]
fn fit_asks_exact_sums_about_low_floors() {
    let rules = "block=1:F=36:align=rd:e_zero=emin-5:c=late:out=rne:flush-in=yes:limit=yes:negative-zero=yes:nan=quiet";
    let unit = Unit::find(&format!("custom/m1n1k4.f32.tf32.tf32.f32/dot:{rules}")).unwrap();
    let found = fits(&unit);
    assert!(same_function(&found.recipe, &unit.recipe.unwrap(), &unit.interface()).is_some(), "{}", found.recipe);
}

/// All answers but those at the floor say that the sum is exact and rounded to 14 bits: five parameters would have to
/// change at once, were the other ending not among the starts.
#[test]
fn fit_starts_with_every_ending_that_explains_the_middle_of_the_range() {
    fits(
        &Unit::find("custom/m1n1k1.f32.bf16.bf16.f32/dot:block=1:F=13:normalise=yes:e_zero=emin-2:c=late:out=rne")
            .unwrap(),
    );
}

/// Width, rounding and sticky bit change at once: F = 30 rounded away from zero is nearly F = 29 with a sticky bit.
#[test]
fn fit_takes_a_sticky_bit_for_one_more_place() {
    let name =
        "dot:block=1:F=29:align=rd:sticky=yes:normalise=yes:e_zero=emin-6:zero-products=count:out=rne:flush-in=yes";
    let unit = Unit::find(&format!("custom/m1n1k2.f32.e3m2.e3m2.f32/{name}")).unwrap();
    let Recipe::Generic(found) = fits(&unit).recipe else { panic!("of another family") };
    assert!(found.sticky && found.frac_bits == 29, "{found:?}");
}

/// Families other than the parametrised one have widths, too.
#[test]
fn fit_finds_other_widths_of_every_family_that_aligns() {
    for unit in [
        "m1n1k16.f32.bf16.bf16.f32/round-down:G=8:F=22",
        "m1n1k8.f32.f16.f16.f32/round-down:G=4:F=20",
        "m1n1k16.f32.e4m3fnuz.e4m3fnuz.f32/round-down-grouped:G=16:F=21",
        "m1n1k64.block16.f32.e2m1.e2m1.f32.ue4m3/groups:G=16:F=30",
    ] {
        let unit = Unit::find(&format!("custom/{unit}")).unwrap();
        let (found, own) = (fits(&unit).recipe, unit.recipe.unwrap());
        assert!(same_function(&found, &own, &unit.interface()).is_some(), "{found} for {own}");
    }
}

/// What cuts is a zero product's exponent: F, a sticky bit and that rule together, far from an exact sum.
#[test]
fn fit_finds_what_only_zero_products_cut() {
    let rules = "block=1:F=28:sticky=yes:e_zero=emin-5:zero-products=count:out=rne:flush-in=yes";
    let unit = Unit::find(&format!("custom/m1n1k16.f32.bf16.bf16.f32/dot:{rules}")).unwrap();
    let found = fits(&unit);
    assert!(same_function(&found.recipe, &unit.recipe.unwrap(), &unit.interface()).is_some(), "{}", found.recipe);
    assert!(found.alternatives.iter().all(|a| a.parameter != "zero-products"));
}

/// Other names of the same blocks are among what could as well be.
#[test]
fn fit_names_patterns_that_are_one() {
    let unit = Unit::find("custom/m1n1k8.f32.f16.f16.f32/dot:block=8:pattern=pairs:F=24").unwrap();
    let pattern = |a: &&gemmulate::probe::Alternative| a.parameter == "pattern";
    assert!(fits(&unit).alternatives.iter().find(pattern).is_some_and(|a| a.proof.is_some()));
}

/// A unit outside the family: adds the products of odd k twice.
#[derive(Clone, Debug)]
struct Odd;

impl Accumulator for Odd {
    fn dot_add(&self, dot: &Dot<'_>) -> Num {
        let inner = GenericDot { block: 4, ..GenericDot::default() };
        let mut a: Vec<Num> = dot.a.to_vec();
        a.iter_mut().skip(1).step_by(2).for_each(|x| x.exponent += i32::from(x.is_finite() && !x.is_zero()));
        inner.dot_add(&Dot { a: &a, ..*dot })
    }
}

/// A processor's own chain: its NaN is none that a GPU gives, negative or an operand's.
struct Processor {
    unit: Unit,
    keeps: bool,
}

impl BlackBox for Processor {
    fn interface(&self) -> Interface {
        self.unit.interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let (d, keeps) = (self.unit.d, self.keeps);
        let named = |(code, x): (u64, &Input)| match d.decode(code).is_nan() {
            true if keeps && d.decode(x.c).is_nan() => x.c | 1 << 22,
            true => 0xffc0_0000,
            false => code,
        };
        Ok(self.unit.dot_adds(inputs)?.into_iter().zip(inputs).map(named).collect())
    }
}

#[test]
fn fit_compares_unknown_nans_as_nans() {
    let unit = Unit::find("custom/m1n1k4.f32.f32.f32.f32/fma").unwrap();
    for keeps in [false, true] {
        let mut processor = Processor { unit: unit.clone(), keeps };
        let found = fit(&mut processor, &FitOptions::default()).unwrap();
        assert_eq!((found.mismatches, found.recipe), (0, unit.recipe.unwrap()));
        assert!(found.unknown_nan.is_some());
    }
    assert_eq!(fits(&unit).unknown_nan, None);
}

#[test]
fn fit_gives_a_small_counterexample_for_what_it_cannot_model() {
    let mut unit = Unit::custom(Odd, Shape::new(1, 1, 4), [F16, F16, F32, F32], None).unwrap();
    let options = FitOptions { time: Duration::from_secs(4), ..FitOptions::default() };
    let start = Instant::now();
    let found = fit(&mut unit, &options).unwrap();
    assert!(start.elapsed() < 3 * options.time, "{:?}", start.elapsed());
    assert!(found.mismatches > 0);
    let c = found.counterexample.unwrap();
    assert_ne!(c.answer, c.model);
    let terms = c.input.a.iter().zip(&c.input.b).filter(|(a, b)| **a != 0 && **b != 0).count();
    assert!(terms <= 2, "{}", c.input);
}

/// All units against all: every unit in one class; what a class joins agrees, what it parts differs.
#[test]
fn units_of_one_function_are_one_class() {
    let found = classes(Unit::all()).unwrap();
    let names: BTreeSet<String> = found.classes.iter().flat_map(|c| &c.units).map(|u| u.name.clone()).collect();
    assert_eq!(names, Unit::all().map(|u| u.name.clone()).collect());
    assert_eq!(found.classes.iter().map(|c| c.units.len()).sum::<usize>(), names.len());
    let interface = |n: usize| found.classes[n].units[0].interface();
    for class in &found.classes {
        for other in &class.units[1..] {
            assert_eq!(class.units[0].interface(), other.interface());
            assert!(same_on_vectors(&class.units[0], other, 300), "{} and {other}", class.units[0]);
        }
    }
    // Each pair of equal formats and K once, with an input that parts it.
    let pairs: Vec<(usize, usize)> = found.separations.iter().map(|s| (s.first, s.second)).collect();
    let count = found.classes.len();
    let comparable = (0..count).flat_map(|x| (x + 1..count).map(move |y| (x, y)));
    assert_eq!(pairs, comparable.filter(|&(x, y)| interface(x) == interface(y)).collect::<Vec<_>>());
    for s in &found.separations {
        let (input, x, y) = s.input.as_ref().expect("a separating input");
        let bits = |n: usize| {
            let unit = &found.classes[n].units[0];
            input.eval(unit).unwrap()
        };
        assert_eq!((bits(s.first), bits(s.second)), (*x, *y));
        assert_ne!(x, y);
    }
    let class_of = |name: &str| found.classes.iter().position(|c| c.units.iter().any(|u| u.name == name)).unwrap();
    assert_eq!(
        class_of("volta/mma.m8n8k4.f32.f16.f16.f32"),
        class_of("turing/mma.m8n8k4.f32.f16.f16.f32"),
        "D7: Turing's m8n8k4 is Volta's"
    );
    assert_eq!(class_of("turing/mma.m16n8k8.f32.f16.f16.f32"), class_of("ampere/mma.m16n8k8.f32.f16.f16.f32"));
    assert_ne!(class_of("volta/mma.m8n8k4.f32.f16.f16.f32"), class_of("ampere/mma.m8n8k4.f32.f16.f16.f32"));
    // The same rule at another K: the longest unit's, at the others' K, is their function.
    for group in &found.same_step {
        let longest = *group.iter().max_by_key(|n| interface(**n).k).unwrap();
        for &n in group {
            let unit = interface(n).unit(found.classes[longest].units[0].recipe.unwrap()).unwrap();
            assert!(same_on_vectors(&found.classes[n].units[0], &unit, 300), "{unit}");
        }
        let lengths: BTreeSet<usize> = group.iter().map(|n| interface(*n).k).collect();
        assert_eq!(lengths.len(), group.len(), "{group:?}");
    }
    let same_step = |x: &str, y: &str| {
        let pair = [class_of(x), class_of(y)];
        found.same_step.iter().any(|g| pair.iter().all(|n| g.contains(n)))
    };
    let f16 = "f32.f16.f16.f32";
    assert!(same_step(&format!("ampere/mma.m16n8k8.{f16}"), &format!("ampere/mma.m16n8k16.{f16}")));
    assert!(same_step("ampere/mma.m16n8k4.f32.tf32.tf32.f32", "ampere/mma.m16n8k8.f32.tf32.tf32.f32"));
    assert!(same_step("cdna3/v_mfma_f32_32x32x8_f16", "cdna3/v_mfma_f32_16x16x16_f16"));
    // Blocks of 4 and of 8, or other widths, are other steps.
    assert!(!same_step(&format!("volta/mma.m8n8k4.{f16}"), &format!("ampere/mma.m16n8k8.{f16}")));
    assert!(!same_step(&format!("ampere/mma.m16n8k8.{f16}"), &format!("hopper/mma.m16n8k16.{f16}")));
    assert!(!same_step("ampere/mma.m16n8k4.f32.tf32.tf32.f32", "hopper/mma.m16n8k8.f32.tf32.tf32.f32"));
}

/// Khattak and Mikaitis V-A: FTTN's tests mislead on units without extra bits, or that round up.
#[test]
fn published_tests_are_authenticated() {
    let text = include_str!("../data/fttn.tsv");
    let tests = read_tests(text).unwrap();
    let unit = |recipe: &str| Unit::find(&format!("custom/m1n1k16.f32.f16.f16.f32/{recipe}")).unwrap();
    let (no_extra, rounds_up) = (unit("dot:block=8:F=23:out=rne"), unit("dot:block=8:F=24:out=ru"));
    let wrong = |unit: &Unit| -> Vec<(String, String)> {
        let results = authenticate(&tests, std::slice::from_ref(unit)).unwrap().into_iter();
        let wrong = results.filter(|r| matches!(r.verdict, Verdict::Wrong(_)));
        wrong.map(|r| (r.property, r.conclusion.unwrap().to_string())).collect()
    };
    let first = wrong(&no_extra);
    assert!(first.iter().any(|(p, c)| p.starts_with("block") && c == "block<=1"), "{first:?}");
    assert!(first.iter().any(|(p, c)| p.starts_with("final rounding") && c == "out=rz|rd"), "{first:?}");
    assert!(!first.iter().any(|(p, _)| p.starts_with("extra bits")), "{first:?}");
    let second = wrong(&rounds_up);
    assert!(second.iter().any(|(_, c)| c == "block>=16"), "{second:?}");
    assert!(second.iter().all(|(p, _)| p.starts_with("block")), "{second:?}");
    let ampere = wrong(&unit("dot:block=8:F=24"));
    assert!(ampere.is_empty(), "{ampere:?}");
}

/// Every kind of verdict, and files that cannot be read.
#[test]
fn conclusions_are_judged_by_the_units_parameters() {
    let unit = Unit::find("custom/m1n1k4.f32.f16.f16.f32/dot:block=8:F=23:sticky=yes").unwrap();
    let verdict = |unit: &Unit, line: &str| {
        let tests = read_tests(line).unwrap();
        authenticate(&tests, std::slice::from_ref(unit)).unwrap().remove(0).verdict
    };
    let one = |conclusion: &str| verdict(&unit, &format!("p\t1 x 1\t0\t1 => {conclusion}"));
    for right in ["sticky=yes", "sticky=no|true", "block=4", "out=RZ", "out=rd|rz", "extra-bits<=0", "F>=23", "c=with"]
    {
        assert_eq!(one(right), Verdict::Right, "{right}");
    }
    // Both conclusions from one result; and nothing about widths that exact sums do not have.
    let two = read_tests("p\t1 x 1\t0\t1 => F<=30; 1 => F<=2").unwrap();
    let two: Vec<Verdict> =
        authenticate(&two, std::slice::from_ref(&unit)).unwrap().into_iter().map(|x| x.verdict).collect();
    assert_eq!(two, [Verdict::Right, Verdict::Wrong("F=23".into())]);
    let exact = Unit::find("cdna1/v_mfma_f32_32x32x8f16").unwrap();
    for claim in ["F=25", "F<=25", "align=rz", "extra-bits=2"] {
        let verdict = verdict(&exact, &format!("p\t1 x 1\t0\t1 => {claim}"));
        assert!(matches!(&verdict, Verdict::NotChecked(why) if why.contains("exact")), "{claim}: {verdict:?}");
    }
    for (wrong, why) in [("sticky=no", "sticky=yes"), ("block>=5", "block=4"), ("extra-bits=1", "extra-bits=0")] {
        assert_eq!(one(wrong), Verdict::Wrong(why.into()), "{wrong}");
    }
    assert!(matches!(one("G=4"), Verdict::NotChecked(_)));
    assert!(matches!(one("it is a tensor core"), Verdict::NotChecked(_)));
    assert_eq!(verdict(&unit, "p\t1 x 1\t0\t2 => block=4"), Verdict::Unforeseen);
    // Special values count, and zeros are equal.
    assert_eq!(verdict(&unit, "p\tInf x 1\t0\tinf => block=4"), Verdict::Right);
    assert_eq!(verdict(&unit, "p\tinf x 1\t-inf\tnan => block=4"), Verdict::Right);
    assert_eq!(verdict(&unit, "p\t0 x 1\t0\t-0 => block=4"), Verdict::Right);
    let left_out = |unit: &Unit, line: &str| matches!(verdict(unit, line), Verdict::LeftOut(_));
    assert!(left_out(&unit, "p\t0 x 0, 0 x 0, 0 x 0, 0 x 0, 1 x 1\t0\t1 => block=4"));
    assert!(left_out(&unit, "p\t2^-25 x 1\t0\t1 => block=4"));
    let e4m3 = Unit::find("custom/m1n1k4.f32.e4m3.e4m3.f32/pairwise:G=4").unwrap();
    assert!(left_out(&e4m3, "p\tinf x 1\t0\tinf => G=4"));
    assert_eq!(verdict(&e4m3, "p\tnan x 1\t0\tnan => G=4"), Verdict::Right);
    for bad in [
        "a line",
        "p\t1 * 1\t0\t1 => block=4",
        "p\t1 x y\t0\t1 => block=4",
        "p\t1 x 1\t\t1 => block=4",
        "p\t1 x 1\t1+2^-60\t1 => block=4",
        "p\t1 x 1\t0\t1: block=4",
        "p\t1 x 1\t0\t1 => blocks=4",
        "p\t1 x 1\t0\t1 => out=truncate",
        "p\t1 x 1\t0\t1 => block>=many",
        "p\t1 x 1\t0\t1 => out>=3",
    ] {
        assert!(read_tests(bad).is_err(), "{bad}");
    }
}

/// Boxes that are no units: the same answer always, another one each time, parts of the question.
#[derive(Debug)]
enum Strange {
    Constant(u64),
    Erratic(Random),
    Echo,
}

#[derive(Debug)]
struct NoUnit(Strange, Interface);

impl BlackBox for NoUnit {
    fn interface(&self) -> Interface {
        self.1
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mask = self.1.d.code_mask();
        let answer = |x: &Input| match &mut self.0 {
            Strange::Constant(d) => *d,
            Strange::Erratic(r) => r.below(u64::MAX),
            Strange::Echo => x.c ^ x.a.iter().fold(0u64, |sum, a| sum.rotate_left(3) ^ a),
        };
        Ok(inputs.iter().map(answer).map(|d| d & mask).collect())
    }
}

/// A box that leaves its last answer out.
#[derive(Debug)]
struct Short(Unit);

impl BlackBox for Short {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mut answers = self.0.dot_adds(inputs)?;
        answers.pop();
        Ok(answers)
    }
}

#[test]
fn a_box_with_too_few_answers_is_an_error() {
    for name in ["volta/mma.m8n8k4.f32.f16.f16.f32", "custom/m1n1k2.f32.e2m1.e2m1.f32/dot:block=1:F=30"] {
        let mut short = Short(Unit::find(name).unwrap());
        let options = FitOptions { time: Duration::from_secs(1), ..FitOptions::default() };
        let errors = [
            features(&mut short).unwrap_err(),
            SummationTree::find(&mut short).unwrap_err(),
            fit(&mut short, &options).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("as many as the inputs"), "{name}: {error}");
        }
    }
}

/// Whatever a box answers, nothing panics, and no model is claimed for what no unit computes.
#[test]
fn boxes_that_are_no_units_are_survived() {
    use gemmulate::format::{BF16, E2M1, UE8M0};
    use gemmulate::instr::ScaleRule;
    let options = FitOptions { time: Duration::from_millis(200), vectors: 2000, ..FitOptions::default() };
    let scale = Some(ScaleRule { format: UE8M0, block: 2 });
    let interfaces = [
        Interface { k: 1, a: F16, b: F16, c: F32, d: F32, scale: None },
        Interface { k: 3, a: BF16, b: E5M2, c: F16, d: F32, scale: None },
        Interface { k: 4, a: E2M1, b: E4M3, c: F32, d: F16, scale },
        Interface { k: 2, a: E2M1, b: E2M1, c: E2M1, d: E2M1, scale: None },
    ];
    for interface in interfaces {
        for d in [0, 1, interface.d.code_mask(), interface.d.max_code(true)] {
            let _ = features(&mut NoUnit(Strange::Constant(d), interface)).unwrap();
            // What 1 x 1 is not 1 for has no model, and none is looked for.
            let constant = fit(&mut NoUnit(Strange::Constant(d), interface), &options).unwrap();
            assert!(constant.does_not_sum.is_some() && constant.mismatches > 0, "{interface:?} {d:x}");
        }
        for seed in 0..3 {
            let _ = features(&mut NoUnit(Strange::Erratic(Random(seed)), interface)).unwrap();
        }
        let erratic = fit(&mut NoUnit(Strange::Erratic(Random(7)), interface), &options).unwrap_err();
        assert!(matches!(erratic, gemmulate::Error::Inconsistent { .. }), "{interface:?}: {erratic}");
        let echo = fit(&mut NoUnit(Strange::Echo, interface), &options).unwrap();
        let _ = features(&mut NoUnit(Strange::Echo, interface)).unwrap();
        assert!(echo.mismatches > 0, "{interface:?}");
        let c = echo.counterexample.unwrap();
        assert_ne!(c.answer, c.model);
    }
}

/// A unit that gives one answer in `period` with its last bit flipped.
#[derive(Debug)]
struct Flaky {
    unit: Unit,
    period: usize,
    asked: usize,
}

impl BlackBox for Flaky {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.unit)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mut answers = self.unit.dot_adds(inputs)?;
        for d in &mut answers {
            self.asked += 1;
            *d ^= u64::from(self.asked.is_multiple_of(self.period));
        }
        Ok(answers)
    }
}

/// A box that now and then answers otherwise is told with the input and both answers, one of them the
/// unit's own: where it errs among the first answers, while a model is falsified, or never again.
#[test]
fn a_box_that_is_no_function_is_said_to_be_none() {
    for (name, period) in [
        ("volta/mma.m8n8k4.f32.f16.f16.f32", 997),
        ("volta/mma.m8n8k4.f32.f16.f16.f32", 5003),
        ("cdna2/v_mfma_f32_32x32x8f16", 40_009),
        ("hopper/mma.m16n8k16.f16.f16.f16.f16", 100_003),
    ] {
        let unit = Unit::find(name).unwrap();
        let error = fit(&mut Flaky { unit: unit.clone(), period, asked: 0 }, &FitOptions::default()).unwrap_err();
        let gemmulate::Error::Inconsistent { input, first, again } = &error else { panic!("{name}: {error}") };
        let own = unit.dot_add_bits(&input.a, &input.b, input.c).unwrap();
        assert!(first != again && [*first, *again].contains(&own), "{name}, one in {period}: {error}");
        let said = error.to_string();
        assert!(said.contains(&format!("`{input}`")) && said.contains(&format!("{first:x}")), "{said}");
    }
}

fn command(text: &str, timeout: f32) -> gemmulate::Error {
    let interface = Interface { k: 2, a: F16, b: F16, c: F32, d: F32, scale: None };
    let mut target = match Command::start(text, interface, Duration::from_secs_f32(timeout)) {
        Ok(target) => target,
        Err(error) => return error,
    };
    features(&mut target).unwrap_err()
}

#[cfg(unix)]
#[test]
fn bad_commands_give_clear_errors() {
    let cases = [
        ("sleep 100", 0.3, "gave no answer for 0.3 s"),
        ("exit 3", 20.0, "exit status: 3"),
        ("echo bad news >&2; exit 1", 20.0, "it said: bad news"),
        // Noticed before the first question, or as its answer.
        ("yes hello", 20.0, "`hello`"),
        ("yes 123456789", 20.0, "`123456789`"),
        ("head -c 100000 /dev/zero; sleep 100", 20.0, "more than 256 bytes"),
        ("yes 0", 20.0, "unasked"),
        ("/no/such/program", 20.0, "127"),
    ];
    for (text, timeout, message) in cases {
        let error = command(text, timeout).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}
