// mma.sync kind::f8f6f4: fp8, fp6 and fp4 in 8-bit containers, every pair (sm_120a and its family).
#include "f8f6f4.cuh"
#include "mma.cuh"

#define PAIR(A, PA, B, PB)                                                                                 \
    MMA(MMA_F32_4, 8, false, PA, PB, "mma.m16n8k32.f32." #A "." #B ".f32", "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32." #A "." #B ".f32", 32, 1, 4, 0) \
    MMA(MMA_F16_4, 8, true, PA, PB, "mma.m16n8k32.f16." #A "." #B ".f16", "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16." #A "." #B ".f16", 32, 1, 2, 0)

#if CAPTURE_SM >= 120
F8F6F4_PAIRS(PAIR)
#endif
