//! `gemm`, `compare` and `identify`: what they print, write and refuse.

mod run;

use run::{command, gemmulate};
use std::fs;
use std::path::{Path, PathBuf};

const UNIT: &str = "hopper/wgmma.m64n128k16.f32.f16.f16";

/// A folder of matrices, gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn npy(&self, name: &str, descr: &str, shape: &[usize], fortran: bool, data: &[u8]) -> String {
        let order = if fortran { "True" } else { "False" };
        let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
        let padded = format!("{header:width$}\n", width = (header.len() + 11).next_multiple_of(64) - 11);
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((padded.len() as u16).to_le_bytes());
        bytes.extend(padded.as_bytes());
        bytes.extend(data);
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    fn floats(&self, name: &str, shape: &[usize], f: impl Fn(usize) -> f32) -> String {
        let data: Vec<u8> = (0..shape.iter().product()).flat_map(|t| f(t).to_le_bytes()).collect();
        self.npy(name, "<f4", shape, false, &data)
    }

    fn bytes(&self, name: &str, shape: &[usize], f: impl Fn(usize) -> u8) -> String {
        self.npy(name, "|u1", shape, false, &(0..shape.iter().product()).map(f).collect::<Vec<_>>())
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.path()).expect("a folder").count()
    }
}

/// A run of `gemm` that must succeed in silence.
fn gemm(args: &[&str]) -> String {
    let run = gemmulate(&[&["gemm"], args].concat(), b"");
    assert_eq!((run.err.as_str(), run.code), ("", 0), "{args:?}");
    run.out
}

/// The elements of a `.npy` file of f32.
fn elements(path: &str) -> Vec<u8> {
    let bytes = fs::read(path).expect("a file");
    bytes[10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))..].to_vec()
}

#[test]
fn batches_and_vectors() {
    let folder = Folder::new();
    let (m, n, k) = (5, 3, 40);
    let (a, b) = (folder.floats("a.npy", &[2, m, k], wave), folder.floats("b.npy", &[1, k, n], wave));
    let (c, d) = (folder.floats("c.npy", &[m, n], wave), folder.path("d.npy"));
    let json = gemm(&[UNIT, &a, &b, "-c", &c, "--beta", "-0.5", "-o", &d, "--json"]);
    assert!(json.contains("\"batch\":2"), "{json}");
    let whole = elements(&d);
    let second = folder.floats("a1.npy", &[m, k], |t| wave(t + m * k));
    let flat = folder.floats("b0.npy", &[k, n], wave);
    gemm(&[UNIT, &second, &flat, "-c", &c, "--beta", "-0.5", "-o", &d]);
    assert_eq!(whole[m * n * 4..], elements(&d));
    // The element that the batch calls (1, 2, 0).
    let drawn = gemm(&[UNIT, &a, &b, "-c", &c, "--beta", "-0.5", "--trace", "1,2,0"]);
    assert_eq!(drawn, gemm(&[UNIT, &second, &flat, "-c", &c, "--beta", "-0.5", "--trace", "2,0"]));
    let whose = gemmulate(&["gemm", UNIT, &a, &b, "--trace", "2,0"], b"");
    assert!(whose.code == 2 && whose.err.contains("2 products") && whose.err.contains("0,2,0"), "{}", whose.err);
    // A row by a matrix, and by a column: dimensions go, bits stay.
    gemm(&[UNIT, &second, &flat, "-o", &d]);
    let product = elements(&d);
    let (row, column) =
        (folder.floats("v.npy", &[k], |t| wave(t + m * k)), folder.floats("w.npy", &[k], |t| wave(t * n)));
    gemm(&[UNIT, &row, &flat, "-o", &d]);
    assert_eq!(elements(&d), product[..n * 4]);
    assert!(String::from_utf8_lossy(&fs::read(&d).expect("written")).contains("(3,"));
    gemm(&[UNIT, &row, &column, "-o", &d]);
    assert_eq!(elements(&d), product[..4]);
    assert_eq!(gemm(&[UNIT, &row, &column, "--expect", &d]), "all 1 elements are bit-identical\n");
    // A batch by a vector: D as it was written is what is expected, and a C.
    for (left, right) in [(&a, &column), (&row, &folder.floats("bs.npy", &[2, k, n], wave))] {
        gemm(&[UNIT, left, right, "-o", &d]);
        assert!(gemm(&[UNIT, left, right, "--expect", &d]).ends_with("elements are bit-identical\n"));
        let twice = folder.path("twice.npy");
        gemm(&[UNIT, left, right, "-c", &d, "-o", &twice]);
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let (once, twice) = (elements(&d), elements(&twice));
        assert!(once.len() == twice.len() && once.len() > 4);
        for (x, y) in once.chunks(4).zip(twice.chunks(4)) {
            assert_eq!(2.0 * number(x), number(y));
        }
    }
    let three = folder.floats("three.npy", &[3, k, n], wave);
    let run = gemmulate(&["gemm", UNIT, &a, &three], b"");
    assert!(run.err.contains("B is a batch of 3, but A and B make 2 products"), "{}", run.err);
}

