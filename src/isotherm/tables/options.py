"""The options of `isotherm fit`: from flags, from a TOML file, or by default; each checked in words."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from isotherm.store.checkpoint import check_new
from isotherm.tables.columns import quote
from isotherm.tables.recipe import MODELS, RULES


@dataclass(frozen=True)
class TableOptions:
    """`isotherm fit --help` says what each is; 0 stands for the model's own prior, and for no end of the time."""

    table: str = ""
    target: str = ""
    model: str = ""
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ignore_constant: bool = False
    missing: str = "error"
    na: tuple[str, ...] = ()
    delimiter: str = ""
    holdout: float = 0.2
    test: str = ""
    prior_scale: float = 0.0
    hidden: int = 20
    ess: int = 400
    seconds: float = 0.0
    chains: int = 4
    interval: float = 0.95
    seed: int = 0
    run: str = ""
    report: str = ""

    @property
    def run_folder(self) -> Path:
        """The folder of the run; beside the report, and named after the table, unless said otherwise."""
        return Path(self.run or f"{Path(self.table).name.split('.')[0] or 'table'}.zarr")

    @property
    def report_file(self) -> Path:
        return Path(self.report) if self.report else self.run_folder.with_suffix(".html")

    @property
    def mark(self) -> str | None:
        """The character between the cells of a CSV, if it is given."""
        return MARKS.get(self.delimiter, self.delimiter) or None


KINDS: dict[str, type] = {field.name: type(field.default) for field in fields(TableOptions)}
WORDS = {str: "a text", float: "a number", int: "a whole number", bool: "true or false", tuple: "a list of texts"}
CHOICES = {"model": MODELS, "missing": RULES}
RANGES = {
    "holdout": (0.0, 0.9, "between 0 and 0.9"),
    "prior_scale": (1e-6, 1e6, "positive"),
    "hidden": (1, 10_000, "at least 1"),
    "ess": (10, 1_000_000, "at least 10"),
    "seconds": (0.0, 1e9, "positive"),
    "chains": (1, 1000, "at least 1"),
    "interval": (0.01, 0.999, "between 0.01 and 0.999"),
    "seed": (0, 2**31 - 1, "a whole number from 0"),
}
MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


def make(given: Mapping[str, object], config: Path | None) -> TableOptions:
    """Return the options: flags that were given (others are None) go before the file, and that before the defaults."""
    flags = {
        name: check(f"--{name.replace('_', '-')}", name, value) for name, value in given.items() if value is not None
    }
    options = TableOptions(**{**({} if config is None else read_toml(config)), **flags})  # type: ignore[arg-type]
    if not options.table:
        raise ValueError(
            "TABLE must be given: a CSV, Parquet, .npz or LIBSVM file; or table = … in the file of --config"
        )
    try:
        check_new(options.run_folder)
    except ValueError as fault:
        raise ValueError(str(fault).replace("store=", "--run ")) from None
    return options


def read_toml(path: Path) -> dict[str, object]:
    """Return the options in a file, each with the type that it must have."""
    try:
        text = path.read_bytes().decode()
        content = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8, as TOML must be") from None
    except tomllib.TOMLDecodeError as fault:
        raise ValueError(f"{path} is not TOML: {fault}") from None
    except RecursionError:
        raise ValueError(f"{path} is not TOML for options: it is nested too deeply") from None
    found = {}
    for key, value in content.items():
        name, where = key.replace("-", "_"), f"{path}, line {line_of(text, key)}"
        if name not in KINDS:
            known = [each.replace("_", "-") for each in KINDS]
            hint = nearest(name.replace("_", "-"), known) or f"; there are {', '.join(known)}"
            raise ValueError(f"{where}: there is no option {quote(key)}{hint}")
        found[name] = check(f"{where}: {key}", name, value)
    return found


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the end of a sentence with the known word that is most like this one, if any is."""
    return "".join(f"; did you mean {each!r}?" for each in difflib.get_close_matches(word, known, 1, 0.5))


def line_of(text: str, key: str) -> int:
    """Return the number of the line in which a key of TOML is given a value, or begins a table."""
    written = rf"""^\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]"""
    match = re.search(written, text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1


def check(label: str, name: str, value: object) -> object:
    """Return a value in the type that the option has, or raise a sentence that begins with `label`."""
    kind, given = KINDS[name], value
    if kind is tuple and isinstance(value, str):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    elif kind is tuple and isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = tuple(value)
    elif kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"{label} must be {WORDS[kind]}, got {given!r}")
    if isinstance(value, str) and name in CHOICES and value not in CHOICES[name]:
        known = CHOICES[name]
        raise ValueError(f"{label} must be one of {', '.join(known)}, got {given!r}{nearest(value, known)}")
    if isinstance(value, int | float) and name in RANGES and not RANGES[name][0] <= value <= RANGES[name][1]:
        raise ValueError(f"{label} must be {RANGES[name][2]}, got {value!r}")
    if isinstance(value, str) and name == "delimiter" and value and len(MARKS.get(value, value)) != 1:
        marks = ", ".join(list(MARKS)[2:])
        raise ValueError(f"{label} must be one character, or one of {marks}, tab, got {value!r}")
    return value
