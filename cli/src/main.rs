//! The command-line tool: one module per command, each a thin layer over the library.

mod authenticate;
mod bar;
mod bench;
mod check;
mod classes;
mod compare;
mod diff;
mod eval;
mod file;
mod fit;
mod format;
mod gemm;
mod generate;
mod identify;
mod inputs;
mod io;
mod npy;
mod prepared;
mod probe;
mod show;
#[cfg(feature = "smt")]
mod smt;
mod svg;
mod target;
mod trace;
mod units;
mod validate;
mod words;
mod yardstick;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// The matrix units of GPUs, bit for bit, on a CPU.
///
/// A UNIT is a canonical name (hopper/wgmma.m64n8k16.f32.f16.f16), a vendor's name with a GPU or
/// architecture ("H100 HGMMA.64x8x16.F32", "a100 HMMA.16816.F32.BF16", "sm_80
/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "MI300X v_mfma_f32_32x32x8_f16"), or a
/// unit of your own (custom/m16n8k16.f32.f16.f16.f32/dot:block=16:F=27). A canonical name with an
/// accumulator behind it is that unit with it (hopper/mma.m16n8k16.f32.f16.f16.f32/dot:block=16:F=27).
/// Case does not matter; quote names with blanks.
///
/// Lines of numbers have the columns a b c [scale_a scale_b] [d], split by tabs: K codes in hex
/// split by commas for a and b, one for c and d. Empty lines and lines that start with # are skipped.
#[derive(Parser)]
#[command(name = "gemmulate", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  gemmulate units --arch hopper --d f16          what an H100 has
  gemmulate show \"H100 HGMMA.64x8x16.F32\"        what one of them computes
  gemmulate generate volta/mma.m8n8k4.f32.f16.f16.f32 --count 5 |
    gemmulate trace volta/mma.m8n8k4.f32.f16.f16.f32
  gemmulate check tests/data/vectors             every unit against recorded answers
  gemmulate gemm UNIT a.npy b.npy -o d.npy       a whole matrix product
  gemmulate COMMAND --help                       more on a command

Exit status: 0 when all is well, 1 when something differs, 2 for errors.";

#[derive(Subcommand)]
enum Command {
    Units(units::Args),
    Show(show::Args),
    Eval(eval::Args),
    Generate(generate::Args),
    Check(check::Args),
    Trace(trace::Args),
    Format(format::Args),
    Gemm(Box<gemm::Args>),
    Compare(compare::Args),
    Identify(identify::Args),
    Validate(validate::Args),
    Probe(probe::Args),
    Fit(fit::Args),
    Diff(diff::Args),
    Classes(classes::Args),
    Authenticate(authenticate::Args),
    #[cfg(feature = "smt")]
    Smt(smt::Args),
    Bench(bench::Args),
}

/// The command line, -1 being a number wherever an option takes a value.
fn parse() -> Cli {
    fn numbers(command: clap::Command) -> clap::Command {
        command.allow_negative_numbers(true).mut_subcommands(numbers)
    }
    let matches = numbers(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn main() -> ExitCode {
    let command = parse().command;
    if let Err(error) = gemmulate::simd::from_environment() {
        return io::exit(Err(error.into()));
    }
    let outcome = match &command {
        Command::Units(args) => units::run(args),
        Command::Show(args) => show::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Check(args) => check::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Format(args) => format::run(args),
        Command::Gemm(args) => gemm::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Identify(args) => identify::run(args),
        Command::Validate(args) => validate::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Fit(args) => fit::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Classes(args) => classes::run(args),
        Command::Authenticate(args) => authenticate::run(args),
        #[cfg(feature = "smt")]
        Command::Smt(args) => smt::run(args),
        Command::Bench(args) => bench::run(args),
    };
    io::exit(outcome)
}
