"""Data walks one way: a room imports rooms on its left, and nobody imports the package root."""

import ast
from pathlib import Path

import isotherm

SRC = Path(isotherm.__file__).parent
WALK = [
    "version", "types", "threefry", "kernel", "arguments", "datasets", "batches", "posterior", "problem", "flows",
    "tridiagonal", "expm", "splitting", "covariance", "samplers", "loop", "store", "results", "progress", "lanes",
    "driver",    "stepsize", "diagnostics", "models", "estimators", "plots", "report", "experiments", "cli",
]  # fmt: skip


def room(path):
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(path):
    """The rooms that a file imports, "" for the package root."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            inside = [f"isotherm.{alias.name}" for alias in node.names]
            names = inside if node.module == "isotherm" else [node.module]
        for name in names:
            if name.split(".")[0] == "isotherm":
                yield [*name.split("."), ""][1]


def test_every_room_is_on_the_walk():
    rooms = {room(path) for path in SRC.rglob("*.py")} - {"__init__"}
    assert rooms <= set(WALK)


def test_rooms_know_only_those_on_their_left():
    for path in SRC.rglob("*.py"):
        here = room(path)
        for other in imported(path):
            if here == "__init__":
                assert other == "version"
            else:
                assert other, f"{path.relative_to(SRC)} imports the package root"
                assert WALK.index(other) <= WALK.index(here), f"{path.relative_to(SRC)} imports {other}"


def test_no_drawer_for_odds_and_ends():
    assert not [path for path in SRC.rglob("*.py") if path.stem in {"utils", "helpers", "misc", "common"}]
