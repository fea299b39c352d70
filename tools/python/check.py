"""Compares what Python makes of a model of ecrec with the scores of ecrec itself; see TestPython in cmd/ecrec.

check.py hashes FILE: lines "LENGTH HASH", in hex, of XXH3 for the first LENGTH bytes of a pattern.
check.py parquet ROWS TO: writes rows of CSV, without the column "label", as Parquet.
check.py models (DIR LOGLOSS AUC)...: DIR has model.safetensors, model.onnx, repository/ctr, rows.csv, whose column "label"
is the label, and scores.csv, ecrec's scores of the rows. LOGLOSS and AUC are those of ecrec; run/summary.json has all digits.
scores.parquet, typed.parquet (from rows in Parquet) and text.csv (from the same) hold the columns age and workclass, and the scores.
"""

import csv
import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))


def check_hashes(file):
    from xxh3 import xxh3_64

    pattern = bytes((i * i * 31 + i * 7 + (i >> 3)) & 255 for i in range(1 << 13))
    lines = pathlib.Path(file).read_text().split("\n")[:-1]
    for line in lines:
        n, want = line.split()
        assert xxh3_64(pattern[: int(n)]) == int(want, 16), f"XXH3 of {n} bytes"
    print(f"XXH3: {len(lines)} lengths agree")


def check_categories():
    import score

    for transform, text, want in (("hour", "14102123", 23), ("weekday", "14102123", 1), ("hour", "2026-01-31T07:30:00+05:00", 7),
                                  ("weekday", "2026-01-31", 5), ("hour", " 2026-01-31 12:00:00 ", 12), ("hour", "90000", 1),
                                  ("log2-bucket", "100", 21), ("log2-bucket", "2", 2), ("log2-bucket", "-1.5", -1)):
        got = score.CATEGORIES[transform](text)
        assert got == want, f"{transform} of {text!r} is {got}, want {want}"


def compare(what, got, want, within=1e-5):
    assert got.shape == want.shape, f"{what}: {got.shape} scores, want {want.shape}"
    difference = np.abs(got - want).max()
    print(f"{what}: {len(got)} scores, largest difference {difference:.2g}")
    assert difference <= within, f"{what}: differs by {difference}"  # also if it is NaN


def write_parquet(rows, to):
    import pandas

    pandas.read_csv(rows, keep_default_na=False).drop(columns="label").to_parquet(to, row_group_size=500)


def check_parquet(folder):
    """Reads scores in Parquet with pandas and polars: the bits of those in CSV, with the kept columns."""
    import pandas
    import polars
    from sklearn.metrics import roc_auc_score

    rows = pandas.read_csv(folder / "rows.csv", keep_default_na=False)
    want = pandas.read_csv(folder / "scores.csv")["score"].to_numpy(np.float32)
    for name, kept in (("scores.parquet", rows["age"].astype(str)), ("typed.parquet", rows["age"])):
        for read in (pandas.read_parquet, polars.read_parquet):
            table = read(folder / name)
            assert list(table.columns) == ["age", "workclass", "score"], table.columns
            assert (table["score"].to_numpy() == want).all() and table["score"].to_numpy().dtype == np.float32
            assert table["age"].to_list() == kept.to_list() and table["workclass"].to_list() == rows["workclass"].to_list()
    text = pandas.read_csv(folder / "text.csv", keep_default_na=False)
    assert (text["score"].to_numpy(np.float32) == want).all()
    assert text["age"].to_list() == rows["age"].to_list() and text["workclass"].to_list() == rows["workclass"].to_list()
    ours = json.loads((folder / "run" / "summary.json").read_text())["eval"][-1]["auc"]
    auc = roc_auc_score(rows["label"], pandas.read_parquet(folder / "typed.parquet")["score"])
    print(f"scores in Parquet: {len(want)} rows, AUC by scikit-learn {auc:.9f}, by ecrec {ours:.9f}")
    assert abs(auc - ours) < 1e-6


