#!/usr/bin/env python3
"""Dumps products of Triton's tl.dot and of torch with C, bias and scales for `gemmulate identify`.

    torch_epilogues.py OUT_DIR [--seed S]

Needs a CUDA GPU, PyTorch and Triton. Writes what torch_gemm.py does (whose notes on types hold here, too), and C, bias and
scales as NAME.c.npy, NAME.bias.npy, NAME.sa.npy, NAME.sb.npy; `identify_products OUT_DIR ARCH` searches them all. What an
H100 gave: docs/hardware.md.

- triton-*: blocks of 64 x 64 x BK; fp8 with `max_num_imprecise_acc` (imp); tf32 from numbers that it does not hold (raw) and
  that it holds; blocks of 16 x 16, which fill no wgmma, so that mma.sync is taken (small).
- addmm-*, linear-*: C with alpha and beta, and bias. scaled-*: `_scaled_mm` with factors by tensor and by row and column.
- bmm-*, layout-*: the last matrix of a batch, and operands in either order.

fp8 with imp0, and in small blocks, is mma.sync on operands widened to f16, with K in another order: `identify` does not find
that. With TRITON_INTERPRET=1 Triton's products but fp8 are computed on the CPU, which shows that the files are right.
"""

import argparse
import datetime
import os
import pathlib
import sys

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
try:
    import numpy
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    sys.exit(f"torch_epilogues: {error}: PyTorch, Triton and numpy are needed; nothing was run")

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from torch_gemm import Gpu, save  # noqa: E402

F16, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn
RAW = "--rounded"
TYPES = (("f16", F16, ""), ("bf16", BF16, ""), ("tf32", F32, RAW))


@triton.jit
def matmul(a, b, d, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, IMPRECISE: tl.constexpr, ACC: tl.constexpr):
    rm, rn = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        if IMPRECISE >= 0:
            acc = tl.dot(x, y, acc, max_num_imprecise_acc=IMPRECISE)
        else:
            acc = tl.dot(x, y, acc, input_precision="tf32", out_dtype=ACC)
    tl.store(d + rm[:, None] * N + rn[None, :], acc)


class Dump:
    """Draws operands and writes products and the index."""

    def __init__(self, out, seed):
        self.out, self.seed, self.rows = out, seed, []
        self.device = "cpu" if INTERPRETED else "cuda"

    def draw(self, kind, m, n, dtype, which=0):
        generator = numpy.random.Generator(numpy.random.PCG64([self.seed, m, n, which, *kind.encode()]))
        return torch.from_numpy(generator.standard_normal((m, n), dtype=numpy.float32)).to(dtype).to(self.device)

    def factors(self, n, which):
        generator = numpy.random.Generator(numpy.random.PCG64([self.seed, n, which]))
        return torch.from_numpy(generator.uniform(0.01, 3, n).astype(numpy.float32)).to(self.device)

    def run(self, name, size, parts, multiply, options=""):
        """`options` may name parts as {c}."""
        kernels = ""
        try:
            if INTERPRETED:
                parts["d"] = multiply()
            else:
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                    parts["d"] = multiply()
                    torch.cuda.synchronize()
                kernels = "; ".join(e.name for e in profile.events() if e.device_type.name == "CUDA")
        except Exception as error:  # a kernel that this GPU or version does not have
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            return
        files = {part: self.out / f"{name}.{part}.npy" for part in parts}
        for part, tensor in parts.items():
            save(files[part], tensor, torch, numpy)
        out = str(parts["d"].dtype).removeprefix("torch.")
        self.rows.append((name, name.split("-")[1], *size, out, "", options.format(**files), kernels))
        print(name, flush=True)

    def index(self):
        head = "name\ttype\tm\tn\tk\tout\tflags\tidentify\tkernels\n"
        (self.out / "index.tsv").write_text(head + "".join("\t".join(map(str, row)) + "\n" for row in self.rows))
        gpu = "gpu: none, Triton's interpreter\n" if INTERPRETED else Gpu(torch).provenance()
        (self.out / "provenance.txt").write_text(
            gpu + f"pytorch: {torch.__version__}\ntriton: {triton.__version__}\n"
            f"date: {datetime.date.today().isoformat()}\nseed: {self.seed}\n")


