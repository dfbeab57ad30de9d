//! What every command prints, how it ends and what its errors say.

mod run;

use run::{UNIT, gemmulate, lines};

const LINE: &str = "3c00,4000,0,0\t3c00,3e00,0,0\t3f800000";

#[test]
fn eval_prints_one_code_per_line() {
    let input = format!("{LINE}\n\n# a comment\n  {}  \t40a00000\n{LINE}\tnan\r\n", LINE.to_uppercase());
    let run = gemmulate(&["eval", UNIT], input.as_bytes());
    assert_eq!((run.out.as_str(), run.err.as_str(), run.code), ("40a00000\n40a00000\n40a00000\n", "", 0));
}

#[test]
fn eval_prints_zero_and_nans_by_their_bits() {
    let input = "0,0,0,0\t0,0,0,0\t0\n7e00,0,0,0\t0,0,0,0\t0\n0x00003C00,0,0,0 3c00 , 0, 0 , 0  80000000\n";
    let run = gemmulate(&["eval", UNIT, "-"], input.as_bytes());
    assert_eq!((run.out.as_str(), run.code), ("0\n7fffffff\n3f800000\n", 0));
}

#[test]
fn eval_says_where_a_line_is_wrong() {
    let cases: [(&[u8], &str); 9] = [
        (b"1,2,3\t0,0,0,0\t0", "-:1:7: expected `,` and code 4 of 4 in column a, but found `0`"),
        (b"1,2,3,4,5\t0,0,0,0\t0", "-:1:8: expected the next column: a has 4 codes"),
        (b"1,2,3,4\t0,0,g,0\t0", "-:1:13: b[2]: expected a hex code of f16, but found `g`"),
        (b"1,2,3,10000\t0,0,0,0\t0", "-:1:7: a[3]: expected a code of f16, 16 bits, but found `10000`"),
        (b"1,2,3,4\t0,0,0,0", "-:1:16: c: expected a hex code of f32, but found the end of the line"),
        (b"1,2,3,4\t0,0,0,0\t0\t0\t0", "-:1:21: expected the end of the line after d, but found `0`"),
        (b"\xff\xfe", "-:1:1: a[0]: expected a hex code of f16"),
        (b"1,\0", "-:1:3: a[1]: expected a hex code of f16, but found `\\0`"),
        ("1,é".as_bytes(), "-:1:3: a[1]: expected a hex code of f16, but found `é`"),
    ];
    for (input, message) in cases {
        let run = gemmulate(&["eval", UNIT], input);
        assert!(run.err.contains(message), "{message:?}: {}", run.err);
        assert_eq!((run.out.as_str(), run.code), ("", 2));
    }
    let run = gemmulate(&["eval", UNIT], format!("{LINE}\n\n{LINE}\nx").as_bytes());
    assert!(run.err.contains("-:4:1:"), "{}", run.err);
    assert_eq!(run.out.lines().count(), 2, "what came before the error is answered");
    // However many lines are answered together.
    for good in [1, 9, 10, 16, 63, 64, 65, 130] {
        let run = gemmulate(&["eval", UNIT], format!("{}x\n{LINE}\n", format!("{LINE}\n").repeat(good)).as_bytes());
        assert_eq!((run.out, run.code), ("40a00000\n".repeat(good), 2));
        assert!(run.err.contains(&format!("-:{}:1:", good + 1)), "{}", run.err);
    }
}

#[test]
fn eval_survives_absurd_input() {
    for input in [vec![b'f'; 1_000_000], vec![b'0'; 5_000_000], vec![0; 100_000], vec![0xff; 3000], vec![b','; 9999]] {
        assert_eq!(gemmulate(&["eval", UNIT], &input).code, 2);
    }
    let zeros = format!("{}\n", LINE.replacen('3', &format!("{}3", "0".repeat(900_000)), 1));
    assert_eq!(gemmulate(&["eval", UNIT], zeros.as_bytes()).out, "40a00000\n");
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 1u64;
    let alphabet = b"0123abcdEFnaNx,,,,\t\t\t  \n#\r\0\xff-.";
    for round in 0..40 {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let input: Vec<u8> = (0..300 + 10 * round).map(|_| alphabet[next() % alphabet.len()]).collect();
        for command in ["eval", "trace"] {
            let run = gemmulate(&[command, UNIT], &input);
            assert!([0, 2].contains(&run.code) && !run.err.contains("panicked"), "{input:?}: {}", run.err);
        }
    }
}

