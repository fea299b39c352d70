"""Compares ecrec's reading of Parquet with polars': compare.py [ROWS [TURNS]], in a Python with numpy, pyarrow and polars.

It writes a file of ROWS (1,000,000) rows, a label, 13 numbers and 26 categories with the sizes and the skew of Criteo's, as
pyarrow does by default (dictionaries, snappy), and one with zstd. Then polars (read_parquet of all columns, 2 threads) and
ecrec (samples in memory, and a conversion to a record file, 2 threads) take turns, each in a process of its own that reads the
file five times; the first time does not count. It prints medians, and the median ratio to polars with a bootstrap interval.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
SIZES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15,
         286181, 105, 142572]
POLARS = """
import os, sys, time
import polars
for _ in range(5):
    begin, before = time.time(), os.times()
    table = polars.read_parquet(sys.argv[1])
    after = os.times()
    print("polars", time.time() - begin, after.user - before.user + after.system - before.system)
    del table
"""


def write(path, rows):
    import pyarrow
    import pyarrow.parquet

    r = np.random.default_rng(1)
    columns = {"label": pyarrow.array((r.random(rows) < 0.256).astype(np.int32))}
    for i in range(13):
        missing = 0.0 if i % 3 else 0.2
        columns[f"i{i + 1}"] = pyarrow.array(np.floor(np.exp(r.normal(2, 1.5, rows))).astype(np.int64), mask=r.random(rows) < missing)
    for i, size in enumerate(SIZES):
        ids = np.minimum((size + 1) ** r.random(rows) - 1, size - 1).astype(np.uint32)  # the popularity of rank k is 1/k
        texts = np.char.mod("%08x", ids * np.uint32(2654435761) + np.uint32(97 * i))
        columns[f"c{i + 1}"] = pyarrow.array(texts, mask=r.random(rows) < (0.03 if size > 1e6 else 0))
    table = pyarrow.table(columns)
    for codec in ("snappy", "zstd"):
        pyarrow.parquet.write_table(table, f"{path}-{codec}.parquet", compression=codec)


def figures(command):
    env = dict(os.environ, POLARS_MAX_THREADS="2", GOMAXPROCS="2")
    lines = [line.split() for line in subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()]
    found = {}
    for line in lines:
        if line and line[0] in ("polars", "read", "convert"):
            found.setdefault(line[0], []).append([float(x) for x in line[1:]])
    return {what: np.median(times[1:], axis=0) for what, times in found.items()}


def main(rows=1_000_000, turns=7):
    with tempfile.TemporaryDirectory() as folder:
        binary, path = f"{folder}/data.test", f"{folder}/criteo"
        subprocess.run(["go", "test", "-c", "-o", binary, "./data"], cwd=ROOT, check=True)
        write(path, rows)
        r = np.random.default_rng(2)
        for codec in ("snappy", "zstd"):
            file, all_turns = f"{path}-{codec}.parquet", []
            for _ in range(turns):
                turn = figures([sys.executable, "-c", POLARS, file])
                turn.update(figures([binary, "-test.run", "^TestParquetSpeed$", "-parquet", file]))
                all_turns.append(turn)
            print(f"{codec}: {rows:,} rows, {os.path.getsize(file) / 1e6:.1f} MB, {turns} turns")
            for k, unit in enumerate(("wall clock", "CPU")):
                for what in ("polars", "read", "convert"):
                    times = np.array([turn[what][k] for turn in all_turns])
                    ratios = times / np.array([turn["polars"][k] for turn in all_turns])
                    means = np.median(r.choice(ratios, (2000, turns)), axis=1)
                    low, high = np.quantile(means, [0.025, 0.975])
                    print(f"  {unit:10} {what:8} {np.median(times):.3f} s, {np.median(ratios):.2f} of polars [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
