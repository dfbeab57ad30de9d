//! `probe`, `fit`, `diff` and `classes` as a user meets them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod run;

use gemmulate::Unit;
use run::gemmulate;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of `probe --json`, as the README's table names them.
fn documented_keys() -> BTreeSet<String> {
    let readme = include_str!("../../README.md");
    let rows = readme.lines().skip_while(|l| *l != "| key | meaning |").skip(2).take_while(|l| l.starts_with('|'));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Codes in hex.
fn codes(value: &Value) -> Vec<u64> {
    let code = |x: &Value| u64::from_str_radix(x.as_str().unwrap(), 16).unwrap();
    value.as_array().map_or(Vec::new(), |all| all.iter().map(code).collect())
}

/// What a unit gives for an input in JSON.
fn answer(unit: &Unit, input: &Value) -> String {
    let c = u64::from_str_radix(input["c"].as_str().unwrap(), 16).unwrap();
    let [a, b, scale_a, scale_b] = ["a", "b", "scale_a", "scale_b"].map(|name| codes(&input[name]));
    format!("{:x}", unit.dot_add_scaled_bits(&a, &b, c, &scale_a, &scale_b).unwrap())
}

/// Every unit of the catalogue, those of one recipe and interface once: they answer alike, and so
/// is what is printed of them.
#[test]
fn probe_prints_every_property_of_every_unit() {
    let mut keys = documented_keys();
    assert!(keys.remove("model"), "of a command only");
    assert_eq!(keys.len(), 22, "{keys:?}");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for unit in Unit::all() {
        use gemmulate::probe::BlackBox;
        let times = seen.entry(format!("{:?} {:?}", unit.recipe.unwrap(), unit.interface())).or_default();
        *times += 1;
        if *times > 1 {
            continue;
        }
        let run = gemmulate(&["probe", &unit.name, "--json"], b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{unit}");
        let found: Map<String, Value> = serde_json::from_str(&run.out).unwrap();
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), keys, "{unit}");
        for (key, property) in found {
            let evidence = property["evidence"].as_array().unwrap_or_else(|| panic!("{unit} {key}: {property}"));
            let reason = property.get("cannot_tell").and_then(Value::as_str).unwrap_or_default();
            let fields = property.as_object().unwrap().len();
            match property.get("value").unwrap() {
                Value::Null => assert!(fields == 3 && !reason.is_empty(), "{unit} {key}: no reason"),
                value => {
                    assert!(fields == 2 && !evidence.is_empty(), "{unit} {key} = {value}: no evidence");
                    assert!(!value.is_object() && !value.is_array(), "{unit} {key}: {value}");
                }
            }
            // The first and the last are the very inputs and bits.
            for shown in evidence.first().into_iter().chain(evidence.last()) {
                assert_eq!(shown["d"], answer(&unit, &shown["input"]), "{unit} {key}: {shown}");
                assert!(shown["shows"].as_str().is_some_and(|s| !s.is_empty()), "{unit} {key}: {shown}");
            }
        }
    }
    assert_eq!(seen.values().sum::<usize>(), 371);
}

#[test]
fn classes_as_json() {
    let run = gemmulate(&["classes", "--json"], b"");
    assert_eq!(run.code, 0, "{}", run.err);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let classes = found["classes"].as_array().unwrap();
    let units: Vec<&str> =
        classes.iter().flat_map(|c| c["units"].as_array().unwrap()).map(|u| u.as_str().unwrap()).collect();
    assert_eq!((units.len(), units.iter().collect::<BTreeSet<_>>().len()), (371, 371));
    let first = |n: &Value| Unit::find(classes[n.as_u64().unwrap() as usize]["units"][0].as_str().unwrap()).unwrap();
    let separations = found["separations"].as_array().unwrap();
    assert!(separations.len() > 100, "{}", separations.len());
    for s in separations {
        let d = ["first", "second"].map(|side| answer(&first(&s[side]), &s["input"]));
        assert!(d[0] != d[1] && s["d"] == serde_json::json!(d), "{s}");
    }
    assert!(found["same_step"].as_array().unwrap().iter().all(|g| g.as_array().unwrap().len() > 1));
    let text = gemmulate(&["classes", "--arch", "volta"], b"").out;
    assert_eq!(text, gemmulate(&["classes", "--arch", "V100"], b"").out);
    let run = gemmulate(&["classes", "--arch", "volta,nonsense"], b"");
    assert!(run.err.contains("H200") && run.code == 2, "{}", run.err);
    assert!(text.starts_with("class 0: ") && !text.contains("no input found"), "{text}");
}

const VOLTA: &str = "volta/mma.m8n8k4.f32.f16.f16.f32";

#[test]
fn diff_says_where_units_differ_and_proves_nothing_unasked() {
    let other = "custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=24:e_zero=emin-6";
    let volta = "custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=23:e_zero=emin-5";
    let run = gemmulate(&["diff", volta, other], b"");
    assert!(run.code == 1 && run.out.contains(" | ") && run.out.contains("line: "), "{}{}", run.out, run.err);
    assert!(!run.out.contains("proved"), "{}", run.out);
    let run = gemmulate(&["diff", volta, other, "--json"], b"");
    let found: Value = serde_json::from_str(&run.out).unwrap();
    assert!(found["same"] == false && found.get("proof").is_none(), "{found}");
    for (side, name) in [("first", volta), ("second", other)] {
        assert_eq!(found[side], answer(&Unit::find(name).unwrap(), &found["input"]), "{name}");
    }
    let run = gemmulate(&["diff", VOLTA, "turing/mma.m8n8k4.f32.f16.f16.f32"], b"");
    assert!(run.code == 0 && run.out.starts_with("the same function") && !run.out.contains("proved"), "{}", run.out);
    let run = gemmulate(&["diff", VOLTA, "ampere/mma.m16n8k8.f32.f16.f16.f32"], b"");
    let told = run.err.contains("K = 8") && run.err.contains("gemmulate compare A.npy B.npy --units volta/");
    assert!(run.code == 2 && told, "{}", run.err);
}

