//! Chains whose FMAs round toward zero, up or down, on whole register tiles: AVX-512 says so in each instruction, AVX2
//! by the processor's rounding mode. And, on AVX-512, chains whose results are f16 or bf16: an FMA is rounded down and
//! up, to two neighbours of f32, one of which is odd; where it is not exact, that one, rounded again, is the narrow
//! result.

use super::MR;
use crate::format::{BF16, F16, FormatSpec};
use crate::round::Rounding;
use core::arch::asm;
use core::arch::x86_64::*;

/// How a chain's FMAs are rounded, if not to nearest even in f32 or f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// In f32 or f64.
    Directed(Directed),
    /// In another format; to nearest even without a direction.
    Narrow(Narrow, Option<Directed>),
}

/// Narrow results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrow {
    F16,
    Bf16,
}

impl Narrow {
    pub(super) fn new(format: &FormatSpec) -> Option<Self> {
        let is = |spec: FormatSpec| FormatSpec { name: spec.name, ..*format } == spec;
        if is(F16) { Some(Self::F16) } else { is(BF16).then_some(Self::Bf16) }
    }
}

/// IEEE's roundings that are not to the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directed {
    Down = 1,
    Up = 2,
    TowardZero = 3,
}

impl Directed {
    pub(super) const fn new(rounding: Rounding) -> Option<Self> {
        match rounding {
            Rounding::Down => Some(Self::Down),
            Rounding::Up => Some(Self::Up),
            Rounding::TowardZero => Some(Self::TowardZero),
            _ => None,
        }
    }

