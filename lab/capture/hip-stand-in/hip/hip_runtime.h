// In the place of HIP's header of this name, for machines without ROCm.
//
// For clang's device pass (-x hip --cuda-device-only -nogpuinc) it declares what mfma.hip uses, so that
// the kernels compile to machine code. For a plain C++ compiler it is a runtime that runs the kernels on
// the CPU: every thread a fibre, the lanes of a workgroup from one __syncthreads or MFMA to the next.
// An MFMA collects the registers of the wavefront's 64 lanes and takes them apart by a description of its
// own: the table at the end of this file. Every element of D is a dot-add that `$GEMMULATE eval UNIT`
// answers, a program behind a pipe. Memory is checked against what was allocated, and holds nonsense
// when fresh.
//
// What agrees proves layouts, names and protocols, and nothing of what a GPU computes.
#pragma once

#include <cstddef>
#include <cstdint>

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))

enum hipError_t { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2 };
enum hipMemcpyKind { hipMemcpyHostToHost = 0, hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 };
struct hipDeviceProp_t {
    char name[256];
    char gcnArchName[256];
};
typedef struct ihipStream_t *hipStream_t;

#ifdef __HIP__  // clang, whose device pass looks at host code too

struct dim3 {
    uint32_t x, y, z;
    __host__ __device__ constexpr dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};
struct ThreadIndex {
    __device__ __attribute__((always_inline)) operator dim3() const { return {}; }
    struct X {
        __device__ __attribute__((always_inline)) operator uint32_t() const { return __builtin_amdgcn_workitem_id_x(); }
    } x;
};
struct BlockIndex {
    struct X {
        __device__ __attribute__((always_inline)) operator uint32_t() const { return __builtin_amdgcn_workgroup_id_x(); }
    } x;
};
#define threadIdx (ThreadIndex())
#define blockIdx (BlockIndex())

__device__ inline void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline int atomicExch(int *at, int value) { return __atomic_exchange_n(at, value, __ATOMIC_RELAXED); }

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int device);
hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind kind);
hipError_t hipMemset(void *at, int value, size_t size);
hipError_t hipFree(void *at);
hipError_t hipGetLastError();
hipError_t hipDeviceSynchronize();
const char *hipGetErrorString(hipError_t error);
template <class T>
hipError_t hipMalloc(T **at, size_t size);
extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds = 0, hipStream_t stream = nullptr);
#define hipLaunchKernelGGL(kernel, grid, block, lds, stream, ...) kernel<<<grid, block, lds, stream>>>(__VA_ARGS__)

#else  // the runtime on the CPU

#undef __device__
#undef __host__
#undef __global__
#undef __shared__
#define __device__
#define __host__
#define __global__
#define __shared__ static

#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

struct dim3 {
    uint32_t x, y, z;
    constexpr dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};
inline dim3 threadIdx, blockIdx;

namespace hip_stand_in {

[[noreturn]] inline void stop(const std::string &why) {
    std::fprintf(stderr, "stand-in: %s\n", why.c_str());
    std::exit(2);
}

// ------------------------------------------------------------------------------------------------
// Memory

inline std::map<uintptr_t, size_t> &allocated() {
    static std::map<uintptr_t, size_t> all;
    return all;
}

inline void check_range(const void *at, size_t size) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(at);
    auto next = allocated().upper_bound(from);
    if (next == allocated().begin() || from + size > std::prev(next)->first + std::prev(next)->second)
        stop("an access outside of device memory");
}

// ------------------------------------------------------------------------------------------------
// Fibres

enum Waiting { FINISHED, AT_BARRIER, AT_MFMA };

struct Fibre {
    ucontext_t context;
    std::vector<char> stack;
    Waiting waiting;
    // At an MFMA: which, and where its registers are.
    const char *builtin;
    const void *a, *b, *c;
    void *d;
};

struct Machine {
    std::vector<Fibre> fibres;
    ucontext_t scheduler;
    Fibre *running = nullptr;
    std::function<void()> kernel;
};
inline Machine &machine() {
    static Machine the;
    return the;
}

