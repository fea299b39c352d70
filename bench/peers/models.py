"""The models of `ecrec bench train` in PyTorch, and batches for them.

A model is an embedding part, which engines.py provides, and a Dense part: of the dense features
(B, 13) and one vector per feature (B, 26, D) it makes logits (B). With `linear` the ids have a
linear weight besides, (B, 26).
"""

import numpy as np
import torch
from torch import nn

KAGGLE = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4,
          7046547, 18, 15, 286181, 105, 142572]
TERABYTE = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976, 14,
            39979771, 25641295, 39664984, 585935, 12972, 108, 36]
ONE_ID = [1] * 26
MULTI_HOT = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]  # MLPerf's DLRM-DCNv2
DENSE = 13

# As in bench/shape.go. deepfm reads no dense features; wdl and deepfm have linear weights of ids.
MODELS = {
    "dim16": dict(kind="dlrm", dim=16, bottom=[512, 256, 64, 16], top=[512, 256, 1], rows=KAGGLE, hots=ONE_ID),
    "dim48": dict(kind="dlrm", dim=48, bottom=[512, 256, 64, 48], top=[1024, 1024, 1024, 256, 128, 1], rows=KAGGLE, hots=ONE_ID),
    "deepfm": dict(kind="deepfm", dim=16, bottom=[], top=[400, 400, 400, 1], rows=KAGGLE, hots=ONE_ID),
    "wdl": dict(kind="wdl", dim=16, bottom=[], top=[256, 128, 1], rows=KAGGLE, hots=ONE_ID),
    "dcnv2": dict(kind="dcnv2", dim=128, bottom=[512, 256, 128], top=[1024, 1024, 512, 256, 1],
                  rows=[min(r, 2_400_000) for r in TERABYTE], hots=MULTI_HOT, cross=3, rank=512),
}


def has_linear(model):
    return model["kind"] in ("deepfm", "wdl")


class OneDnnProducts(torch.autograd.Function):
    """A linear layer whose products are oneDNN's: on AMD they use AVX-512 where MKL's do not."""

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], "")

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        product = torch.ops.mkldnn._linear_pointwise
        dx = product(dy, w.t().contiguous(), None, "none", [], "") if ctx.needs_input_grad[0] else None
        if x.shape[1] > 16:
            return dx, product(dy.t().contiguous(), x.t().contiguous(), None, "none", [], ""), dy.sum(0)
        return dx, dy.t().mm(x), dy.sum(0)


class Linear(nn.Linear):
    onednn = False

    def forward(self, x):
        if Linear.onednn and self.out_features > 1 and self.bias is not None:
            return OneDnnProducts.apply(x, self.weight, self.bias)
        return super().forward(x)


def mlp(width, widths, ends_in_relu):
    layers = []
    for i, out in enumerate(widths):
        layers.append(Linear(width, out))
        if ends_in_relu or i < len(widths) - 1:
            layers.append(nn.ReLU(inplace=True))
        width = out
    return nn.Sequential(*layers)


class Dots(torch.autograd.Function):
    """The pairwise dot products of DLRM. The backward pass is a copy and a product, no scattered sum."""

    @staticmethod
    def forward(ctx, vectors, pairs):
        ctx.save_for_backward(vectors, pairs)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, pairs)

    @staticmethod
    def backward(ctx, dout):
        vectors, pairs = ctx.saved_tensors
        b, n, _ = vectors.shape
        grid = dout.new_zeros(b, n * n).index_copy_(1, pairs, dout).view(b, n, n)
        return torch.baddbmm(torch.bmm(grid, vectors), grid.transpose(1, 2), vectors), None


