#!/usr/bin/env python3
"""Scores the rows of a CSV file with a model file of ecrec: python3 score.py MODEL.safetensors ROWS.csv [--keep a,b] >scores.csv

It needs numpy and safetensors. The model file's metadata has all that lies between a row and a sample: the
columns, their transforms and their ids. The scores agree with those of `ecrec predict` within 1e-5.
"""

import argparse
import base64
import csv
import functools
import json
import math
import sys
from datetime import datetime, timezone

import numpy as np
from safetensors import safe_open

from xxh3 import xxh3_64


def load(path):
    """Returns the tensors by name, the config of the model, and the recipe of its data."""
    with safe_open(path, framework="numpy") as f:
        about = f.metadata() or {}
        tensors = {name: f.get_tensor(name) for name in f.keys()}
        for name in [name for name, x in tensors.items() if x.dtype == np.uint8]:  # a text that the metadata has no room for
            about[name] = tensors.pop(name).tobytes().decode()
        if "ecrec.model" not in about or "ecrec.data" not in about:
            sys.exit(f"{path}: no recipe in its metadata; export the run or the checkpoint again with `ecrec export`")
        return tensors, json.loads(about["ecrec.model"]), with_vocabularies(json.loads(about["ecrec.data"]))


def with_vocabularies(recipe):
    """Gives every feature the vocabulary of its table, which the first feature of a shared table has."""
    first = {}
    for column in recipe["categorical"]:
        owner = first.setdefault(column["shared"], column) if column.get("shared") else column
        for key in "vocabulary", "vocabulary_bytes", "vocabulary_xxh3":
            if key in owner:
                column[key] = owner[key]
    return recipe


# From rows to samples.


def number(column, text):
    """The number of a field; text is None where it is missing."""
    if text is None:
        return 0.0
    text = text.strip()
    if not text:
        return 0.0
    if text.strip("0123456789.+-eE"):
        raise ValueError(f"column {column['column']!r}: {text!r} is not a decimal number")
    x = float(np.float32(float(text)))
    if column["transform"] == "log1p":
        return np.log1p(max(x, 0.0))
    if column["transform"] == "standard":
        deviation = column.get("deviation", 0.0)
        return (x - column.get("mean", 0.0)) / deviation if deviation else 0.0
    if column["transform"] == "none":
        return x
    raise ValueError(f"column {column['column']!r}: score.py has no transform {column['transform']!r}")


def time_of(text):
    """An ISO time, whose hour is taken as it is written, YYMMDDHH, or seconds since 1970."""
    text = text.strip()
    if text.isdigit():
        return datetime.strptime(text, "%y%m%d%H") if len(text) == 8 else datetime.fromtimestamp(int(text), timezone.utc)
    return datetime.fromisoformat(text)


def bucket(text):
    x = float(np.float32(float(text)))
    return math.floor(math.log(x) ** 2) if x > 2 else math.trunc(x)


CATEGORIES = {
    "log2-bucket": bucket,
    "hour": lambda text: time_of(text).hour,
    "weekday": lambda text: time_of(text).weekday(),
    "weekend": lambda text: int(time_of(text).weekday() >= 5),
}


def row_finder(column):
    """Returns the function from a field, None where it is missing, to a row of the column's table."""
    derive = CATEGORIES[column["transform"]] if column.get("transform") else str
    reserved, rows = column.get("reserved", 0), column["rows"]
    known = [base64.b64decode(text) for text in column.get("vocabulary_bytes") or []]
    known = known or [text.encode() for text in column.get("vocabulary") or []]
    places = {text: reserved + i for i, text in enumerate(known)}
    hashes = np.frombuffer(base64.b64decode(column.get("vocabulary_xxh3", "")), "<u8")  # of a large vocabulary
    order = np.argsort(hashes)

    @functools.lru_cache(maxsize=1 << 20)
    def find(text):
        if text is not None and column.get("transform") == "log2-bucket" and not text.strip():
            text = None
        if text is None and reserved > 0:
            return 0
        raw = b"" if text is None else str(derive(text)).encode(errors="surrogateescape")
        if column["ids"] == "vocabulary" and len(hashes):
            at = order[min(np.searchsorted(hashes, np.uint64(xxh3_64(raw)), sorter=order), len(hashes) - 1)]
            return reserved + int(at) if hashes[at] == xxh3_64(raw) else 1
        if column["ids"] == "vocabulary":
            return places.get(raw, 1)
        if column["ids"].startswith("xxh3-64"):
            return reserved + xxh3_64(raw) % (rows - reserved)
        raise ValueError(f"column {column['column']!r}: score.py cannot make ids by {column['ids']!r}")

    return find


