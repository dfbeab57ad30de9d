// tcgen05.mma (sm_100a and its family): kinds tf32, f16, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4, one CTA,
// A and B from shared memory.
//
// One dot-add fills a whole tile: every row of A, every column of B, every element of C and every
// scale is the same, so every element of D must be the same, which is checked. That makes the answer
// independent of the layouts of D and of the scales in tensor memory (PTX ISA, "tcgen05 Data Path
// Layout", "Scale factor layout"); what is left is the order along k, which the following fixes.
//
// Shared memory, K-major without swizzle: core matrices of 8 rows x 16 bytes as in wgmma.cu; every
// instruction takes 32 bytes along K (two core matrices, 128 bytes apart; the next 8 rows 256 apart).
// Matrix descriptor as wgmma's, with bits 46-48 = 1 (PTX ISA, "tcgen05 Shared memory descriptor").
// Operand bytes ("Packing formats used inside shared memory"): tf32, f16, bf16, fp8 as they are; for
// kind::f8f6f4 and kind::mxf8f6f4 16 elements take 16 bytes: 16 fp6 are packed into the first 12 bytes,
// 16 fp4 into the first 8, the rest is padding; for kind::mxf4 and mxf4nvf4 32 fp4 take 16 bytes. In all
// of them element 0 is in the lowest bits.
//
// Tensor memory: D in columns 0-7 of the allocation, scales of A in columns 16-19, of B in 20-23. An
// f32 element takes a 32-bit cell; an f16 element the low half of one; C is written to both halves.
// A scale cell holds the scales of blocks 0.. in its bytes 0..; for one scale (1X) all bytes hold it,
// for two (2X) they repeat.
#include "capture.cuh"
#include "f8f6f4.cuh"

#if CAPTURE_SM >= 100 && CAPTURE_SM < 120
namespace {

enum Operand { BYTES, SIX_BITS, FOUR_BITS, FOUR_BITS_DENSE };

// Byte `at` (0..31) of an operand row in shared memory.
template <Operand P>
__device__ inline uint8_t shared_byte(const uint8_t *row, int at) {
    const int half = at / 16, j = at % 16;
    if (P == SIX_BITS) {
        if (j >= 12) return 0;
        const uint8_t *x = row + 16 * half;
        const int first = 8 * j / 6, bit = 8 * j % 6;
        uint32_t bits = uint32_t(x[first] & 0x3f) >> bit;
        for (int i = first + 1, have = 6 - bit; have < 8; i++, have += 6) bits |= uint32_t(x[i] & 0x3f) << have;
        return uint8_t(bits);
    }
    if (P == FOUR_BITS) {
        const uint8_t *x = row + 16 * half + 2 * j;
        return j < 8 ? uint8_t((x[0] & 0xf) | (x[1] & 0xf) << 4) : 0;
    }
    if (P == FOUR_BITS_DENSE) return uint8_t((row[2 * at] & 0xf) | (row[2 * at + 1] & 0xf) << 4);
    return row[at];
}

__device__ inline uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ inline uint64_t descriptor(const void *shared) {
    return (shared_address(shared) >> 4 & 0x3fff) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32 | uint64_t(1) << 46;
}

// Eight columns of the 32 lanes that belong to this warp.
__device__ inline void store_cells(uint32_t address, const uint32_t (&r)[8]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"r"(address), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]) : "memory");
}
__device__ inline void load_cells(uint32_t address, uint32_t (&r)[8]) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(address));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

__device__ inline uint32_t scale_cell(const uint8_t *scales, int count) {
    uint32_t cell = 0;
    for (int i = 0; i < 4; i++) cell |= uint32_t(scales[i % count]) << (8 * i);
    return cell;
}

