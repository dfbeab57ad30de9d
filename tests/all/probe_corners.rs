//! Probing where signs, places in a chain and kinds of addition decide, as an examiner's own boxes showed.

use crate::probe::{probed, value};
use gemmulate::Error;
use gemmulate::Unit;
use gemmulate::probe::{BlackBox, Input, Interface, features};

/// A unit that follows IEEE 754 but where a rule of its own has another answer.
struct Own<F>(Unit, F);

impl<F: Fn(&Input) -> Option<u64>> BlackBox for Own<F> {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let usual = self.0.dot_adds(inputs)?;
        Ok(inputs.iter().zip(usual).map(|(x, d)| self.1(x).unwrap_or(d)).collect())
    }
}

const NAN: u64 = 0x7e00;
const INF: u64 = 0x7c00;
const MINUS_INF: u64 = 0xfc00;
const PLUS: u64 = 0x7f80_0000;

/// Either operand, every k, both signs, infinities that meet as products: one rule broken, and it is said.
#[test]
fn special_values_are_asked_for_everywhere() {
    type Rule = fn(&Input) -> Option<u64>;
    let rules: [(Rule, &str); 5] = [
        (|x| x.a.iter().zip(&x.b).any(|(&a, &b)| a == NAN && b == 0).then_some(0), "NaN x 0 gives a number"),
        (|x| x.a.iter().zip(&x.b).any(|(&a, &b)| a == 0 && b == INF).then_some(0), "0 x Inf gives a number"),
        (|x| x.b.contains(&NAN).then_some(0), "1 x NaN gives a number"),
        (|x| (x.a.contains(&INF) && x.a.contains(&MINUS_INF)).then_some(PLUS), "Inf x 1 + -Inf x 1 gives Inf"),
        (|x| x.a.iter().skip(1).any(|&a| a == MINUS_INF).then_some(PLUS), "-Inf x 1 at k = 1 and 14 more gives Inf"),
    ];
    for (rule, said) in rules {
        let mut own = Own(Unit::find("hopper/wgmma.m64n8k16.f32.f16.f16").unwrap(), rule);
        let found = features(&mut own).unwrap();
        assert!(
            value(&found, "special_values").split("; ").any(|x| x == said),
            "{said}: {}",
            value(&found, "special_values")
        );
        let wrong = found.get("special_values").unwrap().evidence.iter().find(|o| own.1(&o.input).is_some()).unwrap();
        assert_eq!(own.dot_adds(std::slice::from_ref(&wrong.input)).unwrap(), [wrong.d]);
    }
    assert_eq!(value(&probed("hopper/wgmma.m64n8k16.f32.f16.f16"), "special_values"), "as in IEEE 754");
}

/// A sum of products before a late c overflows by the unit's rounding, beside c by the addition's.
#[test]
fn sums_before_a_late_c_overflow_by_their_own_rule() {
    let found = probed("custom/m1n1k8.f16.f16.f16.f16/dot:block=4:F=24:out=rd:c=late");
    let told = value(&found, "overflow");
    let both =
        "results overflow to infinity beside c, sums of products to the largest number (positive), infinity (negative)";
    assert!(told.contains(both), "{told}");
}

/// A directed rounding overflows in one direction.
#[test]
fn overflow_has_a_sign() {
    let of = |out: &str| {
        value(&probed(&format!("custom/m1n1k16.f32.bf16.bf16.f32/dot:block=16:F=25:out={out}")), "overflow")
    };
    let up = "results overflow to infinity (positive), the largest number (negative)";
    assert!(of("ru").contains(up), "{}", of("ru"));
    let down = "results overflow to the largest number (positive), infinity (negative)";
    assert!(of("rd").contains(down), "{}", of("rd"));
    assert!(of("rne").contains("results overflow to infinity; "), "{}", of("rne"));
}

/// A block's sum may be as large as it likes, what it leaves to the next is a result.
#[test]
fn sums_overflow_from_block_to_block() {
    let of = |unit: &str| value(&probed(unit), "overflow");
    let chain = of("ampere/mma.m16n8k16.f32.bf16.bf16.f32");
    let want = "intermediate sums do not overflow within a block, overflow to infinity from block to block; ";
    assert!(chain.starts_with(want), "{chain}");
    let block = of("ampere/mma.m16n8k8.f32.bf16.bf16.f32");
    assert!(block.starts_with("intermediate sums do not overflow; "), "{block}");
}

