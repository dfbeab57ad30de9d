// Shared by every capture program: the line protocol, the binary protocol, the table of
// instructions, error checks. For CUDA and, where CAPTURE_GFX is defined, for HIP, whose runtime
// has CUDA's names but for the first word.
//
// A program answers dot-adds d = c + sum_k a_k * b_k from the GPU's own matrix instruction.
//
//     PROGRAM NAME            text: one dot-add a line, `a  b  c  [scale_a  scale_b]` split by tabs,
//                             a, b and scales as comma-separated hex bit patterns in k order; empty
//                             lines and lines that start with # are skipped; further columns are
//                             ignored. One lower-case hex d a line (no leading zeros, 0 for zero),
//                             flushed before every read that would block.
//     PROGRAM NAME --binary   raw little-endian records until end of input, no framing, no padding:
//                                 a[K] b[K] c scale_a[S] scale_b[S]
//                             where an operand takes 8 bytes (f64), 4 (tf32), 2 (f16, bf16) or 1 (fp8;
//                             fp6 and fp4 with the pattern in the low bits), c the bytes of its own
//                             format, a scale 1 byte, and S is the number of scales of the instruction
//                             (0 if unscaled; K / 32 or K / 16). Answers: d in the bytes of its format.
//     PROGRAM --list          name, number of the kernel, K, bytes of an operand, c, d, number of scales;
//                             needs no GPU.
//
// Several dot-adds share one instruction, or one dot-add fills a whole tile. Where the tile has room
// every dot-add stands at two or more places of it, and the program stops (status 3) if the places
// disagree: a wrong row or column is noticed.
//
// Exit status: 0 done, 1 usage or bad input, 2 CUDA or HIP error (no GPU included), 3 places disagree.
//
// With -DCAPTURE_ECHO the program needs no GPU and answers c (cut to the bytes of d) for every dot-add:
// `build --check` tests the two protocols with it. It is never installed beside the real ones.
//
// CAPTURE_SM is the architecture in compute-capability digits (75, 80, 89, 90, 100, 120, ...),
// CAPTURE_GFX AMD's (0x908, 0x90a, 0x940, 0x942); `build` or `build_amd` defines one of them. One
// program is built for one architecture.
#pragma once

#ifdef CAPTURE_GFX
#include <hip/hip_runtime.h>
#define RUNTIME(name) hip##name
#else
#include <cuda_runtime.h>
#define RUNTIME(name) cuda##name
#endif
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if !defined(CAPTURE_SM) && !defined(CAPTURE_GFX)
#error "define CAPTURE_SM or CAPTURE_GFX, for example -DCAPTURE_SM=90"
#endif

#define GPU_CHECK(call)                                                                          \
    do {                                                                                         \
        RUNTIME(Error_t) error_ = (call);                                                        \
        if (error_ != RUNTIME(Success)) {                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                   \
                         RUNTIME(GetErrorString)(error_));                                       \
            std::exit(2);                                                                        \
        }                                                                                        \
    } while (0)

