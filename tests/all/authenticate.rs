//! Other people's tests, judged over units whose parameters are known.

use gemmulate::Unit;
use gemmulate::probe::{Verdict, authenticate, read_tests};

/// Khattak and Mikaitis V-A: FTTN's tests mislead on units without extra bits, or that round up.
#[test]
fn published_tests_are_authenticated() {
    let text = include_str!("../data/fttn.tsv");
    let tests = read_tests(text).unwrap();
    let unit = |recipe: &str| Unit::find(&format!("custom/m1n1k16.f32.f16.f16.f32/{recipe}")).unwrap();
    let (no_extra, rounds_up) = (unit("dot:block=8:F=23:out=rne"), unit("dot:block=8:F=24:out=ru"));
    let wrong = |unit: &Unit| -> Vec<(String, String)> {
        let results = authenticate(&tests, std::slice::from_ref(unit)).unwrap().into_iter();
        let wrong = results.filter(|r| matches!(r.verdict, Verdict::Wrong(_)));
        wrong.map(|r| (r.property, r.conclusion.unwrap().to_string())).collect()
    };
    let first = wrong(&no_extra);
    assert!(first.iter().any(|(p, c)| p.starts_with("block") && c == "block<=1"), "{first:?}");
    assert!(first.iter().any(|(p, c)| p.starts_with("final rounding") && c == "out=rz|rd"), "{first:?}");
    assert!(!first.iter().any(|(p, _)| p.starts_with("extra bits")), "{first:?}");
    let second = wrong(&rounds_up);
    assert!(second.iter().any(|(_, c)| c == "block>=16"), "{second:?}");
    assert!(second.iter().all(|(p, _)| p.starts_with("block")), "{second:?}");
    let ampere = wrong(&unit("dot:block=8:F=24"));
    assert!(ampere.is_empty(), "{ampere:?}");
}

/// Every kind of verdict, and files that cannot be read.
#[test]
fn conclusions_are_judged_by_the_units_parameters() {
    let unit = Unit::find("custom/m1n1k4.f32.f16.f16.f32/dot:block=8:F=23:sticky=yes").unwrap();
    let verdict = |unit: &Unit, line: &str| {
        let tests = read_tests(line).unwrap();
        authenticate(&tests, std::slice::from_ref(unit)).unwrap().remove(0).verdict
    };
    let one = |conclusion: &str| verdict(&unit, &format!("p\t1 x 1\t0\t1 => {conclusion}"));
    for right in ["sticky=yes", "sticky=no|true", "block=4", "out=RZ", "out=rd|rz", "extra-bits<=0", "F>=23", "c=with"]
    {
        assert_eq!(one(right), Verdict::Right, "{right}");
    }
    // Both conclusions from one result; and nothing about widths that exact sums do not have.
    let two = read_tests("p\t1 x 1\t0\t1 => F<=30; 1 => F<=2").unwrap();
    let two: Vec<Verdict> =
        authenticate(&two, std::slice::from_ref(&unit)).unwrap().into_iter().map(|x| x.verdict).collect();
    assert_eq!(two, [Verdict::Right, Verdict::Wrong("F=23".into())]);
    let exact = Unit::find("cdna1/v_mfma_f32_32x32x8f16").unwrap();
    for claim in ["F=25", "F<=25", "align=rz", "extra-bits=2"] {
        let verdict = verdict(&exact, &format!("p\t1 x 1\t0\t1 => {claim}"));
        assert!(matches!(&verdict, Verdict::NotChecked(why) if why.contains("exact")), "{claim}: {verdict:?}");
    }
    for (wrong, why) in [("sticky=no", "sticky=yes"), ("block>=5", "block=4"), ("extra-bits=1", "extra-bits=0")] {
        assert_eq!(one(wrong), Verdict::Wrong(why.into()), "{wrong}");
    }
    assert!(matches!(one("G=4"), Verdict::NotChecked(_)));
    assert!(matches!(one("it is a tensor core"), Verdict::NotChecked(_)));
    assert_eq!(verdict(&unit, "p\t1 x 1\t0\t2 => block=4"), Verdict::Unforeseen);
    // Special values count, and zeros are equal.
    assert_eq!(verdict(&unit, "p\tInf x 1\t0\tinf => block=4"), Verdict::Right);
    assert_eq!(verdict(&unit, "p\tinf x 1\t-inf\tnan => block=4"), Verdict::Right);
    assert_eq!(verdict(&unit, "p\t0 x 1\t0\t-0 => block=4"), Verdict::Right);
    let left_out = |unit: &Unit, line: &str| matches!(verdict(unit, line), Verdict::LeftOut(_));
    assert!(left_out(&unit, "p\t0 x 0, 0 x 0, 0 x 0, 0 x 0, 1 x 1\t0\t1 => block=4"));
    assert!(left_out(&unit, "p\t2^-25 x 1\t0\t1 => block=4"));
    let e4m3 = Unit::find("custom/m1n1k4.f32.e4m3.e4m3.f32/pairwise:G=4").unwrap();
    assert!(left_out(&e4m3, "p\tinf x 1\t0\tinf => G=4"));
    assert_eq!(verdict(&e4m3, "p\tnan x 1\t0\tnan => G=4"), Verdict::Right);
    for bad in [
        "a line",
        "p\t1 * 1\t0\t1 => block=4",
        "p\t1 x y\t0\t1 => block=4",
        "p\t1 x 1\t\t1 => block=4",
        "p\t1 x 1\t1+2^-60\t1 => block=4",
        "p\t1 x 1\t0\t1: block=4",
        "p\t1 x 1\t0\t1 => blocks=4",
        "p\t1 x 1\t0\t1 => out=truncate",
        "p\t1 x 1\t0\t1 => block>=many",
        "p\t1 x 1\t0\t1 => out>=3",
    ] {
        assert!(read_tests(bad).is_err(), "{bad}");
    }
}
