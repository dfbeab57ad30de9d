//! A piece of 4 rows by 32 columns, in assembly: while its products are summed the piece before is finished, the next one
//! begun, and e_max of two rows of the row group to come looked for.
//!
//! In the words of SPEC's FDA: `products` finds the products' part of e_max (step 3) of others and truncates and adds
//! products as floors (4, 5); `begin` takes c into e_max and truncates it (4); `end` makes floors of negative ones truncations
//! by their number, adds c (5) and encodes (6). Of round-down sums (`down`) `begin` only scales c, for e_dot is the products', and
//! `end` floors c, drops the total's last places and encodes, as `round_down` says.
//!
//! A call does one piece after another, as many as it is asked for at most: see `go_on` and `look`.
//!
//! | registers | |
//! |---|---|
//! | zmm0 to 15 | accumulators: of each vector of states those of even columns, and of odd ones |
//! | zmm16 to 23 | sums of the piece before, then its results; later constants; at last the piece's own sums |
//! | zmm24 to 29 | B's 32 columns and two others, for one position; free in between |
//! | zmm30, zmm31 | the largest exponents of two rows |
//! | zmm22, zmm24, zmm29 | of the last piece: the largest f16 or c so far; at the end the same, and the bits of watched sums |
//! | k1, k2, k3 | odd 32-bit lanes, even ones; free |
//! | k4, k5 | where c comes last: all lanes but where pieces begin at 0, and where c is added |
//! | rdi, rsi | A's values, row after row, and B's, 16 columns after another |
//! | ebx | how many pieces of this step are to be done after this one |
//! | rcx, rdx, rax | exponents of two rows of A and of 64 columns of B, and where their e_max goes; at last rax = rbx |
//! | r8, r15 | `Work`, and which of its `starts` is this piece's, at the end the other one's |
//! | r9, r10, r12 to r14 | the next piece's signs of A and of B, states, e_max by rows, and places of its columns there |
//! | r11 | where results of the piece before go |

use super::{Start, UNITS, Work};
use crate::simd::fda::out;
use core::arch::{asm, naked_asm};
use core::mem::{offset_of, size_of};
use std::arch::x86_64::*;

/// A row's products with 32 columns at one position.
macro_rules! row {
    ($row:literal, $c0:literal, $c1:literal, $c2:literal, $c3:literal) => {
        concat!(
            "vpbroadcastq zmm28, [rdi + 8*gemmulate_k + 8*",
            $row,
            "*{l}]\n",
            "vfmadd231pd zmm",
            $c0,
            ", zmm28, zmm24, {{rz-sae}}\n",
            "vfmadd231pd zmm",
            $c1,
            ", zmm28, zmm25, {{rz-sae}}\n",
            "vfmadd231pd zmm",
            $c2,
            ", zmm28, zmm26, {{rz-sae}}\n",
            "vfmadd231pd zmm",
            $c3,
            ", zmm28, zmm27, {{rz-sae}}\n",
        )
    };
}

/// An eighth of all positions, or of every other eighth. Exponents are added four bytes at once, which are 127 at most: none carries.
macro_rules! products {
    ($part:literal) => {
        concat!(
            ".set gemmulate_k, ",
            $part,
            "*{l}/8\n",
            ".rept (",
            $part,
            " + 1)*{l}/8 - gemmulate_k\n",
            "vmovapd zmm24, [rsi + 128*gemmulate_k]\n",
            "vmovapd zmm25, [rsi + 128*gemmulate_k + 64]\n",
            "vmovapd zmm26, [rsi + 128*gemmulate_k + 128*{l}]\n",
            "vmovapd zmm27, [rsi + 128*gemmulate_k + 128*{l} + 64]\n",
            row!("0", "0", "1", "2", "3"),
            "vmovdqa64 zmm29, [rdx + 64*gemmulate_k]\n",
            "vpaddd zmm28, zmm29, [rcx + 4*gemmulate_k]{{1to16}}\n",
            "vpmaxub zmm30, zmm30, zmm28\n",
            row!("1", "4", "5", "6", "7"),
            "vpaddd zmm28, zmm29, [rcx + 4*gemmulate_k + 4*{l}]{{1to16}}\n",
            "vpmaxub zmm31, zmm31, zmm28\n",
            row!("2", "8", "9", "10", "11"),
            row!("3", "12", "13", "14", "15"),
            ".set gemmulate_k, gemmulate_k + 1\n",
            ".endr\n",
        )
    };
}

