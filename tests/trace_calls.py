"""Trace a tiny run: `python tests/trace_calls.py sample` or `table` prints the files of the package whose functions run
(imports apart), and each call that goes against the order of imports.

`sample` is `isotherm.sample(..., store=)`, `table` is `isotherm fit TABLE --target COLUMN`. A call goes against the
order when the file of its caller comes before that of the function called: its package is further left, or the file
called imports it. The caller is the nearest frame of the package, whatever library is in between; a lambda or a
comprehension belongs to the function that it is written in. Two kinds of call are declared, and not counted: the
densities of a model, which are the user's, whoever wrote them; and the flows that a sampler gives, one for each letter
of its scheme, to the function that makes a step of them.
"""

import argparse
import ast
import importlib
import json
import os
import pkgutil
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

import isotherm
from test_layering import FILES, PACKAGES, SRC, package

MODELS = ("models",)  # where densities are written
COMPOSER = ("dynamics/flows.py", "run")  # which calls the flows of a sampler
INLINE = re.compile(r"(\.<locals>)?\.<(lambda|listcomp|setcomp|dictcomp|genexpr)>")


@dataclass
class Trace:
    files: set[str] = field(default_factory=set)
    calls: set[tuple[str, str, str, str]] = field(default_factory=set)  # file and function of the caller, of the called

    def see(self, frame: FrameType, event: str, argument: object) -> None:
        """What `sys.setprofile` calls."""
        if event != "call" or not (callee := place(frame)):
            return
        self.files.add(callee[0])
        caller = frame.f_back
        while caller is not None and not place(caller):
            caller = caller.f_back
        if caller is not None and frame.f_code.co_name != "<genexpr>":  # whoever asks for its next item
            self.calls.add((*place(caller), *callee))

    def upward(self) -> list[str]:
        imports = imported_files()
        against = (call for call in self.calls if comes_before(call[0], call[2], imports))
        undeclared = (call for call in against if not call[2].startswith(MODELS) and call[:2] != COMPOSER)
        return sorted(f"{a}:{f} → {b}:{g}" for a, f, b, g in undeclared)


def place(frame: FrameType) -> tuple[str, str] | None:
    """The file in the package and the function that a frame runs; None for other libraries."""
    path = frame.f_code.co_filename
    if not path.startswith(str(SRC) + os.sep) or frame.f_code.co_name == "<module>":
        return None
    return path[len(str(SRC)) + 1 :], INLINE.sub("", frame.f_code.co_qualname)


def imported_files() -> dict[str, set[str]]:
    """For each file the files of its package that it imports, directly or by way of others."""
    names = {str(path.relative_to(SRC)) for path in FILES}
    direct: dict[str, set[str]] = {name: set() for name in names}
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("isotherm."):
                parts = node.module.split(".")[1:]
                modules = ["/".join(parts), *("/".join([*parts, alias.name]) for alias in node.names)]
                found = {f"{name}.py" for name in modules} & names
                direct[str(path.relative_to(SRC))] |= {name for name in found if package(SRC / name) == package(path)}
    reached = {}
    for name in names:
        found, todo = set(), [name]
        while todo:
            new = direct[todo.pop()] - found
            found |= new
            todo += new
        reached[name] = found
    return reached


def comes_before(first: str, second: str, imports: dict[str, set[str]]) -> bool:
    order = ["__init__", *PACKAGES, "__main__"]
    left, right = (order.index(package(SRC / name)) for name in (first, second))
    return left < right or (left == right and first in imports[second])


def traced(action: Callable[[], object]) -> Trace:
    for module in pkgutil.walk_packages([str(SRC)], "isotherm."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in isotherm.__all__:
        getattr(isotherm, name)
    trace = Trace()
    threading.setprofile(trace.see)
    sys.setprofile(trace.see)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


def sample() -> None:
    x = np.random.default_rng(0).normal(size=200).astype(np.float32)
    posterior = isotherm.Posterior(lambda theta, x: -((x - theta) ** 2) / 2, lambda theta: -(theta**2) / 2)
    sampler = isotherm.eccadl(friction=1.0)
    isotherm.sample(posterior, sampler, x, np.float32(0), batch_size=20, steps=400, store="run.zarr", progress=False)


def table() -> None:
    from isotherm.cli.app import app

    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=400), rng.choice(["red", "blue"], 400)
    y = rng.random(400) < 1 / (1 + np.exp(-x - (kind == "red")))
    lines = ["x,kind,bought", *(f"{a:.3f},{b},{'yes' if c else 'no'}" for a, b, c in zip(x, kind, y, strict=True))]
    Path("table.csv").write_text("\n".join(lines) + "\n")
    app(
        ["fit", "table.csv", "--target", "bought", "--run", "run.zarr", "--ess", "50", "--chains", "2"],
        standalone_mode=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=["sample", "table"])
    parser.add_argument("--json", help="write files and upward calls to this file instead")
    arguments = parser.parse_args()
    target = arguments.json and Path(arguments.json).absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        trace = traced({"sample": sample, "table": table}[arguments.run])
        os.chdir("/")
    files, upward = sorted(trace.files), trace.upward()
    if target:
        target.write_text(json.dumps({"files": files, "upward": upward}))
    else:
        print(*files, "", *upward, "", f"{len(files)} files, {len(upward)} calls against the order", sep="\n")


if __name__ == "__main__":
    main()
