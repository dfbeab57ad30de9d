// wgmma.mma_async (sm_90a): every type pair, f32 and f16 accumulators, A and B from shared memory.
//
// Shared memory, K-major without swizzle (PTX ISA, "Asynchronous warpgroup-level matrix shared memory
// layout"): core matrices of 8 rows x 16 bytes, each 128 contiguous bytes. Every wgmma takes 32 bytes
// along K, two core matrices. Core matrix (row block r, half h) stands at 256 * r + 128 * h, so in the
// matrix descriptor the leading-dimension byte offset (next core matrix along K) is 128 and the
// stride-dimension byte offset (next 8 rows) is 256.
//   descriptor: bits 0-13 address / 16, bits 16-29 leading offset / 16, bits 32-45 stride offset / 16,
//   bits 62-63 = 0 (no swizzle)
//
// D fragment (PTX ISA, "Register fragments for wgmma.m64nNk..."): with warp w of the warpgroup,
// group = lane / 4 and thread = lane % 4, f32 register 4j + i is row 16w + group + 8 * (i / 2), column
// 8j + 2 * thread + i % 2; f16 register 2j + i is row 16w + group + 8i, columns 8j + 2 * thread and the
// next one (low half, high half).
//
// Eight dot-adds share an instruction: rows and columns congruent to i modulo 8 hold dot-add i, so its
// result stands at 8 * N / 8 places, which must agree.
#include "capture.cuh"
#include "wgmma_registers.cuh"

#if CAPTURE_SM == 90
namespace {

__device__ inline uint64_t descriptor(const void *shared) {
    const uint64_t address = __cvta_generic_to_shared(shared);
    return (address >> 4 & 0x3fff) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
}

template <class Op>
__global__ void __launch_bounds__(128) wgmma_kernel(capture::Batch batch) {
    __shared__ alignas(128) uint8_t a[64 * 32], b[Op::N * 32];
    __shared__ uint32_t answer[8];
    const int base = 8 * blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, thread = lane % 4;
    for (int i = threadIdx.x; i < (64 + Op::N) * 8; i += 128) {  // one 32-bit word of a row each
        const bool is_b = i >= 64 * 8;
        const int row = (is_b ? i - 64 * 8 : i) / 8, w = i % 8;
        const uint8_t *record = batch.record(base + row % 8) + (is_b ? batch.layout.b_at() : 0);
        const int at = row / 8 * 256 + w / 4 * 128 + row % 8 * 16 + w % 4 * 4;
        *reinterpret_cast<uint32_t *>((is_b ? b : a) + at) = capture::word<capture::RAW>(record, w);
    }
    uint32_t d[Op::REGISTERS];
    const uint32_t addend = capture::load_c(batch, batch.record(base + group));
    for (int i = 0; i < Op::REGISTERS; i++) d[i] = Op::F16_OUT ? addend | addend << 16 : addend;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    Op::run(d, descriptor(a), descriptor(b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");

    uint32_t results[Op::N / 4];  // the two rows and N / 8 columns of dot-add `group`, if in this lane
    const int odd = group % 2;
    for (int j = 0; j < Op::N / 8; j++)
        for (int r = 0; r < 2; r++)
            results[2 * j + r] = Op::F16_OUT ? (d[2 * j + r] >> (16 * odd)) & 0xffff
                                             : (odd ? d[(4 * j + 2 * r + 1) % Op::REGISTERS] : d[(4 * j + 2 * r) % Op::REGISTERS]);
    const bool mine = thread == group / 2;
    if (mine && warp == 0) {
        answer[group] = results[0];
        capture::store_d(batch, base + group, results[0]);
    }
    __syncthreads();
    if (mine)
        for (int i = 0; i < Op::N / 4; i++) capture::expect_same(batch, results[i], answer[group]);
}

template <class Op>
void launch_wgmma(const capture::Batch &batch) {
    wgmma_kernel<Op><<<(batch.count + 7) / 8, 128>>>(batch);
}

}  // namespace

// f16 and bf16 take two more immediates (no transposition of A or B).
#define TAIL_16BIT ", p, 1, 1, 0, 0;"
#define TAIL_OTHER ", p, 1, 1;"

#define WGMMA(...) WGMMA_NUMBERED(__COUNTER__, __VA_ARGS__)
#define WGMMA_NUMBERED(...) WGMMA_EXPAND(__VA_ARGS__)
#define WGMMA_EXPAND(NUMBER, COLUMNS, BITS, TAIL, K, BYTES, TYPES)                                                      \
    struct Op##NUMBER {                                                                                                 \
        static constexpr int N = COLUMNS, REGISTERS = COLUMNS * BITS / 64;                                              \
        static constexpr bool F16_OUT = BITS == 16;                                                                     \
        __device__ static void run(uint32_t (&d)[REGISTERS], uint64_t a, uint64_t b) {                                  \
            asm volatile("{ .reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k" #K "." TYPES " " \
                         D_##COLUMNS##_##BITS TAIL " }" : O_##COLUMNS##_##BITS : "l"(a), "l"(b) : "memory");             \
        }                                                                                                               \
    };                                                                                                                  \
    static const capture::Register register##NUMBER("wgmma.m64n" #COLUMNS "k" #K "." TYPES, NUMBER,                       \
                                                    {K, BYTES, BITS / 8, BITS / 8, 0}, launch_wgmma<Op##NUMBER>);

// One line per N; one line per type pair.
#define EVERY_N(X, ...) X(8, __VA_ARGS__) X(16, __VA_ARGS__) X(64, __VA_ARGS__) X(128, __VA_ARGS__) X(256, __VA_ARGS__)

EVERY_N(WGMMA, 32, TAIL_16BIT, 16, 2, "f32.f16.f16")
EVERY_N(WGMMA, 16, TAIL_16BIT, 16, 2, "f16.f16.f16")
EVERY_N(WGMMA, 32, TAIL_16BIT, 16, 2, "f32.bf16.bf16")
EVERY_N(WGMMA, 32, TAIL_OTHER, 8, 4, "f32.tf32.tf32")
EVERY_N(WGMMA, 32, TAIL_OTHER, 32, 1, "f32.e4m3.e4m3")
EVERY_N(WGMMA, 32, TAIL_OTHER, 32, 1, "f32.e4m3.e5m2")
EVERY_N(WGMMA, 32, TAIL_OTHER, 32, 1, "f32.e5m2.e4m3")
EVERY_N(WGMMA, 32, TAIL_OTHER, 32, 1, "f32.e5m2.e5m2")
EVERY_N(WGMMA, 16, TAIL_OTHER, 32, 1, "f16.e4m3.e4m3")
EVERY_N(WGMMA, 16, TAIL_OTHER, 32, 1, "f16.e4m3.e5m2")
EVERY_N(WGMMA, 16, TAIL_OTHER, 32, 1, "f16.e5m2.e4m3")
EVERY_N(WGMMA, 16, TAIL_OTHER, 32, 1, "f16.e5m2.e5m2")
#endif