class Dense(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.kind, d, t = model["kind"], model["dim"], len(model["rows"])
        if model["bottom"]:
            self.bottom = mlp(DENSE, model["bottom"], True)
        if self.kind == "dlrm":
            n = t + 1
            i, j = torch.tril_indices(n, n, -1)
            self.register_buffer("pairs", i * n + j)
            width = d + n * (n - 1) // 2
        elif self.kind == "dcnv2":
            width = d * (t + 1)
            self.v = nn.ModuleList([nn.Linear(width, model["rank"], bias=False) for _ in range(model["cross"])])
            self.w = nn.ModuleList([Linear(model["rank"], width) for _ in range(model["cross"])])
        elif self.kind == "wdl":
            width = DENSE + d * t
            self.wide = nn.Linear(DENSE, 1)
        else:
            width = d * t
            self.bias = nn.Parameter(torch.zeros(1))
        self.top = mlp(width, model["top"], False)

    def forward(self, dense, vectors, linear=None):
        flat = vectors.flatten(1)
        if self.kind == "dlrm":
            x = self.bottom(dense)
            dots = Dots.apply(torch.cat([x.unsqueeze(1), vectors], dim=1), self.pairs)
            return self.top(torch.cat([x, dots], dim=1)).squeeze(1)
        if self.kind == "dcnv2":
            x = x0 = torch.cat([self.bottom(dense), flat], dim=1)
            for v, w in zip(self.v, self.w):
                x = x0 * w(v(x)) + x
            return self.top(x).squeeze(1)
        if self.kind == "wdl":
            return self.top(torch.cat([dense, flat], dim=1)).squeeze(1) + self.wide(dense).squeeze(1) + linear.sum(1)
        total = vectors.sum(1)
        pairs = 0.5 * (total * total - (vectors * vectors).sum(1)).sum(1)
        return self.top(flat).squeeze(1) + pairs + linear.sum(1) + self.bias


def flops_per_sample(model):
    """Products of the forward and the backward pass; a multiply-add counts as two."""
    d, t = model["dim"], len(model["rows"])
    n = t + 1
    top_in = {"dlrm": d + n * (n - 1) // 2, "dcnv2": d * n, "wdl": DENSE + d * t, "deepfm": d * t}[model["kind"]]
    flops = 0
    for is_top, width, widths in ((False, DENSE, model["bottom"]), (True, top_in, model["top"])):
        for i, out in enumerate(widths):
            flops += 2 * width * out * (3 if is_top or i > 0 else 2)
            width = out
    if model["kind"] == "dcnv2":
        flops += model["cross"] * 3 * 2 * 2 * model["rank"] * d * n
    return flops


def draw_ids(rng, rows, shape, skew):
    """Ids with P(rank k) ~ (k+1)^-skew, by the inverse of the continuous law. Frequent ids are scattered over the table."""
    u = rng.random(shape)
    k = np.floor((1 + u * ((rows + 1.0) ** (1 - skew) - 1)) ** (1 / (1 - skew)) - 1)
    k = np.clip(k, 0, rows - 1).astype(np.int64)
    return (k * 2654435761 + 12345) % rows


def make_batches(model, batch, ids, count, skew):
    """Batches in the forms that the engines take, made before anything is timed.

    ids names a file of `ecrec data synth`, whose ids both sides then train; bags of several ids are drawn.
    """
    rng, rows, hots = np.random.default_rng(1), model["rows"], model["hots"]
    raw = np.memmap(ids, dtype=np.int32, mode="r").reshape(-1, 1 + DENSE + len(rows))
    for n in range(count):
        part = np.array(raw[(n * batch) % (len(raw) - batch + 1):][:batch])
        columns = [part[:, 1 + DENSE + t].astype(np.int64)[:, None] % r for t, r in enumerate(rows)]
        if sum(hots) > len(rows):
            columns = [draw_ids(rng, r, (batch, h), skew) for r, h in zip(rows, hots)]
        lengths = np.repeat(hots, batch)
        yield {
            "label": torch.from_numpy(part[:, 0].astype(np.float32)),
            "dense": torch.from_numpy(np.log1p(np.maximum(part[:, 1:1 + DENSE], 0)).astype(np.float32)),
            "ids": torch.from_numpy(np.concatenate([c.reshape(-1) for c in columns])),  # by feature
            "lengths": torch.from_numpy(lengths.astype(np.int64)),
            "offsets": torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)),
            "per_table": [(torch.from_numpy(c.reshape(-1).copy()), torch.arange(0, c.size, c.shape[1])) for c in columns],
        }
