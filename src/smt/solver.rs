//! A solver as a process: z3 or cvc5, asked in SMT-LIB 2.

use crate::error::Error;
use crate::probe::deadline;
use crate::process::Process;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A solver's program and how long it may think about one question.
///
/// ```no_run
/// use gemmulate::smt::Solver;
/// use std::time::Duration;
/// let solver = Solver::find(Duration::from_secs(60))?;
/// println!("{}", solver.version());
/// # Ok::<(), gemmulate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Solver {
    program: String,
    version: String,
    timeout: Duration,
}

/// What a solver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// There is an input; the values asked for, by name.
    Sat(HashMap<String, u64>),
    /// There is none.
    Unsat,
    /// It cannot say, and why.
    Unknown(String),
}

/// The programs looked for, the faster one on these questions first.
pub const SOLVERS: &[&str] = &["cvc5", "z3"];

impl Solver {
    /// The first of [`SOLVERS`] that is installed.
    ///
    /// # Errors
    /// When none is, with what to install.
    pub fn find(timeout: Duration) -> Result<Self, Error> {
        SOLVERS.iter().find_map(|program| Self::named(program, timeout).ok()).ok_or_else(|| {
            Error::Solver("neither cvc5 nor z3 is installed (on Debian: apt install cvc5, or apt install z3)".into())
        })
    }

    /// A solver by its program's name or path, which says whether it is z3 or cvc5.
    ///
    /// # Errors
    /// When it cannot be run, or does not tell its version.
    pub fn named(program: &str, timeout: Duration) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child =
            Process::start(&mut command).map_err(|e| Error::Solver(format!("`{program}` cannot be run: {e}")))?;
        let text = first_words(child);
        let version = text.lines().next().unwrap_or_default().trim_start_matches("This is ").trim().to_owned();
        if !SOLVERS.iter().any(|name| version.to_lowercase().starts_with(name)) {
            return Err(Error::Solver(format!("`{program} --version` does not answer as a solver does")));
        }
        Ok(Self { program: program.into(), version, timeout })
    }

    /// Name and version, as the program tells them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The longest time for one question.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same solver with another time limit.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    fn arguments(&self) -> &'static [&'static str] {
        if self.version.to_lowercase().starts_with("z3") {
            &["-in", "-smt2"]
        } else {
            &["--lang=smt2", "--produce-models", "--bitblast=eager", "--bv-sat-solver=cadical", "-"]
        }
    }

    /// Asks whether the script's assertions hold for some values, and for those of `names`.
    pub(super) fn ask(&self, script: &str, names: &[String]) -> Result<Answer, Error> {
        let values = if names.is_empty() { String::new() } else { format!("(get-value ({}))\n", names.join(" ")) };
        let text = format!("(set-logic QF_BV)\n{script}\n(check-sat)\n{values}(exit)\n");
        let mut command = Command::new(&self.program);
        command.args(self.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Process::start(&mut command)
            .map_err(|e| Error::Solver(format!("`{}` cannot be started: {e}", self.program)))?;
        self.converse(process, text)
    }

    fn converse(&self, mut process: Process, text: String) -> Result<Answer, Error> {
        let child = &mut process.child;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::Solver(format!("`{}` has no pipes", self.program)));
        };
        let (said, complained) = (read_all(stdout, LONGEST_ANSWER), read_all(stderr, LONGEST_ANSWER));
        let (wrote, written) = channel();
        thread::spawn(move || {
            let _ = wrote.send(stdin.write_all(text.as_bytes()));
        });
        let until = deadline(self.timeout);
        let said = match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => {
                return Ok(Answer::Unknown(format!("no answer within {:.0} s", self.timeout.as_secs_f64())));
            }
            Err(RecvTimeoutError::Disconnected) => String::new(),
        };
        // One that has closed its output may never read the rest; one that has gone away says why on its own.
        match written.recv_timeout(LAST_WORDS) {
            Ok(Err(e)) if e.kind() != ErrorKind::BrokenPipe => {
                return Err(Error::Solver(format!("`{}` does not read its input: {e}", self.program)));
            }
            _ => {}
        }
        let complained = complained.recv_timeout(LAST_WORDS).unwrap_or_default();
        read_answer(&said)
            .ok_or_else(|| Error::Solver(format!("`{}` said: {}", self.program, first_lines(&said, &complained))))
    }
}

/// What a program says of itself: in a few seconds, or nothing.
fn first_words(mut process: Process) -> String {
    let said = process.child.stdout.take().map(|pipe| read_all(pipe, 1 << 16));
    said.and_then(|said| said.recv_timeout(Duration::from_secs(10)).ok()).unwrap_or_default()
}

/// How long a solver that has closed its output may take to read the rest of its input, and to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What no answer is longer than.
const LONGEST_ANSWER: u64 = 1 << 26;

/// Everything a pipe says until it closes, or so many bytes.
fn read_all(pipe: impl Read + Send + 'static, limit: u64) -> Receiver<String> {
    let (found, received) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.take(limit).read_to_end(&mut bytes);
        let _ = found.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    received
}

fn first_lines(said: &str, complained: &str) -> String {
    let all = [said.trim(), complained.trim()].join("\n");
    let lines: Vec<&str> = all.lines().filter(|l| !l.is_empty()).take(3).collect();
    if lines.is_empty() { "nothing".into() } else { lines.join(" | ").chars().take(300).collect() }
}

/// `sat` and the values, `unsat`, or `unknown`.
fn read_answer(said: &str) -> Option<Answer> {
    let (verdict, rest) = said.split_once('\n').unwrap_or((said, ""));
    match verdict.trim() {
        "sat" => read_values(rest).map(Answer::Sat),
        "unsat" => Some(Answer::Unsat),
        "unknown" | "timeout" => Some(Answer::Unknown("it says: unknown".into())),
        _ => None,
    }
}

/// `((a0 #x3c00) (c #b0))`.
fn read_values(text: &str) -> Option<HashMap<String, u64>> {
    let spaced = text.replace(['(', ')'], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut values = HashMap::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else { return None };
        let value = match value.strip_prefix("#x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => u64::from_str_radix(value.strip_prefix("#b")?, 2).ok()?,
        };
        values.insert((*name).to_owned(), value);
    }
    Some(values)
}
