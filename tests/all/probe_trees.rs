//! Summation trees, and what follows from them: blocks, chains, interleaving, where c enters.

use crate::custom::Random;
use crate::probe::{Custom, probed, value};
use gemmulate::Unit;
use gemmulate::accumulate::{CPosition, Recipe};
use gemmulate::probe::{BlackBox, Finding, Input, Node, SummationTree, features};
use half::f16;

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
        let want = tree_of(&unit);
        let found = features(&mut unit).unwrap();
        if let Some(tree) = found.tree {
            told += 1;
            assert_eq!(tree.to_string(), want, "{name}");
            assert!(!tree.evidence.is_empty(), "{name}");
        } else {
            for feature in ["block", "carry_bits", "products_normalised"] {
                assert!(matches!(found.value(feature), Some(Finding::CannotTell(_))), "{name}: {feature}");
            }
        }
    }
    assert!(told > 120, "{told}");
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

/// A floor among products of few powers of two takes no bits from F, and hides no order of sums that c shows.
#[test]
fn floors_among_narrow_products_are_no_widths() {
    for c in ["with", "late"] {
        // At 2^6, the largest product, F bits are kept above any of these floors but the last two.
        for floor in [20, 60, 100, 126, 130, 131, 132, 135] {
            let unit = format!("custom/m1n1k13.f32.e3m2.e2m3.f32/dot:block=6:F=20:out=rne:c={c}:e_zero=emin+{floor}");
            let found = probed(&unit);
            let bits = value(&found, "fraction_bits");
            // A late c is not aligned with products, which fit into 20 bits.
            assert!(
                (c == "with" && bits == "20") || ((c == "late" || floor > 131) && bits.starts_with("cannot tell")),
                "{unit}: {bits}"
            );
            let (tree, want) = (value(&found, "tree"), tree_of(&Unit::find(&unit).unwrap()));
            assert!(tree == want || (floor > 100 && tree.starts_with("cannot tell")), "{unit}: {tree}");
        }
    }
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
