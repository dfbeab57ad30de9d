//! The FMA loop of the AVX2 kernel with f32 accumulators, and of products aligned one by one the end of a step, or all
//! of it from products on, in assembly: the only code that runs under a changed rounding mode.
//!
//! AVX2 has no rounding mode per instruction. The blocks here, but for products alone, set MXCSR to round toward zero,
//! with exceptions masked, do all that needs it for 8 rows by 64 columns, half or several times as many, and set MXCSR
//! back to what it was. Compiled code therefore never runs under another mode than the one it may rely on, and the two
//! writes are spread over some hundred operations. They are VEX-encoded: the old encoding costs some 200 cycles where
//! upper halves of registers are in use.

#![allow(unsafe_code, reason = "assembly")]

use super::{MR, NR};
use crate::gemm::small::DEPTH;
use core::arch::asm;
use core::mem::MaybeUninit;

/// What passes between the vector code and the assembly, 2 KiB each.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Buffers {
    /// `1.5 * 2^e_max`.
    pub(super) top: [MaybeUninit<f32>; MR * NR],
    /// What to add to the sums.
    pub(super) more: [MaybeUninit<u32>; MR * NR],
    /// The accumulators.
    pub(super) sums: [MaybeUninit<f32>; MR * NR],
}

/// What `top` has besides its exponent.
pub(super) const HALF: u32 = 1 << 22;

/// MXCSR: round toward zero, all exceptions masked, no subnormal flushed; and all exceptions flagged, for the first
/// that is newly flagged costs some 200 cycles.
const ROUND_TO_ZERO: u32 = 0x7FBF;

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
}

impl Control {
    /// For tiles of four rows.
    const fn new(length: usize, vectors: usize) -> Self {
        let skip = (4 * NR * 4 - 64 * vectors) as u64;
        Self { mxcsr: ROUND_TO_ZERO, saved: 0, length: length as u64, vectors: vectors as u64, skip }
    }
}

/// Four rows by 16 columns times a step of K: the bodies of the loop, `$i` steps on.
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

