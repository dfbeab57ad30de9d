//! Probing: what the papers found, found again by the tests.

use crate::custom::Random;
use gemmulate::Unit;
use gemmulate::accumulate::{Adder, CPosition, FusedDotAdd, NarrowSum, Recipe};
use gemmulate::format::F32;
use gemmulate::prelude::{MmaUnit, Shape};
use gemmulate::probe::{BlackBox, Features, Input, Interface, Node, SummationTree, Value, features};
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

/// Products too narrow to lose one another still tell which of them share a sum, and in which order sums come, by what
/// becomes of c's last bit: the tree is the unit's, or none is claimed.
#[test]
fn trees_of_narrow_products_are_the_units() {
    let mut random = Random(0x7EE5);
    let mut told = 0;
    for _ in 0..240 {
        let mut one_of = |values: &[&'static str]| random.pick(values);
        let (a, b) = (one_of(&["e2m1", "e3m2", "e2m3"]), one_of(&["e2m1", "e2m3"]));
        let (d, c, out) =
            (one_of(&["f32", "f32", "f16"]), one_of(&["with", "with", "late", "last"]), one_of(&["rz", "rne", "ru"]));
        let (pattern, sticky) = (one_of(&["runs", "even-odd", "pairs"]), one_of(&["no", "no", "yes"]));
        let (k, block) = (2 + random.below(11) as usize, 1 + random.below(8) as usize);
        let f = 8 + random.below(30);
        let name = format!(
            "custom/m1n1k{k}.{d}.{a}.{b}.{d}/dot:block={block}:pattern={pattern}:F={f}:c={c}:out={out}:sticky={sticky}"
        );
        // Blocks that a pattern cannot deal out are refused.
        let Ok(mut unit) = Unit::find(&name) else { continue };
        let Some(Recipe::Generic(g)) = unit.recipe else { panic!("{name}") };
        let mut blocks = g.pattern.blocks(k, block);
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        let term = |products: &[usize]| products.iter().map(|p| format!("p{p}")).collect::<Vec<_>>().join(" + ");
        let chain = |start: Option<&str>| {
            blocks.iter().fold(start.map(str::to_owned), |sum, block| match (sum, c) {
                (Some(sum), "late") if block.len() > 1 => Some(format!("({sum} + ({}))", term(block))),
                (Some(sum), _) => Some(format!("({sum} + {})", term(block))),
                (None, _) if block.len() == 1 => Some(term(block)),
                (None, _) => Some(format!("({})", term(block))),
            })
        };
        let want = if c == "last" { chain(None).map(|sum| format!("(c + {sum})")) } else { chain(Some("c")) };
        let found = features(&mut unit).unwrap();
        if let Some(tree) = found.tree {
            told += 1;
            assert_eq!(Some(tree.to_string()), want, "{name}");
            assert!(!tree.evidence.is_empty(), "{name}");
        } else {
            for feature in ["block", "carry_bits", "products_normalised"] {
                assert!(matches!(found.value(feature), Some(Value::CannotTell(_))), "{name}: {feature}");
            }
        }
    }
    assert!(told > 120, "{told}");
}

/// A box whose answers a function makes of the inputs.
struct Custom<F>(Interface, F);

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
    !matches!(found.value(name).unwrap(), Value::CannotTell(_))
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

/// Blocks of neighbours that do not follow one another.
#[test]
fn blocks_that_are_summed_out_of_order_are_interleaved() {
    for (k, block) in [(27, 2), (12, 2), (16, 4), (12, 1)] {
        for (pattern, want) in [("runs", "no"), ("pairs", "pairs"), ("even-odd", "even-odd")] {
            let unit = format!("custom/m1n1k{k}.f32.f16.f16.f32/dot:block={block}:pattern={pattern}:F=20:c=last");
            assert_eq!(value(&probed(&unit), "interleave"), want, "{unit}");
        }
    }
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
            (Value::Number(n), Some(want)) => {
                assert_eq!(*n, want, "{unit}");
                let [above, below] = feature.evidence.as_slice() else { panic!("{unit}: {:?}", feature.evidence) };
                assert!(above.shows.ends_with(&format!("a floor of {}", want + 1)), "{unit}: {}", above.shows);
                assert!(below.shows.ends_with(&format!("a floor of {}", want - 1)), "{unit}: {}", below.shows);
            }
            (found, want) => assert!(want.is_none() && !matches!(found, Value::Number(_)), "{unit}: {found}"),
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
    ] {
        let found = probed(unit);
        let feature = found.get("e_zero").unwrap();
        assert!(matches!(feature.value, Value::CannotTell(_)), "{unit}: {}", feature.value);
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
            let Value::CannotTell(text) = &feature.value else { panic!("{}: {}", feature.name, feature.value) };
            assert!(text.contains(why), "{}: {text}", feature.name);
            assert!(!feature.evidence.is_empty(), "{}", feature.name);
        }
        assert!(found.tree.is_none());
    }
    assert!(flips > 0);
    assert!(tells(&changed(name, |_, d| d), "block"));
}

