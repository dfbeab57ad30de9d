//! Chains of fused multiply-adds in f32 and f64, whole products: operands and results in their own width, in place and
//! not, against the host's own `mul_add`; numbers with which a kernel may be tempted to leave the plain chain.

use crate::problem::isas;
use crate::rng::Rng;
use gemmulate::gemm::{Codes, CodesMut, Workspace};
use gemmulate::prelude::*;
use gemmulate::simd::Isa;
use gemmulate::view::{View, ViewMut};

impl Rng {
    /// Uniform in -1..1.
    fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// What operands are.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Numbers around 1.
    Ordinary,
    /// Here and there a subnormal number.
    Subnormals,
    /// In one operand only.
    SubnormalsInB,
    /// Beside zeros, so that many chains begin with tiny sums.
    ZerosAndSubnormals,
    /// Small integers and halves: sums cancel, products are ties.
    IntegersAndSubnormals,
    /// Numbers of half a significand, and one bit more: first products that are ties.
    TiesAndSubnormals,
    /// An infinity or NaN among them.
    SpecialsAndSubnormals,
    /// Large and small numbers in one product.
    FarAndSubnormals,
    /// Products that underflow.
    Tiny,
    /// Sums that overflow, for a while or for good.
    Huge,
    /// All bit patterns.
    Patterns,
}

const DATA: [Data; 11] = [
    Data::Ordinary,
    Data::Subnormals,
    Data::SubnormalsInB,
    Data::ZerosAndSubnormals,
    Data::IntegersAndSubnormals,
    Data::TiesAndSubnormals,
    Data::SpecialsAndSubnormals,
    Data::FarAndSubnormals,
    Data::Tiny,
    Data::Huge,
    Data::Patterns,
];

