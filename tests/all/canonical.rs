//! What `canonical` calls one function is one.

use crate::custom::{self, Random};
use crate::models::same_on_vectors;
use gemmulate::Unit;
use gemmulate::accumulate::{CPosition, Floor, GenericDot, Recipe, ZeroProducts};
use gemmulate::format::{E4M3, E5M2, F32, FormatSpec, UE8M0};
use gemmulate::instr::ScaleRule;
use gemmulate::probe::{BlackBox, Input, Interface, canonical, same_function};
use gemmulate::round::Rounding;

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

/// Floors below all bits of scaled groups are one, and those that are not are told apart.
#[test]
fn floors_of_scaled_groups_below_all_bits_are_none() {
    let of = |floor: i32| {
        Unit::find(&format!("custom/m1n1k64.block16.f32.e2m1.e2m1.f32.ue4m3/groups:G=16:F=35:e_zero=emin{floor:+}"))
            .unwrap()
    };
    let interface = of(-7).interface();
    let same = |x: i32, y: i32| same_function(&of(x).recipe.unwrap(), &of(y).recipe.unwrap(), &interface).is_some();
    // emin - 7 - 35 and emin + 12 - 35 = -149: f32's last bit; e2m1's and ue4m3's products end at 2^-20.
    assert!(same(-7, 12) && same(-7, -90) && !same(-7, 13));
    assert!(same_on_vectors(&of(-7), &of(12), 20_000));
    let zeros = vec![0; 64];
    let ones = vec![0x38; 4];
    let lone = Input { a: zeros.clone(), b: zeros, c: 1, scale_a: ones.clone(), scale_b: ones };
    let lone_c = |x: i32| of(x).dot_adds(std::slice::from_ref(&lone)).unwrap();
    assert_ne!(lone_c(12), lone_c(13));
}

/// Where `canonical` says that what alignment cuts off decides no rounding, it decides none: one to three terms of
/// every size.
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
            let c = r.below(unit.c.code_mask() + 1);
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
    assert_eq!(joined, 19);
    // What c leaves of the first group's sum is subnormal; the generic family's second block reads it as zero.
    let [pairwise, generic] = ["pairwise:G=2:flush-out=no", "dot:block=2:exact=yes:c=late:out=rne:flush-in=yes"]
        .map(|recipe| Unit::find(&format!("custom/m1n1k4.f16.e3m2.e2m3.f16/{recipe}")).unwrap());
    let [own, other] = [&pairwise, &generic].map(|unit| unit.dot_add_bits(&[5, 0x24, 0, 0], &[9, 0xb, 0, 0], 0xa001));
    assert_eq!((own.unwrap(), other.unwrap()), (0x8080, 0));
    assert_eq!(same_function(&pairwise.recipe.unwrap(), &generic.recipe.unwrap(), &pairwise.interface()), None);
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
        (
            "m1n1k8.f32.f16.f16.f32",
            "dot:block=1:F=35:sticky=yes:e_zero=zero-c:c=last:out=rne:limit=yes:negative-zero=yes",
            "software",
        ),
        ("m1n1k32.f32.e4m3.e4m3.f32", "dot:block=1:F=35:e_zero=emin-5:c=last:out=rne", "software"),
        ("m1n1k5.f32.e4m3.f16.f16", "dot:block=1:exact=yes:c=last:out=rne", "software"),
    ] {
        let [first, second] =
            [first, second].map(|recipe| Unit::find(&format!("custom/{interface}/{recipe}")).unwrap());
        let why = same_function(&first.recipe.unwrap(), &second.recipe.unwrap(), &first.interface());
        assert!(why.is_some_and(|why| why.iter().any(|w| w.starts_with("family"))), "{first} and {second}");
        assert!(same_on_vectors(&first, &second, 1000), "{first} and {second}");
    }
}

/// Lone products, and two terms of which a sticky bit stands for what one loses: F and the floor show only together, in
/// the last bit kept there. One F more or less, or a floor one off, is another function.
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