def triton_products(dump):
    def product(kind, dtype, size, bk, tag="", block=64, imprecise=-1, acc=F32, held=False):
        m, n, k = size
        a, b = dump.draw(kind, m, k, dtype, 0), dump.draw(kind, k, n, dtype, 1)
        if held:
            a, b = ((x.view(torch.int32) & ~0x1FFF).view(F32) for x in (a, b))
        d = torch.empty((m, n), device=dump.device, dtype=acc)
        wide = tl.float16 if acc == F16 else tl.float32

        def multiply():
            matmul[(m // block, n // block)](a, b, d, n, k, block, block, bk, imprecise, wide, num_warps=4 if block > 16 else 1)
            return d

        options = RAW if dtype == F32 and not held else ""
        dump.run(f"triton-{kind}-{m}x{n}x{k}-bk{bk}{tag}", size, dict(a=a, b=b), multiply, options)

    large, small = (128, 128, 1024), (64, 64, 512)
    for bk in (32, 64, 128):
        product("f16", F16, large, bk)
        product("bf16", BF16, large, bk)
        for imprecise in [] if INTERPRETED else [-1, *(i for i in (0, 32, 64, 128) if i <= bk)]:
            product("fp8", FP8, large, bk, f"-imp{imprecise}" if imprecise >= 0 else "", imprecise=imprecise)
    product("f16", F16, large, 64, "-acc", acc=F16)
    product("tf32", F32, large, 32, "-raw")
    product("tf32", F32, large, 32, "-held", held=True)
    for kind, dtype in (("f16", F16), ("bf16", BF16), ("tf32", F32)) + (() if INTERPRETED else (("fp8", FP8),)):
        product(kind, dtype, small, 64, "-small", block=16)


def torch_products(dump):
    torch.backends.cuda.matmul.allow_tf32 = True
    for kind, dtype, options in TYPES:
        for m, n, k in ((256, 256, 512), (64, 64, 4096)):
            a, b, c = dump.draw(kind, m, k, dtype, 0), dump.draw(kind, k, n, dtype, 1), dump.draw(kind, m, n, dtype, 2)
            for alpha, beta in ((1, 1), (0.7, 0.3), (1, 0.3)):
                with_c = f"-c {{c}} --alpha {alpha} --beta {beta}"
                dump.run(f"addmm-{kind}-{m}x{n}x{k}-{alpha}-{beta}", (m, n, k), dict(a=a, b=b, c=c),
                         lambda: torch.addmm(c, a, b, alpha=alpha, beta=beta), f"{with_c} {options}".strip())
            w, bias = dump.draw(kind, n, k, dtype, 1), dump.draw(kind, 1, n, dtype, 2)[0]
            dump.run(f"linear-{kind}-{m}x{n}x{k}", (m, n, k), dict(a=a, b=w, bias=bias.float()),
                     lambda: torch.nn.functional.linear(a, w, bias), f"--bias {{bias}} --transposed b {options}".strip())
        for count, m, k in ((16, 128, 512), (32, 64, 96)):
            a, b = (torch.stack([dump.draw(kind, *size, dtype, which + i) for i in range(count)])
                    for size, which in (((m, k), 10), ((k, m), 100)))
            dump.run(f"bmm-{kind}-{count}x{m}x{m}x{k}", (m, m, k), dict(a=a[-1], b=b[-1]), lambda: torch.bmm(a, b)[-1], options)
        a, b = dump.draw(kind, 256, 1024, dtype, 0), dump.draw(kind, 1024, 384, dtype, 1)
        for left, x in (("n", a), ("t", a.t().contiguous().t())):
            for right, y in (("n", b), ("t", b.t().contiguous().t())):
                dump.run(f"layout-{kind}-256x384x1024-{left}{right}", (256, 384, 1024), dict(a=a, b=b), lambda: x @ y, options)
    m, n, k = size = (256, 256, 512)
    a, b, bias = dump.draw("fp8", m, k, FP8, 0), dump.draw("fp8", n, k, FP8, 1), dump.draw("bias", 1, n, BF16, 3)[0]
    sa, sb = dump.factors(m, 0), dump.factors(n, 1)
    numbers = [torch.tensor(x, device=dump.device) for x in (0.37, 1.93)]
    ways = {"rows": (sa[:, None], sb[None], "{sa}", "{sb}", (BF16,)), "tensor": (*numbers, "0.37", "1.93", (BF16, F32))}
    for way, (scale_a, scale_b, by_a, by_b, types) in ways.items():
        for fast in (True, False):
            for out in types:
                for with_bias in (False, True)[: 1 + (out == BF16)]:
                    parts = dict(a=a, b=b, **(dict(sa=sa, sb=sb) if way == "rows" else {}), **(dict(bias=bias.float()) if with_bias else {}))
                    tag = "-".join([way, "fast" if fast else "slow", str(out).removeprefix("torch.")] + ["bias"] * with_bias)
                    dump.run(f"scaled-fp8-{m}x{n}x{k}-{tag}", size, parts,
                             lambda: torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, bias=bias if with_bias else None,
                                                      out_dtype=out, use_fast_accum=fast),
                             f"--transposed b --scale-a {by_a} --scale-b {by_b}" + " --bias {bias}" * with_bias)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not INTERPRETED and not torch.cuda.is_available():
        sys.exit("torch_epilogues: no CUDA GPU; nothing was run")
    options.out.mkdir(parents=True, exist_ok=True)
    dump = Dump(options.out, options.seed)
    triton_products(dump)
    if not INTERPRETED:
        torch_products(dump)
    dump.index()


if __name__ == "__main__":
    main()