/// What reads a subnormal c as zero is not what makes results zero.
#[test]
fn subnormals_are_flushed_in_or_out() {
    for (rules, want) in [
        ("block=8:F=25:flush-in=yes", "flushed to zero: a, b, c, lone c"),
        (
            "block=16:F=25:flush-out=yes",
            "flushed to zero: lone c, product of normal numbers, difference of normal numbers",
        ),
        ("block=8:F=25:flush-in=yes:flush-out=yes", "flushed to zero"),
        ("block=8:F=25", "supported"),
    ] {
        let found = probed(&format!("custom/m1n1k16.f32.bf16.bf16.f32/dot:{rules}"));
        assert_eq!(value(&found, "subnormals"), want, "{rules}");
    }
}

/// Two terms that are aligned first are not one exact sum, rounded: the smaller one may lose more than the larger
/// gains.
#[test]
fn two_terms_that_are_aligned_need_not_be_monotonic() {
    for (unit, lower, higher) in [
        (
            "custom/m1n1k2.f32.bf16.bf16.f32/dot:block=1:F=21:align=rd:out=rz:c=last",
            "1bff,1c00\t1880,1880\t80ffffff",
            "1c00,1c00\t1880,1880\t80ffffff",
        ),
        (
            "custom/m1n1k2.f32.e4m3.e4m3.f32/dot:block=2:F=21:align=rne:sticky=yes:out=rd:c=last",
            "70,a0\t77,20\t3c000008",
            "70,9f\t77,20\t3c000008",
        ),
    ] {
        let unit = Unit::find(unit).unwrap();
        let read = |line: &str| {
            let codes = |text: &str| text.split(',').map(|x| u64::from_str_radix(x, 16).unwrap()).collect::<Vec<_>>();
            let [a, b, c] = line.split('\t').map(codes).collect::<Vec<_>>().try_into().unwrap();
            unit.d.to_f64(unit.dot_add_bits(&a, &b, c[0]).unwrap())
        };
        assert!(read(lower) > read(higher), "{unit}: a larger operand, a smaller result");
        assert_ne!(value(&probed(&unit.to_string()), "monotonic"), "yes", "{unit}");
    }
    for exact in ["ampere/mma.m8n8k4.f64.f64.f64.f64", "cdna2/v_mfma_f32_32x32x8f16"] {
        assert_eq!(value(&probed(exact), "monotonic"), "yes", "{exact}");
    }
}

/// What comes from an earlier sum is rounded there, not for want of bits in the last one.
#[test]
fn an_earlier_sums_rounding_is_no_normalisation() {
    for unit in [
        "custom/m1n1k9.bf16.bf16.bf16.bf16/dot:block=6:F=17:align=rne:out=rz:c=last:pattern=pairs",
        "custom/m1n1k16.bf16.tf32.tf32.bf16/dot:block=13:F=18:align=rne:sticky=yes:out=rne:c=last",
    ] {
        assert_eq!(value(&probed(unit), "partial_sums_normalised"), "no", "{unit}");
    }
}

/// fp4's groups of 16 are exact sums, whatever the scales; a sum of fp8 has none.
#[test]
fn groups_of_scaled_products_are_told_apart() {
    let groups = |size: usize| format!("no; in a block, groups of {size} k apart");
    for (unit, want) in [
        ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", groups(16)),
        ("rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0", groups(16)),
        ("custom/m1n1k64.block32.f32.e2m1.e2m1.f32.ue8m0/groups:G=4:F=12:out=rne", groups(4)),
        ("custom/m1n1k64.block32.f32.e2m1.e2m1.f32.ue8m0/dot:block=64:F=12", "no".into()),
        ("rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0", "no".into()),
    ] {
        assert_eq!(value(&probed(unit), "interleave"), want, "{unit}");
    }
}

/// A chain of FMA from +0, c added after it: what underflows to -0 keeps its sign beside c = -0 only.
#[derive(Debug)]
struct LateC(Unit);

impl BlackBox for LateC {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let first: Vec<Input> = inputs.iter().map(|x| Input { c: 0, ..x.clone() }).collect();
        let number = |d: u64| f64::from_bits(d);
        let sums = self.0.dot_adds(&first)?;
        Ok(sums.into_iter().zip(inputs).map(|(d, x)| (number(d) + number(x.c)).to_bits()).collect())
    }
}

