// A piece of 4 rows by 32 columns: while its products are summed the piece before is finished, the next one begun, and
// e_max of two rows of the row group to come looked for. `piece.rs` says what comes in and goes out.
//
// In the words of SPEC's FDA: `products` finds the products' part of e_max (step 3) of others, and truncates and adds
// products as floors (4, 5); `begin` takes c into e_max and truncates it (4); `end` makes floors of negative products
// truncations by their number, adds c (5) and encodes (6). Of round-down sums `begin_down` only scales c, for e_dot is
// the products', and `end_down` floors c, drops the total's last places and encodes, as `round_down` says.
//
// A call does one piece after another, as many as it is asked for at most: see `go_on` and `look`.
//
// zmm0 to 15     accumulators: of each vector of states those of even columns, and of odd ones
// zmm16 to 23    sums of the piece before, then its results; later constants; at last the piece's own sums
// zmm24 to 29    B's 32 columns and two others, for one position; free in between
// zmm30, zmm31   the largest exponents of two rows
// zmm22, 24, 29  of the last piece: the largest f16 or c so far; at the end the same, and the bits of watched sums
// k1, k2, k3     odd 32-bit lanes, even ones; free
// k4, k5         where c comes last: all lanes but where pieces begin at 0, and where c is added
// rdi, rsi       A's values, row after row, and B's, 16 columns after another
// ebx            how many pieces of this step are to be done after this one
// rcx, rdx, rax  exponents of two rows of A and of 64 columns of B, and where their e_max goes; at last rax = rbx
// r8, r15        `Work`, and which of its `starts` is this piece's, at the end the other one's
// r9, r10, r12 to r14
//                the next piece's signs of A and of B, states, e_max by rows, and places of its columns there
// r11            where results of the piece before go
//
// Numbers that are known when it is assembled: l, the products of a step, whether results are `cut`, to nearest
// (`rne`), below (`rd`) or above (`ru`) the sum, `f16`, or those of round-down sums (`down`), whether some f16 may be infinite (`endless`), whether sums are `watched`, and whether
// c comes `last`; all others are places in `Work`.

// ---- Products

// A row's products with 32 columns at one position.
.macro row_products row, c0, c1, c2, c3
    vpbroadcastq zmm28, [rdi + 8*gemmulate_k + 8*\row*{l}]
    vfmadd231pd zmm\c0, zmm28, zmm24, {{rz-sae}}
    vfmadd231pd zmm\c1, zmm28, zmm25, {{rz-sae}}
    vfmadd231pd zmm\c2, zmm28, zmm26, {{rz-sae}}
    vfmadd231pd zmm\c3, zmm28, zmm27, {{rz-sae}}
.endm

// An eighth of all positions, or of every other eighth. Exponents are added four bytes at once, which are 127 at most:
// none carries.
.macro products part
    .set gemmulate_k, \part*{l}/8
    .rept (\part + 1)*{l}/8 - gemmulate_k
    vmovapd zmm24, [rsi + 128*gemmulate_k]
    vmovapd zmm25, [rsi + 128*gemmulate_k + 64]
    vmovapd zmm26, [rsi + 128*gemmulate_k + 128*{l}]
    vmovapd zmm27, [rsi + 128*gemmulate_k + 128*{l} + 64]
    row_products 0, 0, 1, 2, 3
    vmovdqa64 zmm29, [rdx + 64*gemmulate_k]
    vpaddd zmm28, zmm29, [rcx + 4*gemmulate_k]{{1to16}}
    vpmaxub zmm30, zmm30, zmm28
    row_products 1, 4, 5, 6, 7
    vpaddd zmm28, zmm29, [rcx + 4*gemmulate_k + 4*{l}]{{1to16}}
    vpmaxub zmm31, zmm31, zmm28
    row_products 2, 8, 9, 10, 11
    row_products 3, 12, 13, 14, 15
    .set gemmulate_k, gemmulate_k + 1
    .endr
.endm

// `1.5 * 2^e_max` where f64 accumulators begin: see `finish::accumulators`. Sums that could leave 31 bits begin at an
// offset.
.macro begin_sum at, even, odd
    vmovdqa64 zmm24, [r15 + 64*\at]
    vpsrld zmm\odd{{k1}}{{z}}, zmm24, 3
    vpsllq zmm\even, zmm24, 29
    .if {watched}
    vporq zmm\even, zmm\even, [r8 + {offset}]{{1to8}}
    vporq zmm\odd, zmm\odd, [r8 + {offset}]{{1to8}}
    .endif
