// Whole products: plain tiled kernels with an explicit order along k, to be compared bit for bit
// with the library's `Gemm` under the same plan.
//
//     gemm UNIT M N K [options] A B [C] D        raw little-endian files, no header
//     gemm --list                                the units that this build has
//
// A is M x K row-major, B is K x N **column**-major (K contiguous), C and D are M x N row-major; operands
// as in the binary protocol of capture.cuh, C and D in the type of --out.
//
//   --bk B            elements of K per block (default: 128 bytes of K; a multiple of the unit's K).
//                     Blocks start at k = 0; the last one is filled up with zeros (tail last).
//   --split S         S contiguous slices of ceil(blocks / S) blocks, the last one the rest
//   --mode parallel   slices from +0; x = ((+0 + p_0) + p_1) + ... in f32 RNE, then one epilogue (default)
//   --mode serial     slice 0 runs the epilogue with the user's beta and C; every later slice runs it with
//                     beta = 1 and C = the previous D
//   --promote I       every I elements of a slice the unit's accumulator is added to an f32 master (RNE) and
//                     restarts at +0; the master is what leaves the slice
//   --alpha X --beta Y   f32 (default 1 and 0); --epilogue 2x: fma(alpha, acc, RNE(beta * C)),
//                     3x: fma(beta, C, RNE(alpha * acc)) (default 3x; serial mode: 2x). alpha = 1 and
//                     beta = 0 leave acc as it is; beta = 0 never reads C.
//   --out f32|f16|bf16   the output type (default: f32), rounded once, to nearest even
//
// The units: mma.sync m16n8k16 f16 (f32 and f16 accumulators) and bf16, m16n8k8 tf32, m16n8k32 e4m3; on
// sm_90a also wgmma m64n64k16 f16 (both) and bf16, m64n64k8 tf32, m64n64k32 e4m3 (both).
//
// NaNs keep whatever bits the hardware gives them; compare data without NaN, or by class.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "wgmma_registers.cuh"

#ifndef CAPTURE_SM
#error "define CAPTURE_SM, for example -DCAPTURE_SM=90"
#endif

#define CUDA_CHECK(call)                                                                                 \
    do {                                                                                                 \
        cudaError_t error_ = (call);                                                                     \
        if (error_ != cudaSuccess) {                                                                     \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            std::exit(2);                                                                                \
        }                                                                                                \
    } while (0)

