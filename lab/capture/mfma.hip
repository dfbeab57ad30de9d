// v_mfma_* of AMD's matrix cores: CDNA1 (gfx908), CDNA2 (gfx90a), CDNA3 (gfx940, gfx942).
//
// An instruction takes `blocks` products of an N x K matrix A by a K x N matrix B, each plus an N x N
// matrix C, from a wavefront of 64 lanes. A matrix has its elements in
//
//   A[b, i, k]: item k % K_L of lane i + N (b + blocks (k / K_L)), with K_L = K N blocks / 64
//   B[b, k, j]: item k % K_L of lane j + N (b + blocks (k / K_L))
//   C, D[b, i, j]: item i % H + H (i / (H M_I) + G (b / B_I)) of lane j + N (b % B_I + B_I ((i / H) % M_I)),
//       with H = 1 for f64, else 4;  B_I = ceil(64 H / N^2);  M_I = 64 / (B_I N);  G = N / (H M_I)
//
// where items fill registers from the lowest bits up. So AMD's CDNA instruction set documents, 7.1.4
// "General input and output layout", and the matrix instruction calculator
// (github.com/ROCm/amd_matrix_instruction_calculator). They differ in one place: for v_mfma_f64_4x4x4
// the documents' formula has (i / H) % M_I + M_I (b % B_I) in the lane of D. The calculator's is taken, as
// amd-lab-notes (github.com/amd/amd-lab-notes, matrix-cores), whose program compares an MI200's
// results with the host's, has it too. From there the stand-in (hip-stand-in/) has its layouts.
//
// Dot-add v of a block stands in rows and columns v and v + N / 2, so that four elements of D are its
// result; all four are compared.
//
// Names of builtins and the types they take: LLVM, clang/include/clang/Basic/BuiltinsAMDGPU.def. Their
// last three operands (cbsz, abid, blgp: broadcasts and lane permutations) are 0 here.
// MFMA rounds as it does whatever the MODE register says, and heeds no EXEC (7.1.2). An overflow heeds MODE's
// FP16_OVFL bit there, and f32 operands are said to heed its denormal bits on CDNA3 (7.3, not seen by us):
// `verify_mfma` looks at both.
#include "capture.cuh"

#if CAPTURE_GFX == 0x908
#define CDNA 1
#elif CAPTURE_GFX == 0x90a
#define CDNA 2
#elif CAPTURE_GFX == 0x940 || CAPTURE_GFX == 0x942
#define CDNA 3
#else
#error "CAPTURE_GFX must be 0x908, 0x90a, 0x940 or 0x942"
#endif

