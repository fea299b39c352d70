#!/usr/bin/env python3
"""Makes golden runs with PyTorch: python3 golden.py TO SEED...

Each seed gives a folder TO/KIND-SEED as train/testdata/golden/README.md describes it: kind of model, update rules, tables,
widths and data are drawn from the seed. The models are the modules of examples/python/models.py, trained here step by step, with
update rules of embedding rows that are written out below. `go test ./train -run TestGolden -golden TO` trains the same with ecrec.
With --float64 PyTorch computes in float64: the difference is what rounding makes of a run.

Rounding decides some things, and no two programs agree on them. So a run in which a unit comes near 0, where ReLU has a kink, is
drawn again, and one that diverges. Models with batch norm are not trained by a rule that divides gradients by their size, since the gradients of biases
before a norm, and of constants, are 0 but for rounding.
"""

import argparse
import copy
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))
import models  # noqa: E402
import score  # noqa: E402

KINDS = ["dlrm", "wdl", "dcn", "deepfm", "dlrm-numberless", "dlrm-sum", "dlrm-cat-numberless", "dcn-bags", "dlrm-numberless-bags", "deepfm-bags", "wdl-linear",
         "dcn-parallel-normed"]
RULES = ["sgd", "momentum", "adagrad", "rowwise_adagrad", "adam"]
RATES = {"sgd": 0.1, "momentum": 0.02, "adagrad": 0.02, "rowwise_adagrad": 0.02, "adam": 0.003}
ROWS = ("emb_l.", "linear_l.")  # the tensors of rows
EVAL = 1500  # samples
KINK = 6e-7  # of the mean size of a layer's outputs


class Rule:
    """An update rule of some tensors. Those that are rows are updated where the batch has their ids."""

    def __init__(self, kind, lr, tensors):
        self.kind, self.lr = kind, lr
        self.states = [(w, torch.zeros_like(w), torch.zeros_like(w)) for w in tensors]

    def step(self, n, touched):
        for w, a, b in self.states:
            rows = touched.get(w, slice(None))
            g, lr = w.grad[rows], self.lr
            with torch.no_grad():
                if self.kind == "momentum":
                    a[rows] = g = 0.9 * a[rows] + g
                elif self.kind == "adam":
                    a[rows] = 0.9 * a[rows] + 0.1 * g
                    b[rows] = 0.999 * b[rows] + 0.001 * g * g
                    g = a[rows] / (1 - 0.9**n) / ((b[rows] / (1 - 0.999**n)).sqrt() + 1e-8)
                elif self.kind != "sgd":
                    square = g * g
                    a[rows] += square if self.kind == "adagrad" else square.mean(dim=1, keepdim=True)
                    g = g / (a[rows].sqrt() + 1e-10)
                w[rows] -= lr * g
            w.grad = None


class Data:
    """Random samples, as files for ecrec and as tensors. Some ids are larger than their table, some numbers negative."""

    def __init__(self, r, m, samples):
        self.r, self.m, self.bags = r, m, m.get("bags", [])
        fields = models.features(m)
        self.numbers = r.integers(-3, 60, (samples, m["dense"])) ** r.integers(1, 3, (1, m["dense"]))
        self.ids = [[self.draw(m["tables"][t], f in self.bags) for _ in range(samples)] for f, t in enumerate(fields)]
        logit = sum((np.array([sum(bag) for bag in ids]) % 7 - 3) * w for ids, w in zip(self.ids, r.normal(0, 0.2, len(fields))))
        if m["dense"]:
            logit = logit + self.dense().astype(np.float64) @ r.normal(0, 0.2, m["dense"])
        self.labels = (r.random(samples) < 1 / (1 + np.exp(-logit + logit.mean()))).astype(np.int32)

    def draw(self, rows, bag):
        """The ids of a field: one, or of a bag up to four, some of them twice."""
        n = self.r.integers(0, 5) if bag else 1
        return [int(rows * self.r.random() ** 3 * self.r.choice([1, 1, 1, 3])) for _ in range(n)]

    def dense(self):
        return np.log1p(np.maximum(self.numbers, 0)).astype(np.float32)

    def tensors(self, binary):
        """Dense features, rows of the tables and labels."""
        columns = []
        for f, t in enumerate(models.features(self.m)):
            rows = self.m["tables"][t]
            find = (lambda id: id % rows) if binary else score.row_finder({"ids": "xxh3-64", "rows": rows})
            columns.append([[find(id if binary else str(id)) for id in bag] for bag in self.ids[f]])
        if not self.bags:
            return torch.tensor(self.dense()), torch.tensor(columns).squeeze(2).T, torch.tensor(self.labels)
        padded = [score.pad([(bag, [1.0] * len(bag)) for bag in column]) for column in columns]
        return torch.tensor(self.dense()), [tuple(map(torch.tensor, pair)) for pair in padded], torch.tensor(self.labels)

    def write(self, path, first, end):
        """Samples first to end-1, as criteo-bin or as CSV."""
        if path.suffix == ".bin":
            np.column_stack([self.labels, self.numbers, np.array(self.ids).squeeze(2).T]).astype("<i4")[first:end].tofile(path)
            return
        header = ["label", *(f"d{i}" for i in range(self.m["dense"])), *(f"c{f}" for f in range(len(self.ids)))]
        lines = [[self.labels[i], *self.numbers[i], *("|".join(map(str, ids[i])) for ids in self.ids)] for i in range(first, end)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in [header, *lines]))


