//! Names: canonical, SASS, PTX, WMMA, AMD's two spellings, wrong ones.

use gemmulate::{Error, Unit};

fn finds(name: &str, canonical: &str) {
    match Unit::find(name) {
        Ok(unit) => assert_eq!(unit.name, canonical, "{name}"),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn every_canonical_name_and_alias_finds_its_unit() {
    for unit in Unit::all() {
        finds(&unit.name, &unit.name);
        finds(&format!("  {}\t", unit.name.to_uppercase()), &unit.name);
        for alias in &unit.aliases {
            finds(alias, &unit.name);
            finds(&alias.to_lowercase(), &unit.name);
        }
        assert_eq!(unit.name.parse::<Unit>().unwrap(), unit);
    }
}

#[test]
fn sass_names_with_products() {
    finds("H100 HGMMA.64x8x16.F32", "hopper/wgmma.m64n8k16.f32.f16.f16");
    finds("h200/hgmma.64X256X16.f32.bf16", "hopper/wgmma.m64n256k16.f32.bf16.bf16");
    finds("GH200 QGMMA.64x64x32.F16.E5M2.E4M3", "hopper/wgmma.m64n64k32.f16.e5m2.e4m3");
    finds("a100 HMMA.16816.F32.BF16", "ampere/mma.m16n8k16.f32.bf16.bf16.f32");
    finds("RTX 4090 HMMA.1688.F16", "ada/mma.m16n8k8.f16.f16.f16.f16");
    finds("rtx4070 ti QMMA.16832.F32.E4M3.E4M3", "ada/mma.m16n8k32.f32.e4m3.e4m3.f32");
    finds("V100 HMMA.884.F32.F32", "volta/mma.m8n8k4.f32.f16.f16.f32");
    finds("sm_90a DMMA.16x8x8", "hopper/mma.m16n8k8.f64.f64.f64.f64");
    finds(
        "RTX PRO 6000 OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    );
    finds("NVIDIA GeForce RTX 4090 HMMA.1688.F16", "ada/mma.m16n8k8.f16.f16.f16.f16");
    finds("A40 HMMA.1684.F32.TF32", "ampere/mma.m16n8k4.f32.tf32.tf32.f32");
    finds("NVIDIA A100-SXM4-80GB HMMA.1684.F32.TF32", "ampere/mma.m16n8k4.f32.tf32.tf32.f32");
    finds("NVIDIA H100 80GB HBM3 HGMMA.64x8x16.F32", "hopper/wgmma.m64n8k16.f32.f16.f16");
    finds("H100 PCIe/HGMMA.64x8x16.F32", "hopper/wgmma.m64n8k16.f32.f16.f16");
    finds("RTX 6000 Ada HMMA.1688.F16", "ada/mma.m16n8k8.f16.f16.f16.f16");
    finds("sm_86 HMMA.1684.F32.TF32", "ampere/mma.m16n8k4.f32.tf32.tf32.f32");
}

#[test]
fn ptx_spellings() {
    finds("hopper/mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "hopper/mma.m16n8k16.f32.f16.f16.f32");
    finds("sm_90 wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "hopper/wgmma.m64n128k16.f32.f16.f16");
    finds(
        "sm_120a mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
        "rtx-blackwell/mma.m16n8k32.f32.e2m1.e3m2.f32",
    );
    finds(
        "rtx 5090 mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e5m2.f32.ue8m0",
    );
    finds(
        "rtx-blackwell/mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "rtx-blackwell/mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
    );
    finds(
        "rtx-blackwell/mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    );
    finds(
        "B200 tcgen05.mma.cta_group::1.kind::f16.m128n64k16.f32.f16.bf16",
        "blackwell/tcgen05.mma.m128n64k16.f32.f16.bf16",
    );
    finds("a100 mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn", "ampere/mma.m8n8k4.f64.f64.f64.f64");
    let rz = Unit::find("a100 mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64").unwrap();
    let one = 1f64.to_bits();
    let tiny = 2f64.powi(-60).to_bits();
    let d = rz.dot_add_bits(&[one, tiny, 0, 0], &[one, (-1f64).to_bits(), 0, 0], 0).unwrap();
    assert_eq!(f64::from_bits(d), 1.0 - f64::EPSILON / 2.0);
    // wgmma exists on one architecture only, mma on many.
    finds("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", "hopper/wgmma.m64n8k8.f32.tf32.tf32");
    let Err(Error::AmbiguousUnit { fits, .. }) = Unit::find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") else {
        panic!("not ambiguous");
    };
    assert_eq!(fits.len(), 5);
}

#[test]
fn wmma_names_are_chains() {
    let volta = Unit::find("volta/wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32").unwrap();
    assert_eq!((volta.shape.k, volta.recipe.unwrap().to_string().as_str()), (16, "dot:block=4:F=23:e_zero=emin-5"));
    let turing = Unit::find("t4 wmma.m16n16k16.f32.f16.f16.f32").unwrap();
    assert_eq!(turing.recipe.unwrap().to_string(), "dot:block=8:F=24:e_zero=emin-6");
    let hopper = Unit::find("h100 wmma.m16n16k8.f32.tf32.tf32.f32").unwrap();
    assert_eq!(hopper.recipe.unwrap().to_string(), "dot:block=4:F=25");
    let ampere = Unit::find("a100 wmma.m32n8k16.f32.bf16.bf16.f32").unwrap();
    assert_eq!(ampere.recipe, Unit::find("ampere/mma.m16n8k16.f32.bf16.bf16.f32").unwrap().recipe);
}

#[test]
fn amd_spellings() {
    finds("MI300X v_mfma_f32_32x32x8f16", "cdna3/v_mfma_f32_32x32x8_f16");
    finds("cdna3/v_mfma_f32_32x32x4f16", "cdna3/v_mfma_f32_32x32x4_2b_f16");
    finds("cdna3/v_mfma_f32_32x32x4bf16_1k", "cdna3/v_mfma_f32_32x32x4_2b_bf16");
    finds("gfx942 v_mfma_f64_4x4x4f64", "cdna3/v_mfma_f64_4x4x4_4b_f64");
    finds("MI250X v_mfma_f32_32x32x4bf16_1k", "cdna2/v_mfma_f32_32x32x4bf16_1k");
    finds("mi100 V_MFMA_F32_16X16X8BF16", "cdna1/v_mfma_f32_16x16x8bf16");
    for name in ["32x32x2bf16", "16x16x2bf16", "4x4x2bf16", "32x32x4bf16", "16x16x8bf16"] {
        let refused = Unit::find(&format!("cdna3/v_mfma_f32_{name}"));
        assert!(
            matches!(&refused, Err(Error::RefusedUnit { why, .. }) if why.contains("CDNA1")),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn names_that_are_none_lead_to_those_that_are() {
    for (name, nearest) in [
        ("H100 HGMA.64x128x16.F32", "hopper/wgmma.m64n8k16.f32.f16.f16"),
        ("HMMA.16816.F33", "ampere/mma.m16n8k16.f32.f16.f16.f32"),
        ("H100 QGMMA.64x128x32.F32.E4M3.E4M2", "hopper/wgmma.m64n8k32.f32.e4m3.e4m3"),
        ("hoper/wgmma.m64n8k16.f32.f16.f16", "hopper/wgmma.m64n8k16.f32.f16.f16"),
        ("MI300X mfma_f32_32x32x8_f16", "cdna3/v_mfma_f32_32x32x8_f16"),
        ("h100 bf16 wgmma", "hopper/wgmma.m64n8k16.f32.bf16.bf16"),
        ("H100 fp8", "hopper/wgmma.m64n8k32.f32.e4m3.e4m3"),
        ("mma.m16n8k16", "ampere/mma.m16n8k16.f32.f16.f16.f32"),
        ("hopper-f16", "hopper/wgmma.m64n8k16.f32.f16.f16"),
        ("H100 bf16", "hopper/wgmma.m64n8k16.f32.bf16.bf16"),
        ("blackwell/bf16", "blackwell/tcgen05.mma.m64n8k16.f32.bf16.bf16"),
        ("cdna1-bf16", "cdna1/v_mfma_f32_16x16x8bf16"),
        ("cdna2/fp64", "cdna2/v_mfma_f64_16x16x4f64"),
        ("MI300X fp8", "cdna3/v_mfma_f32_16x16x32_fp8_fp8"),
    ] {
        let Err(Error::UnknownUnit { suggestions, .. }) = Unit::find(name) else { panic!("{name} is none") };
        assert_eq!(suggestions.first().map(String::as_str), Some(nearest), "{name}");
    }
    // Another GPU's unit is not meant.
    for name in ["P100 HMMA.16816.F32", "MI50 v_mfma_f32_32x32x8f16", "foo/mma.m16n8k16.f32.f16.f16.f32"] {
        let refused = Unit::find(name);
        let gpu = name.split([' ', '/']).next().unwrap().to_lowercase();
        let told = format!("`{gpu}` is no GPU or architecture known here");
        assert!(matches!(&refused, Err(Error::RefusedUnit { why, .. }) if why.contains(&told)), "{refused:?}");
    }
    for name in ["H100 HGMMA.64x13x16.F32", "HGMMA.64x264x16.F32", "hopper/wgmma.m64n13k16.f32.f16.f16"] {
        let refused = Unit::find(name);
        assert!(matches!(&refused, Err(Error::RefusedUnit { why, .. }) if why.contains("n = 8, 16")), "{refused:?}");
    }
}

#[test]
fn every_legal_size_and_no_other() {
    for n in 0..300 {
        let legal = (8..=256).contains(&n) && n % 8 == 0;
        assert_eq!(Unit::find(&format!("hopper/wgmma.m64n{n}k32.f16.e4m3.e5m2")).is_ok(), legal, "{n}");
        for (m, step) in [(64, 8), (128, 16), (256, 32), (32, 8)] {
            let legal = m != 32 && n >= step && n <= 256 && n % step == 0;
            assert_eq!(
                Unit::find(&format!("blackwell/tcgen05.mma.m{m}n{n}k8.f32.tf32.tf32")).is_ok(),
                legal,
                "{m} {n}"
            );
        }
        let scaled = format!("blackwell/tcgen05.mma.m128n{n}k64.block16.f32.e2m1.e2m1.ue4m3");
        assert_eq!(Unit::find(&scaled).is_ok(), legal, "{n}");
    }
}

#[test]
fn wrong_names_help() {
    let message = |name: &str| Unit::find(name).unwrap_err().to_string();
    assert!(message("hoper/wgmma.m64n8k16.f32.f16.f16").contains("hopper/wgmma.m64n8k16.f32.f16.f16"));
    assert!(message("volta/mma.m16n8k16.f32.f16.f16.f32").contains("volta/mma.m8n8k4.f32.f16.f16.f32"));
    assert!(message("B200 UTCHMMA").contains("units; name one of them: "));
    assert!(message("B200 tcgen05.mma.cta_group::1.kind::f8f6f4").contains("m64n8k32.f32.e4m3.e5m2"));
    finds(
        "B200 tcgen05.mma.cta_group::2.kind::mxf4.block_scale",
        "blackwell/tcgen05.mma.m128n8k64.block32.f32.e2m1.e2m1.ue8m0",
    );
    assert!(message("B200 tcgen05.mma.cta_group::1.kind::i8").contains("integer"));
    let many = message("HMMA");
    assert!(many.contains(", and ") && many.len() < 700, "{many}");
    assert!(message("H100 HGMMA.64x8x16").contains("units; name one of them: "));
    assert!(message("a100 mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").contains("sparse"));
    assert!(message("a100 IMMA.16832.S8.S8").contains("integer"));
    assert!(message("a100 mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32").contains("integer"));
    assert!(message("H100 QMMA.16832.F32.E4M3.E4M3").contains("HMMA"));
    assert!(message("hopper/wgmma.m64n100k16.f32.f16.f16").contains("n = 8, 16"));
    assert!(message("H100").contains("add an instruction"), "{}", message("H100"));
    for arch in gemmulate::arch::ARCHITECTURES {
        let (text, f16) = (message(arch.name), gemmulate::format::F16);
        let example = Unit::find(text.split('`').nth(3).unwrap()).unwrap();
        assert!(example.a == f16 && example.b == f16 && example.d == gemmulate::format::F32, "{text}");
    }
    assert!(message("MI355X v_mfma_f32_32x32x8_f16").contains("CDNA4"));
    assert!(message("B300 UTCHMMA").contains("Blackwell Ultra"));
    assert!(!message("A100-fast HMMA.1684.F32.TF32").contains("add an instruction"));
    for wild in
        ["", "/", "//", "custom/", "custom/x/y", "a100", "H100 ", "\u{1F980}", "mma", &"x".repeat(100_000), "a/b/c/d"]
    {
        assert!(Unit::find(wild).is_err(), "{wild}");
    }
    for wild in ["custom/m1n1k99999999999999999999.f32.f32.f32.f32/fma", "custom/m1n1k0.f32.f32.f32.f32/fma"] {
        assert!(Unit::find(wild).is_err(), "{wild}");
    }
}

/// Another accumulator's text goes behind any spelling of a unit.
#[test]
fn recipes_follow_every_spelling() {
    for (spelled, canonical) in [
        ("H100 HGMMA.64x8x16.F32/dot:block=16:F=27", "hopper/wgmma.m64n8k16.f32.f16.f16/dot:block=16:F=27"),
        ("A100 HMMA.16816.F32/dot:block=16:F=24", "ampere/mma.m16n8k16.f32.f16.f16.f32/dot:block=16:F=24"),
        ("MI300X v_mfma_f32_32x32x8_f16/round-down:G=4", "cdna3/v_mfma_f32_32x32x8_f16/round-down:G=4"),
        ("sm_90 mma.m16n8k8.f32.bf16.bf16.f32/fma", "hopper/mma.m16n8k8.f32.bf16.bf16.f32/fma"),
    ] {
        assert_eq!(Unit::find(spelled).unwrap(), Unit::find(canonical).unwrap(), "{spelled}");
    }
    // Parameters alone change the unit's own.
    for (spelled, canonical) in [
        ("H100 HMMA.16816.F32/F=27", "hopper/mma.m16n8k16.f32.f16.f16.f32/dot:block=16:F=27"),
        (
            "hopper/wgmma.m64n8k32.f32.e4m3.e4m3/f=20",
            "hopper/wgmma.m64n8k32.f32.e4m3.e4m3/dot:block=32:F=20:out-bits=13",
        ),
        ("hopper/wgmma.m64n8k32.f32.e4m3.e4m3/F=13", "hopper/wgmma.m64n8k32.f32.e4m3.e4m3"),
        ("MI300X v_mfma_f32_32x32x8_f16/G=4:F=23", "cdna3/v_mfma_f32_32x32x8_f16/round-down:G=4:F=23"),
        (
            "ampere/mma.m16n8k16.f16.f16.f16.f16/align=rne",
            "ampere/mma.m16n8k16.f16.f16.f16.f16/dot:block=8:F=24:align=rne:e_zero=emin-6:out=rne",
        ),
    ] {
        assert_eq!(Unit::find(spelled).unwrap(), Unit::find(canonical).unwrap(), "{spelled}");
    }
    for (spelled, why) in [
        ("H100 HMMA.16816.F32/G=4", "one of the parameters block, pattern"),
        ("H100 HMMA.16816.F32/F=4:F=5", "F once"),
        ("H100 HMMA.16816.F32/F=many", "not `many`"),
        ("H100 HMMA.16816.F32/F", "no unit"),
    ] {
        let error = Unit::find(spelled).unwrap_err().to_string();
        assert!(error.contains(why), "{spelled}: {error}");
    }
    assert!(Unit::find("A100/dot:block=8").is_err());
    assert!(Unit::find("/dot:block=8").is_err());
    assert!(Unit::find("A100 HMMA.16816.F32/dot:block=0").is_err());
}