inline void wait_for(Waiting what) {
    Fibre &self = *machine().running;
    self.waiting = what;
    swapcontext(&self.context, &machine().scheduler);
}

inline void fibre_main() {
    machine().kernel();
    wait_for(FINISHED);
}

inline void mfma_of_wave(Fibre *lanes);

inline void launch(dim3 grid, dim3 block, std::function<void()> kernel) {
    Machine &m = machine();
    if (block.x % 64 != 0 || block.y * block.z * grid.y * grid.z != 1 || block.x > 1024) stop("a launch that it does not know");
    m.kernel = std::move(kernel);
    m.fibres.resize(block.x);
    for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
        for (Fibre &fibre : m.fibres) {
            fibre.stack.resize(1 << 16);
            getcontext(&fibre.context);
            fibre.context.uc_stack.ss_sp = fibre.stack.data();
            fibre.context.uc_stack.ss_size = fibre.stack.size();
            fibre.context.uc_link = nullptr;
            makecontext(&fibre.context, fibre_main, 0);
        }
        for (bool finished = false; !finished;) {
            for (uint32_t i = 0; i < block.x; i++) {
                m.running = &m.fibres[i];
                threadIdx.x = i;
                swapcontext(&m.scheduler, &m.running->context);
                if (m.fibres[i].waiting != m.fibres[0].waiting) stop("the threads of a workgroup went different ways");
            }
            if (m.fibres[0].waiting == AT_MFMA)
                for (uint32_t wave = 0; wave < block.x; wave += 64) mfma_of_wave(&m.fibres[wave]);
            finished = m.fibres[0].waiting == FINISHED;
        }
    }
}

// ------------------------------------------------------------------------------------------------
// The library, behind a pipe

class Evaluator {
    FILE *to_ = nullptr, *from_ = nullptr;

public:
    explicit Evaluator(const std::string &unit) {
        const char *program = std::getenv("GEMMULATE");
        if (!program) stop("GEMMULATE must name the program that answers dot-adds");
        int in[2], out[2];
        if (pipe(in) || pipe(out)) stop("no pipe");
        const pid_t child = fork();
        if (child < 0) stop("no process");
        if (child == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            for (int end : {in[0], in[1], out[0], out[1]}) close(end);
            execlp(program, program, "eval", unit.c_str(), static_cast<char *>(nullptr));
            _exit(127);
        }
        close(in[0]);
        close(out[1]);
        to_ = fdopen(in[1], "w");
        from_ = fdopen(out[0], "r");
    }

    // One answer a line. Few enough at a time that the answers fit into the pipe.
    std::vector<uint64_t> answers(const std::vector<std::string> &lines) {
        std::vector<uint64_t> all;
        char text[64];
        for (const std::string &line : lines) std::fputs(line.c_str(), to_);
        std::fflush(to_);
        for (size_t i = 0; i < lines.size(); i++) {
            if (!std::fgets(text, sizeof text, from_)) stop("the evaluator gave no answer");
            all.push_back(std::strtoull(text, nullptr, 16));
        }
        return all;
    }
};

// ------------------------------------------------------------------------------------------------
// MFMA

// What the bits of a lane's number and of an item's mean, lowest first: bit n of the row, column or k, or of
// the block. `i` stands for the row in A, for the column in B.
struct Form {
    const char *builtin, *unit, *unit3;  // on CDNA1 and 2; on CDNA3
    int bytes, result_bytes;             // of an element of A and B; of C and D
    const char *lane, *item, *result_lane, *result_item;
};
extern const Form FORMS[];

struct Coordinates {
    int i = 0, j = 0, k = 0, b = 0;
    bool operator<(const Coordinates &o) const { return std::tie(i, j, k, b) < std::tie(o.i, o.j, o.k, o.b); }
};

inline int bits_in(const char *meaning) { return int(std::strlen(meaning) + 1) / 3; }

