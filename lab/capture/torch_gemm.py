#!/usr/bin/env python3
"""Dumps products of torch.matmul and torch._scaled_mm for `gemmulate identify`.

    torch_gemm.py OUT_DIR [--seed S] [--only bf16,f16,f16acc,tf32,f32,f64,fp8] [--shapes 128x128x128,64x64x4096]

Needs a CUDA GPU and PyTorch; numpy draws the numbers, so that the same seed gives the same A and B anywhere.
f16acc is f16 with torch's allow_fp16_accumulation, f32 is without tf32; both and f64 for the first eight shapes only.
kernels: what PyTorch's profiler saw run, which often tells tile and split. For every shape of the table and every type writes, into OUT_DIR,

    NAME.a.npy  NAME.b.npy  NAME.d.npy     A (M x K), B (K x N) and D (M x N), row-major
    index.tsv                              name, type, M, N, K, output type, flags, options for identify, kernels
    provenance.txt                         GPU, driver, PyTorch, CUDA, date, seed

f16 and f32 (tf32) arrays hold values; bf16 and fp8 arrays are bit patterns (u16, u8), as the gemmulate
command line takes them. `identify` then searches the plans that reproduce D:

    gemmulate identify OUT/NAME.a.npy OUT/NAME.b.npy OUT/NAME.d.npy OPTIONS

Products in tf32 are of numbers that tf32 holds, and of others ("raw"), which a kernel rounds as it likes: of their
options `--rounded` tries several roundings.

    --stand-in GEMMULATE --arch ARCH

makes the same files without a GPU: PyTorch only draws the numbers, and that program multiplies, by split-K of two on a
unit of that architecture. That shows that the files and the search work, and nothing of PyTorch.
"""

import argparse
import datetime
import pathlib
import subprocess
import sys

SHAPES = [  # M, N, K: square, skinny, deep (split-K territory), odd, one-row
    (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
    (64, 64, 4096), (128, 128, 8192), (64, 64, 16384), (16, 4096, 4096), (4096, 16, 4096),
    (256, 256, 264), (200, 328, 1032), (1, 1024, 1024), (8, 1024, 4096), (384, 640, 2560),
]

STAND_IN_UNITS = {
    "bf16": "mma.m16n8k16.f32.bf16.bf16.f32", "f16": "mma.m16n8k16.f32.f16.f16.f32",
    "tf32": "mma.m16n8k8.f32.tf32.tf32.f32", "fp8": "mma.m16n8k32.f32.e4m3.e4m3.f32",
}
STAND_IN_PLAN = "cutlass2 split-k=2 split-mode=serial"
NO_FP8 = ("ampere",)  # turing has no bf16 either: there is no stand-in for it


def shape(text):
    m, n, k = map(int, text.split("x"))
    return m, n, k


class Gpu:
    """PyTorch on the first GPU."""

    def __init__(self, torch):
        self.torch, self.device, self.kernels = torch, "cuda", []
        self.has_fp8 = torch.cuda.get_device_capability() >= (8, 9)

    def profiled(self, multiply):
        """The product, and the names of the kernels that ran (none where the profiler does not work here)."""
        profiler = self.torch.profiler
        try:
            with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
                d = multiply()
                self.torch.cuda.synchronize()
            self.kernels = [event.name for event in profile.events() if event.device_type.name == "CUDA"]
        except RuntimeError as error:
            print(f"torch_gemm: no kernel names: {str(error).splitlines()[0]}", file=sys.stderr)
            self.profiled = lambda multiply: multiply()
            d = multiply()
        return d

    def matmul(self, kind, a, b, reduced=True, raw=False):
        matmul = self.torch.backends.cuda.matmul
        matmul.allow_bf16_reduced_precision_reduction = matmul.allow_fp16_reduced_precision_reduction = reduced
        matmul.allow_fp16_accumulation = kind == "f16acc"
        matmul.allow_tf32 = kind == "tf32"
        return self.profiled(lambda: a @ b)

    def scaled(self, a, b, out, fast):
        one = self.torch.ones((), device=self.device)
        b = b.t().contiguous().t()  # _scaled_mm takes B column-major
        return self.profiled(lambda: self.torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast))

    def provenance(self):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True).stdout.split("\n")[0]
        return f"gpu: {self.torch.cuda.get_device_name()}\ndriver: {driver}\ncuda: {self.torch.version.cuda}\n"