/// `1.5 * 2^e_max` where f64 accumulators begin: see `finish::accumulators`.
macro_rules! begin_sum {
    ($watch:ident, $unit:literal, $even:literal, $odd:literal) => {
        concat!(
            "vmovdqa64 zmm24, [r15 + 64*",
            $unit,
            "]\n",
            "vpsrld zmm",
            $odd,
            "{{k1}}{{z}}, zmm24, 3\n",
            "vpsllq zmm",
            $even,
            ", zmm24, 29\n",
            watch!($watch, offset, $even),
            watch!($watch, offset, $odd),
        )
    };
}

/// The sum in units of q, from both kinds of columns: see `finish::low_halves`.
macro_rules! end_sum {
    ($watch:ident, $unit:literal, $even:literal, $odd:literal, $sum:literal) => {
        concat!(
            watch!($watch, bits, $unit, $even, $odd),
            "vmovsldup zmm",
            $sum,
            ", zmm",
            $odd,
            "\n",
            "vmovdqa32 zmm",
            $sum,
            "{{k2}}, zmm",
            $even,
            "\n",
        )
    };
}

/// Of sums that could leave 31 bits: they begin at an offset, and are kept, all bits and what any of them has.
macro_rules! watch {
    (plain, $($rest:tt)*) => {
        ""
    };
    (watched, offset, $sum:literal) => {
        concat!("vporq zmm", $sum, ", zmm", $sum, ", [r8 + {offset}]{{1to8}}\n")
    };
    (watched, back) => {
        "vpsubd zmm24, zmm24, [r8 + {offset}]{{1to16}}\n"
    };
    (watched, bits, $unit:literal, $even:literal, $odd:literal) => {
        concat!(
            "vporq zmm28, zmm",
            $even,
            ", zmm",
            $odd,
            "\n",
            "vmovdqa64 [r8 + {watched} + 64*",
            $unit,
            "], zmm28\n",
            "vporq zmm29, zmm29, zmm28\n",
        )
    };
}

/// A vector of the piece before. Of `down`: the total as an f32 sum toward zero has the exponent of the exact one, or, next to a
/// power of two, a wrong one that does no harm. It says which of the 5 lowest places of the sum are dropped, and whether the
/// total is that of integers, or that of c and the sum rounded to odd above those places.
macro_rules! end {
    (down, $unit:literal, $row:literal, $column:literal, $sum:literal) => {
        concat!(
            "vpaddd zmm",
            $sum,
            ", zmm",
            $sum,
            ", [r15 + {rests} + 64*",
            $unit,
            "]\n",
            "vmovaps zmm24, [r15 + {units} + 64*",
            $unit,
            "]\n",
            "vcvtdq2ps zmm25, zmm",
            $sum,
            ", {{rz-sae}}\n",
            "vcvtps2dq zmm26, zmm24, {{rd-sae}}\n",
            "vaddps zmm25, zmm25, zmm24, {{rz-sae}}\n",
            "vpaddd zmm26, zmm26, zmm",
            $sum,
            "\n",
            "vpaddd zmm25, zmm25, zmm25\n",
            "vcvtdq2ps zmm26, zmm26\n",
            "vpsrld zmm25, zmm25, 24\n",
            "vpternlogd zmm27, zmm27, zmm27, 0xff\n",
            "vpcmpgtd k3, zmm25, [r8 + {small}]{{1to16}}\n",
            "vpsubusw zmm25, zmm25, [r8 + {kept}]\n",
            "vpsllvd zmm25, zmm27, zmm25\n",
            "vpternlogd zmm25, zmm",
            $sum,
            ", [r8 + {low}]{{1to16}}, 0x80\n",
            "vpaddd zmm25, zmm25, [r8 + {low}]{{1to16}}\n",
            "vpternlogd zmm25, zmm",
            $sum,
            ", [r8 + {high}]{{1to16}}, 0xa8\n",
            "vcvtdq2ps zmm25, zmm25\n",
            "vpaddd zmm28, zmm29, [r15 + 64*",
            $unit,
            "]\n",
            "vaddps zmm26{{k3}}, zmm25, zmm24\n",
            "vmulps zmm26, zmm26, zmm28\n",
            "vmovaps [r11 + 256*",
            $row,
            " + 64*",
            $column,
            "], zmm26\n",
        )
    };
    ($kind:ident, $unit:literal, $row:literal, $column:literal, $sum:literal) => {
        concat!(
            "vpaddd zmm",
            $sum,
            ", zmm",
            $sum,
            ", [r15 + {rests} + 64*",
            $unit,
            "]\n",
            round!($kind, $sum),
            "vpaddd zmm24, zmm29, [r15 + 64*",
            $unit,
            "]\n",
            "vmulps zmm",
            $sum,
            ", zmm",
            $sum,
            ", zmm24\n",
            narrow!($kind, $sum),
            add_c!($kind, $sum, $row, $column),
            "vmovaps [r11 + 256*",
            $row,
            " + 64*",
            $column,
            "], zmm",
            $sum,
            "\n",
        )
    };
}