namespace capture {

constexpr int WAVE = 64, WAVES = 4;  // lanes of a wavefront, wavefronts of a workgroup

template <class T, int COUNT>
struct VectorOf {
    typedef T type __attribute__((vector_size(sizeof(T) * COUNT)));
};
template <class T>
struct VectorOf<T, 1> {
    typedef T type;
};

struct Place {
    int block, row, slice;
};

// The inverse of the formulas above: what a lane has of A (column in place of row: of B) ...
template <class Op>
__host__ __device__ constexpr Place place_of_operand(int lane) {
    return {lane / Op::N % Op::BLOCKS, lane % Op::N, lane / (Op::N * Op::BLOCKS)};
}

// ... and which row of which block an item of a lane is in C and D. The column is lane % N.
template <class Op>
__host__ __device__ constexpr Place place_of_result(int lane, int item) {
    constexpr int H = sizeof(typename Op::Element) == 8 ? 1 : 4;
    constexpr int B_I = (64 * H + Op::N * Op::N - 1) / (Op::N * Op::N), M_I = 64 / (B_I * Op::N), G = Op::N / (H * M_I);
    return {lane / Op::N % B_I + B_I * (item / H / G), item % H + H * (lane / Op::N / B_I + M_I * (item / H % G)), 0};
}

// Every element of A (so of B) and of D is in exactly one place.
template <class Op>
constexpr bool each_element_once() {
    constexpr int K_L = sizeof(typename Op::Operand) / Op::BYTES;
    bool operand[Op::BLOCKS * Op::N * Op::K] = {}, result[Op::BLOCKS * Op::N * Op::N] = {};
    for (int lane = 0; lane < WAVE; lane++) {
        const Place from = place_of_operand<Op>(lane);
        for (int item = 0; item < K_L; item++) {
            bool &there = operand[(from.block * Op::N + from.row) * Op::K + from.slice * K_L + item];
            if (there) return false;
            there = true;
        }
        for (int item = 0; item < Op::ITEMS; item++) {
            const Place at = place_of_result<Op>(lane, item);
            bool &there = result[(at.block * Op::N + at.row) * Op::N + lane % Op::N];
            if (there) return false;
            there = true;
        }
    }
    for (bool there : operand)
        if (!there) return false;
    for (bool there : result)
        if (!there) return false;
    return true;
}

template <class Op>
__global__ void mfma_kernel(Batch batch) {
    typedef typename Op::Element Element;
    constexpr int HALF = Op::N / 2, DOT_ADDS = HALF * Op::BLOCKS;  // of one wavefront
    const int wave = int(threadIdx.x) / WAVE, lane = int(threadIdx.x) % WAVE;
    const int first = (int(blockIdx.x) * WAVES + wave) * DOT_ADDS;

    const Place from = place_of_operand<Op>(lane);
    const uint8_t *record = batch.record(first + from.block * HALF + from.row % HALF);
    typename Op::Operand a, b;
    __builtin_memcpy(&a, record + sizeof a * from.slice, sizeof a);
    __builtin_memcpy(&b, record + batch.layout.b_at() + sizeof b * from.slice, sizeof b);

    typename Op::Result c;
    Element items[Op::ITEMS];
    for (int item = 0; item < Op::ITEMS; item++) {
        const Place at = place_of_result<Op>(lane, item);
        const uint8_t *addend = batch.record(first + at.block * HALF + at.row % HALF) + batch.layout.c_at();
        items[item] = *reinterpret_cast<const Element *>(addend);
    }
    __builtin_memcpy(&c, items, sizeof c);

    const typename Op::Result d = Op::run(a, b, c);

    __shared__ Element found[WAVES][DOT_ADDS][4];
    __builtin_memcpy(items, &d, sizeof d);
    for (int item = 0; item < Op::ITEMS; item++) {
        const Place at = place_of_result<Op>(lane, item);
        const int column = lane % Op::N;
        if (at.row % HALF == column % HALF)
            found[wave][at.block * HALF + column % HALF][at.row / HALF * 2 + column / HALF] = items[item];
    }
    __syncthreads();
    if (lane >= DOT_ADDS || first + lane >= batch.count) return;
    const Element *places = found[wave][lane];
    for (int i = 1; i < 4; i++) expect_same(batch, places[0], places[i]);
    reinterpret_cast<Element *>(batch.results)[first + lane] = places[0];
}

template <class Op>
void launch_mfma(const Batch &batch) {
    constexpr int PER_GROUP = WAVES * Op::N / 2 * Op::BLOCKS;
    hipLaunchKernelGGL((mfma_kernel<Op>), dim3(unsigned((batch.count + PER_GROUP - 1) / PER_GROUP)), dim3(WAVES * WAVE), 0, 0, batch);
}

}  // namespace capture