namespace {

enum Out { OUT_F32, OUT_F16, OUT_BF16 };

struct Plan {
    int m, n, k;          // the product
    int block_words;      // 32-bit words of K per block
    int split, slice;     // slices; the one to compute, or -1 for all of them (blockIdx.z)
    int promote_words;    // words of K per promotion interval; 0: none
    bool serial;
    float alpha, beta;
    bool two_x;
    Out out;
};

constexpr int TILE = 64;       // rows and columns of D per block of threads
constexpr int STEP_WORDS = 8;  // both kernels stage 32 bytes of K per step

__device__ float read_c(const void *c, size_t at, Out type) {
    if (type == OUT_F16) return __half2float(static_cast<const __half *>(c)[at]);
    if (type == OUT_BF16) return __bfloat162float(static_cast<const __nv_bfloat16 *>(c)[at]);
    return static_cast<const float *>(c)[at];
}

__device__ void epilogue(const Plan &p, float acc, float alpha, float beta, const void *c, void *d, size_t at) {
    float x = acc;
    if (beta == 0.0f) x = alpha == 1.0f ? acc : __fmul_rn(alpha, acc);
    else if (p.two_x) x = __fmaf_rn(alpha, acc, __fmul_rn(beta, read_c(c, at, p.out)));
    else x = __fmaf_rn(beta, read_c(c, at, p.out), __fmul_rn(alpha, acc));
    if (p.out == OUT_F16) static_cast<__half *>(d)[at] = __float2half_rn(x);
    else if (p.out == OUT_BF16) static_cast<__nv_bfloat16 *>(d)[at] = __float2bfloat16_rn(x);
    else static_cast<float *>(d)[at] = x;
}

// What a slice does with one finished element.
__device__ void finish(const Plan &p, int slice, int row, int column, float acc, const void *c, void *d, float *partial) {
    if (row >= p.m || column >= p.n) return;
    const size_t at = size_t(row) * p.n + column;
    if (p.serial) epilogue(p, acc, p.alpha, slice == 0 ? p.beta : 1.0f, slice == 0 ? c : d, d, at);
    else partial[size_t(slice) * p.m * p.n + at] = acc;
}

__global__ void reduce_kernel(Plan p, const float *partial, const void *c, void *d) {
    const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x, size = size_t(p.m) * p.n;
    if (at >= size) return;
    float x = partial[at];
    if (p.split > 1) {
        x = __fadd_rn(0.0f, x);
        for (int s = 1; s < p.split; s++) x = __fadd_rn(x, partial[s * size + at]);
    }
    epilogue(p, x, p.alpha, p.beta, c, d, at);
}

// The blocks [first, last) of K, in words, of a slice.
__device__ void slice_range(const Plan &p, int k_words, int slice, int &first, int &last) {
    const int blocks = (k_words + p.block_words - 1) / p.block_words, each = (blocks + p.split - 1) / p.split;
    first = slice * each * p.block_words;
    last = min(blocks, (slice + 1) * each) * p.block_words;
}

// Word w of row r of an operand with `bytes` bytes a row; zero outside.
__device__ uint32_t operand_word(const uint8_t *x, int rows, size_t bytes, int r, int w) {
    if (r >= rows || size_t(w) * 4 >= bytes) return 0;
    const uint8_t *at = x + size_t(r) * bytes + size_t(w) * 4;
    if (bytes % 4 == 0) return *reinterpret_cast<const uint32_t *>(at);
    uint32_t value = 0;
    for (int i = 0; i < 4 && size_t(w) * 4 + i < bytes; i++) value |= uint32_t(at[i]) << (8 * i);
    return value;
}

// ---------------------------------------------------------------------------------------------
// mma.sync: four warps, each 16 rows x 64 columns. Fragment layouts as in mma.cuh.

template <class Op>
__global__ void __launch_bounds__(128) gemm_mma(Plan p, const uint8_t *a, const uint8_t *b, const void *c, void *d, float *partial, size_t row_bytes) {
    __shared__ uint32_t sa[TILE][STEP_WORDS + 1], sb[TILE][STEP_WORDS + 1];
    const int slice = p.slice >= 0 ? p.slice : blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, thread = lane % 4, top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    uint32_t acc[8][4] = {};
    float master[8][4] = {};
    int first, last;
    slice_range(p, int((row_bytes + 3) / 4), slice, first, last);
    for (int k = first; k < last; k += STEP_WORDS) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * STEP_WORDS; i += 128) {
            sa[i / STEP_WORDS][i % STEP_WORDS] = operand_word(a, p.m, row_bytes, top + i / STEP_WORDS, k + i % STEP_WORDS);
            sb[i / STEP_WORDS][i % STEP_WORDS] = operand_word(b, p.n, row_bytes, left + i / STEP_WORDS, k + i % STEP_WORDS);
        }
        __syncthreads();
        uint32_t fa[4], fb[2];
        for (int i = 0; i < 4; i++) fa[i] = sa[16 * warp + group + 8 * (i % 2)][thread + 4 * (i / 2)];
        for (int j = 0; j < 8; j++) {
            for (int i = 0; i < 2; i++) fb[i] = sb[8 * j + group][thread + 4 * i];
            Op::run(acc[j], fa, fb);
        }
        const int done = k + STEP_WORDS - first;
        if (p.promote_words && (done % p.promote_words == 0 || k + STEP_WORDS >= last))
            for (int j = 0; j < 8; j++)
                for (int i = 0; i < 4; i++) {
                    master[j][i] = __fadd_rn(master[j][i], Op::element(acc[j], i));
                    if (i == 3) Op::clear(acc[j]);
                }
    }
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 4; i++)
            finish(p, slice, top + 16 * warp + group + 8 * (i / 2), left + 8 * j + 2 * thread + i % 2,
                   p.promote_words ? master[j][i] : Op::element(acc[j], i), c, d, partial);
}

__device__ float half_of(uint32_t pair, int which) { return __half2float(__ushort_as_half((unsigned short)(pair >> (16 * which)))); }

