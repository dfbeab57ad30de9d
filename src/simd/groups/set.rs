//! What integer dot products of groups ask of an instruction set.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads and stores of whole vectors")]

use super::tile::{COLUMNS, Operands, States};
use super::{Groups, aligned::Aligner, unpacked};
use crate::simd::ops::{apart, memory, operations};
use crate::simd::{Avx2, Avx512, Isa};
use core::arch::x86_64::*;
use core::fmt::Debug;
use core::ops::Range;

const RZ: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const RNE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// An instruction set, whose value is the proof that it is there, and AVX2 with it.
pub(super) trait Set: Copy + Debug + Send + Sync + 'static {
    /// The kernel's name.
    const NAME: &'static str;
    /// Vectors of integers, of f32, and of half as many f64.
    type Int: Copy;
    type F32: Copy;
    type F64: Copy;
    /// f32 in a vector.
    const LANES: usize;
    /// Rows of a tile whose sums registers hold, two vectors each.
    const ROWS: usize;

    /// Does work in a function of its own that is compiled for the set, if the work and all it calls is inlined.
    fn apart<R>(self, work: impl FnOnce() -> R) -> R;

    /// Whether sums hold products of a group, of so large magnitudes of A's numbers and B's.
    fn holds(most: [i32; 2], group: usize) -> bool;

    /// A vector's bytes from memory, aligned.
    ///
    /// # Safety
    /// The pointer leads to as many.
    unsafe fn load_bytes(self, from: *const u8) -> Self::Int;
    /// A word in every lane.
    fn words(self, x: i32) -> Self::Int;
    /// Where sums of products start: at the sum's start, or at 0.
    fn begin(self, start: i32) -> Self::Int;
    /// Adds the products of every word's four bytes: B's, not negative, and A's, signed.
    fn dot(self, sum: Self::Int, b: Self::Int, a: Self::Int) -> Self::Int;
    /// The sum from its start, a word for each column.
    fn end(self, start: i32, products: Self::Int) -> Self::Int;

    /// f32 from memory and to it, aligned.
    ///
    /// # Safety
    /// As `load_bytes`.
    unsafe fn load(self, from: *const f32) -> Self::F32;
    /// # Safety
    /// As `load_bytes`.
    unsafe fn store(self, to: *mut f32, x: Self::F32);
    fn splat(self, x: f32) -> Self::F32;
    fn float(self, x: Self::Int) -> Self::F32;
    fn mul(self, x: Self::F32, y: Self::F32) -> Self::F32;
    fn fma(self, x: Self::F32, y: Self::F32, z: Self::F32) -> Self::F32;
    /// `x + y`, toward zero or to nearest; a zero is +0.
    fn add<const ZERO: bool>(self, x: Self::F32, y: Self::F32) -> Self::F32;

    /// Half a vector of f32 as f64, and back, rounded toward zero or to nearest: magnitudes are f32's normal ones, or
    /// 0.
    ///
    /// # Safety
    /// As `load_bytes`.
    unsafe fn load_wide(self, from: *const f32) -> Self::F64;
    /// # Safety
    /// As `load_bytes`.
    unsafe fn store_narrow<const ZERO: bool>(self, to: *mut f32, x: Self::F64);
    fn splat_wide(self, x: f64) -> Self::F64;
    /// The lower or upper half of the lanes.
    fn float_wide(self, x: Self::Int, upper: bool) -> Self::F64;
    fn mul_wide(self, x: Self::F64, y: Self::F64) -> Self::F64;
    fn fma_wide(self, x: Self::F64, y: Self::F64, z: Self::F64) -> Self::F64;

    /// Steps of some rows in which something may be cut off.
    ///
    /// # Safety
    /// The steps are in the panels.
    unsafe fn hard(self, how: &Hard<'_>, x: &Operands<'_>, steps: Range<usize>, rows: &[usize], c: &mut States);
}

