//! Probing: what the papers found, found again by the tests.

use gemmulate::Unit;
use gemmulate::accumulate::{Adder, FusedDotAdd, NarrowSum, Recipe};
use gemmulate::format::F32;
use gemmulate::prelude::{MmaUnit, Shape};
use gemmulate::probe::{BlackBox, Features, Finding, Input, Interface, features};
use half::f16;

pub(crate) fn probed(name: &str) -> Features {
    features(&mut Unit::find(name).expect(name)).unwrap()
}

pub(crate) fn value(found: &Features, name: &str) -> String {
    found.value(name).unwrap().to_string()
}

/// Products of narrow formats never lose one another; a large c shows their block and width.
#[test]
fn narrow_products_are_measured_beside_c() {
    for (unit, block, rounding) in [
        ("B200 tcgen05.mma.m64n8k32.f32.e2m1.e2m1", "32", "rz"),
        ("B200 tcgen05.mma.m64n8k32.f32.e4m3.e3m2", "32", "rz"),
        ("rtx-blackwell/mma.m16n8k32.block32.f32.e2m3.e2m1.f32.ue8m0", "32", "rz"),
        ("custom/m1n1k16.f32.e2m1.e2m1.f32/dot:block=16:F=24:out=rne", "16", "rne"),
        ("custom/m1n1k16.f32.e3m2.e2m1.f32/dot:block=16:F=26:out=rd", "16", "rd"),
    ] {
        let found = probed(unit);
        let Some(Recipe::Generic(dot)) = Unit::find(unit).unwrap().recipe else { unreachable!() };
        assert_eq!(value(&found, "fraction_bits"), dot.frac_bits.to_string(), "{unit}");
        assert_eq!(value(&found, "block"), block, "{unit}");
        assert_eq!(value(&found, "chain"), "1", "{unit}");
        assert_eq!(value(&found, "c_position"), "with", "{unit}");
        assert_eq!(value(&found, "output_rounding"), rounding, "{unit}");
    }
    assert_eq!(value(&probed("custom/m1n1k16.f32.e2m1.e2m1.f32/dot:block=8:F=25"), "block"), "8");
    // c added to the sum of all: whatever products do among themselves is exact.
    for recipe in ["dot:block=16:F=25:c=late", "dot:block=16:F=25:c=last"] {
        let found = probed(&format!("custom/m1n1k16.f32.e2m1.e2m1.f32/{recipe}"));
        assert!(value(&found, "tree").starts_with("cannot tell"), "{recipe}: {}", value(&found, "tree"));
        assert!(value(&found, "block").starts_with("cannot tell"), "{recipe}");
    }
}

/// The two roundings of a unit that adds c last.
#[test]
fn c_may_be_rounded_in_another_way() {
    for (recipe, want) in [
        ("dot:block=8:F=25:c=late", "rz (sums of products), rne (adding c)"),
        ("dot:block=8:F=25:c=late:out=rne", "rne"),
        ("dot:block=8:F=25:c=late:out=ru", "ru (sums of products), rne (adding c)"),
        ("dot:block=8:F=25:out=rd", "rd"),
    ] {
        let found = probed(&format!("custom/m1n1k16.f32.f16.f16.f32/{recipe}"));
        assert_eq!(value(&found, "output_rounding"), want, "{recipe}");
    }
}

/// Where the aligned bits leave room for no witness, and where they do: one bit of F, or two more
/// products, decide. A witness in a later block needs a sum of products that grows.
#[test]
fn monotonic_units_are_told_from_others() {
    for (unit, want) in [
        ("hopper/mma.m16n8k4.f32.tf32.tf32.f32", "yes"),
        ("hopper/mma.m16n8k8.f32.tf32.tf32.f32", "no"),
        ("hopper/mma.m16n8k16.f16.f16.f16.f16", "yes"),
        ("volta/mma.m8n8k4.f32.f16.f16.f16", "yes"),
        ("hopper/mma.m16n8k16.f32.e4m3.e4m3.f32", "no"),
        ("hopper/wgmma.m64n8k32.f16.e4m3.e4m3", "no"),
        ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", "yes"),
        ("cdna1/v_mfma_f32_32x32x8f16", "yes"),
        ("cdna2/v_mfma_f32_32x32x8f16", "yes"),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=25", "yes"),
        ("custom/m1n1k6.f32.f16.f16.f32/dot:block=6:F=25", "no"),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=24:align=rne:out=rne", "no"),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=24:align=rd", "no"),
        ("custom/m1n1k1.f32.f16.f16.f32/dot:block=1:F=22:align=rne:out=rne", "no"),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=30:zero-products=count", "no"),
    ] {
        let found = probed(unit);
        assert_eq!(value(&found, "monotonic"), want, "{unit}");
        assert!(!found.get("monotonic").unwrap().evidence.is_empty(), "{unit}");
    }
}

