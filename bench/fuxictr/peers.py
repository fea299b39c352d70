"""The models of the comparison, of FuxiCTR's layers. The package on PyPI holds layers, no whole models.

A peer maps dense features (b, n), float32, and ids (b, tables), int64, to probabilities (b, 1). Its tensors() are its
parameters under the names that ecrec gives them in model files, and its keys are the settings of [model].
"""

import contextlib
import sys
import types
from collections import OrderedDict

import numpy as np
import torch
from torch import nn

# The layers import the function that reads files of pretrained rows, from a package that needs Ray. No model here calls it.
for name in ("fuxictr.preprocess", "fuxictr.preprocess.tokenizer"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].load_pretrain_emb = None

from fuxictr.pytorch.layers import CrossNet, CrossNetV2, FactorizationMachine, FeatureEmbedding, InnerProductInteraction, LogisticRegression, MLP_Block  # noqa: E402


class FeatureMap:
    """What the layers read of fuxictr.features.FeatureMap: numbers d0, d1, ..., then categories c0, c1, ..."""

    def __init__(self, dense, tables):
        self.numbers = [f"d{i}" for i in range(dense)]
        self.features = OrderedDict((name, {"type": "numeric", "source": ""}) for name in self.numbers)
        self.features.update((f"c{t}", {"type": "categorical", "source": "", "vocab_size": rows}) for t, rows in enumerate(tables))
        self.num_fields, self.data_dir = len(self.features), ""


