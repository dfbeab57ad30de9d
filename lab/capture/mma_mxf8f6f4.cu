// mma.sync kind::mxf8f6f4: the same operands with one ue8m0 scale per 32 (sm_120a and its family).
#include "f8f6f4.cuh"
#include "mma.cuh"

#define PAIR(A, PA, B, PB)                                                                        \
    MMA(MMA_SCALED_4, 8, false, PA, PB, "mma.m16n8k32.block32.f32." #A "." #B ".f32.ue8m0",        \
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32." #A "." #B ".f32.ue8m0", 32, 1, 4, 1)

#if CAPTURE_SM >= 120
F8F6F4_PAIRS(PAIR)
#endif