/// The answer against every c at a power of two and just below, beside every four of twenty products:
/// the largest exponent rises nowhere else.
#[test]
fn monotonic_is_what_all_inputs_say() {
    let codes = [1, 2, 3, 5];
    let products: Vec<(u64, u64)> = codes.iter().flat_map(|&a| codes.map(|b| (a, b))).filter(|(a, b)| a <= b).collect();
    let products: Vec<(u64, u64)> = products.into_iter().flat_map(|(a, b)| [(a, b), (a | 8, b)]).collect();
    let powers: Vec<u64> = (127 + 18..127 + 36).map(|e| e << 23).collect();
    let n = products.len();
    let below = |i: usize| (0..=i).flat_map(move |j| (0..=j).flat_map(move |k| (0..=k).map(move |l| [i, j, k, l])));
    for f in 22..=27 {
        let name = format!("custom/m1n1k4.f32.e2m1.e2m1.f32/dot:block=4:F={f}");
        let unit = Unit::find(&name).unwrap();
        let falls = |at: [usize; 4]| {
            let (a, b) = (at.map(|i| products[i].0), at.map(|i| products[i].1));
            let d = |c: u64| F32.to_f64(unit.dot_add_bits(&a, &b, c).unwrap());
            let minus = 1 << 31;
            powers.iter().any(|&c| d(c - 1) > d(c) || d(c | minus) > d((c - 1) | minus))
        };
        let any = (0..n).flat_map(below).any(falls);
        assert_eq!(any, f < 25, "{name}: four others lose more than c gains");
        assert_eq!(value(&probed(&name), "monotonic"), if any { "no" } else { "yes" }, "{name}");
    }
}

/// What narrow formats show only beside c, with subnormal operands, or with scales other than one.
#[test]
fn narrow_and_scaled_units_are_told_all_the_same() {
    let mxf8 = "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e5m2.f32.ue8m0";
    let normalised = "custom/m1n1k8.f32.e3m2.e2m1.f32/dot:block=8:F=25:normalise=yes";
    for (unit, name, want) in [
        (mxf8, "e_zero", "-133"),
        (mxf8, "product_limit", "none"),
        ("blackwell/tcgen05.mma.m64n8k32.f16.e2m3.e5m2", "products_exact", "yes"),
        ("blackwell/tcgen05.mma.m64n8k32.f16.e2m1.e2m1", "products_normalised", "no"),
        ("blackwell/tcgen05.mma.m64n8k32.f32.e2m1.e2m1", "partial_sums_normalised", "no"),
        ("hopper/mma.m16n8k16.f16.e4m3.e4m3.f16", "partial_sums_normalised", "no"),
        ("hopper/mma.m16n8k16.f16.e4m3.e4m3.f16", "alignment_rounding", "rz"),
        ("cdna1/v_mfma_f32_4x4x4f16", "tree", "(c + p0 + p1 + p2 + p3)"),
        ("cdna1/v_mfma_f32_4x4x4f16", "c_position", "with"),
        (normalised, "products_normalised", "yes"),
    ] {
        assert_eq!(value(&probed(unit), name), want, "{unit}: {name}");
    }
    assert!(value(&probed(mxf8), "overflow").starts_with("intermediate sums do not overflow"));
}

/// A box whose answers a function makes of the inputs.
pub(crate) struct Custom<F>(pub(crate) Interface, pub(crate) F);

impl<F: FnMut(&Input) -> u64> BlackBox for Custom<F> {
    fn interface(&self) -> Interface {
        self.0
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        Ok(inputs.iter().map(&mut self.1).collect())
    }
}

/// The unit of a name, with its answers changed.
fn changed(name: &str, mut change: impl FnMut(&Input, u64) -> u64) -> Features {
    let mut unit = Unit::find(name).unwrap();
    let interface = BlackBox::interface(&unit);
    let answer = move |input: &Input| change(input, unit.dot_adds(std::slice::from_ref(input)).unwrap()[0]);
    features(&mut Custom(interface, answer)).unwrap()
}

fn tells(found: &Features, name: &str) -> bool {
    !matches!(found.value(name).unwrap(), Finding::CannotTell(_))
}