template <class Op>
__global__ void __launch_bounds__(128) tcgen05_kernel(capture::Batch batch) {
    __shared__ alignas(128) uint8_t a[Op::M * 32], b[8 * 32];
    __shared__ alignas(8) uint64_t barrier;
    __shared__ uint32_t allocated, answer;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(shared_address(&allocated)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t d_at = allocated, scale_a_at = allocated + 16, scale_b_at = allocated + 20;
    const uint32_t my_lanes = uint32_t(32 * warp) << 16;

    uint32_t parity = 0;
    for (int i = blockIdx.x; i < batch.count; i += gridDim.x) {
        const uint8_t *record = batch.record(i), *b_row = record + batch.layout.b_at();
        for (int at = threadIdx.x; at < Op::M * 32; at += 128)
            a[at] = shared_byte<Op::PACK_A>(record, at / 128 % 2 * 16 + at % 16);
        for (int at = threadIdx.x; at < 8 * 32; at += 128)
            b[at] = shared_byte<Op::PACK_B>(b_row, at / 128 % 2 * 16 + at % 16);
        uint32_t cells[8];
        const uint32_t addend = capture::load_c(batch, record);
        for (uint32_t &cell : cells) cell = Op::F16_OUT ? addend | addend << 16 : addend;
        store_cells(d_at + my_lanes, cells);
        if (batch.layout.scales) {
            const uint32_t sa = scale_cell(record + batch.layout.scale_a_at(), batch.layout.scales);
            const uint32_t sb = scale_cell(record + batch.layout.scale_b_at(), batch.layout.scales);
            for (int j = 0; j < 8; j++) cells[j] = j < 4 ? sa : sb;
            store_cells(scale_a_at + my_lanes, cells);
        }
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
            Op::run(d_at, descriptor(a), descriptor(b), Op::DESCRIPTOR, scale_a_at, scale_b_at);
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
        }
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(
                         shared_address(&barrier)), "r"(parity) : "memory");
        parity ^= 1;
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        load_cells(d_at + my_lanes, cells);
        for (uint32_t &cell : cells) cell &= Op::F16_OUT ? 0xffff : 0xffffffff;
        if (threadIdx.x == 0) {
            answer = cells[0];
            capture::store_d(batch, i, cells[0]);
        }
        asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
        __syncthreads();
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        if (Op::M == 128 || lane < 16)  // M = 64 uses the first 16 of every warp's 32 lanes
            for (uint32_t cell : cells) capture::expect_same(batch, cell, answer);
        __syncthreads();
    }
    if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(allocated) : "memory");
}

template <class Op>
void launch_tcgen05(const capture::Batch &batch) {
    tcgen05_kernel<Op><<<batch.count < 2048 ? batch.count : 2048, 128>>>(batch);
}

// Codes of the formats in the instruction descriptor.
enum Format { f16 = 0, bf16 = 1, tf32 = 2, e4m3 = 0, e5m2 = 1, e2m3 = 3, e3m2 = 4, e2m1 = 5, dense_e2m1 = 1 };

// PTX ISA, "tcgen05 Instruction descriptor": bits 4-5 D format (f16 0, f32 1), 7-9 A format, 10-12 B
// format, 17-22 N / 8, 24-28 M / 16; both operands K-major (bits 15, 16 clear).
constexpr uint32_t plain_descriptor(int m, bool f16_out, Format a, Format b) {
    return uint32_t(!f16_out) << 4 | uint32_t(a) << 7 | uint32_t(b) << 10 | 1u << 17 | uint32_t(m / 16) << 24;
}
// The same with scales: bit 23 scale format (ue4m3 0, ue8m0 1); scale ids (bits 4-5, 29-30) 0.
constexpr uint32_t scaled_descriptor(Format a, Format b, bool ue8m0) {
    return uint32_t(a) << 7 | uint32_t(b) << 10 | 1u << 17 | uint32_t(ue8m0) << 23 | uint32_t(128 / 16) << 24;
}
}  // namespace

#define TC_PLAIN(KIND)                                                                                      \
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 1, 1; tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, p; }" \
                 ::"r"(d), "l"(a), "l"(b), "r"(idesc) : "memory")
#define TC_SCALED(KIND)                                                                                     \
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 1, 1; tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, [%4], [%5], p; }" \
                 ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(sa), "r"(sb) : "memory")

