//! SPEC section 7 from Turing on, and its second table.

use super::facts::{Fact, Rows, U, VOLTA_F16, bits, fact, ones, orders, p2, product};
use super::formats::decode;
use super::names::{Rule, all_units, describe};

const HOPPER_BF16: [&str; 2] = ["hopper/mma.m16n8k16.f32.bf16.bf16.f32", "hopper/wgmma.m64n8k16.f32.bf16.bf16"];

/// Adds every row.
pub(crate) fn add(f: &mut Rows) {
    fasi_later(f);
    khattak_later(f);
    ada(f);
    double(f);
    mma_sim(f);
    h100(f);
    zero_exponent(f);
    scaled(f);
    scaled_groups(f);
    cdna3(f);
    cdna12(f);
    chained(f);
    interleaved(f);
}

/// [F] 3.2 and 3.3: Turing and Ampere.
fn fasi_later(f: &mut Rows) {
    for o in orders(&[1.0, p2(-24), p2(-24), p2(-24), p2(-24)]) {
        let unit = "turing/mma.m16n8k8.f32.f16.f16.f32";
        f.at(unit, "[F] 3.2 one guard bit").holds(&ones(&o[1..]), o[0], 1.0 + 2.0 * U);
    }
    for unit in ["ampere/mma.m16n8k8.f32.bf16.bf16.f32", "ampere/mma.m16n8k16.f32.bf16.bf16.f32"] {
        f.at(unit, "[F] 3.3 subnormal result").holds(&[(p2(-126), 0.5)], 0.0, p2(-127));
    }
}

/// [K] IV-A2, A5.
fn khattak_later(f: &mut Rows) {
    let ampere = [(1.5, 1.5), product(p2(-23)), product(p2(-24)), product(p2(-24))];
    for unit in [
        "ampere/mma.m16n8k8.f32.f16.f16.f32",
        "ampere/mma.m16n8k8.f32.bf16.bf16.f32",
        "ampere/mma.m16n8k16.f32.f16.f16.f32",
        "ampere/mma.m16n8k16.f32.bf16.bf16.f32",
        "ampere/mma.m16n8k4.f32.tf32.tf32.f32",
        "ampere/mma.m16n8k8.f32.tf32.tf32.f32",
    ] {
        f.at(unit, "[K] IV-A2 one extra bit").holds(&ampere, 0.0, 2.25 + p2(-22));
    }
    let hopper = [(1.5, 1.5), (1.75 * p2(-11), p2(-12)), product(p2(-25))];
    for unit in
        ["hopper/mma.m16n8k16.f32.f16.f16.f32", "hopper/wgmma.m64n8k16.f32.f16.f16", HOPPER_BF16[0], HOPPER_BF16[1]]
    {
        f.at(unit, "[K] IV-A5 two extra bits").holds(&hopper, 0.0, 2.25 + p2(-22));
    }
}

/// [K] IV-A4: Ada's fp8.
fn ada(f: &mut Rows) {
    for unit in [
        "ada/mma.m16n8k16.f32.e4m3.e4m3.f32",
        "ada/mma.m16n8k16.f32.e4m3.e5m2.f32",
        "ada/mma.m16n8k16.f32.e5m2.e4m3.f32",
        "ada/mma.m16n8k16.f32.e5m2.e5m2.f32",
    ] {
        let (near, far) = (product(p2(-13)), product(p2(-14)));
        f.at(unit, "[K] IV-A4 13 fraction bits").holds(&[(1.0, 1.0), near, near], 0.0, 1.0 + p2(-12));
        f.at(unit, "[K] IV-A4 no fourteenth bit").holds(&[far, far], 1.0, 1.0);
    }
}

fn double(f: &mut Rows) {
    let e = p2(-53);
    for (c, p1, p2_) in [(1.0, e, e), (e, 1.0, e), (e, e, 1.0)] {
        let d = if p2_ == 1.0 { 1.0 + p2(-52) } else { 1.0 };
        let unit = "ampere/mma.m8n8k4.f64.f64.f64.f64";
        f.at(unit, "[K] DMMA is a chain of fma").holds(&ones(&[p1, p2_]), c, d);
    }
}