#[test]
fn underflow_is_tried_among_zeros_of_both_signs() {
    let mut late = LateC(Unit::find("custom/m1n1k5.f64.f64.f64.f64/fma").unwrap());
    let found = features(&mut late).unwrap();
    assert_eq!(value(&found, "negative_zero"), "from underflow, not from zeros");
    assert!(found.get("negative_zero").unwrap().evidence.iter().any(|o| o.d == 1 << 63));
}

/// A product of 2^128 is no infinity where a single product of that size, less c, is a number.
#[test]
fn the_product_limit_needs_one_large_term() {
    for (unit, want) in [
        ("custom/m1n1k1.f32.f32.f32.f32/fma", "none"),
        ("custom/m1n1k1.f32.bf16.bf16.f32/dot:block=1:F=24:limit=yes", "2^128"),
    ] {
        assert_eq!(value(&probed(unit), "product_limit"), want, "{unit}");
    }
}

/// A box that computes by itself, with the formats and K of a unit.
struct Computed(Unit, fn(&Unit, &Input) -> u64);

impl BlackBox for Computed {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        Ok(inputs.iter().map(|x| self.1(&self.0, x)).collect())
    }
}

impl Computed {
    fn tells(unit: &str, rule: fn(&Unit, &Input) -> u64, feature: &str) -> String {
        let mut own = Self(Unit::find(unit).unwrap(), rule);
        value(&features(&mut own).unwrap(), feature)
    }
}

fn singles(unit: &Unit, x: &Input) -> (Vec<[f32; 2]>, f32) {
    let read = |(&a, &b): (&u64, &u64)| [unit.a.to_f64(a) as f32, unit.b.to_f64(b) as f32];
    (x.a.iter().zip(&x.b).map(read).collect(), f32::from_bits(x.c as u32))
}

/// The last product is added first: c beside product 0 is a result on the way, and flushed as such.
#[test]
fn c_is_not_flushed_where_a_product_makes_it_normal() {
    let reversed = |unit: &Unit, x: &Input| {
        let (products, c) = singles(unit, x);
        let flushed = |d: f32| if d.is_subnormal() { 0.0 } else { d };
        u64::from(products.iter().rev().fold(c, |sum, [a, b]| flushed(sum + a * b)).to_bits())
    };
    let found = Computed::tells("custom/m1n1k4.f32.f32.f32.f32/fma", reversed, "subnormals");
    assert_eq!(found, "flushed to zero: lone c, product of normal numbers, difference of normal numbers");
}

/// Of two products one is rounded, and may overflow, before the other is added to it.
#[test]
fn a_limit_of_some_products_is_not_called_none() {
    let pairs = |unit: &Unit, x: &Input| {
        let (products, c) = singles(unit, x);
        let pair = |p: &[[f32; 2]]| p[1][0].mul_add(p[1][1], p[0][0] * p[0][1]);
        u64::from(products.chunks(2).fold(c, |sum, two| sum + pair(two)).to_bits())
    };
    let found = Computed::tells("custom/m1n1k4.f32.bf16.bf16.f32/pairwise:G=2", pairs, "product_limit");
    assert!(found.starts_with("cannot tell: one of two such terms"), "{found}");
}

/// Groups of products, each aligned to its own largest exponent at 22 bits, then all at 26.
fn in_groups(unit: &Unit, x: &Input, group_of: fn(usize) -> usize) -> u64 {
    in_groups_of(unit, x, [22, 26], group_of)
}

