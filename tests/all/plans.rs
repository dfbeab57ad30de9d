//! Plans as text, what they refuse, and what a trace says of them.

use gemmulate::format::format_named;
use gemmulate::gemm::{ScaleBlocks, Scaling};
use gemmulate::prelude::*;
use ndarray::Array2;

#[test]
fn plans_print_and_parse() {
    let texts = [
        "in-order",
        "cutlass2 split-k=3",
        "cutlass2 block=64x64x32 split-k=4 split-align=4 split-mode=parallel",
        "cutlass3 block=128x128x64 split-k=4",
        "in-order block=32x32x32 split-k=8 slices=interleaved",
        "deepgemm",
        "cutlass2 split-k=2 out=bf16",
        "deepgemm promote=none",
        "deepgemm promote=none scales=1x128x128",
        "deepgemm split-k=2 split-mode=parallel seed=5",
        "cutlass3 split-k=3 split-mode=atomic order=2,0,1 flush=no",
        "cutlass3 split-k=3 split-mode=atomic seed=9",
        "cutlass2 stream-k=132 tail=last start=c epilogue=3x",
        "in-order promote=64 scales=2x64x32",
    ];
    for text in texts {
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text);
    }
    assert_eq!("deepgemm promote=none scales=none".parse::<Plan>().unwrap(), Plan::deepgemm().no_promotion());
    let mut plans: Vec<Plan> = Preset::ALL.iter().map(|(preset, _)| Plan::from(*preset)).collect();
    let mut vary = |changes: &[&dyn Fn(Plan) -> Plan]| {
        let old = plans.clone();
        plans.extend(old.iter().flat_map(|plan| changes.iter().map(|change| change(plan.clone()))));
    };
    vary(&[&|p| p.atomic_seed(5), &|p| p.atomic_order(&[1, 0])]);
    vary(&[&|p| p.split_mode(SplitMode::Parallel), &|p| p.split_mode(SplitMode::Atomic)]);
    vary(&[&Plan::no_promotion, &|p| p.promote(64)]);
    vary(&[&|p| p.scale_blocks(None), &|p| p.scale_blocks(Some(ScaleBlocks::DEEPGEMM))]);
    vary(&[&|p| p.block(128, 64, 32).split_k(2), &|p| p.resolved(&Unit::all().next().unwrap())]);
    vary(&[&|p| p.slices(Slices::Interleaved)]);
    vary(&[&|p| p.tail(Tail::First).start(Start::C), &|p| p.epilogue(Epilogue::Plain).atomic_flush(false).stream_k(7)]);
    vary(&[&|p| p.output(*format_named("f16").unwrap()), &|p| p.output(*format_named("e5m2").unwrap())]);
    plans.push(Plan::in_order().atomic_order(&[]));
    for plan in plans {
        assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan, "{plan}");
    }
    let same: Plan = " CUTLASS3  seed=9 split-k=3 ".parse().unwrap();
    assert_eq!(same, texts[11].parse().unwrap());
    // Without a preset, in order.
    assert_eq!("split-k=4 tail=first".parse::<Plan>().unwrap(), Plan::in_order().split_k(4).tail(Tail::First));
    let bad = [
        "",
        "cutlass",
        "cutlass3 split=4",
        "cutlass3 split-k",
        "cutlass3 split-k=x",
        "cutlass3 block=1x2",
        "in-order tail=middle",
        "in-order split-k=2 split-k=3",
        "in-order order=1,0 seed=3",
        "in-order split-k=-1",
        "split-k=4 in-order",
        "split=4",
    ];
    for text in bad {
        let error = text.parse::<Plan>().unwrap_err().to_string();
        assert!(error.contains("plan: expected"), "{error}");
    }
}

#[test]
fn plans_name_the_type_of_d() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let (a, b) = (Array2::<f32>::from_elem((3, 32), 0.1), Array2::<f32>::from_elem((32, 2), 0.3));
    let plan: Plan = "cutlass2 split-k=2 block=16x16x16 out=bf16".parse().unwrap();
    let (bf16, wide) = (format_named("bf16").unwrap(), Gemm::on(&unit).plan(plan.clone()));
    let by_plan = wide.clone().elements(&a, &b, &[[0, 0]]).unwrap();
    let by_hand = Gemm::on(&unit).plan("cutlass2 split-k=2 block=16x16x16".parse().unwrap()).output(*bf16);
    assert_eq!(by_plan, by_hand.elements(&a, &b, &[[0, 0]]).unwrap());
    assert!(by_plan[0] < 1 << 16, "{by_plan:x?}");
    // Who asks for another type gets it.
    let other = wide.output(*format_named("f32").unwrap()).elements(&a, &b, &[[0, 0]]).unwrap();
    assert!(other[0] > 1 << 16, "{other:x?}");
    let refusal = |text: &str| text.parse::<Plan>().unwrap().check(&unit, 64, 64, 64).unwrap_err().to_string();
    assert!(refusal("in-order split-k=2 split-mode=atomic out=f16").contains("no atomic additions"));
    assert!(refusal("in-order out=f64").contains("gives f32 or f16 or bf16, not f64"));
    let plans = ["in-order", "in-order out=f32", "in-order out=f16"].map(|text| text.parse().unwrap());
    assert_eq!(Plan::distinct_loops(plans, &unit, 64, 64, 64).len(), 2);
}

