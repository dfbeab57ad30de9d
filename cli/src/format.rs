//! `gemmulate format`: a format's table, one code or one value.

use crate::inputs::overflow;
use crate::io::{self, Failure, Outcome};
use crate::words;
use gemmulate::format::{FormatSpec, Overflow, Value};
use gemmulate::num::{Class, Num};
use gemmulate::round::Rounding;
use gemmulate::special::NanRule;
use std::io::Write;

/// Show a number format, decode a code, or encode a value.
///
/// A word like 3c00 or 0x3c00 is a code, one like 1.5, -3e-8, inf or nan a value; a word that can be
/// either, like 10, is shown as both. --code and --value say which is meant.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  gemmulate format e4m3                    its limits and all of its codes
  gemmulate format f16 3c01                decodes a code
  gemmulate format e2m1 -- -5.1            encodes a value
  gemmulate format e5m2 1e6 --overflow saturate --round rz")]
pub(crate) struct Args {
    /// The format: f64 f32 tf32 f16 bf16 e5m2 e4m3 e5m2fnuz e4m3fnuz e3m2 e2m3 e2m1 ue8m0 ue4m3
    #[arg(value_parser = crate::units::format)]
    format: FormatSpec,
    /// A code in hex, or a value in decimal
    #[arg(value_name = "BITS|VALUE", allow_hyphen_values = true)]
    word: Option<String>,
    /// The word is a code
    #[arg(long, conflicts_with = "value")]
    code: bool,
    /// The word is a value
    #[arg(long)]
    value: bool,
    /// How a value is rounded: rne rna rnz rnu rnd rno rz ra rd ru
    #[arg(long, value_name = "ROUNDING", default_value = "rne")]
    round: Rounding,
    /// What becomes of values beyond the largest: inf (or the NaN of formats without one; an error where there is
    /// neither) or saturate
    #[arg(long, value_parser = overflow, default_value = "inf")]
    overflow: Overflow,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::output();
    match &args.word {
        Some(word) => convert(args, word, &mut out)?,
        None => {
            limits(&args.format, &mut out)?;
            if args.format.storage_bits <= 8 {
                codes(&args.format, &mut out)?;
            }
        }
    }
    out.flush()?;
    Ok(true)
}

fn convert(args: &Args, word: &str, out: &mut impl Write) -> Result<(), Failure> {
    let as_code = if args.value { Err(String::new()) } else { code(&args.format, word) };
    let as_value = if args.code { Err(String::new()) } else { word.parse::<Value>().map_err(|e| e.to_string()) };
    if let Ok(code) = as_code {
        decoded(&args.format, code, out)?;
    }
    match (&as_code, &as_value) {
        (_, Ok(value)) => encoded(args, word, *value, as_code.is_ok(), out),
        (Ok(_), Err(_)) => Ok(()),
        (Err(why), Err(_)) if !why.is_empty() => Err(Failure::Message(why.clone())),
        (Err(_), Err(why)) => Err(Failure::Message(why.clone())),
    }
}

fn code(format: &FormatSpec, word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    let bits = format.storage_bits;
    let expected = || format!("`{word}`: expected a code of {format} in hex ({bits} bits) or a decimal value");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(expected());
    }
    let digits = digits.trim_start_matches('0');
    let code = if digits.is_empty() { 0 } else { u64::from_str_radix(digits, 16).map_err(|_| expected())? };
    if code & !format.code_mask() == 0 { Ok(code) } else { Err(expected()) }
}

fn decoded(format: &FormatSpec, code: u64, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{format} {code:x} = {}", describe(format, code))
}

fn encoded(args: &Args, word: &str, value: Value, also_a_code: bool, out: &mut impl Write) -> Result<(), Failure> {
    match args.format.encode(value, args.round, args.overflow) {
        Ok(code) => writeln!(out, "{word} -> {} {code:x} = {}", args.format, describe(&args.format, code))?,
        // The word has been decoded as a code already, which was probably what was meant.
        Err(error) if also_a_code => writeln!(out, "{word} as a value: {error}")?,
        Err(error) => return Err(Failure::Message(format!("{word}: {error}"))),
    }
    Ok(())
}

/// A code's value and its parts: `1.5 (sign +, exponent 0, significand 1.1000000000)`.
fn describe(format: &FormatSpec, code: u64) -> String {
    let x = format.decode(code);
    let sign = if x.negative { '-' } else { '+' };
    match x.class {
        Class::Finite | Class::Zero => {
            format!("{} ({sign} 2^{} x {})", value(format, code), x.exponent, significand(&x))
        }
        Class::Nan | Class::Infinite => value(format, code),
    }
}

fn value(format: &FormatSpec, code: u64) -> String {
    let x = format.to_f64(code);
    let plain = x == 0.0 || !x.is_finite() || (1e-5..1e16).contains(&x.abs());
    if plain { format!("{x}") } else { format!("{x:e}") }
}

fn significand(x: &Num) -> String {
    let fraction = x.significand & ((1 << x.frac_bits) - 1);
    let width = x.frac_bits as usize;
    let point = if width == 0 { "" } else { "." };
    let digits = if width == 0 { String::new() } else { format!("{fraction:0width$b}") };
    format!("{}{point}{digits}", x.significand >> x.frac_bits)
}

fn limits(format: &FormatSpec, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", words::format(format))?;
    writeln!(out, "exponent bias {}, smallest exponent {}", format.bias, format.emin())?;
    let one = 1 << format.ignored_low_bits;
    let smallest_normal = if format.subnormals { one << format.fraction_bits } else { 0 };
    let mut rows = vec![("largest", Some(format.max_code(false))), ("smallest normal", Some(smallest_normal))];
    if format.subnormals {
        rows.push(("smallest subnormal", Some(one)));
        rows.push(("zero", Some(0)));
    }
    rows.push(("infinity", format.infinity_code(false)));
    rows.push(("NaN", format.nan_code(NanRule::Quiet)));
    for (name, code) in rows {
        let text = code.map_or("none".into(), |code| format!("{code:<16x} {}", describe(format, code)));
        writeln!(out, "  {name:<18} {text}")?;
    }
    Ok(())
}

/// Every code of a narrow format, eight to a row.
fn codes(format: &FormatSpec, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "\nEvery code")?;
    let all: Vec<u64> = (0..=format.code_mask()).collect();
    for row in all.chunks(8) {
        let cells: Vec<String> = row.iter().map(|&code| format!("{:>14}", value(format, code))).collect();
        writeln!(out, "{:>4x} {}", row[0], cells.join(""))?;
    }
    Ok(())
}