macro_rules! end_row {
    ($kind:ident, $row:literal, $u0:literal, $u1:literal, $s0:literal, $s1:literal) => {
        concat!(
            "vpbroadcastd zmm29, [r8 + {down}]\n",
            end!($kind, $u0, $row, "0", $s0),
            end!($kind, $u1, $row, "1", $s1),
        )
    };
}

/// A sum as f32: for f16 rounded to odd.
macro_rules! round {
    (rz, $x:literal) => {
        concat!("vcvtdq2ps zmm", $x, ", zmm", $x, ", {{rz-sae}}\n")
    };
    (cut, $x:literal) => {
        concat!(round!(rz, $x), "vpandd zmm", $x, ", zmm", $x, ", [r8 + {keep}]{{1to16}}\n")
    };
    (rne, $x:literal) => {
        concat!("vcvtdq2ps zmm", $x, ", zmm", $x, ", {{rn-sae}}\n")
    };
    (f16, $x:literal) => {
        round!(odd, $x)
    };
    (f16_endless, $x:literal) => {
        round!(odd, $x)
    };
    (rz_last, $x:literal) => {
        round!(rz, $x)
    };
    (f16_last, $x:literal) => {
        round!(odd, $x)
    };
    (odd, $x:literal) => {
        concat!(
            "vcvtdq2ps zmm24, zmm",
            $x,
            ", {{ru-sae}}\n",
            "vcvtdq2ps zmm25, zmm",
            $x,
            ", {{rd-sae}}\n",
            round!(rz, $x),
            "vpxord zmm24, zmm24, zmm25\n",
            "vpternlogd zmm",
            $x,
            ", zmm24, [r8 + {one}]{{1to16}}, 0xf8\n",
        )
    };
}

/// A result rounded to f16, to nearest even; minus zero becomes plus zero. Adding 1.5 * 2^13 times the result's power of two,
/// or the lowest one's, leaves no place below f16's last one: four operations where the conversions and a zero added to
/// them take seven. (Results are far below 2^115, where that would overflow.) From 2^16 on what comes of it is not
/// infinite: `look` ends the call, and whoever called makes it so.
macro_rules! narrow {
    (f16, $x:literal) => {
        concat!(
            "vpandd zmm24, zmm",
            $x,
            ", [r8 + {exponent}]{{1to16}}\n",
            "vpmaxud zmm24, zmm24, [r8 + {least_c}]{{1to16}}\n",
            "vfmadd231ps zmm",
            $x,
            ", zmm24, [r8 + {last_place}]{{1to16}}\n",
            "vfnmadd231ps zmm",
            $x,
            ", zmm24, [r8 + {last_place}]{{1to16}}\n",
        )
    };
    (f16_endless, $x:literal) => {
        concat!(narrow!(by_conversion, $x), "vaddps zmm", $x, ", zmm", $x, ", [r8 + {zero}]{{1to16}}\n",)
    };
    (f16_last, $x:literal) => {
        narrow!(f16_endless, $x)
    };
    (by_conversion, $x:literal) => {
        concat!("vcvtps2ph ymm", $x, ", zmm", $x, ", 8\n", "vcvtph2ps zmm", $x, ", ymm", $x, "\n")
    };
    ($other:ident, $x:literal) => {
        ""
    };
}

/// Where c comes last, it is added to the result of a unit step's last sum, in the lanes of k5: all of them then, else none.
macro_rules! add_c {
    (rz_last, $x:literal, $row:literal, $column:literal) => {
        concat!("vaddps zmm", $x, "{{k5}}, zmm", $x, ", [r11 + 256*", $row, " + 64*", $column, "]\n")
    };
    (f16_last, $x:literal, $row:literal, $column:literal) => {
        // What is f16 already stays as it is.
        concat!(add_c!(rz_last, $x, $row, $column), narrow!(by_conversion, $x))
    };
    ($other:ident, $($rest:tt)*) => {
        ""
    };
}

