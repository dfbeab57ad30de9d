//! `silicon` with the library standing in for a device, honest and otherwise.

use std::path::PathBuf;
use std::process::{Command, Output};

const SILICON: &str = env!("CARGO_BIN_EXE_silicon");

fn compare(unit: &str, device: &[&str], keep: Option<&PathBuf>) -> Output {
    let mut command = Command::new(SILICON);
    command.args(["compare", unit, "--count", "3000", "--seed", "5"]);
    if let Some(path) = keep {
        command.arg("--keep").arg(path);
    }
    command.arg("--").args(device).output().expect("silicon runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_device_that_is_the_unit_agrees() {
    for unit in [
        "hopper/wgmma.m64n8k16.f32.f16.f16",
        "ampere/mma.m8n8k4.f64.f64.f64.f64",
        "volta/mma.m8n8k4.f32.f16.f16.f16",
        "cdna3/v_mfma_f32_32x32x16_bf8_bf8",
        "hopper/mma.m16n8k16.f16.e5m2.e4m3.f16",
        "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    ] {
        let output = compare(unit, &[SILICON, "serve", unit], None);
        assert!(output.status.success(), "{unit}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text(&output).starts_with("3000\t0\n"), "{unit}: {}", text(&output));
    }
}

#[test]
fn a_device_of_another_reading_is_noticed_and_named() {
    let unit = "hopper/mma.m16n8k16.f32.bf16.bf16.f32";
    let other = format!("{unit}/dot:block=16:F=25:nan=quiet");
    let keep = std::env::temp_dir().join(format!("silicon-{}.tsv", std::process::id()));
    let output = compare(unit, &[SILICON, "serve", &other], Some(&keep));
    let kept = std::fs::read_to_string(&keep).expect("a sample");
    std::fs::remove_file(&keep).expect("removed");
    assert_eq!(output.status.code(), Some(1));
    let verdict = text(&output);
    let line = verdict.lines().find(|l| l.starts_with("D6 NaN")).expect("a verdict on D6");
    assert!(line.contains("default 0\t") && !line.contains("other 0\t") && line.ends_with("neither 0"), "{line}");
    assert!(kept.lines().any(|l| l.ends_with("\t7fc00000")), "the device's own answers are kept");
    assert!(kept.len() <= 20_000);
}

#[test]
fn broken_devices_are_errors() {
    let unit = "volta/mma.m8n8k4.f32.f16.f16.f32";
    for device in [["true"].as_slice(), &["head", "-c", "100"], &["/nowhere/program"], &[SILICON, "serve", "nonsense"]]
    {
        let output = compare(unit, device, None);
        assert_eq!(output.status.code(), Some(2), "{device:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("silicon: "), "{device:?}");
    }
}
