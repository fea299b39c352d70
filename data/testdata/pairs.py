"""Writes pairs.parquet and pairs.csv, the same rows of ids with weights, with pyarrow: python3 pairs.py."""

import random

import pyarrow as pa
import pyarrow.parquet as pq

r = random.Random(2)
weights = [0.5, -1.25, 0.1, 3.0, 1e-7, 0.0]


def pairs(ids):
    if r.random() < 0.1:
        return None
    return [None if r.random() < 0.1 else {"id": r.choice(ids), "weight": r.choice(weights + [None])} for _ in range(r.randrange(5))]


rows = [(r.randrange(2), r.random(), pairs([None, 7, -3, 1 << 40]), pairs(["", "a", "bé", None]), pairs(["k", "l"])) for _ in range(3000)]
label, x, clicked, words, counts = map(list, zip(*rows))
for row in counts:
    for pair in row or []:
        if pair and pair["weight"] is not None:
            pair["weight"] = round(pair["weight"])
types = [pa.list_(pa.struct([("id", pa.int64()), ("weight", pa.float64())])),
         pa.large_list(pa.struct([("weight", pa.float32()), ("id", pa.string())])),
         pa.list_(pa.struct([("id", pa.string()), ("weight", pa.int16())]))]
table = pa.table({"label": pa.array(label, pa.int8()), "x": pa.array(x), "clicked": pa.array(clicked, types[0]),
                  "words": pa.array(words, types[1]), "counts": pa.array(counts, types[2]),
                  "three": pa.array([[{"id": 1, "weight": 0.5, "time": 3}]] * len(rows)),
                  "unweighted": pa.array([[{"id": 1, "weight": None}, {"id": 2, "weight": None}]] * len(rows)),
                  "texts": pa.array([[{"id": 1, "weight": "heavy"}]] * len(rows))})
pq.write_table(table, "pairs.parquet", compression="zstd", row_group_size=1700, data_page_size=1500, write_batch_size=100, dictionary_pagesize_limit=200)


def text(pair):
    if not pair:
        return ""
    id = "" if pair["id"] is None else str(pair["id"])
    return id if pair["weight"] is None else f"{id}:{pair['weight']!r}"


with open("pairs.csv", "w") as f:
    f.write("label,x,clicked,words,counts\n")
    for row in rows:
        f.write(f"{row[0]},{row[1]!r}," + ",".join("|".join(map(text, bag or [])) for bag in row[2:]) + "\n")
