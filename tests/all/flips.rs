//! Two units that differ in one parameter: an input that tells them apart, as small as can be, or why there is none.

use crate::custom::{self, Random};
use gemmulate::Unit;
use gemmulate::accumulate::{GenericDot, Recipe};
use gemmulate::format::FormatSpec;
use gemmulate::probe::{BlackBox, Input, Interface, Sameness, diff};
use std::collections::{BTreeMap, BTreeSet};

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
    let (_, names) = message.split_once("one of the parameters ").expect("the message lists them");
    let (names, _) = names.split_once(", not ").expect("and says what it is not");
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

/// The code without its last significand bit, and with its exponent one up or down; a NaN stays one.
fn simpler(f: &FormatSpec, code: u64) -> impl Iterator<Item = u64> {
    let (finite, nan) = (f.decode(code).is_finite() && !f.decode(code).is_zero(), f.decode(code).is_nan());
    let fraction = code & ((1 << f.fraction_bits) - 1);
    let step = 1 << f.fraction_bits;
    let codes = [code & !(fraction & fraction.wrapping_neg()), code.wrapping_add(step), code.wrapping_sub(step)];
    let f = *f;
    let same = move |c| (finite && f.decode(c).is_finite()) || (nan && c != code && f.decode(c).is_nan());
    codes.into_iter().filter(move |&c| c & !f.code_mask() == 0 && same(c))
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
///
/// Where they differ in a number, NaNs are alike.
fn assert_minimal(one: &Unit, other: &Unit, input: &Input) {
    let differ = |x: &Input, nans: bool| {
        let results = [one, other].map(|unit| x.eval(unit).unwrap());
        let both_nan = results.iter().all(|&d| one.d.decode(d).is_nan());
        results[0] != results[1] && (nans || !both_nan)
    };
    for smaller in reductions(input, &one.interface()) {
        assert!(!differ(&smaller, !differ(input, false)), "{one} and {other}: {input} can be {smaller}");
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
    // NaNs with other bits count where nothing else differs: those of operands are as short as they can be, too.
    for (one, other, in_nans) in [
        ("volta/mma.m8n8k4.f32.f16.f16.f32", "valpey/volta", false),
        (
            "volta/mma.m8n8k4.f32.f16.f16.f32",
            "custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=23:e_zero=none:nan=quiet",
            true,
        ),
        (
            "cdna1/v_mfma_f32_32x32x8f16",
            "custom/m1n1k8.f32.f16.f16.f32/dot:block=4:exact=yes:F=25:out=rne:negative-zero=yes",
            true,
        ),
    ] {
        let [one, other] = [one, other].map(|name| Unit::find(name).unwrap());
        let Sameness::Different(found) = diff(&one, &other).unwrap() else { panic!("{one} and {other}") };
        assert_eq!([found.first, found.second].iter().all(|&d| one.d.decode(d).is_nan()), in_nans, "{other}");
        assert_minimal(&one, &other, &found.input);
    }
}

/// Of very many products most are left out together.
#[test]
fn differences_of_many_products_have_few_terms() {
    let [x, y] = [24, 25].map(|f| Unit::find(&format!("custom/m1n1k512.f32.f16.f16.f32/dot:block=512:F={f}")).unwrap());
    let Ok(Sameness::Different(found)) = diff(&x, &y) else { panic!("they differ") };
    let terms = found.input.a.iter().zip(&found.input.b).filter(|(a, b)| **a != 0 && **b != 0).count();
    assert!(terms <= 3 && found.first != found.second, "{}", found.input);
}
