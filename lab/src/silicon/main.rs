//! Compares a device with the library, in binary: millions of vectors without a text pipe.
//!
//! `silicon compare UNIT [options] -- PROGRAM [ARGS]` draws vectors from a seed, sends them to the
//! program as raw records (the binary protocol of `lab/capture/capture.cuh`), compares the answers,
//! keeps a sample, and says for every disputed rule which reading the device supports.
//! `silicon serve UNIT` is the library standing in for a device.

mod compare;
mod record;
mod rivals;

use clap::{Parser, Subcommand};
use gemmulate::Unit;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares a device with the library, in binary.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends vectors of all ten kinds to a program and compares its answers with the unit's.
    ///
    /// Prints `vectors TAB differences`, then a line per disputed rule that the vectors could tell
    /// apart: its parameter, how many answers agree with the default reading, with the other, with
    /// neither. Exit status 1 if anything differs, 2 for errors.
    Compare(Compare),
    /// Answers records on standard input as the unit does: a stand-in for a device.
    Serve {
        /// The unit.
        unit: Unit,
    },
}

#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The unit.
    pub(crate) unit: Unit,
    /// How many vectors.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) count: u64,
    /// The seed they are drawn from.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Appends a sample to this file, as lines that end with the device's d: differences, vectors
    /// that tell disputed readings apart, and an even selection of the rest.
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
    /// The size the file may reach, in bytes.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) limit: u64,
    /// The program and its arguments; it must speak the binary protocol.
    #[arg(last = true, required = true)]
    pub(crate) program: Vec<String>,
}

fn main() -> ExitCode {
    let outcome = match &Cli::parse().command {
        Command::Compare(args) => compare::run(args),
        Command::Serve { unit } => record::serve(unit).map(|()| ExitCode::SUCCESS).map_err(Into::into),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("silicon: {error}");
        ExitCode::from(2)
    })
}