#[test]
fn block_scales_in_every_form() {
    let folder = Folder::new();
    let (nvfp4, d) = ("rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", folder.path("d.npy"));
    let code = |t: usize| (t * 7 % 16) as u8;
    let (m, n, k) = (3, 2, 64);
    let (a, b) = (folder.bytes("a.npy", &[m, k], code), folder.bytes("b.npy", &[k, n], code));
    let scale = |line: usize, block: usize| 0x30 + (line * 5 + block) as u8;
    let sa = folder.bytes("sa.npy", &[m, 4], |t| scale(t / 4, t % 4));
    let sb = folder.bytes("sb.npy", &[4, n], |t| scale(t % n, t / n));
    let scales = ["--scale-a", &sa, "--scale-b", &sb];
    let exact = gemm(&[&[nvfp4, &a, &b, "-o", &d, "--compare"], &scales[..]].concat());
    assert!(exact.contains("against the exact product"), "{exact}");
    // Two codes to a byte, B as N x K, scales in tiles of 128 x 4.
    let packed = folder.bytes("pa.npy", &[m, k / 2], |t| code(2 * t) | code(2 * t + 1) << 4);
    let turned = |t: usize| code((t % k) * n + t / k);
    let weights = folder.bytes("pb.npy", &[n, k / 2], |t| turned(2 * t) | turned(2 * t + 1) << 4);
    let tile = |t: usize, lines: usize| {
        // Byte t of a tile: line (t / 16) + 32 (t / 4 mod 4), block t mod 4.
        let line = t / 16 + 32 * (t / 4 % 4);
        if line < lines { scale(line, t % 4) } else { 0 }
    };
    let (ta, tb) = (folder.bytes("ta.npy", &[512], |t| tile(t, m)), folder.bytes("tb.npy", &[32, 16], |t| tile(t, n)));
    let stored = ["--packed", "--transposed", "b", "--swizzled", "--scale-a", &ta, "--scale-b", &tb, "--expect", &d];
    assert_eq!(gemm(&[&[nvfp4, &packed, &weights], &stored[..]].concat()), "all 6 elements are bit-identical\n");
    let found = gemmulate(&[&["identify", &a, &b, &d, "--json"], &scales[..]].concat(), b"");
    assert!(found.out.contains("\"exact\":true") && found.out.contains(nvfp4), "{}{}", found.out, found.err);
    // Values are quantised, and found again.
    let (x, y) = (folder.floats("x.npy", &[m, k], wave), folder.floats("y.npy", &[k, n], wave));
    let said = gemm(&[nvfp4, &x, &y, "-o", &d]);
    assert!(said.contains("A was quantised to e2m1 in blocks of 16 with ue4m3 scales and the factor"), "{said}");
    let found = gemmulate(&["identify", &x, &y, &d, "--arch", "rtx-blackwell", "--json"], b"");
    assert!(found.out.contains("\"exact\":true") && found.out.contains(nvfp4), "{}{}", found.out, found.err);
    // Scales that lie beside transposed weights.
    let (whole, beside) =
        (folder.bytes("nk.npy", &[n, k], turned), folder.bytes("ns.npy", &[n, 4], |t| scale(t / 4, t % 4)));
    gemm(&[&[nvfp4, &a, &b, "-o", &d], &scales[..]].concat());
    let turned = ["--transposed", "b", "--scale-a", &sa, "--scale-b", &beside, "--expect", &d];
    assert_eq!(gemm(&[&[nvfp4, &a, &whole], &turned[..]].concat()), "all 6 elements are bit-identical\n");
    for (args, why) in [
        (&[nvfp4, &a, &b][..], "--scale-a"),
        (&[nvfp4, &a, &b, "--scale-a", &sb, "--scale-b", &sb], "scale_a must be 3 x 4"),
        (&[nvfp4, &a, &b, "--scale-a", "2", "--scale-b", &sb], "is a file of them"),
        (&[nvfp4, &a, &b, "--scale-a", &sa, "--scale-b", &sb, "--swizzled"], "512 bytes in C order"),
        (&[nvfp4, &a, &weights, "--packed", "--scale-a", &sa, "--scale-b", &sb], "B must be 128 x N"),
        (&[UNIT, &x, &y, "--packed"], "for fp4 and fp6"),
        (&[nvfp4, &x, &y, "--packed"], "here A and B are values"),
        (&[nvfp4, &x, &y, "--swizzled"], "none is given (--scale-a, --scale-b)"),
        (&[UNIT, &x, &y, "--bits"], "--output"),
        (&[UNIT, &x, &y, "--swizzled"], "takes none"),
        (&[UNIT, &x, &y, "--scale-a", "1e39"], "--scale-a must be a number that f32 holds"),
        (&[UNIT, &x, &y, "--scale-b", "nan"], "--scale-b must be a number that f32 holds"),
        (&[UNIT, &x, &y, "--scale-b", "1e-60"], "--scale-b must be a number that f32 holds"),
    ] {
        let run = gemmulate(&[&["gemm"], args].concat(), b"");
        assert!(run.err.contains(why) && run.code == 2, "{args:?}: {}", run.err);
    }
}

#[test]
fn scales_and_bias_outside_the_unit() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[2, 16], |_| 1.0), folder.floats("b.npy", &[16, 3], |_| 1.0));
    let (rows, bias) = (folder.floats("r.npy", &[2], |t| 0.5 + t as f32), folder.floats("v.npy", &[3], |t| t as f32));
    let (c, want) = (folder.floats("c.npy", &[2, 3], |_| 4.0), folder.path("want.npy"));
    // 3 * 0.25 * row * 16 + 0.5 * 4 + bias
    folder.floats("want.npy", &[2, 3], |t| 12.0 * (0.5 + (t / 3) as f32) + 2.0 + (t % 3) as f32);
    let scaled = ["--scale-a", &rows, "--scale-b", "0.25", "--bias", &bias, "-c", &c, "--alpha", "3", "--beta", "0.5"];
    let run = gemm(&[&[UNIT, &a, &b, "--expect", &want, "--compare"], &scaled[..]].concat());
    assert!(run.contains("all 6 elements are bit-identical") && run.contains("max abs 0e0 at 0,0,"), "{run}");
    assert!(run.contains("applied in f64"), "{run}");
    // C in double precision is rounded to single.
    let double = |t: usize| (t as f64).exp().to_le_bytes();
    let bytes = |one: &dyn Fn(usize) -> Vec<u8>| (0..6).flat_map(one).collect::<Vec<u8>>();
    let exact = folder.npy("c64.npy", "<f8", &[2, 3], false, &bytes(&|t| double(t).to_vec()));
    let rounded = |t: usize| (f64::from_le_bytes(double(t)) as f32).to_le_bytes().to_vec();
    let rounded = folder.npy("c32.npy", "<f4", &[2, 3], false, &bytes(&rounded));
    gemm(&[UNIT, &a, &b, "-c", &rounded, "-o", &want]);
    gemm(&[UNIT, &a, &b, "-c", &exact, "--expect", &want]);
    let run = gemmulate(&["gemm", UNIT, &a, &b, "--bias", &rows], b"");
    assert!(run.err.contains("expected 3 floats, one per column of D"), "{}", run.err);
    let run = gemmulate(&["gemm", UNIT, &a, &b, "--beta", "1"], b"");
    assert!(run.err.contains("give C with -c"), "{}", run.err);
}

