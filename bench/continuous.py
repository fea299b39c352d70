"""Holds tensors of a model's shapes, and saves and loads them with PyTorch, for the benchmark `continuous`.

Arguments: a folder, and a list of shapes in JSON. For each line "save" it prints the bytes of the file that torch.save has written,
and for each line "load" the seconds of torch.load. The files stay in the page cache: torch.save waits for no disk."""

import json
import os
import sys
import time

import torch


def main():
    path, shapes = os.path.join(sys.argv[1], "model.pt"), json.loads(sys.argv[2])
    model = {"tensor%d" % i: torch.ones(shape) for i, shape in enumerate(shapes)}
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "save":
            torch.save(model, path)
            print(os.path.getsize(path), flush=True)
        else:
            began = time.perf_counter()
            torch.load(path)
            print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
