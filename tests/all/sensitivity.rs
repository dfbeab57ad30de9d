//! How often inputs at the edges tell a unit from its neighbours: what a fit can see.

use crate::custom::{self, variable};
use gemmulate::Unit;
use gemmulate::accumulate::{CPosition, Floor, GenericDot, Recipe, SubnormalC, ZeroProducts};
use gemmulate::format::FormatSpec;
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, Gemm, Plan, Start, Workspace};
use gemmulate::probe::inside::{edges, neighbours};
use gemmulate::probe::{BlackBox, Input, canonical, same_function};
use gemmulate::round::{ROUNDINGS, Rounding};
use gemmulate::simd::Isa;
use gemmulate::view::{View, ViewMut};
use missed::MISSED;
use std::collections::HashSet;

mod missed;

/// How many of `count` inputs at the edges of one of two models tell the models apart.
fn telling(unit: &Unit, [of, x, y]: [&Recipe; 3], count: usize) -> usize {
    let interface = unit.interface();
    let inputs = edges(of, &interface, variable("STUDY_SEED", 5), count);
    let [x, y] = [x, y].map(|recipe| interface.unit(*recipe).unwrap().dot_adds(&inputs).unwrap());
    x.iter().zip(&y).filter(|(x, y)| x != y).count()
}

/// Units and neighbours that a fit once took for the same: a few inputs at the edges of either must tell them apart.
#[test]
fn edges_reach_what_was_missed() {
    for (formats, unit, other) in MISSED {
        let unit = Unit::find(&format!("custom/m1n1{formats}/dot:{unit}")).unwrap();
        let family = if other.starts_with("pairwise") { "" } else { "dot:" };
        let (own, other) = (unit.recipe.unwrap(), format!("{family}{other}").parse().unwrap());
        let told = [own, other].map(|edges| telling(&unit, [&edges, &own, &other], 60_000));
        println!("{told:?} {unit} {other}");
        assert!(told.iter().sum::<usize>() > 1, "{unit} {other}: {told:?}");
    }
}

/// Inputs at the edges of either model, and how many of them must tell the two apart.
const ASKED: usize = 10_000;
const FEW: usize = 2;

