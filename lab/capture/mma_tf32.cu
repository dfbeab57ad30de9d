// mma.sync with tf32 operands: full 32-bit patterns go in, the unit reads the upper 19 bits.
#include "mma.cuh"

#if CAPTURE_SM >= 80
MMA(MMA_F32_2, 4, false, RAW, RAW, "mma.m16n8k4.f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 4, 4, 0)
MMA(MMA_F32_4, 8, false, RAW, RAW, "mma.m16n8k8.f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 4, 0)
#endif
