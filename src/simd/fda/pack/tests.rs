//! The quick ways of packing beside the general ones.

use super::super::{Set, chain, round_down};
use super::in_f32::Quick as QuickInF32;
use super::*;
use crate::accumulate::Recipe;
use crate::format::{F16, F32};
use crate::simd::fda::aligned::Vectors;
use crate::simd::fda::micro::Micro;
use crate::simd::processor::{Assumed, assuming};
use crate::simd::{Avx2, Avx512, Isa, Sse2};
use crate::unit::Unit;

/// A panel to pack.
struct Case<'a> {
    unit: &'a Unit,
    fda: Fda,
    turn: usize,
    /// Rows of A, or columns of B.
    rows: bool,
    lines: usize,
    k: usize,
    codes: Vec<u32>,
    shifts: Vec<i32>,
    /// The largest of these, and the exponent that byte 127 stands for.
    most: i32,
    top: i32,
}

impl Case<'_> {
    fn spec(&self) -> &FormatSpec {
        if self.rows { &self.unit.a } else { &self.unit.b }
    }

    fn check(&self, same: bool) {
        assert!(same, "{}, turn {}, {} x {}", self.unit, self.turn, self.lines, self.k);
    }
}

/// Panels of every FDA and round-down unit of the catalogue, and of formats that none of them has, for kernels of a
/// set.
fn each_case(isa: Isa, mut check: impl FnMut(Case<'_>)) {
    let mut state = 1u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    // Formats that no unit of the catalogue has, and bits that do not count.
    let own = |exponent_bits: u32, fraction_bits, bias, specials, ignored_low_bits| {
        let storage_bits = 1 + exponent_bits + fraction_bits + ignored_low_bits;
        let own = FormatSpec {
            name: "own",
            storage_bits,
            exponent_bits,
            fraction_bits,
            bias,
            specials,
            ignored_low_bits,
            ..F16
        };
        let model = Unit::find("hopper/mma.m16n8k16.f32.f16.f16.f32").expect("a unit");
        let Some(Recipe::Generic(g)) = model.recipe else { unreachable!("its recipe") };
        Unit::custom(g, model.shape, [own, own, F32, F32], None).expect("a unit")
    };
    let own = [
        own(4, 2, 7, Specials::NanAllOnes, 0),
        own(4, 3, 9, Specials::Ieee, 0),
        own(2, 5, 1, Specials::None, 0),
        own(3, 4, 20, Specials::NanNegativeZero, 0),
        own(5, 2, 0, Specials::Ieee, 0),
        own(5, 2, 16, Specials::NanNegativeZero, 0),
        own(5, 7, 12, Specials::Ieee, 3),
        own(1, 3, -3, Specials::None, 4),
        own(6, 5, 31, Specials::Ieee, 0),
        own(7, 6, 63, Specials::NanAllOnes, 1),
        own(8, 4, 127, Specials::Ieee, 3),
        own(8, 3, 127, Specials::NanAllOnes, 0),
    ];
    let units: Vec<Unit> = own.into_iter().chain(Unit::all()).collect();
    for unit in &units {
        for turn in 0..30 {
            let Some(fda) = chain(unit, isa).or_else(|| round_down::kernel(unit, isa)) else { break };
            let rows = turn % 2 == 0;
            let spec = if rows { &unit.a } else { &unit.b };
            let lines = 1 + below(3 * NR as u64) as usize;
            let k = unit.shape.k * (1 + below(3) as usize);
            let bits = spec.storage_bits;
            // Everything; numbers near 1, some of them zeros; and a few of everything among these.
            let mut code = |kind: u64| match kind {
                0 => below(1 << bits),
                1 if below(20) == 0 => below(2) << (bits - 1),
                2 if below(300) == 0 => below(1 << bits),
                // Significands that may be a risk together, some of them subnormal numbers'.
                3 => {
                    let field = 1 << spec.fraction_bits;
                    let exponent = if below(8) == 0 { 0 } else { 1 + below((1 << (spec.exponent_bits - 1)) as u64) };
                    (exponent * field + field - 1 - below(40) / 39) << spec.ignored_low_bits
                }
                _ => {
                    let x = (below(2001) as f64 - 1000.0) / 700.0;
                    spec.encode_f64(x, Default::default(), Default::default()).unwrap_or_default()
                }
            };
            let mut codes: Vec<u32> = (0..lines * k).map(|_| code(turn / 2 % 5) as u32).collect();
            // What lies above a code is not looked at.
            if turn % 4 < 2 && bits <= 16 {
                codes.iter_mut().for_each(|code| *code |= (below(1 << 16) as u32) << bits);
            }
            let mut shifts = Vec::new();
            if unit.scale.is_some() {
                // All codes of ue8m0, or those near 1.
                let mut code = || if turn / 8 % 2 == 0 { below(256) } else { 125 + below(5) };
                let shift = |code: u64| if code == 255 { NAN_SHIFT } else { code as i32 - 127 };
                shifts = (0..lines * k / fda.block).map(|_| shift(code())).collect();
            }
            let most = shifts.iter().copied().filter(|x| *x != NAN_SHIFT).max().unwrap_or(0);
            let top = top_exponent(&fda, spec, &codes) + most;
            check(Case { unit, fda, turn: turn as usize, rows, lines, k, codes, shifts, most, top });
        }
    }
}

/// What kernels read of columns `0..columns`: all of a panel but what belongs to vectors without a column.
fn read(fda: &Fda, of: &Packed, columns: usize) -> Vec<u64> {
    let (l, mut seen) = (fda.block, Vec::new());
    for (g, s) in (0..columns.div_ceil(NR)).flat_map(|g| (0..of.steps).map(move |s| (g, s))) {
        let (place, vectors) = (of.at_b(g, s), (columns - g * NR).min(NR).div_ceil(16));
        seen.extend(of.exponents.view::<u8>()[place * NR * l..][..NR * l].iter().map(|&x| u64::from(x)));
        let lines = place * NR..place * NR + vectors * 16;
        if has_signs(fda) {
            // In planes of a byte a column, or as they are.
            let signs = if fda.narrow && !matches!(fda.set, Set::Avx512(_)) { NR } else { lines.len() };
            seen.extend(of.signs.view::<u32>()[place * NR..][..signs].iter().map(|&x| u64::from(x)));
        }
        seen.extend(of.flags[lines.clone()].iter().chain(&of.any[place * 4..][..4]).map(|&x| u64::from(x)));
        seen.extend(values(fda, of, lines.start * l..lines.end * l));
        if fda.fixed.is_some() {
            seen.extend(of.integers.seen(place * NR, vectors, l).into_iter().map(u64::from));
        }
    }
    seen.push(u64::from(fda.fixed.is_some() && of.integers.are_few()));
    seen
}

/// What kernels read of rows `0..rows`.
fn read_rows(fda: &Fda, of: &Packed, rows: usize) -> Vec<u64> {
    let (l, mut seen) = (fda.block, Vec::new());
    for (row, s) in (0..rows).flat_map(|row| (0..of.steps).map(move |s| (row, s))) {
        let place = of.at_a(row / MR, s);
        let line = place * MR + row % MR;
        let products = line * l..(line + 1) * l;
        seen.extend(of.exponents.view::<u32>()[products.clone()].iter().map(|&x| u64::from(x)));
        seen.extend([of.flags[line], of.any[place]].map(u64::from));
        if has_signs(fda) {
            seen.push(of.signs.view::<u32>()[line].into());
        }
        seen.extend(values(fda, of, products));
    }
    let of_integers = if fda.fixed.is_some() { rows.next_multiple_of(MR) } else { 0 };
    for (row, s) in (0..of_integers).flat_map(|row| (0..of.steps).map(move |s| (row, s))) {
        let line = of.at_a(row / MR, s) * MR + row % MR;
        seen.extend(of.integers.seen_of_row(line, l).into_iter().map(u64::from));
    }
    seen
}

fn values(fda: &Fda, of: &Packed, which: Range<usize>) -> Vec<u64> {
    if fda.in_f32() {
        of.values.view::<f32>()[which].iter().map(|x| x.to_bits().into()).collect()
    } else {
        of.values.view::<f64>()[which].iter().map(|x| x.to_bits()).collect()
    }
}

/// Whether signs are beside values, too.
fn has_signs(fda: &Fda) -> bool {
    fda.narrow || matches!(fda.set, Set::Avx512(_))
}

#[test]
fn the_quick_way_makes_the_same_panels() {
    if Avx512::new(Isa::Avx512).is_none() {
        return;
    }
    let mut quickly = [0; 2];
    // What one panel leaves there the next one finds.
    let [mut quick, mut slow] = [Packed::default(), Packed::default()];
    each_case(Isa::Avx512, |mut case| {
        for packed in [&mut quick, &mut slow] {
            packed.shifts.clone_from(&case.shifts);
            packed.top = case.top;
        }
        let (fda, size) = (&case.fda, [case.lines, case.k]);
        let scale = if case.rows { fda.scales().0 } else { fda.scales().1 };
        let way = Quick::new(fda, case.spec(), (scale, !case.rows), [case.top, case.most]);
        quickly[usize::from(case.rows)] += usize::from(way.is_some());
        // SAFETY: the instructions are there.
        let same = unsafe {
            if case.rows {
                fda.pack_a_by(way, &case.codes, size, &mut quick);
                fda.pack_a_by(None, &case.codes, size, &mut slow);
                // Rows are counted in another order, so that one may give up and the other not.
                if quick.integers.are_few() || slow.integers.are_few() {
                    (quick.integers, slow.integers) = Default::default();
                }
                read_rows(fda, &quick, case.lines) == read_rows(fda, &slow, case.lines)
            } else {
                fda.pack_b_by(way, &mut case.codes, |_, _| {}, size, &mut quick);
                fda.pack_b_by(None, &mut case.codes, |_, _| {}, size, &mut slow);
                read(fda, &quick, case.lines) == read(fda, &slow, case.lines)
            }
        };
        case.check(same);
    });
    assert!(quickly.iter().all(|&n| n > 1000), "{quickly:?}");
}

/// The same for AVX2 and SSE2, in f32; how many cases had a quick way.
fn panels_in_f32<S: Vectors + Micro>(set: S, isa: Isa) -> [usize; 2] {
    let mut quickly = [0; 2];
    let [mut quick, mut slow] = [Packed::default(), Packed::default()];
    each_case(isa, |case| {
        if !case.fda.in_f32() {
            return;
        }
        for packed in [&mut quick, &mut slow] {
            packed.shifts.clone_from(&case.shifts);
            packed.top = case.top;
        }
        let (fda, codes, size) = (&case.fda, &case.codes[..], [case.lines, case.k]);
        let way = QuickInF32::new(set, case.spec(), fda, [case.top, case.most]);
        quickly[usize::from(case.rows)] += usize::from(way.is_some());
        let pack = |way: Option<QuickInF32<S>>, to: &mut Packed| {
            set.vectorise(
                #[inline(always)]
                || match case.rows {
                    true => fda.pack_a_in_f32_by(set, way, codes, size, to),
                    false => fda.pack_b_in_f32_by(set, way, codes, size, to),
                },
            );
        };
        pack(way, &mut quick);
        pack(None, &mut slow);
        case.check(if case.rows {
            read_rows(fda, &quick, case.lines) == read_rows(fda, &slow, case.lines)
        } else {
            read(fda, &quick, case.lines) == read(fda, &slow, case.lines)
        });
    });
    quickly
}

#[test]
fn the_quick_way_makes_the_same_panels_in_f32() {
    let Some(sse2) = Sse2::new(Isa::Portable) else { return };
    // Formats with f32's exponents alone.
    let quickly = panels_in_f32(sse2, Isa::Portable);
    assert!(quickly.iter().all(|&n| n > 100), "{quickly:?}");
    let Some(avx2) = Avx2::new(Isa::Avx2) else { return };
    let fast = Assumed { slow_subnormals: false, two_multipliers: false };
    let quickly = assuming(fast, || panels_in_f32(avx2, Isa::Avx2));
    assert!(quickly.iter().all(|&n| n > 500), "{quickly:?}");
}
