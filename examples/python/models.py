"""The models of ecrec as PyTorch modules. load("model.safetensors") returns one with the weights of the file.

A module maps dense features (b, n), float32, and ids (b, features), int64, to logits (b). If features have
several ids, ids is a list with a pair for each feature: ids (b, n), int64, -1 where there is none, and weights
(b, n), float32. The names of its parameters are those of the file, so load_state_dict(strict=True) takes them as
they are. score.py makes dense features and ids of rows.
"""

import json

import torch
from safetensors import safe_open
from torch import nn


def mlp(widths, last):
    """Linear layers with ReLU between them and, if last, after them: parameters 0, 2, 4 and so on."""
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if last else layers[:-1]))


def norms(m, widths):
    """Batch norms of hidden layers with these outputs, if the model has them."""
    return nn.ModuleList(nn.BatchNorm1d(n) for n in (widths if m.get("batch_norm") else []))


def run(layers, bn, m, x, all_hidden=False):
    """The MLP layers, with batch norm before ReLU, and dropout after it, in the hidden layers: all but the last, or all."""
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for i, linear in enumerate(linears):
        x, hidden = linear(x), all_hidden or i < len(linears) - 1
        if hidden and i < len(bn):
            x = bn[i](x)
        if hidden or isinstance(layers[-1], nn.ReLU):
            x = torch.relu(x)
        if hidden and layers.training:
            x = nn.functional.dropout(x, m.get("dropout", 0.0))
    return x


def embeddings(rows, width):
    return nn.ModuleList(nn.Embedding(n, width) for n in rows)


def features(m):
    """The table of each feature."""
    return m.get("table_of", list(range(len(m["tables"]))))


def pool(table, ids, weights, mean):
    """The sums of the rows of bags, or their means, (b, width). An empty bag gives zeros."""
    present = ids >= 0
    sums = torch.einsum("bn,bnd->bd", weights * present, table(ids.clamp(min=0)))
    return sums / present.sum(dim=1, keepdim=True).clamp(min=1) if mean else sums


def gather(m, tables, ids):
    """The rows of each sample, (b, features, width): that of its id, or the sum or mean of those of its bag."""
    own = [tables[t] for t in features(m)]
    if isinstance(ids, torch.Tensor):
        return torch.stack([table(ids[:, f]) for f, table in enumerate(own)], dim=1)
    pooling = m.get("pooling", ["sum"] * len(own))
    return torch.stack([pool(table, *ids[f], pooling[f] == "mean") for f, table in enumerate(own)], dim=1)


class Model(nn.Module):
    """What all kinds have: embeddings, a top MLP over some width and, except deepfm, a bottom MLP."""

    def __init__(self, m, width, bottom_relu=None):
        super().__init__()
        self.m = m
        self.emb_l = embeddings(m["tables"], m["embedding_dim"])
        self.top_l = mlp([width, *m["top_mlp"]], last=False)
        if bottom_relu is not None:
            self.bot_l = mlp([m["dense"], *m["bottom_mlp"]], last=bottom_relu)
            self.bot_bn, self.top_bn = norms(m, m["bottom_mlp"][:-1]), norms(m, m["top_mlp"][:-1])

    def bottom(self, dense):
        return run(self.bot_l, self.bot_bn, self.m, dense) if len(self.bot_l) else dense

    def top(self, x):
        return run(self.top_l, self.top_bn, self.m, x)


def width_of_bottom(m):
    return m["bottom_mlp"][-1] if m["bottom_mlp"] else m["dense"]


class DLRM(Model):
    def __init__(self, m):
        vectors, form = len(features(m)) + (m["dense"] > 0), m.get("interaction", "dot")
        width = {"dot": vectors * (vectors - 1) // 2, "cat": len(features(m)) * m["embedding_dim"], "sum": m["embedding_dim"]}
        super().__init__(m, width_of_bottom(m) + width[form], bottom_relu=True)

    def forward(self, dense, ids):
        x, rows, form = self.bottom(dense), gather(self.m, self.emb_l, ids), self.m.get("interaction", "dot")
        if form == "sum":
            rest = rows.sum(dim=1)
        elif form == "cat":
            rest = rows.flatten(1)
        else:
            vectors = torch.cat([x[:, None], rows], dim=1) if self.m["dense"] else rows
            above, below = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
            rest = (vectors @ vectors.transpose(1, 2))[:, above, below]
        return self.top(torch.cat([x, rest], dim=1))[:, 0]


class WDL(Model):
    def __init__(self, m):
        super().__init__(m, width_of_bottom(m) + len(features(m)) * m["embedding_dim"], bottom_relu=False)
        if m.get("linear"):
            self.linear = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(1))})
            if m["dense"]:
                self.linear["weight"] = nn.Parameter(torch.zeros(1, m["dense"]))
            self.linear_l = embeddings(m["tables"], 1)

    def forward(self, dense, ids):
        logits = self.top(torch.cat([self.bottom(dense), gather(self.m, self.emb_l, ids).flatten(1)], dim=1))
        if self.m.get("linear"):
            logits = logits + gather(self.m, self.linear_l, ids).sum(dim=1) + self.linear["bias"]
            if "weight" in self.linear:
                logits = logits + dense @ self.linear["weight"].T
        return logits[:, 0]


