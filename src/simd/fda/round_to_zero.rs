//! FMA loops of the AVX2 kernel, in assembly: with `stream_avx2` the only code that runs under a changed rounding mode.
//!
//! AVX2 has no rounding mode per instruction. Each block here sets MXCSR to round toward zero, with
//! exceptions masked, does all that needs it for 8 rows by 64 columns, and sets MXCSR back to what it
//! was. Compiled code therefore never runs under another mode than the one it may rely on, and the two
//! writes are spread over some hundred FMAs. They are VEX-encoded: the old encoding costs some 200 cycles
//! where upper halves of registers are in use.

#![allow(unsafe_code, reason = "assembly")]

use super::{MR, NR};
use core::arch::asm;
use core::mem::MaybeUninit;

/// What passes between the vector code and the assembly, 2 KiB each.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Buffers {
    /// `1.5 * 2^e_max`, as f32.
    pub(super) top: [MaybeUninit<u32>; MR * NR],
    /// f64: what to add to the sums; then, where these are not scaled, the sums in units of q.
    pub(super) more: [MaybeUninit<u32>; MR * NR],
    /// f64: the sums as f32, rounded toward zero, or scaled. f32: the accumulators.
    pub(super) rounded: [MaybeUninit<f32>; MR * NR],
    /// Even and odd accumulators' bits in one: see `OFFSET`.
    pub(super) bits: [MaybeUninit<u32>; MR * NR],
}

/// What `top` has besides its exponent.
pub(super) const HALF: u32 = 1 << 22;

/// Sums that are watched begin here, so that bits 31 to 50 show when one leaves 31 bits.
pub(super) const OFFSET: i64 = 1 << 30;

/// MXCSR: round toward zero, all exceptions masked, no subnormal flushed; and all exceptions flagged, for the first
/// that is newly flagged costs some 200 cycles.
pub(super) const ROUND_TO_ZERO: u32 = 0x7FBF;

/// What the assembly reads besides pointers.
#[repr(C, align(32))]
struct Control {
    mxcsr: u32,
    saved: u32,
    /// L.
    length: u64,
    vectors: u64,
    /// Bytes from the end of some rows' buffers to the next rows'.
    skip: u64,
    /// Where watched sums begin.
    offset: [i64; 4],
    /// What to add to `top` for `2^(e_max - F)`.
    down: [u32; 8],
}

impl Control {
    /// For tiles of `rows`.
    const fn new(length: usize, vectors: usize, rows: usize) -> Self {
        let skip = (4 * NR * rows - 64 * vectors) as u64;
        let (length, vectors) = (length as u64, vectors as u64);
        Self { mxcsr: ROUND_TO_ZERO, saved: 0, length, vectors, skip, offset: [OFFSET; 4], down: [0; 8] }
    }
}

/// Three rows, or two, by 16 columns times a step of K: the bodies of the loop, `$i` steps on. Twelve accumulators keep
/// both multipliers busy; eight, with a latency of four cycles, would just do so if nothing ever came between.
macro_rules! f64_products {
    ($rows:literal: $($i:literal)*) => { concat!($(
        "vbroadcastsd ymm12, [{a} + 8*", $i, "]\n",
        "vbroadcastsd ymm13, [{a} + {s} + 8*", $i, "]\n",
        ".if ", $rows, " == 3\n",
        "vbroadcastsd ymm14, [{a} + 2*{s} + 8*", $i, "]\n",
        ".endif\n",
        f64_vector!($rows, $i, "0", "ymm0", "ymm4", "ymm8"),
        f64_vector!($rows, $i, "64", "ymm1", "ymm5", "ymm9"),
        f64_vector!($rows, $i, "32", "ymm2", "ymm6", "ymm10"),
        f64_vector!($rows, $i, "96", "ymm3", "ymm7", "ymm11"),
    )*) };
}

