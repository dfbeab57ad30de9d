//! What every unit obeys whatever its parameters: products of one sum know no order, symmetric units know no sign, and
//! powers of two only move results.

use crate::rng::Rng;
use gemmulate::Unit;
use gemmulate::accumulate::{Pattern, Recipe};
use gemmulate::format::{FormatSpec, Overflow};
use gemmulate::round::Rounding;
use gemmulate::vectors::{Generator, Input};

fn sign(f: &FormatSpec) -> u64 {
    1 << (f.exponent_bits + f.fraction_bits + f.ignored_low_bits)
}

/// The products that one sum takes, if it takes all alike: those of a block, of one scale.
fn alike(unit: &Unit) -> Option<Vec<Vec<usize>>> {
    let scale_block = unit.scale.map_or(unit.shape.k, |rule| rule.block);
    let within = |pattern: Pattern, group: usize| {
        let mut groups = std::collections::BTreeMap::<_, Vec<usize>>::new();
        for (block, ks) in pattern.blocks(unit.shape.k, group).iter().enumerate() {
            ks.iter().for_each(|&k| groups.entry((block, k / scale_block)).or_default().push(k));
        }
        Some(groups.into_values().collect())
    };
    match unit.recipe? {
        Recipe::Generic(x) => within(x.pattern, x.block),
        Recipe::RoundDown(x) => within(Pattern::Runs, x.group),
        Recipe::GroupScaled(x) => within(Pattern::Runs, x.group),
        // Even and odd products meet in sums of their own, and sums two by two have an order.
        _ => None,
    }
}

/// Every unit whose sums are of more than two terms, on vectors of all kinds.
#[test]
fn products_of_one_sum_know_no_order() {
    let (mut rng, mut tried) = (Rng(1), 0);
    for unit in Unit::all() {
        let Some(groups) = alike(&unit) else { continue };
        for vector in Generator::new(&unit, 7).take(60) {
            let want = vector.eval(&unit).unwrap();
            let mut other = vector.clone();
            for group in &groups {
                // Fisher and Yates.
                for i in (1..group.len()).rev() {
                    let j = rng.below(i + 1);
                    other.input.a.swap(group[i], group[j]);
                    other.input.b.swap(group[i], group[j]);
                }
            }
            assert_eq!(other.eval(&unit).unwrap(), want, "{unit}: {vector} and {other}");
            tried += 1;
        }
    }
    assert!(tried > 15_000, "{tried}");
}

/// Of every family that takes block scales, whichever operand's scale it is.
#[test]
fn a_scale_that_is_nan_makes_nan() {
    let families =
        ["dot:block=8:F=25", "dot:block=4:exact=yes", "groups:G=4", "round-down:G=4", "round-down-grouped:G=4"];
    for (family, side) in families.iter().flat_map(|family| [0, 1].map(|side| (family, side))) {
        let unit = Unit::find(&format!("custom/m1n1k8.block4.f32.e4m3.e4m3.f32.ue8m0/{family}")).unwrap();
        let mut scales = [[127; 2]; 2];
        let d = |[a, b]: &[[u64; 2]; 2]| unit.dot_add_scaled_bits(&[0x38; 8], &[0x38; 8], 0, a, b).unwrap();
        assert_eq!(d(&scales), u64::from(8f32.to_bits()), "{unit}");
        scales[side][1] = 0xFF;
        assert!(unit.d.decode(d(&scales)).is_nan(), "{unit}: {:x}", d(&scales));
    }
}

/// All but the units that round down.
#[test]
fn symmetric_units_know_no_sign() {
    let mut tried = 0;
    for unit in Unit::all() {
        if matches!(unit.recipe, Some(Recipe::RoundDown(_) | Recipe::GroupedRoundDown(_))) {
            continue;
        }
        for vector in Generator::new(&unit, 8).take(60) {
            let want = vector.eval(&unit).unwrap();
            let mut negated = vector.clone();
            negated.input.a.iter_mut().for_each(|code| *code ^= sign(&unit.a));
            negated.input.c ^= sign(&unit.c);
            let found = negated.eval(&unit).unwrap();
            // A NaN's sign is fixed, and that of a zero sum another matter.
            let x = unit.d.decode(want);
            if !x.is_nan() && !x.is_zero() {
                assert_eq!(found, want ^ sign(&unit.d), "{unit}: {vector}");
                tried += 1;
            }
        }
    }
    assert!(tried > 10_000, "{tried}");
}

/// Twice A and c is twice D, where no number is near the ends of its range.
#[test]
fn powers_of_two_move_results() {
    let (mut rng, mut tried) = (Rng(3), 0);
    let twice = |f: &FormatSpec, code: u64| {
        f.encode_f64(2.0 * f.to_f64(code), Rounding::NearestEven, Overflow::Ieee).expect("a number")
    };
    for unit in Unit::all() {
        let mut draw = |f: &FormatSpec| {
            let (low, high) = (f.emin().max(-2), (f.max().exponent - 1).min(2));
            loop {
                let code = rng.next() & (sign(f) | (sign(f) - 1)) & !((1 << f.ignored_low_bits) - 1);
                let x = f.decode(code);
                if x.is_finite() && !x.is_zero() && !x.is_subnormal() && (low..=high).contains(&x.exponent) {
                    return code;
                }
            }
        };
        let one = |f: &FormatSpec| f.encode_f64(1.0, Rounding::NearestEven, Overflow::Ieee).unwrap();
        for _ in 0..40 {
            let scales = vec![unit.scale.map_or(0, |rule| one(&rule.format)); unit.scales()];
            let [a, b] = [unit.a, unit.b].map(|f| (0..unit.shape.k).map(|_| draw(&f)).collect::<Vec<u64>>());
            let c = draw(&unit.c);
            let x = Input { a, b, c, scale_a: scales.clone(), scale_b: scales };
            let doubled =
                Input { a: x.a.iter().map(|&x| twice(&unit.a, x)).collect(), c: twice(&unit.c, x.c), ..x.clone() };
            let [once, twice] = [&x, &doubled].map(|x| unit.d.to_f64(x.eval(&unit).unwrap()));
            // Small differences of large numbers may be subnormal in narrow formats.
            if once.abs() > f64::from(unit.d.emin() + 8).exp2() {
                assert_eq!(twice, 2.0 * once, "{unit}: {x}");
                tried += 1;
            }
        }
    }
    assert!(tried > 12_000, "{tried}");
}
