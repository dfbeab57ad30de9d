//! What `lab/capture/run` recorded on real GPUs (docs/hardware.md): a folder of `tests/data` for each, in it
//! ARCH/INSTRUCTION.tsv.

use crate::kernels::on_the_diagonal;
use gemmulate::Unit;
use gemmulate::unit::Evidence;
use gemmulate::vectors::{Expected, Vector};
use std::fs;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The folders that a GPU's run left, by their summary.
fn folders() -> Vec<PathBuf> {
    let all = fs::read_dir(data()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.join("summary.tsv").is_file()).collect()
}

/// The instruction of a file, its unit, and its vectors with the GPU's d.
fn read(path: &Path) -> (Unit, Vec<Vector>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let unit = Unit::find(lines.next().unwrap().strip_prefix("# ").unwrap()).unwrap();
    for (line, key) in lines.by_ref().zip(["gpu", "driver", "compiler", "date", "seed"]) {
        assert!(line.starts_with(&format!("# {key}: ")) && !line.contains("stand-in"), "{unit}: {line}");
    }
    let vector = |line: &str| {
        let mut vector = Vector::default();
        assert_eq!(vector.read_line(&unit, line.as_bytes()), Ok(true), "{unit}: {line}");
        vector
    };
    let vectors = lines.map(vector).collect();
    (unit, vectors)
}

/// Names, and the numbers of targeted vectors, differences, random vectors, differences.
fn summary(folder: &Path) -> Vec<(String, [u64; 4])> {
    let text = fs::read_to_string(folder.join("summary.tsv")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let name = columns.next().unwrap().to_string();
        (name, [(); 4].map(|()| columns.next().unwrap().parse().unwrap()))
    };
    rows.map(row).collect()
}

/// Every file of every GPU: of `wgmma` n = 8 stands for other columns.
fn recordings() -> impl Iterator<Item = (Unit, Vec<Vector>)> {
    let inside = |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    folders().into_iter().flat_map(inside).filter(|path| path.is_dir()).flat_map(inside).map(|file| read(&file))
}

fn theirs(v: &Vector) -> u64 {
    let Some(Expected::Bits(d)) = v.d else { panic!("{v}: no bits") };
    d
}

/// Any NaN of f64 stands for any other: this library returns one, whatever the GPU does (the last test here).
fn agrees(unit: &Unit, ours: u64, theirs: u64) -> bool {
    Expected::Bits(theirs).accepts(ours, unit)
}

#[test]
fn recorded_vectors() {
    let mut total = 0;
    for (unit, recorded) in recordings() {
        assert!(recorded.len() >= 80, "{unit}");
        for v in &recorded {
            let ours = v.eval(&unit).unwrap();
            assert!(agrees(&unit, ours, theirs(v)), "{unit}: {v}: {ours:x}");
        }
        total += recorded.len();
    }
    assert!(total > 17_000, "{total}");
}

/// The same in products, by every set's kernel.
#[test]
fn recorded_vectors_in_every_kernel() {
    for (unit, recorded) in recordings() {
        for vectors in recorded.chunks(24) {
            for (isa, found) in on_the_diagonal(&unit, vectors) {
                for (v, ours) in vectors.iter().zip(found) {
                    assert!(agrees(&unit, ours, theirs(v)), "{unit} on {isa}: {v}: {ours:x}");
                }
            }
        }
    }
}

/// What was run says so in the catalogue, and of an architecture that was run nothing was left out.
#[test]
fn evidence_of_recorded_units() {
    for (folder, arch) in [("h100-80gb-hbm3", "hopper")] {
        let summary = summary(&data().join(folder));
        for (name, [targeted, targeted_differ, random, random_differ]) in &summary {
            assert_eq!((targeted_differ, random_differ), (&0, &0), "{name}");
            assert!(*targeted >= 80 && *random >= 1_000_000, "{name}");
            // `.rz`, `.rm` and `.rp` are parameters of a unit of the catalogue.
            if let Some(unit) = Unit::all().find(|u| u.name == format!("{arch}/{name}")) {
                assert_eq!(unit.evidence, Evidence::HardwareVectors, "{name}");
            }
        }
        for unit in Unit::all().filter(|u| u.arch == arch) {
            assert!(summary.iter().any(|(name, _)| unit.name.ends_with(&format!("/{name}"))), "{unit}");
        }
    }
    assert_eq!(folders().len(), 1, "a folder without a line above");
}

/// Which NaN an H100 gives in f64: after every step the first of b, c and a that is one, made quiet; 0xFFF8000000000000
/// where none is. The library returns one NaN for all of them, as of every unit whose NaN bits no document specifies.
#[test]
fn nans_of_f64_are_those_of_b_then_c_then_a() {
    let (mut seen, mut several) = (0, 0);
    for (unit, recorded) in recordings().filter(|(unit, _)| unit.d.name == "f64") {
        for v in recorded.iter().filter(|v| f64::from_bits(theirs(v)).is_nan()) {
            let number = |code: u64| f64::from_bits(code);
            let step = |acc: u64, (&a, &b): (&u64, &u64)| {
                let nan = [b, acc, a].into_iter().find(|&code| number(code).is_nan());
                let d = number(a).mul_add(number(b), number(acc));
                let made = if d.is_nan() { 0xFFF8_0000_0000_0000 } else { d.to_bits() };
                nan.map_or(made, |code| code | 1 << 51)
            };
            let d = v.input.a.iter().zip(&v.input.b).fold(v.input.c, step);
            assert_eq!(d, theirs(v), "{unit}: {v}");
            let nans = v.input.a.iter().chain(&v.input.b).chain([&v.input.c]).filter(|&&code| number(code).is_nan());
            (seen, several) = (seen + 1, several + usize::from(nans.count() > 1));
        }
    }
    assert!(seen >= 378 && several >= 58, "{seen} {several}");
}