def field(row, column):
    """The text that a feature is made of: of its own column, or of another one."""
    return row[column.get("of", column["column"])]


def bag(column, missing, find, text):
    """The ids of a field and their weights. A field that is empty, or means missing, has none."""
    ids, weights = [], []
    for word in [] if text in missing else text.split(column["separator"]):
        weight = 1.0
        if column.get("weighted") and ":" in word:
            word, weight = word.rsplit(":", 1)
            weight = number({**column, "transform": "none"}, weight)
        ids.append(find(None if word in missing else word))
        weights.append(weight)
    return ids, weights


def pad(bags):
    """Bags as two arrays (b, n), for the n of the longest: ids, -1 where there is none, and weights."""
    width = max([1, *(len(ids) for ids, _ in bags)])
    ids, weights = np.full((len(bags), width), -1), np.zeros((len(bags), width), np.float32)
    for i, (of, weight) in enumerate(bags):
        ids[i, : len(of)], weights[i, : len(of)] = of, weight
    return ids, weights


def samples(recipe, fields):
    """Returns dense features (b, n) and ids of rows, which are dicts of texts: (b, features).

    If a column of the recipe has a separator, its fields have several ids. Then ids is a list with a pair for each
    feature, as pad returns it.
    """
    missing = {"", *(recipe.get("na") or [])}
    dense = np.zeros((len(fields), len(recipe["dense"])), np.float32)
    has_bags = any(column.get("separator") for column in recipe["categorical"])
    ids = [] if has_bags else np.zeros((len(fields), len(recipe["categorical"])), np.int64)
    for j, column in enumerate(recipe["dense"]):
        for i, row in enumerate(fields):
            text = field(row, column)
            dense[i, j] = number(column, None if text in missing else text)
    for j, column in enumerate(recipe["categorical"]):
        find = row_finder(column)
        texts = [field(row, column) for row in fields]
        if column.get("separator"):
            ids.append(pad([bag(column, missing, find, text) for text in texts]))
            continue
        found = [find(None if text in missing else text) for text in texts]
        if has_bags:
            ids.append((np.array(found, np.int64).reshape(-1, 1), np.ones((len(found), 1), np.float32)))
        else:
            ids[:, j] = found
    return dense, ids


def onnx_inputs(recipe, dense, ids):
    """The inputs of an exported ONNX model, by name, for what samples returns."""
    inputs = {"dense": dense} if dense.shape[1] else {}
    if isinstance(ids, np.ndarray):
        return {**inputs, "ids": ids}
    single = [pair[0] for pair, column in zip(ids, recipe["categorical"]) if not column.get("separator")]
    if single:
        inputs["ids"] = np.concatenate(single, axis=1)
    for f, column in enumerate(recipe["categorical"]):
        if column.get("separator"):
            inputs[f"ids_{f}"] = ids[f][0]
            if column.get("weighted"):
                inputs[f"weights_{f}"] = ids[f][1]
    return inputs


# From samples to scores.


def mlp(tensors, prefix, x, last, norms=None):
    """Linear layers prefix.0, prefix.2 and so on, with batch norm and ReLU between them and, if last, ReLU after them."""
    names = [f"{prefix}.{i}" for i in range(0, 2 * len(tensors), 2) if f"{prefix}.{i}.weight" in tensors]
    for i, name in enumerate(names):
        x = x @ tensors[name + ".weight"].T + tensors[name + ".bias"]
        norm = f"{norms or prefix.removesuffix('_l') + '_bn'}.{i}"
        if norm + ".weight" in tensors:
            x = (x - tensors[norm + ".running_mean"]) / np.sqrt(tensors[norm + ".running_var"] + np.float32(1e-5))
            x = x * tensors[norm + ".weight"] + tensors[norm + ".bias"]
        if last or name != names[-1]:
            x = np.maximum(x, 0)
    return x


def pool(table, ids, weights, mean):
    """The sums of the rows of bags, or their means, (b, width). An empty bag gives zeros."""
    present = ids >= 0
    sums = np.einsum("bn,bnd->bd", weights * present, table[np.maximum(ids, 0)])
    return sums / np.maximum(present.sum(axis=1, keepdims=True), 1).astype(np.float32) if mean else sums


def gather(m, tensors, part, ids):
    """The rows of each sample, (b, features, width): that of its id, or the sum or mean of those of its bag."""
    features = len(ids) if isinstance(ids, list) else ids.shape[1]
    tables = [tensors[f"{part}.{t}.weight"] for t in m.get("table_of", range(features))]
    if not isinstance(ids, list):
        return np.stack([table[ids[:, f]] for f, table in enumerate(tables)], axis=1)
    pooling = m.get("pooling", ["sum"] * features)
    return np.stack([pool(table, *ids[f], pooling[f] == "mean") for f, table in enumerate(tables)], axis=1)