#[test]
fn missing_files_and_folders_are_errors() {
    let run = gemmulate(&["eval", UNIT, "no/such/file"], b"");
    assert!(run.err.contains("no/such/file") && run.code == 2, "{}", run.err);
    let run = gemmulate(&["eval", UNIT, "."], b"");
    assert!(run.err.contains(".:1: ") && run.code == 2, "{}", run.err);
    for arguments in [&["check", "no/such"][..], &["check", "src"], &["validate", "no/such"], &["validate", "src"]] {
        let run = gemmulate(arguments, b"");
        assert!(
            run.err.contains(arguments[1]) && run.err.contains("expected") | run.err.contains("No such"),
            "{}",
            run.err
        );
        assert_eq!(run.code, 2);
    }
}

#[test]
fn unknown_units_suggest_others() {
    let run = gemmulate(&["eval", "hopper/mma.m16n8k16.f32.f16.f16.f23"], b"");
    assert!(run.err.contains("hopper/mma.m16n8k16.f32.f16.f16.f32"), "{}", run.err);
    assert_eq!(run.code, 2);
    assert_eq!(gemmulate(&["eval"], b"").code, 2);
    assert_eq!(gemmulate(&["frobnicate"], b"").code, 2);
    let run = gemmulate(&["show", "H100"], b"");
    assert!(run.err.contains("add an instruction, such as `hopper/") && run.code == 2, "{}", run.err);
    assert_eq!(gemmulate(&["eval", "v100 HMMA.884.F32", "-", "extra"], b"").code, 2);
}

#[test]
fn units_of_no_kind_are_said_to_be_none() {
    let run = gemmulate(&["units", "--arch", "volta", "--a", "e2m1"], b"");
    assert_eq!((run.out.as_str(), run.code), ("", 1));
    assert!(run.err.starts_with("no unit is of that kind"), "{}", run.err);
    assert_eq!(gemmulate(&["units", "--arch", "volta", "--a", "f16"], b"").code, 0);
}

#[test]
fn units_by_any_name() {
    for name in [
        "H100 HGMMA.64x8x16.F32",
        "hopper/WGMMA.M64N8K16.F32.F16.F16",
        "custom/m1n1k16.f32.f16.f16.f32/dot:block=16:F=27",
    ] {
        let run = gemmulate(&["generate", name, "--count", "20"], b"");
        assert_eq!((run.out.lines().count(), run.code), (20, 0), "{name}: {}", run.err);
        let check = gemmulate(&["check", name, "-"], run.out.as_bytes());
        assert_eq!((check.out.as_str(), check.code), ("20 passed, 0 failed\n", 0));
    }
}

/// A NaN is any other where nothing says which one a unit gives, for every command; else it is not.
#[test]
fn nans_are_the_same_for_check_and_trace() {
    let generate = |unit: &str| gemmulate(&["generate", unit, "--kinds", "specials", "-n", "60"], b"").out;
    let cdna3 = "cdna3/v_mfma_f32_32x32x8_f16";
    let any = generate(cdna3);
    assert!(any.contains("\tnan\n"));
    let ours = any.replace("\tnan\n", "\t7fffffff\n");
    for (command, lines) in [("check", &any), ("trace", &any), ("check", &ours), ("trace", &ours)] {
        let run = gemmulate(&[command, cdna3], lines.as_bytes());
        assert_eq!(run.code, 0, "{command}: {}", run.out);
    }
    // A unit of one's own says which NaN it gives.
    let ones = "custom/m1n1k4.f32.f16.f16.f32/dot:block=4:F=25";
    let quiet = format!("{ones}:nan=quiet");
    for (unit, other, code) in [(ones, quiet.as_str(), "7fffffff"), (&quiet, ones, "7fc00000")] {
        let lines = generate(unit);
        assert!(lines.contains(&format!("\t{code}\n")) && !lines.contains("nan"), "{lines}");
        for command in ["check", "trace"] {
            assert_eq!(gemmulate(&[command, unit], lines.as_bytes()).code, 0);
            assert_eq!(gemmulate(&[command, other], lines.as_bytes()).code, 1, "{command} {other}");
        }
    }
}