/// c is late wherever it is added to a finished sum of products: the first block's, or all blocks'.
#[test]
fn c_is_late_before_and_after_a_chain() {
    for (recipe, want) in [
        ("dot:block=4:F=25:c=late", "late"),
        ("dot:block=4:F=25:c=last", "late"),
        ("dot:block=4:F=25", "with"),
        ("dot:block=1:F=25", "first"),
        ("pairwise:G=4", "late"),
    ] {
        assert_eq!(value(&probed(&format!("custom/m1n1k8.f32.f16.f16.f32/{recipe}")), "c_position"), want, "{recipe}");
    }
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

/// p0 + p4, p1 + p5, ...: neither pairs nor even and odd.
#[test]
fn a_stride_is_no_interleave_of_pairs() {
    let interface = BlackBox::interface(&Unit::find("custom/m1n1k8.f32.f16.f16.f32/pairwise:G=8").unwrap());
    let number = |x: u64| f16::from_bits(x as u16).to_f32();
    let strided = move |x: &Input| {
        let mut terms: Vec<f32> = x.a.iter().zip(&x.b).map(|(&a, &b)| number(a) * number(b)).collect();
        while terms.len() > 1 {
            let high = terms.split_off(terms.len() / 2);
            terms.iter_mut().zip(high).for_each(|(x, y)| *x += y);
        }
        u64::from((terms[0] + f32::from_bits(x.c as u32)).to_bits())
    };
    let found = features(&mut Custom(interface, strided)).unwrap();
    let Some(SummationTree { root: Node::Sum(_), .. }) = &found.tree else { panic!("a tree") };
    assert_eq!(value(&found, "interleave"), "[[0, 4], [1, 5], [2, 6], [3, 7]]");
    for (pattern, want) in [("runs", "no"), ("pairs", "pairs"), ("even-odd", "even-odd")] {
        let unit = format!("custom/m1n1k16.f32.f16.f16.f32/dot:block=4:F=25:pattern={pattern}");
        assert_eq!(value(&probed(&unit), "interleave"), want, "{pattern}");
    }
}

/// The tree that a text form says.
fn tree_of(unit: &Unit) -> String {
    let Some(Recipe::Generic(g)) = unit.recipe else { panic!("a dot") };
    let mut blocks = g.pattern.blocks(unit.shape.k, g.block);
    blocks.iter_mut().for_each(|block| block.sort_unstable());
    let chain = |start: Option<String>| {
        blocks.iter().fold(start, |sum, block| {
            let terms = block.iter().map(|p| format!("p{p}")).collect::<Vec<_>>().join(" + ");
            Some(match sum {
                Some(sum) if g.c == CPosition::Late && block.len() > 1 => format!("({sum} + ({terms}))"),
                Some(sum) => format!("({sum} + {terms})"),
                None if block.len() == 1 => terms,
                None => format!("({terms})"),
            })
        })
    };
    match g.c {
        CPosition::Last => format!("(c + {})", chain(None).unwrap()),
        _ => chain(Some("c".into())).unwrap(),
    }
}

/// Sums of products whose terms are all kept, but rounded to a narrow d before c is added, are sums of their own.
#[test]
fn blocks_beside_a_late_c_are_sums_of_their_own() {
    for (unit, carry_bits) in [
        ("custom/m1n1k8.f16.e5m2.e5m2.f16/dot:block=5:F=28:align=rz:out=rd:normalise=yes:c=late", "3"),
        ("custom/m1n1k16.f16.f16.f16.f16/dot:block=8:F=31:align=ru:c=late:out=rz", "3"),
        ("custom/m1n1k8.f32.e3m2.e3m2.f32/dot:block=7:F=9:align=rna:sticky=yes:out=rne:normalise=yes:c=late", "3"),
        ("custom/m1n1k9.f16.e3m2.e3m2.f16/dot:block=4:F=25:align=rne:out=ru:c=late:pattern=pairs", "2"),
    ] {
        let found = probed(unit);
        assert_eq!(value(&found, "tree"), tree_of(&Unit::find(unit).unwrap()), "{unit}");
        assert_eq!(value(&found, "c_position"), "late", "{unit}");
        assert_eq!(value(&found, "carry_bits"), carry_bits, "{unit}");
        let pattern = if unit.contains("pairs") { "pairs" } else { "no" };
        assert_eq!(value(&found, "interleave"), pattern, "{unit}");
    }
}

/// Trees of all kinds of blocks, with results narrower and wider than what sums keep: the unit's, or none.
#[test]
fn trees_are_the_units_or_none() {
    let mut random = Random(0x7EE6);
    let (mut told, mut asked) = (0, 0);
    while asked < 150 {
        let mut one_of = |values: &[&'static str]| random.pick(values);
        let formats = ["f16", "bf16", "e5m2", "e4m3", "e3m2", "e2m3", "e2m1"];
        let (a, b, d) = (one_of(&formats), one_of(&formats), one_of(&["f16", "bf16", "f32"]));
        let (c, out) = (one_of(&["with", "late", "late", "last"]), one_of(&["rz", "rne", "rd", "ru"]));
        let (align, pattern) = (one_of(&["rz", "rd", "ru", "rne", "rna"]), one_of(&["runs", "even-odd", "pairs"]));
        let (sticky, normalise) = (one_of(&["no", "no", "yes"]), one_of(&["no", "no", "yes"]));
        let (k, block, f) = (2 + random.below(13), 1 + random.below(8), 8 + random.below(33));
        let name = format!(
            "custom/m1n1k{k}.{d}.{a}.{b}.{d}/dot:block={block}:F={f}:align={align}:out={out}:c={c}:pattern={pattern}\
             :sticky={sticky}:normalise={normalise}"
        );
        let Ok(unit) = Unit::find(&name) else { continue };
        asked += 1;
        let found = probed(&name);
        let tree = value(&found, "tree");
        if !tree.starts_with("cannot tell") {
            told += 1;
            assert_eq!(tree, tree_of(&unit), "{name}");
            let size = value(&found, "block");
            assert!(size.starts_with("cannot tell") || size == block.min(k).to_string(), "{name}: {size}");
        }
    }
    assert!(told > 130, "{told}");
}

/// Scales bring products apart that their formats would not.
#[test]
fn scales_show_the_sums_of_narrow_products() {
    for (unit, bits) in [
        ("custom/m1n1k32.block8.f32.e3m2.e2m3.f32.ue8m0/dot:block=32:F=17:c=last", "17"),
        ("custom/m1n1k64.block16.f32.e3m2.e2m3.f32.ue8m0/dot:block=32:F=19:c=late:align=rne", "19"),
    ] {
        let found = probed(unit);
        assert_eq!(value(&found, "tree"), tree_of(&Unit::find(unit).unwrap()), "{unit}");
        assert_eq!(value(&found, "block"), "32", "{unit}");
        assert_eq!(value(&found, "c_position"), "late", "{unit}");
        assert_eq!(value(&found, "fraction_bits"), bits, "{unit}");
    }
}

/// A y that a floor loses where it is alone proves nothing beside X; and sums that lose a small c are not called exact.
#[test]
fn losses_count_where_nothing_else_explains_them() {
    let found = probed("custom/m1n1k16.f32.f16.f16.f32/dot:block=8:F=24:e_zero=emin+140");
    for (name, want) in [("block", "8"), ("chain", "2"), ("c_position", "with"), ("fraction_bits", "24")] {
        assert_eq!(value(&found, name), want, "{name}");
    }
    let unit = "custom/m1n1k16.f32.e3m2.e3m2.f32/dot:block=4:F=21:align=ru:out=rne:normalise=yes:pattern=even-odd";
    let found = probed(&format!("{unit}:out-bits=20"));
    assert!(!value(&found, "tree").contains("exact"), "{}", value(&found, "tree"));
    // Two products and one more: a block of two and the rest, or three of one.
    let found = probed("custom/m1n1k3.bf16.f16.e4m3.bf16/dot:block=2:F=8:c=last");
    assert!(value(&found, "block").starts_with("cannot tell"), "{}", value(&found, "block"));
}