#[cfg(feature = "smt")]
mod proofs {
    use super::{VOLTA, Value, answer, gemmulate};
    use gemmulate::Unit;
    use gemmulate::smt::{SOLVERS, Solver};
    use std::time::Duration;

    fn some_solver() -> bool {
        let limit = Duration::from_secs(60);
        for wanted in std::env::var("GEMMULATE_SOLVERS").unwrap_or_default().split_whitespace() {
            Solver::named(wanted, limit).unwrap_or_else(|error| panic!("GEMMULATE_SOLVERS: {error}"));
        }
        let found = Solver::find(limit).is_ok();
        if !found {
            eprintln!("left out: proofs, neither of {SOLVERS:?} is installed");
        }
        found
    }

    fn proof(first: &str, second: &str, more: &[&str]) -> (Value, i32) {
        let run = gemmulate(&[&["diff", first, second, "--prove", "--json"], more].concat(), b"");
        let found = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}{}", run.out, run.err));
        (found, run.code)
    }

    #[test]
    fn diff_proves_minimality_and_equality() {
        if !some_solver() {
            return;
        }
        let of = |recipe: &str| format!("custom/m1n1k4.f16.e4m3.e4m3.f16/{recipe}");
        // Differ: in two terms, and not in one.
        let (first, second) = (of("dot:block=4:F=10:e_zero=none"), of("dot:block=4:F=11:e_zero=none"));
        let (found, code) = proof(&first, &second, &[]);
        assert_eq!((code, &found["proof"]["equal"], &found["same"]), (1, &false.into(), &false.into()), "{found}");
        assert_eq!(found["proof"]["fewest_terms"], 2, "{found}");
        for (side, name) in [("first", &first), ("second", &second)] {
            assert_eq!(found[side], answer(&Unit::find(name).unwrap(), &found["input"]), "{name}");
        }
        let run = gemmulate(&["diff", &first, &second, "--prove"], b"");
        assert!(run.out.contains("proved minimal in its 2 terms"), "{}", run.out);
        // Equal, which no reason in the library says.
        let (first, second) = (of("dot:block=4:F=25:e_zero=emin-7"), of("dot:block=4:F=25:e_zero=none"));
        let (found, code) = proof(&first, &second, &[]);
        assert_eq!((code, &found["proof"]["equal"]), (0, &true.into()), "{found}");
        // No time: nothing is proved.
        let pair = ["ampere/mma.m8n8k4.f64.f64.f64.f64", "custom/m8n8k4.f64.f64.f64.f64/fma:round=rz"];
        let (found, code) = proof(pair[0], pair[1], &["--timeout", "0.01"]);
        assert_eq!((code, &found["proof"]["equal"], &found["same"]), (1, &Value::Null, &false.into()), "{found}");
        assert!(found["proof"]["open"].is_string(), "{found}");
        // No encoding: what was found without the solver stands.
        let scaled = "custom/m1n1k4.block2.f32.e5m2.e5m2.f32.ue8m0/round-down:G=4";
        let (found, code) = proof(scaled, &format!("{scaled}:F=20"), &[]);
        assert_eq!((code, &found["same"]), (1, &false.into()), "{found}");
        assert!(found["proof"]["open"].as_str().unwrap().contains("no encoding"), "{found}");
    }

    #[test]
    fn diff_says_what_a_proof_lacks() {
        for (more, message) in [
            (&["--prove", "--solver", "no-such-solver"][..], "`no-such-solver` cannot be run"),
            (&["--prove", "--timeout=-1"], "--timeout must be a number"),
            (&["--solver", "z3"], "--prove"),
        ] {
            let run = gemmulate(&[&["diff", VOLTA, VOLTA], more].concat(), b"");
            assert!(run.code == 2 && run.err.contains(message), "{more:?}: {}", run.err);
        }
        let run = gemmulate(&["diff", VOLTA, "valpey/volta", "--prove", "--timeout", "0"], b"");
        assert!(!some_solver() || run.out.contains("not settled by the solver: no answer ("), "{}{}", run.out, run.err);
        let run = gemmulate(&["diff", VOLTA, "valpey/volta", "--prove", "--timeout", "1e300"], b"");
        assert!(run.code == 2 && run.err.contains("--timeout must be a number"), "{}", run.err);
    }
}

#[test]
fn fit_says_when_time_ran_out() {
    let unit = "custom/m1n1k12.f32.e2m3.e4m3.f32/dot:block=12:F=17:align=rne:sticky=yes:out=ru";
    let run = gemmulate(&["fit", unit, "--limit", "0"], b"");
    assert!(run.code == 2 && run.err.contains("no model in 0") && run.err.contains("gave 0 answers"), "{}", run.err);
}
