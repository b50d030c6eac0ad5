"""One case in a process of its own: what it did, and how the process that runs it is watched."""

import importlib
import multiprocessing
import os
import re
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

THEMES = [
    "closures",
    "regressions",
    "distributions",
    "discrete",
    "time_series",
    "structures",
    "containers",
    "settings",
    "control_flow",
    "linear_algebra",
    "array_operations",
    "networks",
    "refused",
]
STEP_SIZES = {"sgld": 1e-5, "msgld": 1e-5, "eccadl": "auto"}
STEP_SIZE = 1e-3  # of the others
ARGUMENTS = [
    "posterior",
    "sampler",
    "data",
    "init",
    "log_likelihood",
    "log_prior",
    "step_size",
    "batch_size",
    "mass",
    "chains",
    "steps",
    "passes",
    "burn_in",
    "thin",
    "seed",
    "replace",
    "store",
    "name",
    "friction",
]
GOOD = {"runs": "ok", "refused": "refused", "skipped": "skipped"}  # the verdict that is expected


class Task(NamedTuple):
    """A model of the zoo, and how to sample it."""

    model: str
    sampler: str
    x64: bool
    chains: int


@dataclass
class Outcome:
    """What became of one case: ok, refused, skipped, TRACEBACK, ABORT or HANG."""

    model: str
    sampler: str
    x64: bool
    chains: int
    verdict: str
    words: str = ""
    expected: str = "runs"
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict == GOOD[self.expected]

    def line(self) -> str:
        words = f": {self.words}" if self.words else ""
        wrong = "" if self.is_good or self.verdict.isupper() else f"  <- expected: {self.expected}"
        way = f"{self.sampler} {'x64' if self.x64 else 'x32'} {self.chains}"
        return f"{self.model} {way} {self.verdict}{words} ({self.seconds:.1f} s){wrong}"


def load_models() -> dict[str, dict[str, Callable[[], Any]]]:
    """The zoo, and the misbehaving ones: functions that make a case, by theme and name."""
    registered = importlib.import_module("registry").MODELS
    for theme in THEMES:
        importlib.import_module(theme)
    by_theme = {theme: {} for theme in THEMES}
    for name, make in registered.items():
        by_theme[make.__module__][name] = make
    return by_theme | {"misbehaving": importlib.import_module("misbehaving").MISBEHAVING}


def run_case(task: Task, steps: int, case: Any) -> Outcome:
    """Sample, in this process."""
    if case is None:
        return Outcome(*task, "skipped", "a library that it needs is not installed", "skipped")
    expected = "refused" if task.sampler in case.refused_by else case.expected
    outcome = Outcome(*task, "ok", expected=expected)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            sizes = dict(sample(case, task.sampler, task.chains, steps).posterior.sizes)
            if sizes.get("chain") != task.chains or not sizes.get("draw"):
                outcome.verdict, outcome.words = "TRACEBACK", f"the results have the sizes {sizes}"
        except Exception as error:
            outcome.verdict, outcome.words = described(error)
    outcome.warnings = sorted({one_line(warning.message) for warning in caught})
    outcome.seconds = time.perf_counter() - began
    return outcome


def sample(case: Any, sampler: str, chains: int, steps: int) -> Any:
    import isotherm

    step_size = STEP_SIZES.get(sampler, STEP_SIZE) if case.step_size is None else case.step_size
    settings = {"steps": steps, "thin": 5, "chains": chains, "progress": False}
    settings |= {"batch_size": case.batch_size, "replace": case.replace}
    dynamics = getattr(isotherm, sampler)(step_size=step_size, mass=case.mass)
    return isotherm.sample(case.posterior, dynamics, case.data, case.init, **settings)