    /// MXCSR with this mode, and no exception that would interrupt.
    const fn mxcsr(self) -> u32 {
        0x1F80 | (self as u32) << 13
    }
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// Chains on all rows and columns of a tile: `d = $fma(a_k, b_k, d)`.
macro_rules! chain {
    ($name:ident, [$ty:ty; $lanes:literal], $splat:ident, $load:ident, $store:ident, $fma:expr) => {
        /// # Safety
        /// As many numbers are at each pointer of `a` as `b` is long.
        #[target_feature(enable = "avx512f")]
        unsafe fn $name<const HOW: i32>(a: [*const $ty; MR], b: &[[$ty; 4 * $lanes]], d: &mut [[$ty; 4 * $lanes]; MR]) {
            let mut sums = [[$splat(0.0); 4]; MR];
            for (sums, d) in sums.iter_mut().zip(&*d) {
                for (sum, d) in sums.iter_mut().zip(d.as_chunks::<$lanes>().0) {
                    // SAFETY: a vector of them.
                    *sum = unsafe { $load(d.as_ptr()) };
                }
            }
            for (k, b) in b.iter().enumerate() {
                let mut columns = [$splat(0.0); 4];
                for (column, b) in columns.iter_mut().zip(b.as_chunks::<$lanes>().0) {
                    // SAFETY: as above.
                    *column = unsafe { $load(b.as_ptr()) };
                }
                for r in 0..MR {
                    // SAFETY: the caller's promise.
                    let x = $splat(unsafe { *a[r].add(k) });
                    for v in 0..4 {
                        sums[r][v] = $fma(x, columns[v], sums[r][v]);
                    }
                }
            }
            for (sums, d) in sums.iter().zip(d) {
                for (sum, d) in sums.iter().zip(d.as_chunks_mut::<$lanes>().0) {
                    // SAFETY: as above.
                    unsafe { $store(d.as_mut_ptr(), *sum) }
                }
            }
        }
    };
}

#[rustfmt::skip]
chain!(in_f32, [f32; 16], _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_round_ps::<HOW>);
#[rustfmt::skip]
chain!(in_f64, [f64; 8], _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_round_pd::<HOW>);
#[rustfmt::skip]
chain!(in_f16, [f32; 16], _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, to_f16::<HOW>);
#[rustfmt::skip]
chain!(in_bf16, [f32; 16], _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, to_bf16::<HOW>);

/// `x * y + z` in f32, rounded to odd; an exact zero has the sign that it has when rounded `HOW`.
#[inline]
#[target_feature(enable = "avx512f")]
fn to_odd<const HOW: i32>(x: __m512, y: __m512, z: __m512) -> __m512 {
    let (down, up) = (_mm512_fmadd_round_ps::<DOWN>(x, y, z), _mm512_fmadd_round_ps::<UP>(x, y, z));
    let (exact, other) = if HOW == DOWN { (down, up) } else { (up, down) };
    let odd = _mm512_test_epi32_mask(_mm512_castps_si512(other), _mm512_set1_epi32(1));
    _mm512_mask_mov_ps(exact, odd, other)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_f16<const HOW: i32>(x: __m512, y: __m512, z: __m512) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtps_ph::<HOW>(to_odd::<HOW>(x, y, z)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_bf16<const HOW: i32>(x: __m512, y: __m512, z: __m512) -> __m512 {
    let sum = to_odd::<HOW>(x, y, z);
    let bits = _mm512_castps_si512(sum);
    // What carries into the last place that stays: by magnitudes.
    let all = _mm512_set1_epi32(0xFFFF);
    let carry = match HOW {
        DOWN => _mm512_and_si512(_mm512_srai_epi32::<31>(bits), all),
        UP => _mm512_andnot_si512(_mm512_srai_epi32::<31>(bits), all),
        TOWARD_ZERO => _mm512_setzero_si512(),
        _ => {
            let last = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF))
        }
    };
    let rounded = _mm512_and_si512(_mm512_add_epi32(bits, carry), _mm512_set1_epi32(!0xFFFF));
    let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(sum, sum);
    _mm512_mask_mov_ps(sum, number, _mm512_castsi512_ps(rounded))
}

/// `d = fma(a_k, b_k, d)` for every k of `b`, on all rows and columns.
///
/// # Safety
/// As many numbers are at each pointer of `a` as `b` is long.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn f32x16(how: Rounds, a: [*const f32; MR], b: &[[f32; 64]], d: &mut [[f32; 64]; MR]) {
    // SAFETY: the caller's promise.
    unsafe {
        match how {
            Rounds::Directed(Directed::Down) => in_f32::<DOWN>(a, b, d),
            Rounds::Directed(Directed::Up) => in_f32::<UP>(a, b, d),
            Rounds::Directed(Directed::TowardZero) => in_f32::<TOWARD_ZERO>(a, b, d),
            Rounds::Narrow(Narrow::F16, None) => in_f16::<NEAREST>(a, b, d),
            Rounds::Narrow(Narrow::F16, Some(Directed::Down)) => in_f16::<DOWN>(a, b, d),
            Rounds::Narrow(Narrow::F16, Some(Directed::Up)) => in_f16::<UP>(a, b, d),
            Rounds::Narrow(Narrow::F16, Some(Directed::TowardZero)) => in_f16::<TOWARD_ZERO>(a, b, d),
            Rounds::Narrow(Narrow::Bf16, None) => in_bf16::<NEAREST>(a, b, d),
            Rounds::Narrow(Narrow::Bf16, Some(Directed::Down)) => in_bf16::<DOWN>(a, b, d),
            Rounds::Narrow(Narrow::Bf16, Some(Directed::Up)) => in_bf16::<UP>(a, b, d),
            Rounds::Narrow(Narrow::Bf16, Some(Directed::TowardZero)) => in_bf16::<TOWARD_ZERO>(a, b, d),
        }
    }
}

/// The same in f64.
///
/// # Safety
/// As for `f32x16`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn f64x8(how: Rounds, a: [*const f64; MR], b: &[[f64; 32]], d: &mut [[f64; 32]; MR]) {
    // SAFETY: the caller's promise.
    unsafe {
        match directed(how) {
            Directed::Down => in_f64::<DOWN>(a, b, d),
            Directed::Up => in_f64::<UP>(a, b, d),
            Directed::TowardZero => in_f64::<TOWARD_ZERO>(a, b, d),
        }
    }
}

fn directed(how: Rounds) -> Directed {
    let Rounds::Directed(how) = how else { unreachable!("narrow results are chosen for AVX-512's f32 alone") };
    how
}