inline void add(Coordinates &to, const char *meaning, int number) {
    for (; *meaning; meaning += meaning[2] ? 3 : 2, number >>= 1) {
        int &coordinate = meaning[0] == 'i' ? to.i : meaning[0] == 'j' ? to.j : meaning[0] == 'k' ? to.k : to.b;
        coordinate |= (number & 1) << (meaning[1] - '0');
    }
}

inline uint64_t element(const void *registers, int item, int bytes) {
    uint64_t value = 0;
    std::memcpy(&value, static_cast<const char *>(registers) + item * bytes, size_t(bytes));
    return value;
}

// Rows of A, columns of B: hex patterns in the order of k, by (block, row or column).
inline std::map<std::pair<int, int>, std::string> rows_of(Fibre *lanes, const Form &form, bool b) {
    std::map<std::pair<int, int>, std::map<int, uint64_t>> found;
    for (int lane = 0; lane < 64; lane++)
        for (int item = 0; item < 1 << bits_in(form.item); item++) {
            Coordinates at;
            add(at, form.lane, lane);
            add(at, form.item, item);
            if (!found[{at.b, at.i}].emplace(at.k, element(b ? lanes[lane].b : lanes[lane].a, item, form.bytes)).second)
                stop(std::string(form.builtin) + ": two places of one element");
        }
    std::map<std::pair<int, int>, std::string> rows;
    for (auto &[where, elements] : found) {
        std::string &text = rows[where];
        char hex[24];
        for (auto &[k, bits] : elements) {
            std::snprintf(hex, sizeof hex, "%s%llx", text.empty() ? "" : ",", static_cast<unsigned long long>(bits));
            text += hex;
        }
    }
    return rows;
}

inline void mfma_of_wave(Fibre *lanes) {
    const Form *form = FORMS;
    while (form->builtin && std::strcmp(form->builtin, lanes[0].builtin) != 0) form++;
    if (!form->builtin) stop(std::string("no form of ") + lanes[0].builtin);
    for (int lane = 0; lane < 64; lane++)
        if (lanes[lane].builtin != lanes[0].builtin) stop("lanes at different instructions");
#if CAPTURE_GFX == 0x908
    static Evaluator library(std::string("cdna1/") + form->unit);
#elif CAPTURE_GFX == 0x90a
    static Evaluator library(std::string("cdna2/") + form->unit);
#else
    static Evaluator library(std::string("cdna3/") + form->unit3);
#endif
    static const Form *const first = form;
    if (form != first) stop("two instructions in one run");

    const auto a = rows_of(lanes, *form, false), b = rows_of(lanes, *form, true);
    std::map<std::string, size_t> known;  // equal dot-adds are asked once
    std::vector<std::string> lines;
    std::vector<std::pair<char *, size_t>> places;
    std::map<Coordinates, int> seen;
    for (int lane = 0; lane < 64; lane++)
        for (int item = 0; item < 1 << bits_in(form->result_item); item++) {
            Coordinates at;
            add(at, form->result_lane, lane);
            add(at, form->result_item, item);
            if (seen[at]++) stop(std::string(form->builtin) + ": two places of one result");
            char c[24];
            std::snprintf(c, sizeof c, "\t%llx\n", static_cast<unsigned long long>(element(lanes[lane].c, item, form->result_bytes)));
            const std::string line = a.at({at.b, at.i}) + "\t" + b.at({at.b, at.j}) + c;
            const auto place = known.emplace(line, lines.size());
            if (place.second) lines.push_back(line);
            places.emplace_back(static_cast<char *>(lanes[lane].d) + item * form->result_bytes, place.first->second);
        }
    const std::vector<uint64_t> results = library.answers(lines);
    for (auto &[at, index] : places) std::memcpy(at, &results[index], size_t(form->result_bytes));
}

template <class D, class A>
D mfma(const char *builtin, A a, A b, D c, int cbsz, int abid, int blgp) {
    D d;
    if (cbsz || abid || blgp) stop("a broadcast or permutation");
    Fibre &self = *machine().running;
    self.builtin = builtin;
    self.a = &a;
    self.b = &b;
    self.c = &c;
    self.d = &d;
    wait_for(AT_MFMA);
    return d;
}

}  // namespace hip_stand_in

