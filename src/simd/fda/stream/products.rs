//! A piece's products, in assembly: compilers take the order of instructions for a matter of taste.

use super::super::NR;
use super::ROWS;
use core::arch::asm;
use std::arch::x86_64::*;

/// The products of one position of K with 16 columns: `$a` leads to the first row's number, `$row0` to `$row3` from
/// there to each row's; `$b`, `$e` and `$x` to B's numbers and to exponents.
macro_rules! four_rows {
    ($a:literal, [$row0:literal, $row1:literal, $row2:literal, $row3:literal], $b:literal, $e:literal, $x:literal) => {
        concat!(
            "vmovapd {b0}, [{b}",
            $b,
            "]\nvmovapd {b1}, [{b}",
            $b,
            " + 64]\n",
            row!($a, $row0, "e0", "o0"),
            row!($a, $row1, "e1", "o1"),
            "vpbroadcastd {t}, [{x}",
            $x,
            "]\nvpaddb {t}, {t}, [{e}",
            $e,
            "]\nvpmaxub {m}, {m}, {t}\n",
            row!($a, $row2, "e2", "o2"),
            row!($a, $row3, "e3", "o3"),
        )
    };
}

/// One row's.
macro_rules! row {
    ($a:literal, $row:literal, $even:literal, $odd:literal) => {
        concat!(
            "vpbroadcastq {t}, [{a}",
            $a,
            $row,
            "]\nvfmadd231pd {",
            $even,
            "}, {t}, {b0}, {{rz-sae}}\nvfmadd231pd {",
            $odd,
            "}, {t}, {b1}, {{rz-sae}}\n",
        )
    };
}

/// Adds a quarter of a step's products, the `R`-th, of four rows with 16 columns, cut off: `fma` rounding toward zero.
/// On the way the words of a row of A's exponents meet 64 columns': `best` becomes the largest sum.
///
/// # Safety
/// `a` points to the first row's values, `l` from one row to the next, `b` to vectors of 16, `b_exp` to rows of 64
/// bytes, both aligned to 64 bytes, and `a_exp` to words, one for each of `l` products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn products<const L: usize, const R: usize>(
    even: &mut [__m512d; ROWS],
    odd: &mut [__m512d; ROWS],
    best: &mut __m512i,
    [a, b]: [*const f64; 2],
    (b_exp, a_exp): (*const u8, *const u32),
    l: usize,
) {
    macro_rules! run {
        ([$($line:expr),*], $a:expr, $b:expr, $e:expr, $x:expr, $($more:tt)*) => {{
            let ([e0, e1, e2, e3], [o0, o1, o2, o3]) = (&mut *even, &mut *odd);
            let (_b0, _b1, _t): (__m512d, __m512d, __m512d);
            // SAFETY: it reads what the caller promises, and writes these registers only.
            unsafe {
                asm!(
                    $($line,)*
                    e0 = inout(zmm_reg) *e0,
                    e1 = inout(zmm_reg) *e1,
                    e2 = inout(zmm_reg) *e2,
                    e3 = inout(zmm_reg) *e3,
                    o0 = inout(zmm_reg) *o0,
                    o1 = inout(zmm_reg) *o1,
                    o2 = inout(zmm_reg) *o2,
                    o3 = inout(zmm_reg) *o3,
                    m = inout(zmm_reg) *best,
                    b0 = out(zmm_reg) _b0,
                    b1 = out(zmm_reg) _b1,
                    t = out(zmm_reg) _t,
                    a = in(reg) $a,
                    b = in(reg) $b,
                    e = in(reg) $e,
                    x = in(reg) $x,
                    $($more)*
                    options(readonly, nostack, preserves_flags),
                );
            }
        }};
    }
    if L == 0 {
        for k in R * l / ROWS..(R + 1) * l / ROWS {
            let (a, b) = (a.wrapping_add(k), b.wrapping_add(k * 16));
            let (e, x) = (b_exp.wrapping_add(k * NR), a_exp.wrapping_add(k));
            run!(
                [four_rows!("", ["", " + {s}", " + 2*{s}", " + {s3}"], "", "", "")],
                a, b, e, x, s = in(reg) 8 * l, s3 = in(reg) 24 * l,
            );
        }
    } else {
        run!(
            [
                ".set gemmulate_k, {first}",
                ".rept {count}",
                four_rows!(
                    " + 8*gemmulate_k",
                    ["", " + 8*{l}", " + 16*{l}", " + 24*{l}"],
                    " + 128*gemmulate_k",
                    " + 64*gemmulate_k",
                    " + 4*gemmulate_k"
                ),
                ".set gemmulate_k, gemmulate_k + 1",
                ".endr"
            ],
            a, b, b_exp, a_exp,
            first = const R * L / ROWS, count = const (R + 1) * L / ROWS - R * L / ROWS, l = const L,
        );
    }
}