.endm

// The sum in units of q, from both kinds of columns: see `finish::low_halves`. Of watched sums all bits are kept, and
// what any of them has.
.macro end_sum at, even, odd, sum
    .if {watched}
    vporq zmm28, zmm\even, zmm\odd
    vmovdqa64 [r8 + {watched_bits} + 64*\at], zmm28
    vporq zmm29, zmm29, zmm28
    .endif
    vmovsldup zmm\sum, zmm\odd
    vmovdqa32 zmm\sum{{k2}}, zmm\even
.endm

// ---- The piece before

// A sum as f32 rounded to odd.
.macro to_odd sum
    vcvtdq2ps zmm24, zmm\sum, {{ru-sae}}
    vcvtdq2ps zmm25, zmm\sum, {{rd-sae}}
    vcvtdq2ps zmm\sum, zmm\sum, {{rz-sae}}
    vpxord zmm24, zmm24, zmm25
    vpternlogd zmm\sum, zmm24, [r8 + {one}]{{1to16}}, 0xf8
.endm

// A result rounded to f16, to nearest even.
.macro by_conversion x
    vcvtps2ph ymm\x, zmm\x, 8
    vcvtph2ps zmm\x, ymm\x
.endm

// The same; minus zero becomes plus zero. Adding 1.5 * 2^13 times the result's power of two, or the lowest one's, leaves
// no place below f16's last one: four operations where the conversions and a zero added to them take seven. (Results are
// far below 2^115, where that would overflow.) From 2^16 on what comes of it is not infinite: `look` ends the call, and
// whoever called makes it so.
.macro by_last_place x
    vpandd zmm24, zmm\x, [r8 + {exponent}]{{1to16}}
    vpmaxud zmm24, zmm24, [r8 + {least_c}]{{1to16}}
    vfmadd231ps zmm\x, zmm24, [r8 + {last_place}]{{1to16}}
    vfnmadd231ps zmm\x, zmm24, [r8 + {last_place}]{{1to16}}
.endm

// A vector of sums. Where c comes last it is added to a unit step's last one, in the lanes of k5: all of them then, else
// none; what is f16 already stays as it is.
.macro end at, row, column, sum
    vpaddd zmm\sum, zmm\sum, [r15 + {rests} + 64*\at]
    .if {f16}
    to_odd \sum
    .elseif {rne}
    vcvtdq2ps zmm\sum, zmm\sum, {{rn-sae}}
    .elseif {rd}
    vcvtdq2ps zmm\sum, zmm\sum, {{rd-sae}}
    .elseif {ru}
    vcvtdq2ps zmm\sum, zmm\sum, {{ru-sae}}
    .else
    vcvtdq2ps zmm\sum, zmm\sum, {{rz-sae}}
    .if {cut}
    vpandd zmm\sum, zmm\sum, [r8 + {keep}]{{1to16}}
    .endif
    .endif
    vpaddd zmm24, zmm29, [r15 + 64*\at]
    vmulps zmm\sum, zmm\sum, zmm24
    .if {f16}
    .if {endless}
    by_conversion \sum
    vaddps zmm\sum, zmm\sum, [r8 + {zero}]{{1to16}}
    .else
    by_last_place \sum
    .endif
    .endif
    .if {last}
    vaddps zmm\sum{{k5}}, zmm\sum, [r11 + 256*\row + 64*\column]
    .if {f16}
    by_conversion \sum
    .endif
    .endif
    vmovaps [r11 + 256*\row + 64*\column], zmm\sum
.endm

