// mma.sync.m16n8kK: the kernel and the macros that make one line of a table one instruction.
//
// Fragment layouts (PTX ISA, "Matrix Fragments for mma.m16n8k4 ... m16n8k64"): with
// group = lane / 4 and thread = lane % 4, and K counted in words (32 bits; f64: 64 bits),
//   A register i:  row group + 8 * (i % 2), word thread + 4 * (i / 2)
//   B register i:  column group,            word thread + 4 * i
//   C and D, f32 and f64, register i: row group + 8 * (i / 2), column 2 * thread + i % 2
//   C and D, f16, register i: row group + 8 * i, columns 2 * thread (low half) and 2 * thread + 1
// This one rule is what the PTX ISA's figures say for f16, bf16, tf32, fp8, f8f6f4, mxf4 and f64.
//
// Eight dot-adds share a tile: row i and row i + 8 of A and column i of B hold dot-add i, so that
// elements (i, i) and (i + 8, i) of D are both its result.
//
// Scales (kind::mx...): with byte-id 0 and thread-id 0 the instruction takes the scales of a row or
// column from some lanes of its group. Rows group and group + 8 and column group all hold dot-add
// `group`, so every lane of the group offers the same word and the choice does not matter. Within
// the word, byte j is the scale of block j (1X: byte 0; 2X: bytes 0, 1; 4X: all).
#pragma once
#include "capture.cuh"

namespace capture {

template <class Op>
__global__ void mma_kernel(Batch batch) {
    const int warp = int(blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32, group = lane / 4, thread = lane % 4;
    const int index = 8 * warp + group;
    const uint8_t *record = batch.record(index);
    const uint8_t *b_row = record + batch.layout.b_at();

    uint32_t a[Op::WORDS / 2], b[Op::WORDS / 4], c[4], d[4] = {}, scale_a = 0, scale_b = 0;
    for (int i = 0; i < Op::WORDS / 2; i++)  // rows group and group + 8 alike
        a[i] = word<Op::PACK_A>(record, thread + 4 * (i / 2) + i % 2 * batch.zero);
    for (int i = 0; i < Op::WORDS / 4; i++) b[i] = word<Op::PACK_B>(b_row, thread + 4 * i);
    const uint32_t addend = load_c(batch, record);
    for (int i = 0; i < 4; i++) c[i] = Op::F16_OUT ? addend | addend << 16 : addend;
    for (int i = 0; i < batch.layout.scales; i++) {
        scale_a |= uint32_t(record[batch.layout.scale_a_at() + i]) << (8 * i);
        scale_b |= uint32_t(record[batch.layout.scale_b_at() + i]) << (8 * i);
    }
    Op::run(d, a, b, c, scale_a, scale_b);
    if (thread == group / 2) {  // column `group` is here
        const int odd = group % 2;
        const uint32_t upper = Op::F16_OUT ? (d[0] >> (16 * odd)) & 0xffff : d[odd];
        const uint32_t lower = Op::F16_OUT ? (d[1] >> (16 * odd)) & 0xffff : d[2 + odd];
        expect_same(batch, upper, lower);
        store_d(batch, index, upper);
    }
}

template <class Op>
void launch_mma(const Batch &batch) {
    const int warps = (batch.count + 7) / 8;
    mma_kernel<Op><<<(warps + 3) / 4, 128>>>(batch);
}

}  // namespace capture

// The operand lists, by accumulator and number of A registers.
#define MMA_F32_4(PTX)                                                                                 \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                      \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), \
                   "r"(c[2]), "r"(c[3]))
#define MMA_F32_2(PTX)                                                                                 \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"                                  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
#define MMA_F16_4(PTX)                                                                                 \
    asm volatile(PTX " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"                                      \
                 : "=r"(d[0]), "=r"(d[1])                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]))
#define MMA_F16_2(PTX)                                                                                 \
    asm volatile(PTX " {%0,%1}, {%2,%3}, {%4}, {%5,%6};"                                               \
                 : "=r"(d[0]), "=r"(d[1])                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]))
#define MMA_SCALED_4(PTX)                                                                              \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13}, %14, {0,0}, %15, {0,0};" \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), \
                   "r"(c[2]), "r"(c[3]), "r"(scale_a), "r"(scale_b))

// MMA(operand list, K words, f16 out, pack A, pack B, name, PTX text, K, operand bytes, c bytes, scales)
#define MMA(...) MMA_NUMBERED(__COUNTER__, __VA_ARGS__)
#define MMA_NUMBERED(...) MMA_EXPAND(__VA_ARGS__)
#define MMA_EXPAND(NUMBER, OPERANDS, KWORDS, F16, PA, PB, NAME, PTX, K, BYTES, CBYTES, SCALES)         \
    struct Op##NUMBER {                                                                                \
        static constexpr int WORDS = KWORDS;                                                           \
        static constexpr bool F16_OUT = F16;                                                           \
        static constexpr capture::Pack PACK_A = capture::PA, PACK_B = capture::PB;                     \
        __device__ static void run(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c, \
                                   uint32_t scale_a, uint32_t scale_b) {                               \
            (void)scale_a, (void)scale_b;                                                              \
            OPERANDS(PTX);                                                                             \
        }                                                                                              \
    };                                                                                                 \
    static const capture::Register register##NUMBER(NAME, NUMBER, {K, BYTES, CBYTES, CBYTES, SCALES},  \
                                                    capture::launch_mma<Op##NUMBER>);
