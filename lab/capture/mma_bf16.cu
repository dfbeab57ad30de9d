// mma.sync with bf16 operands.
#include "mma.cuh"

#if CAPTURE_SM >= 80
MMA(MMA_F32_2, 4, false, RAW, RAW, "mma.m16n8k8.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, 4, 0)
MMA(MMA_F32_4, 8, false, RAW, RAW, "mma.m16n8k16.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2, 4, 0)
#endif
