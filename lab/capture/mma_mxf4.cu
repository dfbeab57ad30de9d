// mma.sync kind::mxf4 and kind::mxf4nvf4: packed fp4, 64 along k, two or four scales (sm_120a and its family).
#include "mma.cuh"

#if CAPTURE_SM >= 120
MMA(MMA_SCALED_4, 8, false, FP4_NIBBLE, FP4_NIBBLE, "mma.m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", 64, 1, 4, 2)
MMA(MMA_SCALED_4, 8, false, FP4_NIBBLE, FP4_NIBBLE, "mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue8m0",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0", 64, 1, 4, 4)
MMA(MMA_SCALED_4, 8, false, FP4_NIBBLE, FP4_NIBBLE, "mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 64, 1, 4, 4)
#endif
