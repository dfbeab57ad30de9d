//! A black box that is another program: a GPU's, a Python model's, a simulator's.

use super::black_box::{BlackBox, Input, Interface};
use crate::error::Error;
use crate::process::Process;
use crate::special::NanRule;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Empty lines between answers, at most.
const EMPTY_LINES: usize = 1000;

/// The longest answer that is read; an `f64` has 16 hex digits.
const LONGEST_LINE: u64 = 256;

/// How long a program that has closed its output may take to end and to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Lines written at a time, so that a partner that answers as it reads cannot make both sides wait.
const CHUNK: usize = 4096;

/// An external program that speaks `eval`'s line protocol: it reads lines `a  b  c  [scale_a
/// scale_b]` (hex codes, commas within, tabs between) from its standard input and writes one hex
/// code per line, in order. It must flush its answers when it has no more input to read.
#[derive(Debug)]
pub struct Command {
    text: String,
    interface: Interface,
    timeout: Duration,
    process: Process,
    lines: SyncSender<String>,
    answers: Receiver<Answer>,
    /// Empty lines since the last answer.
    empty: Arc<AtomicUsize>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: JoinHandle<()>,
    asked: usize,
}

type Answer = Result<String, String>;

impl Command {
    /// Starts `command` in a shell (`sh -c`). It is ended when this value is dropped, or this process ends.
    ///
    /// `timeout` bounds the wait for the next answer, not the whole run.
    ///
    /// # Errors
    /// When the shell cannot be started.
    pub fn start(command: &str, interface: Interface, timeout: Duration) -> Result<Self, Error> {
        interface.check()?;
        let failed = |why: String| Error::Command { command: command.into(), why };
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start(&mut shell).map_err(|e| failed(format!("cannot be started: {e}")))?;
        let child = &mut process.child;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("has no pipes".into()));
        };
        let (lines, to_write) = sync_channel(4);
        let (found, answers) = sync_channel(1 << 16);
        let (last, empty) = (Arc::new(Mutex::new(VecDeque::new())), Arc::new(AtomicUsize::new(0)));
        let (kept, counted) = (Arc::clone(&last), Arc::clone(&empty));
        let no_thread = |e| failed(format!("cannot be listened to: {e}"));
        thread::Builder::new().spawn(move || write_lines(stdin, &to_write)).map_err(no_thread)?;
        thread::Builder::new().spawn(move || read_answers(stdout, &found, &counted)).map_err(no_thread)?;
        let stderr_reader = thread::Builder::new().spawn(move || keep_last_lines(stderr, &kept)).map_err(no_thread)?;
        let (text, asked, stderr) = (command.into(), 0, last);
        Ok(Self { text, interface, timeout, process, lines, answers, empty, stderr, stderr_reader, asked })
    }

    /// An error about this command, with the last thing it said on standard error.
    fn failed(&self, why: String) -> Error {
        let said = self.stderr.lock().map(|l| l.iter().cloned().collect::<Vec<_>>().join(" | ")).unwrap_or_default();
        let why = if said.is_empty() { why } else { format!("{why}; it said: {said}") };
        Error::Command { command: self.text.clone(), why }
    }

    /// Why there is no answer: the program ended, or its pipe did.
    fn ended(&mut self, have: usize) -> Error {
        // Its pipe may close before it has ended, and before its last words have been read.
        let until = Instant::now() + LAST_WORDS;
        let mut status = self.process.child.try_wait();
        while (matches!(status, Ok(None)) || !self.stderr_reader.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
            status = self.process.child.try_wait();
        }
        let status = match status {
            Ok(Some(status)) => format!("ended ({status})"),
            _ => "closed its output".into(),
        };
        match self.asked {
            0 => self.failed(format!("{status} before it was asked anything")),
            asked => self.failed(format!("{status} after {have} answers of {asked}")),
        }
    }

    fn send(&mut self, chunk: Option<&[Input]>, answered: usize) -> Result<(), Error> {
        let Some(chunk) = chunk else { return Ok(()) };
        let mut text = String::new();
        for input in chunk {
            input.write_line(&mut text);
            text.push('\n');
        }
        if self.lines.send(text).is_err() { Err(self.ended(answered)) } else { Ok(()) }
    }

    fn next_answer(&mut self, answered: usize) -> Result<u64, Error> {
        let line = match self.answers.recv_timeout(self.timeout) {
            Ok(Ok(line)) => line,
            Ok(Err(why)) => return Err(self.failed(format!("answer {}: {why}", answered + 1))),
            Err(RecvTimeoutError::Timeout) => {
                let what = match self.empty.load(Ordering::Relaxed) {
                    0 => "gave no answer".to_owned(),
                    empty => format!("gave no answer but {empty} empty lines"),
                };
                return Err(self.failed(format!(
                    "{what} for {} s after {answered} answers of {}: does it flush its output before it waits?",
                    self.timeout.as_secs_f32(),
                    self.asked
                )));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended(answered)),
        };
        if line.trim().eq_ignore_ascii_case("nan")
            && let Some(code) = self.interface.d.nan_code(NanRule::Quiet)
        {
            return Ok(code);
        }
        // `from_str_radix` alone takes a sign.
        let digits = Some(line.trim()).filter(|text| text.bytes().all(|x| x.is_ascii_hexdigit()));
        let code = digits.and_then(|text| u64::from_str_radix(text, 16).ok());
        let code = code.filter(|c| c & !self.interface.d.code_mask() == 0);
        code.ok_or_else(|| {
            let d = self.interface.d;
            self.failed(format!("answer {} is `{}`, not a hex code of {d}", answered + 1, line.trim()))
        })
    }

    /// Refuses a program that has said more than it was asked, or does within this time.
    fn refuse_babble(&mut self, wait: Duration) -> Result<(), Error> {
        match self.answers.recv_timeout(wait) {
            Ok(Ok(line)) => {
                Err(self.failed(format!("said `{}` after its {} answers, unasked", line.trim(), self.asked)))
            }
            Ok(Err(why)) => Err(self.failed(format!("after its {} answers: {why}", self.asked))),
            Err(RecvTimeoutError::Disconnected) if self.asked == 0 => Err(self.ended(0)),
            Err(_) => Ok(()),
        }
    }
}

