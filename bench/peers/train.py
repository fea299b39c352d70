"""Measures training steps of a peer, as `ecrec bench train` measures ecrec's. Data loading is excluded:
the batches lie in memory, in the form that the engine takes. Prints one line of JSON."""

import argparse
import json
import os
import statistics
import time


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", default="dim16")
    p.add_argument("--engine", default="fbgemm", choices=["bags", "fbgemm", "torchrec"])
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--products", default="mkl", choices=["mkl", "onednn"])
    p.add_argument("--ids", required=True, help="a file of `ecrec data synth`")
    p.add_argument("--skew", type=float, default=1.05, help="of bags with several ids")
    p.add_argument("--steps", type=int, default=0, help="of a measurement; 0: 32,768 samples")
    p.add_argument("--repeats", type=int, default=4)
    p.add_argument("--profile", action="store_true", help="print the operators by time")
    return p.parse_args()


def main():
    a = parse()
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(variable, None)
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages for PyTorch's memory
    import torch

    import engines
    import models

    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    models.Linear.onednn = a.products == "onednn"
    model = models.MODELS[a.model]
    steps = a.steps or max(2, 32768 // a.batch)
    count = min(2 * steps, 64)
    engine = engines.make_steps(model, a.engine, lr=0.1)
    batches = [engine.prepare(b) for b in models.make_batches(model, a.batch, a.ids, count, a.skew)]
    done = 0

    def run(n):
        nonlocal done
        for _ in range(n):
            loss = engine.run(batches[done % count])
            done += 1
        return loss

    run(max(2, steps // 2))
    rates, per_cpu = [], []
    for _ in range(a.repeats):
        began, cpu = time.perf_counter(), time.process_time()
        loss = run(steps)
        samples = a.batch * steps
        rates.append(samples / (time.perf_counter() - began))
        per_cpu.append(samples / (time.process_time() - cpu))
    if a.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run(steps)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=50))
    rate = statistics.median(rates)
    print(json.dumps({
        "model": a.model, "engine": a.engine, "products": a.products, "batch": a.batch, "threads": a.threads, "torch": torch.__version__,
        "rate": round(rate), "least": round(min(rates)), "greatest": round(max(rates)), "per_cpu_second": round(statistics.median(per_cpu)),
        "gflops": round(rate * models.flops_per_sample(model) / 1e9, 1), "loss": round(loss.item(), 4),
        "preload": os.path.basename(os.environ.get("LD_PRELOAD", "")),
    }), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
