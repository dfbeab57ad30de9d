//! Prints what probing finds, for the units named.
#![allow(clippy::unwrap_used, missing_docs, reason = "a demonstration")]
use gemmulate::Unit;
use gemmulate::probe::features;

fn main() {
    for name in std::env::args().skip(1) {
        let mut unit = Unit::find(&name).unwrap();
        println!("== {unit}");
        for f in features(&mut unit).unwrap().all {
            println!("{:24} {:.110}   [{}]", f.name, f.value.to_string(), f.evidence.len());
        }
    }
}
