"""Measures TorchRec's exchange of pooled vectors, for the benchmark `torchrec`.

Each process is a rank, over gloo on this machine. TorchRec's planner places each table at one rank. A step looks up vectors and
exchanges them, and exchanges and applies gradients; there are no layers. The last process to write is rank 0: one line of JSON with
the seconds of each timed step, and by kind the bytes that all ranks send to others in a step, counted at torch.distributed."""

import argparse
import ctypes
import datetime
import json
import multiprocessing
import os
import signal
import sys
import time


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ids", required=True, help="a file of int32: by step, sample and table")
    p.add_argument("--tables", required=True, help="the rows of each table, in JSON")
    p.add_argument("--dim", type=int, required=True)
    p.add_argument("--batch", type=int, required=True, help="samples of a step, over all ranks")
    p.add_argument("--ranks", type=int, required=True)
    p.add_argument("--warmup", type=int, required=True, help="steps that are not timed")
    p.add_argument("--dir", required=True, help="where the ranks meet")
    return p.parse_args()


def count_sent(dist, rank, ranks):
    """Replaces all_to_all_single by one that counts the bytes for other ranks, by kind. Returns the counts."""
    sent = {"vectors": 0, "ids": 0}
    original = dist.all_to_all_single

    def counting(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
        own = 1 / ranks
        if input_split_sizes:
            own = input_split_sizes[rank] / max(1, sum(input_split_sizes))
        kind = "vectors" if input.is_floating_point() else "ids"
        sent[kind] += round(input.numel() * input.element_size() * (1 - own))
        return original(output, input, output_split_sizes, input_split_sizes, group, async_op)

    dist.all_to_all_single = counting
    return sent


def make_model(a, dist):
    import torch
    import torchrec
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
    from torchrec.distributed.types import ShardingEnv

    class Lookups(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.collection = torchrec.EmbeddingBagCollection(device=torch.device("meta"), tables=[
                torchrec.EmbeddingBagConfig(name=f"t{i}", embedding_dim=a.dim, num_embeddings=rows, feature_names=[f"f{i}"])
                for i, rows in enumerate(json.loads(a.tables))])

        def forward(self, ids):
            return self.collection(ids).values()

    net = Lookups()
    sharder = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.1})
    whole = {f"t{i}": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"]) for i in range(len(json.loads(a.tables)))}
    topology = Topology(world_size=a.ranks, local_world_size=a.ranks, compute_device="cpu", ddr_cap=64 << 30)
    plan = EmbeddingShardingPlanner(topology=topology, constraints=whole).collective_plan(net, [sharder], dist.group.WORLD)
    return DistributedModelParallel(net, env=ShardingEnv.from_process_group(dist.group.WORLD), device=torch.device("cpu"), plan=plan,
                                    sharders=[sharder], init_data_parallel=False)


def run_rank(a, rank):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the first process
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(a.ranks), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(a.ranks), OMP_NUM_THREADS="1",
                      GLOO_SOCKET_IFNAME="lo")
    import numpy
    import torch
    import torch.distributed as dist
    import torchrec
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.join(a.dir, "meet"), rank=rank, world_size=a.ranks,
                            timeout=datetime.timedelta(seconds=120))
    sent = count_sent(dist, rank, a.ranks)
    tables = len(json.loads(a.tables))
    names = [f"f{i}" for i in range(tables)]
    net = make_model(a, dist)
    steps = numpy.fromfile(a.ids, dtype=numpy.int32).reshape(-1, a.batch, tables)
    begin, end = rank * a.batch // a.ranks, (rank + 1) * a.batch // a.ranks
    grad, lengths, seconds = torch.full((end - begin, tables * a.dim), 1e-3), torch.ones(tables * (end - begin), dtype=torch.int32), []
    for number, ids in enumerate(steps):
        values = torch.from_numpy(numpy.ascontiguousarray(ids[begin:end].T).reshape(-1))
        keyed = torchrec.KeyedJaggedTensor(keys=names, values=values, lengths=lengths)
        if number == a.warmup:
            sent["vectors"] = sent["ids"] = 0
        began = time.perf_counter()
        net(keyed).backward(grad)
        if number >= a.warmup:
            seconds.append(time.perf_counter() - began)
    all_sent = torch.tensor([sent["vectors"], sent["ids"]], dtype=torch.int64)
    dist.all_reduce(all_sent)
    if rank == 0:
        vectors, ids = (all_sent / len(seconds)).tolist()
        print(json.dumps({"seconds": seconds, "vectors": vectors, "ids": ids}), flush=True)
    dist.destroy_process_group()


def main():
    a = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    start = multiprocessing.get_context("spawn")
    ranks = [start.Process(target=run_rank, args=(a, rank), daemon=True) for rank in range(a.ranks)]
    for p in ranks:
        p.start()
    while any(p.is_alive() for p in ranks):
        if any(p.exitcode for p in ranks):
            sys.exit(1)
        time.sleep(0.05)
    sys.exit(any(p.exitcode for p in ranks))


if __name__ == "__main__":
    main()