#[test]
fn plans_are_found_again() {
    let folder = Folder::new();
    let (m, n, k) = (150, 140, 128);
    let f16 = |t: usize| half(wave(t));
    let (a, b) = (folder.floats("a.npy", &[m, k], f16), folder.floats("b.npy", &[k, n], f16));
    let (c, d) = (folder.floats("c.npy", &[m, n], f16), folder.path("d.npy"));
    let bias = folder.floats("bias.npy", &[n], wave);
    for (plan, out, extra, name) in [
        ("cutlass3 block=128x128x64 stream-k=8", "f32", &[][..], "stream-k=8"),
        ("in-order split-k=3 order=1,2,0", "f32", &[], "order=1,2,0"),
        // Beside C the first two do not commute.
        ("in-order split-k=3 order=1,0,2", "f32", &["-c", &c], "order=1,0,2"),
        ("cutlass2 split-k=3 split-align=8", "f16", &[], "split-k=3 split-align=8"),
        ("cutlass2 split-k=2", "f16", &["-c", &c, "--alpha", "1.5", "--beta", "-0.75"], "cutlass2 split-k=2"),
        ("in-order start=c", "bf16", &["-c", &c], "start=c"),
        ("in-order split-k=4", "f16", &["--bias", &bias, "--scale-a", "0.3"], "in-order split-k=4"),
    ] {
        gemm(&[&[UNIT, &a, &b, "-o", &d, "--plan", plan, "--out", out], extra].concat());
        let found = gemmulate(&[&["identify", &a, &b, &d, "--arch", "H100", "--json"], extra].concat(), b"");
        assert!(found.out.contains("\"exact\":true") && found.out.contains(name), "{plan}: {}{}", found.out, found.err);
    }
    // Of very little, many plans make the same; the table shows some of them.
    let [x, y] = [("x1.npy", [1, 3]), ("y1.npy", [3, 1])].map(|(name, size)| folder.floats(name, &size, wave));
    gemm(&[UNIT, &x, &y, "-o", &d]);
    let found = gemmulate(&["identify", &x, &y, &d, "--arch", "H100"], b"");
    let short = found.out.lines().count() < 100 && found.out.contains(" more");
    assert!(found.code == 0 && short && found.out.contains("--json has all of them"), "{}", found.out);
    // What nobody makes: counts are those of all of D.
    gemm(&[UNIT, &a, &b, "-o", &d, "--plan", "in-order split-k=8"]);
    let found = gemmulate(&["identify", &a, &b, &d, "--arch", "H100", "--json", "--plans", "in-order;cutlass2"], b"");
    assert_eq!(found.code, 1, "{}", found.err);
    assert!(found.out.contains("\"exact\":false"), "{}", found.out);
    let after = |text: &str, key: &str, ends: [char; 2]| -> String {
        text.split(key).nth(1).and_then(|x| x.split(ends).next()).unwrap_or(text).into()
    };
    let [unit, plan] = ["\"units\":[\"", "\"plans\":[\""].map(|key| after(&found.out, key, ['"', '"']));
    let apart = gemmulate(&["gemm", &unit, &a, &b, "--plan", &plan, "--out", "f32", "--expect", &d, "--json"], b"");
    let [counted, reported] = [&apart, &found].map(|run| after(&run.out, "\"differ\":", [',', '}']));
    assert_eq!(counted, reported, "{}{}", apart.err, found.out);
    let whole = ["identify", &a, &b, &d, "--plans", "in-order split-k=8", "--arch", "hopper"];
    let found = gemmulate(&whole, b"");
    assert!(found.out.contains("bit for bit") && found.code == 0, "{}{}", found.out, found.err);
    // Operands that no narrow format holds.
    let third = |t: usize| wave(t) / 3.0;
    let (x, y) = (folder.floats("x.npy", &[m, k], third), folder.floats("y.npy", &[k, n], third));
    gemm(&[UNIT, &x, &y, "-o", &d]);
    // A plan that a size excludes is not left out in silence.
    let plans = ["--plans", "in-order;cutlass3 split-k=7"];
    let some = gemmulate(&[&["identify", &a, &b, &d, "--arch", "hopper"], &plans[..]].concat(), b"");
    assert!(some.out.contains("left out on") && some.out.contains("cutlass3 split-k=7 ("), "{}", some.out);
    let left_out = gemmulate(&["identify", &x, &y, &d, "--arch", "hopper", "--plans", "in-order"], b"");
    assert!(left_out.code == 1 && left_out.out.contains("--rounded tries them"), "{}{}", left_out.out, left_out.err);
    let tried = ["identify", &x, &y, &d, "--arch", "hopper", "--plans", "in-order", "--rounded"];
    let found = gemmulate(&tried, b"");
    assert!(found.out.contains("bit for bit") && found.code == 0, "{}{}", found.out, found.err);
    // D that fits nothing.
    let run = gemmulate(&["identify", &a, &b, &c, "--arch", "cdna1", "--limit", "0"], b"");
    let told = run.out.find("none gives D").max(run.out.find("--rounded tries them"));
    assert!(run.code == 1 && told.is_some() && told < run.out.find("the closest:"), "{}{}", run.out, run.err);
    for (plan, said) in
        [("splitk=2", "`splitk` to be one of block, split-k"), ("cutlas3 split-k=2", "in-order, cutlass2")]
    {
        let run = gemmulate(&["gemm", UNIT, &a, &b, "--plan", plan], b"");
        assert!(run.code == 2 && run.err.contains(said), "{}", run.err);
    }
    let run = gemmulate(&["identify", &a, &b, &a], b"");
    assert!(run.code == 2 && run.err.contains("150 x 140"), "{}", run.err);
    // Of a type that none of the units gives.
    let (x, y) = (folder.floats("x2.npy", &[2, 16], |_| 1.0), folder.floats("y2.npy", &[16, 1], |_| 1.0));
    let wide = folder.npy("wide.npy", "<f8", &[2, 1], false, &[0; 16]);
    let run = gemmulate(&["identify", &x, &y, &wide, "--arch", "turing"], b"");
    assert!(run.code == 2 && run.err.contains("D holds f64, which no unit"), "{}", run.err);
}

