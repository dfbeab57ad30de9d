//! What register tiles ask of an instruction set: f32 and f64 in vectors, rounded to nearest even.

use crate::format::F16;
use crate::simd::decode::from_ieee;
use crate::simd::lanes::each;
use crate::simd::ops::{apart, memory, operations};
use crate::simd::{Avx2, Avx512, Sse2};
use core::arch::x86_64::*;
use core::fmt::Debug;

/// Ternary logic: `a | b | c`.
const OR: i32 = 0xFE;
/// `vrangepd`: the smaller magnitude, without its sign.
const SMALLER: i32 = 0b10_10;
/// `vfpclassps`: subnormal numbers.
const DENORMAL: i32 = 0x20;
/// A rounding of its own: the usual one, but no flag is raised.
const QUIET: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
/// What rounding to 24 bits adds to an f64's bits, beside their last kept one, and the bits that it then keeps.
const HALF: i64 = (1 << 28) - 1;
const KEPT: i64 = -1 << 29;

/// An instruction set, whose value is the proof that it is there.
pub(super) trait Set: Copy + Debug + Send + Sync + 'static {
    /// Vectors.
    type F32: Copy;
    type F64: Copy;
    /// f64 in a vector; of f32 there are twice as many.
    const LANES: usize;
    /// Rows whose states, two vectors of f64 each, registers hold beside operands.
    const ROWS: usize;
    /// Whether rounding to integers is one instruction.
    const NATIVE: bool;

    /// Does work in a function of its own that is compiled for the set, if the work and all it calls is inlined.
    fn apart<R>(self, work: impl FnOnce() -> R) -> R;

    /// A vector from memory, or to it, aligned to its size.
    ///
    /// # Safety
    /// The pointer leads to as many numbers.
    unsafe fn load_f32(self, from: *const f32) -> Self::F32;
    /// # Safety
    /// As `load_f32`.
    unsafe fn store_f32(self, to: *mut f32, x: Self::F32);
    /// # Safety
    /// As `load_f32`.
    unsafe fn load(self, from: *const f64) -> Self::F64;
    /// # Safety
    /// As `load_f32`.
    unsafe fn store(self, to: *mut f64, x: Self::F64);
    /// `LANES` f32 as f64, and back, rounded.
    ///
    /// # Safety
    /// As `load_f32`, but without the alignment.
    unsafe fn load_wide(self, from: *const f32) -> Self::F64;
    /// # Safety
    /// As `load_wide`.
    unsafe fn store_narrow(self, to: *mut f32, x: Self::F64);

    /// The numbers of f16 codes.
    #[inline(always)]
    fn halves(self, codes: [u16; 8]) -> [f32; 8] {
        each(codes, |code| from_ieee(&F16, code.into()))
    }
    fn splat_f32(self, x: f32) -> Self::F32;
    fn mul_f32(self, x: Self::F32, y: Self::F32) -> Self::F32;
    fn add_f32(self, x: Self::F32, y: Self::F32) -> Self::F32;
    /// `x * y + z`, where the product is exact: then it does not matter whether it is rounded, too.
    fn fma_f32(self, x: Self::F32, y: Self::F32, z: Self::F32) -> Self::F32;
    /// Zeros of their sign for subnormal numbers.
    fn flush_f32(self, x: Self::F32) -> Self::F32;
    /// `y`, or a zero of its sign where that is below a magnitude, given as its bits.
    fn unless_below_f32(self, y: Self::F32, least: u32) -> Self::F32;

    fn splat(self, x: f64) -> Self::F64;
    fn add(self, x: Self::F64, y: Self::F64) -> Self::F64;
    fn sub(self, x: Self::F64, y: Self::F64) -> Self::F64;
    fn mul(self, x: Self::F64, y: Self::F64) -> Self::F64;
    fn min(self, x: Self::F64, y: Self::F64) -> Self::F64;
    /// The smaller magnitude of two numbers the first of which is not negative.
    fn smaller(self, x: Self::F64, y: Self::F64) -> Self::F64;
    /// Minus the magnitude.
    fn negative(self, x: Self::F64) -> Self::F64;
    /// The power of two at or below the magnitude.
    fn power(self, x: Self::F64) -> Self::F64;
    /// `x * y + z`, as `fma_f32`.
    fn fma(self, x: Self::F64, y: Self::F64, z: Self::F64) -> Self::F64;
    /// The same; where the set has a way, no flag is raised.
    fn quiet_fma(self, x: Self::F64, y: Self::F64, z: Self::F64) -> Self::F64;
    /// Rounds to 24 bits, ties to even, and raises no flag. -0 may become +0.
    fn round(self, x: Self::F64) -> Self::F64;
    /// The bits of all three.
    fn or(self, x: Self::F64, y: Self::F64, z: Self::F64) -> Self::F64;
    /// Whether the first bit of every exponent field is 0: magnitudes are below 2.
    fn below_two(self, x: Self::F64) -> bool;
    /// Whether all are less, or equal; NaN is neither.
    fn all_less(self, x: Self::F64, y: Self::F64) -> bool;
    fn all_equal(self, x: Self::F64, y: Self::F64) -> bool;
    /// The first so many lanes of `x`, the others of `y`.
    fn first(self, lanes: usize, x: Self::F64, y: Self::F64) -> Self::F64;
}

