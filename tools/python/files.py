"""Writes files of samples by the packages that users write them with; see TestPythonFiles in cmd/ecrec.

files.py arrays FROM TO: the files of the day FROM/day_0, in the forms of NumPy: TO/savez, wide, versions, matrix, compressed, fortran.
files.py pairs ROWS.csv TO: rows of CSV whose columns "clicked" and "words" have fields like 17:0.5|4, as lists of structs of id
and weight: TO/arrow.parquet, polars.parquet and pandas.parquet.
"""

import csv
import pathlib
import sys

import numpy as np

IDS, DENSE, LABELS = "day_0_sparse_multi_hot.npz", "day_0_dense.npy", "day_0_labels.npy"


def write_arrays(source, to):
    with np.load(source / IDS) as arrays:
        ids = {str(i): arrays[str(i)] for i in range(len(arrays))}
    dense, labels = np.load(source / DENSE), np.load(source / LABELS)
    assert dense.dtype == np.float32 and labels.dtype == np.int32 and all(x.dtype == np.int32 for x in ids.values())

    def write(name, ids=ids, save=np.savez, labels=labels, version=None):
        folder = to / name
        folder.mkdir()
        if save is np.save:
            np.save(folder / "day_0_sparse.npy", ids)
        else:
            save(folder / IDS, **ids)
        for file, array in ((DENSE, dense), (LABELS, labels)):
            with open(folder / file, "wb") as f:
                np.lib.format.write_array(f, array, version)

    write("savez")
    write("wide", {k: x.astype(np.int64) for k, x in ids.items()}, labels=labels.reshape(-1).astype(np.float32))
    write("versions", labels=labels.astype(np.int64), version=(2, 0))
    write("matrix", np.concatenate([x[:, :1] for x in ids.values()], axis=1), np.save, version=(3, 0))
    write("compressed", save=np.savez_compressed)
    write("fortran", {k: np.asfortranarray(x) for k, x in ids.items()})


def pairs_of(field, of):
    pairs = []
    for text in field.split("|") if field else []:
        id, _, weight = text.partition(":")
        pairs.append({"id": of(id) if id else None, "weight": float(weight) if weight else None} if text else None)
    return pairs


def write_pairs(rows, to):
    import pandas
    import polars
    import pyarrow
    import pyarrow.parquet

    with open(rows) as f:
        columns = {name: list(values) for name, *values in zip(*csv.reader(f))}
    columns["label"], columns["x"] = [int(y) for y in columns["label"]], [float(x) for x in columns["x"]]
    columns["clicked"] = [pairs_of(field, int) for field in columns["clicked"]]
    columns["words"] = [pairs_of(field, str) for field in columns["words"]]
    pyarrow.parquet.write_table(pyarrow.table(columns), to / "arrow.parquet", row_group_size=300)
    pandas.DataFrame(columns).to_parquet(to / "pandas.parquet")
    pair = lambda id: polars.List(polars.Struct({"id": id, "weight": polars.Float64}))
    polars.DataFrame(columns, schema_overrides={"clicked": pair(polars.Int64), "words": pair(polars.String)}).write_parquet(
        to / "polars.parquet", row_group_size=150)


if __name__ == "__main__":
    write = {"arrays": write_arrays, "pairs": write_pairs}[sys.argv[1]]
    write(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
