"""Trains and predicts in plain Python, in float64, by the formulas of docs/: another program for the same numbers.

Gradients come from reverse differentiation of the forward pass, so no formula of a derivative is written twice.
"""

import math
import random

import files
import samples


class Number:
    """A value with the derivatives by the values that it was made of."""

    __slots__ = ("value", "parents", "gradient")

    def __init__(self, value, parents=()):
        self.value, self.parents, self.gradient = value, parents, 0.0

    def __add__(self, other):
        if isinstance(other, Number):
            return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))
        return Number(self.value + other, ((self, 1.0),))

    def __mul__(self, other):
        if isinstance(other, Number):
            return Number(self.value * other.value, ((self, other.value), (other, self.value)))
        return Number(self.value * other, ((self, other),))

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other):
        return self + other * -1.0


def value_of(x):
    return x.value if isinstance(x, Number) else x


def relu(x):
    if value_of(x) > 0:
        return x
    return x * 0.0


def dot(a, b):
    if not any(isinstance(v, Number) for v in a) and not any(isinstance(v, Number) for v in b):
        return sum(x * y for x, y in zip(a, b))
    total, parents = 0.0, []
    for x, y in zip(a, b):
        vx, vy = value_of(x), value_of(y)
        total += vx * vy
        if isinstance(x, Number):
            parents.append((x, vy))
        if isinstance(y, Number):
            parents.append((y, vx))
    return Number(total, tuple(parents))


def backward(node):
    order, seen, stack = [], set(), [(node, False)]
    while stack:
        n, expanded = stack.pop()
        if expanded:
            order.append(n)
        elif id(n) not in seen:
            seen.add(id(n))
            stack.append((n, True))
            stack.extend((p, False) for p, _ in n.parents)
    node.gradient = 1.0
    for n in reversed(order):
        for parent, factor in n.parents:
            parent.gradient += n.gradient * factor


class Features:
    """The way from a row of CSV to numbers and rows of tables: transforms, and vocabularies by falling frequency."""

    def __init__(self, keys, train):
        self.dense, self.categories = keys["data.csv.dense"], keys["data.csv.categorical"]
        self.transform = keys.get("data.transform", {})
        self.stats, self.places = {}, []
        for name in self.dense:
            if self.transform.get(name) == "standard":
                known = [float(row[name]) for row in train if row[name]]
                mean = sum(known) / len(known)
                self.stats[name] = (mean, math.sqrt(sum((x - mean) ** 2 for x in known) / len(known)))
        for name in self.categories:
            counts = {}
            for row in train:
                if row[name]:
                    counts[row[name]] = counts.get(row[name], 0) + 1
            order = sorted(counts, key=lambda text: (-counts[text], text.encode()))
            self.places.append({text: i + 2 for i, text in enumerate(order)})

    def tables(self):
        return [len(p) + 2 for p in self.places]

    def of(self, row):
        numbers = []
        for name in self.dense:
            text, kind = row[name], self.transform.get(name, "log1p")
            if not text:
                numbers.append(0.0)
            elif kind == "none":
                numbers.append(float(text))
            elif kind == "standard":
                mean, deviation = self.stats[name]
                numbers.append((float(text) - mean) / deviation)
            else:
                numbers.append(math.log1p(max(float(text), 0.0)))
        ids = [0 if not row[name] else place.get(row[name], 1) for name, place in zip(self.categories, self.places)]
        return numbers, ids


