//! The binary protocol: `a[K] b[K] c scale_a[S] scale_b[S]` in, d out, little-endian, packed.

use gemmulate::Unit;
use gemmulate::format::FormatSpec;
use gemmulate::vectors::Vector;
use std::io::{self, BufReader, BufWriter, Read, Write};

/// Bytes of a code in a record: whole bytes for fp6 and fp4 too.
pub(crate) const fn bytes(format: &FormatSpec) -> usize {
    format.storage_bits.div_ceil(8) as usize
}

/// Bytes of a record.
pub(crate) fn record_bytes(unit: &Unit) -> usize {
    let scale = unit.scale.map_or(0, |rule| bytes(&rule.format));
    unit.shape.k * (bytes(&unit.a) + bytes(&unit.b)) + bytes(&unit.c) + 2 * unit.scales() * scale
}

/// Appends a vector's record.
pub(crate) fn write_record(unit: &Unit, v: &Vector, out: &mut Vec<u8>) {
    let mut put = |codes: &[u64], format: &FormatSpec| {
        for code in codes {
            out.extend_from_slice(&code.to_le_bytes()[..bytes(format)]);
        }
    };
    put(&v.input.a, &unit.a);
    put(&v.input.b, &unit.b);
    put(&[v.input.c], &unit.c);
    if let Some(rule) = &unit.scale {
        put(&v.input.scale_a, &rule.format);
        put(&v.input.scale_b, &rule.format);
    }
}

/// Reads a code of `width` bytes off the front.
pub(crate) fn take(from: &mut &[u8], width: usize) -> u64 {
    let (code, rest) = from.split_at(width);
    *from = rest;
    code.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte))
}

fn read_record(unit: &Unit, mut record: &[u8], v: &mut Vector) {
    let mut get = |count: usize, format: &FormatSpec, into: &mut Vec<u64>| {
        into.clear();
        into.extend((0..count).map(|_| take(&mut record, bytes(format))));
    };
    get(unit.shape.k, &unit.a, &mut v.input.a);
    get(unit.shape.k, &unit.b, &mut v.input.b);
    let mut c = Vec::new();
    get(1, &unit.c, &mut c);
    v.input.c = c[0];
    if let Some(rule) = &unit.scale {
        get(unit.scales(), &rule.format, &mut v.input.scale_a);
        get(unit.scales(), &rule.format, &mut v.input.scale_b);
    }
}

/// Answers records until standard input ends.
pub(crate) fn serve(unit: &Unit) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut record = vec![0; record_bytes(unit)];
    let mut vector = Vector::default();
    loop {
        if input.buffer().len() < record.len() {
            // The next read may block: nobody shall wait for an answer that stands in the buffer.
            output.flush()?;
        }
        match input.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return output.flush(),
            Err(error) => return Err(error),
        }
        read_record(unit, &record, &mut vector);
        let d = vector.eval(unit).map_err(io::Error::other)?;
        output.write_all(&d.to_le_bytes()[..bytes(&unit.d)])?;
    }
}
