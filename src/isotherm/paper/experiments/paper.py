"""The paper's numbers (printed.toml): posterior expected log losses, by (method, step size, friction)."""

import tomllib
from functools import cache
from importlib.resources import files
from itertools import product

METHODS = ("sghmc", "sgnht", "ccadl", "mccadl")


@cache
def read_tables() -> dict[str, list[list[float]]]:
    """Return the rows of the paper's tables by data set: the step size, then the methods at A = 1 and at A = 10."""
    return tomllib.loads(files("isotherm.paper.experiments").joinpath("printed.toml").read_text(encoding="utf-8"))


def losses(dataset: str) -> dict[tuple[str, float, float], float]:
    """Return every number that the paper prints for a data set, by (method, step size, friction)."""
    return {
        (method, step_size, friction): loss
        for step_size, *row in read_tables().get(dataset, ())
        for (friction, method), loss in zip(product((1.0, 10.0), METHODS), row, strict=True)
    }
