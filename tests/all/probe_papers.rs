//! Probing: the tables and figures of the papers, found again by the tests.

use crate::probe::{probed, value};
use gemmulate::Unit;
use gemmulate::format::F32;
use gemmulate::probe::{Finding, SummationTree};

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
        assert_eq!(value(&found, "partial_sums_normalised"), "yes", "{unit}");
        assert_eq!(value(&found, "monotonic"), "yes", "{unit}");
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
            let told = !matches!(feature.value, Finding::CannotTell(_));
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

/// MMA-Sim Table IV and IV-A to IV-I, and SPEC for CDNA1, which MMA-Sim leaves out: by unit the
/// properties that its algorithm has.
const CDNA: [(&str, &[(&str, &str)]); 18] = [
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
            ("partial_sums_normalised", "yes"),
            ("subnormals", "flushed to zero"),
        ],
    ),
    ("cdna2/v_mfma_f32_32x32x4bf16", &[("tree", "((c + (p0 + p1)) + (p2 + p3))"), ("subnormals", "flushed to zero")]),
    (
        "cdna2/v_mfma_f32_32x32x8f16",
        &[("special_values", "subnormal x Inf gives NaN; Inf x subnormal gives NaN"), ("negative_zero", "never")],
    ),
    (
        "cdna2/v_mfma_f32_32x32x4bf16_1k",
        &[("tree", "(c + ((p0 + p1) + (p2 + p3)))"), ("subnormals", "flushed to zero")],
    ),
    // FDRDA: products cut toward zero, c down, both at 24 bits; beside a larger c the sum of products is cut at 32 and
    // the whole at 31; products of 2^128 overflow.
    (
        "cdna3/v_mfma_f32_32x32x8_f16",
        &[
            ("alignment_rounding", "rz (products), rd (c), rd (products beside a larger c)"),
            ("fraction_bits", "24 (products), 24 (c), 31 (products beside a larger c)"),
            ("block", "8"),
            ("chain", "1"),
            ("output_rounding", "rne"),
            ("subnormals", "supported"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_32x32x8_bf16",
        &[
            ("alignment_rounding", "rz (products), rd (c), rd (products beside a larger c)"),
            ("block", "8"),
            ("product_limit", "2^128"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_32x32x4_xf32",
        &[
            ("alignment_rounding", "rz (products), rd (c), rd (products beside a larger c)"),
            ("block", "4"),
            ("chain", "1"),
            ("product_limit", "2^128"),
        ],
    ),
    // CoFDRDA: a chain of two.
    (
        "cdna3/v_mfma_f32_16x16x8_xf32",
        &[
            ("alignment_rounding", "rz (products), rd (c), rd (products beside a larger c)"),
            ("fraction_bits", "24 (products), 24 (c), 31 (products beside a larger c)"),
            ("tree", "((c + p0 + p1 + p2 + p3) + p4 + p5 + p6 + p7)"),
            ("output_rounding", "rne"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_16x16x16_f16",
        &[
            ("alignment_rounding", "rz (products), rd (c), rd (products beside a larger c)"),
            ("block", "8"),
            ("chain", "2"),
        ],
    ),
    ("cdna3/v_mfma_f32_16x16x16_bf16", &[("block", "8"), ("chain", "2"), ("product_limit", "2^128")]),
    // In a chain that keeps fewer bits of c, the last step shows what it keeps of products.
    (
        "custom/m1n1k16.f32.f16.f16.f32/round-down:G=8:F=20:sum=26:total=29",
        &[("fraction_bits", "20 (products), 20 (c), 26 (products beside a larger c)")],
    ),
    // GFDRDA and its chain: 16 products, of even and of odd k apart, which are cut toward zero beside each other and
    // down where their sums meet; c by no one rule (down only within 25 bits); 24 bits.
    (
        "cdna3/v_mfma_f32_32x32x16_fp8_fp8",
        &[
            (
                "alignment_rounding",
                "rz (products), rd (beside another group), no single rule (c), rd (products beside a larger c)",
            ),
            (
                "fraction_bits",
                "24 (products), 24 (beside another group), no single rule (c), 31 (products beside a larger c)",
            ),
            ("interleave", "no; in a block, even and odd k apart"),
            ("block", "16"),
            ("chain", "1"),
        ],
    ),
    (
        "cdna3/v_mfma_f32_16x16x32_bf8_bf8",
        &[
            ("interleave", "no; in a block, even and odd k apart"),
            ("block", "16"),
            ("chain", "2"),
            ("output_rounding", "rne"),
            ("subnormals", "supported"),
        ],
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

/// No tensor core: the compiler's FMAs, from zero on, then c.
#[test]
fn software_is_a_chain_of_single_products() {
    let found = probed("ampere/mma.m8n8k4.f32.f16.f16.f32");
    for (name, want) in [
        ("tree", "(c + (((p0 + p1) + p2) + p3))"),
        ("block", "1"),
        ("chain", "4"),
        ("c_position", "late"),
        ("partial_sums_normalised", "yes"),
    ] {
        assert_eq!(value(&found, name), want, "{name}");
    }
    // Two products and c late, or pairs: blocks all the same.
    for (unit, block, chain) in
        [("custom/m1n1k2.f32.f16.f16.f32/dot:block=2:F=24:c=late", "2", "1"), ("cdna2/v_mfma_f32_32x32x8f16", "2", "4")]
    {
        let found = probed(unit);
        assert_eq!((value(&found, "block"), value(&found, "chain")), (block.into(), chain.into()), "{unit}");
    }
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
        let tree = SummationTree::find(&mut Unit::find(unit).unwrap()).unwrap();
        assert_eq!(tree.to_string(), want, "{unit}");
        let svg = tree.svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{unit}");
        assert_eq!(svg.matches(">#").count(), want.matches('p').count(), "{unit}");
        assert_eq!(svg.matches("<circle").count(), want.matches('(').count(), "{unit}");
    }
}
