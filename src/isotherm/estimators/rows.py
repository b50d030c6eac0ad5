"""From a table to rows that a model takes: weights, and sizes that are compiled once.

Few rows are sorted, and equal ones become one that counts as often. So the order of the rows does not matter, and a
weight of 2 is the same as a row that is there twice, draw for draw. They are then filled up, with rows of weight 0, to
one of few sizes: the folds of a cross-validation and most small tables share a compiled program.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from isotherm.lib.types import Example, Params, Scalar
from isotherm.models.model import Model, like, method

SORTED_ROWS = 4096  # rows, up to which they are sorted and filled up: all of them are used at every step
SMALLEST_SIZE = 16  # rows of the smallest size
DOUBLED_SIZE = 256  # rows: sizes are powers of two up to this, and its multiples beyond


class Rows(NamedTuple):
    """Distinct rows, their targets, and how often each counts."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def make_rows(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Rows:
    """Return the rows of positive weight; if they are few, sorted, and equal ones joined."""
    counts = weight > 0
    if not counts.all():
        X, y, weight = X[counts], y[counts], weight[counts]
    if len(X) > SORTED_ROWS:
        return Rows(X, y, weight)
    distinct, which = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    total = np.bincount(which.ravel(), weights=weight, minlength=len(distinct))
    return Rows(distinct[:, :-1], distinct[:, -1], total)


def fill_up(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `data` filled up with copies of the first row, of weight 0, to the next of few sizes."""
    rows = len(data["weight"])
    if rows > SORTED_ROWS:
        return data
    size = -(-rows // DOUBLED_SIZE) * DOUBLED_SIZE
    if rows <= DOUBLED_SIZE:
        size = max(SMALLEST_SIZE, 1 << (rows - 1).bit_length())
    more = {name: np.repeat(column[:1], size - rows, axis=0) for name, column in data.items()}
    more["weight"] = np.zeros_like(more["weight"])
    return {name: np.concatenate([column, more[name]]) for name, column in data.items()}


@dataclass(frozen=True)
class Weighted:
    """A model whose examples have a "weight": how often each counts."""

    model: Model

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """Return the model's, times the weight."""
        return like(params, example["weight"]) * self.model.log_likelihood(params, example)