// The same, rounded down. The total as an f32 sum toward zero has the exponent of the exact one, or, next to a power of
// two, a wrong one that does no harm. It says which of the 5 lowest places of the sum are dropped, and whether the total
// is that of integers, or that of c and the sum rounded to odd above those places.
.macro end_down at, row, column, sum
    vpaddd zmm\sum, zmm\sum, [r15 + {rests} + 64*\at]
    vmovaps zmm24, [r15 + {c_in_q} + 64*\at]
    vcvtdq2ps zmm25, zmm\sum, {{rz-sae}}
    vcvtps2dq zmm26, zmm24, {{rd-sae}}
    vaddps zmm25, zmm25, zmm24, {{rz-sae}}
    vpaddd zmm26, zmm26, zmm\sum
    vpaddd zmm25, zmm25, zmm25
    vcvtdq2ps zmm26, zmm26
    vpsrld zmm25, zmm25, 24
    vpternlogd zmm27, zmm27, zmm27, 0xff
    vpcmpgtd k3, zmm25, [r8 + {small}]{{1to16}}
    vpsubusw zmm25, zmm25, [r8 + {kept}]
    vpsllvd zmm25, zmm27, zmm25
    vpternlogd zmm25, zmm\sum, [r8 + {low}]{{1to16}}, 0x80
    vpaddd zmm25, zmm25, [r8 + {low}]{{1to16}}
    vpternlogd zmm25, zmm\sum, [r8 + {high}]{{1to16}}, 0xa8
    vcvtdq2ps zmm25, zmm25
    vpaddd zmm28, zmm29, [r15 + 64*\at]
    vaddps zmm26{{k3}}, zmm25, zmm24
    vmulps zmm26, zmm26, zmm28
    vmovaps [r11 + 256*\row + 64*\column], zmm26
.endm

.macro end_row row, u0, u1, s0, s1
    vpbroadcastd zmm29, [r8 + {down_by}]
    .if {down}
    end_down \u0, \row, 0, \s0
    end_down \u1, \row, 1, \s1
    .else
    end \u0, \row, 0, \s0
    end \u1, \row, 1, \s1
    .endif
.endm

// The largest result, for infinities, where results are f16; else, of round-down sums, none so far.
.macro peak
    .if {f16} && !{endless}
    vrangeps zmm22, zmm22, zmm16, 0xb
    vrangeps zmm23, zmm23, zmm17, 0xb
    vrangeps zmm18, zmm18, zmm19, 0xb
    vrangeps zmm20, zmm20, zmm21, 0xb
    vrangeps zmm22, zmm22, zmm23, 0xb
    vrangeps zmm18, zmm18, zmm20, 0xb
    vrangeps zmm22, zmm22, zmm18, 0xb
    .endif
    .if {down}
    vpxord zmm22, zmm22, zmm22
    .endif
.endm

// ---- The next piece

// A vector: its e_max, with c's, and c in units of q with the number of negative products. Where c comes last, the first
// sum of a unit step begins at 0: k4 has no lanes then. An f16 c counts with f16's least exponent at least (see
// `finish::start`). An infinite one stays as it is: e_max is its exponent, beside which products are nothing, and c in
// units of q the largest number, of which the result is infinite again, or the conversion's answer to what is beyond,
// `-2^31`, likewise.
.macro begin at, row, column, place, signs
    vpshufb zmm24, zmm26, zmm\place
    .if {last}
    vmovaps zmm27{{k4}}{{z}}, [r12 + 256*\row + 64*\column]
    .else
    vmovaps zmm27, [r12 + 256*\row + 64*\column]
    .endif
    vpsrld zmm24, zmm24, 1
    vrangeps zmm24, zmm24, zmm27, 0xb
    .if {f16}
    vpaddd zmm25, zmm27, zmm27
    vpminud zmm25, zmm25, [r8 + {least_c}]{{1to16}}
    vrangeps zmm24, zmm24, zmm25, 0xb
    .endif
    vpternlogd zmm24, zmm19, zmm20, 0xea
    vmovdqa64 [r15 + 64*\at], zmm24
    vpsubd zmm24, zmm18, zmm24
    vmulps zmm24, zmm24, zmm27
    .if {endless}
    vminps zmm24, zmm24, [r8 + {most}]{{1to16}}
    .endif
    vpxord zmm25, zmm\signs, [r9 + 4*\row]{{1to16}}
    vcvttps2dq zmm24, zmm24
    vpopcntd zmm25, zmm25
    vpaddd zmm24, zmm24, zmm25
    .if {watched}
    vpsubd zmm24, zmm24, [r8 + {offset}]{{1to16}}
    .endif
    vmovdqa64 [r15 + {rests} + 64*\at], zmm24
.endm

