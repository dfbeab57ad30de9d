#!/usr/bin/env python3
"""How the share of a native product grows with the size: `gemmulate bench` over sizes, as an SVG and a table.

    pip install matplotlib
    python lab/growth/growth.py target/release/gemmulate docs/images/growth.svg

Every point is checked: it must be at least 0.6 of the geometric mean of its neighbours on its curve.
"""

import json
import subprocess
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

UNITS = {
    "Hopper f16": "hopper/mma.m16n8k16.f32.f16.f16.f32",
    "Blackwell e4m3": "rtx-blackwell/mma.m16n8k32.f32.e4m3.e4m3.f32",
    "Ampere f16": "ampere/mma.m16n8k16.f32.f16.f16.f32",
    "NVFP4": "rtx-blackwell/mma.m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
    "CDNA2 f16": "cdna2/v_mfma_f32_32x32x8f16",
    "CDNA3 f32": "cdna3/v_mfma_f32_32x32x2_f32",
}
CUBES = [64, 128, 256, 512, 1024, 2048, 4096]
OTHERS = ["1x4096x4096", "4096x1x4096", "64x64x1000000"]


def bench(program, sizes):
    """Results of all units at each size, `{size: {unit: result}}`."""
    found = {}
    for size in sizes:
        turns = "3" if str(size) in ("2048", "4096") else "9"
        command = [program, "bench", "--json", "--size", str(size), "--turns", turns]
        for unit in UNITS.values():
            command += ["--unit", unit]
        print(size, file=sys.stderr, flush=True)
        results = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["results"]
        found[size] = dict(zip(UNITS, results))
    return found


def main():
    program, picture = sys.argv[1], sys.argv[2]
    cubes, others = bench(program, CUBES), bench(program, OTHERS)
    plt.rcParams.update({"svg.hashsalt": "gemmulate", "font.size": 10})
    figure, axes = plt.subplots(figsize=(7.2, 4))
    print("| of gemm at the same size | " + " | ".join(str(size) for size in CUBES + OTHERS) + " |")
    print("|---" * (1 + len(CUBES) + len(OTHERS)) + "|")
    uneven = []
    for name in UNITS:
        curve = [cubes[size][name]["ratio_gemm"] for size in CUBES]
        axes.plot(CUBES, curve, marker="o", label=name)
        rates = [cubes[size][name]["gmacs"] for size in CUBES]
        for i in range(1, len(CUBES) - 1):
            share = rates[i] / (rates[i - 1] * rates[i + 1]) ** 0.5
            if share < 0.6:
                uneven.append(f"{name} at {CUBES[i]}: {share:.2f}")
        cells = [f"{x:.2f}" for x in curve + [others[size][name]["ratio_gemm"] for size in OTHERS]]
        print(f"| {name} | " + " | ".join(cells) + " |")
    axes.set_xscale("log", base=2)
    axes.set_xticks(CUBES, [str(size) for size in CUBES])
    axes.set_xlabel("M = N = K")
    axes.set_ylabel("rate, of the gemm crate's at this size")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})
    print("below 0.6 of their neighbours' mean:", "; ".join(uneven) or "none")
    sys.exit(1 if uneven else 0)


main()
