"""`pip install isotherm` without extras: what it brings, that it samples with that, and what it says of the rest."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import isotherm
from isotherm.lib.optional import MissingExtraError, extra, require

SRC = Path(isotherm.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
MOST_PACKAGES = 28
# Rooms that are an extra's as a whole: nothing else imports them but when it is asked for what they do.
WHOLE = {"cli": {"typer"}, "tables": {"typer"}, "estimators": {"sklearn"}}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def core() -> set[str]:
    """The packages that isotherm needs without extras, and what those need, as they are installed here."""
    found: set[tuple[str, str]] = set()  # name, extra
    waiting = [Requirement(line) for line in PROJECT["dependencies"]]
    while waiting:
        one = waiting.pop()
        for wanted in {(canonical(one.name), name) for name in ("", *one.extras)} - found:
            found.add(wanted)
            needs = [Requirement(line) for line in requires(wanted[0]) or ()]
            waiting += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": wanted[1]})]
    return {name for name, _ in found}


def modules_beyond(packages: set[str]) -> list[str]:
    """What can be imported here, but not where only these packages are installed."""
    owners = {module: {canonical(name) for name in names} for module, names in packages_distributions().items()}
    ours = packages | {"isotherm", "pip", "setuptools"}
    return sorted(module for module, names in owners.items() if module.isidentifier() and not names & ours)


def test_the_core_is_lean():
    assert len(core() | {"isotherm"}) <= MOST_PACKAGES, sorted(core())


def test_only_the_core_is_imported_before_it_is_needed():
    owners, allowed = packages_distributions(), core()
    for path in SRC.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            room = path.relative_to(SRC).parts[0].removesuffix(".py")
            for module in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"isotherm"}:
                from_core = {canonical(name) for name in owners.get(module, ())} & allowed
                assert from_core or module in WHOLE.get(room, ()), f"{path.relative_to(SRC)} imports {module}"


PROGRAM = """
import json, sys, runpy, warnings
for module in json.loads(sys.argv[1]):
    sys.modules[module] = None  # an import of it then says that there is no such module
warnings.simplefilter("ignore")
import jax.numpy as jnp, numpy as np
import isotherm
from isotherm import Posterior, fit, sample, check, sgnht

rng = np.random.default_rng(0)
x = rng.standard_normal((500, 2)).astype(np.float32)
data = {"x": x, "y": x @ np.float32([1, -1]) + rng.standard_normal(500).astype(np.float32)}
posterior = Posterior(lambda t, row: -0.5 * (row["y"] - row["x"] @ t) ** 2, lambda t: -0.5 * jnp.sum(t**2))
tree = sample(posterior, sgnht(0.01), data, jnp.zeros(2), batch_size=50, steps=200, store="run.zarr", progress=False)
tree = fit(posterior, data, jnp.zeros(2), ess=100, progress=False)
verdict = check(tree, posterior, data, progress=False)
said = {}
def refused(name, function, *arguments):
    try:
        function(*arguments)
    except ModuleNotFoundError as missing:
        said[name] = str(missing)
refused("report", isotherm.report, tree)
refused("digits", isotherm.datasets.digits.load)
refused("flights", isotherm.datasets.flights.load)
try:
    runpy.run_module("isotherm", run_name="__main__")
except SystemExit as ended:
    said["isotherm"] = ended.code
print(json.dumps({"mean": tree.posterior.theta.mean(("chain", "draw")).values.tolist(), "said": said,
                  "checked": [line.name for line in verdict.table]}))
"""


@pytest.mark.slow
def test_without_extras_it_samples_and_says_what_else_needs(tmp_path):
    blocked = json.dumps(modules_beyond(core()))
    assert {"typer", "matplotlib", "sklearn", "beartype", "pyarrow"} <= set(json.loads(blocked))
    ran = subprocess.run([sys.executable, "-c", PROGRAM, blocked], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    # Five hundred rows know a coefficient to 1/√500 = 0.045; five of those.
    assert found["mean"] == pytest.approx([1, -1], abs=0.22)
    assert found["checked"]
    assert found["said"] == {
        "report": "a report needs matplotlib: pip install 'isotherm[plots]'",
        "digits": "the data set digits needs scikit-learn: pip install 'isotherm[paper]'",
        "flights": "reading flights-3m.parquet needs pyarrow: pip install 'isotherm[tables]'",
        "isotherm": "error: the command isotherm needs typer: pip install 'isotherm[cli]'",
    }


def test_a_mistake_of_ours_is_not_a_missing_extra(monkeypatch):
    with pytest.raises(ModuleNotFoundError) as caught, extra("plots", "a picture"):
        import isotherm.no_such_room  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"a picture needs matplotlib: pip install 'isotherm\[plots\]'"):
        require("matplotlib", "plots", "a picture")


def test_every_extra_that_is_named_exists():
    code = "\n".join(path.read_text() for path in SRC.rglob("*.py"))
    asked = set(re.findall(r"extra\(\"(\w+)\", ", code)) | set(re.findall(r"require\(\"\w+\", \"(\w+)\", ", code))
    assert asked >= {"cli", "paper", "plots", "tables"}
    assert asked | set(re.findall(r"isotherm\[(\w+)\]", code)) <= set(PROJECT["optional-dependencies"])