/// The largest result of the piece before, for infinities, where results are f16.
macro_rules! peak {
    (f16) => {
        concat!(
            "vrangeps zmm22, zmm22, zmm16, 0xb\n",
            "vrangeps zmm23, zmm23, zmm17, 0xb\n",
            "vrangeps zmm18, zmm18, zmm19, 0xb\n",
            "vrangeps zmm20, zmm20, zmm21, 0xb\n",
            "vrangeps zmm22, zmm22, zmm23, 0xb\n",
            "vrangeps zmm18, zmm18, zmm20, 0xb\n",
            "vrangeps zmm22, zmm22, zmm18, 0xb\n",
        )
    };
    (down) => {
        "vpxord zmm22, zmm22, zmm22\n"
    };
    ($other:ident) => {
        ""
    };
}

/// The exponent that an f16 c counts with at least: see `finish::start`.
macro_rules! least_c {
    (f16_endless) => {
        least_c!(f16)
    };
    (f16_last) => {
        least_c!(f16)
    };
    (f16) => {
        concat!(
            "vpaddd zmm25, zmm27, zmm27\n",
            "vpminud zmm25, zmm25, [r8 + {least_c}]{{1to16}}\n",
            "vrangeps zmm24, zmm24, zmm25, 0xb\n",
        )
    };
    ($other:ident) => {
        ""
    };
}

/// An infinite f16 stays as it is: e_max is its exponent, beside which products are nothing, and c in units of q the largest
/// number, of which the result is infinite again, or the conversion's answer to what is beyond, `-2^31`, likewise.
macro_rules! infinite_c {
    (f16_last) => {
        infinite_c!(f16_endless)
    };
    (f16_endless) => {
        "vminps zmm24, zmm24, [r8 + {most}]{{1to16}}\n"
    };
    ($other:ident) => {
        ""
    };
}

/// Where c comes last, the first sum of a unit step begins at 0: k4 has no lanes then.
macro_rules! begins {
    (rz_last) => {
        "{{k4}}{{z}}"
    };
    (f16_last) => {
        begins!(rz_last)
    };
    ($other:ident) => {
        ""
    };
}

/// A vector of the next piece: its e_max, with c's, and c in units of q with the number of negative products.
macro_rules! begin {
    (down, $watch:ident, $unit:literal, $row:literal, $column:literal, $place:literal, $signs:literal) => {
        concat!(
            "vpshufb zmm24, zmm26, zmm",
            $place,
            "\n",
            "vpsrld zmm24, zmm24, 1\n",
            "vpternlogd zmm24, zmm19, zmm20, 0xea\n",
            "vmovdqa64 [r15 + 64*",
            $unit,
            "], zmm24\n",
            "vpsubd zmm24, zmm18, zmm24\n",
            "vmulps zmm24, zmm24, [r12 + 256*",
            $row,
            " + 64*",
            $column,
            "]\n",
            "vpxord zmm25, zmm",
            $signs,
            ", [r9 + 4*",
            $row,
            "]{{1to16}}\n",
            "vpopcntd zmm25, zmm25\n",
            "vmovaps [r15 + {units} + 64*",
            $unit,
            "], zmm24\n",
            "vrangeps zmm22, zmm22, zmm24, 0xb\n",
            "vmovdqa64 [r15 + {rests} + 64*",
            $unit,
            "], zmm25\n",
        )
    };
    ($kind:ident, $watch:ident, $unit:literal, $row:literal, $column:literal, $place:literal, $signs:literal) => {
        concat!(
            "vpshufb zmm24, zmm26, zmm",
            $place,
            "\n",
            "vmovaps zmm27",
            begins!($kind),
            ", [r12 + 256*",
            $row,
            " + 64*",
            $column,
            "]\n",
            "vpsrld zmm24, zmm24, 1\n",
            "vrangeps zmm24, zmm24, zmm27, 0xb\n",
            least_c!($kind),
            "vpternlogd zmm24, zmm19, zmm20, 0xea\n",
            "vmovdqa64 [r15 + 64*",
            $unit,
            "], zmm24\n",
            "vpsubd zmm24, zmm18, zmm24\n",
            "vmulps zmm24, zmm24, zmm27\n",
            infinite_c!($kind),
            "vpxord zmm25, zmm",
            $signs,
            ", [r9 + 4*",
            $row,
            "]{{1to16}}\n",
            "vcvttps2dq zmm24, zmm24\n",
            "vpopcntd zmm25, zmm25\n",
            "vpaddd zmm24, zmm24, zmm25\n",
            watch!($watch, back),
            "vmovdqa64 [r15 + {rests} + 64*",
            $unit,
            "], zmm24\n",
        )
    };
}