// The same, of round-down sums: c in units of q as it is, and the largest one.
.macro begin_down at, row, column, place, signs
    vpshufb zmm24, zmm26, zmm\place
    vpsrld zmm24, zmm24, 1
    vpternlogd zmm24, zmm19, zmm20, 0xea
    vmovdqa64 [r15 + 64*\at], zmm24
    vpsubd zmm24, zmm18, zmm24
    vmulps zmm24, zmm24, [r12 + 256*\row + 64*\column]
    vpxord zmm25, zmm\signs, [r9 + 4*\row]{{1to16}}
    vpopcntd zmm25, zmm25
    vmovaps [r15 + {c_in_q} + 64*\at], zmm24
    vrangeps zmm22, zmm22, zmm24, 0xb
    vmovdqa64 [r15 + {rests} + 64*\at], zmm25
.endm

.macro begin_row row, u0, u1
    vmovdqa64 zmm26, [r13 + 64*\row]
    .if {down}
    begin_down \u0, \row, 0, 16, 21
    begin_down \u1, \row, 1, 17, 23
    .else
    begin \u0, \row, 0, 16, 21
    begin \u1, \row, 1, 17, 23
    .endif
.endm

// ---- From piece to piece

// Ends a call where somebody has to look: at a sum that leaves its 31 bits, the first f16 that is infinite, or, where
// results are rounded down, a c of the piece to come that is far above the products. Exponents near operands below the
// window end it before (label 8), so that whoever called looks at all of these again.
.macro look
    .if {watched}
    vptestmq k3, zmm29, [r8 + {over}]{{1to8}}
    kortestw k3, k3
    jnz 7f
    .endif
    .if {f16} && !{endless}
    vcmpps k3, zmm24, [r8 + {limit}]{{1to16}}, 0x1d
    kortestw k3, k3
    jnz 7f
    .endif
    .if {down}
    vcmpps k3, zmm24, [r8 + {limit}]{{1to16}}, 0x15
    kortestw k3, k3
    jnz 7f
    .endif
.endm

// Where c comes last, results of a unit step's last sum go to c's states, and others to states of their own, where pieces
// begin: where those of the next piece go.
.macro place_results
    .if {last}
    add r11, [r8 + {to_c}]
    kmovw k5, [r8 + {ends}]
    .endif
.endm

// Where c comes last, a step begins, whose first piece ends the last one of the step before.
.macro begin_step
    .if {last}
    add r11, [r8 + {to_c}]
    mov eax, [r8 + {sums_left}]
    sub eax, 1
    cmovb eax, [r8 + {most_left}]
    mov [r8 + {sums_left}], eax
    cmp eax, 1
    sbb rax, rax
    mov [r8 + {ends}], eax
    and rax, [r8 + {apart}]
    mov [r8 + {to_c}], rax
    .endif
.endm

// From a piece to the one after it, if that is to be done too: of a row group the upper and the lower rows take turns,
// then come other columns, then the next row group, and at last the next step. `rbx` counts what is left of a step.
.macro go_on
    cmp dword ptr [r8 + {tiny}], 0
    jnz 8f
9:
    look
    add rcx, 8*{l}
    add rax, 2*64
    sub ebx, 1
    jb 30f
    test ebx, 1
    jz 4f
    test ebx, 2
    jnz 3f
    // To the upper rows of other columns.
    sub rdi, 32*{l}
    add rsi, 256*{l}
    lea r11, [r12 + 4*256 - 128]
    place_results
    add r9, 16
    add r12, 4*256
    add r13, 4*64
    jmp 2b
3:
    // To the next row group,
    add rdi, 32*{l}
    sub rsi, 256*{l}
    lea r11, [r12 - 4*256 + 128]
    place_results
33:
    // where what was e_max to come is at hand. After a step's last one come those of the next.
    mov rax, r13
    xor rax, 8*64
    add r9, 16
    add r12, 4*256
    add r13, 4*64
    cmp ebx, 3
    ja 2b
    mov rcx, [r8 + {next_a_exp}]
    mov rdx, [r8 + {next_b_exp}]
    jmp 2b
4:
    // To the lower rows; the piece to come is one of other columns,
    add rdi, 32*{l}
    lea r11, [r12 - 4*256]
    place_results
    test ebx, 2
    jz 5f
    sub r9, 16
    sub r10, -128
    sub r12, 4*256 - 128
    sub r13, 4*64
    sub r14, -128
    jmp 2b
