"""The data of the comparison: files for ecrec, and the same samples as tensors, by way of the recipe that ecrec wrote."""

import json
import pathlib

import numpy as np
import pandas
import torch

ADULT = pathlib.Path(__file__).parents[2] / "examples" / "adult"
PARTS, EVAL = 8, 200_000  # of the synthetic data: training files, and samples of the evaluation file


class Samples:
    """Dense features (b, n), ids (b, tables) and labels (b, 1)."""

    def __init__(self, dense, ids, label):
        self.dense, self.ids, self.label = dense, ids, label

    def pick(self, index):
        return Samples(self.dense[index], self.ids[index], self.label[index])

    def double(self):
        return Samples(self.dense.double(), self.ids, self.label.double())


def read(recipe, paths):
    """The samples of CSV or Parquet files, with the columns, transforms and vocabularies of a recipe.json."""
    recipe = json.loads(pathlib.Path(recipe).read_text())
    frames = [pandas.read_parquet(p) if str(p).endswith(".parquet") else pandas.read_csv(p, dtype=str, keep_default_na=False) for p in paths]
    frame = pandas.concat(frames, ignore_index=True)
    dense = []
    for c in recipe["dense"]:
        assert c["transform"] == "none", c
        dense.append(frame[c["column"]].to_numpy(np.float32))
    ids = [rows_of(c, frame[c["column"]]) for c in recipe["categorical"]]
    label = frame[recipe["label"]].to_numpy(np.float32)[:, None]
    return Samples(torch.from_numpy(np.stack(dense, axis=1)), torch.from_numpy(np.stack(ids, axis=1)), torch.from_numpy(label))


def rows_of(column, values):
    """The row of each value: its place in the vocabulary after the reserved rows, 0 for a missing and 1 for an unknown value."""
    assert column["ids"] == "vocabulary", column
    words, reserved = column["vocabulary"], column["reserved"]
    if values.dtype == object or not pandas.api.types.is_integer_dtype(values):
        places = {"": 0, **{word: reserved + i for i, word in enumerate(words)}}
        return values.map(lambda v: places.get(v, 1)).to_numpy(np.int64)
    known = np.array([int(word) for word in words])
    table = np.ones(max(known.max(), values.max()) + 1, np.int64)
    table[known] = reserved + np.arange(len(known))
    return table[values.to_numpy()]


def tables(recipe):
    return [c["rows"] for c in json.loads(pathlib.Path(recipe).read_text())["categorical"]]


def settings(form, train, held, numbers, categories):
    return {
        "data.format": form, "data.train": [str(p) for p in train], "data.eval": [str(held)], "data.csv.label": "label",
        "data.csv.dense": numbers, "data.csv.categorical": categories, "data.transform": {name: "none" for name in numbers},
    }


def adult(folder):
    """The settings of [data] for examples/adult, whose numbers are scaled to 0 to 1, as in BARS' Criteo_x1."""
    numbers = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    train, held = (pandas.read_csv(ADULT / name, dtype={n: float for n in numbers}, keep_default_na=False) for name in ("train.csv", "eval.csv"))
    low, high = train[numbers].min(), train[numbers].max()
    for name, frame in (("adult.csv", train), ("adult-eval.csv", held)):
        frame[numbers] = ((frame[numbers] - low) / (high - low)).clip(0, 1)
        frame.to_csv(folder / name, index=False, float_format="%.6f")
    categories = [name for name in train.columns if name not in ("label", *numbers)]
    return settings("csv", [folder / "adult.csv"], folder / "adult-eval.csv", numbers, categories)


def shuffled(source, path, epochs, seed):
    """Writes the rows of a CSV file some times, each time in another order. Returns the order as one list of samples."""
    head, *rows = source.read_text().splitlines(keepends=True)
    r = np.random.default_rng(seed)
    order = np.concatenate([r.permutation(len(rows)) for _ in range(epochs)])
    path.write_text(head + "".join(rows[i] for i in order))
    return order


def synthetic(folder, samples):
    """The settings of [data] for the synthetic data, which is made unless it is there: 5 numbers and 20 columns of skewed ids,
    labels of a logistic teacher with a weight for each id and products of some pairs of columns."""
    numbers, columns = [f"d{i}" for i in range(5)], [f"c{i}" for i in range(20)]
    parts = [folder / f"{samples}-{i}.parquet" for i in range(PARTS)]
    held = folder / f"{samples}-eval.parquet"
    if not held.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(samples, numbers, columns, parts, held)
    return settings("parquet", parts, held, numbers, columns)


def make(samples, numbers, columns, parts, held):
    r = np.random.default_rng(19)
    sizes = np.geomspace(4, 100_000, len(columns)).astype(int)
    frame = pandas.DataFrame({"label": np.zeros(samples, np.int32)})
    logit = np.full(samples, -1.5)
    for name in numbers:
        x = r.beta(1.5, 4, samples).astype(np.float32)
        frame[name] = x
        logit += r.normal(0, 1) * x
    vectors = []
    for name, size in zip(columns, sizes):
        ids = np.minimum((size ** r.random(samples)).astype(np.int32), size - 1)  # the chance of an id is about 1 / (id + 1)
        frame[name] = ids
        logit += r.normal(0, 0.3, size)[ids]
        vectors.append((r.normal(0, 0.5, (size, 4)), ids))
    for a, b in ((0, 19), (3, 10), (5, 15), (7, 8), (12, 18), (14, 16)):
        (v, i), (w, j) = vectors[a], vectors[b]
        logit += (v[i] * w[j]).sum(axis=1)
    frame["label"] = (r.random(samples) < 1 / (1 + np.exp(-logit))).astype(np.int32)
    edges = np.linspace(0, samples - EVAL * samples // 2_000_000, len(parts) + 1).astype(int)
    for path, first, end in zip(parts, edges, edges[1:]):
        frame.iloc[first:end].to_parquet(path, index=False)
    frame.iloc[edges[-1]:].to_parquet(held, index=False)
