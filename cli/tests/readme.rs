//! The README's commands, run as they are written there: only its placeholders get a name.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod run;

use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");

/// What stands for the README's placeholders. The units have equal formats and K where a command compares them.
const NAMES: [(&str, &str); 6] = [
    ("UNIT", "hopper/wgmma.m64n8k16.f32.f16.f16"),
    ("U1", "hopper/wgmma.m64n8k16.f32.f16.f16"),
    ("U2", "ampere/mma.m16n8k16.f32.f16.f16.f32"),
    ("U3", "cdna3/v_mfma_f32_32x32x8_f16"),
    ("NAME", "e4m3"),
    ("COMMAND", "gemm"),
];

/// The tool's commands: whole lines of shell blocks, and those that tables and sentences quote.
fn commands() -> Vec<String> {
    let mut all = Vec::new();
    let mut block = None;
    for line in README.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh")) if line.starts_with("gemmulate ") => {
                all.push(line.split(" #").next().unwrap_or(line).trim().to_owned());
            }
            (None, None) => all.extend(line.split('`').skip(1).step_by(2).filter_map(whole_command)),
            _ => {}
        }
    }
    all
}

/// A quoted command with its arguments, not a mere mention of one. `units` needs none.
fn whole_command(quoted: &str) -> Option<String> {
    let arguments = quoted.strip_prefix("gemmulate ")?.split(' ').count();
    (quoted == "gemmulate units" || arguments > 1).then(|| quoted.to_owned())
}

/// Whether a command's answer is that things differ here: status 1.
fn finds_a_difference(command: &str) -> bool {
    ["gemmulate diff", "gemmulate smt diff"].iter().any(|name| command.starts_with(name))
        || (command.contains("--expect") && !command.contains("torch-h100"))
}

/// The command with names for its placeholders.
fn with_names(command: &str) -> String {
    let word = |word: &str| {
        let parts = word.split(',').map(|part| NAMES.iter().find(|(name, _)| *name == part).map_or(part, |(_, to)| to));
        parts.collect::<Vec<_>>().join(",")
    };
    command.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A folder in which the commands find the files they name; gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        write_matrix(&folder.0.path().join("A.npy"), [24, 256]);
        write_matrix(&folder.0.path().join("B.npy"), [256, 24]);
        let unit = with_names("UNIT");
        // The GPU's product, and one of its instructions as a program.
        folder.shell(&format!("gemmulate gemm {unit} A.npy B.npy -o GPU.npy --plan 'cutlass3 split-k=4'"));
        folder.shell(&format!("gemmulate generate {unit} --count 3 > FILE"));
        folder.shell(&format!("printf '#!/bin/sh\\nexec gemmulate eval {unit}\\n' > mine && chmod +x mine"));
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
        folder.shell(&format!("mkdir tests && ln -s '{}' tests/data", data.display()));
        folder
    }

    /// Runs a line as a shell would, the tool on its path; what it left behind.
    fn output(&self, line: &str) -> std::process::Output {
        let tool = Path::new(env!("CARGO_BIN_EXE_gemmulate")).parent().unwrap().to_owned();
        let path = format!("{}:{}", tool.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.0.path()).env("PATH", path).stdin(Stdio::null());
        shell.output().unwrap()
    }

    fn shell(&self, line: &str) {
        let output = self.output(line);
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A matrix of f16 codes as NumPy's uint16.
fn write_matrix(path: &Path, shape: [u64; 2]) {
    use npyz::WriterBuilder;
    let codes = (0..24 * 256_u16).map(|i| (i.wrapping_mul(40503) & 0x83ff) | (0x3000 + ((i % 11) << 10)));
    let file = std::fs::File::create(path).unwrap();
    let mut matrix = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd().unwrap();
    matrix.extend(codes).unwrap();
    matrix.finish().unwrap();
}

fn has_solver() -> bool {
    let answers = |solver: &&str| Command::new(solver).arg("--version").stdout(Stdio::null()).status().is_ok();
    ["z3", "cvc5"].iter().any(answers)
}

/// All of them end as they should, and say something but for those that write a file.
#[test]
fn the_readmes_commands_run_as_written() {
    let folder = Folder::new();
    let hardware = std::env::var("GEMMULATE_SHARED").ok().map(|shared| {
        let path = Path::new(&shared).to_owned();
        let path = if path.is_absolute() { path } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path) };
        path.join("hardware").canonicalize().unwrap().display().to_string()
    });
    let commands = commands();
    assert!(commands.len() >= 25, "{commands:#?}");
    let mut left_out = Vec::new();
    for command in &commands {
        let mut line = with_names(command);
        match &hardware {
            Some(folder) => line = line.replace("FOLDER", &format!("'{folder}'")),
            None if line.contains("FOLDER") => {
                left_out.push(command.as_str());
                continue;
            }
            None => {}
        }
        if line.starts_with("gemmulate smt") && !has_solver() || line.contains("...") {
            left_out.push(command.as_str());
            continue;
        }
        let output = folder.output(&line);
        let (code, errors) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(code, Some(finds_a_difference(command).into()), "{line}\n{errors}");
        assert!(!output.stdout.is_empty() || line.contains(" -o "), "{line}: says nothing\n{errors}");
        assert!(!errors.contains("error:"), "{line}\n{errors}");
    }
    println!("left out: {left_out:?}");
}

/// CI runs every example; here, that those the README names are there.
#[test]
fn the_readmes_examples_are_there() {
    let names = README.split("--example ").skip(1).map(|rest| rest.split(['`', ' ', ')']).next().unwrap());
    let names: Vec<_> = names.collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(format!("{name}.rs"));
        assert!(path.exists(), "{name}");
    }
}