/// What studies of neighbours found no input for, and no reason either.
#[test]
fn neighbours_no_input_tells_apart_are_one_function() {
    for (interface, one, other) in [
        // A sticky bit at a floor, beside terms that are flushed where both have bits below that.
        (
            "m1n1k2.f32.tf32.tf32.f32",
            "block=2:F=36:sticky=yes:e_zero=emin-11:c=late:out=rne:flush-out=yes",
            "block=2:F=36:sticky=yes:e_zero=emin+1:c=late:out=rne:flush-out=yes",
        ),
        // A sticky bit for the one bit that a zero product's exponent cuts.
        (
            "m1n1k16.f16.e2m1.e5m2.f16",
            "block=16:F=17:align=rd:sticky=yes:e_zero=emin-15:c=last:via-f16=yes",
            "block=16:F=17:align=rd:sticky=yes:e_zero=emin-15:zero-products=count:c=last:via-f16=yes",
        ),
        // Operands that f16 holds.
        (
            "m1n1k1.f32.e3m2.e5m2.f32",
            "block=1:F=38:sticky=yes:e_zero=emin-6:out=ru",
            "block=1:F=38:sticky=yes:e_zero=emin-6:out=ru:via-f16=yes",
        ),
        // Seven products of 36 and one of at most 2.25 have no more than ten bits.
        (
            "m1n1k8.f32.e2m1.e2m1.f32",
            "block=8:F=28:align=rne:e_zero=zero-c:c=late:out=rd:out-bits=13",
            "block=8:F=28:align=rne:e_zero=zero-c:c=late:out=rd:out-bits=9",
        ),
    ] {
        let units = [one, other].map(|rules| Unit::find(&format!("custom/{interface}/dot:{rules}")).unwrap());
        let [x, y] = units.each_ref().map(|u| u.recipe.unwrap());
        assert!(same_function(&x, &y, &units[0].interface()).is_some(), "{interface}: {one} and {other}");
        assert!(same_on_vectors(&units[0], &units[1], 3000), "{interface}: {one} and {other}");
    }
    // Where one bit less is kept, they differ.
    let [ten, nine] = [9, 8].map(|bits| {
        let rules = format!("block=8:F=28:e_zero=none:c=late:out=rd:out-bits={bits}");
        Unit::find(&format!("custom/m1n1k8.f32.e2m1.e2m1.f32/dot:{rules}")).unwrap()
    });
    assert!(same_function(&ten.recipe.unwrap(), &nine.recipe.unwrap(), &ten.interface()).is_none());
}

/// A lone product that its floor cuts where the smallest results end is rounded there, by whichever name.
#[test]
fn a_lone_product_is_rounded_by_alignment_or_by_the_output() {
    let mut r = Random(12);
    for (interface, cut, rounded, same) in [
        ("m1n1k1.f32.tf32.tf32.f32", "F=64:e_zero=emin+41:out=rne", "F=40:sticky=yes:e_zero=emin-6", true),
        ("m1n1k1.f32.tf32.tf32.f32", "F=63:e_zero=emin+41:out=rne", "F=40:sticky=yes:e_zero=emin-6", false),
        ("m1n1k3.f32.bf16.bf16.f32", "F=30:e_zero=emin+7:align=rne:c=late", "exact=yes:out=rne:c=late", true),
        ("m1n1k3.f32.bf16.bf16.f32", "F=30:e_zero=emin+7:align=rne:c=late", "exact=yes:out=rz:c=late", false),
        // A negative product that alignment has cut to nothing has no sign.
        (
            "m1n1k1.f32.tf32.tf32.f32",
            "F=64:e_zero=emin+41:align=rne:negative-zero=yes",
            "exact=yes:out=rne:negative-zero=yes",
            false,
        ),
        // What overflows becomes the largest number or an infinity.
        ("m1n1k1.f32.tf32.tf32.f32", "F=64:e_zero=emin+41:align=ru:out=rz", "exact=yes:out=ru", false),
    ] {
        let last = if interface.starts_with("m1n1k1") { ":c=last" } else { "" };
        let [x, y] =
            [cut, rounded].map(|rules| Unit::find(&format!("custom/{interface}/dot:block=1:{rules}{last}")).unwrap());
        let i = x.interface();
        assert_eq!(same_function(&x.recipe.unwrap(), &y.recipe.unwrap(), &i).is_some(), same, "{x} and {y}");
        // Products of every size around the smallest results, and the largest ones.
        let differ = (0..40_000).any(|n| {
            let mut line = |f: &FormatSpec| -> Vec<u64> {
                let low = (i.d.emin() / 2 - 20 + f.bias).max(0) as u64;
                let top = (1 << f.exponent_bits) - 2;
                let field = |r: &mut Random| if n % 100 == 0 { top } else { (low + r.below(40)).min(top) };
                let code = |r: &mut Random| {
                    (r.below(2) << f.exponent_bits | field(r)) << f.fraction_bits | r.below(1 << f.fraction_bits)
                };
                (0..i.k).map(|_| code(&mut r) << f.ignored_low_bits).collect()
            };
            let (a, b) = (line(&i.a), line(&i.b));
            let c = r.below(2) << (i.c.storage_bits - 1);
            x.dot_add_bits(&a, &b, c) != y.dot_add_bits(&a, &b, c)
        });
        assert!(!(same && differ), "{x} and {y}");
        assert!(same || differ, "{x} and {y}: nothing tells them apart");
    }
}

/// Whether a negative sum that rounds to zero keeps its sign shows in the last block alone, and not there if its terms
/// are no finer than results are.
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

#[test]
fn canonical_names_what_cannot_be_seen() {
    let interface = Interface { k: 8, a: E4M3, b: E5M2, c: F32, d: F32, scale: None };
    let x = GenericDot { block: 99, output_bits: Some(23), sticky: true, exact: true, ..GenericDot::default() };
    let (plain, reasons) = canonical(&Recipe::Generic(x), &interface);
    let names: Vec<&str> = reasons.iter().map(|(name, _)| *name).collect();
    assert!(["block", "out-bits", "sticky", "e_zero"].iter().all(|n| names.contains(n)), "{names:?}");
    assert_eq!(canonical(&plain, &interface).0, plain, "canonical forms are fixed points");
}