#[test]
#[cfg(unix)]
fn output_files_are_whole_or_not_there() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[2, 16], wave), folder.floats("b.npy", &[16, 2], wave));
    let d = folder.path("d.npy");
    gemm(&[UNIT, &a, &b, "-o", &d]);
    let right = fs::read(&d).expect("written");
    let ordinary = fs::metadata(&a).expect("there").permissions().mode();
    assert_eq!(fs::metadata(&d).expect("there").permissions().mode(), ordinary);
    assert_eq!(folder.files(), 3);
    // Through a link, over an operand, into a device; an old file keeps its permissions.
    let link = folder.path("link.npy");
    symlink("d.npy", &link).expect("linked");
    fs::write(&d, "old").expect("written");
    fs::set_permissions(&d, fs::Permissions::from_mode(0o600)).expect("set");
    gemm(&[UNIT, &a, &b, "-o", &link]);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::metadata(&d).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&d).expect("written"), right);
    let long = folder.path(&format!("{}.npy", "n".repeat(250)));
    gemm(&[UNIT, &a, &b, "-o", &long]);
    fs::remove_file(&long).expect("written");
    gemm(&[UNIT, &a, &b, "-o", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").expect("there").is_file());
    let piped = command(&["gemm", UNIT, &a, &b, "-o", "/dev/stdout"]).output().expect("the tool runs");
    assert_eq!((piped.stdout, piped.status.code()), (right.clone(), Some(0)));
    // A file behind standard output goes on where it is.
    let log = folder.path("log");
    fs::write(&log, "before").expect("written");
    let append = fs::File::options().append(true).open(&log).expect("there");
    let status = command(&["gemm", UNIT, &a, &b, "-o", "/dev/stdout"]).stdout(append).status().expect("the tool runs");
    assert_eq!((fs::read(&log).expect("there"), status.code()), ([b"before", &*right].concat(), Some(0)));
    fs::remove_file(&log).expect("there");
    gemm(&[UNIT, &a, &b, "-o", &a]);
    assert_eq!(fs::read(&a).expect("written"), right);
    // What cannot be written is said before the work, and leaves nothing.
    fs::set_permissions(&d, fs::Permissions::from_mode(0o400)).expect("set");
    for (to, why) in [
        (d.as_str(), "read-only"),
        (&folder.path(""), "folder"),
        ("/no/such/d.npy", "cannot be written"),
        ("-", "/dev/stdout is standard output"),
    ] {
        for command in [
            &["gemm", UNIT, &b, &b, "-o", to][..],
            &["compare", &b, &b, "--units", UNIT, "--svg", to],
            &["probe", "volta/mma.m8n8k4.f32.f16.f16.f32", "--svg", to],
        ] {
            let run = gemmulate(command, b"");
            assert!(run.err.contains(why) && run.code == 2, "{command:?}: {}", run.err);
        }
    }
    assert_eq!((fs::read(&d).expect("there"), folder.files()), (right, 4));
    // Links are followed to the end, if they have one.
    let [first, second, end] = ["first", "second", "end.npy"].map(|name| folder.path(name));
    symlink(&second, &first).expect("a link");
    symlink("end.npy", &second).expect("a link");
    gemm(&[UNIT, &a, &a, "-o", &first]);
    assert!(fs::symlink_metadata(&second).expect("there").is_symlink() && fs::metadata(&end).is_ok());
    fs::remove_file(&second).expect("removed");
    symlink(&first, &second).expect("a link");
    let run = gemmulate(&["gemm", UNIT, &a, &a, "-o", &first], b"");
    assert!(run.err.contains("link to link") && run.code == 2, "{}", run.err);
}

/// The nearest number with 11 bits.
fn half(x: f32) -> f32 {
    if x == 0.0 {
        return x;
    }
    let scale = 2f32.powi(10 - x.abs().log2().floor() as i32);
    (x * scale).round() / scale
}

fn wave(t: usize) -> f32 {
    // 11 bits at several exponents: f16 holds them, sums do not.
    ((t * 7919 % 2003) as f32 - 1001.0) / 256.0 * 0.5f32.powi((t % 9) as i32)
}

/// NaNs that differ from those expected in nothing but their bits are said to.
#[test]
fn nans_of_other_bits_are_told_apart() {
    let folder = Folder::new();
    let a = folder.floats("a.npy", &[2, 16], |t| if t == 3 { f32::NAN } else { (t % 5) as f32 });
    let (b, d) = (folder.floats("b.npy", &[16, 3], |t| (t % 7) as f32), folder.path("d.npy"));
    gemm(&[UNIT, &a, &b, "-o", &d]);
    let bytes = elements(&d);
    let codes: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let other = |t: usize, wrong: usize| match codes[t] {
        nan if f32::from_bits(nan).is_nan() => f32::from_bits(nan & 0x7FC0_0000),
        code => f32::from_bits(code + u32::from(t == wrong)),
    };
    let check = |wrong, expected: [&str; 2]| {
        let expect = folder.floats("e.npy", &[2, 3], |t| other(t, wrong));
        let words = gemmulate(&["gemm", UNIT, &a, &b, "--expect", &expect], b"");
        assert!(words.out.starts_with(expected[0]) && words.code == 1, "{}", words.out);
        let json = gemmulate(&["gemm", UNIT, &a, &b, "--expect", &expect, "--json"], b"");
        assert!(json.out.contains(expected[1]) && json.code == 1, "{}", json.out);
    };
    check(9, ["3 of 6 elements differ, all in which NaN they are; the first:", "\"nan_codes\":3"]);
    check(4, ["4 of 6 elements differ, 3 of them in which NaN they are; the first:", "\"differ\":4"]);
}

#[test]
fn a_product_is_found_again() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[6, 96], wave), folder.floats("b.npy", &[96, 5], wave));
    let d = folder.path("d.npy");
    let plan = "cutlass3 block=128x128x32 split-k=3";
    let run = gemmulate(&["gemm", UNIT, &a, &b, "-o", &d, "--plan", plan, "--json", "--compare"], b"");
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    for part in ["\"m\":6", "\"n\":5", "\"k\":96", "\"plan\":\"cutlass3 ", "\"gmacs\":", "\"reference\":\"exact\""] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let same = gemmulate(&["gemm", UNIT, &a, &b, "--plan", plan, "--expect", &d, "--threads", "1"], b"");
    assert_eq!((same.out.as_str(), same.code), ("all 30 elements are bit-identical\n", 0));
    let other = gemmulate(&["gemm", "volta/mma.m8n8k4.f32.f16.f16.f32", &a, &b, "--expect", &d], b"");
    assert!(other.out.contains("of 30 elements differ; the first:") && other.out.contains("--trace"), "{}", other.out);
    assert_eq!(other.code, 1);
    let found = gemmulate(&["identify", &a, &b, &d, "--arch", "hopper"], b"");
    assert!(
        found.out.contains("bit for bit") && found.out.contains("hopper/wgmma.m64n8k16.f32.f16.f16"),
        "{}{}",
        found.out,
        found.err
    );
    assert_eq!(found.code, 0);
    let drawn = gemmulate(&["gemm", UNIT, &a, &b, "--plan", plan, "--trace", "2,3"], b"");
    assert_eq!(drawn.out.matches("== piece").count(), 3, "{}", drawn.out);
    assert!(drawn.out.contains("sum of pieces") && drawn.out.contains("D[2, 3] = "), "{}", drawn.out);
}

