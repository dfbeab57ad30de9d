//! `gemm`, `compare` and `identify`: what they print, write and refuse.

mod run;

use run::gemmulate;
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

    fn npy(&self, name: &str, descr: &str, shape: [usize; 2], fortran: bool, data: &[u8]) -> String {
        let order = if fortran { "True" } else { "False" };
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({}, {}), }}", shape[0], shape[1]);
        let padded = format!("{header:width$}\n", width = (header.len() + 11).next_multiple_of(64) - 11);
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((padded.len() as u16).to_le_bytes());
        bytes.extend(padded.as_bytes());
        bytes.extend(data);
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    fn floats(&self, name: &str, shape: [usize; 2], f: impl Fn(usize) -> f32) -> String {
        let data: Vec<u8> = (0..shape[0] * shape[1]).flat_map(|t| f(t).to_le_bytes()).collect();
        self.npy(name, "<f4", shape, false, &data)
    }
}

fn wave(t: usize) -> f32 {
    // 11 bits at several exponents: f16 holds them, sums do not.
    ((t * 7919 % 2003) as f32 - 1001.0) / 256.0 * 0.5f32.powi((t % 9) as i32)
}

#[test]
fn a_product_is_found_again() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", [6, 96], wave), folder.floats("b.npy", [96, 5], wave));
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
    assert!(found.out.contains("bit for bit"), "{}{}", found.out, found.err);
    assert_eq!(found.code, 0);
    let drawn = gemmulate(&["gemm", UNIT, &a, &b, "--plan", plan, "--trace", "2,3"], b"");
    assert_eq!(drawn.out.matches("== piece").count(), 3, "{}", drawn.out);
    assert!(drawn.out.contains("sum of pieces") && drawn.out.contains("D[2, 3] = "), "{}", drawn.out);
}

#[test]
fn patterns_orders_and_types() {
    let folder = Folder::new();
    let ones: Vec<u8> = [0x3c00u16; 32].iter().flat_map(|x| x.to_le_bytes()).collect();
    let a = folder.npy("a.npy", "<u2", [2, 16], true, &ones);
    let b = folder.npy("b.npy", "<f2", [16, 2], false, &ones);
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
fn comparison_tells_units_apart() {
    let folder = Folder::new();
    let (a, b) = (folder.floats("a.npy", [4, 64], wave), folder.floats("b.npy", [64, 4], wave));
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
    let a = folder.floats("a.npy", [2, 16], wave);
    let b = folder.floats("b.npy", [16, 2], wave);
    let cut = folder.npy("cut.npy", "<f4", [2, 16], false, &[0; 100]);
    let huge = folder.npy("huge.npy", "<f4", [1 << 40, 1 << 40], false, &[0; 100]);
    let signed = folder.npy("signed.npy", "<i4", [2, 16], false, &[0; 128]);
    let wide = folder.npy("wide.npy", "<u4", [2, 16], false, &[0; 128]);
    let junk = folder.path("junk.npy");
    fs::write(&junk, "junk").expect("written");
    let d = folder.path("d.npy");
    let fp4 = "rtx-blackwell/mma.m16n8k32.f32.e2m1.e2m1.f32";
    let mx = "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0";
    let cases: [(&[&str], &str); 12] = [
        (&[UNIT, &b, &b], "B must be"),
        (&[UNIT, &cut, &b], "cut short"),
        (&[UNIT, &huge, &b], "cut short"),
        (&[UNIT, &signed, &b], "unsigned integers"),
        (&[UNIT, &wide, &b], "32 bits per element"),
        (&[UNIT, &junk, &b], "no .npy file"),
        (&[UNIT, "absent.npy", &b], "absent.npy"),
        (&[fp4, &a, &b, "--alpha", "1e300"], "beyond f32"),
        (&[UNIT, &a, &b, "--plan", "cutlass3 split-k=9"], "empty"),
        (&[mx, &a, &b], "--scale-a"),
        (&[mx, &a, &b, "--scale-a", &a, "--scale-b", &b], "scale_a must be 2 x 1"),
        (&[UNIT, &a, &b, "--trace", "9,9"], "within 2 x 2"),
    ];
    for (args, why) in cases {
        let run = gemmulate(&[&["gemm"], args, &["-o", &d]].concat(), b"");
        assert!(run.err.contains(why), "{args:?}: {}", run.err);
        assert_eq!((run.code, Path::new(&d).exists()), (2, false), "{args:?}");
    }
    let nowhere: PathBuf = Path::new(&folder.path("no-such-folder")).join("d.npy");
    let run = gemmulate(&["gemm", UNIT, &a, &b, "-o", &nowhere.display().to_string()], b"");
    assert_eq!(run.code, 2);
}
