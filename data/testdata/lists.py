"""Writes lists.parquet and lists.csv, the same rows, with pyarrow: python3 lists.py."""

import random

import pyarrow as pa
import pyarrow.parquet as pq

r = random.Random(1)
rows = []
for i in range(3000):
    clicked = [r.choice([None, r.randrange(40), -r.randrange(1 << 40)]) for _ in range(r.randrange(6))] if r.random() > 0.1 else None
    words = [r.choice(["", "a", "bc", "é", None]) for _ in range(r.randrange(4))]
    rows.append((r.randrange(2), r.random(), clicked, words, r.choice(["p|q", "p", "", None]), f"u{r.randrange(99)}"))
label, x, clicked, words, text, user = zip(*rows)
table = pa.table({"label": pa.array(label, pa.int8()), "x": pa.array(x), "clicked": pa.array(clicked, pa.list_(pa.int64())),
                  "words": pa.array(words, pa.large_list(pa.string())), "text": pa.array(text), "user": pa.array(user),
                  "pairs": pa.array([[{"id": 1, "weight": 0.5}]] * len(rows))})
pq.write_table(table, "lists.parquet", compression="zstd", row_group_size=1700, data_page_size=1500, write_batch_size=100, dictionary_pagesize_limit=200)
with open("lists.csv", "w") as f:
    f.write("label,x,clicked,words,text,user\n")
    for row in rows:
        join = lambda ids: "|".join("" if i is None else str(i) for i in ids or [])
        f.write(f"{row[0]},{row[1]!r},{join(row[2])},{join(row[3])},{row[4] or ''},{row[5]}\n")
