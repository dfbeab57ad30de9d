//! Whole register tiles: many row groups by all columns, where each group's step runs into the next one's, and groups
//! of one kind of data stand beside groups of another.

use crate::custom::variable;
use crate::kernels_edges::FDA;
use crate::problem::{Problem, isas};
use crate::rng::Rng;
use gemmulate::format::FormatSpec;
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::vectors::{Generator, KINDS, Kind, Vector};

/// The number times a power of two, where that is a normal number; what is none stays.
fn scaled(spec: &FormatSpec, code: u64, by: i64) -> u64 {
    let (one, last) = (1 << (spec.fraction_bits + spec.ignored_low_bits), (1 << spec.exponent_bits) - 1);
    let field = ((code / one) & last) as i64;
    let to = field + by;
    if field == 0 || field == last as i64 || !(1..last as i64).contains(&to) {
        code
    } else {
        code - field as u64 * one + to as u64 * one
    }
}

/// Lines of one kind for each 8 rows and step, now and then a line of another; columns mostly of one kind. Rows of
/// some groups are smaller by so much that they are below the window of exponents that kernels keep.
fn problem(unit: &Unit, [m, n, steps]: [usize; 3], rng: &mut Rng) -> Problem {
    let mut of = KINDS.iter().map(|&kind| (kind, Generator::new(unit, rng.next()).kinds(&[kind]))).collect::<Vec<_>>();
    let mut line = |kind: Kind| -> Vector {
        let (_, lines) = of.iter_mut().find(|of| of.0 == kind).unwrap();
        lines.next().unwrap()
    };
    let (k, calm) = (unit.shape.k, rng.one_in(3));
    let most = rng.pick(&[Kind::NearOne, Kind::WideExponents]);
    let kind = |odd: u64, rng: &mut Rng| if !calm && rng.one_in(odd) { rng.pick(KINDS) } else { most };
    // Where there are so many exponents.
    let low = if unit.a.exponent_bits < 8 { 0 } else { rng.pick(&[0, -18, -34]) };
    let mut p = Problem {
        unit: unit.clone(),
        size: [m, n, k * steps],
        a: Vec::new(),
        b: vec![0; k * steps * n],
        c: Vec::new(),
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    };
    let mut columns = Vec::new();
    for j in 0..n {
        for s in 0..steps {
            let v = line(kind(60, rng));
            (0..k).for_each(|i| p.b[(s * k + i) * n + j] = v.input.b[i]);
            p.scale_b.extend(v.input.scale_b);
            columns.push(v.input.c);
        }
    }
    let mut of_group = Vec::new();
    for i in 0..m {
        if i % 8 == 0 {
            let by = rng.pick(&[0, low]);
            of_group = (0..steps).map(|_| (kind(4, rng), if rng.one_in(4) { 0 } else { by })).collect();
        }
        let mut states = Vec::new();
        for &(of_group, by) in &of_group {
            let v = line(if rng.one_in(12) { kind(1, rng) } else { of_group });
            let by = if rng.one_in(12) { 0 } else { by };
            p.a.extend(v.input.a.into_iter().map(|code| scaled(&unit.a, code, by)));
            p.scale_a.extend(v.input.scale_a);
            states.push(scaled(&unit.c, v.input.c, by));
        }
        // A row's states are as large as its products, or zero, or as a column's.
        let (zeros, others) = (rng.below(3), 4 * rng.below(5));
        let state = |j: usize, rng: &mut Rng| match () {
            () if zeros == 0 || rng.one_in(8) => 0,
            () if rng.one_in(others) => columns[j * steps],
            () => states[0],
        };
        p.c.extend((0..n).map(|j| state(j, rng)));
    }
    p
}

