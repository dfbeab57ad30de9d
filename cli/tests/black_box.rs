//! Units hidden behind the external-command protocol: every box here is a child process that runs
//! `gemmulate eval`, or a program that misbehaves.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "../../tests/all/custom.rs"]
mod custom;
mod run;

use custom::Random;
use gemmulate::Unit;
use gemmulate::probe::{BlackBox, Command, Fit, FitOptions, Interface, Sameness, diff, fit, same_function};
use gemmulate::vectors::{Generator, Vector};
use run::{Run, gemmulate};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gemmulate");

/// The command behind which a unit hides.
fn eval(unit: &Unit) -> String {
    format!("'{PROGRAM}' eval '{unit}'")
}

/// Fails unless two units give the same bits: by proof, or on 10^5 vectors of the ten kinds and on
/// those that `diff` aims at the edges of both.
fn assert_same(unit: &Unit, model: &Unit) {
    let interface = unit.interface();
    assert_eq!(interface, model.interface());
    if same_function(&unit.recipe.unwrap(), &model.recipe.unwrap(), &interface).is_some() {
        return;
    }
    let mut generator = Generator::new(unit, 99);
    let mut v = Vector::default();
    for _ in 0..100_000 {
        generator.next_into(&mut v);
        assert_eq!(v.eval(unit).unwrap(), v.eval(model).unwrap(), "{unit} and {model} on {v:?}");
    }
    let verdict = diff(unit, model).unwrap();
    assert!(matches!(verdict, Sameness::NotToldApart(_)), "{unit} and {model}: {verdict:?}");
}

/// Seconds that this thread has run, where the system tells.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
}

/// Fits a unit that it sees only through a child's standard input and output.
fn fit_child(unit: &Unit) -> Fit {
    let mut child = Command::start(&eval(unit), unit.interface(), Duration::from_secs(60)).unwrap();
    // Processor time counts, not the clock of a shared machine.
    let options = FitOptions { time: Duration::from_secs(200), ..FitOptions::default() };
    let (start, before) = (Instant::now(), processor_seconds());
    let found = fit(&mut child, &options).unwrap();
    let seconds = processor_seconds().zip(before).map(|(after, before)| after - before);
    println!("{:5.1} s by the clock, {seconds:.1?} s of this thread  {unit}", start.elapsed().as_secs_f64());
    assert!(seconds.is_none_or(|s| s < 30.0), "{unit}: {seconds:?} s");
    assert_eq!(found.mismatches, 0, "{unit}: {} {:?}", found.recipe, found.counterexample);
    let named = Unit::find(&found.model.name).unwrap();
    assert_eq!(named.recipe, Some(found.recipe));
    assert_same(unit, &found.model);
    found
}

fn fit_drawn(seed: u64, count: usize) {
    let mut r = Random(seed);
    for _ in 0..count {
        let unit = custom::unit(&mut r);
        let found = fit_child(&unit);
        let unsaid = custom::unsaid(&unit, &found);
        assert!(unsaid.is_empty(), "{unit}: {} does not say that {unsaid:?} may differ", found.recipe);
    }
}

#[test]
fn fit_recovers_drawn_units_1() {
    fit_drawn(1, 13);
}

#[test]
fn fit_recovers_drawn_units_2() {
    fit_drawn(2, 13);
}

#[test]
fn fit_recovers_drawn_units_3() {
    fit_drawn(3, 12);
}

#[test]
fn fit_recovers_drawn_units_4() {
    fit_drawn(4, 12);
}

#[test]
fn fit_recovers_a_fresh_drawn_unit() {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("GEMMULATE_SEED")
        .map_or_else(|_| now(), |seed| seed.parse().expect("GEMMULATE_SEED is a number"));
    println!("GEMMULATE_SEED={seed}");
    fit_child(&custom::unit(&mut Random(seed)));
}

/// `gemmulate COMMAND --command "gemmulate eval UNIT" --a ...`.
fn through_a_child(command: &str, unit: &Unit, more: &[&str]) -> Run {
    let Interface { k, a, b, c, d, scale } = unit.interface();
    let (k, child) = (k.to_string(), eval(unit));
    let mut arguments = vec![command, "--command", &child, "--a", a.name, "--b", b.name, "--c", c.name, "--d", d.name];
    arguments.extend(["--k", &k]);
    let block = scale.map(|s| s.block.to_string());
    if let (Some(rule), Some(block)) = (&scale, &block) {
        arguments.extend(["--scale", rule.format.name, "--scale-block", block]);
    }
    arguments.extend(more);
    gemmulate(&arguments, b"")
}

