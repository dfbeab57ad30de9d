use super::*;
use crate::format::*;
use crate::simd::decode::{Fields, Reader, Reading, SPECIAL, of_any};
use crate::simd::wide::{self, Work};

const STEP: usize = 7;

/// A step, read on its instruction set.
struct Step<'a, T> {
    by: &'a Sixteen,
    codes: Rows<'a, T>,
    order: &'a [usize],
    values: [[f32; NR]; STEP],
    exponents: [[i16; NR]; STEP],
}

/// Where it goes, for `Work` gives nothing back.
struct Call<'a, 'b, T>(&'a mut Step<'b, T>, &'a mut Option<u8>);

impl<T: Plain + Into<u32>> Work for Call<'_, '_, T> {
    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        let Self(Step { by, codes, order, values, exponents }, flags) = self;
        *flags = by.read(codes, [0, 1], order, (values, exponents));
    }
}

/// All codes in steps of seven positions by seventeen columns, of which the last sixteen are read: the array code's
/// values, exponents and flags.
fn check<T: Plain + Into<u32>>(isa: Isa, by: &Sixteen, decoder: &Decoder, fields: &Fields, codes: &[T]) -> usize {
    let (width, mut ordinary) = (NR + 1, 0);
    for order in [&[][..], &[3, 1, 6, 0, 2, 5, 4]] {
        for codes in codes.chunks_exact(STEP * width) {
            let codes = Rows::of(codes, width);
            let (values, exponents) = ([[0.0; NR]; STEP], [[0; NR]; STEP]);
            let (mut step, mut found) = (Step { by, codes, order, values, exponents }, None);
            wide::on(isa, Call(&mut step, &mut found));
            let (mut flags, mut seen) = (0, Seen::NOTHING);
            let mut expected = Vec::new();
            for to in 0..STEP {
                let row = codes.row(if order.is_empty() { to } else { order[to] });
                let (values, exponents, of_row) = fields.lanes::<NR>(&core::array::from_fn(|j| row[j + 1].into()));
                flags |= of_any(of_row);
                seen.take(&exponents, 0, decoder.reading.spans);
                expected.push((values.map(f32::to_bits), exponents));
            }
            let special = flags & SPECIAL != 0;
            assert_eq!(found, (!special).then(|| flags | seen.flags(&decoder.spec)), "{decoder:?}");
            if !special {
                let here = step.values.map(|x| x.map(f32::to_bits)).into_iter().zip(step.exponents);
                assert!(here.eq(expected), "{decoder:?}");
                ordinary += 1;
            }
        }
    }
    ordinary
}

#[test]
fn sixteen_columns_are_read_as_one_by_one() {
    let (mut ways, mut steps) = ([0; 5], 0);
    let unsigned = FormatSpec { signed: false, ..E4M3 };
    let (low, high) = (FormatSpec { bias: 20, ..E5M2 }, FormatSpec { bias: -9, ..E3M2 });
    let formats = [F16, BF16, TF32, F32, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, E3M2, E2M3, E2M1, unsigned, low, high];
    for (spec, choices) in formats.into_iter().flat_map(|spec| (0..32).map(move |choices| (spec, choices))) {
        let chosen = |i: u32| choices >> i & 1 != 0;
        let reading = Reading {
            flush: chosen(0),
            positive_zero: chosen(1),
            via_f16: chosen(2),
            zeros_count: chosen(3),
            spans: chosen(4),
        };
        let decoder = Decoder::new(spec, reading);
        for isa in [Isa::Avx512, Isa::Avx2] {
            let (Some(by), Some(fields)) = (Sixteen::new(isa, &decoder), &decoder.fields) else { continue };
            ways[usize::from(by.how)] += 1;
            // Of wider formats every so many-th; between them lie all fields with fractions of few bits and many.
            let wide = (0..1 << 16).map(|i: u32| i << 16 | i.wrapping_mul(0x9E37) & 0xFFFF);
            let codes: Vec<u32> = if spec.storage_bits > 16 { wide.collect() } else { (0..1 << 16).collect() };
            steps += check(isa, &by, &decoder, fields, &codes);
            if spec.storage_bits <= 16 {
                let narrower: Vec<u16> = codes.iter().map(|code| *code as u16).collect();
                steps += check(isa, &by, &decoder, fields, &narrower);
            }
            if spec.storage_bits <= 8 {
                let narrower: Vec<u8> = codes.iter().map(|code| *code as u8).collect();
                steps += check(isa, &by, &decoder, fields, &narrower);
            }
        }
    }
    if Isa::Avx2.is_available() {
        assert!(ways.iter().all(|n| *n > 0) && steps > 100_000, "{ways:?}, {steps}");
    } else {
        eprintln!("left out: this machine lacks AVX2");
    }
}
