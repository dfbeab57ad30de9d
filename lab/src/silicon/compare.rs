//! `silicon compare`: vectors out, answers in, differences and disputed rules counted.

use crate::Compare;
use crate::record::{bytes, take, write_record};
use crate::rivals::{self, Rival};
use gemmulate::Unit;
use gemmulate::vectors::{Expected, Generator, Vector};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;

/// Vectors that travel at a time.
const BATCH: u64 = 1 << 15;

/// Of vectors that agree and decide nothing, every n-th is kept.
const EVERY: u64 = 997;

/// Vectors kept for each disputed rule.
const FOR_EACH_RIVAL: u64 = 16;

/// What is written down.
struct Keep {
    file: Option<File>,
    room: u64,
}

impl Keep {
    fn open(args: &Compare) -> std::io::Result<Self> {
        let Some(path) = &args.keep else { return Ok(Self { file: None, room: 0 }) };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let room = args.limit.saturating_sub(file.metadata()?.len());
        Ok(Self { file: Some(file), room })
    }

    /// Appends the vector with the device's d, if there is room.
    fn vector(&mut self, vector: &mut Vector, d: u64) -> std::io::Result<()> {
        vector.d = Some(Expected::Bits(d));
        let line = format!("{vector}\n");
        if let Some(file) = self.file.as_mut().filter(|_| line.len() as u64 <= self.room) {
            file.write_all(line.as_bytes())?;
            self.room -= line.len() as u64;
        }
        Ok(())
    }
}

struct Score {
    total: u64,
    different: u64,
    rivals: Vec<Rival>,
    keep: Keep,
}

impl Score {
    /// Takes one answer of the device into account.
    fn answer(&mut self, unit: &Unit, vector: &mut Vector, d: u64) -> Result<(), Box<dyn Error>> {
        let ours = vector.eval(unit)?;
        let accepted = Expected::Bits(d).accepts(ours, unit);
        let mut worth_keeping = !accepted || self.total.is_multiple_of(EVERY);
        for rival in &mut self.rivals {
            let other = vector.eval(&rival.unit)?;
            if other != ours {
                rival.score[if d == ours {
                    0
                } else if d == other {
                    1
                } else {
                    2
                }] += 1;
                worth_keeping |= rival.kept < FOR_EACH_RIVAL;
                rival.kept += u64::from(rival.kept < FOR_EACH_RIVAL);
            }
        }
        self.total += 1;
        if !accepted {
            self.different += 1;
            if self.different <= 5 {
                eprintln!("{unit}: {vector}: library {ours:x}, device {d:x}");
            }
        }
        if worth_keeping { Ok(self.keep.vector(vector, d)?) } else { Ok(()) }
    }

    fn print(&self) {
        println!("{}\t{}", self.total, self.different);
        for Rival { name, score: [default, other, neither], .. } in &self.rivals {
            if default + other + neither > 0 {
                println!("{name}\tdefault {default}\tother {other}\tneither {neither}");
            }
        }
    }
}

/// Sends one batch from a thread of its own, so that full pipes cannot block both sides.
fn exchange(
    unit: &Unit,
    vectors: &mut [Vector],
    to: &mut ChildStdin,
    from: &mut ChildStdout,
    score: &mut Score,
) -> Result<(), Box<dyn Error>> {
    let mut records = Vec::new();
    vectors.iter().for_each(|v| write_record(unit, v, &mut records));
    let width = bytes(&unit.d);
    let mut answers = vec![0; vectors.len() * width];
    thread::scope(|scope| {
        let sent = scope.spawn(move || to.write_all(&records).and_then(|()| to.flush()));
        let read = from.read_exact(&mut answers);
        let sent = sent.join().map_err(|_| "the sending thread failed")?;
        read.map_err(|e| format!("the device stopped answering: {e}"))?;
        sent.map_err(|e| format!("the device stopped reading: {e}"))
    })?;
    let mut answers = answers.as_slice();
    for vector in vectors {
        score.answer(unit, vector, take(&mut answers, width))?;
    }
    Ok(())
}

fn start(program: &[String]) -> Result<Child, Box<dyn Error>> {
    let (name, args) = program.split_first().ok_or("no program is named")?;
    let child = Command::new(name).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    child.map_err(|e| format!("{name} does not start: {e}").into())
}

pub(crate) fn run(args: &Compare) -> Result<ExitCode, Box<dyn Error>> {
    let unit = &args.unit;
    let mut child = start(&args.program)?;
    let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the device has no pipes".into());
    };
    let mut score = Score { total: 0, different: 0, rivals: rivals::of(unit), keep: Keep::open(args)? };
    let mut generator = Generator::new(unit, args.seed);
    let mut vectors = vec![Vector::default(); BATCH.min(args.count) as usize];
    while score.total < args.count {
        let batch = BATCH.min(args.count - score.total) as usize;
        vectors[..batch].iter_mut().for_each(|v| generator.next_into(v));
        exchange(unit, &mut vectors[..batch], &mut to, &mut from, &mut score)?;
    }
    drop(to);
    let status = child.wait()?;
    score.print();
    if !status.success() {
        return Err(format!("the device's program ended with {status}").into());
    }
    Ok(if score.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