namespace capture {

// Where the parts of a record lie. Records on the device start at multiples of `pitch`.
struct Layout {
    int k, operand_bytes, c_bytes, d_bytes, scales;
    __host__ __device__ int b_at() const { return k * operand_bytes; }
    __host__ __device__ int c_at() const { return 2 * k * operand_bytes; }
    __host__ __device__ int scale_a_at() const { return c_at() + c_bytes; }
    __host__ __device__ int scale_b_at() const { return scale_a_at() + scales; }
    __host__ __device__ int bytes() const { return scale_b_at() + scales; }
    __host__ __device__ int pitch() const { return (bytes() + 15) / 16 * 16; }
};

// One batch on the device.
struct Batch {
    const uint8_t *records;
    uint8_t *results;
    int *fault;  // set when two places of a tile disagree
    int count;
    Layout layout;
    int zero;  // 0, which the compiler must not know: for second copies that it would merge with the first
    __device__ const uint8_t *record(int i) const {  // beyond the end: the last one again
        return records + size_t(i < count ? i : count - 1) * layout.pitch();
    }
};

struct Instruction {
    const char *name;
    int number;
    Layout layout;
    void (*launch)(const Batch &);
};

inline std::vector<Instruction> &table() {
    static std::vector<Instruction> all;
    return all;
}

struct Register {
    Register(const char *name, int number, Layout layout, void (*launch)(const Batch &)) {
        table().push_back({name, number, layout, launch});
    }
};

// ------------------------------------------------------------------------------------------------
// Small things every kernel needs

__device__ inline uint32_t load_c(const Batch &batch, const uint8_t *record) {
    const uint8_t *at = record + batch.layout.c_at();
    return batch.layout.c_bytes == 2 ? *reinterpret_cast<const uint16_t *>(at)
                                     : *reinterpret_cast<const uint32_t *>(at);
}

__device__ inline void store_d(const Batch &batch, int i, uint32_t d) {
    if (i >= batch.count) return;
    uint8_t *at = batch.results + size_t(i) * batch.layout.d_bytes;
    if (batch.layout.d_bytes == 2) *reinterpret_cast<uint16_t *>(at) = uint16_t(d);
    else *reinterpret_cast<uint32_t *>(at) = d;
}

__device__ inline void expect_same(const Batch &batch, uint64_t x, uint64_t y) {
    if (x != y) atomicExch(batch.fault, 1);
}

// How a record's operand bytes become the words an instruction takes.
enum Pack {
    RAW,        // as they are: f16, bf16, tf32, fp8
    FP6_BYTE,   // one fp6 in bits 5:0 of a byte (mma.sync, kind::f8f6f4 and kind::mxf8f6f4)
    FP4_BYTE,   // one fp4 in bits 5:2 of a byte (the same)
    FP4_NIBBLE  // two fp4 in a byte, the first in the low nibble (kind::mxf4, kind::mxf4nvf4)
};

// 32-bit word w along k of an operand row.
template <Pack P>
__device__ inline uint32_t word(const uint8_t *row, int w) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(row);
    if (P == FP6_BYTE) return words[w] & 0x3f3f3f3fu;
    if (P == FP4_BYTE) return (words[w] & 0x0f0f0f0fu) << 2;
    if (P == FP4_NIBBLE) {
        uint32_t packed = 0;
        for (int i = 0; i < 8; i++) packed |= uint32_t(row[8 * w + i] & 0xf) << (4 * i);
        return packed;
    }
    return words[w];
}

// ------------------------------------------------------------------------------------------------
// Host side

// What this program was built for.
inline std::string built_for() {
    char text[24];
#ifdef CAPTURE_GFX
    std::snprintf(text, sizeof text, "gfx%x", CAPTURE_GFX);
#else
    std::snprintf(text, sizeof text, "sm_%d", CAPTURE_SM);
#endif
    return text;
}

#ifdef CAPTURE_ECHO
class Device {
    const Instruction &what_;
    int capacity_;

public:
    Device(const Instruction &what, int capacity) : what_(what), capacity_(capacity) {}
    void run(const uint8_t *records, uint8_t *results, int count) {
        const Layout &l = what_.layout;
        for (int i = 0; i < count; i++)
            for (int j = 0; j < l.d_bytes; j++)
                results[i * l.d_bytes + j] = j < l.c_bytes ? records[i * l.bytes() + l.c_at() + j] : 0;
    }
    int capacity() const { return capacity_; }
};
#else
class Device {
    const Instruction &what_;
    uint8_t *records_ = nullptr, *results_ = nullptr;
    int *fault_ = nullptr;
    int capacity_;

