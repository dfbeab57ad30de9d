//! A product on codes, and whether every fast kernel gives the reference's bits.

use gemmulate::format::FormatSpec;
use gemmulate::gemm::{AnyMatrix, Codes, CodesMut, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::{Isa, assume_processor};
use gemmulate::vectors::{Generator, Kind, Vector};
use gemmulate::view::{View, ViewMut};
use std::ops::ControlFlow;

/// Operands of a product, as codes.
pub(crate) struct Problem {
    pub(crate) unit: Unit,
    pub(crate) size: [usize; 3],
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: Vec<u64>,
    pub(crate) scale_a: Vec<u64>,
    pub(crate) scale_b: Vec<u64>,
}

impl Problem {
    /// Lines of the generator as rows and columns, met with their own c on the diagonal.
    pub(crate) fn new(unit: &Unit, kinds: &[Kind], seed: u64, [m, n, steps]: [usize; 3]) -> Self {
        let (k, slots) = (unit.shape.k, unit.scales());
        let mut lines = Generator::new(unit, seed).kinds(kinds);
        let grid: Vec<Vec<Vector>> =
            (0..m.max(n)).map(|_| (0..steps).map(|_| lines.next().unwrap()).collect()).collect();
        let c = |t: usize| grid[t / n % m.max(n)][0].input.c;
        let mut b = vec![0; k * steps * n];
        for j in 0..n {
            for p in 0..k * steps {
                b[p * n + j] = grid[j][p / k].input.b[p % k];
            }
        }
        let of = |count: usize, part: fn(&Vector) -> &Vec<u64>| -> Vec<u64> {
            grid[..count].iter().flat_map(|line| line.iter().flat_map(|v| part(v).clone())).collect()
        };
        assert_eq!(of(m, |v| &v.input.scale_a).len(), m * steps * slots);
        Self {
            unit: unit.clone(),
            size: [m, n, k * steps],
            a: of(m, |v| &v.input.a),
            b,
            c: (0..m * n).map(|t| if t % n == t / n { c(t) } else { c(t % n * n) }).collect(),
            scale_a: of(m, |v| &v.input.scale_a),
            scale_b: of(n, |v| &v.input.scale_b),
        }
    }

    /// D, starting at C or +0; operands' codes in memory as narrow as they can be, or as wide.
    pub(crate) fn run(&self, isa: Isa, start: Start, narrow: bool) -> Vec<u64> {
        let [m, n, k] = self.size;
        let view = |x| -> View<'_, u64> { x };
        let matrix = |x, rows: usize, columns: usize| -> View<'_, u64> {
            view(View::from_slice(x, [rows, columns], [columns as isize, 1], 0).unwrap())
        };
        let c = AnyMatrix::Typed(Codes::U64(matrix(&self.c, m, n)), self.unit.c);
        let tell = |_| ControlFlow::Continue(());
        let mut gemm = Gemm::on(&self.unit).plan(Plan::default().start(start)).output(self.unit.d).isa(isa);
        if start == Start::C {
            gemm = gemm.beta(1.0).c(&c);
        }
        let slots = self.unit.scale.map_or(0, |rule| k / rule.block);
        let scales = [
            Codes::U64(matrix(&self.scale_a, m, slots)),
            Codes::U64(view(View::from_slice(&self.scale_b, [slots, n], [1, slots as isize], 0).unwrap())),
        ];
        if slots > 0 {
            gemm = gemm.block_scales(&scales[0], &scales[1]);
        }
        let (a, b) = (Stored::new(&self.a, k, &self.unit.a, narrow), Stored::new(&self.b, n, &self.unit.b, narrow));
        // Who is told of progress has a product cut into pieces in the ordinary way, however small it is.
        if !narrow {
            gemm = gemm.progress(&tell);
        }
        // What D held before does not matter.
        let (mut wide, mut d) = (vec![0x4048_4048_4048; m * n], vec![0x4048_4048; m * n]);
        let own = narrow && self.unit.d.storage_bits == 32;
        let to = if own {
            CodesMut::U32(ViewMut::from_slice(&mut d, [m, n], [n as isize, 1], 0).unwrap())
        } else {
            CodesMut::U64(ViewMut::from_slice(&mut wide, [m, n], [n as isize, 1], 0).unwrap())
        };
        gemm.run_codes(&a.codes([m, k]), &b.codes([k, n]), to, &mut Workspace::new()).unwrap();
        if own { d.into_iter().map(u64::from).collect() } else { wide }
    }

    pub(crate) fn check(&self, isas: &[Isa]) {
        self.check_from(Start::C, isas);
    }

    pub(crate) fn check_from(&self, start: Start, isas: &[Isa]) {
        let want = self.run(Isa::Reference, start, false);
        let both = |first| isas.iter().flat_map(move |isa| [(isa, false, first), (isa, true, first)]);
        for (&isa, narrow, first) in both(true).chain(both(false)) {
            let kernel = assume_processor(true, true, || Gemm::on(&self.unit).isa(isa).kernel_for(self.size));
            // Chains of FMA, aligned sums and panels in f32 do something about slow subnormal numbers, integer dot
            // products and array code about two multipliers.
            let two = match kernel.name {
                "aligned, f32 lanes" | "exact, f64 lanes" | "exact" => true,
                "fda-i32" | "fda-f32" | "round-down-i32" => isa == Isa::Avx2,
                "fda-f64" | "round-down-f64" => self.unit.a.storage_bits <= 8,
                _ => false,
            };
            if !first && self.unit.a.fraction_bits < 23 && !two {
                continue;
            }
            let found = assume_processor(first, first, || self.run(isa, start, narrow));
            for (t, (found, want)) in found.iter().zip(&want).enumerate() {
                let [_, n, k] = self.size;
                assert_eq!(
                    found,
                    want,
                    "{} on {isa}, {kernel}, row {}, column {}: {found:x} {want:x}\na {:x?}\nb {:x?}\nc {:x}\nscales {:x?} {:x?}",
                    self.unit,
                    t / n,
                    t % n,
                    &self.a[t / n * k..][..k],
                    (0..k).map(|p| self.b[p * n + t % n]).collect::<Vec<_>>(),
                    self.c[t],
                    self.scale_a,
                    self.scale_b,
                );
            }
        }
    }
}