/// A type with chains of its own.
trait Real: Copy + PartialEq + core::fmt::Debug {
    const UNIT: &'static str;
    type Code: Copy + Default + PartialEq + core::fmt::LowerHex;
    const EMIN: i32;
    const FRACTION: u32;
    fn of(x: f64) -> Self;
    fn from_code(code: u64) -> Self;
    fn code(self) -> Self::Code;
    fn fma(self, by: Self, plus: Self) -> Self;
    fn is_nan(self) -> bool;
    fn codes(view: View<'_, Self::Code>) -> Codes<'_>;
    fn codes_mut(view: ViewMut<'_, Self::Code>) -> CodesMut<'_>;
}

macro_rules! real {
    ($ty:ident, $code:ident, $unit:literal, $width:ident) => {
        impl Real for $ty {
            const UNIT: &'static str = $unit;
            type Code = $code;
            const EMIN: i32 = <$ty>::MIN_EXP - 1;
            const FRACTION: u32 = <$ty>::MANTISSA_DIGITS - 1;
            fn of(x: f64) -> Self {
                x as Self
            }
            fn from_code(code: u64) -> Self {
                Self::from_bits(code as $code)
            }
            fn code(self) -> $code {
                self.to_bits()
            }
            fn fma(self, by: Self, plus: Self) -> Self {
                self.mul_add(by, plus)
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn codes(view: View<'_, $code>) -> Codes<'_> {
                Codes::$width(view)
            }
            fn codes_mut(view: ViewMut<'_, $code>) -> CodesMut<'_> {
                CodesMut::$width(view)
            }
        }
    };
}
real!(f32, u32, "cdna3/v_mfma_f32_32x32x2_f32", U32);
real!(f64, u64, "ampere/mma.m8n8k4.f64.f64.f64.f64", U64);

impl Data {
    fn draw<T: Real>(self, of_a: bool, rng: &mut Rng) -> T {
        let power = |e: i64| 2f64.powi(e as i32);
        let subnormal = |rng: &mut Rng| {
            let sign = rng.below(2) << (if T::FRACTION == 23 { 31 } else { 63 });
            T::from_code(sign | (1 + rng.below((1 << T::FRACTION) - 1)) >> rng.below(u64::from(T::FRACTION)))
        };
        let half = T::EMIN / 2;
        match self {
            Self::Ordinary => T::of(rng.number() * 4.0),
            Self::SubnormalsInB if of_a || !rng.one_in(50) => T::of(rng.number() * 4.0),
            Self::Subnormals if !rng.one_in(50) => T::of(rng.number() * 4.0),
            Self::ZerosAndSubnormals if !rng.one_in(4) => T::of(if rng.one_in(2) { -0.0 } else { rng.number() }),
            Self::IntegersAndSubnormals if !rng.one_in(20) => T::of(rng.below(9) as f64 / 2.0 - 2.0),
            Self::TiesAndSubnormals if !rng.one_in(8) => {
                let bits = i64::from(T::FRACTION / 2 + 1);
                T::of((1 + 2 * rng.below(1u64 << (bits - 1))) as f64 * power(-bits) * rng.pick(&[1.0, -1.0, 2.0]))
            }
            Self::SpecialsAndSubnormals if rng.one_in(2000) => {
                T::of(rng.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN]))
            }
            Self::SpecialsAndSubnormals if !rng.one_in(50) => T::of(rng.number()),
            Self::FarAndSubnormals if !rng.one_in(20) => T::of(rng.number() * power(rng.below(90) as i64 - 45)),
            Self::Tiny if !rng.one_in(50) => T::of(rng.number() * power(i64::from(half) - rng.below(30) as i64)),
            Self::Huge if !rng.one_in(50) => T::of(rng.number() * power(2 - i64::from(half) - rng.below(5) as i64)),
            Self::Patterns => T::from_code(rng.next()),
            _ => subnormal(rng),
        }
    }
}

/// How a product is asked for.
#[derive(Clone, Copy, Debug)]
struct Way {
    isa: Isa,
    threads: usize,
    /// A by columns, so that no kernel can read its rows in place.
    turned: bool,
    /// Elements between the rows of D.
    gap: usize,
}

fn product<T: Real>(unit: &Unit, [m, n, k]: [usize; 3], a: &[T], b: &[T], way: Way) -> Vec<T::Code> {
    let left: Vec<T::Code> = if way.turned {
        (0..m * k).map(|at| a[at % m * k + at / m].code()).collect()
    } else {
        a.iter().map(|x| x.code()).collect()
    };
    let right: Vec<T::Code> = b.iter().map(|x| x.code()).collect();
    let strides = if way.turned { [1, m as isize] } else { [k as isize, 1] };
    let left = T::codes(View::from_slice(&left, [m, k], strides, 0).unwrap());
    let right = T::codes(View::from_slice(&right, [k, n], [n as isize, 1], 0).unwrap());
    let ld = n + way.gap;
    // What stands in D's memory is not read.
    let mut d = vec![T::of(f64::NAN).code(); m * ld];
    let to = T::codes_mut(ViewMut::from_slice(&mut d, [m, n], [ld as isize, 1], 0).unwrap());
    Gemm::on(unit).isa(way.isa).threads(way.threads).run_codes(&left, &right, to, &mut Workspace::new()).unwrap();
    assert!(d.chunks(ld).all(|row| row[n..].iter().all(|x| *x == T::of(f64::NAN).code())), "{way:?} writes beside D");
    d.chunks(ld).flat_map(|row| &row[..n]).copied().collect()
}

/// Holds a product, in every way, against the host's own chains.
fn assert_is_the_hosts<T: Real>(sets: &[Isa], size: [usize; 3], a: &[T], b: &[T], what: &str) {
    let (unit, [m, n, k]) = (Unit::find(T::UNIT).unwrap(), size);
    let nan = product(&unit, [1, 1, 4], &[T::of(f64::NAN); 4], &[T::of(1.0); 4], Way::plain(Isa::Reference))[0];
    let chain = |i: usize, j: usize| (0..k).fold(T::of(0.0), |d, p| a[i * k + p].fma(b[p * n + j], d));
    let want: Vec<T::Code> =
        (0..m * n).map(|at| chain(at / n, at % n)).map(|d| if d.is_nan() { nan } else { d.code() }).collect();
    for &isa in sets {
        for (threads, turned, gap) in [(1, false, 0), (1, true, 0), (2, false, 3)] {
            let way = Way { isa, threads, turned, gap };
            let found = product(&unit, size, a, b, way);
            if let Some(at) = (0..m * n).find(|&at| found[at] != want[at]) {
                let (i, j) = (at / n, at % n);
                panic!("{what}, {size:?}, {way:?}: D[{i}, {j}] is {:x}, not {:x}", found[at], want[at]);
            }
        }
    }
}

fn chains_are_the_hosts<T: Real>(sets: &[Isa]) {
    let (mut rng, step) = (Rng(41), Unit::find(T::UNIT).unwrap().shape.k);
    for turn in 0..DATA.len() * 12 {
        let data = DATA[turn % DATA.len()];
        let size @ [m, n, k] = match rng.below(4) {
            0 => [1 + rng.below(20) as usize, 1 + rng.below(150) as usize, 4 * (1 + rng.below(40) as usize)],
            1 => [rng.pick(&[6, 97, 130]), rng.pick(&[64, 70, 300]), 4 * (1 + rng.below(20) as usize)],
            2 => [rng.pick(&[1, 6, 13]), rng.pick(&[16, 64, 65]), rng.pick(&[600, 1024, 1028, 2100])],
            // A single row, in strips of columns.
            _ => [1, rng.pick(&[1, 15, 100, 2048, 2060, 4200]), step * rng.pick(&[1, 3, 17, 65])],
        };
        let a: Vec<T> = (0..m * k).map(|_| data.draw(true, &mut rng)).collect();
        let b: Vec<T> = (0..k * n).map(|_| data.draw(false, &mut rng)).collect();
        assert_is_the_hosts(sets, size, &a, &b, &format!("{data:?}"));
    }
}

/// Sums that vanish in the middle of a chain, so that subnormal products are all there is: they decide a tie, or
/// stand in D.
fn vanished_sums_are_the_hosts<T: Real>(sets: &[Isa]) {
    let (m, n, k) = (12, 70, 300);
    let [x, y] = [(T::FRACTION + 2) / 2, T::FRACTION.div_ceil(2)].map(|bits| T::of(1.0 + 2f64.powi(-(bits as i32))));
    let b: Vec<T> = (0..k * n).map(|at| if at / n == 22 { y } else { T::of(1.0) }).collect();
    let tiny = |count: u64, negative: bool| {
        T::from_code(count | u64::from(negative) << (if T::FRACTION == 23 { 31 } else { 63 }))
    };
    for case in 0..4 {
        let mut a = vec![T::of(0.0); m * k];
        for row in a.chunks_mut(k) {
            row[..8].fill(T::of(1.0));
            row[8..16].fill(T::of(-1.0));
            match case {
                // x y is a tie; the difference of two subnormal numbers decides.
                0 => [row[20], row[21], row[22]] = [tiny(3, false), tiny(1, true), x],
                1 => [row[20], row[21], row[22]] = [tiny(1, false), tiny(3, true), x],
                2 => row[k - 1] = tiny(1, false),
                _ => row[k - 1] = tiny(5, true),
            }
        }
        assert_is_the_hosts(sets, [m, n, k], &a, &b, &format!("vanished sums, {case}"));
    }
}

impl Way {
    fn plain(isa: Isa) -> Self {
        Self { isa, threads: 1, turned: false, gap: 0 }
    }
}

#[test]
fn chains_in_f32_are_the_hosts() {
    chains_are_the_hosts::<f32>(&isas());
}

#[test]
fn sums_that_vanish_are_the_hosts() {
    vanished_sums_are_the_hosts::<f32>(&isas());
    vanished_sums_are_the_hosts::<f64>(&isas());
}

#[test]
fn chains_in_f64_are_the_hosts() {
    chains_are_the_hosts::<f64>(&isas());
}