/// One of each family that has block scales or none; the second is no unit of the catalogue.
const HIDDEN: [&str; 5] = [
    "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "custom/m1n1k32.block16.f32.e4m3.e5m2.f32.ue8m0/dot:block=8:F=19:align=rd:sticky=yes:out=rne:c=late",
    "custom/m1n1k12.f16.bf16.bf16.f16/dot:block=3:F=14:out=ru:flush-in=yes",
    "cdna3/v_mfma_f32_16x16x8_xf32",
    "custom/m1n1k4.f64.f32.bf16.f16/fma:round=rd",
];

#[test]
fn the_tool_fits_what_a_child_computes() {
    for name in HIDDEN {
        let unit = Unit::find(name).unwrap();
        let run = through_a_child("fit", &unit, &["--json"]);
        assert_eq!(run.code, 0, "{unit}: {}{}", run.out, run.err);
        let found: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((&found["mismatches"], &found["counterexample"]), (&0.into(), &Value::Null), "{unit}");
        assert!(found["vectors"].as_u64() >= Some(100_000), "{unit}: {}", found["vectors"]);
        assert_same(&unit, &Unit::find(found["unit"].as_str().unwrap()).unwrap());
    }
}

/// A child is probed as the unit itself is: the same keys, values, inputs and bits, and a model of all that.
#[test]
fn the_tool_probes_what_a_child_computes() {
    for name in [HIDDEN[0], HIDDEN[1], "volta/mma.m8n8k4.f32.f16.f16.f32", "cdna2/v_mfma_f32_32x32x8f16"] {
        let unit = Unit::find(name).unwrap();
        let there = through_a_child("probe", &unit, &["--json", "--model-limit", "600"]);
        let here = gemmulate(&["probe", name, "--json"], b"");
        assert_eq!((there.code, here.code), (0, 0), "{name}: {}{}", there.err, here.err);
        let [mut there, here] = [there, here].map(|run| serde_json::from_str::<Value>(&run.out).unwrap());
        let model = there.as_object_mut().unwrap().remove("model").unwrap();
        assert_eq!(there, here, "{name}");
        assert_same(&unit, &Unit::find(model["value"].as_str().unwrap()).unwrap());
        let words = through_a_child("probe", &unit, &[]);
        assert!(words.out.starts_with(&eval(&unit)) && words.out.contains("output rounding"), "{}", words.out);
    }
    // Every input is printed once, and what else it shows refers to it.
    let run = gemmulate(&["probe", "volta/mma.m8n8k4.f32.f16.f16.f32", "--evidence"], b"");
    assert!(run.out.contains("      X - X + 5 * ") && run.out.contains("      as for fraction bits\n"), "{}", run.out);
}

/// What a unit gives for an input in JSON.
fn answer(unit: &Unit, input: &Value) -> String {
    let code = |x: &Value| u64::from_str_radix(x.as_str().unwrap(), 16).unwrap();
    let codes = |x: &Value| x.as_array().unwrap().iter().map(code).collect::<Vec<_>>();
    format!("{:x}", unit.dot_add_bits(&codes(&input["a"]), &codes(&input["b"]), code(&input["c"])).unwrap())
}