/// The accumulators of a step of `length` products, which begin at `top`, 8 rows by `vectors` times 16 columns: `sums`.
///
/// # Safety
/// `UNROLL` is 1, or 4 where it divides `length`, which is not 0; `vectors` is 1 to 4. `a` and `b` point into the
/// step's panels, and `top` of the columns is filled.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sums_f32<const UNROLL: usize>(
    buffers: *mut Buffers,
    a: *const f32,
    b: *const f32,
    length: usize,
    vectors: usize,
) {
    let mut control = Control::new(length, vectors);
    // SAFETY: reads and writes panels, buffers and `control` within their bounds, as the caller promises. MXCSR's
    // control bits are on exit what they were on entry, as the language asks (the flags of exceptions may be left set),
    // and between its two writes there are only the instructions below, which want the mode they run under.
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

/// `$x` times a power of two, or with an exponent added to its code.
macro_rules! scaled {
    ($to:literal, $x:literal, $by:literal) => {
        concat!(
            ".if {shift}\nvpaddd ",
            $to,
            ", ",
            $by,
            ", ",
            $x,
            "\n",
            ".else\nvmulps ",
            $to,
            ", ",
            $by,
            ", ",
            $x,
            "\n.endif\n",
        )
    };
}

/// What the assembly below reads besides pointers.
#[repr(C, align(32))]
struct Aligned {
    mxcsr: u32,
    saved: u32,
    /// The f32 code from which what scales products is taken to scale results.
    down: u32,
    rows: u32,
    /// Bytes from the end of 32 columns to the next 32, backwards.
    back: usize,
    /// Bytes from the end of A's rows for 32 columns to where those for the next 32 begin.
    next_in_a: isize,
    /// How many times 32 columns.
    pairs: u32,
}

/// Where 16 columns have rows of their own (`aligned/small.rs`): bytes from those of 16 columns to the next ones', and
/// the same of the columns' values.
pub(super) const APART: [usize; 2] = [4 * MR * DEPTH, 4 * 16 * DEPTH];

/// What becomes of a product, one after another: it is multiplied, the one before scaled, the third before truncated,
/// the fifth before added up, so that no operation waits for the one right before it, and few of one kind follow one
/// another, for each kind has its own ports. Products of a row by 32 columns, of vectors 0 to 3 for each position of K,
/// go through six registers in turn: the first in the list is the next one's, the last the one before's.
macro_rules! aligned_products {
    ($($k:literal)*) => {
        aligned_products!(@first ["ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13"]; $($k)*)
    };
    (@first [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal]; $k:literal $($more:literal)*) => { concat!(
        "vbroadcastss ymm14, [{a} + 4*", $k, "]\n",
        multiplied!($a, "64*", $k),
        multiplied!($b, "32 + 64*", $k),
        scaled!($a, $a, "ymm4"),
        next_rows!($k),
        multiplied!($c, "{apart} + 64*", $k),
        scaled!($b, $b, "ymm5"),
        multiplied!($d, "{apart} + 32 + 64*", $k),
        scaled!($c, $c, "ymm6"),
        truncated!($a),
        aligned_products!(@second [$e $f $a $b $c $d]; $($more)*),
    ) };
    (@second [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal]; $k:literal $($more:literal)*) => { concat!(
        "vbroadcastss ymm14, [{a} + 4*", $k, "]\n",
        multiplied!($a, "64*", $k),
        scaled!($f, $f, "ymm7"),
        truncated!($d),
        aligned_products!(@three [$a $b $c $d $e $f]; $k $($more)*),
    ) };
    (@more [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal]; $k:literal $($more:literal)*) => { concat!(
        "vbroadcastss ymm14, [{a} + 4*", $k, "]\n",
        multiplied!($a, "64*", $k),
        scaled!($f, $f, "ymm7"),
        truncated!($d),
        added!("ymm3", $b),
        aligned_products!(@three [$a $b $c $d $e $f]; $k $($more)*),
    ) };
    (@three [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal]; $k:literal $($more:literal)*) => { concat!(
        multiplied!($b, "32 + 64*", $k),
        scaled!($a, $a, "ymm4"),
        truncated!($e),
        added!("ymm0", $c),
        next_rows!($k),
        multiplied!($c, "{apart} + 64*", $k),
        scaled!($b, $b, "ymm5"),
        truncated!($f),
        added!("ymm1", $d),
        multiplied!($d, "{apart} + 32 + 64*", $k),
        scaled!($c, $c, "ymm6"),
        truncated!($a),
        added!("ymm2", $e),
        aligned_products!(@more [$e $f $a $b $c $d]; $($more)*),
    ) };
    (@more [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal];) => { concat!(
        scaled!($f, $f, "ymm7"),
        truncated!($d),
        added!("ymm3", $b),
        truncated!($e),
        added!("ymm0", $c),
        truncated!($f),
        added!("ymm1", $d),
        added!("ymm2", $e),
        added!("ymm3", $f),
    ) };
}

/// A row's number in register 14 times a vector.
macro_rules! multiplied {
    ($to:literal, $at:literal, $k:literal) => {
        concat!("vmulps ", $to, ", ymm14, [{b} + ", $at, $k, "]\n")
    };
}

/// The other columns' row, if that is another one.
macro_rules! next_rows {
    ($k:literal) => {
        concat!(".if {apart_in_a}\nvbroadcastss ymm14, [{a} + {apart_in_a} + 4*", $k, "]\n.endif\n")
    };
}

macro_rules! truncated {
    ($x:literal) => {
        concat!("vcvttps2dq ", $x, ", ", $x, "\n")
    };
}

macro_rules! added {
    ($to:literal, $x:literal) => {
        concat!("vpaddd ", $to, ", ", $to, ", ", $x, "\n")
    };
}

/// MXCSR.
///
/// # Safety
/// AVX is there.
#[inline]
pub(super) unsafe fn mode() -> u32 {
    let mut mode = 0;
    // SAFETY: the caller's promise; it writes a word.
    unsafe { asm!("vstmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) }
    mode
}

/// Steps of products aligned one by one, from what they are scaled by to results: so many rows by so many times 32
/// columns, of
/// 64. `by` are powers of two, `2^(F - e_max)`, or, to `SHIFT`, their exponent fields less that of 1. Of `TILES` 16
///     columns have rows of their own, `APART`.
///
/// # Safety
/// AVX2 is there; `L` is 4, 8 or 16, `rows` not 0, `pairs` 1 or 2. There are as many of all, `b` by 16 columns; it,
/// `by` and `states` are aligned to 32 bytes.
#[inline]
pub(super) unsafe fn products_and_ends<const L: usize, const SHIFT: bool, const TILES: bool>(
    size: [usize; 2],
    panels: [*const f32; 2],
    by: *const u32,
    states: *mut f32,
    mode: u32,
) {
    // SAFETY: the caller's promise; results go to states.
    unsafe { aligned::<L, SHIFT, TILES, true>(size, panels, by, states, states.cast(), mode) }
}

/// The same as far as sums, under whatever rounding mode, in units of `2^(e_max - F)`.
///
/// # Safety
/// As above; there are as many sums, aligned to 32 bytes.
#[inline]
pub(super) unsafe fn products<const L: usize, const SHIFT: bool, const TILES: bool>(
    size: [usize; 2],
    panels: [*const f32; 2],
    by: *const u32,
    states: *const f32,
    sums: *mut u32,
) {
    // SAFETY: the caller's promise.
    unsafe { aligned::<L, SHIFT, TILES, false>(size, panels, by, states, sums, 0) }
}

/// Both, to `ENDS` or not.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn aligned<const L: usize, const SHIFT: bool, const TILES: bool, const ENDS: bool>(
    [rows, pairs]: [usize; 2],
    [a, b]: [*const f32; 2],
    by: *const u32,
    states: *const f32,
    to: *mut u32,
    mode: u32,
) {
    let mut control = Aligned {
        mxcsr: ROUND_TO_ZERO,
        saved: mode,
        down: if SHIFT { 127 } else { 254 } << 23,
        rows: rows as u32,
        back: 4 * rows * NR - 128,
        next_in_a: if TILES { 2 * APART[0] as isize } else { 0 } - (4 * rows * L) as isize,
        pairs: pairs as u32,
    };
    debug_assert!(rows > 0 && matches!(pairs, 1 | 2));
    debug_assert!(matches!(L, 4 | 8 | 16));
    // SAFETY: reads and writes within bounds, as the caller promises. MXCSR's control bits are on exit what they were
    // on entry; flags of exceptions since `mode` was read are lost, which the language allows. The integers and scaled
    // products are the same under every mode.
    unsafe {
        asm!(
            ".if {ends}",
            "vldmxcsr [{ctl}]",
            "vbroadcastss ymm15, [{ctl} + 8]",
            ".endif",
            "mov {t:e}, [{ctl} + 32]",
            "2:",
            "mov {r:e}, [{ctl} + 12]",
            "3:",
            "vmovaps ymm4, [{by}]",
            "vmovaps ymm5, [{by} + 32]",
            "vmovaps ymm6, [{by} + 64]",
            "vmovaps ymm7, [{by} + 96]",
            scaled!("ymm0", "[{c}]", "ymm4"),
            scaled!("ymm1", "[{c} + 32]", "ymm5"),
            scaled!("ymm2", "[{c} + 64]", "ymm6"),
            scaled!("ymm3", "[{c} + 96]", "ymm7"),
            "vcvttps2dq ymm0, ymm0",
            "vcvttps2dq ymm1, ymm1",
            "vcvttps2dq ymm2, ymm2",
            "vcvttps2dq ymm3, ymm3",
            ".if {l} == 4",
            aligned_products!("0" "1" "2" "3"),
            ".elseif {l} == 8",
            aligned_products!("0" "1" "2" "3" "4" "5" "6" "7"),
            ".else",
            aligned_products!(
                "0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15"
            ),
            ".endif",
            ".if {ends}",
            "vcvtdq2ps ymm0, ymm0",
            "vcvtdq2ps ymm1, ymm1",
            "vcvtdq2ps ymm2, ymm2",
            "vcvtdq2ps ymm3, ymm3",
            "vpsubd ymm4, ymm15, ymm4",
            "vpsubd ymm5, ymm15, ymm5",
            "vpsubd ymm6, ymm15, ymm6",
            "vpsubd ymm7, ymm15, ymm7",
            "vmulps ymm0, ymm0, ymm4",
            "vmulps ymm1, ymm1, ymm5",
            "vmulps ymm2, ymm2, ymm6",
            "vmulps ymm3, ymm3, ymm7",
            ".endif",
            "vmovaps [{to}], ymm0",
            "vmovaps [{to} + 32], ymm1",
            "vmovaps [{to} + 64], ymm2",
            "vmovaps [{to} + 96], ymm3",
            "add {a}, 4 * {l}",
            "add {by}, 256",
            "add {c}, 256",
            "add {to}, 256",
            "dec {r:e}",
            "jnz 3b",
            "add {a}, [{ctl} + 24]",
            "add {b}, 2 * {apart}",
            "sub {by}, [{ctl} + 16]",
            "sub {c}, [{ctl} + 16]",
            "sub {to}, [{ctl} + 16]",
            "dec {t:e}",
            "jnz 2b",
            ".if {ends}",
            "vldmxcsr [{ctl} + 4]",
            ".endif",
            l = const L,
            apart = const if TILES { APART[1] } else { 64 * L },
            apart_in_a = const if TILES { APART[0] } else { 0 },
            shift = const SHIFT as usize,
            ends = const ENDS as usize,
            ctl = in(reg) &raw mut control,
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            by = inout(reg) by => _,
            c = inout(reg) states => _,
            to = inout(reg) to => _,
            t = out(reg) _,
            r = out(reg) _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
            out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
            out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
}

/// Integers `sums` rounded to f32 times the f32 whose code is `down` less `by`, for 8 rows by 64 columns. Three
/// operations for what takes seven where magnitudes are prepared for rounding to nearest.
///
/// # Safety
/// AVX2 is there. There are as many of each, aligned to 32 bytes.
#[inline]
pub(super) unsafe fn scaled(sums: *const u32, by: *const u32, down: u32, to: *mut f32) {
    let mut control = [ROUND_TO_ZERO, 0, down];
    // SAFETY: the caller's promise. MXCSR is set back.
    unsafe {
        asm!(
            "vstmxcsr [{c} + 4]",
            "vldmxcsr [{c}]",
            "vbroadcastss ymm8, [{c} + 8]",
            "xor {i:e}, {i:e}",
            "2:",
            "vcvtdq2ps ymm0, [{s} + {i}]",
            "vcvtdq2ps ymm1, [{s} + {i} + 32]",
            "vcvtdq2ps ymm2, [{s} + {i} + 64]",
            "vcvtdq2ps ymm3, [{s} + {i} + 96]",
            "vpsubd ymm4, ymm8, [{b} + {i}]",
            "vpsubd ymm5, ymm8, [{b} + {i} + 32]",
            "vpsubd ymm6, ymm8, [{b} + {i} + 64]",
            "vpsubd ymm7, ymm8, [{b} + {i} + 96]",
            "vmulps ymm0, ymm0, ymm4",
            "vmulps ymm1, ymm1, ymm5",
            "vmulps ymm2, ymm2, ymm6",
            "vmulps ymm3, ymm3, ymm7",
            "vmovaps [{t} + {i}], ymm0",
            "vmovaps [{t} + {i} + 32], ymm1",
            "vmovaps [{t} + {i} + 64], ymm2",
            "vmovaps [{t} + {i} + 96], ymm3",
            "add {i:e}, 128",
            "cmp {i:e}, {bytes}",
            "jne 2b",
            "vldmxcsr [{c} + 4]",
            c = in(reg) control.as_mut_ptr(),
            i = out(reg) _,
            s = in(reg) sums,
            b = in(reg) by,
            t = in(reg) to,
            bytes = const 4 * MR * NR,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
            options(nostack),
        );
    }
}
