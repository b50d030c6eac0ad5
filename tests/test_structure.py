"""How large the package is, by figures that should fall: each has a bound, which is today's figure, and a goal.

Who lowers a figure lowers its bound. Who adds a feature raises the bounds of lines by what it takes, and says so in the
commit. Where a figure is above its bound, the test fails and lists the places.
"""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import isotherm

BOUNDS = {  # figure: (bound, goal)
    "names at the top": (17, 17),
    "lines": (20_890, 18_470),  # 18,470 and what effects add
    "lines outside paper and tables": (15_900, 13_487),
    "lines with Any": (120, 120),
    "class names that occur twice": (0, 0),
    "functions above 60 lines": (0, 0),
    "functions above complexity 12": (0, 0),
    "functions with more than 10 arguments": (0, 0),  # but the public ones
    "docstrings in another mood": (0, 0),
    "files that sample runs": (35, 35),
    "files that fit TABLE runs": (60, 60),
    "calls of sample against the order": (3, 3),
    "calls of fit TABLE against the order": (3, 3),
}
SRC = Path(isotherm.__file__).parent
FILES = {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}
LINES = {path: path.read_text().splitlines() for path in FILES}
FUNCTIONS = [
    (path, node) for path, tree in FILES.items() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
]


def package(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def bounded(figure: str, places: list[str], size: int | None = None) -> None:
    bound, goal = BOUNDS[figure]
    found = len(places) if size is None else size
    assert goal <= bound
    assert found <= bound, f"{found} {figure}, at most {bound} (goal: {goal}):\n" + "\n".join(places)


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SRC)}:{node.lineno} {node.name}"


def test_names_at_the_top():
    bounded("names at the top", sorted({package(path) for path in FILES} - {"__init__", "__main__"}))


def test_lines():
    sizes = defaultdict(int)
    for path, lines in LINES.items():
        sizes[package(path)] += len(lines)
    places = [f"{size:6,} {name}" for name, size in sorted(sizes.items())]
    bounded("lines", places, sum(sizes.values()))
    bounded("lines outside paper and tables", places, sum(sizes.values()) - sizes["paper"] - sizes["tables"])


def test_any():
    """Where `Any` is not meant, what is passed could be anything, called back without an import."""
    places = defaultdict(int)
    for path, lines in LINES.items():
        places[package(path)] += sum(bool(re.search(r"\bAny\b", line)) for line in lines)
    bounded("lines with Any", [f"{count:4} {name}" for name, count in sorted(places.items())], sum(places.values()))


def test_one_name_for_one_class():
    places = defaultdict(list)
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SRC)))
    twice = [f"{name}: {', '.join(files)}" for name, files in sorted(places.items()) if len(files) > 1]
    bounded("class names that occur twice", twice)


def test_functions_fit_on_a_screen():
    long = [where(path, node) for path, node in FUNCTIONS if node.end_lineno - node.lineno >= 60]
    bounded("functions above 60 lines", long)


def test_few_arguments():
    """The public functions and the commands have those that a user needs."""
    many = []
    for path, node in FUNCTIONS:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        public = node.name in (*isotherm.__all__, "__init__") or package(path) == "cli"
        if len(arguments) > 10 and not public:
            many.append(where(path, node))
    bounded("functions with more than 10 arguments", many)


def ruff(*options: str) -> list[str]:
    """Where a rule finds something in the package, whatever pyproject.toml ignores."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        "concise",
        *options,
    ]
    lines = subprocess.run([*command, str(SRC)], capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if re.search(r":\d+:\d+: ", line)]


def test_complexity():
    bounded("functions above complexity 12", ruff("--select=C901", "--config=lint.mccabe.max-complexity=12"))


def test_docstrings_are_in_the_imperative():
    bounded("docstrings in another mood", ruff("--select=D401"))


@pytest.mark.slow
@pytest.mark.parametrize(("run", "name"), [("sample", "sample"), ("table", "fit TABLE")])
def test_calls_go_one_way(run, name, tmp_path):
    script, found = Path(__file__).with_name("trace_calls.py"), tmp_path / "found.json"
    subprocess.run([sys.executable, str(script), run, "--json", str(found)], check=True, capture_output=True)
    trace = json.loads(found.read_text())
    bounded(f"files that {name} runs", trace["files"])
    bounded(f"calls of {name} against the order", trace["upward"])
