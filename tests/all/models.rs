//! The laboratory's models: fits, differences, classes, and boxes that are no units.

use crate::custom::{self, Random};
use gemmulate::Unit;
use gemmulate::accumulate::{Accumulator, CPosition, Dot, Floor, GenericDot, Recipe, ZeroProducts};
use gemmulate::format::{E4M3, E5M2, F16, F32, FormatSpec};
use gemmulate::instr::Shape;
use gemmulate::num::Num;
use gemmulate::probe::{
    BlackBox, Command, Fit, FitOptions, Input, Interface, Sameness, authenticate, canonical, classes, diff, features,
    fit, read_tests, same_function,
};
use gemmulate::round::Rounding;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The same function on `count` of the ten kinds of vectors.
fn same_on_vectors(x: &Unit, y: &Unit, count: usize) -> bool {
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

/// The last bit at the floor shows F and e_zero together, so that answers there refute each other F alone. Only a tie and
/// one bit 14 places below it, as one product, tell F = 37 from F = 38 with the same last bit.
#[test]
fn fit_tells_a_width_from_one_with_the_same_last_bit_at_the_floor() {
    let name = "dot:block=2:pattern=even-odd:F=37:align=rd:e_zero=emin-6:c=late:out=rne";
    let unit = Unit::find(&format!("custom/m1n1k8.f32.bf16.bf16.f32/{name}")).unwrap();
    let found = fits(&unit);
    assert!(same_function(&found.recipe, &unit.recipe.unwrap(), &unit.interface()).is_some(), "{}", found.recipe);
}

/// Where subnormal results are flushed, only small products whose sum is barely normal show the floor; with a sticky bit it
/// takes two terms below it.
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

/// All answers but those at the floor say that the sum is exact and rounded to 14 bits: five parameters would have to change
/// at once, were the other ending not among the starts.
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

/// A unit of each family and other values of every one of its parameters; `true` where the unit's
/// formats hide the difference.
type Flips = &'static [(&'static str, &'static str, bool)];
const FLIPS: [(&str, &str, Flips); 29] = [
    (
        "custom/m1n1k8.f32.bf16.bf16.f32/dot:block=4:F=24",
        "dot",
        &[
            ("block", "8", false),
            ("pattern", "even-odd", false),
            ("exact", "yes", false),
            ("F", "25", false),
            ("align", "rd", false),
            ("sticky", "yes", false),
            ("normalise", "yes", false),
            ("e_zero", "emin-6", false),
            ("zero-products", "count", false),
            ("subnormal-c", "normalised", false),
            ("c", "late", false),
            ("out", "rne", false),
            ("out-bits", "20", false),
            ("via-f16", "yes", false),
            ("flush-in", "yes", false),
            ("flush-out", "yes", false),
            ("limit", "yes", false),
            ("negative-zero", "yes", false),
            ("nan", "quiet", false),
        ],
    ),
    // f16 products reach neither 2^128 nor f32's floor, and are f16 numbers already.
    (
        "custom/m1n1k8.f32.f16.f16.f32/dot:block=4:F=24",
        "dot",
        &[("e_zero", "emin-6", true), ("limit", "yes", true), ("via-f16", "yes", true), ("F", "40", false)],
    ),
    // Of two terms one is cut, and the sticky bit stands for it; a lone product is cut as it is rounded.
    ("custom/m1n1k8.f32.tf32.tf32.f32/dot:block=1:F=38:sticky=yes", "dot", &[("F", "39", true), ("F", "30", false)]),
    (
        "custom/m1n1k8.f32.f16.f16.f32/dot:block=1:F=18:c=late:out-bits=17:flush-in=yes",
        "dot",
        &[("F", "19", true), ("F", "16", false), ("align", "rd", false)],
    ),
    // 17 * 241 = 2^12 + 1 last bits: a product just beside a tie.
    (
        "custom/m1n1k8.f32.bf16.bf16.f32/dot:block=1:F=36:align=rne:normalise=yes:c=last:out=rne",
        "dot",
        &[("F", "37", false)],
    ),
    // Only what an earlier block left, 2^-24, beside a product of 2 or more times its exponent's power.
    (
        "custom/m1n1k2.f16.f16.f16.f16/dot:block=1:F=35:normalise=yes:e_zero=zero-c:c=last:out=ru",
        "dot",
        &[("normalise", "no", false)],
    ),
    // 5 * 2^-24 less 2^-40 as one product: no other has so small a bit where subnormal operands are read as zero.
    (
        "custom/m1n1k32.f16.f16.f16.f16/dot:block=22:F=19:normalise=yes:e_zero=emin-6:out=rd:flush-in=yes",
        "dot",
        &[("e_zero", "emin-7", false)],
    ),
    // c is a tie and what is behind its cut; the product, of two subnormal numbers or none, is the power of two.
    (
        "custom/m1n1k1.f32.e2m1.e4m3.f32/dot:block=1:F=31:normalise=yes:out=rne:out-bits=18",
        "dot",
        &[("normalise", "no", false), ("align", "rne", false)],
    ),
    // What is left of two products that cancel must be a normal number, and far below them.
    (
        "custom/m1n1k32.f16.e5m2.e5m2.f16/dot:block=2:pattern=pairs:F=37:sticky=yes:c=last:out=rne:flush-out=yes",
        "dot",
        &[("exact", "yes", false), ("F", "38", false)],
    ),
    // A product of zero counts, and none has an exponent below the floor.
    (
        "custom/m1n1k16.f32.e3m2.e3m2.f32/dot:block=16:F=22:align=rne:e_zero=emin-6:zero-products=count",
        "dot",
        &[("e_zero", "emin+18", true), ("zero-products", "ignored", false)],
    ),
    // At most 4 * 1.75^2 + 2 = 14.25 times the largest exponent's power.
    (
        "custom/m1n1k4.f32.e5m2.e5m2.f32/dot:block=4:F=13:align=rne:out=rne",
        "dot",
        &[("out-bits", "16", true), ("out-bits", "15", false)],
    ),
    // 16 products below the floor are subnormal, and flushed.
    (
        "custom/m1n1k16.f32.bf16.bf16.f32/dot:block=16:F=22:align=rne:e_zero=emin-5:out=ru:flush-out=yes",
        "dot",
        &[("e_zero", "emin-13", true), ("e_zero", "zero-c", false)],
    ),
    // One of two terms is cut where it is too far below the other to show.
    (
        "custom/m1n1k12.f16.f16.f16.f16/dot:block=1:F=40:align=rne:sticky=yes:zero-products=count:out=rne:flush-in=yes",
        "dot",
        &[("F", "41", true), ("exact", "yes", true), ("align", "rd", true), ("sticky", "no", true), ("F", "24", false)],
    ),
    // Of two terms one is cut in the direction in which the sum is rounded.
    (
        "custom/m1n1k2.f32.e4m3.e4m3.f32/dot:block=2:F=33:align=rd:e_zero=none:c=last:out=rd",
        "dot",
        &[("F", "31", true), ("sticky", "yes", true), ("F", "20", false)],
    ),
    // A tie among subnormal results of fewer bits, and the last bit above the floor's cut.
    (
        "custom/m1n1k32.f32.bf16.bf16.f32/dot:block=4:F=16:e_zero=emin-6:out=rne:out-bits=13:flush-in=yes",
        "dot",
        &[("e_zero", "emin-5", false), ("e_zero", "emin-7", false)],
    ),
    // A product of 2 or more times its exponent's power, and c's last bit that is kept.
    ("custom/m1n1k1.f32.f16.f16.f32/dot:block=1:F=22:align=rne:e_zero=none", "dot", &[("out", "rne", false)]),
    // Products of 2^-128 whose sum is normal.
    (
        "custom/m1n1k16.f32.bf16.bf16.f32/dot:block=4:F=15:normalise=yes:e_zero=emin-1:subnormal-c=normalised:out=rd:flush-out=yes",
        "dot",
        &[("e_zero", "emin-5", false), ("subnormal-c", "stored", false)],
    ),
    // Only a late c can leave a subnormal result.
    (
        "custom/m1n1k16.f16.e2m1.e4m3.f16/dot:block=13:F=12:sticky=yes:normalise=yes:c=last:out=rne:flush-in=yes",
        "dot",
        &[("flush-out", "yes", false), ("normalise", "no", false)],
    ),
    ("ampere/mma.m8n8k4.f64.f64.f64.f64", "fma", &[("round", "rz", false), ("nan", "ones", false)]),
    ("cdna2/v_mfma_f32_32x32x8f16", "pairwise", &[("flush-out", "no", true)]),
    (
        "cdna2/v_mfma_f32_32x32x8bf16_1k",
        "pairwise",
        &[("G", "2", false), ("flush-in", "no", false), ("flush-out", "no", false), ("nan", "ones", false)],
    ),
    (
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "round-down",
        &[
            ("G", "8", false),
            ("F", "25", false),
            ("sum", "24", false),
            ("total", "full", false),
            ("overflow-beside-c", "c-wins", false),
            ("nan", "ones", false),
        ],
    ),
    (
        "cdna3/v_mfma_f32_32x32x8_f16",
        "round-down",
        &[
            ("overflow-beside-c", "c-wins", true),
            ("sum", "31", false),
            ("sum", "33", true),
            ("sum", "40", true),
            ("total", "30", false),
            ("total", "32", false),
        ],
    ),
    (
        "cdna3/v_mfma_f32_16x16x32_fp8_bf8",
        "round-down-grouped",
        &[("overflow-beside-c", "c-wins", true), ("special-c", "dropped", true)],
    ),
    (
        "cdna3/v_mfma_f32_16x16x32_bf8_bf8",
        "round-down-grouped",
        &[
            ("G", "32", false),
            ("F", "25", false),
            ("sum", "25", false),
            ("sum", "31", false),
            ("sum", "33", true),
            ("total", "20", false),
            ("total", "30", false),
            ("overflow-beside-c", "c-wins", true),
            ("c-reach", "24", false),
            ("special-c", "dropped", false),
            ("nan", "ones", false),
        ],
    ),
    (
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue8m0",
        "groups",
        &[
            ("G", "32", false),
            ("F", "34", false),
            ("e_zero", "emin-12", false),
            ("out", "rne", false),
            ("nan", "quiet", false),
        ],
    ),
    ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", "groups", &[("F", "34", false), ("G", "32", false)]),
    (
        "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e2m1.f32.ue8m0",
        "dot",
        &[("F", "24", false), ("block", "16", false)],
    ),
    ("ampere/mma.m8n8k4.f16.f16.f16.f16", "software", &[("nan", "quiet", false)]),
];

/// The parameters that a family has, from the message about one that it has not.
fn parameters(family: &str) -> Vec<String> {
    let message = format!("{family}:?=1").parse::<Recipe>().unwrap_err().to_string();
    let (_, names) = message.split_once("none of ").expect("the message lists them");
    names.split(", ").map(|n| n.trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned()).collect()
}

/// One parameter changed: `diff` finds an input, or says why it is the same function.
#[test]
fn a_flipped_parameter_is_found_or_explained() {
    let mut flipped: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (unit, family, flips) in FLIPS {
        let unit = Unit::find(unit).unwrap();
        for &(name, value, same) in flips {
            let before = unit.recipe.unwrap().to_string();
            let kept: Vec<&str> = before.split(':').filter(|p| !p.starts_with(&format!("{name}="))).collect();
            let text = format!("{}:{name}={value}", kept.join(":"));
            assert!(before.starts_with(family), "{before}");
            let other = unit.with_accumulator(text.parse::<Recipe>().unwrap()).unwrap();
            assert_ne!(unit.recipe, other.recipe, "{text}");
            flipped.entry(family).or_default().insert(name.into());
            match diff(&unit, &other).unwrap() {
                Sameness::Same(reasons) => {
                    assert!(same && reasons.iter().any(|r| r.starts_with(name)), "{unit} {text}: {reasons:?}");
                }
                Sameness::Different(found) => {
                    assert!(!same && found.first != found.second, "{unit} {text}");
                    assert_minimal(&unit, &other, &found.input);
                }
                other => panic!("{unit} {text}: {other:?}"),
            }
        }
    }
    for (family, names) in flipped {
        assert_eq!(names, parameters(family).into_iter().collect(), "{family}: every parameter is flipped");
    }
}

/// Everything that removing one term, dropping one significand's last bit or moving one exponent
/// toward the others gives.
fn reductions(input: &Input, i: &Interface) -> Vec<Input> {
    let mut all = Vec::new();
    for k in 0..i.k {
        let mut x = input.clone();
        (x.a[k], x.b[k]) = (0, 0);
        all.push(x);
        all.extend(simpler(&i.a, input.a[k]).map(|code| with(input, |x| x.a[k] = code)));
        all.extend(simpler(&i.b, input.b[k]).map(|code| with(input, |x| x.b[k] = code)));
    }
    all.push(Input { c: 0, ..input.clone() });
    all.extend(simpler(&i.c, input.c).map(|code| with(input, |x| x.c = code)));
    if let Some(rule) = i.scale {
        for n in 0..i.scales() {
            all.extend(simpler(&rule.format, input.scale_a[n]).map(|code| with(input, |x| x.scale_a[n] = code)));
            all.extend(simpler(&rule.format, input.scale_b[n]).map(|code| with(input, |x| x.scale_b[n] = code)));
        }
    }
    let (_, bits, span) = size(input, i);
    all.retain(|x| {
        size(x, i).0 < size(input, i).0 || size(x, i).1 < bits || (size(x, i).1 == bits && size(x, i).2 < span)
    });
    all
}

fn with(input: &Input, change: impl FnOnce(&mut Input)) -> Input {
    let mut x = input.clone();
    change(&mut x);
    x
}

/// The code without its last significand bit, and with its exponent one up or down.
fn simpler(f: &FormatSpec, code: u64) -> impl Iterator<Item = u64> {
    let finite = f.decode(code).is_finite() && !f.decode(code).is_zero();
    let fraction = code & ((1 << f.fraction_bits) - 1);
    let step = 1 << f.fraction_bits;
    let codes = [code & !(fraction & fraction.wrapping_neg()), code.wrapping_add(step), code.wrapping_sub(step)];
    let f = *f;
    codes.into_iter().filter(move |&c| finite && c & !f.code_mask() == 0 && f.decode(c).is_finite())
}

/// Non-zero terms, significand bits, span of exponents: what a difference is minimal in.
fn size(input: &Input, i: &Interface) -> (usize, u32, i32) {
    let bits = |s: u64| if s == 0 { 0 } else { 64 - s.leading_zeros() - s.trailing_zeros() };
    let (mut total, mut exponents, mut blocks) = (0, Vec::new(), BTreeSet::new());
    for k in 0..i.k {
        let (x, y) = (i.a.decode(input.a[k]), i.b.decode(input.b[k]));
        if !x.is_zero() && !y.is_zero() {
            let scales = i.scale.map(|rule| {
                let n = k / rule.block;
                (n, [input.scale_a[n], input.scale_b[n]].map(|code| rule.format.decode(code)))
            });
            let scaled: i32 = scales.iter().flat_map(|(_, scales)| scales).map(|s| s.exponent).sum();
            let first_of_block = scales.filter(|(n, _)| blocks.insert(*n));
            total += first_of_block.iter().flat_map(|(_, s)| s).map(|s| bits(s.significand).max(1) - 1).sum::<u32>();
            total += bits(x.significand) + bits(y.significand);
            exponents.push(x.exponent + y.exponent + scaled);
        }
    }
    let c = i.c.decode(input.c);
    if !c.is_zero() {
        total += bits(c.significand);
        exponents.push(c.exponent);
    }
    let span = exponents.iter().max().unwrap_or(&0) - exponents.iter().min().unwrap_or(&0);
    (exponents.len(), total, span)
}

/// Fails if two units differ on anything that one removal or shortening makes of an input.
fn assert_minimal(one: &Unit, other: &Unit, input: &Input) {
    let bits = |u: &Unit, x: &Input| u.dot_add_scaled_bits(&x.a, &x.b, x.c, &x.scale_a, &x.scale_b).unwrap();
    for smaller in reductions(input, &one.interface()) {
        let (x, y) = (bits(one, &smaller), bits(other, &smaller));
        assert_eq!(x, y, "{one} and {other}: {input} can be {smaller}");
    }
}

/// Nothing can be taken from what `diff` finds without the units agreeing.
#[test]
fn differences_are_minimal() {
    let mut r = Random(11);
    let mut told_apart = 0;
    for _ in 0..24 {
        let one = custom::unit(&mut r);
        let Recipe::Generic(x) = one.recipe.unwrap() else { unreachable!() };
        let Some(Recipe::Generic(y)) = custom::unit(&mut r).recipe else { unreachable!() };
        // One parameter of another unit.
        let changed = [
            GenericDot { frac_bits: y.frac_bits, ..x },
            GenericDot { alignment: y.alignment, sticky: y.sticky, ..x },
            GenericDot { output_rounding: y.output_rounding, ..x },
            GenericDot { c: y.c, ..x },
        ];
        let other = one.with_accumulator(changed[r.below(4) as usize]).unwrap();
        let Sameness::Different(found) = diff(&one, &other).unwrap() else { continue };
        told_apart += 1;
        assert_minimal(&one, &other, &found.input);
    }
    assert!(told_apart > 8, "{told_apart}");
}

/// What `canonical` calls one function gives the same bits.
#[test]
fn canonical_forms_are_the_same_function() {
    let mut r = Random(5);
    for _ in 0..150 {
        let unit = custom::unit(&mut r);
        let (plain, _) = canonical(&unit.recipe.unwrap(), &unit.interface());
        let other = unit.with_accumulator(plain).unwrap();
        assert!(same_on_vectors(&unit, &other, 700), "{unit}: {plain}");
    }
}

/// Where `canonical` says that what alignment cuts off decides no rounding, it decides none: one to three terms of every size.
#[test]
fn cuts_that_decide_no_rounding_change_no_bit() {
    const CLAIMS: usize = 300;
    let mut r = Random(11);
    let mut claims = 0;
    for _ in 0..100_000 {
        if claims == CLAIMS {
            break;
        }
        let formats = ["e2m1.e2m1", "e4m3.e2m1", "e4m3.e4m3", "e5m2.e5m2"][r.below(4) as usize];
        let rounding = |r: &mut Random| {
            [Rounding::TowardZero, Rounding::Down, Rounding::NearestEven, Rounding::Up][r.below(4) as usize]
        };
        let k = 1 + r.below(2) as usize;
        let x = GenericDot {
            block: 1 + r.below(2) as usize,
            frac_bits: 2 + r.below(38) as u32,
            alignment: rounding(&mut r),
            sticky: r.below(2) == 0,
            output_rounding: rounding(&mut r),
            output_bits: (r.below(2) == 0).then_some(2 + r.below(9) as u32),
            floor: [Floor::None, Floor::BelowEmin(r.below(30) as i32)][r.below(2) as usize],
            c: [CPosition::With, CPosition::Late, CPosition::Last][r.below(3) as usize],
            normalise_products: r.below(3) == 0,
            flush_inputs: r.below(2) == 0,
            flush_results: r.below(4) == 0,
            zero_products: [ZeroProducts::Ignored, ZeroProducts::OwnExponent][r.below(2) as usize],
            ..GenericDot::default()
        };
        let d = ["f16", "e5m2", "e4m3"][r.below(3) as usize];
        let unit = Unit::find(&format!("custom/m1n1k{k}.{d}.{formats}.{d}/dot")).unwrap().with_accumulator(x).unwrap();
        let (plain, why) = canonical(&Recipe::Generic(x), &unit.interface());
        if !why.iter().any(|(_, why)| why.ends_with("changes no rounding of the result")) {
            continue;
        }
        claims += 1;
        let other = unit.with_accumulator(plain).unwrap();
        for _ in 0..10_000 {
            let [a, b] = [unit.a, unit.b].map(|f| [(); 2].map(|()| r.below(1 << f.storage_bits)));
            let c = r.below(1 << unit.c.storage_bits);
            let bits = |u: &Unit| u.dot_add_bits(&a[..k], &b[..k], c).unwrap();
            assert_eq!(bits(&unit), bits(&other), "{unit} and {plain}: {a:x?} {b:x?} {c:x}");
        }
    }
    assert_eq!(claims, CLAIMS);
}

/// IEEE sums of narrow products are exact: one function with the generic family's, whatever flushing says.
#[test]
fn canonical_pairwise_sums_are_the_same_function() {
    let mut joined = 0;
    for (operands, d) in [("e2m1.e2m1", "f32"), ("e3m2.e2m3", "f16"), ("e2m1.e4m3", "f16"), ("e5m2.e2m1", "f32")] {
        for (k, group) in [(1, 1), (4, 1), (4, 2), (7, 3), (8, 8)] {
            for flush in ["flush-in=yes:flush-out=yes", "flush-in=yes:flush-out=no", "flush-in=no:flush-out=yes"] {
                let unit =
                    Unit::find(&format!("custom/m1n1k{k}.{d}.{operands}.{d}/pairwise:G={group}:{flush}")).unwrap();
                let (plain, _) = canonical(&unit.recipe.unwrap(), &unit.interface());
                joined += u32::from(matches!(plain, Recipe::Generic(_)));
                assert!(same_on_vectors(&unit, &unit.with_accumulator(plain).unwrap(), 500), "{unit}: {plain}");
            }
        }
    }
    assert_eq!(joined, 18);
}

/// Drawn units whose fit ended with another family: the same function, and why.
#[test]
fn exact_sums_of_two_families_are_known_to_be_one_function() {
    for (interface, first, second) in [
        (
            "m1n1k64.f32.e3m2.e3m2.f32",
            "dot:block=1:F=38:e_zero=emin-6:c=late:out=ru:flush-in=yes:nan=quiet",
            "pairwise:G=1",
        ),
        (
            "m1n1k8.f16.e2m1.e2m1.f16",
            "dot:block=2:F=22:zero-products=count:c=late:out-bits=8:via-f16=yes:flush-in=yes:negative-zero=yes",
            "pairwise:G=2:nan=ones",
        ),
        (
            "m1n1k8.f32.e3m2.e3m2.f32",
            "dot:block=8:pattern=pairs:exact=yes:F=33:align=rne:normalise=yes:c=last:out=ru:via-f16=yes:flush-in=yes:\
             flush-out=yes:nan=quiet",
            "pairwise:G=8",
        ),
        (
            "m1n1k8.f32.e2m1.e2m1.f32",
            "dot:block=8:F=33:align=rne:e_zero=none:zero-products=count:c=late:out=rne:flush-in=yes:nan=quiet",
            "pairwise:G=8",
        ),
        (
            "m1n1k8.f32.e2m1.e2m1.f32",
            "dot:block=2:pattern=pairs:F=40:c=last:out=ru:flush-in=yes:nan=quiet",
            "pairwise:G=8",
        ),
        (
            "m1n1k1.f16.e2m1.e2m1.f16",
            "dot:block=1:F=32:align=rne:sticky=yes:e_zero=zero-c:c=last:out=rne:flush-in=yes:limit=yes:nan=quiet",
            "pairwise:G=1",
        ),
        (
            "m1n1k64.f32.e2m1.e2m1.f32",
            "dot:block=2:F=35:e_zero=emin-5:c=last:via-f16=yes:flush-in=yes:limit=yes",
            "pairwise:G=64:nan=ones",
        ),
    ] {
        let [first, second] =
            [first, second].map(|recipe| Unit::find(&format!("custom/{interface}/{recipe}")).unwrap());
        let why = same_function(&first.recipe.unwrap(), &second.recipe.unwrap(), &first.interface());
        assert!(why.is_some_and(|why| why.iter().any(|w| w.starts_with("family"))), "{first} and {second}");
        assert!(same_on_vectors(&first, &second, 1000), "{first} and {second}");
    }
}

/// Lone products, and two terms of which a sticky bit stands for what one loses: F and the floor show only together, in the
/// last bit kept there. One F more or less, or a floor one off, is another function.
#[test]
fn a_floor_and_a_width_that_show_only_together_are_one_function() {
    let mut r = Random(9);
    for (interface, rules, widths, told) in [
        ("m1n1k2.f32.tf32.tf32.f32", "block=1:c=late:out=ru:out-bits=21", [(38, 6), (37, 7), (29, 15)], true),
        ("m1n1k1.f32.bf16.bf16.f32", "block=1:align=rd:c=last:out=rd", [(15, 0), (35, -20), (25, -10)], true),
        ("m1n1k1.f32.bf16.bf16.f32", "block=1:align=rne:c=last:out=rne", [(20, 3), (39, -16), (15, 8)], true),
        (
            "m1n1k2.f32.bf16.bf16.f32",
            "block=2:sticky=yes:normalise=yes:c=late:out-bits=19",
            [(22, -8), (30, -16), (46, -32)],
            true,
        ),
        ("m1n1k1.f16.e5m2.e5m2.f16", "block=1:align=rd:c=late:out=rd", [(12, 4), (20, -4), (30, -14)], false),
    ] {
        let unit = |(f, floor): (i32, i32)| {
            let floor = if floor < 0 { format!("emin+{}", -floor) } else { format!("emin-{floor}") };
            Unit::find(&format!("custom/{interface}/dot:{rules}:F={f}:e_zero={floor}")).unwrap()
        };
        let units = widths.map(unit);
        let i = units[0].interface();
        let same = |x: &Unit, y: &Unit| same_function(&x.recipe.unwrap(), &y.recipe.unwrap(), &i).is_some();
        let (f, floor) = widths[0];
        let others = [unit((f, floor + 1)), unit((f + 1, floor))];
        let mut differ = 0;
        for _ in 0..40_000 {
            // Products about where either floor begins, or its last bit ends.
            let e = i.d.emin() + r.below(75) as i32 - 45;
            let mut operands = |e: i32, f: &FormatSpec| {
                let field = (e + f.bias).clamp(0, (1 << f.exponent_bits) - 2) as u64;
                (r.below(2) << f.exponent_bits | field) << f.fraction_bits | r.below(1 << f.fraction_bits)
            };
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for k in 0..i.k {
                let e = e - 7 * k as i32;
                a.push(operands(e / 2, &i.a) << i.a.ignored_low_bits);
                b.push(operands(e - e / 2, &i.b) << i.b.ignored_low_bits);
            }
            let bits = |u: &Unit| u.dot_add_bits(&a, &b, 0).unwrap();
            let want = bits(&units[0]);
            assert!(units.iter().all(|u| bits(u) == want), "{}: {a:x?} {b:x?}", units[0]);
            differ += u32::from(others.iter().any(|u| bits(u) != want));
        }
        assert!(same(&units[0], &units[1]) && same(&units[0], &units[2]), "{}", units[0]);
        assert!(differ == 0 || others.iter().any(|u| !same(&units[0], u)), "{}", units[0]);
        assert_eq!(differ > 0, told, "{} {differ}", units[0]);
    }
}

/// Whether a negative sum that rounds to zero keeps its sign shows in the last block alone, and not there if its terms are no
/// finer than results are.
#[test]
fn the_sign_of_a_vanished_sum_is_forgotten_by_the_next_block() {
    let one_function = [
        "m1n1k16.f16.e3m2.e4m3.f16/dot:block=1:F=9:subnormal-c=normalised:out=ru:out-bits=6",
        "m1n1k12.f16.e3m2.e3m2.f16/dot:block=2:F=22:align=rd:sticky=yes:e_zero=none:out=ru:out-bits=9",
        "m1n1k16.f32.e5m2.e4m3.f32/dot:block=4:F=15:align=rd:normalise=yes:e_zero=emin-12:out=ru:out-bits=17",
        "m1n1k4.f16.e4m3.e4m3.f16/dot:block=2:F=20:sticky=yes:c=last:out-bits=8",
    ];
    // The same where there is no other block, and where products can vanish.
    let two = [
        "m1n1k2.f16.e3m2.e4m3.f16/dot:block=2:F=9:subnormal-c=normalised:out=ru:out-bits=6",
        "m1n1k4.f16.e4m3.e4m3.f16/dot:block=2:F=20:sticky=yes:c=last:out-bits=3",
        "m1n1k4.f32.bf16.bf16.f32/dot:block=2:F=25:e_zero=none",
    ];
    let mut r = Random(8);
    for (name, same) in one_function.map(|name| (name, true)).into_iter().chain(two.map(|name| (name, false))) {
        let [yes, no] = ["yes", "no"].map(|x| Unit::find(&format!("custom/{name}:negative-zero={x}")).unwrap());
        let i = yes.interface();
        assert_eq!(same_function(&yes.recipe.unwrap(), &no.recipe.unwrap(), &i).is_some(), same, "{name}");
        // Small numbers, most of them zero.
        let mut differ = 0;
        for _ in 0..20_000 {
            let mut line = |f: &FormatSpec, n: usize| -> Vec<u64> {
                let code = |r: &mut Random| r.below(4) << (f.storage_bits - 1) | r.below(3);
                (0..n).map(|_| if r.below(3) > 0 { 0 } else { code(&mut r) & f.code_mask() }).collect()
            };
            let (a, b, c) = (line(&i.a, i.k), line(&i.b, i.k), line(&i.c, 1)[0]);
            differ += u32::from(yes.dot_add_bits(&a, &b, c) != no.dot_add_bits(&a, &b, c));
        }
        assert_eq!(differ == 0, same, "{name}: {differ}");
    }
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
            unit.dot_add_scaled_bits(&input.a, &input.b, input.c, &input.scale_a, &input.scale_b).unwrap()
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
        let results = authenticate(&tests, std::slice::from_ref(unit)).unwrap();
        results.into_iter().filter(|r| r.holds == Some(false)).map(|r| (r.property, r.conclusion.unwrap())).collect()
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
    assert!(read_tests("a line").is_err());
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
            let _ = fit(&mut NoUnit(Strange::Constant(d), interface), &options).unwrap();
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

#[test]
fn canonical_names_what_cannot_be_seen() {
    let interface = Interface { k: 8, a: E4M3, b: E5M2, c: F32, d: F32, scale: None };
    let x = GenericDot { block: 99, output_bits: Some(23), sticky: true, exact: true, ..GenericDot::default() };
    let (plain, reasons) = canonical(&Recipe::Generic(x), &interface);
    let names: Vec<&str> = reasons.iter().map(|(name, _)| *name).collect();
    assert!(["block", "out-bits", "sticky", "e_zero"].iter().all(|n| names.contains(n)), "{names:?}");
    assert_eq!(canonical(&plain, &interface).0, plain, "canonical forms are fixed points");
}