impl Set for Avx512 {
    type F32 = __m512;
    type F64 = __m512d;
    const LANES: usize = 8;
    const ROWS: usize = 8;
    const NATIVE: bool = true;

    apart!("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c");

    memory! {
        load_f32(from: *const f32) -> __m512 { _mm512_load_ps(from) }
        store_f32(to: *mut f32, x: __m512) -> () { _mm512_store_ps(to, x) }
        load(from: *const f64) -> __m512d { _mm512_load_pd(from) }
        store(to: *mut f64, x: __m512d) -> () { _mm512_store_pd(to, x) }
        load_wide(from: *const f32) -> __m512d { _mm512_cvtps_pd(_mm256_loadu_ps(from)) }
        store_narrow(to: *mut f32, x: __m512d) -> () { _mm256_storeu_ps(to, _mm512_cvtpd_ps(x)) }
    }

    operations! {
        halves(codes: [u16; 8]) -> [f32; 8] {
            let mut numbers = [0.0; 8];
            _mm256_storeu_ps(numbers.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(codes.as_ptr().cast())));
            numbers
        }
        splat_f32(x: f32) -> __m512 { _mm512_set1_ps(x) }
        mul_f32(x: __m512, y: __m512) -> __m512 { _mm512_mul_ps(x, y) }
        add_f32(x: __m512, y: __m512) -> __m512 { _mm512_add_ps(x, y) }
        fma_f32(x: __m512, y: __m512, z: __m512) -> __m512 { _mm512_fmadd_ps(x, y, z) }
        flush_f32(x: __m512) -> __m512 {
            _mm512_mask_and_ps(x, _mm512_fpclass_ps_mask::<DENORMAL>(x), x, _mm512_set1_ps(-0.0))
        }
        unless_below_f32(y: __m512, least: u32) -> __m512 {
            let magnitude = _mm512_castps_si512(_mm512_abs_ps(y));
            let below = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(least as i32));
            _mm512_mask_and_ps(y, below, y, _mm512_set1_ps(-0.0))
        }
        splat(x: f64) -> __m512d { _mm512_set1_pd(x) }
        add(x: __m512d, y: __m512d) -> __m512d { _mm512_add_pd(x, y) }
        sub(x: __m512d, y: __m512d) -> __m512d { _mm512_sub_pd(x, y) }
        mul(x: __m512d, y: __m512d) -> __m512d { _mm512_mul_pd(x, y) }
        min(x: __m512d, y: __m512d) -> __m512d { _mm512_min_pd(x, y) }
        smaller(x: __m512d, y: __m512d) -> __m512d { _mm512_range_pd::<SMALLER>(x, y) }
        negative(x: __m512d) -> __m512d { _mm512_or_pd(x, _mm512_set1_pd(-0.0)) }
        power(x: __m512d) -> __m512d { _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY)) }
        fma(x: __m512d, y: __m512d, z: __m512d) -> __m512d { _mm512_fmadd_pd(x, y, z) }
        quiet_fma(x: __m512d, y: __m512d, z: __m512d) -> __m512d { _mm512_fmadd_round_pd::<QUIET>(x, y, z) }
        round(x: __m512d) -> __m512d {
            // A number whose last place is 2^29 of the sum's: added, and taken away again.
            let power = _mm512_and_pd(x, _mm512_set1_pd(f64::INFINITY));
            // (`fnmadd` would become an operation more, for the power's sign.)
            const MAGIC: f64 = 1.5 * (1u64 << 29) as f64;
            let [magic, minus] = [_mm512_set1_pd(MAGIC), _mm512_set1_pd(-MAGIC)];
            _mm512_fmadd_round_pd::<QUIET>(power, minus, _mm512_fmadd_round_pd::<QUIET>(power, magic, x))
        }
        or(x: __m512d, y: __m512d, z: __m512d) -> __m512d {
            let [x, y, z] = [_mm512_castpd_si512(x), _mm512_castpd_si512(y), _mm512_castpd_si512(z)];
            _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<OR>(x, y, z))
        }
        below_two(x: __m512d) -> bool {
            _mm512_test_epi64_mask(_mm512_castpd_si512(x), _mm512_set1_epi64(1 << 62)) == 0
        }
        all_less(x: __m512d, y: __m512d) -> bool { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, y) == !0 }
        all_equal(x: __m512d, y: __m512d) -> bool { _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(x, y) == !0 }
        first(lanes: usize, x: __m512d, y: __m512d) -> __m512d {
            _mm512_mask_mov_pd(y, ((1u32 << lanes.min(8)) - 1) as __mmask8, x)
        }
    }
}

