"""`isotherm sample` and `isotherm resume`: the models of the experiments on their data, stored as they go.

A stored run carries the name of its problem; that, looked up here, and the data are what `resume` needs.
"""

from contextlib import closing
from inspect import signature
from pathlib import Path
from typing import Any

from isotherm import samplers
from isotherm.driver import resume, sample
from isotherm.experiments import reproduce
from isotherm.experiments.settings import Task
from isotherm.store import Folder

STORED = tuple(name for name in reproduce.NAMES if name != "weak-order")  # which has no data set
SAMPLERS = sorted((name for name in samplers.__all__ if name.islower()), key=lambda name: (name != "eccadl", name))


def problems() -> dict[str, Task]:
    """What can be sampled, by the name of the data set."""
    return {task.dataset: task for name in STORED for task in reproduce.experiment(name).tasks}


def problem(name: str) -> Task:
    known = problems()
    if name not in known:
        raise ValueError(f"PROBLEM must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def begin(
    name: str, store: Path, sampler: str, step_size: str, friction: float, data_dir: Path | None, **settings: Any
) -> Any:
    """Start a run of the problem `name`; its batch size and, unless said, number of passes are the experiment's."""
    task = problem(name)
    if settings["steps"] is None and settings["passes"] is None:
        settings["passes"] = task.passes
    built = _sampler(sampler, step_size, friction)
    materials = task.load(data_dir)
    return sample(
        materials.posterior, built, materials.data, materials.init, batch_size=task.batch_size, store=store, name=name,
        **settings,
    )  # fmt: skip


def go_on(store: Path, steps: int | None, data_dir: Path | None) -> Any:
    """Go on with a run that `begin` started."""
    if not store.is_dir():
        raise ValueError(f"RUN must be a folder made by `isotherm sample`, got {str(store)!r}, which is not there")
    with closing(Folder(store, new=False)) as folder:
        name = folder.latest().header.get("name")
    if not isinstance(name, str) or name not in problems():
        raise ValueError(
            f"{store} was not started with `isotherm sample`: it has no problem's name; go on in Python, with "
            f"isotherm.resume({str(store)!r}, posterior, data)"
        )
    materials = problem(name).load(data_dir)
    return resume(store, materials.posterior, materials.data, steps=steps)


def _sampler(name: str, step_size: str, friction: float) -> Any:
    if name not in SAMPLERS:
        raise ValueError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    if step_size == "auto" and name != "eccadl":
        raise ValueError(f'--step-size must be a number for {name}, got "auto", which only eccadl has')
    try:
        size = step_size if step_size == "auto" else float(step_size)
    except ValueError:
        raise ValueError(f'--step-size must be a number or "auto", got {step_size!r}') from None
    builder = getattr(samplers, name)
    return builder(size, **({"friction": friction} if "friction" in signature(builder).parameters else {}))


def said(tree: Any, store: Path) -> str:
    """Where a run stands, in words."""
    shape = dict(tree["posterior"].sizes)
    done, steps = tree.attrs["steps_done"], tree.attrs["steps"]
    found = f"{store}: step {done:,} of {steps:,}, {shape['chain']} chains of {shape['draw']:,} draws"
    return found + (f"; go on with: isotherm resume {store}" if tree.attrs["interrupted"] else "")