// MFMA(N, K, blocks, bits of an element of D, type and number of the numbers in a lane's operand as the
//      builtin has them, bytes of an element of A and B, name on CDNA1 and CDNA2, name on CDNA3, builtin)
// The builtins take eight fp8 as one 64-bit number.
#define MFMA(...) MFMA_NUMBERED(__COUNTER__, __VA_ARGS__)
#define MFMA_NUMBERED(...) MFMA_EXPAND(__VA_ARGS__)
#define MFMA_EXPAND(NUMBER, WIDTH, DEPTH, COUNT, D, AB, AB_ITEMS, SIZE, NAME, NAME3, BUILTIN)                   \
    struct Op##NUMBER {                                                                                         \
        static constexpr int N = WIDTH, K = DEPTH, BLOCKS = COUNT, ITEMS = WIDTH * WIDTH * COUNT / 64;          \
        static constexpr int BYTES = SIZE;                                                                      \
        typedef uint##D##_t Element;                                                                            \
        typedef capture::VectorOf<AB, AB_ITEMS>::type Operand;                                                  \
        typedef capture::VectorOf<capture::Float##D, ITEMS>::type Result;                                       \
        static_assert(sizeof(Operand) * 64 == WIDTH * DEPTH * COUNT * SIZE, "K of " NAME NAME3);                \
        __device__ static Result run(Operand a, Operand b, Result c) { return BUILTIN(a, b, c, 0, 0, 0); }      \
    };                                                                                                          \
    static_assert(capture::each_element_once<Op##NUMBER>(), "layout of " NAME NAME3);                           \
    static const capture::Register register##NUMBER(CDNA == 3 ? NAME3 : NAME, NUMBER, {DEPTH, SIZE, D / 8, D / 8, 0}, \
                                                    capture::launch_mfma<Op##NUMBER>);

namespace capture {
typedef float Float32;
typedef double Float64;
}  // namespace capture

#define HALF_T _Float16
#define F32(N, K, BLOCKS, NAME, NAME3, BUILTIN) MFMA(N, K, BLOCKS, 32, float, 1, 4, NAME, NAME3, BUILTIN)
#define F16(N, K, BLOCKS, NAME, NAME3, BUILTIN) MFMA(N, K, BLOCKS, 32, HALF_T, 4, 2, NAME, NAME3, BUILTIN)
#define BF16(N, K, BLOCKS, NAME, BUILTIN) MFMA(N, K, BLOCKS, 32, short, 2, 2, NAME, "", BUILTIN)
#define BF16_1K(N, K, BLOCKS, NAME, NAME3, BUILTIN) MFMA(N, K, BLOCKS, 32, short, 4, 2, NAME, NAME3, BUILTIN)
#define F64(N, K, BLOCKS, NAME, NAME3, BUILTIN) MFMA(N, K, BLOCKS, 64, double, 1, 8, NAME, NAME3, BUILTIN)
#define XF32(N, K, NAME3, BUILTIN) MFMA(N, K, 1, 32, float, 2, 4, "", NAME3, BUILTIN)
#define FP8(N, K, NAME3, BUILTIN) MFMA(N, K, 1, 32, long, 1, 1, "", NAME3, BUILTIN)

F32(32, 1, 2, "v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32", __builtin_amdgcn_mfma_f32_32x32x1f32)
F32(16, 1, 4, "v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32", __builtin_amdgcn_mfma_f32_16x16x1f32)
F32(4, 1, 16, "v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32", __builtin_amdgcn_mfma_f32_4x4x1f32)
F32(32, 2, 1, "v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32", __builtin_amdgcn_mfma_f32_32x32x2f32)
F32(16, 4, 1, "v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32", __builtin_amdgcn_mfma_f32_16x16x4f32)

F16(32, 4, 2, "v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16", __builtin_amdgcn_mfma_f32_32x32x4f16)
F16(16, 4, 4, "v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16", __builtin_amdgcn_mfma_f32_16x16x4f16)
F16(4, 4, 16, "v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16", __builtin_amdgcn_mfma_f32_4x4x4f16)
F16(32, 8, 1, "v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16", __builtin_amdgcn_mfma_f32_32x32x8f16)
F16(16, 16, 1, "v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16", __builtin_amdgcn_mfma_f32_16x16x16f16)

#if CDNA < 3
BF16(32, 2, 2, "v_mfma_f32_32x32x2bf16", __builtin_amdgcn_mfma_f32_32x32x2bf16)
BF16(16, 2, 4, "v_mfma_f32_16x16x2bf16", __builtin_amdgcn_mfma_f32_16x16x2bf16)
BF16(4, 2, 16, "v_mfma_f32_4x4x2bf16", __builtin_amdgcn_mfma_f32_4x4x2bf16)
BF16(32, 4, 1, "v_mfma_f32_32x32x4bf16", __builtin_amdgcn_mfma_f32_32x32x4bf16)
BF16(16, 8, 1, "v_mfma_f32_16x16x8bf16", __builtin_amdgcn_mfma_f32_16x16x8bf16)
#endif

#if CDNA >= 2
BF16_1K(32, 4, 2, "v_mfma_f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4_2b_bf16", __builtin_amdgcn_mfma_f32_32x32x4bf16_1k)
BF16_1K(16, 4, 4, "v_mfma_f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4_4b_bf16", __builtin_amdgcn_mfma_f32_16x16x4bf16_1k)
BF16_1K(4, 4, 16, "v_mfma_f32_4x4x4bf16_1k", "v_mfma_f32_4x4x4_16b_bf16", __builtin_amdgcn_mfma_f32_4x4x4bf16_1k)
BF16_1K(32, 8, 1, "v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16", __builtin_amdgcn_mfma_f32_32x32x8bf16_1k)
BF16_1K(16, 16, 1, "v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16", __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)

F64(16, 4, 1, "v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64", __builtin_amdgcn_mfma_f64_16x16x4f64)
F64(4, 4, 4, "v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64", __builtin_amdgcn_mfma_f64_4x4x4f64)
#endif

#if CDNA == 3
XF32(32, 4, "v_mfma_f32_32x32x4_xf32", __builtin_amdgcn_mfma_f32_32x32x4_xf32)
XF32(16, 8, "v_mfma_f32_16x16x8_xf32", __builtin_amdgcn_mfma_f32_16x16x8_xf32)

FP8(16, 32, "v_mfma_f32_16x16x32_fp8_fp8", __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8)
FP8(32, 16, "v_mfma_f32_32x32x16_fp8_fp8", __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8)
FP8(16, 32, "v_mfma_f32_16x16x32_fp8_bf8", __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8)
FP8(32, 16, "v_mfma_f32_32x32x16_fp8_bf8", __builtin_amdgcn_mfma_f32_32x32x16_fp8_bf8)
FP8(16, 32, "v_mfma_f32_16x16x32_bf8_fp8", __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8)
FP8(32, 16, "v_mfma_f32_32x32x16_bf8_fp8", __builtin_amdgcn_mfma_f32_32x32x16_bf8_fp8)
FP8(16, 32, "v_mfma_f32_16x16x32_bf8_bf8", __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8)
FP8(32, 16, "v_mfma_f32_32x32x16_bf8_bf8", __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8)
#endif