// ------------------------------------------------------------------------------------------------
// HIP's names

inline void __syncthreads() { hip_stand_in::wait_for(hip_stand_in::AT_BARRIER); }
inline int atomicExch(int *at, int value) {
    hip_stand_in::check_range(at, sizeof *at);
    const int old = *at;
    *at = value;
    return old;
}
#define hipLaunchKernelGGL(kernel, grid, block, lds, stream, ...) hip_stand_in::launch(grid, block, [=] { kernel(__VA_ARGS__); })

inline hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int device) {
    std::snprintf(properties->name, sizeof properties->name, "stand-in (no GPU)");
    std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "gfx%x:sramecc+:xnack-", CAPTURE_GFX);
    return device == 0 ? hipSuccess : hipErrorInvalidValue;
}
template <class T>
hipError_t hipMalloc(T **at, size_t size) {
    void *memory = std::malloc(size);
    if (!memory) return hipErrorOutOfMemory;
    std::memset(memory, 0xa5, size);
    hip_stand_in::allocated()[reinterpret_cast<uintptr_t>(memory)] = size;
    *at = static_cast<T *>(memory);
    return hipSuccess;
}
inline hipError_t hipFree(void *at) {
    if (hip_stand_in::allocated().erase(reinterpret_cast<uintptr_t>(at)) != 1) return hipErrorInvalidValue;
    std::free(at);
    return hipSuccess;
}
inline hipError_t hipMemset(void *at, int value, size_t size) {
    hip_stand_in::check_range(at, size);
    std::memset(at, value, size);
    return hipSuccess;
}
inline hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind kind) {
    hip_stand_in::check_range(kind == hipMemcpyHostToDevice ? to : from, size);
    std::memcpy(to, from, size);
    return hipSuccess;
}
inline hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch) return hipErrorInvalidValue;
    for (size_t row = 0; row < height; row++) {
        const hipError_t error = hipMemcpy(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width, kind);
        if (error != hipSuccess) return error;
    }
    return hipSuccess;
}
inline hipError_t hipGetLastError() { return hipSuccess; }
inline hipError_t hipDeviceSynchronize() { return hipSuccess; }
inline const char *hipGetErrorString(hipError_t error) { return error == hipErrorOutOfMemory ? "out of memory" : error ? "invalid value" : "success"; }

// The builtins, with the types of LLVM's BuiltinsAMDGPU.def.
namespace hip_stand_in {
typedef float v2f __attribute__((vector_size(8)));
typedef float v4f __attribute__((vector_size(16)));
typedef float v16f __attribute__((vector_size(64)));
typedef float v32f __attribute__((vector_size(128)));
typedef double v4d __attribute__((vector_size(32)));
typedef _Float16 v4h __attribute__((vector_size(8)));
typedef short v2s __attribute__((vector_size(4)));
typedef short v4s __attribute__((vector_size(8)));
}  // namespace hip_stand_in
#define STAND_IN(NAME, D, A)                                                                                                                   \
    inline D __builtin_amdgcn_mfma_##NAME(A a, A b, D c, int cbsz, int abid, int blgp) { return hip_stand_in::mfma<D, A>(#NAME, a, b, c, cbsz, abid, blgp); }
