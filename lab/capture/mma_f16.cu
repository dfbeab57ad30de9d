// mma.sync with f16 operands: f32 and f16 accumulators.
#include "mma.cuh"

#if CAPTURE_SM >= 75
MMA(MMA_F32_2, 4, false, RAW, RAW, "mma.m16n8k8.f32.f16.f16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 2, 4, 0)
MMA(MMA_F16_2, 4, true, RAW, RAW, "mma.m16n8k8.f16.f16.f16.f16", "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 8, 2, 2, 0)
#endif
#if CAPTURE_SM >= 80
MMA(MMA_F32_4, 8, false, RAW, RAW, "mma.m16n8k16.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 2, 4, 0)
MMA(MMA_F16_4, 8, true, RAW, RAW, "mma.m16n8k16.f16.f16.f16.f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 2, 2, 0)
#endif

// m8n8k4: four independent 8x8x4 products per warp (PTX ISA, "Matrix Fragments for mma.m8n8k4 with
// .f16"). Product p is computed by lanes 4p..4p+3 and 4p+16..4p+19. With low = lane % 4 and
// half = lane / 16, a lane holds row low + 4 * half of A and column low + 4 * half of B, k = 0..3;
//   f16 C and D: row low + 4 * half, element i in column i (i = 0..7, packed in pairs)
//   f32 C and D: element i in row (low & 1) + (i & 2) + 4 * half, column (i & 4) + (low & 2) + (i & 1)
// Lane (p, low, half) holds dot-add low + 4 * half of product p in both operands, so its result is on
// the diagonal, which is always in the same lane: f16 element row; f32 the element i with
// i & 1 = low & 1, i & 2 = low & 2, i & 4 = 4 * half. No second place holds it (the tile has none to
// spare), but on the GPUs from Ampere on this instruction is CUDA-core code anyway.
namespace {
template <class Op>
__global__ void m8n8k4_kernel(capture::Batch batch) {
    const int lane = threadIdx.x % 32, low = lane % 4, half = lane / 16, product = lane / 4 % 4;
    const int warp = int(blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int diagonal = low + 4 * half, base = 32 * warp + 8 * product;
    const uint8_t *record = batch.record(base + diagonal);
    const uint32_t *a = reinterpret_cast<const uint32_t *>(record);
    const uint32_t *b = reinterpret_cast<const uint32_t *>(record + batch.layout.b_at());
    uint32_t c[8], d[8];
    for (int i = 0; i < 8; i++) {  // element (row, column) takes the c of dot-add `row`
        const int row = Op::F16_C ? diagonal : (low & 1) + (i & 2) + 4 * half;
        const uint32_t addend = capture::load_c(batch, batch.record(base + row));
        c[i] = Op::F16_C ? addend | addend << 16 : addend;
    }
    Op::run(d, a, b, c);
    const uint32_t pair = d[diagonal / 2], element = d[(low & 3) | 4 * half];
    capture::store_d(batch, base + diagonal, Op::F16_D ? (pair >> (16 * (diagonal & 1))) & 0xffff : element);
}
template <class Op>
void launch_m8n8k4(const capture::Batch &batch) {
    m8n8k4_kernel<Op><<<(batch.count + 127) / 128, 128>>>(batch);
}
}  // namespace

#define M8N8K4(...) M8N8K4_NUMBERED(__COUNTER__, __VA_ARGS__)
#define M8N8K4_NUMBERED(...) M8N8K4_EXPAND(__VA_ARGS__)
#define M8N8K4_EXPAND(NUMBER, OPERANDS, D16, C16, NAME, PTX, CBYTES, DBYTES)                            \
    struct Op##NUMBER {                                                                                 \
        static constexpr bool F16_D = D16, F16_C = C16;                                                 \
        __device__ static void run(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c) { \
            OPERANDS(PTX);                                                                              \
        }                                                                                               \
    };                                                                                                  \
    static const capture::Register register##NUMBER(NAME, NUMBER, {4, 2, CBYTES, DBYTES, 0}, launch_m8n8k4<Op##NUMBER>);

#define M8N8K4_F32_F32(PTX)                                                                               \
    asm volatile(PTX " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%12,%13,%14,%15,%16,%17,%18,%19};"  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), \
                   "r"(c[4]), "r"(c[5]), "r"(c[6]), "r"(c[7]))
#define M8N8K4_F32_F16(PTX)                                                                               \
    asm volatile(PTX " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%12,%13,%14,%15};"                  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
#define M8N8K4_F16_F16(PTX)                                                                               \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%8,%9,%10,%11};"                                  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))

M8N8K4(M8N8K4_F32_F32, false, false, "mma.m8n8k4.f32.f16.f16.f32", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 4, 4)
M8N8K4(M8N8K4_F32_F16, false, true, "mma.m8n8k4.f32.f16.f16.f16", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", 2, 4)
M8N8K4(M8N8K4_F16_F16, true, true, "mma.m8n8k4.f16.f16.f16.f16", "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16", 2, 2)
