"""The paper's numbers (printed.toml): posterior expected log losses, by (method, step size, friction)."""

import tomllib
from importlib.resources import files
from itertools import product

METHODS = ("sghmc", "sgnht", "ccadl", "mccadl")
TABLES = tomllib.loads(files("isotherm.paper.experiments").joinpath("printed.toml").read_text(encoding="utf-8"))


def losses(dataset: str) -> dict[tuple[str, float, float], float]:
    """Return every number that the paper prints for a data set, by (method, step size, friction)."""
    return {
        (method, step_size, friction): loss
        for step_size, *row in TABLES.get(dataset, ())
        for (friction, method), loss in zip(product((1.0, 10.0), METHODS), row, strict=True)
    }