/// [X] VI-C on every fused f16 unit with f32 c and d, and tf32's NaN that reads as infinity.
fn mma_sim(f: &mut Rows) {
    let terms = [(2048.0, 2048.0), (2048.0, -2048.0)];
    let c = f64::from(-0.000001f32);
    f.at("cdna3/v_mfma_f32_32x32x8_f16", "[X] VI-C rounding down").holds(&terms, c, -0.25);
    for name in all_units() {
        let u = describe(&name).expect("canonical");
        let unit: &'static str = name.leak();
        if matches!(u.rule, Rule::Fda { .. }) && (u.a, u.b, u.c, u.d) == ("f16", "f16", "f32", "f32") {
            f.at(unit, "[X] VI-C truncation").holds(&terms, c, 0.0);
        }
        if u.a == "tf32" {
            let mut row = fact(unit, &[(0.0, 1.0)], 0.0, f64::INFINITY, "[X] low bits are read as 0");
            row.a[0] = 0x7F80_0001;
            f.0.push(row);
        }
    }
}

fn h100(f: &mut Rows) {
    let hex = |x: &str| -> Vec<u64> { x.split(' ').map(|h| u64::from_str_radix(h, 16).expect("hex")).collect() };
    let a = "9b94 19f3 9a2e 1a67 9a25 9b4e 9b29 9a33 99e0 1a14 9914 99d1 9ae9 1b1a 9a9c 1b3a";
    let b = "9aaf 99f3 9acc 1b7c 19ed 1b25 9a1b 9a20 9af7 9a48 1ae1 1b32 1b12 1b0e 9a68 1735";
    for unit in HOPPER_BF16 {
        let row = fact(unit, &[], 0.0, 1.375 * p2(-146), "MATLAB-tensor-core issue 7, read off an H100");
        f.0.push(Fact { a: hex(a), b: hex(b), ..row });
    }
}

/// The rows of the second table on e_zero.
fn zero_exponent(f: &mut Rows) {
    let mut half = |unit: &'static str, n: i32, source: &'static str| {
        for (n, d) in [(n, 0.0), (n + 1, p2(-24))] {
            f.at(unit, source).holds(&[(p2(-14), p2(-11)), (p2(-24), p2(n + 24))], 0.0, d);
        }
    };
    half(VOLTA_F16[0], -43, "e_zero -19");
    half(VOLTA_F16[1], -43, "e_zero -19 (D7)");
    half("turing/mma.m16n8k8.f16.f16.f16.f16", -45, "e_zero -20");
    half("ampere/mma.m16n8k8.f16.f16.f16.f16", -45, "e_zero -20");
    half("ampere/mma.m16n8k16.f16.f16.f16.f16", -45, "e_zero -20");
    half("hopper/mma.m16n8k16.f16.f16.f16.f16", -47, "e_zero -21");
    half("hopper/wgmma.m64n8k16.f16.f16.f16", -47, "e_zero -21");
    let mut single = |unit: &'static str, n: i32, source: &'static str| {
        for (n, d) in [(n, 0.0), (n - 1, p2(-149))] {
            f.at(unit, source).holds(&[product(p2(-149)), product(-p2(n))], 0.0, d);
        }
    };
    single("ampere/mma.m16n8k8.f32.bf16.bf16.f32", -156, "e_zero -132");
    single(HOPPER_BF16[0], -158, "e_zero -133");
    single(HOPPER_BF16[1], -158, "e_zero -133");
}

/// Smallest and largest exponent of the powers of two in a format.
fn reach(format: &str) -> (i32, i32) {
    let f = super::formats::format(format).expect("known");
    let largest = decode(format, f.max).expect("known").value().log2();
    let smallest = f.emin - i64::from(f.m);
    (i32::try_from(smallest).expect("small"), i32::try_from(largest).expect("small"))
}

/// Two to the `e` as a product of a power of two in each format.
fn shared_out(e: i32, a: &str, b: &str) -> (f64, f64) {
    let ((low, high), (other_low, other_high)) = (reach(a), reach(b));
    let x = (e.div_euclid(2)).clamp(low, high).clamp(e - other_high, e - other_low);
    (p2(x), p2(e - x))
}

/// Two to the e as a pair of scales.
fn scale(e: i32) -> (u64, u64) {
    let one = |e: i32| bits("ue8m0", p2(e), 0);
    (one(e.div_euclid(2)), one(e - e.div_euclid(2)))
}

/// The rows on block scales.
fn scaled(f: &mut Rows) {
    for name in all_units() {
        let u = describe(&name).expect("canonical");
        let unit: &'static str = name.leak();
        if u.rule == Rule::BlockScaled {
            // One scale serves both products, so the operands must span 2^9 or 2^10; fp4 pairs cannot.
            let (low, high) = (reach(u.a).0 + reach(u.b).0, reach(u.a).1 + reach(u.b).1);
            for (gap, d) in [(9, 0.0), (10, p2(-149))].into_iter().filter(|(gap, _)| high - gap >= low) {
                let (x, y) = (shared_out(high, u.a, u.b), shared_out(high - gap, u.a, u.b));
                let row = fact(unit, &[x, (-y.0, y.1)], 0.0, d, "e_zero -133, scaled");
                let (sa, sb) = scale(-149 - high);
                f.0.push(Fact { scale_a: vec![sa], scale_b: vec![sb], ..row });
            }
        }
    }
}