impl Set for Avx2 {
    type F32 = __m256;
    type F64 = __m256d;
    const LANES: usize = 4;
    const ROWS: usize = 4;
    const NATIVE: bool = true;

    apart!("avx2,fma,f16c");

    memory! {
        load_f32(from: *const f32) -> __m256 { _mm256_load_ps(from) }
        store_f32(to: *mut f32, x: __m256) -> () { _mm256_store_ps(to, x) }
        load(from: *const f64) -> __m256d { _mm256_load_pd(from) }
        store(to: *mut f64, x: __m256d) -> () { _mm256_store_pd(to, x) }
        load_wide(from: *const f32) -> __m256d { _mm256_cvtps_pd(_mm_loadu_ps(from)) }
        store_narrow(to: *mut f32, x: __m256d) -> () { _mm_storeu_ps(to, _mm256_cvtpd_ps(x)) }
    }

    operations! {
        halves(codes: [u16; 8]) -> [f32; 8] {
            let mut numbers = [0.0; 8];
            _mm256_storeu_ps(numbers.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(codes.as_ptr().cast())));
            numbers
        }
        splat_f32(x: f32) -> __m256 { _mm256_set1_ps(x) }
        mul_f32(x: __m256, y: __m256) -> __m256 { _mm256_mul_ps(x, y) }
        add_f32(x: __m256, y: __m256) -> __m256 { _mm256_add_ps(x, y) }
        fma_f32(x: __m256, y: __m256, z: __m256) -> __m256 { _mm256_fmadd_ps(x, y, z) }
        flush_f32(x: __m256) -> __m256 {
            let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
            let below = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(f32::MIN_POSITIVE));
            _mm256_andnot_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), below), x)
        }
        unless_below_f32(y: __m256, least: u32) -> __m256 {
            let sign = _mm256_set1_epi32(i32::MIN);
            let magnitude = _mm256_andnot_si256(sign, _mm256_castps_si256(y));
            let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(least as i32), magnitude);
            _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_andnot_si256(sign, below)), y)
        }
        splat(x: f64) -> __m256d { _mm256_set1_pd(x) }
        add(x: __m256d, y: __m256d) -> __m256d { _mm256_add_pd(x, y) }
        sub(x: __m256d, y: __m256d) -> __m256d { _mm256_sub_pd(x, y) }
        mul(x: __m256d, y: __m256d) -> __m256d { _mm256_mul_pd(x, y) }
        min(x: __m256d, y: __m256d) -> __m256d { _mm256_min_pd(x, y) }
        smaller(x: __m256d, y: __m256d) -> __m256d { _mm256_min_pd(x, _mm256_andnot_pd(_mm256_set1_pd(-0.0), y)) }
        negative(x: __m256d) -> __m256d { _mm256_or_pd(x, _mm256_set1_pd(-0.0)) }
        power(x: __m256d) -> __m256d { _mm256_and_pd(x, _mm256_set1_pd(f64::INFINITY)) }
        fma(x: __m256d, y: __m256d, z: __m256d) -> __m256d { _mm256_fmadd_pd(x, y, z) }
        quiet_fma(x: __m256d, y: __m256d, z: __m256d) -> __m256d { _mm256_fmadd_pd(x, y, z) }
        round(x: __m256d) -> __m256d {
            // Less than half of the last place that stays is added to an even one, half to an odd one.
            let bits = _mm256_castpd_si256(x);
            let odd = _mm256_and_si256(_mm256_srli_epi64::<29>(bits), _mm256_set1_epi64x(1));
            let up = _mm256_add_epi64(_mm256_add_epi64(bits, _mm256_set1_epi64x(HALF)), odd);
            _mm256_castsi256_pd(_mm256_and_si256(up, _mm256_set1_epi64x(KEPT)))
        }
        or(x: __m256d, y: __m256d, z: __m256d) -> __m256d { _mm256_or_pd(_mm256_or_pd(x, y), z) }
        below_two(x: __m256d) -> bool {
            _mm256_testz_si256(_mm256_castpd_si256(x), _mm256_set1_epi64x(1 << 62)) == 1
        }
        all_less(x: __m256d, y: __m256d) -> bool { _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(x, y)) == 0xF }
        all_equal(x: __m256d, y: __m256d) -> bool { _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_EQ_OQ>(x, y)) == 0xF }
        first(lanes: usize, x: __m256d, y: __m256d) -> __m256d {
            let meant = _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes as i64), _mm256_set_epi64x(3, 2, 1, 0));
            _mm256_blendv_pd(y, x, _mm256_castsi256_pd(meant))
        }
    }
}