/// Of a box with a rule of its own (no positive result of 2 or less ends with 5) `probe` does not say that its rows
/// explain all.
#[test]
fn a_child_of_no_model_is_said_to_have_none() {
    let unit = "ampere/mma.m16n8k8.f32.f16.f16.f32";
    let child = format!("'{PROGRAM}' eval {unit} | sed -u 's/^\\(3.*\\)5$/\\17/'");
    let formats = ["--a", "f16", "--b", "f16", "--c", "f32", "--d", "f32", "--k", "8", "--model-limit", "20", "--json"];
    let run = gemmulate(&[&["probe", "--command", &child][..], &formats].concat(), b"");
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let model = &found["model"];
    assert!(model["value"].is_null() && model["cannot_tell"].as_str().unwrap().starts_with("none found"), "{model}");
    let refuting = &model["evidence"][0];
    let (unit_gives, shows) = (refuting["d"].as_str().unwrap(), refuting["shows"].as_str().unwrap());
    let (nearest, model_gives) = shows.split_once(" gives ").unwrap();
    assert!(model["cannot_tell"].as_str().unwrap().contains(&format!("the nearest is {nearest}:")), "{model}");
    assert_ne!(unit_gives, model_gives);
    assert_eq!(answer(&Unit::find(nearest).unwrap(), &refuting["input"]), model_gives, "{model}");
    // With no time for it, none is looked for.
    let none = [&["probe", "--command", &child][..], &formats[..10], &["--model-limit", "0"]].concat();
    let run = gemmulate(&none, b"");
    assert!(run.out.contains("fraction bits") && !run.out.contains("model"), "{}", run.out);
}

/// Runs `command` as a box of K = 4, f16 to f32.
fn bad(command: &str, child: &str, timeout: &str) -> Run {
    let formats = ["--a", "f16", "--b", "f16", "--c", "f32", "--d", "f32", "--k", "4", "--timeout", timeout];
    gemmulate(&[&[command, "--command", child][..], &formats].concat(), b"")
}

#[test]
fn bad_children_give_clear_errors() {
    let unit = "volta/mma.m8n8k4.f32.f16.f16.f32";
    let honest = format!("'{PROGRAM}' eval {unit}");
    let cases = [
        // It hangs, at once or after some answers.
        ("sleep 1000".to_owned(), "0.5", "gave no answer for 0.5 s after 0 answers"),
        ("head -n 1 > /dev/null; echo 0; sleep 1000".into(), "0.5", "gave no answer for 0.5 s after 1 answers"),
        // It ends or crashes, at once, after some answers, in the middle of one.
        ("exit 3".into(), "20", "exit status: 3"),
        ("echo out of memory >&2; kill -SEGV $$".into(), "20", "signal: 11"),
        ("echo out of memory >&2; exit 1".into(), "20", "it said: out of memory"),
        (format!("head -n 5 | {honest}"), "20", "after 5 answers"),
        ("head -n 1 > /dev/null; echo 0; printf 3f8; sleep 0.1".into(), "20", "`3f8`, where the output ends without"),
        ("/no/such/program".into(), "20", "127"),
        (format!("'{PROGRAM}' eval no/such/unit"), "20", "no unit is called `no/such`"),
        // It babbles (noticed before the first question or as its answer): words, other numbers, no lines, no text,
        // more answers than questions.
        ("yes hello".into(), "20", "`hello`"),
        ("yes 1.5".into(), "20", "`1.5`"),
        ("yes 123456789".into(), "20", "`123456789`"),
        ("while read line; do echo +1; done".into(), "20", "`+1`, not a hex code"),
        ("yes ''".into(), "20", "nothing but empty lines"),
        ("yes | tr -d '\\n'".into(), "20", "more than 256 bytes"),
        ("while :; do printf '\\377\\n'; done".into(), "20", "not text"),
        ("yes 0".into(), "20", "unasked"),
        (format!("{honest} | sed -u p"), "20", "unasked"),
        // It answers every second line only, or has other formats than it was said to have.
        (format!("{honest} | sed -u -n 'n;p'"), "2", "gave no answer for 2 s"),
        (format!("'{PROGRAM}' eval cdna3/v_mfma_f32_32x32x8_f16"), "20", "expected `,` and code 5 of 8 in column a"),
    ];
    for (child, timeout, message) in cases {
        for command in ["probe", "fit"] {
            let run = bad(command, &child, timeout);
            assert!(run.err.starts_with("error: ") && run.err.contains(message), "{command} {child}: {}", run.err);
            assert_eq!((run.out.as_str(), run.code), ("", 2), "{command} {child}");
        }
    }
}

/// One answer in 1009 is another one: `probe` tells nothing of such a box, `fit` ends with an error.
#[test]
fn a_child_that_is_no_function_is_said_to_be_none() {
    let child = format!("'{PROGRAM}' eval volta/mma.m8n8k4.f32.f16.f16.f32 | sed -u '1009~1009s/.*/7/'");
    let fitted = bad("fit", &child, "20");
    assert!(fitted.err.starts_with("error: the box is no function: asked `"), "{}", fitted.err);
    assert_eq!((fitted.out.as_str(), fitted.code), ("", 2));
    let probed = bad("probe", &child, "20");
    assert_eq!(probed.code, 1, "{}", probed.err);
    // Said once.
    assert_eq!(probed.out.matches("cannot tell: it answers the same input in different ways").count(), 1);
}

