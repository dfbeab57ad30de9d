//! The stream's assembly: what is done for a piece, line by line, and the loops over pieces and passes.
//!
//! Registers: `ymm0` to `ymm11` are a piece's accumulators, those of 8 columns of a row two after another, for even columns
//! and for odd ones; `ymm12` to `ymm15` are free between positions of K.

#![allow(unsafe_code, reason = "assembly")]

use super::super::out;
use super::{Control, Pass, Ring};
use core::arch::asm;
use core::mem::offset_of;

/// 8 columns' f64 accumulators: the exponent field of `top` moves from bit 23 to 52. All that is left of the column
/// above are the lowest bits of its `top`, which are zero.
macro_rules! start_8 {
    ($at:literal, $even:literal, $odd:literal) => {
        concat!(
            "vmovdqa ",
            $even,
            ", [{now} + 64*",
            $at,
            "]\nvmovshdup ",
            $odd,
            ", [{now} + 64*",
            $at,
            "]\nvpsllq ",
            $even,
            ", ",
            $even,
            ", 29\nvpsllq ",
            $odd,
            ", ",
            $odd,
            ", 29\n"
        )
    };
}

/// The accumulators' low words are the sums; more is added, and all are rounded and scaled. `ymm12` is `down`.
macro_rules! end_8 {
    ($at:literal, $even:literal, $odd:literal, $row:literal, $half:literal) => {
        concat!(
            "vmovsldup ymm14, ",
            $odd,
            "\nvpblendd ",
            $even,
            ", ",
            $even,
            ", ymm14, 0xAA\nvpaddd ",
            $even,
            ", ",
            $even,
            ", [{now} + 64*",
            $at,
            " + 32]\nvpaddd ymm13, ymm12, [{now} + 64*",
            $at,
            "]\n.if {f16}\n",
            // To odd first, so that one rounding counts.
            "vcvtdq2ps ymm14, ",
            $even,
            "\nvcvttps2dq ymm15, ymm14\nvpcmpeqd ymm15, ymm15, ",
            $even,
            "\nvpaddd ymm15, ymm15, [{control} + {one}]\nvpor ymm14, ymm14, ymm15\nvmulps ymm14, ymm14, ymm13\n",
            "vcvtps2ph xmm14, ymm14, 0\nvcvtph2ps ymm14, xmm14\nvaddps ",
            $even,
            ", ymm14, [{control} + {zero}]\n.else\nvcvtdq2ps ",
            $even,
            ", ",
            $even,
            "\nvmulps ",
            $even,
            ", ",
            $even,
            ", ymm13\n.endif\nvmovaps [{c} + 256*",
            $row,
            " + 32*",
            $half,
            "], ",
            $even,
            "\n",
        )
    };
}

/// Four columns of a piece times a position of K.
macro_rules! products_4 {
    ($rows:literal, $at:literal, $row0:literal, $row1:literal, $row2:literal) => {
        concat!(
            "vmovapd ymm15, [{b} + 128*gemmulate_k + ",
            $at,
            "]\nvfmadd231pd ",
            $row0,
            ", ymm12, ymm15\nvfmadd231pd ",
            $row1,
            ", ymm13, ymm15\n.if ",
            $rows,
            " == 3\nvfmadd231pd ",
            $row2,
            ", ymm14, ymm15\n.endif\n",
        )
    };
}

/// A piece's products at a position of K. Twelve accumulators keep both multipliers busy.
macro_rules! products {
    ($rows:literal, $row:literal) => {
        concat!(
            "vbroadcastsd ymm12, [{a} + 8*gemmulate_k + 8*{l}*",
            $row,
            "]\nvbroadcastsd ymm13, [{a} + 8*gemmulate_k + 8*{l}*",
            $row,
            " + 8*{l}]\n.if ",
            $rows,
            " == 3\nvbroadcastsd ymm14, [{a} + 8*gemmulate_k + 8*{l}*",
            $row,
            " + 16*{l}]\n.endif\n",
            products_4!($rows, "0", "ymm0", "ymm4", "ymm8"),
            products_4!($rows, "64", "ymm1", "ymm5", "ymm9"),
            products_4!($rows, "32", "ymm2", "ymm6", "ymm10"),
            products_4!($rows, "96", "ymm3", "ymm7", "ymm11"),
        )
    };
}