/// The rows on groups of 16 with a scale each.
fn scaled_groups(f: &mut Rows) {
    let unit = "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue8m0";
    let one = bits("ue8m0", 1.0, 0);
    for (n, d) in [(-174, 0.0), (-175, p2(-149))] {
        let mut row = fact(unit, &[(1.0, 1.0)], 0.0, d, "e_zero -139");
        (row.a[16], row.b[16]) = (bits("e2m1", -1.0, 0), bits("e2m1", 1.0, 0));
        let (first, second) = (scale(-149), scale(n));
        row.scale_a = vec![first.0, second.0, one, one];
        row.scale_b = vec![first.1, second.1, one, one];
        f.0.push(row);
    }
    for (n, d) in [(35, 1.0), (36, 0.0)] {
        let row = fact(unit, &[(1.0, 1.0), (1.0, -1.0)], 1.0, d, "a cancelled group keeps its exponent");
        let s = scale(n);
        f.0.push(Fact { scale_a: vec![s.0, one, one, one], scale_b: vec![s.1, one, one, one], ..row });
    }
}

fn cdna3(f: &mut Rows) {
    let (half, brain) = ("cdna3/v_mfma_f32_32x32x8_f16", "cdna3/v_mfma_f32_32x32x8_bf16");
    let below_one = 1.0 - p2(-24);
    let down = [product(-p2(-24)), product(-p2(-25)), product(p2(-32))];
    f.at(half, "first floor at 32").holds(&down, 1.0, below_one);
    f.at(half, "second floor at 31").holds(&[product(p2(-24)), product(p2(-32))], 1.0, 1.0);
    for (n, d) in [(-158, 0.0), (-157, p2(-149))] {
        f.at(brain, "exponent clamp -126").holds(&[product(p2(-150)), product(p2(n))], 0.0, d);
    }
    for (n, d) in [(-25, below_one), (-26, 1.0)] {
        f.at("cdna3/v_mfma_f32_32x32x16_fp8_fp8", "the e_c check").holds(&[(1.0, 1.0)], -p2(n), d);
    }
}

fn cdna12(f: &mut Rows) {
    let tiny = (p2(-80), -p2(-80));
    f.at("cdna1/v_mfma_f32_32x32x2bf16", "negative underflow keeps its sign").holds(&[tiny], 0.0, -0.0);
    let two = "cdna2/v_mfma_f32_32x32x4bf16";
    f.at(two, "-0 is read as +0").holds(&[tiny; 4], -0.0, 0.0);
    let c = f64::from(f32::from_bits(0x80C0_0000));
    for (zero, d) in [((0.0, -1.0), -0.0), ((-0.0, 1.0), 0.0)] {
        let terms = [(p2(-63), p2(-63)), zero, zero, zero];
        f.at(two, "a flushed sum keeps its sign").holds(&terms, c, d);
    }
}

/// Special values per step of a chain.
fn chained(f: &mut Rows) {
    let (big, infinite) = (p2(127), f64::NEG_INFINITY);
    let terms = [(big, big), (0.0, 0.0), (infinite, 1.0), (0.0, 0.0)];
    f.at("cdna1/v_mfma_f32_32x32x4bf16", "group 0 overflows, S per step").holds(&terms, 0.0, f64::NAN);
    let mut row = fact("ampere/mma.m16n8k16.f16.f16.f16.f16", &[(65504.0, 65504.0)], 0.0, f64::NAN, "S per FDA");
    (row.a[8], row.b[8]) = (0xFC00, 0x3C00);
    f.0.push(row);
}

/// Not a row of section 7: fp8 through `mma.sync` becomes f16 first, where e4m3's subnormals are normal numbers. Their
/// exponent is then the true one and 2^-17 stays; with e4m3's own -6 for 2^-9 it would be cut off.
fn interleaved(f: &mut Rows) {
    for unit in ["hopper/mma.m16n8k16.f32.e5m2.e4m3.f32", "blackwell/mma.m16n8k32.f32.e5m2.e4m3.f32"] {
        let terms = [(p2(15), p2(-9)), (p2(-16), 0.5)];
        f.at(unit, "SPEC 3, interleaved FDA: operands are f16").holds(&terms, 0.0, 64.0 + p2(-17));
    }
}
