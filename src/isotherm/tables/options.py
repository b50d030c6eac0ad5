"""The options of `isotherm fit`: from flags, from a TOML file, or by default; each checked in words."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from isotherm.tables.columns import quoted
from isotherm.tables.recipe import MODELS, RULES


@dataclass(frozen=True)
class Options:
    """`isotherm fit --help` says what each is."""

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
    prior_scale: float = 1.0
    hidden: int = 20
    ess: int = 400
    seconds: float = 0.0
    chains: int = 4
    interval: float = 0.95
    seed: int = 0
    run: str = ""
    report: str = ""


TYPES: dict[str, type] = {field.name: type(field.default) for field in fields(Options)}
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


def make(given: Mapping[str, Any], config: Path | None) -> Options:
    """The options: flags that were given (others are None) go before the file, and the file before the defaults."""
    flags = {name: _value(name, value) for name, value in given.items() if value is not None}
    for name, value in flags.items():
        if sentence := _wrong(name, value):
            raise ValueError(f"--{name.replace('_', '-')} {sentence}")
    options = Options(**{**(read_toml(config) if config is not None else {}), **flags})
    if not options.table:
        raise ValueError(
            "TABLE must be given: a CSV, Parquet, .npz or LIBSVM file; or table = … in the file of --config"
        )
    return options


def read_toml(path: Path) -> dict[str, Any]:
    """The options in a file, each with the type that it must have."""
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
        if name not in TYPES:
            near = difflib.get_close_matches(name, TYPES, 1, 0.5)
            known = ", ".join(each.replace("_", "-") for each in TYPES)
            hint = f"did you mean {near[0].replace('_', '-')!r}?" if near else f"there are {known}"
            raise ValueError(f"{where}: there is no option {quoted(key)}; {hint}")
        found[name] = _value(name, value)
        if sentence := _wrong(name, found[name]):
            raise ValueError(f"{where}: {key} {sentence}")
    return found


def line_of(text: str, key: str) -> int:
    """The number of the line in which a key of TOML is given a value, or begins a table."""
    written = rf"""^\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]"""
    match = re.search(written, text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1


def _value(name: str, value: Any) -> Any:
    """The value in the type that the option has, where that loses nothing."""
    if TYPES[name] is tuple and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if TYPES[name] is tuple and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if TYPES[name] is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _wrong(name: str, value: Any) -> str:
    """What is wrong with a value, as the rest of a sentence; nothing if it is right."""
    kind = TYPES[name]
    right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if not right:
        return f"must be {WORDS[kind]}, got {value!r}"
    if name in CHOICES and value not in CHOICES[name]:
        near = difflib.get_close_matches(value, CHOICES[name], 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"must be one of {', '.join(CHOICES[name])}, got {value!r}{hint}"
    if name in RANGES:
        low, high, words = RANGES[name]
        if not low <= value <= high:
            return f"must be {words}, got {value!r}"
    if name == "delimiter" and value and len(MARKS.get(value, value)) != 1:
        return f"must be one character, or one of {', '.join(list(MARKS)[2:])}, tab, got {value!r}"
    return ""