/// What of the next piece, of `$rows` rows from `$row` of `$c` on, is begun after a position of K: as `avx2::begin_8`.
macro_rules! begin {
    ($rows:literal, $row:literal, $c:literal) => {
        concat!(
            ".set gemmulate_j, (gemmulate_k*2*",
            $rows,
            " + {l} - 1)/{l}\n.rept (gemmulate_k*2*",
            $rows,
            " + 2*",
            $rows,
            " + {l} - 1)/{l} - (gemmulate_k*2*",
            $rows,
            " + {l} - 1)/{l}\n",
            ".set gemmulate_row, ",
            $row,
            " + gemmulate_j/2\n.set gemmulate_half, gemmulate_j - gemmulate_j/2*2\n",
            // The column's byte stands third in its word.
            "vmovdqu ymm12, [{look} + 64*gemmulate_row + 32*gemmulate_half]\nvpslld ymm12, ymm12, 7\n",
            "vmovdqa ymm15, [{control} + {exponent}]\nvpand ymm12, ymm12, ymm15\n",
            "vmovaps ymm13, [",
            $c,
            " + 256*gemmulate_row + 32*gemmulate_half]\n",
            "vpand ymm14, ymm13, ymm15\nvpmaxsd ymm12, ymm12, ymm14\n",
            ".if {f16}\nvcmpps ymm14, ymm13, [{control} + {no_c}], 0\nvpandn ymm14, ymm14, [{control} + {low}]\n",
            "vpmaxsd ymm12, ymm12, ymm14\n.endif\n",
            "vpor ymm12, ymm12, [{control} + {half}]\nvmovdqa [{then} + 64*gemmulate_j], ymm12\n",
            "vmovdqa ymm14, [{control} + {up}]\nvpsubd ymm14, ymm14, ymm12\nvmulps ymm14, ymm14, ymm13\n",
            "vcvttps2dq ymm14, ymm14\n",
            // Of these bytes it is the first.
            "vmovdqu ymm15, [{look} + 514 + 64*gemmulate_row + 32*gemmulate_half]\n",
            "vpand ymm15, ymm15, [{control} + {byte}]\nvpaddd ymm14, ymm14, ymm15\n",
            "vmovdqa [{then} + 64*gemmulate_j + 32], ymm14\n",
            ".set gemmulate_j, gemmulate_j + 1\n.endr\n",
        )
    };
}