class Peer(nn.Module):
    def __init__(self, dense, tables, dim):
        super().__init__()
        self.map, self.dense, self.tables, self.dim = FeatureMap(dense, tables), dense, tables, dim
        self.keys = {"embedding_dim": dim}

    def start(self):
        """Draws the initial weights as FuxiCTR's BaseModel.reset_parameters does."""
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        for m in self.modules():
            if hasattr(m, "init_weights"):
                m.init_weights()
        return self

    def rows(self):
        """The embeddings and the linear weights of ids: the parameters that an L2 penalty of rows acts on."""
        return [m for m in self.modules() if isinstance(m, nn.Embedding)]

    def inputs(self, dense, ids, numbers=True):
        x = {f"d{i}": dense[:, i] for i in range(self.dense)} if numbers else {}
        return x | {f"c{t}": ids[:, t] for t in range(len(self.tables))}

    def categories(self):
        """The embeddings of the categories alone."""
        return FeatureEmbedding(self.map, self.dim, not_required_feature_columns=self.map.numbers)

    def tensors(self):
        """The parameters and running averages by ecrec's names."""
        return {name: np.ascontiguousarray(t.detach().numpy()) for name, t in self.named().items()}

    def load(self, tensors):
        """Sets the parameters to tensors of ecrec's names. The running averages stay."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        flat = nn.utils.parameters_to_vector(parameters).detach()
        if not hasattr(self, "places"):  # of the elements of each tensor in flat, found by way of parameters that are numbered
            nn.utils.vector_to_parameters(torch.arange(len(flat), dtype=torch.float64), parameters)
            self.places = {name: t.detach().long().flatten() for name, t in self.named().items() if "running" not in name}
        for name, places in self.places.items():
            flat[places] = torch.from_numpy(tensors[name]).flatten().to(flat.dtype)
        nn.utils.vector_to_parameters(flat, parameters)


def block(prefix, bn, mlp):
    """The tensors of an MLP_Block."""
    linears = [m for m in mlp.mlp if isinstance(m, nn.Linear)]
    norms = [m for m in mlp.mlp if isinstance(m, nn.BatchNorm1d)]
    named = {f"{prefix}.{2 * i}.{part}": getattr(m, part) for i, m in enumerate(linears) for part in ("weight", "bias")}
    return named | {f"{bn}.{i}.{part}": getattr(m, part) for i, m in enumerate(norms) for part in ("weight", "bias", "running_mean", "running_var")}


def embeddings(part, embedding, tables):
    layers = embedding.embedding_layer.embedding_layers
    return {f"{part}.{t}.weight": layers[f"c{t}"].weight for t in range(len(tables))}


def weights_of_numbers(embedding, dense):
    """The weights by which the numbers are multiplied, (dense, width)."""
    layers = embedding.embedding_layer.embedding_layers
    return torch.stack([layers[f"d{i}"].weight[:, 0] for i in range(dense)])


class DLRM(Peer):
    def __init__(self, dense, tables, dim, bottom=(64,), top=(64, 32), batch_norm=False):
        super().__init__(dense, tables, dim)
        vectors = len(tables) + 1
        self.embedding, self.interact = self.categories(), InnerProductInteraction(vectors, output="inner_product")
        self.bottom = MLP_Block(dense, list(bottom), output_dim=dim, output_activation="ReLU", batch_norm=batch_norm)
        self.top = MLP_Block(vectors * (vectors - 1) // 2 + dim, list(top), output_dim=1, batch_norm=batch_norm)
        self.keys |= {"kind": "dlrm", "bottom_mlp": [*bottom, dim], "top_mlp": [*top, 1], "batch_norm": batch_norm}

    def forward(self, dense, ids):
        bottom = self.bottom(dense)
        vectors = torch.cat([self.embedding(self.inputs(dense, ids, numbers=False)), bottom.unsqueeze(1)], dim=1)
        return torch.sigmoid(self.top(torch.cat([self.interact(vectors), bottom], dim=-1)))

    def named(self):
        top = block("top_l", "top_bn", self.top)
        top["top_l.0.weight"] = top["top_l.0.weight"][:, self.columns()]
        return embeddings("emb_l", self.embedding, self.tables) | block("bot_l", "bot_bn", self.bottom) | top

    def columns(self):
        """The column of the top MLP's input for each of ecrec's: the bottom's output, then the dots of vectors i > j, where
        vector 0 is the bottom's output. Here the dots of a < b come first, and the bottom's output is the last vector."""
        n = len(self.tables)
        place = {pair: i for i, pair in enumerate((a, b) for a in range(n + 1) for b in range(a + 1, n + 1))}
        vector = [n, *range(n)]
        dots = [place[tuple(sorted((vector[i], vector[j])))] for i in range(n + 1) for j in range(i)]
        return [*range(len(place), len(place) + self.dim), *dots]


class WideDeep(Peer):
    def __init__(self, dense, tables, dim, hidden=(64, 32), batch_norm=False):
        super().__init__(dense, tables, dim)
        self.embedding, self.linear = self.categories(), LogisticRegression(self.map, use_bias=True)
        self.mlp = MLP_Block(dense + len(tables) * dim, list(hidden), output_dim=1, batch_norm=batch_norm)
        self.keys |= {"kind": "wdl", "linear": True, "bottom_mlp": [], "top_mlp": [*hidden, 1], "batch_norm": batch_norm}

    def forward(self, dense, ids):
        x = torch.cat([dense, self.embedding(self.inputs(dense, ids, numbers=False), flatten_emb=True)], dim=1)
        return torch.sigmoid(self.linear(self.inputs(dense, ids)) + self.mlp(x))

    def named(self):
        linear = self.linear.embedding_layer
        return (embeddings("emb_l", self.embedding, self.tables) | embeddings("linear_l", linear, self.tables) | block("top_l", "top_bn", self.mlp)
                | {"linear.weight": weights_of_numbers(linear, self.dense).T, "linear.bias": self.linear.bias})


class DCN(Peer):
    """DCN, and with full its second version. The hidden layers are beside the cross layers."""

    def __init__(self, dense, tables, dim, hidden=(64, 32), layers=3, full=False, batch_norm=False):
        super().__init__(dense, tables, dim)
        width = dense + len(tables) * dim
        self.embedding, self.full = self.categories(), full
        self.cross = (CrossNetV2 if full else CrossNet)(width, layers)
        self.mlp, self.fc = MLP_Block(width, list(hidden), batch_norm=batch_norm), nn.Linear(width + hidden[-1], 1)
        self.keys |= {"kind": "dcn", "cross": "full" if full else "vector", "cross_layers": layers, "structure": "parallel", "bottom_mlp": [],
                      "top_mlp": [*hidden, 1], "batch_norm": batch_norm}

    def forward(self, dense, ids):
        x = torch.cat([dense, self.embedding(self.inputs(dense, ids, numbers=False), flatten_emb=True)], dim=1)
        return torch.sigmoid(self.fc(torch.cat([self.cross(x), self.mlp(x)], dim=-1)))

    def named(self):
        layers = self.cross.cross_layers if self.full else self.cross.cross_net
        cross = {f"cross.{i}.bias": layer.bias for i, layer in enumerate(layers)}
        cross |= {f"cross.{i}.weight": layer.weight if self.full else layer.weight.weight for i, layer in enumerate(layers)}
        return (embeddings("emb_l", self.embedding, self.tables) | block("top_l", "top_bn", self.mlp) | cross
                | {"fc.0.weight": self.fc.weight, "fc.0.bias": self.fc.bias})


class DeepFM(Peer):
    def __init__(self, dense, tables, dim, hidden=(64, 32), batch_norm=True):
        super().__init__(dense, tables, dim)
        self.embedding, self.fm = FeatureEmbedding(self.map, dim), FactorizationMachine(self.map)
        self.mlp = MLP_Block(self.map.num_fields * dim, list(hidden), output_dim=1, batch_norm=batch_norm)
        self.keys |= {"kind": "deepfm", "dense_embedding": True, "top_mlp": [*hidden, 1], "batch_norm": batch_norm}

    def forward(self, dense, ids):
        x = self.inputs(dense, ids)
        vectors = self.embedding(x)
        return torch.sigmoid(self.fm(x, vectors) + self.mlp(vectors.flatten(start_dim=1)))

    def named(self):
        linear = self.fm.lr_layer.embedding_layer
        return (embeddings("emb_l", self.embedding, self.tables) | embeddings("linear_l", linear, self.tables) | block("top_l", "bn", self.mlp)
                | {"emb_dense.weight": weights_of_numbers(self.embedding, self.dense), "linear.bias": self.fm.lr_layer.bias,
                   "linear_dense.weight": weights_of_numbers(linear, self.dense).T})


KINDS = {
    "dlrm": lambda **data: DLRM(**data),
    "wdl": lambda **data: WideDeep(**data, batch_norm=True),
    "dcn": lambda **data: DCN(**data),
    "dcnv2": lambda **data: DCN(**data, full=True, batch_norm=True),
    "deepfm": lambda **data: DeepFM(**data),
}


def train(peer, data, order, rule, lr, l2=0.0):
    """Trains on the batches of order, lists of samples, and returns their losses before each update. rule "dense" is Adam
    over all parameters, which FuxiCTR takes; "touched" is SparseAdam for the rows that a batch uses."""
    rows = [m.weight for m in peer.rows()]
    others = [p for p in peer.parameters() if p.requires_grad and not any(p is r for r in rows)]
    for m in peer.rows():
        m.sparse = rule == "touched"
    optimizers = [torch.optim.Adam(others if rule == "touched" else [*rows, *others], lr=lr)]
    if rule == "touched":
        optimizers.append(torch.optim.SparseAdam(rows, lr=lr))
        sparse = optimizers[1].param_groups[0]
        betas, eps = sparse["betas"], sparse["eps"]
    peer.train()
    losses = []
    for step, batch in enumerate(order, 1):
        label = data.label[batch]
        loss = nn.functional.binary_cross_entropy(peer(data.dense[batch], data.ids[batch]), label)
        total = loss
        if l2:  # FuxiCTR's embedding_regularizer
            total = loss + sum(l2 / 2 * torch.norm(w, 2) ** 2 for w in rows)
        for o in optimizers:
            o.zero_grad()
        total.backward()
        if rule == "touched":  # SparseAdam adds eps to the root before its bias correction, Adam after it, as ecrec does for both
            sparse["eps"] = eps * (1 - betas[1] ** step) ** 0.5
        for o in optimizers:
            o.step()
        losses.append(loss.item())
    return losses


@contextlib.contextmanager
def float64():
    """Within it the layers compute in float64 on parameters and samples of float64: FuxiCTR's own cast of numbers to float32 does nothing."""
    cast = torch.Tensor.float
    torch.Tensor.float = lambda t: t.double()
    try:
        yield
    finally:
        torch.Tensor.float = cast


