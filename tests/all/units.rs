//! Every unit against the shared vectors, the literal facts and an independent oracle.

use crate::oracle::{facts, kinds, names};
use gemmulate::Unit;
use std::fs;
use std::path::Path;

fn codes(column: &str) -> Vec<u64> {
    column.split(',').map(|x| u64::from_str_radix(x, 16).unwrap()).collect()
}

/// Checks one line of a vector file; `nan` stands for any NaN.
fn check_line(unit: &Unit, line: &str) {
    let columns: Vec<&str> = line.split('\t').collect();
    let (scales, want) = match columns.as_slice() {
        [_, _, _, d] => ((vec![], vec![]), d),
        [_, _, _, sa, sb, d] => ((codes(sa), codes(sb)), d),
        _ => panic!("{unit}: {line}"),
    };
    let c = codes(columns[2])[0];
    let got = unit.dot_add_scaled_bits(&codes(columns[0]), &codes(columns[1]), c, &scales.0, &scales.1).unwrap();
    if *want == "nan" {
        assert!(unit.d.decode(got).is_nan(), "{unit}: {line}: got {got:x}");
    } else {
        assert_eq!(format!("{got:x}"), *want, "{unit}: {line}");
    }
}

#[test]
fn shared_vectors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors");
    let mut files = 0;
    for unit in Unit::all() {
        let text = fs::read_to_string(root.join(format!("{}.tsv", unit.name))).expect(&unit.name);
        assert!(text.lines().count() >= 10, "{unit}");
        text.lines().for_each(|line| check_line(&unit, line));
        files += 1;
    }
    assert_eq!(files, 371);
}

#[test]
fn the_catalogue_is_the_specifications() {
    let mut ours: Vec<String> = Unit::all().map(|u| u.name.clone()).collect();
    let mut theirs = names::all_units();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    for unit in Unit::all() {
        let desc = names::describe(&unit.name).unwrap();
        assert_eq!((unit.shape.k, unit.a.name, unit.b.name), (desc.k, desc.a, desc.b), "{unit}");
        assert_eq!((unit.c.name, unit.d.name, unit.scales()), (desc.c, desc.d, desc.scales), "{unit}");
    }
}

#[test]
fn facts_of_section_7() {
    let facts = facts::facts();
    assert!(facts.len() > 250);
    for fact in facts {
        let unit = Unit::find(fact.unit).unwrap();
        let got = unit.dot_add_scaled_bits(&fact.a, &fact.b, fact.c, &fact.scale_a, &fact.scale_b).unwrap();
        assert_eq!(got, fact.d, "{}: {} {:x?} {:x?} {:x}", fact.unit, fact.source, fact.a, fact.b, fact.c);
    }
}

#[test]
fn fresh_vectors_agree_with_the_oracle() {
    let count = std::env::var("GEMMULATE_FRESH").map_or(60, |n| n.parse().unwrap());
    for unit in Unit::all() {
        for line in kinds::fresh(&unit.name, 7, count) {
            let got = unit.dot_add_scaled_bits(&line.a, &line.b, line.c, &line.scale_a, &line.scale_b).unwrap();
            assert_eq!(got, line.d, "{unit}: {line:x?}");
        }
    }
}
