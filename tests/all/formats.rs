//! Formats against the independent oracle: every code, every rounding, every pair of small codes.

use crate::oracle::formats::{Overflow as OracleOverflow, Val, decode, encode};
use crate::oracle::numbers::Round;
use gemmulate::format::{self, ALL_FORMATS, Format, FormatSpec, Overflow, Value};
use gemmulate::num::{Class, Num, Term};
use gemmulate::round::{ROUNDINGS, Rounding};
use gemmulate::types::{E2M1, E2M3, E3M2, E4M3Fnuz, E5M2Fnuz, Tf32, Ue4m3, Ue8m0};
use num_traits::{Bounded, FromPrimitive, One, ToPrimitive, Zero};
use proptest::prelude::*;

/// The oracle's reading of a code, as the library's unpacked number would be.
fn same(ours: &Num, theirs: &Val) -> bool {
    match theirs {
        Val::Nan => ours.is_nan(),
        Val::Inf(negative) => ours.is_infinite() && ours.negative == *negative,
        Val::Num { neg, s, e } => {
            let scaled = s.times_pow2(i64::from(ours.frac_bits)).floor_int();
            ours.is_finite()
                && ours.negative == *neg
                && scaled == ours.significand.into()
                && i64::from(ours.exponent) == *e
        }
    }
}

#[test]
fn every_code_of_16_bits_or_fewer_decodes_as_the_oracle_says_and_encodes_to_itself() {
    for spec in ALL_FORMATS.iter().filter(|f| f.storage_bits <= 16) {
        for bits in 0..1u64 << spec.storage_bits {
            let num = spec.decode(bits);
            assert!(same(&num, &decode(spec.name, bits).unwrap()), "{spec} {bits:x}: {num:?}");
            if num.is_nan() {
                continue;
            }
            // ue4m3 ignores its top bit.
            let kept = if spec.name == "ue4m3" { bits & 0x7f } else { bits };
            assert_eq!(spec.encode_result(&num), kept, "{spec} {bits:x}");
            for &(rounding, _) in ROUNDINGS {
                assert_eq!(spec.encode(num.into(), rounding, Overflow::Ieee), Ok(kept), "{spec} {bits:x} {rounding}");
            }
        }
    }
}

#[test]
fn every_pair_of_small_codes_multiplies_exactly() {
    let small: Vec<&FormatSpec> = ALL_FORMATS.iter().filter(|f| f.storage_bits <= 8 && f.signed).collect();
    for x in &small {
        for y in small.iter().filter(|y| y.storage_bits == x.storage_bits) {
            for i in 0..1u64 << x.storage_bits {
                for j in 0..1u64 << y.storage_bits {
                    let (a, b) = (x.decode(i), y.decode(j));
                    if !a.is_finite() || !b.is_finite() {
                        continue;
                    }
                    let p = Term::product(&a, &b);
                    // Both values and their product are exact in f64.
                    let exact = x.to_f64(i) * y.to_f64(j);
                    let value = p.significand as f64 * 2f64.powi(p.exponent - p.frac_bits as i32);
                    assert_eq!(if p.negative { -value } else { value }, exact, "{x} {i:x} * {y} {j:x}");
                    assert_eq!(p.exponent, a.exponent + b.exponent);
                }
            }
        }
    }
}

/// Roundings of both sides, by name, and stochastic ones.
fn roundings() -> Vec<(Rounding, Round)> {
    let mut all: Vec<_> = ROUNDINGS.iter().map(|(r, name)| (*r, Round::named(&name.to_uppercase()).unwrap())).collect();
    for (bits, random) in [(1, 1), (3, 5), (8, 200), (20, 0xabcde), (60, 0x0fed_cba9_8765_4321)] {
        all.push((Rounding::Stochastic { bits, random }, Round::Stochastic { bits: bits.into(), random }));
    }
    all
}

fn check_encoding(spec: &FormatSpec, x: f64) {
    let theirs_in = decode("f64", x.to_bits()).unwrap();
    for (rounding, oracle_rounding) in roundings() {
        for (overflow, oracle_overflow) in
            [(Overflow::Ieee, OracleOverflow::Ieee), (Overflow::Saturate, OracleOverflow::Saturate)]
        {
            let ours = spec.encode_f64(x, rounding, overflow);
            let theirs = encode(spec.name, &theirs_in, oracle_rounding, oracle_overflow);
            match (&ours, &theirs) {
                (Ok(a), Ok(_)) if x.is_nan() => assert!(spec.decode(*a).is_nan()),
                (Ok(a), Ok(b)) => assert_eq!(a, b, "{spec} {x:e} {rounding} {overflow:?}"),
                (Err(_), Err(_)) => {}
                _ => panic!("{spec} {x:e} {rounding} {overflow:?}: {ours:x?}, oracle {theirs:x?}"),
            }
        }
    }
}