/// Halfway, the largest exponents of row `$row` of the next group; at the end, its numbers of negative products.
macro_rules! look_ahead {
    ($row:literal) => {
        concat!(
            ".if gemmulate_k == {l}/2\n",
            ".set gemmulate_i, 0\n.rept {l}\n",
            "vpbroadcastd ymm12, [{x} + 4*{l}*",
            $row,
            " + 4*gemmulate_i]\n.if gemmulate_i == 0\n",
            "vpaddb ymm14, ymm12, [{e} + 64*gemmulate_i]\nvpaddb ymm15, ymm12, [{e} + 64*gemmulate_i + 32]\n",
            ".else\n",
            "vpaddb ymm13, ymm12, [{e} + 64*gemmulate_i]\nvpaddb ymm12, ymm12, [{e} + 64*gemmulate_i + 32]\n",
            "vpmaxub ymm14, ymm14, ymm13\nvpmaxub ymm15, ymm15, ymm12\n",
            ".endif\n",
            ".set gemmulate_i, gemmulate_i + 1\n.endr\n",
            "vpmaxub ymm14, ymm14, [{control} + {least}]\nvpmaxub ymm15, ymm15, [{control} + {least}]\n",
            "vpsubb ymm14, ymm14, [{control} + {bias}]\nvpsubb ymm15, ymm15, [{control} + {bias}]\n",
            "vmovdqa [{ahead} + 64*",
            $row,
            "], ymm14\nvmovdqa [{ahead} + 64*",
            $row,
            " + 32], ymm15\n.endif\n",
            ".if gemmulate_k == {l} - 1\n",
            ".set gemmulate_i, 0\n.rept {l}/4\n",
            "mov {s}, [{control} + {a_sign}]\n",
            "movzx {s:e}, byte ptr [{s} + 4*",
            $row,
            " + gemmulate_i/2]\n.if gemmulate_i - gemmulate_i/2*2 == 0\nshl {s:e}, 4\n.endif\nand {s:e}, 0xF0\n",
            "add {s}, [{control} + {turn}]\n",
            ".if gemmulate_i == 0\n",
            "vmovdqa ymm14, [{control} + 4*{s} + {ones}]\nvmovdqa ymm15, [{control} + 4*{s} + {ones} + 32]\n",
            ".else\n",
            "vpaddb ymm14, ymm14, [{control} + 4*{s} + {ones} + 1024*gemmulate_i]\n",
            "vpaddb ymm15, ymm15, [{control} + 4*{s} + {ones} + 1024*gemmulate_i + 32]\n",
            ".endif\n",
            ".set gemmulate_i, gemmulate_i + 1\n.endr\n",
            "vmovdqa [{ahead} + 512 + 64*",
            $row,
            "], ymm14\nvmovdqa [{ahead} + 544 + 64*",
            $row,
            "], ymm15\n.endif\n",
        )
    };
}

/// A piece from row `$row` on, and what is done between its products.
macro_rules! piece {
    ($rows:literal, [$row0:literal, $row1:literal, $row2:literal], $($between:expr),*) => {
        concat!(
            start_8!("0", "ymm0", "ymm1"),
            start_8!("1", "ymm2", "ymm3"),
            start_8!("2", "ymm4", "ymm5"),
            start_8!("3", "ymm6", "ymm7"),
            ".if ",
            $rows,
            " == 3\n",
            start_8!("4", "ymm8", "ymm9"),
            start_8!("5", "ymm10", "ymm11"),
            ".endif\n",
            ".set gemmulate_k, 0\n",
            ".rept {l}\n",
            products!($rows, $row0),
            $($between,)*
            ".set gemmulate_k, gemmulate_k + 1\n",
            ".endr\n",
            "vmovdqa ymm12, [{control} + {down}]\n",
            end_8!("0", "ymm0", "ymm1", $row0, "0"),
            end_8!("1", "ymm2", "ymm3", $row0, "1"),
            end_8!("2", "ymm4", "ymm5", $row1, "0"),
            end_8!("3", "ymm6", "ymm7", $row1, "1"),
            ".if ",
            $rows,
            " == 3\n",
            end_8!("4", "ymm8", "ymm9", $row2, "0"),
            end_8!("5", "ymm10", "ymm11", $row2, "1"),
            ".endif\n",
            "xor {now}, 512\nxor {then}, 512\n",
        )
    };
}