/// What steps in which something may be cut off are done by.
#[derive(Debug)]
pub(super) struct Hard<'a> {
    pub(super) aligner: &'a Aligner,
    pub(super) body: &'a Groups,
    pub(super) nan: u32,
    pub(super) to_zero: bool,
}

/// AVX-512, whose proof says that VNNI is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vnni(());

impl Vnni {
    pub(super) fn new(isa: Isa) -> Option<Self> {
        Avx512::new(isa).map(|_| Self(()))
    }
}

impl Set for Vnni {
    const NAME: &'static str = "groups-vnni";
    type Int = __m512i;
    type F32 = __m512;
    type F64 = __m512d;
    const LANES: usize = 16;
    const ROWS: usize = 4;

    apart!("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni");

    fn holds(_: [i32; 2], _: usize) -> bool {
        true
    }

    memory! {
        load_bytes(from: *const u8) -> __m512i { _mm512_load_si512(from.cast()) }
        load(from: *const f32) -> __m512 { _mm512_load_ps(from) }
        store(to: *mut f32, x: __m512) -> () { _mm512_store_ps(to, x) }
        load_wide(from: *const f32) -> __m512d { _mm512_cvtps_pd(_mm256_load_ps(from)) }
    }

    #[inline(always)]
    unsafe fn store_narrow<const ZERO: bool>(self, to: *mut f32, x: __m512d) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let x = if ZERO { _mm512_cvt_roundpd_ps::<RZ>(x) } else { _mm512_cvt_roundpd_ps::<RNE>(x) };
            _mm256_store_ps(to, x);
        }
    }

    #[inline(always)]
    fn add<const ZERO: bool>(self, x: __m512, y: __m512) -> __m512 {
        // SAFETY: `self` is the proof.
        unsafe { if ZERO { _mm512_add_round_ps::<RZ>(x, y) } else { _mm512_add_round_ps::<RNE>(x, y) } }
    }

    operations! {
        words(x: i32) -> __m512i { _mm512_set1_epi32(x) }
        begin(start: i32) -> __m512i { _mm512_set1_epi32(start) }
        dot(sum: __m512i, b: __m512i, a: __m512i) -> __m512i { _mm512_dpbusd_epi32(sum, b, a) }
        splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        float(x: __m512i) -> __m512 { _mm512_cvtepi32_ps(x) }
        mul(x: __m512, y: __m512) -> __m512 { _mm512_mul_ps(x, y) }
        fma(x: __m512, y: __m512, z: __m512) -> __m512 { _mm512_fmadd_ps(x, y, z) }
        splat_wide(x: f64) -> __m512d { _mm512_set1_pd(x) }
        float_wide(x: __m512i, upper: bool) -> __m512d {
            _mm512_cvtepi32_pd(if upper { _mm512_extracti64x4_epi64::<1>(x) } else { _mm512_castsi512_si256(x) })
        }
        mul_wide(x: __m512d, y: __m512d) -> __m512d { _mm512_mul_pd(x, y) }
        fma_wide(x: __m512d, y: __m512d, z: __m512d) -> __m512d { _mm512_fmadd_pd(x, y, z) }
    }

    #[inline(always)]
    fn end(self, _start: i32, products: __m512i) -> __m512i {
        products
    }

    unsafe fn hard(self, how: &Hard<'_>, x: &Operands<'_>, steps: Range<usize>, rows: &[usize], c: &mut States) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            if how.to_zero {
                how.aligner.steps::<RZ>(self, x, steps, rows, c);
            } else {
                how.aligner.steps::<RNE>(self, x, steps, rows, c);
            }
        }
    }
}

/// AVX2: 16 bits hold the sum of every other product of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(());

impl Words {
    pub(super) fn new(isa: Isa) -> Option<Self> {
        // Processors with AVX-512 have it, too.
        (Avx2::new(isa).is_some() || Avx512::new(isa).is_some()).then_some(Self(()))
    }
}

impl Set for Words {
    const NAME: &'static str = "groups-i16";
    type Int = __m256i;
    type F32 = __m256;
    type F64 = __m256d;
    const LANES: usize = 8;
    const ROWS: usize = 2;

