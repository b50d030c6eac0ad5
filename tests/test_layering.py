"""Data walks one way: a room imports rooms on its left, nobody imports the package root, and what passes between rooms
has a type, so that nothing is called back through `Any`."""

import ast
from pathlib import Path

import isotherm

SRC = Path(isotherm.__file__).parent
WALK = [
    "version", "extras", "types", "threefry", "files", "arguments", "mistakes", "bars", "columns", "processes",
    "datasets", "models", "alias", "batches", "posterior", "shards", "anchored", "dynamics", "samplers", "diagnostics",
    "run", "store", "anchoring", "stepping", "sampling", "checking", "predicting", "fitting", "estimators", "page",
    "plots", "reporting", "bridges", "tables", "experiments", "cli", "__main__",
]  # fmt: skip
# Inside the two rooms that a run's data cross, the order of the files is the walk too.
RUN = [
    "plan", "goal", "names", "doubts", "tables", "evaluation", "checks", "problem", "blocks", "loop", "foresight",
    "forecast", "feed", "chains", "spread", "labels", "recorder", "signals", "noise", "execute",
]  # fmt: skip
STORE = ["disk", "arrays", "checkpoint", "constants", "identity", "header", "folder", "recorder", "resume"]
FILES = {path: ast.parse(path.read_text()) for path in SRC.rglob("*.py")}


def room(path):
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(path):
    """The modules of isotherm that a file imports, without the first part of their names."""
    for node in ast.walk(FILES[path]):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            is_package = (SRC.parent / Path(*node.module.split(".")) / "__init__.py").exists()
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inside if is_package and node.module.split(".")[0] == "isotherm" else [node.module]
        for name in names:
            if name.split(".")[0] == "isotherm":
                yield [*name.split(".")[1:], "", ""][:2]


def test_every_room_is_on_the_walk():
    assert {room(path) for path in FILES} - {"__init__"} == set(WALK)
    for name, order in (("run", RUN), ("store", STORE)):
        assert {path.stem for path in (SRC / name).glob("*.py")} - {"__init__"} == set(order)


def test_rooms_know_only_those_on_their_left():
    for path in FILES:
        here = room(path)
        for other, _ in imported(path):
            if here == "__init__":
                assert other == "version"
            else:
                assert other, f"{path.relative_to(SRC)} imports the package root"
                assert WALK.index(other) <= WALK.index(here), f"{path.relative_to(SRC)} imports {other}"


def test_files_of_a_run_know_only_those_on_their_left():
    for name, order in (("run", RUN), ("store", STORE)):
        for path in (SRC / name).glob("*.py"):
            for other, file in imported(path):
                if other == name and path.stem != "__init__":
                    assert order.index(file) < order.index(path.stem), f"{path.relative_to(SRC)} imports {name}.{file}"


# Where `Any` is what is meant: trees of the user's or the sampler's own making, functions over them, and JSON.
UNTYPED = {
    "checks.py": {"tree", "as_arrays", "leaf", "_as_array", "both", "position"},
    "names.py": {"node", "listed"},
    "tables.py": {"tree", "table", "column"},
    "problem.py": {"init", "flattening", "column", "on_host"},
    "spread.py": {"arguments", "function", "in_specs", "out_specs", "options"},
    "foresight.py": {"jaxpr", "equation", "program", "atom", "value"},  # JAX's programs and what they compute
    "loop.py": {"function", "over_chains", "arguments", "mapped"},
    "identity.py": {"params", "nest", "node", "built"},
    "header.py": {"value", "shape"},
    "checkpoint.py": {"described"},
}


def test_what_passes_between_the_rooms_of_a_run_has_a_type():
    """A parameter or result that is `Any` could be an object of another room, called back without an import."""
    for path in [*(SRC / "run").glob("*.py"), *(SRC / "store").glob("*.py"), SRC / "sampling.py"]:
        for function in ast.walk(FILES[path]):
            if not isinstance(function, ast.FunctionDef):
                continue
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            arguments += [a for a in (function.args.vararg, function.args.kwarg) if a]
            annotated = [(a.arg, a.annotation) for a in arguments] + [(function.name, function.returns)]
            for name, annotation in annotated:
                bare = isinstance(annotation, ast.Name) and annotation.id == "Any"
                allowed = name in UNTYPED.get(path.name, set())
                assert allowed or not bare, f"{path.relative_to(SRC)}: {function.name} has {name}: Any"


def test_no_drawer_for_odds_and_ends():
    assert not [path for path in FILES if path.stem in {"utils", "helpers", "misc", "common"}]