#[test]
fn patterns_orders_and_types() {
    let folder = Folder::new();
    let ones: Vec<u8> = [0x3c00u16; 32].iter().flat_map(|x| x.to_le_bytes()).collect();
    let a = folder.npy("a.npy", "<u2", &[2, 16], true, &ones);
    let b = folder.npy("b.npy", "<f2", &[16, 2], false, &ones);
    let d = folder.path("d.npy");
    for (out, size) in [("f32", 16), ("f16", 8), ("bf16", 8)] {
        let run = gemmulate(&["gemm", UNIT, &a, &b, "-o", &d, "--out", out], b"");
        assert_eq!((run.err.as_str(), run.code), ("", 0));
        let bytes = fs::read(&d).expect("written");
        let text = String::from_utf8_lossy(&bytes[..128]).into_owned();
        assert_eq!(text.contains("<u2"), out == "bf16", "{text}");
        assert_eq!(bytes.len() % 64, size);
    }
    let run = gemmulate(&["gemm", UNIT, &a, &b, "-o", &d, "--bits"], b"");
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    assert!(fs::read(&d).expect("written").ends_with(&16f32.to_bits().to_le_bytes()));
}

#[test]
fn overflowing_operands_are_told() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[2, 32], |t| 100.0 * t as f32), folder.floats("b.npy", &[32, 2], wave));
    let fp8 = "hopper/wgmma.m64n8k32.f32.e4m3.e4m3";
    let unit = fp8.replace("e4m3.e4m3", "e5m2.e4m3");
    // 464 is the first that e4m3 does not round to 448.
    let told = "59 of 64 values of A are beyond e4m3, whose largest is 448, and became NaN";
    assert!(gemm(&[fp8, &a, &b]).contains(told), "{}", gemm(&[fp8, &a, &b]));
    assert!(gemm(&[fp8, &a, &b, "--json"]).contains(told));
    for quiet in [&[fp8, &a, &b, "--overflow", "saturate"][..], &[&unit, &a, &b]] {
        let run = gemm(quiet);
        assert!(!run.contains("beyond"), "{run}");
    }
    let run = gemmulate(&["compare", &a, &b, "--units", &format!("{unit},{fp8}"), "--plans", "in-order;cutlass3"], b"");
    assert!(run.out.matches(told).count() == 1 && run.out.contains(&format!("3: {told}")), "{}{}", run.out, run.err);
}

#[test]
fn underflowing_operands_are_told() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[2, 32], |t| 1e-4 * t as f32), folder.floats("b.npy", &[32, 2], wave));
    let fp8 = "hopper/wgmma.m64n8k32.f32.e4m3.e4m3";
    // Up to half of the smallest number, 2^-10; zeros are no loss.
    let told = "9 of 64 values of A are below e4m3 in magnitude, whose smallest is 1.953125e-3, and became 0";
    assert!(gemm(&[fp8, &a, &b]).contains(told), "{}", gemm(&[fp8, &a, &b]));
    assert!(gemm(&[fp8, &a, &b, "--json"]).contains(told));
    for quiet in [&[fp8, &a, &b, "--round", "ra"][..], &[UNIT, &a, &b]] {
        let run = gemm(quiet);
        assert!(!run.contains("became"), "{run}");
    }
}

#[test]
fn rounded_operands_are_told() {
    let folder = Folder::new();
    let (a, b) =
        (folder.floats("a.npy", &[2, 32], |t| 1.0 + t as f32 / 4096.0), folder.floats("b.npy", &[32, 2], wave));
    let told = "A was rounded to f16: errors include that";
    assert!(gemm(&[UNIT, &a, &b]).contains(told), "{}", gemm(&[UNIT, &a, &b]));
    assert!(gemm(&[UNIT, &a, &b, "--json"]).contains(told));
    for quiet in [gemm(&[UNIT, &b, &a, "--transposed", "ab"]), gemm(&["cdna3/v_mfma_f32_32x32x2_f32", &a, &b])] {
        assert!(!quiet.contains("A was rounded"), "{quiet}");
    }
}