def described(error: Exception) -> tuple[str, str]:
    """A refusal is a ValueError or TypeError raised by a line of isotherm's, in words that name an argument."""
    import isotherm

    last = traceback.extract_tb(error.__traceback__)[-1]
    # JAX's compiled code raises without a frame of its own: the line has to be a raise.
    is_ours = last.filename.startswith(str(Path(isotherm.__file__).parent)) and (last.line or "").startswith("raise")
    names_argument = any(re.search(rf"\b{argument}\b", str(error)) for argument in ARGUMENTS)
    if isinstance(error, ValueError | TypeError) and is_ours and names_argument:
        return "refused", one_line(error)
    return "TRACEBACK", f"{type(error).__name__}: {one_line(error)} [{Path(last.filename).name}:{last.lineno}]"


def one_line(words: object) -> str:
    text = " ".join(str(words).split())
    return text if len(text) <= 400 else text[:397] + "..."


def end_with_parent() -> None:
    """A case that hangs does not outlive the run that was ended from outside."""
    multiprocessing.parent_process().join()
    os._exit(1)


def work(pipe: Any, x64: bool, errors: str) -> None:
    """A worker's life: names in, outcomes out. What it writes to the terminal goes to the file `errors`."""
    with open(errors, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    threading.Thread(target=end_with_parent, daemon=True).start()
    import jax

    jax.config.update("jax_enable_x64", x64)
    jax.config.update("jax_traceback_filtering", "off")  # so that an error's last line of code is where it was raised
    makers = {name: make for theme in load_models().values() for name, make in theme.items()}
    cases: dict[str, Any] = {}
    pipe.send("ready")
    while True:
        task, steps = pipe.recv()
        if task.model not in cases:
            cases = {task.model: makers[task.model]()}
        pipe.send(run_case(task, steps, cases[task.model]))


def work_seconds(process: int) -> float:
    """Seconds of processor time that a process has taken; those by the clock where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return time.perf_counter()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user and in system mode


class Worker:
    """One process at a time, replaced when it dies or hangs, or when a task wants the other precision."""

    def __init__(self, steps: int, limit: float) -> None:
        self.steps, self.limit = steps, limit
        self.x64 = False
        self.process: Any = None
        self.errors = tempfile.NamedTemporaryFile("r", suffix=".txt")  # noqa: SIM115  # lives as long as the worker

    def run(self, task: Task) -> Outcome:
        if self.x64 != task.x64:
            self.stop()
            self.x64 = task.x64
        if self.process is None:
            self.start()
        began = time.perf_counter()
        self.pipe.send((task, self.steps))
        if silence := self.silence():
            self.stop()
            return Outcome(*task, "HANG", silence, seconds=time.perf_counter() - began)
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            status = self.process.exitcode
            died = signal.Signals(-status).name if status < 0 else f"status {status}"
            words = f"{died} {self.last_words()}".strip()
            self.stop()
            return Outcome(*task, "ABORT", words, seconds=time.perf_counter() - began)

    def silence(self) -> str:
        """Empty if it answers, or dies, within the limit: of its own work, since a busy machine makes everything slow,
        and of ten times that by the clock, since a deadlock does no work. Else which of the two limits it passed."""
        first, began = work_seconds(self.process.pid), time.perf_counter()
        while not self.pipe.poll(1.0):
            worked, waited = work_seconds(self.process.pid) - first, time.perf_counter() - began
            if worked > self.limit:
                return f"no answer after {self.limit:g} s of work"
            if waited > 10 * self.limit:
                return f"no answer in {waited:.0f} s, in which it worked {worked:.1f} s: a deadlock, or a busy machine"
        return ""

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.x64, self.errors.name), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.pipe.recv()
        except EOFError:
            raise RuntimeError(f"a worker did not start: {self.last_words()}") from None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None
        os.truncate(self.errors.name, 0)

    def last_words(self) -> str:
        """What XLA or Python wrote before the end."""
        lines = Path(self.errors.name).read_text(errors="replace").splitlines()
        told = [line for line in lines if "Check failed" in line or "Error" in line or "Fatal" in line]
        return one_line((told or lines or [""])[-1])