#[test]
fn generate_is_a_stable_sequence() {
    let generate = |more: &[&str]| lines(&[&["generate", UNIT], more].concat());
    let first = generate(&["--count", "20"]);
    assert_eq!(first, generate(&["--count", "20", "--seed", "0"]));
    assert_eq!(first[..10], generate(&[])[..]);
    assert_ne!(first, generate(&["--count", "20", "--seed", "1"]));
    assert_eq!(generate(&["--kinds", "ties,Very Wide", "-n", "3"]).len(), 3);
    let run = gemmulate(&["generate", UNIT, "--kinds", "odd"], b"");
    assert!(run.err.contains("sparse-with-zeros") && run.code == 2, "{}", run.err);
}

#[test]
fn check_draws_what_differs() {
    let wrong = format!("{LINE}\t40a00000\n{LINE}\t40a00001\n");
    let run = gemmulate(&["check", UNIT, "-"], wrong.as_bytes());
    assert!(run.out.contains("-:2: volta/") && run.out.contains("a1*b1"), "{}", run.out);
    assert!(run.out.contains("expected 40a00001: DIFFERS") && run.out.ends_with("1 passed, 1 failed\n"), "{}", run.out);
    assert_eq!(run.code, 1);
    let run = gemmulate(&["check", UNIT, "-"], LINE.as_bytes());
    assert!(run.err.contains("-:1: expected a last column, d") && run.code == 2, "{}", run.err);
    // A folder of architectures, and that of one.
    for (folder, code) in [("../tests/data/vectors", 0), ("../tests/data/vectors/volta", 0), ("../tests/data", 2)] {
        let run = gemmulate(&["check", folder], b"");
        assert!(run.code == code && (code == 2 || run.out.ends_with(" passed, 0 failed\n")), "{}{}", run.out, run.err);
    }
    // Without a file, from standard input; for programs.
    let run = gemmulate(&["check", UNIT], wrong.as_bytes());
    assert!(run.out.ends_with("1 passed, 1 failed\n") && run.code == 1, "{}{}", run.out, run.err);
    let run = gemmulate(&["check", UNIT, "--json"], wrong.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((json["passed"].as_u64(), json["failed"].as_u64(), run.code), (Some(1), Some(1), 1), "{json}");
    let file = &json["files"][0];
    assert!(file["unit"].as_str().unwrap().starts_with("volta/") && file["failed"] == 1, "{file}");
    let differing = &file["differing"][0];
    assert!(differing["line"] == 2 && differing["d"] == "40a00000", "{differing}");
    assert!(differing["vector"].as_str().unwrap().ends_with("\t40a00001"), "{differing}");
    let run = gemmulate(&["check", "hopper/mma.m16n8k16.f32.f16.f16.f23"], b"");
    assert!(run.err.contains("f16.f16.f32") && run.err.contains("expected a folder") && run.code == 2, "{}", run.err);
    // The program whose output this should be has failed.
    for nothing in ["", "# a comment\n\n"] {
        let run = gemmulate(&["check", UNIT, "-"], nothing.as_bytes());
        assert!(run.err.contains("no lines to compare") && run.code == 2, "{}{}", run.out, run.err);
    }
}

#[test]
fn check_takes_folders() {
    // Folders in an architecture's are nobody's.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("ampere");
    std::fs::create_dir_all(own.join("notes")).unwrap();
    let file = "mma.m16n8k8.f32.f16.f16.f32.tsv";
    std::fs::copy(format!("../tests/data/vectors/ampere/{file}"), own.join(file)).unwrap();
    let run = gemmulate(&["check", &own.display().to_string()], b"");
    assert_eq!((run.out.as_str(), run.code), ("40 passed, 0 failed\n", 0), "{}", run.err);
    // The folder is named after a GPU, and some of its NaNs are not this library's.
    let run = gemmulate(&["check", "../tests/data/h100-80gb-hbm3"], b"");
    assert_eq!((run.out.as_str(), run.code), ("17719 passed, 0 failed\n", 0));
    let run = gemmulate(&["check", "../tests/data/vectors"], b"");
    assert_eq!((run.out.as_str(), run.code), ("14840 passed, 0 failed\n", 0));
}

#[test]
fn trace_says_that_there_was_nothing_to_draw() {
    for (input, told) in
        [(&b""[..], true), (b"# a comment\n", true), (b"3e00,8400,0,0 3e00,0c01,0,0 3f800000\n", false)]
    {
        let run = gemmulate(&["trace", UNIT], input);
        assert!(run.code == 0 && run.err.contains("nothing to draw") == told, "{}{}", run.out, run.err);
    }
}

#[test]
fn probe_and_fit_show_how_a_command_is_given() {
    for command in ["probe", "fit"] {
        let run = gemmulate(&[command], b"");
        let told = [format!("gemmulate {command} [OPTIONS] <UNIT>"), "--command <COMMAND> --a <FORMAT>".into()];
        assert!(run.code == 2 && told.iter().all(|text| run.err.contains(text)), "{}", run.err);
    }
}

#[test]
fn trace_lines_terms_up() {
    let run = gemmulate(&["trace", UNIT], b"3e00,8400,0,0 3e00,0c01,0,0 3f800000\n");
    let column = |label: &str, what: char| {
        let line = run.out.lines().find(|l| l.contains(label)).unwrap_or_else(|| panic!("{label}: {}", run.out));
        line.find(what)
    };
    assert_eq!(column("+ a0*b0", '.'), column("+ c  ", '.'), "{}", run.out);
    assert!(column("- a1*b1", '|').is_some() && run.out.contains("all cut off"), "{}", run.out);
    assert!(run.out.contains("e_max = 0: what lies below 2^-23") && run.out.contains("rz to f32"), "{}", run.out);
    assert!(run.out.contains("d = 40500000 = 3.25"), "{}", run.out);
    // A line with a d, and one with another.
    for (d, code) in [("40500000", 0), ("40500001", 1)] {
        let run = gemmulate(&["trace", UNIT], format!("3e00,8400,0,0 3e00,0c01,0,0 3f800000 {d}\n").as_bytes());
        assert_eq!((run.out.contains("DIFFERS"), run.code), (code == 1, code), "{}", run.out);
    }
}

#[test]
fn format_shows_decodes_and_encodes() {
    let out = |arguments: &[&str]| gemmulate(&[&["format"], arguments].concat(), b"").out;
    assert!(out(&["e4m3"]).contains("448") && out(&["fp16"]).contains("65504"));
    assert_eq!(out(&["f16", "0x3c01"]), "f16 3c01 = 1.0009765625 (+ 2^0 x 1.0000000001)\n");
    assert_eq!(out(&["e2m1", "-5.1"]), "-5.1 -> e2m1 f = -6 (- 2^2 x 1.1)\n");
    assert_eq!(out(&["f16", "-1e-9"]), "-1e-9 -> f16 8000 = -0 (- 2^-14 x 0.0000000000)\n");
    assert!(out(&["e4m3", "1e9", "--overflow", "saturate", "--value"]).contains("7e = 448"));
    assert!(out(&["--value", "--round", "ru", "bf16", "1.00001"]).contains("3f81"));
    for (arguments, message) in [
        (&["f12"][..], "expected one of"),
        (&["f16", "12345g"], "expected"),
        (&["f16", "--code", "12345"], "16 bits"),
        (&["ue8m0", "--value", "-1"], "no negative"),
        (&["f16", "1.5", "--round", "up"], "rne"),
    ] {
        let run = gemmulate(&[&["format"], arguments].concat(), b"");
        assert!(run.err.contains(message) && run.code == 2, "{arguments:?}: {}", run.err);
    }
}

#[test]
fn units_as_json() {
    let run = gemmulate(&["units", "--json"], b"");
    let all: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&run.out).unwrap();
    assert_eq!(all.len(), 371);
    let mut keys =
        "name arch aliases m n k blocks a b c d scale accumulator evidence source".split(' ').collect::<Vec<_>>();
    keys.sort_unstable();
    for unit in &all {
        assert_eq!(unit.keys().map(String::as_str).collect::<Vec<_>>(), keys);
        assert!(unit["m"].is_u64() && unit["aliases"].is_array() && unit["accumulator"].is_string());
    }
    // As README has it.
    let by = |evidence: &str| all.iter().filter(|unit| unit["evidence"] == evidence).count();
    let kinds: std::collections::BTreeSet<&str> = all.iter().filter_map(|unit| unit["evidence"].as_str()).collect();
    let mut counts: Vec<usize> = kinds.iter().map(|kind| by(kind)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [17, 30, 65, 259], "{kinds:?}");
    let some = lines(&["units", "--arch", "V100", "--d", "f16"]);
    assert_eq!(some.len(), 2, "a header and one unit: {some:?}");
    assert_eq!(gemmulate(&["units", "--arch", "V1000"], b"").code, 2);
}