def initial(keys, tables, seed):
    """Draws weights for model.init_from, under the names that docs/start.md lists: {name: (shape, values)}."""
    r = random.Random(seed)
    dim, dense = keys["model.embedding_dim"], len(keys["data.csv.dense"])
    kind, features = keys["model.kind"], len(tables)
    weights = {}

    def put(name, *shape):
        size = 1
        for n in shape:
            size *= n
        # Values that float32 holds exactly.
        weights[name] = (shape, [round(r.uniform(-0.6, 0.6) * 4096) / 4096 for _ in range(size)])

    def layers(prefix, width, outputs):
        for i, out in enumerate(outputs):
            put("%s.%d.weight" % (prefix, 2 * i), out, width)
            put("%s.%d.bias" % (prefix, 2 * i), out)
            width = out
        return width

    for t, rows in enumerate(tables):
        put("emb_l.%d.weight" % t, rows, dim)
    bottom = layers("bot_l", dense, keys["model.bottom_mlp"]) if keys.get("model.bottom_mlp") else dense
    linear = kind == "deepfm" or keys.get("model.linear")
    if linear:
        for t, rows in enumerate(tables):
            put("linear_l.%d.weight" % t, rows, 1)
        put("linear.bias", 1)
    if kind == "wdl" and linear and dense:
        put("linear.weight", 1, dense)
    width = bottom + features * dim
    if kind == "dlrm":
        vectors = features + (1 if dense else 0)
        head = bottom if dense else 0
        width = {"dot": head + vectors * (vectors - 1) // 2, "cat": head + features * dim, "sum": head + dim}[keys["model.interaction"]]
    if kind == "deepfm":
        width = features * dim
        if keys.get("model.dense_embedding"):
            put("emb_dense.weight", dense, dim)
            put("linear_dense.weight", 1, dense)
            width += dense * dim
    outputs = keys["model.top_mlp"]
    if kind == "dcn":
        for i in range(keys["model.cross_layers"]):
            if keys["model.cross"] == "low-rank":
                put("cross.%d.w" % i, width, keys["model.cross_rank"])
                put("cross.%d.v" % i, keys["model.cross_rank"], width)
            else:
                put("cross.%d.weight" % i, width if keys["model.cross"] == "full" else 1, width)
            put("cross.%d.bias" % i, width)
        if keys["model.structure"] == "parallel":
            last = layers("top_l", width, outputs[:-1])
            put("fc.0.weight", 1, width + last)
            put("fc.0.bias", 1)
            return weights
    layers("top_l", width, outputs)
    return weights


class Model:
    """A model of plain numbers, or, while it trains, of Numbers."""

    def __init__(self, keys, weights):
        self.keys = keys
        self.weights = {name: (list(shape), list(values)) for name, (shape, values) in weights.items()}

    def begin(self, track):
        self.nodes = {}
        self.track = track

    def leaf(self, name, i):
        if not self.track:
            return self.weights[name][1][i]
        found = self.nodes.get((name, i))
        if found is None:
            found = self.nodes[(name, i)] = Number(self.weights[name][1][i])
        return found

    def vector(self, name, row=0):
        shape, _ = self.weights[name]
        width = shape[-1]
        return [self.leaf(name, row * width + i) for i in range(width)]

    def layer(self, name, x):
        bias = self.vector(name + ".bias")
        return [dot(self.vector(name + ".weight", o), x) + bias[o] for o in range(len(bias))]

    def mlp(self, prefix, x, last_is_hidden):
        i = 0
        while "%s.%d.weight" % (prefix, 2 * i) in self.weights:
            x = self.layer("%s.%d" % (prefix, 2 * i), x)
            if last_is_hidden or "%s.%d.weight" % (prefix, 2 * i + 2) in self.weights:
                x = [relu(v) for v in x]
            i += 1
        return x

    def logit(self, numbers, ids):
        keys, kind = self.keys, self.keys["model.kind"]
        rows = [self.vector("emb_l.%d.weight" % t, n) for t, n in enumerate(ids)]
        x = self.mlp("bot_l", numbers, kind != "wdl")
        flat = [v for row in rows for v in row]
        if kind == "dlrm":
            vectors = ([x] if numbers else []) + rows
            top = list(x) if numbers else []
            if keys["model.interaction"] == "dot":
                top += [dot(vectors[i], vectors[j]) for i in range(len(vectors)) for j in range(i)]
            elif keys["model.interaction"] == "cat":
                top += flat
            else:
                top += [sum(column[1:], column[0]) for column in zip(*rows)]
            return self.mlp("top_l", top, False)[0]
        if kind == "wdl":
            z = self.mlp("top_l", list(x) + flat, False)[0]
            return z + self.linear(numbers, ids) if keys.get("model.linear") else z
        if kind == "deepfm":
            return self.deepfm(numbers, ids, rows, flat)
        return self.dcn(list(x) + flat)

    def linear(self, numbers, ids):
        z = self.leaf("linear.bias", 0)
        for t, n in enumerate(ids):
            z = z + self.leaf("linear_l.%d.weight" % t, n)
        if numbers and "linear.weight" in self.weights:
            z = z + dot(self.vector("linear.weight"), numbers)
        return z

    def deepfm(self, numbers, ids, rows, flat):
        z = self.linear(numbers, ids)
        vectors = list(rows)
        if self.keys.get("model.dense_embedding"):
            scaled = [[w * n for w in self.vector("emb_dense.weight", i)] for i, n in enumerate(numbers)]
            z = z + dot(self.vector("linear_dense.weight"), numbers)
            vectors = vectors + scaled
        for i in range(len(vectors)):
            for j in range(i):
                z = z + dot(vectors[i], vectors[j])
        if self.keys.get("model.dense_embedding"):
            flat = [v for row in scaled for v in row] + flat
        return z + self.mlp("top_l", flat, False)[0]

    def dcn(self, x0):
        keys, x = self.keys, x0
        for i in range(keys["model.cross_layers"]):
            name = "cross.%d" % i
            bias = self.vector(name + ".bias")
            if keys["model.cross"] == "low-rank":
                v = [dot(self.vector(name + ".v", o), x) for o in range(keys["model.cross_rank"])]
                y = [dot(self.vector(name + ".w", o), v) + bias[o] for o in range(len(x0))]
                x = [a * b + c for a, b, c in zip(x0, y, x)]
            elif keys["model.cross"] == "full":
                y = [dot(self.vector(name + ".weight", o), x) + bias[o] for o in range(len(x0))]
                x = [a * b + c for a, b, c in zip(x0, y, x)]
            else:
                s = dot(self.vector(name + ".weight"), x)
                x = [a * s + b + c for a, b, c in zip(x0, bias, x)]
        if keys["model.structure"] == "stacked":
            return self.mlp("top_l", x, False)[0]
        deep = self.mlp("top_l", x0, True)
        return self.layer("fc.0", x + deep)[0]


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def loss_of(z, y):
    return math.log1p(math.exp(-abs(z))) + max(z, 0.0) - z * y


class Optimizer:
    """The rules of docs/exactness.md, in float64."""

    def __init__(self, keys, part, kind):
        get = lambda name, default: keys.get("optimizer.%s.%s" % (part, name), default)
        self.kind, self.lr, self.decay = kind, get("lr", None), get("weight_decay", 0.0)
        self.eps, self.momentum = get("eps", 1e-10), get("momentum", 0.9)
        self.beta1, self.beta2 = get("betas", [0.9, 0.999])
        self.state = {}

    def update(self, place, weights, first, gradients, step):
        """Updates weights[first:] by the gradients of one tensor, or of one row."""
        lr, n = self.lr, len(gradients)
        s = self.state.setdefault(place, [[0.0] * n, [0.0] * n])
        if self.decay and self.kind == "adamw":
            for i in range(n):
                weights[first + i] *= 1 - lr * self.decay
        elif self.decay:
            gradients = [g + self.decay * weights[first + i] for i, g in enumerate(gradients)]
        mean = sum(g * g for g in gradients) / n
        for i, g in enumerate(gradients):
            w = weights[first + i]
            if self.kind == "sgd":
                w -= lr * g
            elif self.kind == "momentum":
                s[0][i] = self.momentum * s[0][i] + g
                w -= lr * s[0][i]
            elif self.kind in ("adagrad", "rowwise_adagrad"):
                s[0][i] += g * g if self.kind == "adagrad" else mean
                w -= lr * g / (math.sqrt(s[0][i]) + self.eps)
            else:
                s[0][i] = self.beta1 * s[0][i] + (1 - self.beta1) * g
                s[1][i] = self.beta2 * s[1][i] + (1 - self.beta2) * g * g
                size = lr / (1 - self.beta1 ** step)
                w -= size * s[0][i] / (math.sqrt(s[1][i]) / math.sqrt(1 - self.beta2 ** step) + self.eps)
            weights[first + i] = w


def train(keys, weights, rows, features):
    """Trains the steps of a config on rows in their order; returns (losses, model)."""
    model = Model(keys, weights)
    dense = Optimizer(keys, "dense", keys["optimizer.dense.kind"])
    sparse = Optimizer(keys, "sparse", keys["optimizer.sparse.kind"])
    batch, at, losses = keys["train.global_batch"], 0, []
    factor = keys.get("train.positive_weight", 1.0)
    for step in range(1, keys["train.iterations"] + 1):
        if at == len(rows):
            at = 0
        part = rows[at:at + batch]
        at += len(part)
        model.begin(True)
        loss, total = 0.0, None
        for row in part:
            y = int(row["label"])
            weight = factor if y else 1.0
            z = model.logit(*features.of(row))
            loss += weight * loss_of(z.value, y)
            slope = weight * (sigmoid(z.value) - y) / len(part)
            total = z * slope if total is None else total + z * slope
        losses.append(loss / len(part))
        backward(total)
        apply(model, dense, sparse, step)
    return losses, model


def apply(model, dense, sparse, step):
    rows = {}
    for (name, i), node in model.nodes.items():
        width = model.weights[name][0][-1]
        if name.startswith(("emb_l.", "linear_l.")):
            rows.setdefault((name, i // width), {})[i % width] = node.gradient
    for (name, row), found in rows.items():
        width = model.weights[name][0][-1]
        sparse.update((name, row), model.weights[name][1], row * width, [found.get(i, 0.0) for i in range(width)], step)
    for name, (shape, values) in model.weights.items():
        if not name.startswith(("emb_l.", "linear_l.")):
            gradients = [model.nodes[(name, i)].gradient if (name, i) in model.nodes else 0.0 for i in range(len(values))]
            dense.update(name, values, 0, gradients, step)


def load(keys, path):
    tensors, _ = files.safetensors(path)
    return Model(keys, {name: (t[1], files.floats(t)) for name, t in tensors.items() if t[0] == "F32"})


def scores(model, rows, features):
    model.begin(False)
    return [sigmoid(model.logit(*features.of(row))) for row in rows]


def auc(labels, values):
    """Counts pairs; a tie is half."""
    good = [v for v, y in zip(values, labels) if y]
    bad = [v for v, y in zip(values, labels) if not y]
    won = sum(1.0 if g > b else 0.5 if g == b else 0.0 for g in good for b in bad)
    return won / (len(good) * len(bad))


def logloss(labels, values):
    return sum(-math.log(v if y else 1 - v) for v, y in zip(values, labels)) / len(labels)


def read_rows(path):
    return samples.rows(path)
