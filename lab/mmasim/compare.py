#!/usr/bin/env python3
"""The same products by the mmasim package and by gemmulate: bits and time.

    pip install mmasim==2.1.1 ninja numpy setuptools
    python lab/mmasim/compare.py target/release/gemmulate [SIZE]

mmasim computes one instruction a call; the loop over tiles and K, in order, is this script's, and only the calls are
timed. Both run on one thread. gemmulate is timed as a process, files, start and all, on a product large enough that these
do not count, and its bits are compared on the small one. Prints a table in Markdown.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from mmasim import amd, nv_ptx

torch.set_num_threads(1)

# gemmulate's unit, mmasim's class, architecture and instruction, the torch type of the operands
UNITS = [
    ("hopper/mma.m16n8k16.f32.f16.f16.f32", nv_ptx.MMA, "Hopper", "m16n8k16.f32.f16.f16.f32", torch.float16),
    ("hopper/mma.m16n8k16.f32.bf16.bf16.f32", nv_ptx.MMA, "Hopper", "m16n8k16.f32.bf16.bf16.f32", torch.bfloat16),
    ("ampere/mma.m16n8k16.f32.f16.f16.f32", nv_ptx.MMA, "Ampere", "m16n8k16.f32.f16.f16.f32", torch.float16),
    ("volta/mma.m8n8k4.f32.f16.f16.f32", nv_ptx.MMA, "Volta", "m8n8k4.f32.f16.f16.f32", torch.float16),
    ("ada/mma.m16n8k32.f32.e4m3.e4m3.f32", nv_ptx.MMA, "Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32", torch.float8_e4m3fn),
    ("cdna2/v_mfma_f32_32x32x8f16", amd.MFMA, "CDNA2", "f32_32x32x8f16", torch.float16),
    ("cdna3/v_mfma_f32_32x32x8_f16", amd.MFMA, "CDNA3", "f32_32x32x8_f16", torch.float16),
    ("cdna1/v_mfma_f32_32x32x8f16", amd.MFMA, "CDNA1", "f32_32x32x8f16", torch.float16),
]


def product(op, a, b):
    """A B by the instruction, tile by tile, K in order; and the seconds its calls took."""
    m, n, k = op.m, op.n, op.k
    size = a.shape[0]
    d = torch.zeros(size, size, dtype=torch.float32)
    seconds = 0.0
    for i in range(0, size, m):
        for j in range(0, size, n):
            c = d[i : i + m, j : j + n]
            for p in range(0, size, k):
                x, y = a[i : i + m, p : p + k].contiguous(), b[p : p + k, j : j + n].contiguous()
                start = time.perf_counter()
                c = op(x, y, c)
                seconds += time.perf_counter() - start
            d[i : i + m, j : j + n] = c
    return d, seconds


def save(path, x):
    """float16 as values, other types as bit patterns."""
    bits = {2: torch.int16, 1: torch.int8}[x.element_size()]
    unsigned = {2: np.uint16, 1: np.uint8}[x.element_size()]
    np.save(path, x.numpy() if x.dtype == torch.float16 else x.view(bits).numpy().view(unsigned))


def ours(program, unit, a, b, folder):
    """The product by gemmulate, and the seconds the process took."""
    for name, x in (("a", a), ("b", b)):
        save(folder / f"{name}.npy", x)
    command = [program, "gemm", unit, "a.npy", "b.npy", "-o", "d.npy", "--threads", "1"]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return torch.from_numpy(np.load(folder / "d.npy")), time.perf_counter() - start


def main():
    program = str(Path(sys.argv[1]).resolve())
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    large = 2048
    torch.manual_seed(1)
    print(f"| unit | different elements of {size * size} | mmasim, MMAC/s | gemmulate, MMAC/s | times |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, kind, arch, instruction, dtype in UNITS:
            op = kind(arch, instruction)
            a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
            theirs, seconds = product(op, a, b)
            mine, _ = ours(program, name, a, b, folder)
            different = (theirs.view(torch.int32) != mine.view(torch.int32)).sum().item()
            a, b = (torch.randn(large, large).to(dtype) for _ in range(2))
            _, large_seconds = ours(program, name, a, b, folder)
            rates = size**3 / seconds / 1e6, large**3 / large_seconds / 1e6
            print(f"| {name} | {different} | {rates[0]:.3f} | {rates[1]:.0f} | {rates[1] / rates[0]:.0f} |", flush=True)


main()