/// Codes in memory, in the narrowest integers that hold so many bits: each row's one after another, with something
/// between rows, and ones in the bits above a code.
pub(crate) enum Stored {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// Elements between rows.
const GAP: usize = 3;

impl Stored {
    pub(crate) fn new(codes: &[u64], columns: usize, format: &FormatSpec, narrow: bool) -> Self {
        let bits = format.storage_bits;
        let above = if bits < 64 { u64::MAX << bits } else { 0 };
        let each =
            codes.chunks(columns.max(1)).flat_map(|row| row.iter().map(|code| code | above).chain([u64::MAX; GAP]));
        match if narrow { bits } else { 64 } {
            0..=8 => Self::U8(each.map(|code| code as u8).collect()),
            9..=16 => Self::U16(each.map(|code| code as u16).collect()),
            17..=32 => Self::U32(each.map(|code| code as u32).collect()),
            _ => Self::U64(each.collect()),
        }
    }

    pub(crate) fn codes(&self, shape: [usize; 2]) -> Codes<'_> {
        let strides = [(shape[1] + GAP) as isize, 1];
        match self {
            Self::U8(codes) => Codes::U8(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U16(codes) => Codes::U16(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U32(codes) => Codes::U32(View::from_slice(codes, shape, strides, 0).unwrap()),
            Self::U64(codes) => Codes::U64(View::from_slice(codes, shape, strides, 0).unwrap()),
        }
    }
}

/// The fast sets of this machine; those left out are named.
pub(crate) fn isas() -> Vec<Isa> {
    let required = std::env::var("GEMMULATE_REQUIRE_ISA").unwrap_or_default();
    for name in required.split(',').filter(|name| !name.trim().is_empty()) {
        let isa: Isa = name.parse().unwrap();
        assert!(isa.is_available(), "GEMMULATE_REQUIRE_ISA wants {isa}, which this machine lacks");
    }
    let fast = |isa: &Isa| *isa != Isa::Reference;
    let (here, missing): (Vec<Isa>, Vec<Isa>) =
        Isa::ALL.iter().copied().filter(fast).partition(|isa| isa.is_available());
    for isa in missing {
        eprintln!("left out: kernels for {isa}, which this machine lacks");
    }
    here
}