#[test]
fn canonical_leaves_what_no_unit_has() {
    let good = Interface { k: 8, a: E4M3, b: E5M2, c: F32, d: F32, scale: None };
    let wide = FormatSpec { exponent_bits: 40, bias: i32::MAX, ..E4M3 };
    let scaled = |block| Some(ScaleRule { format: UE8M0, block });
    let bad = [
        Interface { k: 0, ..good },
        Interface { k: usize::MAX, ..good },
        Interface { a: wide, ..good },
        Interface { d: FormatSpec { fraction_bits: 60, ..F32 }, ..good },
        Interface { scale: scaled(0), ..good },
        Interface { scale: scaled(3), ..good },
    ];
    let generic = Recipe::Generic(GenericDot { block: 99, ..GenericDot::default() });
    let refused = Recipe::Generic(GenericDot { block: 0, ..GenericDot::default() });
    assert!(good.unit(refused).is_err());
    for (recipe, interface) in bad.map(|i| (generic, i)).into_iter().chain([(refused, good)]) {
        assert_eq!(canonical(&recipe, &interface), (recipe, Vec::new()), "{interface:?}");
        assert_eq!(same_function(&recipe, &generic, &interface).is_some(), recipe == generic);
    }
}

/// Pairs that rules once joined, each with an input that tells them apart: a chain whose every result is rounded up
/// grows past the sum of its products; a negative sum that alignment has cut to nothing is no negative zero; c may be
/// subnormal in its own format and normal in d.
#[test]
fn what_was_called_one_function_wrongly_is_not() {
    let ones = |first: u64, n: usize| [vec![first], vec![1; n - 1]].concat();
    for (name, plain, a, b, c) in [
        (
            "m1n1k64.f16.e2m1.e2m1.f16",
            ["block=1:F=15:c=last:out=ru:out-bits=2", "block=1:exact=yes:c=last:out=ru:out-bits=2"],
            ones(7, 64),
            ones(7, 64),
            0,
        ),
        (
            "m1n1k1.f32.bf16.bf16.f32",
            ["F=35:align=ru:out=ru:negative-zero=yes", "exact=yes:out=ru:negative-zero=yes"],
            vec![0x8d80],
            vec![0x0d80],
            0,
        ),
        (
            "m1n1k1.bf16.e2m1.e2m1.f32",
            ["F=16:e_zero=none:out=ru:flush-out=yes", "F=16:e_zero=none:subnormal-c=normalised:out=ru:flush-out=yes"],
            vec![0],
            vec![0],
            0x007f_0040,
        ),
        // Results that turn halfway, whichever way ties go.
        (
            "m1n1k1.f16.f16.bf16.f16",
            [
                "F=20:align=rnu:sticky=yes:c=last:out=rnu:e_zero=emin-8",
                "F=20:align=rnu:sticky=yes:c=last:out=rnu:e_zero=none",
            ],
            vec![0x17b3],
            vec![0x3785],
            0,
        ),
        (
            "m1n1k1.f16.e5m2.e4m3.f16",
            ["F=22:align=rne:sticky=yes:e_zero=none:out=rnu:flush-in=yes", "exact=yes:out=rnu:flush-in=yes"],
            vec![0x3c],
            vec![0x38],
            0x8bff,
        ),
        // Flushed, unless rounded up at the floor.
        (
            "m1n1k1.f32.ue8m0.ue8m0.f32",
            ["F=1:align=ru:c=last:flush-out=yes:e_zero=emin+1", "F=1:align=ru:c=last:flush-out=yes:e_zero=none"],
            vec![0x10],
            vec![0x10],
            0,
        ),
        // Numbers below f16's normal ones.
        (
            "m1n1k1.f32.e5m2fnuz.e5m2fnuz.f32",
            ["F=4:e_zero=none:c=last:via-f16=yes", "F=4:e_zero=none:c=last"],
            vec![1],
            vec![1],
            0,
        ),
        // A product of 2^128 or more of which alignment leaves nothing.
        (
            "m1n1k1.f32.bf16.bf16.f32",
            ["F=20:e_zero=emin+300:c=last:out=rne:limit=yes", "F=20:e_zero=emin+300:c=last:out=rne"],
            vec![0x6080],
            vec![0x6080],
            0,
        ),
        (
            "m1n1k1.f32.f32.f64.f32",
            ["F=20:e_zero=none:c=last:limit=yes", "F=20:e_zero=none:c=last"],
            vec![1],
            vec![0x58f0_0000_0000_0000],
            0,
        ),
    ] {
        let [one, other] = plain.map(|recipe| Unit::find(&format!("custom/{name}/dot:{recipe}")).unwrap());
        assert_ne!(one.dot_add_bits(&a, &b, c), other.dot_add_bits(&a, &b, c), "{one} {other}");
        let joined = same_function(&one.recipe.unwrap(), &other.recipe.unwrap(), &one.interface());
        assert_eq!(joined, None, "{one} {other}");
    }
}