/// What an earlier block rounds, the next one aligns, and cuts, again; and a cut that comes before the
/// rounding is none of the output's.
#[test]
fn output_rounding_is_that_of_the_last_block() {
    for (unit, want) in [
        // Sums of so few bits are never rounded: nothing can be said.
        ("custom/m1n1k7.f32.f16.f16.f32/dot:block=6:F=17:out=rd", None),
        ("custom/m1n1k8.f32.e4m3.e4m3.f32/dot:block=2:F=13:out=ru:c=late:e_zero=none", Some("rne (adding c)")),
        ("custom/m1n1k8.f32.bf16.bf16.f32/dot:block=3:F=21:align=rd", None),
        ("custom/m1n1k7.f32.f16.f16.f32/dot:block=6:F=26:out=rd", Some("rd")),
        // What alignment leaves of two products is not the output's precision.
        ("custom/m1n1k4.f32.e4m3.e4m3.f32/dot:block=2:F=16:align=rd:out=rne:c=late", Some("rne (adding c)")),
        ("custom/m1n1k7.f32.bf16.bf16.f32/dot:block=3:F=26:align=rne:out=rd:c=late", Some("rne (adding c)")),
        // Sums of narrow products are exact, whatever tree they have.
        ("custom/m1n1k8.f32.e2m3.e3m2.f32/dot:block=2:F=32:out=rd:c=last", Some("rne (adding c)")),
        ("custom/m1n1k8.f32.f16.f16.f32/dot:block=3:F=20:out=ru:out-bits=12", Some("ru at 12 fraction bits")),
        ("custom/m1n1k16.f32.f16.f16.f32/dot:block=4:F=27:out=rne:out-bits=18", Some("rne at 18 fraction bits")),
    ] {
        let found = probed(unit);
        match want {
            Some(want) => assert_eq!(value(&found, "output_rounding"), want, "{unit}"),
            None => assert!(!tells(&found, "output_rounding"), "{unit}: {}", value(&found, "output_rounding")),
        }
    }
}

/// One unordered sum has no partial sums that could be normalised, however narrow its result and
/// whatever it flushes.
#[test]
fn narrow_results_and_flushing_are_no_normalisation() {
    for recipe in [
        "f32.f16.f16.f32/dot:block=16:F=25:out-bits=20",
        "f32.f16.f16.f32/dot:block=16:F=37:flush-in=yes",
        "f32.e4m3.e4m3.f32/dot:block=16:F=23:out=rne:c=last:flush-in=yes",
        "f32.f16.f16.f32/dot:block=16:F=30:out-bits=8",
    ] {
        let found = probed(&format!("custom/m1n1k16.{recipe}"));
        assert_eq!(value(&found, "partial_sums_normalised"), "no", "{recipe}");
    }
}

/// What follows in a chain forgets the sign of an underflow: only its last link shows it, or what is left of c.
#[test]
fn signs_of_zeros_are_looked_for_along_a_chain() {
    for (unit, want) in [
        ("cdna1/v_mfma_f32_32x32x4bf16", "from underflow, not from zeros"),
        ("cdna2/v_mfma_f32_32x32x4bf16", "from underflow, not from zeros"),
        ("cdna3/v_mfma_f32_16x16x16_bf16", "from underflow, not from zeros"),
        ("ampere/mma.m8n8k4.f64.f64.f64.f64", "as in IEEE 754"),
        ("ampere/mma.m16n8k16.f32.bf16.bf16.f32", "never"),
        (
            "custom/m1n1k4.f32.bf16.bf16.f32/dot:block=1:F=60:out=rne:negative-zero=yes",
            "from underflow, not from zeros",
        ),
    ] {
        let found = probed(unit);
        assert_eq!(value(&found, "negative_zero"), want, "{unit}");
        assert_eq!(found.get("negative_zero").unwrap().evidence.iter().any(|o| o.d != 0), want != "never", "{unit}");
    }
}

/// Where alignment keeps no more bits than a product has, beside a larger term its last one is gone.
#[test]
fn products_as_wide_as_alignment_are_not_called_inexact() {
    for f in 8..=11 {
        let unit = format!("custom/m1n1k17.f32.bf16.e5m2.f32/dot:block=5:F={f}:align=rne:e_zero=emin-2:out=rd");
        assert_ne!(value(&probed(&unit), "products_exact"), "no", "{unit}");
    }
    assert_eq!(value(&probed("custom/m1n1k17.f32.bf16.e5m2.f32/dot:block=5:F=12:out=rd"), "products_exact"), "yes");
}

