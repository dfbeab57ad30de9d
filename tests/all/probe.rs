//! Probing: what the papers found, found again by the tests.

use gemmulate::Unit;
use gemmulate::accumulate::{Adder, FusedDotAdd, NarrowSum, Recipe};
use gemmulate::format::F32;
use gemmulate::prelude::{MmaUnit, Shape};
use gemmulate::probe::{BlackBox, Features, Input, Interface, Node, SummationTree, Value, features};
use half::f16;

fn probed(name: &str) -> Features {
    features(&mut Unit::find(name).expect(name)).unwrap()
}

fn value(found: &Features, name: &str) -> String {
    found.value(name).unwrap().to_string()
}

/// Khattak and Mikaitis, Table II, by row: the instructions of its nine GPUs, by the GPU's name, and
/// fraction bits of the aligned products, bits of the accumulated sum, products per block, final
/// rounding, where c enters, interleaving.
type Row = (&'static str, &'static [&'static str], [&'static str; 6]);
const TABLE_II: [Row; 15] = [
    (
        "fp8, f32: H100, H200",
        &[
            "H100 wgmma.m64n8k32.f32.e4m3.e4m3",
            "H200 wgmma.m64n8k32.f32.e5m2.e5m2",
            "H200 wgmma.m64n8k32.f32.e4m3.e5m2",
        ],
        ["13", "21", "32", "rz at 13 fraction bits", "with", "no"],
    ),
    (
        "fp8, f32: L40S, RTX 1000",
        &["L40S mma.m16n8k32.f32.e4m3.e4m3.f32", "RTX 1000 Ada mma.m16n8k16.f32.e5m2.e5m2.f32"],
        ["13", "20", "16", "rz at 13 fraction bits", "with", "no"],
    ),
    (
        "fp8, f16: H100, H200",
        &["H100 wgmma.m64n8k32.f16.e5m2.e5m2", "H200 wgmma.m64n8k32.f16.e4m3.e4m3"],
        ["13", "21", "32", "rne", "with", "no"],
    ),
    (
        "fp8, f16: L40S, RTX 1000",
        &["L40S mma.m16n8k32.f16.e4m3.e4m3.f16", "RTX 1000 Ada mma.m16n8k16.f16.e5m2.e5m2.f16"],
        ["13", "20", "16", "rne", "with", "no"],
    ),
    // By mma.sync: the blocks' sums are truncated, c is added last, and that is rounded to nearest.
    (
        "fp8*, f32: H100, H200, B200",
        &[
            "H100 mma.m16n8k32.f32.e4m3.e4m3.f32",
            "H200 mma.m16n8k32.f32.e5m2.e5m2.f32",
            "B200 mma.m16n8k32.f32.e5m2.e4m3.f32",
        ],
        ["25", "32", "16", "rz (sums of products), rne (adding c)", "late", "pairs"],
    ),
    (
        "fp8*, f16: H100, H200, B200",
        &["H100 mma.m16n8k32.f16.e5m2.e5m2.f16", "B200 mma.m16n8k32.f16.e5m2.e4m3.f16"],
        ["25", "32", "16", "rne", "late", "pairs"],
    ),
    (
        "f16, bf16: H100, H200, B200",
        &[
            "H100 mma.m16n8k16.f32.f16.f16.f32",
            "H200 mma.m16n8k16.f32.bf16.bf16.f32",
            "B200 mma.m16n8k16.f32.f16.f16.f32",
            "B200 mma.m16n8k16.f32.bf16.bf16.f32",
        ],
        ["25", "32", "16", "rz", "with", "no"],
    ),
    (
        "f16, bf16: L40S, RTX 1000",
        &["L40S mma.m16n8k16.f32.f16.f16.f32", "RTX 1000 Ada mma.m16n8k16.f32.bf16.bf16.f32"],
        ["24", "30", "8", "rz", "with", "no"],
    ),
    (
        "f16, bf16: A100, A2, A30",
        &["A100 mma.m16n8k16.f32.f16.f16.f32", "A2 mma.m16n8k8.f32.bf16.bf16.f32", "A30 mma.m16n8k8.f32.f16.f16.f32"],
        ["24", "30", "8", "rz", "with", "no"],
    ),
    ("f16: V100", &["V100 mma.m8n8k4.f32.f16.f16.f32"], ["23", "28", "4", "rz", "with", "no"]),
    (
        "tf32: H100, H200, B200",
        &[
            "H100 mma.m16n8k8.f32.tf32.tf32.f32",
            "H200 mma.m16n8k8.f32.tf32.tf32.f32",
            "B200 mma.m16n8k8.f32.tf32.tf32.f32",
        ],
        ["25", "31", "8", "rz", "with", "no"],
    ),
    (
        "tf32: L40S, RTX 1000",
        &["L40S mma.m16n8k8.f32.tf32.tf32.f32", "RTX 1000 Ada mma.m16n8k4.f32.tf32.tf32.f32"],
        ["24", "29", "4", "rz", "with", "no"],
    ),
    (
        "tf32: A100, A2, A30",
        &[
            "A100 mma.m16n8k8.f32.tf32.tf32.f32",
            "A2 mma.m16n8k4.f32.tf32.tf32.f32",
            "A30 mma.m16n8k8.f32.tf32.tf32.f32",
        ],
        ["24", "29", "4", "rz", "with", "no"],
    ),
    // The table's note: f16 results of f16 operands, everywhere, are rounded to nearest.
    ("f16, f16: V100", &["V100 mma.m8n8k4.f16.f16.f16.f16"], ["23", "28", "4", "rne", "with", "no"]),
    (
        "f16, f16: A100, L40S",
        &["A100 mma.m16n8k16.f16.f16.f16.f16", "L40S mma.m16n8k8.f16.f16.f16.f16"],
        ["24", "30", "8", "rne", "with", "no"],
    ),
];

