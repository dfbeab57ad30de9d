#!/usr/bin/env python3
"""Dumps products of torch.matmul and torch._scaled_mm for `gemmulate identify`.

    torch_gemm.py OUT_DIR [--seed S] [--only bf16,f16,tf32,fp8]

Needs a CUDA GPU and PyTorch. For every shape of the table and every type writes, into OUT_DIR,

    NAME.a.npy  NAME.b.npy  NAME.d.npy     A (M x K), B (K x N) and D (M x N), row-major
    index.tsv                              name, type, M, N, K, output type, flags
    provenance.txt                         GPU, driver, PyTorch, CUDA, cuBLAS, date, seed

f16 and f32 (tf32) arrays hold values; bf16 and fp8 arrays are bit patterns (u16, u8), as the gemmulate
command line takes them. `identify` then searches the plans that reproduce D:

    gemmulate identify OUT/NAME.a.npy OUT/NAME.b.npy OUT/NAME.d.npy
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


def save(path, tensor, torch, numpy):
    patterns = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
    tensor = tensor.detach().contiguous().cpu()
    if tensor.dtype in patterns:
        tensor = tensor.view(patterns[tensor.dtype])
    numpy.save(path, numpy.ascontiguousarray(tensor.numpy()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="bf16,f16,tf32,fp8")
    options = parser.parse_args()
    try:
        import numpy
        import torch
    except ImportError as error:
        sys.exit(f"torch_gemm: {error}: PyTorch and numpy are needed; nothing was run")
    if not torch.cuda.is_available():
        sys.exit("torch_gemm: no CUDA GPU; nothing was run")
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = set(options.only.split(","))
    device = torch.device("cuda")
    generator = torch.Generator(device=device).manual_seed(options.seed)
    rows = []

    def normal(m, n):
        return torch.randn(m, n, generator=generator, device=device, dtype=torch.float32)

    def dump(kind, m, n, k, a, b, d, flags=""):
        name = f"{kind}-{m}x{n}x{k}" + ("-" + flags if flags else "")
        for part, tensor in (("a", a), ("b", b), ("d", d)):
            save(options.out / f"{name}.{part}.npy", tensor, torch, numpy)
        rows.append((name, kind, m, n, k, str(d.dtype).removeprefix("torch."), flags))
        print(name, flush=True)

    for m, n, k in SHAPES:
        if "bf16" in wanted:
            a, b = normal(m, k).to(torch.bfloat16), normal(k, n).to(torch.bfloat16)
            for reduced in (True, False):  # bf16 sums between slices of a split K, or f32 ones
                torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduced
                dump("bf16", m, n, k, a, b, a @ b, "reduced" if reduced else "")
        if "f16" in wanted:
            a, b = normal(m, k).to(torch.float16), normal(k, n).to(torch.float16)
            for reduced in (True, False):
                torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced
                dump("f16", m, n, k, a, b, a @ b, "reduced" if reduced else "")
        if "tf32" in wanted:
            torch.backends.cuda.matmul.allow_tf32 = True
            a, b = normal(m, k), normal(k, n)
            dump("tf32", m, n, k, a, b, a @ b)
            torch.backends.cuda.matmul.allow_tf32 = False
        if "fp8" in wanted and m % 16 == n % 16 == k % 16 == 0 and torch.cuda.get_device_capability() >= (8, 9):
            a = normal(m, k).to(torch.float8_e4m3fn)
            b = normal(n, k).to(torch.float8_e4m3fn).t()  # _scaled_mm takes B column-major
            one = torch.ones((), device=device)
            for fast in (True, False):  # fast: no promotion of partial sums to f32 on Hopper
                for out_type in (torch.float32, torch.bfloat16):
                    try:
                        d = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out_type, use_fast_accum=fast)
                    except RuntimeError as error:
                        print(f"fp8 {m}x{n}x{k} fast={fast} {out_type}: {str(error).splitlines()[0]}", file=sys.stderr)
                        continue
                    dump("fp8", m, n, k, a, b, d, ("fast-" if fast else "") + str(out_type).removeprefix("torch."))
    (options.out / "index.tsv").write_text("name\ttype\tm\tn\tk\tout\tflags\n" + "".join("\t".join(map(str, r)) + "\n" for r in rows))
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.split("\n")[0]
    (options.out / "provenance.txt").write_text(
        f"gpu: {torch.cuda.get_device_name()}\ndriver: {driver}\npytorch: {torch.__version__}\ncuda: {torch.version.cuda}\n"
        f"date: {datetime.date.today().isoformat()}\nseed: {options.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