def check_model(folder, logloss, auc):
    import onnx
    import onnxruntime
    import pandas
    import torch
    from safetensors.numpy import load_file
    from sklearn.metrics import log_loss, roc_auc_score

    import models
    import score

    file, rows = folder / "model.safetensors", folder / "rows.csv"
    want = pandas.read_csv(folder / "scores.csv")["score"].to_numpy(np.float32)
    assert all(t.dtype == np.float32 for t in load_file(file).values())

    printed = folder / "printed.csv"
    with open(printed, "w") as out:
        subprocess.run([sys.executable, EXAMPLES / "score.py", file, rows, "--keep", "label"], stdout=out, check=True)
    table = pandas.read_csv(printed)
    compare("score.py", table["score"].to_numpy(np.float32), want)
    for what, got, ours in (("logloss", log_loss(table["label"], table["score"]), logloss),
                            ("AUC", roc_auc_score(table["label"], table["score"]), auc)):
        print(f"{what} by scikit-learn {got:.6f}, by ecrec {ours}")
        assert abs(got - float(ours)) < 1e-5

    tensors, model, recipe = score.load(file)
    print(model)
    csv.field_size_limit(1 << 30)
    with open(rows, encoding="utf-8", errors="surrogateescape", newline="") as f:
        dense, ids = score.samples(recipe, list(csv.DictReader(f)))
    with torch.no_grad():
        tensors = [tuple(map(torch.tensor, pair)) for pair in ids] if isinstance(ids, list) else torch.tensor(ids)
        compare("PyTorch", torch.sigmoid(models.load(file)(torch.tensor(dense), tensors)).numpy(), want)

    for name in ("model.onnx", "repository/ctr/1/model.onnx"):
        onnx.checker.check_model(folder / name, full_check=True)
        session = onnxruntime.InferenceSession(folder / name)
        inputs = score.onnx_inputs(recipe, dense, ids)
        assert [i.name for i in session.get_inputs()] == list(inputs)
        compare(name, session.run(["score"], inputs)[0], want)
        compare(name + ", one sample", session.run(["score"], {i: x[:1] for i, x in inputs.items()})[0], want[:1])
        if isinstance(ids, list):
            check_padding(name, session, inputs, want)
    check_triton(folder / "repository" / "ctr", session)


def check_padding(name, session, inputs, want):
    """Runs bags with more padding, whose weights mean nothing, and bags that are all empty, with and without padding."""
    wide = dict(inputs)
    for key in inputs:
        if key.startswith("ids_"):
            wide[key] = np.pad(inputs[key], ((0, 0), (0, 3)), constant_values=-1)
        if key.startswith("weights_"):
            wide[key] = np.pad(inputs[key], ((0, 0), (0, 3)), constant_values=np.nan)
    compare(name + ", padded", session.run(["score"], wide)[0], want)
    results = []
    for width in (0, 1, 3):
        empty = {key: np.full((len(want), width), -1, x.dtype) if "_" in key else x for key, x in inputs.items()}
        results.append(session.run(["score"], empty)[0])
        assert results[-1].tobytes() == results[0].tobytes() and np.abs(results[-1] - want).max() > 1e-2, f"{name}: empty bags, width {width}"


def check_triton(folder, session):
    """Parses config.pbtxt by Triton's schema, and compares it with the model. The server itself is no Python package."""
    from google.protobuf import text_format

    schema = pathlib.Path(importlib.util.find_spec("tritonclient").origin).parent / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", schema)  # without the client
    config_of = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(config_of)
    config = text_format.Parse((folder / "config.pbtxt").read_text(), config_of.ModelConfig())
    types = {"tensor(float)": config_of.TYPE_FP32, "tensor(int64)": config_of.TYPE_INT64}
    assert config.max_batch_size > 0 and config.platform == "onnxruntime_onnx"
    for listed, actual in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
        assert [c.name for c in listed] == [a.name for a in actual]
        for c, a in zip(listed, actual):
            shape = list(c.reshape.shape) if c.HasField("reshape") else list(c.dims)
            actual_shape = [-1 if isinstance(n, str) else n for n in a.shape[1:]]  # a name: any length
            assert c.data_type == types[a.type] and shape == actual_shape, f"{c.name} is {c}, and {a.shape} in the model"
    print("config.pbtxt: as Triton's schema, and as the model")


if __name__ == "__main__":
    if sys.argv[1] == "hashes":
        check_hashes(sys.argv[2])
        check_categories()
    elif sys.argv[1] == "parquet":
        write_parquet(*sys.argv[2:])
    else:
        for folder, logloss, auc in zip(sys.argv[2::3], sys.argv[3::3], sys.argv[4::3]):
            check_parquet(pathlib.Path(folder))
            check_model(pathlib.Path(folder), logloss, auc)