#[test]
fn khattak_and_mikaitis_table_ii() {
    let hopper_f16: Row = (
        "f16, f16: H100, B200",
        &["H100 mma.m16n8k16.f16.f16.f16.f16", "B200 mma.m16n8k16.f16.f16.f16.f16"],
        ["25", "32", "16", "rne", "with", "no"],
    );
    for (row, units, want) in TABLE_II.into_iter().chain([hopper_f16]) {
        for unit in units {
            let found = probed(unit);
            let number = |name| value(&found, name).parse::<u32>().unwrap_or_else(|_| panic!("{row} {unit} {name}"));
            // Two integer bits, the fraction, and the carries.
            let accumulated = (2 + number("fraction_bits") + number("carry_bits")).to_string();
            let got = [
                value(&found, "fraction_bits"),
                accumulated,
                value(&found, "block"),
                value(&found, "output_rounding"),
                value(&found, "c_position"),
                value(&found, "interleave"),
            ];
            assert_eq!(got, want.map(String::from), "{row}: {unit}");
            assert_eq!(value(&found, "products_normalised"), "no", "{unit}");
            assert_eq!(value(&found, "sticky"), "no", "{unit}");
            assert_eq!(value(&found, "alignment_rounding"), "rz", "{unit}");
            assert_eq!(value(&found, "subnormals"), "supported", "{unit}");
        }
    }
}