STAND_IN(f32_32x32x1f32, hip_stand_in::v32f, float)
STAND_IN(f32_16x16x1f32, hip_stand_in::v16f, float)
STAND_IN(f32_4x4x1f32, hip_stand_in::v4f, float)
STAND_IN(f32_32x32x2f32, hip_stand_in::v16f, float)
STAND_IN(f32_16x16x4f32, hip_stand_in::v4f, float)
STAND_IN(f32_32x32x4f16, hip_stand_in::v32f, hip_stand_in::v4h)
STAND_IN(f32_16x16x4f16, hip_stand_in::v16f, hip_stand_in::v4h)
STAND_IN(f32_4x4x4f16, hip_stand_in::v4f, hip_stand_in::v4h)
STAND_IN(f32_32x32x8f16, hip_stand_in::v16f, hip_stand_in::v4h)
STAND_IN(f32_16x16x16f16, hip_stand_in::v4f, hip_stand_in::v4h)
#if CAPTURE_GFX < 0x940
STAND_IN(f32_32x32x2bf16, hip_stand_in::v32f, hip_stand_in::v2s)
STAND_IN(f32_16x16x2bf16, hip_stand_in::v16f, hip_stand_in::v2s)
STAND_IN(f32_4x4x2bf16, hip_stand_in::v4f, hip_stand_in::v2s)
STAND_IN(f32_32x32x4bf16, hip_stand_in::v16f, hip_stand_in::v2s)
STAND_IN(f32_16x16x8bf16, hip_stand_in::v4f, hip_stand_in::v2s)
#endif
#if CAPTURE_GFX >= 0x90a
STAND_IN(f32_32x32x4bf16_1k, hip_stand_in::v32f, hip_stand_in::v4s)
STAND_IN(f32_16x16x4bf16_1k, hip_stand_in::v16f, hip_stand_in::v4s)
STAND_IN(f32_4x4x4bf16_1k, hip_stand_in::v4f, hip_stand_in::v4s)
STAND_IN(f32_32x32x8bf16_1k, hip_stand_in::v16f, hip_stand_in::v4s)
STAND_IN(f32_16x16x16bf16_1k, hip_stand_in::v4f, hip_stand_in::v4s)
STAND_IN(f64_16x16x4f64, hip_stand_in::v4d, double)
STAND_IN(f64_4x4x4f64, double, double)
#endif
#if CAPTURE_GFX >= 0x940
STAND_IN(f32_32x32x4_xf32, hip_stand_in::v16f, hip_stand_in::v2f)
STAND_IN(f32_16x16x8_xf32, hip_stand_in::v4f, hip_stand_in::v2f)
STAND_IN(f32_16x16x32_fp8_fp8, hip_stand_in::v4f, long)
STAND_IN(f32_32x32x16_fp8_fp8, hip_stand_in::v16f, long)
STAND_IN(f32_16x16x32_fp8_bf8, hip_stand_in::v4f, long)
STAND_IN(f32_32x32x16_fp8_bf8, hip_stand_in::v16f, long)
STAND_IN(f32_16x16x32_bf8_fp8, hip_stand_in::v4f, long)
STAND_IN(f32_32x32x16_bf8_fp8, hip_stand_in::v16f, long)
STAND_IN(f32_16x16x32_bf8_bf8, hip_stand_in::v4f, long)
STAND_IN(f32_32x32x16_bf8_bf8, hip_stand_in::v16f, long)
#endif