#[test]
fn edges_encode_as_the_oracle_says() {
    for spec in ALL_FORMATS {
        let max = spec.to_f64(spec.max_code(false));
        let tiny = 2f64.powi((spec.emin() - spec.fraction_bits as i32).max(-1074));
        let mut values = vec![0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE];
        for eighths in 0..=40 {
            values.push(tiny * f64::from(eighths) / 8.0);
            values.push(max * (1.0 + f64::from(eighths - 20) / 512.0));
        }
        for x in values {
            check_encoding(spec, x);
            check_encoding(spec, -x);
        }
    }
}

proptest! {
    #[test]
    fn random_numbers_encode_as_the_oracle_says(bits: u64, exponent in -200i32..200, which in 0..ALL_FORMATS.len()) {
        let spec = &ALL_FORMATS[which];
        check_encoding(spec, f64::from_bits(bits));
        let moderate = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (1023 << 52)) * 2f64.powi(exponent / 8);
        check_encoding(spec, moderate);
        check_encoding(spec, moderate * 2f64.powi(exponent));
    }

    #[test]
    fn f32_codes_round_trip(bits: u32) {
        let num = format::F32.decode(bits.into());
        prop_assert!(num.is_nan() || format::F32.encode_result(&num) == u64::from(bits));
        let host = f32::from_bits(bits);
        prop_assert!(host.is_nan() || format::F32.to_f64(bits.into()) == f64::from(host));
    }

    #[test]
    fn f64_to_f32_is_the_hosts(bits: u64) {
        let x = f64::from_bits(bits);
        prop_assume!(!x.is_nan());
        let ours = format::F32.encode_f64(x, Rounding::NearestEven, Overflow::Ieee).unwrap();
        prop_assert_eq!(ours, u64::from((x as f32).to_bits()));
    }

    #[test]
    fn decoding_is_total(bits: u64) {
        for spec in ALL_FORMATS {
            let num = spec.decode(bits);
            let _ = spec.encode_result(&num);
            let _ = spec.to_f64(bits);
        }
    }
}

#[test]
fn documented_examples_of_overflow() {
    let e4m3 = |x, overflow| format::E4M3.encode_f64(x, Rounding::NearestEven, overflow);
    assert_eq!(e4m3(464.0, Overflow::Ieee), Ok(0x7e));
    assert_eq!(e4m3(464.1, Overflow::Ieee), Ok(0x7f));
    assert_eq!(e4m3(1e9, Overflow::Saturate), Ok(0x7e));
    assert_eq!(format::E4M3FNUZ.encode_f64(1e9, Rounding::NearestEven, Overflow::Ieee), Ok(0x80));
    assert_eq!(format::E4M3FNUZ.encode_f64(-0.0, Rounding::NearestEven, Overflow::Ieee), Ok(0));
    assert!(format::E2M1.encode_f64(7.0, Rounding::AwayFromZero, Overflow::Ieee).is_err());
    assert_eq!(format::E2M1.encode_f64(7.0, Rounding::TowardZero, Overflow::Ieee), Ok(7));
    assert!(format::UE8M0.encode_f64(0.0, Rounding::NearestEven, Overflow::Ieee).is_err());
    assert!(format::UE8M0.encode_f64(-1.0, Rounding::NearestEven, Overflow::Ieee).is_err());
    assert!(format::E2M1.encode(Value::Nan, Rounding::NearestEven, Overflow::Saturate).is_err());
    // tf32 reads the low 13 bits as zero, so this signalling NaN is infinity.
    assert_eq!(format::TF32.decode(0x7f80_0001).class, Class::Infinite);
}

fn check_newtype<T>(one: T, code_of_one: u64)
where
    T: Format + One + Bounded + FromPrimitive + ToPrimitive + PartialEq + core::fmt::Display + core::str::FromStr,
{
    assert_eq!(one.to_bits(), code_of_one);
    assert!(T::from_f64(1.0).is_some_and(|x| x == one));
    assert_eq!(one.to_f64(), Some(1.0));
    assert_eq!(one.to_string(), "1");
    assert!("1".parse::<T>().is_ok_and(|x| x == one));
    assert!("one".parse::<T>().is_err());
    let max = T::max_value().to_f64().unwrap();
    assert_eq!(T::SPEC.to_f64(T::max_value().to_bits()), max);
    assert!(max > 1.0);
    let min = T::min_value().to_f64().unwrap();
    let least = (0..1u64 << T::SPEC.storage_bits.min(16)).map(|bits| T::SPEC.to_f64(bits));
    assert!(T::SPEC.storage_bits > 16 || least.filter(|x| x.is_finite()).fold(max, f64::min) == min);
    assert!(min < max && min <= if T::SPEC.signed { -max } else { 1.0 });
}

