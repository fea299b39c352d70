"""Times the matrix products of a step of deepfm with PyTorch, and nothing else: the rate that a trainer on the same products
could reach if all its other work cost nothing. With LD_PRELOAD of avx512.so (compare.sh builds it) MKL takes AVX-512.

    python products.py [--batch 2048] [--threads 2] [--turns 60]
"""

import argparse
import statistics
import time

import torch

import models


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    m = models.MODELS["deepfm"]
    sizes = [m["dim"] * len(m["rows"])] + m["top"]
    layers = [(torch.randn(args.batch, k), torch.randn(n, k), torch.randn(args.batch, n)) for k, n in zip(sizes, sizes[1:])]
    flops = 3 * sum(2 * args.batch * k * n for k, n in zip(sizes, sizes[1:]))

    def products():
        for x, w, dy in layers:
            torch.mm(x, w.t())
            torch.mm(dy, w)
            torch.mm(dy.t(), x)

    times = []
    for turn in range(args.turns + 5):
        begin = time.perf_counter()
        products()
        if turn >= 5:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    print(f"products of deepfm alone, PyTorch {torch.__version__}, {args.threads} threads: {args.batch / median:,.0f} samples/s, {flops / median / 1e9:.1f} GFLOP/s (median of {args.turns})")


main()