macro_rules! begin_row {
    ($kind:ident, $watch:ident, $row:literal, $u0:literal, $u1:literal) => {
        concat!(
            "vmovdqa64 zmm26, [r13 + 64*",
            $row,
            "]\n",
            begin!($kind, $watch, $u0, $row, "0", "16", "21"),
            begin!($kind, $watch, $u1, $row, "1", "17", "23"),
        )
    };
}

/// Ends a call where somebody has to look: at a sum that leaves its 31 bits, the first f16 that is infinite, or, where results are
/// rounded down, a c of the piece to come that is far above the products. Exponents near operands below the window end it before
/// (label 8), so that whoever called looks at all of these again.
macro_rules! look {
    ($kind:ident, watched) => {
        concat!("vptestmq k3, zmm29, [r8 + {over}]{{1to8}}\n", "kortestw k3, k3\n", "jnz 7f\n", look!($kind, plain))
    };
    (f16_endless, plain) => {
        ""
    };
    (f16, plain) => {
        concat!("vcmpps k3, zmm24, [r8 + {limit}]{{1to16}}, 0x1d\n", "kortestw k3, k3\n", "jnz 7f\n")
    };
    (down, plain) => {
        concat!("vcmpps k3, zmm24, [r8 + {limit}]{{1to16}}, 0x15\n", "kortestw k3, k3\n", "jnz 7f\n")
    };
    ($other:ident, plain) => {
        ""
    };
}

/// Where c comes last: what `begins` and `add_c` know of the unit step. Results of its last sum go to c's states, others to
/// states of their own, where pieces begin.
macro_rules! unit_step {
    // At the beginning of a call.
    (rz_last, enter) => {
        "kmovw k4, [r8 + {begins}]\nkmovw k5, [r8 + {first_ends}]\n"
    };
    // Where results of the next piece go.
    (rz_last, results) => {
        "add r11, [r8 + {to_c}]\nkmovw k5, [r8 + {ends}]\n"
    };
    // The piece to come is one of the next step.
    (rz_last, next) => {
        "kmovw k4, [r8 + {ends}]\nknotw k4, k4\n"
    };
    // A step begins, whose first piece ends the last one of the step before.
    (rz_last, step) => {
        concat!(
            "add r11, [r8 + {to_c}]\n",
            "mov eax, [r8 + {sums_left}]\n",
            "sub eax, 1\n",
            "cmovb eax, [r8 + {most_left}]\n",
            "mov [r8 + {sums_left}], eax\n",
            "cmp eax, 1\n",
            "sbb rax, rax\n",
            "mov [r8 + {ends}], eax\n",
            "and rax, [r8 + {apart}]\n",
            "mov [r8 + {to_c}], rax\n",
        )
    };
    (f16_last, $what:ident) => {
        unit_step!(rz_last, $what)
    };
    ($other:ident, $what:ident) => {
        ""
    };
}

