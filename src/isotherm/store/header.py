"""What a checkpoint says of its run: the one place where this is made, written as JSON, and read with suspicion."""

import dataclasses
from dataclasses import dataclass
from typing import Any, get_origin

from isotherm.data.batches import Batches
from isotherm.lib.types import Json

PLAN = {"steps": int, "burn_in": int, "thin": int}
GOAL = {"ess", "most_steps", "seconds"}


@dataclass(frozen=True)
class Header:
    """The run, in values that JSON has (`identity` makes and compares most of them), and where it stands."""

    sampler: Json
    batches: Batches
    plan: Json  # steps, burn_in and thin
    chains: int
    seed: int
    name: str | None
    layout: Json
    data: list[Json]
    model: Json
    numerics: Json
    versions: Json
    chunk: int  # how many draws a chunk of an array on disk holds
    constants: str = ""  # SHA-256 of the file of constants (constants.py), if there is one
    notes: Json = dataclasses.field(default_factory=dict)  # for the attributes of the results
    goal: Json = dataclasses.field(default_factory=dict)  # of a run that goes on until it is met
    serial: int = -1  # of the checkpoint; before the first, −1
    step: int = 0
    seconds: float = 0.0
    draws: int = 0
    digests: dict[str, str] = dataclasses.field(default_factory=dict)  # SHA-256 of each whole chunk, by file

    def to_json(self) -> Json:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"plan": dict(self.plan), "batches": dataclasses.asdict(self.batches)}

    @classmethod
    def from_json(cls, content: Json) -> "Header":
        """ValueError says where the content is not that of a header, or its sizes do not fit together."""
        if fault := unlike(content, SHAPE, "header"):
            raise ValueError(fault)
        if not (content["chunk"] and content["plan"]["thin"] and content["batches"]["size"]):
            raise ValueError("a size in it is zero")
        known = {name: content[name] for name in SHAPE}
        known |= {name: content.get(name, default) for name, default in OPTIONAL.items()}
        if fault := unlike(known, OPTIONAL_SHAPE, "header") or goal_fault(known["goal"]):
            raise ValueError(fault)
        known["plan"] = {name: content["plan"][name] for name in PLAN}
        known["batches"] = Batches(*(content["batches"][name] for name in SHAPE["batches"]))
        return cls(**known, name=content["name"] if isinstance(content.get("name"), str) else None)


# What the JSON must hold: a type, a list of one kind, or an object with at least these entries. Integers are ≥ 0.
# Of most fields the annotation says it; `name` may be missing.
OPTIONAL: Json = {"constants": "", "notes": {}, "goal": {}}  # not in files of the first 0.2.0
OPTIONAL_SHAPE: Json = {"constants": str, "notes": dict, "goal": dict}
SHAPE: Json = {
    field.name: get_origin(field.type) or field.type
    for field in dataclasses.fields(Header)
    if field.name not in {"name", *OPTIONAL}
} | {
    "plan": PLAN,
    "batches": Batches.__annotations__,
    "sampler": {"name": str, "settings": dict},
    "layout": {"leaves": [{"name": str, "shape": [int], "dtype": str}]},
    "data": [{"name": str, "shape": [int], "dtype": str, "sha256": str}],
    "model": {"log_likelihood": [[float]], "log_prior": [float]},
}


def goal_fault(goal: Json) -> str | None:
    """What is wrong with a stored goal."""
    fine = not goal or (
        set(goal) == GOAL
        and all(type(goal[name]) in (int, float) for name in ("ess", "most_steps"))
        and type(goal["seconds"]) in (int, float, type(None))
    )
    return None if fine else f"header.goal is {str(goal)[:60]}"


def unlike(value: Any, shape: Any, where: str) -> str | None:
    """Where `value` first differs from what `SHAPE` asks for."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not shape.keys() <= value.keys():
            return f"{where} is not an object with {', '.join(shape)}"
        return next(filter(None, (unlike(value[key], shape[key], f"{where}.{key}") for key in shape)), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is not a list"
        return next(filter(None, (unlike(each, shape[0], f"{where}[]") for each in value)), None)
    if type(value) is not shape or (shape is int and value < 0):
        return f"{where} is {str(value)[:40]}"
    return None