/// 0 x Inf is 0xFFF8000000000000 on an H100, and 0x7FF8000000000000 here.
#[test]
fn nans_that_no_source_specifies_are_any_nan() {
    let folder = Folder::new();
    let f64s = |name: &str, shape: &[usize], x: &[u64]| {
        folder.npy(name, "<f8", shape, false, &x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    };
    let (one, infinity) = (1f64.to_bits(), f64::INFINITY.to_bits());
    let a = f64s("a.npy", &[2, 2], &[0, one, one, one]);
    let b = f64s("b.npy", &[2, 2], &[infinity, one, one, one]);
    let d = f64s("d.npy", &[2, 2], &[0xFFF8_0000_0000_0000, one, infinity, 2f64.to_bits()]);
    let unit = "hopper/mma.m8n8k4.f64.f64.f64.f64";
    let run = gemmulate(&["gemm", unit, &a, &b, "--expect", &d], b"");
    assert_eq!((run.out.as_str(), run.code), ("all 4 elements are bit-identical, but for which NaN a NaN is\n", 0));
    let run = gemmulate(&["identify", &a, &b, &d, "--arch", "hopper"], b"");
    assert!(run.code == 0 && run.out.contains(unit), "{}{}", run.out, run.err);
    // The tensor cores' own is specified.
    let quiet = folder.npy("q.npy", "<f4", &[1, 1], false, &0x7FC0_0000u32.to_le_bytes());
    let [x, y] = [("x.npy", 0.0), ("y.npy", f32::INFINITY)].map(|(name, x)| folder.floats(name, &[1, 1], |_| x));
    assert_eq!(gemmulate(&["gemm", UNIT, &x, &y, "--expect", &quiet], b"").code, 1);
}

/// What PyTorch computed on an H100, by the plans that docs/hardware.md gives, and by no plainer one.
#[test]
fn products_of_pytorch_are_reproduced() {
    for (name, unit, plan, out) in [
        ("bf16", "wgmma.m64n8k16.f32.bf16.bf16", "cutlass3 split-k=3", "bf16"),
        (
            "tf32",
            "mma.m16n8k8.f32.tf32.tf32.f32",
            "cutlass2 block=128x128x32 split-k=4 split-align=4 split-mode=parallel",
            "f32",
        ),
        ("fp8", "wgmma.m64n8k32.f32.e4m3.e4m3", "cutlass3", "f32"),
        ("f16acc", "wgmma.m64n8k16.f16.f16.f16", "cutlass3 split-k=22 split-mode=serial", "f16"),
        ("f64", "mma.m16n8k16.f64.f64.f64.f64", "in-order block=64x64x32 split-k=8 slices=interleaved", "f64"),
        // CUDA cores: a chain of FMAs, which is the function of this unit.
        ("f32", "cdna3/v_mfma_f32_32x32x1_2b_f32", "in-order block=32x32x8 split-k=4 slices=interleaved", "f32"),
    ] {
        let [a, b, d] = ["a", "b", "d"].map(|part| format!("../tests/data/torch-h100/{name}.{part}.npy"));
        let unit = if unit.contains('/') { unit.into() } else { format!("hopper/{unit}") };
        let with = |plan| gemmulate(&["gemm", &unit, &a, &b, "--plan", plan, "--out", out, "--expect", &d], b"");
        let run = with(plan);
        assert_eq!(run.code, 0, "{name}: {}{}", run.out, run.err);
        assert_eq!(with("in-order").code, 1, "{name}");
    }
}

/// What else an H100 was seen to do (docs/hardware.md), and what would be next to it.
#[test]
fn an_h100s_scales_additions_and_roundings_are_reproduced() {
    let folder = Folder::new();
    let rows = folder.floats("rows.npy", &[4], |_| 0.37);
    let file = |name: &str, part| format!("../tests/data/torch-h100/{name}.{part}.npy");
    let c = file("addmm", "c");
    let scaled = |scale| ["--transposed", "b", "--scale-b", "1.93", "--scale-a", scale];
    let fp8 = "wgmma.m64n8k32.f32.e4m3.e4m3";
    let add = |plan| ["-c", &c, "--out", "f16", "--plan", plan];
    // torch.addmm, torch._scaled_mm, Triton's fp8 with max_num_imprecise_acc = 64, and its tf32.
    for (name, unit, seen, others) in [
        (
            "addmm",
            "wgmma.m64n8k16.f32.f16.f16",
            &add("in-order epilogue=rounded")[..],
            [&add("in-order")[..], &add("cutlass2")],
        ),
        ("scaled", fp8, &scaled("0.37"), [&scaled(&rows), &["--transposed", "b"]]),
        ("triton-fp8", fp8, &["--plan", "in-order promote=64"], [&[], &["--plan", "cutlass3"]]),
        ("triton-tf32", "wgmma.m64n8k8.f32.tf32.tf32", &["--round", "rz"], [&[], &["--round", "rna"]]),
    ] {
        let ([a, b, d], unit) = (["a", "b", "d"].map(|part| file(name, part)), format!("hopper/{unit}"));
        let with = |options: &[&str]| gemmulate(&[&["gemm", &unit, &a, &b, "--expect", &d][..], options].concat(), b"");
        let run = with(seen);
        assert_eq!(run.code, 0, "{name}: {}{}", run.out, run.err);
        for options in others {
            assert_eq!(with(options).code, 1, "{name}, {options:?}");
        }
    }
}

#[test]
fn identify_tries_the_roundings_that_kernels_use() {
    let folder = Folder::new();
    // Nobody need say how Triton rounds.
    let [a, b, d] = ["a", "b", "d"].map(|part| format!("../tests/data/torch-h100/triton-tf32.{part}.npy"));
    let ask = ["identify", &a, &b, &d, "--arch", "hopper", "--plans", "in-order", "--rounded"];
    let run = gemmulate(&ask, b"");
    assert!(run.code == 0 && run.out.contains("--round rz\n") && run.out.contains("tf32"), "{}{}", run.out, run.err);
    let run = gemmulate(&[&ask[..], &["--json"]].concat(), b"");
    assert!(run.code == 0 && run.out.contains("\"round\":\"rz\""), "{}{}", run.out, run.err);
    let run = gemmulate(&[&ask[..], &["--round", "rna"]].concat(), b"");
    assert!(run.code == 1 && run.out.contains("none gives D"), "{}{}", run.out, run.err);
    let run = gemmulate(&[&ask[..], &["--round", "rne"]].concat(), b"");
    assert!(run.code == 1 && run.out.contains("none gives D"), "{}{}", run.out, run.err);
    // What comes closest is told by any of them.
    let mut bits = fs::read(&d).expect("D");
    *bits.last_mut().expect("bytes") ^= 0x80;
    let other = folder.path("other.npy");
    fs::write(&other, bits).expect("a file");
    let run = gemmulate(&["identify", &a, &b, &other, "--arch", "hopper", "--plans", "in-order", "--rounded"], b"");
    let best = run.out.lines().nth(3).unwrap_or_default();
    assert!(run.code == 1 && best.contains("1 of 16 ") && best.trim_end().ends_with("rz"), "{}{}", run.out, run.err);
    // C of f64 is rounded like A and B, and by each rounding anew.
    let data: Vec<u8> = (0..16).flat_map(|t| (1e4 / (f64::from(t) + 0.3)).to_le_bytes()).collect();
    let (c, sum) = (folder.npy("c.npy", "<f8", &[4, 4], false, &data), folder.path("sum.npy"));
    let unit = "hopper/mma.m16n8k8.f32.tf32.tf32.f32";
    let run = gemmulate(&["gemm", unit, &a, &b, "-c", &c, "--round", "rz", "-o", &sum], b"");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let ask = ["identify", &a, &b, &sum, "-c", &c, "--arch", "hopper", "--plans", "in-order", "--rounded"];
    let run = gemmulate(&ask, b"");
    assert!(run.code == 0 && run.out.contains("--round rz\n"), "{}{}", run.out, run.err);
    // What is packed needs no rounding, and is tried once.
    let packed = |name, size: &[usize]| folder.bytes(name, size, |t| (t * 37 % 251) as u8);
    let (x, y) = (packed("fp4a.npy", &[200, 64]), packed("fp4b.npy", &[64, 200]));
    // Large enough that samples miss the element that differs.
    let (z, other) = (folder.path("product.npy"), folder.path("nearly.npy"));
    let unit = "blackwell/tcgen05.mma.m64n8k32.f32.e2m1.e2m1";
    let run = gemmulate(&["gemm", unit, &x, &y, "--packed", "-o", &z], b"");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let mut bits = fs::read(&z).expect("D");
    *bits.last_mut().expect("bytes") ^= 0x80;
    fs::write(&other, bits).expect("a file");
    let ask = ["identify", &x, &y, &other, "--arch", "blackwell", "--packed", "--limit", "0", "--json"];
    let once = gemmulate(&ask, b"");
    let each = gemmulate(&[&ask[..], &["--rounded"]].concat(), b"");
    let [first, second] = [&once, &each].map(|run| serde_json::from_str::<serde_json::Value>(&run.out).expect("JSON"));
    assert_eq!((once.code, each.code), (1, 1), "{}{}", once.err, each.err);
    assert!(first["not_computed"].as_u64() > Some(0), "{}", once.out);
    for key in ["tried", "not_computed"] {
        assert_eq!(first[key], second[key], "{key}: {}", each.out);
    }
    // Units that hold all operands answer, though the plan excludes all others, for which there would be more to try.
    let ones = |name, size: &[usize]| folder.floats(name, size, |t| 1.0 + (t % 7) as f32 / 1024.0);
    let (x, y, z) = (ones("x.npy", &[8, 8]), ones("y.npy", &[8, 8]), folder.floats("z.npy", &[8, 8], |_| 3.0));
    let run =
        gemmulate(&["identify", &x, &y, &z, "--arch", "ada", "--plans", "in-order block=8x8x4", "--rounded"], b"");
    assert!(run.code == 1 && run.out.contains("none gives D"), "{}{}", run.out, run.err);
}

#[test]
fn comparison_counts_bits_of_nan() {
    let folder = Folder::new();
    let a = folder.floats("a.npy", &[2, 16], |t| if t == 3 { f32::NAN } else { 1.0 });
    let units = format!("{UNIT},cdna3/v_mfma_f32_32x32x8_f16");
    let b = folder.floats("b.npy", &[16, 3], |_| 1.0);
    let run = gemmulate(&["compare", &a, &b, "--units", &units, "--json"], b"");
    assert!(run.out.contains("\"differs\":[0,3]"), "{}{}", run.out, run.err);
}

#[test]
fn bit_patterns_of_c_are_of_the_type_of_d() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[5, 33], wave), folder.floats("b.npy", &[33, 7], wave));
    let (c, d, twice) = (folder.path("c.npy"), folder.path("d.npy"), folder.path("twice.npy"));
    for out in ["bf16", "f16", "f32"] {
        gemm(&[UNIT, &a, &b, "-o", &c, "--out", out, "--bits"]);
        // 0 A B + C is C.
        gemm(&[UNIT, &a, &b, "-c", &c, "--alpha", "0", "-o", &d, "--out", out, "--bits"]);
        assert_eq!(fs::read(&c).expect("written"), fs::read(&d).expect("written"), "{out}");
        gemm(&[UNIT, &a, &b, "-c", &c, "-o", &twice, "--out", out, "--bits", "--compare"]);
        assert_ne!(fs::read(&c).expect("written"), fs::read(&twice).expect("written"), "{out}");
    }
}

