//! Runs the tool.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::io::Write;
use std::process::{Command, Stdio};

/// A unit of K = 4.
pub(crate) const UNIT: &str = "volta/mma.m8n8k4.f32.f16.f16.f32";

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemmulate"));
    command.args(arguments);
    command
}

/// Runs to the end with this standard input.
pub(crate) fn gemmulate(arguments: &[&str], input: &[u8]) -> Run {
    let mut command = command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts");
    let mut to = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        // The tool may end before it has read everything.
        scope.spawn(move || drop(to.write_all(input)));
        child.wait_with_output().expect("the tool ends")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}

/// The lines of a run that must succeed without input.
pub(crate) fn lines(arguments: &[&str]) -> Vec<String> {
    let run = gemmulate(arguments, b"");
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
    run.out.lines().map(str::to_owned).collect()
}
