// mma.sync with fp8 operands in every pair. On Hopper and Blackwell the compiler makes f16
// instructions of these; the answers are the emulation's, as intended.
#include "mma.cuh"

#define FP8_PAIR(A, B)                                                                                          \
    MMA(MMA_F32_2, 4, false, RAW, RAW, "mma.m16n8k16.f32." #A "." #B ".f32", "mma.sync.aligned.m16n8k16.row.col.f32." #A "." #B ".f32", 16, 1, 4, 0) \
    MMA(MMA_F16_2, 4, true, RAW, RAW, "mma.m16n8k16.f16." #A "." #B ".f16", "mma.sync.aligned.m16n8k16.row.col.f16." #A "." #B ".f16", 16, 1, 2, 0)  \
    MMA(MMA_F32_4, 8, false, RAW, RAW, "mma.m16n8k32.f32." #A "." #B ".f32", "mma.sync.aligned.m16n8k32.row.col.f32." #A "." #B ".f32", 32, 1, 4, 0) \
    MMA(MMA_F16_4, 8, true, RAW, RAW, "mma.m16n8k32.f16." #A "." #B ".f16", "mma.sync.aligned.m16n8k32.row.col.f16." #A "." #B ".f16", 32, 1, 2, 0)

#if CAPTURE_SM >= 89
FP8_PAIR(e4m3, e4m3)
FP8_PAIR(e4m3, e5m2)
FP8_PAIR(e5m2, e4m3)
FP8_PAIR(e5m2, e5m2)
#endif