/// What drawings say of exponents, of what is cut, and where rows cannot stand under one another.
#[test]
fn drawings_are_true_to_their_exponents() {
    let far = "(too far apart to stand under one another)";
    for (unit, line, rows) in [
        // Products of IEEE arithmetic have the exponents of their leading bits.
        ("cdna2/v_mfma_f32_32x32x4bf16", "3fc0,0,0,0 3fc0,0,0,0 3f800000", &["a0*b0     2^1  1.001"][..]),
        // Zeros at the ends of rows do not keep them apart; exponents do.
        (
            "ampere/mma.m8n8k4.f64.f64.f64.f64",
            "3ff0000000000000,0,0,0 3cb0000000000000,0,0,0 3ff0000000000000",
            &["a0*b0   2^-52                                                       1\n", "d         2^0  1\n"],
        ),
        ("cdna1/v_mfma_f32_32x32x2bf16", "7f00,0080 3f80,3f80 3f800000", &[far, "a0*b0   2^127  1\n", "and a rest"]),
        // Each term is cut where it is cut.
        (
            "cdna3/v_mfma_f32_32x32x8_f16",
            "6579,d400,2b80,6cab,a454,a878,5336,c106 246e,f100,b000,9a56,c8c0,1093,b196,4c6 bf1df386",
            &["what lies below 2^-5 is cut", "what lies below 2^-13 (sum of products), 2^-5 (c) is cut off at |"],
        ),
    ] {
        let run = gemmulate(&["trace", unit], format!("{}\n", line.replace(' ', "\t")).as_bytes());
        for row in rows {
            assert!(run.out.contains(row), "{unit}, {row}: {}", run.out);
        }
        assert_eq!(run.out.contains(far), rows.contains(&far), "{unit}: {}", run.out);
    }
}