#[test]
fn newtypes_behave_like_numbers() {
    check_newtype(Tf32::one(), 0x3f80_0000);
    check_newtype(E5M2Fnuz::one(), 0x40);
    check_newtype(E4M3Fnuz::one(), 0x40);
    check_newtype(E3M2::one(), 0x0c);
    check_newtype(E2M3::one(), 0x08);
    check_newtype(E2M1::one(), 0x02);
    check_newtype(Ue8m0::one(), 0x7f);
    check_newtype(Ue4m3::one(), 0x38);
    assert!(E2M1::zero().is_zero() && !E2M1::one().is_zero());
    assert_eq!(E2M1::from_f64(5.0), Ok(E2M1::from_bits(6)));
    assert_eq!((E2M1::one() + E2M1::one()).to_f64(), 2.0);
    assert_eq!(E2M1::max_value() * E2M1::max_value(), E2M1::max_value());
    assert_eq!(format!("{:?}", E3M2::from_bits(0x1f)), "28.0");
    assert_eq!(E2M1::min_value().to_f64(), -6.0);
    // Without a sign what is below all numbers is the smallest one.
    let two = Ue4m3::one() + Ue4m3::one();
    assert_eq!((Ue4m3::one() - two).to_f64(), 0.0);
    assert_eq!(Ue8m0::one() - Ue8m0::one(), Ue8m0::min_value());
    assert_eq!(<Ue4m3 as FromPrimitive>::from_f64(-1.0), None);
    // No NaN: the largest number.
    assert_eq!(E2M1::zero() / E2M1::zero(), E2M1::max_value());
}

#[cfg(feature = "microfloat")]
#[test]
fn microfloat_types_are_the_same_codes() {
    use microfloat::{f4e2m1fn, f6e2m3fn, f6e3m2fn, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu};
    macro_rules! check {
        ($($ty:ty)*) => { $(
            let spec = <$ty>::SPEC;
            for bits in 0..1u64 << spec.storage_bits {
                let value = <$ty as Format>::from_bits(bits);
                let (theirs, ours) = (value.to_f32(), spec.to_f64(bits) as f32);
                assert!(theirs == ours || (theirs.is_nan() && ours.is_nan()), "{spec} {bits:x}: {ours} {theirs}");
                assert_eq!(Format::to_bits(value), bits);
            }
        )* };
    }
    check!(f8e4m3fn f8e5m2 f8e4m3fnuz f8e5m2fnuz f6e3m2fn f6e2m3fn f4e2m1fn f8e8m0fnu);
}

#[test]
fn infinities_without_a_sign_have_one_code() {
    let unsigned = FormatSpec { name: "unsigned", signed: false, exponent_bits: 6, bias: 31, ..format::F16 };
    assert_eq!(unsigned.problem(), None);
    assert_eq!([true, false].map(|negative| unsigned.infinity_code(negative)), [Some(0xFC00); 2]);
    assert_eq!(unsigned.encode_result(&Num::infinity(true)), 0xFC00);
    assert_eq!(format::F16.infinity_code(true), Some(0xFC00));
}

/// The nearest value of every type, which is rounded once.
#[test]
fn nearest_values_are_the_encoders() {
    use crate::rng::Rng;
    use gemmulate::prelude::{F8E4M3, F8E5M2, bf16, f16};
    fn check<T: Format>() {
        let mut rng = Rng(T::SPEC.storage_bits.into());
        for _ in 0..20_000 {
            // Exponents of f32's subnormals to beyond f16's largest number, and hairs from ties.
            let digits = rng.next() & rng.pick(&[!0, !0 << 20, !0 << 30, !0 << 41, !0 << 49]) | rng.pick(&[0, 1]);
            let x = f64::from_bits(digits & ((1 << 52) - 1) | (1023 - 30 + rng.next() % 60) << 52);
            let x = if rng.one_in(2) { -x } else { x };
            let code = T::SPEC.encode_f64(x, Rounding::NearestEven, Overflow::Ieee);
            let saturated = || T::SPEC.encode_f64(x, Rounding::NearestEven, Overflow::Saturate);
            let want = code.or_else(|_| saturated()).unwrap_or(0);
            assert_eq!(T::nearest(x).to_bits(), want, "{x:e} in {}", T::SPEC.name);
        }
    }
    check::<f16>();
    check::<bf16>();
    check::<Tf32>();
    check::<F8E4M3>();
    check::<F8E5M2>();
    check::<E4M3Fnuz>();
    check::<E2M1>();
    check::<Ue8m0>();
    assert_eq!([f16::nearest(1e9), f16::nearest(-1e9)], [f16::INFINITY, f16::NEG_INFINITY]);
    assert!(f16::nearest(f64::NAN).is_nan() && F8E4M3::nearest(f64::INFINITY).is_nan());
    assert_eq!([E2M1::nearest(f64::NAN), E2M1::nearest(-1e9)].map(E2M1::to_f64), [6.0, -6.0]);
    assert_eq!([Ue4m3::nearest(-1.0), Ue4m3::nearest(0.5)].map(Ue4m3::to_f64), [0.0, 0.5]);
    // A hair above a tie, which half takes for one.
    let x = f64::from_bits(0x3fc7_5000_e08b_c830);
    assert_eq!(f64::from(bf16::nearest(x)), 0.182_617_187_5);
}