/// From a piece to the one after it, if that is to be done too: of a row group the upper and the lower rows take turns, then
/// come other columns, then the next row group, and at last the next step. `rbx` counts what is left of a step.
macro_rules! go_on {
    ($kind:ident, $watch:ident) => {
        concat!(
            "cmp dword ptr [r8 + {tiny}], 0\n",
            "jnz 8f\n",
            "9:\n",
            look!($kind, $watch),
            "add rcx, 8*{l}\n",
            "add rax, 2*64\n",
            "sub ebx, 1\n",
            "jb 30f\n",
            "test ebx, 1\n",
            "jz 4f\n",
            "test ebx, 2\n",
            "jnz 3f\n",
            // To the upper rows of other columns.
            "sub rdi, 32*{l}\n",
            "add rsi, 256*{l}\n",
            "lea r11, [r12 + 4*256 - 128]\n",
            unit_step!($kind, results),
            "add r9, 16\n",
            "add r12, 4*256\n",
            "add r13, 4*64\n",
            "jmp 2b\n",
            // To the next row group,
            "3:\n",
            "add rdi, 32*{l}\n",
            "sub rsi, 256*{l}\n",
            "lea r11, [r12 - 4*256 + 128]\n",
            unit_step!($kind, results),
            // where what was e_max to come is at hand. After a step's last one come those of the next.
            "33:\n",
            "mov rax, r13\n",
            "xor rax, 8*64\n",
            "add r9, 16\n",
            "add r12, 4*256\n",
            "add r13, 4*64\n",
            "cmp ebx, 3\n",
            "ja 2b\n",
            "mov rcx, [r8 + {next_a_exp}]\n",
            "mov rdx, [r8 + {next_b_exp}]\n",
            "jmp 2b\n",
            // To the lower rows; the piece to come is one of other columns,
            "4:\n",
            "add rdi, 32*{l}\n",
            "lea r11, [r12 - 4*256]\n",
            unit_step!($kind, results),
            "test ebx, 2\n",
            "jz 5f\n",
            "sub r9, 16\n",
            "sub r10, -128\n",
            "sub r12, 4*256 - 128\n",
            "sub r13, 4*64\n",
            "sub r14, -128\n",
            "jmp 2b\n",
            // one of the next row group,
            "5:\n",
            "lea r13, [rax - 6*64]\n",
            "add r14, -128\n",
            "test ebx, ebx\n",
            "jz 6f\n",
            "add r9, 16\n",
            "add r10, -128\n",
            "add r12, 4*256 - 128\n",
            "jmp 2b\n",
            // or one of the next step.
            "6:\n",
            "mov r9, [r8 + {next_a_sign}]\n",
            "mov r10, [r8 + {next_b_sign}]\n",
            "mov r12, [r8 + {next_c}]\n",
            unit_step!($kind, next),
            "jmp 2b\n",
            // To the next step.
            "30:\n",
            "cmp dword ptr [r8 + {steps}], 0\n",
            "jz 31f\n",
            "mov ebx, [r8 + {last}]\n",
            "mov rdi, [r8 + {next_a_val}]\n",
            "mov rsi, [r8 + {next_b_val}]\n",
            "mov r11, [r8 + {last_c}]\n",
            unit_step!($kind, step),
            "sub dword ptr [r8 + {steps}], 1\n",
            "jz 33b\n",
            "add qword ptr [r8 + {next_a_val}], 256*{l}\n",
            "add qword ptr [r8 + {next_b_val}], 512*{l}\n",
            "add qword ptr [r8 + {next_a_exp}], 128*{l}\n",
            "add qword ptr [r8 + {next_b_exp}], 64*{l}\n",
            "add qword ptr [r8 + {next_a_sign}], 128\n",
            "add qword ptr [r8 + {next_b_sign}], 256\n",
            "jmp 33b\n",
            "31:\n",
            "xor ebx, ebx\n",
        )
    };
}

macro_rules! whole {
    ($kind:ident, $watch:ident) => {
        concat!(
            "push rbx\n",
            "mov ebx, [r8 + {more}]\n",
            unit_step!($kind, enter),
            "2:\n",
            "vpxord xmm30, xmm30, xmm30\n",
            "vpxord xmm31, xmm31, xmm31\n",
            begin_sum!($watch, "0", "0", "1"),
            begin_sum!($watch, "1", "2", "3"),
            begin_sum!($watch, "2", "4", "5"),
            begin_sum!($watch, "3", "6", "7"),
            begin_sum!($watch, "4", "8", "9"),
            begin_sum!($watch, "5", "10", "11"),
            begin_sum!($watch, "6", "12", "13"),
            begin_sum!($watch, "7", "14", "15"),
            "xor r15, {start}\n",
            products!("0"),
            end_row!($kind, "0", "0", "1", "16", "17"),
            products!("1"),
            end_row!($kind, "1", "2", "3", "18", "19"),
            products!("2"),
            end_row!($kind, "2", "4", "5", "20", "21"),
            products!("3"),
            end_row!($kind, "3", "6", "7", "22", "23"),
            peak!($kind),
            "vmovdqa64 zmm16, [r14]\n",
            "vmovdqa64 zmm17, [r14 + 64]\n",
            "vpbroadcastd zmm18, [r8 + {up}]\n",
            "vpbroadcastd zmm19, [r8 + {exponent}]\n",
            "vpbroadcastd zmm20, [r8 + {half}]\n",
            "vmovdqa64 zmm21, [r10]\n",
            "vmovdqa64 zmm23, [r10 + 64]\n",
            products!("4"),
            begin_row!($kind, $watch, "0", "0", "1"),
            products!("5"),
            begin_row!($kind, $watch, "1", "2", "3"),
            products!("6"),
            begin_row!($kind, $watch, "2", "4", "5"),
            products!("7"),
            begin_row!($kind, $watch, "3", "6", "7"),
            "vmovaps zmm24, zmm22\n",
            "vpsubusb zmm25, zmm30, [r8 + {sub}]\n",
            "vpsubusb zmm26, zmm31, [r8 + {sub}]\n",
            "vpmaxub zmm25, zmm25, [r8 + {floor}]\n",
            "vpmaxub zmm26, zmm26, [r8 + {floor}]\n",
            "vmovdqa64 [rax], zmm25\n",
            "vmovdqa64 [rax + 64], zmm26\n",
            "vpxord xmm29, xmm29, xmm29\n",
            end_sum!($watch, "0", "0", "1", "16"),
            end_sum!($watch, "1", "2", "3", "17"),
            end_sum!($watch, "2", "4", "5", "18"),
            end_sum!($watch, "3", "6", "7", "19"),
            end_sum!($watch, "4", "8", "9", "20"),
            end_sum!($watch, "5", "10", "11", "21"),
            end_sum!($watch, "6", "12", "13", "22"),
            end_sum!($watch, "7", "14", "15", "23"),
            go_on!($kind, $watch),
            // Not every kind has a use for all of these.
            "/* {limit} {most} {over} {units} {small} {kept} {low} {high} {watched} {keep} {zero} {one} {last_place} {least_c} {offset} */\n",
            "/* {begins} {first_ends} {ends} {to_c} {apart} {sums_left} {most_left} */\n",
            "7:\n",
            "mov eax, ebx\n",
            "pop rbx\n",
            "ret\n",
            // Whether exponents are near operands below the window.
            "8:\n",
            "vpminub zmm25, zmm30, zmm31\n",
            "vpcmpub k3, zmm25, [r8 + {safe}], 1\n",
            "kortestq k3, k3\n",
            "jz 9b\n",
            "jmp 7b",
        )
    };
}