/// All pieces of all passes, the first of which is begun. On the way the next group's rows are looked at, and its first
/// piece is begun.
///
/// # Safety
/// As `steps`; `control` leads to the passes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<const OUT: u8, const L: usize>(control: &mut Control, ring: &mut Ring) {
    let [now, then] = ring.0.each_mut().map(|piece| piece.as_mut_ptr());
    // SAFETY: reads and writes panels, states and what its operands point to within their bounds, as the caller promises.
    // MXCSR's control bits are on exit what they were on entry, as the language asks (the flags of exceptions may be left
    // set), and between its two writes there are only the instructions below, which want the mode they run under.
    unsafe {
        asm!(
            "vstmxcsr [{control} + {saved}]",
            "or dword ptr [{control} + {saved}], 63",
            "vldmxcsr [{control} + {mxcsr}]",
            "2:",
            "mov {s}, [{control} + {pass}]",
            "mov {a}, [{s} + {p_a_sign}]",
            "mov [{control} + {a_sign}], {a}",
            "mov {a}, [{s} + {p_turn}]",
            "mov [{control} + {turn}], {a}",
            "mov {a}, [{s} + {p_a}]",
            "mov {b}, [{s} + {p_b}]",
            "mov {c}, [{s} + {p_c}]",
            "mov {e}, [{s} + {p_b_exp}]",
            "mov {x}, [{s} + {p_a_exp}]",
            "mov {look}, [{s} + {p_look}]",
            "mov {ahead}, [{s} + {p_ahead}]",
            "mov {n:e}, 4",
            "3:",
            piece!("3", ["0", "1", "2"], begin!("3", "3", "{c}"), look_ahead!("0")),
            piece!("3", ["3", "4", "5"], begin!("2", "6", "{c}"), look_ahead!("1")),
            // The next columns, or the next group's first.
            "lea {s}, [{c} + 64]",
            "inc {look}",
            "dec {n:e}",
            "jnz 4f",
            "mov {s}, [{control} + {pass}]",
            "mov {look}, [{s} + {p_next_look}]",
            "mov {s}, [{s} + {p_next_c}]",
            "4:",
            piece!("2", ["6", "7", "0"], begin!("3", "0", "{s}")),
            "add {c}, 64",
            "add {b}, 128*{l}",
            "add {x}, 8*{l}",
            "add {ahead}, 128",
            "add qword ptr [{control} + {a_sign}], 8",
            "test {n:e}, {n:e}",
            "jnz 3b",
            "add qword ptr [{control} + {pass}], {p_size}",
            "dec qword ptr [{control} + {left}]",
            "jnz 2b",
            "vldmxcsr [{control} + {saved}]",
            l = const L,
            f16 = const (OUT == out::F16_RNE) as u32,
            exponent = const offset_of!(Control, exponent),
            half = const offset_of!(Control, half),
            up = const offset_of!(Control, up),
            down = const offset_of!(Control, down),
            bias = const offset_of!(Control, bias),
            least = const offset_of!(Control, least),
            byte = const offset_of!(Control, byte),
            ones = const offset_of!(Control, ones),
            low = const offset_of!(Control, low),
            no_c = const offset_of!(Control, no_c),
            one = const offset_of!(Control, one),
            zero = const offset_of!(Control, zero),
            mxcsr = const offset_of!(Control, mxcsr),
            saved = const offset_of!(Control, saved),
            pass = const offset_of!(Control, pass),
            left = const offset_of!(Control, left),
            a_sign = const offset_of!(Control, a_sign),
            turn = const offset_of!(Control, turn),
            p_a = const offset_of!(Pass, a),
            p_b = const offset_of!(Pass, b),
            p_c = const offset_of!(Pass, c),
            p_look = const offset_of!(Pass, look),
            p_b_exp = const offset_of!(Pass, b_exp),
            p_a_exp = const offset_of!(Pass, a_exp),
            p_a_sign = const offset_of!(Pass, a_sign),
            p_ahead = const offset_of!(Pass, ahead),
            p_turn = const offset_of!(Pass, turn),
            p_next_look = const offset_of!(Pass, next_look),
            p_next_c = const offset_of!(Pass, next_c),
            p_size = const size_of::<Pass>(),
            control = in(reg) control,
            now = inout(reg) now => _,
            then = inout(reg) then => _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            e = out(reg) _,
            x = out(reg) _,
            look = out(reg) _,
            ahead = out(reg) _,
            n = out(reg) _,
            s = out(reg) _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
            out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
            out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
}