/// The same with other widths, of groups and of all.
fn in_groups_of(unit: &Unit, x: &Input, [bits, all]: [i32; 2], group_of: fn(usize) -> usize) -> u64 {
    let cut = |value: f64, bits: i32| (value / f64::from(bits).exp2()).trunc() * f64::from(bits).exp2();
    let exponent = |f: &gemmulate::format::FormatSpec, code: u64| f.decode(code).exponent;
    let c = f64::from(f32::from_bits(x.c as u32));
    let mut terms: Vec<(f64, i32)> = (c != 0.0).then_some((c, exponent(&unit.c, x.c))).into_iter().collect();
    for group in 0..8 {
        let of = |k: usize| {
            let value = unit.a.to_f64(x.a[k]) * unit.b.to_f64(x.b[k]);
            (value, exponent(&unit.a, x.a[k]) + exponent(&unit.b, x.b[k]))
        };
        let products: Vec<(f64, i32)> =
            (0..x.a.len()).filter(|&k| group_of(k) == group).map(of).filter(|(v, _)| *v != 0.0).collect();
        let Some(largest) = products.iter().map(|(_, e)| *e).max() else { continue };
        terms.push((products.iter().map(|(v, _)| cut(*v, largest - bits)).sum(), largest));
    }
    let largest = terms.iter().map(|(_, e)| *e).max().unwrap_or(0);
    let sum: f64 = terms.iter().map(|(v, _)| cut(*v, largest - all)).sum();
    let nearest = sum as f32;
    let above = f64::from(nearest.abs()) > sum.abs() && nearest.is_finite();
    u64::from(if above { nearest.to_bits() - 1 } else { nearest.to_bits() })
}

/// What is said of groups is said of those that were told apart.
#[test]
fn groups_of_products_are_named_where_they_are_known() {
    type Rule = fn(&Unit, &Input) -> u64;
    let rules: [(Rule, &str, &str); 4] = [
        (|u, x| in_groups(u, x, |k| k / 4), "more than two groups apart, one of them [0, 1, 2, 3]", "(products)"),
        (|u, x| in_groups(u, x, |k| k / 8), "those of [8, 9, 10, 11, 12, 13, 14, 15] apart", "(products)"),
        (|u, x| in_groups(u, x, |k| k % 2), "even and odd k apart", "(products)"),
        (|u, x| in_groups(u, x, |k| k / 2 % 2), "some products apart from others", "(some products)"),
    ];
    for (rule, groups, place) in rules {
        let mut own = Computed(Unit::find("custom/m1n1k16.f32.f16.f16.f32/dot:block=16:F=26").unwrap(), rule);
        let found = features(&mut own).unwrap();
        assert_eq!(value(&found, "interleave"), format!("no; in a block, {groups}"));
        assert!(value(&found, "fraction_bits").contains(place), "{groups}: {}", value(&found, "fraction_bits"));
    }
    let modulo = |unit: &Unit, x: &Input| in_groups(unit, x, |k| k % 4);
    let found = Computed::tells("custom/m1n1k16.f32.f16.f16.f32/dot:block=16:F=26", modulo, "interleave");
    assert_eq!(found, "no; in a block, some products apart from others");
}

/// Groups as wide as the whole are told by two products that are lost beside X one by one, and not together.
#[test]
fn groups_that_keep_as_many_bits_are_told_apart() {
    type Rule = fn(&Unit, &Input) -> u64;
    let rules: [(Rule, &str); 4] = [
        (|u, x| in_groups_of(u, x, [26, 26], |k| k / 2), "no; in a block, groups of 2 k apart"),
        (|u, x| in_groups_of(u, x, [26, 26], |k| k / 4), "no; in a block, groups of 4 k apart"),
        (
            |u, x| in_groups_of(u, x, [26, 26], |k| k % 2),
            "no; in a block, those of [[0, 2, 4, 6, 8, 10, 12, 14], [1, 3, 5, 7, 9, 11, 13, 15]] apart",
        ),
        (|u, x| in_groups_of(u, x, [26, 26], |_| 0), "no"),
    ];
    for formats in ["f16.f16", "e4m3.e4m3", "e2m1.e2m1"] {
        for (rule, want) in rules {
            let unit = format!("custom/m1n1k16.f32.{formats}.f32/dot:block=16:F=26");
            assert_eq!(Computed::tells(&unit, rule, "interleave"), want, "{formats}");
        }
    }
}

