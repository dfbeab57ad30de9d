//! The laboratory's models: fits and classes.

use gemmulate::Unit;
use gemmulate::accumulate::{Accumulator, Dot, GenericDot, Recipe};
use gemmulate::format::{F16, F32};
use gemmulate::instr::Shape;
use gemmulate::num::Num;
use gemmulate::probe::{BlackBox, Fit, FitOptions, Input, Interface, Sameness, classes, diff, fit, same_function};
use std::collections::BTreeSet;
use std::time::Duration;

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

/// Floors among the numbers of the operands, as accumulators of fixed point have: products alone show them where c is
/// added later, and the low bits of the smallest product where subnormal operands are read as zero.
#[test]
fn fit_finds_floors_among_ordinary_numbers() {
    let of_f16 = |k, rules: &str| format!("m1n1k{k}.f32.f16.f16.f32/dot:{rules}");
    for unit in [
        of_f16(4, "block=4:F=25:c=late:e_zero=emin+104"),
        of_f16(4, "block=4:F=9:c=late:e_zero=emin+107"),
        of_f16(4, "block=4:F=8:c=last:e_zero=emin+100"),
        of_f16(4, "block=4:F=9:out=rne:flush-in=yes:e_zero=emin+104"),
        of_f16(4, "block=4:F=9:c=late:flush-in=yes:e_zero=emin+107"),
        of_f16(16, "block=8:F=23:c=last:out=rne:e_zero=emin+108"),
        of_f16(16, "block=8:F=24:e_zero=emin+150"),
        "m1n1k7.f32.e5m2.f16.f32/dot:block=3:F=12:align=rd:c=late:out=rne:flush-in=yes:e_zero=emin+109".into(),
        "m1n1k8.f32.bf16.bf16.f32/dot:block=8:F=20:c=late:e_zero=emin+30".into(),
    ] {
        let unit = Unit::find(&format!("custom/{unit}")).unwrap();
        let (own, found) = (unit.recipe.unwrap(), fits(&unit).recipe);
        let same = same_function(&found, &own, &unit.interface()).is_some();
        let floor = |recipe: &Recipe| recipe.parameter("e_zero");
        assert!(same || floor(&found) == floor(&own), "{found} for {own}");
    }
    // Where a width keeps no more of the smallest products anyway, no floor is made up.
    for rules in ["block=4:F=9:c=late:e_zero=none", "block=4:F=12:align=rne:c=last"] {
        let found = fits(&Unit::find(&format!("custom/{}", of_f16(4, rules))).unwrap()).recipe;
        assert!(!found.to_string().contains("e_zero=emin+"), "{found} for {rules}");
    }
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

/// A floor three places from that of a known design, which only a lone product just below the smallest result shows:
/// other floors that nothing tells from the model's come first.
#[test]
fn fit_asks_at_the_floors_about_its_own() {
    let rules = "block=1:F=25:align=rd:e_zero=emin-4:subnormal-c=normalised:out=ru:flush-in=yes:negative-zero=yes";
    fits(&Unit::find(&format!("custom/m1n1k2.f16.f16.f16.f16/dot:{rules}")).unwrap());
}

/// All answers are those of exact sums but where a lone product is above half the smallest result by less than the
/// floor cuts: an exact sum has no floor whose neighbours could be asked about.
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
        // Other roundings, and a reach of c that few answers show.
        "m1n1k64.block32.f32.e2m1.e2m1.f32.ue8m0/groups:G=16:F=28:out=rna",
        "m1n1k64.block16.f32.e2m1.e2m1.f32.ue8m0/groups:G=16:F=31:e_zero=emin+10:out=rne",
        "m1n1k32.f32.e5m2fnuz.e5m2fnuz.f32/round-down-grouped:G=16:c-reach=20",
        "m1n1k16.f32.bf16.bf16.f32/round-down-grouped:G=8:F=20:c-reach=22",
        "m1n1k2.f32.tf32.tf32.f32/round-down-grouped:G=2:total=17:nan=ones",
        // Ordinary numbers tell this from no other family.
        "m1n1k32.f32.e4m3.e4m3.f32/fma:nan=ones",
    ] {
        let unit = Unit::find(&format!("custom/{unit}")).unwrap();
        let (found, own) = (fits(&unit).recipe, unit.recipe.unwrap());
        assert!(same_function(&found, &own, &unit.interface()).is_some(), "{found} for {own}");
    }
}

/// CDNA3's three widths and the reach of c, all of them others; and what few sums show of them.
#[test]
fn fit_finds_several_widths_at_once() {
    for unit in [
        "m1n1k16.f32.f16.f16.f32/round-down:G=8:F=20:sum=26:total=26",
        "m1n1k16.f32.bf16.bf16.f32/round-down:G=4:F=28:sum=25:total=24",
        "m1n1k32.f32.e4m3.e4m3.f32/round-down-grouped:G=16:F=20:sum=22:total=25:c-reach=22",
        // A c that products all but undo shows bits of theirs that the total cuts beside others.
        "m1n1k8.f32.f16.f16.f32/round-down:G=8:sum=28:total=26",
        "m1n1k32.f32.e5m2fnuz.e5m2fnuz.f32/round-down-grouped:G=8:sum=29:total=27",
        // The largest sums alone have more bits than results.
        "m1n1k4.f32.e4m3.e4m3.f32/dot:block=2:pattern=even-odd:F=21:align=rne:c=last:out=rd:flush-in=yes:nan=quiet",
        // Halves of two products and of one.
        "m1n1k12.f32.f16.f16.f32/round-down-grouped:G=3:F=19:sum=39:total=19:c-reach=32:special-c=dropped",
        // c counts wherever it is.
        "m1n1k32.f32.e4m3.e4m3.f32/round-down-grouped:G=16:F=26:sum=28:total=30:c-reach=4096",
    ] {
        fits(&Unit::find(&format!("custom/{unit}")).unwrap());
    }
    let of = |widths: &str| Unit::find(&format!("custom/m1n1k8.f32.f16.f16.f32/round-down:G=8:{widths}")).unwrap();
    let verdict = diff(&of("sum=28:total=26"), &of("total=26")).unwrap();
    assert!(!matches!(verdict, Sameness::NotToldApart(_)), "{verdict:?}");
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
    let found = fit(&mut unit, &options).unwrap();
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