5:
    // one of the next row group,
    lea r13, [rax - 6*64]
    add r14, -128
    test ebx, ebx
    jz 6f
    add r9, 16
    add r10, -128
    add r12, 4*256 - 128
    jmp 2b
6:
    // or one of the next step.
    mov r9, [r8 + {next_a_sign}]
    mov r10, [r8 + {next_b_sign}]
    mov r12, [r8 + {next_c}]
    .if {last}
    kmovw k4, [r8 + {ends}]
    knotw k4, k4
    .endif
    jmp 2b
30:
    // To the next step.
    cmp dword ptr [r8 + {steps}], 0
    jz 31f
    mov ebx, [r8 + {last_piece}]
    mov rdi, [r8 + {next_a_val}]
    mov rsi, [r8 + {next_b_val}]
    mov r11, [r8 + {last_c}]
    begin_step
    sub dword ptr [r8 + {steps}], 1
    jz 33b
    add qword ptr [r8 + {next_a_val}], 256*{l}
    add qword ptr [r8 + {next_b_val}], 512*{l}
    add qword ptr [r8 + {next_a_exp}], 128*{l}
    add qword ptr [r8 + {next_b_exp}], 64*{l}
    add qword ptr [r8 + {next_a_sign}], 128
    add qword ptr [r8 + {next_b_sign}], 256
    jmp 33b
31:
    xor ebx, ebx
.endm

    push rbx
    mov ebx, [r8 + {more}]
    .if {last}
    kmovw k4, [r8 + {begins}]
    kmovw k5, [r8 + {first_ends}]
    .endif
2:
    vpxord xmm30, xmm30, xmm30
    vpxord xmm31, xmm31, xmm31
    begin_sum 0, 0, 1
    begin_sum 1, 2, 3
    begin_sum 2, 4, 5
    begin_sum 3, 6, 7
    begin_sum 4, 8, 9
    begin_sum 5, 10, 11
    begin_sum 6, 12, 13
    begin_sum 7, 14, 15
    xor r15, {start}
    products 0
    end_row 0, 0, 1, 16, 17
    products 1
    end_row 1, 2, 3, 18, 19
    products 2
    end_row 2, 4, 5, 20, 21
    products 3
    end_row 3, 6, 7, 22, 23
    peak
    vmovdqa64 zmm16, [r14]
    vmovdqa64 zmm17, [r14 + 64]
    vpbroadcastd zmm18, [r8 + {up}]
    vpbroadcastd zmm19, [r8 + {exponent}]
    vpbroadcastd zmm20, [r8 + {half}]
    vmovdqa64 zmm21, [r10]
    vmovdqa64 zmm23, [r10 + 64]
    products 4
    begin_row 0, 0, 1
    products 5
    begin_row 1, 2, 3
    products 6
    begin_row 2, 4, 5
    products 7
    begin_row 3, 6, 7
    vmovaps zmm24, zmm22
    vpsubusb zmm25, zmm30, [r8 + {sub}]
    vpsubusb zmm26, zmm31, [r8 + {sub}]
    vpmaxub zmm25, zmm25, [r8 + {floor}]
    vpmaxub zmm26, zmm26, [r8 + {floor}]
    vmovdqa64 [rax], zmm25
    vmovdqa64 [rax + 64], zmm26
    vpxord xmm29, xmm29, xmm29
    end_sum 0, 0, 1, 16
    end_sum 1, 2, 3, 17
    end_sum 2, 4, 5, 18
    end_sum 3, 6, 7, 19
    end_sum 4, 8, 9, 20
    end_sum 5, 10, 11, 21
    end_sum 6, 12, 13, 22
    end_sum 7, 14, 15, 23
    go_on
7:
    mov eax, ebx
    pop rbx
    ret
8:
    // Whether exponents are near operands below the window.
    vpminub zmm25, zmm30, zmm31
    vpcmpub k3, zmm25, [r8 + {safe}], 1
    kortestq k3, k3
    jz 9b
    jmp 7b

// The names may be used again.
.purgem row_products
.purgem products
.purgem begin_sum
.purgem end_sum
.purgem to_odd
.purgem by_conversion
.purgem by_last_place
.purgem end
.purgem end_down
.purgem end_row
.purgem peak
.purgem begin
.purgem begin_down
.purgem begin_row
.purgem look
.purgem place_results
.purgem begin_step
.purgem go_on