/// The table's last rows: f64 as a chain of fused multiply-adds, c first, of block 1.
#[test]
fn khattak_and_mikaitis_f64_is_a_chain_of_fma() {
    for unit in [
        "A100 mma.m8n8k4.f64.f64.f64.f64",
        "H100 mma.m16n8k16.f64.f64.f64.f64",
        "H200 mma.m16n8k8.f64.f64.f64.f64",
        "B200 mma.m8n8k4.f64.f64.f64.f64",
    ] {
        let found = probed(unit);
        assert_eq!(value(&found, "block"), "1", "{unit}");
        assert_eq!(value(&found, "c_position"), "first", "{unit}");
        assert_eq!(value(&found, "output_rounding"), "rne", "{unit}");
        assert_eq!(value(&found, "subnormals"), "supported", "{unit}");
        // Fasi et al. 3.3: each addition is normalised, and no sum is non-monotonic.
        assert_eq!(value(&found, "monotonic"), "yes", "{unit}");
    }
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
    // Blocks of 8, and c added to the sum of all: not one sum.
    for recipe in ["dot:block=8:F=25", "dot:block=16:F=25:c=late", "dot:block=16:F=25:c=last"] {
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

/// Fasi et al.: exact products, truncation, no guard digit on Volta and one after it, unnormalised
/// partial sums, carry bits, non-monotonic sums, subnormals.
#[test]
fn fasi_et_al() {
    let table = [
        ("volta/mma.m8n8k4.f32.f16.f16.f32", "0", "3"),
        ("turing/mma.m16n8k8.f32.f16.f16.f32", "1", "4"),
        ("ampere/mma.m16n8k8.f32.f16.f16.f32", "1", "4"),
        ("ampere/mma.m16n8k8.f32.bf16.bf16.f32", "1", "4"),
        ("ampere/mma.m16n8k4.f32.tf32.tf32.f32", "1", "3"),
    ];
    for (unit, extra, carry) in table {
        let found = probed(unit);
        let expect = [
            ("extra_alignment_bits", extra),
            ("carry_bits", carry),
            ("products_exact", "yes"),
            ("output_rounding", "rz"),
            ("partial_sums_normalised", "no"),
            ("subnormals", "supported"),
        ];
        for (name, want) in expect {
            assert_eq!(value(&found, name), want, "{unit}: {name}");
        }
        for feature in &found.all {
            let told = !matches!(feature.value, Value::CannotTell(_));
            assert!(!told || !feature.evidence.is_empty(), "{unit}: {} without evidence", feature.name);
        }
    }
    // Conclusion 6. The witness is one: c larger, the result smaller.
    for (unit, ..) in table {
        let found = probed(unit);
        assert_eq!(value(&found, "monotonic"), "no", "{unit}");
        let witness = &found.get("monotonic").unwrap().evidence;
        let [low, high] = witness.as_slice() else { panic!("{witness:?}") };
        assert_eq!((&low.input.a, &low.input.b), (&high.input.a, &high.input.b), "{unit}");
        assert!(F32.to_f64(low.input.c) < F32.to_f64(high.input.c) && F32.to_f64(low.d) > F32.to_f64(high.d), "{unit}");
    }
    // An accumulator of 27 bits on Volta: 24, and three for the carries of five terms (conclusion 5).
    let volta = probed("volta/mma.m8n8k4.f32.f16.f16.f32");
    assert_eq!((value(&volta, "fraction_bits"), value(&volta, "carry_bits")), ("23".into(), "3".into()));
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

/// MMA-Sim Table IV and IV-A to IV-I, and SPEC for CDNA1, which MMA-Sim leaves out: by unit the
/// properties that its algorithm has.
const CDNA: [(&str, &[(&str, &str)]); 16] = [
    // Exact sums of four (two for bf16), one rounding, chained.
    (
        "cdna1/v_mfma_f32_32x32x8f16",
        &[
            ("tree", "((c + p0 + p1 + p2 + p3) + p4 + p5 + p6 + p7)"),
            ("output_rounding", "rne"),
            ("subnormals", "supported"),
        ],
    ),
    (
        "cdna1/v_mfma_f32_32x32x4bf16",
        &[("tree", "((c + p0 + p1) + p2 + p3)"), ("output_rounding", "rne"), ("subnormals", "supported")],
    ),
    ("cdna1/v_mfma_f32_32x32x2f32", &[("tree", "((c + p0) + p1)"), ("output_rounding", "rne")]),
    // SFMA.
    ("cdna2/v_mfma_f64_16x16x4f64", &[("tree", "((((c + p0) + p1) + p2) + p3)"), ("output_rounding", "rne")]),
    ("cdna2/v_mfma_f32_32x32x2f32", &[("tree", "((c + p0) + p1)"), ("subnormals", "supported")]),
    // GPS: groups of four, or of two, summed in pairs; everything flushed.
    (
        "cdna2/v_mfma_f32_32x32x8f16",
        &[
            ("tree", "((c + ((p0 + p1) + (p2 + p3))) + ((p4 + p5) + (p6 + p7)))"),
            ("output_rounding", "rne"),
            ("subnormals", "flushed to zero"),
        ],
    ),
    ("cdna2/v_mfma_f32_32x32x4bf16", &[("tree", "((c + (p0 + p1)) + (p2 + p3))"), ("subnormals", "flushed to zero")]),
    (
        "cdna2/v_mfma_f32_32x32x4bf16_1k",
        &[("tree", "(c + ((p0 + p1) + (p2 + p3)))"), ("subnormals", "flushed to zero")],
    ),
    // FDRDA: products cut toward zero, c down, both at 24 bits; products of 2^128 overflow.
    (
        "cdna3/v_mfma_f32_32x32x8_f16",
        &[
            ("alignment_rounding", "rz (products), rd (c)"),
            ("fraction_bits", "24"),
            ("block", "8"),
            ("chain", "1"),
            ("output_rounding", "rne"),
            ("subnormals", "supported"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_32x32x8_bf16",
        &[("alignment_rounding", "rz (products), rd (c)"), ("block", "8"), ("product_limit", "2^128")],
    ),
    (
        "cdna3/v_mfma_f32_32x32x4_xf32",
        &[("alignment_rounding", "rz (products), rd (c)"), ("block", "4"), ("chain", "1"), ("product_limit", "2^128")],
    ),
    // CoFDRDA: a chain of two.
    (
        "cdna3/v_mfma_f32_16x16x8_xf32",
        &[
            ("alignment_rounding", "rz (products), rd (c)"),
            ("fraction_bits", "24"),
            ("tree", "((c + p0 + p1 + p2 + p3) + p4 + p5 + p6 + p7)"),
            ("output_rounding", "rne"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_16x16x16_f16",
        &[("alignment_rounding", "rz (products), rd (c)"), ("block", "8"), ("chain", "2")],
    ),
    ("cdna3/v_mfma_f32_16x16x16_bf16", &[("block", "8"), ("chain", "2"), ("product_limit", "2^128")]),
    // GFDRDA and its chain: 16 products, c by no one rule (down only within 25 bits), products at 24.
    (
        "cdna3/v_mfma_f32_32x32x16_fp8_fp8",
        &[("alignment_rounding", "rz (products), no single rule (c)"), ("block", "16"), ("chain", "1")],
    ),
    (
        "cdna3/v_mfma_f32_16x16x32_bf8_bf8",
        &[("block", "16"), ("chain", "2"), ("output_rounding", "rne"), ("subnormals", "supported")],
    ),
];

#[test]
fn mma_sim_cdna() {
    for (unit, properties) in CDNA {
        let found = probed(unit);
        for (name, want) in properties {
            assert_eq!(value(&found, name), *want, "{unit}: {name}");
        }
    }
    assert!(value(&probed("cdna1/v_mfma_f32_32x32x8f16"), "fraction_bits").contains("exact"));
}

/// MMA-Sim Fig. 1's four trees, as text and as pictures.
#[test]
fn four_trees() {
    let trees = [
        ("ampere/mma.m8n8k4.f64.f64.f64.f64", "((((c + p0) + p1) + p2) + p3)"),
        ("cdna2/v_mfma_f32_32x32x8f16", "((c + ((p0 + p1) + (p2 + p3))) + ((p4 + p5) + (p6 + p7)))"),
        ("ampere/mma.m16n8k4.f32.tf32.tf32.f32", "(c + p0 + p1 + p2 + p3)"),
        ("ampere/mma.m16n8k8.f32.tf32.tf32.f32", "((c + p0 + p1 + p2 + p3) + p4 + p5 + p6 + p7)"),
    ];
    for (unit, want) in trees {
        let tree = SummationTree::find(&mut Unit::find(unit).unwrap()).unwrap().unwrap();
        assert_eq!(tree.to_string(), want, "{unit}");
        let svg = tree.svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{unit}");
        assert_eq!(svg.matches(">#").count(), want.matches('p').count(), "{unit}");
        assert_eq!(svg.matches("<circle").count(), want.matches('(').count(), "{unit}");
    }
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