/// Four columns of them.
macro_rules! f64_vector {
    ($rows:literal, $i:literal, $at:literal, $row0:literal, $row1:literal, $row2:literal) => {
        concat!(
            "vmovapd ymm15, [{bp} + 128*",
            $i,
            " + ",
            $at,
            "]\n",
            "vfmadd231pd ",
            $row0,
            ", ymm12, ymm15\n",
            "vfmadd231pd ",
            $row1,
            ", ymm13, ymm15\n",
            ".if ",
            $rows,
            " == 3\n",
            "vfmadd231pd ",
            $row2,
            ", ymm14, ymm15\n",
            ".endif\n",
        )
    };
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

/// 8 columns' f64 accumulators: the exponent field of `top` moves from bit 23 to 52. All that is left of the column
/// above are the lowest bits of its `top`, which are zero.
macro_rules! f64_start {
    ($at:literal, $even:literal, $odd:literal) => {
        concat!(
            "vmovdqa ",
            $even,
            ", [{buf} + ",
            $at,
            "]\n",
            "vmovshdup ",
            $odd,
            ", [{buf} + ",
            $at,
            "]\n",
            "vpsllq ",
            $even,
            ", ",
            $even,
            ", 29\n",
            "vpsllq ",
            $odd,
            ", ",
            $odd,
            ", 29\n",
            ".if {check}\n",
            "vpor ",
            $even,
            ", ",
            $even,
            ", [{ctl} + 32]\n",
            "vpor ",
            $odd,
            ", ",
            $odd,
            ", [{ctl} + 32]\n",
            ".endif\n",
        )
    };
}

/// The accumulators' low words are the sums; more is added, and all are rounded to f32, and scaled. `ymm12` is `down`.
macro_rules! f64_end {
    ($at:literal, $even:literal, $odd:literal) => {
        concat!(
            ".if {check}\n",
            "vpor ymm13, ",
            $even,
            ", ",
            $odd,
            "\n",
            "vmovdqa [{buf} + 6144 + ",
            $at,
            "], ymm13\n",
            ".endif\n",
            "vmovsldup ymm14, ",
            $odd,
            "\n",
            "vpblendd ",
            $even,
            ", ",
            $even,
            ", ymm14, 0xAA\n",
            "vpaddd ",
            $even,
            ", ",
            $even,
            ", [{buf} + 2048 + ",
            $at,
            "]\n",
            ".if {scaled} == 0\n",
            "vmovdqa [{buf} + 2048 + ",
            $at,
            "], ",
            $even,
            "\n",
            ".endif\n",
            "vcvtdq2ps ",
            $even,
            ", ",
            $even,
            "\n",
            ".if {scaled}\n",
            "vpaddd ymm13, ymm12, [{buf} + ",
            $at,
            "]\n",
            "vmulps ",
            $even,
            ", ",
            $even,
            ", ymm13\n",
            ".endif\n",
            "vmovaps [{d} + ",
            $at,
            "], ",
            $even,
            "\n",
        )
    };
}

/// Some rows by `vectors` times 16 columns.
macro_rules! f64_rows {
    ($rows:literal) => {
        concat!(
            "mov {bp}, {b}\n",
            "mov {n}, [{ctl} + 16]\n",
            "3:\n",
            f64_start!("0", "ymm0", "ymm1"),
            f64_start!("32", "ymm2", "ymm3"),
            f64_start!("256", "ymm4", "ymm5"),
            f64_start!("288", "ymm6", "ymm7"),
            ".if ",
            $rows,
            " == 3\n",
            f64_start!("512", "ymm8", "ymm9"),
            f64_start!("544", "ymm10", "ymm11"),
            ".endif\n",
            "mov {k}, [{ctl} + 8]\n",
            ".if {unroll} == 4\n",
            "4:\n",
            f64_products!($rows: "0" "1" "2" "3"),
            "add {a}, 32\n",
            "add {bp}, 512\n",
            "sub {k}, 4\n",
            "jnz 4b\n",
            ".else\n",
            "4:\n",
            f64_products!($rows: "0"),
            "add {a}, 8\n",
            "add {bp}, 128\n",
            "dec {k}\n",
            "jnz 4b\n",
            ".endif\n",
            "sub {a}, {s}\n",
            "vmovdqa ymm12, [{ctl} + 64]\n",
            f64_end!("0", "ymm0", "ymm1"),
            f64_end!("32", "ymm2", "ymm3"),
            f64_end!("256", "ymm4", "ymm5"),
            f64_end!("288", "ymm6", "ymm7"),
            ".if ",
            $rows,
            " == 3\n",
            f64_end!("512", "ymm8", "ymm9"),
            f64_end!("544", "ymm10", "ymm11"),
            ".endif\n",
            "add {buf}, 64\n",
            "add {d}, 64\n",
            "dec {n}\n",
            "jnz 3b\n",
        )
    };
}

/// The sums of a step of `length` products with `more` added, f64 accumulators, 8 rows by `vectors` times 16 columns,
/// rounded toward zero to f32. With `SCALED` times `2^(e_max - F)`; otherwise `more` becomes the sums. With `CHECK`,
/// `bits`.
///
/// Results go to `d`, whose rows are as far apart as the buffers'.
///
/// # Safety
/// `UNROLL` is 1, or 4 where it divides `length`, which is not 0; `vectors` is 1 to 4. `a` and `b` point into the
/// step's panels, `top` and `more` of the columns are filled, and `d` has room for them.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sums_f64<const UNROLL: usize, const CHECK: bool, const SCALED: bool>(
    buffers: *mut Buffers,
    d: *mut f32,
    [a, b]: [*const f64; 2],
    [length, vectors]: [usize; 2],
    frac_bits: i32,
) {
    let mut control = Control::new(length, vectors, 3);
    control.down = [0_u32.wrapping_sub(((frac_bits as u32) << 23) + HALF); 8];
    // SAFETY: reads and writes panels, buffers, `d` and `control` within their bounds, as the caller promises. MXCSR's
    // control bits are on exit what they were on entry, as the language asks (the flags of exceptions may be left set),
    // and between its two writes there are only the instructions below, which want the mode they run under. Scaling is
    // exact.
    unsafe {
        asm!(
            "vstmxcsr [{ctl} + 4]",
            "or dword ptr [{ctl} + 4], 63",
            "vldmxcsr [{ctl}]",
            "mov {rows:e}, 2",
            "2:",
            f64_rows!("3"),
            "lea {a}, [{a} + 2*{s}]",
            "add {a}, {s}",
            "add {buf}, [{ctl} + 24]",
            "add {d}, [{ctl} + 24]",
            "dec {rows:e}",
            "jnz 2b",
            f64_rows!("2"),
            "vldmxcsr [{ctl} + 4]",
            check = const CHECK as u32,
            scaled = const SCALED as u32,
            unroll = const UNROLL,
            ctl = in(reg) &raw mut control,
            buf = inout(reg) buffers => _,
            d = inout(reg) d => _,
            a = inout(reg) a => _,
            b = in(reg) b,
            s = in(reg) 8 * length,
            bp = out(reg) _,
            k = out(reg) _,
            n = out(reg) _,
            rows = out(reg) _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
            out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
            out("ymm13") _, out("ymm14") _, out("ymm15") _,
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
    let mut control = Control::new(length, vectors, 4);
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