class StandIn:
    """The library in the GPU's place."""

    def __init__(self, torch, numpy, program, arch, work):
        self.torch, self.numpy, self.program, self.arch, self.work = torch, numpy, program, arch, work
        self.device, self.has_fp8, self.kernels = "cpu", arch not in NO_FP8, []

    def product(self, kind, a, b, out, options=()):
        files = [self.work / f"stand-in.{part}.npy" for part in "abd"]
        for file, tensor in zip(files, (a, b)):
            save(file, tensor, self.torch, self.numpy)
        name = {self.torch.float32: "f32", self.torch.float16: "f16", self.torch.bfloat16: "bf16"}[out]
        command = [self.program, "gemm", f"{self.arch}/{STAND_IN_UNITS[kind]}", files[0], files[1], "-o", files[2],
                   "--plan", STAND_IN_PLAN, "--out", name, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        d = self.numpy.load(files[2])
        for file in files:
            file.unlink()
        if name == "bf16":
            return self.torch.from_numpy(d.view(self.numpy.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(d)

    def matmul(self, kind, a, b, reduced=True, raw=False):
        return self.product(kind, a, b, a.dtype, ["--round", "rz"] if raw else [])

    def scaled(self, a, b, out, fast):
        return self.product("fp8", a, b, out)

    def provenance(self):
        return "gpu: none, a stand-in\n"


def save(path, tensor, torch, numpy):
    """A tensor as .npy; types that numpy lacks as unsigned integers."""
    patterns = {torch.bfloat16: (torch.int16, numpy.uint16), torch.float8_e4m3fn: (torch.uint8, numpy.uint8)}
    tensor = tensor.detach().contiguous().cpu()
    if tensor.dtype in patterns:
        same_width, pattern = patterns[tensor.dtype]
        array = tensor.view(same_width).numpy().view(pattern)
    else:
        array = tensor.numpy()
    numpy.save(path, numpy.ascontiguousarray(array))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="bf16,f16,f16acc,tf32,f32,f64,fp8")
    parser.add_argument("--shapes", default=SHAPES, type=lambda text: [shape(s) for s in text.split(",")])
    parser.add_argument("--stand-in", metavar="GEMMULATE")
    parser.add_argument("--arch")
    options = parser.parse_args()
    if (options.stand_in is None) != (options.arch is None):
        parser.error("--stand-in and --arch go together")
    try:
        import numpy
        import torch
    except ImportError as error:
        sys.exit(f"torch_gemm: {error}: PyTorch and numpy are needed; nothing was run")
    if options.stand_in is None and not torch.cuda.is_available():
        sys.exit("torch_gemm: no CUDA GPU; nothing was run")
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = set(options.only.split(","))
    gpu = Gpu(torch) if options.stand_in is None else StandIn(torch, numpy, options.stand_in, options.arch, options.out)
    rows = []

    def operands(kind, m, n, k, dtype=torch.float32):
        """A and B, the same for the same seed, type and shape whatever else is asked for."""
        generator = numpy.random.Generator(numpy.random.PCG64([options.seed, m, n, k, *kind.encode()]))
        wide = numpy.float64 if dtype == torch.float64 else numpy.float32
        return (torch.from_numpy(generator.standard_normal(size, dtype=wide)).to(dtype).to(gpu.device) for size in ((m, k), (k, n)))

    def dump(kind, a, b, d, flags="", identify=""):
        (m, k), n = a.shape, b.shape[1]
        name = f"{kind}-{m}x{n}x{k}" + ("-" + flags if flags else "")
        for part, tensor in (("a", a), ("b", b), ("d", d)):
            save(options.out / f"{name}.{part}.npy", tensor, torch, numpy)
        rows.append((name, kind, m, n, k, str(d.dtype).removeprefix("torch."), flags, identify, "; ".join(gpu.kernels)))
        print(name, flush=True)

    for number, (m, n, k) in enumerate(options.shapes):
        for kind, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            if kind in wanted:
                a, b = operands(kind, m, n, k, dtype)
                # Sums between slices of a split K in that type, if cuBLAS likes, or in f32.
                either, wide = (gpu.matmul(kind, a, b, reduced=reduced) for reduced in (True, False))
                dump(kind, a, b, wide)
                if not torch.equal(either, wide):
                    dump(kind, a, b, either, "reduced")
        for kind, dtype in (("f16acc", torch.float16), ("f32", torch.float32), ("f64", torch.float64)):
            if kind in wanted and number < 8 and options.stand_in is None:
                a, b = operands(kind, m, n, k, dtype)
                dump(kind, a, b, gpu.matmul(kind, a, b))
        if "tf32" in wanted:
            a, b = operands("tf32", m, n, k)
            dump("tf32", a, b, gpu.matmul("tf32", a, b, raw=True), "raw", "--rounded")
            a, b = ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (a, b))
            dump("tf32", a, b, gpu.matmul("tf32", a, b))
        if "fp8" in wanted and n % 16 == k % 16 == 0 and gpu.has_fp8:
            a, b = operands("fp8", m, n, k, torch.float8_e4m3fn)
            for fast in (True, False):  # fast: no promotion of partial sums to f32 on Hopper
                for out in (torch.float32, torch.bfloat16):
                    try:
                        d = gpu.scaled(a, b, out, fast)
                    except RuntimeError as error:
                        print(f"fp8 {m}x{n}x{k} fast={fast} {out}: {str(error).splitlines()[0]}", file=sys.stderr)
                        continue
                    dump("fp8", a, b, d, ("fast-" if fast else "") + str(out).removeprefix("torch."))
    head = "name\ttype\tm\tn\tk\tout\tflags\tidentify\tkernels\n"
    (options.out / "index.tsv").write_text(head + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    (options.out / "provenance.txt").write_text(
        gpu.provenance() + f"pytorch: {torch.__version__}\ndate: {datetime.date.today().isoformat()}\nseed: {options.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