/// Units, and neighbours of theirs in one parameter, with that parameter's name.
fn each_neighbour(units: u64, mut use_of: impl FnMut(&Unit, &'static str, &Recipe)) {
    let mut r = custom::Random(variable("STUDY_SEED", 3));
    for _ in 0..variable("STUDY_COUNT", units) {
        let unit = custom::unit(&mut r);
        let (own, interface) = (unit.recipe.unwrap(), unit.interface());
        for (name, others) in neighbours(&own, &interface) {
            others.iter().filter(|other| **other != own).for_each(|other| use_of(&unit, name, other));
        }
    }
}

/// All but a twentieth of the neighbours that are not provably the same are told apart; the others are printed: where
/// edges are missing. `STUDY_COUNT` units drawn from `STUDY_SEED` make it a study.
#[test]
fn neighbours_are_told_at_the_edges() {
    let (mut asked, mut hard, mut last) = (0, 0, (String::new(), "", 0));
    each_neighbour(5, |unit, name, other| {
        let own = unit.recipe.unwrap();
        // Only vectors of every kind have NaNs.
        if name == "nan" || same_function(&own, other, &unit.interface()).is_some() {
            return;
        }
        // Three of each parameter.
        let before = if (last.0.as_str(), last.1) == (unit.name.as_str(), name) { last.2 } else { 0 };
        last = (unit.name.clone(), name, before + 1);
        if before >= 3 {
            return;
        }
        asked += 1;
        let few = |edges| Some(telling(unit, [edges, &own, other], ASKED)).filter(|told| *told < FEW);
        if let Some((here, there)) = few(&own).and_then(|here| Some((here, few(other)?))) {
            hard += 1;
            println!("{here} + {there} {name}\t{unit}\t{other}");
        }
    });
    assert!(20 * hard <= asked, "{hard} of {asked}");
    println!("{hard} of {asked}");
}

/// What `canonical` calls one function differs nowhere, at the edges of either.
#[test]
fn neighbours_said_to_be_the_same_are() {
    let mut asked = 0;
    each_neighbour(8, |unit, name, other| {
        let own = unit.recipe.unwrap();
        if same_function(&own, other, &unit.interface()).is_some() {
            asked += 1;
            let told = [&own, other].map(|edges| telling(unit, [edges, &own, other], ASKED / 4));
            assert_eq!(told, [0, 0], "{name}: {unit} and {other}");
        }
    });
    assert!(asked > 40, "{asked}");
}

/// Every rule of `canonical`, for parameters of every kind and narrow formats, long chains and few result bits among
/// them: no input at the edges tells a unit from its canonical form.
#[test]
fn canonical_forms_of_narrow_units_are_the_same() {
    let mut r = custom::Random(variable("STUDY_SEED", 1));
    let units = variable("STUDY_COUNT", 2000);
    let mut joined = 0;
    for _ in 0..units {
        let unit = narrow_unit(&mut r);
        let own = unit.recipe.unwrap();
        let (plain, why) = canonical(&own, &unit.interface());
        assert_eq!(canonical(&plain, &unit.interface()).0, plain, "{unit}: a canonical form is its own");
        if plain != own {
            joined += 1;
            let told = [&own, &plain].map(|edges| telling(&unit, [edges, &own, &plain], 300));
            assert_eq!(told, [0, 0], "{unit} and {plain}: {why:?}");
            let chains: Vec<Input> = (0..40).map(|_| chain(&mut r, &unit)).collect();
            let [x, y] = [own, plain].map(|recipe| unit.interface().unit(recipe).unwrap().dot_adds(&chains).unwrap());
            assert_eq!(x, y, "{unit} and {plain}: {why:?}");
        }
    }
    assert!(2 * joined > units, "{joined} of {units}");
}

/// The largest products first, the smallest after them, or the other way round, all of one sign: sums that grow by
/// their roundings.
fn chain(r: &mut custom::Random, unit: &Unit) -> Input {
    let (k, small, negative) = (unit.shape.k, 1 + r.below(3), r.one_in(2));
    let (from, large_first) = (r.below(1 + k as u64) as usize, r.one_in(2));
    let codes = |f: &FormatSpec, negative: bool| -> Vec<u64> {
        let smallest = f.max_code(negative) & !f.max_code(false) | small << f.ignored_low_bits;
        (0..k).map(|n| if (n < from) == large_first { f.max_code(negative) } else { smallest }).collect()
    };
    let (a, b) = (codes(&unit.a, negative), codes(&unit.b, false));
    Input { a, b, c: 0, scale_a: Vec::new(), scale_b: Vec::new() }
}

/// Parameters that narrow formats can show, more often at their extremes than `custom::unit` has them.
fn narrow_unit(r: &mut custom::Random) -> Unit {
    use Rounding::{Down, NearestEven, TowardZero, Up};
    let any = r.pick(ROUNDINGS).0;
    let roundings = [TowardZero, TowardZero, Down, Up, NearestEven, any];
    // Long chains of results of few bits grow.
    let grows = r.one_in(4);
    let k = if grows { 64 } else { r.pick(&[1, 1, 2, 2, 3, 4, 7, 16]) };
    let operands = r.pick(&["e2m1.e2m1", "e4m3.e2m1", "e4m3.e4m3", "e5m2.e5m2", "e3m2.e2m3", "bf16.bf16"]);
    let d = r.pick(&["f16", "e5m2", "e4m3", "bf16"]);
    let c = if r.one_in(3) { r.pick(&["f32", "f16", "bf16", "e5m2", "e4m3"]) } else { d };
    let frac_bits = if r.one_in(4) { r.below(4) } else { r.below(40) } as u32;
    let alignment = r.pick(&roundings);
    let x = GenericDot {
        block: if grows || r.one_in(2) { 1 } else { 1 + r.below(k) as usize },
        exact: r.one_in(8),
        frac_bits,
        alignment,
        sticky: r.one_in(3),
        normalise_products: r.one_in(3),
        output_rounding: if r.one_in(3) { alignment } else { r.pick(&roundings) },
        output_bits: (grows || r.one_in(2)).then_some(1 + r.below(if grows { 4 } else { 10 }) as u32),
        floor: match r.below(4) {
            0 => Floor::None,
            1 => Floor::ZeroC,
            _ => Floor::BelowEmin(r.below(40) as i32 - 10),
        },
        c: r.pick(&[CPosition::With, CPosition::Late, CPosition::Last]),
        via_f16: !operands.contains("bf16") && r.one_in(4),
        flush_inputs: r.one_in(3),
        flush_results: r.one_in(3),
        zero_products: r.pick(&[ZeroProducts::Ignored, ZeroProducts::OwnExponent]),
        subnormal_c: r.pick(&[SubnormalC::Stored, SubnormalC::Normalised]),
        negative_zero: r.one_in(3),
        product_limit: r.one_in(4),
        ..GenericDot::default()
    };
    let unit = Unit::find(&format!("custom/m1n1k{k}.{d}.{operands}.{c}/dot")).unwrap();
    unit.with_accumulator(x).unwrap()
}

/// Every interface and function of the catalogue once.
fn listed_units() -> Vec<Unit> {
    let mut seen = HashSet::new();
    Unit::all().filter(|u| seen.insert(format!("{:?}{:?}", u.recipe, u.interface()))).collect()
}

/// The unit with one to three parameters changed.
fn changed(r: &mut custom::Random, unit: &Unit) -> Unit {
    let (mut recipe, interface) = (unit.recipe.unwrap(), unit.interface());
    for _ in 0..1 + r.below(3) {
        let mut options = neighbours(&recipe, &interface);
        options.retain(|(_, values)| !values.is_empty());
        let (_, values) = &options[r.below(options.len() as u64) as usize];
        recipe = values[r.below(values.len() as u64) as usize];
    }
    interface.unit(recipe).unwrap()
}

/// Inputs at the edges, which kernels meet nowhere else: units of every family with one to three parameters changed.
#[test]
fn kernels_agree_with_the_reference_at_the_edges() {
    let mut r = custom::Random(variable("STUDY_SEED", 5));
    let listed = listed_units();
    for n in 0..variable("STUDY_COUNT", 150) {
        let unit =
            if n % 3 == 0 { custom::unit(&mut r) } else { listed[r.below(listed.len() as u64) as usize].clone() };
        assert_kernels_agree(changed(&mut r, &unit), r.below(u64::MAX));
    }
}

/// What a solver makes of exported units with inputs at the edges: zeros beside large factors, sums that cancel.
#[cfg(feature = "smt")]
#[test]
fn exports_are_the_reference_at_the_edges() {
    let Some(solver) = crate::smt::solvers().into_iter().next() else { return };
    let mut r = custom::Random(variable("STUDY_SEED", 6));
    let listed: Vec<Unit> = listed_units().into_iter().filter(|u| u.shape.k <= 8).collect();
    let (units, mut asked) = (variable("STUDY_COUNT", 12), 0);
    for n in 0..units {
        let unit = if n % 2 == 0 { narrow_unit(&mut r) } else { listed[r.below(listed.len() as u64) as usize].clone() };
        let unit = changed(&mut r, &unit);
        let mut inputs = edges(&unit.recipe.unwrap(), &unit.interface(), r.below(u64::MAX), 200);
        inputs.retain(|_| r.one_in(5));
        if unit.shape.k > 16 || gemmulate::smt::export(&unit, "unit").is_err() {
            continue;
        }
        asked += 1;
        let theirs = gemmulate::smt::evaluate(&unit, &inputs, &solver).unwrap_or_else(|e| panic!("{unit}: {e}"));
        for ((x, d), smt) in inputs.iter().zip(unit.clone().dot_adds(&inputs).unwrap()).zip(theirs) {
            assert_eq!(d, smt, "{unit} on {x}: the library gives {d:x}, {} {smt:x}", solver.version());
        }
    }
    assert!(2 * asked > units, "{asked} of {units} have an encoding");
}

/// What the test above found, with enough units.
#[test]
fn kernels_know_exponents_far_apart_and_groups_of_an_odd_length() {
    for (unit, recipe) in [
        // Products of zero beside a c of 2^124, where nothing is kept below the products' own bits: 2^-1024.
        ("cdna3/v_mfma_f32_16x16x8_xf32", "round-down:G=4:sum=24"),
        // The second group begins with an odd k.
        ("cdna3/v_mfma_f32_32x32x16_bf8_bf8", "round-down-grouped:G=9"),
    ] {
        let unit = Unit::find(unit).unwrap().with_accumulator(recipe.parse::<Recipe>().unwrap()).unwrap();
        (0..4).for_each(|seed| assert_kernels_agree(unit.clone(), seed));
    }
}

fn assert_kernels_agree(mut unit: Unit, seed: u64) {
    let inputs = edges(&unit.recipe.unwrap(), &unit.interface(), seed, 1500);
    for (input, d) in inputs.iter().zip(unit.dot_adds(&inputs).unwrap()) {
        let want = input.eval(&unit);
        assert_eq!(d, want.unwrap(), "{unit}: {input}");
    }
    // A row of one input meets the columns of all others.
    let want = tile(&unit, &inputs[..SIDE], Isa::Reference);
    for isa in Isa::ALL.iter().copied().filter(|isa| isa.is_available()) {
        let found = tile(&unit, &inputs[..SIDE], isa);
        if let Some(t) = (0..want.len()).find(|&t| found[t] != want[t]) {
            let (row, column) = (&inputs[t / SIDE], &inputs[t % SIDE]);
            panic!("{unit} on {isa}: {:x} for {:x}\n{row}\n{column}", found[t], want[t]);
        }
    }
}

/// Inputs whose rows meet each other's columns.
const SIDE: usize = 21;

/// The product of the inputs' rows by their columns, begun at the c of the row's input.
fn tile(unit: &Unit, inputs: &[Input], isa: Isa) -> Vec<u64> {
    let (k, slots) = (unit.shape.k, unit.scales());
    let gather = |of: fn(&Input) -> &[u64]| inputs.iter().flat_map(|x| of(x).iter().copied()).collect::<Vec<u64>>();
    let (a, b, c) = (gather(|x| &x.a), gather(|x| &x.b), gather(|x| std::slice::from_ref(&x.c)));
    let scales = [gather(|x| &x.scale_a), gather(|x| &x.scale_b)];
    let rows =
        |codes, count: usize| Codes::U64(View::from_slice(codes, [SIDE, count], [count as isize, 1], 0).unwrap());
    let columns =
        |codes, count: usize| Codes::U64(View::from_slice(codes, [count, SIDE], [1, count as isize], 0).unwrap());
    let c = AnyMatrix::Typed(Codes::U64(View::from_slice(&c, [SIDE, SIDE], [1, 0], 0).unwrap()), unit.c);
    let plan = Plan::default().start(Start::C);
    let mut gemm = Gemm::on(unit).plan(plan).beta(1.0).output(unit.d).isa(isa).c(&c);
    let scales = [rows(&scales[0], slots), columns(&scales[1], slots)];
    if slots > 0 {
        gemm = gemm.block_scales(&scales[0], &scales[1]);
    }
    let mut d = vec![0; SIDE * SIDE];
    let to = CodesMut::U64(ViewMut::from_slice(&mut d, [SIDE, SIDE], [SIDE as isize, 1], 0).unwrap());
    gemm.run_codes(&rows(&a, k), &columns(&b, k), to, &mut Workspace::new()).unwrap();
    d
}