/// 1.75 units rounded to nearest, with a sticky bit, are more than 2 units.
#[test]
fn a_sticky_bit_beside_ties_is_not_monotonic() {
    let unit = "custom/m1n1k6.f16.e5m2.e5m2.f16/dot:block=3:F=13:align=rne:sticky=yes:normalise=yes:c=last:out=rne:out-bits=10";
    let found = Unit::find(unit).unwrap();
    let d =
        |b: u64| found.dot_add_bits(&[0x92, 0x81, 0x88, 0x86, 0x87, 7], &[1, 2, 0x91, b, 0x81, 0x91], 0x48).unwrap();
    assert!(d(0xb) < d(0xc), "product 3 falls, d rises");
    assert_ne!(value(&probed(unit), "monotonic"), "yes");
}

/// Products far too small to reach the largest result take it further where alignment rounds them away from zero.
#[test]
fn the_largest_number_overflows_by_alignment() {
    for (rounding, out, overflows) in [("rd", "rz", true), ("rd", "rne", true), ("rz", "rz", false)] {
        let unit = format!("custom/m1n1k12.f32.e4m3.e3m2.f32/dot:block=3:F=17:align={rounding}:out={out}");
        let found = value(&probed(&unit), "overflow");
        // Rounded down only what is negative grows.
        assert_eq!(found.ends_with("overflow to infinity (negative ones)"), overflows, "{unit}: {found}");
    }
}

/// A floor is told where inputs refute its neighbours, and only there.
#[test]
fn floors_are_told_by_inputs_on_both_sides() {
    for (unit, want) in [
        ("custom/m1n1k16.f32.tf32.tf32.f32/dot:block=7:F=15:align=rd:out=rd:e_zero=emin-5", Some(-131)),
        ("custom/m1n1k16.f32.bf16.bf16.f32/dot:block=8:F=24:out=rne:flush-in=yes:e_zero=emin-3", Some(-129)),
        ("custom/m1n1k16.f16.f16.f16.f16/dot:block=16:F=8:flush-in=yes:e_zero=emin-5", Some(-19)),
        ("custom/m1n1k16.f16.f16.f16.f16/dot:block=16:F=25:out=rne:flush-in=yes:e_zero=none", None),
        ("custom/m1n1k8.f32.bf16.bf16.f32/dot:block=8:F=24:flush-out=yes", None),
        // Among f16's products: those of subnormal operands keep the exponent of the smallest normal one.
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=9:c=late:e_zero=emin+107", Some(-19)),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=9:c=late:e_zero=emin+104", Some(-22)),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=8:c=late:e_zero=emin+100", Some(-26)),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=9:c=late:flush-in=yes:e_zero=emin+107", Some(-19)),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=9:e_zero=emin+104", Some(-22)),
        // What is below e_max - 24 is cut again, down, after the products were: ties show where.
        ("cdna3/v_mfma_f32_32x32x8_bf16", Some(-126)),
        ("cdna3/v_mfma_f32_16x16x8_xf32", Some(-126)),
        // Scales bring products of two blocks as far apart as it takes; or many make up one large term.
        ("rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0", Some(-139)),
        ("rtx-blackwell/mma.m16n8k32.block32.f32.e2m1.e2m1.f32.ue8m0", Some(-133)),
    ] {
        let found = probed(unit);
        let feature = found.get("e_zero").unwrap();
        match (&feature.value, want) {
            (Finding::Number(n), Some(want)) => {
                assert_eq!(*n, want, "{unit}");
                let [above, below] = feature.evidence.as_slice() else { panic!("{unit}: {:?}", feature.evidence) };
                assert!(above.shows.ends_with(&format!("a floor of {}", want + 1)), "{unit}: {}", above.shows);
                assert!(below.shows.ends_with(&format!("a floor of {}", want - 1)), "{unit}: {}", below.shows);
            }
            (found, want) => assert!(want.is_none() && !matches!(found, Finding::Number(_)), "{unit}: {found}"),
        }
    }
}

/// Where all floors that no input refutes are one function, `probe` says so, with an input that refutes the
/// next one.
#[test]
fn floors_that_no_input_shows_are_one_function() {
    for (unit, highest) in [
        ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", -114),
        ("volta/mma.m8n8k4.f32.f16.f16.f32", -126),
        ("hopper/wgmma.m64n8k32.f16.e4m3.e4m3", -11),
        ("custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=9:c=late:e_zero=none", -28),
    ] {
        let found = probed(unit);
        let feature = found.get("e_zero").unwrap();
        assert!(matches!(feature.value, Finding::CannotTell(_)), "{unit}: {}", feature.value);
        let text = feature.value.to_string();
        assert!(text.contains(&format!("none, or any up to {highest}: ")), "{unit}: {text}");
        let [above] = feature.evidence.as_slice() else { panic!("{unit}: {:?}", feature.evidence) };
        assert!(above.shows.ends_with(&format!("refutes a floor of {}", highest + 1)), "{unit}: {}", above.shows);
    }
}