/// Of a box that does not sum there is no model, not even its name: a script would take it for one.
#[test]
fn a_child_that_does_not_sum_gets_no_model() {
    let fitted = bad("fit", "while read line; do echo 3; done", "20");
    assert_eq!(fitted.code, 1, "{}", fitted.err);
    assert!(fitted.out.starts_with("no model was looked for: it does not sum"), "{}", fitted.out);
    assert!(!fitted.out.contains("custom/") && fitted.out.contains("line:"), "{}", fitted.out);
    // What is shown is what was judged, where every input would do.
    let nan = bad("fit", "while read line; do echo nan; done", "20");
    assert!(nan.out.contains("1 x 1 at k = 0 gives NaN") && nan.out.contains("a0 = 1, b0 = 1"), "{}", nan.out);
}

/// A command that hangs, in two processes, and writes their numbers to a file.
fn hanging(pids: &Path) -> String {
    format!("sleep 1000 & echo $! $$ > '{0}.new'; mv '{0}.new' '{0}'; wait", pids.display())
}

/// Fails unless the processes named in a file end, or have.
fn assert_ended(pids: &Path) {
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
    let until = Instant::now() + Duration::from_secs(10);
    for pid in pids.split_whitespace() {
        let alive = || {
            // A process that has ended may wait for its parent, init, to ask how.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let there = std::process::Command::new("kill").args(["-0", pid]).output().unwrap();
            there.status.success() && !stat.contains(") Z ")
        };
        while alive() {
            assert!(Instant::now() < until, "process {pid} is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A child that hangs does not outlive the tool, nor does what it started.
#[test]
fn hung_children_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let run = bad("probe", &hanging(&pids), "0.5");
    assert_eq!(run.code, 2, "{}", run.err);
    assert_ended(&pids);
}

#[test]
fn children_end_with_a_killed_parent() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let formats = ["--a", "f16", "--b", "f16", "--c", "f32", "--d", "f32", "--k", "4"];
    let mut probe = std::process::Command::new(PROGRAM);
    probe.args(["probe", "--command", &hanging(&pids)]).args(formats).stderr(std::process::Stdio::null());
    let mut probe = probe.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !pids.exists() {
        assert!(Instant::now() < until, "the command was not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    probe.kill().unwrap();
    probe.wait().unwrap();
    assert_ended(&pids);
}

#[test]
fn a_child_needs_formats_and_sizes_that_fit() {
    let formats = ["--a", "e4m3", "--b", "e4m3", "--c", "f32", "--d", "f32"];
    let cases: [(&[&str], &str); 8] = [
        (&[], "--k"),
        (&["--k", "0"], "K must be from 1"),
        (&["--k", "99999999"], "K must be from 1"),
        (&["--k", "32", "--scale", "ue8m0"], "--scale-block"),
        (&["--k", "32", "--scale", "ue8m0", "--scale-block", "0"], "scale blocks must divide it"),
        (&["--k", "32", "--scale", "ue8m0", "--scale-block", "24"], "scale blocks must divide it"),
        (&["--k", "32", "--timeout=-1"], "--timeout"),
        (&["--k", "32", "--scale", "e9m9", "--scale-block", "32"], "no format is called `e9m9`"),
    ];
    for (more, message) in cases {
        let run = gemmulate(&[&["probe", "--command", "cat"][..], &formats, more].concat(), b"");
        assert!(run.code == 2 && run.err.contains(message), "{more:?}: {}", run.err);
    }
    let run = gemmulate(&["probe", "volta/mma.m8n8k4.f32.f16.f16.f32", "--timeout", "1"], b"");
    assert!(run.code == 2 && run.err.contains("--command"), "{}", run.err);
    // Absurd limits are limits all the same.
    let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32").unwrap();
    let run =
        through_a_child("fit", &unit, &["--timeout", "1e18", "--limit", "18446744073709551615", "--vectors", "9"]);
    assert_eq!(run.code, 0, "{}", run.err);
}