template <bool F16>
struct MmaBase {
    __device__ static float element(const uint32_t *acc, int i) { return F16 ? half_of(acc[i / 2], i % 2) : __uint_as_float(acc[i]); }
    __device__ static void clear(uint32_t *acc) {
        for (int i = 0; i < 4; i++) acc[i] = 0;
    }
};

#define GEMM_F32(PTX)                                                                              \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define GEMM_F16(PTX)                                                                              \
    asm volatile(PTX " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                                  \
                 : "+r"(d[0]), "+r"(d[1])                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// ---------------------------------------------------------------------------------------------
// wgmma: one warpgroup, 64 x 64. Shared-memory and register layouts as in wgmma.cu.

#if CAPTURE_SM == 90
__device__ uint64_t descriptor(const void *shared) {
    const uint64_t address = __cvta_generic_to_shared(shared);
    return (address >> 4 & 0x3fff) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
}

template <class Op>
__global__ void __launch_bounds__(128) gemm_wgmma(Plan p, const uint8_t *a, const uint8_t *b, const void *c, void *d, float *partial, size_t row_bytes) {
    __shared__ alignas(128) uint32_t sa[TILE * STEP_WORDS], sb[TILE * STEP_WORDS];
    const int slice = p.slice >= 0 ? p.slice : blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, thread = lane % 4, top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    uint32_t acc[Op::REGISTERS] = {};
    float master[32] = {};
    int first, last;
    slice_range(p, int((row_bytes + 3) / 4), slice, first, last);
    for (int k = first; k < last; k += STEP_WORDS) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * STEP_WORDS; i += 128) {
            const int row = i / STEP_WORDS, w = i % STEP_WORDS;
            const int at = row / 8 * 64 + w / 4 * 32 + row % 8 * 4 + w % 4;
            sa[at] = operand_word(a, p.m, row_bytes, top + row, k + w);
            sb[at] = operand_word(b, p.n, row_bytes, left + row, k + w);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        Op::run(acc, descriptor(sa), descriptor(sb));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const int done = k + STEP_WORDS - first;
        if (p.promote_words && (done % p.promote_words == 0 || k + STEP_WORDS >= last)) {
            for (int i = 0; i < 32; i++) master[i] = __fadd_rn(master[i], Op::element(acc, i));
            for (int i = 0; i < Op::REGISTERS; i++) acc[i] = 0;
        }
    }
    for (int i = 0; i < 32; i++)  // element i: columns 8 * (i / 4) + ..., rows group and group + 8
        finish(p, slice, top + 16 * warp + group + 8 * (i / 2 % 2), left + 8 * (i / 4) + 2 * thread + i % 2,
               p.promote_words ? master[i] : Op::element(acc, i), c, d, partial);
}

template <bool F16>
struct WgmmaBase {
    static constexpr int REGISTERS = F16 ? 16 : 32;
    __device__ static float element(const uint32_t (&acc)[REGISTERS], int i) {
        return F16 ? half_of(acc[i / 2 % REGISTERS], i % 2) : __uint_as_float(acc[i % REGISTERS]);
    }
};
#endif

// ---------------------------------------------------------------------------------------------

using Kernel = void (*)(Plan, const uint8_t *, const uint8_t *, const void *, void *, float *, size_t);
struct Unit {
    const char *name;
    int number, k, operand_bytes;
    Kernel kernel;
};
std::vector<Unit> &units() {
    static std::vector<Unit> all;
    return all;
}
struct Register {
    Register(const char *name, int number, int k, int bytes, Kernel kernel) { units().push_back({name, number, k, bytes, kernel}); }
};

#define GEMM_MMA(...) GEMM_MMA_NUMBERED(__COUNTER__, __VA_ARGS__)
#define GEMM_MMA_NUMBERED(...) GEMM_MMA_EXPAND(__VA_ARGS__)
#define GEMM_MMA_EXPAND(NUMBER, OPERANDS, F16, NAME, PTX, K, BYTES)                                           \
    struct Op##NUMBER : MmaBase<F16> {                                                                        \
        __device__ static void run(uint32_t *d, const uint32_t *a, const uint32_t *b) { OPERANDS(PTX); }      \
    };                                                                                                        \
    const Register register##NUMBER(NAME, NUMBER, K, BYTES, gemm_mma<Op##NUMBER>);