    apart!("avx2,fma,f16c");

    fn holds([a, b]: [i32; 2], group: usize) -> bool {
        // B's numbers are offset; every other product of a group falls into one sum.
        2 * b * a * (group / 2) as i32 <= i16::MAX.into()
    }

    memory! {
        load_bytes(from: *const u8) -> __m256i { _mm256_load_si256(from.cast()) }
        load(from: *const f32) -> __m256 { _mm256_load_ps(from) }
        store(to: *mut f32, x: __m256) -> () { _mm256_store_ps(to, x) }
        load_wide(from: *const f32) -> __m256d { _mm256_cvtps_pd(_mm_load_ps(from)) }
    }

    #[inline(always)]
    unsafe fn store_narrow<const ZERO: bool>(self, to: *mut f32, x: __m256d) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            // Bits that f32 has no place for are taken away.
            let kept = _mm256_castsi256_pd(_mm256_set1_epi64x(-1 << 29));
            _mm_store_ps(to, _mm256_cvtpd_ps(if ZERO { _mm256_and_pd(x, kept) } else { x }));
        }
    }

    #[inline(always)]
    fn add<const ZERO: bool>(self, x: __m256, y: __m256) -> __m256 {
        // SAFETY: `self` is the proof.
        unsafe {
            let sum = _mm256_add_ps(x, y);
            if !ZERO {
                return sum;
            }
            // What rounding left, without an error. Where it has the other sign, the sum is a place too large.
            let other = _mm256_sub_ps(sum, x);
            let rest = _mm256_add_ps(_mm256_sub_ps(x, _mm256_sub_ps(sum, other)), _mm256_sub_ps(y, other));
            let is = _mm256_cmp_ps::<_CMP_NEQ_OQ>(rest, _mm256_setzero_ps());
            let against = _mm256_srai_epi32::<31>(_mm256_castps_si256(_mm256_xor_ps(rest, sum)));
            let less = _mm256_and_si256(against, _mm256_castps_si256(is));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), less))
        }
    }

    operations! {
        words(x: i32) -> __m256i { _mm256_set1_epi32(x) }
        begin(_start: i32) -> __m256i { _mm256_setzero_si256() }
        dot(sum: __m256i, b: __m256i, a: __m256i) -> __m256i { _mm256_add_epi16(sum, _mm256_maddubs_epi16(b, a)) }
        end(start: i32, products: __m256i) -> __m256i {
            _mm256_add_epi32(_mm256_madd_epi16(products, _mm256_set1_epi16(1)), _mm256_set1_epi32(start))
        }
        splat(x: f32) -> __m256 { _mm256_set1_ps(x) }
        float(x: __m256i) -> __m256 { _mm256_cvtepi32_ps(x) }
        mul(x: __m256, y: __m256) -> __m256 { _mm256_mul_ps(x, y) }
        fma(x: __m256, y: __m256, z: __m256) -> __m256 { _mm256_fmadd_ps(x, y, z) }
        splat_wide(x: f64) -> __m256d { _mm256_set1_pd(x) }
        float_wide(x: __m256i, upper: bool) -> __m256d {
            _mm256_cvtepi32_pd(if upper { _mm256_extracti128_si256::<1>(x) } else { _mm256_castsi256_si128(x) })
        }
        mul_wide(x: __m256d, y: __m256d) -> __m256d { _mm256_mul_pd(x, y) }
        fma_wide(x: __m256d, y: __m256d, z: __m256d) -> __m256d { _mm256_fmadd_pd(x, y, z) }
    }

    unsafe fn hard(self, how: &Hard<'_>, x: &Operands<'_>, steps: Range<usize>, rows: &[usize], c: &mut States) {
        for column in (0..COLUMNS).step_by(unpacked::WIDTH) {
            self.apart(
                #[inline(always)]
                || unpacked::steps(how, x, steps.clone(), rows, column, c),
            );
        }
    }
}
