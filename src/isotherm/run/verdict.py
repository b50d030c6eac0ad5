"""What a run's own numbers say against it: chains that differ, too few effective draws, a temperature or a friction
that is off. They cost nothing but the draws, and cannot see every bias (`isotherm.check` can)."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from isotherm.diagnostics.convergence import FEWEST_DRAWS, Convergence, convergence
from isotherm.diagnostics.stein import standard_errors
from isotherm.lib.types import Results
from isotherm.run.plan import R_HAT, Goal, watched
from isotherm.samplers.eccadl import DENSE_UP_TO
from isotherm.targets.parameters import entry

KRYLOV = 0.01  # the estimated error of a matrix exponential, relative to the vector it acts on
MOST_WATCHED = 256  # entries of the parameters, and
MOST_DRAWS = 4000  # draws of a chain that a warning is based on
RARE = 0.01  # how often one parameter of all may be further off by chance


class VerdictWarning(RuntimeWarning):
    """A run should not be believed as it is."""


class Bounds(NamedTuple):
    """What is good enough."""

    r_hat: float
    ess: float
    temperature: float  # by how much the kinetic temperature may be off, relatively, beside 3 standard errors
    friction: float  # by how much ξ may differ from A, beside 5 of its standard deviations


STRICT = Bounds(R_HAT, 400, 0.05, 1.0)  # for a verdict
LENIENT = Bounds(1.05, 100, 0.1, 2.0)  # for the warnings that a run gives unasked


class Line(NamedTuple):
    """One thing that was looked at: what was found, the bound, and what to change if it is bad."""

    name: str
    good: bool
    found: str
    bound: str
    advice: str = ""

    def __str__(self) -> str:
        words = f"{'ok ' if self.good else 'BAD'}  {self.name}: {self.found} (bound: {self.bound})"
        return words if self.good else f"{words}\n     {self.advice}"

    @property
    def sentence(self) -> str:
        return f"{self.name} {self.found} (bound: {self.bound}): {self.advice}"


def doubts(tree: Results, goal: Goal | None = None, found: Convergence | None = None) -> Iterator[str]:
    """A sentence for each number of a run that is off. For a run with a goal, `found` has R-hat and effective draws of
    the parameters that the goal watches; None if all chains diverged."""
    words = [] if goal is None else shortfall(tree, goal, found)
    names, draws = entries(tree, watched(sizes(tree), MOST_WATCHED, MOST_WATCHED), MOST_DRAWS)
    if draws.shape[1] >= FEWEST_DRAWS and np.isfinite(draws).all():
        lines = [*(converged(draws, names, LENIENT) if goal is None else []), *statistics(tree, LENIENT)]
        words += [line.sentence for line in lines if not line.good]
    yield from (f"do not rely on this run yet: {each}" for each in words)


def shortfall(tree: Results, goal: Goal, found: Convergence | None) -> list[str]:
    """What is missing to the goal, if anything, in a sentence."""
    if found is None or goal.is_met(found):
        return []
    words, numbers = [], watched(sizes(tree))
    if np.nanmin(found.least_ess, initial=np.inf) < goal.ess:
        worst = int(np.nanargmin(found.least_ess))
        name = entry_of(tree, int(numbers[worst]))
        words.append(f"{found.least_ess[worst]:.0f} effective draws of {name}, where {goal.ess:.0f} were asked for")
    if np.nanmax(found.r_hat, initial=1) > R_HAT:
        worst = int(np.nanargmax(found.r_hat))
        name = entry_of(tree, int(numbers[worst]))
        words.append(f"R-hat {found.r_hat[worst]:.3f} of {name}, where {R_HAT} is the bound")
    return [f"it stopped with {' and '.join(words)}; {goal.advice(int(tree.attrs['steps']))}"]


def entries(tree: Results, chosen: np.ndarray, most_draws: int | None = None) -> tuple[list[str], np.ndarray]:
    """Names of the `chosen` entries of the parameters, and their draws by (chain, draw, entry); of every k-th draw if a
    chain has more than `most_draws`."""
    names, parts, begin = list[str](), [], 0
    for (name, array), size in zip(tree["posterior"].to_dataset().data_vars.items(), sizes(tree), strict=True):
        here = chosen[(chosen >= begin) & (chosen < begin + size)] - begin
        begin += size
        every = 1 if most_draws is None else max(1, -(-array.shape[1] // most_draws))
        names += [entry(str(name), array.shape[2:], i) for i in here]
        parts.append(array[:, ::every].values.reshape(array.shape[0], -1, size)[..., here])
    return names, np.concatenate(parts, axis=2)


def entry_of(tree: Results, index: int) -> str:
    """What a user calls an entry of the flat parameters."""
    for (name, array), size in zip(tree["posterior"].to_dataset().data_vars.items(), sizes(tree), strict=True):
        if index < size:
            return entry(str(name), array.shape[2:], index)
        index -= size
    raise IndexError(f"there is no entry {index} more")


def converged(draws: np.ndarray, names: list[str], bounds: Bounds) -> list[Line]:
    """Of draws by (chain, draw, entry)."""
    if draws.shape[1] < FEWEST_DRAWS:
        return [Line("effective draws", False, f"{draws.shape[1]} draws", f"at least {bounds.ess:g}", "run longer")]
    found = convergence(draws)
    moves = (draws != draws[:1, :1]).any(axis=(0, 1))  # a NaN is never the same; what never moves has no numbers
    ess = np.where(moves, np.nan_to_num(found.least_ess), np.inf)
    r_hat = np.where(moves, np.nan_to_num(found.r_hat, nan=np.inf, posinf=np.inf), 1.0)
    fewest, largest = int(np.argmin(ess)), int(np.argmax(r_hat))
    allowed = max(bounds.r_hat, r_hat_by_chance(*draws.shape[::2]))
    advice = "run longer, or drop more as burn-in; if chains stay apart, there may be several modes"
    worst = f"{r_hat[largest]:.3f}, largest for {names[largest]}"
    least = f"{ess[fewest]:.0f}, fewest for {names[fewest]}"
    return [
        Line("R-hat", bool(r_hat[largest] <= allowed), worst, f"{allowed:.4g}", advice),
        Line("effective draws", bool(ess[fewest] >= bounds.ess), least, f"at least {bounds.ess:g}", "run longer"),
    ]


def r_hat_by_chance(chains: int, parameters: int) -> float:
    """The bound that the largest R-hat of so many parameters exceeds in a share RARE of cases where chains are right.

    R-hat compares m = 2·chains halves, also of |θ|, of which a chain has fewer effective draws than of θ. With E of
    them, R̂² is about 1 + χ²m/((m − 1)E), χ² of m − 1 degrees of freedom. E is what a verdict asks for. A bound of 1.01
    alone is too strict: two of six sets of 2,400 draws of NUTS with 30 parameters had an R-hat beyond it.
    """
    m = 2 * max(chains, 2)  # one chain is cut in four
    return float(np.sqrt(1 + chdtri(m - 1, RARE / parameters) * m / (m - 1) / STRICT.ess))


def statistics(tree: Results, bounds: Bounds) -> list[Line]:
    """What the sampler itself recorded, if it is one of ours."""
    if "sample_stats" not in tree.children:
        return []
    stats, attributes = tree["sample_stats"].to_dataset(), tree.attrs
    lines = []
    if "kinetic_temperature" in stats and stats.sizes["draw"] >= FEWEST_DRAWS:
        lines.append(temperature(stats["kinetic_temperature"].values, attributes, bounds))
    if has_friction(tree) and friction_is_known(attributes, sum(sizes(tree))):
        lines.append(friction(stats["friction"].values, attributes, sum(sizes(tree)), bounds))
    if "expm_error" in stats and (worst := float(np.nanmax(stats["expm_error"].values, initial=0))) > 0:
        advice = "raise rank, or use a smaller step_size"
        lines.append(Line("Krylov error", worst <= KRYLOV, f"{worst:.2g}", f"{KRYLOV}", advice))
    return lines


def has_friction(tree: Results) -> bool:
    """Whether there is a thermostat; SGHMC's friction is a constant."""
    return "friction" in tree["sample_stats"].to_dataset() and tree.attrs.get("sampler") != "sghmc"