#[test]
fn every_unit_can_be_shown_and_traced() {
    let names = lines(&["units"]).into_iter().skip(1).map(|l| l.split(' ').next().unwrap_or_default().to_owned());
    for name in names.step_by(6) {
        let run = gemmulate(&["show", &name], b"");
        assert!(run.out.contains("Evidence") && run.code == 0, "{name}: {}", run.err);
        let vectors = gemmulate(&["generate", &name, "-n", "20"], b"").out;
        let run = gemmulate(&["trace", &name], vectors.as_bytes());
        assert_eq!((run.out.matches("as expected").count(), run.code), (20, 0), "{name}: {}", run.err);
    }
}

/// Whatever changes a bit changes what `show` says a unit computes.
#[test]
fn every_parameter_is_shown_in_words() {
    let steps = |unit: &str| {
        let run = gemmulate(&["show", unit], b"");
        assert_eq!(run.code, 0, "{unit}: {}", run.err);
        let steps = run.out.split("What it computes").nth(1).and_then(|rest| rest.split("Parameters").next());
        steps.unwrap_or_else(|| panic!("{unit}: {}", run.out)).to_owned()
    };
    let formats = "custom/m1n1k32.f32.f16.f16.f32";
    for (family, changes) in [
        (
            "dot",
            "block=8 pattern=pairs:block=8 pattern=even-odd:block=8 exact=yes F=24 align=rd sticky=yes normalise=yes e_zero=none \
             e_zero=zero-c e_zero=emin e_zero=emin+3 zero-products=count subnormal-c=normalised c=late c=last out=rne \
             out-bits=13 via-f16=yes flush-in=yes flush-out=yes limit=yes negative-zero=yes nan=quiet",
        ),
        ("fma", "round=rz nan=ones"),
        ("pairwise", "G=2 flush-in=no flush-out=no nan=ones"),
        ("round-down", "G=4 F=23 sum=31 total=full total=30 overflow-beside-c=c-wins nan=ones"),
        (
            "round-down-grouped",
            "G=8 F=23 sum=31 total=full overflow-beside-c=c-wins nan=ones c-reach=9 special-c=dropped",
        ),
        ("software", "nan=quiet"),
    ] {
        let mut seen = vec![steps(&format!("{formats}/{family}"))];
        for change in changes.split_whitespace() {
            let words = steps(&format!("{formats}/{family}:{change}"));
            assert!(!seen.contains(&words), "{family}:{change}: {words}");
            seen.push(words);
        }
    }
    let scaled = "custom/m1n1k64.block16.f32.e2m1.e2m1.f32.ue4m3/groups";
    for change in ["G=32", "F=34", "e_zero=none", "out=rne", "nan=quiet"] {
        assert_ne!(steps(scaled), steps(&format!("{scaled}:{change}")), "{change}");
    }
    // In the order in which they act.
    let both = steps("custom/m1n1k4.f32.e4m3.e4m3.f32/dot:flush-in=yes:via-f16=yes");
    assert!(both.find("read as +0").is_some_and(|flushed| Some(flushed) < both.find("converted to f16")), "{both}");
    // What c is rounded to first, and NVIDIA's rounding where another one is meant perhaps.
    assert!(steps("custom/m1n1k4.f16.f16.f16.f32/dot:c=late").contains("c, rounded (rne) to f16, is added"));
    assert!(steps("custom/m1n1k4.f16.f16.f16.f16/dot").contains("out=rne"));
    assert!(steps("custom/m1n1k4.f16.f16.f16.f16/pairwise").contains("product is rounded (rne) to f16"));
}