GEMM_MMA(GEMM_F32, false, "mma.m16n8k16.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 2)
GEMM_MMA(GEMM_F16, true, "mma.m16n8k16.f16.f16.f16.f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 2)
GEMM_MMA(GEMM_F32, false, "mma.m16n8k16.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2)
GEMM_MMA(GEMM_F32, false, "mma.m16n8k8.f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4)
#if CAPTURE_SM >= 89
GEMM_MMA(GEMM_F32, false, "mma.m16n8k32.f32.e4m3.e4m3.f32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 1)
#endif

#if CAPTURE_SM == 90
#define TAIL_16BIT ", p, 1, 1, 0, 0;"
#define TAIL_OTHER ", p, 1, 1;"
#define GEMM_WGMMA(...) GEMM_WGMMA_NUMBERED(__COUNTER__, __VA_ARGS__)
#define GEMM_WGMMA_NUMBERED(...) GEMM_WGMMA_EXPAND(__VA_ARGS__)
#define GEMM_WGMMA_EXPAND(NUMBER, BITS, TAIL, K, BYTES, TYPES)                                                        \
    struct Op##NUMBER : WgmmaBase<BITS == 16> {                                                                       \
        __device__ static void run(uint32_t (&d)[REGISTERS], uint64_t a, uint64_t b) {                                \
            asm volatile("{ .reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n64k" #K "." TYPES " "  \
                         D_64_##BITS TAIL " }" : O_64_##BITS : "l"(a), "l"(b) : "memory");                             \
        }                                                                                                             \
    };                                                                                                                \
    const Register register##NUMBER("wgmma.m64n64k" #K "." TYPES, NUMBER, K, BYTES, gemm_wgmma<Op##NUMBER>);

GEMM_WGMMA(32, TAIL_16BIT, 16, 2, "f32.f16.f16")
GEMM_WGMMA(16, TAIL_16BIT, 16, 2, "f16.f16.f16")
GEMM_WGMMA(32, TAIL_16BIT, 16, 2, "f32.bf16.bf16")
GEMM_WGMMA(32, TAIL_OTHER, 8, 4, "f32.tf32.tf32")
GEMM_WGMMA(32, TAIL_OTHER, 32, 1, "f32.e4m3.e4m3")
GEMM_WGMMA(16, TAIL_OTHER, 32, 1, "f16.e4m3.e4m3")
#endif

std::vector<uint8_t> read_file(const char *path, size_t size) {
    std::FILE *f = std::fopen(path, "rb");
    std::vector<uint8_t> data(size + 1);
    const size_t got = f ? std::fread(data.data(), 1, size + 1, f) : 0;
    if (f) std::fclose(f);
    if (got != size) {
        std::fprintf(stderr, "%s: %s, expected %zu bytes\n", path, f ? "wrong size" : "cannot be read", size);
        std::exit(1);
    }
    data.resize(size);
    return data;
}

uint8_t *to_device(const std::vector<uint8_t> &data) {
    uint8_t *p = nullptr;
    CUDA_CHECK(cudaMalloc(&p, data.empty() ? 1 : data.size()));
    CUDA_CHECK(cudaMemcpy(p, data.data(), data.size(), cudaMemcpyHostToDevice));
    return p;
}

[[noreturn]] void usage(const char *why) {
    std::fprintf(stderr, "gemm: %s\nusage: gemm UNIT M N K [--bk B] [--split S] [--mode parallel|serial] [--promote I]\n"
                         "            [--alpha X] [--beta Y] [--epilogue 2x|3x] [--out f32|f16|bf16] A B [C] D\n", why);
    std::exit(1);
}

int positive(const char *text, const char *what) {
    char *end;
    const long value = std::strtol(text, &end, 10);
    if (end == text || *end || value <= 0 || value > 1 << 24) usage(what);
    return int(value);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Unit &u : units()) std::printf("%s\t%d\t%d\t%d\n", u.name, u.number, u.k, u.operand_bytes);
        return 0;
    }
    if (argc < 5) usage("too few arguments");
    const Unit *unit = nullptr;
    for (const Unit &u : units())
        if (std::strcmp(u.name, argv[1]) == 0) unit = &u;
    if (!unit) usage("no such unit in this build (see --list)");
    Plan p = {positive(argv[2], "M"), positive(argv[3], "N"), positive(argv[4], "K"), 32, 1, -1, 0, false, 1.0f, 0.0f, false, OUT_F32};
    std::vector<const char *> files;
    bool epilogue_given = false;
    for (int i = 5; i < argc; i++) {
        const std::string option = argv[i];
        if (option.rfind("--", 0) != 0) {
            files.push_back(argv[i]);
            continue;
        }
        if (++i == argc) usage("an option without a value");
        const std::string value = argv[i];
        const auto words = [&](const char *what) {
            const int elements = positive(argv[i], what);
            if (elements % unit->k) usage("--bk and --promote must be multiples of the unit's K");
            return elements * unit->operand_bytes / 4;
        };
        if (option == "--bk") p.block_words = words("--bk");
        else if (option == "--split") p.split = positive(argv[i], "--split");
        else if (option == "--mode" && (value == "serial" || value == "parallel")) p.serial = value == "serial";
        else if (option == "--promote") p.promote_words = words("--promote");
        else if (option == "--alpha") p.alpha = std::strtof(argv[i], nullptr);
        else if (option == "--beta") p.beta = std::strtof(argv[i], nullptr);
        else if (option == "--epilogue" && (value == "2x" || value == "3x")) p.two_x = value == "2x", epilogue_given = true;
        else if (option == "--out" && (value == "f32" || value == "f16" || value == "bf16")) p.out = value == "f32" ? OUT_F32 : value == "f16" ? OUT_F16 : OUT_BF16;
        else usage("unknown option or value");
    }
    if (p.serial && !epilogue_given) p.two_x = true;
    if (files.size() != 3 && files.size() != 4) usage("A, B, [C] and D are needed");
    if (p.beta != 0.0f && files.size() == 3) usage("beta without C");
    const size_t row_bytes = size_t(p.k) * unit->operand_bytes, d_bytes = size_t(p.m) * p.n * (p.out == OUT_F32 ? 4 : 2);
    const int blocks = int(((row_bytes + 3) / 4 + p.block_words - 1) / p.block_words), each = (blocks + p.split - 1) / p.split;
    if ((p.split - 1) * each >= blocks) usage("--split leaves a slice empty");

    uint8_t *a = to_device(read_file(files[0], size_t(p.m) * row_bytes)), *b = to_device(read_file(files[1], size_t(p.n) * row_bytes));
    uint8_t *c = files.size() == 4 ? to_device(read_file(files[2], d_bytes)) : nullptr, *d = nullptr;
    float *partial = nullptr;
    CUDA_CHECK(cudaMalloc(&d, d_bytes));
    const dim3 tiles(unsigned((p.n + TILE - 1) / TILE), unsigned((p.m + TILE - 1) / TILE), p.serial ? 1 : unsigned(p.split));
    if (p.serial) {
        for (p.slice = 0; p.slice < p.split; p.slice++) {
            unit->kernel<<<tiles, 128>>>(p, a, b, c, d, partial, row_bytes);
            CUDA_CHECK(cudaGetLastError());
        }
    } else {
        CUDA_CHECK(cudaMalloc(&partial, size_t(p.m) * p.n * p.split * sizeof(float)));
        unit->kernel<<<tiles, 128>>>(p, a, b, c, d, partial, row_bytes);
        CUDA_CHECK(cudaGetLastError());
        reduce_kernel<<<unsigned((size_t(p.m) * p.n + 255) / 256), 256>>>(p, partial, c, d);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<uint8_t> result(d_bytes);
    CUDA_CHECK(cudaMemcpy(result.data(), d, d_bytes, cudaMemcpyDeviceToHost));
    std::FILE *f = std::fopen(files.back(), "wb");
    if (!f || std::fwrite(result.data(), 1, d_bytes, f) != d_bytes || std::fclose(f) != 0) {
        std::fprintf(stderr, "%s: cannot be written\n", files.back());
        return 1;
    }
    return 0;
}
