//! Outputs recorded on real GPUs, in the layout of the public MATLAB-tensor-core repository.
//!
//! `GPU/FORMAT/x_GPU_FORMAT.txt`, one dot-add a row: `a_` and `b_` hold K values as the 8 hex
//! digits of the f32 that equals the narrow value; `c_GPU_fp32` 32 binary digits of an f32, rounded
//! to the unit's c first; `d_GPU_fp32` and `d_GPU_fp16` 32 binary digits of the f32 that equals the
//! output. Any number of rows is read.

use super::{Expected, Input, Vector};
use crate::error::Error;
use crate::format::{F16, F32, FormatSpec, Overflow};
use crate::round::Rounding;
use crate::unit::Unit;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Folders of GPUs that behave alike, their formats, and the units that must reproduce them, with
/// `D` for the output.
struct Row {
    gpus: &'static [&'static str],
    formats: &'static [(&'static str, &'static str)],
    unit: &'static str,
    outputs: &'static [Output],
}

/// An output file, and how its c is taken.
#[derive(Clone, Copy)]
struct Output {
    suffix: &'static str,
    format: FormatSpec,
    ignores_c: bool,
}

const WIDE: Output = Output { suffix: "fp32", format: F32, ignores_c: false };
const NARROW: Output = Output { suffix: "fp16", format: F16, ignores_c: false };
const WIDE_WITHOUT_C: Output = Output { ignores_c: true, ..WIDE };

const FP16: &[(&str, &str)] = &[("fp16", "f16")];
const BF16: &[(&str, &str)] = &[("bf16", "bf16")];
const TF32: &[(&str, &str)] = &[("tf32", "tf32")];
const FP8: &[(&str, &str)] = &[("E4M3", "e4m3"), ("E5M2", "e5m2")];

const AMPERE: &[&str] = &["A100", "A2"];
const ADA: &[&str] = &["Ada", "L40S"];
const HOPPER: &[&str] = &["H100", "H200"];

macro_rules! rows {
    ($($gpus:expr, $formats:expr, $unit:literal, $outputs:expr;)*) => {
        &[$(Row { gpus: $gpus, formats: $formats, unit: $unit, outputs: $outputs }),*]
    };
}

/// `A` in a unit's name stands for the format of its operands.
const ROWS: &[Row] = rows! {
    &["V100"], FP16, "volta/mma.m8n8k4.D.A.A.D", &[WIDE, NARROW];
    AMPERE, FP16, "ampere/mma.m16n8k8.D.A.A.D", &[WIDE, NARROW];
    AMPERE, BF16, "ampere/mma.m16n8k8.D.A.A.D", &[WIDE];
    AMPERE, TF32, "ampere/mma.m16n8k4.D.A.A.D", &[WIDE];
    ADA, FP16, "ada/mma.m16n8k8.D.A.A.D", &[WIDE, NARROW];
    ADA, BF16, "ada/mma.m16n8k8.D.A.A.D", &[WIDE];
    ADA, TF32, "ada/mma.m16n8k4.D.A.A.D", &[WIDE];
    ADA, FP8, "ada/mma.m16n8k32.D.A.A.D", &[WIDE, NARROW];
    HOPPER, FP16, "hopper/mma.m16n8k16.D.A.A.D", &[WIDE, NARROW];
    HOPPER, FP16, "hopper/wgmma.m64n8k16.D.A.A", &[WIDE, NARROW];
    HOPPER, BF16, "hopper/mma.m16n8k16.D.A.A.D", &[WIDE];
    HOPPER, BF16, "hopper/wgmma.m64n8k16.D.A.A", &[WIDE];
    HOPPER, TF32, "hopper/mma.m16n8k4.D.A.A.D", &[WIDE];
    HOPPER, FP8, "hopper/wgmma.m64n8k32.D.A.A", &[WIDE_WITHOUT_C];
    HOPPER, FP8, "hopper/mma.m16n8k32.D.A.A.D", &[NARROW];
    &["B200"], FP16, "blackwell/mma.m16n8k16.D.A.A.D", &[WIDE, NARROW];
    &["B200"], FP16, "blackwell/tcgen05.mma.m64n8k16.D.A.A", &[WIDE, NARROW];
    &["B200"], BF16, "blackwell/mma.m16n8k16.D.A.A.D", &[WIDE];
    &["B200"], BF16, "blackwell/tcgen05.mma.m64n8k16.D.A.A", &[WIDE];
    &["B200"], TF32, "blackwell/mma.m16n8k4.D.A.A.D", &[WIDE];
    &["B200"], FP8, "blackwell/mma.m16n8k32.D.A.A.D", &[WIDE, NARROW];
};

