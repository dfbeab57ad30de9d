//! The only code that runs under a changed rounding mode: the FMA loops of the AVX2 kernel, in assembly.
//!
//! AVX2 has no rounding mode per instruction. Each block here sets MXCSR to round toward zero, with
//! exceptions masked, does all that needs it for 8 rows by 64 columns, and sets MXCSR back to what it
//! was. Compiled code therefore never runs under another mode than the one it may rely on, and the two
//! writes are spread over some hundred FMAs. They are VEX-encoded: the old encoding costs some 200 cycles
//! where upper halves of registers are in use.

#![allow(unsafe_code, reason = "assembly")]

use super::{MR, NR};
use core::arch::asm;
use core::arch::x86_64::{__m256i, _mm256_set1_epi64x};
use core::mem::MaybeUninit;

/// What passes between the vector code and the assembly, 2 KiB each.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Buffers {
    /// `1.5 * 2^e_max`, as f32.
    pub(super) top: [MaybeUninit<u32>; MR * NR],
    /// f64: what to add to the sums; then the sums in units of q.
    pub(super) more: [MaybeUninit<u32>; MR * NR],
    /// f64: the sums as f32, rounded toward zero. f32: the accumulators.
    pub(super) rounded: [MaybeUninit<f32>; MR * NR],
    /// Even and odd accumulators' bits in one: see `OFFSET`.
    pub(super) bits: [MaybeUninit<u32>; MR * NR],
}

/// Sums that are watched begin here, so that bits 31 to 50 show when one leaves 31 bits.
pub(super) const OFFSET: i64 = 1 << 30;

/// MXCSR: round toward zero, all exceptions masked, no subnormal flushed; and all exceptions flagged, for the first that
/// is newly flagged costs some 200 cycles.
const ROUND_TO_ZERO: u32 = 0x7FBF;

/// What the assembly reads besides pointers.
#[repr(C)]
struct Control {
    mxcsr: u32,
    saved: u32,
    /// L.
    length: u64,
    vectors: u64,
    /// Bytes from the end of one four rows' buffers to the next four.
    skip: u64,
}

impl Control {
    const fn new(length: usize, vectors: usize) -> Self {
        let skip = (4 * NR * 4 - 64 * vectors) as u64;
        Self { mxcsr: ROUND_TO_ZERO, saved: 0, length: length as u64, vectors: vectors as u64, skip }
    }
}

/// Rows times a step of K: the bodies of the loops, `$i` steps on.
macro_rules! f64_products {
    ($($i:literal)*) => { concat!($(
        "vmovapd ymm8, [{bp} + 128*", $i, "]\n",
        "vmovapd ymm9, [{bp} + 128*", $i, " + 64]\n",
        "vbroadcastsd ymm10, [{a} + 8*", $i, "]\n",
        "vbroadcastsd ymm11, [{a} + {s} + 8*", $i, "]\n",
        "vbroadcastsd ymm12, [{a} + 2*{s} + 8*", $i, "]\n",
        "vbroadcastsd ymm13, [{a} + {s3} + 8*", $i, "]\n",
        "vfmadd231pd ymm0, ymm10, ymm8\n",
        "vfmadd231pd ymm1, ymm10, ymm9\n",
        "vfmadd231pd ymm2, ymm11, ymm8\n",
        "vfmadd231pd ymm3, ymm11, ymm9\n",
        "vfmadd231pd ymm4, ymm12, ymm8\n",
        "vfmadd231pd ymm5, ymm12, ymm9\n",
        "vfmadd231pd ymm6, ymm13, ymm8\n",
        "vfmadd231pd ymm7, ymm13, ymm9\n",
    )*) };
}

macro_rules! f32_products {
    ($($i:literal)*) => { concat!($(
        "vmovaps ymm8, [{bp} + 64*", $i, "]\n",
        "vmovaps ymm9, [{bp} + 64*", $i, " + 32]\n",
        "vbroadcastss ymm10, [{a} + 4*", $i, "]\n",
        "vbroadcastss ymm11, [{a} + {s} + 4*", $i, "]\n",
        "vbroadcastss ymm12, [{a} + 2*{s} + 4*", $i, "]\n",
        "vbroadcastss ymm13, [{a} + {s3} + 4*", $i, "]\n",
        "vfmadd231ps ymm0, ymm10, ymm8\n",
        "vfmadd231ps ymm1, ymm10, ymm9\n",
        "vfmadd231ps ymm2, ymm11, ymm8\n",
        "vfmadd231ps ymm3, ymm11, ymm9\n",
        "vfmadd231ps ymm4, ymm12, ymm8\n",
        "vfmadd231ps ymm5, ymm12, ymm9\n",
        "vfmadd231ps ymm6, ymm13, ymm8\n",
        "vfmadd231ps ymm7, ymm13, ymm9\n",
    )*) };
}