    static void check_gpu() {
#ifdef CAPTURE_GFX
        hipDeviceProp_t properties;
        GPU_CHECK(hipGetDeviceProperties(&properties, 0));
        std::string gpu = properties.gcnArchName;  // gfx90a:sramecc+:xnack-
        gpu = gpu.substr(0, gpu.find(':'));
        const bool fits = gpu == built_for();
#else
        cudaDeviceProp properties;
        GPU_CHECK(cudaGetDeviceProperties(&properties, 0));
        const int sm = 10 * properties.major + properties.minor;
        const std::string gpu = "sm_" + std::to_string(sm);
        const bool fits = sm >= CAPTURE_SM;
#endif
        if (!fits) {
            std::fprintf(stderr, "this program is for %s, the GPU is %s (%s)\n", built_for().c_str(), gpu.c_str(), properties.name);
            std::exit(2);
        }
    }

public:
    Device(const Instruction &what, int capacity) : what_(what), capacity_(capacity) {
        check_gpu();
        GPU_CHECK(RUNTIME(Malloc)(&records_, size_t(capacity) * what.layout.pitch()));
        GPU_CHECK(RUNTIME(Malloc)(&results_, size_t(capacity) * what.layout.d_bytes));
        GPU_CHECK(RUNTIME(Malloc)(&fault_, sizeof(int)));
        GPU_CHECK(RUNTIME(Memset)(fault_, 0, sizeof(int)));
    }
    ~Device() {
        GPU_CHECK(RUNTIME(Free)(records_));
        GPU_CHECK(RUNTIME(Free)(results_));
        GPU_CHECK(RUNTIME(Free)(fault_));
    }

    // `count` packed records in, `count` packed results out.
    void run(const uint8_t *records, uint8_t *results, int count) {
        const Layout &l = what_.layout;
        GPU_CHECK(RUNTIME(Memcpy2D)(records_, l.pitch(), records, l.bytes(), l.bytes(), count, RUNTIME(MemcpyHostToDevice)));
        what_.launch({records_, results_, fault_, count, l, 0});
        GPU_CHECK(RUNTIME(GetLastError)());
        GPU_CHECK(RUNTIME(DeviceSynchronize)());
        int fault = 0;
        GPU_CHECK(RUNTIME(Memcpy)(&fault, fault_, sizeof fault, RUNTIME(MemcpyDeviceToHost)));
        if (fault) {
            std::fprintf(stderr, "%s: the same dot-add gave different results in one tile\n", what_.name);
            std::exit(3);
        }
        GPU_CHECK(RUNTIME(Memcpy)(results, results_, size_t(count) * l.d_bytes, RUNTIME(MemcpyDeviceToHost)));
    }
    int capacity() const { return capacity_; }
};
#endif

inline void write_all(const void *data, size_t size) {
    const char *at = static_cast<const char *>(data);
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, at, size);
        if (n <= 0) {
            std::perror("write");
            std::exit(1);
        }
        at += n;
        size -= size_t(n);
    }
}

inline void binary_mode(const Instruction &what, Device &device) {
    const size_t bytes = size_t(what.layout.bytes());
    std::vector<uint8_t> in(bytes * size_t(device.capacity())), out(size_t(what.layout.d_bytes) * size_t(device.capacity()));
    size_t have = 0;
    for (bool end = false; !end;) {
        ssize_t n = read(STDIN_FILENO, in.data() + have, in.size() - have);
        if (n < 0) {
            std::perror("read");
            std::exit(1);
        }
        end = n == 0;
        have += size_t(n);
        pollfd input = {STDIN_FILENO, POLLIN, 0};
        if (!end && have < in.size() && poll(&input, 1, 0) > 0) continue;  // more is there already
        size_t count = have / bytes;
        if (count == 0) continue;
        device.run(in.data(), out.data(), int(count));
        write_all(out.data(), count * size_t(what.layout.d_bytes));
        std::memmove(in.data(), in.data() + count * bytes, have - count * bytes);
        have -= count * bytes;
    }
    if (have != 0) {
        std::fprintf(stderr, "input ends inside a record (%zu of %zu bytes)\n", have, bytes);
        std::exit(1);
    }
}

// Reads `count` comma-separated hex patterns of `bytes` bytes each; null if the text is anything else.
inline const char *parse_patterns(const char *at, int count, int bytes, uint8_t *out) {
    for (int i = 0; i < count; i++) {
        while (*at == ' ') at++;
        char *end;
        if (*at == '\0' || *at == '\t' || *at == '-' || *at == '+') return nullptr;
        unsigned long long value = std::strtoull(at, &end, 16);
        if (end == at || (bytes < 8 && value >> (8 * bytes))) return nullptr;
        for (int j = 0; j < bytes; j++) out[i * bytes + j] = uint8_t(value >> (8 * j));
        at = end;
        while (*at == ' ') at++;
        if (i + 1 < count && *at++ != ',') return nullptr;
    }
    return *at == '\t' ? at + 1 : *at == '\0' || *at == '\r' ? at : nullptr;
}