def draw_model(r, kind):
    """The config of a model, as model files have it."""
    words = kind.split("-")
    numberless, bags, d = "numberless" in words, "bags" in words, int(r.choice([4, 6, 8, 12, 16, 24, 33]))
    binary = not numberless and not bags
    n = 26 if binary else int(r.integers(3, 15))
    widths = lambda low, high: [int(w) for w in r.integers(5, 65, r.integers(low, high))]  # noqa: E731
    m = {"kind": words[0], "embedding_dim": d, "dense": 13 if binary else 0 if numberless else int(r.integers(1, 8)),
         "tables": [int(rows) for rows in np.exp(r.uniform(0, np.log(3000), n))], "top_mlp": [*widths(1, 4), 1], "batch_norm": "normed" in words}
    if words[0] != "deepfm":
        m["bottom_mlp"] = [] if numberless else [*widths(0, 3), d]
    if words[0] == "dcn":
        m |= {"cross_layers": int(r.integers(1, 4)), "cross": "low-rank", "cross_rank": int(r.integers(1, 9)), "structure": "stacked"}
    if words[0] == "deepfm":
        m |= {"batch_norm": bool(r.integers(2)), "dense_embedding": m["dense"] > 0 and bags}
    if bags:
        m |= {"bags": [f for f in range(n) if f % 2 == 0], "pooling": [str(r.choice(["sum", "mean"])) for _ in range(n)]}
    if "linear" in words:
        m |= {"linear": True, "bottom_mlp": []}
    if "parallel" in words:
        m |= {"structure": "parallel", "cross": "full"}
    if m["batch_norm"]:
        m["tables"] = [max(2, rows) for rows in m["tables"]]
    for form in "sum", "cat":
        if form in words:
            m["interaction"] = form
    return m


def draw_weights(r, module, m):
    for name, w in module.named_parameters():
        low = min(0.2, 1 / np.sqrt(w.shape[0]))
        if not name.startswith((*ROWS, "emb_dense")):
            low = np.sqrt(6 / sum(w.shape)) if w.dim() == 2 else 0.1
        values = r.uniform(-low, low, tuple(w.shape)).astype(np.float32)
        w.data = torch.tensor(values + 1 if "bn." in name and name.endswith("weight") else values)


class Kinks:
    """Whether a unit came near 0."""

    def __init__(self, module):
        self.near = False
        for layer in module.modules():
            if isinstance(layer, (torch.nn.Linear, torch.nn.BatchNorm1d)):
                layer.register_forward_hook(self.look)

    def look(self, layer, inputs, outputs):
        sizes = outputs.detach().abs()
        error = KINK * sizes.mean(dim=0)
        if isinstance(layer, torch.nn.BatchNorm1d):
            error *= 1 + inputs[0].detach().abs().mean(dim=0) / inputs[0].detach().std(dim=0)
        self.near |= outputs.shape[1] > 1 and (sizes < error).any().item()


def batch(data, first, end):
    dense, ids, labels = data
    part = ids[first:end] if isinstance(ids, torch.Tensor) else [(a[first:end], b[first:end]) for a, b in ids]
    return dense[first:end], part, labels[first:end]


def double(data):
    """The samples in float64."""
    dense, ids, labels = data
    return dense.double(), ids if isinstance(ids, torch.Tensor) else [(a, b.double()) for a, b in ids], labels


def touched(module, m, ids):
    """The rows of a batch, by tensor."""
    found = {}
    for f, t in enumerate(models.features(m)):
        rows = ids[:, f] if isinstance(ids, torch.Tensor) else ids[f][0]
        for part in "emb_l", "linear_l":
            if hasattr(module, part):
                found.setdefault(getattr(module, part)[t].weight, []).append(rows[rows >= 0])
    return {w: torch.unique(torch.cat(rows)) for w, rows in found.items()}


def tensors(module):
    return {name: t.numpy().astype(np.float32) for name, t in module.state_dict().items() if not name.endswith("num_batches_tracked")}