/// A row's f64 accumulators: the exponent field of `top` moves from bit 23 to 52. The odd ones' low words are `ymm15`.
macro_rules! f64_start {
    ($row:literal, $even:literal, $odd:literal) => {
        concat!(
            "vmovdqa ymm8, [{buf} + 256*",
            $row,
            "]\n",
            "vpsllq ",
            $even,
            ", ymm8, 29\n",
            "vpsrlq ymm8, ymm8, 3\n",
            "vpblendd ",
            $odd,
            ", ymm15, ymm8, 0xAA\n",
        )
    };
}

/// The low words of a row's accumulators are the sums; more is added, and all are rounded to f32.
macro_rules! f64_end {
    ($row:literal, $even:literal, $odd:literal) => {
        concat!(
            ".if {check}\n",
            "vpor ymm9, ",
            $even,
            ", ",
            $odd,
            "\n",
            "vmovdqa [{buf} + 256*",
            $row,
            " + 6144], ymm9\n",
            ".endif\n",
            "vmovsldup ymm8, ",
            $odd,
            "\n",
            "vpblendd ",
            $even,
            ", ",
            $even,
            ", ymm8, 0xAA\n",
            "vpaddd ",
            $even,
            ", ",
            $even,
            ", [{buf} + 256*",
            $row,
            " + 2048]\n",
            "vmovdqa [{buf} + 256*",
            $row,
            " + 2048], ",
            $even,
            "\n",
            "vcvtdq2ps ",
            $even,
            ", ",
            $even,
            "\n",
            "vmovaps [{buf} + 256*",
            $row,
            " + 4096], ",
            $even,
            "\n",
        )
    };
}

/// Four rows by 8 columns, from `bp` on.
macro_rules! f64_tile {
    () => {
        concat!(
            f64_start!("0", "ymm0", "ymm1"),
            f64_start!("1", "ymm2", "ymm3"),
            f64_start!("2", "ymm4", "ymm5"),
            f64_start!("3", "ymm6", "ymm7"),
            "mov {k}, [{ctl} + 8]\n",
            ".if {unroll} == 4\n",
            "4:\n",
            f64_products!("0" "1" "2" "3"),
            "add {a}, 32\n",
            "add {bp}, 512\n",
            "sub {k}, 4\n",
            "jnz 4b\n",
            ".else\n",
            "4:\n",
            f64_products!("0"),
            "add {a}, 8\n",
            "add {bp}, 128\n",
            "dec {k}\n",
            "jnz 4b\n",
            ".endif\n",
            "sub {a}, {s}\n",
            f64_end!("0", "ymm0", "ymm1"),
            f64_end!("1", "ymm2", "ymm3"),
            f64_end!("2", "ymm4", "ymm5"),
            f64_end!("3", "ymm6", "ymm7"),
            "add {buf}, 32\n",
        )
    };
}