inline bool parse_line(const char *at, const Layout &l, uint8_t *record) {
    at = parse_patterns(at, l.k, l.operand_bytes, record);
    if (at) at = parse_patterns(at, l.k, l.operand_bytes, record + l.b_at());
    if (at) at = parse_patterns(at, 1, l.c_bytes, record + l.c_at());
    if (at && l.scales) at = parse_patterns(at, l.scales, 1, record + l.scale_a_at());
    if (at && l.scales) at = parse_patterns(at, l.scales, 1, record + l.scale_b_at());
    return at != nullptr;
}

inline void text_mode(const Instruction &what, Device &device) {
    const Layout &l = what.layout;
    std::vector<uint8_t> in, out(size_t(l.d_bytes) * size_t(device.capacity()));
    std::string pending, answers;
    std::vector<char> chunk(1 << 20);
    long line_number = 0;
    auto flush = [&] {
        int count = int(in.size() / size_t(l.bytes()));
        if (count == 0) return;
        device.run(in.data(), out.data(), count);
        answers.clear();
        char text[24];
        for (int i = 0; i < count; i++) {
            uint64_t d = 0;
            std::memcpy(&d, out.data() + size_t(i) * size_t(l.d_bytes), size_t(l.d_bytes));
            answers.append(text, size_t(std::snprintf(text, sizeof text, "%llx\n", (unsigned long long)d)));
        }
        write_all(answers.data(), answers.size());
        in.clear();
    };
    auto take = [&](const char *line) {
        line_number++;
        while (*line == ' ') line++;
        if (*line == '\0' || *line == '\r' || *line == '#') return;
        in.resize(in.size() + size_t(l.bytes()));
        if (!parse_line(line, l, in.data() + in.size() - size_t(l.bytes()))) {
            std::fprintf(stderr, "line %ld: not a dot-add of %s\n", line_number, what.name);
            std::exit(1);
        }
        if (in.size() / size_t(l.bytes()) == size_t(device.capacity())) flush();
    };
    for (;;) {
        pollfd input = {STDIN_FILENO, POLLIN, 0};
        if (poll(&input, 1, 0) == 0) flush();  // the next read would block
        ssize_t n = read(STDIN_FILENO, chunk.data(), chunk.size());
        if (n < 0) {
            std::perror("read");
            std::exit(1);
        }
        if (n == 0) break;
        pending.append(chunk.data(), size_t(n));
        size_t start = 0;
        for (size_t newline; (newline = pending.find('\n', start)) != std::string::npos; start = newline + 1) {
            pending[newline] = '\0';
            take(pending.c_str() + start);
        }
        pending.erase(0, start);
    }
    if (!pending.empty()) take(pending.c_str());
    flush();
}

inline int main_of(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Instruction &i : table())
            std::printf("%s\t%d\t%d\t%d\t%d\t%d\t%d\n", i.name, i.number, i.layout.k, i.layout.operand_bytes,
                        i.layout.c_bytes, i.layout.d_bytes, i.layout.scales);
        return 0;
    }
    bool binary = argc == 3 && std::strcmp(argv[2], "--binary") == 0;
    if (argc != 2 && !binary) {
        std::fprintf(stderr, "usage: %s NAME [--binary] | --list\n", argv[0]);
        return 1;
    }
    for (const Instruction &what : table()) {
        if (std::strcmp(what.name, argv[1]) != 0) continue;
        Device device(what, 1 << 16);
        if (binary) binary_mode(what, device);
        else text_mode(what, device);
        return 0;
    }
    std::fprintf(stderr, "%s: no such instruction for %s in this program (see --list)\n", argv[1], built_for().c_str());
    return 1;
}

}  // namespace capture

int main(int argc, char **argv) { return capture::main_of(argc, argv); }