impl BlackBox for Command {
    fn interface(&self) -> Interface {
        self.interface
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        // Who asks nothing more waits for what else there is.
        self.refuse_babble(if inputs.is_empty() { LAST_WORDS } else { Duration::ZERO })?;
        let mut answered = self.asked;
        self.asked += inputs.len();
        let mut answers = Vec::with_capacity(inputs.len());
        // One chunk is ahead of the answers, so that both sides work at once.
        let mut chunks = inputs.chunks(CHUNK);
        self.send(chunks.next(), answered)?;
        for chunk in inputs.chunks(CHUNK) {
            self.send(chunks.next(), answered)?;
            for _ in chunk {
                answers.push(self.next_answer(answered)?);
                answered += 1;
            }
        }
        Ok(answers)
    }
}

fn write_lines(stdin: ChildStdin, lines: &Receiver<String>) {
    let mut stdin = BufWriter::new(stdin);
    while let Ok(text) = lines.recv() {
        if stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_answers(stdout: impl Read, found: &SyncSender<Answer>, empty: &AtomicUsize) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = stdout.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let answer = match read {
            Ok(0) => return,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LONGEST_LINE => {
                Err(format!("a line of more than {LONGEST_LINE} bytes"))
            }
            // The last answer of a program that died while it wrote is no answer.
            Ok(_) if line.last() != Some(&b'\n') => {
                Err(format!("`{}`, where the output ends without a newline", String::from_utf8_lossy(&line)))
            }
            Ok(_) => match String::from_utf8(line) {
                Ok(text) if text.trim().is_empty() => {
                    if empty.fetch_add(1, Ordering::Relaxed) < EMPTY_LINES {
                        continue;
                    }
                    Err("nothing but empty lines".into())
                }
                Ok(text) => {
                    empty.store(0, Ordering::Relaxed);
                    Ok(text)
                }
                Err(_) => Err("not text".into()),
            },
            Err(e) => Err(format!("cannot be read: {e}")),
        };
        let stop = answer.is_err();
        if found.send(answer).is_err() || stop {
            return;
        }
    }
}

fn keep_last_lines(stderr: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match stderr.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if let Ok(mut kept) = kept.lock() {
            kept.push_back(text);
            if kept.len() > 3 {
                kept.pop_front();
            }
        }
    }
}