class Run:
    """A run that is drawn from a seed."""

    def __init__(self, seed):
        r = np.random.default_rng(seed)
        self.seed, self.kind = seed, KINDS[(seed - 1) % len(KINDS)]
        self.m = m = draw_model(r, self.kind)
        self.binary = m["dense"] == 13
        self.size, self.steps = int(r.integers(16, 200)), int(r.integers(10, 31))
        self.sparse = str(r.choice(RULES))
        self.dense = str(r.choice(["sgd", "momentum"] if m["batch_norm"] else [rule for rule in RULES if rule != "rowwise_adagrad"]))
        self.drawn = Data(r, m, self.size * self.steps + EVAL)
        self.data = self.drawn.tensors(self.binary)
        for _ in range(100):
            self.module = models.KINDS[m["kind"]](m)
            draw_weights(r, self.module, m)
            trial = copy.deepcopy(self.module)
            kinks = Kinks(trial)
            losses = self.train(trial, self.data)
            if not kinks.near and losses[-1] < 2 * losses[0]:
                return
        sys.exit(f"seed {seed}: no run of 100 stays away from rounding; use another seed")

    def rate(self, rule):
        """The learning rate of a rule. The squares in deepfm diverge sooner."""
        return RATES[rule] / (10 if self.m["kind"] == "deepfm" else 1)

    def train(self, module, data, steps=None):
        """Trains, and returns the losses of steps before their updates."""
        rows = [w for name, w in module.named_parameters() if name.startswith(ROWS)]
        others = [w for name, w in module.named_parameters() if not name.startswith(ROWS)]
        rules, losses = [Rule(self.dense, self.rate(self.dense), others), Rule(self.sparse, self.rate(self.sparse), rows)], []
        module.train()
        for n in range(1, (self.steps if steps is None else steps) + 1):
            x, ids, labels = batch(data, (n - 1) * self.size, n * self.size)
            logits = module(x, ids)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
            loss.backward()
            losses.append(loss.item())
            for rule in rules:
                rule.step(n, touched(module, self.m, ids))
        return losses

    def write(self, to, float64):
        folder, m = to / f"{self.kind}-{self.seed}", self.m
        folder.mkdir(parents=True, exist_ok=True)
        ending, samples = "bin" if self.binary else "csv", self.size * self.steps
        self.drawn.write(folder / f"train.{ending}", 0, samples)
        self.drawn.write(folder / f"eval.{ending}", samples, samples + EVAL)
        (folder / "config.toml").write_text(self.config())
        save_file(tensors(self.module), folder / "init.safetensors")
        module, data = (self.module.double(), double(self.data)) if float64 else (self.module, self.data)
        losses = self.train(module, data)
        x, ids, labels = batch(data, samples, samples + EVAL)
        with torch.no_grad():
            logits = module.eval()(x, ids)
        save_file(tensors(module), folder / "final.safetensors")
        expected = {"train_loss": losses, "eval_logloss": torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype)).item(),
                    "eval_auc": float(roc_auc_score(labels, logits)),
                    "dense_params": sum(w.numel() for name, w in module.named_parameters() if not name.startswith(ROWS))}
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(f"{folder.name}: {json.dumps(m)}, dense {self.dense}, sparse {self.sparse}, batch {self.size}, loss {losses[0]:.5f} to {losses[-1]:.5f} in "
              f"{self.steps} steps, AUC {expected['eval_auc']:.4f}", flush=True)

    def config(self):
        """The run as an ecrec config."""
        m, ending = self.m, "bin" if self.binary else "csv"
        own = {key: value for key, value in m.items() if key not in ("dense", "bags")}
        lines = ["[job]", 'name = "golden"', f"seed = {self.seed}", "", "[data]", f'format = "{"criteo-bin" if self.binary else "csv"}"',
                 f'train = ["train.{ending}"]', f'eval = ["eval.{ending}"]', 'shuffle = "none"', ""]
        if not self.binary:
            fields = [f"c{f}" for f in range(len(models.features(m)))]
            lines += ["[data.csv]", 'label = "label"', f"dense = {json.dumps([f'd{i}' for i in range(m['dense'])])}", f"categorical = {json.dumps(fields)}"]
            if m.get("bags"):
                lines += ['separator = "|"', f"bags = {json.dumps([fields[f] for f in m['bags']])}"]
            lines.append("")
        lines += ["[model]", *(f"{key} = {json.dumps(value)}" for key, value in own.items()), 'init_from = "init.safetensors"', "", "[train]",
                  f"global_batch = {self.size}", f"iterations = {self.steps}"]
        for part, rule in ("dense", self.dense), ("sparse", self.sparse):
            lines += ["", f"[optimizer.{part}]", f'kind = "{rule}"', f"lr = {self.rate(rule)}"]
        return "".join(line + "\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes golden runs with PyTorch, from random seeds.")
    parser.add_argument("to", type=pathlib.Path)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--float64", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for seed in args.seeds:
        Run(seed).write(args.to, args.float64)
