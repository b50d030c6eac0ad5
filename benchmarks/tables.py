"""Tables through the command line, beside scikit-learn and NUTS: the figures of docs/tables.md.

python benchmarks/tables.py make-large FILE    a CSV of 1,000,000 rows and 30 columns, made for the purpose
"""

import sys

import numpy as np


def make_large(path: str, rows: int = 1_000_000, seed: int = 0) -> None:
    """28 numbers, two categories of 50 and 500 levels, a target; 2 % of some columns are missing."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(seed)
    scales, offsets = 10.0 ** rng.uniform(-2, 3, 28), 10.0 ** rng.uniform(-1, 3, 28)
    x = rng.standard_normal((rows, 28))
    x[:, 1:] += 0.5 * x[:, :-1]
    city, shop = rng.zipf(1.2, rows) % 50, rng.zipf(1.3, rows) % 500
    eta = x @ (0.3 * rng.standard_normal(28)) + 0.5 * rng.standard_normal(50)[city]
    eta += 0.5 * rng.standard_normal(500)[shop] - 1
    bought = rng.random(rows) < 1 / (1 + np.exp(-eta))
    columns = {}
    for i in range(28):
        missing = rng.random(rows) < 0.02 if i % 4 == 0 else None
        columns[f"x{i + 1}"] = pa.array(np.round(offsets[i] + scales[i] * x[:, i], 6), mask=missing)
    columns["city"] = pa.array(np.char.mod("city %02d", city), mask=rng.random(rows) < 0.01)
    columns["shop"] = pa.array(np.char.mod("shop %03d", shop))
    columns["bought"] = pa.array(np.where(bought, "yes", "no"))
    csv.write_csv(pa.table(columns), path, csv.WriteOptions(quoting_style="needed"))


if __name__ == "__main__":
    make_large(sys.argv[2])
