"""Makes small data sets: Criteo's text, and CSV with numbers and categories."""

import os
import random

from files import write


def make(about, folder, run):
    """Writes the files of a plan's data to a folder. run starts an ecrec command, for topics."""
    kind = about["kind"]
    if kind == "criteo-tsv":
        r = random.Random(about["seed"])
        write(os.path.join(folder, "train.txt"), criteo(r, about["samples"]))
        write(os.path.join(folder, "eval.txt"), criteo(r, 100))
    elif kind in ("csv", "topic"):
        r = random.Random(about["seed"])
        write(os.path.join(folder, "train.csv"), table(r, about, about["samples"]))
        write(os.path.join(folder, "eval.csv"), table(r, about, 150))
    if kind == "topic":
        code = run(["data", "produce", "train.csv", "--to", "file:clicks", "--partitions", str(about["partitions"])])
        if code != 0:
            raise RuntimeError("data produce ended with code %s" % code)


def criteo(r, samples):
    lines = []
    for _ in range(samples):
        numbers = ["" if r.random() < 0.1 else str(r.randint(-2, 500)) for _ in range(13)]
        ids = ["" if r.random() < 0.05 else "%08x" % int(r.paretovariate(0.5) * 7919) for _ in range(26)]
        ids = [i[-8:] for i in ids]
        lines.append("\t".join([str(int(r.random() < 0.3))] + numbers + ids))
    return "\n".join(lines) + "\n"


def table(r, about, samples):
    dense, features = about["dense"], about["features"]
    lines = [",".join(["label"] + ["n%d" % i for i in range(dense)] + ["c%d" % i for i in range(features)])]
    for _ in range(samples):
        numbers = ["" if r.random() < 0.1 else "%.3f" % (r.expovariate(0.05) - 1) for _ in range(dense)]
        texts = ["" if r.random() < 0.05 else "v%d" % int(r.paretovariate(0.7)) for _ in range(features)]
        label = int(r.random() < (0.7 if texts[0] == "v1" else 0.2))
        lines.append(",".join([str(label)] + numbers + texts))
    return "\n".join(lines) + "\n"


def rows(path):
    """Returns the rows of a CSV file of ours as dicts."""
    with open(path) as f:
        names = f.readline().rstrip("\n").split(",")
        return [dict(zip(names, line.rstrip("\n").split(","))) for line in f]
