// mma.sync with f64 operands. The layout rule is mma.cuh's with 64-bit words.
#include "capture.cuh"

namespace {
template <class Op>
__global__ void f64_kernel(capture::Batch batch) {
    const int warp = int(blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32, group = lane / 4, thread = lane % 4;
    const int index = 8 * warp + group;
    const double *record = reinterpret_cast<const double *>(batch.record(index));
    double a[Op::A], b[Op::B], c[4], d[4] = {};
    for (int i = 0; i < Op::A; i++) a[i] = record[thread + 4 * (i / 2) + i % 2 * batch.zero];  // rows group and group + 8 alike
    for (int i = 0; i < Op::B; i++) b[i] = record[batch.layout.k + thread + 4 * i];
    for (int i = 0; i < 4; i++) c[i] = record[2 * batch.layout.k];
    Op::run(d, a, b, c);
    if (thread == group / 2) {
        const double result = d[group % 2];
        if (Op::ROWS == 16)
            capture::expect_same(batch, uint64_t(__double_as_longlong(result)), uint64_t(__double_as_longlong(d[2 + group % 2])));
        if (index < batch.count) reinterpret_cast<double *>(batch.results)[index] = result;
    }
}
template <class Op>
void launch_f64(const capture::Batch &batch) {
    f64_kernel<Op><<<((batch.count + 7) / 8 + 3) / 4, 128>>>(batch);
}
}  // namespace

#define F64(...) F64_NUMBERED(__COUNTER__, __VA_ARGS__)
#define F64_NUMBERED(...) F64_EXPAND(__VA_ARGS__)
#define F64_EXPAND(NUMBER, OPERANDS, M, AREGS, BREGS, NAME, PTX, K)                                       \
    struct Op##NUMBER {                                                                                   \
        static constexpr int ROWS = M, A = AREGS, B = BREGS;                                              \
        __device__ static void run(double *d, const double *a, const double *b, const double *c) { OPERANDS(PTX); } \
    };                                                                                                    \
    static const capture::Register register##NUMBER(NAME, NUMBER, {K, 8, 8, 8, 0}, launch_f64<Op##NUMBER>);

#define F64_OUT "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
#define F64_C "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3])
#define F64_1(PTX) asm volatile(PTX " {%0,%1}, {%2}, {%3}, {%4,%5};" : "=d"(d[0]), "=d"(d[1]) : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1]))
#define F64_2(PTX) asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};" : F64_OUT : "d"(a[0]), "d"(a[1]), "d"(b[0]), F64_C)
#define F64_4(PTX)                                                                                        \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                          \
                 : F64_OUT : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), F64_C)
#define F64_8(PTX)                                                                                        \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19};"  \
                 : F64_OUT : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),  \
                   "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]), F64_C)

#if CAPTURE_SM >= 80
F64(F64_1, 8, 1, 1, "mma.m8n8k4.f64.f64.f64.f64", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 4)
F64(F64_1, 8, 1, 1, "mma.m8n8k4.f64.f64.f64.f64.rz", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz", 4)
F64(F64_1, 8, 1, 1, "mma.m8n8k4.f64.f64.f64.f64.rm", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rm", 4)
F64(F64_1, 8, 1, 1, "mma.m8n8k4.f64.f64.f64.f64.rp", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rp", 4)
#endif
#if CAPTURE_SM >= 90
F64(F64_2, 16, 2, 1, "mma.m16n8k4.f64.f64.f64.f64", "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64", 4)
F64(F64_4, 16, 4, 2, "mma.m16n8k8.f64.f64.f64.f64", "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", 8)
F64(F64_8, 16, 8, 4, "mma.m16n8k16.f64.f64.f64.f64", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", 16)
#endif
