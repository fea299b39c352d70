"""Training steps on CPUs with the embeddings of PyTorch, FBGEMM and TorchRec."""

import os

import torch
from torch import nn

import models

LINEAR = 4  # FBGEMM's rows are multiples of 4 floats; the first one is the linear weight


def fill(weight, bound=0.01):
    """Small random numbers, as copies of one block: drawing billions takes long."""
    flat = weight.detach().view(-1)
    block = torch.empty(min(1 << 22, flat.numel())).uniform_(-bound, bound)
    for i in range(0, flat.numel(), len(block)):
        part = flat[i:i + len(block)]
        part.copy_(block[:len(part)])


class Bags(nn.Module):
    """An nn.EmbeddingBag with sparse gradients for each table, as in the reference DLRM."""

    def __init__(self, rows, dim, lr):
        super().__init__()
        self.bags = nn.ModuleList()
        for r in rows:
            weight = torch.empty(r, dim)
            fill(weight)
            self.bags.append(nn.EmbeddingBag(r, dim, mode="sum", sparse=True, _weight=weight))
        self.step = torch.optim.SGD(self.parameters(), lr=lr)

    def forward(self, batch):
        return torch.stack([bag(i, o) for bag, (i, o) in zip(self.bags, batch["per_table"])], dim=1)

    def update(self):
        self.step.step()
        self.step.zero_grad(set_to_none=True)


class Fbgemm(nn.Module):
    """FBGEMM's table-batched embeddings. Rows are updated in the backward pass."""

    def __init__(self, rows, dim, lr):
        super().__init__()
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
        self.tables, self.dim = len(rows), dim
        self.tbe = SplitTableBatchedEmbeddingBagsCodegen(
            [(r, dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for r in rows],
            optimizer=EmbOptimType.EXACT_SGD, learning_rate=lr, pooling_mode=PoolingMode.SUM)
        for weight in self.tbe.split_embedding_weights():
            fill(weight)

    def forward(self, batch):
        return self.tbe(batch["ids"], batch["offsets"]).view(-1, self.tables, self.dim)

    def update(self):
        pass


class Steps:
    """Steps of the Dense part over an embedding part of PyTorch or FBGEMM."""

    def __init__(self, model, engine, lr):
        part = {"bags": Bags, "fbgemm": Fbgemm}[engine]
        self.dense, self.vectors = models.Dense(model), part(model["rows"], model["dim"], lr)
        self.linear = part(model["rows"], LINEAR if engine == "fbgemm" else 1, lr) if models.has_linear(model) else None
        self.optimizer = torch.optim.SGD(self.dense.parameters(), lr=lr, fused=True)
        self.loss = nn.BCEWithLogitsLoss()

    def prepare(self, batch):
        return batch

    def run(self, batch):
        linear = self.linear(batch)[:, :, 0] if self.linear else None
        loss = self.loss(self.dense(batch["dense"], self.vectors(batch), linear), batch["label"])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.vectors.update()
        if self.linear:
            self.linear.update()
        return loss

    def close(self):
        pass


class OverCollections(nn.Module):
    """The Dense part over TorchRec's EmbeddingBagCollections."""

    def __init__(self, model, vectors, linear):
        super().__init__()
        self.vectors, self.linear, self.dense = vectors, linear, models.Dense(model)
        self.tables = len(model["rows"])

    def forward(self, dense, ids):
        linear = self.linear(ids).values().view(len(dense), self.tables, -1)[:, :, 0] if self.linear else None
        return self.dense(dense, self.vectors(ids).values().view(len(dense), self.tables, -1), linear)


class TorchRecSteps:
    """Steps of a TorchRec model under DistributedModelParallel, one process: TorchRec's own model where it has one."""

    def __init__(self, model, lr):
        import torch.distributed as dist
        import torchrec
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
        from torchrec.distributed.model_parallel import DistributedModelParallel
        from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
        from torchrec.distributed.types import ShardingEnv
        from torchrec.models.dlrm import DLRM, DLRM_DCN
        os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
        os.environ.setdefault("MASTER_PORT", "29512")
        dist.init_process_group("gloo")
        self.dist, self.torchrec = dist, torchrec
        self.names = [f"f{i}" for i in range(len(model["rows"]))]

        def collection(prefix, dim):
            return torchrec.EmbeddingBagCollection(device=torch.device("meta"), tables=[
                torchrec.EmbeddingBagConfig(name=f"{prefix}{i}", embedding_dim=dim, num_embeddings=r, feature_names=[self.names[i]])
                for i, r in enumerate(model["rows"])])

        cpu = torch.device("cpu")
        if model["kind"] == "dlrm":
            net = DLRM(collection("t", model["dim"]), models.DENSE, model["bottom"], model["top"], dense_device=cpu)
        elif model["kind"] == "dcnv2":
            net = DLRM_DCN(collection("t", model["dim"]), models.DENSE, model["bottom"], model["top"], model["cross"], model["rank"], dense_device=cpu)
        else:
            net = OverCollections(model, collection("t", model["dim"]), collection("l", LINEAR))
        sharder = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": lr})
        fused = {f"{p}{i}": ParameterConstraints(compute_kernels=["fused"]) for p in "tl" for i in range(len(model["rows"]))}
        plan = EmbeddingShardingPlanner(topology=Topology(world_size=1, compute_device="cpu", ddr_cap=64 << 30), constraints=fused).plan(net, [sharder])
        self.net = DistributedModelParallel(net, env=ShardingEnv.from_process_group(dist.group.WORLD), device=cpu, plan=plan, sharders=[sharder])
        # Rows are updated in the backward pass.
        rest = [p for n, p in self.net.named_parameters() if "embedding_bags" not in n]
        self.optimizer = torch.optim.SGD(rest, lr=lr, fused=True)
        self.loss = nn.BCEWithLogitsLoss()

    def prepare(self, batch):
        batch["kjt"] = self.torchrec.KeyedJaggedTensor(keys=self.names, values=batch["ids"], lengths=batch["lengths"])
        return batch

    def run(self, batch):
        loss = self.loss(self.net(batch["dense"], batch["kjt"]).view(-1), batch["label"])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def close(self):
        self.dist.destroy_process_group()


def make_steps(model, engine, lr):
    return TorchRecSteps(model, lr) if engine == "torchrec" else Steps(model, engine, lr)
