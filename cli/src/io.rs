//! Input, output and how commands end, shared by all of them.

use gemmulate::Unit;
use gemmulate::vectors::Lines;
use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library refuses something: a name, a line, a file.
    Library(gemmulate::Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The arguments make no sense together, or a file cannot be opened.
    Message(String),
}

impl From<gemmulate::Error> for Failure {
    fn from(error: gemmulate::Error) -> Self {
        Self::Library(error)
    }
}

/// Only output is written with `?`; input has its own errors, which name the file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// True when all is well, false when something differs.
pub(crate) type Outcome = Result<bool, Failure>;

/// The exit status, after a message if there is one. A reader who has gone away is no failure.
pub(crate) fn exit(outcome: Outcome) -> ExitCode {
    let message = match outcome {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => return ExitCode::FAILURE,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => format!("standard output: {error}"),
        Err(Failure::Library(error)) => error.to_string(),
        Err(Failure::Message(message)) => message,
    };
    // With standard error gone too there is nobody left to tell.
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(2)
}

/// What is known, whether or not it could be told: that the reader has gone away does not make it good.
pub(crate) fn verdict(told: Result<(), Failure>, good: bool) -> Outcome {
    match told {
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(good),
        told => told.map(|()| good),
    }
}

/// Buffered standard output. Commands flush it themselves, so that errors are seen.
pub(crate) fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// The vectors of a file, or of standard input for `-` or none.
pub(crate) fn lines(unit: &Unit, file: Option<&Path>) -> Result<Lines<Box<dyn Read>>, Failure> {
    match file.filter(|f| *f != Path::new("-")) {
        None => Ok(Lines::new(unit, "-", Box::new(io::stdin().lock()))),
        Some(path) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|e| Failure::Message(format!("{name}: {e}")))?;
            Ok(Lines::new(unit, name, Box::new(file)))
        }
    }
}