macro_rules! pieces {
    ($($name:ident: $kind:ident, $watch:ident;)*) => {
        $(#[unsafe(naked)]
        unsafe extern "C" fn $name<const L: usize>() {
            naked_asm!(
                whole!($kind, $watch),
                l = const L,
                start = const size_of::<Start>(),
                more = const offset_of!(Work, more),
                steps = const offset_of!(Work, steps),
                last = const offset_of!(Work, last),
                last_c = const offset_of!(Work, last_c),
                next_a_val = const offset_of!(Work, next.a_val),
                next_b_val = const offset_of!(Work, next.b_val),
                next_a_exp = const offset_of!(Work, next.a_exp),
                next_b_exp = const offset_of!(Work, next.b_exp),
                next_a_sign = const offset_of!(Work, next.a_sign),
                next_b_sign = const offset_of!(Work, next.b_sign),
                next_c = const offset_of!(Work, next.c),
                rests = const offset_of!(Start, rests),
                units = const offset_of!(Work, units),
                limit = const offset_of!(Work, limit),
                most = const offset_of!(Work, most),
                over = const offset_of!(Work, over),
                tiny = const offset_of!(Work, tiny),
                safe = const offset_of!(Work, safe),
                small = const offset_of!(Work, small),
                kept = const offset_of!(Work, kept),
                low = const offset_of!(Work, low),
                high = const offset_of!(Work, high),
                watched = const offset_of!(Work, watched),
                sub = const offset_of!(Work, sub),
                floor = const offset_of!(Work, floor),
                up = const offset_of!(Work, up),
                down = const offset_of!(Work, down),
                exponent = const offset_of!(Work, exponent),
                half = const offset_of!(Work, half),
                keep = const offset_of!(Work, keep),
                one = const offset_of!(Work, one),
                zero = const offset_of!(Work, zero),
                last_place = const offset_of!(Work, last_place),
                least_c = const offset_of!(Work, least_c),
                offset = const offset_of!(Work, offset),
                begins = const offset_of!(Work, unit_step.begins),
                first_ends = const offset_of!(Work, unit_step.first_ends),
                ends = const offset_of!(Work, unit_step.ends),
                to_c = const offset_of!(Work, unit_step.to_c),
                apart = const offset_of!(Work, unit_step.apart),
                sums_left = const offset_of!(Work, unit_step.sums_left),
                most_left = const offset_of!(Work, unit_step.most_left),
            )
        })*
    };
}

pieces!(
    rz: rz, plain;
    rz_watched: rz, watched;
    cut: cut, plain;
    cut_watched: cut, watched;
    rne: rne, plain;
    rne_watched: rne, watched;
    f16: f16, plain;
    f16_watched: f16, watched;
    f16_endless: f16_endless, plain;
    f16_endless_watched: f16_endless, watched;
    rz_last: rz_last, plain;
    f16_last: f16_last, plain;
    down: down, plain;
);

