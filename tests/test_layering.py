"""Data flow one way: a package imports those before it, nobody imports the package root, and what passes between
packages has a type, so that nothing is called back through `Any`."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import isotherm

SRC = Path(isotherm.__file__).parent
# In the order in which data walk: a package imports those before it, never those after it.
PACKAGES = [
    "lib", "data", "posterior", "targets", "dynamics", "samplers", "diagnostics", "store", "run", "models", "predict",
    "report", "estimators", "bridges", "tables", "paper", "cli",
]  # fmt: skip
FILES = {path: ast.parse(path.read_text()) for path in SRC.rglob("*.py")}


def package(path):
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


def test_every_package_has_its_place():
    assert {package(path) for path in FILES} - {"__init__", "__main__"} == set(PACKAGES)
    assert len(PACKAGES) <= 17


def test_packages_import_those_before_them():
    for path in FILES:
        here = package(path)
        for other, _ in imported(path):
            if here == "__init__":
                assert other == "lib"
            elif here == "__main__":
                assert other in ("lib", "cli")
            else:
                assert other, f"{path.relative_to(SRC)} imports the package root"
                assert PACKAGES.index(other) <= PACKAGES.index(here), f"{path.relative_to(SRC)} imports {other}"


def test_nothing_imports_the_paper_but_the_command_line():
    for path in FILES:
        if package(path) not in ("paper", "cli"):
            assert "paper" not in {other for other, _ in imported(path)}, f"{path.relative_to(SRC)} imports the paper"


def test_files_of_a_package_import_each_other_one_way():
    """No file imports, by way of others of its package, itself."""
    for name in PACKAGES:
        imports = {}
        for path in FILES:
            if package(path) == name:
                module = path.relative_to(SRC).with_suffix("").parts[1:]
                module = module[:-1] if module[-1:] == ("__init__",) else module
                imports[module[:1]] = imports.get(module[:1], set()) | {
                    (file,) for other, file in imported(path) if other == name and file and (file,) != module[:1]
                }
        list(TopologicalSorter(imports).static_order())  # CycleError names those that do not


# Where `Any` is what is meant: trees of the user's or the sampler's own making, functions over them, and JSON.
UNTYPED = {
    "assemble.py": {"column", "on_host"},
    "on_devices.py": {"arguments", "function", "in_specs", "out_specs", "options"},
    "loop.py": {"function", "over_chains", "arguments", "mapped"},
    "identity.py": {"params", "nest", "node", "built"},
    "header.py": {"value", "shape"},
    "checkpoint.py": {"described"},
}


def test_what_passes_between_packages_of_a_run_has_a_type():
    """A parameter or result that is `Any` could be an object of another package, called back without an import."""
    for path in [*(SRC / "run").glob("*.py"), *(SRC / "store").glob("*.py"), SRC / "run/sample.py"]:
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
