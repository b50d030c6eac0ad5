"""What an anchored posterior knows and how rows are drawn: arrays that are written once, when a run begins,
in a file of a checkpoint's format; each checkpoint has its SHA-256."""

from pathlib import Path

import jax
import numpy as np

from isotherm.data.batches import AliasTable
from isotherm.lib.types import Json
from isotherm.store import checkpoint, nested
from isotherm.store.checkpoint import damaged
from isotherm.targets.effects import groups_of
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.gaussian import make_layout
from isotherm.targets.target import Anchored, Coordinates, Findings, Target
from isotherm.targets.wide import GaussianArrays, PairTerms, Rotation, Stretch, Taylor, Wide

NAME = "constants"
WIDE = (
    "gaussian",
    "taylor",
    "rows",
    "noise",
    "largest_curvature",
    "kept_entries",
)  # of a `Wide`
CLASSES = {each.__name__: each for each in (GaussianArrays, Stretch, Rotation, PairTerms, Taylor, AliasTable)}
TABLE = ("rows.thresholds", "rows.aliases", "rows.weights")
MATRICES = ("coordinates.factor", "hessian")
ANCHOR = ("coordinates.origin", "coordinates.factor", "gradient")


def write(folder: Path, evaluation: Evaluation) -> str:
    """Write the file and return its SHA-256; "" if there is nothing to write."""
    posterior, table = evaluation.target, evaluation.table
    if isinstance(posterior, Wide):
        return write_wide(folder / NAME, posterior)
    if table is None:
        return ""
    header: Json = {}
    arrays = dict(zip(TABLE, map(np.asarray, table), strict=True))
    if isinstance(posterior, Anchored):
        header = {"findings": {name: float(value) for name, value in posterior.findings._asdict().items()}}
        known = (*posterior.coordinates, posterior.gradient)
        arrays |= dict(zip(ANCHOR, map(np.asarray, known), strict=True))
        if posterior.hessian is not None:
            arrays["hessian"] = np.asarray(posterior.hessian)
    return checkpoint.write(folder / NAME, header, arrays)


def read(folder: Path, sha256: str, posterior: Target, parameters: int) -> tuple[Target, AliasTable | None]:
    """Return the target of the run, made of the user's posterior, and its row probabilities."""
    plain = posterior.plain
    if not sha256:
        return plain, None
    path = folder / NAME
    header, stored = checkpoint.read(path, sha256)
    if "wide" in header:
        return read_wide(path, header, stored, plain, parameters)
    rows, d = stored[TABLE[0]].size if TABLE[0] in stored else 0, parameters
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(TABLE, (rows,))
    if "findings" in header:
        for name in (*ANCHOR, *(name for name in stored if name == "hessian")):
            shapes[name] = (d, d) if name in MATRICES else (d,)
    if {name: array.shape for name, array in stored.items()} != shapes or stored[TABLE[1]].dtype != np.int32:
        raise damaged(path, "its arrays do not have the shapes that they must have")
    if rows and not 0 <= stored[TABLE[1]].min() <= stored[TABLE[1]].max() < rows:
        raise damaged(path, "it names rows that are not there")
    device = {name: jax.device_put(np.array(array)) for name, array in stored.items()}
    table = AliasTable(*(device[name] for name in TABLE))
    if "findings" not in header:
        return plain, table
    found = header["findings"]
    if not isinstance(found, dict) or {n: type(x) for n, x in found.items()} != dict.fromkeys(Findings._fields, float):
        raise damaged(path, "what was found on the way to the anchor is missing")
    origin, factor, gradient = (device[name] for name in ANCHOR)
    arrays = {"gradient": gradient, "hessian": device.get("hessian"), "rows": table}
    coordinates = Coordinates(origin, factor)
    return Anchored(**vars(plain), coordinates=coordinates, **arrays, findings=Findings(**found)), table


def write_wide(path: Path, target: Wide) -> str:
    """Write what the anchored posterior of a model with effects knows."""
    arrays: dict[str, np.ndarray] = {}
    nest = {name: nested.pack(getattr(target, name), name, arrays) for name in WIDE}
    findings = {name: float(value) for name, value in target.findings._asdict().items()}
    return checkpoint.write(path, {"wide": nest, "population": target.population, "findings": findings}, arrays)


def read_wide(
    path: Path, header: Json, stored: dict[str, np.ndarray], plain: Target, parameters: int
) -> tuple[Target, AliasTable | None]:
    """Return the anchored posterior of a model with effects, and its row probabilities."""
    try:
        fields: Json = {name: nested.unpack(header["wide"][name], stored, CLASSES) for name in WIDE}
        findings = Findings(**header["findings"])
        population = int(header["population"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, "what an anchored posterior with effects knows is not complete") from error
    if not groups_of(plain):
        raise ValueError(f"{path.parents[1]} was made with effects; give the posterior with its effects")
    layout = make_layout(plain, plain.unravel(jax.numpy.zeros(parameters, fields["gaussian"].g.dtype)))
    target = Wide(**vars(plain), layout=layout, population=population, findings=findings, **fields)
    return target, target.rows