def perturb(peer, seed, by):
    """Changes each parameter by a share of up to by, at random. Seed 0 leaves it as it is."""
    if seed:
        g = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in (p for p in peer.parameters() if p.requires_grad):
                p *= 1 + by * (2 * torch.rand(p.shape, generator=g, dtype=torch.float64) - 1)
    return peer


class Gate(nn.Module):
    """A ReLU. If open is set, it opens for those elements of its input and no others."""

    open = None

    def forward(self, x):
        self.x = x.detach()
        return x * ((x > 0) if self.open is None else self.open)


def gates(module):
    """Replaces the ReLUs of a module by Gates, and returns these."""
    found = []
    for name, child in module.named_children():
        if isinstance(child, nn.ReLU):
            setattr(module, name, Gate())
        found += [getattr(module, name)] if isinstance(child, nn.ReLU) else gates(child)
    return found


def record(peer, order, opened):
    """The batches of order for train. Adds to opened, for each step, the elements for which each ReLU of the peer opens."""
    layers = gates(peer)
    for batch in order:
        yield batch
        opened.append([gate.x > 0 for gate in layers])


def steer(peer, order, opened, inputs):
    """The batches of order for train. The peer's ReLUs open as opened has it for each step and layer. Adds to inputs the sizes of those
    for which they would not."""
    layers = gates(peer)
    for step, batch in enumerate(order):
        for gate, elements in zip(layers, opened[step]):
            gate.open = elements
        yield batch
        for gate in layers:
            inputs.extend(gate.x[gate.open != (gate.x > 0)].abs().tolist())


def score(peer, data):
    """The probabilities of all samples, with running averages in batch norms."""
    peer.eval()
    with torch.no_grad():
        return torch.cat([peer(data.dense[i:i + 8192], data.ids[i:i + 8192]) for i in range(0, len(data.label), 8192)])[:, 0].numpy()
