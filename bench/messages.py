"""Times what Python's own parts do with the messages of the benchmark `messages`, and prints one line of JSON: a list of
[system, operation, set, nanoseconds of each of some turns]. Systems that are not installed are left out."""

import array
import json
import multiprocessing
import pickle
import sys
import time


def mean(do, n):
    began = time.perf_counter_ns()
    for _ in range(n):
        do()
    return (time.perf_counter_ns() - began) / n


def times(do, bytes_, turns):
    n = max(1, min(2000, 20_000_000 // max(bytes_, 1)))
    do()
    return [mean(do, n) for _ in range(turns)]


def codecs():
    """Lists (system, make an array of floats, serialise, deserialise)."""
    dumps = lambda x: pickle.dumps(x, protocol=pickle.HIGHEST_PROTOCOL)
    yield "Pickle, array", lambda n: array.array("f", [0.5] * n), dumps, pickle.loads
    try:
        import numpy
        yield "Pickle, NumPy", lambda n: numpy.full(n, 0.5, numpy.float32), dumps, pickle.loads
        from safetensors import numpy as tensors
        yield "safetensors", lambda n: numpy.full(n, 0.5, numpy.float32), tensors.save, tensors.load
    except ImportError:
        pass
    try:
        import torch
        yield "Pickle, PyTorch", lambda n: torch.full((n,), 0.5), dumps, pickle.loads
    except ImportError:
        pass


def main():
    sets, turns, messages = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    found = []
    for system, make, save, load in codecs():
        for name, sizes in sets.items():
            data = {"table%d" % i: make(size // 4) for i, size in enumerate(sizes)}
            text = save(data)
            found.append([system, "serialise", name, times(lambda: save(data), sum(sizes), turns)])
            found.append([system, "deserialise", name, times(lambda: load(text), sum(sizes), turns)])
    data = {"table%d" % i: array.array("f", [0.5] * (size // 4)) for i, size in enumerate(next(iter(sets.values())))}
    puts, gets = [], []
    for _ in range(turns):
        queue = multiprocessing.Queue()
        puts.append(mean(lambda: queue.put(data), messages))
        gets.append(mean(queue.get, messages))
        queue.close()
        queue.join_thread()
    found.append(["multiprocessing queue", "put", "", puts])
    found.append(["multiprocessing queue", "get", "", gets])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