/// Groups that keep more bits than the whole: the first two products, in two groups, show no rule of alignment.
#[test]
fn groups_that_keep_more_bits_are_told_apart() {
    type Rule = fn(&Unit, &Input) -> u64;
    let in_one = "20";
    let rules: [(Rule, &str, &str); 3] = [
        (
            |u, x| in_groups_of(u, x, [24, 20], |k| k % 2),
            "some products apart from others",
            "20 (some products), no single rule (others), 20 (c)",
        ),
        (|u, x| in_groups_of(u, x, [24, 20], |k| k / 8), "those of [8, 9, 10, 11, 12, 13, 14, 15] apart", in_one),
        (
            |u, x| in_groups_of(u, x, [24, 20], |k| k / 4),
            "more than two groups apart, one of them [0, 1, 2, 3]",
            in_one,
        ),
    ];
    for formats in ["f16.f16", "e4m3.e4m3"] {
        for (rule, apart, bits) in rules {
            let unit = Unit::find(&format!("custom/m1n1k16.f32.{formats}.f32/dot:block=16:F=26")).unwrap();
            let found = features(&mut Computed(unit, rule)).unwrap();
            assert_eq!(value(&found, "interleave"), format!("no; in a block, {apart}"), "{formats}");
            assert_eq!(value(&found, "fraction_bits"), bits, "{formats}");
        }
    }
}

/// Sums of even and odd k that meet c without having been rounded may lose more beside it than they gained.
#[test]
fn sums_that_are_not_rounded_are_not_called_monotonic() {
    let rule = |unit: &Unit, x: &Input| {
        let (products, c) = singles(unit, x);
        let exponent = |x: f64| (x.abs().to_bits() >> 52) as i32 - 1023;
        let sum = |terms: &[f64]| {
            let largest = terms.iter().filter(|x| **x != 0.0).map(|&x| exponent(x)).max().unwrap_or(0);
            let last = f64::from(largest - 24).exp2();
            terms.iter().map(|x| (x / last).trunc() * last).sum::<f64>()
        };
        let products: Vec<f64> = products.iter().map(|[a, b]| f64::from(a * b)).collect();
        let of = |odd: usize| sum(&products.iter().copied().skip(odd).step_by(2).collect::<Vec<_>>());
        let sum = sum(&[of(0), of(1), c.into()]);
        let nearest = sum as f32;
        let above = f64::from(nearest.abs()) > sum.abs() && nearest.is_finite();
        u64::from(if above { nearest.to_bits() - 1 } else { nearest.to_bits() })
    };
    let found = Computed::tells("custom/m1n1k16.f32.f16.f16.f32/dot:block=16:F=24", rule, "monotonic");
    assert!(found.starts_with("cannot tell"), "{found}");
}

/// CDNA3's sum of products and c, with what is below its last bit cut off and not rounded down: 32 bits are kept beside
/// c, and then 31 of the total, rounded down. Together that is 31, rounded down above c and to nearest below it.
#[test]
fn what_is_kept_beside_c_may_depend_on_the_sign() {
    let truncated = |unit: &Unit, x: &Input| {
        let (products, c) = singles(unit, x);
        let exponent = |x: f64| if x == 0.0 { -126 } else { (x.abs().to_bits() >> 52) as i32 - 1023 };
        let cut = |x: f64, last: i32| (x / f64::from(last).exp2()).trunc() * f64::from(last).exp2();
        let products: Vec<f64> = products.iter().map(|[a, b]| f64::from(a * b)).collect();
        let e_dot = products.iter().map(|&x| exponent(x)).max().unwrap();
        let e_max = e_dot.max(exponent(f64::from(c)));
        let dot: f64 = products.iter().map(|&x| cut(x, e_dot - 24)).sum();
        let sum = cut(dot, e_max - 32) + cut(f64::from(c), e_max - 24);
        let last = f64::from(exponent(sum) - 31).exp2();
        u64::from((((sum / last).floor() * last) as f32).to_bits())
    };
    let unit = Unit::find("custom/m1n1k8.f32.f16.f16.f32/round-down:G=8").unwrap();
    let found = features(&mut Computed(unit, truncated)).unwrap();
    let beside = |plus: &str, minus: &str| {
        let larger = "products beside a larger positive c";
        format!("{plus} (positive {larger}), {minus} (negative {larger})")
    };
    assert_eq!(value(&found, "fraction_bits"), format!("24 (products), 24 (c), {}", beside("31", "31")));
    let rounding = value(&found, "alignment_rounding");
    assert_eq!(rounding, format!("rz (products), rz (c), {}", beside("rz or rd", "rna or rnd")));
}

/// Products cut to 24 bits among themselves, their sum by `join` beside c, which is cut to 24 bits or (late) kept
/// whole.
struct Joined(Unit, bool, fn(f64, i32) -> f64);

impl BlackBox for Joined {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        Ok(inputs.iter().map(|x| joined(&self.0, x, self.1, self.2)).collect())
    }
}