#[test]
fn validate_reports_folders_outputs_and_units() {
    let Ok(shared) = std::env::var("GEMMULATE_SHARED") else {
        eprintln!("GEMMULATE_SHARED is unset: recorded GPU outputs are not compared");
        return;
    };
    // A relative path is meant from the root of the repository.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(shared).join("hardware");
    let run = gemmulate(&["validate", folder.to_str().unwrap(), "--json"], b"");
    assert_eq!(run.code, 0, "{}", run.err);
    let reports: Vec<serde_json::Value> = serde_json::from_str(&run.out).unwrap();
    assert!(reports.len() >= 30 && reports.iter().all(|r| r["mismatches"] == 0 && r["rows"].as_u64() >= Some(1000)));
}

#[test]
fn validate_finds_what_differs() {
    let root = std::env::temp_dir().join(format!("gemmulate-validate-{}", std::process::id()));
    let folder = root.join("V100/fp16");
    std::fs::create_dir_all(&folder).unwrap();
    let one = "00111111100000000000000000000000";
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("a_V100_fp16.txt", "3f800000 00000000 00000000 00000000\n");
    write("b_V100_fp16.txt", "3f800000 00000000 00000000 00000000 \n");
    write("c_V100_fp32.txt", &"0".repeat(32));
    write("d_V100_fp32.txt", one);
    write("d_V100_fp16.txt", "01000000000000000000000000000000");
    let run = gemmulate(&["validate", &root.to_string_lossy()], b"");
    assert!(run.out.contains("2 rows compared, 1 mismatches") && run.out.contains("DIFFERS"), "{}", run.out);
    assert_eq!(run.code, 1);
    write("c_V100_fp32.txt", &"2".repeat(32));
    let run = gemmulate(&["validate", &root.to_string_lossy()], b"");
    assert!(run.err.contains("c_V100_fp32.txt:1:1: expected the 32 binary digits"), "{}", run.err);
    write("c_V100_fp32.txt", "");
    let run = gemmulate(&["validate", &root.to_string_lossy()], b"");
    assert!(run.err.contains("expected 1 rows") && run.code == 2, "{}", run.err);
    // Nothing was compared, so nothing is well.
    for name in ["a_V100_fp16.txt", "b_V100_fp16.txt", "d_V100_fp32.txt", "d_V100_fp16.txt"] {
        write(name, "");
    }
    let run = gemmulate(&["validate", &root.to_string_lossy()], b"");
    assert!(run.err.contains("no rows to compare") && run.code == 2, "{}", run.err);
    write("a_V100_fp16.txt", &"0".repeat(2 << 20));
    let run = gemmulate(&["validate", &root.to_string_lossy()], b"");
    assert!(run.err.contains("a_V100_fp16.txt:1: expected a line of fewer than") && run.code == 2, "{}", run.err);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn help_teaches() {
    let general = gemmulate(&["--help"], b"").out;
    let list = general.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let commands: Vec<&str> = list.lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands.into_iter().filter(|c| !["", "help"].contains(c)) {
        let run = gemmulate(&[command, "--help"], b"");
        let examples = run.out.split("Examples:").nth(1).unwrap_or_else(|| panic!("{command} has no examples"));
        assert!(examples.contains("gemmulate") && run.code == 0, "{command}");
        for line in examples.lines() {
            // Longer ones are broken on terminals of 80 columns, and then cannot be copied.
            assert!(line.len() < 80, "{command}: {line}");
        }
    }
}

/// Khattak and Mikaitis V-A's first case, and a unit whose formats hold none of the tests.
#[test]
fn authenticate_says_what_conclusions_are_worth() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/fttn.tsv");
    let units = ["custom/m1n1k16.f32.f16.f16.f32/dot:block=8:F=23:out=rne", "H100 QGMMA.64x8x32.F32.E4M3.E4M3"];
    let run = gemmulate(&["authenticate", file, units[0], units[1]], b"");
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    assert!(run.out.lines().any(|l| l.contains("WRONG") && l.contains("block<=1, but block=8")), "{}", run.out);
    assert!(run.out.lines().any(|l| l.contains("right") && l.contains("extra-bits<=0")), "{}", run.out);
    assert!(run.out.lines().any(|l| l.contains("left out") && l.contains("is no number of e4m3")), "{}", run.out);
    let run = gemmulate(&["authenticate", file, units[0], "--json"], b"");
    let list: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let wrong = list.as_array().unwrap().iter().filter(|x| x["verdict"] == "wrong");
    assert!(wrong.clone().any(|x| x["conclusion"] == "out=rz|rd" && x["why"] == "out=rne"), "{}", run.out);
    let run = gemmulate(&["authenticate", "/no/such/file", units[0]], b"");
    assert!(run.err.contains("/no/such/file") && run.code == 2, "{}", run.err);
    let test = tempfile::NamedTempFile::new().unwrap();
    let file = test.path().to_str().unwrap();
    std::fs::write(file, format!("{}\t1 x 1\t0\t1 => F>=1\n", "x".repeat(70_000))).unwrap();
    let run = gemmulate(&["authenticate", file, units[0]], b"");
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    // Beyond f64 is no number, and no infinity.
    for number in ["1e400", "-1e-400"] {
        std::fs::write(file, format!("x\t{number} x 1\t0\tinf => F>=1\n")).unwrap();
        let run = gemmulate(&["authenticate", file, units[0]], b"");
        assert!(run.err.contains(number) && run.code == 2, "{}{}", run.out, run.err);
    }
    std::fs::write(file, "x\tinf x 1\t0e9\tinf => F>=1\n").unwrap();
    assert_eq!(gemmulate(&["authenticate", file, units[0]], b"").code, 0);
}

