//! What `probe` and `fit` are pointed at: a unit by name, or a command that answers lines.

use crate::io::Failure;
use gemmulate::Unit;
use gemmulate::format::{FormatSpec, format_named};
use gemmulate::instr::ScaleRule;
use gemmulate::probe::{BlackBox, Command, Input, Interface};
use serde_json::{Value, json};
use std::time::Duration;

/// A unit, or a command with its formats and K.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The unit, by any of its names
    #[arg(value_parser = Unit::find, required_unless_present = "command", conflicts_with = "command")]
    unit: Option<Unit>,
    /// A command (run by sh) that reads lines as `eval` does and answers each with one hex code,
    /// flushing its answers before it waits for more
    #[arg(long, requires_all = ["a", "b", "c", "d", "k"])]
    command: Option<String>,
    /// Format of the command's a
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "command")]
    a: Option<FormatSpec>,
    /// Format of the command's b
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "command")]
    b: Option<FormatSpec>,
    /// Format of the command's c
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "command")]
    c: Option<FormatSpec>,
    /// Format of the command's d
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "command")]
    d: Option<FormatSpec>,
    /// Products per dot-add of the command
    #[arg(long, requires = "command")]
    k: Option<usize>,
    /// Format of the command's block scales
    #[arg(long, value_name = "FORMAT", value_parser = format, requires_all = ["command", "scale_block"])]
    scale: Option<FormatSpec>,
    /// Elements of K that share a scale
    #[arg(long, value_name = "N", requires = "scale")]
    scale_block: Option<usize>,
    /// Seconds to wait for the command's next answer
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, requires = "command")]
    timeout: f64,
}

/// How a subcommand is pointed at either.
pub(crate) fn usage(subcommand: &str) -> String {
    let formats = "--a <FORMAT> --b <FORMAT> --c <FORMAT> --d <FORMAT> --k <K>";
    format!(
        "gemmulate {subcommand} [OPTIONS] <UNIT>\n       gemmulate {subcommand} [OPTIONS] --command <COMMAND> {formats}"
    )
}

fn format(name: &str) -> Result<FormatSpec, String> {
    format_named(name).copied().ok_or_else(|| format!("no format is called `{name}`"))
}

impl Target {
    /// Whether it is a command, whose rules are not known.
    pub(crate) const fn is_command(&self) -> bool {
        self.unit.is_none()
    }

    /// The box, and what to call it.
    pub(crate) fn open(&self) -> Result<(Box<dyn BlackBox>, String), Failure> {
        if let Some(unit) = &self.unit {
            return Ok((Box::new(unit.clone()), unit.to_string()));
        }
        let (Some(command), Some(a), Some(b), Some(c), Some(d), Some(k)) =
            (&self.command, self.a, self.b, self.c, self.d, self.k)
        else {
            return Err(Failure::Message("a command needs --a, --b, --c, --d and --k".into()));
        };
        let scale = self.scale.zip(self.scale_block).map(|(format, block)| ScaleRule { format, block });
        if k == 0 || k > 65536 || scale.is_some_and(|s| s.block == 0 || k % s.block != 0) {
            return Err(Failure::Message("K must be from 1 to 65536, and scale blocks must divide it".into()));
        }
        let timeout = Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Failure::Message("--timeout must be a number of seconds".into()))?;
        let interface = Interface { k, a, b, c, d, scale };
        Ok((Box::new(Command::start(command, interface, timeout)?), command.clone()))
    }
}

/// Every term of an input that is not zero, by value.
pub(crate) fn in_words(input: &Input, interface: &Interface) -> String {
    let value = |f: &FormatSpec, code: u64| number(f.to_f64(code));
    let mut terms = Vec::new();
    for k in 0..interface.k {
        if input.a[k] != 0 || input.b[k] != 0 {
            let (a, b) = (value(&interface.a, input.a[k]), value(&interface.b, input.b[k]));
            terms.push(format!("a{k} = {a}, b{k} = {b}"));
        }
    }
    if input.c != 0 {
        terms.push(format!("c = {}", value(&interface.c, input.c)));
    }
    if let Some(rule) = interface.scale {
        let unusual = |name: &'static str, codes: &[u64]| {
            let values: Vec<String> = codes.iter().map(|&x| value(&rule.format, x)).collect();
            format!("{name} = {}", values.join(" "))
        };
        terms.push(unusual("scales of a", &input.scale_a));
        terms.push(unusual("scales of b", &input.scale_b));
    }
    if terms.is_empty() { "all zero".into() } else { terms.join("; ") }
}

/// A number, with its power of two where that is shorter.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() || x == 0.0 || (x.abs() >= 1e-3 && x.abs() < 1e6) {
        return format!("{x}");
    }
    let mut e = x.abs().log2().floor() as i32;
    let mut s = x / 2f64.powi(e / 2) / 2f64.powi(e - e / 2);
    if s.abs() >= 2.0 {
        s /= 2.0;
        e += 1;
    }
    match s {
        1.0 => format!("2^{e}"),
        -1.0 => format!("-2^{e}"),
        s => format!("{s} * 2^{e}"),
    }
}

/// An input as JSON: codes in hex.
pub(crate) fn input_json(input: &Input) -> Value {
    let hex = |codes: &[u64]| codes.iter().map(|x| format!("{x:x}")).collect::<Vec<_>>();
    let mut value = json!({ "a": hex(&input.a), "b": hex(&input.b), "c": format!("{:x}", input.c) });
    if !input.scale_a.is_empty() {
        value["scale_a"] = json!(hex(&input.scale_a));
        value["scale_b"] = json!(hex(&input.scale_b));
    }
    value
}