// The forms. Sources: amd-lab-notes, matrix-cores/src (programs of AMD's that compare an MI100's or MI200's
// results with a product on the host: every f32, f16 and f64 row), composable_kernel, xdlops_gemm.hpp (k per
// lane of the others: bf16, 2; bf16_1k, 4; fp8, 8), and for xf32 (2) the documents' formula. Written down bit by bit, not as mfma.hip has them.
namespace hip_stand_in {
#define D32 "j0 j1 j2 j3 j4 i2", "i0 i1 i3 i4"
#define D32_2 "j0 j1 j2 j3 j4 i2", "i0 i1 i3 i4 b0"
#define D16 "j0 j1 j2 j3 i2 i3", "i0 i1"
#define D16_4 "j0 j1 j2 j3 i2 i3", "i0 i1 b0 b1"
#define D4_16 "j0 j1 b0 b1 b2 b3", "i0 i1"
const Form FORMS[] = {
    {"f32_32x32x1f32", "v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32", 4, 4, "i0 i1 i2 i3 i4 b0", "", D32_2},
    {"f32_16x16x1f32", "v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32", 4, 4, "i0 i1 i2 i3 b0 b1", "", D16_4},
    {"f32_4x4x1f32", "v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32", 4, 4, "i0 i1 b0 b1 b2 b3", "", D4_16},
    {"f32_32x32x2f32", "v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32", 4, 4, "i0 i1 i2 i3 i4 k0", "", D32},
    {"f32_16x16x4f32", "v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32", 4, 4, "i0 i1 i2 i3 k0 k1", "", D16},
    {"f32_32x32x4f16", "v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16", 2, 4, "i0 i1 i2 i3 i4 b0", "k0 k1", D32_2},
    {"f32_16x16x4f16", "v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16", 2, 4, "i0 i1 i2 i3 b0 b1", "k0 k1", D16_4},
    {"f32_4x4x4f16", "v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16", 2, 4, "i0 i1 b0 b1 b2 b3", "k0 k1", D4_16},
    {"f32_32x32x8f16", "v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16", 2, 4, "i0 i1 i2 i3 i4 k2", "k0 k1", D32},
    {"f32_16x16x16f16", "v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16", 2, 4, "i0 i1 i2 i3 k2 k3", "k0 k1", D16},
    {"f32_32x32x2bf16", "v_mfma_f32_32x32x2bf16", "", 2, 4, "i0 i1 i2 i3 i4 b0", "k0", D32_2},
    {"f32_16x16x2bf16", "v_mfma_f32_16x16x2bf16", "", 2, 4, "i0 i1 i2 i3 b0 b1", "k0", D16_4},
    {"f32_4x4x2bf16", "v_mfma_f32_4x4x2bf16", "", 2, 4, "i0 i1 b0 b1 b2 b3", "k0", D4_16},
    {"f32_32x32x4bf16", "v_mfma_f32_32x32x4bf16", "", 2, 4, "i0 i1 i2 i3 i4 k1", "k0", D32},
    {"f32_16x16x8bf16", "v_mfma_f32_16x16x8bf16", "", 2, 4, "i0 i1 i2 i3 k1 k2", "k0", D16},
    {"f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4_2b_bf16", 2, 4, "i0 i1 i2 i3 i4 b0", "k0 k1", D32_2},
    {"f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4_4b_bf16", 2, 4, "i0 i1 i2 i3 b0 b1", "k0 k1", D16_4},
    {"f32_4x4x4bf16_1k", "v_mfma_f32_4x4x4bf16_1k", "v_mfma_f32_4x4x4_16b_bf16", 2, 4, "i0 i1 b0 b1 b2 b3", "k0 k1", D4_16},
    {"f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16", 2, 4, "i0 i1 i2 i3 i4 k2", "k0 k1", D32},
    {"f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16", 2, 4, "i0 i1 i2 i3 k2 k3", "k0 k1", D16},
    {"f64_16x16x4f64", "v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64", 8, 8, "i0 i1 i2 i3 k0 k1", "", "j0 j1 j2 j3 i0 i1", "i2 i3"},
    {"f64_4x4x4f64", "v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64", 8, 8, "i0 i1 b0 b1 k0 k1", "", "j0 j1 b0 b1 i0 i1", ""},
    {"f32_32x32x4_xf32", "", "v_mfma_f32_32x32x4_xf32", 4, 4, "i0 i1 i2 i3 i4 k1", "k0", D32},
    {"f32_16x16x8_xf32", "", "v_mfma_f32_16x16x8_xf32", 4, 4, "i0 i1 i2 i3 k1 k2", "k0", D16},
#define FP8_FORMS(PAIR)                                                                                                      \
    {"f32_16x16x32_" PAIR, "", "v_mfma_f32_16x16x32_" PAIR, 1, 4, "i0 i1 i2 i3 k3 k4", "k0 k1 k2", D16},                      \
    {"f32_32x32x16_" PAIR, "", "v_mfma_f32_32x32x16_" PAIR, 1, 4, "i0 i1 i2 i3 i4 k3", "k0 k1 k2", D32}
    FP8_FORMS("fp8_fp8"), FP8_FORMS("fp8_bf8"), FP8_FORMS("bf8_fp8"), FP8_FORMS("bf8_bf8"),
    {nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr, nullptr},
};
}  // namespace hip_stand_in

#endif