/// The sums of a step of `length` products, f64 accumulators, 8 rows by `vectors` times 16 columns:
/// `more += sums`, `rounded = more` rounded toward zero, and with `CHECK` `bits`.
///
/// # Safety
/// `UNROLL` is 1, or 4 where it divides `length`, which is not 0; `vectors` is 1 to 4. `a` and `b` point into the step's
/// panels, `top` and `more` of the columns are filled.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sums_f64<const UNROLL: usize, const CHECK: bool>(
    buffers: *mut Buffers,
    a: *const f64,
    b: *const f64,
    length: usize,
    vectors: usize,
) {
    let mut control = Control::new(length, vectors);
    let offset: __m256i = _mm256_set1_epi64x(if CHECK { OFFSET } else { 0 });
    // SAFETY: reads and writes panels, buffers and `control` within their bounds, as the caller promises. MXCSR's control
    // bits are on exit what they were on entry, as the language asks (the flags of exceptions may be left set), and
    // between its two writes there are only the instructions below, which want the mode they run under.
    unsafe {
        asm!(
            "vstmxcsr [{ctl} + 4]",
            "or dword ptr [{ctl} + 4], 63",
            "vldmxcsr [{ctl}]",
            "mov {rows:e}, 2",
            "2:",
            "mov {bs}, {b}",
            "mov {n}, [{ctl} + 16]",
            "3:",
            "mov {bp}, {bs}",
            f64_tile!(),
            "lea {bp}, [{bs} + 32]",
            f64_tile!(),
            "lea {bs}, [{bp} - 32]",
            "dec {n}",
            "jnz 3b",
            "lea {a}, [{a} + 4*{s}]",
            "add {buf}, [{ctl} + 24]",
            "dec {rows:e}",
            "jnz 2b",
            "vldmxcsr [{ctl} + 4]",
            check = const CHECK as u32,
            unroll = const UNROLL,
            ctl = in(reg) &raw mut control,
            buf = inout(reg) buffers => _,
            a = inout(reg) a => _,
            b = in(reg) b,
            s = in(reg) 8 * length,
            s3 = in(reg) 24 * length,
            bs = out(reg) _,
            bp = out(reg) _,
            k = out(reg) _,
            n = out(reg) _,
            rows = out(reg) _,
            in("ymm15") offset,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
            out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
            out("ymm13") _,
            options(nostack),
        );
    }
}

/// The accumulators of a step of `length` products, f32 accumulators that begin at `top`: `rounded`.
///
/// # Safety
/// As `sums_f64`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sums_f32<const UNROLL: usize>(
    buffers: *mut Buffers,
    a: *const f32,
    b: *const f32,
    length: usize,
    vectors: usize,
) {
    let mut control = Control::new(length, vectors);
    // SAFETY: as in `sums_f64`.
    unsafe {
        asm!(
            "vstmxcsr [{ctl} + 4]",
            "or dword ptr [{ctl} + 4], 63",
            "vldmxcsr [{ctl}]",
            "mov {rows:e}, 2",
            "2:",
            "mov {bp}, {b}",
            "mov {n}, [{ctl} + 16]",
            "3:",
            "vmovaps ymm0, [{buf}]",
            "vmovaps ymm1, [{buf} + 32]",
            "vmovaps ymm2, [{buf} + 256]",
            "vmovaps ymm3, [{buf} + 288]",
            "vmovaps ymm4, [{buf} + 512]",
            "vmovaps ymm5, [{buf} + 544]",
            "vmovaps ymm6, [{buf} + 768]",
            "vmovaps ymm7, [{buf} + 800]",
            "mov {k}, [{ctl} + 8]",
            ".if {unroll} == 4",
            "4:",
            f32_products!("0" "1" "2" "3"),
            "add {a}, 16",
            "add {bp}, 256",
            "sub {k}, 4",
            "jnz 4b",
            ".else",
            "4:",
            f32_products!("0"),
            "add {a}, 4",
            "add {bp}, 64",
            "dec {k}",
            "jnz 4b",
            ".endif",
            "sub {a}, {s}",
            "vmovaps [{buf} + 4096], ymm0",
            "vmovaps [{buf} + 4128], ymm1",
            "vmovaps [{buf} + 4352], ymm2",
            "vmovaps [{buf} + 4384], ymm3",
            "vmovaps [{buf} + 4608], ymm4",
            "vmovaps [{buf} + 4640], ymm5",
            "vmovaps [{buf} + 4864], ymm6",
            "vmovaps [{buf} + 4896], ymm7",
            "add {buf}, 64",
            "dec {n}",
            "jnz 3b",
            "lea {a}, [{a} + 4*{s}]",
            "add {buf}, [{ctl} + 24]",
            "dec {rows:e}",
            "jnz 2b",
            "vldmxcsr [{ctl} + 4]",
            unroll = const UNROLL,
            ctl = in(reg) &raw mut control,
            buf = inout(reg) buffers => _,
            a = inout(reg) a => _,
            b = in(reg) b,
            s = in(reg) 4 * length,
            s3 = in(reg) 12 * length,
            bp = out(reg) _,
            k = out(reg) _,
            n = out(reg) _,
            rows = out(reg) _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
            out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
            out("ymm13") _,
            options(nostack),
        );
    }
}