#[test]
fn a_trace_says_what_happens_outside_the_unit() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let (a, b, c) = (Array2::<f32>::ones((2, 32)), Array2::<f32>::ones((32, 2)), Array2::from_elem((2, 2), 4f32));
    let bias = [0.25, 0.5];
    for (plan, lines) in [
        (
            "cutlass3 block=16x16x16 split-k=2",
            ["sum of pieces: 16.0 + 16.0 = 32.0", "fma(beta 3.0, C 4.0, alpha 2.0 * 8.0) = 28.0"],
        ),
        ("in-order stream-k=2 block=16x16x16", ["sum of pieces: 16.0 + 16.0 = 32.0", "alpha 2.0 * 8.0) = 28.0"]),
        ("cutlass2", ["k = 0..32", "fma(alpha 2.0, 8.0, beta 3.0 * C 4.0) = 28.0"]),
    ] {
        let gemm = Gemm::on(&unit).plan(plan.parse().unwrap()).alpha(2.0).beta(3.0).c(&c).bias(&bias);
        let gemm = gemm.scale_a(Scaling::Lines(vec![1.0, 0.5])).scale_b(Scaling::Tensor(0.5));
        let (code, text) = gemm.trace(&a, &b, [1, 1]).unwrap();
        assert_eq!(f32::from_bits(code as u32), 28.5, "{text}");
        let outside = [
            "scales: scale_a 0.5 * (scale_b 0.5 * 32.0) = 8.0",
            "bias: 28.0 + 0.5 = 28.5",
            "D: 28.5 to f32, 0x41e40000",
        ];
        for line in lines.iter().chain(&outside) {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }
}

#[test]
fn impossible_plans_are_refused_with_the_reason() {
    let unit = Unit::find("hopper/wgmma.m64n128k16.f32.f16.f16").unwrap();
    let mixed = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f16").unwrap();
    for (unit, plan, why) in [
        (&unit, "in-order block=16x8x24", "no multiple of the unit's K"),
        (&unit, "in-order block=0x8x16", "block sizes"),
        (&unit, "in-order block=99999999999x8x16", "block sizes"),
        (&unit, "in-order split-k=0", "0 slices"),
        (&unit, "in-order split-k=18446744073709551615", "empty"),
        (&unit, "in-order split-k=7", "leaves a slice of K empty: 6 blocks of 16, 1 a slice, fill 6: try split-k=6"),
        (&unit, "in-order split-k=2 stream-k=2", "excludes"),
        (&unit, "in-order split-k=5 split-align=24", "empty: 4 parts of 24, 1 a slice, fill 4: try split-k=4"),
        (&unit, "in-order split-k=2 split-align=0", "split-align is 1 to"),
        (&unit, "in-order split-align=8", "slices of a split K"),
        (&unit, "in-order slices=interleaved", "those of a split K"),
        (&unit, "in-order split-k=7 slices=interleaved", "6 blocks of 16 to deal out"),
        (&unit, "cutlass2 split-k=2 slices=interleaved", "tail last"),
        (&unit, "in-order split-k=2 slices=interleaved split-align=8", "no split-align"),
        (&unit, "in-order split-k=2 split-align=96", "1 part of 96 cannot be split"),
        (&unit, "in-order stream-k=0", "0 workers"),
        (&unit, "in-order stream-k=99999999", "blocks of work"),
        (&unit, "in-order split-k=2 order=1,1", "no permutation"),
        (&unit, "in-order order=1,0", "names 2 slices, but split-k=1"),
        (&unit, "in-order split-mode=serial seed=1", "only atomic splits"),
        (&unit, "in-order promote=8", "promotion interval"),
        (&unit, "in-order promote=0", "promotion interval"),
        (&unit, "in-order scales=1x128x128", "by promotion only"),
        (&unit, "in-order start=c split-k=2", "start at C"),
        (&unit, "deepgemm promote=64 scales=1x48x128", "two scale blocks"),
        (&mixed, "in-order", "one step only"),
    ] {
        let error = plan.parse::<Plan>().unwrap().check(unit, 64, 64, 96).unwrap_err().to_string();
        assert!(error.contains(why), "{plan}: {error}");
    }
}