/// Where recorded outputs lie, and the unit that must reproduce them.
#[derive(Clone, Debug)]
pub struct Recording {
    /// `GPU/FORMAT`.
    pub folder: String,
    /// The unit that must give the recorded bits.
    pub unit: Unit,
    /// The recorded output's name in the layout: `fp32` or `fp16`.
    pub output: &'static str,
    ignores_c: bool,
    root: PathBuf,
}

/// Every recording that `root` holds, folder by folder. An output whose file is missing is left
/// out; a folder of `root` without any of its outputs is an error.
///
/// # Errors
/// When `root` cannot be read or holds no folder of the layout.
pub fn recordings(root: &Path) -> Result<Vec<Recording>, Error> {
    fs::read_dir(root).map_err(|e| unreadable(root, &e.to_string()))?;
    let mut found = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    for (row, gpu, (name, operand)) in ROWS
        .iter()
        .flat_map(|row| row.gpus.iter().flat_map(move |gpu| row.formats.iter().map(move |format| (row, gpu, format))))
    {
        let folder = format!("{gpu}/{name}");
        if !root.join(&folder).is_dir() {
            continue;
        }
        folders.push(folder.clone());
        for output in row.outputs.iter().filter(|o| root.join(&folder).join(file_name("d", gpu, o.suffix)).exists()) {
            let unit = row.unit.replace('D', output.format.name).replace('A', operand);
            let Output { suffix, ignores_c, .. } = *output;
            let unit = Unit::find(&unit)?;
            found.push(Recording { folder: folder.clone(), unit, output: suffix, ignores_c, root: root.into() });
        }
    }
    check_complete(root, &folders, &found)?;
    found.sort_by_key(|r| folders.iter().position(|f| *f == r.folder));
    Ok(found)
}

fn check_complete(root: &Path, folders: &[String], found: &[Recording]) -> Result<(), Error> {
    if folders.is_empty() {
        return Err(unreadable(root, "expected folders like H100/fp16, but there are none"));
    }
    match folders.iter().find(|folder| !found.iter().any(|r| r.folder == **folder)) {
        Some(folder) => {
            let gpu = folder.split('/').next().unwrap_or_default();
            Err(unreadable(&root.join(folder), &format!("expected {}", file_name("d", gpu, "fp32"))))
        }
        None => Ok(()),
    }
}

fn file_name(what: &str, gpu: &str, suffix: &str) -> String {
    format!("{what}_{gpu}_{suffix}.txt")
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::Data { file: path.display().to_string(), line: None, column: None, why: why.into() }
}