class Cross(nn.Module):
    """A cross layer over x0 and x, of n numbers each."""

    def __init__(self, m, n):
        super().__init__()
        form = m.get("cross", "low-rank")
        if form == "low-rank":
            self.w, self.v = nn.Parameter(torch.zeros(n, m["cross_rank"])), nn.Parameter(torch.zeros(m["cross_rank"], n))
        else:
            self.weight = nn.Parameter(torch.zeros(1 if form == "vector" else n, n))
        self.bias, self.form = nn.Parameter(torch.zeros(n)), form

    def forward(self, x0, x):
        if self.form == "vector":
            return x0 * (x @ self.weight.T) + self.bias + x
        y = x @ self.v.T @ self.w.T if self.form == "low-rank" else x @ self.weight.T
        return x0 * (y + self.bias) + x


class DCN(Model):
    def __init__(self, m):
        n = width_of_bottom(m) + len(features(m)) * m["embedding_dim"]
        super().__init__(m, n, bottom_relu=True)
        self.cross = nn.ModuleList(Cross(m, n) for _ in range(m["cross_layers"]))
        if m.get("structure") == "parallel":
            hidden = m["top_mlp"][:-1]
            self.top_l, self.fc = mlp([n, *hidden], last=True), mlp([n + hidden[-1], m["top_mlp"][-1]], last=False)

    def forward(self, dense, ids):
        x0 = x = torch.cat([self.bottom(dense), gather(self.m, self.emb_l, ids).flatten(1)], dim=1)
        for layer in self.cross:
            x = layer(x0, x)
        if self.m.get("structure") == "parallel":
            return self.fc(torch.cat([x, run(self.top_l, self.top_bn, self.m, x0, all_hidden=True)], dim=1))[:, 0]
        return self.top(x)[:, 0]


class DeepFM(Model):
    def __init__(self, m):
        vectors = len(features(m)) + (m["dense"] if m.get("dense_embedding") else 0)
        super().__init__(m, vectors * m["embedding_dim"])
        self.linear_l, self.bn = embeddings(m["tables"], 1), norms(m, m["top_mlp"][:-1])
        self.linear = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(1))})
        if m.get("dense_embedding"):
            self.emb_dense = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(m["dense"], m["embedding_dim"]))})
            self.linear_dense = nn.Linear(m["dense"], 1, bias=False)

    def forward(self, dense, ids):
        vectors, logits = gather(self.m, self.emb_l, ids), gather(self.m, self.linear_l, ids).sum(dim=1) + self.linear["bias"]
        if self.m.get("dense_embedding"):
            vectors = torch.cat([dense[:, :, None] * self.emb_dense["weight"], vectors], dim=1)
            logits = logits + self.linear_dense(dense)
        pairs = (vectors.sum(dim=1) ** 2 - (vectors**2).sum(dim=1)).sum(dim=1, keepdim=True) / 2
        return (logits + pairs + run(self.top_l, self.bn, self.m, vectors.flatten(1)))[:, 0]


KINDS = {"dlrm": DLRM, "wdl": WDL, "dcn": DCN, "deepfm": DeepFM}


def load(path):
    """Returns the model of a file, for evaluation."""
    with safe_open(path, framework="pt") as f:
        config = json.loads(f.metadata()["ecrec.model"])
        tensors = {name: f.get_tensor(name) for name in f.keys() if name != "ecrec.data"}  # a large recipe of the data
    module = KINDS[config["kind"]](config)
    module.load_state_dict(tensors, strict=True)
    return module.eval()