def sizes(tree: Results) -> list[int]:
    """How many entries each parameter has."""
    return [math.prod(array.shape[2:]) for array in tree["posterior"].to_dataset().data_vars.values()]


class Law(NamedTuple):
    """What the mean of a statistic should be, and how far off it may be."""

    mean: float
    allowed: float


def temperature_law(values: np.ndarray, attributes: Mapping[Any, Any], bounds: Bounds) -> Law:
    """What chance does to a run that is right is allowed: errors grow with the temperature, so they are scaled to T."""
    T = float(attributes.get("sampler_temperature", 1.0))
    return Law(T, bounds.temperature * T + 3 * float(standard_errors(values)) / max(1.0, float(np.mean(values)) / T))


def temperature(values: np.ndarray, attributes: Mapping[Any, Any], bounds: Bounds) -> Line:
    law = temperature_law(values, attributes, bounds)
    mean, error = float(np.mean(values)), float(standard_errors(values))
    return Line(
        "kinetic temperature",
        abs(mean - law.mean) <= law.allowed,
        f"{mean:.3f} ± {error:.3f}, should be {law.mean:g}",
        f"{law.allowed:.3f} off",
        "the noise of the gradients is not removed; use isotherm.fit or isotherm.eccadl, larger batches or a smaller "
        "step_size",
    )


def friction_is_known(attributes: Mapping[Any, Any], entries: int) -> bool:
    """Whether A is known: where its estimate is of low rank, eCCAdL chooses A by the noise that it leaves out, and
    results have ξ alone."""
    kind = attributes.get("sampler_covariance", "auto")
    low_rank = kind == "low_rank" or (kind == "auto" and entries > DENSE_UP_TO)
    return not (
        attributes.get("sampler") == "eccadl" and attributes.get("sampler_friction", "auto") == "auto" and low_rank
    )


def friction_law(attributes: Mapping[Any, Any], entries: int, bounds: Bounds) -> Law:
    """ξ has mean A; its standard deviation is 1/√(βμ), with μ the number of parameters unless it is given."""
    given, mass = attributes.get("sampler_friction", "auto"), attributes.get("sampler_thermal_mass", "auto")
    A = 1.0 if given == "auto" else float(given)
    T, mu = float(attributes.get("sampler_temperature", 1.0)), entries if mass == "auto" else float(mass)
    return Law(A, bounds.friction * max(1.0, A) + 5 * (T / mu) ** 0.5)


def friction(values: np.ndarray, attributes: Mapping[Any, Any], entries: int, bounds: Bounds) -> Line:
    (A, off), mean = friction_law(attributes, entries, bounds), float(np.mean(values))
    low = attributes.get("sampler_friction", "auto") != "auto" and mean < A - off  # where chosen, it may be more than 1
    return Line(
        "friction",
        not low and mean <= A + off,
        f"{mean:.2f}, should be {A:g}",
        f"{off:.2f} off",
        "there is noise that the sampler does not see; use isotherm.fit, larger batches or a smaller step_size",
    )