impl Recording {
    /// Reads its rows.
    ///
    /// # Errors
    /// When a file is missing or malformed, or the files differ in length.
    pub fn vectors(&self) -> Result<Vec<Vector>, Error> {
        let (gpu, format) = self.folder.split_once('/').unwrap_or((&self.folder, ""));
        let folder = self.root.join(&self.folder);
        let (unit, k) = (&self.unit, self.unit.shape.k);
        let table = |what, suffix, radix, columns, to: &FormatSpec, exact| {
            Table { path: folder.join(file_name(what, gpu, suffix)), radix, columns, exact }.read(to)
        };
        let a = table("a", format, 16, k, &unit.a, true)?;
        let b = table("b", format, 16, k, &unit.b, true)?;
        let c = table("c", "fp32", 2, 1, &unit.c, false)?;
        let d = table("d", self.output, 2, 1, &unit.d, true)?;
        let rows = d.len();
        for (what, suffix, codes, columns) in [("a", format, &a, k), ("b", format, &b, k), ("c", "fp32", &c, 1)] {
            if codes.len() != rows * columns {
                let why = format!("expected {rows} rows, as many as d has, but found {}", codes.len() / columns);
                return Err(unreadable(&folder.join(file_name(what, gpu, suffix)), &why));
            }
        }
        let operands = |i: usize| Input {
            a: a[i * k..][..k].to_vec(),
            b: b[i * k..][..k].to_vec(),
            c: if self.ignores_c { 0 } else { c[i] },
            ..Input::default()
        };
        let row = |i: usize| Vector { input: operands(i), d: Some(Expected::Bits(d[i])) };
        Ok((0..rows).map(row).collect())
    }
}

/// One file: rows of f32 patterns.
struct Table {
    path: PathBuf,
    radix: u32,
    columns: usize,
    /// Whether the values must be values of the format they are read into.
    exact: bool,
}

/// No line of a recording is as long.
const LONGEST_LINE: u64 = 1 << 20;

impl Table {
    fn error(&self, line: usize, column: Option<usize>, why: String) -> Error {
        Error::Data { file: self.path.display().to_string(), line: Some(line), column, why }
    }

    /// The codes in `to`, row after row.
    fn read(&self, to: &FormatSpec) -> Result<Vec<u64>, Error> {
        let file = File::open(&self.path).map_err(|e| unreadable(&self.path, &e.to_string()))?;
        let mut codes = Vec::new();
        let (mut file, mut line) = (BufReader::new(file), Vec::new());
        for i in 0.. {
            line.clear();
            let read = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            match read.map_err(|e| self.error(i + 1, None, e.to_string()))? as u64 {
                0 => break,
                LONGEST_LINE => {
                    return Err(self.error(i + 1, None, format!("expected a line of fewer than {LONGEST_LINE} bytes")));
                }
                _ => {}
            }
            let before = codes.len();
            for word in line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()) {
                let column = word.as_ptr().addr() - line.as_ptr().addr() + 1;
                codes.push(self.code(word, to).map_err(|why| self.error(i + 1, Some(column), why))?);
            }
            let found = codes.len() - before;
            if found != 0 && found != self.columns {
                return Err(self.error(i + 1, None, format!("expected {} values, but found {found}", self.columns)));
            }
        }
        Ok(codes)
    }

    fn code(&self, word: &[u8], to: &FormatSpec) -> Result<u64, String> {
        let digits = if self.radix == 16 { 8 } else { 32 };
        let text = || String::from_utf8_lossy(&word[..word.len().min(40)]).escape_debug().to_string();
        let bits = core::str::from_utf8(word)
            .ok()
            .filter(|w| w.len() == digits && !w.starts_with('+'))
            .and_then(|w| u64::from_str_radix(w, self.radix).ok())
            .ok_or_else(|| {
                let kind = if self.radix == 16 { "hex" } else { "binary" };
                format!("expected the {digits} {kind} digits of an f32, but found `{}`", text())
            })?;
        if *to == F32 {
            return Ok(bits);
        }
        let value = F32.decode(bits);
        let code = to.encode(value.into(), Rounding::NearestEven, Overflow::Ieee).map_err(|e| e.to_string())?;
        if self.exact && !value.is_nan() && to.to_f64(code) != F32.to_f64(bits) {
            return Err(format!("expected an f32 that equals a value of {to}, but found `{}`", text()));
        }
        Ok(code)
    }
}