/// K of which questions about all pairs would not fit into memory.
#[test]
fn what_is_questioned_has_so_many_products_at_most() {
    let unit = "custom/m1n1k65536.f32.f16.f16.f32/fma";
    for command in [&["probe", unit][..], &["fit", unit], &["diff", unit, &format!("{unit}:round=rz")]] {
        let run = gemmulate(command, b"");
        assert!(run.err.contains("must be at most 2048") && run.code == 2, "{command:?}: {}{}", run.out, run.err);
    }
}

/// Differences are known before anybody reads of them.
#[test]
#[cfg(target_os = "linux")]
fn nobody_who_reads_makes_it_good() {
    use std::process::Stdio;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "3c00,0,0,0\t3c00,0,0,0\t0\t0\n".repeat(2000)).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut check = run::command(&["check", UNIT, file.path().to_str().unwrap(), "--show", "2000"]);
    let output = check.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.stderr, output.status.code()), (vec![], Some(1)));
    // Nobody there for errors either.
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = run::command(&["units", "--arch", "cdna1", "--a", "e4m3"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[cfg(feature = "smt")]
#[test]
fn smt_exports_a_function_and_lists_its_questions() {
    let run = gemmulate(&["smt", "export", UNIT, "--name", "volta"], b"");
    assert!(run.out.contains("(define-fun volta ((a0 (_ BitVec 16))"), "{}", run.out);
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    let run = gemmulate(&["smt", "export", UNIT, "--name", "d", "--constants"], b"");
    assert!(run.out.contains("(declare-const c (_ BitVec 32))\n(define-fun d () (_ BitVec 32)"), "{}", run.out);
    for name in ["a b", "a3", "c", "1", ""] {
        assert_eq!(gemmulate(&["smt", "export", UNIT, "--name", name], b"").code, 2, "{name}");
    }
    let run = gemmulate(&["smt", "ask"], b"");
    assert!(run.out.lines().any(|l| l.starts_with("carry-bits ")), "{}", run.out);
    let run = gemmulate(&["smt", "ask", "carry-bits", "--solver", "no-such-solver"], b"");
    assert!(run.err.contains("`no-such-solver` cannot be run"), "{}", run.err);
    assert_eq!(run.code, 2);
}