fn joined(unit: &Unit, x: &Input, late: bool, join: fn(f64, i32) -> f64) -> u64 {
    let (products, c) = singles(unit, x);
    let (products, c): (Vec<f64>, f64) = (products.iter().map(|[a, b]| f64::from(a * b)).collect(), c.into());
    let exponent = |x: f64| if x == 0.0 { -126 } else { (x.abs().to_bits() >> 52) as i32 - 1023 };
    let largest = products.iter().map(|&x| exponent(x)).max().unwrap();
    let cut = |x: f64, e: i32| (x * f64::from(24 - e).exp2()).trunc() * f64::from(e - 24).exp2();
    let dot: f64 = products.iter().map(|&x| cut(x, largest)).sum();
    let all = largest.max(exponent(c));
    let c = if late { c } else { cut(c, all) };
    u64::from(((c + join(dot, all)) as f32).to_bits())
}

/// Whatever the rounding with which a sum of products joins c, it is told by bits above and below a tie; and that there
/// is none, if c shifts nothing out.
#[test]
fn how_products_join_c_is_told_by_sums_on_both_sides_of_a_tie() {
    fn at_30(dot: f64, largest: i32, round: fn(f64) -> f64) -> f64 {
        round(dot * f64::from(30 - largest).exp2()) * f64::from(largest - 30).exp2()
    }
    type Join = fn(f64, i32) -> f64;
    let joins: [(Join, &str, &str); 6] = [
        (|dot, e| at_30(dot, e, f64::trunc), "30", "rz"),
        (|dot, e| at_30(dot, e, f64::round_ties_even), "30", "rne"),
        (|dot, e| at_30(dot, e, f64::round), "30", "rna"),
        (|dot, e| at_30(dot, e, f64::floor), "30", "rd"),
        (|dot, e| at_30(dot, e, f64::ceil), "30", "ru"),
        (|dot, _| dot, "at least 43", "rz"),
    ];
    for late in [false, true] {
        for (join, bits, rounding) in joins {
            let unit = Unit::find("custom/m1n1k8.f32.bf16.bf16.f32/round-down:G=8").unwrap();
            let found = features(&mut Joined(unit, late, join)).unwrap();
            let beside = |what: &str| format!(" {what} (products beside a larger c)");
            // A late c that shifts nothing out of the sum is what one expects.
            let is_told = !late || bits == "30";
            let told = value(&found, "fraction_bits");
            assert_eq!(told.ends_with(&beside(bits)), is_told, "{rounding}, late: {late}: {told}");
            // Of the others it is that of products among themselves, or may be.
            let told = value(&found, "alignment_rounding");
            let is_told = rounding != "rz";
            assert_eq!(told.ends_with(&beside(rounding)), is_told, "{rounding}, late: {late}: {told}");
        }
    }
}

/// What a sum loses as a result of its own, before a late c comes, is nothing that it loses beside c.
#[test]
fn results_of_few_bits_are_no_width_beside_a_late_c() {
    for rules in [
        "c=late:out-bits=16",
        "c=late:out-bits=16:sticky=yes",
        "c=last:out-bits=16:sticky=yes",
        "c=late:out-bits=10:out=rne",
    ] {
        let unit = format!("custom/m1n1k6.f32.bf16.bf16.f32/dot:block=7:F=41:{rules}");
        let found = features(&mut Unit::find(&unit).unwrap()).unwrap();
        assert_eq!(value(&found, "fraction_bits"), "41", "{unit}");
    }
}