#[test]
fn row_groups_beside_others_are_the_references() {
    let others = [
        "rtx-blackwell/mma.m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0",
        "rtx-blackwell/mma.m16n8k32.block32.f32.e5m2.e2m1.f32.ue8m0",
        "cdna3/v_mfma_f32_32x32x8_f16",
        "cdna3/v_mfma_f32_32x32x8_bf16",
        "cdna3/v_mfma_f32_16x16x8_xf32",
        "cdna3/v_mfma_f32_16x16x32_fp8_fp8",
        "cdna3/v_mfma_f32_16x16x32_bf8_bf8",
        "custom/m8n8k24.f32.bf16.bf16.f32/round-down-grouped:G=12",
        "custom/m8n8k10.f32.bf16.bf16.f32/round-down:G=5",
    ];
    for name in FDA.into_iter().chain(others) {
        let (unit, mut rng) = (Unit::find(name).unwrap(), Rng(name.len() as u64));
        for _ in 0..20 {
            let steps = if unit.c == unit.d { rng.pick(&[1, 2, 5, 9, 14]) } else { 1 };
            let size = [9 + rng.below(64), rng.pick(&[49, 57, 64, 64, 64, 100]), steps];
            problem(&unit, size, &mut rng).check(&isas());
        }
    }
}

/// A problem of numbers near one, some steps deep: runs of steps that are whole or not.
fn near_one(unit: &Unit, size: [usize; 2], rng: &mut Rng) -> Problem {
    let steps = rng.pick(&[5, 5, 8, 9, 14, 45]);
    Problem::new(unit, &[Kind::NearOne], rng.next(), [size[0], size[1], steps])
}

/// States of f16 become infinite in this step or that, in any piece, beside others that stay finite.
#[test]
fn states_that_overflow_leave_their_neighbours_alone() {
    for name in [
        "ampere/mma.m16n8k16.f16.f16.f16.f16",
        "hopper/mma.m16n8k16.f16.f16.f16.f16",
        "volta/mma.m8n8k4.f16.f16.f16.f16",
        "rtx-blackwell/mma.m16n8k32.f16.e5m2.e5m2.f16",
    ] {
        let (unit, mut rng) = (Unit::find(name).unwrap(), Rng(7));
        for _ in 0..60 {
            let size = [rng.pick(&[8, 16, 40]), rng.pick(&[16, 40, 64])];
            let mut p = near_one(&unit, size, &mut rng);
            let of = rng.pick(&[40, 400]);
            for c in &mut p.c {
                if rng.one_in(of) {
                    // From the largest down by 8 of its last places.
                    *c = rng.pick(&[0, 0x8000]) | (0x7BFF - rng.below(8u64));
                }
            }
            p.check(&isas());
        }
    }
}

/// One state that overflows in the last step of a run of four, or in any other, in the last rows of a tile or before.
#[test]
fn a_state_overflows_where_a_run_of_steps_ends() {
    for (name, l) in [("hopper/mma.m16n8k16.f16.f16.f16.f16", 16), ("ampere/mma.m16n8k8.f16.f16.f16.f16", 8)] {
        let unit = Unit::find(name).unwrap();
        for (row, steps) in [3, 7].into_iter().flat_map(|row| [5, 9].map(|steps| (row, steps))) {
            for (at, n) in (1..=steps).flat_map(|at| [(at, 16), (at, 64)]) {
                let [m, k] = [8, steps * l];
                let f16 = |x: usize| u64::from(f16::from_f64(x as f64).to_bits());
                let (mut a, mut c) = (vec![0; m * k], vec![0; m * n]);
                // A last place of the largest number in each step.
                a[row * k..][..k].fill(f16(32 / l));
                c[row * n + n - 11] = f16(65536 - 32 * at);
                let none = Vec::new;
                let problem = Problem {
                    unit: unit.clone(),
                    size: [m, n, k],
                    a,
                    b: vec![f16(1); k * n],
                    c,
                    scale_a: none(),
                    scale_b: none(),
                };
                problem.check(&isas());
            }
        }
    }
}