/// The code for results of a kind and steps of `L` products; watched with `CHECK`.
pub(super) fn code<const OUT: u8, const CHECK: bool, const L: usize>() -> unsafe extern "C" fn() {
    match (OUT, CHECK) {
        (out::F32_RZ, false) => rz::<L>,
        (out::F32_RZ, true) => rz_watched::<L>,
        (out::F32_CUT, false) => cut::<L>,
        (out::F32_CUT, true) => cut_watched::<L>,
        (out::ROUND_DOWN, _) => down::<L>,
        (out::F16_RNE, false) => f16::<L>,
        (out::F16_RNE, true) => f16_watched::<L>,
        (_, false) => rne::<L>,
        (_, true) => rne_watched::<L>,
    }
}

/// The same for f16 results of which some may be infinite already.
pub(super) fn code_endless<const CHECK: bool, const L: usize>() -> unsafe extern "C" fn() {
    if CHECK { f16_endless_watched::<L> } else { f16_endless::<L> }
}

/// The same where c comes last.
pub(super) fn code_last<const OUT: u8, const L: usize>() -> unsafe extern "C" fn() {
    if OUT == out::F16_RNE { f16_last::<L> } else { rz_last::<L> }
}

/// Where the first piece finds what it needs: see the registers.
pub(super) struct At {
    pub(super) a: *const f64,
    pub(super) b: *const f64,
    pub(super) b_exp: *const u8,
    pub(super) a_exp: *const u32,
    pub(super) to: *mut __m512i,
    pub(super) work: *mut Work,
    pub(super) a_sign: *const u32,
    pub(super) b_sign: *const u32,
    pub(super) c: *const f32,
    pub(super) largest: *const __m512i,
    pub(super) places: *const __m512i,
    pub(super) put: *mut f32,
}

/// What a piece leaves to the next one.
pub(super) struct Carried {
    pub(super) start: *mut Start,
    pub(super) sums: [__m512i; UNITS],
}

/// What it says.
pub(super) struct Found {
    /// The largest of the two rows' exponents, as bytes.
    pub(super) exponents: [__m512i; 2],
    /// The largest f16 of the piece before, or the largest c in units of q of the piece to come where results are rounded down.
    pub(super) peak: __m512,
    /// The bits of all sums that are watched.
    pub(super) watched: __m512i,
    /// How many pieces of the step in which it ended are left to others. Steps that were not begun are left in `Work::steps`.
    pub(super) left: usize,
}

/// A piece, and as many after it as `Work::more` and `Work::steps` say, until somebody has to look at one.
///
/// # Safety
/// For each of them what the registers lead to is there, `to` and `put` to be written, B's panels, states and `Work` aligned as they are;
/// `work` has the code of this kind of steps and its constants, and `carried` is a piece's before or means one whose results
/// go aside.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn call(at: At, carried: &mut Carried) -> Found {
    let (m0, m1, peak, watched): (__m512i, __m512i, __m512, __m512i);
    let left: usize;
    let [s0, s1, s2, s3, s4, s5, s6, s7] = &mut carried.sums;
    // SAFETY: the caller's promise; the code touches nothing else, and no other registers.
    unsafe {
        asm!(
            "call [r8 + {code}]",
            code = const offset_of!(Work, code),
            inout("rdi") at.a => _,
            inout("rsi") at.b => _,
            inout("rdx") at.b_exp => _,
            inout("rcx") at.a_exp => _,
            inout("rax") at.to => left,
            in("r8") at.work,
            inout("r9") at.a_sign => _,
            inout("r10") at.b_sign => _,
            inout("r11") at.put => _,
            inout("r12") at.c => _,
            inout("r13") at.largest => _,
            inout("r14") at.places => _,
            inout("r15") carried.start,
            in("k1") 0xAAAA_u16,
            in("k2") 0x5555_u16,
            out("k3") _, out("k4") _, out("k5") _,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            inout("zmm16") *s0, inout("zmm17") *s1, inout("zmm18") *s2, inout("zmm19") *s3,
            inout("zmm20") *s4, inout("zmm21") *s5, inout("zmm22") *s6, inout("zmm23") *s7,
            out("zmm24") peak, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") watched, out("zmm30") m0, out("zmm31") m1,
        );
    }
    Found { exponents: [m0, m1], peak, watched, left }
}