/// Sixteen products of a block are summed and the sum aligned by what is left of it, nothing if they cancel: c is not
/// added to the sum of all.
#[test]
fn c_is_not_called_late_beside_groups_that_cancel() {
    let normalised = |unit: &Unit, x: &Input| {
        let rule = unit.scale.unwrap();
        let scale = |codes: &[u64], group: usize| rule.format.decode(codes[group]).exponent;
        let c = f64::from(f32::from_bits(x.c as u32));
        let group = |n: usize| {
            let sum: f64 = (16 * n..16 * n + 16).map(|k| unit.a.to_f64(x.a[k]) * unit.b.to_f64(x.b[k])).sum();
            sum * f64::from(scale(&x.scale_a, n) + scale(&x.scale_b, n)).exp2()
        };
        let terms: Vec<f64> = (0..4).map(group).chain([c]).filter(|&x| x != 0.0).collect();
        let exponent = |x: &f64| (x.abs().to_bits() >> 52) as i32 - 1023;
        let Some(largest) = terms.iter().map(exponent).max() else { return 0 };
        let last = f64::from(largest - 30).exp2();
        let sum: f64 = terms.iter().map(|x| (x / last).trunc() * last).sum();
        let nearest = sum as f32;
        let above = f64::from(nearest.abs()) > sum.abs() && nearest.is_finite();
        u64::from(if above { nearest.to_bits() - 1 } else { nearest.to_bits() })
    };
    let unit = "custom/m1n1k64.block16.f32.e2m1.e2m1.f32.ue8m0/groups:G=16:F=30";
    let mut own = Computed(Unit::find(unit).unwrap(), normalised);
    let found = features(&mut own).unwrap();
    assert!(value(&found, "c_position").ends_with("fits several trees, with scales too"));
    assert_eq!([value(&found, "fraction_bits"), value(&found, "alignment_rounding")], ["30", "rz"]);
}

/// Half of the last place counts where terms are rounded to nearest, with c as among themselves.
#[test]
fn nearest_alignment_is_one_rule_beside_c() {
    let found = probed("custom/m1n1k8.f32.f16.f16.f32/dot:block=8:F=24:align=rna:out=rne");
    assert_eq!([value(&found, "alignment_rounding"), value(&found, "fraction_bits")], ["rna", "24"]);
    // Of c itself the last bit is cut.
    for out in ["rna", "rne", "rnz"] {
        for bits in [20, 21, 22, 23, 24, 25] {
            let unit = format!("custom/m1n1k4.f32.tf32.tf32.f32/dot:block=4:F={bits}:out={out}");
            assert_eq!(value(&probed(&unit), "fraction_bits"), bits.to_string(), "{unit}");
        }
    }
}

/// Two terms below the floor that cancel, cut down: no floor would leave nothing of them, and a lower one less.
#[test]
fn floors_show_where_terms_cancel() {
    for rules in
        ["block=8:F=30:align=rd:out=rd", "block=8:F=25:align=rd:out=rd:e_zero=emin-9", "block=4:F=28:align=ru:out=ru"]
    {
        let unit = format!("custom/m1n1k16.f32.bf16.bf16.f32/dot:{rules}");
        let floor = if rules.contains("emin-9") { "-135" } else { "-133" };
        assert_eq!(value(&probed(&unit), "e_zero"), floor, "{unit}");
    }
}

/// CDNA3's sums with results truncated: what one rule's floor would explain of the products is none of the sum with c.
#[test]
fn no_floor_is_told_where_products_and_c_have_rules_of_their_own() {
    let truncated = |unit: &Unit, x: &Input| {
        let (products, c) = singles(unit, x);
        let c = f64::from(c);
        // As the operands are written: subnormal ones have the exponent of the smallest normal number.
        let written = |code: u64| unit.a.decode(code).exponent;
        let terms = x.a.iter().zip(&x.b).map(|(&a, &b)| written(a) + written(b)).zip(&products);
        let terms = terms.map(|(e, [a, b])| (e, f64::from(*a) * f64::from(*b)));
        let terms: Vec<(i32, f64)> = terms.filter(|(_, x)| *x != 0.0).collect();
        let down = |x: f64, last: i32| (x * f64::from(-last).exp2()).floor() * f64::from(last).exp2();
        let cut = |x: f64, last: i32| down(x.abs(), last).copysign(x);
        let e_dot = terms.iter().map(|(e, _)| *e).max().unwrap_or(-126);
        let e_max = if c == 0.0 { e_dot } else { e_dot.max(unit.c.decode(x.c).exponent) }.max(-126);
        let dot: f64 = terms.iter().map(|&(_, x)| cut(x, e_dot - 24)).sum();
        let sum = down(dot, e_max - 31) + down(c, e_max - 24);
        let nearest = sum as f32;
        let above = f64::from(nearest.abs()) > sum.abs() && nearest.is_finite();
        u64::from(if above { nearest.to_bits() - 1 } else { nearest.to_bits() })
    };
    let found = Computed::tells("custom/m1n1k8.f32.bf16.bf16.f32/round-down:G=8", truncated, "e_zero");
    assert_eq!(found, "cannot tell: products and c are cut by different rules");
}