/// A product of bf16 whose numbers are what `number` says of A (0), row, step and place in it, or of B (1), column,
/// step and place; c are small integers.
fn of_numbers(unit: &Unit, [m, n, steps]: [usize; 3], number: impl Fn([usize; 4]) -> f32) -> Problem {
    let (k, code) = (steps * unit.shape.k, |x: f32| u64::from(bf16::from_f32(x).to_bits()));
    let at = |of: usize, line: usize, p: usize| code(number([of, line, p / unit.shape.k, p % unit.shape.k]));
    Problem {
        unit: unit.clone(),
        size: [m, n, k],
        a: (0..m * k).map(|t| at(0, t / k, t % k)).collect(),
        b: (0..k * n).map(|t| at(1, t % n, t / n)).collect(),
        c: (0..m * n).map(|t| u64::from(((t % 7) as f32 - 3.0).to_bits())).collect(),
        scale_a: Vec::new(),
        scale_b: Vec::new(),
    }
}

/// In one step one sum leaves 31 bits.
#[test]
fn a_sum_beyond_31_bits_leaves_its_neighbours_alone() {
    let unit = Unit::find("custom/m16n8k32.f32.bf16.bf16.f32/dot:block=32:F=25").unwrap();
    for row in [0, 3, 6, 15] {
        for column in [0, 5, 18, 40, 63] {
            for step in 0..3 {
                // 32 products of nearly 4 are nearly 2^32 units of 2^-25; the others' sums are below 10.
                let p = of_numbers(&unit, [16, 64, 3], |[of, line, s, at]| match at {
                    _ if [row, column][of] == line && s == step => 2.0 - 1.0 / 128.0,
                    0 => 1.0,
                    _ => 0.125,
                });
                p.check(&isas());
            }
        }
    }
}

/// In one step all products of a row are below the window of exponents; the row group is alone, or not.
#[test]
fn a_row_below_the_window_leaves_the_others_alone() {
    for l in [8, 16, 32] {
        let unit = Unit::find(&format!("custom/m8n8k{l}.f32.bf16.bf16.f32/dot:block={l}:F=25")).unwrap();
        for (m, step) in [8, 24].into_iter().flat_map(|m| (0..4).map(move |step| (m, step))) {
            for row in [1, m - 1] {
                let p = of_numbers(&unit, [m, 64, 4], |[of, line, s, _]| match of {
                    0 if line == row && s == step => 1.25 * 2.0_f32.powi(-45),
                    _ => 1.0 + (line * 5 + s) as f32 % 16.0 / 16.0,
                });
                p.check(&isas());
            }
        }
    }
}

/// Pieces in which nothing can change any more, among ones that do change.
#[test]
fn pieces_without_a_finite_state_are_left_alone() {
    for name in ["hopper/mma.m16n8k16.f32.bf16.bf16.f32", "ampere/mma.m16n8k16.f16.f16.f16.f16"] {
        let (unit, mut rng) = (Unit::find(name).unwrap(), Rng(8));
        let infinity = unit.c.infinity_code(false).unwrap();
        for _ in 0..60 {
            let [m, n] = [rng.pick(&[4, 8, 16, 20]), rng.pick(&[16, 16, 32, 64])];
            let mut p = near_one(&unit, [m, n], &mut rng);
            // Of the pieces, 4 rows each.
            p.c.chunks_mut(4 * n).filter(|_| rng.one_in(2)).for_each(|c| c.fill(infinity));
            p.check(&isas());
        }
    }
}

