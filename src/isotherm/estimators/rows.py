"""From a table to rows that a model takes: weights, standard units, and sizes that are compiled once.

Few rows are sorted, and equal ones become one that counts as often. So the order of the rows does not matter, and a
weight of 2 is the same as a row that is there twice, draw for draw. They are then filled up, with rows of weight 0, to
one of few sizes: the folds of a cross-validation and most small tables share a compiled program.
"""

from typing import NamedTuple

import numpy as np

FEW = 4096  # rows, up to which they are sorted and filled up: all of them are used at every step
LEAST = 16  # rows of the smallest size
FINEST = 256  # rows: sizes are powers of two up to this, and its multiples beyond


class Units(NamedTuple):
    """Where columns begin and how large they are: (x − centre)/scale is in standard units."""

    centre: np.ndarray
    scale: np.ndarray

    def standard(self, values: np.ndarray) -> np.ndarray:
        return (values - self.centre) / self.scale


NO_UNITS = Units(np.zeros(()), np.ones(()))


class Rows(NamedTuple):
    """Distinct rows, their targets, and how often each counts."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def units(self, values: np.ndarray, centred: bool = True) -> Units:
        """Units of columns of these rows; one that does not vary keeps its scale. Unless `centred`, centres are 0."""
        centre = np.average(values, axis=0, weights=self.weight) if centred else np.zeros(values.shape[1:])
        spread = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=self.weight))
        varies = spread > 1e-10 * np.abs(values).max(axis=0, initial=0)
        return Units(centre, np.where(varies, spread, 1.0))

    def column_units(self, centred: bool = True) -> Units:
        """Units of the columns of X. One that has the same value in most rows, such as an indicator of something rare,
        is as large as where it has another: its standard deviation is divided by the root of the share of those rows.
        By its standard deviation alone, an indicator of one row in a thousand would be 30, and so would, by the prior,
        be what it does."""
        units = self.units(self.X, centred)
        weights = None if (self.weight == self.weight[0]).all() else self.weight  # without, there is nothing to sort
        middle = np.quantile(self.X, 0.5, axis=0, method="inverted_cdf", weights=weights)
        share = np.average(middle != self.X, axis=0, weights=self.weight)
        return units._replace(scale=units.scale / np.sqrt(np.where(share > 0, share, 1.0)))


def make_rows(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Rows:
    """The rows of positive weight; if they are few, sorted, and equal ones joined."""
    counts = weight > 0
    if not counts.all():
        X, y, weight = X[counts], y[counts], weight[counts]
    if len(X) > FEW:
        return Rows(X, y, weight)
    table = np.column_stack([X, y])
    distinct, which = np.unique(table, axis=0, return_inverse=True)
    total = np.bincount(which.ravel(), weights=weight, minlength=len(distinct))
    return Rows(distinct[:, :-1], distinct[:, -1], total)


def filled(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`data`, filled up with copies of the first row, of weight 0, to the next of few sizes."""
    rows = len(data["weight"])
    if rows > FEW:
        return data
    size = max(LEAST, 1 << (rows - 1).bit_length()) if rows <= FINEST else -(-rows // FINEST) * FINEST
    more = {name: np.repeat(column[:1], size - rows, axis=0) for name, column in data.items()}
    more["weight"] = np.zeros_like(more["weight"])
    return {name: np.concatenate([column, more[name]]) for name, column in data.items()}