impl Set for Sse2 {
    type F32 = __m128;
    type F64 = __m128d;
    const LANES: usize = 2;
    const ROWS: usize = 4;
    const NATIVE: bool = false;

    apart!("sse2");

    memory! {
        load_f32(from: *const f32) -> __m128 { _mm_load_ps(from) }
        store_f32(to: *mut f32, x: __m128) -> () { _mm_store_ps(to, x) }
        load(from: *const f64) -> __m128d { _mm_load_pd(from) }
        store(to: *mut f64, x: __m128d) -> () { _mm_store_pd(to, x) }
        load_wide(from: *const f32) -> __m128d { _mm_set_pd((*from.add(1)).into(), (*from).into()) }
        store_narrow(to: *mut f32, x: __m128d) -> () { _mm_storel_epi64(to.cast(), _mm_castps_si128(_mm_cvtpd_ps(x))) }
    }

    operations! {
        splat_f32(x: f32) -> __m128 { _mm_set1_ps(x) }
        mul_f32(x: __m128, y: __m128) -> __m128 { _mm_mul_ps(x, y) }
        add_f32(x: __m128, y: __m128) -> __m128 { _mm_add_ps(x, y) }
        fma_f32(x: __m128, y: __m128, z: __m128) -> __m128 { _mm_add_ps(_mm_mul_ps(x, y), z) }
        flush_f32(x: __m128) -> __m128 {
            let magnitude = _mm_andnot_ps(_mm_set1_ps(-0.0), x);
            let below = _mm_cmplt_ps(magnitude, _mm_set1_ps(f32::MIN_POSITIVE));
            _mm_andnot_ps(_mm_andnot_ps(_mm_set1_ps(-0.0), below), x)
        }
        unless_below_f32(y: __m128, least: u32) -> __m128 {
            let sign = _mm_set1_epi32(i32::MIN);
            let magnitude = _mm_andnot_si128(sign, _mm_castps_si128(y));
            let below = _mm_cmpgt_epi32(_mm_set1_epi32(least as i32), magnitude);
            _mm_andnot_ps(_mm_castsi128_ps(_mm_andnot_si128(sign, below)), y)
        }
        splat(x: f64) -> __m128d { _mm_set1_pd(x) }
        add(x: __m128d, y: __m128d) -> __m128d { _mm_add_pd(x, y) }
        sub(x: __m128d, y: __m128d) -> __m128d { _mm_sub_pd(x, y) }
        mul(x: __m128d, y: __m128d) -> __m128d { _mm_mul_pd(x, y) }
        min(x: __m128d, y: __m128d) -> __m128d { _mm_min_pd(x, y) }
        smaller(x: __m128d, y: __m128d) -> __m128d { _mm_min_pd(x, _mm_andnot_pd(_mm_set1_pd(-0.0), y)) }
        negative(x: __m128d) -> __m128d { _mm_or_pd(x, _mm_set1_pd(-0.0)) }
        power(x: __m128d) -> __m128d { _mm_and_pd(x, _mm_set1_pd(f64::INFINITY)) }
        fma(x: __m128d, y: __m128d, z: __m128d) -> __m128d { _mm_add_pd(_mm_mul_pd(x, y), z) }
        quiet_fma(x: __m128d, y: __m128d, z: __m128d) -> __m128d { _mm_add_pd(_mm_mul_pd(x, y), z) }
        round(x: __m128d) -> __m128d {
            // As on AVX2.
            let bits = _mm_castpd_si128(x);
            let odd = _mm_and_si128(_mm_srli_epi64::<29>(bits), _mm_set1_epi64x(1));
            let up = _mm_add_epi64(_mm_add_epi64(bits, _mm_set1_epi64x(HALF)), odd);
            _mm_castsi128_pd(_mm_and_si128(up, _mm_set1_epi64x(KEPT)))
        }
        or(x: __m128d, y: __m128d, z: __m128d) -> __m128d { _mm_or_pd(_mm_or_pd(x, y), z) }
        below_two(x: __m128d) -> bool {
            // The bit is brought to where a sign would be.
            _mm_movemask_pd(_mm_castsi128_pd(_mm_slli_epi64::<1>(_mm_castpd_si128(x)))) == 0
        }
        all_less(x: __m128d, y: __m128d) -> bool { _mm_movemask_pd(_mm_cmplt_pd(x, y)) == 3 }
        all_equal(x: __m128d, y: __m128d) -> bool { _mm_movemask_pd(_mm_cmpeq_pd(x, y)) == 3 }
        first(lanes: usize, x: __m128d, y: __m128d) -> __m128d {
            match lanes {
                0 => y,
                // The upper lane of `y`.
                1 => _mm_move_sd(y, x),
                _ => x,
            }
        }
    }
}