/// A fused dot-add that truncates: any length of step, formats, floor and result that kernels of such units take, and
/// some that they leave to others.
fn fused(rng: &mut Rng) -> Unit {
    let block = rng.pick(&[1, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 16, 20, 24, 31, 32, 32]);
    let k = block * rng.pick(&[1, 1, 1, 2, 3]);
    let frac_bits = rng.pick(&[8, 9, 13, 14, 20, 21, 22, 23, 24, 24, 25, 25, 25, 26, 30, 35, 36, 40]);
    let operands = rng.pick(&[
        "f16.f16",
        "bf16.bf16",
        "tf32.tf32",
        "e4m3.e4m3",
        "e5m2.e5m2",
        "e5m2.e4m3",
        "f16.bf16",
        "tf32.bf16",
    ]);
    let (d, out) = rng.pick(&[
        ("f32", ""),
        ("f32", ""),
        ("f32", ":out=rne"),
        ("f32", ":out-bits=13"),
        ("f32", ":out-bits=1"),
        ("f16", ":out=rne"),
        ("f16", ":out=rne"),
    ]);
    let floors = [":e_zero=none", ":e_zero=zero-c", ":e_zero=emin-6", ":e_zero=emin+10", ":e_zero=emin+130"];
    let floor = if rng.one_in(3) { "" } else { rng.pick(&floors) };
    let pattern = rng.pick(&["", "", ":pattern=even-odd", ":pattern=pairs"]);
    let c = rng.pick(&["", "", "", ":c=last"]);
    let via = if operands == "e4m3.e4m3" { rng.pick(&["", ":via-f16=yes"]) } else { "" };
    let nan = rng.pick(&["", ":nan=quiet", ":nan=ones"]);
    let rest = format!("{pattern}:F={frac_bits}{floor}{c}{out}{via}{nan}");
    Unit::find(&format!("custom/m8n8k{k}.{d}.{operands}.{d}/dot:block={block}{rest}")).unwrap()
}

/// Now and then states of either sign within eight places of the largest, columns that make sums grow from step to
/// step, and a row of zeros in some steps.
fn harder(p: &mut Problem, rng: &mut Rng) {
    let ([m, _, k], of) = (p.size, rng.pick(&[0, 0, 30, 300]));
    let (unit, largest) = (p.unit.clone(), p.unit.c.max_code(false));
    for c in &mut p.c {
        if rng.one_in(of) {
            *c = (largest - rng.below(8u64)) | rng.pick(&[0, unit.c.max_code(true) - largest]);
        }
    }
    if rng.one_in(3) {
        let by = 2 + rng.below(12_i64);
        p.b.iter_mut().filter(|_| rng.one_in(3)).for_each(|code| *code = scaled(&unit.b, *code, by));
    }
    if rng.one_in(3) {
        let row = rng.below(m);
        p.a[row * k..][..k].chunks_mut(unit.shape.k).filter(|_| rng.one_in(2)).for_each(|step| step.fill(0));
    }
}

/// Units, depths and shapes drawn at random, runs of steps that something ends in the middle. `STUDY_COUNT` units from
/// `STUDY_SEED` make it a study.
#[test]
fn drawn_fused_units_are_the_references() {
    let mut rng = Rng(variable("STUDY_SEED", 2));
    let count = variable("STUDY_COUNT", 120);
    let mut taken = 0;
    for _ in 0..count {
        let unit = fused(&mut rng);
        let isas = isas();
        taken += u64::from(isas.iter().any(|&isa| Gemm::on(&unit).isa(isa).kernel().name.starts_with("fda")));
        for _ in 0..4 {
            let steps = rng.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 17, 23]);
            let n = rng.pick(&[1, 15, 16, 17, 33, 49, 57, 64, 64, 65, 100, 130]);
            let size = [1 + rng.below(70), n, steps];
            let mut p = if rng.one_in(3) {
                let kind = rng.pick(&[Kind::NearOne, Kind::WideExponents]);
                Problem::new(&unit, &[kind], rng.next(), size)
            } else {
                problem(&unit, size, &mut rng)
            };
            harder(&mut p, &mut rng);
            p.check(&isas);
        }
    }
    let has_kernels = isas().iter().any(|isa| matches!(isa, Isa::Avx512 | Isa::Avx2));
    assert!(!has_kernels || 10 * taken > 9 * count, "{taken} of {count}");
}