def dlrm(m, t, dense, ids):
    x, rows = mlp(t, "bot_l", dense, last=True), gather(m, t, "emb_l", ids)
    form = m.get("interaction", "dot")
    if form == "sum":
        rest = rows.sum(axis=1)
    elif form == "cat":
        rest = rows.reshape(len(x), -1)
    else:
        vectors = np.concatenate([x[:, None], rows], axis=1) if x.shape[1] else rows  # x is empty without numbers
        above, below = np.tril_indices(vectors.shape[1], -1)
        rest = (vectors @ vectors.transpose(0, 2, 1))[:, above, below]
    return mlp(t, "top_l", np.concatenate([x, rest], axis=1), last=False)


def wide(m, t, dense, ids):
    """A linear model over dense features, if there are any, and ids."""
    sums = gather(m, t, "linear_l", ids).sum(axis=1) + t["linear.bias"]
    return sums + dense @ t["linear.weight"].T if "linear.weight" in t else sums


def wdl(m, t, dense, ids):
    x, rows = mlp(t, "bot_l", dense, last=False), gather(m, t, "emb_l", ids)
    logits = mlp(t, "top_l", np.concatenate([x, rows.reshape(len(x), -1)], axis=1), last=False)
    return logits + wide(m, t, dense, ids) if m.get("linear") else logits


def cross(m, t, x0):
    x, form = x0, m.get("cross", "low-rank")
    for i in range(m["cross_layers"]):
        if form == "vector":
            x = x0 * (x @ t[f"cross.{i}.weight"].T) + t[f"cross.{i}.bias"] + x
            continue
        y = x @ t[f"cross.{i}.v"].T @ t[f"cross.{i}.w"].T if form == "low-rank" else x @ t[f"cross.{i}.weight"].T
        x = x0 * (y + t[f"cross.{i}.bias"]) + x
    return x


def dcn(m, t, dense, ids):
    x, rows = mlp(t, "bot_l", dense, last=True), gather(m, t, "emb_l", ids)
    x0 = np.concatenate([x, rows.reshape(len(x), -1)], axis=1)
    if m.get("structure") == "parallel":
        return mlp(t, "fc", np.concatenate([cross(m, t, x0), mlp(t, "top_l", x0, last=True)], axis=1), last=False)
    return mlp(t, "top_l", cross(m, t, x0), last=False)


def deepfm(m, t, dense, ids):
    vectors = gather(m, t, "emb_l", ids)
    logits = gather(m, t, "linear_l", ids).sum(axis=1) + t["linear.bias"]
    if m.get("dense_embedding"):
        vectors = np.concatenate([dense[:, :, None] * t["emb_dense.weight"], vectors], axis=1)
        logits = logits + dense @ t["linear_dense.weight"].T
    pairs = (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=1, keepdims=True) / 2
    return logits + pairs + mlp(t, "top_l", vectors.reshape(len(dense), -1), last=False, norms="bn")


MODELS = {"dlrm": dlrm, "wdl": wdl, "dcn": dcn, "deepfm": deepfm}


def score(model, tensors, dense, ids):
    """The probabilities of samples, (b)."""
    if model["kind"] not in MODELS:
        sys.exit(f"score.py has no model of kind {model['kind']!r}")
    logits = MODELS[model["kind"]](model, tensors, dense, ids)[:, 0]
    return 1 / (1 + np.exp(-logits))


def main():
    parser = argparse.ArgumentParser(description="Scores the rows of a CSV file with a model file of ecrec.")
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("--keep", default="", help="columns to print before the score, separated by commas")
    args = parser.parse_args()
    tensors, model, recipe = load(args.model)
    keep = args.keep.split(",") if args.keep else []
    csv.field_size_limit(1 << 30)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(keep + ["score"])
    with open(args.rows, encoding="utf-8-sig", errors="surrogateescape", newline="") as f:
        reader = csv.DictReader(f, delimiter=recipe.get("delimiter", ","))
        batch = []
        for row in reader:
            batch.append(row)
            if len(batch) == 4096:
                write(out, keep, batch, model, tensors, recipe)
                batch = []
        if batch:
            write(out, keep, batch, model, tensors, recipe)


def write(out, keep, batch, model, tensors, recipe):
    scores = score(model, tensors, *samples(recipe, batch))
    for row, s in zip(batch, scores):
        out.writerow([row[k] for k in keep] + [f"{s:.9g}"])


if __name__ == "__main__":
    main()