#[test]
fn batches_of_nothing_are_soon_done() {
    let folder = Folder::new();
    let b = folder.floats("b.npy", &[3, 5], wave);
    let many = folder.npy("many.npy", "<f4", &[1_000_000_000_000, 0, 3], false, &[]);
    let d = folder.path("d.npy");
    gemm(&[UNIT, &many, &b, "-o", &d, "--compare"]);
    assert!(fs::read(&d).expect("written").len() <= 128);
    let run = gemmulate(&["identify", &many, &b, &d], b"");
    assert!(run.err.contains("np.save") && run.code == 2, "{}", run.err);
    // Operands with values that may have no code in the unit's formats, but there are none.
    let nothing = folder.npy("nothing.npy", "<f4", &[0, 0], false, &[]);
    let wide = folder.npy("wide.npy", "<f4", &[0, (1 << 60) - 1], false, &[]);
    gemm(&["rtx-blackwell/mma.m16n8k32.f32.e4m3.e2m1.f32", &nothing, &wide, "-o", &d]);
    let high = folder.npy("high.npy", "<f4", &[(1 << 60) - 1, 0], false, &[]);
    gemm(&["rtx-blackwell/mma.m16n8k32.f32.e2m1.e4m3.f32", &high, &nothing, "-o", &d]);
}