/// A row's products with both vectors of B.
macro_rules! row {
    ($type:literal, $size:literal, $a:literal, $first:literal, $second:literal) => {
        concat!(
            concat!("vbroadcasts", $type, " ymm14, [{", $a, "} + ", $size, "*{k}]\n"),
            concat!("vfmadd231p", $type, " ", $first, ", ymm14, ymm12\n"),
            concat!("vfmadd231p", $type, " ", $second, ", ymm14, ymm13"),
        )
    };
}

macro_rules! avx2 {
    ($name:ident: [$ty:ty; $lanes:literal], $type:literal, $size:literal) => {
        /// `d = fma(a_k, b_k, d)` for every k of `b`, on all rows and columns.
        ///
        /// # Safety
        /// As many numbers are at each pointer of `a` as `b` is long.
        #[target_feature(enable = "avx2,fma")]
        pub(super) unsafe fn $name(
            how: Rounds,
            a: [*const $ty; MR],
            b: &[[$ty; 2 * $lanes]],
            d: &mut [[$ty; 2 * $lanes]; MR],
        ) {
            if b.is_empty() {
                return;
            }
            let mut control = [directed(how).mxcsr(), 0];
            // SAFETY: reads `a` as the caller promises, `b` and `d` within bounds: rows of 64 bytes. MXCSR is on exit
            // what it was on entry, as the language asks, and between its two writes there are only the instructions
            // below, which want the mode they run under.
            unsafe {
                asm!(
                    "vstmxcsr [{control} + 4]",
                    "vldmxcsr [{control}]",
                    "vmovups ymm0, [{d}]",
                    "vmovups ymm1, [{d} + 32]",
                    "vmovups ymm2, [{d} + 64]",
                    "vmovups ymm3, [{d} + 96]",
                    "vmovups ymm4, [{d} + 128]",
                    "vmovups ymm5, [{d} + 160]",
                    "vmovups ymm6, [{d} + 192]",
                    "vmovups ymm7, [{d} + 224]",
                    "vmovups ymm8, [{d} + 256]",
                    "vmovups ymm9, [{d} + 288]",
                    "vmovups ymm10, [{d} + 320]",
                    "vmovups ymm11, [{d} + 352]",
                    "2:",
                    "vmovups ymm12, [{b}]",
                    "vmovups ymm13, [{b} + 32]",
                    row!($type, $size, "a0", "ymm0", "ymm1"),
                    row!($type, $size, "a1", "ymm2", "ymm3"),
                    row!($type, $size, "a2", "ymm4", "ymm5"),
                    row!($type, $size, "a3", "ymm6", "ymm7"),
                    row!($type, $size, "a4", "ymm8", "ymm9"),
                    row!($type, $size, "a5", "ymm10", "ymm11"),
                    "add {b}, 64",
                    "inc {k}",
                    "cmp {k}, {n}",
                    "jb 2b",
                    "vmovups [{d}], ymm0",
                    "vmovups [{d} + 32], ymm1",
                    "vmovups [{d} + 64], ymm2",
                    "vmovups [{d} + 96], ymm3",
                    "vmovups [{d} + 128], ymm4",
                    "vmovups [{d} + 160], ymm5",
                    "vmovups [{d} + 192], ymm6",
                    "vmovups [{d} + 224], ymm7",
                    "vmovups [{d} + 256], ymm8",
                    "vmovups [{d} + 288], ymm9",
                    "vmovups [{d} + 320], ymm10",
                    "vmovups [{d} + 352], ymm11",
                    "vldmxcsr [{control} + 4]",
                    control = in(reg) control.as_mut_ptr(),
                    d = in(reg) d.as_mut_ptr(),
                    b = inout(reg) b.as_ptr() => _,
                    k = inout(reg) 0usize => _,
                    n = in(reg) b.len(),
                    a0 = in(reg) a[0],
                    a1 = in(reg) a[1],
                    a2 = in(reg) a[2],
                    a3 = in(reg) a[3],
                    a4 = in(reg) a[4],
                    a5 = in(reg) a[5],
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _,
                    out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _,
                    out("ymm10") _, out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _,
                    options(nostack)
                );
            }
        }
    };
}

avx2!(f32x8: [f32; 8], "s", "4");
avx2!(f64x4: [f64; 4], "d", "8");