/// The places of X, -X and y of an input that shows a sum's members.
fn members(shows: &str) -> Vec<&str> {
    shows
        .split(['X', '-', ' ', ',', ':'])
        .filter(|w| *w == "c" || w.strip_prefix('p').is_some_and(|n| !n.is_empty()))
        .collect()
}

/// The last product that is in a block, and the first that is not; every step of a chain.
#[test]
fn evidence_lies_around_the_decision() {
    let ampere = probed("ampere/mma.m16n8k16.f32.f16.f16.f32");
    let hopper = probed("hopper/mma.m16n8k16.f32.f16.f16.f32");
    let shown = |found: &Features, name: &str| -> Vec<String> {
        let evidence = &found.get(name).unwrap().evidence;
        evidence.iter().map(|o| format!("{}{}", members(&o.shows)[2], if o.d == 0 { " lost" } else { "" })).collect()
    };
    assert_eq!(shown(&hopper, "block"), ["p15 lost", "c lost"]);
    assert_eq!(shown(&ampere, "block"), ["p7 lost", "c lost", "p8"]);
    assert_eq!(shown(&ampere, "chain"), ["p15 lost", "p7 lost", "c lost", "p8"]);
    for found in [&ampere, &hopper] {
        assert_eq!(found.get("tree").unwrap().evidence, found.tree.as_ref().unwrap().evidence);
        let k = found.interface.k;
        let sums = found.tree.as_ref().unwrap().root.sums().into_iter().filter(|s| s.direct(k).len() > 1).count();
        assert_eq!(shown(found, "tree").iter().filter(|x| x.contains("p") && x.contains("lost")).count(), sums);
    }
}

/// A box that does not sum has no features, and one that sums now and then neither.
#[test]
fn boxes_that_do_not_sum_are_no_units() {
    let name = "custom/m1n1k8.f32.f16.f16.f32/dot:block=4:F=23";
    let mut calls = 0u32;
    let mut flips = 0u64;
    let mut random = 1u64;
    let boxes: [(&str, Features); 5] = [
        ("does not sum", changed(name, |_, _| 0)),
        ("does not sum", changed(name, |x, _| x.c)),
        ("does not sum", changed(name, |_, d| if d == 0 { 0 } else { d & 0x7fff_ffff })),
        (
            "",
            changed(name, |_, _| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                random >> 32
            }),
        ),
        (
            "different ways",
            changed(name, |_, d| {
                calls += 1;
                let flip = calls.is_multiple_of(997);
                flips += u64::from(flip);
                d ^ u64::from(flip)
            }),
        ),
    ];
    for (why, found) in boxes {
        for feature in &found.all {
            let Finding::CannotTell(text) = &feature.value else { panic!("{}: {}", feature.name, feature.value) };
            assert!(text.contains(why), "{}: {text}", feature.name);
            assert!(!feature.evidence.is_empty(), "{}", feature.name);
        }
        assert!(found.tree.is_none());
    }
    assert!(flips > 0);
    assert!(tells(&changed(name, |_, d| d), "block"));
}

/// Volta's adder with fewer carry bits than five terms need; and a result of few bits is no wrap.
#[test]
fn a_wrap_shows_the_carry_bits() {
    for carry_bits in [1, 2, 3] {
        let wraps = NarrowSum { adder: Adder::Wraps { carry_bits }, ..NarrowSum::new(FusedDotAdd::VOLTA) };
        let narrow = MmaUnit::custom::<f16, f16, f32, f32>(wraps, Shape::new(1, 1, 4)).unwrap();
        let interface = BlackBox::interface(&Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32").unwrap());
        let f16s = |codes: &[u64]| codes.iter().map(|&x| f16::from_bits(x as u16)).collect::<Vec<_>>();
        let answer = move |x: &Input| {
            let d = narrow.try_dot_add(&f16s(&x.a), &f16s(&x.b), f32::from_bits(x.c as u32)).unwrap();
            u64::from(d.to_bits())
        };
        let found = features(&mut Custom(interface, answer)).unwrap();
        assert_eq!(value(&found, "carry_bits"), carry_bits.to_string());
        assert_eq!(found.get("carry_bits").unwrap().evidence.len(), if carry_bits < 3 { 2 } else { 1 });
    }
    let narrow = probed("custom/m1n1k16.f32.f16.f16.f32/dot:block=16:F=25:out-bits=10");
    assert_eq!(value(&narrow, "carry_bits"), "5");
}