// TC(operand list, kind, M, f16 out, operand packing of A and B, descriptor, name, K, operand bytes, scales)
#define TC(...) TC_NUMBERED(__COUNTER__, __VA_ARGS__)
#define TC_NUMBERED(...) TC_EXPAND(__VA_ARGS__)
#define TC_EXPAND(NUMBER, OPERANDS, KIND, ROWS, F16, PA, PB, IDESC, NAME, K, BYTES_, SCALES)                 \
    struct Op##NUMBER {                                                                                     \
        static constexpr int M = ROWS;                                                                      \
        static constexpr bool F16_OUT = F16;                                                                \
        static constexpr Operand PACK_A = PA, PACK_B = PB;                                                  \
        static constexpr uint32_t DESCRIPTOR = IDESC;                                                       \
        __device__ static void run(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, uint32_t sa, uint32_t sb) { \
            (void)sa, (void)sb;                                                                             \
            OPERANDS(KIND);                                                                                 \
        }                                                                                                   \
    };                                                                                                      \
    static const capture::Register register##NUMBER(NAME, NUMBER, {K, BYTES_, F16 ? 2 : 4, F16 ? 2 : 4, SCALES}, \
                                                    launch_tcgen05<Op##NUMBER>);

TC(TC_PLAIN, "tf32", 64, false, BYTES, BYTES, plain_descriptor(64, false, tf32, tf32), "tcgen05.mma.m64n8k8.f32.tf32.tf32", 8, 4, 0)
TC(TC_PLAIN, "f16", 64, false, BYTES, BYTES, plain_descriptor(64, false, f16, f16), "tcgen05.mma.m64n8k16.f32.f16.f16", 16, 2, 0)
TC(TC_PLAIN, "f16", 64, false, BYTES, BYTES, plain_descriptor(64, false, f16, bf16), "tcgen05.mma.m64n8k16.f32.f16.bf16", 16, 2, 0)
TC(TC_PLAIN, "f16", 64, false, BYTES, BYTES, plain_descriptor(64, false, bf16, f16), "tcgen05.mma.m64n8k16.f32.bf16.f16", 16, 2, 0)
TC(TC_PLAIN, "f16", 64, false, BYTES, BYTES, plain_descriptor(64, false, bf16, bf16), "tcgen05.mma.m64n8k16.f32.bf16.bf16", 16, 2, 0)
TC(TC_PLAIN, "f16", 64, true, BYTES, BYTES, plain_descriptor(64, true, f16, f16), "tcgen05.mma.m64n8k16.f16.f16.f16", 16, 2, 0)

// The packing names of f8f6f4.cuh as this file's.
#define OPERAND_RAW BYTES
#define OPERAND_FP6_BYTE SIX_BITS
#define OPERAND_FP4_BYTE FOUR_BITS
#define PAIR(A, PA, B, PB)                                                                                            \
    TC(TC_PLAIN, "f8f6f4", 64, false, OPERAND_##PA, OPERAND_##PB, plain_descriptor(64, false, A, B), "tcgen05.mma.m64n8k32.f32." #A "." #B, 32, 1, 0) \
    TC(TC_PLAIN, "f8f6f4", 64, true, OPERAND_##PA, OPERAND_##PB, plain_descriptor(64, true, A, B), "tcgen05.mma.m64n8k32.f16." #A "." #B, 32, 1, 0)   \
    TC(TC_SCALED, "mxf8f6f4.block_scale.scale_vec::1X", 128, false, OPERAND_##PA, OPERAND_##PB, scaled_descriptor(A, B, true),            \
       "tcgen05.mma.m128n8k32.block32.f32." #A "." #B ".ue8m0", 32, 1, 1)
F8F6F4_PAIRS(PAIR)

TC(TC_SCALED, "mxf4.block_scale.scale_vec::2X", 128, false, FOUR_BITS_DENSE, FOUR_BITS_DENSE, scaled_descriptor(dense_e2m1, dense_e2m1, true), "tcgen05.mma.m128n8k64.block32.f32.e2m1.e2m1.ue8m0", 64, 1, 2)
TC(TC_SCALED, "mxf4nvf4.block_scale.scale_vec::4X", 128, false, FOUR_BITS_DENSE, FOUR_BITS_DENSE, scaled_descriptor(dense_e2m1, dense_e2m1, true), "tcgen05.mma.m128n8k64.block16.f32.e2m1.e2m1.ue8m0", 64, 1, 4)
TC(TC_SCALED, "mxf4nvf4.block_scale.scale_vec::4X", 128, false, FOUR_BITS_DENSE, FOUR_BITS_DENSE, scaled_descriptor(dense_e2m1, dense_e2m1, false), "tcgen05.mma.m128n8k64.block16.f32.e2m1.e2m1.ue4m3", 64, 1, 4)
#endif
