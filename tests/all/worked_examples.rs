//! The examples of `docs/numerics.md`, as computed with exact rational arithmetic by a separate program; of section 8,
//! from `c rounded to D first` on, by hand, or as decided there.

use gemmulate::Unit;

fn codes(column: &str) -> Vec<u64> {
    column.split(',').filter(|x| !x.is_empty()).map(|x| u64::from_str_radix(x, 16).unwrap()).collect()
}

#[test]
fn the_examples_of_the_numerics_page_hold() {
    let text = include_str!("../data/worked-examples.tsv");
    let rows: Vec<Vec<&str>> = text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split('\t').collect()).collect();
    assert!(rows.len() > 90);
    for row in rows {
        let [section, name, unit, a, b, c, scale_a, scale_b, d] = row[..] else { panic!("{row:?}") };
        let unit = Unit::find(unit).unwrap();
        let [mut a, mut b] = [codes(a), codes(b)];
        a.resize(unit.shape.k, 0);
        b.resize(unit.shape.k, 0);
        let got = unit.dot_add_scaled_bits(&a, &b, codes(c)[0], &codes(scale_a), &codes(scale_b)).unwrap();
        assert_eq!(format!("{got:x}"), d, "section {section}, {name}, on {unit}");
    }
}