/// What differs is known, whether or not anybody reads of it.
#[test]
#[cfg(unix)]
fn differences_count_though_nobody_reads() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[2, 16], wave), folder.floats("b.npy", &[16, 2], wave));
    for (d, code) in [(folder.floats("d.npy", &[2, 2], |_| 1e9), 1), (folder.path("right.npy"), 0)] {
        if code == 0 {
            gemm(&[UNIT, &a, &b, "-o", &d]);
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = command(&["gemm", UNIT, &a, &b, "--expect", &d]).stdout(writer).status().expect("the tool runs");
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn comparison_tells_units_apart() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", &[4, 64], wave), folder.floats("b.npy", &[64, 4], wave));
    let svg = folder.path("e.svg");
    let units = format!("{UNIT},cdna2/v_mfma_f32_32x32x8bf16_1k");
    let run = gemmulate(
        &["compare", &a, &b, "--units", &units, "--plans", "in-order;cutlass3 split-k=1", "--svg", &svg],
        b"",
    );
    assert_eq!((run.err.as_str(), run.code), ("", 0));
    assert!(run.out.contains("against the exact product") && run.out.lines().count() >= 6, "{}", run.out);
    assert!(fs::read_to_string(svg).expect("a picture").starts_with("<svg"));
}

#[test]
fn bad_input_is_an_error_and_leaves_no_file() {
    let folder = Folder::new();
    let a = folder.floats("a.npy", &[2, 16], wave);
    let b = folder.floats("b.npy", &[16, 2], wave);
    let cut = folder.npy("cut.npy", "<f4", &[2, 16], false, &[0; 100]);
    let huge = folder.npy("huge.npy", "<f4", &[1 << 40, 1 << 40], false, &[0; 100]);
    let deep = folder.npy("deep.npy", "<f4", &[1, 2, 3, 4], false, &[0; 96]);
    let number = folder.npy("number.npy", "<f4", &[], false, &[0; 4]);
    let signed = folder.npy("signed.npy", "<i4", &[2, 16], false, &[0; 128]);
    let wide = folder.npy("wide.npy", "<u4", &[2, 16], false, &[0; 128]);
    let nested = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let nested = folder.npy("nested.npy", &nested, &[2, 16], false, &[0; 128]);
    let braces = format!("{}1{}", "{1:".repeat(40), "}".repeat(40));
    let braces = folder.npy("braces.npy", &braces, &[2, 16], false, &[0; 128]);
    let endless = folder.npy("endless.npy", "<f4", &[0, 1 << 62], false, &[]);
    let junk = folder.path("junk.npy");
    fs::write(&junk, "junk").expect("written");
    let header = folder.path("header.npy");
    fs::write(&header, &fs::read(&a).expect("read")[..20]).expect("written");
    let d = folder.path("d.npy");
    let fp4 = "rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32";
    let mx = "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0";
    let cases: [(&[&str], &str); 19] = [
        (&[UNIT, &header, &b], "whose header is cut short"),
        (&[UNIT, &b, &b], "B must be"),
        (&[UNIT, &deep, &b], "has 4"),
        (&[UNIT, &number, &b], "single number"),
        (&[UNIT, "/dev/null", &b], "no regular file"),
        (&[UNIT, &cut, &b], "cut short"),
        (&[UNIT, &huge, &b], "larger than any memory"),
        (&[UNIT, &signed, &b], "unsigned integers"),
        (&[UNIT, &wide, &b], "32 bits per element"),
        (&[UNIT, &junk, &b], "no .npy file"),
        (&[UNIT, &nested, &b], "structures"),
        (&[UNIT, &braces, &b], "structures"),
        (&[UNIT, &endless, &b], "larger than any memory"),
        (&[UNIT, "absent.npy", &b], "absent.npy"),
        (&[fp4, &a, &b, "--alpha", "1e300"], "beyond f32"),
        (&[UNIT, &a, &b, "--plan", "cutlass3 split-k=9"], "empty"),
        (&[mx, &a, &b, "--scale-a", "1"], "is a file"),
        (&[mx, &a, &b, "--scale-a", &a, "--scale-b", &b], "scale_a must be 2 x 1"),
        (&[UNIT, &a, &b, "--trace", "0,0"], "cannot be used with"),
    ];
    for (args, why) in cases {
        let run = gemmulate(&[&["gemm"], args, &["-o", &d]].concat(), b"");
        assert!(run.err.contains(why), "{args:?}: {}", run.err);
        assert_eq!((run.code, Path::new(&d).exists()), (2, false), "{args:?}");
    }
    let run = gemmulate(&["gemm", UNIT, &a, &b, "--trace", "9,9"], b"");
    assert!(run.err.contains("within 2 x 2") && run.code == 2, "{}", run.err);
    let nowhere: PathBuf = Path::new(&folder.path("no-such-folder")).join("d.npy");
    let run = gemmulate(&["gemm", UNIT, &a, &b, "-o", &nowhere.display().to_string()], b"");
    assert_eq!(run.code, 2);
}
